"""Time workloads in one library, in a process of its own.

Run by ``python -m benchmarks``, not by hand: ``python worker.py LIBRARY`` reads questions from standard input, one a
line, and answers each with one line of JSON. A question is ``import`` (seconds it took), ``memory`` (growth over 10,000
iterations in KiB), ``first NAME`` (seconds of the first iteration) or the name of a workload (best seconds of some
repetitions). The library is phonograd, mxnet, torch or jax.
"""

import importlib
import json
import resource
import sys
import time

SECONDS_PER_ROUND = 0.4


def timed(step):
    """Return the best time of a step, repeated for a while."""
    best, end = float("inf"), time.perf_counter() + SECONDS_PER_ROUND
    while True:
        start = time.perf_counter()
        step()
        now = time.perf_counter()
        best = min(best, now - start)
        if now > end:
            return best


def growth(step):
    """Return how many KiB the process grows by over 10,000 iterations, after 1,000 to warm up."""
    for _ in range(1000):
        step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(10_000):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def main() -> None:
    """Answer questions until there are no more."""
    library = sys.argv[1]
    started = time.perf_counter()
    module = importlib.import_module(library)
    imported = time.perf_counter() - started
    family = "nd" if library in ("phonograd", "mxnet") else library
    workloads = importlib.import_module(f"workloads_{family}").WORKLOADS
    steps = {}
    for line in sys.stdin:
        question = line.strip()
        name = question.rpartition(" ")[2]
        if question == "import":
            answer = imported
        elif question == "memory":
            answer = growth(workloads["small50"](module))
        else:
            fresh = name not in steps
            if fresh:
                steps[name] = workloads[name](module)
            start = time.perf_counter()
            steps[name]()
            answer = time.perf_counter() - start
            if question == name:
                for _ in range(4 if fresh else 0):
                    steps[name]()
                answer = timed(steps[name])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
