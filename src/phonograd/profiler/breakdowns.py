"""Views of a profile: one row per scope, per module or per step.

Each row has the time of the scope and the part of it spent on tracing (everything but evaluations that ran inside). It
also has the time of the kernels that the scope caused, wherever they ran, with gradients counted separately.
"""

from __future__ import annotations

import bisect
import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, overload

from ..core.base.errors import nearest
from ..core.events import EVALUATION, FUNCTION, KERNEL, MODULE, USER_SCOPE
from .events import EventList, FunctionEvent
from .tables import bytes_text, count_text, cut, html_table, markdown_table, printable, text_table, time_text

__all__ = ["View", "by_module", "by_scope", "by_step"]

Row = dict[str, Any]

_TITLES = {
    "name": "Name",
    "calls": "# of Calls",
    "total_us": "Total",
    "tracing_us": "Tracing",
    "evaluation_us": "Evaluation",
    "kernel_us": "Kernels",
    "backward_kernel_us": "Backward kernels",
    "backward_us": "Backward",
    "kernels": "# of Kernels",
    "operators": "# of Operators",
    "kernel_flops": "Total FLOPs",
    "allocated_bytes": "Allocated",
    "net_bytes": "Net Mem",
    "peak_bytes": "Peak Mem",
    "caused_bytes": "Caused Mem",
    "backward_bytes": "Backward Mem",
    "share": "Share",
}


class View(Sequence[Row]):
    """Rows by name, with methods to print and export them. Times are microseconds."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    @overload
    def __getitem__(self, index: int | str) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...

    def __getitem__(self, index: int | slice | str) -> Row | list[Row]:
        if not isinstance(index, str):
            return self._rows[index]
        for row in self._rows:
            if row["name"] == index:
                return row
        raise KeyError(f"no row named {index!r}{nearest(index, [row['name'] for row in self._rows])}")

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def sorted_by(self, sort_by: str | None, ascending: bool = False) -> list[Row]:
        """Return the rows sorted by a column; in their original order if None."""
        if sort_by is None or not self._rows:
            return list(self._rows)
        keys = list(self._rows[0])
        if sort_by not in keys:
            raise ValueError(f"cannot sort by {sort_by!r}{nearest(sort_by, keys)}; the keys are {', '.join(keys)}")
        return sorted(self._rows, key=lambda row: row[sort_by], reverse=not ascending)

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, ascending: bool = False, max_name_column_width: int = 75
    ) -> str:
        """Return the rows as a table without empty columns."""
        if not self._rows:
            return ""
        rows = self.sorted_by(sort_by, ascending)[: None if row_limit < 0 else row_limit]
        return "\n".join(text_table(*self._cells(rows, max_name_column_width))) + "\n"

    def _cells(self, rows: list[Row], width: int) -> tuple[list[str], list[list[str]]]:
        keys = [key for key in self._rows[0] if key == "name" or any([row[key] for row in self._rows])]
        return [_TITLES[key] for key in keys], [[_text(key, row[key], width) for key in keys] for row in rows]

    def to_markdown(self) -> str:
        """Return the rows as a table in Markdown."""
        return markdown_table(*self._cells(self._rows, 10**6)) if self._rows else ""

    def to_json(self) -> str:
        """Return the rows as JSON."""
        return json.dumps(self._rows, indent=1)

    def to_csv(self) -> str:
        """Return the rows as comma-separated values with a line of headings."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        if self._rows:
            writer.writerow(list(self._rows[0]))
            writer.writerows([list(row.values()) for row in self._rows])
        return out.getvalue()

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        return html_table(*self._cells(self._rows, 10**6)) if self._rows else "<p>no rows</p>"


def _text(key: str, value: Any, width: int) -> str:
    if key.endswith("_us"):
        return time_text(value)
    if key.endswith("_bytes"):
        return bytes_text(value)
    if key == "share":
        return f"{value:.2f}%"
    return cut(printable(value), width) if key == "name" else count_text(value) if key.endswith("flops") else str(value)


def by_scope(events: EventList) -> View:
    """Return one row for each scope of the program, named by its path: ``outer > inner``."""
    return _by_path(events, (USER_SCOPE, MODULE))


