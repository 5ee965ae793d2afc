"""Arrays made from numbers and shapes: values as MXNet 1.9.1 gives them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.ops.shape import creation  # noqa: F401

from .checks import Sample, check_gradients, check_inference
from .samples_creation import DATA, SAMPLES


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


def test_what_depends_on_a_variable_stays_part_of_the_record():
    target = variable(leaf(0, (2, 3), np.dtype("float32")), 0)
    assert REGISTRY["zeros_like"](target).marked
    assert REGISTRY["ones_like"](target).marked


def test_shapes_and_sizes():
    assert run("shape_array", DATA).tolist() == [2, 3]
    assert run("size_array", DATA).tolist() == [6]


def test_arange():
    assert run("_arange", start=3).tolist() == [0, 1, 2]
    assert run("_arange", start=1, stop=2.5, repeat=2).tolist() == [1, 1, 2, 2]
    # computed in the dtype of the result
    expected = [0.0, 0.30000001192092896, 0.6000000238418579, 0.9000000357627869]
    assert run("_arange", start=0, stop=1, step=0.3).tolist() == expected
    assert run("_arange", start=254, stop=258, dtype="uint8").tolist() == [254, 255, 0, 1]
    assert run("_arange", start=0, stop=2, step=0.5, dtype="int32").tolist() == [0, 0, 0, 0]
    fails("Invalid range (start, stop, step) = (0,0,1)", "_arange", start=0)
    fails("Invalid range (start, stop, step) = (5,1,1)", "_arange", start=5, stop=1)
    fails("Range does not support step=0, received 0", "_arange", start=0, stop=3, step=0)
    fails("Range only supports repeat > 0, received 0", "_arange", start=0, stop=3, repeat=0)
    fails("Operator _arange inferring shapes failed.", "_arange", start=0, infer_range=True)


def test_linspace_and_eye():
    assert run("_linspace", start=0, stop=1, num=3).tolist() == [0, 0.5, 1]
    assert run("_linspace", start=0, stop=10, num=4, dtype="int32").tolist() == [0, 3, 6, 10]
    assert run("_linspace", start=0, stop=1, num=0).tolist() == []
    assert run("_eye", N=2, M=3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]]
    fails("Number of sequence should be non-negative, received -1", "_linspace", start=0, stop=1, num=-1)
    fails("Shape dim size cannot be a negative value -1", "_eye", N=-1)


def test_arange_like():
    assert run("_contrib_arange_like", DATA).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert run("_contrib_arange_like", DATA, axis=-2, start=1, step=0.5).tolist() == [1, 1.5]
    assert run("_contrib_arange_like", DATA, repeat=2).tolist() == [[0, 0, 1], [1, 2, 2]]
    fails("cannot handle param.axis 2.", "_contrib_arange_like", DATA, axis=2)
    fails("Range only supports repeat > 0", "_contrib_arange_like", DATA, repeat=0)
