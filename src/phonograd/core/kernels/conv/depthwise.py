"""Depthwise convolutions of 3 by 3 kernels with stride 1 or 2, which read images in place.

A vector of outputs moves down an image. Each line of data is loaded for the taps of a line of the kernel, and added to
the sums of all lines of outputs that need it, which stay in registers with the nine weights. Masks leave out elements
beyond the borders. Taps are added in the same order as by :mod:`~phonograd.core.kernels.conv.direct`, with the same
bits; no padded copy of the image is made, which would take longer than the sums.
"""

from __future__ import annotations

import dataclasses

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..deinterleave import inside_mask, sort
from ..epilogue import COLUMN, Epilogue, Finish, entry
from ..launch import Words
from ..matmul.tiles import LINE_BYTES
from ..routine import Routine, module

__all__ = ["DEPTHWISE", "SIDE", "DepthwiseConvolution", "ImageLines", "begins_of"]

#: width and height of the kernel
SIDE = 3

DEPTHWISE = Words(
    *("groups", "pixels", "windows", "extent_y", "extent_x", "count_y", "count_x", "pad_y", "pad_x", "weight_group"),
    *("data*", "weight*", "out*"),
)


@dataclasses.dataclass(frozen=True)
class DepthwiseConvolution:
    """The kernel of a convolution with one channel and one filter per group; an item is a group of an image."""

    dtype: DType
    lanes: int
    stride: int
    """Stride along both axes: 1 or 2."""
    flipped: bool
    """True if kernels are flipped, as the data gradient needs them."""
    epilogue: Epilogue | None = None

    def finished(self, epilogue: Epilogue) -> DepthwiseConvolution | None:
        """Return the kernel with an epilogue."""
        return None if self.epilogue or COLUMN in epilogue.loads else dataclasses.replace(self, epilogue=epilogue)

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        if self.epilogue is None:
            return module(*self._routines(name))
        body = f"{name}_body"
        return module(*self._routines(body), entry(name, self.epilogue, body))

    def _routines(self, name: str) -> tuple[Routine, Routine]:
        e = Routine(name, self.lanes, self.dtype)
        finishing = [] if self.epilogue is None else [f"ptr {self.epilogue.context(e)}"]
        data, weight, out = [DEPTHWISE.pointer(e, operand) for operand in ("data", "weight", "out")]
        words = ("groups", "pixels", "windows", "weight_group")
        number = {word: DEPTHWISE.index(e, word) for word in words}

        def item(index: Index) -> None:
            _, group = e.split(index, number["groups"])
            image, target = e.at(data, e.times(index, number["pixels"])), e.at(out, e.times(index, number["windows"]))
            numbers = e.at(weight, e.times(group, number["weight_group"]))
            places = [f"ptr {place}" for place in (image, numbers, target)]
            # images that are computed after this one overwrite what is stored beyond its end
            limit = e.times(e.minus("%hi", index), number["windows"])
            e.invoke(
                f"{name}_image", "ptr %table", *places, f"i64 {limit}", *[f"{each}, i64 {group}" for each in finishing]
            )

        e.for_each("%lo", "%hi", item)
        return _Image(self, f"{name}_image").routine, e


def begins_of(e: Routine, stride: int) -> list[int]:
    """Return where the vectors begin that are loaded for the taps of a line of the kernel."""
    # with stride 2, two vectors hold the first two taps, and two others the third one
    return list(range(SIDE)) if stride == 1 else [0, e.lanes, 2, e.lanes + 2]


