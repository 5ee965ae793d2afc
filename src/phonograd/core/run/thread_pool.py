"""The thread team: workers that share the chunks of kernels' ranges with the thread that launches them.

A launch's range is divided into chunks whose size the launch brings along: it follows from the shape of the work, never
from the number of threads. Whoever is free takes the next chunk, so a thread that the system holds up delays no other.
The launching thread works too, and depends on workers only for chunks that they have begun: with workers asleep, gone
or few, the result is the same, later.

How chunks are taken, and how threads sleep and are woken, is described in :mod:`phonograd.core.run.thread_pool_ir`.
Locks are Python's own (``PyThread_*``): they exist on every platform and need no interpreter state. Workers are daemon
threads that sit inside one foreign call.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base import settings
from . import kernel_cache
from .background import start
from .thread_pool_ir import (
    ACQUIRE,
    FIRST_WORKER,
    GAP,
    LEAST_PENALTY,
    LOCK,
    MOST_PENALTY,
    OWNER_LOCK,
    PARALLEL,
    PATIENCE,
    RELEASE,
    SLOW,
    SPINS,
    SUMMON,
    WORKER_WORDS,
    WORKERS,
    team_text,
)

__all__ = ["CELL", "ThreadPool", "expect", "renew"]

#: how long a worker looks for work before it sleeps. Waking it takes 20 to 60 us, and the Python between two plans of a
#: small training loop some hundred
SPIN_SECONDS = 500e-6
#: how long a region takes for which sleeping workers are woken, even if it has few chunks
SLOW_SECONDS = 60e-6
#: how long a launching thread looks for the end, beyond twice its own time for a chunk, before it sleeps: the worker
#: that it waits for may need its processor
PATIENCE_SECONDS = 50e-6
#: how long a thread is held up before it concludes that others need the processors: systems interrupt threads for some
#: microseconds, and let them wait for others for at least a millisecond
GAP_SECONDS = 300e-6
#: for how long everybody works alone after a worker was held up, at least and at most: where that happens all the time,
#: a few hundredths are lost
PENALTY_SECONDS = 1e-3, 500e-3


class _Code:
    """The compiled functions of a team, and how long a pause is on this machine."""

    def __init__(self) -> None:
        # threads wait in this code, or take chunks of some thousand times its length
        kernel = kernel_cache.compile_module(team_text, (platform.machine(),), "team_functions", quick=True)
        # a worker may still run this code when the interpreter takes everything down
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kernel))
        addresses = (ctypes.c_int64 * 6)()
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(ctypes.addressof(addresses))
        self.parallel, self.summon, dismiss, worker, spin, clock = addresses
        self.dismiss = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(dismiss)
        self.worker = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(worker)
        self._turn_seconds, self._ticks_per_second = _rates(
            ctypes.CFUNCTYPE(None, ctypes.c_int64)(spin), ctypes.CFUNCTYPE(ctypes.c_int64)(clock)
        )

    def turns(self, seconds: float) -> int:
        """Return how many turns of waiting take some time."""
        return max(1, int(seconds / self._turn_seconds))

    def ticks(self, seconds: float) -> int:
        """Return by how much the processor's clock advances in some time; 0 if it has none."""
        return int(seconds * self._ticks_per_second)


def _rates(spin: Callable[[int], None], clock: Callable[[], int]) -> tuple[float, float]:
    """Return how long a turn of waiting takes, and how often the processor's clock ticks in a second."""
    turns, times = 1000, []
    begin, first = time.perf_counter(), clock()
    for _ in range(5):
        start = time.perf_counter()
        spin(turns)
        times.append(time.perf_counter() - start)
    ticks = clock() - first
    return min(times) / turns, ticks / (time.perf_counter() - begin)


