"""ONNX models are accepted by ONNX's checker and compute in onnxruntime what our symbols compute."""

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd.gluon import nn, rnn

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

Symbol = Any
SEED = 7


def sym(name: str = "data") -> Symbol:
    return mx.sym.var(name)


def parameters_of(symbol: Symbol, shapes: dict[str, tuple[int, ...]], labels: bool = True) -> dict[str, mx.nd.NDArray]:
    """Return random arrays for every input of a symbol whose shape is not given."""
    random = np.random.default_rng(SEED)
    arguments, _, auxiliary = symbol.infer_shape(**shapes)
    found = {}
    names = [*zip(symbol.list_arguments(), arguments), *zip(symbol.list_auxiliary_states(), auxiliary)]
    for name, shape in names:
        if name not in shapes and not name.endswith("label"):
            values = random.normal(size=shape)
            found[name] = mx.nd.array(np.abs(values) + 0.1 if name.endswith("var") else values * 0.5)
    return found


def run(path: str, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, arrays)


def check(
    symbol: Symbol,
    shapes: dict[str, tuple[int, ...]],
    path: pathlib.Path,
    low: float = -2.0,
    high: float = 2.0,
    tolerance: float = 2e-5,
    **options: Any,
) -> str:
    """Export a symbol with random parameters and compare what it computes."""
    random = np.random.default_rng(SEED + 1)
    shapes = {name: shapes[name] for name in symbol.list_inputs() if name in shapes}
    parameters = parameters_of(symbol, shapes)
    written = mx.onnx.export_model(symbol, parameters, list(shapes.values()), np.float32, str(path), **options)
    data = {name: random.uniform(low, high, shape).astype(np.float32) for name, shape in shapes.items()}
    ours = {**parameters, **{name: mx.nd.array(array) for name, array in data.items()}}
    arguments, _, _ = symbol.infer_shape(**shapes)
    for name, shape in zip(symbol.list_arguments(), arguments):
        if name not in ours:
            ours[name] = mx.nd.zeros(shape)
    expected = symbol.eval(**ours)
    found = run(written, data)
    assert len(found) == len(expected)
    for theirs, own in zip(found, expected):
        assert theirs.shape == own.shape
        assert theirs.dtype == own.dtype
        np.testing.assert_allclose(theirs, own.asnumpy(), rtol=tolerance, atol=tolerance)
    return written


IMAGE = (2, 4, 8, 8)
UNARY = [
    "abs",
    "arctan",
    "ceil",
    "cos",
    "erf",
    "exp",
    "floor",
    "identity",
    "negative",
    "relu",
    "sigmoid",
    "sign",
    "sin",
    "softsign",
    "square",
    "tan",
    "tanh",
    "logical_not",
    "expm1",
    "arcsinh",
    "sinh",
    "cosh",
    "hard_sigmoid",
    "zeros_like",
    "ones_like",
    "BlockGrad",
    "softmin",
]
BROADCASTING = [
    "broadcast_add",
    "broadcast_sub",
    "broadcast_mul",
    "broadcast_div",
    "broadcast_maximum",
    "broadcast_minimum",
    "broadcast_mod",
    "broadcast_hypot",
    "broadcast_equal",
    "broadcast_greater",
    "broadcast_lesser_equal",
    "broadcast_logical_and",
    "broadcast_logical_xor",
]

