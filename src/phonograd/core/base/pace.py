"""Pace: threads that work for later give way to the program.

Planning is Python, and Python code of two threads takes turns. A thread that plans while the program computes would
delay each of its operators. So a *paced* thread rests after each short piece of work (:func:`rest`), in all places
between which it works for some tenths of a millisecond: between two nodes, kernels, loops of a kernel's text, and
modules that it imports. It does not rest while a thread of the program waits for a helper. See docs/decisions/0046.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

__all__ = ["RestingImports", "is_paced", "paced", "rest", "waiting"]

#: a paced thread rests for some time after it has worked for some time: the program has the interpreter for itself
#: meanwhile, for most of its operators (``python -m benchmarks.pace`` compares such times)
WORK_SECONDS, REST_SECONDS = 0.00025, 0.00075

#: what threads wait for that go on when helpers have done something; one that forks or ends the process does, too
waiting: set[object] = set()


class _Here(threading.local):
    """When this thread has rested; None if it is not paced."""

    rested: float | None = None


_here = _Here()


def rest() -> None:
    """Sleep for a moment, if this thread is paced and has worked for a while, and no thread waits for helpers."""
    rested = _here.rested
    if rested is not None and time.perf_counter() - rested > WORK_SECONDS and not waiting:
        time.sleep(REST_SECONDS)
        _here.rested = time.perf_counter()


def is_paced() -> bool:
    """Return whether this thread is paced."""
    return _here.rested is not None


@contextlib.contextmanager
def paced(is_on: bool = True) -> Iterator[None]:
    """Let this thread rest from time to time inside of a ``with`` block."""
    before = _here.rested
    _here.rested = time.perf_counter() if is_on else None
    try:
        yield
    finally:
        _here.rested = before


class RestingImports:
    """A finder of modules that finds none: a paced thread rests before each module that it imports."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Rest, and leave the module to other finders."""
        rest()

    def install(self) -> None:
        """Let imports ask this finder first."""
        finders: list[Any] = sys.meta_path
        finders.insert(0, self)

    def remove(self) -> None:
        """Let imports no longer ask it."""
        finders: list[Any] = sys.meta_path
        with contextlib.suppress(ValueError):
            # the program may have removed it
            finders.remove(self)
