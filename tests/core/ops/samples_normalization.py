"""Samples of normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(52)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return random numbers around zero."""
    return _generator.normal(size=shape).astype(dtype)


def positive(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return random numbers between 0.5 and 1.5."""
    return _generator.uniform(0.5, 1.5, size=shape).astype(dtype)


def batch_inputs(*shape: int, axis: int = 1, dtype: str = "float32", data_dtype: str | None = None) -> list[np.ndarray]:
    """Return data, gamma, beta, moving mean and moving variance."""
    channels = shape[axis]
    return [
        array(*shape, dtype=data_dtype or dtype),
        positive(channels, dtype=dtype),
        array(channels, dtype=dtype),
        array(channels, dtype=dtype),
        positive(channels, dtype=dtype),
    ]


def _batch(name: str, parameters: dict[str, Any], shape: tuple[int, ...] = (3, 2, 2), **options: Any) -> Sample:
    inputs = batch_inputs(*shape, axis=parameters.get("axis", 1))
    # the moving statistics are constants to the gradient
    return Sample(name, inputs, parameters, wrt=(0, 1, 2), **options)


SAMPLES: list[Sample] = [
    *[
        _batch(name, {"fix_gamma": fix_gamma, "training": training, **extra})
        for name, extra in (
            ("BatchNorm", {}),
            ("BatchNorm", {"axis": -1, "eps": 0.1}),
            ("BatchNorm_v1", {}),
            ("_contrib_SyncBatchNorm", {"key": "layer"}),
            ("_contrib_BatchNormWithReLU", {}),
        )
        for fix_gamma in (False, True)
        for training in (False, True)
    ],
    _batch("BatchNorm", {"training": True, "use_global_stats": True, "fix_gamma": False}),
    _batch("BatchNorm", {"training": True, "fix_gamma": False, "axis": 0}, shape=(2, 3)),
    _batch("BatchNorm", {"training": True, "fix_gamma": False}, shape=(2, 3, 1, 2, 1)),
    _batch("BatchNorm", {"training": True, "output_mean_var": True}, order=0),
    Sample("BatchNorm", batch_inputs(3, 2, data_dtype="float16"), {"training": True}, order=0),
    Sample("_variance", [array(3, 2), array(1, 2)], order=0),
    Sample("LayerNorm", [array(2, 3, 2), positive(2), array(2)]),
    Sample("LayerNorm", [array(2, 3, 2), positive(3), array(3)], {"axis": 1, "eps": 0.01}),
    Sample("LayerNorm", [array(2, 3), positive(3), array(3)], {"output_mean_var": True}, order=0),
    Sample("LayerNorm", [array(0, 3), positive(3), array(3)], order=0),
    Sample("InstanceNorm", [array(2, 3, 4), positive(3), array(3)]),
    Sample("InstanceNorm", [array(1, 2, 2, 2), positive(2), array(2)], {"eps": 0.1}),
    Sample("GroupNorm", [array(2, 4, 2), positive(2), array(2)], {"num_groups": 2}),
    Sample("GroupNorm", [array(2, 2, 2), positive(1), array(1)]),
    Sample("GroupNorm", [array(2, 2, 2), positive(1), array(1)], {"output_mean_var": True}, order=0),
    *[
        Sample("L2Normalization", [array(2, 3, 2)], {"mode": mode, "eps": eps})
        for mode in ("instance", "channel", "spatial")
        for eps in (1e-10, 0.1)
    ],
    Sample("L2Normalization", [array(2, 3)], {}),
    Sample("L2Normalization", [array(2, 3, dtype="float16")], {}, order=0),
    Sample("LRN", [array(1, 5, 2, 1)], {"nsize": 3, "alpha": 0.5}),
    Sample("LRN", [array(2, 3)], {"nsize": 7, "alpha": 0.5, "beta": 0.6, "knorm": 1.0}),
    Sample("LRN", [array(2, 3)], {"nsize": 1}),
]
