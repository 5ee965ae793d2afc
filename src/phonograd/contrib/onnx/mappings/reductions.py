"""Operators over axes: sums, means, norms, softmax, matrix products."""

from __future__ import annotations

import numpy as np

from ....core.graph.interface import Onnx
from ..graph import Call, Graph, maps, maps_form

__all__: list[str] = []


def reduced_axes(call: Call, exclude: bool = False) -> tuple[int, ...]:
    """Return the axes that a call reduces, counted from the front."""
    axis = call["axis"]
    rank = len(call.shape)
    if axis is None or axis == ():
        return tuple(range(rank))
    axes = {call.axis(one) for one in ((axis,) if isinstance(axis, int) else axis)}
    return tuple([one for one in range(rank) if (one in axes) != exclude])


def finish_shape(graph: Graph, call: Call, value: str, axes: tuple[int, ...]) -> str:
    """Give a reduced value its final shape; a 0-d result gets one axis."""
    everything = len(axes) == len(call.shape) and not call["keepdims"]
    return graph.reshape(value, [1]) if everything else value


def total(graph: Graph, value: str, axes: tuple[int, ...], keepdims: bool) -> str:
    """Return the sum over axes."""
    return graph.add("ReduceSum", [value, graph.integers(*axes)], keepdims=int(keepdims))


@maps_form("reduction")
def maps_form_reduction(graph: Graph, call: Call, node: Onnx) -> str:
    axes = reduced_axes(call, call["exclude"])
    if node.name == "ReduceSum":
        value = total(graph, call.data, axes, call["keepdims"])
    else:
        value = graph.add(node.name, [call.data], axes=list(axes), keepdims=int(call["keepdims"]))
    return finish_shape(graph, call, value, axes)


@maps("norm")
def export_norm(graph: Graph, call: Call) -> str:
    if call["ord"] not in (1, 2):
        raise call.refuse(f"has ord={call['ord']}")
    axes = reduced_axes(call)
    operator = "ReduceL1" if call["ord"] == 1 else "ReduceL2"
    value = graph.add(operator, [call.data], axes=list(axes), keepdims=int(call["keepdims"]))
    return finish_shape(graph, call, value, axes)


@maps_form("search")
def maps_form_search(graph: Graph, call: Call, node: Onnx) -> str:
    data, axis = call.data, call["axis"]
    if axis is None:
        data, axis = graph.reshape(data, [-1]), 0
    found = graph.add(node.name, [data], axis=axis, keepdims=int(call["keepdims"] or call["axis"] is None))
    if len(call.shape) == 1 and not call["keepdims"]:
        found = graph.reshape(found, [1])
    elif call["axis"] is None and call["keepdims"]:
        found = graph.reshape(found, [1] * len(call.shape))
    return graph.cast(found, call.output_dtype)


# -- softmax and related operators


def _divide_by_temperature(graph: Graph, call: Call) -> str:
    """Divide the input by the temperature."""
    if call["use_length"]:
        raise call.refuse("has use_length=True")
    temperature = call["temperature"]
    if temperature in (None, 1.0):
        return call.data
    return graph.add("Div", [call.data, graph.scalar(temperature, call.dtype)])


def _cast_output(graph: Graph, call: Call, value: str) -> str:
    return value if call["dtype"] in (None, call.dtype) else graph.cast(value, call["dtype"])


@maps_form("softmax")
def maps_form_softmax(graph: Graph, call: Call, node: Onnx) -> str:
    return _cast_output(graph, call, graph.add(node.name, [_divide_by_temperature(graph, call)], axis=call["axis"]))


@maps("softmin")
def export_softmin(graph: Graph, call: Call) -> str:
    turned = graph.add("Neg", [_divide_by_temperature(graph, call)])
    return _cast_output(graph, call, graph.add("Softmax", [turned], axis=call["axis"]))


