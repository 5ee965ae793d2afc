"""profile: recording what happens, all of it or by a schedule of steps, in as many profilers at once as wanted.

A profiler is an observer that keeps the ranges of each thread in a list. Nothing else happens while it runs; events,
tables and traces are made when they are asked for.
"""

from __future__ import annotations

import enum
import os
import sys
import time
import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import _PACKAGE_DIRECTORY
from ..observers import USER_SCOPE, Observer, Range, add_collector, current_thread_id, remove_collector
from .averages import AverageList, key_averages
from .chrome import checked_metadata, write_chrome_trace
from .events import EventList, Slice, build

__all__ = ["ProfilerAction", "Recording", "joined", "profile", "schedule"]


class ProfilerAction(enum.Enum):
    """What a profiler does during a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a function from step numbers to actions: cycles of waiting, warming up and recording.

    Parameters
    ----------
    wait, warmup, active : int
        Steps of each part of a cycle. Nothing is recorded but in the active ones.
    repeat : int
        Cycles; 0 for no end.
    skip_first : int
        Steps before the first cycle.
    skip_first_wait : int
        If not 0, the first cycle does not wait.

    >>> steps = schedule(wait=1, warmup=1, active=2)
    >>> [steps(number).name for number in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first, skip_first_wait) < 0 or active <= 0:
        raise ValueError(
            f"Invalid profiler schedule arguments: wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, "
            f"skip_first={skip_first}, skip_first_wait={skip_first_wait}; active must be positive, the others not "
            f"negative"
        )
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"steps are numbered from 0, not {step}")
        step -= skip_first
        if skip_first_wait:
            step += wait
            if step < wait:
                return ProfilerAction.NONE
        if step < 0 or (repeat and step // length >= repeat):
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


class Recording:
    """One stretch of recording: the ranges of each thread from :meth:`start` to :meth:`stop`."""

    def __init__(
        self,
        *,
        scopes: Collection[int] | None = None,
        record_shapes: bool = False,
        with_stack: bool = False,
        all_threads: bool = True,
        max_events: int | None = None,
        origin_ns: int = 0,
    ) -> None:
        self._observer = Observer(scopes=scopes, needs_inputs=record_shapes, collector=self._collect)
        self._details = (record_shapes, with_stack)
        self._only = None if all_threads else current_thread_id()
        self._buffers: dict[int, tuple[str, list[Range]]] = {}
        self._most = max_events
        self._events: EventList | None = None
        self.dropped = 0
        self.origin_ns = origin_ns or time.perf_counter_ns()
        """The moment from which times are counted."""
        self.wall_ns = time.time_ns() - (time.perf_counter_ns() - self.origin_ns)
        self.stop_ns = 0

    def start(self) -> None:
        """Begin to record."""
        add_collector(self._observer)

    def stop(self) -> None:
        """End recording; what is open is closed as of now."""
        remove_collector(self._observer)
        self.stop_ns = time.perf_counter_ns()

    def pause(self, paused: bool) -> None:
        """Miss what begins from now on, or see it again."""
        remove_collector(self._observer)
        self._observer.removed = paused
        if not paused:
            add_collector(self._observer)

    def _collect(self, number: int, name: str) -> Callable[[Range], object]:
        if self._only not in (None, number):
            return _ignore
        _, buffer = self._buffers.setdefault(number, (name, []))
        if self._most is None and not any(self._details):
            return buffer.append
        shapes, stack = self._details

        def collect(entry: Range) -> None:
            if self._most is not None and sum([len(kept) for _, kept in self._buffers.values()]) >= self._most:
                self.dropped += 1
                return
            if shapes and entry.shapes is None:
                entry.shapes = [_described(value) for value in entry.inputs]
            if stack and entry.stack is None:
                entry.stack = _stack()
            buffer.append(entry)

        return collect

    def events(self) -> EventList:
        """Return the events so far: made once when recording is over, each time while it goes on."""
        if self._events is not None:
            return self._events
        events = build(
            dict(self._buffers), self.origin_ns, self.stop_ns or time.perf_counter_ns(), self.wall_ns, self.dropped
        )
        if self.stop_ns:
            self._events = events
            self._buffers = {}
        return events


def _ignore(entry: Range) -> None:
    """Take no notice of a range of a thread that is not profiled."""


def _described(value: Any) -> Any:
    """Return the shape and dtype of an array, or the text of anything else, shortened."""
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        return [list(shape), str(getattr(value, "dtype", ""))]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)[:200]


_DEEPEST = 64


def _stack() -> tuple[str, ...]:
    """Return where the user's code is, innermost call first."""
    places: list[str] = []
    frame: Any = sys._getframe(1)
    while frame is not None and len(places) < _DEEPEST:
        code = frame.f_code
        if not code.co_filename.startswith((_PACKAGE_DIRECTORY, "<phonograd")):
            places.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return tuple(places)


