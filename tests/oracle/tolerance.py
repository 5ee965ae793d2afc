"""How near to MXNet is near enough: one table, in multiples of the dtype's machine epsilon."""

from __future__ import annotations

from typing import Optional

import numpy as np

from .case import Array

# For each kind of computation: the allowed relative error as a multiple of epsilon, and whether
# absolute errors are measured against the largest element (sums, where large terms cancel) or
# against one (functions of a single element, whose derivatives may cancel near saturation).
KINDS = {
    "exact": (0, "one"),
    "elementwise": (32, "one"),
    "sum": (32, "largest"),
    "product": (64, "largest"),
    "normalization": (256, "largest"),
    "recurrent": (256, "largest"),
    "solve": (1024, "largest"),
}


def bound(expected: Array, kind: str) -> Array:
    """Return the allowed absolute difference for every element of an expected array."""
    multiple, against = KINDS[kind]
    if expected.dtype.kind != "f":
        return np.zeros(expected.shape)
    magnitude = np.abs(expected.astype(np.float64))
    magnitude[~np.isfinite(magnitude)] = 0.0
    largest = float(magnitude.max()) if magnitude.size else 0.0
    scale = largest if against == "largest" else min(1.0, largest)
    return multiple * float(np.finfo(expected.dtype).eps) * np.maximum(magnitude, scale)


def difference(actual: Array, expected: Array, kind: str) -> Optional[str]:
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
        near = distance <= bound(expected, kind)
        wrong = ~(near | (actual == expected) | (np.isnan(actual) & np.isnan(expected)))
    if not wrong.any():
        return None
    where = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    count = f"{int(wrong.sum())} of {wrong.size} elements"
    return f"{count}, first at {where}: {actual[where]!r} instead of {expected[where]!r} ({kind})"
