"""Defects of other profilers (PyTorch 2.13, MXNet 1.9.1, JAX 0.10), each with a test that this one does not have it."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import phonograd as mx
from phonograd import profiler
from phonograd.core import events as observers
from phonograd.core.derive.costs import of_call
from phonograd.core.events import BACKWARD_FUNCTION, FUNCTION, MODULE, begin, note_allocation, note_release
from phonograd.core.graph.operator import REGISTRY
from phonograd.futures import Future
from phonograd.profiler import profile, record_function, validate_trace

from .programs import spin, training_step


def events_of(path: Path) -> list[dict[str, Any]]:
    assert validate_trace(path) == []
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return found


def in_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


# -- PyTorch: record_function


def test_text_of_a_scope_reaches_the_trace(tmp_path: Path) -> None:
    """PyTorch writes an empty string instead."""
    with profile(record_shapes=True) as prof, record_function("forward", "some text"):
        pass
    prof.export_chrome_trace(tmp_path / "trace.json")
    (scope,) = [event for event in events_of(tmp_path / "trace.json") if event["name"] == "forward"]
    assert scope["args"]["args"] == "some text"
    assert scope["args"]["Concrete Inputs"] == ["some text"]


def test_entering_a_scope_records_no_operator() -> None:
    """PyTorch's handle is an array, whose making is recorded inside of the scope."""
    with profile() as prof:
        handle = mx.ops.profiler._record_function_enter("x")
        mx.ops.profiler._record_function_exit(handle)
    assert [event.name for event in prof.events()] == ["x"]


def test_exception_of_a_future_is_raised() -> None:
    """PyTorch returns the exception as if it were the value."""
    future: Future[int] = Future()
    with record_function("x") as scope:
        following = scope._call_end_callbacks_on_future(future)
    future.set_exception(KeyError("k"))
    with pytest.raises(KeyError):
        following.wait()


def test_nested_reuse_and_recursion_have_their_whole_times() -> None:
    """PyTorch ends the outer range when the inner one begins."""
    scope = record_function("x")

    @record_function("f")
    def recursive(depth: int) -> None:
        spin(50)
        if depth:
            recursive(depth - 1)

    with profile() as prof:
        with scope, scope:
            spin(50)
        recursive(2)
    outer, inner, first, second, third = prof.events()
    assert outer.start_ns <= inner.start_ns <= inner.end_ns <= outer.end_ns
    assert first.total_ns > second.total_ns > third.total_ns
    assert first.total_ns >= 150_000
    assert not any(event.is_async for event in prof.events())


def test_generators_and_coroutines_are_timed_while_they_run() -> None:
    """PyTorch times only their creation."""

    @record_function("generator")
    def generator() -> Any:
        spin(100)
        yield
        spin(100)

    @record_function("coroutine")
    async def coroutine() -> None:
        spin(100)
        await asyncio.sleep(0)
        spin(100)

    with profile() as prof:
        list(generator())
        asyncio.run(coroutine())
    assert all(event.total_ns >= 200_000 for event in prof.events())


def test_sibling_tasks_are_no_parents_and_no_self_time_is_negative() -> None:
    """PyTorch makes the tasks of asyncio parents of each other, with negative self times."""

    async def job(number: int) -> None:
        with record_function(f"job{number}"):
            await asyncio.sleep(0.001 * number)

    async def main() -> None:
        with record_function("main"):
            await asyncio.gather(job(1), job(3), job(2))

    with profile() as prof:
        asyncio.run(main())
    whole, *jobs = prof.events()
    assert all(event.parent is whole for event in jobs)
    assert all(event.self_ns >= 0 for event in prof.events())
    assert sum(event.self_ns for event in prof.events()) <= whole.total_ns


@pytest.mark.parametrize("name", ["re", "Pi", "Kf", "_Z3foov", ""])
def test_names_stay_as_they_are(name: str) -> None:
    """PyTorch shows 're' as 'long double restrict'."""
    with profile() as prof, record_function(name):
        pass
    assert prof.events()[0].name == prof.key_averages()[0].key == name


