"""Averages: events grouped by name, and the table of them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

from ..errors import nearest
from .events import FunctionEvent

__all__ = ["Average", "AverageList", "key_averages"]


class Average:
    """All events of one name (and shape, and stack, if asked for). Times are microseconds."""

    __slots__ = ("_durations", "_sorted", "count", "input_shapes", "key", "scope", "self_ns", "stack", "total_ns")

    def __init__(self, key: str, scope: int, input_shapes: Any = None, stack: tuple[str, ...] = ()) -> None:
        self.key = key
        self.scope = scope
        self.input_shapes = input_shapes
        self.stack = stack
        self.count = 0
        self.self_ns = 0
        self.total_ns = 0
        self._durations: list[int] = []
        self._sorted = True

    def add(self, event: FunctionEvent) -> None:
        """Count one more event. The time of a recursive call is part of the outer call's and not added again."""
        self.count += 1
        self.self_ns += event.self_ns
        self._durations.append(event.total_ns)
        self._sorted = False
        name, scope = event.range.name, self.scope
        around = event.parent
        while around is not None and (around.range.name != name or around.range.scope != scope):
            around = around.parent
        if around is None:
            self.total_ns += event.total_ns

    @property
    def name(self) -> str:
        """The name of the events."""
        return self.key

    @property
    def self_cpu_time_total(self) -> float:
        """The sum of self times."""
        return self.self_ns / 1000

    @property
    def cpu_time_total(self) -> float:
        """The time in which at least one of them ran, per call chain."""
        return self.total_ns / 1000

    @property
    def cpu_time(self) -> float:
        """The mean duration."""
        return sum(self._durations) / 1000 / self.count if self.count else 0.0

    @property
    def min(self) -> float:
        """The shortest duration."""
        return min(self._durations, default=0) / 1000

    @property
    def max(self) -> float:
        """The longest duration."""
        return max(self._durations, default=0) / 1000

    @property
    def std(self) -> float:
        """The standard deviation of the durations."""
        mean = self.cpu_time
        return (sum([(d / 1000 - mean) ** 2 for d in self._durations]) / self.count) ** 0.5 if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Return the duration that ``percent`` of the events do not exceed, interpolated."""
        if not 0 <= percent <= 100:
            raise ValueError(f"a percentile lies between 0 and 100, not at {percent}")
        if not self._sorted:
            self._durations.sort()
            self._sorted = True
        if not self._durations:
            return 0.0
        place = (self.count - 1) * percent / 100
        low = int(place)
        first, second = self._durations[low], self._durations[min(low + 1, self.count - 1)]
        return (first + (second - first) * (place - low)) / 1000

    @property
    def p50(self) -> float:
        """The median duration."""
        return self.percentile(50)

    @property
    def p95(self) -> float:
        """The duration that 95 % of the events do not exceed."""
        return self.percentile(95)

    def as_dict(self) -> dict[str, Any]:
        """Return everything by name; times in microseconds."""
        values = {name: getattr(self, name) for name in _NUMBERS}
        extra: dict[str, Any] = {} if self.input_shapes is None else {"input_shapes": self.input_shapes}
        return {"name": self.key, **values, **extra, **({"stack": list(self.stack)} if self.stack else {})}

    def __repr__(self) -> str:
        return f"<Average {self.key!r} x{self.count}, self {self.self_cpu_time_total:.3f} us>"


_NUMBERS = ("self_cpu_time_total", "cpu_time_total", "cpu_time", "min", "p50", "p95", "max", "std", "count")


def key_averages(
    events: Iterable[FunctionEvent], group_by_input_shape: bool = False, group_by_stack_n: int = 0
) -> AverageList:
    """Return the averages of events with one name; with one shape or the same innermost calls too, if asked for."""
    groups: dict[Any, Average] = {}
    known: dict[Any, Average] = {}
    shapes: str | None = None
    stack: tuple[str, ...] = ()
    for event in events:
        source = event.range
        if source.instant:
            continue
        if group_by_input_shape:
            shapes = json.dumps(event.input_shapes)
        if group_by_stack_n:
            stack = event.stack[:group_by_stack_n]
        group = known.get((source.name, source.scope, shapes, stack))
        if group is None:
            # all steps have one key
            listed = event.input_shapes if group_by_input_shape else None
            group = Average(event.key, source.scope, listed, stack)
            group = groups.setdefault((event.key, source.scope, shapes, stack), group)
            known[source.name, source.scope, shapes, stack] = group
        group.add(event)
    return AverageList(list(groups.values()))


class AverageList(Sequence[Average]):
    """Averages by name, which can be printed and exported."""

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

    def sorted_by(self, sort_by: str | None, ascending: bool = False) -> list[Average]:
        """Return the averages in the order of a column; as they came if None."""
        if sort_by is None:
            return list(self._averages)
        if sort_by not in (*_NUMBERS, "name", "key"):
            keys = ["name", *_NUMBERS]
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
        writer.writerow(["name", *_NUMBERS])
        for average in self.sorted_by(sort_by, ascending):
            writer.writerow([average.key, *[getattr(average, name) for name in _NUMBERS]])
        return out.getvalue()

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        time_unit: str | None = None,
        ascending: bool = False,
    ) -> str:
        """Return the averages as a table: PyTorch's columns, then the distribution of durations.

        Parameters
        ----------
        sort_by : str, optional
            A column: ``"self_cpu_time_total"``, ``"cpu_time_total"``, ``"count"``, ``"p95"``, ...; the largest first.
        row_limit : int
            Rows to show; -1 for all.
        time_unit : {"s", "ms", "us"}, optional
            One unit for all times; otherwise each time is given in the unit that fits.
        ascending : bool
            The smallest first.
        """
        if time_unit not in (None, "s", "ms", "us"):
            raise ValueError(f"time_unit must be 's', 'ms' or 'us', not {time_unit!r}")
        rows = self.sorted_by(sort_by, ascending)
        if not rows:
            return ""
        rows = rows if row_limit < 0 else rows[:row_limit]
        whole = sum([average.self_ns for average in self._averages])
        columns = _columns(whole, time_unit)
        if any(average.input_shapes is not None for average in rows):
            columns.append(("Input Shapes", lambda a: _cut(str(a.input_shapes), max_shapes_column_width)))
        names = [_cut(printable(average.key), max_name_column_width) for average in rows]
        cells = [names, *[[show(average) for average in rows] for _, show in columns]]
        titles = ["Name", *[title for title, _ in columns]]
        widths = [max([len(title), *map(len, column)]) for title, column in zip(titles, cells, strict=True)]
        rule = "  ".join(["-" * width for width in widths])
        lines = [rule, _line(titles, widths), rule]
        for index, average in enumerate(rows):
            lines.append(_line([column[index] for column in cells], widths))
            lines += [" " * 4 + _cut_left(place, max_src_column_width) for place in average.stack]
        lines += [rule, f"Self CPU time total: {_time(whole / 1000, time_unit)}"]
        if header:
            lines = ["=" * len(rule), header, *lines]
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        return self.table()


def _columns(whole_ns: int, unit: str | None) -> list[tuple[str, Callable[[Average], str]]]:
    def percent(ns: int) -> str:
        return f"{100 * ns / whole_ns:.2f}%" if whole_ns else "NaN"

    return [
        ("Self CPU %", lambda a: percent(a.self_ns)),
        ("Self CPU", lambda a: _time(a.self_cpu_time_total, unit)),
        ("CPU total %", lambda a: percent(a.total_ns)),
        ("CPU total", lambda a: _time(a.cpu_time_total, unit)),
        ("CPU time avg", lambda a: _time(a.cpu_time, unit)),
        ("Min", lambda a: _time(a.min, unit)),
        ("p50", lambda a: _time(a.p50, unit)),
        ("p95", lambda a: _time(a.p95, unit)),
        ("Max", lambda a: _time(a.max, unit)),
        ("Std", lambda a: _time(a.std, unit)),
        ("# of Calls", lambda a: str(a.count)),
    ]


def _line(cells: list[str], widths: list[int]) -> str:
    return "  ".join([cell.rjust(width) for cell, width in zip(cells, widths, strict=True)])


def printable(name: str) -> str:
    """Return a name as one line that any terminal takes: what cannot be printed is escaped."""
    if name.isprintable():
        return name
    return "".join([char if char.isprintable() else ascii(char)[1:-1] for char in name])


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 3, 0)] + "..."


def _cut_left(text: str, width: int) -> str:
    return text if len(text) <= width else "..." + text[len(text) - max(width - 3, 0) :]


def _time(microseconds: float, unit: str | None) -> str:
    if unit is None:
        unit = "s" if microseconds >= 1e6 else "ms" if microseconds >= 1e3 else "us"
    return f"{microseconds / {'s': 1e6, 'ms': 1e3, 'us': 1.0}[unit]:.3f}{unit}"
