"""Elementwise operators."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ....core.graph.operator import REGISTRY, Operator
from ....symbol import Symbol
from ....symbol.operations import combine
from ..model import Node, reads, reads_form

__all__: list[str] = []


@reads_form("")
def reads_form_(node: Node, declared: Operator) -> Symbol:
    assert declared.onnx is not None
    parameters: dict[str, Any] = {}
    for attribute, parameter in declared.onnx.attributes.items():
        value = node.get(attribute)
        value = node.default(attribute) if value is None else value
        if parameters.setdefault(parameter, value) != value:
            raise node.refuse(f"has {attribute}={value} and {parameter}={parameters[parameter]}")
    count = len(node.inputs) if declared.variadic else len(declared.input_names)
    inputs = [node.symbol(index) for index in range(count) if index < declared.required_inputs or node.has(index)]
    return node.make(declared, *inputs, **parameters)


def _number(node: Node, index: int) -> float | None:
    """Return an input as a number if it is one for all elements of the other input, else None."""
    value = node.constant(index)
    if value is None or value.size != 1 or value.dtype == np.bool_:
        return None
    shape = node.model.shape(node.inputs[1 - index])
    # more axes than the other input has would become axes of the result
    return value.item() if value.ndim == 0 or (shape is not None and value.ndim <= len(shape)) else None


def _read_pair(node: Node, declared: Operator) -> Symbol:
    assert declared.with_scalars is not None
    left, right = _number(node, 0), _number(node, 1)
    # if both were constant, the node would have been evaluated already
    if left is None and right is None:
        return node.make(declared, node.data, node.symbol(1))
    return combine(declared.with_scalars, *((node.data, right) if left is None else (left, node.symbol(1))))


reads_form("pair", "comparison", "logic")(_read_pair)


@reads("Mod")
def import_mod(node: Node) -> Symbol:
    if node.get("fmod", 0):
        raise node.refuse("has fmod=1")
    return _read_pair(node, REGISTRY["broadcast_mod"])


def _read_several(operator: str, node: Node) -> Symbol:
    """Combine any number of arrays with a binary operator, two at a time."""
    found = node.data
    for index in range(1, len(node.inputs)):
        found = node.make(operator, found, node.symbol(index))
    return found


for _name, _operator in (("Max", "broadcast_maximum"), ("Min", "broadcast_minimum"), ("Sum", "broadcast_add")):
    reads(_name)(functools.partial(_read_several, _operator))


@reads("Mean")
def import_mean(node: Node) -> Symbol:
    return _read_several("broadcast_add", node) / len(node.inputs)


@reads("Cast")
def import_cast(node: Node) -> Symbol:
    from onnx import TensorProto, helper

    if node.get("to") == TensorProto.BFLOAT16:
        return node.make("Cast", node.data, dtype="bfloat16")
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(node.get("to")))
    # booleans are 0 and 1 here
    return node.data != 0 if dtype == np.bool_ else node.make("Cast", node.data, dtype=dtype.name)


@reads("Clip")
def import_clip(node: Node) -> Symbol:
    highest = float(np.finfo(np.float32).max)
    low, high = node.number(1, "min", -highest), node.number(2, "max", highest)
    return node.make("clip", node.data, a_min=low, a_max=high)


@reads("Where")
def import_where(node: Node) -> Symbol:
    shapes = [node.known_shape(index) for index in range(3)]
    shape = np.broadcast_shapes(*shapes)
    parts = []
    for index in range(3):
        part = node.symbol(index)
        if len(shapes[index]) < len(shape):
            part = node.make("Reshape", part, shape=(1,) * (len(shape) - len(shapes[index])) + shapes[index])
        if shapes[index] != shape and shape:
            part = node.make("broadcast_to", part, shape=shape)
        parts.append(part)
    return node.make("where", *parts)


# -- activations


@reads("Softplus")
def import_softplus(node: Node) -> Symbol:
    return node.make("Activation", node.data, act_type="softrelu")


@reads("LeakyRelu")
def import_leaky_relu(node: Node) -> Symbol:
    return node.make("LeakyReLU", node.data, act_type="leaky", slope=node.get("alpha", 0.01))


@reads("Elu")
def import_elu(node: Node) -> Symbol:
    return node.make("LeakyReLU", node.data, act_type="elu", slope=node.get("alpha", 1.0))


@reads("Selu")
def import_selu(node: Node) -> Symbol:
    alpha, gamma = node.get("alpha", 1.6732632), node.get("gamma", 1.0507010)
    if abs(alpha - 1.6732632) > 1e-4 or abs(gamma - 1.0507010) > 1e-4:
        raise node.refuse(f"has alpha={alpha} and gamma={gamma}")
    return node.make("LeakyReLU", node.data, act_type="selu")


@reads("PRelu")
def import_p_relu(node: Node) -> Symbol:
    slope = node.array(1, "slope")
    rank = node.rank()
    # channels are on the second axis
    extents = (1,) * (rank - slope.ndim) + slope.shape
    if any([extent != 1 for axis, extent in enumerate(extents) if axis != 1]):
        raise node.refuse(f"has a slope of shape {slope.shape}")
    return node.make("LeakyReLU", node.data, node.parameter(slope.reshape(-1), "gamma"), act_type="prelu")


@reads("HardSwish")
def import_hard_swish(node: Node) -> Symbol:
    return node.data * node.make("hard_sigmoid", node.data, alpha=1 / 6, beta=0.5)


@reads("ThresholdedRelu")
def import_thresholded_relu(node: Node) -> Symbol:
    above: Symbol = node.data > float(node.get("alpha", 1.0))
    return node.data * above


@reads("Gelu")
def import_gelu(node: Node) -> Symbol:
    if node.get("approximate", "none") == "none":
        return node.make("LeakyReLU", node.data, act_type="gelu")
    inner = (node.data + node.data**3 * 0.044715) * math.sqrt(2 / math.pi)
    half: Symbol = node.data * 0.5
    return half * (node.make("tanh", inner) + 1)


@reads("Dropout")
def import_dropout(node: Node) -> Symbol:
    return node.make("Dropout", node.data, p=node.number(1, "ratio", 0.5))
