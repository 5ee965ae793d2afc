"""Direct convolutions: few channels and filters per group (mostly depthwise), too few for matrix products.

Every output is summed up in a register, tap by tap, from a frame of the image that fits the L1 cache. The unnamed words
of the table hold a pair for each tap, channel after channel: its offset in the frame and its offset in the weights.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Words
from ..routine import Routine, module
from ..scratch import SLOT_WORDS, in_slot
from .adjoint import ADJOINT_WORDS, KnownTaps, collect
from .padding import FRAME_WORDS, fill

__all__ = ["DIRECT", "SPREAD", "SUMS", "TOTALS", "AddLanes", "DirectConvolution", "DirectDataGrad", "DirectWeightGrad"]

_SHAPE = (
    *("groups", "channels", "filters", "taps", "pixels", "windows"),
    *("count_z", "count_y", "count_x", "box_z", "box_y", "box_x", "grid_z", "grid_y", "grid_x"),
)
DIRECT = Words(*_SHAPE, "weight_group", "weight_filter", *FRAME_WORDS, *SLOT_WORDS, "data*", "weight*", "out*")
SUMS = Words(*_SHAPE, "batch", "image_block", *FRAME_WORDS, *SLOT_WORDS, "data*", "out_grad*", "sums*")
TOTALS = Words("parts", "count", "sums*", "out*")
SPREAD = Words(
    *("groups", "channels", "filters", "taps", "pixels", "windows", "count_z", "count_y", "count_x"),
    *ADJOINT_WORDS,
    *SLOT_WORDS,
    *("out_grad*", "weight*", "out*"),
)


class _Boxes:
    """Writes one kernel: boxes of windows and their frames."""

    def __init__(self, name: str, kernel: DirectConvolution | DirectWeightGrad, words: Words) -> None:
        self.name = name
        self.e = e = Routine(name, kernel.lanes, kernel.dtype)
        self.number = {word: words.index(e, word) for word in (*_SHAPE, "plane", "line", "channel")}

    def __getitem__(self, word: str) -> Index:
        return self.number[word]

    def for_each_box(self, slot: str, image: str, body: Callable[[Index, list[Index]], None]) -> None:
        """Write the loop over boxes: fill the frame, then ``body(index of the first window, sizes)``."""
        e = self.e

        def box(z: Index, y: Index, x: Index) -> None:
            first = [e.times(at, self[f"box_{axis}"]) for axis, at in zip("zyx", (z, y, x))]
            sizes = [
                e.least(self[f"box_{axis}"], e.minus(self[f"count_{axis}"], start)) for axis, start in zip("zyx", first)
            ]
            where = [f"i64 {number}" for number in (*first, *sizes)]

            def channel(c: Index) -> None:
                frame, source = e.at(slot, e.times(c, self["channel"])), e.at(image, e.times(c, self["pixels"]))
                e.invoke(f"{self.name}_fill", "ptr %table", f"ptr {frame}", f"ptr {source}", *where)

            e.for_each("0", self["channels"], channel)
            start = e.plus(e.times(e.plus(e.times(first[0], self["count_y"]), first[1]), self["count_x"]), first[2])
            body(start, sizes)

        def plane(z: Index) -> None:
            e.for_each("0", self["grid_y"], lambda y: e.for_each("0", self["grid_x"], lambda x: box(z, y, x)))

        e.for_each("0", self["grid_z"], plane)


@dataclasses.dataclass(frozen=True)
class DirectConvolution:
    """The kernel of a convolution; an item is a group of an image. ``lines`` are summed up at once."""

    dtype: DType
    lanes: int
    x_stride: int
    lines: int = 4
    taps: int = 0
    """Number of taps of all channels if the kernel is specialized for it, else 0."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        boxes = _Boxes(name, self, DIRECT)
        e = boxes.e
        data, weight, out = [DIRECT.pointer(e, operand) for operand in ("data", "weight", "out")]
        group_stride, filter_stride = DIRECT.index(e, "weight_group"), DIRECT.index(e, "weight_filter")
        lines_of_boxes = e.times(boxes["grid_z"], boxes["grid_y"])
        is_one_box = e.test("eq", e.times(lines_of_boxes, boxes["grid_x"]), "1")
        is_one_column = e.select_index(e.test("eq", boxes["grid_x"], "1"), "1", "0")

        def item(index: Index, slot: str) -> None:
            image = e.at(data, e.times(index, e.times(boxes["channels"], boxes["pixels"])))
            target = e.at(out, e.times(index, e.times(boxes["filters"], boxes["windows"])))
            _, group = e.split(index, boxes["groups"])
            numbers = e.at(weight, e.times(group, group_stride))
            # what is stored beyond the end of a line is overwritten by lines that are computed after it: those of the
            # same image, and of all images of the range if each is one box
            images = e.times(e.minus("%hi", index), boxes["filters"])

            def box(start: Index, sizes: list[Index]) -> None:
                def one(number: Index) -> None:
                    first = e.times(number, boxes["windows"])
                    later = e.select_index(is_one_box, e.minus(images, number), is_one_column)
                    limit = e.minus(e.times(later, boxes["windows"]), start)
                    weights = e.at(numbers, e.times(number, filter_stride))
                    self._filter(boxes, e.at(target, first, start), slot, weights, sizes, limit)

                e.for_each("0", boxes["filters"], one)

            boxes.for_each_box(slot, image, box)

        in_slot(e, DIRECT, lambda slot: e.for_each("%lo", "%hi", lambda index: item(index, slot)))
        filling = fill(f"{name}_fill", self.lanes, self.dtype, DIRECT, self.x_stride)
        return module(filling, self._lines(f"{name}_lines", self.lines), self._lines(f"{name}_line", 1), e)

    def _filter(self, boxes: _Boxes, target: str, frame: str, numbers: str, sizes: list[Index], limit: Index) -> None:
        """Write the sums of one filter for a box, some lines at a time.

        Lines may store up to the limit from the target on, in elements.
        """
        e = boxes.e
        depth, height, width = sizes
        taps = e.times(boxes["channels"], boxes["taps"])
        several = e.times(e.quotient(height, str(self.lines)), str(self.lines))

        def plane(z: Index) -> None:
            def some(routine: str) -> Callable[[Index], None]:
                def lines(y: Index) -> None:
                    begin = e.times(e.plus(e.times(z, height), y), width)
                    place = e.at(target, begin)
                    seen = e.at(frame, e.times(z, boxes["plane"]), e.times(y, boxes["line"]))
                    e.invoke(
                        f"{boxes.name}_{routine}",
                        *(f"ptr {place}", f"ptr {seen}", f"ptr {numbers}", f"ptr {DIRECT.tail(e)}", f"i64 {taps}"),
                        *(f"i64 {width}", f"i64 {boxes['line']}", f"i64 {e.minus(limit, begin)}"),
                    )

                return lines

            e.for_each("0", several, some("lines"), str(self.lines))
            e.for_each(several, height, some("line"))

        e.for_each("0", depth, plane)

    def _lines(self, name: str, count: int) -> Routine:
        """Return the routine that sums up some adjacent lines of windows."""
        arguments = (
            "ptr noalias %target, ptr noalias %frame, ptr noalias %weight, ptr noalias %places, i64 %taps, "
            "i64 %width, i64 %line, i64 %limit"
        )
        e = Routine(name, self.lanes, self.dtype, arguments, inner=True)
        last, mask = e.tail("%width")

        def sums(index: Index) -> list[Value]:
            here = e.at("%frame", index)

            def tap(number: Index, partial: list[Value]) -> list[Value]:
                pair = e.address("%places", e.times(number, "2"), "i64")
                seen = e.at(here, e.load_word(pair, "0"))
                factor = e.get_splat("%weight", e.load_word(pair, "1"))
                return [e.fma(factor, e.get(seen, e.times(str(line), "%line")), partial[line]) for line in range(count)]

            if not self.taps:
                return e.loop("0", "%taps", "1", [e.zeros()] * count, tap)
            found = [e.zeros()] * count
            for number in range(self.taps):
                found = tap(str(number), found)
            return found

        def vector(index: Index) -> None:
            for line, value in enumerate(sums(index)):
                e.store("%target", e.plus(index, e.times(str(line), "%width")), value)

        def end(line: int, value: Value) -> None:
            place = e.plus(last, e.times(str(line), "%width"))
            # masked stores take ten times as long
            e.when(
                e.test("sle", e.plus(place, str(self.lanes)), "%limit"),
                lambda: e.store("%target", place, value),
                lambda: e.store_where("%target", place, value, mask),
            )

        # first the ends of lines, which store beyond them
        for line, value in enumerate(sums(last)):
            end(line, value)
        e.for_each("0", last, vector, str(self.lanes))
        return e


