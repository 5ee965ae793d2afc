"""Samples of the operators on images."""

from __future__ import annotations

from typing import Any

import numpy as np

from .checks import Sample

COUNTER = np.array([1, 2, 3, 4], np.uint32)
PIXELS = np.random.default_rng(3).integers(0, 256, (3, 4, 3)).astype(np.uint8)
COLORS = PIXELS.astype(np.float32) / 64
BATCH = np.stack([COLORS, COLORS[::-1]])
TENSOR = np.ascontiguousarray(COLORS.transpose(2, 0, 1))
FACTORS: dict[str, Any] = {"min_factor": 0.4, "max_factor": 0.7}

SAMPLES: list[Sample] = [
    Sample("_image_to_tensor", [PIXELS], order=0),
    # the result is float32, whatever comes in: too coarse for differences
    Sample("_image_to_tensor", [BATCH], order=0),
    Sample("_image_normalize", [TENSOR]),
    Sample("_image_normalize", [TENSOR[None]], {"mean": (0.1, 0.2, 0.3), "std": 2}),
    Sample("_image_crop", [BATCH], {"x": 1, "y": 0, "width": 2, "height": 2}),
    Sample("_image_crop", [PIXELS], {"x": 1, "y": 0, "width": 2, "height": 2}, order=0),
    *[Sample(f"_image_flip_{way}", [image]) for way in ("left_right", "top_bottom") for image in (COLORS, BATCH)],
    *[Sample(f"_image_random_flip_{way}", [COLORS, COUNTER]) for way in ("left_right", "top_bottom")],
    *[
        Sample("_image_resize", [image], {"size": size, "interp": interp}, order=order)
        for image, order in ((COLORS, 1), (BATCH, 1), (PIXELS, 0))
        for size in ((2, 5), 2)
        for interp in range(5)
    ],
    Sample("_image_resize", [COLORS], {"size": (4, 3)}),
    Sample("_image_resize", [COLORS], {"size": 6, "keep_ratio": True}, order=1),
    Sample("_image_resample", [COLORS], {"axis": 1, "extent": 3, "method": 2}),
    Sample("_image_resample_bytes", [PIXELS], {"width": 3, "height": 5, "method": 2}, order=0),
    Sample("_image_pixels", [COLORS * 100 - 20], {"dtype": "uint8"}, order=0),
    Sample("_image_resample_adjoint", [COLORS], {"axis": 0, "extent": 5, "method": 1}),
    *[
        Sample(f"_image_random_{word}", [image, COUNTER], FACTORS, order=order)
        for word in ("brightness", "contrast", "saturation", "hue")
        for image, order in ((COLORS, 3), (COLORS[..., :1], 3), (BATCH, 1), (PIXELS, 0))
    ],
    *[
        Sample(
            "_image_random_color_jitter",
            [image, COUNTER],
            {"brightness": 0.3, "contrast": 0.2, "saturation": amount, "hue": amount},
            order=order,
        )
        for image, order in ((COLORS, 2), (PIXELS, 0))
        for amount in (0.0, 0.1)
    ],
    Sample(
        "_image_random_color_jitter",
        [COLORS, COUNTER],
        dict.fromkeys(["brightness", "contrast", "saturation", "hue"], 0),
    ),
    Sample("_image_adjust_lighting", [COLORS], {"alpha": (0.1, 0.2, -0.3)}),
    Sample("_image_adjust_lighting", [PIXELS], {"alpha": (0.1, 0.2, -0.3)}, order=0),
    Sample("_image_random_lighting", [COLORS, COUNTER]),
    Sample("_image_random_lighting", [PIXELS, COUNTER], {"alpha_std": 0.1}, order=0),
    Sample("_image_random_lighting", [COLORS[..., :1], COUNTER]),
]
