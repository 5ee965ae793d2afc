"""Flags: recording and training, per thread, and per task under asyncio.

Both are bits of one number. A new thread starts with both off, whatever the flags of the thread that started
it are. An asyncio task inherits the flags of the task that made it and changes only its own.
"""

from __future__ import annotations

from typing import Any

from ..base.thread_state import ThreadState, thread_state

__all__ = [
    "FLAGS",
    "OPEN_SCOPES",
    "RECORDING",
    "TRAINING",
    "flags_set_to",
    "is_paused",
    "is_recording",
    "is_training",
    "set_flag",
]

RECORDING = 1
TRAINING = 2


FLAGS = thread_state("flags", 0)
#: the open scopes, newest first, as nested (scope, flags before it, outer scopes); each task has its own
OPEN_SCOPES: ThreadState[Any] = thread_state("open_scopes", None)


def is_recording() -> bool:
    """Return whether operators called by this thread are recorded for differentiation.

    Examples
    --------
    >>> with mx.autograd.record():
    ...     print(mx.autograd.is_recording())
    True
    """
    return bool(FLAGS.get() & RECORDING)


def is_paused() -> bool:
    """Return whether recording is paused inside of a scope that records."""
    scopes = None if is_recording() else OPEN_SCOPES.get()
    while scopes is not None:
        _, before, scopes = scopes
        if before & RECORDING:
            return True
    return False


def is_training() -> bool:
    """Return whether mode-dependent operators (Dropout, BatchNorm) behave as in training.

    Examples
    --------
    >>> with mx.autograd.record():
    ...     print(mx.autograd.is_training())
    True
    """
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
