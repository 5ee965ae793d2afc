"""compile: what is repeated without being run does what running it would have done."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.graph.node import statistics

from .capturing import array, bits, counted, each_executor  # noqa: F401 - pytest finds fixtures by name

pytestmark = pytest.mark.usefixtures("each_executor")


def test_python_runs_once() -> None:
    function, runs = counted(lambda x, w: nd.tanh(nd.dot(x, w)) + 1)
    for seed in range(4):
        x, w = array(2, 3, seed=seed), array(3, 4, seed=seed + 10)
        assert bits(function(x, w)) == bits(nd.tanh(nd.dot(x, w)) + 1)
    assert len(runs) == 1
    assert (function.captured, function.repeated) == (1, 3)


def test_pending_arguments_stay_pending() -> None:
    function, runs = counted(lambda x: nd.exp(x) * 2)
    for seed in range(3):
        x = array(5, seed=seed)
        before = statistics.evaluations
        result = function(x * x + 1)
        if seed:
            assert statistics.evaluations == before
        assert bits(result) == bits(nd.exp(x * x + 1) * 2)
    assert len(runs) == 1


def test_other_structures_run_again() -> None:
    function, runs = counted(lambda x, axis=0, *, scale=1.0: x.sum(axis=axis) * scale)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((array(2, 3),), {}),
        ((array(4, 3),), {}),
        ((array(2, 3).astype("float64"),), {}),
        ((array(2, 3), 1), {}),
        ((array(2, 3),), {"axis": 1}),
        ((array(2, 3),), {"scale": 2.0}),
        ((array(2, 3),), {"scale": 2}),
        ((array(2, 3), True), {}),
    ]
    for _ in range(2):
        for arguments, keywords in calls:
            axis = arguments[1] if len(arguments) > 1 else keywords.get("axis", 0)
            expected = arguments[0].sum(axis=int(axis)) * keywords.get("scale", 1.0)
            assert bits(function(*arguments, **keywords)) == bits(expected)
    assert len(runs) == len(calls)


def test_structures_of_arguments_and_results() -> None:
    Pair = namedtuple("Pair", "first second")
    function, runs = counted(
        lambda data: {"sum": data["a"] + data["b"][0], "pair": Pair(data["a"] * 2, "text"), "list": [None, data["a"]]}
    )
    for seed in range(3):
        a, b = array(3, seed=seed), array(3, seed=seed + 5)
        found = function({"a": a, "b": [b]})
        assert bits(found["sum"], found["pair"].first) == bits(a + b, a * 2)
        assert isinstance(found["pair"], Pair)
        assert found["pair"].second == "text"
        assert found["list"][0] is None
        assert found["list"][1] is a
    assert len(runs) == 1


def test_arrays_that_are_no_arguments() -> None:
    w = array(3)
    function, runs = counted(lambda x: x * w)
    x = array(3, seed=1)
    for change in (lambda: None, lambda: w.__iadd__(1), lambda: w.__setitem__(0, 5.0)):
        change()
        assert bits(function(x)) == bits(x * w)
    assert len(runs) == 1


def test_an_argument_that_is_referred_to_otherwise_too() -> None:
    w = array(3)
    function, runs = counted(lambda x: x + w)
    assert bits(function(w)) == bits(w + w)
    x = array(3, seed=1)
    assert bits(function(x)) == bits(x + w)
    assert len(runs) == 1


def test_the_same_array_twice_is_another_structure() -> None:
    function, runs = counted(lambda x, y: x * 2 + y)
    a, b = array(3), array(3, seed=1)
    assert bits(function(a, a)) == bits(a * 2 + a)
    assert bits(function(a, b)) == bits(a * 2 + b)
    assert bits(function(b, a)) == bits(b * 2 + a)
    assert len(runs) == 2


def test_changes_in_place() -> None:
    total = nd.zeros((3,))

    def accumulate(x: Any) -> Any:
        x += 1
        total[:] = total + x
        x *= 2
        return x

    function, runs = counted(accumulate)
    expected = np.zeros(3, np.float32)
    for seed in range(4):
        x = array(3, seed=seed)
        values = x.asnumpy()
        result = function(x)
        assert result is x
        expected += values + 1
        np.testing.assert_array_equal(x.asnumpy(), (values + 1) * 2)
        np.testing.assert_array_equal(total.asnumpy(), expected)
    assert len(runs) == 1


def test_changes_of_arrays_made_inside() -> None:
    def build(x: Any) -> Any:
        out = nd.array([1.0, 2.0, 3.0])
        out[1:] = 0
        out += x
        part = out[0:2]
        part *= 3
        return out

    function, runs = counted(build)
    for seed in range(3):
        x = array(3, seed=seed)
        assert bits(function(x)) == bits(build(x))
    assert len(runs) == 1


def test_numbers_are_not_mixed_up() -> None:
    function, _ = counted(lambda x: (x * 0.0, x * -0.0, x + 1, x + 1.0, x * True))
    x = array(4)
    for _ in range(2):
        assert bits(*function(x)) == bits(x * 0.0, x * -0.0, x + 1, x + 1.0, x * True)


# -- records


def test_gradients_through_a_compiled_function() -> None:
    def forward(x: Any, w: Any) -> Any:
        return nd.tanh(nd.dot(x, w)) * w.sum()

    function, runs = counted(forward)
    for seed in range(3):
        x = array(2, 3, seed=seed)
        grads = []
        for called in (forward, function):
            w = array(3, 4, seed=seed + 5)
            w.attach_grad()
            with autograd.record():
                loss = (called(x * 1, w) ** 2).sum()
            loss.backward()
            grads.append(bits(loss, w.grad))
        assert grads[0] == grads[1]
    assert len(runs) == 1


def test_recorded_and_not_recorded_are_different_structures() -> None:
    w = array(3)
    w.attach_grad()
    function, runs = counted(lambda x: x * w)
    x = array(3, seed=1)
    for _ in range(2):
        plain = function(x)
        with autograd.record():
            recorded = function(x)
        recorded.backward()
        assert bits(w.grad) == bits(x)
        with pytest.raises(mx.MXNetError, match="not in a computational graph"):
            plain.backward()
    assert len(runs) == 2


def test_two_calls_are_two_records() -> None:
    w = array(3)
    w.attach_grad()
    function, _ = counted(lambda: nd.exp(w * 2))
    for _ in range(3):
        with autograd.record():
            first = function()
            second = function()
        first.backward()
        expected = bits(w.grad)
        # differentiating one of them does not clear the other one
        second.backward()
        assert bits(w.grad) == expected
        with pytest.raises(mx.MXNetError):
            first.backward()


def test_second_derivatives() -> None:
    x = array(4)
    x.attach_grad()
    function, runs = counted(lambda value: nd.sin(value) * value)
    for _ in range(3):
        with autograd.record():
            (slope,) = autograd.grad(function(x), x, create_graph=True)
            total = (slope * slope).sum()
        total.backward()
        found = bits(slope, x.grad)
        with autograd.record():
            (slope,) = autograd.grad(nd.sin(x) * x, x, create_graph=True)
            total = (slope * slope).sum()
        total.backward()
        assert found == bits(slope, x.grad)
    assert len(runs) == 1


@pytest.mark.parametrize("request_", ["write", "add"])
def test_a_whole_training_step(request_: str) -> None:
    def make() -> tuple[Any, Any, Callable[[Any], Any]]:
        w, b = array(3, 2, seed=7), array(2, seed=8)
        for parameter in (w, b):
            parameter.attach_grad(request_)

        def step(x: Any) -> Any:
            with autograd.record():
                loss = ((nd.dot(x, w) + b) ** 2).mean()
            loss.backward()
            for parameter in (w, b):
                parameter -= 0.1 * parameter.grad
            return loss

        return w, b, step

    w, b, plain = make()
    v, c, other = make()
    function, runs = counted(other)
    for seed in range(5):
        x = array(4, 3, seed=seed)
        assert bits(plain(x)) == bits(function(x))
        assert bits(w, b, w.grad, b.grad) == bits(v, c, v.grad, c.grad)
    assert len(runs) == 1


def test_gradients_are_fresh_after_each_call() -> None:
    w = array(3)
    w.attach_grad()

    @mx.compile
    def step() -> None:
        with autograd.record():
            loss = (w * w).sum()
        loss.backward()

    for _ in range(3):
        w._variable.fresh = 0
        step()
        assert w._variable.fresh == 1


def test_backward_inside_through_what_was_recorded_outside() -> None:
    w = array(3)
    w.attach_grad()

    @mx.compile
    def finish(h: Any) -> Any:
        loss = (h * h).sum()
        loss.backward()
        return loss

    x = array(3, seed=1)
    with pytest.warns(RuntimeWarning, match="called each time"):  # noqa: PT031 - warned once over all of it
        for _ in range(3):
            with autograd.record():
                finish(w * x)
            np.testing.assert_allclose(w.grad.asnumpy(), (2 * w * x * x).asnumpy(), rtol=1e-6)


@pytest.mark.usefixtures("planned")
def test_a_loop_without_reading_repeats_its_plan() -> None:
    w = array(3)
    w.attach_grad()

    @mx.compile
    def step(x: Any) -> None:
        with autograd.record():
            loss = (w * x).sum()
        loss.backward()
        w[:] = w - 0.1 * w.grad

    x = array(3, seed=1)
    for _ in range(5):
        step(x)
    before = statistics.snapshot()
    for _ in range(20):
        step(x)
    after = statistics.snapshot()
    assert (after["nodes"], after["plans"]) == (before["nodes"], before["plans"])


# -- modes, effects, random numbers


def test_training_mode_is_part_of_the_structure() -> None:
    function, runs = counted(lambda x: nd.Dropout(x, p=0.5))
    x = nd.ones((1000,))
    for _ in range(2):
        assert bits(function(x)) == bits(x)
        with autograd.train_mode():
            assert 300 < float((function(x) == 0).sum()) < 700
    assert len(runs) == 2


def test_random_numbers_are_new_each_time() -> None:
    def draw(x: Any) -> Any:
        return x + nd.random.uniform(shape=(5,)) + nd.random.normal(shape=(5,))

    function, runs = counted(draw)
    x = array(5)
    mx.random.seed(3)
    plain = [bits(draw(x))[0] for _ in range(4)]
    mx.random.seed(3)
    compiled = [bits(function(x))[0] for _ in range(4)]
    assert plain == compiled
    assert len(set(plain)) == 4
    assert len(runs) == 1


def test_moving_statistics_are_moved_each_time() -> None:
    def norm(moving_mean: Any, moving_var: Any) -> Callable[[Any], Any]:
        gamma, beta = nd.ones((3,)), nd.zeros((3,))
        return lambda x: nd.BatchNorm(x, gamma, beta, moving_mean, moving_var)

    first, second = (nd.zeros((3,)), nd.ones((3,))), (nd.zeros((3,)), nd.ones((3,)))
    plain = norm(*first)
    function, runs = counted(norm(*second))
    for seed in range(4):
        x = array(6, 3, seed=seed)
        with autograd.record():
            assert bits(plain(x)) == bits(function(x))
        assert bits(*first) == bits(*second)
    assert len(runs) == 1
