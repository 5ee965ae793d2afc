"""im2col weight gradient: products of columns and gradients, summed over windows and images.

Windows are the direction of the sum, and both operands have lines along it. The product reads gradients from lines, and
columns from panels, which are transposed in registers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import ClassVar

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index, Value
from ..launch import Words
from ..routine import Routine, module
from ..scratch import SLOT_WORDS
from .im2col import BOX_WORDS, Im2colWriter
from .microkernels import WIDTH, product
from .padding import FRAME_WORDS
from .weight_grad_walk import WALK_WORDS, WeightGradKernel

__all__ = ["COMBINE", "WEIGHTS", "CombineSums", "Im2colWeightGrad"]

_WEIGHT_WORDS = (*WALK_WORDS, "sums_line", "blocks", "panels_at", "steps")
WEIGHTS = Words(
    *BOX_WORDS,
    *_WEIGHT_WORDS,
    *FRAME_WORDS,
    *SLOT_WORDS,
    *("data*", "out_grad*", "sums*"),
)
COMBINE = Words(
    *("groups", "channels", "filters", "taps", "block", "blocks", "sums_line", "parts"),
    *("sums*", "out*"),
)


@dataclasses.dataclass(frozen=True)
class Im2colWeightGrad(WeightGradKernel):
    """The kernel of the weight gradient.

    Its sums are in the order (blocks of channels, filters, elements of columns); :class:`CombineSums` adds them up.
    """

    words: ClassVar[Words] = WEIGHTS

    rows: int
    """Filters multiplied at once."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        walk = Im2colWriter(name, self, WEIGHTS)
        e = walk.e
        walk.number.update({word: WEIGHTS.index(e, word) for word in _WEIGHT_WORDS})
        self.write_walk(walk)
        routines = walk.routines("gather") if self.plain else walk.routines("gather", "fill")
        basic = self.lanes, self.dtype
        for kind, width in (("", WIDTH), ("_narrow", 1)):
            routines.append(turn_lines(f"{name}_panel{kind}", *basic, width * self.lanes))
            routines.append(product(f"{name}_product{kind}", *basic, self.rows, width, masked=False, lines=True))
        return module(*routines, e)

    def block_sums(self, walk: Im2colWriter) -> Index:
        """Return the number of elements in the sums of a block of channels."""
        return walk.e.times(walk["filters"], walk["sums_line"])

    def group_sums(self, walk: Im2colWriter) -> Index:
        """Return the number of elements in the sums of a group."""
        return walk.e.times(walk["blocks"], self.block_sums(walk))

    def multiply(
        self,
        walk: Im2colWriter,
        slot: str,
        steps: Index,
        gradients: tuple[str, Index],
        columns: tuple[str, Index],
        elements: Index,
        sums: str,
    ) -> None:
        """Write the products of all lines of gradients with panels of the ``elements`` lines of columns."""
        e, line = walk.e, gradients[1]

        def panels(body: Callable[[Index, str, Index], None]) -> None:
            """Write the loop over panels: ``body(first line, kind, width)``; a narrow one is a vector wide."""

            def some(column: Index) -> None:
                e.when(
                    e.test("sgt", e.minus(elements, column), str(self.lanes)),
                    lambda: body(column, "", str(WIDTH * self.lanes)),
                    lambda: body(column, "_narrow", str(self.lanes)),
                )

            e.for_each("0", elements, some, str(WIDTH * self.lanes))

        def place_of(column: Index) -> str:
            return e.at(slot, walk["panels_at"], e.times(column, walk["steps"]))

        def turn(column: Index, kind: str, width: Index) -> None:
            e.invoke(
                f"{walk.name}_panel{kind}",
                f"ptr {place_of(column)}",
                *(f"ptr {e.at(columns[0], e.times(column, columns[1]))}", f"i64 {columns[1]}"),
                *(f"i64 {e.minus(elements, column)}", f"i64 {steps}"),
            )

        panels(turn)

        def tile(row: Index) -> None:
            def panel(column: Index, kind: str, width: Index) -> None:
                e.invoke(
                    f"{walk.name}_product{kind}",
                    *(f"i64 {steps}", f"ptr {e.at(gradients[0], e.times(row, line))}", f"i64 {line}"),
                    *(f"ptr {place_of(column)}", f"i64 {width}"),
                    *(f"ptr {e.at(sums, e.times(row, walk['sums_line']), column)}", f"i64 {walk['sums_line']}"),
                    *(f"i64 {e.minus(walk['filters'], row)}", "i64 1"),
                )

            panels(panel)

        e.for_each("0", walk["filters"], tile, str(self.rows))


def turn_lines(name: str, lanes: int, dtype: DType, rows: int) -> Routine:
    """Return the routine that transposes ``rows`` lines of ``%length`` elements, some of which exist.

    For missing lines, it reads the last existing one; their lanes have no meaning. It stores whole squares of lanes:
    steps beyond the length.
    """
    arguments = "ptr noalias %target, ptr noalias %lines, i64 %line, i64 %existing, i64 %length"
    e = Routine(name, lanes, dtype, arguments)
    last = e.minus("%existing", "1")
    lines = [e.at("%lines", e.times(e.least(str(row), last), "%line")) for row in range(rows)]

    def square(index: Index, mask: Value | None) -> None:
        for start in range(0, rows, lanes):
            found = [
                e.get(line, index) if mask is None else e.get_where(line, mask, index)
                for line in lines[start : start + lanes]
            ]
            for step, value in enumerate(e.transpose(found)):
                into = e.at("%target", e.times(e.plus(index, str(step)), str(rows)))
                e.store(into, str(start), value)

    size = str(lanes)
    whole = e.times(e.quotient("%length", size), size)
    e.for_each("0", whole, lambda index: square(index, None), size)
    e.when(e.test("slt", whole, "%length"), lambda: square(whole, e.below(e.minus("%length", whole))))
    return e


@dataclasses.dataclass(frozen=True)
class CombineSums:
    """The kernel that adds up the sums of all blocks of images and stores them in the order of the weights.

    An item of its range is a filter of a block of channels.
    """

    dtype: DType
    lanes: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, self.dtype)
        words = ("groups", "channels", "filters", "taps", "block", "blocks", "sums_line", "parts")
        number = {word: COMBINE.index(e, word) for word in words}
        sums, out = COMBINE.pointer(e, "sums"), COMBINE.pointer(e, "out")
        part_size = e.times(
            e.times(number["groups"], number["blocks"]), e.times(number["filters"], number["sums_line"])
        )

        def item(index: Index) -> None:
            rest, filter_ = e.split(index, number["filters"])
            group, block = e.split(rest, number["blocks"])
            place = e.at(sums, e.times(index, number["sums_line"]))
            first = e.times(block, number["block"])
            existing = e.times(e.least(number["block"], e.minus(number["channels"], first)), number["taps"])
            row = e.plus(e.times(group, number["filters"]), filter_)
            target = e.at(
                out, e.times(row, e.times(number["channels"], number["taps"])), e.times(first, number["taps"])
            )

            def vector(at: Index) -> None:
                (total,) = e.loop(
                    "1",
                    number["parts"],
                    "1",
                    [e.get(place, at)],
                    lambda part, found: [e.add(found[0], e.get(place, e.plus(at, e.times(part, part_size))))],
                )
                e.store_where(target, at, total, e.below(e.minus(existing, at)))

            e.for_each("0", existing, vector, str(self.lanes))

        e.for_each("%lo", "%hi", item)
        return module(e)
