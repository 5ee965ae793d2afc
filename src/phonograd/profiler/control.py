"""MXNet's profiler: one profiler for the process, controlled by functions.

>>> from phonograd import profiler
>>> profiler.set_config(filename="profile.json", aggregate_stats=True)
>>> profiler.set_state("run")
>>> with profiler.scope("forward:"):
...     pass
>>> profiler.set_state("stop")
>>> "forward:" in profiler.dumps(reset=True)
True

``dump`` writes a Chrome trace and may be called repeatedly. ``dumps`` returns a table or JSON, where the time of an
operator is the time of the kernels that computed it.
"""

from __future__ import annotations

import atexit
import dataclasses
import json
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ..core.base.errors import MXNetError, nearest
from ..core.base.thread_state import thread_state
from ..core.events import CUSTOM_OPERATORS, RecordScope
from .chrome import write_chrome_trace
from .collecting import Recording, join_cycles
from .events import EventList, FunctionEvent
from .memory import MemoryTimeline
from .recording import record_function
from .tables import printable

__all__ = [
    "dump",
    "dump_on_signal",
    "dump_profile",
    "dumps",
    "pause",
    "profiler_set_config",
    "profiler_set_state",
    "resume",
    "scope",
    "set_config",
    "set_kvstore_handle",
    "set_state",
    "start",
    "stop",
]


@dataclasses.dataclass(frozen=True)
class _Configuration:
    """The options of :func:`set_config`."""

    filename: str = "profile.json"
    profile_all: bool = False
    profile_symbolic: bool = True
    profile_imperative: bool = True
    profile_memory: bool = True
    profile_api: bool = True
    continuous_dump: bool = True
    dump_period: float = 1.0
    aggregate_stats: bool = False
    profile_process: str = "worker"
    gpu_memory_profile_filename_prefix: str = ""

    def scopes(self) -> set[RecordScope]:
        """Return the scopes to observe; operators only if an option selects them."""
        hidden = set()
        if not (self.profile_all or self.profile_symbolic or self.profile_imperative):
            hidden = {RecordScope.FUNCTION, RecordScope.BACKWARD_FUNCTION, RecordScope.KERNEL}
        if not (self.profile_all or self.profile_memory):
            hidden.add(RecordScope.MEMORY)
        return set(RecordScope) - hidden


class _Process:
    """The profiler of the process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.configuration = _Configuration()
        self.running: Recording | None = None
        self.finished: list[Recording] = []
        self.paused = False
        self.at_exit = False

    def run(self) -> None:
        """Start the profiler unless it is running."""
        with self.lock:
            if self.running is None:
                origin = self.finished[0].origin_ns if self.finished else 0
                # as in MXNet, memory allocated before the start is not counted
                scopes = self.configuration.scopes()
                self.running = Recording(scopes=scopes, origin_ns=origin, preexisting=False)
                self.running.start()
                if self.paused:
                    self.running.pause(True)
                if self.configuration.continuous_dump and not self.at_exit:
                    self.at_exit = True
                    atexit.register(self.write_unsaved)

    def stop(self) -> None:
        """Stop the profiler if it is running."""
        with self.lock:
            if self.running is not None:
                self.running.stop()
                self.finished.append(self.running)
                self.running = None

    def pause(self, paused: bool) -> None:
        """Pause (True) or resume (False) recording of new ranges."""
        with self.lock:
            self.paused = paused
            if self.running is not None:
                self.running.pause(paused)

    def events(self) -> EventList:
        """Return all events since the start or the last reset."""
        with self.lock:
            recordings = [*self.finished, *([self.running] if self.running is not None else [])]
            return join_cycles([recording.events() for recording in recordings])

    def reset(self) -> None:
        """Discard all recorded events; a running profiler keeps running."""
        with self.lock:
            running = self.running is not None
            self.stop()
            self.finished.clear()
            if running:
                self.run()

    def write(self) -> None:
        """Write the trace."""
        write_chrome_trace(self.events(), self.configuration.filename)

    def write_unsaved(self) -> None:
        """Write the trace of a profiler that still runs when the program ends."""
        if self.running is not None:
            self.stop()
            self.write()


_process = _Process()


def set_config(**kwargs: Any) -> None:
    """Configure the profiler of the process.

    Parameters
    ----------
    filename : str
        File that :func:`dump` writes; default 'profile.json'. An existing file of that name is deleted.
    profile_all, profile_symbolic, profile_imperative, profile_memory, profile_api : bool
        Events to record. Operators are omitted if neither ``profile_symbolic`` nor ``profile_imperative`` is set, and
        memory is omitted if ``profile_memory`` is not set.
    aggregate_stats : bool
        Let :func:`dumps` return statistics.
    continuous_dump : bool
        Write a trace when the program ends while the profiler runs.
    dump_period : float
        Checked and stored, but without effect: a trace is always written as a whole.
    profile_process : str
        'worker' or 'server'; without effect, because there is one process.
    """
    names = [field.name for field in dataclasses.fields(_Configuration)]
    for name in kwargs:
        if name not in names:
            raise MXNetError(
                f"Cannot find argument '{name}', Possible Arguments: {', '.join(names)}{nearest(name, names)}"
            )
    configuration = dataclasses.replace(_process.configuration, **kwargs)
    if configuration.continuous_dump and not configuration.dump_period > 0:
        raise MXNetError(f"dump_period must be positive for a continuous dump, not {configuration.dump_period}")
    if configuration.profile_process not in ("worker", "server"):
        raise MXNetError(f"profile_process must be 'worker' or 'server', not {configuration.profile_process!r}")
    with _process.lock:
        _process.configuration = configuration
        if os.path.isfile(configuration.filename):
            os.remove(configuration.filename)


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Start ('run') or stop ('stop') the profiler of the process."""
    {"run": _process.run, "stop": _process.stop}[state]()


