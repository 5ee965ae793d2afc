"""Perfetto traces: binary files for https://ui.perfetto.dev, half the size of Chrome traces and exact to 1 ns.

A trace is a sequence of packets: descriptions of tracks, followed by their events. Slices begin and end in the order of
time, so they always nest. Names are interned: events refer to them by number.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from ..core.events.facts import Facts
from .arguments import as_json, describe_event
from .chrome import lanes_of
from .events import EventList, FunctionEvent
from .memory import MemoryTimeline
from .tables import write_chunks

__all__ = ["perfetto_trace", "write_perfetto_trace"]

# field numbers of each message
_TRACE_PACKET = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _SEQUENCE_FLAGS, _TRACK_DESCRIPTOR = 8, 10, 11, 12, 13, 60
_DESCRIPTOR_UUID, _DESCRIPTOR_NAME, _DESCRIPTOR_PROCESS, _DESCRIPTOR_PARENT, _DESCRIPTOR_COUNTER = 1, 2, 3, 5, 8
_PROCESS_PID, _PROCESS_NAME = 1, 6
_ANNOTATION, _TYPE, _NAME_NUMBER, _TRACK = 4, 9, 10, 11
_COUNTER_VALUE, _FLOW, _FLOW_END = 30, 47, 48
_ANNOTATION_JSON, _ANNOTATION_NAME = 9, 10
_INTERNED_NAME, _INTERNED_NUMBER, _INTERNED_TEXT = 2, 1, 2
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_CLEARED, _NEEDED = 1, 2


#: the numbers that take one byte: most tags, lengths and tracks
_BYTES = [bytes([value]) for value in range(0x80)]


def _varint(value: int) -> bytes:
    """Return a number in groups of seven bits, lowest first; negative numbers use 64 bits.

    >>> _varint(300).hex()
    'ac02'
    """
    if 0 <= value < 0x80:
        return _BYTES[value]
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _block(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    # lone surrogates cannot be encoded, so they are escaped
    return _block(field, text.encode("utf-8", "backslashreplace"))


def _fixed64(field: int, value: int) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<Q", value)


def write_perfetto_trace(events: EventList, path: str | os.PathLike[str]) -> None:
    """Write a trace; compressed if the path ends in ``.gz``."""
    write_chunks(path, _pieces(events))


def perfetto_trace(events: EventList) -> bytes:
    """Return the contents of a trace file."""
    return b"".join(_pieces(events))


def _pieces(events: EventList) -> Iterator[bytes]:
    for packet in _packets(events):
        yield _block(_TRACE_PACKET, packet)


def _packets(events: EventList) -> Iterator[bytes]:
    writer = _Writer(events)
    process = os.getpid()
    description = _number(_PROCESS_PID, process) + _text(_PROCESS_NAME, f"phonograd {process}")
    whole = writer.new_track(f"phonograd {process}", _block(_DESCRIPTOR_PROCESS, description))
    yield writer.described.pop()
    for thread, title in sorted(events.threads.items()):
        yield from writer.thread(thread, title, whole)
    if events.moments:
        yield from writer.memory(whole)


class _Writer:
    """The state of a trace while it is written."""

    def __init__(self, events: EventList) -> None:
        self._events = events
        self._names: dict[str, int] = {}
        self._tracks = 0
        self.described: list[bytes] = []
        self._starts: dict[FunctionEvent, list[int]] = {}
        self._ends: dict[FunctionEvent, list[int]] = {}
        for number, (source, target) in enumerate([*events.links, *events.causes], 1):
            self._starts.setdefault(source, []).append(number)
            self._ends.setdefault(target, []).append(number)

    def new_track(self, title: str, more: bytes = b"", parent: int = 0) -> int:
        """Return the number of a new track, and queue its description."""
        self._tracks += 1
        around = _number(_DESCRIPTOR_PARENT, parent) if parent else b""
        data = _number(_DESCRIPTOR_UUID, self._tracks) + _text(_DESCRIPTOR_NAME, title) + around + more
        self.described.append(_number(_SEQUENCE, 1) + _block(_TRACK_DESCRIPTOR, data))
        return self._tracks

    def _event(self, time_ns: int, track: int, kind: int, name: str | None = None, more: bytes = b"") -> bytes:
        data = _number(_TYPE, kind) + _number(_TRACK, track)
        packet = _number(_TIMESTAMP, self._events.wall_ns + time_ns) + _number(_SEQUENCE, 1)
        if name is not None:
            number = self._names.get(name)
            if number is None:
                number = self._names[name] = len(self._names) + 1
                entry = _number(_INTERNED_NUMBER, number) + _text(_INTERNED_TEXT, name)
                packet += _block(_INTERNED, _block(_INTERNED_NAME, entry))
            data += _number(_NAME_NUMBER, number)
            packet += _number(_SEQUENCE_FLAGS, _NEEDED | (_CLEARED if len(self._names) == number == 1 else 0))
        return packet + _block(_TRACK_EVENT, data + more)

    def thread(self, thread: int, title: str, parent: int) -> Iterator[bytes]:
        """Yield the packets of a thread: one track for it, and further tracks for overlapping slices."""
        tracks: list[int] = []
        open_until: list[list[int]] = []
        for (start, end, event, _), lane in lanes_of(self._events.slices.get(thread, [])):
            while lane >= len(tracks):
                suffix = f" (overlapping {len(tracks)})" if tracks else ""
                tracks.append(self.new_track(title + suffix, parent=parent))
                open_until.append([])
                yield self.described.pop()
            stack = open_until[lane]
            while stack and stack[-1] <= start:
                yield self._event(stack.pop(), tracks[lane], _END)
            instant = event.range.instant
            yield self._event(
                start, tracks[lane], _INSTANT if instant else _BEGIN, event.name, self._extra_fields(event)
            )
            if not instant:
                stack.append(end)
        for track, stack in zip(tracks, open_until, strict=True):
            while stack:
                yield self._event(stack.pop(), track, _END)

    def _extra_fields(self, event: FunctionEvent) -> bytes:
        flows = [_fixed64(_FLOW, number) for number in self._starts.pop(event, ())]
        flows += [_fixed64(_FLOW_END, number) for number in self._ends.pop(event, ())]
        facts = event.range.facts
        if facts is None and not event.unfinished:
            return b"".join(flows)
        notes = [
            _block(_ANNOTATION, _text(_ANNOTATION_NAME, str(key)) + _text(_ANNOTATION_JSON, as_json(value)))
            for key, value in describe_event(event, facts or Facts()).items()
        ]
        return b"".join([*flows, *notes])

    def memory(self, parent: int) -> Iterator[bytes]:
        """Yield one counter for each category of memory."""
        timeline = MemoryTimeline(self._events)
        for place, category in enumerate(timeline.categories):
            track = self.new_track(f"memory: {category}", _block(_DESCRIPTOR_COUNTER, b""), parent)
            yield self.described.pop()
            for time, sizes in zip(timeline.times_ns, timeline.sizes, strict=True):
                yield self._event(time, track, _COUNTER, more=_number(_COUNTER_VALUE, sizes[place]))
