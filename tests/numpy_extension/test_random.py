"""np.random and npx.random: distributions, seeds, gradients, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as onp
import pytest

import phonograd as mx
from phonograd import autograd, np, npx
from phonograd.core.base.errors import MXNetError

COUNT = 40_000
EULER = 0.5772156649015329

#: draws, with mean and standard deviation
DISTRIBUTIONS: dict[str, tuple[Callable[[], Any], float, float]] = {
    "uniform": (lambda: np.random.uniform(-1, 3, COUNT), 1, 4 / math.sqrt(12)),
    "uniform of arrays": (lambda: np.random.uniform(np.array([-1.0]), 3.0, COUNT), 1, 4 / math.sqrt(12)),
    "normal": (lambda: np.random.normal(2, 3, COUNT), 2, 3),
    "normal of arrays": (lambda: np.random.normal(2.0, np.array([3.0]), COUNT), 2, 3),
    "lognormal": (lambda: np.random.lognormal(0.0, 0.5, COUNT), math.exp(0.125), 0.6039),
    "exponential": (lambda: np.random.exponential(2.0, COUNT), 2, 2),
    "rayleigh": (lambda: np.random.rayleigh(2.0, COUNT), 2 * math.sqrt(math.pi / 2), 2 * math.sqrt(2 - math.pi / 2)),
    "weibull": (lambda: np.random.weibull(2.0, COUNT), math.gamma(1.5), math.sqrt(1 - math.gamma(1.5) ** 2)),
    "pareto": (lambda: np.random.pareto(6.0, COUNT), 0.2, math.sqrt(6 / 100)),
    "power": (lambda: np.random.power(3.0, COUNT), 0.75, math.sqrt(3 / 80)),
    "gumbel": (lambda: np.random.gumbel(1.0, 2.0, COUNT), 1 + 2 * EULER, 2 * math.pi / math.sqrt(6)),
    "logistic": (lambda: np.random.logistic(1.0, 2.0, COUNT), 1, 2 * math.pi / math.sqrt(3)),
    "laplace": (lambda: np.random.laplace(1.0, 2.0, COUNT), 1, 2 * math.sqrt(2)),
    "gamma": (lambda: np.random.gamma(2.0, 3.0, COUNT), 6, 3 * math.sqrt(2)),
    "gamma of arrays": (lambda: np.random.gamma(np.array([2.0]), 3.0, COUNT), 6, 3 * math.sqrt(2)),
    "chisquare": (lambda: np.random.chisquare(4.0, COUNT), 4, math.sqrt(8)),
    "beta": (lambda: np.random.beta(2.0, 3.0, COUNT), 0.4, 0.2),
    "poisson": (lambda: np.random.poisson(4.0, COUNT), 4, 2),
    "poisson of arrays": (lambda: np.random.poisson(np.array([4.0]), COUNT), 4, 2),
    "randint": (lambda: np.random.randint(0, 5, COUNT).astype("float32"), 2, math.sqrt(2)),
    "bernoulli": (lambda: npx.random.bernoulli(0.2, size=COUNT), 0.2, 0.4),
    "bernoulli of logits": (lambda: npx.random.bernoulli(logit=math.log(0.25), size=COUNT), 0.2, 0.4),
    "choice": (lambda: np.random.choice(np.array([1.0, 5.0]), COUNT, p=np.array([0.25, 0.75])), 4, math.sqrt(3)),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution(name: str) -> None:
    npx.random.seed(7)
    draw, mean, deviation = DISTRIBUTIONS[name]
    numbers = draw().asnumpy().astype("float64")
    assert numbers.shape == (COUNT,)
    assert abs(numbers.mean() - mean) < 5 * deviation / math.sqrt(COUNT)
    assert abs(numbers.std() - deviation) < 0.06 * deviation


def test_the_seed_repeats_everything() -> None:
    drawn = []
    for _ in range(2):
        npx.random.seed(3)
        drawn.append([np.random.normal(size=3).tolist(), np.random.choice(9, 4, replace=False).tolist()])
    assert drawn[0] == drawn[1]
    np.random.seed(3)
    assert np.random.normal(size=3).tolist() == drawn[0][0]


def test_choices_without_replacement_are_distinct() -> None:
    npx.random.seed(1)
    weights = np.array([0.0, 0.5, 0.5, 0.0])
    assert sorted(np.random.choice(4, 2, replace=False, p=weights).tolist()) == [1, 2]
    assert sorted(np.random.choice(np.arange(6), 6, replace=False).tolist()) == [0, 1, 2, 3, 4, 5]
    assert np.random.choice([7, 7], (2, 2)).tolist() == [[7.0, 7.0], [7.0, 7.0]]


def test_weights_without_replacement() -> None:
    npx.random.seed(1)
    first = [int(np.random.choice(3, 1, replace=False, p=np.array([0.1, 0.2, 0.7]))[0]) for _ in range(600)]
    assert abs(first.count(2) / 600 - 0.7) < 0.1


def test_shuffle_and_permutation() -> None:
    npx.random.seed(1)
    x = np.arange(20)
    np.random.shuffle(x)
    assert x.tolist() != list(range(20))
    assert sorted(x.tolist()) == list(range(20))
    assert sorted(np.random.permutation(5).tolist()) == [0, 1, 2, 3, 4]
    rows = np.random.permutation(np.array([[1, 2], [3, 4]]))
    assert sorted(rows.tolist()) == [[1.0, 2.0], [3.0, 4.0]]


def test_multinomial_counts() -> None:
    npx.random.seed(1)
    counts = np.random.multinomial(1000, [0.2, 0.3, 0.5], size=20)
    assert counts.sum(axis=1).tolist() == [1000] * 20
    onp.testing.assert_allclose(counts.asnumpy().mean(axis=0), [200, 300, 500], rtol=0.05)
    with pytest.raises(TypeError, match="unexpected keyword argument 'shape'"):
        np.random.multinomial(3, [0.5, 0.5], shape=2)


def test_multivariate_normal() -> None:
    npx.random.seed(1)
    covariance = onp.array([[2.0, 0.8], [0.8, 1.0]])
    drawn = np.random.multivariate_normal(np.array([1.0, -1.0]), np.array(covariance, dtype="float32"), 20_000)
    onp.testing.assert_allclose(onp.cov(drawn.asnumpy().T), covariance, atol=0.08)
    onp.testing.assert_allclose(drawn.asnumpy().mean(axis=0), [1, -1], atol=0.05)


def test_out() -> None:
    target = np.zeros((3,))
    assert np.random.uniform(1, 2, size=3, out=target) is target
    assert bool((target >= 1).all())


def test_gradients_pass_to_parameters() -> None:
    npx.random.seed(2)
    scale = np.array([1.0, 2.0])
    scale.attach_grad()
    for draw in (np.random.exponential, np.random.rayleigh):
        with autograd.record():
            numbers = draw(scale)
        numbers.backward()
        onp.testing.assert_allclose(scale.grad.asnumpy(), (numbers / scale).asnumpy(), rtol=1e-6)
    with autograd.record():
        numbers = np.random.normal(0.0, scale)
    numbers.backward()
    onp.testing.assert_allclose(scale.grad.asnumpy(), (numbers / scale).asnumpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        ("np.random.choice(3, 4, replace=False)", ValueError, "larger sample than population"),
        ("np.random.choice(3, 4, p=np.ones(2) / 2)", ValueError, "must have same size"),
        ("np.random.randint(3, 3)", MXNetError, "low must be less than high"),
        ("np.random.uniform(np.ones(3), 1.0, (3, 2))", ValueError, "broadcast"),
        ("np.random.nothing", AttributeError, "'phonograd.np.random' has no attribute 'nothing'"),
        ("np.random.unifrom", AttributeError, "did you mean 'uniform'"),
        ("npx.random.nothing", AttributeError, "'phonograd.npx.random' has no attribute 'nothing'"),
        ("npx.random.bernoulli()", ValueError, "Either `prob` or `logit`"),
    ],
)
def test_mistakes(code: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        eval(code, {"np": np, "npx": npx, "mx": mx})


def test_captured_functions_draw_anew() -> None:
    @mx.compile
    def draw(x: Any) -> tuple[Any, ...]:
        chosen = np.random.choice(1000, 3, replace=False), np.random.choice(np.arange(1000), (2, 2))
        return x + np.random.normal(size=2), *chosen, np.random.multinomial(50, [0.5, 0.5]), np.random.gumbel(x, 1.0)

    seen = [str([part.tolist() for part in draw(np.zeros(2))]) for _ in range(4)]
    assert len(set(seen)) == 4
    assert (draw.captured, draw.repeated) == (1, 3)
