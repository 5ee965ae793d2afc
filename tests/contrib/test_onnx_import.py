"""ONNX models are read: those that we write compute what the symbol computed, others what onnxruntime computes."""

import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd.contrib.onnx.model import _shapes
from phonograd.gluon import nn, rnn

# without onnx, this skips the tests here too
from .test_onnx import ONE_INPUT, SEED, TWO_INPUTS, check, onnx, run, sym

Array = np.ndarray
TensorProto, helper, numpy_helper = onnx.TensorProto, onnx.helper, onnx.numpy_helper


def imported(path: Any, arrays: dict[str, Array]) -> list[Array]:
    """Return what the symbol of a file computes."""
    symbol, arguments, states = mx.contrib.onnx.import_model(path)
    again = mx.sym.load_json(symbol.tojson())
    given = {name: mx.nd.array(array, dtype=array.dtype) for name, array in arrays.items()}
    return [output.asnumpy() for output in again.eval(**arguments, **states, **given)]


def compare(path: Any, arrays: dict[str, Array], tolerance: float = 2e-5) -> None:
    expected = run(str(path), arrays)
    found = imported(path, arrays)
    assert len(found) == len(expected)
    for own, theirs in zip(found, expected):
        # an array without axes has one here
        assert own.shape == (theirs.shape or (1,))
        np.testing.assert_allclose(own, theirs, rtol=tolerance, atol=tolerance)


def numbers(shape: tuple[int, ...], seed: int = SEED) -> Array:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


# -- our own models


@pytest.fixture
def _without_kernels() -> Iterator[None]:
    """Let NumPy compute: the tests of export compile the same operators."""
    with mx.settings.override(executor="reference"):
        yield


@pytest.mark.usefixtures("_without_kernels")
@pytest.mark.parametrize("case", ONE_INPUT)
def test_operator_of_one_array(case: str, tmp_path: pathlib.Path) -> None:
    build, shape = ONE_INPUT[case]
    compare(check(build(sym()), {"data": shape}, tmp_path / "model.onnx"), {"data": numbers(shape)})


@pytest.mark.usefixtures("_without_kernels")
@pytest.mark.parametrize("case", TWO_INPUTS)
def test_operator_of_two_arrays(case: str, tmp_path: pathlib.Path) -> None:
    build, first, second = TWO_INPUTS[case]
    path = check(build(sym("a"), sym("b")), {"a": first, "b": second}, tmp_path / "model.onnx")
    compare(path, {"a": numbers(first), "b": numbers(second, SEED + 1)})


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_relu", "rnn_tanh"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent_layers(mode: str, bidirectional: bool, tmp_path: pathlib.Path) -> None:
    names = ["state", "state_cell"] if mode == "lstm" else ["state"]
    output = mx.sym.RNN(
        sym(),
        sym("weights"),
        **{name: sym(name) for name in names},
        state_size=5,
        num_layers=2,
        mode=mode,
        bidirectional=bidirectional,
        state_outputs=True,
    )
    shapes = {"data": (4, 3, 6), **dict.fromkeys(names, (2 * (1 + bidirectional), 3, 5))}
    path = check(output, shapes, tmp_path / "model.onnx")
    compare(path, {name: numbers(shape, place) for place, (name, shape) in enumerate(shapes.items())})


def network() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D())
    net.add(nn.Conv2D(8, 3), nn.LeakyReLU(0.1), nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dropout(0.5), nn.Dense(10))
    return net


def written(net: Any, shape: tuple[int, ...], folder: pathlib.Path, **options: Any) -> tuple[str, Array, Array]:
    """Return the file of a network, data, and what it computes from them."""
    mx.random.seed(SEED)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    data = numbers(shape)
    expected = net(mx.nd.array(data)).asnumpy()
    net.export(str(folder / "net"))
    files = [str(folder / "net-symbol.json"), str(folder / "net-0000.params")]
    path = mx.onnx.export_model(*files, [shape], onnx_file_path=folder / "net.onnx", **options)
    return path, data, expected


