"""The core of observation: ranges, snapshots of observers, registration, sampling, switches."""

import asyncio
import gc
import logging
import os
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from phonograd import observers
from phonograd.observers import (
    LISTENING,
    DisableRecordFunctionGuard,
    Range,
    RecordFunctionGuard,
    RecordScope,
    Surroundings,
)


@pytest.fixture(autouse=True)
def nobody_listens() -> Iterator[None]:
    assert not any(LISTENING)
    yield
    observers.clear_callbacks()
    observers.set_sampling_seed(None)
    assert not any(LISTENING)


def run(name: str = "range", scope: int = RecordScope.USER_SCOPE, inputs: tuple[Any, ...] = ()) -> Range:
    """Return a range that has begun and ended."""
    made = Range(scope)
    made.before(name, inputs)
    made.end()
    return made


def in_thread(function: Callable[[], Any]) -> Any:
    """Return what a function returns in another thread."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


class Diary:
    """An observer that writes down what it sees."""

    def __init__(self, label: str = "") -> None:
        self.label = label
        self.lines: list[str] = []

    def start(self, fn: Range) -> str:
        self.lines.append(f"{self.label}start {fn.name}")
        return fn.name

    def end(self, fn: Range, context: Any) -> None:
        self.lines.append(f"{self.label}end {context}")


# -- scopes


def test_scope_numbers_are_pytorchs() -> None:
    assert (RecordScope.FUNCTION, RecordScope.BACKWARD_FUNCTION, RecordScope.USER_SCOPE) == (0, 1, 7)
    assert RecordScope.STATIC_RUNTIME_MODEL == 9
    assert RecordScope.KERNEL > 10


def test_only_the_scopes_asked_for_are_seen_and_listened_to() -> None:
    seen: list[str] = []
    handle = observers.add_global_callback(lambda fn: seen.append(fn.name), scopes={RecordScope.FUNCTION})
    assert LISTENING[RecordScope.FUNCTION] == [handle]
    assert LISTENING[RecordScope.USER_SCOPE] == []
    run("operator", RecordScope.FUNCTION)
    run("scope", RecordScope.USER_SCOPE)
    assert seen == ["operator"]


def test_an_empty_set_of_scopes_means_every_scope() -> None:
    seen: list[int] = []
    observers.add_global_callback(lambda fn: seen.append(fn.scope), scopes=set())
    for scope in RecordScope:
        run("range", scope)
    assert seen == list(RecordScope)


def test_unknown_scope_is_refused() -> None:
    with pytest.raises(ValueError):
        observers.add_global_callback(None, scopes={99})


# -- the life of a range


def test_context_goes_from_start_to_end() -> None:
    contexts: list[Any] = []
    token = object()
    observers.add_global_callback(lambda fn: token, lambda fn, context: contexts.append(context))
    run()
    assert contexts == [token]


def test_order_is_global_thread_task_and_ends_in_the_same_order() -> None:
    diaries = [Diary("task "), Diary("thread "), Diary("first "), Diary("second ")]
    task, thread, first, second = diaries
    lines: list[str] = []
    for diary in diaries:
        diary.lines = lines
    observers.add_task_local_callback(task.start, task.end)
    observers.add_thread_local_callback(thread.start, thread.end)
    observers.add_global_callback(first.start, first.end)
    observers.add_global_callback(second.start, second.end)
    run("x")
    labels = ["first", "second", "thread", "task"]
    assert lines == [f"{label} start x" for label in labels] + [f"{label} end x" for label in labels]


def test_inactive_range_does_nothing() -> None:
    made = run()
    assert not made.active
    assert (made.name, made.start_ns, made.end_ns) == ("", 0, 0)


def test_range_that_never_began_runs_no_end() -> None:
    diary = Diary()
    observers.add_global_callback(diary.start, diary.end)
    made = Range()
    assert made.active
    made.end()
    assert diary.lines == []


def test_second_end_does_nothing() -> None:
    diary = Diary()
    observers.add_global_callback(diary.start, diary.end)
    run("x").end()
    assert diary.lines == ["start x", "end x"]


def test_end_may_be_called_by_many_threads_at_once() -> None:
    ends: list[int] = []
    observers.add_global_callback(None, lambda fn, context: ends.append(1))
    for _ in range(50):
        made = Range()
        made.before("x")
        barrier = threading.Barrier(4)

        def end(made: Range = made, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            made.end()

        threads = [threading.Thread(target=end) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(ends) == 50


@pytest.mark.parametrize("change", [observers.remove_callback, observers.disable_callback])
def test_what_changes_after_the_start_does_not_suppress_the_end(change: Callable[[int], None]) -> None:
    diary = Diary()
    handle = observers.add_global_callback(diary.start, diary.end)
    made = Range()
    made.before("x")
    change(handle)
    made.end()
    run("later")
    assert diary.lines == ["start x", "end x"]


def test_observer_added_after_the_start_sees_no_end() -> None:
    observers.add_global_callback(lambda fn: None)
    made = Range()
    made.before("x")
    diary = Diary()
    observers.add_global_callback(diary.start, diary.end)
    made.end()
    assert diary.lines == []


def test_switching_off_after_the_start_does_not_suppress_the_end() -> None:
    diary = Diary()
    observers.add_global_callback(diary.start, diary.end)
    made = Range()
    made.before("x")
    with DisableRecordFunctionGuard():
        made.end()
    assert diary.lines == ["start x", "end x"]


def test_end_in_another_thread() -> None:
    seen: list[tuple[int, int]] = []
    observers.add_global_callback(None, lambda fn, context: seen.append((fn.thread_id, observers.current_thread_id())))
    made = Range()
    made.before("x")
    in_thread(made.end)
    assert seen[0][0] == observers.current_thread_id()
    assert seen[0][0] != seen[0][1]
    assert made.is_async


def test_defaults_of_a_range() -> None:
    made = Range()
    assert (made.handle, made.sequence_nr, made.forward_thread_id, made.is_async) == (0, -1, 0, False)
    assert made.debug_handle == -1


def test_sequence_number_is_passed_on() -> None:
    seen: list[int] = []
    observers.add_global_callback(lambda fn: seen.append(fn.sequence_nr))
    made = Range(RecordScope.FUNCTION)
    made.before("mul", (), 7)
    made.end()
    assert seen == [7]


# -- inputs, outputs, ids


def test_inputs_are_there_on_demand_and_only_at_the_start() -> None:
    seen: list[Any] = []
    observers.add_global_callback(lambda fn: seen.append(fn.inputs), needs_inputs=True)
    made = run("x", inputs=(1, 2))
    assert seen == [(1, 2)]
    with pytest.raises(RuntimeError, match="outside RecordFunction start callback"):
        _ = made.inputs


def test_inputs_are_empty_if_nobody_asked() -> None:
    seen: list[Any] = []
    observers.add_global_callback(lambda fn: seen.append(fn.inputs))
    run("x", inputs=(1, 2))
    assert seen == [()]


def test_outputs_are_there_on_demand_and_only_at_the_end() -> None:
    seen: list[Any] = []
    observers.add_global_callback(None, lambda fn, context: seen.append(fn.outputs), needs_outputs=True)
    made = Range()
    assert made.needs_outputs
    made.before("x")
    made.set_outputs("a", "b")
    with pytest.raises(RuntimeError, match="outside RecordFunction end callback"):
        _ = made.outputs
    made.end()
    assert seen == [("a", "b")]


def test_inputs_and_outputs_are_not_kept_alive() -> None:
    class Thing:
        pass

    observers.add_global_callback(lambda fn: None, lambda fn, context: None, needs_inputs=True, needs_outputs=True)
    thing = Thing()
    gone = weakref.ref(thing)
    made = Range()
    made.before("x", (thing,))
    made.set_outputs(thing)
    made.end()
    del thing
    assert gone() is None
    assert made.end_ns


def test_handles_are_given_if_somebody_asks() -> None:
    handle = observers.add_global_callback(lambda fn: None)
    assert run().handle == 0
    observers.remove_callback(handle)
    observers.add_global_callback(lambda fn: None, needs_ids=True)
    first, second = run().handle, run().handle
    assert 0 < first < second


def test_needs_are_joined_over_observers_of_the_scope_sampled_out_ones_too() -> None:
    seen: list[Any] = []
    observers.add_global_callback(None, needs_inputs=True, needs_ids=True, sampling_probability=0.0)
    observers.add_global_callback(lambda fn: seen.append((fn.inputs, fn.handle > 0)))
    run("x", inputs=(1,))
    assert seen == [((1,), True)]


# -- errors


def test_exceptions_of_observers_are_logged_once_counted_and_do_not_get_out(caplog: pytest.LogCaptureFixture) -> None:
    contexts: list[Any] = []

    def fail(fn: Range) -> None:
        raise ValueError("no")

    observers.add_global_callback(fail, lambda fn, context: contexts.append(context))
    diary = Diary()
    observers.add_global_callback(diary.start, diary.end)
    with caplog.at_level(logging.WARNING, "phonograd.profiler"):
        run("x")
        run("y")
    assert diary.lines == ["start x", "end x", "start y", "end y"]
    assert contexts == [None, None], "the end is called without a context"
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["Exception in RecordFunction callback: ValueError: no , for the range x"]


def test_exception_in_end_is_isolated(caplog: pytest.LogCaptureFixture) -> None:
    def fail(fn: Range, context: Any) -> None:
        raise ValueError("no")

    observers.add_global_callback(None, fail)
    diary = Diary()
    observers.add_global_callback(diary.start, diary.end)
    made = run("x")
    assert made.end_ns
    assert diary.lines == ["start x", "end x"]


def test_what_an_observer_does_is_not_observed() -> None:
    diary = Diary()

    def start(fn: Range) -> None:
        diary.start(fn)
        run("inside")

    observers.add_global_callback(start)
    run("x")
    assert diary.lines == ["start x"]


def test_observer_may_remove_itself() -> None:
    seen: list[str] = []

    def start(fn: Range) -> None:
        seen.append(fn.name)
        observers.remove_callback(handle)

    handle = observers.add_global_callback(start)
    run("x")
    run("y")
    assert seen == ["x"]


# -- registration


def test_handles_of_observers_grow_over_all_kinds() -> None:
    first = observers.add_global_callback(None)
    second = observers.add_thread_local_callback(None)
    third = observers.add_task_local_callback(None)
    assert 0 < first < second < third


def test_unknown_handle_only_warns(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "phonograd.profiler"):
        observers.remove_callback(10**9)
        observers.disable_callback(10**9)
        observers.reenable_callback(10**9)
    assert len(caplog.records) == 3
    assert all("Requested callback is not found" in record.getMessage() for record in caplog.records)


def test_disable_and_reenable_are_idempotent() -> None:
    seen: list[str] = []
    handle = observers.add_global_callback(lambda fn: seen.append(fn.name))
    observers.disable_callback(handle)
    observers.disable_callback(handle)
    assert not observers.has_callbacks()
    assert not any(LISTENING)
    run("hidden")
    observers.reenable_callback(handle)
    observers.reenable_callback(handle)
    assert observers.has_callbacks()
    run("seen")
    assert seen == ["seen"]


def test_has_and_clear() -> None:
    assert not observers.has_callbacks()
    observers.add_global_callback(None)
    assert (observers.has_global_callbacks(), observers.has_thread_local_callbacks()) == (True, False)
    observers.add_thread_local_callback(None)
    observers.add_task_local_callback(None)
    assert observers.has_thread_local_callbacks()
    assert observers.has_task_local_callbacks()
    observers.clear_thread_local_callbacks()
    assert (observers.has_global_callbacks(), observers.has_thread_local_callbacks()) == (True, False)
    observers.clear_callbacks()
    assert not observers.has_callbacks()


def test_thread_local_observer_sees_only_its_thread_and_is_removed_only_there() -> None:
    seen: list[str] = []
    handle = observers.add_thread_local_callback(lambda fn: seen.append(fn.name))
    in_thread(lambda: run("elsewhere"))
    in_thread(lambda: observers.remove_callback(handle))
    in_thread(observers.clear_callbacks)
    run("here")
    assert seen == ["here"]


def test_observers_of_a_thread_go_with_it() -> None:
    in_thread(lambda: observers.add_thread_local_callback(lambda fn: None))
    gc.collect()
    assert not any(LISTENING)


def test_arguments_are_checked() -> None:
    with pytest.raises(TypeError, match="callable"):
        observers.add_global_callback(3)  # type: ignore[arg-type]
    for probability in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="Invalid sampling probability"):
            observers.add_global_callback(None, sampling_probability=probability)
    assert not observers.has_callbacks()


def test_concurrent_registration() -> None:
    def work() -> None:
        for _ in range(100):
            handle = observers.add_global_callback(lambda fn: None)
            run()
            observers.remove_callback(handle)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(LISTENING)


# -- sampling


def test_sampling_takes_start_and_end_together() -> None:
    counts = {"start": 0, "end": 0}

    def start(fn: Range) -> None:
        counts["start"] += 1

    def end(fn: Range, context: Any) -> None:
        counts["end"] += 1

    observers.set_sampling_seed(1)
    observers.add_global_callback(start, end, sampling_probability=0.5)
    for _ in range(10_000):
        run()
    assert counts["start"] == counts["end"]
    assert abs(counts["start"] - 5_000) < 300


def test_sampling_probability_zero_never_runs_and_is_not_listened_to() -> None:
    observers.add_global_callback(lambda fn: pytest.fail("was called"), sampling_probability=0.0)
    assert observers.has_callbacks()
    assert not any(LISTENING)
    run()


def test_sampling_repeats_with_a_seed() -> None:
    seen: list[int] = []
    observers.add_global_callback(lambda fn: seen.append(int(fn.name)), sampling_probability=0.1)
    rounds = []
    for _ in range(2):
        observers.set_sampling_seed(7)
        seen.clear()
        for number in range(500):
            run(str(number))
        rounds.append(list(seen))
    assert rounds[0] == rounds[1] != []


def test_sampled_observers_are_independent_and_keep_their_order() -> None:
    observers.set_sampling_seed(3)
    counts = [0, 0, 0]
    order: list[int] = []

    def counting(index: int) -> Callable[[Range], None]:
        def start(fn: Range) -> None:
            counts[index] += 1
            order.append(index)

        return start

    for index, probability in enumerate((0.5, 1.0, 0.1)):
        observers.add_global_callback(counting(index), sampling_probability=probability)
    for _ in range(4_000):
        order.clear()
        run()
        assert order == sorted(order)
    assert counts[1] == 4_000
    assert abs(counts[0] - 2_000) < 200
    assert abs(counts[2] - 400) < 100


def test_users_random_numbers_are_left_alone() -> None:
    random.seed(5)
    expected = random.random()
    random.seed(5)
    observers.set_sampling_seed(1)
    observers.add_global_callback(None, sampling_probability=0.5)
    run()
    assert random.random() == expected


# -- switches


def test_guards_nest() -> None:
    diary = Diary()
    observers.add_global_callback(diary.start)
    assert observers.is_record_function_enabled()
    with RecordFunctionGuard(False):
        run("hidden")
        with RecordFunctionGuard(True):
            run("seen")
        assert not observers.is_record_function_enabled()
        with DisableRecordFunctionGuard():
            run("hidden")
    assert observers.is_record_function_enabled()
    assert diary.lines == ["start seen"]


def test_switch_belongs_to_the_thread() -> None:
    observers.enable_record_function(False)
    try:
        assert in_thread(observers.is_record_function_enabled)
        assert not observers.is_record_function_enabled()
    finally:
        observers.enable_record_function(True)


def test_guard_restores_after_an_exception() -> None:
    with pytest.raises(KeyError), DisableRecordFunctionGuard():
        raise KeyError
    assert observers.is_record_function_enabled()


# -- parents, threads, tasks


def test_parent_is_the_open_range_around() -> None:
    observers.add_global_callback(None)
    outer, inner, after = Range(), Range(), Range()
    outer.before("outer")
    inner.before("inner")
    assert inner.parent is outer
    assert observers.current_range() is inner
    inner.end()
    assert observers.current_range() is outer
    after.before("after")
    assert after.parent is outer
    after.end()
    outer.end()
    assert observers.current_range() is None


def test_interleaved_ranges() -> None:
    observers.add_global_callback(None)
    first, second, third = Range(), Range(), Range()
    first.before("first")
    second.before("second")
    first.end()
    assert observers.current_range() is second
    third.before("third")
    assert third.parent is second
    second.end()
    third.end()
    assert observers.current_range() is None


def test_threads_have_small_numbers_and_no_parent_elsewhere() -> None:
    observers.add_global_callback(None)
    outer = Range()
    outer.before("outer")

    def work() -> tuple[int, Range | None]:
        return observers.current_thread_id(), run("inner").parent

    first, second = in_thread(work), in_thread(work)
    outer.end()
    assert 0 < first[0] < second[0]
    assert first[1] is None


def test_tasks_have_observers_and_parents_of_their_own() -> None:
    seen: dict[str, list[str]] = {"a": [], "b": []}
    parents: dict[str, str | None] = {}

    async def job(name: str) -> None:
        observers.add_task_local_callback(lambda fn: seen[name].append(fn.name))
        with_scope = Range()
        with_scope.before(f"outer {name}")
        await asyncio.sleep(0)
        inner = run(f"inner {name}")
        parents[name] = inner.parent.name if inner.parent else None
        await asyncio.sleep(0)
        with_scope.end()

    async def main() -> None:
        await asyncio.gather(job("a"), job("b"))
        assert not observers.has_callbacks()

    asyncio.run(main())
    run("afterwards")  # the thread notices that the tasks are gone
    gc.collect()
    assert seen == {"a": ["outer a", "inner a"], "b": ["outer b", "inner b"]}
    assert parents == {"a": "outer a", "b": "outer b"}


def test_task_inherits_observers_of_its_maker() -> None:
    seen: list[str] = []

    async def child() -> None:
        run("child")

    async def main() -> None:
        handle = observers.add_task_local_callback(lambda fn: seen.append(fn.name))
        await asyncio.create_task(child())
        observers.remove_callback(handle)
        await asyncio.create_task(child())

    asyncio.run(main())
    assert seen == ["child"]


def test_surroundings_are_taken_to_another_thread_and_given_back() -> None:
    seen: list[str] = []
    observers.add_thread_local_callback(lambda fn: seen.append(fn.name))
    outer = Range()
    outer.before("outer")
    surroundings = Surroundings()

    def work() -> tuple[Any, ...]:
        run("before")
        with surroundings:
            inside = run("inside")
        run("after")
        return inside.parent, observers.has_callbacks(), observers.current_range()

    parent, left, current = in_thread(work)
    outer.end()
    assert seen == ["outer", "inside"]
    assert parent is outer
    assert (left, current) == (False, None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_while_another_thread_holds_the_lock() -> None:
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with observers.registry.REGISTRY.lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if not child:
        observers.add_global_callback(None)
        os._exit(0 if run("child").end_ns else 1)
    release.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_generator_like_suspension() -> None:
    observers.add_global_callback(None)
    outer, suspended = Range(), Range()
    outer.before("outer")
    suspended.before("suspended")
    inner = Range()
    inner.before("inner")
    suspended.suspend()
    assert observers.current_range() is outer
    suspended.resume()
    assert observers.current_range() is inner
    inner.end()
    suspended.leave()
    assert observers.current_range() is outer
    outer.end()
    assert suspended.segments is not None
    assert len(suspended.segments) == 1
    assert suspended.segments[0].outer is outer
