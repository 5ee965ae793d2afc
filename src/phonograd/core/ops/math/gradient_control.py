"""Operators that hand a value on unchanged and decide what the gradient pass sees of it. None of them costs anything.

=================================  ================================================================================
``without_gradient(x)``            x, with a gradient of zero
``depending_on(x, others)``        x, recorded as depending on the others too (their gradient is zero)
``with_gradient(x, data, grad)``   x, whose gradient with respect to ``data`` is ``grad``, whatever comes from above
=================================  ================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.node import Node
from ...graph.operator import Array, operator, single
from .special import BlockGrad

__all__ = ["depending_on", "with_gradient", "without_gradient"]


def without_gradient(node: Node) -> Node:
    """Return the node with a gradient of zero: still part of the record, unlike a detached one."""
    return single(BlockGrad(node)) if node.marked else node


@operator(is_view=True)
def _depending_on(data: Array, *others: Array) -> Array:
    """Return the first array; the others count as inputs whose gradient is zero."""
    return data


@_depending_on.gradient
def depending_on_grad(out_grad: Node, out: Node, data: Node, *others: Node) -> tuple[Node | None, ...]:
    return (out_grad, *[None for _ in others])


def depending_on(node: Node, others: Sequence[Node]) -> Node:
    """Return the node, recorded as depending on others as well."""
    marked = [other for other in others if other.marked]
    return single(_depending_on(node, *marked)) if marked else node


@operator(is_view=True)
def _with_gradient(value: Array, data: Array, grad: Array, *, multiply: bool) -> Array:
    """Return the first array; its gradient with respect to the second is the third."""
    return value


@_with_gradient.gradient
def with_gradient_grad(
    out_grad: Node, out: Node, value: Node, data: Node, grad: Node, *, multiply: bool
) -> tuple[None, Node, None]:
    return None, out_grad * grad if multiply else grad, None


def with_gradient(value: Node, data: Node, grad: Node, multiply: bool = False) -> Node:
    """Return ``value`` with the gradient ``grad`` for ``data``: alone, or multiplied by the gradient that arrives.

    ``grad`` is an expression in ``data`` like any other, so its own derivatives are those of mathematics.
    """
    return single(_with_gradient(value, data, grad, multiply=multiply))
