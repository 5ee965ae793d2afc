"""Futures: the methods of torch.futures, threads, asyncio."""

import asyncio
import gc
import logging
import threading
import weakref
from typing import Any

import pytest

import phonograd as mx
from phonograd.futures import Future, collect_all, wait_all


def test_value_and_done() -> None:
    future: Future[int] = Future()
    assert not future.done()
    with pytest.raises(RuntimeError, match="not complete"):
        future.value()
    with pytest.raises(RuntimeError, match="not complete"):
        future.exception()
    future.set_result(3)
    assert (future.done(), future.value(), future.wait(), future.exception()) == (True, 3, 3, None)


def test_exception_is_raised_by_wait_and_value() -> None:
    future: Future[int] = Future()
    error = ValueError("no")
    future.set_exception(error)
    for read in (future.wait, future.value):
        with pytest.raises(ValueError, match="no") as caught:
            read()
        assert caught.value is error
    assert future.done()


def test_a_future_is_completed_once() -> None:
    future: Future[int] = Future()
    future.set_result(1)
    for complete in (lambda: future.set_result(2), lambda: future.set_exception(ValueError())):
        with pytest.raises(RuntimeError, match="can only be marked completed once"):
            complete()
    assert future.value() == 1


def test_exceptions_only() -> None:
    future: Future[int] = Future()
    with pytest.raises(TypeError, match="not an Exception"):
        future.set_exception("text")  # type: ignore[arg-type]
    assert not future.done()


def test_wait_for_another_thread_and_timeout() -> None:
    future: Future[str] = Future()
    with pytest.raises(TimeoutError):
        future.wait(timeout=0.001)
    timer = threading.Timer(0.01, future.set_result, ["late"])
    timer.start()
    assert future.wait() == "late"
    timer.join()


def test_then_gets_the_future_and_chains() -> None:
    future: Future[int] = Future()
    got: list[Any] = []

    def follow(done: Future[int]) -> int:
        got.append(done)
        return done.value() + 1

    last = future.then(follow).then(lambda done: done.value() * 10)
    future.set_result(1)
    assert got == [future]
    assert last.wait() == 20


def test_then_on_a_completed_future_runs_at_once() -> None:
    future: Future[int] = Future()
    future.set_result(1)
    assert future.then(lambda done: done.value()).done()


def test_errors_pass_through_then() -> None:
    future: Future[int] = Future()
    passed = future.then(lambda done: done.value())
    handled = future.then(lambda done: "handled" if done.exception() else "fine")
    failed = future.then(lambda done: 1 // 0)
    future.set_exception(KeyError("k"))
    with pytest.raises(KeyError):
        passed.wait()
    assert handled.wait() == "handled"
    with pytest.raises(ZeroDivisionError):
        failed.wait()


def test_callbacks_run_in_order_in_the_completing_thread_and_errors_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    future: Future[int] = Future()
    seen: list[Any] = []
    future.add_done_callback(lambda done: seen.append(threading.current_thread().name))
    future.add_done_callback(lambda done: 1 // 0)
    future.add_done_callback(lambda done: seen.append(done.value()))
    thread = threading.Thread(target=future.set_result, args=(5,), name="worker")
    with caplog.at_level(logging.ERROR, "phonograd.futures"):
        thread.start()
        thread.join()
    assert seen == ["worker", 5]
    assert len(caplog.records) == 1


def test_callbacks_must_be_callable() -> None:
    future: Future[int] = Future()
    with pytest.raises(TypeError):
        future.then(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        future.add_done_callback(None)  # type: ignore[arg-type]


def test_callback_may_add_a_callback() -> None:
    future: Future[int] = Future()
    seen: list[int] = []
    future.add_done_callback(lambda done: done.add_done_callback(lambda again: seen.append(again.value())))
    future.set_result(2)
    assert seen == [2]


def test_collect_all() -> None:
    futures: list[Future[int]] = [Future(), Future()]
    together = collect_all(futures)
    futures[1].set_result(2)
    assert not together.done()
    futures[0].set_result(1)
    assert together.wait() == futures
    assert collect_all([]).wait() == []
    assert wait_all(futures) == [1, 2]


def test_collect_all_fails_at_the_first_error() -> None:
    futures: list[Future[int]] = [Future(), Future(), Future()]
    together = collect_all(futures)
    futures[1].set_exception(ValueError("first"))
    assert together.done()
    futures[0].set_exception(ValueError("second"))
    futures[2].set_result(1)
    with pytest.raises(ValueError, match="first"):
        together.wait()
    with pytest.raises(ValueError, match="second"):
        wait_all(futures)


def test_collect_all_takes_futures_only() -> None:
    with pytest.raises(TypeError, match="3"):
        collect_all([3])  # type: ignore[list-item]


def test_collect_all_from_many_threads() -> None:
    for _ in range(50):
        futures: list[Future[int]] = [Future() for _ in range(8)]
        together = collect_all(futures)
        threads = [threading.Thread(target=future.set_result, args=(n,)) for n, future in enumerate(futures)]
        for thread in threads:
            thread.start()
        assert [future.value() for future in together.wait(timeout=10)] == list(range(8))
        for thread in threads:
            thread.join()


def test_only_one_of_many_threads_completes() -> None:
    future: Future[int] = Future()
    refused: list[int] = []
    barrier = threading.Barrier(8)

    def complete(number: int) -> None:
        barrier.wait()
        try:
            future.set_result(number)
        except RuntimeError:
            refused.append(number)

    threads = [threading.Thread(target=complete, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted([*refused, future.value()]) == list(range(8))


def test_await() -> None:
    async def main() -> None:
        future: Future[int] = Future()
        timer = threading.Timer(0.01, future.set_result, [7])
        timer.start()
        assert await future == 7
        assert await future == 7
        timer.join()
        failed: Future[int] = Future()
        failed.set_exception(KeyError("k"))
        with pytest.raises(KeyError):
            await failed

    asyncio.run(main())


def test_cancelled_await_leaves_the_future_usable() -> None:
    async def main() -> None:
        future: Future[int] = Future()

        async def wait() -> int:
            return await future

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        future.set_result(1)
        await asyncio.sleep(0)
        assert await future == 1

    asyncio.run(main())


def test_dropped_future_drops_its_callbacks() -> None:
    class Held:
        def __call__(self, done: Future[int]) -> None: ...

    held = Held()
    gone = weakref.ref(held)
    future: Future[int] = Future()
    future.add_done_callback(held)
    gc.disable()
    try:
        del held, future
        assert gone() is None
    finally:
        gc.enable()


def test_devices_and_repr() -> None:
    with pytest.raises(ValueError, match="devices"):
        Future(devices=["cuda:0"])
    future: mx.futures.Future[int] = mx.futures.Future(devices=None)
    assert "pending" in repr(future)
    future.set_result(4)
    assert "4" in repr(future)
