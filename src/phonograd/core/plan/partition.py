"""Partition: splits the range of a kernel into chunks for the workers.

Used by :mod:`~phonograd.core.plan.assembly`. A chunk is large enough to be worth handing to another thread. If a sum
leaves too few chunks, the kernel computes partial results for parts of the summed axes, and other kernels join these in
the order of the parts (:mod:`phonograd.core.kernels.fused.join`).
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from ..base.dtypes import DType
from ..graph.decisions import decision
from ..graph.node import Shape
from ..graph.operator import REGISTRY
from ..kernels.fused.join import JOIN, Join
from ..kernels.fused.writer import BLOCKS
from ..kernels.launch import Launch, Plan, Reference, align_up
from ..kernels.structure import KEPT, REDUCED, Compute, Structure
from ..lower.ir.emitter import ROW

__all__ = ["CHUNK_ELEMENTS", "ENOUGH_CHUNKS", "PART_ELEMENTS", "Result", "chunk_of", "partition", "parts_of", "work_of"]

#: elements of a chunk with little work per element: 2 to 8 microseconds of work. Handing a chunk over takes half a
#: microsecond, and reading memory that another processor wrote takes ten times as long as reading one's own
CHUNK_ELEMENTS = 1 << 14
#: operations per element that are hidden by memory access
FREE_OPERATIONS = 4.0
#: chunks that are enough for any number of threads
MOST_CHUNKS = 256
#: minimum elements of a sum whose axes are divided
PART_ELEMENTS = 1 << 16
#: chunks that are enough to share a sum out among threads; with fewer, the summed axes are divided too
ENOUGH_CHUNKS = 8


class Result(NamedTuple):
    """The result of a fold, in memory."""

    operator: str
    dtype: DType
    out: Reference
    strides: Shape


def chunk_of(structure: Structure, extents: Shape) -> int:
    """Return the size of a chunk of a kernel's range."""
    axis = structure.range_axis
    return 1 if axis is None else chunk_along(axis, _operations(structure), *extents)


@decision
def chunk_along(axis: int, operations: float, *extents: int) -> int:
    """Return the size of a chunk along an axis, given the operations for each element."""
    chunks = min(_chunks(extents, operations), MOST_CHUNKS)
    # a few chunks should be as many for each of two or four threads
    if chunks > 1:
        chunks = 2 if chunks <= 2 else math.ceil(chunks / 4) * 4
    items = max(1, math.ceil(extents[axis] / chunks)) if chunks else 1
    # random numbers are drawn for groups of 64 elements, and whole cache lines are written faster
    return -(-items // 64) * 64 if axis == len(extents) - 1 else items


def work_of(structure: Structure, extents: Shape) -> float:
    """Return the number of chunks of a kernel without a limit: some microseconds each."""
    return _chunks(extents, _operations(structure))


def _chunks(extents: Shape, operations: float) -> float:
    return math.prod(extents) / CHUNK_ELEMENTS * max(1.0, operations / FREE_OPERATIONS)


@functools.lru_cache(4096)
def _operations(structure: Structure) -> float:
    """Return the approximate number of operations of a kernel per element."""
    total = float(len(structure.draws) * 10)
    for step in structure.steps:
        if isinstance(step, Compute) and not step.row:
            cost = REGISTRY[step.operator].cost
            total += 1.0 if callable(cost) else cost
    return total


def parts_of(structure: Structure, extents: Shape) -> int:
    """Return the number of parts of a kernel along its outermost reduced axis; 0 if it is not partitioned."""
    elements = math.prod(extents)
    if elements < PART_ELEMENTS:
        return 0
    axis = structure.range_axis
    chunks = 1 if axis is None else -(-extents[axis] // chunk_of(structure, extents))
    parts = extents[structure.axes.index(REDUCED)]
    width = ROW if structure.folds_rows else 1
    if structure.axes.count(REDUCED) == 1:
        parts = -(-parts // (BLOCKS[0] * width))
    partial = parts * width * _items(structure, extents)
    return parts if parts > chunks and chunks < ENOUGH_CHUNKS and partial <= elements // 8 else 0


def partition(
    structure: Structure, extents: Shape, words: list[int | Reference], results: list[Result], parts: int
) -> Plan:
    """Return a plan of a kernel for partial results and kernels that join them; ``words`` are the other operands'."""
    joins, scratch_bytes = [], 0
    items, width = _items(structure, extents), ROW if structure.folds_rows else 1
    axis = structure.axes.index(REDUCED)
    for operator, dtype, out, strides in results:
        partial = Reference("scratch", scratch_bytes)
        part_strides = [stride * width for stride in strides]
        part_strides[axis] = items * width
        words += [partial, *part_strides]
        kernel = Join(operator, dtype, ROW // 2 if dtype.itemsize == 8 else ROW, structure.folds_rows)
        join = JOIN.fill({"parts": parts, "items": items, "partial": partial, "out": out})
        joins.append(Launch(kernel, join, items, -(-CHUNK_ELEMENTS // (parts * width * ROW)) * ROW))
        scratch_bytes += align_up(parts * items * width * dtype.itemsize)
    stores = tuple([store for store in structure.stores if not store.row])
    chunk = max(1, CHUNK_ELEMENTS * parts // math.prod(extents))
    launch = Launch(structure._replace(stores=stores, partitioned=True), tuple(words), parts, chunk)
    return Plan((launch, *joins), scratch_bytes)


def _items(structure: Structure, extents: Shape) -> int:
    """Return the number of results of a fold."""
    return math.prod([extent for extent, kind in zip(extents, structure.axes, strict=True) if kind == KEPT])
