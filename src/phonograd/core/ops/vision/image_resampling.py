"""Resizing of images as in OpenCV: pixels are squares, and interpolation uses only adjacent pixels.

The axes are resampled one after the other. A pixel of the result is a weighted sum of a few pixels of the source, its
taps; the outermost pixels are repeated beyond the border. Resampling is linear: its gradient is its adjoint.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ...base.dtypes import FLOAT32, FLOAT64, UINT8, DType, is_floating
from ...base.errors import MXNetError, format_shape
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, composite, nothing, operator, single
from ..math.arithmetic import maximum, minimum
from ..math.primitives import cast, slice_step

__all__ = [
    "AREA",
    "CUBIC",
    "FIXED_POINT",
    "GROWING_AREA",
    "LANCZOS",
    "LINEAR",
    "NEAREST",
    "check_images",
    "effective_method",
    "resample",
    "resample_bytes",
    "resampling_taps",
    "resize",
    "saturate_cast",
]

NEAREST, LINEAR, CUBIC, AREA, LANCZOS = range(5)
#: OpenCV's method for areas if an axis grows
GROWING_AREA = 5
#: methods that OpenCV implements for bytes in integer arithmetic only
FIXED_POINT = frozenset([LINEAR, CUBIC, LANCZOS, GROWING_AREA])


def _cubic(distance: Array) -> Array:
    """Return the weights of Keys' cubic with a = -0.75."""
    x = np.abs(distance)
    near = (1.25 * x - 2.25) * x * x + 1
    far = ((-0.75 * x + 3.75) * x - 6) * x + 3
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _lanczos(distance: Array) -> Array:
    return np.where(np.abs(distance) < 4, np.sinc(distance) * np.sinc(distance / 4), 0.0)


@lru_cache(256)
def resampling_taps(old: int, new: int, method: int) -> tuple[Array, Array]:
    """Return the source pixels (new, taps) of each new pixel along an axis, and their weights."""
    # divide like OpenCV: where positions are integers, the last bit decides between two pixels
    scale = 1.0 / (new / old)
    if method == NEAREST:
        places = np.minimum(np.floor(np.arange(new) * scale), old - 1).astype(np.intp)
        return places[:, None], np.ones((new, 1), np.float32)
    if method == AREA:
        return _area_taps(old, new, scale)
    if method == GROWING_AREA:
        first = np.floor(np.arange(new) * scale)
        part = np.arange(new) + 1 - (first + 1) / scale
        part = np.where(part <= 0, 0.0, part - np.floor(part))
        taps, weights = first[:, None] + np.arange(2), np.stack([1 - part, part], 1)
    else:
        middle = (np.arange(new) + 0.5) * scale - 0.5
        reach = {LINEAR: 1, CUBIC: 2, LANCZOS: 4}[method]
        taps = np.floor(middle)[:, None] + np.arange(1 - reach, reach + 1)
        distance = middle[:, None] - taps
        if method == LINEAR:
            weights = 1 - np.abs(distance)
        else:
            weights = _cubic(distance) if method == CUBIC else _lanczos(distance)
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(taps, 0, old - 1).astype(np.intp), weights.astype(np.float32)


def _area_taps(old: int, new: int, scale: float) -> tuple[Array, Array]:
    """Return taps and weights if a new pixel is the mean of the pixels it covers."""
    begin, end = np.arange(new) * scale, (np.arange(new) + 1) * scale
    taps = np.floor(begin)[:, None] + np.arange(int(np.ceil(scale)) + 1)
    weights = np.clip(np.minimum(end[:, None], taps + 1) - np.maximum(begin[:, None], taps), 0, None)
    weights[weights < 1e-3] = 0
    weights /= weights.sum(1, keepdims=True)
    return np.clip(taps, 0, old - 1).astype(np.intp), weights.astype(np.float32)


def effective_method(interp: int, dtype: DType, old: tuple[int, int], new: tuple[int, int]) -> int:
    """Return OpenCV's actual method for ``interp``, given (height, width) of the image and of the result."""
    if interp != AREA:
        return interp
    if old[0] < new[0] or old[1] < new[1]:
        return GROWING_AREA
    # the mean of four bytes rounds halves up, as linear interpolation at their center does
    return LINEAR if dtype == UINT8 and old == (2 * new[0], 2 * new[1]) else AREA


