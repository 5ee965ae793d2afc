"""Hints: patterns in a profile that often mean lost time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ..observers import COMPILATION, EVALUATION, FUNCTION, KERNEL
from .events import EventList, FunctionEvent
from .memory import MemoryTimeline
from .tables import bytes_text, time_text

__all__ = ["Hint", "find_hints"]

_MANY = 100
#: a kernel below this time costs more to launch than to run
_TINY_NS = 5_000
_RECOMPILATIONS = 10


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
    found = [*_tiny_kernels(events), *_evaluations(events), *_compilations(events), *_repeated(events), *_grown(events)]
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


def _grown(events: EventList) -> Iterator[Hint]:
    """Yield memory that grows with every step."""
    steps = [event.credit.net for event in events if event.key == "ProfilerStep*"]
    if len(steps) >= 3 and all([net > 0 for net in steps[1:]]) and events.moments:
        held = bytes_text(MemoryTimeline(events).end)
        yield Hint("growing memory", f"every step leaves memory behind; {held} are held at the end", 0)
