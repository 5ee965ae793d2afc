"""Measure the first iteration in a fresh process: ``python -m benchmarks.first [workload ...]``.

*cold* starts with nothing compiled, *warm* finds the plans and kernels of another process on disk. The clock runs from
the beginning of the first step to the end of its results. It includes importing the planner and llvmlite and starting
the compiler where they are needed, but not importing phonograd and making the inputs (with NumPy). Besides the wall
time, the processor time of the process and of the first thread alone are shown, in milliseconds, the best of several
processes each; *compiler* is the time spent waiting for kernels, *plans* the number found on disk.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.workloads_nd import WORKLOADS

HERE = Path(__file__).parent
COLUMNS = ("clock", "process", "thread", "nodes", "plans", "kernels", "compiler", "second")


def answer(name: str) -> None:
    """Print the facts about the first iteration of a workload, as one line of JSON."""
    import phonograd as mx

    with mx.settings.override(executor="reference"):
        step = WORKLOADS[name](mx)
        mx.nd.waitall()
    assert "llvmlite" not in sys.modules
    mx.settings.update(executor="native")
    before = mx.explain.statistics()["nodes"]
    clock, process, thread = time.perf_counter(), time.process_time(), time.thread_time()
    step()
    facts = {
        "clock": (time.perf_counter() - clock) * 1e3,
        "process": (time.process_time() - process) * 1e3,
        "thread": (time.thread_time() - thread) * 1e3,
    }
    counts = mx.explain.statistics()
    facts["nodes"] = counts["nodes"] - before
    facts["plans"] = counts["plans_loaded"]
    facts["kernels"] = counts["kernels_compiled"] + counts["kernels_loaded"]
    facts["compiler"] = counts["seconds"] * 1e3
    clock = time.perf_counter()
    step()
    facts["second"] = (time.perf_counter() - clock) * 1e3
    from phonograd.core.run import kernel_cache

    # kernels that are used again tier up: a program that has run for a while leaves the full versions on disk
    kernel_cache.wait_for_tier_up()
    print(json.dumps(facts))


def ask(name: str, directory: str, modules: str) -> dict[str, float]:
    """Return the facts about the first iteration of a workload in a new process.

    Python finds compiled modules in ``modules``, as it does where a package is installed.
    """
    environment = {**os.environ, "PHONOGRAD_CACHE_DIRECTORY": directory, "PYTHONPYCACHEPREFIX": modules}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "benchmarks.first", "--here", name]
    found = subprocess.run(command, env=environment, cwd=HERE.parent, capture_output=True, text=True, check=True)
    facts: dict[str, float] = json.loads(found.stdout)
    return facts


def measure(name: str, processes: int, modules: str) -> dict[str, dict[str, float]]:
    """Return the best figures of several processes, without and with kernels on disk."""
    found: dict[str, list[dict[str, float]]] = {"cold": [], "warm": []}
    for _ in range(processes):
        with tempfile.TemporaryDirectory() as directory:
            found["cold"].append(ask(name, directory, modules))
            found["warm"].append(ask(name, directory, modules))
    return {
        kind: {column: min([facts[column] for facts in all_]) for column in COLUMNS} for kind, all_ in found.items()
    }


def main() -> int:
    """Measure workloads and return an exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workload", nargs="*", choices=[*WORKLOADS, []], help="which to run (default: all)")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--here", help="measure one workload in this process")
    arguments = parser.parse_args()
    if arguments.here:
        answer(arguments.here)
        return 0
    print(f"{'workload':12s}{'disk':>6s}" + "".join(f"{column:>10s}" for column in COLUMNS))
    results: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as modules:
        ask("regression", "", modules)
        for name in arguments.workload or list(WORKLOADS):
            results[name] = measure(name, arguments.processes, modules)
            for kind, facts in results[name].items():
                print(f"{name:12s}{kind:>6s}" + "".join(f"{facts[column]:10.1f}" for column in COLUMNS), flush=True)
    if not arguments.workload:
        (HERE / "results" / "first.json").write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
