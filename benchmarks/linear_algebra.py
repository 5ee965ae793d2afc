"""Compare linear algebra with PyTorch (LAPACK of MKL): ``python -m benchmarks.linear_algebra [operator ...]``.

Each library runs in its own process, on one thread. Rounds alternate between the libraries, and the best processor time
of all rounds counts. Cases are single matrices of 16, 64, 300 and 1000 rows and 1,000 matrices of 16 rows, in float32
and float64, forward alone and forward with backward, and the gradient step of a Gaussian process. ``--write`` keeps the
results and writes the table of docs/performance.md: time of PyTorch / time of phonograd, above 1 phonograd is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
#: number of matrices (None: one, without an axis for it) and rows
SIZES: dict[str, tuple[int | None, int]] = {
    "16": (None, 16),
    "64": (None, 64),
    "300": (None, 300),
    "1000": (None, 1000),
    "1000 x 16": (1000, 16),
}
OPERATORS = (
    *("potrf", "potri", "trsm", "trmm", "syrk", "gelqf", "syevd", "inverse", "det", "slogdet", "svd", "solve"),
    *("gemm2", "gaussian process"),
)
SECONDS_PER_ASK = 0.2
#: a graph is planned when its runs have taken as long as planning takes
SECONDS_TO_SETTLE = 0.05
#: short calls are repeated for so long: asking for the processor time takes most of a microsecond
SECONDS_PER_SAMPLE = 2e-4
#: the part of a sample in which the process must have run: the clock of processor time may stand still (see worker.py)
LEAST_RUNNING = 0.9


def data(size: str, dtype: str) -> dict[str, Any]:
    """Return positive definite, regular and any matrices, and triangular factors."""
    count, rows = SIZES[size]
    generator = np.random.default_rng(0)
    lead = () if count is None else (count,)
    any_, other = (generator.standard_normal((*lead, rows, rows)) for _ in range(2))
    definite = any_ @ np.swapaxes(any_, -1, -2) / rows + np.eye(rows) / 2
    arrays = {"definite": definite, "regular": any_ + 2 * np.eye(rows), "any": other}
    arrays["factor"] = np.linalg.cholesky(definite)
    arrays["points"] = np.linspace(0, 1, rows).reshape(rows, 1) * np.ones((*lead, 1, 1))
    return {name: np.ascontiguousarray(array, dtype) for name, array in arrays.items()}


# -- worker processes


def ours(operator: str, size: str, dtype: str, backward: bool) -> Callable[[], None]:
    """Return a call of phonograd."""
    import phonograd as mx

    nd, linalg = mx.nd, mx.nd.linalg
    a = {name: nd.array(array, dtype=dtype) for name, array in data(size, dtype).items()}
    new = mx.np.linalg
    of_numpy = {name: array.as_np_ndarray() for name, array in a.items()}

    def process() -> Any:
        points, scale = a["points"], a["scale"]
        gap = nd.broadcast_sub(points, nd.swapaxes(points, -1, -2))
        covariance = nd.exp(-nd.broadcast_mul(nd.square(gap), scale)) + a["noise"]
        factor = linalg.potrf(covariance)
        white = linalg.trsm(factor, a["target"])
        return linalg.sumlogdiag(factor).sum() + 0.5 * nd.square(white).sum()

    rows = SIZES[size][1]
    a["scale"] = nd.full((1,) * a["any"].ndim, 50.0, dtype=dtype)
    a["noise"] = nd.array(np.broadcast_to(0.1 * np.eye(rows), a["any"].shape), dtype=dtype)
    a["target"] = nd.slice_axis(a["any"], axis=-1, begin=0, end=1).copy()
    calls: dict[str, tuple[str, Callable[[], Any]]] = {
        "potrf": ("definite", lambda: linalg.potrf(a["definite"])),
        "potri": ("factor", lambda: linalg.potri(a["factor"])),
        "trsm": ("factor", lambda: linalg.trsm(a["factor"], a["any"])),
        "trmm": ("factor", lambda: linalg.trmm(a["factor"], a["any"])),
        "syrk": ("any", lambda: linalg.syrk(a["any"])),
        "gelqf": ("regular", lambda: linalg.gelqf(a["regular"])[0]),
        "syevd": ("definite", lambda: linalg.syevd(a["definite"])[1]),
        "inverse": ("regular", lambda: linalg.inverse(a["regular"])),
        "det": ("regular", lambda: linalg.det(a["regular"])),
        "slogdet": ("regular", lambda: linalg.slogdet(a["regular"])[1]),
        "svd": ("regular", lambda: new.svd(of_numpy["regular"])[1]),
        "solve": ("regular", lambda: new.solve(of_numpy["regular"], of_numpy["any"])),
        "gemm2": ("regular", lambda: linalg.gemm2(a["regular"], a["any"])),
        "gaussian process": ("scale", process),
    }
    name, function = calls[operator]
    variable = (of_numpy if operator in ("svd", "solve") else a)[name]
    if not backward:
        return lambda: function().wait_to_read()
    variable.attach_grad()

    def step() -> None:
        with mx.autograd.record():
            out = function()
        out.backward()
        variable.grad.wait_to_read()

    return step


def torch(operator: str, size: str, dtype: str, backward: bool) -> Callable[[], None]:
    """Return a call of PyTorch."""
    import torch

    torch.set_num_threads(1)
    linalg = torch.linalg
    a = {name: torch.tensor(array) for name, array in data(size, dtype).items()}
    a["scale"] = torch.full((1,) * a["any"].ndim, 50.0, dtype=a["any"].dtype)
    a["noise"] = 0.1 * torch.eye(SIZES[size][1], dtype=a["any"].dtype)
    a["target"] = a["any"][..., :1].clone()

    def process() -> Any:
        points = a["points"]
        gap = points - points.mT
        factor = linalg.cholesky(torch.exp(-torch.square(gap) * a["scale"]) + a["noise"])
        white = linalg.solve_triangular(factor, a["target"], upper=False)
        return torch.log(torch.diagonal(factor, dim1=-2, dim2=-1)).sum() + 0.5 * torch.square(white).sum()

    calls: dict[str, tuple[str, Callable[[], Any]]] = {
        "potrf": ("definite", lambda: linalg.cholesky(a["definite"])),
        "potri": ("factor", lambda: torch.cholesky_inverse(a["factor"])),
        "trsm": ("factor", lambda: linalg.solve_triangular(a["factor"], a["any"], upper=False)),
        "trmm": ("factor", lambda: torch.tril(a["factor"]) @ a["any"]),
        "syrk": ("any", lambda: a["any"] @ a["any"].mT),
        "gelqf": ("regular", lambda: linalg.qr(a["regular"])[0]),
        "syevd": ("definite", lambda: linalg.eigh(a["definite"])[0]),
        "inverse": ("regular", lambda: linalg.inv(a["regular"])),
        "det": ("regular", lambda: linalg.det(a["regular"])),
        "slogdet": ("regular", lambda: linalg.slogdet(a["regular"])[1]),
        "svd": ("regular", lambda: linalg.svd(a["regular"], full_matrices=False)[1]),
        "solve": ("regular", lambda: linalg.solve(a["regular"], a["any"])),
        "gemm2": ("regular", lambda: a["regular"] @ a["any"]),
        "gaussian process": ("scale", process),
    }
    name, function = calls[operator]
    if not backward:

        def without_graph() -> None:
            with torch.no_grad():
                function()

        return without_graph
    variable = a[name].requires_grad_()

    def step() -> None:
        out = function()
        torch.autograd.grad(out, variable, torch.ones_like(out))

    return step


def _settle(call: Callable[[], None]) -> None:
    """Repeat a call of phonograd for a while, then wait for the plans and kernels that are made in the background."""
    from phonograd.core.plan import promotion
    from phonograd.core.run import kernel_cache

    end = time.perf_counter() + SECONDS_TO_SETTLE
    while time.perf_counter() < end:
        call()
    promotion.finish()
    kernel_cache.wait_for_tier_up()


def work(library: str) -> None:
    """Answer questions ``[operator, size, dtype, backward]``, one JSON line each, with seconds."""
    make = {"phonograd": ours, "torch": torch}[library]
    for line in sys.stdin:
        call = make(*json.loads(line))
        for _ in range(3):
            call()
            if library == "phonograd":
                _settle(call)
        begin = time.perf_counter()
        call()
        calls = max(1, int(SECONDS_PER_SAMPLE / (time.perf_counter() - begin)))
        best, count, end = float("inf"), 0, time.perf_counter() + SECONDS_PER_ASK
        while count < 3 or time.perf_counter() < end:
            wall_start, start = time.perf_counter(), time.process_time()
            for _ in range(calls):
                call()
            taken, wall = time.process_time() - start, time.perf_counter() - wall_start
            best = min(best, max(taken, LEAST_RUNNING * wall) / calls)
            count += 1
        print(json.dumps(best), flush=True)


# -- the comparison


class Worker:
    """Time one library in a process."""

    def __init__(self, python: str, library: str) -> None:
        counts = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PHONOGRAD_NUM_THREADS")
        self._process = subprocess.Popen(
            [python, "-W", "ignore", str(HERE / "linear_algebra.py"), "--worker", library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **dict.fromkeys(counts, "1")},
        )

    def ask(self, *question: Any) -> float:
        """Return the best time of a question."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: float = json.loads(self._process.stdout.readline())
        return answer


