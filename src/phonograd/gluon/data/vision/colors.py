"""Change the colors of images, which are float arrays of shape (height, width, 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....core.ops.vision.image_colors import EIGENVALUES, EIGENVECTORS, LUMA

__all__ = ["add_lighting", "change_brightness", "change_contrast", "change_saturation", "rotate_hue"]

Values = np.ndarray[Any, Any]


def change_brightness(image: Values, factor: float) -> Values:
    """Multiply all colors by a factor."""
    return image * np.float32(factor)


def change_contrast(image: Values, factor: float) -> Values:
    """Multiply the distance of colors from the mean luminance by a factor."""
    mean = (image @ LUMA).mean(dtype=np.float64) if image.shape[-1] == 3 else image.mean(dtype=np.float64)
    return image * np.float32(factor) + np.float32((1 - factor) * mean)


def change_saturation(image: Values, factor: float) -> Values:
    """Multiply the distance of colors from gray by a factor."""
    if image.shape[-1] != 3:
        return image
    return image * np.float32(factor) + (image @ LUMA)[..., None] * np.float32(1 - factor)


def rotate_hue(image: Values, turns: float) -> Values:
    """Rotate the hues by a number of full turns around the color circle.

    >>> rotate_hue(np.array([[[255.0, 0.0, 0.0]]], np.float32), 1 / 3).round().tolist()
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


def add_lighting(image: Values, alphas: tuple[float, float, float]) -> Values:
    """Add a color along the principal components of RGB values (AlexNet's lighting noise)."""
    color: Values = ((EIGENVECTORS * np.array(alphas)) @ EIGENVALUES).astype(np.float32)
    return image + color
