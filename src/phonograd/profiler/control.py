"""MXNet's way to profile: one profiler for the process, configured and switched by functions.

>>> from phonograd import profiler
>>> profiler.set_config(filename="profile.json", aggregate_stats=True)
>>> profiler.set_state("run")
>>> with profiler.scope("forward:"):
...     pass
>>> profiler.set_state("stop")
>>> "forward:" in profiler.dumps(reset=True)
True

``dump`` writes a Chrome trace, as often as it is called; ``dumps`` returns a table or JSON, in which an operator has
the time of the kernels that computed it.
"""

from __future__ import annotations

import atexit
import contextvars
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
from ..core.events import RecordScope
from .chrome import write_chrome_trace
from .collecting import Recording, joined
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
    """What :func:`set_config` takes."""

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
        """Return what to observe: operators only if somebody wants them."""
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
        """Start, if it is not running."""
        with self.lock:
            if self.running is None:
                origin = self.finished[0].origin_ns if self.finished else 0
                # as in MXNet, memory that was there before is not counted
                scopes = self.configuration.scopes()
                self.running = Recording(scopes=scopes, origin_ns=origin, preexisting=False)
                self.running.start()
                if self.paused:
                    self.running.pause(True)
                if self.configuration.continuous_dump and not self.at_exit:
                    self.at_exit = True
                    atexit.register(self.write_unsaved)

    def stop(self) -> None:
        """Stop, if it is running."""
        with self.lock:
            if self.running is not None:
                self.running.stop()
                self.finished.append(self.running)
                self.running = None

    def pause(self, paused: bool) -> None:
        """Miss what begins, or see it again."""
        with self.lock:
            self.paused = paused
            if self.running is not None:
                self.running.pause(paused)

    def events(self) -> EventList:
        """Return everything since the start or the last reset."""
        with self.lock:
            recordings = [*self.finished, *([self.running] if self.running is not None else [])]
            return joined([recording.events() for recording in recordings])

    def reset(self) -> None:
        """Forget what was recorded; a running profiler goes on."""
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
        Where :func:`dump` writes; 'profile.json' unless given. A file of that name is deleted.
    profile_all, profile_symbolic, profile_imperative, profile_memory, profile_api : bool
        What to record. Operators are left out if neither ``profile_symbolic`` nor ``profile_imperative`` is set, memory
        if ``profile_memory`` is not.
    aggregate_stats : bool
        Whether :func:`dumps` returns statistics.
    continuous_dump : bool
        Whether a program that ends while the profiler runs leaves a trace.
    dump_period : float
        Checked and kept; a trace is always written whole, so there is no period.
    profile_process : str
        'worker' or 'server'; there is one process.
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
    """Record nothing that begins from now on, until :func:`resume`."""
    _process.pause(True)


def resume(profile_process: str = "worker") -> None:
    """Record again what begins from now on."""
    _process.pause(False)


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write a Chrome trace of everything recorded so far to the configured file, and stop if ``finished``."""
    if finished:
        _process.stop()
    _process.write()


def dump_on_signal(number: int) -> None:
    """Write a trace whenever this process receives a signal (``signal.SIGUSR1``, say), and go on.

    Must be called in the main thread. Whoever handled the signal before is called afterwards.
    """
    previous = signal.getsignal(number)

    def handle(received: int, frame: FrameType | None) -> None:
        dump(finished=False)
        if callable(previous):
            previous(received, frame)

    signal.signal(number, handle)


_SORTS = {"total": "Total", "avg": "Avg", "min": "Min", "max": "Max", "count": "Count"}


def dumps(reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False) -> str:  # noqa: A002 - MXNet's name
    """Return statistics of everything recorded so far, if ``set_config(aggregate_stats=True)`` asked for them.

    Parameters
    ----------
    reset : bool
        Forget what was recorded.
    format : {"table", "json"}
        A text for people or for programs.
    sort_by : {"total", "avg", "min", "max", "count"}
        The order of the rows.
    ascending : bool
        The smallest first.
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
    times, memory, counters = [_ordered(blocks, _SORTS[sort_by], ascending) for blocks in found]
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


