"""Elementwise operators."""

from __future__ import annotations

import math

import numpy as np

from ....core.graph.interface import Onnx
from ..graph import Call, Graph, maps, maps_form

__all__: list[str] = []


@maps_form("")
def maps_form_(graph: Graph, call: Call, node: Onnx) -> str:
    attributes = {name: call[parameter] for name, parameter in node.attributes.items()}
    return graph.add(node.name, call.inputs, **attributes)


@maps("square")
def export_square(graph: Graph, call: Call) -> str:
    return graph.add("Mul", [call.data, call.data])


@maps("rsqrt")
def export_rsqrt(graph: Graph, call: Call) -> str:
    return graph.add("Reciprocal", [graph.add("Sqrt", [call.data])])


@maps("log1p")
def export_log1p(graph: Graph, call: Call) -> str:
    return graph.add("Log", [graph.add("Add", [call.data, graph.scalar(1, call.dtype)])])


@maps("expm1")
def export_expm1(graph: Graph, call: Call) -> str:
    return graph.add("Sub", [graph.add("Exp", [call.data]), graph.scalar(1, call.dtype)])


@maps("log2")
def export_log2(graph: Graph, call: Call) -> str:
    return graph.add("Mul", [graph.add("Log", [call.data]), graph.scalar(1 / math.log(2), call.dtype)])


@maps("log10")
def export_log10(graph: Graph, call: Call) -> str:
    return graph.add("Mul", [graph.add("Log", [call.data]), graph.scalar(1 / math.log(10), call.dtype)])


@maps("logical_not")
def export_logical_not(graph: Graph, call: Call) -> str:
    return graph.cast(graph.add("Equal", [call.data, graph.scalar(0, call.dtype)]), call.dtype)


@maps("clip")
def export_clip(graph: Graph, call: Call) -> str:
    bounds = [graph.scalar(call[name], call.dtype) for name in ("a_min", "a_max")]
    return graph.add("Clip", [call.data, *bounds])


@maps("Cast")
def export_cast(graph: Graph, call: Call) -> str:
    return graph.cast(call.data, call["dtype"])


@maps("amp_cast")
def export_amp_cast(graph: Graph, call: Call) -> str:
    return graph.cast(call.data, call.output_dtype)


@maps("zeros_like")
def export_zeros_like(graph: Graph, call: Call) -> str:
    return graph.add("Mul", [call.data, graph.scalar(0, call.dtype)])


@maps("ones_like")
def export_ones_like(graph: Graph, call: Call) -> str:
    nothing = graph.add("Mul", [call.data, graph.scalar(0, call.dtype)])
    return graph.add("Add", [nothing, graph.scalar(1, call.dtype)])


@maps("where")
def export_where(graph: Graph, call: Call) -> str:
    if len(call.shapes[0]) != len(call.shapes[1]):
        raise call.refuse("selects whole rows")
    return graph.add("Where", [graph.cast(call.data, np.bool_), *call.inputs[1:]])


@maps("_contrib_div_sqrt_dim")
def export_contrib_div_sqrt_dim(graph: Graph, call: Call) -> str:
    return graph.add("Div", [call.data, graph.scalar(math.sqrt(call.shape[-1]), call.dtype)])


# -- operators on two arrays, from which the forms with a number are derived


@maps_form("pair")
def maps_form_pair(graph: Graph, call: Call, node: Onnx) -> str:
    return graph.add(node.name, call.inputs)


@maps_form("comparison")
def maps_form_comparison(graph: Graph, call: Call, node: Onnx) -> str:
    # 0 and 1 in the dtype of the operands
    return graph.cast(graph.add(node.name, call.inputs), call.output_dtype)


@maps_form("logic")
def maps_form_logic(graph: Graph, call: Call, node: Onnx) -> str:
    answers = [graph.cast(side, np.bool_) for side in call.inputs]
    return graph.cast(graph.add(node.name, answers), call.output_dtype)


@maps("broadcast_not_equal")
def export_broadcast_not_equal(graph: Graph, call: Call) -> str:
    return graph.cast(graph.add("Not", [graph.add("Equal", call.inputs)]), call.output_dtype)


@maps("broadcast_mod")
def export_broadcast_mod(graph: Graph, call: Call) -> str:
    # the remainder has the sign of the divisor
    left, right = call.inputs
    whole = graph.add("Floor", [graph.add("Div", [left, right])])
    return graph.add("Sub", [left, graph.add("Mul", [whole, right])])


@maps("broadcast_hypot")
def export_broadcast_hypot(graph: Graph, call: Call) -> str:
    squares = [graph.add("Mul", [side, side]) for side in call.inputs]
    return graph.add("Sqrt", [graph.add("Add", squares)])
