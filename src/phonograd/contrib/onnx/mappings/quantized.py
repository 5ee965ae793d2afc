"""Quantized operators as QDQ: a real operator between ``DequantizeLinear`` and ``QuantizeLinear``.

Takes the layers of calibrated networks (:mod:`phonograd.core.ops.quantized.fused`). A quantized value ``q`` stands for
the real number ``q`` in the file: scales are those of weights, and of real inputs and outputs. Runtimes combine the
three nodes to one on integers. Weights are uint8 with a zero point of 128: products with int8 weights saturate at 16
bits in onnxruntime on processors without VNNI. So is int8 data, which onnxruntime multiplies by such weights only in
float32.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ....core.base.dtypes import INT8, UINT8
from ....core.ops.quantized.ranges import LEVELS
from ..graph import MAPPINGS, Call, Graph, maps
from .layers import export_pooling

__all__ = ["export_quantized_convolution", "export_quantized_dense"]

#: the zero point of weights and of int8 data
_MIDDLE = 128


def _scale_and_zero(graph: Graph, scale: float, dtype: Any) -> list[str]:
    """Return the constants of a conversion; int8 numbers are uint8 ones around 128."""
    zero = np.uint8(_MIDDLE if dtype == INT8 else 0)
    return [graph.constant(np.float32(scale)), graph.constant(np.array(zero))]


def _to_integers(graph: Graph, value: str, scale: float, dtype: Any) -> str:
    return graph.add("QuantizeLinear", [value, *_scale_and_zero(graph, scale, dtype)])


def _to_reals(graph: Graph, value: str, dtype: Any, scale: float = 1.0) -> str:
    return graph.add("DequantizeLinear", [value, *_scale_and_zero(graph, scale, dtype)])


def _limit(graph: Graph, call: Call, names: tuple[str, ...]) -> float:
    """Return the range between two inputs, which must be constants."""
    if not all([name in graph.constants for name in names]):
        raise call.refuse("has a range that is not calibrated (use calib_mode='naive' or 'entropy')")
    return max([float(np.abs(graph.constants[name]).max()) for name in names])


# -- conversions


@maps("_contrib_quantize_v2")
def export_contrib_quantize_v2(graph: Graph, call: Call) -> list[str]:
    low, high = call["min_calib_range"], call["max_calib_range"]
    if call.dtype != np.float32:
        raise call.refuse("has quantized data")
    if low is None or high is None:
        raise call.refuse("has a range that is not calibrated (use calib_mode='naive' or 'entropy')")
    limit = max(abs(low), abs(high))
    dtype = call.output_dtype
    found = _to_integers(graph, call.data, float(np.float32(limit) / np.float32(LEVELS[dtype])), dtype)
    limits = (low, high) if dtype == UINT8 else (-limit, limit)
    return [found, *[graph.constant(np.array([number], np.float32)) for number in limits]]


@maps("_contrib_dequantize")
def export_contrib_dequantize(graph: Graph, call: Call) -> str:
    scale = np.float32(_limit(graph, call, call.inputs[1:])) / np.float32(LEVELS[call.dtype])
    return _to_reals(graph, call.data, call.dtype, float(scale))


# -- products


def _operands(graph: Graph, call: Call) -> tuple[str, str, str]:
    """Return the data, the weight and the bias of a product as real numbers.

    The bias is int32 with the scales of the weight, which is the form that runtimes combine.
    """
    data, weight, scale, bias = call.inputs
    if not all([name in graph.constants for name in (weight, scale, bias)]):
        raise call.refuse("has a weight that is not a parameter")
    scales, numbers = graph.constants[scale].astype(np.float32), graph.constants[weight]
    # a scale of zero stands for a filter without products
    safe = np.where(scales > 0, scales, np.float32(1))
    existing = numbers.astype(np.int16) * (scales > 0).reshape(-1, *(1,) * (numbers.ndim - 1))
    shifted = (existing + _MIDDLE).astype(UINT8)
    factors = graph.constant(safe, name=f"{call.name}_scales")

    def real(name: str, values: Any, middle: int) -> str:
        points = graph.constant(np.full(safe.shape, middle, values.dtype))
        return graph.add("DequantizeLinear", [graph.constant(values, name=name), factors, points], axis=0)

    return (
        _to_reals(graph, data, call.dtype),
        real(f"{weight}_uint8", shifted, _MIDDLE),
        real(f"{call.name}_bias_int32", graph.constants[bias].astype(np.int32), 0),
    )


def _finish(graph: Graph, call: Call, value: str) -> str:
    """Return a real result with ReLU, rounded if the call returns integers."""
    if call["relu"]:
        value = graph.add("Relu", [value])
    return value if call.output_dtype == np.float32 else _to_integers(graph, value, 1.0, call.output_dtype)


@maps("_quantized_convolution")
def export_quantized_convolution(graph: Graph, call: Call) -> str:
    operands = _operands(graph, call)
    parameters = {**call.parameters, "layout": None}
    real = dataclasses.replace(call, inputs=operands, parameters=parameters)
    return _finish(graph, call, str(MAPPINGS["Convolution"](graph, real)))


@maps("_quantized_dense")
def export_quantized_dense(graph: Graph, call: Call) -> str:
    data, weight, bias = _operands(graph, call)
    if call["flatten"] and len(call.shape) != 2:
        data = graph.add("Flatten", [data], axis=1)
    if call["flatten"] or len(call.shape) == 2:
        return _finish(graph, call, graph.add("Gemm", [data, weight, bias], transB=1))
    product = graph.add("MatMul", [data, graph.add("Transpose", [weight], perm=[1, 0])])
    return _finish(graph, call, graph.add("Add", [product, bias]))


# -- layers between products


@maps("_quantized_sum")
def export_quantized_sum(graph: Graph, call: Call) -> str:
    dtypes = call.dtypes
    terms = [
        _to_reals(graph, name, dtype, call[scale])
        for name, dtype, scale in zip(call.inputs, dtypes, ("lhs_scale", "rhs_scale"), strict=True)
    ]
    return _finish(graph, call, graph.add("Add", terms))


@maps("_contrib_quantized_pooling")
def export_contrib_quantized_pooling(graph: Graph, call: Call) -> list[str]:
    real = dataclasses.replace(call, inputs=(_to_reals(graph, call.data, call.dtype),), dtype=np.dtype(np.float32))
    return [_to_integers(graph, str(export_pooling(graph, real)), 1.0, call.dtype), *call.inputs[1:]]


@maps("_contrib_quantized_act")
def export_contrib_quantized_act(graph: Graph, call: Call) -> list[str]:
    if call.dtype == UINT8:
        return list(call.inputs)
    found = graph.add("Relu", [_to_reals(graph, call.data, call.dtype)])
    return [_to_integers(graph, found, 1.0, call.dtype), *call.inputs[1:]]


@maps("_contrib_quantized_flatten")
def export_contrib_quantized_flatten(graph: Graph, call: Call) -> list[str]:
    return [graph.add("Flatten", [call.data], axis=1), *call.inputs[1:]]


@maps("_contrib_quantized_concat")
def export_contrib_quantized_concat(graph: Graph, call: Call) -> list[str]:
    count = len(call.inputs) // 3
    limits = call.inputs[count:]
    ranges = [_limit(graph, call, limits[2 * at : 2 * at + 2]) for at in range(count)]
    dtype = INT8 if INT8 in call.dtypes[:count] else UINT8
    scale = max(ranges) / LEVELS[dtype]
    parts = [
        _to_reals(graph, name, kind, own / LEVELS[kind])
        for name, kind, own in zip(call.inputs, call.dtypes[:count], ranges)
    ]
    found = _to_integers(graph, graph.add("Concat", parts, axis=call.axis(call["dim"])), scale, dtype)
    lows, highs = [[float(graph.constants[name].item()) for name in limits[at::2]] for at in (0, 1)]
    extremes = (min(0.0, *lows), max(0.0, *highs))
    return [found, *[graph.constant(np.array([number], np.float32)) for number in extremes]]
