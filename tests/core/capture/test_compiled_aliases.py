"""Compiled functions whose arrays share memory: in one call, and not in another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd

from .capturing import bits, each_executor  # noqa: F401 - pytest finds fixtures by name

pytestmark = [
    pytest.mark.usefixtures("each_executor"),
    pytest.mark.filterwarnings("ignore:.*called each time:RuntimeWarning"),
]


def row_then_change(x: Any) -> Any:
    row = x[0]
    x += 1
    return [row, x]


def change_then_row(x: Any) -> Any:
    x += 1
    return [x[0], x]


def write_through(x: Any) -> Any:
    row = x[0]
    row[1:2] = 5
    return [x, row]


def reshape_then_change(x: Any) -> Any:
    flat = x.reshape((-1,))
    x *= 2
    return (flat, x)


def view_of_a_view(x: Any) -> Any:
    part = x[0:1].reshape((3,))[1:]
    x[:] = x * 3
    part += 1
    return {"part": part, "whole": x}


def local_base(x: Any) -> Any:
    whole = x * 2
    row = whole[1]
    whole += 1
    return [row, whole]


def unchanged(x: Any) -> Any:
    return [x, x[0]]


def after_a_backward_pass(x: Any) -> Any:
    row = x[0]
    with autograd.record():
        loss = (x * x).sum()
    loss.backward()
    x += 1
    return [row, x]


FUNCTIONS = [
    *(row_then_change, change_then_row, write_through, reshape_then_change, view_of_a_view, local_base, unchanged),
    after_a_backward_pass,
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("marked", [False, True])
def test_results_that_share_memory(function: Callable[[Any], Any], marked: bool) -> None:
    compiled = mx.compile(function)
    for number in range(4):
        seen = []
        for called in (function, compiled):
            x = nd.array(np.arange(6.0).reshape(2, 3) + number)
            if marked or function is after_a_backward_pass:
                x.attach_grad()
            found = called(x)
            parts = list(found.values()) if isinstance(found, dict) else list(found)
            states = [bits(*parts, x)]
            for part in (*parts, x):
                # a write to one of them shows in the others
                part += 10
                states.append(bits(*parts, x))
            seen.append(states)
        assert seen[0] == seen[1], number


def test_arguments_that_share_memory_in_some_calls() -> None:
    outside = nd.array([1.0, 2.0, 3.0, 4.0])

    def function(x: Any, y: Any) -> Any:
        x += 1
        outside[:] = outside * 2
        return [y * 10, outside + 0]

    compiled = mx.compile(function)

    def make(number: int) -> tuple[Any, Any]:
        base = nd.array(np.arange(8.0) + number)
        ways = {
            "different": lambda: (base[0:4] + 0, base[4:] + 0),
            "one twice": lambda: (base[0:4],) * 2,
            "overlapping": lambda: (base[0:4], base[2:6]),
            "a view of the other": lambda: ((whole := base[0:4] + 0), whole.reshape((4,))),
            "the other way": lambda: ((whole := base[0:4] + 0).reshape((4,)), whole),
            "outside": lambda: (base[0:4] + 0, outside),
            "outside changed": lambda: (outside, base[0:4] + 0),
            "a view of outside": lambda: (base[0:4] + 0, outside.reshape((4,))),
            "a changed view of outside": lambda: (outside.reshape((4,)), base[0:4] + 0),
            "detached": lambda: ((whole := base[0:4] + 0), whole.detach()),
        }
        return list(ways.values())[number % len(ways)]()

    seen: list[Any] = []
    for called in (function, compiled):
        outside[:] = nd.array([1.0, 2.0, 3.0, 4.0])
        found = []
        for number in [0, 0, 0, *range(1, 10), 0, *range(1, 10)]:
            x, y = make(number)
            for array in (x, y):
                array.wait_to_read()
            found.append(bits(*called(x, y), x, y, outside))
        seen.append(found)
    assert seen[0] == seen[1]
    assert compiled.repeated > 1


def test_an_outside_array_that_is_only_written() -> None:
    outside = nd.zeros((2,))

    def function(x: Any) -> Any:
        outside[:] = x * 2
        return x + 1

    compiled = mx.compile(function)
    for given in (nd.array([1.0, 2.0]), nd.array([3.0, 4.0]), outside, nd.array([5.0, 6.0]), outside):
        before = nd.array(given.asnumpy())
        expected = before * 2 + 1 if given is outside else before + 1
        assert bits(compiled(given)) == bits(expected)


def test_a_view_of_a_changed_outside_array() -> None:
    seen: list[Any] = []
    for compiles in (False, True):
        outside = nd.array([[1.0, 2.0], [3.0, 4.0]])

        def function(x: Any, outside: Any = outside) -> Any:
            outside[0] = x
            return outside[0].detach()

        called = mx.compile(function) if compiles else function
        found = []
        for number in range(3):
            row = called(nd.array([number, 5.0]))
            outside += 1
            found.append(bits(row, outside))
            row += 1
            found.append(bits(row, outside))
        seen.append(found)
    assert seen[0] == seen[1]


def test_kept_arguments_stay_the_arrays_that_they_are() -> None:
    kept: list[Any] = []

    @mx.compile
    def keep(x: Any) -> Any:
        kept.append(x)
        kept.append(x[0:1])
        return x

    for number in range(3):
        x = nd.array([1.0, number])
        result = keep(x)
        assert result is x
        x += 1
        kept[-1][:] = 9
        kept[-2][1:] = 8
        assert x.asnumpy().tolist() == [9.0, 8.0]
        assert kept[-2].asnumpy().tolist() == [9.0, 8.0]


def test_states_of_arguments() -> None:
    def function(x: Any) -> Any:
        with autograd.record():
            loss = (x * x).sum()
        try:
            loss.backward()
        except mx.MXNetError:
            return x * 1
        return x * 2

    compiled = mx.compile(function)

    def make(number: int) -> Any:
        x = nd.array([1.0, number])
        state = number % 5
        if state in (1, 3):
            x.attach_grad()
        if state == 2:
            source = nd.array([2.0, 3.0])
            source.attach_grad()
            with autograd.record():
                x = x * source
        if state == 3:
            with autograd.record():
                x *= 3
        if state == 4:
            x.attach_grad()
            x = x.detach()
        return x

    seen = []
    for called in (function, compiled):
        found = []
        for number in range(15):
            x = make(number)
            found.append((bits(called(x), x), None if x.grad is None else bits(x.grad)))
        seen.append(found)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,)])
def test_small_arrays(shape: tuple[int, ...]) -> None:
    def function(x: Any, y: Any) -> Any:
        x += 1
        return [x, y + x, x.reshape((-1,)) if 0 not in shape else y]

    compiled = mx.compile(function)
    for _ in range(3):
        seen = []
        for called in (function, compiled):
            x, y = mx.np.ones(shape), mx.np.ones(shape) * 3
            seen.append(bits(*called(x, y), x, y))
        assert seen[0] == seen[1]


def test_readonly_arguments() -> None:
    compiled = mx.compile(lambda x: x.__iadd__(1))
    for _ in range(3):
        x = nd.array([1.0, 2.0])
        assert compiled(x).asnumpy().tolist() == [2.0, 3.0]
    x = nd.array([1.0, 2.0])
    x._readonly = True
    with pytest.raises(ValueError, match="readonly"):
        compiled(x)
    assert x.asnumpy().tolist() == [1.0, 2.0]


def test_zeros_of_both_signs_as_numpy_numbers() -> None:
    compiled = mx.compile(lambda x, number: x * float(number))
    for zero in (0.0, -0.0, 0.0):
        found = compiled(nd.array([1.0]), np.float32(zero)).asnumpy()
        assert np.signbit(found[0]) == np.signbit(zero)


def test_a_hybridized_block_returns_its_argument() -> None:
    class Same(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return x

    block = Same()
    block.hybridize()
    for is_view in (False, True, False, True):
        whole = nd.array([1.0, 2.0])
        x = whole[0:2] if is_view else whole
        result = block(x)
        result += 1
        assert whole.asnumpy().tolist() == [2.0, 3.0]

    # outputs that are views of something else are arrays of their own, as in MXNet
    class Part(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return x[0:1]

    part = Part()
    part.hybridize()
    for _ in range(3):
        x = nd.array([1.0, 2.0])
        result = part(x)
        result += 1
        assert x.asnumpy().tolist() == [1.0, 2.0]