def main() -> int:
    """Time all cases and return an exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operator", nargs="*", default=[])
    parser.add_argument("--worker")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES))
    parser.add_argument("--write", action="store_true", help="keep the results of all and write the documents' figures")
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return 0
    from benchmarks import machine, report
    from benchmarks.compare import python_of

    workers = {"phonograd": Worker(sys.executable, "phonograd")}
    peer = python_of("torch")
    if peer is not None:
        workers["torch"] = Worker(peer, "torch")
    found: dict[str, dict[str, float]] = {}
    for operator in options.operator or OPERATORS:
        for size in options.sizes:
            for dtype in ("float32", "float64"):
                for backward in (False, True):
                    best = dict.fromkeys(workers, float("inf"))
                    for _ in range(options.rounds):
                        for library, worker in workers.items():
                            best[library] = min(best[library], worker.ask(operator, size, dtype, backward))
                    name = f"{operator}, {size}, {dtype}, {'backward' if backward else 'forward'}"
                    found[name] = best
                    cells = [f"{library} {seconds * 1e6:10.1f} us" for library, seconds in best.items()]
                    print(f"{name:44s} {'  '.join(cells)}  {report.ratio(best, 'torch')}", flush=True)
    if options.write:
        if options.operator or options.sizes != list(SIZES):
            parser.error("--write keeps the results of all operators and sizes")
        kept = {"machine": machine.description(), "seconds": found}
        (HERE / "results" / "linear_algebra.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        report.write_pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
