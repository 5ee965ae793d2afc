"""Elementary functions on vectors: one sequence of instructions for every element, without branches.

Each is right for NaN (which stays NaN), infinities, signed zeros and denormal arguments and results. The largest
errors, found by ``python -m benchmarks.ulp`` (float32: every number, float64: random ones), in units of the last place:

========  =======  =======
function  float32  float64
========  =======  =======
exp       0.99     0.98
tanh      0.97     1.05
========  =======  =======

The coefficients of the polynomials come from ``python -m benchmarks.polynomials``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..dtypes import FLOAT32, FLOAT64, INT32, INT64, DType

if TYPE_CHECKING:
    from .emitter import Emitter
    from .function import Value

__all__ = ["exp", "tanh"]


class _Format(NamedTuple):
    """What the functions must know about a floating point format."""

    integer: DType
    mantissa_bits: int
    bias: int
    #: 1.5 * 2**mantissa_bits: adding it rounds to a whole number, which then stands in the lowest bits
    shifter: float
    shifter_bits: int
    #: log 2 in two parts, the first with so few bits that multiples of it are exact
    log2_high: float
    log2_low: float
    #: outside of these, exp is 0 and infinite
    exp_least: float
    exp_most: float
    exp_tail: tuple[float, ...]
    #: beyond this, tanh rounds to 1
    tanh_most: float
    tanh_tail: tuple[float, ...]


_FORMATS = {
    FLOAT32: _Format(
        integer=INT32,
        mantissa_bits=23,
        bias=127,
        shifter=12582912.0,
        shifter_bits=0x4B400000,
        log2_high=0.693145751953125,
        log2_low=1.42860682030941723212e-6,
        exp_least=-104.0,
        exp_most=89.0,
        exp_tail=(
            0.5,
            0.1666666716337204,
            0.04166646674275398,
            0.00833331048488617,
            0.0013933649752289057,
            0.00019890991097781807,
        ),
        tanh_most=9.1,
        tanh_tail=(
            -0.3333333432674408,
            0.13333331048488617,
            -0.05396759510040283,
            0.0218625757843256,
            -0.008826250210404396,
            0.00347838643938303,
            -0.0012421575374901295,
            0.000337689823936671,
            -4.8467110900674015e-05,
        ),
    ),
    FLOAT64: _Format(
        integer=INT64,
        mantissa_bits=52,
        bias=1023,
        shifter=6755399441055744.0,
        shifter_bits=0x4338000000000000,
        log2_high=6.93147180369123816490e-01,
        log2_low=1.90821492927058770002e-10,
        exp_least=-746.0,
        exp_most=710.0,
        exp_tail=(
            0.5,
            0.1666666666666667,
            0.04166666666666674,
            0.008333333333326136,
            0.0013888888888849633,
            0.00019841269874820627,
            2.4801587390456325e-05,
            2.7557255400206422e-06,
            2.7557219614431705e-07,
            2.5105217004720745e-08,
            2.0931040586756586e-09,
        ),
        tanh_most=19.1,
        tanh_tail=(
            -0.3333333333333333,
            0.1333333333333331,
            -0.053968253968231523,
            0.021869488535296695,
            -0.008863235512566054,
            0.003592127823422879,
            -0.0014558326516768139,
            0.0005900175685254319,
            -0.0002390884367049363,
            9.67910218266933e-05,
            -3.8991741215043214e-05,
            1.541627724102249e-05,
            -5.777484136865915e-06,
            1.9216974143833895e-06,
            -5.122767150793261e-07,
            9.364144622965758e-08,
            -8.538161901212156e-09,
        ),
    ),
}

_LOG2_E = 1.4426950408889634


def exp(e: Emitter, x: Value) -> Value:
    """Return the exponential: with x = n log 2 + r, it is 2**n times a polynomial in r.

    2**n is multiplied in two halves, because n may be below the smallest exponent of a normal number::

        %t = fma(%x, 1.4427, 12582912)      n in the lowest bits
        %n = fsub %t, 12582912
        %r = fma(%n, -0.693145752, %x)
        %r = fma(%n, -1.428606e-6, %r)
        ...                                 the polynomial
        %v = fmul %p, 2**(n >> 1)
        %v = fmul %v, 2**(n - (n >> 1))
    """
    form = _FORMATS[x.dtype]
    # comparisons with NaN are false, so it passes both
    x = e.select(e.compare("ogt", x, e.like(x, form.exp_most)), e.like(x, form.exp_most), x)
    x = e.select(e.compare("olt", x, e.like(x, form.exp_least)), e.like(x, form.exp_least), x)
    fraction, exponent = _exp_parts(e, x)
    one = e.constant(1, form.integer)
    half = e.bits("ashr", exponent, one)
    return e.multiply(e.multiply(fraction, _power_of_two(e, half)), _power_of_two(e, e.subtract(exponent, half)))


def tanh(e: Emitter, x: Value) -> Value:
    """Return the hyperbolic tangent: an odd polynomial up to 1, and 1 - 2 / (exp(2 |x|) + 1) beyond.

    The sign is put on at the end, so that tanh(-0.) is -0. and both sides are equal to the last bit.
    """
    form = _FORMATS[x.dtype]
    size = e.absolute(x)
    square = e.multiply(size, size)
    small = e.fma(e.multiply(_polynomial(e, square, form.tanh_tail), square), size, size)
    most = e.like(x, form.tanh_most)
    bounded = e.select(e.compare("ogt", size, most), most, size)
    fraction, exponent = _exp_parts(e, e.add(bounded, bounded))
    power = e.multiply(fraction, _power_of_two(e, exponent))
    large = e.subtract(e.like(x, 1), e.divide(e.like(x, 2), e.add(power, e.like(x, 1))))
    return e.with_sign_of(e.select(e.compare("olt", size, e.like(x, 1)), small, large), x)


def _exp_parts(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Return exp(x) as a number near 1 and an integer power of two."""
    form = _FORMATS[x.dtype]
    shifted = e.fma(x, e.like(x, _LOG2_E), e.like(x, form.shifter))
    whole = e.subtract(shifted, e.like(x, form.shifter))
    rest = e.fma(whole, e.like(x, -form.log2_high), x)
    rest = e.fma(whole, e.like(x, -form.log2_low), rest)
    tail = e.fma(_polynomial(e, rest, form.exp_tail), e.multiply(rest, rest), rest)
    exponent = e.subtract(e.reinterpret(shifted, form.integer), e.constant(form.shifter_bits, form.integer))
    return e.add(tail, e.like(x, 1)), exponent


def _polynomial(e: Emitter, x: Value, coefficients: tuple[float, ...]) -> Value:
    """Return a polynomial by Horner's rule, the constant coefficient first: one ``fma`` each."""
    total = e.like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = e.fma(total, x, e.like(x, coefficient))
    return total


def _power_of_two(e: Emitter, exponent: Value) -> Value:
    """Return two to an integer power within the range of normal numbers, made of its bits."""
    dtype = FLOAT32 if exponent.dtype == INT32 else FLOAT64
    form = _FORMATS[dtype]
    biased = e.add(exponent, e.constant(form.bias, form.integer))
    return e.reinterpret(e.bits("shl", biased, e.constant(form.mantissa_bits, form.integer)), dtype)
