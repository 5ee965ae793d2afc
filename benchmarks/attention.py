"""Compare attention with PyTorch's scaled_dot_product_attention: ``python -m benchmarks.attention [length ...]``.

Each library runs in its own process, on one thread unless ``--threads`` says otherwise. Rounds alternate between the
libraries, and the best time of all rounds counts: processor time on one thread, else wall time. A case is float32
attention with heads of 64 numbers and 4,096 rows in all heads together (two heads of the longest), forward alone and
forward with backward. Afterwards, a new process per case measures how far a step raises the peak memory. ``--write``
keeps the results and writes the table of docs/performance.md.
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
LENGTHS = (128, 256, 512, 1024, 2048, 4096)
SIZE = 64
ROWS = 4096
SECONDS_PER_ASK = 0.3


def data(length: int) -> list[Any]:
    """Return queries, keys and values: heads, length, size."""
    generator = np.random.default_rng(0)
    heads = max(2, ROWS // length)
    return [generator.standard_normal((heads, length, SIZE)).astype(np.float32) for _ in range(3)]


# -- worker processes


def ours(length: int, backward: bool) -> Callable[[], None]:
    """Return a call of phonograd."""
    import phonograd as mx

    nd = mx.nd
    q, k, v = (nd.array(array) for array in data(length))

    def attention() -> Any:
        scores = nd.batch_dot(q, k, transpose_b=True) * (SIZE**-0.5)
        return nd.batch_dot(nd.softmax(scores, axis=-1), v)

    if not backward:
        return lambda: attention().wait_to_read()
    for variable in (q, k, v):
        variable.attach_grad()

    def step() -> None:
        with mx.autograd.record():
            out = attention()
        out.backward()
        nd.waitall()

    return step


def torch(length: int, backward: bool) -> Callable[[], None]:
    """Return a call of PyTorch."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    variables = [torch.tensor(array[None], requires_grad=backward) for array in data(length)]
    function = torch.nn.functional.scaled_dot_product_attention
    if not backward:

        def without_graph() -> None:
            with torch.no_grad():
                function(*variables)

        return without_graph

    def step() -> None:
        out = function(*variables)
        torch.autograd.grad(out, variables, torch.ones_like(out))

    return step


def prepared(library: str, length: int, backward: bool) -> Callable[[], None]:
    """Return a call whose code is compiled."""
    call = {"phonograd": ours, "torch": torch}[library](length, backward)
    for _ in range(3):
        call()
    if library == "phonograd":
        from phonograd.core.run import kernel_cache

        kernel_cache.wait_for_tier_up()
        call()
    return call


def work(library: str) -> None:
    """Answer questions ``[length, backward]``, one JSON line each, with seconds."""
    clock = time.process_time if os.environ["OMP_NUM_THREADS"] == "1" else time.perf_counter
    for line in sys.stdin:
        call = prepared(library, *json.loads(line))
        best, count, end = float("inf"), 0, time.perf_counter() + SECONDS_PER_ASK
        while count < 3 or time.perf_counter() < end:
            start = clock()
            call()
            best = min(best, clock() - start)
            count += 1
        print(json.dumps(best), flush=True)


def measure_memory(library: str, length: int, backward: bool) -> None:
    """Print by how many MiB a step raises the peak memory of the process over what its arrays take."""

    def status(name: str) -> int:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name))

    # libraries, kernels and thread pools are loaded by a small case
    prepared(library, LENGTHS[0], backward)
    call = {"phonograd": ours, "torch": torch}[library](length, backward)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    for _ in range(3):
        call()
    print(json.dumps((status("VmHWM") - before) / 1024))


# -- the comparison


def environment(threads: int) -> dict[str, str]:
    """Return the environment of a process with some threads."""
    counts = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PHONOGRAD_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(counts, str(threads))}


class Worker:
    """Time one library in a process."""

    def __init__(self, python: str, library: str, threads: int) -> None:
        self._process = subprocess.Popen(
            [python, "-W", "ignore", str(HERE / "attention.py"), "--worker", library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(threads),
        )

    def ask(self, *question: Any) -> float:
        """Return the best time of a question."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: float = json.loads(self._process.stdout.readline())
        return answer


def peak(python: str, library: str, length: int, backward: bool, threads: int) -> float:
    """Return the memory of a step in MiB, measured in a process of its own."""
    question = json.dumps([library, length, backward])
    command = [python, "-W", "ignore", str(HERE / "attention.py"), "--memory", question]
    found = subprocess.run(command, env=environment(threads), capture_output=True, text=True, check=True)
    answer: float = json.loads(found.stdout)
    return answer


def main() -> int:
    """Measure all cases and return an exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("length", nargs="*", type=int, default=list(LENGTHS))
    parser.add_argument("--worker")
    parser.add_argument("--memory")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="keep the results of all and write the documents' figures")
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return 0
    if options.memory:
        measure_memory(*json.loads(options.memory))
        return 0
    from benchmarks import machine, report
    from benchmarks.compare import python_of

    pythons = {"phonograd": sys.executable}
    peer = python_of("torch")
    if peer is not None:
        pythons["torch"] = peer
    workers = {library: Worker(python, library, options.threads) for library, python in pythons.items()}
    seconds: dict[str, dict[str, float]] = {}
    memory: dict[str, dict[str, float]] = {}
    for length in options.length:
        for backward in (False, True):
            name = f"{length}, {'backward' if backward else 'forward'}"
            best = dict.fromkeys(workers, float("inf"))
            for _ in range(options.rounds):
                for library, worker in workers.items():
                    best[library] = min(best[library], worker.ask(length, backward))
            seconds[name] = best
            memory[name] = {
                library: peak(python, library, length, backward, options.threads) for library, python in pythons.items()
            }
            cells = [f"{lib} {best[lib] * 1e3:8.2f} ms {memory[name][lib]:7.1f} MiB" for lib in workers]
            print(f"{name:16s} {'  '.join(cells)}  {report.ratio(best, 'torch')}", flush=True)
    if options.write:
        if options.length != list(LENGTHS):
            parser.error("--write keeps the results of all lengths")
        kept = {"machine": machine.description(), "threads": options.threads, "seconds": seconds, "memory": memory}
        (HERE / "results" / "attention.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        report.write_pages()
    return 0


if __name__ == "__main__":
    sys.exit(main())
