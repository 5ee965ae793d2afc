"""Measure lookups and scatters beside other libraries: ``python -m benchmarks.lookups [workload ...]``.

The workloads of :mod:`benchmarks.workloads_lookups_nd` run in MXNet, PyTorch and JAX (compiled by ``jax.jit``), each
library in its own process. Rounds alternate between them and the best of all rounds counts; on one thread, which is the
default, processor time is measured. The table shows peer / phonograd, so above 1 phonograd is faster. ``--write`` keeps
the results and writes the table of docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks import machine, report
from benchmarks.compare import Worker, measure, python_of
from benchmarks.workloads_lookups_nd import WORKLOADS

HERE = Path(__file__).parent


def main() -> int:
    """Measure lookups and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lookups", description=__doc__.partition("\n")[0])
    parser.add_argument("workload", nargs="*", default=[], help="names, or beginnings of names (default: all)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--without", nargs="*", default=[], help="peers to leave out")
    parser.add_argument("--write", action="store_true", help="keep the results of all and write the documents' figures")
    options = parser.parse_args()
    if options.write and (options.workload or options.without):
        parser.error("only the results of all workloads and peers are kept")
    names = [name for name in WORKLOADS if not options.workload or name.startswith(tuple(options.workload))]
    pythons = {peer: python_of(peer) for peer in ("mxnet", "torch", "jax") if peer not in options.without}
    before = machine.load()
    workers = {
        library: Worker(python, library, options.threads, "workloads_lookups")
        for library, python in {"phonograd": sys.executable, **pythons}.items()
        if python
    }
    try:
        seconds = measure(workers, names, options.rounds)
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
    print("\n".join(report.lookups({"lookups": results})))
    if options.write:
        (HERE / "results" / "lookups.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        report.write_pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