#: one array of the named shape in, by what is shown in the name of a test
ONE_INPUT: dict[str, tuple[Callable[[Symbol], Symbol], tuple[int, ...]]] = {
    "FullyConnected": (lambda x: mx.sym.FullyConnected(x, num_hidden=3), (2, 5)),
    "FullyConnected of images": (lambda x: mx.sym.FullyConnected(x, num_hidden=3), IMAGE),
    "FullyConnected without bias": (lambda x: mx.sym.FullyConnected(x, num_hidden=3, no_bias=True), (2, 5)),
    "FullyConnected of rows": (lambda x: mx.sym.FullyConnected(x, num_hidden=3, flatten=False), (2, 4, 5)),
    "Convolution": (lambda x: mx.sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=6), IMAGE),
    "Convolution in groups": (
        lambda x: mx.sym.Convolution(
            x, kernel=(3, 2), stride=(2, 1), dilate=(1, 2), num_group=2, num_filter=6, no_bias=True
        ),
        IMAGE,
    ),
    "Convolution of rows": (lambda x: mx.sym.Convolution(x, kernel=(3,), num_filter=6), (2, 4, 9)),
    "Deconvolution": (
        lambda x: mx.sym.Deconvolution(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), adj=(1, 1), num_filter=6),
        IMAGE,
    ),
    "BatchNorm": (lambda x: mx.sym.BatchNorm(x, fix_gamma=False), IMAGE),
    "BatchNorm with fixed gamma": (lambda x: mx.sym.BatchNorm(x), IMAGE),
    "BatchNorm of the last axis": (lambda x: mx.sym.BatchNorm(x, axis=-1, fix_gamma=False), IMAGE),
    "LayerNorm": (lambda x: mx.sym.LayerNorm(x), (2, 3, 5)),
    "LayerNorm of the second axis": (lambda x: mx.sym.LayerNorm(x, axis=1), (2, 3, 5)),
    "InstanceNorm": (lambda x: mx.sym.InstanceNorm(x), IMAGE),
    "GroupNorm": (lambda x: mx.sym.GroupNorm(x, num_groups=2), IMAGE),
    "L2Normalization": (lambda x: mx.sym.L2Normalization(x), IMAGE),
    "L2Normalization of channels": (lambda x: mx.sym.L2Normalization(x, mode="channel"), IMAGE),
    "LRN": (lambda x: mx.sym.LRN(x, nsize=3), IMAGE),
    "max Pooling": (lambda x: mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2)), IMAGE),
    "max Pooling, full": (
        lambda x: mx.sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pooling_convention="full"),
        IMAGE,
    ),
    "avg Pooling": (
        lambda x: mx.sym.Pooling(x, kernel=(3, 3), stride=(1, 1), pad=(1, 1), pool_type="avg"),
        IMAGE,
    ),
    "avg Pooling without pads": (
        lambda x: mx.sym.Pooling(x, kernel=(3, 3), pad=(1, 1), pool_type="avg", count_include_pad=False),
        IMAGE,
    ),
    "sum Pooling": (lambda x: mx.sym.Pooling(x, kernel=(2, 2), pool_type="sum"), IMAGE),
    "global avg Pooling": (lambda x: mx.sym.Pooling(x, global_pool=True, pool_type="avg", kernel=(1, 1)), IMAGE),
    "global max Pooling": (lambda x: mx.sym.Pooling(x, global_pool=True, kernel=(1, 1)), IMAGE),
    "AdaptiveAvgPooling2D": (lambda x: mx.sym.contrib.AdaptiveAvgPooling2D(x, output_size=(2, 4)), IMAGE),
    "Dropout": (lambda x: mx.sym.Dropout(x), (3, 4)),
    **{
        f"Activation {kind}": (lambda x, kind=kind: mx.sym.Activation(x, act_type=kind), (3, 4))
        for kind in ("relu", "sigmoid", "softrelu", "softsign", "tanh")
    },
    **{
        f"LeakyReLU {kind}": (lambda x, kind=kind: mx.sym.LeakyReLU(x, act_type=kind)[0], IMAGE)
        for kind in ("leaky", "prelu", "elu", "selu", "gelu", "rrelu")
    },
    **{name: (lambda x, name=name: getattr(mx.sym, name)(x), (3, 4)) for name in UNARY},
    "softmax": (lambda x: mx.sym.softmax(x, axis=1, temperature=2.0), (2, 3, 4)),
    "log_softmax": (lambda x: mx.sym.log_softmax(x), (2, 3, 4)),
    "SoftmaxActivation": (lambda x: mx.sym.SoftmaxActivation(x), (2, 3)),
    "clip": (lambda x: mx.sym.clip(x, a_min=-1, a_max=0.5), (3, 4)),
    "Cast": (lambda x: mx.sym.Cast(x, dtype="int32"), (3, 4)),
    **{
        f"{name} {axis}": (lambda x, name=name, axis=axis: getattr(mx.sym, name)(x, **axis), (2, 3, 4))
        for name in ("sum", "mean", "max", "min", "prod")
        for axis in ({}, {"axis": 1}, {"axis": (0, 2), "keepdims": True}, {"axis": 1, "exclude": True})
    },
    "norm": (lambda x: mx.sym.norm(x), (2, 3, 4)),
    "norm of an axis": (lambda x: mx.sym.norm(x, ord=1, axis=1, keepdims=True), (2, 3, 4)),
    "argmax": (lambda x: mx.sym.argmax(x, axis=1), (2, 3, 4)),
    "argmin of all": (lambda x: mx.sym.argmin(x), (2, 3)),
    "topk": (lambda x: mx.sym.topk(x, k=2, axis=1, ret_typ="value"), (2, 5)),
    "Flatten": (lambda x: mx.sym.Flatten(x), IMAGE),
    "Reshape": (lambda x: mx.sym.Reshape(x, shape=(0, -1, 4)), IMAGE),
    "Reshape with codes": (lambda x: mx.sym.Reshape(x, shape=(0, -3, -2)), IMAGE),
    "transpose": (lambda x: mx.sym.transpose(x), (2, 3, 4)),
    "transpose of axes": (lambda x: mx.sym.transpose(x, axes=(0, 2, 1)), (2, 3, 4)),
    "SwapAxis": (lambda x: mx.sym.SwapAxis(x, dim1=0, dim2=2), (2, 3, 4)),
    "expand_dims": (lambda x: mx.sym.expand_dims(x, axis=1), (2, 3)),
    "squeeze": (lambda x: mx.sym.squeeze(x), (2, 1, 3, 1)),
    "squeeze of an axis": (lambda x: mx.sym.squeeze(x, axis=1), (2, 1, 3, 1)),
    "broadcast_to": (lambda x: mx.sym.broadcast_to(x, shape=(0, 5)), (2, 1)),
    "broadcast_axis": (lambda x: mx.sym.broadcast_axis(x, axis=1, size=5), (2, 1)),
    "tile": (lambda x: mx.sym.tile(x, reps=(2, 1, 3)), (2, 3)),
    "slice": (lambda x: mx.sym.slice(x, begin=(1, None), end=(None, 3)), (3, 4)),
    "slice backwards": (lambda x: mx.sym.slice(x, begin=(None, 3), end=(None, None), step=(None, -2)), (3, 4)),
    "slice_axis": (lambda x: mx.sym.slice_axis(x, axis=1, begin=1, end=None), (3, 4)),
    "reverse": (lambda x: mx.sym.reverse(x, axis=1), (3, 4)),
    "SliceChannel": (lambda x: mx.sym.SliceChannel(x, num_outputs=2, axis=1), (3, 4)),
    "SliceChannel, squeezed": (lambda x: mx.sym.SliceChannel(x, num_outputs=4, axis=1, squeeze_axis=True), (3, 4)),
    "split_v2": (lambda x: mx.sym.split_v2(x, (1, 3), axis=1), (3, 4)),
    "Pad": (lambda x: mx.sym.Pad(x, mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 3, 4), constant_value=2), IMAGE),
    "Pad with edges": (lambda x: mx.sym.Pad(x, mode="edge", pad_width=(0, 0, 0, 0, 1, 2, 3, 4)), IMAGE),
    "UpSampling": (lambda x: mx.sym.UpSampling(x, scale=2, sample_type="nearest"), IMAGE),
    "depth_to_space": (lambda x: mx.sym.depth_to_space(x, block_size=2), IMAGE),
    "numbers": (lambda x: (2 - x * 3 + 1) / 4 + 1 / (x * x + 1) + x**2 + 2**x, (3, 4)),
    "rest": (lambda x: x % 0.7 + 3 % (x * x + 1), (3, 4)),
    "comparisons with numbers": (lambda x: (x > 0) + (x <= 1) * 2 + (x != 0) + (x == 0), (3, 4)),
    "maximum with a number": (lambda x: mx.sym.maximum(x, 0.5) + mx.sym.minimum(x, 0.1), (3, 4)),
    "one value twice": (lambda x: x * x + x, (3, 4)),
    "SoftmaxOutput": (lambda x: mx.sym.SoftmaxOutput(x, name="softmax"), (3, 4)),
    "SoftmaxOutput of images": (lambda x: mx.sym.SoftmaxOutput(x, multi_output=True, name="softmax"), IMAGE),
    "LogisticRegressionOutput": (lambda x: mx.sym.LogisticRegressionOutput(x, name="loss"), (3, 4)),
}


