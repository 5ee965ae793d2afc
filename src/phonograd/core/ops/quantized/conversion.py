"""Conversions between real and quantized arrays; :mod:`.ranges` defines the scales."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ...base.dtypes import FLOAT32, INT8, INT32, UINT8, DType
from ...graph.interface import Interface, Partial, merge
from ...graph.node import Node
from ...graph.operator import composite, single
from ..math.arithmetic import maximum
from ..math.elementary import abs_
from ..math.primitives import cast, reshape_to
from ..reduce.reduction import max_axes, min_axes
from .ranges import (
    LEVELS,
    calibrated_dtype,
    dequantized,
    known_dtype,
    largest,
    number,
    one_element,
    quotient,
    range_of_sums,
    require_dtype,
    to_dtype,
)

__all__ = ["dequantize", "quantize", "quantize_v2", "requantize"]

#: names of the outputs of every quantized operator
OUTPUTS = ("output", "min_output", "max_output")
_RANGE = ("output0", "output1", "output2")


def _extremes(data: Node) -> tuple[Node, Node]:
    axes = tuple(range(data.ndim))
    return reshape_to(min_axes(data, axes, False), (1,)), reshape_to(max_axes(data, axes, False), (1,))


@composite(name="_contrib_quantize")
def quantize(
    data: Node, min_range: Node, max_range: Node, *, out_type: Literal["int8", "uint8"] = "uint8"
) -> tuple[Node, ...]:
    """Quantize an array to int8 or uint8, given the range of its elements.

    ``out = round(data * levels / range)``, where the range is the larger absolute value of ``min_range`` and
    ``max_range``, and the levels are 127 for int8 and 255 for uint8. Elements outside the range are clamped.

    Returns the quantized array, and the least and the greatest number that it represents.
    """
    require_dtype("_contrib_quantize", "data", data, FLOAT32)
    dtype = np.dtype(out_type)
    real_range = largest("_contrib_quantize", min_range, max_range, "range")
    out = to_dtype(data * quotient(number(127 if dtype == INT8 else 255), real_range), dtype)
    if dtype == UINT8:
        return out, one_element("_contrib_quantize", "min_range", min_range), one_element("", "max_range", max_range)
    return out, -real_range, real_range


@composite(name="_contrib_quantize_v2")
def quantize_v2(
    data: Node,
    *,
    out_type: Literal["auto", "int8", "uint8"] = "int8",
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
) -> tuple[Node, ...]:
    """Quantize an array to int8 or uint8, with a calibrated range or that of its elements.

    ``out = round(data * levels / range)``, where the levels are 127.5 for int8 and 255.5 for uint8. Elements outside
    the range are clamped. With ``out_type="auto"``, the result is uint8 if ``min_calib_range`` is not negative, else
    int8. Quantized data is returned unchanged.

    Returns the quantized array, and the least and the greatest number that it represents.
    """
    require_dtype("_contrib_quantize_v2", "data", data, FLOAT32, INT8, UINT8)
    is_calibrated = min_calib_range is not None and max_calib_range is not None
    if data.dtype != FLOAT32:
        level = LEVELS[data.dtype]
        least = min_calib_range if is_calibrated else 0 if data.dtype == UINT8 else -level
        return data, number(least), number(max_calib_range if is_calibrated else level)
    dtype = calibrated_dtype(out_type, min_calib_range, max_calib_range)
    low, high = (number(min_calib_range), number(max_calib_range)) if is_calibrated else _extremes(data)
    real_range = single(maximum(single(abs_(low)), single(abs_(high))))
    out = to_dtype(data * quotient(number(LEVELS[dtype]), real_range), dtype)
    return (out, low, high) if dtype == UINT8 else (out, -real_range, real_range)


@composite(name="_contrib_dequantize")
def dequantize(data: Node, min_range: Node, max_range: Node, *, out_type: Literal["float32"] = "float32") -> Node:
    """Return the real numbers of a quantized array.

    ``out = data * range / levels``, where the levels are 127.5 for int8 and 255.5 for uint8.
    """
    require_dtype("_contrib_dequantize", "data", data, INT8, UINT8)
    return dequantized(data, largest("_contrib_dequantize", min_range, max_range, "range"))


@composite(name="_contrib_requantize")
def requantize(
    data: Node,
    min_range: Node,
    max_range: Node,
    *,
    out_type: Literal["auto", "int8", "uint8"] = "int8",
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
) -> tuple[Node, ...]:
    """Convert int32 sums to int8 or uint8, with a calibrated range or that of the largest element.

    ``out = round(data * (range / 2**31) * (levels / new range))``, where the levels are 127 for int8 and 255 for uint8.
    The limits have one element, or broadcast with the data: products with one range for each filter return such limits.

    Returns the quantized array, and the least and the greatest number that it represents.
    """
    require_dtype("_contrib_requantize", "data", data, INT32)
    source = range_of_sums("_contrib_requantize", data, min_range, max_range)
    dtype = calibrated_dtype(out_type, min_calib_range, max_calib_range)
    if min_calib_range is not None and max_calib_range is not None:
        target = number(max(abs(np.float32(min_calib_range)), abs(np.float32(max_calib_range))))
    else:
        target = _largest_sum(data, source)
    scale = (source / number(LEVELS[INT32])) * quotient(number(127 if dtype == INT8 else 255), target)
    out = to_dtype(cast(data, FLOAT32) * scale, dtype)
    return (out, number(0) if dtype == UINT8 else -target, target)


def _largest_sum(data: Node, source: Node) -> Node:
    """Return the largest absolute number that int32 sums with some range stand for."""
    if source.size > 1:
        values = cast(data, FLOAT32) * (source / number(LEVELS[INT32]))
        low, high = [single(abs_(extreme)) for extreme in _extremes(values)]
        return single(maximum(low, high))
    low, high = [single(abs_(cast(extreme, FLOAT32))) for extreme in _extremes(data)]
    return single(maximum(low, high)) * source / number(LEVELS[INT32])


# -- symbol declarations


def _quantized_types(
    inputs: list[DType | None],
    outputs: list[DType | None],
    *,
    out_type: str,
    min_calib_range: float | None,
    max_calib_range: float | None,
) -> tuple[list[DType | None], list[DType | None]]:
    dtype = calibrated_dtype(out_type, min_calib_range, max_calib_range)
    data = known_dtype("data", inputs[0], FLOAT32, INT8, UINT8)
    return [data], [dtype if data == FLOAT32 else data, FLOAT32, FLOAT32]


def _requantized_types(
    inputs: list[DType | None],
    outputs: list[DType | None],
    *,
    out_type: str,
    min_calib_range: float | None,
    max_calib_range: float | None,
) -> tuple[list[DType | None], list[DType | None]]:
    dtype = calibrated_dtype(out_type, min_calib_range, max_calib_range)
    known_dtype("data", inputs[0], INT32)
    return [INT32, FLOAT32, FLOAT32], [dtype, FLOAT32, FLOAT32]


def _old_types(
    inputs: list[DType | None], outputs: list[DType | None], *, out_type: str
) -> tuple[list[DType | None], list[DType | None]]:
    known_dtype("data", inputs[0], FLOAT32)
    return [FLOAT32] * 3, [np.dtype(out_type), FLOAT32, FLOAT32]


def _real_types(
    inputs: list[DType | None], outputs: list[DType | None]
) -> tuple[list[DType | None], list[DType | None]]:
    return [known_dtype("data", inputs[0], INT8, UINT8), FLOAT32, FLOAT32], [FLOAT32]


def with_limits(inputs: list[Partial], outputs: list[Partial]) -> list[Partial]:
    """Return the shapes of data and of its two limits; the result has the shape of the data."""
    return [merge(inputs[0], outputs[0]), *[(1,)] * (len(inputs) - 1)]


def _sum_limits(inputs: list[Partial], outputs: list[Partial]) -> list[Partial]:
    return [merge(inputs[0], outputs[0]), *[limit or (1,) for limit in inputs[1:]]]


quantize.interface = Interface(outputs=_RANGE, shapes=with_limits, types=_old_types)
quantize_v2.interface = Interface(outputs=_RANGE, shapes=with_limits, types=_quantized_types)
dequantize.interface = Interface(shapes=with_limits, types=_real_types)
requantize.interface = Interface(outputs=_RANGE, shapes=_sum_limits, types=_requantized_types)
