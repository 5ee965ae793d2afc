"""Moves: kernels that fill matrices before and after a factorization, without arithmetic."""

from __future__ import annotations

import dataclasses
import enum

from ...base.dtypes import BOOL, INT64, DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Launch, Words
from ..routine import Routine
from .blocks import Launches, View, lanes_of, word_of_number
from .squares import load_square

__all__ = ["Fill", "Filling", "fill", "mirror"]

#: elements per chunk of work
_CHUNK_ELEMENTS = 1 << 15

_WORDS = Words(
    *("rows", "columns", "alpha"),
    *("data*", "data_row", "data_column", "data_batch", "out*", "out_row", "out_column", "out_batch"),
)
_MIRROR = Words("size", "squares", "out*", "out_row", "out_column", "out_batch")


class Filling(enum.Enum):
    """The elements of a matrix that is filled."""

    COPY = "copy"
    """Those of another matrix, times a number."""
    LOWER = "lower"
    """Those of another matrix up to the diagonal, and zeros."""
    UPPER = "upper"
    """Those of another matrix from the diagonal on, and zeros."""
    PADDED = "padded"
    """Those of another matrix, and zeros up to the distance of rows."""
    IDENTITY = "identity"
    """Ones on the diagonal, and zeros."""
    ZERO = "zero"


def fill(launches: Launches, filling: Filling, data: View, out: View, sizes: tuple[int, int], alpha: float = 1) -> None:
    """Fill matrices by rows and columns; both are contiguous along a row."""
    rows, columns = sizes
    kernel = Fill(launches.dtype, launches.machine.lanes(launches.dtype), filling)
    words = {
        "rows": rows,
        "columns": columns,
        "alpha": word_of_number(alpha),
        **data.words("data", launches.dtype),
        **out.words("out", launches.dtype),
    }
    extent = rows * launches.count if columns else 0
    launches.add(Launch(kernel, _WORDS.fill(words), extent, max(1, _CHUNK_ELEMENTS // max(1, columns))))


def mirror(launches: Launches, out: View, size: int) -> None:
    """Copy the elements below the diagonal of square matrices to their places above it."""
    kernel = Mirror(launches.dtype, lanes_of(launches.dtype, launches.machine))
    squares = -(-size // kernel.lanes)
    words = {"size": size, "squares": squares, **out.words("out", launches.dtype)}
    chunk = max(1, _CHUNK_ELEMENTS // max(1, size * kernel.lanes))
    launches.add(Launch(kernel, _MIRROR.fill(words), squares * launches.count, chunk))


@dataclasses.dataclass(frozen=True)
class Fill:
    """The kernel that fills matrices row by row."""

    dtype: DType
    lanes: int
    filling: Filling

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, self.dtype)
        columns = _WORDS.index(e, "columns")
        bits = e.assign(f"bitcast i64 {_WORDS.index(e, 'alpha')} to double")
        if self.dtype.itemsize == 4:
            bits = e.assign(f"fptrunc double {bits} to float")
        alpha = e.splat(bits, self.dtype)

        def task(number: Index) -> None:
            batch, row = e.split(number, _WORDS.index(e, "rows"))
            data, out = [
                e.at(
                    _WORDS.pointer(e, name),
                    e.times(batch, _WORDS.index(e, f"{name}_batch")),
                    e.times(row, _WORDS.index(e, f"{name}_row")),
                )
                for name in ("data", "out")
            ]

            def vector(column: Index) -> None:
                left = e.minus(columns, column)
                mask = e.below(left)
                if self.filling is Filling.ZERO:
                    value = e.zeros()
                elif self.filling is Filling.IDENTITY:
                    here = e.relation("eq", e.steps(INT64), e.splat(e.minus(row, column), INT64))
                    value = e.select(here, e.constant(1, self.dtype), e.zeros())
                else:
                    value = e.multiply(e.get_where(data, mask, column), alpha)
                if self.filling is Filling.LOWER:
                    value = e.select(e.below(e.minus(e.plus(row, "1"), column)), value, e.zeros())
                if self.filling is Filling.UPPER:
                    value = e.select(e.below(e.minus(row, column)), e.zeros(), value)
                e.when(
                    "true" if self.filling is Filling.PADDED else e.test("sge", left, str(e.lanes)),
                    lambda: e.store(out, column, value),
                    lambda: e.store_where(out, column, value, mask),
                )

            stop = _WORDS.index(e, "out_row") if self.filling is Filling.PADDED else columns
            e.for_each("0", stop, vector, str(e.lanes))

        e.for_each("%lo", "%hi", task)
        return e.text()


@dataclasses.dataclass(frozen=True)
class Mirror:
    """The kernel that copies the lower triangle to the upper one, over a range of rows of squares."""

    dtype: DType
    lanes: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, self.dtype)
        size, distance = _MIRROR.index(e, "size"), _MIRROR.index(e, "out_row")

        def task(number: Index) -> None:
            batch, square = e.split(number, _MIRROR.index(e, "squares"))
            row = e.times(square, str(e.lanes))
            out = e.at(_MIRROR.pointer(e, "out"), e.times(batch, _MIRROR.index(e, "out_batch")))

            # the rows below this square, transposed, are its columns
            def across(column: Index) -> None:
                width = e.minus(size, row)
                found = load_square(e, e.at(out, row), distance, (column, size), width)
                left = e.minus(size, column)
                for line, vector in enumerate(found):
                    # in the square on the diagonal, only later elements
                    here = e.plus(row, str(line))
                    before = e.below(e.minus(e.plus(here, "1"), column))
                    inside = e.below(left)
                    mask = e.bits("and", inside, e.bits("xor", before, Value("splat (i1 true)", BOOL)))
                    place = e.at(out, e.times(here, distance), column)
                    is_whole = e.logical_and(
                        e.test("sge", left, str(e.lanes)), e.test("slt", e.plus(row, str(e.lanes - 1)), column)
                    )

                    def store(
                        place: str = place, vector: Value = vector, mask: Value = mask, is_whole: str = is_whole
                    ) -> None:
                        e.when(
                            is_whole,
                            lambda: e.store(place, "0", vector),
                            lambda: e.store_where(place, "0", vector, mask),
                        )

                    e.when(e.test("slt", here, size), store)

            e.for_each(row, size, across, str(e.lanes))

        e.for_each("%lo", "%hi", task)
        return e.text()
