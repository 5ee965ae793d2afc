"""Compare convolution kernels with NumPy's reference and PyTorch, side by side: ``python -m benchmarks.convolution``.

Each library runs in its own process; rounds alternate between them and the best of all rounds counts. PyTorch is timed
by the interpreter that the environment variable ``TORCH_PYTHON`` names, and left out without it. ``--threads 1 2``,
``--cases``, ``--rounds``, ``--numpy`` (slow) and ``--plain`` (no Winograd) choose what is measured. Results are printed
as a table and written with a description of the machine to ``benchmarks/results/convolution.json``.

On a machine that others use too, wall time is unfair to whoever takes longer than a time slice of the system. With one
thread, the processor time of the process is measured therefore. With several, every measurement waits until the machine
is idle, for ``--patience`` seconds at most; how idle it was is printed with the results, which say little below 90 %.

For each case there are three passes: the convolution, its adjoint in the data and its adjoint in the weights.
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

HERE = Path(__file__).parent

#: shape of the data, shape of the weight, stride, padding, groups
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, int, int]] = {
    "3x3, 64 -> 64 channels, 16 x 28 x 28": ((16, 64, 28, 28), (64, 64, 3, 3), 1, 1, 1),
    "LeNet 1: 5x5, 1 -> 20, 64 x 28 x 28": ((64, 1, 28, 28), (20, 1, 5, 5), 1, 0, 1),
    "LeNet 2: 5x5, 20 -> 50, 64 x 12 x 12": ((64, 20, 12, 12), (50, 20, 5, 5), 1, 0, 1),
    "3x3 stride 2, 64 -> 128, 16 x 56 x 56": ((16, 64, 56, 56), (128, 64, 3, 3), 2, 1, 1),
    "1x1, 256 -> 64, 16 x 28 x 28": ((16, 256, 28, 28), (64, 256, 1, 1), 1, 0, 1),
    "depthwise 3x3, 128, 16 x 28 x 28": ((16, 128, 28, 28), (128, 1, 3, 3), 1, 1, 128),
    "depthwise 3x3 stride 2, 96, 16 x 56 x 56": ((16, 96, 56, 56), (96, 1, 3, 3), 2, 1, 96),
    "7x7 stride 2, 3 -> 64, 8 x 112 x 112": ((8, 3, 112, 112), (64, 3, 7, 7), 2, 3, 1),
    "3x3, 3 -> 32, 32 x 32 x 32": ((32, 3, 32, 32), (32, 3, 3, 3), 1, 1, 1),
    "3x3, 256 -> 256, 8 x 14 x 14": ((8, 256, 14, 14), (256, 256, 3, 3), 1, 1, 1),
    "3x3, 512 -> 512, 8 x 7 x 7": ((8, 512, 7, 7), (512, 512, 3, 3), 1, 1, 1),
    "3x3, 64 -> 64, 1 x 56 x 56": ((1, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1),
    "5x5, 32 -> 64, 16 x 16 x 16": ((16, 32, 16, 16), (64, 32, 5, 5), 1, 2, 1),
    "1x1 stride 2, 128 -> 256, 16 x 28 x 28": ((16, 128, 28, 28), (256, 128, 1, 1), 2, 0, 1),
    "3x3, 16 -> 16, 128 x 32 x 32": ((128, 16, 32, 32), (16, 16, 3, 3), 1, 1, 1),
    "3x3, 128 -> 128, 8 x 28 x 28": ((8, 128, 28, 28), (128, 128, 3, 3), 1, 1, 1),
    "3x3 stride 2, 128 -> 256, 8 x 28 x 28": ((8, 128, 28, 28), (256, 128, 3, 3), 2, 1, 1),
    "3x3 stride 2, 32 -> 64, 16 x 32 x 32": ((16, 32, 32, 32), (64, 32, 3, 3), 2, 1, 1),
    "1x1, 64 -> 256, 4 x 56 x 56": ((4, 64, 56, 56), (256, 64, 1, 1), 1, 0, 1),
    "1x1, 512 -> 512, 8 x 14 x 14": ((8, 512, 14, 14), (512, 512, 1, 1), 1, 0, 1),
    "1x1, 512 -> 2048, 8 x 7 x 7": ((8, 512, 7, 7), (2048, 512, 1, 1), 1, 0, 1),
    "depthwise 3x3, 512, 8 x 14 x 14": ((8, 512, 14, 14), (512, 1, 3, 3), 1, 1, 512),
    "7x7 stride 2, 3 -> 64, 2 x 224 x 224": ((2, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1),
    "5x5, 48 -> 64, 8 x 35 x 35": ((8, 48, 35, 35), (64, 48, 5, 5), 1, 2, 1),
}
PASSES = ("forward", "data", "weight")
SECONDS_PER_ASK = 0.25


# -- what a worker times


def ours(case: str, which: str, threads: int, winograd: bool) -> Callable[[], None]:
    """Return a call of our kernels."""
    import numpy as np

    from phonograd import settings
    from phonograd.core.kernels.conv import Convolution
    from phonograd.core.run import kernel_cache
    from phonograd.core.run.driver import Row
    from phonograd.core.run.host import host

    data, weight, stride, pad, groups = CASES[case]
    generator, float32 = np.random.default_rng(0), np.dtype("float32")
    window: dict[str, Any] = {"stride": (stride,) * 2, "dilate": (1, 1), "pad": (pad,) * 2, "groups": groups}
    out = (data[0], weight[0], *[(n + 2 * pad - k) // stride + 1 for n, k in zip(data[2:], weight[2:])])
    plans = Convolution(host(), slots=threads, winograd=8 if winograd else 0)
    if which == "forward":
        plan = plans.forward(data, weight, float32, **window)
        shapes = {"data": data, "weight": weight, "out": out}
    elif which == "data":
        plan = plans.data_grad(out, weight, float32, extent=data[2:], **window)
        shapes = {"out_grad": out, "weight": weight, "out": data}
    else:
        plan = plans.weight_grad(data, out, float32, kernel=weight[2:], **window)
        shapes = {"data": data, "out_grad": out, "out": weight}
    arrays = {name: generator.normal(size=shape).astype(float32) for name, shape in shapes.items()}
    scratch = np.zeros(plan.scratch_bytes + 64, np.uint8)
    arrays["scratch"] = scratch[-scratch.ctypes.data % 64 :]
    places = {name: (number, 0) for number, name in enumerate(arrays)}
    launches = []
    for launch in plan.launches:
        if launch.structure not in _kernels:
            name = f"timed{len(_kernels)}"
            _kernels[launch.structure] = kernel_cache.compile_text(launch.structure.write(name), name)
        launches.append((_kernels[launch.structure], launch.table(places), launch.extent, launch.chunk))
    row, values = Row(launches, len(arrays)), tuple(arrays.values())

    def call() -> None:
        settings.update(num_threads=threads)
        row.run(values)

    return call


_kernels: dict[Any, Any] = {}


def reference(case: str, which: str, threads: int, winograd: bool) -> Callable[[], object]:
    """Return a call of NumPy's reference."""
    import numpy as np

    from phonograd.core.ops.nn import convolution

    data, weight, stride, pad, groups = CASES[case]
    generator = np.random.default_rng(0)
    window: dict[str, Any] = {"stride": (stride,) * 2, "dilate": (1, 1), "pad": (pad,) * 2, "groups": groups}
    x, w = [generator.normal(size=shape).astype("float32") for shape in (data, weight)]
    g = convolution._convolution.function(x, w, **window)
    if which == "forward":
        return lambda: convolution._convolution.function(x, w, **window)
    if which == "data":
        return lambda: convolution._convolution_data_grad.function(g, w, extent=data[2:], **window)
    return lambda: convolution._convolution_weight_grad.function(x, g, kernel=weight[2:], **window)


