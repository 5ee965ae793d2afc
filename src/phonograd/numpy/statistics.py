"""Averages, covariance, differences, interpolation, polynomials, histograms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.array.handle import read
from ..core.array.values import naming_itself
from ..core.graph.node import Node
from ..core.graph.operator import single
from ..core.graph.parameters import Axis
from ..core.ops.math.broadcasting import broadcast
from ..core.ops.math.elementary import sqrt
from ..core.ops.math.primitives import matmul as product_of_matrices
from ..core.ops.math.primitives import permute, reshape_to
from ..core.ops.math.structural import full
from ..core.ops.reduce.reduction import sum_axes
from ..core.ops.shape.arrangement import slice_along
from ..core.ops.shape.shape import concatenate as joined
from ..ndarray.array import NDArray
from .creation import array, from_values
from .declaration import FUNCTIONS, expression, public
from .joining import concatenate
from .promotion import as_float, promote
from .reductions import axes_of, mean_of
from .shaping import call_operator, real_axis

__all__: list[str] = []


@expression("_average")
def _average(a: Node, weights: Node | None = None, *, axis: Axis = None) -> Any:
    """Return the weighted mean along axes, and the sum of the weights."""
    data = as_float(a)
    axes = axes_of(a, axis, "average")
    if weights is None:
        count = math.prod([a.shape[one] for one in axes])
        mean = mean_of(data, axes, keepdims=False)
        return mean, full(mean.shape, count, mean.dtype, mean.context)
    data, weight = promote(data, as_float(weights))
    if weight.shape != data.shape:
        if len(axes) != 1 or weight.ndim != 1 or weight.shape[0] != data.shape[axes[0]]:
            raise ValueError(f"weights of shape {weight.shape} do not fit an array of shape {a.shape} along {axis}")
        weight = reshape_to(weight, (weight.shape[0], *(1,) * (data.ndim - 1 - axes[0])))
        weight = broadcast(weight, data.shape)
    total = sum_axes(weight, axes)
    return sum_axes(data * weight, axes) / total, total


@public()
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, out: Any = None) -> Any:
    """Return the weighted mean along axes, and with ``returned`` also the sum of the weights."""
    axis = tuple(axis) if isinstance(axis, list) else axis
    given = (a,) if weights is None else (a, weights)
    mean, total = call_operator(_average, *given, axis=axis)
    if out is not None:
        out[...] = mean
        mean = out
    return (mean, total) if returned else mean


@expression("_covariance")
def _covariance(m: Node, *, rowvar: bool, ddof: int, normalized: bool) -> Node:
    """Return the covariance matrix of variables, or with ``normalized`` their correlation matrix."""
    data = as_float(m)
    if data.ndim < 2:
        data = reshape_to(data, (1, data.size))
    elif not rowvar and data.shape[0] != 1:
        data = permute(data, (1, 0))
    deviation = data - mean_of(data, (1,), keepdims=True)
    found = product_of_matrices(deviation, permute(deviation, (1, 0))) / (data.shape[1] - ddof)
    if normalized:
        spread = single(sqrt(single(FUNCTIONS["diagonal"](found))))
        found = found / reshape_to(spread, (spread.size, 1)) / spread
    return reshape_to(found, ()) if found.shape == (1, 1) else found


def _variables(m: Any, y: Any, rowvar: bool) -> Any:
    if y is None:
        return m
    rows = [x if x.ndim > 1 else x.reshape(1, -1) for x in (m, y)]
    return concatenate([x if rowvar or x.shape[0] == 1 else x.T for x in rows], 0)


@public()
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None) -> Any:
    """Return the covariance matrix of variables; each row holds one variable (each column with ``rowvar=False``)."""
    taken = (0 if bias else 1) if ddof is None else ddof
    return call_operator(
        _covariance, _variables(m, y, rowvar), rowvar=rowvar if y is None else True, ddof=taken, normalized=False
    )


@public()
def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """Return the correlation matrix of variables; each row holds one variable (each column with ``rowvar=False``)."""
    data = _variables(x, y, rowvar)
    return call_operator(_covariance, data, rowvar=rowvar if y is None else True, ddof=1, normalized=True)


# -- differences and integrals


@expression("_diff")
def _diff(a: Node, *, n: int = 1, axis: int = -1) -> Node:
    """Return the n-th differences of adjacent elements along an axis."""
    axis = real_axis(axis, a.ndim, "diff")
    for _ in range(n):
        extent = a.shape[axis]
        if extent < 2:
            return slice_along(a, axis, 0, 0)
        after, before = slice_along(a, axis, 1, extent), slice_along(a, axis, 0, extent - 1)
        a = after - before
    return a


@public()
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Return the n-th differences of adjacent elements along an axis."""
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if prepend is not None or append is not None:
        raise NotImplementedError("prepend and append options are not supported yet")
    return call_operator(_diff, a, n=n, axis=axis)


