"""Results in the place of inputs that nobody needs: whose memory is written over, whose is not, and interruptions."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd, settings
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.primitives import matmul, swap_last
from phonograd.core.ops.math.structural import leaf
from phonograd.core.ops.vision.points import add_onto
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run.donation import is_unshared
from phonograd.core.run.memory_pool import LEAST_MAPPED_BYTES, pool
from phonograd.core.run.program import RecipeProgram

pytestmark = pytest.mark.usefixtures("planned")

SHAPE = (96, 64)
FLOAT32 = np.dtype("float32")


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with settings.override(executor="native"):
        yield


def _place(array: Any) -> int:
    array.wait_to_read()
    return int(array._buffer.ctypes.data)


def _known(value: float = 1.0) -> Any:
    array = nd.ones(SHAPE) * value
    array.wait_to_read()
    return array


# -- plans


def test_a_result_can_lie_in_any_input_that_is_read_where_it_is_written() -> None:
    x, y, z = (leaf(number, SHAPE, FLOAT32) for number in range(3))
    program = NativeProgram([x * y + z, x - z], lambda node: False)
    assert sorted(program.donatable) == [0, 1, 2]
    inputs = [np.full(SHAPE, value, FLOAT32) for value in (2, 3, 4)]
    found = program.run(list(inputs), [1, 2])
    assert [value.flat[0] for value in found] == [10, -2]
    assert {id(array) for array in found} == {id(inputs[1]), id(inputs[2])}
    assert (inputs[0] == 2).all()


def _spendable(*targets: Any) -> set[Any]:
    program = NativeProgram(targets, lambda node: False)
    return {program.inputs[number] for number in program.donatable}


def test_nothing_is_written_over_that_is_read_elsewhere_or_later_or_handed_back() -> None:
    x, y = leaf(0, SHAPE, FLOAT32), leaf(1, SHAPE, FLOAT32)
    turned: Any = REGISTRY["transpose"](leaf(2, SHAPE[::-1], FLOAT32), axes=())
    assert _spendable(turned + x) == {x}
    assert _spendable(x + y, turned * y) == {x, y}
    product = matmul(x + y, swap_last(x))
    assert _spendable(x + y, product) == {y}


def test_slices_are_added_where_the_array_is() -> None:
    old, rows, index = leaf(0, SHAPE, FLOAT32), leaf(1, (5, 64), FLOAT32), leaf(2, (5,), np.dtype("int64"))
    program = NativeProgram([add_onto(old, rows, index)], lambda node: False)
    assert program.donatable == (program.inputs.index(old),)
    inputs = {old: np.full(SHAPE, 3, FLOAT32), rows: np.full((5, 64), 2, FLOAT32), index: np.array([1, 7, 1, 95, 0])}
    expected = inputs[old].copy()
    np.add.at(expected, inputs[index], inputs[rows])
    (found,) = program.run([inputs[node] for node in program.inputs], program.donatable)
    assert found is inputs[old] or found.base is inputs[old]
    assert (found == expected).all()
    with_itself = NativeProgram([add_onto(old, old, leaf(3, SHAPE[:1], np.dtype("int64")))], lambda node: False)
    assert with_itself.donatable == ()


def test_small_arrays_are_not_worth_it() -> None:
    x = leaf(0, (8, 8), FLOAT32)
    assert NativeProgram([x * x], lambda node: False).donatable == ()


# -- arrays


def test_an_update_stays_in_its_memory() -> None:
    x = _known()
    place, used = _place(x), pool.used_bytes
    for _ in range(5):
        x -= 0.125 * x * x
        x.wait_to_read()
        assert _place(x) == place
        assert pool.used_bytes == used


def test_an_update_of_pages_of_their_own_stays_in_its_memory() -> None:
    x = nd.ones((LEAST_MAPPED_BYTES // 4,))
    x.wait_to_read()
    place, made = _place(x), pool.blocks_made
    for _ in range(5):
        x -= 0.125 * x * x
        x.wait_to_read()
        assert _place(x) == place
        assert pool.blocks_made == made


def test_pages_of_the_user_are_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "numbers"
    file.write_bytes(np.ones(SHAPE, FLOAT32).tobytes())
    with file.open("r+b") as opened:
        array = np.frombuffer(mmap.mmap(opened.fileno(), 0), FLOAT32).reshape(SHAPE)
    items = [array]
    del array
    assert not is_unshared(items, 0, 0)


@pytest.mark.parametrize("holder", ["array", "view", "memory", "record", "sum"])
def test_whoever_has_the_old_value_keeps_it(holder: str) -> None:
    x = _known(3.0)
    place = _place(x)
    other: Any = None
    if holder == "array":
        other = x.copy()
        other.wait_to_read()
    elif holder == "view":
        other = x.detach()
        other = other.asnumpy()
    elif holder == "memory":
        other = x._buffer
    elif holder == "record":
        x.attach_grad()
        with autograd.record():
            other = (x * x).sum()
    else:
        other = x + 0
    x += 1
    x.wait_to_read()
    assert (x.asnumpy() == 4).all()
    if holder == "record":
        other.backward()
        assert (x.grad.asnumpy() == 6).all()
        return
    assert (np.asarray(other) == 3).all()
    if holder == "memory":
        assert _place(x) != place


def _trained(steps: int, watch: Callable[[gluon.nn.Dense], None] = lambda net: None) -> list[Any]:
    mx.random.seed(3)
    net = gluon.nn.Dense(64, in_units=96, prefix="net_")
    net.initialize(mx.init.Normal(0.1))
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    x = nd.array(np.random.default_rng(0).normal(size=(16, 96)))
    for _ in range(steps):
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(16)
        watch(net)
    return [parameter.data().asnumpy() for parameter in net.collect_params().values()]


def test_training_in_place_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[int] = []
    over = _trained(12, lambda net: places.append(_place(net.weight.data())))
    assert len(set(places[4:])) == 1
    kept: list[Any] = []
    apart = _trained(12, lambda net: kept.append(net.weight.data()._buffer))
    for one, other in zip(over, apart, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_update_alone_stays_in_its_memory() -> None:
    weights = [_known(float(number)) for number in range(3)]
    grads = [_known(0.5) for _ in weights]
    updater = mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=0.25))
    for _ in range(4):
        updater([0, 1, 2], grads, weights)
        nd.waitall()
    places, copy = [_place(weight) for weight in weights], weights[1]._buffer
    before = copy.copy()
    updater([0, 1, 2], grads, weights)
    after = [_place(weight) for weight in weights]
    assert len(set(places).intersection(after)) == 2
    np.testing.assert_array_equal(copy, before)


def test_an_array_that_is_another_one_is_not_written_over() -> None:
    x, y = _known(3.0), nd.zeros(SHAPE)
    y[:] = x
    x += 1
    z = x * 2
    del x
    nd.waitall()
    assert (y.asnumpy() == 3).all()
    assert (z.asnumpy() == 8).all()


# -- interruptions


def _interrupt(patch: pytest.MonkeyPatch, before: bool) -> None:
    """Have KeyboardInterrupt raised as if the user had asked for it before, or while, the kernels of a program run."""
    run = RecipeProgram.run

    def interrupted(program: RecipeProgram, *arguments: Any) -> None:
        if not before:
            run(program, *arguments)
        raise KeyboardInterrupt

    patch.setattr(RecipeProgram, "run", interrupted)


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("change", ["all", "row", "optimizer"])
def test_an_interrupted_update_is_done_once(monkeypatch: pytest.MonkeyPatch, change: str, before: bool) -> None:
    x, grad = _known(), [_known(0.5), _known(0.5)]
    other = _known()
    updater = mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=0.5))

    def update() -> None:
        nonlocal x
        if change == "all":
            x += 1
        elif change == "row":
            x[1] = x[0] + 1
            x[0:2] += 1
        else:
            updater([0, 1], grad, [x, other])

    for _ in range(4):
        update()
        nd.waitall()
    old, again = x.asnumpy(), nd.array(x.asnumpy())
    with pytest.MonkeyPatch.context() as patch:
        _interrupt(patch, before)
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - either may be what computes
            update()
            nd.waitall()
    kept, x = x, again
    if not (change == "optimizer" and before):
        # what was asked for before the interruption is done, unless the computation itself was asked for
        update()
    np.testing.assert_array_equal(kept.asnumpy(), x.asnumpy())
    assert old.shape == kept.shape


def test_what_is_interrupted_between_its_kernels_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    x = _known()
    run = RecipeProgram._run_parts

    def interrupted(self: RecipeProgram, *arguments: Any) -> None:
        run(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RecipeProgram, "_run_parts", interrupted)
        with mx.profiler.profile():
            x += 1
            with pytest.raises(KeyboardInterrupt):
                x.wait_to_read()
    with pytest.raises(mx.MXNetError, match="interrupted"):
        x.asnumpy()


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_change_nothing(threads: int) -> None:
    with settings.override(num_threads=threads):
        x, y = _known(0.75), _known(0.25)
        for _ in range(3):
            x *= y + x
            y -= 0.5 * x
            nd.waitall()
        a, b = np.full(SHAPE, 0.75, FLOAT32), np.full(SHAPE, 0.25, FLOAT32)
        for _ in range(3):
            a = a * (b + a)
            b = b - FLOAT32.type(0.5) * a
    np.testing.assert_array_equal(x.asnumpy(), a)
    np.testing.assert_array_equal(y.asnumpy(), b)
