"""Measure the distance to the roofline: the least work of a step, and how fast this machine can do it.

``python -m benchmarks.roofline [workload ...]`` prints, for one step of each workload, the operations (operators
declare their ``cost``; an exponential counts as ten), the bytes that must move (the inputs of a plan and the results
that are kept, each once), and the bytes that the launches of the plan read and write. The *bound* is the least time in
which this machine could do it: the longer of the operations at the rate of a large matrix product and the bytes at the
rate of ``b + 3 * c`` on arrays that no cache holds. Data in a cache can move faster than that, so small workloads may
exceed it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np


class Work(NamedTuple):
    """Hold the work of a step."""

    operations: float
    """additions and multiplications; other functions count as several"""
    least_bytes: int
    """inputs and kept results, each byte once"""
    moved_bytes: int
    """bytes that the launches read and write"""

    def __add__(self, other: tuple[Any, ...]) -> Work:
        return Work(*[mine + others for mine, others in zip(self, other, strict=True)])


class Peaks(NamedTuple):
    """Hold the peak rates of a machine."""

    operations_per_second: float
    bytes_per_second: float

    def bound(self, work: Work) -> float:
        """Return the least time of some work in seconds."""
        return max(work.operations / self.operations_per_second, work.least_bytes / self.bytes_per_second)


# -- work of a step


def _bytes(nodes: Iterable[Any]) -> int:
    return sum([node.size * node.dtype.itemsize for node in nodes if node.outputs is None])


def work_of(program: Any) -> Work:
    """Return the work of one run of a native program."""
    from phonograd.core.derive.costs import flops_of

    computed = {node for part in program.parts for node in part.nodes}
    return Work(
        sum([flops_of(node) for node in computed]),
        _bytes(program.inputs) + _bytes([node for node, _ in program.kept]),
        sum([_bytes(part.memory) for part in program.parts]),
    )


def work_of_step(step: Callable[[], None]) -> Work:
    """Return the work of one call of a function, from the native programs that it runs."""
    from phonograd import settings
    from phonograd.core.run.program import RecipeProgram

    seen: list[Any] = []
    running: list[Any] = []
    run = RecipeProgram.run

    def noted(program: Any, *arguments: Any) -> Any:
        if not running:
            # a program with packed inputs that runs another form of itself does its work once
            seen.append(program)
        running.append(program)
        try:
            return run(program, *arguments)
        finally:
            running.pop()

    RecipeProgram.run = noted  # type: ignore[assignment, method-assign]
    try:
        with settings.override(tiers="plan"):
            step()
    finally:
        RecipeProgram.run = run  # type: ignore[method-assign]
    return sum([work_of(program) for program in seen], Work(0.0, 0, 0))


# -- peak rates of the machine


def best_of(function: Callable[[], object], clock: Callable[[], float], seconds: float) -> float:
    """Return the best time of repeated calls of a function."""
    function()
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = clock()
        function()
        best = min(best, clock() - start)
        if time.perf_counter() > end:
            return best


def measured_peaks(clock: Callable[[], float] = time.perf_counter, seconds: float = 2.0) -> Peaks:
    """Return the rates of the largest matrix product and of a sum of arrays that no cache holds, on all threads."""
    import phonograd as mx

    size, elements = 2048, 32 << 20
    a, b = np.ones((size, size), np.float32), np.ones((size, size), np.float32)
    left, right = mx.nd.array(a), mx.nd.array(b)
    x, y = mx.nd.ones((elements,)), mx.nd.ones((elements,))
    mx.nd.waitall()
    product = min(
        best_of(lambda: np.matmul(a, b), clock, seconds),
        best_of(lambda: mx.nd.dot(left, right).wait_to_read(), clock, seconds),
    )
    triad = best_of(lambda: (x + 3 * y).wait_to_read(), clock, seconds)
    return Peaks(2.0 * size**3 / product, 3 * 4 * elements / triad)


def main() -> int:
    """Print the work of workloads and return an exit status."""
    import phonograd as mx
    from benchmarks.workloads_nd import WORKLOADS

    parser = argparse.ArgumentParser(prog="python -m benchmarks.roofline", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workload", nargs="*", choices=[*WORKLOADS, []], help="which to look at (default: all)")
    names = parser.parse_args().workload or list(WORKLOADS)
    peaks = measured_peaks()
    print(f"{peaks.operations_per_second / 1e9:.0f} GFLOP/s, {peaks.bytes_per_second / 1e9:.1f} GB/s")
    print(f"{'workload':18s}{'MFLOP':>10s}{'least MB':>10s}{'moved MB':>10s}{'bound us':>10s}")
    for name in names:
        step = WORKLOADS[name](mx)
        for _ in range(3):
            step()
        work = work_of_step(step)
        figures = (work.operations / 1e6, work.least_bytes / 1e6, work.moved_bytes / 1e6, peaks.bound(work) * 1e6)
        print(f"{name:18s}" + "".join(f"{figure:10.2f}" for figure in figures), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