def _over_rows(graph: Graph, call: Call) -> str:
    """Return the softmax over all elements of each index of the first axis."""
    if len(call.shape) == 2:
        return graph.add("Softmax", [call.data], axis=1)
    rows = graph.add("Softmax", [graph.reshape(call.data, [0, -1])], axis=1)
    return graph.reshape(rows, [0, *call.shape[1:]])


@maps("SoftmaxOutput")
def export_softmax_output(graph: Graph, call: Call) -> str:
    if call["multi_output"]:
        return graph.add("Softmax", [call.data], axis=1)
    if call["preserve_shape"]:
        return graph.add("Softmax", [call.data], axis=-1)
    return _over_rows(graph, call)


@maps("SoftmaxActivation")
def export_softmax_activation(graph: Graph, call: Call) -> str:
    return graph.add("Softmax", [call.data], axis=1) if call["mode"] == "channel" else _over_rows(graph, call)


@maps("LinearRegressionOutput", "MAERegressionOutput")
def export_linear_regression_output(graph: Graph, call: Call) -> str:
    return graph.add("Identity", [call.data])


@maps("LogisticRegressionOutput")
def export_logistic_regression_output(graph: Graph, call: Call) -> str:
    return graph.add("Sigmoid", [call.data])


@maps("L2Normalization")
def export_l2_normalization(graph: Graph, call: Call) -> str:
    rank = len(call.shape)
    axes = {"instance": range(1, rank), "channel": range(1, 2), "spatial": range(2, rank)}[call["mode"]]
    squares = total(graph, graph.add("Mul", [call.data, call.data]), tuple(axes), True)
    length = graph.add("Sqrt", [graph.add("Add", [squares, graph.scalar(call["eps"], call.dtype)])])
    return graph.add("Div", [call.data, length])


# -- matrix products


def _swap_last_axes(graph: Graph, value: str, rank: int) -> str:
    return graph.transpose(value, [*range(rank - 2), rank - 1, rank - 2])


def _product(graph: Graph, call: Call) -> str:
    sides = [
        _swap_last_axes(graph, value, len(shape)) if call[flag] else value
        for value, shape, flag in zip(call.inputs, call.shapes, ("transpose_a", "transpose_b"))
    ]
    return graph.add("MatMul", sides)


@maps("dot")
def export_dot(graph: Graph, call: Call) -> str:
    ranks = tuple([len(shape) for shape in call.shapes])
    if ranks == (1, 1):
        return graph.reshape(graph.add("MatMul", call.inputs), [1])
    if len(call.shapes[1]) > 2 or (1 in ranks and (call["transpose_a"] or call["transpose_b"])):
        raise call.refuse(f"multiplies arrays of {ranks[0]} and {ranks[1]} axes")
    if call["transpose_a"] and ranks[0] > 2:
        raise call.refuse("transposes an array of more than two axes")
    return _product(graph, call)


@maps("batch_dot")
def export_batch_dot(graph: Graph, call: Call) -> str:
    return _product(graph, call)


@maps("_linalg_gemm2")
def export_linalg_gemm2(graph: Graph, call: Call) -> str:
    if call["axis"] != -2:
        raise call.refuse(f"has axis={call['axis']}")
    value = _product(graph, call)
    return value if call["alpha"] == 1 else graph.add("Mul", [value, graph.scalar(call["alpha"], call.dtype)])


@maps("topk")
def export_topk(graph: Graph, call: Call) -> list[str]:
    if call["ret_typ"] == "mask" or call["axis"] is None:
        raise call.refuse("returns a mask" if call["ret_typ"] == "mask" else "flattens the array")
    count = call["k"] if call["k"] > 0 else call.shape[call.axis(call["axis"])]
    values, places = graph.add_several(
        "TopK", [call.data, graph.integers(count)], 2, axis=call["axis"], largest=int(not call["is_ascend"])
    )
    found = {"value": [values], "indices": [places], "both": [values, places]}[call["ret_typ"]]
    return [graph.cast(name, call["dtype"] or np.float32) if name == places else name for name in found]
