"""Convolutions with small square kernels and stride 1 by Winograd's algorithm, in single precision.

Data is turned into pictures with channels in the lanes of vectors, and transformed tile by tile; what remains are
products of matrices, one for each of the elements of a transformed tile: (tiles x channels) · (channels x filters).
The adjoint in the data is the same kernel with other weights. For the adjoint in the weights the matrices are
(channels x tiles) · (tiles x filters).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ...dtypes import FLOAT32
from ..function import Index, Value
from ..launch import Words
from ..routine import Routine, module
from ..slots import SLOT_WORDS, in_slot
from .microkernels import WIDTH, product
from .winograd_pictures import turn_in, turn_out
from .winograd_transforms import (
    Tiling,
    matrices,
    transform_gradient,
    transform_in,
    transform_out,
    transposed,
    two_sided,
)

__all__ = ["COMBINE", "FORWARD", "TRANSFORM", "WEIGHTS", "Combine", "Forward", "Transform", "Weights"]

_SHAPE = (
    *("groups", "channels", "filters", "batch", "rows", "columns", "out_rows", "out_columns", "pad_y", "pad_x"),
    *("tiles_y", "tiles_x", "band", "bands", "images", "data_step", "sums_at", "sums_step", "picture_at"),
)
FORWARD = Words(*_SHAPE, "tiles", *SLOT_WORDS, "data*", "weight*", "out*")
_PARTS = ("units", "part_units", "channel_line", "filter_line")
WEIGHTS = Words(*_SHAPE, *_PARTS, *SLOT_WORDS, "data*", "out_grad*", "sums*")
TRANSFORM = Words("depth", "filters", "depth_stride", "filter_stride", "group_stride", "weight*", "packed*")
COMBINE = Words("groups", "channels", "filters", "filter_line", "parts", "sums*", "out*")


@dataclasses.dataclass(frozen=True)
class Transform:
    """The kernel that transforms weights; an item of its range is a channel of a group.

    The result has the shape (groups, elements of a tile, pairs of blocks of filters, channels, two vectors).
    """

    lanes: int
    tiling: Tiling
    flipped: bool
    """Whether kernels are read backwards, as the adjoint in the data needs them."""

    def write(self, name: str) -> str:
        """Return the text of the module."""
        e = Routine(name, self.lanes, FLOAT32)
        number = {
            word: TRANSFORM.index(e, word)
            for word in ("depth", "filters", "depth_stride", "filter_stride", "group_stride")
        }
        weight, packed = TRANSFORM.pointer(e, "weight"), TRANSFORM.pointer(e, "packed")
        size, kernel = self.tiling.size, self.tiling.kernel
        pair = e.times(number["depth"], str(WIDTH * self.lanes))
        pairs = e.quotient(e.plus(number["filters"], str(WIDTH * self.lanes - 1)), str(WIDTH * self.lanes))
        step = e.times(pairs, pair)

        def item(index: Index) -> None:
            group, channel = e.split(index, number["depth"])
            source = e.at(weight, e.times(group, number["group_stride"]), e.times(channel, number["depth_stride"]))
            target = e.at(
                packed,
                *(e.times(group, e.times(step, str(size * size))), e.times(channel, str(WIDTH * self.lanes))),
            )

            def block(first: Index) -> None:
                mask = e.below(e.minus(number["filters"], first))
                kernels = e.at(source, e.times(first, number["filter_stride"]))
                which, half = e.split(e.quotient(first, str(self.lanes)), str(WIDTH))
                place = e.at(target, e.times(which, pair), e.times(half, str(self.lanes)))

                def load(row: int, column: int) -> Value:
                    tap = row * kernel + column
                    tap = kernel * kernel - 1 - tap if self.flipped else tap
                    return e.gather(kernels, str(tap), number["filter_stride"], FLOAT32, mask)

                def store(row: int, column: int, value: Value) -> None:
                    e.store(place, e.times(str(row * size + column), step), value)

                two_sided(e, matrices(self.tiling).kernel, load, store)

            e.each("0", number["filters"], block, str(self.lanes))

        e.each("%lo", "%hi", item)
        return module(e)


class _Walk:
    """A kernel while it is written: its table, and routines that transform data and outputs."""

    def __init__(self, name: str, kernel: Forward | Weights, words: Words) -> None:
        self.name, self.kernel = name, kernel
        self.e = e = Routine(name, kernel.lanes, FLOAT32)
        self.number = {word: words.index(e, word) for word in _SHAPE}
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


#: distances of blocks of channels and of tiles
_Layout = tuple[Index, Index]
#: an address, the distances of lines (or of products) and of tiles, and that of rows of tiles
_Rows = tuple[str, Index, Index, Index]


@dataclasses.dataclass(frozen=True)
class Forward:
    """The kernel of a convolution; an item of its range is a band of rows of tiles of some images, and a group.

    ``rows`` tiles are multiplied at once.
    """

    lanes: int
    tiling: Tiling
    rows: int

    def write(self, name: str) -> str:
        """Return the text of the module."""
        walk = _Walk(name, self, FORWARD)
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
                    self._put(walk, image, place, picture, found, left)

                e.each("0", count, target)

            e.each("0", walk["filters"], pair, str(WIDTH * self.lanes))

        in_slot(e, FORWARD, lambda slot: e.each("%lo", "%hi", lambda index: item(index, slot)))
        return module(
            turn_in(f"{name}_turn_in", self.lanes),
            turn_out(f"{name}_turn_out", self.lanes),
            transform_in(f"{name}_transform_in", self.lanes, self.tiling),
            transform_out(f"{name}_transform_out", self.lanes, self.tiling),
            mix(f"{name}_wide", self.lanes, self.rows, WIDTH),
            mix(f"{name}_single", self.lanes, self.rows, 1),
            e,
        )

    def _mix(self, walk: _Walk, routine: str, data: str, numbers: str, step: Index, sums: str, tiles: Index) -> None:
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

    def _put(
        self, walk: _Walk, image: str, band: tuple[Index, Index, Index], picture: str, sums: str, filters: Index
    ) -> None:
        """Write the way of one pair of blocks of filters from sums to the output of an image."""
        e, m, lanes = walk.e, str(self.tiling.outputs), str(self.lanes)
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

        e.each("0", e.least(filters, str(WIDTH * self.lanes)), block, lanes)


def mix(name: str, lanes: int, rows: int, width: int) -> Routine:
    """Return the routine that multiplies some tiles with the weights of a pair of blocks of filters, or of one.

    Channels lie in blocks of as many as a vector has lanes; in a block, tiles lie next to each other.
    """
    arguments = (
        "i64 %channels, ptr noalias %data, i64 %data_block, ptr noalias %weight, ptr noalias %sums, i64 %sums_block"
    )
    e = Routine(name, lanes, FLOAT32, arguments)

    def block(first: Index, sums: list[Value]) -> list[Value]:
        data = e.at("%data", e.times(e.quotient(first, str(lanes)), "%data_block"))
        weight = e.at("%weight", e.times(first, str(WIDTH * lanes)))

        def channel(index: Index, partial: list[Value]) -> list[Value]:
            line = e.at(weight, e.times(index, str(WIDTH * lanes)))
            vectors = [e.get(line, str(vector * lanes)) for vector in range(width)]
            place = e.at(data, index)
            found = []
            for row in range(rows):
                number = e.spread(place, str(row * lanes))
                found += [e.fma(number, vectors[v], partial[row * width + v]) for v in range(width)]
            return found

        return e.loop("0", e.least(str(lanes), e.minus("%channels", first)), "1", sums, channel)

    sums = e.loop("0", "%channels", str(lanes), [e.zeros()] * (rows * width), block)
    for vector in range(width):
        target = e.at("%sums", e.times(str(vector), "%sums_block"))
        for row in range(rows):
            e.store(target, str(row * lanes), sums[row * width + vector])
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
        walk = _Walk(name, self, WEIGHTS)
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
        self, walk: _Walk, slot: str, number: Index, band: tuple[Index, Index, Index], image: str, grad: str
    ) -> None:
        """Write how the tiles of data and of gradients of one image are made."""
        e, m, lanes = walk.e, str(self.tiling.outputs), str(self.lanes)
        first, rows, tiles = band
        picture = e.at(slot, walk["picture_at"])
        done = e.times(number, tiles)
        target = e.at(slot, e.times(done, walk["channel_line"]))
        walk.take_data(image, band, picture, target, (lanes, walk["channel_line"]))
        into = e.at(slot, walk["sums_at"], e.times(done, walk["filter_line"]))

        def block(filters: Index, existing: Index) -> None:
            source = e.at(grad, e.times(filters, walk.out_pixels))
            e.invoke(
                f"{walk.name}_turn_in",
                *(f"ptr {picture}", f"ptr {source}", f"i64 {walk.out_pixels}", f"i64 {existing}"),
                *(f"i64 {walk['out_rows']}", f"i64 {walk['out_columns']}", f"i64 {e.times(first, m)}", "i64 0"),
                *(f"i64 {e.times(rows, m)}", f"i64 {walk.out_width}"),
            )
            line = walk["filter_line"]
            walk.transform(
                "transform_gradient",
                rows,
                (e.at(into, filters), walk["sums_step"], line, e.times(walk["tiles_x"], line)),
                (picture, walk.out_line, e.times(m, lanes), e.times(m, walk.out_line)),
            )

        walk.each_block(walk["filters"], block)

    def _multiply(self, walk: _Walk, slot: str, tiles: Index, target: str) -> None:
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


@dataclasses.dataclass(frozen=True)
class Combine:
    """The kernel that adds up the sums of all parts and transforms them back; an item is a channel of a group."""

    lanes: int
    tiling: Tiling

    def write(self, name: str) -> str:
        """Return the text of the module."""
        e = Routine(name, self.lanes, FLOAT32)
        number = {word: COMBINE.index(e, word) for word in ("groups", "channels", "filters", "filter_line", "parts")}
        sums, out = COMBINE.pointer(e, "sums"), COMBINE.pointer(e, "out")
        size, kernel = self.tiling.size, self.tiling.kernel
        step = e.times(number["channels"], number["filter_line"])
        group_size = e.times(step, str(size * size))
        part_size = e.times(number["groups"], group_size)
        filter_stride = e.times(number["channels"], str(kernel * kernel))

        def item(index: Index) -> None:
            group, channel = e.split(index, number["channels"])
            source = e.at(sums, e.times(group, group_size), e.times(channel, number["filter_line"]))
            target = e.at(
                out,
                e.times(e.times(group, number["filters"]), filter_stride),
                e.times(channel, str(kernel * kernel)),
            )

            def block(filters: Index) -> None:
                mask = e.below(e.minus(number["filters"], filters))
                here = e.at(source, filters)

                def add(element: Index) -> None:
                    place = e.at(here, e.times(element, step))
                    (total,) = e.loop(
                        "1",
                        number["parts"],
                        "1",
                        [e.get(place)],
                        lambda part, found: [e.add(found[0], e.get(place, e.times(part, part_size)))],
                    )
                    e.store(place, "0", total)

                def load(row: int, column: int) -> Value:
                    return e.get(here, e.times(str(row * size + column), step))

                def store(row: int, column: int, value: Value) -> None:
                    place = e.at(target, e.times(filters, filter_stride), str(row * kernel + column))
                    e.scatter(place, filter_stride, value, mask)

                e.each("0", str(size * size), add)
                two_sided(e, transposed(matrices(self.tiling).kernel), load, store)

            e.each("0", number["filters"], block, str(self.lanes))

        e.each("%lo", "%hi", item)
        return module(e)
