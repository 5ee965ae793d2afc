"""Changes of the colors of images, floats (height, width, 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.ops.vision.image_colors import EIGENVALUES, EIGENVECTORS, LUMA

__all__ = ["brightened", "contrasted", "lit", "saturated", "turned_hue"]

Values = np.ndarray[Any, Any]


def brightened(image: Values, factor: float) -> Values:
    """Return the image with all colors multiplied by a factor."""
    return image * np.float32(factor)


def contrasted(image: Values, factor: float) -> Values:
    """Return the image with the distance of colors to the mean brightness multiplied by a factor."""
    mean = (image @ LUMA).mean(dtype=np.float64) if image.shape[-1] == 3 else image.mean(dtype=np.float64)
    return image * np.float32(factor) + np.float32((1 - factor) * mean)


def saturated(image: Values, factor: float) -> Values:
    """Return the image with the distance of colors to gray multiplied by a factor."""
    if image.shape[-1] != 3:
        return image
    return image * np.float32(factor) + (image @ LUMA)[..., None] * np.float32(1 - factor)


def turned_hue(image: Values, turns: float) -> Values:
    """Return the image with hues turned, by whole turns around the circle of colors.

    >>> turned_hue(np.array([[[255.0, 0.0, 0.0]]], np.float32), 1 / 3).round().tolist()
    [[[0.0, 255.0, 0.0]]]
    """
    if image.shape[-1] != 3:
        return image
    red, green, blue = image[..., 0], image[..., 1], image[..., 2]
    most, least = image.max(-1), image.min(-1)
    spread = most - least
    safe = np.where(spread > 0, spread, 1)
    # the hue in sixths of a turn
    hue = np.where(
        most == red,
        (green - blue) / safe,
        np.where(most == green, (blue - red) / safe + 2, (red - green) / safe + 4),
    )
    hue = (hue + 6 * turns) % 6
    channels = []
    for offset in (0, 4, 2):
        distance = np.abs((hue + offset) % 6 - 3)
        channels.append(least + spread * np.clip(distance - 1, 0, 1))
    return np.stack(channels, -1).astype(image.dtype)


def lit(image: Values, alphas: tuple[float, float, float]) -> Values:
    """Return the image with a color added along the principal components of colors."""
    color: Values = ((EIGENVECTORS * np.array(alphas)) @ EIGENVALUES).astype(np.float32)
    return image + color
