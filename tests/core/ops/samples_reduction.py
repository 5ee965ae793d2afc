"""Samples of reductions, positions of extrema and running sums."""

from __future__ import annotations

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(31)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return random numbers around zero."""
    return _generator.normal(size=shape).astype(dtype)


def distinct(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return shuffled numbers that are far from each other."""
    return (_generator.permutation(int(np.prod(shape))).reshape(shape) * 0.5 - 1.0).astype(dtype)


def whole(*shape: int, dtype: str = "int32") -> np.ndarray:
    """Return small whole numbers."""
    return _generator.integers(1, 4, shape).astype(dtype)


NAN = float("nan")

SAMPLES: list[Sample] = [
    *[
        Sample(name, [distinct(2, 3, 2)], parameters)
        for name in ("sum", "mean", "prod", "nansum", "nanprod", "max", "min", "_square_sum")
        for parameters in (
            {},
            {"axis": 1},
            {"axis": (0, -1), "keepdims": True},
            {"axis": 1, "exclude": True},
        )
    ],
    *[
        Sample(name, [whole(2, 3, dtype=dtype)], {"axis": 0}, order=0)
        for name in ("sum", "mean", "prod", "nansum", "nanprod", "max", "min")
        for dtype in ("float16", "float64", "int64", "int32", "int8", "uint8", "bool")
    ],
    *[Sample(name, [array()], order=3) for name in ("sum", "mean", "prod", "max", "min")],
    *[Sample(name, [array(0, 3)], {"axis": 0}, order=0) for name in ("sum", "mean", "prod", "nansum", "nanprod")],
    Sample("max", [array(0, 3)], {"axis": 1}, order=0),
    Sample("sum", [array(0)]),
    Sample("prod", [np.array([[1, 0, 2], [0, 0, 3], [4, 5, 6]], np.float32)], {"axis": 1}),
    Sample("prod", [np.array([0, 2, 0, 3, 0, 1, 2], np.float32)]),
    Sample("prod", [array(2, 3, 2)], {"axis": (0, 2)}),
    Sample("nansum", [np.array([[1, NAN], [NAN, NAN]], np.float32)], {"axis": 1}, wrt=()),
    Sample("norm", [array(2, 3)]),
    Sample("norm", [array(2, 3)], {"ord": 1, "axis": 1}),
    Sample("norm", [array(2, 3)], {"axis": (0, 1), "keepdims": True}),
    Sample("norm", [array(2, 3, 2)], {"axis": -1, "out_dtype": "float64"}),
    Sample("norm", [array(3, dtype="float16")], order=0),
    Sample("norm", [array(3, dtype="float16")], {"out_dtype": "float32"}, order=0),
    Sample("norm", [whole(2, 3)], {"axis": 0}, order=0),
    Sample("norm", [whole(2, 3)], {"out_dtype": "float32", "ord": 1}, order=0),
    Sample("norm", [array()]),
    Sample("norm", [array(0, 2)], {"axis": 0}, order=0),
    Sample("moments", [array(2, 3)], {"axes": (1,)}),
    Sample("moments", [array(2, 3, 2)], {"axes": (0, 2), "keepdims": True}),
    Sample("moments", [array(3)], {"axes": 0}),
    Sample("multi_sum_sq", [array(2, 3), array(4), array()], {"num_arrays": 3}, wrt=()),
    Sample("multi_sum_sq", [array(2, dtype="float16")], {"num_arrays": 1}, order=0),
    Sample("multi_sum_sq", [array(2, dtype="float64")], {"num_arrays": 1}, order=0),
    Sample("_np_cumsum", [array(2, 3)]),
    Sample("_np_cumsum", [array(2, 3, 2)], {"axis": 1}),
    Sample("_np_cumsum", [array(2, 3)], {"axis": -1}),
    Sample("_np_cumsum", [array(3)], {"dtype": "float64", "axis": 0}, order=0),
    Sample("_np_cumsum", [whole(2, 3, dtype="bool")], {"axis": 0}, order=0),
    Sample("_np_cumsum", [whole(2, 3, dtype="int8")], {"dtype": "int32"}, order=0),
    *[
        Sample(name, [distinct(2, 3, dtype=dtype)], parameters, order=1)
        for name in ("argmax", "argmin")
        for dtype in ("float32", "float16", "int64", "int8")
        for parameters in ({}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"keepdims": True})
    ],
    Sample("argmax", [array(3)], {"axis": 0}, order=0),
    Sample("argmax_channel", [array(2, 3)], order=0),
    Sample("argmax_channel", [array(2, 3, 2)], order=0),
    Sample("_largest", [distinct(2, 3)], {"axes": (1,)}),
    Sample("_smallest", [distinct(2, 3)], {"axes": (0, 1)}),
    Sample("_product", [array(2, 5)], {"axes": (1,)}),
    Sample("_euclidean", [array(2, 3)], {"axes": (0,)}),
    Sample("_running_sum", [array(2, 3)], {"axis": 1, "reverse": True}),
]
