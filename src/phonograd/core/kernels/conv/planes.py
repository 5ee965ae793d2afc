"""Convolutions over three axes as convolutions of planes, which Winograd's algorithm computes.

A kernel of k planes is one of k times as many channels over two axes: channel (c, t) of plane z is the plane of channel
c that tap t of window z reads. ``Unfold`` copies these planes, and ``Fold`` is its adjoint. Weights need no copy: their
taps along z follow the channels already. ``Unfold`` with one tap transposes channels and planes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ...base.dtypes import FLOAT32
from ...lower.ir.function_builder import Index, Value
from ..launch import Launch, Plan, Reference, Words, align_up
from ..routine import Routine, module
from .geometry import Geometry

__all__ = ["Fold", "Unfold", "data_grad", "flat", "forward", "moved", "weight_grad"]

#: elements worth a call
_CHUNK_ELEMENTS = 1 << 13
#: maximum size in bytes of unfolded data and of results: larger ones take longer than they save
_MOST_BYTES = 1 << 28
_FLOAT = FLOAT32.itemsize

_NUMBERS = ("channels", "taps", "planes", "depth", "stride", "dilate", "pad", "elements")
_WORDS = Words(*_NUMBERS, "source*", "target*")

#: returns the plan of a convolution of planes, or None if there is no fast one
Planner = Callable[[Geometry], "Plan | None"]


@dataclasses.dataclass(frozen=True)
class Unfold:
    """The kernel that copies (image, channel, depth) to (image, plane, channel, tap); an item is a plane of these."""

    lanes: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, FLOAT32)
        number = {word: _WORDS.index(e, word) for word in _NUMBERS}
        source, target = _WORDS.pointer(e, "source"), _WORDS.pointer(e, "target")
        size = number["elements"]
        last, mask = e.tail(size)

        def item(index: Index) -> None:
            rest, tap = e.split(index, number["taps"])
            rest, channel = e.split(rest, number["channels"])
            image, plane = e.split(rest, number["planes"])
            z = e.minus(e.plus(e.times(plane, number["stride"]), e.times(tap, number["dilate"])), number["pad"])
            into = e.at(target, e.times(index, size))
            place = e.plus(e.times(e.plus(e.times(image, number["channels"]), channel), number["depth"]), z)
            seen = e.at(source, e.times(place, size))

            def put(value: Callable[[Index, Value | None], Value]) -> None:
                e.for_each("0", last, lambda at: e.store(into, at, value(at, None)), str(self.lanes))
                e.store_where(into, last, value(last, mask), mask)

            e.when(
                e.test("ult", z, number["depth"]),
                lambda: put(lambda at, mask: e.get(seen, at) if mask is None else e.get_where(seen, mask, at)),
                lambda: put(lambda at, mask: e.zeros()),
            )

        e.for_each("%lo", "%hi", item)
        return module(e)


@dataclasses.dataclass(frozen=True)
class Fold:
    """The adjoint of :class:`Unfold`: the kernel that adds up the copies of each plane; an item is a plane of data."""

    lanes: int

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, FLOAT32)
        number = {word: _WORDS.index(e, word) for word in _NUMBERS}
        source, target = _WORDS.pointer(e, "source"), _WORDS.pointer(e, "target")
        size = number["elements"]
        last, mask = e.tail(size)

        def item(index: Index) -> None:
            rest, z = e.split(index, number["depth"])
            image, channel = e.split(rest, number["channels"])
            into = e.at(target, e.times(index, size))

            def total(at: Index, mask: Value | None) -> Value:
                def add(tap: Index, found: list[Value]) -> list[Value]:
                    place = e.minus(e.plus(z, number["pad"]), e.times(tap, number["dilate"]))
                    plane, phase = e.split(place, number["stride"])
                    exists = e.logical_and(e.test("eq", phase, "0"), e.test("ult", plane, number["planes"]))

                    def one() -> list[Value]:
                        row = e.plus(e.times(image, number["planes"]), plane)
                        which = e.plus(e.times(e.plus(e.times(row, number["channels"]), channel), number["taps"]), tap)
                        seen = e.at(source, e.times(which, size))
                        return [e.add(found[0], e.get(seen, at) if mask is None else e.get_where(seen, mask, at))]

                    return e.choose(exists, one, lambda: found)

                return e.loop("0", number["taps"], "1", [e.zeros()], add)[0]

            e.for_each("0", last, lambda at: e.store(into, at, total(at, None)), str(self.lanes))
            e.store_where(into, last, total(last, mask), mask)

        e.for_each("%lo", "%hi", item)
        return module(e)


def flat(shape: Geometry) -> Geometry | None:
    """Return the convolution of planes, or None if there is one plane only, or if it would take too much memory."""
    planes, kernel = shape.counts[0], shape.kernel[0]
    other = Geometry(
        *(shape.batch * planes, shape.groups, shape.channels * kernel, shape.filters),
        *[(number, *numbers[1:]) for number, numbers in ((1, shape.extent), (1, shape.kernel), (1, shape.stride))],
        *[(number, *numbers[1:]) for number, numbers in ((1, shape.dilate), (0, shape.pad), (1, shape.counts))],
    )
    if shape.extent[0] == 1 or max(_bytes(other)) > _MOST_BYTES:
        return None
    return other


def _bytes(other: Geometry) -> tuple[int, int]:
    """Return the sizes of the unfolded data and of the results of a convolution of planes."""
    images = other.batch * other.groups * _FLOAT
    return images * other.channels * other.pixels, images * other.filters * other.windows


def forward(lanes: int, shape: Geometry, plan_of: Planner) -> Plan | None:
    """Return the plan of a convolution, given that of one of planes."""
    other = flat(shape)
    plan = None if other is None else plan_of(other)
    if other is None or plan is None:
        return None
    unfolded, result = [align_up(size) for size in _bytes(other)]
    places = {"data": 0, "out": unfolded, "scratch": unfolded + result}
    launches = (
        _unfold(lanes, shape, Reference("data"), Reference("scratch")),
        *[moved(launch, places) for launch in plan.launches],
        # planes become channels again
        _transpose(
            *(lanes, shape.batch, shape.counts[0], shape.groups * shape.filters, other.windows),
            *(Reference("scratch", unfolded), Reference("out")),
        ),
    )
    prepared = [each._replace(number=each.number + 1, start=each.start + places["scratch"]) for each in plan.prepared]
    return Plan(launches, places["scratch"] + plan.scratch_bytes, tuple(prepared))


def data_grad(lanes: int, shape: Geometry, plan_of: Planner) -> Plan | None:
    """Return the plan of the data gradient, given that of a convolution of planes."""
    other = flat(shape)
    plan = None if other is None else plan_of(other)
    if other is None or plan is None:
        return None
    unfolded, result = [align_up(size) for size in _bytes(other)]
    places = {"out": 0, "out_grad": unfolded, "scratch": unfolded + result}
    launches = (
        _gradients(lanes, shape, other, Reference("scratch", unfolded)),
        *[moved(launch, places) for launch in plan.launches],
        Launch(
            Fold(lanes),
            _WORDS.fill({**_values(shape), "source": Reference("scratch"), "target": Reference("out")}),
            shape.batch * shape.groups * shape.channels * shape.extent[0],
            _chunk(other.pixels),
        ),
    )
    prepared = [each._replace(number=each.number + 1, start=each.start + places["scratch"]) for each in plan.prepared]
    return Plan(launches, places["scratch"] + plan.scratch_bytes, tuple(prepared))


def weight_grad(lanes: int, shape: Geometry, plan_of: Planner) -> Plan | None:
    """Return the plan of the weight gradient, given that of a convolution of planes."""
    other = flat(shape)
    plan = None if other is None else plan_of(other)
    if other is None or plan is None:
        return None
    unfolded, result = [align_up(size) for size in _bytes(other)]
    places = {"data": 0, "out_grad": unfolded, "scratch": unfolded + result}
    launches = (
        _unfold(lanes, shape, Reference("data"), Reference("scratch")),
        _gradients(lanes, shape, other, Reference("scratch", unfolded)),
        *[moved(launch, places) for launch in plan.launches],
    )
    return Plan(launches, places["scratch"] + plan.scratch_bytes)


def _values(shape: Geometry) -> dict[str, int | Reference]:
    """Return the table words of a convolution's data."""
    values: dict[str, int | Reference] = {"channels": shape.groups * shape.channels, "taps": shape.kernel[0]}
    values.update(planes=shape.counts[0], depth=shape.extent[0], stride=shape.stride[0], dilate=shape.dilate[0])
    return {**values, "pad": shape.pad[0], "elements": shape.extent[1] * shape.extent[2]}


