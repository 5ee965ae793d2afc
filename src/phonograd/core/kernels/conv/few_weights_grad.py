"""im2col gradient of few weights: dot products of columns and gradients, summed over windows and images.

Operands are not transposed, which would take as long as the products of few weights.
"""

from __future__ import annotations

import dataclasses

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index
from ..launch import Words
from ..routine import Routine, module
from ..scratch import SLOT_WORDS, in_slot
from .im2col import BOX_WORDS, Box, Im2colKernel, Im2colWriter
from .microkernels import DotTile, dots
from .padding import FRAME_WORDS

__all__ = ["COMBINE_DOTS", "DOTS", "CombineDots", "FewWeightsGrad"]

_DOT_WORDS = (
    *("batch", "image_block", "images", "block_part", "parts"),
    *("block_tiles", "filter_tiles", "group_tiles", "gradients_at"),
)
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
class FewWeightsGrad(Im2colKernel):
    """The kernel of the weight gradient; an item is a block of images, a group, and a part of the channels.

    The lines of gradients and columns run along the windows, which are summed over. The lines of ``several`` small
    images are joined. Every block of images has sums of its own, in tiles; :class:`CombineDots` adds them up.
    """

    pointwise: bool
    """That of the geometry: data is read in place."""
    several: bool
    tile: DotTile

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        walk = Im2colWriter(name, self, DOTS)
        e = walk.e
        walk.number.update({word: DOTS.index(e, word) for word in _DOT_WORDS})
        operands = [DOTS.pointer(e, operand) for operand in ("data", "out_grad", "sums")]
        stored = e.times(walk["filter_tiles"], str(self.tile.padded_size(self.lanes)))

        def item(index: Index, slot: str) -> None:
            rest, part = e.split(index, walk["parts"])
            images, group = e.split(rest, walk["groups"])
            first = e.times(images, walk["image_block"])
            stop = e.least(walk["batch"], e.plus(first, walk["image_block"]))
            # the channels of this part, block by block
            start = e.times(part, walk["block_part"])
            end = e.least(walk["channels"], e.plus(start, walk["block_part"]))
            done = e.times(e.quotient(start, walk["block"]), walk["block_tiles"])
            sums = e.at(operands[2], e.times(e.plus(e.times(rest, walk["group_tiles"]), done), stored))
            blocks = e.quotient(e.plus(e.minus(end, start), e.minus(walk["block"], "1")), walk["block"])
            e.clear(sums, e.times(e.times(blocks, walk["block_tiles"]), stored))

            def some(image: Index) -> None:
                count = e.least(walk["images"], e.minus(stop, image))
                place = e.plus(e.times(image, walk["groups"]), group)
                walk.for_each_box(lambda box: self._box(walk, box, slot, operands, sums, (place, count), (start, end)))

            e.for_each(first, stop, some, walk["images"])

        in_slot(e, DOTS, lambda slot: e.for_each("%lo", "%hi", lambda index: item(index, slot)))
        called = [] if self.plain else ["fill"]
        called += ["gather"] if self.several or not self.pointwise else []
        return module(*walk.routines(*called), dots(f"{name}_dots", self.lanes, self.dtype, self.tile), e)

    def _box(
        self,
        walk: Im2colWriter,
        box: Box,
        slot: str,
        operands: list[str],
        sums: str,
        images: tuple[Index, Index],
        channels: tuple[Index, Index],
    ) -> None:
        """Write the code for one box of some images: the columns of each block of channels, and their sums."""
        e = walk.e
        place, count = images
        columns = e.at(slot, walk["columns_at"])
        gradients = self._gradients(walk, box, slot, operands[1], images)

        def block(first: Index) -> None:
            existing = e.least(walk["block"], e.minus(channels[1], first))

            def gather(number: Index) -> None:
                source = data(e.plus(place, e.times(number, walk["groups"])))
                if self.plain:
                    seen = e.at(source, box.offset)
                else:
                    seen = slot
                    walk.fill_frame(slot, source, existing, box)
                walk.gather(e.at(columns, e.times(number, box.columns)), seen, existing, box)

            def data(image: Index) -> str:
                return e.at(operands[0], e.times(e.plus(e.times(image, walk["channels"]), first), walk["pixels"]))

            if self.pointwise and not self.several:
                lines = e.at(data(place), box.start), walk["pixels"]
            else:
                lines = columns, walk["columns_line"]
                e.for_each("0", count, gather)
            done = e.times(e.quotient(e.minus(first, channels[0]), walk["block"]), walk["block_tiles"])
            target = e.at(sums, e.times(done, e.times(walk["filter_tiles"], str(self.tile.padded_size(self.lanes)))))
            elements = e.times(existing, walk["taps"])
            self._tiles(walk, e.times(count, box.columns), gradients, lines, elements, target)

        e.for_each(*channels, block, walk["block"])

    def _gradients(
        self, walk: Im2colWriter, box: Box, slot: str, out_grad: str, images: tuple[Index, Index]
    ) -> tuple[str, Index]:
        """Return the lines of gradients and their distance; those of several images are joined first."""
        e = walk.e
        place, count = images
        source = e.at(out_grad, e.times(place, e.times(walk["filters"], walk["windows"])), box.start)
        if not self.several:
            return source, walk["windows"]
        lines = e.at(slot, walk["gradients_at"])
        image_line = e.times(walk["groups"], e.times(walk["filters"], walk["windows"]))

        def join(number: Index) -> None:
            e.invoke(
                f"{walk.name}_gather",
                f"ptr {e.at(lines, e.times(number, walk['columns_line']))}",
                f"ptr {e.at(source, e.times(number, walk['windows']))}",
                *("i64 1", f"i64 {count}", f"i64 {box.columns}", "i64 0", f"i64 {image_line}"),
            )

        e.for_each("0", walk["filters"], join)
        return lines, walk["columns_line"]

    def _tiles(
        self,
        walk: Im2colWriter,
        width: Index,
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
                    *(f"i64 {width}", f"ptr {e.at(gradients[0], e.times(row, gradients[1]))}", f"i64 {gradients[1]}"),
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
