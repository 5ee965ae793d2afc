"""The softmax family: values of MXNet 1.9.1, extreme arguments, lengths and errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phonograd.core.base.errors import MXNetError

from .calls import call, gradients

X = np.array([[1, 2, 3], [4, 5, 7]], np.float32)
INFINITY = float("inf")


def test_values_of_mxnet():
    np.testing.assert_allclose(
        call("softmax", X, temperature=2.0),
        [[0.18632373, 0.30719590, 0.50648040], [0.14024438, 0.23122390, 0.62853169]],
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        call("log_softmax", X, temperature=2.0),
        [[-1.68026972, -1.18026972, -0.68026966], [-1.96436882, -1.46436882, -0.46436879]],
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        call("softmin", X, axis=0), [[0.95257413, 0.95257413, 0.98201376], [0.04742587, 0.04742587, 0.01798621]], 1e-5
    )


def test_the_gradient_of_log_softmax_is_as_exact_as_softmax():
    scores = np.linspace(-80, 0, 64, dtype=np.float32)[None]
    head = np.eye(1, 64, 63, dtype=np.float32)
    found = gradients("log_softmax", [scores], head=head)
    powers = np.exp(scores.astype(np.float64))
    # an exponential of the rounded logarithm would be wrong by the rounding of numbers near 80
    np.testing.assert_allclose(found[:, :63], -(powers / powers.sum())[:, :63], rtol=1e-6)


def test_length_masks_the_tail():
    values = call("softmax", X, np.array([2, 0], np.int32), axis=1, use_length=True)
    np.testing.assert_allclose(values, [[0.26894143, 0.7310586, 0], [0, 0, 0]], rtol=1e-6)
    columns = call("softmax", X, np.array([2, 0, 1], np.int64), axis=0, use_length=True)
    np.testing.assert_allclose(columns, [[0.04742587, 0, 1], [0.95257413, 0, 0]], rtol=1e-5)


def test_what_is_behind_the_length_does_not_matter():
    broken = X.copy()
    broken[0, 2], broken[1] = np.nan, INFINITY
    lengths = np.array([2, 0], np.int32)
    values = call("softmax", broken, lengths, axis=1, use_length=True)
    np.testing.assert_allclose(values, [[0.26894143, 0.7310586, 0], [0, 0, 0]], rtol=1e-6)
    grad = gradients("softmax", [broken, lengths], head=[[1, 2, 3], [4, 5, 6]], axis=1, use_length=True)
    np.testing.assert_allclose(grad, [[-0.19661193, 0.19661193, 0], [0, 0, 0]], rtol=1e-5)


def test_masked_scores_are_possible():
    data = np.array([[1.0, -INFINITY, 0.0]], np.float32)
    np.testing.assert_allclose(call("softmax", data), [[0.7310586, 0, 0.26894143]], rtol=1e-6)
    assert call("log_softmax", data)[0, 1] == -INFINITY
    assert np.isfinite(gradients("softmax", [data], head=[[1, 2, 3]])).all()


@given(st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=1, max_size=6), st.sampled_from([1, -1]))
def test_rows_sum_to_one_however_large_the_scores(scores, sign):
    row = np.array([scores], np.float32) * np.float32(sign)
    assert abs(float(call("softmax", row).sum()) - 1) < 1e-5
    assert (call("log_softmax", row) <= 0).all()


def test_log_softmax_is_exact_where_softmax_is_zero():
    data = np.array([[0.0, 200.0]], np.float32)
    np.testing.assert_array_equal(call("log_softmax", data), [[-200, 0]])
    np.testing.assert_array_equal(gradients("log_softmax", [data], head=[[1, 0]]), [[1, -1]])


def test_half_precision_is_computed_in_single():
    data = np.linspace(0, 1, 2000).astype(np.float16)[None]
    exact = call("softmax", data.astype(np.float64))
    np.testing.assert_allclose(call("softmax", data), exact, rtol=1e-3)
    np.testing.assert_allclose(call("softmax", data, dtype="float32"), exact, rtol=1e-5)


def test_second_derivative_of_the_log_sum():
    """The gradient of -log softmax[0] is p - e0, its derivative p_i * (delta_ij - p_j)."""
    data = np.array([0.3, -0.5, 1.0])
    p = call("softmax", data)
    head = np.array([-1.0, 0.0, 0.0])
    np.testing.assert_allclose(gradients("log_softmax", [data], head=head), p - [1, 0, 0], rtol=1e-12)
    np.testing.assert_allclose(gradients("log_softmax", [data], head=head, order=2), np.zeros(3), atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "parameters", "sentence"),
    [
        ([X], {"axis": 5}, "axis 5 exceeds the input dimension of 2"),
        ([X.astype(np.int32)], {}, "This operation only support floating point types, not int32"),
        (
            [X],
            {"dtype": "int32"},
            "Invalid Input: 'int32', valid values are: {None, 'bfloat16', 'float16', 'float32', 'float64'}",
        ),
        ([X], {"use_length": True}, "Operator softmax expects 2 inputs, but got 1 instead"),
        ([X, np.array([1, 2])], {}, "Operator softmax expects 1 inputs, but got 2 instead"),
        ([X, np.array([1.0, 2.0])], {"use_length": True}, "only support integer types, not float64"),
        (
            [X, np.array([1, 2, 3])],
            {"use_length": True},
            r"Shape inconsistent, Provided = \[3\], inferred shape=\[2\]",
        ),
    ],
)
def test_errors(arguments, parameters, sentence):
    with pytest.raises(MXNetError, match=sentence):
        call("softmax", *arguments, **parameters)


def test_other_errors():
    with pytest.raises(MXNetError, match="use_length=True works with softmax only"):
        call("log_softmax", X, use_length=True)
    with pytest.raises(MXNetError, match="Input need to have a least 3 dimensions when mode=channel"):
        call("SoftmaxActivation", X, mode="channel")


def test_softmax_activation():
    data = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    np.testing.assert_allclose(call("SoftmaxActivation", data)[0, 0], [0.26894143, 0.7310586], rtol=1e-6)
    channels = call("SoftmaxActivation", data, mode="channel")
    np.testing.assert_allclose(channels[0, :, 0], [0.11920292, 0.880797], rtol=1e-6)
