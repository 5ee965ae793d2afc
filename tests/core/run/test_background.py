"""Tasks that any thread may do, and the gate that a process is forked behind."""

import contextvars
import ctypes
import importlib
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from phonograd.core.base import pace
from phonograd.core.base.errors import user_line
from phonograd.core.base.outside import is_from_outside
from phonograd.core.run import background
from phonograd.core.run.background import Gate, Queue, Task, TaskPool, run_apart
from phonograd.core.run.tier_up import TierUpThread


def test_a_task_is_done_once_by_whoever_comes_first() -> None:
    done: list[str] = []
    tasks = TaskPool(Gate())
    several = [Task(lambda: done.append(threading.current_thread().name)) for _ in range(100)]
    tasks.submit(several, threads=3)
    for task in several:
        task.result()
        task.run()
    assert len(done) == 100


def test_errors_are_raised_where_the_result_is_asked_for() -> None:
    def fail() -> None:
        raise ValueError("no")

    task = Task(fail)
    TaskPool(Gate()).submit([task], threads=1)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            task.result()


def test_threads_end_when_there_is_nothing_to_do() -> None:
    before = threading.active_count()
    tasks = TaskPool(Gate())
    tasks.submit([Task(lambda: time.sleep(0.01)) for _ in range(8)], threads=4)
    end = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == before
    again = Task(lambda: 5)
    tasks.submit([again], threads=1)
    assert again.result() == 5


def test_no_more_threads_than_asked_for() -> None:
    here, most, lock = [0], [0], threading.Lock()

    def work() -> None:
        with lock:
            here[0] += 1
            most[0] = max(most[0], here[0])
        time.sleep(0.005)
        with lock:
            here[0] -= 1

    tasks = TaskPool(Gate())
    several = [Task(work) for _ in range(20)]
    for task in several:
        tasks.submit([task], threads=2)
    end = time.monotonic() + 20
    while here[0] and time.monotonic() < end:
        time.sleep(0.01)
    assert most[0] <= 2


def test_without_threads_the_one_that_asks_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    task = Task(lambda: 42)
    TaskPool(Gate()).submit([task], threads=1)
    assert task.result() == 42


def test_the_latest_kernels_are_compiled_first() -> None:
    """Those that wait belong to what the program did before."""
    improved: list[int] = []
    began, go_on = threading.Event(), threading.Event()

    class Kernel:
        def __init__(self, number: int) -> None:
            self.number = number

    def improve(kernel: Any) -> None:
        began.set()
        assert go_on.wait(60)
        improved.append(kernel.number)

    kernels: list[Any] = [Kernel(number) for number in range(6)]
    thread = TierUpThread(improve, lambda: 0.0)
    thread.submit(kernels[:1])
    assert began.wait(60)
    thread.submit(kernels[1:4])
    thread.submit(kernels[4:])
    go_on.set()
    thread.finish()
    thread.stop()
    assert improved == [0, 5, 4, 3, 2, 1]


def test_kernels_that_wait_at_the_end_are_left() -> None:
    began, go_on = threading.Event(), threading.Event()

    class Kernel:
        pass

    def improve(kernel: object) -> None:
        began.set()
        assert go_on.wait(60)

    kernels: list[Any] = [Kernel() for _ in range(4)]
    thread = TierUpThread(improve, lambda: 0.0)
    thread.submit(kernels[:1])
    assert began.wait(60)
    thread.submit(kernels[1:])
    assert thread.left() == kernels[:0:-1]
    assert thread.left() == []
    go_on.set()
    thread.stop()