@pytest.mark.parametrize("case", ONE_INPUT)
def test_operator_of_one_array(case: str, tmp_path: pathlib.Path) -> None:
    build, shape = ONE_INPUT[case]
    check(build(sym()), {"data": shape}, tmp_path / "model.onnx")


@pytest.mark.parametrize("name", ["log", "sqrt", "rsqrt", "reciprocal", "log1p", "log2", "log10", "arccosh"])
def test_operator_of_positive_numbers(name: str, tmp_path: pathlib.Path) -> None:
    check(getattr(mx.sym, name)(sym()), {"data": (3, 4)}, tmp_path / "model.onnx", low=1.1, high=3.0)


@pytest.mark.parametrize("name", ["arcsin", "arccos", "arctanh"])
def test_operator_of_small_numbers(name: str, tmp_path: pathlib.Path) -> None:
    check(getattr(mx.sym, name)(sym()), {"data": (3, 4)}, tmp_path / "model.onnx", low=-0.9, high=0.9)


TWO_INPUTS: dict[str, tuple[Callable[[Symbol, Symbol], Symbol], tuple[int, ...], tuple[int, ...]]] = {
    **{name: (lambda a, b, name=name: getattr(mx.sym, name)(a, b), (2, 3, 4), (2, 1, 4)) for name in BROADCASTING},
    "elemwise": (lambda a, b: (a + b) * (a - b) / b, (3, 4), (3, 4)),
    "add_n": (lambda a, b: mx.sym.add_n(a, b, a), (3, 4), (3, 4)),
    "Concat": (lambda a, b: mx.sym.Concat(a, b, dim=1), (3, 4), (3, 2)),
    "stack": (lambda a, b: mx.sym.stack(a, b, axis=1), (3, 4), (3, 4)),
    "where": (lambda a, b: mx.sym.where(a > 0, a, b), (3, 4), (3, 4)),
    "dot": (lambda a, b: mx.sym.dot(a, b), (3, 4), (4, 2)),
    "dot, turned": (lambda a, b: mx.sym.dot(a, b, transpose_a=True, transpose_b=True), (4, 3), (2, 4)),
    "dot of rows": (lambda a, b: mx.sym.dot(a, b), (4,), (4,)),
    "batch_dot": (lambda a, b: mx.sym.batch_dot(a, b, transpose_b=True), (2, 3, 4), (2, 5, 4)),
    "linalg.gemm2": (lambda a, b: mx.sym.linalg.gemm2(a, b, alpha=0.5), (2, 3, 4), (2, 4, 5)),
    "broadcast_like": (lambda a, b: mx.sym.broadcast_like(a, b), (3, 1), (3, 4)),
    "slice_like": (lambda a, b: mx.sym.slice_like(a, b, axes=(1,)), (3, 4), (2, 2)),
    "reshape_like": (lambda a, b: mx.sym.reshape_like(a, b), (3, 4), (3, 2, 2)),
    "take": (lambda a, b: mx.sym.take(a, mx.sym.abs(b) * 2), (4, 3), (2, 5)),
    "take, wrapped": (lambda a, b: mx.sym.take(a, mx.sym.floor(b * 3), axis=1, mode="wrap"), (4, 3), (2, 5)),
    "several outputs": (lambda a, b: mx.sym.Group([a + b, a, a + b]), (3, 4), (3, 4)),
}


