"""What a line of code with arrays of mx.np does, in a form that JSON can hold: for comparing libraries.

A line sees the arrays of :func:`names`. Nothing here imports the library under test, so real MXNet can be looked at the
same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as onp

from ..oracle.factors import Array, differences
from ..recorded_lines import value_of


def names(mx: Any) -> dict[str, Any]:
    """Return the names that a line of code can use, arrays of each kind among them."""
    np = mx.np
    generator = onp.random.RandomState(3)

    def array(*shape: int, dtype: str = "float32") -> Any:
        return np.array(generator.uniform(-1, 1, shape), dtype=dtype)

    def kind(value: Any) -> Any:
        """Return what is known of random numbers: class, shape and dtype."""
        return [type(value).__name__, list(value.shape), str(value.dtype)]

    def grad(function: Callable[..., Any], *arrays: Any) -> Any:
        """Return the gradients of a function for weights that differ from element to element."""
        for each in arrays:
            each.attach_grad()
        with mx.autograd.record():
            value = function(*arrays)
            results = list(value) if isinstance(value, (list, tuple)) else [value]
            weights = [np.array(onp.arange(1, r.size + 1).reshape(r.shape) * 0.1, dtype=r.dtype) for r in results]
            total = sum([(r * w).sum() for r, w in zip(results, weights)])
        total.backward()
        return [each.grad for each in arrays]

    return {
        "mx": mx,
        "np": np,
        "npx": mx.npx,
        "onp": onp,
        "array": array,
        "grad": grad,
        "kind": kind,
        "x": array(2, 3),
        "y": array(2, 3),
        "v": array(3),
        "t": array(2, 3, 4),
        "i": np.array([[0, 2], [1, 1]], dtype="int32"),
        "s": np.array(0.5),
        "p": array(1, 2, 5, 5),
        "m": np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]]),
        "lengths": np.array([1, 3]),
    }


def outcome(mx: Any, line: str) -> Any:
    """Return the value of a line of code, or the type of the error it raises."""
    mx.npx.set_np()
    try:
        return shown(value_of(line, names(mx)))
    except Exception as error:
        return f"!{type(error).__name__}"
    finally:
        mx.npx.reset_np()


def shown(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if hasattr(value, "asnumpy"):
        values = value.asnumpy()
        return {"class": type(value).__name__, **_array(values)}
    if isinstance(value, (onp.ndarray, onp.generic)):
        return {"class": "numpy", **_array(onp.asarray(value))}
    if isinstance(value, (list, tuple)):
        return [shown(item) for item in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _array(values: Any) -> dict[str, Any]:
    numbers = [float(f"{float(number):.7g}") for number in values.reshape(-1)]
    return {"dtype": values.dtype.name, "shape": list(values.shape), "values": numbers}


def _arrays(parts: list[dict[str, Any]]) -> list[Array]:
    return [onp.array(part["values"], part["dtype"]).reshape(part["shape"]) for part in parts]


def agree(theirs: Any, ours: Any, tolerance: float = 2e-5, factors: str | None = None) -> bool:
    """Return whether two outcomes are the same, up to rounding.

    ``factors`` is the kind of factorization if they are lists of factors (:mod:`tests.oracle.factors`): then what the
    factorization leaves open may differ.
    """
    if factors is not None and isinstance(theirs, list) and isinstance(ours, list):
        if [part["class"] for part in theirs] != [part["class"] for part in ours]:
            return False
        return not differences(factors, _arrays(ours), _arrays(theirs), tolerance)
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if [theirs[key] for key in ("class", "dtype", "shape")] != [ours[key] for key in ("class", "dtype", "shape")]:
            return False
        theirs, ours = theirs["values"], ours["values"]
        scale = max([abs(number) for number in theirs if number == number and abs(number) < 1e30] or [0.0])
        return bool(onp.allclose(theirs, ours, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(theirs) == len(ours) and all([agree(a, b, tolerance) for a, b in zip(theirs, ours)])
    if isinstance(theirs, float) and isinstance(ours, float):
        return bool(onp.isclose(theirs, ours, rtol=tolerance))
    return bool(theirs == ours)
