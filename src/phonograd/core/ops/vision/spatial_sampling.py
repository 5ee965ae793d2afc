"""Sampling of images at computed positions: sampling grids, bilinear sampling and the spatial transformer.

A grid has the position (x, y) to read for each output element; -1 and 1 are the centers of the first and last
elements. Image and grid have gradients of every order: a value between elements is a weighted sum of the four elements
around it, and only the choice of these four is not differentiable.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ...base.dtypes import INT64, DType, name_of
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, composite, nothing, operator, single
from ...lower.lowering import Expansion
from ..math.arithmetic import maximum, minimum
from ..math.comparison import equal, greater_equal, lesser_equal, logical_and
from ..math.elementary import floor
from ..math.primitives import cast, gather, matmul, reshape_to, select, slice_step
from ..math.structural import constant
from ..nn.windows import check_floating
from ..shape.creation import position_along
from ..shape.shape import concatenate

__all__ = ["bilinear_sampler", "grid_generator", "sample_bilinear", "spatial_transformer"]


def _expand_coordinates(*, height: int, width: int, normalized: bool, dtype: DType) -> Node | None:
    if 0 in (height, width):
        return None
    planes = []
    for axis, size in ((2, width), (1, height)):
        line = cast(position_along((1, height, width), axis), np.float64)
        if normalized:
            line = 2 * line / (size - 1) - 1 if size > 1 else line * 0
        planes.append(cast(line, dtype))
    return concatenate(planes, 0)


@operator(gradient=nothing, lowering=Expansion(_expand_coordinates), moves=True)
def _coordinates(*, height: int, width: int, normalized: bool, dtype: DType) -> Array:
    """Return the x and y coordinates of all elements of an image, shape (2, height, width).

    They count elements, or range from -1 to 1 if normalized (0 for a single element).
    """
    axes = []
    for size in (width, height):
        axis = np.arange(size, dtype=np.float64)
        if normalized:
            axis = 2 * axis / (size - 1) - 1 if size > 1 else np.zeros(1)
        axes.append(axis)
    return np.stack(np.meshgrid(*axes)).astype(dtype)


@_coordinates.infer
def coordinates_shape(*, height: int, width: int, dtype: DType) -> Spec:
    return (2, height, width), dtype


def _coordinate_node(height: int, width: int, normalized: bool, dtype: DType) -> Node:
    return single(_coordinates.apply((), (height, width, normalized, dtype)))


def _expand_element_position(row: Node, column: Node, *, shape: Shape) -> Node:
    batch, channels, height, width = shape

    def inside(index: Node, size: int) -> Node:
        near = single(minimum(maximum(index, 0), size - 1))
        # NaN counts as the first element
        return cast(select(single(equal(near, near)), near, 0), INT64)

    plane = reshape_to(position_along((batch * channels,), 0, INT64), (batch, channels, 1, 1)) * (height * width)
    return plane + (inside(row, height) * width + inside(column, width))


@operator(gradient=nothing, lowering=Expansion(_expand_element_position))
def _element_position(row: Array, column: Array, *, shape: Shape) -> Array:
    """Return flat positions in images of a shape for every channel; rows and columns outside are clipped.

    Rows and columns have the shape (batch, 1, ...); in the result the channels replace the 1.
    """
    batch, channels, height, width = shape
    with np.errstate(invalid="ignore"):
        inside_row = np.nan_to_num(np.clip(row, 0, height - 1)).astype(np.int64)
        inside_column = np.nan_to_num(np.clip(column, 0, width - 1)).astype(np.int64)
    plane = np.arange(batch * channels).reshape(batch, channels, 1, 1) * (height * width)
    positions: Array = plane + (inside_row * width + inside_column)
    return positions


@_element_position.infer
def element_position_shape(row: Node, column: Node, *, shape: Shape) -> Spec:
    return (*shape[:2], *row.shape[2:]), INT64


def _plane(grid: Node, index: int) -> Node:
    """Return the x (0) or y (1) coordinates of a grid, with an axis of size one for the channels."""
    batch, _, height, width = grid.shape
    return slice_step(grid, (0, index, 0, 0), (batch, index + 1, height, width))


def _check_images(name: str, data: Node) -> None:
    if data.ndim != 4:
        raise MXNetError(
            f"input data should be 4D in batch-num_filter-y-x: operator {name} got {format_shape(data.shape)}"
        )
    check_floating(name, data.dtype)


def _check_partner(name: str, word: str, data: Node, other: Node) -> None:
    if other.dtype != data.dtype:
        raise MXNetError(
            f"Non-uniform data type in {name}: data is {name_of(data.dtype)}, {word} is "
            f"{name_of(other.dtype)}. Convert one with astype."
        )
    if other.shape[0] != data.shape[0]:
        raise MXNetError(
            f"data and {word} of operator {name} must have the same batch size, got {format_shape(data.shape)} and "
            f"{format_shape(other.shape)}"
        )


@composite(name="BilinearSampler")
def bilinear_sampler(data: Node, grid: Node, *, cudnn_off: bool | None = None) -> Node:
    """Return images sampled at the positions of a grid by bilinear interpolation; outside the image is zero.

    The data is (batch, channel, height, width) and the grid (batch, 2, rows, columns) with x before y; the result is
    (batch, channel, rows, columns).
    """
    _check_images("BilinearSampler", data)
    if grid.ndim != 4:
        raise MXNetError(
            f"Sampler grid should be 4D in batch-2-y-x: operator BilinearSampler got {format_shape(grid.shape)}"
        )
    if grid.shape[1] != 2:
        raise MXNetError(
            f"incorrect grid shape[1], should be 2: operator BilinearSampler got {format_shape(grid.shape)}"
        )
    _check_partner("BilinearSampler", "grid", data, grid)
    height, width = data.shape[2:]
    x = (_plane(grid, 0) + 1) * ((width - 1) / 2)
    y = (_plane(grid, 1) + 1) * ((height - 1) / 2)
    return sample_bilinear(data, x, y)


def sample_bilinear(data: Node, x: Node, y: Node) -> Node:
    """Return images (batch, channel, height, width) sampled at positions (batch, 1, rows, columns).

    Positions count elements. A value is interpolated between the four elements around it; elements outside the image
    are zero.
    """
    height, width = data.shape[2:]
    left, top = floor(x), floor(y)
    right_share, lower_share = x - left, y - top
    terms = []
    for row, row_share in ((top, 1 - lower_share), (top + 1, lower_share)):
        for column, column_share in ((left, 1 - right_share), (left + 1, right_share)):
            inside = logical_and(_within(row, height), _within(column, width))
            share = select(inside, row_share * column_share, 0)
            position = single(_element_position.apply((row, column), (data.shape,)))
            terms.append(gather(data, position) * share)
    return terms[0] + terms[1] + (terms[2] + terms[3])


def _within(index: Node, size: int) -> Node:
    first, last = constant(0, index.dtype), constant(size - 1, index.dtype)
    return single(logical_and(greater_equal(index, first), lesser_equal(index, last)))


@composite(name="GridGenerator")
def grid_generator(data: Node, *, transform_type: Literal["affine", "warp"], target_shape: Shape = (0, 0)) -> Node:
    """Return a sampling grid of shape (batch, 2, height, width), x before y, for BilinearSampler.

    ``affine`` applies matrices (batch, 6), in row-major order, to the coordinates of an image of the target shape.
    ``warp`` adds a flow (batch, 2, height, width), in elements, to the coordinates of its elements.
    """
    check_floating("GridGenerator", data.dtype)
    if transform_type == "affine":
        if data.ndim != 2:
            raise MXNetError(
                "if transform_type is affine, data is affine matrix; affine matrix should be 2D in batch-num_hidden: "
                f"operator GridGenerator got {format_shape(data.shape)}"
            )
        return _affine_grid("GridGenerator", "data", data, target_shape)
    if data.ndim != 4:
        raise MXNetError(
            "if transform_type is warp, data is an optical flow in batch-2-y-x: operator GridGenerator got "
            f"{format_shape(data.shape)}"
        )
    if data.shape[1] != 2:
        raise MXNetError(f"incorrect data shape[1], should be 2: operator GridGenerator got {format_shape(data.shape)}")
    height, width = data.shape[2:]
    places = data + _coordinate_node(height, width, False, data.dtype)
    x = _plane(places, 0) * (2 / max(width - 1, 1)) - 1
    y = _plane(places, 1) * (2 / max(height - 1, 1)) - 1
    return concatenate((x, y), 1)


def _affine_grid(name: str, word: str, matrices: Node, target_shape: Shape) -> Node:
    if matrices.shape[1] != 6:
        raise MXNetError(f"incorrect {word} shape[1], should be 6: operator {name} got {format_shape(matrices.shape)}")
    if len(target_shape) != 2 or min(target_shape) < 1:
        raise MXNetError(
            f"incorrect target_shape: {format_shape(target_shape)} in operator {name}; pass (height, width)"
        )
    batch, (height, width) = matrices.shape[0], target_shape
    rows = reshape_to(matrices, (batch * 2, 3))
    linear = slice_step(rows, (0, 0), (batch * 2, 2))
    shift = slice_step(rows, (0, 2), (batch * 2, 3))
    coordinates = _coordinate_node(height, width, True, matrices.dtype)
    grid = matmul(linear, reshape_to(coordinates, (2, height * width))) + shift
    return reshape_to(grid, (batch, 2, height, width))


@composite(name="SpatialTransformer")
def spatial_transformer(
    data: Node,
    loc: Node,
    *,
    target_shape: Shape = (0, 0),
    transform_type: Literal["affine"],
    sampler_type: Literal["bilinear"],
    cudnn_off: bool | None = None,
) -> Node:
    """Return images transformed by affine maps: a grid from ``loc`` (batch, 6), then bilinear sampling."""
    _check_images("SpatialTransformer", data)
    if loc.ndim != 2:
        raise MXNetError(
            f"localisation parameter should be 2D in batch-num_hidden: operator SpatialTransformer got "
            f"{format_shape(loc.shape)}"
        )
    _check_partner("SpatialTransformer", "loc", data, loc)
    grid = _affine_grid("SpatialTransformer", "localisation network", loc, target_shape)
    return single(bilinear_sampler(data, grid))


# -- symbol declarations

bilinear_sampler.interface = Interface(outputs=("output", "places"), shown=1)
grid_generator.interface = Interface(outputs=("output", "grid"), shown=1)
spatial_transformer.interface = Interface(outputs=("output", "grid", "places"), shown=1)
