"""Reshaping, reordering, joining and splitting against NumPy and against what MXNet 1.9.1 answers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.ops.shape.shape import concatenate, split_at
from phonograd.core.run.reference import evaluate

from .checks import Sample, check_gradients, check_inference
from .samples_shape import SAMPLES, array, whole


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_inference(sample):
    check_inference(sample)


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_gradients(sample):
    check_gradients(sample)


def run(name, *arrays, **parameters):
    values = check_inference(Sample(name, arrays, parameters))
    return values[0] if len(values) == 1 else values


def fails(sentence, name, *arrays, **parameters):
    with pytest.raises(MXNetError, match=re.escape(sentence)):
        run(name, *arrays, **parameters)


def test_reshape():
    data = array(2, 3, 4)
    assert np.array_equal(run("reshape", data, shape=(-3, 0)), data.reshape(6, 4))
    assert np.array_equal(run("reshape", data, target_shape=(7, 0), keep_highest=True), data.reshape(2, 12))
    assert np.array_equal(run("reshape", data, shape=(4, 6), target_shape=(5, 0)), data.reshape(4, 6))
    fails("target shape size is larger than the current shape", "reshape", data, shape=(5, 5))
    fails("Cannot reshape array of size 24 into shape (2, 2)", "reshape", data, shape=(2, 2))
    fails("Cannot reshape array of size 24 into shape ()", "reshape", data)


def test_reshape_like():
    assert run("reshape_like", array(30, 12), array(4, 2, 2, 3), lhs_begin=-1, rhs_begin=1).shape == (30, 2, 2, 3)
    data, other = array(2, 6), array(3, 4)
    fails("Cannot reshape lhs with shape [2,6]to new shape [5,2]", "reshape_like", data, array(5, 2))
    limits = {"rhs_begin": 0, "rhs_end": 2}
    fails("Invalid end for lhs_end=3 as dimension number is 2", "reshape_like", data, other, lhs_end=3, **limits)
    fails("Invalid begin for lhs_begin=-5", "reshape_like", data, other, lhs_begin=-5, lhs_end=1, **limits)
    fails("Invalid begin, end, get lhs_begin=1, lhs_end=1", "reshape_like", data, other, lhs_begin=1, lhs_end=1)


def test_axes_of_size_one():
    data = array(1, 3, 1)
    assert run("squeeze", data).shape == (3,)
    assert run("squeeze", data, axis=0).shape == (3, 1)
    assert run("squeeze", data, axis=()).shape == (1, 3, 1)
    assert run("squeeze", array(1, 1), axis=(0, 1)).shape == (1,)
    fails("cannot select an axis to squeeze out which has size=3 not equal to one", "squeeze", data, axis=1)
    fails("axis 5 is out of bounds for array of dimension 3", "squeeze", data, axis=5)
    fails("duplicate value in axis", "squeeze", data, axis=(0, 0))
    for axis in (-3, -2, -1, 0, 1, 2):
        assert np.array_equal(run("expand_dims", array(2, 3), axis=axis).shape, np.expand_dims(array(2, 3), axis).shape)
    fails("axis must be in the range [-2, 2] (3 provided)", "expand_dims", array(2, 3), axis=3)
    fails("Required parameter axis of int is not presented", "expand_dims", data)


def test_order_of_axes():
    data = array(2, 3, 4)
    assert np.array_equal(run("transpose", data), data.T)
    assert np.array_equal(run("transpose", data, axes=(2, 0, 1)), data.transpose(2, 0, 1))
    assert np.array_equal(run("swapaxes", data, dim1=-1, dim2=0), data.swapaxes(-1, 0))
    fails("but the array [2,3,4] has 3", "transpose", data, axes=(0, 1))
    fails("duplicate value in axis", "transpose", data, axes=(0, 0, 1))
    fails("axis 3 exceeds the input dimension of 3", "transpose", data, axes=(0, 1, 3))
    fails("axis 3 is out of bounds for array of ndim 3", "swapaxes", data, dim1=0, dim2=3)


def test_joining():
    first, second = array(2, 3), array(2, 3)
    assert np.array_equal(run("concat", first, second), np.concatenate([first, second], 1))
    assert np.array_equal(run("stack", first, second, axis=1), np.stack([first, second], 1))
    fails("Incompatible input shape: expected [2,-1], got [3,3]", "concat", first, array(3, 3))
    fails("expected data type float32, got data type int32 for input 1", "concat", first, whole(2, 3))
    fails("axis 1 exceeds the input dimension of 1", "concat", array(2), array(3))
    fails("value 0 for Parameter num_args should be greater equal to 1", "concat")
    fails("at 1-th input: expected [2,3], got [2,4]", "stack", first, array(2, 4))
    fails("axis 3 exceeds the input dimension of 3", "stack", first, second, axis=3)
    fails("value 0 for Parameter num_args should be greater equal to 1", "stack")


def test_splitting():
    data = array(2, 6)
    for found, expected in zip(run("split", data, num_outputs=3), np.split(data, 3, 1), strict=True):
        assert np.array_equal(found, expected)
    assert isinstance(REGISTRY["split"](leaf(0, (2, 6), np.dtype("f")), num_outputs=1), Node)
    assert [part.shape for part in run("_split_v2", array(3, 4), indices=(), sections=3)] == [(3, 2), (3, 1), (3, 1)]
    assert [part.shape for part in run("_split_v2", array(3, 4), indices=(0, 4))] == [(3, 4), (3, 0)]
    fails("because 4 does not evenly divide 6", "split", data, num_outputs=4)
    fails("If squeeze axis is True, the size of the sliced axis", "split", data, num_outputs=3, squeeze_axis=True)
    fails("value 0 for Parameter num_outputs should be greater equal to 1", "split", data, num_outputs=0)
    fails("start 3 is not less than end 1for subarray 1", "_split_v2", data, indices=(0, 3, 1))
    fails("end 9 is no less than the size of the axis 6", "_split_v2", data, indices=(0, 9))
    fails("expected axis size of 1 but got 2", "_split_v2", data, indices=(0, 2, 4), squeeze_axis=True)
    fails("must be 0", "_split_v2", data, indices=(1, 3))


def test_unused_parts_have_zero_gradients():
    data = array(2, 4)
    node = leaf(0, data.shape, data.dtype)
    target = variable(node, 0)
    part = REGISTRY["split"](target, num_outputs=2)[1]
    found = differentiate((part,), (None,)).targets[target]
    assert evaluate([found], {node: data})[0].tolist() == [[0, 0, 1, 1], [0, 0, 1, 1]]


def test_split_undoes_concatenate():
    nodes = [leaf(index, (2, width), np.dtype("float32")) for index, width in enumerate((1, 2, 3))]
    parts = split_at(concatenate(nodes, -1), (1, 3), -1)
    assert [part.shape for part in parts] == [(2, 1), (2, 2), (2, 3)]
    assert concatenate(nodes[:1], 0) is nodes[0]
    assert split_at(nodes[0], (), 0) == (nodes[0],)
