"""Recurrent networks with and without strips, in turns: ``python -m benchmarks.strips [workload ...]``.

Printed are the jobs of a step's plan, the regions between which threads wait for each other, and the best time of a
step, for both; the last column is how many times faster it is with strips (see :mod:`phonograd.native.regions`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

WORKLOADS = ["gluon-rnn", "gluon-lstm", "gluon-gru", "lstm", "gru"]
#: turns, and how long a process measures a workload
TURNS, SECONDS = 5, 1.0


def measured(workloads: list[str], strip_jobs: int) -> dict[str, Any]:
    """Return jobs, regions and milliseconds by workload, in this process."""
    import phonograd as mx
    from benchmarks.workloads_nd import WORKLOADS as WRITTEN
    from phonograd.native import layout, regions

    regions.STRIP_JOBS = strip_jobs
    regions_of, counts = layout.regions_of, list[tuple[int, int]]()

    def counted(*arguments: Any) -> regions.Regions:
        found = regions_of(*arguments)
        counts.append((len(found.numbers), len(set(found.numbers))))
        return found

    layout.regions_of = counted
    results = {}
    for workload in workloads:
        counts.clear()
        step = WRITTEN[workload](mx)
        for _ in range(5):
            step()
        best, stop = float("inf"), time.perf_counter() + SECONDS
        while time.perf_counter() < stop:
            start = time.perf_counter()
            step()
            best = min(best, time.perf_counter() - start)
        results[workload] = [*max(counts), best * 1e3]
    return results


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.strips", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workload", nargs="*", default=WORKLOADS)
    parser.add_argument("--jobs", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.jobs is not None:
        print(json.dumps(measured(arguments.workload, arguments.jobs)))
        return
    found: dict[int, list[dict[str, Any]]] = {0: [], 16: []}
    for _ in range(TURNS):
        for jobs, results in found.items():
            # plans that lie on a disk would be read as they were made
            with tempfile.TemporaryDirectory() as cache:
                command = [sys.executable, "-m", "benchmarks.strips", *arguments.workload, "--jobs", str(jobs)]
                environment = {**os.environ, "PHONOGRAD_CACHE_DIRECTORY": cache}
                text = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
                results.append(json.loads(text))
    print(f"{'workload':12}{'jobs':>6}{'regions':>9}{'with strips':>13}{'ms':>8}{'with strips':>13}{'faster':>8}")
    for workload in arguments.workload:
        without, strips = [min([turn[workload] for turn in found[jobs]], key=lambda one: one[2]) for jobs in found]
        line = f"{workload:12}{without[0]:6}{without[1]:9}{strips[1]:13}{without[2]:8.2f}{strips[2]:13.2f}"
        print(f"{line}{without[2] / strips[2]:8.2f}")


if __name__ == "__main__":
    main()
