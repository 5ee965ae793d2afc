"""Householder reflections of rows: the steps that the kernels of LQ, eigenvalues and singular values share.

A reflection ``I - tau v^T v`` is a row vector ``v`` and a number. The element of ``v`` at its own index is 1, and those
before it are 0. Rows are padded with zeros to whole vectors. Vectors have as many lanes on every processor, so the
order of sums along a row is fixed.
"""

from __future__ import annotations

from ...base.dtypes import FLOAT32, INT32, INT64, DType
from ...lower.ir.function_builder import Index, Value
from ..routine import Routine

__all__ = ["FIXED_BYTES", "Reflections"]

#: bytes of a vector, on every processor
FIXED_BYTES = 32
#: rows that are reflected together
_GROUP = 4


class Reflections:
    """Writes the steps of reflections in a function."""

    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self.dtype = routine.dtype
        # squares outside of this range lose their precision; the limits are exact powers of two
        exponent = 100 if self.dtype == FLOAT32 else 900
        self.least, self.most = self.number(2.0**-exponent), self.number(2.0**exponent)
        self.one, self.missing = self.number(1), self.number(float("nan"))

    @staticmethod
    def lanes(dtype: DType) -> int:
        """Return the elements of a vector."""
        return FIXED_BYTES // dtype.itemsize

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

        Return its factor, and the element that remains. Both are NaN if the squares of the elements have no precision.
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
        is_precise = e.bits("and", e.relation("gt", squares, self.least), e.relation("lt", squares, self.most))
        beta = e.negative(e.with_sign_of(e.call("sqrt", squares), alpha))
        is_done = e.relation("eq", rest, e.zeros())
        factor = e.select(is_done, e.zeros(), e.divide(e.subtract(beta, alpha), beta))
        scale = e.select(is_done, e.zeros(), e.divide(self.one, e.subtract(alpha, beta)))
        remaining = e.select(is_done, alpha, beta)
        factor, remaining = (e.select(is_precise, value, self.missing) for value in (factor, remaining))
        e.for_each("0", begin, lambda place: e.store(out, place, e.zeros()), str(e.lanes))
        e.store(out, begin, e.select(here, self.one, e.multiply(head, scale)))

        def vector(place: Index) -> None:
            e.store(out, place, e.multiply(e.get(row, place), scale))

        e.for_each(following, stop, vector, str(e.lanes))
        return factor, remaining

    def apply(
        self, vector: str, factor: Value, rows: str, distance: Index, some: tuple[Index, Index], columns: tuple[Index, Index]
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

    def in_groups(self, some: tuple[Index, Index], write: object) -> None:
        """Write a loop over groups of rows, and one over the rows that are left."""
        e = self.routine
        first, last = some
        count = e.minus(last, first)
        whole = e.plus(first, e.assign(f"and i64 {count}, {-_GROUP}"))
        assert callable(write)
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

    def unfold(
        self, vectors: str, factors: str, distance: Index, first: int, rows: Index, stop: Index
    ) -> None:
        """Replace the vectors of reflections by the first rows of their product, whose rows are orthonormal.

        Vector n reflects the elements from ``n + first`` on, and becomes row ``n + first``. The rows before are those of
        the identity, and are not written.
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

    def store_row(self, out: str, length: Index, value_at: object) -> None:
        """Store the elements of a row: ``value_at(place)`` returns a vector of them."""
        e = self.routine
        assert callable(value_at)

        def vector(place: Index) -> None:
            left, value = e.minus(length, place), value_at(place)
            e.when(
                e.test("sge", left, str(e.lanes)),
                lambda: e.store(out, place, value),
                lambda: e.store_where(out, place, value, e.below(left)),
            )

        e.for_each("0", length, vector, str(e.lanes))

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
