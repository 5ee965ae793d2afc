"""Compare with peers, side by side in one run: ``python -m benchmarks [workload ...]``.

Peers are measured if a Python that has them is named: ``MXNET_PYTHON`` (MXNet 1.9.1), ``TORCH_PYTHON`` (PyTorch) and
``JAX_PYTHON`` (JAX). Each library runs in its own process; rounds alternate between them and the best of all rounds
counts. Machines are noisy: only the ratios mean anything. The table shows peer / phonograd, so above 1 phonograd is
ahead. Everything is written with a description of the machine to ``benchmarks/results/comparison.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from benchmarks.workloads_nd import WORKLOADS

HERE = Path(__file__).parent
PEERS = {"mxnet": "MXNET_PYTHON", "torch": "TORCH_PYTHON", "jax": "JAX_PYTHON"}


class Worker:
    """A process that times workloads in one library."""

    def __init__(self, python: str, library: str) -> None:
        self.library = library
        self.process = subprocess.Popen(
            [python, "-W", "ignore", str(HERE / "worker.py"), library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, question: str) -> float:
        """Return the answer to one question."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.library} ended while it was asked {question!r}")
        answer: float = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def machine() -> dict[str, object]:
    """Return a description of the machine."""
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.system(),
        "executor": os.environ.get("PHONOGRAD_EXECUTOR", "default"),
    }


def measure(workers: dict[str, Worker], names: list[str], rounds: int) -> dict[str, dict[str, float]]:
    """Return the best seconds by workload and library."""
    best = {name: dict.fromkeys(workers, float("inf")) for name in names}
    for number in range(rounds):
        for name in names:
            for library, worker in workers.items():
                best[name][library] = min(best[name][library], worker.ask(name))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return best


def show(best: dict[str, dict[str, float]]) -> None:
    """Print the table."""
    libraries = list(next(iter(best.values())))
    peers = libraries[1:]
    print(f"{'workload':12s}" + "".join(f"{name + ' us':>14s}" for name in libraries), end="")
    print("".join(f"{name + ' ratio':>13s}" for name in peers))
    for name, times in best.items():
        own = times["phonograd"]
        print(f"{name:12s}" + "".join(f"{times[library] * 1e6:14.0f}" for library in libraries), end="")
        print("".join(f"{times[peer] / own:13.2f}" for peer in peers))


def main() -> int:
    """Run the workloads and return an exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workload", nargs="*", choices=[*WORKLOADS, []], help="which to run (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    workers = {"phonograd": Worker(sys.executable, "phonograd")}
    for library, variable in PEERS.items():
        if os.environ.get(variable):
            workers[library] = Worker(os.environ[variable], library)
        else:
            print(f"{variable} is not set: {library} is not measured", file=sys.stderr)
    best = measure(workers, arguments.workload or list(WORKLOADS), arguments.rounds)
    other = {
        library: {"import_seconds": worker.ask("import"), "growth_kib_over_10000_iterations": worker.ask("memory")}
        for library, worker in workers.items()
    }
    for worker in workers.values():
        worker.close()
    show(best)
    for library, facts in other.items():
        growth = facts["growth_kib_over_10000_iterations"]
        print(f"{library}: import {facts['import_seconds']:.3f} s, growth over 10,000 iterations {growth:.0f} KiB")
    results = {"machine": machine(), "seconds": best, "other": other}
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "comparison.json").write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
