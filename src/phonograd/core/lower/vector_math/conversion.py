"""Conversion between dtypes, with the semantics of C."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.dtypes import BFLOAT16, BOOL, FLOAT32, FLOAT64, HALVES, INT32, INT64, DType, kind_of

if TYPE_CHECKING:
    from ..ir.emitter import Emitter
    from ..ir.function_builder import Value

__all__ = ["cast"]


def cast(e: Emitter, value: Value, dtype: DType) -> Value:
    """Return a value in another dtype; for the 16-bit types, a float32 number that rounds to the right one.

    Floating point numbers lose their fraction. For NaN and beyond the range of int32 (or of int64, if that is the
    target), the result is the smallest integer, as on x86 processors. Narrower integers are the low bits of an int32.
    """
    if dtype in HALVES:
        if value.dtype == FLOAT64:
            return _odd_float32(e, value)
        is_long = dtype == BFLOAT16 and value.dtype in (INT32, INT64)
        return _odd_float32_of_integer(e, value) if is_long else e.convert(value, FLOAT32)
    if dtype == BOOL:
        return e.truth(value)
    if kind_of(value.dtype) == "f" and kind_of(dtype) != "f":
        return e.convert(_truncate(e, value, INT64 if dtype == INT64 else INT32), dtype)
    return e.convert(value, dtype)


def _truncate(e: Emitter, value: Value, integer: DType) -> Value:
    """Return the integer, or the smallest one beyond its range, which only the lower bound has itself.

    Numbers that do not fit are converted, too (to poison), and not selected: replacing them first took twice as long
    in loops over single elements with AVX-512, where a selection is a mask::

        %a = call @llvm.fabs(%x)
        %i = fcmp olt %a, 2147483648.
        %w = fptosi %x
        %y = select %i, %w, -2147483648
    """
    least = -(1 << 8 * integer.itemsize - 1)
    inside = e.relation("lt", e.absolute(value), e.like(value, -least))
    whole = e.truncate(value, integer)
    return e.select(inside, whole, e.like(whole, least))


def _odd_float32(e: Emitter, value: Value) -> Value:
    """Return a float64 number as float32, with the last bit set if it is inexact (round to odd).

    Rounding the result to a shorter format then equals rounding the number itself.
    """
    near = e.convert(value, FLOAT32)
    return _with_odd_bit(e, near, e.subtract(value, e.convert(near, FLOAT64)))


def _odd_float32_of_integer(e: Emitter, value: Value) -> Value:
    """Return an integer as float32, with the last bit set if it is inexact."""
    near = e.convert(value, FLOAT32)
    if value.dtype == INT32:
        return _with_odd_bit(e, near, e.subtract(e.convert(value, FLOAT64), e.convert(near, FLOAT64)))
    # the difference from a float64 of few bits is exact: split the integer into two halves
    low = e.bits("and", value, e.like(value, 0xFFFFFFFF))
    high = e.convert(e.subtract(value, low), FLOAT64)
    lost = e.add(e.subtract(high, e.convert(near, FLOAT64)), e.convert(low, FLOAT64))
    return _with_odd_bit(e, near, lost)


def _with_odd_bit(e: Emitter, near: Value, lost: Value) -> Value:
    """Return float32 numbers with the last bit set where the float64 numbers ``lost`` are not zero."""
    pattern, zero, one = e.reinterpret(near, INT32), e.constant(0, INT32), e.constant(1, INT32)
    even = e.relation("eq", e.bits("and", pattern, one), zero)
    inexact = e.bits("and", even, e.compare("one", lost, e.like(lost, 0)))
    outwards = e.relation("eq", e.relation("lt", lost, e.like(lost, 0)), e.relation("lt", pattern, zero))
    step = e.select(outwards, one, e.constant(-1, INT32))
    return e.reinterpret(e.add(pattern, e.select(inexact, step, zero)), FLOAT32)
