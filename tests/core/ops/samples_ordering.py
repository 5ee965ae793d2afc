"""Samples of the operators that sort."""

from __future__ import annotations

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(34)


def distinct(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return shuffled numbers that are far from each other."""
    return (_generator.permutation(int(np.prod(shape))).reshape(shape) * 0.5).astype(dtype)


SAMPLES: list[Sample] = [
    *[
        Sample(name, [distinct(2, 3, 2)], parameters)
        for name in ("sort", "argsort")
        for parameters in ({}, {"axis": None}, {"axis": 1, "is_ascend": False}, {"axis": 0})
    ],
    *[
        Sample("topk", [distinct(2, 4)], {"ret_typ": kind, "dtype": "float64", **parameters})
        for kind in ("value", "indices", "mask", "both")
        for parameters in ({}, {"k": 2, "axis": 0}, {"k": 3, "axis": None, "is_ascend": True}, {"k": 0})
    ],
    *[
        Sample(name, [distinct(2, 4, dtype=dtype)], {}, order=0)
        for name in ("sort", "argsort", "topk")
        for dtype in ("float16", "float64", "int64", "int8", "uint8", "bool")
    ],
    Sample("argsort", [distinct(2, 4)], {"dtype": "int64"}, order=0),
    Sample("topk", [distinct(2, 4)], {"ret_typ": "both", "dtype": "uint8", "k": 2}),
    Sample("sort", [np.zeros((0, 3), "float32")], {"axis": 0}, order=0),
    Sample("_order", [distinct(2, 4)], {"axis": 1, "count": 2, "ascending": True}, order=1),
]
