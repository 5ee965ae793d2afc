"""Continuations: end a range when a future completes, in any thread, under the caller's captured state.

Three kinds of futures are supported: :mod:`phonograd.futures`, ``concurrent.futures`` and asyncio. The new future has
the kind of the given one. It completes after the end callbacks, with the same value, exception or cancellation.
"""

from __future__ import annotations

import contextvars
import sys
import weakref
from collections.abc import Callable
from typing import Any

from ..core.base.thread_state import adopt, thread_identity
from ..core.events import ObservationContext
from ..futures import Future

__all__ = ["Captured", "end_on", "kind_of_future"]

End = Callable[[], object]


class Captured:
    """The state of the calling thread or task: recording, training, observers, current range and context variables."""

    __slots__ = ("_context", "_observation", "_thread")

    def __init__(self) -> None:
        self._thread = thread_identity()
        self._observation = ObservationContext()
        self._context = contextvars.copy_context()

    def run(self, function: Callable[[], Any]) -> Any:
        """Call a function under the captured state, return its result, and restore the thread's own state."""
        return self._context.run(self._run, function)

    def _run(self, function: Callable[[], Any]) -> Any:
        adopt(self._thread)
        with self._observation:
            return function()


def kind_of_future(future: Any) -> str | None:
    """Return 'phonograd', 'concurrent' or 'asyncio'; None for any other object.

    It imports no module: a module that was never imported has no futures.
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
    """Return a future like the given one that completes after ``end`` ran under the state of this call.

    An exception raised by ``end`` becomes the exception of the new future. If the given future is done, the new one is
    done when this function returns.
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
        + ("; wrap it in a task first: asyncio.ensure_future(...)" if hasattr(future, "__await__") else "")
    )


def _after_concurrent(future: Any, end: End) -> Any:
    from concurrent.futures import Future as ConcurrentFuture

    captured = Captured()
    following: ConcurrentFuture[Any] = ConcurrentFuture()
    _cancel_with(following, future)

    def complete(done: ConcurrentFuture[Any]) -> None:
        error = _run_end(captured, end)
        if done.cancelled() and error is None:
            following.cancel()
            following.set_running_or_notify_cancel()
        # the holder of the new future may have cancelled it; after this call it cannot
        elif following.set_running_or_notify_cancel():
            _copy(done, following, error)

    future.add_done_callback(complete)
    return following


def _after_asyncio(future: Any, end: End) -> Any:
    captured = Captured()
    following = future.get_loop().create_future()
    _cancel_with(following, future)

    def complete(done: Any) -> None:
        error = _run_end(captured, end)
        if following.cancelled():
            if not done.cancelled():
                done.exception()  # marks the exception as retrieved, so that the loop does not report it
        elif done.cancelled() and error is None:
            following.cancel()
        else:
            _copy(done, following, error)

    if future.done():
        complete(future)
    else:
        future.add_done_callback(complete)
    return following


def _cancel_with(following: Any, future: Any) -> None:
    """Cancel the first future when the new one is cancelled, without keeping the first alive."""
    first = weakref.ref(future)

    def cancel_first(done: Any) -> None:
        source = first()
        if done.cancelled() and source is not None:
            source.cancel()

    following.add_done_callback(cancel_first)


def _run_end(captured: Captured, end: End) -> BaseException | None:
    """Run ``end`` and return its exception; only a handle without a range raises one."""
    try:
        captured.run(end)
    except Exception as error:  # noqa: BLE001 - the new future raises it
        return error
    return None


def _copy(done: Any, following: Any, error: BaseException | None) -> None:
    error = error or done.exception()
    if error is not None:
        following.set_exception(error)
    else:
        following.set_result(done.result())
