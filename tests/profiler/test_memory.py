"""Memory over time: categories, peak, the largest pieces, and no negative numbers."""

import csv
import io
import json
from pathlib import Path

from phonograd.core.events import note_allocation, note_release
from phonograd.profiler import profile, record_function

from .programs import training_step


def test_timeline(nothing_held: None) -> None:
    with profile(profile_memory=True) as prof, record_function("scope"):
        note_allocation(100, "parameter", 1)
        note_allocation(50, "gradient", 2)
        note_release(50, "gradient", 2)
        note_allocation(10, "something else", 3)
    timeline = prof.memory_timeline()
    assert timeline.categories == ["parameter", "gradient", "something else"]
    assert timeline.sizes == [(0, 0, 0), (100, 0, 0), (100, 50, 0), (100, 0, 0), (100, 0, 10)]
    assert (timeline.peak, timeline.end) == (150, 110)
    assert timeline.by_category() == {"parameter": 100, "gradient": 50, "something else": 0}
    assert timeline.times_ns == sorted(timeline.times_ns)
    assert timeline.peak_ns == timeline.times_ns[2]
    assert [(piece.nbytes, piece.category) for piece in timeline.largest()] == [(100, "parameter"), (50, "gradient")]
    assert [piece.nbytes for piece in timeline.largest(1, at_end=True)] == [100]
    assert timeline.largest()[0].path == ("scope",)
    assert "Peak: 150 B" in str(timeline)


def test_what_was_there_before_is_never_negative(nothing_held: None) -> None:
    with profile(profile_memory=True) as prof, record_function("scope"):
        note_release(70, "gradient", 9)
        note_allocation(30, "gradient", 10)
        note_release(100, "temporary")  # nobody knows which
    timeline = prof.memory_timeline()
    assert timeline.preexisting == {"gradient": 70, "temporary": 100}
    assert all(size >= 0 for sizes in timeline.sizes for size in sizes)
    assert timeline.sizes[0] == (70, 100)
    assert timeline.end == 30


def test_creation_sites(nothing_held: None) -> None:
    with profile(profile_memory=True, with_stack=True) as prof:
        note_allocation(8, "activation", 1)
    (piece,) = prof.memory_timeline().largest()
    assert piece.stack[0].endswith("test_creation_sites")
    assert piece.path == ()


def test_files(nothing_held: None, tmp_path: Path) -> None:
    with profile(profile_memory=True) as prof:
        training_step()
    prof.export_memory_timeline(tmp_path / "memory.json")
    prof.export_memory_timeline(tmp_path / "memory.csv")
    document = json.loads((tmp_path / "memory.json").read_text())
    rows = list(csv.DictReader(io.StringIO((tmp_path / "memory.csv").read_text())))
    assert [int(row["gradient"]) for row in rows] == [sizes[0] for sizes in document["sizes"]] == [0, 0, 4096, 4096, 0]
    assert document["peak"]["categories"] == {"gradient": 4096, "activation": 2048}


def test_nothing_recorded() -> None:
    with profile() as prof:
        training_step()
    timeline = prof.memory_timeline()
    assert (timeline.peak, timeline.end, len(timeline), timeline.largest()) == (0, 0, 1, [])