def resample(image: Array, axis: int, new: int, method: int) -> Array:
    """Resample an image to another size of one axis."""
    taps, weights = resampling_taps(image.shape[axis], new, method)
    shape = [1] * image.ndim
    shape[axis] = new
    total: Array = np.take(image, taps[:, 0], axis) * weights[:, 0].reshape(shape)
    for tap in range(1, taps.shape[1]):
        total += np.take(image, taps[:, tap], axis) * weights[:, tap].reshape(shape)
    return total


def resample_bytes(image: Array, width: int, height: int, method: int) -> Array:
    """Resample an image of bytes in integer arithmetic, as OpenCV does: equal to nearly the last bit.

    Weights have 11 fractional bits. With two taps, a row of sums is rounded to 7 of these bits before the rows are
    combined; with more taps both sums are exact.
    """
    across, down = (resampling_taps(*sizes, method) for sizes in ((image.shape[-2], width), (image.shape[-3], height)))
    weights = [np.rint(weight * np.float32(2048)).astype(np.int32) for _, weight in (across, down)]
    source = image.astype(np.int32)
    sums = np.zeros((*image.shape[:-2], width, image.shape[-1]), np.int32)
    for tap in range(weights[0].shape[1]):
        sums += np.take(source, across[0][:, tap], -2) * weights[0][:, tap, None]
    if weights[1].shape[1] == 2:
        halves = [(np.take(sums >> 4, down[0][:, tap], -3) * weights[1][:, tap, None, None]) >> 16 for tap in (0, 1)]
        total = (halves[0] + halves[1] + 2) >> 2
    else:
        total = np.full((*image.shape[:-3], height, *sums.shape[-2:]), 1 << 21, np.int32)
        for tap in range(weights[1].shape[1]):
            total += np.take(sums, down[0][:, tap], -3) * weights[1][:, tap, None, None]
        total >>= 22
    found: Array = np.clip(total, 0, 255).astype(np.uint8)
    return found


@operator(gradient=nothing, cost=4.0)
def _image_resample_bytes(data: Array, *, width: int, height: int, method: int) -> Array:
    """Return images of bytes in another size."""
    return resample_bytes(data, width, height, method)


@_image_resample_bytes.infer
def image_resample_bytes_shape(data: Node, *, width: int, height: int) -> Spec:
    return (*data.shape[:-3], height, width, data.shape[-1]), data.dtype


@operator(cost=4.0)
def _image_resample(data: Array, *, axis: int, extent: int, method: int) -> Array:
    """Return images of floats resampled to ``extent`` pixels along an axis."""
    return resample(data, axis, extent, method).astype(data.dtype, copy=False)


@_image_resample.infer
def image_resample_shape(data: Node, *, axis: int, extent: int) -> Spec:
    return (*data.shape[:axis], extent, *data.shape[axis + 1 :]), data.dtype


@_image_resample.gradient
def image_resample_grad(out_grad: Node, out: Node, data: Node, *, axis: int, method: int) -> Node:
    return single(_image_resample_adjoint.apply((out_grad,), (axis, data.shape[axis], method)))


@operator(cost=4.0)
def _image_resample_adjoint(data: Array, *, axis: int, extent: int, method: int) -> Array:
    """Add each pixel, weighted, to the pixels it was resampled from: the adjoint of resampling."""
    taps, weights = resampling_taps(extent, data.shape[axis], method)
    lines = np.moveaxis(data, axis, 0)
    total = np.zeros((extent, *lines.shape[1:]), data.dtype)
    for tap in range(taps.shape[1]):
        weight = weights[:, tap].reshape(-1, *(1,) * (data.ndim - 1))
        np.add.at(total, taps[:, tap], lines * weight)
    return np.moveaxis(total, 0, axis).astype(data.dtype, copy=False)


@_image_resample_adjoint.infer
def image_resample_adjoint_shape(data: Node, *, axis: int, extent: int) -> Spec:
    return (*data.shape[:axis], extent, *data.shape[axis + 1 :]), data.dtype


