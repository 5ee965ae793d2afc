"""Blocks called with symbols: exported networks, blocks made from symbols, and shapes found by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd, sym
from phonograd.gluon import nn, rnn

from . import programs

FOLDER = Path(__file__).parent / "recorded"


@pytest.mark.parametrize("name", programs.layer_names(mx))
def test_layer_as_a_symbol(name: str) -> None:
    make, shape = programs._layers(mx)[name]
    block = make()
    x = nd.array(programs.draw(np.random.RandomState(0), *shape))
    block.initialize()
    expected = block(x)
    programs.fill(mx, block)
    expected = block(x)
    output = block(sym.var("data"))
    found = output.eval(data=x, **{n: p.data() for n, p in block.collect_params().items()})[0]
    assert np.array_equal(found.asnumpy(), expected.asnumpy())


@pytest.mark.parametrize("name", ["LSTM", "LSTM deep", "GRU", "RNN tanh"])
def test_recurrent_layer_as_a_symbol(tmp_path: Path, name: str) -> None:
    block = programs._recurrent(mx)[name]()
    x = nd.array(programs.draw(np.random.RandomState(0), 4, 5, 2))
    block.initialize()
    states = block.begin_state(4 if block._layout == "NTC" else 5)
    block.hybridize()
    expected, after = block(x, states)
    path = str(tmp_path / "net")
    block.export(path)
    names = ["data0", *[f"data{number + 1}" for number in range(len(states))]]
    other = gluon.SymbolBlock.imports(f"{path}-symbol.json", names, f"{path}-0000.params")
    found = other(x, *states)
    assert np.array_equal(found[0].asnumpy(), expected.asnumpy())
    assert len(found) == 1 + len(after)


def picture_net() -> Any:
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(
            nn.Conv2D(3, 3, activation="relu"),
            nn.BatchNorm(),
            nn.MaxPool2D(),
            nn.Flatten(),
            nn.Dense(4, activation="tanh"),
            nn.Dropout(0.5),
        )
    net.initialize()
    return net


def test_export_and_import(tmp_path: Path) -> None:
    net, path = picture_net(), str(tmp_path / "net")
    x = nd.array(programs.draw(np.random.RandomState(1), 2, 1, 8, 8))
    with pytest.raises(RuntimeError, match=r"Please first call block\.hybridize"):
        net.export(path)
    net.hybridize()
    expected = net(x)
    net.export(path, epoch=7)
    names = set(nd.load(f"{path}-0007.params"))
    assert names == {
        "aux:" + name if "running" in name else "arg:" + name
        for name in net.collect_params().keys()  # noqa: SIM118
    }
    block = gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-0007.params")
    assert np.array_equal(block(x).asnumpy(), expected.asnumpy())
    assert block.collect_params()["net_batchnorm0_running_mean"].grad_req == "null"


def test_import_can_be_trained(tmp_path: Path) -> None:
    net, path = picture_net(), str(tmp_path / "net")
    x = nd.array(programs.draw(np.random.RandomState(1), 2, 1, 8, 8))
    net.hybridize()
    net(x)
    net.export(path)
    for hybridize in (False, True):
        block = gluon.SymbolBlock.imports(f"{path}-symbol.json", "data", f"{path}-0000.params")
        block.hybridize(hybridize)
        trainer = gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.1})
        before = block.collect_params()["net_dense0_weight"].data().copy()
        for _ in range(3):
            with autograd.record():
                loss = (block(x) ** 2).sum()
            loss.backward()
            trainer.step(2)
        assert not np.array_equal(block.collect_params()["net_dense0_weight"].data().asnumpy(), before.asnumpy())
        assert block.collect_params()["net_batchnorm0_running_var"].data().asnumpy().min() != 1


def test_file_written_by_mxnet() -> None:
    wanted = json.loads((FOLDER / "exported.json").read_text(encoding="utf-8"))
    block = gluon.SymbolBlock.imports(
        str(FOLDER / "exported-symbol.json"), ["data"], str(FOLDER / "exported-0000.params")
    )
    found = block(nd.array(wanted["input"]))
    np.testing.assert_allclose(found.asnumpy(), wanted["output"], rtol=1e-5, atol=1e-6)


def test_import_without_parameters(tmp_path: Path) -> None:
    net, path = picture_net(), str(tmp_path / "net")
    net.hybridize()
    net(nd.ones((2, 1, 8, 8)))
    net.export(path)
    block = gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"])
    block.initialize()
    assert block(nd.ones((2, 1, 8, 8))).shape == (2, 4)


def test_block_of_internal_outputs() -> None:
    net = picture_net()
    net(nd.ones((2, 1, 8, 8)))
    x = sym.var("data")
    inside = net(x).get_internals()
    outputs = [inside["net_conv0_fwd_output"], inside["net_dense0_fwd_output"]]
    block = gluon.SymbolBlock(outputs, x, params=net.collect_params())
    first, second = block(nd.ones((2, 1, 8, 8)))
    assert (first.shape, second.shape) == ((2, 3, 6, 6), (2, 4))
    assert block.params["net_conv0_weight"] is net[0].weight


def test_shapes_of_a_whole_network() -> None:
    net = picture_net()
    net.infer_shape(nd.ones((2, 5, 8, 8)))
    assert net[0].weight.shape == (3, 5, 3, 3)
    assert net[1].running_var.shape == (3,)
    assert net[4].weight.shape == (4, 27)
    with pytest.raises(gluon.DeferredInitializationError):
        net[0].weight.data()


class Own(gluon.HybridBlock):
    """A layer of a user, with a weight whose shape is found in the first forward pass."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(5, 0), allow_deferred_init=True)
            self.inner = nn.Dense(2)

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        return self.inner(F.FullyConnected(x, weight, no_bias=True, num_hidden=5))


