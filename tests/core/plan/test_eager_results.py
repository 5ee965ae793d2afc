"""Results of eager programs: in memory of their own, without a second copy of large ones."""

from __future__ import annotations

import numpy as np
import pytest

import phonograd as mx
from phonograd.core.plan.eager_results import own_all
from phonograd.core.run import memory_pool

COUNT = memory_pool.SMALLEST_BLOCK // 4


def test_large_values_are_dropped_when_they_are_copied() -> None:
    given = np.zeros(COUNT, np.float32)
    values = [given, given + 1, given + 2, given[:5], np.float32(3)]
    found = own_all([given], values, (1, 2, 3, 4), (True,) * 4)
    assert [value[..., -1:].tolist() for value in found[:3]] == [[1], [2], [0]]
    assert found[3] == 3
    assert values[1] is None
    assert values[2] is None
    assert values[0] is given
    assert memory_pool.is_block(found[0].base)
    assert found[2].base is None


def test_a_value_that_is_asked_twice_is_copied_twice() -> None:
    values = [np.arange(COUNT, dtype=np.float32)]
    first, second = own_all([], values, (0, 0), (True, True))
    assert np.array_equal(first, second)
    assert not np.shares_memory(first, second)
    assert values[0] is not None


@pytest.mark.parametrize("number", [0.0, -0.0, 1.5])
def test_repeated_numbers(number: float) -> None:
    value = np.broadcast_to(np.float32(number), (COUNT, 2))
    inputs: list[object] = []
    for stays in (True, False):
        (found,) = own_all(inputs, [value], (0,), (stays,))
        assert found.flags.c_contiguous
        assert found.flags.writeable
        assert np.array_equal(np.signbit(found), np.signbit(value))
        assert np.array_equal(found, value)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8"])
def test_large_arrays_of_one_number(dtype: str) -> None:
    with mx.settings.override(tiers="background"):
        x, y = mx.nd.zeros((300, 500), dtype=dtype), mx.nd.full((300, 500), 1, dtype=dtype)
        assert (x + 2 * y).astype("float32").asnumpy().sum() == 300_000
        assert not x.astype("float32").asnumpy().any()
        assert (y.astype("float32").asnumpy() == 1).all()
        x[2] = 1
        assert x.astype("float32").asnumpy().sum() == 500
