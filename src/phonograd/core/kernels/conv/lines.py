"""Forward pass of few filters: products read the elements of windows from frames, without panels of columns.

Copying a panel takes as long as multiplying it with six filters or so, and pays for many filters only. Here two vectors
of windows, parts of one line or two whole lines, are read at each tap from the frame of a box, in which they are
contiguous. Sums have the order of :mod:`~phonograd.core.kernels.conv.im2col`, and the same bits, but vectors are not
full at the ends of lines. :mod:`~phonograd.core.kernels.conv.plan` launches it. See docs/decisions/0019.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..epilogue import Epilogue, Finish, write_stores
from ..routine import Routine
from .geometry import round_up
from .im2col import Box, Im2colForward, Im2colWriter
from .microkernels import WIDTH

__all__ = ["LinesForward", "suits"]

#: filters that are multiplied in the time of copying a panel (6 on an AMD EPYC, Zen 4, both with AVX2 and AVX-512)
_COPIED_FILTERS = 6


def suits(lanes: int, width: int, filters: int) -> bool:
    """Return whether the lanes that lines of windows leave empty take less time than panels of columns.

    >>> suits(16, 28, 8), suits(16, 28, 64), suits(16, 17, 8), suits(16, 112, 64)
    (True, False, False, True)
    """
    return filters * round_up(width, lanes) < (filters + _COPIED_FILTERS) * width


@dataclasses.dataclass(frozen=True)
class LinesForward(Im2colForward):
    """The kernel; it has the items of :class:`.Im2colForward` without joined images."""

    def _products(self, walk: Im2colWriter) -> list[Routine]:
        basic = self.lanes, self.dtype, self.rows
        return [_product(f"{walk.name}_lines_{width}", *basic, width, self.epilogue) for width in range(1, WIDTH + 1)]

    def _called(self) -> list[str]:
        return ["fill"]

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
        """Write the loop over blocks of channels, and the products of pairs of vectors with some tiles of filters."""
        e = walk.e
        result, result_line = target
        depth, height, width = windows[1].sizes
        lanes = str(self.lanes)
        # vectors beside each other are parts of a line, or lines
        is_narrow = e.test("sle", width, lanes)
        beside = e.select_index(is_narrow, walk["line"], lanes)
        result_beside = e.select_index(is_narrow, width, lanes)
        line_step = e.select_index(is_narrow, str(WIDTH), "1")

        def block(first: Index) -> None:
            channels = e.least(walk["block"], e.minus(walk["channels"], first))
            seen = make(first, channels)
            adding = e.assign(f"zext i1 {e.test('sgt', first, '0')} to i64")
            complete = e.assign(f"zext i1 {e.test('eq', e.plus(first, channels), walk['channels'])} to i64")
            numbers = e.at(weight, e.times(e.times(first, walk["taps"]), str(self.rows)))

            def multiply(z: Index, y: Index, x: Index, number: Index) -> None:
                row = e.times(number, str(self.rows))
                column = e.plus(e.times(e.plus(e.times(z, height), y), width), x)
                place = e.at(seen, e.times(z, walk["plane"]), e.times(y, walk["line"]), x)
                left = e.minus(width, x)
                has_line = e.test("slt", e.plus(y, "1"), height)
                rest = e.most(e.least(e.minus(left, lanes), lanes), "0")
                others = e.select_index(is_narrow, e.select_index(has_line, width, "0"), rest)
                arguments = [
                    *(f"i64 {channels}", f"i64 {walk['channel']}", f"i64 {walk['taps']}", f"ptr {walk.taps}"),
                    f"ptr {e.at(numbers, e.times(number, self._depth(walk)))}",
                    *(f"ptr {place}", f"i64 {beside}"),
                    *(f"ptr {e.at(result, e.times(row, result_line), column)}", f"i64 {result_line}"),
                    *(f"i64 {result_beside}", f"i64 {e.minus(walk['filters'], row)}", f"i64 {adding}"),
                    *(f"i64 {e.least(left, lanes)}", f"i64 {others}"),
                ]
                if self.epilogue is not None:
                    channel = e.plus(e.times(group_number, walk["filters"]), row)
                    arguments += [f"ptr {walk.context}", f"i64 {channel}", f"i64 {complete}"]
                name = f"{walk.name}_lines_"
                e.when(
                    e.test("sgt", others, "0"),
                    lambda: e.invoke(f"{name}{WIDTH}", *arguments),
                    lambda: e.invoke(f"{name}1", *arguments),
                )

            # tile after tile, so that the result is stored along its lines
            def tile(number: Index) -> None:
                def line(z: Index, y: Index) -> None:
                    e.for_each("0", width, lambda x: multiply(z, y, x, number), str(WIDTH * self.lanes))

                e.for_each("0", depth, lambda z: e.for_each("0", height, lambda y: line(z, y), line_step))

            e.for_each(*tiles, tile)

        e.for_each("0", walk["channels"], block, walk["block"])


def _product(name: str, lanes: int, dtype: DType, rows: int, width: int, epilogue: Epilogue | None) -> Routine:
    """Return the routine of a product of some filters and ``width`` vectors of windows.

    ``%seen`` is the first element of the windows at the first tap, and ``%places`` has the offsets of taps. The second
    vector is ``%beside`` elements after the first one, and ``%result_beside`` in the result, whose lines are filters.
    ``%columns`` and ``%columns_beside`` windows of the vectors exist.
    """
    arguments = (
        "i64 %channels, i64 %channel_step, i64 %taps, ptr noalias %places, ptr noalias %first, ptr noalias %seen, "
        "i64 %beside, ptr noalias %result, i64 %result_line, i64 %result_beside, i64 %rows, i64 %add, i64 %columns, "
        "i64 %columns_beside"
    )
    arguments += "" if epilogue is None else ", ptr noalias %context, i64 %channel, i64 %complete"
    e = Routine(name, lanes, dtype, arguments, inner=True)
    counts = ["%columns", "%columns_beside"][:width]
    vectors = range(width)

    def channel(number: Index, sums: list[Value]) -> list[Value]:
        here = e.at("%seen", e.times(number, "%channel_step"))
        numbers = e.at("%first", e.times(e.times(number, "%taps"), str(rows)))

        def tap(index: Index, found: list[Value]) -> list[Value]:
            place = e.at(here, e.load_word("%places", index))
            windows = [e.get(place, e.times(str(vector), "%beside")) for vector in vectors]
            factors, totals = e.at(numbers, e.times(index, str(rows))), []
            for row in range(rows):
                # loaded where it is used: earlier, all factors would take the registers of sums
                factor = e.get_splat(factors, str(row))
                totals += [e.fma(factor, windows[vector], found[row * width + vector]) for vector in vectors]
            return totals

        return e.loop("0", "%taps", "1", sums, tap)

    sums = e.loop("0", "%channels", "1", [e.zeros()] * (rows * width), channel)
    masks = [e.below(count) for count in counts]

    def write(adding: bool, finish: Finish | None) -> None:
        def row(number: int) -> None:
            """Write the stores of a filter."""
            operands = {} if finish is None else finish.row(e.plus("%channel", str(number)))
            for vector in vectors:
                place = e.times(str(number), "%result_line"), e.times(str(vector), "%result_beside")
                target, value, mask = e.at("%result", *place), sums[number * width + vector], masks[vector]
                value = e.add(e.get_where(target, mask), value) if adding else value
                if finish is not None:
                    value = finish.value(operands, value, target, "0", mask)
                put(target, value, vector)

        for number in range(rows):
            e.when(e.test("slt", str(number), "%rows"), functools.partial(row, number))

    def put(target: str, value: Value, vector: int) -> None:
        # masked stores take ten times as long with AVX2
        e.when(
            e.test("eq", counts[vector], str(lanes)),
            lambda: e.store(target, "0", value),
            lambda: e.store_where(target, "0", value, masks[vector]),
        )

    def write_sums(finish: Finish | None) -> None:
        e.when(e.test("ne", "%add", "0"), lambda: write(True, finish), lambda: write(False, finish))

    write_stores(epilogue, e, write_sums)
    return e
