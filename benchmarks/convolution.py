"""Sweep 200 convolutions of real networks beside PyTorch (oneDNN) and MXNet: ``python -m benchmarks.convolution``.

The convolutions are those of :mod:`benchmarks.convolution_shapes`. Each has three passes: forward, the gradient of the
data and the gradient of the weights, called as users call them. Each library runs in its own process. Rounds alternate
between the libraries, and the best of all rounds counts. With one thread, the processor time of the process is
measured, which other programs disturb least; with several, time on the clock.

``PEERS`` of :mod:`benchmarks.compare` says where the Python of a peer is found. ``--peers``, ``--cases`` (parts of names
or kinds), ``--threads``, ``--rounds`` and ``--seconds`` select what is measured, and ``--quick`` measures every tenth
case. ``--without winograd direct channels-last`` also times our kernels with one algorithm disabled, one row for each.
``--write`` keeps the results in ``benchmarks/results/convolution.json`` and writes the table of docs/performance.md;
``python scripts/make_pictures.py convolutions`` draws them.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.convolution_shapes import CASES, Case  # noqa: E402

PASSES = ("forward", "data", "weight")
#: the algorithms besides im2col, which computes every convolution
ALGORITHMS = ("winograd", "direct", "channels-last")
#: a ratio below which a shape counts as slow
SLOW = 0.9
#: calls before the first measurement
WARM_UPS = 3


# -- worker processes


def mxnet_library(without: list[str], threads: int) -> Callable[[Case, str], Callable[[], None]]:
    """Return the calls of MXNet by case and pass."""
    from mxnet import autograd, nd

    def make(case: Case, which: str) -> Callable[[], None]:
        x, w = [nd.random.normal(shape=shape) for shape in (case.data, case.weight)]
        window = {"kernel": case.weight[2:], "stride": case.stride, "dilate": case.dilate, "pad": case.pad}
        window.update(num_filter=case.out[1], num_group=case.groups, no_bias=True)
        operator = nd.Deconvolution if case.transposed else nd.Convolution
        if which == "forward":
            return lambda: operator(x, w, **window).wait_to_read()
        variable = x if which == "data" else w
        variable.attach_grad()
        with autograd.record():
            y = operator(x, w, **window)
        grad = nd.random.normal(shape=y.shape)
        nd.waitall()

        def backward() -> None:
            y.backward(grad, retain_graph=True)
            variable.grad.wait_to_read()

        return backward

    return make


def phonograd_library(without: list[str], threads: int) -> Callable[[Case, str], Callable[[], None]]:
    """Return the calls of phonograd by case and pass: the operators of which a recorded convolution consists.

    ``y.backward`` itself would not compute the same gradient again.
    """
    import phonograd as mx
    from phonograd.core.array.call import invoke
    from phonograd.core.kernels.conv import channels_last_plan, direct_plan
    from phonograd.core.ops.nn import convolution
    from phonograd.core.run import kernel_cache

    # kernels that a busy machine has not compiled in full yet would be measured otherwise
    mx.settings.update(num_threads=threads, winograd=0 if "winograd" in without else 8, quick_kernels=False)
    for name, module in (("direct", direct_plan), ("channels-last", channels_last_plan)):
        if name in without:
            module.suits = lambda *arguments: False  # type: ignore[attr-defined]

    def make(case: Case, which: str) -> Callable[[], None]:
        x, w, g = [mx.nd.random.normal(shape=shape) for shape in (case.data, case.weight, case.out)]
        window = (case.stride, case.dilate, case.pad, case.groups)
        if case.transposed:
            x, g, which = g, x, {"forward": "data", "data": "forward"}.get(which, which)
        operator, inputs, parameters = {
            "forward": (convolution._convolution, (x, w), window),
            "data": (convolution._convolution_data_grad, (g, w), (x.shape[2:], *window)),
            "weight": (convolution._convolution_weight_grad, (x, g), (w.shape[2:], *window)),
        }[which]

        def call() -> None:
            invoke(operator, inputs, parameters, None, {}).wait_to_read()

        for _ in range(WARM_UPS):
            call()
        kernel_cache.wait_for_tier_up()
        return call

    return make


def numpy_library(without: list[str], threads: int) -> Callable[[Case, str], Callable[[], object]]:
    """Return the calls of NumPy's reference by case and pass."""
    import numpy as np

    from phonograd.core.ops.nn import convolution

    def make(case: Case, which: str) -> Callable[[], object]:
        generator = np.random.default_rng(0)
        x, w, g = [generator.normal(size=shape).astype("float32") for shape in (case.data, case.weight, case.out)]
        window: Any = {"stride": case.stride, "dilate": case.dilate, "pad": case.pad, "groups": case.groups}
        if case.transposed:
            x, g, which = g, x, {"forward": "data", "data": "forward"}.get(which, which)
        if which == "forward":
            return lambda: convolution._convolution.function(x, w, **window)
        if which == "data":
            return lambda: convolution._convolution_data_grad.function(g, w, extent=x.shape[2:], **window)
        return lambda: convolution._convolution_weight_grad.function(x, g, kernel=case.weight[2:], **window)

    return make


