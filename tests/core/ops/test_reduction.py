"""Reductions against NumPy and against what MXNet 1.9.1 answers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.ops.reduce.reduction import max_axes, mean_axes, min_axes, prod_axes, sum_axes
from phonograd.core.run.reference import evaluate

from .checks import Sample, check_gradients, check_inference
from .samples_reduction import SAMPLES, array, distinct

NAN = float("nan")


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_inference(sample):
    check_inference(sample)


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_gradients(sample):
    check_gradients(sample)


def run(name, *arrays, **parameters):
    values = check_inference(Sample(name, arrays, parameters))
    return values[0] if len(values) == 1 else values


def gradient_of(name, data, **parameters):
    node = leaf(0, data.shape, data.dtype)
    target = variable(node, 0)
    found = differentiate((REGISTRY[name](target, **parameters),), (None,)).targets[target]
    return evaluate([found], {node: data})[0]


NUMPY = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min}
NUMPY.update(nansum=np.nansum, nanprod=np.nanprod)


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("axis", [0, -1, (0, 2), (2, 0), (1, -1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_agrees_with_numpy(name, axis, keepdims):
    data = distinct(2, 3, 4, dtype="float64")
    np.testing.assert_allclose(
        run(name, data, axis=axis, keepdims=keepdims), NUMPY[name](data, axis=axis, keepdims=keepdims), rtol=1e-12
    )


@pytest.mark.parametrize("name", NUMPY)
def test_no_axes_means_all_of_them(name):
    data = distinct(2, 3)
    whole = run(name, data)
    assert whole.shape == (1,)
    assert np.array_equal(run(name, data, axis=()), whole)
    assert np.array_equal(run(name, data, axis=(), exclude=True), whole)
    assert np.array_equal(run(name, data, axis=(0, 1)), whole)
    assert run(name, data, keepdims=True).shape == (1, 1)
    assert np.array_equal(run(name, data, axis=(0, 1), exclude=True), data)
    assert run(name, data[0], axis=0).shape == (1,)


def test_errors_of_axes():
    data = array(2, 3, 4)
    for axis, sentence in (
        (3, "Reduction axis 3 Exceeds input dimensions [2,3,4]"),
        (-4, "Reduction axis [-4] Exceeds input dimensions [2,3,4]"),
        ((0, -3), "Reduction axes have duplicates [0,0]"),
    ):
        with pytest.raises(MXNetError, match=re.escape(sentence)):
            run("sum", data, axis=axis)
    with pytest.raises(MXNetError, match="has no identity"):
        run("max", array(0, 2), axis=0)
    with pytest.raises(MXNetError, match="empty sequence"):
        run("argmax", array(0, 2), axis=0)


def test_integers_stay_integers():
    assert run("mean", np.array([1, 2, 5], np.int32)).tolist() == [2]
    assert run("mean", np.array([-1, -2, -5], np.int32)).tolist() == [-2]
    assert run("mean", np.array([200, 200], np.uint8)).tolist() == [200]
    assert run("sum", np.array([200, 200], np.uint8)).tolist() == [144]
    assert run("sum", np.array([False, True])).tolist() == [True]
    assert run("norm", np.array([3, 4], np.int32)).tolist() == [5]


def test_nan():
    data = np.array([[1, NAN, 3], [NAN, NAN, NAN]], np.float32)
    assert run("nansum", data, axis=1).tolist() == [4, 0]
    assert run("nanprod", data, axis=1).tolist() == [3, 1]
    assert np.isnan(run("max", data, axis=1)).all()
    assert run("argmax", data, axis=1).tolist() == [1, 0]
    assert gradient_of("nansum", data).tolist() == [[1, 0, 1], [0, 0, 0]]
    assert gradient_of("nanprod", data, axis=1).tolist() == [[3, 0, 1], [0, 0, 0]]


def test_every_extremum_gets_the_gradient():
    data = np.array([[1, 1, 0], [0, 0, 0]], np.float32)
    assert gradient_of("max", data, axis=1).tolist() == [[1, 1, 0], [1, 1, 1]]
    assert gradient_of("min", data).tolist() == [[0, 0, 1], [1, 1, 1]]


@given(st.lists(st.integers(-2, 2), min_size=0, max_size=9))
def test_gradient_of_products_is_exact_at_zeros(values):
    data = np.array(values, np.float64)
    expected = [np.prod(np.delete(data, position)) for position in range(len(values))]
    if values:
        assert gradient_of("prod", data).tolist() == expected


def test_products_need_few_nodes():
    """The gradient of a product of many elements takes steps of the order of the logarithm of their number."""
    from phonograd.core.graph.node import ancestors

    target = variable(leaf(0, (4096,), np.dtype("float32")), 0)
    found = differentiate((REGISTRY["prod"](target),), (None,)).targets[target]
    assert len(ancestors([found])) < 150


def test_norm_neither_overflows_nor_underflows():
    for dtype, scale in (("float32", 1e30), ("float32", 1e-30), ("float16", 100), ("float64", 1e300)):
        data = np.array([3 * scale, 4 * scale], dtype)
        np.testing.assert_allclose(run("norm", data), [5 * scale], rtol=1e-3)
    assert run("norm", np.array([np.inf, 1], np.float32)).tolist() == [np.inf]
    assert np.isnan(run("norm", np.array([NAN, 1], np.float32))).all()
    assert run("norm", np.zeros(3, np.float32)).tolist() == [0]
    with pytest.raises(MXNetError, match="norm only supports ord=1 and ord=2"):
        run("norm", array(3), ord=3)


def test_moments():
    data = array(2, 3, 4, dtype="float64")
    mean, variance = run("moments", data, axes=(0, 2))
    np.testing.assert_allclose(mean, data.mean((0, 2)))
    np.testing.assert_allclose(variance, data.var((0, 2)))
    with pytest.raises(MXNetError, match="Empty axes is not supported"):
        run("moments", data)


def test_multi_sum_sq():
    assert run("multi_sum_sq", np.array([1, 2, 3], "f"), np.array([[2]], "f"), num_arrays=2).tolist() == [14, 4]
    with pytest.raises(MXNetError, match="expects 2 inputs, but got 1 instead"):
        run("multi_sum_sq", array(2), num_arrays=2)
    with pytest.raises(MXNetError, match="only support floating point types, not int32"):
        run("multi_sum_sq", np.arange(3, dtype=np.int32), num_arrays=1)
    with pytest.raises(MXNetError, match="requires uniform type"):
        run("multi_sum_sq", array(2), array(2, dtype="float64"), num_arrays=2)


def test_cumsum_converts_first():
    assert run("cumsum", np.array([1.7, 1.7], "f"), dtype="int32").tolist() == [1, 2]
    assert run("cumsum", np.array([100, 100], np.int32), dtype="int8").tolist() == [100, -56]
    assert run("cumsum", np.array([[1, 2], [3, 4]], np.int32)).tolist() == [1, 3, 6, 10]
    with pytest.raises(MXNetError, match="axis value 2 out of range"):
        run("cumsum", array(2, 3), axis=2)


def test_positions():
    data = np.array([[1, 3, 3], [2, 2, 2]], np.float32)
    assert run("argmax", data, axis=1).tolist() == [1, 0]
    assert run("argmin", data, axis=0).tolist() == [0, 1, 1]
    assert run("argmax", data).tolist() == [1]
    assert run("argmax", data, keepdims=True).tolist() == [[1]]
    assert run("argmax_channel", data).tolist() == [1, 0]
    for name, axis in (("argmax", 2), ("argmin", -3)):
        with pytest.raises(MXNetError, match=f"axis {axis} exceeds the input dimension of 2"):
            run(name, data, axis=axis)
    with pytest.raises(MXNetError, match="does not take bool"):
        run("argmax", data > 1)
    with pytest.raises(MXNetError, match="Operator argmax_channel is non-differentiable"):
        gradient_of("argmax_channel", data)


def test_functions_on_nodes_have_numpy_shapes():
    node = leaf(0, (2, 3), np.dtype("float32"))
    for function in (sum_axes, mean_axes, max_axes, min_axes, prod_axes):
        assert function(node, (0, 1)).shape == ()
        assert function(node, (-1,)).shape == (2,)
        assert function(node, (1,), keepdims=True).shape == (2, 1)
        assert function(node, ()).shape == (2, 3)
