"""Threads: whose trace calls of machine code add to (:mod:`phonograd.core.array.fastcall.native_call`).

They know the trace of one thread, the one that was told last; its number is noted in the trace. The calls of other
threads are Python functions, and tell of theirs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["THREADS", "Leaving"]


class _Threads:
    """What is known of threads; nothing while there are no calls of machine code."""

    __slots__ = ("_make_current", "noted", "number")

    def __init__(self) -> None:
        #: returns the number of this thread, which no other one ever has
        self.number: Callable[[], int] | None = None
        #: the trace that calls add to
        self.noted: Trace | None = None
        self._make_current: Callable[[Trace | None], None] | None = None

    def use(self, number: Callable[[], int], make_current: Callable[[Trace | None], None]) -> None:
        """Set how threads are numbered, and a function that is told of the trace."""
        self.number, self._make_current = number, make_current

    def note(self, trace: Trace | None) -> None:
        """Let calls add to a trace."""
        assert self._make_current is not None
        self.noted = trace
        self._make_current(trace)


THREADS = _Threads()


class Leaving:
    """Goes when its thread does: nothing should keep the trace of a thread that is gone."""

    __slots__ = ("_thread",)

    def __init__(self, thread: int) -> None:
        self._thread = thread

    def __del__(self, threads: _Threads = THREADS, is_late: Callable[[], bool] = sys.is_finalizing) -> None:
        if threads.noted is not None and threads.noted.thread == self._thread and not is_late():
            threads.note(None)