@dataclasses.dataclass(frozen=True)
class DirectDataGrad:
    """The kernel of the data gradient with one channel per group and any stride; an item is a group of an image.

    Every line of data is the sum of lines of gradients times weights.
    """

    dtype: DType
    lanes: int
    known: KnownTaps

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, self.dtype)
        number = {word: SPREAD.index(e, word) for word in ("groups", "filters", "taps", "pixels", "windows")}
        counts = [SPREAD.index(e, f"count_{axis}") for axis in "zyx"]
        out_grad, weight, out = [SPREAD.pointer(e, operand) for operand in ("out_grad", "weight", "out")]

        def item(index: Index, slot: str) -> None:
            _, group = e.split(index, number["groups"])
            e.invoke(
                f"{name}_collect",
                "ptr %table",
                f"ptr {e.at(out, e.times(index, number['pixels']))}",
                f"ptr {e.at(out_grad, e.times(index, e.times(number['filters'], number['windows'])))}",
                f"i64 {number['windows']}",
                f"ptr {slot}",
                *("i64 0", "i64 0", "i64 0"),
                *[f"i64 {count}" for count in counts],
                f"ptr {e.at(weight, e.times(group, e.times(number['filters'], number['taps'])))}",
                f"i64 {number['filters']}",
            )

        in_slot(e, SPREAD, lambda slot: e.for_each("%lo", "%hi", lambda index: item(index, slot)))
        gathering = collect(f"{name}_collect", self.lanes, self.dtype, SPREAD, self.known, weighted=True)
        return module(gathering, e)


