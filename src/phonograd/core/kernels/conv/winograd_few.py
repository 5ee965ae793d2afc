"""Winograd's algorithm for few tiles and many weights, which would exceed the cache once transformed.

A first kernel transforms all tiles of data. A second one iterates over the filters: it transforms as many weights at a
time as stay in the cache, and multiplies all tiles by them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ...lower.ir.function_builder import Index, Value
from ..launch import Words
from ..routine import module
from ..scratch import SLOT_WORDS, in_slot
from .microkernels import WIDTH
from .winograd import SHAPE_WORDS, WinogradWriter, mix, put
from .winograd_channels_last import turn_in, turn_out
from .winograd_transforms import Tiling, transform_in, transform_out
from .winograd_weights import Kernels, buffer_of, reader, transform_kernels

__all__ = ["FEW", "FEW_TILES", "FewTilesForward", "TransformFewTiles", "block_size"]

#: vectors of channels whose weights are transformed at once
_BLOCK = 2

FEW_TILES = Words(*SHAPE_WORDS, "tiles", *SLOT_WORDS, "data*", "products*")
_WEIGHTS = ("depth_stride", "filter_stride", "group_stride", "weights_at")
FEW = Words(*SHAPE_WORDS, *_WEIGHTS, "tiles", *SLOT_WORDS, "products*", "weight*", "out*")


def block_size(lanes: int) -> int:
    """Return the distance of the elements of a tile in a block of transformed weights.

    At a multiple of 4096 bytes, all elements would compete for the same few sets of the L1 cache.
    """
    return (_BLOCK * lanes * WIDTH + 1) * lanes


@dataclasses.dataclass(frozen=True)
class TransformFewTiles:
    """The kernel that transforms tiles of data; an item of its range is a group of an image.

    The result has the shape (groups, elements of a tile, blocks of channels, tiles of all images, lanes).
    """

    lanes: int
    tiling: Tiling

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        walk = WinogradWriter(name, self, FEW_TILES)
        e, lanes = walk.e, str(self.lanes)
        data, products = FEW_TILES.pointer(e, "data"), FEW_TILES.pointer(e, "products")
        tiles = FEW_TILES.index(e, "tiles")
        group_size = e.times(walk["data_step"], str(self.tiling.elements))

        def item(index: Index, slot: str) -> None:
            image, group = e.split(index, walk["groups"])
            source = e.at(data, e.times(index, e.times(walk["channels"], walk.pixels)))
            band = walk.band("0")
            target = e.at(products, e.times(group, group_size), e.times(e.times(image, band.tiles), lanes))
            walk.take_data(source, band, slot, target, (e.times(tiles, lanes), lanes))

        in_slot(e, FEW_TILES, lambda slot: e.for_each("%lo", "%hi", lambda index: item(index, slot)))
        return module(
            turn_in(f"{name}_turn_in", self.lanes),
            transform_in(f"{name}_transform_in", self.lanes, self.tiling),
            e,
        )


@dataclasses.dataclass(frozen=True)
class FewTilesForward:
    """The kernel that multiplies; an item of its range is a pair of vectors of filters of a group.

    ``rows`` tiles are multiplied at once. ``flipped`` means that kernels are flipped; those of filters are adjacent
    then, otherwise those of channels.
    """

    lanes: int
    tiling: Tiling
    rows: int
    flipped: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        walk = WinogradWriter(name, self, FEW)
        e, lanes, width = walk.e, str(self.lanes), str(WIDTH * self.lanes)
        walk.number.update({word: FEW.index(e, word) for word in (*_WEIGHTS, "tiles")})
        products, weight, out = [FEW.pointer(e, operand) for operand in ("products", "weight", "out")]
        taps = self.tiling.taps
        buffer = buffer_of(e, taps)
        group_size = e.times(walk["data_step"], str(self.tiling.elements))
        pairs = e.quotient(e.plus(walk["filters"], str(WIDTH * self.lanes - 1)), width)

        def item(index: Index, slot: str) -> None:
            group, pair = e.split(index, pairs)
            filters = e.times(pair, width)
            left = e.minus(walk["filters"], filters)
            kernels = e.at(weight, e.times(group, walk["group_stride"]), e.times(filters, walk["filter_stride"]))
            sums = e.at(slot, walk["sums_at"])
            data = e.at(products, e.times(group, group_size))

            def block(first: Index) -> None:
                count = e.least(str(_BLOCK * self.lanes), e.minus(walk["channels"], first))
                here = e.at(kernels, e.times(first, walk["depth_stride"]))
                numbers = e.at(slot, walk["weights_at"])
                strides = walk["depth_stride"], walk["filter_stride"]
                self._transform(walk, buffer, numbers, Kernels(here, *strides, count, left))
                source = e.at(data, e.times(first, walk["tiles"]))
                adding = e.assign(f"zext i1 {e.test('sgt', first, '0')} to i64")
                self._multiply(walk, source, numbers, sums, count, adding)

            e.for_each("0", walk["channels"], block, str(_BLOCK * self.lanes))
            band = walk.band("0")

            def image(number: Index) -> None:
                at = e.plus(e.times(number, walk["groups"]), group)
                target = e.at(out, e.times(e.plus(e.times(at, walk["filters"]), filters), walk.out_pixels))
                found = e.at(sums, e.times(e.times(number, band.tiles), lanes))
                put(walk, target, band, e.at(slot, walk["picture_at"]), found, left)

            e.for_each("0", walk["batch"], image)

        in_slot(e, FEW, lambda slot: e.for_each("%lo", "%hi", lambda index: item(index, slot)))
        return module(
            turn_out(f"{name}_turn_out", self.lanes),
            transform_out(f"{name}_transform_out", self.lanes, self.tiling),
            mix(f"{name}_mix", self.lanes, self.rows, WIDTH, adding=True),
            reader(f"{name}_read", self.lanes, taps, adjacent=self.flipped),
            e,
        )

    def _transform(self, walk: WinogradWriter, buffer: str, target: str, kernels: Kernels) -> None:
        """Write the transform of weights, to (elements of a tile, channels, two vectors of filters)."""
        e, size, element = walk.e, self.tiling.x.size, block_size(self.lanes)

        def vector(lane: Index) -> None:
            source = e.at(kernels.source, e.times(lane, kernels.filter_stride))

            def store(channel: Index) -> Callable[[int, int, Value], None]:
                place = e.at(target, e.times(channel, str(WIDTH * self.lanes)), lane)
                return lambda row, column, value: e.store(place, str((row * size + column) * element), value)

            some = kernels._replace(source=source, filters=e.minus(kernels.filters, lane))
            transform_kernels(e, f"{walk.name}_read", self.tiling, self.flipped, buffer, some, store)

        # missing filters are zeros
        e.for_each("0", str(WIDTH * self.lanes), vector, str(self.lanes))

    def _multiply(
        self, walk: WinogradWriter, data: str, numbers: str, sums: str, channels: Index, adding: Index
    ) -> None:
        """Write the products of all elements of tiles for some channels."""
        e = walk.e
        block_line = e.times(walk["tiles"], str(self.lanes))

        def element(number: Index) -> None:
            source = e.at(data, e.times(number, walk["data_step"]))
            target = e.at(sums, e.times(number, walk["sums_step"]))
            factors = e.at(numbers, e.times(number, str(block_size(self.lanes))))

            def some(tile: Index) -> None:
                place = e.times(tile, str(self.lanes))
                e.invoke(
                    f"{walk.name}_mix",
                    *(f"i64 {channels}", f"ptr {e.at(source, place)}", f"i64 {block_line}"),
                    *(f"ptr {factors}", f"ptr {e.at(target, place)}", f"i64 {block_line}", f"i64 {adding}"),
                )

            e.for_each("0", walk["tiles"], some, str(self.rows))

        e.for_each("0", str(self.tiling.elements), element)
