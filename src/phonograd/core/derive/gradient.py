"""Reverse pass: gradients of expressions as expressions. Takes nodes and returns nodes, without data or arrays.

:func:`differentiate` walks the marked part of a graph from its heads to its variables, users before their inputs. It
sums the gradients of each node and calls the operator's gradient rule for the gradients of the inputs. Losses that
ignore their incoming gradient need none. It stops at ``_variable`` nodes, the targets. The result depends only on nodes
and is cached, so a training loop derives it once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from time import thread_time
from typing import Any

from ..base.errors import MXNetError
from ..base.hot import hot
from ..graph import gradient_rules
from ..graph.node import FORGOTTEN, Node, attributed_to, statistics
from ..graph.operator import item_operator
from ..ops.math.arithmetic import add
from ..ops.math.structural import REPEAT_CALL, VARIABLE, detach, full
from ..ops.reduce.accumulation import total

__all__ = [
    "NOTHING",
    "Derivation",
    "Gradient",
    "Nothing",
    "call_of",
    "differentiate",
    "differentiate_part",
    "is_derived",
    "order_users_first",
]


class Nothing:
    """Mark a head without a gradient: the pass reaches its variables, but they get no gradient."""

    __slots__ = ()


NOTHING = Nothing()

HeadGrads = tuple[Node | Nothing | None, ...]


class Gradient:
    """Hold the result of a reverse pass: the gradient of every variable reached, and all nodes visited."""

    __slots__ = ("plain", "rules", "targets", "visited")

    def __init__(
        self,
        targets: dict[Node, Node | None],
        visited: frozenset[Node],
        rules: list[tuple[Node, tuple[Node | None, ...]]],
    ) -> None:
        self.rules = rules
        """The gradients of the inputs of each operator call, in the order of the pass."""
        self.targets = targets
        """Gradient by variable node; None for an ancestor without a gradient."""
        self.visited = visited
        slots = {node.attributes[0]: grad for node, grad in targets.items() if grad is not None}
        self.plain: list[tuple[int, Node]] | None = None
        """The unrecorded gradient by slot, if every target has exactly one."""
        if len(slots) == len(targets):
            self.plain = [(slot, detach(grad)) for slot, grad in slots.items()]


_ITEM = item_operator()
_memory: dict[Any, Gradient] = {}


def differentiate(heads: tuple[Node, ...], head_grads: HeadGrads) -> Gradient:
    """Return the gradients of all variables below marked heads; the head gradient None means ones.

    A head that is listed twice counts twice.
    """
    key = (heads, head_grads)
    found = _memory.get(key)
    if found is None:
        found = _memory.setdefault(key, _derive(heads, head_grads))
    return found


FORGOTTEN.connect(_memory.clear)


def is_derived(head: Node) -> bool:
    """Return whether :func:`differentiate` has the gradients below one head, given ones, from an earlier call."""
    return ((head,), (None,)) in _memory


def _derive(heads: tuple[Node, ...], head_grads: HeadGrads) -> Gradient:
    derivation = Derivation(heads, head_grads)
    derivation.advance()
    return derivation.result()


class Derivation:
    """A reverse pass that can be interrupted between two nodes.

    Nothing depends on where that is: the result is that of :func:`differentiate`, which has it from then on.
    """

    def __init__(self, heads: tuple[Node, ...], head_grads: HeadGrads) -> None:
        statistics.gradients += 1
        self._key = heads, head_grads
        self._pass, self._place = _Pass(), 0
        #: the nodes that it visits, users first
        self.visited = order_users_first(heads)
        for head, grad in zip(heads, head_grads, strict=True):
            if grad is None:
                self._pass.add_gradient(head, full(head.shape, 1, head.dtype, head.context))
            elif not isinstance(grad, Nothing):
                self._pass.add_gradient(head, grad)

    def advance(self, seconds: float = math.inf) -> bool:
        """Visit nodes for some processor time; return whether all are visited."""
        end = thread_time() + seconds
        while self._place < len(self.visited):
            self._pass.visit(self.visited[self._place])
            self._place += 1
            if thread_time() > end:
                break
        return self._place == len(self.visited)

    def result(self) -> Gradient:
        """Return the gradients, when all nodes are visited."""
        return Gradient(self._pass.targets, frozenset(self.visited), self._pass.rules)

    def finish(self) -> None:
        """Let :func:`differentiate` return the gradients, when all nodes are visited."""
        _memory.setdefault(self._key, self.result())


@hot
def call_of(node: Node) -> Node:
    """Return the node to differentiate: for a repeated call, the first call."""
    return node.inputs[0] if node.operator is REPEAT_CALL and node.inputs[0].operator is not VARIABLE else node


@hot
def order_users_first(heads: tuple[Node, ...]) -> list[Node]:
    """Return the marked nodes below heads, each after all of its users.

    The order determines the order of additions, so it depends only on the graph, not on the creation order of nodes.
    """
    found: list[Node] = []
    seen: set[Node] = set()
    # None is above a node whose inputs are done
    stack: list[Node | None] = [*reversed(heads)]
    while stack:
        node = stack.pop()
        if node is None:
            found.append(stack.pop())  # type: ignore[arg-type]
        elif node not in seen:
            seen.add(node)
            declared = node.operator
            if declared is VARIABLE:
                found.append(node)
                continue
            stack.append(node)
            stack.append(None)
            inputs = (call_of(node) if declared is REPEAT_CALL else node).inputs
            if len(inputs) == 1:
                # the next turn asks whether it was seen
                if inputs[0].marked:
                    stack.append(inputs[0])
            else:
                for source in reversed(inputs):
                    if source.marked and source not in seen:
                        stack.append(source)
    found.reverse()
    return found


def differentiate_part(nodes: Sequence[Node], arrived: Mapping[Node, Node]) -> dict[Node, list[Node]]:
    """Return the gradients that some marked nodes, users first, pass to others, in the order of the pass.

    ``arrived`` are the gradients that come from outside; those from inside are added to them.
    """
    pass_ = _Pass()
    for node, grad in arrived.items():
        pass_.add_gradient(node, grad)
    for node in nodes:
        pass_.visit(node)
    return pass_.grads


class _Pass:
    """Hold the state of one reverse pass: the gradients received so far."""

    def __init__(self) -> None:
        self.grads: dict[Node, list[Node]] = {}
        self.items: dict[Node, dict[int, Node]] = {}
        self.targets: dict[Node, Node | None] = {}
        self.rules: list[tuple[Node, tuple[Node | None, ...]]] = []

    def add_gradient(self, node: Node, grad: Node | None) -> None:
        if grad is not None:
            self.grads.setdefault(node, []).append(grad)

    def visit(self, node: Node) -> None:
        """Pass the gradient of a node to its inputs; without a gradient, still reach their variables."""
        arrived = self.grads.pop(node, None)
        grad = None if arrived is None else total(arrived)
        if node.operator is VARIABLE:
            self.targets[node] = grad
            return
        # a repeated call is not part of this record
        node = call_of(node)
        if node.operator is _ITEM:
            if grad is not None:
                self.add_item_gradient(node.inputs[0], node.attributes[0], grad)
            return
        out_grad: Any = grad
        if node.outputs is not None:
            by_index = self.items.pop(node, None)
            if by_index is not None:
                out_grad = tuple([by_index.get(index) for index in range(len(node.outputs))])
        if out_grad is None:
            if not node.operator.is_loss:
                return
            # as in MXNet: a loss has its gradient even where BlockGrad or a comparison follows
            out_grad = full(node.shape, 0, node.dtype, node.context)
        with attributed_to(node):
            try:
                grads = gradient_rules.differentiate(node, out_grad)
            except MXNetError as error:
                if node.origin:
                    raise MXNetError(f"{error} The operator was called at {node.where()}") from None
                raise
            self.rules.append((node, grads))
            for source, source_grad in zip(node.inputs, grads, strict=True):
                if source.marked:
                    self.add_gradient(source, source_grad)

    def add_item_gradient(self, whole: Node, index: int, grad: Node) -> None:
        by_index = self.items.setdefault(whole, {})
        before = by_index.get(index)
        by_index[index] = grad if before is None else add(before, grad)