@dataclasses.dataclass(frozen=True)
class DirectWeightGrad:
    """The kernel of the weight gradient; an item of its range is a block of images, and a group.

    Sums are vectors whose lanes :class:`AddLanes` adds up. ``together`` taps are summed up at once.
    """

    dtype: DType
    lanes: int
    x_stride: int
    together: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        boxes = _Boxes(name, self, SUMS)
        e = boxes.e
        data, out_grad, sums = [SUMS.pointer(e, operand) for operand in ("data", "out_grad", "sums")]
        batch, image_block = SUMS.index(e, "batch"), SUMS.index(e, "image_block")
        taps = e.times(boxes["channels"], boxes["taps"])
        filter_size = e.times(taps, str(self.lanes))

        def item(index: Index, slot: str) -> None:
            part, group = e.split(index, boxes["groups"])
            target = e.at(sums, e.times(index, e.times(boxes["filters"], filter_size)))
            e.clear(target, e.times(boxes["filters"], filter_size))
            first = e.times(part, image_block)

            def image(number: Index) -> None:
                place = e.plus(e.times(number, boxes["groups"]), group)
                source = e.at(data, e.times(place, e.times(boxes["channels"], boxes["pixels"])))
                grad = e.at(out_grad, e.times(place, e.times(boxes["filters"], boxes["windows"])))

                def box(start: Index, sizes: list[Index]) -> None:
                    def one(number: Index) -> None:
                        seen = e.at(grad, e.times(number, boxes["windows"]), start)
                        into = e.at(target, e.times(number, filter_size))
                        self._filter(boxes, into, slot, seen, taps, sizes)

                    e.for_each("0", boxes["filters"], one)

                boxes.for_each_box(slot, source, box)

            e.for_each(first, e.least(batch, e.plus(first, image_block)), image)

        in_slot(e, SUMS, lambda slot: e.for_each("%lo", "%hi", lambda index: item(index, slot)))
        filling = fill(f"{name}_fill", self.lanes, self.dtype, SUMS, self.x_stride)
        return module(filling, self._taps(f"{name}_taps"), e)

    def _filter(self, boxes: _Boxes, target: str, frame: str, grad: str, taps: Index, sizes: list[Index]) -> None:
        e = boxes.e

        def some(first: Index) -> None:
            e.invoke(
                f"{boxes.name}_taps",
                *(f"ptr {target}", f"ptr {frame}", f"ptr {grad}", f"ptr {SUMS.tail(e)}"),
                *(f"i64 {first}", f"i64 {taps}", *[f"i64 {size}" for size in sizes]),
                *(f"i64 {boxes['plane']}", f"i64 {boxes['line']}"),
            )

        e.for_each("0", taps, some, str(self.together))

    def _taps(self, name: str) -> Routine:
        """Return the routine that adds products of gradients and elements at some taps to the sums of these taps."""
        arguments = (
            "ptr noalias %sums, ptr noalias %frame, ptr noalias %grad, ptr noalias %places, i64 %first, i64 %taps, "
            "i64 %depth, i64 %height, i64 %width, i64 %plane, i64 %line"
        )
        e = Routine(name, self.lanes, self.dtype, arguments, inner=True)
        last, mask = e.tail("%width")
        end = e.minus("%taps", "1")
        # missing taps read the elements of the last one; their sums are not stored
        taps = [e.least(e.plus("%first", str(number)), end) for number in range(self.together)]
        seen = [e.at("%frame", e.load_word("%places", e.times(tap, "2"))) for tap in taps]
        places = [e.at("%sums", e.times(tap, str(self.lanes))) for tap in taps]

        def plane(z: Index, sums: list[Value]) -> list[Value]:
            def line(y: Index, sums: list[Value]) -> list[Value]:
                here = e.plus(e.times(z, "%plane"), e.times(y, "%line"))
                grad = e.at("%grad", e.times(e.plus(e.times(z, "%height"), y), "%width"))

                def vector(index: Index, partial: list[Value]) -> list[Value]:
                    factor, place = e.get(grad, index), e.plus(here, index)
                    return [e.fma(factor, e.get(tap, place), value) for tap, value in zip(seen, partial)]

                sums = e.loop("0", last, str(self.lanes), sums, vector)
                factor, place = e.get_where(grad, mask, last), e.plus(here, last)
                return [e.fma(factor, e.get_where(tap, mask, place), value) for tap, value in zip(seen, sums)]

            return e.loop("0", "%height", "1", sums, line)

        sums = e.loop("0", "%depth", "1", [e.zeros()] * self.together, plane)
        for number, (place, value) in enumerate(zip(places, sums)):
            exists = e.test("slt", e.plus("%first", str(number)), "%taps")
            e.when(exists, lambda place=place, value=value: e.store(place, "0", e.add(e.get(place), value)))  # type: ignore[misc]
        return e


@dataclasses.dataclass(frozen=True)
class AddLanes:
    """The kernel that adds up the sums of all parts and their lanes; an item is an element of the weights."""

    dtype: DType
    lanes: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, self.dtype)
        parts, count = TOTALS.index(e, "parts"), TOTALS.index(e, "count")
        sums, out = TOTALS.pointer(e, "sums"), TOTALS.pointer(e, "out")
        part_size = e.times(count, str(self.lanes))

        def item(index: Index) -> None:
            place = e.at(sums, e.times(index, str(self.lanes)))
            (total,) = e.loop(
                "1",
                parts,
                "1",
                [e.get(place)],
                lambda part, found: [e.add(found[0], e.get(place, e.times(part, part_size)))],
            )
            e.store_first(out, index, e.lane_sums([total]))

        e.for_each("%lo", "%hi", item)
        return module(e)
