"""Warp images by affine maps, and convert them to hue, lightness and saturation, as MXNet's record iterators do.

Takes interpolation methods from :mod:`.resizing`, and hands NumPy arrays to ``phonograd.io``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .resizing import choose_method

__all__ = ["HLS_LIMITS", "from_hls", "to_hls", "warp"]

Values = np.ndarray[Any, Any]

#: the largest hue, lightness and saturation of bytes, in the order of OpenCV's HLS
HLS_LIMITS = (180, 255, 255)


def warp(image: Values, matrix: Values, width: int, height: int, fill_value: float, interp: int = 1) -> Values:
    """Return an image of another size, whose pixel at ``matrix @ (x, y, 1)`` is that of the image at (x, y).

    Pixels from outside of the image have the value `fill_value`. Interpolation is by the nearest pixel, linear or
    cubic; areas become linear and Lanczos windows cubic.

    >>> image = np.array([[[1], [2], [3]]], np.uint8)
    >>> warp(image, np.array([[1.0, 0, 1], [0, 1, 0]]), 3, 1, 9)[0, :, 0]
    array([9, 1, 2], dtype=uint8)
    """
    method = choose_method(interp, (*image.shape[:2], height, width))
    inverse = np.linalg.inv(matrix[:, :2])
    y, x = np.mgrid[0:height, 0:width]
    points = np.stack([x - matrix[0, 2], y - matrix[1, 2]], axis=-1) @ inverse.T
    if method == 0:
        points = np.rint(points)
    lower = np.floor(points).astype(np.int64)
    taps = _taps(points - lower, method)
    reach = len(taps) // 2
    # a border as wide as the interpolation reaches stands for everything outside
    border = ((reach, reach), (reach, reach), (0, 0))
    padded = np.pad(image.astype(np.float32), border, constant_values=fill_value)
    limits = np.array(padded.shape[1::-1]) - 1
    found = np.zeros((height, width, image.shape[2]), np.float32)
    for row, rows in enumerate(taps):
        for column, columns in enumerate(taps):
            place = lower + reach + (np.array([column, row]) - (len(taps) - 1) // 2)
            inside = ((place >= 0) & (place <= limits)).all(axis=-1)
            column_of, row_of = np.moveaxis(np.clip(place, 0, limits), -1, 0)
            values = np.where(inside[..., None], padded[row_of, column_of], np.float32(fill_value))
            found += values * (rows[..., 1] * columns[..., 0])[..., None].astype(np.float32)
    if image.dtype.kind in "iu":
        bounds = np.iinfo(image.dtype)
        found = np.clip(np.rint(found), bounds.min, bounds.max)
    return found.astype(image.dtype)


def _taps(fraction: Values, method: int) -> list[Values]:
    """Return the weights of the pixels around points, by their distance from the pixel before."""
    if method == 0:
        return [np.ones_like(fraction)]
    if method in (1, 3):
        return [1 - fraction, fraction]
    weights = []
    for offset in (-1, 0, 1, 2):
        distance = np.abs(fraction - offset)
        # the cubic kernel of OpenCV, with its coefficient -0.75
        near = (1.25 * distance - 2.25) * distance * distance + 1
        far = -0.75 * (((distance - 5) * distance + 8) * distance - 4)
        weights.append(np.where(distance <= 1, near, far))
    return weights


def to_hls(image: Values) -> Values:
    """Return hue (0 to 180), lightness and saturation (0 to 255) of an image of bytes with red, green and blue.

    >>> to_hls(np.array([[[255, 0, 0], [0, 0, 128]]], np.uint8))
    array([[[  0, 128, 255],
            [120,  64, 255]]])
    """
    values = image.astype(np.float32) / 255
    high, low = values.max(axis=-1), values.min(axis=-1)
    lightness, spread = (high + low) / 2, high - low
    some = np.where(spread == 0, 1, spread)
    divisor = np.where(lightness < 0.5, high + low, 2 - high - low)
    saturation = np.where(spread == 0, 0, spread / np.where(divisor == 0, 1, divisor))
    red, green, blue = np.moveaxis(values, -1, 0)
    hue = np.where(
        high == red,
        60 * (green - blue) / some,
        np.where(high == green, 120 + 60 * (blue - red) / some, 240 + 60 * (red - green) / some),
    )
    hue = np.where(spread == 0, 0, hue % 360)
    found: Values = np.rint(np.stack([hue / 2, lightness * 255, saturation * 255], axis=-1)).astype(np.int64)
    return found


def from_hls(values: Values) -> Values:
    """Return an image of bytes from hue, lightness and saturation.

    >>> from_hls(np.array([[[0, 128, 255], [120, 64, 255]]]))
    array([[[255,   1,   1],
            [  0,   0, 128]]], dtype=uint8)
    """
    hue, lightness, saturation = np.moveaxis(values / np.array([30.0, 255.0, 255.0]), -1, 0)
    upper = np.where(lightness <= 0.5, lightness * (1 + saturation), lightness + saturation - lightness * saturation)
    lower = 2 * lightness - upper
    channels = []
    for shift in (2, 0, -2):
        place = (hue + shift) % 6
        rising = lower + (upper - lower) * place
        falling = lower + (upper - lower) * (4 - place)
        channels.append(np.where(place < 1, rising, np.where(place < 3, upper, np.where(place < 4, falling, lower))))
    found: Values = np.clip(np.rint(np.stack(channels, axis=-1) * 255), 0, 255).astype(np.uint8)
    return found
