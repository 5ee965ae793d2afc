"""Backward passes in batches: the gradient rules of equal operators run once for all of them.

Takes a new record from :mod:`.eager`. The forward pass computes groups of nodes
(:class:`phonograd.core.plan.eager_batches.Batches`); the rules then run for the same groups, last ones first. Gradients
of one node are added in the order of :func:`phonograd.core.derive.gradient.order_users_first`, as elsewhere. The sum of
two is the same in either order; more than two are sorted. See docs/decisions/0018.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.dtypes import convert_scalar
from ..graph.gradient_rules import gradient_call
from ..graph.node import Node
from ..graph.operator import Array, item_operator
from ..ops.math.structural import VARIABLE
from ..plan.eager import Function
from ..plan.eager_batches import Batches, Group
from ..plan.eager_stacks import rows_of
from .eager_rules import passes_through, stackable_rule

__all__ = ["BatchedPass", "NotBatched"]

_ITEM = item_operator()


class NotBatched(Exception):
    """The record has something that batches do not treat."""


class _Part(NamedTuple):
    """Gradients that have arrived at members of a group from another group."""

    places: list[int] | None
    """The members; None for all of them in order."""
    values: Any
    """A stack, or a list."""
    users: Sequence[int]
    """The places of the nodes that they come from in the order of the pass."""


class BatchedPass:
    """A backward pass over groups."""

    def __init__(
        self,
        batches: Batches,
        visited: Sequence[Node],
        total: Callable[[list[Any], Node], Array],
        sum_function: Callable[[Node], Function],
    ) -> None:
        self._batches, self._total, self._sum_function = batches, total, sum_function
        self._order = {node: number for number, node in enumerate(visited)}
        self._variables: dict[Node, list[tuple[int, Any]]] = {node: [] for node in visited if node.operator is VARIABLE}

    def run(self, head: Node) -> dict[Node, Array | None]:
        """Return the gradient of each variable node."""
        one = np.full((1, *head.shape), convert_scalar(1, head.dtype), head.dtype)
        self._batches.group_of[head].parts.append(_Part(None, one, [0]))
        for group in reversed(self._batches.groups):
            self._differentiate(group)
        found: dict[Node, Array | None] = {}
        for node, arrived in self._variables.items():
            arrived.sort(key=_place)
            found[node] = self._total([grad for _, grad in arrived], node) if arrived else None
        return found

    def _differentiate(self, group: Group) -> None:
        call = group.calls[0]
        if call.outputs is not None:
            if group.items is None:
                raise NotBatched
            out_grads = group.items
        else:
            out_grads = [self._sum(group)]
        if call.operator is _ITEM:
            self._pass_item(group, out_grads[0])
            return
        if call.operator.is_view:
            if not passes_through(call):
                raise NotBatched
            self._pass_on(group, 0, out_grads[0])
            return
        rule = None if call.operator.is_loss else stackable_rule(call, out_grads)
        if rule is None:
            raise NotBatched
        others = 1 + len(call.inputs) if call.outputs is None else len(gradient_call(call)[0])
        arrays: list[Any] = [*out_grads, *[None] * others]
        are_stacked = [grad is not None for grad in out_grads] + [False] * others
        for place in rule.reads:
            if call.outputs is not None:
                raise NotBatched
            arrays[place], are_stacked[place] = (group.value, True) if place == 1 else group.inputs[place - 2]
        found = rule.run_stacked(len(group.members), arrays, are_stacked)
        for which, (source, grads) in enumerate(zip(call.inputs, found, strict=True)):
            if not source.marked:
                continue
            if grads is None:
                # whether a member has a gradient then depends on its other users
                raise NotBatched
            self._pass_on(group, which, grads)

    def _pass_item(self, group: Group, grads: Array) -> None:
        """Pass the gradients of one output to the operator that has several."""
        whole = self._batches.group_of[group.sources[0][0]]
        if group.sources[0] != whole.members:
            raise NotBatched
        if whole.items is None:
            outputs = whole.calls[0].outputs
            assert outputs is not None
            whole.items = [None] * len(outputs)
        index = group.calls[0].attributes[0]
        if whole.items[index] is not None:
            raise NotBatched
        whole.items[index] = grads

    def _pass_on(self, group: Group, which: int, grads: Any) -> None:
        """Pass gradients to the nodes that the members of a group read."""
        group_of, order, sources = self._batches.group_of, self._order, group.sources[which]
        users = [order[node] for node in group.members]
        target = group_of.get(sources[0])
        if target is not None and sources == target.members:
            target.parts.append(_Part(None, grads, users))
            return
        others: dict[Group, list[int]] = {}
        rows: list[Any] | None = None
        for number, source in enumerate(sources):
            target = group_of.get(source)
            if target is None:
                if rows is None:
                    rows = grads if grads.__class__ is list else rows_of(grads)
                self._variables[source].append((users[number], rows[number]))
            else:
                others.setdefault(target, []).append(number)
        for target, numbers in others.items():
            chosen = [grads[number] for number in numbers] if grads.__class__ is list else grads[numbers]
            places = [target.places[sources[number]] for number in numbers]
            target.parts.append(_Part(places, chosen, [users[number] for number in numbers]))

    def _sum(self, group: Group) -> Array:
        """Return the stack of the gradients of the members of a group."""
        parts = group.parts
        group.parts = []
        if not parts:
            raise NotBatched
        if len(parts) == 1 and parts[0].places is None and parts[0].values.__class__ is not list:
            return parts[0].values  # type: ignore[no-any-return]
        count = len(group.members)
        if not any([part.values.__class__ is list for part in parts]):
            arrived = np.zeros(count, np.intp)
            for part in parts:
                if part.places is None:
                    arrived += 1
                else:
                    np.add.at(arrived, part.places, 1)
            if arrived.min() == 0:
                raise NotBatched
            if arrived.max() <= 2:
                return self._sum_two(parts, group)
        return self._sum_each(parts, group)

    def _sum_two(self, parts: Sequence[_Part], group: Group) -> Array:
        """Return the sums of at most two gradients for each member."""
        node, count = group.members[0], len(group.members)
        plus = self._sum_function(node)
        if all([part.places is None for part in parts]):
            return plus(*[part.values for part in parts])  # type: ignore[no-any-return]
        found = np.empty((count, *node.shape), node.dtype)
        is_there = np.zeros(count, np.bool_)
        for part in parts:
            places = np.arange(count) if part.places is None else np.array(part.places)
            if len(np.unique(places)) < len(places):
                return self._sum_each(parts, group)
            second = is_there[places]
            if not second.any():
                found[places] = part.values
            else:
                old, new = places[second], places[~second]
                found[old] = plus(found[old], part.values[second])
                found[new] = part.values[~second]
            is_there[places] = True
        return found

    def _sum_each(self, parts: Sequence[_Part], group: Group) -> Array:
        """Return the sums of gradients in the order of the pass."""
        arrived: list[list[tuple[int, Any]]] = [[] for _ in group.members]
        for part in parts:
            rows = part.values if part.values.__class__ is list else rows_of(part.values)
            places = range(len(rows)) if part.places is None else part.places
            for place, user, row in zip(places, part.users, rows, strict=True):
                arrived[place].append((user, row))
        found = []
        for node, grads in zip(group.members, arrived, strict=True):
            if not grads:
                raise NotBatched
            grads.sort(key=_place)
            found.append(self._total([grad for _, grad in grads], node))
        return np.stack(found)


def _place(arrived: tuple[int, Any]) -> int:
    return arrived[0]