def torch(case: str, which: str, threads: int, winograd: bool) -> Callable[[], object]:
    """Return a call of PyTorch."""
    import torch

    torch.set_num_threads(threads)
    data, weight, stride, pad, groups = CASES[case]
    x, w = torch.randn(data, requires_grad=True), torch.randn(weight, requires_grad=True)

    def forward() -> Any:
        return torch.nn.functional.conv2d(x, w, None, stride, pad, 1, groups)

    if which == "forward":

        def without_graph() -> object:
            with torch.no_grad():
                return forward()

        return without_graph
    y = forward()
    grad = torch.randn_like(y)
    return lambda: torch.autograd.grad(y, [x if which == "data" else w], grad, retain_graph=True)


def work(library: str) -> None:
    """Answer questions ``[case, pass, threads, winograd]``, one JSON line each, with seconds."""
    make = {"phonograd": ours, "numpy": reference, "torch": torch}[library]
    known: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        case, which, threads, winograd = json.loads(line)
        if line not in known:
            known[line] = make(case, which, threads, winograd)
            known[line]()
        call, best, count = known[line], float("inf"), 0
        clock = time.process_time if threads == 1 else time.perf_counter
        end = time.perf_counter() + SECONDS_PER_ASK
        if library == "torch":
            sys.modules["torch"].set_num_threads(threads)  # type: ignore[attr-defined]
        while count < 3 or time.perf_counter() < end:
            start = clock()
            call()
            best = min(best, clock() - start)
            count += 1
        print(json.dumps(best), flush=True)


