"""Triangular systems: substitution for small triangles, and products for the blocks beside them.

A kernel solves systems with a triangle of at most 64 rows. It takes a strip of right-hand sides, one per lane, to
memory on its stack, substitutes row by row, and stores the strip. Larger triangles are halved: the solution of one half
is multiplied by the block beside it and subtracted from the right-hand sides of the other half.
"""

from __future__ import annotations

import dataclasses

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Launch, Words
from ..routine import Routine
from .blocks import SMALL, Launches, View, half_of, lanes_of, word_of_number
from .squares import load_square, store_square

__all__ = ["Substitution", "solve"]

#: vectors of right-hand sides side by side, and rows that are substituted together
_WIDTH, _ROWS = 2, 4
#: multiplications worth handing to another thread
_TASK_WORK = 1 << 17

_WORDS = Words(
    *("size", "columns", "strips", "alpha"),
    *("matrix*", "matrix_row", "matrix_column", "matrix_batch"),
    *("right*", "right_row", "right_column", "right_batch"),
    *("out*", "out_row", "out_column", "out_batch"),
)


def solve(
    launches: Launches,
    matrix: View,
    right: View,
    out: View,
    sizes: tuple[int, int],
    *,
    lower: bool,
    unit: bool = False,
    alpha: float = 1.0,
) -> None:
    """Solve ``matrix * out = alpha * right`` for a triangular matrix.

    Parameters
    ----------
    launches
        Receives the launches.
    matrix, right, out
        The triangle, the right-hand sides and the solutions. The elements of a row of the latter two are contiguous, or
        those of a column. They may share memory. For more than 64 rows they must be the same, and alpha 1.
    sizes
        The rows of the matrix, and the number of right-hand sides.
    lower
        Whether the lower triangle is read, else the upper one.
    unit
        Whether the diagonal is taken as 1.
    """
    size, columns = sizes
    if size <= SMALL:
        _substitute(launches, matrix, right, out, sizes, not lower, unit, alpha)
        return
    assert right == out
    assert alpha == 1
    first = half_of(size)
    rest = size - first
    if lower:
        solve(launches, matrix, out, out, (first, columns), lower=lower, unit=unit)
        _eliminate(launches, out.at(first, 0), matrix.at(first, 0), out, (rest, first, columns))
    below = matrix.at(first, first), out.at(first, 0), out.at(first, 0)
    solve(launches, *below, (rest, columns), lower=lower, unit=unit)
    if not lower:
        _eliminate(launches, out, matrix.at(0, first), out.at(first, 0), (first, rest, columns))
        solve(launches, matrix, out, out, (first, columns), lower=lower, unit=unit)


def _eliminate(launches: Launches, out: View, block: View, known: View, sizes: tuple[int, int, int]) -> None:
    """Compute ``out -= block * known``, by the transposed product if the columns of ``out`` are contiguous."""
    if out.column == 1:
        launches.subtract_product(out, block, known, sizes)
    else:
        rows, terms, columns = sizes
        launches.subtract_product(out.transposed, known.transposed, block.transposed, (columns, terms, rows))


