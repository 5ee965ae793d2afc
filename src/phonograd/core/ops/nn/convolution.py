"""Convolution and its transpose over one to three spatial axes.

Three bilinear primitives are closed under differentiation, so every order of derivative exists:

=============================================  ===============================================================
``_convolution(x, w)``                         the cross-correlation of images with filters
``_convolution_data_grad(g, w)``               its adjoint in x, which ``Deconvolution`` computes
``_convolution_weight_grad(x, g)``             its adjoint in w
=============================================  ===============================================================

The references use im2col: windows become columns of a matrix. One matrix product covers as many images as keep the
columns in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partial, leave_out
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, composite, operator, single
from ...lower.lowering import Windowed
from ..math.primitives import reshape_to
from .windows import (
    check_dimensions,
    check_layout,
    check_window,
    column_matrix,
    columns_into_image,
    complete,
    from_channels_first,
    pad_spatial,
    require_uniform_dtype,
    to_channels_first,
    window_counts,
    working_dtype,
)

__all__ = ["convolution", "convolution_weight_shape", "deconvolution", "deconvolution_weight_shape"]

#: elements of the column matrix of one product; the time hardly changes from 2**19 to 2**22 and doubles below
_COLUMN_BUDGET = 1 << 20


def _batches(batch: int, columns_of_one: int) -> Iterator[slice]:
    """Yield the slices of a batch whose column matrices stay within the budget."""
    step = max(1, _COLUMN_BUDGET // max(1, columns_of_one))
    for start in range(0, batch, step):
        yield slice(start, min(start + step, batch))


def _by_group(maps: Array, groups: int) -> Array:
    """Return feature maps in the shape (groups, channels of a group, batch × elements)."""
    batch, channels = maps.shape[:2]
    return maps.swapaxes(0, 1).reshape(groups, channels // groups, batch * math.prod(maps.shape[2:]))


# -- the primitives


@operator(cost=lambda node: 2.0 * node.size * math.prod(node.inputs[1].shape[1:]), lowering=Windowed("convolution"))
def _convolution(data: Array, weight: Array, *, stride: Shape, dilate: Shape, pad: Shape, groups: int) -> Array:
    """Return the cross-correlation of images (batch, channel, ...) with filters (filter, channel of a group, ...)."""
    kernel = weight.shape[2:]
    counts = window_counts("_convolution", data.shape[2:], kernel, stride, dilate, pad)
    dtype = working_dtype(data.dtype)
    image = pad_spatial(data.astype(dtype, copy=False), pad)
    batch, filters, rows = data.shape[0], weight.shape[0], math.prod(weight.shape[1:])
    matrices = weight.astype(dtype, copy=False).reshape(groups, filters // groups, rows)
    out = np.empty((batch, filters, *counts), data.dtype)
    for part in _batches(batch, groups * rows * math.prod(counts)):
        columns = column_matrix(image[part], kernel, stride, dilate, counts, groups)
        out[part] = np.matmul(matrices, columns).reshape(filters, -1, *counts).swapaxes(0, 1)
    return out


@_convolution.infer
def convolution_shape(data: Node, weight: Node, *, stride: Shape, dilate: Shape, pad: Shape, groups: int) -> Spec:
    assert data.shape[1] == weight.shape[1] * groups, (data, weight)
    assert weight.shape[0] % groups == 0, (weight, groups)
    counts = window_counts("_convolution", data.shape[2:], weight.shape[2:], stride, dilate, pad)
    return (data.shape[0], weight.shape[0], *counts), data.dtype


@_convolution.gradient
def convolution_grad(
    out_grad: Node, out: Node, data: Node, weight: Node, *, stride: Shape, dilate: Shape, pad: Shape, groups: int
) -> tuple[Node, Node]:
    window = (stride, dilate, pad, groups)
    return (
        single(_convolution_data_grad.apply((out_grad, weight), (data.shape[2:], *window))),
        single(_convolution_weight_grad.apply((data, out_grad), (weight.shape[2:], *window))),
    )


@operator(
    cost=lambda node: 2.0 * node.inputs[0].size * math.prod(node.inputs[1].shape[1:]),
    lowering=Windowed("convolution_data_grad"),
)
def _convolution_data_grad(
    out_grad: Array, weight: Array, *, extent: Shape, stride: Shape, dilate: Shape, pad: Shape, groups: int
) -> Array:
    """Return the adjoint of a convolution with respect to its images; ``extent`` is their spatial shape."""
    batch, filters, *_ = out_grad.shape
    counts, kernel, rows = out_grad.shape[2:], weight.shape[2:], math.prod(weight.shape[1:])
    dtype = working_dtype(out_grad.dtype)
    matrices = weight.astype(dtype, copy=False).reshape(groups, filters // groups, rows).swapaxes(1, 2)
    grad = out_grad.astype(dtype, copy=False)
    image = np.zeros((batch, weight.shape[1] * groups, *(s + 2 * p for s, p in zip(extent, pad))), dtype)
    # one filter per group makes outer products, where matrix multiplication is slowest
    multiply = np.multiply if filters == groups else np.matmul
    for part in _batches(batch, groups * rows * math.prod(counts)):
        columns = multiply(matrices, _by_group(grad[part], groups))
        columns_into_image(columns, image[part], kernel, stride, dilate, counts)
    inside = tuple([slice(p, p + s) for s, p in zip(extent, pad)])
    return np.ascontiguousarray(image[(slice(None), slice(None), *inside)], out_grad.dtype)


@_convolution_data_grad.infer
def convolution_data_grad_shape(
    out_grad: Node, weight: Node, *, extent: Shape, stride: Shape, dilate: Shape, pad: Shape, groups: int
) -> Spec:
    counts = window_counts("_convolution_data_grad", extent, weight.shape[2:], stride, dilate, pad)
    assert out_grad.shape[1:] == (weight.shape[0], *counts), (out_grad, weight, extent)
    return (out_grad.shape[0], weight.shape[1] * groups, *extent), out_grad.dtype


@_convolution_data_grad.gradient
def convolution_data_grad_grad(
    grad: Node, out: Node, out_grad: Node, weight: Node, *, stride: Shape, dilate: Shape, pad: Shape, groups: int
) -> tuple[Node, Node]:
    window = (stride, dilate, pad, groups)
    return (
        single(_convolution.apply((grad, weight), window)),
        single(_convolution_weight_grad.apply((grad, out_grad), (weight.shape[2:], *window))),
    )


@operator(
    cost=lambda node: 2.0 * node.inputs[1].size * math.prod(node.shape[1:]),
    lowering=Windowed("convolution_weight_grad"),
)
def _convolution_weight_grad(
    data: Array, out_grad: Array, *, kernel: Shape, stride: Shape, dilate: Shape, pad: Shape, groups: int
) -> Array:
    """Return the adjoint of a convolution with respect to its filters; ``kernel`` is their spatial shape."""
    batch, channels = data.shape[:2]
    filters, counts = out_grad.shape[1], out_grad.shape[2:]
    rows = channels // groups * math.prod(kernel)
    dtype = working_dtype(data.dtype)
    image, grad = pad_spatial(data.astype(dtype, copy=False), pad), out_grad.astype(dtype, copy=False)
    out = np.zeros((groups, filters // groups, rows), dtype)
    for part in _batches(batch, groups * rows * math.prod(counts)):
        columns = column_matrix(image[part], kernel, stride, dilate, counts, groups)
        out += np.matmul(_by_group(grad[part], groups), columns.swapaxes(1, 2))
    return out.reshape(filters, channels // groups, *kernel).astype(data.dtype, copy=False)


@_convolution_weight_grad.infer
def convolution_weight_grad_shape(
    data: Node, out_grad: Node, *, kernel: Shape, stride: Shape, dilate: Shape, pad: Shape, groups: int
) -> Spec:
    counts = window_counts("_convolution_weight_grad", data.shape[2:], kernel, stride, dilate, pad)
    assert out_grad.shape == (data.shape[0], out_grad.shape[1], *counts), (data, out_grad, kernel)
    return (out_grad.shape[1], data.shape[1] // groups, *kernel), data.dtype


@_convolution_weight_grad.gradient
def convolution_weight_grad_grad(
    grad: Node, out: Node, data: Node, out_grad: Node, *, stride: Shape, dilate: Shape, pad: Shape, groups: int
) -> tuple[Node, Node]:
    window = (stride, dilate, pad, groups)
    return (
        single(_convolution_data_grad.apply((out_grad, grad), (data.shape[2:], *window))),
        single(_convolution.apply((data, grad), window)),
    )


# -- checks shared by both public operators


def _check_bias(name: str, bias: Node | None, no_bias: bool) -> None:
    if bias is None and not no_bias:
        raise MXNetError(f"Operator {name} expects 3 inputs, but got 2 instead; pass a bias or no_bias=True.")
    if bias is not None and no_bias:
        raise MXNetError(f"Operator {name} expects 2 inputs, but got 3 instead; a bias needs no_bias=False.")


def _check_shape(name: str, argument: str, given: Shape, expected: Shape) -> None:
    if given != expected:
        raise MXNetError(
            f"Shape inconsistent, Provided = {format_shape(given)}, inferred shape={expected}: the {argument} of "
            f"operator {name} must have the inferred shape"
        )


def _check_filters(name: str, channels: int, num_filter: int, num_group: int) -> None:
    for word, value in (("num_filter", num_filter), ("num_group", num_group)):
        if value < 1:
            raise MXNetError(
                f"value {value} for Parameter {word} should be greater equal to 1, "
                f'in operator {name}(name="", {word}="{value}")'
            )
    for word, count in (("input", channels), ("output", num_filter)):
        if count % num_group != 0:
            raise MXNetError(
                f"{word} num_filter must divide group size: operator {name} cannot split {count} {word} channels into "
                f"num_group={num_group} groups of equal size"
            )


def _arrange(shape: Shape, layout: str | None) -> Shape:
    """Return a channels-first shape in the axis order of a layout."""
    if layout is None or layout[1] == "C":
        return shape
    return (shape[0], *shape[2:], shape[1])


def _channels(data: Shape, layout: str | None) -> int:
    return data[1] if layout is None or layout[1] == "C" else data[-1]


def convolution_weight_shape(
    data: Shape, *, kernel: Shape, num_filter: int, num_group: int = 1, layout: str | None = None
) -> Shape:
    """Return the shape of the weight of a Convolution for a shape of data.

    >>> convolution_weight_shape((8, 3, 32, 32), kernel=(5, 5), num_filter=16)
    (16, 3, 5, 5)
    """
    return _arrange((num_filter, _channels(data, layout) // num_group, *kernel), layout)


def deconvolution_weight_shape(
    data: Shape, *, kernel: Shape, num_filter: int, num_group: int = 1, layout: str | None = None
) -> Shape:
    """Return the shape of the weight of a Deconvolution for a shape of data.

    >>> deconvolution_weight_shape((8, 3, 32, 32), kernel=(5, 5), num_filter=16)
    (3, 16, 5, 5)
    """
    return _arrange((_channels(data, layout), num_filter // num_group, *kernel), layout)


def _add_bias(out: Node, bias: Node | None) -> Node:
    if bias is None:
        return out
    return out + reshape_to(bias, (1, bias.shape[0], *(1,) * (out.ndim - 2)))


# -- the public operators


@composite(name="Convolution", aliases=("Convolution_v1",), npx="convolution")
def convolution(
    data: Node,
    weight: Node,
    bias: Node | None = None,
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
) -> Node:
    """Return the convolution of images with filters, plus a bias per filter.

    The data is (batch, channel, x), (batch, channel, y, x) or (batch, channel, z, y, x) and the weight (num_filter,
    channel // num_group, *kernel). Along each axis of size n the output has
    ``(n + 2 * pad - dilate * (kernel - 1) - 1) // stride + 1`` elements. The filters are not flipped.

    With ``layout`` NHWC or NDHWC, channels are the last axis of data, weight and output. ``workspace`` and the
    ``cudnn_*`` options are accepted and ignored.
    """
    _check_bias("Convolution", bias, no_bias)
    stride = complete("Convolution", "stride", kernel, stride, 1)
    dilate = complete("Convolution", "dilate", kernel, dilate, 1)
    pad = complete("Convolution", "padding", kernel, pad, 0)
    check_window("Convolution", kernel, stride, dilate, pad)
    check_dimensions("Convolution", data.shape, kernel)
    check_layout("Convolution", layout, len(kernel))
    _check_filters("Convolution", _channels(data.shape, layout), num_filter, num_group)
    expected = convolution_weight_shape(
        data.shape, kernel=kernel, num_filter=num_filter, num_group=num_group, layout=layout
    )
    _check_shape("Convolution", "weight", weight.shape, expected)
    if bias is not None:
        _check_shape("Convolution", "bias", bias.shape, (num_filter,))
    require_uniform_dtype("Convolution", data, weight=weight, bias=bias)
    images, filters = to_channels_first(data, layout), to_channels_first(weight, layout)
    window_counts("Convolution", images.shape[2:], kernel, stride, dilate, pad)
    out = single(_convolution.apply((images, filters), (stride, dilate, pad, num_group)))
    return from_channels_first(_add_bias(out, bias), layout)


@composite(name="Deconvolution", npx="deconvolution")
def deconvolution(
    data: Node,
    weight: Node,
    bias: Node | None = None,
    *,
    kernel: Shape,
    stride: Shape = (),
    dilate: Shape = (),
    pad: Shape = (),
    adj: Shape = (),
    target_shape: Shape = (),
    num_filter: int,
    num_group: int = 1,
    workspace: int = 512,
    no_bias: bool = True,
    cudnn_tune: Literal["fastest", "limited_workspace", "off"] | None = None,
    cudnn_off: bool = False,
    layout: Literal["NCDHW", "NCHW", "NCW", "NDHWC", "NHWC"] | None = None,
) -> Node:
    """Return the transposed convolution of images: the adjoint of a Convolution with the same parameters.

    The weight is (channel, num_filter // num_group, *kernel). Along each axis of size n the output has
    ``stride * (n - 1) + dilate * (kernel - 1) + 1 - 2 * pad + adj`` elements. ``target_shape`` sets the output size
    instead; ``pad`` and ``adj`` then follow from it. Convolution has the same layouts.
    """
    _check_bias("Deconvolution", bias, no_bias)
    stride = complete("Deconvolution", "stride", kernel, stride, 1)
    dilate = complete("Deconvolution", "dilate", kernel, dilate, 1)
    pad = complete("Deconvolution", "padding", kernel, pad, 0)
    adj = complete("Deconvolution", "adjustment", kernel, adj, 0)
    check_window("Deconvolution", kernel, stride, dilate, pad)
    check_dimensions("Deconvolution", data.shape, kernel)
    check_layout("Deconvolution", layout, len(kernel))
    _check_filters("Deconvolution", _channels(data.shape, layout), num_filter, num_group)
    expected = deconvolution_weight_shape(
        data.shape, kernel=kernel, num_filter=num_filter, num_group=num_group, layout=layout
    )
    _check_shape("Deconvolution", "weight", weight.shape, expected)
    if bias is not None:
        _check_shape("Deconvolution", "bias", bias.shape, (num_filter,))
    require_uniform_dtype("Deconvolution", data, weight=weight, bias=bias)
    images, filters = to_channels_first(data, layout), to_channels_first(weight, layout)
    reach = tuple([s * (n - 1) + d * (k - 1) + 1 for n, k, s, d in zip(images.shape[2:], kernel, stride, dilate)])
    if any(target_shape):
        target_shape = complete("Deconvolution", "target_shape", kernel, target_shape, 0)
        pad, adj = _border_for(reach, target_shape)
    extent = _deconvolution_extent(reach, stride, pad, adj)
    out = single(_convolution_data_grad.apply((images, filters), (extent, stride, dilate, pad, num_group)))
    return from_channels_first(_add_bias(out, bias), layout)


def _border_for(reach: Shape, target: Shape) -> tuple[Shape, Shape]:
    """Return the padding and adjustment that reduce the full output of a transposed convolution to a target shape."""
    if any([size < wanted for size, wanted in zip(reach, target)]):
        raise MXNetError(
            f"too big target shape: operator Deconvolution reaches at most {format_shape(reach)}, "
            f"target_shape is {format_shape(target)}"
        )
    excess = [size - wanted for size, wanted in zip(reach, target)]
    return tuple([(extra + 1) // 2 for extra in excess]), tuple([extra % 2 for extra in excess])


def _deconvolution_extent(reach: Shape, stride: Shape, pad: Shape, adj: Shape) -> Shape:
    for axis, (step, extra) in enumerate(zip(stride, adj)):
        if not 0 <= extra < step:
            raise MXNetError(
                f"adj must be smaller than stride in operator Deconvolution: along spatial axis {axis} adj is {extra} "
                f"and stride {step} (with target_shape, adj is the remainder of symmetric padding)"
            )
    extent = tuple([size - 2 * border + extra for size, border, extra in zip(reach, pad, adj)])
    if min(extent) < 1:
        raise MXNetError(
            f"Deconvolution would have an output of shape {format_shape(extent)}: the padding {format_shape(pad)} is "
            f"too large for the full output of the kernel, {format_shape(reach)}"
        )
    return extent


# -- symbol declarations


def _extents_before(data: Shape, out: Shape, kernel: Shape, stride: Shape, dilate: Shape, pad: Shape) -> Shape:
    """Return the extents of the data of a convolution; unknown ones follow from those of the output, as in MXNet."""
    ones = (1,) * len(kernel)
    parts = zip(data, out, kernel, stride or ones, dilate or ones, pad or (0,) * len(kernel), strict=False)
    return tuple([d or (o and (o - 1) * s + (k - 1) * e + 1 - 2 * p) for d, o, k, s, e, p in parts])


def _convolution_shapes(name: str, weight_shape: Any) -> Any:
    def rule(
        inputs: list[Partial],
        outputs: list[Partial],
        *,
        kernel: Shape,
        stride: Shape,
        dilate: Shape,
        pad: Shape,
        num_filter: int,
        num_group: int,
        layout: str | None,
    ) -> list[Partial]:
        data, out = inputs[0], outputs[0]
        if data is None or not 1 <= len(kernel) <= 3 or num_group < 1:
            return inputs
        check_dimensions(name, data, kernel)
        if out is not None and len(out) == len(data):
            # the state shapes of convolutional cells get their batch size from this rule
            data = (data[0] or out[0], *data[1:])
            if name == "Convolution" and (layout is None or layout.startswith("NC")):
                data = (*data[:2], *_extents_before(data[2:], out[2:], kernel, stride, dilate, pad))
        weight: Shape = weight_shape(data, kernel=kernel, num_filter=num_filter, num_group=num_group, layout=layout)
        shapes: list[Partial] = [data, weight, (num_filter,)]
        return shapes[: len(inputs)]

    return rule


convolution.interface = Interface(
    arguments=leave_out("bias", "no_bias"), shapes=_convolution_shapes("Convolution", convolution_weight_shape)
)
deconvolution.interface = Interface(
    arguments=leave_out("bias", "no_bias"), shapes=_convolution_shapes("Deconvolution", deconvolution_weight_shape)
)


# -- precision in mixed-precision training

for _declared in (
    convolution,
    deconvolution,
):
    _declared.precision = "low"
