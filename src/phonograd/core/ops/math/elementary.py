"""Elementary functions of one array, element by element; each declaration is one line of a table.

On integer arrays a function is computed in double precision and truncated, as in MXNet.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.dtypes import kind_of
from ...graph.interface import Interface, Onnx, same_shapes
from ...graph.node import Node
from ...graph.operator import Array, Operator, Spec, declare, nothing
from ...lower import vector_math
from ...lower.ir.emitter import Emitter, Value
from ...lower.lowering import FLOATS, NUMBERS, Elementwise
from .broadcasting import refuse_booleans
from .comparison import greater

__all__ = ["unary"]


def unary(
    name: str,
    function: Callable[[Array], Any],
    rule: Callable[[Node, Node, Node], Node | None],
    sentence: str,
    emit: Callable[[Emitter, Value], Value],
    *,
    numpy: str = "",
    answers: str | None = None,
    exact: bool = False,
    takes_booleans: bool = False,
    **facts: Any,
) -> Operator:
    """Declare an elementwise function of one array.

    ``rule(out_grad, out, data)`` returns the gradient, ``emit(emitter, data)`` emits the instructions of kernels.
    ``exact`` functions keep integers as integers; other functions convert them to floating point and back. ``answers``
    names the NumPy function that the operator implements; default: its name in mx.np. Booleans raise MXNet's error
    unless the function ``takes_booleans``.
    """

    def reference(data: Array) -> Array:
        if exact or (kind_of(data.dtype) == "f" and data.dtype.itemsize > 2):
            return np.asarray(function(data)).astype(data.dtype, copy=False)
        # float16 is computed in float32, integers in float64
        wide = np.float32 if kind_of(data.dtype) == "f" else np.float64
        return np.asarray(function(data.astype(wide))).astype(data.dtype)

    def infer(data: Node) -> Spec:
        if not takes_booleans:
            refuse_booleans(name, data)
        return data.shape, data.dtype

    reference.__doc__ = f"Return {sentence}, element by element."
    facts.setdefault("interface", Interface(shapes=same_shapes))
    return declare(
        Operator(
            reference,
            name=name,
            infer=infer,
            gradient=rule,
            method=True,
            numpy=numpy,
            answers=numpy.partition(" ")[0] if answers is None else answers,
            lowering=Elementwise(emit, NUMBERS if exact else FLOATS),
            **facts,
        )
    )


def _whole(function: str) -> Callable[[Emitter, Value], Value]:
    """Return the emitter of one of LLVM's rounding functions; integers pass unchanged."""
    return lambda e, x: e.call(function, x) if kind_of(x.dtype) == "f" else x


def _inverse(e: Emitter, x: Value) -> Value:
    return e.divide(e.like(x, 1), x)


def _round_half_away(x: Array) -> Array:
    # do not add 0.5 to the element itself: the largest number below 0.5 would round up
    whole = np.trunc(x)
    return np.copysign(np.where(np.abs(x - whole) >= 0.5, np.abs(whole) + 1, np.abs(whole)), x)


def _emit_round(e: Emitter, x: Value) -> Value:
    whole = e.call("trunc", x)
    size = e.absolute(whole)
    up = e.relation("ge", e.absolute(e.subtract(x, whole)), e.like(x, 0.5))
    return e.with_sign_of(e.select(up, e.add(size, e.like(x, 1)), size), x)


def _round_half_down(x: Array) -> Array:
    # unlike the distance to the floor, the distance to the truncated number is exact
    rest = x - np.trunc(x)
    return np.where((rest > 0.5) | ((rest > -0.5) & (rest < 0)), np.ceil(x), np.floor(x))


def _emit_rint(e: Emitter, x: Value) -> Value:
    rest, zero, half = e.subtract(x, e.call("trunc", x)), e.like(x, 0), e.like(x, 0.5)
    inwards = e.bits("and", e.relation("gt", rest, e.negative(half)), e.relation("lt", rest, zero))
    up = e.bits("or", e.relation("gt", rest, half), inwards)
    return e.select(up, e.call("ceil", x), e.call("floor", x))


def _sign(x: Array) -> Array:
    # unlike NumPy's, zero for NaN
    return np.subtract(x > 0, x < 0, dtype=np.int8)


def _emit_sign(e: Emitter, x: Value) -> Value:
    zero, one = e.like(x, 0), e.like(x, 1)
    negative = e.select(e.relation("lt", x, zero), e.negative(one), zero)
    return e.select(e.relation("gt", x, zero), one, negative)


def _sigmoid(x: Array) -> Array:
    # exp only receives arguments of at most 0, so it cannot overflow
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _emit_relu(e: Emitter, x: Value) -> Value:
    zero = e.like(x, 0)
    # true for NaN, which passes through
    positive = e.compare("ugt", x, zero) if kind_of(x.dtype) == "f" else e.relation("gt", x, zero)
    return e.select(positive, x, zero)