def test_network_becomes_a_block_that_can_be_trained(tmp_path: pathlib.Path) -> None:
    path, data, expected = written(network(), (2, 3, 12, 12), tmp_path)
    block = mx.contrib.onnx.import_to_gluon(path, ctx=mx.cpu())
    np.testing.assert_allclose(block(mx.nd.array(data)).asnumpy(), expected, rtol=1e-5, atol=1e-5)
    trainer = mx.gluon.Trainer(block.collect_params(), "sgd", {"learning_rate": 0.05})
    losses = []
    for _ in range(12):
        with mx.autograd.record():
            loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(block(mx.nd.array(data)), mx.nd.array([1, 2])).mean()
        loss.backward()
        trainer.step(1)
        losses.append(float(loss))
    assert losses[-1] < losses[0]


def test_moving_statistics_are_auxiliary_states(tmp_path: pathlib.Path) -> None:
    path, data, _ = written(network(), (2, 3, 12, 12), tmp_path)
    symbol, arguments, states = mx.contrib.onnx.import_model(path)
    assert sorted(states) == sorted(symbol.list_auxiliary_states())
    assert len(states) == 2
    assert {*arguments, "data"} == set(symbol.list_arguments())
    module = mx.mod.Module(symbol, label_names=None)
    module.bind([("data", data.shape)], for_training=False)
    module.set_params(arguments, states)
    np.testing.assert_allclose(module.predict(mx.nd.array(data)).asnumpy(), run(path, {"data": data})[0], atol=1e-5)


def test_open_batch(tmp_path: pathlib.Path) -> None:
    net = nn.HybridSequential()
    net.add(rnn.LSTM(6, layout="NTC"), nn.Dense(3, flatten=False))
    path, _, _ = written(net, (2, 5, 4), tmp_path, dynamic=True)
    compare(path, {"data": numbers((3, 5, 4))})


# -- models of others


