"""Random variates by counter: gamma, Poisson, categories, permutations; NumPy code on words from Philox.

A counter is four 32-bit words: the seed (low, high) and the number of the call (low, high). Equal counters and
parameters give equal numbers. Rejection methods take the words of element *i* in attempt *a* from the Philox counter
with block *i* and attempt *a*, so the elements are independent of each other.

===================  ==================================================================================================
gamma                Marsaglia and Tsang (2000): a transformed normal number, accepted in more than 95 of 100 attempts;
                     shapes below 1 by one more uniform number to the power of 1 / shape
Poisson, mean < 10   inversion: the distribution function is added up until it passes one uniform number
Poisson, mean >= 10  Hörmann's transformed rejection PTRS (1993)
negative binomial    a Poisson number whose mean is a gamma number
categories           inversion of the cumulative sum
permutation          the order of 64-bit random keys
===================  ==================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .philox import philox4x32, uniform, words

__all__ = ["categories", "gamma", "log_uniform_sample", "permutation", "poisson"]

Array = np.ndarray[Any, Any]

#: elements processed at once: the temporary arrays stay in a core's cache
_CHUNK = 1 << 14
#: an attempt fails with a probability below 0.4, so this many failures in a row do not happen
_ATTEMPTS = 256
#: after the first attempt, few elements make several at once: a call of NumPy takes longer than they do
_FEW, _AT_ONCE = 512, 4
#: attempts from here on belong to the Poisson half of a mixture; the gamma half has those below
_POISSON_ATTEMPT = 1 << 12
#: smallest mean for which rejection is faster than the inversion of Poisson's distribution function
_POISSON_LARGE = 10.0

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def _words(counter: Array, positions: Array, attempts: Array | int) -> Array:
    """Return four random words for each position in an attempt, as uint32 of shape (4, n)."""
    block = positions.astype(np.uint64)
    second = (block >> _HALF) | (np.asarray(attempts, np.uint64) << np.uint64(16))
    return philox4x32((block & _LOW, second, int(counter[2]), int(counter[3])), counter[:2])


def _fraction(high: Array, low: Array) -> Array:
    """Return numbers in [0, 1) with 53 random bits."""
    bits = (high.astype(np.uint64) << _HALF) | low.astype(np.uint64)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _positive(word: Array) -> Array:
    """Return numbers in (0, 1) with 32 random bits, for logarithms and powers."""
    return (word.astype(np.float64) + 0.5) * 2.0**-32


def _in_chunks(parameter: Array, draw: Callable[[Array, Array], Array]) -> Array:
    """Return ``draw(positions, parameter)`` for all elements, chunk by chunk."""
    out = np.empty(parameter.shape, np.float64)
    for start in range(0, parameter.size, _CHUNK):
        stop = min(start + _CHUNK, parameter.size)
        out[start:stop] = draw(np.arange(start, stop), parameter[start:stop])
    return out


def _until_accepted(positions: Array, attempt: Callable[[Array, Array, Array | int], tuple[Array, Array]]) -> Array:
    """Return the values of the first accepted attempt.

    ``attempt(places, positions, numbers)`` returns values and whether they are accepted. ``places`` are the indices of
    elements without a value so far, which may be there several times, with another number of the attempt each.
    """
    out = np.empty(positions.size, np.float64)
    open_places = np.arange(positions.size)
    begun = 0
    while open_places.size and begun < _ATTEMPTS:
        rows = _AT_ONCE if begun and open_places.size <= _FEW else 1
        if rows == 1:
            values, accepted = attempt(open_places, positions[open_places], begun)
        else:
            places, columns = np.tile(open_places, rows), np.arange(open_places.size)
            numbers = np.arange(begun, begun + rows).repeat(columns.size)
            values, accepted = [each.reshape(rows, -1) for each in attempt(places, positions[places], numbers)]
            first = accepted.argmax(0)
            values, accepted = values[first, columns], accepted[first, columns]
        # a rejected value stays only if it was the last attempt
        out[open_places] = values
        open_places = open_places[~accepted]
        begun += rows
    return out


def gamma(counter: Array, shape: Array) -> Array:
    """Return gamma numbers of scale 1 for a vector of shape parameters; 0 for shape 0, NaN below."""
    shape = shape.astype(np.float64)
    usable = (shape > 0) & np.isfinite(shape)
    drawn = _in_chunks(np.where(usable, shape, 1.0), lambda positions, part: _gamma(counter, positions, part))
    return np.where(usable, drawn, np.where(shape < 0, np.nan, shape))


def _gamma(counter: Array, positions: Array, shape: Array) -> Array:
    small = shape < 1
    d = np.where(small, shape + 1, shape) - 1 / 3
    c = 1 / np.sqrt(9 * d)

    def attempt(places: Array, where: Array, numbers: Array | int) -> tuple[Array, Array]:
        first, second, third, _ = _words(counter, where, numbers)
        radius = np.sqrt(-2 * np.log(_positive(first)))
        normal = radius * np.cos(second.astype(np.float64) * (2 * math.pi * 2.0**-32))
        root = 1 + c[places] * normal
        cube = np.where(root > 0, root, 1.0) ** 3
        steep = d[places]
        bound = 0.5 * normal * normal + steep * (1 - cube + np.log(cube))
        return steep * cube, (root > 0) & (np.log(_positive(third)) < bound)

    drawn = _until_accepted(positions, attempt)
    if small.any():
        fourth = _words(counter, positions[small], 0)[3]
        drawn[small] *= _positive(fourth) ** (1 / shape[small])
    return drawn


def poisson(counter: Array, mean: Array, after_gamma: bool = False) -> Array:
    """Return Poisson numbers for a vector of means, as float64; NaN for negative means.

    ``after_gamma`` means that the words of the first attempts were used for the means.
    """
    mean = mean.astype(np.float64)
    start = _POISSON_ATTEMPT if after_gamma else 0
    usable = (mean >= 0) & np.isfinite(mean)

    def draw(positions: Array, part: Array) -> Array:
        large = part >= _POISSON_LARGE
        if large.all():
            return _poisson_by_rejection(counter, positions, part, start)
        if not large.any():
            return _poisson_by_inversion(counter, positions, part, start)
        out = np.empty(part.size, np.float64)
        out[~large] = _poisson_by_inversion(counter, positions[~large], part[~large], start)
        out[large] = _poisson_by_rejection(counter, positions[large], part[large], start)
        return out

    drawn = _in_chunks(np.where(usable, mean, 0.0), draw)
    return np.where(usable, drawn, np.where(mean < 0, np.nan, mean))


def _poisson_by_inversion(counter: Array, positions: Array, mean: Array, start: int) -> Array:
    high, low, _, _ = _words(counter, positions, start)
    target = _fraction(high, low)
    term = np.exp(-mean)
    total = term.copy()
    out = np.zeros(mean.size, np.float64)
    step = 0
    # the terms of a mean below ten vanish in double precision before the hundredth
    while step < 100:
        above = target >= total
        if not above.any():
            break
        step += 1
        term = term * mean / step
        out += above
        total = total + term
    return out


def _poisson_by_rejection(counter: Array, positions: Array, mean: Array, start: int) -> Array:
    # the constants are those of Hörmann's paper
    spread = 0.931 + 2.53 * np.sqrt(mean)
    centre = -0.059 + 0.02483 * spread
    inverse = 1.1239 + 1.1328 / (spread - 3.4)
    quick = 0.9277 - 3.6224 / (spread - 2)
    log_mean = np.log(mean)

    def attempt(places: Array, where: Array, numbers: Array | int) -> tuple[Array, Array]:
        first, second, third, fourth = _words(counter, where, start + numbers)
        offset = _fraction(first, second) - 0.5
        height = np.maximum(_fraction(third, fourth), 2.0**-54)
        edge = np.maximum(0.5 - np.abs(offset), 2.0**-54)
        a, b = centre[places], spread[places]
        value = np.floor((2 * a / edge + b) * offset + mean[places] + 0.43)
        possible = (value >= 0) & ((edge >= 0.013) | (height <= edge))
        count = np.where(possible, value, 0.0)
        left = np.log(height * inverse[places] / (a / (edge * edge) + b))
        right = count * log_mean[places] - mean[places] - _log_factorial(count)
        squeezed = (edge >= 0.07) & (height <= quick[places])
        return count, squeezed & (value >= 0) | possible & (left <= right)

    return _until_accepted(positions, attempt)


_LOG_FACTORIALS = np.array([math.lgamma(n + 1) for n in range(16)])


def _log_factorial(n: Array) -> Array:
    """Return log(n!) of whole numbers: a table, and Stirling's series from 16 on (error below 1e-12)."""
    large = np.maximum(n, 16.0)
    square = 1 / (large * large)
    series = (1 / 12 - square * (1 / 360 - square / 1260)) / large
    stirling = (large + 0.5) * np.log(large) - large + 0.5 * math.log(2 * math.pi) + series
    return np.where(n < 16, _LOG_FACTORIALS[np.minimum(n, 15).astype(np.int64)], stirling)


