"""Measure when batches pay: ``python -m benchmarks.batches [new] [predictions] [products] [plans]``.

Equal operators run together or one by one, in turn, in one process. All times are processor time.

new
    The backward pass of LSTM cells along random trees (:func:`benchmarks.workloads_novel_nd.forest`), another forest in
    each step: medians in milliseconds, and the number of nodes for each group.
predictions
    The same cells without gradients.
products
    Plans of products by one matrix: the least time in microseconds, by the number of products and of rows of each.
plans
    Plans of a network that runs for one example after the other, and of a recurrent one: the least time in
    microseconds, launches, and bytes of the arena.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import numpy as np

import phonograd as mx
from benchmarks.workloads_novel_nd import forest, predictions
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.primitives import matmul
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.plan import batches as plan_batches
from phonograd.core.plan import eager_batches
from phonograd.core.plan.eager_batches import Batches
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run.reference import resolve
from phonograd.core.trace.novelty import NOVELTY

COUNTS = (2, 4, 8, 16, 32)
#: steps before the measured ones: functions and rules are made by then
FIRST = 6
FLOAT32 = np.dtype("float32")


def measure(make: Callable[..., Any], timed: str, count: int, steps: int = 40) -> tuple[float, float, float]:
    """Return nodes for each group, and the times with and without batches, for some trees in each step."""
    widths: list[float] = []
    times: dict[bool, list[float]] = {True: [], False: []}
    is_batched = False
    whole = getattr(mx.nd.NDArray, timed)

    def is_wide(policy: Any, batches: Batches) -> bool:
        widths.append(len(batches.group_of) / len(batches.groups))
        return True

    def tries(policy: Any, nodes: int) -> bool:
        return is_batched

    def run(*arguments: Any) -> Any:
        start = time.thread_time()
        found = whole(*arguments)
        times[is_batched][-1] += time.thread_time() - start
        return found

    step = make(mx, count=count)
    with (
        mock.patch.object(eager_batches.Policy, "is_wide", is_wide),
        mock.patch.object(eager_batches.Policy, "tries", tries),
        mock.patch.object(mx.nd.NDArray, timed, run),
    ):
        for number in range(steps + FIRST):
            if number == FIRST:
                times = {True: [], False: []}
                gc.collect()
                gc.disable()
            is_batched = number % 2 == 0
            times[is_batched].append(0.0)
            # calls without a graph have no batches
            NOVELTY.forget()
            step(number)
    gc.enable()
    return statistics.mean(widths), *[statistics.median(times[each]) * 1e3 for each in (True, False)]


def print_trees(make: Callable[..., Any], timed: str) -> None:
    """Print a table for numbers of trees."""
    print(f"{'trees':>6}{'nodes/group':>13}{'batched':>9}{'one by one':>12}")
    for count in COUNTS:
        width, batched, alone = measure(make, timed, count)
        print(f"{count:6}{width:13.1f}{batched:9.2f}{alone:12.2f}", flush=True)


# -- plans


@contextmanager
def without_batches() -> Iterator[None]:
    """Make plans in which all products stay alone."""
    with ExitStack() as stack:
        for name in ("FEW_ROWS", "FEW_ROWS_OF_LARGE"):
            stack.enter_context(mock.patch.object(plan_batches, name, 0))
        yield


@contextmanager
def always_with_batches() -> Iterator[None]:
    """Make plans in which products run together, however many rows they have."""
    with ExitStack() as stack:
        for name in ("FEW_ROWS", "FEW_ROWS_OF_LARGE", "MOST_ROWS"):
            stack.enter_context(mock.patch.object(plan_batches, name, 1 << 20))
        yield


def compare(
    targets: Sequence[Node], leaves: Sequence[Node], always: bool = False, rounds: int = 60
) -> dict[bool, tuple[float, int, int]]:
    """Return time in microseconds, launches and arena bytes of plans with and without batches; check their bits."""
    draw = np.random.default_rng(0)
    values = {node: draw.standard_normal(node.shape).astype(node.dtype) * 0.1 for node in leaves}
    made = {}
    with always_with_batches() if always else nullcontext():
        made[True] = NativeProgram(targets, values.__contains__)
    with without_batches():
        made[False] = NativeProgram(targets, values.__contains__)
    inputs = {each: [values[node] for node in program.inputs] for each, program in made.items()}
    # the second run has the kernels compiled in full, by a helper
    results = {each: [program.run(inputs[each]) for _ in range(3)][-1] for each, program in made.items()}
    assert all([one.tobytes() == other.tobytes() for one, other in zip(*results.values(), strict=True)])
    time.sleep(1)
    best = dict.fromkeys(made, float("inf"))
    for _ in range(rounds):
        for each, program in made.items():
            start = time.thread_time()
            program.run(inputs[each])
            best[each] = min(best[each], time.thread_time() - start)
    return {
        each: (best[each] * 1e6, sum([len(part.kernels) for part in program.parts]), program.memory.arena)
        for each, program in made.items()
    }


def _leaves(shapes: Sequence[tuple[int, ...]]) -> list[Node]:
    return [leaf(number, shape, FLOAT32) for number, shape in enumerate(shapes)]


def print_products() -> None:
    """Print times alone and the gain together, by the sizes of the matrix, the number of products and their rows."""
    rows = (1, 2, 4, 8, 16, 32)
    print(f"{'matrix':>10}{'products':>10}" + "".join([f"{f'{each} rows':>14}" for each in rows]))
    for terms, columns in ((64, 10), (64, 256), (200, 800), (512, 512)):
        for count in (2, 4, 16):
            cells = []
            for each in rows:
                matrix, bias, *data = nodes = _leaves([(terms, columns), (columns,), *[(each, terms)] * count])
                found = compare([REGISTRY["relu"](matmul(one, matrix) + bias) for one in data], nodes, True)
                cells.append(f"{found[False][0]:8.0f} {found[False][0] / found[True][0]:4.2f}x")
            print(f"{f'{terms}x{columns}':>10}{count:10}" + "".join(cells), flush=True)


def _examples(count: int, with_gradients: bool) -> tuple[list[Node], list[Node]]:
    """Return the results of a network of two layers for examples one by one, or its gradients; and the leaves."""
    first, second, *data = nodes = _leaves([(256, 256), (256, 64), *[(1, 256)] * count])
    if with_gradients:
        first, second = [variable(node, number) for number, node in enumerate((first, second))]
    found = [matmul(REGISTRY["relu"](matmul(each, first)), second) for each in data]
    return (_gradients([out * out for out in found]) if with_gradients else found), nodes


def _recurrent(steps: int, with_gradients: bool) -> tuple[list[Node], list[Node]]:
    """Return the states of a recurrent network for one sequence, or its gradients; and the leaves."""
    own, other, state, *data = nodes = _leaves([(256, 256), (256, 256), *[(1, 256)] * (steps + 1)])
    if with_gradients:
        own, other = [variable(node, number) for number, node in enumerate((own, other))]
    states = []
    for each in data:
        state = REGISTRY["tanh"](matmul(each, own) + matmul(state, other))
        states.append(state)
    return (_gradients([state * state for state in states]) if with_gradients else states), nodes


def _gradients(heads: Sequence[Node]) -> list[Node]:
    found = differentiate(tuple(heads), (None,) * len(heads)).targets.values()
    return [resolve(node) for node in found if node is not None]


def print_plans() -> None:
    """Print times, launches and memory of plans."""
    print(f"{'':22}{'one by one':>22}{'batched':>22}  gain")
    for name, make, count in (("64 examples", _examples, 64), ("35 steps", _recurrent, 35)):
        for with_gradients in (False, True):
            found = compare(*make(count, with_gradients))
            cells = [f"{found[each][0]:8.0f}{found[each][1]:5}{found[each][2]:9}" for each in (False, True)]
            title = f"{name}{', gradients' * with_gradients}"
            print(f"{title:22}{''.join(cells)}  {found[False][0] / found[True][0]:.2f}", flush=True)


def main() -> int:
    """Print the tables that are asked for, or all."""
    parts: dict[str, Callable[[], None]] = {
        "new": lambda: print_trees(forest, "backward"),
        "predictions": lambda: print_trees(predictions, "asnumpy"),
        "products": print_products,
        "plans": print_plans,
    }
    asked = sys.argv[1:] or list(parts)
    if unknown := [name for name in asked if name not in parts]:
        print(f"there is no part {unknown[0]!r}; parts are {', '.join(parts)}", file=sys.stderr)
        return 2
    with mx.settings.override(num_threads=1, packed_bytes=0):
        for name in asked:
            print(f"-- {name}")
            parts[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
