"""LQ factorization by reflections: a kernel for matrices of up to 64 columns, and products for larger ones.

Rows of a larger matrix are factorized in blocks. The reflections of a block are one product ``I - V^T T V`` with a
triangular ``T`` (the compact WY form), so the rows below it are updated by three products. A block is halved until a
kernel factorizes its rows one by one. The transpose of ``T`` is stored, because its rows follow from each other.
"""

from __future__ import annotations

import dataclasses

from ...base.dtypes import INT64, DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Launch, Words
from ..routine import Routine
from .blocks import SMALL, Launches, View, half_of
from .reflections import Reflections

__all__ = ["BLOCK", "ReflectedRows", "SmallLq", "factorize", "factorize_small"]

#: rows of a block whose reflections are one product, and rows that a kernel factorizes. On a processor with AVX2
#: (Zen 3), blocks of 128 rows take a third longer for 300 rows: `python -m benchmarks.linear_algebra gelqf`
BLOCK, _PANEL = 32, 16
#: multiplications worth handing to another thread
_TASK_WORK = 1 << 15

_SMALL_WORDS = Words(
    *("rows", "length", "status*", "data*", "data_row", "data_column", "data_batch"),
    *("out*", "out_row", "out_column", "out_batch", "lower*", "lower_row", "lower_column", "lower_batch"),
)
_WORDS = Words(
    *("rows", "length", "status*", "data*", "data_row", "data_column", "data_batch"),
    *("vectors*", "vectors_row", "vectors_column", "vectors_batch"),
    *("triangle*", "triangle_row", "triangle_column", "triangle_batch"),
)


