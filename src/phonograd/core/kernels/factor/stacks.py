"""LU factorization and inverse of stacks of small matrices: one matrix per lane.

A step of a small matrix is short, and waits for the one before it: the pivot is found, rows are exchanged, a row is
divided. A vector of matrices waits once. The operations on each element and their order are those of :mod:`.lu` and
:mod:`.substitution`, and so are the bits. Lanes choose different pivots: the chosen row is picked by masks, and the row
that gives way to it is blended into the rows below while they are eliminated.
"""

from __future__ import annotations

import dataclasses
from functools import partial

from ...base.dtypes import INT32, INT64, DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Launch, Reference, Words
from ..routine import Routine
from .blocks import Launches, View, lanes_of
from .squares import load_square, store_square

__all__ = ["StackedLu", "factorize_stack", "is_stack"]

#: most rows of matrices that are factorized side by side, by the size of an element. On a processor with AVX2 (Zen 3),
#: larger ones leave the first-level cache, and take longer than one after the other
MOST_ROWS = {4: 32, 8: 24}
#: rows, or columns, that share what is loaded
_GROUP = 4
#: vectors of a row of the work memory: one for the number of the row, and whole groups of columns
_ROW = 1 + max(MOST_ROWS.values()) + _GROUP
#: multiplications worth handing to another thread
_TASK_WORK = 1 << 15
#: columns of the inverse that are substituted together
_COLUMNS = 2

_WORDS = Words(
    *("size", "count", "status*", "data*", "data_row", "data_column", "data_batch"),
    *("out*", "out_row", "out_column", "out_batch", "pivots*"),
    *("inverse*", "inverse_row", "inverse_column", "inverse_batch"),
)


def is_stack(launches: Launches, size: int) -> bool:
    """Return whether matrices are small and many enough."""
    dtype = launches.dtype
    return 0 < size <= MOST_ROWS[dtype.itemsize] and launches.count >= lanes_of(dtype, launches.machine)


