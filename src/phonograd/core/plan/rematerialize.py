"""Rematerialization: computes values of other groups again if that costs less than writing and reading them.

Used by :mod:`~phonograd.core.plan.fusion`. The bits are the same each time, so only speed and memory depend on it. A
value may also be computed only for the elements of a view: a slice of a sum is the sum of slices. A value is not
written if only such views are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from ..base import processor
from ..base.dtypes import HALVES
from ..graph.node import Node, Shape
from ..lower.lowering import Fused
from ..lower.pattern import Pattern
from .expansion import Order
from .group import ELEMENT, Group, Layout, Member, Read, Value
from .views import Move, Moves, Views, over

__all__ = ["Copies", "Rematerializer"]

#: operations per element that cost less than writing and reading it: if the value fits into a cache, and if not
CHEAP, CHEAP_WHEN_LARGE = 4.0, 16.0
#: maximum number of arrays that a group may read in place of one
MORE_READS = 2


class Copies:
    """Members that another group would compute again, until the planner decides."""

    __slots__ = ("budget", "layouts", "members", "reads", "root")

    def __init__(self, budget: float, root: Member | None = None) -> None:
        self.budget = budget
        #: a member of the other group that is read from memory
        self.root = root
        #: each comes after those that it is computed from; the last one is the operand
        self.members: list[Member] = []
        #: layouts of all memory that is read
        self.layouts: set[Layout] = set()
        #: operands as large as the group's space that it does not read already
        self.reads: set[Read] = set()

    def read(self, read: Read, group: Group) -> Read:
        """Add an operand in memory, and return it."""
        self.layouts.add(read.layout)
        if read.source not in group.sources and 0 not in read.strides:
            self.reads.add(read)
        return read

    def add(self, original: Member, operands: list[Member | Read], view: Read | None = None) -> Member:
        """Return a new member with the value of another group's member, or with the elements of a view of it."""
        level = max([operand.level for operand in operands if isinstance(operand, Member)], default=0)
        node, expression, lowering, weight = original.node, original.expression, original.lowering, original.weight
        made = Member(node, expression, lowering, tuple(operands), ELEMENT, level, weight, view=view)
        self.members.append(made)
        return made

    @property
    def level(self) -> int:
        """Number of passes over a row before the operand can be computed."""
        return self.members[-1].level

    def fits(self, group: Group, more_reads: int) -> bool:
        """Return whether a group accepts all members."""
        weight = sum([member.weight for member in self.members])
        return len(self.reads) <= more_reads and group.accepts(self.layouts, weight, self.level)

    def add_to(self, group: Group, write: Callable[[Iterable[Read]], None]) -> Member:
        """Add all members to the group and return the operand; ``write`` writes their operands to memory."""
        for member in self.members:
            write([operand for operand in member.operands if isinstance(operand, Read)])
            group.join(member)
        return self.members[-1]


