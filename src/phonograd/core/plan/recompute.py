"""Recomputation of scores: large products that gradients compute again instead of keeping them in memory.

In attention, a product makes scores, kernels make probabilities of them, and another product reads these. Its gradient
reads the probabilities again, much later. They are larger than everything else, so the planner adds copies of their
nodes for the gradient: the product and what is computed of it element by element. Sums along rows (the divisors of
softmax) are small, and kept. Copies have the same bits. Takes and changes the order of
:mod:`~phonograd.core.plan.expansion`, before :mod:`~phonograd.core.plan.grouping` places its nodes;
:mod:`~phonograd.core.plan.row_blocks` then finds regions for the forward pass and for the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from ..base import settings
from ..graph.node import Node, Shape
from ..graph.operator import REGISTRY
from ..lower.lowering import Fused, Lowering, Matmul
from ..run.host import host
from ..run.reference import resolve
from .expansion import Order, lowering_of
from .products import is_large, sums_in_order

__all__ = ["find_scores", "recompute_scores"]

_MATMUL = REGISTRY["_matmul"]
MATMUL = Matmul()


class Scores(NamedTuple):
    """A product, the values of its elements that only lead to other products, and the nodes that read these later."""

    product: Node
    values: dict[Node, None]
    """The product and what is computed of it element by element, and views of those, in order."""
    later: list[Node]
    """Nodes that read some of the values, and depend on a product of them."""
    has_product: bool
    """Whether a product reads the values."""


def find_scores(nodes: Sequence[Node], kept: Collection[Node], source: Callable[[Node], Node]) -> set[Node]:
    """Return the values of all scores among the nodes of a plan before expansion; kept ones are not among them."""
    if not settings.current().attention_blocks:
        return set()
    found: set[Node] = set()

    def reads(node: Node) -> list[Node]:
        return [source(operand) for operand in node.inputs]

    def lower(node: Node) -> Lowering:
        # products of 16 bits expand to those of float32
        return MATMUL if node.operator is _MATMUL else lowering_of(node)

    for place, node in enumerate(nodes):
        if node in kept or not lower(node).is_product or not _is_large_product(node, *reads(node)):
            continue
        scores = _walk(nodes, place, reads, lower, kept)
        if scores is not None and scores.has_product:
            found.update(scores.values)
    return found


def recompute_scores(order: Order, kept: Iterable[Node]) -> None:
    """Add copies of scores to the nodes of a plan, for their later readers."""
    if not settings.current().attention_blocks:
        return
    lasting = set(kept)

    def reads(node: Node) -> list[Node]:
        below = order.below.get(node)
        return order.sources[node] if below is None else [below]

    for node in list(order.nodes):
        if node in lasting or not order.lowerings[node].is_product:
            continue
        if _is_large_product(node, *order.sources[node]):
            scores = _walk(order.nodes, order.nodes.index(node), reads, order.lowerings.__getitem__, lasting)
            if scores is not None and scores.has_product and scores.later:
                _Copies(order, scores).add()


def _is_large_product(node: Node, lhs: Node, rhs: Node) -> bool:
    """Return whether a product can be the scores of attention."""
    terms, whole = lhs.shape[-1], rhs
    while whole.inputs and lowering_of(whole).is_view and whole.size == rhs.size:
        whole = resolve(whole.inputs[0])
    # one matrix for the whole batch is a layer's weight
    is_batched = whole.size >= rhs.size
    sizes = node.shape[-2], terms, node.shape[-1]
    return is_batched and is_large(node.shape, terms, node.dtype.itemsize) and sums_in_order(sizes, node.dtype, host())


def _walk(
    nodes: Sequence[Node],
    place: int,
    reads: Callable[[Node], list[Node]],
    lowering: Callable[[Node], Lowering],
    kept: Collection[Node],
) -> Scores | None:
    """Return the values of a product's elements; None if something else than kernels reads them."""
    product = nodes[place]
    values: dict[Node, None] = {product: None}
    after: set[Node] = set()
    later: list[Node] = []
    has_product = False
    for node in nodes[place + 1 :]:
        sources = reads(node)
        reads_value = not values.keys().isdisjoint(sources)
        if not after.isdisjoint(sources):
            after.add(node)
            if reads_value:
                later.append(node)
            continue
        if not reads_value:
            continue
        how = lowering(node)
        if how.is_product:
            after.add(node)
            has_product = True
        elif node in kept and how.fused_as is not Fused.FOLD:
            # it is in memory in any case; what reads it later needs no copy
            return None
        elif how.is_view and not how.is_split:
            values[node] = None
        elif how.fused_as is Fused.STEP or how.is_expansion:
            if not _has_elements(node.shape, product.shape) or node.outputs is not None:
                return None
            values[node] = None
        elif how.fused_as is not Fused.FOLD:
            return None
    return Scores(product, values, later, has_product)


def _has_elements(shape: Shape, of: Shape) -> bool:
    """Return whether a shape has the rows and columns of another one, and as many matrices."""
    size = 1
    for extent in shape[:-2]:
        size *= extent
    for extent in of[:-2]:
        size //= extent
    return len(shape) >= 2 and shape[-2:] == of[-2:] and size == 1


class _Copies:
    """The copies of scores, while they are made."""

    def __init__(self, order: Order, scores: Scores) -> None:
        self._order, self._scores = order, scores
        self._copies: dict[Node, Node] = {}

    def add(self) -> None:
        """Add copies before the first later reader, and let the later readers read them."""
        order, later = self._order, self._scores.later
        place = order.nodes.index(later[0])
        before = set(order.nodes[:place])
        waits: dict[Node, None] = {}
        for reader in later:
            for source in order.sources[reader]:
                # the first product of the gradient is computed at the same time as the copies
                is_product = source in order.lowerings and order.lowerings[source].is_product
                found = order.sources[source] if is_product else [source]
                waits.update(dict.fromkeys([n for n in found if n in before and n not in self._scores.values]))
            self._replace(reader)
        copied = self._copies.get(self._scores.product)
        if copied is not None:
            order.after[copied] = tuple(waits)
        order.nodes[place:place] = self._copies.values()

    def _replace(self, reader: Node) -> None:
        order = self._order
        below = order.below.get(reader)
        if below in self._scores.values:
            assert below is not None
            order.below[reader] = self._copy(below)
        expression = order.expressions[reader]
        if expression not in self._scores.values:
            order.expressions[reader] = self._with_copies(expression)
            order.sources[reader] = [order.source(operand) for operand in order.expressions[reader].inputs]

    def _with_copies(self, node: Node) -> Node:
        """Return a node like another one that reads copies."""
        source, values = self._order.source, self._scores.values
        inputs = [self._copy(source(operand)) if source(operand) in values else operand for operand in node.inputs]
        made = Node(node.operator, tuple(inputs), node.attributes, node.shape, node.dtype, node.outputs, node.context)
        made.origin, made.gradient_of, made.call = node.origin, node.gradient_of, node.call
        return made

    def _copy(self, node: Node) -> Node:
        """Return the copy of a value; those that it reads come before it."""
        found = self._copies.get(node)
        if found is not None:
            return found
        order = self._order
        expression, below = order.expressions[node], order.below.get(node)
        if below is not None and below is expression:
            # it is another name for a value
            return self._copy(below)
        made = self._with_copies(expression)
        order.expressions[made] = made
        order.lowerings[made] = order.lowerings[node]
        order.sources[made] = [order.source(operand) for operand in made.inputs]
        if below is not None:
            order.below[made] = self._copy(below) if below in self._scores.values else below
        self._copies[node] = made
        return made
