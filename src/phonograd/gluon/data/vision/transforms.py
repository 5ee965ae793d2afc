"""Provide transformations of images as blocks (``mxnet.gluon.data.vision.transforms``).

Images are arrays of shape (height, width, channel) and dtype uint8 or float32. :class:`ToTensor` turns them into
float32 arrays of shape (channel, height, width). The transformations compute the operators of ``nd.image``, and with
symbols they become these operators. For a single example, recording operators takes longer than computing them. Blocks
therefore compute with NumPy at once, unless autograd records or a network is captured.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .... import image
from ....core.base.docstrings import complete_classes
from ....core.base.dtypes import as_dtype
from ....core.base.errors import MXNetError, format_shape
from ....image.functions import pixels_of, to_array
from ....image.resizing import resize
from ....ndarray.array import NDArray
from ...block import Block, HybridBlock
from ...nn import HybridSequential, Sequential
from . import chance
from .blocks import ElementwiseTransform, PixelTransform, Values, is_plain, split_steps
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
    """Return (width, height) from such a pair or from one number for both."""
    if isinstance(size, (int, np.integer)):
        return int(size), int(size)
    if len(size) != 2:
        raise ValueError(f"a size is (width, height) or one number for both, not {size!r}")
    return int(size[0]), int(size[1])


def _check_image(name: str, shape: tuple[int, ...]) -> None:
    """Raise unless a shape is that of an image or of a batch of images."""
    if len(shape) not in (3, 4):
        raise MXNetError(
            f"{name} takes an image (height, width, channel) or a batch of them, not shape {format_shape(shape)}"
        )


class _Function(Block):
    """Wrap a function or another callable as a block."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: Any) -> Any:
        """Return the result of the function."""
        return self._function(x)

    def __repr__(self) -> str:
        return repr(self._function)


class Compose(Sequential):
    """Apply transformations one after another: blocks, functions, and other callables.

    Consecutive hybrid blocks become one child, a :class:`~phonograd.gluon.nn.HybridSequential`.

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
            # skip the container's own call, which costs time for each image
            is_row = type(block) is HybridSequential and is_plain(block)
            yield from block._children.values() if is_row else (block,)

    def _split_steps(self) -> tuple[list[Any], list[Any]]:
        is_ours = is_plain(self) and type(self).forward is Compose.forward
        return split_steps(self._steps()) if is_ours else ([self], [])


class HybridCompose(HybridSequential):
    """Apply hybrid transformations one after another."""

    def __init__(self, transforms: Sequence[HybridBlock]) -> None:
        super().__init__()
        for transform in transforms:
            if not isinstance(transform, HybridBlock):
                raise ValueError(f"HybridCompose takes hybrid blocks, not {type(transform).__name__}")
            self.add(transform)

    def _split_steps(self) -> tuple[list[Any], list[Any]]:
        is_ours = is_plain(self) and type(self).forward is HybridSequential.forward
        return split_steps(self._children.values()) if is_ours else ([self], [])


class Cast(ElementwiseTransform):
    """Convert images to a dtype."""

    def __init__(self, dtype: Any = "float32") -> None:
        super().__init__()
        self._dtype = dtype

    def _transform(self, values: Values) -> Values:
        return values.astype(as_dtype(self._dtype))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the image in the dtype."""
        return F.cast(x, self._dtype)


class ToTensor(ElementwiseTransform):
    """Convert images of shape (height, width, channel) to float32 of shape (channel, height, width), divided by 255.

    Batches of images work, too.

    >>> import phonograd as mx
    >>> ToTensor()(mx.nd.full((1, 2, 1), 51, dtype="uint8"))
    <BLANKLINE>
    [[[0.2 0.2]]]
    <NDArray 1x1x2 @cpu(0)>
    """

    _axes = 3

    def __init__(self) -> None:
        super().__init__()

    def _transform(self, values: Values) -> Values:
        _check_image("ToTensor", values.shape)
        tensor = values.transpose((2, 0, 1) if values.ndim == 3 else (0, 3, 1, 2)).astype(np.float32, order="C")
        tensor /= np.float32(255)
        return tensor

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the image with channels first, divided by 255."""
        return F.image.to_tensor(x)


class Normalize(ElementwiseTransform):
    """Subtract `mean` from images of shape (channel, height, width), then divide by `std`.

    `mean` and `std` are numbers, or one number for each channel.
    """

    _axes = 3

    def __init__(self, mean: Any = 0.0, std: Any = 1.0) -> None:
        super().__init__()
        #: mean and standard deviation as arrays, by the dtype of images
        self._arrays: dict[np.dtype[Any], tuple[Values, Values]] = {}
        self._mean = tuple(np.atleast_1d(np.asarray(mean, np.float64)).tolist())
        self._std = tuple(np.atleast_1d(np.asarray(std, np.float64)).tolist())

    def _transform(self, values: Values) -> Values:
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


class Resize(PixelTransform):
    """Resize images or batches of images.

    Parameters
    ----------
    size
        (width, height), or one number for both.
    keep_ratio
        Whether a single number is the length of the shorter edge.
    interpolation
        See :func:`phonograd.image.imresize`.
    """

    def __init__(self, size: Any, keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__()
        self._size, self._keep, self._interpolation = size, keep_ratio, interpolation

    def _transform(self, x: NDArray) -> NDArray:
        _check_image("Resize", x.shape)
        width, height = _size(self._size)
        if self._keep and not isinstance(self._size, (tuple, list)):
            rows, columns = x.shape[-3:-1]
            if rows < columns:
                width = self._size * columns // rows
            else:
                height = self._size * rows // columns
        return to_array(resize(pixels_of(x), width, height, self._interpolation))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the resized image."""
        return F.image.resize(x, self._size, self._keep, self._interpolation)


