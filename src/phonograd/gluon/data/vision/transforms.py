"""Transformations of images, as blocks (``mxnet.gluon.data.vision.transforms``).

Images are arrays (height, width, channel), of dtype uint8 or float32, until :class:`ToTensor` makes them (channel,
height, width) of float32. What they compute are the operators of ``nd.image``, and as symbols they become those.
Examples are transformed one by one, where to record operators would take longer than to compute: values are computed
with NumPy at once, unless a gradient is recorded or a network is captured.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .... import image
from ....core.base.dtypes import as_dtype
from ....core.base.errors import MXNetError, format_shape
from ....image.functions import pixels_of, returned
from ....image.resizing import resize
from ....ndarray.array import NDArray
from ...block import Block, HybridBlock
from ...nn import HybridSequential, Sequential
from . import chance
from .blocks import Arithmetic, OfPixels, Values, divided, is_plain
from .color_transforms import (
    RandomBrightness,
    RandomColorJitter,
    RandomContrast,
    RandomGray,
    RandomHue,
    RandomLighting,
    RandomSaturation,
)

__all__ = [
    "Cast",
    "CenterCrop",
    "Compose",
    "CropResize",
    "HybridCompose",
    "HybridRandomApply",
    "Normalize",
    "RandomApply",
    "RandomBrightness",
    "RandomColorJitter",
    "RandomContrast",
    "RandomCrop",
    "RandomFlipLeftRight",
    "RandomFlipTopBottom",
    "RandomGray",
    "RandomHue",
    "RandomLighting",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSaturation",
    "Resize",
    "Rotate",
    "ToTensor",
]


def _size(size: Any) -> tuple[int, int]:
    """Return (width, height), given both or one number for both."""
    if isinstance(size, (int, np.integer)):
        return int(size), int(size)
    if len(size) != 2:
        raise ValueError(f"a size is (width, height), or one number for both, not {size!r}")
    return int(size[0]), int(size[1])


def _check_image(name: str, shape: tuple[int, ...]) -> None:
    """Raise unless a shape is that of an image, or of a batch of them."""
    if len(shape) not in (3, 4):
        raise MXNetError(
            f"{name} takes an image (height, width, channel) or a batch of them, not shape {format_shape(shape)}"
        )


class _Function(Block):
    """A function, or anything else that can be called, as a block."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: Any) -> Any:
        """Return what the function returns."""
        return self._function(x)

    def __repr__(self) -> str:
        return repr(self._function)


class Compose(Sequential):
    """Transformations one after the other: blocks, functions, and other things that can be called.

    Hybrid blocks in a row are one child, a :class:`~phonograd.gluon.nn.HybridSequential`.

    >>> import phonograd as mx
    >>> Compose([Resize(8), ToTensor()])(mx.nd.zeros((4, 6, 3), dtype="uint8")).shape
    (3, 8, 8)
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        super().__init__()
        for are_hybrid, row in itertools.groupby(transforms, lambda each: isinstance(each, HybridBlock)):
            blocks: list[Any] = list(row)
            if are_hybrid and len(blocks) > 1:
                hybrid = HybridSequential()
                hybrid.add(*blocks)
                blocks = [hybrid]
            for block in blocks:
                if not callable(block):
                    raise TypeError(f"Compose takes blocks and functions, not {block!r}")
                self.add(block if isinstance(block, Block) else _Function(block))

    def forward(self, x: Any) -> Any:
        """Return the transformed image."""
        for step in self._steps():
            x = step(x)
        return x

    def _steps(self) -> Iterator[Any]:
        for block in self._children.values():
            # a call less for each image, where nobody would notice
            is_row = type(block) is HybridSequential and is_plain(block)
            yield from block._children.values() if is_row else (block,)

    def _divided(self) -> tuple[list[Any], list[Any]]:
        is_ours = is_plain(self) and type(self).forward is Compose.forward
        return divided(self._steps()) if is_ours else ([self], [])


class HybridCompose(HybridSequential):
    """Hybrid transformations one after the other."""

    def __init__(self, transforms: Sequence[HybridBlock]) -> None:
        super().__init__()
        for transform in transforms:
            if not isinstance(transform, HybridBlock):
                raise ValueError(f"HybridCompose takes hybrid blocks, not {type(transform).__name__}")
            self.add(transform)

    def _divided(self) -> tuple[list[Any], list[Any]]:
        is_ours = is_plain(self) and type(self).forward is HybridSequential.forward
        return divided(self._children.values()) if is_ours else ([self], [])


class Cast(Arithmetic):
    """Converts to a dtype."""

    def __init__(self, dtype: Any = "float32") -> None:
        super().__init__()
        self._dtype = dtype

    def _of(self, values: Values) -> Values:
        return values.astype(as_dtype(self._dtype))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the image in the dtype."""
        return F.cast(x, self._dtype)


