"""Depthwise convolutions of small images, with channels in the lanes of vectors.

Lines of small images do not fill vectors. Here the kernel transposes as many channels as a vector has lanes to a padded
copy of the image, one vector per pixel, whose borders stay zeros. It adds up taps in the order of
:mod:`~phonograd.core.kernels.conv.depthwise` and :mod:`~phonograd.core.kernels.conv.direct`, with the same bits, and
transposes the sums back.
"""

from __future__ import annotations

import dataclasses

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..epilogue import COLUMN, Epilogue, Finish, entry
from ..routine import Routine, module
from .depthwise import DEPTHWISE
from .geometry import Geometry

__all__ = ["SmallDepthwise", "most_lanes", "suits"]

#: maximum number of pixels of a padded image: the copy and the sums stay in a part of the L1 cache
MOST_PIXELS = 384
#: bytes of a vector: squares of 8 by 8 numbers are transposed faster than those of 16 by 16, groups fill such
#: vectors, and the copy takes half of the L1 cache (1.08 to 1.42 times as fast on an AMD EPYC, Zen 4)
_VECTOR_BYTES = 32
#: widths of kernels; the weights of wider ones leave no registers
_SIDES = (3, 5)

_SIZES = ("pixels", "windows", "extent_y", "extent_x", "count_y", "count_x", "pad_y", "pad_x", "weight_group")