class profile:  # noqa: N801 - PyTorch's name
    """A profiler: a ``with`` block whose operators, kernels and scopes are recorded, in all threads.

    Parameters
    ----------
    schedule : callable, optional
        From the number of a step to a :class:`ProfilerAction`; see :func:`schedule`. Without one, everything is
        recorded. With one, call :meth:`step` at the end of each step.
    on_trace_ready : callable, optional
        Called with the profiler at the end of each recorded cycle; what is asked of the profiler there concerns that
        cycle. Afterwards it concerns all cycles together.
    record_shapes : bool
        Keep the shapes and dtypes of inputs.
    with_stack : bool
        Keep where in the user's code each event began.
    all_threads : bool
        Record every thread, or only the one that starts the profiler.
    scopes : collection of RecordScope, optional
        What to record; everything if empty.
    max_events : int, optional
        Keep no more than that many events of a cycle; the number of those not kept is in ``events().dropped``.
    enabled : bool
        False makes the profiler record nothing.

    Profilers are independent: any number may run at once, nested or not, in any threads; one may be started in one
    thread and stopped in another.

    >>> import phonograd as mx
    >>> with mx.profiler.profile() as prof:
    ...     with mx.profiler.record_function("outer"):
    ...         with mx.profiler.record_function("inner"):
    ...             pass
    >>> outer, inner = prof.events()
    >>> inner.parent is outer
    True
    """

    def __init__(
        self,
        *,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], object] | None = None,
        record_shapes: bool = False,
        with_stack: bool = False,
        all_threads: bool = True,
        scopes: Collection[int] | None = None,
        max_events: int | None = None,
        enabled: bool = True,
    ) -> None:
        if max_events is not None and max_events < 0:
            raise ValueError(f"max_events must not be negative, but is {max_events}")
        self._schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.enabled = enabled
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self._options: dict[str, Any] = {
            "scopes": scopes,
            "record_shapes": record_shapes,
            "with_stack": with_stack,
            "all_threads": all_threads,
            "max_events": max_events,
        }
        self._metadata: dict[str, Any] = {}
        self._cycles: list[Recording] = []
        self._shown: list[Recording] | None = None
        self._current: Recording | None = None
        self._step: Range | None = None
        self._running = False

    # -- life

    def start(self) -> profile:
        """Begin; the first step begins too."""
        if self._running:
            raise RuntimeError("the profiler is running already: stop it first, or use another one")
        self._running = self.enabled
        if self.enabled:
            self._enter_step()
        return self

    def stop(self) -> None:
        """End. What is still open is closed and marked; nothing happens if the profiler is not running."""
        if not self._running:
            return
        self._running = False
        self._leave_step()
        self.current_action = ProfilerAction.NONE
        self._finish()

    def step(self) -> None:
        """End a step and begin the next one."""
        if not self._running:
            return
        before = self.current_action
        self._leave_step()
        self.step_num += 1
        after = self._action()
        if before is ProfilerAction.RECORD_AND_SAVE:
            self._finish()
        elif (before is ProfilerAction.RECORD and after not in _RECORDING) or (
            before is ProfilerAction.WARMUP and after is ProfilerAction.NONE
        ):
            warnings.warn(
                f"Incorrect schedule: {before.name} followed by {after.name} at step {self.step_num}", stacklevel=2
            )
            self._finish()
        self._enter_step()

    def _action(self) -> ProfilerAction:
        if self._schedule is None:
            return ProfilerAction.RECORD
        action = self._schedule(self.step_num)
        if not isinstance(action, ProfilerAction):
            raise ValueError(f"a schedule returns a ProfilerAction, not {action!r}")
        return action

    def _enter_step(self) -> None:
        self.current_action = self._action()
        if self.current_action not in _RECORDING:
            return
        if self._current is None:
            origin = self._cycles[0].origin_ns if self._cycles else 0
            self._current = Recording(**self._options, origin_ns=origin)
            self._current.start()
            self._cycles.append(self._current)
        if self._schedule is not None:
            self._step = Range(USER_SCOPE)
            self._step.before(f"ProfilerStep#{self.step_num}")

    def _leave_step(self) -> None:
        if self._step is not None:
            self._step.end()
            self._step = None

    def _finish(self) -> None:
        """End the cycle that is recorded, if there is one, and hand it over."""
        recording, self._current = self._current, None
        if recording is None:
            return
        recording.stop()
        if self.on_trace_ready is not None:
            self._shown = [recording]
            try:
                self.on_trace_ready(self)
            finally:
                self._shown = None

    def pause(self) -> None:
        """Record nothing that begins from now on, until :meth:`resume`."""
        if self._current is not None:
            self._current.pause(True)

    def resume(self) -> None:
        """Record again what begins from now on."""
        if self._current is not None:
            self._current.pause(False)

    def __enter__(self) -> profile:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # -- results

    @property
    def cycles(self) -> list[EventList]:
        """The events of each cycle that was recorded."""
        return [recording.events() for recording in self._recordings()]

    def _recordings(self) -> list[Recording]:
        recordings = self._cycles if self._shown is None else self._shown
        if not recordings and self.enabled:
            raise RuntimeError("nothing has been recorded: the profiler was not started, or its schedule never records")
        return recordings

    def events(self) -> EventList:
        """Return everything that was recorded, in the order in which it began."""
        cycles = self.cycles
        if len(cycles) == 1:
            return cycles[0]
        return joined(cycles)

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> AverageList:
        """Return the averages of all events with one name; see :meth:`AverageList.table`."""
        events = [event for cycle in self.cycles for event in cycle]
        return key_averages(events, group_by_input_shape, group_by_stack_n)

    def table(self, **options: Any) -> str:
        """Return the table of averages; options as in :meth:`AverageList.table`."""
        return self.key_averages().table(**options)

    def tree(self, minimum_percent: float = 0.0) -> str:
        """Return the events as an indented tree; see :meth:`EventList.tree`."""
        return self.events().tree(minimum_percent)

    def add_metadata(self, key: str, value: Any) -> None:
        """Add something to the trace that is not an event: anything JSON can hold."""
        self._metadata.update(checked_metadata({key: value}))

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for ``chrome://tracing`` and https://ui.perfetto.dev; compressed if called ``.gz``."""
        write_chrome_trace(self.events(), path, self._metadata)

    def export_json(self, path: str | os.PathLike[str], sort_by: str | None = None, ascending: bool = False) -> None:
        """Write the averages as JSON."""
        Path(path).write_text(self.key_averages().to_json(sort_by, ascending), encoding="utf-8")

    def export_csv(self, path: str | os.PathLike[str], sort_by: str | None = None, ascending: bool = False) -> None:
        """Write the averages as comma-separated values."""
        text = self.key_averages().to_csv(sort_by, ascending)
        Path(path).write_text(text, encoding="utf-8", errors="backslashreplace", newline="")

    def __str__(self) -> str:
        if self._running:
            return "<unfinished phonograd.profiler.profile>"
        return self.table()


def joined(cycles: list[EventList]) -> EventList:
    """Return the events of several cycles of one profiler as one list."""
    events = [event for cycle in cycles for event in cycle]
    slices: dict[int, list[Slice]] = {}
    threads: dict[int, str] = {}
    for cycle in cycles:
        threads.update(cycle.threads)
        for number, stretches in cycle.slices.items():
            slices.setdefault(number, []).extend(stretches)
    return EventList(
        events,
        slices,
        threads,
        elapsed_ns=max([cycle.elapsed_ns for cycle in cycles], default=0),
        wall_ns=cycles[0].wall_ns if cycles else 0,
        dropped=sum([cycle.dropped for cycle in cycles]),
    )