def test_without_threads_nothing_is_improved(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    class Kernel:
        pass

    improved: list[object] = []
    thread = TierUpThread(improved.append, lambda: 0.0)
    kernel = Kernel()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        thread.submit([kernel])  # type: ignore[list-item]
        thread.finish()
    assert improved == []
    thread.submit([kernel])  # type: ignore[list-item]
    thread.finish()
    assert improved == [kernel]
    thread.stop()


def test_who_holds_the_gate_is_alone() -> None:
    gate, inside, seen = Gate(), threading.Event(), list[str]()

    def work() -> None:
        with gate:
            inside.set()
            time.sleep(0.05)
            # who is inside may enter once more
            with gate:
                seen.append("left")

    first = threading.Thread(target=work)
    first.start()
    inside.wait()
    gate.hold()
    seen.append("held")
    second = threading.Thread(target=work)
    second.start()
    time.sleep(0.02)
    seen.append("released")
    gate.release()
    second.join()
    first.join()
    assert seen == ["left", "held", "released", "left"]


def test_who_waits_can_help_with_what_is_left() -> None:
    tasks, begun, go = TaskPool(Gate()), threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        go.wait(20)

    first, others = Task(slow), [Task(threading.current_thread) for _ in range(3)]
    tasks.submit([first, *others], threads=1)
    assert begun.wait(20)
    tasks.run_waiting()
    assert [task.result() for task in others] == [threading.current_thread()] * 3
    go.set()
    first.result()


def test_a_task_that_was_given_up_is_not_done() -> None:
    done: list[int] = []
    task = Task(lambda: done.append(1))
    task.cancel()
    task.run()
    assert not done


# -- helpers


def test_work_is_done_apart() -> None:
    here = threading.get_ident()
    assert run_apart(threading.get_ident) != here
    # a helper calls the function itself
    first, second = run_apart(lambda: (threading.get_ident(), run_apart(threading.get_ident)))
    assert first == second != here


def test_errors_of_work_are_raised_where_it_is_awaited() -> None:
    with pytest.raises(ZeroDivisionError):
        run_apart(lambda: 1 / 0)


def test_helpers_know_the_line_of_the_user() -> None:
    assert run_apart(user_line) == user_line()


def test_helpers_have_the_context_of_the_caller() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    variable.set(5)
    assert run_apart(variable.get) == 5


def test_without_threads_the_caller_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(background._thread, "start_new_thread", refuse)  # type: ignore[attr-defined]
    assert run_apart(threading.get_ident) == threading.get_ident()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals of POSIX")
@pytest.mark.parametrize("kind", [TimeoutError, RuntimeError, ImportError, KeyboardInterrupt])
def test_a_handler_interrupts_the_caller_but_not_the_work(kind: type[BaseException]) -> None:
    done: list[str] = []
    go = threading.Event()

    def handler(number: int, frame: object) -> None:
        raise kind("late")

    def work() -> None:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            go.wait(60)
        except BaseException:
            done.append("interrupted")
        done.append("done")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(kind, match="late"):
            run_apart(work)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not done
    assert not pace.waiting
    go.set()
    # a fork waits for it
    background.GATE.hold()
    background.GATE.release()
    assert done == ["done"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="systems that fork")
def test_a_fork_in_a_handler_while_a_helper_works() -> None:
    children: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: children.append(os.fork()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        found = run_apart(lambda: (time.sleep(0.1), 42)[1])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if children == [0]:
        os._exit(0 if found == 42 and run_apart(lambda: 5) == 5 else 1)
    assert found == 42
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0


# the smallest stack of Linux on aarch64 is 128 KiB
@pytest.mark.parametrize("size", [0, 1 << 17, 1 << 24])
def test_the_program_keeps_its_stack_size(size: int) -> None:
    threading.stack_size(size)
    try:
        assert run_apart(lambda: 42) == 42
        thread = threading.Thread(target=int)
        run_apart(lambda: background.start(thread))
        thread.join()
    finally:
        after = threading.stack_size(0)
    assert after == size


def test_no_lock_is_held_while_a_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kernel:
        pass

    tier_up, kernel, seen = TierUpThread(lambda kernel: None, lambda: 0.0), Kernel(), list[bool]()
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        other = threading.Timer(0, lambda: seen.append(tier_up._lock.acquire(timeout=5)))
        begin(other)
        other.join()
        seen.append(background._stack_size._lock.acquire(timeout=5))
        background._stack_size._lock.release()
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    tier_up.submit([kernel])  # type: ignore[list-item]
    tier_up._lock.release()
    tier_up.finish()
    tier_up.stop()
    assert seen == [True, True]


def test_kernels_that_were_queued_before_are_done_when_the_thread_has_finished() -> None:
    class Kernel:
        pass

    improved: list[object] = []
    kernels = [Kernel() for _ in range(50)]
    everything = set(kernels)

    def improve(kernel: object) -> None:
        time.sleep(0.0002)
        improved.append(kernel)

    tier_up = TierUpThread(improve, lambda: 0.0)
    tier_up.finish()
    for kernel in kernels:
        tier_up.submit([kernel])  # type: ignore[list-item]
    tier_up.finish()
    assert len(improved) == 50
    assert set(improved) == everything
    tier_up.stop()
    tier_up.submit(kernels)  # type: ignore[arg-type]
    tier_up.finish()
    assert len(improved) == 50


def test_a_queue_loses_nothing_that_threads_submit_at_the_same_time() -> None:
    queue, done = background.Queue(), list[int]()

    def submit(first: int) -> None:
        for number in range(first, first + 200):
            queue.submit(lambda number=number: done.append(number))
            if number % 7 == 0:
                # let the worker find nothing, and end
                time.sleep(0.0005)

    threads = [threading.Thread(target=submit, args=(first,)) for first in (0, 1000, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.finish()
    assert sorted(done) == [first + number for first in (0, 1000, 2000) for number in range(200)]


def _catch(caught: list[BaseException], is_running: threading.Event) -> None:
    """Start helpers until an exception arrives."""
    try:
        while True:
            run_apart(is_running.set)
    except OSError as error:
        caught.append(error)


def test_an_exception_for_a_thread_that_starts_a_helper_arrives() -> None:
    # on CPython before 3.12 many of them arrive in the helper
    for _ in range(60):
        caught: list[BaseException] = []
        is_running = threading.Event()
        thread = threading.Thread(target=_catch, args=(caught, is_running), daemon=True)
        thread.start()
        is_running.wait()
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(OSError))
        thread.join(30)
        assert not thread.is_alive()
        assert [is_from_outside(error) for error in caught] == [True]


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses of threads that rest whenever they may."""
    found: list[float] = []
    monkeypatch.setattr(pace, "time", SimpleNamespace(perf_counter=time.perf_counter, sleep=found.append))
    monkeypatch.setattr(pace, "WORK_SECONDS", -1.0)
    monkeypatch.setattr(pace, "SHORT_WORK_SECONDS", -1.0)
    return found


def test_only_helpers_that_work_for_later_rest(slept: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    pace.rest()
    run_apart(pace.rest)
    assert slept == []
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        go.wait(60)
        pace.rest()
        done.set()

    background.Queue(is_gentle=True).submit(work)
    # this thread waits for a helper until here
    go.set()
    assert done.wait(60)
    assert slept == [pace.LONG_REST_SECONDS]
    monkeypatch.setattr(pace, "SHORT_WORK_SECONDS", 1e6)
    done.clear()
    background.Queue(is_gentle=True).submit(work)
    assert done.wait(60)
    assert slept == [pace.LONG_REST_SECONDS]


def test_no_helper_rests_while_a_thread_waits(slept: list[float]) -> None:
    queue, gate = background.Queue(), background.Gate()
    with pace.paced():
        pace.waiting.add(queue)
        pace.rest()
        pace.waiting.discard(queue)
        assert slept == []
        pace.rest()
        assert slept == [pace.REST_SECONDS]
    begun, go = threading.Event(), threading.Event()
    seen: list[bool] = []

    def work() -> None:
        begun.set()
        go.wait(60)
        while queue not in pace.waiting:
            time.sleep(0.001)
        seen.append(True)

    queue.submit(work)
    assert begun.wait(60)
    go.set()
    queue.finish()
    assert seen == [True]
    assert queue not in pace.waiting
    gate.hold()
    gate.release()
    assert gate not in pace.waiting


def test_a_short_wait_leaves_other_helpers_their_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PATIENCE_SECONDS", 60.0)
    assert not run_apart(lambda: bool(pace.waiting))
    monkeypatch.setattr(background, "PATIENCE_SECONDS", 0.0)

    def work() -> bool:
        end = time.monotonic() + 60
        while not pace.waiting and time.monotonic() < end:
            time.sleep(0.001)
        return bool(pace.waiting)

    assert run_apart(work)
    assert not pace.waiting
    assert not background._under_way


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="threads have no clocks")
def test_helpers_give_way_to_the_thread_that_submits_work() -> None:
    queue, seen = background.Queue(), list[object]()

    def submit() -> None:
        queue.submit(lambda: None)
        seen.extend([pace._clock, time.pthread_getcpuclockid(threading.get_ident())])

    thread = threading.Thread(target=submit)
    thread.start()
    thread.join()
    queue.finish()
    assert seen[0] == seen[1]


def test_tasks_of_a_paced_thread_are_paced() -> None:
    with pace.paced():
        paced = background.Task(pace.is_paced)
    assert paced.result()
    assert not background.Task(pace.is_paced).result()
    assert not pace.is_paced()


def test_a_paced_helper_rests_before_each_module(slept: list[float], tmp_path: Path) -> None:
    while background._giving_way._inside:
        time.sleep(0.001)
    before = list(sys.meta_path)
    (tmp_path / "module_to_rest_before.py").write_text("", encoding="utf-8")
    found: list[int] = []
    go = threading.Event()

    def work() -> None:
        go.wait(60)
        found.append(len(slept))
        importlib.import_module("module_to_rest_before")
        found.append(len(slept))

    queue = background.Queue()
    sys.path.insert(0, str(tmp_path))
    try:
        queue.submit(work)
        go.set()
        while queue.is_running or background._giving_way._inside:
            time.sleep(0.001)
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("module_to_rest_before", None)
    assert found[1] > found[0]
    assert sys.meta_path == before


def test_added_functions_run_before_the_next_one_that_is_submitted() -> None:
    queue, done = Queue(), []
    queue.add(lambda: done.append(1))
    queue.finish()
    assert not done, "a helper was started for it"
    queue.submit(lambda: done.append(2))
    queue.finish()
    assert done == [1, 2]