@pytest.mark.parametrize("case", TWO_INPUTS)
def test_operator_of_two_arrays(case: str, tmp_path: pathlib.Path) -> None:
    build, first, second = TWO_INPUTS[case]
    check(build(sym("a"), sym("b")), {"a": first, "b": second}, tmp_path / "model.onnx")


def test_embedding_and_one_hot(tmp_path: pathlib.Path) -> None:
    embedded = mx.sym.Embedding(sym(), input_dim=6, output_dim=3)
    group = mx.sym.Group([embedded, mx.sym.one_hot(mx.sym.floor(sym("more")), depth=4)])
    check(group, {"data": (2, 5), "more": (3,)}, tmp_path / "model.onnx", low=-2, high=7)


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_relu", "rnn_tanh"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_fused_recurrent_layers(mode: str, bidirectional: bool, tmp_path: pathlib.Path) -> None:
    layers = 2
    names = ["state", "state_cell"] if mode == "lstm" else ["state"]
    states = {name: sym(name) for name in names}
    output = mx.sym.RNN(
        sym(),
        sym("weights"),
        **states,
        state_size=5,
        num_layers=layers,
        mode=mode,
        bidirectional=bidirectional,
        state_outputs=True,
    )
    shape = (layers * (2 if bidirectional else 1), 3, 5)
    check(output, {"data": (4, 3, 6), **dict.fromkeys(names, shape)}, tmp_path / "model.onnx")


