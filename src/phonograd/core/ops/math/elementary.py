"""Elementary functions of one array, element by element: the declaration of each is one line of a table.

On integer arrays the function is computed in double precision and truncated, as MXNet does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...graph.node import Node
from ...graph.operator import Array, Operator, declare, nothing
from ...lower import vector_math
from ...lower.ir.emitter import Emitter, Value
from ...lower.lowering import FLOATS, NUMBERS, Elementwise
from .comparison import greater

__all__ = ["unary"]


def unary(
    name: str,
    function: Callable[[Array], Any],
    rule: Callable[[Node, Node, Node], Node | None],
    sentence: str,
    emit: Callable[[Emitter, Value], Value],
    *,
    aliases: tuple[str, ...] = (),
    numpy: Any = None,
    exact: bool = False,
    cost: float = 1.0,
) -> Operator:
    """Declare an elementwise function of one array.

    ``rule(out_grad, out, data)`` gives the gradient, ``emit(emitter, data)`` the instructions of kernels. ``exact``
    says that the function keeps integers integers; otherwise it is computed in floating point and converted back.
    """

    def reference(data: Array) -> Array:
        if exact or (data.dtype.kind == "f" and data.dtype.itemsize > 2):
            return np.asarray(function(data)).astype(data.dtype, copy=False)
        # halves are computed in single precision, integers in double
        wide = np.float32 if data.dtype.kind == "f" else np.float64
        return np.asarray(function(data.astype(wide))).astype(data.dtype)

    reference.__doc__ = f"Return {sentence}, element by element."
    return declare(
        Operator(
            reference,
            name=name,
            aliases=aliases,
            gradient=rule,
            method=True,
            numpy=numpy,
            cost=cost,
            lowering=Elementwise(emit, NUMBERS if exact else FLOATS),
        )
    )


def _whole(function: str) -> Callable[[Emitter, Value], Value]:
    """Return the emitter of a function of LLVM's that rounds; integers are whole already."""
    return lambda e, x: e.call(function, x) if x.dtype.kind == "f" else x


def _inverse(e: Emitter, x: Value) -> Value:
    return e.divide(e.like(x, 1), x)


def _round_half_away(x: Array) -> Array:
    # 0.5 is not added to the element itself: the largest number below 0.5 would round up
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, np.abs(whole) + 1, np.abs(whole)), x)


def _emit_round(e: Emitter, x: Value) -> Value:
    whole = e.call("trunc", x)
    size = e.absolute(whole)
    up = e.relation("ge", e.absolute(e.subtract(x, whole)), e.like(x, 0.5))
    return e.with_sign_of(e.select(up, e.add(size, e.like(x, 1)), size), x)


def _round_half_down(x: Array) -> Array:
    # unlike that to the floor, the distance to the whole number towards zero is exact
    rest = x - np.trunc(x)
    return np.where((rest > 0.5) | ((rest > -0.5) & (rest < 0)), np.ceil(x), np.floor(x))


def _emit_rint(e: Emitter, x: Value) -> Value:
    rest, zero, half = e.subtract(x, e.call("trunc", x)), e.like(x, 0), e.like(x, 0.5)
    inwards = e.bits("and", e.relation("gt", rest, e.negative(half)), e.relation("lt", rest, zero))
    up = e.bits("or", e.relation("gt", rest, half), inwards)
    return e.select(up, e.call("ceil", x), e.call("floor", x))


def _sign(x: Array) -> Array:
    # unlike NumPy's, zero for what is not a number
    return np.subtract(x > 0, x < 0, dtype=np.int8)


def _emit_sign(e: Emitter, x: Value) -> Value:
    zero, one = e.like(x, 0), e.like(x, 1)
    negative = e.select(e.relation("lt", x, zero), e.negative(one), zero)
    return e.select(e.relation("gt", x, zero), one, negative)


