"""Pooling over one to three spatial axes: the maximum, sum, mean or norm of each window.

The sum over windows and its adjoint, which adds each number to all elements of its window, are linear and each
other's gradient. Means and norms are written with them. The maximum has primitives for its value, its position and the
scatter that is its gradient. Sums and maxima over a box are computed one axis at a time.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from itertools import product
from typing import Literal

import numpy as np

from ...base.dtypes import INT8, INT64, UINT8, DType
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface
from ...graph.node import Node, Shape
from ...graph.operator import REGISTRY, Array, Spec, composite, nothing, operator, single
from ...lower.lowering import FLOATS, Expansion, Windowed
from ..math.arithmetic import integer_power, maximum, minimum
from ..math.comparison import greater_equal, not_equal
from ..math.elementary import cbrt, sqrt
from ..math.primitives import cast, embed, gather, select
from ..math.structural import constant
from ..shape.creation import position_along
from .windows import check_floating, from_channels_first, to_channels_first, working_dtype

__all__ = ["pooling", "window_sum"]


# -- overlap of windows and data along one axis


def _overlap(offset: int, size: int, step: int, border: int, count: int) -> tuple[slice, slice] | None:
    """Return the windows that have data at an offset, and those data; None if there are no such windows."""
    first = max(0, -((offset - border) // step))
    last = min(count, (size - 1 + border - offset) // step + 1)
    if first >= last:
        return None
    start = first * step - border + offset
    return slice(first, last), slice(start, start + (last - first - 1) * step + 1, step)


def _overlaps(size: int, width: int, step: int, border: int, count: int) -> Iterator[tuple[slice, slice]]:
    """Yield, for each offset within a window that meets data, the windows and the data."""
    for offset in range(width):
        found = _overlap(offset, size, step, border, count)
        if found is not None:
            yield found


def _counts(size: int, width: int, step: int, border: int, count: int, include_pad: bool) -> Array:
    """Return the divisor of the mean of each window: its number of elements, or 1 if it has none."""
    start = np.arange(count) * step - border
    end = np.minimum(start + width, size + border)
    if not include_pad:
        start, end = np.maximum(start, 0), np.minimum(end, size)
    return np.maximum(end - start, 1)


def _has_empty_windows(extent: Shape, kernel: Shape, stride: Shape, pad: Shape, counts: Shape) -> bool:
    for size, width, step, border, count in zip(extent, kernel, stride, pad, counts):
        if size == 0 or width <= border or (count - 1) * step - border >= size:
            return True
    return False


def _along(axis: int, part: slice) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, part)


# -- sums over windows


@operator(cost=lambda node: float(node.size * sum(node.parameters["kernel"])), lowering=Windowed("window_sum"))
def _window_sum(data: Array, *, kernel: Shape, stride: Shape, pad: Shape, counts: Shape) -> Array:
    """Return the sum of each window over the spatial axes."""
    out = data.astype(working_dtype(data.dtype), copy=False)
    for axis, window in enumerate(zip(kernel, stride, pad, counts), 2):
        size, width, count = out.shape[axis], window[0], window[3]
        if count == 1 and window[2] == 0 and width >= size:
            out = out.sum(axis=axis, keepdims=True)
            continue
        total = np.zeros((*out.shape[:axis], count, *out.shape[axis + 1 :]), out.dtype)
        for windows, elements in _overlaps(size, *window):
            total[_along(axis, windows)] += out[_along(axis, elements)]
        out = total
    return out.astype(data.dtype, copy=False)


@_window_sum.infer
def window_sum_shape(data: Node, *, counts: Shape) -> Spec:
    return (*data.shape[:2], *counts), data.dtype


@_window_sum.gradient
def window_sum_grad(out_grad: Node, out: Node, data: Node, *, kernel: Shape, stride: Shape, pad: Shape) -> Node:
    return single(_window_spread.apply((out_grad,), (data.shape[2:], kernel, stride, pad)))


@operator(cost=lambda node: float(node.size * sum(node.parameters["kernel"])), lowering=Windowed("window_spread"))
def _window_spread(data: Array, *, extent: Shape, kernel: Shape, stride: Shape, pad: Shape) -> Array:
    """Add each element to all elements of its window in an array of zeros: the adjoint of a sum over windows."""
    out = data.astype(working_dtype(data.dtype), copy=False)
    for axis, (size, width, step, border) in enumerate(zip(extent, kernel, stride, pad), 2):
        spread = np.zeros((*out.shape[:axis], size, *out.shape[axis + 1 :]), out.dtype)
        for windows, elements in _overlaps(size, width, step, border, out.shape[axis]):
            spread[_along(axis, elements)] += out[_along(axis, windows)]
        out = spread
    return out.astype(data.dtype, copy=False)


@_window_spread.infer
def window_spread_shape(data: Node, *, extent: Shape) -> Spec:
    return (*data.shape[:2], *extent), data.dtype


@_window_spread.gradient
def window_spread_grad(out_grad: Node, out: Node, data: Node, *, kernel: Shape, stride: Shape, pad: Shape) -> Node:
    return window_sum(out_grad, kernel, stride, pad, data.shape[2:])


def window_sum(data: Node, kernel: Shape, stride: Shape, pad: Shape, counts: Shape) -> Node:
    """Return the sum of each of ``counts`` windows along the spatial axes; the data is padded with zeros."""
    return single(_window_sum.apply((data,), (kernel, stride, pad, counts)))


def _expand_elements(
    *, extent: Shape, kernel: Shape, stride: Shape, pad: Shape, counts: Shape, include_pad: bool, dtype: DType
) -> Node:
    """Return the result of ``_window_elements``, computed from the positions of windows."""
    shape = (1, 1, *counts)
    out = constant(1, INT64)
    for axis, (size, width, step, border, _) in enumerate(zip(extent, kernel, stride, pad, counts), 2):
        start = position_along(shape, axis, INT64) * constant(step, INT64) - constant(border, INT64)
        end = minimum(start + constant(width, INT64), constant(size + border if include_pad else size, INT64))
        start = start if include_pad else maximum(start, constant(0, INT64))
        out = out * maximum(end - start, constant(1, INT64))
    return cast(out, dtype)


@operator(gradient=nothing, lowering=Expansion(_expand_elements))
def _window_elements(
    *, extent: Shape, kernel: Shape, stride: Shape, pad: Shape, counts: Shape, include_pad: bool, dtype: DType
) -> Array:
    """Return the divisor of the mean of each window, as an array of shape (1, 1, *counts)."""
    out = np.ones((), np.int64)
    for window in zip(extent, kernel, stride, pad, counts):
        out = np.multiply.outer(out, _counts(*window, include_pad))
    return out.astype(dtype)[None, None]


@_window_elements.infer
def window_elements_shape(*, counts: Shape, dtype: DType) -> Spec:
    return (1, 1, *counts), dtype


# -- maxima over windows


@operator(
    cost=lambda node: float(node.size * sum(node.parameters["kernel"])),
    lowering=Windowed("window_max", FLOATS | {INT8, UINT8}),
)
def _window_max(data: Array, *, kernel: Shape, stride: Shape, pad: Shape, counts: Shape) -> Array:
    """Return the maximum of each window; NaN counts as the lowest number, and so does an empty window."""
    lowest = (np.iinfo(data.dtype) if data.dtype.kind in "iu" else np.finfo(data.dtype)).min
    out = data
    for axis, window in enumerate(zip(kernel, stride, pad, counts), 2):
        largest = np.full((*out.shape[:axis], window[3], *out.shape[axis + 1 :]), lowest, out.dtype)
        for windows, elements in _overlaps(out.shape[axis], *window):
            part = largest[_along(axis, windows)]
            np.fmax(part, out[_along(axis, elements)], out=part)
        out = largest
    return out


@_window_max.infer
def window_max_shape(data: Node, *, counts: Shape) -> Spec:
    return (*data.shape[:2], *counts), data.dtype


@_window_max.gradient
def window_max_grad(
    out_grad: Node, out: Node, data: Node, *, kernel: Shape, stride: Shape, pad: Shape, counts: Shape
) -> Node:
    return single(_window_max_grad.apply((out_grad, data, out), (kernel, stride, pad)))


@operator(
    cost=lambda node: 3.0 * node.size * math.prod(node.parameters["kernel"]), lowering=Windowed("window_max_grad")
)
def _window_max_grad(
    out_grad: Array, data: Array, largest: Array, *, kernel: Shape, stride: Shape, pad: Shape
) -> Array:
    """Add each element of ``out_grad`` to the position of its window's maximum, in an array of zeros.

    The elements of empty windows are dropped.
    """
    position = _window_argmax.function(data, largest, kernel=kernel, stride=stride, pad=pad)
    if _has_empty_windows(data.shape[2:], kernel, stride, pad, largest.shape[2:]):
        out_grad = np.where(position >= 0, out_grad, out_grad.dtype.type(0))
        position = np.maximum(position, 0)
    found: Array = REGISTRY["_scatter_add"].function(out_grad, position, shape=data.shape)
    return found


@_window_max_grad.infer
def window_max_grad_shape(out_grad: Node, data: Node, largest: Node) -> Spec:
    return data.shape, out_grad.dtype


@_window_max_grad.gradient
def window_max_grad_grad(
    grad: Node, out: Node, out_grad: Node, data: Node, largest: Node, *, kernel: Shape, stride: Shape, pad: Shape
) -> tuple[Node, None, None]:
    position = single(_window_argmax.apply((data, largest), (kernel, stride, pad)))
    if not _has_empty_windows(data.shape[2:], kernel, stride, pad, largest.shape[2:]):
        return gather(grad, position), None, None
    zero = constant(0, INT64)
    return select(greater_equal(position, zero), gather(grad, maximum(position, zero)), 0), None, None


@operator(
    gradient=nothing,
    cost=lambda node: 3.0 * node.size * math.prod(node.parameters["kernel"]),
    lowering=Windowed("window_argmax", FLOATS | {INT64}),
)
def _window_argmax(data: Array, largest: Array, *, kernel: Shape, stride: Shape, pad: Shape) -> Array:
    """Return the flat position of the first maximum of each window, or -1 for an empty window.

    If no element equals the maximum (all are NaN or minus infinity), the result is the position of the first element.
    """
    extent, counts, volume = data.shape[2:], largest.shape[2:], math.prod(kernel)
    # the code of a match is the volume minus its rank, so the largest code is the first match: no branch, one byte
    code: Array = np.zeros(largest.shape, np.int8 if volume < 128 else np.int32)
    for rank, offsets in enumerate(product(*map(range, kernel))):
        found = [_overlap(*axis) for axis in zip(offsets, extent, stride, pad, counts)]
        meeting = [pair for pair in found if pair is not None]
        if len(meeting) == len(found):
            windows = (slice(None), slice(None), *(pair[0] for pair in meeting))
            elements = (slice(None), slice(None), *(pair[1] for pair in meeting))
            matches = np.equal(data[elements], largest[windows])
            part = code[windows]
            np.maximum(part, matches * code.dtype.type(volume - rank), out=part)
    starts = [np.arange(count) * step - border for count, step, border in zip(counts, stride, pad)]
    ends = [np.minimum(start + width, size) for start, width, size in zip(starts, kernel, extent)]
    firsts = [np.maximum(start, 0) for start in starts]
    offset_of_rank = _flat([np.arange(width) for width in kernel], extent).reshape(-1)
    matched = _flat(starts, extent) + offset_of_rank.take(volume - code, mode="clip")
    plane = np.arange(math.prod(data.shape[:2])).reshape(*data.shape[:2], *(1,) * len(extent)) * math.prod(extent)
    position: Array = np.where(code > 0, matched, _flat(firsts, extent)) + plane
    occupied = functools.reduce(np.logical_and.outer, [first < end for first, end in zip(firsts, ends)])
    return position if np.all(occupied) else np.where(occupied, position, -1)


def _flat(indices: list[Array], extent: Shape) -> Array:
    """Return the flat positions of all combinations of indices along the axes of a shape."""
    out = np.zeros((), np.int64)
    for index, size in zip(indices, extent):
        out = np.add.outer(out * size, index)
    return out


@_window_argmax.infer
def window_argmax_shape(data: Node, largest: Node) -> Spec:
    return largest.shape, INT64


# -- the public operators


def _output_counts(name: str, extent: Shape, kernel: Shape, stride: Shape, pad: Shape, convention: str) -> Shape:
    counts = []
    for size, width, step, border in zip(extent, kernel, stride, pad):
        if convention == "same":
            counts.append(-(-size // step))
            continue
        if width > size + 2 * border:
            raise MXNetError(
                f"kernel size ({width}) exceeds input ({size} padded to {size + 2 * border}) in operator {name}: "
                f"kernel {format_shape(kernel)}, input {format_shape(extent)}"
            )
        free = size + 2 * border - width
        counts.append((-(-free // step) if convention == "full" else free // step) + 1)
    return tuple(counts)


def _complete(name: str, word: str, spatial: int, value: Shape, default: int) -> Shape:
    """Return a parameter with one entry per spatial axis; the default is also the minimum.

    As in MXNet, strides and paddings may have more entries, which have no effect.
    """
    if not value:
        return (default,) * spatial
    if len(value) > spatial and word != "kernel" and min(value) >= default:
        value = value[:spatial]
    if len(value) != spatial:
        raise MXNetError(
            f"{word} {format_shape(value)} must have {spatial} entries, one per spatial axis of the data, "
            f"in operator {name}"
        )
    if min(value) < default:
        raise MXNetError(
            f"value {format_shape(value)}for Parameter {word} is invalid, the input shape must be nonzero in all "
            f"dimensions, in operator {name}; every entry must be at least {default}"
        )
    return value


def _check_data(name: str, data: Node, layout: str | None, least: int = 3) -> None:
    _check_axes(name, data, layout, least)
    check_floating(name, data.dtype)


def _check_axes(name: str, data: Node, layout: str | None, least: int = 3) -> None:
    if not least <= data.ndim <= 5:
        raise MXNetError(
            "Input data should be  3D in (batch, channel, x) Or 4D in (batch, channel, y, x)  Or 5D in "
            f"(batch, channel, d, y, x): operator {name} got data of shape {format_shape(data.shape)}"
        )
    if layout is not None and len(layout) != data.ndim:
        raise MXNetError(
            f"Need {data.ndim - 2}D layout: operator {name} got layout {layout!r} with data of shape "
            f"{format_shape(data.shape)}"
        )


class _Window:
    """Hold the checked window of one Pooling call on channels-first data."""

    def __init__(
        self, name: str, data: Node, kernel: Shape, stride: Shape, pad: Shape, convention: str, global_pool: bool
    ) -> None:
        self.extent = data.shape[2:]
        spatial = len(self.extent)
        if global_pool:
            self.kernel, self.stride, self.pad = self.extent, (1,) * spatial, (0,) * spatial
            self.counts = (1,) * spatial
            return
        if len(kernel) != spatial:
            raise MXNetError(
                f"{len(kernel)}D pooling not supported: operator {name} needs a kernel with {spatial} entries for data "
                f"of shape {format_shape(data.shape)}, got {format_shape(kernel)} (or global_pool=True)"
            )
        self.kernel = _complete(name, "kernel", spatial, kernel, 1)
        self.stride = _complete(name, "stride", spatial, stride, 1)
        self.pad = _complete(name, "pad", spatial, pad, 0)
        if convention == "same" and any(self.pad):
            raise MXNetError(
                f"Same pooling convention disables the use of pad parameter: operator {name} got pad "
                f"{format_shape(pad)}"
            )
        self.counts = _output_counts(name, self.extent, self.kernel, self.stride, self.pad, convention)

    def sum(self, data: Node) -> Node:
        return window_sum(data, self.kernel, self.stride, self.pad, self.counts)

    def max(self, data: Node) -> Node:
        return single(_window_max.apply((data,), (self.kernel, self.stride, self.pad, self.counts)))

    def mean(self, data: Node, include_pad: bool) -> Node:
        window = (self.extent, self.kernel, self.stride, self.pad, self.counts)
        sizes = [set(_counts(*axis, include_pad).tolist()) for axis in zip(*window)]
        if all([len(size) == 1 for size in sizes]):
            return self.sum(data) / float(math.prod([size.pop() for size in sizes]))
        return self.sum(data) / single(_window_elements.apply((), (*window, include_pad, data.dtype)))

    def norm(self, data: Node, power: int) -> Node:
        if power == 1:
            return self.sum(data)
        total = self.sum(integer_power(data, power))
        nonzero = not_equal(total, constant(0, total.dtype))
        # roots have no derivative at zero; the gradient is zero there
        root = (sqrt if power == 2 else cbrt)(select(nonzero, total, 1))
        return select(nonzero, root, 0)


def largest_of_windows(
    name: str,
    data: Node,
    kernel: Shape,
    stride: Shape,
    pad: Shape,
    pooling_convention: str,
    global_pool: bool,
    layout: str | None,
) -> Node:
    """Return the maximum of each window of images of any dtype, in the operator ``name``."""
    _check_axes(name, data, layout)
    images = to_channels_first(data, layout)
    window = _Window(name, images, kernel, stride, pad, pooling_convention, global_pool)
    return from_channels_first(window.max(images), layout)


@composite(name="Pooling", npx="pooling")
def pooling(
    data: Node,
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
) -> Node:
    """Return the maximum, mean, sum or norm of each window of images with one to three spatial axes.

    Along an axis of size n there are ``(n + 2 * pad - kernel) // stride + 1`` windows. The convention ``full`` rounds
    up instead of down, and ``same`` makes ``ceil(n / stride)`` windows that begin inside the data. ``global_pool``
    uses one window over all elements. Means count padding unless ``count_include_pad`` is False. ``lp`` is the root of
    the sum of powers, with ``p_value`` 1, 2 or 3. The gradient of a maximum goes to the first of several equal
    elements.
    """
    _check_data("Pooling", data, layout)
    images = to_channels_first(data, layout)
    window = _Window("Pooling", images, kernel, stride, pad, pooling_convention, global_pool)
    if pool_type == "max":
        out = window.max(images)
    elif pool_type == "sum":
        out = window.sum(images)
    elif pool_type == "avg":
        out = window.mean(images, count_include_pad is not False)
    else:
        if p_value not in (1, 2, 3):
            raise MXNetError(
                f"p value of {p_value} is not supported yet: operator Pooling with pool_type='lp' needs 1, 2 or 3"
            )
        out = window.norm(images, p_value)
    return from_channels_first(out, layout)


@composite(name="Pooling_v1")
def pooling_v1(
    data: Node,
    *,
    kernel: Shape = (),
    pool_type: Literal["avg", "max", "sum"] = "max",
    global_pool: bool = False,
    pooling_convention: Literal["full", "valid"] = "valid",
    stride: Shape = (),
    pad: Shape = (),
) -> Node:
    """Return the maximum, mean or sum of each window, as early versions of MXNet did.

    Unlike in ``Pooling``, maxima include the padding zeros, and means always divide by the size of the kernel.
    """
    _check_data("Pooling_v1", data, None, 4)
    if not global_pool and any(pad) and pool_type == "max" and len(pad) == data.ndim - 2:
        begin = (0, 0, *pad)
        end = tuple([start + size for start, size in zip(begin, data.shape)])
        data = embed(data, tuple([start + stop for start, stop in zip(begin, end)]), begin, end)
        pad = ()
    window = _Window("Pooling_v1", data, kernel, stride, pad, pooling_convention, global_pool)
    if pool_type == "max":
        return window.max(data)
    total = window.sum(data)
    return total if pool_type == "sum" else total / float(math.prod(window.kernel))


# -- symbol declarations

pooling.interface = Interface(
    outputs=lambda *, pool_type, global_pool: ("output", "places")[: 1 + (pool_type == "max" and not global_pool)],
    shown=1,
)
