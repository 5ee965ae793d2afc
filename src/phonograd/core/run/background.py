"""Background threads: helpers that signal handlers never interrupt, and pools that run tasks.

:func:`run_apart` calls a function in a helper thread while the caller waits. All work that is done once goes through
it: planning, compiling, loading and saving code, importing the modules for that, starting threads. Python runs signal
handlers in the main thread, and programs raise exceptions in threads of their own, so neither reaches a helper:

* An error that the work catches is its own, never that of a handler (:mod:`phonograd.core.base.outside`).
* The work is never left half done: an import, a lock of llvmlite or a counter. A handler that raises interrupts only
  the caller, who waits; the work is completed, and the next evaluation finds its results.
* A handler may use arrays meanwhile: the caller holds no lock that helpers need.

:class:`TaskPool` runs functions in pool threads, or in the thread that needs the result, whichever comes first;
:mod:`~phonograd.core.run.objects` compiles with it. Helpers and pool threads end when no work is left, so none exists
while a program just runs. A process must not fork while one of them works: locks that it holds would stay locked in the
child, and modules half imported. :class:`Gate` prevents that. No lock is held while a thread starts.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import contextvars
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ..base import fork, pace
from ..base.errors import USER_LINE, user_line
from ..base.outside import is_from_outside

__all__ = ["GATE", "Gate", "Queue", "Task", "TaskPool", "run_apart", "start"]

#: minimum stack size; compilers and kernels need much less
STACK_BYTES = 1 << 20

#: how long a helper may keep the interpreter from the threads of the program while it works for later: they would wait
#: for 5 ms, the default of Python, each time they have let go of it
SWITCH_SECONDS = 0.0003

#: a caller that waits for a helper lets signal handlers run this often. Free-threaded Python (3.13t, 3.14t) calls them
#: only when the lock for which the main thread waits is free; Python with the GIL calls them at once.
HANDLER_SECONDS = 0.05

#: a caller that waits for longer than this lets other helpers go on without rests: its own may need what they have
PATIENCE_SECONDS = 0.002

Result = TypeVar("Result")


# -- starting threads


class _StackSize:
    """Keeps the stack size of new threads at ``STACK_BYTES`` or more inside a ``with`` statement."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = self._before = 0

    def is_small(self) -> bool:
        """Return whether the program has asked for smaller stacks."""
        with self._lock:
            return self._find() > 0

    def _find(self) -> int:
        """Return the size of stacks that the program has asked for if it is too small; 0 if it is not."""
        if self._before:
            return self._before
        # to ask for the size is to set it to 0, the default of the system: some megabytes
        size = threading.stack_size()
        if size:
            threading.stack_size(size)
        return size if size < STACK_BYTES else 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = self._find()
                if self._before:
                    threading.stack_size(STACK_BYTES)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._before:
                threading.stack_size(self._before)
                self._before = 0


_stack_size = _StackSize()