@pytest.mark.parametrize("wrong", [None, 3, "future", object()])
def test_wrong_future_neither_crashes_nor_changes_anything(wrong: Any) -> None:
    """PyTorch crashes with None, and never ends the scope after any failed call."""
    with profile() as prof:
        with record_function("x") as scope:
            with pytest.raises(TypeError):
                scope._call_end_callbacks_on_future(wrong)
            assert scope.run_callbacks_on_exit
        assert prof.events()[0].range.end_ns
    with pytest.raises(TypeError):
        record_function(3)  # type: ignore[arg-type]


# -- PyTorch: profiles


def test_profilers_can_nest_and_cross_threads() -> None:
    """PyTorch empties the outer profile, and crashes with two threads; JAX allows one profile at a time."""
    with profile() as outer, profile() as inner:
        with record_function("both"):
            pass
        others: list[profile] = []

        def work() -> None:
            with profile() as own, record_function("thread"):
                pass
            others.append(own)

        in_thread(work)
    assert [event.name for event in outer.events()] == [event.name for event in inner.events()] == ["both", "thread"]
    assert [event.name for event in others[0].events()] == ["thread"]
    started = profile()
    in_thread(started.start)
    with record_function("scope"):
        pass
    in_thread(started.stop)
    assert [event.name for event in started.events()] == ["scope"]


def test_memory_is_attributed_while_all_threads_are_seen() -> None:
    """PyTorch attributes none in that mode, and otherwise to whatever other threads did at the time."""
    ready, done = threading.Event(), threading.Event()

    def work() -> None:
        ready.wait()
        with record_function("worker"):
            note_allocation(1000)
        done.set()

    with profile(profile_memory=True) as prof:
        thread = threading.Thread(target=work)
        thread.start()
        with record_function("main"):
            ready.set()
            done.wait()
        thread.join()
    assert {event.name: event.cpu_memory_usage for event in prof.events()} == {"main": 0, "worker": 1000}


def test_memory_that_comes_and_goes_shows() -> None:
    """PyTorch shows 0 for the scope and a negative number for its self memory."""
    with profile(profile_memory=True) as prof, record_function("scope"):
        with begin(FUNCTION, "operator"):
            note_allocation(8_000_000, identity=1)
        note_release(8_000_000, identity=1)
    scope, operator = prof.events()
    assert (scope.credit.allocated, scope.credit.freed, scope.credit.peak) == (8_000_000,) * 3
    assert min(size for sizes in prof.memory_timeline().sizes for size in sizes) == 0
    assert operator.credit.peak == 8_000_000


def test_every_cycle_is_kept_and_asking_changes_nothing() -> None:
    """PyTorch keeps the last cycle only, and its averages once changed the events."""
    with profile(schedule=profiler.schedule(wait=1, warmup=0, active=1)) as prof:
        for _ in range(6):
            training_step()
            prof.step()
    assert len(prof.cycles) == 3
    before = [(event.self_ns, event.total_ns) for event in prof.events()]
    assert prof.table() == prof.table()
    assert [(event.self_ns, event.total_ns) for event in prof.events()] == before


def test_quotes_in_names_and_metadata_leave_the_trace_valid(tmp_path: Path) -> None:
    """PyTorch writes metadata, and MXNet names, without escaping."""
    nasty = 'q"uote\\ \n\t\x00 \ud800 </script>'
    with profile() as prof, record_function(nasty):
        profiler.Domain(nasty).new_marker(nasty).mark()
    prof.add_metadata("key", nasty)
    with pytest.raises((TypeError, ValueError)):
        prof.add_metadata("wrong", object())
    for _ in range(2):  # PyTorch refuses the second time
        prof.export_chrome_trace(tmp_path / "trace.json")
        assert nasty in [event["name"] for event in events_of(tmp_path / "trace.json")]
    assert json.loads((tmp_path / "trace.json").read_text())["key"] == nasty


def test_stacks_need_no_other_switch_and_leave_the_trace_nested(tmp_path: Path) -> None:
    """PyTorch writes empty files without a hidden switch, and slices that cross."""
    with profile(with_stack=True) as prof:
        training_step()
    prof.export_stacks(tmp_path / "stacks.txt")
    assert "training_step" in (tmp_path / "stacks.txt").read_text()
    prof.export_chrome_trace(tmp_path / "trace.json")
    assert any("Call stack" in event.get("args", {}) for event in events_of(tmp_path / "trace.json"))
    assert "programs.py" in prof.key_averages(group_by_stack_n=3).table()


