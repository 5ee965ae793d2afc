"""Elementary functions of one array, element by element: the declaration of each is one line of a table.

On integer arrays the function is computed in double precision and truncated, as MXNet does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels.lowering import Elementwise
from ..node import Node
from ..operator import Array, Operator, declare, nothing
from .comparison import greater

__all__ = ["unary"]


def unary(
    name: str,
    function: Callable[[Array], Any],
    rule: Callable[[Node, Node, Node], Node | None],
    sentence: str,
    *,
    aliases: tuple[str, ...] = (),
    numpy: Any = None,
    exact: bool = False,
    cost: float = 1.0,
    lowering: Elementwise | None = None,
) -> Operator:
    """Declare an elementwise function of one array.

    ``rule(out_grad, out, data)`` gives the gradient. ``exact`` says that the function keeps integers integers;
    otherwise it is computed in floating point and converted back.
    """

    def reference(data: Array) -> Array:
        if exact or data.dtype.kind == "f":
            return np.asarray(function(data)).astype(data.dtype, copy=False)
        return np.asarray(function(data.astype(np.float64))).astype(data.dtype)

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
            lowering=lowering,
        )
    )


def _round_half_away(x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def _round_half_down(x: Array) -> Array:
    return np.asarray(np.ceil(x - x.dtype.type(0.5)))


def _sign(x: Array) -> Array:
    # unlike NumPy's, zero for what is not a number
    return np.subtract(x > 0, x < 0, dtype=np.int8)


def _sigmoid(x: Array) -> Array:
    # exp only ever sees non-positive arguments, so nothing overflows
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


identity = unary("identity", lambda x: x, lambda g, y, x: g, "the array", aliases=("_copy",), exact=True)
negative = unary("negative", np.negative, lambda g, y, x: -g, "the negative", numpy=np.negative, exact=True)
abs_: Operator = unary("abs", np.abs, lambda g, y, x: g * sign(x), "the absolute value", numpy=np.absolute, exact=True)
sign: Operator = unary("sign", _sign, nothing, "the sign: -1, 0 or 1", numpy=np.sign, exact=True)
ceil = unary("ceil", np.ceil, nothing, "the smallest whole number not below", numpy=np.ceil, exact=True)
floor = unary("floor", np.floor, nothing, "the largest whole number not above", numpy=np.floor, exact=True)
trunc = unary("trunc", np.trunc, nothing, "the whole number towards zero", numpy=np.trunc, exact=True)
fix = unary("fix", np.trunc, nothing, "the whole number towards zero", exact=True)
round_ = unary("round", _round_half_away, nothing, "the nearest whole number, halves away from zero")
rint = unary("rint", _round_half_down, nothing, "the nearest whole number, halves downwards")

square = unary("square", np.square, lambda g, y, x: g * (x * 2), "the square", numpy=np.square, exact=True)
sqrt = unary("sqrt", np.sqrt, lambda g, y, x: g * (0.5 / y), "the square root", numpy=np.sqrt)
rsqrt = unary("rsqrt", lambda x: 1 / np.sqrt(x), lambda g, y, x: g * (y / x * -0.5), "one over the square root")
cbrt = unary("cbrt", np.cbrt, lambda g, y, x: g / (y * y * 3), "the cube root", numpy=np.cbrt)
rcbrt = unary("rcbrt", lambda x: 1 / np.cbrt(x), lambda g, y, x: g * (y / x * (-1 / 3)), "one over the cube root")
reciprocal = unary(
    "reciprocal", lambda x: 1 / x, lambda g, y, x: -(g * (y * y)), "one over the element", numpy=np.reciprocal
)

exp = unary(
    "exp",
    np.exp,
    lambda g, y, x: g * y,
    "the exponential",
    numpy=np.exp,
    cost=10,
    lowering=Elementwise(lambda e, x: e.exp(x)),
)
expm1 = unary("expm1", np.expm1, lambda g, y, x: g * (y + 1), "exp(x) - 1", numpy=np.expm1, cost=10)
log = unary("log", np.log, lambda g, y, x: g / x, "the natural logarithm", numpy=np.log, cost=10)
log10 = unary(
    "log10", np.log10, lambda g, y, x: g / (x * math.log(10)), "the decimal logarithm", numpy=np.log10, cost=10
)
log2 = unary("log2", np.log2, lambda g, y, x: g / (x * math.log(2)), "the binary logarithm", numpy=np.log2, cost=10)
log1p = unary("log1p", np.log1p, lambda g, y, x: g / (x + 1), "log(1 + x)", numpy=np.log1p, cost=10)

sin: Operator = unary("sin", np.sin, lambda g, y, x: g * cos(x), "the sine", numpy=np.sin, cost=10)
cos: Operator = unary("cos", np.cos, lambda g, y, x: -(g * sin(x)), "the cosine", numpy=np.cos, cost=10)
tan = unary("tan", np.tan, lambda g, y, x: g * (y * y + 1), "the tangent", numpy=np.tan, cost=10)
arcsin = unary("arcsin", np.arcsin, lambda g, y, x: g * rsqrt(1 - x * x), "the inverse sine", numpy=np.arcsin, cost=10)
arccos = unary(
    "arccos", np.arccos, lambda g, y, x: -(g * rsqrt(1 - x * x)), "the inverse cosine", numpy=np.arccos, cost=10
)
arctan = unary("arctan", np.arctan, lambda g, y, x: g / (x * x + 1), "the inverse tangent", numpy=np.arctan, cost=10)
sinh: Operator = unary("sinh", np.sinh, lambda g, y, x: g * cosh(x), "the hyperbolic sine", numpy=np.sinh, cost=10)
cosh: Operator = unary("cosh", np.cosh, lambda g, y, x: g * sinh(x), "the hyperbolic cosine", numpy=np.cosh, cost=10)
tanh = unary(
    "tanh",
    np.tanh,
    lambda g, y, x: g * (1 - y * y),
    "the hyperbolic tangent",
    numpy=np.tanh,
    cost=10,
    lowering=Elementwise(lambda e, x: e.tanh(x)),
)
arcsinh = unary(
    "arcsinh",
    np.arcsinh,
    lambda g, y, x: g * rsqrt(x * x + 1),
    "the inverse hyperbolic sine",
    numpy=np.arcsinh,
    cost=10,
)
arccosh = unary(
    "arccosh",
    np.arccosh,
    lambda g, y, x: g * rsqrt(x * x - 1),
    "the inverse hyperbolic cosine",
    numpy=np.arccosh,
    cost=10,
)
arctanh = unary(
    "arctanh", np.arctanh, lambda g, y, x: g / (1 - x * x), "the inverse hyperbolic tangent", numpy=np.arctanh, cost=10
)
degrees = unary("degrees", np.degrees, lambda g, y, x: g * (180 / math.pi), "radians as degrees", numpy=np.degrees)
radians = unary("radians", np.radians, lambda g, y, x: g * (math.pi / 180), "degrees as radians", numpy=np.radians)

relu = unary(
    "relu", lambda x: np.maximum(x, x.dtype.type(0)), lambda g, y, x: g * greater(y, 0), "max(x, 0)", exact=True
)
sigmoid = unary("sigmoid", _sigmoid, lambda g, y, x: g * (y * (1 - y)), "1 / (1 + exp(-x))", cost=12)
softsign = unary(
    "softsign",
    lambda x: x / (1 + np.abs(x)),
    lambda g, y, x: g / ((abs_(x) + 1) ** 2),
    "x / (1 + |x|)",
)

Node.arithmetic["negative"] = negative