@_image_resample_adjoint.gradient
def image_resample_adjoint_grad(out_grad: Node, out: Node, data: Node, *, axis: int, method: int) -> Node:
    return single(_image_resample.apply((out_grad,), (axis, data.shape[axis], method)))


def check_images(name: str, data: Node, batches: bool) -> None:
    """Raise unless a node is an image (height, width, channel), or a batch of them if allowed."""
    if data.ndim != 3 and not (batches and data.ndim == 4):
        batch = ", or (N, height, width, channels)" if batches else ","
        raise MXNetError(
            f"Input image must have shape (height, width, channels){batch} but got {format_shape(data.shape)}, "
            f"in operator {name}"
        )


def saturate_cast(values: Node, dtype: Any) -> Node:
    """Convert numbers to a dtype; for 8-bit dtypes, clip numbers out of range."""
    if dtype.itemsize == 1 and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = single(minimum(maximum(values, int(limits.min)), int(limits.max)))
    return cast(values, dtype)


@operator(gradient=nothing)
def _image_pixels(data: Array, *, dtype: DType) -> Array:
    """Return numbers rounded to integers, halves to even, and clipped to the range of a dtype."""
    limits = np.iinfo(dtype)
    pixels: Array = np.clip(np.rint(data), limits.min, limits.max).astype(dtype)
    return pixels


@_image_pixels.infer
def image_pixels_shape(data: Node, *, dtype: DType) -> Spec:
    return data.shape, dtype


def _target(data: Node, size: Shape, keep_ratio: bool) -> tuple[int, int]:
    """Return (width, height) of the result."""
    if len(size) not in (1, 2):
        raise MXNetError(f"Input size dimension must be 1 or 2, but got {len(size)}, in operator _image_resize")
    if min(size) < 1:
        raise MXNetError(f"Input size should be greater than 0, but got {min(size)}, in operator _image_resize")
    if len(size) == 2:
        return size[0], size[1]
    rows, columns = data.shape[-3:-1]
    if not keep_ratio:
        return size[0], size[0]
    return (size[0], size[0] * rows // columns) if rows > columns else (size[0] * columns // rows, size[0])


@composite(name="_image_resize")
def resize(data: Node, *, size: Shape = (), keep_ratio: bool = False, interp: int = 1) -> Node:
    """Resize images (height, width, channel), or a batch of them; the dtype stays the same.

    ``size`` is (width, height), or one number for both; with ``keep_ratio`` one number is the length of the shorter
    edge. ``interp`` is 0 for nearest, 1 for bilinear, 2 for bicubic, 3 for area and 4 for Lanczos interpolation.
    """
    check_images("_image_resize", data, True)
    if interp not in range(5):
        raise MXNetError(
            "interp must be 0 (nearest), 1 (bilinear), 2 (bicubic), 3 (area) or 4 (Lanczos), "
            f"not {interp}, in operator _image_resize"
        )
    if 0 in data.shape:
        raise MXNetError(f"an image without pixels cannot be resized: {format_shape(data.shape)}")
    width, height = _target(data, size, keep_ratio)
    rows, columns = data.shape[-3:-1]
    if (rows, columns) == (height, width):
        # the same image, but not the same array
        return slice_step(data, (0,) * data.ndim, data.shape)
    method = effective_method(interp, data.dtype, (rows, columns), (height, width))
    if data.dtype == UINT8 and method in FIXED_POINT:
        return single(_image_resample_bytes(data, width=width, height=height, method=method))
    values = cast(data, data.dtype if data.dtype == FLOAT64 else FLOAT32)
    axes = [(data.ndim - 3, height), (data.ndim - 2, width)]
    # resample the axis that shrinks more first: it leaves fewer pixels for the other
    for axis, new in axes if height * columns <= rows * width else reversed(axes):
        if values.shape[axis] != new or method != NEAREST:
            values = single(_image_resample.apply((values,), (axis, new, method)))
    return cast(values, data.dtype) if is_floating(data.dtype) else single(_image_pixels(values, dtype=data.dtype))
