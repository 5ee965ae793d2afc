"""Resize NumPy arrays at once, with the results of the operator ``nd.image.resize``.

Takes the interpolation from :mod:`phonograd.core.ops.vision.image_resampling`.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from ..core.base.errors import MXNetError
from ..core.ops.vision.image_resampling import (
    AREA,
    CUBIC,
    FIXED_POINT,
    LINEAR,
    NEAREST,
    effective_method,
    resample,
    resample_bytes,
    resampling_taps,
)

__all__ = ["choose_method", "resize"]

Image = np.ndarray[Any, Any]


def choose_method(interp: int, sizes: tuple[int, int, int, int] | tuple[()] = ()) -> int:
    """Return the number of an interpolation method.

    9 selects a method by `sizes` (old height, old width, new height, new width), and 10 a random one.

    >>> choose_method(9, (100, 100, 50, 50))
    3
    """
    if interp == 9:
        if not sizes:
            return CUBIC
        old_height, old_width, new_height, new_width = sizes
        if new_height > old_height and new_width > old_width:
            return CUBIC
        return AREA if new_height < old_height and new_width < old_width else LINEAR
    if interp == 10:
        return random.randint(0, 4)
    if interp not in (0, 1, 2, 3, 4):
        raise MXNetError(
            f"interp must be 0 (nearest), 1 (bilinear), 2 (bicubic), 3 (area), 4 (Lanczos), 9 or 10, not {interp}"
        )
    return interp


def resize(image: Image, width: int, height: int, interp: int = LINEAR) -> Image:
    """Return an image of shape (height, width, channel), or a batch of images, in another size and the same dtype.

    >>> resize(np.array([[[0], [100]]], np.uint8), 4, 1)[0, :, 0]
    array([  0,  25,  75, 100], dtype=uint8)
    """
    if image.ndim not in (3, 4):
        raise MXNetError(f"an image is (height, width, channel), or a batch of them, not of shape {image.shape}")
    rows, columns = image.shape[-3:-1]
    if width < 1 or height < 1:
        raise MXNetError(f"an image cannot be resized to width {width} and height {height}")
    if rows < 1 or columns < 1:
        raise MXNetError(f"an image without pixels cannot be resized; its shape is {image.shape}")
    if (rows, columns) == (height, width):
        return image.copy()
    method = choose_method(interp, (rows, columns, height, width))
    method = effective_method(method, image.dtype, (rows, columns), (height, width))
    if method == NEAREST:
        vertical, horizontal = resampling_taps(rows, height, NEAREST)[0], resampling_taps(columns, width, NEAREST)[0]
        return np.ascontiguousarray(image[..., vertical, horizontal[:, 0], :])
    if image.dtype == np.uint8 and method in FIXED_POINT:
        return resample_bytes(image, width, height, method)
    values = image.astype(np.float32 if image.dtype != np.float64 else np.float64)
    axes = [(-3, height), (-2, width)]
    # resizing the axis that shrinks more first leaves fewer elements for the other
    for axis, new in axes if height * columns <= rows * width else reversed(axes):
        values = resample(values, image.ndim + axis, new, method)
    if image.dtype.kind in "iu":
        limits = np.iinfo(image.dtype)
        values = np.clip(np.rint(values), limits.min, limits.max)
    return values.astype(image.dtype)
