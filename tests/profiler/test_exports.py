"""Files for other tools: folded stacks, speedscope, pstats, CSV and JSON; and views."""

import asyncio
import csv
import io
import json
import pstats
import threading
from pathlib import Path
from typing import Any

import pytest

from phonograd.core.events import Range
from phonograd.profiler import profile, record_function, schedule, trace_handler, validate_trace
from phonograd.profiler.events import EventList, build
from phonograd.profiler.folded import folded_stacks
from phonograd.profiler.python_statistics import python_statistics
from phonograd.profiler.speedscope import speedscope_json

from .programs import training_step
from .test_averages import events as made


@pytest.fixture
def listed() -> EventList:
    return made(("step", 0, 100, None), ("matmul", 10, 60, 0), ("copy", 20, 30, 1), ("matmul", 70, 80, 0))


def test_folded(listed: EventList) -> None:
    assert folded_stacks(listed) == "step;matmul 50\nstep 40\nstep;matmul;copy 10\n"
    assert folded_stacks(listed, "count") == "step;matmul 2\nstep 1\nstep;matmul;copy 1\n"
    with pytest.raises(ValueError, match="did you mean 'self_ns'"):
        folded_stacks(listed, "self_n")


def test_folded_names_hold_nothing_forbidden() -> None:
    (line,) = folded_stacks(made(("a;b c\nd", 0, 5, None), ("", 0, 5, 0))).splitlines()
    assert line == "a_b_c_d;_ 5"


def test_stacks_of_functions_stand_before_names(tmp_path: Path) -> None:
    def work() -> None:
        with record_function("scope"):
            sum(range(10_000))

    with profile(with_stack=True) as prof:
        work()
    prof.export_stacks(tmp_path / "stacks.txt")
    (line,) = (tmp_path / "stacks.txt").read_text().splitlines()
    frames, _, weight = line.rpartition(" ")
    assert frames.split(";")[-1] == "scope"
    assert frames.split(";")[-2].endswith("work")
    assert int(weight) > 0


def checked_speedscope(text: str) -> dict[str, Any]:
    """Return a speedscope file after checking what its schema demands."""
    document: dict[str, Any] = json.loads(text)
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = document["shared"]["frames"]
    for entry in document["profiles"]:
        assert {"type", "name", "unit", "startValue", "endValue"} <= set(entry)
        if entry["type"] == "sampled":
            assert len(entry["samples"]) == len(entry["weights"])
            assert sum(entry["weights"]) == entry["endValue"]
            continue
        stack: list[int] = []
        last = entry["startValue"]
        for moment in entry["events"]:
            assert last <= moment["at"] <= entry["endValue"]
            last = moment["at"]
            assert 0 <= moment["frame"] < len(frames)
            if moment["type"] == "O":
                stack.append(moment["frame"])
            else:
                assert stack.pop() == moment["frame"], "brackets"
        assert not stack
    return document


def test_speedscope(listed: EventList) -> None:
    document = checked_speedscope(speedscope_json(listed))
    (entry,) = document["profiles"]
    assert [frame["name"] for frame in document["shared"]["frames"]] == ["step", "matmul", "copy"]
    assert [(m["type"], m["frame"], m["at"]) for m in entry["events"]] == [
        *[
            ("O", 0, 0),
            ("O", 1, 10),
            ("O", 2, 20),
            ("C", 2, 30),
            ("C", 1, 60),
            ("O", 1, 70),
            ("C", 1, 80),
            ("C", 0, 100),
        ]
    ]


def test_speedscope_of_threads_tasks_and_memory(tmp_path: Path) -> None:
    async def job(number: int) -> None:
        with record_function(f"job{number}"):
            await asyncio.sleep(0.001)

    async def main() -> None:
        await asyncio.gather(job(1), job(2))

    with profile(profile_memory=True) as prof:
        asyncio.run(main())
        training_step()
        thread = threading.Thread(target=training_step, name="worker")
        thread.start()
        thread.join()
    prof.export_speedscope(tmp_path / "profile.speedscope.json")
    document = checked_speedscope((tmp_path / "profile.speedscope.json").read_text())
    names = [entry["name"] for entry in document["profiles"]]
    assert names == ["MainThread", "MainThread (overlapping 1)", "worker", "memory allocated"]
    assert document["profiles"][-1]["endValue"] == 2 * 6144
    assert document["name"] == "profile.speedscope.json"


def test_python_statistics(tmp_path: Path) -> None:
    listed = made(("f", 0, 10**9, None), ("f", 10**8, 9 * 10**8, 0), ("g", 2 * 10**8, 3 * 10**8, 1))
    path = tmp_path / "profile.prof"
    path.write_bytes(python_statistics(listed))
    out = io.StringIO()
    stats: Any = pstats.Stats(str(path), stream=out)
    stats.sort_stats("cumulative").print_stats()
    stats.print_callers()
    (f,) = [row for key, row in stats.stats.items() if key[2] == "f"]
    (g,) = [row for key, row in stats.stats.items() if key[2] == "g"]
    assert f[:2] == (1, 2), "one of the two calls is recursive"
    assert (round(f[2], 9), round(f[3], 9)) == (0.9, 1.0)
    assert (g[0], g[1], round(g[2], 9)) == (1, 1, 0.1)
    assert next(iter(g[4])) == ("~", 0, "f")
    assert "2/1" in out.getvalue()


