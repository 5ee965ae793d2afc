"""What is to be computed, in terms of what kernels can do: the lowering of every node, and operators expanded."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from ..base.dtypes import FLOAT16
from ..graph.node import Node, Shape, attributed_to
from ..graph.operator import ABSENT, REGISTRY, Operator, item_operator, single
from ..lower.lowering import (
    Constant,
    Coordinate,
    Elementwise,
    Expansion,
    Gather,
    Location,
    Lowering,
    Pieces,
    Random,
    Reduction,
    Windowed,
    alternatives,
)
from ..ops.math.structural import DETACH, LEAF
from ..ops.vision.points import take_along
from ..run.host import converts_halves
from ..run.reference import resolve

__all__ = ["Order", "lowering_of", "parameters"]

_ITEM: Operator = item_operator()
_ABSENT: Operator = ABSENT.operator
_TAKE_ALONG: Operator = REGISTRY["_take_along"]
_ADD_ALONG: Operator = REGISTRY["_add_along"]
_SUM_TO: Operator = REGISTRY["_sum_to"]
#: how many times as many elements there must be as are taken, for values that are computed from as many others, and
#: how many operations each may take
FEW, DEEPEST, CHEAP = 8, 4, 1.0
#: the lowering of an operator that expands to a value which is there anyway
_SAME = Location(lambda pattern: pattern)


def lowering_of(node: Node) -> Lowering | None:
    """Return the lowering of a node, or None where its operator has none for these dtypes."""
    found = lowerings_of(node)
    return found[-1] if found else None


def lowerings_of(node: Node) -> tuple[Lowering, ...]:
    """Return the lowerings that a node can have, to be tried in this order: only the last may be no expansion."""
    operator, inputs = node.operator, node.inputs
    declared = operator.lowering
    if declared is None:
        return _piece(node) if operator is _ITEM else ()
    if len(inputs) > operator.required_inputs and _ABSENT in [source.operator for source in inputs]:
        # only an expansion knows what to do without an input
        return tuple([lowering for lowering in _fitting(node, declared) if isinstance(lowering, Expansion)])
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
        dtypes = {node.dtype, *([] if isinstance(lowering, Random) else sources)}
        if (node.outputs is not None) is not isinstance(lowering, Pieces) or not lowering.dtypes.issuperset(dtypes):
            continue
        if FLOAT16 in dtypes and not converts_halves():
            continue
        fitting.append(lowering)
        if not isinstance(lowering, Expansion):
            break
    return tuple(fitting)


def _piece(node: Node) -> tuple[Lowering, ...]:
    """Return the lowering of one output of an operator that takes an array apart."""
    whole = node.inputs[0]
    pieces = lowering_of(whole)
    if not isinstance(pieces, Pieces):
        return ()
    return _piece_of(pieces, whole.operator, whole.attributes, node.attributes[0])


@functools.lru_cache(1024)
def _piece_of(pieces: Pieces, operator: Operator, attributes: tuple[Any, ...], output: int) -> tuple[Lowering, ...]:
    named = operator.accepted(pieces.move, attributes)
    return (Location(lambda pattern: pieces.move(pattern, output, **named), pieces.dtypes),)


def parameters(expression: Node, rule: Any) -> dict[str, Any]:
    """Return the parameters of a node that a function of its lowering names."""
    operator = expression.operator
    return {} if operator is _ITEM or rule is _SAME.move else operator.accepted(rule, expression.attributes)


class Order:
    """Nodes to compute, each after what it needs, with the lowering of each.

    Parameters
    ----------
    computed
        The nodes that are asked for, older ones first.
    inputs
        The nodes whose values are arrays already.
    source
        Returns the node whose value is to be read as that of a node.
    as_they_are
        Nodes that are not expanded.

    Attributes
    ----------
    nodes
        What is to be computed, the operators that are expanded among them.
    expressions
        By node the node that says how it is computed: the same one, or what the operator expands to.
    lowerings
        By node the lowering of its expression.
    sources
        By node the nodes whose values its expression reads.
    below
        By location the node whose elements it has.
    """

    def __init__(
        self,
        computed: Sequence[Node],
        inputs: Iterable[Node],
        source: Callable[[Node], Node] = resolve,
        as_they_are: Container[Node] = (),
    ) -> None:
        self.source = source
        self.nodes: list[Node] = []
        self.expressions: dict[Node, Node] = {}
        self.lowerings: dict[Node, Lowering | None] = {}
        self.sources: dict[Node, list[Node]] = {}
        self.below: dict[Node, Node] = {}
        self._as_they_are = as_they_are
        self._known = set(inputs)
        for node in computed:
            if node not in self._known:
                self._add(node)
        self._drop_absent()

    def _drop_absent(self) -> None:
        """Leave out inputs that are not there, where no operator that NumPy may evaluate asks for them."""
        if any([node.operator is _ABSENT for node in self.nodes]):
            asking = [node for node in self.nodes if isinstance(self.lowerings[node], (Windowed, type(None)))]
            asked = {source for node in asking for source in node.inputs}
            self.nodes = [node for node in self.nodes if node.operator is not _ABSENT or node in asked]

    def _add(self, node: Node) -> None:
        lowering: Lowering | None = None
        expression = node
        candidates = lowerings_of(node)
        for candidate in candidates[-1:] if node in self._as_they_are else candidates:
            if not isinstance(candidate, Expansion):
                lowering = candidate
                break
            found = self._expanded(node, candidate)
            if found is not None:
                expression, lowering = found
                break
        if isinstance(lowering, Gather) and expression is node and (taken := self._taken(node)) is not None:
            expression, lowering = taken
        elif isinstance(lowering, Reduction) and (summed := self._summed(node)) is not None:
            expression, lowering = summed
        self._known.add(node)
        self.nodes.append(node)
        self.expressions[node] = expression
        self.lowerings[node] = lowering
        source = self.source
        self.sources[node] = [source(operand) for operand in expression.inputs]
        if isinstance(lowering, Location):
            self.below[node] = self.source(self._below(expression)) if lowering is not _SAME else expression

    def _below(self, expression: Node) -> Node:
        """Return the node whose elements a location has."""
        whole = expression.inputs[0]
        return whole.inputs[0] if expression.operator is _ITEM else whole

    def _expanded(self, node: Node, expansion: Expansion) -> tuple[Node, Lowering] | None:
        """Return the expression a node expands to with its lowering, after adding everything below it."""
        sources = [self.source(source) for source in node.inputs]
        with attributed_to(node):
            # detached, so that no rule looks through a value that is there to those that are not
            given = [None if source.operator is _ABSENT else single(DETACH.apply((source,), ())) for source in sources]
            root = expansion.expand(*given, **node.operator.accepted(expansion.expand, node.attributes))
        return None if root is None else self._rooted(root, sources)

    def _rooted(self, root: Node, sources: list[Node]) -> tuple[Node, Lowering] | None:
        """Return what a node with some inputs is computed as with its lowering, after adding everything below it."""
        root = self.source(root)
        if root in self._known:
            return root, _SAME
        missing = self._missing(root, sources)
        if not all([lowerings_of(other) for other in missing]):
            return None
        for other in missing[:-1]:
            # what is below one of them may have been another one
            if other not in self._known:
                self._add(other)
        assert missing[-1] is root, root
        lowering = lowerings_of(root)[-1]
        if isinstance(lowering, (Constant, Coordinate)):
            # the node itself is what is read
            self._add(root)
            return root, _SAME
        return (root, lowering) if not isinstance(lowering, Expansion) else self._expanded(root, lowering)

    # -- a few elements of a value

    def _summed(self, node: Node) -> tuple[Node, Lowering] | None:
        """Return the sum along lines that hold one element each, and zeros: that element; None for other sums.

        It is the gradient of what was picked, of which a softmax needs the sum.
        """
        data = self.source(node.inputs[0])
        if node.operator is not _SUM_TO or data.operator is not _ADD_ALONG or data not in self.expressions:
            return None
        if data.inputs[0].shape != node.shape:
            return None
        only = single(DETACH.apply((self.source(data.inputs[0]),), ()))
        with attributed_to(node):
            # adding zeros makes 0 of -0
            return self._rooted(only + 0 if node.dtype.kind == "f" else only, [])

    def _taken(self, node: Node) -> tuple[Node, Lowering] | None:
        """Return what a node takes of a cheap value as that value of a few elements; None where it reads the value.

        Nobody needs all of the logarithms of a softmax to pick one of each row.
        """
        if node.operator is not _TAKE_ALONG:
            return None
        data, index = [self.source(source) for source in node.inputs]
        axis = node.attributes[0]
        few = index.size * FEW <= data.size and data.shape[axis] > 1
        if not few or not self._is_cheap(data):
            return None
        with attributed_to(node):
            root = self._elements(data, index, axis, data.shape, DEEPEST)
        if root is None or (root.shape, root.dtype) != (node.shape, node.dtype):
            return None
        return self._rooted(root, [])

    def _is_cheap(self, node: Node) -> bool:
        expression = self.expressions.get(node)
        if expression is None or not isinstance(self.lowerings[node], Elementwise):
            return False
        cost = expression.operator.cost
        return not callable(cost) and cost <= CHEAP

    def _elements(self, node: Node, index: Node, axis: int, shape: Shape, depth: int) -> Node | None:
        """Return the elements of a value, repeated to a shape, at places of an axis."""
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
        """Return what is below an expression and not yet to be computed, itself last."""
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
