"""Measure whole models beside other libraries: ``python -m benchmarks.models [model ...]``.

Training steps and predictions of the models of :mod:`benchmarks.workloads_models_nd` run in MXNet, PyTorch and JAX
(each step compiled as a whole), predictions also in onnxruntime, each library in its own process. Rounds alternate
between them and the best of all rounds counts. The table shows peer / phonograd, so above 1 phonograd is faster.
``--write`` keeps the results and writes the table of README.md.

PyTorch is measured eagerly. ``--add compiled`` measures networks that ``torch.compile`` has compiled, and adds the
column to the stored results; compiling takes minutes, and later runs find the code in PyTorch's cache
(``TORCHINDUCTOR_CACHE_DIR``). Other libraries can be added or measured again in the same way, on the same machine.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks import machine, report
from benchmarks.compare import Worker, measure, python_of
from benchmarks.workloads_models_nd import WORKLOADS

HERE = Path(__file__).parent
STORED = HERE / "results" / "models.json"
#: libraries, in the order of columns
LIBRARIES = ("phonograd", "mxnet", "torch", "compiled", "jax", "onnxruntime")


def _worker(library: str, threads: int) -> Worker | None:
    """Return the process of a library; None if it is not installed."""
    if library in ("phonograd", "onnxruntime"):
        python = sys.executable if importlib.util.find_spec(library) else None
    else:
        python = python_of("torch" if library == "compiled" else library)
    if python is None:
        return None
    if library == "compiled":
        return Worker(python, "torch", threads, "workloads_models_compiled")
    return Worker(python, library, threads, "workloads_models")


def _added(before: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    """Return stored results with the columns of others; both must be of one machine.

    >>> before = {"machine": {"processor": "A", "torch": "1"}, "threads": 2, "seconds": {"gp": {"torch": 3.0}}}
    >>> results = {"machine": {"processor": "A", "jax": "2"}, "threads": 2, "seconds": {"gp": {"jax": 4.0}}}
    >>> _added(before, results)["seconds"], _added(before, results)["machine"]
    ({'gp': {'torch': 3.0, 'jax': 4.0}}, {'processor': 'A', 'torch': '1', 'jax': '2'})
    """
    for key in ("processor", "cores"):
        if before["machine"].get(key) != results["machine"].get(key):
            raise SystemExit(f"the stored results are of another machine: {before['machine'].get(key)}")
    if before["threads"] != results["threads"]:
        raise SystemExit(f"the stored results are of {before['threads']} threads")
    seconds = {name: {**times, **results["seconds"].get(name, {})} for name, times in before["seconds"].items()}
    versions = {name: text for name, text in results["machine"].items() if name in LIBRARIES}
    return {**before, "machine": {**before["machine"], **versions}, "seconds": seconds}


def main() -> int:
    """Measure models and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", nargs="*", default=[], help=f"which to run (default: all): {', '.join(WORKLOADS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--without", nargs="*", default=[], choices=LIBRARIES, help="libraries to leave out")
    parser.add_argument("--add", nargs="+", default=[], choices=LIBRARIES, help="measure these alone, and add them")
    parser.add_argument("--write", action="store_true", help="keep the results of all and write the documents' figures")
    options = parser.parse_args()
    if options.write and options.model and not options.add:
        parser.error("only the results of all models are kept")
    chosen = options.add or [name for name in LIBRARIES if name != "compiled" and name not in options.without]
    before = machine.load()
    found = {library: _worker(library, options.threads) for library in chosen}
    workers = {library: worker for library, worker in found.items() if worker is not None}
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
    if options.add:
        results = _added(json.loads(STORED.read_text(encoding="utf-8")), results)
    print("\n".join(report.models({"models": results})))
    if options.write:
        STORED.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        report.write_pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
