"""Random variates: frequencies against exact probabilities, limits of parameters, independence of elements."""

from __future__ import annotations

import math

import numpy as np
import pytest

from phonograd.core.lower.variates import (
    categories,
    gamma,
    log_uniform_sample,
    permutation,
    poisson,
)

COUNT = 60000


def counter(seed=3, call=0):
    return np.array([seed, 0, call, 0], np.uint32)


def assert_frequencies(observed, expected):
    """Assert a chi-squared statistic within five standard deviations; cells with few elements are left out."""
    cells = expected > 20
    statistic = ((observed[cells] - expected[cells]) ** 2 / expected[cells]).sum()
    assert abs(statistic - cells.sum()) < 5 * math.sqrt(2 * cells.sum()) + 5


@pytest.mark.parametrize("mean", [0.3, 3.0, 9.9, 10.0, 15.5, 200.0])
def test_poisson_frequencies(mean):
    drawn = poisson(counter(), np.full(COUNT, mean)).astype(int)
    numbers = np.arange(drawn.max() + 1)
    expected = COUNT * np.exp(numbers * math.log(mean) - mean - np.array([math.lgamma(n + 1) for n in numbers]))
    assert_frequencies(np.bincount(drawn), expected)


@pytest.mark.parametrize("shape", [0.2, 0.99, 1.0, 2.5, 80.0])
def test_gamma_moments(shape):
    drawn = gamma(counter(), np.full(COUNT, shape))
    assert abs(drawn.mean() - shape) < 5 * math.sqrt(shape / COUNT)
    assert abs(drawn.var() - shape) < 5 * math.sqrt((2 * shape**2 + 6 * shape) / COUNT)
    third = ((drawn - shape) ** 3).mean()
    assert abs(third - 2 * shape) < 40 * max(shape, 1) ** 1.5 / math.sqrt(COUNT) * 5


def test_exponential_is_gamma_of_one():
    drawn = np.sort(gamma(counter(), np.ones(COUNT)))
    distance = np.abs(-np.expm1(-drawn) - np.arange(COUNT) / COUNT).max()
    assert distance < 2 / math.sqrt(COUNT)


def test_limits_of_parameters():
    with np.errstate(invalid="ignore"):
        shapes = np.array([0.0, -1.0, np.nan, np.inf])
        np.testing.assert_array_equal(gamma(counter(), shapes), [0, np.nan, np.nan, np.inf])
        np.testing.assert_array_equal(poisson(counter(), shapes), [0, np.nan, np.nan, np.inf])
    assert abs(poisson(counter(), np.array([1e12]))[0] / 1e12 - 1) < 1e-5


@pytest.mark.parametrize(("draw", "parameter"), [(gamma, 0.5), (gamma, 3.0), (poisson, 2.0), (poisson, 50.0)])
def test_elements_do_not_depend_on_each_other(draw, parameter):
    """A longer array starts with the numbers of a shorter one, also across the chunks it is computed in."""
    long = draw(counter(), np.full(40000, parameter))
    np.testing.assert_array_equal(long[:17], draw(counter(), np.full(17, parameter)))
    mixed = np.full(40000, parameter)
    mixed[::2] = 30.0
    np.testing.assert_array_equal(draw(counter(), mixed)[1::2], long[1::2])


def test_mixtures_use_other_words():
    means = np.full(1000, 50.0)
    assert (poisson(counter(), means) != poisson(counter(), means, after_gamma=True)).mean() > 0.8


def test_categories_never_draws_what_is_impossible():
    weights = np.array([[0, 1e-30, 0, 1, 0]])
    assert set(categories(counter(), weights, 10000)[0].tolist()) == {3}
    frequencies = np.bincount(categories(counter(), np.array([[2.0, 6.0]]), COUNT)[0])
    assert_frequencies(frequencies, np.array([0.25, 0.75]) * COUNT)


def test_permutations_are_equally_probable():
    counts: dict[tuple[int, ...], int] = {}
    for call in range(6000):
        order = tuple(permutation(counter(call=call), 3).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert_frequencies(np.array(list(counts.values())), np.full(6, 1000.0))


def test_log_uniform_probabilities():
    first = np.array([log_uniform_sample(counter(), row, 50, 1)[0][0] for row in range(4000)])
    classes = np.arange(50)
    expected = np.log((classes + 2) / (classes + 1)) / math.log(51) * 4000
    assert_frequencies(np.bincount(first, minlength=50), expected)
