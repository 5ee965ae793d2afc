"""im2col weight gradient: products of columns and gradients, summed over windows and images.

Windows are the direction of the sum, and both operands have lines along it. The product reads gradients from lines, and
columns from panels, which are transposed in registers.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ...base.dtypes import DType
from ...lower.ir.function_builder import Index
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
        routines.append(turn_lines(f"{name}_panel", self.lanes, self.dtype, WIDTH * self.lanes))
        routines.append(product(f"{name}_product", self.lanes, self.dtype, self.rows, WIDTH, masked=False, lines=True))
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
        e, width = walk.e, str(WIDTH * self.lanes)
        panels, line = e.at(slot, walk["panels_at"]), gradients[1]

        def turn(column: Index) -> None:
            e.invoke(
                f"{walk.name}_panel",
                f"ptr {e.at(panels, e.times(column, walk['steps']))}",
                *(f"ptr {e.at(columns[0], e.times(column, columns[1]))}", f"i64 {columns[1]}"),
                *(f"i64 {e.minus(elements, column)}", f"i64 {steps}"),
            )

        e.for_each("0", elements, turn, width)

        def tile(row: Index) -> None:
            def panel(column: Index) -> None:
                e.invoke(
                    f"{walk.name}_product",
                    *(f"i64 {steps}", f"ptr {e.at(gradients[0], e.times(row, line))}", f"i64 {line}"),
                    *(f"ptr {e.at(panels, e.times(column, walk['steps']))}", f"i64 {width}"),
                    *(f"ptr {e.at(sums, e.times(row, walk['sums_line']), column)}", f"i64 {walk['sums_line']}"),
                    *(f"i64 {e.minus(walk['filters'], row)}", "i64 1"),
                )

            e.for_each("0", elements, panel, width)

        e.for_each("0", walk["filters"], tile, str(self.rows))


def turn_lines(name: str, lanes: int, dtype: DType, rows: int) -> Routine:
    """Return the routine that transposes ``rows`` lines of ``%length`` elements; missing lines are zeros.

    It stores whole squares of lanes: steps beyond the length, and up to a vector beyond the last step.
    """
    arguments = "ptr noalias %target, ptr noalias %lines, i64 %line, i64 %existing, i64 %length"
    e = Routine(name, lanes, dtype, arguments)
    starts = range(0, rows, lanes)
    # the elements of a missing line are masked
    lengths = [e.select_index(e.test("slt", str(row), "%existing"), "%length", "0") for row in range(rows)]
    lines = [e.at("%lines", e.times(str(row), "%line")) for row in range(rows)]

    def square(index: Index, whole: bool) -> None:
        squares = []
        for start in starts:
            found = []
            for row in range(start, start + lanes):
                if row >= rows:
                    found.append(e.zeros())
                elif whole:
                    found.append(e.get(lines[row], index))
                else:
                    found.append(e.get_where(lines[row], e.below(e.minus(lengths[row], index)), index))
            squares.append(e.transpose(found))
        # the next step overwrites the lanes beyond the rows
        for step in range(lanes):
            into = e.at("%target", e.times(e.plus(index, str(step)), str(rows)))
            for start, vectors in zip(starts, squares):
                e.store(into, str(start), vectors[step])

    size = str(lanes)
    inside = e.times(e.quotient("%length", size), size)
    stop = e.select_index(e.test("sge", "%existing", str(rows)), inside, "0")
    e.for_each("0", stop, lambda index: square(index, whole=True), size)
    e.for_each(stop, "%length", lambda index: square(index, whole=False), size)
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
