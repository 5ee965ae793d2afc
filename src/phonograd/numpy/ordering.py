"""Sorting, medians, quantiles and unique elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.array.handle import read
from ..core.base.dtypes import INT64
from ..core.graph.node import Node, Shape
from ..core.graph.operator import REGISTRY, single
from ..core.graph.parameters import Axis, Floats
from ..core.ops.math.primitives import permute, reshape_to
from ..core.ops.shape.arrangement import slice_along
from ..ndarray.array import NDArray
from .creation import from_values
from .declaration import expression, public
from .joining import concatenate
from .promotion import as_float
from .reductions import axes_of
from .shaping import call_operator, real_axis

__all__: list[str] = []


@expression("sort")
def sort(a: Node, *, axis: int | None = -1, kind: str | None = None, order: str | None = None) -> Node:
    """Sort the elements along an axis, or those of the flattened array."""
    return single(REGISTRY["sort"](a if a.shape else reshape_to(a, (1,)), axis=axis))


@expression("argsort", method="argsort")
def argsort(a: Node, *, axis: int | None = -1, kind: str | None = None, order: str | None = None) -> Node:
    """Return the indices that sort the array along an axis, or the flattened array, as int64."""
    return single(REGISTRY["argsort"](a if a.shape else reshape_to(a, (1,)), axis=axis, dtype=INT64))


@expression("msort")
def msort(a: Node) -> Node:
    """Sort the elements along the first axis."""
    return single(REGISTRY["sort"](a, axis=0))


def _lines(a: Node, axis: Axis, name: str) -> tuple[Node, Shape, Shape]:
    """Return the reduced axes merged into one last axis, the remaining axes, and the reduced ones."""
    axes = axes_of(a, axis, name)
    others = tuple([place for place in range(a.ndim) if place not in axes])
    moved = permute(a, others + axes)
    return reshape_to(moved, (*moved.shape[: len(others)], math.prod(moved.shape[len(others) :]))), others, axes


def _between(ordered: Node, place: float, method: str) -> Node:
    """Return the value at a fractional index of sorted lines."""
    last, extent = ordered.ndim - 1, ordered.shape[-1]
    lower = min(math.floor(place), extent - 1)
    upper = min(lower + 1, extent - 1)
    part = place - lower
    if method == "lower" or not part:
        upper = lower
    elif method == "higher":
        lower = upper
    elif method == "nearest":
        # ties go to the even index
        lower = upper = round(place)
    elif method == "midpoint":
        part = 0.5
    elif method != "linear":
        raise ValueError(f"interpolation must be linear, lower, higher, midpoint or nearest, not {method!r}")
    first = slice_along(ordered, last, lower, lower + 1)
    if lower == upper:
        return first
    second = slice_along(ordered, last, upper, upper + 1)
    return first + (second - first) * part


@expression("_quantiles")
def _quantiles(a: Node, *, q: Floats, axis: Axis = None, method: str = "linear", keepdims: bool = False) -> Any:
    """Return quantiles along axes, one array per element of ``q``."""
    lines, others, axes = _lines(as_float(a), axis, "quantile")
    if not lines.shape[-1]:
        raise ValueError("quantile of an empty array")
    ordered = single(REGISTRY["sort"](lines, axis=-1))
    kept = tuple([a.shape[place] for place in others])
    shape = tuple([1 if place in axes else extent for place, extent in enumerate(a.shape)]) if keepdims else kept
    places = [one * (lines.shape[-1] - 1) for one in q]
    found = tuple([reshape_to(_between(ordered, place, method), shape) for place in places])
    return found[0] if len(found) == 1 else found


def _quantile(a: Any, q: Any, axis: Any, out: Any, method: str, keepdims: bool) -> Any:
    values = np.asarray(q, np.float64)
    if ((values < 0) | (values > 1)).any():
        raise ValueError("Quantiles must be in the range [0, 1]")
    axis = tuple(axis) if isinstance(axis, list) else axis
    flat = tuple(values.reshape(-1).tolist())
    if not flat:
        raise ValueError("quantile needs at least one q")
    found = call_operator(_quantiles, a, q=flat, axis=axis, method=method, keepdims=keepdims)
    if values.ndim:
        rows = found if isinstance(found, list) else [found]
        found = concatenate([row.reshape((1, *row.shape)) for row in rows], 0)
        found = found.reshape((*values.shape, *found.shape[1:]))
    if out is None:
        return found
    out[...] = found
    return out


def _q_of(q: Any) -> Any:
    return read(q) if isinstance(q, NDArray) else q


@public()
def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = None,
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Return the q-th quantiles along axes, with q in [0, 1]; values between two elements are interpolated."""
    return _quantile(a, _q_of(q), axis, out, interpolation, keepdims)


@public()
def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: Any = None,
    interpolation: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Return the q-th percentiles along axes, with q in [0, 100]."""
    values = np.asarray(_q_of(q), np.float64)
    if ((values < 0) | (values > 100)).any():
        raise ValueError("Percentiles must be in the range [0, 100]")
    return _quantile(a, values / 100, axis, out, interpolation, keepdims)


@public()
def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool | None = None, keepdims: bool = False
) -> Any:
    """Return the median along axes: the middle element, or the mean of the two middle elements."""
    return _quantile(a, 0.5, axis, out, "midpoint", keepdims)


@public()
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """Return the sorted unique elements; on request also their first indices, the inverse indices and the counts.

    The number of unique elements depends on values, so they are computed at the call.
    """
    values = read(ar)
    _, first, inverse, counts = np.unique(values, True, True, True, axis=axis)
    if axis is None:
        taken = ar.reshape(-1)[np.asarray(first, np.int64)] if first.size else ar.reshape(-1)
        inverse = inverse.reshape(-1)
    else:
        axis = real_axis(axis, ar.ndim, "unique")
        taken = ar[(slice(None),) * axis + (np.asarray(first, np.int64),)]
    asked = ((return_index, first), (return_inverse, inverse.reshape(-1)), (return_counts, counts))
    more = [from_values(np.asarray(value, np.int64)) for wanted, value in asked if wanted]
    return (taken, *more) if more else taken
