"""Samples of casts and limits."""

from __future__ import annotations

import numpy as np

from .checks import Sample

DATA = np.array([[1.5, -2, 3], [0.25, 5, -1]], np.float32)
INTEGERS = np.array([[1, -2, 3]], np.int32)

SAMPLES: list[Sample] = [
    *[
        Sample("Cast", [DATA], {"dtype": dtype}, order=0)
        for dtype in ("float16", "float32", "int32", "int64", "int8", "uint8", "bool")
    ],
    Sample("Cast", [DATA], {"dtype": "float64"}),
    Sample("Cast", [INTEGERS], {"dtype": "float16"}, order=0),
    Sample("amp_cast", [DATA], {"dtype": "float64"}),
    Sample("amp_cast", [DATA], {"dtype": "float16"}, order=0),
    Sample("amp_cast", [INTEGERS], {"dtype": "float16"}, order=0),
    Sample("amp_multicast", [DATA, DATA[0]], {"num_outputs": 2}),
    Sample("amp_multicast", [DATA, DATA.astype("float16"), INTEGERS], {"num_outputs": 3}, order=0),
    Sample("amp_multicast", [DATA, DATA.astype("float16")], {"num_outputs": 2, "cast_narrow": True}, order=0),
    Sample("amp_multicast", [INTEGERS], {"num_outputs": 1}, order=0),
    Sample("cast_storage", [DATA], {"stype": "default"}),
    Sample("clip", [DATA], {"a_min": -1.5, "a_max": 2}),
    Sample("clip", [DATA.astype("float16")], {"a_min": 0, "a_max": float("inf")}, order=0),
    Sample("clip", [INTEGERS], {"a_min": -1.5, "a_max": 2.7}, order=0),
    Sample("_contrib_quadratic", [DATA], {"a": 2, "b": -1, "c": 0.5}),
    Sample("_sparse_retain", [np.arange(12.0).reshape(4, 3) + 1, np.array([2, 0], np.int64)]),
    Sample("_contrib_quadratic", [INTEGERS], {"a": 1.5, "b": 2, "c": 3}, order=0),
]
