"""Operators on quantized arrays that multiply no matrices: pooling, activation, sums, products, joining, lookup.

Each returns its result, and the range of its result. Kernels fuse those that work element by element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from ...base.dtypes import FLOAT32, INT8, INT32, UINT8, DType
from ...base.errors import MXNetError
from ...graph.interface import Interface, Partial, Quantizes, merge
from ...graph.node import Node, Shape
from ...graph.operator import composite, single
from ..math.arithmetic import maximum, minimum
from ..math.elementary import abs_, rsqrt
from ..math.primitives import cast, reshape_to
from ..math.structural import constant
from ..nn.pooling import largest_of_windows, pooling
from ..shape.indexing import embedding
from ..shape.shape import concatenate
from .conversion import OUTPUTS, with_limits
from .ranges import (
    LEVELS,
    known_dtype,
    largest,
    number,
    one_element,
    product_range,
    quotient,
    require_dtype,
    to_dtype,
)

__all__ = ["quantized_act", "quantized_pooling"]


def _limits(name: str, least: Node, greatest: Node, argument: str = "data") -> tuple[Node, Node]:
    return one_element(name, f"min_{argument}", least), one_element(name, f"max_{argument}", greatest)


def _pooling_obstacle(*, pool_type: str) -> str:
    return "" if pool_type in ("max", "avg") else f"pool_type is {pool_type}"


@composite(name="_contrib_quantized_pooling", quantizes=Quantizes("Pooling", obstacle=_pooling_obstacle))
def quantized_pooling(
    data: Node,
    min_data: Node,
    max_data: Node,
    *,
    kernel: Shape = (),
    pool_type: Literal["avg", "lp", "max", "sum"] = "max",
    global_pool: bool = False,
    cudnn_off: bool = False,
    pooling_convention: Literal["full", "same", "valid"] = "valid",
    stride: Shape = (),
    pad: Shape = (),
    p_value: int | None = None,
    count_include_pad: bool | None = None,
    layout: Literal["NCDHW", "NCHW", "NCW", "NDHWC", "NHWC", "NWC"] | None = None,
) -> tuple[Node, ...]:
    """Return the maximum or the rounded mean of each window of quantized images, and their range.

    ``Pooling`` describes the windows.
    """
    name = "_contrib_quantized_pooling"
    require_dtype(name, "data", data, INT8, UINT8)
    if problem := _pooling_obstacle(pool_type=pool_type):
        raise MXNetError(f"operator {name} takes the maximum or the mean, but {problem}; use Pooling on real numbers")
    limits = _limits(name, min_data, max_data)
    if pool_type == "max":
        window = (kernel, stride, pad, pooling_convention, global_pool, layout)
        return largest_of_windows(name, data, *window), *limits
    # MXNet divides by the size of the window, also where the convention "full" lets it reach beyond the padding
    divides = pooling_convention == "full" and not global_pool and count_include_pad is not False
    # small integers are exact in float32, and so are their sums
    found = single(
        pooling(
            cast(data, FLOAT32),
            kernel=kernel,
            pool_type="sum" if divides else pool_type,
            global_pool=global_pool,
            pooling_convention=pooling_convention,
            stride=stride,
            pad=pad,
            count_include_pad=count_include_pad,
            layout=layout,
        )
    )
    if divides:
        found = found / float(math.prod(kernel))
    return to_dtype(found, data.dtype), *limits


def _act_obstacle(*, act_type: str) -> str:
    return "" if act_type == "relu" else f"act_type is {act_type}"


@composite(name="_contrib_quantized_act", quantizes=Quantizes("Activation", obstacle=_act_obstacle))
def quantized_act(
    data: Node,
    min_data: Node,
    max_data: Node,
    *,
    act_type: Literal["relu", "sigmoid", "softrelu", "softsign", "tanh"],
) -> tuple[Node, ...]:
    """Return the larger of each quantized element and zero, and the range of the data. The activation must be relu."""
    name = "_contrib_quantized_act"
    require_dtype(name, "data", data, INT8, UINT8)
    if problem := _act_obstacle(act_type=act_type):
        raise MXNetError(f"operator {name} is only defined for relu, but {problem}; use Activation on real numbers")
    out = data if data.dtype == UINT8 else single(maximum(data, constant(0, INT8)))
    return out, *_limits(name, min_data, max_data)


@composite(name="_contrib_quantized_flatten", quantizes=Quantizes("Flatten"))
def quantized_flatten(data: Node, min_data: Node, max_data: Node) -> tuple[Node, ...]:
    """Return quantized data as a matrix, with all axes but the first in one, and its range."""
    require_dtype("_contrib_quantized_flatten", "data", data, INT8, UINT8)
    out = reshape_to(data, (data.shape[0], math.prod(data.shape[1:])))
    return out, *_limits("_contrib_quantized_flatten", min_data, max_data)


def _concat_obstacle(*, dim: int) -> str:
    return "" if dim > 0 else f"dim is {dim}"


@composite(name="_contrib_quantized_concat", quantizes=Quantizes("Concat", obstacle=_concat_obstacle))
def quantized_concat(*data: Node, dim: int = 1) -> tuple[Node, ...]:
    """Join quantized arrays along an axis, rescaled to their common range.

    The inputs are the arrays, then the least and the greatest number of each. The result is int8 if one of them is,
    else uint8.
    """
    name = "_contrib_quantized_concat"
    if not data or len(data) % 3:
        raise MXNetError(f"operator {name} expects 3 inputs for each array, but got {len(data)}")
    count = len(data) // 3
    arrays, limits = data[:count], data[count:]
    for array in arrays:
        require_dtype(name, "data", array, INT8, UINT8)
    lows, highs = [[one_element(name, word, node) for node in limits[at::2]] for at, word in ((0, "min"), (1, "max"))]
    low, high = number(0), number(0)
    for least, greatest in zip(lows, highs):
        low, high = single(minimum(low, least)), single(maximum(high, greatest))
    dtype = INT8 if INT8 in [array.dtype for array in arrays] else UINT8
    scale = quotient(number(LEVELS[dtype]), single(maximum(single(abs_(low)), single(abs_(high)))))
    parts = []
    for array, least, greatest in zip(arrays, lows, highs):
        own = quotient(number(LEVELS[array.dtype]), single(maximum(single(abs_(least)), single(abs_(greatest)))))
        parts.append(to_dtype(cast(array, FLOAT32) * quotient(scale, own), dtype))
    return concatenate(parts, dim), low, high


@composite(name="_contrib_quantized_elemwise_add", quantizes=Quantizes("elemwise_add", is_requantized=True))
def quantized_elemwise_add(
    lhs: Node,
    rhs: Node,
    lhs_min: Node,
    lhs_max: Node,
    rhs_min: Node,
    rhs_max: Node,
    *,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
) -> tuple[Node, ...]:
    """Return the sum of two quantized arrays of one shape, and its range.

    With a calibrated range the result is int8, or uint8 if both arrays are; without, it is int32.
    """
    name = "_contrib_quantized_elemwise_add"
    first, second = _pair(name, lhs, rhs, lhs_min, lhs_max, rhs_min, rhs_max)
    numbers = [cast(array, FLOAT32) for array in (lhs, rhs)]
    if min_calib_range is None or max_calib_range is None:
        high = first + second
        factors = [
            quotient(real * number(LEVELS[INT32]), high * number(LEVELS[array.dtype]))
            for array, real in ((lhs, first), (rhs, second))
        ]
        return to_dtype(numbers[0] * factors[0] + numbers[1] * factors[1], INT32), -high, high
    dtype = lhs.dtype if lhs.dtype == rhs.dtype else INT8
    scale = number(np.float32(LEVELS[dtype]) / np.float32(max(abs(min_calib_range), abs(max_calib_range), 1e-30)))
    terms = []
    for array, values, real in zip((lhs, rhs), numbers, (first, second)):
        term = values * quotient(scale, quotient(number(LEVELS[array.dtype]), real))
        # a uint8 operand of a sum in int8 is rounded to int8 first, as in MXNet
        terms.append(term if array.dtype == dtype else cast(to_dtype(term, dtype), FLOAT32))
    return to_dtype(terms[0] + terms[1], dtype), number(min_calib_range), number(max_calib_range)


@composite(
    name="_contrib_quantized_elemwise_mul",
    quantizes=Quantizes("elemwise_mul", is_requantized=True),
    visible=lambda *, enable_float_output: 1 if enable_float_output else 3,
)
def quantized_elemwise_mul(
    lhs: Node,
    rhs: Node,
    lhs_min: Node,
    lhs_max: Node,
    rhs_min: Node,
    rhs_max: Node,
    *,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
    enable_float_output: bool = False,
) -> tuple[Node, ...]:
    """Return the elementwise product of two int8 arrays of one shape, and its range.

    With a calibrated range the result is int8, truncated towards zero; without, it is the exact product in int32. With
    ``enable_float_output``, the result is real, and the only one.
    """
    name = "_contrib_quantized_elemwise_mul"
    require_dtype(name, "lhs", lhs, INT8)
    require_dtype(name, "rhs", rhs, INT8)
    first, second = _pair(name, lhs, rhs, lhs_min, lhs_max, rhs_min, rhs_max)
    exact = cast(lhs, INT32) * cast(rhs, INT32)
    scales = [quotient(number(LEVELS[INT8]), real) for real in (first, second)]
    if enable_float_output:
        return (cast(exact, FLOAT32) * quotient(quotient(number(1), scales[0]), scales[1]),)
    if min_calib_range is None or max_calib_range is None:
        found = product_range(first, second, (INT8, INT8))
        return exact, -found, found
    scale = np.float32(LEVELS[INT8]) / np.float32(max(abs(min_calib_range), abs(max_calib_range), 1e-30))
    values = cast(exact, FLOAT32) * quotient(quotient(number(scale), scales[0]), scales[1])
    clamped = single(minimum(single(maximum(values, number(-128))), number(127)))
    return cast(clamped, INT8), number(min_calib_range), number(max_calib_range)


def _pair(name: str, lhs: Node, rhs: Node, *limits: Node) -> tuple[Node, Node]:
    """Return the ranges of two quantized arrays of one shape."""
    for word, array in (("lhs", lhs), ("rhs", rhs)):
        require_dtype(name, word, array, INT8, UINT8)
    if lhs.shape != rhs.shape:
        raise MXNetError(f"operator {name} takes arrays of one shape, not {lhs.shape} and {rhs.shape}")
    return largest(name, limits[0], limits[1], "lhs"), largest(name, limits[2], limits[3], "rhs")


@composite(
    name="_contrib_quantized_batch_norm",
    quantizes=Quantizes("BatchNorm", is_calibrated=True, real=lambda position: position > 0),
)
def quantized_batch_norm(
    data: Node,
    gamma: Node,
    beta: Node,
    moving_mean: Node,
    moving_var: Node,
    min_data: Node,
    max_data: Node,
    *,
    eps: float = 1e-3,
    momentum: float = 0.9,
    fix_gamma: bool = True,
    use_global_stats: bool = False,
    output_mean_var: bool = False,
    axis: int = 1,
    cudnn_off: bool = False,
    min_calib_range: float | None = None,
    max_calib_range: float | None = None,
) -> tuple[Node, ...]:
    """Normalize the channels of quantized data with moving statistics, and return int8 with the calibrated range.

    ``fix_gamma`` has no effect, as in MXNet: gamma is used as it is. ``momentum``, ``use_global_stats``,
    ``output_mean_var`` and ``cudnn_off`` are accepted and ignored.

    Notes
    -----
    Compatibility: MXNet normalizes along the second axis, whatever ``axis`` is.
    """
    name = "_contrib_quantized_batch_norm"
    require_dtype(name, "data", data, INT8, UINT8)
    if min_calib_range is None or max_calib_range is None:
        raise MXNetError(
            f"operator {name} needs min_calib_range and max_calib_range: quantize the network with calib_mode 'naive' "
            "or 'entropy', or exclude BatchNorm"
        )
    real_range = largest(name, min_data, max_data)
    numbers = cast(data, FLOAT32)
    if data.dtype == UINT8:
        numbers = cast(to_dtype(numbers * number(np.float32(127.5) / np.float32(255.5)), INT8), FLOAT32)
    target = number(max(abs(np.float32(min_calib_range)), abs(np.float32(max_calib_range))))
    shape = tuple([data.shape[axis] if place == axis % data.ndim else 1 for place in range(data.ndim)])
    inverse = single(rsqrt(moving_var + number(eps)))
    # MXNet's kernel divides by sqrt(1 + eps) once more, because it normalizes data of variance 1
    factor = gamma * inverse * real_range / target * number(1 / math.sqrt(1 + eps))
    offset = (beta - moving_mean * gamma * inverse) * number(LEVELS[INT8]) / target
    out = numbers * reshape_to(factor, shape) + reshape_to(offset, shape)
    return to_dtype(out, INT8), number(min_calib_range), number(max_calib_range)


def _embedding_obstacle(*, dtype: DType) -> str:
    return "" if dtype == FLOAT32 else f"its dtype is {dtype}"


@composite(
    name="_contrib_quantized_embedding",
    quantizes=Quantizes("Embedding", real=lambda position: position == 0, obstacle=_embedding_obstacle),
)
def quantized_embedding(
    data: Node,
    weight: Node,
    min_weight: Node,
    max_weight: Node,
    *,
    input_dim: int,
    output_dim: int,
    dtype: DType = FLOAT32,
    sparse_grad: bool = False,
) -> tuple[Node, ...]:
    """Return the rows of an int8 weight at the indices in data, and the range of the weight."""
    name = "_contrib_quantized_embedding"
    require_dtype(name, "weight", weight, INT8)
    out = single(embedding(data, weight, input_dim=input_dim, output_dim=output_dim))
    return out, *_limits(name, min_weight, max_weight, "weight")


# -- symbol declarations

_Types = list[DType | None]


def _quantized(given: DType | None) -> DType:
    return known_dtype("data", given, INT8, UINT8)


def _first_types(inputs: _Types, outputs: _Types) -> tuple[_Types, _Types]:
    data = _quantized(inputs[0])
    return [data, FLOAT32, FLOAT32], [data, FLOAT32, FLOAT32]


def _joined_types(inputs: _Types, outputs: _Types) -> tuple[_Types, _Types]:
    count = len(inputs) // 3
    arrays = [_quantized(dtype) for dtype in inputs[:count]]
    return [*arrays, *[FLOAT32] * (2 * count)], [INT8 if INT8 in arrays else UINT8, FLOAT32, FLOAT32]


def _sum_types(
    inputs: _Types, outputs: _Types, *, min_calib_range: float | None, max_calib_range: float | None
) -> tuple[_Types, _Types]:
    arrays = [_quantized(dtype) for dtype in inputs[:2]]
    is_calibrated = min_calib_range is not None and max_calib_range is not None
    dtype = INT32 if not is_calibrated else arrays[0] if arrays[0] == arrays[1] else INT8
    return [*arrays, *[FLOAT32] * 4], [dtype, FLOAT32, FLOAT32]


def _product_types(
    inputs: _Types,
    outputs: _Types,
    *,
    min_calib_range: float | None,
    max_calib_range: float | None,
    enable_float_output: bool,
) -> tuple[_Types, _Types]:
    for dtype in inputs[:2]:
        known_dtype("data", dtype, INT8)
    if enable_float_output:
        return [INT8, INT8, *[FLOAT32] * 4], [FLOAT32]
    is_calibrated = min_calib_range is not None and max_calib_range is not None
    return [INT8, INT8, *[FLOAT32] * 4], [INT8 if is_calibrated else INT32, FLOAT32, FLOAT32]


def _norm_types(inputs: _Types, outputs: _Types) -> tuple[_Types, _Types]:
    return [_quantized(inputs[0]), *[FLOAT32] * 6], [INT8, FLOAT32, FLOAT32]


def _lookup_types(inputs: _Types, outputs: _Types) -> tuple[_Types, _Types]:
    return [inputs[0] or FLOAT32, known_dtype("weight", inputs[1], INT8), FLOAT32, FLOAT32], [INT8, FLOAT32, FLOAT32]


def _pair_shapes(inputs: list[Partial], outputs: list[Partial]) -> list[Partial]:
    common = merge(merge(inputs[0], inputs[1]), outputs[0])
    return [common, common, *[(1,)] * 4]


def _norm_shapes(inputs: list[Partial], outputs: list[Partial], *, axis: int) -> list[Partial]:
    data = merge(inputs[0], outputs[0])
    channels: Partial = None if data is None else (data[axis],)
    return [data, *[channels] * 4, (1,), (1,)]


def _data_shapes(inputs: list[Partial], outputs: list[Partial]) -> list[Partial]:
    return [inputs[0], *[(1,)] * (len(inputs) - 1)]


def _lookup_shapes(inputs: list[Partial], outputs: list[Partial], *, input_dim: int, output_dim: int) -> list[Partial]:
    return [inputs[0], (input_dim, output_dim), (1,), (1,)]


def _joined_names(names: Sequence[str]) -> list[str]:
    arrays = names[: len(names) // 3]
    return [*arrays, *[f"{name}_{word}" for name in arrays for word in ("min", "max")]]


def _joined_shapes(inputs: list[Partial], outputs: list[Partial]) -> list[Partial]:
    count = len(inputs) // 3
    return [*inputs[:count], *[(1,)] * (2 * count)]


quantized_pooling.interface = quantized_flatten.interface = Interface(
    outputs=OUTPUTS, shapes=_data_shapes, types=_first_types
)
quantized_act.interface = Interface(outputs=OUTPUTS, shapes=with_limits, types=_first_types)
quantized_concat.interface = Interface(
    arguments=_joined_names, outputs=OUTPUTS, counted=3, shapes=_joined_shapes, types=_joined_types
)
quantized_elemwise_add.interface = Interface(outputs=OUTPUTS, shapes=_pair_shapes, types=_sum_types)
quantized_elemwise_mul.interface = Interface(
    outputs=lambda *, enable_float_output: OUTPUTS[: 1 if enable_float_output else 3],
    shapes=_pair_shapes,
    types=_product_types,
)
quantized_batch_norm.interface = Interface(
    auxiliary=("moving_mean", "moving_var"), outputs=OUTPUTS, shapes=_norm_shapes, types=_norm_types
)
quantized_embedding.interface = Interface(outputs=OUTPUTS, shapes=_lookup_shapes, types=_lookup_types)
