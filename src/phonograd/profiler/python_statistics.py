"""Python statistics: files for ``pstats``, snakeviz, gprof2dot and tuna."""

from __future__ import annotations

import marshal
import re
from typing import Any

from .events import EventList, FunctionEvent

__all__ = ["python_statistics"]

_Key = tuple[str, int, str]
_PLACE = re.compile(r"(?P<file>.*)\((?P<line>\d+)\): (?P<function>.*)", re.DOTALL)


def python_statistics(events: EventList) -> bytes:
    """Return the contents of a file for ``pstats.Stats``: calls, own and cumulative seconds, callers and callees.

    A recursive call is counted, but its time is part of the outer call. If the profile recorded stacks, an event
    appears under the file and line where it began.
    """
    rows: dict[_Key, list[Any]] = {}
    for event in events:
        if event.range.instant:
            continue
        key = _key(event)
        recursive = _is_recursive(event, key)
        row = rows.setdefault(key, [0, 0, 0.0, 0.0, {}])
        _count(row, event, recursive)
        if event.parent is not None:
            caller = row[4].setdefault(_key(event.parent), [0, 0, 0.0, 0.0])
            _count(caller, event, recursive)
    return marshal.dumps(
        {
            key: (calls, all_calls, own, whole, {caller: tuple(entry) for caller, entry in callers.items()})
            for key, (calls, all_calls, own, whole, callers) in rows.items()
        }
    )


def _count(row: list[Any], event: FunctionEvent, recursive: bool) -> None:
    row[1] += 1
    row[2] += event.self_ns / 1e9
    if not recursive:
        row[0] += 1
        row[3] += event.total_ns / 1e9


def _key(event: FunctionEvent) -> _Key:
    place = _PLACE.fullmatch(event.stack[0]) if event.stack else None
    return (place["file"], int(place["line"]), event.key) if place else ("~", 0, event.key)


def _is_recursive(event: FunctionEvent, key: _Key) -> bool:
    around = event.parent
    while around is not None and _key(around) != key:
        around = around.parent
    return around is not None
