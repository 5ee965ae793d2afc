"""Compiled functions that differentiate: a gradient buffer belongs to the argument that is its variable."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd

from .capturing import array, bits, counted, each_executor  # noqa: F401 - pytest finds fixtures by name

pytestmark = pytest.mark.usefixtures("each_executor")


def variable(values: Any, request: str = "write", stype: str | None = None) -> Any:
    """Return a variable whose gradient buffer holds sevens."""
    made = nd.array(values)
    made.attach_grad(request, stype=stype)
    if stype is None:
        made.grad[:] = 7
    return made


def differentiate(w: Any, x: Any) -> Any:
    with autograd.record():
        loss = (w * w * x).sum()
    loss.backward()
    return loss


class Differentiating(gluon.HybridBlock):
    def hybrid_forward(self, F: Any, w: Any, x: Any) -> Any:
        return differentiate(w, x)


def as_function(function: Callable[..., Any]) -> Any:
    return mx.compile(function)


def as_block(function: Callable[..., Any]) -> Any:
    class Block(gluon.HybridBlock):
        def hybrid_forward(self, F: Any, *arguments: Any) -> Any:
            return function(*arguments)

    block = Block()
    block.hybridize()
    return block


ways = pytest.mark.parametrize("way", [as_function, as_block], ids=["compile", "hybridize"])


def compare(function: Callable[..., Any], way: Any, make: Callable[[int], tuple[Any, ...]], calls: int = 4) -> Any:
    """Compare results, arguments and gradients of some calls with those of the plain function."""
    repeating = way(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for number in range(calls):
            seen = []
            for called in (function, repeating):
                arguments = make(number)
                result = called(*arguments)
                results = result if isinstance(result, (list, tuple)) else [result]
                grads = [given.grad for given in arguments if given.grad is not None]
                seen.append(bits(*[part for part in results if part is not None], *arguments, *grads))
            assert seen[0] == seen[1], number
    return repeating if way is as_function else repeating._compiled


@ways
@pytest.mark.parametrize("request_", ["write", "add"])
def test_each_argument_gets_its_own_gradient(way: Any, request_: str) -> None:
    step = way(differentiate)
    a, b = variable([2.0, 3.0], request_), variable([5.0, 6.0], request_)
    step(a, nd.array([1.0, 2.0]))
    kept = a.grad.asnumpy().tolist()
    for _ in range(3):
        b.grad[:] = 7
        step(b, nd.array([30.0, 40.0]))
        assert (b.grad - (7 if request_ == "add" else 0)).asnumpy().tolist() == [300.0, 480.0]
        assert b._fresh_grad
        b._fresh_grad = False
    assert a.grad.asnumpy().tolist() == kept


@ways
def test_gradients_are_repeated_without_python(way: Any) -> None:
    compiled = compare(differentiate, way, lambda number: (variable([1.0, number]), nd.array([number, 2.0])))
    assert (compiled.captured, compiled.repeated) == (1, 3)


@ways
@pytest.mark.parametrize("shared", [False, True])
def test_requests_are_part_of_the_structure(way: Any, shared: bool) -> None:
    def make(number: int) -> tuple[Any, Any]:
        w, x = (variable([1.0, number], ("write", "add", "null")[(number + k) % 3]) for k in range(2))
        if shared and number % 2:
            autograd.mark_variables([x], [w.grad], ["add"])
        return w, x

    compare(differentiate, way, make, 9)


@ways
def test_one_array_twice(way: Any) -> None:
    def make(number: int) -> tuple[Any, Any]:
        w = variable([1.0, number])
        return (w, w) if number % 2 else (w, variable([2.0, number]))

    compare(differentiate, way, make, 6)


@ways
@pytest.mark.parametrize(
    "function",
    [
        lambda w, x: w.grad * 2,
        lambda w, x: [w.grad, w],
        lambda w, x: [None, w.grad.__iadd__(x)][0],
        lambda w, x: [w.grad.__imul__(x), differentiate(w, x), w.grad * 3],
        lambda w, x: [differentiate(w, x), w.grad.__isub__(x)],
        lambda w, x: [differentiate(w, x), w.__isub__(w.grad * 0.5), w.grad],
        lambda w, x: [w.grad[0:1], differentiate(w, x)],
        lambda w, x: [w.grad.reshape((2, 1)).__iadd__(1), w.grad],
    ],
    ids=["read", "returned", "changed", "changed before", "changed after", "descent", "viewed", "changed by a view"],
)
def test_gradient_buffers_inside(function: Any, way: Any) -> None:
    compare(function, way, lambda number: (variable([1.0, number]), nd.array([number, 2.0])), 4)


@ways
def test_the_gradient_buffer_is_an_argument(way: Any) -> None:
    def function(w: Any, x: Any, grad: Any) -> Any:
        loss = differentiate(w, x)
        grad += 1
        return [loss, grad]

    def make(number: int) -> tuple[Any, ...]:
        w = variable([1.0, number])
        return w, nd.array([number, 2.0]), w.grad if number % 2 else nd.array([4.0, number])

    compare(function, way, make, 6)


def test_the_gradient_buffer_is_used_by_another_name() -> None:
    first = variable([1.0, 2.0])
    kept = first.grad

    def function(w: Any) -> Any:
        return w.grad * 10 + kept

    compiled = mx.compile(function)
    for number, w in enumerate([first, variable([1.0, 1.0]), variable([2.0, 1.0]), first]):
        w.grad[:] = number + 1
        assert bits(compiled(w)) == bits(w.grad * 10 + kept)


def test_shared_gradient_buffers_with_outside_variables() -> None:
    outside = variable([1.0, 2.0])

    def function(w: Any) -> Any:
        with autograd.record():
            loss = (w * outside * w).sum()
        loss.backward()

    def make(number: int) -> tuple[Any]:
        w = variable([3.0, number], "add")
        if number in (0, 3):
            autograd.mark_variables([w], [outside.grad], ["write"])
        outside.grad[:] = 0
        return (w,)

    seen: list[Any] = []
    for called in (function, mx.compile(function)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = []
            for number in range(6):
                (w,) = make(number)
                called(w)
                found.append(bits(w.grad, outside.grad))
            seen.append(found)
    assert seen[0] == seen[1]


def test_an_argument_that_is_an_outside_variable() -> None:
    w = variable([1.0, 2.0])

    def slope(x: Any) -> Any:
        with autograd.record():
            loss = (x * x * w).sum()
        return autograd.grad(loss, [w])[0]

    compiled = mx.compile(slope)
    other = variable([3.0, 4.0])
    for given in (other, variable([5.0, 6.0]), w, other):
        assert bits(compiled(given)) == bits(slope(given))


@pytest.mark.filterwarnings("ignore:.*called each time:RuntimeWarning")
def test_storage_and_dtype_of_gradients() -> None:
    def make(number: int) -> tuple[Any, Any]:
        dtype = "float64" if number % 3 == 2 else "float32"
        w = nd.array([1.0, number], dtype=dtype)
        w.attach_grad(stype="row_sparse" if number % 2 else None)
        return w, nd.array([2.0, 3.0], dtype=dtype)

    step = mx.compile(differentiate)
    for number in range(8):
        w, x = make(number)
        step(w, x)
        assert w.grad.stype == ("row_sparse" if number % 2 else "default")
        assert w.grad.asnumpy().tolist() == (2 * w * x).asnumpy().tolist()


def test_outside_variables_that_are_marked_again() -> None:
    w = variable([1.0, 2.0])

    def step(x: Any) -> Any:
        with autograd.record():
            loss = (w * w * x).sum()
        loss.backward()

    def read(x: Any) -> Any:
        return w.grad + x

    stepping, reading = mx.compile(step), mx.compile(read)
    x = nd.array([1.0, 1.0])
    for request_ in ("write", "write", "add", "add", "write"):
        before = w.grad
        kept = before.asnumpy().tolist()
        w.attach_grad(request_)
        for turn in (1, 2):
            stepping(x)
            scale = turn if request_ == "add" else 1
            assert w.grad.asnumpy().tolist() == [2.0 * scale, 4.0 * scale]
            assert bits(reading(x)) == bits(w.grad + 1)
        assert before.asnumpy().tolist() == kept


@pytest.mark.filterwarnings("ignore:.*called each time:RuntimeWarning")
def test_differentiating_what_is_recorded_outside() -> None:
    seen: list[Any] = []
    for compiles in (False, True):
        w = variable([1.0, 2.0])

        def step(x: Any, w: Any = w) -> Any:
            # itself a head, and recorded outside
            w.backward()

        called = mx.compile(step) if compiles else step
        found = []
        for number in range(4):
            if number == 2:
                w.attach_grad()
            with autograd.record():
                pending = w * 3
            called(nd.array([number, 5.0]))
            found.append(bits(w.grad, pending))
            head = mx.compile(lambda y: y.backward()) if compiles else (lambda y: y.backward())
            head(pending)
            found.append(bits(w.grad))
        seen.append(found)
    assert seen[0] == seen[1]


def test_marked_inside_a_record_between_calls() -> None:
    w = variable([1.0, 2.0])

    @mx.compile
    def step(x: Any) -> Any:
        with autograd.record():
            loss = (w * w * x).sum()
        loss.backward()

    x = nd.array([1.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        step(x)
        step(x)
        with autograd.record():
            # from here on it is a result, and its gradient goes on to what it was made of
            w *= 2
        step(x)
    assert w.grad.asnumpy().tolist() == [8.0, 16.0]


@pytest.mark.filterwarnings("ignore:.*called each time:RuntimeWarning")
def test_hooks_see_every_gradient() -> None:
    seen: list[int] = []

    def hook(grad: Any) -> Any:
        seen.append(1)
        return grad * 2

    for is_outside in (False, True):
        seen.clear()
        outside = variable([1.0, 2.0])

        def step(w: Any, x: Any, is_outside: bool = is_outside, outside: Any = outside) -> Any:
            return differentiate(outside if is_outside else w, x)

        compiled = mx.compile(step)
        x = nd.array([1.0, 1.0])
        for number in range(4):
            w = variable([1.0, number])
            target = outside if is_outside else w
            if number == 2 or (number == 3 and not is_outside):
                target.register_hook(hook) if hasattr(target, "register_hook") else autograd.register_hook(target, hook)
            compiled(w, x)
            scale = 2 if number >= 2 else 1
            assert target.grad.asnumpy().tolist() == (2 * scale * target).asnumpy().tolist()
        assert len(seen) == 2


def test_written_variables_keep_their_record() -> None:
    """Write to an argument that is a variable; with fresh arrays each time, nodes of other traces must not appear."""

    @mx.compile
    def fill(a: Any, b: Any) -> Any:
        a[:] = 0.25
        return b * 2

    for number in range(5):
        a, b = variable([1.0, 2.0]), variable([number, 3.0])
        assert fill(a, b).asnumpy().tolist() == [2.0 * number, 6.0]
        assert a.asnumpy().tolist() == [0.25, 0.25]
        with autograd.record():
            loss = (a * a).sum()
        loss.backward()
        assert a.grad.asnumpy().tolist() == [0.5, 0.5]
    # nothing is left behind that disturbs other programs
    x = variable(np.ones(3))
    with autograd.record():
        y = (x * 3).sum()
    y.backward()
    assert x.grad.asnumpy().tolist() == [3.0] * 3
    assert fill.repeated == 4


def test_a_trainer_step_marks_gradients_as_used() -> None:
    w = variable([1.0, 2.0])

    @mx.compile
    def use() -> None:
        w[:] = w - w.grad
        w._fresh_grad = False

    for _ in range(3):
        w._fresh_grad = True
        use()
        assert not w._fresh_grad


def test_random_numbers_of_a_function_that_is_called_again() -> None:
    base = nd.zeros((4,))
    view = base[1:3]

    def draw() -> Any:
        first = nd.random.uniform(shape=(2,))
        first.wait_to_read()
        first.asnumpy()
        # cannot be captured, after numbers have been drawn
        view[:] = first
        return first

    seen = []
    for called in (draw, mx.compile(draw)):
        mx.random.seed(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            seen.append([bits(called(), base) for _ in range(3)])
    assert seen[0] == seen[1]


def test_runs_of_python_code() -> None:
    step, runs = counted(differentiate)
    for seed in range(5):
        w = variable(array(3, seed=seed).asnumpy())
        step(w, array(3, seed=seed + 9))
    assert (len(runs), step.repeated) == (1, 4)