def _unfold(lanes: int, shape: Geometry, source: Reference, target: Reference) -> Launch:
    values = {**_values(shape), "source": source, "target": target}
    items = shape.batch * shape.counts[0] * shape.groups * shape.channels * shape.kernel[0]
    return Launch(Unfold(lanes), _WORDS.fill(values), items, _chunk(shape.extent[1] * shape.extent[2]))


def _gradients(lanes: int, shape: Geometry, other: Geometry, target: Reference) -> Launch:
    """Return the launch that copies the gradients of filters, plane by plane."""
    filters = shape.groups * shape.filters
    return _transpose(lanes, shape.batch, filters, shape.counts[0], other.windows, Reference("out_grad"), target)


def _transpose(
    lanes: int, images: int, rows: int, columns: int, elements: int, source: Reference, target: Reference
) -> Launch:
    """Return the launch that copies (image, row, column, elements) to (image, column, row, elements)."""
    values: dict[str, int | Reference] = {"channels": rows, "taps": 1, "planes": columns, "depth": columns}
    values.update(stride=1, dilate=1, pad=0, elements=elements, source=source, target=target)
    return Launch(Unfold(lanes), _WORDS.fill(values), images * rows * columns, _chunk(elements))


def _chunk(elements: int) -> int:
    """Return the number of planes of some elements that is worth a call."""
    return max(1, _CHUNK_ELEMENTS // max(1, elements))


def moved(launch: Launch, places: dict[str, int]) -> Launch:
    """Return a launch whose operands are in scratch memory, from some bytes on."""
    words = [
        Reference("scratch", word.offset + places[word.operand])
        if isinstance(word, Reference) and word.operand in places
        else word
        for word in launch.words
    ]
    return launch._replace(words=tuple(words))
