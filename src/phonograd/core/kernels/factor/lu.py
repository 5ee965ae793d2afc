"""LU factorization with row exchanges: a kernel for panels of a few columns, and products for the blocks beside them.

The factors take the place of the matrix: the unit lower triangle below the diagonal, the upper one from it on. The
pivot of a column is its element of largest absolute value, and the first one of equal ones. ``pivots`` holds for each
column the row that was exchanged with it. The rows of the matrix begin a multiple of a vector apart, so that kernels
store whole vectors.
"""

from __future__ import annotations

import dataclasses

from ...base.dtypes import INT32, INT64, DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Launch, Reference, Words
from ..routine import Routine
from .blocks import SMALL, Launches, View, half_of, lanes_of
from .reflections import first_of_largest
from .substitution import solve

__all__ = ["Exchange", "ExchangeColumns", "Panel", "exchange", "exchange_columns", "factorize", "padded"]

#: columns of a panel of a larger matrix; matrices of up to 64 rows are one panel
_PANEL = 16
#: elements of a strip whose rows are exchanged by one task
_STRIP = 64
#: multiplications worth handing to another thread, and exchanged elements
_TASK_WORK, _TASK_ELEMENTS = 1 << 15, 1 << 14

_WORDS = Words(
    *("rows", "columns", "first", "size"),
    *("data*", "data_row", "data_column", "data_batch", "pivots*", "status*"),
)
_EXCHANGE = Words(
    *("begin", "end", "size", "columns", "strips"),
    *("data*", "data_row", "data_column", "data_batch", "pivots*"),
)


