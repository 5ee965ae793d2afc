"""Model the efficiency of large groups from measured times of messages, and draw it, for :mod:`benchmarks.distributed`.

A message of S bytes takes ``alpha + beta S`` seconds. Each bucket of gradients begins with an agreement, a reduction of
one number in log2(N) messages. Then either a ring reduces it, with 2 (N - 1) messages of S / N bytes, or recursive
doubling with log2(N) messages of S bytes, whichever is faster. Buckets become final one after the other during the backward pass,
which takes two thirds of a step. A bucket begins when it is final and the one before has been reduced.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from phonograd.distributed.arrays import bucket_limit

#: the numbers of ranks of tables
RANKS = (2, 8, 32, 128, 512, 1000)
_BACKWARD = 2 / 3
_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")


def fit(times: Mapping[str, Mapping[str, float]]) -> tuple[float, float]:
    """Return alpha (seconds) and beta (seconds per byte) of a message, from reductions of float32 with two ranks.

    >>> alpha, beta = fit({str(size): {"ours": 2 * 1e-4 + 4 * size * 1e-8} for size in (1000, 100000, 10000000)})
    >>> round(alpha * 1e4, 3), round(beta * 1e8, 3)
    (1.0, 1.0)
    """
    sizes = np.array([4.0 * int(size) for size in times])
    seconds = np.array([each["ours"] for each in times.values()])
    # an agreement, and one message in each direction; errors count in proportion
    matrix = np.stack([2 * np.ones_like(sizes), sizes], axis=1) / seconds[:, None]
    (alpha, beta), *_ = np.linalg.lstsq(matrix, np.ones_like(seconds), rcond=None)
    return max(float(alpha), 0.0), max(float(beta), 0.0)


def reduction_seconds(ranks: int, size: float, alpha: float, beta: float) -> float:
    """Return the time of one bucket.

    >>> reduction_seconds(2, 1000, 1.0, 0.0)
    2.0
    """
    rounds = math.ceil(math.log2(ranks))
    ring = 2 * (ranks - 1) * (alpha + beta * size / ranks)
    doubling = rounds * (alpha + beta * size)
    return rounds * alpha + min(ring, doubling)


def efficiency(ranks: int, step: float, size: int, bucket: int, alpha: float, beta: float) -> float:
    """Return the share of a step in which a rank of a group computes.

    >>> efficiency(8, 1.0, 1 << 20, 1 << 20, 0.0, 0.0)
    1.0
    """
    count = max(1, round(size / bucket_limit(size, bucket)))
    end = (1 - _BACKWARD) * step
    for number in range(count):
        final = step * (1 - _BACKWARD + _BACKWARD * (number + 1) / count)
        end = max(end, final) + reduction_seconds(ranks, size / count, alpha, beta)
    return step / max(step, end)


def largest_group(share: float, step: float, size: int, bucket: int, alpha: float, beta: float) -> int:
    """Return the largest power of two, up to 4096, with at least a share of efficiency; 1 if there is none."""
    groups = [2**power for power in range(1, 13) if efficiency(2**power, step, size, bucket, alpha, beta) >= share]
    return max(groups, default=1)


def figure(curves: Mapping[str, Sequence[tuple[int, float]]], title: str) -> str:
    """Return an SVG image of efficiencies over numbers of ranks, by the name of a curve."""
    width, height, left, top, right, bottom = 720, 360, 56, 34, 190, 44
    most = max([ranks for points in curves.values() for ranks, _ in points])

    def across(ranks: float) -> float:
        return left + (width - left - right) * math.log2(ranks) / math.log2(most)

    def down(share: float) -> float:
        return top + (height - top - bottom) * (1 - share)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/><text x="{left}" y="20" font-size="14">{title}</text>',
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = down(share)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    power = 1
    while power <= most:
        x = across(power)
        parts.append(f'<text x="{x:.1f}" y="{height - bottom + 18}" text-anchor="middle">{power}</text>')
        power *= 4
    middle = (left + width - right) / 2
    parts.append(f'<text x="{middle:.0f}" y="{height - 8}" text-anchor="middle">ranks</text>')
    for number, (name, points) in enumerate(curves.items()):
        color = _COLORS[number % len(_COLORS)]
        dashes = ' stroke-dasharray="6 4"' if number >= len(curves) / 2 else ""
        line = " ".join([f"{across(ranks):.1f},{down(share):.1f}" for ranks, share in points])
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>')
        y = top + 16 * number + 8
        x = width - right + 12
        parts.append(f'<line x1="{x}" y1="{y}" x2="{x + 22}" y2="{y}" stroke="{color}" stroke-width="2"{dashes}/>')
        parts.append(f'<text x="{x + 28}" y="{y + 4}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def curves_of(models: Mapping[str, Any], links: Mapping[str, tuple[float, float]], bucket: int) -> dict[str, Any]:
    """Return the points of curves: for each link, one curve for each model."""
    return {
        f"{name}, {link}": [
            (ranks, efficiency(ranks, entry["step_seconds"], entry["gradient_bytes"], bucket, alpha, beta))
            for ranks in [2**power for power in range(1, 11)]
        ]
        for link, (alpha, beta) in links.items()
        for name, entry in models.items()
    }
