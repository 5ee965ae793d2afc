"""Time every step of a workload of :mod:`workloads_novel_nd` in one library: run by ``python -m benchmarks.novel``.

``python novel_worker.py LIBRARY WORKLOAD STEPS THREADS`` prints the seconds of each step as one line of JSON.
"""

import importlib
import json
import os
import sys
import time


def main():
    """Run the steps and print their times."""
    library, name, steps, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    module = importlib.import_module(library)
    tables = importlib.import_module("workloads_novel_" + ("torch" if library == "torch" else "nd"))
    step = tables.WORKLOADS[name](module)
    seconds = []
    for number in range(steps):
        start = time.perf_counter()
        step(number)
        seconds.append(time.perf_counter() - start)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
