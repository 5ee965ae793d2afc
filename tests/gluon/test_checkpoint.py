"""Checkpointed blocks: the same results and gradients to the last bit, with less memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn


def network(checkpointed: bool, stages: int = 3) -> Any:
    mx.random.seed(7)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        for _ in range(stages):
            stage = nn.HybridSequential()
            with stage.name_scope():
                stage.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.Dropout(0.4))
            net.add(stage.checkpoint() if checkpointed else stage)
        net.add(nn.Dense(3))
    net.initialize(mx.init.Xavier())
    net(nd.zeros((1, 2, 6, 6))).wait_to_read()
    return net


def train(net: Any, steps: int = 3) -> dict[str, Any]:
    mx.random.seed(11)
    x = nd.random.normal(shape=(5, 2, 6, 6))
    x.attach_grad()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for _ in range(steps):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(5)
    found = {name: parameter.data().asnumpy() for name, parameter in net.collect_params().items()}
    return {**found, "x": x.grad.asnumpy(), "loss": loss.asnumpy(), "next": nd.random.uniform(shape=(3,)).asnumpy()}


@pytest.mark.parametrize("hybridized", [False, True])
def test_nothing_changes_but_memory(hybridized: bool) -> None:
    plain, saving = network(False), network(True)
    if hybridized:
        plain.hybridize()
        saving.hybridize()
    wanted, found = train(plain), train(saving)
    assert list(wanted) == list(found)
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)


def test_checkpoints_inside_of_checkpoints() -> None:
    wanted = train(network(False))
    saving = network(True)
    saving.checkpoint()
    found = train(saving)
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)


def test_second_derivatives() -> None:
    results = []
    for checkpointed in (False, True):
        mx.random.seed(3)
        block = nn.Dense(4, activation="tanh", in_units=3)
        block.initialize(mx.init.Normal(1))
        block.checkpoint(checkpointed)
        x = nd.array([[0.1, -0.3, 0.5]])
        x.attach_grad()
        with autograd.record():
            inner = x * x
            first = autograd.grad(block(inner).sum(), x, create_graph=True)[0]
            loss = (first**2).sum()
        loss.backward()
        results.append([x.grad.asnumpy(), block.weight.grad().asnumpy(), first.asnumpy()])
    for wanted, found in zip(*results):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        assert np.abs(wanted).min() > 0


def test_second_derivatives_through_checkpoints_inside_of_checkpoints() -> None:
    results = []
    for checkpointed in (False, True):
        mx.random.seed(3)
        net = nn.HybridSequential(prefix="net_")
        with net.name_scope():
            for _ in range(2):
                net.add(nn.HybridSequential())
                net[-1].add(nn.Dense(4, activation="tanh", in_units=4), nn.Dropout(0.3))
                net[-1].checkpoint(checkpointed)
        net.checkpoint(checkpointed)
        net.initialize(mx.init.Normal(1))
        x = nd.array([[0.1, 0.2, -0.3, 0.4]])
        x.attach_grad()
        with autograd.record():
            first = autograd.grad(net(x * x).sum(), x, create_graph=True)[0]
            second = autograd.grad((first**2).sum(), x, create_graph=True)[0]
            loss = (second**2).sum()
        loss.backward()
        results.append([first.asnumpy(), second.asnumpy(), x.grad.asnumpy(), net[0][0].weight.grad().asnumpy()])
    for wanted, found in zip(*results):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        assert np.abs(wanted).max() > 0


def test_nested_arguments_and_unused_inputs() -> None:
    class Cell(gluon.Block):
        def forward(self, x: Any, states: Any) -> Any:
            return x * states[0], [states[0] + x, 3]

    x, state, unused = nd.array([2.0]), nd.array([3.0]), nd.array([4.0])
    for array in (x, state, unused):
        array.attach_grad()
    with autograd.record():
        y, (z, number) = Cell().checkpoint()(x, [state, unused])
        loss = y * 10 + z
    loss.backward()
    assert number == 3
    assert [float(array.grad) for array in (x, state, unused)] == [31.0, 21.0, 0.0]


def test_outputs_that_are_inputs() -> None:
    class Pass(gluon.Block):
        def forward(self, x: Any) -> Any:
            return x, x

    x = nd.array([2.0])
    x.attach_grad()
    with autograd.record():
        first, second = Pass().checkpoint()(x)
        loss = 2 * first + 3 * second
    loss.backward()
    assert float(x.grad) == 5.0


@pytest.mark.usefixtures("planned")
def test_memory_is_saved() -> None:
    pytest.importorskip("llvmlite")
    from phonograd.core.run.memory_pool import pool

    peaks = []
    for checkpointed in (False, True):
        net = nn.Sequential()
        for _ in range(8):
            stage = nn.HybridSequential()
            stage.add(*[nn.Dense(64, activation="tanh", in_units=64) for _ in range(6)])
            net.add(stage.checkpoint(checkpointed))
        net.initialize()
        x = nd.random.normal(shape=(512, 64))
        with mx.settings.override(executor="native"):
            net(x).wait_to_read()
            before = pool.peak_bytes = pool.used_bytes
            with autograd.record():
                loss = net(x).sum()
            loss.backward()
            loss.asscalar()
        peaks.append(pool.peak_bytes - before)
    # of 48 activations, 8 stay and 6 more are computed again at a time
    assert peaks[1] < 0.5 * peaks[0], peaks
