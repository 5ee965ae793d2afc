"""Dilated convolutions as convolutions of phases, which Winograd's algorithm computes.

With dilation d, the windows of every d-th output read only every d-th element of the data. So the elements of an image
whose coordinates have the same remainders by d, a *phase*, are an image of their own, and the convolution of phases has
no gaps. ``Split`` copies images to phases, and ``Join`` is its inverse. Phases that are one line or column shorter end
with zeros, which padding would supply as well. Weights are the same.
"""

from __future__ import annotations

import dataclasses

from ...base.dtypes import FLOAT32
from ...lower.ir.function_builder import Index
from ..launch import Launch, Plan, Reference, Words, align_up
from ..routine import Routine, module
from .geometry import Geometry
from .planes import Planner, moved

__all__ = ["Join", "Split", "data_grad", "flat", "forward", "weight_grad"]

#: elements worth a call
_CHUNK_ELEMENTS = 1 << 13
#: maximum size in bytes of all phases
_MOST_BYTES = 1 << 28
_FLOAT = FLOAT32.itemsize
_ZERO = "0.0"

_NUMBERS = ("channels", "rows", "columns", "gap_y", "gap_x", "height", "width")
_WORDS = Words(*_NUMBERS, "source*", "target*")


@dataclasses.dataclass(frozen=True)
class Split:
    """The kernel that copies (image, channel) to (image, phase, channel); an item is a channel of a phase."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, 1, FLOAT32)
        number = {word: _WORDS.index(e, word) for word in _NUMBERS}
        source, target = _WORDS.pointer(e, "source"), _WORDS.pointer(e, "target")
        height, width, gap_x = number["height"], number["width"], number["gap_x"]

        def item(index: Index) -> None:
            rest, channel = e.split(index, number["channels"])
            rest, phase_x = e.split(rest, gap_x)
            image, phase_y = e.split(rest, number["gap_y"])
            plane = e.plus(e.times(image, number["channels"]), channel)
            seen = e.at(source, e.times(plane, e.times(number["rows"], number["columns"])))
            into = e.at(target, e.times(index, e.times(height, width)))
            lines = _existing(e, number["rows"], phase_y, number["gap_y"])
            columns = _existing(e, number["columns"], phase_x, gap_x)

            def line(y: Index) -> None:
                row = e.plus(phase_y, e.times(y, number["gap_y"]))
                place = e.at(into, e.times(y, width))
                start = e.at(seen, e.plus(e.times(row, number["columns"]), phase_x))
                e.for_each("0", columns, lambda x: e.put_one(place, e.get_one(start, e.times(x, gap_x)), x))
                e.for_each(columns, width, lambda x: e.put_one(place, _ZERO, x))

            e.for_each("0", lines, line)
            e.for_each(e.times(lines, width), e.times(height, width), lambda at: e.put_one(into, _ZERO, at))

        e.for_each("%lo", "%hi", item)
        return module(e)


@dataclasses.dataclass(frozen=True)
class Join:
    """The kernel that copies (image, phase, channel) to (image, channel); an item is a channel of an image."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, 1, FLOAT32)
        number = {word: _WORDS.index(e, word) for word in _NUMBERS}
        source, target = _WORDS.pointer(e, "source"), _WORDS.pointer(e, "target")
        height, width, gap_x = number["height"], number["width"], number["gap_x"]

        def item(index: Index) -> None:
            image, channel = e.split(index, number["channels"])
            into = e.at(target, e.times(index, e.times(number["rows"], number["columns"])))

            def line(row: Index) -> None:
                y, phase_y = e.split(row, number["gap_y"])
                place = e.at(into, e.times(row, number["columns"]))

                def phase(phase_x: Index) -> None:
                    which = e.plus(e.times(e.plus(e.times(image, number["gap_y"]), phase_y), gap_x), phase_x)
                    plane = e.plus(e.times(which, number["channels"]), channel)
                    seen = e.at(source, e.times(e.plus(e.times(plane, height), y), width))
                    columns = _existing(e, number["columns"], phase_x, gap_x)
                    start = e.at(place, phase_x)
                    e.for_each("0", columns, lambda x: e.put_one(start, e.get_one(seen, x), e.times(x, gap_x)))

                e.for_each("0", gap_x, phase)

            e.for_each("0", number["rows"], line)

        e.for_each("%lo", "%hi", item)
        return module(e)


def _existing(e: Routine, extent: Index, phase: Index, gap: Index) -> Index:
    """Return the number of elements of a phase along an axis."""
    return e.quotient(e.minus(e.plus(extent, e.minus(gap, "1")), phase), gap)


