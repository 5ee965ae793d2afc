"""Sine, cosine and tangent.

An angle is reduced to r = x - n pi / 2 with |r| up to pi / 4. Ordinary angles subtract pi / 2 in three parts, whose
first product is exact. If any angle of a vector is larger, all are also reduced by the method of Payne and Hanek: x =
m 2**e is multiplied, in integers, by just those 192 bits of 2 / pi that matter for the fraction. Each lane takes the
result for its own size, so no lane depends on its neighbors.
"""

from __future__ import annotations

import functools
import itertools
import math
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

from ...base.dtypes import BOOL, FLOAT64, INT64, UINT64
from ..ir.function_builder import Value
from . import coefficients
from .formats import FORMATS
from .parts import add_smaller, in_parts, multiply_exactly, polynomial

if TYPE_CHECKING:
    from ..ir.emitter import Emitter

__all__ = ["cos", "cos_sin_of_turns", "sin", "tan"]

_HALF_PI = "1.5707963267948966192313216916397514420985846996875529104874722961539082031431045"
_TWO_OVER_PI = 0.6366197723675814
#: words of 2 / pi for an angle of the largest exponent, with a word of zeros before them
_WORDS = 20


def sin(e: Emitter, x: Value) -> Value:
    """Return the sine; NaN at infinity."""
    rest, quadrant = _reduce(e, x)
    sine, cosine = _sine(e, rest), _cosine(e, rest)
    value = e.select(_is_odd(e, quadrant), cosine, sine)
    return e.reinterpret(e.bits("xor", _sign_of(e, x), _negate(e, value, quadrant)), x.dtype)


def cos(e: Emitter, x: Value) -> Value:
    """Return the cosine; NaN at infinity."""
    rest, quadrant = _reduce(e, x)
    sine, cosine = _sine(e, rest), _cosine(e, rest)
    value = e.select(_is_odd(e, quadrant), sine, cosine)
    # negative in the quadrants 1 and 2
    return e.reinterpret(_negate(e, value, e.add(quadrant, e.like(quadrant, 1))), x.dtype)


def tan(e: Emitter, x: Value) -> Value:
    """Return the tangent: sine by cosine, each with its rounding error; NaN at infinity."""
    rest, quadrant = _reduce(e, x)
    square = e.multiply(rest, rest)
    series = e.multiply(e.multiply(polynomial(e, square, coefficients.SIN[x.dtype]), square), rest)
    sine = add_smaller(e, rest, series)
    near, error = add_smaller(e, e.like(x, 1), e.multiply(square, e.like(x, -0.5)))
    error = e.fma(e.fma(rest, rest, e.negative(square)), e.like(x, -0.5), error)
    fourth = e.multiply(square, square)
    cosine = add_smaller(e, near, e.fma(polynomial(e, square, coefficients.COS[x.dtype]), fourth, error))
    odd = _is_odd(e, quadrant)
    above, above_lost = [e.select(odd, c, s) for c, s in zip(cosine, sine)]
    below, below_lost = [e.select(odd, s, c) for c, s in zip(cosine, sine)]
    quotient = e.divide(above, below)
    remainder = e.fma(e.negative(quotient), below, above)
    remainder = e.fma(e.negative(quotient), below_lost, e.add(remainder, above_lost))
    value = e.add(quotient, e.divide(remainder, below))
    # negative in odd quadrants
    turned = e.bits("shl", quadrant, e.like(quadrant, 8 * quadrant.dtype.itemsize - 1))
    pattern = e.bits("xor", e.reinterpret(value, quadrant.dtype), turned)
    return e.reinterpret(e.bits("xor", pattern, _sign_of(e, x)), x.dtype)


def cos_sin_of_turns(e: Emitter, turns: Value) -> tuple[Value, Value]:
    """Return cosine and sine of a fraction of a turn between 0 and 1, which can be reduced exactly."""
    form = FORMATS[turns.dtype]
    shifted = e.fma(turns, e.like(turns, 4), e.like(turns, form.shifter))
    whole = e.subtract(shifted, e.like(turns, form.shifter))
    rest = e.multiply(e.fma(turns, e.like(turns, 4), e.negative(whole)), e.like(turns, math.pi / 2))
    quadrant = e.reinterpret(shifted, form.integer)
    sine, cosine, odd = _sine(e, rest), _cosine(e, rest), _is_odd(e, quadrant)
    first, second = e.select(odd, sine, cosine), e.select(odd, cosine, sine)
    return (
        e.reinterpret(_negate(e, first, e.add(quadrant, e.like(quadrant, 1))), turns.dtype),
        e.reinterpret(_negate(e, second, quadrant), turns.dtype),
    )


