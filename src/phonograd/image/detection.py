"""Iterate over batches of images with bounding boxes of objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.base.docstrings import complete_classes
from ..core.base.errors import MXNetError
from .detection_augmenters import (
    CreateDetAugmenter,
    CreateMultiRandCropAugmenter,
    DetAugmenter,
    DetBorrowAug,
    DetHorizontalFlipAug,
    DetRandomCropAug,
    DetRandomPadAug,
    DetRandomSelectAug,
)
from .functions import Image, pixels_of
from .iterator import ImageIter, SkippedImage

__all__ = [
    "CreateDetAugmenter",
    "CreateMultiRandCropAugmenter",
    "DetAugmenter",
    "DetBorrowAug",
    "DetHorizontalFlipAug",
    "DetRandomCropAug",
    "DetRandomPadAug",
    "DetRandomSelectAug",
    "ImageDetIter",
]


class ImageDetIter(ImageIter):
    """Iterate over images, and labels of shape (example, object, 5 or more) of their objects.

    In files a label is one vector: the length of its header (2 or more), the numbers per object (5 or more), the rest
    of the header, and the objects one after another. An object has class, left, top, right and bottom, as fractions of
    the image's width and height. Labels are padded with -1. The iterator skips images without a valid object.

    Parameters
    ----------
    batch_size, data_shape, path_imgrec, path_imglist, path_root, path_imgidx, shuffle, part_index, num_parts, imglist
        See :class:`ImageIter`.
    aug_list
        The augmenters. None means those of :func:`CreateDetAugmenter` with `kwargs`.
    data_name, label_name
        The names of data and labels.
    last_batch_handle
        ``'pad'``, ``'discard'`` or ``'roll_over'``; see :class:`phonograd.io.NDArrayIter`.
    **kwargs
        Arguments of :func:`CreateDetAugmenter`.
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: tuple[int, int, int],
        path_imgrec: str | None = None,
        path_imglist: str | None = None,
        path_root: str | None = None,
        path_imgidx: str | None = None,
        shuffle: bool = False,
        part_index: int = 0,
        num_parts: int | None = 1,
        aug_list: Sequence[DetAugmenter] | None = None,
        imglist: Sequence[Any] | None = None,
        data_name: str = "data",
        label_name: str = "label",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ) -> None:
        self.det_auglist = CreateDetAugmenter(data_shape, **kwargs) if aug_list is None else list(aug_list)
        super().__init__(
            batch_size=batch_size,
            data_shape=data_shape,
            path_imgrec=path_imgrec,
            path_imglist=path_imglist,
            path_root=path_root,
            path_imgidx=path_imgidx,
            shuffle=shuffle,
            part_index=part_index,
            num_parts=num_parts,
            aug_list=[],
            imglist=imglist,
            data_name=data_name,
            label_name=label_name,
            last_batch_handle=last_batch_handle,
        )
        self.auglist = self.det_auglist  # type: ignore[assignment]
        self._label_name = label_name
        self.label_shape = self._estimate_label_shape()
        self.provide_label = [(label_name, (batch_size, *self.label_shape))]

    def _estimate_label_shape(self) -> tuple[int, int]:
        """Return the largest number of objects in an image, and of numbers in an object."""
        count, width = 0, 5
        reason: Exception | None = None
        self.reset()
        while True:
            try:
                label, _ = self.next_sample()
            except StopIteration:
                break
            try:
                objects = self._parse_label(label)
            except (RuntimeError, ValueError) as error:
                reason = error
                continue
            count, width = max(count, objects.shape[0]), max(width, objects.shape[1])
        self.reset()
        if reason is not None and count == 0:
            raise MXNetError(f"no image has a valid label: {reason}") from reason
        return count, width

    def _parse_label(self, label: Any) -> Image:
        """Return the valid objects of a label, one per row.

        Raises
        ------
        RuntimeError
            If there is none, or the label is no such vector.
        """
        raw = np.asarray(pixels_of(label), np.float32).reshape(-1)
        if raw.size < 7:
            raise RuntimeError(f"Label shape is invalid: {raw.shape}; it needs a header and an object")
        header, width = int(raw[0]), int(raw[1])
        if header < 2 or width < 5 or (raw.size - header) % width:
            raise RuntimeError(f"Label shape {raw.shape} inconsistent with annotation width {width}.")
        objects = raw[header:].reshape(-1, width)
        valid = (objects[:, 3] > objects[:, 1]) & (objects[:, 4] > objects[:, 2])
        if not valid.any():
            raise RuntimeError("Encounter sample with no valid label.")
        return objects[valid]

    def _augment(self, data: Any, label: Any) -> tuple[Any, Any]:
        try:
            image, objects = self.augmentation_transform(data, self._parse_label(label))
        except RuntimeError as error:
            raise SkippedImage(str(error)) from error
        if not len(objects):
            raise SkippedImage("no object remains after augmentation")
        return image, objects

    def augmentation_transform(self, data: Any, label: Any = None) -> tuple[Any, Any]:
        """Return an image and its label after all augmenters."""
        for augmenter in self.det_auglist:
            data, label = augmenter(data, label)
        return data, label

    def _collate_labels(self, labels: list[Any]) -> Image:
        batch = np.full((len(labels), *self.label_shape), -1, np.float32)
        for place, objects in enumerate(labels):
            count = min(len(objects), self.label_shape[0])
            batch[place, :count, : objects.shape[1]] = objects[:count]
        return batch

    def reshape(
        self, data_shape: tuple[int, int, int] | None = None, label_shape: tuple[int, int] | None = None
    ) -> None:
        """Change the shape of images, or make room for more objects in labels."""
        if data_shape is not None:
            self.check_data_shape(data_shape)
            self.provide_data = [(self.provide_data[0][0], (self.batch_size, *data_shape))]
            self.data_shape = tuple(data_shape)
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self.provide_label = [(self._label_name, (self.batch_size, *label_shape))]
            self.label_shape = (label_shape[0], label_shape[1])

    def check_label_shape(self, label_shape: Sequence[int]) -> None:
        """Raise unless a shape of labels has room for those of this iterator."""
        if len(label_shape) != 2:
            raise ValueError("label_shape should have length 2")
        if label_shape[0] < self.label_shape[0]:
            raise ValueError(
                f"Attempts to reduce label count from {self.label_shape[0]} to {label_shape[0]}, not allowed."
            )
        if label_shape[1] != self.provide_label[0][1][2]:
            raise ValueError(
                f"label_shape object width inconsistent: {self.provide_label[0][1][2]} vs. {label_shape[1]}."
            )

    def sync_label_shape(self, it: ImageDetIter, verbose: bool = False) -> ImageDetIter:
        """Give this iterator and another one the larger shape of labels; return the other one."""
        if not isinstance(it, ImageDetIter):
            raise TypeError("Synchronize with invalid iterator.")
        if self.label_shape[1] != it.label_shape[1]:
            raise ValueError(f"objects have {self.label_shape[1]} and {it.label_shape[1]} numbers, which must be equal")
        common = max(self.label_shape[0], it.label_shape[0]), self.label_shape[1]
        for iterator in (self, it):
            if iterator.label_shape[0] < common[0]:
                iterator.reshape(None, common)
        return it

    def draw_next(
        self,
        color: Any = None,
        thickness: int = 2,
        mean: Any = None,
        std: Any = None,
        clip: bool = True,
        waitKey: Any = None,  # noqa: N803
        window_name: str = "draw_next",
        id2labels: Any = None,
    ) -> Iterator[Image]:
        """Yield augmented images of shape (height, width, channel) with bounding boxes drawn.

        Parameters
        ----------
        color
            The color of boxes. None draws each in a random color.
        thickness
            The width of lines in pixels.
        mean, std
            The numbers that were subtracted from images, and by which they were divided; True for those of ImageNet.
        clip
            Whether to clip colors to [0, 255].
        waitKey, window_name, id2labels
            MXNet's options for windows and captions; this function opens no windows.
        """
        if waitKey is not None:
            raise NotImplementedError("draw_next opens no windows: save or show the images that it yields")
        generator = np.random.default_rng(0)
        while True:
            try:
                data, objects = self._sample()
            except StopIteration:
                return
            image = pixels_of(data).transpose(1, 2, 0).astype(np.float32)
            if std is not None:
                image = image * np.array([58.395, 57.12, 57.375] if std is True else std, np.float32)
            if mean is not None:
                image = image + np.array([123.68, 116.28, 103.53] if mean is True else mean, np.float32)
            if clip:
                image = np.clip(image, 0, 255)
            for box in objects:
                _draw(image, box[1:5], generator.integers(0, 256, 3) if color is None else color, thickness)
            yield image


def _draw(image: Image, box: Image, color: Any, thickness: int) -> None:
    """Draw the outline of a box into an image."""
    height, width = image.shape[:2]
    left, top, right, bottom = (int(edge) for edge in np.round(box * [width, height, width, height]))
    for rows, columns in (
        (slice(max(top, 0), top + thickness), slice(max(left, 0), right)),
        (slice(max(bottom - thickness, 0), bottom), slice(max(left, 0), right)),
        (slice(max(top, 0), bottom), slice(max(left, 0), left + thickness)),
        (slice(max(top, 0), bottom), slice(max(right - thickness, 0), right)),
    ):
        image[rows, columns] = color


complete_classes(globals())
