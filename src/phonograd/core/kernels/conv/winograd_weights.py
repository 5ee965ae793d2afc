"""Transformed weights: read kernel by kernel, and packed for the products of Winograd's algorithm.

The kernels of a vector of filters are far apart in memory, or those of a filter are. Either way the elements of a line
are adjacent, so lines are loaded and turned in registers: ``reader`` puts the kernels of some channels into a buffer,
where each tap is a vector of filters. A gather for each tap takes ten times as long (AMD EPYC, Zen 5).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

from ...base.dtypes import FLOAT32
from ...lower.ir.function_builder import Index, Value
from ..deinterleave import sort
from ..launch import Words
from ..routine import Routine, module
from .microkernels import WIDTH
from .winograd_transforms import Tiling, kernel_sides, two_sided

__all__ = ["TRANSFORM", "Kernels", "TransformWeights", "buffer_of", "reader", "transform_kernels"]

TRANSFORM = Words("depth", "filters", "depth_stride", "filter_stride", "group_stride", "weight*", "packed*")


class Kernels(NamedTuple):
    """The kernels of a vector of filters: their address, the distances of channels and filters, and their numbers."""

    source: str
    depth_stride: Index
    filter_stride: Index
    channels: Index
    filters: Index


def buffer_of(e: Routine, taps: int) -> str:
    """Return a buffer for the kernels of as many channels as a vector has lanes; call it in the entry block only."""
    # squares of vectors and lanes may end beyond them
    return e.scratch((taps + 1) * e.lanes * e.lanes * FLOAT32.itemsize // 8)


def reader(name: str, lanes: int, taps: int, adjacent: bool) -> Routine:
    """Return the routine that reads kernels to a buffer of the shape (channels, taps, lanes).

    With ``adjacent``, the kernels of filters are adjacent, else those of channels. Missing filters are zeros.
    """
    arguments = "ptr noalias %buffer, ptr noalias %source, i64 %depth_stride, i64 %filter_stride, "
    e = Routine(name, lanes, FLOAT32, arguments + "i64 %channels, i64 %filters")
    whole = e.test("sge", "%filters", str(lanes))
    total = e.times("%channels", str(taps))

    def square(index: Index, exactly: bool) -> None:
        rows = []
        for row in range(lanes):
            line = e.at("%source", e.times(str(row), "%filter_stride"))
            # filters that do not exist have no lanes
            known = e.select_index(e.test("slt", str(row), "%filters"), e.minus(total, index), "0") if exactly else ""
            rows.append(e.get_where(line, e.below(known), index) if exactly else e.get(line, index))
        for step, value in enumerate(e.transpose(rows)):
            e.store("%buffer", e.times(e.plus(index, str(step)), str(lanes)), value)

    def channel(number: Index, exactly: bool) -> None:
        line = e.at("%source", e.times(number, "%depth_stride"))
        into = e.at("%buffer", e.times(number, str(taps * lanes)))
        elements, vectors = e.times("%filters", str(taps)), []
        for start in range(0, taps * lanes, lanes):
            mask = e.below(e.minus(elements, str(start))) if exactly else None
            vectors.append(e.get(line, str(start)) if mask is None else e.get_where(line, mask, str(start)))
        for tap, value in enumerate(sort(e, vectors)):
            e.store(into, str(tap * lanes), value)

    count, step, body = ("%channels", "1", channel) if adjacent else (total, str(lanes), square)
    loaded = e.select_index(whole, e.times(e.quotient(count, step), step), "0")
    e.for_each("0", loaded, lambda index: body(index, exactly=False), step)
    e.for_each(loaded, count, lambda index: body(index, exactly=True), step)
    return e


def transform_kernels(
    e: Routine,
    name: str,
    tiling: Tiling,
    flipped: bool,
    buffer: str,
    kernels: Kernels,
    store: Callable[[Index], Callable[[int, int, Value], None]],
) -> None:
    """Write the code that transforms kernels; ``name`` is that of the routine that reads them.

    ``store(channel)`` returns the function that stores a vector of filters, given its row and column.
    """
    size, taps, lanes = tiling.x.kernel, tiling.taps, str(e.lanes)
    source, depth_stride, filter_stride, channels, filters = kernels

    def some(first: Index) -> None:
        count = e.least(lanes, e.minus(channels, first))
        place = e.at(source, e.times(first, depth_stride))
        strides = f"i64 {depth_stride}", f"i64 {filter_stride}"
        e.invoke(name, f"ptr {buffer}", f"ptr {place}", *strides, f"i64 {count}", f"i64 {filters}")

        def channel(at: Index) -> None:
            here = e.at(buffer, e.times(at, e.times(str(taps), lanes)))

            def load(row: int, column: int) -> Value:
                tap = row * size + column
                return e.get(here, str((taps - 1 - tap if flipped else tap) * e.lanes))

            two_sided(e, kernel_sides(tiling), load, store(e.plus(first, at)))

        e.for_each("0", count, channel)

    e.for_each("0", channels, some, lanes)


@dataclasses.dataclass(frozen=True)
class TransformWeights:
    """The kernel that transforms weights; an item of its range is a vector of filters of a group.

    The result has the shape (groups, elements of a tile, pairs of blocks of filters, channels, two vectors), with a
    vector between the elements of a tile: at a multiple of 4096 bytes, they would compete for the same few cache sets.
    """

    lanes: int
    tiling: Tiling
    flipped: bool
    """True if kernels are flipped, as the data gradient needs them."""
    adjacent: bool
    """True if the kernels of filters are adjacent, else those of channels."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, FLOAT32)
        number = {
            word: TRANSFORM.index(e, word)
            for word in ("depth", "filters", "depth_stride", "filter_stride", "group_stride")
        }
        weight, packed = TRANSFORM.pointer(e, "weight"), TRANSFORM.pointer(e, "packed")
        size, elements, taps = self.tiling.x.size, self.tiling.elements, self.tiling.taps
        buffer, read = buffer_of(e, taps), f"{name}_read"
        pair = e.times(number["depth"], str(WIDTH * self.lanes))
        pairs = e.quotient(e.plus(number["filters"], str(WIDTH * self.lanes - 1)), str(WIDTH * self.lanes))
        step = e.plus(e.times(pairs, pair), str(self.lanes))
        blocks = e.quotient(e.plus(number["filters"], str(self.lanes - 1)), str(self.lanes))

        def item(index: Index) -> None:
            group, block = e.split(index, blocks)
            first = e.times(block, str(self.lanes))
            source = e.at(weight, e.times(group, number["group_stride"]), e.times(first, number["filter_stride"]))
            which, half = e.split(block, str(WIDTH))
            target = e.at(
                packed,
                *(e.times(group, e.times(step, str(elements))), e.times(which, pair)),
                e.times(half, str(self.lanes)),
            )
            left = e.minus(number["filters"], first)
            kernels = Kernels(source, number["depth_stride"], number["filter_stride"], number["depth"], left)

            def store(channel: Index) -> Callable[[int, int, Value], None]:
                place = e.at(target, e.times(channel, str(WIDTH * self.lanes)))
                return lambda row, column, value: e.store(place, e.times(str(row * size + column), step), value)

            transform_kernels(e, read, self.tiling, self.flipped, buffer, kernels, store)

        e.for_each("%lo", "%hi", item)
        return module(reader(read, self.lanes, taps, self.adjacent), e)
