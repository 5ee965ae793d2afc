"""Inverse sine, cosine and tangent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import coefficients
from .parts import add_smaller, in_parts, polynomial

if TYPE_CHECKING:
    from ..ir.emitter import Emitter
    from ..ir.function_builder import Value

__all__ = ["arccos", "arcsin", "arctan"]

_HALF_PI = "1.570796326794896619231321691639751442098584699687552910487472296"
_QUARTER_PI = "0.785398163397448309615660845819875721049292349843776455243736148"


def arctan(e: Emitter, x: Value) -> Value:
    """Return the inverse tangent: an odd polynomial up to tan(pi / 8), rotated by pi / 4 or pi / 2 beyond.

    With t = |x|, (|x| - 1) / (|x| + 1) or -1 / |x|, it is 0, pi / 4 or pi / 2 plus the polynomial in t.
    """
    size, zero, one = e.absolute(x), e.like(x, 0), e.like(x, 1)
    above = e.relation("gt", size, e.like(x, 0.41421356237309503))
    far = e.relation("gt", size, e.like(x, 2.414213562373095))
    top = e.select(far, e.like(x, -1), e.select(above, e.subtract(size, one), size))
    bottom = e.select(far, size, e.select(above, e.add(size, one), one))
    t = e.divide(top, bottom)
    square = e.multiply(t, t)
    series = e.multiply(e.multiply(polynomial(e, square, coefficients.ATAN[x.dtype]), square), t)
    quarter, half = in_parts(_QUARTER_PI, x.dtype), in_parts(_HALF_PI, x.dtype)
    turn, rest = [
        e.select(far, e.like(x, half[part]), e.select(above, e.like(x, quarter[part]), zero)) for part in (0, 1)
    ]
    return e.with_sign_of(e.add(turn, e.add(t, e.add(series, rest))), x)


def _arcsin_near(e: Emitter, t: Value, square: Value) -> Value:
    """Return arcsin(t) - t for |t| up to 1/2, given t**2."""
    return e.multiply(e.multiply(polynomial(e, square, coefficients.ASIN[t.dtype]), square), t)


def _halve(e: Emitter, size: Value) -> tuple[Value, Value, Value]:
    """Return a mask of |x| above 1/2, t and its square; t is |x|, or the root of (1 - |x|) / 2 under the mask.

    There, arccos(|x|) is 2 arcsin(t).
    """
    half = e.like(size, 0.5)
    above = e.relation("gt", size, half)
    # 1 - |x| is exact there
    square = e.select(above, e.multiply(e.subtract(e.like(size, 1), size), half), e.multiply(size, size))
    return above, e.select(above, e.call("sqrt", square), size), square


def arcsin(e: Emitter, x: Value) -> Value:
    """Return the inverse sine: an odd polynomial up to 1/2, and pi / 2 - 2 arcsin(root((1 - x) / 2)) beyond."""
    size = e.absolute(x)
    above, t, square = _halve(e, size)
    near = _arcsin_near(e, t, square)
    high, low = [e.like(x, part) for part in in_parts(_HALF_PI, x.dtype)]
    less, lost = add_smaller(e, high, e.multiply(t, e.like(x, -2)))
    large = e.add(less, e.add(e.fma(near, e.like(x, -2), lost), low))
    return e.with_sign_of(e.select(above, large, e.add(t, near)), x)


def arccos(e: Emitter, x: Value) -> Value:
    """Return the inverse cosine: pi / 2 - arcsin(x) up to 1/2, 2 arcsin(t) or pi - 2 arcsin(t) beyond."""
    size = e.absolute(x)
    above, t, square = _halve(e, size)
    small = e.add(t, _arcsin_near(e, t, square))
    high, low = [e.like(x, part) for part in in_parts(_HALF_PI, x.dtype)]
    negative = e.relation("lt", x, e.like(x, 0))
    twice = e.add(small, small)
    beyond = e.select(negative, e.add(high, e.add(high, e.subtract(e.add(low, low), twice))), twice)
    signed = e.with_sign_of(small, x)
    return e.select(above, beyond, e.subtract(high, e.subtract(signed, low)))
