"""Errors of signal handlers and of other threads, as opposed to those of the code that was running."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from phonograd.core.base.outside import is_from_outside, is_interrupting

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="signals of POSIX")


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, before)


class Handler:
    def __call__(self, number: int, frame: Any) -> None:
        raise TimeoutError("late")

    def method(self, number: int, frame: Any) -> None:
        raise ValueError("late")


def _partial(extra: int, number: int, frame: Any) -> None:
    raise OSError(5, "late")


def _decorated(function: Callable[..., None]) -> Callable[..., None]:
    def wrapper(*arguments: Any, **keywords: Any) -> None:
        function(*arguments, **keywords)

    return wrapper


@_decorated
def _wrapped(number: int, frame: Any) -> None:
    raise RuntimeError


HANDLERS: list[Callable[..., Any]] = [
    Handler(),
    Handler().method,
    functools.partial(_partial, 1),
    _wrapped,
    lambda number, frame: {}["late"],
    lambda *given: int("late"),
]


def _interrupted() -> None:
    for _ in range(10):
        signal.raise_signal(signal.SIGALRM)


@pytest.mark.parametrize("handler", HANDLERS)
def test_errors_of_handlers(handler: Callable[..., Any]) -> None:
    signal.signal(signal.SIGALRM, handler)
    with pytest.raises(Exception) as caught:
        _interrupted()
    assert is_from_outside(caught.value)


def _bare() -> None:
    raise ValueError


def _failed() -> None:
    assert not "this"


def _passed_a_frame() -> None:
    import sys

    def inner(number: int) -> None:
        raise OSError(number, "own")

    inner(sys._getframe().f_lineno)


@pytest.mark.parametrize("function", [_bare, _failed, _passed_a_frame, lambda: os.stat("/nowhere"), lambda: [][0]])
def test_errors_of_the_code_itself(function: Callable[[], Any]) -> None:
    with pytest.raises(Exception) as caught:
        function()
    assert not is_from_outside(caught.value)


@pytest.mark.parametrize("kind", [TimeoutError, OSError, RuntimeError, KeyboardInterrupt])
def test_errors_that_another_thread_raises(kind: type[BaseException]) -> None:
    found: list[bool] = []

    def target() -> None:
        try:
            while True:
                sum(range(10))
        except BaseException as error:
            found.append(is_from_outside(error))

    thread = threading.Thread(target=target)
    thread.start()
    time.sleep(0.02)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(kind))
    thread.join()
    assert found == [True]


def test_whether_a_handler_has_interrupted_a_method() -> None:
    class Subject:
        def work(self) -> None:
            signal.raise_signal(signal.SIGALRM)

    first, second, seen = Subject(), Subject(), list[bool]()

    def handler(number: int, frame: Any) -> None:
        seen.extend([is_interrupting(first), is_interrupting(second)])

    signal.signal(signal.SIGALRM, handler)
    first.work()
    assert seen == [True, False]
    assert not is_interrupting(first)