def start(thread: threading.Thread) -> None:
    """Start a thread that compiles or runs kernels, with a stack of at least ``STACK_BYTES``.

    Only helpers call this: an exception from outside in the middle of ``Thread.start`` would leave a lock held.
    Raises RuntimeError if the system allows no more threads.
    """
    with _stack_size:
        thread.start()


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
        self._is_held = False

    def __enter__(self) -> None:
        with self._changed:
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    @contextlib.contextmanager
    def left(self) -> Iterator[None]:
        """Leave the gate inside a ``with`` block: a thread that waits there holds nothing."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    def hold(self) -> None:
        """Wait until no thread is inside, and keep others out.

        An exception from outside is raised at the end: the fork for which the caller waits takes place anyway.
        """
        raised: BaseException | None = None
        pace.waiting.add(self)
        while not self._is_held:
            try:
                self._wait()
            except BaseException as error:  # noqa: BLE001 - raised below
                raised = error
        pace.waiting.discard(self)
        if raised is not None:
            raise raised

    def _wait(self) -> None:
        if not self._changed._is_owned():  # type: ignore[attr-defined]
            self._changed.acquire()
        while self._inside:
            self._changed.wait()
        self._is_held = True

    def release(self) -> None:
        """Let threads in again."""
        self._is_held = False
        self._changed.release()


#: entered by all threads that compile, load or import
GATE = Gate()


# -- helpers


class _Here(threading.local):
    """Whether each thread is a helper."""

    is_helper = False


_here = _Here()
#: whether the interpreter is about to end: no helper may run while LLVM's library is being unloaded
_is_closed = False


class _Errand(Generic[Result]):
    """A function that a helper calls, and the lock that is free when its result is there."""

    __slots__ = ("_context", "_line", "_work", "astray", "done", "error", "is_lost", "is_refused", "result")

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work: Callable[[], Result] | None = work
        self._context = contextvars.copy_context()
        self._line = user_line()
        # a lock and no Event: an exception from outside in the middle of an Event's methods leaves its lock held
        self.done = _thread.allocate_lock()
        self.done.acquire()
        self.error: BaseException | None = None
        self.result: Any = None
        #: an exception from outside for the thread that waits, which arrived in the helper
        self.astray: BaseException | None = None
        #: whether its helper does not exist, because this process was forked
        self.is_lost = False
        #: whether no helper can do it: the system allows no more threads, or the interpreter is shutting down
        self.is_refused = False

    def steps(self) -> Iterator[None]:
        """Yield once, in the thread that waits; a helper resumes the generator and does the errand.

        CPython before 3.12 gives a new thread the number of the thread that starts it, until it runs. An exception that
        another thread raises in the latter meanwhile arrives in the new one, before its first instruction. A function
        could not catch it there; the first instruction of this generator is inside ``try``.
        """
        try:
            yield
        except GeneratorExit:
            # no helper has started
            return
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            self.astray = error
        self._begin()

    def _begin(self) -> None:
        """Call the function in this new thread, or in one with a larger stack."""
        if _stack_size.is_small():
            go = _thread.allocate_lock()
            try:
                # it begins after the program has its stack size back
                with go, _stack_size:
                    _thread.start_new_thread(self._run_after, (go,))
            except RuntimeError:
                self.is_refused = True
                self.done.release()
        else:
            self.run()

    def _run_after(self, go: _thread.LockType) -> None:
        with go:
            self.run()

    def run(self) -> None:
        """Call the function in this thread, a new helper."""
        try:
            with GATE:
                work, self._work = self._work, None
                if _is_closed or work is None:
                    self.is_refused = True
                else:
                    _here.is_helper, USER_LINE.line = True, self._line
                    self.result = self._context.run(work)
                    # the thread may live longer than the result
                    del work
        except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
            self.error = error
        finally:
            self.done.release()


#: errands for which threads wait
_under_way: set[_Errand[Any]] = set()


def run_apart(work: Callable[[], Result]) -> Result:
    """Return the result of a function that a helper thread calls; a helper calls it directly.

    Signal handlers run while the caller waits. If one raises an exception, this function raises it, and the helper
    completes the work.

    >>> run_apart(lambda: 6 * 7)
    42
    """
    while not (_here.is_helper or _is_closed):
        errand = _Errand(work)
        _under_way.add(errand)
        try:
            steps = errand.steps()
            next(steps)
            # the default: the end of the generator is no error
            _thread.start_new_thread(next, (steps, None))
            if not errand.done.acquire(timeout=PATIENCE_SECONDS):
                pace.waiting.add(errand)
                while not errand.done.acquire(timeout=HANDLER_SECONDS):
                    pass
        except RuntimeError as error:
            if is_from_outside(error):
                raise
            errand.is_refused = True
        finally:
            _under_way.discard(errand)
            pace.waiting.discard(errand)
        if errand.astray is not None:
            try:
                raise errand.astray
            finally:
                del errand
        if errand.is_refused:
            break
        if errand.is_lost:
            continue
        if errand.error is not None:
            try:
                raise errand.error
            finally:
                # the traceback refers to this frame
                del errand
        found: Result = errand.result
        return found
    return work()


class _GivingWay:
    """Makes helpers give way to the program while some of them work for later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        #: the switch interval that the program has chosen
        self._interval = 0.0
        self._imports = pace.RestingImports()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._interval = sys.getswitchinterval()
                sys.setswitchinterval(min(self._interval, SWITCH_SECONDS))
                self._imports.install()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._restore()

    def _restore(self) -> None:
        """Set the switch interval that the program has chosen, unless it has chosen another one meanwhile."""
        self._imports.remove()
        if sys.getswitchinterval() == SWITCH_SECONDS:
            sys.setswitchinterval(self._interval)

    def forget(self) -> None:
        """Begin anew after a fork: there are no helpers."""
        self._lock = threading.Lock()
        if self._inside:
            self._inside = 0
            self._restore()