def start(profile_process: str = "worker") -> None:
    """Start the profiler of the process."""
    set_state("run", profile_process)


def stop(profile_process: str = "worker") -> None:
    """Stop the profiler of the process."""
    set_state("stop", profile_process)


def pause(profile_process: str = "worker") -> None:
    """Stop recording new events until :func:`resume`."""
    _process.pause(True)


def resume(profile_process: str = "worker") -> None:
    """Record new events again after :func:`pause`."""
    _process.pause(False)


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write a Chrome trace of all recorded events to the configured file, and stop if ``finished``."""
    if finished:
        _process.stop()
    _process.write()


def dump_on_signal(number: int) -> None:
    """Write a trace whenever this process receives a signal (for example ``signal.SIGUSR1``), and continue.

    Call it in the main thread. A previous handler of the signal still runs, after the dump.
    """
    previous = signal.getsignal(number)

    def handle(received: int, frame: FrameType | None) -> None:
        dump(finished=False)
        if callable(previous):
            previous(received, frame)

    signal.signal(number, handle)


_SORTS = {"total": "Total", "avg": "Avg", "min": "Min", "max": "Max", "count": "Count"}


def dumps(reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False) -> str:  # noqa: A002 - MXNet's name
    """Return statistics of all recorded events; empty unless ``set_config(aggregate_stats=True)`` was called.

    Parameters
    ----------
    reset : bool
        Discard the recorded events afterwards.
    format : {"table", "json"}
        A table for people, or JSON for programs.
    sort_by : {"total", "avg", "min", "max", "count"}
        The order of the rows.
    ascending : bool
        Sort smallest first.
    """
    if format not in ("table", "json"):
        raise AssertionError(f"Invalid value provided for format: {format}. Support: 'table', 'json'")
    if sort_by not in _SORTS:
        raise AssertionError(f"Invalid value provided for sort_by: {sort_by}. Support: {', '.join(map(repr, _SORTS))}")
    if not _process.configuration.aggregate_stats:
        return ""
    found = _statistics(_process.events())
    if reset:
        _process.reset()
    times, memory, counters = [_sort_rows(blocks, _SORTS[sort_by], ascending) for blocks in found]
    if format == "json":
        units = {"Time": "ms", "Memory": "kB", "Counter": "value"}
        return json.dumps({"Time": times, "Memory": memory, "Counter": counters, "Unit": units}, indent=4)
    return _table(times, memory, counters)


_Rows = dict[str, dict[str, dict[str, float]]]
_CATEGORIES = {
    RecordScope.FUNCTION: "operator",
    RecordScope.BACKWARD_FUNCTION: "operator",
    RecordScope.USER_SCOPE: "scope",
}


def _category(event: FunctionEvent) -> str:
    if event.kind == "event":
        return "event"
    if event.kind:
        return {"frame": f"{event.domain},frame"}.get(event.kind, event.domain)
    return _CATEGORIES.get(RecordScope(event.scope), RecordScope(event.scope).name.lower())


def _custom_operator(event: FunctionEvent) -> str | None:
    """Return the name of the custom operator whose Python code caused an event, or None."""
    around = event.parent
    while around is not None:
        if around.domain == CUSTOM_OPERATORS:
            return around.name.partition("::")[0]
        around = around.parent
    return None


def _statistics(events: EventList) -> tuple[_Rows, _Rows, _Rows]:
    """Return times in milliseconds, memory in kilobytes and counter values, each by category and name."""
    durations: dict[str, dict[str, list[float]]] = {}
    values: dict[str, dict[str, list[float]]] = {}
    computing = _computing_ns(events)
    for event in events:
        if event.kind == "counter":
            values.setdefault(_category(event), {}).setdefault(event.name, []).append(event.range.value)
        elif not event.instant:
            category, name = _category(event), event.name
            custom = _custom_operator(event)
            if custom is not None and category == "operator":
                category, name = CUSTOM_OPERATORS, f"{custom}::{name}"
            durations.setdefault(category, {}).setdefault(name, []).append(computing.get(event, event.total_ns) / 1e6)
    return _summarize(durations), _summarize(_memory(events)), _summarize(values)


def _computing_ns(events: EventList) -> dict[FunctionEvent, float]:
    """Return the time of the kernels that computed each operator or gradient, wherever they ran.

    A call of an operator computes nothing itself, but MXNet reports the time of its computation. An operator without
    a kernel (a view, or an unused result) has the time of its call.
    """
    found = {
        event: event.credit.forward_kernel_ns
        for event in events
        if event.scope == RecordScope.FUNCTION and event.credit.forward_kernel_ns
    }
    gradients: dict[FunctionEvent, list[FunctionEvent]] = {}
    for forward, backward in events.links:
        gradients.setdefault(forward, []).append(backward)
    for forward, derived in gradients.items():
        if forward.credit.backward_kernel_ns:
            found.update(dict.fromkeys(derived, forward.credit.backward_kernel_ns / len(derived)))
    return found


def _memory(events: EventList) -> dict[str, dict[str, list[float]]]:
    """Return the kilobytes held after each change, in total and by category."""
    if not events.moments:
        return {}
    timeline = MemoryTimeline(events, preexisting=False)
    columns = zip(*timeline.sizes[1:], strict=True)
    held = {f"Memory: {name}": [size / 1024 for size in sizes] for name, sizes in zip(timeline.categories, columns)}
    return {"Device Storage": {"Memory: cpu/0": [sum(sizes) / 1024 for sizes in timeline.sizes[1:]], **held}}


def _summarize(samples: dict[str, dict[str, list[float]]]) -> _Rows:
    return {
        category: {
            name: {
                "Count": len(found),
                "Total": sum(found),
                "Min": min(found),
                "Max": max(found),
                "Avg": sum(found) / len(found),
            }
            for name, found in names.items()
        }
        for category, names in sorted(samples.items())
    }


def _sort_rows(blocks: _Rows, key: str, ascending: bool) -> _Rows:
    return {
        category: dict(sorted(names.items(), key=lambda row: row[1][key], reverse=not ascending))
        for category, names in blocks.items()
    }


def _table(times: _Rows, memory: _Rows, counters: _Rows) -> str:
    lines = ["", "Profile Statistics:", "\tNote the difference in units for different entries."]
    columns = {"Total Count": "Count", "Time (ms)": "Total", "Min Time (ms)": "Min", "Max Time (ms)": "Max"}
    for category, names in times.items():
        lines += _block(category, names, {**columns, "Avg Time (ms)": "Avg"})
    columns = {"Total Count": "Count", "Min Use  (kB)": "Min", "Max Use  (kB)": "Max", "Avg Use  (kB)": "Avg"}
    for category, names in memory.items():
        lines += _block(category, names, columns)
    columns = {"Total Count": "Count", "Min Value": "Min", "Max Value": "Max", "Avg Value": "Avg"}
    for category, names in counters.items():
        lines += _block(f"{category},counter", names, columns)
    return "\n".join(lines) + "\n"


def _block(category: str, names: dict[str, dict[str, float]], columns: dict[str, str]) -> list[str]:
    """Return the lines of one category, in MXNet's column widths."""

    def line(name: str, cells: list[str]) -> str:
        widths = [16, *[17] * (len(cells) - 1)]
        return name.ljust(25) + "".join([cell.rjust(width) for cell, width in zip(cells, widths, strict=True)])

    lines = [printable(category), "=" * 17, line("Name", list(columns)), line("----", ["-" * len(c) for c in columns])]
    for name, row in names.items():
        cells = [f"{row[key]:.0f}" if key == "Count" else f"{row[key]:.4f}" for key in columns.values()]
        lines.append(line(printable(name), cells))
    return [*lines, ""]


