"""Conversions between float32 and 16 bits: where a plan computes them, so that it keeps little memory.

Mixed precision converts whole arrays. :func:`convert_views` converts only the parts of a widened array that are read,
and :func:`convert_again` rounds inputs of a plan once more for the backward pass, so that the rounded copies are not
kept until then. No bit changes. Both take and change the order of :mod:`~phonograd.core.plan.expansion`, before
:mod:`~phonograd.core.plan.grouping` places its nodes. See docs/decisions/0023.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..base.dtypes import FLOAT32, HALVES, DType
from ..graph.node import Node
from ..graph.operator import REGISTRY
from ..lower.lowering import Lowering
from .expansion import Order, lowering_of
from .views import BARRIER

__all__ = ["convert_again", "convert_views"]

_CAST = REGISTRY["_cast"]
#: bytes of a rounded copy that are worth a second kernel
LEAST_AGAIN_BYTES = 1 << 18


def convert_views(order: Order, kept: Iterable[Node]) -> None:
    """Convert views of 16-bit values to float32, instead of the values, where nothing else reads the float32 values.

    A slice of a converted array becomes the conversion of a slice: only the slice is in memory for its readers.
    """
    if not any([_is_widening(order, node) for node in order.nodes]):
        return
    readers = _readers(order)
    lasting = set(kept)
    for node in list(order.nodes):
        found = readers.get(node, ())
        if node in lasting or not found or not _is_widening(order, node):
            continue
        if all([_is_plain_view(order, reader, node) for reader in found]):
            for view in found:
                _convert_view(order, view, order.sources[node][0])


def _is_widening(order: Order, node: Node) -> bool:
    if order.expressions[node].operator is not _CAST or node.dtype != FLOAT32:
        return False
    return order.sources[node][0].dtype in HALVES


def _is_plain_view(order: Order, view: Node, of: Node) -> bool:
    expression = order.expressions[view]
    return order.below.get(view) is of and expression is view and len(view.inputs) == 1 and view.outputs is None


def _convert_view(order: Order, view: Node, source: Node) -> None:
    """Make a view of a converted value the conversion of a view of the value itself."""
    below = _like(view, (source,), source.dtype)
    order.expressions[below], order.lowerings[below] = below, order.lowerings[view]
    order.sources[below], order.below[below] = [source], source
    expression = Node(_CAST, (below,), (view.dtype,), view.shape, view.dtype, context=view.context)
    _attribute(expression, view)
    order.expressions[view], order.lowerings[view] = expression, lowering_of(expression)
    order.sources[view] = [below]
    del order.below[view]
    order.nodes.insert(order.nodes.index(view), below)


def convert_again(order: Order, inputs: Collection[Node], kept: Iterable[Node]) -> None:
    """Round an input of the plan once more for its second reader, if that one depends on the first.

    The readers are a layer and its gradient: much is computed between them.
    """
    rounded = [node for node in order.nodes if _is_rounded_input(order, node, inputs)]
    if not rounded:
        return
    readers = _readers(order)
    lasting = set(kept)
    for node in rounded:
        names = _names_of(node, readers, order)
        found = [reader for name in names for reader in readers.get(name, ()) if reader not in names]
        views = [name for name in names if name is not node and order.below[name] is not order.expressions[name]]
        is_plain = all([_is_plain_view(order, view, order.below[view]) for view in views])
        if len(found) != 2 or not is_plain or not lasting.isdisjoint(names):
            continue
        first, second = sorted(found, key=order.nodes.index)
        trigger = None if second.outputs is not None else _dependent_source(order, first, second)
        if trigger is not None:
            _Again(order, names, trigger).let(second)


def _is_rounded_input(order: Order, node: Node, inputs: Collection[Node]) -> bool:
    if order.expressions[node].operator is not _CAST or node.dtype not in HALVES:
        return False
    (source,) = order.sources[node]
    return source in inputs and source.dtype == FLOAT32 and node.size * node.dtype.itemsize >= LEAST_AGAIN_BYTES


def _readers(order: Order) -> dict[Node, list[Node]]:
    """Return the nodes that read a value, or are a view of it."""
    found: dict[Node, list[Node]] = {}
    for node in order.nodes:
        below = order.below.get(node)
        for source in dict.fromkeys(order.sources[node] if below is None else [below]):
            found.setdefault(source, []).append(node)
    return found


def _names_of(node: Node, readers: dict[Node, list[Node]], order: Order) -> dict[Node, None]:
    """Return a value and all views of it."""
    names = {node: None}
    stack = [node]
    while stack:
        here = stack.pop()
        views = [reader for reader in readers.get(here, ()) if order.below.get(reader) is here]
        names.update(dict.fromkeys(views))
        stack += views
    return names


def _dependent_source(order: Order, first: Node, second: Node) -> Node | None:
    """Return the last of the values that a node reads and that depend on another node, or None."""
    begin, end = order.nodes.index(first), order.nodes.index(second)
    after = {first}
    for node in order.nodes[begin + 1 : end]:
        below = order.below.get(node)
        if not after.isdisjoint(order.sources[node] if below is None else [below]):
            after.add(node)
    found = [source for source in order.sources[second] if source in after]
    return max(found, key=order.nodes.index, default=None)


class _Again:
    """A second conversion, and views of it."""

    def __init__(self, order: Order, names: Collection[Node], trigger: Node) -> None:
        self._order, self._names, self._trigger = order, names, trigger
        self._copies: dict[Node, Node] = {}
        self._new: list[Node] = []

    def let(self, reader: Node) -> None:
        """Let a node read the second conversion."""
        order = self._order
        expression = order.expressions[reader]
        inputs = [order.source(operand) for operand in expression.inputs]
        made = _like(expression, tuple([self._copy(each) if each in self._names else each for each in inputs]))
        order.expressions[reader] = made
        order.sources[reader] = [order.source(operand) for operand in made.inputs]
        place = order.nodes.index(reader)
        order.nodes[place:place] = self._new

    def _copy(self, node: Node) -> Node:
        found = self._copies.get(node)
        if found is not None:
            return found
        order = self._order
        expression, below = order.expressions[node], order.below.get(node)
        if below is None:
            (source,) = order.sources[node]
            barrier = Node(BARRIER, (source, self._trigger), (), source.shape, source.dtype, context=source.context)
            _attribute(barrier, node)
            self._add(barrier, lowering_of(barrier), source)
            made = _like(expression, (barrier,))
            self._add(made, order.lowerings[node])
        elif below is expression:
            # it is another name for a value
            return self._copy(below)
        else:
            copied = self._copy(below)
            made = _like(expression, (copied,))
            self._add(made, order.lowerings[node], copied)
        self._copies[node] = made
        return made

    def _add(self, node: Node, lowering: Lowering, below: Node | None = None) -> None:
        order = self._order
        order.expressions[node], order.lowerings[node] = node, lowering
        order.sources[node] = [order.source(operand) for operand in node.inputs]
        if below is not None:
            order.below[node] = below
        self._new.append(node)


def _like(node: Node, inputs: tuple[Node, ...], dtype: DType | None = None) -> Node:
    """Return a node like another one with other inputs."""
    made = Node(node.operator, inputs, node.attributes, node.shape, dtype or node.dtype, node.outputs, node.context)
    _attribute(made, node)
    return made


def _attribute(made: Node, node: Node) -> None:
    made.origin, made.gradient_of, made.call = node.origin, node.gradient_of, node.call
