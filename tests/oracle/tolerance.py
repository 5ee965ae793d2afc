"""How near to MXNet is near enough: one table, in multiples of the dtype's machine epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Array

# For each kind of computation: the allowed error in multiples of epsilon for float16, float32 and float64, and what it
# is measured against. "element": each element, or one if that is less (derivatives may cancel near saturation).
# "largest": the largest element (in sums, large terms cancel). "unit": the same, but at least one (logarithms near 0).
# "single" is for what MXNet computes with constants or parameters of single precision in every dtype: in float64,
# 2**34 times epsilon is 32 times the epsilon of float32. "coarse" is for results of a wider dtype than the computation:
# there epsilon is that of the input of the lowest precision.
KINDS = {
    "exact": ((0, 0, 0), "element"),
    "elementwise": ((4, 32, 32), "element"),
    "single": ((4, 32, 2**34), "largest"),
    "coarse": ((8, 32, 32), "largest"),
    "sum": ((8, 32, 32), "largest"),
    "logarithm": ((8, 64, 64), "unit"),
    "product": ((8, 64, 64), "largest"),
    "normalization": ((16, 256, 256), "largest"),
    "recurrent": ((16, 256, 256), "largest"),
    "solve": ((16, 1024, 1024), "largest"),
}
COLUMNS = {"float16": 0, "float32": 1, "float64": 2}


def relative(dtype: np.dtype[Any], kind: str) -> float:
    """Return the allowed error of a kind of computation relative to what it is measured against."""
    return KINDS[kind][0][COLUMNS[dtype.name]] * float(np.finfo(dtype).eps)


def bound(expected: Array, kind: str, coarsest: str, least: float) -> Array:
    """Return the allowed absolute difference for every element of an expected array.

    ``coarsest`` is the lowest precision among the inputs; ``least`` a magnitude that entered the computation even if it
    does not show in the result.
    """
    against = KINDS[kind][1]
    precision = expected.dtype.name
    if kind == "coarse" and COLUMNS[coarsest] < COLUMNS[precision]:
        precision = coarsest
    unit = relative(np.dtype(precision), kind)
    absolute = np.abs(expected.astype(np.float64))
    magnitude = np.where(np.isfinite(absolute), absolute, 0.0)
    largest = max(float(magnitude.max()) if magnitude.size else 0.0, least)
    scale = {"element": min(1.0, largest), "largest": largest, "unit": max(1.0, largest)}[against]
    return np.asarray(unit * np.maximum(magnitude, scale))


def difference(actual: Array, expected: Array, kind: str, coarsest: str = "float64", least: float = 0.0) -> str | None:
    """Return what distinguishes two arrays, or None if they agree."""
    if actual.shape != expected.shape:
        return f"shape {actual.shape} instead of {expected.shape}"
    if actual.dtype != expected.dtype:
        return f"dtype {actual.dtype} instead of {expected.dtype}"
    wrong = np.asarray(actual != expected)
    if expected.dtype.kind == "f":
        with np.errstate(invalid="ignore", over="ignore"):
            distance = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
        wrong &= ~(distance <= bound(expected, kind, coarsest, least))
        wrong &= ~(np.isnan(actual) & np.isnan(expected))
    if not wrong.any():
        return None
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    count = f"{int(wrong.sum())} of {wrong.size} elements"
    return f"{count}, first at {where}: {actual[where]} instead of {expected[where]} ({kind})"
