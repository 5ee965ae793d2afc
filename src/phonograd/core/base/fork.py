"""Run what the library must do around a fork, in one order.

A process may be forked at any moment (``DataLoader`` does it), while other threads compute, compile or wait. The child
has only the thread that forked. A lock that another thread held is never free in the child, and the parent's other
threads do not exist there. So each module that owns a lock or threads registers handlers here::

    fork.register("random stream", after_in_child=_reseed)

:data:`ORDER` fixes when they run; the order in which modules are imported has no influence. It is the only place in the
library that calls ``os.register_at_fork``. Systems without ``fork`` call no handler.

A signal handler may run and raise in the middle of all this. Python then prints the exception and forks nevertheless,
so :func:`hold` takes a lock all the same.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

__all__ = ["ORDER", "hold", "let_go", "register", "register_lock"]

#: the participants of a fork, from those that need no other to those that use the ones before them. Before a fork,
#: handlers run from the last to the first: that of the helpers waits until no thread plans or compiles, which takes a
#: while and may need all participants before it; the locks that threads hold for a moment are taken after that. After
#: a fork, in the parent and in the child, handlers run from the first to the last: a lock is free before a handler runs
#: that takes it.
ORDER = (
    "handover of arrays",
    "memory pool",
    "start of threads",
    "compiler",
    "driver of kernels",
    "thread pool",
    "random stream",
    "observers",
    "garbage collector",
    "single calls",
    "machine code of calls",
    "hot functions",
    "planner process",
    "promotion of plans",
    "helpers",
)

Handler = Callable[[], object]


class _Handlers(NamedTuple):
    """The handlers of one participant."""

    before: Handler | None
    after_in_parent: Handler | None
    after_in_child: Handler | None


class _Forking(threading.local):
    """The participants of the fork that a thread is at."""

    #: a module that is imported by another thread in the middle of a fork does not take part in it
    handlers: tuple[_Handlers, ...] = ()
    #: locks that the thread held before: the fork takes place in a signal handler that has interrupted their holder
    owned: tuple[Any, ...] = ()


_registered: dict[str, _Handlers] = {}
_forking = _Forking()


def register(
    name: str,
    *,
    before: Handler | None = None,
    after_in_parent: Handler | None = None,
    after_in_child: Handler | None = None,
) -> None:
    """Register the handlers of a participant, once.

    Parameters
    ----------
    name
        An entry of :data:`ORDER`.
    before
        Called in the parent before the fork, by the thread that forks.
    after_in_parent, after_in_child
        Called by the same thread after the fork.
    """
    if name not in ORDER:
        raise ValueError(f"{name!r} has no place in the order of forks; these have: {', '.join(ORDER)}")
    if name in _registered:
        raise ValueError(f"{name!r} has registered its handlers already")
    _registered[name] = _Handlers(before, after_in_parent, after_in_child)


def register_lock(name: str, lock: Any) -> None:
    """Register a participant that has nothing but a reentrant lock, which no other thread holds during a fork."""
    register(
        name,
        before=lambda: hold(lock),
        after_in_parent=lambda: let_go(lock),
        after_in_child=lambda: let_go(lock),
    )


def hold(lock: Any) -> None:
    """Take a reentrant lock before a fork, even if signal handlers raise exceptions meanwhile."""
    if lock._is_owned():
        _forking.owned += (lock,)
        return
    raised: BaseException | None = None
    while not lock._is_owned():
        try:
            lock.acquire()
        except BaseException as error:  # noqa: BLE001 - raised below
            raised = error
    if raised is not None:
        raise raised


def let_go(lock: Any) -> None:
    """Release a lock that :func:`hold` has taken."""
    if lock._is_owned() and not any([lock is other for other in _forking.owned]):
        lock.release()


def _before() -> None:
    _forking.owned = ()
    _forking.handlers = tuple([_registered[name] for name in ORDER if name in _registered])
    _run([each.before for each in reversed(_forking.handlers)])


def _after_in_parent() -> None:
    _run([each.after_in_parent for each in _forking.handlers])


def _after_in_child() -> None:
    _run([each.after_in_child for each in _forking.handlers])


def _run(handlers: Iterable[Handler | None]) -> None:
    """Call handlers in order; one that raises keeps no other from being called. Python reports the error."""
    with contextlib.ExitStack() as stack:
        for handler in reversed([handler for handler in handlers if handler is not None]):
            stack.callback(handler)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
