"""Fusion: in which group a node is computed.

A node joins a group that has its operands in registers, or one of the same stage and space, or begins a new one. See
:mod:`~phonograd.core.plan.grouping`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..graph.node import Node, Shape
from ..lower.lowering import Lowering
from .expansion import Order
from .group import ELEMENT, WEIGHT_LIMIT, Group, Layout, Member, Read
from .rematerialize import Again, Copies
from .views import Views

__all__ = ["Candidate", "Fusion"]

#: groups of a stage and a space that are asked whether they accept one more node
LOOK_BACK = 8


class Candidate(NamedTuple):
    """A node on its way into a group."""

    node: Node
    expression: Node
    lowering: Lowering | None
    space: Shape
    reads: list[Read]
    weight: float
    index_stride: int = 0
    in_memory: int = 0
    """How many of the first operands are read from memory wherever they are computed."""
    sources: Sequence[Node] = ()
    """The nodes whose values are read, where they are read over the shape of the node."""


class Fusion:
    """Groups, while nodes settle in them.

    Parameters
    ----------
    order
        What is to be computed.
    inputs
        The nodes whose values are arrays already.
    kept
        The nodes whose values must be in memory at the end.
    views
        Where values are read.
    """

    def __init__(self, order: Order, inputs: frozenset[Node], kept: Iterable[Node], views: Views) -> None:
        self._views = views
        self.inputs = inputs
        #: by node the stage at which its value is there
        self.stages: dict[Node, int] = {}
        #: by node the group that computes it
        self.homes: dict[Node, Group] = {}
        self.groups: list[Group] = []
        #: nodes that a kernel writes to memory
        self.written: set[Node] = set()
        self.again = Again(order, kept, views, self.homes, self.written)
        self._open: dict[tuple[int, Shape], list[Group]] = {}

    def assign_to_group(self, candidate: Candidate) -> None:
        """Put a node into a group of its stage, or of a later one where that is not possible."""
        space, stage = candidate.space, 0
        near: list[tuple[int, Group]] = []
        homes, stages, inputs = self.homes, self.stages, self.inputs
        operands: list[Member | Read] = []
        held = 0
        for position, read in enumerate(candidate.reads):
            source = read.source
            home = homes.get(source)
            if home is None:
                # what needs no memory has no stage
                needed = 0 if source in inputs else stages.get(source, -1) + 1
                operands.append(read)
            else:
                role = home.role_over(space) if position >= candidate.in_memory else None
                member = home.holds(read, role) if role is not None else None
                if member is not None:
                    held += 1
                    operands.append(member)
                    if home.stage > stage:
                        stage, near = home.stage, []
                    if home.stage == stage:
                        near.append((member.level, home))
                    continue
                needed = home.stage + 1
            if needed > stage:
                stage, near = needed, []
        groups = [group for group in _nearest(near) if not group.ends_before(candidate.expression)]
        # another group that has some of the operands may be complete
        at_hand = len(groups) == 1 and all([home is groups[0] for _, home in near])
        at_hand = at_hand and held == len(near) and len(operands) == len(candidate.reads)
        if at_hand and groups[0].space == space and self._takes(groups[0], candidate, operands, near):
            return
        for group in groups:
            if self._joins(group, candidate):
                return
        stage = max([self.ready(read.source) for read in candidate.reads], default=0)
        for group in self.recent(stage, space):
            related = not group.reduced or not group.sources.isdisjoint([read.source for read in candidate.reads])
            if related and self._joins(group, candidate):
                return
        joined = self._joins(self.new_group(stage, space), candidate)
        assert joined, candidate

    def _takes(
        self, group: Group, candidate: Candidate, operands: list[Member | Read], near: list[tuple[int, Group]]
    ) -> bool:
        """Take a node into a group that has all its operands, if the group accepts it."""
        level = near[0][0]
        layouts: list[Layout] = []
        if group.reduced is not None or group.draws:
            layouts = [operand.layout for operand in operands if isinstance(operand, Read)]
        if not group.accepts(layouts, candidate.weight, level):
            return False
        node, expression, lowering, _, _, weight, index_stride, *_ = candidate
        group.join(Member(node, expression, lowering, tuple(operands), ELEMENT, level, weight, index_stride))
        self.homes[node] = group
        self.stages[node] = group.stage
        return True

    def _joins(self, group: Group, candidate: Candidate) -> bool:
        """Take a node into a group, if the group accepts it."""
        node, expression, lowering, space, reads, weight, index_stride, first, sources = candidate
        if group.is_complete or (group.weight and group.weight + weight > WEIGHT_LIMIT):
            return False
        role, stage = group.role_over(space), group.stage
        assert role is not None, (candidate, group.space)
        homes, stages, inputs = self.homes, self.stages, self.inputs
        operands: list[Member | Read | Copies] = []
        level = 0
        for position, read in enumerate(reads):
            source = read.source
            if source not in homes:
                # it lies in memory, or is a number
                if source not in inputs and stages.get(source, -1) >= stage:
                    return False
                if role != ELEMENT and not group.can_spread(read):
                    return False
                operands.append(read if role == ELEMENT else group.spread(read))
                continue
            view = sources[position] if sources else None
            operand = self._operand(group, read, role, position < first, view, node.shape)
            if operand is None:
                return False
            operands.append(operand)
            if not isinstance(operand, Read) and operand.level > level:
                level = operand.level
        layouts: list[Layout] = []
        if group.reduced is not None or group.draws:
            layouts = [operand.layout for operand in operands if isinstance(operand, Read)]
        if not group.accepts(layouts, weight, level, role):
            return False
        settled: list[Member | Read] = []
        for operand in operands:
            if isinstance(operand, Copies):
                operand = operand.made(group, self.note)
            elif isinstance(operand, Read):
                self.needed_in_memory(operand.source)
            settled.append(operand)
        group.join(Member(node, expression, lowering, tuple(settled), role, level, weight, index_stride))
        homes[node] = group
        stages[node] = stage
        return True

    def _operand(
        self, group: Group, read: Read, role: str, in_memory: bool, source: Node | None, shape: Shape
    ) -> Member | Read | Copies | None:
        """Return what an operand of a member with a role would be; None if the group cannot have it at its stage."""
        if not in_memory:
            member = group.holds(read, role)
            if member is not None:
                return member
            if role == ELEMENT and self.stages[read.source] < group.stage and not self.again.is_free(read.source):
                return read
            copies: Member | Copies | None = self.again.plan(read, group) if role == ELEMENT else None
            if copies is None and role == ELEMENT and source is not None and source in self._views:
                copies = self.again.plan_through(read, source, group, shape)
            if copies is not None:
                return copies
        if self.ready(read.source) > group.stage or (role != ELEMENT and not group.can_spread(read)):
            return None
        return read if role == ELEMENT else group.spread(read)

    def note(self, reads: Iterable[Read]) -> None:
        """Have what is read from memory written there."""
        for read in reads:
            self.needed_in_memory(read.source)

    def needed_in_memory(self, node: Node) -> None:
        home = self.homes.get(node)
        if home is not None:
            self.written.add(node)
            home.is_read = True

    def recent(self, stage: int, space: Shape) -> list[Group]:
        """Return the groups of a stage and a space that others may join, the latest first.

        Most of the earlier ones are full, and there may be very many of them.
        """
        return self._open.get((stage, space), [])[: -LOOK_BACK - 1 : -1]

    def new_group(self, stage: int, space: Shape) -> Group:
        group = Group(space, stage)
        self.groups.append(group)
        self._open.setdefault((stage, space), []).append(group)
        return group

    def delay(self, group: Group, stage: int) -> None:
        """Move a group whose values nobody has read to a later stage."""
        self._open[group.stage, group.space].remove(group)
        group.stage = stage
        self._open.setdefault((stage, group.space), []).append(group)
        for node in group.values:
            if self.homes[node] is group:
                self.stages[node] = stage

    def ready(self, source: Node) -> int:
        """Return the first stage at which memory can be read."""
        if source in self.inputs or (source not in self.stages and self._views.needs_no_memory(source)):
            return 0
        return self.stages[source] + 1


def _nearest(near: list[tuple[int, Group]]) -> list[Group]:
    """Return groups that compute operands of a node, that with most levels first.

    What the others compute may be computed again where most is known.
    """
    if len(near) <= 1:
        return [group for _, group in near]
    near.sort(key=lambda entry: -entry[0])
    return list(dict.fromkeys([group for _, group in near]))
