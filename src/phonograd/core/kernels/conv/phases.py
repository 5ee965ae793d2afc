"""Phases: images of every n-th element, and dilated convolutions of them, which Winograd's algorithm computes.

With dilation d, the windows of every d-th output read only every d-th element of the data. So the elements of an image
whose coordinates have the same remainders by d, a *phase*, are an image of their own, and the convolution of phases has
no gaps. ``Split`` copies images to phases, and ``Join`` is its inverse. Phases that are one line or column shorter end
with zeros, which padding would supply as well. Weights are the same. :mod:`~phonograd.core.kernels.conv.strides` has
phases, too, as channels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ...base.dtypes import FLOAT32
from ...graph.node import Shape
from ...lower.ir.function_builder import Index
from ..deinterleave import inside_mask, sort, specialized_stride, unsort
from ..launch import Launch, Plan, Reference, Words, align_up
from ..routine import Routine, module
from .geometry import Geometry
from .planes import moved
from .winograd_plan import Phasing

__all__ = ["Join", "Planner", "Split", "data_grad", "flat", "forward", "launch", "weight_grad"]

#: elements worth a call
_CHUNK_ELEMENTS = 1 << 13
#: maximum size in bytes of all phases
_MOST_BYTES = 1 << 28
#: products in the time of copying an element: with large gaps, each is in a cache line of its own (AMD EPYC, Zen 5)
_COPY_PRODUCTS = 25
_FLOAT = FLOAT32.itemsize

#: returns the plan of a convolution of phases, or None if there is no fast one
Planner = Callable[[Geometry, Phasing], "Plan | None"]
_ZERO = "0.0"

_NUMBERS = (
    *("channels", "rows", "columns", "gap_y", "gap_x", "pad_y", "pad_x", "height", "width"),
    *("image_step", "channel_step", "phase_step"),
)
_WORDS = Words(*_NUMBERS, "source*", "target*")


@dataclasses.dataclass(frozen=True)
class _Phases:
    """Base class of the kernels; an item is a channel of an image.

    Phases are images of ``height`` by ``width`` elements, which are ``image_step``, ``channel_step`` and ``phase_step``
    such images apart. Element (v, u) of phase (r, q) is that of the image at (v * gap_y + r - pad_y, u * gap_x + q -
    pad_x).
    """

    lanes: int
    x_gap: int
    """Gap along x if the kernel is specialized for it (see :mod:`~phonograd.core.kernels.deinterleave`), else 0."""

    def _begin(self, name: str, whole: str, parts: str) -> tuple[Routine, dict[str, Index], str, str]:
        """Return the routine, the numbers of its table, and the addresses of whole images and of phases."""
        e = Routine(name, self.lanes, FLOAT32)
        number = {word: _WORDS.index(e, word) for word in _NUMBERS}
        return e, number, _WORDS.pointer(e, whole), _WORDS.pointer(e, parts)

    @staticmethod
    def _places(e: Routine, number: dict[str, Index], index: Index, whole: str, parts: str) -> tuple[str, str]:
        """Return the addresses of a channel of an image, and of its first phase."""
        image, channel = e.split(index, number["channels"])
        first = e.plus(e.times(image, number["image_step"]), e.times(channel, number["channel_step"]))
        size = e.times(number["height"], number["width"])
        return e.at(whole, e.times(index, e.times(number["rows"], number["columns"]))), e.at(
            parts, e.times(first, size)
        )


@dataclasses.dataclass(frozen=True)
class Split(_Phases):
    """The kernel that copies images to phases, which have zeros where there are no elements."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e, number, source, target = self._begin(name, "source", "target")
        height, width, columns, gap_x = [number[word] for word in ("height", "width", "columns", "gap_x")]
        distance = e.times(number["phase_step"], e.times(height, width))

        def vectors(line: str, into: str) -> None:
            def some(index: Index) -> None:
                first = e.minus(e.times(index, str(self.x_gap)), number["pad_x"])
                places = [e.plus(first, str(vector * self.lanes)) for vector in range(self.x_gap)]
                found = [e.get_where(line, inside_mask(e, place, columns), place) for place in places]
                mask = e.below(e.minus(width, index))
                for phase, value in enumerate(sort(e, found)):
                    e.store_where(e.at(into, e.times(str(phase), distance)), index, value, mask)

            e.for_each("0", width, some, str(self.lanes))

        def elements(line: str, into: str) -> None:
            def phase(q: Index) -> None:
                target, shift = e.at(into, e.times(q, distance)), e.minus(q, number["pad_x"])
                first, stop = _existing(e, columns, shift, gap_x, width)
                seen = e.at(line, shift)
                e.for_each("0", first, lambda x: e.put_one(target, _ZERO, x))
                e.for_each(first, stop, lambda x: e.put_one(target, e.get_one(seen, e.times(x, gap_x)), x))
                e.for_each(stop, width, lambda x: e.put_one(target, _ZERO, x))

            e.for_each("0", gap_x, phase)

        def item(index: Index) -> None:
            image, phases = self._places(e, number, index, source, target)

            def phase(r: Index) -> None:
                into = e.at(phases, e.times(e.times(r, gap_x), distance))

                def line(v: Index) -> None:
                    y = e.minus(e.plus(e.times(v, number["gap_y"]), r), number["pad_y"])
                    here, seen = e.at(into, e.times(v, width)), e.at(image, e.times(y, columns))

                    def nothing() -> None:
                        def zeros(q: Index) -> None:
                            e.clear_exactly(e.at(here, e.times(q, distance)), width)

                        e.for_each("0", gap_x, zeros)

                    copy = vectors if self.x_gap else elements
                    e.when(e.test("ult", y, number["rows"]), lambda: copy(seen, here), nothing)

                e.for_each("0", height, line)

            e.for_each("0", number["gap_y"], phase)

        e.for_each("%lo", "%hi", item)
        return module(e)