def factorize_stack(launches: Launches, data: View, out: View, size: int, inverse: View | None = None) -> None:
    """Factorize the matrices of ``data`` to ``out``, whose rows are padded, and ``pivots``; and invert them."""
    dtype = launches.dtype
    kernel = StackedLu(dtype, lanes_of(dtype, launches.machine), inverse is not None)
    words = {
        "size": size,
        "count": launches.count,
        **data.words("data", dtype),
        **out.words("out", dtype),
        "pivots": Reference("pivots"),
        **(inverse or out).words("inverse", dtype),
    }
    chunk = max(1, _TASK_WORK // (size**3 * kernel.lanes))
    launches.add(Launch(kernel, _WORDS.fill(words), -(-launches.count // kernel.lanes), chunk))


@dataclasses.dataclass(frozen=True)
class StackedLu:
    """The kernel that factorizes as many matrices side by side as a vector has lanes."""

    dtype: DType
    lanes: int
    inverts: bool
    """Whether it computes the inverses, too."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        return _Writer(self, name).routine.text()


class _Writer:
    """Writes the kernel. The work memory has a vector for each element of a matrix.

    Column -1 holds the number that a row had before all exchanges.
    """

    def __init__(self, kernel: StackedLu, name: str) -> None:
        self.kernel = kernel
        self.routine = e = Routine(name, kernel.lanes, kernel.dtype)
        vector_words = kernel.lanes * kernel.dtype.itemsize // 8
        most = MOST_ROWS[kernel.dtype.itemsize]
        self.work = e.scratch(most * _ROW * vector_words)
        self.inverse = e.scratch(most * _ROW * vector_words) if kernel.inverts else ""
        #: the row that gave way to the pivot
        self.moved = e.scratch(_ROW * vector_words)
        self.size, self.count = _WORDS.index(e, "size"), _WORDS.index(e, "count")
        self.status, self.pivots = _WORDS.pointer(e, "status"), _WORDS.pointer(e, "pivots")
        #: row numbers are as wide as elements
        self.integer = INT32 if kernel.dtype.itemsize == 4 else INT64
        e.for_each("%lo", "%hi", self._task)

    def _task(self, group: Index) -> None:
        e = self.routine
        self.first = e.times(group, str(e.lanes))
        self._squares("data", self.work, load=True)
        e.for_each("0", self.size, self._column)
        self._squares("out", self.work, load=False)
        if self.kernel.inverts:
            e.for_each("0", self.size, self._permutation)
            for backward in (False, True):
                e.for_each("0", self.size, partial(self._substitute, backward), str(_COLUMNS))
            self._squares("inverse", self.inverse, load=False)

    def _squares(self, name: str, work: str, *, load: bool) -> None:
        """Write the copy between the matrices of an operand and work memory."""
        e = self.routine
        row_distance, distance = _WORDS.index(e, f"{name}_row"), _WORDS.index(e, f"{name}_batch")
        lines = self.first, self.count

        def row(number: Index) -> None:
            start = e.at(_WORDS.pointer(e, name), e.times(number, row_distance))

            def square(column: Index) -> None:
                places = [self._at(number, e.plus(column, str(lane))) for lane in range(e.lanes)]
                width = e.minus(self.size, column)
                if load:
                    for place, vector in zip(places, load_square(e, e.at(start, column), distance, lines, width)):
                        e.store(work, place, vector)
                else:
                    found = [e.get(work, place) for place in places]
                    store_square(e, e.at(start, column), distance, lines, width, found)

            e.for_each("0", self.size, square, str(e.lanes))
            if load:
                e.store(work, self._at(number, "-1"), e.reinterpret(self._number(number), self.kernel.dtype))

        e.for_each("0", self.size, row)

    def _at(self, row: Index, column: Index) -> Index:
        e = self.routine
        return e.times(e.total(e.times(row, str(_ROW)), column, "1"), str(e.lanes))

    def _get(self, row: Index, column: Index) -> Value:
        return self.routine.get(self.work, self._at(row, column))

    def _moved(self, column: Index) -> Index:
        return self._at("0", column)

    def _number(self, row: Index) -> Value:
        """Return the number of a row in every lane."""
        e = self.routine
        return e.splat(row if self.integer == INT64 else e.assign(f"trunc i64 {row} to i32"), self.integer)

    def _column(self, column: Index) -> None:
        e = self.routine
        chosen = self._search(column)
        self._store_pivots(column, chosen)
        # the last strip may be wider than the matrix, but not than the work memory
        e.for_each("-1", self.size, lambda first: self._exchange(column, chosen, first), str(_GROUP))
        pivot = self._get(column, column)
        is_singular = e.relation("eq", pivot, e.zeros())

        def eliminate(regular: Value | None) -> None:
            below = e.plus(column, "1")
            whole = e.plus(below, e.assign(f"and i64 {e.minus(self.size, below)}, {-_GROUP}"))
            for start, stop, count in ((below, whole, _GROUP), (whole, self.size, 1)):
                e.for_each(start, stop, partial(self._eliminate, column, chosen, pivot, regular, count), str(count))

        def some_singular() -> None:
            e.store_word(self.status, "0", "1")
            eliminate(e.relation("ne", pivot, e.zeros()))

        e.when(e.any(is_singular), some_singular, lambda: eliminate(None))

    def _search(self, column: Index) -> Value:
        """Return the row of the largest element of a column in each lane; the first one of equal ones."""
        e = self.routine

        def candidate(row: Index, before: list[Value]) -> list[Value]:
            found = e.absolute(self._get(row, column))
            is_larger = e.relation("gt", found, before[0])
            return [e.select(is_larger, found, before[0]), e.select(is_larger, self._number(row), before[1])]

        start = [e.constant(-1, self.kernel.dtype), self._number(column)]
        return e.loop(column, self.size, "1", start, candidate)[1]

    def _store_pivots(self, column: Index, chosen: Value) -> None:
        e = self.routine
        for lane in range(e.lanes):
            matrix = e.plus(self.first, str(lane))
            row = e.assign(f"extractelement {e.vector_type(self.integer)} {chosen.text}, i64 {lane}")
            row = row if self.integer == INT64 else e.assign(f"sext i32 {row} to i64")
            place = e.plus(e.times(matrix, self.size), column)
            e.when(e.test("slt", matrix, self.count), partial(e.store_word, self.pivots, place, row))

    def _exchange(self, column: Index, chosen: Value, first: Index) -> None:
        """Write the chosen row of each lane to the row of a column, a few elements of it, and keep what was there."""
        e = self.routine
        places = [e.plus(first, str(number)) for number in range(_GROUP)]
        own = [self._get(column, place) for place in places]

        def pick(row: Index, before: list[Value]) -> list[Value]:
            is_chosen = e.relation("eq", chosen, self._number(row))
            return [e.select(is_chosen, self._get(row, place), value) for place, value in zip(places, before)]

        found = e.loop(e.plus(column, "1"), self.size, "1", own, pick)
        for place, old, new in zip(places, own, found, strict=True):
            e.store(self.moved, self._moved(place), old)
            e.store(self.work, self._at(column, place), new)

    def _eliminate(
        self, column: Index, chosen: Value, pivot: Value, regular: Value | None, count: int, first: Index
    ) -> None:
        """Write the elimination of a few rows, in lanes with a pivot; the chosen one takes the row that gave way."""
        e = self.routine
        rows = [e.plus(first, str(number)) for number in range(count)]
        masks = [e.relation("eq", chosen, self._number(row)) for row in rows]

        def current(place: Index) -> list[Value]:
            old = e.get(self.moved, self._moved(place))
            return [e.select(mask, old, self._get(row, place)) for mask, row in zip(masks, rows, strict=True)]

        def put(place: Index, values: list[Value], found: list[Value]) -> None:
            for row, value, new in zip(rows, values, found, strict=True):
                e.store(self.work, self._at(row, place), new if regular is None else e.select(regular, new, value))

        # a stored selection would become a masked store, which takes ten times as long on some processors
        all_bits, no_bits = e.constant(-1, self.integer), e.constant(0, self.integer)
        bits = [e.select(mask, all_bits, no_bits) for mask in masks]

        def finished(place: Index) -> None:
            old = e.reinterpret(e.get(self.moved, self._moved(place)), self.integer)
            for row, chosen_bits in zip(rows, bits, strict=True):
                own = e.reinterpret(self._get(row, place), self.integer)
                blended = e.bits("xor", own, e.bits("and", e.bits("xor", own, old), chosen_bits))
                e.store(self.work, self._at(row, place), e.reinterpret(blended, self.kernel.dtype))

        e.for_each("-1", column, finished)
        values = current(column)
        factors = [e.divide(value, pivot) for value in values]
        put(column, values, factors)
        against = [e.negative(factor) for factor in factors]

        def rest(place: Index) -> None:
            values, own = current(place), self._get(column, place)
            put(place, values, [e.fma(factor, own, value) for factor, value in zip(against, values, strict=True)])

        e.for_each(e.plus(column, "1"), self.size, rest)

    # -- inverse

    def _permutation(self, row: Index) -> None:
        """Write a row of the identity, exchanged like those of the matrix."""
        e = self.routine
        number = e.reinterpret(self._get(row, "-1"), self.integer)
        one = e.constant(1, self.kernel.dtype)

        def element(column: Index) -> None:
            is_one = e.relation("eq", number, self._number(column))
            e.store(self.inverse, self._at(row, column), e.select(is_one, one, e.zeros()))

        e.for_each("0", e.plus(self.size, str(_COLUMNS - 1)), element)

    def _substitute(self, backward: bool, column: Index) -> None:
        """Write the substitution of a few columns, from the first row on with a unit diagonal, or from the last."""
        e = self.routine
        whole = e.assign(f"and i64 {self.size}, {-_GROUP}")
        for start, stop, count in (("0", whole, _GROUP), (whole, self.size, 1)):
            e.for_each(start, stop, partial(self._rows, column, backward, count), str(count))

    def _rows(self, column: Index, backward: bool, count: int, step: Index) -> None:
        """Write the substitution of a few rows: first by the rows before them, then among themselves."""
        e = self.routine

        def row_of(step: Index) -> Index:
            return e.minus(e.minus(self.size, "1"), step) if backward else step

        rows = [row_of(e.plus(step, str(number))) for number in range(count)]
        columns = [e.plus(column, str(number)) for number in range(_COLUMNS)]
        places = [[self._at(row, each) for each in columns] for row in rows]

        def term(index: Index, before: list[Value]) -> list[Value]:
            known = row_of(index)
            values = [e.negative(e.get(self.inverse, self._at(known, each))) for each in columns]
            factors = [self._get(row, known) for row in rows for _ in columns]
            return [e.fma(*each) for each in zip(factors, values * count, before, strict=True)]

        start = [e.get(self.inverse, place) for line in places for place in line]
        found = e.loop("0", step, "1", start, term)
        sums = [found[place * _COLUMNS : (place + 1) * _COLUMNS] for place in range(count)]
        for place, row in enumerate(rows):
            for other in range(place):
                factor = e.negative(self._get(row, rows[other]))
                sums[place] = [e.fma(factor, *each) for each in zip(sums[other], sums[place], strict=True)]
            if backward:
                divisor = self._get(row, row)
                sums[place] = [e.divide(value, divisor) for value in sums[place]]
            for target, value in zip(places[place], sums[place], strict=True):
                e.store(self.inverse, target, value)
