"""Special functions, and operators whose gradient is not that of their value.

The first group is the error function and the gamma function with their relatives; the numerical work is in
:mod:`.special_functions`. The internal operator ``_polygamma`` closes it under differentiation.

The second group steers gradients: ``BlockGrad`` stops them, ``make_loss`` replaces them by ones, the straight-through
estimators let them pass where the true gradient is zero, ``_contrib_gradientmultiplier`` scales them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..errors import MXNetError
from ..node import Node
from ..operator import Array, Operator, Spec, declare, nothing, operator, single
from . import special_functions
from .comparison import greater, lesser
from .elementary import exp, sign
from .primitives import select
from .structural import constant, full

__all__ = ["digamma", "erf", "erfinv", "gamma", "gammaln", "polygamma"]


def _function(name: str, function: Callable[[Array], Array], rule: Callable[..., Node], sentence: str) -> Operator:
    """Declare an elementwise function; integers are computed in floating point and truncated."""

    def reference(data: Array) -> Array:
        if data.dtype.kind == "f":
            return function(data)
        return function(data.astype(np.float64)).astype(data.dtype)

    reference.__doc__ = f"Return {sentence}, element by element."
    return declare(Operator(reference, name=name, gradient=rule, cost=20.0))


erf = _function(
    "erf",
    special_functions.erf,
    lambda g, y, x: g * (exp(-(x * x)) * (2 / math.sqrt(math.pi))),
    "the error function",
)
erfinv = _function(
    "erfinv",
    special_functions.erfinv,
    lambda g, y, x: g * (exp(y * y) * (math.sqrt(math.pi) / 2)),
    "the inverse of the error function: infinite at -1 and 1, NaN outside",
)
gamma = _function(
    "gamma",
    special_functions.gamma,
    lambda g, y, x: g * (y * digamma(x)),
    "the gamma function",
)
gammaln = _function(
    "gammaln",
    special_functions.gammaln,
    lambda g, y, x: g * digamma(x),
    "the logarithm of the absolute value of the gamma function",
)


@operator(cost=100.0)
def _polygamma(data: Array, *, n: int) -> Array:
    """Return the n-th derivative of the digamma function, element by element; n = 0 is digamma."""
    if data.dtype.kind == "f":
        return special_functions.polygamma(data, n)
    return special_functions.polygamma(data.astype(np.float64), n).astype(data.dtype)


@_polygamma.infer
def _(data: Node, *, n: int) -> Spec:
    if n < 0:
        raise MXNetError(f"_polygamma: the order n of the derivative must not be negative, but is {n}.")
    return data.shape, data.dtype


@_polygamma.gradient
def _(out_grad: Node, out: Node, data: Node, *, n: int) -> Node:
    return out_grad * polygamma(data, n + 1)


def polygamma(data: Node, n: int) -> Node:
    """Return the n-th derivative of the digamma function."""
    return single(_polygamma.apply((data,), (n,)))


def digamma(data: Node) -> Node:
    """Return the derivative of the logarithm of the gamma function."""
    return polygamma(data, 0)


# -- piecewise functions


@operator()
def smooth_l1(data: Array, *, scalar: float = 1.0) -> Array:
    """Return a parabola around zero that continues as the absolute value.

    With s for ``scalar`` it is ``(s x)^2 / 2`` where ``|x| < 1 / s^2``, and ``|x| - 0.5 / s^2`` elsewhere.
    """
    x = data if data.dtype.kind == "f" else data.astype(np.float64)
    square = scalar * scalar
    if square == 0:
        return np.zeros_like(data)
    size = np.abs(x)
    factor, bound, shift = (x.dtype.type(value) for value in (0.5 * square, 1 / square, 0.5 / square))
    return np.where(size < bound, factor * x * x, size - shift).astype(data.dtype)


@smooth_l1.gradient
def _(out_grad: Node, out: Node, data: Node, *, scalar: float) -> Node | None:
    square = scalar * scalar
    if square == 0:
        return None
    inside = lesser(data * sign(data), constant(1 / square, data.dtype))
    return out_grad * select(inside, data * square, sign(data))


@operator()
def hard_sigmoid(data: Array, *, alpha: float = 0.2, beta: float = 0.5) -> Array:
    """Return ``alpha * x + beta``, cut off below 0 and above 1."""
    factor, shift = data.dtype.type(alpha), data.dtype.type(beta)
    return np.asarray(np.clip(data * factor + shift, data.dtype.type(0), data.dtype.type(1)))


@hard_sigmoid.infer
def _(data: Node) -> Spec:
    if data.dtype.kind != "f":
        raise MXNetError(
            f"This operation only support floating point types, not {data.dtype}: hard_sigmoid. "
            f"Convert the array with astype('float32')."
        )
    return data.shape, data.dtype


@hard_sigmoid.gradient
def _(out_grad: Node, out: Node, data: Node, *, alpha: float) -> Node:
    between: Node = greater(out, constant(0, out.dtype)) * lesser(out, constant(1, out.dtype))
    return out_grad * (between * alpha)


# -- operators that steer gradients


@operator(aliases=("stop_gradient",), gradient=nothing, is_view=True)
def BlockGrad(data: Array) -> Array:
    """Return the array; its gradient is zero."""
    return data


@operator(is_view=True)
def make_loss(data: Array) -> Array:
    """Return the array as a loss: its gradient is one, whatever is computed from it."""
    return data


@make_loss.gradient
def _(out_grad: Node, out: Node, data: Node) -> Node:
    return full(data.shape, 1, data.dtype, data.context)


def _straight_through(out_grad: Node, out: Node, data: Node) -> Node:
    return out_grad


@operator(name="_contrib_round_ste", gradient=_straight_through)
def round_ste(data: Array) -> Array:
    """Return the nearest whole number, halves away from zero; the gradient passes as if through the identity."""
    if data.dtype.kind != "f":
        return data.copy()
    # 0.5 is not added to the element itself: the largest number below 0.5 would round up
    whole = np.trunc(data)
    return np.asarray(whole + np.where(np.abs(data - whole) >= 0.5, np.sign(data), 0)).astype(data.dtype)


@operator(name="_contrib_sign_ste", gradient=_straight_through)
def sign_ste(data: Array) -> Array:
    """Return the sign: -1, 0 or 1; the gradient passes as if through the identity."""
    return np.sign(data)


@operator(name="_contrib_gradientmultiplier", is_view=True)
def gradientmultiplier(data: Array, *, scalar: float = 1.0, is_int: bool = True) -> Array:
    """Return the array; its gradient is multiplied by ``scalar``."""
    return data


@gradientmultiplier.gradient
def _(out_grad: Node, out: Node, data: Node, *, scalar: float) -> Node:
    return out_grad * scalar
