"""Hints: patterns in a profile that often indicate wasted time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ..core.events import COMPILATION, EVALUATION, FUNCTION, KERNEL
from .events import EventList, FunctionEvent
from .memory import MemoryTimeline
from .tables import bytes_text, time_text

__all__ = ["Hint", "find_hints"]

_MANY = 100
#: a kernel shorter than this costs more to launch than to run
_TINY_NS = 5_000
_RECOMPILATIONS = 10
#: minimum backward passes over one operator
_PASSES = 3
#: minimum number of copies, and minimum share of the kernel time
_FEW = 10
_MUCH = 0.25


@dataclasses.dataclass(frozen=True)
class Hint:
    """A pattern worth looking at."""

    kind: str
    text: str
    cost_ns: int
    """The time it concerns."""

    def __str__(self) -> str:
        return f"{self.text} ({time_text(self.cost_ns / 1000)})"


def find_hints(events: EventList) -> list[Hint]:
    """Return the hints for some events, most costly first."""
    kinds = (
        _tiny_kernels,
        _evaluations,
        _compilations,
        _repeated_calls,
        _retained_graphs,
        _unused_gradients,
        _copies,
        _memory_growth,
    )
    found = [hint for find in kinds for hint in find(events)]
    return sorted(found, key=lambda hint: -hint.cost_ns)


def _of(events: EventList, scope: int) -> list[FunctionEvent]:
    return [event for event in events if event.range.scope == scope]


def _tiny_kernels(events: EventList) -> Iterator[Hint]:
    tiny = [event for event in _of(events, KERNEL) if event.total_ns < _TINY_NS]
    if len(tiny) >= _MANY:
        text = f"{len(tiny)} kernels took less than {_TINY_NS // 1000} us each: use larger batches"
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
            text = f"{where!r} reads values {times} times per run: read them once, at the end"
            yield Hint("many evaluations", text, sum([event.total_ns for event in members]))


def _compilations(events: EventList) -> Iterator[Hint]:
    compilations = _of(events, COMPILATION)
    if len(compilations) >= _RECOMPILATIONS:
        last = max([event.start_ns for event in compilations])
        if last > events.elapsed_ns / 2:
            text = f"{len(compilations)} compilations, some late in the profile: do shapes keep changing?"
            yield Hint("recompilation", text, sum([event.total_ns for event in compilations]))


def _repeated_calls(events: EventList) -> Iterator[Hint]:
    """Yield operators that one caller calls repeatedly with the same shapes."""
    groups: dict[tuple[FunctionEvent, str, str], list[FunctionEvent]] = {}
    for event in _of(events, FUNCTION):
        if event.parent is not None and event.range.shapes:
            groups.setdefault((event.parent, event.name, repr(event.range.shapes)), []).append(event)
    for (parent, name, _), members in groups.items():
        if len(members) >= _MANY:
            text = f"{parent.name!r} calls {name} {len(members)} times with equal shapes: stack the inputs, call once"
            yield Hint("repeated operator", text, sum([event.total_ns for event in members]))


def _retained_graphs(events: EventList) -> Iterator[Hint]:
    """Yield recorded operators that are differentiated repeatedly."""
    passes: dict[FunctionEvent, list[FunctionEvent]] = {}
    for forward, backward in events.links:
        passes.setdefault(forward, []).append(backward)
    again = [derived for derived in passes.values() if len(derived) >= _PASSES]
    if again:
        most = max([len(derived) for derived in again])
        text = (
            f"{len(again)} operators are differentiated up to {most} times each (retain_graph=True): call "
            "backward() once, with all heads or with their sum"
        )
        yield Hint("retained graph", text, sum([event.total_ns for derived in again for event in derived[1:]]))


def _unused_gradients(events: EventList) -> Iterator[Hint]:
    """Yield gradients that were overwritten or dropped before any use."""
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
            f"{count} gradients ({bytes_text(size)}) were computed but never used: set grad_req='null' to skip them, "
            "or 'add' to accumulate"
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
        text = f"{len(copies)} kernels only copy, convert or fill values ({names}), {moved}: keep dtype and layout"
        yield Hint("copies", text, cost)


def _memory_growth(events: EventList) -> Iterator[Hint]:
    """Yield memory growth over the steps."""
    steps = [event.credit.net for event in events if event.key == "ProfilerStep*"]
    if len(steps) >= 3 and all([net > 0 for net in steps[1:]]) and events.moments:
        held = bytes_text(MemoryTimeline(events).end)
        yield Hint("growing memory", f"memory grows with every step; {held} are held at the end", 0)
