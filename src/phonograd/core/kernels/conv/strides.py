"""Strided convolutions as convolutions of phases without strides, which Winograd's algorithm computes.

With stride s, the elements that tap a of adjacent windows reads are s elements apart. So the elements of a padded image
whose coordinates have the same remainders by s, a *phase*, are a channel of their own (space to depth): a kernel of k
by k taps becomes one of k / s by k / s taps of s * s times as many channels. Taps that do not exist are zeros. A 4 by 4
kernel with stride 2 needs 16 products per output and channel, and 6.25 in tiles of 4 by 4 outputs of 2 by 2 kernels.

Images are copied by :mod:`~phonograd.core.kernels.conv.phases`, and ``Permute`` sorts the taps of weights.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from ...base.dtypes import FLOAT32
from ...lower.ir.function_builder import Index, Value
from ..deinterleave import select, specialized_stride
from ..launch import Launch, Plan, Prepared, Reference, Words, align_up
from ..routine import Routine, module
from . import phases
from .geometry import Geometry
from .phases import Planner
from .planes import moved
from .winograd_plan import Phasing

__all__ = ["Permute", "data_grad", "flat", "forward", "weight_grad"]

#: elements worth a call
_CHUNK_ELEMENTS = 1 << 13
#: maximum size in bytes of the phases of data, and of weights
_MOST_BYTES = 1 << 28
#: products in the time of copying an element of data, sorted in registers; weights take far less (AMD EPYC, Zen 5)
_COPY_PRODUCTS = 10
_FLOAT = FLOAT32.itemsize

_WORDS = Words("source*", "target*")


@dataclasses.dataclass(frozen=True)
class Permute:
    """The kernel that copies rows of ``size`` elements in another order; -1 stands for zero. An item is a row."""

    lanes: int
    size: int
    order: tuple[int, ...]

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, FLOAT32)
        source, target = _WORDS.pointer(e, "source"), _WORDS.pointer(e, "target")

        def mask(start: int, size: int) -> Value | None:
            return e.below(str(size - start)) if size - start < self.lanes else None

        def item(index: Index) -> None:
            row, into = e.at(source, e.times(index, str(self.size))), e.at(target, e.times(index, str(len(self.order))))
            vectors = []
            for start in range(0, self.size, self.lanes):
                known = mask(start, self.size)
                vectors.append(e.get(row, str(start)) if known is None else e.get_where(row, known, str(start)))
            for start in range(0, len(self.order), self.lanes):
                value, known = self._select(e, vectors, start), mask(start, len(self.order))
                if known is None:
                    e.store(into, str(start), value)
                else:
                    e.store_where(into, str(start), value, known)

        e.for_each("%lo", "%hi", item)
        return module(e)

    def _select(self, e: Routine, vectors: Sequence[Value], start: int) -> Value:
        """Return a vector of the result."""
        wanted = (*self.order[start : start + self.lanes], *[-1] * self.lanes)[: self.lanes]
        # only of the vectors that have one of the elements, beside a vector of zeros
        needed = sorted({element // self.lanes for element in wanted if element >= 0})
        places = {vector: number * self.lanes for number, vector in enumerate(needed)}
        zero = len(needed) * self.lanes
        found = [places[element // self.lanes] + element % self.lanes if element >= 0 else zero for element in wanted]
        return select(e, [*[vectors[vector] for vector in needed], e.zeros()], found)


def flat(shape: Geometry) -> Geometry | None:
    """Return the convolution of phases, or None if there are no strides, or if its kernels would be oblong.

    >>> from .geometry import geometry
    >>> found = flat(geometry((1, 8, 16, 16), 5, (4, 4), (2, 2), (1, 1), (1, 1), 1))
    >>> found.channels, found.extent, found.kernel, found.counts
    (32, (1, 9, 9), (1, 2, 2), (1, 8, 8))
    """
    _, *steps = shape.stride
    is_possible = shape.extent[0] == shape.stride[0] == 1 and max(steps) > 1 and specialized_stride(steps[1])
    widths = [-(-taps // step) for taps, step in zip(shape.kernel[1:], steps)]
    is_square = widths[0] == widths[1] or min(widths) == 1
    if not is_possible or shape.dilate != (1, 1, 1) or not is_square or max(widths) < 2:
        return None
    ones, channels = (1, 1, 1), shape.channels * math.prod(steps)
    extent = (1, *[count + width - 1 for count, width in zip(shape.counts[1:], widths)])
    other = Geometry(
        *(shape.batch, shape.groups, channels, shape.filters, extent, (1, *widths)),
        *(ones, ones, (0, 0, 0), shape.counts),
    )
    return None if max(_bytes(other)) > _MOST_BYTES else other


def _phasing(shape: Geometry, other: Geometry) -> Phasing:
    """Return the facts about phases."""
    share = shape.channels * shape.taps / (other.channels * other.taps)
    return Phasing(share, _bytes(other)[0] // _FLOAT * _COPY_PRODUCTS)


def _bytes(other: Geometry) -> tuple[int, int]:
    """Return the sizes of the phases of data and of weights."""
    data = other.batch * other.groups * other.channels * other.pixels
    return data * _FLOAT, other.groups * other.filters * other.channels * other.taps * _FLOAT


def forward(lanes: int, shape: Geometry, plan_of: Planner) -> Plan | None:
    """Return the plan of a convolution, given that of one of phases."""
    other = flat(shape)
    plan = None if other is None else plan_of(other, _phasing(shape, other))
    if other is None or plan is None:
        return None
    data, weight = [align_up(size) for size in _bytes(other)]
    places = {"data": 0, "weight": data, "scratch": data + weight}
    launches = (
        _images(lanes, False, shape, other, Reference("data"), Reference("scratch")),
        _weights(lanes, False, shape, other, Reference("weight"), Reference("scratch", data)),
        *[moved(launch, places) for launch in plan.launches],
    )
    return Plan(launches, data + weight + plan.scratch_bytes, (Prepared(1, "weight", data, weight),))


def data_grad(lanes: int, shape: Geometry, plan_of: Planner) -> Plan | None:
    """Return the plan of the data gradient, given that of a convolution of phases."""
    other = flat(shape)
    plan = None if other is None else plan_of(other, _phasing(shape, other))
    if other is None or plan is None:
        return None
    data, weight = [align_up(size) for size in _bytes(other)]
    places = {"out": 0, "weight": data, "scratch": data + weight}
    launches = (
        _weights(lanes, False, shape, other, Reference("weight"), Reference("scratch", data)),
        *[moved(launch, places) for launch in plan.launches],
        _images(lanes, True, shape, other, Reference("scratch"), Reference("out")),
    )
    return Plan(launches, data + weight + plan.scratch_bytes, (Prepared(0, "weight", data, weight),))


def weight_grad(lanes: int, shape: Geometry, plan_of: Planner) -> Plan | None:
    """Return the plan of the weight gradient, given that of a convolution of phases."""
    other = flat(shape)
    plan = None if other is None else plan_of(other, _phasing(shape, other))
    if other is None or plan is None:
        return None
    data, weight = [align_up(size) for size in _bytes(other)]
    places = {"data": 0, "out": data, "scratch": data + weight}
    launches = (
        _images(lanes, False, shape, other, Reference("data"), Reference("scratch")),
        *[moved(launch, places) for launch in plan.launches],
        _weights(lanes, True, shape, other, Reference("scratch", data), Reference("out")),
    )
    return Plan(launches, data + weight + plan.scratch_bytes)


def _images(lanes: int, join: bool, shape: Geometry, other: Geometry, source: Reference, target: Reference) -> Launch:
    """Return the launch that copies images to phases, or with ``join`` the reverse."""
    count = math.prod(shape.stride)
    channels = shape.groups * shape.channels
    sizes = channels, shape.extent, other.extent, shape.stride, shape.pad
    return phases.launch(lanes, join, shape.batch, *sizes, (channels * count, count, 1), source, target)


def _weights(lanes: int, join: bool, shape: Geometry, other: Geometry, source: Reference, target: Reference) -> Launch:
    """Return the launch that copies kernels to kernels of phases, or with ``join`` the reverse."""
    (_, height, width), (_, step_y, step_x) = shape.kernel, shape.stride
    _, lines, columns = other.kernel
    places = [
        (step_y * i + y, step_x * j + x)
        for y in range(step_y)
        for x in range(step_x)
        for i in range(lines)
        for j in range(columns)
    ]
    order = [a * width + b if a < height and b < width else -1 for a, b in places]
    if join:
        order = [order.index(tap) for tap in range(height * width)]
    size = len(places) if join else height * width
    words = _WORDS.fill({"source": source, "target": target})
    items = shape.groups * shape.filters * shape.channels
    return Launch(Permute(lanes, size, tuple(order)), words, items, max(1, _CHUNK_ELEMENTS // len(places)))
