"""Show where the time of a workload goes, launch by launch: ``python -m benchmarks.launches mlp``.

Extra launches between the launches of a program only record the time, so each launch is measured in place, with its
usual caches and threads (except that independent launches run one after the other). Times are medians over many rounds;
launches of one kernel on one range are added up. The last line compares the sum with the unmodified launches and with
the whole step: the difference is Python.
"""

from __future__ import annotations

import argparse
import operator
import time
from collections import Counter
from typing import Any

import numpy as np

import phonograd
from benchmarks.workloads_nd import WORKLOADS
from phonograd import settings
from phonograd.core.kernels.matmul.amx import MatrixUnit
from phonograd.core.kernels.matmul.gemm import Gemm
from phonograd.core.kernels.structure import Structure
from phonograd.core.run import driver, kernel_cache, program

#: writes the processor's clock to the address in its table
CLOCK = """
declare i64 @llvm.readcyclecounter()
define void @clock(ptr %table, ptr %bases, i64 %lo, i64 %hi) {
  %now = call i64 @llvm.readcyclecounter()
  %place = load ptr, ptr %table, align 8
  store i64 %now, ptr %place, align 8
  ret void
}
"""


class TimedRow:
    """Run a sequence of launches and record the time after each."""

    rows: list[TimedRow] = []
    clock: kernel_cache.Kernel | None = None

    def __init__(
        self,
        launches: list[tuple[kernel_cache.Kernel, list[int], int, int]],
        arrays: int,
        regions: list[int] | None = None,
        flag: int = -1,
    ) -> None:
        if TimedRow.clock is None:
            TimedRow.clock = kernel_cache.compile_text(CLOCK, "clock")
        self.launches = launches
        self.clocks = np.zeros(len(launches) + 1, np.int64)
        row = [(TimedRow.clock, [self.clocks.ctypes.data], 1, 1)]
        for number, launch in enumerate(launches, 1):
            row += [launch, (TimedRow.clock, [self.clocks.ctypes.data + 8 * number], 1, 1)]
        self._timed = driver.Row(row, arrays, flag=flag)
        self._plain = driver.Row(launches, arrays, regions, flag)
        self._turn = 0
        self.found: list[Any] = []
        self.seconds: list[float] = []
        TimedRow.rows.append(self)

    def launcher(self, slots: Any, made: Any, room: int) -> Any:
        """Return a replacement of the Python run function that times its launches."""
        arrays_of, arena = operator.itemgetter(*slots), np.empty(room, np.uint8)

        def launch(values: list[Any]) -> bool:
            for slot, shape, dtype in made:
                if values[slot] is None:
                    values[slot] = np.empty(shape, dtype)
            arrays = list(arrays_of(values))
            if room:
                arrays[1] = arena
            self.run(tuple(arrays))
            return True

        return launch

    def run(self, arrays: tuple[Any, ...]) -> None:
        """Run the launches, every other time unmodified."""
        self._turn += 1
        start = time.perf_counter()
        if self._turn % 2:
            self._plain.run(arrays)
            self.seconds.append(time.perf_counter() - start)
        else:
            self._timed.run(arrays)
            self.found.append(np.diff(self.clocks))


def label(structure: Any, words: list[int]) -> str:
    """Describe a kernel in a few words."""
    if isinstance(structure, Gemm):
        return f"product of {structure.dtype} {words[0]}, {words[2]}, {words[1]}"
    if isinstance(structure, MatrixUnit):
        return f"product by parts {words[0]}, {words[2]}, {words[1]}"
    if isinstance(structure, Structure):
        names = Counter([getattr(step, "operator", type(step).__name__) for step in structure.steps])
        text = " ".join([f"{name}x{count}" if count > 1 else name for name, count in names.items()])
        return f"{structure.axes} {text}"[:110]
    return type(structure).__name__


def ticks_per_second() -> float:
    """Return the frequency of the processor's clock."""
    row = TimedRow([], 1)
    array = (np.zeros(1),)
    row._timed.run(array)
    first, start = int(row.clocks[0]), time.perf_counter()
    time.sleep(0.1)
    row._timed.run(array)
    return (int(row.clocks[0]) - first) / (time.perf_counter() - start)


def main() -> None:
    """Print the table of a workload."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.launches", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workload", choices=list(WORKLOADS))
    parser.add_argument("--threads", type=int, default=settings.current().num_threads)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    # plans from the disk do not contain the nodes of their kernels
    settings.update(executor="native", num_threads=arguments.threads, cache_directory="")
    step = WORKLOADS[arguments.workload](phonograd)
    original = program.Row
    program.Row = TimedRow  # type: ignore[misc, assignment]
    for _ in range(5):
        step()
    kernel_cache.wait_for_tier_up()
    steps = []
    for row in TimedRow.rows:
        row.found, row.seconds = [], []
    end = time.perf_counter() + arguments.seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        step()
        steps.append(time.perf_counter() - start)
    program.Row = original  # type: ignore[misc]
    report(float(np.median(steps)), min(steps), ticks_per_second())


def report(median: float, best: float, rate: float) -> None:
    """Print the measurements."""
    structures = {id(kernel): structure for structure, kernel in kernel_cache._cache()._kernels.items()}
    total: dict[tuple[str, int, int], list[float]] = {}
    rows = [row for row in TimedRow.rows if len(row.found) > 1]
    for row in rows:
        times = np.median(row.found, axis=0) / rate
        for (kernel, words, extent, chunk), seconds in zip(row.launches, times, strict=True):
            key = label(structures.get(id(kernel)), words), extent, chunk
            total.setdefault(key, []).append(float(seconds))
    for (name, extent, chunk), found in sorted(total.items(), key=lambda entry: -sum(entry[1])):
        print(f"{sum(found) * 1e6:9.1f} us  {len(found):4d} x {min(found) * 1e6:8.2f}  {extent:6d}/{chunk:<6d} {name}")
    apart = sum([sum(found) for found in total.values()])
    native, quickest = [sum([float(function(row.seconds)) for row in rows]) for function in (np.median, np.min)]
    launches = sum([len(found) for found in total.values()])
    print(f"{launches} launches {apart * 1e6:.1f} us; rows {native * 1e6:.1f} us (best {quickest * 1e6:.1f}); ", end="")
    print(f"step {median * 1e6:.1f} us (best {best * 1e6:.1f})")


if __name__ == "__main__":
    main()
