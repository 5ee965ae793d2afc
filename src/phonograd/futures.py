"""Future: a value that some thread will give later, with the methods of ``torch.futures``.

>>> from phonograd.futures import Future
>>> future = Future()
>>> doubled = future.then(lambda done: 2 * done.value())
>>> future.set_result(21)
>>> doubled.wait()
42

A future is completed once, by any thread; its callbacks run in that thread, or at once in the caller's if it is
completed already. It can be awaited by asyncio.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")

_logger = logging.getLogger("phonograd.futures")


class Future(Generic[T]):
    """A value that is not known yet.

    Parameters
    ----------
    devices : None
        Accepted for PyTorch's sake; there is nothing but main memory.
    """

    __slots__ = ("__weakref__", "_callbacks", "_condition", "_done", "_error", "_value")

    def __init__(self, *, devices: Any = None) -> None:
        if devices:
            raise ValueError(f"this library has no devices to wait for: devices={devices!r}")
        self._condition = threading.Condition()
        self._callbacks: list[Callable[[Future[T]], object]] = []
        self._done = False
        self._value: T
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Return whether the future is completed, by a value or by an exception."""
        return self._done

    def wait(self, timeout: float | None = None) -> T:
        """Return the value once it is there, or raise the exception that came instead.

        With a timeout, ``TimeoutError`` after that many seconds.
        """
        if not self._done:
            with self._condition:
                if not self._condition.wait_for(self.done, timeout):
                    raise TimeoutError(f"the future was not completed within {timeout} s")
        return self.value()

    def value(self) -> T:
        """Return the value of a completed future, or raise its exception. Does not wait."""
        if not self._done:
            raise RuntimeError("the future is not completed yet: call wait() to wait for its value")
        if self._error is not None:
            raise self._error
        return self._value

    def exception(self) -> BaseException | None:
        """Return the exception of a completed future, or None if it has a value. Does not wait."""
        if not self._done:
            raise RuntimeError("the future is not completed yet: call wait() to wait for it")
        return self._error

    def set_result(self, result: T) -> None:
        """Complete the future with a value; callbacks run before this returns."""
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Complete the future with an exception, which ``wait`` and ``value`` will raise."""
        if not isinstance(result, BaseException):
            raise TypeError(f"{result!r} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def _complete(self, value: Any, error: BaseException | None) -> None:
        with self._condition:
            if self._done:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. "
                    "Note that a Future can only be marked completed once."
                )
            self._value, self._error = value, error
            self._done = True
            callbacks, self._callbacks = self._callbacks, []
            self._condition.notify_all()
        for callback in callbacks:
            self._run(callback)

    def _run(self, callback: Callable[[Future[T]], object]) -> None:
        try:
            callback(self)
        except Exception:
            # the thread that completes a future is not the one that asked for the callback
            _logger.exception("a callback of a Future raised")

    def add_done_callback(self, callback: Callable[[Future[T]], object]) -> None:
        """Have a function called with this future when it is completed. What it raises is logged."""
        if not callable(callback):
            raise TypeError(f"a callback must be callable, not {callback!r}")
        with self._condition:
            if not self._done:
                self._callbacks.append(callback)
                return
        self._run(callback)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """Return the future of what a function returns that is called with this one when it is completed.

        What the function raises becomes the exception of the new future.
        """
        if not callable(callback):
            raise TypeError(f"then() needs a callable, not {callback!r}")
        following: Future[S] = Future()

        def complete(done: Future[T]) -> None:
            try:
                value = callback(done)
            except BaseException as error:  # noqa: BLE001 - it is raised by whoever waits for the new future
                following.set_exception(error)
            else:
                following.set_result(value)

        self.add_done_callback(complete)
        return following

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            import asyncio

            loop = asyncio.get_running_loop()
            waiter = loop.create_future()

            def wake() -> None:
                if not waiter.done():
                    waiter.set_result(None)

            def completed(_: Future[T]) -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(wake)

            self.add_done_callback(completed)
            yield from waiter.__await__()
        return self.value()

    def __repr__(self) -> str:
        if not self._done:
            state = "pending"
        else:
            state = f"raised {self._error!r}" if self._error is not None else f"value {self._value!r}"
        return f"<{type(self).__name__} {state}>"


def collect_all(futures: Iterable[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return a future of the list of the given futures, completed when all of them are.

    If one of them fails, the new future raises its exception at once, without waiting for the others.
    """
    waited = _checked(futures)
    together: Future[list[Future[Any]]] = Future()
    if not waited:
        together.set_result([])
    lock = threading.Lock()
    missing = len(waited)

    def completed(done: Future[Any]) -> None:
        nonlocal missing
        error = done.exception()
        with lock:
            # a failure leaves nothing missing, so what completes after it finds a negative number
            missing = missing - 1 if error is None or missing <= 0 else 0
            last = missing == 0
        if last and error is None:
            together.set_result(waited)
        elif last and error is not None:
            together.set_exception(error)

    for future in waited:
        future.add_done_callback(completed)
    return together


def wait_all(futures: Iterable[Future[Any]]) -> list[Any]:
    """Return the values of all futures, waiting for them; raise the first exception without waiting further."""
    return [future.value() for future in collect_all(futures).wait()]


def _checked(futures: Iterable[Future[Any]]) -> list[Future[Any]]:
    waited = list(futures)
    for future in waited:
        if not isinstance(future, Future):
            raise TypeError(f"expected futures of phonograd.futures, not {future!r}")
    return waited
