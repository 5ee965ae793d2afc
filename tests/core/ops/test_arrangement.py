"""Repetition, broadcasting, mirroring, diagonals, blocks and borders against NumPy and MXNet 1.9.1."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phonograd.core.base.errors import MXNetError

from .checks import Sample, check_gradients, check_inference
from .samples_arrangement import SAMPLES, array


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


def counting(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_repetition():
    data = counting(2, 3)
    for reps in ((), (2,), (2, 3), (2, 1, 2), (1, 1), (2, 2, 2, 2), (0, 2)):
        assert np.array_equal(run("tile", data, reps=reps), np.tile(data, reps))
    for repeats, axis in ((2, None), (3, 0), (2, -1), (0, 1)):
        assert np.array_equal(run("repeat", data, repeats=repeats, axis=axis), np.repeat(data, repeats, axis))
    fails("repeats cannot be a negative number", "repeat", data, repeats=-1)
    fails("axis = 2 out of bounds", "repeat", data, repeats=2, axis=2)
    fails("reps cannot be negative", "tile", data, reps=(-1,))


def test_broadcasting():
    data = counting(1, 3)
    assert np.array_equal(run("broadcast_to", data, shape=(2, 0)), np.broadcast_to(data, (2, 3)))
    assert np.array_equal(run("broadcast_axes", data, axis=-2, size=2), np.broadcast_to(data, (2, 3)))
    assert run("broadcast_axis", data, axis=0, size=0).shape == (0, 3)
    assert run("broadcast_like", data, array(2, 3), lhs_axes=(0,)).shape == (2, 3)
    fails("Operand of shape [3] cannot be broadcasted to [2,3]", "broadcast_to", array(3), shape=(2, 3))
    fails("Array cannot be broadcasted from [2,3] to [4,3]", "broadcast_to", array(2, 3), shape=(4, 3))
    fails("Broadcasting axis must have size 1", "broadcast_axis", data, axis=1, size=2)
    fails("differ in length", "broadcast_axis", data, axis=(0, 1), size=2)
    fails("Operand of shape [3] cannot be broadcasted to [2,3]", "broadcast_like", array(3), array(2, 3))
    fails("Input_axis and other_axis size", "broadcast_like", data, array(2), lhs_axes=(0, 1), rhs_axes=0)
    fails("Empty axes tuple is not allowed", "broadcast_like", data, array(2), lhs_axes=(), rhs_axes=())
    fails("Invalid dimension specified in lhs_axes: 2", "broadcast_like", data, array(2), lhs_axes=2, rhs_axes=0)
    fails("Invalid dimension specified in rhs_axes: 1", "broadcast_like", data, array(2), lhs_axes=0, rhs_axes=1)
    fails(
        "Input axis 1 at dimension 1 cannot be broadcasted to 2",
        "broadcast_like",
        data,
        array(2),
        lhs_axes=1,
        rhs_axes=0,
    )


def test_mirroring():
    data = counting(2, 3, 4)
    for axis in (0, -1, (0, 2), (), (1, 1)):
        expected = data
        for one in (axis,) if isinstance(axis, int) else axis:
            expected = np.flip(expected, one)
        assert np.array_equal(run("flip", data, axis=axis), expected)
    fails("axis 3 exceeds the input dimension of 3", "reverse", data, axis=3)


def test_diagonals():
    for k in range(-3, 5):
        assert np.array_equal(run("diag", counting(3, 4), k=k), np.diagonal(counting(3, 4), k))
        assert np.array_equal(run("diag", counting(3), k=k), np.diag(counting(3), k))
    data = counting(2, 3, 4)
    for axis1, axis2 in ((0, 1), (1, 2), (-1, 0)):
        assert np.array_equal(run("diag", data, axis1=axis1, axis2=axis2), np.diagonal(data, 0, axis1, axis2))
    fails("Diagonal does not exist.", "diag", counting(2, 3), k=4)
    fails("axis1 and axis2 cannot refer to the same axis 1", "diag", data, axis1=1, axis2=-2)
    fails("axis 2 exceeds the input dimension of 2", "diag", counting(2, 3), axis2=2)
    fails("at least one axis", "diag", counting())


def test_blocks():
    # values of MXNet 1.9.1
    assert run("depth_to_space", counting(1, 4, 1, 2), block_size=2).tolist() == [[[[0, 2, 1, 3], [4, 6, 5, 7]]]]
    assert run("space_to_depth", counting(1, 1, 2, 4), block_size=2).tolist() == [
        [[[0, 2]], [[1, 3]], [[4, 6]], [[5, 7]]]
    ]
    data = counting(2, 8, 2, 3)
    there = run("depth_to_space", data, block_size=2)
    assert np.array_equal(run("space_to_depth", there, block_size=2), data)
    fails("requires exactly 4D tensor", "depth_to_space", array(2, 2), block_size=1)
    fails("block_size must be a positive integer value", "space_to_depth", data, block_size=0)
    fails("Dimension:1(depth dimension) should be a multiple of 'block^2'", "depth_to_space", data, block_size=3)
    fails("Dimension:2(1st Space dimension) should be a multiple of 'block'", "space_to_depth", data, block_size=3)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_borders(mode):
    width = (0, 0, 0, 0, 2, 1, 0, 2)
    data = counting(1, 2, 3, 3)
    pairs = [(0, 0), (0, 0), (2, 1), (0, 2)]
    options = {"constant_values": 1.5} if mode == "constant" else {}
    expected = np.pad(data, pairs, mode, **options)
    assert np.array_equal(run("pad", data, mode=mode, pad_width=width, constant_value=1.5), expected)


def test_borders_have_rules():
    data = counting(1, 1, 3, 3)
    fails("only supports 4-D or 5-D input.", "pad", array(2, 3), mode="edge", pad_width=(0, 0, 1, 1))
    fails("padding on the first two axes to be zero.", "pad", data, mode="edge", pad_width=(0, 0, 1, 0, 0, 0, 0, 0))
    fails("needs 8 widths", "pad", data, mode="edge", pad_width=(0, 0, 0, 0))
    fails("smaller than the input size.", "pad", data, mode="reflect", pad_width=(0, 0, 0, 0, 3, 0, 0, 0))
    fails("Invalid Input: 'wrap', valid values are: {'constant', 'edge', 'reflect'}", "pad", data, mode="wrap")


def test_cropping():
    data = counting(1, 1, 4, 5)
    assert run("Crop", data, h_w=(2, 2)).tolist() == [[[[0, 1], [5, 6]]]]
    assert run("Crop", data, h_w=(2, 2), center_crop=True).tolist() == [[[[6, 7], [11, 12]]]]
    assert run("Crop", data, array(2, 2, 1, 2), offset=(1, 1)).tolist() == [[[[6, 7]]]]
    fails("the crop height(h_w[0]) should be less than the input data's height", "Crop", data, h_w=(5, 2))
    fails("the crop height(h_w[0]) should be larger than 1", "Crop", data)
    fails("offset[0] should be less than the residual space of height", "Crop", data, h_w=(3, 2), offset=(2, 0))
    fails("Input data should be 4D", "Crop", array(4, 4), h_w=(1, 1))
    fails("expects 1 or 2 inputs, but got 3", "Crop", data, data, data)
