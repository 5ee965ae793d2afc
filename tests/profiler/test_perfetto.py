"""Perfetto's binary format, read back by a decoder of its own; and spans of OpenTelemetry."""

import asyncio
import gzip
import struct
from pathlib import Path
from typing import Any

import pytest

from phonograd.profiler import profile, record_function
from phonograd.profiler.perfetto import perfetto_trace

from .programs import training_step

Message = dict[int, list[Any]]


def decoded(data: bytes) -> Message:
    """Return the fields of a message by number."""
    fields: Message = {}
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(data):
        key = varint()
        if key & 7 == 0:
            value: Any = varint()
        elif key & 7 == 1:
            (value,) = struct.unpack_from("<Q", data, place)
            place += 8
        else:
            assert key & 7 == 2
            length = varint()
            value = data[place : place + length]
            place += length
        fields.setdefault(key >> 3, []).append(value)
    assert place == len(data)
    return fields


def slices_of(data: bytes) -> dict[str, list[tuple[str, int, int]]]:
    """Return by name of the track the slices (name, start, end) in the order of their ends, checking the brackets."""
    tracks: dict[int, str] = {}
    names: dict[int, str] = {}
    stacks: dict[int, list[tuple[str, int]]] = {}
    last: dict[int, int] = {}
    found: dict[str, list[tuple[str, int, int]]] = {}
    for raw in decoded(data).get(1, []):
        packet = decoded(raw)
        for entry in packet.get(12, []):
            for interned in decoded(entry)[2]:
                fields = decoded(interned)
                names[fields[1][0]] = fields[2][0].decode()
        for entry in packet.get(60, []):
            fields = decoded(entry)
            tracks[fields[1][0]] = fields[2][0].decode()
        for entry in packet.get(11, []):
            fields = decoded(entry)
            track, kind, now = fields[11][0], fields[9][0], packet[8][0]
            assert track in tracks
            assert last.get(track, 0) <= now
            last[track] = now
            if kind == 1:
                stacks.setdefault(track, []).append((names[fields[10][0]], now))
            elif kind == 2:
                name, start = stacks[track].pop()
                found.setdefault(tracks[track], []).append((name, start, now))
    assert not any(stacks.values())
    return found


def test_slices_nest_and_keep_their_nanoseconds() -> None:
    with profile(profile_memory=True) as prof:
        training_step()
    events = prof.events()
    found = slices_of(perfetto_trace(events))
    (track,) = found
    assert track == "MainThread"
    expected = {(e.name, events.wall_ns + e.start_ns, events.wall_ns + e.end_ns) for e in events}
    assert set(found[track]) == expected


def test_tasks_have_tracks_of_their_own(tmp_path: Path) -> None:
    async def job(number: int) -> None:
        with record_function(f"job{number} \ud800"):
            await asyncio.sleep(0.001 * number)

    async def main() -> None:
        await asyncio.gather(job(1), job(2))

    with profile() as prof:
        asyncio.run(main())
    prof.export_perfetto_trace(tmp_path / "trace.pftrace.gz")
    found = slices_of(gzip.decompress((tmp_path / "trace.pftrace.gz").read_bytes()))
    assert list(found) == ["MainThread", "MainThread (overlapping 1)"]


def raise_inside(scope: record_function) -> None:
    scope.event("moment")
    raise KeyError("k")


def test_flows_counters_and_facts() -> None:
    with profile(profile_memory=True) as prof:
        training_step()
        scope = record_function("failing", attributes={"batch": 3})
        with pytest.raises(KeyError), scope:
            raise_inside(scope)
    packets = [decoded(raw) for raw in decoded(perfetto_trace(prof.events()))[1]]
    events = [decoded(entry) for packet in packets for entry in packet.get(11, [])]
    flows = sorted(number for event in events for number in event.get(47, []))
    assert flows == sorted(number for event in events for number in event.get(48, []))
    assert len(flows) == 2 + 2
    counters = [event for event in events if event[9] == [4]]
    # other tests hold memory, too, and a few bytes may be of something that was asked for before
    values = {event[30][0] for event in counters}
    assert any(4096 <= after - before < 4096 + 64 for after in values for before in values)
    assert len([event for event in events if event[9] == [3]]) == 1
    notes = [decoded(note) for event in events for note in event.get(4, [])]
    assert {note[10][0]: note[9][0] for note in notes}[b"error"] == b"\"KeyError: 'k'\""
    assert {note[10][0] for note in notes} >= {b"batch", b"operators", b"serves", b"flops"}


def test_empty_trace() -> None:
    with profile() as prof:
        pass
    assert slices_of(perfetto_trace(prof.events())) == {}
