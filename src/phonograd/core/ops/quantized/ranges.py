"""Ranges: the numbers that describe how quantized arrays represent real ones, and the rules shared by all operators.

A quantized array comes with two arrays of one element: the least and the greatest real number that it represents. The
larger absolute value of the two is its *range*. An int8 element ``q`` stands for ``q * range / 127.5``, a uint8 element
for ``q * range / 255.5``, and an int32 element for ``q * range / 2**31``. There is no zero point: 0 is 0.

Weights of products may have one range for each filter. Their sums then have limits that broadcast with them.

Operators with calibrated ranges have them as parameters, ``min_calib_range`` and ``max_calib_range``. Their scales are
numbers in the graph; without calibration, the largest element is found at each call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dtypes import FLOAT32, INT8, INT32, UINT8, DType, name_of
from ...base.errors import MXNetError, format_shape
from ...graph.node import Node
from ...graph.operator import Array, Spec, nothing, operator, single
from ...lower.ir.emitter import Emitter, Value
from ...lower.lowering import Elementwise
from ..math.arithmetic import maximum
from ..math.comparison import equal
from ..math.elementary import abs_
from ..math.primitives import cast, reshape_to, select
from ..math.structural import constant
from .products import emit_saturate, saturate

__all__ = [
    "LEVELS",
    "calibrated_dtype",
    "known_dtype",
    "largest",
    "number",
    "one_element",
    "product_range",
    "quotient",
    "range_of_sums",
    "require_dtype",
    "to_dtype",
]

#: quantized numbers in the range of each dtype
LEVELS: dict[DType, float] = {INT8: 127.5, UINT8: 255.5, INT32: 2147483648.0}


def _emit(e: Emitter, data: Value, *, dtype: DType) -> Value:
    return emit_saturate(e, data, dtype)


@operator(name="_saturate", gradient=nothing, lowering=Elementwise(_emit, frozenset([FLOAT32, INT8, UINT8, INT32])))
def _saturate(data: Array, *, dtype: DType) -> Array:
    """Return float32 numbers rounded to the nearest integers and clamped to the limits of a dtype."""
    return saturate(data, dtype)


@_saturate.infer
def saturate_shape(data: Node, *, dtype: DType) -> Spec:
    require_dtype("_saturate", "data", data, FLOAT32)
    return data.shape, dtype


def to_dtype(values: Node, dtype: DType) -> Node:
    """Return float32 values rounded to a quantized dtype."""
    return single(_saturate.apply((values,), (dtype,)))


def number(value: Any) -> Node:
    """Return a number in float32 as an array of one element."""
    return reshape_to(constant(np.float32(value), FLOAT32), (1,))


def one_element(name: str, argument: str, node: Node) -> Node:
    """Return an argument that is one float32 number, in the shape (1,)."""
    if node.size != 1:
        raise MXNetError(
            f"{argument} of operator {name} must have one element, not the shape {format_shape(node.shape)}"
        )
    require_dtype(name, argument, node, FLOAT32)
    return reshape_to(node, (1,))


def require_dtype(name: str, argument: str, node: Node, *allowed: DType) -> None:
    """Raise unless an argument has one of some dtypes."""
    if node.dtype not in allowed:
        names = " or ".join([str(dtype) for dtype in allowed])
        advice = "" if FLOAT32 in allowed else "; quantize it with contrib.quantize_v2"
        raise MXNetError(f"{argument} of operator {name} must be {names}, not {name_of(node.dtype)}{advice}")


def known_dtype(argument: str, given: DType | None, *allowed: DType) -> DType:
    """Return the dtype of a symbol's input, the first allowed one if it is not known; raise unless it is allowed."""
    if given is not None and given not in allowed:
        names = " or ".join([str(dtype) for dtype in allowed])
        raise MXNetError(f"{argument} must be {names}, not {name_of(given)}")
    return given or allowed[0]


def largest(name: str, least: Node, greatest: Node, argument: str = "data", filters: int = 1) -> Node:
    """Return the range between two arguments, the larger of their absolute values; or those of several filters."""
    words = (f"min_{argument}", f"max_{argument}")
    if filters > 1 and least.shape == greatest.shape == (filters,):
        for word, node in zip(words, (least, greatest), strict=True):
            require_dtype(name, word, node, FLOAT32)
        low, high = least, greatest
    else:
        low, high = [one_element(name, word, node) for word, node in zip(words, (least, greatest), strict=True)]
    return single(maximum(single(abs_(low)), single(abs_(high))))


def range_of_sums(name: str, data: Node, least: Node, greatest: Node) -> Node:
    """Return the range between the limits of int32 sums; each filter of a product may have limits of its own."""
    if least.size == 1 or least.shape != greatest.shape:
        return largest(name, least, greatest, "range")
    aligned = data.shape[data.ndim - least.ndim :] if least.ndim <= data.ndim else ()
    if not aligned or any([size not in (1, whole) for size, whole in zip(least.shape, aligned, strict=True)]):
        raise MXNetError(
            f"min_range and max_range of operator {name} must have one element, or a shape that broadcasts with the "
            f"data, not {format_shape(least.shape)} for data of shape {format_shape(data.shape)}"
        )
    require_dtype(name, "min_range", least, FLOAT32)
    require_dtype(name, "max_range", greatest, FLOAT32)
    return single(maximum(single(abs_(least)), single(abs_(greatest))))


def quotient(first: Node, second: Node) -> Node:
    """Return the quotient of two ranges or scales; 0 where the second is 0, because all elements are then zeros."""
    zero = single(equal(second, number(0)))
    return select(zero, number(0), first / select(zero, number(1), second))


def product_range(first: Node, second: Node, dtypes: tuple[DType, DType]) -> Node:
    """Return the range of an int32 product of two quantized arrays, as MXNet defines it: with 127 or 255 levels."""
    levels = {INT8: 127.0, UINT8: 255.0}
    units = [source / number(levels[dtype]) for source, dtype in zip((first, second), dtypes, strict=True)]
    return units[0] * units[1] * number(LEVELS[INT32])


def calibrated_dtype(out_type: str, low: float | None, high: float | None) -> DType:
    """Return the dtype that ``out_type`` names; ``auto`` is uint8 if a calibrated range has no negative numbers."""
    if out_type == "auto":
        return UINT8 if low is not None and high is not None and low >= 0 else INT8
    return UINT8 if out_type == "uint8" else INT8


def dequantized(data: Node, real_range: Node) -> Node:
    """Return the real numbers of a quantized array."""
    return cast(data, FLOAT32) * (real_range / number(LEVELS[data.dtype]))
