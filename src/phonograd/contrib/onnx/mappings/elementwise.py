"""Operators that compute each element by itself."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..graph import Call, Graph, maps

__all__: list[str] = []

#: operators of one array that ONNX has under another name
_UNARY = {
    "abs": "Abs",
    "arccos": "Acos",
    "arccosh": "Acosh",
    "arcsin": "Asin",
    "arcsinh": "Asinh",
    "arctan": "Atan",
    "arctanh": "Atanh",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "identity": "Identity",
    "BlockGrad": "Identity",
    "MakeLoss": "Identity",
    "make_loss": "Identity",
    "log": "Log",
    "negative": "Neg",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "softsign": "Softsign",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
}

#: operators of two arrays, by what follows "broadcast_", "elemwise_" and so on
_BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "power": "Pow", "maximum": "Max", "minimum": "Min"}

#: comparisons give 0 and 1 in the dtype of what is compared; the second word is whether to turn the answer around
_COMPARISONS = {
    "equal": ("Equal", False),
    "not_equal": ("Equal", True),
    "greater": ("Greater", False),
    "greater_equal": ("GreaterOrEqual", False),
    "lesser": ("Less", False),
    "lesser_equal": ("LessOrEqual", False),
}


def _declare_unary(name: str, operator: str) -> None:
    @maps(name)
    def _(graph: Graph, call: Call) -> str:
        return graph.add(operator, [call.data])


for _name, _operator in _UNARY.items():
    _declare_unary(_name, _operator)


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


@maps("hard_sigmoid")
def export_hard_sigmoid(graph: Graph, call: Call) -> str:
    return graph.add("HardSigmoid", [call.data], alpha=call["alpha"], beta=call["beta"])


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


@maps("add_n")
def export_add_n(graph: Graph, call: Call) -> str:
    return graph.add("Sum", list(call.inputs))


@maps("where")
def export_where(graph: Graph, call: Call) -> str:
    if len(call.shapes[0]) != len(call.shapes[1]):
        raise call.refuse("chooses whole rows")
    return graph.add("Where", [graph.cast(call.data, np.bool_), *call.inputs[1:]])


@maps("_contrib_div_sqrt_dim")
def export_contrib_div_sqrt_dim(graph: Graph, call: Call) -> str:
    return graph.add("Div", [call.data, graph.scalar(math.sqrt(call.shape[-1]), call.dtype)])


# -- two arrays, and an array with a number


def modulo(graph: Graph, left: str, right: str) -> str:
    """Return the rest of a division, with the sign of the divisor."""
    whole = graph.add("Floor", [graph.add("Div", [left, right])])
    return graph.add("Sub", [left, graph.add("Mul", [whole, right])])


def hypotenuse(graph: Graph, left: str, right: str) -> str:
    """Return the square root of the sum of two squares."""
    squares = [graph.add("Mul", [side, side]) for side in (left, right)]
    return graph.add("Sqrt", [graph.add("Add", squares)])


Pair = Callable[[Graph, str, str, Call], str]


def _plain(operator: str) -> Pair:
    return lambda graph, left, right, call: graph.add(operator, [left, right])


def _comparison(operator: str, turned: bool) -> Pair:
    def compare(graph: Graph, left: str, right: str, call: Call) -> str:
        answer = graph.add(operator, [left, right])
        return graph.cast(graph.add("Not", [answer]) if turned else answer, call.output_dtype)

    return compare


def _logical(operator: str) -> Pair:
    def combine(graph: Graph, left: str, right: str, call: Call) -> str:
        answers = [graph.cast(side, np.bool_) for side in (left, right)]
        return graph.cast(graph.add(operator, answers), call.output_dtype)

    return combine


_PAIRS: dict[str, Pair] = {
    **{word: _plain(operator) for word, operator in _BINARY.items()},
    **{word: _comparison(*facts) for word, facts in _COMPARISONS.items()},
    "mod": lambda graph, left, right, call: modulo(graph, left, right),
    "hypot": lambda graph, left, right, call: hypotenuse(graph, left, right),
    "logical_and": _logical("And"),
    "logical_or": _logical("Or"),
    "logical_xor": _logical("Xor"),
}

#: names of the same operations beside a number; a second one has the number on the left
_WITH_NUMBERS = {
    "add": ("_plus_scalar",),
    "sub": ("_minus_scalar", "_rminus_scalar"),
    "mul": ("_mul_scalar",),
    "div": ("_div_scalar", "_rdiv_scalar"),
    "mod": ("_mod_scalar", "_rmod_scalar"),
    "power": ("_power_scalar", "_rpower_scalar"),
    **{word: (f"_{word}_scalar",) for word in ("maximum", "minimum", "hypot", *_COMPARISONS)},
    **{word: (f"_{word}_scalar",) for word in ("logical_and", "logical_or", "logical_xor")},
}


def _declare_pair(pair: Pair, broadcast: str, numbers: tuple[str, ...]) -> None:
    @maps(broadcast)
    def _(graph: Graph, call: Call) -> str:
        return pair(graph, call.inputs[0], call.inputs[1], call)

    @maps(numbers[0])
    def _(graph: Graph, call: Call) -> str:
        return pair(graph, call.data, graph.scalar(call["scalar"], call.dtype), call)

    for reflected in numbers[1:]:

        @maps(reflected)
        def _(graph: Graph, call: Call) -> str:
            return pair(graph, graph.scalar(call["scalar"], call.dtype), call.data, call)


for _word, _pair in _PAIRS.items():
    _declare_pair(_pair, f"broadcast_{_word}", _WITH_NUMBERS[_word])


def _declare_same_shape(name: str, operator: str) -> None:
    @maps(name)
    def _(graph: Graph, call: Call) -> str:
        return graph.add(operator, call.inputs)


for _word in ("add", "sub", "mul", "div"):
    _declare_same_shape(f"elemwise_{_word}", _BINARY[_word])