_giving_way = _GivingWay()


class Queue:
    """Functions that a helper calls later, one after the other, while the program goes on.

    The helper is paced (:mod:`~phonograd.core.base.pace`): it gives way to the thread that has submitted work last.

    Parameters
    ----------
    is_gentle
        Whether it rests longer, because its results need not be there soon.

    >>> queue, done = Queue(), []
    >>> queue.submit(lambda: done.append(1))
    >>> queue.finish()
    >>> done
    [1]
    """

    def __init__(self, is_gentle: bool = False) -> None:
        self._is_gentle = is_gentle
        self._waiting: deque[_Errand[Any]] = deque()
        self._lock = threading.Lock()
        self._is_running = False

    def submit(self, work: Callable[[], object]) -> None:
        """Call a function later. Its exceptions are lost: the function has to handle them."""
        self.add(work)
        pace.watch()
        if not self._is_running:
            # no lock is held where an exception from outside can arrive
            run_apart(self._start)

    def add(self, work: Callable[[], object]) -> None:
        """Call a function before the next one that is submitted: no helper is started for it."""
        self._waiting.append(_Errand(work))

    def _start(self) -> None:
        with self._lock:
            if self._is_running or not self._waiting:
                return
            self._is_running = True
        try:
            _thread.start_new_thread(self._work, ())
        except RuntimeError:
            # the system allows no more threads, or the interpreter is shutting down
            with self._lock:
                self._waiting.clear()
                self._is_running = False

    def _work(self) -> None:
        with _giving_way:
            self._work_off()

    def _work_off(self) -> None:
        """Call functions until none is left."""
        while True:
            try:
                errand = self._waiting.popleft()
            except IndexError:
                with self._lock:
                    # a thread that submits a function after this one has looked finds that nothing runs
                    self._is_running = False
                    if self._waiting:
                        self._is_running = True
                        continue
                    return
            with pace.paced(is_gentle=self._is_gentle):
                errand.run()

    @property
    def is_running(self) -> bool:
        """Return whether a function is running or waiting."""
        return self._is_running

    def finish(self) -> None:
        """Wait until no function is left."""
        pace.waiting.add(self)
        try:
            while self._is_running:
                time.sleep(0.001)
        finally:
            pace.waiting.discard(self)


def _after_fork_in_child() -> None:
    """Replace locks that a thread of the parent may hold, and give up the errands: their helpers do not exist here."""
    global _stack_size
    _stack_size = _StackSize()
    _giving_way.forget()
    pace.waiting.clear()
    for errand in tuple(_under_way):
        _under_way.discard(errand)
        if errand.done.locked():
            errand.is_lost = True
            errand.done.release()


def _close() -> None:
    """Wait for all helpers; later errands are done by the threads that need them."""
    global _is_closed
    _is_closed = True
    GATE.hold()
    GATE.release()


fork.register("start of threads", after_in_child=_after_fork_in_child)
fork.register("helpers", before=GATE.hold, after_in_parent=GATE.release, after_in_child=GATE.release)
atexit.register(_close)


# -- tasks


class Task(Generic[Result]):
    """A function that is called once, and its result or exception."""

    __slots__ = ("_begun", "_done", "_error", "_is_paced", "_result", "_work")

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._is_paced = pace.is_paced()
        self._begun = threading.Lock()
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._result: Any = None

    def run(self) -> None:
        """Call the function, unless another thread has started to."""
        if not self._begun.acquire(blocking=False):
            return
        try:
            with pace.paced(self._is_paced):
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
            thread = threading.Thread(target=self._work, name="phonograd compiler", daemon=False)
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
