"""Iterate over batches of the images in record files, decoded by threads.

Takes records from ``recordio``, decoders and augmenters from ``image``, and passes over examples from :mod:`.rounds`.
"""

from __future__ import annotations

import concurrent.futures
import os
import random
from typing import Any

import numpy as np

from .. import recordio
from ..core.base.docstrings import complete_classes
from ..core.base.dtypes import as_dtype
from ..core.base.errors import MXNetError, nearest
from ..core.ops.vision.image_colors import EIGENVALUES, EIGENVECTORS
from ..image import augmenters, codec, functions
from ..image.lists import read_list
from ..image.resizing import resize
from ..ndarray import array, load, save
from .image_changes import ShapeChange, change_hls
from .rounds import RoundIter, Values, choose_part

__all__ = ["ImageRecordInt8Iter", "ImageRecordIter", "ImageRecordUInt8Iter"]

#: options of MXNet's engine, which do not affect the batches
_IGNORED = frozenset(
    (
        "aug_seq",
        "ctx",
        "device_id",
        "prefetch_buffer",
        "preprocess_threads",
        "shuffle_chunk_seed",
        "shuffle_chunk_size",
        "mean_a",
        "std_a",
        "verbose",
    )
)


class ImageRecordIter(RoundIter):
    """Iterate over the images in a record file, in batches of shape (example, channel, height, width).

    Parameters
    ----------
    path_imgrec
        The record file.
    data_shape
        The (channels, height, width) of an image.
    batch_size
        The number of images in a batch.
    path_imgidx
        The index of the file. Without an index, the iterator reads the file once to find the records.
    path_imglist
        A list with labels that replace those in the file.
    label_width
        The number of labels of an image.
    shuffle, seed
        Whether to use a new random order in each pass, and its seed.
    round_batch
        Whether to fill the last batch with images from the beginning, which the next pass then skips.
    num_parts, part_index
        The number of parts of the images, and the part to use. With ``num_parts=None``, each process that trains with
        others uses its part.
    resize
        The length of the shorter edge before the crop; -1 keeps the size.
    pad, fill_value
        The number and brightness of pixels to add on every side before the crop.
    rand_crop
        Whether to crop at a random position. Otherwise the crop is in the center.
    random_resized_crop, min_random_area, max_random_area, min_aspect_ratio, max_aspect_ratio
        Whether the crop has a random size and aspect ratio, and their limits.
    max_rotate_angle, rotate, max_shear_ratio
        The largest random angle in degrees, a fixed angle, and the largest random shear.
    min_random_scale, max_random_scale, min_img_size, max_img_size
        The limits of a random factor of the size, and of the edges after it. Without `random_resized_crop`, the limits
        of the aspect ratio belong to this step, too.
    min_crop_size, max_crop_size
        The limits of the random edge of a square crop; -1 is none.
    rand_mirror, mirror
        Whether to flip half of the images left to right, or all.
    random_h, random_s, random_l
        The largest random change of hue (of 180), saturation and lightness (of 255).
    mean_img
        A file with the mean of all images, which is subtracted instead of colors. If it is missing, the mean is
        computed and written.
    mean_r, mean_g, mean_b, std_r, std_g, std_b, scale
        The result is ``(image - mean) * scale / std``.
    max_random_contrast, max_random_illumination
        The largest deviation of the random factor of ``image - mean`` from 1, and the largest random summand.
    brightness, contrast, saturation, pca_noise
        The strengths of the color changes.
    inter_method
        The interpolation method; see :func:`phonograd.image.imresize`.
    seed_aug
        The seed of random augmentation.
    dtype
        The dtype of data.
    data_name, label_name
        The names in descriptions.
    **kwargs
        Other options of MXNet, without effect on the batches. Unknown ones raise an error.
    """

    _default_dtype = "float32"

    def __init__(
        self,
        path_imgrec: str,
        data_shape: tuple[int, int, int],
        batch_size: int,
        path_imgidx: str = "",
        path_imglist: str = "",
        label_width: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        round_batch: bool = True,
        num_parts: int | None = 1,
        part_index: int = 0,
        resize: int = -1,
        pad: int = 0,
        fill_value: int = 255,
        rand_crop: bool = False,
        random_resized_crop: bool = False,
        min_random_area: float = 1.0,
        max_random_area: float = 1.0,
        min_aspect_ratio: float | None = None,
        max_aspect_ratio: float = 0.0,
        max_rotate_angle: int = 0,
        rotate: int = -1,
        max_shear_ratio: float = 0.0,
        min_random_scale: float = 1.0,
        max_random_scale: float = 1.0,
        min_img_size: float = 0.0,
        max_img_size: float = 1e10,
        min_crop_size: int = -1,
        max_crop_size: int = -1,
        rand_mirror: bool = False,
        mirror: bool = False,
        random_h: int = 0,
        random_s: int = 0,
        random_l: int = 0,
        mean_img: str = "",
        mean_r: float = 0.0,
        mean_g: float = 0.0,
        mean_b: float = 0.0,
        std_r: float = 1.0,
        std_g: float = 1.0,
        std_b: float = 1.0,
        scale: float = 1.0,
        max_random_contrast: float = 0.0,
        max_random_illumination: float = 0.0,
        brightness: float = 0.0,
        contrast: float = 0.0,
        saturation: float = 0.0,
        pca_noise: float = 0.0,
        inter_method: int = 1,
        seed_aug: int | None = None,
        dtype: Any = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        **kwargs: Any,
    ) -> None:
        _check_options(kwargs)
        channels, self._height, self._width = data_shape
        if channels not in (1, 3):
            raise ValueError(f"data_shape must be (1 or 3, height, width), not {tuple(data_shape)}")
        self._channels = channels
        self._reader = recordio.MXRecordIO(path_imgrec, "r")
        if path_imgidx:
            with recordio.MXIndexedRecordIO(path_imgidx, path_imgrec, "r") as indexed:
                places = [indexed.idx[key] for key in indexed.keys]
        else:
            places = recordio.record_offsets(path_imgrec)
        num_parts, part_index = choose_part(num_parts, part_index)
        # unlike in `part_of`, the last part is smaller if sizes are uneven
        each = -(-len(places) // num_parts)
        self._places = places[part_index * each : (part_index + 1) * each]
        if not self._places:
            raise MXNetError(f"{os.fspath(path_imgrec)} has no records for part {part_index} of {num_parts}")
        super().__init__(len(self._places), batch_size, round_batch, data_name, label_name)
        self._listed = read_list(path_imglist) if path_imglist else None
        self._label_width = label_width
        self._shuffle, self._random = shuffle, np.random.RandomState(seed)
        self._chance = random.Random(seed_aug)
        self._resize, self._inter_method = resize, inter_method
        self._border, self._fill_value = pad, fill_value
        self._contrast, self._illumination = max_random_contrast, max_random_illumination
        self._rand_crop, self._rand_mirror, self._mirror = rand_crop, rand_mirror, mirror
        least = min_aspect_ratio if min_aspect_ratio is not None else 1 - max_aspect_ratio
        most = max_aspect_ratio if min_aspect_ratio is not None else 1 + max_aspect_ratio
        self._resized_crop = ((min_random_area, max_random_area), (least, most)) if random_resized_crop else None
        self._crop_sizes = (min_crop_size, max_crop_size) if max(min_crop_size, max_crop_size) != -1 else None
        self._shape_change = ShapeChange(
            rotate if rotate > 0 else max_rotate_angle,
            rotate > 0,
            max_shear_ratio,
            (1.0, 1.0) if random_resized_crop else (min_random_scale, max_random_scale),
            (1.0, 1.0) if random_resized_crop else (least, most),
            (min_img_size, max_img_size),
        )
        if random_resized_crop and (rand_crop or self._crop_sizes or min_random_scale != 1 or max_random_scale != 1):
            raise MXNetError(
                "random_resized_crop conflicts with rand_crop, min_crop_size, max_crop_size, min_random_scale and "
                "max_random_scale"
            )
        self._hls = random_h, random_l, random_s
        self._mean = np.array([mean_r, mean_g, mean_b], np.float32)[:channels]
        self._factor = (np.float32(scale) / np.array([std_r, std_g, std_b], np.float32))[:channels]
        self._colors: list[augmenters.Augmenter] = []
        if brightness or contrast or saturation:
            self._colors.append(augmenters.ColorJitterAug(brightness, contrast, saturation))
        if pca_noise:
            self._colors.append(augmenters.LightingAug(pca_noise, EIGENVALUES, EIGENVECTORS))
        self._dtype = as_dtype(dtype or self._default_dtype)
        self._pool = concurrent.futures.ThreadPoolExecutor(int(kwargs.get("preprocess_threads", 4)))
        self._describe(tuple(data_shape), (label_width,) if label_width > 1 else (), self._dtype.type, np.float32)
        self._mean_image: Values | None = None
        if mean_img:
            self._mean_image = self._mean_of_all(mean_img)
        self._choose_order()

    def _mean_of_all(self, path: str) -> Values:
        """Return the mean of all augmented images, from a file, or computed and written to it."""
        if os.path.exists(path):
            stored = load(path)
            mean = stored["mean_img"] if isinstance(stored, dict) else stored[0]
            values: Values = mean.asnumpy().transpose(1, 2, 0)
            if values.shape != (self._height, self._width, self._channels):
                raise MXNetError(
                    f"{path} has a mean of shape {mean.shape}, but data_shape is {self.provide_data[0].shape[1:]}"
                )
            return values
        total = np.zeros((self._height, self._width, self._channels), np.float64)
        for place in self._places:
            body = recordio.unpack(self._reader.read_at(place))[1]
            image = codec.decode(body, int(self._channels == 3), f"the image at byte {place} of {self._reader.uri}")
            total += self._change_shape(image)
        found = (total / len(self._places)).astype(np.float32)
        save(path, {"mean_img": array(found.transpose(2, 0, 1))})
        return found

    def _choose_order(self) -> None:
        if self._shuffle:
            self._random.shuffle(self._order)

    def _values(self, examples: Values) -> tuple[Values, Values]:
        records = [recordio.unpack(self._reader.read_at(self._places[number])) for number in examples]
        names = [f"the image at byte {self._places[number]} of {self._reader.uri}" for number in examples]
        flags = [int(self._channels == 3)] * len(records)
        images = self._pool.map(codec.decode, [body for _, body in records], flags, names)
        data = np.empty((len(records), self._channels, self._height, self._width), self._dtype)
        for place, image in enumerate(images):
            data[place] = self._augment(image).transpose(2, 0, 1)
        labels = np.zeros((len(records), self._label_width), np.float32)
        for place, (header, _) in enumerate(records):
            found = header.label
            if self._listed is not None:
                if header.id not in self._listed:
                    raise MXNetError(f"the list of images has no line for record {header.id}")
                found = self._listed[header.id][0]
            values = np.atleast_1d(np.asarray(found, np.float32))
            if len(values) < self._label_width:
                raise MXNetError(f"record {header.id} has {len(values)} labels, but label_width is {self._label_width}")
            labels[place] = values[: self._label_width]
        return data, labels if self._label_width > 1 else labels[:, 0]

    def _change_shape(self, image: Values) -> Values:
        """Return an image of the shape of the data, and perhaps with other colors."""
        if self._resize > 0:
            short = min(image.shape[:2])
            height, width = (self._resize * extent // short for extent in image.shape[:2])
            image = resize(image, width, height, self._inter_method)
        image = self._shape_change.apply(image, self._chance, self._fill_value, self._inter_method)
        if self._border:
            sides = (self._border, self._border)
            image = np.pad(image, (sides, sides, (0, 0)), constant_values=self._fill_value)
        image = self._crop(image)
        if any(self._hls) and self._channels == 3:
            image = change_hls(image, self._hls, self._chance)
        if self._mirror or (self._rand_mirror and self._chance.random() < 0.5):
            image = image[:, ::-1]
        return image

    def _augment(self, image: Values) -> Values:
        """Return an image after all augmentation."""
        image = self._change_shape(image)
        if self._dtype.kind != "f":
            return np.minimum(image, np.iinfo(self._dtype).max)
        for augmenter in self._colors:
            image = functions.pixels_of(augmenter(image.astype(np.float32)))
        image = image - (self._mean if self._mean_image is None else self._mean_image)
        if self._contrast or self._illumination:
            contrast = 1 + self._chance.uniform(-self._contrast, self._contrast)
            image = image * np.float32(contrast) + np.float32(
                self._chance.uniform(-self._illumination, self._illumination)
            )
        return image * self._factor

    def _crop(self, image: Values) -> Values:
        size = self._width, self._height
        if self._resized_crop is None and self._crop_sizes is None:
            image = self._enlarge(image)
        rows, columns = image.shape[:2]
        width, height = functions.scale_down((columns, rows), size)
        if self._crop_sizes is not None:
            least, most = self._crop_sizes
            if not least <= most <= min(rows, columns):
                raise MXNetError(f"input image size smaller than max_crop_size: {(rows, columns)}, {self._crop_sizes}")
            width = height = self._chance.randint(least, most)
        if self._resized_crop is not None:
            for _ in range(10):
                area = self._chance.uniform(*self._resized_crop[0]) * rows * columns
                ratio = self._chance.uniform(*self._resized_crop[1])
                wide, high = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
                if self._chance.random() > 0.5:
                    wide, high = high, wide
                if 0 < wide <= columns and 0 < high <= rows:
                    width, height = wide, high
                    break
        is_random = self._rand_crop or self._resized_crop is not None
        left = self._chance.randint(0, columns - width) if is_random else (columns - width) // 2
        top = self._chance.randint(0, rows - height) if is_random else (rows - height) // 2
        window = image[top : top + height, left : left + width]
        return window if (width, height) == size else resize(window, *size, interp=self._inter_method)

    def _enlarge(self, image: Values) -> Values:
        """Return an image, enlarged with the same aspect ratio if the crop does not fit into it."""
        rows, columns = image.shape[:2]
        if rows < self._height:
            rows, columns = self._height, columns * self._height // rows
            image = resize(image, columns, rows, self._inter_method)
        if columns < self._width:
            image = resize(image, self._width, rows * self._width // columns, self._inter_method)
        return image


class ImageRecordUInt8Iter(ImageRecordIter):
    """Iterate like :class:`ImageRecordIter` over uint8 data, without changes of colors, mean and deviation."""

    _default_dtype = "uint8"


class ImageRecordInt8Iter(ImageRecordIter):
    """Iterate like :class:`ImageRecordIter` over int8 data: pixels brighter than 127 become 127."""

    _default_dtype = "int8"


def _check_options(options: dict[str, Any]) -> None:
    """Raise for unknown options."""
    for name in options:
        if name not in _IGNORED:
            raise TypeError(f"ImageRecordIter has no argument {name!r}{nearest(name, list(_IGNORED))}")


complete_classes(globals())
