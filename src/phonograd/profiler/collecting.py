"""Collection: the only work of a running profiler is to append the ranges of each thread to a list.

This module also limits the recording: a maximum number of events (keeping the first or the last), random sampling, and
a minimum duration.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from ..core.base.errors import _PACKAGE_DIRECTORY
from ..core.events import (
    MEMORY,
    MODULE,
    ExclusiveObservation,
    Observer,
    Range,
    RecordScope,
    add_collector,
    current_thread_id,
    remove_collector,
)
from ..core.observe.allocations import Allocation
from .events import EventList, Slice, build
from .memory import inventory

__all__ = ["Recording", "join_cycles", "observed_scopes"]


_ORDINARY = frozenset([int(scope) for scope in RecordScope if scope not in (MEMORY, MODULE)])


def observed_scopes(
    scopes: Collection[int] | None, profile_memory: bool = False, with_modules: bool = False
) -> frozenset[int]:
    """Return the scopes that a profiler observes; memory and modules only on request."""
    chosen = frozenset([int(RecordScope(scope)) for scope in scopes]) if scopes else _ORDINARY
    return chosen | ({MEMORY} if profile_memory else set()) | ({MODULE} if with_modules else set())


class Recording:
    """One recording: the ranges of each thread from :meth:`start` to :meth:`stop`."""

    def __init__(
        self,
        *,
        scopes: Collection[int] | None = None,
        record_shapes: bool = False,
        with_stack: bool = False,
        all_threads: bool = True,
        max_events: int | None = None,
        keep_last: bool = False,
        minimum_duration_ns: int = 0,
        sampling_probability: float = 1.0,
        origin_ns: int = 0,
        preexisting: bool = True,
    ) -> None:
        self._observer = Observer(
            scopes=scopes,
            needs_inputs=record_shapes,
            sampling_probability=sampling_probability,
            collector=self._collect,
        )
        self._details = (record_shapes, with_stack)
        self._only = None if all_threads else current_thread_id()
        self._buffers: dict[int, tuple[str, Any]] = {}
        self._most = max_events
        self._keep_last = keep_last
        self._shortest = minimum_duration_ns
        self._events: EventList | None = None
        self._preexisting = preexisting
        self._held: list[tuple[int, list[Allocation]]] = []
        self.dropped = 0
        # a recording with a limit makes room in the lists of other threads; reentrant, because a finalizer that runs
        # while it is held may begin a range
        self._room = threading.RLock()
        self.origin_ns = origin_ns or time.perf_counter_ns()
        """The origin of all times."""
        self._began_ns = self.origin_ns
        self.wall_ns = time.time_ns() - (time.perf_counter_ns() - self.origin_ns)
        self.stop_ns = 0

    def start(self) -> None:
        """Start recording."""
        if self._preexisting and self._observer.sees(MEMORY):
            self._held = [(max(time.perf_counter_ns() - self.origin_ns, 0), inventory())]
        self._began_ns = time.perf_counter_ns()
        add_collector(self._observer)

    def stop(self) -> None:
        """Stop recording, and close open ranges as of now."""
        remove_collector(self._observer)
        self.stop_ns = time.perf_counter_ns()

    def pause(self, paused: bool) -> None:
        """Pause (True) or resume (False) recording of new ranges."""
        remove_collector(self._observer)
        if not paused:
            add_collector(self._observer)

    def observe_exclusively(self) -> ExclusiveObservation:
        """Return a ``with`` block that hides this thread from all other observers."""
        return ExclusiveObservation(self._observer)

    def _collect(self, number: int, name: str) -> Callable[[Range], object]:
        if self._only not in (None, number):
            return _ignore
        most = self._most
        _, buffer = self._buffers.setdefault(number, (name, [] if most is None else deque()))
        if most is None and not any(self._details):
            append: Callable[[Range], object] = buffer.append
            return append
        shapes, stack = self._details

        def collect(entry: Range) -> None:
            if most is not None and not self._keep_last and not self._has_room(most):
                return
            if shapes:
                facts = entry.facts
                if facts is not None and facts._inputs and facts.shapes is None:
                    facts.shapes = [_describe_input(value) for value in facts._inputs]
            if stack and entry.stack is None:
                entry.stack = _stack()
            if most is None:
                buffer.append(entry)
            else:
                self._append_within(most, buffer, entry)

        return collect

    def _append_within(self, most: int, own: deque[Range], entry: Range) -> None:
        """Keep a range if there is room for it; with ``keep_last``, forget the oldest one of the thread for it."""
        with self._room:
            if not self._has_room(most):
                if not self._keep_last or not most:
                    return
                fullest = own or max([kept for _, kept in list(self._buffers.values())], key=len)
                if fullest:
                    fullest.popleft()
            own.append(entry)

    def _has_room(self, most: int) -> bool:
        """Return whether another range may be kept; count it as dropped, or a kept one in its place, if not."""
        with self._room:
            full = sum([len(kept) for _, kept in list(self._buffers.values())]) >= most
            self.dropped += full
            return not full

    def events(self) -> EventList:
        """Return the events so far. A finished recording builds them once, a running one on every call."""
        if self._events is not None:
            return self._events
        stop_ns = self.stop_ns or time.perf_counter_ns()
        with self._room:
            buffers = {number: (name, list(kept)) for number, (name, kept) in list(self._buffers.items())}
            dropped = self.dropped
        if self._shortest:
            long = {number: (name, self._long_enough(kept)) for number, (name, kept) in buffers.items()}
            dropped += sum([len(kept) - len(long[number][1]) for number, (_, kept) in buffers.items()])
            buffers = long
        events = build(buffers, self.origin_ns, stop_ns, self.wall_ns, dropped, self._held, self._began_ns)
        if self.stop_ns:
            self._events = events
            # threads that have begun no range since then still refer to the lists
            for _, kept in self._buffers.values():
                kept.clear()
            self._buffers = {}
        return events

    def _long_enough(self, ranges: list[Range]) -> list[Range]:
        shortest = self._shortest
        return [r for r in ranges if r.instant or not r.end_ns or r.end_ns - r.start_ns >= shortest]


def _ignore(entry: Range) -> None:
    """Ignore a range of a thread that is not profiled."""


def _describe_input(value: Any) -> Any:
    """Return the shape and dtype of an array (one shared object per pair), or the text of any other value."""
    if value.__class__ is float or value.__class__ is int:
        return value
    shape = getattr(value, "shape", None)
    if shape.__class__ is tuple:
        dtype = getattr(value, "dtype", "")
        return _descriptions.get((shape, dtype)) or _description(shape, dtype)
    return value if isinstance(value, str | int | float | bool | None) else repr(value)[:200]


def _description(shape: tuple[int, ...], dtype: Any) -> list[Any]:
    # the dtype of an array may be a NumPy scalar class
    text = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    if len(_descriptions) >= _MOST_REMEMBERED:
        _descriptions.clear()
    found = _descriptions[shape, dtype] = [list(shape), text]
    return found


_DEEPEST = 64
_MOST_REMEMBERED = 10_000
_descriptions: dict[tuple[Any, Any], list[Any]] = {}
#: the text of each place in user code, by code object and instruction (empty for places in this package). The key
#: keeps the code object alive, so that its identity stays unique.
_places: dict[tuple[int, int], tuple[str, Any]] = {}


def _stack() -> tuple[str, ...]:
    """Return the user's call stack, innermost call first."""
    places: list[str] = []
    frame: Any = sys._getframe(1)
    while frame is not None and len(places) < _DEEPEST:
        code = frame.f_code
        found = _places.get((id(code), frame.f_lasti))
        if found is None:
            hidden = code.co_filename.startswith((_PACKAGE_DIRECTORY, "<phonograd"))
            if len(_places) >= _MOST_REMEMBERED:
                _places.clear()
            text = "" if hidden else f"{code.co_filename}({frame.f_lineno}): {code.co_name}"
            found = _places[id(code), frame.f_lasti] = text, code
        if found[0]:
            places.append(found[0])
        frame = frame.f_back
    return tuple(places)


def join_cycles(cycles: list[EventList]) -> EventList:
    """Return the events of several cycles of one profiler as one list."""
    slices: dict[int, list[Slice]] = {}
    threads: dict[int, str] = {}
    for cycle in cycles:
        threads.update(cycle.threads)
        for number, stretches in cycle.slices.items():
            slices.setdefault(number, []).extend(stretches)
    return EventList(
        [event for cycle in cycles for event in cycle],
        slices,
        threads,
        elapsed_ns=max([cycle.elapsed_ns for cycle in cycles], default=0),
        wall_ns=cycles[0].wall_ns if cycles else 0,
        dropped=sum([cycle.dropped for cycle in cycles]),
        moments=[moment for cycle in cycles for moment in cycle.moments],
        held=[state for cycle in cycles for state in cycle.held],
        links=[pair for cycle in cycles for pair in cycle.links],
        causes=[pair for cycle in cycles for pair in cycle.causes],
        uncredited_ns=sum([cycle.uncredited_ns for cycle in cycles]),
        origin_ns=cycles[0].origin_ns if cycles else 0,
    )