# -- networks


def check_block(net: Any, shape: tuple[int, ...], path: pathlib.Path, tolerance: float = 1e-4, **options: Any) -> str:
    """Export a Gluon block through its files, and compare."""
    mx.random.seed(SEED)
    net.initialize(mx.init.Xavier(), force_reinit=True)
    net.hybridize()
    data = np.random.default_rng(SEED).normal(size=shape).astype(np.float32)
    expected = net(mx.nd.array(data)).asnumpy()
    net.export(str(path / "net"))
    written = mx.contrib.onnx.export_model(
        str(path / "net-symbol.json"),
        str(path / "net-0000.params"),
        [shape],
        onnx_file_path=path / "net.onnx",
        **options,
    )
    (found,) = run(written, {"data": data})
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    return written


def convolutional() -> Any:
    net = nn.HybridSequential()
    for channels in (4, 8):
        net.add(nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
        net.add(nn.MaxPool2D())
    net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(10))
    return net


class Residual(nn.HybridBlock):
    def __init__(self, channels: int) -> None:
        super().__init__()
        with self.name_scope():
            self.first = nn.Conv2D(channels, 3, padding=1)
            self.norm = nn.BatchNorm()
            self.second = nn.Conv2D(channels, 3, padding=1)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.relu(self.second(F.relu(self.norm(self.first(x)))) + x)


def test_convolutional_network(tmp_path: pathlib.Path) -> None:
    check_block(convolutional(), (2, 3, 16, 16), tmp_path)


def test_residual_network(tmp_path: pathlib.Path) -> None:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(6, 3), Residual(6), Residual(6), nn.AvgPool2D(), nn.Dense(4, activation="tanh"))
    check_block(net, (2, 3, 12, 12), tmp_path)


def test_perceptron(tmp_path: pathlib.Path) -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu"), nn.Dropout(0.5), nn.LayerNorm(), nn.Dense(16), nn.GELU(), nn.Dense(3))
    check_block(net, (5, 7), tmp_path)


@pytest.mark.parametrize("layer", [rnn.LSTM, rnn.GRU, rnn.RNN])
def test_recurrent_network(layer: Any, tmp_path: pathlib.Path) -> None:
    net = nn.HybridSequential()
    net.add(layer(6, num_layers=2, bidirectional=True, layout="NTC"), nn.Dense(3, flatten=False))
    check_block(net, (2, 5, 4), tmp_path)


def test_batch_can_be_left_open(tmp_path: pathlib.Path) -> None:
    written = check_block(convolutional(), (2, 3, 16, 16), tmp_path, dynamic=True)
    other = np.random.default_rng(0).normal(size=(5, 3, 16, 16)).astype(np.float32)
    assert run(written, {"data": other})[0].shape == (5, 10)
    facts = mx.onnx.get_model_metadata(written)
    assert facts["input_tensor_data"] == [("data", ("batch", 3, 16, 16))]


