"""Averages: numbers, table, CSV and JSON."""

import csv
import io
import json
import re
from typing import Any

import pytest

from phonograd.core.events import Range
from phonograd.profiler import AverageList, EventList
from phonograd.profiler.averages import key_averages
from phonograd.profiler.events import build


def events(*entries: tuple[str, int, int, int | None]) -> EventList:
    """Return events from (name, start, end, index of the parent) in nanoseconds."""
    made: list[Range] = []
    for name, start, end, parent in entries:
        entry = Range()
        entry.name, entry.start_ns, entry.end_ns = name, start + 1000, end + 1000
        entry.parent = None if parent is None else made[parent]
        made.append(entry)
    stop = 1000 + max([end for _, _, end, _ in entries], default=0)
    return build({1: ("MainThread", made)}, 1000, stop, 0)


@pytest.fixture
def averages() -> AverageList:
    return key_averages(
        events(
            ("step", 0, 10_000_000, None),
            ("matmul", 1_000_000, 3_000_000, 0),
            ("matmul", 4_000_000, 8_000_000, 0),
            ("copy", 5_000_000, 5_500_000, 2),
        )
    )


def test_numbers(averages: AverageList) -> None:
    step, matmul, copy = averages
    assert (step.count, step.cpu_time_total, step.self_cpu_time_total) == (1, 10_000.0, 4_000.0)
    assert (matmul.count, matmul.cpu_time_total, matmul.self_cpu_time_total) == (2, 6_000.0, 5_500.0)
    assert (matmul.min, matmul.max, matmul.cpu_time, matmul.p50, matmul.std) == (2000.0, 4000.0, 3000.0, 3000.0, 1000.0)
    assert matmul.percentile(0) == 2000.0
    assert matmul.percentile(100) == 4000.0
    assert copy.self_cpu_time_total == 500.0
    assert averages.self_cpu_time_total == 10_000.0
    with pytest.raises(ValueError):
        matmul.percentile(101)


def test_table(averages: AverageList) -> None:
    lines = averages.table(sort_by="self_cpu_time_total").splitlines()
    assert lines[0] == lines[2] == lines[-2]
    assert set(lines[0]) == {"-", " "}
    assert re.split(r"  +", lines[1].strip()) == [
        *("Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"),
        *("Min", "p50", "p95", "Max", "Std", "# of Calls"),
    ]
    assert [" ".join(line.split()) for line in lines[3:6]] == [
        "matmul 55.00% 5.500ms 60.00% 6.000ms 3.000ms 2.000ms 3.000ms 3.900ms 4.000ms 1.000ms 2",
        "step 40.00% 4.000ms 100.00% 10.000ms 10.000ms 10.000ms 10.000ms 10.000ms 10.000ms 0.000us 1",
        "copy 5.00% 500.000us 5.00% 500.000us 500.000us 500.000us 500.000us 500.000us 500.000us 0.000us 1",
    ]
    assert lines[-1] == "Self CPU time total: 10.000ms"
    assert len({len(line) for line in lines[:-1]}) == 1, "columns are aligned"


def test_table_options(averages: AverageList) -> None:
    assert "10000.000us" in averages.table(time_unit="us")
    assert "0.010s" in averages.table(time_unit="s")
    assert len(averages.table(row_limit=1).splitlines()) == 6
    assert len(averages.table(row_limit=-1).splitlines()) == 8
    assert averages.table(header="Title").splitlines()[1] == "Title"
    assert "mat..." not in averages.table()
    assert "ma..." in averages.table(max_name_column_width=5)
    with pytest.raises(ValueError, match="time_unit"):
        averages.table(time_unit="h")
    assert str(averages) == averages.table()
    assert AverageList([]).table() == ""


@pytest.mark.parametrize("key", ["name", "count", "min", "max", "p50", "p95", "std", "cpu_time", "cpu_time_total"])
def test_every_column_sorts_both_ways(averages: AverageList, key: str) -> None:
    falling = [getattr(average, key) for average in averages.sorted_by(key)]
    rising = [getattr(average, key) for average in averages.sorted_by(key, ascending=True)]
    assert falling == sorted(falling, reverse=True)
    assert rising == sorted(rising)


def test_unknown_column(averages: AverageList) -> None:
    with pytest.raises(ValueError, match=r"did you mean 'cpu_time_total'.*the keys are name, "):
        averages.table(sort_by="cpu_time_totl")


def test_csv_and_json(averages: AverageList) -> None:
    rows = list(csv.DictReader(io.StringIO(averages.to_csv(sort_by="count"))))
    assert rows[0]["name"] == "matmul"
    assert float(rows[0]["cpu_time_total"]) == 6000.0
    found = json.loads(averages.to_json())
    assert found["unit"] == "us"
    assert [entry["name"] for entry in found["averages"]] == ["step", "matmul", "copy"]


def test_names_that_need_quoting() -> None:
    name = 'q"uote,\nnew line'
    averages = key_averages(events((name, 0, 10, None)))
    assert json.loads(averages.to_json())["averages"][0]["name"] == name
    assert next(csv.DictReader(io.StringIO(averages.to_csv())))["name"] == name
    assert "\\n" in averages.table()


def test_grouping_by_shape() -> None:
    listed = events(("a", 0, 1, None), ("a", 1, 2, None), ("a", 2, 3, None))
    shapes: list[Any] = [[[1]], [[2]], [[1]]]
    for event, shape in zip(listed, shapes, strict=True):
        event.range.shapes = shape
    assert [average.count for average in key_averages(listed)] == [3]
    assert [average.count for average in key_averages(listed, group_by_input_shape=True)] == [2, 1]
    assert "Input Shapes" in key_averages(listed, group_by_input_shape=True).table()


def test_recursion_is_counted_once() -> None:
    (average,) = key_averages(events(("f", 0, 100, None), ("f", 10, 90, 0), ("f", 20, 80, 1)))
    assert (average.total_ns, average.self_ns, average.count) == (100, 100, 3)
    assert average.cpu_time == (100 + 80 + 60) / 3 / 1000


def test_nothing_took_no_time() -> None:
    assert "NaN" in key_averages(events(("a", 0, 0, None))).table()


def test_narrow_tables() -> None:
    listed = events(("an operator whose name is longer than most of them", 0, 3_000_000, None), ("short", 10, 60, 0))
    whole = listed.table()
    for width in (140, 100, 80, 60, 40):
        lines = listed.table(max_width=width).splitlines()
        assert max(map(len, lines[:-1])) <= width
        assert "Self CPU" in lines[1]
    assert "..." in lines[3]
    assert listed.table(max_width=10**4) == whole
    top = listed.table(top_level_events_only=True, time_unit="us", max_width=60)
    assert "us" in top
    assert "ms" not in top
