"""Samples of densities of distributions."""

from __future__ import annotations

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(13)


def _positive(*shape: int) -> np.ndarray:
    return _generator.uniform(0.5, 2.0, size=shape).astype(np.float32)


COUNTS = _generator.integers(0, 6, size=(2, 3)).astype(np.float32)
PROBABILITY = _generator.uniform(0.2, 0.8, size=2).astype(np.float32)
SHARES = _generator.dirichlet([1.5, 2.0, 3.0], size=(2, 4)).astype(np.float32)

SAMPLES = [
    Sample(f"_random_pdf_{name}", inputs, {"is_log": is_log}, wrt=wrt)
    for is_log in (False, True)
    for name, inputs, wrt in [
        ("uniform", [_positive(2, 3), _positive(2) - 2, _positive(2) + 2], None),
        ("normal", [_positive(2, 3), _positive(2), _positive(2)], None),
        ("normal", [_positive(2), _positive(2), _positive(2)], None),
        ("gamma", [_positive(2, 3, 2), _positive(2, 3), _positive(2, 3)], None),
        ("exponential", [_positive(2, 3), _positive(2)], None),
        ("poisson", [COUNTS, _positive(2)], (1,)),
        ("negative_binomial", [COUNTS, _positive(2) + 1, PROBABILITY], (1, 2)),
        ("generalized_negative_binomial", [COUNTS, _positive(2), _positive(2)], (1, 2)),
        ("dirichlet", [SHARES, _positive(2, 3)], None),
        ("dirichlet", [SHARES[0, 0], _positive(3)], None),
    ]
]
