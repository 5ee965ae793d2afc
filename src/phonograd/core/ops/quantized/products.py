"""Exact products of int8 weights with int8 or uint8 data: a matrix product and a convolution.

Both add up in int32. Their scaled forms return ``round((sum + bias) * scale)`` with one int32 bias and one scale for
each column or filter, clamped to the limits of int8 or uint8; a float32 result is not rounded. So one kernel
multiplies, adds the bias, scales, applies ReLU and requantizes. The sums are integers, so they do not depend on the
instructions of the processor or on their order. See ``docs/decisions/0024-quantized-networks.md``.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ...base.dtypes import FLOAT32, INT8, INT32, UINT8, DType, name_of
from ...base.errors import MXNetError
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, nothing, operator
from ...lower.ir.emitter import Emitter, Value
from ...lower.lowering_protocol import Library
from ..nn.windows import column_matrix, pad_spatial, window_counts

__all__ = [
    "LIMITS",
    "QuantizedProduct",
    "emit_rounded",
    "emit_saturate",
    "int8_convolution",
    "int8_convolution_scaled",
    "int8_product",
    "int8_product_scaled",
    "saturate",
]

#: the least and the greatest value of quantized dtypes; that of int32 is the greatest one that float32 has
LIMITS: dict[DType, tuple[int, int]] = {INT8: (-128, 127), UINT8: (0, 255), INT32: (-(1 << 31), (1 << 31) - 128)}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class QuantizedProduct(Library):
    """The kernels of a product of small integers; ``windows`` tells a convolution from a matrix product."""

    kernel = "phonograd.core.kernels.quantized.plans"
    combines = True

    windows: bool = False
    dtypes: frozenset[DType] = frozenset([INT8, UINT8, INT32, FLOAT32])


def saturate(values: Array, dtype: DType, relu: bool = False) -> Array:
    """Return float32 values rounded to the nearest integers (halves to even ones) and clamped to a dtype."""
    low, high = LIMITS[dtype]
    least = np.float32(0 if relu else low)
    # NaN becomes the least value, as in kernels
    inside = np.where(values > least, np.where(values < np.float32(high), values, np.float32(high)), least)
    return np.rint(inside).astype(dtype)


def emit_rounded(e: Emitter, value: Value, dtype: DType, relu: bool = False) -> Value:
    """Return a float32 value rounded and clamped to the limits of a dtype, in int32."""
    low, high = LIMITS[dtype]
    least, most = e.like(value, 0 if relu else low), e.like(value, high)
    value = e.select(e.compare("ogt", value, least), value, least)
    value = e.select(e.compare("olt", value, most), value, most)
    return e.truncate(e.call("rint", value), INT32)


def emit_saturate(e: Emitter, value: Value, dtype: DType, relu: bool = False) -> Value:
    """Return a float32 value rounded and clamped to a dtype, as :func:`saturate` does."""
    return e.convert(emit_rounded(e, value, dtype, relu), dtype)


def _finish(sums: Array, scale: Array, bias: Array, dtype: DType, relu: bool) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        values = (sums + bias).astype(np.float32) * scale
    if dtype == FLOAT32:
        return np.maximum(values, np.float32(0)) if relu else values
    return saturate(values, dtype, relu)


def _wrap(sums: Array) -> Array:
    """Return exact sums in double precision as int32; sums beyond its range wrap around."""
    return sums.astype(np.int64).astype(np.int32)


def _cost(node: Node) -> float:
    return 2.0 * node.size * math.prod(node.inputs[1].shape[1:])


# -- matrix products


@operator(name="_int8_product", gradient=nothing, cost=_cost, lowering=QuantizedProduct())
def int8_product(data: Array, weight: Array) -> Array:
    """Return the product of a matrix and a transposed matrix of int8, in int32."""
    return _wrap(data.astype(np.float64) @ weight.astype(np.float64).T)


@int8_product.infer
def int8_product_shape(data: Node, weight: Node) -> Spec:
    _check(data, weight)
    return (data.shape[0], weight.shape[0]), INT32


@operator(name="_int8_product_scaled", gradient=nothing, cost=_cost, lowering=QuantizedProduct())
def int8_product_scaled(data: Array, weight: Array, scale: Array, bias: Array, *, dtype: DType, relu: bool) -> Array:
    """Return the product of a matrix and a transposed matrix of int8, scaled and rounded to a dtype."""
    return _finish(int8_product.function(data, weight), scale, bias, dtype, relu)


@int8_product_scaled.infer
def int8_product_scaled_shape(data: Node, weight: Node, scale: Node, bias: Node, *, dtype: DType) -> Spec:
    _check(data, weight, scale, bias)
    return (data.shape[0], weight.shape[0]), dtype


# -- convolutions


@operator(name="_int8_convolution", gradient=nothing, cost=_cost, lowering=QuantizedProduct(windows=True))
def int8_convolution(data: Array, weight: Array, *, stride: Shape, dilate: Shape, pad: Shape, groups: int) -> Array:
    """Return the cross-correlation of images with filters of int8, in int32."""
    kernel = weight.shape[2:]
    counts = window_counts("_int8_convolution", data.shape[2:], kernel, stride, dilate, pad)
    image = pad_spatial(data, pad).astype(np.float64)
    filters, rows = weight.shape[0], math.prod(weight.shape[1:])
    matrices = weight.astype(np.float64).reshape(groups, filters // groups, rows)
    out = np.empty((data.shape[0], filters, *counts), np.int32)
    for number in range(data.shape[0]):
        columns = column_matrix(image[number : number + 1], kernel, stride, dilate, counts, groups)
        out[number] = _wrap(np.matmul(matrices, columns)).reshape(filters, *counts)
    return out


@int8_convolution.infer
def int8_convolution_shape(data: Node, weight: Node, *, stride: Shape, dilate: Shape, pad: Shape, groups: int) -> Spec:
    _check(data, weight)
    assert data.shape[1] == weight.shape[1] * groups, (data, weight)
    counts = window_counts("_int8_convolution", data.shape[2:], weight.shape[2:], stride, dilate, pad)
    return (data.shape[0], weight.shape[0], *counts), INT32


@operator(name="_int8_convolution_scaled", gradient=nothing, cost=_cost, lowering=QuantizedProduct(windows=True))
def int8_convolution_scaled(
    data: Array,
    weight: Array,
    scale: Array,
    bias: Array,
    *,
    stride: Shape,
    dilate: Shape,
    pad: Shape,
    groups: int,
    dtype: DType,
    relu: bool,
) -> Array:
    """Return the cross-correlation of images with filters of int8, scaled and rounded to a dtype."""
    sums = int8_convolution.function(data, weight, stride=stride, dilate=dilate, pad=pad, groups=groups)
    factors = [vector.reshape(-1, *(1,) * (sums.ndim - 2)) for vector in (scale, bias)]
    return _finish(sums, factors[0], factors[1], dtype, relu)


@int8_convolution_scaled.infer
def int8_convolution_scaled_shape(data: Node, weight: Node, scale: Node, bias: Node, **window: Any) -> Spec:
    dtype, _ = window.pop("dtype"), window.pop("relu")
    shape, _ = int8_convolution_shape(data, weight, **window)
    _check(data, weight, scale, bias)
    return shape, dtype


def _check(data: Node, weight: Node, *vectors: Node) -> None:
    assert data.dtype in (INT8, UINT8), data
    assert weight.dtype == INT8, weight
    assert all([vector.shape == weight.shape[:1] for vector in vectors]), vectors
    for vector, dtype in zip(vectors, (FLOAT32, INT32)):
        if vector.dtype != dtype:
            raise MXNetError(
                f"scales of quantized products must be float32, and biases int32, not {name_of(vector.dtype)}"
            )
