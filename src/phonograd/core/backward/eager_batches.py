"""Backward passes in batches: the gradient rules of equal operators run once for all of them.

Takes a new record from :mod:`.eager`. The forward pass computes groups of nodes
(:class:`phonograd.core.plan.eager_batches.Batches`); the rules then run for the same groups, last ones first. Gradients
of one node are added in the order of :func:`phonograd.core.derive.gradient.order_users_first`, as elsewhere. The sum of
two is the same in either order; more than two are sorted. See docs/decisions/0018.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..base.dtypes import convert_scalar
from ..base.hot import hot, slotted
from ..graph.gradient_rules import gradient_call
from ..graph.node import Node
from ..graph.operator import Array, item_operator
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
    """The numbers of the nodes that they come from: the pass has the largest ones first."""


#: the key by which gradients are sorted, the largest first
_number = itemgetter(0)


@slotted
class BatchedPass:
    """A backward pass over groups."""

    __slots__ = ("_batches", "_sum_function", "_total", "_variables")

    def __init__(
        self,
        batches: Batches,
        variables: Sequence[Node],
        total: Callable[[list[Any], Node], Array],
        sum_function: Callable[[Node], Function],
    ) -> None:
        self._batches, self._total, self._sum_function = batches, total, sum_function
        self._variables: dict[Node, list[tuple[int, Any]]] = {node: [] for node in variables}

    def run(self, head: Node) -> dict[Node, Array | None]:
        """Return the gradient of each variable node."""
        one = np.full((1, *head.shape), convert_scalar(1, head.dtype), head.dtype)
        self._batches.group_of[head].parts.append(_Part(None, one, [0]))
        self._differentiate_all(self._batches.groups)
        found: dict[Node, Array | None] = {}
        for node, arrived in self._variables.items():
            arrived.sort(key=_number, reverse=True)
            found[node] = self._total([grad for _, grad in arrived], node) if arrived else None
        return found

    @hot
    def _differentiate_all(self, groups: Sequence[Group]) -> None:
        for group in reversed(groups):
            call = group.calls[0]
            if call.outputs is None:
                out_grads = [self._sum(group)]
            else:
                if group.items is None:
                    _refuse()
                out_grads = group.items
            if call.operator is _ITEM:
                self._pass_item(group, out_grads[0])
            elif call.operator.is_view:
                if not passes_through(call):
                    _refuse()
                self._pass_on(group, 0, out_grads[0])
            else:
                self._differentiate(group, call, out_grads)

    @hot
    def _differentiate(self, group: Group, call: Node, out_grads: list[Any]) -> None:
        """Run the rule of a group, and pass gradients on."""
        rule = None if call.operator.is_loss else stackable_rule(call, out_grads)
        if rule is None:
            _refuse()
        others = 1 + len(call.inputs) if call.outputs is None else len(gradient_call(call)[0])
        arrays = [*out_grads, *[None] * others]
        are_stacked = [grad is not None for grad in out_grads]
        are_stacked += [False] * others
        for place in rule.reads:
            if call.outputs is not None:
                _refuse()
            if place == 1:
                arrays[place] = group.value
                are_stacked[place] = True
            else:
                array, is_stacked = group.inputs[place - 2]
                arrays[place] = array
                are_stacked[place] = is_stacked
        found = rule.run_stacked(len(group.members), arrays, are_stacked)
        for which, source in enumerate(call.inputs):
            if source.marked:
                grads = found[which]
                if grads is None:
                    # whether a member has a gradient then depends on its other users
                    _refuse()
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

    @hot
    def _pass_on(self, group: Group, which: int, grads: Any) -> None:
        """Pass gradients to the nodes that the members of a group read."""
        group_of, sources, users = self._batches.group_of, group.sources[which], group.numbers
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
                continue
            numbers = others.get(target)
            if numbers is None:
                others[target] = [number]
            else:
                numbers.append(number)
        place_of = self._batches.place_of
        for target, numbers in others.items():
            places = [place_of[sources[number]] for number in numbers]
            if len(numbers) == len(sources):
                target.parts.append(_Part(places, grads, users))
            else:
                chosen = [grads[number] for number in numbers] if grads.__class__ is list else grads[numbers]
                target.parts.append(_Part(places, chosen, [users[number] for number in numbers]))

    @hot
    def _sum(self, group: Group) -> Any:
        """Return the stack of the gradients of the members of a group."""
        parts = group.parts
        group.parts = []
        if not parts:
            _refuse()
        places, values, _ = parts[0]
        if len(parts) == 1 and places is None and values.__class__ is not list:
            return values
        count = len(group.members)
        # for each member the row of its first gradient among those of all parts, and for second ones member and row
        first = [-1] * count
        again: list[int] = []
        second: list[int] = []
        row = 0
        for places, values, _ in parts:
            if values.__class__ is list:
                return self._sum_each(parts, group)
            for place in range(count) if places is None else places:
                if first[place] < 0:
                    first[place] = row
                else:
                    again.append(place)
                    second.append(row)
                row += 1
        if -1 in first:
            _refuse()
        if again and len(set(again)) < len(again):
            return self._sum_each(parts, group)
        rows = np.concatenate([values for _, values, _ in parts]) if len(parts) > 1 else values
        found = rows[first]
        if again:
            # the sum of two is the same in either order
            found[again] = self._sum_function(group.members[0])(found[again], rows[second])
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
            grads.sort(key=_number, reverse=True)
            found.append(self._total([grad for _, grad in grads], node))
        return np.stack(found)


def _refuse() -> NoReturn:
    raise NotBatched
