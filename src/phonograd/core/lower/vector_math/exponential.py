"""Functions based on the exponential: exp, expm1, sigmoid, sinh, cosh, tanh."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from . import coefficients
from .formats import FORMATS
from .parts import polynomial, power_of_two

if TYPE_CHECKING:
    from ...base.dtypes import DType
    from ..ir.emitter import Emitter
    from ..ir.function_builder import Value

__all__ = ["cosh", "exp", "exp_of_sum", "expm1", "reduce_argument", "sigmoid", "sinh", "tanh"]

_LOG2_E = 1.4426950408889634


def reduce_argument(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Return r and the integer n with x = n log 2 + r, r around zero."""
    form = FORMATS[x.dtype]
    shifted = e.fma(x, e.like(x, _LOG2_E), e.like(x, form.shifter))
    whole = e.subtract(shifted, e.like(x, form.shifter))
    high, low = form.log2
    rest = e.fma(whole, e.like(x, -low), e.fma(whole, e.like(x, -high), x))
    exponent = e.subtract(e.reinterpret(shifted, form.integer), e.constant(form.shifter_bits, form.integer))
    return rest, exponent


def _reduce_biased(e: Emitter, x: Value, biases: int) -> tuple[Value, Value]:
    """Return r and an integer whose low bits are n plus the bias of exponents, once or twice; x = n log 2 + r.

    The number that rounds to an integer contains the biases, so that a shift makes a power of two of the integer. Its
    higher bits are shifted out. The integers n are those of :func:`reduce_argument`: no product with a number of the
    format lies halfway between two of them, except 0.
    """
    form = FORMATS[x.dtype]
    shifter = e.like(x, form.shifter + biases * form.bias)
    shifted = e.fma(x, e.like(x, _LOG2_E), shifter)
    whole = e.subtract(shifted, shifter)
    high, low = form.log2
    rest = e.fma(whole, e.like(x, -low), e.fma(whole, e.like(x, -high), x))
    return rest, e.reinterpret(shifted, form.integer)


def _power(e: Emitter, biased: Value, dtype: DType) -> Value:
    """Return two to an integer power of normal size; the low bits of ``biased`` are the integer plus the bias."""
    return e.reinterpret(e.bits("shl", biased, e.like(biased, FORMATS[dtype].mantissa_bits)), dtype)


def _scale_biased(e: Emitter, value: Value, biased: Value) -> Value:
    """Return a value times a power of two that may be denormal, in two halves; ``biased`` contains two biases."""
    half = e.bits("lshr", biased, e.like(biased, 1))
    return e.multiply(e.multiply(value, _power(e, half, value.dtype)), _power(e, e.subtract(biased, half), value.dtype))


def _expm1_near(e: Emitter, r: Value) -> Value:
    """Return exp(r) - 1 around zero, with a small relative error."""
    square = e.multiply(r, r)
    return e.fma(polynomial(e, r, coefficients.EXP[r.dtype], square), square, r)


def _scale(e: Emitter, value: Value, exponent: Value) -> Value:
    """Return a value times a power of two that may be denormal, multiplied in two halves."""
    half = e.bits("ashr", exponent, e.like(exponent, 1))
    return e.multiply(e.multiply(value, power_of_two(e, half)), power_of_two(e, e.subtract(exponent, half)))


def _at_most(e: Emitter, x: Value, bound: float) -> Value:
    # comparisons with NaN are false, so NaN passes through
    return e.select(e.relation("gt", x, e.like(x, bound)), e.like(x, bound), x)


def _at_least(e: Emitter, x: Value, bound: float) -> Value:
    return e.select(e.relation("lt", x, e.like(x, bound)), e.like(x, bound), x)


def exp(e: Emitter, x: Value) -> Value:
    """Return the exponential: with x = n log 2 + r, it is 2**n times a polynomial in r.

    2**n is multiplied in two halves, because n may be below the smallest exponent of a normal number::

        %t = fma(%x, 1.4427, 12583166)      n + 2 * 127 in the lowest bits
        %n = fsub %t, 12583166
        %r = fma(%n, -0.693145752, %x)
        %r = fma(%n, -1.428606e-6, %r)
        ...                                 the polynomial
        %h = lshr %t, 1
        %v = fmul %p, (shl %h, 23)          2**(n >> 1)
        %v = fmul %v, (shl (%t - %h), 23)   2**(n - (n >> 1))
    """
    form = FORMATS[x.dtype]
    rest, biased = _reduce_biased(e, _at_least(e, _at_most(e, x, form.exp_most), form.exp_least), 2)
    return _scale_biased(e, e.add(_expm1_near(e, rest), e.like(x, 1)), biased)


def exp_of_sum(e: Emitter, x: Value, correction: Value) -> Value:
    """Return exp(x + correction) for a correction below the last bit of x."""
    form = FORMATS[x.dtype]
    bounded = _at_least(e, _at_most(e, x, form.exp_most), form.exp_least)
    rest, biased = _reduce_biased(e, bounded, 2)
    # beyond the bounds, and at infinity, the correction is meaningless
    near = e.select(e.relation("eq", bounded, x), correction, e.like(x, 0))
    rest = e.add(rest, near)
    return _scale_biased(e, e.add(_expm1_near(e, rest), e.like(x, 1)), biased)


