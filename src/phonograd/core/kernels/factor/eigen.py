"""Eigenvalues and eigenvectors of symmetric matrices of up to 64 rows, one matrix after the other.

Reflections make the matrix tridiagonal. Implicit shifts (the QL algorithm) make it diagonal; their rotations turn the
rows of eigenvectors, a whole sweep at a time (:mod:`.decomposition` has the frame). Larger matrices are left to LAPACK.
"""

from __future__ import annotations

import dataclasses

from ...base.dtypes import FLOAT32, INT64, DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Launch, Words
from .blocks import SMALL, Launches, View
from .decomposition import Decomposition

__all__ = ["SmallEigen", "decompose"]

#: sweeps per row after which the iteration counts as failed; two are usual
_MOST_SWEEPS = 60
#: vectors of a strip of columns
_WIDTH = 2
#: multiplications worth handing to another thread
_TASK_WORK = 1 << 15

_WORDS = Words(
    *("size", "status*", "data*", "data_row", "data_column", "data_batch"),
    *("out*", "out_row", "out_column", "out_batch", "values*"),
)


def decompose(launches: Launches, data: View, out: View, size: int) -> None:
    """Compute eigenvectors (rows of ``out``) and ascending eigenvalues (``values``) from the lower triangles.

    Eigenvalues that are not found are NaN, and set the status.
    """
    words = {"size": size, **data.words("data", launches.dtype), **out.words("out", launches.dtype)}
    chunk = max(1, _TASK_WORK // max(1, 9 * size**3))
    launches.add(Launch(SmallEigen(launches.dtype), _WORDS.fill(words), launches.count if size else 0, chunk))


@dataclasses.dataclass(frozen=True)
class SmallEigen:
    """The kernel of symmetric matrices of up to 64 rows."""

    dtype: DType

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        return _Writer(self.dtype, name).write()


class _Writer(Decomposition):
    """Writes the kernel."""

    def __init__(self, dtype: DType, name: str) -> None:
        super().__init__(dtype, name, _WORDS, ("out",))
        (self.turns,) = self.vectors
        # one more element than rows, and whole vectors
        names = ("factors", "diagonal", "beside", "cosines", "sines", "change")
        self.lines = {word: self.routine.scratch(SMALL + 8) for word in names}
        self.state = self.routine.scratch(2)

    def load(self, data: str, distance: Index) -> None:
        """Load the lower triangle, and mirror it."""
        e = self.routine

        def row(number: Index) -> None:
            line, out = e.at(data, e.times(number, distance)), self.line(self.work, number)

            def vector(place: Index) -> None:
                mask = e.below(e.minus(e.plus(number, "1"), place))
                e.store(out, place, e.get_where(line, mask, place))

            def turned(column: Index) -> None:
                e.put_one(self.line(self.work, column), e.get_one(out, column), number)

            e.for_each("0", self.stop, vector, str(e.lanes))
            e.for_each("0", number, turned)

        e.for_each("0", self.size, row)

    def decompose(self, power: Value) -> None:
        """Make the matrix tridiagonal, then diagonal, and store the results."""
        e, steps = self.routine, self.steps
        last = e.minus(self.size, "1")
        e.for_each("0", last, self._reflect)
        e.store_first(self.lines["diagonal"], last, e.get_splat(self.line(self.work, last), last))
        e.store_first(self.lines["beside"], last, e.zeros())
        e.store_first(self.lines["diagonal"], self.size, e.zeros())
        # row n + 1 of the vectors holds reflection n; the first row is that of the identity
        steps.unfold(self.line(self.turns, "1"), self.lines["factors"], str(SMALL), 1, last, self.stop)
        e.clear(self.turns, self.stop)
        e.store_first(self.turns, "0", steps.one)
        e.store_word(self.state, "1", "0")
        e.for_each("0", self.size, self._iterate)
        is_found = e.test("slt", e.load_word(self.state, "1"), e.times(self.size, str(_MOST_SWEEPS)))
        e.when(is_found, lambda: e.for_each("0", self.size, lambda row: self._store(row, power)), self.fail)

    # -- tridiagonal form

    def _reflect(self, row: Index) -> None:
        """Write one step: reflect a row and its column to two elements, and the rest of the matrix with them."""
        e, steps = self.routine, self.steps
        following = e.plus(row, "1")
        line, vector = self.line(self.work, row), self.line(self.turns, following)
        factor, remaining = steps.make(line, vector, following, self.stop)
        for word, value in (("factors", factor), ("beside", remaining), ("diagonal", e.get_splat(line, row))):
            e.store_first(self.lines[word], row, value)
        change = self.lines["change"]
        # columns before are changed, too, and not read again
        begin = e.assign(f"and i64 {following}, {-_WIDTH * e.lanes}")

        def strip(column: Index) -> None:
            def term(other: Index, before: list[Value]) -> list[Value]:
                weight, place = e.get_splat(vector, other), e.at(self.line(self.work, other), column)
                values = [e.get(place, str(number * e.lanes)) for number in range(_WIDTH)]
                return [e.fma(weight, value, sum_) for value, sum_ in zip(values, before, strict=True)]

            sums = e.loop(following, self.size, "1", [e.zeros()] * _WIDTH, term)
            for number, value in enumerate(sums):
                e.store(change, e.plus(column, str(number * e.lanes)), e.multiply(value, factor))

        e.for_each(begin, self.stop, strip, str(_WIDTH * e.lanes))
        (product,) = steps.products(vector, [change], (begin, self.stop))
        half = e.multiply(e.multiply(product, factor), steps.number(-0.5))

        def correct(place: Index) -> None:
            e.store(change, place, e.fma(half, e.get(vector, place), e.get(change, place)))

        e.for_each(begin, self.stop, correct, str(e.lanes))

        def update(first: Index, count: int) -> None:
            rows = [e.plus(first, str(number)) for number in range(count)]
            lines = [self.line(self.work, other) for other in rows]
            weights = [[e.negative(e.get_splat(given, other)) for given in (vector, change)] for other in rows]

            def columns(place: Index) -> None:
                own, beside = e.get(vector, place), e.get(change, place)
                for other, (of_vector, of_change) in zip(lines, weights, strict=True):
                    value = e.fma(of_vector, beside, e.get(other, place))
                    e.store(other, place, e.fma(of_change, own, value))

            e.for_each(begin, self.stop, columns, str(e.lanes))

        steps.in_groups((following, self.size), update)

    # -- diagonal form

    def _get(self, word: str, place: Index) -> Value:
        return self.routine.get_splat(self.lines[word], place)

    def _iterate(self, first: Index) -> None:
        """Write the sweeps that separate the first element from those after it."""
        e = self.routine
        exponents = (-24, -60) if self.dtype == FLOAT32 else (-53, -450)
        relative, absolute = (self.steps.number(2.0**exponent) for exponent in exponents)

        def is_connected(_: list[Value]) -> str:
            place = e.load_word(self.state, "0")
            sizes = [e.absolute(self._get("diagonal", each)) for each in (place, e.plus(place, "1"))]
            least = e.fma(relative, e.add(*sizes), absolute)
            return e.any(e.relation("gt", e.absolute(self._get("beside", place)), least))

        def advance(_: list[Value]) -> list[Value]:
            e.store_word(self.state, "0", e.plus(e.load_word(self.state, "0"), "1"))
            return []

        def proceed(_: list[Value]) -> str:
            """Find the end of the block of connected elements."""
            e.store_word(self.state, "0", first)
            e.repeat([], is_connected, advance)
            is_few = e.test("slt", e.load_word(self.state, "1"), e.times(self.size, str(_MOST_SWEEPS)))
            return e.logical_and(e.test("ne", e.load_word(self.state, "0"), first), is_few)

        def sweep(_: list[Value]) -> list[Value]:
            e.store_word(self.state, "1", e.plus(e.load_word(self.state, "1"), "1"))
            self._sweep(first, e.load_word(self.state, "0"))
            return []

        e.repeat([], proceed, sweep)

    def _sweep(self, first: Index, last: Index) -> None:
        e, steps = self.routine, self.steps
        one, zero = steps.one, e.zeros()
        diagonal, beside = self.lines["diagonal"], self.lines["beside"]
        start, side, end = self._get("diagonal", first), self._get("beside", first), self._get("diagonal", last)
        # the shift is the eigenvalue of the first two rows that is nearer to the first element
        slope = e.divide(e.subtract(self._get("diagonal", e.plus(first, "1")), start), e.add(side, side))
        root = e.call("sqrt", e.fma(slope, slope, one))
        # a slope whose square overflows is its own root
        root = e.select(e.relation("lt", root, steps.number(float("inf"))), root, e.absolute(slope))
        shift = e.divide(side, e.add(slope, e.with_sign_of(root, slope)))
        rest = e.add(e.subtract(end, start), shift)

        def rotate(step: Index, before: list[Value]) -> list[Value]:
            rest, sine, cosine, moved, lower = before
            row = e.minus(e.minus(e.plus(first, last), "1"), step)
            upper, off = self._get("diagonal", row), self._get("beside", row)
            bulge, kept = e.multiply(sine, off), e.multiply(cosine, off)
            squares = e.fma(bulge, bulge, e.multiply(rest, rest))
            is_regular = e.relation("gt", squares, steps.least)
            length = e.call("sqrt", squares)
            sine = e.select(is_regular, e.divide(bulge, length), zero)
            cosine = e.select(is_regular, e.divide(rest, length), one)
            following = e.plus(row, "1")
            e.store_first(beside, following, e.select(is_regular, length, zero))
            lower = e.subtract(lower, moved)
            turned = e.multiply(e.add(kept, kept), cosine)
            turned = e.fma(e.subtract(upper, lower), sine, turned)
            moved = e.multiply(sine, turned)
            e.store_first(diagonal, following, e.add(lower, moved))
            for word, value in (("cosines", cosine), ("sines", sine)):
                e.store_first(self.lines[word], row, value)
            return [e.fma(cosine, turned, e.negative(kept)), sine, cosine, moved, upper]

        rest, _, _, moved, _ = e.loop(first, last, "1", [rest, one, one, zero, end], rotate)
        e.store_first(diagonal, first, e.subtract(start, moved))
        e.store_first(beside, first, rest)
        e.store_first(beside, last, zero)
        rotations = self.lines["cosines"], self.lines["sines"]
        steps.rotate(self.turns, rotations, (first, last), self.stop, down=True)

    def _store(self, row: Index, power: Value) -> None:
        """Store the smallest eigenvalue that is left, and its vector with a positive largest element."""
        e, steps = self.routine, self.steps
        infinity = steps.number(float("inf"))

        def smaller(place: Index, before: list[Value]) -> list[Value]:
            value = self._get("diagonal", place)
            is_smaller = e.relation("lt", value, before[0])
            return [
                e.select(is_smaller, value, before[0]),
                e.select(is_smaller, e.splat(place, INT64), before[1]),
            ]

        least, number = e.loop("0", self.size, "1", [infinity, e.constant(0, INT64)], smaller)
        place = e.assign(f"extractelement {e.vector_type(INT64)} {number.text}, i64 0")
        e.store_first(self.lines["diagonal"], place, infinity)
        is_found = e.relation("lt", least, infinity)
        e.when(e.any(is_found), lambda: None, lambda: e.store_word(self.status, "0", "1"))
        value = e.select(is_found, e.multiply(least, power), steps.missing)
        e.store_first(self.values, row, value)
        line = self.line(self.turns, place)
        largest = e.get_splat(line, steps.place_of_largest(line, self.stop))
        sign = e.with_sign_of(steps.one, largest)
        out = e.at(self.results[0], e.times(row, _WORDS.index(e, "out_row")))
        steps.store_row(out, self.size, lambda column: e.multiply(e.get(line, column), sign))