def test_children_of_the_same_name_stay() -> None:
    """PyTorch merges a child into a parent of its name."""
    with profile() as prof, record_function("x"), record_function("x"):
        pass
    assert len(prof.events()) == 2
    assert prof.events()[1].parent is prof.events()[0]


def test_asynchronous_scopes_keep_their_children_and_times() -> None:
    """PyTorch gives them none."""
    future: Future[int] = Future()
    with profile() as prof:
        with record_function("scope") as scope:
            following = scope._call_end_callbacks_on_future(future)
            with record_function("inner"):
                spin(20)
        future.set_result(1)
    assert following.wait() == 1
    outer, inner = prof.events()
    assert outer.is_async
    assert inner.parent is outer
    assert outer.total_ns >= inner.total_ns >= 20_000


def test_every_backward_pass_has_arrows(tmp_path: Path) -> None:
    """PyTorch draws them for the first pass over a retained graph only."""
    with profile() as prof:
        with begin(FUNCTION, "op", sequence_nr=1):
            pass
        for _ in range(3):
            with begin(BACKWARD_FUNCTION, "_backward_op", sequence_nr=1):
                pass
    prof.export_chrome_trace(tmp_path / "trace.json")
    assert len([event for event in events_of(tmp_path / "trace.json") if event["ph"] == "s"]) == 3


def test_every_backward_pass_over_arrays_has_arrows_and_second_derivatives_too(tmp_path: Path) -> None:
    """PyTorch forgets the link of an operator with the first pass over it."""
    x = mx.nd.ones((3, 4))
    x.attach_grad()
    with profile() as prof:
        with mx.autograd.record():
            y = (mx.nd.tanh(x) * x).sum()
        for _ in range(3):
            y.backward(retain_graph=True)
        with mx.autograd.record():
            (first,) = mx.autograd.grad((x**3).sum(), [x], create_graph=True)
            again = first.sum()
        again.backward()
        x.grad.wait_to_read()
    links = [(forward.name, backward.name) for forward, backward in prof.events().links]
    assert all(links.count((name, f"_backward_{name}")) >= 3 for name in ("tanh", "broadcast_mul", "sum"))
    assert links.count(("_integer_power", "_backward__integer_power")) >= 2
    prof.export_chrome_trace(tmp_path / "trace.json")
    flows = [event for event in events_of(tmp_path / "trace.json") if event.get("cat") == "fwdbwd"]
    assert len(flows) == 2 * len(links)


def test_a_profile_can_be_exported_again(tmp_path: Path) -> None:
    """PyTorch's second export raises that the trace is already saved."""
    with profile(record_shapes=True) as prof:
        training_step()
    for name in ("first.json", "second.json"):
        prof.export_chrome_trace(tmp_path / name)
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "second.json").read_bytes()


def test_inputs_numbers_parameters_and_errors_are_in_the_trace(tmp_path: Path) -> None:
    """PyTorch loses the text of scopes, keywords of operators and exceptions; JAX makes text of everything."""
    x = mx.nd.ones((2, 3))
    with profile(record_shapes=True) as prof:
        _ = x * 2.5
        mx.nd.sum(x, axis=1)
        with pytest.raises(KeyError), record_function("failing"):
            raise KeyError("k")
    prof.export_chrome_trace(tmp_path / "trace.json")
    found = {event["name"]: event.get("args", {}) for event in events_of(tmp_path / "trace.json") if event["ph"] == "X"}
    product = found["broadcast_mul"]
    assert (product["Input Dims"], product["Input type"]) == ([[2, 3], []], ["float32", "float"])
    assert product["Concrete Inputs"] == ["", 2.5]
    assert found["sum"]["Input Dims"] == [[2, 3]]
    assert found["sum"]["Parameters"]["axis"] == 1
    assert found["failing"]["error"] == "KeyError: 'k'"


def test_operations_are_counted_for_more_than_seven_operators() -> None:
    """PyTorch knows seven."""
    unary = [name for name, declared in REGISTRY.items() if declared.required_inputs == 1]
    counted = [name for name in unary if (of_call(name, [((4, 4), "float32")]) or (0,))[0] > 0]
    assert len(counted) > 50


