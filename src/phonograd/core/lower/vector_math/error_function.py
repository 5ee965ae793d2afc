"""The error function and its inverse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.dtypes import FLOAT32, FLOAT64
from . import coefficients
from .logarithm import log
from .parts import give_sign, in_parts, polynomial

if TYPE_CHECKING:
    from ..ir.emitter import Emitter
    from ..ir.function_builder import Value

__all__ = ["erf", "erfinv"]

_HALF_ROOT_PI = "0.886226925452758013649083741670572591398774728061193564106903895"


def erf(e: Emitter, x: Value) -> Value:
    """Return the error function: the larger of x + x P(x**2) and 1 - Q(|x|)**4.

    P is accurate up to 1.03 and too small beyond. Q, the fourth root of 1 - erf(x), is accurate from 1.03 on; below, it
    is too large and the result too small. So no comparison with a limit is needed. An error of Q hardly matters where
    it is small. Its constant is added last, because it is the largest term::

        %q = fma(Q's other terms, %x, %c0)
        %q = fmul %q, %q
        %y = fma(-%q, %q, 1)
        %y = select (fcmp ogt %small, %y), %small, %y       one instruction: vmaxps

    With AVX2, multiply-adds, products and blends bound the speed: 16 of them here. The eighth root with a limit of
    1.1 needed 18, and took a sixth longer. These attempts failed as well: coefficients selected by lane with blends,
    or from tables of eight intervals with ``vpermps`` (9 multiply-adds, but as slow as 16, perhaps because tables and
    constants fill the registers); other ways to evaluate P, because the chain is not the limit. A loop over single
    registers was faster by a seventh outside of kernels, but slower for tanh. A quotient of polynomials (XLA) needs
    12 and a division, with errors of several units in the last place.
    """
    size, one = e.absolute(x), e.like(x, 1)
    # from this bound on, the result is 1
    bound = e.like(x, 4.2 if x.dtype == FLOAT32 else 6.0)
    bounded = e.select(e.relation("gt", size, bound), bound, size)
    square = e.multiply(bounded, bounded)
    small = e.fma(polynomial(e, square, coefficients.ERF[x.dtype]), bounded, bounded)
    constant, *others = coefficients.ERFC_ROOT[x.dtype]
    root = e.fma(polynomial(e, bounded, others, square), bounded, e.like(x, constant))
    root = e.multiply(root, root)
    large = e.fma(e.negative(root), root, one)
    return give_sign(e, e.select(e.relation("gt", small, large), small, large), x)


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
