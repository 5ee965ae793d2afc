"""Samples of special functions and of operators that steer gradients."""

from __future__ import annotations

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(23)


def spread(low: float, high: float) -> np.ndarray:
    """Return a small matrix of numbers between two bounds."""
    return _generator.uniform(low, high, size=(2, 3)).astype(np.float32)


_WHOLE = np.array([1, 2, 3, 5], np.int32)

SAMPLES: list[Sample] = [
    Sample("erf", [spread(-2, 2)]),
    Sample("erf", [_WHOLE], order=0),
    Sample("erfinv", [spread(-0.9, 0.9)]),
    Sample("gamma", [spread(0.5, 4)]),
    Sample("gamma", [np.array([-0.4, -1.6, -2.5], np.float32)]),
    Sample("gamma", [_WHOLE], order=0),
    Sample("gammaln", [spread(0.3, 5)]),
    Sample("gammaln", [np.array([-0.4, -1.6, -2.5], np.float32)]),
    Sample("_polygamma", [spread(0.5, 4)], {"n": 0}),
    Sample("_polygamma", [spread(0.5, 4)], {"n": 2}),
    Sample("_polygamma", [np.array([-0.4, -1.6, -2.5], np.float32)], {"n": 1}),
    Sample("smooth_l1", [np.array([-3, -0.3, 0.1, 0.4, 2], np.float32)]),
    Sample("smooth_l1", [np.array([-3, -0.1, 0.2, 0.4, 2], np.float32)], {"scalar": 2.0}),
    Sample("smooth_l1", [_WHOLE], {"scalar": 1.0}, order=0),
    Sample("hard_sigmoid", [np.array([-3, -1, 0.5, 2, 3], np.float32)]),
    Sample("hard_sigmoid", [np.array([-3, -1, 0.5, 2, 3], np.float32)], {"alpha": 0.4, "beta": 0.1}),
    # the gradients of these are not the rates of change of their values
    Sample("BlockGrad", [spread(-2, 2)], order=0),
    Sample("make_loss", [spread(-2, 2)], order=0),
    Sample("_contrib_round_ste", [spread(-2, 2)], order=0),
    Sample("_contrib_sign_ste", [spread(-2, 2)], order=0),
    Sample("_contrib_gradientmultiplier", [spread(-2, 2)], {"scalar": 0.5}, order=0),
    Sample("_contrib_gradientmultiplier", [spread(-2, 2)], {"scalar": 1.0, "is_int": False}),
]
