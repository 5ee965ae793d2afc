"""What is to be computed, in terms of what kernels can do: the lowering of every node, and operators expanded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..dtypes import FLOAT16
from ..kernels.lowering import Constant, Coordinate, Expansion, Location, Lowering, Pieces, Random, alternatives
from ..node import Node, attributed_to
from ..operator import ABSENT, Operator, item_operator, single
from ..operators.structural import DETACH, LEAF
from ..reference import resolve
from .machine import converts_halves

__all__ = ["Order", "lowering_of", "parameters"]

_ITEM: Operator = item_operator()
_ABSENT: Operator = ABSENT.operator
#: the lowering of an operator that expands to a value which is there anyway
_SAME = Location(lambda pattern: pattern)


def lowering_of(node: Node) -> Lowering | None:
    """Return the lowering of a node, or None where its operator has none for these dtypes."""
    found = lowerings_of(node)
    return found[-1] if found else None


def lowerings_of(node: Node) -> tuple[Lowering, ...]:
    """Return the lowerings that a node can have, to be tried in this order: only the last may be no expansion."""
    declared = node.operator.lowering
    if declared is None:
        return _piece(node) if node.operator is _ITEM else ()
    key = (
        node.operator,
        node.kind,
        node.outputs is None,
        *[(source.kind, source.operator is _ABSENT) for source in node.inputs],
    )
    known = _known.get(key)
    if known is None or known[0] is not declared:
        known = _known[key] = declared, _fitting(node, declared)
    return known[1]


_known: dict[tuple[Any, ...], tuple[Any, tuple[Lowering, ...]]] = {}


def _fitting(node: Node, declared: Lowering) -> tuple[Lowering, ...]:
    sources = [source.dtype for source in node.inputs]
    if _ABSENT in [source.operator for source in node.inputs]:
        return ()
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
    output, named = node.attributes[0], whole.operator.accepted(pieces.move, whole.attributes)
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

    Attributes
    ----------
    nodes
        What is to be computed, the operators that are expanded among them.
    expressions
        By node the node that says how it is computed: the same one, or what the operator expands to.
    lowerings
        By node the lowering of its expression.
    below
        By location the node whose elements it has.
    """

    def __init__(
        self, computed: Sequence[Node], inputs: Iterable[Node], source: Callable[[Node], Node] = resolve
    ) -> None:
        self.source = source
        self.nodes: list[Node] = []
        self.expressions: dict[Node, Node] = {}
        self.lowerings: dict[Node, Lowering | None] = {}
        self.below: dict[Node, Node] = {}
        self._known = set(inputs)
        for node in computed:
            if node not in self._known:
                self._add(node)

    def _add(self, node: Node) -> None:
        lowering: Lowering | None = None
        expression = node
        for candidate in lowerings_of(node):
            if not isinstance(candidate, Expansion):
                lowering = candidate
                break
            found = self._expanded(node, candidate)
            if found is not None:
                expression, lowering = found
                break
        self._known.add(node)
        self.nodes.append(node)
        self.expressions[node] = expression
        self.lowerings[node] = lowering
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
            given = [single(DETACH.apply((source,), ())) for source in sources]
            root = expansion.expand(*given, **node.operator.accepted(expansion.expand, node.attributes))
        if root is None:
            return None
        root = self.source(root)
        if root in self._known:
            return root, _SAME
        missing = self._missing(root, sources)
        if not all([lowerings_of(other) for other in missing]):
            return None
        for other in missing[:-1]:
            self._add(other)
        assert missing[-1] is root, root
        lowering = lowerings_of(root)[-1]
        if isinstance(lowering, (Constant, Coordinate)):
            # the node itself is what is read
            self._add(root)
            return root, _SAME
        return (root, lowering) if not isinstance(lowering, Expansion) else self._expanded(root, lowering)

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
