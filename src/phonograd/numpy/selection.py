"""Select elements by conditions, by indices, or by comparison.

The number of elements that a condition selects depends on its values. Functions whose result shape depends on it
compute the condition at the call; gradients pass through the selected elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array.handle import read
from ..core.array.values import naming_itself
from ..core.base.dtypes import BOOL, INT64, kind_of
from ..core.graph.node import Node, Shape
from ..core.graph.operator import REGISTRY, single
from ..core.ops.math.broadcasting import broadcast
from ..core.ops.math.comparison import equal, lesser_equal, logical_and, logical_or, not_equal
from ..core.ops.math.elementary import abs_
from ..core.ops.math.examination import isfinite
from ..core.ops.math.primitives import cast, reshape_to, scatter_add
from ..core.ops.math.primitives import select as chosen
from ..core.ops.math.structural import full
from ..core.ops.shape.shape import split_at
from ..core.ops.vision.points import positions, take_along
from ..ndarray.array import NDArray
from .creation import array, from_values, number
from .declaration import FUNCTIONS, expression, public
from .joining import arrays_of, concatenate
from .promotion import as_float, promote
from .shaping import call_operator, real_axis

__all__: list[str] = []


@expression("_where")
def _where(condition: Node, x: Node, y: Node) -> Node:
    """Return elements of x where the condition is nonzero, else of y; all three broadcast."""
    first, second = promote(x, y)
    np.broadcast_shapes(condition.shape, first.shape, second.shape)
    return chosen(condition, first, second)


def as_array(value: Any, like: Any) -> Any:
    """Convert a number to an array of another array's dtype; arrays are returned unchanged."""
    if isinstance(value, NDArray):
        return value
    values = np.asarray(value)
    dtype = like.dtype if values.ndim == 0 and isinstance(like, NDArray) else None
    return array(values, dtype=dtype or ("float32" if kind_of(values.dtype) != "b" else "bool"))


