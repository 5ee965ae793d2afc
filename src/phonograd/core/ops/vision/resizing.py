"""Resizing of images: adaptive average pooling, bilinear resizing and upsampling.

Averages and linear interpolation along one axis are sparse matrices: each output element is a weighted sum of a few
adjacent elements. ``_resample`` applies such a matrix along an axis and ``_resample_adjoint`` its transpose; they are
each other's gradient. Two-dimensional resizing applies one of them along each axis.
"""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np

from ...base.dtypes import FLOAT64, INT64
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partial
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, composite, operator, single
from ...lower.lowering import FLOATS, Expansion
from ..math.arithmetic import add_n, maximum, minimum, mod
from ..math.broadcasting import broadcast, sum_to
from ..math.comparison import lesser
from ..math.primitives import cast, reshape_to, select
from ..math.structural import constant
from ..nn.convolution import deconvolution
from ..nn.windows import check_floating, working_dtype
from ..shape.creation import position_along
from ..shape.shape import concatenate
from .points import add_axis, take_axis

__all__ = ["adaptive_average_pooling", "bilinear_resize", "upsampling"]


@functools.lru_cache(maxsize=256)
def _taps(rule: str, size: int, count: int) -> tuple[Array, Array]:
    """Return positions and weights of the source elements for each of ``count`` outputs from ``size`` inputs.

    Both have the shape (taps, count); positions never decrease along the outputs. The rules are ``average`` (over
    adaptive windows), ``corners`` (linear interpolation that maps the first and last elements to each other) and
    ``centers`` (linear interpolation that maps their outer edges to each other).
    """
    at = np.arange(count)
    if rule == "average":
        start, end = at * size // max(count, 1), -(-(at + 1) * size // max(count, 1))
        tap = np.arange(int(np.max(end - start, initial=1)))[:, None]
        weights = (start + tap < end) / np.maximum(end - start, 1)
        return np.minimum(start + tap, size - 1), weights
    # integer arithmetic: position = numerator / denominator, so exact positions stay exact
    if count == 1:
        numerator, denominator = np.zeros(1, np.int64), 1
    elif rule == "corners":
        numerator, denominator = at * (size - 1), count - 1
    else:
        numerator, denominator = np.maximum((2 * at + 1) * size - count, 0), 2 * count
    low = numerator // denominator
    fraction = (numerator - low * denominator) / denominator
    high = np.minimum(low + 1, size - 1)
    return np.stack([low, high]), np.stack([1 - fraction, fraction])


def _broadcast_weights(weights: Array, axis: int, ndim: int, dtype: np.dtype[np.generic]) -> Array:
    return weights.astype(dtype).reshape((-1, *(1,) * (ndim - axis - 1)))


#: maximum number of taps for kernels: each tap reads the array once
_MOST_TAPS = 8


def _quotient(numerator: Node, denominator: int) -> tuple[Node, Node]:
    """Return quotient and remainder of a nonnegative number and a positive one."""
    rest = single(mod(numerator, constant(denominator, INT64)))
    return (numerator - rest) / constant(denominator, INT64), rest


