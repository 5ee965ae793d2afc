"""Winograd's algorithm: convolutions with small square kernels and stride 1, in single precision.

Data is copied to pictures with channels in the lanes of vectors, and transformed tile by tile. Then each element of a
transformed tile is a matrix product: (tiles x channels) · (channels x filters). The data gradient is the same kernel
with other weights. If there are far fewer tiles of outputs than of data, it is the same products between adjoint
transforms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol

from ...base.dtypes import FLOAT32, DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Words
from ..routine import Routine, module
from ..scratch import SLOT_WORDS, in_slot
from .microkernels import WIDTH
from .winograd_channels_last import turn_in, turn_out
from .winograd_transforms import Tiling, transform_back, transform_gradient, transform_in, transform_out

__all__ = ["FORWARD", "SHAPE_WORDS", "Band", "WinogradForward", "WinogradWriter", "mix", "put"]

SHAPE_WORDS = (
    *("groups", "channels", "filters", "batch", "rows", "columns", "out_rows", "out_columns", "pad_y", "pad_x"),
    *("tiles_y", "tiles_x", "band", "bands", "band_x", "bands_x", "images"),
    *("data_step", "sums_at", "sums_step", "picture_at"),
)
FORWARD = Words(*SHAPE_WORDS, "tiles", *SLOT_WORDS, "data*", "weight*", "out*")


class Band(NamedTuple):
    """Some tiles of an image, which are transformed together."""

    row: Index
    """Its first row of tiles."""
    rows: Index
    first: Index
    """Its first column of outputs."""
    columns: Index
    """Its tiles in a row."""
    tiles: Index
    width: Index
    """Columns of data of a picture."""
    out_width: Index
    line: Index
    """Distance of the lines of a picture of data."""
    out_line: Index


class WinogradParameters(Protocol):
    """The parameters of a kernel that :class:`WinogradWriter` needs."""

    @property
    def lanes(self) -> int:
        """Number of channels in a vector."""

    @property
    def tiling(self) -> Tiling:
        """The tiles."""


class WinogradWriter:
    """Writes one kernel: its table, and calls of routines that transform data and outputs."""

    def __init__(self, name: str, kernel: WinogradParameters, words: Words, dtype: DType = FLOAT32) -> None:
        self.name, self.kernel = name, kernel
        self.e = e = Routine(name, kernel.lanes, dtype)
        self.number = {word: words.index(e, word) for word in SHAPE_WORDS}
        self.pixels = e.times(self["rows"], self["columns"])
        self.out_pixels = e.times(self["out_rows"], self["out_columns"])

    def __getitem__(self, word: str) -> Index:
        return self.number[word]

    def band(self, band: Index) -> Band:
        """Return a band."""
        e, tiling, lanes = self.e, self.kernel.tiling, str(self.kernel.lanes)
        at_y, at_x = e.split(band, self["bands_x"])
        row, column = e.times(at_y, self["band"]), e.times(at_x, self["band_x"])
        rows = e.least(self["band"], e.minus(self["tiles_y"], row))
        columns = e.least(self["band_x"], e.minus(self["tiles_x"], column))
        out_width = e.times(columns, str(tiling.x.outputs))
        width = e.plus(out_width, str(tiling.x.kernel - 1))
        lines = e.times(width, lanes), e.times(out_width, lanes)
        first = e.times(column, str(tiling.x.outputs))
        return Band(row, rows, first, columns, e.times(rows, columns), width, out_width, *lines)

    def transform(self, routine: str, target: _Tiles, source: _Tiles, count: Index) -> None:
        """Write the call that transforms a row of tiles."""
        arguments = []
        for pointer, line, step in (target, source):
            arguments += [f"ptr {pointer}", f"i64 {line}", f"i64 {step}"]
        self.e.invoke(f"{self.name}_{routine}", *arguments, f"i64 {count}")

    def for_each_block(self, count: Index, body: Callable[[Index, Index], None]) -> None:
        """Write the loop over blocks of channels: ``body(first channel, number of channels from it on)``."""
        e = self.e
        e.for_each("0", count, lambda first: body(first, e.minus(count, first)), str(self.kernel.lanes))

    def take_data(self, image: str, band: Band, picture: str, tiles: str, layout: _Layout) -> None:
        """Write the code that makes the tiles of one image."""
        self.for_each_block(self["channels"], self.data_block(image, band, picture, tiles, layout))

    def data_block(self, image: str, band: Band, picture: str, tiles: str, layout: _Layout) -> _Block:
        """Return the function that writes the code for a block of channels of an image: picture and transforms."""
        e, tiling = self.e, self.kernel.tiling
        first, rows = band.row, band.rows
        m, step = str(tiling.y.outputs), str(tiling.x.outputs * self.kernel.lanes)
        lanes, border = str(self.kernel.lanes), str(tiling.y.kernel - 1)
        start = e.minus(e.times(first, m), self["pad_y"])
        block_line, tile_line = layout

        def block(channel: Index, existing: Index) -> None:
            source = e.at(image, e.times(channel, self.pixels))
            target = e.at(tiles, e.times(e.quotient(channel, lanes), block_line))

            def turn(line: Index, count: Index) -> None:
                e.invoke(
                    f"{self.name}_turn_in",
                    *(f"ptr {e.at(picture, e.times(line, band.line))}", f"ptr {source}"),
                    *(f"i64 {self.pixels}", f"i64 {existing}", f"i64 {self['rows']}", f"i64 {self['columns']}"),
                    *(f"i64 {e.plus(start, line)}", f"i64 {e.minus(band.first, self['pad_x'])}"),
                    *(f"i64 {count}", f"i64 {band.width}"),
                )

            def row(number: Index) -> None:
                line = e.times(number, m)
                turn(e.plus(line, border), m)
                into = e.at(target, e.times(number, e.times(band.columns, tile_line)))
                above = e.at(picture, e.times(line, band.line))
                self.transform(
                    "transform_in", (into, self["data_step"], tile_line), (above, band.line, step), band.columns
                )

            # transform a row of tiles while its lines are in the L1 cache
            turn("0", border)
            e.for_each("0", rows, row)

        return block

    def take_gradients(
        self, image: str, sizes: _Sizes, band: Band, picture: str, tiles: _Rows, block_line: Index
    ) -> None:
        """Write the code that makes the tiles of gradients of one image; ``block_line`` is the distance of blocks."""
        self.for_each_block(sizes[0], self.gradient_block(image, sizes, band, picture, tiles, block_line))

    def gradient_block(
        self, image: str, sizes: _Sizes, band: Band, picture: str, tiles: _Rows, block_line: Index
    ) -> _Block:
        """Return the function that writes the code for the gradients of a block of channels of an image."""
        e, tiling, lanes = self.e, self.kernel.tiling, str(self.kernel.lanes)
        m, x_step = str(tiling.y.outputs), str(tiling.x.outputs * self.kernel.lanes)
        _, height, width, pixels = sizes
        first, rows = band.row, band.rows
        target, step, tile_line, row_line = tiles

        def block(channel: Index, existing: Index) -> None:
            source = e.at(image, e.times(channel, pixels))
            place = e.at(target, e.times(e.quotient(channel, lanes), block_line))

            def row(number: Index) -> None:
                line = e.times(e.plus(first, number), m)
                e.invoke(
                    f"{self.name}_turn_in",
                    *(f"ptr {picture}", f"ptr {source}", f"i64 {pixels}"),
                    *(f"i64 {existing}", f"i64 {height}", f"i64 {width}", f"i64 {line}", f"i64 {band.first}"),
                    *(f"i64 {m}", f"i64 {band.out_width}"),
                )
                into = e.at(place, e.times(number, row_line))
                self.transform(
                    "transform_gradient", (into, step, tile_line), (picture, band.out_line, x_step), band.columns
                )

            e.for_each("0", rows, row)

        return block


#: writes the code for a block of channels: the first one, and the number of channels from it on
_Block = Callable[[Index, Index], None]
#: channels of an image, its height and width, and the distance of channels
_Sizes = tuple[Index, Index, Index, Index]
#: distances of blocks of channels and of tiles
_Layout = tuple[Index, Index]
#: an address, and the distances of lines (or of products) and of tiles
_Tiles = tuple[str, Index, Index]
#: the same, and the distance of rows of tiles
_Rows = tuple[str, Index, Index, Index]


@dataclasses.dataclass(frozen=True)
class WinogradForward:
    """The kernel of a convolution; an item is a band of rows of tiles of some images, and a group.

    ``rows`` tiles are multiplied at once. The ``adjoint`` takes tiles of gradients, and adds up those of data.
    """

    words: ClassVar[Words] = FORWARD
    dtype: ClassVar[DType] = FLOAT32

    lanes: int
    tiling: Tiling
    rows: int
    adjoint: bool = False

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        walk = WinogradWriter(name, self, self.words, self.dtype)
        e = walk.e
        data, weight, out = [self.words.pointer(e, operand) for operand in ("data", "weight", "out")]
        walk.number["tiles"] = self.words.index(e, "tiles")
        lanes = str(self.lanes)
        block_line = e.times(walk["tiles"], lanes)

        def item(index: Index, slot: str) -> None:
            rest, band = e.split(index, walk["bands"])
            some, group = e.split(rest, walk["groups"])
            place = walk.band(band)
            tiles = place.tiles
            first = e.times(some, walk["images"])
            count = e.least(walk["images"], e.minus(walk["batch"], first))
            picture = e.at(slot, walk["picture_at"])

            def source(number: Index) -> None:
                at = e.plus(e.times(e.plus(first, number), walk["groups"]), group)
                image = e.at(data, e.times(at, e.times(walk["channels"], walk.pixels)))
                target = e.at(slot, e.times(e.times(number, tiles), lanes))
                if self.adjoint:
                    sizes = walk["channels"], walk["rows"], walk["columns"], walk.pixels
                    into = target, walk["data_step"], lanes, e.times(place.columns, lanes)
                    walk.take_gradients(image, sizes, place, picture, into, block_line)
                else:
                    walk.take_data(image, place, picture, target, (block_line, lanes))

            e.for_each("0", count, source)
            sums = e.at(slot, walk["sums_at"])
            pairs = e.quotient(e.plus(walk["filters"], str(WIDTH * self.lanes - 1)), str(WIDTH * self.lanes))
            pair_size = e.times(walk["channels"], str(WIDTH * self.lanes))
            step = e.plus(e.times(pairs, pair_size), lanes)
            weights = e.at(weight, e.times(group, e.times(step, str(self.tiling.elements))))

            def pair(filters: Index) -> None:
                left = e.minus(walk["filters"], filters)
                numbers = e.at(weights, e.times(e.quotient(filters, str(WIDTH * self.lanes)), pair_size))
                wide = e.test("sgt", left, lanes)
                operands = slot, numbers, step, sums, e.times(count, tiles)
                e.when(wide, lambda: self._mix(walk, "wide", *operands), lambda: self._mix(walk, "single", *operands))

                def target(number: Index) -> None:
                    at = e.plus(e.times(e.plus(first, number), walk["groups"]), group)
                    found = e.at(sums, e.times(e.times(number, tiles), lanes))
                    self._put(walk, out, (at, group, filters), place, picture, found, left)

                e.for_each("0", count, target)

            e.for_each("0", walk["filters"], pair, str(WIDTH * self.lanes))

        in_slot(e, self.words, lambda slot: e.for_each("%lo", "%hi", lambda index: item(index, slot)))
        return module(*self._routines(name), e)

    def _routines(self, name: str) -> list[Routine]:
        """Return the routines that the kernel calls."""
        return [
            turn_in(f"{name}_turn_in", self.lanes),
            turn_out(f"{name}_turn_out", self.lanes),
            *self._transforms(name),
            mix(f"{name}_wide", self.lanes, self.rows, WIDTH),
            mix(f"{name}_single", self.lanes, self.rows, 1),
        ]

    def _put(
        self,
        walk: WinogradWriter,
        out: str,
        where: tuple[Index, Index, Index],
        band: Band,
        picture: str,
        sums: str,
        filters: Index,
    ) -> None:
        """Write the output transform of one pair of blocks of filters.

        ``where`` is the number of a group of an image, the group, and the first filter.
        """
        e = walk.e
        image, _, first = where
        target = e.at(out, e.times(e.plus(e.times(image, walk["filters"]), first), walk.out_pixels))
        (self._put_back if self.adjoint else put)(walk, target, band, picture, sums, filters)

    def _transforms(self, name: str) -> list[Routine]:
        known = self.lanes, self.tiling
        if self.adjoint:
            ways = transform_gradient(f"{name}_transform_gradient", *known), transform_back(f"{name}_back", *known)
        else:
            ways = transform_in(f"{name}_transform_in", *known), transform_out(f"{name}_transform_out", *known)
        return list(ways)

    def _mix(
        self, walk: WinogradWriter, routine: str, data: str, numbers: str, step: Index, sums: str, tiles: Index
    ) -> None:
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

            e.for_each("0", tiles, some, str(self.rows))

        e.for_each("0", str(self.tiling.elements), element)

    def _put_back(self, walk: WinogradWriter, image: str, band: Band, picture: str, sums: str, channels: Index) -> None:
        """Write the adjoint transform of one pair of blocks of channels, from sums to the data of an image."""
        e, m, lanes = walk.e, str(self.tiling.y.outputs), str(self.lanes)
        step = str(self.tiling.x.outputs * self.lanes)
        rows = band.rows
        height = e.plus(e.times(rows, m), str(self.tiling.y.kernel - 1))
        inner = e.at(picture, e.times(e.plus(e.times(walk["pad_y"], band.width), walk["pad_x"]), lanes))

        def block(number: Index) -> None:
            found = e.at(sums, e.times(e.quotient(number, lanes), e.times(walk["tiles"], lanes)))
            e.clear(picture, e.times(height, band.line))

            def row(number: Index) -> None:
                tiles = e.at(found, e.times(number, e.times(band.columns, lanes)))
                into = e.at(picture, e.times(e.times(number, m), band.line))
                walk.transform("back", (into, band.line, step), (tiles, walk["sums_step"], lanes), band.columns)

            e.for_each("0", rows, row)
            target = e.at(image, e.times(number, walk.out_pixels))
            e.invoke(
                f"{walk.name}_turn_out",
                *(f"ptr {target}", f"ptr {inner}", f"i64 {walk.out_pixels}", f"i64 {e.minus(channels, number)}"),
                *(f"i64 {walk['out_columns']}", f"i64 {walk['out_columns']}"),
                *(f"i64 {walk['out_rows']}", f"i64 {band.width}"),
            )

        e.for_each("0", e.least(channels, str(WIDTH * self.lanes)), block, lanes)


def put(walk: WinogradWriter, image: str, band: Band, picture: str, sums: str, filters: Index) -> None:
    """Write the output transform of one pair of blocks of filters, from sums to the output of an image."""
    e, tiling, lanes = walk.e, walk.kernel.tiling, str(walk.kernel.lanes)
    m, step = str(tiling.y.outputs), str(tiling.x.outputs * walk.kernel.lanes)
    first, rows = band.row, band.rows
    start = e.times(first, m)
    height = e.least(e.times(rows, m), e.minus(walk["out_rows"], start))
    count = e.least(band.out_width, e.minus(walk["out_columns"], band.first))

    def block(number: Index) -> None:
        found = e.at(sums, e.times(e.quotient(number, lanes), e.times(walk["tiles"], lanes)))
        target = e.at(image, e.times(number, walk.out_pixels), e.times(start, walk["out_columns"]), band.first)
        existing = e.minus(filters, number)

        def row(number: Index) -> None:
            line = e.times(number, m)
            tiles = e.at(found, e.times(number, e.times(band.columns, lanes)))
            walk.transform(
                "transform_out", (picture, band.out_line, step), (tiles, walk["sums_step"], lanes), band.columns
            )
            e.invoke(
                f"{walk.name}_turn_out",
                *(f"ptr {e.at(target, e.times(line, walk['out_columns']))}", f"ptr {picture}"),
                *(f"i64 {walk.out_pixels}", f"i64 {existing}", f"i64 {walk['out_columns']}", f"i64 {count}"),
                *(f"i64 {e.least(m, e.minus(height, line))}", f"i64 {band.out_width}"),
            )

        e.for_each("0", rows, row)

    e.for_each("0", e.least(filters, str(WIDTH * walk.kernel.lanes)), block, lanes)


def mix(
    name: str,
    lanes: int,
    rows: int,
    width: int,
    adding: bool = False,
    dtype: DType = FLOAT32,
    multiply_add: Callable[..., Value] = Routine.fma,
) -> Routine:
    """Return the routine that multiplies some tiles with the weights of a pair of blocks of filters, or of one.

    A block has as many channels as a vector has lanes; in a block, tiles are adjacent. With ``adding``, another
    argument tells whether to add to the existing sums. ``multiply_add(routine, data, weights, sum)`` writes one step.
    """
    arguments = (
        "i64 %channels, ptr noalias %data, i64 %data_block, ptr noalias %weight, ptr noalias %sums, i64 %sums_block"
    )
    e = Routine(name, lanes, dtype, arguments + (", i64 %add" if adding else ""), inner=True)
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
                number = e.get_splat(tiles, str(row * lanes))
                found += [multiply_add(e, number, vectors[v], partial[row * width + v]) for v in range(width)]
            return found

        return e.loop("0", e.least(str(lanes), e.minus("%channels", first)), "1", sums, channel)

    start = e.choose(e.test("ne", "%add", "0"), there, lambda: zeros) if adding else zeros
    sums = e.loop("0", "%channels", str(lanes), start, block)
    for vector in range(width):
        for row in range(rows):
            e.store("%sums", place(row, vector), sums[row * width + vector])
    return e
