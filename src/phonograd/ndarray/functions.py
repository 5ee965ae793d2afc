"""Functions of the nd namespace that are not operators: two operands of which one may be a number, and a few more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..operator import REGISTRY, Operator
from ..trace import LOCAL
from .array import NDArray
from .call import Numbers, function_of, operate
from .handle import make

__all__ = ["matmul", "onehot_encode", "split_v2", "with_scalars"]


def with_scalars(declared: Operator) -> Callable[..., Any]:
    """Return the function of two operands of a binary operator; either may be a number."""

    def function(lhs: Any, rhs: Any) -> Any:
        if isinstance(lhs, NDArray) or isinstance(rhs, NDArray):
            return make(operate(declared, lhs, rhs), LOCAL.trace)
        if isinstance(lhs, Numbers) and isinstance(rhs, Numbers):
            return declared.function(np.asarray(lhs, np.float64), np.asarray(rhs, np.float64)).item()
        raise TypeError(f"type {type(lhs)} not supported")

    function.__name__ = function.__qualname__ = declared.with_scalars or declared.name
    function.__doc__ = f"{declared.__doc__.splitlines()[0]} Either operand may be a number."
    return function


def matmul(lhs: NDArray, rhs: NDArray) -> NDArray:
    """Return the matrix product ``lhs @ rhs``: of two matrices, of stacks of matrices, or with a vector."""
    if not isinstance(rhs, NDArray):
        raise TypeError(f"type {type(rhs)} not supported")
    if lhs.ndim <= 2 and rhs.ndim <= 2:
        return function_of(REGISTRY["dot"], "dot")(lhs, rhs)  # type: ignore[no-any-return]
    lead = np.broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2])
    left = lhs.broadcast_to((*lead, *lhs.shape[-2:])).reshape((-1, *lhs.shape[-2:]))
    right = rhs.broadcast_to((*lead, *rhs.shape[-2:])).reshape((-1, *rhs.shape[-2:]))
    product = function_of(REGISTRY["batch_dot"], "batch_dot")(left, right)
    return product.reshape((*lead, lhs.shape[-2], rhs.shape[-1]))  # type: ignore[no-any-return]


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Write the one-hot rows of indices into ``out`` and return it."""
    encoded = function_of(REGISTRY["one_hot"], "one_hot")(indices, depth=out.shape[1], dtype=out._dtype)
    out[:] = encoded
    return out


def split_v2(ary: NDArray, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False) -> Any:
    """Return pieces of an array along an axis: so many equal ones, or cut at the given places."""
    axis = axis % ary.ndim
    extent = ary.shape[axis]
    if isinstance(indices_or_sections, (int, np.integer)):
        sections = int(indices_or_sections)
        if sections <= 0 or extent % sections:
            raise ValueError("array split does not result in an equal division")
        cuts = [extent // sections * k for k in range(1, sections)]
    elif isinstance(indices_or_sections, (tuple, list)):
        cuts = [int(cut) for cut in indices_or_sections]
    else:
        raise ValueError("indices_or_sections must either int or tuple of ints")
    bounds = [0, *cuts, extent]
    slice_axis = function_of(REGISTRY["slice_axis"], "slice_axis")
    pieces = [slice_axis(ary, axis=axis, begin=b, end=e) for b, e in zip(bounds, bounds[1:], strict=False)]
    if squeeze_axis:
        pieces = [piece.squeeze(axis=axis) for piece in pieces]
    return pieces[0] if len(pieces) == 1 else pieces
