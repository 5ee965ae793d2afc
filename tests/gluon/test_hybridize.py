"""Hybridized blocks compute what they computed before, without running their Python code again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.core.capture.compiled import Compiled
from phonograd.gluon import nn

pytestmark = pytest.mark.usefixtures("nothing_is_forgotten")


class Counting(gluon.HybridBlock):
    """A block that counts how often its Python code runs."""

    def __init__(self, inner: gluon.HybridBlock) -> None:
        super().__init__()
        self.inner = inner
        self.runs = 0

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        self.runs += 1
        return self.inner(x)


def network() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="relu"), nn.BatchNorm(), nn.Dense(2))
    return net


def counted(inner: Any = None) -> Counting:
    block = Counting(network() if inner is None else inner)
    block.initialize()
    block(nd.ones((2, 3)))
    block.hybridize()
    block.runs = 0
    return block


def data(seed: int = 0, *shape: int) -> Any:
    return nd.array(np.random.RandomState(seed).uniform(-1, 1, shape or (2, 3)))


def test_code_runs_once_for_each_structure() -> None:
    block = counted()
    for _ in range(3):
        block(data())
    assert block.runs == 1
    for _ in range(3):
        with autograd.record():
            block(data())
    assert block.runs == 2
    for _ in range(3):
        with autograd.train_mode():
            block(data(0, 5, 3))
    assert block.runs == 3
    block(data())
    assert block.runs == 3


def test_results_are_the_same_bits() -> None:
    plain, fast = network(), network()
    for net in (plain, fast):
        net.initialize()
        net(data())
    for one, other in zip(plain.collect_params().values(), fast.collect_params().values(), strict=True):
        other.set_data(one.data())
    fast.hybridize()
    for step in range(4):
        for mode in (autograd.train_mode, autograd.predict_mode):
            for seed in (step, step + 1):
                x = data(seed)
                with mode():
                    assert np.array_equal(plain(x).asnumpy(), fast(x).asnumpy())
        grads = []
        for net in (plain, fast):
            with autograd.record():
                loss = (net(data(step)) ** 2).sum()
            loss.backward()
            grads.append([p.grad().asnumpy() for p in net.collect_params().values() if p.grad_req != "null"])
        assert all(np.array_equal(one, other) for one, other in zip(*grads, strict=True))
    for one, other in zip(plain.collect_params().values(), fast.collect_params().values(), strict=True):
        assert np.array_equal(one.data().asnumpy(), other.data().asnumpy())


def test_dropout_draws_each_time() -> None:
    net = nn.HybridSequential()
    net.add(nn.Dropout(0.5))
    net.hybridize()
    x = nd.ones((100,))
    with autograd.train_mode():
        masks = {net(x).asnumpy().tobytes() for _ in range(4)}
    assert len(masks) == 4
    assert np.array_equal(net(x).asnumpy(), x.asnumpy())


def test_moving_statistics_move_in_training_only() -> None:
    net = nn.BatchNorm(in_channels=3)
    net.initialize()
    net.hybridize()
    x = data(1, 4, 3)
    seen = []
    for _ in range(4):
        with autograd.record():
            net(x)
        seen.append(net.running_mean.data().asnumpy())
        before = net.running_mean.data().asnumpy()
        net(x)
        assert np.array_equal(net.running_mean.data().asnumpy(), before)
    mean = x.asnumpy().mean(0)
    for step, found in enumerate(seen, 1):
        np.testing.assert_allclose(found, mean * (1 - 0.9**step), rtol=1e-5, atol=1e-7)


def changed_values(block: Any) -> None:
    block.inner.weight.set_data(nd.full(block.inner.weight.shape, 2))


def changed_dtype(block: Any) -> None:
    block.cast("float64")
    block.cast("float32")
    changed_values(block)


def initialized_again(block: Any) -> None:
    block.initialize(mx.init.Constant(2), force_reinit=True)


def other_context(block: Any) -> None:
    block.collect_params().reset_ctx([mx.cpu(0), mx.cpu(1)])
    changed_values(block)


def frozen(block: Any) -> None:
    block.collect_params().setattr("grad_req", "null")
    changed_values(block)


@pytest.mark.parametrize("change", [changed_values, changed_dtype, initialized_again, other_context, frozen])
def test_changes_of_parameters_are_seen(change: Callable[[Any], None]) -> None:
    block = counted(nn.Dense(2, use_bias=False))
    for _ in range(2):
        block(data())
    change(block)
    for _ in range(3):
        np.testing.assert_allclose(
            block(data()).asnumpy(), 2 * data().asnumpy().sum(1, keepdims=True).repeat(2, 1), rtol=1e-6
        )


def test_gradients_after_freezing_and_melting() -> None:
    block = counted(nn.Dense(2, use_bias=False))
    for request in ("write", "null", "write", "add"):
        block.collect_params().setattr("grad_req", request)
        x = data()
        x.attach_grad()
        for _ in range(2):
            with autograd.record():
                loss = block(x).sum()
            loss.backward()
        if request != "null":
            factor = 2 if request == "add" else 1
            expected = factor * data().asnumpy().sum(0, keepdims=True).repeat(2, 0)
            np.testing.assert_allclose(block.inner.weight.grad().asnumpy(), expected, rtol=1e-6)  # type: ignore[union-attr]


def test_new_children_are_seen() -> None:
    net = nn.HybridSequential()
    net.add(nn.HybridLambda(lambda F, x: x * 2))
    net.hybridize()
    assert net(nd.ones((1,))).asscalar() == 2
    net.add(nn.HybridLambda(lambda F, x: x + 5))
    assert net(nd.ones((1,))).asscalar() == 7


def test_switched_off_again() -> None:
    block = counted()
    block(data())
    block.hybridize(False)
    for _ in range(3):
        block(data())
    assert block.runs == 4


def test_contexts() -> None:
    block = counted(nn.Dense(2))
    block.collect_params().reset_ctx([mx.cpu(0), mx.cpu(1)])
    for context in (mx.cpu(0), mx.cpu(1), mx.cpu(0), mx.cpu(1)):
        assert block(data().as_in_context(context)).context == context
    assert block.runs == 2

    class Two(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, y: Any) -> Any:
            return x, y

    two = Two()
    two.hybridize()
    with pytest.raises(ValueError, match="Find multiple contexts in the input"):
        two(data(), data().as_in_context(mx.cpu(1)))


def test_nested_inputs_and_outputs() -> None:
    class Nested(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any, states: Any, flag: Any = None) -> Any:
            one, (two, three) = states
            return x + one, [two * 2, (three, flag)]

    net = Nested()
    net.hybridize()
    for number in range(3):
        x, one, two, three = [nd.full((2,), value + number) for value in (1, 2, 3, 4)]
        first, (second, (third, flag)) = net(x, [one, (two, three)], None)
        assert first.asnumpy().tolist() == [3 + 2 * number] * 2
        assert second.asnumpy().tolist() == [6 + 2 * number] * 2
        assert third is three
        assert flag is None


def test_looking_at_values_works_but_is_announced() -> None:
    class Looks(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return x * 2 if x.sum().asscalar() > 0 else x * 3

    net = Looks()
    net.hybridize()
    with pytest.warns(RuntimeWarning, match="looks at the value of an array"):
        assert net(nd.ones((1,))).asscalar() == 2
    assert net(-nd.ones((1,))).asscalar() == -3


def test_hooks_are_announced() -> None:
    net = nn.Dense(2)
    net.register_forward_hook(lambda block, inputs, output: None)
    with pytest.warns(UserWarning, match="is being hybridized while still having forward hook"):
        net.hybridize()


@pytest.mark.usefixtures("planned")
def test_training_makes_no_new_plans() -> None:
    from phonograd.core.graph.node import statistics

    net = network()
    net.initialize()
    net(data())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})

    def step(number: int) -> None:
        trainer.set_learning_rate(0.1 / (1 + number))
        with autograd.record():
            loss = (net(data(number)) ** 2).sum()
        loss.backward()
        trainer.step(2)
        loss.wait_to_read()

    for number in range(5):
        step(number)
    before = statistics.plans
    for number in range(5, 15):
        step(number)
    assert statistics.plans == before


class Pair(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Dense(2)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.layer(x), (x * 2, [x])


def kinds(value: Any) -> Any:
    return [type(value).__name__, *map(kinds, value)] if isinstance(value, (list, tuple)) else "array"


def test_several_outputs_are_lists() -> None:
    block = Pair()
    block.initialize()
    x = nd.ones((1, 2))
    assert kinds(block(x)) == ["tuple", "array", ["tuple", "array", ["list", "array"]]]
    block.hybridize()
    for _ in range(3):
        assert kinds(block(x)) == ["list", "array", ["list", "array", ["list", "array"]]]
    assert kinds(mx.compile(block)(x)) == ["list", "array", ["list", "array", ["list", "array"]]]
    with mx.profiler.profile(with_modules=True):
        assert kinds(block(x)) == ["list", "array", ["list", "array", ["list", "array"]]]


class Joined(gluon.HybridBlock):
    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair()

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        # what is a tuple before the block is hybridized can be added to one
        inputs = x, x
        inputs += self.pair(x)[:1]
        return F.concat(*inputs, dim=1)


def test_blocks_inside_of_others_give_tuples() -> None:
    block = Joined()
    block.initialize()
    block.hybridize()
    x = nd.ones((1, 2))
    for _ in range(3):
        assert block(x).shape == (1, 6)
    with mx.profiler.profile(with_modules=True):
        assert block(x).shape == (1, 6)


def test_warnings_name_the_block() -> None:
    block = nn.HybridLambda(lambda F, x: x * (2 if float(x.sum().asscalar()) > 0 else 1), prefix="doubled_")
    block.hybridize()
    with pytest.warns(RuntimeWarning, match="^<compiled doubled> is called each time, because") as caught:
        assert block(nd.ones((2,))).asnumpy().tolist() == [2, 2]
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.filterwarnings("error")
def test_views_of_arguments_become_arrays() -> None:
    class Pieces(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return x[1:], [x.reshape((-1,)), x[:, 1]]

    block = Pieces()
    block.hybridize()
    counting = counted(block)
    for train in (False, False, False, True, True, True):
        x = data(1, 2, 3)
        x.attach_grad()
        before = x.asnumpy()
        with autograd.record(train):
            row, (flat, column) = block(x) if train else counting(x)
            loss = 2 * row.sum() + (flat * flat).sum() + 3 * column.sum()
        loss.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), 2 * before + [[0, 3, 0], [2, 5, 2]], rtol=1e-6)
        for array in (row, flat, column):
            array[:] = 7
        assert np.array_equal(x.asnumpy(), before)
    assert counting.runs == 1


@pytest.mark.filterwarnings("error")
def test_loops_inside_are_repeated() -> None:
    class Sums(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            def add(element: Any, total: Any) -> Any:
                return element * 2, total + element

            def add_row(row: Any, total: Any) -> Any:
                doubled, part = F.contrib.foreach(add, F.reshape(row, (3, 1)), F.zeros((1,)))
                return F.reshape(doubled, (3,)), total + part

            return F.contrib.foreach(add_row, x, F.zeros((1,)))

    block = counted(Sums())
    for seed in range(3):
        x = data(seed)
        doubled, total = block(x)
        np.testing.assert_allclose(doubled.asnumpy(), 2 * x.asnumpy(), rtol=1e-6)
        np.testing.assert_allclose(total.asnumpy(), [x.asnumpy().sum()], rtol=1e-5, atol=1e-6)
    assert block.runs == 1


def test_similar_calls_are_recognized_by_their_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Dense(3, in_units=4)
    net.initialize()
    net.hybridize()
    x, other = nd.ones((2, 4)), nd.ones((5, 4))
    for _ in range(4):
        value = net(x).asnumpy()
    looked: list[int] = []
    before = Compiled._call

    def noted(self: Compiled[..., Any], *arguments: Any, **keywords: Any) -> Any:
        looked.append(len(arguments))
        return before(self, *arguments, **keywords)

    monkeypatch.setattr(Compiled, "_call", noted)
    np.testing.assert_array_equal(net(x).asnumpy(), value)
    np.testing.assert_array_equal(net(x * 2).asnumpy() * (1 / 2), value)
    assert len(looked) <= 1
    # another shape and a record are other calls
    looked.clear()
    assert net(other).shape == (5, 3)
    with mx.autograd.record():
        net(x)
    assert len(looked) == 2
    net.weight.set_data(net.weight.data() * 2)
    np.testing.assert_array_equal(net(x).asnumpy(), value * 2)
