"""Sorting against NumPy and against what MXNet 1.9.1 answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phonograd.core.base.errors import MXNetError

from .checks import Sample, check_gradients, check_inference
from .samples_ordering import SAMPLES

TIES = np.array([[3, 1, 2, 3], [0, 5, 5, 1]], np.float32)


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_inference(sample):
    check_inference(sample)


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_gradients(sample):
    check_gradients(sample)


def run(name, *arrays, **parameters):
    values = check_inference(Sample(name, arrays, parameters))
    return values[0] if len(values) == 1 else values


def test_equal_elements_keep_their_order():
    assert run("argsort", TIES).tolist() == [[1, 2, 0, 3], [0, 3, 1, 2]]
    assert run("argsort", TIES, is_ascend=False).tolist() == [[0, 3, 2, 1], [1, 2, 3, 0]]
    assert run("argsort", TIES, axis=None).tolist() == [4, 1, 7, 2, 0, 3, 5, 6]
    assert run("argsort", TIES, axis=0, dtype="int32").tolist() == [[1, 0, 0, 1], [0, 1, 1, 0]]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.booleans())
def test_sort_and_argsort_agree(values, is_ascend):
    data = np.array(values, np.int32)
    ordered = run("sort", data, is_ascend=is_ascend)
    assert ordered.tolist() == sorted(values, reverse=not is_ascend)
    indices = run("argsort", data, is_ascend=is_ascend, dtype="int64")
    assert np.array_equal(data[indices], ordered)


def test_nan_is_the_greatest():
    data = np.array([3, np.nan, 1, np.inf], np.float32)
    assert run("argsort", data).tolist() == [2, 0, 3, 1]
    assert run("topk", data, k=2).tolist() == [1, 3]


def test_what_topk_returns():
    assert run("topk", TIES, k=2, ret_typ="value").tolist() == [[3, 3], [5, 5]]
    assert run("topk", TIES, k=2).tolist() == [[0, 3], [1, 2]]
    assert run("topk", TIES, k=3, axis=None).tolist() == [5, 6, 0]
    assert run("topk", TIES, k=3, axis=None, ret_typ="mask").tolist() == [[1, 0, 0, 0], [0, 1, 1, 0]]
    assert run("topk", TIES, axis=0, ret_typ="mask").tolist() == [[1, 0, 0, 1], [0, 1, 1, 0]]
    values, indices = run("topk", TIES, k=2, is_ascend=True, ret_typ="both")
    assert values.tolist() == [[1, 2], [0, 1]]
    assert indices.tolist() == [[1, 2], [0, 3]]
    assert run("topk", TIES, k=-3, ret_typ="value").tolist() == [[3, 3, 2, 1], [5, 5, 1, 0]]


def test_errors():
    with pytest.raises(MXNetError, match="k must be smaller than 4, get k = 9"):
        run("topk", TIES, k=9)
    for name in ("sort", "argsort", "topk"):
        with pytest.raises(MXNetError, match="Invalid axis! axis should be between 0 and 2, found axis=2"):
            run(name, TIES, axis=2)
    with pytest.raises(MXNetError, match="'uint8' does not have a sufficient precision"):
        run("topk", np.zeros(300, np.float32), dtype="uint8")
    with pytest.raises(MXNetError, match="Invalid Input: 'values', valid values are"):
        run("topk", TIES, ret_typ="values")
