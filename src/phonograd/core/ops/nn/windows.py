"""Sliding windows over the spatial axes: geometry, error messages and layouts of convolution and pooling.

All functions work on arrays in MXNet's default order (batch, channel, then one to three spatial axes); other layouts
are permuted before and after. The two operators are adjoints: ``im2col`` returns the windows of an image as columns,
``col2im`` adds columns into an image.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...base.dtypes import DType, compute_dtype, kind_of, name_of
from ...base.errors import MXNetError, format_shape
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, operator, single
from ..math.primitives import permute

__all__ = [
    "check_dimensions",
    "check_floating",
    "check_layout",
    "check_window",
    "col2im",
    "column_matrix",
    "columns_into_image",
    "complete",
    "from_channels_first",
    "im2col",
    "pad_spatial",
    "require_uniform_dtype",
    "to_channels_first",
    "window_counts",
    "working_dtype",
]

_AXES = {1: "x", 2: "y-x", 3: "depth-y-x"}


# -- checks of arguments


def complete(operator_name: str, word: str, kernel: Shape, value: Shape, default: int) -> Shape:
    """Return a parameter with one entry per axis of the kernel: the given value, or the default."""
    if not value:
        return (default,) * len(kernel)
    if len(value) != len(kernel):
        raise MXNetError(
            f"{word.capitalize()} must have the same number of dimensions with kernel_size,but kernel_size is set to "
            f"{format_shape(kernel)} while {word} is {format_shape(value)} in operator {operator_name}"
        )
    return value


def check_window(operator_name: str, kernel: Shape, stride: Shape, dilate: Shape, pad: Shape) -> None:
    """Raise unless the window has one to three axes, positive sizes and steps, and no negative padding."""
    if len(kernel) not in (1, 2, 3):
        raise MXNetError(
            f"{len(kernel)}D convolution not supported: {operator_name} takes a kernel of 1, 2 or 3 axes, "
            f"got {format_shape(kernel)}"
        )
    for word, value in (("kernel", kernel), ("stride", stride), ("dilate", dilate)):
        if min(value) < 1:
            raise MXNetError(
                f"incorrect {word} size: {format_shape(value)} in operator {operator_name}; entries must be at least 1"
            )
    if min(pad) < 0:
        raise MXNetError(
            f"incorrect pad size: {format_shape(pad)} in operator {operator_name}; no entry may be negative"
        )


def check_dimensions(operator_name: str, data: Shape, kernel: Shape) -> None:
    """Raise unless the data has a batch axis, a channel axis and one axis per axis of the kernel."""
    if len(data) != len(kernel) + 2:
        raise MXNetError(
            f"Input data should be {len(kernel) + 2}D in batch-num_filter-{_AXES[len(kernel)]}: operator "
            f"{operator_name} has the kernel {format_shape(kernel)} but data of shape {format_shape(data)}"
        )


def check_floating(operator_name: str, dtype: DType) -> None:
    """Raise for dtypes other than floating point."""
    if kind_of(dtype) != "f":
        raise MXNetError(
            f"This operation only support floating point types, not {name_of(dtype)}, in operator {operator_name}; "
            "convert the data with astype"
        )


def require_uniform_dtype(operator_name: str, data: Node, **others: Node | None) -> None:
    """Raise unless all inputs have the floating point dtype of the data."""
    check_floating(operator_name, data.dtype)
    for name, node in others.items():
        if node is not None and node.dtype != data.dtype:
            raise MXNetError(
                f"This layer requires uniform type. Expected '{name_of(data.dtype)}' v.s. given "
                f"'{name_of(node.dtype)}' at '{name}' "
                f"in operator {operator_name}"
            )


def window_counts(operator_name: str, extent: Shape, kernel: Shape, stride: Shape, dilate: Shape, pad: Shape) -> Shape:
    """Return the number of windows along each axis, or raise if an axis has none."""
    counts = []
    for axis, (size, width, step, gap, border) in enumerate(zip(extent, kernel, stride, dilate, pad)):
        reach = gap * (width - 1) + 1
        if reach > size + 2 * border:
            raise MXNetError(
                f"kernel size exceed input: in operator {operator_name} the kernel reaches over {reach} elements along "
                f"spatial axis {axis}, but the input has {size} (padded to {size + 2 * border}); "
                f"kernel {format_shape(kernel)}, input {format_shape(extent)}"
            )
        counts.append((size + 2 * border - reach) // step + 1)
    return tuple(counts)


# -- layouts


def check_layout(operator_name: str, layout: str | None, spatial: int) -> None:
    """Raise unless a layout has the right number of axes."""
    if layout is not None and len(layout) != spatial + 2:
        raise MXNetError(
            f"Invalid layout for {spatial + 2}d shape: layout {layout!r} in operator {operator_name} names "
            f"{len(layout)} axes"
        )


def to_channels_first(node: Node, layout: str | None) -> Node:
    """Move the channel axis of a node in some layout to the second position."""
    if layout is None or layout[1] == "C":
        return node
    last = node.ndim - 1
    return permute(node, (0, last, *range(1, last)))


def from_channels_first(node: Node, layout: str | None) -> Node:
    """Move the channel axis of a node from the second position to its place in a layout."""
    if layout is None or layout[1] == "C":
        return node
    return permute(node, (0, *range(2, node.ndim), 1))


# -- windows of NumPy arrays


def working_dtype(dtype: DType) -> DType:
    """Return the dtype of accumulation: half precision accumulates in single precision."""
    return compute_dtype(dtype)


def pad_spatial(data: Array, pad: Shape) -> Array:
    """Pad the spatial axes of an array with zeros."""
    if not any(pad):
        return data
    out = np.zeros((*data.shape[:2], *(size + 2 * border for size, border in zip(data.shape[2:], pad))), data.dtype)
    out[_interior(data.shape[2:], pad)] = data
    return out


def _interior(extent: Shape, pad: Shape) -> tuple[slice, ...]:
    return (slice(None), slice(None), *(slice(border, border + size) for size, border in zip(extent, pad)))


def column_matrix(image: Array, kernel: Shape, stride: Shape, dilate: Shape, counts: Shape, groups: int = 1) -> Array:
    """Return the windows of padded images as columns of a matrix.

    The result has the shape (groups, channels of a group × kernel positions, batch × windows).
    """
    batch, channels = image.shape[:2]
    steps = image.strides[2:]
    view = as_strided(
        image,
        (channels, *kernel, batch, *counts),
        (
            image.strides[1],
            *(step * gap for step, gap in zip(steps, dilate)),
            image.strides[0],
            *(step * pace for step, pace in zip(steps, stride)),
        ),
        writeable=False,
    )
    return view.reshape(groups, channels // groups * math.prod(kernel), batch * math.prod(counts))


def columns_into_image(
    columns: Array, image: Array, kernel: Shape, stride: Shape, dilate: Shape, counts: Shape
) -> None:
    """Add the columns of a matrix (see :func:`column_matrix`) to the windows of padded images, in place."""
    batch, channels = image.shape[:2]
    by_position = columns.reshape(channels, *kernel, batch, *counts)
    target = image.swapaxes(0, 1)
    for position, window in _positions(kernel, stride, dilate, counts):
        meets: Any = (slice(None), *position)
        target[(slice(None), slice(None), *window)] += by_position[meets]


def _positions(kernel: Shape, stride: Shape, dilate: Shape, counts: Shape) -> Iterator[tuple[Shape, tuple[slice, ...]]]:
    """Yield each position in the kernel with the image elements under it."""
    for position in product(*map(range, kernel)):
        yield (
            position,
            tuple(
                [
                    slice(at * gap, at * gap + step * (count - 1) + 1, step)
                    for at, gap, step, count in zip(position, dilate, stride, counts)
                ]
            ),
        )


# -- the two operators


def _column_geometry(
    name: str, extent: Shape, kernel: Shape, stride: Shape, dilate: Shape, pad: Shape
) -> tuple[Shape, Shape, Shape, Shape]:
    """Return stride, dilate and pad completed, and the number of windows per axis."""
    stride = complete(name, "stride", kernel, stride, 1)
    dilate = complete(name, "dilate", kernel, dilate, 1)
    pad = complete(name, "padding", kernel, pad, 0)
    check_window(name, kernel, stride, dilate, pad)
    return stride, dilate, pad, window_counts(name, extent, kernel, stride, dilate, pad)


@operator(cost=0)
def im2col(data: Array, *, kernel: Shape, stride: Shape = (), dilate: Shape = (), pad: Shape = ()) -> Array:
    """Return the sliding blocks of images as columns: shape (batch, channels × kernel positions, blocks).

    Images have one to three spatial axes. The parameters mean the same as in ``Convolution``, which is the product of
    a weight matrix with these columns.
    """
    stride, dilate, pad, counts = _column_geometry("im2col", data.shape[2:], kernel, stride, dilate, pad)
    batch, channels = data.shape[:2]
    columns = column_matrix(pad_spatial(data, pad), kernel, stride, dilate, counts)
    height, blocks = channels * math.prod(kernel), math.prod(counts)
    return np.ascontiguousarray(columns.reshape(height, batch, blocks).swapaxes(0, 1))


@im2col.infer
def im2col_shape(data: Node, *, kernel: Shape, stride: Shape, dilate: Shape, pad: Shape) -> Spec:
    check_floating("im2col", data.dtype)
    if 1 <= len(kernel) <= 3:
        check_dimensions("im2col", data.shape, kernel)
    counts = _column_geometry("im2col", data.shape[2:], kernel, stride, dilate, pad)[3]
    return (data.shape[0], data.shape[1] * math.prod(kernel), math.prod(counts)), data.dtype


@im2col.gradient
def im2col_grad(
    out_grad: Node, out: Node, data: Node, *, kernel: Shape, stride: Shape, dilate: Shape, pad: Shape
) -> Node:
    return single(col2im(out_grad, output_size=data.shape[2:], kernel=kernel, stride=stride, dilate=dilate, pad=pad))


@operator()
def col2im(
    data: Array, *, output_size: Shape, kernel: Shape, stride: Shape = (), dilate: Shape = (), pad: Shape = ()
) -> Array:
    """Return images with columns added block by block: the adjoint of ``im2col``."""
    stride, dilate, pad, counts = _column_geometry("col2im", output_size, kernel, stride, dilate, pad)
    batch, channels = data.shape[0], data.shape[1] // math.prod(kernel)
    image = np.zeros((batch, channels, *(s + 2 * p for s, p in zip(output_size, pad))), working_dtype(data.dtype))
    columns_into_image(data.swapaxes(0, 1), image, kernel, stride, dilate, counts)
    return np.ascontiguousarray(image[_interior(output_size, pad)], data.dtype)


@col2im.infer
def col2im_shape(data: Node, *, output_size: Shape, kernel: Shape, stride: Shape, dilate: Shape, pad: Shape) -> Spec:
    check_floating("col2im", data.dtype)
    complete("col2im", "output size", kernel, output_size, 0)
    counts = _column_geometry("col2im", output_size, kernel, stride, dilate, pad)[3]
    if data.ndim != 3 or data.shape[2] != math.prod(counts):
        raise MXNetError(
            f"output size does not match convolution parameters: operator col2im needs data of shape (batch, channels "
            f"* {math.prod(kernel)}, {math.prod(counts)}) for the output size {format_shape(output_size)}, "
            f"got {format_shape(data.shape)}"
        )
    if data.shape[1] % math.prod(kernel) != 0:
        raise MXNetError(
            f"the second dim of input shape should be multiples of kernel size: {data.shape[1]} rows for the kernel "
            f"{format_shape(kernel)} in operator col2im"
        )
    return (data.shape[0], data.shape[1] // math.prod(kernel), *output_size), data.dtype


@col2im.gradient
def col2im_grad(
    out_grad: Node, out: Node, data: Node, *, kernel: Shape, stride: Shape, dilate: Shape, pad: Shape
) -> Node:
    return single(im2col(out_grad, kernel=kernel, stride=stride, dilate=dilate, pad=pad))
