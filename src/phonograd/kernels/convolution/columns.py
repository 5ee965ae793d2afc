"""Convolutions as products of matrices: weights times columns, where a column holds the elements of a window.

The matrix of columns is never made as a whole. A kernel makes as much of it as stays in the cache, for a box of windows
and a block of channels, multiplies, and goes on. Everything that decides the order of sums (boxes, blocks, tiles)
follows from the shapes, so the result is the same however the range is divided among threads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ...dtypes import DType
from ..function import Index
from ..launch import Words
from ..routine import Routine, module
from ..slots import SLOT_WORDS, in_slot
from .adjoint import ADJOINT_WORDS, collect
from .frames import FRAME_WORDS, fill, gather_lines
from .microkernels import WIDTH, product

__all__ = ["BACKWARD", "BOX_WORDS", "FORWARD", "Backward", "Box", "Columns", "Forward", "Walk"]

BOX_WORDS = (
    *("groups", "channels", "filters", "taps", "pixels", "windows"),
    *("count_z", "count_y", "count_x", "box_z", "box_y", "box_x", "grid_z", "grid_y", "grid_x"),
    *("block", "columns_at", "columns_line"),
)

FORWARD = Words(*BOX_WORDS, "tiles", "parts", *FRAME_WORDS, *SLOT_WORDS, "data*", "packed*", "out*")
BACKWARD = Words(*BOX_WORDS, "blocks", "tiles", "depth", *ADJOINT_WORDS, *SLOT_WORDS, "out_grad*", "packed*", "out*")


@dataclasses.dataclass(frozen=True)
class Columns:
    """What the three kernels have in common: ``plain`` and ``pointwise`` are those of the geometry."""

    dtype: DType
    lanes: int
    plain: bool
    pointwise: bool
    x_stride: int
    """The stride along x where it is known, else 0."""


class Walk:
    """A kernel while it is written: its table, and the box that it is at."""

    def __init__(self, name: str, kernel: Columns, words: Words) -> None:
        self.name = name
        self.kernel = kernel
        self.words = words
        self.e = e = Routine(name, kernel.lanes, kernel.dtype)
        known = BOX_WORDS if words is BACKWARD else (*BOX_WORDS, "plane", "line", "channel")
        self.number = {word: words.index(e, word) for word in known}
        self.taps = words.tail(e)

    def __getitem__(self, word: str) -> Index:
        return self.number[word]

    # -- boxes

    def box(self, place: tuple[Index, Index, Index]) -> Box:
        """Return the box at a place of the grid."""
        e = self.e
        first = [e.times(at, self[f"box_{axis}"]) for axis, at in zip("zyx", place)]
        sizes = [
            e.least(self[f"box_{axis}"], e.minus(self[f"count_{axis}"], start)) for axis, start in zip("zyx", first)
        ]
        return Box(self, first, sizes)

    def each_box(self, body: Callable[[Box], None]) -> None:
        """Write the loop over all boxes of an image."""
        e = self.e

        def plane(z: Index) -> None:
            def line(y: Index) -> None:
                e.each("0", self["grid_x"], lambda x: body(self.box((z, y, x))))

            e.each("0", self["grid_y"], line)

        e.each("0", self["grid_z"], plane)

    def panels(self, columns: Index, body: Callable[[Index, Index | None], None]) -> None:
        """Write a loop over columns: ``body(first, None)`` for as many as a product has, or ``body(first, count)``."""
        e, width = self.e, str(WIDTH * self.kernel.lanes)
        whole = e.times(e.quotient(columns, width), width)
        e.each("0", whole, lambda first: body(first, None), width)
        lanes = str(self.kernel.lanes)
        e.each(whole, columns, lambda first: body(first, e.least(lanes, e.minus(columns, first))), lanes)

    def product(self, count: Index | None, *arguments: str) -> None:
        """Write the call of the micro-kernel for whole panels, or for ``count`` columns."""
        if count is None:
            self.e.invoke(f"{self.name}_product", *arguments)
        else:
            self.e.invoke(f"{self.name}_narrow", *arguments, f"i64 {count}")

    # -- windows of a box

    def fill_frame(self, frame: str, image: str, channels: Index, box: Box) -> None:
        """Write the frames of some channels."""
        e = self.e
        where = [f"i64 {number}" for number in (*box.first, *box.sizes)]

        def channel(c: Index) -> None:
            target, source = e.at(frame, e.times(c, self["channel"])), e.at(image, e.times(c, self["pixels"]))
            e.invoke(f"{self.name}_fill", "ptr %table", f"ptr {target}", f"ptr {source}", *where)

        e.each("0", channels, channel)

    def gather(self, columns: str, seen: str, channels: Index, box: Box) -> None:
        """Write the calls that gather lines, for all taps of some channels."""
        e = self.e
        sizes = [f"i64 {number}" for number in (*box.sizes, self["plane"], self["line"])]

        def channel(c: Index) -> None:
            first = e.times(e.times(c, self["taps"]), self["columns_line"])

            def tap(t: Index) -> None:
                lines = e.at(columns, first, e.times(t, self["columns_line"]))
                place = e.at(seen, e.times(c, self["channel"]), e.load_word(self.taps, t))
                e.invoke(f"{self.name}_gather", f"ptr {lines}", f"ptr {place}", *sizes)

            e.each("0", self["taps"], tap)

        e.each("0", channels, channel)

    def routines(self, *names: str, rows: int = 0) -> list[Routine]:
        """Return the routines that a kernel calls."""
        kernel, made = self.kernel, []
        basic = kernel.lanes, kernel.dtype
        for name in names:
            full = f"{self.name}_{name}"
            if name in ("product", "narrow"):
                made.append(product(full, *basic, rows, name == "narrow"))
            elif name == "gather":
                made.append(gather_lines(full, *basic))
            else:
                made.append(fill(full, *basic, self.words, kernel.x_stride))
        return made


class Box:
    """A box of windows: where it begins, its sizes, and how many windows it has."""

    def __init__(self, walk: Walk, first: list[Index], sizes: list[Index]) -> None:
        e = walk.e
        self.first, self.sizes = first, sizes
        z, y, x = first
        self.columns = e.times(e.times(sizes[0], sizes[1]), sizes[2])
        #: the number of the first window
        self.start = e.plus(e.times(e.plus(e.times(z, walk["count_y"]), y), walk["count_x"]), x)
        self._walk = walk

    @property
    def seen(self) -> Index:
        """Where the first window begins in data that is its own frame."""
        walk, (z, y, x) = self._walk, self.first
        return walk.e.total(walk.e.times(z, walk["plane"]), walk.e.times(y, walk["line"]), x)


@dataclasses.dataclass(frozen=True)
class Forward(Columns):
    """The kernel of a convolution; an item of its range is a box of one group of an image, and a part of the filters.

    ``rows`` filters are a tile.
    """

    rows: int

    def write(self, name: str) -> str:
        """Return the text of the module."""
        walk = Walk(name, self, FORWARD)
        e = walk.e
        data, packed, out = [FORWARD.pointer(e, operand) for operand in ("data", "packed", "out")]
        tiles, parts = FORWARD.index(e, "tiles"), FORWARD.index(e, "parts")
        part_tiles = e.quotient(e.plus(tiles, e.minus(parts, "1")), parts)

        def item(index: Index, slot: str) -> None:
            rest, part = e.split(index, parts)
            rest, x = e.split(rest, walk["grid_x"])
            rest, y = e.split(rest, walk["grid_y"])
            image, z = e.split(rest, walk["grid_z"])
            box = walk.box((z, y, x))
            source = e.at(data, e.times(image, e.times(walk["channels"], walk["pixels"])))
            first_tile = e.times(part, part_tiles)
            some = first_tile, e.least(tiles, e.plus(first_tile, part_tiles))
            target = e.at(out, e.times(image, e.times(walk["filters"], walk["windows"])), box.start)
            _, group = e.split(image, walk["groups"])
            weight = e.at(packed, e.times(group, e.times(tiles, self._depth(walk))))
            self._blocks(walk, box, slot, source, weight, target, some)

        in_slot(e, FORWARD, lambda slot: e.each("%lo", "%hi", lambda index: item(index, slot)))
        called = ["product", "narrow"]
        called += [] if self.plain else ["fill"]
        called += [] if self.pointwise else ["gather"]
        return module(*walk.routines(*called, rows=self.rows), e)

    def _depth(self, walk: Walk) -> Index:
        """Return how many numbers a tile of packed weights has."""
        return walk.e.times(walk.e.times(walk["channels"], walk["taps"]), str(self.rows))

    def _blocks(
        self, walk: Walk, box: Box, slot: str, image: str, weight: str, target: str, tiles: tuple[Index, Index]
    ) -> None:
        """Write the loop over blocks of channels: their columns, and the product with the filters of some tiles."""
        e = walk.e
        if self.plain:
            seen = e.at(image, box.seen)
        else:
            seen = slot
            walk.fill_frame(slot, image, walk["channels"], box)
        columns = e.at(slot, walk["columns_at"])

        def block(first: Index) -> None:
            channels = e.least(walk["block"], e.minus(walk["channels"], first))
            here = e.at(seen, e.times(first, walk["channel"]))
            if self.pointwise:
                matrix, line = here, walk["channel"]
            else:
                walk.gather(columns, here, channels, box)
                matrix, line = columns, walk["columns_line"]
            adding = e.assign(f"zext i1 {e.test('sgt', first, '0')} to i64")
            depth = e.times(channels, walk["taps"])
            numbers = e.at(weight, e.times(e.times(first, walk["taps"]), str(self.rows)))

            def panel(column: Index, count: Index | None) -> None:
                def tile(number: Index) -> None:
                    row = e.times(number, str(self.rows))
                    walk.product(
                        count,
                        *(f"i64 {depth}", f"ptr {e.at(numbers, e.times(number, self._depth(walk)))}"),
                        f"i64 {self.rows}",
                        *(f"ptr {e.at(matrix, column)}", f"i64 {line}"),
                        *(f"ptr {e.at(target, e.times(row, walk['windows']), column)}", f"i64 {walk['windows']}"),
                        *(f"i64 {e.minus(walk['filters'], row)}", f"i64 {adding}"),
                    )

                e.each(*tiles, tile)

            walk.panels(box.columns, panel)

        e.each("0", walk["channels"], block, walk["block"])


@dataclasses.dataclass(frozen=True)
class Backward(Columns):
    """The kernel of the adjoint in the data; an item of its range is a block of channels of one group of an image.

    Weights times gradients are columns, of which the data is then collected. ``rows`` elements of columns are a tile.
    """

    rows: int
    x_taps: int
    """The width of the kernel along x where it is known, else 0."""

    def write(self, name: str) -> str:
        """Return the text of the module."""
        walk = Walk(name, self, BACKWARD)
        e = walk.e
        out_grad, packed, out = [BACKWARD.pointer(e, operand) for operand in ("out_grad", "packed", "out")]
        walk.number.update({word: BACKWARD.index(e, word) for word in ("blocks", "tiles", "depth")})
        several = e.test("ne", BACKWARD.index(e, "adding"), "0")

        def item(index: Index, slot: str) -> None:
            image, block = e.split(index, walk["blocks"])
            first = e.times(block, walk["block"])
            channels = e.least(walk["block"], e.minus(walk["channels"], first))
            source = e.at(out_grad, e.times(image, e.times(walk["filters"], walk["windows"])))
            target = e.at(out, e.times(e.plus(e.times(image, walk["channels"]), first), walk["pixels"]))
            _, group = e.split(image, walk["groups"])
            tiles = e.times(walk["tiles"], e.times(walk["filters"], str(self.rows)))
            weight = e.at(packed, e.times(e.plus(e.times(group, walk["blocks"]), block), tiles))
            if not self.pointwise:
                e.when(several, lambda: e.clear_exactly(target, e.times(channels, walk["pixels"])))
            walk.each_box(lambda box: self._box(walk, box, slot, source, weight, target, channels))

        in_slot(e, BACKWARD, lambda slot: e.each("%lo", "%hi", lambda index: item(index, slot)))
        routines = walk.routines("product", "narrow", rows=self.rows)
        if not self.pointwise:
            known = self.x_stride, self.x_taps
            routines.append(collect(f"{name}_collect", self.lanes, self.dtype, BACKWARD, *known))
        return module(*routines, e)

    def _box(self, walk: Walk, box: Box, slot: str, source: str, weight: str, target: str, channels: Index) -> None:
        """Write what is done for one box: its columns, summed over blocks of filters, and their way to the data."""
        e = walk.e
        if self.pointwise:
            columns, line = e.at(target, box.start), walk["pixels"]
        else:
            columns, line = e.at(slot, walk["columns_at"]), walk["columns_line"]
        elements = e.times(channels, walk["taps"])
        tile_size = e.times(walk["filters"], str(self.rows))

        def block(first: Index) -> None:
            depth = e.least(walk["depth"], e.minus(walk["filters"], first))
            adding = e.assign(f"zext i1 {e.test('sgt', first, '0')} to i64")
            gradients = e.at(source, e.times(first, walk["windows"]), box.start)
            numbers = e.at(weight, e.times(first, str(self.rows)))

            def panel(column: Index, count: Index | None) -> None:
                def tile(number: Index) -> None:
                    row = e.times(number, str(self.rows))
                    walk.product(
                        count,
                        *(f"i64 {depth}", f"ptr {e.at(numbers, e.times(number, tile_size))}"),
                        f"i64 {self.rows}",
                        *(f"ptr {e.at(gradients, column)}", f"i64 {walk['windows']}"),
                        *(f"ptr {e.at(columns, e.times(row, line), column)}", f"i64 {line}"),
                        *(f"i64 {e.minus(elements, row)}", f"i64 {adding}"),
                    )

                e.each("0", walk["tiles"], tile)

            walk.panels(box.columns, panel)

        e.each("0", walk["filters"], block, walk["depth"])
        if self.pointwise:
            return
        where = [f"i64 {number}" for number in (*box.first, *box.sizes)]

        def collect(c: Index) -> None:
            lines = e.at(columns, e.times(e.times(c, walk["taps"]), line))
            pointers = e.at(target, e.times(c, walk["pixels"])), lines
            known = [f"ptr {pointer}" for pointer in pointers]
            e.invoke(f"{walk.name}_collect", "ptr %table", *known, f"i64 {line}", f"ptr {slot}", *where)

        e.each("0", channels, collect)
