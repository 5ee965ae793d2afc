"""Compare with real MXNet, side by side: ``MXNET_PYTHON=/path/to/python python -m benchmarks``.

Each library runs in its own process; rounds alternate between them and the best of all rounds counts. Results are
printed as a table and written with a description of the machine to ``benchmarks/results/recording.json``.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from benchmarks.worker import WORKLOADS

HERE = Path(__file__).parent
ROUNDS = 5


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

    def ask(self, name: str) -> float:
        """Return the answer to one question."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.library} ended while timing {name!r}")
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
    }


def main() -> int:
    """Run all workloads and return an exit status."""
    workers = {"phonograd": Worker(sys.executable, "phonograd")}
    peer = os.environ.get("MXNET_PYTHON")
    if peer:
        workers["mxnet"] = Worker(peer, "mxnet")
    else:
        print("MXNET_PYTHON is not set: measuring phonograd alone, without ratios", file=sys.stderr)
    best = {name: dict.fromkeys(workers, float("inf")) for name in WORKLOADS}
    for _ in range(ROUNDS):
        for name in WORKLOADS:
            for library, worker in workers.items():
                best[name][library] = min(best[name][library], worker.ask(name))
    extra = {
        library: {"import_seconds": worker.ask("import"), "growth_kib_over_10000_iterations": worker.ask("memory")}
        for library, worker in workers.items()
    }
    for worker in workers.values():
        worker.close()
    print(f"{'workload':60s}" + "".join(f"{library + ' us':>14s}" for library in workers) + f"{'ratio':>8s}")
    for name, times in best.items():
        ratio = f"{times['mxnet'] / times['phonograd']:8.1f}" if peer else f"{'-':>8s}"
        print(f"{name:60s}" + "".join(f"{seconds * 1e6:14.0f}" for seconds in times.values()) + ratio)
    for library, facts in extra.items():
        print(
            f"{library}: import {facts['import_seconds']:.3f} s, growth over 10,000 iterations "
            f"{facts['growth_kib_over_10000_iterations']:.0f} KiB"
        )
    results = {"machine": machine(), "seconds": best, "other": extra}
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "recording.json").write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
