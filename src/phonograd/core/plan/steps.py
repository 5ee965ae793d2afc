"""Steps: what a plan does, one thing after the other. Beside groups, which share a kernel, these are the kinds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..graph.node import Node
from ..kernels.launch import Plan
from .group import Group, View

__all__ = ["Alias", "Call", "Step", "Work", "sources_of"]


class Call(NamedTuple):
    """A node that NumPy evaluates, and the nodes whose arrays it reads."""

    node: Node
    sources: tuple[Node, ...]


class Work(NamedTuple):
    """A node that is computed by kernels of its own; the operands of its plan are views of memory."""

    node: Node
    plan: Plan
    operands: dict[str, View]


class Alias(NamedTuple):
    """A node whose value is another node's memory in another shape."""

    node: Node
    source: Node


Step = Group | Work | Call | Alias


def sources_of(step: Step) -> Iterable[Node]:
    """Return the nodes whose memory a step reads."""
    if isinstance(step, Group):
        return step.sources
    if isinstance(step, Work):
        return [view.source for view in step.operands.values()]
    return step.sources if isinstance(step, Call) else (step.source,)
