"""Batches: equal operators on equal shapes that do not depend on each other run as one call, without a plan.

Takes the nodes of a new record from :mod:`phonograd.core.backward.eager_batches`, inputs first, or those of a program
(:class:`BatchedProgram`). The cells of trees at
one height, or the elements of a minibatch that are computed one by one, become groups. A group is one call on a stack
(:mod:`~phonograd.core.plan.eager_stacks`). Where the members of a group read the members of another one in the same
order, its stack is an operand as it is; otherwise, inputs are gathered. See docs/decisions/0018.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from ..base.hot import hot, slotted
from ..base.outside import is_from_outside
from ..graph.node import Node, type_of
from ..graph.operator import ABSENT, REGISTRY, Array, item_operator
from ..ops.math.structural import REPEAT_CALL, VARIABLE
from ..run import kernel_cache
from ..run.programs import Note
from ..run.reference import resolve
from .eager import EagerProgram, function_for
from .eager_stacks import StackedFunction, call_each, stacked_function

__all__ = ["BatchedProgram", "Batches", "Group", "Policy", "eager_program"]

_ITEM = item_operator()
_ABSENT = ABSENT.operator
_MATMUL = REGISTRY["_matmul"]

#: nodes of a graph that is worth grouping
LEAST_NODES = 192
#: nodes for each group from which on batches take less time: about 6 on an AMD EPYC (``python -m benchmarks.batches``)
LEAST_WIDTH = 8.0
#: graphs to skip at most after graphs that were narrow
MOST_SKIPPED = 64
#: numbers of a graph from which on values are dropped as soon as nothing reads them any more: 16 MB of float32
MANY_NUMBERS = 1 << 22


@slotted
class Group:
    """Nodes of one kind that do not depend on each other.

    Attributes
    ----------
    members
        The nodes.
    numbers
        For each member, its number among the nodes of the graph.
    calls
        The calls that they are: for a repeated call, the first call.
    level
        A number that is larger than those of all groups below it.
    lane
        An object that this group shares with those of the same operator and type whose deepest inputs share one.
        Nodes of one kind whose deepest inputs are in one lane are a group: so the members of a group mostly read those
        of another one in the same order.
    read
        For each member, the nodes that it reads.
    sources
        For each input, the nodes that the members read.
    inputs
        For each input the array, and whether it is a stack: it is not if all members read the same node.
    value
        The stack of values, a tuple of stacks for an operator with several outputs.
    parts
        The gradients that have arrived.
    """

    __slots__ = ("calls", "inputs", "items", "lane", "level", "members", "numbers", "parts", "read", "sources", "value")

    def __init__(self, level: int, lane: object) -> None:
        self.level, self.lane = level, lane
        self.members: list[Node] = []
        self.numbers: list[int] = []
        self.calls: list[Node] = []
        self.read: list[Sequence[Node]] = []
        self.sources: list[list[Node]] = []
        self.inputs: list[tuple[Any, bool]] = []
        self.value: Any = None
        self.parts: list[Any] = []
        #: the gradient of each output of an operator with several
        self.items: list[Any] | None = None


class Policy:
    """Decides which graphs to group: grouping one that is narrow costs time and gains nothing."""

    def __init__(self) -> None:
        self._skip = 0
        self._narrow = 0

    def tries(self, count: int) -> bool:
        """Return whether a graph of some nodes is grouped, to see how wide it is."""
        if count < LEAST_NODES:
            return False
        if self._skip:
            self._skip -= 1
            return False
        return True

    def is_wide(self, batches: Batches) -> bool:
        """Return whether groups of nodes are large enough; otherwise, skip the next graphs."""
        found = len(batches.group_of) >= LEAST_WIDTH * len(batches.groups)
        self.note(found)
        return found

    def note(self, was_batched: bool) -> None:
        """Skip the next graphs after one that was not batched, more of them each time."""
        self._narrow = 0 if was_batched else min(2 * self._narrow + 1, MOST_SKIPPED)
        self._skip = self._narrow


@slotted
class Batches:
    """The groups of a graph.

    Parameters
    ----------
    nodes
        The nodes, each after those that it reads.
    reads
        Returns the nodes whose values a node reads. In a record, these may stand for others.
    """

    __slots__ = ("given", "group_of", "groups", "place_of")

    def __init__(self, nodes: Iterable[Node], reads: Callable[[Node], Sequence[Node]] = attrgetter("inputs")) -> None:
        #: the group of every node that is no variable
        self.group_of: dict[Node, Group] = {}
        #: the number of every such node among the members of its group
        self.place_of: dict[Node, int] = {}
        #: unmarked nodes that are read
        self.given: dict[Node, None] = {}
        #: in an order in which they can be computed
        self.groups = sorted(_group(nodes, reads, self.group_of, self.place_of, self.given), key=_level)

    @hot
    def compute(self, known: Mapping[Node, Any]) -> None:
        """Compute the values of all groups, given those of variables and of unmarked nodes."""
        for group in self.groups:
            call, count = group.calls[0], len(group.members)
            declared = call.operator
            if declared is _ITEM:
                self._take_item(group, call.attributes[0])
                continue
            group.sources = list(map(list, zip(*group.read)))
            if declared.is_view:
                group.value = _spread(self._gather(group.sources[0], known), count)
                continue
            inputs = [self._gather(sources, known) for sources in group.sources]
            group.inputs = inputs
            arrays = [array for array, _ in inputs]
            are_stacked = [is_stacked for _, is_stacked in inputs]
            stacked = _stacked(call)
            value = None if stacked is None else stacked(count, arrays, are_stacked)
            if value is None:
                value = call_each(function_for(call), count, arrays, are_stacked)
            group.value = value

    def value(self, node: Node) -> Any:
        """Return the value of one node of a group."""
        group, place = self.group_of[node], self.place_of[node]
        if group.value.__class__ is tuple:
            return tuple([stack[place, ...] for stack in group.value])
        return group.value[place, ...]

    @hot
    def _take_item(self, group: Group, index: int) -> None:
        """Take one output of an operator with several."""
        sources = [inputs[0] for inputs in group.read]
        group.sources = [sources]
        whole = self.group_of[sources[0]]
        value = whole.value[index]
        if sources != whole.members:
            place_of = self.place_of
            value = value[[place_of[source] for source in sources]]
        group.value = value

    @hot
    def _gather(self, sources: list[Node], known: Mapping[Node, Any]) -> tuple[Any, bool]:
        """Return the values of nodes as a stack and True, or the value that they all have and False."""
        first = sources[0]
        group = self.group_of.get(first)
        if group is not None and sources == group.members:
            return group.value, True
        if (len(sources) > 1 and sources.count(first) == len(sources)) or (group is None and len(sources) == 1):
            return self._value(first, known), False
        return self._gather_each(sources, known), True

    @hot
    def _gather_each(self, sources: list[Node], known: Mapping[Node, Any]) -> Any:
        """Return the stack of the values of nodes, taken from the stacks of their groups."""
        group_of, place_of = self.group_of, self.place_of
        # for each group the places in the stack and those in the group
        chosen: dict[Any, tuple[list[int], list[int]]] = {}
        for number, source in enumerate(sources):
            group = group_of.get(source)
            if group is None:
                return np.stack([self._value(source, known) for source in sources])
            pair = chosen.get(group)
            if pair is None:
                pair = chosen[group] = ([], [])
            pair[0].append(number)
            pair[1].append(place_of[source])
        if len(chosen) == 1:
            return group_of[sources[0]].value[chosen[group_of[sources[0]]][1]]
        first = sources[0]
        found = np.empty((len(sources), *first.shape), first.dtype)
        for group, pair in chosen.items():
            found[pair[0]] = group.value[pair[1]]
        return found

    def _value(self, node: Node, known: Mapping[Node, Any]) -> Any:
        if node.operator is _ABSENT:
            return None
        return self.value(node) if node in self.group_of else known[resolve(node)]


@hot
def _group(
    nodes: Iterable[Node],
    reads: Callable[[Node], Sequence[Node]],
    group_of: dict[Node, Group],
    place_of: dict[Node, int],
    given: dict[Node, None],
) -> list[Group]:
    """Return the groups of nodes; add the group and the place of each, and the unmarked nodes that are read."""
    found: dict[Any, Group] = {}
    lanes: dict[Any, object] = {}
    groups = []
    for number, node in enumerate(nodes):
        declared, call = node.operator, node
        if declared is VARIABLE or declared is _ABSENT:
            continue
        if declared is REPEAT_CALL and node.inputs[0].operator is not VARIABLE:
            call = node.inputs[0]
            declared = call.operator
        lane, level = None, 0
        inputs = reads(call)
        for source in inputs:
            below = group_of.get(source)
            if below is None:
                if not source.marked:
                    given[source] = None
            elif below.level > level:
                lane, level = below.lane, below.level
        key: Any
        if declared is _ITEM:
            key = call.attributes[0], lane
        elif declared.is_view:
            key = declared, lane, call.type or type_of(call)
        elif declared is _MATMUL:
            key = call.recipe or _kind(call), lane, inputs[1]
        else:
            key = call.recipe or _kind(call), lane
        group = found.get(key)
        if group is None:
            index = call.attributes[0] if declared is _ITEM else None
            lane = lanes.setdefault((declared, call.type or type_of(call), lane, index), object())
            group = found[key] = Group(level + 1, lane)
            groups.append(group)
        place_of[node] = len(group.members)
        group.members.append(node)
        group.numbers.append(number)
        group.calls.append(call)
        group.read.append(inputs)
        group_of[node] = group
    return groups


def _level(group: Group) -> int:
    return group.level


def _kind(call: Node) -> tuple[Any, ...]:
    """Return the kind of a node without a recipe."""
    inputs = call.inputs
    kind = call.operator, call.attributes, *[source.type or type_of(source) for source in inputs]
    return (*kind, *[inputs.index(source) for source in inputs]) if len(set(inputs)) != len(inputs) else kind


@hot
def _stacked(call: Node) -> StackedFunction | None:
    """Return the stacked form of a node's function, if there is one."""
    recipe = call.recipe
    if recipe is None or recipe.stacked is None:
        return _find_stacked(call)
    return recipe.stacked or None