def _emit_softsign(e: Emitter, x: Value) -> Value:
    return e.divide(x, e.add(e.like(x, 1), e.absolute(x)))


def _emit_scale(factor: float) -> Callable[[Emitter, Value], Value]:
    return lambda e, x: e.multiply(x, e.like(x, factor))


# the table: the function first, then its other facts
# fmt: off
identity = unary(
    "identity", lambda x: x, lambda g, y, x: g, "the array", lambda e, x: x,
    aliases=("_copy",), exact=True, takes_booleans=True, cost=0, numpy="positive", answers="",
    in_files="_copy _copyto _CrossDeviceCopy", onnx="Identity", keeps_zero=True,
)
negative = unary(
    "negative", np.negative, lambda g, y, x: -g, "-x", lambda e, x: e.negative(x),
    exact=True, numpy="negative", onnx="Neg", keeps_zero=True,
)
abs_: Operator = unary(
    "abs", np.abs, lambda g, y, x: g * sign(x), "the absolute value", lambda e, x: e.absolute(x),
    exact=True, numpy="absolute abs fabs", onnx="Abs", keeps_zero=True,
)
sign: Operator = unary(
    "sign", _sign, nothing, "the sign: -1, 0 or 1", _emit_sign,
    exact=True, numpy="sign", onnx="Sign", keeps_zero=True,
)
ceil = unary(
    "ceil", np.ceil, nothing, "the smallest integer not less than x", _whole("ceil"),
    exact=True, numpy="ceil", onnx="Ceil", keeps_zero=True,
)
floor = unary(
    "floor", np.floor, nothing, "the largest integer not greater than x", _whole("floor"),
    exact=True, numpy="floor", onnx="Floor", keeps_zero=True,
)
trunc = unary(
    "trunc", np.trunc, nothing, "x truncated towards zero", _whole("trunc"),
    exact=True, numpy="trunc", keeps_zero=True,
)
fix = unary(
    "fix", np.trunc, nothing, "x truncated towards zero", _whole("trunc"),
    exact=True, numpy="fix", answers="", keeps_zero=True,
)
round_ = unary(
    "round", _round_half_away, nothing, "the nearest integer, halves away from zero", _emit_round,
    keeps_zero=True,
)
rint = unary(
    "rint", _round_half_down, nothing, "the nearest integer, halves rounded down", _emit_rint,
    onnx=Onnx("Round", writes=False), keeps_zero=True,
)

square = unary(
    "square", np.square, lambda g, y, x: g * (x * 2), "the square", lambda e, x: e.multiply(x, x),
    exact=True, numpy="square", keeps_zero=True,
)
sqrt = unary(
    "sqrt", np.sqrt, lambda g, y, x: g * (0.5 / y), "the square root", lambda e, x: e.call("sqrt", x),
    numpy="sqrt", onnx="Sqrt", keeps_zero=True,
)
rsqrt = unary(
    "rsqrt", lambda x: 1 / np.sqrt(x), lambda g, y, x: g * (y / x * -0.5), "1 / sqrt(x)",
    lambda e, x: _inverse(e, e.call("sqrt", x)),
)
cbrt = unary(
    "cbrt", np.cbrt, lambda g, y, x: g / (y * y * 3), "the cube root", vector_math.cbrt,
    cost=10, numpy="cbrt", keeps_zero=True,
)
rcbrt = unary(
    "rcbrt", lambda x: 1 / np.cbrt(x), lambda g, y, x: g * (y / x * (-1 / 3)), "1 / cbrt(x)",
    lambda e, x: _inverse(e, vector_math.cbrt(e, x)),
    cost=10,
)
reciprocal = unary(
    "reciprocal", lambda x: 1 / x, lambda g, y, x: -(g * (y * y)), "1 / x", _inverse,
    numpy="reciprocal", onnx="Reciprocal",
)

exp = unary(
    "exp", np.exp, lambda g, y, x: g * y, "the exponential exp(x)", vector_math.exp,
    cost=10, numpy="exp", onnx="Exp",
)
expm1 = unary(
    "expm1", np.expm1, lambda g, y, x: g * (y + 1), "exp(x) - 1", vector_math.expm1,
    cost=10, numpy="expm1", keeps_zero=True,
)
log = unary(
    "log", np.log, lambda g, y, x: g / x, "the natural logarithm", vector_math.log,
    cost=10, numpy="log", onnx="Log",
)
log10 = unary(
    "log10", np.log10, lambda g, y, x: g / (x * math.log(10)), "the base-10 logarithm", vector_math.log10,
    cost=10, numpy="log10",
)
log2 = unary(
    "log2", np.log2, lambda g, y, x: g / (x * math.log(2)), "the base-2 logarithm", vector_math.log2,
    cost=10, numpy="log2",
)
log1p = unary(
    "log1p", np.log1p, lambda g, y, x: g / (x + 1), "log(1 + x)", vector_math.log1p,
    cost=10, numpy="log1p", keeps_zero=True,
)

