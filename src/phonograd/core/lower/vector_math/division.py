"""Division with remainder: of integers, without traps, and of floating point numbers, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.dtypes import kind_of
from .formats import FORMATS
from .parts import power_of_two

if TYPE_CHECKING:
    from ..ir.emitter import Emitter
    from ..ir.function_builder import Value

__all__ = ["divide", "modulo"]


def divide(e: Emitter, first: Value, second: Value) -> Value:
    """Return the quotient; integers round towards zero, and division by zero gives zero."""
    if kind_of(first.dtype) == "f":
        return e.divide(first, second)
    zero = e.relation("eq", second, e.like(second, 0))
    return e.select(zero, e.like(first, 0), e.integer_quotient(first, _divisor(e, first, second)))


def _divisor(e: Emitter, first: Value, second: Value) -> Value:
    """Return the divisor, or 1 where a processor would trap: for zero, and for -1 if the quotient overflows.

    An overflowing quotient by -1 wraps to the dividend itself, as the quotient by 1.
    """
    one = e.like(second, 1)
    divisor = e.select(e.relation("eq", second, e.like(second, 0)), one, second)
    if kind_of(first.dtype) == "u":
        return divisor
    least = e.like(first, -(1 << 8 * first.dtype.itemsize - 1))
    overflows = e.bits("and", e.relation("eq", first, least), e.relation("eq", second, e.like(second, -1)))
    return e.select(overflows, one, divisor)


def modulo(e: Emitter, first: Value, second: Value) -> Value:
    """Return the remainder with the sign of the divisor; zero if the divisor is zero."""
    zero = e.like(first, 0)
    if kind_of(first.dtype) == "f":
        rest = _float_remainder(e, first, second)
    else:
        rest = e.integer_remainder(first, _divisor(e, first, second))
    if kind_of(first.dtype) != "u":
        other_side = e.bits("xor", e.relation("lt", rest, zero), e.relation("lt", second, zero))
        moved = e.bits("and", other_side, e.relation("ne", rest, zero))
        rest = e.select(moved, e.add(rest, second), rest)
    if kind_of(first.dtype) == "f":
        rest = e.select(e.relation("eq", rest, zero), e.with_sign_of(zero, second), rest)
    return e.select(e.relation("eq", second, zero), zero, rest)


def _float_remainder(e: Emitter, first: Value, second: Value) -> Value:
    """Return the exact remainder of |first| by |second| with the sign of the first; NaN if the first is infinite.

    While the rest is not below the divisor, a multiple of the divisor times a power of two is subtracted. Each step
    finds 22 or 51 bits of the quotient, fewer than the format has, so it is exact. One step is enough for ordinary
    numbers.
    """
    form = FORMATS[first.dtype]
    divisor, infinite = e.absolute(second), e.like(first, float("inf"))
    size = e.absolute(first)
    finite = e.relation("lt", size, infinite)
    positive = e.relation("gt", divisor, e.like(first, 0))
    exponent = _exponent(e, divisor)

    def is_unfinished(values: list[Value]) -> str:
        return e.any(e.bits("and", positive, e.relation("ge", e.absolute(values[0]), divisor)))

    def step(values: list[Value]) -> list[Value]:
        rest = values[0]
        excess = e.subtract(_exponent(e, e.absolute(rest)), exponent)
        excess = e.subtract(excess, e.like(exponent, form.mantissa_bits - 1))
        for bound, relation in ((0, "lt"), (2 * form.bias - 2, "gt")):
            limit = e.like(exponent, bound)
            excess = e.select(e.relation(relation, excess, limit), limit, excess)
        half = e.bits("ashr", excess, e.like(excess, 1))
        multiple = e.multiply(divisor, power_of_two(e, half))
        multiple = e.multiply(multiple, power_of_two(e, e.subtract(excess, half)))
        quotient = e.call("trunc", e.divide(rest, multiple))
        reduced = e.fma(e.negative(quotient), multiple, rest)
        active = e.bits("and", positive, e.relation("ge", e.absolute(rest), divisor))
        return [e.select(active, reduced, rest)]

    start = e.select(finite, size, e.like(first, 0))
    (rest,) = e.repeat([start], is_unfinished, step)
    rest = e.select(e.relation("lt", rest, e.like(first, 0)), e.add(rest, divisor), rest)
    rest = e.select(e.bits("and", finite, e.relation("eq", second, second)), rest, e.like(first, float("nan")))
    return e.with_sign_of(rest, first)


def _exponent(e: Emitter, size: Value) -> Value:
    """Return the exponent of a positive number, including denormal ones; 0 has the least."""
    form = FORMATS[size.dtype]
    bits = form.mantissa_bits + 1
    tiny = e.relation("lt", size, e.like(size, form.least_normal))
    scaled = e.select(tiny, e.multiply(size, e.like(size, 2.0**bits)), size)
    field = e.bits("lshr", e.reinterpret(scaled, form.integer), e.constant(form.mantissa_bits, form.integer))
    return e.subtract(field, e.select(tiny, e.like(field, bits), e.like(field, 0)))
