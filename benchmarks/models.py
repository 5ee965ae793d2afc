"""Measure whole models beside other libraries: ``python -m benchmarks.models [model ...]``.

Training steps and predictions of the models of :mod:`benchmarks.workloads_models_nd` run in MXNet and PyTorch (eager,
and with networks compiled by ``torch.compile`` where that works), predictions also in onnxruntime, each library in its own process. Rounds alternate between them and the best of all
rounds counts. The table shows peer / phonograd, so above 1 phonograd is faster. ``--write`` keeps the results and writes
the table of README.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path

from benchmarks import machine, report
from benchmarks.compare import Worker, measure, python_of
from benchmarks.workloads_models_nd import WORKLOADS

HERE = Path(__file__).parent


def main() -> int:
    """Measure models and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__.partition("\n")[0])
    parser.add_argument("model", nargs="*", default=[], help=f"which to run (default: all): {', '.join(WORKLOADS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--without", nargs="*", default=[], help="libraries to leave out, such as 'compiled'")
    parser.add_argument("--write", action="store_true", help="keep the results of all and write the documents' figures")
    options = parser.parse_args()
    if options.write and options.model:
        parser.error("only the results of all models are kept")
    pythons: dict[str, str | None] = {
        "phonograd": sys.executable,
        "mxnet": python_of("mxnet"),
        "torch": python_of("torch"),
        "compiled": python_of("torch"),
        "onnxruntime": sys.executable if importlib.util.find_spec("onnxruntime") else None,
    }
    before = machine.load()
    workers = {
        library: Worker(python, library, options.threads, "workloads_models")
        if library != "compiled"
        else Worker(python, "torch", options.threads, "workloads_models_compiled")
        for library, python in pythons.items()
        if python and library not in options.without
    }
    try:
        seconds = measure(workers, options.model or list(WORKLOADS), options.rounds)
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
    print("\n".join(report.models({"models": results})))
    if options.write:
        (HERE / "results" / "models.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        report.write_pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
