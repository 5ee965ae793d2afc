"""HTML report: one self-contained file for any browser.

It shows a timeline of every track, a flame graph, memory by category, and tables by name, scope and step. The page is
``report.html`` beside this module; this module collects its data.
"""

from __future__ import annotations

import functools
import html
from pathlib import Path
from typing import Any

from ..core.events import RecordScope
from ..core.events.facts import Facts
from .arguments import as_json, describe_event
from .averages import key_averages
from .breakdowns import View, by_scope, by_step
from .chrome import lanes_of
from .events import EventList, FunctionEvent, without_collection
from .hints import find_hints
from .memory import MemoryTimeline

__all__ = ["framed_report", "html_report"]

#: maximum number of slices in a report; the longest ones stay
_MOST_SLICES = 200_000
_MOST_ARROWS = 5_000
_PAGE = Path(__file__).with_name("report.html")


@without_collection()
def html_report(events: EventList, title: str = "Profile") -> str:
    """Return the report as the text of an HTML page."""
    # no name may end the element that holds the data, or begin another one
    data = as_json(_data(events)).replace("<", "\\u003c")
    page = _PAGE.read_text(encoding="utf-8")
    before, after = page.replace("__TITLE__", html.escape(title)).split("__DATA__")
    return before + data + after


def framed_report(events: EventList, title: str = "Profile") -> str:
    """Return the report in a frame of its own, for pages that contain other things."""
    style = "width: 100%; height: 36em; border: 1px solid #8886; border-radius: 4px"
    page = html.escape(html_report(events, title))
    return f'<iframe title="{html.escape(title)}" style="{style}" srcdoc="{page}"></iframe>'


def _data(events: EventList) -> dict[str, Any]:
    names = _Names()
    tracks, arrows, hidden = _tracks(events, names)
    averages = key_averages(events)
    timeline = MemoryTimeline(events) if events.moments else None
    return {
        "elapsed": events.elapsed_ns,
        "wall": events.wall_ns,
        "dropped": events.dropped,
        "hidden": hidden,
        "count": len(events),
        "tracks": tracks,
        "arrows": arrows,
        "flame": _flame(events, names),
        "names": names.as_list(),
        "averages": averages.as_dicts("self_cpu_time_total"),
        "kinds": [_kind(average.scope) for average in averages.sorted_by("self_cpu_time_total")],
        "scopes": _rows(by_scope(events)),
        "steps": _rows(by_step(events)),
        "hints": [str(hint) for hint in find_hints(events)],
        "memory": _memory(timeline) if timeline is not None else None,
    }


class _Names:
    """The names of a report, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        """Return the number of a name."""
        return self._numbers.setdefault(name, len(self._numbers))

    def as_list(self) -> list[str]:
        """Return all names in order."""
        return list(self._numbers)


@functools.cache
def _kind(scope: int) -> str:
    return RecordScope(scope).name.lower().replace("_", " ")


def _rows(view: View) -> list[dict[str, Any]]:
    return list(view)


def _shortest_shown(events: EventList) -> int:
    """Return the minimum duration of slices that keeps a report within its limit."""
    if len(events) <= _MOST_SLICES:
        return 0
    return sorted([event.total_ns for event in events], reverse=True)[_MOST_SLICES]


def _tracks(events: EventList, names: _Names) -> tuple[list[dict[str, Any]], list[list[int]], int]:
    """Return the tracks with their slices (start, length, depth, name, kind, facts), the arrows, and omissions."""
    shortest = _shortest_shown(events)
    tracks: list[dict[str, Any]] = []
    places: dict[FunctionEvent, tuple[int, int]] = {}
    hidden = 0
    for thread, title in sorted(events.threads.items()):
        own: dict[int, int] = {}
        open_until: dict[int, list[int]] = {}
        for (start, end, event, _), lane in lanes_of(events.slices.get(thread, [])):
            if end - start < shortest:
                hidden += 1
                continue
            if lane not in own:
                own[lane] = len(tracks)
                tracks.append({"name": f"{title} (overlapping {lane})" if lane else title, "slices": []})
            stack = open_until.setdefault(lane, [])
            while stack and stack[-1] <= start:
                stack.pop()
            depth = len(stack)
            if not event.range.instant:
                stack.append(end)
            places.setdefault(event, (own[lane], depth))
            row = [start, end - start, depth, names.number(event.name), names.number(_kind(event.scope))]
            facts = _facts(event)
            tracks[own[lane]]["slices"].append([*row, facts] if facts else row)
    arrows = [
        [*places[source], source.start_ns, *places[target], target.start_ns, kind]
        for kind, pairs in enumerate((events.links, events.causes))
        for source, target in pairs[:_MOST_ARROWS]
        if source in places and target in places
    ]
    return tracks, arrows, hidden


def _facts(event: FunctionEvent) -> dict[str, Any]:
    """Return the details that a click on a slice shows besides its times."""
    known = event.range.facts
    facts = describe_event(event, known or Facts()) if known is not None or event.unfinished else {}
    facts = {key: value if isinstance(value, str | int | float) else as_json(value) for key, value in facts.items()}
    if event.credit.kernel_ns:
        facts["kernels caused"] = f"{event.credit.kernel_ns / 1000:.3f} us"
    if event.credit.allocated:
        facts["memory allocated"] = event.credit.allocated
        facts["memory peak"] = event.credit.peak
    return facts


def _flame(events: EventList, names: _Names) -> list[Any]:
    """Return the tree of all paths as [name, total, self, count, children]."""
    root: list[Any] = [names.number("all"), 0, 0, 0, {}]
    nodes: dict[FunctionEvent, list[Any]] = {}
    for event in events:
        if event.range.instant:
            continue
        above = root if event.parent is None else nodes[event.parent]
        key = names.number(event.key)
        node = above[4].setdefault(key, [key, 0, 0, 0, {}])
        node[2] += event.self_ns
        node[3] += 1
        nodes[event] = node

    def as_row(node: list[Any]) -> list[Any]:
        # widths are sums of self times, so that children always fit
        children = [as_row(child) for child in node[4].values()]
        total = node[2] + sum([child[1] for child in children])
        return [node[0], total, node[2], node[3], sorted(children, key=lambda child: -child[1])]

    return as_row(root)


def _memory(timeline: MemoryTimeline) -> dict[str, Any]:
    pieces = [
        {
            "path": " > ".join(piece.path),
            "value_of": " > ".join(piece.value_of) + (f" ({piece.stack[0]})" if piece.stack else ""),
            "category": piece.category,
            "nbytes": piece.nbytes,
            "since": piece.since_ns,
        }
        for piece in timeline.largest(20)
    ]
    return {**timeline.as_dict(), "largest": pieces}
