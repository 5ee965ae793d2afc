"""Tasks: work that is done by whoever comes first, the thread that needs the result or another one.

Threads that help end when there is nothing left to do, so none of them is there while a program just runs. A process
must not be forked while one of them is at work: what it holds would be held for ever in the child. The :class:`Gate`
is for that.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from ..base import fork

__all__ = ["Gate", "Task", "Tasks", "start"]

#: what compilers and kernels need at least, with much to spare
STACK_BYTES = 1 << 20

Result = TypeVar("Result")

_starting = threading.Lock()


def start(thread: threading.Thread) -> None:
    """Start a thread that compiles or runs kernels: with a stack that is large enough, however small others are to be.

    Raises RuntimeError where the system allows no more threads.
    """
    with _starting:
        others = threading.stack_size()
        # what is not set is the default of the system: some megabytes
        small = 0 < others < STACK_BYTES
        if small:
            threading.stack_size(STACK_BYTES)
        try:
            thread.start()
        finally:
            if small:
                threading.stack_size(others)


def _after_fork() -> None:
    """Forget that a thread was being started: it exists in the parent only."""
    global _starting
    _starting = threading.Lock()


fork.register("start of threads", after_in_child=_after_fork)


class Gate:
    """Lets threads in, any number of them, unless somebody holds it: who does has waited for all to leave.

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
        """Wait until nobody is inside, and let nobody in any more."""
        self._changed.acquire()
        while self._inside:
            self._changed.wait()

    def release(self) -> None:
        """Let threads in again."""
        self._changed.release()


class Task(Generic[Result]):
    """A function that is called once, and what it returned or raised."""

    __slots__ = ("_begun", "_done", "_error", "_result", "_work")

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._begun = threading.Lock()
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._result: Any = None

    def run(self) -> None:
        """Do the work, unless somebody else has begun."""
        if not self._begun.acquire(blocking=False):
            return
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            self._error = error
        finally:
            self._done.set()

    def give_up(self) -> None:
        """Leave the work undone, unless somebody has begun; the result must not be asked for."""
        self._begun.acquire(blocking=False)

    def result(self) -> Result:
        """Return what the function returns, after doing the work or waiting for whoever does."""
        self.run()
        self._done.wait()
        if self._error is not None:
            raise self._error
        found: Result = self._result
        return found


class Tasks:
    """Threads that do tasks in the order in which they come, as long as there are any.

    >>> tasks, task = Tasks(Gate()), Task(lambda: 6 * 7)
    >>> tasks.share([task], threads=1)
    >>> task.result()
    42
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._waiting: deque[Task[Any]] = deque()
        self._lock = threading.Lock()
        self._threads = 0

    def share(self, tasks: Iterable[Task[Any]], threads: int) -> None:
        """Have tasks done by up to some threads."""
        with self._lock:
            self._waiting.extend(tasks)
            wanted = min(threads, len(self._waiting)) - self._threads
            self._threads += max(wanted, 0)
        for _ in range(wanted):
            # not a daemon: the compiler must not be at work when its library is taken down
            thread = threading.Thread(target=self._work, name="phonograd compiler")
            try:
                start(thread)
            except RuntimeError:
                # the system allows no more threads, or the interpreter is about to end: who needs a result works for it
                with self._lock:
                    self._threads -= 1

    def help(self) -> None:
        """Do what is waiting, if there is anything."""
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
