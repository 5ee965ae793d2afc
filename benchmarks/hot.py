"""Measure hot functions as Python and as machine code: ``python -m benchmarks.hot [workload ...]``.

The programs are those of :mod:`benchmarks.workloads_novel_nd`, which are new in every step. Each form runs in fresh
processes, in turn. A process warms up and then times the same steps, in processor time of its thread; of each step the
best of all rounds counts. The figures are means over the steps, in milliseconds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

#: steps before the measurement, and measured ones
STEPS = {"new-chains": (200, 300), "trees": (40, 40), "new-shapes": (100, 150), "search": (60, 60), "control": (60, 60)}
FORMS = ("python", "machine code")


def measure(name: str, form: str) -> list[float]:
    """Return the seconds of each step in this process."""
    import phonograd
    from phonograd.core.backward import eager, machine_code

    assert eager
    sys.path.insert(0, str(Path(__file__).parent))
    workloads: Any = importlib.import_module("workloads_novel_nd")
    step, (before, count) = workloads.WORKLOADS[name](phonograd), STEPS[name]
    code = machine_code.install()
    assert code is not None, "this interpreter has no hot functions"
    if form == "python":
        code.uninstall()
    for number in range(before):
        step(number)
    seconds = []
    for number in range(before, before + count):
        start = time.thread_time()
        step(number)
        seconds.append(time.thread_time() - start)
    return seconds


def main() -> int:
    """Measure workloads and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hot", description=__doc__.partition("\n")[0])
    parser.add_argument("workload", nargs="*", default=[], help=f"which to run (default: all): {', '.join(STEPS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--form", choices=FORMS, help="run one form in this process, and print JSON")
    options = parser.parse_args()
    if options.form:
        print(json.dumps(measure(options.workload[0], options.form)))
        return 0
    environment = {**os.environ, "PHONOGRAD_NUM_THREADS": "1"}
    print(f"{'workload':12}{'Python':>10}{'machine code':>14}{'ratio':>8}")
    for name in options.workload or STEPS:
        best: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            for form in FORMS:
                command = [sys.executable, "-W", "ignore", "-m", "benchmarks.hot", name, "--form", form]
                found = json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
                best[form] = [min(pair) for pair in zip(best.get(form, found), found, strict=True)]
        python, machine = [sum(best[form]) / STEPS[name][1] * 1e3 for form in FORMS]
        print(f"{name:12}{python:10.3f}{machine:14.3f}{python / machine:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
