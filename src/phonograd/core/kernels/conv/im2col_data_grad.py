"""The data gradient by im2col: weights times gradients are columns, which are added up to the data (col2im).

Takes loops over boxes from :mod:`~phonograd.core.kernels.conv.im2col`, and the sums of columns from
:mod:`~phonograd.core.kernels.conv.adjoint`; :mod:`~phonograd.core.kernels.conv.plan` launches it.
"""

from __future__ import annotations

import dataclasses

from ...lower.ir.function_builder import Index
from ..launch import Words
from ..routine import module
from ..scratch import SLOT_WORDS, in_slot
from .adjoint import ADJOINT_WORDS, KnownTaps, collect
from .im2col import BOX_WORDS, JOINED_WORDS, Box, Im2colKernel, Im2colWriter

__all__ = ["BACKWARD", "Im2colDataGrad"]

BACKWARD = Words(
    *(*BOX_WORDS, *JOINED_WORDS, "blocks", "tiles", "depth", *ADJOINT_WORDS, *SLOT_WORDS),
    *("out_grad*", "packed*", "out*"),
)


@dataclasses.dataclass(frozen=True)
class Im2colDataGrad(Im2colKernel):
    """The kernel of the data gradient; an item of its range is a block of channels of one group of an image.

    Weights times gradients are columns, which are then added up to the data (col2im). ``rows`` elements of columns are
    a tile. If images are ``joined``, an item is a block of channels of some small images.
    """

    rows: int
    known: KnownTaps
    joined: bool = False

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        walk = Im2colWriter(name, self, BACKWARD)
        e = walk.e
        out_grad, packed, out = [BACKWARD.pointer(e, operand) for operand in ("out_grad", "packed", "out")]
        walk.number.update({word: BACKWARD.index(e, word) for word in ("blocks", "tiles", "depth")})
        several_boxes = e.test("ne", BACKWARD.index(e, "adding"), "0")

        def place(block: Index) -> tuple[Index, Index]:
            """Return the first channel of a block, and the number of its channels."""
            first = e.times(block, walk["block"])
            return first, e.least(walk["block"], e.minus(walk["channels"], first))

        def weight_of(group: Index, block: Index) -> str:
            tiles = e.times(walk["tiles"], e.times(walk["filters"], str(self.rows)))
            return e.at(packed, e.times(e.plus(e.times(group, walk["blocks"]), block), tiles))

        def source_of(image: Index) -> str:
            return e.at(out_grad, e.times(image, e.times(walk["filters"], walk["windows"])))

        def target_of(image: Index, first: Index) -> str:
            return e.at(out, e.times(e.plus(e.times(image, walk["channels"]), first), walk["pixels"]))

        def several(index: Index, slot: str) -> None:
            rest, block = e.split(index, walk["blocks"])
            images, group = e.split(rest, walk["groups"])
            start, count = walk.some_images(images)
            gradients, line = e.at(slot, walk["joined_at"]), walk["columns_line"]

            def copy(number: Index) -> None:
                source = source_of(walk.image(e.plus(start, number), group))
                into = e.at(gradients, e.times(number, walk["windows"]))

                def filter_(at: Index) -> None:
                    walk.copy_line(e.at(into, e.times(at, line)), e.at(source, e.times(at, walk["windows"])))

                e.for_each("0", walk["filters"], filter_)

            e.for_each("0", count, copy)
            first, channels = place(block)
            columns = e.at(slot, walk["columns_at"])
            total = e.times(count, walk["windows"])
            elements = e.times(channels, walk["taps"])
            self._multiply(walk, (gradients, line), (columns, line), weight_of(group, block), total, elements)

            def collect(number: Index) -> None:
                target = target_of(walk.image(e.plus(start, number), group), first)
                lines = e.at(columns, e.times(number, walk["windows"]))
                self._collect(walk, walk.box(("0", "0", "0")), slot, (lines, line), target, channels)

            e.for_each("0", count, collect)

        def item(index: Index, slot: str) -> None:
            image, block = e.split(index, walk["blocks"])
            first, channels = place(block)
            source, target = source_of(image), target_of(image, first)
            _, group = e.split(image, walk["groups"])
            weight = weight_of(group, block)
            e.when(several_boxes, lambda: e.clear_exactly(target, e.times(channels, walk["pixels"])))
            walk.for_each_box(lambda box: self._box(walk, box, slot, source, weight, target, channels))

        body = several if self.joined else item
        in_slot(e, BACKWARD, lambda slot: e.for_each("%lo", "%hi", lambda index: body(index, slot)))
        routines = walk.routines("product", "narrow", rows=self.rows)
        return module(*routines, collect(f"{name}_collect", self.lanes, self.dtype, BACKWARD, self.known), e)

    def _box(
        self, walk: Im2colWriter, box: Box, slot: str, source: str, weight: str, target: str, channels: Index
    ) -> None:
        """Write the code for one box: its columns, summed over blocks of filters, and their sums in the data."""
        e = walk.e
        columns, line = e.at(slot, walk["columns_at"]), walk["columns_line"]
        elements = e.times(channels, walk["taps"])
        gradients = e.at(source, box.start), walk["windows"]
        self._multiply(walk, gradients, (columns, line), weight, box.columns, elements)
        self._collect(walk, box, slot, (columns, line), target, channels)

    def _multiply(
        self,
        walk: Im2colWriter,
        source: tuple[str, Index],
        target: tuple[str, Index],
        weight: str,
        count: Index,
        elements: Index,
    ) -> None:
        """Write the products of weights and gradients, summed over blocks of filters; matrices have lines."""
        e = walk.e
        columns, line = target
        tile_size = e.times(walk["filters"], str(self.rows))

        def block(first: Index) -> None:
            depth = e.least(walk["depth"], e.minus(walk["filters"], first))
            adding = e.assign(f"zext i1 {e.test('sgt', first, '0')} to i64")
            gradients = e.at(source[0], e.times(first, source[1]))
            numbers = e.at(weight, e.times(first, str(self.rows)))

            # tile after tile, so that the result is stored along its lines
            def tile(number: Index) -> None:
                row = e.times(number, str(self.rows))

                def panel(column: Index, some: Index | None) -> None:
                    walk.product(
                        some,
                        *(f"i64 {depth}", f"ptr {e.at(numbers, e.times(number, tile_size))}"),
                        f"i64 {self.rows}",
                        *(f"ptr {e.at(gradients, column)}", f"i64 {source[1]}"),
                        *(f"ptr {e.at(columns, e.times(row, line), column)}", f"i64 {line}"),
                        *(f"i64 {e.minus(elements, row)}", f"i64 {adding}"),
                    )

                walk.panels(count, panel)

            e.for_each("0", walk["tiles"], tile)

        e.for_each("0", walk["filters"], block, walk["depth"])

    def _collect(
        self, walk: Im2colWriter, box: Box, slot: str, matrix: tuple[str, Index], target: str, channels: Index
    ) -> None:
        """Write the calls that add the columns of a box to the data of some channels."""
        e = walk.e
        columns, line = matrix
        where = [f"i64 {number}" for number in (*box.first, *box.sizes)]

        def collect(c: Index) -> None:
            lines = e.at(columns, e.times(e.times(c, walk["taps"]), line))
            pointers = e.at(target, e.times(c, walk["pixels"])), lines
            known = [f"ptr {pointer}" for pointer in pointers]
            e.invoke(f"{walk.name}_collect", "ptr %table", *known, f"i64 {line}", f"ptr {slot}", *where)

        e.for_each("0", channels, collect)
