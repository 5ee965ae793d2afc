"""Powers and roots: power, integer power, cube root, hypotenuse."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...base.dtypes import FLOAT32, FLOAT64
from . import coefficients
from .exponential import exp_of_sum, reduce_argument
from .formats import FORMATS
from .parts import add_smaller, float_of, in_parts, multiply_exactly, polynomial, power_of_two, split, split_any

if TYPE_CHECKING:
    from ..ir.emitter import Emitter
    from ..ir.function_builder import Value

__all__ = ["cbrt", "hypot", "integer_power", "power"]

_TWO_THIRDS = "0.66666666666666666666666666666666666666666666666667"


def power(e: Emitter, base: Value, exponent: Value) -> Value:
    """Return base**exponent, with all the special values of C's ``pow``.

    float32 is computed in double precision as exp(y log |x|). In float64, the logarithm has a second part of 53 bits,
    because its error is multiplied by an exponent as large as 1000.
    """
    size, one = e.absolute(base), e.like(base, 1)
    if base.dtype == FLOAT32:
        result = e.convert(_power_in_double(e, e.convert(size, FLOAT64), e.convert(exponent, FLOAT64)), FLOAT32)
    else:
        result = _power_of_size(e, size, exponent)
    whole = e.call("trunc", exponent)
    half = e.multiply(exponent, e.like(base, 0.5))
    is_odd = e.bits("and", e.relation("eq", whole, exponent), e.relation("ne", e.call("trunc", half), half))
    result = e.select(is_odd, e.with_sign_of(result, base), result)
    infinite, zero = e.like(base, float("inf")), e.like(base, 0)
    negative = e.bits("and", e.relation("lt", base, zero), e.relation("lt", size, infinite))
    undefined = e.bits("and", negative, e.relation("ne", whole, exponent))
    result = e.select(undefined, e.like(base, float("nan")), result)
    endless = e.relation("eq", e.absolute(exponent), infinite)
    unit = e.bits("and", endless, e.relation("eq", size, one))
    unit = e.bits("or", unit, e.bits("or", e.relation("eq", base, one), e.relation("eq", exponent, zero)))
    return e.select(unit, one, result)


def _power_in_double(e: Emitter, size: Value, exponent: Value) -> Value:
    """Return size**exponent for a positive number, to 28 bits."""
    fraction, scale = split(e, size)
    rest = e.subtract(fraction, e.like(size, 1))
    s = e.divide(rest, e.add(rest, e.like(size, 2)))
    square = e.multiply(s, s)
    series = e.fma(square, polynomial(e, square, coefficients.ATANH_WIDE[FLOAT32]), e.like(s, 2))
    logarithm = e.fma(float_of(e, scale), e.like(s, math.log(2)), e.multiply(s, series))
    product = e.multiply(exponent, _with_edges(e, logarithm, size))
    # beyond these bounds, the result is infinite or zero in float32
    for bound, relation in ((-110.0, "lt"), (100.0, "gt")):
        limit = e.like(product, bound)
        product = e.select(e.relation(relation, product, limit), limit, product)
    remainder, power_ = reduce_argument(e, product)
    near = e.fma(polynomial(e, remainder, coefficients.EXP_WIDE[FLOAT32]), e.multiply(remainder, remainder), remainder)
    return e.multiply(e.add(near, e.like(near, 1)), power_of_two(e, power_))


def _with_edges(e: Emitter, logarithm: Value, size: Value) -> Value:
    """Return the logarithm of a positive number, or the special value for zero, infinity or NaN."""
    zero, infinite = e.like(size, 0), e.like(size, float("inf"))
    regular = e.bits("and", e.relation("gt", size, zero), e.relation("lt", size, infinite))
    edge = e.select(e.relation("eq", size, zero), e.negative(infinite), size)
    return e.select(regular, logarithm, edge)


def _power_of_size(e: Emitter, size: Value, exponent: Value) -> Value:
    """Return size**exponent for a positive number."""
    high, low = _log_in_two_parts(e, size)
    product, error = multiply_exactly(e, exponent, _with_edges(e, high, size))
    return exp_of_sum(e, product, e.fma(exponent, low, error))


def _log_in_two_parts(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Return the logarithm of a normal or denormal number to 65 bits, as a rounded value and its error.

    With s = f / (2 + f), log(1 + f) is 2 s + 2/3 s**3 + ...: the first two terms are computed with their errors.
    """
    fraction, scale = split_any(e, x)
    rest = e.subtract(fraction, e.like(x, 1))
    divisor, lost = add_smaller(e, e.like(x, 2), rest)
    s = e.divide(rest, divisor)
    remainder = e.fma(e.negative(s), lost, e.fma(e.negative(s), divisor, rest))
    s_low = e.divide(remainder, divisor)
    square, square_low = multiply_exactly(e, s, s)
    square_low = e.fma(e.add(s, s), s_low, square_low)
    cube, cube_low = multiply_exactly(e, square, s)
    cube_low = e.fma(square, s_low, e.fma(square_low, s, cube_low))
    factor, factor_low = [e.like(x, part) for part in in_parts(_TWO_THIRDS, FLOAT64)]
    term, term_low = multiply_exactly(e, cube, factor)
    term_low = e.fma(cube, factor_low, e.fma(cube_low, factor, term_low))
    series = e.multiply(e.multiply(cube, square), polynomial(e, square, coefficients.ATANH_SECOND[FLOAT64]))
    total, error = add_smaller(e, e.add(s, s), term)
    error = e.add(error, e.add(e.add(s_low, s_low), e.add(term_low, series)))
    high, low = FORMATS[FLOAT64].log2
    whole = float_of(e, scale)
    main, main_error = add_smaller(e, e.multiply(whole, e.like(x, high)), total)
    error = e.add(main_error, e.fma(whole, e.like(x, low), error))
    return add_smaller(e, main, error)


