"""Chrome traces: files for ``chrome://tracing`` and https://ui.perfetto.dev that are always valid.

Slices of one track nest perfectly, as Perfetto demands. Each thread has a track. Slices that overlap without nesting
(the scopes of two asyncio tasks, for example) go to further tracks of that thread. A generator or coroutine has one
slice for each stretch in which it ran. Names are written unchanged. Arrows lead from forward operators to their
gradients and from scopes to the kernels they caused. Memory is a counter with one band per category.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
from collections.abc import Iterable, Iterator
from typing import Any

from ..core.events import RecordScope, default_node_id
from .arguments import ArgumentTexts, as_json
from .events import EventList, FunctionEvent, Slice
from .memory import MemoryTimeline
from .tables import write_chunks

__all__ = ["check_metadata", "lanes_of", "write_chrome_trace"]

_CATEGORIES = {
    RecordScope.FUNCTION: "cpu_op",
    RecordScope.BACKWARD_FUNCTION: "cpu_op",
    RecordScope.USER_SCOPE: "user_annotation",
    RecordScope.KERNEL: "kernel",
    RecordScope.EVALUATION: "evaluation",
    RecordScope.COMPILATION: "compilation",
}


#: three digits of a fraction; a lookup takes half the time of formatting
_DIGITS = [f"{number:03d}" for number in range(1000)]

#: Chrome's letters for the scope of a marker
_REACH = {"global": "g", "process": "p", "thread": "t", "task": "t", "marker": "t"}


def write_chrome_trace(events: EventList, path: str | os.PathLike[str], metadata: dict[str, Any] | None = None) -> None:
    """Write a trace; compressed if the path ends in ``.gz``. Equal events produce equal files."""
    write_chunks(path, _pieces(events, metadata or {}))


def _pieces(events: EventList, metadata: dict[str, Any]) -> Iterator[str]:
    """Yield the text of a trace, line by line."""
    head = {
        **metadata,
        "schemaVersion": 1,
        "displayTimeUnit": "ns",
        "baseTimeNanoseconds": events.wall_ns,
        "host_name": socket.gethostname(),
        "droppedEvents": events.dropped,
    }
    if default_node_id() >= 0:
        head["distributedInfo"] = {"rank": default_node_id()}
    process = os.getpid()
    title = {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": f"phonograd {process}"}}
    yield f'{json.dumps(head)[:-1]}, "traceEvents":[\n{json.dumps(title)}'
    for line in _lines(events, process):
        yield ",\n" + line
    yield "\n]}\n"


def _lines(events: EventList, process: int) -> Iterator[str]:
    labels: dict[tuple[str, int, int], str] = {}
    texts = ArgumentTexts()
    categories: dict[int, str] = {scope: _CATEGORIES.get(scope, scope.name.lower()) for scope in RecordScope}
    next_track = max(events.threads, default=0) + 1
    places: dict[FunctionEvent, int] = {
        event: 0 for pairs in (events.links, events.causes) for pair in pairs for event in pair
    }
    for thread, title in sorted(events.threads.items()):
        tracks = [thread]
        yield _track_name(process, thread, title)
        yield _track_order(process, thread, thread, 0)
        for (start, end, event, _), lane in lanes_of(events.slices.get(thread, [])):
            while lane >= len(tracks):
                yield _track_name(process, next_track, f"{title} (overlapping {len(tracks)})")
                yield _track_order(process, next_track, thread, len(tracks))
                tracks.append(next_track)
                next_track += 1
            source = event.range
            label = labels.get((source.name, source.scope, tracks[lane]))
            if label is None:
                label = labels[source.name, source.scope, tracks[lane]] = (
                    f'"name":{json.dumps(source.name)},"cat":"{categories[source.scope]}","pid":{process},'
                    f'"tid":{tracks[lane]}'
                )
            if places and event in places and not places[event]:
                places[event] = tracks[lane]
            facts = source.facts
            if facts is None and source.sequence_nr == -1 and not event.unfinished:
                more = ""
            elif facts is not None and facts.kind == "counter":
                more = f',"args":{as_json({event.name: facts.value})}'
            else:
                more = texts.of(event, facts)
            time = f"{start // 1000}.{_DIGITS[start % 1000]}"
            if facts is not None and facts.instant:
                yield f'{{"ph":{_moment(event)},{label},"ts":{time}{more}}}'
            else:
                long = end - start
                yield f'{{"ph":"X",{label},"ts":{time},"dur":{long // 1000}.{_DIGITS[long % 1000]}{more}}}'
    yield from _tasks(events, process)
    yield from _arrows(events, places, process)
    yield from _memory(events, process)


def _arrows(events: EventList, places: dict[FunctionEvent, int], process: int) -> Iterator[str]:
    """Yield both ends of each arrow, at the starts of the slices it connects."""
    kinds = itertools.chain(itertools.repeat("fwdbwd", len(events.links)), itertools.repeat("cause"))
    pairs = itertools.chain(events.links, events.causes)
    for number, ((source, target), kind) in enumerate(zip(pairs, kinds, strict=False), 1):
        if not (places[source] and places[target] and source.start_ns <= target.start_ns):
            continue
        begin, end = source.start_ns, target.start_ns
        what = f'"id":{number},"name":"{kind}","cat":"{kind}","pid":{process},"tid":'
        yield (
            f'{{"ph":"s",{what}{places[source]},"ts":{begin // 1000}.{_DIGITS[begin % 1000]}}},\n'
            f'{{"ph":"f","bp":"e",{what}{places[target]},"ts":{end // 1000}.{_DIGITS[end % 1000]}}}'
        )


def _memory(events: EventList, process: int) -> Iterator[str]:
    """Yield the bytes held in each category after every change."""
    if not events.moments:
        return
    timeline = MemoryTimeline(events)
    titles = [f"{json.dumps(category)}:" for category in timeline.categories]
    for time, sizes in zip(timeline.times_ns, timeline.sizes, strict=True):
        held = ",".join([f"{title}{size}" for title, size in zip(titles, sizes, strict=True)])
        moment = f"{time // 1000}.{_DIGITS[time % 1000]}"
        yield f'{{"ph":"C","name":"memory","pid":{process},"tid":0,"ts":{moment},"args":{{{held}}}}}'


def _moment(event: FunctionEvent) -> str:
    """Return the phase of an event without duration: a counter, or an instant with the letter of its scope."""
    if event.kind == "counter":
        return '"C"'
    return f'"i","s":"{_REACH.get(event.attributes.get("scope", ""), "t")}"'


def _tasks(events: EventList, process: int) -> Iterator[str]:
    """Yield pairs of asynchronous events for tasks, which may overlap anything."""
    for number, event in enumerate([event for event in events if event.kind == "task"], 1):
        common = {"name": event.name, "cat": event.domain, "id": number, "pid": process, "tid": event.thread}
        for phase, moment in (("b", event.start_ns), ("e", event.end_ns)):
            yield json.dumps({"ph": phase, **common, "ts": moment / 1000})


def _track_name(process: int, track: int, title: str) -> str:
    return json.dumps({"ph": "M", "name": "thread_name", "pid": process, "tid": track, "args": {"name": title}})


def _track_order(process: int, track: int, thread: int, lane: int) -> str:
    args = {"sort_index": thread * 1000 + lane}
    return json.dumps({"ph": "M", "name": "thread_sort_index", "pid": process, "tid": track, "args": args})


def check_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata, or raise if a trace cannot hold it."""
    for key in metadata:
        if not isinstance(key, str):
            raise TypeError(f"a metadata key must be a str, not {key!r}")
        if key in ("traceEvents", "displayTimeUnit", "baseTimeNanoseconds", "schemaVersion", "host_name"):
            raise ValueError(f"{key!r} is reserved in traces; choose another key")
    try:
        json.dumps(metadata, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"metadata must be JSON serializable: {error}") from error
    return metadata


