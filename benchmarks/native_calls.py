"""What the thread team and the products of matrices cost: ``python -m benchmarks.native_calls``.

Times are the best and the median of many rounds, in microseconds. Rounds of what is compared alternate, because other
programs on the machine disturb both alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from phonograd import settings
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.primitives import matmul, swap_last
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import kernel_cache, thread_pool
from phonograd.core.run.driver import Row

SECONDS = 1.5

NOTHING = "define void @nothing(ptr %table, ptr %bases, i64 %lo, i64 %hi) { ret void }"

#: takes about 10 microseconds per item
WAIT = """
define void @wait(ptr %table, ptr %bases, i64 %lo, i64 %hi) {
entry:
  %counter = alloca i64, align 8
  %turns = load i64, ptr %table, align 8
  %items = sub i64 %hi, %lo
  %total = mul i64 %turns, %items
  br label %turn
turn:
  %done = phi i64 [ 0, %entry ], [ %next, %turn ]
  %next = add i64 %done, 1
  store volatile i64 %next, ptr %counter, align 8
  %more = icmp slt i64 %next, %total
  br i1 %more, label %turn, label %over
over:
  ret void
}
"""

Case = Callable[[], object]


def rounds(
    cases: dict[str, Case], seconds: float = SECONDS, pause: float = 0.0, before: Case | None = None
) -> dict[str, list[float]]:
    """Return the times of each case in microseconds, sorted; before each time there is a pause, or something is run."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for case in cases.values():
        case()
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        for name, case in cases.items():
            if pause:
                time.sleep(pause)
            if before is not None:
                before()
            start = time.perf_counter()
            case()
            times[name].append((time.perf_counter() - start) * 1e6)
    return {name: sorted(found) for name, found in times.items()}


def show(title: str, times: dict[str, list[float]], per: int = 1, flops: float = 0.0) -> None:
    """Print best and median of each case, and the best in GFLOP/s where that makes sense."""
    print(title)
    for name, found in times.items():
        best, median = found[0] / per, found[len(found) // 2] / per
        speed = f"{flops / best / 1e3:9.1f} GFLOP/s" if flops else ""
        print(f"    {name:24} best {best:10.2f}   median {median:10.2f}{speed}")


def unshared(case: Case) -> Case:
    """Return a case that runs on the calling thread only, while the team stays as it is."""

    def run() -> object:
        address, thread_pool.CELL[0] = int(thread_pool.CELL[0]), 0
        try:
            return case()
        finally:
            thread_pool.CELL[0] = address

    return run


def program(targets: list[Node], bindings: dict[Node, np.ndarray]) -> Case:
    """Return a case that computes nodes."""
    made = NativeProgram(targets, bindings.__contains__)
    inputs = [bindings[node] for node in made.inputs]
    for _ in range(3):
        made.run(inputs)
    # kernels of plans that are used again are compiled once more, in full
    deadline = time.monotonic() + 5
    while any([kernel.improvable for kernel in made.kernels.values()]) and time.monotonic() < deadline:
        time.sleep(0.01)
    return lambda: made.run(inputs)


def regions() -> None:
    """Measure empty launches, the price of sharing one, and waking up workers that sleep."""
    nothing = kernel_cache.compile_text(NOTHING, "nothing")
    wait = kernel_cache.compile_text(WAIT, "wait")
    data = (np.zeros(1),)
    launches = 1000
    cases: dict[str, Case] = {}
    for name, extent in (("one chunk", 1), ("two chunks", 2), ("eight chunks", 8)):
        row = Row([(nothing, [0], extent, 1)] * launches, 1)
        cases[name] = partial(row.run, data)
    show("empty launch", rounds(cases), per=launches)
    probe = Row([(wait, [10_000], 1, 1)], 1)
    turns = round(10_000 * 10 / min(rounds({"probe": lambda: probe.run(data)}, 0.2)["probe"]))
    summon = partial(Row([(nothing, [0], 100, 1)], 1).run, data)
    for items in (2, 4, 20):
        alone = Row([(wait, [turns], items, items)], 1)
        shared = Row([(wait, [turns], items, 1)], 1)
        both: dict[str, Case] = {"alone": partial(alone.run, data), "shared": partial(shared.run, data)}
        show(f"{items} chunks of 10 us, workers awake", rounds(both, before=summon))
        show(f"{items} chunks of 10 us, workers asleep", rounds(both, pause=0.003))
    time.sleep(0.1)
    start = time.process_time()
    time.sleep(1.0)
    print(f"idle: {(time.process_time() - start) * 1e6:.0f} us of processor time in a second")


def elementwise() -> None:
    """Measure kernels on four million numbers."""
    size = 4_000_000
    random = np.random.default_rng(0)
    x, w = [random.random(size, np.float32) for _ in range(2)]
    data, weight = leaf(0, (size,), x.dtype), leaf(1, (size,), w.dtype)
    exp, tanh, sum_to = REGISTRY["exp"], REGISTRY["tanh"], REGISTRY["_sum_to"]
    for name, target in (
        ("x + w", data + weight),
        ("tanh(x * w) * exp(x)", tanh(data * weight) * exp(data)),
        ("sum(x)", sum_to(data, shape=())),
        ("sum(tanh(x * w))", sum_to(tanh(data * weight), shape=())),
    ):
        case = program([target], {data: x, weight: w})
        cases = {"1 thread": unshared(case), f"{CORES} threads": case}
        show(f"{name}, {size} floats", rounds(cases))


def products() -> None:
    """Measure products of matrices beside NumPy's, which uses as many threads as it likes."""
    random = np.random.default_rng(0)
    for rows, terms, columns, turned in (
        (1024, 1024, 1024, False),
        (32, 128, 512, False),
        (64, 784, 256, False),
        (64, 784, 256, True),
        (32, 512, 128, True),
        (64, 128, 10, True),
    ):
        x = random.random((rows, terms), np.float32)
        y = random.random((columns, terms) if turned else (terms, columns), np.float32)
        lhs, rhs = leaf(0, x.shape, x.dtype), leaf(1, y.shape, y.dtype)
        case = program([matmul(lhs, swap_last(rhs) if turned else rhs)], {lhs: x, rhs: y})
        theirs = y.T if turned else y
        cases: dict[str, Case] = {"1 thread": unshared(case), f"{CORES} threads": case}
        cases["numpy"] = partial(np.matmul, x, theirs)
        title = f"({rows}, {terms}) x ({terms}, {columns}){' transposed' if turned else ''}"
        show(title, rounds(cases), flops=2.0 * rows * terms * columns)


CORES = settings.current().num_threads

if __name__ == "__main__":
    print(f"{CORES} cores")
    regions()
    elementwise()
    products()
