"""Batches: equal operators on equal shapes that do not depend on each other run as one call, without a plan.

Takes the nodes of a new record from :mod:`phonograd.core.backward.eager_batches`, inputs first. The cells of trees at
one height, or the elements of a minibatch that are computed one by one, become groups. A group is one call on a stack
(:mod:`~phonograd.core.plan.eager_stacks`). Where the members of a group read the members of another one in the same
order, its stack is an operand as it is; otherwise, inputs are gathered. See docs/decisions/0018.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..graph.node import Node, type_of
from ..graph.operator import ABSENT, REGISTRY, Array, item_operator
from ..ops.math.structural import REPEAT_CALL, VARIABLE
from ..run.reference import resolve
from .eager import function_for
from .eager_stacks import StackedFunction, call_each, stacked_function

__all__ = ["Batches", "Group"]

_ITEM = item_operator()
_ABSENT = ABSENT.operator
_MATMUL = REGISTRY["_matmul"]


class Group:
    """Nodes of one kind that do not depend on each other.

    Attributes
    ----------
    members
        The nodes.
    calls
        The calls that they are: for a repeated call, the first call.
    level
        A number that is larger than those of all groups below it.
    lane
        An object that this group shares with those of the same operator and type whose deepest inputs share one.
        Nodes of one kind whose deepest inputs are in one lane are a group: so the members of a group mostly read those
        of another one in the same order.
    sources
        For each input, the nodes that the members read.
    inputs
        For each input the array, and whether it is a stack: it is not if all members read the same node.
    value
        The stack of values, a tuple of stacks for an operator with several outputs.
    parts
        The gradients that have arrived.
    """

    __slots__ = ("_places", "calls", "inputs", "items", "lane", "level", "members", "parts", "sources", "value")

    def __init__(self, level: int, lane: object) -> None:
        self.level, self.lane = level, lane
        self.members: list[Node] = []
        self.calls: list[Node] = []
        self.sources: list[list[Node]] = []
        self.inputs: list[tuple[Any, bool]] = []
        self.value: Any = None
        self.parts: list[Any] = []
        #: the gradient of each output of an operator with several
        self.items: list[Any] | None = None
        self._places: dict[Node, int] | None = None

    @property
    def places(self) -> dict[Node, int]:
        """The number of each member."""
        if self._places is None:
            self._places = {node: number for number, node in enumerate(self.members)}
        return self._places


class Batches:
    """The groups of a record."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        #: the group of every node that is no variable
        self.group_of: dict[Node, Group] = {}
        #: unmarked nodes that are read
        self.given: dict[Node, None] = {}
        found: dict[Any, Group] = {}
        lanes: dict[Any, object] = {}
        group_of, given = self.group_of, self.given
        for node in nodes:
            declared, call = node.operator, node
            if declared is VARIABLE:
                continue
            if declared is REPEAT_CALL and node.inputs[0].operator is not VARIABLE:
                call = node.inputs[0]
                declared = call.operator
            lane, level = None, 0
            for source in call.inputs:
                group = group_of.get(source)
                if group is None:
                    if not source.marked:
                        given[source] = None
                elif group.level > level:
                    lane, level = group.lane, group.level
            recipe = call.recipe
            key: Any
            if declared is _ITEM:
                key = call.attributes[0], lane
            elif declared.is_view:
                key = declared, lane, call.type or type_of(call)
            elif declared is _MATMUL:
                key = recipe or _kind(call), lane, call.inputs[1]
            else:
                key = recipe or _kind(call), lane
            group = found.get(key)
            if group is None:
                index = call.attributes[0] if declared is _ITEM else None
                lane = lanes.setdefault((declared, call.type or type_of(call), lane, index), object())
                group = found[key] = Group(level + 1, lane)
            group.members.append(node)
            group.calls.append(call)
            group_of[node] = group
        #: in an order in which they can be computed
        self.groups = sorted(found.values(), key=_level)

    def compute(self, known: Mapping[Node, Any]) -> None:
        """Compute the values of all groups, given those of variables and of unmarked nodes."""
        for group in self.groups:
            call, count = group.calls[0], len(group.members)
            declared = call.operator
            if declared is _ITEM:
                self._take_item(group, call.attributes[0])
                continue
            group.sources = [[each.inputs[place] for each in group.calls] for place in range(len(call.inputs))]
            if declared.is_view:
                group.value = _spread(self._gather(group.sources[0], known), count)
                continue
            group.inputs = [self._gather(sources, known) for sources in group.sources]
            arrays = [array for array, _ in group.inputs]
            are_stacked = [is_stacked for _, is_stacked in group.inputs]
            stacked = _stacked(call)
            value = stacked(count, arrays, are_stacked) if stacked else None
            if value is None:
                value = call_each(function_for(call), count, arrays, are_stacked)
            group.value = value

    def value(self, node: Node) -> Any:
        """Return the value of one node of a group."""
        group = self.group_of[node]
        place = group.places[node]
        if group.value.__class__ is tuple:
            return tuple([stack[place, ...] for stack in group.value])
        return group.value[place, ...]

    def _take_item(self, group: Group, index: int) -> None:
        """Take one output of an operator with several."""
        group.sources = [[call.inputs[0] for call in group.calls]]
        whole = self.group_of[group.sources[0][0]]
        value = whole.value[index]
        if group.sources[0] != whole.members:
            value = value[[whole.places[source] for source in group.sources[0]]]
        group.value = value

    def _gather(self, sources: list[Node], known: Mapping[Node, Any]) -> tuple[Any, bool]:
        """Return the values of nodes as a stack and True, or the value that they all have and False."""
        first = sources[0]
        group = self.group_of.get(first)
        if group is not None and sources == group.members:
            return group.value, True
        if (len(sources) > 1 and sources.count(first) == len(sources)) or (group is None and len(sources) == 1):
            return self._value(first, known), False
        if group is not None:
            places = group.places
            numbers = [places.get(source, -1) for source in sources]
            if -1 not in numbers:
                return group.value[numbers], True
        return np.stack([self._value(source, known) for source in sources]), True

    def _value(self, node: Node, known: Mapping[Node, Any]) -> Any:
        if node.operator is _ABSENT:
            return None
        return self.value(node) if node in self.group_of else known[resolve(node)]


def _level(group: Group) -> int:
    return group.level


def _kind(call: Node) -> tuple[Any, ...]:
    """Return the kind of a node without a recipe."""
    inputs = call.inputs
    kind = call.operator, call.attributes, *[source.type or type_of(source) for source in inputs]
    return (*kind, *[inputs.index(source) for source in inputs]) if len(set(inputs)) != len(inputs) else kind


def _stacked(call: Node) -> StackedFunction | None:
    """Return the stacked form of a node's function, if there is one."""
    recipe = call.recipe
    if recipe is not None and recipe.stacked is not None:
        return recipe.stacked or None
    ranks = [len(source.shape) for source in call.inputs]
    found = stacked_function(call.operator, call.attributes, ranks, len(call.shape), function_for(call))
    if recipe is not None:
        recipe.stacked = found or False
    return found


def _spread(found: tuple[Any, bool], count: int) -> Array:
    array, is_stacked = found
    return array if is_stacked else np.broadcast_to(array, (count, *array.shape))
