"""Provide checks of gradients of any order, for code that uses autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import autograd
from .core.array.handle import is_recorded
from .core.backward.backward import grads_or_zeros
from .ndarray import NDArray, array

__all__ = ["check_gradients"]


def check_gradients(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 3,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    step: float = 1e-4,
    seed: int = 0,
) -> None:
    """Check the derivatives of a function against finite differences along a random direction, up to an order.

    The function is evaluated in float64. The check compares each order with central differences of the order below. A
    wrong gradient rule therefore fails at its own order.

    Parameters
    ----------
    f
        A function of NDArrays that returns one or several NDArrays.
    args
        The arrays (NDArrays, NumPy arrays or lists) of the point; choose one where ``f`` is smooth.
    order
        The highest order to check.

    Raises
    ------
    AssertionError
        If values differ. The message contains the order, both values and their difference.

    >>> import phonograd as mx
    >>> check_gradients(lambda x: mx.nd.tanh(x) * x, [[0.3, -0.8]], order=3)
    """
    generator = np.random.default_rng(seed)
    points = [np.array(a.asnumpy() if isinstance(a, NDArray) else a, dtype=np.float64) for a in args]
    directions = [generator.normal(size=point.shape) for point in points]
    weights: list[np.ndarray[Any, Any]] = []

    def value(step_size: float, level: int) -> float:
        """Return the derivative of order ``level`` along the direction, at the point moved by ``step_size``."""
        moved = [array(p + step_size * d, dtype="float64") for p, d in zip(points, directions, strict=True)]
        for x in moved:
            x.attach_grad()
        with autograd.record():
            results = f(*moved)
            outputs = [results] if isinstance(results, NDArray) else list(results)
            while len(weights) < len(outputs):
                weights.append(generator.normal(size=outputs[len(weights)].shape))
            total = _sum([_dot(out, weight) for out, weight in zip(outputs, weights, strict=True)])
            for _ in range(level):
                total = _derivative(total, moved, directions)
        return float(total.asscalar())

    for level in range(1, order + 1):
        exact = value(0.0, level)
        near = value(step, level - 1) - value(-step, level - 1)
        far = value(2 * step, level - 1) - value(-2 * step, level - 1)
        numeric = (8 * near - far) / (12 * step)
        if not abs(exact - numeric) <= atol + rtol * max(abs(exact), abs(numeric)):
            raise AssertionError(
                f"derivative of order {level} along a random direction is {exact!r}, but differences give {numeric!r} "
                f"(difference {abs(exact - numeric):.3g})"
            )


def _dot(out: NDArray, weight: np.ndarray[Any, Any]) -> NDArray:
    return (out.astype("float64", copy=False) * array(weight, dtype="float64")).sum()


def _sum(terms: list[NDArray]) -> NDArray:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _derivative(total: NDArray, variables: list[NDArray], directions: list[np.ndarray[Any, Any]]) -> NDArray:
    """Return the derivative along the direction; zero if the function is constant by now."""
    if not is_recorded(total):
        zero: NDArray = total * 0
        return zero
    grads = grads_or_zeros(total, variables)
    return _sum([_dot(grad, direction) for grad, direction in zip(grads, directions, strict=True)])
