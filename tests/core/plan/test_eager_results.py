"""Results of eager programs: in memory of their own, without a second copy of large ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, settings
from phonograd.core.base.dtypes import FLOAT32
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan import eager_batches
from phonograd.core.plan.eager import EagerProgram
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


def test_other_shapes_of_new_values_are_not_copied() -> None:
    new = memory_pool.allocate((COUNT,), FLOAT32, memory_pool.room_for(4 * COUNT))
    given = memory_pool.allocate((COUNT,), FLOAT32, memory_pool.room_for(4 * COUNT))
    new[:] = given[:] = np.arange(COUNT)
    views = [array.reshape(2, -1) for array in (new, new, given)]
    views += [new.reshape(2, -1).T, new[COUNT // 2 :]]
    found = own_all([given], views, range(5), (True,) * 5)
    assert [np.shares_memory(value, new) for value in found] == [True, False, False, False, False]
    assert not any([np.shares_memory(value, given) for value in found])
    assert found[0].base is new.base
    assert [value.shape for value in found] == [(2, COUNT // 2)] * 3 + [(COUNT // 2, 2), (COUNT // 2,)]
    # as an input, it has its memory like all others
    (copy,) = own_all([found[0]], [found[0].reshape(4, -1)], (0,), (True,))
    assert not np.shares_memory(copy, found[0])
    # results of plans may be views of an array that has the block
    alias = given.reshape(4, -1)
    (copy,) = own_all([alias], [alias.reshape(8, -1)], (0,), (True,))
    assert not np.shares_memory(copy, given)


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


def test_values_are_kept_for_gradients_of_recorded_targets_alone() -> None:
    x = leaf(0, (3,), FLOAT32)
    before = REGISTRY["exp"](x)
    recorded = REGISTRY["square"](REGISTRY["negative"](before))
    other = REGISTRY["tanh"](REGISTRY["sin"](before))
    kept = {node for node, _ in EagerProgram([recorded, other], lambda node: False, [recorded]).kept}
    assert kept == {before, recorded, other, recorded.inputs[0]}
    assert {node for node, _ in EagerProgram([recorded, other], lambda node: False).kept} == {recorded, other}


def test_updates_keep_no_values_while_a_loss_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[EagerProgram] = []

    class Noted(EagerProgram):
        __slots__ = ()

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            programs.append(self)

    monkeypatch.setattr(eager_batches, "EagerProgram", Noted)
    weight = nd.ones((3,))
    weight.attach_grad()
    with settings.override(tiers="background"):
        with autograd.record():
            loss = (nd.sin(weight) * 2).sum()
        moved = nd.tanh(nd.exp(weight.detach()) + 1)
        assert loss.asscalar() != moved[0].asscalar()
    names = {node.operator.name for program in programs for node, _ in program.kept}
    assert {"sin", "tanh"} <= names
    assert "exp" not in names


def test_large_values_take_the_memory_of_dead_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms: list[int] = []
    allocate = memory_pool.allocate

    def noted(shape: Any, dtype: Any, room: int, is_zero: bool = False) -> Any:
        rooms.append(room)
        return allocate(shape, dtype, room, is_zero)

    monkeypatch.setattr(memory_pool, "allocate", noted)
    data = np.random.RandomState(2).randn(300, 400).astype(np.float32)
    row = np.arange(400, dtype=np.float32)
    x, bias = leaf(0, data.shape, FLOAT32), leaf(1, row.shape, FLOAT32)
    first = REGISTRY["tanh"](x)
    target = REGISTRY["negative"](REGISTRY["broadcast_add"](first, bias))
    expected = -(np.tanh(data) + row)

    def rooms_of(*targets: Node) -> int:
        program = EagerProgram(targets, lambda node: False)
        for _ in range(2):
            rooms.clear()
            found = program.run([data, row])
            (place,) = [place for place, (node, _) in enumerate(program.kept) if node is target]
            np.testing.assert_allclose(found[place], expected, rtol=1e-5, atol=1e-6)
            assert not any([np.shares_memory(value, data) for value in found])
        return len(rooms)

    before = data.copy()
    assert rooms_of(target) == 1
    # a target stays, and so does what a view may show
    assert rooms_of(target, first) == 2
    # random numbers are written over, too: those of an initializer are scaled
    rooms.clear()
    (weight := nd.random.uniform(-1, 1, (300, 400))).wait_to_read()
    assert len(rooms) == 1
    assert abs(weight.asnumpy()).max() <= 1
    assert rooms_of(target, REGISTRY["_reshape"](first, shape=(400, 300))) >= 2
    np.testing.assert_array_equal(data, before)
