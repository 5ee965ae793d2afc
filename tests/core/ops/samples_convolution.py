"""Samples of convolutions in one to three dimensions, and of the columns they are made of."""

from __future__ import annotations

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(71)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return random numbers around zero."""
    return _generator.normal(size=shape).astype(dtype)


WINDOW = {"stride": (2, 1), "dilate": (1, 2), "pad": (1, 1), "groups": 2}

SAMPLES: list[Sample] = [
    Sample("Convolution", [array(2, 2, 5), array(3, 2, 2), array(3)], {"kernel": 2, "num_filter": 3}),
    Sample(
        "Convolution",
        [array(1, 2, 6), array(4, 1, 3), None],
        {
            "kernel": 3,
            "num_filter": 4,
            "num_group": 2,
            "stride": 2,
            "dilate": 2,
            "pad": 1,
            "no_bias": True,
            "layout": "NCW",
        },
    ),
    Sample("Convolution", [array(2, 2, 4, 4), array(3, 2, 3, 3), array(3)], {"kernel": (3, 3), "num_filter": 3}),
    Sample(
        "Convolution",
        [array(2, 4, 5, 4), array(2, 2, 3, 2), array(2)],
        {
            "kernel": (3, 2),
            "num_filter": 2,
            "num_group": 2,
            "stride": (2, 1),
            "dilate": (1, 2),
            "pad": (2, 0),
            "layout": "NCHW",
        },
    ),
    Sample(
        "Convolution",
        [array(1, 4, 3, 2), array(2, 2, 2, 2), array(2)],
        {"kernel": (2, 2), "num_filter": 2, "layout": "NHWC"},
    ),
    Sample(
        "Convolution",
        [array(1, 3, 4, 4), array(3, 1, 3, 3), None],
        {"kernel": (3, 3), "num_filter": 3, "num_group": 3, "pad": (1, 1), "no_bias": True},
    ),
    Sample(
        "Convolution",
        [array(1, 2, 3, 4, 3), array(2, 2, 2, 3, 1), array(2)],
        {"kernel": (2, 3, 1), "num_filter": 2, "stride": (1, 2, 2), "pad": (1, 1, 0)},
    ),
    Sample(
        "Convolution",
        [array(1, 2, 3, 2, 2), array(2, 2, 1, 2, 2), array(2)],
        {"kernel": (2, 1, 2), "num_filter": 2, "layout": "NDHWC"},
        order=0,
    ),
    Sample(
        "Convolution",
        [array(2, 2, 4, 4, dtype="float16"), array(3, 2, 3, 3, dtype="float16"), array(3, dtype="float16")],
        {"kernel": (3, 3), "num_filter": 3},
        order=0,
    ),
    Sample("Convolution", [array(0, 2, 4, 4), array(3, 2, 3, 3), array(3)], {"kernel": (3, 3), "num_filter": 3}),
    Sample("Deconvolution", [array(2, 2, 3), array(2, 3, 3)], {"kernel": 3, "num_filter": 3}),
    Sample(
        "Deconvolution",
        [array(1, 4, 3, 2), array(4, 1, 3, 2), array(2)],
        {
            "kernel": (3, 2),
            "num_filter": 2,
            "num_group": 2,
            "stride": (2, 3),
            "dilate": (1, 2),
            "pad": (1, 0),
            "adj": (1, 2),
            "no_bias": False,
        },
    ),
    Sample(
        "Deconvolution",
        [array(1, 2, 3, 3), array(2, 2, 3, 3)],
        {"kernel": (3, 3), "num_filter": 2, "stride": (2, 2), "target_shape": (6, 5)},
    ),
    Sample(
        "Deconvolution",
        [array(1, 2, 3, 2), array(2, 2, 2, 3)],
        {"kernel": (2, 2), "num_filter": 3, "layout": "NHWC"},
    ),
    Sample(
        "Deconvolution",
        [array(1, 1, 2, 2, 2), array(1, 2, 2, 1, 2)],
        {"kernel": (2, 1, 2), "num_filter": 2, "stride": (2, 1, 1)},
    ),
    Sample("_convolution", [array(2, 4, 5, 6), array(4, 2, 3, 2)], WINDOW),
    Sample("_convolution_data_grad", [array(2, 4, 3, 6), array(4, 2, 3, 2)], {"extent": (5, 6), **WINDOW}),
    Sample("_convolution_weight_grad", [array(2, 4, 5, 6), array(2, 4, 3, 6)], {"kernel": (3, 2), **WINDOW}),
    Sample("im2col", [array(2, 2, 6)], {"kernel": 3, "stride": 2}),
    Sample("im2col", [array(1, 2, 4, 5)], {"kernel": (2, 3), "stride": (1, 2), "dilate": (2, 1), "pad": (1, 0)}),
    Sample("im2col", [array(1, 2, 2, 3, 2)], {"kernel": (1, 2, 2)}, order=1),
    Sample("im2col", [array(1, 2, 4, 5, dtype="float16")], {"kernel": (2, 3)}, order=0),
    Sample("col2im", [array(2, 6, 2)], {"output_size": 6, "kernel": 3, "stride": 2}),
    Sample(
        "col2im",
        [array(1, 12, 8)],
        {"output_size": (4, 5), "kernel": (2, 3), "stride": (1, 2), "dilate": (2, 1), "pad": (1, 0)},
    ),
    Sample("col2im", [array(1, 4, 9, dtype="float16")], {"output_size": (4, 4), "kernel": (2, 2)}, order=0),
]
