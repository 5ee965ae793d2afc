"""Switches, and who is inside whom: parents, threads, tasks."""

import asyncio
import gc
import os
import threading
from typing import Any

import pytest

from phonograd.core import events
from phonograd.core.events import (
    DisableRecordFunctionGuard,
    ObservationContext,
    Range,
    RecordFunctionGuard,
)

from .diary import Diary, in_thread, run

# -- switches


def test_guards_nest() -> None:
    diary = Diary()
    events.add_global_callback(diary.start)
    assert events.is_record_function_enabled()
    with RecordFunctionGuard(False):
        run("hidden")
        with RecordFunctionGuard(True):
            run("seen")
        assert not events.is_record_function_enabled()
        with DisableRecordFunctionGuard():
            run("hidden")
    assert events.is_record_function_enabled()
    assert diary.lines == ["start seen"]


def test_switch_belongs_to_the_thread() -> None:
    events.enable_record_function(False)
    try:
        assert in_thread(events.is_record_function_enabled)
        assert not events.is_record_function_enabled()
    finally:
        events.enable_record_function(True)


def test_guard_restores_after_an_exception() -> None:
    with pytest.raises(KeyError), DisableRecordFunctionGuard():
        raise KeyError
    assert events.is_record_function_enabled()


# -- parents, threads, tasks


def test_parent_is_the_open_range_around() -> None:
    events.add_global_callback(None)
    outer, inner, after = Range(), Range(), Range()
    outer.before("outer")
    inner.before("inner")
    assert inner.parent is outer
    assert events.current_range() is inner
    inner.end()
    assert events.current_range() is outer
    after.before("after")
    assert after.parent is outer
    after.end()
    outer.end()
    assert events.current_range() is None


def test_interleaved_ranges() -> None:
    events.add_global_callback(None)
    first, second, third = Range(), Range(), Range()
    first.before("first")
    second.before("second")
    first.end()
    assert events.current_range() is second
    third.before("third")
    assert third.parent is second
    second.end()
    third.end()
    assert events.current_range() is None


def test_threads_have_small_numbers_and_no_parent_elsewhere() -> None:
    events.add_global_callback(None)
    outer = Range()
    outer.before("outer")

    def work() -> tuple[int, Range | None]:
        return events.current_thread_id(), run("inner").parent

    first, second = in_thread(work), in_thread(work)
    outer.end()
    assert 0 < first[0] < second[0]
    assert first[1] is None


def test_tasks_have_observers_and_parents_of_their_own() -> None:
    seen: dict[str, list[str]] = {"a": [], "b": []}
    parents: dict[str, str | None] = {}

    async def job(name: str) -> None:
        events.add_task_local_callback(lambda fn: seen[name].append(fn.name))
        with_scope = Range()
        with_scope.before(f"outer {name}")
        await asyncio.sleep(0)
        inner = run(f"inner {name}")
        parents[name] = inner.parent.name if inner.parent else None
        await asyncio.sleep(0)
        with_scope.end()

    async def main() -> None:
        await asyncio.gather(job("a"), job("b"))
        assert not events.has_callbacks()

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
        handle = events.add_task_local_callback(lambda fn: seen.append(fn.name))
        await asyncio.create_task(child())
        events.remove_callback(handle)
        await asyncio.create_task(child())

    asyncio.run(main())
    assert seen == ["child"]


def test_surroundings_are_taken_to_another_thread_and_given_back() -> None:
    seen: list[str] = []
    events.add_thread_local_callback(lambda fn: seen.append(fn.name))
    outer = Range()
    outer.before("outer")
    surroundings = ObservationContext()

    def work() -> tuple[Any, ...]:
        run("before")
        with surroundings:
            inside = run("inside")
        run("after")
        return inside.parent, events.has_callbacks(), events.current_range()

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
        with events.registry.REGISTRY.lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if not child:
        events.add_global_callback(None)
        os._exit(0 if run("child").end_ns else 1)
    release.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_generator_like_suspension() -> None:
    events.add_global_callback(None)
    outer, suspended = Range(), Range()
    outer.before("outer")
    suspended.before("suspended")
    inner = Range()
    inner.before("inner")
    suspended.suspend()
    assert events.current_range() is outer
    suspended.resume()
    assert events.current_range() is inner
    inner.end()
    suspended.leave()
    assert events.current_range() is outer
    outer.end()
    assert suspended.segments is not None
    assert len(suspended.segments) == 1
    assert suspended.segments[0].outer is outer
