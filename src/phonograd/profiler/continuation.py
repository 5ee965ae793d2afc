"""Ending a range when a future completes, in whatever thread that happens, with the caller's state restored there.

Three kinds of futures are known: ours, those of ``concurrent.futures`` and those of asyncio. The new future is of the
same kind; it completes after the end callbacks have run, with the value, the exception or the cancellation of the
first one.
"""

from __future__ import annotations

import contextvars
import sys
import weakref
from collections.abc import Callable
from typing import Any

from ..core.events import Surroundings
from ..core.trace.flags import FLAGS, flags_set_to
from ..futures import Future

__all__ = ["Captured", "end_on", "kind_of_future"]

End = Callable[[], object]


class Captured:
    """The state of the calling thread or task: recording and training, observers, current range, context variables."""

    __slots__ = ("_context", "_flags", "_surroundings")

    def __init__(self) -> None:
        self._flags = FLAGS.get()
        self._surroundings = Surroundings()
        self._context = contextvars.copy_context()

    def run(self, function: Callable[[], Any]) -> Any:
        """Return what a function returns under the captured state; the thread's own state is back afterwards."""
        return self._context.run(self._run, function)

    def _run(self, function: Callable[[], Any]) -> Any:
        # set again, and not only found in the context: where threads inherit contexts, values belong to a thread
        with flags_set_to(self._flags), self._surroundings:
            return function()


def kind_of_future(future: Any) -> str | None:
    """Return 'phonograd', 'concurrent' or 'asyncio', or None for anything else.

    A module that was never imported has no futures, so nothing is imported here.
    """
    if isinstance(future, Future):
        return "phonograd"
    concurrent = sys.modules.get("concurrent.futures")
    if concurrent is not None and isinstance(future, concurrent.Future):
        return "concurrent"
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio.isfuture(future):
        return "asyncio"
    return None


def end_on(future: Any, end: End) -> Any:
    """Return a future like the given one, completed after ``end`` ran under the state of this call.

    What ``end`` raises becomes the exception of the new future. If the given future is done, all of that is over when
    this returns.
    """
    kind = kind_of_future(future)
    if kind == "phonograd":
        captured = Captured()

        def finish(done: Future[Any]) -> Any:
            captured.run(end)
            return done.value()

        return future.then(finish)
    if kind == "concurrent":
        return _after_concurrent(future, end)
    if kind == "asyncio":
        return _after_asyncio(future, end)
    raise TypeError(
        f"expected a future of phonograd.futures, concurrent.futures or asyncio, not {future!r}"
        + ("; make a task of it first: asyncio.ensure_future(...)" if hasattr(future, "__await__") else "")
    )


def _after_concurrent(future: Any, end: End) -> Any:
    from concurrent.futures import Future as ConcurrentFuture

    captured = Captured()
    following: ConcurrentFuture[Any] = ConcurrentFuture()
    _cancel_with(following, future)

    def completed(done: ConcurrentFuture[Any]) -> None:
        error = _ended(captured, end)
        if done.cancelled() and error is None:
            following.cancel()
            following.set_running_or_notify_cancel()
        # whoever was given the new future may have cancelled it; otherwise it can no longer be from here on
        elif following.set_running_or_notify_cancel():
            _copy(done, following, error)

    future.add_done_callback(completed)
    return following


def _after_asyncio(future: Any, end: End) -> Any:
    captured = Captured()
    following = future.get_loop().create_future()
    _cancel_with(following, future)

    def completed(done: Any) -> None:
        error = _ended(captured, end)
        if following.cancelled():
            if not done.cancelled():
                done.exception()  # has been looked at: the loop need not report it as lost
        elif done.cancelled() and error is None:
            following.cancel()
        else:
            _copy(done, following, error)

    if future.done():
        completed(future)
    else:
        future.add_done_callback(completed)
    return following


def _cancel_with(following: Any, future: Any) -> None:
    """Let cancelling the new future cancel the first one, without keeping that alive."""
    first = weakref.ref(future)

    def cancelled(done: Any) -> None:
        source = first()
        if done.cancelled() and source is not None:
            source.cancel()

    following.add_done_callback(cancelled)


def _ended(captured: Captured, end: End) -> BaseException | None:
    """Run the end and return what it raised: only a handle without a range does."""
    try:
        captured.run(end)
    except Exception as error:  # noqa: BLE001 - raised by whoever waits for the new future
        return error
    return None


def _copy(done: Any, following: Any, error: BaseException | None) -> None:
    error = error or done.exception()
    if error is not None:
        following.set_exception(error)
    else:
        following.set_result(done.result())