sin: Operator = unary(
    "sin", np.sin, lambda g, y, x: g * cos(x), "the sine", vector_math.sin,
    cost=20, numpy="sin", onnx="Sin", keeps_zero=True,
)
cos: Operator = unary(
    "cos", np.cos, lambda g, y, x: -(g * sin(x)), "the cosine", vector_math.cos,
    cost=20, numpy="cos", onnx="Cos",
)
tan = unary(
    "tan", np.tan, lambda g, y, x: g * (y * y + 1), "the tangent", vector_math.tan,
    cost=20, numpy="tan", onnx="Tan", keeps_zero=True,
)
arcsin = unary(
    "arcsin", np.arcsin, lambda g, y, x: g * rsqrt(1 - x * x), "the inverse sine", vector_math.arcsin,
    cost=10, numpy="arcsin", onnx="Asin", keeps_zero=True,
)
arccos = unary(
    "arccos", np.arccos, lambda g, y, x: -(g * rsqrt(1 - x * x)), "the inverse cosine", vector_math.arccos,
    cost=10, numpy="arccos", onnx="Acos",
)
arctan = unary(
    "arctan", np.arctan, lambda g, y, x: g / (x * x + 1), "the inverse tangent", vector_math.arctan,
    cost=10, numpy="arctan", onnx="Atan", keeps_zero=True,
)
sinh: Operator = unary(
    "sinh", np.sinh, lambda g, y, x: g * cosh(x), "the hyperbolic sine", vector_math.sinh,
    cost=10, numpy="sinh", onnx="Sinh", keeps_zero=True, precision="float32",
)
cosh: Operator = unary(
    "cosh", np.cosh, lambda g, y, x: g * sinh(x), "the hyperbolic cosine", vector_math.cosh,
    cost=10, numpy="cosh", onnx="Cosh", precision="float32",
)
tanh = unary(
    "tanh", np.tanh, lambda g, y, x: g * (1 - y * y), "the hyperbolic tangent", vector_math.tanh,
    cost=10, numpy="tanh", onnx="Tanh", family="activation", keeps_zero=True,
)
arcsinh = unary(
    "arcsinh", np.arcsinh, lambda g, y, x: g * rsqrt(x * x + 1), "the inverse hyperbolic sine", vector_math.arcsinh,
    cost=20, numpy="arcsinh", onnx="Asinh", keeps_zero=True,
)
arccosh = unary(
    "arccosh", np.arccosh, lambda g, y, x: g * rsqrt(x * x - 1), "the inverse hyperbolic cosine", vector_math.arccosh,
    cost=20, numpy="arccosh", onnx="Acosh",
)
arctanh = unary(
    "arctanh", np.arctanh, lambda g, y, x: g / (1 - x * x), "the inverse hyperbolic tangent", vector_math.arctanh,
    cost=20, numpy="arctanh", onnx="Atanh", keeps_zero=True,
)
degrees = unary(
    "degrees", np.degrees, lambda g, y, x: g * (180 / math.pi), "radians as degrees", _emit_scale(180 / math.pi),
    numpy="degrees rad2deg", keeps_zero=True,
)
radians = unary(
    "radians", np.radians, lambda g, y, x: g * (math.pi / 180), "degrees as radians", _emit_scale(math.pi / 180),
    numpy="radians deg2rad", keeps_zero=True,
)

relu = unary(
    "relu", lambda x: np.maximum(x, x.dtype.type(0)), lambda g, y, x: g * greater(y, 0), "max(x, 0)", _emit_relu,
    exact=True, npx="relu", onnx="Relu", family="activation", keeps_zero=True,
)
sigmoid = unary(
    "sigmoid", _sigmoid, lambda g, y, x: g * (y * (1 - y)), "the sigmoid 1 / (1 + exp(-x))", vector_math.sigmoid,
    cost=12, npx="sigmoid", onnx="Sigmoid", family="activation",
)
softsign = unary(
    "softsign", lambda x: x / (1 + np.abs(x)), lambda g, y, x: g / ((abs_(x) + 1) ** 2), "the softsign x / (1 + |x|)",
    _emit_softsign, onnx="Softsign", family="activation",
)
# fmt: on

Node.arithmetic["negative"] = negative


# -- precision in mixed-precision training

for _declared in (
    arccos,
    arcsin,
    arctanh,
    exp,
    expm1,
    log,
    log10,
    log1p,
    log2,
    rcbrt,
    reciprocal,
    rsqrt,
    square,
    tan,
):
    _declared.precision = "float32"
