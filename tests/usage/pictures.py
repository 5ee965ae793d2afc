"""Programs with record files of pictures: the options of MXNet's iterators."""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from typing import Any

import numpy as np

from .program import Steps, program


def _png(image: np.ndarray[Any, Any]) -> bytes:
    """Return the bytes of a picture with red, green and blue."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width = image.shape[:2]
    rows = b"".join([b"\0" + row.tobytes() for row in image])
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _write_records(mx: Any, path: str, labels: list[Any]) -> None:
    """Write smooth pictures of different sizes."""
    random = np.random.RandomState(0)
    records = mx.recordio.MXRecordIO(path, "w")
    for number, label in enumerate(labels):
        height, width = 36, 40 + 4 * number
        y, x = np.mgrid[0:height, 0:width, 0:3][:2] * 0.1
        waves = sum([np.sin(x * random.rand(3) + y * random.rand(3) + random.rand(3) * 6) for _ in range(4)])
        image = np.clip(127 + 30 * waves, 0, 255).astype(np.uint8)
        flag = 0 if np.ndim(label) == 0 else len(label)
        records.write(mx.recordio.pack(mx.recordio.IRHeader(flag, label, number, 0), _png(image)))
    records.close()


def _quarters(batch: Any) -> Any:
    """Return the means of the quarters of pictures, over all pictures and channels."""
    data = batch.data[0].asnumpy()
    half = data.shape[2] // 2
    return data.shape, [
        data[:, :, top : top + half, left : left + half].mean() for top in (0, half) for left in (0, half)
    ]


@program
def record_options(mx: Any) -> Steps:
    """ImageRecordIter: sizes, rotations, crops and means that leave nothing to chance."""
    with tempfile.TemporaryDirectory() as folder:
        path, mean = os.path.join(folder, "a.rec"), os.path.join(folder, "mean.bin")
        _write_records(mx, path, [0.0, 1.0, 2.0, 3.0])
        for options in (
            {}, {"rotate": 30}, {"rotate": 90, "inter_method": 2}, {"rotate": 20, "inter_method": 9, "fill_value": 0},
            {"min_random_scale": 0.8, "max_random_scale": 0.8}, {"min_random_scale": 1.3, "max_random_scale": 1.3},
            {"min_crop_size": 20, "max_crop_size": 20}, {"min_aspect_ratio": 1.4, "max_aspect_ratio": 1.4},
            {"max_img_size": 30, "min_img_size": 20}, {"max_rotate_angle": 0, "max_shear_ratio": 0.0},
            {"mean_img": mean}, {"mean_img": mean, "mean_r": 10, "scale": 0.5}, {"min_crop_size": 90, "max_crop_size": 90},
            {"random_resized_crop": True, "rand_crop": True, "min_random_area": 0.5},
        ):  # fmt: skip
            given = {
                "path_imgrec": path,
                "data_shape": (3, 24, 24),
                "batch_size": 4,
                "preprocess_threads": 1,
                **options,
            }
            name = str({key: value for key, value in options.items() if key != "mean_img"}) + "mean" * (
                "mean_img" in options
            )
            yield name, lambda given=given: _quarters(next(iter(mx.io.ImageRecordIter(**given))))
        yield "mean", mx.nd.load(mean)["mean_img"].mean(axis=(1, 2))


@program
def record_boxes(mx: Any) -> Steps:
    """ImageDetRecordIter: labels, sizes and changes that leave nothing to chance."""
    labels = [[2, 5, 1, 0.1, 0.2, 0.5, 0.6], [2, 5, 0, 0.2, 0.2, 0.9, 0.8, 2, 0.5, 0.1, 0.7, 0.3]]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.rec")
        _write_records(mx, path, labels)
        for options in (
            {}, {"rand_mirror_prob": 1.0}, {"label_pad_width": 20, "label_pad_value": 7.0}, {"resize": 30},
            {"mean_r": 10.0, "mean_g": 20.0, "mean_b": 30.0, "scale": 0.5, "std_r": 2.0}, {"inter_method": 2},
            {"label_pad_width": 3}, {"label_width": 3}, {"label_pad_width": -1},
            {"rand_crop_prob": 1.0, "num_crop_sampler": 2, "min_crop_scales": (0.1, 0.2, 0.3)},
            {"rand_crop_prob": 1.0, "min_crop_scales": 0.99, "min_crop_aspect_ratios": 0.1, "max_crop_trials": 0},
            {"rand_pad_prob": 1.0, "max_pad_scale": 1.01}, {"unknown": 3},
        ):  # fmt: skip
            given = {
                "path_imgrec": path,
                "data_shape": (3, 24, 24),
                "batch_size": 2,
                "preprocess_threads": 1,
                **options,
            }

            def run(given: dict[str, Any] = given) -> Any:
                batches = mx.io.ImageDetRecordIter(**given)
                batch = next(iter(batches))
                return _quarters(batch), batch.label[0], batches.provide_label, batch.pad

            yield str(options), run
