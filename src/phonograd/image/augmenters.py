"""Provide random and fixed augmentation of images of shape (height, width, channel).

Takes functions of images from :mod:`.functions`; hands augmenters to iterators over images.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.base.docstrings import complete_classes
from ..core.base.dtypes import as_dtype
from ..core.base.errors import MXNetError
from ..core.ops.vision.image_colors import EIGENVALUES, EIGENVECTORS, LUMA
from ..ndarray.array import NDArray
from . import functions
from .functions import Image, pixels_of, to_array

__all__ = [
    "Augmenter",
    "BrightnessJitterAug",
    "CastAug",
    "CenterCropAug",
    "ColorJitterAug",
    "ColorNormalizeAug",
    "ContrastJitterAug",
    "CreateAugmenter",
    "ForceResizeAug",
    "HorizontalFlipAug",
    "HueJitterAug",
    "LightingAug",
    "RandomCropAug",
    "RandomGrayAug",
    "RandomOrderAug",
    "RandomSizedCropAug",
    "ResizeAug",
    "SaturationJitterAug",
    "SequentialAug",
    "color_statistics",
    "plain_argument",
]

_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
_FROM_YIQ = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])
_MEAN_OF_IMAGENET = np.array([123.68, 116.28, 103.53])
_DEVIATION_OF_IMAGENET = np.array([58.395, 57.12, 57.375])


def plain_argument(value: Any) -> Any:
    """Return an argument in a form that JSON supports."""
    if isinstance(value, NDArray):
        value = value.asnumpy()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value


class Augmenter:
    """Base class of augmenters: callables that take an image and return an image.

    :meth:`dumps` returns the keyword arguments.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = {name: plain_argument(value) for name, value in kwargs.items()}

    def dumps(self) -> Any:
        """Return the name and arguments as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __call__(self, src)")


class SequentialAug(Augmenter):
    """Apply augmenters one after another."""

    def __init__(self, ts: Sequence[Augmenter]) -> None:
        super().__init__()
        self.ts = list(ts)

    def dumps(self) -> Any:
        """Return the name, and the JSON of all parts."""
        return [type(self).__name__.lower(), [part.dumps() for part in self.ts]]

    def __call__(self, src: Any) -> Any:
        for part in self.ts:
            src = part(src)
        return src


class RandomOrderAug(SequentialAug):
    """Apply augmenters one after another, in a random order for each image."""

    def __call__(self, src: Any) -> Any:
        random.shuffle(self.ts)
        return super().__call__(src)


class ResizeAug(Augmenter):
    """Resize the shorter edge to a length."""

    def __init__(self, size: int, interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: Any) -> Any:
        return functions.resize_short(src, self.size, self.interp)


class ForceResizeAug(Augmenter):
    """Resize images to (width, height), whatever their aspect ratio."""

    def __init__(self, size: tuple[int, int], interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: Any) -> Any:
        return functions.imresize(src, *self.size, interp=self.interp)


class RandomCropAug(Augmenter):
    """Crop a random window of (width, height)."""

    def __init__(self, size: tuple[int, int], interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: Any) -> Any:
        return functions.random_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """Crop a random window of random size and aspect ratio, and resize it to (width, height)."""

    def __init__(
        self, size: tuple[int, int], area: Any, ratio: tuple[float, float], interp: int = 2, **kwargs: Any
    ) -> None:
        area = kwargs.pop("min_area", area)
        if kwargs:
            raise TypeError(f"unexpected keyword arguments for RandomSizedCropAug: {', '.join(kwargs)}")
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        self.size, self.area, self.ratio, self.interp = size, area, ratio, interp

    def __call__(self, src: Any) -> Any:
        return functions.random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


class CenterCropAug(Augmenter):
    """Crop the center of (width, height)."""

    def __init__(self, size: tuple[int, int], interp: int = 2) -> None:
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: Any) -> Any:
        return functions.center_crop(src, self.size, self.interp)[0]


class BrightnessJitterAug(Augmenter):
    """Multiply all colors by a random factor between ``1 - brightness`` and ``1 + brightness``."""

    def __init__(self, brightness: float) -> None:
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src: Any) -> Any:
        alpha = 1.0 + random.uniform(-self.brightness, self.brightness)
        return _like(src, _floats(src) * np.float32(alpha))


class ContrastJitterAug(Augmenter):
    """Multiply the distance of colors from the mean luminance by a random factor of at most ``1 ± contrast``."""

    def __init__(self, contrast: float) -> None:
        super().__init__(contrast=contrast)
        self.contrast = contrast

    def __call__(self, src: Any) -> Any:
        alpha = 1.0 + random.uniform(-self.contrast, self.contrast)
        image = _floats(src)
        gray = (image @ LUMA).mean(dtype=np.float64)
        return _like(src, image * np.float32(alpha) + np.float32((1.0 - alpha) * gray))


class SaturationJitterAug(Augmenter):
    """Multiply the distance of colors from gray by a random factor of at most ``1 ± saturation``."""

    def __init__(self, saturation: float) -> None:
        super().__init__(saturation=saturation)
        self.saturation = saturation

    def __call__(self, src: Any) -> Any:
        alpha = 1.0 + random.uniform(-self.saturation, self.saturation)
        image = _floats(src)
        gray = (image @ LUMA)[..., None]
        return _like(src, image * np.float32(alpha) + gray * np.float32(1.0 - alpha))


class HueJitterAug(Augmenter):
    """Rotate hues by up to `hue` half turns in either direction."""

    def __init__(self, hue: float) -> None:
        super().__init__(hue=hue)
        self.hue = hue

    def __call__(self, src: Any) -> Any:
        alpha = random.uniform(-self.hue, self.hue)
        cosine, sine = math.cos(alpha * math.pi), math.sin(alpha * math.pi)
        turn = np.array([[1.0, 0.0, 0.0], [0.0, cosine, -sine], [0.0, sine, cosine]])
        return _like(src, _floats(src) @ (_FROM_YIQ @ turn @ _TO_YIQ).T.astype(np.float32))


class ColorJitterAug(RandomOrderAug):
    """Change brightness, contrast and saturation in random order."""

    def __init__(self, brightness: float, contrast: float, saturation: float) -> None:
        parts: list[Augmenter] = []
        if brightness > 0:
            parts.append(BrightnessJitterAug(brightness))
        if contrast > 0:
            parts.append(ContrastJitterAug(contrast))
        if saturation > 0:
            parts.append(SaturationJitterAug(saturation))
        super().__init__(parts)


class LightingAug(Augmenter):
    """Add a random color along the principal components of RGB values, as AlexNet did."""

    def __init__(self, alphastd: float, eigval: Any, eigvec: Any) -> None:
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd, self.eigval, self.eigvec = alphastd, np.asarray(eigval), np.asarray(eigvec)

    def __call__(self, src: Any) -> Any:
        alpha = np.random.normal(0, self.alphastd, size=(3,))
        return _like(src, _floats(src) + ((self.eigvec * alpha) @ self.eigval).astype(np.float32))


class ColorNormalizeAug(Augmenter):
    """Subtract a mean, then divide by a standard deviation."""

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__(mean=mean, std=std)
        self.mean = None if mean is None else np.asarray(plain_argument(mean), np.float32)
        self.std = None if std is None else np.asarray(plain_argument(std), np.float32)

    def __call__(self, src: Any) -> Any:
        image = pixels_of(src)
        if image.dtype.kind != "f":
            raise MXNetError(f"ColorNormalizeAug takes floats, not {image.dtype}: apply CastAug before")
        return _like(src, functions.color_normalize(image, self.mean, self.std))


class RandomGrayAug(Augmenter):
    """Convert images to gray with probability `p`."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Any) -> Any:
        if random.random() >= self.p:
            return src
        gray = _floats(src) @ np.array([0.21, 0.72, 0.07], np.float32)
        return _like(src, np.repeat(gray[..., None], 3, axis=-1))


