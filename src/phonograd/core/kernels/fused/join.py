"""Join: combines the partial results of a partitioned kernel, in the order of the parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...base.dtypes import DType
from ...lower.ir.emitter import ROW, Emitter, Index, Value
from ...lower.lowering import Reduction, lowering_of_kind
from ..launch import Words
from .writer import fold_lanes

__all__ = ["JOIN", "Join"]

#: partial results are contiguous: parts, then items, and sixteen lanes per item if rows are folded
JOIN = Words("parts", "items", "partial*", "out*")


@dataclasses.dataclass(frozen=True)
class Join:
    """The kernel that combines the partial results of one fold, over a range of items."""

    operator: str
    dtype: DType
    lanes: int
    folds_rows: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e, fold = Emitter(name, self.lanes), lowering_of_kind(self.operator, Reduction)
        parts, items = JOIN.index(e, "parts"), JOIN.index(e, "items")
        partial, out = JOIN.pointer(e, "partial"), JOIN.pointer(e, "out")
        identity = e.constant(fold.start(self.dtype), self.dtype)

        def row(item: Index, _: list[Value]) -> Sequence[Value]:
            def part(number: Index, joined: list[Value]) -> Sequence[Value]:
                start = e.times(e.plus(e.times(number, items), item), str(ROW))
                places = [e.plus(start, str(lane)) for lane in range(0, ROW, self.lanes)]
                found = [e.load(partial, place, self.dtype) for place in places]
                return [fold.combine(e, first, second) for first, second in zip(joined, found, strict=True)]

            vectors = e.loop("0", parts, "1", [identity] * (ROW // self.lanes), part)
            e.store_first(out, item, fold_lanes(e, fold, vectors))
            return ()

        def columns(item: Index, _: list[Value]) -> Sequence[Value]:
            mask = e.below(e.minus("%hi", item))

            def part(number: Index, joined: list[Value]) -> Sequence[Value]:
                found = e.load_where(partial, e.plus(e.times(number, items), item), self.dtype, mask)
                return [fold.combine(e, joined[0], found)]

            e.store_where(out, item, e.loop("0", parts, "1", [identity], part)[0], mask)
            return ()

        if self.folds_rows:
            e.loop("%lo", "%hi", "1", (), row)
        else:
            e.loop("%lo", "%hi", str(self.lanes), (), columns)
        return e.text()
