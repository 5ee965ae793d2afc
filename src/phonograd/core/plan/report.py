"""Boundaries: which values of a plan go through memory, and why they do not stay in registers.

The planner decides node by node and keeps no record of it; the reason is found afterwards, from what a value is and who
makes and reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..graph.node import Node, Shape
from ..kernels.structure import Structure
from ..lower.lowering import Elementwise, Gather, Random, Reduction
from ..run.programs import Part
from .expansion import lowering_of
from .group import squeezed

__all__ = ["Boundary", "boundaries"]


class Boundary(NamedTuple):
    """A value that one part of a plan writes to memory and another one reads there."""

    node: Node
    reason: str


def boundaries(parts: Sequence[Part], kept: Iterable[Node]) -> list[Boundary]:
    """Return the values that lie in memory between two parts, each once, with the reason for it.

    Results, which are kept, must lie there in any case.
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
    if isinstance(lowering_of(node), Reduction):
        return "sums are complete only when all that is summed has been gone through"
    if any([isinstance(lowering_of(other), Gather) for other in reader.nodes]):
        return "elements are taken from anywhere in it"
    if any([isinstance(lowering_of(other), Random) for other in (*maker.nodes, *reader.nodes)]):
        return "random numbers are drawn along one line"
    if _folds(maker) and _folds(reader):
        return "it is summed along other axes than what it is computed from"
    if here != there and squeezed(node.shape) != there:
        return "it is read over another shape, or in another order"
    return "kernels are not made larger than this, or it is read in another order"


def _without_kernel(node: Node) -> str:
    """Return why NumPy evaluates a node."""
    if node.operator.lowering is None:
        return "it has no kernel"
    if isinstance(lowering_of(node), Elementwise):
        return "its value is part of the expression"
    return "it has no kernel for this dtype or shape"


def _is_fused(part: Part) -> bool:
    """Return whether a kernel is made of whatever operators share it."""
    return any([isinstance(kernel, Structure) for kernel in part.kernels])


def _folds(part: Part) -> bool:
    return any([isinstance(lowering_of(node), Reduction) for node in part.nodes])


def _space(part: Part) -> Shape:
    """Return the largest shape that a part goes through, without axes of size one."""
    return squeezed(max([node.shape for node in part.nodes], key=math.prod, default=()))
