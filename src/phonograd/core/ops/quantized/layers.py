"""Layers on quantized arrays, with MXNet's signatures: each returns its result, and the range of its result.

The products are those of :mod:`.products`; all other operators are elementwise, so kernels fuse them.
"""

from __future__ import annotations

import math
from typing import Literal

from ...base.dtypes import FLOAT32, INT8, INT32, UINT8, DType
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partial, Quantizes
from ...graph.node import Node, Shape
from ...graph.operator import composite, single
from ..math.primitives import cast, reshape_to
from ..nn.convolution import convolution_weight_shape
from ..nn.windows import check_dimensions, check_window, complete, window_counts
from .conversion import OUTPUTS
from .products import int8_convolution, int8_product
from .ranges import LEVELS, known_dtype, largest, number, product_range, quotient, require_dtype

__all__ = ["quantized_conv", "quantized_fully_connected"]


def _bias_in_sums(name: str, bias: Node, ranges: tuple[Node, Node, Node], dtype: DType) -> Node:
    """Return an int8 bias in the units of int32 sums, truncated; ranges are those of data, weight and bias."""
    require_dtype(name, "bias", bias, INT8)
    scales = [quotient(number(LEVELS[kind]), real) for kind, real in zip((dtype, INT8), ranges[:2], strict=True)]
    unit = scales[0] * scales[1] * ranges[2] / number(LEVELS[INT8])
    return cast(cast(bias, FLOAT32) * unit, INT32)


def _split(name: str, no_bias: bool, inputs: tuple[Node | None, ...]) -> tuple[Node | None, tuple[Node, ...]]:
    """Return the bias and the six limits, or None and the four limits, of the inputs after the weight."""
    given = [node for node in inputs if node is not None]
    expected = 4 if no_bias else 7
    if len(given) != expected:
        raise MXNetError(f"Operator {name} expects {expected + 2} inputs, but got {len(given) + 2} instead.")
    return (None, tuple(given)) if no_bias else (given[0], tuple(given[1:]))


def _ranges(name: str, limits: tuple[Node, ...], filters: int) -> list[Node]:
    """Return the ranges between the limits of data, weight, and bias if there is one."""
    pairs = zip(limits[::2], limits[1::2])
    return [
        largest(name, *pair, word, filters if word == "weight" else 1)
        for pair, word in zip(pairs, ("data", "weight", "bias"))
    ]


def _inputs(names: list[str], *, no_bias: bool) -> list[str]:
    return [name for name in names if not no_bias or "bias" not in name]


@composite(
    name="_contrib_quantized_fully_connected",
    quantizes=Quantizes("FullyConnected", is_product=True, is_requantized=True),
)
def quantized_fully_connected(
    data: Node,
    weight: Node,
    bias: Node | None = None,
    min_data: Node | None = None,
    max_data: Node | None = None,
    min_weight: Node | None = None,
    max_weight: Node | None = None,
    min_bias: Node | None = None,
    max_bias: Node | None = None,
    *,
    num_hidden: int,
    no_bias: bool = False,
    flatten: bool = True,
) -> tuple[Node, ...]:
    """Return a linear transform of quantized data with int8 weights and bias, in int32, and its range.

    With ``no_bias``, the inputs are data, weight, and the limits of both. The limits of the weight have one element, or
    one for each of its rows.
    """
    name = "_contrib_quantized_fully_connected"
    rest = (bias, min_data, max_data, min_weight, max_weight, min_bias, max_bias)
    bias, limits = _split(name, no_bias, rest)
    require_dtype(name, "data", data, INT8, UINT8)
    require_dtype(name, "weight", weight, INT8)
    outer = data.shape[:1] if flatten else data.shape[:-1]
    features = math.prod(data.shape[1:]) if flatten else data.shape[-1]
    if weight.shape != (num_hidden, features):
        raise MXNetError(
            f"Shape inconsistent, Provided = {format_shape(weight.shape)}, inferred shape=({num_hidden},{features}): "
            f"the weight of {name} with num_hidden={num_hidden} for data of shape {format_shape(data.shape)}."
        )
    ranges = _ranges(name, limits, num_hidden)
    out = single(int8_product(reshape_to(data, (math.prod(outer), features)), weight))
    if bias is not None:
        out = out + _bias_in_sums(name, bias, (ranges[0], ranges[1], ranges[2]), data.dtype)
    found = product_range(ranges[0], ranges[1], (data.dtype, INT8))
    return reshape_to(out, (*outer, num_hidden)), -found, found


def _conv_obstacle(*, kernel: Shape, layout: str | None) -> str:
    return "" if layout in (None, "NCW", "NCHW", "NCDHW") else f"layout {layout} has channels last"


