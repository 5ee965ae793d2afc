"""Time the first steps of a workload in a new process: run by ``python -m benchmarks.cold``.

``python cold_worker.py LIBRARY WORKLOAD STEPS START`` prints one line of JSON: the seconds from START (the time at which
this process was started) to the end of the import and of the first step, and the seconds of each other step, by the
clock and of the thread.
"""

import importlib
import json
import sys
import time


def main():
    """Run the steps and print their times."""
    library, name, steps, start = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    module = importlib.import_module(library)
    imported = time.time() - start
    kind = "models_" if name in ("resnet18", "bert") else ""
    tables = importlib.import_module(f"workloads_{kind}" + ("torch" if library == "torch" else "nd"))
    step = tables.WORKLOADS[name](module)
    step()
    first = time.time() - start
    seconds, own = [], []
    for _ in range(steps - 1):
        begin, begin_own = time.perf_counter(), time.thread_time()
        step()
        seconds.append(time.perf_counter() - begin)
        own.append(time.thread_time() - begin_own)
    print(json.dumps([imported, first, seconds, own]))


if __name__ == "__main__":
    main()
