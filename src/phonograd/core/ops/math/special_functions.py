"""The error function, its inverse, the gamma function, its logarithm and their derivatives, in NumPy.

Every function takes an array of any floating point dtype, computes in double precision and rounds once. The largest
errors against 30 digits, in units in the last place of a double: 1.4 for ``erf``, 2.6 for ``erfinv``, 5.5 for
``gamma``, 2.5 for ``gammaln`` and digamma of positive arguments, 4 for the first three ``polygamma`` of positive
arguments. ``gammaln`` and the derivatives have zeros between the poles on the negative axis. Near a zero the error is
small relative to the terms that cancel, not relative to the value.

The real line is divided into intervals. On each, the function is a polynomial (:mod:`.special_coefficients`) times a
simple factor, or a recurrence moves the argument to such an interval. Large arguments use the asymptotic series.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import special_coefficients as coefficients

__all__ = ["erf", "erfinv", "gamma", "gammaln", "polygamma"]

Array = np.ndarray[Any, Any]
Piece = tuple[Array, Callable[[Array], Array]]

#: elements per block, so that intermediate arrays stay in cache; a million erf take 33 ms, 56 ms without blocks
_CHUNK = 32768
_ROOT_TWO_PI = math.sqrt(2 * math.pi)
#: Stirling's series is exact to rounding from here on
_FAR = 12.0
#: gamma(n) for n = 1, 2, ...: the factorials in the range of a double
_FACTORIALS = np.array([float(math.factorial(n)) for n in range(171)])


def _in_double(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function of arrays of any shape and floating dtype, given one of flat arrays of doubles."""

    @functools.wraps(function)
    def wrapped(data: Array, *arguments: Any) -> Array:
        array = np.asarray(data)
        flat = array.reshape(-1)
        out = np.empty_like(flat)
        with np.errstate(all="ignore"):
            for start in range(0, flat.size, _CHUNK):
                part = slice(start, start + _CHUNK)
                out[part] = function(flat[part].astype(np.float64), *arguments)
        return out.reshape(array.shape)

    return wrapped


def _piecewise(x: Array, *pieces: Piece) -> Array:
    """Evaluate each function on its part of x; elements outside all parts become NaN."""
    out = np.full(x.shape, np.nan)
    for part, function in pieces:
        if part.all():
            return function(x)
        if part.any():
            out[part] = function(x[part])
    return out


def _polynomial(values: Sequence[float], t: Array) -> Array:
    out = np.full(t.shape, values[-1])
    for value in values[-2::-1]:
        out *= t
        out += value
    return out


def _sine_of_pi(x: Array) -> Array:
    """Return sin(pi x), exactly zero at integers."""
    nearest = np.rint(x)
    sine = np.sin(np.pi * (x - nearest))
    return np.where(nearest % 2 == 0, sine, -sine)


# -- the error function


@_in_double
def erf(x: Array) -> Array:
    """Return the error function."""

    def outside(x: Array) -> Array:
        size = np.minimum(np.abs(x), 6.0)
        complement = np.exp(-size * size) * _polynomial(coefficients.ERFC, (size - 2.5) / (size + 2.5))
        return np.asarray(np.copysign(1 - complement, x))

    inside = np.abs(x) <= 1
    return _piecewise(x, (inside, lambda x: x * _polynomial(coefficients.ERF, x * x)), (np.abs(x) > 1, outside))


@_in_double
def erfinv(x: Array) -> Array:
    """Return the inverse error function: infinite at -1 and 1, NaN outside."""

    def tail(x: Array) -> Array:
        # 1 - |x| is exact here
        r = np.sqrt(-np.log(1 - np.abs(x)))
        ratio = _piecewise(
            r,
            (r < 2, lambda r: _polynomial(coefficients.ERFINV_NEAR, r - 1.5)),
            ((r >= 2) & (r < 3.5), lambda r: _polynomial(coefficients.ERFINV_MIDDLE, r - 2.75)),
            ((r >= 3.5) & (r < 7), lambda r: _polynomial(coefficients.ERFINV_FAR, r - 4.75)),
            (r >= 7, np.ones_like),
        )
        return np.asarray(np.copysign(r * ratio, x))

    size = np.abs(x)
    return _piecewise(
        x,
        (size <= 0.75, lambda x: x * _polynomial(coefficients.ERFINV, x * x - 9 / 32)),
        ((size > 0.75) & (size <= 1), tail),
    )


