"""Householder reflections of rows: the steps that the kernels of LQ, eigenvalues and singular values share.

A reflection ``I - tau v^T v`` is a row vector ``v`` and a number. The element of ``v`` at its own index is 1, and those
before it are 0. Rows are padded with zeros to whole vectors. Vectors have as many lanes on every processor, so the
order of sums along a row is fixed.
"""

from __future__ import annotations

from collections.abc import Callable

from ...base.dtypes import FLOAT32, INT32, INT64, DType
from ...lower.ir.function_builder import Index, Value
from ..routine import Routine
from .blocks import SMALL

__all__ = ["Reflections", "first_of_largest"]

#: bytes of a vector, on every processor
_BYTES = 32
#: rows that are reflected together
_GROUP = 4


class Reflections:
    """Writes the steps of reflections in a function."""

    def __init__(self, routine: Routine, *, scaled: bool = False) -> None:
        self.routine = routine
        self.dtype = routine.dtype
        #: whether the largest element of a matrix is near 1: then elements whose squares vanish count as zeros
        self.scaled = scaled
        # squares outside of this range lose their precision; the limits are exact powers of two
        exponent = 100 if self.dtype == FLOAT32 else 900
        self.least, self.most = self.number(2.0**-exponent), self.number(2.0**exponent)
        self.one, self.missing = self.number(1), self.number(float("nan"))

    @staticmethod
    def lanes(dtype: DType) -> int:
        """Return the elements of a vector."""
        return _BYTES // dtype.itemsize

    def number(self, number: float) -> Value:
        """Return a number in every lane."""
        return self.routine.constant(number, self.dtype)

    def begin(self, index: Index) -> Index:
        """Return the first element of the vector that holds an element."""
        return self.routine.assign(f"and i64 {index}, {-self.routine.lanes}")

    def whole(self, count: Index) -> Index:
        """Return a number of elements, rounded up to whole vectors."""
        return self.begin(self.routine.plus(count, str(self.routine.lanes - 1)))

    def lane(self, index: Index, begin: Index) -> Value:
        """Return the number of an element's lane in every lane."""
        return self.routine.splat(self.routine.minus(index, begin), INT64)

    def total(self, value: Value) -> Value:
        """Return the sum of all lanes, in every lane."""
        e = self.routine
        distance = e.lanes // 2
        while distance:
            value = e.add(value, e.shuffle(value, value, [lane ^ distance for lane in range(e.lanes)]))
            distance //= 2
        return value

    def make(self, row: str, out: str, index: Index, stop: Index) -> tuple[Value, Value]:
        """Write the vector that reflects the elements of a row from an index on to that index.

        Return its factor, and the element that remains. If the matrix is not scaled, both are NaN if the squares of the
        elements have no precision.
        """
        e = self.routine
        begin = self.begin(index)
        own = self.lane(index, begin)
        after, here = e.relation("gt", e.steps(INT64), own), e.relation("eq", e.steps(INT64), own)
        following = e.plus(begin, str(e.lanes))
        head = e.select(after, e.get(row, begin), e.zeros())

        def square(place: Index, before: list[Value]) -> list[Value]:
            value = e.get(row, place)
            return [e.fma(value, value, before[0])]

        rest = self.total(e.loop(following, stop, str(e.lanes), [e.multiply(head, head)], square)[0])
        alpha = e.get_splat(row, index)
        squares = e.fma(alpha, alpha, rest)
        beta = e.negative(e.with_sign_of(e.call("sqrt", squares), alpha))
        is_done = e.relation("le", rest, self.least if self.scaled else e.zeros())
        factor = e.select(is_done, e.zeros(), e.divide(e.subtract(beta, alpha), beta))
        scale = e.select(is_done, e.zeros(), e.divide(self.one, e.subtract(alpha, beta)))
        remaining = e.select(is_done, alpha, beta)
        if not self.scaled:
            is_precise = e.bits("and", e.relation("gt", squares, self.least), e.relation("lt", squares, self.most))
            factor, remaining = (e.select(is_precise, value, self.missing) for value in (factor, remaining))
        e.for_each("0", begin, lambda place: e.store(out, place, e.zeros()), str(e.lanes))
        e.store(out, begin, e.select(here, self.one, e.multiply(head, scale)))

        def vector(place: Index) -> None:
            e.store(out, place, e.multiply(e.get(row, place), scale))

        e.for_each(following, stop, vector, str(e.lanes))
        return factor, remaining

    def apply(
        self,
        vector: str,
        factor: Value,
        rows: str,
        distance: Index,
        some: tuple[Index, Index],
        columns: tuple[Index, Index],
    ) -> None:
        """Reflect some rows, given the first and the last column of the vector, in whole vectors."""

        def group(row: Index, count: int) -> None:
            e = self.routine
            lines = [e.at(rows, e.times(e.plus(row, str(number)), distance)) for number in range(count)]
            weights = [e.multiply(sum_, e.negative(factor)) for sum_ in self.products(vector, lines, columns)]

            def change(place: Index) -> None:
                own = e.get(vector, place)
                for line, weight in zip(lines, weights, strict=True):
                    e.store(line, place, e.fma(weight, own, e.get(line, place)))

            e.for_each(columns[0], columns[1], change, str(e.lanes))

        self.in_groups(some, group)

    def in_groups(self, some: tuple[Index, Index], write: Callable[[Index, int], None]) -> None:
        """Write a loop over groups of rows, and one over the rows that are left."""
        e = self.routine
        first, last = some
        count = e.minus(last, first)
        whole = e.plus(first, e.assign(f"and i64 {count}, {-_GROUP}"))
        e.for_each(first, whole, lambda row: write(row, _GROUP), str(_GROUP))
        e.for_each(whole, last, lambda row: write(row, 1))

    def products(self, vector: str, lines: list[str], columns: tuple[Index, Index]) -> list[Value]:
        """Return the scalar products of a vector and some rows, each in every lane."""
        e = self.routine

        def term(place: Index, before: list[Value]) -> list[Value]:
            own = e.get(vector, place)
            return [e.fma(e.get(line, place), own, sum_) for line, sum_ in zip(lines, before, strict=True)]

        sums = e.loop(columns[0], columns[1], str(e.lanes), [e.zeros()] * len(lines), term)
        if len(lines) == 1:
            return [self.total(sums[0])]
        both = e.lane_sums(sums)
        return [e.shuffle(both, both, [number] * e.lanes) for number in range(len(lines))]

    def unfold(self, vectors: str, factors: str, distance: Index, first: int, rows: Index, stop: Index) -> None:
        """Replace the vectors of reflections by the first rows of their product, whose rows are orthonormal.

        Vector n reflects the elements from ``n + first`` on, and becomes row ``n + first``. Rows before those are rows
        of the identity, and are not written.
        """
        e = self.routine

        def one(step: Index) -> None:
            row = e.minus(e.minus(rows, "1"), step)
            line = e.at(vectors, e.times(row, distance))
            factor = e.get_splat(factors, row)
            begin = self.begin(e.plus(row, str(first)))
            self.apply(line, factor, vectors, distance, (e.plus(row, "1"), rows), (begin, stop))
            here = e.relation("eq", e.steps(INT64), self.lane(e.plus(row, str(first)), begin))
            against = e.negative(factor)
            e.store(line, begin, e.fma(against, e.get(line, begin), e.select(here, self.one, e.zeros())))
            change = lambda place: e.store(line, place, e.multiply(against, e.get(line, place)))  # noqa: E731
            e.for_each(e.plus(begin, str(e.lanes)), stop, change, str(e.lanes))

        e.for_each("0", rows, one)

    # -- memory

    def load_rows(self, data: str, data_row: Index, rows: str, distance: int, sizes: tuple[Index, Index]) -> None:
        """Copy rows from memory, and pad them with zeros."""
        e = self.routine
        count, length = sizes

        def row(number: Index) -> None:
            line, out = e.at(data, e.times(number, data_row)), e.at(rows, e.times(number, str(distance)))

            def vector(place: Index) -> None:
                left = e.minus(length, place)
                value = e.choose(
                    e.test("sge", left, str(e.lanes)),
                    lambda: [e.get(line, place)],
                    lambda: [e.get_where(line, e.below(left), place)],
                )
                e.store(out, place, value[0])

            e.for_each("0", length, vector, str(e.lanes))

        e.for_each("0", count, row)

    def store_row(self, out: str, length: Index, value_at: Callable[[Index], Value]) -> None:
        """Store the elements of a row: ``value_at(place)`` returns a vector of them."""
        e = self.routine

        def vector(place: Index) -> None:
            left, value = e.minus(length, place), value_at(place)
            e.when(
                e.test("sge", left, str(e.lanes)),
                lambda: e.store(out, place, value),
                lambda: e.store_where(out, place, value, e.below(left)),
            )

        e.for_each("0", length, vector, str(e.lanes))

    def power_of_largest(self, rows: str, distance: int, sizes: tuple[Index, Index]) -> Value:
        """Return the power of two below the largest absolute value of some rows; NaN and infinity win."""
        e = self.routine
        count, stop = sizes

        def row(number: Index, before: list[Value]) -> list[Value]:
            line = e.at(rows, e.times(number, str(distance)))

            def vector(place: Index, best: list[Value]) -> list[Value]:
                return [e.maximum(e.absolute(e.get(line, place)), best[0])]

            return e.loop("0", stop, str(e.lanes), before, vector)

        (best,) = e.loop("0", count, "1", [e.zeros()], row)
        distance_of_lanes = e.lanes // 2
        while distance_of_lanes:
            order = [lane ^ distance_of_lanes for lane in range(e.lanes)]
            best = e.maximum(best, e.shuffle(best, best, order))
            distance_of_lanes //= 2
        integer = INT32 if self.dtype == FLOAT32 else INT64
        mask = 0x7F800000 if self.dtype == FLOAT32 else 0x7FF0000000000000
        return e.reinterpret(e.bits("and", e.reinterpret(best, integer), e.constant(mask, integer)), self.dtype)

    def rotate(
        self, rows: str, rotations: tuple[str, str], some: tuple[Index, Index], stop: Index, *, down: bool
    ) -> None:
        """Rotate neighboring rows by cosines and sines, for ``n`` from a first to a last one, or ``down`` from it.

        Rotation ``n`` turns rows ``n`` and ``n + 1``, upwards to ``c a + s b`` and ``c b - s a``, and downwards to
        ``c a - s b`` and ``c b + s a``.
        """
        e = self.routine
        first, last = some
        cosines, sines = rotations

        def strip(start: Index, width: int) -> None:
            def line(row: Index) -> str:
                return e.at(rows, e.plus(e.times(row, str(SMALL)), start))

            def get(row: Index) -> list[Value]:
                return [e.get(line(row), str(number * e.lanes)) for number in range(width)]

            def put(row: Index, values: list[Value]) -> None:
                for number, value in enumerate(values):
                    e.store(line(row), str(number * e.lanes), value)

            def turn(step: Index, moving: list[Value]) -> list[Value]:
                own = e.minus(e.minus(e.plus(first, last), "1"), step) if down else step
                cosine, sine = e.get_splat(cosines, own), e.get_splat(sines, own)
                against = e.negative(sine)
                following = e.plus(own, "1")
                others = get(own if down else following)
                kept, turned = [], []
                for here, there in zip(moving, others, strict=True):
                    kept.append(e.fma(cosine, here, e.multiply(sine, there)))
                    turned.append(e.fma(against, here, e.multiply(cosine, there)))
                put(following if down else own, kept)
                return turned

            moving = e.loop(first, last, "1", get(last if down else first), turn)
            put(first if down else last, moving)

        start = "0"
        for width in (4, 2, 1):
            end = e.assign(f"and i64 {stop}, {-width * e.lanes}")
            e.for_each(start, end, lambda place, width=width: strip(place, width), str(width * e.lanes))  # type: ignore[misc]
            start = end

    def place_of_largest(self, line: str, stop: Index) -> Index:
        """Return the place of the element of largest absolute value of a row, the first one of equal ones."""
        e = self.routine

        def candidates(place: Index, before: list[Value]) -> list[Value]:
            found = e.absolute(e.get(line, place))
            numbers = e.add(e.splat(e.assign(f"trunc i64 {place} to i32"), INT32), e.steps(INT32))
            is_larger = e.relation("gt", found, before[0])
            return [e.select(is_larger, found, before[0]), e.select(is_larger, numbers, before[1])]

        best = e.loop("0", stop, str(e.lanes), [self.number(-1), e.steps(INT32)], candidates)
        return first_of_largest(e, best)


def first_of_largest(e: Routine, best: list[Value]) -> Index:
    """Return the number (int32) of the lane with the largest value, and the smallest one of equal values."""
    distance = e.lanes // 2
    while distance:
        order = [lane ^ distance for lane in range(e.lanes)]
        sizes, numbers = (e.shuffle(value, value, order) for value in best)
        is_larger, is_equal = e.relation("gt", sizes, best[0]), e.relation("eq", sizes, best[0])
        is_earlier = e.relation("lt", numbers, best[1])
        # a lane takes an equal size over only with the smaller number
        best = [
            e.select(is_larger, sizes, best[0]),
            e.select(is_larger, numbers, e.select(is_equal, e.select(is_earlier, numbers, best[1]), best[1])),
        ]
        distance //= 2
    chosen = e.assign(f"extractelement {e.vector_type(INT32)} {best[1].text}, i64 0")
    return e.assign(f"sext i32 {chosen} to i64")
