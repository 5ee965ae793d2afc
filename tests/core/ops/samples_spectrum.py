"""Samples of Fourier transforms, count sketches, and of likelihoods of events."""

from __future__ import annotations

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(16)
ROWS = _generator.normal(size=(2, 3, 6)).astype(np.float32)
PLACES = np.array([[0, 2, 1, 2, 0, 3]], np.float32)
SIGNS = np.array([[1, -1, 1, 1, -1, 1]], np.float32)


def _positive(*shape: int) -> np.ndarray:
    return _generator.uniform(0.2, 1.5, size=shape).astype(np.float32)


EVENTS = [
    *(_positive(2, 3), _positive(3), _positive(3), _positive(2, 3), _positive(2, 4)),
    *(np.array([[0, 2, 1, 1], [2, 2, 0, 1]], np.int32), np.array([4, 2], np.float32), np.array([7, 8], np.float32)),
]

SAMPLES = [
    Sample("_contrib_fft", [ROWS]),
    Sample("_contrib_fft", [ROWS[0, 0]]),
    Sample("_contrib_ifft", [ROWS]),
    Sample("_contrib_count_sketch", [ROWS, PLACES, SIGNS], {"out_dim": 5}, wrt=(0,)),
    Sample("_contrib_count_sketch", [ROWS[0], PLACES, SIGNS], {"out_dim": 4}, wrt=(0,)),
    Sample("_contrib_hawkesll", EVENTS, wrt=(0, 1, 2, 3)),
]
