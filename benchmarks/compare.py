"""Compare with MXNet, PyTorch and JAX in one run: ``make bench``, or ``python -m benchmarks [workload ...]``.

Each library runs in its own process; rounds alternate between them and the best of all rounds counts. Machines are
noisy: only the ratios are meaningful. The table shows peer / phonograd, so above 1 phonograd is faster.

``MXNET_PYTHON``, ``TORCH_PYTHON`` or ``JAX_PYTHON`` names the Python of a peer. Without it, the Python that ``make
peers`` installed under ``PEERS_HOME`` (``~/.cache/phonograd-peers``) runs the peer; without either, the peer is
skipped. PyTorch and MXNet run their workloads eagerly, as phonograd does. Those of JAX are compiled as a whole
(``jax.jit``); :mod:`.compiled` compares steps that both libraries compile.

``--write`` writes the result with a description of the machine to ``benchmarks/results/comparison.json``, and from
there into README.md and docs/performance.md (:mod:`benchmarks.report`). Use it for a run of all workloads on an idle
machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import machine, report
from benchmarks.roofline import Peaks, Work
from benchmarks.workloads_nd import WORKLOADS

HERE = Path(__file__).parent
#: the variable that names the Python of each peer, and the environment that ``make peers`` creates for it
PEERS = {"mxnet": ("MXNET_PYTHON", "mxnet"), "torch": ("TORCH_PYTHON", "torch"), "jax": ("JAX_PYTHON", "torch")}


def python_of(peer: str) -> str | None:
    """Return the Python of a peer, or None."""
    variable, directory = PEERS[peer]
    home = os.environ.get("PEERS_HOME") or os.path.expanduser("~/.cache/phonograd-peers")
    found = Path(home) / directory / "bin" / "python"
    return os.environ.get(variable) or (str(found) if found.exists() else None)


class Worker:
    """Time workloads of one library in a process."""

    def __init__(self, python: str, library: str, threads: int, tables: str = "workloads") -> None:
        self.python = python
        self.library = library
        counts = dict.fromkeys(
            ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PHONOGRAD_NUM_THREADS"), str(threads)
        )
        self.process = subprocess.Popen(
            [python, "-W", "ignore", str(HERE / "worker.py"), library, str(threads), tables],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **counts},
            text=True,
        )
        # the next process starts when this one has imported its library
        self.version: str = self.ask("version")

    def ask(self, question: str) -> Any:
        """Send one question and return its answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.library} ended while it was asked {question!r}")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def import_seconds(python: str, library: str) -> float:
    """Return the processor time of importing a library with byte code in place, the best of three processes."""
    code = f"import time; start = time.process_time(); import {library}; print(time.process_time() - start)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [python, "-W", "ignore", "-c", code]
    runs = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(4)]
    return min([float(run.stdout) for run in runs[1:]])


def measure(workers: dict[str, Worker], names: list[str], rounds: int) -> dict[str, dict[str, float]]:
    """Return the best seconds by workload and library."""
    has = {library: set(worker.ask("names")) for library, worker in workers.items()}
    best = {name: {library: float("inf") for library in workers if name in has[library]} for name in names}
    for number in range(rounds):
        for name, times in best.items():
            for library in times:
                times[library] = min(times[library], workers[library].ask(f"time {name}"))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return best


def roofline(own: Worker, names: list[str]) -> dict[str, Any]:
    """Return the peak rates of the machine, and the work and the bound of each workload."""
    peaks = Peaks(*own.ask("peaks"))
    found: dict[str, Any] = {"peaks": peaks._asdict(), "work": {}}
    for name in names:
        work = Work(*own.ask(f"work {name}"))
        found["work"][name] = {**work._asdict(), "bound_seconds": peaks.bound(work)}
    return found


def compared(names: list[str], rounds: int, threads: int) -> dict[str, Any]:
    """Return the results of all installed libraries."""
    pythons: dict[str, str | None] = {"phonograd": sys.executable, **{peer: python_of(peer) for peer in PEERS}}
    for library in [library for library, python in pythons.items() if not python]:
        print(f"there is no {PEERS[library][0]}: {library} is not measured", file=sys.stderr)
    before = machine.load()
    workers = {library: Worker(python, library, threads) for library, python in pythons.items() if python}
    try:
        seconds = measure(workers, names, rounds)
        bounds = roofline(workers["phonograd"], names)
        other = {
            library: {
                "import_seconds": import_seconds(worker.python, library),
                "growth_kib_over_10000_iterations": worker.ask("memory"),
            }
            for library, worker in workers.items()
        }
        versions = {library: worker.version for library, worker in workers.items()}
    finally:
        for worker in workers.values():
            worker.close()
    return {
        "machine": {**machine.description(), **versions, "load_before": before, "load_after": machine.load()},
        "threads": threads,
        "clock": "processor time" if threads == 1 else "time on the clock",
        "rounds": rounds,
        "seconds": seconds,
        "roofline": bounds,
        "other": other,
    }


def main() -> int:
    """Run the workloads and return an exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    which = f"which to run (default: all): {', '.join(WORKLOADS)}"
    parser.add_argument("workload", nargs="*", choices=[*WORKLOADS, []], metavar="workload", help=which)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=machine.cores(), help="for every library (default: all cores)")
    parser.add_argument("--write", action="store_true", help="keep the results and write the documents' figures")
    arguments = parser.parse_args()
    if arguments.write and arguments.workload:
        parser.error("only the results of all workloads are kept")
    results = compared(arguments.workload or list(WORKLOADS), arguments.rounds, arguments.threads)
    print("\n".join(report.comparison(results)))
    if arguments.write:
        (HERE / "results" / "comparison.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        report.write_pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
