"""profile: life cycle, schedules, nesting, threads, bounds."""

import concurrent.futures
import gc
import os
import subprocess
import sys
import threading
import time
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd.core import events
from phonograd.core.events import Range, RecordScope
from phonograd.profiler import ProfilerAction, profile, record_function, schedule


def names(prof: profile) -> list[str]:
    return [event.name for event in prof.events()]


def scope(name: str) -> None:
    with record_function(name):
        pass


# -- schedules


def actions(steps: int, **arguments: int) -> str:
    """Return the first letter of each step's action; S for RECORD_AND_SAVE."""
    chosen = schedule(**arguments)  # type: ignore[arg-type]
    letters = {"NONE": "N", "WARMUP": "W", "RECORD": "R", "RECORD_AND_SAVE": "S"}
    return "".join(letters[chosen(step).name] for step in range(steps))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"wait": 1, "warmup": 1, "active": 2}, "NWRSNWRS"),
        ({"wait": 1, "warmup": 1, "active": 2, "repeat": 1}, "NWRSNNNN"),
        ({"wait": 0, "warmup": 0, "active": 1}, "SSSSSSSS"),
        ({"wait": 0, "warmup": 0, "active": 3}, "RRSRRSRR"),
        ({"wait": 1, "warmup": 1, "active": 1, "skip_first": 2}, "NNNWSNWS"),
        ({"wait": 2, "warmup": 1, "active": 1, "skip_first_wait": 1}, "WSNNWSNN"),
        ({"wait": 2, "warmup": 1, "active": 1, "skip_first": 1, "skip_first_wait": 1, "repeat": 1}, "NWSNNNNN"),
    ],
)
def test_schedule(arguments: dict[str, int], expected: str) -> None:
    assert actions(8, **arguments) == expected


@pytest.mark.parametrize("wrong", [{"active": 0}, {"wait": -1}, {"warmup": -1}, {"repeat": -1}, {"skip_first": -1}])
def test_wrong_schedule(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"wait=.*warmup=.*active=.*repeat=.*skip_first="):
        schedule(**{"wait": 1, "warmup": 1, "active": 1, **wrong})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must not be negative"):
        schedule(wait=1, warmup=1, active=1)(-1)


def test_steps_and_every_cycle_is_kept() -> None:
    ready: list[list[str]] = []
    with profile(
        schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=lambda prof: ready.append(names(prof))
    ) as prof:
        for step in range(8):
            scope(f"work {step}")
            prof.step()
    first = ["ProfilerStep#2", "work 2", "ProfilerStep#3", "work 3"]
    second = ["ProfilerStep#6", "work 6", "ProfilerStep#7", "work 7"]
    assert ready == [first, second]
    assert names(prof) == first + second
    assert [len(cycle) for cycle in prof.cycles] == [4, 4]
    assert prof.events()[1].parent is prof.events()[0]
    assert {average.key: average.count for average in prof.key_averages()}["ProfilerStep*"] == 4
    starts = [event.start_ns for event in prof.events()]
    assert starts == sorted(starts), "all cycles are on one clock"


def test_without_a_schedule_there_are_no_step_ranges() -> None:
    with profile() as prof:
        scope("a")
        prof.step()
        scope("b")
    assert names(prof) == ["a", "b"]


def test_stop_in_the_middle_of_a_cycle_hands_over_what_there_is() -> None:
    ready: list[int] = []
    with profile(
        schedule=schedule(wait=0, warmup=0, active=5), on_trace_ready=lambda prof: ready.append(len(prof.events()))
    ) as prof:
        scope("a")
        prof.step()
    assert ready == [3]


def test_incorrect_schedule_warns() -> None:
    chosen = [ProfilerAction.RECORD, ProfilerAction.NONE, ProfilerAction.WARMUP, ProfilerAction.NONE]
    with profile(schedule=lambda step: chosen[step]) as prof:
        with pytest.warns(UserWarning, match="Incorrect schedule: RECORD followed by NONE"):
            prof.step()
        prof.step()
        with pytest.warns(UserWarning, match="Incorrect schedule: WARMUP followed by NONE"):
            prof.step()
    with pytest.raises(ValueError, match="ProfilerAction"):
        profile(schedule=lambda step: 3).start()  # type: ignore[arg-type, return-value]


