"""Determinants: products of the pivots of LU factorizations, or sums of their logarithms, in double precision.

Four products (or sums) are kept side by side and combined in a fixed order at the end, on every processor.
"""

from __future__ import annotations

import dataclasses

from ...base.dtypes import FLOAT64, INT64, DType
from ...lower import vector_math
from ...lower.ir.function_builder import Index, Value
from ..launch import Launch, Reference, Words
from ..routine import Routine
from .blocks import Launches, View

__all__ = ["Determinant", "determinants"]

_LANES = 4
#: pivots of a chunk of work
_CHUNK_PIVOTS = 1 << 12

_WORDS = Words("size", "data*", "data_row", "data_column", "data_batch", "pivots*", "out*", "sign*")


def determinants(launches: Launches, factors: View, size: int, *, logarithms: bool) -> None:
    """Compute ``out``, a determinant for each matrix; with ``logarithms``, its ``sign`` and logarithm."""
    words = {
        "size": size,
        **factors.words("data", launches.dtype),
        "sign": Reference("sign" if logarithms else "out"),
    }
    chunk = max(1, _CHUNK_PIVOTS // max(1, size))
    kernel = Determinant(launches.dtype, logarithms)
    launches.add(Launch(kernel, _WORDS.fill(words), launches.count, chunk))


@dataclasses.dataclass(frozen=True)
class Determinant:
    """The kernel that multiplies pivots, or adds up their logarithms, over a range of matrices."""

    dtype: DType
    logarithms: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, _LANES, self.dtype)
        size, diagonal = _WORDS.index(e, "size"), e.plus(_WORDS.index(e, "data_row"), "1")
        one, zero = e.constant(1, FLOAT64), e.constant(0, FLOAT64)

        def task(batch: Index) -> None:
            data = e.at(_WORDS.pointer(e, "data"), e.times(batch, _WORDS.index(e, "data_batch")))
            pivots = e.address(_WORDS.pointer(e, "pivots"), e.times(batch, size), "i64")

            def some(first: Index, before: list[Value]) -> list[Value]:
                inside = e.below(e.minus(size, first))
                found = e.gather(data, e.times(first, diagonal), diagonal, self.dtype, inside)
                pivot = e.select(inside, found if self.dtype == FLOAT64 else e.convert(found, FLOAT64), one)
                rows = e.load_where(pivots, first, INT64, inside)
                own = e.add(e.splat(first, INT64), e.steps(INT64))
                exchanged = e.select(inside, e.convert(e.relation("ne", rows, own), INT64), e.constant(0, INT64))
                if not self.logarithms:
                    return [e.multiply(before[0], pivot), e.add(before[1], exchanged)]
                sign = e.select(e.relation("eq", pivot, zero), zero, e.with_sign_of(one, pivot))
                sign = e.select(e.compare("uno", pivot, pivot), pivot, sign)
                logarithm = vector_math.log(e, e.absolute(pivot))
                return [e.multiply(before[0], sign), e.add(before[1], exchanged), e.add(before[2], logarithm)]

            start = [one, e.constant(0, INT64), *([zero] if self.logarithms else [])]
            found = e.loop("0", size, str(_LANES), start, some)
            product = self._combine(e, found[0], "multiply")
            odd = e.bits("and", self._combine(e, found[1], "add"), e.constant(1, INT64))
            signed = e.select(e.relation("eq", odd, e.constant(0, INT64)), product, e.negative(product))
            self._store(e, "sign", batch, signed)
            if self.logarithms:
                self._store(e, "out", batch, self._combine(e, found[2], "add"))

        e.for_each("%lo", "%hi", task)
        return e.text()

    def _combine(self, e: Routine, value: Value, how: str) -> Value:
        for distance in (2, 1):
            value = getattr(e, how)(value, e.shuffle(value, value, [lane ^ distance for lane in range(_LANES)]))
        return value

    def _store(self, e: Routine, name: str, batch: Index, value: Value) -> None:
        rounded = value if self.dtype == FLOAT64 else e.convert(value, self.dtype)
        e.store_first(_WORDS.pointer(e, name), batch, rounded)