@public()
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Return elements of x where a condition holds, else of y; with the condition alone, the indices where it holds."""
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    if not isinstance(condition, NDArray):
        condition = array(np.asarray(condition), dtype="bool")
    first = as_array(x, y)
    return call_operator(_where, condition, first, as_array(y, first))


@public(method="nonzero")
def nonzero(a: Any) -> Any:
    """Return the indices of nonzero elements: one index array per axis."""
    return tuple([from_values(places) for places in np.nonzero(np.atleast_1d(read(a)))])


@public()
def flatnonzero(a: Any) -> Any:
    """Return the indices of nonzero elements in the flattened array."""
    return from_values(np.flatnonzero(read(a)))


@public()
def argwhere(a: Any) -> Any:
    """Return the indices of nonzero elements, one row per element."""
    return from_values(np.argwhere(read(a)))


@expression("_take")
def _take(a: Node, indices: Node, *, axis: int | None = None, mode: str = "raise") -> Node:
    """Return the slices at indices along an axis, or elements of the flattened array."""
    if axis is None:
        a, axis = reshape_to(a, (a.size,)), 0
    axis = real_axis(axis, a.ndim, "take")
    if mode == "raise":
        indices = positions(indices, a.shape[axis], "index", axis, caller="take")
    return single(REGISTRY["take"](a, indices, axis=axis, mode="clip" if mode == "raise" else mode))


@public(method="take")
def take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise", out: Any = None) -> Any:
    """Return the slices at indices along an axis, or elements of the flattened array.

    Out-of-range indices raise, are clipped to the nearest end (``clip``), or wrap around (``wrap``).
    """
    if mode not in ("raise", "clip", "wrap"):
        raise NotImplementedError(f"function take does not support mode '{mode}'")
    index = indices if isinstance(indices, NDArray) else from_values(np.asarray(indices, np.int64))
    return call_operator(_take, a, index, axis=axis, mode=mode, out=out)


@expression("_take_along_axis")
def _take_along_axis(arr: Node, indices: Node, *, axis: int | None) -> Node:
    """Return one element per index along an axis."""
    if axis is None:
        arr, axis = reshape_to(arr, (arr.size,)), 0
    if arr.ndim != indices.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    axis = real_axis(axis, arr.ndim, "take_along_axis")
    lead = np.broadcast_shapes(
        (*arr.shape[:axis], 1, *arr.shape[axis + 1 :]), (*indices.shape[:axis], 1, *indices.shape[axis + 1 :])
    )

    def wide(extent: int) -> Shape:
        return (*lead[:axis], extent, *lead[axis + 1 :])

    place = positions(indices, arr.shape[axis], "index", axis, caller="take_along_axis")
    return take_along(broadcast(arr, wide(arr.shape[axis])), broadcast(place, wide(place.shape[axis])), axis)


@public()
def take_along_axis(arr: Any, indices: Any, axis: int | None) -> Any:
    """Return one element per index along an axis, for instance with the result of ``argsort``."""
    return call_operator(_take_along_axis, arr, indices, axis=axis)


@expression("_unravel_index")
def _unravel_index(indices: Node, *, shape: Shape) -> Any:
    """Convert flat indices into an array of a shape to coordinates, one array per axis."""
    rows = single(REGISTRY["_unravel_index"](reshape_to(indices, (indices.size,)), shape=shape))
    pieces = split_at(rows, tuple(range(1, len(shape))), 0)
    found = tuple([reshape_to(cast(piece, INT64), indices.shape) for piece in pieces])
    return found[0] if len(found) == 1 else found


@public()
@naming_itself
def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """Convert flat indices into an array of a shape to coordinates, one array per axis."""
    if order != "C":
        raise NotImplementedError(f"Does not support column-major (Fortran-style) order: {order!r}")
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    given = indices if isinstance(indices, NDArray) else from_values(np.asarray(indices, np.int64))
    found = call_operator(_unravel_index, given, shape=extents)
    return tuple(found) if isinstance(found, list) else (found,)


@public()
def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """Return the slices along an axis (or elements of the flattened array) where a condition holds."""
    mask = np.flatnonzero(read(condition) if isinstance(condition, NDArray) else np.asarray(condition))
    return take(a, mask, axis, out=out)


@public()
def extract(condition: Any, arr: Any) -> Any:
    """Return the elements of an array where a condition of the same size holds."""
    return compress(condition.reshape(-1), arr.reshape(-1), 0)


@public()
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Return elements of the first choice whose condition holds, else the default."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    found = as_array(default, choicelist[0])
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = where(condition, choice, found)
    return found


@public()
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """Choose each element from one of several arrays; ``a`` holds the number of the array."""
    arrays = arrays_of(choices, "choose")
    shape = np.broadcast_shapes(a.shape, *[item.shape for item in arrays])
    stacked = concatenate([item.broadcast_to(shape).reshape((1, *shape)) for item in arrays], 0)
    index = a.broadcast_to(shape).reshape((1, *shape))
    found = take_along_axis(stacked, index, 0).reshape(shape)
    if out is None:
        return found
    out[...] = found
    return out


@public()
def clip(a: Any, a_min: Any, a_max: Any, out: Any = None) -> Any:
    """Limit the elements to the range from ``a_min`` to ``a_max``, which are numbers or arrays."""
    low, high = number(a_min), number(a_max)
    if not isinstance(low, NDArray) and not isinstance(high, NDArray):
        return call_operator(FUNCTIONS["_clip"], a, a_min=low, a_max=high, out=out)
    found = a if low is None else call_operator(FUNCTIONS["maximum"], a, as_array(low, a))
    found = found if high is None else call_operator(FUNCTIONS["minimum"], found, as_array(high, found))
    if out is None:
        return found
    out[...] = found
    return out


# -- insertion and deletion


def _remaining(extent: int, obj: Any) -> np.ndarray[Any, Any]:
    """Return the indices that remain after some are deleted."""
    mask = np.ones(extent, bool)
    mask[read(obj) if isinstance(obj, NDArray) else obj] = False
    return np.flatnonzero(mask)


@public()
def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """Delete slices along an axis, or elements of the flattened array."""
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    axis = real_axis(axis, arr.ndim, "delete")
    given = read(obj) if isinstance(obj, NDArray) else obj
    if isinstance(given, np.ndarray) and kind_of(given.dtype) == "f":
        given = given.astype(np.int64)
    if isinstance(given, (list, tuple)):
        given = np.asarray(given, np.int64)
    return take(arr, _remaining(arr.shape[axis], given), axis)


@public()
@naming_itself
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """Insert values before the given indices along an axis, or of the flattened array."""
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    axis = real_axis(axis, arr.ndim, "insert")
    extent = arr.shape[axis]
    given = read(obj) if isinstance(obj, NDArray) else obj
    if isinstance(given, slice):
        given = np.arange(*given.indices(extent))
    added = values if isinstance(values, NDArray) else array(values, dtype=arr.dtype)
    # NumPy computes the placement on element numbers; numbers past the end denote the values
    places = np.asarray(given, np.int64)
    count = added.shape[axis] if not places.ndim and added.ndim == arr.ndim else max(places.size, 1)
    if not places.ndim and added.ndim == arr.ndim:
        index = np.insert(np.arange(extent), int(places), extent + np.arange(count))
    else:
        index = np.insert(np.arange(extent), places.reshape(-1), extent + np.arange(count))
    shape = (*arr.shape[:axis], count, *arr.shape[axis + 1 :])
    if added.ndim < arr.ndim and added.ndim and not places.ndim:
        added = added.reshape((*added.shape[:axis], 1, *added.shape[axis:]))
    return take(concatenate([arr, added.astype(arr.dtype).broadcast_to(shape)], axis), index, axis)


# -- comparison


@expression("_isclose")
def _isclose(a: Node, b: Node, *, rtol: float, atol: float, equal_nan: bool) -> Node:
    """Return whether elements of two arrays are close: abs(a - b) <= atol + rtol * abs(b)."""
    first, second = promote(as_float(a), as_float(b))
    near = lesser_equal(abs_(first - second), single(abs_(second)) * rtol + atol)
    close = logical_or(logical_and(near, isfinite(second)), equal(first, second))
    if equal_nan:
        close = logical_or(close, logical_and(not_equal(first, first), not_equal(second, second)))
    return cast(single(close), BOOL)


@public()
def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Return whether elements of two arrays are close: abs(a - b) <= atol + rtol * abs(b)."""
    first = as_array(a, b)
    return call_operator(_isclose, first, as_array(b, first), rtol=rtol, atol=atol, equal_nan=equal_nan)


