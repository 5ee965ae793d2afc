"""Forward pass of many filters, which fill the lanes of vectors: neither panels of columns nor empty lanes.

A tile multiplies vectors of filters with some windows of a line (or of a few short lines), whose elements are broadcast
from the frame of a box, where they are contiguous at each tap. Tiles have as many windows as lines divide into evenly.
Sums of a box stay in a slot until all channels are added; then squares of them are transposed in registers, so that
they are stored along the lines of the result. Sums have the order of :mod:`~phonograd.core.kernels.conv.im2col`, and
the same bits. :mod:`~phonograd.core.kernels.conv.plan` launches it. See docs/decisions/0019.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

from ...base.dtypes import DType
from ...graph.node import Shape
from ...lower.ir.function_builder import Index, Value
from ..epilogue import Epilogue, Finish
from ..routine import Routine
from .geometry import evenly, round_up
from .im2col import Box, Im2colForward, Im2colWriter
from .microkernels import WIDTH

__all__ = ["FilterLanes", "suits", "windows_of_tile"]

#: windows of two vectors that registers must have room for, and the share of them that a tile must have: smaller tiles
#: read weights too often (with 16 registers, 0.9 to 1.0 of the speed of panels)
_LEAST_ROOM, _LEAST_SHARE = 14, 0.5
#: filters that are multiplied in the time of copying a panel of columns (see :mod:`.lines`), and steps of a sum in the
#: time of storing a result in two passes (both with AVX-512 on an AMD EPYC, Zen 4)
_COPIED_FILTERS, _STORED_STEPS = 6, 16
#: time of a product of one vector relative to two
_NARROW = 0.6
#: steps of a sum after which a line of weights is read that is prefetched
_AHEAD = 16


def windows_of_tile(box: Shape, most: int) -> tuple[int, int]:
    """Return the windows of a line in a tile, and the lines, for registers of ``most`` windows.

    >>> windows_of_tile((1, 17, 17), 14), windows_of_tile((1, 7, 7), 14), windows_of_tile((1, 10, 4), 14)
    ((9, 1), (7, 2), (4, 3))
    """
    width = evenly(box[2], most)
    return width, evenly(box[1], most // width) if width == box[2] else 1


def suits(lanes: int, most: int, box: Shape, columns: int, filters: int, depth: int) -> bool:
    """Return whether filters that fill lanes take less time than panels of ``columns`` windows.

    Registers have room for ``most`` windows or filters of two vectors; ``depth`` is the length of a sum.

    >>> inception, few_filters, tiny = ((1, 17, 17), 289, 192, 896), ((1, 28, 28), 784, 20, 500), ((1, 2, 2), 4, 99, 99)
    >>> suits(16, 14, *inception), suits(16, 14, *few_filters), suits(16, 14, *tiny), suits(8, 6, *inception)
    (True, False, False, False)
    """
    whole, rest = divmod(columns, WIDTH * lanes)
    panels = whole + (1 if rest > lanes else _NARROW if rest else 0)
    other = panels * WIDTH * lanes / columns * (round_up(filters, evenly(filters, most)) + _COPIED_FILTERS)
    own = round_up(filters, lanes) * (1 + _STORED_STEPS / depth)
    has_room = most >= _LEAST_ROOM and math.prod(windows_of_tile(box, most)) >= _LEAST_SHARE * most
    return has_room and own < other


@dataclasses.dataclass(frozen=True)
class FilterLanes(Im2colForward):
    """The kernel; it has the items of :class:`.Im2colForward` without joined images.

    ``rows`` is a number of whole vectors of filters.
    """

    tile_windows: int = dataclasses.field(default=1, kw_only=True)
    tile_lines: int = dataclasses.field(default=1, kw_only=True)

    @property
    def _tiles(self) -> tuple[tuple[int, int], ...]:
        """Windows and lines of tiles: whole ones, those that are one smaller, and those of any rest."""
        size = self.tile_lines if self.tile_lines > 1 else self.tile_windows
        sizes = dict.fromkeys([size, max(size - 1, 1), 1])
        return tuple([(self.tile_windows, each) if self.tile_lines > 1 else (each, 1) for each in sizes])

    def _products(self, walk: Im2colWriter) -> list[Routine]:
        basic = self.lanes, self.dtype, self.rows
        products = [
            _product(_name_of(walk, *tile, vectors), *basic, *tile, vectors)
            for tile in self._tiles
            for vectors in range(1, self.rows // self.lanes + 1)
        ]
        return [*products, _turn_out(f"{walk.name}_turn_out", *basic, self.epilogue)]

    def _called(self) -> list[str]:
        """Return the kinds of the other routines."""
        return [] if self.plain else ["fill"]

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
        """Write the loop over blocks of channels, and the products of some vectors of filters with all windows."""
        e, rows = walk.e, str(self.rows)
        result, result_line = target
        columns, (depth, height, width) = windows[0], windows[1].sizes
        sums = e.at(slot, walk["joined_at"])

        def block(first: Index) -> None:
            channels = e.least(walk["block"], e.minus(walk["channels"], first))
            seen = make(first, channels)
            adding = e.assign(f"zext i1 {e.test('sgt', first, '0')} to i64")
            numbers = e.at(weight, e.times(e.times(first, walk["taps"]), rows))
            is_complete = e.test("eq", e.plus(first, channels), walk["channels"])

            def tile(number: Index) -> None:
                weights = e.at(numbers, e.times(number, self._depth(walk)))
                place = e.at(sums, e.times(e.minus(number, tiles[0]), e.times(columns, rows)))
                row = e.times(number, rows)
                left = e.minus(walk["filters"], row)

                def multiply(tile: tuple[int, int], z: Index, y: Index, x: Index) -> None:
                    window = e.plus(e.times(e.plus(e.times(z, height), y), width), x)
                    arguments = [
                        *(f"i64 {channels}", f"i64 {walk['channel']}", f"i64 {walk['taps']}", f"ptr {walk.taps}"),
                        f"ptr {weights}",
                        f"ptr {e.at(seen, e.times(z, walk['plane']), e.times(y, walk['line']), x)}",
                        *(f"i64 {walk['line']}", f"ptr {e.at(place, e.times(window, rows))}", f"i64 {width}"),
                        f"i64 {adding}",
                    ]
                    self._by_vectors(walk, tile, left, arguments)

                self._for_each_tile(walk, (depth, height, width), multiply)

                def finish() -> None:
                    arguments = [
                        f"ptr {e.at(result, e.times(row, result_line))}",
                        *(f"i64 {result_line}", f"ptr {place}", f"i64 {columns}", f"i64 {left}"),
                    ]
                    if self.epilogue is not None:
                        channel = e.plus(e.times(group_number, walk["filters"]), row)
                        arguments += [f"ptr {walk.context}", f"i64 {channel}"]
                    e.invoke(f"{walk.name}_turn_out", *arguments)

                e.when(is_complete, finish)

            e.for_each(*tiles, tile)

        e.for_each("0", walk["channels"], block, walk["block"])

    def _by_vectors(self, walk: Im2colWriter, tile: tuple[int, int], filters: Index, arguments: list[str]) -> None:
        """Write the call of a product for as many vectors as have filters."""
        e = walk.e

        def fewer(vectors: int) -> None:
            call = functools.partial(e.invoke, _name_of(walk, *tile, vectors), *arguments)
            if vectors == 1:
                call()
            else:
                e.when(e.test("sgt", filters, str((vectors - 1) * self.lanes)), call, lambda: fewer(vectors - 1))

        fewer(self.rows // self.lanes)

    def _for_each_tile(
        self,
        walk: Im2colWriter,
        sizes: tuple[Index, Index, Index],
        body: Callable[[tuple[int, int], Index, Index, Index], None],
    ) -> None:
        """Write the loop over the tiles of a box: ``body(windows and lines, z, y, x)``."""
        e = walk.e
        depth, height, width = sizes
        several = self.tile_lines > 1
        size, count = (self.tile_lines, height) if several else (self.tile_windows, width)
        tiles = e.quotient(e.plus(count, str(size - 1)), str(size))
        # so many tiles at the end are one smaller
        smaller = e.minus(e.times(tiles, str(size)), count)
        are_even = e.test("sle", smaller, tiles) if size > 1 else e.test("eq", smaller, "0")
        whole = e.minus(tiles, smaller)
        after = e.times(whole, str(size))
        kinds = self._tiles

        def all_along(z: Index, y: Index) -> None:
            def at(tile: tuple[int, int], place: Index) -> None:
                body(tile, z, *((place, "0") if several else (y, place)))

            def even() -> None:
                e.for_each("0", after, lambda place: at(kinds[0], place), str(size))
                if size > 1:
                    e.for_each(after, count, lambda place: at(kinds[1], place), str(size - 1))

            e.when(are_even, even, lambda: e.for_each("0", count, lambda place: at(kinds[-1], place)))

        def plane(z: Index) -> None:
            if several:
                all_along(z, "0")
            else:
                e.for_each("0", height, lambda y: all_along(z, y))

        e.for_each("0", depth, plane)


def _name_of(walk: Im2colWriter, windows: int, lines: int, vectors: int) -> str:
    return f"{walk.name}_lanes_{windows}_{lines}_{vectors}"


def _product(name: str, lanes: int, dtype: DType, rows: int, windows: int, lines: int, vectors: int) -> Routine:
    """Return the routine of a product of some vectors of filters and some windows of some lines.

    ``%seen`` is the first element of the windows at the first tap, and ``%places`` has the offsets of taps. Lines are
    ``%line`` elements apart. Sums have ``rows`` filters for each window, and ``%sums_line`` windows in a line.
    """
    arguments = (
        "i64 %channels, i64 %channel_step, i64 %taps, ptr noalias %places, ptr noalias %weights, ptr noalias %seen, "
        "i64 %line, ptr noalias %sums, i64 %sums_line, i64 %add"
    )
    e = Routine(name, lanes, dtype, arguments, inner=True)
    distances = [e.times(str(line), "%line") for line in range(lines)]

    def channel(number: Index, sums: list[Value]) -> list[Value]:
        here = e.at("%seen", e.times(number, "%channel_step"))
        numbers = e.at("%weights", e.times(e.times(number, "%taps"), str(rows)))

        def tap(index: Index, found: list[Value]) -> list[Value]:
            place = e.at(here, e.load_word("%places", index))
            weights = e.at(numbers, e.times(index, str(rows)))
            for start in range(0, vectors * lanes, lanes):
                e.prefetch(weights, str(_AHEAD * rows + start))
            filters = [e.get(weights, str(vector * lanes)) for vector in range(vectors)]
            totals: list[Value] = []
            for line in distances:
                first = e.at(place, line)
                for window in range(windows):
                    element = e.get_splat(first, str(window))
                    done = len(totals)
                    totals += [e.fma(filters[v], element, found[done + v]) for v in range(vectors)]
            return totals

        return e.loop("0", "%taps", "1", sums, tap)

    sums = e.loop("0", "%channels", "1", [e.zeros()] * (windows * lines * vectors), channel)
    places = [
        (e.at("%sums", e.times(e.times(str(line), "%sums_line"), str(rows))), str(window * rows + vector * lanes))
        for line in range(lines)
        for window in range(windows)
        for vector in range(vectors)
    ]

    def write(adding: bool) -> None:
        for (pointer, offset), value in zip(places, sums, strict=True):
            e.store(pointer, offset, e.add(e.get(pointer, offset), value) if adding else value)

    e.when(e.test("ne", "%add", "0"), lambda: write(True), lambda: write(False))
    return e


def _turn_out(name: str, lanes: int, dtype: DType, rows: int, epilogue: Epilogue | None) -> Routine:
    """Return the routine that stores the sums of ``%columns`` windows, of which each has ``rows`` filters.

    ``%filters`` of them exist, whose lines are ``%result_line`` elements apart. With an ``epilogue``, its operands and
    the number of the first filter among all channels are the last arguments. Sums of windows that do not exist are
    read, up to a square.
    """
    arguments = "ptr noalias %result, i64 %result_line, ptr noalias %sums, i64 %columns, i64 %filters"
    arguments += "" if epilogue is None else ", ptr noalias %context, i64 %channel"
    e = Routine(name, lanes, dtype, arguments)
    finish = None if epilogue is None else Finish(epilogue, e)

    def square(window: Index, vector: Index) -> None:
        mask = e.below(e.minus("%columns", window))
        found = [e.get("%sums", e.plus(e.times(e.plus(window, str(each)), str(rows)), vector)) for each in range(lanes)]

        def store(lane: int, value: Value) -> None:
            row = e.plus(vector, str(lane))
            target = e.at("%result", e.times(row, "%result_line"))
            if finish is not None:
                value = finish.value(finish.row(e.plus("%channel", row)), value, target, window, mask)
            e.store_where(target, window, value, mask)

        for lane, value in enumerate(e.transpose(found)):
            e.when(e.test("slt", e.plus(vector, str(lane)), "%filters"), functools.partial(store, lane, value))

    def vectors(window: Index) -> None:
        e.for_each("0", e.least("%filters", str(rows)), lambda vector: square(window, vector), str(lanes))

    e.for_each("0", "%columns", vectors, str(lanes))
    return e
