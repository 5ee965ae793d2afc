"""Functions of mx.npx that combine several operators, or whose result shape depends on values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.array.call import function_of
from ..core.array.handle import read
from ..core.base.errors import MXNetError, format_shape
from ..core.graph.node import Node, Shape
from ..core.graph.operator import REGISTRY
from ..core.ops.math.primitives import cast, reshape_to, select
from ..core.ops.nn.softmax import log_softmax as _log_softmax
from ..core.ops.nn.softmax import softmax as _softmax
from ..ndarray.array import NDArray
from ..numpy.creation import new
from ..numpy.declaration import Expression
from .reshaping import resolve

__all__ = [
    "EXPRESSIONS",
    "constraint_check",
    "index_add",
    "index_update",
    "masked_log_softmax",
    "masked_softmax",
    "nonzero",
    "reshape",
]


def _reshape(a: Node, *, newshape: Shape, reverse: bool = False, order: str = "C") -> Node:
    """Return the array in another shape; negative codes refer to extents of the array.

    -1 is inferred; -2 copies one extent; -3 drops an extent of 1; -4 copies all that follow; -5 merges two; -6
    splits one into the two that follow. With ``reverse``, codes match from the last axis.

    >>> mx.npx.reshape(mx.np.ones((2, 3, 4)), (-2, -5)).shape
    (2, 12)
    """
    if order != "C":
        raise MXNetError(f"npx.reshape: only order='C' is supported, not {order!r}")
    return reshape_to(a, resolve(a.shape, newshape, reverse))


def _mask_out(data: Node, mask: Node, value: float) -> Node:
    return select(cast(mask, np.dtype(bool)), data, value)


def _masked_softmax(data: Node, mask: Node, *, axis: int = -1, temperature: float | None = None) -> Node:
    """Return the softmax over the elements where the mask is true; the others get 0.

    >>> mx.npx.masked_softmax(mx.np.array([1.0, 1.0, 5.0]), mx.np.array([True, True, False]))
    array([0.5, 0.5, 0. ])
    """
    chances = _softmax(_mask_out(data, mask, -math.inf), axis=axis, temperature=temperature)
    return _mask_out(chances, mask, 0.0)


def _masked_log_softmax(data: Node, mask: Node, *, axis: int = -1, temperature: float | None = None) -> Node:
    """Return the log-softmax over the elements where the mask is true; the others get -infinity.

    >>> mx.npx.masked_log_softmax(mx.np.array([1.0, 1.0, 5.0]), mx.np.array([True, True, False]))
    array([-0.6931472, -0.6931472,       -inf])
    """
    logarithms = _log_softmax(_mask_out(data, mask, -math.inf), axis=axis, temperature=temperature)
    return _mask_out(logarithms, mask, -math.inf)


#: the expressions behind the functions below, by name
EXPRESSIONS = {
    "masked_log_softmax": Expression(_masked_log_softmax, name="_npx_masked_log_softmax"),
    "masked_softmax": Expression(_masked_softmax, name="_npx_masked_softmax"),
    "reshape": Expression(_reshape, name="_npx_reshape"),
}
masked_log_softmax, masked_softmax, reshape = (function_of(found, name) for name, found in EXPRESSIONS.items())


def nonzero(a: NDArray) -> Any:
    """Return the indices of nonzero elements, one row per element; they are computed at the call.

    Parameters
    ----------
    a
        The array.

    Examples
    --------
    >>> from phonograd import np, npx
    >>> npx.nonzero(np.array([[0, 1], [2, 0]]))
    array([[0, 1],
           [1, 0]], dtype=int64)
    """
    if not isinstance(a, NDArray):
        raise TypeError(f"npx.nonzero takes an array of mx.np, not {type(a)}")
    return new(np.argwhere(read(a)).astype(np.int64), a.context)


def constraint_check(x: NDArray, msg: str = "Constraint violated.") -> Any:
    """Return ``array(True)`` if all elements of a boolean array are true, else raise an error.

    Parameters
    ----------
    x
        The array. It is computed at the call.
    msg
        The text of the error.

    Raises
    ------
    ValueError
        If an element is false.

    Examples
    --------
    >>> from phonograd import np, npx
    >>> npx.constraint_check(np.array([1.0, 2.0]) > 0, "all must be positive")
    array(True)
    """
    if not isinstance(x, NDArray):
        raise TypeError(f"npx.constraint_check takes an array of mx.np, not {type(x)}")
    if not read(x).all():
        raise ValueError(msg)
    return new(np.array(True), x.context)


def _places(a: NDArray, ind: NDArray) -> NDArray:
    """Return indices as a matrix with a row for each of the first axes of an array."""
    if ind.ndim == 1:
        ind = ind._view_as((1, ind.shape[0]))
    if ind.ndim != 2 or ind.shape[0] > a.ndim:
        raise MXNetError(
            f"indices {format_shape(ind.shape)} must have a row for each of the first axes of an array "
            f"{format_shape(a.shape)}"
        )
    return ind


def index_update(a: NDArray, ind: NDArray, val: NDArray) -> Any:
    """Return a copy of an array with the elements (or slices) at some indices replaced.

    Parameters
    ----------
    a
        The array.
    ind
        Indices: one row for each of the first axes of the array.
    val
        The new values.

    Examples
    --------
    >>> from phonograd import np, npx
    >>> npx.index_update(np.zeros(3), np.array([[0, 2]], dtype="int32"), np.array([5.0, 6.0]))
    array([5., 0., 6.])
    """
    changed = a.copy()
    places = _places(a, ind)
    changed[tuple([places[row] for row in range(places.shape[0])])] = val
    return changed


def index_add(a: NDArray, ind: NDArray, val: NDArray) -> Any:
    """Return a copy of an array with values added at some indices; repeated indices add up.

    Parameters
    ----------
    a
        The array.
    ind
        Indices: one row for each of the first axes of the array.
    val
        Values that are added.

    Examples
    --------
    >>> from phonograd import np, npx
    >>> npx.index_add(np.zeros(3), np.array([[0, 0]], dtype="int32"), np.array([5.0, 6.0]))
    array([11.,  0.,  0.])
    """
    places = _places(a, ind)
    if a.dtype == val.dtype:
        return function_of(REGISTRY["_index_add"], "_index_add")(a, places, val)
    shape = (places.shape[1], *a.shape[places.shape[0] :])
    spread = val if val.shape == shape else val.broadcast_to(shape)
    return a + function_of(REGISTRY["_backward_gather_nd"], "_backward_gather_nd")(spread, places, shape=a.shape)
