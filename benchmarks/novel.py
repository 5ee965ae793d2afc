"""Measure programs that are new in every step: ``python -m benchmarks.novel [workload ...]``.

Each library runs each workload (:mod:`benchmarks.workloads_novel_nd`) in fresh processes. Rounds alternate between the
libraries, and the best round of each counts. phonograd runs with an empty cache directory (*cold*) and with the one
that the cold runs leave behind (*warm*). The figures are milliseconds: the first step, and the mean of all later ones,
pauses included. Ratios are peer / phonograd, so above 1 phonograd is faster. ``--clock processor`` measures processor
time of the main thread, for machines that are busy with other work. ``--write`` keeps the results and writes the table
of README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks import machine, report
from benchmarks.compare import python_of
from benchmarks.workloads_novel_nd import WORKLOADS

HERE = Path(__file__).parent


class Times(NamedTuple):
    """Milliseconds of the first step, and the mean of the others."""

    first: float
    later: float


def ask(python: str, library: str, name: str, steps: int, threads: int, directory: str, clock: str) -> Times:
    """Return the times of a workload in a new process."""
    counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "PHONOGRAD_NUM_THREADS"), str(threads))
    environment = {**os.environ, **counts, "PHONOGRAD_CACHE_DIRECTORY": directory}
    # an installed package has byte code: without it, a process compiles each module that it imports
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [python, "-W", "ignore", str(HERE / "novel_worker.py"), library, name, str(steps), str(threads), clock]
    machine.settle()
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    first, *others = json.loads(found.stdout)
    return Times(first * 1e3, sum(others) / len(others) * 1e3)


def measure(name: str, steps: int, rounds: int, threads: int, clock: str) -> dict[str, Times]:
    """Return the best times of a workload by library; phonograd is ``cold`` and ``warm``."""
    peers = {peer: python for peer in ("mxnet", "torch") if (python := python_of(peer)) is not None}
    found: dict[str, list[Times]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as directory:
            for kind in ("cold", "warm"):
                times = ask(sys.executable, "phonograd", name, steps, threads, directory, clock)
                found.setdefault(kind, []).append(times)
            for peer, python in peers.items():
                found.setdefault(peer, []).append(ask(python, peer, name, steps, threads, directory, clock))
    return {kind: Times(*[min(column) for column in zip(*all_, strict=True)]) for kind, all_ in found.items()}


def main() -> int:
    """Measure workloads and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.novel", description=__doc__.partition("\n")[0])
    parser.add_argument("workload", nargs="*", default=[], help=f"which to run (default: all): {', '.join(WORKLOADS)}")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall")
    parser.add_argument("--write", action="store_true", help="keep the results of all and write the documents' figures")
    options = parser.parse_args()
    if options.write and (options.workload or options.clock != "wall"):
        parser.error("only the results of all workloads by the clock on the wall are kept")
    results: dict[str, dict[str, Times]] = {}
    facts = {**machine.description(), "load_before": machine.load()}
    print(f"{'workload':12}{'cold':>10}{'warm':>10}{'MXNet':>8}{'PyTorch':>9}   first steps: ours cold, warm, PyTorch")
    for name in options.workload or WORKLOADS:
        found = results[name] = measure(name, options.steps, options.rounds, options.threads, options.clock)
        warm = found["warm"].later
        ratios = [f"{found[peer].later / warm:.2f}" if peer in found else "-" for peer in ("mxnet", "torch")]
        firsts = [f"{found[kind].first:.0f}" if kind in found else "-" for kind in ("cold", "warm", "torch")]
        print(f"{name:12}{found['cold'].later:10.2f}{warm:10.2f}{ratios[0]:>8}{ratios[1]:>9}   {' '.join(firsts)}")
    if options.write:
        kept = {"machine": facts, "steps": options.steps, "rounds": options.rounds, "threads": options.threads}
        kept["milliseconds"] = {name: {kind: t._asdict() for kind, t in all_.items()} for name, all_ in results.items()}
        (HERE / "results" / "novel.json").write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
        report.write_pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
