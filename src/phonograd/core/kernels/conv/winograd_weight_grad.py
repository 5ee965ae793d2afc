"""Winograd weight gradient.

Tiles of data and of gradients are transformed and multiplied; the products are (channels x tiles) · (tiles x filters),
one for each element of a tile. They are computed for a *block* of some channels and two vectors of filters at a time
and transformed back while they are in the cache, so that only sums of the size of the weights are kept. These have
*lines* of two vectors of filters, one for each element of the kernel of each channel.

With few weights, an item of work is a part of the images, with sums of its own, which are added up at the end
(:class:`WeightGradParts`, :class:`AddParts`). With many weights there is no room for many sums. Then all tiles of some
images are transformed first, and an item is a part of the weights (:class:`WeightGradTiles`,
:class:`WeightGradBlocks`), so threads can share the work of a few images. The sums of further images are added to those
before.
"""

from __future__ import annotations

import dataclasses

from ...base.dtypes import FLOAT32
from ...lower.ir.function_builder import Index, Value
from ..launch import Words
from ..routine import Routine, module
from ..scratch import SLOT_WORDS, in_slot
from .microkernels import WIDTH, product
from .winograd import SHAPE_WORDS, Band, WinogradWriter
from .winograd_channels_last import turn_in
from .winograd_transforms import Tiling, kernel_sides, transform_gradient, transform_in, transposed, two_sided

__all__ = ["BLOCKS", "PARTS", "TILES", "TOTAL", "AddParts", "WeightGradBlocks", "WeightGradParts", "WeightGradTiles"]

PARTS = Words(*SHAPE_WORDS, "units", "part_units", "products_at", *SLOT_WORDS, "data*", "out_grad*", "sums*")
TOTAL = Words("groups", "channels", "filters", "taps", "parts", "sums*", "out*")
TILES = Words(*SHAPE_WORDS, "first_band", *SLOT_WORDS, "data*", "tiles*")
_NUMBERS = (
    *("groups", "channels", "filters", "tiles", "data_step", "sums_step"),
    *("blocks", "parts", "part_blocks", "lines_at", "first", "last"),
)
BLOCKS = Words(*_NUMBERS, *SLOT_WORDS, "data*", "grad*", "sums*", "out*")