def _find_stacked(call: Node) -> StackedFunction | None:
    recipe = call.recipe
    ranks = [len(source.shape) for source in call.inputs]
    found = stacked_function(call.operator, call.attributes, ranks, len(call.shape), function_for(call))
    if recipe is not None:
        recipe.stacked = found or False
    return found


def _spread(found: tuple[Any, bool], count: int) -> Array:
    array, is_stacked = found
    return array if is_stacked else np.broadcast_to(array, (count, *array.shape))


# -- programs


class BatchedProgram(EagerProgram):
    """An eager program whose equal operators run together: inference over trees, branches, examples one by one."""

    __slots__ = ("_alone", "_batches")

    def __init__(
        self,
        targets: Iterable[Node],
        available: Callable[[Node], bool],
        recorded: Iterable[Node],
        ordered: tuple[tuple[Node, ...], list[Node]],
        batches: Batches,
    ) -> None:
        super().__init__(targets, available, recorded, ordered)
        #: the groups of the first run
        self._batches: Batches | None = batches
        #: the program that runs where batches do not
        self._alone: EagerProgram | None = None

    def _place(self) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        # operators do not run one by one
        return [], []

    def run(self, inputs: list[Any], donated: Container[int] = (), note: Note | None = None) -> list[Array]:
        """Return the values of the kept nodes; an observed run computes operator by operator."""
        found = self._run_batches(inputs) if note is None else None
        if found is None:
            if self._alone is None:
                given = set(self.inputs)
                kept = [node for node, _ in self.kept]
                self._alone = EagerProgram(kept, given.__contains__)
            found = self._alone.run(inputs, donated, note)
        return found

    def _run_batches(self, inputs: list[Any]) -> list[Array] | None:
        """Return the values of the kept nodes; None if an operator fails, which then fails alone."""
        batches, self._batches = self._batches, None
        if batches is None:
            batches = Batches(self.nodes, _resolved_inputs)
        try:
            with np.errstate(all="ignore"):
                batches.compute(dict(zip(self.inputs, inputs)))
        except kernel_cache.CompilerLost:
            raise
        except Exception as error:
            if is_from_outside(error):
                raise
            return None
        values = [*inputs, *[None] * self.size]
        for node, number in self.kept:
            values[number] = batches.value(node)
        return self._own(inputs, values)


#: which programs run in batches
_policy = Policy()


def eager_program(
    targets: list[Node],
    available: Callable[[Node], bool],
    recorded: Iterable[Node],
    ordered: tuple[tuple[Node, ...], list[Node]],
) -> EagerProgram:
    """Return the program that computes new nodes without a plan: in batches, if there are many equal operators."""
    computed = ordered[1]
    if _policy.tries(len(computed)) and sum([math.prod(node.shape) for node in computed]) <= MANY_NUMBERS:
        batches = Batches(computed, _resolved_inputs)
        if _policy.is_wide(batches):
            return BatchedProgram(targets, available, recorded, ordered, batches)
    return EagerProgram(targets, available, recorded, ordered)


@hot
def _resolved_inputs(node: Node) -> list[Node]:
    return [resolve(source) if source.operator.is_view else source for source in node.inputs]
