"""Hints: patterns in a profile that often mean lost time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ..core.events import COMPILATION, EVALUATION, FUNCTION, KERNEL
from .events import EventList, FunctionEvent
from .memory import MemoryTimeline
from .tables import bytes_text, time_text

__all__ = ["Hint", "find_hints"]

_MANY = 100
#: a kernel below this time costs more to launch than to run
_TINY_NS = 5_000
_RECOMPILATIONS = 10
#: backward passes over one operator
_PASSES = 3
#: copies, and the share of the kernels' time that they take
_FEW = 10
_MUCH = 0.25


@dataclasses.dataclass(frozen=True)
class Hint:
    """Something worth looking at."""

    kind: str
    text: str
    cost_ns: int
    """The time that it is about."""

    def __str__(self) -> str:
        return f"{self.text} ({time_text(self.cost_ns / 1000)})"


def find_hints(events: EventList) -> list[Hint]:
    """Return the hints for some events, the most costly first."""
    kinds = (_tiny_kernels, _evaluations, _compilations, _repeated, _retained, _unused_gradients, _copies, _grown)
    found = [hint for find in kinds for hint in find(events)]
    return sorted(found, key=lambda hint: -hint.cost_ns)


def _of(events: EventList, scope: int) -> list[FunctionEvent]:
    return [event for event in events if event.range.scope == scope]


def _tiny_kernels(events: EventList) -> Iterator[Hint]:
    tiny = [event for event in _of(events, KERNEL) if event.total_ns < _TINY_NS]
    if len(tiny) >= _MANY:
        text = f"{len(tiny)} kernels took less than {_TINY_NS // 1000} us each: work on larger batches at once"
        yield Hint("tiny kernels", text, sum([event.total_ns for event in tiny]))


def _evaluations(events: EventList) -> Iterator[Hint]:
    groups: dict[tuple[str, ...], list[FunctionEvent]] = {}
    for event in _of(events, EVALUATION):
        if event.parent is not None:
            groups.setdefault(event.path[:-1], []).append(event)
    for path, members in groups.items():
        parents = len({member.parent for member in members})
        if len(members) >= _MANY and len(members) >= 10 * parents:
            where = " > ".join(path)
            times = len(members) // parents
            text = f"{where!r} asks for values {times} times each time it runs: read them once, at the end"
            yield Hint("many evaluations", text, sum([event.total_ns for event in members]))


def _compilations(events: EventList) -> Iterator[Hint]:
    compilations = _of(events, COMPILATION)
    if len(compilations) >= _RECOMPILATIONS:
        last = max([event.start_ns for event in compilations])
        if last > events.elapsed_ns / 2:
            text = (
                f"kernels are still compiled late in the profile, {len(compilations)} times: do shapes keep changing?"
            )
            yield Hint("recompilation", text, sum([event.total_ns for event in compilations]))


def _repeated(events: EventList) -> Iterator[Hint]:
    """Yield operators that are called again and again with the same shapes by the same caller."""
    groups: dict[tuple[FunctionEvent, str, str], list[FunctionEvent]] = {}
    for event in _of(events, FUNCTION):
        if event.parent is not None and event.range.shapes:
            groups.setdefault((event.parent, event.name, repr(event.range.shapes)), []).append(event)
    for (parent, name, _), members in groups.items():
        if len(members) >= _MANY:
            text = (
                f"{parent.name!r} calls {name} {len(members)} times with the same shapes: stack the inputs, call once"
            )
            yield Hint("repeated operator", text, sum([event.total_ns for event in members]))


def _retained(events: EventList) -> Iterator[Hint]:
    """Yield records that are differentiated again and again."""
    passes: dict[FunctionEvent, list[FunctionEvent]] = {}
    for forward, backward in events.links:
        passes.setdefault(forward, []).append(backward)
    again = [derived for derived in passes.values() if len(derived) >= _PASSES]
    if again:
        most = max([len(derived) for derived in again])
        text = (
            f"{len(again)} operators are differentiated up to {most} times each (retain_graph=True): one backward() "
            "with all heads, or with their sum, passes over them once"
        )
        yield Hint("retained graph", text, sum([event.total_ns for derived in again for event in derived[1:]]))


def _unused_gradients(events: EventList) -> Iterator[Hint]:
    """Yield gradients that were written over or dropped before anything was computed from them."""
    unused: set[int] = set()
    count = size = 0
    for moment in events.moments:
        if moment.value > 0 and (moment.attributes or {}).get("phase") == "backward":
            unused.add(moment.identity)
        elif moment.value < 0 and moment.identity in unused:
            count, size = count + 1, size - int(moment.value)
        if moment.value <= 0:
            unused.discard(moment.identity)
    if count >= _FEW:
        text = (
            f"nothing was computed from {count} gradients, {bytes_text(size)}: grad_req='null' has none computed, "
            "'add' adds several up"
        )
        yield Hint("unused gradients", text, 0)


def _copies(events: EventList) -> Iterator[Hint]:
    """Yield kernels without arithmetic."""
    kernels = _of(events, KERNEL)
    copies = [event for event in kernels if event.operators and not event.flops]
    cost = sum([event.total_ns for event in copies])
    if len(copies) >= _FEW and cost > _MUCH * sum([event.total_ns for event in kernels]):
        names = ", ".join(dict.fromkeys([name for event in copies for name in event.operators]))
        moved = bytes_text(sum([event.range.moved_bytes or 0 for event in copies]))
        text = f"{len(copies)} kernels only move, convert or fill in values ({names}), {moved}: keep dtype and layout"
        yield Hint("copies", text, cost)


def _grown(events: EventList) -> Iterator[Hint]:
    """Yield memory that grows with every step."""
    steps = [event.credit.net for event in events if event.key == "ProfilerStep*"]
    if len(steps) >= 3 and all([net > 0 for net in steps[1:]]) and events.moments:
        held = bytes_text(MemoryTimeline(events).end)
        yield Hint("growing memory", f"every step leaves memory behind; {held} are held at the end", 0)
