"""Samples of the operators that make arrays."""

from __future__ import annotations

import numpy as np

from .checks import Sample

DATA = np.array([[1.5, -2, 3], [0, 5, -1]], np.float32)

SAMPLES: list[Sample] = [
    *[
        Sample(name, [DATA.astype(dtype)], order=1)
        for name in ("zeros_like", "ones_like", "shape_array", "size_array", "_contrib_arange_like")
        for dtype in ("float32", "float16", "float64", "int32", "uint8")
    ],
    *[Sample(name, [DATA > 0], order=0) for name in ("zeros_like", "ones_like", "shape_array")],
    *[Sample(name, [DATA[0, 0]], order=0) for name in ("zeros_like", "shape_array", "size_array")],
    Sample("_contrib_arange_like", [DATA], {"axis": -1, "start": 1, "step": 0.5, "repeat": 2}, order=1),
    Sample("_position_along", [], {"shape": (2, 3, 4), "axis": 1, "dtype": "int32"}, order=0),
    Sample("_position_along", [], {"shape": (5,), "axis": 0, "dtype": "int64"}, order=0),
    Sample("_arange", [], {"start": 5}),
    Sample("_arange", [], {"start": 0.5, "stop": 3.7, "step": 0.7, "repeat": 2, "dtype": "float64"}),
    Sample("_arange", [], {"start": 5, "stop": 1, "step": -2, "dtype": "int32"}),
    Sample("_arange", [], {"start": 0, "stop": 1, "step": 0.25, "dtype": "float16"}),
    Sample("_linspace", [], {"start": 0, "stop": 1, "num": 5}),
    Sample("_linspace", [], {"start": 0, "stop": 10, "num": 4, "endpoint": False, "dtype": "int32"}),
    Sample("_zeros", [], {"shape": (2, 3)}),
    Sample("_ones", [], {"shape": (2,), "dtype": "int32"}),
    Sample("_filled", [], {"shape": (2, 3), "value": 0.5, "dtype": "float64"}),
    Sample("_eye", [], {"N": 2}),
    Sample("_eye", [], {"N": 3, "M": 2, "k": -1, "dtype": "int64"}),
]