def test_scheduled_and_unscheduled_count_the_same() -> None:
    with profile() as plain:
        for _ in range(4):
            scope("a")
    with profile(schedule=schedule(wait=0, warmup=0, active=1)) as stepped:
        for _ in range(4):
            scope("a")
            stepped.step()
    counts = [{average.key: average.count for average in prof.key_averages()}["a"] for prof in (plain, stepped)]
    assert counts == [4, 4]


# -- life cycle


def test_misuse_never_crashes() -> None:
    prof = profile()
    prof.stop()
    for ask in (prof.events, prof.key_averages, prof.table, lambda: prof.cycles):
        with pytest.raises(RuntimeError, match="nothing was recorded"):
            ask()
    prof.step()
    prof.start()
    with pytest.raises(RuntimeError, match="already running"):
        prof.start()
    scope("a")
    assert str(prof) == "<unfinished phonograd.profiler.profile>"
    prof.stop()
    prof.stop()
    assert names(prof) == ["a"]
    prof.start()
    scope("b")
    prof.stop()
    assert names(prof) == ["a", "b"], "a second run is a second cycle"


def test_results_while_it_runs() -> None:
    with profile() as prof:
        scope("a")
        assert names(prof) == ["a"]
        with record_function("b"):
            assert [event.unfinished for event in prof.events()] == [False, True]


def test_disabled() -> None:
    with profile(enabled=False) as prof:
        scope("a")
        assert not any(events.LISTENING)
    assert list(prof.events()) == []
    assert prof.table() == ""


def test_exception_in_the_body_and_in_the_handler() -> None:
    prof = profile()
    with pytest.raises(KeyError), prof, record_function("a"):
        raise KeyError
    assert names(prof) == ["a"]

    def fail(prof: profile) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), profile(on_trace_ready=fail):
        pass
    assert not any(events.LISTENING)


def test_unknown_option() -> None:
    with pytest.raises(TypeError):
        profile(nothing=True)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="max_events"):
        profile(max_events=-1)


def test_pause_and_resume() -> None:
    with profile() as prof:
        scope("a")
        prof.pause()
        prof.pause()
        scope("b")
        prof.resume()
        prof.resume()
        scope("c")
    assert names(prof) == ["a", "c"]
    prof.pause()
    prof.resume()
    assert not any(events.LISTENING)


def test_clearing_callbacks_does_not_end_a_profile() -> None:
    with profile() as prof:
        events.clear_callbacks()
        scope("a")
        assert events.has_callbacks()
    assert names(prof) == ["a"]


# -- several profilers, several threads


def test_nested_profilers_are_independent() -> None:
    with profile() as outer:
        scope("a")
        with record_function("around"), profile() as middle:
            scope("b")
            with profile() as inner:
                scope("c")
            scope("d")
        scope("e")
    assert names(outer) == ["a", "around", "b", "c", "d", "e"]
    assert names(middle) == ["b", "c", "d"]
    assert names(inner) == ["c"]
    assert inner.events()[0].parent is None
    assert outer.events()[3].parent is outer.events()[1]


def test_concurrent_profilers() -> None:
    def work(number: int) -> list[str]:
        with profile(all_threads=False) as prof:
            for _ in range(50):
                scope(f"thread {number}")
        return names(prof)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    assert results == [[f"thread {number}"] * 50 for number in range(4)]


def test_start_and_stop_in_different_threads() -> None:
    prof = profile()
    thread = threading.Thread(target=prof.start)
    thread.start()
    thread.join()
    for _ in range(100):
        scope("a")
    thread = threading.Thread(target=prof.stop)
    thread.start()
    thread.join()
    assert len(prof.events()) == 100


def test_all_threads_are_seen_by_default_with_their_names() -> None:
    with profile() as prof, concurrent.futures.ThreadPoolExecutor(2, thread_name_prefix="pool") as pool:
        thread = threading.Thread(target=scope, args=("thread",), name="worker")
        thread.start()
        thread.join()
        pool.submit(scope, "pool").result()
        scope("main")
    by_name = {event.name: event.thread_name for event in prof.events()}
    assert by_name == {"thread": "worker", "pool": "pool_0", "main": threading.current_thread().name}


def test_only_this_thread_if_asked_for() -> None:
    with profile(all_threads=False) as prof:
        thread = threading.Thread(target=scope, args=("thread",))
        thread.start()
        thread.join()
        scope("main")
    assert names(prof) == ["main"]


