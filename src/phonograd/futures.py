"""Future: a value that another thread provides later, with the methods of ``torch.futures``.

>>> from phonograd.futures import Future
>>> future = Future()
>>> doubled = future.then(lambda done: 2 * done.value())
>>> future.set_result(21)
>>> doubled.wait()
42

A future is completed once, by any thread. Its callbacks run in that thread, or immediately in the caller's if it is
already complete. asyncio can await it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any, Generic, TypeVar

from .core.base.docstrings import complete_classes

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")

_logger = logging.getLogger("phonograd.futures")


class Future(Generic[T]):
    """A value that is not known yet.

    Parameters
    ----------
    devices : None
        Accepted for compatibility with PyTorch; the CPU is the only device.
    """

    __slots__ = ("__weakref__", "_callbacks", "_condition", "_done", "_error", "_value")

    def __init__(self, *, devices: Any = None) -> None:
        if devices:
            raise ValueError(f"devices are not supported: devices={devices!r}")
        self._condition = threading.Condition()
        self._callbacks: list[Callable[[Future[T]], object]] = []
        self._done = False
        self._value: T
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Return whether the future is completed, by a value or by an exception."""
        return self._done

    def wait(self, timeout: float | None = None) -> T:
        """Wait for the value and return it, or raise the exception of the future.

        Raise ``TimeoutError`` after ``timeout`` seconds, if given.
        """
        if not self._done:
            with self._condition:
                if not self._condition.wait_for(self.done, timeout):
                    raise TimeoutError(f"the future was not completed within {timeout} s")
        return self.value()

    def value(self) -> T:
        """Return the value of a completed future, or raise its exception, without waiting."""
        if not self._done:
            raise RuntimeError("the future is not complete: call wait() for its value")
        if self._error is not None:
            raise self._error
        return self._value

    def exception(self) -> BaseException | None:
        """Return the exception of a completed future, or None if it has a value, without waiting."""
        if not self._done:
            raise RuntimeError("the future is not complete: call wait() first")
        return self._error

    def set_result(self, result: T) -> None:
        """Complete the future with a value; callbacks run before this method returns."""
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Complete the future with an exception, which ``wait`` and ``value`` raise."""
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
            # the thread that completes a future is not the one that added the callback
            _logger.exception("a callback of a Future raised")

    def add_done_callback(self, callback: Callable[[Future[T]], object]) -> None:
        """Call a function with this future when it completes. Exceptions of the function are logged."""
        if not callable(callback):
            raise TypeError(f"a callback must be callable, not {callback!r}")
        with self._condition:
            if not self._done:
                self._callbacks.append(callback)
                return
        self._run(callback)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """Return a future of ``callback(self)``, called when this future completes.

        An exception of the callback becomes the exception of the new future.
        """
        if not callable(callback):
            raise TypeError(f"then() expects a callable, not {callback!r}")
        following: Future[S] = Future()

        def complete(done: Future[T]) -> None:
            try:
                value = callback(done)
            except BaseException as error:  # noqa: BLE001 - the new future raises it
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

            def on_done(_: Future[T]) -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(wake)

            self.add_done_callback(on_done)
            yield from waiter.__await__()
        return self.value()

    def __repr__(self) -> str:
        if not self._done:
            state = "pending"
        else:
            state = f"raised {self._error!r}" if self._error is not None else f"value {self._value!r}"
        return f"<{type(self).__name__} {state}>"


def collect_all(futures: Iterable[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return a future of the list of the given futures that completes when all of them have.

    If one fails, the new future fails immediately with its exception, without waiting for the others.
    """
    waited = _check_futures(futures)
    together: Future[list[Future[Any]]] = Future()
    if not waited:
        together.set_result([])
    lock = threading.Lock()
    missing = len(waited)

    def on_done(done: Future[Any]) -> None:
        nonlocal missing
        error = done.exception()
        with lock:
            # a failure sets the count of missing futures to 0, so later completions make it negative
            missing = missing - 1 if error is None or missing <= 0 else 0
            last = missing == 0
        if last and error is None:
            together.set_result(waited)
        elif last and error is not None:
            together.set_exception(error)

    for future in waited:
        future.add_done_callback(on_done)
    return together


def wait_all(futures: Iterable[Future[Any]]) -> list[Any]:
    """Wait for all futures and return their values; raise the first exception without waiting further."""
    return [future.value() for future in collect_all(futures).wait()]


def _check_futures(futures: Iterable[Future[Any]]) -> list[Future[Any]]:
    waited = list(futures)
    for future in waited:
        if not isinstance(future, Future):
            raise TypeError(f"expected futures of phonograd.futures, not {future!r}")
    return waited


complete_classes(globals())
