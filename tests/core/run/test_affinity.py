"""Another process is kept off the processor of a thread, and no process that has got its number later."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from phonograd.core.run import affinity
from phonograd.core.run.affinity import Other

WAITING = """
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
input()
"""

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or not os.path.exists("/proc/self/stat"),
    reason="the system does not place threads",
)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """Yield a process with two threads that wait."""
    command = [sys.executable, "-c", WAITING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as found:
        assert found.stdout is not None
        assert found.stdout.readline() == "ready\n"
        yield found
        found.kill()


def places(process: int) -> list[set[int]]:
    return [os.sched_getaffinity(int(thread)) for thread in os.listdir(f"/proc/{process}/task")]


@pytest.mark.skipif(len(getattr(os, "sched_getaffinity", lambda _: ())(0)) < 2, reason="there is one processor")
def test_all_threads_are_kept_off_the_processor_of_a_thread(process: subprocess.Popen[str]) -> None:
    own = os.sched_getaffinity(0)
    last = max(own)
    other = Other(process.pid)
    os.sched_setaffinity(0, {last})
    try:
        here = threading.get_native_id()
        # the thread that asks may be placed otherwise
        kept: list[bool] = []
        thread = threading.Thread(target=lambda: (os.sched_setaffinity(0, own), kept.append(other.keep_away(here))))
        thread.start()
        thread.join()
    finally:
        os.sched_setaffinity(0, own)
    assert kept == [True]
    assert places(process.pid) == [own - {last}] * 2
    other.let_go()
    assert places(process.pid) == [own] * 2


def test_a_process_stays_where_there_is_no_other_processor(process: subprocess.Popen[str]) -> None:
    own = os.sched_getaffinity(0)
    before = places(process.pid)
    os.sched_setaffinity(0, {max(own)})
    try:
        assert not Other(process.pid).keep_away(threading.get_native_id())
    finally:
        os.sched_setaffinity(0, own)
    assert places(process.pid) == before


def test_processes_that_do_not_exist_any_more_are_left_alone(
    process: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = places(process.pid)
    other = Other(process.pid)
    # as if another process had the number
    other._started = ["1"]
    assert not other.keep_away(threading.get_native_id())
    other.let_go()
    assert places(process.pid) == before
    own = os.sched_getaffinity(0)
    assert not Other(0).keep_away(threading.get_native_id())
    assert not Other(process.pid).keep_away(0)
    assert os.sched_getaffinity(0) == own
    monkeypatch.setattr(affinity, "_facts", lambda path: [])
    assert not Other(process.pid).keep_away(threading.get_native_id())


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="the system has no priority for idle cores")
def test_a_process_gives_way(process: subprocess.Popen[str]) -> None:
    Other(process.pid).give_way(threading.get_native_id(), 19)
    assert os.sched_getscheduler(process.pid) == os.SCHED_IDLE
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
    # one that has ended
    process.kill()
    process.wait()
    Other(process.pid).give_way(threading.get_native_id(), 19)
