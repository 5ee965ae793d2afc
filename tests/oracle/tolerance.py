"""How near to MXNet is near enough: one table, in multiples of the dtype's machine epsilon."""

from __future__ import annotations

from typing import Optional

import numpy as np

from .case import Array

# For each kind of computation: the allowed error in multiples of epsilon for float16, float32 and
# float64, and whether it is measured against the largest element (sums, where large terms cancel)
# or against one (functions of a single element, whose derivatives may cancel near saturation).
# "single" is for what MXNet computes with single precision constants or parameters in any dtype:
# there a multiple of 2**34 in float64 is 32 times the epsilon of float32.
KINDS = {
    "exact": ((0, 0, 0), "one"),
    "elementwise": ((4, 32, 32), "one"),
    "single": ((4, 32, 2**34), "largest"),
    "sum": ((8, 32, 32), "largest"),
    "product": ((8, 64, 64), "largest"),
    "normalization": ((16, 256, 256), "largest"),
    "recurrent": ((16, 256, 256), "largest"),
    "solve": ((16, 1024, 1024), "largest"),
}
SIZES = {2: 0, 4: 1, 8: 2}


def bound(expected: Array, kind: str, least: float) -> Array:
    """Return the allowed absolute difference for every element of an expected array.

    ``least`` is a magnitude that entered the computation even if it does not show in the result.
    """
    multiples, against = KINDS[kind]
    unit = multiples[SIZES[expected.dtype.itemsize]] * float(np.finfo(expected.dtype).eps)
    absolute = np.abs(expected.astype(np.float64))
    magnitude = np.where(np.isfinite(absolute), absolute, 0.0)
    largest = max(float(magnitude.max()) if magnitude.size else 0.0, least)
    scale = largest if against == "largest" else min(1.0, largest)
    return unit * np.maximum(magnitude, scale)


def difference(actual: Array, expected: Array, kind: str, least: float = 0.0) -> Optional[str]:
    """Return what distinguishes two arrays, or None if they agree."""
    if actual.shape != expected.shape:
        return f"shape {actual.shape} instead of {expected.shape}"
    if actual.dtype != expected.dtype:
        return f"dtype {actual.dtype} instead of {expected.dtype}"
    if expected.dtype.kind != "f":
        wrong = actual != expected
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
        near = distance <= bound(expected, kind, least)
        wrong = ~(near | (actual == expected) | (np.isnan(actual) & np.isnan(expected)))
    if not np.any(wrong):
        return None
    where = tuple(int(i) for i in np.argwhere(wrong)[0]) if np.ndim(wrong) else ()
    count = f"{int(np.sum(wrong))} of {expected.size} elements"
    return f"{count}, first at {where}: {actual[where]!r} instead of {expected[where]!r} ({kind})"
