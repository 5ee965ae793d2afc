"""im2col: convolutions as products of matrices, weights times columns; a column holds the elements of a window.

The kernels never store the whole matrix of columns. They make the part for a box of windows and a block of channels,
which stays in the cache, multiply it, and go on. The shapes determine boxes, blocks and tiles, and so the order of
sums. The result is the same however the range is divided among threads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import ClassVar

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..epilogue import COLUMN, Epilogue, Finish, entry
from ..launch import Words
from ..routine import Routine, module
from ..scratch import SLOT_WORDS, in_slot
from .microkernels import WIDTH, product
from .padding import FRAME_WORDS, fill, gather_lines, pack_panels

__all__ = ["BOX_WORDS", "FORWARD", "JOINED_WORDS", "Box", "Im2colForward", "Im2colKernel", "Im2colWriter"]

BOX_WORDS = (
    *("groups", "channels", "filters", "taps", "pixels", "windows"),
    *("count_z", "count_y", "count_x", "box_z", "box_y", "box_x", "grid_z", "grid_y", "grid_x"),
    *("block", "columns_at", "columns_line"),
)

#: size in bytes of panels of columns that are made before they are used: a part of an L2 cache, beside the weights
_PANEL_BYTES = 1 << 16

#: table words that describe joined images
JOINED_WORDS = ("batch", "images", "frame_size", "joined_at")

FORWARD = Words(*BOX_WORDS, *JOINED_WORDS, "tiles", "parts", *FRAME_WORDS, *SLOT_WORDS, "data*", "packed*", "out*")


@dataclasses.dataclass(frozen=True)
class Im2colKernel:
    """Base class of the three kernels; ``plain`` is that of the geometry."""

    dtype: DType
    lanes: int
    plain: bool
    x_stride: int
    """Stride along x if the kernel is specialized for it, else 0."""

    def multiply_add(self, e: Routine, first: Value, second: Value, total: Value) -> Value:
        """Return one step of a sum of products."""
        return e.fma(first, second, total)


class Im2colWriter:
    """Writes one kernel: its table, and its loops over boxes."""

    def __init__(self, name: str, kernel: Im2colKernel, words: Words) -> None:
        self.name = name
        self.kernel = kernel
        self.words = words
        self.e = e = Routine(name, kernel.lanes, kernel.dtype)
        known = (*BOX_WORDS, *[word for word in ("plane", "line", "channel") if word in words])
        self.number = {word: words.index(e, word) for word in known}
        if "joined_at" in words:
            self.number.update({word: words.index(e, word) for word in JOINED_WORDS})
        self.taps = words.tail(e)
        #: the address of the operands of an epilogue
        self.context = ""

    def __getitem__(self, word: str) -> Index:
        return self.number[word]

    # -- boxes

    def box(self, place: tuple[Index, Index, Index]) -> Box:
        """Return the box at a position in the grid."""
        e = self.e
        first = [e.times(at, self[f"box_{axis}"]) for axis, at in zip("zyx", place)]
        sizes = [
            e.least(self[f"box_{axis}"], e.minus(self[f"count_{axis}"], start)) for axis, start in zip("zyx", first)
        ]
        return Box(self, first, sizes)

    def for_each_box(self, body: Callable[[Box], None]) -> None:
        """Write the loop over all boxes of an image."""
        e = self.e

        def plane(z: Index) -> None:
            def line(y: Index) -> None:
                e.for_each("0", self["grid_x"], lambda x: body(self.box((z, y, x))))

            e.for_each("0", self["grid_y"], line)

        e.for_each("0", self["grid_z"], plane)

    def panels(self, columns: Index, body: Callable[[Index, Index | None], None]) -> None:
        """Write a loop over columns: ``body(first, None)`` for whole panels, then ``body(first, count)``."""
        e, width = self.e, str(WIDTH * self.kernel.lanes)
        whole = e.times(e.quotient(columns, width), width)
        e.for_each("0", whole, lambda first: body(first, None), width)
        lanes = str(self.kernel.lanes)
        e.for_each(whole, columns, lambda first: body(first, e.least(lanes, e.minus(columns, first))), lanes)

    def product(self, count: Index | None, *arguments: str) -> None:
        """Write the call of the micro-kernel for a whole panel, or for ``count`` columns."""
        if count is None:
            self.e.invoke(f"{self.name}_product", *arguments)
        else:
            self.e.invoke(f"{self.name}_narrow", *arguments, f"i64 {count}")

    # -- joined images

    def some_images(self, block: Index) -> tuple[Index, Index]:
        """Return the first image of a block, and the number of its images."""
        e = self.e
        first = e.times(block, self["images"])
        return first, e.least(self["images"], e.minus(self["batch"], first))

    def image(self, number: Index, group: Index) -> Index:
        """Return the index of a group of an image."""
        return self.e.plus(self.e.times(number, self["groups"]), group)

    def copy_line(self, target: str, source: str, finish: Finish | None = None, channel: Index = "0") -> None:
        """Copy the windows of one filter of one image, which belongs to a channel, with an epilogue."""
        e = self.e
        operands = {} if finish is None else finish.row(channel)

        def finished(value: Value, at: Index, mask: Value | None = None) -> Value:
            return value if finish is None else finish.value(operands, value, target, at, mask)

        last, mask = e.tail(self["windows"])
        e.for_each("0", last, lambda at: e.store(target, at, finished(e.get(source, at), at)), str(self.kernel.lanes))
        e.store_where(target, last, finished(e.get_where(source, mask, last), last, mask), mask)

    # -- windows of a box

    def fill_frame(self, frame: str, image: str, channels: Index, box: Box) -> None:
        """Write the calls that fill the frames of some channels."""
        e = self.e
        where = [f"i64 {number}" for number in (*box.first, *box.sizes)]

        def channel(c: Index) -> None:
            target, source = e.at(frame, e.times(c, self["channel"])), e.at(image, e.times(c, self["pixels"]))
            e.invoke(f"{self.name}_fill", "ptr %table", f"ptr {target}", f"ptr {source}", *where)

        e.for_each("0", channels, channel)

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

            e.for_each("0", self["taps"], tap)

        e.for_each("0", channels, channel)

    def routines(self, *names: str, rows: int = 0, epilogue: Epilogue | None = None) -> list[Routine]:
        """Return the routines that a kernel calls; its products apply the epilogue."""
        kernel, made = self.kernel, []
        basic = kernel.lanes, kernel.dtype
        for name in names:
            full = f"{self.name}_{name}"
            if name in ("product", "edge", "narrow"):
                vectors = 1 if name == "narrow" else WIDTH
                made.append(
                    product(full, *basic, rows, vectors, name != "product", kernel.multiply_add, epilogue=epilogue)
                )
            elif name == "pack":
                made.append(pack_panels(full, *basic, kernel.plain))
            elif name == "gather":
                made.append(gather_lines(full, *basic))
            else:
                made.append(fill(full, *basic, self.words, kernel.x_stride))
        return made


class Box:
    """A box of windows: its first window, its sizes, and its number of windows."""

    def __init__(self, walk: Im2colWriter, first: list[Index], sizes: list[Index]) -> None:
        e = walk.e
        self.first, self.sizes = first, sizes
        z, y, x = first
        self.columns = e.times(e.times(sizes[0], sizes[1]), sizes[2])
        #: the index of the first window
        self.start = e.plus(e.times(e.plus(e.times(z, walk["count_y"]), y), walk["count_x"]), x)
        self._walk = walk

    @property
    def offset(self) -> Index:
        """Offset of the first window in data that is its own frame."""
        walk, (z, y, x) = self._walk, self.first
        return walk.e.total(walk.e.times(z, walk["plane"]), walk.e.times(y, walk["line"]), x)


@dataclasses.dataclass(frozen=True)
class Im2colForward(Im2colKernel):
    """The kernel of a convolution; an item is a box of one group of an image, and a part of the filters.

    ``rows`` filters are a tile. If images are ``joined``, an item is a group of whole small images: their windows are
    contiguous in the lines of columns, and the result is copied to its place at the end.
    """

    words: ClassVar[Words] = FORWARD

    rows: int
    joined: bool = False
    epilogue: Epilogue | None = dataclasses.field(default=None, kw_only=True)

    def finished(self, epilogue: Epilogue) -> Im2colForward | None:
        """Return the kernel with an epilogue."""
        return None if self.epilogue or COLUMN in epilogue.loads else dataclasses.replace(self, epilogue=epilogue)

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        if self.epilogue is None:
            return module(*self._routines(name))
        body = f"{name}_body"
        return module(*self._routines(body), entry(name, self.epilogue, body))

    def _routines(self, name: str) -> list[Routine]:
        walk = Im2colWriter(name, self, self.words)
        e = walk.e
        if self.epilogue is not None:
            walk.context = self.epilogue.context(e)
        packed = self.words.pointer(e, "packed")
        tiles, parts = self.words.index(e, "tiles"), self.words.index(e, "parts")
        part_tiles = e.quotient(e.plus(tiles, e.minus(parts, "1")), parts)

        def some_tiles(part: Index) -> tuple[Index, Index]:
            first_tile = e.times(part, part_tiles)
            return first_tile, e.least(tiles, e.plus(first_tile, part_tiles))

        def weight_of(group: Index) -> str:
            return e.at(packed, e.times(group, e.times(tiles, self._depth(walk))))

        def several(index: Index, slot: str) -> None:
            rest, part = e.split(index, parts)
            block, group = e.split(rest, walk["groups"])
            self._several(walk, slot, walk.some_images(block), group, weight_of(group), some_tiles(part))

        def item(index: Index, slot: str) -> None:
            rest, part = e.split(index, parts)
            rest, x = e.split(rest, walk["grid_x"])
            rest, y = e.split(rest, walk["grid_y"])
            image, z = e.split(rest, walk["grid_z"])
            _, group = e.split(image, walk["groups"])
            self._one(walk, walk.box((z, y, x)), slot, (image, group), weight_of(group), some_tiles(part))

        body = several if self.joined else item
        self._begin(e)
        in_slot(e, self.words, lambda slot: e.for_each("%lo", "%hi", lambda index: body(index, slot)))
        self._end(e)
        return [*self._products(walk), *walk.routines(*self._called()), e]

    def _called(self) -> list[str]:
        """Return the kinds of the other routines."""
        return ["pack"] if self.plain else ["pack", "fill"]

    def _begin(self, e: Routine) -> None:
        """Write what the micro-kernels need before the first item."""

    def _end(self, e: Routine) -> None:
        """Write what must follow the last item."""

    def _products(self, walk: Im2colWriter) -> list[Routine]:
        """Return the micro-kernels."""
        epilogue = None if self.joined else self.epilogue
        return walk.routines("product", "edge", "narrow", rows=self.rows, epilogue=epilogue)

    def _multiply(
        self,
        walk: Im2colWriter,
        depth: Index,
        operands: tuple[str, str],
        result: tuple[str, Index],
        rows: Index,
        adding: Index,
        columns: Index,
        finishing: tuple[str, ...],
    ) -> None:
        """Write the call of a micro-kernel for a tile of weights and a panel of columns.

        ``result`` is the first element and the distance of its lines; ``rows`` and ``columns`` exist.
        ``finishing`` are the arguments of an epilogue.
        """
        e, width = walk.e, str(WIDTH * self.lanes)
        arguments = (
            *(f"i64 {depth}", f"ptr {operands[0]}", f"i64 {self.rows}"),
            *(f"ptr {operands[1]}", f"i64 {width}"),
            *(f"ptr {result[0]}", f"i64 {result[1]}"),
            *(f"i64 {rows}", f"i64 {adding}"),
        )
        masked = (*arguments, f"i64 {columns}", *finishing)
        e.when(
            e.test("eq", columns, width),
            lambda: e.invoke(f"{walk.name}_product", *arguments, *finishing),
            lambda: e.when(
                e.test("sgt", columns, str(self.lanes)),
                lambda: e.invoke(f"{walk.name}_edge", *masked),
                lambda: e.invoke(f"{walk.name}_narrow", *masked),
            ),
        )

    def _depth(self, walk: Im2colWriter) -> Index:
        """Return the number of elements in a tile of packed weights."""
        return walk.e.times(walk.e.times(walk["channels"], walk["taps"]), str(self.rows))

    def _one(
        self,
        walk: Im2colWriter,
        box: Box,
        slot: str,
        image: tuple[Index, Index],
        weight: str,
        tiles: tuple[Index, Index],
    ) -> None:
        """Write the code for one box of one image, given as the number of a group of an image, and the group."""
        e = walk.e
        first = e.times(image[0], e.times(walk["filters"], walk["windows"]))
        target = e.at(self.words.pointer(e, "out"), first, box.start)
        self._sums(walk, box, slot, image, weight, (target, walk["windows"]), tiles)

    def _sums(
        self,
        walk: Im2colWriter,
        box: Box,
        slot: str,
        image: tuple[Index, Index],
        weight: str,
        target: tuple[str, Index],
        tiles: tuple[Index, Index],
    ) -> None:
        """Write the sums of one box of one image to lines of a matrix."""
        e = walk.e
        source = e.at(self.words.pointer(e, "data"), e.times(image[0], e.times(walk["channels"], walk["pixels"])))

        def make(first: Index, channels: Index) -> str:
            if self.plain:
                return e.at(source, box.offset, e.times(first, walk["channel"]))
            walk.fill_frame(slot, e.at(source, e.times(first, walk["pixels"])), channels, box)
            return slot

        self._blocks(walk, slot, make, (box.columns, box), "0", weight, target, tiles, image[1])

    def _several(
        self,
        walk: Im2colWriter,
        slot: str,
        images: tuple[Index, Index],
        group: Index,
        weight: str,
        tiles: tuple[Index, Index],
    ) -> None:
        """Write the code for several joined images."""
        e = walk.e
        first, count = images
        box = walk.box(("0", "0", "0"))
        data = self.words.pointer(e, "data")
        result = e.at(slot, walk["joined_at"])
        size = e.times(walk["channels"], walk["pixels"])
        start = e.at(data, e.times(walk.image(first, group), size))
        apart = e.times(walk["groups"], size)

        def make(channel: Index, channels: Index) -> str:
            source = e.at(start, e.times(channel, walk["pixels"]))
            if self.plain:
                return source

            def fill_one(number: Index) -> None:
                frame = e.at(slot, e.times(number, walk["frame_size"]))
                walk.fill_frame(frame, e.at(source, e.times(number, apart)), channels, box)

            e.for_each("0", count, fill_one)
            return slot

        columns = e.times(count, walk["windows"])
        image_step = apart if self.plain else walk["frame_size"]
        self._blocks(walk, slot, make, (columns, box), image_step, weight, (result, walk["columns_line"]), tiles, group)

        def row(number: Index) -> None:
            def one(image: Index) -> None:
                place = e.plus(e.times(walk.image(e.plus(first, image), group), walk["filters"]), number)
                found = e.at(result, e.times(number, walk["columns_line"]), e.times(image, walk["windows"]))
                self._put_line(walk, place, found, e.plus(e.times(group, walk["filters"]), number))

            e.for_each("0", count, one)

        rows = [e.times(tile, str(self.rows)) for tile in tiles]
        e.for_each(rows[0], e.least(rows[1], walk["filters"]), row)

    def _put_line(self, walk: Im2colWriter, place: Index, found: str, channel: Index) -> None:
        """Write the code that puts the sums of one filter of one image, numbered by ``place``, to the output."""
        e = walk.e
        finish = None if self.epilogue is None else Finish(self.epilogue, e, walk.context)
        walk.copy_line(e.at(self.words.pointer(e, "out"), e.times(place, walk["windows"])), found, finish, channel)

    def _blocks(
        self,
        walk: Im2colWriter,
        slot: str,
        make: Callable[[Index, Index], str],
        windows: tuple[Index, Box],
        image_step: Index,
        weight: str,
        target: tuple[str, Index],
        tiles: tuple[Index, Index],
        group_number: Index,
    ) -> None:
        """Write the loop over blocks of channels: their columns, and the product with the filters of some tiles.

        ``make(first channel, number of channels)`` returns the address of the data or of the frames of some channels.
        ``windows`` are the number of columns and a box; boxes of images follow each other at a distance of
        ``image_step``. Panels of columns are made when they are needed, and stay in the cache for all tiles.
        """
        e = walk.e
        columns, box = windows
        result, result_line = target
        width = str(WIDTH * self.lanes)
        panels = e.at(slot, walk["columns_at"])
        # as many panels as a part of the L2 cache holds
        most = e.quotient(str(_PANEL_BYTES // self.dtype.itemsize), e.times(walk["block"], walk["taps"]))
        group_width = e.most(e.times(e.quotient(most, width), width), width)
        sizes = [f"i64 {number}" for number in (*box.sizes, walk["plane"], walk["line"], image_step)]

        def block(first: Index) -> None:
            channels = e.least(walk["block"], e.minus(walk["channels"], first))
            seen = make(first, channels)
            adding = e.assign(f"zext i1 {e.test('sgt', first, '0')} to i64")
            complete = e.assign(f"zext i1 {e.test('eq', e.plus(first, channels), walk['channels'])} to i64")
            depth = e.times(channels, walk["taps"])
            numbers = e.at(weight, e.times(e.times(first, walk["taps"]), str(self.rows)))

            def multiply(column: Index, start: Index, number: Index) -> None:
                row, count = e.times(number, str(self.rows)), e.least(width, e.minus(columns, column))
                operands = (
                    e.at(numbers, e.times(number, self._depth(walk))),
                    e.at(panels, e.times(e.minus(column, start), depth)),
                )
                place = e.at(result, e.times(row, result_line), column), result_line
                finishing: tuple[str, ...] = ()
                if self.epilogue is not None and not self.joined:
                    channel = e.plus(e.times(group_number, walk["filters"]), row)
                    finishing = f"ptr {walk.context}", f"i64 {channel}", f"i64 {complete}"
                left = e.minus(walk["filters"], row)
                self._multiply(walk, depth, operands, place, left, adding, count, finishing)

            def group(start: Index) -> None:
                stop = e.least(columns, e.plus(start, group_width))
                e.invoke(
                    f"{walk.name}_pack",
                    *(f"ptr {panels}", f"ptr {seen}", f"i64 {start}", f"i64 {e.minus(stop, start)}", *sizes),
                    *(f"i64 {channels}", f"i64 {walk['channel']}", f"i64 {walk['taps']}", f"ptr {walk.taps}"),
                )

                # tile after tile, so that the result is stored along its lines
                def tile(number: Index) -> None:
                    e.for_each(start, stop, lambda column: multiply(column, start, number), width)

                e.for_each(*tiles, tile)

            e.for_each("0", columns, group, group_width)

        e.for_each("0", walk["channels"], block, walk["block"])
