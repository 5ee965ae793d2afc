"""speedscope: files for https://www.speedscope.app with one profile per track and one for memory.

The names come first in such a file, so the events are passed twice: once for names and tracks, once to be written.
"""

from __future__ import annotations

import array
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .chrome import lanes_of
from .events import EventList, Slice
from .tables import write_chunks

__all__ = ["speedscope_json", "write_speedscope"]

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


class _Track:
    """A track: its title, the places of its slices in the thread's list, and the end of the last one."""

    def __init__(self, title: str, slices: Sequence[Slice]) -> None:
        self.title = title
        self.slices = slices
        self.places = array.array("Q")
        self.names: dict[str, None] = {}
        self.until = 0


def write_speedscope(events: EventList, path: str | os.PathLike[str]) -> None:
    """Write a file with the perfectly nested work of each thread, and the origins of memory."""
    write_chunks(path, _pieces(events, Path(path).name))


def speedscope_json(events: EventList, name: str = "phonograd") -> str:
    """Return the contents of a file."""
    return "".join(_pieces(events, name))


def _pieces(events: EventList, name: str) -> Iterator[str]:
    """Yield the text of a file, event by event."""
    frames = _Frames()
    tracks = _tracks(events, frames)
    memory = _memory(events, frames) if any([moment.value > 0 for moment in events.moments]) else None
    head = {
        "$schema": _SCHEMA,
        "name": name,
        "exporter": "phonograd",
        "activeProfileIndex": 0,
        "shared": {"frames": frames.as_list()},
    }
    yield f'{json.dumps(head)[:-1]}, "profiles": ['
    comma = ""
    for track in tracks:
        yield comma
        yield from _evented_profile(track, frames, events.elapsed_ns)
        comma = ", "
    if memory is not None:
        yield comma + json.dumps(memory)
    yield "]}"


def _tracks(events: EventList, frames: _Frames) -> list[_Track]:
    """Return the tracks of all threads, and number the names of their events."""
    found: list[_Track] = []
    for thread, title in sorted(events.threads.items()):
        tracks: dict[int, _Track] = {}
        slices = events.slices.get(thread, [])
        for place, ((_, end, event, _), lane) in enumerate(lanes_of(slices)):
            if event.range.instant:
                continue
            track = tracks.get(lane)
            if track is None:
                track = tracks[lane] = _Track(f"{title} (overlapping {lane})" if lane else title, slices)
            track.places.append(place)
            track.names[event.name] = None
            track.until = max(track.until, end)
        for _, track in sorted(tracks.items()):
            for name in track.names:
                frames.number(name)
            found.append(track)
    return found


def _evented_profile(track: _Track, frames: _Frames, elapsed_ns: int) -> Iterator[str]:
    """Yield the text of a track: the beginnings and ends of its slices in the order of time."""
    head = {
        "type": "evented",
        "name": track.title,
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": max(elapsed_ns, track.until),
    }
    yield f'{json.dumps(head)[:-1]}, "events": ['
    comma = ""
    stack: list[tuple[int, int]] = []
    for place in track.places:
        start, end, event, _ = track.slices[place]
        while stack and stack[-1][0] <= start:
            until, frame = stack.pop()
            yield f', {{"type": "C", "frame": {frame}, "at": {until}}}'
        frame = frames.number(event.name)
        yield f'{comma}{{"type": "O", "frame": {frame}, "at": {start}}}'
        comma = ", "
        stack.append((end, frame))
    while stack:
        until, frame = stack.pop()
        yield f', {{"type": "C", "frame": {frame}, "at": {until}}}'
    yield "]}"


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
