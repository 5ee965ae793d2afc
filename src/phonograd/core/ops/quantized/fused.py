"""Layers of calibrated networks: product, scale, bias, ReLU and rounding in one operator with one result.

All ranges are known, so scales are parameters or small arrays, and no ranges are passed along the graph.
:mod:`phonograd.contrib.quantization` makes them from a network of real numbers.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from ...base.dtypes import FLOAT32, INT8, INT32, UINT8, DType
from ...base.errors import MXNetError
from ...graph.interface import Interface, Partial
from ...graph.node import Node, Shape
from ...graph.operator import composite, single
from ..math.arithmetic import maximum
from ..math.primitives import cast, reshape_to
from ..nn.convolution import convolution_weight_shape
from ..nn.windows import check_dimensions, check_window, complete, window_counts
from .products import int8_convolution_scaled, int8_product_scaled
from .ranges import number, require_dtype, to_dtype

__all__ = ["quantized_convolution", "quantized_dense", "quantized_sum"]


def _check(name: str, data: Node, weight: Node, expected: Shape, scale: Node, bias: Node) -> None:
    require_dtype(name, "data", data, INT8, UINT8)
    require_dtype(name, "weight", weight, INT8)
    if weight.shape != expected:
        raise MXNetError(f"the weight of operator {name} must have the shape {expected}, not {weight.shape}")
    for word, vector, dtype in (("scale", scale, FLOAT32), ("bias", bias, INT32)):
        require_dtype(name, word, vector, dtype)
        if vector.shape != expected[:1]:
            raise MXNetError(f"{word} of operator {name} must have the shape {expected[:1]}, not {vector.shape}")


@composite(name="_quantized_dense")
def quantized_dense(
    data: Node,
    weight: Node,
    scale: Node,
    bias: Node,
    *,
    num_hidden: int,
    flatten: bool = True,
    relu: bool = False,
    out_type: Literal["float32", "int8", "uint8"] = "float32",
) -> Node:
    """Return a linear transform of quantized data, ``round((sum + bias) * scale)`` for each row of the weight."""
    outer = data.shape[:1] if flatten else data.shape[:-1]
    features = math.prod(data.shape[1:]) if flatten else data.shape[-1]
    _check("_quantized_dense", data, weight, (num_hidden, features), scale, bias)
    matrix = reshape_to(data, (math.prod(outer), features))
    out = single(int8_product_scaled.apply((matrix, weight, scale, bias), (np.dtype(out_type), relu)))
    return reshape_to(out, (*outer, num_hidden))


@composite(name="_quantized_convolution")
def quantized_convolution(
    data: Node,
    weight: Node,
    scale: Node,
    bias: Node,
    *,
    kernel: Shape,
    stride: Shape = (),
    dilate: Shape = (),
    pad: Shape = (),
    num_filter: int,
    num_group: int = 1,
    relu: bool = False,
    out_type: Literal["float32", "int8", "uint8"] = "float32",
) -> Node:
    """Return the convolution of quantized images, ``round((sum + bias) * scale)`` for each filter."""
    name = "_quantized_convolution"
    stride = complete(name, "stride", kernel, stride, 1)
    dilate = complete(name, "dilate", kernel, dilate, 1)
    pad = complete(name, "padding", kernel, pad, 0)
    check_window(name, kernel, stride, dilate, pad)
    check_dimensions(name, data.shape, kernel)
    expected = convolution_weight_shape(data.shape, kernel=kernel, num_filter=num_filter, num_group=num_group)
    _check(name, data, weight, expected, scale, bias)
    window_counts(name, data.shape[2:], kernel, stride, dilate, pad)
    attributes = (stride, dilate, pad, num_group, np.dtype(out_type), relu)
    return single(int8_convolution_scaled.apply((data, weight, scale, bias), attributes))


@composite(name="_quantized_sum")
def quantized_sum(
    lhs: Node,
    rhs: Node,
    *,
    lhs_scale: float,
    rhs_scale: float,
    relu: bool = False,
    out_type: Literal["float32", "int8", "uint8"] = "float32",
) -> Node:
    """Return the sum of two quantized arrays of one shape, ``round(lhs * lhs_scale + rhs * rhs_scale)``."""
    if lhs.shape != rhs.shape:
        raise MXNetError(f"operator _quantized_sum takes arrays of one shape, not {lhs.shape} and {rhs.shape}")
    terms = [cast(term, FLOAT32) * number(scale) for term, scale in ((lhs, lhs_scale), (rhs, rhs_scale))]
    out = terms[0] + terms[1]
    if relu:
        out = single(maximum(out, number(0)))
    return out if out_type == "float32" else to_dtype(out, np.dtype(out_type))


# -- symbol declarations

_Types = list[DType | None]


def _types(inputs: _Types, outputs: _Types, *, out_type: str) -> tuple[_Types, _Types]:
    return [inputs[0] or INT8, INT8, FLOAT32, INT32], [np.dtype(out_type)]


def _sum_types(inputs: _Types, outputs: _Types, *, out_type: str) -> tuple[_Types, _Types]:
    return [dtype or INT8 for dtype in inputs], [np.dtype(out_type)]


def _dense_shapes(inputs: list[Partial], outputs: list[Partial], *, num_hidden: int, flatten: bool) -> list[Partial]:
    data = inputs[0]
    weight = None if data is None else (num_hidden, math.prod(data[1:] if flatten else data[-1:]))
    return [data, weight, (num_hidden,), (num_hidden,)]


def _convolution_shapes(
    inputs: list[Partial], outputs: list[Partial], *, kernel: Shape, num_filter: int, num_group: int
) -> list[Partial]:
    data = inputs[0]
    weight: Partial = None
    if data is not None:
        weight = convolution_weight_shape(data, kernel=kernel, num_filter=num_filter, num_group=num_group)
    return [data, weight, (num_filter,), (num_filter,)]


quantized_dense.interface = Interface(shapes=_dense_shapes, types=_types)
quantized_convolution.interface = Interface(shapes=_convolution_shapes, types=_types)
quantized_sum.interface = Interface(types=_sum_types)