# -- the gamma function


def _gamma_near(x: Array) -> Array:
    """Return gamma between -12 and 12, by its recurrence from [2, 3)."""
    base = x.copy()
    factor = np.ones_like(x)
    # the differences are exact: x - 1 has no more digits than x where both are above 1, and so has x + 1 below -1
    while (above := base >= 3).any():
        base[above] -= 1
        factor[above] *= base[above]
    divisor = np.ones_like(x)
    while (below := base < 2).any():
        divisor[below] *= base[below]
        base[below] += 1
    return _polynomial(coefficients.GAMMA, base - 2.5) * factor / divisor


def _stirling(x: Array) -> tuple[Array, Array]:
    """Return two factors of gamma for x >= 12: gamma(x) = first * second * second. Neither overflows before gamma."""
    first = _ROOT_TWO_PI * np.exp(-x) * _polynomial(coefficients.STIRLING, 1 / x)
    return first, np.power(x, 0.5 * x - 0.25)


def _gamma_far(x: Array) -> Array:
    size = np.minimum(x, 200.0)
    first, second = _stirling(size)
    return np.asarray(first * second * second)


def _gamma_reflected(x: Array) -> Array:
    """Return gamma for x <= -12; far out it is zero with gamma's sign."""
    size = np.minimum(-x, 400.0)
    # only the sign of the sine matters where the argument was cut
    first, second = _stirling(size)
    return np.asarray(-np.pi / (size * _sine_of_pi(-x) * first) / second / second)


@_in_double
def gamma(x: Array) -> Array:
    """Return the gamma function: infinite at zero with the sign of the zero, NaN at negative integers."""
    whole = x == np.rint(x)
    pole = (x <= 0) & whole
    tabulated = (x > 0) & (x <= len(_FACTORIALS)) & whole
    regular = ~pole & ~tabulated
    return _piecewise(
        x,
        (tabulated, lambda x: _FACTORIALS[x.astype(np.int64) - 1]),
        (regular & (np.abs(x) < _FAR), _gamma_near),
        (regular & (x >= _FAR), _gamma_far),
        (regular & (x <= -_FAR), _gamma_reflected),
        (x == 0, lambda x: np.copysign(np.inf, x)),
    )


# -- its logarithm


def _gammaln_around(center: float, table: Sequence[float]) -> Callable[[Array], Array]:
    return lambda x: (x - 1) * (x - 2) * _polynomial(table, x - center)


def _gammaln_near(x: Array) -> Array:
    """Return gammaln between 0.75 and 3.5, exact to rounding around its zeros 1 and 2."""
    return _piecewise(
        x,
        (x < 1.5, _gammaln_around(1, coefficients.GAMMALN_ONE)),
        ((x >= 1.5) & (x < 2.5), _gammaln_around(2, coefficients.GAMMALN_TWO)),
        (x >= 2.5, _gammaln_around(3, coefficients.GAMMALN_THREE)),
    )


def _gammaln_far(x: Array) -> Array:
    inverse = 1 / x
    series = inverse * _polynomial(coefficients.GAMMALN_FAR, inverse * inverse)
    return np.asarray((x - 0.5) * (np.log(x) - 1) + (series + (math.log(2 * math.pi) - 1) / 2))


@_in_double
def gammaln(x: Array) -> Array:
    """Return the logarithm of the absolute value of the gamma function: infinite at its poles."""
    pole = (x <= 0) & (x == np.rint(x))
    regular = ~pole & np.isfinite(x)
    return _piecewise(
        x,
        ((np.abs(x) < 0.75) & regular & (x > -0.25), lambda x: _gammaln_near(1 + x) - np.log(np.abs(x))),
        ((x >= 0.75) & (x < 3.5), _gammaln_near),
        ((x >= 3.5) & (x < _FAR), lambda x: np.log(_gamma_near(x))),
        ((x >= _FAR) & regular, _gammaln_far),
        ((x <= -0.25) & (x > -_FAR) & regular, lambda x: np.log(np.abs(_gamma_near(x)))),
        ((x <= -_FAR) & regular, lambda x: np.log(np.pi / np.abs(x * _sine_of_pi(x))) - _gammaln_far(-x)),
        (pole | np.isinf(x), lambda x: np.full(x.shape, np.inf)),
    )


