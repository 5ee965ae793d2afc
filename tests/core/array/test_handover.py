"""Arrays that the program drops hand their memory to NumPy; all others are copied."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.core.array.handover import LEAST_BYTES
from phonograd.core.base.assumptions import HAS_GIL
from phonograd.core.run.memory_pool import is_block
from phonograd.core.trace.liveness import is_temporary

SIZE = LEAST_BYTES // 4
#: other interpreters do not hand references over to methods
HANDS_OVER = HAS_GIL and sys.implementation.name == "cpython" and (3, 11) <= sys.version_info < (3, 14)


class Asked:
    def ask(self) -> bool:
        return is_temporary(self)


def test_only_a_method_refers_to_a_temporary() -> None:
    named = Asked()
    asked = named.ask
    assert not named.ask()
    assert not asked()
    assert not [named][0].ask()
    assert not functools.partial(Asked.ask, Asked())()
    assert not any(map(Asked.ask, [Asked()]))
    # pytest keeps the parts of asserted expressions
    found = Asked().ask()
    assert found == HANDS_OVER


def is_given(found: np.ndarray[Any, Any]) -> bool:
    return found.base is not None and is_block(found.base)


def test_a_dropped_result_is_not_copied() -> None:
    x = nd.arange(SIZE)
    found = (x * 2 + 1).asnumpy()
    assert type(found) is np.ndarray
    assert is_given(found) == HANDS_OVER
    assert found.flags.writeable
    assert found.flags.c_contiguous
    before = found.copy()
    np.testing.assert_array_equal(before, np.arange(SIZE, dtype=np.float32) * 2 + 1)
    # its memory is taken by nothing else while it lives
    others = [(x * 2 + number).asnumpy() for number in range(4)]
    found[:5] = -1
    np.testing.assert_array_equal(others[1][:5], before[:5])
    np.testing.assert_array_equal(found[5:], before[5:])
    assert not any([np.shares_memory(found, other) for other in others])


def test_results_of_single_calls_and_blocks_are_not_copied() -> None:
    x = nd.arange(SIZE).reshape((1, -1))
    net = gluon.nn.Activation("relu")
    net.hybridize()
    for _ in range(20):
        results = [nd.exp(x).asnumpy(), net(x).asnumpy()]
        assert [is_given(result) for result in results] == [HANDS_OVER, HANDS_OVER]


@pytest.mark.parametrize("shape", [(SIZE,), (4, SIZE // 4)])
def test_arrays_that_others_see_are_copied(shape: tuple[int, ...]) -> None:
    x = nd.ones(shape) * 3
    named = x + 1
    kept = [x + 2]
    results = [named.asnumpy(), kept[0].asnumpy(), x.reshape((-1, 2)).asnumpy(), (x + 1)[0:1].asnumpy()]
    assert not any([is_given(result) for result in results if result.size == SIZE])
    method = (x + 3).asnumpy
    results += [method(), method(), (x + 3).T.asnumpy(), x.asnumpy()]
    for number, result in enumerate(results):
        assert not any([np.shares_memory(result, other) for other in results[:number]])
    before = [array.asnumpy() for array in (x, named, kept[0])]
    for result in results:
        result[...] = 0
    for array, expected in zip((x, named, kept[0]), before, strict=True):
        np.testing.assert_array_equal(array.asnumpy(), expected)


def test_values_that_gradients_need_are_copied() -> None:
    x = nd.ones((SIZE,))
    x.attach_grad()
    with autograd.record():
        hidden = nd.exp(x)
        found = (hidden * hidden).asnumpy()
        first = nd.identity(hidden).asnumpy()
        found[:] = first[:] = 0
        total = (hidden * hidden).sum()
    total.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * np.exp(2), rtol=1e-5)


def test_parameters_are_copied() -> None:
    weight = gluon.Parameter("weight", shape=(SIZE,))
    weight.initialize(mx.init.One())
    weight.data().asnumpy()[:] = 5
    assert weight.data().asnumpy()[0] == 1
    weight.grad().asnumpy()[:] = 5
    assert weight.grad().asnumpy()[0] == 0
