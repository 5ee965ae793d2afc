"""Fusion: the fused kernel in which a node is computed.

A node joins a group that has its operands in registers, or one of the same stage and space, or begins a new one.
:mod:`~phonograd.core.plan.grouping` explains stages and spaces. :class:`Fusion` is the part of the planner that makes
fused kernels: values element by element, folds, elements at indices, random numbers, copies, and blocks of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..graph.node import Node, Shape
from ..lower.lowering import SAME, Gather, Lowering, parameters
from .expansion import Order
from .group import (
    DRAW_WEIGHT,
    ELEMENT,
    FOLD,
    WEIGHT_LIMIT,
    Group,
    Layout,
    Member,
    Read,
    Value,
    WriteTarget,
    folds_as_lines,
    line_strides,
    squeeze,
    squeeze_axes,
    weight_of,
)
from .products import widenings_of_operands
from .rematerialize import Copies, Rematerializer
from .views import Views, over

__all__ = ["Candidate", "Fusion"]

#: groups of a stage and a space that are asked whether they accept one more node
LOOK_BACK = 8
#: weight of an element that is read at an index
TAKE_WEIGHT = 4.0


class Candidate(NamedTuple):
    """A node on its way into a group."""

    node: Node
    expression: Node
    lowering: Lowering
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
        The nodes to compute.
    inputs
        The nodes whose values are arrays already.
    kept
        The nodes whose values must be in memory at the end.
    can_delay
        Whether groups may move to a later stage: no memory is overwritten that they read.
    """

    def __init__(self, order: Order, inputs: frozenset[Node], kept: Iterable[Node], can_delay: bool = True) -> None:
        self._source, self._sources = order.source, order.sources
        self.inputs = inputs
        #: by node when and where its value is computed; nodes without stage are not in it
        self.values: dict[Node, Value] = {}
        self.groups: list[Group] = []
        #: where values are read
        self.views = Views(order, self.copy)
        #: float32 copies of 16-bit values that only products read from memory
        self.widenings = widenings_of_operands(order, kept)
        self._again = Rematerializer(order, kept, self.views, self.values, self.widenings)
        self._open: dict[tuple[int, Shape], list[Group]] = {}
        #: the first stage at which the node that is being placed may be computed
        self.floor = 0
        #: by space and reduced axes, the group that folded last
        self._folding: dict[tuple[Shape, Shape], Group] = {}
        self._can_delay = can_delay

    # -- placing nodes

    def compute(self, node: Node, expression: Node, lowering: Lowering) -> None:
        """Compute a value element by element."""
        read, shape, sources = self.views.read, node.shape, self._sources[node]
        reads = [read(operand, shape) for operand in sources]
        weight = weight_of(expression)
        self.assign_to_group(Candidate(node, expression, lowering, squeeze(shape), reads, weight, sources=sources))

    def take(self, node: Node, expression: Node, lowering: Gather) -> None:
        """Take elements at the places that an index names."""
        data, index = [self._source(source) for source in expression.inputs]
        named = parameters(expression, lowering.walk)
        view = self.views.in_memory(data)
        walk = lowering.walk(view.pattern, index.shape, **named)
        if walk is None:
            view = self.views.in_order(data)
            walk = lowering.walk(view.pattern, index.shape, **named)
            assert walk is not None, node
        found = self.views.of(index)
        pattern = lowering.index(found.pattern, node.shape, **parameters(expression, lowering.index))
        reads = [over(view.source, walk.pattern), over(found.source, pattern)]
        space = squeeze(node.shape)
        self.assign_to_group(
            Candidate(node, expression, lowering, space, reads, TAKE_WEIGHT, walk.index_stride, in_memory=1)
        )

    def copy(self, node: Node) -> None:
        """Write the value of a location, an input or a number to memory, in order."""
        if node not in self.values:
            reads = [self.views.read(node, node.shape)]
            self.assign_to_group(Candidate(node, node, SAME, squeeze(node.shape), reads, 1.0, in_memory=1))
            self.values[node].is_written = True

    def draw(self, node: Node, lowering: Lowering) -> None:
        """Draw random numbers, in a group whose space is one line."""
        counter = self._source(node.inputs[0])
        view = self.views.in_memory(counter)
        self.write_operands([over(view.source, view.pattern)])
        stage, space = self.ready(view.source), squeeze(node.shape)
        for group in self.recent(stage, space):
            if group.accepts((), DRAW_WEIGHT, draws=True):
                break
        else:
            group = self.new_group(stage, space)
        group.draws = True
        # the counter is read as a whole, wherever its elements are drawn
        read = Read(view.source, view.pattern.offset, line_strides(space))
        self.values[node] = group.join(Member(node, node, lowering, (read,), ELEMENT, 0, DRAW_WEIGHT))

    def fold(self, node: Node, expression: Node, lowering: Lowering, axes: Shape) -> None:
        """Combine elements along some axes."""
        source = self._source(expression.inputs[0])
        if all([source.shape[axis] == 1 for axis in axes]):
            # along axes of size one there is nothing to combine
            self.views.add_reshaped(node, source)
            return
        space, reduced = squeeze(source.shape), squeeze_axes(source.shape, axes)
        read = self.views.read(source, source.shape)
        home = self.home(read.source)
        member = home.holds(read, ELEMENT) if home is not None and home.space == space else None
        operand: Member | Read
        if home is not None and member is not None and home.accepts((), 1.0, member.level, reduced=reduced):
            group, operand = home, member
            group.reduce(reduced)
        else:
            if not folds_as_lines(space, read.layout, reduced):
                self.copy(source)
                read = Read(source, 0, line_strides(space))
            group = self._group_to_fold(read, space, reduced)
            group.reduce(reduced)
            copies = self._again.plan(read, group)
            if copies is None:
                self.write_operands([read])
            operand = read if copies is None else copies.add_to(group, self.write_operands)
        level = operand.level if isinstance(operand, Member) else 0
        self.values[node] = group.join(Member(node, expression, lowering, (operand,), FOLD, level + 1, 1.0))
        self._folding[space, reduced] = group

    def _group_to_fold(self, read: Read, space: Shape, reduced: Shape) -> Group:
        """Return a group that can fold an operand in memory."""
        stage = self.ready(read.source)
        for group in self.recent(stage, space):
            if group.accepts((read.layout,), reduced=reduced):
                return group
        before, home = self._folding.get((space, reduced)), self.home(read.source)
        if before is None or home is None or before is home or home.sources.isdisjoint(before.sources):
            return self.new_group(stage, space)
        # another group folds the same memory, and no kernel reads its results yet: it can wait for this one
        waits = before.stage < stage and self._can_wait(before)
        if waits and before.accepts((read.layout,), reduced=reduced):
            self._delay(before, stage)
            return before
        return self.new_group(stage, space)

    # -- blocks of memory

    def write_block(self, source: Node, node: Node, place: Read) -> int:
        """Write a value to a block of another one's memory; return the stage at which that happens."""
        space = squeeze(source.shape)
        read = self.views.read(source, source.shape)
        home = self.home(read.source)
        role = None if home is None else home.role_over(space)
        if home is not None and role is not None:
            member = home.holds(read, role)
            spread = place if role == ELEMENT else home.spread_rows(place)
            # a value of rows is written once for each row, not to each of its elements
            fits = member is not None and (role != ELEMENT or member.role == ELEMENT)
            fits = fits and member is not None and home.has_room_for(member)
            if member is not None and fits and home.accepts((spread.layout,), 0.0, member.level, role):
                home.write(WriteTarget(member, node, spread.offset, spread.strides))
                return home.stage
        stage = self.ready(read.source)
        for group in self.recent(stage, space):
            if group.has_room_for(read) and group.accepts((read.layout, place.layout)):
                break
        else:
            group = self.new_group(stage, space)
        self.write_operands([read])
        group.write(WriteTarget(read, node, place.offset, place.strides))
        return stage

    def is_in_register(self, source: Node) -> bool:
        """Return whether a value is in a register of the kernel that computes it."""
        read = self.views.read(source, source.shape)
        home = self.home(read.source)
        role = None if home is None else home.role_over(squeeze(source.shape))
        return home is not None and role is not None and home.holds(read, role) is not None

    # -- finding a group

    def assign_to_group(self, candidate: Candidate) -> None:
        """Put a node into a group of its stage, or of a later one where that is not possible."""
        space, stage = candidate.space, self.floor
        near: list[tuple[int, Group]] = []
        values = self.values
        operands: list[Member | Read] = []
        held = 0
        # groups that go through rows and have operands in registers; groups whose values are read from memory
        early: list[tuple[int, Group]] = []
        before: list[Group] = []
        for position, read in enumerate(candidate.reads):
            value = values.get(read.source)
            home = None if value is None else value.group
            if home is None:
                # inputs, and values that need no memory, have no stage
                needed = 0 if value is None else value.stage + 1
                operands.append(read)
            else:
                role = home.role_over(space) if position >= candidate.in_memory else None
                member = home.holds(read, role) if role is not None else None
                if member is not None:
                    held += 1
                    operands.append(member)
                    if member.level and home.space == space:
                        early.append((member.level, home))
                    if home.stage > stage:
                        stage, near = home.stage, []
                    if home.stage == stage:
                        near.append((member.level, home))
                    continue
                needed = home.stage + 1
                before.append(home)
            if needed > stage:
                stage, near = needed, []
        for _, group in early:
            # it can wait for the other operands
            if group.stage < stage and group not in before and self._can_wait(group):
                self._delay(group, stage)
                near += [entry for entry in early if entry[1] is group]
        groups = [group for group in _nearest(near) if not group.ends_before(candidate.expression)]
        # another group that has some of the operands may be complete
        at_hand = len(groups) == 1 and all([home is groups[0] for _, home in near])
        at_hand = at_hand and held == len(near) and len(operands) == len(candidate.reads)
        if at_hand and groups[0].space == space and self._takes(groups[0], candidate, operands, near):
            return
        for group in groups:
            if self._accepts(group, candidate):
                return
        stage = max([self.ready(read.source) for read in candidate.reads], default=self.floor)
        for group in self.recent(stage, space):
            related = not group.reduced or not group.sources.isdisjoint([read.source for read in candidate.reads])
            if related and self._accepts(group, candidate):
                return
        joined = self._accepts(self.new_group(stage, space), candidate)
        assert joined, candidate

    def _takes(
        self, group: Group, candidate: Candidate, operands: list[Member | Read], near: list[tuple[int, Group]]
    ) -> bool:
        """Take a node into a group that has all its operands, if the group accepts it."""
        level = near[0][0]
        layouts: list[Layout] = []
        if group.reduced is not None or group.draws:
            layouts = [operand.layout for operand in operands if isinstance(operand, Read)]
        if not group.can_read(operands) or not group.accepts(layouts, candidate.weight, level):
            return False
        node, expression, lowering, _, _, weight, index_stride, *_ = candidate
        self.values[node] = group.join(
            Member(node, expression, lowering, tuple(operands), ELEMENT, level, weight, index_stride)
        )
        return True

    def _accepts(self, group: Group, candidate: Candidate) -> bool:
        """Take a node into a group, if the group accepts it."""
        node, expression, lowering, space, reads, weight, index_stride, first, sources = candidate
        if group.is_complete or (group.weight and group.weight + weight > WEIGHT_LIMIT):
            return False
        role, stage = group.role_over(space), group.stage
        assert role is not None, (candidate, group.space)
        values = self.values
        operands: list[Member | Read | Copies] = []
        level = 0
        for position, read in enumerate(reads):
            value = values.get(read.source)
            if value is None or value.group is None:
                # it is in memory, or a number
                if value is not None and value.stage >= stage:
                    return False
                if role != ELEMENT and not group.can_spread(read):
                    return False
                operands.append(read if role == ELEMENT else group.spread_rows(read))
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
        if not group.can_read(operands) or not group.accepts(layouts, weight, level, role):
            return False
        settled: list[Member | Read] = []
        for operand in operands:
            if isinstance(operand, Copies):
                operand = operand.add_to(group, self.write_operands)
            elif isinstance(operand, Read):
                self.write(operand.source)
            settled.append(operand)
        self.values[node] = group.join(
            Member(node, expression, lowering, tuple(settled), role, level, weight, index_stride)
        )
        return True

    def _operand(
        self, group: Group, read: Read, role: str, in_memory: bool, source: Node | None, shape: Shape
    ) -> Member | Read | Copies | None:
        """Return the operand of a member with a role; None if the group cannot have it at its stage."""
        if not in_memory:
            member = group.holds(read, role)
            if member is not None:
                return member
            is_there = role == ELEMENT and self.values[read.source].stage < group.stage
            if is_there and not self._again.is_free(read.source):
                return read
            copies: Member | Copies | None = self._again.plan(read, group) if role == ELEMENT else None
            if copies is None and role == ELEMENT and source is not None and source in self.views:
                copies = self._again.plan_through(read, source, group, shape)
            if copies is not None:
                return copies
        if self.ready(read.source) > group.stage or (role != ELEMENT and not group.can_spread(read)):
            return None
        return read if role == ELEMENT else group.spread_rows(read)

    # -- values

    def home(self, node: Node) -> Group | None:
        """Return the group that computes a node, if one does and the node that is being placed may join it."""
        value = self.values.get(node)
        group = None if value is None else value.group
        return None if group is None or group.stage < self.floor else group

    def write(self, node: Node) -> None:
        """Write a value to memory, if a group computes it; all others are there."""
        value = self.values.get(node)
        if value is not None and value.group is not None:
            value.is_written = True
            value.group.is_read = True

    def write_operands(self, reads: Iterable[Read]) -> None:
        """Write the values of some operands to memory."""
        for read in reads:
            self.write(read.source)

    def ready(self, source: Node) -> int:
        """Return the first stage at which a value can be read from memory."""
        if source in self.inputs:
            return self.floor
        value = self.values.get(source)
        if value is None:
            assert self.views.needs_no_memory(source), source
            return self.floor
        return max(value.stage + 1, self.floor)

    def ready_for_good(self, source: Node) -> int:
        """Return the first stage at which a value can be read from memory; its group never moves again."""
        value = self.values.get(source)
        if value is not None and value.group is not None:
            value.group.is_read = True
        return self.ready(source)

    # -- groups

    def recent(self, stage: int, space: Shape) -> list[Group]:
        """Return the groups of a stage and a space that others may join, the latest first.

        Most of the earlier ones are full, and there may be very many of them.
        """
        return self._open.get((stage, space), [])[: -LOOK_BACK - 1 : -1]

    def new_group(self, stage: int, space: Shape) -> Group:
        """Return a new group."""
        group = Group(space, stage)
        self.groups.append(group)
        self._open.setdefault((stage, space), []).append(group)
        return group

    def _can_wait(self, group: Group) -> bool:
        """Return whether a group can move to a later stage: no other kernel reads its results yet."""
        return self._can_delay and not group.is_read and not group.targets

    def _delay(self, group: Group, stage: int) -> None:
        """Move a group to a later stage, while no other group reads its values."""
        self._open[group.stage, group.space].remove(group)
        group.stage = stage
        self._open.setdefault((stage, group.space), []).append(group)


def _nearest(near: list[tuple[int, Group]]) -> list[Group]:
    """Return groups that compute operands of a node, that with most levels first.

    Values of the others may be computed again there.
    """
    if len(near) <= 1:
        return [group for _, group in near]
    near.sort(key=lambda entry: -entry[0])
    return list(dict.fromkeys([group for _, group in near]))
