"""Streaming: a Chrome trace written while the program runs, valid at every moment.

Each write appends the end of the document, and the next write overwrites it. A killed program therefore leaves a
readable file that lacks only the last moments. Beginnings and ends are separate events that match like brackets on
each track; overlapping ranges that do not nest go to further tracks.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ..core.events import (
    Observer,
    Range,
    RecordScope,
    add_collector,
    current_thread_id,
    remove_collector,
)
from .arguments import plain, served_scopes

__all__ = ["Stream"]

_END = b"\n]}\n"
#: maximum number of buffered lines, and seconds after which they are written anyway
_MOST_LINES = 512
_LONGEST_WAIT = 1.0


class Stream:
    """An observer that writes ranges to a file."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        scopes: Collection[int] | None = None,
        all_threads: bool = True,
        sampling_probability: float = 1.0,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        self._observer = Observer(self._begin, self._finish, scopes=scopes, sampling_probability=sampling_probability)
        self._only = None if all_threads else current_thread_id()
        self._lock = threading.RLock()
        self._lines: list[str] = []
        self._written = 0.0
        self._tracks: dict[int, list[tuple[int, list[Range]]]] = {}
        self._last: dict[int, int] = {}
        self._places: dict[Range, int] = {}
        self._next_track = 1
        self._memory: dict[str, int] = {}
        self._process = os.getpid()
        self.origin_ns = time.perf_counter_ns()
        self.events = 0
        """The number of ranges seen."""
        head = {**(metadata or {}), "displayTimeUnit": "ns", "baseTimeNanoseconds": time.time_ns()}
        title = {"ph": "M", "name": "process_name", "pid": self._process, "tid": 0}
        first = json.dumps({**title, "args": {"name": f"phonograd {self._process}"}})
        self._file = Path(path).open("wb", buffering=0)  # noqa: SIM115 - closed by close(), when the profile ends
        self._file.write(f'{json.dumps(head)[:-1]}, "traceEvents":[\n{first}'.encode("ascii") + _END)

    def start(self) -> None:
        """Start writing."""
        add_collector(self._observer)

    def stop(self) -> None:
        """Stop recording new ranges; open ranges are still closed when they end."""
        remove_collector(self._observer)
        self.flush()

    def pause(self, paused: bool) -> None:
        """Pause (True) or resume (False) recording of new ranges."""
        remove_collector(self._observer)
        if not paused:
            add_collector(self._observer)

    def close(self) -> None:
        """Close the file, and close open ranges as of now."""
        with self._lock:
            now = time.perf_counter_ns()
            for track, stack in [place for places in self._tracks.values() for place in places]:
                while stack:
                    self._line("E", stack.pop(), track, now, {"unfinished": True})
            self._places.clear()
            self.flush()
            self._file.close()

    def flush(self) -> None:
        """Write the buffered lines."""
        with self._lock:
            if self._lines and not self._file.closed:
                text = "".join([",\n" + line for line in self._lines])
                self._lines.clear()
                self._file.seek(-len(_END), os.SEEK_END)
                self._file.write(text.encode("ascii") + _END)
            self._written = time.monotonic()

    # -- brackets

    def _begin(self, source: Range) -> bool:
        if self._only not in (None, source.thread_id):
            return False
        with self._lock:
            self.events += 1
            if source.instant:
                self._moment(source)
                return False
            # a range measured elsewhere has already begun
            self._open(source, source.start_ns or time.perf_counter_ns())
        return True

    def _open(self, source: Range, now: int) -> None:
        """Write a beginning on the thread's track whose innermost open range is the parent, or on a free one."""
        places = self._tracks.setdefault(source.thread_id, [])
        parent = source.parent
        while parent is not None and parent not in self._places:
            parent = parent.parent
        place = next((place for place in places if place[1] and place[1][-1] is parent), None)
        if place is None:
            place = next((place for place in places if not place[1]), None)
        if place is None:
            place = (self._next_track, [])
            self._next_track += 1
            title = source.thread_name + (f" (overlapping {len(places)})" if places else "")
            name = {"ph": "M", "name": "thread_name", "pid": self._process, "tid": place[0], "args": {"name": title}}
            self._lines.append(json.dumps(name))
            places.append(place)
        track, stack = place
        stack.append(source)
        self._places[source] = track
        self._line("B", source, track, now)

    def _finish(self, source: Range, written: bool | None) -> None:
        with self._lock:
            track = self._places.pop(source, None)
            if not written or track is None or self._file.closed:
                return
            stack = next(stack for number, stack in self._tracks[source.thread_id] if number == track)
            now = source.closing_ns
            inner: list[Range] = []
            while stack[-1] is not source:  # a nested range outlives it and moves to another track
                inner.append(stack.pop())
                self._line("E", inner[-1], track, now, {"continued": True})
            stack.pop()
            self._line("E", source, track, now, _facts(source))
            for other in reversed(inner):
                self._open(other, now)

    def _moment(self, source: Range) -> None:
        if source.scope == RecordScope.MEMORY:
            # earlier allocations are unknown, so the counter could become negative
            held = self._memory.get(source.category, 0) + int(source.value)
            self._memory[source.category] = max(held, 0)
            event = {"ph": "C", "name": "memory", "pid": self._process, "tid": 0, "args": dict(self._memory)}
        elif source.kind == "counter":
            args: dict[str, Any] = {source.name: source.value}
            event = {"ph": "C", "name": source.name, "pid": self._process, "tid": 0, "args": args}
        else:
            event = {"ph": "i", "s": "p", "name": source.name, "pid": self._process, "tid": 0}
        self._lines.append(json.dumps({**event, "ts": (time.perf_counter_ns() - self.origin_ns) / 1000}))

    def _line(self, phase: str, source: Range, track: int, now: int, args: dict[str, Any] | None = None) -> None:
        # callbacks of one track may arrive out of order
        now = self._last[track] = max(now, self._last.get(track, 0))
        event = {"ph": phase, "name": source.name, "pid": self._process, "tid": track}
        event["ts"] = (now - self.origin_ns) / 1000
        if phase == "B":
            event["cat"] = RecordScope(source.scope).name.lower()
        if args:
            event["args"] = plain(args)
        self._lines.append(json.dumps(event))
        if len(self._lines) >= _MOST_LINES or time.monotonic() - self._written > _LONGEST_WAIT:
            self.flush()


def _facts(source: Range) -> dict[str, Any]:
    facts = dict(source.attributes or ())
    if source.args is not None:
        facts["args"] = source.args
    if source.error:
        facts["error"] = source.error
    if source.operators:
        facts["operators"] = list(source.operators)
    if source.serves:
        facts["serves"] = served_scopes(source.serves)
    return facts
