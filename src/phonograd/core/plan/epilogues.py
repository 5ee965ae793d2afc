"""Epilogues of a plan: groups that are computed where a convolution or a product stores its results.

A group that reads the result of such a kernel, which no other step reads, and is cheap, becomes the epilogue of the
kernel: its operators run in registers, and the result before them is not in memory. The bits stay the same. It is done
in plans with steady inputs alone (:mod:`~phonograd.core.plan.packing`), that is, in predictions: each epilogue is a
kernel of its own to compile. Takes steps from :mod:`~phonograd.core.plan.grouping`, hands them on to
:mod:`~phonograd.core.plan.layout`. See docs/decisions/0042.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ..graph.node import Node, Shape
from ..kernels.epilogue import COLUMN, ELEMENT, NUMBER, ROW, Epilogue, with_epilogue
from ..kernels.launch import Plan
from ..kernels.matmul.gemm import Gemm
from ..run import kernel_cache
from .assembly import Assembler, Operand
from .group import Group, squeeze
from .grouping import Grouping
from .row_blocks import RegionJob
from .steps import LibraryKernel, PlanStep, sources_of

__all__ = ["FinishedKernel", "add_epilogues"]

#: work of an epilogue, in units of one cheap operation: a kernel has its instructions once for each vector of a tile
MOST_WEIGHT = 16


class FinishedKernel(NamedTuple):
    """A kernel with an epilogue: its plan and operands, the node that it writes, and all that it computes."""

    plan: Plan
    operands: dict[str, Operand]
    node: Node
    nodes: tuple[Node, ...]


def add_epilogues(
    steps: Sequence[PlanStep | RegionJob], grouping: Grouping, assembler: Assembler
) -> list[PlanStep | RegionJob | FinishedKernel]:
    """Return the steps of a plan, with groups as epilogues where that is possible."""
    readers: Counter[Node] = Counter()
    kernels: dict[Node, LibraryKernel] = {}
    for step in steps:
        if isinstance(step, RegionJob):
            readers.update({source for source, _ in step.operands.values() if isinstance(source, Node)})
            continue
        readers.update(set(sources_of(step)))
        if isinstance(step, LibraryKernel):
            kernels[step.node] = step
    absorbed: set[Node] = set()
    found: list[PlanStep | RegionJob | FinishedKernel] = []
    for step in steps:
        finished = None
        if isinstance(step, Group) and not step.targets and step.reduced is None and not step.draws:
            for source in step.sources & kernels.keys():
                if readers[source] == 1 and source not in grouping.arrays:
                    finished = _finish(kernels[source], step, grouping.writes(step), assembler)
                if finished is not None:
                    absorbed.add(source)
                    break
        found.append(step if finished is None else finished)
    return [step for step in found if not (isinstance(step, LibraryKernel) and step.node in absorbed)]


def _finish(kernel: LibraryKernel, group: Group, written: list[Node], assembler: Assembler) -> FinishedKernel | None:
    """Return a kernel with a group as its epilogue; None if that is not possible."""
    if len(written) != 1 or sum([member.weight for member in group.members]) > MOST_WEIGHT:
        return None
    (node,), result = written, kernel.node
    if not kernel.plan.launches or node.dtype != result.dtype or math.prod(group.space) != result.size:
        return None
    after = assembler.steps_after(group, written, result)
    if after is None:
        return None
    loads, steps = after
    kinds = [_kind(strides, group, kernel) for _, strides in loads]
    names = tuple([f"epilogue {number}" for number in range(len(loads))])
    epilogue = Epilogue(result.dtype, tuple([kind for kind in kinds if kind is not None]), steps)
    last = with_epilogue(kernel.plan.launches[-1], epilogue, names) if None not in kinds else None
    if last is None:
        return None
    kernel_cache.precompile(last.structure, max(last.extent // last.chunk, last.work))
    operands = {name: Operand(view.source, view.pattern.offset) for name, view in kernel.operands.items()}
    operands.update({name: operand for name, (operand, _) in zip(names, loads, strict=True)})
    operands["out"] = Operand(node, 0)
    plan = kernel.plan._replace(launches=(*kernel.plan.launches[:-1], last))
    return FinishedKernel(plan, operands, node, (result, *[member.expression for member in group.members]))


def _kind(strides: Shape, group: Group, kernel: LibraryKernel) -> str | None:
    """Return how an operand of a group is read along with the result of a kernel, or None if it cannot be."""
    if not any(strides):
        return NUMBER
    if strides == group.strides:
        return ELEMENT
    space, shape = group.space, kernel.node.shape
    axes = [axis for axis, stride in enumerate(strides) if stride]
    if len(axes) > 1 or strides[axes[0]] != 1:
        return None
    axis = axes[0]
    if "lhs" in kernel.operands:
        # rows of products may have several axes; columns have one
        is_column = len(shape) == 2 and axis == len(space) - 1 and space[axis] == shape[1]
        return COLUMN if is_column else None
    if squeeze(shape) != space or shape[1] == 1 or axis != int(shape[0] > 1):
        return None
    # a convolution whose images have one element is a product of the batch and the weights
    is_product = isinstance(kernel.plan.launches[-1].structure, Gemm) and math.prod(shape[2:]) == 1
    return COLUMN if is_product else ROW
