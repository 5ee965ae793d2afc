"""Special functions, and operators with a replaced gradient.

The first group is the error function, the gamma function and their relatives; :mod:`.special_functions` has the
numerics. The internal operator ``_polygamma`` closes the group under differentiation.

The second group controls gradients: ``BlockGrad`` stops them, ``make_loss`` replaces them by ones, the
straight-through estimators pass them on where the true gradient is zero, ``_contrib_gradientmultiplier`` scales them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.dtypes import DType, kind_of, name_of
from ...base.errors import MXNetError
from ...graph.interface import Interface, Onnx, same_shapes
from ...graph.node import Node
from ...graph.operator import Array, Operator, Spec, declare, nothing, operator, single
from ...lower import vector_math
from ...lower.ir.emitter import Emitter, Value
from ...lower.lowering import NUMBERS, Elementwise
from . import special_functions
from .broadcasting import refuse_booleans
from .comparison import greater, lesser
from .elementary import exp, sign
from .primitives import select
from .structural import constant, full

__all__ = ["digamma", "erf", "erfinv", "gamma", "gammaln", "polygamma"]


def _function(
    name: str,
    function: Callable[[Array], Array],
    rule: Callable[..., Node],
    sentence: str,
    emit: Callable[[Emitter, Value], Value] | None = None,
    **facts: Any,
) -> Operator:
    """Declare an elementwise function; integers are computed in floating point and truncated."""
    lowering = None if emit is None else Elementwise(emit)

    def reference(data: Array) -> Array:
        if kind_of(data.dtype) == "f":
            return function(data)
        return function(data.astype(np.float64)).astype(data.dtype)

    def infer(data: Node) -> Spec:
        refuse_booleans(name, data)
        return data.shape, data.dtype

    reference.__doc__ = f"Return {sentence}, element by element."
    facts.setdefault("interface", Interface(shapes=same_shapes))
    return declare(Operator(reference, name=name, infer=infer, gradient=rule, cost=20.0, lowering=lowering, **facts))


erf = _function(
    "erf",
    special_functions.erf,
    lambda g, y, x: g * (exp(-(x * x)) * (2 / math.sqrt(math.pi))),
    "the error function",
    vector_math.erf,
    npx="erf",
    onnx="Erf",
)
erfinv = _function(
    "erfinv",
    special_functions.erfinv,
    lambda g, y, x: g * (exp(y * y) * (math.sqrt(math.pi) / 2)),
    "the inverse of the error function: infinite at -1 and 1, NaN outside",
    vector_math.erfinv,
    npx="erfinv",
)
gamma = _function(
    "gamma", special_functions.gamma, lambda g, y, x: g * (y * digamma(x)), "the gamma function", npx="gamma"
)
gammaln = _function(
    "gammaln",
    special_functions.gammaln,
    lambda g, y, x: g * digamma(x),
    "the logarithm of the absolute value of the gamma function",
    npx="gammaln",
)


@operator(cost=100.0)
def _polygamma(data: Array, *, n: int) -> Array:
    """Return the n-th derivative of the digamma function, element by element; n = 0 is digamma."""
    if kind_of(data.dtype) == "f":
        return special_functions.polygamma(data, n)
    return special_functions.polygamma(data.astype(np.float64), n).astype(data.dtype)


@_polygamma.infer
def polygamma_shape(data: Node, *, n: int) -> Spec:
    if n < 0:
        raise MXNetError(f"_polygamma: the order n of the derivative must not be negative, but is {n}.")
    return data.shape, data.dtype


@_polygamma.gradient
def polygamma_grad(out_grad: Node, out: Node, data: Node, *, n: int) -> Node:
    return out_grad * polygamma(data, n + 1)


def polygamma(data: Node, n: int) -> Node:
    """Return the n-th derivative of the digamma function."""
    return single(_polygamma.apply((data,), (n,)))


def digamma(data: Node) -> Node:
    """Return the derivative of the logarithm of the gamma function."""
    return polygamma(data, 0)


# -- piecewise functions


def _smooth_numbers(dtype: DType, *, scalar: float) -> tuple[float, ...]:
    """Return the factor of the parabola, its bound, the offset of the lines, and whether the result is zero."""
    square = scalar * scalar
    return (0.5 * square, 1 / square, 0.5 / square, 0.0) if square else (0.0, 0.0, 0.0, 1.0)


def _emit_smooth(e: Emitter, x: Value, factor: Value, bound: Value, shift: Value, nothing: Value) -> Value:
    size = e.absolute(x)
    parabola = e.multiply(e.multiply(factor, x), x)
    value = e.select(e.relation("lt", size, bound), parabola, e.subtract(size, shift))
    return e.select(e.truth(nothing), e.like(x, 0), value)


@operator(lowering=Elementwise(_emit_smooth, numbers=_smooth_numbers), npx="smooth_l1")
def smooth_l1(data: Array, *, scalar: float = 1.0) -> Array:
    """Return the smooth L1 function of each element: a parabola near zero, the absolute value elsewhere.

    With s for ``scalar`` it is ``(s x)^2 / 2`` where ``|x| < 1 / s^2``, and ``|x| - 0.5 / s^2`` elsewhere.
    """
    x = data if kind_of(data.dtype) == "f" else data.astype(np.float64)
    square = scalar * scalar
    if square == 0:
        return np.zeros_like(data)
    size = np.abs(x)
    factor, bound, shift = (x.dtype.type(value) for value in (0.5 * square, 1 / square, 0.5 / square))
    return np.where(size < bound, factor * x * x, size - shift).astype(data.dtype)


@smooth_l1.gradient
def smooth_l1_grad(out_grad: Node, out: Node, data: Node, *, scalar: float) -> Node | None:
    square = scalar * scalar
    if square == 0:
        return None
    inside = lesser(data * sign(data), constant(1 / square, data.dtype))
    return out_grad * select(inside, data * square, sign(data))


def _emit_hard_sigmoid(e: Emitter, x: Value, alpha: Value, beta: Value) -> Value:
    line = e.add(e.multiply(x, alpha), beta)
    return e.minimum(e.maximum(line, e.like(x, 0)), e.like(x, 1))


@operator(
    lowering=Elementwise(_emit_hard_sigmoid, numbers=lambda dtype, *, alpha, beta: (alpha, beta)),
    npx="hard_sigmoid",
    onnx=Onnx("HardSigmoid", {"alpha": "alpha", "beta": "beta"}),
    family="activation",
)
def hard_sigmoid(data: Array, *, alpha: float = 0.2, beta: float = 0.5) -> Array:
    """Return ``max(0, min(1, alpha * x + beta))``, element by element."""
    factor, shift = data.dtype.type(alpha), data.dtype.type(beta)
    return np.asarray(np.clip(data * factor + shift, data.dtype.type(0), data.dtype.type(1)))


@hard_sigmoid.infer
def hard_sigmoid_shape(data: Node) -> Spec:
    if kind_of(data.dtype) != "f":
        raise MXNetError(
            f"This operation only support floating point types, not {name_of(data.dtype)}: hard_sigmoid. "
            f"Convert the array with astype('float32')."
        )
    return data.shape, data.dtype


@hard_sigmoid.gradient
def hard_sigmoid_grad(out_grad: Node, out: Node, data: Node, *, alpha: float) -> Node:
    between: Node = greater(out, constant(0, out.dtype)) * lesser(out, constant(1, out.dtype))
    return out_grad * (between * alpha)


# -- operators that control gradients


@operator(
    aliases=("stop_gradient",),
    gradient=nothing,
    is_view=True,
    npx="stop_gradient",
    onnx=Onnx("Identity", reads=False),
    family="shape",
    keeps_zero=True,
)
def BlockGrad(data: Array) -> Array:
    """Return the array with a gradient of zero: stop gradients."""
    return data


@operator(is_view=True, is_loss=True, onnx=Onnx("Identity", reads=False), family="loss", keeps_zero=True)
def make_loss(data: Array) -> Array:
    """Return the array as a loss: its gradient is one, and the incoming gradient is ignored."""
    return data


@make_loss.gradient
def make_loss_grad(out_grad: Node, out: Node, data: Node) -> Node:
    return full(data.shape, 1, data.dtype, data.context)


def _straight_through(out_grad: Node, out: Node, data: Node) -> Node:
    return out_grad


def _emit_round(e: Emitter, data: Value) -> Value:
    if kind_of(data.dtype) != "f":
        return data
    whole = e.call("trunc", data)
    away = e.relation("ge", e.absolute(e.subtract(data, whole)), e.like(data, 0.5))
    return e.add(whole, e.select(away, e.with_sign_of(e.like(data, 1), data), e.like(data, 0)))


@operator(name="_contrib_round_ste", gradient=_straight_through, lowering=Elementwise(_emit_round, NUMBERS))
def round_ste(data: Array) -> Array:
    """Round to the nearest integer, halves away from zero; the gradient is that of the identity."""
    if kind_of(data.dtype) != "f":
        return data.copy()
    # do not add 0.5 to the element itself: the largest number below 0.5 would round up
    whole = np.trunc(data)
    return np.asarray(whole + np.where(np.abs(data - whole) >= 0.5, np.sign(data), 0)).astype(data.dtype)


def _emit_sign(e: Emitter, data: Value) -> Value:
    zero, one = e.like(data, 0), e.like(data, 1)
    # comparisons with NaN are false, so NaN passes through
    negative = e.select(
        e.relation("lt", data, zero), e.negative(one), e.select(e.relation("eq", data, zero), zero, data)
    )
    return e.select(e.relation("gt", data, zero), one, negative)


@operator(name="_contrib_sign_ste", gradient=_straight_through, lowering=Elementwise(_emit_sign, NUMBERS))
def sign_ste(data: Array) -> Array:
    """Return the sign of each element: -1, 0 or 1; the gradient is that of the identity."""
    return np.sign(data)


@operator(name="_contrib_gradientmultiplier", is_view=True)
def gradientmultiplier(data: Array, *, scalar: float = 1.0, is_int: bool = True) -> Array:
    """Return the array; its gradient is multiplied by ``scalar``."""
    return data


@gradientmultiplier.gradient
def gradientmultiplier_grad(out_grad: Node, out: Node, data: Node, *, scalar: float) -> Node:
    return out_grad * scalar


# -- symbol declarations

make_loss.interface = Interface(outputs=("loss",))
smooth_l1.interface = hard_sigmoid.interface = Interface(shapes=same_shapes)


# -- precision in mixed-precision training

for _declared in (
    erfinv,
    gamma,
    gammaln,
    make_loss,
    smooth_l1,
):
    _declared.precision = "float32"
