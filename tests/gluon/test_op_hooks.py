"""register_op_hook: hooks see what a hybridized block computes, under MXNet's names, and change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn


def network() -> nn.HybridSequential:
    mx.random.seed(3)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(3, activation="relu"), nn.BatchNorm(), nn.Dense(1))
    net.initialize(mx.init.Xavier())
    return net


OUTPUTS = [
    ("net_dense0_fwd_output", "FullyConnected"),
    ("net_dense0_relu_fwd_output", "Activation"),
    ("net_batchnorm0_fwd_output", "BatchNorm"),
    ("net_dense1_fwd_output", "FullyConnected"),
]


def test_outputs_of_operators_are_told() -> None:
    net = network()
    seen: list[tuple[str, str, Any]] = []
    net.register_op_hook(lambda *told: seen.append(told))
    net(nd.ones((2, 4)))
    assert seen == [], "only a hybridized block has hooks of operators"
    net.hybridize()
    out = net(nd.ones((2, 4)))
    assert [told[:2] for told in seen] == OUTPUTS
    assert [told[2].shape for told in seen] == [(2, 3), (2, 3), (2, 3), (2, 1)]
    assert np.array_equal(seen[-1][2].asnumpy(), out.asnumpy())


def test_inputs_are_told_if_asked_for() -> None:
    net = network()
    net.hybridize()
    seen = []
    net.register_op_hook(lambda name, operator, array: seen.append(name), monitor_all=True)
    net(nd.ones((2, 4)))
    assert seen[:4] == [f"net_dense0_fwd_{name}" for name in ("data", "weight", "bias", "output")]
    assert [name for name in seen if name.endswith("_output")] == [name for name, _ in OUTPUTS]


def trained(with_hook: bool) -> list[bytes]:
    net = network()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    if with_hook:
        # a hook that looks at values
        net.register_op_hook(lambda name, operator, array: array.asnumpy().sum())
    data = nd.array(np.random.RandomState(0).normal(size=(5, 4)))
    for _ in range(3):
        with autograd.record():
            loss = (net(data) ** 2).sum()
        loss.backward()
        trainer.step(5)
    return [parameter.data().asnumpy().tobytes() for parameter in net.collect_params().values()]


def test_hooks_change_nothing() -> None:
    assert trained(with_hook=True) == trained(with_hook=False)


class Pair(gluon.HybridBlock):
    """A block with nested outputs."""

    def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
        return x + y, [x * y, x - y]


def test_outputs_stay_nested() -> None:
    block = Pair()
    block.hybridize()
    names: list[str] = []
    block.register_op_hook(lambda name, operator, array: names.append(operator))
    total, (product, rest) = block(nd.array([2.0]), nd.array([3.0]))
    assert [total.asscalar(), product.asscalar(), rest.asscalar()] == [5.0, 6.0, -1.0]
    assert names == ["elemwise_add", "elemwise_mul", "elemwise_sub"]


def test_hooks_of_children() -> None:
    net = nn.Sequential(prefix="outer_")
    with net.name_scope():
        net.add(nn.Dense(3), nn.HybridSequential())
        net[1].add(nn.Dense(2))
    net.initialize()
    net[1].hybridize()
    names: list[str] = []
    net.register_op_hook(lambda name, operator, array: names.append(name))
    net(nd.ones((2, 4)))
    assert [name.rpartition("_dense")[2] for name in names] == ["1_fwd_output"]


@pytest.mark.parametrize("count", [1, 2])
def test_blocks_of_symbols(count: int) -> None:
    x = mx.sym.var("x")
    outputs = [mx.sym.exp(x, name="first"), mx.sym.sin(x, name="second")][:count]
    block = gluon.SymbolBlock(outputs[0] if count == 1 else outputs, x)
    block.hybridize()
    seen: list[str] = []
    block.register_op_hook(lambda name, operator, array: seen.append(name))
    found = block(nd.array([0.0]))
    assert seen == ["first_output", "second_output"][:count]
    assert [a.asscalar() for a in (found if count == 2 else [found])] == [1.0, 0.0][:count]
