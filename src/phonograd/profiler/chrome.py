"""Chrome traces: files for ``chrome://tracing`` and https://ui.perfetto.dev that are always valid.

Slices of one track nest perfectly, as Perfetto demands. Each thread has a track; what overlaps without being inside
(the scopes of two asyncio tasks, say) goes to further tracks of that thread. A generator or coroutine is one slice for
each stretch in which it ran. Names are written as they are, whatever they contain.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..observers import Range, RecordScope
from .events import EventList, FunctionEvent, Slice

__all__ = ["checked_metadata", "validate_trace", "write_chrome_trace"]

_CATEGORIES = {
    RecordScope.FUNCTION: "cpu_op",
    RecordScope.BACKWARD_FUNCTION: "cpu_op",
    RecordScope.USER_SCOPE: "user_annotation",
    RecordScope.KERNEL: "kernel",
    RecordScope.EVALUATION: "evaluation",
    RecordScope.COMPILATION: "compilation",
}


#: three digits of a fraction: looking them up takes half the time of formatting them
_DIGITS = [f"{number:03d}" for number in range(1000)]

#: how far a marker reaches, as Chrome writes it
_REACH = {"global": "g", "process": "p", "thread": "t", "task": "t", "marker": "t"}


def write_chrome_trace(events: EventList, path: str | os.PathLike[str], metadata: dict[str, Any] | None = None) -> None:
    """Write a trace; compressed if the path ends in ``.gz``. The same events always give the same file."""
    target = Path(path)
    data = _text(events, metadata or {}).encode("ascii")
    target.write_bytes(gzip.compress(data, 6, mtime=0) if target.suffix == ".gz" else data)


def _text(events: EventList, metadata: dict[str, Any]) -> str:
    head = {
        **metadata,
        "schemaVersion": 1,
        "displayTimeUnit": "ns",
        "baseTimeNanoseconds": events.wall_ns,
        "host_name": socket.gethostname(),
        "droppedEvents": events.dropped,
    }
    process = os.getpid()
    title = {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": f"phonograd {process}"}}
    lines = ",\n".join([json.dumps(title), *_lines(events, process)])
    return f'{json.dumps(head)[:-1]}, "traceEvents":[\n{lines}\n]}}\n'


def _lines(events: EventList, process: int) -> Iterator[str]:
    labels: dict[tuple[str, int, int], str] = {}
    categories: dict[int, str] = {scope: _CATEGORIES.get(scope, scope.name.lower()) for scope in RecordScope}
    next_track = max(events.threads, default=0) + 1
    for thread, title in sorted(events.threads.items()):
        tracks = [thread]
        yield _track_name(process, thread, title)
        yield _track_order(process, thread, thread, 0)
        for (start, end, event, _), lane in _lanes(events.slices.get(thread, [])):
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
            more = _arguments(event, source)
            time = f"{start // 1000}.{_DIGITS[start % 1000]}"
            if source.instant:
                yield f'{{"ph":{_moment(event)},{label},"ts":{time}{more}}}'
            else:
                long = end - start
                yield f'{{"ph":"X",{label},"ts":{time},"dur":{long // 1000}.{_DIGITS[long % 1000]}{more}}}'
    yield from _tasks(events, process)


def _moment(event: FunctionEvent) -> str:
    """Return the phase of something without duration: a counter, or an instant with the letter of its scope."""
    if event.kind == "counter":
        return '"C"'
    return f'"i","s":"{_REACH.get(event.attributes.get("scope", ""), "t")}"'


def _tasks(events: EventList, process: int) -> Iterator[str]:
    """Yield pairs of asynchronous events: tasks may overlap anything."""
    for number, event in enumerate([event for event in events if event.kind == "task"], 1):
        common = {"name": event.name, "cat": event.domain, "id": number, "pid": process, "tid": event.thread}
        for phase, moment in (("b", event.start_ns), ("e", event.end_ns)):
            yield json.dumps({"ph": phase, **common, "ts": moment / 1000})


def _track_name(process: int, track: int, title: str) -> str:
    return json.dumps({"ph": "M", "name": "thread_name", "pid": process, "tid": track, "args": {"name": title}})


def _track_order(process: int, track: int, thread: int, lane: int) -> str:
    args = {"sort_index": thread * 1000 + lane}
    return json.dumps({"ph": "M", "name": "thread_sort_index", "pid": process, "tid": track, "args": args})


def _arguments(event: FunctionEvent, source: Range) -> str:
    if source.kind == "counter":
        return f',"args":{json.dumps({event.name: source.value})}'
    if not (
        source.attributes
        or source.domain
        or source.args is not None
        or source.error
        or source.sequence_nr != -1
        or source.shapes
        or source.stack
        or event.unfinished
    ):
        return ""
    args: dict[str, Any] = event.attributes
    if source.domain:
        args.setdefault("domain", source.domain)
    if source.shapes:
        args["Input Dims"] = source.shapes
    if source.stack:
        args["Call stack"] = list(source.stack)
    if source.sequence_nr != -1:
        args["Sequence number"] = source.sequence_nr
    if source.error:
        args["error"] = source.error
    if event.unfinished:
        args["unfinished"] = True
    return f',"args":{json.dumps(_plain(args))}'


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it: what is unknown as text, and no number that JSON does not have."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    item = getattr(value, "item", None)
    if getattr(value, "shape", None) == () and callable(item):
        return _plain(item())
    return repr(value)


def checked_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata if a trace can hold it."""
    for key in metadata:
        if not isinstance(key, str):
            raise TypeError(f"a key of metadata is a str, not {key!r}")
        if key in ("traceEvents", "displayTimeUnit", "baseTimeNanoseconds", "schemaVersion", "host_name"):
            raise ValueError(f"{key!r} has a meaning in traces; choose another key")
    try:
        json.dumps(metadata, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"metadata must be what JSON can hold: {error}") from error
    return metadata


