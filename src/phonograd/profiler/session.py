"""profile: record everything, or the steps that a schedule selects. Any number of profilers may run at once.

A running profiler only appends the ranges of each thread to a list. Events, tables and traces are made on request.
"""

from __future__ import annotations

import enum
import os
import socket
import time
import warnings
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from ..core.base.docstrings import complete_classes
from ..core.events import USER_SCOPE, Range
from . import pauses
from .activities import ProfilerActivity, check_activities
from .aggregation import Aggregation
from .averages import AverageList, key_averages
from .collecting import Recording, join_cycles, observed_scopes
from .events import EventList
from .execution import ExecutionTraceObserver
from .overhead import Overhead, measure_overhead, without_overhead
from .results import LoadedProfile, Results
from .saving import load_events
from .streaming import Stream

__all__ = ["ProfilerAction", "load", "profile", "schedule", "tensorboard_trace_handler", "trace_handler"]


class ProfilerAction(enum.Enum):
    """The action of a profiler during a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a function that maps step numbers to actions, in cycles of waiting, warming up and recording.

    Parameters
    ----------
    wait, warmup, active : int
        Steps of each part of a cycle. Only the active steps are recorded.
    repeat : int
        Number of cycles; 0 for no limit.
    skip_first : int
        Steps before the first cycle.
    skip_first_wait : int
        If not 0, the first cycle skips its wait.

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
            raise ValueError(f"a step number must not be negative, but is {step}")
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


class profile(Results):  # noqa: N801 - PyTorch's name
    """A profiler: a ``with`` block that records operators, kernels and scopes in all threads.

    Parameters
    ----------
    schedule : callable, optional
        Maps a step number to a :class:`ProfilerAction`; see :func:`schedule`. Without one, everything is recorded. With
        one, call :meth:`step` at the end of each step.
    on_trace_ready : callable, optional
        Called with the profiler at the end of each recorded cycle. During this call the profiler's results cover that
        cycle, afterwards all cycles together.
    record_shapes : bool
        Record the shapes and dtypes of inputs.
    profile_memory : bool
        Record allocations and deallocations of memory.
    with_stack : bool
        Record the user's call stack at the start of each event.
    with_flops : bool
        Count operations and bytes of every operator; records shapes too.
    with_modules : bool
        Record the layers of models.
    with_gc : bool
        Record Python's garbage collections.
    all_threads : bool
        Record every thread, or only the thread that starts the profiler.
    scopes : collection of RecordScope, optional
        Scopes to record; by default everything but memory and modules.
    max_events : int, optional
        Maximum number of events per cycle; ``events().dropped`` is the number of discarded ones.
    keep_last : bool
        Beyond ``max_events``, keep the last events instead of the first ones.
    minimum_duration_us : float
        Omit shorter events; their children move to their parents.
    sampling_probability : float
        The fraction of events to record.
    aggregate : bool
        Keep only statistics of each name, for programs that run for days. Only averages are available.
    stream_to : path, optional
        Write a Chrome trace while the program runs, valid at every moment, and keep no events in memory.
    subtract_overhead : bool
        Subtract the time of recording itself from all times of ``events()``; see :attr:`overhead`.
    execution_trace_observer : ExecutionTraceObserver, optional
        Runs while the profiler records, and writes the graph of calls.
    enabled : bool
        False makes the profiler record nothing.
    activities, use_cuda, acc_events, experimental_config, custom_trace_id_callback, post_processing_timeout_s
        PyTorch's arguments. There is one activity, the events of all cycles are kept, and nothing is experimental.
        ``custom_trace_id_callback`` returns the text for :meth:`get_trace_id`.

    Profilers are independent: any number may run at once, nested or not, in any threads. A profiler may be started in
    one thread and stopped in another.

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
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        with_gc: bool = False,
        all_threads: bool = True,
        scopes: Collection[int] | None = None,
        max_events: int | None = None,
        keep_last: bool = False,
        minimum_duration_us: float = 0.0,
        sampling_probability: float = 1.0,
        aggregate: bool = False,
        stream_to: str | os.PathLike[str] | None = None,
        subtract_overhead: bool = False,
        execution_trace_observer: ExecutionTraceObserver | None = None,
        enabled: bool = True,
        activities: Iterable[ProfilerActivity] | None = None,
        use_cuda: bool | None = None,
        acc_events: bool = True,
        experimental_config: Any = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        super().__init__()
        check_activities(activities, use_cuda)
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError(f"post_processing_timeout_s must be non-negative, but is {post_processing_timeout_s}")
        if max_events is not None and max_events < 0:
            raise ValueError(f"max_events must not be negative, but is {max_events}")
        if minimum_duration_us < 0:
            raise ValueError(f"minimum_duration_us must not be negative, but is {minimum_duration_us}")
        if aggregate and stream_to is not None:
            raise ValueError("aggregate and stream_to exclude each other: use two profilers")
        self._schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.enabled = enabled
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self._everywhere: dict[str, Any] = {
            "scopes": observed_scopes(scopes, profile_memory, with_modules),
            "all_threads": all_threads,
            "sampling_probability": sampling_probability,
        }
        self._options: dict[str, Any] = {
            "record_shapes": record_shapes or with_flops,
            "with_stack": with_stack,
            "max_events": max_events,
            "keep_last": keep_last,
            "minimum_duration_ns": round(minimum_duration_us * 1000),
        }
        self._aggregate = aggregate
        self._stream_to = stream_to
        self._with_gc = with_gc
        self._subtract_overhead = subtract_overhead
        self._overhead: Overhead | None = None
        self._graph = execution_trace_observer
        self._make_trace_id = custom_trace_id_callback or _new_trace_id
        self._trace_id: str | None = None
        self._running_sink: Aggregation | Stream | None = None
        self._cycles: list[Recording] = []
        self._shown: list[Recording] | None = None
        self._current: Recording | Aggregation | Stream | None = None
        self._step: Range | None = None
        self._running = False

    # -- life

    def start(self) -> profile:
        """Start the profiler and its first step."""
        if self._running:
            raise RuntimeError("the profiler is already running: stop it first, or use another one")
        self._running = self.enabled
        if self.enabled:
            self._trace_id = self._make_trace_id()
            self._metadata["trace_id"] = self._trace_id
            if self._with_gc:
                pauses.watch()
            self._enter_step()
        return self

    def stop(self) -> None:
        """Stop the profiler. Open events are closed and marked; does nothing if the profiler is not running."""
        if not self._running:
            return
        self._running = False
        self._leave_step()
        self.current_action = ProfilerAction.NONE
        if self._with_gc:
            pauses.unwatch()
        try:
            self._finish()
        finally:
            if isinstance(self._running_sink, Stream):
                self._running_sink.close()

    def step(self) -> None:
        """End the current step and begin the next one."""
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
            raise ValueError(f"a schedule must return a ProfilerAction, not {action!r}")
        return action

    def _enter_step(self) -> None:
        self.current_action = self._action()
        if self.current_action not in _RECORDING:
            return
        if self._current is None:
            self._current = self._sink()
            self._current.start()
            if self._graph is not None:
                self._graph.start()
        if self._schedule is not None:
            self._step = Range(USER_SCOPE)
            self._step.before(f"ProfilerStep#{self.step_num}")

    def _sink(self) -> Recording | Aggregation | Stream:
        """Return the destination of the next cycle's events."""
        if self._aggregate or self._stream_to is not None:
            if self._running_sink is None:
                if self._stream_to is None:
                    self._running_sink = Aggregation(**self._everywhere)
                else:
                    self._running_sink = Stream(self._stream_to, **self._everywhere, metadata=self._metadata)
            return self._running_sink
        origin = self._cycles[0].origin_ns if self._cycles else 0
        recording = Recording(**self._everywhere, **self._options, origin_ns=origin)
        self._cycles.append(recording)
        return recording

    def _leave_step(self) -> None:
        if self._step is not None:
            self._step.end()
            self._step = None

    def _finish(self) -> None:
        """Finish the recorded cycle, if any, and pass it to ``on_trace_ready``."""
        recording, self._current = self._current, None
        if recording is None:
            return
        recording.stop()
        if self._graph is not None:
            self._graph.stop()
        if self.on_trace_ready is not None:
            self._shown = [recording] if isinstance(recording, Recording) else []
            try:
                self.on_trace_ready(self)
            finally:
                self._shown = None

    def pause(self) -> None:
        """Stop recording new events until :meth:`resume`."""
        if self._current is not None:
            self._current.pause(True)

    def resume(self) -> None:
        """Record new events again after :meth:`pause`."""
        if self._current is not None:
            self._current.pause(False)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[ProfilerActivity] | None = None) -> None:
        """Resume or pause recording: PyTorch's name for :meth:`resume` and :meth:`pause`."""
        check_activities(activities, None)
        (self.resume if enable else self.pause)()

    def get_trace_id(self) -> str | None:
        """Return the identifier of the profile, set when it started; its traces contain it."""
        return self._trace_id

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Set the function that returns the identifier when the profiler starts."""
        self._make_trace_id = callback

    def __enter__(self) -> profile:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # -- results

    @property
    def cycles(self) -> list[EventList]:
        """The events of each recorded cycle."""
        return [recording.events() for recording in self._recordings()]

    def _recordings(self) -> list[Recording]:
        if self._aggregate:
            raise RuntimeError("an aggregated profile has averages but no events: profile without aggregate=True")
        if self._stream_to is not None:
            raise RuntimeError(f"the events were written to {os.fspath(self._stream_to)!r} and not kept")
        recordings = self._cycles if self._shown is None else self._shown
        if not recordings and self.enabled:
            raise RuntimeError("nothing was recorded: the profiler was not started, or its schedule never records")
        return recordings

    def events(self) -> EventList:
        """Return all recorded events, ordered by start."""
        cycles = self.cycles
        events = cycles[0] if len(cycles) == 1 else join_cycles(cycles)
        if self._subtract_overhead and not self._running:
            return without_overhead(events, self.overhead)
        return events

    @property
    def overhead(self) -> Overhead:
        """The time that recording one event takes on this machine; measured on first access."""
        if self._overhead is None:
            self._overhead = measure_overhead()
        return self._overhead

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> AverageList:
        """Return the average of all events with one name; see :meth:`AverageList.table`."""
        if isinstance(self._running_sink, Aggregation):
            return self._running_sink.averages()
        if self._subtract_overhead:
            return key_averages(self.events(), group_by_input_shape, group_by_stack_n)
        events = [event for cycle in self.cycles for event in cycle]
        return key_averages(events, group_by_input_shape, group_by_stack_n)

    def __str__(self) -> str:
        if self._running:
            return "<unfinished phonograd.profiler.profile>"
        return self.table()


def _new_trace_id() -> str:
    return os.urandom(16).hex().upper()


def load(*paths: str | os.PathLike[str]) -> LoadedProfile:
    """Return a profile that :meth:`profile.save` wrote.

    Several files, for example those of subprocesses, become one profile on one timeline.
    """
    return LoadedProfile(*load_events(paths))


def tensorboard_trace_handler(
    dir_name: str | os.PathLike[str], worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Return a function for ``on_trace_ready`` that writes a Chrome trace of each cycle into a directory.

    The files are named ``<host>_<process>.<time>.pt.trace.json``, as TensorBoard expects. ``worker_name`` replaces host
    and process.
    """

    def write(done: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        suffix = ".json.gz" if use_gzip else ".json"
        done.export_chrome_trace(folder / f"{worker}.{time.time_ns()}.pt.trace{suffix}")

    return write


trace_handler = tensorboard_trace_handler


complete_classes(globals())