class HorizontalFlipAug(Augmenter):
    """Flip images left to right with probability `p`."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Any) -> Any:
        return to_array(pixels_of(src)[:, ::-1]) if random.random() < self.p else src


class CastAug(Augmenter):
    """Convert images to a dtype."""

    def __init__(self, typ: str = "float32") -> None:
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: Any) -> Any:
        return to_array(pixels_of(src).astype(as_dtype(self.typ)))


def _floats(src: Any) -> Image:
    """Return an image as a NumPy array of floats."""
    image = pixels_of(src)
    return image if image.dtype.kind == "f" else image.astype(np.float32)


def _like(src: Any, image: Image) -> NDArray:
    """Return an image as an array with the dtype of another; integers are clipped to their range."""
    original = pixels_of(src)
    if original.dtype.kind in "iu":
        limits = np.iinfo(original.dtype)
        image = np.clip(image, limits.min, limits.max)
    return to_array(image.astype(original.dtype, copy=image is original))


def CreateAugmenter(  # noqa: N802
    data_shape: tuple[int, int, int],
    resize: int = 0,
    rand_crop: bool = False,
    rand_resize: bool = False,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    hue: float = 0,
    pca_noise: float = 0,
    rand_gray: float = 0,
    inter_method: int = 2,
) -> list[Augmenter]:
    """Return the standard augmenters in their standard order.

    Parameters
    ----------
    data_shape
        The (channels, height, width) of the results.
    resize
        The length of the shorter edge before the crop; 0 keeps the size.
    rand_crop
        Whether to crop at a random position. Otherwise the crop is in the center.
    rand_resize
        Whether the crop also has a random size; requires `rand_crop`.
    rand_mirror
        Whether to flip half of the images left to right.
    mean, std
        The numbers to subtract and to divide by, one for each channel; True for those of ImageNet.
    brightness, contrast, saturation, hue, pca_noise
        The strengths of the color changes.
    rand_gray
        The probability of converting an image to gray.
    inter_method
        The interpolation method; see :func:`imresize`.

    Examples
    --------
    >>> steps = mx.image.CreateAugmenter((3, 8, 8), resize=10, rand_mirror=True, mean=True, std=True)
    >>> [type(step).__name__ for step in steps]
    ['ResizeAug', 'CenterCropAug', 'HorizontalFlipAug', 'CastAug', 'ColorNormalizeAug']
    >>> image = mx.nd.random.randint(0, 256, (12, 20, 3)).astype("uint8")
    >>> for step in steps:
    ...     image = step(image)
    >>> image.shape, image.dtype
    ((8, 8, 3), <class 'numpy.float32'>)
    """
    result: list[Augmenter] = []
    size = (data_shape[2], data_shape[1])
    if resize > 0:
        result.append(ResizeAug(resize, inter_method))
    if rand_resize:
        assert rand_crop, "rand_resize needs rand_crop"
        result.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    elif rand_crop:
        result.append(RandomCropAug(size, inter_method))
    else:
        result.append(CenterCropAug(size, inter_method))
    if rand_mirror:
        result.append(HorizontalFlipAug(0.5))
    result.append(CastAug())
    if brightness or contrast or saturation:
        result.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        result.append(HueJitterAug(hue))
    if pca_noise > 0:
        result.append(LightingAug(pca_noise, EIGENVALUES, EIGENVECTORS))
    if rand_gray > 0:
        result.append(RandomGrayAug(rand_gray))
    mean, std = color_statistics(mean, std)
    if mean is not None or std is not None:
        result.append(ColorNormalizeAug(mean, std))
    return result


def color_statistics(mean: Any, std: Any) -> tuple[Image | None, Image | None]:
    """Return means and standard deviations of colors, one number per channel; True stands for those of ImageNet."""
    return _channels(mean, _MEAN_OF_IMAGENET, "mean"), _channels(std, _DEVIATION_OF_IMAGENET, "std")


def _channels(given: Any, usual: Image, name: str) -> Image | None:
    """Return one number for each channel, or None."""
    if given is None or given is False:
        return None
    values = usual if given is True else np.asarray(plain_argument(given))
    if values.shape not in ((1,), (3,)):
        raise ValueError(f"{name} must have 1 or 3 numbers, not shape {values.shape}")
    return values.astype(np.float32)


complete_classes(globals())
