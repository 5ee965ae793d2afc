"""Samples of resizing, sampling at computed places, and correlation."""

from __future__ import annotations

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(73)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return random numbers around zero."""
    return _generator.normal(size=shape).astype(dtype)


def between(*shape: int, sizes: tuple[int, int]) -> np.ndarray:
    """Return a sampling grid whose places keep away from whole elements; some lie outside the image."""
    places = _generator.integers(-1, np.array(sizes)[:, None, None], shape) + _generator.uniform(0.2, 0.8, shape)
    return (places * 2 / (np.array(sizes)[:, None, None] - 1) - 1).astype("float32")


AFFINE = np.array([[0.7, 0.13, 0.06, -0.21, 0.83, 0.09], [1.12, 0.05, -0.11, 0.17, 0.69, 0.23]], np.float32)

SAMPLES: list[Sample] = [
    *[
        Sample(
            "_contrib_BilinearResize2D",
            [array(1, 2, 3, 4)],
            {"height": height, "width": width, "align_corners": align},
        )
        for height, width in ((5, 7), (2, 1), (6, 3))
        for align in (True, False)
    ],
    *[
        Sample(
            "_contrib_BilinearResize2D",
            [array(1, 1, 3, 4)],
            {"mode": mode, "scale_height": 2, "scale_width": 1.5},
            order=1,
        )
        for mode in ("size", "odd_scale", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up")
    ],
    Sample("_contrib_BilinearResize2D", [array(1, 2, 3, 4), array(2, 1, 2, 5)], {"mode": "like"}, wrt=(0,)),
    Sample("_contrib_BilinearResize2D", [array(1, 2, 3, 4, dtype="float16")], {"height": 4, "width": 2}, order=0),
    *[
        Sample("_resample", [array(2, 5)], {"axis": 1, "extent": 3, "rule": r})
        for r in ("average", "corners", "centers")
    ],
    Sample("_resample", [array(2, 3, 2)], {"axis": 1, "extent": 7, "rule": "centers"}),
    Sample("_resample_adjoint", [array(2, 7, 2)], {"axis": 1, "extent": 3, "rule": "centers"}),
    Sample("_resample_adjoint", [array(2, 3)], {"axis": 1, "extent": 5, "rule": "average"}),
    Sample("UpSampling", [array(1, 2, 2, 3)], {"scale": 2, "sample_type": "nearest"}),
    Sample("UpSampling", [array(1, 2, 4, 6), array(1, 1, 2, 3)], {"scale": 2, "sample_type": "nearest"}),
    Sample(
        "UpSampling",
        [array(1, 2, 2, 3), array(1, 2, 1, 3)],
        {"scale": 2, "sample_type": "nearest", "multi_input_mode": "sum"},
    ),
    Sample(
        "UpSampling",
        [array(1, 2, 2, 3), array(2, 1, 4, 4)],
        {"scale": 2, "sample_type": "bilinear", "num_filter": 2},
    ),
    Sample("UpSampling", [array(1, 2, 2, 3, dtype="float16")], {"scale": 3, "sample_type": "nearest"}, order=0),
    Sample("BilinearSampler", [array(2, 2, 4, 5), between(2, 2, 3, 3, sizes=(5, 4))]),
    Sample(
        "BilinearSampler",
        [array(1, 2, 4, 5, dtype="float16"), between(1, 2, 2, 3, sizes=(5, 4)).astype("float16")],
        order=0,
    ),
    Sample("GridGenerator", [AFFINE], {"transform_type": "affine", "target_shape": (3, 4)}),
    Sample("GridGenerator", [AFFINE], {"transform_type": "affine", "target_shape": (1, 2)}),
    Sample("GridGenerator", [array(2, 2, 3, 4)], {"transform_type": "warp"}),
    Sample(
        "SpatialTransformer",
        [array(2, 1, 4, 5), AFFINE],
        {"target_shape": (3, 2), "transform_type": "affine", "sampler_type": "bilinear"},
    ),
    Sample("_coordinates", [], {"height": 2, "width": 3, "normalized": True, "dtype": "float32"}, order=0),
    Sample("_coordinates", [], {"height": 1, "width": 3, "normalized": False, "dtype": "float64"}, order=0),
    Sample(
        "_element_position",
        [array(2, 1, 3, 3) * 3, array(2, 1, 3, 3) * 3],
        {"shape": (2, 2, 4, 5)},
        order=0,
    ),
    Sample("Correlation", [array(1, 2, 4, 5), array(1, 2, 4, 5)]),
    Sample(
        "Correlation",
        [array(1, 2, 5, 4), array(1, 2, 5, 4)],
        {"kernel_size": 3, "max_displacement": 2, "stride1": 2, "stride2": 2, "pad_size": 2},
    ),
    Sample("Correlation", [array(1, 2, 3, 4), array(1, 2, 3, 4) + 0.05], {"is_multiply": False}),
    Sample("Correlation", [array(1, 2, 3, 4, dtype="float16"), array(1, 2, 3, 4, dtype="float16")], order=0),
]
