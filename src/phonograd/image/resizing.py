"""Images of another size, as OpenCV computes them: pixels are squares, and interpolation looks only at neighbours.

Both axes are treated one after the other. A pixel of the result is a weighted sum of a few pixels of the source, its
taps; beyond the border the outermost pixels are repeated.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["chosen_method", "resize"]

Image = np.ndarray[Any, Any]
NEAREST, LINEAR, CUBIC, AREA, LANCZOS = range(5)
#: what OpenCV does when areas are asked for but an axis grows
_GROWING_AREA = 5


def chosen_method(interp: int, sizes: tuple[int, int, int, int] | tuple[()] = ()) -> int:
    """Return the number of a method; 9 chooses one by (old height, old width, new height, new width), 10 at random.

    >>> chosen_method(9, (100, 100, 50, 50))
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
        raise ValueError(
            f"interp must be 0 (nearest), 1 (bilinear), 2 (bicubic), 3 (area), 4 (Lanczos), 9 or 10, not {interp}"
        )
    return interp


def _cubic(distance: Image) -> Image:
    """Return the weights of Keys' cubic with a = -0.75."""
    x = np.abs(distance)
    near = (1.25 * x - 2.25) * x * x + 1
    far = ((-0.75 * x + 3.75) * x - 6) * x + 3
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _lanczos(distance: Image) -> Image:
    return np.where(np.abs(distance) < 4, np.sinc(distance) * np.sinc(distance / 4), 0.0)


@lru_cache(256)
def _taps(old: int, new: int, method: int) -> tuple[Image, Image]:
    """Return which pixels of an axis the new ones take, (new, taps), and their weights."""
    scale = old / new
    if method == NEAREST:
        places = np.minimum(np.floor(np.arange(new) * scale), old - 1).astype(np.intp)
        return places[:, None], np.ones((new, 1), np.float32)
    if method == AREA:
        return _covered(old, new, scale)
    if method == _GROWING_AREA:
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


def _covered(old: int, new: int, scale: float) -> tuple[Image, Image]:
    """Return taps and weights where a new pixel is the mean of what it covers."""
    begin, end = np.arange(new) * scale, (np.arange(new) + 1) * scale
    taps = np.floor(begin)[:, None] + np.arange(int(np.ceil(scale)) + 1)
    weights = np.clip(np.minimum(end[:, None], taps + 1) - np.maximum(begin[:, None], taps), 0, None)
    weights[weights < 1e-3] = 0
    weights /= weights.sum(1, keepdims=True)
    return np.clip(taps, 0, old - 1).astype(np.intp), weights.astype(np.float32)


def _along(image: Image, axis: int, new: int, method: int) -> Image:
    """Return an image of floats with another extent of one axis."""
    taps, weights = _taps(image.shape[axis], new, method)
    shape = [1] * image.ndim
    shape[axis] = new
    total = np.take(image, taps[:, 0], axis) * weights[:, 0].reshape(shape)
    for tap in range(1, taps.shape[1]):
        total += np.take(image, taps[:, tap], axis) * weights[:, tap].reshape(shape)
    return total


def resize(image: Image, width: int, height: int, interp: int = LINEAR) -> Image:
    """Return an image (height, width, channel), or a batch of them, of another size and the same dtype.

    >>> resize(np.array([[[0], [100]]], np.uint8), 4, 1)[0, :, 0]
    array([  0,  25,  75, 100], dtype=uint8)
    """
    rows, columns = image.shape[-3:-1]
    if width < 1 or height < 1:
        raise ValueError(f"an image cannot be resized to width {width} and height {height}")
    if rows < 1 or columns < 1:
        raise ValueError(f"an image without pixels cannot be resized; its shape is {image.shape}")
    if (rows, columns) == (height, width):
        return image.copy()
    method = chosen_method(interp, (rows, columns, height, width))
    if method == NEAREST:
        vertical, horizontal = _taps(rows, height, NEAREST)[0], _taps(columns, width, NEAREST)[0]
        return np.ascontiguousarray(image[..., vertical, horizontal[:, 0], :])
    if method == AREA and (rows < height or columns < width):
        method = _GROWING_AREA
    values = image.astype(np.float32 if image.dtype != np.float64 else np.float64)
    axes = [(-3, height), (-2, width)]
    # the axis that shrinks more goes first: it leaves less for the other
    for axis, new in axes if height * columns <= rows * width else reversed(axes):
        values = _along(values, image.ndim + axis, new, method)
    if image.dtype.kind in "iu":
        limits = np.iinfo(image.dtype)
        values = np.clip(np.rint(values), limits.min, limits.max)
    return values.astype(image.dtype)
