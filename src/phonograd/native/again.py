"""What is computed again: values of other groups that cost less to compute than to write and read.

Bits are the same each time, so this is a matter of speed and memory alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ..kernels.lowering import Constant, Coordinate, Elementwise, Gather, Location, Mosaic, Pieces, Reduction
from ..node import Node
from .expansion import Order, lowering_of
from .group import ELEMENT, Group, Member, Read

__all__ = ["Again"]

#: operations per element that cost less than writing and reading it: where it stays in a cache, and where it does not
CHEAP, CHEAP_WHEN_LARGE = 4.0, 16.0
#: elements that stay in a cache between two kernels
SMALL = 1 << 18


class _Plan:
    """Members to be made in another group, while it is decided whether they are worth it."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.members: dict[Member, tuple[Member | Read, ...]] = {}
        self.reads: set[Read] = set()


class Again:
    """Which values of other groups are computed again.

    Parameters
    ----------
    order
        What is to be computed.
    kept
        The nodes whose values must be in memory at the end.
    homes
        By node the group that computes it.
    written
        The nodes whose values some kernel writes to memory.
    source
        Returns the node whose value is to be read as that of a node.
    """

    def __init__(
        self,
        order: Order,
        kept: Iterable[Node],
        homes: Mapping[Node, Group],
        written: set[Node],
        source: Callable[[Node], Node],
    ) -> None:
        self._homes = homes
        self._written = written
        #: nodes whose values will be in memory in any case
        self._in_memory = set(kept)
        for node in reversed(order.nodes):
            lowering = order.lowerings[node]
            if isinstance(lowering, (Elementwise, Reduction, Constant, Coordinate, Pieces)):
                continue
            expression = order.expressions[node]
            if isinstance(lowering, Location):
                if node in self._in_memory:
                    self._in_memory.add(order.below[node])
            elif isinstance(lowering, Gather):
                self._in_memory.add(source(expression.inputs[0]))
            elif not isinstance(lowering, Mosaic):
                self._in_memory.update([source(node) for node in expression.inputs])

    def clone(self, read: Read, group: Group) -> Member | Read:
        """Return an operand of a group: a member that computes it again, or the operand as it is."""
        home = self._homes.get(read.source)
        if home is None or home is group or home.space != group.space or not self._is_free(read.source):
            return read
        member = home.holds(read, ELEMENT)
        if member is None or member.role != ELEMENT:
            return read
        size = 1
        for extent in group.space:
            size *= extent
        plan = _Plan(CHEAP if size <= SMALL else CHEAP_WHEN_LARGE)
        if not self._planned(member, home, group, plan) or len(plan.reads) > 2:
            return read
        weight = sum([_weight(found) for found in plan.members])
        if not group.accepts([found.layout for found in plan.reads], weight):
            return read
        return self._made(plan, group)[member]

    def _is_free(self, node: Node) -> bool:
        """Return whether a value is not in memory, and need not be."""
        return node not in self._written and node not in self._in_memory

    def _planned(self, member: Member, home: Group, group: Group, plan: _Plan) -> bool:
        if member in plan.members:
            return True
        plan.budget -= _weight(member)
        if plan.budget < 0 or member.index_stride or not isinstance(lowering_of(member.expression), Elementwise):
            return False
        operands: list[Member | Read] = []
        for operand in member.operands:
            if isinstance(operand, Member):
                there = group.values.get(operand.node)
                if there is not None and there.role == ELEMENT and there.level == 0:
                    operands.append(there)
                    continue
                if operand.role == ELEMENT and self._is_free(operand.node):
                    if not self._planned(operand, home, group, plan):
                        return False
                    operands.append(operand)
                    continue
                strides = home.strides if operand.role == ELEMENT else home.kept_strides
                operand = Read(operand.node, 0, strides)
            operands.append(operand)
            if operand.source not in group.sources and 0 not in operand.strides:
                plan.reads.add(operand)
        plan.members[member] = tuple(operands)
        return True

    def _made(self, plan: _Plan, group: Group) -> dict[Member, Member]:
        made: dict[Member, Member] = {}
        for member, operands in plan.members.items():
            there = group.values.get(member.node)
            if there is not None:
                made[member] = there
                continue
            own = tuple([made.get(other, other) if isinstance(other, Member) else other for other in operands])
            for operand in own:
                if isinstance(operand, Read) and operand.source in self._homes:
                    self._written.add(operand.source)
            made[member] = group.join(Member(member.node, member.expression, own, ELEMENT, 0), _weight(member))
        return made


def _weight(member: Member) -> float:
    cost = member.expression.operator.cost
    return 1.0 if callable(cost) else max(1.0, cost)