def expm1(e: Emitter, x: Value) -> Value:
    """Return exp(x) - 1: with x = n log 2 + r, it is 2**n (exp(r) - 1 + (1 - 2**-n))."""
    form = FORMATS[x.dtype]
    rest, exponent = reduce_argument(e, _at_least(e, _at_most(e, x, form.exp_most), form.expm1_least))
    one = e.like(x, 1)
    # for larger exponents, 2**-n is below the last bit
    most = e.like(exponent, 100)
    inverse = power_of_two(e, e.negative(e.select(e.relation("gt", exponent, most), most, exponent)))
    near = e.add(_expm1_near(e, rest), e.subtract(one, inverse))
    # the sign is that of x, also for zero
    return e.with_sign_of(_scale(e, near, exponent), x)


def sigmoid(e: Emitter, x: Value) -> Value:
    """Return 1 / (1 + exp(-x)): with x = n log 2 - r, it is 2**n / (2**n + exp(r)).

    exp(r) is 1 plus a small number. The smaller one of 1 and 2**n is added to it first, so that the sum is rounded
    once and no bit of a small 2**n is lost::

        %u = 2**n                            in two halves: it may be denormal
        %s = fadd %near, (min %u, 1)
        %q = fdiv %u, (fadd (max %u, 1), %s)
    """
    form = FORMATS[x.dtype]
    bounded = _at_least(e, _at_most(e, x, form.sigmoid_most), form.exp_least)
    rest, biased = _reduce_biased(e, bounded, 2)
    near = _expm1_near(e, e.negative(rest))
    power = _scale_biased(e, e.like(x, 1), biased)
    return e.divide(power, e.add(_at_least(e, power, 1), e.add(near, _at_most(e, power, 1))))


def tanh(e: Emitter, x: Value) -> Value:
    """Return the hyperbolic tangent by its addition theorem: with x = n log(2) / 2 + r, and t = tanh(r)::

        %p = 2**n
        %d = fma(%p - 1, %t, %p + 1)
        %q = fdiv fma(%p + 1, %t, %p - 1), %d     n = 0: t itself
        %q = fadd 1, (fdiv fma(%t, 2, -2), %d)    from 0.92 on, where the result is closer to 1 than to 0

    The sign is applied at the end, so that tanh(-0.) is -0. and both sides are equal to the last bit. n is the integer
    next to 2.73 x, a little less than that next to 2 x / log 2: it becomes 2 where the result is 1/2. Below 1/2, the
    rounding errors of n = 2 would count twice. A large x leaves a larger r, whose error changes no bit there.
    """
    form = FORMATS[x.dtype]
    size, one, two = e.absolute(x), e.like(x, 1), e.like(x, 2)
    bounded = _at_most(e, size, form.tanh_most)
    shifter = e.like(x, form.shifter + form.bias)
    shifted = e.fma(bounded, e.like(x, 2.73), shifter)
    whole = e.subtract(shifted, shifter)
    # the error of log 2 is 0.4 units at most, where n is 1, and decreases
    rest = e.fma(whole, e.like(x, -math.log(2) / 2), bounded)
    square = e.multiply(rest, rest)
    small = e.fma(polynomial(e, square, coefficients.TANH[x.dtype]), e.multiply(square, rest), rest)
    power = _power(e, e.reinterpret(shifted, form.integer), x.dtype)
    above, below = e.add(power, one), e.subtract(power, one)
    far = e.relation("gt", size, e.like(x, 0.92))
    dividend = e.select(far, e.fma(small, two, e.negative(two)), e.fma(above, small, below))
    quotient = e.divide(dividend, e.fma(below, small, above))
    return e.with_sign_of(e.add(e.select(far, one, e.like(x, 0)), quotient), x)


def _half_exp(e: Emitter, x: Value) -> Value:
    """Return exp(x) / 2 for positive x, which overflows only if cosh does."""
    form = FORMATS[x.dtype]
    rest, exponent = reduce_argument(e, _at_most(e, x, form.exp_most + 1))
    return _scale(e, e.add(_expm1_near(e, rest), e.like(x, 1)), e.subtract(exponent, e.like(exponent, 1)))


def sinh(e: Emitter, x: Value) -> Value:
    """Return the hyperbolic sine: an odd polynomial up to 1, and h - 1 / (4 h) with h = exp(|x|) / 2 beyond."""
    size = e.absolute(x)
    square = e.multiply(size, size)
    small = e.fma(e.multiply(polynomial(e, square, coefficients.SINH[x.dtype]), square), size, size)
    half = _half_exp(e, size)
    large = e.subtract(half, e.divide(e.like(x, 0.25), half))
    return e.with_sign_of(e.select(e.relation("lt", size, e.like(x, 1)), small, large), x)


def cosh(e: Emitter, x: Value) -> Value:
    """Return the hyperbolic cosine: h + 1 / (4 h) with h = exp(|x|) / 2."""
    half = _half_exp(e, e.absolute(x))
    return e.add(half, e.divide(e.like(x, 0.25), half))