@composite(
    name="_contrib_quantized_conv",
    quantizes=Quantizes("Convolution", is_product=True, is_requantized=True, obstacle=_conv_obstacle),
)
def quantized_conv(
    data: Node,
    weight: Node,
    bias: Node | None = None,
    min_data: Node | None = None,
    max_data: Node | None = None,
    min_weight: Node | None = None,
    max_weight: Node | None = None,
    min_bias: Node | None = None,
    max_bias: Node | None = None,
    *,
    kernel: Shape,
    stride: Shape = (),
    dilate: Shape = (),
    pad: Shape = (),
    num_filter: int,
    num_group: int = 1,
    workspace: int = 1024,
    no_bias: bool = False,
    cudnn_tune: Literal["fastest", "limited_workspace", "off"] | None = None,
    cudnn_off: bool = False,
    layout: Literal["NCDHW", "NCHW", "NCW", "NDHWC", "NHWC"] | None = None,
) -> tuple[Node, ...]:
    """Return the convolution of quantized images with int8 filters and bias, in int32, and its range.

    With ``no_bias``, the inputs are data, weight, and the limits of both. The limits of the weight have one element, or
    one for each filter. ``workspace`` and the ``cudnn_*`` options are accepted and ignored.

    Notes
    -----
    Compatibility: MXNet's CPU operator takes only uint8 data, only one group, and adds the numbers of an int8 bias to
    sums of another scale; here the bias is converted first, and int8 data and groups are allowed.
    """
    name = "_contrib_quantized_conv"
    rest = (bias, min_data, max_data, min_weight, max_weight, min_bias, max_bias)
    bias, limits = _split(name, no_bias, rest)
    require_dtype(name, "data", data, INT8, UINT8)
    require_dtype(name, "weight", weight, INT8)
    if problem := _conv_obstacle(kernel=kernel, layout=layout):
        raise MXNetError(f"operator {name} takes channels first, but {problem}; transpose the data")
    stride = complete(name, "stride", kernel, stride, 1)
    dilate = complete(name, "dilate", kernel, dilate, 1)
    pad = complete(name, "padding", kernel, pad, 0)
    check_window(name, kernel, stride, dilate, pad)
    check_dimensions(name, data.shape, kernel)
    expected = convolution_weight_shape(data.shape, kernel=kernel, num_filter=num_filter, num_group=num_group)
    if weight.shape != expected or data.shape[1] % num_group or num_filter % num_group:
        raise MXNetError(
            f"Shape inconsistent, Provided = {format_shape(weight.shape)}, inferred shape={expected}: the weight of "
            f"operator {name} must have the inferred shape"
        )
    window_counts(name, data.shape[2:], kernel, stride, dilate, pad)
    ranges = _ranges(name, limits, num_filter)
    out = single(int8_convolution.apply((data, weight), (stride, dilate, pad, num_group)))
    if bias is not None:
        added = _bias_in_sums(name, bias, (ranges[0], ranges[1], ranges[2]), data.dtype)
        out = out + reshape_to(added, (1, num_filter, *(1,) * len(kernel)))
    found = product_range(ranges[0], ranges[1], (data.dtype, INT8))
    if found.size > 1:
        found = reshape_to(found, (num_filter, *(1,) * len(kernel)))
    return out, -found, found


# -- symbol declarations


def _with_limits(arrays: list[Partial], inputs: list[Partial]) -> list[Partial]:
    """Return the shapes of arrays and of their limits; those of the weight may be known."""
    limits: list[Partial] = [(1,)] * (2 * len(arrays))
    for place in (2, 3):
        limits[place] = inputs[len(arrays) + place] or (1,)
    return [*arrays, *limits]


def _dense_shapes(inputs: list[Partial], outputs: list[Partial], *, num_hidden: int, flatten: bool) -> list[Partial]:
    data, count = inputs[0], len(inputs) // 3
    weight: Partial = None
    if data is not None:
        features = data[1:] if flatten else data[-1:]
        weight = (num_hidden, math.prod(features))
    arrays: list[Partial] = [data, weight, (num_hidden,)]
    return _with_limits(arrays[:count], inputs)


def _conv_shapes(
    inputs: list[Partial], outputs: list[Partial], *, kernel: Shape, num_filter: int, num_group: int
) -> list[Partial]:
    data, count = inputs[0], len(inputs) // 3
    weight: Partial = None
    if data is not None:
        weight = convolution_weight_shape(data, kernel=kernel, num_filter=num_filter, num_group=num_group)
    arrays: list[Partial] = [data, weight, (num_filter,)]
    return _with_limits(arrays[:count], inputs)


def _product_types(
    inputs: list[DType | None], outputs: list[DType | None]
) -> tuple[list[DType | None], list[DType | None]]:
    count = len(inputs) // 3
    arrays: list[DType | None] = [known_dtype("data", inputs[0], INT8, UINT8)]
    arrays += [known_dtype(word, dtype, INT8) for word, dtype in zip(("weight", "bias"), inputs[1:count])]
    limits: list[DType | None] = [FLOAT32] * (2 * count)
    return [*arrays, *limits], [INT32, FLOAT32, FLOAT32]


quantized_fully_connected.interface = Interface(
    arguments=_inputs, outputs=OUTPUTS, shapes=_dense_shapes, types=_product_types
)
quantized_conv.interface = Interface(arguments=_inputs, outputs=OUTPUTS, shapes=_conv_shapes, types=_product_types)
