"""Overhead: measure the time that recording itself takes, and subtract it from events."""

from __future__ import annotations

import time
from typing import NamedTuple

from ..core.events import USER_SCOPE, Range
from .collecting import Recording, observed_scopes
from .events import EventList, FunctionEvent

__all__ = ["Overhead", "measure_overhead", "without_overhead"]

_SAMPLES = 200


class Overhead(NamedTuple):
    """The time that one scope adds, in nanoseconds."""

    inside_ns: int
    """Added to its own duration."""
    outside_ns: int
    """Added to the enclosing event, besides the scope's own duration."""


def measure_overhead() -> Overhead:
    """Return the overhead of a scope on this machine: the minimum of many runs, because noise only adds time."""
    from .recording import record_function

    recording = Recording(scopes=observed_scopes(None), all_threads=False)
    recording.start()
    whole = []
    try:
        with recording.observe_exclusively():
            for _ in range(_SAMPLES):
                start = time.perf_counter_ns()
                with record_function("overhead"):
                    pass
                whole.append(time.perf_counter_ns() - start)
    finally:
        recording.stop()
    inside = min([event.total_ns for event in recording.events() if event.name == "overhead"])
    return Overhead(inside, max(min(whole) - inside, 0))


def without_overhead(events: EventList, overhead: Overhead) -> EventList:
    """Return the same events with shorter durations; start times stay unchanged."""
    copies: dict[FunctionEvent, FunctionEvent] = {}
    for event in events:
        around = None if event.parent is None else copies[event.parent]
        copy = FunctionEvent(event.id, event.range, around, event.start_ns, event.end_ns, event.unfinished)
        copy.credit = event.credit
        copies[event] = copy
    inside_ns = dict.fromkeys(events, 0)
    for event in reversed(list(events)):
        copy = copies[event]
        copy.children = [copies[child] for child in event.children]
        recorded = [child for child in event.children if _costs(child.range)]
        own = overhead.inside_ns if _costs(event.range) else 0
        copy.self_ns = max(event.self_ns - own - overhead.outside_ns * len(recorded), 0)
        # subtract the reduction of the children too, but never go below their remaining time
        lost = sum([inside_ns[child] for child in event.children]) + event.self_ns - copy.self_ns
        inside_ns[event] = lost
        copy.total_ns = max(event.total_ns - lost, copy.self_ns)
    slices = {
        thread: [
            (start, end, copies[event], copies[outer] if outer else None) for start, end, event, outer in stretches
        ]
        for thread, stretches in events.slices.items()
    }
    return EventList(
        list(copies.values()),
        slices,
        events.threads,
        events.elapsed_ns,
        events.wall_ns,
        events.dropped,
        moments=events.moments,
        held=events.held,
        links=[(copies[first], copies[second]) for first, second in events.links],
        causes=[(copies[first], copies[second]) for first, second in events.causes],
        uncredited_ns=events.uncredited_ns,
        origin_ns=events.origin_ns,
    )


def _costs(source: Range) -> bool:
    """Return whether recording a range took time while it was open: not if it was measured elsewhere."""
    return source.scope <= USER_SCOPE and not source.instant
