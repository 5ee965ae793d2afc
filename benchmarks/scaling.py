"""Measure how time grows with depth, size and batch: ``python -m benchmarks.scaling [depth] [size] [batch]``.

*depth*: chains of 1,000 to 100,000 operators on small arrays, forward and backward; sums over many steps; many small
parameters. The microseconds per operator should be constant, on first sight and later. *size*: one elementwise
expression over 1 to 10 million elements. *batch*: a recurrent network with new batch sizes and sequence lengths, and
the number of kernels that each of them compiles.

Every case runs in its own process, without kernels on disk. Times are processor time of the one thread that runs the
program. Memory is the growth of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Step = Callable[[], object]


def chain(mx: Any, length: int) -> Step:
    """Build a chain of operators, each reading the one before it: 2 operators a link."""
    nd, autograd = mx.nd, mx.autograd
    x, w = nd.ones((4, 8)), nd.ones((8,)) * 0.5
    w.attach_grad()

    def step() -> None:
        with autograd.record():
            y = x
            for _ in range(length // 2):
                y = nd.tanh(y * w)
        y.backward()
        w.grad.wait_to_read()

    return step


def accumulation(mx: Any, length: int) -> Step:
    """``total = total + x_t * w``, every term another array: 2 operators a step."""
    nd, autograd = mx.nd, mx.autograd
    terms = [nd.ones((8,)) * number for number in range(length // 2)]
    w = nd.ones((8,))
    w.attach_grad()

    def step() -> None:
        with autograd.record():
            total = nd.zeros((8,))
            for term in terms:
                total = total + term * w
        total.backward()
        w.grad.wait_to_read()

    return step


def losses(mx: Any, length: int) -> Step:
    """Sum the losses of all steps of a recurrence: 5 operators a step."""
    nd, autograd = mx.nd, mx.autograd
    w, x = nd.ones((4, 8)) * 0.1, nd.ones((4, 8))
    w.attach_grad()

    def step() -> None:
        with autograd.record():
            state, loss = x, 0.0
            for _ in range(length // 5):
                state = nd.tanh(state * w) + x
                loss = loss + (state * state).sum()
        loss.backward()
        w.grad.wait_to_read()

    return step


def parameters(mx: Any, length: int) -> Step:
    """Update many small parameters independently of each other: 3 operators each."""
    nd = mx.nd
    values = [nd.ones((8,)) * number for number in range(length // 3)]
    grads = [nd.ones((8,)) for _ in values]

    def step() -> None:
        for value, grad in zip(values, grads):
            value[:] = value - 0.1 * (grad + 0.01 * value)
        nd.waitall()

    return step


def views(mx: Any, length: int) -> Step:
    """Build a chain of transpositions and slices, which compute nothing."""
    nd = mx.nd
    x = nd.ones((4, 8))

    def step() -> None:
        y = x
        for _ in range(length // 2):
            y = y.T.reshape((8, 4)).T if y.shape == (8, 4) else y.T
        y.wait_to_read()

    return step


def elementwise(mx: Any, size: int) -> Step:
    """Compute an expression over many elements, forward and backward."""
    nd, autograd = mx.nd, mx.autograd
    x = nd.ones((size,))
    x.attach_grad()

    def step() -> None:
        with autograd.record():
            y = (nd.sigmoid(x * x + 1) * nd.tanh(x)).sum()
        y.backward()
        x.grad.wait_to_read()

    return step


DEPTH = {
    "chain": chain,
    "accumulation": accumulation,
    "losses": losses,
    "parameters": parameters,
    "views": views,
}
LENGTHS = (1_000, 10_000, 100_000)
SIZES = (1, 100, 10_000, 1_000_000, 10_000_000)
BATCHES = ((32, 20), (7, 20), (64, 20), (32, 35), (1, 20), (100, 50))


def answer(kind: str, name: str, number: int) -> None:
    """Print first and later times of a case, and how the process grew, as one line of JSON."""
    import phonograd as mx

    mx.settings.update(executor="native", cache_directory="", num_threads=1)
    mx.nd.ones((2,)).wait_to_read()
    step = elementwise(mx, number) if kind == "size" else DEPTH[name](mx, number)
    mx.nd.waitall()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(3 if number >= 100_000 and kind == "depth" else 5):
        start = time.thread_time()
        step()
        times.append((time.thread_time() - start) * 1e6)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    counts = mx.explain.statistics()
    print(json.dumps([times[0], times[1], min(times[2:]), grown / 1024, counts["kernels_compiled"]]))


def ask(kind: str, name: str, number: int) -> list[float] | str:
    """Return first, second and later times of a case, the growth of its process, and the number of kernels compiled."""
    command = [sys.executable, "-m", "benchmarks.scaling", "--here", kind, name, str(number)]
    found = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, env=os.environ, check=False)
    if found.returncode:
        return found.stderr.strip().splitlines()[-1] if found.stderr else f"ended with {found.returncode}"
    answers: list[float] = json.loads(found.stdout)
    return answers


def show(kind: str, names: list[str], numbers: tuple[int, ...], unit: str) -> dict[str, Any]:
    """Measure cases and print times per operator (or per element)."""
    print(f"{kind:14s}{'':>10s}{'first':>10s}{'second':>10s}{'later':>10s} us per {unit}{'MiB':>8s}{'kernels':>9s}")
    results: dict[str, Any] = {}
    for name in names:
        for number in numbers:
            found = results[f"{name} {number}"] = ask(kind, name, number)
            if isinstance(found, str):
                print(f"{name:14s}{number:10d} {found}", flush=True)
                continue
            first, second, later, grown, kernels = found
            per = [f"{value / number:10.3f}" for value in (first, second, later)]
            print(f"{name:14s}{number:10d}{''.join(per)}{'':>{len(unit) + 8}s}{grown:8.1f}{kernels:9.0f}", flush=True)
    return results


def batches() -> dict[str, Any]:
    """Return the times of first and later iterations of new batch sizes and lengths, and the kernels compiled."""
    import phonograd as mx
    from benchmarks.workloads_nd import lstm

    mx.settings.update(executor="native", cache_directory="", num_threads=1)
    print(f"{'batch':>6s}{'steps':>7s}{'first ms':>10s}{'later ms':>10s}{'kernels compiled':>18s}")
    results: dict[str, Any] = {}
    for batch, steps in BATCHES:
        step = lstm(mx, steps=steps, batch=batch)
        mx.nd.waitall()
        before = mx.explain.statistics()["kernels_compiled"]
        times = []
        for _ in range(5):
            start = time.thread_time()
            step()
            times.append((time.thread_time() - start) * 1e3)
        compiled = mx.explain.statistics()["kernels_compiled"] - before
        results[f"{batch} x {steps}"] = [times[0], min(times[1:]), compiled]
        print(f"{batch:6d}{steps:7d}{times[0]:10.1f}{min(times[1:]):10.1f}{compiled:18.0f}", flush=True)
    return results


def main() -> int:
    """Run the requested measurements and return an exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="*", choices=["depth", "size", "batch", []], help="which to run (default: all)")
    parser.add_argument("--here", nargs=3, metavar=("KIND", "NAME", "NUMBER"), help="measure one case in this process")
    arguments = parser.parse_args()
    if arguments.here:
        kind, name, number = arguments.here
        answer(kind, name, int(number))
        return 0
    what, results = arguments.what or ["depth", "size", "batch"], {}
    if "depth" in what:
        results["depth"] = show("depth", list(DEPTH), LENGTHS, "operator")
    if "size" in what:
        results["size"] = show("size", ["elementwise"], SIZES, "element")
    if "batch" in what:
        results["batch"] = batches()
    if not arguments.what:
        (HERE / "results" / "scaling.json").write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