def _lanes(stretches: list[Slice]) -> Iterator[tuple[Slice, int]]:
    """Yield the slices of a thread with the number of the track where each nests inside the one it belongs to."""
    lanes: list[list[Slice]] = [[]]
    first = lanes[0]
    for stretch in stretches:
        start, end, event, outer = stretch
        while first and first[-1][1] <= start and first[-1][2] is not outer:
            first.pop()
        if first and first[-1][2] is outer and end <= first[-1][1]:  # the usual case
            place = 0
        else:
            place = 0
            while place < len(lanes) and not _has_room(lanes[place], stretch):
                place += 1
            if place == len(lanes):
                lanes.append([])
        if not event.range.instant:
            lanes[place].append(stretch)
        yield stretch, place


def _has_room(lane: list[Slice], stretch: Slice) -> bool:
    """Return whether a slice can be drawn inside the innermost open slice of a track, after closing what is over."""
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


def validate_trace(path: str | os.PathLike[str]) -> list[str]:
    """Return what is wrong with a Chrome trace, one sentence each; nothing if it is valid.

    Checked are: text and JSON, numbers, the nesting of slices on each track, pairs of flow and asynchronous events,
    names of tracks.
    """
    data = Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    try:
        root = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except ValueError as error:
        return [f"not JSON: {error}"]
    events = root.get("traceEvents") if isinstance(root, dict) else root
    if not isinstance(events, list) or not events:
        return ["traceEvents is not a list with something in it"]
    return [*_wrong_fields(events), *_wrong_nesting(events), *_wrong_pairs(events), *_unnamed_tracks(events)]


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _wrong_fields(events: list[dict[str, Any]]) -> Iterator[str]:
    for number, event in enumerate(events):
        if not isinstance(event.get("ph"), str) or not isinstance(event.get("name"), str):
            yield f"event {number} has no phase or no name"
        if event.get("ph") != "M" and not _is_number(event.get("ts")):
            yield f"event {number} has no time"
        if event.get("ph") == "X" and not (_is_number(event.get("dur")) and event["dur"] >= 0):
            yield f"event {number} has no duration"
        if any([not isinstance(event.get(key), int) or not 0 <= event[key] < 2**53 for key in ("pid", "tid")]):
            yield f"event {number} has no process or thread number below 2**53"
        if event.get("ph") == "C" and not all(map(_is_number, event.get("args", {"": None}).values())):
            yield f"counter {number} is not a number"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _nanoseconds(microseconds: float) -> int:
    return round(microseconds * 1000)


def _tracks(events: list[dict[str, Any]], phase: str) -> dict[tuple[int, int], list[tuple[int, int, str]]]:
    tracks: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    for event in events:
        if event.get("ph") == phase and _is_number(event.get("ts")) and _is_number(event.get("dur")):
            start = _nanoseconds(event["ts"])
            end = start + _nanoseconds(event["dur"])
            tracks.setdefault((event.get("pid", 0), event.get("tid", 0)), []).append((start, -end, event["name"]))
    return tracks


def _wrong_nesting(events: list[dict[str, Any]]) -> Iterator[str]:
    for track, slices in _tracks(events, "X").items():
        stack: list[tuple[int, str]] = []
        for start, negative, name in sorted(slices):
            while stack and stack[-1][0] <= start:
                stack.pop()
            if stack and -negative > stack[-1][0]:
                yield f"{name!r} crosses {stack[-1][1]!r} on track {track}"
            stack.append((-negative, name))


def _wrong_pairs(events: list[dict[str, Any]]) -> Iterator[str]:
    flows: dict[Any, list[dict[str, Any]]] = {}
    pending: dict[Any, int] = {}
    slices = _tracks(events, "X")
    for event in events:
        if event.get("ph") in ("s", "f"):
            flows.setdefault((event.get("cat"), event.get("id")), []).append(event)
        elif event.get("ph") in ("b", "e"):
            key = (event.get("cat"), event.get("id"))
            pending[key] = pending.get(key, 0) + (1 if event["ph"] == "b" else -1)
            if pending[key] < 0:
                yield f"asynchronous event {key} ends before it begins"
    for key, ends in flows.items():
        if [end["ph"] for end in sorted(ends, key=lambda end: (end["ts"], end["ph"] == "f"))] != ["s", "f"]:
            yield f"flow {key} is not one start and one later end"
        for end in ends:
            moment = _nanoseconds(end["ts"])
            inside = slices.get((end.get("pid", 0), end.get("tid", 0)), [])
            if not any([start <= moment <= -negative for start, negative, _ in inside]):
                yield f"flow {key} has an end outside of any slice"
    for key, count in pending.items():
        if count:
            yield f"asynchronous event {key} has no end"


def _unnamed_tracks(events: list[dict[str, Any]]) -> Iterator[str]:
    named = {(event.get("pid"), event.get("tid")) for event in events if event.get("name") == "thread_name"}
    used = {(event.get("pid"), event.get("tid")) for event in events if event.get("ph") in ("X", "B", "i")}
    for track in sorted(used - named):
        yield f"track {track} has no name"
