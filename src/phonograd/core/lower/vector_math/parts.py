"""Parts of elementary functions: polynomials, powers of two, and error-free sums and products."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

from ...base.dtypes import FLOAT32, FLOAT64, INT32, DType
from .formats import FORMATS

if TYPE_CHECKING:
    from ..ir.emitter import Emitter
    from ..ir.function_builder import Value

__all__ = [
    "add_exactly",
    "add_smaller",
    "float_of",
    "give_sign",
    "in_parts",
    "multiply_exactly",
    "polynomial",
    "power_of_two",
    "split",
    "split_any",
]


def polynomial(e: Emitter, x: Value, coefficients: Sequence[float], square: Value | None = None) -> Value:
    """Return a polynomial, constant coefficient first, with one ``fma`` each: by Horner's rule.

    With the square of x, pairs of coefficients are evaluated beside each other, and Horner's rule joins them. This
    halves the time until the result is there, which bounds the speed of functions with long chains::

        %a = fma(%c1, %x, %c0)
        %b = fma(%c3, %x, %c2)
        %p = fma(%b, %square, %a)
    """
    if square is None:
        terms = [e.like(x, coefficient) for coefficient in coefficients]
    else:
        terms = [_linear(e, x, coefficients[first : first + 2]) for first in range(0, len(coefficients), 2)]
    total = terms[-1]
    for term in reversed(terms[:-1]):
        total = e.fma(total, x if square is None else square, term)
    return total


def _linear(e: Emitter, x: Value, coefficients: Sequence[float]) -> Value:
    """Return a polynomial of one or two coefficients."""
    first, *rest = [e.like(x, coefficient) for coefficient in coefficients]
    return e.fma(rest[0], x, first) if rest else first


def power_of_two(e: Emitter, exponent: Value) -> Value:
    """Return two to an integer power in the range of normal numbers, constructed from its bits."""
    dtype = FLOAT32 if exponent.dtype == INT32 else FLOAT64
    form = FORMATS[dtype]
    biased = e.add(exponent, e.like(exponent, form.bias))
    return e.reinterpret(e.bits("shl", biased, e.like(exponent, form.mantissa_bits)), dtype)


def split(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Return a positive number as a fraction between the roots of 1/2 and 2, and an integer exponent of two.

    ::

        %k = ashr (sub %bits, bits of the root of 1/2), 23
        %m = sub %bits, (shl %k, 23)
    """
    form = FORMATS[x.dtype]
    pattern = e.reinterpret(x, form.integer)
    shift = e.like(pattern, form.mantissa_bits)
    exponent = e.bits("ashr", e.subtract(pattern, e.like(pattern, form.root_half_bits)), shift)
    return e.reinterpret(e.subtract(pattern, e.bits("shl", exponent, shift)), x.dtype), exponent


def split_any(e: Emitter, x: Value) -> tuple[Value, Value]:
    """Return the same for a number that may be denormal, which is made normal first."""
    form = FORMATS[x.dtype]
    bits = form.mantissa_bits + 2
    tiny = e.relation("lt", x, e.like(x, form.least_normal))
    fraction, exponent = split(e, e.select(tiny, e.multiply(x, e.like(x, 2.0**bits)), x))
    return fraction, e.subtract(exponent, e.select(tiny, e.like(exponent, bits), e.like(exponent, 0)))


def float_of(e: Emitter, whole: Value) -> Value:
    """Return an integer far below 2**mantissa_bits in the floating point format of its size.

    Before AVX-512, there is no instruction for 64 bits, so the bits are added to those of a large number::

        %t = add %whole, bits of 6755399441055744
        %v = fsub %t, 6755399441055744
    """
    if whole.dtype == INT32:
        return e.convert(whole, FLOAT32)
    form = FORMATS[FLOAT64]
    shifted = e.reinterpret(e.add(whole, e.like(whole, form.shifter_bits)), FLOAT64)
    return e.subtract(shifted, e.like(shifted, form.shifter))


def give_sign(e: Emitter, size: Value, x: Value) -> Value:
    """Return a positive value with the sign of x.

    An instruction less than ``copysign``, which has to remove the sign of its first argument::

        %s = and %bits, 0x80000000
        %y = or %size, %s
    """
    pattern = e.reinterpret(x, FORMATS[x.dtype].integer)
    sign = e.bits("and", pattern, e.like(pattern, -1 << 8 * x.dtype.itemsize - 1))
    return e.reinterpret(e.bits("or", e.reinterpret(size, pattern.dtype), sign), x.dtype)


def add_smaller(e: Emitter, first: Value, second: Value) -> tuple[Value, Value]:
    """Return the rounded sum and its exact error, if the second number is not larger than the first (or 0)."""
    total = e.add(first, second)
    return total, e.subtract(second, e.subtract(total, first))


def add_exactly(e: Emitter, first: Value, second: Value) -> tuple[Value, Value]:
    """Return the rounded sum of any two numbers and its exact error."""
    total = e.add(first, second)
    back = e.subtract(total, first)
    return total, e.add(e.subtract(first, e.subtract(total, back)), e.subtract(second, back))


def multiply_exactly(e: Emitter, first: Value, second: Value) -> tuple[Value, Value]:
    """Return the rounded product and its exact error."""
    product = e.multiply(first, second)
    return product, e.fma(first, second, e.negative(product))


def in_parts(number: str, dtype: DType, count: int = 2) -> list[float]:
    """Return a decimal number of many digits as the sum of numbers of a format, largest first.

    >>> in_parts("0.1", FLOAT32)
    [0.10000000149011612, -1.4901161415892261e-09]
    """
    parts: list[float] = []
    with localcontext() as context:
        context.prec = 80
        rest = Decimal(number)
        for _ in range(count):
            parts.append(float(dtype.type(str(rest))))
            rest -= Decimal(parts[-1])
    return parts