def test_python_statistics_know_places(tmp_path: Path) -> None:
    with profile(with_stack=True) as prof, record_function("here"):
        pass
    prof.export_pstats(tmp_path / "profile.prof")
    stats: Any = pstats.Stats(str(tmp_path / "profile.prof"))
    ((file, line, name),) = stats.stats
    assert (Path(file).name, name) == (Path(__file__).name, "here")
    assert line > 0


def test_tables_in_other_formats() -> None:
    with profile(profile_memory=True, with_flops=True) as prof:
        training_step()
    averages = prof.key_averages()
    markdown = averages.to_markdown("self_cpu_time_total").splitlines()
    assert len(markdown) == 2 + len(averages)
    assert len({line.count("|") for line in markdown}) == 1
    page = averages.to_html()
    assert page.count("<tr>") == 1 + len(averages)
    rows = list(csv.DictReader(io.StringIO(averages.to_csv())))
    (dense,) = [row for row in rows if row["name"] == "FullyConnected"]
    assert float(dense["flops"]) == 2 * 32 * 64 * 16
    assert float(dense["moved_bytes"]) == 4 * (32 * 64 + 16 * 64 + 32 * 16)
    assert float(dense["kernel_time_total"]) > float(dense["backward_kernel_time_total"]) > 0
    table = averages.table()
    for column in (
        "Kernels",
        "Backward kernels",
        "Backward",
        "CPU Mem",
        "Peak Mem",
        "Total FLOPs",
        "GFLOP/s",
        "FLOP/byte",
    ):
        assert column in table
    assert "<&>" not in made_html('<&>"')


def made_html(name: str) -> str:
    from phonograd.profiler.averages import key_averages

    return key_averages(made((name, 0, 5, None))).to_html()


def test_top_level_events_only() -> None:
    with profile() as prof, record_function("outer"), record_function("inner"):
        pass
    table = prof.table(top_level_events_only=True)
    assert "outer" in table
    assert "inner" not in table


def test_steps(tmp_path: Path) -> None:
    steps = schedule(wait=0, warmup=0, active=2, repeat=2)
    handler = trace_handler(tmp_path / "traces", "worker", use_gzip=True)
    with profile(schedule=steps, on_trace_ready=handler, profile_memory=True) as prof:
        for _ in range(4):
            training_step()
            prof.step()
    view = prof.by_step()
    assert [row["name"] for row in view] == [f"ProfilerStep#{number}" for number in range(4)]
    for row in view:
        assert (row["kernels"], row["operators"], row["peak_bytes"], row["net_bytes"]) == (3, 2, 6144, 0)
        assert 0 < row["backward_kernel_us"] < row["kernel_us"] < row["total_us"]
    files = sorted((tmp_path / "traces").iterdir())
    assert len(files) == 2
    assert all(file.name.startswith("worker.") and not validate_trace(file) for file in files)


def test_views_can_be_printed_sorted_and_exported() -> None:
    with profile(with_modules=True) as prof:
        training_step()
    view = prof.by_scope()
    assert view["forward > loss"]["calls"] == 1
    with pytest.raises(KeyError, match="did you mean 'forward > loss'"):
        view["forward > los"]
    ordered = view.sorted_by("kernel_us")
    assert [row["kernel_us"] for row in ordered] == sorted([row["kernel_us"] for row in view], reverse=True)
    with pytest.raises(ValueError, match="the keys are name, calls"):
        view.table(sort_by="kernels")
    assert json.loads(view.to_json()) == list(view)
    assert len(view.to_csv().splitlines()) == len(view.to_markdown().splitlines()) - 1 == len(view) + 1
    assert view.table(row_limit=1).count("\n") == 5
    assert [row["name"] for row in prof.by_module()] == ["dense0"]
    with profile() as empty:
        pass
    assert str(empty.by_scope()) == empty.by_step().to_csv() == empty.by_scope().to_markdown() == ""


def test_arrows_and_memory_in_the_chrome_trace(nothing_held: None, tmp_path: Path) -> None:
    with profile(profile_memory=True) as prof:
        training_step()
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(path)
    assert validate_trace(path) == []
    events = json.loads(path.read_text())["traceEvents"]
    flows = [event for event in events if event["ph"] in "sf"]
    assert [event["cat"] for event in flows].count("fwdbwd") == 2 * 2
    assert [event["cat"] for event in flows].count("cause") == 2 * 2, "what runs inside a scope needs no arrow from it"
    assert all(event["bp"] == "e" for event in flows if event["ph"] == "f")
    counters = [event["args"] for event in events if event["ph"] == "C"]
    assert counters[0] == {"gradient": 0, "activation": 0}
    assert max(sum(args.values()) for args in counters) == 6144
    (fused,) = [event for event in events if event["name"] == "FullyConnected, sum"]
    assert fused["args"]["operators"] == ["FullyConnected", "sum"]
    assert fused["args"]["serves"] == ["dense0", "loss"]
    assert (fused["args"]["flops"], fused["args"]["bytes"], fused["cat"]) == (2e6, 4096, "kernel")


def test_events_without_ranges_of_their_own() -> None:
    assert folded_stacks(build({}, 1, 2, 0)) == ""
    assert checked_speedscope(speedscope_json(build({}, 1, 2, 0)))["profiles"] == []
    assert Range.restore("x", 0, 1, "t", 1, 2).parent is None


@pytest.mark.parametrize(
    "name",
    ["chrome_trace", "perfetto_trace", "csv", "json", "speedscope", "folded", "pstats", "html", "memory_timeline"],
)
def test_files_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    with profile(profile_memory=True) as prof:
        training_step()
    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        getattr(prof, f"export_{name}")(path)
    with pytest.raises(OSError, match="No space left"):
        prof.save(path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
