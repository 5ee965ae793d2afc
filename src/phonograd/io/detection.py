"""Iterate over batches of pictures with boxes in record files: MXNet's ImageDetRecordIter.

Takes records from ``recordio``, decoders from ``image``, and passes over examples from :mod:`.rounds`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import recordio
from ..core.base.docstrings import complete_classes
from ..core.base.errors import MXNetError, nearest
from ..image import codec
from ..image.lists import read_list
from ..image.resizing import resize as resize_image
from ..image.warping import HLS_LIMITS, from_hls, to_hls
from .rounds import RoundIter, Values, choose_part

__all__ = ["ImageDetRecordIter"]

#: options of MXNet's engine, which do not affect the batches
_IGNORED = frozenset(
    ("aug_seq", "ctx", "preprocess_threads", "prefetch_buffer", "shuffle_chunk_seed", "shuffle_chunk_size", "verbose")
)
#: a picture is enlarged by this factor at least, or not at all
_LEAST_PAD = 1.05

Box = tuple[float, float, float, float]
Sizes = float | Sequence[float]


class _Sampler(NamedTuple):
    """The limits of a random crop."""

    scales: tuple[float, float]
    ratios: tuple[float, float]
    overlaps: tuple[float, float]
    sample_coverages: tuple[float, float]
    object_coverages: tuple[float, float]
    trials: int


class ImageDetRecordIter(RoundIter):
    """Iterate over the pictures in a record file, and the boxes of their objects.

    A label in the file is ``[width of the header, width of an object, ..., objects]``, and an object is
    ``[class, left, top, right, bottom, ...]`` with corners from 0 to 1. A label of a batch has the number of channels,
    the height and width of the picture and the number of values before that, and is filled up behind it.

    Parameters
    ----------
    path_imgrec
        The record file.
    data_shape
        The (channels, height, width) of a picture.
    batch_size
        The number of pictures in a batch.
    path_imglist
        A list with labels that replace those in the file.
    label_width
        The number of values of every label; -1 if labels differ.
    label_pad_width, label_pad_value
        The length to which labels are filled up, by default that of the longest, and the value that fills them up.
    shuffle, seed
        Whether to use a new random order in each pass, and its seed.
    round_batch
        Whether to fill the last batch with pictures from the beginning, which the next pass then skips.
    num_parts, part_index
        The number of parts of the pictures, and the part to use.
    resize
        The length of the shorter edge before all changes; -1 keeps the size.
    rand_crop_prob, num_crop_sampler
        The probability of a random crop, and the number of kinds of crops.
    min_crop_scales, max_crop_scales, min_crop_aspect_ratios, max_crop_aspect_ratios
        The limits of the edge of a crop, as a part of the picture, and of its aspect ratio. These and the following are
        numbers for all kinds of crops, or a tuple with one for each.
    min_crop_overlaps, max_crop_overlaps
        The limits of the intersection over union with an object.
    min_crop_sample_coverages, max_crop_sample_coverages, min_crop_object_coverages, max_crop_object_coverages
        The limits of the parts of the crop and of an object that their intersection has.
    max_crop_trials
        The number of trials of each kind of crop.
    crop_emit_mode, emit_overlap_thresh
        Drop objects whose ``'center'`` is outside of a crop, or whose ``'overlap'`` with it is at most the threshold.
    rand_pad_prob, max_pad_scale, fill_value
        The probability that a picture becomes a part of a larger one, its largest scale, and the brightness around it.
    max_random_hue, random_hue_prob, max_random_saturation, random_saturation_prob
        The largest random changes of hue (of 180) and saturation (of 255), and their probabilities.
    max_random_illumination, random_illumination_prob, max_random_contrast, random_contrast_prob
        The largest random changes of lightness (of 255) and of the factor of all colors, and their probabilities.
    rand_mirror_prob
        The probability to flip left to right.
    inter_method
        The interpolation method; see :func:`phonograd.image.imresize`.
    resize_mode
        Whether to ``'force'`` the size of the data, to ``'shrink'`` larger pictures, or to ``'fit'`` all into it; the
        last two keep the aspect ratio, and the rest of the data is 0.
    mean_r, mean_g, mean_b, std_r, std_g, std_b, scale
        The result is ``(image - mean) * scale / std``.
    data_name, label_name
        The names in descriptions.
    **kwargs
        Other options of MXNet, without effect on the batches. Unknown ones raise an error.
    """

    def __init__(
        self,
        path_imgrec: str,
        data_shape: tuple[int, int, int],
        batch_size: int,
        path_imglist: str = "",
        label_width: int = -1,
        label_pad_width: int = 0,
        label_pad_value: float = -1.0,
        shuffle: bool = False,
        seed: int = 0,
        round_batch: bool = True,
        num_parts: int | None = 1,
        part_index: int = 0,
        resize: int = -1,
        rand_crop_prob: float = 0.0,
        num_crop_sampler: int = 1,
        min_crop_scales: Sizes = 0.0,
        max_crop_scales: Sizes = 1.0,
        min_crop_aspect_ratios: Sizes = 1.0,
        max_crop_aspect_ratios: Sizes = 1.0,
        min_crop_overlaps: Sizes = 0.0,
        max_crop_overlaps: Sizes = 1.0,
        min_crop_sample_coverages: Sizes = 0.0,
        max_crop_sample_coverages: Sizes = 1.0,
        min_crop_object_coverages: Sizes = 0.0,
        max_crop_object_coverages: Sizes = 1.0,
        max_crop_trials: int | Sequence[int] = 25,
        crop_emit_mode: Literal["center", "overlap"] = "center",
        emit_overlap_thresh: float = 0.3,
        rand_pad_prob: float = 0.0,
        max_pad_scale: float = 1.0,
        fill_value: int = 127,
        max_random_hue: int = 0,
        random_hue_prob: float = 0.0,
        max_random_saturation: int = 0,
        random_saturation_prob: float = 0.0,
        max_random_illumination: int = 0,
        random_illumination_prob: float = 0.0,
        max_random_contrast: float = 0.0,
        random_contrast_prob: float = 0.0,
        rand_mirror_prob: float = 0.0,
        inter_method: int = 1,
        resize_mode: Literal["force", "shrink", "fit"] = "force",
        mean_r: float = 0.0,
        mean_g: float = 0.0,
        mean_b: float = 0.0,
        std_r: float = 1.0,
        std_g: float = 1.0,
        std_b: float = 1.0,
        scale: float = 1.0,
        data_name: str = "data",
        label_name: str = "softmax_label",
        **kwargs: Any,
    ) -> None:
        for name in kwargs:
            if name not in _IGNORED:
                raise TypeError(f"ImageDetRecordIter has no argument {name!r}{nearest(name, list(_IGNORED))}")
        self._reader = recordio.MXRecordIO(path_imgrec, "r")
        places = recordio.record_offsets(path_imgrec)
        num_parts, part_index = choose_part(num_parts, part_index)
        each = -(-len(places) // num_parts)
        self._places = places[part_index * each : (part_index + 1) * each]
        if not self._places:
            raise MXNetError(f"{os.fspath(path_imgrec)} has no records for part {part_index} of {num_parts}")
        super().__init__(len(self._places), batch_size, round_batch, data_name, label_name)
        self._listed = read_list(path_imglist) if path_imglist else None
        self._shuffle, self._random = shuffle, np.random.RandomState(seed)
        self._chance = random.Random(seed)
        self._resize, self._inter_method, self._mode = resize, inter_method, resize_mode
        self._channels, self._height, self._width = data_shape
        self._crop_chance, self._emit_mode, self._least_overlap = rand_crop_prob, crop_emit_mode, emit_overlap_thresh
        limits = [
            _pairs(min_crop_scales, max_crop_scales, num_crop_sampler),
            _pairs(min_crop_aspect_ratios, max_crop_aspect_ratios, num_crop_sampler),
            _pairs(min_crop_overlaps, max_crop_overlaps, num_crop_sampler),
            _pairs(min_crop_sample_coverages, max_crop_sample_coverages, num_crop_sampler),
            _pairs(min_crop_object_coverages, max_crop_object_coverages, num_crop_sampler),
        ]
        trials = [int(count) for count in _spread(max_crop_trials, num_crop_sampler)]
        self._samplers = [
            _Sampler(limits[0][kind], limits[1][kind], limits[2][kind], limits[3][kind], limits[4][kind], trials[kind])
            for kind in range(num_crop_sampler)
        ]
        self._pad_chance, self._pad_scale, self._fill_value = rand_pad_prob, max_pad_scale, fill_value
        self._mirror_chance = rand_mirror_prob
        #: the largest changes of hue, lightness and saturation, and their probabilities
        self._colors = (
            (max_random_hue, random_hue_prob),
            (max_random_illumination, random_illumination_prob),
            (max_random_saturation, random_saturation_prob),
        )
        self._contrast = max_random_contrast, random_contrast_prob
        self._mean = np.array([mean_r, mean_g, mean_b], np.float32)[: self._channels]
        self._factor = (np.float32(scale) / np.array([std_r, std_g, std_b], np.float32))[: self._channels]
        longest = max([len(self._label_of(recordio.unpack(self._reader.read_at(place))[0])) for place in places])
        if 0 < label_pad_width < longest:
            raise MXNetError(f"label_pad_width: {label_pad_width} smaller than estimated width: {longest}")
        if label_width > 0 and longest != label_width:
            raise MXNetError(f"the records have {longest} labels, but label_width is {label_width}")
        self._label_size, self._pad_value = 4 + max(label_pad_width, longest), label_pad_value
        self._describe(tuple(data_shape), (self._label_size,), np.float32)
        self._choose_order()

    def _choose_order(self) -> None:
        if self._shuffle:
            self._random.shuffle(self._order)

    def _label_of(self, header: Any) -> Values:
        if self._listed is None:
            return np.atleast_1d(np.asarray(header.label, np.float32))
        if header.id not in self._listed:
            raise MXNetError(f"the list of images has no line for record {header.id}")
        return np.asarray(self._listed[header.id][0], np.float32)

    def _values(self, examples: Values) -> tuple[Values, Values]:
        data = np.zeros((len(examples), self._channels, self._height, self._width), np.float32)
        labels = np.full((len(examples), self._label_size), self._pad_value, np.float32)
        for place, number in enumerate(examples):
            header, body = recordio.unpack(self._reader.read_at(self._places[number]))
            name = f"the image at byte {self._places[number]} of {self._reader.uri}"
            image = codec.decode(body, int(self._channels == 3), name)
            image, label = self._augment(image, self._label_of(header))
            rows, columns = image.shape[:2]
            data[place, :, :rows, :columns] = ((image - self._mean) * self._factor).transpose(2, 0, 1)
            labels[place, :4] = self._channels, rows, columns, len(label)
            labels[place, 4 : 4 + len(label)] = label
        return data, labels

    def _augment(self, image: Values, label: Values) -> tuple[Values, Values]:
        """Return a picture and its label after all changes."""
        if len(label) < 2 or label[1] < 5 or (len(label) - int(label[0])) % int(label[1]):
            raise MXNetError(f"a label has a header, and objects with 5 values or more; this one is {label}")
        header, objects = label[: int(label[0])], label[int(label[0]) :].reshape(-1, int(label[1])).copy()
        if self._resize > 0:
            short = min(image.shape[:2])
            height, width = (self._resize * extent // short for extent in image.shape[:2])
            image = resize_image(image, width, height, self._inter_method)
        image = self._change_colors(image)
        if self._chance.random() < self._mirror_chance:
            image = image[:, ::-1]
            objects[:, [1, 3]] = 1 - objects[:, [3, 1]]
        if self._pad_scale > 1 and self._chance.random() < self._pad_chance:
            image, objects = self._pad_picture(image, objects)
        if self._samplers and self._chance.random() < self._crop_chance:
            image, objects = self._crop(image, objects)
        return self._fit(image), np.concatenate([header, objects.ravel()])

    def _change_colors(self, image: Values) -> Values:
        changes = [
            int(self._chance.uniform(-most, most)) if self._chance.random() < probability else 0
            for most, probability in self._colors
        ]
        if any(changes) and self._channels == 3:
            image = from_hls(np.clip(to_hls(image) + changes, 0, HLS_LIMITS))
        most, probability = self._contrast
        if most and self._chance.random() < probability:
            factor = 1 + self._chance.uniform(-most, most)
            image = np.clip(np.rint(image * factor), 0, 255).astype(np.uint8)
        return image

    def _pad_picture(self, image: Values, objects: Values) -> tuple[Values, Values]:
        """Return a larger picture, with the picture at a random place."""
        scale = self._chance.uniform(1, self._pad_scale)
        if scale < _LEAST_PAD:
            return image, objects
        left, top = self._chance.uniform(0, scale - 1), self._chance.uniform(0, scale - 1)
        rows, columns = image.shape[:2]
        sides = (
            (int(top * rows), int((scale - top - 1) * rows)),
            (int(left * columns), int((scale - left - 1) * columns)),
        )
        padded = np.pad(image, (*sides, (0, 0)), constant_values=self._fill_value)
        return padded, _project(objects, (-left, -top, scale, scale))

    def _crop(self, image: Values, objects: Values) -> tuple[Values, Values]:
        """Return a random part of a picture with an object in it, or all of it if no trial finds one."""
        rows, columns = image.shape[:2]
        for sampler in self._chance.sample(self._samplers, len(self._samplers)):
            for _ in range(sampler.trials):
                box = self._random_box(sampler, columns / rows)
                inside = self._objects_in(box, objects, sampler)
                if len(inside):
                    left, top = int(box[0] * columns), int(box[1] * rows)
                    width, height = max(1, int(box[2] * columns)), max(1, int(box[3] * rows))
                    return image[top : top + height, left : left + width], _project(inside, box)
        return image, objects

    def _random_box(self, sampler: _Sampler, aspect: float) -> Box:
        scale = self._chance.uniform(*sampler.scales) + 1e-12
        least = max(sampler.ratios[0] / aspect, scale * scale)
        most = min(sampler.ratios[1] / aspect, 1 / (scale * scale))
        ratio = self._chance.uniform(least, most) ** 0.5
        width, height = min(1.0, scale * ratio), min(1.0, scale / ratio)
        return self._chance.uniform(0, 1 - width), self._chance.uniform(0, 1 - height), width, height

    def _objects_in(self, box: Box, objects: Values, sampler: _Sampler) -> Values:
        """Return the objects that stay in a crop; none if no object is covered as the limits demand."""
        left, top, width, height = box
        corners = objects[:, 1:5]
        common = np.clip(np.minimum(corners[:, 2], left + width) - np.maximum(corners[:, 0], left), 0, None)
        common = common * np.clip(np.minimum(corners[:, 3], top + height) - np.maximum(corners[:, 1], top), 0, None)
        areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
        measures = (
            (common / (areas + width * height - common), sampler.overlaps),
            (common / (width * height), sampler.sample_coverages),
            (common / areas, sampler.object_coverages),
        )
        fits = np.ones(len(objects), bool)
        for values, (least, most) in measures:
            if least > 0 or most < 1:
                fits &= (values >= least) & (values <= most)
        if not fits.any():
            none: Values = objects[:0]
            return none
        if self._emit_mode == "overlap":
            covered: Values = objects[common / areas > self._least_overlap]
            return covered
        x, y = (corners[:, 0] + corners[:, 2]) / 2, (corners[:, 1] + corners[:, 3]) / 2
        inside: Values = objects[(x >= left) & (x < left + width) & (y >= top) & (y < top + height)]
        return inside

    def _fit(self, image: Values) -> Values:
        """Return a picture that fits into the data."""
        rows, columns = image.shape[:2]
        if self._mode == "force":
            return resize_image(image, self._width, self._height, self._inter_method)
        ratio = min(self._height / rows, self._width / columns)
        if self._mode == "shrink" and ratio >= 1:
            return image
        return resize_image(image, max(1, int(ratio * columns)), max(1, int(ratio * rows)), self._inter_method)


def _spread(values: Any, count: int) -> list[Any]:
    """Return a value for each kind of crop."""
    found = list(values) if isinstance(values, (list, tuple)) else [values]
    if len(found) == 1:
        return found * count
    if len(found) != count:
        raise MXNetError(f"# of parameters/crop_samplers mismatch: {len(found)} for {count}")
    return found


def _pairs(least: Sizes, most: Sizes, count: int) -> list[tuple[float, float]]:
    pairs = list(zip(_spread(least, count), _spread(most, count), strict=True))
    for low, high in pairs:
        if low > high:
            raise MXNetError(f"the limits of a crop are ({low}, {high})")
    return pairs


def _project(objects: Values, box: Box) -> Values:
    """Return objects in the coordinates of a box, cut off at its edges."""
    left, top, width, height = box
    found = objects.copy()
    corners = (objects[:, 1:5] - [left, top, left, top]) / [width, height, width, height]
    found[:, 1:5] = np.clip(corners, 0, 1)
    return found


complete_classes(globals())
