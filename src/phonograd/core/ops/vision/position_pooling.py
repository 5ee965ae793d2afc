"""Position-sensitive pooling, where each cell of a region reads its own channels, and pooling of rotated regions.

Regions are rows (image, x1, y1, x2, y2), or (image, x, y, width, height, degrees) if rotated, in the coordinates of
the original image; ``spatial_scale`` converts them to the feature map. They have no gradient.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...base.dtypes import INT64, DType, name_of
from ...base.errors import MXNetError, check_bounds, format_shape
from ...graph.interface import Interface, Partials, leave_out
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, composite, operator, single
from ..math.arithmetic import maximum, minimum
from ..math.comparison import greater_equal, lesser_equal, logical_and
from ..math.conversion import clip
from ..math.elementary import floor, round_
from ..math.primitives import cast, gather, reshape_to
from ..math.special import BlockGrad
from ..math.structural import constant
from ..nn.windows import check_floating, working_dtype
from ..reduce.reduction import sum_axes
from ..shape.arrangement import slice_along
from ..shape.creation import position_along
from ..shape.shape import concatenate

__all__ = ["deformable_psroi_pooling", "psroi_pooling", "rotated_roi_align"]


def _check(name: str, data: Node, rois: Node, spatial_scale: float, columns: int = 5) -> None:
    check_bounds(name, "spatial_scale", spatial_scale)
    if data.ndim != 4:
        raise MXNetError(f"data should be a 4D tensor: operator {name} got {format_shape(data.shape)}")
    check_floating(name, data.dtype)
    if rois.ndim != 2 or rois.shape[1] != columns:
        raise MXNetError(
            f"bbox should be a 2D tensor of shape [batch, {columns}]: operator {name} got rois of shape "
            f"{format_shape(rois.shape)}"
        )
    if rois.dtype != data.dtype:
        raise MXNetError(
            f"operator {name} needs data and rois of one dtype, got {name_of(data.dtype)} and "
            f"{name_of(rois.dtype)}; convert with astype"
        )


def _check_channels(name: str, data: Node, output_dim: int, group_size: int) -> None:
    if output_dim < 1 or data.shape[1] != output_dim * group_size * group_size:
        raise MXNetError(
            f"operator {name} needs output_dim * group_size * group_size = {output_dim * group_size * group_size} "
            f"channels, got {data.shape[1]}"
        )


def _image_of(name: str, roi: Array, images: int) -> int:
    image = int(roi[0])
    if not 0 <= image < images:
        raise MXNetError(f"a region of operator {name} names image {image}, but the data has {images} images")
    return image


def _groups_of(pooled: int, group: int) -> Array:
    """Return the channel group of each cell along an axis."""
    return np.clip(np.arange(pooled) * group // pooled, 0, group - 1)


# -- averages of elements


def _averages(ends: Array, count: int, limit: int, scale: float) -> Array:
    """Return the matrix (count, limit) that averages the elements of each cell along an axis."""
    number = np.float32
    start, end = [number(np.copysign(np.floor(np.abs(e) + 0.5), e)) for e in ends]
    first, last = start * number(scale), (end + number(1)) * number(scale)
    cell = np.maximum(last - first, number(0.1)) / number(count)
    matrix = np.zeros((count, limit))
    for index in range(count):
        begin = min(max(int(np.floor(number(index) * cell + first)), 0), limit)
        stop = min(max(int(np.ceil(number(index + 1) * cell + first)), 0), limit)
        if stop > begin:
            matrix[index, begin:stop] = 1.0 / (stop - begin)
    return matrix


def _cell_matrices(
    rois: Array, shape: Shape, pooled_size: int, spatial_scale: float
) -> Iterator[tuple[int, int, Array, Array]]:
    """Yield the index of each region, its image, and its matrices for rows and columns."""
    for index, roi in enumerate(rois):
        image = _image_of("_contrib_PSROIPooling", roi, shape[0])
        vertical = _averages(roi[2::2], pooled_size, shape[2], spatial_scale)
        yield index, image, vertical, _averages(roi[1::2], pooled_size, shape[3], spatial_scale)


@operator(cost=8.0)
def _position_average(data: Array, rois: Array, *, pooled_size: int, group_size: int, spatial_scale: float) -> Array:
    """Return the average of each cell of each region, in the channels of the cell."""
    dtype = working_dtype(data.dtype)
    channels = data.shape[1] // group_size**2
    out = np.zeros((len(rois), channels, pooled_size, pooled_size), data.dtype)
    groups = _groups_of(pooled_size, group_size)
    for index, image, rows, columns in _cell_matrices(rois, data.shape, pooled_size, spatial_scale):
        parts = data[image].reshape(channels, group_size, group_size, *data.shape[2:]).astype(dtype, copy=False)
        own = parts[:, groups[:, None], groups]
        out[index] = np.einsum("cijyx,iy,jx->cij", own, rows.astype(dtype), columns.astype(dtype))
    return out


@_position_average.infer
def position_average_shape(data: Node, rois: Node, *, pooled_size: int, group_size: int) -> Spec:
    return (rois.shape[0], data.shape[1] // group_size**2, pooled_size, pooled_size), data.dtype


@_position_average.gradient
def position_average_grad(
    out_grad: Node, out: Node, data: Node, rois: Node, *, pooled_size: int, group_size: int, spatial_scale: float
) -> tuple[Node, None]:
    attributes = (data.shape, pooled_size, group_size, spatial_scale)
    return single(_position_average_adjoint.apply((out_grad, rois), attributes)), None


@operator(cost=8.0)
def _position_average_adjoint(
    data: Array, rois: Array, *, shape: Shape, pooled_size: int, group_size: int, spatial_scale: float
) -> Array:
    """Add each cell of each region, in equal parts, to the elements of its average, in images of a shape."""
    dtype = working_dtype(data.dtype)
    channels = shape[1] // group_size**2
    out = np.zeros((shape[0], channels, group_size, group_size, *shape[2:]), dtype)
    groups = _groups_of(pooled_size, group_size)
    for index, image, rows, columns in _cell_matrices(rois, shape, pooled_size, spatial_scale):
        source = data[index].astype(dtype, copy=False)
        spread = np.einsum("cij,iy,jx->cijyx", source, rows.astype(dtype), columns.astype(dtype))
        for row, column in np.ndindex(pooled_size, pooled_size):
            out[image, :, groups[row], groups[column]] += spread[:, row, column]
    return out.reshape(shape).astype(data.dtype, copy=False)


@_position_average_adjoint.infer
def position_average_adjoint_shape(data: Node, rois: Node, *, shape: Shape) -> Spec:
    return shape, data.dtype


@_position_average_adjoint.gradient
def position_average_adjoint_grad(
    out_grad: Node, out: Node, data: Node, rois: Node, *, pooled_size: int, group_size: int, spatial_scale: float
) -> tuple[Node, None]:
    return single(_position_average.apply((out_grad, rois), (pooled_size, group_size, spatial_scale))), None


@composite(name="_contrib_PSROIPooling")
def psroi_pooling(
    data: Node, rois: Node, *, spatial_scale: float, output_dim: int, pooled_size: int, group_size: int = 0
) -> Node:
    """Return the averages of the cells of regions; each cell reads its own channels (position-sensitive pooling).

    A region has ``pooled_size`` by ``pooled_size`` cells and the data ``output_dim * group_size * group_size``
    channels; ``group_size`` defaults to ``pooled_size``. The result is (count, output_dim, *cells).
    """
    group = group_size or pooled_size
    _check("_contrib_PSROIPooling", data, rois, spatial_scale)
    _check_channels("_contrib_PSROIPooling", data, output_dim, group)
    return single(_position_average.apply((data, rois), (pooled_size, group, spatial_scale)))


# -- averages of samples at offsets


def _take_rows(trans: Node, axis: int, places: Array) -> Node:
    """Return the slices of an array along an axis at some positions."""
    if places.tolist() == list(range(trans.shape[axis])):
        return trans
    return concatenate([slice_along(trans, axis, int(place), int(place) + 1) for place in places], axis)


def _shifts(trans: Node, pooled: int, part_size: int, trans_std: float) -> tuple[Node, Node]:
    """Return the offsets of cells along x and y in units of their region: (count, classes, cells, 1)."""
    places = np.floor(np.arange(pooled, dtype=np.float32) / np.float32(pooled) * np.float32(part_size)).astype(int)
    taken = _take_rows(_take_rows(trans, 2, places), 3, places) * trans_std
    pairs = reshape_to(taken, (trans.shape[0], trans.shape[1] // 2, 2, pooled * pooled))
    shape = (trans.shape[0], trans.shape[1] // 2, pooled * pooled, 1)
    return reshape_to(slice_along(pairs, 2, 0, 1), shape), reshape_to(slice_along(pairs, 2, 1, 2), shape)


def _lattice(pooled: int, samples: int, axis: int, dtype: DType) -> tuple[Node, Node]:
    """Return the cell numbers and the sample numbers along an axis, for all cells and all samples."""
    cells = cast(position_along((pooled, pooled), axis), dtype)
    steps = cast(position_along((samples, samples), axis), dtype)
    return reshape_to(cells, (1, 1, pooled * pooled, 1)), reshape_to(steps, (1, 1, 1, samples * samples))


def _places(ends: tuple[Node, Node], shift: Node | None, lattice: tuple[Node, Node], count: int, samples: int) -> Node:
    """Return the positions of samples along an axis: (regions, classes, cells, samples)."""
    first, last = ends
    size = single(maximum(last - first, 0.1))
    cell = size / count
    place = first + lattice[0] * cell + lattice[1] * (cell / samples)
    return place if shift is None else place + shift * size


@composite(name="_contrib_DeformablePSROIPooling")
def deformable_psroi_pooling(
    data: Node,
    rois: Node,
    trans: Node | None = None,
    *,
    spatial_scale: float,
    output_dim: int,
    group_size: int,
    pooled_size: int,
    part_size: int = 0,
    sample_per_part: int = 1,
    trans_std: float = 0.0,
    no_trans: bool = False,
) -> Node:
    """Return averages of bilinear samples in the cells of regions; each cell has an offset and its own channels.

    Shapes are those of PSROIPooling. ``trans`` is (count, 2 * classes, part_size, part_size): offsets to the right and
    down of the parts of a region, multiplied by ``trans_std`` and the size of the region. The channels of the result
    are divided into classes. Each cell has ``sample_per_part`` samples along each axis; samples outside the image do
    not count.
    """
    name = "_contrib_DeformablePSROIPooling"
    _check(name, data, rois, spatial_scale)
    check_bounds(name, "trans_std", trans_std)
    _check_channels(name, data, output_dim, group_size)
    if (trans is None) != no_trans:
        raise MXNetError(f"operator {name} takes trans unless no_trans is set: got {'none' if trans is None else 'it'}")
    part = part_size or pooled_size
    classes = 1
    shifts: tuple[Node | None, Node | None] = None, None
    if trans is not None:
        classes = max(trans.shape[1] // 2, 1) if trans.ndim == 4 else 0
        expected = (rois.shape[0], 2 * classes, part, part)
        if trans.shape != expected or output_dim % classes:
            raise MXNetError(
                f"trans of operator {name} must have the shape (regions, 2 * classes, part_size, part_size) where the "
                f"classes divide output_dim={output_dim}, got {format_shape(trans.shape)}"
            )
        shifts = _shifts(trans, pooled_size, part, trans_std)
    fixed = single(BlockGrad(rois))
    count, samples, (height, width) = rois.shape[0], sample_per_part, data.shape[2:]
    columns = [reshape_to(slice_along(fixed, 1, k, k + 1), (count, 1, 1, 1)) for k in range(5)]

    def along(axis: int, shift: Node | None) -> Node:
        first = round_(columns[1 + axis]) * spatial_scale - 0.5
        last = (round_(columns[3 + axis]) + 1.0) * spatial_scale - 0.5
        lattice = _lattice(pooled_size, samples, 1 - axis, data.dtype)
        return _places((first, last), shift, lattice, pooled_size, samples)

    x, y = along(0, shifts[0]), along(1, shifts[1])
    groups = _groups_of(pooled_size, group_size)
    return _average_samples(data, columns[0], (x, y), groups, (output_dim, classes, pooled_size, height, width))


def _is_inside(place: Node, size: int) -> Node:
    low, high = constant(-0.5, place.dtype), constant(size - 0.5, place.dtype)
    return single(logical_and(greater_equal(place, low), lesser_equal(place, high)))


def _channel_offsets(groups: Array, pooled: int, group_size: int) -> Node:
    """Return the channel group of each cell: (1, 1, 1, cells, 1)."""
    rows = [constant(int(place), INT64) for place in groups]
    line = concatenate([reshape_to(node, (1,)) for node in rows], 0)
    whole = reshape_to(line, (pooled, 1)) * constant(group_size, INT64) + reshape_to(line, (1, pooled))
    return reshape_to(whole, (1, 1, 1, pooled * pooled, 1))


def _average_samples(
    data: Node, image: Node, places: tuple[Node, Node], groups: Array, sizes: tuple[int, int, int, int, int]
) -> Node:
    """Return averages of samples at positions (regions, classes, cells, samples) inside the images."""
    output_dim, classes, pooled, height, width = sizes
    count = image.shape[0]
    each = output_dim // classes
    per_class = data.shape[1] // output_dim
    x, y = places
    seen = single(logical_and(_is_inside(x, width), _is_inside(y, height)))
    x, y = single(clip(x, a_min=0.0, a_max=width - 1.0)), single(clip(y, a_min=0.0, a_max=height - 1.0))
    left, top = single(floor(x)), single(floor(y))
    right, bottom = single(minimum(left + 1.0, width - 1.0)), single(minimum(top + 1.0, height - 1.0))
    shares = {"x": (1.0 - (x - left), x - left), "y": (1.0 - (y - top), y - top)}
    # (regions, classes, channels of a class, cells, samples)
    outputs = reshape_to(position_along((output_dim,), 0, INT64), (1, classes, each, 1, 1)) * constant(per_class, INT64)
    channel = outputs + _channel_offsets(groups, pooled, int(per_class**0.5))
    picture = reshape_to(cast(image, INT64), (count, 1, 1, 1, 1)) * constant(data.shape[1], INT64)
    plane = (picture + channel) * constant(height * width, INT64)
    wide = (count, x.shape[1], 1, *x.shape[2:])
    total: Node | None = None
    for row, vertical in zip((top, bottom), shares["y"], strict=True):
        for column, horizontal in zip((left, right), shares["x"], strict=True):
            position = cast(row, INT64) * constant(width, INT64) + cast(column, INT64)
            value = gather(data, plane + reshape_to(position, wide)) * reshape_to(vertical * horizontal, wide)
            total = value if total is None else total + value
    assert total is not None
    kept = reshape_to(cast(seen, data.dtype), wide)
    summed = sum_axes(total * kept, (4,))
    number = single(maximum(sum_axes(kept, (4,)), 1.0))
    return reshape_to(summed / number, (count, output_dim, pooled, pooled))


# -- rotated regions


def _rotated_samples(
    rois: Array, shape: Shape, pooled_size: Shape, spatial_scale: float, sampling_ratio: int
) -> Iterator[tuple[int, int, Array, Array]]:
    """Yield the index of each region, its image, and the positions and weights (cells, samples * 4) of its samples."""
    height, width = shape[2:]
    for index, roi in enumerate(rois.astype(np.float64)):
        image = _image_of("_contrib_RROIAlign", roi, shape[0])
        middle = roi[1:3] * spatial_scale
        size = np.maximum(roi[3:5] * spatial_scale, 1.0)
        cosine, sine = np.cos(np.deg2rad(roi[5])), np.sin(np.deg2rad(roi[5]))
        along = []
        for extent, count in zip(size[::-1], pooled_size, strict=True):
            cell = extent / count
            samples = sampling_ratio if sampling_ratio > 0 else int(np.ceil(cell))
            steps = (np.arange(samples) + 0.5) * (cell / samples)
            along.append(-extent / 2 + np.arange(count)[:, None] * cell + steps)
        down, right = along[0][:, None, :, None], along[1][None, :, None, :]
        x = (right * cosine + down * sine + middle[0]).reshape(pooled_size[0] * pooled_size[1], -1)
        y = (down * cosine - right * sine + middle[1]).reshape(x.shape)
        seen = (x >= -1) & (x <= width) & (y >= -1) & (y <= height)
        x, y = np.clip(x, 0, width - 1), np.clip(y, 0, height - 1)
        low_x, low_y = x.astype(np.int64), y.astype(np.int64)
        high_x, high_y = np.minimum(low_x + 1, width - 1), np.minimum(low_y + 1, height - 1)
        x, y = x - low_x, y - low_y
        weights = [(1 - y) * (1 - x), (1 - y) * x, y * (1 - x), y * x]
        corners = [low_y * width + low_x, low_y * width + high_x, high_y * width + low_x, high_y * width + high_x]
        scale = seen / x.shape[1]
        yield index, image, np.concatenate(corners, 1), np.concatenate([weight * scale for weight in weights], 1)


@operator(name="_contrib_RROIAlign", cost=8.0)
def rotated_roi_align(
    data: Array, rois: Array, *, pooled_size: Shape, spatial_scale: float, sampling_ratio: int = -1
) -> Array:
    """Return averages of bilinear samples in the cells of rotated regions (image, x, y, width, height, degrees).

    Each cell has ``sampling_ratio`` samples along each axis; by default as many as it has elements.
    """
    dtype = working_dtype(data.dtype)
    out = np.zeros((len(rois), data.shape[1], *pooled_size), data.dtype)
    samples = _rotated_samples(rois, data.shape, pooled_size, spatial_scale, sampling_ratio)
    for index, image, positions, weights in samples:
        flat = data[image].reshape(data.shape[1], -1).astype(dtype, copy=False)
        average = (flat[:, positions] * weights.astype(dtype)).sum(-1)
        out[index] = average.reshape(data.shape[1], *pooled_size)
    return out


@rotated_roi_align.infer
def rotated_roi_align_shape(data: Node, rois: Node, *, pooled_size: Shape, spatial_scale: float) -> Spec:
    _check("_contrib_RROIAlign", data, rois, spatial_scale, 6)
    if len(pooled_size) != 2 or min(pooled_size) < 1:
        raise MXNetError(f"pooled_size of operator _contrib_RROIAlign must be two extents, not {pooled_size}")
    return (rois.shape[0], data.shape[1], *pooled_size), data.dtype


@rotated_roi_align.gradient
def rotated_roi_align_grad(
    out_grad: Node, out: Node, data: Node, rois: Node, *, pooled_size: Shape, spatial_scale: float, sampling_ratio: int
) -> tuple[Node, None]:
    attributes = (data.shape, pooled_size, spatial_scale, sampling_ratio)
    return single(_rotated_adjoint.apply((out_grad, rois), attributes)), None


@operator(cost=8.0)
def _rotated_adjoint(
    data: Array, rois: Array, *, shape: Shape, pooled_size: Shape, spatial_scale: float, sampling_ratio: int
) -> Array:
    """Add each cell of each rotated region, weighted, to the elements of its average, in images of a shape."""
    dtype = working_dtype(data.dtype)
    out = np.zeros((*shape[:2], shape[2] * shape[3]), dtype)
    samples = _rotated_samples(rois, shape, pooled_size, spatial_scale, sampling_ratio)
    for index, image, positions, weights in samples:
        cells = data[index].reshape(shape[1], -1, 1).astype(dtype, copy=False)
        np.add.at(out[image].T, positions, np.moveaxis(cells * weights.astype(dtype), 0, -1))
    return out.reshape(shape).astype(data.dtype, copy=False)


@_rotated_adjoint.infer
def rotated_adjoint_shape(data: Node, rois: Node, *, shape: Shape) -> Spec:
    return shape, data.dtype


@_rotated_adjoint.gradient
def rotated_adjoint_grad(
    out_grad: Node, out: Node, data: Node, rois: Node, *, pooled_size: Shape, spatial_scale: float, sampling_ratio: int
) -> tuple[Node, None]:
    return single(rotated_roi_align.apply((out_grad, rois), (pooled_size, spatial_scale, sampling_ratio))), None


def _pooled_results(inputs: Partials, *, output_dim: int, pooled_size: int) -> Partials:
    rois = inputs[1]
    return [None if rois is None or len(rois) != 2 else (rois[0], output_dim, pooled_size, pooled_size)]


psroi_pooling.interface = Interface(results=_pooled_results)
deformable_psroi_pooling.interface = Interface(arguments=leave_out("trans", "no_trans"), results=_pooled_results)


# -- precision in mixed-precision training

for _declared in (deformable_psroi_pooling,):
    _declared.precision = "float32"
for _declared in (psroi_pooling,):
    _declared.precision = "widest"