def test_modules_are_seen_without_any_compiler() -> None:
    """PyTorch sees those of compiled programs only."""
    with profile(with_modules=True) as prof, begin(MODULE, "net"), begin(MODULE, "dense0"):
        pass
    assert [row["name"] for row in prof.by_module()] == ["net", "net > dense0"]


def test_unknown_columns_are_named(tmp_path: Path) -> None:
    """PyTorch raises an AttributeError."""
    with profile() as prof, record_function("x"):
        pass
    with pytest.raises(ValueError, match="the keys are"):
        prof.table(sort_by="nonsense")
    with pytest.raises(ValueError, match="metric must be one of"):
        prof.export_stacks(tmp_path / "x", "nonsense")


def test_memory_report_needs_no_other_library(tmp_path: Path) -> None:
    """PyTorch writes nothing where matplotlib is missing, and demands three other options."""
    with profile(profile_memory=True) as prof:
        note_allocation(10)
    prof.export_memory_timeline(tmp_path / "memory.json")
    prof.export_html(tmp_path / "report.html")
    assert (tmp_path / "memory.json").stat().st_size
    assert (tmp_path / "report.html").stat().st_size


def test_observers_can_be_added_from_python() -> None:
    """PyTorch has them in C++ only, and logs every exception of theirs."""
    seen: list[str] = []
    handle = profiler.add_global_callback(lambda fn: seen.append(fn.name))
    with record_function("x"):
        pass
    profiler.remove_callback(handle)
    assert seen == ["x"]
    assert not observers.has_callbacks()


# -- MXNet


@pytest.fixture
def trace(tmp_path: Path) -> Any:
    profiler.dumps(reset=True)
    profiler.set_config(filename=str(tmp_path / "profile.json"), aggregate_stats=True)
    profiler.set_state("run")
    yield tmp_path / "profile.json"
    profiler.set_state("stop")
    profiler.dumps(reset=True)
    profiler.set_config(filename="profile.json", aggregate_stats=False)


def test_dumping_twice_and_while_it_runs(trace: Path) -> None:
    """MXNet raises at the second dump, and its file is no JSON while it is written."""
    with profiler.Task(profiler.Domain("d"), 'q"uote'):
        pass
    assert json.loads(profiler.dumps(format="json"))
    for finished in (False, False, True, True):
        profiler.dump(finished)
        assert 'q"uote' in [event["name"] for event in events_of(trace)]


def test_counters_have_honest_averages_in_a_block_of_their_own(trace: Path) -> None:
    """MXNet shows half the range instead of the mean, under columns of time."""
    counter = profiler.Domain("d").new_counter("samples")
    for value in (4, 22, 40):
        counter.set_value(value)
    statistics = json.loads(profiler.dumps(format="json"))
    assert statistics["Counter"]["d"]["samples"]["Avg"] == 22
    assert "samples" not in json.dumps(statistics["Time"])


def test_numbers_and_phases_that_every_viewer_knows(trace: Path) -> None:
    """MXNet writes numbers above 2**53 and phases that do not exist; JAX writes an empty event."""
    domain = profiler.Domain("d")
    with domain.new_frame("frame"), domain.new_task("task"), profiler.Event("event"):
        domain.new_marker("marker").mark()
    profiler.dump()
    events = events_of(trace)
    assert {event["ph"] for event in events} <= set("MXiCbe")
    assert all(max(event["pid"], event["tid"]) < 2**53 for event in events)


# -- JAX


def test_unfinished_scopes_are_kept_and_arguments_keep_their_types(tmp_path: Path) -> None:
    """JAX drops what has not ended, and turns every argument into text."""
    scope = record_function("open", attributes={"number": 3, "list": [1, 2], "truth": True})
    with profile() as prof:
        scope.__enter__()
    scope.__exit__()
    prof.export_chrome_trace(tmp_path / "trace.json")
    (event,) = [event for event in events_of(tmp_path / "trace.json") if event["ph"] == "X"]
    assert event["args"] == {"number": 3, "list": [1, 2], "truth": True, "unfinished": True}