def _sine(e: Emitter, rest: Value) -> Value:
    square = e.multiply(rest, rest)
    return e.fma(e.multiply(polynomial(e, square, coefficients.SIN[rest.dtype]), square), rest, rest)


def _cosine(e: Emitter, rest: Value) -> Value:
    square = e.multiply(rest, rest)
    series = e.fma(polynomial(e, square, coefficients.COS[rest.dtype]), square, e.like(rest, -0.5))
    return e.fma(series, square, e.like(rest, 1))


def _is_odd(e: Emitter, quadrant: Value) -> Value:
    return e.relation("ne", e.bits("and", quadrant, e.like(quadrant, 1)), e.like(quadrant, 0))


def _negate(e: Emitter, value: Value, quadrant: Value) -> Value:
    """Return the bits of a value, with the sign changed if the second bit of the quadrant is set."""
    sign_bit = 8 * quadrant.dtype.itemsize - 1
    second = e.bits("and", quadrant, e.like(quadrant, 2))
    return e.bits("xor", e.reinterpret(value, quadrant.dtype), e.bits("shl", second, e.like(quadrant, sign_bit - 1)))


def _sign_of(e: Emitter, x: Value) -> Value:
    """Return the sign bit."""
    integer = FORMATS[x.dtype].integer
    sign_bit = e.constant(8 * integer.itemsize - 1, integer)
    return e.bits("shl", e.bits("lshr", e.reinterpret(x, integer), sign_bit), sign_bit)


# -- reduction


def _reduce(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Return r and an integer n with |x| = n pi / 2 + r; only the two lowest bits of n have a meaning."""
    form = FORMATS[x.dtype]
    size = e.absolute(x)
    shifted = e.fma(size, e.like(x, _TWO_OVER_PI), e.like(x, form.shifter))
    whole = e.subtract(shifted, e.like(x, form.shifter))
    rest = size
    for part in in_parts(_HALF_PI, x.dtype, 3):
        rest = e.fma(whole, e.like(x, -part), rest)
    quadrant = e.reinterpret(shifted, form.integer)
    large = e.relation("gt", size, e.like(x, form.angle_most))

    def reduce_large() -> list[Value]:
        far, turns = _payne_hanek(e, e.convert(size, FLOAT64))
        chosen = e.select(large, e.convert(far, x.dtype), rest)
        # infinity has no angle
        chosen = e.select(e.relation("lt", size, e.like(x, float("inf"))), chosen, e.like(x, float("nan")))
        return [chosen, e.select(large, e.convert(turns, form.integer), quadrant)]

    reduced, turned = e.choose(e.any(large), reduce_large, lambda: [rest, quadrant])
    return reduced, turned


@functools.cache
def _words() -> tuple[int, ...]:
    """Return a word of zeros, and then the binary digits of 2 / pi, 64 to a word."""
    bits = 64 * (_WORDS - 1)
    with localcontext() as context:
        context.prec = 450
        scaled = int(Decimal(2) / _pi(440) * Decimal(2) ** bits)
    return (0, *[scaled >> (bits - 64 * (k + 1)) & (1 << 64) - 1 for k in range(_WORDS - 1)])


def _pi(digits: int) -> Decimal:
    """Return pi to many digits, by Machin's formula in integers."""
    unit = 10 ** (digits + 10)

    def arctan_of_inverse(number: int) -> int:
        term: int = unit // number
        total, divisor, sign = term, 1, 1
        while term:
            term //= number * number
            divisor, sign = divisor + 2, -sign
            total += sign * (term // divisor)
        return total

    return Decimal(4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))) / Decimal(unit)


