"""Samples of random operators and Dropout. Gradients with respect to parameters of distributions are zero: order 0."""

from __future__ import annotations

import numpy as np

from .checks import Sample

COUNTER = np.array([1, 2, 3, 4], np.uint32)
LIKE = np.zeros((2, 3), np.float32)


def numbers(*values: float) -> np.ndarray:
    """Return a float32 vector."""
    return np.array(values, np.float32)


#: parameters that are numbers, by distribution
NUMBERS = {
    "uniform": {"low": -1.0, "high": 2.0},
    "normal": {"loc": 1.0, "scale": 2.0},
    "gamma": {"alpha": 0.7, "beta": 2.0},
    "exponential": {"lam": 4.0},
    "poisson": {"lam": 4.0},
    "negative_binomial": {"k": 3, "p": 0.4},
    "generalized_negative_binomial": {"mu": 2.0, "alpha": 0.3},
}

#: parameters that are arrays, by distribution
ARRAYS = {
    "uniform": [numbers(0, 1), numbers(1, 3)],
    "normal": [numbers(0, 5), numbers(1, 2)],
    "gamma": [numbers(0.5, 3), numbers(1, 2)],
    "exponential": [numbers(1, 4)],
    "poisson": [numbers(1, 40)],
    "negative_binomial": [numbers(1, 3), numbers(0.5, 0.4)],
    "generalized_negative_binomial": [numbers(1, 2), numbers(0, 0.3)],
}

PROBABILITIES = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]], np.float32)

SAMPLES: list[Sample] = [
    *[
        Sample(name, [COUNTER], {"shape": shape, "dtype": dtype}, order=0)
        for name in ("_uniform01", "_normal01", "_exponential01")
        for shape in ((), (2, 3), (0, 2))
        for dtype in ("float16", "float32", "float64")
    ],
    *[
        Sample(f"_random_{name}", [COUNTER], {**parameters, **extra}, order=0)
        for name, parameters in NUMBERS.items()
        for extra in ({}, {"shape": (2, 3)}, {"shape": (0,), "dtype": "float64"}, {"shape": 4, "dtype": "float16"})
    ],
    *[Sample(f"_random_{name}_like", [LIKE, COUNTER], parameters, order=0) for name, parameters in NUMBERS.items()],
    *[
        Sample(f"_sample_{name}", [*arrays, COUNTER], parameters, order=0)
        for name, arrays in ARRAYS.items()
        for parameters in ({}, {"shape": (2, 3)}, {"shape": 2, "dtype": "float64"})
    ],
    Sample("_random_randint", [COUNTER], {"low": -2, "high": 5, "shape": (2, 3)}, order=0),
    Sample("_random_randint", [COUNTER], {"low": 0, "high": 2**40, "dtype": "int64"}, order=0),
    Sample("_sample_multinomial", [PROBABILITIES, COUNTER], order=0),
    Sample("_sample_multinomial", [PROBABILITIES[0], COUNTER], {"dtype": "float32"}, order=0),
    Sample("_sample_multinomial", [PROBABILITIES, COUNTER], {"shape": (2, 2), "get_prob": True}, wrt=()),
    Sample("_categories", [PROBABILITIES, COUNTER], {"shape": (4,), "dtype": "int32"}, order=0),
    Sample("_shuffle", [np.arange(6, dtype=np.float32).reshape(3, 2), COUNTER], order=0),
    Sample("_shuffle", [np.arange(4), COUNTER], order=0),
    Sample("_sample_unique_zipfian", [COUNTER], {"range_max": 20, "shape": (2, 5)}, order=0),
    Sample("Dropout", [np.ones((3, 4), np.float32), COUNTER], {"training": True}),
    Sample("Dropout", [np.ones((3, 4), np.float32), COUNTER], {"training": True, "p": 0.3, "axes": (1,)}),
    Sample("Dropout", [np.ones((3, 4), np.float32), COUNTER], {"training": True, "p": 1.0}),
    Sample("Dropout", [np.ones((3, 4), np.float32), COUNTER], {"mode": "always", "p": 0.1}),
    Sample("Dropout", [np.ones((3, 4), np.float32), COUNTER], {}),
    Sample("Dropout", [np.ones((3, 4), np.float16), COUNTER], {"training": True}, order=0),
]
