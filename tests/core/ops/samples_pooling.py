"""Samples of pooling over windows, over adaptive windows and over regions."""

from __future__ import annotations

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(72)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return random numbers around zero."""
    return _generator.normal(size=shape).astype(dtype)


def distinct(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return numbers that differ from each other by at least a quarter, in random order."""
    size = int(np.prod(shape))
    return ((_generator.permutation(size) - size // 2) * 0.25 + 0.125).reshape(shape).astype(dtype)


OVERLAPPING = {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0)}
FULL = {"kernel": (2, 2), "stride": (3, 2), "pooling_convention": "full"}
WINDOW = {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0)}
REGIONS = np.array([[0, 0, 0, 3.2, 4.1], [1, 1.3, 0.4, 4.6, 2.2], [0, 2, 2, 2, 9]], np.float32)

SAMPLES: list[Sample] = [
    *[
        Sample("Pooling", [distinct(2, 2, 5, 4)], {"pool_type": kind, "p_value": 2, **window})
        for kind in ("max", "avg", "sum", "lp")
        for window in (OVERLAPPING, FULL, {"global_pool": True})
    ],
    Sample("Pooling", [distinct(1, 2, 7)], {"kernel": 3, "stride": 2, "pooling_convention": "same"}),
    Sample("Pooling", [distinct(1, 2, 7)], {"kernel": 1, "stride": 4, "pooling_convention": "full"}, order=0),
    Sample("Pooling", [distinct(1, 4, 4, 2)], {"kernel": (2, 2), "layout": "NHWC"}),
    Sample("Pooling", [distinct(1, 2, 3, 4, 3)], {"kernel": (2, 2, 2), "pool_type": "max", "stride": (1, 2, 1)}),
    Sample(
        "Pooling",
        [array(1, 3, 3, 4, 2)],
        {
            "kernel": (2, 2, 2),
            "pool_type": "avg",
            "pad": (1, 1, 1),
            "count_include_pad": False,
            "layout": "NDHWC",
        },
    ),
    Sample("Pooling", [distinct(1, 1, 4, 4)], {"kernel": (2, 2), "pool_type": "lp", "p_value": 1}),
    Sample("Pooling", [distinct(1, 1, 4, 4)], {"kernel": (2, 2), "pool_type": "lp", "p_value": 3}),
    *[
        Sample(
            "Pooling", [distinct(1, 2, 5, 4, dtype=dtype)], {"pool_type": kind, "p_value": 2, **OVERLAPPING}, order=0
        )
        for kind in ("max", "avg", "sum", "lp")
        for dtype in ("float16", "float64")
    ],
    Sample("Pooling", [distinct(0, 2, 5, 4)], {"kernel": (2, 2)}),
    *[
        Sample("Pooling_v1", [distinct(2, 1, 5, 4)], {"pool_type": kind, **OVERLAPPING})
        for kind in ("max", "avg", "sum")
    ],
    Sample("_window_sum", [array(2, 1, 5, 4)], {"counts": (3, 3), **WINDOW}),
    Sample("_window_spread", [array(2, 1, 3, 3)], {"extent": (5, 4), **WINDOW}),
    Sample("_window_max", [distinct(2, 1, 5, 4)], {"counts": (3, 3), **WINDOW}),
    Sample("_window_argmax", [distinct(2, 1, 5, 4), distinct(2, 1, 3, 3)], WINDOW, order=0),
    Sample("_window_max_grad", [array(2, 1, 3, 3), distinct(2, 1, 5, 4), distinct(2, 1, 3, 3)], WINDOW, wrt=(0,)),
    Sample(
        "_window_elements",
        [],
        {"extent": (5, 4), "counts": (3, 3), "include_pad": False, "dtype": "float32", **WINDOW},
        order=0,
    ),
    Sample("_contrib_AdaptiveAvgPooling2D", [array(2, 2, 5, 7)], {"output_size": (3, 2)}),
    Sample("_contrib_AdaptiveAvgPooling2D", [array(1, 2, 2, 3)], {"output_size": 4}),
    Sample("_contrib_AdaptiveAvgPooling2D", [array(1, 2, 2, 3, dtype="float16")], order=0),
    Sample("_contrib_AdaptiveAvgPooling2D", [array(1, 2, 2, 3)], {"output_size": (0, 2)}),
    Sample("ROIPooling", [distinct(2, 2, 6, 6), REGIONS], {"pooled_size": (2, 2), "spatial_scale": 1}, wrt=(0,)),
    Sample("ROIPooling", [distinct(2, 2, 6, 6), REGIONS], {"pooled_size": (3, 2), "spatial_scale": 0.5}, wrt=(0,)),
    Sample("_region_argmax", [distinct(2, 2, 6, 6), REGIONS], {"pooled_size": (2, 2), "spatial_scale": 1}, order=0),
    *[
        Sample(
            "_contrib_ROIAlign",
            [array(2, 4, 6, 5), REGIONS],
            {"pooled_size": (2, 2), "spatial_scale": 1, "sample_ratio": ratio, **options},
            wrt=(0,),
        )
        for ratio in (-1, 2)
        for options in ({}, {"aligned": True}, {"position_sensitive": True})
    ],
    Sample(
        "_region_average",
        [array(2, 1, 6, 5), REGIONS],
        {
            "pooled_size": (2, 1),
            "spatial_scale": 0.5,
            "sample_ratio": 1,
            "position_sensitive": False,
            "aligned": False,
        },
        wrt=(0,),
    ),
    Sample(
        "_region_average_adjoint",
        [array(3, 1, 2, 1), REGIONS],
        {
            "shape": (2, 1, 6, 5),
            "pooled_size": (2, 1),
            "spatial_scale": 0.5,
            "sample_ratio": 1,
            "position_sensitive": False,
            "aligned": False,
        },
        wrt=(0,),
    ),
]
