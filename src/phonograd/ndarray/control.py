"""Control flow over arrays. Loops and branches run as plain Python, so their operators are recorded as usual."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..core.array.call import function_of
from ..core.array.handle import read
from ..core.base.errors import MXNetError
from ..core.graph.operator import REGISTRY
from ..core.graph.shapes import real_axis
from .array import NDArray
from .creation import zeros

__all__ = ["boolean_mask", "cond", "foreach", "while_loop"]


def _flatten(value: Any, what: str) -> list[NDArray]:
    if isinstance(value, NDArray):
        return [value]
    if isinstance(value, (list, tuple)):
        return [array for item in value for array in _flatten(item, what)]
    raise AssertionError(f"{what} must be (nested) list of NDArray, but got {value} of type {type(value)}")


def _stack(items: list[NDArray]) -> NDArray:
    return function_of(REGISTRY["stack"], "stack")(*items, axis=0)  # type: ignore[no-any-return]


def _stack_like(pattern: Any, columns: list[NDArray]) -> Any:
    """Return stacked columns, nested like the output of one step."""
    return _nest(pattern, iter(columns))


def _nest(pattern: Any, columns: Iterator[NDArray]) -> Any:
    # not a closure: a recursive closure is a reference cycle, which would keep the arrays until garbage collection
    return next(columns) if isinstance(pattern, NDArray) else [_nest(part, columns) for part in pattern]


def foreach(body: Callable[..., Any], data: Any, init_states: Any, name: str = "foreach") -> tuple[Any, Any]:
    """Run ``body(slice, states)`` over the first axis of data; return the stacked outputs and final states.

    Parameters
    ----------
    body
        The function of one step; it returns the outputs and the new states.
    data
        Array, or nested lists of arrays, with the steps along the first axis.
    init_states
        States of the first step: an array, or nested lists of arrays.
    name
        Ignored; symbols use it.

    Examples
    --------
    >>> import phonograd as mx
    >>> step = lambda x, s: (x + s, x + s)
    >>> outputs, state = mx.nd.contrib.foreach(step, mx.nd.array([1, 2, 3]), mx.nd.zeros(1))
    >>> outputs.reshape(-1)
    <BLANKLINE>
    [1. 3. 6.]
    <NDArray 3 @cpu(0)>
    >>> state
    <BLANKLINE>
    [6.]
    <NDArray 1 @cpu(0)>
    """
    arrays = _flatten(data, "foreach input")
    _flatten(init_states, "foreach states")
    if not arrays:
        raise ValueError("foreach needs at least one array to run over")
    steps = arrays[0].shape[0]
    for array in arrays:
        if array.shape[0] != steps:
            raise ValueError(f"foreach: arrays have different first axes: {[a.shape for a in arrays]}")
    states, rows, pattern = init_states, [], None
    for step in range(steps):
        piece = data[step] if isinstance(data, NDArray) else _stack_like(data, [a[step] for a in arrays])
        pattern, states = body(piece, states)
        rows.append(_flatten(pattern, "foreach output"))
    if pattern is None:
        raise ValueError("foreach over an empty axis has no outputs")
    columns = [_stack([row[i] for row in rows]) for i in range(len(rows[0]))]
    return _stack_like(pattern, columns), states


def while_loop(
    cond: Callable[..., Any],
    func: Callable[..., Any],
    loop_vars: Any,
    max_iterations: int | None = None,
    name: str = "while_loop",
) -> tuple[Any, Any]:
    """Run a while loop; return its stacked outputs, zero-padded to ``max_iterations``, and its final variables.

    Parameters
    ----------
    cond
        The condition, a function of the variables; the loop ends when it is false.
    func
        The function of one step; it takes the variables and returns the outputs and the new variables.
    loop_vars
        Variables of the first step: an array or a list of arrays.
    max_iterations
        Largest number of steps; required.
    name
        Ignored; symbols use it.

    Examples
    --------
    >>> import phonograd as mx
    >>> step = lambda i, total: (total, [i + 1, total + i])
    >>> start = [mx.nd.array([1]), mx.nd.array([0])]
    >>> outputs, (i, total) = mx.nd.contrib.while_loop(lambda i, total: i <= 3, step, start, max_iterations=5)
    >>> outputs.asnumpy().ravel(), total.asscalar()
    (array([0., 1., 3., 0., 0.], dtype=float32), np.float32(6.0))
    """
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    try:
        limit = int(max_iterations)
    except (TypeError, ValueError):
        raise ValueError(f"Cannot convert max_iteration to python int: {max_iterations!r}") from None
    single = isinstance(loop_vars, NDArray)
    variables = _as_list(loop_vars)
    if not variables:
        raise ValueError("loop_vars should contain at least one element")
    rows: list[list[NDArray]] = []
    pattern: Any = []
    while len(rows) < limit and _truth(cond(*variables)):
        pattern, following = func(*variables)
        new = _as_list(following)
        if len(new) != len(variables):
            raise ValueError(
                f"The length of loop_vars should be consistent during the loop: {len(variables)} and {len(new)}"
            )
        rows.append([] if pattern is None else _flatten(pattern, "while_loop output"))
        variables = new
    columns = []
    for index in range(len(rows[0]) if rows else 0):
        items = [row[index] for row in rows]
        first = items[0]
        items += [zeros(first.shape, first.context, first.dtype)] * (limit - len(items))
        columns.append(_stack(items))
    outputs = _stack_like(pattern, columns) if rows and pattern is not None else []
    return outputs, variables[0] if single else variables


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, NDArray):
        return [value]
    if isinstance(value, (list, tuple)):
        return list(value)
    raise TypeError(f"loop_vars must be an NDArray or a list of NDArrays, not {type(value)}")


def _truth(value: Any) -> bool:
    return bool(value.asscalar() if isinstance(value, NDArray) else value)


def cond(pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any], name: str = "cond") -> Any:
    """Return ``then_func()`` if the condition is true, else ``else_func()``.

    Parameters
    ----------
    pred
        The condition: an array of one element, a number, or a function that returns one.
    then_func
        Function without arguments that is called if the condition is true.
    else_func
        Function without arguments that is called if the condition is false.
    name
        Ignored; symbols use it.

    Examples
    --------
    >>> import phonograd as mx
    >>> x = mx.nd.array([2.0])
    >>> mx.nd.contrib.cond(x > 1, lambda: x * 10, lambda: x).asnumpy()
    array([20.], dtype=float32)
    """
    return then_func() if _truth(pred() if callable(pred) else pred) else else_func()


def boolean_mask(
    data: NDArray,
    index: NDArray,
    axis: int = 0,
    out: NDArray | None = None,
    name: str | None = None,
    **kwargs: Any,
) -> NDArray:
    """Return the slices of data along an axis where the mask is nonzero.

    The shape of the result depends on the values of the mask, so the mask is computed at this call.
    """
    for argument, value in (("data", data), ("index", index)):
        if not isinstance(value, NDArray):
            raise AssertionError(f"Argument {argument} must have NDArray type, but got {value}")
    mask = read(index)
    axis = real_axis(axis, data.ndim, "boolean_mask")
    if mask.ndim != 1 or mask.shape[0] != data.shape[axis]:
        raise MXNetError(
            f"boolean_mask: the mask must be a vector as long as axis {axis} of the data, got {mask.shape} for "
            f"{data.shape}"
        )
    chosen: NDArray = data[(slice(None),) * axis + (np.flatnonzero(mask),)]
    return chosen if out is None else chosen.copyto(out)