def factorize_small(launches: Launches, data: View, out: View, lower: View, sizes: tuple[int, int]) -> None:
    """Compute ``out`` and ``lower`` with ``data = lower * out``, given the rows and columns of ``data``.

    A matrix whose squares have no precision gets NaN on the diagonal of ``lower``, and sets the status.
    """
    rows, length = sizes
    dtype = launches.dtype
    words = {
        "rows": rows,
        "length": length,
        **data.words("data", dtype),
        **out.words("out", dtype),
        **lower.words("lower", dtype),
    }
    chunk = max(1, _TASK_WORK // max(1, 2 * rows * rows * length))
    launches.add(Launch(SmallLq(dtype), _SMALL_WORDS.fill(words), launches.count if rows else 0, chunk))


def factorize(launches: Launches, data: View, out: View, others: tuple[View, ...], sizes: tuple[int, int]) -> None:
    """Replace ``data`` by the lower factor, and the identity in ``out`` by the orthonormal rows.

    ``others`` are arrays of as many rows: ``vectors``, of zeros, as wide as ``data``; ``triangle``, of zeros, and two
    more for products, of ``BLOCK`` columns. Rows of ``data`` and ``vectors`` are padded with zeros to whole vectors.
    """
    plan = _Blocks(launches, data, others, sizes)
    rows = sizes[0]
    blocks = [(first, min(rows, first + BLOCK)) for first in range(0, rows, BLOCK)]
    for first, last in blocks:
        plan.factorize(first, last, first)
        plan.reflect(data.at(last, first), rows - last, (first, last), first, backward=False)
    for first, last in reversed(blocks):
        plan.reflect(out.at(first, first), rows - first, (first, last), first, backward=True)


class _Blocks:
    """Adds the launches of blocks of rows."""

    def __init__(self, launches: Launches, data: View, others: tuple[View, ...], sizes: tuple[int, int]) -> None:
        self.launches, self.data, self.length = launches, data, sizes[1]
        self.vectors, self.triangle, self.first_product, self.second_product = others

    def factorize(self, first: int, last: int, start: int) -> None:
        """Factorize some rows of the block that starts at a row."""
        if last - first <= _PANEL:
            self._panel(first, last, start)
            return
        middle = first + half_of(last - first, _PANEL)
        self.factorize(first, middle, start)
        self.reflect(self.data.at(middle, first), last - middle, (first, middle), start, backward=False)
        self.factorize(middle, last, start)
        # the product of the reflections of both halves
        head, tail = self._triangle(first, start), self._triangle(middle, start)
        sizes = last - middle, middle - first
        before, after = self.vectors.at(first, middle), self.vectors.at(middle, middle)
        overlap, turned = self.first_product.at(middle, 0), self.second_product.at(middle, 0)
        multiply = self.launches.multiply
        multiply(overlap, after, before.transposed, (sizes[0], self.length - middle, sizes[1]))
        multiply(turned, overlap, head, (sizes[0], sizes[1], sizes[1]))
        multiply(self.triangle.at(middle, first - start), tail, turned, (sizes[0], sizes[0], sizes[1]), negative=True)

    def reflect(self, rows: View, count: int, block: tuple[int, int], start: int, *, backward: bool) -> None:
        """Multiply rows, which begin at the first column of a block, by its reflections, or by their transpose."""
        if not count:
            return
        first, last = block
        vectors, size, length = self.vectors.at(first, first), last - first, self.length - first
        triangle = self._triangle(first, start)
        product, turned = self.first_product, self.second_product
        self.launches.multiply(product, rows, vectors.transposed, (count, length, size))
        self.launches.multiply(turned, product, triangle if backward else triangle.transposed, (count, size, size))
        self.launches.subtract_product(rows, turned, vectors, (count, size, length))

    def _triangle(self, first: int, start: int) -> View:
        return self.triangle.at(first, first - start)

    def _panel(self, first: int, last: int, start: int) -> None:
        dtype = self.launches.dtype
        words = {
            "rows": last - first,
            "length": self.length - first,
            **self.data.at(first, first).words("data", dtype),
            **self.vectors.at(first, first).words("vectors", dtype),
            **self._triangle(first, start).words("triangle", dtype),
        }
        self.launches.add(Launch(ReflectedRows(dtype), _WORDS.fill(words), self.launches.count))


@dataclasses.dataclass(frozen=True)
class SmallLq:
    """The kernel that factorizes matrices of up to 64 columns, one after the other."""

    dtype: DType

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, Reflections.lanes(self.dtype), self.dtype)
        bytes_of_matrix = SMALL * SMALL * self.dtype.itemsize
        work, vectors, factors = (e.scratch(size // 8) for size in (bytes_of_matrix, bytes_of_matrix, 8 * SMALL))
        steps = Reflections(e)
        rows, length = _SMALL_WORDS.index(e, "rows"), _SMALL_WORDS.index(e, "length")
        stop = steps.whole(length)
        status = _SMALL_WORDS.pointer(e, "status")

        def task(batch: Index) -> None:
            data, out, lower = [
                e.at(_SMALL_WORDS.pointer(e, word), e.times(batch, _SMALL_WORDS.index(e, f"{word}_batch")))
                for word in ("data", "out", "lower")
            ]
            steps.load_rows(data, _SMALL_WORDS.index(e, "data_row"), work, SMALL, (rows, length))

            def row(index: Index) -> None:
                line, vector = (e.at(matrix, e.times(index, str(SMALL))) for matrix in (work, vectors))
                factor, remaining = steps.make(line, vector, index, stop)
                e.store_first(factors, index, factor)
                begin = steps.begin(index)
                steps.apply(vector, factor, work, str(SMALL), (e.plus(index, "1"), rows), (begin, stop))
                place = e.at(lower, e.times(index, _SMALL_WORDS.index(e, "lower_row")))

                def elements(column: Index) -> Value:
                    own = steps.lane(index, column)
                    before, here = (e.relation(word, e.steps(INT64), own) for word in ("lt", "eq"))
                    return e.select(here, remaining, e.select(before, e.get(line, column), e.zeros()))

                steps.store_row(place, rows, elements)
                _note_failure(e, status, remaining)

            e.for_each("0", rows, row)
            steps.unfold(vectors, factors, str(SMALL), 0, rows, stop)

            def store(index: Index) -> None:
                line = e.at(vectors, e.times(index, str(SMALL)))
                place = e.at(out, e.times(index, _SMALL_WORDS.index(e, "out_row")))
                steps.store_row(place, length, lambda column: e.get(line, column))

            e.for_each("0", rows, store)

        e.for_each("%lo", "%hi", task)
        return e.text()


def _note_failure(e: Routine, status: str, remaining: Value) -> None:
    missing = e.any(e.compare("uno", remaining, remaining))
    e.when(missing, lambda: e.store_word(status, "0", "1"))


@dataclasses.dataclass(frozen=True)
class ReflectedRows:
    """The kernel that factorizes a few rows, and writes the vectors and the triangle of their reflections."""

    dtype: DType

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, Reflections.lanes(self.dtype), self.dtype)
        steps = Reflections(e)
        rows, stop = _WORDS.index(e, "rows"), steps.whole(_WORDS.index(e, "length"))
        distances = {word: _WORDS.index(e, f"{word}_row") for word in ("data", "vectors", "triangle")}
        status = _WORDS.pointer(e, "status")

        def task(batch: Index) -> None:
            data, vectors, triangle = [
                e.at(_WORDS.pointer(e, word), e.times(batch, _WORDS.index(e, f"{word}_batch"))) for word in distances
            ]

            def row(index: Index) -> None:
                line, vector = (
                    e.at(matrix, e.times(index, distances[word]))
                    for matrix, word in ((data, "data"), (vectors, "vectors"))
                )
                factor, remaining = steps.make(line, vector, index, stop)
                begin = steps.begin(index)
                steps.apply(vector, factor, data, distances["data"], (e.plus(index, "1"), rows), (begin, stop))
                e.store_first(line, index, remaining)
                _note_failure(e, status, remaining)
                self._triangle(steps, index, (vector, vectors, distances["vectors"]), triangle, factor, (begin, stop))

            e.for_each("0", rows, row)

        e.for_each("%lo", "%hi", task)
        return e.text()

    def _triangle(
        self,
        steps: Reflections,
        index: Index,
        given: tuple[str, str, Index],
        triangle: str,
        factor: Value,
        columns: tuple[Index, Index],
    ) -> None:
        """Write a row of the transposed triangle: the rows before it, times products of their vectors and this one."""
        e = steps.routine
        vector, vectors, distance = given
        width = _PANEL // e.lanes
        triangle_row = _WORDS.index(e, "triangle_row")

        def line(row: Index) -> str:
            return e.at(triangle, e.times(row, triangle_row))

        def term(row: Index, before: list[Value], count: int) -> list[Value]:
            others = [e.plus(row, str(number)) for number in range(count)]
            lines = [e.at(vectors, e.times(other, distance)) for other in others]
            for other, found in zip(others, steps.products(vector, lines, columns), strict=True):
                weight = e.multiply(found, e.negative(factor))
                old = [e.get(line(other), str(number * e.lanes)) for number in range(width)]
                before = [e.fma(weight, value, sum_) for value, sum_ in zip(old, before, strict=True)]
            return before

        whole = e.assign(f"and i64 {index}, -4")
        sums = e.loop("0", whole, "4", [e.zeros()] * width, lambda row, before: term(row, before, 4))
        sums = e.loop(whole, index, "1", sums, lambda row, before: term(row, before, 1))
        for number, value in enumerate(sums):
            here = e.relation("eq", e.steps(INT64), steps.lane(index, str(number * e.lanes)))
            e.store(line(index), str(number * e.lanes), e.select(here, factor, value))
