"""The life of a range: scopes, snapshots of observers, start and end, inputs, outputs and ids."""

import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from phonograd.core import events
from phonograd.core.events import LISTENING, DisableRecordFunctionGuard, Range, RecordScope

from .diary import Diary, in_thread, run

# -- scopes


def test_scope_numbers_are_pytorchs() -> None:
    assert (RecordScope.FUNCTION, RecordScope.BACKWARD_FUNCTION, RecordScope.USER_SCOPE) == (0, 1, 7)
    assert RecordScope.STATIC_RUNTIME_MODEL == 9
    assert RecordScope.KERNEL > 10


def test_only_the_scopes_asked_for_are_seen_and_listened_to() -> None:
    seen: list[str] = []
    handle = events.add_global_callback(lambda fn: seen.append(fn.name), scopes={RecordScope.FUNCTION})
    assert LISTENING[RecordScope.FUNCTION] == [handle]
    assert LISTENING[RecordScope.USER_SCOPE] == []
    run("operator", RecordScope.FUNCTION)
    run("scope", RecordScope.USER_SCOPE)
    assert seen == ["operator"]


def test_an_empty_set_of_scopes_means_every_scope() -> None:
    seen: list[int] = []
    events.add_global_callback(lambda fn: seen.append(fn.scope), scopes=set())
    for scope in RecordScope:
        run("range", scope)
    assert seen == list(RecordScope)


def test_unknown_scope_is_refused() -> None:
    with pytest.raises(ValueError):
        events.add_global_callback(None, scopes={99})


# -- the life of a range


def test_context_goes_from_start_to_end() -> None:
    contexts: list[Any] = []
    token = object()
    events.add_global_callback(lambda fn: token, lambda fn, context: contexts.append(context))
    run()
    assert contexts == [token]


def test_order_is_global_thread_task_and_ends_in_the_same_order() -> None:
    diaries = [Diary("task "), Diary("thread "), Diary("first "), Diary("second ")]
    task, thread, first, second = diaries
    lines: list[str] = []
    for diary in diaries:
        diary.lines = lines
    events.add_task_local_callback(task.start, task.end)
    events.add_thread_local_callback(thread.start, thread.end)
    events.add_global_callback(first.start, first.end)
    events.add_global_callback(second.start, second.end)
    run("x")
    labels = ["first", "second", "thread", "task"]
    assert lines == [f"{label} start x" for label in labels] + [f"{label} end x" for label in labels]


def test_inactive_range_does_nothing() -> None:
    made = run()
    assert not made.active
    assert (made.name, made.start_ns, made.end_ns) == ("", 0, 0)


def test_range_that_never_began_runs_no_end() -> None:
    diary = Diary()
    events.add_global_callback(diary.start, diary.end)
    made = Range()
    assert made.active
    made.end()
    assert diary.lines == []


def test_second_end_does_nothing() -> None:
    diary = Diary()
    events.add_global_callback(diary.start, diary.end)
    run("x").end()
    assert diary.lines == ["start x", "end x"]


def test_end_may_be_called_by_many_threads_at_once() -> None:
    ends: list[int] = []
    events.add_global_callback(None, lambda fn, context: ends.append(1))
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


@pytest.mark.parametrize("change", [events.remove_callback, events.disable_callback])
def test_what_changes_after_the_start_does_not_suppress_the_end(change: Callable[[int], None]) -> None:
    diary = Diary()
    handle = events.add_global_callback(diary.start, diary.end)
    made = Range()
    made.before("x")
    change(handle)
    made.end()
    run("later")
    assert diary.lines == ["start x", "end x"]


def test_observer_added_after_the_start_sees_no_end() -> None:
    events.add_global_callback(lambda fn: None)
    made = Range()
    made.before("x")
    diary = Diary()
    events.add_global_callback(diary.start, diary.end)
    made.end()
    assert diary.lines == []


def test_switching_off_after_the_start_does_not_suppress_the_end() -> None:
    diary = Diary()
    events.add_global_callback(diary.start, diary.end)
    made = Range()
    made.before("x")
    with DisableRecordFunctionGuard():
        made.end()
    assert diary.lines == ["start x", "end x"]


def test_end_in_another_thread() -> None:
    seen: list[tuple[int, int]] = []
    events.add_global_callback(None, lambda fn, context: seen.append((fn.thread_id, events.current_thread_id())))
    made = Range()
    made.before("x")
    in_thread(made.end)
    assert seen[0][0] == events.current_thread_id()
    assert seen[0][0] != seen[0][1]
    assert made.is_async


def test_defaults_of_a_range() -> None:
    made = Range()
    assert (made.handle, made.sequence_nr, made.forward_thread_id, made.is_async) == (0, -1, 0, False)
    assert made.debug_handle == -1


def test_sequence_number_is_passed_on() -> None:
    seen: list[int] = []
    events.add_global_callback(lambda fn: seen.append(fn.sequence_nr))
    made = Range(RecordScope.FUNCTION)
    made.before("mul", (), 7)
    made.end()
    assert seen == [7]


# -- inputs, outputs, ids


def test_inputs_are_there_on_demand_and_only_at_the_start() -> None:
    seen: list[Any] = []
    events.add_global_callback(lambda fn: seen.append(fn.inputs), needs_inputs=True)
    made = run("x", inputs=(1, 2))
    assert seen == [(1, 2)]
    with pytest.raises(RuntimeError, match="outside RecordFunction start callback"):
        _ = made.inputs


def test_inputs_are_empty_if_nobody_asked() -> None:
    seen: list[Any] = []
    events.add_global_callback(lambda fn: seen.append(fn.inputs))
    run("x", inputs=(1, 2))
    assert seen == [()]


def test_outputs_are_there_on_demand_and_only_at_the_end() -> None:
    seen: list[Any] = []
    events.add_global_callback(None, lambda fn, context: seen.append(fn.outputs), needs_outputs=True)
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

    events.add_global_callback(lambda fn: None, lambda fn, context: None, needs_inputs=True, needs_outputs=True)
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
    handle = events.add_global_callback(lambda fn: None)
    assert run().handle == 0
    events.remove_callback(handle)
    events.add_global_callback(lambda fn: None, needs_ids=True)
    first, second = run().handle, run().handle
    assert 0 < first < second


def test_needs_are_joined_over_observers_of_the_scope_sampled_out_ones_too() -> None:
    seen: list[Any] = []
    events.add_global_callback(None, needs_inputs=True, needs_ids=True, sampling_probability=0.0)
    events.add_global_callback(lambda fn: seen.append((fn.inputs, fn.handle > 0)))
    run("x", inputs=(1,))
    assert seen == [((1,), True)]