def test_open_extents_can_be_named(tmp_path: pathlib.Path) -> None:
    net = nn.HybridSequential()
    net.add(rnn.LSTM(6))
    written = check_block(
        net, (5, 2, 4), tmp_path, dynamic=True, dynamic_input_shapes=[("time", None, 4)], run_shape_inference=True
    )
    assert run(written, {"data": np.zeros((3, 7, 4), np.float32)})[0].shape == (3, 7, 6)


# -- what is written, and what is refused


def test_file_says_what_it_takes_and_gives(tmp_path: pathlib.Path) -> None:
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(sym(), num_hidden=3, name="fc"), name="softmax")
    path = mx.onnx.export_model(
        net,
        {"arg:fc_weight": mx.nd.ones((3, 4)), "arg:fc_bias": mx.nd.zeros((3,)), "arg:unused": mx.nd.zeros((1,))},
        [(2, 4)],
        onnx_file_path=tmp_path / "m.onnx",
    )
    assert mx.contrib.onnx.get_model_metadata(path) == {
        "input_tensor_data": [("data", (2, 4))],
        "output_tensor_data": [("softmax_output", (2, 3))],
    }
    model = onnx.load(path)
    assert {tensor.name for tensor in model.graph.initializer} == {"fc_weight", "fc_bias"}
    assert model.producer_name == "phonograd"


def test_what_only_parameters_make_is_computed_at_once(tmp_path: pathlib.Path) -> None:
    weight = mx.sym.var("w")
    net = mx.sym.dot(sym(), mx.sym.exp(weight).transpose() * 2)
    path = check(net, {"data": (2, 4), "w": (3, 4)}, tmp_path / "open.onnx")
    assert len(onnx.load(path).graph.node) == 4
    parameters = {"w": mx.nd.ones((3, 4))}
    path = mx.onnx.export_model(net, parameters, [(2, 4)], onnx_file_path=tmp_path / "folded.onnx")
    assert [node.op_type for node in onnx.load(path).graph.node] == ["MatMul"]


def test_unsupported_operator_names_itself(tmp_path: pathlib.Path) -> None:
    net = mx.sym.linalg.potrf(sym(), name="factor")
    with pytest.raises(mx.MXNetError, match=r"operator _linalg_potrf \(factor\) cannot be exported"):
        mx.onnx.export_model(net, {}, [(3, 3)], onnx_file_path=tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_unsupported_parameter_names_itself(tmp_path: pathlib.Path) -> None:
    net = mx.sym.Pooling(sym(), kernel=(2, 2), pooling_convention="same", name="pool")
    with pytest.raises(mx.MXNetError, match=r"Pooling .pool. has pooling_convention='same'"):
        mx.onnx.export_model(net, {}, [IMAGE], onnx_file_path=tmp_path / "m.onnx")


def test_wrong_arguments_are_explained(tmp_path: pathlib.Path) -> None:
    net = mx.sym.FullyConnected(sym(), num_hidden=3, name="fc")
    with pytest.raises(mx.MXNetError, match="3 inputs that are not among the parameters: data, fc_weight, fc_bias"):
        mx.onnx.export_model(net, {}, [(2, 4)])
    with pytest.raises(mx.MXNetError, match="in_shapes"):
        mx.onnx.export_model(net, {})
    with pytest.raises(TypeError, match="sym must be"):
        mx.onnx.export_model(3, {}, [(2, 4)])
    with pytest.raises(TypeError, match="params must be"):
        mx.onnx.export_model(net, 3, [(2, 4)])


def test_operators_are_listed() -> None:
    names = mx.onnx.get_operator_support()
    assert {"Convolution", "FullyConnected", "RNN", "broadcast_add", "_plus_scalar"} <= set(names)
    with pytest.raises(ValueError, match="version 17"):
        mx.onnx.get_operator_support(9)
