"""Time every step of a workload of :mod:`workloads_novel_nd` in one library: run by ``python -m benchmarks.novel``.

``python novel_worker.py LIBRARY WORKLOAD STEPS THREADS CLOCK`` prints the seconds of each step as one line of JSON: of
the clock on the wall, or of the processor in this thread.
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
    clock = time.thread_time if sys.argv[5] == "processor" else time.perf_counter
    seconds = []
    for number in range(steps):
        start = clock()
        step(number)
        seconds.append(clock() - start)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