def padded(size: int, dtype: DType) -> int:
    """Return the distance of rows of a matrix to be factorized."""
    lanes = 64 // dtype.itemsize
    return -(-size // lanes) * lanes


def factorize(launches: Launches, data: View, size: int) -> None:
    """Factorize square matrices in their place; a singular one has a zero on the diagonal of its upper triangle."""
    if size <= SMALL:
        _panel(launches, data, 0, size, size)
    else:
        _columns(launches, data, 0, size, size)


def _columns(launches: Launches, data: View, first: int, last: int, size: int) -> None:
    """Factorize some columns of matrices, from their diagonal down."""
    if last - first <= _PANEL:
        _panel(launches, data, first, last, size)
        return
    middle = first + half_of(last - first, _PANEL)
    _columns(launches, data, first, middle, size)
    exchange(launches, data.at(0, middle), (first, middle), size, last - middle)
    right = data.at(first, middle)
    solve(launches, data.at(first, first), right, right, (middle - first, last - middle), lower=True, unit=True)
    sizes = size - middle, middle - first, last - middle
    launches.subtract_product(data.at(middle, middle), data.at(middle, first), right, sizes)
    _columns(launches, data, middle, last, size)
    exchange(launches, data.at(0, first), (middle, last), size, middle - first)


def _panel(launches: Launches, data: View, first: int, last: int, size: int) -> None:
    dtype = launches.dtype
    kernel = Panel(dtype, lanes_of(dtype, launches.machine))
    words = {
        "rows": size - first,
        "columns": last - first,
        "first": first,
        "size": size,
        **data.at(first, first).words("data", dtype),
        "pivots": Reference("pivots"),
    }
    chunk = max(1, _TASK_WORK // max(1, size * (last - first) ** 2))
    launches.add(Launch(kernel, _WORDS.fill(words), launches.count if size else 0, chunk))


def exchange(launches: Launches, data: View, pivots: tuple[int, int], size: int, columns: int) -> None:
    """Exchange the rows of some columns of matrices as the pivots from a first to a last one tell."""
    begin, end = pivots
    strips = -(-columns // _STRIP)
    words = {
        "begin": begin,
        "end": end,
        "size": size,
        "columns": columns,
        "strips": strips,
        **data.words("data", launches.dtype),
        "pivots": Reference("pivots"),
    }
    chunk = max(1, _TASK_ELEMENTS // max(1, (end - begin) * _STRIP))
    kernel = Exchange(launches.dtype, launches.machine.lanes(launches.dtype))
    launches.add(Launch(kernel, _EXCHANGE.fill(words), strips * launches.count, chunk))


def exchange_columns(launches: Launches, data: View, size: int) -> None:
    """Exchange the columns of square matrices as the pivots tell, from the last one to the first."""
    words = {
        "begin": 0,
        "end": size,
        "size": size,
        "columns": size,
        "strips": size,
        **data.words("data", launches.dtype),
        "pivots": Reference("pivots"),
    }
    kernel = ExchangeColumns(launches.dtype)
    chunk = max(1, _TASK_ELEMENTS // max(1, size))
    launches.add(Launch(kernel, _EXCHANGE.fill(words), size * launches.count, chunk))


@dataclasses.dataclass(frozen=True)
class ExchangeColumns:
    """The kernel that exchanges columns, over a range of rows."""

    dtype: DType

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, 1, self.dtype)
        size = _EXCHANGE.index(e, "size")

        def task(number: Index) -> None:
            batch, row = e.split(number, size)
            start = e.times(batch, _EXCHANGE.index(e, "data_batch"))
            line = e.at(_EXCHANGE.pointer(e, "data"), start, e.times(row, _EXCHANGE.index(e, "data_row")))
            pivots = e.address(_EXCHANGE.pointer(e, "pivots"), e.times(batch, size), "i64")

            def swap(step: Index) -> None:
                column = e.minus(e.minus(size, "1"), step)
                other = e.load_word(pivots, column)
                values = e.get_one(line, column), e.get_one(line, other)
                e.put_one(line, values[1], column)
                e.put_one(line, values[0], other)

            e.for_each("0", size, swap)

        e.for_each("%lo", "%hi", task)
        return e.text()


@dataclasses.dataclass(frozen=True)
class Exchange:
    """The kernel that exchanges rows, over a range of strips of columns."""

    dtype: DType
    lanes: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, self.dtype)
        begin, end, size = (_EXCHANGE.index(e, word) for word in ("begin", "end", "size"))
        columns, distance = _EXCHANGE.index(e, "columns"), _EXCHANGE.index(e, "data_row")

        def task(number: Index) -> None:
            batch, strip = e.split(number, _EXCHANGE.index(e, "strips"))
            first = e.times(strip, str(_STRIP))
            start = e.times(batch, _EXCHANGE.index(e, "data_batch"))
            data = e.at(_EXCHANGE.pointer(e, "data"), start, first)
            pivots = e.address(_EXCHANGE.pointer(e, "pivots"), e.times(batch, size), "i64")
            width = e.least(str(_STRIP), e.minus(columns, first))

            def row(step: Index) -> None:
                other = e.load_word(pivots, step)
                places = [e.at(data, e.times(each, distance)) for each in (step, other)]

                def vector(column: Index) -> None:
                    left = e.minus(width, column)
                    mask = e.below(left)

                    def whole() -> None:
                        values = [e.get(place, column) for place in places]
                        for place, value in zip(places, reversed(values), strict=True):
                            e.store(place, column, value)

                    def part() -> None:
                        values = [e.get_where(place, mask, column) for place in places]
                        for place, value in zip(places, reversed(values), strict=True):
                            e.store_where(place, column, value, mask)

                    e.when(e.test("sge", left, str(e.lanes)), whole, part)

                e.when(e.test("ne", step, other), lambda: e.for_each("0", width, vector, str(e.lanes)))

            e.for_each(begin, end, row)

        e.for_each("%lo", "%hi", task)
        return e.text()


@dataclasses.dataclass(frozen=True)
class Panel:
    """The kernel that factorizes panels column by column, one matrix after the other."""

    dtype: DType
    lanes: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        return _Writer(self, name).routine.text()


class _Writer:
    """Writes the kernel."""

    def __init__(self, kernel: Panel, name: str) -> None:
        self.kernel = kernel
        self.routine = e = Routine(name, kernel.lanes, kernel.dtype)
        self.rows, self.columns, self.first = (_WORDS.index(e, word) for word in ("rows", "columns", "first"))
        self.distance = _WORDS.index(e, "data_row")
        self.status = _WORDS.pointer(e, "status")
        e.for_each("%lo", "%hi", self._task)

    def _task(self, batch: Index) -> None:
        e = self.routine
        self.data = e.at(_WORDS.pointer(e, "data"), e.times(batch, _WORDS.index(e, "data_batch")))
        pivots = e.address(_WORDS.pointer(e, "pivots"), e.times(batch, _WORDS.index(e, "size")), "i64")
        self.pivots = e.address(pivots, self.first, "i64")
        e.for_each("0", self.columns, self._column)

    def _line(self, row: Index) -> str:
        return self.routine.at(self.data, self.routine.times(row, self.distance))

    def _column(self, column: Index) -> None:
        e = self.routine
        chosen = self._search(column)
        e.store_word(self.pivots, column, e.plus(chosen, self.first))
        own, other = self._line(column), self._line(chosen)

        def swap(place: Index) -> None:
            values = e.get(own, place), e.get(other, place)
            e.store(own, place, values[1])
            e.store(other, place, values[0])

        e.when(e.test("ne", column, chosen), lambda: e.for_each("0", self.columns, swap, str(e.lanes)))
        pivot = e.get_splat(own, column)
        begin = e.assign(f"and i64 {column}, {-e.lanes}")
        own_lane = e.splat(e.minus(column, begin), INT64)
        after, here = e.relation("gt", e.steps(INT64), own_lane), e.relation("eq", e.steps(INT64), own_lane)

        def eliminate(row: Index) -> None:
            line = self._line(row)
            factor = e.divide(e.get_splat(line, column), pivot)
            against = e.negative(factor)
            before = e.get(line, begin)
            # one store: a load soon after two stores to its elements would wait for both
            changed = e.select(after, e.fma(against, e.get(own, begin), before), e.select(here, factor, before))
            e.store(line, begin, changed)

            def vector(place: Index) -> None:
                e.store(line, place, e.fma(against, e.get(own, place), e.get(line, place)))

            e.for_each(e.plus(begin, str(e.lanes)), self.columns, vector, str(e.lanes))

        is_regular = e.any(e.relation("ne", pivot, e.zeros()))
        e.when(
            is_regular,
            lambda: e.for_each(e.plus(column, "1"), self.rows, eliminate),
            lambda: e.store_word(self.status, "0", "1"),
        )

    def _search(self, column: Index) -> Index:
        """Return the row of the largest element of a column, from the diagonal on; the first one of equal ones."""
        e = self.routine
        dtype = self.kernel.dtype
        nothing = e.constant(-1, dtype)

        def candidates(row: Index, before: list[Value]) -> list[Value]:
            mask = e.below(e.minus(self.rows, row))
            found = e.absolute(e.gather(e.at(self._line(row), column), "0", self.distance, dtype, mask))
            # a lane outside of the matrix must never win, not even against NaN
            found = e.select(mask, found, nothing)
            short = e.assign(f"trunc i64 {row} to i32")
            numbers = e.add(e.splat(short, INT32), e.steps(INT32))
            is_larger = e.relation("gt", found, before[0])
            return [e.select(is_larger, found, before[0]), e.select(is_larger, numbers, before[1])]

        first = e.splat(e.assign(f"trunc i64 {column} to i32"), INT32)
        best = e.loop(column, self.rows, str(e.lanes), [nothing, first], candidates)
        return first_of_largest(e, best)
