"""Unchanged rows: rows that a kernel need not compute, because it would write the values that are there already.

``weight - rate * grad`` over a table, where the gradient is taken from few rows and zero elsewhere: a row without a
gradient stays as it is, if the result takes the memory of the weight. The kernel tests when it runs whether the memory
is the same, and whether the subtrahend of such a row is +0, so that a rate that is negative, infinite or NaN changes
the rows that it must change. Takes structure and schedule; used by :mod:`.writer`.
"""

from __future__ import annotations

from typing import NamedTuple

from ...graph.operator import REGISTRY, Operator
from ...lower.ir.emitter import Value
from ..structure import REDUCED, SPLAT, UNIT, Compute, Load, Structure, Take
from .body import Body, LoopPosition
from .schedule import Schedule

__all__ = ["Unchanged", "find_unchanged"]

_SUBTRACT: Operator = REGISTRY["broadcast_sub"]


class Unchanged(NamedTuple):
    """The values of a kernel by which it recognizes rows that do not change, by number."""

    minuend: int
    """The load whose memory the result may take."""
    subtrahend: int
    take: int
    """The take whose rows at index 0 are zero."""
    place: int
    """The load of its index."""
    needed: tuple[int, ...]
    """The values from which the subtrahend is computed, itself last."""

    def is_possible(self, body: Body, place: LoopPosition) -> str:
        """Write the test at the start of a kernel; return whether rows at index 0 do not change (an ``i1``)."""
        e, loads = body.emitter, body.structure.loads
        result, own = body.operands[body.first_store], body.operands[self.minuend]
        found = e.assign(f"icmp eq ptr {result.pointer}, {own.pointer}")
        outer = range(len(body.structure.axes) - 1)
        for axis in outer:
            found = e.logical_and(found, e.test("eq", result.strides[axis], own.strides[axis]))
        zero = e.constant(0, body.structure.dtypes[self.take])
        known: dict[int, Value] = {self.take: zero}
        for number in self.needed:
            if number >= len(loads):
                known[number] = known.get(number) or body.value_at(number, place, known)
                continue
            known[number] = body.value_at(number, place, known)
            for axis in outer:
                found = e.logical_and(found, e.test("eq", body.operands[number].strides[axis], "0"))
        bits = e.bits_of_first(known[self.subtrahend])
        return e.logical_and(found, e.assign(f"icmp eq {bits}, 0"))

    def is_here(self, body: Body, place: LoopPosition) -> str:
        """Return whether the index of a row is 0 (an ``i1``)."""
        operand = body.operands[self.place]
        return body.emitter.test("eq", body.emitter.load_word(operand.pointer, place.offsets[self.place]), "0")


def find_unchanged(structure: Structure, schedule: Schedule) -> Unchanged | None:
    """Return how a kernel recognizes rows that do not change, or None if it cannot."""
    if REDUCED in structure.axes or structure.draws or structure.tile is not None or len(structure.axes) < 2:
        return None
    if len(structure.stores) != 1 or structure.stores[0].access != UNIT:
        return None
    step = schedule.value(structure.stores[0].source)
    if not isinstance(step, Compute) or step.operator != _SUBTRACT.name or step.dtype.kind != "f":
        return None
    minuend, subtrahend = step.sources
    loads = structure.loads
    if minuend >= len(loads) or not _is_plain(loads[minuend], UNIT) or loads[minuend].dtype != step.dtype:
        return None
    needed = _needed(schedule, subtrahend)
    takes = [number for number in needed if isinstance(schedule.value(number), Take)]
    if len(takes) != 1 or step.dtype.itemsize < 4 or structure.dtypes[subtrahend] != step.dtype:
        return None
    take = schedule.value(takes[0])
    assert isinstance(take, Take)
    is_from_rows = take.zero_first and take.access == UNIT and take.at < len(loads)
    if not is_from_rows or not _is_plain(loads[take.at], SPLAT):
        return None
    others = [number for number in needed if number < len(loads)]
    if not all([_is_plain(loads[number], SPLAT) for number in others]):
        return None
    return Unchanged(minuend, subtrahend, takes[0], take.at, tuple(needed))


def _is_plain(load: Load, access: str) -> bool:
    return load.access == access and not load.bounds and not load.is_place


def _needed(schedule: Schedule, root: int) -> list[int]:
    """Return the values from which a value is computed and itself, in order, without looking below takes."""
    found: set[int] = set()
    stack = [root]
    while stack:
        number = stack.pop()
        if number not in found:
            found.add(number)
            stack += () if isinstance(schedule.value(number), Take) else schedule.sources(number)
    return sorted(found)