class CropResize(PixelTransform):
    """Crop the window with its upper left corner at (x, y), then resize it.

    Parameters
    ----------
    x, y, width, height
        The position and size of the window.
    size
        The (width, height) of the result, or one number for both. None keeps the size of the window.
    interpolation
        See :func:`phonograd.image.imresize`. None means bilinear.
    """

    def __init__(
        self, x: int, y: int, width: int, height: int, size: Any = None, interpolation: int | None = None
    ) -> None:
        super().__init__()
        self._window = x, y, width, height
        self._size = size
        self._interpolation = 1 if interpolation is None else interpolation

    def _transform(self, x: NDArray) -> NDArray:
        _check_image("CropResize", x.shape)
        left, top, width, height = self._window
        rows, columns = x.shape[-3:-1]
        if left < 0 or top < 0 or left + width > columns or top + height > rows:
            raise MXNetError(f"the window (x, y, width, height) = {self._window} is not inside of {columns} x {rows}")
        window = pixels_of(x)[..., top : top + height, left : left + width, :]
        if self._size is None:
            return to_array(window)
        return to_array(resize(window, *_size(self._size), interp=self._interpolation))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the resized window."""
        window = F.image.crop(x, *self._window)
        return window if self._size is None else F.image.resize(window, self._size, False, self._interpolation)


class CenterCrop(Block):
    """Crop the center of an image; `size` is (width, height), or one number for both."""

    def __init__(self, size: Any, interpolation: int = 1) -> None:
        super().__init__()
        self._size, self._interpolation = _size(size), interpolation

    def forward(self, x: Any) -> Any:
        """Return the center of an image."""
        return image.center_crop(x, self._size, self._interpolation)[0]


class RandomCrop(Block):
    """Crop a random window of an image.

    Parameters
    ----------
    size
        (width, height), or one number for both.
    pad
        The padding around the image before the crop: a number, (all), (vertical, horizontal), or ((top, bottom), (left,
        right)).
    pad_value
        The value of the padding.
    interpolation
        See :func:`phonograd.image.imresize`; for images smaller than the crop.
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
        """Return a random window of an image."""
        if self._pad is not None:
            x = np.pad(pixels_of(x), (*self._pad, (0, 0)), constant_values=self._pad_value)
        return image.random_crop(x, self._size, self._interpolation)[0]


class RandomResizedCrop(Block):
    """Crop a window of random size and aspect ratio, then resize it.

    Parameters
    ----------
    size
        The (width, height) of the result, or one number for both.
    scale
        The (smallest, largest) fraction of the area of the image.
    ratio
        The (smallest, largest) aspect ratio, width divided by height.
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
        """Return a resized random window of an image."""
        return image.random_size_crop(x, *self._args)[0]


class RandomApply(Sequential):
    """Apply a transformation with probability `p`."""

    def __init__(self, transforms: Callable[[Any], Any], p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, x: Any) -> Any:
        """Return the image, transformed or not."""
        return x if self.p < random.random() else self.transforms(x)


class HybridRandomApply(RandomApply):
    """Apply a transformation with probability `p`; a block that draws for each image, so it is never compiled."""


class _Flip(PixelTransform):
    """Flip half of the images along an axis."""

    _axis = 0
    _operator: str

    def __init__(self) -> None:
        super().__init__()

    def _transform(self, x: NDArray) -> NDArray:
        return to_array(np.flip(pixels_of(x), self._axis)) if chance.uniform() < 0.5 else x

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the image, flipped or not."""
        return getattr(F.image, self._operator)(x)


class RandomFlipLeftRight(_Flip):
    """Flip images left to right with probability 0.5."""

    _axis = -2
    _operator = "random_flip_left_right"


class RandomFlipTopBottom(_Flip):
    """Flip images top to bottom with probability 0.5."""

    _axis = -3
    _operator = "random_flip_top_bottom"


class Rotate(Block):
    """Rotate float32 images of shape (channel, height, width) by an angle in degrees.

    See :func:`phonograd.image.imrotate`.
    """

    def __init__(self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False) -> None:
        super().__init__()
        self._args = rotation_degrees, zoom_in, zoom_out

    def forward(self, x: Any) -> Any:
        """Return the rotated image."""
        _check_floats(x)
        return image.imrotate(x, *self._args)


class RandomRotation(Block):
    """Rotate float32 images of shape (channel, height, width) by a random angle.

    Parameters
    ----------
    angle_limits
        The (smallest, largest) angle in degrees.
    zoom_in, zoom_out
        See :func:`phonograd.image.imrotate`.
    rotate_with_proba
        The probability of a rotation.
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
        """Return the image, rotated or not."""
        if np.random.random() > self._rotate_with_proba:
            return x
        _check_floats(x)
        return image.random_rotate(x, *self._args)


def _check_floats(x: Any) -> None:
    if x.dtype is not np.float32:
        raise TypeError("This transformation only supports float32. Consider calling it after ToTensor")


complete_classes(globals())
