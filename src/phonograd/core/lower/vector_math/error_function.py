"""The error function and its inverse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.dtypes import FLOAT32, FLOAT64
from . import coefficients
from .exponential import exp_of_moderate
from .logarithm import log
from .parts import in_parts, polynomial

if TYPE_CHECKING:
    from ..ir.emitter import Emitter
    from ..ir.function_builder import Value

__all__ = ["erf", "erfinv"]

_HALF_ROOT_PI = "0.886226925452758013649083741670572591398774728061193564106903895"


def erf(e: Emitter, x: Value) -> Value:
    """Return the error function: x + x P(x**2) up to 1, and 1 - exp(-x**2) Q(|x|) beyond."""
    single = x.dtype == FLOAT32
    most, center, table = (4.0, 2.5, coefficients.ERFC) if single else (6.0, 3.0, coefficients.ERFC_WIDE)
    size, one = e.absolute(x), e.like(x, 1)
    small = e.fma(polynomial(e, e.multiply(size, size), coefficients.ERF[x.dtype]), size, size)
    # beyond this bound, the result is 1
    bounded = e.select(e.relation("gt", size, e.like(x, most)), e.like(x, most), size)
    scale = exp_of_moderate(e, e.negative(e.multiply(bounded, bounded)))
    complement = e.multiply(scale, polynomial(e, e.subtract(bounded, e.like(x, center)), table[x.dtype]))
    large = e.subtract(one, complement)
    return e.with_sign_of(e.select(e.relation("lt", size, one), small, large), x)


def erfinv(e: Emitter, x: Value) -> Value:
    """Return the inverse error function: x times a function of w = -log(1 - x**2), or of the root of w for large w.

    float32 is computed in double precision. Infinite at -1 and 1, NaN outside.
    """
    target = x.dtype
    wide = e.convert(x, FLOAT64) if target == FLOAT32 else x
    one = e.like(wide, 1)
    w = e.negative(log(e, e.fma(e.negative(wide), wide, one)))
    root = e.call("sqrt", w)
    high, low = [e.like(w, part) for part in in_parts(_HALF_ROOT_PI, FLOAT64)]
    slope = polynomial(e, e.subtract(w, e.like(w, 3.0)), coefficients.ERFINV_NEAR[target])
    near = e.fma(wide, high, e.multiply(wide, e.fma(w, slope, low)))
    ratio = polynomial(e, e.subtract(root, e.like(w, 3.25)), coefficients.ERFINV_MIDDLE[target])
    if target == FLOAT64:
        far = polynomial(e, e.subtract(root, e.like(w, 5.0)), coefficients.ERFINV_FAR[target])
        ratio = e.select(e.relation("lt", root, e.like(w, 4.1)), ratio, far)
    result = e.select(e.relation("lt", w, e.like(w, 6.0)), near, e.multiply(wide, ratio))
    result = e.select(e.relation("eq", e.absolute(wide), one), e.like(wide, float("inf")), result)
    return e.convert(e.with_sign_of(result, wide), target)
