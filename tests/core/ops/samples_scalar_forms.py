"""Samples of arithmetic between an array and a number."""

from __future__ import annotations

import numpy as np

from phonograd.core.ops.math import comparison
from phonograd.core.ops.math.scalar_forms import FORMS

from .checks import Sample

_values = np.random.default_rng(12).uniform(0.3, 0.9, (2, 3)).astype(np.float32)

SAMPLES: list[Sample] = [
    Sample(name, [_values], {"scalar": 1.5}, order=0 if whole in vars(comparison).values() else 3)
    for name, _, whole, _ in FORMS
]