def integer_power(e: Emitter, base: Value, exponent: int) -> Value:
    """Return an integer power: products for small exponents, else the general power."""
    if exponent == 0:
        return e.like(base, 1)
    if exponent in (-1, -2):
        base = e.divide(e.like(base, 1), base)
    if abs(exponent) == 1:
        return base
    square = e.multiply(base, base)
    if exponent in (2, -2):
        return square
    if exponent in (3, 4):
        return e.multiply(square, base if exponent == 3 else square)
    return power(e, base, e.like(base, exponent))


def cbrt(e: Emitter, x: Value) -> Value:
    """Return the cube root: y = x r**2 with r near x**(-1/3), and a last step with the exact remainder x - y**3.

    The first r comes from a third of the bits of x. A step r + r (d / 3 + 2 d**2 / 9) with d = 1 - x r**3 triples the
    number of correct digits.
    """
    form = FORMATS[x.dtype]
    integer = form.integer
    size = e.absolute(x)
    tiny = e.relation("lt", size, e.like(x, form.least_normal))
    # 2**27 and 2**54 have whole cube roots
    up = 27 if x.dtype == FLOAT32 else 54
    scaled = e.select(tiny, e.multiply(size, e.like(x, 2.0**up)), size)
    pattern = e.reinterpret(scaled, integer)
    unsigned = form.bias << form.mantissa_bits
    # the bits of x**(-1/3) are about 4/3 of those of 1, less a third of those of x; shifted for the smallest error
    magic = unsigned + unsigned // 3 - int(0.0334 * 2**form.mantissa_bits)
    r = e.reinterpret(e.subtract(e.constant(magic, integer), e.integer_quotient(pattern, e.like(pattern, 3))), x.dtype)
    for _ in range(2 if x.dtype == FLOAT32 else 3):
        d = e.fma(e.negative(e.multiply(scaled, r)), e.multiply(r, r), e.like(x, 1))
        r = e.fma(e.multiply(r, d), e.fma(d, e.like(x, 2 / 9), e.like(x, 1 / 3)), r)
    square = e.multiply(r, r)
    y = e.multiply(scaled, square)
    y_square, lost = multiply_exactly(e, y, y)
    rest = e.fma(e.negative(lost), y, e.fma(e.negative(y_square), y, scaled))
    y = e.fma(e.multiply(rest, square), e.like(x, 1 / 3), y)
    root = e.select(tiny, e.multiply(y, e.like(x, 2.0 ** (-up // 3))), y)
    regular = e.bits("and", e.relation("gt", size, e.like(x, 0)), e.relation("lt", size, e.like(x, float("inf"))))
    return e.with_sign_of(e.select(regular, root, size), x)


def hypot(e: Emitter, first: Value, second: Value) -> Value:
    """Return the root of the sum of squares; infinite if one argument is, even if the other is NaN."""
    a, b = e.absolute(first), e.absolute(second)
    if first.dtype == FLOAT32:
        wide = [e.convert(value, FLOAT64) for value in (a, b)]
        total = e.fma(wide[0], wide[0], e.multiply(wide[1], wide[1]))
        result = e.convert(e.call("sqrt", total), FLOAT32)
    else:
        result = _scaled_hypot(e, a, b)
    infinite = e.like(first, float("inf"))
    for value in (a, b):
        result = e.select(e.relation("eq", value, infinite), infinite, result)
    return result


def _scaled_hypot(e: Emitter, a: Value, b: Value) -> Value:
    """Return the hypotenuse in float64, scaled so that no square overflows or is denormal."""
    swap = e.relation("lt", a, b)
    large, small = e.select(swap, b, a), e.select(swap, a, b)
    one = e.like(a, 1)
    huge, tiny = e.relation("gt", large, e.like(a, 2.0**500)), e.relation("lt", large, e.like(a, 2.0**-450))
    factor = e.select(huge, e.like(a, 2.0**-600), e.select(tiny, e.like(a, 2.0**600), one))
    back = e.select(huge, e.like(a, 2.0**600), e.select(tiny, e.like(a, 2.0**-600), one))
    large, small = e.multiply(large, factor), e.multiply(small, factor)
    square, lost = multiply_exactly(e, large, large)
    other, other_lost = multiply_exactly(e, small, small)
    total, error = add_smaller(e, square, other)
    error = e.add(error, e.add(lost, other_lost))
    root = e.call("sqrt", total)
    # one Newton step with the exact remainder
    rest = e.add(e.fma(e.negative(root), root, total), error)
    better = e.add(root, e.divide(rest, e.add(root, root)))
    return e.multiply(e.select(e.relation("gt", total, e.like(a, 0)), better, root), back)
