"""Measure when batches pay: ``python -m benchmarks.batches``.

A step runs LSTM cells along some random trees (:func:`benchmarks.workloads_novel_nd.forest`), another forest in each
step. Its backward pass, which computes the forward pass too, runs equal operators together or one by one, in turn. The
table has the number of nodes for each group, and the median of the processor time of the backward pass in milliseconds.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from typing import Any
from unittest import mock

import phonograd as mx
from benchmarks.workloads_novel_nd import forest
from phonograd.core.backward import eager_batches
from phonograd.core.plan.eager_batches import Batches

COUNTS = (1, 2, 3, 4, 6, 8, 16, 32)


def measure(count: int, steps: int = 40) -> tuple[float, float, float]:
    """Return nodes for each group, and the times with and without batches, for some trees in each step."""
    widths: list[float] = []
    times: dict[bool, list[float]] = {True: [], False: []}
    is_batched = False
    backward = mx.nd.NDArray.backward

    def is_wide(policy: Any, batches: Batches) -> bool:
        widths.append(len(batches.group_of) / len(batches.groups))
        return True

    def tries(policy: Any, nodes: int) -> bool:
        return is_batched

    def timed(*arguments: Any) -> None:
        start = time.process_time()
        backward(*arguments)
        times[is_batched].append(time.process_time() - start)

    step = forest(mx, count=count)
    with (
        mock.patch.object(eager_batches.Policy, "is_wide", is_wide),
        mock.patch.object(eager_batches.Policy, "tries", tries),
        mock.patch.object(mx.nd.NDArray, "backward", timed),
    ):
        for number in range(steps + 6):
            if number == 6:
                # functions and rules are made by now
                times = {True: [], False: []}
                gc.collect()
                gc.disable()
            is_batched = number % 2 == 0
            step(number)
    gc.enable()
    return statistics.mean(widths), *[statistics.median(times[each]) * 1e3 for each in (True, False)]


def main() -> int:
    """Print a table."""
    print(f"{'trees':>6}{'nodes/group':>13}{'batched':>9}{'one by one':>12}")
    for count in COUNTS:
        width, batched, alone = measure(count)
        print(f"{count:6}{width:13.1f}{batched:9.2f}{alone:12.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
