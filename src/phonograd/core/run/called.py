"""Called kernels: operators whose kernels run where NumPy would be called, and whose results Python checks.

Takes nodes of operators that are lowered as :class:`~phonograd.core.lower.lowering.Called` (matrix factorizations,
index arrays), and plans from the module that the lowering names. Hands functions of arrays to programs of all tiers, so
the bits are the same in all of them. Any other operator is its NumPy function. See docs/decisions/0027.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..graph.node import Node
from ..graph.operator import Array, item_operator
from ..kernels.launch import Plan
from ..lower.lowering import Lowering, alternatives
from . import kernel_cache, memory_pool
from .driver import Row, prepare
from .host import host
from .reference import numpy_function

__all__ = ["function_of_node", "needs_numpy"]

#: functions to keep: one for each operator, its parameters and shapes
MOST_FUNCTIONS = 512

_BYTE = np.dtype(np.uint8)
_ITEM = item_operator()


def function_of_node(node: Node) -> Callable[..., Any]:
    """Return the function of arrays that computes a node: kernels if it has some, else NumPy.

    Kernels get contiguous copies of arrays that are not contiguous; arrays of NumPy's functions must be.
    """
    lowering = _lowering(node)
    if lowering is None or not kernel_cache.available():
        return numpy_function(node)
    shapes = tuple([(source.shape, source.dtype) for source in node.inputs])
    finish, retries, run, numpy = lowering.finish, lowering.retries, None, numpy_function(node)

    def call(*arrays: Array) -> Any:
        nonlocal run
        if run is None:
            run = _runner(_Key(node, lowering, shapes)) or numpy
        if run is numpy:
            with np.errstate(all="ignore"):
                return numpy(*[np.ascontiguousarray(array) for array in arrays])
        failed, results = run(*arrays)
        if finish is None:
            return numpy(*[np.ascontiguousarray(array) for array in arrays]) if failed and retries else results[0]
        if failed or lowering.computes:
            with np.errstate(all="ignore"):
                return finish(failed, *[np.ascontiguousarray(array) for array in arrays], *results)
        return finish(failed, *arrays, *results)

    return call


def needs_numpy(node: Node) -> bool:
    """Return whether NumPy computes a node, whose warnings about numbers must be off."""
    return node.operator is not _ITEM and (_lowering(node) is None or not kernel_cache.available())


def _lowering(node: Node) -> Lowering | None:
    sources = [source.dtype for source in node.inputs]
    for lowering in alternatives(node.operator.lowering):
        if lowering.routine is not None and lowering.fits(sources[0], sources):
            return lowering
    return None


class _Key:
    """A node, equal to all others of the same operator, parameters and shapes."""

    __slots__ = ("key", "lowering", "node")

    def __init__(self, node: Node, lowering: Lowering, shapes: tuple[Any, ...]) -> None:
        self.node, self.lowering = node, lowering
        self.key = node.operator.name, node.attributes, shapes, host()

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.key == other.key


#: runs the kernels of arrays, and returns whether one failed, and the arrays that they wrote
_Run = Callable[..., tuple[bool, list[Array]]]


@functools.lru_cache(MOST_FUNCTIONS)
def _runner(key: _Key) -> _Run | None:
    """Return the function that runs the kernels of a node, or None if there are none for its sizes."""
    node, operator = key.node, key.node.operator
    planner = importlib.import_module(key.lowering.plans)
    attributes = operator.accepted(planner.rule(key.lowering.routine), node.attributes)
    made = planner.plan(node, key.lowering.routine, host(), attributes)
    if made is None:
        return None
    results = [(shape, dtype, memory_pool.room_for(_bytes(shape, dtype))) for _, shape, dtype in made.results]
    names = [*operator.input_names, *[name for name, _, _ in made.results], "status", "scratch"]
    kernels, row = _compile(made.plan, names)
    room = memory_pool.room_for(made.plan.scratch_bytes) if made.plan.scratch_bytes else 0
    allocate, runs = memory_pool.allocate, 0
    count, last = len(operator.input_names), len(names) - 2
    is_small = [size < memory_pool.SMALLEST_BLOCK for _, _, size in results]
    small = [(slot, *given[:2]) for slot, given in enumerate(results, count) if is_small[slot - count]]
    launch = row.launcher(range(len(names)), small, 0)
    #: words in which kernels report a failure, one for each run at the same time
    statuses: list[Array] = []

    def run(*arrays: Array) -> tuple[bool, list[Array]]:
        nonlocal runs
        if runs < 2:
            runs += 1
            if runs == 2:
                # more runs are likely to follow
                kernel_cache.tier_up(kernels)
        status = statuses.pop() if statuses else np.zeros(1, np.int64)
        values: list[Any] = [*arrays]
        for (shape, dtype, size), is_made in zip(results, is_small):
            values.append(None if is_made and launch is not None else allocate(shape, dtype, size))
        values += (status, allocate((room,), _BYTE, room) if room else status)
        if launch is None:
            row.run(tuple(values))
        else:
            prepare()
            if not launch(values):
                values[:count] = [np.ascontiguousarray(array) for array in arrays]
                is_launched = launch(values)
                assert is_launched, node
        written = values[count:last]
        if not status[0]:
            statuses.append(status)
            return False, written
        return True, written

    return run


def _compile(plan: Plan, names: Sequence[str]) -> tuple[list[kernel_cache.Kernel], Row]:
    places = {name: (number, 0) for number, name in enumerate(names)}
    work: dict[Any, int] = {}
    for launch in plan.launches:
        work[launch.structure] = work.get(launch.structure, 0) + max(launch.extent // launch.chunk, launch.work)
    kernels = kernel_cache.kernels(work)
    launches = [(kernels[each.structure], each.table(places), each.extent, each.chunk) for each in plan.launches]
    return list(kernels.values()), Row(launches, len(names))


def _bytes(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    return math.prod(shape) * dtype.itemsize
