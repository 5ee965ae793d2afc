"""Record graphs: what is recorded, without its extents, and the plan of its values and gradients for some extents.

Takes the nodes of a record from :mod:`phonograd.core.backward.eager`, users first. Two records of the same operators,
attributes and edges have one structure, and each its own list of integers: extents, and integers among attributes. A
graph makes the nodes of a record again for any such list, derives the gradients, and plans both. It does so with sizes
in the place of integers, too (:mod:`~phonograd.core.plan.sized_plan`): shape rules, gradient rules and the planner are
Python functions of integers, and what they ask becomes a condition of the plan. See docs/decisions/0055.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..base.devices import CPU
from ..base.hot import hot
from ..derive.gradient import Derivation, call_of
from ..graph.node import Node, new_node, of_one_call, tensor_type
from ..graph.operator import ABSENT, REGISTRY, Operator, item_operator, items_of
from ..kernels.launch import Written
from ..ops.math.structural import LEAF, VARIABLE, leaf, repeat_call, variable
from ..run.disk_cache import is_ours
from ..run.program import Recipe
from ..run.reference import order, resolve
from .any_extents import filled, skeleton
from .plain_data import plain, value_of
from .sized_plan import Refused

__all__ = ["COMPOSITE", "RecordGraph", "RecordOutline", "is_fixed", "outline_of_record"]

COMPOSITE = REGISTRY["_composite"]
_ITEM, _ABSENT = item_operator(), ABSENT.operator
#: numbers of the leaves that stand for values from outside. Those of two graphs are never the same, nor are nodes that
#: follow from them: nodes are planned in the order in which they were made
_numbers = itertools.count(-(1 << 44), -1)


@hot
def is_fixed(node: Node) -> bool:
    """Return whether a node is a constant, or stands for an input that is left out: rules may look at it."""
    return not node.inputs and node.operator is not LEAF


# -- outlines


#: make what hot functions fill
_no_places: type[dict[Node, int]] = dict
_no_list: type[list[Any]] = list


class RecordOutline(NamedTuple):
    """A record as its structure and its integers."""

    key: tuple[Any, ...]
    sizes: list[Any]
    nodes: list[Node]
    """The nodes that are computed, users first."""
    outside: list[Node]
    """The values that they are computed from; marked ones are variables."""
    wanted: list[int]
    """The places of the nodes whose values are wanted."""


@hot
def outline_of_record(visited: Sequence[Node], wanted: Sequence[Node]) -> RecordOutline:
    """Return the outline of a record, given its marked nodes, and nodes whose values are wanted.

    Raises
    ------
    Refused
        If an attribute is an object.
    """
    nodes = [node for node in visited if node.operator is not VARIABLE]
    places, outside, sizes, key = _no_places(), _no_list(), _no_list(), _no_list()
    for number, node in enumerate(nodes):
        places[node] = number
    for node in nodes:
        call = call_of(node)
        given = call.attributes
        key += (call.operator, call is node, len(call.inputs))
        if given and call.operator is not COMPOSITE:
            key.append(skeleton(given, sizes))
        for source in call.inputs:
            place = places.get(source)
            if place is None:
                shape = source.shape
                sizes += shape
                # a context is hashed by a Python function
                key += (source.kind, len(shape), None if source.context is CPU else source.context)
                if is_fixed(source):
                    key += (source.operator, skeleton(source.attributes, sizes))
                    continue
                place = places[source] = -1 - len(outside)
                outside.append(source)
                key.append(source.marked)
            key.append(place)
    kept = [places[node] for node in wanted if places.get(node, -1) >= 0]
    return RecordOutline(tuple(key + kept), sizes, nodes, outside, kept)


# -- graphs


class _Row(NamedTuple):
    """A node of a record."""

    operator: Operator
    is_repeated: bool
    """True if the node is a repeated call of it."""
    attributes: tuple[Any, ...]
    sources: list[Any]
    """The places of inputs, -1 minus the number of a value from outside, or a constant."""
    met: list[Any]
    """The types of the values from outside that are met first, and constants, in the order of the inputs."""


class _Given(NamedTuple):
    """A value from outside, or a constant with its operator and attributes."""

    shape: tuple[Any, ...]
    dtype: Any
    context: Any
    is_variable: bool
    operator: Operator | None
    attributes: tuple[Any, ...]


class RecordDraft(NamedTuple):
    """The plan of a record (see :class:`~phonograd.core.plan.sized_plan.Draft`)."""

    recipe: Recipe
    structures: list[Written]
    nodes: Sequence[Node]
    all: Sequence[Node]
    inputs: list[int]
    """The inputs of the plan, by number among the values from outside."""
    results: list[int]
    """The wanted values, then the gradients: numbers of kept values, or -1 minus the numbers of inputs."""


class RecordGraph:
    """The structure of records, with the integers of one of them.

    Parameters
    ----------
    rows
        The nodes, users first.
    wanted
        The places of the nodes whose values are wanted.
    """

    def __init__(self, rows: Sequence[_Row], wanted: Sequence[int]) -> None:
        self._rows, self._wanted = rows, wanted

    @classmethod
    def of(cls, outline: RecordOutline) -> RecordGraph:
        """Return the graph of a record."""
        places = {node: place for place, node in enumerate(outline.nodes)}
        places |= {node: -1 - number for number, node in enumerate(outline.outside)}
        seen: set[Node] = set()
        rows = []
        for node in outline.nodes:
            call = call_of(node)
            met: list[Node] = []
            for source in call.inputs:
                if source not in places or (places[source] < 0 and source not in seen):
                    met.append(source)
                    seen.add(source)
            attributes = () if call.operator is COMPOSITE else call.attributes
            sources = [places.get(source) for source in call.inputs]
            rows.append(_Row(call.operator, call is not node, attributes, sources, [_given(each) for each in met]))
        return cls(rows, outline.wanted)

    def message(self) -> Any:
        """Return the graph as plain data; raise TypeError if it contains objects."""
        rows = []
        for row in self._rows:
            met = [(plain(tuple(each[:4])), _name(each.operator), plain(each.attributes)) for each in row.met]
            rows.append((_name(row.operator), row.is_repeated, plain(row.attributes), row.sources, met))
        return rows, list(self._wanted)

    @classmethod
    def of_message(cls, message: Any) -> RecordGraph:
        """Return the graph that was made a message."""
        rows, wanted = message
        made = []
        for name, is_repeated, attributes, sources, met in rows:
            given = []
            for kind, constant, data in met:
                shape, dtype, context, is_variable = value_of(kind)
                declared = None if constant is None else REGISTRY[constant]
                given.append(_Given(shape, dtype, context, is_variable, declared, value_of(data)))
            made.append(_Row(REGISTRY[name], is_repeated, value_of(attributes), sources, given))
        return cls(made, wanted)

    def structure(self) -> Any:
        """Return the graph without its integers, as data that have the same text in all processes."""
        rows = []
        for row in self._rows:
            met = []
            for each in row.met:
                kind = len(each.shape), each.dtype.str, str(each.context), each.is_variable
                met.append((kind, _name(each.operator), skeleton(each.attributes, [])))
            rows.append((_name(row.operator), row.is_repeated, skeleton(row.attributes, []), row.sources, met))
        return rows, self._wanted

    def draft(self, given: Sequence[Any]) -> RecordDraft:
        """Return the plan of the values that are wanted and of the gradients, for some integers or sizes."""
        # a process that finds its plans on disk need not import the planner
        from .native_program import recipe_of

        results, leaves, roots = self._results(given)
        wanted = list(dict.fromkeys(results))
        inputs, needed = order(wanted, lambda node: False)
        computed = _in_order([*roots, *results], set(needed))
        nodes = [*inputs, *computed]
        recipe, structures = recipe_of(wanted, inputs, computed, False)
        numbers = {node: number for number, node in enumerate(leaves)}
        places = {node: number for number, (node, _) in enumerate(recipe.kept)}
        places |= {node: -1 - number for number, node in enumerate(inputs)}
        taken, made = [numbers[node] for node in inputs], [places[node] for node in results]
        return RecordDraft(recipe, structures, nodes, nodes, taken, made)

    def _results(self, given: Sequence[Any]) -> tuple[list[Node], list[Node], list[Node]]:
        """Return the nodes of the wanted values and of the gradients, the leaves, and all calls in their order."""
        with of_one_call():
            rows, leaves, variables = self._insert(iter(given))
            copies: dict[int, Node] = {-1 - number: node for number, node in enumerate(variables)}
            for place in reversed(range(len(rows))):
                declared, is_repeated, attributes, sources = rows[place]
                inputs = [source if isinstance(source, Node) else copies[source] for source in sources]
                copy = _call(declared, inputs, (("record", place), 0) if declared is COMPOSITE else attributes)
                copies[place] = repeat_call(copy, 1 + place) if is_repeated else copy
            # not by differentiate(), which would keep the graph
            derivation = Derivation((copies[0],), (None,))
            derivation.advance()
            gradient = derivation.result()
            targets = gradient.targets
            grads = [targets.get(node) for node in variables if node.operator is VARIABLE]
            if None in grads:
                raise Refused("a variable has no gradient")
            found = [*[copies[place] for place in self._wanted], *grads]
            calls = [*copies.values(), *[grad for _, grads in gradient.rules for grad in grads if grad is not None]]
            return [resolve(node) for node in found if node is not None], leaves, calls

    def _insert(self, sizes: Iterator[Any]) -> tuple[list[Any], list[Node], list[Node]]:
        """Return the calls with other integers, and the values from outside as leaves and as they are used."""
        calls: list[Any] = []
        leaves: list[Node] = []
        variables: list[Node] = []
        for row in self._rows:
            attributes, met = filled(row.attributes, sizes), iter(row.met)
            sources: list[Any] = []
            for source in row.sources:
                if source is None:
                    sources.append(_constant(next(met), sizes))
                    continue
                sources.append(source)
                if source < 0 and -1 - source == len(leaves):
                    shape, dtype, context, is_variable, _, _ = next(met)
                    leaves.append(leaf(next(_numbers), filled(shape, sizes), dtype, context))
                    variables.append(variable(leaves[-1], len(variables)) if is_variable else leaves[-1])
            calls.append((row.operator, row.is_repeated, attributes, sources))
        return calls, leaves, variables


def _in_order(roots: Sequence[Node], needed: set[Node]) -> list[Node]:
    """Return the nodes that are needed, each before its users, and otherwise in the order of the roots.

    The order in which nodes were made would depend on what was computed before: those that follow from constants alone
    may be older than the record.
    """
    found: dict[Node, None] = {}
    for root in roots:
        stack = [(resolve(root), False)]
        while stack:
            node, is_done = stack.pop()
            if is_done:
                found[node] = None
            elif node in needed and node not in found:
                stack.append((node, True))
                stack += [(resolve(source), False) for source in reversed(node.inputs)]
    return list(found)


def _given(node: Node) -> _Given:
    declared = node.operator if is_fixed(node) else None
    attributes = node.attributes if declared is not None else ()
    return _Given(node.shape, node.dtype, node.context, node.marked, declared, attributes)


def _name(declared: Operator | None) -> str | None:
    if declared is None:
        return None
    if REGISTRY.get(declared.name) is not declared or not is_ours(declared):
        raise TypeError(f"{declared} is not part of the library")
    return declared.name


def _call(declared: Operator, inputs: Sequence[Node], attributes: tuple[Any, ...]) -> Node:
    if declared is _ITEM:
        item: Node = items_of(inputs[0])[attributes[0]]
        return item
    given = tuple([None if node.operator is _ABSENT else node for node in inputs])
    made: Node | tuple[Node, ...] = declared.apply(given, attributes)
    return made if isinstance(made, Node) else made[0].inputs[0]


def _constant(given: _Given, sizes: Iterator[Any]) -> Node:
    """Return a constant, which is interned as a call of the operator would intern it."""
    declared, shape = given.operator, filled(given.shape, sizes)
    attributes = filled(given.attributes, sizes)
    assert declared is not None
    if declared is _ABSENT:
        absent: Node = ABSENT()
        return absent
    found = declared.table.get(((), attributes))
    if not isinstance(found, Node):
        type_ = tensor_type(shape, given.dtype, given.context, False, None)
        found = declared.table[(), attributes] = new_node(declared, (), attributes, type_, None, None)
    return found