# -- the comparison


def idle_share(seconds: float = 0.05) -> float:
    """Return which part of the processors was idle for a moment; 1 where the system does not say."""
    if not Path("/proc/stat").exists():
        return 1.0

    def ticks() -> list[int]:
        return [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]

    before = ticks()
    time.sleep(seconds)
    spent = [after - start for start, after in zip(before, ticks())]
    return (spent[3] + spent[4]) / max(1, sum(spent))


def wait_until_idle(patience: float) -> float:
    """Return the idle share of the processors once it is above 90 %, or when patience is at its end."""
    end = time.perf_counter() + patience
    share = idle_share()
    while share < 0.9 and time.perf_counter() < end:
        time.sleep(0.2)
        share = idle_share()
    return share


class Worker:
    """A process that times one library."""

    def __init__(self, python: str, library: str) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [python, "-W", "ignore", str(HERE / "convolution.py"), "--worker", library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def ask(self, *question: Any) -> float:
        """Return the best time of a question."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: float = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def flops(case: str) -> float:
    """Return the operations of one pass."""
    data, weight, stride, pad, _ = CASES[case]
    windows = 1
    for size, kernel in zip(data[2:], weight[2:]):
        windows *= (size + 2 * pad - kernel) // stride + 1
    return 2.0 * data[0] * windows * weight[0] * weight[1] * weight[2] * weight[3]


def report(case: str, threads: int, best: dict[str, dict[str, float]], idle: float) -> dict[str, Any]:
    """Print the times of a case and return them with their ratios."""
    mine = best["phonograd"]
    clock = "processor time" if threads == 1 else "wall time"
    entry: dict[str, Any] = {"case": case, "threads": threads, "clock": clock, "idle": idle, "seconds": best}
    print(f"{case}, {threads} thread{'s' if threads > 1 else ''}, {clock}, machine {idle:.0%} idle")
    for library, times in best.items():
        cells = [
            f"{which} {times[which] * 1e6:8.0f} us {flops(case) / times[which] / 1e9:6.1f} GF/s" for which in PASSES
        ]
        total = sum(times.values())
        line = f"  {library:10s} " + "   ".join(cells) + f"   all {total * 1e6:8.0f} us"
        if library != "phonograd":
            ratio = total / sum(mine.values())
            by_pass = ", ".join(f"{times[which] / mine[which]:.2f}" for which in PASSES)
            line += f"   ratio {ratio:.2f} ({by_pass})"
            entry[f"ratio_{library}"] = ratio
        print(line)
    return entry


def main() -> int:
    """Time all cases and return an exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--cases", nargs="*", default=[], help="parts of the names of cases")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--patience", type=float, default=5.0, help="seconds to wait for an idle machine")
    parser.add_argument("--numpy", action="store_true", help="time the reference too")
    parser.add_argument("--plain", action="store_true", help="without Winograd")
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return 0
    workers = {"phonograd": Worker(sys.executable, "phonograd")}
    if options.numpy:
        workers["numpy"] = Worker(sys.executable, "numpy")
    if "TORCH_PYTHON" in os.environ:
        workers["torch"] = Worker(os.environ["TORCH_PYTHON"], "torch")
    else:
        print("TORCH_PYTHON is not set: measuring without PyTorch", file=sys.stderr)
    entries = []
    for case in CASES:
        if options.cases and not any(part in case for part in options.cases):
            continue
        for threads in options.threads:
            # NumPy's matrix products run on one thread here
            asked = {library: worker for library, worker in workers.items() if threads == 1 or library != "numpy"}
            best = {library: dict.fromkeys(PASSES, float("inf")) for library in asked}
            idle = []
            for _ in range(options.rounds):
                for which in PASSES:
                    for library, worker in asked.items():
                        idle.append(wait_until_idle(options.patience if threads > 1 else 0))
                        seconds = worker.ask(case, which, threads, not options.plain)
                        best[library][which] = min(best[library][which], seconds)
            entries.append(report(case, threads, best, sorted(idle)[len(idle) // 2]))
    for worker in workers.values():
        worker.close()
    if not options.cases:
        from benchmarks.machine import description

        (HERE / "results").mkdir(exist_ok=True)
        results = {"machine": description(), "results": entries}
        (HERE / "results" / "convolution.json").write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
