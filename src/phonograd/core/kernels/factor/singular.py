"""Singular values and vectors of matrices of up to 64 rows and columns, one matrix after the other.

Reflections from both sides make the matrix bidiagonal. Sweeps with implicit shifts, or without one where a singular
value is near 0 (Demmel and Kahan), make it diagonal. Their rotations turn the rows of singular vectors, a whole sweep
at a time (:mod:`.decomposition` has the frame). A matrix with more rows than columns is transposed. Larger matrices are
left to LAPACK.
"""

from __future__ import annotations

import dataclasses

from ...base.dtypes import FLOAT32, INT64, DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Launch, Words
from .blocks import SMALL, Launches, View
from .decomposition import Decomposition

__all__ = ["SmallSingular", "decompose"]

#: sweeps per singular value after which the iteration counts as failed; two are usual
_MOST_SWEEPS = 100
#: multiplications worth handing to another thread
_TASK_WORK = 1 << 15

_WORDS = Words(
    *("size", "length", "status*", "data*", "data_row", "data_column", "data_batch"),
    *("out*", "out_row", "out_column", "out_batch", "values*"),
    *("right*", "right_row", "right_column", "right_batch"),
)


def decompose(launches: Launches, data: View, out: View, right: View, sizes: tuple[int, int]) -> None:
    """Compute left vectors (columns of ``out``), descending ``values`` and right vectors (rows of ``right``).

    Singular values that are not found are NaN, and set the status.
    """
    rows, columns = sizes
    size, length = min(sizes), max(sizes)
    dtype = launches.dtype
    words = {"size": size, "length": length}
    for name, view in (("data", data), ("out", out), ("right", right)):
        words.update(view.words(name, dtype))  # type: ignore[arg-type]
    kernel = SmallSingular(dtype, is_turned=rows > columns)
    chunk = max(1, _TASK_WORK // max(1, 20 * size * size * length))
    launches.add(Launch(kernel, _WORDS.fill(words), launches.count if size else 0, chunk))


@dataclasses.dataclass(frozen=True)
class SmallSingular:
    """The kernel of matrices of up to 64 rows and columns."""

    dtype: DType
    #: whether the matrices have more rows than columns
    is_turned: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        return _Writer(self, name).write()


class _Writer(Decomposition):
    """Writes the kernel. The work matrix has no more rows than columns.

    Arrays of the bidiagonal matrix begin with a zero: element n is at place n + 1.
    """

    def __init__(self, kernel: SmallSingular, name: str) -> None:
        super().__init__(kernel.dtype, name, _WORDS, ("out", "right"))
        e, self.kernel = self.routine, kernel
        # the rows of the long vectors, as long as those of the work matrix, and of the short ones
        self.long, self.short = self.vectors
        names = ("factors", "short factors", "diagonal", "beside", "column")
        # two more elements than rows, and whole vectors
        self.lines = {word: e.scratch(SMALL + 8) for word in names}
        self.rotations = {word: (e.scratch(SMALL), e.scratch(SMALL)) for word in ("long", "short")}
        self.state = e.scratch(3)
        self.length = _WORDS.index(e, "length")
        self.stop, self.short_stop = self.steps.whole(self.length), self.stop

    def load(self, data: str, distance: Index) -> None:
        """Load the matrix, transposed if it has more rows than columns."""
        e = self.routine
        if not self.kernel.is_turned:
            self.steps.load_rows(data, distance, self.work, SMALL, (self.size, self.length))
            return

        def row(number: Index) -> None:
            out = self.line(self.work, number)
            e.clear(out, self.stop)

            def column(place: Index) -> None:
                e.put_one(out, e.get_one(data, e.plus(e.times(place, distance), number)), place)

            e.for_each("0", self.length, column)

        e.for_each("0", self.size, row)

    def decompose(self, power: Value) -> None:
        """Make the matrix bidiagonal, then diagonal, and store the results."""
        e, steps = self.routine, self.steps
        last = e.minus(self.size, "1")
        e.for_each("0", self.size, self._reflect)
        for word, place in (("diagonal", "0"), ("beside", "0"), ("beside", self.size)):
            e.store_first(self.lines[word], place, e.zeros())
        steps.unfold(self.long, self.lines["factors"], str(SMALL), 0, self.size, self.stop)
        # row n + 1 of the short vectors holds reflection n; the first row is that of the identity
        steps.unfold(self.line(self.short, "1"), self.lines["short factors"], str(SMALL), 1, last, self.short_stop)
        e.clear(self.short, self.short_stop)
        e.store_first(self.short, "0", steps.one)
        is_found = self._iterate(last)
        e.when(is_found, lambda: e.for_each("0", self.size, lambda row: self._store(row, power)), self.fail)

    # -- bidiagonal form

    def _reflect(self, row: Index) -> None:
        """Write one step: reflect a row to one element, and the column below it to another."""
        e, steps = self.routine, self.steps
        following = e.plus(row, "1")
        line, vector = self.line(self.work, row), self.line(self.long, row)
        factor, remaining = steps.make(line, vector, row, self.stop)
        e.store_first(self.lines["factors"], row, factor)
        e.store_first(self.lines["diagonal"], following, remaining)
        steps.apply(vector, factor, self.work, str(SMALL), (following, self.size), (steps.begin(row), self.stop))
        e.when(e.test("slt", following, self.size), lambda: self._reflect_column(row, following))

    def _reflect_column(self, column: Index, first: Index) -> None:
        e, steps = self.routine, self.steps
        copy = self.lines["column"]
        e.clear(copy, self.short_stop)

        def element(row: Index) -> None:
            e.put_one(copy, e.get_one(self.line(self.work, row), column), row)

        e.for_each(first, self.size, element)
        vector = self.line(self.short, first)
        factor, remaining = steps.make(copy, vector, first, self.short_stop)
        e.store_first(self.lines["short factors"], column, factor)
        e.store_first(self.lines["beside"], first, remaining)

        # a strip of columns at a time: the sum of the rows, and then each row
        def strip(place: Index) -> None:
            def term(row: Index, before: list[Value]) -> list[Value]:
                return [e.fma(e.get_splat(vector, row), e.get(self.line(self.work, row), place), before[0])]

            (total,) = e.loop(first, self.size, "1", [e.zeros()], term)
            weight = e.multiply(total, e.negative(factor))

            def change(row: Index) -> None:
                line = self.line(self.work, row)
                e.store(line, place, e.fma(e.get_splat(vector, row), weight, e.get(line, place)))

            e.for_each(first, self.size, change)

        e.for_each(steps.begin(first), self.stop, strip, str(e.lanes))

    # -- diagonal form

    def _get(self, word: str, number: Index) -> Value:
        """Return element n of the bidiagonal matrix."""
        return self.routine.get_splat(self.lines[word], self.routine.plus(number, "1"))

    def _put(self, word: str, number: Index, value: Value) -> None:
        self.routine.store_first(self.lines[word], self.routine.plus(number, "1"), value)

    def _iterate(self, last: Index) -> str:
        """Write the sweeps; return whether all elements beside the diagonal have vanished."""
        e = self.routine
        exponents = (-23, -26) if self.kernel.dtype == FLOAT32 else (-52, -55)
        relative, absolute = (self.steps.number(2.0**exponent) for exponent in exponents)
        most = e.times(self.size, str(_MOST_SWEEPS))
        # the end of the block, its beginning, and the number of sweeps
        for place, word in enumerate((last, "0", "0")):
            e.store_word(self.state, str(place), word)

        def is_connected(_: list[Value]) -> str:
            """Return whether the first row of the block is connected to the row before it."""
            first = e.load_word(self.state, "1")
            sizes = [e.absolute(e.get_splat(self.lines["diagonal"], place)) for place in (first, e.plus(first, "1"))]
            least = e.fma(relative, e.add(*sizes), absolute)
            beside = e.absolute(e.get_splat(self.lines["beside"], first))
            return e.any(e.relation("gt", beside, least))

        def retreat(_: list[Value]) -> list[Value]:
            e.store_word(self.state, "1", e.minus(e.load_word(self.state, "1"), "1"))
            return []

        def proceed(_: list[Value]) -> str:
            is_few = e.test("slt", e.load_word(self.state, "2"), most)
            return e.logical_and(e.test("sgt", e.load_word(self.state, "0"), "0"), is_few)

        def step(_: list[Value]) -> list[Value]:
            end = e.load_word(self.state, "0")
            e.store_word(self.state, "1", end)
            e.repeat([], is_connected, retreat)
            first = e.load_word(self.state, "1")
            e.store_first(self.lines["beside"], first, e.zeros())
            e.when(
                e.test("eq", first, end),
                lambda: e.store_word(self.state, "0", e.minus(end, "1")),
                lambda: self._sweep(first, end),
            )
            return []

        e.repeat([], proceed, step)
        return e.test("sle", e.load_word(self.state, "0"), "0")

    def _sweep(self, first: Index, end: Index) -> None:
        e, steps = self.routine, self.steps
        e.store_word(self.state, "2", e.plus(e.load_word(self.state, "2"), "1"))
        before = e.minus(end, "1")
        # the smaller singular value of the last two rows is their determinant, divided by the larger one
        above, below = e.absolute(self._get("diagonal", before)), e.absolute(self._get("diagonal", end))
        beside = self._get("beside", before)
        square = e.multiply(beside, beside)
        total, gap = e.add(above, below), e.subtract(above, below)
        roots = [e.call("sqrt", e.fma(value, value, square)) for value in (total, gap)]
        larger = e.multiply(e.add(*roots), steps.number(0.5))
        shift = e.divide(e.multiply(above, below), larger)
        start = e.absolute(self._get("diagonal", first))

        def least(row: Index, found: list[Value]) -> list[Value]:
            return [e.minimum(e.absolute(self._get("diagonal", row)), found[0])]

        (smallest,) = e.loop(first, e.plus(end, "1"), "1", [start], least)
        # without a shift, a singular value near 0 is found at once, and with more digits
        exponents = (-12, -22) if self.kernel.dtype == FLOAT32 else (-26, -50)
        relative, absolute = (steps.number(2.0**exponent) for exponent in exponents)
        has_shift = e.bits(
            "and",
            e.relation("gt", shift, e.multiply(start, relative)),
            e.relation("gt", smallest, absolute),
        )
        e.when(e.any(has_shift), lambda: self._shifted(first, end, shift), lambda: self._unshifted(first, end))
        steps.rotate(self.long, self.rotations["long"], (first, end), self.stop, down=False)
        steps.rotate(self.short, self.rotations["short"], (first, end), self.short_stop, down=False)

    def _rotation(self, first: Value, second: Value) -> tuple[Value, Value, Value]:
        """Return the cosine and the sine that rotate the second number to 0, and what the first one becomes."""
        e, steps = self.routine, self.steps
        squares = e.fma(first, first, e.multiply(second, second))
        is_regular = e.relation("gt", squares, steps.least)
        length = e.call("sqrt", squares)
        return (
            e.select(is_regular, e.divide(first, length), steps.one),
            e.select(is_regular, e.divide(second, length), e.zeros()),
            e.select(is_regular, length, first),
        )

    def _note(self, row: Index, short: tuple[Value, Value], long: tuple[Value, Value]) -> None:
        e = self.routine
        for word, values in (("short", short), ("long", long)):
            for place, value in zip(self.rotations[word], values, strict=True):
                e.store_first(place, row, value)

    def _shifted(self, first: Index, end: Index, shift: Value) -> None:
        e, steps = self.routine, self.steps
        start = self._get("diagonal", first)
        slope = e.add(e.with_sign_of(steps.one, start), e.divide(shift, start))
        head = e.multiply(e.subtract(e.absolute(start), shift), slope)

        def rotate(row: Index, before: list[Value]) -> list[Value]:
            kept, bulge, diagonal, beside, is_inside = before
            following = e.plus(row, "1")
            cosine, sine, length = self._rotation(kept, bulge)
            # the element before the block stays 0
            self._put("beside", e.minus(row, "1"), e.multiply(length, is_inside))
            kept = e.fma(cosine, diagonal, e.multiply(sine, beside))
            beside = e.fma(cosine, beside, e.negative(e.multiply(sine, diagonal)))
            below = self._get("diagonal", following)
            bulge, below = e.multiply(sine, below), e.multiply(cosine, below)
            other_cosine, other_sine, length = self._rotation(kept, bulge)
            self._put("diagonal", row, length)
            kept = e.fma(other_cosine, beside, e.multiply(other_sine, below))
            below = e.fma(other_cosine, below, e.negative(e.multiply(other_sine, beside)))
            after = self._get("beside", following)
            bulge, after = e.multiply(other_sine, after), e.multiply(other_cosine, after)
            self._note(row, (cosine, sine), (other_cosine, other_sine))
            return [kept, bulge, below, after, steps.one]

        beside = self._get("beside", first)
        kept, _, diagonal, _, _ = e.loop(first, end, "1", [head, beside, start, beside, e.zeros()], rotate)
        self._put("diagonal", end, diagonal)
        self._put("beside", e.minus(end, "1"), kept)

    def _unshifted(self, first: Index, end: Index) -> None:
        e, steps = self.routine, self.steps

        def rotate(row: Index, before: list[Value]) -> list[Value]:
            cosine, other_cosine, other_sine = before
            kept = e.multiply(self._get("diagonal", row), cosine)
            cosine, sine, length = self._rotation(kept, self._get("beside", row))
            # other_sine is 0 at first: the element before the block stays 0
            self._put("beside", e.minus(row, "1"), e.multiply(other_sine, length))
            below = e.multiply(self._get("diagonal", e.plus(row, "1")), sine)
            other_cosine, other_sine, diagonal = self._rotation(e.multiply(other_cosine, length), below)
            self._put("diagonal", row, diagonal)
            self._note(row, (cosine, sine), (other_cosine, other_sine))
            return [cosine, other_cosine, other_sine]

        cosine, other_cosine, other_sine = e.loop(first, end, "1", [steps.one, steps.one, e.zeros()], rotate)
        last = e.multiply(self._get("diagonal", end), cosine)
        self._put("diagonal", end, e.multiply(last, other_cosine))
        self._put("beside", e.minus(end, "1"), e.multiply(last, other_sine))

    # -- results

    def _store(self, row: Index, power: Value) -> None:
        """Store the largest singular value that is left, and its vectors.

        The element of largest absolute value of the right vector is positive.
        """
        e, steps = self.routine, self.steps
        used = steps.number(-1)

        def larger(place: Index, before: list[Value]) -> list[Value]:
            value = self._get("diagonal", place)
            # a singular value that is stored is NaN
            is_larger = e.relation("gt", e.absolute(value), before[0])
            return [
                e.select(is_larger, e.absolute(value), before[0]),
                e.select(is_larger, e.splat(place, INT64), before[1]),
            ]

        most, number = e.loop("0", self.size, "1", [used, e.constant(0, INT64)], larger)
        place = e.assign(f"extractelement {e.vector_type(INT64)} {number.text}, i64 0")
        own = self._get("diagonal", place)
        self._put("diagonal", place, steps.missing)
        is_found = e.bits("and", e.relation("ge", most, e.zeros()), e.relation("lt", most, steps.number(float("inf"))))
        e.when(e.any(is_found), lambda: None, lambda: e.store_word(self.status, "0", "1"))
        e.store_first(self.values, row, e.select(is_found, e.multiply(most, power), steps.missing))
        vectors = [(self.line(self.long, place), self.length), (self.line(self.short, place), self.size)]
        (right, right_length), (left, left_length) = vectors[::-1] if self.kernel.is_turned else vectors
        largest = e.get_splat(right, steps.place_of_largest(right, steps.whole(right_length)))
        sign = e.with_sign_of(steps.one, largest)
        out = e.at(self.results[1], e.times(row, _WORDS.index(e, "right_row")))
        steps.store_row(out, right_length, lambda column: e.multiply(e.get(right, column), sign))
        both = e.multiply(sign, e.with_sign_of(steps.one, own))
        distance = _WORDS.index(e, "out_row")
        column = e.at(self.results[0], row)

        def element(index: Index) -> None:
            value = e.multiply(e.get_splat(left, index), both)
            e.store_first(column, e.times(index, distance), value)

        e.for_each("0", left_length, element)
