"""Deformable convolutions: each filter tap reads the image at its own offset, for each output element.

Bilinear interpolation reads the images into a column matrix, which is multiplied by the filters. Images, offsets,
masks and filters have gradients of every order.
"""

from __future__ import annotations

from typing import Any, Literal

from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partial, leave_out, merge
from ...graph.node import Node, Shape
from ...graph.operator import composite, single
from ..math.arithmetic import minimum
from ..math.comparison import greater_equal, lesser, logical_and
from ..math.primitives import cast, matmul, permute, reshape_to, select
from ..math.structural import constant
from ..shape.arrangement import slice_along
from ..shape.creation import position_along
from ..vision.spatial_sampling import sample_bilinear
from .convolution import convolution_weight_shape
from .windows import check_dimensions, check_window, complete, require_uniform_dtype, window_counts

__all__ = ["deformable_convolution", "modulated_deformable_convolution"]

Window = tuple[Shape, Shape, Shape, Shape]


def _check(
    name: str,
    nodes: dict[str, Node | None],
    window: Window,
    num_filter: int,
    num_group: int,
    num_deformable_group: int,
    no_bias: bool,
) -> Shape:
    """Return the number of windows along both axes, after checking every input."""
    data, bias = nodes["data"], nodes["bias"]
    assert data is not None
    kernel, stride, dilate, pad = window
    if len(kernel) != 2:
        raise MXNetError(f"operator {name} takes a kernel of two axes, got {format_shape(kernel)}")
    if (bias is None) != no_bias:
        raise MXNetError(f"operator {name} takes a bias unless no_bias is set: got {'none' if bias is None else 'one'}")
    check_window(name, kernel, stride, dilate, pad)
    check_dimensions(name, data.shape, kernel)
    require_uniform_dtype(name, data, **{word: node for word, node in nodes.items() if word != "data"})
    channels = data.shape[1]
    for word, count in (("num_group", num_group), ("num_deformable_group", num_deformable_group)):
        if count < 1 or channels % count or (word == "num_group" and num_filter % count):
            raise MXNetError(
                f"{word}={count} must divide the number of channels ({channels}) and num_group that of filters "
                f"({num_filter}), in operator {name}"
            )
    counts = window_counts(name, data.shape[2:], kernel, stride, dilate, pad)
    taps = kernel[0] * kernel[1] * num_deformable_group
    expected: dict[str, Shape] = {
        "offset": (data.shape[0], 2 * taps, *counts),
        "mask": (data.shape[0], taps, *counts),
        "weight": (num_filter, channels // num_group, *kernel),
        "bias": (num_filter,),
    }
    for word, node in nodes.items():
        if node is not None and word in expected and node.shape != expected[word]:
            raise MXNetError(
                f"{word} of operator {name} must have the shape {format_shape(expected[word])}, "
                f"got {format_shape(node.shape)}"
            )
    return counts


def _places(offset: Node, window: Window, counts: Shape, groups: int) -> tuple[Node, Node]:
    """Return the x and y coordinates to read: (batch * groups, 1, taps, elements), tap positions plus offsets."""
    kernel, stride, dilate, pad = window
    taps, elements = kernel[0] * kernel[1], counts[0] * counts[1]
    shifts = reshape_to(offset, (offset.shape[0] * groups, taps, 2, elements))
    found = []
    for axis in (0, 1):
        lattice = (*kernel, *counts)
        place = position_along(lattice, axis + 2) * stride[axis] + position_along(lattice, axis) * dilate[axis]
        base = reshape_to(cast(place - pad[axis], offset.dtype), (1, 1, taps, elements))
        shift = slice_along(shifts, 2, axis, axis + 1)
        found.append(base + reshape_to(shift, (shifts.shape[0], 1, taps, elements)))
    return found[1], found[0]


def _apply_filters(columns: Node, weight: Node, bias: Node | None, batch: int, counts: Shape, groups: int) -> Node:
    """Return the product of filters and columns (batch, channels, taps, elements), in the shape of images."""
    rows, elements = weight.size // weight.shape[0], counts[0] * counts[1]
    matrix = permute(reshape_to(columns, (batch, groups, rows, elements)), (1, 2, 0, 3))
    filters = reshape_to(weight, (groups, weight.shape[0] // groups, rows))
    product = matmul(filters, reshape_to(matrix, (groups, rows, batch * elements)))
    out = permute(reshape_to(product, (weight.shape[0], batch, *counts)), (1, 0, 2, 3))
    return out if bias is None else out + reshape_to(bias, (1, bias.shape[0], 1, 1))


def _is_inside(place: Node, size: int) -> Node:
    first, end = constant(0, place.dtype), constant(size, place.dtype)
    return single(logical_and(greater_equal(place, first), lesser(place, end)))


@composite(name="_contrib_DeformableConvolution", npx="deformable_convolution")
def deformable_convolution(
    data: Node,
    offset: Node,
    weight: Node,
    bias: Node | None = None,
    *,
    kernel: Shape,
    stride: Shape = (),
    dilate: Shape = (),
    pad: Shape = (),
    num_filter: int,
    num_group: int = 1,
    num_deformable_group: int = 1,
    workspace: int = 1024,
    no_bias: bool = False,
    layout: Literal["NCDHW", "NCHW", "NCW"] | None = None,
) -> Node:
    """Return the deformable convolution of images: each filter tap reads at an offset. Adds a bias per filter.

    The offset is (batch, num_deformable_group * kernel[0] * kernel[1] * 2, height, width) with the vertical offset of
    each tap before the horizontal one; height and width are those of the result. The channels form
    ``num_deformable_group`` groups, each with its own offsets. Elements outside the image are zero.
    """
    name = "_contrib_DeformableConvolution"
    window = (
        kernel,
        complete(name, "stride", kernel, stride, 1),
        complete(name, "dilate", kernel, dilate, 1),
        complete(name, "padding", kernel, pad, 0),
    )
    nodes = {"data": data, "offset": offset, "weight": weight, "bias": bias}
    counts = _check(name, nodes, window, num_filter, num_group, num_deformable_group, no_bias)
    batch, channels, height, width = data.shape
    images = reshape_to(data, (batch * num_deformable_group, channels // num_deformable_group, height, width))
    x, y = _places(offset, window, counts, num_deformable_group)
    inside = single(logical_and(_is_inside(x, width), _is_inside(y, height)))
    # between the last element and the edge, the last element is repeated
    last_x, last_y = single(minimum(x, width - 1)), single(minimum(y, height - 1))
    columns = select(inside, sample_bilinear(images, last_x, last_y), 0)
    return _apply_filters(columns, weight, bias, batch, counts, num_group)


@composite(name="_contrib_ModulatedDeformableConvolution", npx="modulated_deformable_convolution")
def modulated_deformable_convolution(
    data: Node,
    offset: Node,
    mask: Node,
    weight: Node,
    bias: Node | None = None,
    *,
    kernel: Shape,
    stride: Shape = (),
    dilate: Shape = (),
    pad: Shape = (),
    num_filter: int,
    num_group: int = 1,
    num_deformable_group: int = 1,
    workspace: int = 1024,
    no_bias: bool = False,
    im2col_step: int = 64,
    layout: Literal["NCDHW", "NCHW", "NCW"] | None = None,
) -> Node:
    """Return the deformable convolution of images with a weight per tap (version 2), plus a bias per filter.

    Shapes are those of DeformableConvolution. The mask (batch, num_deformable_group * kernel[0] * kernel[1], height,
    width) holds the weight of each tap. Values fall to zero within one element outside the image.
    """
    name = "_contrib_ModulatedDeformableConvolution"
    window = (
        kernel,
        complete(name, "stride", kernel, stride, 1),
        complete(name, "dilate", kernel, dilate, 1),
        complete(name, "padding", kernel, pad, 0),
    )
    nodes = {"data": data, "offset": offset, "mask": mask, "weight": weight, "bias": bias}
    counts = _check(name, nodes, window, num_filter, num_group, num_deformable_group, no_bias)
    batch, channels, height, width = data.shape
    images = reshape_to(data, (batch * num_deformable_group, channels // num_deformable_group, height, width))
    x, y = _places(offset, window, counts, num_deformable_group)
    weights = reshape_to(mask, (batch * num_deformable_group, 1, kernel[0] * kernel[1], counts[0] * counts[1]))
    return _apply_filters(sample_bilinear(images, x, y) * weights, weight, bias, batch, counts, num_group)


# -- symbol declarations


def _symbol_shapes(masked: bool) -> Any:
    def rule(
        inputs: list[Partial],
        outputs: list[Partial],
        *,
        kernel: Shape,
        num_filter: int,
        num_group: int,
        num_deformable_group: int,
    ) -> list[Partial]:
        data = inputs[0]
        if data is None or len(data) != 4 or len(kernel) != 2 or num_group < 1:
            return inputs
        taps = kernel[0] * kernel[1] * num_deformable_group
        shapes: list[Partial] = [data, (data[0], 2 * taps, 0, 0)]
        if masked:
            shapes.append((data[0], taps, 0, 0))
        shapes.append(convolution_weight_shape(data, kernel=kernel, num_filter=num_filter, num_group=num_group))
        shapes.append((num_filter,))
        return [merge(given, found) for given, found in zip(inputs, shapes, strict=False)]

    return rule


deformable_convolution.interface = Interface(arguments=leave_out("bias", "no_bias"), shapes=_symbol_shapes(False))
modulated_deformable_convolution.interface = Interface(
    arguments=leave_out("bias", "no_bias"), shapes=_symbol_shapes(True)
)


# -- precision in mixed-precision training

for _declared in (deformable_convolution,):
    _declared.precision = "float32"