def categories(counter: Array, weights: Array, samples: int) -> Array:
    """Return, for each row of weights, ``samples`` positions drawn in proportion to them: int64 (rows, samples)."""
    rows = weights.shape[0]
    cumulative = np.cumsum(weights, axis=-1, dtype=np.float64)
    total = cumulative[:, -1:]
    target = uniform(counter[:2], counter[2:], rows * samples, np.dtype(np.float64)).reshape(rows, samples) * total
    # rounding must not lift a number to the total: the last weights may be zero
    target = np.minimum(target, np.nextafter(total, 0))
    out = np.empty((rows, samples), np.int64)
    if rows <= samples:
        for row in range(rows):
            out[row] = np.searchsorted(cumulative[row], target[row], side="right")
    else:
        for sample in range(samples):
            out[:, sample] = (cumulative <= target[:, sample : sample + 1]).sum(axis=-1)
    return np.asarray(np.minimum(out, weights.shape[1] - 1))


def permutation(counter: Array, count: int) -> Array:
    """Return the integers below ``count`` in random order."""
    keys = words(counter[:2], counter[2:], 2 * count).astype(np.uint64)
    return np.argsort((keys[:count] << _HALF) | keys[count:], kind="stable")


def log_uniform_sample(counter: Array, row: int, classes: int, count: int) -> tuple[Array, int]:
    """Return ``count`` different integers below ``classes``, and the number of draws.

    Class *c* is drawn with probability log((c + 2) / (c + 1)) / log(classes + 1).
    """
    seen: dict[int, None] = {}
    trials = 0
    while len(seen) < count:
        positions = np.arange(trials, trials + max(count, 16))
        high, low, _, _ = _words(counter, positions + (row << 32), 0)
        drawn = np.expm1(_fraction(high, low) * math.log1p(classes)).astype(np.int64) % classes
        for value in drawn.tolist():
            trials += 1
            seen[value] = None
            if len(seen) == count:
                break
    return np.array(list(seen), np.int64), trials
