"""Measure new processes: ``python -m benchmarks.cold [workload ...]``.

Each library runs the first hundred training steps of a workload of :mod:`benchmarks.workloads_nd` or
:mod:`benchmarks.workloads_models_nd` in a fresh process; phonograd with an empty cache directory (*cold*) and with the
one that this leaves behind (*warm*). The figures are milliseconds from the start of the process to the end of the
import, and to the end of the first step, and the slowest of the other steps in proportion to their median: by the clock,
and by the processor time of the thread that runs them, which other programs hardly change. Rounds alternate between the
libraries; the best of each figure counts. ``PHONOGRAD_PLANNER=thread`` measures without the planner process.
``--write`` keeps the results and writes the table of docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks import machine, report
from benchmarks.compare import python_of

HERE = Path(__file__).parent
WORKLOADS = ("mlp", "lenet", "lstm", "attention", "deep-convnet", "resnet18", "bert")


class Start(NamedTuple):
    """Milliseconds until the import and the first step are complete, and the slowest step / the median."""

    imported: float
    first: float
    slowest: float
    slowest_own: float
    """The same by the processor time of the thread."""


class Options(NamedTuple):
    """What each process is to do, and whether to print the times of its steps."""

    steps: int
    threads: int
    is_listed: bool


def ask(python: str, library: str, name: str, options: Options, directory: str) -> Start:
    """Return the times of a workload in a new process."""
    steps, threads, is_listed = options
    counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "PHONOGRAD_NUM_THREADS"), str(threads))
    environment = {**os.environ, **counts, "PHONOGRAD_CACHE_DIRECTORY": directory}
    # an installed package has byte code: without it, a process compiles each module that it imports
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    machine.settle()
    command = [python, "-W", "ignore", str(HERE / "cold_worker.py"), library, name, str(steps), str(time.time())]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    imported, first, others, own = json.loads(found.stdout)
    if is_listed:
        listed = [f"{1e3 * clock:.1f}/{1e3 * thread:.1f}" for clock, thread in zip(others, own, strict=True)]
        print(f"  {library}, ms of each step by the clock/of the thread: {' '.join(listed)}")
    ratios = [max(times) / statistics.median(times) for times in (others, own)]
    return Start(imported * 1e3, first * 1e3, *ratios)


def measure(name: str, rounds: int, options: Options) -> dict[str, Start]:
    """Return the best times of a workload by library; phonograd is ``cold`` and ``warm``."""
    peers = {peer: python for peer in ("mxnet", "torch") if (python := python_of(peer)) is not None}
    found: dict[str, list[Start]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            for kind in ("cold", "warm"):
                found.setdefault(kind, []).append(ask(sys.executable, "phonograd", name, options, directory))
            for peer, python in peers.items():
                found.setdefault(peer, []).append(ask(python, peer, name, options, directory))
    return {kind: Start(*[min(column) for column in zip(*all_, strict=True)]) for kind, all_ in found.items()}


def main() -> int:
    """Measure workloads and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold", description=__doc__.partition("\n")[0])
    parser.add_argument("workload", nargs="*", default=[], help=f"which to run (default: {', '.join(WORKLOADS)})")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="print the times of all steps")
    parser.add_argument("--write", action="store_true", help="keep the results of all and write the documents' figures")
    options = parser.parse_args()
    if options.write and options.workload:
        parser.error("only the results of all workloads are kept")
    results: dict[str, dict[str, Start]] = {}
    facts = {**machine.description(), "load_before": machine.load()}
    print(f"{'workload':19}{'library':9}{'import':>8}{'first step':>12}{'slowest / median':>18}{'of the thread':>15}")
    for name in options.workload or WORKLOADS:
        results[name] = measure(name, options.rounds, Options(options.steps, options.threads, options.list))
        for kind, times in results[name].items():
            shown = f"{times.imported:8.0f}{times.first:12.0f}{times.slowest:18.1f}{times.slowest_own:15.1f}"
            print(f"cold-{name:14}{kind:9}{shown}", flush=True)
    if options.write:
        kept = {"machine": facts, "steps": options.steps, "rounds": options.rounds, "threads": options.threads}
        kept["starts"] = {name: {kind: s._asdict() for kind, s in all_.items()} for name, all_ in results.items()}
        (HERE / "results" / "cold.json").write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
        report.write_pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
