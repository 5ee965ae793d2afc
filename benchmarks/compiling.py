"""Measure how long kernels take to compile and to run, by optimization level: ``python -m benchmarks.compiling``.

*quickly* omits LLVM's optimizations everywhere, *inner in full* omits them except in inner loops, *in full* optimizes
everything. Every case runs in its own process, on one thread, without kernels on disk. *kernels* is the processor time
of compiling all kernels of an iteration, *iteration* that of a later iteration, in milliseconds, the best of several.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.workloads_nd import WORKLOADS

HERE = Path(__file__).parent
WAYS = ("quickly", "inner in full", "in full")
DEFAULT = ("mlp", "lstm", "lenet", "convbn", "deep-convnet")


def answer(name: str, way: str) -> None:
    """Print the times of a workload whose kernels are compiled in one way, as one line of JSON."""
    import phonograd as mx
    from phonograd.core.run import kernel_cache, objects

    spent, emit = 0.0, objects.ObjectCache._emit

    def timed(self: objects.ObjectCache, text: str, quick: bool) -> bytes:
        nonlocal spent
        start = time.thread_time()
        try:
            return emit(self, text, way != "in full")
        finally:
            spent += time.thread_time() - start

    objects.ObjectCache._emit = timed  # type: ignore[method-assign]
    if way == "quickly":
        objects.divided = lambda text: None
    # later iterations run what the first one compiled
    kernel_cache.tier_up = lambda some: None
    mx.settings.update(executor="native", cache_directory="", num_threads=1)
    with mx.settings.override(executor="reference"):
        step = WORKLOADS[name](mx)
        mx.nd.waitall()
    step()
    compiled = spent
    times = []
    for _ in range(8):
        start = time.thread_time()
        step()
        times.append(time.thread_time() - start)
    print(json.dumps([compiled * 1e3, min(times[1:]) * 1e3]))


def ask(name: str, way: str, processes: int) -> list[float]:
    """Return the best times of several processes."""
    command = [sys.executable, "-m", "benchmarks.compiling", "--here", name, way]
    found = [
        json.loads(subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=True).stdout)
        for _ in range(processes)
    ]
    return [min(times) for times in zip(*found, strict=True)]


def main() -> int:
    """Measure workloads and return an exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compiling", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workload", nargs="*", choices=[*WORKLOADS, []], help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--here", nargs=2, metavar=("WORKLOAD", "WAY"), help="measure one case in this process")
    arguments = parser.parse_args()
    if arguments.here:
        answer(*arguments.here)
        return 0
    os.environ.pop("PHONOGRAD_NUM_THREADS", None)
    print(f"{'workload':14s}{'compiled':>16s}{'kernels':>10s}{'iteration':>11s}")
    for name in arguments.workload or DEFAULT:
        for way in WAYS:
            kernels, iteration = ask(name, way, arguments.processes)
            print(f"{name:14s}{way:>16s}{kernels:10.1f}{iteration:11.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
