"""Sums of gradients: what comes from parts of an array is added to these parts alone where there are many.

The gradient of a part is zero elsewhere (``_embed``). A loop over the rows of an array sends back as many such arrays
as it has turns; added up as they are, each costs what the whole array costs.
"""

from __future__ import annotations

from ..node import Node
from ..operator import REGISTRY, Operator
from .arithmetic import add
from .regions import add_part, assign_step, is_assigned
from .structural import full

__all__ = ["total"]

#: parts that are added up as whole arrays, which takes one kernel
FEW_PARTS = 8

_EMBED: Operator = REGISTRY["_embed"]


def total(grads: list[Node]) -> Node:
    """Return the sum of nodes of one shape, in order."""
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