@dataclasses.dataclass(frozen=True)
class WinogradWeightGrad:
    """Base class of the kernels."""

    lanes: int
    tiling: Tiling

    @property
    def rows(self) -> int:
        """Number of channels multiplied at once: two vectors wide, so many sums keep the multipliers busy."""
        return max(4, self.lanes // 2)

    @property
    def channels(self) -> int:
        """Number of channels in a block: the lanes of a vector."""
        return self.lanes

    @property
    def width(self) -> int:
        """Number of filters in a block."""
        return WIDTH * self.lanes

    @property
    def taps(self) -> int:
        """Number of elements in a kernel."""
        return self.tiling.taps

    @property
    def elements(self) -> int:
        """Number of elements in a tile."""
        return self.tiling.elements

    # -- tiles

    def take_data(self, walk: WinogradWriter, image: str, band: Band, picture: str, tiles: str, block: Index) -> None:
        """Write the code that makes the tiles of a block of channels of an image: (blocks, elements, tiles, lanes)."""
        e, line = walk.e, str(self.lanes)
        channel = e.times(block, str(self.channels))
        existing = e.least(str(self.channels), e.minus(walk["channels"], channel))
        target = e.at(tiles, e.times(block, e.times(walk["data_step"], str(self.elements))))
        walk.data_block(image, band, picture, target, ("0", line))(channel, existing)

    def take_gradients(
        self, walk: WinogradWriter, image: str, band: Band, picture: str, tiles: str, vector: Index
    ) -> None:
        """Write the code that makes the tiles of a vector of filters: (pairs, elements, tiles, two vectors)."""
        e, line = walk.e, str(self.width)
        filters = e.times(vector, str(self.lanes))
        existing = e.least(str(self.lanes), e.minus(walk["filters"], filters))
        pair, half = e.split(vector, str(WIDTH))
        size = e.times(walk["sums_step"], str(self.elements))
        target = e.at(tiles, e.times(pair, size), e.times(half, str(self.lanes)))
        sizes = walk["filters"], walk["out_rows"], walk["out_columns"], walk.out_pixels
        rows = target, walk["sums_step"], line, e.times(band.columns, line)
        walk.gradient_block(image, sizes, band, picture, rows, "0")(filters, existing)

    # -- products

    def add_block(
        self,
        e: Routine,
        operands: tuple[str, str],
        steps: tuple[Index, Index],
        tiles: Index,
        sizes: tuple[Index, Index],
        products: str,
        sums: tuple[str, str, Index],
    ) -> None:
        """Write the code that multiplies a block, transforms it back and adds it to lines.

        ``operands`` are tiles of data and of gradients, and ``steps`` the distances of their elements. ``sizes`` are
        the numbers of channels and filters from the first of the block on. ``sums`` are the address of the result, the
        address of the lines to add, and whether there are none yet.
        """
        channels, filters = sizes
        into, before, is_first = sums

        def half(number: Index) -> None:
            done = e.times(number, str(self.rows))
            left = e.minus(channels, done)

            def some() -> None:
                count = e.least(str(self.rows), left)
                data, grads = operands
                self._multiply(e, (e.at(data, done), grads), steps, tiles, products, count, filters)
                line = e.times(done, str(self.taps * self.width))
                self._back(e, products, count, filters, (e.at(into, line), e.at(before, line), is_first))

            e.when(e.test("sgt", left, "0"), some)

        e.for_each("0", str(self.channels // self.rows), half)

    def _multiply(
        self,
        e: Routine,
        operands: tuple[str, str],
        steps: tuple[Index, Index],
        tiles: Index,
        products: str,
        count: Index,
        filters: Index,
    ) -> None:
        """Write the products of all elements of tiles: (elements of a tile, channels, two vectors of filters)."""
        lanes, width = str(self.lanes), str(self.width)
        (data, grads), (data_step, grad_step) = operands, steps

        def multiply_all(routine: str, *more: str) -> None:
            def element(at: Index) -> None:
                e.invoke(
                    f"{e.name}_{routine}",
                    f"i64 {tiles}",
                    *(f"ptr {e.at(data, e.times(at, data_step))}", f"i64 {lanes}"),
                    *(f"ptr {e.at(grads, e.times(at, grad_step))}", f"i64 {width}"),
                    *(f"ptr {e.at(products, e.times(at, str(self.rows * self.width)))}", f"i64 {width}"),
                    *(f"i64 {count}", "i64 0", *more),
                )

            e.for_each("0", str(self.elements), element)

        e.when(
            e.test("sgt", filters, lanes), lambda: multiply_all("wide"), lambda: multiply_all("narrow", f"i64 {lanes}")
        )

    def _back(self, e: Routine, products: str, count: Index, filters: Index, sums: tuple[str, str, Index]) -> None:
        """Write the transform of products back to lines."""
        into, before, is_first = sums
        size, kernel = self.tiling.x.size, self.tiling.x.kernel
        known = e.below(e.select_index(is_first, "0", str(self.lanes)))

        def row(at: Index) -> None:
            def vector(lane: Index) -> None:
                found = e.at(products, e.times(at, str(self.width)), lane)
                place = e.plus(e.times(at, str(self.taps * self.width)), lane)

                def load(row: int, column: int) -> Value:
                    return e.get(found, str((row * size + column) * self.rows * self.width))

                def store(row: int, column: int, value: Value) -> None:
                    line = e.plus(place, str((row * kernel + column) * self.width))
                    e.store(into, line, e.add(value, e.get_where(before, known, line)))

                two_sided(e, transposed(kernel_sides(self.tiling)), load, store)

            e.for_each("0", e.least(filters, str(self.width)), vector, str(self.lanes))

        e.for_each("0", count, row)

    def routines(self, name: str) -> list[Routine]:
        """Return the routines that compute products."""
        known = self.lanes, FLOAT32, self.rows
        return [product(f"{name}_wide", *known, WIDTH, masked=False), product(f"{name}_narrow", *known, 1, masked=True)]

    def transforms(self, name: str, data: bool = True, gradients: bool = True) -> list[Routine]:
        """Return the routines that make tiles."""
        found = [turn_in(f"{name}_turn_in", self.lanes)]
        if data:
            found.append(transform_in(f"{name}_transform_in", self.lanes, self.tiling))
        if gradients:
            found.append(transform_gradient(f"{name}_transform_gradient", self.lanes, self.tiling))
        return found


def turn_lines(name: str, lanes: int) -> Routine:
    """Return the routine that transposes ``%count`` lines and stores them to the weights.

    Lines of several parts, at a distance of ``%part_size``, are added up. ``%filters`` of two vectors exist.
    """
    arguments = (
        "ptr noalias %out, ptr noalias %lines, i64 %filter_size, i64 %filters, i64 %count, i64 %parts, i64 %part_size"
    )
    e = Routine(name, lanes, FLOAT32, arguments)
    width = WIDTH * lanes

    def vector(lane: Index) -> None:
        left = e.minus("%filters", lane)

        def square(first: Index) -> None:
            mask = e.below(e.minus("%count", first))
            source = e.at("%lines", e.times(first, str(width)), lane)

            def lines(part: str) -> list[Value]:
                # lines beyond the last are read but not stored
                return [e.get(part, str(number * width)) for number in range(lanes)]

            def add(part: Index, sums: list[Value]) -> list[Value]:
                more = lines(e.at(source, e.times(part, "%part_size")))
                return [e.add(total, value) for total, value in zip(sums, more)]

            for place, value in enumerate(e.transpose(e.loop("1", "%parts", "1", lines(source), add))):
                at = e.plus(e.times(e.plus(lane, str(place)), "%filter_size"), first)
                exists = e.test("slt", str(place), left)
                e.when(exists, lambda value=value, at=at: e.store_where("%out", at, value, mask))  # type: ignore[misc]

        e.for_each("0", "%count", square, str(lanes))

    e.for_each("0", e.least("%filters", str(width)), vector, str(lanes))
    return e


@dataclasses.dataclass(frozen=True)
class WeightGradParts(WinogradWeightGrad):
    """The kernel for few weights; an item of its range is a part of the images, and a group."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        walk = WinogradWriter(name, self, PARTS)
        e = walk.e
        walk.number.update({word: PARTS.index(e, word) for word in ("units", "part_units", "products_at")})
        data, out_grad, sums = [PARTS.pointer(e, operand) for operand in ("data", "out_grad", "sums")]
        steps = walk["data_step"], walk["sums_step"]
        blocks = e.quotient(e.plus(walk["channels"], str(self.channels - 1)), str(self.channels))
        vectors = e.quotient(e.plus(walk["filters"], str(self.lanes - 1)), str(self.lanes))
        pairs = e.quotient(e.plus(walk["filters"], str(self.width - 1)), str(self.width))
        pair_lines = e.times(walk["channels"], str(self.taps * self.width))

        def item(index: Index, slot: str) -> None:
            part, group = e.split(index, walk["groups"])
            start = e.times(part, walk["part_units"])
            target = e.at(sums, e.times(index, e.times(pairs, pair_lines)))
            grads, products = e.at(slot, walk["sums_at"]), e.at(slot, walk["products_at"])
            picture = e.at(slot, walk["picture_at"])

            def unit(number: Index) -> None:
                some, band_number = e.split(number, walk["bands"])
                first = e.times(some, walk["images"])
                count = e.least(walk["images"], e.minus(walk["batch"], first))
                band = walk.band(band_number)

                def image(number: Index) -> None:
                    at = e.plus(e.times(e.plus(first, number), walk["groups"]), group)
                    source = e.at(data, e.times(at, e.times(walk["channels"], walk.pixels)))
                    into = e.at(slot, e.times(e.times(number, band.tiles), str(self.lanes)))
                    e.for_each("0", blocks, lambda block: self.take_data(walk, source, band, picture, into, block))
                    grad = e.at(out_grad, e.times(at, e.times(walk["filters"], walk.out_pixels)))
                    place = e.at(grads, e.times(e.times(number, band.tiles), str(self.width)))
                    e.for_each(
                        "0", vectors, lambda vector: self.take_gradients(walk, grad, band, picture, place, vector)
                    )

                e.for_each("0", count, image)
                tiles, is_first = e.times(count, band.tiles), e.test("eq", number, start)

                def pair(which: Index) -> None:
                    filters = e.minus(walk["filters"], e.times(which, str(self.width)))
                    there = e.at(grads, e.times(which, e.times(walk["sums_step"], str(self.elements))))

                    def block(at: Index) -> None:
                        channel = e.times(at, str(self.channels))
                        here = e.at(slot, e.times(at, e.times(walk["data_step"], str(self.elements))))
                        lines = e.at(target, e.times(which, pair_lines), e.times(channel, str(self.taps * self.width)))
                        sizes = e.minus(walk["channels"], channel), filters
                        self.add_block(e, (here, there), steps, tiles, sizes, products, (lines, lines, is_first))

                    e.for_each("0", blocks, block)

                e.for_each("0", pairs, pair)

            e.for_each(start, e.least(walk["units"], e.plus(start, walk["part_units"])), unit)

        in_slot(e, PARTS, lambda slot: e.for_each("%lo", "%hi", lambda index: item(index, slot)))
        return module(*self.transforms(name), *self.routines(name), e)


@dataclasses.dataclass(frozen=True)
class AddParts:
    """The kernel that adds up the sums of all parts; an item is two vectors of filters and a vector of channels."""

    lanes: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, FLOAT32)
        number = {word: TOTAL.index(e, word) for word in ("groups", "channels", "filters", "taps", "parts")}
        sums, out = TOTAL.pointer(e, "sums"), TOTAL.pointer(e, "out")
        lanes, width = str(self.lanes), str(WIDTH * self.lanes)
        pairs = e.quotient(e.plus(number["filters"], str(WIDTH * self.lanes - 1)), width)
        blocks = e.quotient(e.plus(number["channels"], str(self.lanes - 1)), lanes)
        filter_size = e.times(number["channels"], number["taps"])
        pair_lines = e.times(filter_size, width)
        part_size = e.times(e.times(number["groups"], pairs), pair_lines)

        def item(index: Index) -> None:
            pair, block = e.split(index, blocks)
            group, which = e.split(pair, pairs)
            channel, filters = e.times(block, lanes), e.times(which, width)
            count = e.least(lanes, e.minus(number["channels"], channel))
            first = e.times(channel, number["taps"])
            target = e.times(e.plus(e.times(group, number["filters"]), filters), filter_size)
            e.invoke(
                f"{name}_turn",
                f"ptr {e.at(out, target, first)}",
                f"ptr {e.at(sums, e.times(pair, pair_lines), e.times(first, width))}",
                *(f"i64 {filter_size}", f"i64 {e.minus(number['filters'], filters)}"),
                *(f"i64 {e.times(count, number['taps'])}", f"i64 {number['parts']}", f"i64 {part_size}"),
            )

        e.for_each("%lo", "%hi", item)
        return module(turn_lines(f"{name}_turn", self.lanes), e)


@dataclasses.dataclass(frozen=True)
class WeightGradTiles(WinogradWeightGrad):
    """The kernel that transforms tiles of data, or of gradients; an item is a block or a vector of an image."""

    gradient: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        walk = WinogradWriter(name, self, TILES)
        e = walk.e
        data, tiles = TILES.pointer(e, "data"), TILES.pointer(e, "tiles")
        band = walk.band(TILES.index(e, "first_band"))
        if self.gradient:
            channels, pixels, most, width, step = walk["filters"], walk.out_pixels, self.lanes, WIDTH, "sums_step"
        else:
            channels, pixels, most, width, step = walk["channels"], walk.pixels, self.channels, 1, "data_step"
        vectors = e.quotient(e.plus(channels, str(most - 1)), str(most))
        blocks = e.quotient(e.plus(vectors, str(width - 1)), str(width))
        group_size = e.times(blocks, e.times(walk[step], str(self.elements)))
        take = self.take_gradients if self.gradient else self.take_data

        def item(index: Index, slot: str) -> None:
            rest, vector = e.split(index, vectors)
            image, group = e.split(rest, walk["groups"])
            source = e.at(data, e.times(rest, e.times(channels, pixels)))
            place = e.times(e.times(image, band.tiles), str(width * self.lanes))
            take(walk, source, band, slot, e.at(tiles, e.times(group, group_size), place), vector)

        in_slot(e, TILES, lambda slot: e.for_each("%lo", "%hi", lambda index: item(index, slot)))
        return module(*self.transforms(name, not self.gradient, self.gradient), e)


@dataclasses.dataclass(frozen=True)
class WeightGradBlocks(WinogradWeightGrad):
    """The kernel for many weights; an item is two vectors of filters, and a part of the channels of a group."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, FLOAT32)
        number = {word: BLOCKS.index(e, word) for word in _NUMBERS}
        data, grad, sums, out = [BLOCKS.pointer(e, operand) for operand in ("data", "grad", "sums", "out")]
        steps = number["data_step"], number["sums_step"]
        data_size, grad_size = [e.times(step, str(self.elements)) for step in steps]
        pairs = e.quotient(e.plus(number["filters"], str(self.width - 1)), str(self.width))
        filter_size = e.times(number["channels"], str(self.taps))
        is_first, is_last = [e.test("ne", number[word], "0") for word in ("first", "last")]

        def item(index: Index, slot: str) -> None:
            pair, part = e.split(index, number["parts"])
            group, which = e.split(pair, pairs)
            filters = e.times(which, str(self.width))
            left = e.minus(number["filters"], filters)
            tiles = e.at(data, e.times(e.times(group, number["blocks"]), data_size))
            grads = e.at(grad, e.times(pair, grad_size))
            here = e.at(slot, number["lines_at"])
            start = e.times(part, number["part_blocks"])

            def block(at: Index) -> None:
                channel = e.times(at, str(self.channels))
                line = e.times(channel, str(self.taps))
                kept = e.at(sums, e.times(e.plus(e.times(pair, filter_size), line), str(self.width)))
                # the first time, all lanes are masked: point to memory that exists
                before = e.assign(f"select i1 {is_first}, ptr {here}, ptr {kept}")
                into = e.assign(f"select i1 {is_last}, ptr {here}, ptr {kept}")
                operands = e.at(tiles, e.times(at, data_size)), grads
                sizes = e.minus(number["channels"], channel), left
                self.add_block(e, operands, steps, number["tiles"], sizes, slot, (into, before, is_first))
                count = e.least(str(self.channels), sizes[0])
                target = e.plus(e.times(e.plus(e.times(group, number["filters"]), filters), filter_size), line)
                turn = [f"ptr {e.at(out, target)}", f"ptr {here}", f"i64 {filter_size}", f"i64 {left}"]
                turn += [f"i64 {e.times(count, str(self.taps))}", "i64 1", "i64 0"]
                e.when(is_last, lambda: e.invoke(f"{name}_turn", *turn))

            e.for_each(start, e.least(number["blocks"], e.plus(start, number["part_blocks"])), block)

        in_slot(e, BLOCKS, lambda slot: e.for_each("%lo", "%hi", lambda index: item(index, slot)))
        return module(*self.routines(name), turn_lines(f"{name}_turn", self.lanes), e)
