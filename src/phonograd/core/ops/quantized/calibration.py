"""Calibration by entropy: the range for which quantized numbers are distributed most like real ones."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import FLOAT32, DType
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partial
from ...graph.node import Node
from ...graph.operator import Array, Spec, nothing, operator
from .ranges import known_dtype

__all__ = ["calibrate_entropy"]

#: the probability that replaces zero
_EPSILON = np.float32(0.0001)
#: counts that smoothing may take off each bin for an estimate
_MOST_TAKEN = 0.05
#: candidates estimated at once
_CHUNK = 512
#: relative error of an addition in single precision
_SUM_ERROR = 2.0**-24


def _smooth(counts: Array) -> Array | None:
    """Return counts in which a small number replaces zeros, taken off the others; None if there is too little."""
    zeros = counts == 0
    missing = int(zeros.sum())
    if missing == counts.size:
        return None
    taken = _EPSILON * np.float32(missing) / np.float32(counts.size - missing)
    if taken >= 1:
        return None
    return counts + np.where(zeros, _EPSILON, -taken).astype(np.float32)


def _total(values: Array) -> np.float32:
    """Return the sum of float32 values, added one after the other as MXNet does."""
    return np.float32(np.add.accumulate(values)[-1])


def _divergence(histogram: Array, half: int, levels: int) -> float:
    """Return the divergence from a clipped histogram to its quantized form; ``half`` bins are kept on each side."""
    middle = histogram.size // 2
    start, stop = middle - half, middle + half + 1
    kept = histogram[start:stop].copy()
    # bins at the edges count what is clipped; the first kept bin is counted there only
    kept[0] = 0
    clipped = kept.copy()
    clipped[0] = histogram[: start + 1].sum(dtype=np.float32)
    clipped[-1] += histogram[stop:].sum(dtype=np.float32)
    width = kept.size // levels
    # the last level takes the bins that are left
    starts = np.arange(levels) * width
    sizes = np.full(levels, width)
    sizes[-1] = kept.size - starts[-1]
    totals = np.add.reduceat(kept, starts)
    filled = np.add.reduceat((kept != 0).astype(np.float32), starts)
    share = np.divide(totals, filled, out=np.zeros_like(totals), where=filled > 0)
    spread = np.where(clipped != 0, np.repeat(share, sizes), np.float32(0)).astype(np.float32)
    first, second = _smooth(clipped), _smooth(spread)
    if first is None or second is None:
        return float("inf")
    first, second = first / _total(first), second / _total(second)
    with np.errstate(divide="ignore", invalid="ignore"):
        # logarithms are rounded once, as those of the C library are
        terms = first * np.log((first / second).astype(np.float64)).astype(np.float32)
    return float(_total(terms)) if np.all(np.isfinite(terms)) else float("inf")


def _estimates(histogram: Array, halves: Array, levels: int) -> Array:
    """Return the divergences of all candidates in double precision, from sums over the histogram; NaN if unknown.

    With counts ``c``, what smoothing takes off, ``t``, and the share ``s`` of a bin of a level, the divergence is
    ``sum((c - t) * (log(c - t) - log(s - u))) / sum(c) + log(sum(s) / sum(c))``. Zeros add nothing: both distributions
    have the same small number there. The logarithm of ``c - t`` is expanded to the second order of ``t``, so that its
    sums are differences of running sums. The sums of a level are differences of running sums as well.
    """
    counts = histogram.astype(np.float64)
    exist = counts != 0
    safe = np.where(exist, counts, 1.0)
    logs = np.log(safe)
    columns = (counts, exist, counts * logs, logs + exist, exist / safe)
    total, number, with_logs, first_order, second_order = [np.concatenate([[0.0], np.cumsum(c)]) for c in columns]
    middle = counts.size // 2
    starts, stops, sizes = middle - halves, middle + halves + 1, 2 * halves + 1
    # the clipped first and last bin
    left, right = total[starts + 1], total[-1] - total[stops - 1]
    inner = [array[stops - 1] - array[starts + 1] for array in (number, with_logs, first_order, second_order)]
    filled = inner[0] + (left > 0) + (right > 0)
    epsilon = float(_EPSILON)
    with np.errstate(divide="ignore", invalid="ignore"):
        taken = epsilon * (sizes - filled) / filled
        own = inner[1] - taken * inner[2] + taken**2 / 2 * inner[3]
        for edge in (left, right):
            own += np.where(edge > 0, (edge - taken) * np.log(np.where(edge > taken, edge - taken, 1)), 0)
        # bins of levels; the first kept bin is not counted
        bounds = starts[:, None] + np.arange(levels + 1) * (sizes // levels)[:, None]
        bounds[:, 0] += 1
        bounds[:, -1] = stops
        sums, bins = [np.diff(array[bounds], axis=1) for array in (total, number)]
        share = np.where(bins > 0, sums / np.where(bins > 0, bins, 1), 0)
        present = bins.copy()
        present[:, 0] += left > 0
        present[:, -1] += (right > 0) & ~exist[stops - 1]
        sums[:, 0] += left
        sums[:, -1] += right - counts[stops - 1]
        used = np.where(bins > 0, present, 0)
        spread = (epsilon * (sizes - used.sum(1)) / used.sum(1))[:, None]
        other = np.log(np.where(bins > 0, share - spread, epsilon))
        found = own - ((sums - taken[:, None] * present) * np.where(present > 0, other, 0)).sum(1)
        result: Array = found / total[-1] + np.log((share * used).sum(1) / total[-1])
    return np.where((taken < _MOST_TAKEN) & np.isfinite(result), result, np.nan)


@operator(name="_contrib_calibrate_entropy", gradient=nothing)
def calibrate_entropy(hist: Array, hist_edges: Array, *, num_quantized_bins: int = 255) -> tuple[Array, Array]:
    """Return the range whose quantized distribution differs least from a histogram, and the difference.

    The histogram has an odd number of bins around zero. For each candidate, elements beyond the range count in the
    outermost bins, and the others are merged into ``num_quantized_bins`` levels. The difference is the Kullback-Leibler
    divergence of both distributions.
    """
    middle, least = hist.size // 2, num_quantized_bins // 2
    best, chosen = float("inf"), least
    halves = np.arange(least, middle + 1)
    estimates = np.concatenate(
        [_estimates(hist, halves[at : at + _CHUNK], num_quantized_bins) for at in range(0, halves.size, _CHUNK)]
    )
    # MXNet adds up in single precision: the errors of its sums decide between candidates that are nearly equal
    close = np.nanmin(estimates, initial=np.inf) + hist.size * _SUM_ERROR
    for half in halves[~(estimates > close)].tolist():
        found = _divergence(hist, half, num_quantized_bins)
        if found < best:
            best, chosen = found, half
    limit = np.finfo(np.float32).max if best == float("inf") else best
    threshold = hist_edges[middle + chosen + 1]
    return np.array([threshold], np.float32), np.array([limit], np.float32)


@calibrate_entropy.infer
def calibrate_entropy_shape(hist: Node, hist_edges: Node, *, num_quantized_bins: int) -> list[Spec]:
    if hist.ndim != 1 or hist_edges.shape != (hist.shape[0] + 1,):
        raise MXNetError(
            "hist_edges of operator _contrib_calibrate_entropy must have one element more than hist, not the shape "
            f"{format_shape(hist_edges.shape)} for {format_shape(hist.shape)}"
        )
    if hist.dtype != FLOAT32 or hist_edges.dtype != FLOAT32:
        raise MXNetError("operator _contrib_calibrate_entropy takes float32 arrays")
    if not 1 <= num_quantized_bins <= hist.shape[0]:
        raise MXNetError(
            f"num_quantized_bins is {num_quantized_bins}, but the histogram of operator _contrib_calibrate_entropy has "
            f"{hist.shape[0]} bins; use at most as many levels as bins"
        )
    return [((1,), FLOAT32), ((1,), FLOAT32)]


def _types(inputs: list[DType | None], outputs: list[DType | None]) -> tuple[list[DType | None], list[DType | None]]:
    for word, given in zip(("hist", "hist_edges"), inputs, strict=True):
        known_dtype(word, given, FLOAT32)
    return [FLOAT32, FLOAT32], [FLOAT32, FLOAT32]


def _shapes(inputs: list[Partial], outputs: list[Partial]) -> list[Partial]:
    hist, edges = inputs
    if hist is not None and edges is None and len(hist) == 1 and hist[0]:
        return [hist, (hist[0] + 1,)]
    return [hist, edges]


calibrate_entropy.interface = Interface(outputs=("threshold", "divergence"), shapes=_shapes, types=_types)
