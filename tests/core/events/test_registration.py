"""Adding, removing and switching observers; errors in callbacks; sampling."""

import gc
import json
import logging
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phonograd.core import events
from phonograd.core.events import LISTENING, Range, callbacks
from phonograd.profiler import profile, record_function

from .diary import Diary, in_thread, run

# -- errors


def test_exceptions_of_observers_are_logged_once_counted_and_do_not_get_out(caplog: pytest.LogCaptureFixture) -> None:
    contexts: list[Any] = []

    def fail(fn: Range) -> None:
        raise ValueError("no")

    events.add_global_callback(fail, lambda fn, context: contexts.append(context))
    diary = Diary()
    events.add_global_callback(diary.start, diary.end)
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

    events.add_global_callback(None, fail)
    diary = Diary()
    events.add_global_callback(diary.start, diary.end)
    made = run("x")
    assert made.end_ns
    assert diary.lines == ["start x", "end x"]


def test_what_an_observer_does_is_not_observed() -> None:
    diary = Diary()

    def start(fn: Range) -> None:
        diary.start(fn)
        run("inside")

    events.add_global_callback(start)
    run("x")
    assert diary.lines == ["start x"]


def test_observer_may_remove_itself() -> None:
    seen: list[str] = []

    def start(fn: Range) -> None:
        seen.append(fn.name)
        events.remove_callback(handle)

    handle = events.add_global_callback(start)
    run("x")
    run("y")
    assert seen == ["x"]


# -- registration


def test_handles_of_observers_grow_over_all_kinds() -> None:
    first = events.add_global_callback(None)
    second = events.add_thread_local_callback(None)
    third = events.add_task_local_callback(None)
    assert 0 < first < second < third


def test_unknown_handle_only_warns(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "phonograd.profiler"):
        events.remove_callback(10**9)
        events.disable_callback(10**9)
        events.reenable_callback(10**9)
    assert len(caplog.records) == 3
    assert all("Requested callback is not found" in record.getMessage() for record in caplog.records)


def test_disable_and_reenable_are_idempotent() -> None:
    seen: list[str] = []
    handle = events.add_global_callback(lambda fn: seen.append(fn.name))
    events.disable_callback(handle)
    events.disable_callback(handle)
    assert not events.has_callbacks()
    assert not any(LISTENING)
    run("hidden")
    events.reenable_callback(handle)
    events.reenable_callback(handle)
    assert events.has_callbacks()
    run("seen")
    assert seen == ["seen"]


def test_has_and_clear() -> None:
    assert not events.has_callbacks()
    events.add_global_callback(None)
    assert (events.has_global_callbacks(), events.has_thread_local_callbacks()) == (True, False)
    events.add_thread_local_callback(None)
    events.add_task_local_callback(None)
    assert events.has_thread_local_callbacks()
    assert events.has_task_local_callbacks()
    events.clear_thread_local_callbacks()
    assert (events.has_global_callbacks(), events.has_thread_local_callbacks()) == (True, False)
    events.clear_callbacks()
    assert not events.has_callbacks()


def test_thread_local_observer_sees_only_its_thread_and_is_removed_only_there() -> None:
    seen: list[str] = []
    handle = events.add_thread_local_callback(lambda fn: seen.append(fn.name))
    in_thread(lambda: run("elsewhere"))
    in_thread(lambda: events.remove_callback(handle))
    in_thread(events.clear_callbacks)
    run("here")
    assert seen == ["here"]


def test_observers_of_a_thread_go_with_it() -> None:
    in_thread(lambda: events.add_thread_local_callback(lambda fn: None))
    gc.collect()
    assert not any(LISTENING)


def test_arguments_are_checked() -> None:
    with pytest.raises(TypeError, match="callable"):
        events.add_global_callback(3)  # type: ignore[arg-type]
    for probability in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="Invalid sampling probability"):
            events.add_global_callback(None, sampling_probability=probability)
    assert not events.has_callbacks()


def test_concurrent_registration() -> None:
    def work() -> None:
        for _ in range(100):
            handle = events.add_global_callback(lambda fn: None)
            run()
            events.remove_callback(handle)

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

    events.set_sampling_seed(1)
    events.add_global_callback(start, end, sampling_probability=0.5)
    for _ in range(10_000):
        run()
    assert counts["start"] == counts["end"]
    assert abs(counts["start"] - 5_000) < 300


def test_sampling_probability_zero_never_runs_and_is_not_listened_to() -> None:
    events.add_global_callback(lambda fn: pytest.fail("was called"), sampling_probability=0.0)
    assert events.has_callbacks()
    assert not any(LISTENING)
    run()


def test_sampling_repeats_with_a_seed() -> None:
    seen: list[int] = []
    events.add_global_callback(lambda fn: seen.append(int(fn.name)), sampling_probability=0.1)
    rounds = []
    for _ in range(2):
        events.set_sampling_seed(7)
        seen.clear()
        for number in range(500):
            run(str(number))
        rounds.append(list(seen))
    assert rounds[0] == rounds[1] != []


def test_sampled_observers_are_independent_and_keep_their_order() -> None:
    events.set_sampling_seed(3)
    counts = [0, 0, 0]
    order: list[int] = []

    def counting(index: int) -> Callable[[Range], None]:
        def start(fn: Range) -> None:
            counts[index] += 1
            order.append(index)

        return start

    for index, probability in enumerate((0.5, 1.0, 0.1)):
        events.add_global_callback(counting(index), sampling_probability=probability)
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
    events.set_sampling_seed(1)
    events.add_global_callback(None, sampling_probability=0.5)
    run()
    assert random.random() == expected


# -- the number of the process


def test_number_of_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(callbacks, "_node_id", [-1])
    with profile() as prof, record_function("x"):
        pass
    assert events.default_node_id() == prof.events()[0].node_id == prof.key_averages()[0].node_id == -1
    events.set_default_node_id(3)
    assert events.default_node_id() == prof.events()[0].node_id == 3
    prof.export_chrome_trace(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["distributedInfo"] == {"rank": 3}
    with pytest.raises(ValueError, match="expects an id >= 0"):
        events.set_default_node_id(-1)
