"""Averages: events grouped by name, and the table that shows them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

from ..core.base.errors import nearest
from ..core.events import USER_SCOPE
from .event import FunctionEvent, WithoutDevice, costs_of
from .tables import bytes_text, count_text, cut, fit_width, html_table, markdown_table, printable, text_table, time_text

__all__ = ["NUMBERS", "Average", "AverageList", "key_averages", "total_average"]

#: the scope of an average over events of different scopes
_ALL = -1


class Average(WithoutDevice):
    """All events with one name (and, on request, one shape or stack). Times are microseconds, memory is bytes."""

    __slots__ = (
        "_durations",
        "_sums",
        "count",
        "events",
        "input_shapes",
        "key",
        "scope",
        "self_ns",
        "stack",
        "total_ns",
    )

    def __init__(
        self,
        key: str,
        scope: int,
        input_shapes: Any = None,
        stack: tuple[str, ...] = (),
        events: Sequence[FunctionEvent] = (),
    ) -> None:
        self.key = key
        self.scope = scope
        self.input_shapes = input_shapes
        self.stack = stack
        self.events = events
        self.count = len(events)
        self.self_ns = sum([event.self_ns for event in events])
        self._durations: list[int] | None = None
        self._sums: dict[str, float] | None = None
        self.total_ns = sum([event.total_ns for event in self._outermost()])

    def _outermost(self) -> list[FunctionEvent]:
        """Return the events that no event of the group contains; a recursive call counts as part of the outer one."""
        scope = self.scope
        if scope == _ALL:
            return [event for event in self.events if event.parent is None]
        found = []
        for event in self.events:
            name, around = event.range.name, event.parent
            while around is not None and (around.range.name != name or around.range.scope != scope):
                around = around.parent
            if around is None:
                found.append(event)
        return found

    @property
    def name(self) -> str:
        """The name of the events."""
        return self.key

    @property
    def is_user_annotation(self) -> bool:
        """Return whether the events are user scopes."""
        return self.scope == USER_SCOPE

    @property
    def is_async(self) -> bool:
        """Return whether any event ended in another thread, with a future, or not at all while profiled."""
        return any([event.is_async for event in self.events])

    # -- times

    cpu_time_str = property(lambda self: time_text(self.cpu_time))
    cpu_time_total_str = property(lambda self: time_text(self.cpu_time_total))
    self_cpu_time_total_str = property(lambda self: time_text(self.self_cpu_time_total))

    @property
    def durations(self) -> list[int]:
        """The durations in nanoseconds, shortest first."""
        if self._durations is None:
            self._durations = sorted([event.total_ns for event in self.events])
        return self._durations

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of self times."""
        return self.self_ns / 1000

    @property
    def cpu_time_total(self) -> float:
        """The time during which at least one of the events ran, per call chain."""
        return self.total_ns / 1000

    @property
    def cpu_time(self) -> float:
        """The mean duration."""
        return sum(self.durations) / 1000 / self.count if self.count else 0.0

    @property
    def min(self) -> float:
        """The shortest duration."""
        return self.percentile(0)

    @property
    def max(self) -> float:
        """The longest duration."""
        return self.percentile(100)

    @property
    def std(self) -> float:
        """The standard deviation of the durations."""
        mean = self.cpu_time
        return (sum([(d / 1000 - mean) ** 2 for d in self.durations]) / self.count) ** 0.5 if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Return the duration that ``percent`` of the events do not exceed, with interpolation."""
        if not 0 <= percent <= 100:
            raise ValueError(f"percent must be between 0 and 100, not {percent}")
        durations = self.durations
        if not durations:
            return 0.0
        place = (self.count - 1) * percent / 100
        low = int(place)
        first, second = durations[low], durations[min(low + 1, self.count - 1)]
        return (first + (second - first) * (place - low)) / 1000

    @property
    def p50(self) -> float:
        """The median duration."""
        return self.percentile(50)

    @property
    def p95(self) -> float:
        """The duration that 95 % of the events do not exceed."""
        return self.percentile(95)

    # -- kernels, operations and memory

    def _sum(self, name: str) -> float:
        if self._sums is None:
            self._sums = self._add_up()
        return self._sums[name]

    def _add_up(self) -> dict[str, float]:
        outermost = [event.credit for event in self._outermost()]
        costs = costs_of(self.events)
        return {
            "flops": sum([cost.flops for cost in costs]),
            "bytes": sum([cost.moved_bytes for cost in costs]),
            "kernel": sum([credit.kernel_ns for credit in outermost]) / 1000,
            "backward_kernel": sum([credit.backward_kernel_ns for credit in outermost]) / 1000,
            "backward": sum([credit.backward_ns for credit in outermost]) / 1000,
            "caused": sum([credit.caused_bytes for credit in outermost]),
            "backward_bytes": sum([credit.backward_bytes for credit in outermost]),
            "net": sum([credit.net for credit in outermost]),
            "self_net": sum([event.credit.self_net for event in self.events]),
            "allocated": sum([credit.allocated for credit in outermost]),
            "peak": max([credit.peak for credit in outermost], default=0),
        }

    @property
    def flops(self) -> float:
        """Arithmetic operations of all events with a known cost."""
        return self._sum("flops")

    @property
    def moved_bytes(self) -> float:
        """Bytes read and written by all events with a known cost."""
        return self._sum("bytes")

    @property
    def intensity(self) -> float:
        """Arithmetic operations per byte."""
        return self.flops / self.moved_bytes if self.moved_bytes else 0.0

    @property
    def gflops_per_second(self) -> float:
        """Operations per nanosecond of the forward kernels it caused, or of its own time if it caused none."""
        microseconds = self.kernel_time_total - self.backward_kernel_time_total or self.cpu_time_total
        return self.flops / microseconds / 1000 if microseconds else 0.0

    @property
    def kernel_time_total(self) -> float:
        """The time of the forward and backward kernels that it caused."""
        return self._sum("kernel")

    @property
    def backward_kernel_time_total(self) -> float:
        """The time of the kernels that computed its gradients."""
        return self._sum("backward_kernel")

    @property
    def backward_time_total(self) -> float:
        """The time spent deriving its gradients."""
        return self._sum("backward")

    @property
    def cpu_memory_usage(self) -> float:
        """Bytes allocated minus bytes freed."""
        return self._sum("net")

    @property
    def self_cpu_memory_usage(self) -> float:
        """Bytes allocated minus bytes freed, without nested events."""
        return self._sum("self_net")

    @property
    def allocated_bytes(self) -> float:
        """Bytes allocated."""
        return self._sum("allocated")

    @property
    def peak_bytes(self) -> float:
        """The most bytes that one of the events held at once."""
        return self._sum("peak")

    @property
    def caused_bytes(self) -> float:
        """Bytes allocated, anywhere, for values of operators called inside."""
        return self._sum("caused")

    @property
    def backward_bytes(self) -> float:
        """Bytes allocated, anywhere, for gradients of operators called inside."""
        return self._sum("backward_bytes")

    def as_dict(self) -> dict[str, Any]:
        """Return all statistics by name; times are microseconds."""
        values = {name: getattr(self, name) for name in NUMBERS}
        extra: dict[str, Any] = {} if self.input_shapes is None else {"input_shapes": self.input_shapes}
        return {"name": self.key, **values, **extra, **({"stack": list(self.stack)} if self.stack else {})}

    def __repr__(self) -> str:
        return f"<Average {self.key!r} x{self.count}, self {self.self_cpu_time_total:.3f} us>"


#: the statistics of every average, by the names used for sorting and in files
NUMBERS = (
    *("self_cpu_time_total", "cpu_time_total", "cpu_time", "min", "p50", "p95", "max", "std", "count"),
    *("kernel_time_total", "backward_kernel_time_total", "backward_time_total"),
    *("cpu_memory_usage", "self_cpu_memory_usage", "allocated_bytes", "peak_bytes", "caused_bytes", "backward_bytes"),
    *("flops", "moved_bytes", "intensity", "gflops_per_second"),
)


def key_averages(
    events: Iterable[FunctionEvent], group_by_input_shape: bool = False, group_by_stack_n: int = 0
) -> AverageList:
    """Return the average of all events with one name; on request also split by shape or by innermost calls."""
    groups: dict[Any, list[FunctionEvent]] = {}
    known: dict[Any, list[FunctionEvent]] = {}
    if group_by_input_shape or group_by_stack_n:
        for event in events:
            if not event.range.instant:
                shapes = json.dumps(event.input_shapes) if group_by_input_shape else None
                group = (event.key, event.range.scope, shapes, event.stack[:group_by_stack_n])
                groups.setdefault(group, []).append(event)
    else:
        for event in events:
            source = event.range
            members = known.get((source.name, source.scope))
            if members is None:
                # all steps share one key
                members = groups.setdefault((event.key, source.scope, None, ()), [])
                known[source.name, source.scope] = members
            if source.facts is None or not source.facts.instant:
                members.append(event)
    return AverageList(
        [
            Average(key, scope, members[0].input_shapes if group_by_input_shape else None, stack, members)
            for (key, scope, _, stack), members in groups.items()
            if members
        ]
    )


def total_average(events: Iterable[FunctionEvent]) -> Average:
    """Return the average of all events together."""
    return Average("Total", _ALL, events=[event for event in events if not event.instant])


class AverageList(Sequence[Average]):
    """Averages by name, with methods to print and export them."""

    def __init__(self, averages: list[Average]) -> None:
        self._averages = averages

    @overload
    def __getitem__(self, index: int) -> Average: ...

    @overload
    def __getitem__(self, index: slice) -> list[Average]: ...

    def __getitem__(self, index: int | slice) -> Average | list[Average]:
        return self._averages[index]

    def __len__(self) -> int:
        return len(self._averages)

    def __iter__(self) -> Iterator[Average]:
        return iter(self._averages)

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of all self times in microseconds."""
        return sum([average.self_ns for average in self._averages]) / 1000

    def total_average(self) -> Average:
        """Return the average of all events together."""
        return total_average([event for average in self._averages for event in average.events])

    def sorted_by(self, sort_by: str | None, ascending: bool = False) -> list[Average]:
        """Return the averages sorted by a column; in their original order if None."""
        if sort_by is None:
            return list(self._averages)
        if sort_by not in (*NUMBERS, "name", "key") and sort_by not in vars(WithoutDevice):
            keys = ["name", *NUMBERS]
            raise ValueError(f"cannot sort by {sort_by!r}{nearest(sort_by, keys)}; the keys are {', '.join(keys)}")
        return sorted(self._averages, key=lambda average: getattr(average, sort_by), reverse=not ascending)

    def as_dicts(self, sort_by: str | None = None, ascending: bool = False) -> list[dict[str, Any]]:
        """Return one dictionary for each name."""
        return [average.as_dict() for average in self.sorted_by(sort_by, ascending)]

    def to_json(self, sort_by: str | None = None, ascending: bool = False) -> str:
        """Return the averages as JSON."""
        return json.dumps({"unit": "us", "averages": self.as_dicts(sort_by, ascending)}, indent=1, allow_nan=False)

    def to_csv(self, sort_by: str | None = None, ascending: bool = False) -> str:
        """Return the averages as comma-separated values with a line of headings."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["name", *NUMBERS])
        for average in self.sorted_by(sort_by, ascending):
            writer.writerow([average.key, *[getattr(average, name) for name in NUMBERS]])
        return out.getvalue()

    def to_markdown(self, sort_by: str | None = None, ascending: bool = False) -> str:
        """Return the averages as a table in Markdown."""
        return markdown_table(*self._cells(self.sorted_by(sort_by, ascending), None))

    def to_html(self, sort_by: str | None = None, ascending: bool = False) -> str:
        """Return the averages as a table in HTML."""
        return html_table(*self._cells(self.sorted_by(sort_by, ascending), None))

    def _repr_html_(self) -> str:
        """Return the table for notebooks, slowest first."""
        return self.to_html("self_cpu_time_total")

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
        ascending: bool = False,
        max_width: int | None = None,
    ) -> str:
        """Return the averages as a table: PyTorch's columns, followed by the distribution of durations.

        Kernel times, memory and operations have columns if the profile recorded them.

        Parameters
        ----------
        sort_by : str, optional
            A column: ``"self_cpu_time_total"``, ``"cpu_time_total"``, ``"count"``, ``"p95"``, ...; largest first.
        row_limit : int
            Maximum number of rows; -1 for all.
        header : str, optional
            A line above the table.
        top_level_events_only : bool
            Omit events that are inside other events.
        time_unit : {"s", "ms", "us"}, optional
            One unit for all times; by default each time uses the unit that fits.
        ascending : bool
            Sort smallest first.
        max_width : int, optional
            Maximum width of the table in characters: detail columns are dropped and long names are cut.
        """
        if time_unit not in (None, "s", "ms", "us"):
            raise ValueError(f"time_unit must be 's', 'ms' or 'us', not {time_unit!r}")
        if top_level_events_only:
            whole = [event for average in self._averages for event in average.events if event.parent is None]
            note = "This report only displays top-level events"
            header = f"{header}\n{note}" if header else note
            return key_averages(whole).table(
                sort_by,
                row_limit,
                max_src_column_width,
                max_name_column_width,
                max_shapes_column_width,
                header,
                time_unit=time_unit,
                ascending=ascending,
                max_width=max_width,
            )
        rows = self.sorted_by(sort_by, ascending)
        if not rows:
            return ""
        rows = rows if row_limit < 0 else rows[:row_limit]
        titles, cells = self._cells(rows, time_unit, max_name_column_width, max_shapes_column_width)
        if max_width is not None:
            titles, cells = fit_width(titles, cells, max_width, _DISPENSABLE)
        below = [[cut(place, max_src_column_width, left=True) for place in average.stack] for average in rows]
        lines = text_table(titles, cells, below)
        lines.append(f"Self CPU time total: {time_text(self.self_cpu_time_total, time_unit)}")
        if header:
            lines = ["=" * len(lines[0]), *header.split("\n"), *lines]
        return "\n".join(lines) + "\n"

    def _cells(
        self, rows: list[Average], unit: str | None, name_width: int = 10**6, shapes_width: int = 10**6
    ) -> tuple[list[str], list[list[str]]]:
        """Return the titles, and the texts of each row."""
        columns = _columns(sum([average.self_ns for average in self._averages]), unit, self._averages)
        if any(average.input_shapes is not None for average in rows):
            columns.append(("Input Shapes", lambda a: cut(str(a.input_shapes), shapes_width)))
        cells = [[cut(printable(row.key), name_width), *[show(row) for _, show in columns]] for row in rows]
        return ["Name", *[title for title, _ in columns]], cells

    def __str__(self) -> str:
        return self.table()


#: the columns that a narrow table drops, in this order
_DISPENSABLE = (
    *("Std", "Min", "p95", "FLOP/byte", "Backward", "p50", "Max", "Bytes", "CPU total %", "Input Shapes"),
    *("Peak Mem", "Self CPU Mem", "Backward Mem", "GFLOP/s", "Caused Mem", "CPU Mem", "Total FLOPs", "CPU total"),
    *("Backward kernels", "CPU time avg", "Kernels", "Self CPU %", "# of Calls"),
)

_Columns = list[tuple[str, Callable[[Average], str]]]


def _columns(whole_ns: int, unit: str | None, rows: Sequence[Average]) -> _Columns:
    def percent(ns: int) -> str:
        return f"{100 * ns / whole_ns:.2f}%" if whole_ns else "NaN"

    columns: _Columns = [
        ("Self CPU %", lambda a: percent(a.self_ns)),
        ("Self CPU", lambda a: time_text(a.self_cpu_time_total, unit)),
        ("CPU total %", lambda a: percent(a.total_ns)),
        ("CPU total", lambda a: time_text(a.cpu_time_total, unit)),
        ("CPU time avg", lambda a: time_text(a.cpu_time, unit)),
        ("Min", lambda a: time_text(a.min, unit)),
        ("p50", lambda a: time_text(a.p50, unit)),
        ("p95", lambda a: time_text(a.p95, unit)),
        ("Max", lambda a: time_text(a.max, unit)),
        ("Std", lambda a: time_text(a.std, unit)),
    ]
    if any([row.kernel_time_total for row in rows]):
        columns.append(("Kernels", lambda a: time_text(a.kernel_time_total, unit)))
    if any([row.backward_kernel_time_total for row in rows]):
        columns.append(("Backward kernels", lambda a: time_text(a.backward_kernel_time_total, unit)))
    if any([row.backward_time_total for row in rows]):
        columns.append(("Backward", lambda a: time_text(a.backward_time_total, unit)))
    if any([row.allocated_bytes or row.cpu_memory_usage for row in rows]):
        columns += [
            ("CPU Mem", lambda a: bytes_text(a.cpu_memory_usage)),
            ("Self CPU Mem", lambda a: bytes_text(a.self_cpu_memory_usage)),
            ("Peak Mem", lambda a: bytes_text(a.peak_bytes)),
        ]
    if any([row.caused_bytes for row in rows]):
        columns.append(("Caused Mem", lambda a: bytes_text(a.caused_bytes)))
    if any([row.backward_bytes for row in rows]):
        columns.append(("Backward Mem", lambda a: bytes_text(a.backward_bytes)))
    columns.append(("# of Calls", lambda a: str(a.count)))
    if any([row.flops or row.moved_bytes for row in rows]):
        columns += [
            ("Total FLOPs", lambda a: count_text(a.flops)),
            ("GFLOP/s", lambda a: f"{a.gflops_per_second:.3f}"),
            ("Bytes", lambda a: bytes_text(a.moved_bytes)),
            ("FLOP/byte", lambda a: f"{a.intensity:.2f}"),
        ]
    return columns
