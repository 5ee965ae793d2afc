"""Cholesky factorization: a kernel for matrices of up to 64 rows, and products for the blocks below larger ones."""

from __future__ import annotations

import dataclasses

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Launch, Words
from ..routine import Routine
from .blocks import SMALL, Launches, View, half_of, lanes_of
from .squares import load_square
from .substitution import solve

__all__ = ["Cholesky", "factorize"]

#: rows that are factorized together, and vectors side by side
_ROWS, _WIDTH = 4, 2
#: multiplications worth handing to another thread
_TASK_WORK = 1 << 15

_WORDS = Words(
    *("size", "status*", "data*", "data_row", "data_column", "data_batch"),
    *("out*", "out_row", "out_column", "out_batch"),
)


def factorize(launches: Launches, data: View, out: View, size: int) -> None:
    """Compute the lower triangular factor; one that does not exist has NaN on its diagonal, and sets the status.

    For more than 64 rows, ``out`` must be ``data``. The elements above the diagonal blocks are not written.
    """
    if size <= SMALL:
        kernel = Cholesky(launches.dtype, lanes_of(launches.dtype, launches.machine))
        words = {"size": size, **data.words("data", launches.dtype), **out.words("out", launches.dtype)}
        chunk = max(1, _TASK_WORK // max(1, size**3))
        launches.add(Launch(kernel, _WORDS.fill(words), launches.count if size else 0, chunk))
        return
    assert data == out
    first = half_of(size)
    rest = size - first
    factorize(launches, out, out, first)
    below = out.at(first, 0).transposed
    solve(launches, out, below, below, (first, rest), lower=True)
    _update(launches, out.at(first, first), out.at(first, 0), (rest, first))
    factorize(launches, out.at(first, first), out.at(first, first), rest)


def _update(launches: Launches, out: View, factor: View, sizes: tuple[int, int]) -> None:
    """Subtract ``factor * factor^T`` from the lower triangle of a block.

    It is split as the block will be factorized, so that only blocks on the diagonal have elements above it.
    """
    size, terms = sizes
    if size <= SMALL:
        launches.subtract_product(out, factor, factor.transposed, (size, terms, size))
        return
    first = half_of(size)
    _update(launches, out, factor, (first, terms))
    launches.subtract_product(out.at(first, 0), factor.at(first, 0), factor.transposed, (size - first, terms, first))
    _update(launches, out.at(first, first), factor.at(first, 0), (size - first, terms))


@dataclasses.dataclass(frozen=True)
class Cholesky:
    """The kernel that factorizes small matrices, each as the transposed factor on its stack."""

    dtype: DType
    lanes: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        return _Writer(self, name).routine.text()


class _Writer:
    """Writes the kernel. Row j of the work memory is column j of the factor: ``U`` with ``A = U^T U``."""

    def __init__(self, kernel: Cholesky, name: str) -> None:
        self.kernel = kernel
        self.routine = e = Routine(name, kernel.lanes, kernel.dtype)
        self.work = e.scratch(SMALL * SMALL * kernel.dtype.itemsize // 8)
        self.size, self.status = _WORDS.index(e, "size"), _WORDS.pointer(e, "status")
        e.for_each("%lo", "%hi", self._task)

    def _task(self, batch: Index) -> None:
        e = self.routine
        data, out = [
            e.at(_WORDS.pointer(e, name), e.times(batch, _WORDS.index(e, f"{name}_batch"))) for name in ("data", "out")
        ]
        self._load(data)
        whole = e.assign(f"and i64 {self.size}, {-_ROWS}")
        e.for_each("0", whole, lambda row: self._rows(row, _ROWS), str(_ROWS))
        e.for_each(whole, self.size, lambda row: self._rows(row, 1))
        self._store(out)

    def _at(self, row: Index, column: Index) -> Index:
        e = self.routine
        return e.plus(e.times(row, str(SMALL)), column)

    # -- memory

    def _load(self, data: str) -> None:
        e, distance = self.routine, _WORDS.index(self.routine, "data_row")

        def lines(row: Index) -> None:
            def square(column: Index) -> None:
                width = e.minus(self.size, column)
                found = load_square(e, e.at(data, column), distance, (row, self.size), width)
                for line, vector in enumerate(found):
                    e.store(self.work, self._at(e.plus(column, str(line)), row), vector)

            e.for_each("0", e.plus(row, "1"), square, str(e.lanes))

        e.for_each("0", self.size, lines, str(e.lanes))

    def _store(self, out: str) -> None:
        """Store the transpose of the work memory, with zeros above the diagonal."""
        e, distance = self.routine, _WORDS.index(self.routine, "out_row")

        def lines(row: Index) -> None:
            count = e.least(str(e.lanes), e.minus(self.size, row))

            def square(column: Index) -> None:
                is_below = e.test("slt", column, row)
                found = [e.get(self.work, self._at(e.plus(column, str(line)), row)) for line in range(e.lanes)]
                width = e.minus(self.size, column)
                for lane, vector in enumerate(e.transpose(found)):
                    # the last lane that is not above the diagonal
                    last = e.select_index(is_below, str(e.lanes), e.plus(e.minus(row, column), str(lane + 1)))
                    value = e.select(e.below(last), vector, e.zeros())
                    place = e.at(out, e.times(e.plus(row, str(lane)), distance), column)
                    self._store_line(place, value, lane, count, width)

            e.for_each("0", self.size, square, str(e.lanes))

        e.for_each("0", self.size, lines, str(e.lanes))

    def _store_line(self, place: str, value: Value, lane: int, count: Index, width: Index) -> None:
        e = self.routine

        def store() -> None:
            e.when(
                e.test("sge", width, str(e.lanes)),
                lambda: e.store(place, "0", value),
                lambda: e.store_where(place, "0", value, e.below(width)),
            )

        e.when(e.test("slt", str(lane), count), store)

    # -- arithmetic

    def _rows(self, first: Index, count: int) -> None:
        """Write the factorization of a few rows: first by the rows before them, then among themselves."""
        e = self.routine
        rows = [e.plus(first, str(number)) for number in range(count)]
        stride = _WIDTH * e.lanes
        begin = e.assign(f"and i64 {first}, {-stride}")

        def strip(column: Index) -> None:
            places = [self._at(row, e.plus(column, str(v * e.lanes))) for row in rows for v in range(_WIDTH)]

            def term(index: Index, before: list[Value]) -> list[Value]:
                line = e.at(self.work, self._at(index, column))
                values = [e.negative(e.get(line, str(v * e.lanes))) for v in range(_WIDTH)]
                after = []
                for place, row in enumerate(rows):
                    factor = e.get_splat(self.work, self._at(index, row))
                    after += [e.fma(factor, value, before[place * _WIDTH + v]) for v, value in enumerate(values)]
                return after

            sums = e.loop("0", first, "1", [e.get(self.work, place) for place in places], term)
            for place, value in zip(places, sums, strict=True):
                e.store(self.work, place, value)

        e.for_each(begin, self.size, strip, str(stride))
        for number, row in enumerate(rows):
            self._finish(row, rows[:number], begin)

    def _finish(self, row: Index, before: list[Index], begin: Index) -> None:
        """Write the rest of a row: subtract the rows of the same group, and divide by the root of the diagonal."""
        e = self.routine
        factors = [e.negative(e.get_splat(self.work, self._at(other, row))) for other in before]
        pivot = e.get_splat(self.work, self._at(row, row))
        for factor in factors:
            pivot = e.fma(factor, e.negative(factor), pivot)
        missing = e.constant(float("nan"), self.kernel.dtype)
        infinity = e.constant(float("inf"), self.kernel.dtype)
        is_positive = e.bits("and", e.relation("gt", pivot, e.zeros()), e.relation("lt", pivot, infinity))
        root = e.select(is_positive, e.call("sqrt", pivot), missing)
        e.when(e.any(is_positive), lambda: None, lambda: e.store_word(self.status, "0", "1"))

        def strip(column: Index) -> None:
            place = self._at(row, column)
            value = e.get(self.work, place)
            for factor, other in zip(factors, before, strict=True):
                value = e.fma(factor, e.get(self.work, self._at(other, column)), value)
            e.store(self.work, place, e.divide(value, root))

        e.for_each(begin, self.size, strip, str(e.lanes))
        e.store_first(self.work, self._at(row, row), root)
