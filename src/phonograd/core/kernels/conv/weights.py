"""Weight packing: weights in the order in which micro-kernels read them, tile by tile and step by step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index
from ..launch import Launch, Reference, Words
from ..routine import Routine, module

__all__ = ["PackWeights"]

#: packed elements worth a call
_CHUNK_ELEMENTS = 1 << 14

_WORDS = Words(
    *("blocks", "tiles", "block_rows", "all_rows", "depth"),
    *("group_stride", "block_stride", "row_stride", "depth_stride"),
    *("weight*", "packed*"),
)

_WEIGHT = Reference("weight")


@dataclasses.dataclass(frozen=True)
class PackWeights:
    """The kernel that packs weights; an item of its range is a tile.

    Rows are divided into blocks of ``block_rows``, and these into tiles of ``rows``. The result has the shape (groups,
    blocks, tiles, depth, rows); missing rows are zeros. ``consecutive`` means that rows are adjacent in the weights.
    """

    dtype: DType
    lanes: int
    rows: int
    consecutive: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, self.dtype)
        number = {word: _WORDS.index(e, word) for word in ("blocks", "tiles", "block_rows", "all_rows", "depth")}
        stride = {word: _WORDS.index(e, f"{word}_stride") for word in ("group", "block", "row", "depth")}
        weight, packed = _WORDS.pointer(e, "weight"), _WORDS.pointer(e, "packed")

        def tile(item: Index) -> None:
            rest, tile = e.split(item, number["tiles"])
            group, block = e.split(rest, number["blocks"])
            done = e.times(block, number["block_rows"])
            row = e.times(tile, str(self.rows))
            existing = e.minus(e.least(e.minus(number["all_rows"], done), number["block_rows"]), row)
            source = e.at(
                weight,
                *(e.times(group, stride["group"]), e.times(block, stride["block"]), e.times(row, stride["row"])),
            )
            target = e.at(packed, e.times(item, e.times(number["depth"], str(self.rows))))
            self._steps(e, target, source, existing, number["depth"], stride)

        e.for_each("%lo", "%hi", tile)
        return module(e)

    def _steps(
        self, e: Routine, target: str, source: str, existing: Index, depth: Index, stride: dict[str, Index]
    ) -> None:
        starts = range(0, self.rows, self.lanes)
        read = [e.below(e.minus(existing, str(start))) for start in starts]
        written = [e.below(str(self.rows - start)) for start in starts]

        def step(index: Index) -> None:
            place = e.times(index, stride["depth"])
            for start, known, wanted in zip(starts, read, written):
                if self.consecutive:
                    value = e.get_where(source, known, e.plus(place, str(start)))
                else:
                    first = e.plus(place, e.times(str(start), stride["row"]))
                    value = e.gather(source, first, stride["row"], self.dtype, known)
                e.store_where(target, e.plus(e.times(index, str(self.rows)), str(start)), value, wanted)

        e.for_each("0", depth, step)

    def launch(self, groups: int, packed: Reference, sizes: Mapping[str, int], weight: Reference = _WEIGHT) -> Launch:
        """Return the launch for weights of some sizes, packed to an address in scratch memory."""
        words = _WORDS.fill({**sizes, "weight": weight, "packed": packed})
        chunk = max(1, _CHUNK_ELEMENTS // (sizes["depth"] * self.rows))
        return Launch(self, words, groups * sizes["blocks"] * sizes["tiles"], chunk)
