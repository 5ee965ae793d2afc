"""Functions of mx.npx that are expressions of several operators, or whose results depend on values."""

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
    "index_add",
    "index_update",
    "masked_log_softmax",
    "masked_softmax",
    "nonzero",
    "reshape",
]


def _reshape(a: Node, *, newshape: Shape, reverse: bool = False, order: str = "C") -> Node:
    """Return the array in another shape, in which codes stand for extents of its own.

    -1 is what is left; -2 copies one extent; -3 drops an extent of 1; -4 copies all that follow; -5 merges two; -6
    splits one into the two that follow. With ``reverse`` they are matched from the last axis on.
    """
    if order != "C":
        raise MXNetError(f"npx.reshape: only order='C' is there, not {order!r}")
    return reshape_to(a, resolve(a.shape, newshape, reverse))


def _mask_out(data: Node, mask: Node, value: float) -> Node:
    return select(cast(mask, np.dtype(bool)), data, value)


def _masked_softmax(data: Node, mask: Node, *, axis: int = -1, temperature: float | None = None) -> Node:
    """Return the softmax of those elements for which the mask is true; the others get 0."""
    chances = _softmax(_mask_out(data, mask, -math.inf), axis=axis, temperature=temperature)
    return _mask_out(chances, mask, 0.0)


def _masked_log_softmax(data: Node, mask: Node, *, axis: int = -1, temperature: float | None = None) -> Node:
    """Return the logarithm of the softmax of those elements for which the mask is true; the others get -infinity."""
    logarithms = _log_softmax(_mask_out(data, mask, -math.inf), axis=axis, temperature=temperature)
    return _mask_out(logarithms, mask, -math.inf)


#: what the functions that follow compute, by name
EXPRESSIONS = {
    "masked_log_softmax": Expression(_masked_log_softmax, name="_npx_masked_log_softmax"),
    "masked_softmax": Expression(_masked_softmax, name="_npx_masked_softmax"),
    "reshape": Expression(_reshape, name="_npx_reshape"),
}
masked_log_softmax, masked_softmax, reshape = (function_of(found, name) for name, found in EXPRESSIONS.items())


def nonzero(a: NDArray) -> Any:
    """Return the places of elements that are not zero, a row of indices for each; they are counted at this call."""
    if not isinstance(a, NDArray):
        raise TypeError(f"npx.nonzero takes an array of mx.np, not {type(a)}")
    return new(np.argwhere(read(a)).astype(np.int64), a.context)


def _indices(a: NDArray, ind: NDArray) -> tuple[Any, ...]:
    if ind.ndim == 1:
        ind = ind._viewed((1, ind.shape[0]))
    if ind.ndim != 2 or ind.shape[0] > a.ndim:
        raise MXNetError(
            f"indices {format_shape(ind.shape)} must have a row for each of the first axes of an array "
            f"{format_shape(a.shape)}"
        )
    return tuple([ind[row] for row in range(ind.shape[0])])


def index_update(a: NDArray, ind: NDArray, val: NDArray) -> Any:
    """Return a copy of an array with the elements (or slices) at some places replaced."""
    changed = a.copy()
    changed[_indices(a, ind)] = val
    return changed


def index_add(a: NDArray, ind: NDArray, val: NDArray) -> Any:
    """Return a copy of an array with values added at some places, more than once where a place is named twice."""
    rows = _indices(a, ind)
    places = function_of(REGISTRY["stack"], "stack")(*rows, axis=0)
    spread = val.broadcast_to((places.shape[1], *a.shape[len(rows) :]))
    added = function_of(REGISTRY["_backward_gather_nd"], "_backward_gather_nd")(spread, places, shape=a.shape)
    return a + added
