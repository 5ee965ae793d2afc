"""Operators that compute each element by itself."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....symbol import Symbol
from ..model import Node, reads

__all__: list[str] = []

#: operators of one array that have another name here
_UNARY = {
    "Abs": "abs",
    "Acos": "arccos",
    "Acosh": "arccosh",
    "Asin": "arcsin",
    "Asinh": "arcsinh",
    "Atan": "arctan",
    "Atanh": "arctanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "Identity": "identity",
    "IsInf": "contrib.isinf",
    "IsNaN": "contrib.isnan",
    "Log": "log",
    "Neg": "negative",
    "Not": "logical_not",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Round": "rint",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}

#: operators of two arrays: what follows "broadcast_", and what Python does with an array and a number
_BINARY: dict[str, tuple[str, Callable[[Any, Any], Any] | None]] = {
    "Add": ("add", lambda a, b: a + b),
    "Sub": ("sub", lambda a, b: a - b),
    "Mul": ("mul", lambda a, b: a * b),
    "Div": ("div", lambda a, b: a / b),
    "Pow": ("power", lambda a, b: a**b),
    "Equal": ("equal", lambda a, b: a == b),
    "Greater": ("greater", lambda a, b: a > b),
    "GreaterOrEqual": ("greater_equal", lambda a, b: a >= b),
    "Less": ("lesser", lambda a, b: a < b),
    "LessOrEqual": ("lesser_equal", lambda a, b: a <= b),
    "And": ("logical_and", None),
    "Or": ("logical_or", None),
    "Xor": ("logical_xor", None),
}


def _read_unary(operator: str, node: Node) -> Symbol:
    return node.make(operator, node.data)


for _name, _operator in _UNARY.items():
    reads(_name)(functools.partial(_read_unary, _operator))


def _number(node: Node, index: int) -> float | None:
    """Return the number that an input is for all elements of the other one, or None."""
    value = node.constant(index)
    if value is None or value.size != 1 or value.dtype == np.bool_:
        return None
    shape = node.model.shape(node.inputs[1 - index])
    # more axes than the other side has would be axes of the result
    return value.item() if value.ndim == 0 or (shape is not None and value.ndim <= len(shape)) else None


def _pair(node: Node, word: str, on_numbers: Callable[[Any, Any], Any] | None) -> Symbol:
    if on_numbers is not None:
        left, right = _number(node, 0), _number(node, 1)
        # both are known only if the node has been computed already
        if left is not None or right is not None:
            sides = (node.data, right) if left is None else (left, node.symbol(1))
            found: Symbol = on_numbers(*sides)
            return found
    return node.make(f"broadcast_{word}", node.data, node.symbol(1))


def _read_binary(word: str, on_numbers: Callable[[Any, Any], Any] | None, node: Node) -> Symbol:
    return _pair(node, word, on_numbers)


for _name, (_word, _function) in _BINARY.items():
    reads(_name)(functools.partial(_read_binary, _word, _function))


@reads("Mod")
def import_mod(node: Node) -> Symbol:
    if node.get("fmod", 0):
        raise node.refuse("has fmod=1")
    return _pair(node, "mod", lambda a, b: a % b)


def _read_several(word: str, node: Node) -> Symbol:
    """Return what an operator of any number of arrays computes, two at a time."""
    found = node.data
    for index in range(1, len(node.inputs)):
        found = node.make(f"broadcast_{word}", found, node.symbol(index))
    return found


for _name, _word in (("Max", "maximum"), ("Min", "minimum"), ("Sum", "add")):
    reads(_name)(functools.partial(_read_several, _word))


@reads("Mean")
def import_mean(node: Node) -> Symbol:
    return _read_several("add", node) / len(node.inputs)


@reads("Cast")
def import_cast(node: Node) -> Symbol:
    from onnx import helper

    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(node.get("to")))
    # truth is 0 and 1 here
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
    # the channels are the second axis
    extents = (1,) * (rank - slope.ndim) + slope.shape
    if any([extent != 1 for axis, extent in enumerate(extents) if axis != 1]):
        raise node.refuse(f"has a slope of shape {slope.shape}")
    return node.make("LeakyReLU", node.data, node.parameter(slope.reshape(-1), "gamma"), act_type="prelu")


@reads("HardSigmoid")
def import_hard_sigmoid(node: Node) -> Symbol:
    return node.make("hard_sigmoid", node.data, alpha=node.get("alpha", 0.2), beta=node.get("beta", 0.5))


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
