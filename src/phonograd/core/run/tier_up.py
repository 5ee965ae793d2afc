"""Tier-up: a background thread that compiles quickly compiled kernels again, in full.

Takes kernels from :mod:`~phonograd.core.run.kernel_cache`, which also provides the function that compiles one.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from .background import start

if TYPE_CHECKING:
    from .kernel_cache import Kernel

__all__ = ["TierUpThread"]

#: the thread compiles a kernel only after no other thread has needed the compiler for this long
QUIET_SECONDS = 0.02


class TierUpThread:
    """A thread that compiles kernels in full, one after the other; the first kernel starts it.

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
        self._waiting: deque[weakref.ref[Kernel]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._busy = False
        self._stopped = False

    def submit(self, kernels: Iterable[Kernel]) -> None:
        """Queue kernels for tier-up."""
        with self._changed:
            self._waiting.extend([weakref.ref(kernel) for kernel in kernels])
            self._changed.notify_all()
            if self._thread is not None or self._stopped:
                return
            self._thread = thread = threading.Thread(target=self._work, name="phonograd tier-up", daemon=True)
        try:
            start(thread)
        except RuntimeError:
            # the system allows no more threads, or the interpreter is shutting down: keep the quick kernels
            with self._changed:
                self._waiting.clear()
                self._thread = None
                self._changed.notify_all()

    def finish(self) -> None:
        """Wait until the queue is empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or not (self._waiting or self._busy))

    def stop(self) -> None:
        """Wait for the kernel that is being compiled, and drop the queue."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            thread = self._thread
        # a thread that has not started yet will find that it is to stop
        if thread is not None and thread.ident is not None:
            thread.join()

    def _work(self) -> None:
        try:
            while not self._stopped:
                self._improve_next()
        finally:
            # if a kernel fails, the others keep their quick code, and `finish` must not wait for them
            with self._changed:
                self._stopped = True
                self._changed.notify_all()

    def _improve_next(self) -> None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopped or self._waiting)
            if self._stopped:
                return
            kernel = self._waiting.popleft()()
            self._busy = True
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
            with self._changed:
                self._changed.wait(left)
