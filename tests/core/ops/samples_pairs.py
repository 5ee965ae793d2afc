"""Samples of the functions of two arrays that mx.np has beside arithmetic."""

from __future__ import annotations

import numpy as np

from .checks import Sample
from .samples_elementwise import between

_WHOLE = [np.array([[6, -7, 12], [0, 5, 8]], "int32"), np.array([4, 3, -8], "int32")]
_BYTES = [np.array([6, 200, 12], "uint8"), np.array([4, 3, 8], "uint8")]

SAMPLES: list[Sample] = [
    Sample("_npi_arctan2", [between(-0.9, -0.3, 2, 3), between(0.3, 0.9, 3)]),
    Sample("_npi_arctan2", [between(0.3, 0.9, 2, 1), between(-0.9, -0.3, 2, 3)]),
    Sample("_npi_copysign", [between(0.3, 0.9, 2, 3), between(-0.9, -0.3, 3)]),
    Sample("_npi_copysign", [between(-0.9, -0.3, 2, 3), between(-0.9, -0.3, 2, 1)]),
    *[
        Sample(f"_npi_{name}", arrays, order=0)
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "lcm", "gcd")
        for arrays in (_WHOLE, _BYTES)
    ],
    Sample("_npi_bitwise_and", [np.array([True, False, True]), np.array([True, True, False])], order=0),
    Sample("_npi_bitwise_not", [np.array([6, -7, 0], "int64")], order=0),
    Sample("_npi_bitwise_not", [np.array([True, False])], order=0),
]
