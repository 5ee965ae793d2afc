"""record_function as a with block: names, arguments, reuse, threads, futures."""

import asyncio
import concurrent.futures
import gc
import threading
import time
from typing import Any

import pytest

import phonograd as mx
from phonograd import autograd
from phonograd.core import events as observers
from phonograd.futures import Future
from phonograd.profiler import profile, record_function, validate_trace

from .scopes import summary

# -- with blocks


def test_with_block(lines: list[str]) -> None:
    with record_function("x") as scope:
        assert scope.name == "x"
        assert scope.record is not None
        assert lines == ["start x"]
    assert lines == ["start x", "end x"]
    assert scope.record is None


def test_exception_passes_and_is_noted() -> None:
    with profile() as prof, pytest.raises(ValueError, match="no"), record_function("x"):
        raise ValueError("no")
    assert prof.events()[0].error == "ValueError: no"
    assert not prof.events()[0].unfinished


def test_exit_without_enter() -> None:
    with pytest.raises(AssertionError, match="Expected record to be set"):
        record_function("x").__exit__(None, None, None)


@pytest.mark.parametrize("name", [3, None, object(), ["x"]])
def test_names_are_text(name: Any) -> None:
    for expected in (TypeError, RuntimeError):
        with pytest.raises(expected, match="type 'str'"):
            record_function(name)
        with pytest.raises(expected, match="type 'str'"):
            record_function("x", name if name is not None else 3)


@pytest.mark.parametrize("name", ["", "a\nb", 'q"uote', "é漢\U0001f600", "\ud800", "re", "Pi", "Kf", "\\", "\x00"])
def test_any_text_is_shown_as_it_is(name: str, tmp_path: Any) -> None:
    with profile() as prof, record_function(name):
        pass
    assert prof.events()[0].name == name
    assert prof.key_averages()[0].key == name
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(path)
    assert validate_trace(path) == []
    prof.table().encode()


def test_bytes_are_decoded() -> None:
    assert record_function(b"x").name == "x"  # type: ignore[arg-type]


def test_args_and_attributes_are_kept_and_can_come_late() -> None:
    with profile() as prof, record_function("x", "text", {"batch": 32}) as scope:
        scope.set(loss=0.5)
        scope.event("checkpoint", step=1)
    event, moment = prof.events()
    assert event.attributes == {"args": "text", "batch": 32, "loss": 0.5}
    assert moment.instant
    assert moment.parent is event
    assert moment.attributes == {"step": 1}


def test_entered_before_the_profiler_starts_records_nothing() -> None:
    scope = record_function("x")
    with scope:
        prof = profile().start()
    prof.stop()
    assert len(prof.events()) == 0


def test_scope_left_after_the_profiler_stopped_is_closed_and_marked() -> None:
    prof = profile().start()
    with record_function("x"):
        prof.stop()
        event = prof.events()[0]
        assert event.unfinished
        assert event.is_async
        end = event.end_ns
        time.sleep(0.001)
    assert prof.events()[0].end_ns == end


# -- reuse


def test_nested_reuse_of_one_object() -> None:
    scope = record_function("x")
    with profile() as prof, scope:
        time.sleep(0.002)
        with scope:
            time.sleep(0.001)
        time.sleep(0.001)
    outer, inner = prof.events()
    assert inner.parent is outer
    assert outer.total_ns >= inner.total_ns + 3_000_000
    assert outer.end_ns >= inner.end_ns


def test_reuse_while_observation_is_switched_off_inside() -> None:
    scope = record_function("x")
    with profile() as prof, scope:
        with observers.DisableRecordFunctionGuard(), scope:
            pass
        time.sleep(0.001)
    (event,) = prof.events()
    assert event.total_ns >= 1_000_000


def test_reuse_after_the_last_observer_left() -> None:
    ends: list[str] = []
    scope = record_function("x")
    handle = observers.add_global_callback(None, lambda fn, context: ends.append(fn.name))
    with scope:
        observers.remove_callback(handle)
        with scope:
            pass
        assert ends == []
    assert ends == ["x"]


def test_one_object_in_many_threads() -> None:
    scope = record_function("x")
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        for _ in range(200):
            with scope:
                pass

    with profile() as prof:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = prof.events()
    assert len(events) == 1600
    assert len({event.thread for event in events}) == 8
    assert not any(event.unfinished or event.is_async or event.parent for event in events)


def test_one_object_in_interleaved_tasks() -> None:
    scope = record_function("x")

    async def main() -> None:
        gates = [asyncio.Event() for _ in range(3)]

        async def job(number: int) -> None:
            with scope:
                scope.set(job=number)
                await gates[number].wait()
                scope.set(again=number)

        jobs = [asyncio.ensure_future(job(number)) for number in range(3)]
        for number in (1, 0, 2):
            await asyncio.sleep(0)
            gates[number].set()
            await jobs[number]

    with profile() as prof:
        asyncio.run(main())
    events = prof.events()
    assert [event.attributes for event in events] == [{"job": number, "again": number} for number in range(3)]
    assert events[1].end_ns <= events[0].end_ns <= events[2].end_ns
    assert all(event.parent is None for event in events)


