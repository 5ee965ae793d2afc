"""Operators that return their value unchanged and change its gradient, at no cost.

=================================  ================================================================================
``without_gradient(x)``            x, with a gradient of zero
``depending_on(x, others)``        x, recorded with the others as inputs too (their gradient is zero)
``with_gradient(x, data, grad)``   x, with the gradient ``grad`` for ``data``; the incoming gradient is ignored
=================================  ================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.node import Node
from ...graph.operator import Array, operator, single
from .special import BlockGrad

__all__ = ["depending_on", "with_gradient", "without_gradient"]


def without_gradient(node: Node) -> Node:
    """Return the node with a gradient of zero; unlike a detached node it stays on the tape."""
    return single(BlockGrad(node)) if node.marked else node


@operator(is_view=True)
def _depending_on(data: Array, *others: Array) -> Array:
    """Return the first array; the others are inputs with a gradient of zero."""
    return data


@_depending_on.gradient
def depending_on_grad(out_grad: Node, out: Node, data: Node, *others: Node) -> tuple[Node | None, ...]:
    return (out_grad, *[None for _ in others])


def depending_on(node: Node, others: Sequence[Node]) -> Node:
    """Return the node, recorded with other nodes as inputs too."""
    marked = [other for other in others if other.marked]
    return single(_depending_on(node, *marked)) if marked else node


@operator(is_view=True, is_loss=True)
def _with_gradient(value: Array, data: Array, grad: Array) -> Array:
    """Return the first array; its gradient with respect to the second array is the third."""
    return value


@_with_gradient.gradient
def with_gradient_grad(out_grad: Node, out: Node, value: Node, data: Node, grad: Node) -> tuple[None, Node, None]:
    return None, grad, None


@operator(is_view=True)
def _with_scaled_gradient(value: Array, data: Array, grad: Array) -> Array:
    """Return the first array; its gradient for the second array is the third, multiplied by that of the output."""
    return value


@_with_scaled_gradient.gradient
def with_scaled_gradient_grad(
    out_grad: Node, out: Node, value: Node, data: Node, grad: Node
) -> tuple[None, Node, None]:
    return None, out_grad * grad, None


def with_gradient(value: Node, data: Node, grad: Node, multiply: bool = False) -> Node:
    """Return ``value`` with the gradient ``grad`` for ``data``; ``multiply`` multiplies it by the incoming gradient.

    ``grad`` is an ordinary expression in ``data``, so its own derivatives are exact.
    """
    return single((_with_scaled_gradient if multiply else _with_gradient)(value, data, grad))
