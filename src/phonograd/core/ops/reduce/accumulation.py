"""Accumulation of gradients: the sum of the gradients from all uses of a value.

The gradient of a slice is zero elsewhere (``_embed``). A loop over the rows of an array returns one such array per
iteration; adding them as whole arrays costs the full size each time. So each is added to its slice only.

A weight used in every step of a loop receives one product ``data^T grad`` per step: few terms, as large as the weight.
Their sum is one product of many terms: the concatenated data times the concatenated gradients of all steps.
"""

from __future__ import annotations

from ...base.hot import hot
from ...graph.node import Node, Shape
from ...graph.operator import REGISTRY, Operator
from ..math.arithmetic import add
from ..math.primitives import matmul, reshape_to, swap_last
from ..math.structural import full
from ..shape.shape import concatenate, stack_nodes
from ..vision.regions import add_part, assign_step, is_assigned

__all__ = ["FEW_PARTS", "FEW_PRODUCTS", "are_few_terms", "total"]

#: up to this many slices are added as whole arrays, in one kernel
FEW_PARTS = 8
#: up to this many products are added without concatenation
FEW_PRODUCTS = 3
#: minimum ratio of product size to operand size: the concatenated operands are written to new memory, while a sum of
#: products stays in a cache
TIMES_SMALLER = 4

_EMBED: Operator = REGISTRY["_embed"]
_MATMUL: Operator = REGISTRY["_matmul"]
_PERMUTE: Operator = REGISTRY["_permute"]


def total(grads: list[Node]) -> Node:
    """Return the sum of nodes of one shape, in order."""
    if len(grads) > FEW_PRODUCTS:
        grads = _join_products(grads)
    if len(grads) == 1:
        return grads[0]
    first, *rest = grads
    many = sum([grad.operator is _EMBED for grad in grads]) > FEW_PARTS
    if many and first.operator is _EMBED:
        value, (shape, *region) = first.inputs[0], first.attributes
        first = assign_step(full(shape, 0, first.dtype, first.context), value, *region)
    for grad in rest:
        if first.operator is _EMBED and is_assigned(grad):
            first, grad = grad, first
        if grad.operator is _EMBED and (many or is_assigned(first)):
            _, *region = grad.attributes
            first = add_part(first, grad.inputs[0], *region)
        else:
            first = add(first, grad)
    return first


def _join_products(grads: list[Node]) -> list[Node]:
    """Return the summands with all products of few terms replaced by one product."""
    products = [grad for grad in grads if _is_product_of_few_terms(grad)]
    if len(products) <= FEW_PRODUCTS:
        return grads
    # the reverse pass visits users first; restore the order of the steps
    products.reverse()
    data, out_grads = [[of(product) for product in products] for of in (_data_of, _out_grad_of)]
    joined = matmul(swap_last(_concatenate_rows(data)), _concatenate_rows(out_grads))
    chosen = set(products)
    return [joined, *[grad for grad in grads if grad not in chosen]]


def _is_product_of_few_terms(grad: Node) -> bool:
    """Return whether a node is the product of a transposed matrix and another matrix, both with few rows."""
    if grad.operator is not _MATMUL or grad.ndim != 2 or grad.inputs[0].operator is not _PERMUTE:
        return False
    assert grad.inputs[0].attributes == ((1, 0),), grad
    return are_few_terms(grad.inputs[0].shape, grad.inputs[1].shape)


@hot
def are_few_terms(left: Shape, right: Shape) -> bool:
    """Return whether the product of matrices of these shapes is a sum of few terms for each element."""
    if len(left) != 2 or len(right) != 2:
        return False
    rows, terms = left
    columns = right[1]
    return TIMES_SMALLER * terms * (rows + columns) <= rows * columns


def _data_of(product: Node) -> Node:
    return product.inputs[0].inputs[0]


def _out_grad_of(product: Node) -> Node:
    return product.inputs[1]


def _concatenate_rows(nodes: list[Node]) -> Node:
    """Concatenate the rows of all nodes; nodes of equal shape are stacked, like the steps of a sequence."""
    if len({node.shape for node in nodes}) > 1:
        return concatenate(nodes, 0)
    rows, columns = nodes[0].shape
    return reshape_to(stack_nodes(nodes, 0), (len(nodes) * rows, columns))
