"""Pace: threads that work for later give way to the program.

Planning is Python, and Python code of two threads takes turns. A thread that plans while the program computes would
delay each of its operators. So a *paced* thread rests after each short piece of work (:func:`rest`), in all places
between which it works for some tenths of a millisecond: between two nodes, kernels, loops of a kernel's text, and
modules that it imports. It need not rest while the program runs a kernel, or waits for something else, which it sees
from the processor time of the program's thread. Nothing rests while a thread of the program waits for a helper for some
time. See docs/decisions/0046.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

__all__ = ["RestingImports", "is_paced", "paced", "rest", "waiting", "watch", "watched"]

#: a paced thread rests for some time after it has worked for some time: the program has the interpreter for itself
#: meanwhile, for most of its operators (``python -m benchmarks.pace`` compares such times)
WORK_SECONDS, REST_SECONDS = 0.00025, 0.0005
#: the same for a thread that has little to do, and need not be ready soon: a step of half a millisecond is delayed by
#: one short piece of work at most
SHORT_WORK_SECONDS, LONG_REST_SECONDS = 0.00015, 0.002
#: how long it works at most after a rest that was longer than wanted, because another thread had the core, or in which
#: the program did nothing
LONGEST_SECONDS = 0.002
#: the share of the time of a piece of work for which the program has run if the work has not delayed it, and the share
#: of a rest for which it has run at most if it waits for something else
RUNNING_SHARE, IDLE_SHARE = 0.9, 0.1

#: what threads wait for that go on when helpers have done something; one that forks or ends the process does, too
waiting: set[object] = set()

#: the clock of the processor time of the program's thread; None if there is none
_clock: int | None = None
#: the system's number of that thread; 0 if none is watched
_watched = 0


def watch(sees: bool = True) -> None:
    """Let paced threads give way to the calling thread; ``sees`` says whether they look at its processor time."""
    global _clock, _watched
    _watched = threading.get_native_id()
    find = getattr(time, "pthread_getcpuclockid", None) if sees else None
    _clock = None if find is None else find(threading.get_ident())


def watched() -> int:
    """Return the system's number of the thread to which paced ones give way; 0 if there is none."""
    return _watched


def _spent() -> float | None:
    """Return the processor time of the program's thread; None if it is not known, or the thread has ended."""
    try:
        return None if _clock is None else time.clock_gettime(_clock)
    except OSError:
        return None


class _Work:
    """A piece of work of a paced thread."""

    __slots__ = ("_begun", "_pace", "_seconds", "_spent", "end")

    def __init__(self, pace: tuple[float, float], seconds: float = 0.0) -> None:
        #: the shortest piece of work, and the time of a rest
        self._pace = pace
        self._seconds = seconds = max(seconds, pace[0])
        self._spent, self._begun = _spent(), time.perf_counter()
        #: when the thread may have to rest
        self.end = self._begun + seconds

    def next(self) -> _Work:
        """Return the next piece of work, after a rest if this one has delayed the program."""
        before, now, elapsed = self._spent, _spent(), time.perf_counter() - self._begun
        if before is not None and now is not None and now - before > RUNNING_SHARE * elapsed:
            return _Work(self._pace)
        begin = time.perf_counter()
        least, rest_seconds = self._pace
        time.sleep(rest_seconds)
        rested, later = time.perf_counter() - begin, _spent()
        wanted = rested * least / rest_seconds
        if now is not None and later is not None and later - now < IDLE_SHARE * rested:
            wanted = max(wanted, 2.0 * self._seconds)
        return _Work(self._pace, min(LONGEST_SECONDS, wanted))


class _Here(threading.local):
    """The work of this thread; None if it is not paced."""

    work: _Work | None = None


_here = _Here()


def rest() -> None:
    """Sleep for a moment, if this thread is paced and has delayed the program, and no thread waits for helpers."""
    work = _here.work
    if work is not None and time.perf_counter() > work.end and not waiting:
        _here.work = work.next()


def is_paced() -> bool:
    """Return whether this thread is paced."""
    return _here.work is not None


@contextlib.contextmanager
def paced(is_on: bool = True, is_gentle: bool = False) -> Iterator[None]:
    """Let this thread rest from time to time inside of a ``with`` block; more often and longer if it ``is_gentle``."""
    before = _here.work
    wanted = (SHORT_WORK_SECONDS, LONG_REST_SECONDS) if is_gentle else (WORK_SECONDS, REST_SECONDS)
    _here.work = _Work(wanted) if is_on else None
    try:
        yield
    finally:
        _here.work = before


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
