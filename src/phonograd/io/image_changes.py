"""Random changes of the shape and the colors of images in record iterators.

Takes warps and color spaces from ``image``, and hands changed images to :mod:`.images`.
"""

from __future__ import annotations

import math
import random
from typing import Any, NamedTuple

import numpy as np

from ..image.warping import HLS_LIMITS, from_hls, to_hls, warp

__all__ = ["ShapeChange", "change_hls"]

Values = np.ndarray[Any, Any]


class ShapeChange(NamedTuple):
    """A random rotation, shear, scale and aspect ratio, with their limits."""

    angle: int
    is_fixed: bool
    shear: float
    scales: tuple[float, float]
    ratios: tuple[float, float]
    sizes: tuple[float, float]

    @property
    def is_needed(self) -> bool:
        """Return whether images change at all."""
        return (self.angle, self.shear, *self[3:]) != (0, 0, (1, 1), (1, 1), (0, 1e10))

    def apply(self, image: Values, chance: random.Random, fill_value: int, interp: int) -> Values:
        """Return a changed image.

        Example: a rotation by 180 degrees.

        >>> change = ShapeChange(180, True, 0.0, (1, 1), (1, 1), (0, 1e10))
        >>> change.apply(np.array([[[1], [2], [3]], [[4], [5], [6]]], np.uint8), random.Random(), 0, 0)[1, :, 0]
        array([0, 6, 5], dtype=uint8)
        """
        if not self.is_needed:
            return image
        shear = chance.uniform(-self.shear, self.shear)
        angle = math.radians(self.angle if self.is_fixed else chance.randint(-self.angle, self.angle))
        scale, ratio = chance.uniform(*self.scales), chance.uniform(*self.ratios)
        rows, columns = image.shape[:2]
        width, height = (max(self.sizes[0], min(self.sizes[1], scale * extent)) for extent in (columns, rows))
        wide = 2 * scale / (1 + ratio)
        high = ratio * wide
        cosine, sine = math.cos(angle), math.sin(angle)
        linear = np.array(
            [
                [wide * cosine - shear * sine * high, wide * sine + shear * cosine * high],
                [-sine * high, cosine * high],
            ]
        )
        # the center of the image stays in the center
        offset = (np.array([width, height]) - linear @ [columns, rows]) / 2
        return warp(image, np.column_stack([linear, offset]), int(width), int(height), fill_value, interp)


def change_hls(image: Values, limits: tuple[int, int, int], chance: random.Random) -> Values:
    """Return an image of bytes with other hue, lightness and saturation; small changes are more likely.

    >>> change_hls(np.zeros((1, 1, 3), np.uint8), (0, 0, 0), random.Random())[0, 0]
    array([0, 0, 0], dtype=uint8)
    """
    changes = [int((chance.random() + 4 * chance.random()) / 5 * 2 * limit - limit) for limit in limits]
    return from_hls(np.clip(to_hls(image) + changes, 0, HLS_LIMITS))
