"""Tasks that any thread may do, and the gate that a process is forked behind."""

import threading
import time

import pytest

from phonograd.core.run.background import Gate, Task, TaskPool
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
