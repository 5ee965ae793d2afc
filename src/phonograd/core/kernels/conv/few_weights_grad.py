"""im2col gradient of few weights: dot products of columns and gradients, summed over windows and images.

Operands are not transposed, which would take as long as the products of few weights.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index
from ..launch import Words
from ..routine import Routine, module
from ..scratch import SLOT_WORDS
from .im2col import BOX_WORDS, Box, Im2colWriter
from .microkernels import DotTile, dots
from .padding import FRAME_WORDS
from .weight_grad_walk import WALK_WORDS, WeightGradKernel

__all__ = ["COMBINE_DOTS", "DOTS", "CombineDots", "FewWeightsGrad"]

_DOT_WORDS = (*WALK_WORDS, "block_tiles", "filter_tiles", "group_tiles")
DOTS = Words(
    *BOX_WORDS,
    *_DOT_WORDS,
    *FRAME_WORDS,
    *SLOT_WORDS,
    *("data*", "out_grad*", "sums*"),
)
COMBINE_DOTS = Words(
    *("groups", "channels", "filters", "taps", "block", "block_tiles", "filter_tiles", "group_tiles", "parts"),
    *("sums*", "out*"),
)


@dataclasses.dataclass(frozen=True)
class FewWeightsGrad(WeightGradKernel):
    """The kernel of the weight gradient; its sums are in tiles, and :class:`CombineDots` adds them up."""

    words: ClassVar[Words] = DOTS

    tile: DotTile

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        walk = Im2colWriter(name, self, DOTS)
        e = walk.e
        walk.number.update({word: DOTS.index(e, word) for word in _DOT_WORDS})
        self.write_walk(walk)
        called = [] if self.plain else ["fill"]
        called += ["gather"] if self.several or not self.pointwise else []
        return module(*walk.routines(*called), dots(f"{name}_dots", self.lanes, self.dtype, self.tile), e)

    def _stored(self, walk: Im2colWriter) -> Index:
        """Return the number of elements in the sums of a tile of columns."""
        return walk.e.times(walk["filter_tiles"], str(self.tile.padded_size(self.lanes)))

    def block_sums(self, walk: Im2colWriter) -> Index:
        """Return the number of elements in the sums of a block of channels."""
        return walk.e.times(walk["block_tiles"], self._stored(walk))

    def group_sums(self, walk: Im2colWriter) -> Index:
        """Return the number of elements in the sums of a group."""
        return walk.e.times(walk["group_tiles"], self._stored(walk))

    def gradients(
        self, walk: Im2colWriter, box: Box, slot: str, out_grad: str, images: tuple[Index, Index]
    ) -> tuple[str, Index]:
        """Return the lines of gradients and their distance; those of several images are joined first."""
        if self.several:
            return self.join(walk, box, slot, out_grad, images)
        return self.source(walk, box, out_grad, images[0]), walk["windows"]

    def multiply(
        self,
        walk: Im2colWriter,
        slot: str,
        steps: Index,
        gradients: tuple[str, Index],
        columns: tuple[str, Index],
        elements: Index,
        sums: str,
    ) -> None:
        """Write the dot products of all lines of gradients with the ``elements`` lines of columns."""
        e, tile = walk.e, self.tile

        def column_tile(column: Index) -> None:
            number = e.quotient(column, str(tile.columns))

            def row_tile(row: Index) -> None:
                place = e.plus(e.times(number, walk["filter_tiles"]), e.quotient(row, str(tile.rows)))
                e.invoke(
                    f"{walk.name}_dots",
                    *(f"i64 {steps}", f"ptr {e.at(gradients[0], e.times(row, gradients[1]))}", f"i64 {gradients[1]}"),
                    *(f"i64 {e.minus(walk['filters'], row)}",),
                    *(f"ptr {e.at(columns[0], e.times(column, columns[1]))}", f"i64 {columns[1]}"),
                    *(f"i64 {e.minus(elements, column)}",),
                    f"ptr {e.at(sums, e.times(place, str(tile.padded_size(self.lanes))))}",
                )

            e.for_each("0", walk["filters"], row_tile, str(tile.rows))

        e.for_each("0", elements, column_tile, str(tile.columns))


@dataclasses.dataclass(frozen=True)
class CombineDots:
    """The kernel that adds up the sums of all blocks of images and stores them in the order of the weights.

    An item of its range is a tile of columns.
    """

    dtype: DType
    lanes: int
    tile: DotTile

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, self.dtype)
        number = {
            word: COMBINE_DOTS.index(e, word)
            for word in (
                *("groups", "channels", "filters", "taps", "block"),
                *("block_tiles", "filter_tiles", "group_tiles", "parts"),
            )
        }
        sums, out = COMBINE_DOTS.pointer(e, "sums"), COMBINE_DOTS.pointer(e, "out")
        stored = self.tile.padded_size(self.lanes)
        size = e.times(number["filter_tiles"], str(stored))
        part_size = e.times(e.times(number["groups"], number["group_tiles"]), size)

        def item(index: Index) -> None:
            group, tile = e.split(index, number["group_tiles"])
            block, within = e.split(tile, number["block_tiles"])
            place = e.at(sums, e.times(index, size))

            def vector(at: Index) -> None:
                total = e.loop(
                    "1",
                    number["parts"],
                    "1",
                    [e.get(place, at)],
                    lambda part, found: [e.add(found[0], e.get(place, e.plus(at, e.times(part, part_size))))],
                )
                e.store(place, at, total[0])

            e.for_each("0", size, vector, str(self.lanes))
            first = e.times(block, number["block"])
            existing = e.times(e.least(number["block"], e.minus(number["channels"], first)), number["taps"])
            column = e.times(within, str(self.tile.columns))
            width = e.times(number["channels"], number["taps"])
            target = e.at(
                out,
                *(e.times(e.times(group, number["filters"]), width), e.times(first, number["taps"]), column),
            )
            columns = e.least(str(self.tile.columns), e.minus(existing, column))
            starts = [str(start) for start in range(0, self.tile.columns, self.lanes)]
            masks = [(start, e.below(e.minus(columns, start))) for start in starts]

            def row(filter_: Index) -> None:
                tile_number, line = e.split(filter_, str(self.tile.rows))
                source = e.at(place, e.times(tile_number, str(stored)), e.times(line, str(self.tile.columns)))
                into = e.at(target, e.times(filter_, width))
                for at, mask in masks:
                    e.store_where(into, at, e.get_where(source, mask, at), mask)

            e.for_each("0", number["filters"], row)

        e.for_each("%lo", "%hi", item)
        return module(e)
