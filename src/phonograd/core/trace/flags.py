"""Flags: recording and training, per thread, and per task under asyncio.

Both are bits of one context variable. A new thread starts with both off, whatever the flags of the thread that started
it are. An asyncio task inherits the flags of the task that made it and changes only its own.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from typing import Protocol

__all__ = ["FLAGS", "RECORDING", "TRAINING", "flags_set_to", "is_recording", "is_training", "set_flag"]

RECORDING = 1
TRAINING = 2


class _Flags(Protocol):
    def get(self) -> int: ...

    def set(self, value: int, /) -> object: ...


class _OwnFlags:
    """Flags for interpreters whose threads inherit the context of their parent: the owner is part of the value."""

    def __init__(self) -> None:
        self._variable: contextvars.ContextVar[tuple[int, int]] = contextvars.ContextVar("flags", default=(0, 0))

    def get(self) -> int:
        owner, flags = self._variable.get()
        return flags if owner == threading.get_ident() else 0

    def set(self, value: int) -> object:
        return self._variable.set((threading.get_ident(), value))


FLAGS: _Flags
if getattr(sys.flags, "thread_inherit_context", 0):
    FLAGS = _OwnFlags()
else:
    FLAGS = contextvars.ContextVar("flags", default=0)


def is_recording() -> bool:
    """Return whether operators called by this thread are recorded for differentiation."""
    return bool(FLAGS.get() & RECORDING)


def is_training() -> bool:
    """Return whether mode-dependent operators (Dropout, BatchNorm) behave as in training."""
    return bool(FLAGS.get() & TRAINING)


def set_flag(flag: int, value: bool) -> bool:
    """Switch one flag and return its previous value."""
    flags = FLAGS.get()
    FLAGS.set(flags | flag if value else flags & ~flag)
    return bool(flags & flag)


class flags_set_to:  # noqa: N801 - a scope, used like a function
    """Set both flags inside a ``with`` block; restored however it ends.

    >>> with flags_set_to(RECORDING):
    ...     is_recording(), is_training()
    (True, False)
    """

    __slots__ = ("previous", "value")

    def __init__(self, value: int) -> None:
        self.value = value

    def __enter__(self) -> None:
        self.previous = FLAGS.get()
        FLAGS.set(self.value)

    def __exit__(self, *exception: object) -> None:
        FLAGS.set(self.previous)
