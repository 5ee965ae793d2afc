"""Calibration by entropy: the range for which quantized numbers are distributed most like real ones."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import FLOAT32
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface
from ...graph.node import Node
from ...graph.operator import Array, Spec, nothing, operator

__all__ = ["calibrate_entropy"]

#: the probability that replaces zero
_EPSILON = np.float32(0.0001)


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
    first, second = first / first.sum(), second / second.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = first * np.log(first / second)
    return float(terms.sum()) if np.all(np.isfinite(terms)) else float("inf")


@operator(name="_contrib_calibrate_entropy", gradient=nothing)
def calibrate_entropy(hist: Array, hist_edges: Array, *, num_quantized_bins: int = 255) -> tuple[Array, Array]:
    """Return the range whose quantized distribution differs least from a histogram, and the difference.

    The histogram has an odd number of bins around zero. For each candidate, elements beyond the range count in the
    outermost bins, and the others are merged into ``num_quantized_bins`` levels. The difference is the Kullback-Leibler
    divergence of both distributions.
    """
    middle, least = hist.size // 2, num_quantized_bins // 2
    best, chosen = float("inf"), least
    for half in range(least, middle + 1):
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


calibrate_entropy.interface = Interface(outputs=("threshold", "divergence"))
