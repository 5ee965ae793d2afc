"""Tier-up: a background thread that compiles quickly compiled kernels again, in full.

The latest kernels come first: they are those of what the program does now. Takes kernels from
:mod:`~phonograd.core.run.kernel_cache`, which also provides the function that compiles one.
"""

from __future__ import annotations

import _thread
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from .background import run_apart, start

if TYPE_CHECKING:
    from .kernel_cache import Kernel

__all__ = ["TierUpThread"]

#: the thread compiles a kernel only after no other thread has needed the compiler for this long
QUIET_SECONDS = 0.02


class TierUpThread:
    """A thread that compiles kernels in full, one after the other, the latest first; the first kernel starts it.

    Parameters
    ----------
    improve
        Compiles a kernel in full and exchanges its address.
    last_used
        Returns the time at which a thread last waited for the compiler.
    """

    def __init__(self, improve: Callable[[Kernel], None], last_used: Callable[[], float]) -> None:
        self._improve = improve
        self._last_used = last_used
        #: kernels, and locks that are released when all earlier kernels are done; it can be filled in signal handlers
        self._waiting: queue.SimpleQueue[weakref.ref[Kernel] | _thread.LockType | None] = queue.SimpleQueue()
        #: kernels that the thread has taken from there, the latest last
        self._kernels: list[weakref.ref[Kernel]] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def submit(self, kernels: Iterable[Kernel]) -> None:
        """Queue kernels for tier-up."""
        for kernel in kernels:
            self._waiting.put(weakref.ref(kernel))
        if self._thread is None and not self._stopped:
            run_apart(self._start)

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None or self._stopped:
                return
            self._thread = thread = threading.Thread(target=self._work, name="phonograd tier-up", daemon=True)
        try:
            start(thread)
        except RuntimeError:
            # the system allows no more threads, or the interpreter is shutting down: keep the quick kernels
            while not self._waiting.empty():
                self._waiting.get()
            self._thread = None

    def left(self) -> list[Kernel]:
        """Return the kernels that wait, and drop them: the program ends."""
        waiting = list(self._kernels)
        while not self._waiting.empty():
            found = self._waiting.get()
            if isinstance(found, weakref.ref):
                waiting.append(found)
            elif found is not None:
                found.release()
        self._kernels.clear()
        return [kernel for each in reversed(waiting) if (kernel := each()) is not None]

    def finish(self) -> None:
        """Wait until all kernels that were queued before are done."""
        done = threading.Lock()
        done.acquire()
        self._waiting.put(done)
        while self._thread is not None and not self._stopped:
            if done.acquire(timeout=QUIET_SECONDS):
                return

    def stop(self) -> None:
        """Wait for the kernel that is being compiled, and drop the queue."""
        with self._lock:
            self._stopped = True
            thread = self._thread
        self._waiting.put(None)
        # a thread that has not started yet will find that it is to stop
        if thread is not None and thread.ident is not None:
            thread.join()

    def _work(self) -> None:
        try:
            while not self._stopped:
                self._improve_next()
        finally:
            # if a kernel fails, the others keep their quick code, and `finish` must not wait for them
            self._stopped = True

    def _improve_next(self) -> None:
        """Compile the latest kernel; wait for one if there is none."""
        while not (self._kernels and self._waiting.empty()):
            found = self._waiting.get()
            if isinstance(found, weakref.ref):
                self._kernels.append(found)
            elif found is not None:
                self._improve_all()
                found.release()
            if self._stopped:
                return
        self._improve_latest()

    def _improve_all(self) -> None:
        while self._kernels and not self._stopped:
            self._improve_latest()

    def _improve_latest(self) -> None:
        kernel = self._kernels.pop()()
        if kernel is not None:
            self._wait_for_quiet()
            if not self._stopped:
                self._improve(kernel)

    def _wait_for_quiet(self) -> None:
        """Let other threads compile first: programs wait for them."""
        while not self._stopped:
            left = self._last_used() + QUIET_SECONDS - time.monotonic()
            if left <= 0:
                return
            time.sleep(left)