@dataclasses.dataclass(frozen=True)
class Join(_Phases):
    """The kernel that copies phases to images, which have zeros where no phase has an element."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e, number, target, source = self._begin(name, "target", "source")
        height, width, columns, gap_x = [number[word] for word in ("height", "width", "columns", "gap_x")]
        distance = e.times(number["phase_step"], e.times(height, width))

        def vectors(seen: str, line: str) -> None:
            def some(index: Index) -> None:
                mask = e.below(e.minus(width, index))
                places = [e.at(seen, e.times(str(phase), distance)) for phase in range(self.x_gap)]
                first = e.minus(e.times(index, str(self.x_gap)), number["pad_x"])
                for vector, value in enumerate(unsort(e, [e.get_where(place, mask, index) for place in places])):
                    place = e.plus(first, str(vector * self.lanes))
                    e.store_where(line, place, value, inside_mask(e, place, columns))

            count = e.quotient(e.total(columns, number["pad_x"], str(self.x_gap - 1)), str(self.x_gap))
            e.for_each("0", count, some, str(self.lanes))

        def elements(seen: str, line: str) -> None:
            def phase(q: Index) -> None:
                shift = e.minus(q, number["pad_x"])
                first, stop = _existing(e, columns, shift, gap_x, width)
                place, into = e.at(seen, e.times(q, distance)), e.at(line, shift)
                e.for_each(first, stop, lambda x: e.put_one(into, e.get_one(place, x), e.times(x, gap_x)))

            # elements that no phase has are zeros
            e.clear_exactly(line, columns)
            e.for_each("0", gap_x, phase)

        def item(index: Index) -> None:
            image, phases = self._places(e, number, index, target, source)

            def line(y: Index) -> None:
                v, r = e.split(e.plus(y, number["pad_y"]), number["gap_y"])
                seen = e.at(phases, e.times(e.times(r, gap_x), distance), e.times(v, width))
                into = e.at(image, e.times(y, columns))
                copy = vectors if self.x_gap else elements
                e.when(e.test("slt", v, height), lambda: copy(seen, into), lambda: e.clear_exactly(into, columns))

            e.for_each("0", number["rows"], line)

        e.for_each("%lo", "%hi", item)
        return module(e)


def _existing(e: Routine, columns: Index, shift: Index, gap: Index, width: Index) -> tuple[Index, Index]:
    """Return the range of the elements of a phase that a line has; the first would be at ``shift``."""
    most = e.minus(gap, "1")
    first = e.least(e.quotient(e.most(e.minus(most, shift), "0"), gap), width)
    stop = e.quotient(e.most(e.minus(e.plus(columns, most), shift), "0"), gap)
    return first, e.most(e.least(stop, width), first)


def launch(
    lanes: int,
    join: bool,
    images: int,
    channels: int,
    whole: Shape,
    part: Shape,
    gaps: Shape,
    pad: Shape,
    steps: tuple[int, int, int],
    source: Reference,
    target: Reference,
) -> Launch:
    """Return the launch that copies ``channels`` channels of some images to phases, or with ``join`` the reverse.

    ``steps`` are the distances of images, channels and phases, in phases.
    """
    values: dict[str, int | Reference] = {"channels": channels, "source": source, "target": target}
    values.update(rows=whole[1], columns=whole[2], height=part[1], width=part[2])
    values.update(gap_y=gaps[1], gap_x=gaps[2], pad_y=pad[1], pad_x=pad[2])
    values.update(zip(("image_step", "channel_step", "phase_step"), steps, strict=True))
    kernel = (Join if join else Split)(lanes, specialized_stride(gaps[2]))
    size = gaps[1] * gaps[2] * part[1] * part[2]
    return Launch(kernel, _WORDS.fill(values), images * channels, max(1, _CHUNK_ELEMENTS // size))


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


def _phasing(other: Geometry) -> Phasing:
    """Return the facts about phases."""
    return Phasing(copying=sum(_bytes(other)) // _FLOAT * _COPY_PRODUCTS)


def forward(lanes: int, shape: Geometry, plan_of: Planner) -> Plan | None:
    """Return the plan of a convolution, given that of one of phases."""
    other = flat(shape)
    plan = None if other is None else plan_of(other, _phasing(other))
    if other is None or plan is None:
        return None
    data, result = [align_up(size) for size in _bytes(other)]
    launches = (
        _data(lanes, shape, other, Reference("scratch")),
        *[moved(launch, {"data": 0, "out": data, "scratch": data + result}) for launch in plan.launches],
        _copying(
            *(lanes, True, shape, shape.groups * shape.filters, shape.counts, other.counts),
            *(Reference("scratch", data), Reference("out")),
        ),
    )
    return _after_one(plan, launches, data + result)


def data_grad(lanes: int, shape: Geometry, plan_of: Planner) -> Plan | None:
    """Return the plan of the data gradient, given that of a convolution of phases."""
    other = flat(shape)
    plan = None if other is None else plan_of(other, _phasing(other))
    if other is None or plan is None:
        return None
    data, result = [align_up(size) for size in _bytes(other)]
    launches = (
        _gradients(lanes, shape, other, Reference("scratch", data)),
        *[moved(launch, {"out": 0, "out_grad": data, "scratch": data + result}) for launch in plan.launches],
        _copying(
            *(lanes, True, shape, shape.groups * shape.channels, shape.extent, other.extent),
            *(Reference("scratch"), Reference("out")),
        ),
    )
    return _after_one(plan, launches, data + result)


def weight_grad(lanes: int, shape: Geometry, plan_of: Planner) -> Plan | None:
    """Return the plan of the weight gradient, given that of a convolution of phases."""
    other = flat(shape)
    plan = None if other is None else plan_of(other, _phasing(other))
    if other is None or plan is None:
        return None
    data, result = [align_up(size) for size in _bytes(other)]
    launches = (
        _data(lanes, shape, other, Reference("scratch")),
        _gradients(lanes, shape, other, Reference("scratch", data)),
        *[moved(launch, {"data": 0, "out_grad": data, "scratch": data + result}) for launch in plan.launches],
    )
    return Plan(launches, data + result + plan.scratch_bytes)


def _after_one(plan: Plan, launches: tuple[Launch, ...], size: int) -> Plan:
    """Return a plan with one launch before those of another, whose scratch memory begins after some bytes."""
    prepared = [each._replace(number=each.number + 1, start=each.start + size) for each in plan.prepared]
    return Plan(launches, size + plan.scratch_bytes, tuple(prepared))


def _data(lanes: int, shape: Geometry, other: Geometry, target: Reference) -> Launch:
    sizes = shape.groups * shape.channels, shape.extent, other.extent
    return _copying(lanes, False, shape, *sizes, Reference("data"), target)


def _gradients(lanes: int, shape: Geometry, other: Geometry, target: Reference) -> Launch:
    sizes = shape.groups * shape.filters, shape.counts, other.counts
    return _copying(lanes, False, shape, *sizes, Reference("out_grad"), target)


def _copying(
    lanes: int,
    join: bool,
    shape: Geometry,
    channels: int,
    whole: Shape,
    part: Shape,
    source: Reference,
    target: Reference,
) -> Launch:
    """Return the launch that copies images of some size to phases, which are images of their own, or the reverse."""
    phases = shape.dilate[1] * shape.dilate[2]
    steps = phases * channels, 1, channels
    return launch(lanes, join, shape.batch, channels, whole, part, shape.dilate, (0, 0, 0), steps, source, target)