def most_lanes(lanes: int, dtype: DType) -> int:
    """Return the number of lanes of this kernel on a machine with vectors of some lanes.

    >>> import numpy as np
    >>> most_lanes(16, np.dtype("float32")), most_lanes(8, np.dtype("float64")), most_lanes(4, np.dtype("float32"))
    (8, 4, 4)
    """
    return min(lanes, _VECTOR_BYTES // dtype.itemsize)


def suits(lanes: int, shape: Geometry) -> bool:
    """Return whether channels fill vectors, images are small, and kernels are squares without gaps."""
    side, stride = shape.kernel[2], shape.stride[2]
    is_square = shape.kernel == (1, side, side) and side in _SIDES and shape.stride == (1, stride, stride)
    if not is_square or stride > 2 or shape.dilate != (1, 1, 1) or shape.counts[0] > 1 or shape.extent[0] > 1:
        return False
    padded = (shape.extent[1] + 2 * shape.pad[1]) * (shape.extent[2] + 2 * shape.pad[2])
    is_filled = shape.groups % lanes == 0 and min(shape.pixels, shape.windows) >= lanes
    return shape.filters == shape.channels == 1 and is_filled and padded <= MOST_PIXELS and lanes > 1


@dataclasses.dataclass(frozen=True)
class SmallDepthwise:
    """The kernel of a convolution with one channel and one filter per group; an item is a vector of groups."""

    dtype: DType
    lanes: int
    side: int
    """Width and height of the kernel."""
    stride: int
    """Stride along both axes: 1 or 2."""
    flipped: bool
    """True if kernels are flipped, as the data gradient needs them."""
    epilogue: Epilogue | None = None

    def finished(self, epilogue: Epilogue) -> SmallDepthwise | None:
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
        words = MOST_PIXELS * self.lanes * self.dtype.itemsize // 8
        padded, sums, places = e.scratch(words), e.scratch(words), e.scratch(MOST_PIXELS)
        finishing = [] if self.epilogue is None else [f"ptr {self.epilogue.context(e)}"]
        data, weight, out = [DEPTHWISE.pointer(e, operand) for operand in ("data", "weight", "out")]
        number = {word: DEPTHWISE.index(e, word) for word in ("groups", *_SIZES)}
        width, height = [e.plus(number[f"extent_{axis}"], e.times(number[f"pad_{axis}"], "2")) for axis in "xy"]
        e.clear(padded, e.times(e.times(width, height), str(self.lanes)))

        def line(y: Index) -> None:
            def place(x: Index) -> None:
                at = e.total(e.times(e.plus(y, number["pad_y"]), width), x, number["pad_x"])
                e.store_word(places, e.plus(e.times(y, number["extent_x"]), x), e.times(at, str(self.lanes)))

            e.for_each("0", number["extent_x"], place)

        e.for_each("0", number["extent_y"], line)
        blocks = e.quotient(number["groups"], str(self.lanes))

        def item(index: Index) -> None:
            _, block = e.split(index, blocks)
            first, group = e.times(index, str(self.lanes)), e.times(block, str(self.lanes))
            where = e.at(data, e.times(first, number["pixels"])), e.at(weight, e.times(group, number["weight_group"]))
            pointers = padded, sums, places, *where, e.at(out, e.times(first, number["windows"]))
            arguments = [f"ptr {pointer}" for pointer in pointers]
            e.invoke(f"{name}_image", "ptr %table", *arguments, *[f"{each}, i64 {group}" for each in finishing])

        e.for_each("%lo", "%hi", item)
        return _image(self, f"{name}_image"), e


def _image(kernel: SmallDepthwise, name: str) -> Routine:
    """Return the routine for some channels of an image."""
    arguments = ", ".join([f"ptr noalias %{each}" for each in ("table", "padded", "sums", "places")])
    arguments += ", ptr noalias %image, ptr noalias %weight, ptr noalias %target"
    arguments += "" if kernel.epilogue is None else ", ptr noalias %context, i64 %channel"
    e = Routine(name, kernel.lanes, kernel.dtype, arguments, inner=True)
    e.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    number = {word: DEPTHWISE.index(e, word) for word in _SIZES}
    lanes = range(e.lanes)

    def copy(first: Index) -> None:
        # the last vectors overlap those before them
        at = e.least(first, e.minus(number["pixels"], str(e.lanes)))
        lines = [e.get("%image", e.plus(e.times(str(lane), number["pixels"]), at)) for lane in lanes]
        for lane, vector in enumerate(e.transpose(lines)):
            # the next channels follow in memory
            soon = e.at("%image", e.times(str(e.lanes + lane), number["pixels"]), at)
            e.line(f"call void @llvm.prefetch.p0(ptr {soon}, i32 0, i32 2, i32 1)")
            e.store("%padded", e.load_word("%places", e.plus(at, str(lane))), vector)

    e.for_each("0", number["pixels"], copy, str(e.lanes))
    weights = _weights(kernel, e, number["weight_group"])
    width = e.plus(number["extent_x"], e.times(number["pad_x"], "2"))

    def line(y: Index) -> None:
        above = e.times(y, str(kernel.stride))
        lines = [
            e.at("%padded", e.times(e.times(e.plus(above, str(tap)), width), str(e.lanes)))
            for tap in range(kernel.side)
        ]
        sums = e.at("%sums", e.times(e.times(y, number["count_x"]), str(e.lanes)))

        def add(x: Index) -> None:
            left, total = e.times(x, str(kernel.stride * e.lanes)), e.zeros()
            for tap, factor in enumerate(weights):
                beside = e.plus(left, str(tap % kernel.side * e.lanes))
                total = e.fma(factor, e.get(lines[tap // kernel.side], beside), total)
            e.store(sums, e.times(x, str(e.lanes)), total)

        e.for_each("0", number["count_x"], add)

    e.for_each("0", number["count_y"], line)
    finish = None if kernel.epilogue is None else Finish(kernel.epilogue, e)

    def store(first: Index) -> None:
        at = e.least(first, e.minus(number["windows"], str(e.lanes)))
        vectors = [e.get("%sums", e.times(e.plus(at, str(lane)), str(e.lanes))) for lane in lanes]
        for lane, value in enumerate(e.transpose(vectors)):
            target = e.at("%target", e.times(str(lane), number["windows"]))
            if finish is not None:
                value = finish.value(finish.row(e.plus("%channel", str(lane))), value, target, at)
            e.store(target, at, value)

    e.for_each("0", number["windows"], store, str(e.lanes))
    return e


def _weights(kernel: SmallDepthwise, e: Routine, distance: Index) -> list[Value]:
    """Return the weights of each tap, one lane for each channel."""
    lines, taps = [e.times(str(lane), distance) for lane in range(e.lanes)], kernel.side**2
    found: list[Value] = []
    while len(found) + e.lanes <= taps:
        found += e.transpose([e.get("%weight", e.plus(line, str(len(found)))) for line in lines])
    for tap in range(len(found), taps):
        found.append(e.load_each("%weight", [e.plus(line, str(tap)) for line in lines], e.dtype))
    return found[::-1] if kernel.flipped else found
