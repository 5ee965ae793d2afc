"""Iterate over batches of images from record files, lists and directories."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import recordio
from ..core.base.devices import CPU
from ..core.base.docstrings import complete_classes
from ..core.base.dtypes import DType, as_dtype
from ..core.base.errors import MXNetError
from ..io.iteration import DataBatch, DataIter
from ..io.rounds import choose_part, part_of
from ..ndarray.array import NDArray, concrete
from ..ndarray.semantics import of_chosen_kind
from .augmenters import Augmenter, CreateAugmenter
from .functions import imdecode, pixels_of
from .lists import read_list

__all__ = ["ImageIter", "SkippedImage"]

Values = np.ndarray[Any, Any]
_HANDLES = ("pad", "discard", "roll_over")


class SkippedImage(RuntimeError):
    """Report that the iterator skips an image."""


class ImageIter(DataIter):
    """Iterate over augmented images in batches of shape (example, channel, height, width).

    An image that cannot be decoded raises an error with its file name or number.

    Parameters
    ----------
    batch_size
        The number of images in a batch.
    data_shape
        The (channels, height, width) of an image.
    label_width
        The number of labels of an image.
    path_imgrec
        A record file of images.
    path_imglist
        A list of images; see :mod:`phonograd.image.lists`.
    path_root
        The directory of the images in a list.
    path_imgidx
        The index of the record file, which shuffling and division into parts require.
    shuffle
        Whether to use a new random order in each pass.
    part_index, num_parts
        The part of the images to use, and the number of parts. With ``num_parts=None``, each process that trains with
        others uses its part.
    aug_list
        The augmenters. None means those of :func:`CreateAugmenter` with `kwargs`.
    imglist
        A list of images in memory: ``[label, path]`` for each.
    data_name, label_name
        The names of data and labels.
    dtype
        The dtype to which labels of a list are converted: ``'int32'``, ``'int64'``, ``'float32'`` or ``'float64'``.
        Batches have dtype float32.
    last_batch_handle
        ``'pad'``, ``'discard'`` or ``'roll_over'``; see :class:`phonograd.io.NDArrayIter`.
    **kwargs
        Arguments of :func:`CreateAugmenter`.
    """

    def __init__(
        self,
        batch_size: int,
        data_shape: tuple[int, int, int],
        label_width: int = 1,
        path_imgrec: str | None = None,
        path_imglist: str | None = None,
        path_root: str | None = None,
        path_imgidx: str | None = None,
        shuffle: bool = False,
        part_index: int = 0,
        num_parts: int | None = 1,
        aug_list: Sequence[Augmenter] | None = None,
        imglist: Sequence[Any] | None = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: Any = "float32",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ) -> None:
        super().__init__(batch_size)
        assert path_imgrec or path_imglist or isinstance(imglist, list), (
            "one of path_imgrec, path_imglist and imglist is required"
        )
        if last_batch_handle not in _HANDLES:
            raise ValueError(f"last_batch_handle must be one of {', '.join(_HANDLES)}, not {last_batch_handle!r}")
        self.check_data_shape(data_shape)
        self.data_shape = tuple(data_shape)
        self.label_width = label_width
        self.path_root = path_root or ""
        self.shuffle = shuffle
        self.dtype = as_dtype(dtype)
        assert self.dtype.name in ("int32", "int64", "float32", "float64"), f"{dtype} label not supported"
        self.last_batch_handle = last_batch_handle
        self.auglist = CreateAugmenter(self.data_shape, **kwargs) if aug_list is None else list(aug_list)  # type: ignore[arg-type]
        self.provide_data = [(data_name, (batch_size, *self.data_shape))]
        self.provide_label: list[tuple[str, tuple[int, ...]]] = [
            (label_name, (batch_size, label_width) if label_width > 1 else (batch_size,))
        ]
        self.imglist = _make_image_list(path_imglist, imglist, self.dtype)
        self.imgrec: recordio.MXRecordIO | None = None
        self.seq: list[Any] | None = None
        num_parts, part_index = choose_part(num_parts, part_index)
        if path_imgrec:
            self._open(path_imgrec, path_imgidx, shuffle or num_parts > 1)
        else:
            self.seq = list(self.imglist or ())
        if self.seq is not None:
            chosen = part_of(len(self.seq), num_parts, part_index)
            self.seq = self.seq[chosen.start : chosen.stop]
        self.cur = 0
        #: the examples that the previous pass left for the first batch of this one
        self._carried: list[tuple[NDArray, Any]] = []
        self._ended = False
        self.reset()

    def _open(self, path: str, index: str | None, needs_index: bool) -> None:
        """Open the record file, with its index if one is given."""
        if index:
            indexed = recordio.MXIndexedRecordIO(index, path, "r")
            self.imgrec, self.seq = indexed, list(self.imglist or indexed.keys)
            return
        assert not needs_index, "shuffling a record file or dividing it into parts requires its index: path_imgidx"
        self.imgrec = recordio.MXRecordIO(path, "r")

    def hard_reset(self) -> None:
        """Return to the first image, and discard the examples left over from the last pass."""
        self._carried = []
        self.reset()

    def reset(self) -> None:
        """Begin the next pass."""
        if self.seq is not None and self.shuffle:
            random.shuffle(self.seq)
        self._begin()

    def _begin(self) -> None:
        """Return to the first image, in the same order."""
        if self.imgrec is not None and self.seq is None:
            self.imgrec.reset()
        self.cur = 0
        self._ended = False

    def next_sample(self) -> tuple[Any, bytes]:
        """Return (label, contents of the image file) of the next image, or raise StopIteration."""
        if self.seq is None:
            assert self.imgrec is not None
            record = self.imgrec.read()
            if record is None:
                raise StopIteration
            header, image = recordio.unpack(record)
            return header.label, image
        if self.cur >= len(self.seq):
            raise StopIteration
        key = self.seq[self.cur]
        self.cur += 1
        if isinstance(self.imgrec, recordio.MXIndexedRecordIO):
            header, image = recordio.unpack(self.imgrec.read_idx(key))
            return (header.label if self.imglist is None else self.imglist[key][0]), image
        assert self.imglist is not None
        label, name = self.imglist[key]
        return label, self.read_image(name)

    def _sample(self) -> tuple[NDArray, Any]:
        """Return the next valid image, augmented, and its label."""
        while True:
            label, content = self.next_sample()
            data = self.imdecode(content)
            try:
                self.check_valid_image([data])
            except RuntimeError as reason:
                logging.debug("Invalid image, skipping:  %s", reason)
                continue
            try:
                image, label = self._augment(data, label)
            except SkippedImage as reason:
                logging.debug("Invalid image, skipping:  %s", reason)
                continue
            return self.postprocess_data(image), label

    def _augment(self, data: Any, label: Any) -> tuple[Any, Any]:
        """Return an image after all augmenters, and its label."""
        return self.augmentation_transform(data), label

    def _collate_labels(self, labels: list[Any]) -> Values:
        """Return the labels of a batch as one array."""
        table = np.array([np.asarray(label, np.float32).reshape(-1)[: self.label_width] for label in labels])
        return table if self.label_width > 1 else table[:, 0]

    def next(self) -> DataBatch:
        """Return the next batch, or raise StopIteration."""
        if self._ended:
            raise StopIteration
        samples, self._carried = self._carried, []
        pad = self.batch_size - len(samples) if samples else 0
        try:
            while len(samples) < self.batch_size:
                samples.append(self._sample())
        except StopIteration:
            self._ended = True
            if not samples or self.last_batch_handle == "discard":
                raise
            if self.last_batch_handle == "roll_over":
                self._carried = samples
                raise
            pad = self.batch_size - len(samples)
            self._begin()
            while len(samples) < self.batch_size:
                try:
                    samples.append(self._sample())
                except StopIteration:
                    self._begin()
            self._ended = True
        data = np.stack([pixels_of(image) for image, _ in samples]).astype(np.float32, copy=False)
        label = self._collate_labels([label for _, label in samples])
        arrays = [of_chosen_kind(concrete(np.ascontiguousarray(values), CPU)) for values in (data, label)]
        return DataBatch(arrays[:1], arrays[1:], pad)

    def check_data_shape(self, data_shape: Sequence[int]) -> None:
        """Raise unless a shape is that of images with three channels."""
        if len(data_shape) != 3:
            raise ValueError("data_shape should have length 3, with dimensions CxHxW")
        if data_shape[0] != 3:
            raise ValueError("This iterator expects inputs to have 3 channels.")

    def check_valid_image(self, data: Sequence[Any]) -> None:
        """Raise if the image has no pixels."""
        if len(data[0].shape) == 0:
            raise RuntimeError("Data shape is wrong")

    def imdecode(self, s: bytes) -> NDArray:
        """Decode an image from the contents of a file."""
        try:
            return imdecode(s)
        except MXNetError as error:
            raise MXNetError(f"Broken image {self._image_location()}, {error}") from error

    def _image_location(self) -> str:
        """Return the source of the last image that was read."""
        if self.seq is None:
            assert self.imgrec is not None
            return f"in the record before byte {self.imgrec.tell()} of {self.imgrec.uri}"
        key = self.seq[self.cur - 1]
        return f"filename: {self.imglist[key][1]}" if self.imglist is not None else f"index: {key}"

    def read_image(self, fname: str) -> bytes:
        """Return the contents of a file in the list."""
        with open(os.path.join(self.path_root, fname), "rb") as file:
            return file.read()

    def augmentation_transform(self, data: Any) -> Any:
        """Return an image after all augmenters."""
        for augmenter in self.auglist:
            data = augmenter(data)
        return data

    def postprocess_data(self, datum: Any) -> NDArray:
        """Return an image with shape (channel, height, width)."""
        return concrete(np.ascontiguousarray(pixels_of(datum).transpose(2, 0, 1)), CPU)


def _make_image_list(path: str | None, given: Sequence[Any] | None, dtype: DType) -> dict[Any, tuple[Any, str]] | None:
    """Return labels and paths of images by key, from a file or from a list in memory; None without either."""
    if path:
        return {number: (labels.astype(dtype), name) for number, (labels, name) in read_list(path).items()}
    if given is None:
        return None
    found: dict[Any, tuple[Any, str]] = {}
    for number, entry in enumerate(given, 1):
        labels = entry[0] if len(entry) == 2 else entry[:-1]
        found[str(number)] = np.atleast_1d(np.asarray(labels, np.float32)).astype(dtype), entry[-1]
    return found


complete_classes(globals())
