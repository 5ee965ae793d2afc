"""MXNet's functions and objects: set_config, set_state, dump, dumps, Domain and its children."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import phonograd as mx
from phonograd import profiler
from phonograd.core import events as observers
from phonograd.profiler import profile, record_function, validate_trace
from phonograd.profiler.control import _process


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path) -> Iterator[Path]:
    """A profiler of the process that has seen nothing; the path it writes to."""
    path = tmp_path / "profile.json"
    profiler.set_config(filename=str(path), aggregate_stats=True, profile_all=True)
    yield path
    profiler.resume()
    profiler.stop()
    _process.reset()
    profiler.set_config(filename="profile.json", aggregate_stats=False, profile_all=False)


def work(name: str = "work") -> None:
    with record_function(name):
        pass


def statistics(**options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(profiler.dumps(format="json", **options))
    return found


# -- control


def test_run_and_stop(fresh: Path) -> None:
    work("before")
    mx.profiler.set_state("run")
    work("during")
    mx.profiler.set_state("stop")
    work("after")
    assert statistics()["Time"]["scope"].keys() == {"during"}


def test_start_stop_in_any_order_is_harmless() -> None:
    profiler.stop()
    profiler.start()
    profiler.start()
    work()
    profiler.stop()
    profiler.stop()
    profiler.start()
    work()
    assert statistics()["Time"]["scope"]["work"]["Count"] == 2


def test_pause_and_resume() -> None:
    profiler.start()
    profiler.pause()
    work("paused")
    profiler.resume()
    work("resumed")
    profiler.stop()
    assert statistics()["Time"]["scope"].keys() == {"resumed"}


def test_paused_before_the_start() -> None:
    profiler.pause()
    profiler.start()
    work("paused")
    profiler.resume()
    work("resumed")
    assert statistics()["Time"]["scope"].keys() == {"resumed"}


def test_wrong_state_and_configuration() -> None:
    with pytest.raises(KeyError):
        profiler.set_state("walk")
    with pytest.raises(mx.MXNetError, match=r"Cannot find argument 'filenam', Possible Arguments: filename.*did you"):
        profiler.set_config(filenam="x")
    with pytest.raises(mx.MXNetError, match="dump_period"):
        profiler.set_config(continuous_dump=True, dump_period=0)
    with pytest.raises(mx.MXNetError, match="profile_process"):
        profiler.set_config(profile_process="client")


def test_configuration_deletes_the_file(fresh: Path) -> None:
    fresh.write_text("old")
    profiler.set_config(filename=str(fresh))
    assert not fresh.exists()


def test_dump_as_often_as_wanted_and_always_valid(fresh: Path) -> None:
    profiler.set_config(continuous_dump=False)
    profiler.start()
    work('q"uote')
    profiler.dump(finished=False)
    assert validate_trace(fresh) == []
    work("more")
    profiler.dumps()
    profiler.dump()
    assert validate_trace(fresh) == []
    profiler.dump()
    names = [event["name"] for event in json.loads(fresh.read_text())["traceEvents"] if event["ph"] == "X"]
    assert names == ['q"uote', "more"]
    work("not recorded")
    assert not any(observers.LISTENING)


def test_old_names_warn() -> None:
    with pytest.warns(FutureWarning, match="set_config"):
        profiler.profiler_set_config(mode="all", filename=_process.configuration.filename)
    with pytest.warns(FutureWarning, match="set_state"):
        profiler.profiler_set_state("run")
    work()
    with pytest.warns(FutureWarning, match="dump"):
        profiler.dump_profile()
    assert os.path.exists(_process.configuration.filename)


def test_operators_can_be_left_out() -> None:
    profiler.set_config(profile_all=False, profile_symbolic=False, profile_imperative=False)
    profiler.start()
    assert not observers.LISTENING[observers.FUNCTION]
    assert observers.LISTENING[observers.USER_SCOPE]
    profiler.set_config(profile_symbolic=True, profile_imperative=True)


@pytest.mark.parametrize("mode", ["0", "1", None])
def test_autostart_writes_a_trace_at_the_end(tmp_path: Path, mode: str | None) -> None:
    code = """
import phonograd as mx
x = mx.nd.ones((2, 3))
with mx.AttrScope():
    (mx.nd.exp(x) + 1).wait_to_read()
from phonograd.profiler import record_function
with record_function("my scope"):
    mx.nd.tanh(x).wait_to_read()
