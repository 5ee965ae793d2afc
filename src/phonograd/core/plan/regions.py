"""Regions: steps of a plan that run together on blocks of rows, so that large values between them need little memory.

Attention is such a region: a product makes scores, kernels make probabilities of them row by row, and another product
reads these. Gradients are the same: five products and what is between them. Takes the steps of
:mod:`~phonograd.core.plan.grouping`; :mod:`~phonograd.core.plan.row_blocks` makes jobs of regions. See
docs/decisions/0029.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

from ..graph.node import Node, Shape
from .group import Group
from .grouping import Grouping
from .products import is_large
from .steps import LibraryKernel, PlanStep, sources_of

__all__ = ["Finder", "Region", "is_large_product", "order_of", "written_by"]


class Region(NamedTuple):
    """Steps that run together, and the values that only they see."""

    steps: tuple[PlanStep, ...]
    values: frozenset[Node]


def written_by(grouping: Grouping, step: PlanStep) -> list[Node]:
    """Return the nodes whose memory a step writes."""
    if isinstance(step, Group):
        return [*grouping.writes(step), *[target.node for target in step.targets]]
    return [step.node]


def order_of(grouping: Grouping, steps: Sequence[PlanStep], regions: Sequence[Region]) -> list[PlanStep | int] | None:
    """Return the steps after those whose values they read, with the number of each region; None if there is a cycle."""
    if not regions:
        return list(steps)
    numbers = {id(step): n for n, region in enumerate(regions) for step in region.steps}
    # units of work: single steps and whole regions, by the place of their last step
    units: dict[int, list[PlanStep]] = {}
    last = {numbers[id(step)]: place for place, step in enumerate(steps) if id(step) in numbers}
    unit_of: dict[int, int] = {}
    for place, step in enumerate(steps):
        unit = last[numbers[id(step)]] if id(step) in numbers else place
        units.setdefault(unit, []).append(step)
        unit_of[id(step)] = unit
    makers: dict[Node, list[int]] = {}
    for step in steps:
        for node in written_by(grouping, step):
            makers.setdefault(node, []).append(unit_of[id(step)])
    done: set[int] = set()
    active: set[int] = set()
    ordered: list[PlanStep | int] = []
    stack = [(unit, False) for unit in sorted(units, reverse=True)]
    while stack:
        unit, is_ready = stack.pop()
        if unit in done:
            continue
        if is_ready:
            done.add(unit)
            active.discard(unit)
            number = numbers.get(id(units[unit][0]))
            ordered += units[unit] if number is None else [number]
            continue
        if unit in active:
            return None
        active.add(unit)
        stack.append((unit, True))
        needed = {maker for step in units[unit] for node in sources_of(step) for maker in makers.get(node, ())}
        # parts of one array are written in the order of the steps
        needed |= {
            maker for s in units[unit] for node in written_by(grouping, s) for maker in makers[node] if maker < unit
        }
        for maker in sorted(needed - {unit} - done, reverse=True):
            if maker in active:
                return None
            stack.append((maker, False))
    return ordered


def is_large_product(step: PlanStep) -> TypeGuard[LibraryKernel]:
    """Return whether a step multiplies matrices, and the result is large, and larger than they are."""
    if not isinstance(step, LibraryKernel) or not step.is_product:
        return False
    node, terms = step.node, step.operands["lhs"].pattern.shape[-1]
    # one matrix for the whole batch is a layer's weight
    is_batched = any(step.operands["rhs"].pattern.strides[:-2])
    return is_batched and is_large(node.shape, terms, node.dtype.itemsize)


class Finder:
    """Grows regions from products."""

    def __init__(self, grouping: Grouping, steps: Sequence[PlanStep]) -> None:
        self.grouping = grouping
        self.readers: dict[Node, list[PlanStep]] = {}
        self.makers: dict[Node, list[PlanStep]] = {}
        for step in steps:
            for node in dict.fromkeys(sources_of(step)):
                self.readers.setdefault(node, []).append(step)
            for node in dict.fromkeys(written_by(grouping, step)):
                self.makers.setdefault(node, []).append(step)

    def grow(self, seed: LibraryKernel) -> Region | None:
        """Return the region of a product; None if something in it cannot run on blocks of rows."""
        shape = seed.node.shape
        if not self._is_inside(seed.node, shape):
            return None
        steps: dict[int, PlanStep] = {}
        values: set[Node] = set()
        stack: list[PlanStep] = [seed]
        has_product = False
        while stack:
            step = stack.pop()
            if id(step) in steps:
                continue
            if not isinstance(step, Group | LibraryKernel):
                return None
            steps[id(step)] = step
            for node in written_by(self.grouping, step):
                if self._is_inside(node, shape):
                    values.add(node)
                    stack += self.readers.get(node, ())
            if isinstance(step, Group):
                # other products whose values only this kernel reads
                for node in step.sources:
                    maker = self.makers.get(node, [None])[0]
                    inside = isinstance(maker, LibraryKernel) and is_large_product(maker)
                    if inside and self._is_inside(node, shape):
                        assert maker is not None
                        stack.append(maker)
            elif step.node not in values:
                has_product = True
        if not has_product:
            return None
        order = {id(step): place for place, step in enumerate(self.grouping.steps())}
        return Region(tuple(sorted(steps.values(), key=lambda step: order[id(step)])), frozenset(values))

    def _is_inside(self, node: Node, shape: Shape) -> bool:
        """Return whether a value has the shape of the scores, and need not be in memory as a whole."""
        size = math.prod(shape)
        same = node.ndim >= 2 and node.shape[-2:] == shape[-2:] and node.size == size
        return same and node not in self.grouping.arrays and bool(self.readers.get(node)) and node in self.makers
