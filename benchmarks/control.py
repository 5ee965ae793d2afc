"""Measure small operations that end with a value: ``python -m benchmarks.control``.

A branch on a value, a number that is read, an element, a printed array, inside and outside of ``record()``: programs
that look at their values consist of these. The figures are microseconds of processor time per operation
(:mod:`benchmarks.control_worker`), on one thread, when the operation was done before. Processes of the libraries
alternate, and the best of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.compare import python_of

HERE = Path(__file__).parent


def ask(python: str, library: str) -> dict[str, float]:
    """Return microseconds by operation, from a new process."""
    counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "PHONOGRAD_NUM_THREADS"), "1")
    command = [python, "-W", "ignore", str(HERE / "control_worker.py"), library]
    found = subprocess.run(command, env={**os.environ, **counts}, capture_output=True, text=True, check=True)
    times: dict[str, float] = json.loads(found.stdout)
    return times


def main() -> int:
    """Measure all libraries and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.control", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    pythons = {"phonograd": sys.executable}
    pythons |= {peer: python for peer in ("torch", "mxnet") if (python := python_of(peer)) is not None}
    found: dict[str, dict[str, float]] = {}
    for _ in range(options.rounds):
        for library, python in pythons.items():
            for name, time in ask(python, library).items():
                entry = found.setdefault(name, {})
                entry[library] = min(time, entry.get(library, time))
    print(f"{'microseconds':46}" + "".join([f"{library:>12}" for library in pythons]))
    for name, entry in found.items():
        print(f"{name:46}" + "".join([f"{entry[library]:12.2f}" for library in pythons]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
