"""record_function around functions, methods, generators, coroutines and asynchronous generators."""

import asyncio
import concurrent.futures
import functools
import gc
import inspect
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from phonograd.profiler import profile, record_function

from .scopes import named, summary

# -- decorators


def test_function_is_recorded_and_keeps_its_face() -> None:
    @record_function("double")
    def double(x: int) -> int:
        """Return twice x."""
        return 2 * x

    assert double.__name__ == "double"
    assert double.__doc__ == "Return twice x."
    assert double(2) == 4
    with profile() as prof:
        assert double(3) == 6
    assert summary(prof) == [("double", None)]


def test_recursion() -> None:
    @record_function("f")
    def f(depth: int) -> None:
        time.sleep(0.001)
        if depth:
            f(depth - 1)

    with profile() as prof:
        f(2)
    totals = [event.total_ns for event in prof.events()]
    assert totals[0] >= totals[1] + 1_000_000 >= totals[2] + 2_000_000
    assert summary(prof) == [("f", None), ("f", "f"), ("f", "f")]
    (average,) = prof.key_averages()
    assert average.total_ns == totals[0], "time of recursive calls is not counted twice"


def test_decorated_function_in_threads() -> None:
    @record_function("f")
    def f(seconds: float) -> None:
        time.sleep(seconds)

    with profile() as prof, concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(f, (0.01, 0.02, 0.03)))
    durations = sorted(event.total_ns / 1e6 for event in prof.events())
    assert all(found >= asked for found, asked in zip(durations, (10, 20, 30), strict=True))
    assert not any(event.is_async for event in prof.events())


def test_methods() -> None:
    class Thing:
        @record_function("method")
        def method(self) -> str:
            return "method"

        @record_function("static")
        @staticmethod
        def static() -> str:
            return "static"

        @classmethod
        @record_function("class")
        def of_class(cls) -> str:
            return cls.__name__

        @record_function("other class")
        @classmethod
        def of_class_too(cls) -> str:
            return cls.__name__

    with profile() as prof:
        thing = Thing()
        assert [thing.method(), Thing.static(), Thing.of_class(), thing.of_class_too()] == [
            "method",
            "static",
            "Thing",
            "Thing",
        ]
    assert [event.name for event in prof.events()] == ["method", "static", "class", "other class"]


def test_callables_that_are_no_functions() -> None:
    scoped = record_function("partial")(functools.partial(int, "3"))
    with profile() as prof:
        assert scoped() == 3
    assert len(prof.events()) == 1
    with pytest.raises(TypeError, match="decorates functions"):
        record_function("x")(3)  # type: ignore[type-var]


def test_exception_in_a_decorated_function() -> None:
    @record_function("f")
    def f() -> None:
        raise KeyError("k")

    with profile() as prof, pytest.raises(KeyError):
        f()
    assert prof.events()[0].error == "KeyError: 'k'"


@record_function("generator")
def count(n: int) -> Iterator[int]:
    for i in range(n):
        time.sleep(0.001)
        yield i


def test_generator_counts_its_own_time_only() -> None:
    assert inspect.isgeneratorfunction(count)
    assert list(count(2)) == [0, 1]
    with profile() as prof, record_function("loop"):
        for _ in count(3):
            with record_function("body"):
                time.sleep(0.004)
    assert summary(prof) == [("loop", None), ("generator", "loop")] + [("body", "loop")] * 3
    loop, generator = prof.events()[:2]
    bodies = named(prof, "body")
    assert generator.total_ns >= 3_000_000
    assert generator.total_ns + sum(body.total_ns for body in bodies) <= loop.total_ns
    assert generator.self_ns == generator.total_ns
    assert sum(event.self_ns for event in prof.events()) == loop.total_ns


def test_scopes_inside_a_generator_wait_with_it() -> None:
    @record_function("generator")
    def produce() -> Iterator[int]:
        with record_function("inside"):
            yield 1
            yield 2

    with profile() as prof:
        for _ in produce():
            time.sleep(0.003)
            with record_function("body"):
                pass
    assert summary(prof) == [("generator", None), ("inside", "generator"), ("body", None), ("body", None)]
    inside = named(prof, "inside")[0]
    assert inside.total_ns + 6_000_000 <= inside.end_ns - inside.start_ns


