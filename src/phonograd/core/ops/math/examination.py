"""Tests of values: finite, nonzero, and closeness of two arrays. Gradients are zero."""

from __future__ import annotations

import math

import numpy as np

from ...base.dtypes import FLOAT32, INT64, UINT8, is_floating
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Onnx, outputs_of_type
from ...graph.node import Node
from ...graph.operator import Array, Spec, composite, nothing, operator, single
from ...graph.partial_shapes import constant_results
from ...lower.lowering import FLOATS, Expansion
from ..reduce.reduction import min_axes
from .broadcasting import same_dtype, sum_to
from .comparison import equal, lesser, lesser_equal, logical_and, logical_or, not_equal
from .elementary import abs_
from .primitives import cast, reshape_to
from .structural import constant

__all__ = ["all_finite", "allclose", "isfinite", "isinf", "isnan"]


@composite(name="_contrib_isnan", onnx=Onnx("IsNaN", writes=False))
def isnan(data: Node) -> Node:
    """Return 1 where an element is NaN, else 0, in the dtype of the array."""
    return single(not_equal(data, data))


@composite(name="_contrib_isinf", onnx=Onnx("IsInf", writes=False))
def isinf(data: Node) -> Node:
    """Return 1 where an element is infinite, else 0, in the dtype of the array."""
    if not is_floating(data.dtype):
        return single(not_equal(data, data))
    return single(equal(abs_(data), constant(math.inf, data.dtype)))


@composite(name="_contrib_isfinite")
def isfinite(data: Node) -> Node:
    """Return 1 where an element is neither infinite nor NaN, else 0, in the dtype of the array."""
    if not is_floating(data.dtype):
        return single(equal(data, data))
    return single(lesser(abs_(data), constant(math.inf, data.dtype)))


def _all(held: Node) -> Node:
    """Return 1 if a condition (an array of 0 and 1) holds for all elements, else 0."""
    return min_axes(held, tuple(range(held.ndim)))


def _expand_allclose(a: Node, b: Node, *, rtol: float, atol: float, equal_nan: bool) -> Node | None:
    if a.size == 0 or not a.shape:
        return None
    near = lesser_equal(abs_(a - b), constant(atol, a.dtype) + constant(rtol, a.dtype) * abs_(b))
    close = logical_or(logical_and(near, isfinite(b)), equal(a, b))
    if equal_nan:
        close = logical_or(close, logical_and(isnan(a), isnan(b)))
    return cast(_all(single(close)), UINT8)


@operator(name="_contrib_allclose", gradient=nothing, lowering=Expansion(_expand_allclose, FLOATS | {UINT8}))
def allclose(a: Array, b: Array, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = True) -> Array:
    r"""Return one uint8: whether all elements of two arrays are close, \|a - b\| <= atol + rtol * \|b\|."""
    return np.asarray(np.allclose(a, b, rtol, atol, equal_nan), np.uint8)


@allclose.infer
def allclose_shape(a: Node, b: Node) -> Spec:
    same_dtype(a, b)
    if a.shape != b.shape:
        raise MXNetError(
            "Operator _contrib_allclose inferring shapes failed: the arrays must have equal shapes, not "
            f"{format_shape(a.shape)} and {format_shape(b.shape)}"
        )
    return (), UINT8


def _expand_getnnz(data: Node, *, axis: int | None) -> Node:
    counted = cast(not_equal(data, constant(0, data.dtype)), INT64)
    shape = (1, 1) if axis is None else tuple([1 if a == axis % 2 else extent for a, extent in enumerate(data.shape)])
    return reshape_to(sum_to(counted, shape), (1,) if axis is None else (data.shape[1 - axis % 2],))


@operator(name="_contrib_getnnz", gradient=nothing, lowering=Expansion(_expand_getnnz))
def getnnz(data: Array, *, axis: int | None = None) -> Array:
    """Return the number of nonzero elements of a matrix, in total or along an axis."""
    count = np.asarray(np.count_nonzero(data, axis), np.int64)
    return count.reshape(1) if axis is None else count


@getnnz.infer
def getnnz_shape(data: Node, *, axis: int | None) -> Spec:
    if data.ndim != 2:
        raise MXNetError(f"_contrib_getnnz takes a matrix, not an array of shape {format_shape(data.shape)}")
    if axis is None:
        return (1,), INT64
    if axis not in (-2, -1, 0, 1):
        raise MXNetError(f"_contrib_getnnz: a matrix has no axis {axis}")
    return (data.shape[1 - axis % 2],), INT64


def _expand_all_finite(*data: Node) -> Node | None:
    if 0 in [node.size for node in data]:
        return None
    found: Node | None = None
    for node in data:
        one = cast(_all(isfinite(node) if node.shape else isfinite(reshape_to(node, (1,)))), FLOAT32)
        found = one if found is None else found * one
    return None if found is None else reshape_to(found, (1,))


@operator(gradient=nothing, lowering=Expansion(_expand_all_finite))
def all_finite(data: Array, *, init_output: bool = True) -> Array:
    """Return 1 if all elements are finite, else 0, as one float32; ``init_output`` is accepted and ignored."""
    return np.asarray([np.isfinite(data).all()], np.float32)


@all_finite.infer
def all_finite_shape(data: Node) -> Spec:
    return (1,), FLOAT32


@operator(gradient=nothing, lowering=Expansion(_expand_all_finite))
def multi_all_finite(*data: Array, num_arrays: int = 1, init_output: bool = True) -> Array:
    """Return 1 if all elements of all arrays are finite, else 0, as one float32."""
    return np.asarray([all([np.isfinite(array).all() for array in data])], np.float32)


@multi_all_finite.infer
def multi_all_finite_shape(*data: Node) -> Spec:
    return (1,), FLOAT32


# -- symbol declarations

allclose.interface = Interface(types=outputs_of_type(np.dtype("uint8")))
multi_all_finite.interface = Interface(
    count="num_arrays",
    each="array_{}",
    types=outputs_of_type(np.dtype("float32")),
    results=constant_results(lambda **_: (1,)),
)
all_finite.interface = Interface(types=outputs_of_type(np.dtype("float32")), results=constant_results(lambda **_: (1,)))