def _tap_nodes(rule: str, size: int, count: int) -> list[tuple[Node, Node]] | None:
    """Return positions and weights (in float64) of the source elements of each output, tap by tap, as nodes."""
    at = position_along((count,), 0, INT64)
    if rule == "average":
        taps = -(-size // count) + (size % count != 0)
        start, _ = _quotient(at * size, count)
        end, _ = _quotient((at + 1) * size + (count - 1), count)
        if taps > _MOST_TAPS:
            return None
        share = 1 / cast(end - start, FLOAT64)
        last = constant(size - 1, INT64)
        return [
            (single(minimum(start + tap, last)), select(single(lesser(start + tap, end)), share, 0))
            for tap in range(taps)
        ]
    if count == 1:
        numerator, denominator = at, 1
    elif rule == "corners":
        numerator, denominator = at * (size - 1), count - 1
    else:
        numerator, denominator = single(maximum((2 * at + 1) * size - count, constant(0, INT64))), 2 * count
    low, rest = _quotient(numerator, denominator)
    fraction = cast(rest, FLOAT64) / denominator
    return [(low, 1 - fraction), (single(minimum(low + 1, constant(size - 1, INT64))), fraction)]


def _averages(data: Node, axis: int, extent: int, rule: str) -> bool:
    return rule == "average" and data.shape[axis] % extent == 0


def _expand_resample(data: Node, *, axis: int, extent: int, rule: str) -> Node | None:
    size, after = data.shape[axis], (1,) * (data.ndim - axis - 1)
    if 0 in (data.size, extent):
        return None
    source = cast(data, working_dtype(data.dtype))
    if _averages(data, axis, extent, rule):
        before, behind = data.shape[:axis], data.shape[axis + 1 :]
        apart = reshape_to(source, (*before, extent, size // extent, *behind))
        sums = sum_to(apart, (*before, extent, 1, *behind))
        return cast(reshape_to(sums / (size // extent), (*before, extent, *behind)), data.dtype)
    taps = _tap_nodes(rule, size, extent)
    if taps is None:
        return None
    total: Node | None = None
    for position, weight in taps:
        term = take_axis(source, position, axis) * reshape_to(cast(weight, source.dtype), (extent, *after))
        total = term if total is None else total + term
    assert total is not None
    return cast(total, data.dtype)


def _expand_resample_adjoint(data: Node, *, axis: int, extent: int, rule: str) -> Node | None:
    count, after = data.shape[axis], (1,) * (data.ndim - axis - 1)
    if 0 in (data.size, extent):
        return None
    source = cast(data, working_dtype(data.dtype))
    if rule == "average" and extent % count == 0:
        before, behind = data.shape[:axis], data.shape[axis + 1 :]
        apart = reshape_to(source / (extent // count), (*before, count, 1, *behind))
        spread = reshape_to(broadcast(apart, (*before, count, extent // count, *behind)), (*before, extent, *behind))
        return cast(spread, data.dtype)
    taps = _tap_nodes(rule, extent, count)
    if taps is None:
        return None
    total: Node | None = None
    for position, weight in taps:
        share = source * reshape_to(cast(weight, source.dtype), (count, *after))
        term = add_axis(share, position, axis, extent)
        total = term if total is None else total + term
    assert total is not None
    return cast(total, data.dtype)


@operator(cost=4.0, lowering=Expansion(_expand_resample, FLOATS))
def _resample(data: Array, *, axis: int, extent: int, rule: str) -> Array:
    """Return the array resampled to ``extent`` elements along an axis."""
    source = data.astype(working_dtype(data.dtype), copy=False)
    out = np.zeros((*data.shape[:axis], extent, *data.shape[axis + 1 :]), source.dtype)
    for positions, weights in zip(*_taps(rule, data.shape[axis], extent)):
        out += source.take(positions, axis) * _broadcast_weights(weights, axis, data.ndim, source.dtype)
    return out.astype(data.dtype, copy=False)


@_resample.infer
def resample_shape(data: Node, *, axis: int, extent: int) -> Spec:
    return (*data.shape[:axis], extent, *data.shape[axis + 1 :]), data.dtype


@_resample.gradient
def resample_grad(out_grad: Node, out: Node, data: Node, *, axis: int, rule: str) -> Node:
    return single(_resample_adjoint.apply((out_grad,), (axis, data.shape[axis], rule)))


@operator(cost=4.0, lowering=Expansion(_expand_resample_adjoint, FLOATS))
def _resample_adjoint(data: Array, *, axis: int, extent: int, rule: str) -> Array:
    """Add each element, weighted, to the elements it was resampled from: the adjoint of ``_resample``."""
    source = data.astype(working_dtype(data.dtype), copy=False)
    out = np.zeros((*data.shape[:axis], extent, *data.shape[axis + 1 :]), source.dtype)
    count = data.shape[axis]
    for positions, weights in zip(*_taps(rule, extent, count)) if count else ():
        # equal positions are adjacent, so each run of them is one sum
        starts = np.flatnonzero(np.diff(positions, prepend=-1))
        sums = np.add.reduceat(source * _broadcast_weights(weights, axis, data.ndim, source.dtype), starts, axis)
        out[(*(slice(None),) * axis, positions[starts])] += sums
    return out.astype(data.dtype, copy=False)


@_resample_adjoint.infer
def resample_adjoint_shape(data: Node, *, axis: int, extent: int) -> Spec:
    return (*data.shape[:axis], extent, *data.shape[axis + 1 :]), data.dtype


@_resample_adjoint.gradient
def resample_adjoint_grad(out_grad: Node, out: Node, data: Node, *, axis: int, rule: str) -> Node:
    return single(_resample.apply((out_grad,), (axis, data.shape[axis], rule)))


def _resize(data: Node, extent: Shape, rule: str) -> Node:
    """Return images resampled to a height and width."""
    for axis, size in enumerate(extent, 2):
        if data.shape[axis] != size:
            data = single(_resample.apply((data,), (axis, size, rule)))
    return data


def _check_images(name: str, data: Node) -> None:
    if data.ndim != 4:
        raise MXNetError(
            f"Input data should be 4D in (batch, channel, y, x): operator {name} got data of shape "
            f"{format_shape(data.shape)}"
        )
    check_floating(name, data.dtype)


@composite(name="_contrib_AdaptiveAvgPooling2D", family="pooling")
def adaptive_average_pooling(data: Node, *, output_size: Shape = ()) -> Node:
    """Return images averaged over adaptive windows, with an output of a given (height, width).

    Output element i of n covers the input from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``. One number
    means a square; without a size the output is 1 × 1.
    """
    _check_images("_contrib_AdaptiveAvgPooling2D", data)
    if len(output_size) > 2 or any([size < 0 for size in output_size]):
        raise MXNetError(
            f"output_size {format_shape(output_size)} of operator _contrib_AdaptiveAvgPooling2D must be one number or "
            "(height, width), not negative"
        )
    extent = output_size or (1, 1)
    return _resize(data, extent * 2 if len(extent) == 1 else extent, "average")


def _resized_extent(size: int, fixed: int, scale: float | None, mode: str, word: str) -> int:
    """Return the size of an axis after resizing, for the modes without a second array."""
    if mode == "size" and scale is None:
        if fixed < 1:
            raise MXNetError(
                f"value {fixed} for Parameter {word} should be greater equal to 1, in operator "
                f'_contrib_BilinearResize2D(name="", {word}="{fixed}")'
            )
        return fixed
    if mode in ("size", "odd_scale"):
        if scale is None:
            raise MXNetError(f"operator _contrib_BilinearResize2D needs scale_{word} for mode={mode!r}")
        extent = int((size - 1) * scale) + 1 if mode == "odd_scale" and size % 2 else int(size * scale)
    else:
        even = mode.startswith("to_even")
        step = 1 if mode.endswith("up") else -1
        extent = size if (size % 2 == 0) == even else size + step
    if extent < 1:
        raise MXNetError(
            f"operator _contrib_BilinearResize2D would make {word} {extent} from {size} (mode={mode!r}, scale {scale})"
        )
    return extent


@composite(name="_contrib_BilinearResize2D")
def bilinear_resize(
    data: Node,
    like: Node | None = None,
    *,
    height: int = 1,
    width: int = 1,
    scale_height: float | None = None,
    scale_width: float | None = None,
    mode: Literal["like", "odd_scale", "size", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up"] = "size",
    align_corners: bool = True,
) -> Node:
    """Return images resized by bilinear interpolation.

    ``mode`` determines the new size. ``size`` takes height and width, or multiplies by the scales if they are given.
    ``odd_scale`` multiplies and gives odd sizes of the form ``(n - 1) * scale + 1``. ``like`` takes the size of a
    second array. ``to_even_down``, ``to_even_up``, ``to_odd_down`` and ``to_odd_up`` change a size by at most one.
    With ``align_corners`` the corner elements of input and output coincide, otherwise their outer edges do.
    """
    _check_images("_contrib_BilinearResize2D", data)
    expected, given = 1 + (mode == "like"), 1 + (like is not None)
    if expected != given:
        raise MXNetError(
            f"Operator _contrib_BilinearResize2D expects {expected} inputs, but got {given} instead (mode={mode!r})."
        )
    if like is not None:
        if like.ndim != 4:
            raise MXNetError(
                f"operator _contrib_BilinearResize2D with mode='like' needs a second array with 4 axes, got "
                f"{format_shape(like.shape)}"
            )
        extent = like.shape[2:]
    else:
        if mode == "size" and (scale_height is None) != (scale_width is None):
            raise MXNetError("operator _contrib_BilinearResize2D needs both scale_height and scale_width, or neither")
        extent = (
            _resized_extent(data.shape[2], height, scale_height, mode, "height"),
            _resized_extent(data.shape[3], width, scale_width, mode, "width"),
        )
    return _resize(data, extent, "corners" if align_corners else "centers")


def _repeat(data: Node, rows: int, columns: int) -> Node:
    """Repeat every element of images as a rectangle."""
    batch, channels, height, width = data.shape
    apart = reshape_to(data, (batch, channels, height, 1, width, 1))
    repeated = broadcast(apart, (batch, channels, height, rows, width, columns))
    return reshape_to(repeated, (batch, channels, height * rows, width * columns))


def _upsample_nearest(data: tuple[Node, ...], scale: int, multi_input_mode: str) -> Node:
    height, width = data[0].shape[2] * scale, data[0].shape[3] * scale
    images = []
    for node in data:
        for word, size, wanted in (("height", node.shape[2], height), ("width", node.shape[3], width)):
            if size == 0 or wanted % size:
                raise MXNetError(f"input {word} of {size} does not divide output {word} of {wanted}, in UpSampling")
        if multi_input_mode == "sum" and node.shape[1] != data[0].shape[1]:
            raise MXNetError(
                "Number of channels must be the same when multi_input_mode==sum: operator UpSampling got "
                f"{format_shape(data[0].shape)} and {format_shape(node.shape)}"
            )
        images.append(_repeat(node, height // node.shape[2], width // node.shape[3]))
    if len(images) == 1:
        return images[0]
    return single(add_n(*images)) if multi_input_mode == "sum" else concatenate(tuple(images), 1)


@composite(name="UpSampling", npx="upsampling")
def upsampling(
    *data: Node,
    scale: int,
    num_filter: int = 0,
    sample_type: Literal["bilinear", "nearest"],
    multi_input_mode: Literal["concat", "sum"] = "concat",
    workspace: int = 512,
) -> Node:
    """Return images enlarged by an integer factor.

    ``nearest`` repeats elements; further arrays are enlarged to the same size and concatenated along the channels, or
    added. ``bilinear`` is a Deconvolution of the first array with the second, a weight of shape (channels, 1, k, k)
    with ``k = 2 * scale - scale % 2``; ``num_filter`` is the number of channels.
    """
    if not data:
        raise MXNetError("Operator UpSampling expects at least 1 input, but got 0 instead.")
    for node in data:
        _check_images("UpSampling", node)
    if scale < 1:
        raise MXNetError(
            f'value {scale} for Parameter scale should be greater equal to 1, in operator UpSampling(name="", '
            f'scale="{scale}")'
        )
    if sample_type == "nearest":
        return _upsample_nearest(data, scale, multi_input_mode)
    if len(data) != 2:
        raise MXNetError(f"Operator UpSampling expects 2 inputs, but got {len(data)} instead (sample_type='bilinear').")
    if num_filter != data[0].shape[1]:
        raise MXNetError(
            f"num_filter of operator UpSampling must be the number of channels, {data[0].shape[1]}, got {num_filter}"
        )
    width, border = 2 * scale - scale % 2, scale // 2
    return single(
        deconvolution(
            *data,
            kernel=(width, width),
            stride=(scale, scale),
            pad=(border, border),
            num_filter=num_filter,
            num_group=num_filter,
        )
    )


# -- symbol declarations


def _upsampling_shapes(
    inputs: list[Partial], outputs: list[Partial], *, scale: int, sample_type: str, num_filter: int
) -> list[Partial]:
    if sample_type != "bilinear" or len(inputs) != 2:
        return inputs
    kernel = 2 * scale - scale % 2
    return [inputs[0], (num_filter, 1, kernel, kernel)]


bilinear_resize.interface = Interface(arguments=lambda names, *, mode: names if mode == "like" else names[:1])
upsampling.interface = Interface(
    arguments=lambda names, *, sample_type: ("data", "weight") if sample_type == "bilinear" else names,
    initial={"weight": '["bilinear", {}]', "arg1": '["bilinear", {}]'},
    shapes=_upsampling_shapes,
)
