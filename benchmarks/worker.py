"""Time workloads in one library, in a separate process.

Run by ``python -m benchmarks``, not by hand: ``python worker.py LIBRARY THREADS TABLES`` reads questions from standard
input, one a line, and answers each with one line of JSON. The library is phonograd, mxnet, torch, jax or onnxruntime;
its workloads are in the module ``TABLES_nd``, ``TABLES_torch`` and so on. On one thread the
processor time of the process is measured, which other programs disturb least; on several threads the wall time.

==================  ==================================================================================================
``version``         the version of the library
``names``           the workloads that the library has
``memory``          growth of the process in KiB over 10,000 iterations of ``small50``
``time NAME``       best time of several iterations of a workload, in seconds
``work NAME``       operations, bytes that must move, bytes that launches move (phonograd only)
``peaks``           operations and bytes per second of this machine (phonograd only)
==================  ==================================================================================================
"""

import importlib
import json
import os
import sys
import time

SECONDS_PER_ROUND = 0.4
#: the system's clock of processor time takes up to 1 us, and may stand still for 4 us
SECONDS_PER_SAMPLE = 2e-4
#: the part of a sample in which the process must have run. On virtual machines the clock of processor time stands still
#: for whole samples, and would make them the best
LEAST_RUNNING = 0.9
WARM_UPS = 5
#: seconds of more warm-up for phonograd, by table
WARM_SECONDS = {
    "workloads_nd": 1,
    "workloads_models_nd": 4,
    "workloads_lookups_nd": 0.3,
    "workloads_functions_nd": 0.3,
    "workloads_compiled_nd": 0.3,
}


def resident():
    """Return the memory of this process in KiB (Linux)."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


class Library:
    """Hold a library and the steps of its workloads."""

    def __init__(self, name, threads, tables):
        self.clock = time.process_time if threads == 1 else time.perf_counter
        self.module = importlib.import_module(name)
        self.is_ours = name == "phonograd"
        tables = importlib.import_module(f"{tables}_" + ("nd" if name in ("phonograd", "mxnet") else name))
        missing = tables.ONLY_PHONOGRAD if name == "mxnet" else ()
        self.workloads = {workload: make for workload, make in tables.WORKLOADS.items() if workload not in missing}
        self.steps = {}
        self.warm_seconds = WARM_SECONDS.get(tables.__name__, 0)

    def step(self, name):
        """Return the step of a workload after a few warm-up runs; None if it cannot be made."""
        if name not in self.steps:
            step = self.steps[name] = self.workloads[name](self.module)
            if step is None:
                return None
            for _ in range(WARM_UPS):
                step()
            if self.is_ours and "phonograd.core.run.kernel_cache" in sys.modules:
                sys.modules["phonograd.core.run.kernel_cache"].wait_for_tier_up()
                # plans and kernels of large graphs are made while steps go on
                end = time.perf_counter() + self.warm_seconds
                while time.perf_counter() < end:
                    step()
                if self.warm_seconds:
                    self.finish_helpers(step)
        return self.steps[name]

    def finish_helpers(self, step):
        """Wait for plans and kernels: on one core they may take longer, and processor time would contain theirs."""
        for _ in range(WARM_UPS):
            sys.modules["phonograd.core.plan.promotion"].finish()
            sys.modules["phonograd.core.run.kernel_cache"].wait_for_tier_up()
            # a plan that has just taken over has its kernels compiled in full when it has run twice
            step()
            step()

    def time(self, name):
        """Return the best time of repeated steps; short ones are timed several at once, as the clock takes time itself.

        It is infinite if there is no step.
        """
        step, clock = self.step(name), self.clock
        if step is None:
            return float("inf")
        start = time.perf_counter()
        step()
        count = range(max(1, int(SECONDS_PER_SAMPLE / (time.perf_counter() - start))))
        best = any_best = float("inf")
        end = time.perf_counter() + SECONDS_PER_ROUND
        while True:
            wall_start, start = time.perf_counter(), clock()
            for _ in count:
                step()
            taken, wall = clock() - start, time.perf_counter() - wall_start
            if taken >= LEAST_RUNNING * wall:
                best = min(best, taken / len(count))
            any_best = min(any_best, max(taken, LEAST_RUNNING * wall) / len(count))
            if time.perf_counter() > end:
                return best if best < float("inf") else any_best

    def growth(self):
        """Return the growth of the process in KiB over 10,000 iterations, after 1,000 to warm up."""
        step = self.step("small50")
        for _ in range(1000):
            step()
        before = resident()
        for _ in range(10_000):
            step()
        return resident() - before

    def answer(self, question, name):
        """Return the answer to a question."""
        if question == "version":
            return self.module.__version__
        if question == "names":
            return list(self.workloads)
        if question == "memory":
            return self.growth()
        if question == "time":
            return self.time(name)
        roofline = importlib.import_module("roofline")
        return roofline.measured_peaks(self.clock) if question == "peaks" else roofline.work_of_step(self.step(name))


def main():
    """Answer questions until the input ends."""
    name, threads, tables = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    library = Library(name, threads, tables)
    for line in sys.stdin:
        question, _, workload = line.strip().partition(" ")
        print(json.dumps(library.answer(question, workload)), flush=True)


if __name__ == "__main__":
    main()
