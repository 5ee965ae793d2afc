"""Random operators: distributions by their moments and frequencies, determinism, parameters, gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest

from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import variable
from phonograd.core.run.reference import evaluate

from .calls import call, gradients
from .checks import leaves_for
from .samples_random import ARRAYS, COUNTER, NUMBERS

COUNT = 40000


def counter(seed=7, call_number=0):
    return np.array([seed, 0, call_number, 0], np.uint32)


def assert_moments(values, mean, variance):
    """Assert mean and variance within five standard errors (assuming tails no heavier than exponential)."""
    values = np.asarray(values, np.float64)
    size = values.size
    assert abs(values.mean() - mean) < 5 * np.sqrt(variance / size)
    assert abs(values.var() - variance) < 5 * variance * np.sqrt(10 / size)


MOMENTS = {
    "uniform": (0.5, 9 / 12),
    "normal": (1.0, 4.0),
    "gamma": (1.4, 2.8),
    "exponential": (0.25, 1 / 16),
    "poisson": (4.0, 4.0),
    "negative_binomial": (4.5, 11.25),
    "generalized_negative_binomial": (2.0, 3.2),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_moments(name, dtype):
    values = call(f"_random_{name}", counter(), shape=(COUNT,), dtype=dtype, **NUMBERS[name])
    assert_moments(values, *MOMENTS[name])


@pytest.mark.parametrize("name", NUMBERS)
def test_like_and_sample_draw_the_same_numbers(name):
    """The three forms of a distribution are one and the same."""
    values = call(f"_random_{name}", COUNTER, shape=(4,), **NUMBERS[name])
    like = call(f"_random_{name}_like", np.zeros(4, np.float32), COUNTER, **NUMBERS[name])
    np.testing.assert_array_equal(values, like)
    arrays = [np.array([value], np.float32) for value in NUMBERS[name].values()]
    samples = call(f"_sample_{name}", *arrays, COUNTER, shape=4)
    np.testing.assert_allclose(samples[0], values, rtol=1e-5)


@pytest.mark.parametrize("name", ARRAYS)
def test_each_element_has_its_own_distribution(name):
    first, second = call(f"_sample_{name}", *ARRAYS[name], counter(), shape=COUNT)
    alone = [np.array([parameter[1]]) for parameter in ARRAYS[name]]
    other = call(f"_sample_{name}", *alone, counter(8), shape=COUNT)
    assert abs(first.mean() - second.mean()) > 0.2
    assert_moments(second, other.astype(float).mean(), other.astype(float).var())


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_follow_from_the_counter(name):
    draw = [call(f"_random_{name}", counter(*key), shape=(50,), **NUMBERS[name]) for key in ((1,), (1,), (2,), (1, 1))]
    np.testing.assert_array_equal(draw[0], draw[1])
    assert (draw[0] != draw[2]).any()
    assert (draw[0] != draw[3]).any()


def test_without_parameters():
    values = call("_random_uniform", COUNTER)
    assert (values.shape, values.dtype) == ((1,), np.float32)


def test_parameters_have_a_gradient_of_zero():
    for name, arrays in ARRAYS.items():
        grads = gradients(f"_sample_{name}", [*arrays, COUNTER], wrt=tuple(range(len(arrays))), shape=3)
        for grad in grads:
            np.testing.assert_array_equal(grad, np.zeros(2))


def test_whole_numbers():
    values = call("_random_randint", counter(), low=-2, high=3, shape=(COUNT,))
    assert values.dtype == np.int32
    counts = np.bincount(values + 2, minlength=5)
    assert counts.size == 5
    assert np.abs(counts - COUNT / 5).max() < 5 * np.sqrt(COUNT * 0.16)
    wide = call("_random_randint", counter(), low=-(2**62), high=2**62, shape=(100,), dtype="int64")
    assert wide.min() < -(2**55)
    assert wide.max() > 2**55


def test_multinomial():
    probabilities = np.array([[0.1, 0.2, 0.7, 0.0], [0.0, 0.0, 0.0, 1.0]])
    drawn = call("_sample_multinomial", probabilities, counter(), shape=COUNT)
    assert (drawn.shape, drawn.dtype) == ((2, COUNT), np.int32)
    frequencies = np.bincount(drawn[0], minlength=4) / COUNT
    np.testing.assert_allclose(frequencies, probabilities[0], atol=5 / np.sqrt(COUNT))
    assert frequencies[3] == 0
    assert (drawn[1] == 3).all()
    assert call("_sample_multinomial", probabilities[0], COUNTER).shape == (1,)
    assert call("_sample_multinomial", probabilities, COUNTER).shape == (2,)


def test_many_rows_of_a_multinomial():
    rows = np.tile(np.array([[0.25, 0.0, 0.75]], np.float32), (COUNT, 1))
    drawn = call("_sample_multinomial", rows, counter())
    assert abs((drawn == 2).mean() - 0.75) < 0.02
    assert not (drawn == 1).any()


def test_multinomial_probability_has_a_gradient():
    probabilities = np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]])
    drawn, logarithm = call("_sample_multinomial", probabilities, COUNTER, shape=(5,), get_prob=True)
    picked = np.take_along_axis(probabilities, drawn.astype(int), 1)
    np.testing.assert_allclose(logarithm, np.log(picked), rtol=1e-12)
    nodes, bindings = leaves_for([probabilities, COUNTER])
    data = variable(nodes[0], 0)
    outputs = REGISTRY["_sample_multinomial"](data, nodes[1], shape=(5,), get_prob=True)
    grad = evaluate([differentiate((outputs[1],), (None,)).targets[data]], bindings)[0]
    counts = np.stack([np.bincount(row, minlength=3) for row in drawn])
    np.testing.assert_allclose(grad, counts / probabilities, rtol=1e-12)


def test_shuffle_is_a_permutation_of_rows():
    data = np.arange(20, dtype=np.float32).reshape(10, 2)
    shuffled = call("_shuffle", data, counter())
    assert (shuffled != data).any()
    np.testing.assert_array_equal(shuffled[np.argsort(shuffled[:, 0])], data)
    with pytest.raises(MXNetError, match="Operator _shuffle is non-differentiable because it didn't register"):
        gradients("_shuffle", [data, COUNTER])


def test_zipfian_samples_are_unique_and_small_ones_frequent():
    drawn, trials = call("_sample_unique_zipfian", counter(), range_max=1000, shape=(50, 20))
    assert all(len(set(row)) == 20 for row in drawn.tolist())
    assert drawn.min() >= 0
    assert drawn.max() < 1000
    assert (trials >= 20).all()
    assert np.median(drawn) < 120
    everything, _ = call("_sample_unique_zipfian", counter(), range_max=5, shape=(1, 5))
    assert sorted(everything[0].tolist()) == [0, 1, 2, 3, 4]


# -- Dropout


def test_dropout():
    data = np.ones((100, 100), np.float32)
    out = call("Dropout", data, counter(), p=0.3, training=True)
    assert set(np.unique(out).tolist()) == {0.0, float(np.float32(1 / 0.7))}
    assert abs((out == 0).mean() - 0.3) < 0.03
    np.testing.assert_array_equal(gradients("Dropout", [data, counter()], p=0.3, training=True), out)
    np.testing.assert_array_equal(call("Dropout", data, counter(), p=0.3), data)
    assert (call("Dropout", data, counter(), p=0.3, mode="always") == 0).any()


def test_dropout_of_everything_and_nothing():
    data = np.ones((3, 4), np.float32)
    np.testing.assert_array_equal(call("Dropout", data, COUNTER, p=1.0, training=True), np.zeros((3, 4)))
    np.testing.assert_array_equal(gradients("Dropout", [data, COUNTER], p=1.0, training=True), np.zeros((3, 4)))
    np.testing.assert_array_equal(call("Dropout", data, COUNTER, p=0.0, training=True), data)


@pytest.mark.parametrize(("axes", "axis"), [((1,), 1), ((0,), 0), ((-1,), 1)])
def test_dropout_along_axes(axes, axis):
    out = call("Dropout", np.ones((20, 20), np.float32), counter(), training=True, axes=axes)
    assert (out == out.take([0], axis=axis)).all()
    assert len(np.unique(out)) == 2


@pytest.mark.parametrize(
    ("name", "arrays", "parameters", "sentence"),
    [
        ("_random_uniform", [COUNTER], {"low": 2.0, "high": 1.0}, "low must be less or equal to high"),
        ("_random_uniform", [COUNTER], {"dtype": "int32"}, "Invalid Input: 'int32', valid values are"),
        ("_random_normal", [COUNTER], {"scale": -1.0}, "scale parameter in gaussian has to be positive"),
        ("_random_gamma", [COUNTER], {"alpha": -1.0}, "alpha parameter in gamma distribution has to be positive"),
        ("_random_exponential", [COUNTER], {"lam": -1.0}, "lambda parameter in exponential distribution"),
        ("_random_poisson", [COUNTER], {"lam": -1.0}, "lambda parameter in poisson distribution"),
        ("_random_negative_binomial", [COUNTER], {"k": -1}, "k parameter in negative binomial distribution"),
        ("_random_generalized_negative_binomial", [COUNTER], {"alpha": -1.0}, "alpha parameter in generalized"),
        ("_random_randint", [COUNTER], {"low": 5, "high": 2}, "low must be less than high"),
        ("_random_randint", [COUNTER], {"low": 5}, "Required parameter high of int is not presented"),
        ("_random_randint", [COUNTER], {"low": 0, "high": 2**40}, "the bounds have to fit int32"),
        ("_random_randint", [COUNTER], {"low": 0, "high": 2, "dtype": "float32"}, "valid values are: {'None', 'int32'"),
        ("_random_uniform_like", [np.zeros(2, int), COUNTER], {}, "only support floating point types, not int64"),
        ("_sample_uniform", [np.zeros(2), np.ones(3), COUNTER], {}, "Operator _sample_uniform inferring shapes failed"),
        ("_sample_gamma", [np.zeros(2), np.ones(3), COUNTER], {}, "Operator _sample_gamma inferring shapes failed"),
        ("_sample_multinomial", [np.zeros(2), COUNTER], {"dtype": "int64"}, "Invalid Input: 'int64'"),
        ("_sample_unique_zipfian", [COUNTER], {"range_max": 3, "shape": (2, 5)}, "Number of samples cannot exceed"),
        ("Dropout", [np.ones(2), COUNTER], {"p": 1.5}, r"value 1.5 for Parameter p exceed bound \[0,1\]"),
        ("Dropout", [np.ones(2), COUNTER], {"mode": "foo"}, "valid values are: {'always', 'training'}"),
        ("Dropout", [np.ones(2, int), COUNTER], {}, "only support floating point types, not int64"),
        ("Dropout", [np.ones(2), COUNTER], {"axes": (2,), "training": True}, "axis 2 exceeds the input dimension"),
    ],
)
def test_errors(name, arrays, parameters, sentence):
    with pytest.raises(MXNetError, match=sentence):
        call(name, *arrays, **parameters)