def flat(shape: Geometry) -> Geometry | None:
    """Return the convolution of phases, or None if there are none, or if they would take too much memory.

    >>> from .geometry import geometry
    >>> flat(geometry((1, 8, 33, 33), 4, (3, 3), (1, 1), (2, 2), (2, 2), 1)).counts
    (1, 17, 17)
    """
    gaps = shape.dilate
    is_possible = gaps[0] == shape.extent[0] == 1 and shape.stride == (1, 1, 1) and max(gaps) > 1
    if not is_possible or any([pad % gap for pad, gap in zip(shape.pad, gaps)]):
        return None
    extent, counts = [tuple([-(-size // gap) for size, gap in zip(s, gaps)]) for s in (shape.extent, shape.counts)]
    pad = tuple([border // gap for border, gap in zip(shape.pad, gaps)])
    other = dataclasses.replace(
        shape, batch=shape.batch * gaps[1] * gaps[2], extent=extent, counts=counts, pad=pad, dilate=(1, 1, 1)
    )
    return None if max(_bytes(other)) > _MOST_BYTES else other


def _bytes(other: Geometry) -> tuple[int, int]:
    """Return the sizes of the phases of data and of results."""
    images = other.batch * other.groups * _FLOAT
    return images * other.channels * other.pixels, images * other.filters * other.windows


def forward(shape: Geometry, plan_of: Planner) -> Plan | None:
    """Return the plan of a convolution, given that of one of phases."""
    other = flat(shape)
    plan = None if other is None else plan_of(other)
    if other is None or plan is None:
        return None
    data, result = [align_up(size) for size in _bytes(other)]
    launches = (
        _data(shape, other, Reference("scratch")),
        *[moved(launch, {"data": 0, "out": data, "scratch": data + result}) for launch in plan.launches],
        _joining(shape, shape.counts, other.counts, shape.filters, Reference("scratch", data)),
    )
    return _after_one(plan, launches, data + result)


def data_grad(shape: Geometry, plan_of: Planner) -> Plan | None:
    """Return the plan of the data gradient, given that of a convolution of phases."""
    other = flat(shape)
    plan = None if other is None else plan_of(other)
    if other is None or plan is None:
        return None
    data, result = [align_up(size) for size in _bytes(other)]
    launches = (
        _gradients(shape, other, Reference("scratch", data)),
        *[moved(launch, {"out": 0, "out_grad": data, "scratch": data + result}) for launch in plan.launches],
        _joining(shape, shape.extent, other.extent, shape.channels, Reference("scratch")),
    )
    return _after_one(plan, launches, data + result)


def weight_grad(shape: Geometry, plan_of: Planner) -> Plan | None:
    """Return the plan of the weight gradient, given that of a convolution of phases."""
    other = flat(shape)
    plan = None if other is None else plan_of(other)
    if other is None or plan is None:
        return None
    data, result = [align_up(size) for size in _bytes(other)]
    launches = (
        _data(shape, other, Reference("scratch")),
        _gradients(shape, other, Reference("scratch", data)),
        *[moved(launch, {"data": 0, "out_grad": data, "scratch": data + result}) for launch in plan.launches],
    )
    return Plan(launches, data + result + plan.scratch_bytes)


def _after_one(plan: Plan, launches: tuple[Launch, ...], size: int) -> Plan:
    """Return a plan with one launch before those of another, whose scratch memory begins after some bytes."""
    prepared = [each._replace(number=each.number + 1, start=each.start + size) for each in plan.prepared]
    return Plan(launches, size + plan.scratch_bytes, tuple(prepared))


def _data(shape: Geometry, other: Geometry, target: Reference) -> Launch:
    return _splitting(shape, shape.extent, other.extent, shape.channels, "data", target)


def _gradients(shape: Geometry, other: Geometry, target: Reference) -> Launch:
    return _splitting(shape, shape.counts, other.counts, shape.filters, "out_grad", target)


def _splitting(
    shape: Geometry, whole: tuple[int, ...], part: tuple[int, ...], channels: int, operand: str, target: Reference
) -> Launch:
    """Return the launch that copies images of some size to phases."""
    values = {**_values(shape, whole, part, channels), "source": Reference(operand), "target": target}
    items = shape.batch * shape.dilate[1] * shape.dilate[2] * shape.groups * channels
    return Launch(Split(), _WORDS.fill(values), items, max(1, _CHUNK_ELEMENTS // (part[1] * part[2])))


def _joining(
    shape: Geometry, whole: tuple[int, ...], part: tuple[int, ...], channels: int, source: Reference
) -> Launch:
    """Return the launch that copies phases to images of some size."""
    values = {**_values(shape, whole, part, channels), "source": source, "target": Reference("out")}
    items = shape.batch * shape.groups * channels
    return Launch(Join(), _WORDS.fill(values), items, max(1, _CHUNK_ELEMENTS // (whole[1] * whole[2])))


def _values(
    shape: Geometry, whole: tuple[int, ...], part: tuple[int, ...], channels: int
) -> dict[str, int | Reference]:
    """Return the table words of images and their phases."""
    values: dict[str, int | Reference] = {"channels": shape.groups * channels, "rows": whole[1], "columns": whole[2]}
    return {**values, "gap_y": shape.dilate[1], "gap_x": shape.dilate[2], "height": part[1], "width": part[2]}
