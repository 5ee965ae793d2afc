"""Provide random changes of the colors of images as blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.base.docstrings import complete_classes
from ....image.functions import pixels_of, to_array
from ....ndarray.array import NDArray
from . import chance, colors
from .blocks import PixelTransform, Values

__all__ = [
    "RandomBrightness",
    "RandomColorJitter",
    "RandomContrast",
    "RandomGray",
    "RandomHue",
    "RandomLighting",
    "RandomSaturation",
]


def _to_dtype(values: Values, dtype: np.dtype[Any]) -> NDArray:
    """Return values as an array of a dtype; integers are clipped to their range and rounded toward zero."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = np.clip(values, limits.min, limits.max)
    return to_array(values.astype(dtype, copy=False))


class _Jitter(PixelTransform):
    """Change the colors of an image by a random factor around 1."""

    _change: Callable[[Values, float], Values]
    _operator: str

    def __init__(self, amount: float) -> None:
        super().__init__()
        if amount < 0:
            raise ValueError(f"{type(self).__name__} needs a number that is not negative, not {amount}")
        self._limits = max(0.0, 1.0 - amount), 1.0 + amount

    def _transform(self, x: NDArray) -> NDArray:
        values = pixels_of(x)
        return _to_dtype(type(self)._change(values.astype(np.float32), chance.uniform(*self._limits)), values.dtype)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the image with changed colors."""
        return getattr(F.image, self._operator)(x, *self._limits)


class RandomBrightness(_Jitter):
    """Multiply all colors by a random factor from ``1 - brightness`` to ``1 + brightness``."""

    _change = staticmethod(colors.change_brightness)
    _operator = "random_brightness"

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness)


class RandomContrast(_Jitter):
    """Multiply the distance of colors from the mean luminance by a random factor around 1."""

    _change = staticmethod(colors.change_contrast)
    _operator = "random_contrast"

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast)


class RandomSaturation(_Jitter):
    """Multiply the distance of colors from gray by a random factor around 1.

    Compatibility
    -------------
    Gray is the luminance of a pixel. MXNet 1.9.1 uses only a fraction of its blue channel.
    """

    _change = staticmethod(colors.change_saturation)
    _operator = "random_saturation"

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation)


class RandomHue(_Jitter):
    """Rotate hues by up to `hue` full turns in either direction."""

    # a factor of 1 is a full turn, which changes nothing
    _change = staticmethod(colors.rotate_hue)
    _operator = "random_hue"

    def __init__(self, hue: float) -> None:
        super().__init__(hue)


class RandomColorJitter(PixelTransform):
    """Change brightness, contrast, saturation and hue in random order."""

    def __init__(self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0) -> None:
        super().__init__()
        kinds = (RandomBrightness, brightness), (RandomContrast, contrast), (RandomSaturation, saturation)
        self._parts: list[_Jitter] = [kind(amount) for kind, amount in (*kinds, (RandomHue, hue)) if amount]
        self._amounts = brightness, contrast, saturation, hue

    def _transform(self, x: NDArray) -> NDArray:
        for number in chance.shuffle_indices(len(self._parts)):
            x = self._parts[number](x)
        return x

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the image with changed colors."""
        return F.image.random_color_jitter(x, *self._amounts)


class RandomLighting(PixelTransform):
    """Add a random color along the principal components of RGB values, with standard deviation `alpha`."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self._alpha = alpha

    def _transform(self, x: NDArray) -> NDArray:
        values = pixels_of(x)
        alphas = chance.normal(self._alpha), chance.normal(self._alpha), chance.normal(self._alpha)
        return _to_dtype(colors.add_lighting(values.astype(np.float32), alphas), values.dtype)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the image with the color added."""
        return F.image.random_lighting(x, self._alpha)


class RandomGray(PixelTransform):
    """Convert images to gray with probability `p`; they keep three channels."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def _transform(self, x: NDArray) -> NDArray:
        if chance.uniform() >= self.p:
            return x
        values = pixels_of(x)
        return _to_dtype(colors.change_saturation(values.astype(np.float32), 0.0), values.dtype)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the image, gray or not."""
        gray = F.image.random_saturation(x, 0.0, 0.0)
        chosen = F.broadcast_lesser(F.random.uniform(shape=(1,)), F.full((1,), self.p))
        return F.where(F.broadcast_like(F.reshape(chosen, (1, 1, 1)), x), gray, x)


complete_classes(globals())
