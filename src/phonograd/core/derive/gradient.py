"""The reverse pass: gradients of expressions as expressions. Nodes in, nodes out; no data, no arrays.

:func:`differentiate` walks the marked part of a graph from its heads downwards, users before what they use, sums what
arrives at each node, and asks each operator's gradient rule for what it passes on. It stops at ``_variable`` nodes:
they are the targets. The result depends on nodes only and is remembered, so a training loop derives its gradient once.
"""

from __future__ import annotations

from typing import Any

from ..base.errors import MXNetError
from ..graph.node import FORGOTTEN, Node, attributed_to, statistics
from ..graph.operator import item_operator
from ..ops.math.arithmetic import add
from ..ops.math.structural import REPEAT_CALL, VARIABLE, detach, full
from ..ops.reduce.accumulation import total

__all__ = ["NOTHING", "Gradient", "Nothing", "differentiate"]


class Nothing:
    """The gradient of a head that nothing flows to: its variables are reached, with no gradient."""

    __slots__ = ()


NOTHING = Nothing()

HeadGrads = tuple[Node | Nothing | None, ...]


class Gradient:
    """What a reverse pass found: the gradient of every variable node it reached, and every node it visited."""

    __slots__ = ("plain", "rules", "targets", "visited")

    def __init__(
        self,
        targets: dict[Node, Node | None],
        visited: frozenset[Node],
        rules: list[tuple[Node, tuple[Node | None, ...]]],
    ) -> None:
        self.rules = rules
        """What each operator passed on to its inputs, in the order of the pass."""
        self.targets = targets
        """Gradient by variable node; None where the variable is an ancestor but nothing flows to it."""
        self.visited = visited
        slots = {node.attributes[0]: grad for node, grad in targets.items() if grad is not None}
        self.plain: list[tuple[int, Node]] | None = None
        """The unrecorded gradient by slot, where there is exactly one for each target."""
        if len(slots) == len(targets):
            self.plain = [(slot, detach(grad)) for slot, grad in slots.items()]


_memory: dict[Any, Gradient] = {}


def differentiate(heads: tuple[Node, ...], head_grads: HeadGrads) -> Gradient:
    """Return the gradients of all variables below marked heads; a head gradient None is ones.

    A head that is listed twice counts twice.
    """
    key = (heads, head_grads)
    found = _memory.get(key)
    if found is None:
        found = _memory.setdefault(key, _derive(heads, head_grads))
    return found


FORGOTTEN.connect(_memory.clear)


def _derive(heads: tuple[Node, ...], head_grads: HeadGrads) -> Gradient:
    statistics.gradients += 1
    pass_, order = _Pass(), _users_first(heads)
    for head, grad in zip(heads, head_grads, strict=True):
        if grad is None:
            pass_.arrive(head, full(head.shape, 1, head.dtype, head.context))
        elif not isinstance(grad, Nothing):
            pass_.arrive(head, grad)
    for node in order:
        pass_.visit(node)
    return Gradient(pass_.targets, frozenset(order), pass_.rules)


def _call_of(node: Node) -> Node:
    """Return the node to differentiate: a call that was made before is differentiated like that one."""
    return node.inputs[0] if node.operator is REPEAT_CALL and node.inputs[0].operator is not VARIABLE else node


def _users_first(heads: tuple[Node, ...]) -> list[Node]:
    """Return the marked nodes below heads, each after everything that uses it.

    The order decides in which order gradients are added up, so it follows from the graph alone, and not from the
    moments at which its nodes were made.
    """
    found: list[Node] = []
    seen: set[Node] = set()
    stack = [(head, False) for head in reversed(heads)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            found.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if node.operator is not VARIABLE:
                sources = reversed(_call_of(node).inputs)
                stack.extend([(source, False) for source in sources if source.marked and source not in seen])
    found.reverse()
    return found


class _Pass:
    """The state of one reverse pass: the gradients that arrived so far."""

    def __init__(self) -> None:
        self.grads: dict[Node, list[Node]] = {}
        self.items: dict[Node, dict[int, Node]] = {}
        self.targets: dict[Node, Node | None] = {}
        self.rules: list[tuple[Node, tuple[Node | None, ...]]] = []

    def arrive(self, node: Node, grad: Node | None) -> None:
        if grad is not None:
            self.grads.setdefault(node, []).append(grad)

    def visit(self, node: Node) -> None:
        """Pass the gradient of a node on to its inputs. Nodes nothing flows to are still followed to variables."""
        arrived = self.grads.pop(node, None)
        grad = None if arrived is None else total(arrived)
        if node.operator is VARIABLE:
            self.targets[node] = grad
            return
        # a call that was made before stays out of this record
        node = _call_of(node)
        if node.operator is item_operator():
            if grad is not None:
                self.arrive_at_item(node.inputs[0], node.attributes[0], grad)
            return
        out_grad: Any = grad
        if node.outputs is not None:
            by_index = self.items.pop(node, None)
            if by_index is not None:
                out_grad = tuple([by_index.get(index) for index in range(len(node.outputs))])
        if out_grad is None:
            return
        with attributed_to(node):
            try:
                grads = node.operator.differentiate(node, out_grad)
            except MXNetError as error:
                if node.origin:
                    raise MXNetError(f"{error} The operator was called at {node.where()}") from None
                raise
            self.rules.append((node, grads))
            for source, source_grad in zip(node.inputs, grads, strict=True):
                if source.marked:
                    self.arrive(source, source_grad)

    def arrive_at_item(self, whole: Node, index: int, grad: Node) -> None:
        by_index = self.items.setdefault(whole, {})
        before = by_index.get(index)
        by_index[index] = grad if before is None else add(before, grad)
