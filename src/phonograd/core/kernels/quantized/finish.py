"""Finishing: from exact int32 sums to the elements of a result, with scale, bias, ReLU and rounding.

``out = round((sum + bias) * scale)`` with an int32 bias, clamped to the limits of an int8 or uint8 result; the limit of
uint8 is ReLU. A float32 result is not rounded, and ReLU is a maximum with 0. An int32 result is the sum itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ...base.dtypes import FLOAT32, INT32, DType
from ...lower.ir.function_builder import Index, Value
from ...ops.quantized.products import emit_rounded
from ..launch import Launch, Reference, Words
from ..routine import Routine, module

__all__ = ["REAL", "Finish", "FinishRows", "finish_rectangle", "finish_rows", "store_some"]

_WORDS = Words("columns", "sums*", "scale*", "bias*", "out*")

#: elements worth a call
_CHUNK_ELEMENTS = 1 << 13


@dataclasses.dataclass(frozen=True)
class Finish:
    """How a kernel finishes sums."""

    dtype: DType
    """Dtype of the result."""
    relu: bool = False

    @property
    def is_scaled(self) -> bool:
        """True if there are a scale and a bias."""
        return self.dtype != INT32

    def element(self, e: Routine) -> str:
        """Return the type of an element of the result."""
        return e.scalar_type(self.dtype)

    def write(self, e: Routine, sums: Value, scale: Value | None, bias: Value | None) -> Value:
        """Return the finished elements."""
        return e.convert(self.write_words(e, sums, scale, bias), self.dtype)

    def write_words(self, e: Routine, sums: Value, scale: Value | None, bias: Value | None) -> Value:
        """Return the finished elements in 32 bits each: float32, or int32 within the limits of the dtype."""
        if scale is None or bias is None:
            return sums
        value = e.multiply(e.convert(e.add(sums, bias), FLOAT32), scale)
        if self.dtype == FLOAT32:
            return e.maximum(value, e.like(value, 0)) if self.relu else value
        return emit_rounded(e, value, self.dtype, self.relu)


def store_some(e: Routine, pointer: str, offset: Index, value: Value, count: Index) -> None:
    """Store the first ``count`` lanes, at least one.

    Processors without AVX-512 have no masked stores of bytes. Bytes are stored in pieces of 8, 4, 2 and 1::

        %number = bitcast <8 x i8> %value to i64
        %low = trunc i64 %number to i32
        store i32 %low, ptr %p, align 1
        %rest = lshr i64 %number, 32
    """
    if value.dtype.itemsize > 1:
        e.store_where(pointer, offset, value, e.below(count))
        return

    def pieces() -> None:
        bits, size, place = 8 * e.lanes, e.lanes // 2, offset
        number = e.assign(f"bitcast {e._with_type(value)} to i{bits}")
        while size:
            exists = e.test("ne", e.assign(f"and i64 {count}, {size}"), "0")

            def piece(size: int = size, number: str = number, place: Index = place) -> None:
                low = e.assign(f"trunc i{bits} {number} to i{8 * size}")
                e.line(f"store i{8 * size} {low}, ptr {e.address(pointer, place, 'i8')}, align 1")

            e.when(exists, piece)
            rest = e.assign(f"lshr i{bits} {number}, {8 * size}")
            number = e.assign(f"select i1 {exists}, i{bits} {rest}, i{bits} {number}")
            place = e.select_index(exists, e.plus(place, str(size)), place)
            size //= 2

    e.when(e.test("sge", count, str(e.lanes)), lambda: e.store(pointer, offset, value), pieces)


#: a real result
REAL = Finish(FLOAT32)


def finish_rectangle(
    e: Routine,
    finish: Finish,
    operands: Sequence[str],
    rows: tuple[Index, Index],
    columns: tuple[Index, Index],
    distance: Index,
    width: int,
    sums_of: Callable[[Index, Index], Callable[[Index], Value]],
) -> None:
    """Write the code that finishes some rows and columns of a result.

    Parameters
    ----------
    operands
        The addresses of the result, and of the scales and biases of columns.
    rows, columns
        The first one, and their number; of the columns, at most ``width`` are finished.
    distance
        Distance of the rows of the result, in elements.
    sums_of
        ``sums_of(at, column)(row)`` returns the sums of a vector of columns, at a place in the rectangle.
    """
    (first, count), (column, existing) = rows, columns
    out, *vectors = operands

    def vector(at: Index) -> None:
        left = e.minus(existing, at)
        place, mask = e.plus(column, at), e.below(left)
        of_row = sums_of(at, place)
        factors: list[Value | None] = [None, None]
        if finish.is_scaled:
            factors = [e.load_where(operand, place, dtype, mask) for operand, dtype in zip(vectors, (FLOAT32, INT32))]

        def each_row(store: Callable[[str, Value], None]) -> None:
            def row(number: Index) -> None:
                found = finish.write(e, of_row(number), *factors)
                store(e.address(out, e.times(e.plus(first, number), distance), finish.element(e)), found)

            e.for_each("0", count, row)

        e.when(
            e.test("sge", left, str(e.lanes)),
            lambda: each_row(lambda target, found: e.store(target, place, found)),
            lambda: each_row(lambda target, found: store_some(e, target, place, found, left)),
        )

    e.for_each("0", e.least(existing, str(width)), vector, str(e.lanes))


@dataclasses.dataclass(frozen=True)
class FinishRows:
    """The kernel for sums whose columns have a scale and a bias each; an item is a row."""

    lanes: int
    finish: Finish

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, INT32)
        columns = _WORDS.index(e, "columns")
        sums, scale, bias, out = [_WORDS.pointer(e, operand) for operand in ("sums", "scale", "bias", "out")]
        last, mask = e.tail(columns)
        finish = self.finish

        def row(item: Index) -> None:
            source = e.at(sums, e.times(item, columns))
            target = e.address(out, e.times(item, columns), finish.element(e))

            def vector(at: Index) -> None:
                factors = [e.load(scale, at, FLOAT32), e.load(bias, at, INT32)] if finish.is_scaled else [None] * 2
                e.store(target, at, finish.write(e, e.get(source, at), *factors))

            e.for_each("0", last, vector, str(self.lanes))
            factors = (
                [e.load_where(scale, last, FLOAT32, mask), e.load_where(bias, last, INT32, mask)]
                if finish.is_scaled
                else [None] * 2
            )
            found = finish.write(e, e.get_where(source, mask, last), *factors)
            store_some(e, target, last, found, e.minus(columns, last))

        e.for_each("%lo", "%hi", row)
        return module(e)


def finish_rows(lanes: int, finish: Finish, rows: int, columns: int, sums: Reference) -> Launch:
    """Return the launch that finishes a matrix of sums."""
    absent = {} if finish.is_scaled else {"scale": Reference("out"), "bias": Reference("out")}
    words = _WORDS.fill({"columns": columns, "sums": sums, **absent})
    return Launch(FinishRows(lanes, finish), words, rows, max(1, _CHUNK_ELEMENTS // columns))
