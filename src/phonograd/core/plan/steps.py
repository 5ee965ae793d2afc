"""Steps: what a plan does, one thing after the other. Beside groups, which share a kernel, these are the kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..graph.node import Node
from ..kernels.launch import Plan
from .group import Group, View

__all__ = ["Alias", "LibraryKernel", "NumpyCall", "PlanStep", "sources_of"]


class NumpyCall(NamedTuple):
    """A node that NumPy evaluates, and the nodes whose arrays it reads."""

    node: Node
    sources: tuple[Node, ...]


class LibraryKernel(NamedTuple):
    """A node that is computed by kernels of its own; the operands of its plan are views of memory."""

    node: Node
    plan: Plan
    operands: dict[str, View]
    is_product: bool = False
    """Whether it multiplies two matrices and does nothing else."""


class Alias(NamedTuple):
    """A node whose value is another node's memory in another shape."""

    node: Node
    source: Node


PlanStep = Group | LibraryKernel | NumpyCall | Alias


def sources_of(step: PlanStep) -> Iterable[Node]:
    """Return the nodes whose memory a step reads."""
    if isinstance(step, Group):
        return step.sources
    if isinstance(step, LibraryKernel):
        return [view.source for view in step.operands.values()]
    return step.sources if isinstance(step, NumpyCall) else (step.source,)
