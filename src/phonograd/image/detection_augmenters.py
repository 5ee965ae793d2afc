"""Augment images together with the bounding boxes of their objects.

A label is an array of shape (objects, 5 or more): class, left, top, right, bottom, as fractions of the image's width
and height, and optional further numbers.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.base.docstrings import complete_classes
from ..core.ops.vision.image_colors import EIGENVALUES, EIGENVECTORS
from .augmenters import (
    Augmenter,
    CastAug,
    ColorJitterAug,
    ColorNormalizeAug,
    ForceResizeAug,
    HueJitterAug,
    LightingAug,
    RandomGrayAug,
    ResizeAug,
    color_statistics,
    plain_argument,
)
from .functions import Image, copyMakeBorder, fixed_crop, pixels_of, to_array

__all__ = [
    "CreateDetAugmenter",
    "CreateMultiRandCropAugmenter",
    "DetAugmenter",
    "DetBorrowAug",
    "DetHorizontalFlipAug",
    "DetRandomCropAug",
    "DetRandomPadAug",
    "DetRandomSelectAug",
]

#: (left, top, width, height) in pixels
Window = tuple[int, int, int, int]


class DetAugmenter:
    """Base class of augmenters for detection: callables that take an image and a label, and return both.

    :meth:`dumps` returns the keyword arguments.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = {name: plain_argument(value) for name, value in kwargs.items()}

    def dumps(self) -> Any:
        """Return the name and arguments as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: Any, label: Image) -> tuple[Any, Image]:
        raise NotImplementedError(f"{type(self).__name__} has no __call__(self, src, label)")


class DetBorrowAug(DetAugmenter):
    """Apply an augmenter of images that does not move objects, and keep the labels."""

    def __init__(self, augmenter: Augmenter) -> None:
        if not isinstance(augmenter, Augmenter):
            raise TypeError("Borrowing from invalid Augmenter")
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def dumps(self) -> Any:
        """Return the name, and the JSON of the augmenter."""
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src: Any, label: Image) -> tuple[Any, Image]:
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """Apply one of several augmenters at random, or none with probability `skip_prob`."""

    def __init__(self, aug_list: Sequence[DetAugmenter] | DetAugmenter, skip_prob: float = 0) -> None:
        super().__init__(skip_prob=skip_prob)
        parts = list(aug_list) if isinstance(aug_list, (list, tuple)) else [aug_list]
        for part in parts:
            if not isinstance(part, DetAugmenter):
                raise ValueError("Allow DetAugmenter in list only")
        self.aug_list: list[Any] = parts
        self.skip_prob = skip_prob if parts else 1

    def dumps(self) -> Any:
        """Return the name, and the JSON of all parts."""
        return [type(self).__name__.lower(), [part.dumps() for part in self.aug_list]]

    def __call__(self, src: Any, label: Image) -> tuple[Any, Image]:
        if random.random() < self.skip_prob:
            return src, label
        chosen: tuple[Any, Image] = random.choice(self.aug_list)(src, label)
        return chosen


class DetHorizontalFlipAug(DetAugmenter):
    """Flip images and boxes left to right with probability `p`."""

    def __init__(self, p: float) -> None:
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: Any, label: Image) -> tuple[Any, Image]:
        if random.random() >= self.p:
            return src, label
        mirrored = label.copy()
        mirrored[:, 1], mirrored[:, 3] = 1.0 - label[:, 3], 1.0 - label[:, 1]
        return to_array(pixels_of(src)[:, ::-1]), mirrored


def _limits(name: str, given: Any) -> tuple[float, float]:
    """Return (smallest, largest) from a pair, or from one number for both."""
    least, most = (given, given) if isinstance(given, (int, float)) else given
    if not 0 <= least <= most:
        raise ValueError(f"{name} must be (smallest, largest), two numbers that are not negative, not {given}")
    return float(least), float(most)


#: added before a quotient is truncated, so that the rounded width stays within its limit
_NEARLY_HALF = 0.4999999
#: the smallest border, in rows and columns
_LEAST_BORDER = 2
_LEAST_PIXELS = 2


def _draw_height(lowest: int, highest: int) -> int:
    """Return a random height between two limits; the highest if the limits are in the wrong order."""
    return random.randint(lowest, highest) if lowest < highest else highest


class DetRandomCropAug(DetAugmenter):
    """Crop a random window that contains enough of the objects, or keep the image if no attempt finds one.

    Parameters
    ----------
    min_object_covered
        The fraction of every object in the window that must be inside it.
    aspect_ratio_range
        The (smallest, largest) aspect ratio of the window, width divided by height.
    area_range
        The (smallest, largest) fraction of the image's area.
    min_eject_coverage
        The fraction of an object inside the window below which it is dropped.
    max_attempts
        The number of windows to try.
    """

    def __init__(
        self,
        min_object_covered: float = 0.1,
        aspect_ratio_range: Any = (0.75, 1.33),
        area_range: Any = (0.05, 1.0),
        min_eject_coverage: float = 0.3,
        max_attempts: int = 50,
    ) -> None:
        super().__init__(
            min_object_covered=min_object_covered,
            aspect_ratio_range=(
                aspect_ratio_range
                if isinstance(aspect_ratio_range, (list, tuple))
                else (aspect_ratio_range, aspect_ratio_range)
            ),
            area_range=area_range if isinstance(area_range, (list, tuple)) else (area_range, 1.0),
            min_eject_coverage=min_eject_coverage,
            max_attempts=max_attempts,
        )
        self.min_object_covered = min_object_covered
        self.min_eject_coverage = min_eject_coverage
        self.max_attempts = max_attempts
        self.aspect_ratio_range = _limits("aspect_ratio_range", self._kwargs["aspect_ratio_range"])
        self.area_range = _limits("area_range", self._kwargs["area_range"])
        self.enabled = self.area_range[1] > 0 and self.area_range[0] <= 1 and self.aspect_ratio_range[0] > 0
        if not self.enabled:
            logging.warning("Skip DetRandomCropAug due to invalid area_range or aspect_ratio_range: %s", self._kwargs)

    def __call__(self, src: Any, label: Image) -> tuple[Any, Image]:
        height, width = src.shape[:2]
        found = self._proposal(label, height, width)
        if found is None:
            return src, label
        (left, top, new_width, new_height), inside = found
        return fixed_crop(src, left, top, new_width, new_height), inside

    def _proposal(self, label: Image, height: int, width: int) -> tuple[Window, Image] | None:
        """Return a window and the label in it, or None if no attempt finds one."""
        if not self.enabled or height < 1 or width < 1:
            return None
        for _ in range(self.max_attempts):
            new_width, new_height = self._size(height, width)
            if not (0 < new_width <= width and 0 < new_height <= height):
                continue
            top, left = random.randint(0, height - new_height), random.randint(0, width - new_width)
            # objects of one or two pixels do not count
            counts = np.prod(np.maximum(label[:, 3:5] - label[:, 1:3], 0), 1) * (width * height) > _LEAST_PIXELS
            inside = self._label_in_window(
                label, counts, left / width, top / height, new_width / width, new_height / height
            )
            if inside is not None:
                return (left, top, new_width, new_height), inside
        return None

    def _size(self, height: int, width: int) -> tuple[int, int]:
        """Return (width, height) of a window with random aspect ratio and height; (0, 0) if none fits."""
        ratio = random.uniform(*self.aspect_ratio_range)
        least, most = (part * height * width for part in (self.area_range[0], min(self.area_range[1], 1.0)))
        highest = round((most / ratio) ** 0.5)
        if round(highest * ratio) > width:
            highest = int((width + _NEARLY_HALF) / ratio)
        new_height = _draw_height(round((least / ratio) ** 0.5), min(highest, height))
        # rounding may miss the limits by one row
        new_height += round(new_height * ratio) * new_height < least
        new_height -= round(new_height * ratio) * new_height > most
        new_width = round(new_height * ratio)
        return (new_width, new_height) if least <= new_width * new_height <= most else (0, 0)

    def _label_in_window(
        self, label: Image, counts: Image, left: float, top: float, width: float, height: float
    ) -> Image | None:
        """Return the label of a window, or None if it contains too little of the objects that count."""
        corner = np.array([left, top], label.dtype)
        size = np.array([width, height], label.dtype)
        low, high = np.maximum(label[:, 1:3], corner), np.minimum(label[:, 3:5], corner + size)
        common = np.prod(np.maximum(high - low, 0), 1)
        whole = np.prod(np.maximum(label[:, 3:5] - label[:, 1:3], 0), 1)
        covered = np.divide(common, whole, out=np.zeros_like(common), where=whole > 0)
        seen = covered[(covered > 0) & counts]
        if not seen.size or seen.min() < self.min_object_covered:
            return None
        kept = covered > self.min_eject_coverage
        if not kept.any():
            return None
        inside: Image = label[kept].copy()
        inside[:, 1:3] = np.clip((label[kept, 1:3] - corner) / size, 0, 1)
        inside[:, 3:5] = np.clip((label[kept, 3:5] - corner) / size, 0, 1)
        return inside


class DetRandomPadAug(DetAugmenter):
    """Place an image at a random position in a larger one.

    Parameters
    ----------
    aspect_ratio_range
        The (smallest, largest) aspect ratio of the larger image, width divided by height.
    area_range
        The (smallest, largest) area, as a multiple of the image's area.
    max_attempts
        The number of sizes to try.
    pad_val
        The color of the border, one number for each channel.
    """

    def __init__(
        self,
        aspect_ratio_range: Any = (0.75, 1.33),
        area_range: Any = (1.0, 3.0),
        max_attempts: int = 50,
        pad_val: Any = (128, 128, 128),
    ) -> None:
        color = pad_val if isinstance(pad_val, (list, tuple)) else (pad_val,)
        super().__init__(
            aspect_ratio_range=(
                aspect_ratio_range
                if isinstance(aspect_ratio_range, (list, tuple))
                else (aspect_ratio_range, aspect_ratio_range)
            ),
            area_range=area_range if isinstance(area_range, (list, tuple)) else (area_range, area_range),
            max_attempts=max_attempts,
            pad_val=color,
        )
        self.pad_val = tuple(color)
        self.max_attempts = max_attempts
        self.aspect_ratio_range = _limits("aspect_ratio_range", self._kwargs["aspect_ratio_range"])
        self.area_range = _limits("area_range", self._kwargs["area_range"])
        self.enabled = self.area_range[1] > 1 and self.aspect_ratio_range[0] > 0
        if not self.enabled:
            logging.warning("Skip DetRandomPadAug due to invalid parameters: %s", self._kwargs)

    def __call__(self, src: Any, label: Image) -> tuple[Any, Image]:
        height, width, channels = src.shape
        found = self._proposal(height, width)
        if found is None:
            return src, label
        left, top, new_width, new_height = found
        color = self.pad_val * channels if len(self.pad_val) == 1 else self.pad_val
        larger = copyMakeBorder(
            src, top, new_height - top - height, left, new_width - left - width, 0, values=color[:channels]
        )
        moved = label.copy()
        moved[:, 1:5:2] = (label[:, 1:5:2] * width + left) / new_width
        moved[:, 2:5:2] = (label[:, 2:5:2] * height + top) / new_height
        return larger, moved

    def _proposal(self, height: int, width: int) -> Window | None:
        """Return the position of the image and the size of the larger one; None if no attempt finds a size."""
        if not self.enabled or height < 1 or width < 1:
            return None
        for _ in range(self.max_attempts):
            ratio = random.uniform(*self.aspect_ratio_range)
            least, most = (part * height * width for part in self.area_range)
            lowest = round((least / ratio) ** 0.5)
            if round(lowest * ratio) < width:
                lowest = int((width + _NEARLY_HALF) / ratio)
            new_height = _draw_height(max(lowest, height), round((most / ratio) ** 0.5))
            new_width = round(new_height * ratio)
            if new_height - height >= _LEAST_BORDER and new_width - width >= _LEAST_BORDER:
                top, left = random.randint(0, new_height - height), random.randint(0, new_width - width)
                return left, top, new_width, new_height
        return None


def CreateMultiRandCropAugmenter(  # noqa: N802
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 1.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50,
    skip_prob: float = 0,
) -> DetRandomSelectAug:
    """Return a random choice of several random crops; each argument may be a list with one entry per crop.

    Parameters
    ----------
    min_object_covered
        The smallest part of an object that a crop must cover.
    aspect_ratio_range
        The smallest and the largest ratio of width and height.
    area_range
        The smallest and the largest area, as parts of the image.
    min_eject_coverage
        Objects of which a crop covers less than this part are dropped.
    max_attempts
        How many crops are tried for each image; then it stays as it is.
    skip_prob
        The probability of no crop.

    Examples
    --------
    >>> crop = mx.image.CreateMultiRandCropAugmenter(min_object_covered=[0.1, 0.5, 0.9], skip_prob=0)
    >>> len(crop.aug_list)
    3
    >>> label = mx.nd.array([[0, 0.2, 0.2, 0.8, 0.8]]).asnumpy()
    >>> image, label = crop(mx.nd.zeros((40, 40, 3)), label)
    >>> label.shape
    (1, 5)
    """
    given = (min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts)
    lists = [list(value) if isinstance(value, list) else [value] for value in given]
    count = max(len(entries) for entries in lists)
    for entries in lists:
        if len(entries) not in (1, count):
            raise ValueError(f"lists of arguments must have equal lengths, not {len(entries)} and {count}")
    columns = [entries * count if len(entries) == 1 else entries for entries in lists]
    return DetRandomSelectAug([DetRandomCropAug(*row) for row in zip(*columns, strict=True)], skip_prob)


def CreateDetAugmenter(  # noqa: N802
    data_shape: tuple[int, int, int],
    resize: int = 0,
    rand_crop: float = 0,
    rand_pad: float = 0,
    rand_gray: float = 0,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    pca_noise: float = 0,
    hue: float = 0,
    inter_method: int = 2,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 3.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50,
    pad_val: Any = (127, 127, 127),
) -> list[DetAugmenter]:
    """Return the standard augmenters for detection in their standard order.

    Parameters
    ----------
    data_shape
        The (channels, height, width) of the results.
    resize
        The length of the shorter edge before all other steps; 0 keeps the size.
    rand_crop, rand_pad, rand_gray
        The probability of each step.
    rand_mirror
        Whether to flip half of the images left to right.
    mean, std
        The numbers to subtract and to divide by, one for each channel; True for those of ImageNet.
    brightness, contrast, saturation, pca_noise, hue
        The strengths of the color changes.
    inter_method
        The interpolation method; see :func:`imresize`.
    min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts
        See :class:`DetRandomCropAug`. The upper limit of `area_range` also applies to :class:`DetRandomPadAug`.
    pad_val
        The color around padded images.

    Examples
    --------
    >>> steps = mx.image.CreateDetAugmenter((3, 16, 16), rand_crop=0.5, rand_mirror=True, mean=True)
    >>> [type(step).__name__ for step in steps]
    ['DetRandomSelectAug', 'DetHorizontalFlipAug', 'DetBorrowAug', 'DetBorrowAug', 'DetBorrowAug']
    >>> image, label = mx.nd.zeros((40, 40, 3)), mx.nd.array([[0, 0.2, 0.2, 0.8, 0.8]]).asnumpy()
    >>> for step in steps:
    ...     image, label = step(image, label)
    >>> image.shape, label.shape
    ((16, 16, 3), (1, 5))
    """
    result: list[DetAugmenter] = []
    if resize > 0:
        result.append(DetBorrowAug(ResizeAug(resize, inter_method)))
    if rand_crop > 0:
        result.append(
            CreateMultiRandCropAugmenter(
                min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts, 1 - rand_crop
            )
        )
    if rand_mirror:
        result.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        padding = DetRandomPadAug(aspect_ratio_range, (1.0, area_range[1]), max_attempts, pad_val)
        result.append(DetRandomSelectAug([padding], 1 - rand_pad))
    borrowed: list[Augmenter] = [ForceResizeAug((data_shape[2], data_shape[1]), inter_method), CastAug()]
    if brightness or contrast or saturation:
        borrowed.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        borrowed.append(HueJitterAug(hue))
    if pca_noise > 0:
        borrowed.append(LightingAug(pca_noise, EIGENVALUES, EIGENVECTORS))
    if rand_gray > 0:
        borrowed.append(RandomGrayAug(rand_gray))
    mean, std = color_statistics(mean, std)
    if mean is not None or std is not None:
        borrowed.append(ColorNormalizeAug(mean, std))
    return result + [DetBorrowAug(part) for part in borrowed]


complete_classes(globals())
