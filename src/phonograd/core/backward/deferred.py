"""Gradients that a backward pass does not compute before all of their kind have arrived.

Made by gradient rules (:mod:`.eager_rules`) and added up by the pass (:mod:`.eager`), as
:mod:`phonograd.core.ops.reduce.accumulation` does for nodes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.hot import hot, slotted
from ..graph.node import Node
from ..graph.operator import REGISTRY, Array, Operator
from ..ops.math.primitives import matmul, swap_last
from ..ops.math.structural import leaf
from ..ops.reduce.accumulation import are_few_terms
from ..plan.eager import Function
from ..plan.eager_stacks import rows_of

__all__ = ["EMBED", "MATMUL", "Deferrable", "Deferred", "Postponed", "are_deferred", "defer", "join_products"]

EMBED, MATMUL = REGISTRY["_embed"], REGISTRY["_matmul"]


@slotted
class Deferred:
    """A gradient that is not computed yet: several of its kind are added in another way than as arrays.

    The gradient is what ``function`` returns for ``inputs``: that of an operator with some attributes. A product of
    matrices is one of few terms, and an embedded array is zero outside of a region. See
    :mod:`phonograd.core.ops.reduce.accumulation`.
    """

    __slots__ = ("attributes", "function", "inputs", "operator")
    function: Function
    operator: Operator
    attributes: tuple[Any, ...]
    inputs: Sequence[Array]

    def value(self) -> Array:
        """Return the gradient."""
        return self.function(*self.inputs)  # type: ignore[no-any-return]

    def part(self) -> tuple[tuple[Any, ...], Array]:
        """Return the region where it is not zero, and the values there."""
        return _region(self.attributes), self.inputs[0]

    def node(self, first: int) -> tuple[Node, Sequence[Array]]:
        """Return the gradient as an expression of leaves with numbers from ``first`` on, and their values."""
        if self.operator is MATMUL:
            inputs = (self.inputs[0].T, self.inputs[1])
            data, grad = [leaf(number, array.shape, array.dtype) for number, array in enumerate(inputs, first)]
            return matmul(swap_last(data), grad), inputs
        (value,) = self.inputs
        made = self.operator.apply((leaf(first, value.shape, value.dtype),), self.attributes)
        assert isinstance(made, Node)
        return made, self.inputs


@hot
def defer(function: Function, declared: Operator, attributes: tuple[Any, ...], inputs: Sequence[Array]) -> Deferred:
    """Return a gradient that is not computed yet."""
    made = _new(Deferred)
    made.function = function
    made.operator = declared
    made.attributes = attributes
    made.inputs = inputs
    return made


_new = Deferred.__new__


class Postponed:
    """A function of arrays that is made when it is called."""

    __slots__ = ("_function", "_make")

    def __init__(self, make: Callable[[], Function]) -> None:
        self._make: Callable[[], Function] | None = make
        self._function: Function | None = None

    def __call__(self, *arrays: Any) -> Any:
        function, make = self._function, self._make
        if function is None and make is not None:
            function = self._function = make()
            # it refers to nodes
            self._make = None
        assert function is not None
        return function(*arrays)


@slotted
class Deferrable:
    """A gradient of a rule that can be deferred: several of its kind are added in another way than as arrays."""

    __slots__ = ("_attributes", "_function", "_operator", "places")

    def __init__(
        self, function: Function, declared: Operator, attributes: tuple[Any, ...], places: Sequence[int]
    ) -> None:
        self._function, self._operator, self._attributes, self.places = function, declared, attributes, places

    @hot
    def gradient(self, values: Sequence[Any]) -> Any:
        """Return the gradient, deferred where several of its kind are added in another way."""
        return self.gradient_of([values[place] for place in self.places])

    def gradients(self, count: int, values: Sequence[Any], stacked: Sequence[bool]) -> list[Any]:
        """Return the gradient of each of several nodes, given values and which of them are stacks."""
        columns = [rows_of(values[place]) if stacked[place] else [values[place]] * count for place in self.places]
        return [self.gradient_of(list(inputs)) for inputs in zip(*columns)]

    @hot
    def gradient_of(self, inputs: Sequence[Any]) -> Any:
        """Return the gradient for values of its inputs."""
        if self._operator is MATMUL and not are_few_terms(inputs[0].shape, inputs[1].shape):
            return self._function(*inputs)
        return defer(self._function, self._operator, self._attributes, inputs)


@hot
def are_deferred(grads: Sequence[Any], declared: Operator) -> bool:
    """Return whether gradients are results of an operator that are not computed yet."""
    for grad in grads:  # noqa: SIM110 - hot functions have no generators
        if grad.__class__ is not Deferred or grad.operator is not declared:
            return False
    return True


@functools.lru_cache(4096)
def _region(attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the region where an embedded array is not zero."""
    _, begin, end, step = attributes
    region = [slice(b, e if e >= 0 else None, s) for b, e, s in zip(begin, end, step, strict=True)]
    # the Ellipsis makes a 0-d array assignable too
    return (*region, ...)


def join_products(grads: Sequence[Deferred]) -> Array:
    """Return the sum of products of few terms as one product, as :func:`..ops.reduce.accumulation.total` does."""
    # the reverse pass visits users first; restore the order of the steps
    data = np.concatenate([grad.inputs[0].T for grad in reversed(grads)])
    out_grads = np.concatenate([grad.inputs[1] for grad in reversed(grads)])
    return grads[0].function(data.T, out_grads)  # type: ignore[no-any-return]
