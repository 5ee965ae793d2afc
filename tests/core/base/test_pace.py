"""Threads that work for later rest when they have delayed the program, and only then."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from phonograd.core.base import pace


class Clock:
    """The clocks of this thread and of a program that goes on while this thread works, or while it rests."""

    def __init__(self) -> None:
        self.now = self.program = 0.0
        #: the part of rests in which the program runs, and how much longer than wanted they are
        self.running, self.longer = 1.0, 1.0
        self.rests: list[float] = []
        self.has_ended = False

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += seconds * self.longer
        self.program += seconds * self.longer * self.running

    def pthread_getcpuclockid(self, thread: int) -> int:
        assert thread == threading.get_ident()
        return 7

    def clock_gettime(self, clock: int) -> float:
        assert clock == 7
        if self.has_ended:
            raise OSError("the thread has ended")
        return self.program

    def work(self, seconds: float, running: float = 0.0) -> int:
        """Work for some time in small pieces while the program runs for a part of it; return the number of rests."""
        before = len(self.rests)
        pieces = round(seconds / 1e-5)
        for _ in range(pieces):
            self.now += seconds / pieces
            self.program += seconds / pieces * running
            pace.rest()
        return len(self.rests) - before


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """Return the clocks of a program, while this thread is paced."""
    found = Clock()
    monkeypatch.setattr(pace, "time", found)
    monkeypatch.setattr(pace, "_clock", None)
    pace.watch()
    with pace.paced():
        yield found


def test_a_thread_rests_after_work_that_delayed_the_program(clock: Clock) -> None:
    assert clock.work(0.8 * pace.WORK_SECONDS) == 0
    assert clock.work(0.4 * pace.WORK_SECONDS) == 1
    assert clock.work(0.8 * pace.WORK_SECONDS) == 0
    assert 8 <= clock.work(10 * pace.WORK_SECONDS) <= 10
    assert set(clock.rests) == {pace.REST_SECONDS}


def test_a_thread_that_need_not_be_ready_soon_rests_longer(clock: Clock) -> None:
    with pace.paced(is_gentle=True):
        clock.work(10 * pace.SHORT_WORK_SECONDS)
    assert len(clock.rests) >= 8
    assert set(clock.rests) == {pace.LONG_REST_SECONDS}


def test_the_thread_of_the_program_is_known(clock: Clock) -> None:
    assert pace.watched() == threading.get_native_id()


def test_kernels_are_not_delayed(clock: Clock) -> None:
    assert clock.work(0.01, running=1.0) == 0
    assert clock.work(0.01, running=0.5) > 10


def test_a_rest_that_was_long_pays_for_longer_work(clock: Clock) -> None:
    clock.longer = 4.0
    clock.work(2 * pace.WORK_SECONDS)
    assert clock.work(2.8 * pace.WORK_SECONDS) == 0
    clock.longer = 1000.0
    clock.work(4 * pace.WORK_SECONDS)
    assert clock.work(0.9 * pace.LONGEST_SECONDS) <= 1


def test_a_program_that_waits_for_something_else_is_not_delayed(clock: Clock) -> None:
    assert clock.work(0.05) > 150
    clock.running = 0.0
    clock.work(0.05)
    assert clock.work(0.05) <= 0.05 / pace.LONGEST_SECONDS + 1
    clock.running = 1.0
    clock.work(0.05)
    assert clock.work(0.05) > 150


@pytest.mark.parametrize("sees", [False, True])
def test_without_a_clock_every_piece_of_work_is_a_delay(clock: Clock, sees: bool) -> None:
    pace.watch(sees)
    clock.has_ended = True
    assert clock.work(0.05, running=1.0) > 150