_prefix = thread_state("phonograd.profiler.scope", "")


@contextmanager
def scope(name: str = "<unk>:", append_mode: bool = True) -> Iterator[str]:
    """Record a block under a name, and yield the full name.

    Names end in a colon, and nested names are joined: ``'a:'`` inside ``'b:'`` is ``'b:a:'`` unless ``append_mode``
    is False.
    """
    name = name if name.endswith(":") else f"{name}:"
    outer = _prefix.get()
    whole = outer + name if append_mode else name
    _prefix.set(whole)
    try:
        with record_function(whole):
            yield whole
    finally:
        _prefix.set(outer)


def set_kvstore_handle(handle: Any) -> None:
    """Accept the handle of a parameter store, as MXNet does; it has no effect here."""


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """Configure the profiler (deprecated name of :func:`set_config`)."""
    _warn_deprecated("profiler_set_config", "set_config")
    set_config(filename=filename, **({"profile_all": True} if mode == "all" else {f"profile_{mode}": True}))


def profiler_set_state(state: str = "stop") -> None:
    """Start or stop the profiler (deprecated name of :func:`set_state`)."""
    _warn_deprecated("profiler_set_state", "set_state")
    set_state(state)


def dump_profile() -> None:
    """Write the trace (deprecated name of :func:`dump`)."""
    _warn_deprecated("dump_profile", "dump")
    dump(True)


def _warn_deprecated(old: str, new: str) -> None:
    warnings.warn(f"profiler.{old}() is deprecated. Please use profiler.{new}() instead", FutureWarning, stacklevel=3)


if os.environ.get("MXNET_PROFILER_AUTOSTART") == "1":
    set_config(profile_all=os.environ.get("MXNET_PROFILER_MODE", "1") == "1")
    set_state("run")