def _sigmoid(x: Array) -> Array:
    # exp only ever sees non-positive arguments, so nothing overflows
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _emit_relu(e: Emitter, x: Value) -> Value:
    zero = e.like(x, 0)
    # true for NaN, which stays
    positive = e.compare("ugt", x, zero) if x.dtype.kind == "f" else e.relation("gt", x, zero)
    return e.select(positive, x, zero)


def _emit_softsign(e: Emitter, x: Value) -> Value:
    return e.divide(x, e.add(e.like(x, 1), e.absolute(x)))


def _scaled(factor: float) -> Callable[[Emitter, Value], Value]:
    return lambda e, x: e.multiply(x, e.like(x, factor))


identity = unary(
    "identity", lambda x: x, lambda g, y, x: g, "the array", lambda e, x: x, aliases=("_copy",), exact=True, cost=0
)
negative = unary(
    "negative",
    np.negative,
    lambda g, y, x: -g,
    "the negative",
    lambda e, x: e.negative(x),
    numpy=np.negative,
    exact=True,
)
abs_: Operator = unary(
    "abs",
    np.abs,
    lambda g, y, x: g * sign(x),
    "the absolute value",
    lambda e, x: e.absolute(x),
    numpy=np.absolute,
    exact=True,
)
sign: Operator = unary("sign", _sign, nothing, "the sign: -1, 0 or 1", _emit_sign, numpy=np.sign, exact=True)
ceil = unary("ceil", np.ceil, nothing, "the smallest whole number not below", _whole("ceil"), numpy=np.ceil, exact=True)
floor = unary(
    "floor", np.floor, nothing, "the largest whole number not above", _whole("floor"), numpy=np.floor, exact=True
)
trunc = unary("trunc", np.trunc, nothing, "the whole number towards zero", _whole("trunc"), numpy=np.trunc, exact=True)
fix = unary("fix", np.trunc, nothing, "the whole number towards zero", _whole("trunc"), exact=True)
round_ = unary("round", _round_half_away, nothing, "the nearest whole number, halves away from zero", _emit_round)
rint = unary(
    "rint",
    _round_half_down,
    nothing,
    "the nearest whole number, halves downwards",
    _emit_rint,
)

square = unary(
    "square",
    np.square,
    lambda g, y, x: g * (x * 2),
    "the square",
    lambda e, x: e.multiply(x, x),
    numpy=np.square,
    exact=True,
)
sqrt = unary(
    "sqrt", np.sqrt, lambda g, y, x: g * (0.5 / y), "the square root", lambda e, x: e.call("sqrt", x), numpy=np.sqrt
)
rsqrt = unary(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    lambda g, y, x: g * (y / x * -0.5),
    "one over the square root",
    lambda e, x: _inverse(e, e.call("sqrt", x)),
)
cbrt = unary(
    "cbrt", np.cbrt, lambda g, y, x: g / (y * y * 3), "the cube root", vector_math.cbrt, numpy=np.cbrt, cost=10
)
rcbrt = unary(
    "rcbrt",
    lambda x: 1 / np.cbrt(x),
    lambda g, y, x: g * (y / x * (-1 / 3)),
    "one over the cube root",
    lambda e, x: _inverse(e, vector_math.cbrt(e, x)),
    cost=10,
)
reciprocal = unary(
    "reciprocal", lambda x: 1 / x, lambda g, y, x: -(g * (y * y)), "one over the element", _inverse, numpy=np.reciprocal
)

exp = unary("exp", np.exp, lambda g, y, x: g * y, "the exponential", vector_math.exp, numpy=np.exp, cost=10)
expm1 = unary("expm1", np.expm1, lambda g, y, x: g * (y + 1), "exp(x) - 1", vector_math.expm1, numpy=np.expm1, cost=10)
log = unary("log", np.log, lambda g, y, x: g / x, "the natural logarithm", vector_math.log, numpy=np.log, cost=10)
log10 = unary(
    "log10",
    np.log10,
    lambda g, y, x: g / (x * math.log(10)),
    "the decimal logarithm",
    vector_math.log10,
    numpy=np.log10,
    cost=10,
)
log2 = unary(
    "log2",
    np.log2,
    lambda g, y, x: g / (x * math.log(2)),
    "the binary logarithm",
    vector_math.log2,
    numpy=np.log2,
    cost=10,
)
log1p = unary("log1p", np.log1p, lambda g, y, x: g / (x + 1), "log(1 + x)", vector_math.log1p, numpy=np.log1p, cost=10)

