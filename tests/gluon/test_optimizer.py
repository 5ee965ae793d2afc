"""Optimisers beyond what they compute: names, counts, precision, and no new plans for new learning rates."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.graph.node import statistics

from . import programs

pytestmark = pytest.mark.usefixtures("nothing_is_forgotten")


def test_names() -> None:
    assert set(mx.optimizer.Optimizer.opt_registry) >= {
        *("sgd", "signum", "ftml", "lars", "lbsgd", "lamb", "dcasgd", "nag", "sgld", "ccsgd", "adam", "adagrad"),
        *("rmsprop", "adadelta", "ftrl", "adamax", "nadam", "test", "groupadagrad"),
    }
    assert type(mx.optimizer.create("SGD")) is mx.optimizer.SGD
    with pytest.raises(ValueError, match="Cannot find optimizer sdg"):
        mx.optimizer.create("sdg")


def test_own_optimizers() -> None:
    @mx.optimizer.register
    class Halve(mx.optimizer.Optimizer):
        def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            weight[:] = weight / 2

    weight = nd.ones((2,))
    mx.optimizer.get_updater(mx.optimizer.create("halve"))(0, nd.ones((2,)), weight)
    assert weight.asnumpy().tolist() == [0.5, 0.5]
    with pytest.warns(UserWarning, match="is overriding existing optimizer"):
        mx.optimizer.register(type("Halve", (mx.optimizer.Optimizer,), {}))
    del mx.optimizer.Optimizer.opt_registry["halve"]


def test_groups_of_weights() -> None:
    calls = []

    class Groups(mx.optimizer.Optimizer):
        def __init__(self) -> None:
            super().__init__()
            self.aggregate_num = 2

        def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
            calls.append((index, len(weight)))

    weights = [nd.ones((1,)), nd.ones((2,), dtype="float64"), nd.ones((3,)), nd.ones((4,))]
    mx.optimizer.get_updater(Groups())([0, 1, 2, 3], weights, weights)
    assert calls == [((0, 2), 2), ((3,), 1), ((1,), 1)]


def test_counts() -> None:
    optimizer = mx.optimizer.SGD(begin_num_update=5)
    updater = mx.optimizer.get_updater(optimizer)
    weight, other = nd.ones((1,)), nd.ones((1,), ctx=mx.cpu(1))
    for _ in range(3):
        updater(0, nd.ones((1,)), weight)
    updater(0, nd.ones((1,), ctx=mx.cpu(1)), other)
    assert optimizer.num_update == 8
    assert optimizer._all_index_update_counts == {0: {0: 8}, 1: {0: 6}}


def test_multipliers_by_name() -> None:
    names = {0: "fc_weight", 1: "fc_bias", 2: "bn_gamma"}
    optimizer = mx.optimizer.SGD(learning_rate=1.0, wd=0.5, param_idx2name=names)
    assert [optimizer._get_wd(index) for index in names] == [0.5, 0.0, 0.5]
    optimizer.set_lr_mult({"fc_weight": 3.0, 1: 2.0})
    assert optimizer._get_lrs([0, 1, 2]) == [3.0, 2.0, 1.0]
    optimizer.set_wd_mult({"fc_bias": 1.0})
    assert optimizer._get_wds([0, 1, 2]) == [0.5, 0.5, 0.5]
    lars = mx.optimizer.LARS(wd=0.5, param_idx2name=names)
    assert [lars._get_wd(index) for index in names] == [0.5, 0.0, 0.0]


def test_scheduler_and_learning_rate() -> None:
    schedule = mx.lr_scheduler.FactorScheduler(step=1, factor=0.5, base_lr=1.0)
    with pytest.warns(UserWarning, match="has been overwritten"):
        optimizer = mx.optimizer.SGD(learning_rate=2.0, lr_scheduler=schedule)
    updater, weight = mx.optimizer.get_updater(optimizer), nd.zeros((1,))
    steps = []
    for _ in range(3):
        before = weight.asscalar()
        updater(0, nd.ones((1,)), weight)
        steps.append(before - weight.asscalar())
    assert steps == [2.0, 1.0, 0.5]


@pytest.mark.parametrize("multi_precision", [False, True])
@pytest.mark.parametrize(("name", "arguments"), programs.OPTIMIZERS, ids=lambda value: str(value))
def test_half_precision(name: str, arguments: dict[str, Any], multi_precision: bool) -> None:
    if name == "groupadagrad" and not multi_precision:
        pytest.skip("its state is float32")
    optimizer = mx.optimizer.create(name, multi_precision=multi_precision, **arguments)
    updater = mx.optimizer.get_updater(optimizer)
    rng = np.random.RandomState(0)
    weight = nd.array(programs.draw(rng, 3, 4), dtype="float16")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if not multi_precision else "error")
        for _ in range(3):
            updater(0, nd.array(programs.draw(rng, 3, 4), dtype="float16"), weight)
    assert weight.dtype == np.float16
    assert np.isfinite(weight.asnumpy()).all() or name in ("adam", "nadam", "ftml", "rmsprop")


def test_half_precision_is_announced() -> None:
    with pytest.warns(UserWarning, match="Consider using multi_precision=True"):
        mx.optimizer.get_updater(mx.optimizer.SGD())(0, nd.ones((1,), dtype="float16"), nd.ones((1,), dtype="float16"))


@pytest.mark.usefixtures("planned")
@pytest.mark.parametrize(
    "name", ["sgd", "nag", "adam", "rmsprop", "adagrad", "ftml", "nadam", "lamb", "signum", "sgld"]
)
def test_new_learning_rates_make_no_new_plans(name: str) -> None:
    arguments = {"momentum": 0.9} if name in ("sgd", "nag") else {}
    optimizer = mx.optimizer.create(name, learning_rate=0.1, wd=0.01, **arguments)
    updater = mx.optimizer.get_updater(optimizer)
    weight = nd.array(programs.draw(np.random.RandomState(0), 3, 4))
    grad = nd.ones((3, 4))

    def step(number: int) -> None:
        optimizer.set_learning_rate(0.1 / (number + 2.5))
        updater(0, grad, weight)
        weight.wait_to_read()
        with autograd.record():
            pass

    for number in range(6):
        step(number)
    before = statistics.plans
    for number in range(6, 16):
        step(number)
    assert statistics.plans == before


def test_langevin_noise() -> None:
    optimizer = mx.optimizer.SGLD(learning_rate=0.04)
    weight = nd.zeros((100, 100))
    mx.optimizer.get_updater(optimizer)(0, nd.ones((100, 100)), weight)
    assert weight.asnumpy().mean() == pytest.approx(-0.02, abs=0.01)
    assert weight.asnumpy().std() == pytest.approx(0.2, rel=0.03)


def test_momentum_of_delayed_descent() -> None:
    updater = mx.optimizer.get_updater(mx.optimizer.DCASGD(learning_rate=0.5, momentum=0.5, lamda=0.0))
    weight = nd.zeros((2,))
    for _ in range(2):
        updater(0, nd.ones((2,)), weight)
    assert weight.asnumpy().tolist() == [-1.25, -1.25]


def test_updates_are_not_recorded() -> None:
    weight = nd.ones((2,))
    weight.attach_grad()
    updater = mx.optimizer.get_updater(mx.optimizer.DCASGD(learning_rate=0.5))
    with autograd.record():
        loss = (weight * weight).sum()
        updater(0, nd.ones((2,)), weight)
        later = (weight * 3).sum()
    later.backward()
    assert weight.grad.asnumpy().tolist() == [3, 3]  # type: ignore[union-attr]
    loss.backward()
    assert weight.grad.asnumpy().tolist() == [2, 2]  # type: ignore[union-attr]


@pytest.mark.parametrize("method", ["update", "update_multi_precision"])
def test_methods_that_are_replaced_are_called(method: str) -> None:
    optimizer = mx.optimizer.Adam(learning_rate=0.1)
    updater = mx.optimizer.get_updater(optimizer)
    weights, calls = [nd.ones((2,)), nd.ones((3,))], []
    usual = getattr(optimizer, method)

    def replaced(*arguments: Any) -> None:
        calls.append(arguments[0])
        usual(*arguments)

    setattr(optimizer, method, replaced)
    for _ in range(3):
        updater([0, 1], [nd.ones((2,)), nd.ones((3,))], weights)
    assert calls == [0, 1] * 3


def test_states_move_with_the_weights() -> None:
    updater = mx.optimizer.get_updater(mx.optimizer.Adam())
    updater(0, nd.ones((1,)), nd.ones((1,)))
    other = mx.optimizer.get_updater(mx.optimizer.Adam())
    other.set_states(updater.get_states())
    other(0, nd.ones((1,), ctx=mx.cpu(1)), nd.ones((1,), ctx=mx.cpu(1)))
    assert [state.context for state in other.states[0]] == [mx.cpu(1)] * 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mx.lr_scheduler.FactorScheduler(step=0), "Schedule step must be greater"),
        (lambda: mx.lr_scheduler.FactorScheduler(step=1, factor=2), "Factor must be no more than 1"),
        (lambda: mx.lr_scheduler.MultiFactorScheduler(step=[3, 2]), "increasing integer list"),
        (lambda: mx.lr_scheduler.PolyScheduler(max_update=0), "strictly positive"),
        (lambda: mx.lr_scheduler.CosineScheduler(5, base_lr=0.1, warmup_begin_lr=0.2), "Base lr has to be higher"),
        (lambda: mx.lr_scheduler.CosineScheduler(5, warmup_mode="square"), "linear and constant"),
    ],
)
def test_schedulers_check_their_arguments(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def after_steps(optimizer: Any, steps: int = 3, dtype: str = "float32", sizes: tuple[int, ...] = (2,)) -> list[Any]:
    """Return weights of ones after updates of all of them at once by gradients of twos."""
    updater = mx.optimizer.get_updater(optimizer)
    weights = [nd.ones((size,), dtype=dtype) for size in sizes]
    grads = [nd.full((size,), 2, dtype=dtype) for size in sizes]
    for _ in range(steps):
        updater(list(range(len(sizes))), grads, weights)
    return [weight.asnumpy() for weight in weights]


@pytest.mark.parametrize("name", ["sgd", "nag", "signum", "adam", "rmsprop", "ftrl", "ftml", "lamb", "lars", "adagrad"])
def test_limits_that_are_none(name: str) -> None:
    wanted = after_steps(mx.optimizer.create(name, learning_rate=0.1))
    for limit in (-1.0, 0.0):
        found = after_steps(mx.optimizer.create(name, learning_rate=0.1, clip_gradient=limit))
        np.testing.assert_array_equal(found, wanted)


def test_a_learning_rate_of_zero_changes_nothing() -> None:
    schedule = mx.lr_scheduler.FactorScheduler(9, base_lr=0.1, warmup_steps=3, warmup_mode="constant")
    optimizer = mx.optimizer.FTML(lr_scheduler=schedule)
    assert after_steps(optimizer, 2)[0].tolist() == [1, 1]
    assert after_steps(optimizer, 3)[0].max() < 1


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_lars_corrects_the_momentum_of_a_whole_group(dtype: str) -> None:
    names = {0: "a_bias", 1: "b_bias", 2: "c_bias"}
    schedule = mx.lr_scheduler.FactorScheduler(1, 0.5, base_lr=0.1)
    optimizer = mx.optimizer.LARS(
        momentum=0.9, lr_scheduler=schedule, param_idx2name=names, multi_precision=dtype == "float16"
    )
    found = after_steps(optimizer, 2, dtype, (2, 3, 4))
    # the first step is 0.2, the second 0.1 and what is left of the first: 0.9 of it, times the ratio of the rates
    for weight in found:
        np.testing.assert_allclose(weight, 1 - 0.2 - (0.1 + 0.9 * 0.5 * 0.2), rtol=1e-3)


def test_states_of_lbsgd_begin_with_the_copy() -> None:
    optimizer = mx.optimizer.LBSGD(momentum=0.9, multi_precision=True)
    copy, momentum = optimizer.create_state_multi_precision(0, nd.ones((2,), dtype="float16"))
    assert copy.asnumpy().tolist() == [1, 1]
    assert momentum.asnumpy().tolist() == [0, 0]
    assert copy.dtype == momentum.dtype == np.float32


def test_lbsgd_is_lazy() -> None:
    updater = mx.optimizer.get_updater(mx.optimizer.LBSGD(momentum=0.9, learning_rate=0.1, wd=0.1))
    weight = nd.ones((3, 1))
    for row in (0, 1):
        updater(0, nd.sparse.row_sparse_array(([[1.0]], [row]), shape=(3, 1)), weight)
    np.testing.assert_allclose(weight.asnumpy()[:, 0], [0.89, 0.89, 1], rtol=1e-6)


def test_lists_of_weights() -> None:
    optimizer = mx.optimizer.SGD(learning_rate=0.5)
    weights = [nd.ones((1,)), nd.ones((2,))]
    optimizer.update([0, 1], weights, weights, [None, None])
    assert [weight.asnumpy().tolist() for weight in weights] == [[0.5], [0.5, 0.5]]
