"""Activation functions: values of MXNet 1.9.1, gradients at zero and far out, errors."""

from __future__ import annotations

import numpy as np
import pytest

from phonograd.core.base.errors import MXNetError

from .calls import call, gradients
from .samples_activation import COUNTER

NAN = float("nan")
X = np.array([-100, -2, -0.5, 0, 0.5, 30, NAN], np.float32)


@pytest.mark.parametrize(
    ("act_type", "values"),
    [
        ("sigmoid", [0, 0.11920292, 0.37754065, 0.5, 0.62245935, 1, NAN]),
        ("tanh", [-1, -0.96402758, -0.46211717, 0, 0.46211717, 1, NAN]),
        ("softrelu", [0, 0.12692809, 0.47407699, 0.69314724, 0.97407699, 30, NAN]),
        ("softsign", [-0.990099, -0.66666669, -0.33333334, 0, 0.33333334, 0.96774191, NAN]),
        ("relu", [0, 0, 0, 0, 0.5, 30, NAN]),
    ],
)
def test_activation(act_type, values):
    np.testing.assert_allclose(call("Activation", X, act_type=act_type), values, rtol=1e-6, atol=1e-35)


@pytest.mark.parametrize(
    ("act_type", "values", "grads"),
    [
        ("leaky", [-25, -0.5, -0.125, 0, 0.5, 30], [0.25, 0.25, 0.25, 0.25, 1, 1]),
        ("elu", [-0.25, -0.21616618, -0.09836735, 0, 0.5, 30], [0, 0.03383382, 0.15163265, 0.25, 1, 1]),
        (
            "selu",
            [-1.7580993, -1.5201665, -0.69175822, 0, 0.52535051, 31.52103],
            [0, 0.23793286, 1.06634116, 1.7580993, 1.050701, 1.050701],
        ),
        ("gelu", [0, -0.0455001, -0.15426877, 0, 0.3457312, 30], [0, -0.08523187, 0.13250491, 0.5, 0.86749506, 1]),
    ],
)
def test_leaky(act_type, values, grads):
    np.testing.assert_allclose(call("LeakyReLU", X[:6], act_type=act_type), values, rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(gradients("LeakyReLU", [X[:6]], act_type=act_type), grads, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("act_type", ["elu", "selu", "gelu"])
def test_derivatives_far_out_are_finite(act_type):
    far = np.array([-1e4, 1e4], np.float32)
    for order in (1, 2, 3):
        assert np.isfinite(gradients("LeakyReLU", [far], order=order, act_type=act_type)).all()


def test_prelu_broadcasts_over_channels():
    data = np.arange(-6, 6, dtype=np.float32).reshape(2, 3, 2)
    gamma = np.array([0.1, 0.2, 0.3], np.float32)
    expected = np.where(data > 0, data, data * gamma[:, None])
    np.testing.assert_array_equal(call("LeakyReLU", data, gamma, act_type="prelu"), expected)
    grad = gradients("LeakyReLU", [data, gamma], wrt=1, act_type="prelu")
    np.testing.assert_allclose(grad, np.minimum(data, 0).sum(axis=(0, 2)))
    vector = np.array([-1, -2, -3], np.float32)
    np.testing.assert_allclose(call("LeakyReLU", vector, gamma, act_type="prelu"), [-0.1, -0.4, -0.9], rtol=1e-6)


def test_rrelu_returns_slopes():
    data = np.array([-2.0, -1.0, 0.5, 3.0], np.float32)
    out, slopes = call("LeakyReLU", data, None, COUNTER, act_type="rrelu")
    np.testing.assert_allclose(slopes, np.full(4, 0.2295), rtol=1e-6)
    np.testing.assert_allclose(out, [-0.459, -0.2295, 0.5, 3], rtol=1e-6)
    out, slopes = call("LeakyReLU", data, None, COUNTER, act_type="rrelu", training=True)
    assert (slopes >= 0.125).all()
    assert (slopes < 0.334).all()
    assert len(set(slopes.tolist())) == 4
    np.testing.assert_array_equal(out, np.where(data > 0, data, data * slopes))
    grad = gradients("LeakyReLU", [data, None, COUNTER], act_type="rrelu", training=True)
    np.testing.assert_array_equal(grad, np.where(data > 0, 1, slopes))


@pytest.mark.parametrize(
    ("name", "arrays", "parameters", "sentence"),
    [
        ("Activation", [X[:6].astype(np.int32)], {"act_type": "relu"}, "only support floating point types, not int32"),
        ("Activation", [X], {"act_type": "zzz"}, "Invalid Input: 'zzz', valid values are: {'relu', 'sigmoid'"),
        ("LeakyReLU", [X], {"act_type": "prelu"}, "Operator LeakyReLU expects 2 inputs, but got 1 instead"),
        ("LeakyReLU", [X, X], {}, "Operator LeakyReLU expects 1 inputs, but got 2 instead"),
        (
            "LeakyReLU",
            [X.reshape(1, 7), np.ones(2, np.float32)],
            {"act_type": "prelu"},
            r"Cannot broadcast gamma to data. gamma: \[2\], data: \[1,7\]",
        ),
    ],
)
def test_errors(name, arrays, parameters, sentence):
    with pytest.raises(MXNetError, match=sentence):
        call(name, *arrays, **parameters)