def _statistics(events: EventList) -> tuple[_Rows, _Rows, _Rows]:
    """Return by category and name: the times in milliseconds, memory in kilobytes, and the values of counters."""
    durations: dict[str, dict[str, list[float]]] = {}
    values: dict[str, dict[str, list[float]]] = {}
    computing = _computing_ns(events)
    for event in events:
        if event.kind == "counter":
            values.setdefault(_category(event), {}).setdefault(event.name, []).append(event.range.value)
        elif not event.instant:
            durations.setdefault(_category(event), {}).setdefault(event.name, []).append(
                computing.get(event, event.total_ns) / 1e6
            )
    return _summarized(durations), _summarized(_memory(events)), _summarized(values)


def _computing_ns(events: EventList) -> dict[FunctionEvent, float]:
    """Return for operators, and for gradients of them, the time of the kernels that computed them, wherever they ran.

    Calling an operator computes nothing, but this is what MXNet means by its time. What no kernel has computed (a view,
    something that nobody asked for) has the time of the call.
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
    """Return how many kilobytes were held after each change, all together and by category."""
    if not events.moments:
        return {}
    timeline = MemoryTimeline(events, preexisting=False)
    columns = zip(*timeline.sizes[1:], strict=True)
    held = {f"Memory: {name}": [size / 1024 for size in sizes] for name, sizes in zip(timeline.categories, columns)}
    return {"Device Storage": {"Memory: cpu/0": [sum(sizes) / 1024 for sizes in timeline.sizes[1:]], **held}}


def _summarized(samples: dict[str, dict[str, list[float]]]) -> _Rows:
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


def _ordered(blocks: _Rows, key: str, ascending: bool) -> _Rows:
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
    """Return the lines of one category, in MXNet's widths."""

    def line(name: str, cells: list[str]) -> str:
        widths = [16, *[17] * (len(cells) - 1)]
        return name.ljust(25) + "".join([cell.rjust(width) for cell, width in zip(cells, widths, strict=True)])

    lines = [printable(category), "=" * 17, line("Name", list(columns)), line("----", ["-" * len(c) for c in columns])]
    for name, row in names.items():
        cells = [f"{row[key]:.0f}" if key == "Count" else f"{row[key]:.4f}" for key in columns.values()]
        lines.append(line(printable(name), cells))
    return [*lines, ""]


_prefix: contextvars.ContextVar[str] = contextvars.ContextVar("phonograd.profiler.scope", default="")


@contextmanager
def scope(name: str = "<unk>:", append_mode: bool = True) -> Iterator[str]:
    """Record a block under a name; yields the whole name.

    Names end in a colon, and nested ones are joined: ``'a:'`` inside ``'b:'`` is ``'b:a:'``, unless ``append_mode`` is
    False.
    """
    name = name if name.endswith(":") else f"{name}:"
    whole = _prefix.get() + name if append_mode else name
    token = _prefix.set(whole)
    try:
        with record_function(whole):
            yield whole
    finally:
        _prefix.reset(token)


def set_kvstore_handle(handle: Any) -> None:
    """Accept the handle of a store of parameters; profiling needs none here."""


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """Configure the profiler: the old name of :func:`set_config`."""
    _deprecated("profiler_set_config", "set_config")
    set_config(filename=filename, **({"profile_all": True} if mode == "all" else {f"profile_{mode}": True}))


def profiler_set_state(state: str = "stop") -> None:
    """Start or stop the profiler: the old name of :func:`set_state`."""
    _deprecated("profiler_set_state", "set_state")
    set_state(state)


def dump_profile() -> None:
    """Write the trace: the old name of :func:`dump`."""
    _deprecated("dump_profile", "dump")
    dump(True)


def _deprecated(old: str, new: str) -> None:
    warnings.warn(f"profiler.{old}() is deprecated. Please use profiler.{new}() instead", FutureWarning, stacklevel=3)


if os.environ.get("MXNET_PROFILER_AUTOSTART") == "1":
    set_config(profile_all=os.environ.get("MXNET_PROFILER_MODE", "1") == "1")
    set_state("run")