"""
    environment = {**os.environ, "MXNET_PROFILER_AUTOSTART": "1"}
    environment.update({} if mode is None else {"MXNET_PROFILER_MODE": mode})
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env=environment)
    path = tmp_path / "profile.json"
    assert validate_trace(path) == []
    events = json.loads(path.read_text())["traceEvents"]
    found = {(event.get("cat"), event["name"]) for event in events}
    assert {("cpu_op", "exp"), ("cpu_op", "tanh"), ("kernel", "tanh"), ("user_annotation", "my scope")} <= found
    (tanh,) = [event for event in events if event["name"] == "tanh" and event["cat"] == "kernel"]
    assert tanh["args"]["serves"] == ["my scope"]


# -- statistics


def test_dumps_is_empty_unless_configured() -> None:
    profiler.set_config(aggregate_stats=False)
    profiler.start()
    work()
    assert profiler.dumps() == ""


def test_dumps_table_and_arguments() -> None:
    profiler.start()
    work()
    profiler.stop()
    lines = profiler.dumps().splitlines()
    assert lines[1:5] == [
        "Profile Statistics:",
        "\tNote the difference in units for different entries.",
        "scope",
        "=================",
    ]
    assert lines[5] == (
        "Name                          Total Count        Time (ms)    Min Time (ms)    Max Time (ms)    Avg Time (ms)"
    )
    assert lines[6] == (
        "----                          -----------        ---------    -------------    -------------    -------------"
    )
    assert lines[7].startswith("work                                    1           0.")
    assert len(lines[7]) == len(lines[5])
    with pytest.raises(AssertionError, match="Invalid value provided for format: x"):
        profiler.dumps(format="x")
    with pytest.raises(AssertionError, match="Invalid value provided for sort_by: x"):
        profiler.dumps(sort_by="x")


@pytest.mark.parametrize("ascending", [False, True])
@pytest.mark.parametrize(
    ("sort_by", "key"), [("total", "Total"), ("avg", "Avg"), ("min", "Min"), ("max", "Max"), ("count", "Count")]
)
def test_sorting(sort_by: str, key: str, ascending: bool) -> None:
    profiler.start()
    for count, name in enumerate("abcd"):
        for _ in range(count + 1):
            work(name)
    profiler.stop()
    values = [row[key] for row in statistics(sort_by=sort_by, ascending=ascending)["Time"]["scope"].values()]
    assert values == sorted(values, reverse=not ascending)


def test_reset_while_running() -> None:
    profiler.start()
    work("a")
    assert statistics(reset=True)["Time"]["scope"].keys() == {"a"}
    work("b")
    assert statistics()["Time"]["scope"].keys() == {"b"}


# -- objects


def test_objects_appear_in_statistics_and_trace(fresh: Path) -> None:
    profiler.start()
    domain = profiler.Domain("my domain")
    task, frame = domain.new_task('task "one"'), domain.new_frame("frame")
    event = profiler.Event("event")
    counter, marker = domain.new_counter("count", 5), domain.new_marker("mark")
    task.start()
    frame.start()
    event.start()
    counter += 3
    counter -= 1
    counter.increment()
    counter.decrement(2)
    marker.mark()
    event.stop()
    frame.stop()
    task.stop()
    profiler.dump()
    assert validate_trace(fresh) == []
    found = statistics()
    assert found["Time"].keys() == {"event", "my domain", "my domain,frame"}
    assert found["Counter"]["my domain"]["count"] == {"Count": 5, "Total": 34, "Min": 5, "Max": 8, "Avg": 34 / 5}
    assert "Avg Value" in profiler.dumps()
    events = json.loads(fresh.read_text())["traceEvents"]
    phases = [event["ph"] for event in events if event["name"] == 'task "one"']
    assert phases == ["b", "e"]
    assert [event["args"] for event in events if event["ph"] == "C"] == [{"count": n} for n in (5, 8, 7, 8, 6)]
    assert [event["s"] for event in events if event["ph"] == "i"] == ["p"]
    assert [str(thing) for thing in (domain, task, frame, event, counter, marker)] == [
        "my domain",
        'task "one"',
        "frame",
        "event",
        "count",
        "mark",
    ]


def test_objects_are_context_managers_and_may_overlap() -> None:
    domain = profiler.Domain("domain")
    first, second = domain.new_task("first"), domain.new_task("second")
    with profile() as prof:
        first.start()
        second.start()
        first.stop()
        with domain.new_frame("frame"), profiler.Event("event"):
            work("scope")
        second.stop()
        with pytest.raises(KeyError), domain.new_task("failing"):
            raise KeyError("k")
    parents = {event.name: event.parent.name if event.parent else None for event in prof.events()}
    assert parents == {
        "first": None,
        "second": None,
        "frame": None,
        "event": "frame",
        "scope": "event",
        "failing": None,
    }
    assert [event.error for event in prof.events() if event.name == "failing"] == ["KeyError: 'k'"]


def test_task_started_and_stopped_in_different_threads() -> None:
    task = profiler.Domain("domain").new_task("task")
    with profile() as prof:
        task.start()
        thread = threading.Thread(target=task.stop)
        thread.start()
        thread.join()
    assert not prof.events()[0].unfinished


def test_stop_without_start_is_accepted() -> None:
    for thing in (profiler.Domain("d").new_task("t"), profiler.Domain("d").new_frame("f"), profiler.Event("e")):
        thing.stop()


def test_dropped_task_ends() -> None:
    with profile() as prof:
        task = profiler.Domain("d").new_task("t")
        task.start()
        del task
    assert not prof.events()[0].unfinished


@pytest.mark.parametrize("value", ["a", None, float("nan"), float("inf")])
def test_counter_values_are_numbers(value: Any) -> None:
    counter = profiler.Domain("d").new_counter("c", 1)
    with pytest.raises(ValueError, match="finite number"):
        counter.set_value(value)
    assert counter.value == 1


def test_marker_scopes() -> None:
    marker = profiler.Domain("d").new_marker("m")
    for scope in ("global", "process", "thread", "task", "marker"):
        marker.mark(scope)
    with pytest.raises(mx.MXNetError, match="Invalid Input: 'zzz', valid values are"):
        marker.mark("zzz")


def test_domains_are_needed() -> None:
    for make in (profiler.Task, profiler.Frame, profiler.Counter, profiler.Marker):
        with pytest.raises(TypeError, match="Domain"):
            make("domain", "name")  # type: ignore[arg-type]


def test_scopes_join_their_names() -> None:
    with profile() as prof, profiler.scope("a:") as outer:
        with profiler.scope("b") as inner:
            pass
        with profiler.scope("c:", append_mode=False) as alone:
            pass
    assert (outer, inner, alone) == ("a:", "a:b:", "c:")
    assert [event.name for event in prof.events()] == ["a:", "a:b:", "c:"]


def test_two_ways_to_profile_at_once() -> None:
    profiler.start()
    with profile() as prof:
        work()
    profiler.stop()
    assert len(prof.events()) == 1
    assert statistics()["Time"]["scope"]["work"]["Count"] == 1


def test_memory_has_a_block_of_its_own(fresh: Path) -> None:
    profiler.set_config(aggregate_stats=True)
    profiler.set_state("run")
    observers.note_allocation(2048, "gradient", 1)
    observers.note_allocation(1024, "activation", 2)
    observers.note_release(2048, "gradient", 1)
    profiler.set_state("stop")
    memory = json.loads(profiler.dumps(format="json"))["Memory"]["Device Storage"]
    assert memory["Memory: cpu/0"] == {"Count": 3, "Total": 6.0, "Min": 1.0, "Max": 3.0, "Avg": 2.0}
    assert memory["Memory: gradient"]["Max"] == 2.0
    lines = profiler.dumps().splitlines()
    assert any(line.split() == ["Memory:", "cpu/0", "3", "1.0000", "3.0000", "2.0000"] for line in lines)
    assert any("Max Use  (kB)" in line for line in lines)
    profiler.set_config(profile_memory=False, profile_all=False)
    profiler.set_state("run")
    assert not observers.LISTENING[observers.MEMORY]
    profiler.set_state("stop")
    profiler.set_config(profile_memory=True)


def test_trace_on_a_signal(fresh: Path) -> None:
    number = getattr(signal, "SIGUSR1", None)
    if number is None:
        pytest.skip("this system has no SIGUSR1")
    seen: list[int] = []
    before = signal.signal(number, lambda received, frame: seen.append(received))
    try:
        profiler.dump_on_signal(number)
        profiler.set_state("run")
        with profiler.record_function("scope"):
            os.kill(os.getpid(), number)
        assert validate_trace(fresh) == []
        assert observers.LISTENING[observers.USER_SCOPE], "it goes on"
        profiler.set_state("stop")
    finally:
        signal.signal(number, before)
    assert seen == [number]
    assert "scope" in fresh.read_text()