# -- its derivatives


def _digamma_positive(x: Array) -> Array:
    """Return digamma for positive arguments."""

    def small(x: Array) -> Array:
        return one(1 + x) - 1 / x

    def one(x: Array) -> Array:
        high, low = coefficients.DIGAMMA_ZERO
        return ((x - high) - low) * _polynomial(coefficients.DIGAMMA_ONE, x - 1.5)

    def few(x: Array) -> Array:
        base = x.copy()
        total = np.zeros_like(x)
        while (above := base >= 3).any():
            base[above] -= 1
            total[above] += 1 / base[above]
        return _polynomial(coefficients.DIGAMMA_TWO, base - 2.5) + total

    def far(x: Array) -> Array:
        square = 1 / (x * x)
        return np.asarray(np.log(x) - (0.5 / x + square * _polynomial(coefficients.DIGAMMA_FAR, square)))

    return _piecewise(
        x,
        (x < 1, small),
        ((x >= 1) & (x < 2), one),
        ((x >= 2) & (x < 10), few),
        ((x >= 10) & (x < np.inf), far),
        (x == np.inf, lambda x: x),
    )


def _hurwitz(s: int, x: Array) -> Array:
    """Return the sum of (x + k)**-s over k = 0, 1, ... for positive x and s >= 2, by Euler-Maclaurin summation."""
    # after this many single terms, eight corrections leave a remainder below rounding for every s
    terms = 10 + s
    total = np.zeros_like(x)
    for k in reversed(range(terms)):
        total += (x + k) ** -float(s)
    start = x + terms
    power = start ** -float(s)
    # not start * power: the power alone may underflow
    total += start ** -float(s - 1) / (s - 1) + 0.5 * power
    factor = float(s)
    for j, bernoulli in enumerate(_BERNOULLI, 1):
        power = power / start
        total += (bernoulli / math.factorial(2 * j) * factor) * power
        factor *= (s + 2 * j - 1) * (s + 2 * j)
        power = power / start
    return total


#: the Bernoulli numbers B2, B4, ... B16
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


@functools.lru_cache(maxsize=64)
def _cotangent_derivative(n: int) -> tuple[float, ...]:
    """Return the polynomial P with d^n/du^n cot(u) = P(cot(u)), constant first.

    Each derivative is -(1 + c^2) times the derivative of the last polynomial.
    """
    polynomial = [0, 1]
    for _ in range(n):
        slope = [power * value for power, value in enumerate(polynomial)][1:]
        polynomial = [0] * (len(slope) + 2)
        for power, value in enumerate(slope):
            polynomial[power] -= value
            polynomial[power + 2] -= value
    return tuple([float(value) for value in polynomial])


@_in_double
def polygamma(x: Array, n: int) -> Array:
    """Return the n-th derivative of digamma; n = 0 is digamma itself, the derivative of ``gammaln``.

    At zero and at negative integers odd derivatives are infinite; even ones are NaN, except at zero, where they
    are infinite with the sign opposite to that of the zero.
    """
    sign = -1.0 if n % 2 == 0 else 1.0
    pole = (x <= 0) & (x == np.rint(x))

    def positive(x: Array) -> Array:
        if n == 0:
            return _digamma_positive(x)
        return sign * math.factorial(n) * _hurwitz(n + 1, x)

    def reflected(x: Array) -> Array:
        angle = np.pi * (x - np.rint(x))
        cotangent = np.cos(angle) / np.sin(angle)
        slope = math.pi ** (n + 1) * _polynomial(_cotangent_derivative(n), cotangent)
        return -sign * positive(1 - x) - slope

    def at_pole(x: Array) -> Array:
        if sign > 0:
            return np.full(x.shape, np.inf)
        return np.where(x == 0, np.copysign(np.inf, -x), np.nan)

    return _piecewise(x, (x > 0, positive), ((x < 0) & np.isfinite(x) & ~pole, reflected), (pole, at_pole))