class Rematerializer:
    """Decides which values of other groups a group computes again.

    Parameters
    ----------
    order
        The nodes to compute.
    kept
        The nodes whose values must be in memory at the end.
    views
        Where values are read.
    values
        By node when and where its value is computed.
    widenings
        Nodes of which no kernel needs the memory.
    """

    def __init__(
        self,
        order: Order,
        kept: Iterable[Node],
        views: Views,
        values: Mapping[Node, Value],
        widenings: Iterable[Node] = (),
    ) -> None:
        self._source = order.source
        self._views = views
        self._values = values
        #: nodes whose values will be in memory in any case
        self._in_memory = set(kept)
        for node in reversed(order.nodes):
            if node not in order.below:
                self._in_memory.update(order.sources[node][order.lowerings[node].memory_inputs])
            elif node in self._in_memory:
                self._in_memory.add(order.below[node])
        self._in_memory.difference_update(widenings)

    def is_free(self, node: Node) -> bool:
        """Return whether the value of a group is not in memory, and need not be."""
        return not self._values[node].is_written and node not in self._in_memory

    def _home(self, node: Node) -> Group | None:
        value = self._values.get(node)
        return None if value is None else value.group

    # -- the same elements

    def plan(self, read: Read, group: Group) -> Copies | None:
        """Return how to compute an operand in a group, or None to read it from memory.

        An operand that is not in memory at the stage of the group is computed if that is possible at all.
        """
        home = self._home(read.source)
        if home is None or home is group or home.space != group.space:
            return None
        must = home.stage >= group.stage
        if not must and not self.is_free(read.source):
            return None
        member = home.holds(read, ELEMENT)
        if member is None or member.role != ELEMENT:
            return None
        if not must and _narrows(member):
            return None
        copies = Copies(_budget(group.space))
        found = self._copy(member, home, group, copies, {})
        if found is not None and copies.fits(group, MORE_READS + must):
            return copies
        root = None if must else _root(member)
        if root is None:
            return None
        copies = Copies(_budget(group.space), root)
        found = self._copy(member, home, group, copies, {})
        return copies if found is not None and copies.fits(group, MORE_READS) else None

    def _copy(
        self, member: Member, home: Group, group: Group, copies: Copies, done: dict[Member, Member]
    ) -> Member | None:
        if member in done:
            return done[member]
        copies.budget -= member.weight
        if copies.budget < 0 or member.lowering.fused_as is not Fused.STEP:
            return None
        operands: list[Member | Read] = []
        for operand in member.operands:
            if isinstance(operand, Read):
                operands.append(copies.read(operand, group))
                continue
            found = self._operand(operand, home, group, copies, done)
            if found is None:
                return None
            operands.append(found)
        made = done[member] = copies.add(member, operands, member.view)
        return made

    def _operand(
        self, operand: Member, home: Group, group: Group, copies: Copies, done: dict[Member, Member]
    ) -> Member | Read | None:
        """Return the operand for a member of another group: a member, memory, or None if neither is possible."""
        there = group.values.get(operand.node) if operand.view is None else group.seen.get(operand.view)
        if there is not None and (there.role == ELEMENT) == (operand.role == ELEMENT):
            return there
        readable = home.stage < group.stage
        free = operand.role == ELEMENT and operand is not copies.root
        if free and (not readable or (self.is_free(operand.node) and not _narrows(operand))):
            return self._copy(operand, home, group, copies, done)
        if not readable:
            return None
        strides = home.strides if operand.role == ELEMENT else home.kept_strides
        return copies.read(operand.view or Read(operand.node, 0, strides), group)

    # -- the elements of a view

    def plan_through(self, read: Read, view: Node, group: Group, shape: Shape) -> Copies | Member | None:
        """Return how to compute a view of a value in a group, element by element of the view; None to read it.

        ``read`` is how the view is read over the space of the group, that of ``shape``.
        """
        home = self._home(read.source)
        if home is None or home.stage >= group.stage or math.prod(group.space) > math.prod(home.space):
            return None
        copies = Copies(CHEAP)
        found = self._view_elements(view, (), shape, group, copies)
        if not isinstance(found, Member):
            return None
        return found if not copies.members else copies if copies.fits(group, MORE_READS) else None

    def _view_elements(
        self, node: Node, moves: Moves, shape: Shape, group: Group, copies: Copies
    ) -> Member | Read | None:
        """Return the elements of a node, moved and repeated to a shape: computed, or read from memory."""
        source, pattern = self._views.of(node)
        found, below = _apply_moves(pattern, moves, shape), self._views.moves(node)
        if found is None or below is None:
            return None
        read = over(source, found)
        home = self._home(source)
        if home is not None and home.stage >= group.stage:
            return None
        if home is None or not self.is_free(source) or read.bounds:
            return copies.read(read, group)
        there = group.seen.get(read)
        if there is not None:
            return there
        member = home.values[source]
        copies.budget -= member.weight
        is_elementwise = member.role == ELEMENT and member.lowering.fused_as is Fused.STEP and not _narrows(member)
        if copies.budget < 0 or not is_elementwise:
            return copies.read(read, group)
        operands: list[Member | Read] = []
        moves = (Move(Pattern.broadcast, (("shape", source.shape),)), *below, *moves)
        for operand in member.expression.inputs:
            inner = self._view_elements(self._source(operand), moves, shape, group, copies)
            if inner is None:
                return None
            operands.append(inner)
        return copies.add(member, operands, read)


def _root(member: Member) -> Member | None:
    """Return the value that a normalized one is computed from with nothing but numbers of rows, or None.

    A normalization has several values of every element that gradients read: centered, scaled, and shifted ones. All of
    them are cheap if that one is in memory.
    """
    root, has_rows = member, False
    while root.lowering.fused_as is Fused.STEP and not _narrows(root):
        full = [operand for operand in root.operands if not _is_small(operand, root)]
        before = full[0] if len(full) == 1 else None
        if not isinstance(before, Member) or before.view is not None:
            break
        if before.node.dtype.itemsize > member.node.dtype.itemsize:
            break
        has_rows = has_rows or any([isinstance(each, Member) and each.role != ELEMENT for each in root.operands])
        root = before
    return root if has_rows and root is not member else None


def _is_small(operand: Member | Read, reader: Member) -> bool:
    """Return whether an operand has fewer elements than the value that is computed from it."""
    if isinstance(operand, Member):
        return operand.role != ELEMENT or operand.node.size < reader.node.size
    return 0 in operand.strides


def _narrows(member: Member) -> bool:
    """Return whether a member rounds a value to 16 bits: keeping it takes half the memory of the value."""
    node = member.node
    return node.dtype in HALVES and any([source.dtype not in HALVES for source in member.expression.inputs])


def _budget(space: Shape) -> float:
    return CHEAP if math.prod(space) <= processor.choices().near_bytes // 4 else CHEAP_WHEN_LARGE


def _apply_moves(pattern: Pattern, moves: Moves, shape: Shape) -> Pattern | None:
    for move in moves:
        found = move(pattern)
        if found is None:
            return None
        pattern = found
    return pattern.broadcast(shape)
