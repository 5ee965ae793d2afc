"""Elementwise functions: mathematics, rounding, classification. They take numbers as well as arrays.

Most are operators of the library under NumPy's names, which their declarations state (``numpy=``). As in MXNet,
integers stay integers (``np.exp`` of integers is truncated); convert them with ``astype`` first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array.binary import Numbers
from ..core.base.dtypes import BOOL, INT64, kind_of
from ..core.base.errors import unsupported_operand
from ..core.graph.node import Node
from ..core.graph.operator import NAMES, REGISTRY, Operator, single
from ..core.ops.math.comparison import equal, greater, lesser, logical_and, logical_or, not_equal
from ..core.ops.math.examination import isfinite as finite
from ..core.ops.math.examination import isinf as infinite
from ..core.ops.math.examination import isnan as not_a_number
from ..core.ops.math.pairs import bitwise_not as inverted
from ..core.ops.math.pairs import copysign
from ..core.ops.math.primitives import cast, select
from ..core.ops.math.structural import constant, full
from .declaration import Expression, expression
from .promotion import as_float

__all__ = ["offer", "ufunc"]

_NOT_IMPLEMENTED = ("casting", "dtype", "order", "subok", "where")


def ufunc(*names: str, on_numbers: Any, **facts: Any) -> Callable[[Callable[..., Any]], Expression]:
    """Return a decorator that turns a function on nodes into an elementwise function; NumPy handles numbers."""

    def answer(*numbers: Any) -> Any:
        for number in numbers:
            if not isinstance(number, Numbers):
                raise unsupported_operand(number)
        return on_numbers(*numbers)

    def tolerates(keyword: str, value: Any) -> bool:
        if keyword == "where" and value is True:
            return True
        if keyword in _NOT_IMPLEMENTED:
            raise NotImplementedError(f"{keyword}={value} is not implemented yet for operator {names[0]}")
        raise TypeError(f"{keyword} is an invalid keyword to function '{names[0]}'")

    def decorate(body: Any) -> Expression:
        made = expression(*names, on_numbers=answer, **facts)(body)
        made.tolerates = tolerates
        return made

    return decorate


def offer(declared: Operator) -> None:
    """Register an operator under its names in mx.np; it treats booleans as numbers."""
    names = declared.numpy.split()

    def body(x: Node) -> Any:
        return declared.apply((cast(x, INT64) if x.dtype == BOOL else x,), ())

    body.__doc__ = declared.__doc__
    methods = " ".join([name for name in names if REGISTRY.get(name) is declared])
    ufunc(*names, on_numbers=getattr(np, names[0]), method=methods)(body)


for _declared in dict.fromkeys(NAMES["numpy"].values()):
    offer(_declared)


@ufunc("bitwise_not", "invert", on_numbers=np.invert)
def bitwise_not(x: Node) -> Node:
    """Invert every bit of integers; booleans are negated."""
    return single(inverted(x))


@ufunc("rint", on_numbers=np.rint, method="rint")
def rint(x: Node) -> Node:
    """Round to the nearest integer; as in MXNet, halves round down."""
    return single(REGISTRY["rint"](x))


def _to_even(x: Node) -> Node:
    """Round to the nearest integer, halves to even."""
    below = single(REGISTRY["floor"](x))
    part = x - below
    is_odd = not_equal(single(REGISTRY["broadcast_mod"](below, 2)), 0)
    up = logical_or(greater(part, 0.5), logical_and(equal(part, 0.5), is_odd))
    return select(finite(x), below + up, x)


@expression("around", "round", "round_", on_numbers=np.around, method="round")
def around(x: Node, *, decimals: int = 0) -> Node:
    """Round to the given number of decimals, halves to even."""
    if kind_of(x.dtype) != "f":
        return x
    # powers that no number can hold are infinite, as in NumPy
    scale = 10.0**decimals if decimals < 309 else math.inf
    return _to_even(x * scale) / scale if decimals else _to_even(x)


def _truth(declared: Any) -> Any:
    def body(x: Node) -> Node:
        return cast(declared(x), BOOL)

    body.__doc__ = (
        (declared.__doc__ or "").replace("1 where", "where").replace(", else 0, in the dtype of the array", "")
    )
    return body


isnan = ufunc("isnan", on_numbers=np.isnan)(_truth(not_a_number))
isinf = ufunc("isinf", on_numbers=np.isinf)(_truth(infinite))
isfinite = ufunc("isfinite", on_numbers=np.isfinite)(_truth(finite))


@ufunc("isposinf", on_numbers=np.isposinf)
def isposinf(x: Node) -> Node:
    """Return whether elements are positive infinity."""
    return cast(logical_and(infinite(x), greater(x, 0)), BOOL)


@ufunc("isneginf", on_numbers=np.isneginf)
def isneginf(x: Node) -> Node:
    """Return whether elements are negative infinity."""
    return cast(logical_and(infinite(x), lesser(x, 0)), BOOL)


@ufunc("logical_not", on_numbers=np.logical_not)
def logical_not(x: Node) -> Node:
    """Return whether elements are zero."""
    return cast(single(REGISTRY["logical_not"](x)), BOOL)


@ufunc("signbit", on_numbers=np.signbit)
def signbit(x: Node) -> Node:
    """Return whether elements have the sign bit set: negative numbers and negative zero."""
    if kind_of(x.dtype) != "f":
        return cast(single(REGISTRY["broadcast_lesser"](x, 0)), BOOL)
    ones = full(x.shape, 1, x.dtype, x.context)
    return cast(single(REGISTRY["broadcast_lesser"](copysign(ones, x), 0)), BOOL)


@expression("nan_to_num", on_numbers=np.nan_to_num)
def nan_to_num(
    x: Node, *, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Node:
    """Replace NaN by a number, and infinities by the largest finite numbers or the given ones."""
    if kind_of(x.dtype) != "f":
        return x
    limits = np.finfo(x.dtype)
    above = float(limits.max) if posinf is None else posinf
    below = float(limits.min) if neginf is None else neginf
    found = select(not_a_number(x), constant(nan, x.dtype), x)
    found = select(equal(x, constant(math.inf, x.dtype)), constant(above, x.dtype), found)
    return select(equal(x, constant(-math.inf, x.dtype)), constant(below, x.dtype), found)


@expression("_clip")
def _clip(a: Node, *, a_min: float | None = None, a_max: float | None = None) -> Node:
    """Limit the elements to the range from ``a_min`` to ``a_max``."""
    if a_min is None and a_max is None:
        raise ValueError("array_clip: must set either max or min")
    limits = np.finfo(a.dtype) if kind_of(a.dtype) == "f" else np.iinfo(a.dtype)
    low = -math.inf if a_min is None and kind_of(a.dtype) == "f" else float(limits.min) if a_min is None else a_min
    high = math.inf if a_max is None and kind_of(a.dtype) == "f" else float(limits.max) if a_max is None else a_max
    return single(REGISTRY["clip"](a, a_min=low, a_max=high))


@ufunc("sinc", on_numbers=np.sinc)
def sinc(x: Node) -> Node:
    """Return sin(pi x) / (pi x), which is 1 at zero."""
    angle = as_float(x) * math.pi
    safe = select(equal(angle, 0), 1, angle)
    return select(equal(angle, 0), 1 - angle * angle / 6, single(REGISTRY["sin"](safe)) / safe)


@expression("real")
def real(val: Node) -> Node:
    """Return the real part: the array itself."""
    return val
