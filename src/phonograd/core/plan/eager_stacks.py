"""Stacks: one operator on several inputs of equal shapes, as one call on arrays with one more axis in front.

Takes operators and their functions of arrays from :mod:`~phonograd.core.plan.eager`. A stacked call gives the same bits
as the calls one by one:

* an elementwise operator computes each element alone;
* an operator that moves elements declares its stacked form (:meth:`phonograd.core.graph.operator.Operator.stacked`);
* a product of matrices by the same matrix is one product of all rows: the terms of each element are added in an order
  that does not depend on the number of rows (``tests/core/plan/test_stacks.py``).

Anything else is called for each input, and the results are stacked. See docs/decisions/0018.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..graph.operator import REGISTRY, Array, Operator
from .products import keeps_bits_of_rows

__all__ = ["StackedFunction", "WithNumbers", "call_each", "elementwise_stack", "rows_of", "stacked_function"]

_MATMUL = REGISTRY["_matmul"]

Function = Callable[..., Any]
#: returns the stack of results, given how many they are, the arrays, and which of these are stacks; None if it cannot
StackedFunction = Callable[[int, Sequence[Any], Sequence[bool]], Any]


class WithNumbers:
    """A ufunc whose last operands are numbers."""

    __slots__ = ("_numbers", "_ufunc")

    def __init__(self, ufunc: Function, numbers: Sequence[Any]) -> None:
        self._ufunc, self._numbers = ufunc, numbers

    @property
    def types(self) -> list[str]:
        """The types of the ufunc's loop, as NumPy writes them."""
        return self._ufunc.types  # type: ignore[attr-defined,no-any-return]

    def __call__(self, *arrays: Any, out: Array | None = None) -> Any:
        return self._ufunc(*arrays, *self._numbers, out=out)


def stacked_function(
    declared: Operator, attributes: tuple[Any, ...], ranks: Sequence[int], rank: int, function: Function
) -> StackedFunction | None:
    """Return the stacked form of a function of an operator; None if there is none.

    Parameters
    ----------
    ranks, rank
        The numbers of axes of the inputs and of the result.
    function
        The function of arrays without the axis in front.
    """
    if isinstance(function, np.ufunc | WithNumbers):
        return elementwise_stack(function, [rank - each for each in ranks])
    if declared is _MATMUL and tuple(ranks) == (2, 2):
        return _product(function)
    if declared.stacked_rule is not None:
        return _move(declared.stacked_rule, dict(zip(declared.parameter_names, attributes, strict=True)))
    return None


def elementwise_stack(function: Function, missing: Sequence[int]) -> StackedFunction:
    """Return a function that broadcasts stacks whose elements have fewer axes than the result."""

    def run(count: int, arrays: Sequence[Any], are_stacked: Sequence[bool]) -> Any:
        return function(*arrays) if True in are_stacked else None

    def run_with_axes(count: int, arrays: Sequence[Any], are_stacked: Sequence[bool]) -> Any:
        if True not in are_stacked:
            return None
        return function(
            *[
                array.reshape(count, *[1] * axes, *array.shape[1:]) if axes and is_stacked else array
                for array, axes, is_stacked in zip(arrays, missing, are_stacked)
            ]
        )

    return run_with_axes if any(missing) else run


def _product(function: Function) -> StackedFunction:
    """Return a function that multiplies all rows by the same matrix."""

    def run(count: int, arrays: Sequence[Any], are_stacked: Sequence[bool]) -> Any:
        lhs, rhs = arrays
        if not are_stacked[0] or are_stacked[1]:
            return None
        _, rows, terms = lhs.shape
        columns = rhs.shape[1]
        if not keeps_bits_of_rows(count * rows, terms, columns):
            return None
        return function(lhs.reshape(count * rows, terms), rhs).reshape(count, rows, columns)

    return run


def _move(rule: Function, parameters: dict[str, Any]) -> StackedFunction:
    """Return a function that moves the elements of stacks."""

    def run(count: int, arrays: Sequence[Any], are_stacked: Sequence[bool]) -> Any:
        if not any(are_stacked):
            return None
        stacks = [
            array if is_stacked else np.broadcast_to(array, (count, *array.shape))
            for array, is_stacked in zip(arrays, are_stacked)
        ]
        return rule(*stacks, **parameters)

    return run


def call_each(function: Function, count: int, arrays: Sequence[Any], are_stacked: Sequence[bool]) -> Any:
    """Return the stack of the results of a function of arrays for each element of stacks."""
    if not any(are_stacked):
        return _spread(function(*arrays), count)
    columns = [rows_of(array) if is_stacked else [array] * count for array, is_stacked in zip(arrays, are_stacked)]
    results = [function(*row) for row in zip(*columns)]
    if results[0].__class__ is tuple:
        return tuple([_stack(column) for column in zip(*results)])
    return _stack(results)


def _spread(result: Any, count: int) -> Any:
    if result.__class__ is tuple:
        return tuple([_spread(each, count) for each in result])
    return np.broadcast_to(result, (count, *np.shape(result)))


def _stack(results: Sequence[Any]) -> Array:
    return np.asarray(results[0])[None] if len(results) == 1 else np.stack(results)


def rows_of(stack: Array) -> list[Any]:
    """Return the elements of a stack as arrays."""
    # iteration would return numbers for elements without axes
    return list(stack) if stack.ndim > 1 else [stack[number, ...] for number in range(len(stack))]