@public()
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Return the differences of adjacent elements of the flattened array, with values added at both ends."""
    parts = [call_operator(_diff, ary.reshape(-1))]
    for value, place in ((to_begin, 0), (to_end, len(parts) + 1)):
        if value is not None:
            given = value if isinstance(value, NDArray) else array(value, dtype=ary.dtype)
            parts.insert(place, given.astype(ary.dtype, copy=False).reshape(-1))
    return concatenate(parts) if len(parts) > 1 else parts[0]


@public("trapz", "trapezoid")
def trapz(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    """Integrate along an axis by the trapezoidal rule; integers are converted to float64."""
    if y.dtype.kind not in "fV":
        y = y.astype("float64")
    axis = real_axis(axis, y.ndim, "trapz")
    before, after = (slice(None),) * axis + (slice(None, -1),), (slice(None),) * axis + (slice(1, None),)
    widths: Any = dx
    if x is not None:
        widths = call_operator(_diff, x, axis=0 if x.ndim == 1 else axis)
        if x.ndim == 1 and y.ndim > 1:
            widths = widths.reshape([-1 if place == axis else 1 for place in range(y.ndim)])
    return ((y[before] + y[after]) * widths / 2).sum(axis=axis)


@expression("cumprod")
def cumprod(a: Node, *, axis: int | None = None) -> Node:
    """Return cumulative products along an axis, or of the flattened array, by a logarithmic number of doublings."""
    if axis is None:
        a, axis = reshape_to(a, (a.size,)), 0
    axis = real_axis(axis, a.ndim, "cumprod")
    extent, shift = a.shape[axis], 1
    while shift < extent:
        ones = full((*a.shape[:axis], shift, *a.shape[axis + 1 :]), 1, a.dtype, a.context)
        a = a * joined([ones, slice_along(a, axis, 0, extent - shift)], axis)
        shift *= 2
    return a


# -- interpolation and polynomials


@public()
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None) -> Any:
    """Interpolate linearly at ``x`` between points with ascending ``xp`` and values ``fp``.

    ``left`` and ``right`` are the values outside the range. Gradients pass to ``x`` and ``fp``.
    """
    if period is not None:
        return from_values(np.interp(_values(x), _values(xp), _values(fp), left, right, period))
    # float64, as in MXNet, which calls NumPy's function
    xs, ys = [(part if isinstance(part, NDArray) else array(part)).astype("float64") for part in (x, fp)]
    abscissas = np.asarray(_values(xp))
    if len(abscissas) != len(ys):
        raise ValueError("fp and xp are not of the same length.")
    values = read(xs)
    if len(abscissas) == 1:
        found = xs * 0 + ys[0]
    else:
        place = np.clip(np.searchsorted(abscissas, values, side="right") - 1, 0, len(abscissas) - 2)
        low, width = abscissas[place], abscissas[place + 1] - abscissas[place]
        first, second = ys[np.asarray(place)], ys[np.asarray(place + 1)]
        part = (xs - array(low, dtype=xs.dtype)) / array(width, dtype=xs.dtype)
        found = first + (second - first) * part
    where = FUNCTIONS["where"]
    below, above = from_values(values < abscissas[0]), from_values(values > abscissas[-1])
    found = where(below, ys[0] if left is None else array(left, dtype=found.dtype), found)
    return where(above, ys[-1] if right is None else array(right, dtype=found.dtype), found)


def _values(value: Any) -> Any:
    return read(value) if isinstance(value, NDArray) else value


@expression("polyval")
def polyval(p: Node, x: Node) -> Node:
    """Evaluate at ``x`` the polynomial with coefficients ``p``, highest power first."""
    coefficients, places = promote(p, x)
    result = full(places.shape, 0, places.dtype, places.context)
    for number in range(coefficients.shape[0]):
        one = reshape_to(slice_along(coefficients, 0, number, number + 1), ())
        result = result * places + one
    return result


# -- histograms


@public()
@naming_itself
def histogram(
    a: Any,
    bins: Any = 10,
    range: Any = None,  # noqa: A002 - MXNet's name
    normed: Any = None,
    weights: Any = None,
    density: Any = None,
) -> Any:
    """Return the number of elements in each bin (int64), and the edges of the bins."""
    if normed is True or normed is False:
        raise NotImplementedError("normed option is not supported yet...")
    if weights is not None:
        raise NotImplementedError("weights option is not supported yet...")
    if density is True:
        raise NotImplementedError("density option is not supported yet...")
    counts, edges = np.histogram(read(a), _values(bins), range)
    found = bins if isinstance(bins, NDArray) else from_values(edges.astype(np.float32))
    return from_values(counts.astype(np.int64)), found
