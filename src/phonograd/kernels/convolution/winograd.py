"""Convolutions with small square kernels and stride 1 by Winograd's algorithm, in single precision.

Data is turned into pictures with channels in the lanes of vectors, and transformed tile by tile; what remains are
products of matrices, one for each of the elements of a transformed tile: (tiles x channels) · (channels x filters).
The adjoint in the data is the same kernel with other weights, or, where there are far fewer tiles of outputs than of
data, the same products between adjoint transforms. For the adjoint in the weights the matrices are
(channels x tiles) · (tiles x filters).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Protocol

from ...dtypes import FLOAT32
from ..function import Index, Value
from ..launch import Words
from ..routine import Routine, module
from ..slots import SLOT_WORDS, in_slot
from .microkernels import WIDTH, product
from .winograd_pictures import turn_in, turn_out
from .winograd_transforms import Tiling, transform_back, transform_gradient, transform_in, transform_out

__all__ = ["FORWARD", "SHAPE_WORDS", "WEIGHTS", "Forward", "Walk", "Weights", "mix", "put"]

SHAPE_WORDS = (
    *("groups", "channels", "filters", "batch", "rows", "columns", "out_rows", "out_columns", "pad_y", "pad_x"),
    *("tiles_y", "tiles_x", "band", "bands", "images", "data_step", "sums_at", "sums_step", "picture_at"),
)
FORWARD = Words(*SHAPE_WORDS, "tiles", *SLOT_WORDS, "data*", "weight*", "out*")
_PARTS = ("units", "part_units", "channel_line", "filter_line")
WEIGHTS = Words(*SHAPE_WORDS, *_PARTS, *SLOT_WORDS, "data*", "out_grad*", "sums*")


class Transforming(Protocol):
    """What a kernel says about itself."""

    @property
    def lanes(self) -> int:
        """How many channels a vector holds."""

    @property
    def tiling(self) -> Tiling:
        """The tiles."""


class Walk:
    """A kernel while it is written: its table, and routines that transform data and outputs."""

    def __init__(self, name: str, kernel: Transforming, words: Words) -> None:
        self.name, self.kernel = name, kernel
        self.e = e = Routine(name, kernel.lanes, FLOAT32)
        self.number = {word: words.index(e, word) for word in SHAPE_WORDS}
        tiling, lanes = kernel.tiling, str(kernel.lanes)
        self.pixels = e.times(self["rows"], self["columns"])
        self.out_pixels = e.times(self["out_rows"], self["out_columns"])
        #: sizes of pictures
        self.width = e.plus(e.times(self["tiles_x"], str(tiling.outputs)), str(tiling.kernel - 1))
        self.out_width = e.times(self["tiles_x"], str(tiling.outputs))
        self.line, self.out_line = e.times(self.width, lanes), e.times(self.out_width, lanes)

    def __getitem__(self, word: str) -> Index:
        return self.number[word]

    def band(self, band: Index) -> tuple[Index, Index, Index]:
        """Return the first row of tiles of a band, how many rows it has, and how many tiles."""
        e = self.e
        first = e.times(band, self["band"])
        rows = e.least(self["band"], e.minus(self["tiles_y"], first))
        return first, rows, e.times(rows, self["tiles_x"])

    def transform(self, routine: str, rows: Index, target: _Rows, source: _Rows) -> None:
        """Write the calls that transform rows of tiles."""
        e = self.e

        def row(number: Index) -> None:
            arguments = []
            for pointer, line, step, height in (target, source):
                arguments += [f"ptr {e.at(pointer, e.times(number, height))}", f"i64 {line}", f"i64 {step}"]
            e.invoke(f"{self.name}_{routine}", *arguments, f"i64 {self['tiles_x']}")

        e.each("0", rows, row)

    def each_block(self, count: Index, body: Callable[[Index, Index], None]) -> None:
        """Write the loop over blocks of channels: ``body(first channel, how many there are from it on)``."""
        e = self.e
        e.each("0", count, lambda first: body(first, e.minus(count, first)), str(self.kernel.lanes))

    def take_data(self, image: str, band: tuple[Index, Index, Index], slot: str, tiles: str, layout: _Layout) -> None:
        """Write how the tiles of one image are made: for each block of channels its picture and their transforms."""
        e, tiling = self.e, self.kernel.tiling
        first, rows, _ = band
        m, lanes = str(tiling.outputs), str(self.kernel.lanes)
        height = e.plus(e.times(rows, m), str(tiling.kernel - 1))

        def block(channel: Index, existing: Index) -> None:
            source = e.at(image, e.times(channel, self.pixels))
            e.invoke(
                f"{self.name}_turn_in",
                *(f"ptr {slot}", f"ptr {source}", f"i64 {self.pixels}", f"i64 {existing}"),
                *(f"i64 {self['rows']}", f"i64 {self['columns']}"),
                *(f"i64 {e.minus(e.times(first, m), self['pad_y'])}", f"i64 {e.minus('0', self['pad_x'])}"),
                *(f"i64 {height}", f"i64 {self.width}"),
            )
            block_line, tile_line = layout
            target = e.at(tiles, e.times(e.quotient(channel, lanes), block_line))
            self.transform(
                "transform_in",
                rows,
                (target, self["data_step"], tile_line, e.times(self["tiles_x"], tile_line)),
                (slot, self.line, e.times(m, lanes), e.times(m, self.line)),
            )

        self.each_block(self["channels"], block)

    def take_gradients(
        self, image: str, sizes: _Sizes, band: tuple[Index, Index, Index], picture: str, tiles: _Rows, block_line: Index
    ) -> None:
        """Write how the tiles of gradients of one image are made; blocks of channels lie ``block_line`` apart."""
        e, m, lanes = self.e, str(self.kernel.tiling.outputs), str(self.kernel.lanes)
        channels, height, width, pixels = sizes
        first, rows, _ = band
        target, *distances = tiles

        def block(channel: Index, existing: Index) -> None:
            e.invoke(
                f"{self.name}_turn_in",
                *(f"ptr {picture}", f"ptr {e.at(image, e.times(channel, pixels))}", f"i64 {pixels}"),
                *(f"i64 {existing}", f"i64 {height}", f"i64 {width}", f"i64 {e.times(first, m)}", "i64 0"),
                *(f"i64 {e.times(rows, m)}", f"i64 {self.out_width}"),
            )
            place = e.at(target, e.times(e.quotient(channel, lanes), block_line))
            step, tile_line, row_line = distances
            self.transform(
                "transform_gradient",
                rows,
                (place, step, tile_line, row_line),
                (picture, self.out_line, e.times(m, lanes), e.times(m, self.out_line)),
            )

        self.each_block(channels, block)


#: channels of an image, its height and width, and the distance of channels
_Sizes = tuple[Index, Index, Index, Index]
#: distances of blocks of channels and of tiles
_Layout = tuple[Index, Index]
#: an address, the distances of lines (or of products) and of tiles, and that of rows of tiles
_Rows = tuple[str, Index, Index, Index]


@dataclasses.dataclass(frozen=True)
class Forward:
    """The kernel of a convolution; an item of its range is a band of rows of tiles of some images, and a group.

    ``rows`` tiles are multiplied at once. The ``adjoint`` takes tiles of gradients, and adds up those of data.
    """

    lanes: int
    tiling: Tiling
    rows: int
    adjoint: bool = False

    def write(self, name: str) -> str:
        """Return the text of the module."""
        walk = Walk(name, self, FORWARD)
        e = walk.e
        data, weight, out = [FORWARD.pointer(e, operand) for operand in ("data", "weight", "out")]
        walk.number["tiles"] = FORWARD.index(e, "tiles")
        lanes = str(self.lanes)
        block_line = e.times(walk["tiles"], lanes)

        def item(index: Index, slot: str) -> None:
            rest, band = e.split(index, walk["bands"])
            some, group = e.split(rest, walk["groups"])
            place = walk.band(band)
            tiles = place[2]
            first = e.times(some, walk["images"])
            count = e.least(walk["images"], e.minus(walk["batch"], first))
            picture = e.at(slot, walk["picture_at"])

            def source(number: Index) -> None:
                at = e.plus(e.times(e.plus(first, number), walk["groups"]), group)
                image = e.at(data, e.times(at, e.times(walk["channels"], walk.pixels)))
                target = e.at(slot, e.times(e.times(number, tiles), lanes))
                if self.adjoint:
                    sizes = walk["channels"], walk["rows"], walk["columns"], walk.pixels
                    into = target, walk["data_step"], lanes, e.times(walk["tiles_x"], lanes)
                    walk.take_gradients(image, sizes, place, picture, into, block_line)
                else:
                    walk.take_data(image, place, picture, target, (block_line, lanes))

            e.each("0", count, source)
            sums = e.at(slot, walk["sums_at"])
            pairs = e.quotient(e.plus(walk["filters"], str(WIDTH * self.lanes - 1)), str(WIDTH * self.lanes))
            pair_size = e.times(walk["channels"], str(WIDTH * self.lanes))
            step = e.times(pairs, pair_size)
            weights = e.at(weight, e.times(group, e.times(step, str(self.tiling.size**2))))

            def pair(filters: Index) -> None:
                left = e.minus(walk["filters"], filters)
                numbers = e.at(weights, e.times(e.quotient(filters, str(WIDTH * self.lanes)), pair_size))
                wide = e.test("sgt", left, lanes)
                operands = slot, numbers, step, sums, e.times(count, tiles)
                e.when(wide, lambda: self._mix(walk, "wide", *operands), lambda: self._mix(walk, "single", *operands))

                def target(number: Index) -> None:
                    at = e.plus(e.times(e.plus(first, number), walk["groups"]), group)
                    image = e.at(out, e.times(e.plus(e.times(at, walk["filters"]), filters), walk.out_pixels))
                    found = e.at(sums, e.times(e.times(number, tiles), lanes))
                    (self._put_back if self.adjoint else put)(walk, image, place, picture, found, left)

                e.each("0", count, target)

            e.each("0", walk["filters"], pair, str(WIDTH * self.lanes))

        in_slot(e, FORWARD, lambda slot: e.each("%lo", "%hi", lambda index: item(index, slot)))
        return module(
            turn_in(f"{name}_turn_in", self.lanes),
            turn_out(f"{name}_turn_out", self.lanes),
            *self._transforms(name),
            mix(f"{name}_wide", self.lanes, self.rows, WIDTH),
            mix(f"{name}_single", self.lanes, self.rows, 1),
            e,
        )

    def _transforms(self, name: str) -> list[Routine]:
        known = self.lanes, self.tiling
        if self.adjoint:
            ways = transform_gradient(f"{name}_transform_gradient", *known), transform_back(f"{name}_back", *known)
        else:
            ways = transform_in(f"{name}_transform_in", *known), transform_out(f"{name}_transform_out", *known)
        return list(ways)

    def _mix(self, walk: Walk, routine: str, data: str, numbers: str, step: Index, sums: str, tiles: Index) -> None:
        """Write the products of all elements of tiles, for one pair of blocks of filters."""
        e = walk.e
        block_line = e.times(walk["tiles"], str(self.lanes))

        def element(number: Index) -> None:
            source = e.at(data, e.times(number, walk["data_step"]))
            target = e.at(sums, e.times(number, walk["sums_step"]))
            factors = e.at(numbers, e.times(number, step))

            def some(tile: Index) -> None:
                place = e.times(tile, str(self.lanes))
                e.invoke(
                    f"{walk.name}_{routine}",
                    *(f"i64 {walk['channels']}", f"ptr {e.at(source, place)}", f"i64 {block_line}"),
                    *(f"ptr {factors}", f"ptr {e.at(target, place)}", f"i64 {block_line}"),
                )

            e.each("0", tiles, some, str(self.rows))

        e.each("0", str(self.tiling.size**2), element)

    def _put_back(
        self, walk: Walk, image: str, band: tuple[Index, Index, Index], picture: str, sums: str, channels: Index
    ) -> None:
        """Write the way of one pair of blocks of channels from sums to the data of an image."""
        e, m, lanes = walk.e, str(self.tiling.outputs), str(self.lanes)
        rows = band[1]
        height = e.plus(e.times(rows, m), str(self.tiling.kernel - 1))
        inner = e.at(picture, e.times(e.plus(e.times(walk["pad_y"], walk.width), walk["pad_x"]), lanes))

        def block(number: Index) -> None:
            found = e.at(sums, e.times(e.quotient(number, lanes), e.times(walk["tiles"], lanes)))
            e.clear(picture, e.times(height, walk.line))
            walk.transform(
                "back",
                rows,
                (picture, walk.line, e.times(m, lanes), e.times(m, walk.line)),
                (found, walk["sums_step"], lanes, e.times(walk["tiles_x"], lanes)),
            )
            target = e.at(image, e.times(number, walk.out_pixels))
            e.invoke(
                f"{walk.name}_turn_out",
                *(f"ptr {target}", f"ptr {inner}", f"i64 {walk.out_pixels}", f"i64 {e.minus(channels, number)}"),
                *(f"i64 {walk['out_columns']}", f"i64 {walk['out_rows']}", f"i64 {walk.width}"),
            )

        e.each("0", e.least(channels, str(WIDTH * self.lanes)), block, lanes)


def put(walk: Walk, image: str, band: tuple[Index, Index, Index], picture: str, sums: str, filters: Index) -> None:
    """Write the way of one pair of blocks of filters from sums to the output of an image."""
    e, m, lanes = walk.e, str(walk.kernel.tiling.outputs), str(walk.kernel.lanes)
    first, rows, _ = band
    start = e.times(first, m)
    height = e.least(e.times(rows, m), e.minus(walk["out_rows"], start))

    def block(number: Index) -> None:
        found = e.at(sums, e.times(e.quotient(number, lanes), e.times(walk["tiles"], lanes)))
        walk.transform(
            "transform_out",
            rows,
            (picture, walk.out_line, e.times(m, lanes), e.times(m, walk.out_line)),
            (found, walk["sums_step"], lanes, e.times(walk["tiles_x"], lanes)),
        )
        target = e.at(image, e.times(number, walk.out_pixels), e.times(start, walk["out_columns"]))
        e.invoke(
            f"{walk.name}_turn_out",
            *(f"ptr {target}", f"ptr {picture}", f"i64 {walk.out_pixels}", f"i64 {e.minus(filters, number)}"),
            *(f"i64 {walk['out_columns']}", f"i64 {height}", f"i64 {walk.out_width}"),
        )

    e.each("0", e.least(filters, str(WIDTH * walk.kernel.lanes)), block, lanes)


def mix(name: str, lanes: int, rows: int, width: int, adding: bool = False) -> Routine:
    """Return the routine that multiplies some tiles with the weights of a pair of blocks of filters, or of one.

    Channels lie in blocks of as many as a vector has lanes; in a block, tiles lie next to each other. With ``adding``
    there is another argument, which says whether to begin with the sums that are there.
    """
    arguments = (
        "i64 %channels, ptr noalias %data, i64 %data_block, ptr noalias %weight, ptr noalias %sums, i64 %sums_block"
    )
    e = Routine(name, lanes, FLOAT32, arguments + (", i64 %add" if adding else ""))
    zeros = [e.zeros()] * (rows * width)

    def place(row: int, vector: int) -> Index:
        return e.plus(e.times(str(vector), "%sums_block"), str(row * lanes))

    def there() -> list[Value]:
        return [e.get("%sums", place(row, vector)) for row in range(rows) for vector in range(width)]

    def block(first: Index, sums: list[Value]) -> list[Value]:
        data = e.at("%data", e.times(e.quotient(first, str(lanes)), "%data_block"))
        weight = e.at("%weight", e.times(first, str(WIDTH * lanes)))

        def channel(index: Index, partial: list[Value]) -> list[Value]:
            line = e.at(weight, e.times(index, str(WIDTH * lanes)))
            vectors = [e.get(line, str(vector * lanes)) for vector in range(width)]
            tiles = e.at(data, index)
            found = []
            for row in range(rows):
                number = e.spread(tiles, str(row * lanes))
                found += [e.fma(number, vectors[v], partial[row * width + v]) for v in range(width)]
            return found

        return e.loop("0", e.least(str(lanes), e.minus("%channels", first)), "1", sums, channel)

    start = e.choose(e.test("ne", "%add", "0"), there, lambda: zeros) if adding else zeros
    sums = e.loop("0", "%channels", str(lanes), start, block)
    for vector in range(width):
        for row in range(rows):
            e.store("%sums", place(row, vector), sums[row * width + vector])
    return e


@dataclasses.dataclass(frozen=True)
class Weights:
    """The kernel of the adjoint in the weights; an item of its range is a part of the images, and a group.

    A part has sums of its own, of shape (elements of a tile, channels, filters); :class:`Combine` adds them up.
    ``rows`` channels are multiplied at once.
    """

    lanes: int
    tiling: Tiling
    rows: int

    def write(self, name: str) -> str:
        """Return the text of the module."""
        walk = Walk(name, self, WEIGHTS)
        e = walk.e
        walk.number.update({word: WEIGHTS.index(e, word) for word in _PARTS})
        data, out_grad, sums = [WEIGHTS.pointer(e, operand) for operand in ("data", "out_grad", "sums")]
        elements = e.times(str(self.tiling.size**2), e.times(walk["channels"], walk["filter_line"]))

        def item(index: Index, slot: str) -> None:
            part, group = e.split(index, walk["groups"])
            target = e.at(sums, e.times(index, elements))
            e.clear(target, elements)
            start = e.times(part, walk["part_units"])

            def unit(number: Index) -> None:
                some, band = e.split(number, walk["bands"])
                first = e.times(some, walk["images"])
                count = e.least(walk["images"], e.minus(walk["batch"], first))
                place = walk.band(band)

                def source(number: Index) -> None:
                    at = e.plus(e.times(e.plus(first, number), walk["groups"]), group)
                    image = e.at(data, e.times(at, e.times(walk["channels"], walk.pixels)))
                    grad = e.at(out_grad, e.times(at, e.times(walk["filters"], walk.out_pixels)))
                    self._take(walk, slot, number, place, image, grad)

                e.each("0", count, source)
                self._multiply(walk, slot, e.times(count, place[2]), target)

            e.each(start, e.least(walk["units"], e.plus(start, walk["part_units"])), unit)

        in_slot(e, WEIGHTS, lambda slot: e.each("%lo", "%hi", lambda index: item(index, slot)))
        return module(
            turn_in(f"{name}_turn_in", self.lanes),
            transform_in(f"{name}_transform_in", self.lanes, self.tiling),
            transform_gradient(f"{name}_transform_gradient", self.lanes, self.tiling),
            product(f"{name}_product", self.lanes, FLOAT32, self.rows, masked=False),
            product(f"{name}_narrow", self.lanes, FLOAT32, self.rows, masked=True),
            e,
        )

    def _take(
        self, walk: Walk, slot: str, number: Index, band: tuple[Index, Index, Index], image: str, grad: str
    ) -> None:
        """Write how the tiles of data and of gradients of one image are made."""
        e, lanes = walk.e, str(self.lanes)
        picture = e.at(slot, walk["picture_at"])
        done = e.times(number, band[2])
        target = e.at(slot, e.times(done, walk["channel_line"]))
        walk.take_data(image, band, picture, target, (lanes, walk["channel_line"]))
        line = walk["filter_line"]
        into = e.at(slot, walk["sums_at"], e.times(done, line)), walk["sums_step"], line, e.times(walk["tiles_x"], line)
        sizes = walk["filters"], walk["out_rows"], walk["out_columns"], walk.out_pixels
        walk.take_gradients(grad, sizes, band, picture, into, lanes)

    def _multiply(self, walk: Walk, slot: str, tiles: Index, target: str) -> None:
        """Write the products of all elements of tiles."""
        e = walk.e
        gradients = e.at(slot, walk["sums_at"])
        matrix = e.times(walk["channels"], walk["filter_line"])
        whole = e.times(e.quotient(walk["filter_line"], str(WIDTH * self.lanes)), str(WIDTH * self.lanes))

        def element(number: Index) -> None:
            first = e.at(slot, e.times(number, walk["data_step"]))
            second = e.at(gradients, e.times(number, walk["sums_step"]))
            sums = e.at(target, e.times(number, matrix))

            def some(routine: str, filters: Index, *more: str) -> None:
                def channels(channel: Index) -> None:
                    result = e.at(sums, e.times(channel, walk["filter_line"]), filters)
                    e.invoke(
                        f"{walk.name}_{routine}",
                        *(f"i64 {tiles}", f"ptr {e.at(first, channel)}", f"i64 {walk['channel_line']}"),
                        *(f"ptr {e.at(second, filters)}", f"i64 {walk['filter_line']}"),
                        *(f"ptr {result}", f"i64 {walk['filter_line']}"),
                        *(f"i64 {e.minus(walk['channels'], channel)}", "i64 1", *more),
                    )

                e.each("0", walk["channels"], channels, str(self.rows))

            e.each("0", whole, lambda filters: some("product", filters), str(WIDTH * self.lanes))
            lanes = str(self.lanes)
            e.each(whole, walk["filter_line"], lambda filters: some("narrow", filters, f"i64 {lanes}"), lanes)

        e.each("0", str(self.tiling.size**2), element)