def _payne_hanek(e: Emitter, size: Value) -> tuple[Value, Value]:
    """Return r and n for large angles in double precision.

    W is 2 / pi times a power of two, without its bits of weight 4 and more. The product m W modulo 2**192 has the
    quadrant in its two highest bits and the fraction below them.
    """
    pattern = e.reinterpret(size, UINT64)
    exponent = e.bits("lshr", pattern, e.constant(52, UINT64))
    mantissa = e.bits("and", pattern, e.constant((1 << 52) - 1, UINT64))
    mantissa = e.bits("or", mantissa, e.constant(1 << 52, UINT64))
    # the exponent of the last bit is this less 1075, and the first bit of the word of zeros has the weight 2**63
    position = e.subtract(exponent, e.constant(1075 - 62, UINT64))
    first, second, third = _window(e, position)
    low_second, high_second = _product(e, mantissa, second)
    _, high_third = _product(e, mantissa, third)
    lower = e.add(low_second, high_third)
    carry = e.convert(e.relation("lt", lower, low_second), UINT64)
    upper = e.add(e.add(e.multiply(mantissa, first), high_second), carry)
    fraction = e.bits("or", _shift(e, upper, 2), _shift(e, lower, -62))
    quadrant = e.add(_shift(e, upper, -62), _shift(e, fraction, -63))
    return _angle(e, fraction, _shift(e, lower, 2)), quadrant


def _shift(e: Emitter, words: Value, bits: int) -> Value:
    """Return words shifted up, or down if the number of bits is negative."""
    return e.bits("shl" if bits > 0 else "lshr", words, e.like(words, abs(bits)))


def _window(e: Emitter, position: Value) -> list[Value]:
    """Return three words of 2 / pi from a bit position on."""
    name = "@two_over_pi"
    words = ", ".join([f"i64 {word}" for word in _words()])
    e.declare(f"{name} = private unnamed_addr constant [{_WORDS} x i64] [{words}], align 16")
    # lanes with small angles may read any position
    most = e.constant(64 * (_WORDS - 3) - 1, UINT64)
    position = e.select(e.relation("lt", position, most), position, most)
    place = Value(_shift(e, position, -6).text, INT64)
    shift = e.bits("and", position, e.constant(63, UINT64))
    rest = e.subtract(e.constant(63, UINT64), shift)
    everywhere = e.constant(1, BOOL)
    found = [e.gather_at(name, e.add(place, e.constant(number, INT64)), UINT64, everywhere) for number in range(4)]
    return [
        e.bits("or", e.bits("shl", word, shift), e.bits("lshr", _shift(e, following, -1), rest))
        for word, following in itertools.pairwise(found)
    ]


def _product(e: Emitter, mantissa: Value, word: Value) -> tuple[Value, Value]:
    """Return the low and the high 64 bits of a product, from products of halves."""
    mask = e.constant(0xFFFFFFFF, UINT64)
    low, high = e.bits("and", mantissa, mask), _shift(e, mantissa, -32)
    word_low, word_high = e.bits("and", word, mask), _shift(e, word, -32)
    lowest, highest = e.multiply(low, word_low), e.multiply(high, word_high)
    middle = [e.multiply(low, word_high), e.multiply(high, word_low)]
    carried = _shift(e, lowest, -32)
    for product in middle:
        carried = e.add(carried, e.bits("and", product, mask))
        highest = e.add(highest, _shift(e, product, -32))
    return e.multiply(mantissa, word), e.add(highest, _shift(e, carried, -32))


def _angle(e: Emitter, fraction: Value, rest: Value) -> Value:
    """Return pi / 2 times a signed fraction of 128 bits."""
    mask = e.constant(0xFFFFFFFF, UINT64)
    signed = e.bits("ashr", Value(fraction.text, INT64), e.constant(32, INT64))
    pieces = [signed, e.bits("and", fraction, mask), _shift(e, rest, -32), e.bits("and", rest, mask)]
    first, second, third, fourth = [
        # none has more than 32 bits, so all can be converted as signed
        e.multiply(e.convert(Value(piece.text, INT64), FLOAT64), e.constant(2.0 ** (-32 * number), FLOAT64))
        for number, piece in enumerate(pieces, 1)
    ]
    total, lost = add_smaller(e, first, second)
    lost = e.add(lost, e.add(third, fourth))
    high, low = [e.constant(part, FLOAT64) for part in in_parts(_HALF_PI, FLOAT64)]
    product, error = multiply_exactly(e, total, high)
    return e.add(product, e.fma(lost, high, e.fma(total, low, error)))
