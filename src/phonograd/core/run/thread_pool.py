"""The thread pool: workers that share the chunks of a region with the thread that runs it.

The range of a launch is divided into chunks. Their size comes with the launch: it follows from the shape of the work,
never from the number of threads. Each free thread takes the next chunk, so a thread that the system holds up delays no
other. The caller works too, and waits only for chunks that workers have begun. With workers asleep, gone or few, the
result is the same, later.

This module takes the machine code from :mod:`phonograd.core.run.thread_pool_ir` and hands the address of the pool to
the driver (:data:`CELL`). ``docs/thread-pool.md`` states the protocol, decision 0005 the reasons. Locks are Python's
own (``PyThread_*``): they exist on every platform and need no interpreter state. Workers are daemon threads, each
inside one foreign call.
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

from ..base import fork, processor, settings
from . import kernel_cache
from . import thread_placement as placement
from .background import run_apart, start
from .pointers import locks_work
from .thread_pool_ir import FUNCTIONS, thread_pool_text
from .thread_pool_words import (
    ACQUIRE,
    ALONE_UNTIL,
    CALLER_LOCK,
    FIRST_WORKER,
    GAP,
    LEAST_PENALTY,
    LOCK,
    MOST_PENALTY,
    PARALLEL,
    PATIENCE,
    RELEASE,
    SLOW,
    SPINS,
    SUMMON,
    WORKER_WORDS,
    WORKERS,
)

__all__ = ["CELL", "ThreadPool", "precompile", "renew", "share_cores", "work_alone"]

# Each of these was chosen by a measurement: docs/thread-pool.md names it.

#: how long a worker looks for work before it sleeps. Waking it takes 20 to 60 us, and the Python between two plans of a
#: small training loop some hundred
SPIN_SECONDS = 500e-6
#: the same while another process works for this program: it would get no core as long as workers spin
SHORT_SPIN_SECONDS = 20e-6
#: how long a thread must be held up before it concludes that other programs need the processors: systems interrupt
#: threads for some microseconds, and make them wait for other threads for at least a millisecond
GAP_SECONDS = 300e-6
#: least and most length of a back-off. Where back-offs follow each other, the least costs a few hundredths
PENALTY_SECONDS = 1e-3, 500e-3


class _Code:
    """The compiled functions of the pool, and how long a pause is on this machine."""

    def __init__(self) -> None:
        self.parallel, self.summon, dismiss, worker, spin, clock = _addresses(
            thread_pool_text, (platform.machine(),), "thread_pool_functions", len(FUNCTIONS)
        )
        self.acquire, self.release = _function("PyThread_acquire_lock"), _function("PyThread_release_lock")
        #: the words of a place on which a thread sleeps, except its lock; none if a lock is all of it
        self._place: list[int] = []
        functions = _placement_functions()
        if functions is not None:
            self._place = [0, -1, self.acquire, self.release, *functions]
            self.acquire, self.release = _addresses(
                placement.thread_placement_text, (), "thread_placement_functions", len(placement.FUNCTIONS)
            )
        self.dismiss = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(dismiss)
        self.worker = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(worker)
        self.clock = ctypes.CFUNCTYPE(ctypes.c_int64)(clock)
        self._turn_seconds, self._ticks_per_second = _rates(ctypes.CFUNCTYPE(None, ctypes.c_int64)(spin), self.clock)

    def turns(self, seconds: float) -> int:
        """Return the number of turns of waiting that take some time."""
        return max(1, int(seconds / self._turn_seconds))

    def ticks(self, seconds: float) -> int:
        """Return the ticks of the processor's clock in some time; 0 if it has no clock."""
        return int(seconds * self._ticks_per_second)

    def new_place(self) -> int:
        """Return the address of a new place on which a thread sleeps: of a lock, or of words that refer to one."""
        lock = _new_held_lock()
        if not self._place:
            return lock
        words = np.array(self._place, np.int64)
        words[placement.LOCK] = lock
        _memories.append(words)
        address: int = words.ctypes.data
        return address


def _addresses(write: Callable[..., str], arguments: tuple[Any, ...], name: str, count: int) -> list[int]:
    """Return the addresses of the functions of a module, which one of them writes."""
    # quickly: threads wait in this code, or run chunks that take some thousand times as long
    kernel = kernel_cache.compile_module(write, arguments, name, quick=True)
    # a worker may still run this code while the interpreter shuts down
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kernel))
    addresses = (ctypes.c_int64 * count)()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(ctypes.addressof(addresses))
    return list(addresses)


def _placement_functions() -> list[int] | None:
    """Return the addresses of the functions of the C library that place threads; None if it has none (not Linux)."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    library = ctypes.CDLL(None)
    names = ("sched_getcpu", "sched_getaffinity", "sched_setaffinity")
    found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names if hasattr(library, name)]
    return [address or 0 for address in found] if len(found) == len(names) and all(found) else None


def _rates(spin: Callable[[int], None], clock: Callable[[], int]) -> tuple[float, float]:
    """Return the seconds of a turn of waiting, and the ticks of the processor's clock in a second."""
    turns, times = 1000, []
    begin, first = time.perf_counter(), clock()
    for _ in range(5):
        start = time.perf_counter()
        spin(turns)
        times.append(time.perf_counter() - start)
    ticks = clock() - first
    return min(times) / turns, ticks / (time.perf_counter() - begin)