def torch_library(without: list[str], threads: int) -> Callable[[Case, str], Callable[[], object]]:
    """Return the calls of PyTorch by case and pass."""
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)

    def make(case: Case, which: str) -> Callable[[], object]:
        x, w = torch.randn(case.data), torch.randn(case.weight)
        zeros = [0] * len(case.stride)
        window = (case.stride, case.pad, case.dilate, case.transposed, zeros, case.groups)
        if which == "forward":
            return lambda: torch.ops.aten.convolution(x, w, None, *window)
        grad = torch.randn(case.out)
        wanted = [which == "data", which == "weight", False]
        return lambda: torch.ops.aten.convolution_backward(grad, x, w, [0], *window, wanted)

    return make


def work(library: str, threads: int, without: list[str]) -> None:
    """Answer questions ``[number of a case, pass, seconds]``, one JSON line each, with the best time of a call."""
    libraries: dict[str, Any] = {
        "phonograd": phonograd_library,
        "numpy": numpy_library,
        "mxnet": mxnet_library,
        "torch": torch_library,
    }
    make = libraries[library](without, threads)
    print(json.dumps(sys.modules[library].__version__), flush=True)
    clock = time.process_time if threads == 1 else time.perf_counter
    known: dict[tuple[int, str], Callable[[], object]] = {}
    for line in sys.stdin:
        number, which, seconds = json.loads(line)
        if (number, which) not in known:
            # the arrays of one case are enough
            known = {key: call for key, call in known.items() if key[0] == number}
            known[number, which] = make(CASES[number], which)
            known[number, which]()
        call, best, count = known[number, which], float("inf"), 0
        end = time.perf_counter() + seconds
        while count < 2 or time.perf_counter() < end:
            start = clock()
            call()
            best = min(best, clock() - start)
            count += 1
        print(json.dumps(best), flush=True)


