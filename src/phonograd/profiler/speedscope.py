"""speedscope: files for https://www.speedscope.app with one profile per track and one for memory."""

from __future__ import annotations

import json
from typing import Any

from .chrome import lanes_of
from .events import EventList

__all__ = ["speedscope_json"]

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


class _Frames:
    """The interned names of a file."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """Return the number of a name."""
        return self._numbers.setdefault(name, len(self._numbers))

    def as_list(self) -> list[dict[str, str]]:
        """Return all names in order."""
        return [{"name": name} for name in self._numbers]


def speedscope_json(events: EventList, name: str = "phonograd") -> str:
    """Return a file with the perfectly nested work of each thread, and the origins of memory."""
    frames = _Frames()
    profiles = []
    for thread, title in sorted(events.threads.items()):
        tracks: dict[int, list[tuple[int, int, str]]] = {}
        for (start, end, event, _), lane in lanes_of(events.slices.get(thread, [])):
            if not event.range.instant:
                tracks.setdefault(lane, []).append((start, end, event.name))
        for lane, slices in sorted(tracks.items()):
            suffix = f" (overlapping {lane})" if lane else ""
            profiles.append(_evented_profile(f"{title}{suffix}", slices, frames, events.elapsed_ns))
    if any([moment.value > 0 for moment in events.moments]):
        profiles.append(_memory(events, frames))
    return json.dumps(
        {
            "$schema": _SCHEMA,
            "name": name,
            "exporter": "phonograd",
            "activeProfileIndex": 0,
            "shared": {"frames": frames.as_list()},
            "profiles": profiles,
        }
    )


def _evented_profile(
    title: str, slices: list[tuple[int, int, str]], frames: _Frames, elapsed_ns: int
) -> dict[str, Any]:
    moments: list[dict[str, Any]] = []
    stack: list[tuple[int, int]] = []

    def close(until: int | None) -> None:
        while stack and (until is None or stack[-1][0] <= until):
            end, frame = stack.pop()
            moments.append({"type": "C", "frame": frame, "at": end})

    for start, end, name in slices:
        close(start)
        frame = frames.number(name)
        moments.append({"type": "O", "frame": frame, "at": start})
        stack.append((end, frame))
    close(None)
    return {
        "type": "evented",
        "name": title,
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": max([elapsed_ns, *[end for _, end, _ in slices]]),
        "events": moments,
    }


def _memory(events: EventList, frames: _Frames) -> dict[str, Any]:
    weights: dict[tuple[str, ...], int] = {}
    for moment in events.moments:
        if moment.value > 0:
            names = [f"[{moment.category}]"]
            around = moment.parent
            while around is not None:
                names.append(around.name)
                around = around.parent
            path = tuple(reversed(names))
            weights[path] = weights.get(path, 0) + int(moment.value)
    return {
        "type": "sampled",
        "name": "memory allocated",
        "unit": "bytes",
        "startValue": 0,
        "endValue": sum(weights.values()),
        "samples": [[frames.number(name) for name in path] for path in weights],
        "weights": list(weights.values()),
    }