@public()
def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether all elements of two arrays are close."""
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


def _values(value: Any) -> Any:
    return read(value) if isinstance(value, NDArray) else value


@public()
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Return whether two arrays have the same shape and equal elements."""
    return bool(np.array_equal(_values(a1), _values(a2), equal_nan))


@public()
def array_equiv(a1: Any, a2: Any) -> bool:
    """Return whether two arrays broadcast to the same shape with equal elements."""
    return bool(np.array_equiv(_values(a1), _values(a2)))


@expression("_bincount")
def _bincount(x: Node, weights: Node | None = None, *, length: int) -> Node:
    """Return the count of each number, or the sum of its weights."""
    index = cast(x, INT64)
    added = full(x.shape, 1, INT64 if kind_of(x.dtype) == "f" else x.dtype, x.context) if weights is None else weights
    return scatter_add(added, index, (length,))


@public()
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """Return the count of each integer from 0 to the largest in a vector, or the sum of its weights."""
    values = read(x)
    if values.ndim != 1 or (values.size and values.min() < 0):
        raise ValueError("bincount takes a vector of non-negative integers")
    length = max(int(values.max()) + 1 if values.size else 0, int(minlength))
    if weights is None:
        return call_operator(_bincount, x, length=length)
    return call_operator(_bincount, x, weights, length=length)
