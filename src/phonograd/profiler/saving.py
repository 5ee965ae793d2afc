"""Saving: lossless profile files, and loading one or several of them as one profile."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..core.events import Range
from ..core.events.facts import Facts, Segment
from ..core.observe.allocations import Allocation
from .arguments import as_json
from .events import EventList, build
from .saved_form import check_document
from .tables import write_chunks

__all__ = ["load_events", "save_events"]

_FORMAT = "phonograd profile"
_VERSION = 1
#: the saved facts of a range besides name, scope, thread, times and parent
_FACTS = (
    *("forward_thread_id", "is_async", "kind", "domain", "value", "shapes", "instant", "args"),
    *("attributes", "error", "operators", "flops", "moved_bytes", "category", "identity", "stack", "parameters"),
)


def save_events(events: EventList, path: str | os.PathLike[str], metadata: dict[str, Any]) -> None:
    """Write events; compressed if the path ends in ``.gz``."""
    write_chunks(path, _pieces(events, metadata))


def _pieces(events: EventList, metadata: dict[str, Any]) -> Iterator[str]:
    """Yield the text of a file, range by range."""
    sources = [*[event.range for event in events], *events.moments]
    numbers = {source: number for number, source in enumerate(sources)}
    names: dict[str, int] = {}
    unfinished = {event.range for event in events if event.unfinished}
    span = events.origin_ns, events.origin_ns + events.elapsed_ns
    head = {
        "format": _FORMAT,
        "version": _VERSION,
        "process": os.getpid(),
        "wall_ns": events.wall_ns,
        "elapsed_ns": events.elapsed_ns,
        "dropped": events.dropped,
        "threads": {str(number): name for number, name in events.threads.items()},
        "metadata": metadata,
        "held": events.held,
    }
    yield f'{as_json(head)[:-1]},"ranges":['
    comma = ""
    for source in sources:
        yield comma + as_json(_row(source, numbers, names, span, source in unfinished))
        comma = ","
    yield f'],"names":{as_json(list(names))}}}'


def _row(
    source: Range, numbers: dict[Range, int], names: dict[str, int], span: tuple[int, int], unfinished: bool
) -> list[Any]:
    origin_ns, stop_ns = span
    facts: dict[str, Any] = {}
    for name, value in vars(source.facts).items() if source.facts is not None else ():
        if name in _FACTS and value != getattr(Facts, name):
            facts[name] = value
    if source.sequence_nr != -1:
        facts["sequence_nr"] = source.sequence_nr
    if source.forward in numbers:
        facts["forward"] = numbers[source.forward]
    if source.serves:
        facts["serves"] = [
            who if isinstance(who, str) else numbers.get(_saved_ancestor(who, numbers), -1) for who in source.serves
        ]
    if source.segments is not None:
        resumed, outer = source.running()
        stretches = [*source.segments]
        if resumed:
            stretches.append(Segment(resumed, stop_ns if unfinished else source.end_ns, stretches[-1].thread_id, outer))
        facts["segments"] = [
            [began - origin_ns, ended - origin_ns, thread, numbers.get(_saved_ancestor(around, numbers), -1)]
            for began, ended, thread, around in stretches
        ]
    number = names.setdefault(source.name, len(names))
    parent = numbers.get(_saved_ancestor(source.parent, numbers), -1)
    end = -1 if unfinished else source.end_ns - origin_ns
    row = [number, source.scope, source.thread_id, source.start_ns - origin_ns, end, parent]
    return [*row, facts] if facts else row


def _saved_ancestor(source: Range | None, numbers: dict[Range, int]) -> Any:
    """Return the number of a range, or of its nearest saved ancestor; None if there is none."""
    while source is not None and source not in numbers:
        source = source.parent
    return source


def load_events(paths: Iterable[str | os.PathLike[str]]) -> tuple[EventList, dict[str, Any]]:
    """Return the events and metadata of files as one profile; thread names tell the processes apart."""
    documents = [_read(path) for path in paths]
    if not documents:
        raise ValueError("no profile to load")
    origin = min([document["wall_ns"] for document in documents])
    buffers: dict[int, tuple[str, list[Range]]] = {}
    metadata: dict[str, Any] = {}
    held: list[tuple[int, list[Allocation]]] = []
    stop = 0
    for document in documents:
        prefix = f"process {document['process']}: " if len(documents) > 1 else ""
        shift = document["wall_ns"] - origin + 1
        first = max(buffers, default=0) if len(documents) > 1 else 0
        for number, name in document["threads"].items():
            buffers[first + int(number)] = (prefix + name, [])
        for source in _ranges(document, shift, first, buffers):
            buffers[source.thread_id][1].append(source)
        metadata.update(document["metadata"])
        if len(documents) == 1:
            held = [(time, [Allocation(*piece) for piece in pieces]) for time, pieces in document.get("held", ())]
        stop = max(stop, shift + document["elapsed_ns"])
    dropped = sum([document["dropped"] for document in documents])
    return build(buffers, 1, stop, origin, dropped, held), metadata


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    data = Path(path).read_bytes()
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        document = json.loads(data)
    except (ValueError, RecursionError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{os.fspath(path)!r} is not a saved profile, or it is damaged: {error}") from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError(f"{os.fspath(path)!r} is not a saved profile: write one with profile.save()")
    version = document.get("version")
    if isinstance(version, int) and version > _VERSION:
        raise ValueError(f"{os.fspath(path)!r} was saved by a newer version of this library")
    try:
        check_document(document, _FACTS)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)!r} is a damaged profile: {error}") from None
    return document


def _ranges(
    document: dict[str, Any], shift: int, first: int, buffers: dict[int, tuple[str, list[Range]]]
) -> list[Range]:
    names = document["names"]
    made: list[Range] = []
    for name, scope, thread, start, end, *_ in document["ranges"]:
        number = first + thread
        title, _ = buffers.setdefault(number, (f"thread {thread}", []))
        made.append(Range.restore(names[name], scope, number, title, start + shift, end + shift if end >= 0 else 0))

    def place(number: int) -> Range | None:
        return made[number] if number >= 0 else None

    for source, (_, _, _, _, _, parent, *rest) in zip(made, document["ranges"], strict=True):
        source.parent = place(parent)
        facts = rest[0] if rest else {}
        for key, value in facts.items():
            if key == "forward":
                source.forward = made[value]
            elif key == "serves":
                serves = [who if isinstance(who, str) else place(who) for who in value]
                source.serves = tuple([who for who in serves if who is not None])
            elif key == "segments":
                source.segments = [Segment(a + shift, b + shift, first + t, place(o)) for a, b, t, o in value]
            else:
                setattr(source, key, tuple(value) if key in ("operators", "stack") else value)
    return made