sin: Operator = unary("sin", np.sin, lambda g, y, x: g * cos(x), "the sine", vector_math.sin, numpy=np.sin, cost=20)
cos: Operator = unary(
    "cos", np.cos, lambda g, y, x: -(g * sin(x)), "the cosine", vector_math.cos, numpy=np.cos, cost=20
)
tan = unary("tan", np.tan, lambda g, y, x: g * (y * y + 1), "the tangent", vector_math.tan, numpy=np.tan, cost=20)
arcsin = unary(
    "arcsin",
    np.arcsin,
    lambda g, y, x: g * rsqrt(1 - x * x),
    "the inverse sine",
    vector_math.arcsin,
    numpy=np.arcsin,
    cost=10,
)
arccos = unary(
    "arccos",
    np.arccos,
    lambda g, y, x: -(g * rsqrt(1 - x * x)),
    "the inverse cosine",
    vector_math.arccos,
    numpy=np.arccos,
    cost=10,
)
arctan = unary(
    "arctan",
    np.arctan,
    lambda g, y, x: g / (x * x + 1),
    "the inverse tangent",
    vector_math.arctan,
    numpy=np.arctan,
    cost=10,
)
sinh: Operator = unary(
    "sinh", np.sinh, lambda g, y, x: g * cosh(x), "the hyperbolic sine", vector_math.sinh, numpy=np.sinh, cost=10
)
cosh: Operator = unary(
    "cosh", np.cosh, lambda g, y, x: g * sinh(x), "the hyperbolic cosine", vector_math.cosh, numpy=np.cosh, cost=10
)
tanh = unary(
    "tanh", np.tanh, lambda g, y, x: g * (1 - y * y), "the hyperbolic tangent", vector_math.tanh, numpy=np.tanh, cost=10
)
arcsinh = unary(
    "arcsinh",
    np.arcsinh,
    lambda g, y, x: g * rsqrt(x * x + 1),
    "the inverse hyperbolic sine",
    vector_math.arcsinh,
    numpy=np.arcsinh,
    cost=20,
)
arccosh = unary(
    "arccosh",
    np.arccosh,
    lambda g, y, x: g * rsqrt(x * x - 1),
    "the inverse hyperbolic cosine",
    vector_math.arccosh,
    numpy=np.arccosh,
    cost=20,
)
arctanh = unary(
    "arctanh",
    np.arctanh,
    lambda g, y, x: g / (1 - x * x),
    "the inverse hyperbolic tangent",
    vector_math.arctanh,
    numpy=np.arctanh,
    cost=20,
)
degrees = unary(
    "degrees",
    np.degrees,
    lambda g, y, x: g * (180 / math.pi),
    "radians as degrees",
    _scaled(180 / math.pi),
    numpy=np.degrees,
)
radians = unary(
    "radians",
    np.radians,
    lambda g, y, x: g * (math.pi / 180),
    "degrees as radians",
    _scaled(math.pi / 180),
    numpy=np.radians,
)

relu = unary(
    "relu",
    lambda x: np.maximum(x, x.dtype.type(0)),
    lambda g, y, x: g * greater(y, 0),
    "max(x, 0)",
    _emit_relu,
    exact=True,
)
sigmoid = unary(
    "sigmoid", _sigmoid, lambda g, y, x: g * (y * (1 - y)), "1 / (1 + exp(-x))", vector_math.sigmoid, cost=12
)
softsign = unary(
    "softsign", lambda x: x / (1 + np.abs(x)), lambda g, y, x: g / ((abs_(x) + 1) ** 2), "x / (1 + |x|)", _emit_softsign
)

Node.arithmetic["negative"] = negative
