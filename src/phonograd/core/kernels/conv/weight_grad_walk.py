"""The walk of both im2col weight gradients: blocks of images, boxes of windows, and blocks of channels.

Windows are the direction of the sum: the lines of gradients and columns run along them. A subclass stores the sums of a
block of channels and multiplies lines (:mod:`.few_weights_grad`, :mod:`.im2col_weight_grad`).
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ...lower.ir.function_builder import Index
from ..launch import Words
from ..scratch import in_slot
from .im2col import Box, Im2colKernel, Im2colWriter

__all__ = ["WALK_WORDS", "WeightGradKernel"]

#: table words of the walk
WALK_WORDS = ("batch", "part_units", "images", "block_part", "parts", "gradients_at")


@dataclasses.dataclass(frozen=True)
class WeightGradKernel(Im2colKernel):
    """The base of kernels whose items are some units of images, a group, and a part of the channels.

    A unit is a box of an image, or ``several`` small images whose lines are joined. The units of every item have sums
    of their own.
    """

    words: ClassVar[Words]

    pointwise: bool
    """That of the geometry: data is read in place."""
    several: bool

    def block_sums(self, walk: Im2colWriter) -> Index:
        """Return the number of elements in the sums of a block of channels."""
        raise NotImplementedError

    def group_sums(self, walk: Im2colWriter) -> Index:
        """Return the number of elements in the sums of a group."""
        raise NotImplementedError

    def gradients(
        self, walk: Im2colWriter, box: Box, slot: str, out_grad: str, images: tuple[Index, Index]
    ) -> tuple[str, Index]:
        """Return the lines of gradients of some images and their distance."""
        return self.join(walk, box, slot, out_grad, images)

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
        """Write the products of all lines of gradients with the ``elements`` lines of columns."""
        raise NotImplementedError

    def write_walk(self, walk: Im2colWriter) -> None:
        """Write the loop over items."""
        e, words = walk.e, self.words
        operands = [words.pointer(e, operand) for operand in ("data", "out_grad", "sums")]
        block_sums, group_sums = self.block_sums(walk), self.group_sums(walk)

        grid = e.times(e.times(walk["grid_z"], walk["grid_y"]), walk["grid_x"])
        steps = e.quotient(e.plus(walk["batch"], e.minus(walk["images"], "1")), walk["images"])
        units = e.times(steps, grid)

        def item(index: Index, slot: str) -> None:
            rest, part = e.split(index, walk["parts"])
            number, group = e.split(rest, walk["groups"])
            first = e.times(number, walk["part_units"])
            stop = e.least(units, e.plus(first, walk["part_units"]))
            # the channels of this part, block by block
            start = e.times(part, walk["block_part"])
            end = e.least(walk["channels"], e.plus(start, walk["block_part"]))
            done = e.times(e.quotient(start, walk["block"]), block_sums)
            sums = e.at(operands[2], e.plus(e.times(rest, group_sums), done))
            blocks = e.quotient(e.plus(e.minus(end, start), e.minus(walk["block"], "1")), walk["block"])
            e.clear(sums, e.times(blocks, block_sums))

            def unit(number: Index) -> None:
                step, box = e.split(number, grid)
                line, x = e.split(box, walk["grid_x"])
                z, y = e.split(line, walk["grid_y"])
                image = e.times(step, walk["images"])
                count = e.least(walk["images"], e.minus(walk["batch"], image))
                place = e.plus(e.times(image, walk["groups"]), group)
                self._box(walk, walk.box((z, y, x)), slot, operands, sums, (place, count), (start, end))

            e.for_each(first, stop, unit)

        in_slot(e, words, lambda slot: e.for_each("%lo", "%hi", lambda index: item(index, slot)))

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
        steps = e.times(count, box.columns)
        gradients = self.gradients(walk, box, slot, operands[1], images)

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
            done = e.quotient(e.minus(first, channels[0]), walk["block"])
            target = e.at(sums, e.times(done, self.block_sums(walk)))
            self.multiply(walk, slot, steps, gradients, lines, e.times(existing, walk["taps"]), target)

        e.for_each(*channels, block, walk["block"])

    def source(self, walk: Im2colWriter, box: Box, out_grad: str, place: Index) -> str:
        """Return the address of the gradients of a box of an image."""
        e = walk.e
        return e.at(out_grad, e.times(place, e.times(walk["filters"], walk["windows"])), box.start)

    def join(
        self, walk: Im2colWriter, box: Box, slot: str, out_grad: str, images: tuple[Index, Index]
    ) -> tuple[str, Index]:
        """Return copied lines of gradients and their distance: in place, they may compete for the same cache sets."""
        e = walk.e
        place, count = images
        source = self.source(walk, box, out_grad, place)
        lines = e.at(slot, walk["gradients_at"])
        image_line = e.times(walk["groups"], e.times(walk["filters"], walk["windows"]))

        def line(number: Index) -> None:
            e.invoke(
                f"{walk.name}_gather",
                f"ptr {e.at(lines, e.times(number, walk['columns_line']))}",
                f"ptr {e.at(source, e.times(number, walk['windows']))}",
                *("i64 1", f"i64 {count}", f"i64 {box.columns}", "i64 0", f"i64 {image_line}"),
            )

        e.for_each("0", walk["filters"], line)
        return lines, walk["columns_line"]
