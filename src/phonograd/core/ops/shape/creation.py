"""Operators that create arrays from numbers or from the shape of another array. Their gradients are zero.

Operators without inputs create the array in the default context; the caller moves it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.dtypes import DType, convert_scalar, kind_of
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, outputs_of_type
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, composite, nothing, operator, single
from ...graph.partial_shapes import constant_results
from ...graph.shapes import real_axis
from ...lower.lowering import Coordinate, Expansion
from ..math.broadcasting import broadcast
from ..math.comparison import equal
from ..math.primitives import cast, reshape_to, select, slice_step
from ..math.structural import constant, full

__all__ = ["position_along"]

FLOAT32 = np.dtype("float32")
FLOAT64 = np.dtype("float64")
INT32 = np.dtype("int32")
INT64 = np.dtype("int64")


def _fill_like(value: float) -> Expansion:
    return Expansion(lambda data: full(data.shape, value, data.dtype, data.context))


@operator(gradient=nothing, method=True, lowering=_fill_like(0), answers="zeros_like", keeps_zero=True, moves=True)
def zeros_like(data: Array) -> Array:
    """Return an array of zeros with the shape and dtype of another array."""
    return np.zeros(data.shape, data.dtype)


@operator(gradient=nothing, method=True, lowering=_fill_like(1), answers="ones_like", moves=True)
def ones_like(data: Array) -> Array:
    """Return an array of ones with the shape and dtype of another array."""
    return np.ones(data.shape, data.dtype)


@composite(name="_zeros")
def zeros(*, shape: Shape, dtype: DType = FLOAT32) -> Node:
    """Return an array of zeros."""
    return full(shape, 0, dtype)


@composite(name="_ones")
def ones(*, shape: Shape, dtype: DType = FLOAT32) -> Node:
    """Return an array of ones."""
    return full(shape, 1, dtype)


@composite(name="_filled", in_files="_full")
def filled(*, shape: Shape, value: float, dtype: DType = FLOAT32) -> Node:
    """Return an array filled with a number; its symbol name is ``_full``."""
    return full(shape, value, dtype)


@operator(infer=lambda data: ((data.ndim,), INT64), gradient=nothing, method=True, npx="shape_array", moves=True)
def shape_array(data: Array) -> Array:
    """Return the shape of an array as an array of int64."""
    return np.array(data.shape, INT64)


@operator(infer=lambda data: ((1,), INT64), gradient=nothing, method=True, moves=True)
def size_array(data: Array) -> Array:
    """Return the number of elements of an array as an array of one int64."""
    return np.array([data.size], INT64)


# -- ranges


@operator(gradient=nothing, lowering=Coordinate(lambda *, axis: axis))
def _position_along(*, shape: Shape, axis: int, dtype: DType) -> Array:
    """Return the position of every element along an axis."""
    line = np.arange(shape[axis], dtype=dtype).reshape((-1,) + (1,) * (len(shape) - 1 - axis))
    return np.broadcast_to(line, shape)


@_position_along.infer
def position_along_shape(*, shape: Shape, axis: int, dtype: DType) -> Spec:
    return shape, dtype


def position_along(shape: Shape, axis: int, dtype: DType | None = None) -> Node:
    """Return a node with the position of every element along an axis (not negative).

    The dtype is an integer dtype; the default int32 is enough for all but the largest arrays.
    """
    if dtype is None:
        dtype = INT32 if shape[axis] <= np.iinfo(np.int32).max else INT64
    # always one line with views of it: if a plan writes it to memory, it writes only the line
    line = single(_position_along.apply((), (shape[axis : axis + 1], 0, dtype)))
    return broadcast(reshape_to(line, (shape[axis], *[1] * (len(shape) - 1 - axis))), shape)


def _progression(count: int, start: float, step: float, repeat: int, dtype: DType) -> Array:
    """Return ``count`` elements of start, start + step, ..., each ``repeat`` times, computed in the result dtype."""
    index = np.arange(count, dtype=INT64) // repeat
    if kind_of(dtype) == "f":
        wide = FLOAT32 if dtype.itemsize == 2 else dtype
        return np.asarray(convert_scalar(start, wide) + index.astype(wide) * convert_scalar(step, wide)).astype(dtype)
    first, difference = int(convert_scalar(start, dtype)), int(convert_scalar(step, dtype))
    return np.asarray(first + index * difference).astype(dtype)


def _expand_progression(count: int, start: float, step: float, repeat: int, dtype: DType) -> Node:
    """Return the node of a progression."""
    steps = -(-count // repeat)
    index = position_along((steps, 1), 0, INT64)
    if kind_of(dtype) == "f":
        wide = FLOAT32 if dtype.itemsize == 2 else dtype
        numbers = constant(start, wide) + cast(index, wide) * constant(step, wide)
    else:
        first, difference = int(convert_scalar(start, dtype)), int(convert_scalar(step, dtype))
        numbers = index * constant(difference, INT64) + constant(first, INT64)
    each = reshape_to(broadcast(cast(numbers, dtype), (steps, repeat)), (steps * repeat,))
    return slice_step(each, (0,), (count,))


def _range_bounds(start: float, stop: float | None) -> tuple[float, float]:
    return (0.0, start) if stop is None else (start, stop)


def _expand_arange(*, start: float, stop: float | None, step: float, repeat: int, dtype: DType) -> Node:
    first, last = _range_bounds(start, stop)
    return _expand_progression(math.ceil((last - first) / step) * repeat, first, step, repeat, dtype)


@operator(name="_arange", gradient=nothing, lowering=Expansion(_expand_arange))
def arange(
    *,
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool = False,
    dtype: DType = FLOAT32,
) -> Array:
    """Return evenly spaced numbers from start to stop (excluded), each repeated; arange(n) starts at 0."""
    first, last = _range_bounds(start, stop)
    return _progression(math.ceil((last - first) / step) * repeat, first, step, repeat, dtype)


@arange.infer
def arange_shape(
    *, start: float, stop: float | None, step: float, repeat: int, infer_range: bool, dtype: DType
) -> Spec:
    if infer_range and stop is None:
        raise MXNetError("Operator _arange inferring shapes failed. Give stop instead of infer_range=True.")
    if step == 0:
        raise MXNetError("Range does not support step=0, received 0")
    if repeat <= 0:
        raise MXNetError(f"Range only supports repeat > 0, received {repeat}")
    first, last = _range_bounds(start, stop)
    if not first < last if step > 0 else not first > last:
        raise MXNetError(f"Invalid range (start, stop, step) = ({first:g},{last:g},{step:g})")
    return (math.ceil((last - first) / step) * repeat,), dtype


def _expand_linspace(*, start: float, stop: float, num: int, endpoint: bool, dtype: DType) -> Node | None:
    parts = num - endpoint
    if parts < 1 or not (stop - start) / parts:
        return None
    place = position_along((num,), 0)
    line = cast(place, FLOAT64) * constant((stop - start) / parts, FLOAT64) + constant(start, FLOAT64)
    if endpoint:
        line = select(single(equal(place, constant(parts, place.dtype))), constant(stop, FLOAT64), line)
    return cast(line, dtype)


@operator(name="_linspace", gradient=nothing, lowering=Expansion(_expand_linspace))
def linspace(*, start: float, stop: float, num: int, endpoint: bool = True, dtype: DType = FLOAT32) -> Array:
    """Return ``num`` evenly spaced numbers from start to stop; ``endpoint`` includes stop."""
    return np.linspace(start, stop, num, endpoint).astype(dtype)


@linspace.infer
def linspace_shape(*, num: int, dtype: DType) -> Spec:
    if num < 0:
        raise MXNetError(f"Number of sequence should be non-negative, received {num}")
    return (num,), dtype


def _expand_eye(*, N: int, M: int, k: int, dtype: DType) -> Node:
    shape = N, M or N
    row, column = position_along(shape, 0, INT64), position_along(shape, 1, INT64)
    return select(single(equal(column - row, constant(k, INT64))), constant(1, dtype), constant(0, dtype))


@operator(name="_eye", gradient=nothing, lowering=Expansion(_expand_eye), moves=True)
def eye(*, N: int, M: int = 0, k: int = 0, dtype: DType = FLOAT32) -> Array:
    """Return a matrix with N rows, M (default N) columns, and ones on the k-th diagonal."""
    return np.eye(N, M or N, k, dtype)


@eye.infer
def eye_shape(*, N: int, M: int, dtype: DType) -> Spec:
    if N < 0 or M < 0:
        raise MXNetError(f"Shape dim size cannot be a negative value {min(N, M)}, in operator _eye")
    return (N, M or N), dtype


def _like_shape(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    return shape if axis is None else (shape[axis],)


def _expand_arange_like(data: Node, *, start: float, step: float, repeat: int, axis: int | None) -> Node:
    shape = _like_shape(data.shape, axis)
    return reshape_to(_expand_progression(math.prod(shape), start, step, repeat, data.dtype), shape)


@operator(
    name="_contrib_arange_like",
    gradient=nothing,
    lowering=Expansion(_expand_arange_like),
    npx="arange_like",
    moves=True,
)
def arange_like(
    data: Array, *, start: float = 0.0, step: float = 1.0, repeat: int = 1, axis: int | None = None
) -> Array:
    """Return evenly spaced numbers in the shape of an array, or as many as one axis is long."""
    shape = _like_shape(data.shape, axis)
    return _progression(math.prod(shape), start, step, repeat, data.dtype).reshape(shape)


@arange_like.infer
def arange_like_shape(data: Node, *, repeat: int, axis: int | None) -> Any:
    if repeat <= 0:
        raise MXNetError(f"Range only supports repeat > 0, received {repeat}, in operator _contrib_arange_like")
    if axis is not None and not -data.ndim <= axis < data.ndim:
        raise MXNetError(f"cannot handle param.axis {axis}. Operator arange_like got {format_shape(data.shape)}")
    return _like_shape(data.shape, None if axis is None else real_axis(axis, data.ndim, "arange_like")), data.dtype


# -- symbol declarations

shape_array.interface = Interface(
    types=outputs_of_type(INT64), results=lambda inputs: [(0 if inputs[0] is None else len(inputs[0]),)]
)
size_array.interface = Interface(types=outputs_of_type(INT64), results=constant_results(lambda **_: (1,)))
