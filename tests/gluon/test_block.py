"""Blocks: children, names, hooks, summaries, and errors that name what to do."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn, rnn


class Net(gluon.Block):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.first = nn.Dense(3, in_units=2)
            self.second = nn.Dense(3)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x)), self.first(x)


def test_attributes_become_children() -> None:
    net = Net(prefix="net_")
    assert list(net._children) == ["first", "second"]
    assert list(net.collect_params(".*weight")) == ["net_dense0_weight", "net_dense1_weight"]
    with pytest.raises(TypeError, match="Changing attribute type for first"):
        net.first = 3  # type: ignore[assignment]
    net.first = nn.Dense(4, in_units=2)
    assert net._children["first"] is net.first


def test_parameters_are_set_once() -> None:
    net = Net(prefix="net_")
    net.extra = net.params.get("extra", shape=(1,))
    with pytest.raises(AssertionError, match="Overriding Parameter attribute extra"):
        net.extra = net.params.get("other", shape=(1,))


def test_blocks_in_lists_are_not_children() -> None:
    net = Net()
    net.layers = [nn.Dense(2)]
    with pytest.warns(UserWarning, match='"Net.layers" is an unregistered container'):
        net.collect_params()
    net.register_child(net.layers[0])
    net.collect_params()


def test_children_of_hybrid_blocks_are_hybrid() -> None:
    with pytest.raises(ValueError, match="Children of HybridBlock must also be HybridBlock"):
        nn.HybridSequential().add(nn.Lambda(lambda x: x))  # type: ignore[arg-type]


def test_apply() -> None:
    seen: list[str] = []
    net = Net(prefix="net_")
    assert net.apply(lambda block: seen.append(block.name)) is net
    assert seen == ["net_dense0", "net_dense1", "net"]


def test_hooks() -> None:
    net, seen = Net(), []
    net.initialize()
    before = net.register_forward_pre_hook(lambda block, inputs: seen.append(("before", len(inputs))))
    with net.first.register_forward_hook(lambda block, inputs, output: seen.append(("after", output.shape))):
        net(nd.ones((1, 2)))
    before.detach()
    net(nd.ones((1, 2)))
    assert seen == [("before", 1), ("after", (1, 3)), ("after", (1, 3))]


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    net = Net(prefix="net_")
    net.initialize()
    net.summary(nd.ones((1, 2)))
    lines = capsys.readouterr().out.splitlines()
    # MXNet's columns, and then our own
    assert [line[:80] for line in (lines[1], lines[4], lines[7])] == [
        "        Layer (type)                                Output Shape         Param #",
        "             Dense-1                                      (1, 3)               9",
        "               Net-4                              (1, 3), (1, 3)               0",
    ]
    assert [line[80:].split() for line in (lines[1], lines[4], lines[7])] == [
        ["FLOPs", "Memory"],
        ["15", "12", "B"],
        ["0", "24", "B"],
    ]
    net.summary(nd.ones((1, 2)), timed=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("ms")
    assert float(lines[4].split()[-1]) >= 0
    assert "Shared params in forward computation graph: 9" in lines
    assert "Unique parameters in model: 21" in lines
    net.hybridize()
    with pytest.raises(AssertionError, match="must not be hybridized"):
        net.summary(nd.ones((1, 2)))


def test_summary_of_shared_blocks_and_nested_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    shared = nn.Dense(4, in_units=4)
    net = nn.Sequential()
    net.add(shared, shared, nn.Dense(4, params=shared.params, in_units=4))
    net.initialize()
    net.summary(nd.ones((2, 4)))
    text = capsys.readouterr().out
    # a row for each call: MXNet 1.9.1 has two for each call of a block that is a child twice
    assert [f"Dense-{number} " in text for number in (1, 2, 3, 4)] == [True, True, True, False]
    assert "Total params: 60" in text
    assert "Shared params in forward computation graph: 40" in text
    cell = rnn.LSTMCell(4, input_size=3)
    cell.initialize()
    cell.summary(nd.ones((2, 3)), [nd.ones((2, 4)), nd.ones((2, 4))])
    assert "(2, 3), [(2, 4), (2, 4)]" in capsys.readouterr().out


def test_summary_of_long_names_and_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    class BlockWithQuiteALongNameOfItsOwn(nn.Dense):
        pass

    net = BlockWithQuiteALongNameOfItsOwn(2, flatten=False)
    net.initialize()
    for timed in (False, True):
        net.summary(nd.ones((1,) * 16), timed=timed)
        lines = capsys.readouterr().out.splitlines()
        assert len({len(line) for line in lines[:6]}) == 1, "columns and rules are equally wide"
        assert lines[4].split()[-1 - timed] == "B"
    # 1 x 1 x 16 + bias
    assert "Forward pass: 6 operations" in lines


def test_sequences_of_blocks() -> None:
    for kind in (nn.Sequential, nn.HybridSequential):
        net = kind(prefix="net_")
        with net.name_scope():
            net.add(nn.Dense(4, in_units=3), nn.Dense(3, in_units=4), nn.Dense(2, in_units=3))
        net.initialize()
        assert len(net) == 3
        assert net[1]._units == net[-2]._units == 3
        assert [block._units for block in net[1:]] == [3, 2]
        x = nd.ones((1, 3))
        assert np.array_equal(net[1:](net[:1](x)).asnumpy(), net(x).asnumpy())


def test_hybridizing_a_sequence_warns() -> None:
    net = nn.Sequential()
    net.add(nn.Dense(2))
    with pytest.warns(UserWarning, match="Consider using HybridSequential"):
        net.hybridize()


def test_cast() -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(2), nn.BatchNorm(), nn.Dense(2, use_bias=False))
    net.initialize()
    net(nd.ones((2, 3)))
    net.cast("float64")
    assert net(nd.ones((2, 3), dtype="float64")).dtype == np.float64
    net.cast("float16")
    assert net[1].gamma.dtype == "float32"
    assert net[0].weight.data().dtype == np.float16


def test_what_forward_has_to_be() -> None:
    with pytest.raises(NotImplementedError, match="Block has no forward"):
        gluon.Block()(1)
    with pytest.raises(NotImplementedError, match="HybridBlock has no hybrid_forward"):
        gluon.HybridBlock()(nd.ones((1,)))


def test_copies_are_independent() -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(2, in_units=3))
    net.initialize()
    net.hybridize()
    x = nd.ones((1, 3))
    before = net(x).asnumpy()
    other = copy.deepcopy(net)
    assert np.array_equal(other(x).asnumpy(), before)
    trainer = gluon.Trainer(other.collect_params(), "sgd", {"learning_rate": 1.0})
    with autograd.record():
        y = other(x).sum()
    y.backward()
    trainer.step(1)
    assert np.array_equal(net(x).asnumpy(), before)
    assert not np.array_equal(other(x).asnumpy(), before)


def test_shared_parameters_get_the_sum_of_gradients() -> None:
    first = nn.Dense(3, in_units=3, use_bias=False)
    second = nn.Dense(3, in_units=3, use_bias=False, params=first.params)
    first.initialize(mx.init.One())
    assert second.weight is first.weight
    with autograd.record():
        y = second(first(nd.ones((1, 3)))).sum()
    y.backward()
    assert first.weight.grad().asnumpy().tolist() == [[6] * 3] * 3


def test_names_outside_of_scopes_are_numbered() -> None:
    with mx.name.NameManager():
        assert [nn.Dense(1).name for _ in range(2)] == ["dense0", "dense1"]
        with mx.name.Prefix("mine_"):
            assert nn.Dense(1).name == "mine_dense0"


def test_lambda() -> None:
    assert nn.Lambda("tanh")(nd.zeros((2,))).asnumpy().tolist() == [0, 0]
    assert repr(nn.Lambda("tanh")) == "Lambda(tanh)"
    with pytest.raises(AssertionError, match="Function name tnah is not found"):
        nn.HybridLambda("tnah")
    with pytest.raises(ValueError, match="Unrecognized function in lambda"):
        nn.Lambda(3)  # type: ignore[arg-type]


def test_concurrent() -> None:
    net = gluon.contrib.nn.HybridConcurrent(axis=1)
    net.add(nn.Dense(2), gluon.contrib.nn.Identity())
    net.initialize()
    assert net(nd.ones((3, 4))).shape == (3, 6)
    plain = gluon.contrib.nn.Concurrent(axis=0)
    plain.add(gluon.contrib.nn.Identity(), nn.Lambda(lambda x: x * 2))
    assert plain(nd.ones((1, 2))).asnumpy().tolist() == [[1, 1], [2, 2]]