@pytest.mark.parametrize("hybridize", [False, True])
def test_deferred_parameters_of_users(hybridize: bool) -> None:
    block = Own()
    block.initialize()
    block.hybridize(hybridize)
    assert block(nd.ones((3, 7))).shape == (3, 2)
    assert block.weight.shape == (5, 7)
    assert block.inner.weight.shape == (2, 5)


def test_shapes_that_cannot_be_found() -> None:
    class Lost(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.weight = self.params.get("weight", shape=(0,), allow_deferred_init=True)

        def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
            return F.broadcast_mul(x, weight.sum())

    block = Lost()
    block.initialize()
    with pytest.raises((ValueError, AssertionError), match=r"cannot be inferred|invalid shape"):
        block(nd.ones((3, 7)))


def test_arrays_and_symbols_do_not_mix() -> None:
    class Two(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
            return x + y

    with pytest.raises(ValueError, match="mixed NDArrays and Symbols"):
        Two()(nd.ones((2,)), sym.var("y"))
    with pytest.raises(ValueError, match="there must be one NDArray or one Symbol"):
        Two()(1, 2)


def test_cells_as_symbols() -> None:
    cell = rnn.LSTMCell(3, prefix="lstm_")
    outputs, states = cell.unroll(2, [sym.var("a"), sym.var("b")], cell.begin_state(func=sym.var))
    assert outputs[1].name == "lstm_t1_out"
    assert len(states) == 2


def test_nested_outputs_of_symbols() -> None:
    x = mx.sym.var("x")
    parts = mx.sym.split(x, num_outputs=2, axis=1)
    block = gluon.SymbolBlock([parts, [x * 2], x + 1], x)
    for _ in range(3):
        (one, other), (double,), more = block(nd.array([[1, 2]]))
        assert [array.asnumpy().tolist() for array in (one, other, double, more)] == [[[1]], [[2]], [[2, 4]], [[2, 3]]]
        block.hybridize()
    (one, _), (double,), more = block(mx.sym.var("y"))
    assert [symbol.list_arguments() for symbol in (one, double, more)] == [["y"]] * 3