def test_generator_protocol_is_complete() -> None:
    log: list[Any] = []

    @record_function("generator")
    def talk() -> Any:
        try:
            got = yield "first"
            log.append(got)
            try:
                yield "second"
            except KeyError as error:
                log.append(error)
            yield "third"
        finally:
            log.append("closed")
        return "value"

    for active in (False, True):
        log.clear()
        prof = profile(enabled=active).start()
        generator = talk()
        assert next(generator) == "first"
        assert generator.send("sent") == "second"
        assert generator.throw(KeyError("thrown")) == "third"
        generator.close()
        assert [type(entry) for entry in log] == [str, KeyError, str]

        def outer() -> Any:
            return (yield from talk())

        generator = outer()
        next(generator), next(generator), next(generator)
        with pytest.raises(StopIteration) as stop:
            next(generator)
        assert stop.value.value == "value"
        prof.stop()
        if active:
            assert not any(event.unfinished or event.error for event in prof.events())


def test_abandoned_generator_ends() -> None:
    with profile() as prof:
        generator = count(3)
        next(generator)
        del generator
        gc.collect()
        with record_function("after"):
            pass
    assert summary(prof) == [("generator", None), ("after", None)]
    assert not prof.events()[0].unfinished


def test_generator_resumed_by_another_thread() -> None:
    with profile() as prof:
        generator = count(2)
        next(generator)
        thread = threading.Thread(target=next, args=(generator,))
        thread.start()
        thread.join()
        list(generator)
    assert len({thread for thread, slices in prof.events().slices.items() if slices}) == 2


@record_function("coroutine")
async def wait(seconds: float) -> str:
    time.sleep(0.001)
    await asyncio.sleep(seconds)
    time.sleep(0.001)
    return "waited"


def test_coroutine_counts_its_own_time_only() -> None:
    assert inspect.iscoroutinefunction(wait)
    assert asyncio.run(wait(0)) == "waited"
    with profile() as prof:
        assert asyncio.run(wait(0.02)) == "waited"
    (event,) = prof.events()
    assert event.total_ns >= 2_000_000
    assert event.total_ns + 20_000_000 <= event.end_ns - event.start_ns


def test_coroutine_exception_and_cancellation() -> None:
    @record_function("failing")
    async def fail() -> None:
        await asyncio.sleep(0)
        raise KeyError("k")

    async def main() -> None:
        with pytest.raises(KeyError):
            await fail()
        task = asyncio.ensure_future(wait(10))
        await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with profile() as prof:
        asyncio.run(main())
    assert [event.error for event in prof.events()] == ["KeyError: 'k'", "CancelledError: "]
    assert not any(event.unfinished for event in prof.events())


def test_asynchronous_generator() -> None:
    @record_function("produce")
    async def produce() -> AsyncIterator[int]:
        try:
            for i in range(3):
                await asyncio.sleep(0.001)
                yield i
        finally:
            await asyncio.sleep(0)

    assert inspect.isasyncgenfunction(produce)

    async def main() -> list[int]:
        got = []
        with record_function("loop"):
            async for i in produce():
                with record_function("body"):
                    got.append(i)
        generator: Any = produce()
        await generator.__anext__()
        with pytest.raises(KeyError):
            await generator.athrow(KeyError("k"))
        generator = produce()
        await generator.__anext__()
        await generator.aclose()
        return got

    assert asyncio.run(main()) == [0, 1, 2]
    with profile() as prof:
        assert asyncio.run(main()) == [0, 1, 2]
    assert summary(prof) == [
        ("loop", None),
        ("produce", "loop"),
        *[("body", "loop")] * 3,
        ("produce", None),
        ("produce", None),
    ]
    assert [event.error for event in named(prof, "produce")] == [None, "KeyError: 'k'", None]
    assert all(event.self_ns >= 0 for event in prof.events())


# -- asyncio


def test_sibling_tasks_are_siblings() -> None:
    async def job(number: int) -> None:
        with record_function(f"job{number}"):
            await asyncio.sleep(0.002 * number)

    async def main() -> None:
        with record_function("main"):
            await asyncio.gather(job(1), job(2))

    with profile() as prof:
        asyncio.run(main())
    assert summary(prof) == [("main", None), ("job1", "main"), ("job2", "main")]
    assert all(event.self_ns >= 0 for event in prof.events())
    assert sum(event.self_ns for event in prof.events()) == prof.events()[0].total_ns