def model(
    nodes: list[Any],
    inputs: dict[str, tuple[Any, ...]],
    constants: dict[str, Array] | None = None,
    outputs: tuple[str, ...] = ("y",),
    opset: int = 17,
    kinds: dict[str, int] | None = None,
) -> Any:
    def value(name: str, shape: Any) -> Any:
        return helper.make_tensor_value_info(name, (kinds or {}).get(name, TensorProto.FLOAT), shape)

    graph = helper.make_graph(
        nodes,
        "graph",
        [value(name, shape) for name, shape in inputs.items()],
        [value(name, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 20 else 10)


def node(operator: str, inputs: str, outputs: str = "y", **attributes: Any) -> Any:
    names = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(operator, names, outputs.split(), **attributes)


def int64(*values: int) -> Array:
    return np.array(values, np.int64)


W = numbers((6, 4, 3, 3), 1)
CASES: dict[str, tuple[list[Any], dict[str, tuple[int, ...]], dict[str, Array]]] = {
    "Conv with different pads": (
        [node("Conv", "x w", pads=[0, 1, 2, 1], strides=[2, 1])], {"x": (2, 4, 7, 8)}, {"w": W}),
    "Conv with SAME_UPPER": (
        [node("Conv", "x w", auto_pad="SAME_UPPER", strides=[2, 2])], {"x": (1, 4, 7, 8)}, {"w": W}),
    "Conv with SAME_LOWER": (
        [node("Conv", "x w", auto_pad="SAME_LOWER", strides=[2, 2])], {"x": (1, 4, 8, 8)}, {"w": W}),
    "MaxPool with different pads": (
        [node("MaxPool", "x", kernel_shape=[2, 2], pads=[0, 0, 1, 1])], {"x": (1, 2, 5, 5)}, {}),
    "ConvTranspose": (
        [node("ConvTranspose", "x w b", strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])],
        {"x": (1, 6, 5, 5)}, {"w": W, "b": numbers((4,))}),
    "Gemm with a matrix that is not turned": (
        [node("Gemm", "x w b")], {"x": (3, 4)}, {"w": numbers((4, 5)), "b": numbers((5,), 2)}),
    "Gemm with one number": ([node("Gemm", "x w b", transB=1)], {"x": (3, 4)},
                             {"w": numbers((5, 4)), "b": numbers((1,), 2)}),
    "Gemm with factors": (
        [node("Gemm", "x w b", alpha=0.5, beta=2.0, transA=1)], {"x": (4, 3)},
        {"w": numbers((4, 5)), "b": numbers((3, 1), 2)}),
    "MatMul of three axes and two": ([node("MatMul", "x w")], {"x": (2, 3, 4)}, {"w": numbers((4, 5))}),
    "MatMul of four axes": ([node("MatMul", "x z")], {"x": (2, 3, 4, 5), "z": (2, 3, 5, 4)}, {}),
    "MatMul of two axes and three": ([node("MatMul", "x z")], {"x": (3, 4), "z": (2, 4, 5)}, {}),
    "shapes that are computed": (
        [node("Shape", "x", "s"), node("Gather", "s zero", "n", axis=0), node("Unsqueeze", "n zeros", "n1"),
         node("Concat", "n1 rest", "t", axis=0), node("Reshape", "x t")],
        {"x": (2, 3, 4)}, {"zero": np.array(0, np.int64), "zeros": int64(0), "rest": int64(-1)}),
    "Constant": (
        [node("Constant", "", "c", value=numpy_helper.from_array(numbers((3,)))), node("Add", "x c")],
        {"x": (2, 3)}, {}),
    "Where": ([node("Greater", "x k", "c"), node("Where", "c x z")], {"x": (2, 3), "z": (1, 3)},
              {"k": np.array(0.5, np.float32)}),
    "Gather of one": ([node("Gather", "x i", axis=1)], {"x": (2, 3, 4)}, {"i": np.array(-1, np.int64)}),
    "Gather from the end": ([node("Gather", "x i", axis=1)], {"x": (2, 3, 4)}, {"i": int64(-1, 0, 2)}),
    "GatherND": ([node("GatherND", "x i")], {"x": (2, 3, 4)}, {"i": np.array([[0, 1], [1, 2]], np.int64)}),
    "Split into different parts": (
        [node("Split", "x s", "a b", axis=1), node("Concat", "b a", axis=1)], {"x": (2, 5)}, {"s": int64(2, 3)}),
    "Slice": ([node("Slice", "x s e a t")], {"x": (4, 6, 5)},
              {"s": int64(1, -1), "e": int64(1 << 40, -(1 << 40)), "a": int64(0, -1), "t": int64(2, -2)}),
    "Expand to more axes": ([node("Expand", "x s")], {"x": (3, 1)}, {"s": int64(2, 1, 4)}),
    "Squeeze from the end": ([node("Squeeze", "x a")], {"x": (2, 3, 1)}, {"a": int64(-1)}),
    "Unsqueeze twice": ([node("Unsqueeze", "x a")], {"x": (2, 3)}, {"a": int64(0, -1)}),
    "Flatten of the last": ([node("Flatten", "x", axis=2)], {"x": (2, 3, 4)}, {}),
    "Flatten of all": ([node("Flatten", "x", axis=0)], {"x": (2, 3, 4)}, {}),
    "ReduceSum of all": ([node("ReduceSum", "x", keepdims=0)], {"x": (2, 3)}, {}),
    "ReduceSum of none": ([node("ReduceSum", "x", noop_with_empty_axes=1)], {"x": (2, 3)}, {}),
    "ReduceLogSumExp": ([node("ReduceLogSumExp", "x", axes=[-1])], {"x": (2, 3)}, {}),
    "ReduceL2": ([node("ReduceL2", "x", axes=[0, 1])], {"x": (2, 3, 4)}, {}),
    "ArgMax": ([node("ArgMax", "x", "i", axis=1, keepdims=0), node("Cast", "i", to=1)], {"x": (3, 4)}, {}),
    "TopK": ([node("TopK", "x k", "y i", axis=0)], {"x": (4, 3)}, {"k": int64(2)}),
    "CumSum": ([node("CumSum", "x a")], {"x": (4, 3)}, {"a": np.array(1, np.int64)}),
    "HardSwish": ([node("HardSwish", "x")], {"x": (4, 3)}, {}),
    "ThresholdedRelu": ([node("ThresholdedRelu", "x", alpha=0.5)], {"x": (4, 3)}, {}),
    "Mean": ([node("Mean", "x z")], {"x": (2, 3), "z": (1, 3)}, {}),
    "Max of three": ([node("Max", "x z k")], {"x": (2, 3), "z": (1, 3)}, {"k": numbers((3,), 5)}),
    "numbers on the left": ([node("Sub", "k x", "a"), node("Pow", "a two")], {"x": (2, 3)},
                            {"k": np.array([3.5], np.float32), "two": np.array(2, np.float32)}),
    "a number with more axes": ([node("Mul", "x k")], {"x": (3,)}, {"k": np.full((1, 1), 2, np.float32)}),
    "logic": (
        [node("Less", "x z", "a"), node("Not", "a", "n"), node("Or", "a n", "o"), node("Cast", "o", to=1)],
        {"x": (2, 3), "z": (2, 3)}, {}),
    "PRelu": ([node("PRelu", "x s")], {"x": (2, 3, 4, 4)}, {"s": numbers((3, 1, 1))}),
    "LpNormalization": ([node("LpNormalization", "x", axis=-1)], {"x": (2, 3)}, {}),
    "LayerNormalization without offset": ([node("LayerNormalization", "x s")], {"x": (2, 3)}, {"s": numbers((3,))}),
    "Upsample of images": (
        [node("Resize", "x _ s", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
        {"x": (1, 2, 3, 3)}, {"s": np.array([1, 1, 2, 2], np.float32)}),
    "Resize with corners": (
        [node("Resize", "x _ _ s", mode="linear", coordinate_transformation_mode="align_corners")],
        {"x": (1, 2, 3, 4)}, {"s": int64(1, 2, 5, 7)}),
    "SpaceToDepth": ([node("SpaceToDepth", "x", blocksize=2)], {"x": (1, 2, 4, 4)}, {}),
    "Pad of nothing": ([node("Pad", "x p")], {"x": (2, 3)}, {"p": int64(0, 0, 0, 0)}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_models_of_others(case: str, tmp_path: pathlib.Path) -> None:
    nodes, shapes, constants = CASES[case]
    path = tmp_path / "model.onnx"
    onnx.save(model(nodes, shapes, constants), path)
    compare(path, {name: numbers(shape, place) for place, (name, shape) in enumerate(shapes.items())})


OTHER_VERSIONS: dict[str, tuple[int, list[Any], tuple[int, ...], dict[str, Array]]] = {
    "Squeeze": (11, [node("Squeeze", "x", axes=[1])], (2, 1, 3), {}),
    "Unsqueeze": (11, [node("Unsqueeze", "x", axes=[0, 3])], (2, 3), {}),
    "Slice": (9, [node("Slice", "x", starts=[1], ends=[-1], axes=[1])], (2, 4), {}),
    "Clip": (9, [node("Clip", "x", min=-0.5, max=0.7)], (2, 4), {}),
    "Pad": (10, [node("Pad", "x", pads=[0, 0, 1, 1, 0, 0, 2, 2], value=1.0)], (1, 2, 3, 3), {}),
    "Split": (11, [node("Split", "x", "y b", split=[1, 3], axis=1)], (2, 4), {}),
    "Softmax of several axes": (11, [node("Softmax", "x")], (2, 3, 4), {}),
    "LogSoftmax of the last axis": (11, [node("LogSoftmax", "x", axis=-1)], (2, 3, 4), {}),
    "ReduceSum": (11, [node("ReduceSum", "x", axes=[1], keepdims=0)], (2, 3, 4), {}),
    "Gelu": (20, [node("Gelu", "x")], (2, 3), {}),
    "Gelu by tanh": (20, [node("Gelu", "x", approximate="tanh")], (2, 3), {}),
    "GroupNormalization": (21, [node("GroupNormalization", "x a b", num_groups=2)], (2, 4, 3, 3),
                           {"a": numbers((4,)), "b": numbers((4,), 1)}),
    "ReduceMean": (18, [node("ReduceMean", "x a")], (2, 3), {"a": int64(1)}),
    "Dropout": (10, [node("Dropout", "x", ratio=0.3)], (2, 3), {}),
    "TopK": (10, [node("TopK", "x k", "y i")], (2, 5), {"k": int64(2)}),
    "Upsample": (9, [node("Upsample", "x s", mode="nearest")], (1, 2, 3, 3),
                 {"s": np.array([1, 1, 2, 2], np.float32)}),
    "BatchNormalization": (
        9, [node("BatchNormalization", "x a b c d", epsilon=1e-3)], (2, 3, 4, 4),
        {"a": numbers((3,)), "b": numbers((3,), 1), "c": numbers((3,), 2), "d": np.ones(3, np.float32)}),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHER_VERSIONS)
def test_other_versions(case: str, tmp_path: pathlib.Path) -> None:
    opset, nodes, shape, constants = OTHER_VERSIONS[case]
    path = tmp_path / "model.onnx"
    onnx.save(model(nodes, {"x": shape}, constants, opset=opset), path)
    compare(path, {"x": numbers(shape)})


@pytest.mark.parametrize(
    "nodes, opset, message",
    [
        ([node("Einsum", "x x", equation="ij,ij->i")], 17, r"operator Einsum \(\w*\) cannot be imported"),
        ([node("Mod", "x x", fmod=1)], 17, r"operator Mod \(y\) has fmod=1, which cannot be imported"),
        ([node("Reshape", "x s")], 17, r"Reshape \(y\) computes its shape"),
        ([node("Softmax", "x", axis=0)], 11, r"has axis=0 of 2 in version 11"),
        ([node("Pad", "x p")], 17, r"only height and width of images can be padded"),
        ([node("Add", "x nowhere")], 17, r"the value 'nowhere' is used before it is computed"),
    ],
)
def test_what_is_refused(nodes: list[Any], opset: int, message: str, tmp_path: pathlib.Path) -> None:
    constants = {"p": int64(1, 1, 1, 1)}
    made = model(nodes, {"x": (2, 3), "s": (2,)}, constants, opset=opset, kinds={"s": TensorProto.INT64})
    path = tmp_path / "model.onnx"
    path.write_bytes(made.SerializeToString())
    with pytest.raises(mx.MXNetError, match=message):
        mx.contrib.onnx.import_model(path)


@pytest.mark.parametrize(
    "content", [b"", b"no model", b"\x08\x07", b"\xff" * 40], ids=["empty", "text", "no graph", "binary"]
)
def test_files_that_are_no_models(content: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    for read in (mx.contrib.onnx.import_model, mx.contrib.onnx.get_model_metadata):
        with pytest.raises(mx.MXNetError, match="is not an ONNX file"):
            read(path)
    with pytest.raises(FileNotFoundError):
        mx.contrib.onnx.import_model(tmp_path / "nowhere.onnx")


def test_truncated_models(tmp_path: pathlib.Path) -> None:
    """Whatever is left of a file, it is read or refused with a reason."""
    path, data, _ = written(network(), (2, 3, 12, 12), tmp_path)
    content = pathlib.Path(path).read_bytes()
    for end in range(0, len(content), len(content) // 40):
        (tmp_path / "cut.onnx").write_bytes(content[:end])
        with pytest.raises((mx.MXNetError, ValueError)):
            imported(tmp_path / "cut.onnx", {"data": data})


def test_an_open_shape_is_refused_with_a_reason(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model([node("Shape", "x", "s"), node("Reshape", "z s")], {"x": ("n", 3), "z": ("n", 3)}), path)
    with pytest.raises(mx.MXNetError, match=r"Shape \(s\) depends on an unknown shape"):
        mx.contrib.onnx.import_model(path)


# -- files that are damaged or hostile


def one_node(path: pathlib.Path, node: Any, constants: dict[str, Array], outputs: list[str] | None = None) -> str:
    """Write a model of one node, whose inputs are constants, and of the sum of its result and an input."""
    nodes = [node, helper.make_node("Add", ["x", "folded"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs or ["y"]],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
    return str(path)


@pytest.mark.parametrize(
    ("operator", "constants"),
    [
        ("ConstantOfShape", {"a": np.array([1 << 20, 1 << 20])}),
        ("Expand", {"a": np.ones(1, np.float32), "b": np.array([1 << 34])}),
        ("Tile", {"a": np.ones(1, np.float32), "b": np.array([1 << 34])}),
        ("Range", {"a": np.array(0.0), "b": np.array(1e12), "c": np.array(1.0)}),
        ("Pad", {"a": np.ones(1, np.float32), "b": np.array([0, 1 << 34])}),
        ("Add", {"a": np.ones((1 << 14, 1), np.float32), "b": np.ones((1, 1 << 14), np.float32)}),
    ],
)
def test_large_constants_are_not_evaluated(operator: str, constants: dict[str, Array], tmp_path: pathlib.Path) -> None:
    path = one_node(tmp_path / "large.onnx", helper.make_node(operator, list(constants), ["folded"]), constants)
    with pytest.raises(
        mx.MXNetError, match=rf"large.onnx: ONNX import: operator {operator} .*has a constant result of"
    ):
        mx.contrib.onnx.import_model(path)


def test_damaged_models_name_the_file_and_the_node(tmp_path: pathlib.Path) -> None:
    shape = {"a": np.array([2])}
    path = one_node(tmp_path / "bad.onnx", helper.make_node("Softmax", ["x"], ["folded"], axis="one"), {})
    with pytest.raises(mx.MXNetError, match=r"bad.onnx: ONNX import: "):
        mx.contrib.onnx.import_model(path)
    path = one_node(tmp_path / "bad.onnx", helper.make_node("Reshape", ["x", "a"], ["folded"]), shape, ["nothing"])
    with pytest.raises(mx.MXNetError, match=r"bad.onnx: ONNX import: "):
        mx.contrib.onnx.import_model(path)
    model = onnx.load(one_node(tmp_path / "bad.onnx", helper.make_node("ConstantOfShape", ["a"], ["folded"]), shape))
    model.graph.initializer[0].raw_data = b"123"
    onnx.save(model, str(tmp_path / "bad.onnx"))
    with pytest.raises(mx.MXNetError, match=r"bad.onnx: ONNX import: the constant 'a' is damaged"):
        mx.contrib.onnx.import_model(path)


def test_vectors_that_grow_are_not_propagated(monkeypatch: pytest.MonkeyPatch) -> None:
    # the lengths are known to ONNX only while it propagates values, an entry for each element
    helper, int64 = onnx.helper, onnx.TensorProto.INT64
    nodes = [helper.make_node("Cast", [f"{name}32"], [name], to=int64) for name in ("start", "end")]
    nodes.append(helper.make_node("Slice", ["x", "start", "end"], ["v0"]))
    nodes += [helper.make_node("Concat", [f"v{k}", f"v{k}"], [f"v{k + 1}"], axis=0) for k in range(40)]
    values = {"x": np.arange(4), "start32": np.zeros(1, np.int32), "end32": np.full(1, 4, np.int32)}
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in values.items()]
    result = helper.make_tensor_value_info("v40", int64, None)
    model = helper.make_model(helper.make_graph(nodes, "growing", [], [result], initializer=tensors))
    propagates: list[bool] = []
    infer = onnx.shape_inference.infer_shapes

    def note(model: Any, data_prop: bool = False) -> Any:
        propagates.append(data_prop)
        return model if data_prop else infer(model)

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", note)
    _shapes(model)
    assert propagates == [False]
    del model.graph.node[7:]
    _shapes(model)
    assert propagates == [False, False, True]
