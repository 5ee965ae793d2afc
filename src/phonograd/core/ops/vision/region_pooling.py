"""Pooling over regions of interest: resize rectangles of images to one size.

Regions are rows (image, x1, y1, x2, y2) in the coordinates of the original image; ``spatial_scale`` converts them to
the feature map. They have no gradient. ``ROIPooling`` takes the maximum of each cell. ``_contrib_ROIAlign`` averages
bilinear samples: for each region, one matrix product from the left and one from the right.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...base.dtypes import INT64, name_of
from ...base.errors import MXNetError, check_bounds, format_shape
from ...graph.interface import Interface
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, composite, nothing, operator, single
from ..math.arithmetic import maximum
from ..math.comparison import greater_equal
from ..math.primitives import gather, select
from ..math.structural import constant
from ..nn.windows import check_floating, working_dtype

__all__ = ["roi_align", "roi_pooling"]


def _check(name: str, data: Node, rois: Node, pooled_size: Shape, spatial_scale: float) -> None:
    check_bounds(name, "spatial_scale", spatial_scale)
    if data.ndim != 4:
        raise MXNetError(f"data should be a 4D tensor: operator {name} got {format_shape(data.shape)}")
    check_floating(name, data.dtype)
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise MXNetError(
            f"bbox should be a 2D tensor of shape [batch, 5]: operator {name} got rois of shape "
            f"{format_shape(rois.shape)}"
        )
    if rois.dtype != data.dtype:
        raise MXNetError(
            f"operator {name} needs data and rois of one dtype, got {name_of(data.dtype)} and "
            f"{name_of(rois.dtype)}; convert with astype"
        )
    if len(pooled_size) != 2 or min(pooled_size) < 1:
        raise MXNetError(
            f"value {format_shape(pooled_size)}for Parameter pooled_size has wrong dimensions, expected dimension=2, "
            f"in operator {name}"
        )


def _image_of(name: str, roi: Array, images: int) -> int:
    """Return the index of the image of a region, or raise."""
    image = int(roi[0])
    if image >= images:
        raise MXNetError(f"a region of operator {name} names image {image}, but the data has {images} images")
    return image


# -- the maximum of each cell


def _cells(ends: Array, count: int, limit: int, scale: float) -> list[tuple[int, int]]:
    """Return begin and end of the cells of a region along one axis; bounds are integers, and cells may overlap.

    The computation uses the regions' dtype and a single-precision scale: rounding decides on which side of an integer
    a bound falls.
    """
    number = ends.dtype.type
    scaled = ends * number(np.float32(scale))
    start, last = [int(end) for end in np.copysign(np.floor(np.abs(scaled) + number(0.5)), scaled)]
    width = number(max(last - start + 1, 1)) / number(count)
    cells = []
    for index in range(count):
        begin = int(np.floor(number(index) * width)) + start
        end = int(np.ceil(number(index + 1) * width)) + start
        cells.append((min(max(begin, 0), limit), min(max(end, 0), limit)))
    return cells


@operator(gradient=nothing)
def _region_argmax(data: Array, rois: Array, *, pooled_size: Shape, spatial_scale: float) -> Array:
    """Return the flat position of the first maximum of each cell, or -1 for a cell without elements."""
    images, channels, height, width = data.shape
    out = np.full((len(rois), channels, *pooled_size), -1, np.int64)
    for index, roi in enumerate(rois):
        image = _image_of("ROIPooling", roi, images)
        if image < 0:
            continue
        offset = (image * channels + np.arange(channels)) * (height * width)
        columns = _cells(roi[1::2], pooled_size[1], width, spatial_scale)
        for row, (top, bottom) in enumerate(_cells(roi[2::2], pooled_size[0], height, spatial_scale)):
            for column, (left, right) in enumerate(columns):
                if bottom > top and right > left:
                    cell = data[image, :, top:bottom, left:right].reshape(channels, -1)
                    y, x = np.divmod(cell.argmax(axis=1), right - left)
                    out[index, :, row, column] = offset + (top + y) * width + left + x
    return out


@_region_argmax.infer
def region_argmax_shape(data: Node, rois: Node, *, pooled_size: Shape) -> Spec:
    return (rois.shape[0], data.shape[1], *pooled_size), INT64


@composite(name="ROIPooling", npx="roi_pooling")
def roi_pooling(data: Node, rois: Node, *, pooled_size: Shape, spatial_scale: float) -> Node:
    """Return the maximum of each cell of rectangular regions; each region has ``pooled_size`` cells.

    The data is (batch, channel, height, width), the regions (count, 5) with rows (image, x1, y1, x2, y2); the result
    is (count, channel, *pooled_size). Cells outside the image are zero.
    """
    _check("ROIPooling", data, rois, pooled_size, spatial_scale)
    position = single(_region_argmax(data, rois, pooled_size=pooled_size, spatial_scale=spatial_scale))
    zero = constant(0, INT64)
    return select(greater_equal(position, zero), gather(data, maximum(position, zero)), 0)


# -- averages of bilinear samples


def _interpolation(start: float, size: float, count: int, samples: int, limit: int) -> Array:
    """Return the matrix (count, limit) that averages ``samples`` linear interpolations in each of ``count`` cells."""
    cell = size / count
    samples = samples if samples > 0 else int(np.ceil(cell))
    matrix = np.zeros((count, limit))
    if samples < 1:
        return matrix
    steps = (np.arange(samples) + 0.5) * (cell / samples)
    places = (start + np.arange(count)[:, None] * cell + steps).reshape(-1)
    rows = np.repeat(np.arange(count), samples)
    seen = (places >= -1) & (places <= limit)
    places, rows = np.clip(places[seen], 0, limit - 1), rows[seen]
    low = places.astype(np.int64)
    share = places - low
    np.add.at(matrix, (rows, low), (1 - share) / samples)
    np.add.at(matrix, (rows, np.minimum(low + 1, limit - 1)), share / samples)
    return matrix


def _region_matrices(
    rois: Array, shape: Shape, pooled_size: Shape, spatial_scale: float, sample_ratio: int, aligned: bool
) -> Iterator[tuple[int, int, tuple[Array, Array]]]:
    """Yield, for each region with a valid image: its index, the image, and its matrices for rows and columns."""
    shift = 0.5 if aligned else 0.0
    for index, roi in enumerate(rois):
        image = _image_of("_contrib_ROIAlign", roi, shape[0])
        if image < 0:
            continue
        corners = roi[1:].astype(np.float64) * spatial_scale - shift
        size = corners[2:] - corners[:2]
        if not aligned:
            size = np.maximum(size, 1.0)
        vertical = _interpolation(corners[1], size[1], pooled_size[0], sample_ratio, shape[2])
        horizontal = _interpolation(corners[0], size[0], pooled_size[1], sample_ratio, shape[3])
        yield index, image, (vertical, horizontal)


@operator(cost=8.0)
def _region_average(
    data: Array,
    rois: Array,
    *,
    pooled_size: Shape,
    spatial_scale: float,
    sample_ratio: int,
    position_sensitive: bool,
    aligned: bool,
) -> Array:
    """Return the average of bilinear samples in each cell of each region."""
    dtype = working_dtype(data.dtype)
    cells = pooled_size[0] * pooled_size[1]
    channels = data.shape[1] // cells if position_sensitive else data.shape[1]
    out = np.zeros((len(rois), channels, *pooled_size), data.dtype)
    matrices = _region_matrices(rois, data.shape, pooled_size, spatial_scale, sample_ratio, aligned)
    for index, image, (vertical, horizontal) in matrices:
        rows, columns = vertical.astype(dtype), horizontal.astype(dtype)
        source = data[image].astype(dtype, copy=False)
        if position_sensitive:
            parts = source.reshape(channels, *pooled_size, *data.shape[2:])
            out[index] = np.einsum("cijyx,iy,jx->cij", parts, rows, columns)
        else:
            out[index] = rows @ (source @ columns.T)
    return out


@_region_average.infer
def region_average_shape(data: Node, rois: Node, *, pooled_size: Shape, position_sensitive: bool) -> Spec:
    cells = pooled_size[0] * pooled_size[1] if position_sensitive else 1
    return (rois.shape[0], data.shape[1] // cells, *pooled_size), data.dtype


@_region_average.gradient
def region_average_grad(
    out_grad: Node,
    out: Node,
    data: Node,
    rois: Node,
    *,
    pooled_size: Shape,
    spatial_scale: float,
    sample_ratio: int,
    position_sensitive: bool,
    aligned: bool,
) -> tuple[Node, None]:
    attributes = (data.shape, pooled_size, spatial_scale, sample_ratio, position_sensitive, aligned)
    return single(_region_average_adjoint.apply((out_grad, rois), attributes)), None


@operator(cost=8.0)
def _region_average_adjoint(
    data: Array,
    rois: Array,
    *,
    shape: Shape,
    pooled_size: Shape,
    spatial_scale: float,
    sample_ratio: int,
    position_sensitive: bool,
    aligned: bool,
) -> Array:
    """Add each cell of each region, weighted, to the elements of its average, in images of a shape."""
    dtype = working_dtype(data.dtype)
    out = np.zeros(shape, dtype)
    matrices = _region_matrices(rois, shape, pooled_size, spatial_scale, sample_ratio, aligned)
    for index, image, (vertical, horizontal) in matrices:
        rows, columns = vertical.astype(dtype), horizontal.astype(dtype)
        source = data[index].astype(dtype, copy=False)
        if position_sensitive:
            out[image] += np.einsum("cij,iy,jx->cijyx", source, rows, columns).reshape(shape[1:])
        else:
            out[image] += rows.T @ (source @ columns)
    return out.astype(data.dtype, copy=False)


@_region_average_adjoint.infer
def region_average_adjoint_shape(data: Node, rois: Node, *, shape: Shape) -> Spec:
    return shape, data.dtype


@_region_average_adjoint.gradient
def region_average_adjoint_grad(
    out_grad: Node,
    out: Node,
    data: Node,
    rois: Node,
    *,
    pooled_size: Shape,
    spatial_scale: float,
    sample_ratio: int,
    position_sensitive: bool,
    aligned: bool,
) -> tuple[Node, None]:
    attributes = (pooled_size, spatial_scale, sample_ratio, position_sensitive, aligned)
    return single(_region_average.apply((out_grad, rois), attributes)), None


@composite(name="_contrib_ROIAlign", npx="roi_align")
def roi_align(
    data: Node,
    rois: Node,
    *,
    pooled_size: Shape,
    spatial_scale: float,
    sample_ratio: int = -1,
    position_sensitive: bool = False,
    aligned: bool = False,
) -> Node:
    """Return averages of bilinear samples in the cells of rectangular regions, without rounding of bounds.

    Shapes are those of ROIPooling. Each cell has ``sample_ratio`` samples along each axis; by default as many as it
    has elements. A region with a negative image gives zeros. With ``position_sensitive`` each cell reads its own
    channels, so the number of channels is divided by the number of cells. ``aligned`` puts the center of an element at
    0.5.
    """
    _check("_contrib_ROIAlign", data, rois, pooled_size, spatial_scale)
    if position_sensitive and data.shape[1] % (pooled_size[0] * pooled_size[1]):
        raise MXNetError(
            "Input channels should be divided by pooled_size[0]*pooled_size[1]when position_sensitive is true: "
            f"operator _contrib_ROIAlign got {data.shape[1]} channels for {format_shape(pooled_size)}"
        )
    attributes = (pooled_size, spatial_scale, sample_ratio, position_sensitive, aligned)
    return single(_region_average.apply((data, rois), attributes))


# -- symbol declarations

roi_pooling.interface = Interface(outputs=("output", "maxidx"), shown=1)


# -- precision in mixed-precision training

for _declared in (roi_align,):
    _declared.precision = "widest"
