"""Reductions along axes: sums, products, means, variances, extrema and their indices, all, any, cumulative sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.base.dtypes import BOOL, FLOAT32, INT64, DType, kind_of
from ..core.base.errors import MXNetError
from ..core.graph.node import Node, Shape
from ..core.graph.operator import REGISTRY, single
from ..core.graph.parameters import Axis
from ..core.ops.math.comparison import not_equal
from ..core.ops.math.elementary import sqrt
from ..core.ops.math.primitives import cast, reshape_to, select
from ..core.ops.reduce.reduction import max_axes, min_axes, prod_axes, sum_axes
from .declaration import expression
from .promotion import as_float

__all__ = ["axes_of", "mean_of", "variance_of"]


def axes_of(data: Node, axis: Axis, name: str) -> Shape:
    """Return the reduced axes, counted from the front; None means all axes."""
    if axis is None:
        return tuple(range(data.ndim))
    given = (axis,) if isinstance(axis, int) else axis
    for one in given:
        if not -data.ndim <= one < data.ndim:
            raise MXNetError(f"axis {one} is out of bounds for array of dimension {data.ndim}, in {name}")
    axes = tuple([one % data.ndim for one in given])
    if len(set(axes)) != len(axes):
        raise MXNetError(f"duplicate value in axis {axis}, in {name}")
    return axes


def _summand(data: Node, dtype: DType | None) -> Node:
    """Convert the operand of a sum: booleans become int64, numbers the requested dtype."""
    if dtype is not None:
        return cast(data, dtype)
    return cast(data, INT64) if data.dtype == BOOL else data


@expression("sum", method="sum", in_files="_np_sum")
def sum_(
    a: Node, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False, initial: float | None = None
) -> Node:
    """Return the sum along axes; over all axes by default, which returns a 0-d array.

    Booleans are counted as int64; ``dtype`` converts numbers before they are summed.
    """
    total = sum_axes(_summand(a, dtype), axes_of(a, axis, "sum"), keepdims)
    return total if initial is None else total + initial


@expression("prod", "product", method="prod", in_files="_np_prod")
def prod(
    a: Node, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False, initial: float | None = None
) -> Node:
    """Return the product along axes; over all axes by default."""
    product = prod_axes(_summand(a, dtype), axes_of(a, axis, "prod"), keepdims)
    return product if initial is None else product * initial


def mean_of(data: Node, axes: Shape, keepdims: bool) -> Node:
    """Return the mean of floating point numbers along axes; float16 accumulates in float32."""
    count = math.prod([data.shape[axis] for axis in axes])
    wide = cast(data, FLOAT32) if data.dtype.itemsize == 2 else data
    return cast(sum_axes(wide, axes, keepdims) / count, data.dtype)


@expression("mean", method="mean")
def mean(a: Node, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False) -> Node:
    """Return the mean along axes; the mean of integers is float32 unless ``dtype`` is given."""
    wide = as_float(a) if dtype is None else cast(a, dtype)
    if kind_of(wide.dtype) != "f":
        return cast(mean_of(as_float(a), axes_of(a, axis, "mean"), keepdims), wide.dtype)
    return mean_of(wide, axes_of(a, axis, "mean"), keepdims)


def variance_of(data: Node, axes: Shape, ddof: int, keepdims: bool) -> Node:
    """Return the variance of floating point numbers along axes; the divisor is n - ``ddof``."""
    wide = cast(data, FLOAT32) if data.dtype.itemsize == 2 else data
    deviation = wide - mean_of(wide, axes, keepdims=True)
    count = math.prod([data.shape[axis] for axis in axes]) - ddof
    return cast(sum_axes(deviation * deviation, axes, keepdims) / count, data.dtype)


@expression("var", method="var")
def var(a: Node, *, axis: Axis = None, dtype: DType | None = None, ddof: int = 0, keepdims: bool = False) -> Node:
    """Return the variance along axes: the sum of squared deviations divided by n - ``ddof``."""
    wide = as_float(a) if dtype is None else cast(a, dtype)
    return variance_of(as_float(wide), axes_of(a, axis, "var"), ddof, keepdims)


@expression("std", method="std")
def std(a: Node, *, axis: Axis = None, dtype: DType | None = None, ddof: int = 0, keepdims: bool = False) -> Node:
    """Return the standard deviation along axes, the square root of the variance."""
    wide = as_float(a) if dtype is None else cast(a, dtype)
    return single(sqrt(variance_of(as_float(wide), axes_of(a, axis, "std"), ddof, keepdims)))


@expression("max", "amax", method="max", in_files="_np_max")
def max_(a: Node, *, axis: Axis = None, keepdims: bool = False) -> Node:
    """Return the largest element along axes; over all axes by default."""
    return max_axes(a, axes_of(a, axis, "max"), keepdims)


@expression("min", "amin", method="min", in_files="_np_min")
def min_(a: Node, *, axis: Axis = None, keepdims: bool = False) -> Node:
    """Return the smallest element along axes; over all axes by default."""
    return min_axes(a, axes_of(a, axis, "min"), keepdims)


@expression("ptp", method="ptp")
def ptp(a: Node, *, axis: Axis = None, keepdims: bool = False) -> Node:
    """Return the range along axes: the largest minus the smallest element."""
    axes = axes_of(a, axis, "ptp")
    return max_axes(a, axes, keepdims) - min_axes(a, axes, keepdims)


def truth_of(node: Node) -> Node:
    """Return whether elements are nonzero."""
    return node if node.dtype == BOOL else cast(not_equal(node, 0), BOOL)


@expression("all", "alltrue", method="all", in_files="_np_all")
def all_(a: Node, *, axis: Axis = None, keepdims: bool = False) -> Node:
    """Return whether all elements along axes are nonzero."""
    axes = axes_of(a, axis, "all")
    if 0 in [a.shape[axis] for axis in axes]:
        return cast(prod_axes(cast(truth_of(a), FLOAT32), axes, keepdims), BOOL)
    return min_axes(truth_of(a), axes, keepdims)


@expression("any", "sometrue", method="any", in_files="_np_any")
def any_(a: Node, *, axis: Axis = None, keepdims: bool = False) -> Node:
    """Return whether any element along axes is nonzero."""
    axes = axes_of(a, axis, "any")
    if 0 in [a.shape[axis] for axis in axes]:
        return truth_of(sum_axes(cast(truth_of(a), INT64), axes, keepdims))
    return max_axes(truth_of(a), axes, keepdims)


@expression("count_nonzero")
def count_nonzero(a: Node, *, axis: Axis = None, keepdims: bool = False) -> Node:
    """Return the number of nonzero elements along axes."""
    return sum_axes(cast(truth_of(a), INT64), axes_of(a, axis, "count_nonzero"), keepdims)


def _position(name: str, word: str) -> Any:
    declared = REGISTRY[name]

    def body(a: Node, *, axis: int | None = None, keepdims: bool = False) -> Node:
        if kind_of(a.dtype) not in "f" or a.dtype.itemsize == 2:
            # indices are computed in the dtype of the data, which must be able to hold them
            a = cast(a, INT64 if kind_of(a.dtype) != "f" else FLOAT32)
        axes = axes_of(a, axis, name)
        found = single(declared(a, axis=axis, keepdims=True))
        shape = tuple([extent for place, extent in enumerate(found.shape) if keepdims or place not in axes])
        return cast(reshape_to(found, shape), INT64)

    body.__doc__ = f"Return the index of the {word} element along an axis, or in the flattened array, as int64."
    return expression(name, method=name)(body)


argmax, argmin = _position("argmax", "largest"), _position("argmin", "smallest")


@expression("cumsum", method="cumsum", in_files="_np_cumsum")
def cumsum(a: Node, *, axis: int | None = None, dtype: DType | None = None) -> Node:
    """Return cumulative sums along an axis, or of the flattened array."""
    return single(REGISTRY["cumsum"](a, axis=axis, dtype=dtype))


def _without_nan(node: Node, replacement: float) -> Node:
    return node if kind_of(node.dtype) != "f" else select(not_equal(node, node), replacement, node)


@expression("nansum", method="nansum")
def nansum(a: Node, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False) -> Node:
    """Return the sum along axes, ignoring NaN."""
    return sum_axes(_summand(_without_nan(a, 0), dtype), axes_of(a, axis, "nansum"), keepdims)


@expression("nanprod", method="nanprod")
def nanprod(a: Node, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False) -> Node:
    """Return the product along axes, ignoring NaN."""
    return prod_axes(_summand(_without_nan(a, 1), dtype), axes_of(a, axis, "nanprod"), keepdims)


@expression("nancumsum")
def nancumsum(a: Node, *, axis: int | None = None, dtype: DType | None = None) -> Node:
    """Return cumulative sums along an axis, counting NaN as zero."""
    return single(REGISTRY["cumsum"](_without_nan(a, 0), axis=axis, dtype=dtype))


@expression("nanmax")
def nanmax(a: Node, *, axis: Axis = None, keepdims: bool = False) -> Node:
    """Return the largest element along axes, ignoring NaN."""
    return max_axes(_without_nan(a, -np.inf), axes_of(a, axis, "nanmax"), keepdims)


@expression("nanmin")
def nanmin(a: Node, *, axis: Axis = None, keepdims: bool = False) -> Node:
    """Return the smallest element along axes, ignoring NaN."""
    return min_axes(_without_nan(a, np.inf), axes_of(a, axis, "nanmin"), keepdims)


@expression("nanmean")
def nanmean(a: Node, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False) -> Node:
    """Return the mean along axes, ignoring NaN."""
    wide = as_float(a) if dtype is None else as_float(cast(a, dtype))
    axes = axes_of(a, axis, "nanmean")
    count = sum_axes(cast(single(REGISTRY["broadcast_equal"](wide, wide)), wide.dtype), axes, keepdims)
    return sum_axes(_without_nan(wide, 0), axes, keepdims) / count
