"""Measure training steps under memory limits: ``python -m benchmarks.memory_limit [case ...]``; ``--write`` keeps results.

Each step runs in its own process: first without ``settings.memory_limit_bytes``, then with limits that leave a share of
what it takes beyond the arrays that stay (parameters, gradients, data). Reported are the peak beyond those, the
processor time of a step (one thread), and whether the results of all steps have the same bits as without a limit.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
#: the shares of the memory of an unlimited step that limits leave
SHARES = (0.75, 0.5, 0.33, 0.25)
STEPS = 3


def perceptron(mx: Any) -> Callable[[], Any]:
    """Return a step of 20 layers with dropout, at 4,096 rows."""
    nd = mx.nd
    mx.random.seed(0)
    weights = [nd.random.normal(0, 0.06, (256, 256)) for _ in range(20)]
    x = nd.random.normal(0, 1, (4096, 256))
    for weight in weights:
        weight.attach_grad()

    def step() -> Any:
        with mx.autograd.record():
            y = x
            for weight in weights:
                y = nd.Dropout(nd.tanh(nd.dot(y, weight)), p=0.1)
            loss = nd.mean(y * y)
        loss.backward()
        return loss

    return step


def model(name: str, **sizes: int) -> Callable[[Any], Callable[[], Any]]:
    """Return a function that makes the step of a model of :mod:`benchmarks.workloads_models_nd`."""

    def make(mx: Any) -> Callable[[], Any]:
        mx.random.seed(0)
        return importlib.import_module("workloads_models_nd").WORKLOADS[name](mx, **sizes)  # type: ignore[no-any-return]

    return make


CASES: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "perceptron of 20 layers": perceptron,
    "resnet18 16x128x128": model("resnet18", batch=16, side=128),
    "bert 16x128": model("bert", batch=16, length=128),
}


def answer(case: str, limit: int) -> None:
    """Print the figures of a step under a limit in bytes; 0 sets none."""
    sys.path.insert(0, str(HERE))
    import phonograd as mx
    from phonograd.core.run.memory_pool import pool

    mx.settings.update(executor="native", num_threads=1, tiers="plan", memory_limit_bytes=limit)
    step = CASES[case](mx)
    mx.nd.waitall()
    bits = hashlib.sha256()
    seconds = []
    for _ in range(STEPS):
        mx.random.seed(1)
        start = time.process_time()
        result = step()
        mx.nd.waitall()
        seconds.append(time.process_time() - start)
        bits.update(repr(result.asnumpy().tolist() if hasattr(result, "asnumpy") else result).encode())
        # the first steps make plans, and arrays that stay
        if len(seconds) < STEPS:
            pool.sort_in()
            pool.peak_bytes = pool.used_bytes
    pool.sort_in()
    facts = {"held": pool.used_bytes, "peak": pool.peak_bytes, "seconds": min(seconds), "bits": bits.hexdigest()}
    print(json.dumps(facts))


def ask(case: str, limit: int = 0) -> dict[str, Any]:
    """Return the figures of a case in a process of its own."""
    command = [sys.executable, "-W", "ignore", str(HERE / "memory_limit.py"), "--here", case, str(limit)]
    facts: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return facts


def main() -> int:
    """Measure all cases and return an exit status."""
    if sys.argv[1:2] == ["--here"]:
        answer(sys.argv[2], int(sys.argv[3]))
        return 0
    from benchmarks import report

    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory_limit")
    parser.add_argument("case", nargs="*", default=[], help=f"which (default: all): {', '.join(CASES)}")
    parser.add_argument("--write", action="store_true", help="keep the results of all and write the documents' figures")
    options = parser.parse_args()
    if options.write and options.case:
        parser.error("only the results of all cases are kept")
    cases = options.case or list(CASES)
    results: dict[str, list[dict[str, Any]]] = {}
    for case in cases:
        free = ask(case)
        results[case] = []
        for share in (1.0, *SHARES):
            limit = free["held"] + share * (free["peak"] - free["held"])
            facts = free if share == 1.0 else ask(case, int(limit))
            row = {
                "share": share,
                "step": facts["peak"] - facts["held"],
                "seconds": facts["seconds"],
                "same_bits": facts["bits"] == free["bits"],
            }
            results[case].append(row)
            size = f"{row['step'] / 2**20:9.1f} MiB"
            print(f"{case:26s}{share:6.2f}{size}{row['seconds']:8.3f} s {row['same_bits']}", flush=True)
    if options.write:
        (HERE / "results" / "memory_limit.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        report.write_pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
