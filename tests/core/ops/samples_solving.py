"""Samples of systems of equations and singular values."""

from __future__ import annotations

import numpy as np

from .checks import Sample
from .samples_linalg import array, regular


def _apart(*shape: int) -> np.ndarray:
    """Return matrices whose singular values are far from each other and from zero."""
    scale = np.array([1.0, 3.0, 7.0], np.float32)[: shape[-2], None]
    return (np.eye(*shape[-2:], dtype=np.float32) * scale + array(*shape) / 4).astype(np.float32)


SAMPLES: list[Sample] = [
    Sample("_npi_solve", [regular(3, 3), array(3, 2)]),
    Sample("_npi_solve", [regular(2, 3, 3), array(2, 3, 1)]),
    Sample("_npi_svd", [_apart(2, 3)]),
    Sample("_npi_svd", [_apart(3, 3)]),
    Sample("_npi_svd", [_apart(2, 3, 2)]),
]