def test_enter_and_exit_in_different_threads() -> None:
    scope = record_function("x")
    with profile() as prof:
        scope.__enter__()
        thread = threading.Thread(target=scope.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
    (event,) = prof.events()
    assert event.is_async
    assert not event.unfinished


def test_dropping_an_entered_scope_ends_it(lines: list[str]) -> None:
    scope = record_function("x")
    scope.__enter__()
    gc.disable()
    try:
        del scope
        assert lines == ["start x", "end x"]
    finally:
        gc.enable()


def test_interleaved_scopes_share_the_time() -> None:
    first, second = record_function("first"), record_function("second")
    with profile() as prof:
        first.__enter__()
        time.sleep(0.001)
        second.__enter__()
        time.sleep(0.001)
        first.__exit__(None, None, None)
        time.sleep(0.001)
        second.__exit__(None, None, None)
    events = prof.events()
    wall = max(event.end_ns for event in events) - min(event.start_ns for event in events)
    assert all(event.self_ns >= 0 for event in events)
    assert sum(event.self_ns for event in events) == wall


# -- futures


@pytest.mark.parametrize("active", [False, True])
def test_second_attach_is_refused(active: bool) -> None:
    prof = profile(enabled=active).start()
    future: Future[int] = Future()
    with record_function("x") as scope:
        assert scope.run_callbacks_on_exit
        out = scope._call_end_callbacks_on_future(future)
        assert not scope.run_callbacks_on_exit
        with pytest.raises(RuntimeError, match=r"_call_end_callbacks_on_future can only be called once\."):
            scope._call_end_callbacks_on_future(future)
    with pytest.raises(RuntimeError, match="can only be called once"):
        scope._call_end_callbacks_on_future(future)
    future.set_result(1)
    assert out.wait() == 1
    prof.stop()


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("wrong", [None, 3, object()])
def test_wrong_future_changes_nothing(active: bool, wrong: Any) -> None:
    prof = profile(enabled=active).start()
    with record_function("x") as scope:
        with pytest.raises(TypeError, match="expected a future"):
            scope._call_end_callbacks_on_future(wrong)
        assert scope.run_callbacks_on_exit
    prof.stop()
    if active:
        assert not prof.events()[0].is_async
        assert not prof.events()[0].unfinished


def test_attach_before_enter() -> None:
    with pytest.raises(AssertionError, match="Expected record to be set"):
        record_function("x")._call_end_callbacks_on_future(Future())


def test_attached_scope_ends_with_the_future_and_is_no_parent_meanwhile(lines: list[str]) -> None:
    future: Future[int] = Future()
    with profile() as prof:
        with record_function("outer"):
            with record_function("x") as scope:
                out = scope.end_on(future)
            del scope
            with record_function("sibling"):
                pass
        assert lines[-1] == "end outer"
        future.set_result(4)
        assert out.wait() == 4
        assert lines[-1] == "end x"
    assert summary(prof) == [("outer", None), ("x", "outer"), ("sibling", "outer")]
    assert prof.events()[1].is_async


def test_every_entry_can_be_attached_once() -> None:
    futures: list[Future[int]] = [Future(), Future()]
    scope = record_function("x")
    outs = []
    with profile() as prof:
        for future in futures:
            with scope:
                outs.append(scope._call_end_callbacks_on_future(future))
        with scope:
            pass
        for number, future in enumerate(futures):
            future.set_result(number)
    assert [out.wait() for out in outs] == [0, 1]
    assert not any(event.unfinished for event in prof.events())


def test_concurrent_and_asyncio_futures(lines: list[str]) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool, record_function("pool") as scope:
        assert scope._call_end_callbacks_on_future(pool.submit(lambda: 1)).result() == 1

    async def main() -> None:
        with record_function("loop") as scope:
            out = scope._call_end_callbacks_on_future(asyncio.ensure_future(asyncio.sleep(0, "slept")))
        assert await out == "slept"

    asyncio.run(main())
    assert lines == ["start pool", "end pool", "start loop", "end loop"]


def test_flags_are_those_of_the_attach() -> None:
    seen: list[tuple[bool, bool]] = []
    handle = observers.add_global_callback(
        None,
        lambda fn, context: seen.append((autograd.is_recording(), autograd.is_training())),
        scopes={observers.USER_SCOPE},
    )
    future: Future[int] = Future()
    with autograd.record(), record_function("x") as scope:
        scope._call_end_callbacks_on_future(future)
    thread = threading.Thread(target=future.set_result, args=(1,))
    thread.start()
    thread.join()
    observers.remove_callback(handle)
    assert seen == [(True, True)]


def test_arrays_inside_scopes() -> None:
    x = mx.nd.array([1.0, 2.0])
    x.attach_grad()
    with profile(scopes=[observers.USER_SCOPE]) as prof:
        with record_function("forward"), autograd.record():
            y = (x * x).sum()
        with record_function("backward"):
            y.backward()
    assert x.grad.asnumpy().tolist() == [2.0, 4.0]
    assert summary(prof) == [("forward", None), ("backward", None)]


def test_what_happened_last_is_known_whoever_listens() -> None:
    """Entering, leaving and attaching work the same however often somebody begins and ceases to listen in between."""
    for made_while_listening in (False, True):
        for used_while_listening in (False, True):
            with profile(enabled=made_while_listening):
                scope = record_function("x")
            with profile(enabled=used_while_listening) as prof:
                with pytest.raises(AssertionError, match="never entered"):
                    scope.__exit__()
                with pytest.raises(AssertionError, match="never entered"):
                    scope._call_end_callbacks_on_future(Future())
                with scope:
                    assert scope.run_callbacks_on_exit
                scope.__exit__()  # once more is harmless
                with scope:
                    scope._call_end_callbacks_on_future(Future())
                    assert not scope.run_callbacks_on_exit
                    with pytest.raises(RuntimeError, match="only be called once"):
                        scope._call_end_callbacks_on_future(Future())
                with scope:
                    assert scope.run_callbacks_on_exit
                with scope, scope:
                    pass
            if used_while_listening:
                assert len(prof.events()) == 5
