"""Pooling of whole small planes, with planes in the lanes of vectors.

Lines of small planes do not fill vectors. The kernel transposes as many planes as a vector has lanes, one vector per
element, and combines elements in the order of :mod:`~phonograd.core.kernels.pool.forward`, with the same bits: first
along z and y, then along x.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Launch, Plan, Words
from ..routine import Routine, module
from .window_loops import combine, identity

__all__ = ["ReduceWhole", "plan", "suits"]

#: maximum number of elements of a plane: its transpose stays in a small part of the L1 cache
MOST_PIXELS = 256
#: elements per chunk, over all planes
_CHUNK_ELEMENTS = 1 << 14

WHOLE = Words("pixels", "width", "data*", "out*")


def suits(lanes: int, planes: int, pixels: int) -> bool:
    """Return whether planes fill vectors and are small."""
    return lanes > 1 and planes % lanes == 0 and lanes <= pixels <= MOST_PIXELS


def plan(dtype: DType, lanes: int, largest: bool, planes: int, pixels: int, width: int) -> Plan:
    """Return the plan for planes of some elements, with lines of some width."""
    words = WHOLE.fill({"pixels": pixels, "width": width})
    chunk = max(1, _CHUNK_ELEMENTS // (pixels * lanes))
    return Plan((Launch(ReduceWhole(dtype, lanes, largest), words, planes // lanes, chunk),))


@dataclasses.dataclass(frozen=True)
class ReduceWhole:
    """The kernel of the largest element of each plane, or of the sum; an item is a vector of planes."""

    dtype: DType
    lanes: int
    largest: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, self.dtype)
        turned = e.scratch(MOST_PIXELS * self.lanes * self.dtype.itemsize // 8)
        pixels, width = WHOLE.index(e, "pixels"), WHOLE.index(e, "width")
        data, out = WHOLE.pointer(e, "data"), WHOLE.pointer(e, "out")
        neutral, lanes = identity(e, self.largest), str(self.lanes)

        def item(index: Index) -> None:
            planes = e.at(data, e.times(e.times(index, lanes), pixels))

            def turn(first: Index) -> None:
                # the last vectors overlap those before them
                at = e.least(first, e.minus(pixels, lanes))
                lines = [e.get(planes, e.plus(e.times(str(lane), pixels), at)) for lane in range(self.lanes)]
                for lane, vector in enumerate(e.transpose(lines)):
                    e.store(turned, e.times(e.plus(at, str(lane)), lanes), vector)

            e.for_each("0", pixels, turn, lanes)

            def column(x: Index, total: list[Value]) -> Sequence[Value]:
                def element(at: Index, partial: list[Value]) -> Sequence[Value]:
                    return [combine(e, self.largest, partial[0], e.get(turned, e.times(at, lanes)))]

                (partial,) = e.loop(x, pixels, width, [neutral], element)
                return [combine(e, self.largest, total[0], partial)]

            (total,) = e.loop("0", width, "1", [neutral], column)
            e.store(out, e.times(index, lanes), total)

        e.for_each("%lo", "%hi", item)
        return module(e)
