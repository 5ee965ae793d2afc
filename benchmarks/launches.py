"""Where the time of a workload goes, launch by launch: ``python -m benchmarks.launches mlp``.

Every launch of a plan runs as a native call of its own and is timed; the price of an empty call is taken off. Launches
of one kernel on one range are added up. The last lines compare the sum with what the whole step takes: the difference
is Python.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from typing import Any

import numpy as np

import phonograd
from benchmarks.workloads_nd import WORKLOADS
from phonograd import settings
from phonograd.kernels.gemm import Gemm
from phonograd.kernels.structure import Structure
from phonograd.native import driver, jit, program

NOTHING = "define void @nothing(ptr %table, ptr %bases, i64 %lo, i64 %hi) { ret void }"


class TimedRow:
    """A row of launches that run one by one; the best time of each is kept."""

    rows: list[TimedRow] = []

    def __init__(self, launches: list[tuple[jit.Kernel, list[int], int, int]], arrays: int) -> None:
        self.launches = launches
        self.rows_of_one = [driver.Row([launch], arrays) for launch in launches]
        self.whole = driver.Row(launches, arrays)
        self.best = [float("inf")] * len(launches)
        self.best_whole = float("inf")
        self.turn = 0
        TimedRow.rows.append(self)

    def run(self, arrays: tuple[Any, ...]) -> None:
        """Run the launches, every other time one by one."""
        self.turn += 1
        if self.turn % 2:
            start = time.perf_counter()
            self.whole.run(arrays)
            self.best_whole = min(self.best_whole, time.perf_counter() - start)
            return
        for number, row in enumerate(self.rows_of_one):
            start = time.perf_counter()
            row.run(arrays)
            self.best[number] = min(self.best[number], time.perf_counter() - start)


def label(structure: Any, words: list[int]) -> str:
    """Return what a kernel is, in a few words."""
    if isinstance(structure, Gemm):
        return f"product of {structure.dtype} {words[0]}, {words[2]}, {words[1]}"
    if isinstance(structure, Structure):
        names = Counter([getattr(step, "operator", type(step).__name__) for step in structure.steps])
        text = " ".join([f"{name}x{count}" if count > 1 else name for name, count in names.items()])
        return f"{structure.axes} {text}"[:110]
    return type(structure).__name__


def main() -> None:
    """Print the table of a workload."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.launches", description=__doc__)
    parser.add_argument("workload", choices=list(WORKLOADS))
    parser.add_argument("--threads", type=int, default=settings.current().num_threads)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    settings.update(executor="native", num_threads=arguments.threads)
    step = WORKLOADS[arguments.workload](phonograd)
    original = program.Row
    program.Row = TimedRow  # type: ignore[misc, assignment]
    for _ in range(5):
        step()
    jit.finish()
    best = float("inf")
    for row in TimedRow.rows:
        row.turn = 0
    end = time.perf_counter() + arguments.seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - start)
    program.Row = original  # type: ignore[misc]
    empty = driver.Row([(jit.compile_text(NOTHING, "nothing"), [0], 1, 1)], 1)
    array = (np.zeros(1),)
    calls = []
    for _ in range(10_000):
        start = time.perf_counter()
        empty.run(array)
        calls.append(time.perf_counter() - start)
    report(best, min(calls))


def report(best: float, call: float) -> None:
    """Print what was measured."""
    compiler = jit._started()
    structures = {id(kernel): structure for structure, kernel in compiler._kernels.items()}
    total: dict[tuple[str, int, int], list[float]] = {}
    for row in TimedRow.rows:
        if row.turn < 4:
            continue
        for (kernel, words, extent, chunk), seconds in zip(row.launches, row.best, strict=True):
            key = label(structures.get(id(kernel)), words), extent, chunk
            total.setdefault(key, []).append(seconds - call)
    for (name, extent, chunk), found in sorted(total.items(), key=lambda entry: -sum(entry[1])):
        print(f"{sum(found) * 1e6:9.1f} us  {len(found):4d} x {min(found) * 1e6:8.2f}  {extent:6d}/{chunk:<6d} {name}")
    apart = sum([sum(found) for found in total.values()])
    native = sum([row.best_whole for row in TimedRow.rows if row.turn >= 4])
    launches = sum([len(found) for found in total.values()])
    print(f"launches {launches}, apart {apart * 1e6:.1f} us; in rows {native * 1e6:.1f} us; step {best * 1e6:.1f} us")


if __name__ == "__main__":
    main()
