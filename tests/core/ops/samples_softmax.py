"""Samples of the softmax family."""

from __future__ import annotations

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(51)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return random numbers around zero."""
    return _generator.normal(size=shape).astype(dtype)


LENGTHS = np.array([[1, 2], [3, 0]], np.int32)

SAMPLES: list[Sample] = [
    *[Sample(name, [array(2, 3)], {"axis": axis}) for name in ("_softmax", "_log_softmax") for axis in (0, 1)],
    *[
        Sample(name, [array(2, 3, 2)], parameters)
        for name in ("softmax", "log_softmax", "softmin")
        for parameters in ({}, {"axis": 1}, {"axis": 0, "temperature": 0.7}, {"dtype": "float64"})
    ],
    *[
        Sample(name, [array(*shape, dtype=dtype)], {}, order=0)
        for name in ("softmax", "log_softmax", "softmin")
        for dtype in ("float16", "float64")
        for shape in ((3,), (2, 0), (0, 2))
    ],
    Sample("softmax", [array(2, 3, dtype="float16")], {"dtype": "float32"}, order=0),
    Sample("softmax", [array(2, 3)], {"dtype": "float16"}, order=0),
    Sample("softmax", [array(2, 3, 2), LENGTHS], {"axis": 1, "use_length": True}),
    Sample("softmax", [array(2, 2, 3), LENGTHS.astype(np.int64)], {"axis": -1, "use_length": True}),
    Sample("_within_length", [LENGTHS], {"shape": (2, 3, 2), "axis": 1}, order=0),
    Sample("_log_sum_exp", [array(2, 3)], {"axis": 1}),
    Sample("_log_sum_exp", [array(2, 3, dtype="float16")], {"axis": 0}, order=0),
    Sample("_log_sum_exp", [array(2, 0)], {"axis": 1}, order=0),
    Sample("SoftmaxActivation", [array(2, 3)]),
    Sample("SoftmaxActivation", [array(2, 3, 2)], {"mode": "channel"}),
]
