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


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_convolutional_cells_as_symbols(kind: str) -> None:
    cell = getattr(gluon.contrib.rnn, f"Conv2D{kind}Cell")((2, 4, 3), 3, 3, 3, i2h_pad=1, prefix="cell_")
    cell.initialize()
    x = nd.array(programs.draw(np.random.RandomState(0), 2, 3, 2, 4, 3))
    expected, _ = cell.unroll(3, x, merge_outputs=True)
    # the size of the batch is not known here
    graph, states = cell.unroll(3, sym.var("data"), merge_outputs=True)
    assert states[0].list_outputs() == ["cell_t2_out_output"]
    found = graph.eval(data=x, **{name: p.data() for name, p in cell.collect_params().items()})[0]
    assert np.array_equal(found.asnumpy(), expected.asnumpy())


def nodes(graph: Any) -> list[tuple[str, str]]:
    return [(node["op"], node["name"]) for node in json.loads(graph.tojson())["nodes"] if node["op"] != "null"]


def test_nodes_of_cells_have_the_names_of_mxnet() -> None:
    # as MXNet 1.9.1 writes them
    cell = gluon.contrib.rnn.LSTMPCell(3, 2, prefix="p_")
    output, _ = cell(sym.var("x"), cell.begin_state(func=sym.var))
    assert nodes(output) == [
        ("FullyConnected", "p_t0_i2h"),
        ("FullyConnected", "p_t0_h2h"),
        ("elemwise_add", "p__plus0"),
        ("SliceChannel", "p_t0_slice"),
        ("Activation", "p_t0_o"),
        ("Activation", "p_t0_f"),
        ("elemwise_mul", "p__mul0"),
        ("Activation", "p_t0_i"),
        ("Activation", "p_t0_c"),
        ("elemwise_mul", "p__mul1"),
        ("elemwise_add", "p_t0_state"),
        ("Activation", "p_activation0"),
        ("elemwise_mul", "p_t0_hidden"),
        ("FullyConnected", "p_t0_out"),
    ]
    both = rnn.BidirectionalCell(rnn.RNNCell(2, prefix="l_"), rnn.RNNCell(2, prefix="r_"))
    for length in (None, sym.var("length")):
        merged, _ = both.unroll(2, sym.var("x"), merge_outputs=True, valid_length=length)
        assert [name for kind, name in nodes(merged) if kind == "Concat"] == ["bi_out"]
    steps, _ = both.unroll(2, sym.var("x"), merge_outputs=False)
    assert [step.name for step in steps] == ["bi_t0", "bi_t1"]
    layer = rnn.LSTM(2, prefix="lstm_")
    assert [name for kind, name in nodes(layer(sym.var("x"))) if kind == "_zeros"] == ["lstm_h0_0", "lstm_h0_1"]


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


def test_exported_parameters_are_in_the_order_of_the_graph(tmp_path: Path) -> None:
    layer = nn.HybridSequential(prefix="net_")
    with layer.name_scope():
        layer.add(rnn.GRU(3), nn.BatchNorm(), nn.Dense(2))
    layer.initialize()
    layer.hybridize()
    layer(nd.ones((2, 1, 4)))
    path = str(tmp_path / "net")
    layer.export(path)
    names = [
        *["arg:net_gru0_l0_i2h_weight", "arg:net_gru0_l0_h2h_weight"],
        *["arg:net_gru0_l0_i2h_bias", "arg:net_gru0_l0_h2h_bias"],
        *["arg:net_batchnorm0_gamma", "arg:net_batchnorm0_beta"],
        *["aux:net_batchnorm0_running_mean", "aux:net_batchnorm0_running_var"],
        *["arg:net_dense0_weight", "arg:net_dense0_bias"],
    ]
    assert list(nd.load(f"{path}-0000.params")) == names
    again = gluon.SymbolBlock.imports(f"{path}-symbol.json", "data", f"{path}-0000.params")
    again.hybridize()
    again(nd.ones((2, 1, 4)))
    again.export(path)
    assert list(nd.load(f"{path}-0000.params")) == names


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_types_of_parameters_follow_from_inputs(dtype: str) -> None:
    x = sym.var("data", dtype=dtype)
    block = gluon.SymbolBlock(sym.BatchNorm(sym.FullyConnected(x, num_hidden=3, name="fc"), name="bn"), x)
    block.initialize("ones")
    assert {np.dtype(block.params[name].dtype) for name in ("fc_weight", "fc_bias")} == {np.dtype(dtype)}
    assert block(nd.ones((2, 4), dtype=dtype)).dtype == np.dtype(dtype)


def test_types_that_contradict_each_other() -> None:
    x, weight = sym.var("data", dtype="float32"), sym.var("weight", dtype="float64")
    block = gluon.SymbolBlock(sym.FullyConnected(x, weight, num_hidden=3, name="fc"), x)
    assert (block.params["weight"].dtype, block.params["fc_bias"].dtype) == (np.float64, np.float32)


def test_batch_normalization_stays_float32_in_half_precision() -> None:
    block = gluon.SymbolBlock(picture_net()(sym.var("data")), sym.var("data"))
    block.initialize()
    block(nd.ones((2, 1, 8, 8)))
    block.cast("float16")
    kept = {name for name, parameter in block.collect_params().items() if np.dtype(parameter.dtype) == np.float32}
    assert kept == {f"net_batchnorm0_{part}" for part in ("gamma", "beta", "running_mean", "running_var")}
    assert block(nd.ones((2, 1, 8, 8), dtype="float16")).dtype == np.float16
    block.cast("float64")
    assert block(nd.ones((2, 1, 8, 8), dtype="float64")).dtype == np.float64


