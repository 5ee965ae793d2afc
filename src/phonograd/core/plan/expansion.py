"""Expansion: choose the lowering of every node, and replace operators by the expressions they expand to.

Takes the rewritten nodes of a plan. :class:`Order` hands them to :mod:`~phonograd.core.plan.grouping`: each with its
lowering, after the nodes that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from ..base.dtypes import kind_of
from ..base.pace import rest
from ..graph.node import Node, Shape, attributed_to
from ..graph.operator import ABSENT, REGISTRY, Operator, item_operator, single
from ..lower.lowering import NUMPY, SAME, Fused, Lowering, alternatives
from ..ops.math.structural import DETACH, LEAF
from ..ops.vision.points import few_rows, rows_where_read, take_along
from ..run.reference import resolve

__all__ = ["Order", "lowering_of", "lowerings_of"]

_ITEM: Operator = item_operator()
_ABSENT: Operator = ABSENT.operator
_TAKE_ALONG: Operator = REGISTRY["_take_along"]
_ADD_ALONG: Operator = REGISTRY["_add_along"]
_ADD_AXIS: Operator = REGISTRY["_add_axis"]
_MATMUL: Operator = REGISTRY["_matmul"]
_SUM_TO: Operator = REGISTRY["_sum_to"]
#: Compute only the elements that are taken if the value has at least FEW times as many. Look through at most DEEPEST
#: operators, each of which costs at most CHEAP operations per element.
FEW, DEEPEST, CHEAP = 8, 4, 1.0


def lowering_of(node: Node) -> Lowering:
    """Return the lowering of a node; NumPy evaluates it where its operator has none for these dtypes."""
    found = lowerings_of(node)
    return found[-1] if found else NUMPY


def lowerings_of(node: Node) -> tuple[Lowering, ...]:
    """Return the lowerings that a node can have, to be tried in this order: all but the last are expansions."""
    operator, inputs = node.operator, node.inputs
    declared = operator.lowering
    if declared is None:
        piece = lowering_of(inputs[0]).piece(inputs[0], node.attributes[0]) if operator is _ITEM else None
        return () if piece is None else (piece,)
    if len(inputs) > operator.required_inputs and _ABSENT in [source.operator for source in inputs]:
        # only an expansion can do without an input
        return tuple([lowering for lowering in _fitting(node, declared) if lowering.is_expansion])
    key = (operator, node.kind, node.outputs is None, *[source.kind for source in inputs])
    known = _known.get(key)
    if known is None or known[0] is not declared:
        known = _known[key] = declared, _fitting(node, declared)
    return known[1]


_known: dict[tuple[Any, ...], tuple[Any, tuple[Lowering, ...]]] = {}


def _fitting(node: Node, declared: Lowering) -> tuple[Lowering, ...]:
    sources = [source.dtype for source in node.inputs if source.operator is not _ABSENT]
    fitting: list[Lowering] = []
    for lowering in alternatives(declared):
        if lowering.is_split == (node.outputs is not None) and lowering.fits(node.dtype, sources):
            fitting.append(lowering)
            if not lowering.is_expansion:
                break
    return tuple(fitting)


class Order:
    """Nodes to compute, each after those that it reads, with the lowering of each.

    Parameters
    ----------
    computed
        The nodes to compute, older ones first.
    inputs
        The nodes whose values are arrays already.
    source
        Returns the node whose value is to be read as that of a node.
    as_they_are
        Nodes that are not expanded.
    kept
        Those of the computed nodes whose values must be arrays at the end; None if all must.

    Attributes
    ----------
    nodes
        The nodes to compute, and those that expanded operators consist of.
    expressions
        By node the node that says how it is computed: the same one, or the expression that its operator expands to.
    lowerings
        By node the lowering of its expression.
    sources
        By node the nodes whose values its expression reads.
    below
        By location the node whose elements it has.
    after
        By product other nodes that are computed before it.
    """

    def __init__(
        self,
        computed: Sequence[Node],
        inputs: Iterable[Node],
        source: Callable[[Node], Node] = resolve,
        as_they_are: Container[Node] = (),
        kept: Iterable[Node] | None = None,
    ) -> None:
        self.source = source
        self._computed = computed
        self._kept = None if kept is None else frozenset(kept)
        self.nodes: list[Node] = []
        self.expressions: dict[Node, Node] = {}
        self.lowerings: dict[Node, Lowering] = {}
        self.sources: dict[Node, list[Node]] = {}
        self.below: dict[Node, Node] = {}
        self.after: dict[Node, tuple[Node, ...]] = {}
        self._as_they_are = as_they_are
        self._known = set(inputs)
        for node in computed:
            rest()
            if node not in self._known:
                self._add(node)
        self._drop_absent()

    def _drop_absent(self) -> None:
        """Leave out the nodes of absent inputs, except where an operator that is not expanded reads them."""
        if any([node.operator is _ABSENT for node in self.nodes]):
            read = {source for node in self.nodes if self.expressions[node] is node for source in node.inputs}
            self.nodes = [node for node in self.nodes if node.operator is not _ABSENT or node in read]

    def _add(self, node: Node) -> None:
        """Add a node, after all nodes of the expression that its operator expands to."""
        candidates = lowerings_of(node)
        expression, lowering = node, candidates[0] if candidates else NUMPY
        if lowering.is_expansion:
            expression, lowering = self._choose(node, candidates)
        if expression is node and lowering is not NUMPY:
            rule = _SHORTER.get(node.operator)
            shorter = None if rule is None else rule(self, node)
            if shorter is not None:
                expression, lowering = shorter
        source = self.source
        self._known.add(node)
        self.nodes.append(node)
        self.expressions[node] = expression
        self.lowerings[node] = lowering
        self.sources[node] = sources = [source(operand) for operand in expression.inputs]
        if lowering is SAME:
            self.below[node] = expression
        elif lowering.is_view and not lowering.is_split:
            # one output of a split has elements of the array that is split
            whole = expression.inputs[0]
            self.below[node] = sources[0] if expression.operator is not _ITEM else source(whole.inputs[0])

    def _choose(self, node: Node, candidates: Sequence[Lowering]) -> tuple[Node, Lowering]:
        """Return the expression that computes a node, and the first lowering that can be used."""
        for candidate in candidates[-1:] if node in self._as_they_are else candidates:
            if not candidate.is_expansion:
                return node, candidate
            found = self._expand(node, candidate)
            if found is not None:
                return found
        return node, NUMPY

    def _expand(self, node: Node, expansion: Lowering) -> tuple[Node, Lowering] | None:
        """Return the expression a node expands to with its lowering, after adding everything below it."""
        sources = [self.source(source) for source in node.inputs]
        with attributed_to(node):
            # detached, so that no rule looks through a value that exists to those that do not
            given = [None if source.operator is _ABSENT else single(DETACH.apply((source,), ())) for source in sources]
            root = expansion.expression(node, given)
        return None if root is None else self._root(root, sources)

    def _root(self, root: Node, sources: list[Node]) -> tuple[Node, Lowering] | None:
        """Return the expression of a new node with its lowering, after adding everything below it.

        None is returned if NumPy would have to evaluate some of it. ``sources`` are not looked into.
        """
        root = self.source(root)
        if root in self._known:
            return root, SAME
        missing = self._missing(root, sources)
        if not all([lowerings_of(other) for other in missing]):
            return None
        for other in missing[:-1]:
            # adding an earlier one may have added it
            if other not in self._known:
                self._add(other)
        assert missing[-1] is root, root
        lowering = lowerings_of(root)[-1]
        if lowering.needs_no_memory:
            # readers read the node itself
            self._add(root)
            return root, SAME
        return self._expand(root, lowering) if lowering.is_expansion else (root, lowering)

    # -- a few elements of a value

    def _sum_of_one(self, node: Node) -> tuple[Node, Lowering] | None:
        """Return the sum along lines that hold one element each, and zeros: that element; None for other sums.

        It is the gradient of elements that were picked; the gradient of softmax needs its sum.
        """
        data = self.source(node.inputs[0])
        if data.operator is not _ADD_ALONG or data not in self.expressions or data.inputs[0].shape != node.shape:
            return None
        only = single(DETACH.apply((self.source(data.inputs[0]),), ()))
        with attributed_to(node):
            # adding zeros makes 0 of -0
            return self._root(only + 0 if kind_of(node.dtype) == "f" else only, [])

    def _take_few(self, node: Node) -> tuple[Node, Lowering] | None:
        """Return the expression of a few elements of a cheap value; None where the node reads the whole value.

        To pick one logarithm of each row, a softmax need not compute all of them.
        """
        data, index = [self.source(source) for source in node.inputs]
        axis = node.attributes[0]
        few = index.size * FEW <= data.size and data.shape[axis] > 1
        if not few or not self._is_cheap(data):
            return None
        with attributed_to(node):
            root = self._elements(data, index, axis, data.shape, DEEPEST)
        if root is None or (root.shape, root.dtype) != (node.shape, node.dtype):
            return None
        return self._root(root, [])

    def _leave_slices(self, node: Node) -> tuple[Node, Lowering] | None:
        """Return a sum of slices as its readers can take it from the slices; None where it must be made.

        It is the gradient of a table from which few rows were taken. An optimizer reads it element by element.
        """
        if few_rows(node) is None or self._kept is None or node in self._kept:
            return None
        readers = [reader for reader in self._computed if node in map(self.source, reader.inputs)]
        if not all([reader.shape == node.shape and _is_elementwise(reader) for reader in readers]):
            return None
        sources = [self.source(source) for source in node.inputs]
        data, index = [single(DETACH.apply((source,), ())) for source in sources]
        with attributed_to(node):
            return self._root(rows_where_read(data, index, node.shape[0]), sources)

    def _outer_product(self, node: Node) -> tuple[Node, Lowering] | None:
        """Return a matrix product of sums of one term each as a product of elements; None for other products.

        It needs no memory of its own if its readers are computed element by element.
        """
        first, second = [self.source(source) for source in node.inputs]
        is_wide = first.dtype == second.dtype == node.dtype and node.dtype.itemsize >= 4
        if first.shape[-1] != 1 or not is_wide or self._kept is None:
            return None
        with attributed_to(node):
            # a sum begins with 0, which makes 0 of -0
            product = single(DETACH.apply((first,), ())) * single(DETACH.apply((second,), ())) + 0
        return self._root(product, []) if product.shape == node.shape else None

    def _is_cheap(self, node: Node) -> bool:
        """Return whether a node costs at most one operation per element."""
        lowering = self.lowerings.get(node)
        if lowering is None or lowering.fused_as is not Fused.STEP:
            return False
        cost = self.expressions[node].operator.cost
        return not callable(cost) and cost <= CHEAP

    def _elements(self, node: Node, index: Node, axis: int, shape: Shape, depth: int) -> Node | None:
        """Return the elements of a value, repeated to a shape, at some places of an axis."""
        if depth and self._is_cheap(node):
            expression = self.expressions[node]
            found = [self._elements(operand, index, axis, shape, depth - 1) for operand in self.sources[node]]
            operands = [operand for operand in found if operand is not None]
            if len(operands) < len(found):
                return None
            return single(expression.operator.apply(tuple(operands), expression.attributes))
        given = single(DETACH.apply((node,), ()))
        own_axis = axis - len(shape) + node.ndim
        if own_axis < 0 or node.shape[own_axis] == 1:
            return given
        return take_along(given, single(DETACH.apply((index,), ())), axis) if node.shape == shape else None

    def _missing(self, root: Node, sources: list[Node]) -> list[Node]:
        """Return the nodes of an expression that were not added yet, itself last."""
        found: set[Node] = set()
        stack = [root]
        while stack:
            node = stack.pop()
            if node in found or node in self._known or node in sources:
                continue
            assert node.operator is not LEAF, node
            found.add(node)
            stack += [self.source(source) for source in node.inputs]
        return sorted(found, key=lambda node: node.serial)


def _is_elementwise(node: Node) -> bool:
    """Return whether a kernel computes each element of a node from the same element of its inputs."""
    found = lowerings_of(node)
    return bool(found) and found[0].fused_as is Fused.STEP


#: by operator a rule that finds a shorter expression
_SHORTER: dict[Operator, Callable[[Order, Node], tuple[Node, Lowering] | None]] = {
    _TAKE_ALONG: Order._take_few,
    _SUM_TO: Order._sum_of_one,
    _ADD_AXIS: Order._leave_slices,
    _MATMUL: Order._outer_product,
}
