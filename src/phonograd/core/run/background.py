"""Background tasks: functions that a pool thread runs, or the thread that needs the result, whichever comes first.

Used by :mod:`~phonograd.core.run.objects` to compile. Pool threads end when no task is left, so none exists while a
program just runs. A process must not fork while one of them works: locks that it holds would stay locked in the child.
:class:`Gate` prevents that.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from ..base import fork

__all__ = ["Gate", "Task", "TaskPool", "start"]

#: minimum stack size; compilers and kernels need much less
STACK_BYTES = 1 << 20

Result = TypeVar("Result")

_starting = threading.Lock()


def start(thread: threading.Thread) -> None:
    """Start a thread that compiles or runs kernels, with a stack of at least ``STACK_BYTES``.

    Raises RuntimeError if the system allows no more threads.
    """
    with _starting:
        others = threading.stack_size()
        # 0 is the default of the system: some megabytes
        small = 0 < others < STACK_BYTES
        if small:
            threading.stack_size(STACK_BYTES)
        try:
            thread.start()
        finally:
            if small:
                threading.stack_size(others)


def _after_fork() -> None:
    """Replace the lock: the parent's thread that may hold it does not exist in the child."""
    global _starting
    _starting = threading.Lock()


fork.register("start of threads", after_in_child=_after_fork)


class Gate:
    """A gate that any number of threads can pass, except while a thread holds it.

    >>> gate = Gate()
    >>> with gate:
    ...     pass
    >>> gate.hold()
    >>> gate.release()
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0

    def __enter__(self) -> None:
        with self._changed:
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def hold(self) -> None:
        """Wait until no thread is inside, and keep others out."""
        self._changed.acquire()
        while self._inside:
            self._changed.wait()

    def release(self) -> None:
        """Let threads in again."""
        self._changed.release()


class Task(Generic[Result]):
    """A function that is called once, and its result or exception."""

    __slots__ = ("_begun", "_done", "_error", "_result", "_work")

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._begun = threading.Lock()
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._result: Any = None

    def run(self) -> None:
        """Call the function, unless another thread has started to."""
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            self._error = error
        finally:
            self._done.set()

    def cancel(self) -> None:
        """Skip the call, unless a thread has started it; :meth:`result` must not be called afterwards."""
        self._begun.acquire(blocking=False)

    def result(self) -> Result:
        """Return the result of the function, after calling it or waiting for the thread that does."""
        self.run()
        self._done.wait()
        if self._error is not None:
            raise self._error
        found: Result = self._result
        return found


class TaskPool:
    """Threads that run tasks in the order of submission, and end when none is left.

    >>> pool, task = TaskPool(Gate()), Task(lambda: 6 * 7)
    >>> pool.submit([task], threads=1)
    >>> task.result()
    42
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._waiting: deque[Task[Any]] = deque()
        self._lock = threading.Lock()
        self._threads = 0

    def submit(self, tasks: Iterable[Task[Any]], threads: int) -> None:
        """Queue tasks, and start up to ``threads`` threads for them."""
        with self._lock:
            self._waiting.extend(tasks)
            wanted = min(threads, len(self._waiting)) - self._threads
            self._threads += max(wanted, 0)
        for _ in range(wanted):
            # not a daemon: no thread may compile while LLVM's library is being unloaded
            thread = threading.Thread(target=self._work, name="phonograd compiler")
            try:
                start(thread)
            except RuntimeError:
                # the system allows no more threads, or the interpreter is shutting down: `result` calls the function
                with self._lock:
                    self._threads -= 1

    def run_waiting(self) -> None:
        """Run all waiting tasks in this thread."""
        while True:
            try:
                task = self._waiting.popleft()
            except IndexError:
                return
            task.run()

    def _work(self) -> None:
        while True:
            with self._gate:
                with self._lock:
                    if not self._waiting:
                        self._threads -= 1
                        return
                    task = self._waiting.popleft()
                task.run()
