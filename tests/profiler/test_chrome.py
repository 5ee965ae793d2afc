"""Chrome traces: valid whatever the program does."""

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phonograd.core.events import Range
from phonograd.profiler import profile, record_function, validate_trace
from phonograd.profiler.chrome import write_chrome_trace
from phonograd.profiler.events import build


def traced(path: Path) -> list[dict[str, Any]]:
    """Return the slices of a trace."""
    assert validate_trace(path) == []
    return [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] in "Xi"]


def test_trace(tmp_path: Path) -> None:
    with profile() as prof:
        outer = record_function("outer", "text", {"batch": 3, "value": float("nan"), "thing": object})
        with outer, record_function('in"ner') as scope:
            scope.event("moment")
        with pytest.raises(KeyError), record_function("failing"):
            raise KeyError("k")
    prof.add_metadata("note", 'a "quoted"\nline')
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(path)
    whole, inner, moment, failing = traced(path)
    assert whole["args"]["batch"] == 3
    assert whole["args"]["args"] == "text"
    assert whole["args"]["value"] == "nan"
    assert inner["name"] == 'in"ner'
    assert moment["ph"] == "i"
    assert failing["args"]["error"] == "KeyError: 'k'"
    assert (whole["cat"], whole["pid"] > 0) == ("user_annotation", True)
    root = json.loads(path.read_text())
    assert root["note"] == 'a "quoted"\nline'
    assert root["baseTimeNanoseconds"] > 1_600_000_000 * 10**9
    again = tmp_path / "again.json"
    prof.export_chrome_trace(again)
    assert again.read_bytes() == path.read_bytes(), "exporting can be repeated"
    prof.export_chrome_trace(tmp_path / "trace.json.gz")
    assert gzip.decompress((tmp_path / "trace.json.gz").read_bytes()) == path.read_bytes()


def test_empty_profile(tmp_path: Path) -> None:
    with profile() as prof:
        pass
    prof.export_chrome_trace(tmp_path / "trace.json")
    assert traced(tmp_path / "trace.json") == []


def test_tasks_get_tracks_of_their_own(tmp_path: Path) -> None:
    async def job(number: int) -> None:
        with record_function(f"job{number}"):
            await asyncio.sleep(0.001 * number)

    async def main() -> None:
        with record_function("main"):
            await asyncio.gather(job(1), job(3), job(2))

    with profile() as prof:
        asyncio.run(main())
    prof.export_chrome_trace(tmp_path / "trace.json")
    slices = traced(tmp_path / "trace.json")
    assert len({event["tid"] for event in slices}) == 3
    assert slices[0]["tid"] == slices[1]["tid"], "the first job stands inside main"


def test_generator_is_a_slice_for_each_stretch(tmp_path: Path) -> None:
    @record_function("generator")
    def count() -> Any:
        yield from range(3)

    with profile() as prof, record_function("loop"):
        for _ in count():
            with record_function("body"):
                pass
    prof.export_chrome_trace(tmp_path / "trace.json")
    slices = traced(tmp_path / "trace.json")
    assert [event["name"] for event in slices] == ["loop", *["generator", "body"] * 3, "generator"]
    assert len({event["tid"] for event in slices}) == 1


def test_unfinished_is_marked(tmp_path: Path) -> None:
    prof = profile().start()
    with record_function("x"):
        prof.stop()
    prof.export_chrome_trace(tmp_path / "trace.json")
    assert traced(tmp_path / "trace.json")[0]["args"] == {"unfinished": True}


def test_size_of_an_ordinary_event(tmp_path: Path) -> None:
    with profile() as prof:
        for _ in range(1000):
            with record_function("layer1.forward"):
                pass
    prof.export_chrome_trace(tmp_path / "trace.json")
    assert (tmp_path / "trace.json").stat().st_size / 1000 <= 125


@st.composite
def programs(draw: st.DrawFn) -> list[tuple[int, int, int | None, int]]:
    """Return random ranges as (start, length, index of the parent, thread), parents open when their children start."""
    count = draw(st.integers(0, 25))
    ranges: list[tuple[int, int, int | None, int]] = []
    now = 0
    for _ in range(count):
        now += draw(st.integers(0, 3))
        length = draw(st.integers(0, 12))
        is_open = [i for i, (start, long, _, _) in enumerate(ranges) if start <= now <= start + long]
        parent = draw(st.sampled_from([None, *is_open]))
        ranges.append((now, length, parent, draw(st.integers(1, 2))))
    return ranges


@settings(max_examples=150)
@given(programs(), st.text(max_size=5))
def test_any_ranges_give_a_valid_trace_and_honest_self_times(
    tmp_path_factory: pytest.TempPathFactory, program: list[tuple[int, int, int | None, int]], name: str
) -> None:
    made: list[Range] = []
    buffers: dict[int, tuple[str, list[Range]]] = {1: ("one", []), 2: ("two", [])}
    for start, length, parent, thread in program:
        entry = Range()
        entry.name, entry.start_ns, entry.end_ns = name, 1 + start, 1 + start + length
        entry.parent = None if parent is None else made[parent]
        entry._thread = _Thread(thread)  # type: ignore[assignment]
        made.append(entry)
        buffers[thread][1].append(entry)
    events = build(buffers, 1, 1 + max([s + n for s, n, _, _ in program], default=0), 0)
    path = tmp_path_factory.mktemp("traces") / "trace.json"
    write_chrome_trace(events, path)
    assert validate_trace(path) == []
    assert len([e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]) == len(program)
    for thread in (1, 2):
        own = [event for event in events if event.thread == thread]
        assert all(0 <= event.self_ns <= event.total_ns for event in own)
        assert sum(event.self_ns for event in own) <= _covered(own)


class _Thread:
    def __init__(self, number: int) -> None:
        self.number = number
        self.name = str(number)


def _covered(events: list[Any]) -> int:
    """Return how much time is covered by at least one event."""
    moments = {moment for event in events for moment in range(event.start_ns, event.end_ns)}
    return len(moments)


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        ("not json", "not JSON"),
        ('{"traceEvents": []}', "not a non-empty list"),
        ('[{"ph":"X","name":"a","pid":1,"tid":1,"ts":NaN,"dur":1}]', "NaN is not JSON"),
        ('[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":-1}]', "no duration"),
        ('[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1}]', "has no name"),
        ('[{"ph":"X","name":"a","pid":9007199254740993,"tid":1,"ts":1,"dur":1}]', "below 2"),
        (
            '[{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":2},{"ph":"X","name":"b","pid":1,"tid":1,"ts":1,"dur":2}]',
            "'b' crosses 'a'",
        ),
        ('[{"ph":"s","cat":"c","id":1,"name":"a","pid":1,"tid":1,"ts":0}]', "not one start and one later end"),
        ('[{"ph":"b","cat":"c","id":1,"name":"a","pid":1,"tid":1,"ts":0}]', "has no end"),
        ('[{"ph":"e","cat":"c","id":1,"name":"a","pid":1,"tid":1,"ts":0}]', "ends before it begins"),
        ('[{"ph":"C","name":"a","pid":1,"tid":1,"ts":0,"args":{"a":"x"}}]', "not a number"),
    ],
)
def test_faults_are_found(tmp_path: Path, events: str, fault: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(events)
    assert any(fault in found for found in validate_trace(path))
