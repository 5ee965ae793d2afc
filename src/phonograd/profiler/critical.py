"""The critical path: the events that determined when the profile ended, followed back from its last moment.

In a single thread everything is on the path. While a thread was idle, the path continues in the thread that worked
last. At an event that another thread started, it continues in that thread. Making an event faster that is not on the
path does not make the program faster.
"""

from __future__ import annotations

import bisect

from .breakdowns import View
from .events import EventList, FunctionEvent, thread_owners

__all__ = ["critical_path"]

#: the event, start and end of a stretch; the event is None while no event was recorded
_Stretch = tuple[FunctionEvent | None, int, int]


def critical_path(events: EventList) -> View:
    """Return one row for each path of names on the critical path, with its time on it."""
    times: dict[str, int] = {}
    counts: dict[str, int] = {}
    for event, start, end in _follow_path(events):
        name = "(nothing recorded)" if event is None else " > ".join(event.path)
        times[name] = times.get(name, 0) + end - start
        counts[name] = counts.get(name, 0) + 1
    whole = sum(times.values()) or 1
    rows = [
        {"name": name, "calls": counts[name], "total_us": time / 1000, "share": 100 * time / whole}
        for name, time in sorted(times.items(), key=lambda row: -row[1])
    ]
    return View(rows)


def _follow_path(events: EventList) -> list[_Stretch]:
    """Return the stretches of the critical path, last one first."""
    threads = {number: list(thread_owners(stretches)) for number, stretches in events.slices.items()}
    threads = {number: [s for s in stretches if s[2] > s[1]] for number, stretches in threads.items()}
    starts = {number: [start for _, start, _ in stretches] for number, stretches in threads.items()}
    ends = {stretches[-1][2]: number for number, stretches in threads.items() if stretches}
    if not ends:
        return []
    now = max(ends)
    thread = ends[now]
    path: list[_Stretch] = []
    while True:
        event, start, end = _before(threads[thread], starts[thread], now)
        if event is None or end < now:
            # this thread was idle: it waited for the thread that worked last
            latest = max(threads, key=lambda number: min(_before(threads[number], starts[number], now)[2], now))
            event, start, end = _before(threads[latest], starts[latest], now)
            if event is None:
                return path
            if end < now:
                path.append((None, end, now))
                now = end
            thread = latest
        path.append((event, start, now))
        now = start
        if event.start_ns == start and event.parent is not None and event.parent.thread in threads:
            thread = event.parent.thread


def _before(
    stretches: list[tuple[FunctionEvent, int, int]], starts: list[int], now: int
) -> tuple[FunctionEvent | None, int, int]:
    """Return the last stretch of a thread that began before a time."""
    index = bisect.bisect_left(starts, now) - 1
    return stretches[index] if index >= 0 else (None, -1, -1)