def test_symbols_of_parameters_know_casts() -> None:
    net = nn.Dense(3, prefix="net_")
    net.initialize()
    net(sym.var("data"))
    net(nd.ones((1, 2)))
    net.cast("float64")
    net.infer_type(nd.ones((1, 2), dtype="float64"))
    block = gluon.SymbolBlock(net(sym.var("data")), sym.var("data"), params=net.collect_params())
    assert block(nd.ones((1, 2), dtype="float64")).dtype == np.float64


def test_number_of_inputs_of_a_block() -> None:
    a, b = sym.var("a"), sym.var("b")
    block = gluon.SymbolBlock(a * 2, [a, b])
    assert block(nd.ones((2,)), nd.zeros((2,))).asnumpy().tolist() == [2, 2]
    assert block(sym.var("c"), b).list_arguments() == ["c"]
    for inputs in ([nd.ones((2,))], [nd.ones((2,))] * 3, [a]):
        with pytest.raises(ValueError, match=r"it has 2 inputs \('a', 'b'\), but [13] arrays or symbols were given"):
            block(*inputs)


@pytest.mark.parametrize("hybridize", [False, True])
def test_inputs_that_nothing_depends_on(hybridize: bool) -> None:
    class Masked(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.weight = self.params.get("weight", shape=(3, 0), init="ones", allow_deferred_init=True)

        def hybrid_forward(self, F: Any, x: Any, mask: Any, weight: Any) -> Any:
            return F.FullyConnected(x, weight, no_bias=True, num_hidden=3)

    block = Masked()
    block.initialize()
    block.hybridize(hybridize)
    assert block(nd.ones((1, 2)), nd.ones((1,))).asnumpy().tolist() == [[2, 2, 2]]


def test_wrong_arguments_of_layers_are_named() -> None:
    net = nn.Dense(3)
    net.initialize()
    with pytest.raises(ValueError, match="got multiple values for argument 'weight'"):
        net(nd.ones((1, 2)), nd.ones((1, 2)))


@pytest.mark.parametrize("hybridize", [False, True])
def test_operators_of_symbols_are_profiled(hybridize: bool) -> None:
    x = sym.var("data")
    block = gluon.SymbolBlock(sym.Dropout(sym.relu(sym.FullyConnected(x, num_hidden=3, name="fc"))), x)
    block.initialize()
    block(nd.ones((2, 4)))
    block.hybridize(hybridize)
    expected = nn.Dense(3, activation="relu")
    expected.initialize()
    expected(nd.ones((2, 4)))
    rows = []
    for net in (block, expected):
        with mx.profiler.profile(record_shapes=True, with_flops=True, with_modules=True) as session:
            net(nd.ones((2, 4))).wait_to_read()
        rows.append({row.key: row.flops for row in session.key_averages()})
    assert rows[0]["FullyConnected"] == rows[1]["FullyConnected"] > 0
    assert "relu" in rows[0]
    assert "Dropout" in rows[0]


def test_hybridized_blocks_describe_their_nesting(tmp_path):
    class Nested(gluon.HybridBlock):
        def hybrid_forward(self, F, x, pair, nothing=None):
            return [x + pair[0], [pair[1] * 2, x]]

    block = Nested()
    assert (block._cached_graph, block._in_format, block._out_format) == ((), None, None)
    block.hybridize()
    one = mx.nd.ones((2,))
    block(one, [one, one], None)
    assert (block._in_format, block._out_format) == ([0, [0, 0], -1], [0, [0, 0]])
    inputs, output = block._cached_graph
    assert (len(inputs), len(output.list_outputs())) == (3, 3)
    block.export(str(tmp_path / "nested"))
    names = [symbol.name for symbol in inputs]
    read = gluon.SymbolBlock.imports(str(tmp_path / "nested-symbol.json"), names)
    read._in_format, read._out_format = block._in_format, block._out_format
    first, (second, third) = read(one, [one, one], None)
    assert [first.asnumpy().tolist(), second.asnumpy().tolist(), third.asnumpy().tolist()] == [[2, 2], [2, 2], [1, 1]]


def test_a_block_of_symbols_is_exported_without_a_call(tmp_path: Path) -> None:
    data = sym.var("data")
    block = gluon.SymbolBlock(sym.FullyConnected(data, num_hidden=3, name="fc"), data)
    block.infer_shape(nd.ones((2, 4)))
    block.initialize()
    again = str(tmp_path / "again")
    block.export(again)
    copy = gluon.SymbolBlock.imports(f"{again}-symbol.json", ["data"], f"{again}-0000.params")
    np.testing.assert_array_equal(copy(nd.ones((2, 4))).asnumpy(), block(nd.ones((2, 4))).asnumpy())


def test_a_symbol_block_shares_parameters_that_are_not_learned() -> None:
    # requests as in real MXNet: the features of SSD networks with ResNet v2 begin with such a layer
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.BatchNorm(scale=False, center=False, in_channels=3), gluon.nn.Conv2D(2, 1, in_channels=3))
    data = mx.sym.var("data")
    block = gluon.SymbolBlock(net(data), data, params=net.collect_params())
    requests = [parameter.grad_req for parameter in block.collect_params().values()]
    assert requests == ["null", "null", "write", "write", "null", "null"]


def test_imported_blocks_are_replayed(tmp_path: Path) -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu", in_units=3), nn.BatchNorm(in_channels=4), nn.Dense(2, in_units=4))
    net.initialize()
    net.hybridize()
    x = mx.nd.array([[1.0, -2.0, 3.0]])
    expected = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    block = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    for _ in range(3):
        assert block(x).asnumpy().tobytes() == expected.tobytes()
    assert block._compiled is not None
    assert (block._compiled.captured, block._compiled.repeated) == (1, 2)
