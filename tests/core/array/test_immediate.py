"""Immediate calls: programs that are always new compute operators that are not recorded when they are called."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.array import immediate
from phonograd.core.trace import novelty
from phonograd.core.trace.trace import LOCAL, ImmediateTrace, Trace

from ...fuzz import ways


@pytest.fixture
def at_once() -> Iterator[None]:
    with ways.immediate():
        yield


def is_computed(array: Any) -> bool:
    return array._node is None and array._buffer is not None


def pending(function: Any, *arrays: Any) -> Any:
    """Return the value of a function of arrays whose calls become nodes."""
    LOCAL.trace.flush(end=True)
    before, LOCAL.trace = LOCAL.trace, Trace()
    try:
        return function(*arrays).asnumpy()
    finally:
        LOCAL.trace = before


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "function",
    [
        nd.tanh,
        lambda x: x + x,
        lambda x: 2 - x,
        lambda x: x * 0.3,
        nd.log_softmax,
        nd.mean,
        lambda x: nd.sum(x, axis=1),
        lambda x: nd.dot(x, x, transpose_b=True),
        lambda x: nd.reshape(x, (-1,)),
        lambda x: nd.take(x, nd.argsort(x[:, 0])),
        lambda x: nd.concat(x, x * 2, dim=1),
        lambda x: nd.split(x, num_outputs=1, axis=0),
        lambda x: nd.topk(x, k=1, ret_typ="indices"),
    ],
)
def test_values_for_new_shapes_have_the_bits_of_graphs(function: Any) -> None:
    chance = np.random.default_rng(0)
    for _ in range(4):
        for shape in [(3, 4), (5, 6), (7, 2), (2, 7), (1, 5), (6, 6), (3, 4)]:
            x = nd.array(chance.normal(size=shape).astype("float32"))
            function(x)
            found = function(x)
            assert is_computed(found)
            np.testing.assert_array_equal(found.asnumpy().view(np.int32), pending(function, x).view(np.int32))


@pytest.mark.usefixtures("at_once")
def test_several_results_are_a_list() -> None:
    x = nd.array([[1.0, 2.0, 3.0, 4.0]])
    for _ in range(2):
        first, second = nd.split(x, num_outputs=2, axis=1)
    assert is_computed(first)
    assert is_computed(second)
    np.testing.assert_array_equal(second.asnumpy(), [[3, 4]])


@pytest.mark.usefixtures("at_once")
def test_no_result_shares_memory_with_an_argument() -> None:
    x = nd.array([[1.0, 2.0], [3.0, 4.0]])
    for _ in range(3):
        same, flat = nd.identity(x), nd.reshape(x, (-1,))
        assert not np.shares_memory(same._buffer, x._buffer)
        assert not np.shares_memory(flat._buffer, x._buffer)
    x += 1
    x[0] = 7
    np.testing.assert_array_equal(flat.asnumpy(), [1, 2, 3, 4])
    np.testing.assert_array_equal(same.asnumpy(), [[1, 2], [3, 4]])


@pytest.mark.usefixtures("at_once")
def test_changes_in_place_reach_views_and_bases() -> None:
    x = nd.array([[1.0, 2.0], [3.0, 4.0]])
    row = x[1]
    x *= 2
    row += 1
    np.testing.assert_array_equal(x.asnumpy(), [[2, 4], [7, 9]])
    np.testing.assert_array_equal(row.asnumpy(), [7, 9])
    plain = nd.array([1.0])
    plain += 1
    assert is_computed(plain)
    assert plain.asscalar() == 2


@pytest.mark.usefixtures("at_once")
def test_a_change_of_shape_or_dtype_in_place_is_refused_as_ever() -> None:
    x = nd.array([1.0, 2.0])
    with pytest.raises(mx.MXNetError, match="Shape inconsistent"):
        x += nd.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(x.asnumpy(), [1, 2])


@pytest.mark.usefixtures("at_once")
def test_errors_are_raised_where_they_would_be_otherwise() -> None:
    x = nd.array([[1.0, 2.0]])
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match="dot"):
            nd.dot(x, x)
    with pytest.raises(AssertionError, match="NDArray"):
        nd.dot(x, "no array")
    index = nd.array([5.0])
    failing = nd.take(x, index, mode="raise")
    with pytest.raises(mx.MXNetError):
        failing.asnumpy()


@pytest.mark.usefixtures("at_once")
def test_recorded_calls_are_differentiated() -> None:
    x = nd.array([1.0, 2.0, 3.0])
    x.attach_grad()
    for number in range(3):
        before = x * 2
        assert is_computed(before)
        with autograd.record():
            y = (x * x * number).sum()
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), 2 * number * np.array([1, 2, 3], "float32"))
        with autograd.record():
            z = (x * before).sum()
            with autograd.pause():
                outside = z * 2
        z.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), before.asnumpy())
        assert outside.asscalar() == 2 * z.asscalar()


@pytest.mark.usefixtures("at_once")
def test_values_that_are_pending_are_used_as_nodes() -> None:
    x = nd.random.normal(shape=(3,))
    y = x + 1
    assert not is_computed(y)
    np.testing.assert_array_equal(y.asnumpy(), x.asnumpy() + np.float32(1))


@pytest.mark.usefixtures("at_once")
def test_arrays_of_other_classes_keep_their_class() -> None:
    x = mx.np.array([1.0, 2.0])
    for _ in range(2):
        assert type(x + 1) is mx.np.ndarray
        assert type(x * x) is mx.np.ndarray


@pytest.mark.usefixtures("at_once")
def test_explanations_name_the_tier() -> None:
    x = nd.array([1.0, 2.0])
    nd.arccosh(x)
    with mx.explain.tiers() as log:
        nd.arccosh(x)
    assert str(log) == "immediate: arccosh; the last graphs were all new"


def test_new_graphs_begin_the_state_and_repeated_calls_end_it() -> None:
    def work() -> list[type[Any]]:
        seen = []
        x = nd.array(np.ones((3, 4), "float32"))
        for number in range(40):
            # a graph that is new each time
            y = x
            for bit in range(6):
                y = nd.tanh(y) if number >> bit & 1 else nd.sigmoid(y)
            y.asnumpy()
            seen.append(type(LOCAL.trace))
        assert ImmediateTrace in seen
        for _ in range(6):
            nd.sin(nd.cos(x)).asnumpy()
        seen.append(type(LOCAL.trace))
        return seen

    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(work()))
    thread.start()
    thread.join()
    assert found[-1] is Trace


def test_memory_of_kinds_is_bounded() -> None:
    with ways.immediate(), mock.patch.object(immediate, "MOST_CALLS", 16):
        x = nd.array(np.ones((300,), "float32"))
        for extent in range(2, 200):
            nd.tanh(x[:extent])
        assert len(immediate._calls) <= 16


def test_the_state_is_that_of_a_thread() -> None:
    with ways.immediate():
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(type(LOCAL.trace)))
        thread.start()
        thread.join()
        assert found == [Trace]
        assert novelty.NOVELTY.is_high
