"""Transformed weights: packed for the products of Winograd's algorithm."""

from __future__ import annotations

import dataclasses

from ...base.dtypes import FLOAT32
from ...lower.ir.function_builder import Index, Value
from ..launch import Words
from ..routine import Routine, module
from .microkernels import WIDTH
from .winograd_transforms import Tiling, matrices, two_sided

__all__ = ["TRANSFORM", "TransformWeights"]

TRANSFORM = Words("depth", "filters", "depth_stride", "filter_stride", "group_stride", "weight*", "packed*")


@dataclasses.dataclass(frozen=True)
class TransformWeights:
    """The kernel that transforms weights; an item of its range is a vector of filters of a group.

    The result has the shape (groups, elements of a tile, pairs of blocks of filters, channels, two vectors).
    """

    lanes: int
    tiling: Tiling
    flipped: bool
    """True if kernels are flipped, as the data gradient needs them."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, FLOAT32)
        number = {
            word: TRANSFORM.index(e, word)
            for word in ("depth", "filters", "depth_stride", "filter_stride", "group_stride")
        }
        weight, packed = TRANSFORM.pointer(e, "weight"), TRANSFORM.pointer(e, "packed")
        size, kernel = self.tiling.size, self.tiling.kernel
        pair = e.times(number["depth"], str(WIDTH * self.lanes))
        pairs = e.quotient(e.plus(number["filters"], str(WIDTH * self.lanes - 1)), str(WIDTH * self.lanes))
        step = e.times(pairs, pair)
        blocks = e.quotient(e.plus(number["filters"], str(self.lanes - 1)), str(self.lanes))

        def item(index: Index) -> None:
            group, block = e.split(index, blocks)
            first = e.times(block, str(self.lanes))
            mask = e.below(e.minus(number["filters"], first))
            source = e.at(weight, e.times(group, number["group_stride"]), e.times(first, number["filter_stride"]))
            which, half = e.split(block, str(WIDTH))
            target = e.at(
                packed,
                *(e.times(group, e.times(step, str(size * size))), e.times(which, pair)),
                e.times(half, str(self.lanes)),
            )

            # channel after channel: their weights are adjacent
            def channel(at: Index) -> None:
                kernels = e.at(source, e.times(at, number["depth_stride"]))
                place = e.at(target, e.times(at, str(WIDTH * self.lanes)))

                def load(row: int, column: int) -> Value:
                    tap = row * kernel + column
                    tap = kernel * kernel - 1 - tap if self.flipped else tap
                    return e.gather(kernels, str(tap), number["filter_stride"], FLOAT32, mask)

                def store(row: int, column: int, value: Value) -> None:
                    e.store(place, e.times(str(row * size + column), step), value)

                two_sided(e, matrices(self.tiling).kernel, load, store)

            e.for_each("0", number["depth"], channel)

        e.for_each("%lo", "%hi", item)
        return module(e)
