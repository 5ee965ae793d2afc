"""``mx.memory_info``: who holds the memory of the process."""

from __future__ import annotations

import gc

import phonograd as mx
from phonograd import autograd, gluon, nd


def test_arrays_by_purpose() -> None:
    gc.collect()
    before = mx.memory_info()
    net = gluon.nn.Dense(512, in_units=512)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    data = nd.ones((64, 512))
    with autograd.record():
        loss = net(data).sum()
    loss.backward()
    trainer.step(64)
    nd.waitall()
    found = mx.memory_info()
    size = 4 * (512 * 512 + 512)
    assert found.parameters - before.parameters == size
    assert found.gradients - before.gradients == size
    assert found.optimizer - before.optimizer == 2 * size
    assert 4 * 64 * 512 <= found.arrays - before.arrays < 4 * 64 * 512 + 10_000
    assert found.peak >= before.peak
    del net, trainer, data, loss
    gc.collect()
    after = mx.memory_info()
    assert after.parameters == before.parameters
    assert after.optimizer == before.optimizer


def test_values_kept_for_a_backward_pass() -> None:
    x = nd.ones((300, 300))
    x.attach_grad()
    with autograd.record():
        y = nd.exp(nd.tanh(x) * 2).sum()
    y.wait_to_read()
    kept = mx.memory_info().recorded
    assert kept >= x.size * 4
    y.backward()
    x.grad.wait_to_read()
    del y
    gc.collect()
    assert mx.memory_info().recorded < kept


def test_it_prints_a_table_and_computes_nothing() -> None:
    pending = nd.ones((2, 2)) + 1
    text = repr(mx.memory_info())
    assert text.splitlines()[1].split() == ["held", "by", "memory"]
    assert {"parameters", "waiting", "code", "plans"} <= {line.split()[0] for line in text.splitlines()}
    assert pending._buffer is None
