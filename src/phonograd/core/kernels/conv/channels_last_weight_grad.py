"""Channels-last weight gradient in single precision, for enough channels to fill vectors.

Data and gradients are copied to pictures, whose elements are vectors of channels and of filters. The elements of a box
of windows at a tap are at a constant stride. So the gradient of every tap is a sum of outer products of elements of
both pictures, which stays in registers: (channels x windows) · (windows x filters). Nothing is gathered.

An item of work is a part of the images, with sums of its own. A last kernel adds them up
(:class:`~phonograd.core.kernels.conv.winograd_weight_grad.AddParts`).
"""

from __future__ import annotations

import dataclasses

from ...base.dtypes import FLOAT32
from ...lower.ir.function_builder import Index, Value
from ..launch import Words
from ..routine import Routine, module
from ..scratch import SLOT_WORDS, in_slot
from .microkernels import WIDTH
from .winograd_channels_last import turn_in

__all__ = ["CHANNELS_LAST", "ChannelsLastWeightGrad"]

_NUMBERS = (
    *("groups", "channels", "filters", "taps", "rows", "columns", "out_rows", "out_columns"),
    *("stride_y", "stride_x", "pad_y", "pad_x", "span_y", "span_x", "box_y", "box_x", "grid_y", "grid_x"),
    *("call_y", "call_x", "line", "data_size", "grads_at", "grad_line", "grad_size", "units", "part_units"),
)
#: the unnamed words are the offsets of taps in a picture
CHANNELS_LAST = Words(*_NUMBERS, *SLOT_WORDS, "data*", "out_grad*", "sums*")


