"""Measure loops over the parts of an array: ``python -m benchmarks.loops``.

Forward and backward, per iteration, for more and more iterations: rows of 1000 numbers, processor time of one thread.
If the time per iteration is constant, the loop takes linear time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from phonograd import autograd, nd, settings
from phonograd.core.run import kernel_cache

COLUMNS, COUNTS = 1000, (50, 100, 200, 400)


def assigned(w: Any, x: Any, count: int) -> Any:
    """rows[i] = tanh(rows[i-1] * w + x[i])"""
    rows = nd.zeros((count, COLUMNS))
    rows[0] = w
    for i in range(1, count):
        rows[i] = nd.tanh(rows[i - 1] * w + x[i])
    return (rows * rows).sum()


def assigned_from_two(w: Any, x: Any, count: int) -> Any:
    """rows[i] = tanh(rows[i-2:i].sum(axis=0) * w)"""
    rows = nd.zeros((count, COLUMNS))
    rows[0] = w
    for i in range(2, count):
        rows[i] = nd.tanh(rows[i - 2 : i].sum(axis=0) * w)
    return (rows * rows).sum()


def added(w: Any, x: Any, count: int) -> Any:
    """rows[i-1:i+1] += w * x[i]"""
    rows = nd.zeros((count, COLUMNS))
    for i in range(1, count):
        rows[i - 1 : i + 1] += w * x[i]
    return (rows * rows).sum()


def walked_through(w: Any, x: Any, count: int) -> Any:
    """for row in x * w: total = total + row.sum()"""
    total = nd.zeros((1,))
    for row in x * w:
        total = total + row.sum()
    return total


def stacked(w: Any, x: Any, count: int) -> Any:
    """states.append(tanh(state * w + x[i])), stacked in the end"""
    state, states = w, []
    for i in range(count):
        state = nd.tanh(state * w + x[i])
        states.append(state)
    return nd.square(nd.stack(*states)).sum()


def microseconds(loop: Callable[[Any, Any, int], Any], count: int) -> float:
    """Return the best time of one iteration of a loop."""
    w, x = nd.ones((COLUMNS,)) * 0.9, nd.random.normal(shape=(count, COLUMNS))
    w.attach_grad()
    x.wait_to_read()

    def step() -> None:
        with autograd.record():
            loss = loop(w, x, count)
        loss.backward()
        w.grad.wait_to_read()

    for _ in range(4):
        step()
    kernel_cache.wait_for_tier_up()
    best = float("inf")
    for _ in range(10):
        start = time.thread_time()
        step()
        best = min(best, time.thread_time() - start)
    return best / count * 1e6


def main() -> int:
    """Print the time per iteration of every loop and return an exit status."""
    with settings.override(executor="native", num_threads=1):
        print(f"{'us per iteration':56s}" + "".join(f"{count:>8d}" for count in COUNTS))
        for loop in (assigned, assigned_from_two, added, walked_through, stacked):
            times = [microseconds(loop, count) for count in COUNTS]
            print(f"{loop.__doc__:56s}" + "".join(f"{found:8.1f}" for found in times), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