def lanes_of(stretches: Iterable[Slice]) -> Iterator[tuple[Slice, int]]:
    """Yield each slice of a thread with the number of the track on which it nests in its parent."""
    lanes: list[list[Slice]] = [[]]
    first = lanes[0]
    for stretch in stretches:
        start, end, event, outer = stretch
        while first and first[-1][1] <= start and first[-1][2] is not outer:
            first.pop()
        if first and first[-1][2] is outer and end <= first[-1][1]:  # fast path
            place = 0
        else:
            place = 0
            while place < len(lanes) and not _has_room(lanes[place], stretch):
                place += 1
            if place == len(lanes):
                lanes.append([])
        facts = event.range.facts
        if facts is None or not facts.instant:
            lanes[place].append(stretch)
        yield stretch, place


def _has_room(lane: list[Slice], stretch: Slice) -> bool:
    """Return whether a slice fits into the innermost open slice of a track, after closing finished slices."""
    start, end, _, outer = stretch
    while lane:
        _, until, around, _ = lane[-1]
        inside = end <= until and _is_inside(outer, around)
        if inside or until > start:
            return inside
        lane.pop()
    return True


def _is_inside(event: FunctionEvent | None, other: FunctionEvent) -> bool:
    while event is not None and event is not other:
        event = event.parent
    return event is not None