@dataclasses.dataclass(frozen=True)
class ChannelsLastWeightGrad:
    """The kernel; an item of its range is a part of the boxes of all images, and a group."""

    lanes: int

    @property
    def rows(self) -> int:
        """Number of channels multiplied at once."""
        return max(4, self.lanes // 2)

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e, width = Routine(name, self.lanes, FLOAT32), str(WIDTH * self.lanes)
        number = {word: CHANNELS_LAST.index(e, word) for word in _NUMBERS}
        data, out_grad, sums = [CHANNELS_LAST.pointer(e, operand) for operand in ("data", "out_grad", "sums")]
        pixels = e.times(number["rows"], number["columns"])
        windows = e.times(number["out_rows"], number["out_columns"])
        pairs = e.quotient(e.plus(number["filters"], str(WIDTH * self.lanes - 1)), width)
        pair_lines = e.times(e.times(number["channels"], number["taps"]), width)

        def item(index: Index, slot: str) -> None:
            part, group = e.split(index, number["groups"])
            start = e.times(part, number["part_units"])
            target = e.at(sums, e.times(index, e.times(pairs, pair_lines)))
            grads = e.at(slot, number["grads_at"])

            def unit(unit_number: Index) -> None:
                rest, x = e.split(unit_number, number["grid_x"])
                image, y = e.split(rest, number["grid_y"])
                first = e.times(y, number["box_y"]), e.times(x, number["box_x"])
                sizes = (
                    e.least(number["box_y"], e.minus(number["out_rows"], first[0])),
                    e.least(number["box_x"], e.minus(number["out_columns"], first[1])),
                )
                at = e.plus(e.times(image, number["groups"]), group)
                source = e.at(data, e.times(at, e.times(number["channels"], pixels)))
                grad = e.at(out_grad, e.times(at, e.times(number["filters"], windows)))
                self._turn_data(e, number, slot, source, pixels, first, sizes)
                self._turn_gradients(e, number, grads, grad, windows, first, sizes)
                is_first = e.test("eq", unit_number, start)

                def call(top: Index, left: Index) -> None:
                    # this part of the gradients stays in the L1 cache for all channels and taps
                    box = (
                        *(e.least(number["call_y"], e.minus(sizes[0], top)), top),
                        *(e.least(number["call_x"], e.minus(sizes[1], left)), left),
                    )
                    fresh = e.logical_and(is_first, e.logical_and(e.test("eq", top, "0"), e.test("eq", left, "0")))
                    adding = e.select_index(fresh, "0", "1")

                    def pair(which: Index) -> None:
                        lines = e.at(target, e.times(which, pair_lines))
                        self._multiply(e, number, slot, grads, which, lines, box, adding)

                    e.for_each("0", pairs, pair)

                def line(top: Index) -> None:
                    e.for_each("0", sizes[1], lambda left: call(top, left), number["call_x"])

                e.for_each("0", sizes[0], line, number["call_y"])

            e.for_each(start, e.least(number["units"], e.plus(start, number["part_units"])), unit)

        in_slot(e, CHANNELS_LAST, lambda slot: e.for_each("%lo", "%hi", lambda index: item(index, slot)))
        return module(
            turn_in(f"{name}_turn_in", self.lanes),
            _outer(f"{name}_wide", self.lanes, self.rows, WIDTH),
            _outer(f"{name}_narrow", self.lanes, self.rows, 1),
            e,
        )

    def _turn_data(
        self,
        e: Routine,
        number: dict[str, Index],
        pictures: str,
        image: str,
        pixels: Index,
        first: tuple[Index, Index],
        sizes: tuple[Index, Index],
    ) -> None:
        """Write the calls that make the pictures of all channels, for the data under a box of windows."""
        start, extent = [], []
        for axis, begin, count in zip("yx", first, sizes):
            stride = number[f"stride_{axis}"]
            start.append(e.minus(e.times(begin, stride), number[f"pad_{axis}"]))
            extent.append(e.plus(e.times(e.minus(count, "1"), stride), number[f"span_{axis}"]))

        def block(channel: Index) -> None:
            picture = e.at(pictures, e.times(e.quotient(channel, str(self.lanes)), number["data_size"]))
            # lines of all pictures are as long as those of the largest
            e.invoke(
                f"{e.name}_turn_in",
                *(f"ptr {picture}", f"ptr {e.at(image, e.times(channel, pixels))}", f"i64 {pixels}"),
                *(f"i64 {e.minus(number['channels'], channel)}", f"i64 {number['rows']}", f"i64 {number['columns']}"),
                *(f"i64 {start[0]}", f"i64 {start[1]}", f"i64 {extent[0]}"),
                f"i64 {e.quotient(number['line'], str(self.lanes))}",
            )

        e.for_each("0", number["channels"], block, str(self.lanes))

    def _turn_gradients(
        self,
        e: Routine,
        number: dict[str, Index],
        pictures: str,
        image: str,
        windows: Index,
        first: tuple[Index, Index],
        sizes: tuple[Index, Index],
    ) -> None:
        """Write the calls that make the pictures of the gradients of all filters in a box of windows."""

        def vector(filters: Index) -> None:
            picture = e.at(pictures, e.times(e.quotient(filters, str(self.lanes)), number["grad_size"]))
            e.invoke(
                f"{e.name}_turn_in",
                *(f"ptr {picture}", f"ptr {e.at(image, e.times(filters, windows))}", f"i64 {windows}"),
                *(f"i64 {e.minus(number['filters'], filters)}", f"i64 {number['out_rows']}"),
                *(f"i64 {number['out_columns']}", f"i64 {first[0]}", f"i64 {first[1]}", f"i64 {sizes[0]}"),
                f"i64 {e.quotient(number['grad_line'], str(self.lanes))}",
            )

        e.for_each("0", number["filters"], vector, str(self.lanes))

    def _multiply(
        self,
        e: Routine,
        number: dict[str, Index],
        pictures: str,
        grads: str,
        pair: Index,
        lines: str,
        box: tuple[Index, Index, Index, Index],
        adding: Index,
    ) -> None:
        """Write the sums of all channels and taps for two vectors of filters."""
        height, top, width, left = box
        lanes, both = str(self.lanes), str(WIDTH * self.lanes)
        filters = e.minus(number["filters"], e.times(pair, both))
        place = e.plus(e.times(top, number["grad_line"]), e.times(left, lanes))
        grad = e.at(grads, e.times(e.times(pair, str(WIDTH)), number["grad_size"]), place)
        step = e.times(number["stride_x"], lanes)
        data_line = e.times(number["stride_y"], number["line"])
        corner = e.plus(e.times(top, data_line), e.times(left, step))
        places = CHANNELS_LAST.tail(e)

        def channels(channel: Index) -> None:
            block, rest = e.split(channel, lanes)
            picture = e.at(pictures, e.times(block, number["data_size"]), e.plus(corner, rest))
            result = e.at(lines, e.times(e.times(channel, number["taps"]), both))

            def tap(at: Index) -> None:
                arguments = [
                    *(f"i64 {height}", f"i64 {width}", f"ptr {e.at(picture, e.load_word(places, at))}"),
                    *(f"i64 {data_line}", f"i64 {step}", f"ptr {grad}", f"i64 {number['grad_line']}"),
                    *(f"i64 {number['grad_size']}", f"ptr {e.at(result, e.times(at, both))}"),
                    f"i64 {e.times(number['taps'], both)}",
                    *(f"i64 {e.minus(number['channels'], channel)}", f"i64 {adding}"),
                ]
                wide = e.test("sgt", filters, lanes)
                e.when(
                    wide,
                    lambda: e.invoke(f"{e.name}_wide", *arguments),
                    lambda: e.invoke(f"{e.name}_narrow", *arguments),
                )

            e.for_each("0", number["taps"], tap)

        e.for_each("0", number["channels"], channels, str(self.rows))


def _outer(name: str, lanes: int, rows: int, width: int) -> Routine:
    """Return the routine that sums up outer products of some channels and one or two vectors of filters.

    Its arguments are the sizes of a box; both operands with the distances of their lines, of elements of the first and
    of vectors of the second; the result and the distance of its lines; the number of existing lines, and whether to add
    to the result.
    """
    arguments = (
        "i64 %height, i64 %width, ptr noalias %first, i64 %first_line, i64 %first_step, "
        "ptr noalias %second, i64 %second_line, i64 %second_vector, "
        "ptr noalias %result, i64 %result_line, i64 %rows, i64 %add"
    )
    e = Routine(name, lanes, FLOAT32, arguments, inner=True)

    def line(y: Index, sums: list[Value]) -> list[Value]:
        first = e.at("%first", e.times(y, "%first_line"))
        second = [
            e.at("%second", e.times(y, "%second_line"), e.times(str(vector), "%second_vector"))
            for vector in range(width)
        ]

        def window(x: Index, partial: list[Value]) -> list[Value]:
            vectors = [e.get(place, e.times(x, str(lanes))) for place in second]
            numbers = e.at(first, e.times(x, "%first_step"))
            found = []
            for row in range(rows):
                number = e.get_splat(numbers, str(row))
                found += [e.fma(number, vector, partial[row * width + v]) for v, vector in enumerate(vectors)]
            return found

        return e.loop("0", "%width", "1", sums, window)

    sums = e.loop("0", "%height", "1", [e.zeros()] * (rows * width), line)

    def write(adding: bool) -> None:
        for row in range(rows):

            def put(row: int = row) -> None:
                target = e.at("%result", e.times(str(row), "%result_line"))
                for vector in range(width):
                    value, offset = sums[row * width + vector], str(vector * lanes)
                    e.store(target, offset, e.add(e.get(target, offset), value) if adding else value)

            e.when(e.test("slt", str(row), "%rows"), put)

    e.when(e.test("ne", "%add", "0"), lambda: write(True), lambda: write(False))
    return e