class Worker:
    """Time one library in a process."""

    def __init__(self, python: str, library: str, threads: int, without: list[str] | None = None) -> None:
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PHONOGRAD_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(names, str(threads))}
        self._library, self._folder = library, tempfile.TemporaryDirectory()
        if without:
            # plans on disk are those of all algorithms
            environment["PHONOGRAD_CACHE_DIRECTORY"] = self._folder.name
        arguments = [*("--worker", library), *("--threads", str(threads)), *("--without", *(without or []))]
        self._process = subprocess.Popen(
            [python, "-W", "ignore", str(HERE / "convolution.py"), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.version: str = self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self._library} ended")
        return json.loads(line)

    def ask(self, *question: Any) -> float:
        """Return the best time of a question."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: float = self._answer()
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()


# -- the comparison


def geometric_mean(ratios: list[float]) -> float:
    """Return the geometric mean of some ratios."""
    return math.exp(sum([math.log(ratio) for ratio in ratios]) / len(ratios))


def ratio(row: dict[str, Any], peer: str) -> float:
    """Return how many times as long a peer takes for the three passes of a case."""
    seconds: dict[str, dict[str, float]] = row["seconds"]
    return sum(seconds[peer].values()) / sum(seconds["phonograd"].values())


def pass_ratio(row: dict[str, Any], peer: str, which: str) -> float:
    """Return how many times as long a peer takes for one pass of a case."""
    found: float = row["seconds"][peer][which] / row["seconds"]["phonograd"][which]
    return found


def summary(rows: list[dict[str, Any]], peer: str) -> list[str]:
    """Return the lines that sum up the ratios of a peer: of all cases, of each kind, and the slow ones."""
    lines = [f"{'time of ' + peer + ' / ours':24s} cases   mean  lowest  slow   forward  data  weight  slow passes"]
    for kind in ("all", *dict.fromkeys([row["kind"] for row in rows])):
        some = [row for row in rows if kind in ("all", row["kind"])]
        ratios = [ratio(row, peer) for row in some]
        by_pass = [[pass_ratio(row, peer, which) for row in some] for which in PASSES]
        means = "  ".join([f"{geometric_mean(found):5.2f}" for found in by_pass])
        slow = sum([value < SLOW for value in ratios]), sum([value < SLOW for found in by_pass for value in found])
        lines.append(
            f"{kind:24s} {len(some):5d}  {geometric_mean(ratios):5.2f}   {min(ratios):5.2f}  {slow[0]:4d}   {means}"
            f"   {slow[1]:5d} of {3 * len(some)}"
        )
    return lines


def show(case: Case, seconds: dict[str, dict[str, float]]) -> None:
    """Print the times and rates of a case."""
    print(case.name)
    row = {"seconds": seconds}
    for library, times in seconds.items():
        cells = [
            f"{name} {taken * 1e6:8.0f} us {case.operations / taken / 1e9:6.1f} GF/s" for name, taken in times.items()
        ]
        line = f"  {library:16s} " + "   ".join(cells)
        if library != "phonograd":
            by_pass = ", ".join([f"{pass_ratio(row, library, which):.2f}" for which in PASSES])
            line += f"   ratio {ratio(row, library):.2f} ({by_pass})"
        print(line, flush=True)


def measure(workers: dict[str, Worker], cases: list[int], rounds: int, seconds_per_ask: float) -> list[dict[str, Any]]:
    """Return the best seconds of each case by library and pass."""
    rows = []
    for number in cases:
        case = CASES[number]
        best = {library: dict.fromkeys(PASSES, float("inf")) for library in workers}
        for _ in range(rounds):
            for which in PASSES:
                for library, worker in workers.items():
                    seconds = worker.ask(number, which, seconds_per_ask)
                    best[library][which] = min(best[library][which], seconds)
        show(case, best)
        rows.append({"case": case.name, "kind": case.kind, "seconds": best})
    return rows


def make_workers(options: argparse.Namespace) -> dict[str, Worker]:
    """Start the processes of the libraries."""
    from benchmarks.compare import python_of

    workers = {"phonograd": Worker(sys.executable, "phonograd", options.threads)}
    for name in options.without:
        workers[f"no {name}"] = Worker(sys.executable, "phonograd", options.threads, [name])
    for peer in options.peers:
        python = sys.executable if peer == "numpy" else python_of(peer)
        if python:
            workers[peer] = Worker(python, peer, options.threads)
        else:
            print(f"{peer} is not installed and is not measured", file=sys.stderr)
    return workers


def main() -> int:
    """Time cases and return an exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convolution", description=__doc__.partition("\n")[0])
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--peers", nargs="*", default=["torch", "mxnet"], choices=["torch", "mxnet", "numpy"])
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cases", nargs="*", default=[], help="parts of names, or kinds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.06, help="for a pass of a library in a round, at least")
    parser.add_argument("--quick", action="store_true", help="every tenth case")
    parser.add_argument("--without", nargs="*", default=[], choices=ALGORITHMS, help="algorithms to leave out")
    parser.add_argument("--write", action="store_true", help="keep the results of all and write the documents' figures")
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.threads, options.without)
        return 0
    if options.write and (options.cases or options.quick or options.without):
        parser.error("only the results of all cases are kept")
    from benchmarks import machine, report

    cases = [
        number
        for number, case in enumerate(CASES)
        if not options.cases or any(part in case.name or part == case.kind for part in options.cases)
    ]
    before, workers = machine.load(), make_workers(options)
    try:
        rows = measure(workers, cases[:: 10 if options.quick else 1], options.rounds, options.seconds)
    finally:
        for worker in workers.values():
            worker.close()
    for library in workers:
        if library != "phonograd":
            print("", *summary(rows, library), sep="\n")
            for row in sorted(rows, key=lambda row: ratio(row, library)):
                if ratio(row, library) < SLOW:
                    print(f"  {ratio(row, library):.2f}  {row['case']}")
    if options.write:
        versions = {library: worker.version for library, worker in workers.items()}
        results = {
            "machine": {**machine.description(), **versions, "load_before": before, "load_after": machine.load()},
            "threads": options.threads,
            "clock": "processor time" if options.threads == 1 else "time on the clock",
            "rounds": options.rounds,
            "rows": rows,
        }
        (HERE / "results" / "convolution.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        report.write_pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
