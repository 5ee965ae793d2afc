"""Conversion between dtypes, with the semantics of C."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, DType

if TYPE_CHECKING:
    from ..ir.emitter import Emitter
    from ..ir.function_builder import Value

__all__ = ["cast"]


def cast(e: Emitter, value: Value, dtype: DType) -> Value:
    """Return a value in another dtype; for float16, a float32 number that rounds to the right one.

    Floating point numbers lose their fraction. For NaN and beyond the range of int32 (or of int64, if that is the
    target), the result is the smallest integer, as on x86 processors. Narrower integers are the low bits of an int32.
    """
    if dtype == FLOAT16:
        return _odd_float32(e, value) if value.dtype == FLOAT64 else e.convert(value, FLOAT32)
    if dtype == BOOL:
        return e.truth(value)
    if value.dtype.kind == "f" and dtype.kind != "f":
        return e.convert(_truncate(e, value, INT64 if dtype == INT64 else INT32), dtype)
    return e.convert(value, dtype)


def _truncate(e: Emitter, value: Value, integer: DType) -> Value:
    least = -(1 << 8 * integer.itemsize - 1)
    bounds = e.like(value, least), e.like(value, -least)
    inside = e.bits("and", e.relation("ge", value, bounds[0]), e.relation("lt", value, bounds[1]))
    whole = e.truncate(e.select(inside, value, e.like(value, 0)), integer)
    return e.select(inside, whole, e.like(whole, least))


def _odd_float32(e: Emitter, value: Value) -> Value:
    """Return a float64 number as float32, with the last bit set if it is inexact (round to odd).

    Rounding the result to a shorter format then equals rounding the number itself.
    """
    near = e.convert(value, FLOAT32)
    lost = e.subtract(value, e.convert(near, FLOAT64))
    pattern, zero, one = e.reinterpret(near, INT32), e.constant(0, INT32), e.constant(1, INT32)
    even = e.relation("eq", e.bits("and", pattern, one), zero)
    inexact = e.bits("and", even, e.compare("one", lost, e.like(lost, 0)))
    outwards = e.relation("eq", e.relation("lt", lost, e.like(lost, 0)), e.relation("lt", pattern, zero))
    step = e.select(outwards, one, e.constant(-1, INT32))
    return e.reinterpret(e.add(pattern, e.select(inexact, step, zero)), FLOAT32)