class ToTensor(Arithmetic):
    """Makes (channel, height, width) of (height, width, channel), float32 with values divided by 255; also of batches.

    >>> import phonograd as mx
    >>> ToTensor()(mx.nd.full((1, 2, 1), 51, dtype="uint8"))
    <BLANKLINE>
    [[[0.2 0.2]]]
    <NDArray 1x1x2 @cpu(0)>
    """

    _axes = 3

    def __init__(self) -> None:
        super().__init__()

    def _of(self, values: Values) -> Values:
        _check_image("ToTensor", values.shape)
        tensor = values.transpose((2, 0, 1) if values.ndim == 3 else (0, 3, 1, 2)).astype(np.float32, order="C")
        tensor /= np.float32(255)
        return tensor

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the image with its channels in front."""
        return F.image.to_tensor(x)


class Normalize(Arithmetic):
    """Subtracts `mean` and divides by `std`, numbers or one for each channel, from images (channel, height, width)."""

    _axes = 3

    def __init__(self, mean: Any = 0.0, std: Any = 1.0) -> None:
        super().__init__()
        #: mean and deviation as arrays, by the dtype of images
        self._arrays: dict[np.dtype[Any], tuple[Values, Values]] = {}
        self._mean = tuple(np.atleast_1d(np.asarray(mean, np.float64)).tolist())
        self._std = tuple(np.atleast_1d(np.asarray(std, np.float64)).tolist())

    def _of(self, values: Values) -> Values:
        if values.dtype.kind != "f" or values.ndim not in (3, 4):
            raise MXNetError(
                f"Normalize takes floats (channel, height, width) or a batch, not {values.dtype} of shape "
                f"{values.shape}: apply ToTensor first"
            )
        for given in (self._mean, self._std):
            if len(given) not in (1, values.shape[-3]):
                raise MXNetError(f"Normalize has {len(given)} numbers for images with {values.shape[-3]} channels")
        if values.dtype not in self._arrays:
            mean, std = (np.array(given, values.dtype).reshape(-1, 1, 1) for given in (self._mean, self._std))
            self._arrays[values.dtype] = mean, std
        mean, std = self._arrays[values.dtype]
        normalized: Values = values - mean
        normalized /= std
        return normalized

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the normalized image."""
        return F.image.normalize(x, self._mean, self._std)


