"""Measure a table of workloads in several libraries: what :mod:`.lookups`, :mod:`.functions` and :mod:`.compiled` share.

Each library runs in its own process. Rounds alternate between them, and the best of all rounds counts. On one thread,
which is the default, processor time is measured, which other programs disturb least.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import machine, report
from benchmarks.compare import Worker, measure, python_of

HERE = Path(__file__).parent


def run(name: str, names: Sequence[str], peers: Sequence[str], description: str | None) -> int:
    """Measure the tables ``workloads_NAME_*``, print the results, and keep them as ``NAME.json`` with ``--write``."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    parser.add_argument("workload", nargs="*", default=[], help="names, or beginnings of names (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--without", nargs="*", default=[], help="peers to leave out")
    parser.add_argument("--write", action="store_true", help="keep the results of all and write the documents' figures")
    options = parser.parse_args()
    if options.write and (options.workload or options.without):
        parser.error("only the results of all workloads and peers are kept")
    chosen = [each for each in names if not options.workload or each.startswith(tuple(options.workload))]
    pythons = {peer: python_of(peer) for peer in peers if peer not in options.without}
    before = machine.load()
    workers = {
        library: Worker(python, library, options.threads, f"workloads_{name}")
        for library, python in {"phonograd": sys.executable, **pythons}.items()
        if python
    }
    try:
        seconds = measure(workers, chosen, options.rounds)
        versions = {library: worker.version for library, worker in workers.items()}
    finally:
        for worker in workers.values():
            worker.close()
    results = {
        "machine": {**machine.description(), **versions, "load_before": before, "load_after": machine.load()},
        "threads": options.threads,
        "clock": "processor time" if options.threads == 1 else "time on the clock",
        "rounds": options.rounds,
        "seconds": seconds,
    }
    print("\n".join(report.side_by_side(results)))
    if options.write:
        (HERE / "results" / f"{name}.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        report.write_pages()
    return 0
