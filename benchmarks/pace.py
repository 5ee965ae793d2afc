"""Measure how much a thread that plans delays the program: ``python -m benchmarks.pace [workload ...]``.

Steps of a workload run operator by operator, while another thread works as a planner does: Python code, with a
:func:`~phonograd.core.base.pace.rest` every 50 us or so. The table has the median time of a step in proportion to that
without the thread, and the processor time of the thread in proportion to the time, for several lengths of work
and rest. A *blind* thread does not see what the program does, and rests after each piece of work. Rounds alternate
between them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import phonograd as mx
from benchmarks.workloads_nd import WORKLOADS
from phonograd.core.base import pace
from phonograd.core.plan import promotion
from phonograd.core.run.background import SWITCH_SECONDS


class Pace(NamedTuple):
    """Milliseconds of work and rest, and whether a thread sees what the program does."""

    work: float
    rest: float
    sees: bool = True


#: None for a thread that never rests
PACES = (
    None,
    Pace(0.25, 0.75, sees=False),
    Pace(0.25, 0.5, sees=False),
    Pace(0.25, 0.75),
    Pace(0.25, 0.5),
    Pace(0.25, 0.25),
    Pace(0.5, 0.5),
)


class Planner:
    """A thread that works at some pace, as long as a ``with`` block is executed."""

    def __init__(self, at: Pace | None) -> None:
        self._at = at
        self._is_over = False
        self._thread = threading.Thread(target=self._work)
        self.share = 0.0

    def __enter__(self) -> None:
        if self._at is not None:
            pace.WORK_SECONDS, pace.REST_SECONDS = self._at.work / 1e3, self._at.rest / 1e3
            pace.watch(self._at.sees)
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._is_over = True
        self._thread.join()

    def _work(self) -> None:
        begin = time.perf_counter()
        with pace.paced(self._at is not None):
            while not self._is_over:
                for _ in range(8):
                    _ = {number: number for number in range(50)}
                pace.rest()
        self.share = time.thread_time() / (time.perf_counter() - begin)


def run(step: Callable[[], object], seconds: float) -> list[float]:
    """Return the times of steps."""
    found = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        found.append(time.perf_counter() - begin)
    return found


def measure(name: str, rounds: int, seconds: float) -> None:
    """Print the rows of a workload."""
    step = WORKLOADS[name](mx)
    for _ in range(10):
        step()
    alone: list[float] = []
    beside: dict[object, list[float]] = {at: [] for at in PACES}
    shares: dict[object, list[float]] = {at: [] for at in PACES}
    for _ in range(rounds):
        alone += run(step, seconds)
        for at in PACES:
            planner = Planner(at)
            with planner:
                beside[at] += run(step, seconds)
            shares[at].append(planner.share)
    for at in PACES:
        shown = "never rests" if at is None else f"{at.work} ms, rests {at.rest} ms" + ("" if at.sees else ", blind")
        ratio = statistics.median(beside[at]) / statistics.median(alone)
        print(f"{name:12}{shown:32}{ratio:8.2f}{statistics.median(shares[at]):8.2f}", flush=True)


def main() -> int:
    """Measure workloads and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pace", description=__doc__.partition("\n")[0])
    parser.add_argument("workload", nargs="*", default=["mlp", "attention"])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    # no plan takes over
    promotion.is_due = lambda plan: False
    sys.setswitchinterval(SWITCH_SECONDS)
    print(f"{'workload':12}{'a thread works':32}{'delay':>8}{'works':>8}")
    for name in options.workload:
        measure(name, options.rounds, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