class ThreadPool:
    """Workers, and the memory that they share with callers.

    Parameters
    ----------
    workers
        Number of threads to start; the caller is not counted.
    """

    def __init__(self, workers: int) -> None:
        self._code = code = _compile()
        words = np.zeros(FIRST_WORKER + WORKER_WORDS * workers + WORKER_WORDS, np.int64)
        aligned = words[-(words.ctypes.data // 8) % WORKER_WORDS :]
        #: address of the pool's words. They are never freed, because a caller or a worker may still look at them
        self.address: int = aligned.ctypes.data
        self.memory = aligned
        _memories.append(words)
        # a region this long justifies waking workers, even if it has few chunks. A caller looks for the end for twice
        # its own time for a chunk and this long, then sleeps: the worker that it waits for may need its processor
        wake_seconds = processor.choices().wake_seconds
        aligned[PARALLEL], aligned[SUMMON] = code.parallel, code.summon
        aligned[PATIENCE] = code.ticks(wake_seconds)
        self.share_cores(_has_company)
        aligned[GAP], aligned[SLOW] = code.ticks(GAP_SECONDS), code.ticks(wake_seconds)
        aligned[LEAST_PENALTY], aligned[MOST_PENALTY] = [code.ticks(seconds) for seconds in PENALTY_SECONDS]
        aligned[ACQUIRE], aligned[RELEASE] = code.acquire, code.release
        aligned[CALLER_LOCK] = code.new_place()
        self._threads: list[threading.Thread] = []
        for index in range(workers):
            aligned[FIRST_WORKER + WORKER_WORDS * index + LOCK] = code.new_place()
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
        """Number of threads that work on a region, the caller included."""
        return 1 + len(self._threads)

    def share_cores(self, is_on: bool) -> None:
        """Let workers sleep as soon as they have no work, or look for it for some time again."""
        self.memory[SPINS] = self._code.turns(SHORT_SPIN_SECONDS if is_on else SPIN_SECONDS)

    def work_alone(self, seconds: float) -> None:
        """Let callers work without workers for some time, if the processor has a clock."""
        if ticks := self._code.ticks(seconds):
            self.memory[ALONE_UNTIL] = self._code.clock() + ticks

    def dismiss(self, timeout: float = 0.0) -> None:
        """Tell the workers to end after their current region, and wait for them for some seconds at most."""
        self._code.dismiss(self.address)
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _function(name: str) -> int:
    """Return the address of a function of Python's C interface."""
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert address is not None
    return address


def _new_held_lock() -> int:
    """Return a new lock that is held: to acquire it is to sleep. Like the words of a pool, it is never freed."""
    allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p)(_function("PyThread_allocate_lock"))
    acquire = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(_function("PyThread_acquire_lock"))
    lock: int | None = allocate()
    if lock is None or acquire(lock, 1) != 1:
        raise MemoryError("a lock for a worker thread could not be made")
    return lock


# -- the pool of this process

#: the address of the pool's words for native code; 0 while there is no pool, and every thread works alone
CELL = np.zeros(1, np.int64)

#: whether :func:`renew` has something to do: no pool was started yet, this process was forked, or the setting changed
stale = True

_has_ended = False
#: whether another process that works for this one needs a core
_has_company = False
_pool: ThreadPool | None = None
_code: _Code | None = None
_memories: list[Any] = []
_lock = threading.Lock()


def _compile() -> _Code:
    """Return the compiled functions, which all pools of a process share."""
    global _code
    if _code is None:
        _code = _Code()
    return _code


def precompile() -> None:
    """Begin to compile the functions of the pool in another thread, if there will be a pool."""
    if _code is None and settings.current().num_threads > 1:
        kernel_cache.precompile_module(thread_pool_text, (platform.machine(),))
        kernel_cache.precompile_module(placement.thread_placement_text, ())


def renew() -> ThreadPool | None:
    """Return the pool that the settings ask for, started if need be; None if one thread does everything."""
    return run_apart(_renew)


def _renew() -> ThreadPool | None:
    global _pool, stale
    with _lock:
        if not stale:
            # another thread may be starting the pool: until then this one works alone
            return _pool
        stale = False
        before, _pool = _pool, None
        CELL[0] = 0
    if before is not None:
        before.dismiss()
    workers = settings.current().num_threads - 1 if locks_work() else 0
    if workers <= 0:
        return None
    # no lock is held while threads start
    made = ThreadPool(workers)
    with _lock:
        if _pool is None and not (stale or _has_ended):
            _pool = made
            CELL[0] = made.address
            return made
    # the settings have changed meanwhile, or the program is about to end
    made.dismiss()
    return _pool


def share_cores(is_on: bool) -> None:
    """Leave cores to another process that works for this one, whenever workers have nothing to do, or not any more."""
    global _has_company
    with _lock:
        _has_company = is_on
        if _pool is not None:
            _pool.share_cores(is_on)


def work_alone(seconds: float) -> None:
    """Leave all cores but one to another process that works for this one, for some time."""
    with _lock:
        if _pool is not None:
            _pool.work_alone(seconds)


def _mark_stale() -> None:
    """Note that the settings ask for another number of threads."""
    global stale
    wanted = max(1, settings.current().num_threads)
    if (1 if _pool is None else _pool.size) != wanted:
        stale = True


def _after_fork() -> None:
    """Forget the pool of the parent process: a child has none of its threads."""
    global _pool, _lock, stale, _has_company
    _lock = threading.Lock()
    _pool, _has_company = None, False
    CELL[0] = 0
    stale = True


def _end() -> None:
    """End the workers with the program; regions that run later run on one thread."""
    global _pool, stale, _has_ended
    with _lock:
        stale, _has_ended = False, True
        CELL[0] = 0
        pool, _pool = _pool, None
    if pool is not None:
        pool.dismiss(timeout=5.0)


settings.CHANGED.connect(_mark_stale)
fork.register("thread pool", after_in_child=_after_fork)
atexit.register(_end)
