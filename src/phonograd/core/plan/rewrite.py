"""Rewriting: leave out nodes of a plan whose values other nodes have, to the last bit.

Gradients are full of such nodes: they begin with ones, multiply by them, and turn shapes there and back. A rule sees a
node and its inputs, and returns another node with the same value, or None: one of those inputs, or a new one (a
number in every element, a repeated array). Values that are not equal *always*, for NaN, infinities and both zeros too,
are not equal: ``x * 0`` is computed, and so is ``x + 0``, which turns -0 into 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..base.dtypes import DType, kind_of, precision_of, promote
from ..base.pace import rest
from ..graph.node import Node, Shape, attributed_to
from ..graph.operator import REGISTRY, Operator
from ..ops.math.broadcasting import broadcast
from ..ops.math.structural import constant_value, full

__all__ = ["Rewriting"]

#: ``rule(node, *inputs)``
Rule = Callable[..., Node | None]

_rules: dict[Operator, Rule] = {}

_FULL, _BROADCAST = REGISTRY["_full"], REGISTRY["_broadcast"]


class Rewriting:
    """The nodes that are left to compute, and the node to read in the place of each other one.

    Parameters
    ----------
    computed
        The nodes to compute, older ones first.
    given
        The nodes whose values are there.
    wanted
        The nodes whose values are wanted in the end.
    """

    def __init__(self, computed: Sequence[Node], given: Iterable[Node], wanted: Iterable[Node]) -> None:
        self._same: dict[Node, Node] = {}
        nodes = self._rewritten(computed, set(given))
        #: the nodes that must still be computed, each after those that it reads
        self.computed = self._still_needed(nodes, wanted) if self._same else nodes

    def source(self, node: Node) -> Node:
        """Return the node whose value is to be read as that of a node."""
        while node.operator.is_view:
            node = node.inputs[0]
        return self._same.get(node, node)

    def _rewritten(self, computed: Sequence[Node], present: set[Node]) -> list[Node]:
        nodes: list[Node] = []
        for node in computed:
            rest()
            rule = _rules.get(node.operator)
            if rule is not None:
                found = rule(node, *[self.source(source) for source in node.inputs])
                if found is not None and (found := self._usable(found, present)) is not None:
                    assert (found.shape, found.dtype) == (node.shape, node.dtype), (node, found)
                    self._same[node] = found
                    node = found
            if node not in present:
                present.add(node)
                nodes.append(node)
        return nodes

    def _usable(self, found: Node, present: set[Node]) -> Node | None:
        """Return the node to read for one that a rule found, or None if the plan neither has nor can compute it."""
        found = self.source(found)
        if found in present:
            return found
        is_new = found.operator in (_FULL, _BROADCAST) and all([self.source(s) in present for s in found.inputs])
        return found if is_new else None

    def _still_needed(self, nodes: list[Node], wanted: Iterable[Node]) -> list[Node]:
        needed = {self.source(node) for node in wanted}
        for node in reversed(nodes):
            if node in needed:
                needed.update([self.source(source) for source in node.inputs])
        return [node for node in nodes if node in needed]


def _rule(name: str) -> Callable[[Rule], Rule]:
    """Declare the rule of an operator."""

    def declare(rule: Rule) -> Rule:
        _rules[REGISTRY[name]] = rule
        return rule

    return declare


# -- numbers


def _fill(node: Node, value: Any) -> Node:
    """Return a number in every element, as a node of the shape and dtype of another one."""
    with attributed_to(node):
        return full(node.shape, value, node.dtype, node.context)


def _fold(function: Callable[[Any, Any], Any], node: Node, lhs: Node, rhs: Node) -> Node | None:
    """Return the result of arithmetic on two numbers; IEEE 754 defines it, so NumPy's is the kernels' result."""
    first, second = constant_value(lhs), constant_value(rhs)
    if first is None or second is None or kind_of(node.dtype) != "f":
        return None
    with np.errstate(all="ignore"):
        return _fill(node, function(first, second))


def _is_number(node: Node, value: float) -> bool:
    """Return whether every element of a node is a number; 0.0 and -0.0 are different ones."""
    found = constant_value(node)
    return found is not None and found == value and bool(np.signbit(found) == np.signbit(value))


def _repeat(node: Node, data: Node) -> Node:
    """Return a node whose elements are those of an operand, repeated to the shape of the result."""
    with attributed_to(node):
        return _refill(node, data) or broadcast(data, node.shape)


@_rule("broadcast_mul")
def _multiplication(node: Node, lhs: Node, rhs: Node) -> Node | None:
    if _is_number(rhs, 1):
        return _repeat(node, lhs)
    if _is_number(lhs, 1):
        return _repeat(node, rhs)
    return _fold(np.multiply, node, lhs, rhs)


@_rule("broadcast_div")
def _division(node: Node, lhs: Node, rhs: Node) -> Node | None:
    if _is_number(rhs, 1) and lhs.dtype == node.dtype:
        return _repeat(node, lhs)
    return _fold(np.divide, node, lhs, rhs)


@_rule("broadcast_add")
def _addition(node: Node, lhs: Node, rhs: Node) -> Node | None:
    nothing = _nothing_added(node.dtype)
    if _is_number(rhs, nothing):
        return _repeat(node, lhs)
    if _is_number(lhs, nothing):
        return _repeat(node, rhs)
    return _fold(np.add, node, lhs, rhs)


def _nothing_added(dtype: DType) -> float:
    return -0.0 if kind_of(dtype) == "f" else 0


@_rule("broadcast_sub")
def _subtraction(node: Node, lhs: Node, rhs: Node) -> Node | None:
    if _is_number(rhs, 0):
        return _repeat(node, lhs)
    return _fold(np.subtract, node, lhs, rhs)


@_rule("negative")
def _negation(node: Node, data: Node) -> Node | None:
    if data.operator is node.operator:
        return data.inputs[0]
    value = constant_value(data)
    return None if value is None or kind_of(node.dtype) != "f" else _fill(node, np.negative(value))


@_rule("ones_like")
def _ones(node: Node, data: Node) -> Node:
    return _fill(node, 1)


@_rule("zeros_like")
def _zeros(node: Node, data: Node) -> Node:
    return _fill(node, 0)


@_rule("_sum_to")
def _sum(node: Node, data: Node) -> Node | None:
    if data.shape == node.shape:
        return data
    value = constant_value(data)
    if value is None or kind_of(node.dtype) != "f" or not node.size or value != np.floor(value):
        return None
    # whole numbers add up exactly, in any order, as long as they have no more digits than fit
    terms = data.size // node.size
    exact = abs(float(value)) * terms <= 2 / precision_of(node.dtype)
    return _fill(node, value * terms) if exact and terms and not np.signbit(value) else None


# -- the same elements


@_rule("identity")
def _copy(node: Node, data: Node) -> Node:
    return data


@_rule("_cast")
def _conversion(node: Node, data: Node) -> Node | None:
    if data.dtype == node.dtype:
        return data
    if data.operator is node.operator:
        # there and back, through a dtype that holds every value
        before = data.inputs[0]
        if before.dtype == node.dtype and promote(before.dtype, data.dtype) == data.dtype:
            return before
    return None


@_rule("_broadcast")
def _repetition(node: Node, data: Node) -> Node | None:
    return data if data.shape == node.shape else _refill(node, data)


@_rule("_reshape")
def _reshaping(node: Node, data: Node) -> Node | None:
    if data.operator is node.operator and data.inputs[0].shape == node.shape:
        return data.inputs[0]
    return data if data.shape == node.shape else _refill(node, data)


@_rule("_permute")
def _permutation(node: Node, data: Node) -> Node | None:
    (axes,) = node.attributes
    if _in_order(axes):
        return data
    if data.operator is node.operator:
        (before,) = data.attributes
        if _in_order(tuple([before[axis] for axis in axes])):
            return data.inputs[0]
    return _refill(node, data)


@_rule("_slice_step")
def _slicing(node: Node, data: Node) -> Node | None:
    begin, end, step = node.attributes
    whole = not any(begin) and end == data.shape and all([stride == 1 for stride in step])
    return data if whole else _refill(node, data)


def _in_order(axes: Shape) -> bool:
    return axes == tuple(range(len(axes)))


def _refill(node: Node, data: Node) -> Node | None:
    """Return a node whose elements are all the number that every element of another one is, or None."""
    value = constant_value(data)
    return None if value is None else _fill(node, value)