def by_module(events: EventList) -> View:
    """Return one row for each layer of a model, named by its path."""
    return _by_path(events, (MODULE,))


def _by_path(events: EventList, scopes: tuple[int, ...]) -> View:
    evaluating = _evaluation_time(events)
    groups: dict[tuple[str, ...], list[FunctionEvent]] = {}
    paths: dict[FunctionEvent, tuple[str, ...]] = {}
    for event in events:
        around = () if event.parent is None else paths[event.parent]
        if event.range.scope in scopes and not event.instant:
            around = (*around, event.key)
            groups.setdefault(around, []).append(event)
        paths[event] = around
    return View([_row(" > ".join(path), members, evaluating) for path, members in groups.items()])


def _evaluation_time(events: EventList) -> dict[FunctionEvent, int]:
    """Return the time that evaluations took inside each event."""
    found: dict[FunctionEvent, int] = {}
    for event in events:
        if event.range.scope != EVALUATION:
            continue
        around = event.parent
        outer = []
        while around is not None and around.range.scope != EVALUATION:
            outer.append(around)
            around = around.parent
        if around is None:
            for other in outer:
                found[other] = found.get(other, 0) + event.total_ns
    return found


def _row(name: str, members: list[FunctionEvent], evaluating: dict[FunctionEvent, int]) -> Row:
    total = sum([event.total_ns for event in members])
    evaluation = sum([evaluating.get(event, 0) for event in members])
    caused = [event.credit for event in members]
    return {
        "name": name,
        "calls": len(members),
        "total_us": total / 1000,
        "tracing_us": (total - evaluation) / 1000,
        "evaluation_us": evaluation / 1000,
        "kernel_us": sum([credit.forward_kernel_ns for credit in caused]) / 1000,
        "backward_kernel_us": sum([credit.backward_kernel_ns for credit in caused]) / 1000,
        "backward_us": sum([credit.backward_ns for credit in caused]) / 1000,
        "kernel_flops": sum([credit.kernel_flops for credit in caused]),
        "allocated_bytes": sum([credit.allocated for credit in caused]),
        "net_bytes": sum([credit.net for credit in caused]),
        "peak_bytes": max([credit.peak for credit in caused]),
        "caused_bytes": sum([credit.caused_bytes for credit in caused]),
        "backward_bytes": sum([credit.backward_bytes for credit in caused]),
    }


def by_step(events: EventList) -> View:
    """Return one row for each step and frame, with the work of all threads during it."""
    steps = [event for event in events if _step_name(event)]
    starts = [event.start_ns for event in events]
    rows = []
    for step in steps:
        first, last = bisect.bisect_left(starts, step.start_ns), bisect.bisect_left(starts, step.end_ns)
        during = events[first:last]
        kernels = [event for event in during if event.range.scope == KERNEL]
        backward = [event for event in kernels if (event.range.attributes or {}).get("phase") == "backward"]
        evaluation = [event for event in during if event.range.scope == EVALUATION and not _is_nested(event)]
        rows.append(
            {
                "name": _step_name(step),
                "total_us": step.total_ns / 1000,
                "evaluation_us": sum([event.total_ns for event in evaluation]) / 1000,
                "kernel_us": sum([event.total_ns for event in kernels]) / 1000,
                "backward_kernel_us": sum([event.total_ns for event in backward]) / 1000,
                "kernels": len(kernels),
                "operators": len([event for event in during if event.range.scope == FUNCTION]),
                "kernel_flops": sum([event.range.flops or 0.0 for event in kernels]),
                "net_bytes": step.credit.net,
                "peak_bytes": step.credit.peak,
            }
        )
    return View(rows)


def _step_name(event: FunctionEvent) -> str:
    """Return the name of a scheduled step, a frame or an annotated step; empty for other events."""
    if event.key == "ProfilerStep*" or event.kind == "frame":
        return event.name
    number = (event.range.attributes or {}).get("step_num") if event.range.scope == USER_SCOPE else None
    return "" if number is None else f"{event.name} {number}"


def _is_nested(event: FunctionEvent) -> bool:
    around = event.parent
    while around is not None and around.range.scope != EVALUATION:
        around = around.parent
    return around is not None