class ThreadPool:
    """Some workers and the memory they share with the threads that launch kernels.

    Parameters
    ----------
    workers
        How many threads to start; the launching thread is not counted.
    """

    def __init__(self, workers: int) -> None:
        self._code = code = _compiled()
        words = np.zeros(FIRST_WORKER + WORKER_WORDS * workers + WORKER_WORDS, np.int64)
        aligned = words[-(words.ctypes.data // 8) % WORKER_WORDS :]
        #: where the team's memory begins; it is never returned, because a launch may still be looking at it
        self.address: int = aligned.ctypes.data
        self.memory = aligned
        _memories.append(words)
        aligned[PARALLEL], aligned[SUMMON] = code.parallel, code.summon
        aligned[SPINS], aligned[PATIENCE] = code.turns(SPIN_SECONDS), code.ticks(PATIENCE_SECONDS)
        aligned[GAP], aligned[SLOW] = code.ticks(GAP_SECONDS), code.ticks(SLOW_SECONDS)
        aligned[LEAST_PENALTY], aligned[MOST_PENALTY] = [code.ticks(seconds) for seconds in PENALTY_SECONDS]
        aligned[ACQUIRE], aligned[RELEASE] = _function("PyThread_acquire_lock"), _function("PyThread_release_lock")
        aligned[OWNER_LOCK] = _held_lock()
        self._threads: list[threading.Thread] = []
        for index in range(workers):
            aligned[FIRST_WORKER + WORKER_WORDS * index + LOCK] = _held_lock()
            name = f"phonograd worker {index + 1}"
            thread = threading.Thread(target=code.worker, args=(self.address, index), name=name, daemon=True)
            try:
                start(thread)
            except RuntimeError:
                # the system allows no more threads, or the interpreter is about to end
                break
            self._threads.append(thread)
            aligned[WORKERS] = index + 1

    @property
    def size(self) -> int:
        """How many threads work on a launch, the launching one included."""
        return 1 + len(self._threads)

    def dismiss(self, timeout: float = 0.0) -> None:
        """Have the workers end after the chunks that they are at, and wait for that for some seconds at most."""
        self._code.dismiss(self.address)
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _function(name: str) -> int:
    """Return the address of a function of Python's."""
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert address is not None
    return address


def _held_lock() -> int:
    """Return a lock that waits for a release by another thread; like the memory of a team, it is never returned."""
    allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p)(_function("PyThread_allocate_lock"))
    acquire = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(_function("PyThread_acquire_lock"))
    lock: int | None = allocate()
    if lock is None or acquire(lock, 1) != 1:
        raise MemoryError("a lock for a worker thread could not be made")
    return lock


# -- the team of this process

#: the address of the team's memory for native code; 0 while there is none, and every thread works alone
CELL = np.zeros(1, np.int64)

#: whether :func:`renew` has something to do: nothing has been started yet, this process was forked, or the setting
#: has changed
stale = True

_team: ThreadPool | None = None
_code: _Code | None = None
_memories: list[Any] = []
_lock = threading.Lock()


def _compiled() -> _Code:
    global _code
    if _code is None:
        _code = _Code()
    return _code


def expect() -> None:
    """Have the functions of a team compiled by another thread, where there will be one."""
    if _code is None and settings.current().num_threads > 1:
        kernel_cache.expect_module(team_text, (platform.machine(),))


def renew() -> ThreadPool | None:
    """Return the team that the settings ask for, starting it if need be; None where one thread is to do everything."""
    global _team, stale
    with _lock:
        if stale:
            stale = False
            workers = settings.current().num_threads - 1
            if _team is not None:
                CELL[0] = 0
                _team.dismiss()
                _team = None
            if workers > 0:
                _team = ThreadPool(workers)
                CELL[0] = _team.address
        return _team


def _mark_stale() -> None:
    global stale
    wanted = max(1, settings.current().num_threads)
    if (1 if _team is None else _team.size) != wanted:
        stale = True


def _after_fork() -> None:
    """Forget the team of the parent process: a child has none of its threads."""
    global _team, _lock, stale
    _lock = threading.Lock()
    _team = None
    CELL[0] = 0
    stale = True


def _end() -> None:
    """Let the workers end when the program does; what runs later runs on one thread."""
    global _team, stale
    with _lock:
        stale = False
        CELL[0] = 0
        team, _team = _team, None
    if team is not None:
        team.dismiss(timeout=5.0)


settings.watch(_mark_stale)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_end)
