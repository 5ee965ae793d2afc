"""Gradients that a backward pass does not compute before all of their kind have arrived.

Made by gradient rules (:mod:`.eager_rules`) and added up by the pass (:mod:`.eager`), as
:mod:`phonograd.core.ops.reduce.accumulation` does for nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph.node import Node
from ..graph.operator import REGISTRY, Array, Operator
from ..ops.math.primitives import matmul, swap_last
from ..ops.math.structural import leaf
from ..plan.eager import Function

__all__ = ["EMBED", "MATMUL", "Deferred", "join_products"]

EMBED, MATMUL = REGISTRY["_embed"], REGISTRY["_matmul"]


class Deferred:
    """A gradient that is not computed yet: several of its kind are added in another way than as arrays.

    See :mod:`phonograd.core.ops.reduce.accumulation`.
    """

    __slots__ = ("_attributes", "_function", "_inputs", "_operator")

    def __init__(
        self, function: Function, declared: Operator, attributes: tuple[Any, ...], inputs: Sequence[Array]
    ) -> None:
        self._function, self._operator, self._attributes, self._inputs = function, declared, attributes, inputs

    def value(self) -> Array:
        """Return the gradient."""
        return self._function(*self._inputs)  # type: ignore[no-any-return]

    @property
    def is_part(self) -> bool:
        """Return whether it is zero outside of a region."""
        return self._operator is EMBED

    @property
    def is_product(self) -> bool:
        """Return whether it is a product of few terms."""
        return self._operator is MATMUL

    def part(self) -> tuple[tuple[Any, ...], Array]:
        """Return the region where it is not zero, and the values there."""
        _, begin, end, step = self._attributes
        region = [slice(b, e if e >= 0 else None, s) for b, e, s in zip(begin, end, step, strict=True)]
        # the Ellipsis makes a 0-d array assignable too
        return (*region, ...), self._inputs[0]

    def node(self, first: int) -> tuple[Node, Sequence[Array]]:
        """Return the gradient as an expression of leaves with numbers from ``first`` on, and their values."""
        if self._operator is MATMUL:
            inputs = (self._inputs[0].T, self._inputs[1])
            data, grad = [leaf(number, array.shape, array.dtype) for number, array in enumerate(inputs, first)]
            return matmul(swap_last(data), grad), inputs
        (value,) = self._inputs
        made = self._operator.apply((leaf(first, value.shape, value.dtype),), self._attributes)
        assert isinstance(made, Node)
        return made, self._inputs


def join_products(grads: Sequence[Deferred]) -> Array:
    """Return the sum of products of few terms as one product, as :func:`..ops.reduce.accumulation.total` does."""
    # the reverse pass visits users first; restore the order of the steps
    data = np.concatenate([grad._inputs[0].T for grad in reversed(grads)])
    out_grads = np.concatenate([grad._inputs[1] for grad in reversed(grads)])
    return grads[0]._function(data.T, out_grads)  # type: ignore[no-any-return]
