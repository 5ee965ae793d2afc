"""State of a thread, and of a task under asyncio: flags, scopes and switches that a new thread must not inherit.

MXNet keeps them per thread. A context variable does the same, and asyncio gives each task a copy. But threads inherit
the context of their parent in free-threaded CPython since 3.14, and with ``-X thread_inherit_context=1``. There, a
value is stored with the thread that set it. All layers make their state with :func:`thread_state`.
"""

from __future__ import annotations

import sys
import threading
from contextvars import ContextVar
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["ThreadState", "adopt", "thread_identity", "thread_state"]

_Value = TypeVar("_Value")


class ThreadState(Protocol[_Value]):
    """A value that each thread and each task sets for itself."""

    def get(self) -> _Value: ...

    def set(self, value: _Value, /) -> object: ...


class _Thread(threading.local):
    """Identifies a thread; numbers of threads are used again after they end, and this is not."""

    def __init__(self) -> None:
        self.identity = object()


_thread = _Thread()
#: the states that know their thread: all of them, or none
_owned: list[_OwnedState[Any]] = []


class _OwnedState(Generic[_Value]):
    """A context variable that stores the thread that set it; to all others it has the default."""

    def __init__(self, name: str, default: _Value) -> None:
        self._default = default
        self._variable: ContextVar[tuple[object, _Value]] = ContextVar(name, default=(None, default))
        _owned.append(self)

    def get(self) -> _Value:
        owner, value = self._variable.get()
        return value if owner is _thread.identity else self._default

    def set(self, value: _Value) -> object:
        return self._variable.set((_thread.identity, value))

    def adopt(self, owner: object) -> None:
        """Make the value of another thread, which a copy of its context has, the value of this one."""
        found, value = self._variable.get()
        if found is owner:
            self.set(value)


def thread_state(name: str, default: _Value) -> ThreadState[_Value]:
    """Return a state that begins with a default in each thread, and with its parent's value in each task."""
    if getattr(sys.flags, "thread_inherit_context", 0):
        return _OwnedState(name, default)
    return ContextVar(name, default=default)


def thread_identity() -> object:
    """Return an object that stands for this thread, for :func:`adopt`."""
    return _thread.identity


def adopt(owner: object) -> None:
    """Make the states that a thread has set the states of this one, in a copy of the context of that thread."""
    for state in _owned:
        state.adopt(owner)
