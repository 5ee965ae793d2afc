"""Weight gradients of depthwise convolutions of 3 by 3 kernels with stride 1 or 2, which read images in place.

A vector of outputs moves down an image, as in :mod:`.depthwise`. The sums of all nine taps stay in registers for some
images. Every line of data and every line of gradients is loaded once for a vector, and no padded copy is made. The
lanes of the sums are added up by :class:`~phonograd.core.kernels.conv.direct.AddLanes`.
"""

from __future__ import annotations

import dataclasses

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Words
from ..routine import Routine, module
from .depthwise import SIDE, ImageLines, begins_of

__all__ = ["DEPTHWISE_SUMS", "DepthwiseWeightGrad"]

_TAPS = SIDE * SIDE

DEPTHWISE_SUMS = Words(
    *("groups", "pixels", "windows", "extent_y", "extent_x", "count_y", "count_x", "pad_y", "pad_x"),
    *("batch", "image_block", "data*", "out_grad*", "sums*"),
)


@dataclasses.dataclass(frozen=True)
class DepthwiseWeightGrad:
    """The kernel that adds up the nine taps; an item is a block of images, and a group."""

    dtype: DType
    lanes: int
    stride: int
    """Stride along both axes: 1 or 2."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, self.dtype)
        words = ("groups", "pixels", "windows", "batch", "image_block")
        number = {word: DEPTHWISE_SUMS.index(e, word) for word in words}
        data, grad, sums = [DEPTHWISE_SUMS.pointer(e, operand) for operand in ("data", "out_grad", "sums")]

        def item(index: Index) -> None:
            part, group = e.split(index, number["groups"])
            target = e.at(sums, e.times(index, str(_TAPS * self.lanes)))
            first = e.times(part, number["image_block"])
            count = e.least(number["image_block"], e.minus(number["batch"], first))
            place = e.plus(e.times(first, number["groups"]), group)
            images, grads = e.at(data, e.times(place, number["pixels"])), e.at(grad, e.times(place, number["windows"]))
            e.invoke(f"{name}_images", "ptr %table", f"ptr {images}", f"ptr {grads}", f"ptr {target}", f"i64 {count}")

        e.for_each("%lo", "%hi", item)
        return module(_Images(self, f"{name}_images").routine, e)


class _Images:
    """Writes the routine for some images of a group."""

    def __init__(self, kernel: DepthwiseWeightGrad, name: str) -> None:
        arguments = "ptr noalias %table, ptr noalias %images, ptr noalias %grads, ptr noalias %sums, i64 %count"
        self.stride = kernel.stride
        self.routine = e = Routine(name, kernel.lanes, kernel.dtype, arguments, inner=True)
        e.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        words = ("groups", "pixels", "windows", "extent_y", "extent_x", "count_y", "count_x", "pad_y", "pad_x")
        self.number = number = {word: DEPTHWISE_SUMS.index(e, word) for word in words}
        whole = e.assign(f"and i64 {number['count_x']}, {-e.lanes}")
        has_part = e.test("slt", whole, number["count_x"])

        def image(index: Index, sums: list[Value]) -> list[Value]:
            place = e.times(index, number["groups"])
            image = e.at("%images", e.times(place, number["pixels"]))
            grad = e.at("%grads", e.times(place, number["windows"]))
            sums = e.loop("0", whole, str(e.lanes), sums, lambda x, before: self._whole(image, grad, x, before))
            return e.choose(has_part, lambda: self._column(image, grad, whole, sums, is_whole=False), lambda: sums)

        sums = e.loop("0", "%count", "1", [e.zeros()] * _TAPS, image)
        for tap, value in enumerate(sums):
            e.store("%sums", str(tap * e.lanes), value)

    def _whole(self, image: str, grad: str, x: Index, sums: list[Value]) -> list[Value]:
        e = self.routine
        start = e.minus(e.times(x, str(self.stride)), self.number["pad_x"])
        fits = e.test("sle", e.plus(start, str(begins_of(e, self.stride)[-1] + e.lanes)), self.number["extent_x"])
        is_inner = e.logical_and(e.test("sge", start, "0"), fits)
        return e.choose(
            is_inner,
            lambda: self._column(image, grad, x, sums, is_inner=True),
            lambda: self._column(image, grad, x, sums),
        )

    def _column(
        self, image: str, grad: str, x: Index, sums: list[Value], *, is_whole: bool = True, is_inner: bool = False
    ) -> list[Value]:
        """Return the sums with the products of a vector of gradients on each line."""
        e, number = self.routine, self.number
        lines = ImageLines(e, number, self.stride, x, is_inner, image)
        mask = e.below(e.minus(number["count_x"], x))

        def grads(line: Index) -> list[Value]:
            place = e.plus(e.times(line, number["count_x"]), x)
            return [e.get(grad, place) if is_whole else e.get_where(grad, mask, place)]

        def add(factor: Value, vectors: list[Value], line: int, sums: list[Value]) -> list[Value]:
            """Return the sums with products added for the taps of a line of the kernel."""
            first = line * SIDE
            added = [e.fma(factor, vector, total) for vector, total in zip(vectors, sums[first:])]
            return [*sums[:first], *added, *sums[first + SIDE :]]

        def next_line(index: Index, carried: list[Value]) -> list[Value]:
            sums, before = carried[:_TAPS], carried[_TAPS:]
            vectors = lines.load(index)
            is_there = e.test("slt", index, number["count_y"])
            factors = [*e.choose(is_there, lambda: grads(index), lambda: [e.zeros()]), *before]
            for line, factor in enumerate(factors):
                sums = add(factor, vectors, line, sums)
            return [*sums, *factors[:-1]]

        def next_but_one(index: Index, carried: list[Value]) -> list[Value]:
            sums, vectors = carried[:_TAPS], carried[_TAPS:]
            (factor,) = grads(index)
            for line in range(SIDE):
                if line:
                    vectors = lines.load(e.plus(e.times(index, "2"), str(line)))
                sums = add(factor, vectors, line, sums)
            return [*sums, *vectors]

        if self.stride == 2:
            return e.loop("0", number["count_y"], "1", [*sums, *lines.load("0")], next_but_one)[:_TAPS]
        end = e.plus(number["count_y"], str(SIDE - 1))
        return e.loop("0", end, "1", [*sums, *[e.zeros()] * (SIDE - 1)], next_line)[:_TAPS]
