"""Check random generators by mean, variance and the chi-square test, without SciPy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from .comparison import _as_numpy

__all__ = ["chi_square_check", "gen_buckets_probs_with_ppf", "mean_check", "var_check", "verify_generator"]

Array: TypeAlias = "np.ndarray[Any, Any]"
Generator: TypeAlias = "Callable[[int], Any]"


def _samples(generator: Generator, count: int) -> Array:
    return _as_numpy(generator(count)).reshape(-1).astype(np.float64)


def mean_check(generator: Generator, mu: float, sigma: float, nsamples: int = 1000000) -> bool:
    """Return whether the mean of the samples is within three standard errors of `mu`."""
    samples = _samples(generator, nsamples)
    return bool(abs(samples.mean() - mu) < 3 * sigma / math.sqrt(samples.size))


def var_check(generator: Generator, sigma: float, nsamples: int = 1000000) -> bool:
    """Return whether the variance of normal samples is within three standard errors of ``sigma ** 2``."""
    samples = _samples(generator, nsamples)
    error = math.sqrt(2 * sigma**4 / (samples.size - 1))
    return bool(abs(samples.var(ddof=1) - sigma**2) < 3 * error)


def gen_buckets_probs_with_ppf(
    ppf: Callable[[float], float], nbuckets: int
) -> tuple[list[tuple[float, float]], list[float]]:
    """Return (buckets, probabilities) of equally likely intervals, from the quantile function of a distribution.

    >>> gen_buckets_probs_with_ppf(lambda q: 10 * q, 2)
    ([(0.0, 5.0), (5.0, 10.0)], [0.5, 0.5])
    """
    assert nbuckets > 0, "there must be at least one bucket"
    edges = [float(ppf(position / nbuckets)) for position in range(nbuckets + 1)]
    return list(itertools.pairwise(edges)), [1.0 / nbuckets] * nbuckets


def chi_square_check(
    generator: Generator, buckets: Sequence[Any], probs: Sequence[float], nsamples: int = 1000000
) -> tuple[float, Array, Array]:
    """Return (p-value, counted frequencies, expected frequencies) of the chi-square test.

    Parameters
    ----------
    generator
        ``generator(n)`` returns n samples.
    buckets
        Intervals (low, high) in ascending order for a continuous distribution, or the possible values for a discrete
        one.
    probs
        The probability of each bucket; their sum is 1.
    nsamples
        The number of samples.
    """
    assert isinstance(buckets, list | tuple), "buckets must be a list"
    assert len(probs) == len(buckets), f"{len(buckets)} buckets but {len(probs)} probabilities"
    total = math.fsum(probs)
    if abs(total - 1) > 1e-3:
        raise ValueError(f"the probabilities of the buckets sum to {total}, not to 1")
    samples = _samples(generator, nsamples)
    if isinstance(buckets[0], list | tuple):
        counted = _interval_counts(samples, buckets)
    else:
        counted = np.array([np.count_nonzero(samples == value) for value in buckets])
    expected = samples.size * np.asarray(probs, np.float64)
    statistic = float(((counted - expected) ** 2 / expected).sum())
    return _upper_gamma((len(buckets) - 1) / 2, statistic / 2), counted, expected.astype(np.int32)


def _interval_counts(samples: Array, buckets: Sequence[Sequence[float]]) -> Array:
    edges = np.asarray(buckets, np.float64)
    if (edges[:, 0] > edges[:, 1]).any() or (edges[1:, 0] < edges[:-1, 1]).any():
        raise ValueError(f"the buckets must be in ascending order and must not overlap: {list(buckets)}")
    ordered = np.sort(samples)
    below = np.searchsorted(ordered, edges)
    return np.asarray(below[:, 1] - below[:, 0])


def verify_generator(
    generator: Generator,
    buckets: Sequence[Any],
    probs: Sequence[float],
    nsamples: int = 1000000,
    nrepeat: int = 5,
    success_rate: float = 0.2,
    alpha: float = 0.05,
) -> list[float]:
    """Return the p-values of repeated chi-square tests.

    Raises
    ------
    AssertionError
        If less than a fraction `success_rate` of the tests has a p-value above `alpha`.
    """
    results = [chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)]
    p_values = [p_value for p_value, _, _ in results]
    if sum(p_value > alpha for p_value in p_values) < nrepeat * success_rate:
        counted = [frequencies.tolist() for _, frequencies, _ in results]
        raise AssertionError(
            f"Generator test fails, Chi-square p={p_values}, obs_freq={counted}, "
            f"expected_freq={results[0][2].tolist()}.\nbuckets={list(buckets)}, probs={list(probs)}"
        )
    return p_values


def _upper_gamma(a: float, x: float) -> float:
    """Return the regularized upper incomplete gamma function Q(a, x): the tail of the chi-square distribution.

    Below ``a + 1`` the power series of the lower function converges fast; above, the continued fraction does,
    evaluated from the front by Lentz's method.

    >>> round(_upper_gamma(0.5, 0.5), 12), _upper_gamma(3.0, 0.0)
    (0.317310507863, 1.0)
    """
    if a == 0 or x <= 0:
        return 1.0 if x <= 0 else 0.0
    scale = math.exp(-x + a * math.log(x) - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        step = a
        while abs(term) > abs(total) * 1e-17:
            step += 1
            term *= x / step
            total += term
        return 1 - total * scale
    smallest = 1e-300
    b = x + 1 - a
    c, d = 1 / smallest, 1 / b
    fraction = d
    for n in range(1, 10_000):
        factor = -n * (n - a)
        b += 2
        d = 1 / (factor * d + b or smallest)
        c = b + factor / c or smallest
        fraction *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return scale * fraction