class ImageLines:
    """Writes the loads of lines of an image for a vector of outputs; elements beyond borders are zeros.

    ``number`` has the words of the table, ``x`` is the first output. All elements that an inner vector reads exist.
    """

    def __init__(
        self, e: Routine, number: dict[str, Index], stride: int, x: Index, is_inner: bool, image: str = "%image"
    ) -> None:
        self._e, self._number, self._stride, self._image = e, number, stride, image
        self._first = e.times(x, str(stride))
        self._start = e.minus(self._first, number["pad_x"])
        self._places = [e.plus(self._start, str(begin)) for begin in begins_of(e, stride)]
        self._masks = [] if is_inner else [inside_mask(e, place, number["extent_x"]) for place in self._places]

    def load(self, index: Index, is_there: bool = False) -> list[Value]:
        """Return the vectors of a line of data for the taps of a line of the kernel; outside, zeros."""
        e, number = self._e, self._number
        y = e.minus(index, number["pad_y"])
        line = e.at(self._image, e.times(y, number["extent_x"]))

        def load() -> list[Value]:
            vectors = [e.get(line, place) for place in self._places] if not self._masks else []
            vectors += [e.get_where(line, mask, place) for mask, place in zip(self._masks, self._places)]
            # the next image follows in memory; neighbors of a vector read the line before it
            for line_of_cache in range(0, self._stride * e.lanes, LINE_BYTES // e.dtype.itemsize):
                soon = e.at(line, number["pixels"], self._first, str(line_of_cache))
                e.line(f"call void @llvm.prefetch.p0(ptr {soon}, i32 0, i32 2, i32 1)")
            return vectors if self._stride == 1 else [*sort(e, vectors[:2]), sort(e, vectors[2:])[0]]

        if is_there:
            return load()
        return e.choose(e.test("ult", y, number["extent_y"]), load, lambda: [e.zeros()] * SIDE)


class _Image:
    """Writes the routine for one image."""

    def __init__(self, kernel: DepthwiseConvolution, name: str) -> None:
        self.stride = kernel.stride
        arguments = "ptr noalias %table, ptr noalias %image, ptr noalias %weight, ptr noalias %target, i64 %limit"
        if kernel.epilogue is not None:
            arguments += ", ptr noalias %context, i64 %channel"
        self.routine = e = Routine(name, kernel.lanes, kernel.dtype, arguments, inner=True)
        e.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.finish = None if kernel.epilogue is None else Finish(kernel.epilogue, e)
        self.operands = {} if self.finish is None else self.finish.row("%channel")
        words = ("pixels", "extent_y", "extent_x", "count_y", "count_x", "pad_y", "pad_x")
        self.number = number = {word: DEPTHWISE.index(e, word) for word in words}
        taps = [e.get_splat("%weight", str(tap)) for tap in range(SIDE * SIDE)]
        if kernel.flipped:
            taps.reverse()
        self.weights = [taps[line * SIDE : (line + 1) * SIDE] for line in range(SIDE)]
        self.begins = begins_of(e, self.stride)
        # for so many lines of outputs, the lines of data from the second or third one on exist
        beyond = e.minus(e.plus(number["extent_y"], number["pad_y"]), str(SIDE - 1))
        inside = e.quotient(e.plus(e.most(beyond, "0"), str(self.stride - 1)), str(self.stride))
        is_near = e.test("sle", number["pad_y"], str(SIDE - self.stride))
        self.inside = e.select_index(is_near, e.least(inside, number["count_y"]), "0")
        whole = e.assign(f"and i64 {number['count_x']}, {-e.lanes}")
        e.when(e.test("slt", whole, number["count_x"]), lambda: self._column(whole, is_whole=False))
        e.for_each("0", whole, self._whole_column, str(e.lanes))

    def _whole_column(self, x: Index) -> None:
        e = self.routine
        start = e.minus(e.times(x, str(self.stride)), self.number["pad_x"])
        fits = e.test("sle", e.plus(start, str(self.begins[-1] + e.lanes)), self.number["extent_x"])
        is_inner = e.logical_and(e.test("sge", start, "0"), fits)
        e.when(is_inner, lambda: self._column(x, is_inner=True), lambda: self._column(x))

    def _column(self, x: Index, is_whole: bool = True, is_inner: bool = False) -> None:
        """Write the sums of a vector of outputs on each line; all elements that an inner one reads exist."""
        e, number = self.routine, self.number
        lines = ImageLines(e, number, self.stride, x, is_inner)
        written = e.below(e.minus(number["count_x"], x))
        line_of = lines.load

        def next_line(index: Index, sums: list[Value], is_there: bool) -> list[Value]:
            vectors = line_of(e.plus(index, str(SIDE - 1)), is_there)
            self._store(index, x, self._add(vectors, 2, sums[0]), None if is_whole else written)
            return [self._add(vectors, 1, sums[1]), self._add(vectors, 0, e.zeros())]

        def next_but_one(index: Index, sums: list[Value], is_there: bool) -> list[Value]:
            line = e.times(index, "2")
            middle, last = line_of(e.plus(line, "1"), is_there), line_of(e.plus(line, "2"), is_there)
            total = self._add(last, 2, self._add(middle, 1, sums[0]))
            self._store(index, x, total, None if is_whole else written)
            return [self._add(last, 0, e.zeros())]

        first = self._add(line_of("0"), 0, e.zeros())
        if self.stride == 2:
            following, sums = next_but_one, [first]
        else:
            second = line_of("1")
            following, sums = next_line, [self._add(second, 1, first), self._add(second, 0, e.zeros())]
        sums = e.loop("0", self.inside, "1", sums, lambda index, before: following(index, before, True))
        e.loop(self.inside, number["count_y"], "1", sums, lambda index, before: following(index, before, False))

    def _add(self, vectors: list[Value], line: int, total: Value) -> Value:
        """Return a sum with the taps of a line of the kernel."""
        for factor, vector in zip(self.weights[line], vectors, strict=True):
            total = self.routine.fma(factor, vector, total)
        return total

    def _store(self, line: Index, x: Index, value: Value, written: Value | None) -> None:
        """Write the store of a vector of outputs, all of which exist unless there is a mask."""
        e, finish = self.routine, self.finish
        place = e.plus(e.times(line, self.number["count_x"]), x)
        # the result of the next image follows in memory, too
        soon = e.at("%target", place, e.times(self.number["count_x"], self.number["count_y"]))
        e.line(f"call void @llvm.prefetch.p0(ptr {soon}, i32 1, i32 2, i32 1)")

        def store(mask: Value | None) -> None:
            found = value if finish is None else finish.value(self.operands, value, "%target", place, mask)
            if mask is None:
                e.store("%target", place, found)
            else:
                e.store_where("%target", place, found, mask)

        if written is None:
            store(None)
            return
        # later stores overwrite what is beyond the end of the line; masked ones take ten times as long
        fits = e.test("sle", e.plus(place, str(e.lanes)), "%limit")
        e.when(fits, lambda: store(None), lambda: store(written))