def test_many_threads_lose_nothing() -> None:
    def work() -> None:
        for _ in range(500):
            scope("a")

    with profile() as prof:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(prof.events()) == 4000
    assert not any(event.unfinished for event in prof.events())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_while_profiling() -> None:
    with profile() as prof:
        scope("before")
        child = os.fork()
        if not child:
            scope("child")
            prof.stop()
            os._exit(0 if names(prof) == ["before", "child"] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        scope("parent")
    assert names(prof) == ["before", "parent"]


# -- what is kept


def test_bounded() -> None:
    with profile(max_events=3) as prof:
        for number in range(10):
            scope(str(number))
    assert names(prof) == ["0", "1", "2"]
    assert prof.events().dropped == 7


def test_scopes_option() -> None:
    with profile(scopes={RecordScope.FUNCTION}) as prof:
        scope("user")
        made = Range(RecordScope.FUNCTION)
        made.before("operator")
        made.end()
    assert names(prof) == ["operator"]


def test_shapes_are_described_and_nothing_is_kept_alive() -> None:
    x = mx.nd.array(np.zeros((2, 3), np.float32))
    gone = weakref.ref(x)
    with profile(record_shapes=True) as prof:
        made = Range(RecordScope.FUNCTION)
        made.before("operator", (x, 3, "text", object))
        made.end()
        with record_function("user", "argument"):
            pass
    operator, user = prof.events()
    assert operator.input_shapes == [[2, 3], [], [], []]
    assert operator.structured_input_strides[0] == [3, 1]
    assert operator.input_dtypes == ["float32", "int", "str", "str"]
    assert operator.concrete_inputs[:3] == [None, 3, "text"]
    assert user.concrete_inputs == ["argument"]
    del x
    gc.collect()
    assert gone() is None


def test_stacks_need_no_other_flag() -> None:
    with profile(with_stack=True) as prof:
        scope("a")
    stack = prof.events()[0].stack
    assert "test_session.py" in stack[0]
    assert stack[0].endswith(": scope")
    assert "test_stacks_need_no_other_flag" in stack[1]
    assert "test_session.py" in prof.key_averages(group_by_stack_n=2).table()


def test_results_do_not_change_when_asked_twice() -> None:
    with profile() as prof, record_function("a"):
        scope("b")
    before = [(event.name, event.self_ns, event.total_ns) for event in prof.events()]
    prof.key_averages().table()
    prof.key_averages()
    assert [(event.name, event.self_ns, event.total_ns) for event in prof.events()] == before


def test_profile_releases_its_ranges() -> None:
    with profile() as prof:
        scope("a")
    gone = weakref.ref(prof.events()[0].range)
    scope("nobody listens")
    del prof
    with profile():
        scope("takes its place as the last range of this thread")
    gc.collect()
    assert gone() is None


def test_first_profile_imports_nothing() -> None:
    code = (
        "import sys, phonograd as mx; mx.profiler; before = set(sys.modules)\n"
        "with mx.profiler.profile() as prof:\n"
        "    with mx.profiler.record_function('x'): pass\n"
        "print(sorted(set(sys.modules) - before), len(prof.events()), 'asyncio' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "1", "False"]


def test_no_warning_from_an_ordinary_schedule() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with profile(schedule=schedule(wait=1, warmup=0, active=1)) as prof:
            for _ in range(4):
                prof.step()
    assert len(prof.cycles) == 2


def test_tree() -> None:
    with profile() as prof, record_function("outer"):
        for _ in range(2):
            with record_function("inner"):
                time.sleep(0.001)
        scope("tiny")
    lines = prof.tree().splitlines()
    assert [line.split("ms  ")[1] for line in lines] == ["outer", "  inner x2", "  tiny"]
    assert lines[0].startswith("100.00%")
    assert "tiny" not in prof.tree(minimum_percent=50.0)


def test_metadata_is_checked_when_it_is_given() -> None:
    prof = profile()
    prof.add_metadata("note", 'a "quoted"\nline')
    prof.add_metadata("numbers", [1, 2.5, None])
    wrong: list[tuple[Any, Any]] = [("x", object()), ("x", float("nan")), (3, "x"), ("traceEvents", [])]
    for key, value in wrong:
        with pytest.raises((TypeError, ValueError)):
            prof.add_metadata(key, value)
