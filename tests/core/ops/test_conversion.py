"""Casts and limits: values and gradients as MXNet 1.9.1 gives them."""

from __future__ import annotations

import numpy as np
import pytest

from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math import conversion  # noqa: F401
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.run.reference import evaluate

from .checks import Sample, check_gradients, check_inference
from .samples_conversion import SAMPLES


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_inference(sample):
    check_inference(sample)


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_gradients(sample):
    check_gradients(sample)


def run(name, *arrays, **parameters):
    values = check_inference(Sample(name, arrays, parameters))
    return values[0] if len(values) == 1 else values


def test_cast():
    assert run("cast", np.array([-1.5, 300], "f"), dtype="uint8").tolist() == [255, 44]
    assert run("cast", np.array([-1.5, 0], "f"), dtype="bool").tolist() == [True, False]
    with pytest.raises(MXNetError, match="uint16"):
        run("cast", np.array([1.0]), dtype="uint16")


def test_mixed_precision():
    half, single, whole = np.ones(2, "float16"), np.ones(2, "float32"), np.ones(2, "int32")
    assert run("amp_cast", whole, dtype="float16").dtype == np.int32
    assert [a.dtype.name for a in run("amp_multicast", half, whole, single, num_outputs=3)] == [
        "float32",
        "int32",
        "float32",
    ]
    narrow = run("amp_multicast", half, single, num_outputs=2, cast_narrow=True)
    assert [a.dtype.name for a in narrow] == ["float16", "float16"]
    with pytest.raises(MXNetError, match="Operator amp_multicast expects 3 inputs, but got 2 instead"):
        run("amp_multicast", half, single, num_outputs=3)


def test_clip():
    data = np.array([3, np.nan, 1, 1.5, 2.5, 2], np.float32)
    assert str(run("clip", data, a_min=1.5, a_max=2.5).tolist()) == "[2.5, nan, 1.5, 1.5, 2.5, 2.0]"
    assert run("clip", np.array([0, 1.7, 5], "f"), a_min=2, a_max=1).tolist() == [2, 1, 1]
    assert run("clip", np.array([-3, 0, 5], np.int32), a_min=-1.5, a_max=2.7).tolist() == [-1, 0, 2]
    assert run("clip", np.array([3, 0, 5], np.uint8), a_min=-1.5, a_max=2.7).tolist() == [2, 0, 2]
    assert run("clip", np.array([3, 0, 5], np.int8), a_min=-1000, a_max=1000).tolist() == [3, 0, 5]
    with pytest.raises(MXNetError, match="does not take bool"):
        run("clip", np.array([True]), a_min=0, a_max=1)


def test_clip_passes_gradients_at_its_bounds():
    data = np.array([3, np.nan, 1, 1.5, 2.5, 2], np.float32)
    node = leaf(0, data.shape, data.dtype)
    target = variable(node, 0)
    found = differentiate((REGISTRY["clip"](target, a_min=1.5, a_max=2.5),), (None,)).targets[target]
    assert evaluate([found], {node: data})[0].tolist() == [0, 1, 0, 1, 1, 1]
