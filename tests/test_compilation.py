"""compile: what is repeated without being run does what running it would have done."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, settings
from phonograd.node import statistics


def array(*shape: int, seed: int = 0) -> Any:
    return nd.array(np.random.default_rng(seed).normal(size=shape))


def bits(*arrays: Any) -> list[bytes]:
    return [part.asnumpy().tobytes() for part in arrays]


def counted(function: Callable[..., Any]) -> tuple[Any, list[int]]:
    """Return a compiled function and a list that grows each time that its Python code runs."""
    runs: list[int] = []

    def counting(*arguments: Any, **keywords: Any) -> Any:
        runs.append(1)
        return function(*arguments, **keywords)

    return mx.compile(counting), runs


@pytest.fixture(params=["reference", "native"], autouse=True)
def _executors(request: pytest.FixtureRequest) -> Any:
    if request.param == "native":
        pytest.importorskip("llvmlite")
    with settings.override(executor=request.param):
        yield


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


# -- what is not repeated


def test_looking_at_values_is_right_and_explained_once() -> None:
    seen = []

    def halve(x: Any) -> Any:
        x = x * 1
        while x.max() > 1:
            x = x / 2
        seen.append(float(x[0]))
        return x

    function, runs = counted(halve)
    with pytest.warns(RuntimeWarning, match="looks at the value of an array.*test_compilation.py"):
        first = function(nd.array([9.0]))
    assert first.asscalar() == 0.5625
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert function(nd.array([3.0])).asscalar() == 0.75
        assert function(nd.array([0.5])).asscalar() == 0.5
    assert len(runs) == 3
    assert seen == [0.5625, 0.75, 0.5]
    assert function.repeated == 0


def test_looking_at_an_array_that_is_no_argument() -> None:
    flag = nd.array([1.0])
    function, _ = counted(lambda x: x * 2 if flag.asscalar() else x)
    x = array(3)
    with pytest.warns(RuntimeWarning, match="looks at"):
        assert bits(function(x)) == bits(x * 2)
    flag[:] = 0
    assert bits(function(x)) == bits(x)


@pytest.mark.filterwarnings("ignore:.*called each time:RuntimeWarning")
def test_arrays_that_are_kept() -> None:
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(x * 2)
        return x + 1

    function, runs = counted(keep)
    for seed in range(3):
        x = array(3, seed=seed)
        assert bits(function(x)) == bits(x + 1)
        assert bits(kept[-1]) == bits(x * 2)
    assert len(kept) == len(runs) == 3


@pytest.mark.filterwarnings("ignore:.*called each time:RuntimeWarning")
def test_arguments_that_are_kept() -> None:
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(x)
        return x + 1

    function, _ = counted(keep)
    for seed in range(3):
        x = array(3, seed=seed)
        function(x)
        assert bits(kept[-1]) == bits(x)


class Doubled(autograd.Function):
    def forward(self, x: Any) -> Any:
        return x * 2

    def backward(self, grad: Any) -> Any:
        return grad * 2


@pytest.mark.filterwarnings("ignore:.*called each time:RuntimeWarning")
def test_user_written_functions() -> None:
    w = array(3)
    w.attach_grad()
    function, _ = counted(lambda: Doubled()(w) * w)
    for _ in range(3):
        with autograd.record():
            result = function()
        result.backward()
        np.testing.assert_allclose(w.grad.asnumpy(), 4 * w.asnumpy(), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*called each time:RuntimeWarning")
def test_views_that_are_changed() -> None:
    base = nd.zeros((4,))
    view = base[1:3]

    def fill(x: Any) -> None:
        view[:] = x

    function, _ = counted(fill)
    for value in (1.0, 2.0, 3.0):
        function(nd.array([value, value]))
        assert base.asnumpy().tolist() == [0, value, value, 0]


@pytest.mark.filterwarnings("ignore:.*called each time:RuntimeWarning")
def test_marking_variables_inside() -> None:
    def slope(x: Any) -> Any:
        y = x * 1
        y.attach_grad()
        with autograd.record():
            z = y * y
        z.backward()
        return y.grad

    function, _ = counted(slope)
    for seed in range(3):
        x = array(3, seed=seed)
        assert bits(function(x)) == bits(x * 2)


def test_arguments_that_cannot_be_compared() -> None:
    function, runs = counted(lambda x, table: x * nd.array(table))
    x = array(2)
    with pytest.warns(RuntimeWarning, match="hashable"):  # noqa: PT031 - warned once over all of it
        for table in (np.array([1.0, 2.0]), np.array([3.0, 4.0])):
            assert bits(function(x, table)) == bits(x * nd.array(table))
    assert len(runs) == 2


def test_exceptions_leave_what_was_done() -> None:
    total = nd.zeros((2,))

    def fail(x: Any, how: str) -> Any:
        total[:] = total + x
        if how == "fail":
            raise ValueError("no")
        return x

    function = mx.compile(fail)
    with pytest.raises(ValueError, match="no"):
        function(nd.ones((2,)), "fail")
    assert total.asnumpy().tolist() == [1, 1]
    function(nd.ones((2,)), "go on")
    assert total.asnumpy().tolist() == [2, 2]
    # and the trace outside is as usable as before
    assert (total * 2).asnumpy().tolist() == [4, 4]


def test_shape_errors_are_raised_at_the_line() -> None:
    function = mx.compile(lambda x: nd.dot(x, nd.ones((7, 2))))
    with pytest.raises(mx.MXNetError):
        function(array(2, 3))


# -- nesting, methods, threads, memory


def test_compiled_functions_inside_each_other() -> None:
    w = array(3)
    w.attach_grad()
    inner, inner_runs = counted(lambda x: nd.tanh(x * w))
    outer, outer_runs = counted(lambda x: inner(inner(x)) + inner(x * 2))

    def plain(x: Any) -> Any:
        return nd.tanh(nd.tanh(x * w) * w) + nd.tanh(x * 2 * w)

    for seed in range(3):
        x = array(3, seed=seed)
        assert bits(outer(x)) == bits(plain(x))
        with autograd.record():
            result = outer(x)
        result.backward()
        found = bits(w.grad)
        with autograd.record():
            result = plain(x)
        result.backward()
        assert found == bits(w.grad)
    assert len(outer_runs) == 2
    assert len(inner_runs) <= 4


def test_an_inner_function_of_known_arrays_is_not_a_constant() -> None:
    w = array(3)
    w.wait_to_read()
    inner, _ = counted(lambda: w * 2)
    inner()
    inner()
    outer, _ = counted(lambda x: x + inner())
    x = array(3, seed=1)
    outer(x)
    w += 1
    assert bits(outer(x)) == bits(x + w * 2)


def test_methods() -> None:
    class Scale:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @mx.compile
        def __call__(self, x: Any) -> Any:
            """Return the array, scaled."""
            return x * self.factor

    two, three = Scale(2), Scale(3)
    x = array(3)
    for _ in range(2):
        assert bits(two(x), three(x)) == bits(x * 2, x * 3)
    assert Scale.__call__.__doc__ == "Return the array, scaled."


def test_several_threads() -> None:
    w = array(3)
    function, _ = counted(lambda x: nd.tanh(x * w) + 1)
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(20):
            x = array(3, seed=100 * number + turn)
            if bits(function(x)) != bits(nd.tanh(x * w) + 1):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_naive_engine_calls_the_function() -> None:
    function, runs = counted(lambda x: x * 2)
    with settings.override(naive=True):
        for _ in range(3):
            function(array(3))
    assert len(runs) == 3


def test_arguments_are_not_kept_alive() -> None:
    function = mx.compile(lambda x: x * 2)
    for _ in range(3):
        x = array(3)
        reference = weakref.ref(x)
        result = function(x)
        result.wait_to_read()
        del x
        gc.collect()
        assert reference() is None


def test_structures_are_bounded() -> None:
    function, runs = counted(lambda x, number: x + number)
    x = array(2)
    for number in range(100):
        function(x, number)
    assert len(function._structures) <= 64
    function.clear()
    function(x, 99)
    assert len(runs) == 101


def test_forgetting_nodes_forgets_captures() -> None:
    function, runs = counted(lambda x: nd.exp(x) + 1)
    x = array(3)
    expected = bits(nd.exp(x) + 1)
    with settings.override(node_limit=50, plan_limit=4):
        for turn in range(30):
            assert bits(function(x)) == expected
            (x * float(turn) + turn).wait_to_read()
            bits(nd.ones((turn + 1,)) + 1)
    assert 1 <= len(runs) <= 30


def test_only_functions() -> None:
    with pytest.raises(TypeError, match="only functions"):
        mx.compile(3)  # type: ignore[arg-type]