class Resize(OfPixels):
    """Gives images, or batches of them, another size.

    Parameters
    ----------
    size
        (width, height), or one number for both.
    keep_ratio
        Whether one number is the length of the shorter edge.
    interpolation
        See :func:`phonograd.image.imresize`.
    """

    def __init__(self, size: Any, keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        self._size, self._keep, self._interpolation = size, keep_ratio, interpolation

    def _of(self, x: NDArray) -> NDArray:
        _check_image("Resize", x.shape)
        width, height = _size(self._size)
        if self._keep and not isinstance(self._size, (tuple, list)):
            rows, columns = x.shape[-3:-1]
            if rows < columns:
                width = self._size * columns // rows
            else:
                height = self._size * rows // columns
        return returned(resize(pixels_of(x), width, height, self._interpolation))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the image of another size."""
        return F.image.resize(x, self._size, self._keep, self._interpolation)


class CropResize(OfPixels):
    """Takes the window with its left upper corner at (x, y), and gives it a size.

    Parameters
    ----------
    x, y, width, height
        The window.
    size
        (width, height) of the result, or one number for both; the window as it is if this is None.
    interpolation
        See :func:`phonograd.image.imresize`; bilinear if this is None.
    """

    def __init__(
        self, x: int, y: int, width: int, height: int, size: Any = None, interpolation: int | None = None
    ) -> None:
        super().__init__()
        self._window = x, y, width, height
        self._size = size
        self._interpolation = 1 if interpolation is None else interpolation

    def _of(self, x: NDArray) -> NDArray:
        _check_image("CropResize", x.shape)
        left, top, width, height = self._window
        rows, columns = x.shape[-3:-1]
        if left < 0 or top < 0 or left + width > columns or top + height > rows:
            raise MXNetError(f"the window (x, y, width, height) = {self._window} is not inside of {columns} x {rows}")
        window = pixels_of(x)[..., top : top + height, left : left + width, :]
        if self._size is None:
            return returned(window)
        return returned(resize(window, *_size(self._size), interp=self._interpolation))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the window."""
        window = F.image.crop(x, *self._window)
        return window if self._size is None else F.image.resize(window, self._size, False, self._interpolation)


class CenterCrop(Block):
    """Takes the middle of an image, of a size (width, height) or one number for both."""

    def __init__(self, size: Any, interpolation: int = 1) -> None:
        super().__init__()
        self._size, self._interpolation = _size(size), interpolation

    def forward(self, x: Any) -> Any:
        """Return the middle of an image."""
        return image.center_crop(x, self._size, self._interpolation)[0]


class RandomCrop(Block):
    """Takes a random part of an image.

    Parameters
    ----------
    size
        (width, height), or one number for both.
    pad
        How much to add around the image before: a number, (all), (vertical, horizontal), or ((top, bottom), (left,
        right)).
    pad_value
        With which value.
    interpolation
        See :func:`phonograd.image.imresize`; for images that are smaller than the crop.
    """

    def __init__(self, size: Any, pad: Any = None, pad_value: float = 0, interpolation: int = 1) -> None:
        super().__init__()
        self._size, self._interpolation = _size(size), interpolation
        self._pad_value = pad_value
        self._pad: tuple[tuple[int, int], ...] | None = None
        if pad is not None:
            sides = np.broadcast_to(np.asarray(pad).reshape(-1, 1) if np.ndim(pad) == 1 else np.asarray(pad), (2, 2))
            self._pad = tuple((int(before), int(after)) for before, after in sides)

    def forward(self, x: Any) -> Any:
        """Return a part of an image."""
        if self._pad is not None:
            x = np.pad(pixels_of(x), (*self._pad, (0, 0)), constant_values=self._pad_value)
        return image.random_crop(x, self._size, self._interpolation)[0]


class RandomResizedCrop(Block):
    """Takes a random part of an image of random size and proportions, and gives it a size.

    Parameters
    ----------
    size
        (width, height) of the result, or one number for both.
    scale
        (least, most) part of the image's area.
    ratio
        (least, most) ratio of width and height of the part.
    interpolation
        See :func:`phonograd.image.imresize`.
    """

    def __init__(
        self,
        size: Any,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: int = 1,
    ) -> None:
        super().__init__()
        self._args = _size(size), scale, ratio, interpolation

    def forward(self, x: Any) -> Any:
        """Return a part of an image."""
        return image.random_size_crop(x, *self._args)[0]


class RandomApply(Sequential):
    """Applies a transformation with a probability of `p`."""

    def __init__(self, transforms: Callable[[Any], Any], p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, x: Any) -> Any:
        """Return the image, transformed or not."""
        return x if self.p < random.random() else self.transforms(x)


class HybridRandomApply(RandomApply):
    """The same; a decision is made for each image, so it is never compiled."""


class _Flip(OfPixels):
    """Mirrors half of the images along an axis."""

    _axis = 0
    _operator: str

    def __init__(self) -> None:
        super().__init__()

    def _of(self, x: NDArray) -> NDArray:
        return returned(np.flip(pixels_of(x), self._axis)) if chance.uniform() < 0.5 else x

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the image, mirrored or not."""
        return getattr(F.image, self._operator)(x)


class RandomFlipLeftRight(_Flip):
    """Mirrors images left to right, with a probability of a half."""

    _axis = -2
    _operator = "random_flip_left_right"


class RandomFlipTopBottom(_Flip):
    """Mirrors images top to bottom, with a probability of a half."""

    _axis = -3
    _operator = "random_flip_top_bottom"


class Rotate(Block):
    """Turns images (channel, height, width) of float32 by an angle in degrees; see :func:`phonograd.image.imrotate`."""

    def __init__(self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False) -> None:
        super().__init__()
        self._args = rotation_degrees, zoom_in, zoom_out

    def forward(self, x: Any) -> Any:
        """Return the turned image."""
        _check_floats(x)
        return image.imrotate(x, *self._args)


class RandomRotation(Block):
    """Turns images (channel, height, width) of float32 by a random angle.

    Parameters
    ----------
    angle_limits
        (least, most) angle in degrees.
    zoom_in, zoom_out
        See :func:`phonograd.image.imrotate`.
    rotate_with_proba
        How probable it is that an image is turned at all.
    """

    def __init__(
        self,
        angle_limits: tuple[float, float],
        zoom_in: bool = False,
        zoom_out: bool = False,
        rotate_with_proba: float = 1.0,
    ) -> None:
        super().__init__()
        lower, upper = angle_limits
        if lower >= upper:
            raise ValueError("`angle_limits` must be an ordered tuple")
        if not 0 <= rotate_with_proba <= 1:
            raise ValueError("Probability of rotating the image should be between 0 and 1")
        self._args = angle_limits, zoom_in, zoom_out
        self._rotate_with_proba = rotate_with_proba

    def forward(self, x: Any) -> Any:
        """Return the image, turned or not."""
        if np.random.random() > self._rotate_with_proba:
            return x
        _check_floats(x)
        return image.random_rotate(x, *self._args)


def _check_floats(x: Any) -> None:
    if x.dtype is not np.float32:
        raise TypeError("This transformation only supports float32. Consider calling it after ToTensor")
