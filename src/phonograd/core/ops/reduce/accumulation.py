"""Sums of gradients: what arrives from many uses of a value is added up at a cost that does not grow with the value.

The gradient of a part is zero elsewhere (``_embed``). A loop over the rows of an array sends back as many such arrays
as it has turns; added up as they are, each costs what the whole array costs. So they are added to their parts alone.

A weight that is used in every step of a loop gets a product from each, ``data^T grad``, of few terms and as large as
the weight. The sum of all is one product of many terms: that of the data and the gradients of all steps side by side.
"""

from __future__ import annotations

from ...graph.node import Node
from ...graph.operator import REGISTRY, Operator
from ..math.arithmetic import add
from ..math.primitives import matmul, reshape_to, swap_last
from ..math.structural import full
from ..shape.shape import concatenate, stack_nodes
from ..vision.regions import add_part, assign_step, is_assigned

__all__ = ["total"]

#: parts that are added up as whole arrays, which takes one kernel
FEW_PARTS = 8
#: products that are added up as they are
FEW_PRODUCTS = 3
#: how many times smaller than their product operands must be: they are written to new memory, while a sum of products
#: stays in a cache
TIMES_SMALLER = 4

_EMBED: Operator = REGISTRY["_embed"]
_MATMUL: Operator = REGISTRY["_matmul"]
_PERMUTE: Operator = REGISTRY["_permute"]


def total(grads: list[Node]) -> Node:
    """Return the sum of nodes of one shape, in order."""
    if len(grads) > FEW_PRODUCTS:
        grads = _products_joined(grads)
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


def _products_joined(grads: list[Node]) -> list[Node]:
    """Return the same summands, with one in the place of all products of few terms."""
    products = [grad for grad in grads if _is_product_of_few_terms(grad)]
    if len(products) <= FEW_PRODUCTS:
        return grads
    # users come first in a reverse pass, and the others remember their gradients in the order of the steps
    products.reverse()
    data, out_grads = [[of(product) for product in products] for of in (_data_of, _out_grad_of)]
    joined = matmul(swap_last(_side_by_side(data)), _side_by_side(out_grads))
    chosen = set(products)
    return [joined, *[grad for grad in grads if grad not in chosen]]


def _is_product_of_few_terms(grad: Node) -> bool:
    """Return whether a node is the product of the transpose of a matrix and another one, both of few rows."""
    if grad.operator is not _MATMUL or grad.ndim != 2 or grad.inputs[0].operator is not _PERMUTE:
        return False
    assert grad.inputs[0].attributes == ((1, 0),), grad
    rows, columns = grad.shape
    return TIMES_SMALLER * _data_of(grad).shape[0] * (rows + columns) <= rows * columns


def _data_of(product: Node) -> Node:
    return product.inputs[0].inputs[0]


def _out_grad_of(product: Node) -> Node:
    return product.inputs[1]


def _side_by_side(nodes: list[Node]) -> Node:
    """Return the rows of all nodes as one matrix, written as the rows of a sequence are where they are as many."""
    if len({node.shape for node in nodes}) > 1:
        return concatenate(nodes, 0)
    rows, columns = nodes[0].shape
    return reshape_to(stack_nodes(nodes, 0), (len(nodes) * rows, columns))
