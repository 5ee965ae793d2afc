"""compile: what is not repeated, and functions inside of others, in threads and in little memory."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, settings

from .capturing import array, bits, counted, each_executor  # noqa: F401 - pytest finds fixtures by name

pytestmark = pytest.mark.usefixtures("each_executor")

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
    with pytest.warns(RuntimeWarning, match="looks at the value of an array.*test_compilation_limits.py"):
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
