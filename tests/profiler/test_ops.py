"""Operators by name: schemas, overloads, and the operators behind record_function."""

import asyncio
import concurrent.futures
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, ops
from phonograd.core import events
from phonograd.futures import Future
from phonograd.ops import Overload, define

OPERATORS = ops.profiler
ENTERS = {"legacy": "_record_function_enter", "new": "_record_function_enter_new"}
both_kinds = pytest.mark.parametrize("kind", list(ENTERS))
PERMITTED = (TypeError, RuntimeError)


@pytest.fixture(autouse=True)
def nobody_listens() -> Iterator[None]:
    assert not any(events.LISTENING)
    yield
    events.clear_callbacks()
    assert not any(events.LISTENING)


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What an observer of the process writes down."""
    written: list[str] = []
    handle = events.add_global_callback(
        lambda fn: written.append(f"start {fn.name}"), lambda fn, context: written.append(f"end {fn.name}")
    )
    yield written
    events.remove_callback(handle)


def enter(kind: str, name: str = "x", args: str | None = None) -> Any:
    """Return a handle of one kind."""
    return getattr(OPERATORS, ENTERS[kind])(name, args)


# -- the registry


def test_namespace_and_overloads() -> None:
    assert mx.ops.profiler is OPERATORS
    assert dir(OPERATORS) == [
        "_call_end_callbacks_on_jit_fut",
        "_record_function_enter",
        "_record_function_enter_new",
        "_record_function_exit",
    ]
    for name in ("_record_function_exit", "_call_end_callbacks_on_jit_fut"):
        assert getattr(OPERATORS, name).overloads() == ["default", "_RecordFunction"]
    assert repr(OPERATORS._record_function_exit) == "<OpOverloadPacket(op='profiler._record_function_exit')>"
    assert OPERATORS._record_function_exit._RecordFunction.schema.startswith("profiler::_record_function_exit.")


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="did you mean '_record_function_exit'"):
        _ = OPERATORS._record_function_exi
    with pytest.raises(AttributeError, match="did you mean 'profiler'"):
        _ = ops.profile
    with pytest.raises(AttributeError, match="no overload name"):
        _ = OPERATORS._record_function_exit.nothing


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((3,), {}, "Expected a value of type 'str' for argument 'name' but instead found type 'int'"),
        ((None,), {}, "Expected a value of type 'str'"),
        ((), {}, "missing value for argument 'name'"),
        (("a", 3), {}, "for argument 'args'"),
        (("a",), {"arg": "b"}, "Unknown keyword argument 'arg'.*did you mean 'args'"),
        (("a",), {"name": "b"}, "twice"),
        (("a", "b", "c"), {}, "at most 2"),
    ],
)
@both_kinds
def test_wrong_arguments(kind: str, args: tuple[Any, ...], kwargs: dict[str, Any], text: str) -> None:
    for expected in PERMITTED:
        with pytest.raises(expected, match=text):
            getattr(OPERATORS, ENTERS[kind])(*args, **kwargs)


def test_operators_can_be_defined_and_bad_schemas_are_refused() -> None:
    @define("tests::join(str first, str? second=None) -> str")
    def join(first: str, second: str | None) -> str:
        return first + (second or "")

    assert isinstance(join, Overload)
    assert ops.tests.join("a", second="b") == "ab"
    assert ops.tests.join.default("a") == "a"
    for schema in ("nonsense", "a::b(float x) -> ()", "a::b(str x=3) -> ()"):
        with pytest.raises(ValueError):
            define(schema)(join)


# -- enter and exit


@both_kinds
def test_enter_and_exit(kind: str, lines: list[str]) -> None:
    handle = enter(kind)
    assert lines == ["start x"]
    assert OPERATORS._record_function_exit(handle) is None
    assert lines == ["start x", "end x"]
    OPERATORS._record_function_exit(handle)
    del handle
    assert lines == ["start x", "end x"], "a second exit is harmless"


@both_kinds
def test_scope_is_the_users_and_args_come_on_demand(kind: str) -> None:
    seen: list[Any] = []
    events.add_global_callback(lambda fn: seen.append((fn.scope, fn.inputs)), needs_inputs=True)
    for args in ("text", None):
        OPERATORS._record_function_exit(enter(kind, "x", args))
    assert seen == [(7, ("text",)), (7, ())]


@both_kinds
def test_args_are_ignored_unless_asked_for(kind: str) -> None:
    seen: list[Any] = []
    events.add_global_callback(lambda fn: seen.append(fn.inputs))
    OPERATORS._record_function_exit(enter(kind, "x", "text"))
    assert seen == [()]


@both_kinds
def test_dropping_the_handle_ends_the_range(kind: str, lines: list[str]) -> None:
    handle = enter(kind)
    gc.disable()
    try:
        del handle
        assert lines == ["start x", "end x"]
    finally:
        gc.enable()


@both_kinds
def test_inactive_stays_inactive(kind: str) -> None:
    handle = enter(kind)
    seen: list[str] = []
    events.add_global_callback(lambda fn: seen.append(fn.name), lambda fn, context: seen.append("end"))
    OPERATORS._record_function_exit(handle)
    assert seen == []


def test_legacy_handle_is_an_array_of_bytes_and_makes_no_range_of_its_own(lines: list[str]) -> None:
    handle = enter("legacy")
    assert isinstance(handle, mx.nd.NDArray)
    assert handle.dtype == np.uint8
    assert lines == ["start x"]
    OPERATORS._record_function_exit(handle)


def test_new_handle_shows_its_record(lines: list[str]) -> None:
    handle = enter("new")
    assert handle.record.name == "x"
    OPERATORS._record_function_exit._RecordFunction(handle)
    assert lines == ["start x", "end x"]


@pytest.mark.parametrize("handle", [mx.nd.zeros(3), None])
def test_exit_of_what_is_no_handle(handle: Any) -> None:
    with pytest.raises(RuntimeError, match="Expected temporary cpp type wrapper"):
        OPERATORS._record_function_exit(handle)


@pytest.mark.parametrize("handle", [3, "x", object()])
def test_exit_with_the_wrong_type(handle: Any) -> None:
    for expected in PERMITTED:
        with pytest.raises(
            expected, match=r"failed to match any schema(.|\n)*argument 'handle'(.|\n)*argument 'record'"
        ):
            OPERATORS._record_function_exit(handle)


# -- ending with a future


def futures() -> dict[str, Callable[[], Any]]:
    return {"phonograd": Future, "concurrent": concurrent.futures.Future}


def result(future: Any) -> Any:
    return future.wait(timeout=5) if isinstance(future, Future) else future.result(timeout=5)


every_future = pytest.mark.parametrize("library", list(futures()))


@both_kinds
@every_future
def test_value_passes_through_and_the_end_comes_first(kind: str, library: str, lines: list[str]) -> None:
    future = futures()[library]()
    handle = enter(kind)
    out = OPERATORS._call_end_callbacks_on_jit_fut(handle, future)
    assert out is not future
    assert type(out) is type(future)
    assert not out.done()
    seen: list[list[str]] = []
    out.add_done_callback(lambda done: seen.append(list(lines)))
    value = object()
    future.set_result(value)
    assert result(out) is value
    assert seen == [["start x", "end x"]]


@both_kinds
@every_future
def test_error_passes_through(kind: str, library: str, lines: list[str]) -> None:
    future = futures()[library]()
    out = OPERATORS._call_end_callbacks_on_jit_fut(enter(kind), future)
    error = KeyError("k")
    future.set_exception(error)
    with pytest.raises(KeyError) as caught:
        result(out)
    assert caught.value is error
    assert lines == ["start x", "end x"]


@both_kinds
@every_future
def test_completed_future_ends_at_once(kind: str, library: str, lines: list[str]) -> None:
    future = futures()[library]()
    future.set_result(1)
    out = OPERATORS._call_end_callbacks_on_jit_fut(enter(kind), future)
    assert out.done()
    assert lines == ["start x", "end x"]


@both_kinds
@every_future
def test_works_while_nobody_listens(kind: str, library: str) -> None:
    future = futures()[library]()
    out = OPERATORS._call_end_callbacks_on_jit_fut(enter(kind), future)
    future.set_result(2)
    assert result(out) == 2


@both_kinds
def test_the_future_keeps_the_range_alive_and_dropping_it_ends_it(kind: str, lines: list[str]) -> None:
    future: Future[int] = Future()
    handle = enter(kind)
    out = OPERATORS._call_end_callbacks_on_jit_fut(handle, future)
    gc.disable()
    try:
        del handle
        assert lines == ["start x"]
        del future
        assert lines == ["start x", "end x"]
    finally:
        gc.enable()
    assert not out.done()


@both_kinds
def test_two_ranges_on_one_future(kind: str, lines: list[str]) -> None:
    future: Future[int] = Future()
    first, second = enter(kind, "a"), enter(kind, "b")
    out = OPERATORS._call_end_callbacks_on_jit_fut(first, future)
    out = OPERATORS._call_end_callbacks_on_jit_fut(second, out)
    future.set_result(5)
    assert out.wait() == 5
    assert lines == ["start a", "start b", "end a", "end b"]


def test_undefined_handle_fails_in_the_new_future() -> None:
    future: Future[int] = Future()
    out = OPERATORS._call_end_callbacks_on_jit_fut(None, future)
    future.set_result(1)
    assert future.wait() == 1
    with pytest.raises(RuntimeError, match=r"Undefined RecordFunction handle\. This can happen if"):
        out.wait()


def test_array_that_is_no_handle_fails_in_the_new_future() -> None:
    future: Future[int] = Future()
    out = OPERATORS._call_end_callbacks_on_jit_fut(mx.nd.zeros(3), future)
    future.set_result(1)
    with pytest.raises(RuntimeError, match="Expected temporary cpp type wrapper"):
        out.wait()


@both_kinds
@pytest.mark.parametrize("future", [None, 3, object()])
def test_wrong_future_leaves_the_range_open(kind: str, future: Any, lines: list[str]) -> None:
    handle = enter(kind)
    for expected in PERMITTED:
        with pytest.raises(expected, match=r"Future\(t\)"):
            OPERATORS._call_end_callbacks_on_jit_fut(handle, future)
    assert lines == ["start x"]
    OPERATORS._record_function_exit(handle)
    assert lines == ["start x", "end x"]


@both_kinds
@every_future
def test_state_of_the_attaching_thread_is_restored_in_the_completing_one(kind: str, library: str) -> None:
    def state() -> tuple[bool, bool, bool, str | None]:
        around = events.current_range()
        return (
            autograd.is_recording(),
            autograd.is_training(),
            events.has_thread_local_callbacks(),
            around.name if around else None,
        )

    seen: list[Any] = []
    handle = events.add_thread_local_callback(
        None, lambda fn, context: seen.append(state()), scopes={events.USER_SCOPE}
    )
    future = futures()[library]()
    record = enter(kind, "attached")
    with autograd.record(train_mode=False):
        out = OPERATORS._call_end_callbacks_on_jit_fut(record, future)
    with autograd.train_mode():
        thread = threading.Thread(target=lambda: (future.set_result(1), seen.append(state())))
        thread.start()
        thread.join()
    assert result(out) == 1
    assert seen == [(True, False, True, "attached"), (False, False, False, None)]
    events.remove_callback(handle)


@both_kinds
def test_after_the_attach_the_range_is_no_parent(kind: str, lines: list[str]) -> None:
    future: Future[int] = Future()
    OPERATORS._call_end_callbacks_on_jit_fut(enter(kind), future)
    assert events.current_range() is None
    future.set_result(1)


# -- cancellation, asyncio


@both_kinds
def test_cancellation_passes_in_both_directions(kind: str, lines: list[str]) -> None:
    first: concurrent.futures.Future[int] = concurrent.futures.Future()
    out = OPERATORS._call_end_callbacks_on_jit_fut(enter(kind, "a"), first)
    first.cancel()
    assert out.cancelled()
    second: concurrent.futures.Future[int] = concurrent.futures.Future()
    out = OPERATORS._call_end_callbacks_on_jit_fut(enter(kind, "b"), second)
    assert out.cancel()
    assert second.cancelled()
    assert lines == ["start a", "end a", "start b", "end b"]


def test_thread_pool(lines: list[str]) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        out = OPERATORS._call_end_callbacks_on_jit_fut(enter("new"), pool.submit(lambda: 9))
        assert result(out) == 9
    assert lines == ["start x", "end x"]


@both_kinds
def test_asyncio(kind: str, lines: list[str]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        out = OPERATORS._call_end_callbacks_on_jit_fut(enter(kind, "value"), future)
        loop.call_later(0.001, future.set_result, 3)
        assert await out == 3
        failing: asyncio.Future[int] = loop.create_future()
        out = OPERATORS._call_end_callbacks_on_jit_fut(enter(kind, "error"), failing)
        failing.set_exception(KeyError("k"))
        with pytest.raises(KeyError):
            await out
        task = asyncio.ensure_future(asyncio.sleep(10))
        out = OPERATORS._call_end_callbacks_on_jit_fut(enter(kind, "cancelled"), task)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await out
        task = asyncio.ensure_future(asyncio.sleep(10))
        out = OPERATORS._call_end_callbacks_on_jit_fut(enter(kind, "cancelling"), task)
        await asyncio.sleep(0)
        out.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        done: asyncio.Future[int] = loop.create_future()
        done.set_result(4)
        out = OPERATORS._call_end_callbacks_on_jit_fut(enter(kind, "done"), done)
        assert out.done()
        assert lines[-1] == "end done"

    asyncio.run(main())
    names = ["value", "error", "cancelled", "cancelling", "done"]
    assert lines == [line for name in names for line in (f"start {name}", f"end {name}")]


def test_coroutine_is_refused_with_advice() -> None:
    async def work() -> None: ...

    coroutine = work()
    with mx.profiler.record_function("x") as scope, pytest.raises(TypeError, match="ensure_future"):
        scope._call_end_callbacks_on_future(coroutine)
    coroutine.close()
