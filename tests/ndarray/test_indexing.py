"""Reading and writing parts, against NumPy, values and gradients. Messages stand in recorded/indexing.json."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.node import statistics

from ..core.array.test_keys import advanced_keys, basic_keys


def counted(shape: tuple[int, ...]) -> Any:
    return np.arange(1.0, 1 + int(np.prod(shape))).reshape(shape)


def selected(values: Any, key: Any) -> Any:
    """Return what NumPy selects, in the shape that MXNet gives single elements."""
    found = values[key]
    return found.reshape(1) if found.shape == () else found


@given(basic_keys() | advanced_keys(), st.booleans())
def test_reading(drawn: Any, pending: bool) -> None:
    shape, key = drawn
    values = counted(shape)
    x = nd.array(values, dtype="float64")
    if pending:
        x = x * 1
    expected = selected(values, key)
    found = x[key]
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.asnumpy(), expected)


@given(basic_keys() | advanced_keys())
def test_gradient_of_reading(drawn: Any) -> None:
    shape, key = drawn
    values = counted(shape)
    x = nd.array(values, dtype="float64")
    x.attach_grad()
    with autograd.record():
        part = x[key]
        weights = nd.array(counted(part.shape), dtype="float64")
        total = (part * weights).sum() + (x * 0).sum()
    total.backward()
    expected = np.zeros(shape)
    np.add.at(expected, key, counted(part.shape).reshape(np.shape(values[key])))
    np.testing.assert_allclose(x.grad.asnumpy(), expected)


@given(
    basic_keys() | advanced_keys(), st.sampled_from(["number", "array", "numpy", "list", "broadcast"]), st.booleans()
)
def test_writing(drawn: Any, kind: str, pending: bool) -> None:
    shape, key = drawn
    values = counted(shape)
    x = nd.array(values, dtype="float64")
    if pending:
        x = x * 1
    part = values[key]
    filling = -counted(part.shape)
    value: Any = {
        "number": -7.0,
        "array": nd.array(filling, dtype="float64"),
        "numpy": filling,
        "list": filling.tolist(),
        "broadcast": nd.full((1,) * part.ndim, -7.0, dtype="float64"),
    }[kind]
    x[key] = value
    # elements named twice keep the last value, as in NumPy
    values[key] = -7.0 if kind in ("number", "broadcast") else filling
    np.testing.assert_array_equal(x.asnumpy(), values)


@settings(max_examples=60)
@given(basic_keys() | advanced_keys())
def test_gradient_of_writing(drawn: Any) -> None:
    """What is overwritten has no gradient, what is written gets that of the place where it stays."""
    shape, key = drawn
    values = counted(shape)
    base, part = nd.array(values, dtype="float64"), values[key]
    value = nd.array(counted(part.shape), dtype="float64")
    base.attach_grad()
    value.attach_grad()
    weights = counted(shape)
    with autograd.record():
        y = base * 1
        y[key] = value
        total = (y * nd.array(weights, dtype="float64")).sum() + value.sum() * 0
    total.backward()
    kept = np.ones(shape)
    kept[key] = 0
    np.testing.assert_allclose(base.grad.asnumpy(), kept * weights)
    number = np.full(shape, -1)
    number[key] = np.arange(part.size).reshape(part.shape)
    expected = np.zeros(part.size)
    expected[number[number >= 0]] = weights[number >= 0]
    np.testing.assert_allclose(value.grad.asnumpy().reshape(-1), expected)


class TestIndexArrays:
    def test_index_is_used_lazily(self):
        x, index = nd.arange(5), nd.array([0, 1])
        picked = x[index + 2]
        index[:] = 4
        assert picked.asnumpy().tolist() == [2, 3]

    def test_bad_index_is_reported_with_its_line(self):
        x = nd.arange(3)
        picked = x[nd.array([[[[5]]]])]
        healthy = x * 2
        with pytest.raises(
            IndexError, match=r"index 5 is out of bounds for axis 0 with size 3(.|\n)*test_indexing\.py:\d+"
        ):
            picked.asnumpy()
        assert healthy.asnumpy().tolist() == [0, 2, 4]

    def test_negative_and_fractional(self):
        x = nd.arange(4)
        assert x[nd.array([-1, -4, 1.9])].asnumpy().tolist() == [3, 0, 1]
        assert x[[-1, 0]].asnumpy().tolist() == [3, 0]

    def test_boolean_masks_are_refused_or_numbers(self):
        x = nd.arange(3)
        with pytest.raises(ValueError, match="Cannot perform boolean indexing in legacy mode"):
            x[nd.array([1, 0, 1], dtype="bool")]
        assert x[np.array([True, False, True])].asnumpy().tolist() == [1, 0, 1]

    @pytest.mark.usefixtures("planned")
    def test_repeated_reading_and_writing_makes_no_new_expressions(self):
        x = nd.zeros((4, 3))

        def step(number):
            picked = x[[number, 1]] + x[nd.array([number])]
            x[[number]] = 2
            return picked.asnumpy()

        for number in (0, 1, 2):
            step(number)
        before = statistics.snapshot()
        step(3)
        after = statistics.snapshot()
        assert (after["nodes"], after["plans"]) == (before["nodes"], before["plans"])


@pytest.mark.usefixtures("planned")
def test_minibatches_of_known_data_repeat_their_plan():
    data = nd.array(np.arange(60.0).reshape(20, 3))
    w = nd.ones((3, 1))
    w.attach_grad()

    def step(start):
        batch = data[start : start + 4]
        with autograd.record():
            loss = nd.dot(batch, w).sum()
        loss.backward()
        w[:] = w - 0.001 * w.grad
        return loss.asscalar()

    for start in (0, 4, 8):
        step(start)
    before = statistics.snapshot()
    step(12)
    after = statistics.snapshot()
    assert (after["nodes"], after["plans"]) == (before["nodes"], before["plans"])


class TestValues:
    @pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "int64", "bool"])
    @pytest.mark.parametrize("source", ["float64", "int64", "bool"])
    def test_value_is_converted(self, dtype, source):
        x = nd.zeros((2,), dtype=dtype)
        values = np.array([1, 0], source)
        x[:] = values
        assert (x.dtype, x.asnumpy().tolist()) == (np.dtype(dtype).type, np.array([1, 0], dtype).tolist())
        x[:] = nd.array(values[::-1].copy(), dtype=source)
        assert x.asnumpy().tolist() == np.array([0, 1], dtype).tolist()

    def test_list_of_arrays_is_refused(self):
        with pytest.raises(TypeError, match="does not support assignment with non-array-like object"):
            nd.zeros((2, 2))[:] = [nd.ones(2), nd.ones(2)]

    def test_large_value_is_not_printed_unless_wrong(self):
        class Loud(np.ndarray):
            def __str__(self):
                raise AssertionError("printed")

        x = nd.zeros((3,))
        x[:] = np.ones(3).view(Loud)
        assert x.asnumpy().tolist() == [1, 1, 1]

    def test_failed_assignment_changes_nothing(self):
        x = nd.zeros((2, 3))
        for key, value, error in (
            (slice(None), np.ones(2), ValueError),
            (5, 1, IndexError),
            (slice(0, 1), "text", TypeError),
            (slice(2, 1), 1, MXNetError),
            (None, np.ones((3, 2)), ValueError),
        ):
            with pytest.raises(error):
                x[key] = value
        assert not x.asnumpy().any()


def test_augmented_assignment_of_a_part():
    x = nd.zeros((3,))
    x[1] += 5
    x[0:2] *= 2
    x[:, None][2] -= 1
    assert x.asnumpy().tolist() == [0, 10, -1]


def test_augmented_assignment_of_a_part_writes_once():
    """``x[1] += 5`` ends with ``x[1] = <the view>``, which is there already."""
    x = nd.zeros((3,))
    x[1] += 5
    written = x._node
    x[1] = x[1]
    assert x._node is written
    assert x.asnumpy().tolist() == [0, 5, 0]


def test_augmented_assignment_of_a_part_is_recorded():
    x = nd.array([1.0, 2.0, 3.0])
    x.attach_grad()
    with autograd.record():
        y = x * x
        y[1] *= x[0]
        y[[0, 2]] += x[1]
    y.backward()
    assert x.grad.asnumpy().tolist() == [2 + 4, 4 + 2, 6]


def test_empty_selections():
    x = nd.ones((2, 3))
    x.attach_grad()
    with autograd.record():
        y = x[:, 2:1].sum() + x[[]].sum() + x[0:0].sum() + x.sum()
    y.backward()
    assert x.grad.asnumpy().tolist() == [[1, 1, 1], [1, 1, 1]]
    x[1:1] = 5
    x[[]] = 5
    assert x.asnumpy().max() == 1
