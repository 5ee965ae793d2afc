"""Results: the tables, views and exports of a profile, whether recorded now or loaded from a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..core.base.files import write_atomically
from .averages import Average, AverageList, key_averages, total_average
from .breakdowns import View, by_module, by_scope, by_step
from .chrome import check_metadata, write_chrome_trace
from .critical import critical_path
from .difference import Difference, compare
from .events import EventList
from .folded import folded_stacks
from .hints import Hint, find_hints
from .memory import MemoryTimeline
from .perfetto import write_perfetto_trace
from .python_statistics import python_statistics
from .report import framed_report, html_report
from .saving import save_events
from .speedscope import write_speedscope
from .tables import write_text
from .telemetry import export_spans

__all__ = ["LoadedProfile", "Results"]

AnyPath = str | os.PathLike[str]


class Results:
    """Base class of profiles: everything derived from their events."""

    def __init__(self) -> None:
        self._metadata: dict[str, Any] = {}

    def events(self) -> EventList:
        """Return all recorded events, ordered by start."""
        raise NotImplementedError

    # -- tables

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> AverageList:
        """Return the average of all events with one name; see :meth:`AverageList.table`.

        On request, events are also grouped by input shapes and by the innermost calls of their stacks. Operators have
        no overloads here.
        """
        return key_averages(self.events(), group_by_input_shape, group_by_stack_n)

    def total_average(self) -> Average:
        """Return the average of all events together."""
        return total_average(self.events())

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of all self times in microseconds."""
        return self.key_averages().self_cpu_time_total

    def table(self, **options: Any) -> str:
        """Return the table of averages; options as in :meth:`AverageList.table`."""
        return self.key_averages().table(**options)

    def tree(self, minimum_percent: float = 0.0) -> str:
        """Return the events as an indented tree; see :meth:`EventList.tree`."""
        return self.events().tree(minimum_percent)

    def by_scope(self) -> View:
        """Return one row for each scope: its time, and the kernels and memory it caused."""
        return by_scope(self.events())

    def by_module(self) -> View:
        """Return one row for each layer of a model, if the profile recorded ``with_modules``."""
        return by_module(self.events())

    def by_step(self) -> View:
        """Return one row for each step of the schedule and each frame."""
        return by_step(self.events())

    def critical_path(self) -> View:
        """Return the critical path of the profile, by path of names; see :mod:`.critical`."""
        return critical_path(self.events())

    def memory_timeline(self, preexisting: bool = True) -> MemoryTimeline:
        """Return the memory held over time, if the profile recorded memory.

        With ``preexisting=False``, only memory allocated since the profile began.
        """
        return MemoryTimeline(self.events(), preexisting)

    def diff(self, other: Results) -> Difference:
        """Return the differences between this profile and a later one of the same program."""
        return compare(self.key_averages(), other.key_averages())

    def hints(self) -> list[Hint]:
        """Return patterns worth looking at, most costly first."""
        return find_hints(self.events())

    # -- files

    def add_metadata(self, key: str, value: Any) -> None:
        """Add a value to the trace's metadata; JSON must be able to hold it."""
        self._metadata.update(check_metadata({key: value}))

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a value to the trace's metadata, given as JSON text; invalid JSON raises a ValueError."""
        try:
            self.add_metadata(key, json.loads(value))
        except json.JSONDecodeError as error:
            raise ValueError(f"metadata {key!r} is not valid JSON: {error}") from error

    preset_metadata_json = add_metadata_json

    def export_chrome_trace(self, path: AnyPath) -> None:
        """Write a trace for ``chrome://tracing`` and https://ui.perfetto.dev; ``.gz`` paths are compressed."""
        write_chrome_trace(self.events(), path, self._metadata)

    def export_perfetto_trace(self, path: AnyPath) -> None:
        """Write a trace in Perfetto's binary format; ``.gz`` paths are compressed."""
        write_perfetto_trace(self.events(), path)

    def export_spans(self, tracer: Any, minimum_duration_us: float = 0.0, max_spans: int | None = None) -> int:
        """Export the events as OpenTelemetry spans; see :func:`.telemetry.export_spans`."""
        return export_spans(self.events(), tracer, minimum_duration_us, max_spans)

    def export_json(self, path: AnyPath, sort_by: str | None = None, ascending: bool = False) -> None:
        """Write the averages as JSON."""
        write_text(path, self.key_averages().to_json(sort_by, ascending))

    def export_csv(self, path: AnyPath, sort_by: str | None = None, ascending: bool = False) -> None:
        """Write the averages as comma-separated values."""
        write_text(path, self.key_averages().to_csv(sort_by, ascending))

    def export_speedscope(self, path: AnyPath) -> None:
        """Write a file for https://www.speedscope.app; ``.gz`` paths are compressed."""
        write_speedscope(self.events(), path)

    def export_folded(self, path: AnyPath, metric: str = "self_ns") -> None:
        """Write folded stacks for flame graph tools; see :func:`.folded.folded_stacks`."""
        write_text(path, folded_stacks(self.events(), metric))

    def export_stacks(self, path: AnyPath, metric: str = "self_cpu_time_total") -> None:
        """Write folded stacks in microseconds; PyTorch's name of :meth:`export_folded`."""
        self.export_folded(path, metric)

    def export_pstats(self, path: AnyPath) -> None:
        """Write a file for Python's ``pstats`` and compatible tools."""
        write_atomically(path, [python_statistics(self.events())], durable=False)

    def export_memory_timeline(self, path: AnyPath) -> None:
        """Write the memory timeline: comma-separated values for ``.csv`` paths, otherwise JSON."""
        timeline = self.memory_timeline()
        write_text(path, timeline.to_csv() if Path(path).suffix == ".csv" else timeline.to_json())

    def export_html(self, path: AnyPath, title: str = "Profile") -> None:
        """Write a self-contained report for browsers: timeline, flame graph, memory, tables."""
        write_text(path, html_report(self.events(), title))

    def save(self, path: AnyPath) -> None:
        """Write the whole profile for :func:`load`; ``.gz`` paths are compressed."""
        save_events(self.events(), path, self._metadata)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        """Return the report in a frame for notebooks."""
        return framed_report(self.events())


class LoadedProfile(Results):
    """A profile read from files; see :func:`load`."""

    def __init__(self, events: EventList, metadata: dict[str, Any]) -> None:
        super().__init__()
        self._events = events
        self._metadata = metadata

    @property
    def metadata(self) -> dict[str, Any]:
        """The values added by :meth:`add_metadata`."""
        return dict(self._metadata)

    def events(self) -> EventList:
        """Return the events, ordered by start."""
        return self._events
