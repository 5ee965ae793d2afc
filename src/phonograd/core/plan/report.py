"""Boundaries: the values of a plan that go through memory, and why they do not stay in registers.

The planner decides node by node and keeps no record of it. The reason is found afterwards, from the value and from the
kernels that write and read it. :mod:`phonograd.explain` shows it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..graph.node import Node, Shape
from ..kernels.structure import Structure
from ..lower.lowering import Fused
from ..run.programs import Part
from .expansion import lowering_of
from .group import squeeze

__all__ = ["Boundary", "boundaries"]


class Boundary(NamedTuple):
    """A value that one part of a plan writes to memory and another one reads there."""

    node: Node
    reason: str


def boundaries(parts: Sequence[Part], kept: Iterable[Node]) -> list[Boundary]:
    """Return the values that are in memory between two parts, each once, with the reason for it.

    Results, which are kept, must be there in any case.
    """
    makers: dict[Node, Part] = {}
    found: dict[Node, Boundary] = {}
    results = set(kept)
    for part in parts:
        for node in part.memory:
            maker = makers.get(node)
            if maker is not None and node not in found and node not in results and node not in part.written:
                found[node] = Boundary(node, _reason(node, maker, part))
        for node in part.written:
            makers.setdefault(node, part)
    return list(found.values())


def _reason(node: Node, maker: Part, reader: Part) -> str:
    if not maker.kernels:
        return f"NumPy computes {maker.nodes[0].operator.name}: {_without_kernel(maker.nodes[0])}"
    if not reader.kernels:
        return f"NumPy reads it in {reader.nodes[0].operator.name}: {_without_kernel(reader.nodes[0])}"
    for part, verb in ((maker, "computed"), (reader, "read")):
        if not _is_fused(part):
            return f"it is {verb} by {part.nodes[0].operator.name}, which has kernels of its own"
    here, there = _space(maker), _space(reader)
    if lowering_of(node).fused_as is Fused.FOLD:
        return "sums are complete only when all that is summed has been gone through"
    if _has(reader.nodes, Fused.TAKE):
        return "elements are taken from anywhere in it"
    if _has((*maker.nodes, *reader.nodes), Fused.DRAW):
        return "random numbers are drawn along one line"
    if _has(maker.nodes, Fused.FOLD) and _has(reader.nodes, Fused.FOLD):
        return "it is summed along other axes than what it is computed from"
    if here != there and squeeze(node.shape) != there:
        return "it is read over another shape, or in another order"
    return "kernels are not made larger than this, or it is read in another order"


def _without_kernel(node: Node) -> str:
    """Return why NumPy evaluates a node."""
    if node.operator.lowering is None:
        return "it has no kernel"
    if lowering_of(node).fused_as is Fused.STEP:
        return "its value is part of the expression"
    return "it has no kernel for this dtype or shape"


def _is_fused(part: Part) -> bool:
    """Return whether one of the kernels is fused."""
    return any([isinstance(kernel, Structure) for kernel in part.kernels])


def _has(nodes: Iterable[Node], form: Fused) -> bool:
    """Return whether a fused kernel computes one of some nodes in a form."""
    return any([lowering_of(node).fused_as is form for node in nodes])


def _space(part: Part) -> Shape:
    """Return the largest shape among the nodes of a part, without axes of size one."""
    return squeeze(max([node.shape for node in part.nodes], key=math.prod, default=()))
