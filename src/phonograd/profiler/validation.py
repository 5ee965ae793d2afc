"""Validation: find errors in a Chrome trace of any origin."""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["validate_trace"]


def validate_trace(path: str | os.PathLike[str]) -> list[str]:
    """Return the errors of a Chrome trace, one sentence each; empty if the trace is valid.

    It checks the encoding, JSON, numbers, the nesting of slices on each track, pairs of flow and asynchronous events,
    and names of tracks.
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
        return ["traceEvents is not a non-empty list"]
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
    yield from _wrong_brackets(events)


def _wrong_brackets(events: list[dict[str, Any]]) -> Iterator[str]:
    """Yield errors in pairs of B and E events: they must match like brackets, in the order of file and time.

    A file that is still being written, or whose writer was killed, may have open brackets.
    """
    stacks: dict[tuple[int, int], list[str]] = {}
    last: dict[tuple[int, int], float] = {}
    for event in events:
        if event.get("ph") not in ("B", "E") or not _is_number(event.get("ts")):
            continue
        track = (event.get("pid", 0), event.get("tid", 0))
        if event["ts"] < last.get(track, event["ts"]):
            yield f"{event.get('name')!r} on track {track} is earlier than the event before it"
        last[track] = event["ts"]
        stack = stacks.setdefault(track, [])
        if event["ph"] == "B":
            stack.append(event.get("name", ""))
        elif not stack:
            yield f"{event.get('name')!r} ends on track {track} without having begun"
        elif stack.pop() != event.get("name", ""):
            yield f"{event.get('name')!r} ends on track {track} while another event is open"


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
