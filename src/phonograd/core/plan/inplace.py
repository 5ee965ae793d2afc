"""In-place assignments: assignments to a part of an array that write only this part.

An assignment makes a new value: the old one with a region replaced. If the old value has no later reader, the new one
takes over its memory, and only the region is written. So a loop that assigns to one row after the other costs no more
than the rows. A sequence of such *versions* is in the memory of its first one. That memory starts as a copy of the old
value, or as its array, if the old value is an input to which nothing else refers when the plan runs.

:mod:`~phonograd.core.plan.grouping` decides when a value is read, which may be later than it seems here. Therefore
:meth:`InPlaceAssignments.late` finally returns the assignments that would come before the last reader of the value that
they replace. They are refused, and groups are formed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from ..graph.node import Node, Shape
from ..graph.operator import REGISTRY, Operator
from ..lower.lowering import Fused, Lowering, alternatives
from .expansion import lowerings_of
from .group import Group, Read, WriteTarget
from .steps import LibraryKernel, PlanStep, sources_of

__all__ = ["InPlaceAssignments", "can_write_beside"]

#: minimum size of an array for in-place assignments, and the minimum ratio of its size to that of the part
SMALLEST, LEAST_RATIO = 1 << 12, 4

_RESHAPE: Operator = REGISTRY["_reshape"]
_FOR_EVER = math.inf


def assignment_lowering(node: Node) -> Lowering | None:
    """Return the lowering of an assignment to a part, or None for any other node."""
    operator = node.operator
    found = _assignment_lowerings.get(operator)
    if found is None or found[0] is not operator.lowering:
        fitting = [lowering for lowering in alternatives(operator.lowering) if lowering.replaces_part]
        found = _assignment_lowerings[operator] = operator.lowering, fitting[0] if fitting else None
    return found[1]


_assignment_lowerings: dict[Operator, tuple[Lowering | None, Lowering | None]] = {}


def is_view(node: Node) -> bool:
    """Return whether a node is read in the memory of its first input."""
    return any([lowering.is_view for lowering in lowerings_of(node)])


class InPlaceAssignments:
    """The assignments of a plan that write only their part, and the memory they write to.

    Parameters
    ----------
    computed
        The nodes to compute, older ones first.
    inputs
        The nodes whose values are arrays already.
    kept
        Those of the computed nodes whose values must be arrays at the end.
    source
        Returns the node whose value is read for a node.
    refused
        Assignments that must not write in place.
    """

    def __init__(
        self,
        computed: Sequence[Node],
        inputs: frozenset[Node],
        kept: Iterable[Node],
        source: Callable[[Node], Node],
        refused: Iterable[Node] = (),
    ) -> None:
        self._source = source
        self._inputs = inputs
        #: the assignments that write only their part
        self.chosen: set[Node] = set()
        #: the value whose memory an assignment takes over, by assignment
        self.replaced: dict[Node, Node] = {}
        #: the node that owns the memory of a version, by version
        self._owners: dict[Node, Node] = {}
        #: the input whose array a node starts as, by node
        self.begun: dict[Node, Node] = {}
        #: the group that writes the part of an assignment, by assignment
        self.writers: dict[Node, Group] = {}
        self._readers: dict[Node, list[tuple[float, Node | None]]] = {}
        #: the nodes to compute, in an order in which more assignments can take over memory
        self.order = computed
        without = set(refused)
        assigned = [
            node for node in computed if assignment_lowering(node) and node not in without and self._is_small(node)
        ]
        if assigned:
            kept = list(kept)
            bases = {node: self._base(node) for node in assigned}
            early = self._early(bases, self._places(bases, computed, kept))
            if early:
                self.order = computed = self._put_off(early, computed)
            self._choose(bases, self._places(bases, computed, kept), kept)

    def _is_small(self, node: Node) -> bool:
        overlay = assignment_lowering(node)
        if overlay is None or node.size < SMALLEST:
            return False
        part = math.prod([len(range(*bounds)) for bounds in zip(*overlay.region_of(node), strict=True)])
        return 0 < part * LEAST_RATIO <= node.size

    def _places(self, bases: dict[Node, Node], computed: Sequence[Node], kept: list[Node]) -> dict[Node, int]:
        """Return the place of every node in an order, and record the readers of values that assignments replace."""
        self._readers = {base: [] for base in bases.values()}
        places = {node: place for place, node in enumerate(computed)}
        for node, place in places.items():
            for source in node.inputs:
                self._note(self._source(source), place, node)
        for node in kept:
            self._note(node, _FOR_EVER, None)
        return places

    def _early(self, bases: dict[Node, Node], places: dict[Node, int]) -> set[Node]:
        """Return the assignments that come before a reader of the value that they replace."""
        return {
            node
            for node, base in bases.items()
            if any([places[node] < when < _FOR_EVER for when, _ in self._readers[base]])
        }

    def _put_off(self, early: set[Node], computed: Sequence[Node]) -> list[Node]:
        """Return the nodes in an order in which some assignments, and views of them, come just before they are read."""
        late = set(early)
        for node in computed:
            if is_view(node) and self._source(node.inputs[0]) in late:
                late.add(node)
        order: list[Node] = []
        done: set[Node] = set()
        for last in [*[node for node in computed if node not in late], *[node for node in computed if node in late]]:
            stack = [last]
            while stack:
                node = stack[-1]
                before = [s for s in map(self._source, node.inputs) if s in late and s not in done]
                if before:
                    stack += reversed(before)
                    continue
                stack.pop()
                if node not in done:
                    done.add(node)
                    order.append(node)
        return order

    def _choose(self, bases: dict[Node, Node], places: dict[Node, int], kept: list[Node]) -> None:
        wanted = {self._whole(node) for node in kept}
        # by assignment the one that takes over its memory
        followers = {base: node for node, base in bases.items() if self._is_last(base, node, places[node])}
        for node in sorted(bases, key=places.__getitem__):
            base = bases[node]
            takes_over = followers.get(base) is node
            if base in self._inputs:
                # the array is copied if anything else refers to it: that must pay
                takes_over = takes_over and (node in wanted or node in followers)
            else:
                takes_over = takes_over and base in self.chosen
            if takes_over or followers.get(node) is not None:
                self.chosen.add(node)
                if takes_over:
                    self.replaced[node] = base

    def _whole(self, node: Node) -> Node:
        """Return the node that has the elements of a node in the same order."""
        while node.operator is _RESHAPE and node not in self._inputs:
            node = self._source(node.inputs[0])
        return node

    def _base(self, node: Node) -> Node:
        return self._whole(self._source(node.inputs[0]))

    def _note(self, node: Node, place: float, reader: Node | None) -> None:
        """Record a reader of a node, and of the nodes that it is a view of."""
        while True:
            found = self._readers.get(node)
            if found is not None:
                found.append((place, reader))
            if node in self._inputs or not is_view(node):
                return
            node = self._source(node.inputs[0])

    def _is_last(self, base: Node, node: Node, place: int) -> bool:
        """Return whether, as far as the order shows, no node reads a value after an assignment."""
        return all(
            [
                reader is not None and when <= place and bool(lowerings_of(reader))
                for when, reader in self._readers[base]
            ]
        )

    # -- while groups are formed

    def begin(self, node: Node) -> Node | None:
        """Set the owner of a chosen assignment; return the value whose memory it takes over, or None."""
        base = self.replaced.get(node)
        if base is None or base in self._inputs:
            self._owners[node] = node
            if base is not None:
                self.begun[node] = base
        else:
            self._owners[node] = self._owners[base]
        return base

    def owner(self, node: Node) -> Node:
        """Return the node in whose memory a node is."""
        return self._owners.get(node, node)

    def seen_as(self, node: Node) -> Node:
        """Return the node whose array NumPy reads as a value: the owner of its memory, if it has the same shape."""
        owner = self.owner(node)
        return owner if owner.shape == node.shape else node

    def readers(self, base: Node) -> list[Node]:
        """Return the nodes that read a value that is taken over."""
        return [reader for _, reader in self._readers[base] if reader is not None]

    # -- in the end

    def late(self, steps: Sequence[PlanStep]) -> set[Node]:
        """Return the assignments that would come before the last reader of the value that they replace."""
        if not self.replaced:
            return set()
        number = {id(step): place for place, step in enumerate(steps)}
        ends = {base: (number[id(self.writers[node])], node) for node, base in self.replaced.items()}
        found: set[Node] = set()
        for place, step in enumerate(steps):
            for source in sources_of(step):
                if source in ends:
                    when, node = ends[source]
                    # NumPy may return a view of the memory that it reads
                    in_time = place < when and isinstance(step, (Group, LibraryKernel))
                    if place == when and isinstance(step, Group):
                        in_time = can_write_beside(step, source, self._target(step, node))
                    if not in_time:
                        found.add(node)
        return found

    def _target(self, group: Group, node: Node) -> WriteTarget:
        return next(target for target in group.targets if target.node is node)


def can_write_beside(group: Group, source: Node, place: WriteTarget | Read) -> bool:
    """Return whether a group may write to a place of the memory that it reads as the value of a node.

    It may if it reads nothing there, or reads each element exactly where it writes one.
    """
    reads = [target.value for target in group.targets if isinstance(target.value, Read)]
    for member in group.members:
        own = [operand for operand in member.operands if isinstance(operand, Read) and operand.source is source]
        if own and member.lowering.fused_as is Fused.TAKE and own[0] is member.operands[0]:
            return False
        reads += own
    written = _span(group.space, place.offset, place.strides)
    for read in reads:
        if read.source is not source:
            continue
        same = (read.offset, read.strides) == (place.offset, place.strides) and not read.bounds
        low, high = _span(group.space, read.offset, read.strides)
        beside = high < written[0] or low > written[1]
        if not beside and (not same or group.reduced is not None):
            return False
    return True


def _span(space: Shape, offset: int, strides: Shape) -> tuple[int, int]:
    """Return the first and the last place that a pattern touches.

    >>> _span((3, 2), 10, (-4, 1))
    (2, 11)
    """
    ends = [(extent - 1) * stride for extent, stride in zip(space, strides, strict=True)]
    return offset + sum([min(end, 0) for end in ends]), offset + sum([max(end, 0) for end in ends])
