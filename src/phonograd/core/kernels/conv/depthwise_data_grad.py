"""Data gradients of depthwise convolutions of 3 by 3 kernels with stride 2 and a border of one element.

A square of two by two elements of data has the products of nine taps with the gradients of four windows. A vector of
windows moves down an image: each line of gradients is loaded once, and makes two lines of data, whose even and odd
elements are interleaved in registers. Taps are added in the same order as by :mod:`.adjoint`, with the same bits.
"""

from __future__ import annotations

import dataclasses

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..deinterleave import unsort
from ..routine import Routine, module
from .depthwise import DEPTHWISE, SIDE

__all__ = ["DepthwiseDataGrad"]


@dataclasses.dataclass(frozen=True)
class DepthwiseDataGrad:
    """The kernel of the data gradient; an item is a group of an image. ``data`` of its table are the gradients."""

    dtype: DType
    lanes: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, self.dtype)
        grad, weight, out = [DEPTHWISE.pointer(e, operand) for operand in ("data", "weight", "out")]
        number = {word: DEPTHWISE.index(e, word) for word in ("groups", "pixels", "windows", "weight_group")}

        def item(index: Index) -> None:
            _, group = e.split(index, number["groups"])
            places = [
                e.at(grad, e.times(index, number["windows"])),
                e.at(weight, e.times(group, number["weight_group"])),
                e.at(out, e.times(index, number["pixels"])),
            ]
            # images that are computed after this one overwrite what is stored beyond its end
            limit = e.times(e.minus("%hi", index), number["pixels"])
            e.invoke(f"{name}_image", "ptr %table", *[f"ptr {place}" for place in places], f"i64 {limit}")

        e.for_each("%lo", "%hi", item)
        return module(_Image(self, f"{name}_image").routine, e)


class _Image:
    """Writes the routine for one image."""

    def __init__(self, kernel: DepthwiseDataGrad, name: str) -> None:
        arguments = "ptr noalias %table, ptr noalias %grad, ptr noalias %weight, ptr noalias %target, i64 %limit"
        self.routine = e = Routine(name, kernel.lanes, kernel.dtype, arguments, inner=True)
        self.number = {word: DEPTHWISE.index(e, word) for word in ("extent_y", "extent_x", "count_y", "count_x")}
        taps = [e.get_splat("%weight", str(tap)) for tap in range(SIDE * SIDE)]
        self.weights = [taps[line * SIDE : (line + 1) * SIDE] for line in range(SIDE)]
        # inner vectors have a window to the right of their last one
        inner = e.times(e.quotient(e.minus(self.number["count_x"], "1"), str(e.lanes)), str(e.lanes))
        # first the ends of lines, which store beyond them
        self._column(inner, is_inner=False)
        e.for_each("0", inner, lambda x: self._column(x, is_inner=True), str(e.lanes))

    def _column(self, x: Index, is_inner: bool) -> None:
        """Write the lines of data of a vector of windows that begin at ``x``."""
        e, number = self.routine, self.number
        left = e.minus(number["count_x"], x)
        masks = [] if is_inner else [e.below(left), e.below(e.minus(left, "1"))]

        def load(line: Index) -> list[Value]:
            """Return the gradients of a line of windows, and those of the next windows; beyond the line, zeros."""
            place = e.plus(e.times(line, number["count_x"]), x)
            places = [place, e.plus(place, "1")]
            if is_inner:
                return [e.get("%grad", each) for each in places]
            return [e.get_where("%grad", mask, each) for mask, each in zip(masks, places)]

        def put(line: Index, here: list[Value], below: list[Value] | None) -> None:
            """Store the two lines of data between the middle of a line of windows and of the next one."""
            even = e.times(line, "2")
            self._store(even, x, self._add(1, here, [e.zeros()] * 2), is_inner)
            sums = [e.zeros()] * 2 if below is None else self._add(0, below, [e.zeros()] * 2)
            odd = e.plus(even, "1")

            def second() -> None:
                self._store(odd, x, self._add(2, here, sums), is_inner)

            if below is None:
                e.when(e.test("slt", odd, number["extent_y"]), second)
            else:
                second()

        def step(line: Index, here: list[Value]) -> list[Value]:
            below = load(e.plus(line, "1"))
            put(line, here, below)
            return below

        last = e.minus(number["count_y"], "1")
        put(last, e.loop("0", last, "1", load("0"), step), None)

    def _add(self, line: int, grads: list[Value], sums: list[Value]) -> list[Value]:
        """Return sums of even and odd elements of data, with the taps of a line of the kernel."""
        e, (left, middle, right), (here, after) = self.routine, self.weights[line], grads
        return [e.fma(middle, here, sums[0]), e.fma(right, here, e.fma(left, after, sums[1]))]

    def _store(self, line: Index, x: Index, sums: list[Value], is_inner: bool) -> None:
        """Write the stores of two vectors of data, whose even and odd elements are given."""
        e, width = self.routine, self.number["extent_x"]
        for vector, value in enumerate(unsort(e, sums)):
            column = e.plus(e.times(x, "2"), str(vector * e.lanes))
            place = e.plus(e.times(line, width), column)
            if is_inner:
                e.store("%target", place, value)
                continue
            # later stores overwrite what is beyond the end of the line; masked ones take ten times as long
            e.when(
                e.test("sle", e.plus(place, str(e.lanes)), "%limit"),
                lambda place=place, value=value: e.store("%target", place, value),  # type: ignore[misc]
                lambda place=place, value=value, column=column: e.store_where(  # type: ignore[misc]
                    "%target", place, value, e.below(e.minus(width, column))
                ),
            )