def _substitute(
    launches: Launches,
    matrix: View,
    right: View,
    out: View,
    sizes: tuple[int, int],
    backward: bool,
    unit: bool,
    alpha: float,
) -> None:
    size, columns = sizes
    dtype = launches.dtype
    is_turned = out.column != 1
    kernel = Substitution(dtype, lanes_of(dtype, launches.machine), is_turned, backward, unit)
    strips = -(-columns // (_WIDTH * kernel.lanes))
    words = {
        "size": size,
        "columns": columns,
        "strips": strips,
        "alpha": word_of_number(alpha),
        **matrix.words("matrix", dtype),
        **right.words("right", dtype),
        **out.words("out", dtype),
    }
    chunk = max(1, _TASK_WORK // max(1, size * size * _WIDTH * kernel.lanes))
    extent = strips * launches.count if size else 0
    launches.add(Launch(kernel, _WORDS.fill(words), extent, chunk))


@dataclasses.dataclass(frozen=True)
class Substitution:
    """The kernel that substitutes strips of right-hand sides."""

    dtype: DType
    lanes: int
    is_turned: bool
    """Whether the elements of one right-hand side are contiguous, else those of one row."""
    backward: bool
    """Whether the last row is the first to be solved."""
    unit: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        return _Writer(self, name).routine.text()


class _Writer:
    """Writes the kernel. The strip is stored row by row, with ``stride`` elements each."""

    def __init__(self, kernel: Substitution, name: str) -> None:
        self.kernel = kernel
        self.routine = e = Routine(name, kernel.lanes, kernel.dtype)
        self.stride = _WIDTH * kernel.lanes
        self.strip = e.scratch(SMALL * self.stride * kernel.dtype.itemsize // 8)
        self.size, self.columns = _WORDS.index(e, "size"), _WORDS.index(e, "columns")
        e.for_each("%lo", "%hi", self._task)

    def _operand(self, name: str, batch: Index) -> str:
        e = self.routine
        return e.at(_WORDS.pointer(e, name), e.times(batch, _WORDS.index(e, f"{name}_batch")))

    def _task(self, number: Index) -> None:
        e = self.routine
        batch, strip = e.split(number, _WORDS.index(e, "strips"))
        first = e.times(strip, str(self.stride))
        self.count = e.least(str(self.stride), e.minus(self.columns, first))
        self.matrix = self._operand("matrix", batch)
        self.matrix_row, self.matrix_column = _WORDS.index(e, "matrix_row"), _WORDS.index(e, "matrix_column")
        places = []
        for name in ("right", "out"):
            column = _WORDS.index(e, f"{name}_column")
            places.append((e.at(self._operand(name, batch), e.times(first, column)), name))
        self._load(*places[0])
        self._solve()
        self._store(*places[1])

    def _at(self, row: Index, vector: int = 0) -> Index:
        """Return the place of a vector in the strip."""
        e = self.routine
        return e.plus(e.times(row, str(self.stride)), str(vector * e.lanes))

    # -- memory

    def _alpha(self) -> Value:
        e = self.routine
        bits = e.assign(f"bitcast i64 {_WORDS.index(e, 'alpha')} to double")
        if self.kernel.dtype.itemsize == 4:
            bits = e.assign(f"fptrunc double {bits} to float")
        return e.splat(bits, self.kernel.dtype)

    def _load(self, right: str, name: str) -> None:
        e, alpha = self.routine, self._alpha()
        if self.kernel.is_turned:
            distance = _WORDS.index(e, f"{name}_column")

            def squares(row: Index) -> None:
                for vector in range(_WIDTH):
                    begin = str(vector * e.lanes)
                    lines = load_square(e, e.at(right, row), distance, (begin, self.count), e.minus(self.size, row))
                    for line, value in enumerate(lines):
                        e.store(self.strip, self._at(e.plus(row, str(line)), vector), e.multiply(value, alpha))

            e.for_each("0", self.size, squares, str(e.lanes))
            return
        distance = _WORDS.index(e, f"{name}_row")

        def rows(is_whole: bool) -> None:
            def row(number: Index) -> None:
                line = e.at(right, e.times(number, distance))
                for vector in range(_WIDTH):
                    offset = str(vector * e.lanes)
                    mask = e.below(e.minus(self.count, offset))
                    value = e.get(line, offset) if is_whole else e.get_where(line, mask, offset)
                    e.store(self.strip, self._at(number, vector), e.multiply(value, alpha))

            e.for_each("0", self.size, row)

        e.when(self._is_whole(), lambda: rows(True), lambda: rows(False))

    def _is_whole(self) -> str:
        return self.routine.test("eq", self.count, str(self.stride))

    def _store(self, out: str, name: str) -> None:
        e = self.routine
        if self.kernel.is_turned:
            distance = _WORDS.index(e, f"{name}_column")

            def squares(row: Index) -> None:
                for vector in range(_WIDTH):
                    lines = [e.get(self.strip, self._at(e.plus(row, str(line)), vector)) for line in range(e.lanes)]
                    begin = str(vector * e.lanes)
                    store_square(e, e.at(out, row), distance, (begin, self.count), e.minus(self.size, row), lines)

            e.for_each("0", self.size, squares, str(e.lanes))
            return
        distance = _WORDS.index(e, f"{name}_row")

        def rows(is_whole: bool) -> None:
            def row(number: Index) -> None:
                line = e.at(out, e.times(number, distance))
                for vector in range(_WIDTH):
                    offset = str(vector * e.lanes)
                    value = e.get(self.strip, self._at(number, vector))
                    if is_whole:
                        e.store(line, offset, value)
                    else:
                        e.store_where(line, offset, value, e.below(e.minus(self.count, offset)))

            e.for_each("0", self.size, row)

        e.when(self._is_whole(), lambda: rows(True), lambda: rows(False))

    # -- arithmetic

    def _row(self, step: Index) -> Index:
        """Return the row that is solved in a step."""
        e = self.routine
        return e.minus(e.minus(self.size, "1"), step) if self.kernel.backward else step

    def _element(self, row: Index, column: Index) -> Value:
        e = self.routine
        return e.get_splat(self.matrix, e.plus(e.times(row, self.matrix_row), e.times(column, self.matrix_column)))

    def _solve(self) -> None:
        e = self.routine
        whole = e.assign(f"and i64 {self.size}, {-_ROWS}")
        e.for_each("0", whole, lambda step: self._rows(step, _ROWS), str(_ROWS))
        e.for_each(whole, self.size, lambda step: self._rows(step, 1))

    def _rows(self, step: Index, count: int) -> None:
        """Write the substitution of a few rows: first by the rows before them, then among themselves."""
        e = self.routine
        rows = [self._row(e.plus(step, str(number))) for number in range(count)]
        sums = [e.get(self.strip, self._at(row, vector)) for row in rows for vector in range(_WIDTH)]

        def term(index: Index, before: list[Value]) -> list[Value]:
            known = self._row(index)
            values = [e.negative(e.get(self.strip, self._at(known, vector))) for vector in range(_WIDTH)]
            after = []
            for place, row in enumerate(rows):
                factor = self._element(row, known)
                after += [e.fma(factor, value, before[place * _WIDTH + v]) for v, value in enumerate(values)]
            return after

        sums = e.loop("0", step, "1", sums, term)
        for place, row in enumerate(rows):
            own = sums[place * _WIDTH : (place + 1) * _WIDTH]
            for other in range(place):
                factor = e.negative(self._element(row, rows[other]))
                own = [e.fma(factor, sums[other * _WIDTH + v], value) for v, value in enumerate(own)]
            if not self.kernel.unit:
                divisor = self._element(row, row)
                own = [e.divide(value, divisor) for value in own]
            sums[place * _WIDTH : (place + 1) * _WIDTH] = own
            for vector, value in enumerate(own):
                e.store(self.strip, self._at(row, vector), value)
