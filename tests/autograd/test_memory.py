"""What a record holds, and when it lets go. Counts and sizes, never times."""

import contextlib
import gc
import sys
import tracemalloc
import weakref

import numpy as np
import pytest

from phonograd import autograd, nd
from phonograd.core.base.assumptions import HAS_GIL
from phonograd.core.graph.node import statistics
from phonograd.core.plan import promotion
from phonograd.core.run import kernel_cache
from phonograd.core.trace.trace import LOCAL

from .arrays import close, values, variable

pytestmark = pytest.mark.usefixtures("planned")

MEGABYTE = 1 << 20


@contextlib.contextmanager
def without_collection():
    """Switch the garbage collector off: what must be freed must be freed by itself."""
    # a compiler at work allocates memory too
    kernel_cache.wait_for_tier_up()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def traced_bytes(function):
    """Return how much memory a function leaves allocated."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        function()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


class Square(autograd.Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x * x

    def backward(self, dy):
        return dy * 2 * self.saved_tensors[0]


def end_trace():
    """Begin a new trace, as the next iteration of a loop would."""
    with autograd.record():
        pass


@pytest.mark.parametrize("length", [12_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_very_long_chain_of_operators(length):
    assert length > 10 * sys.getrecursionlimit()
    x = variable([1.0, 2.0])

    def turn(waits):
        with autograd.record():
            y = x
            for _ in range(length):
                y = y * (1 + 1 / length)
        if waits:
            y.wait_to_read()
        y.backward()
        close(x.grad, [np.exp(1)] * 2, rtol=1e-2)

    turn(False)
    # a graph of this size drops all others when it is new, and its own gradients with them
    for _ in range(2):
        turn(True)
    before = statistics.snapshot()
    turn(True)
    after = statistics.snapshot()
    assert (after["nodes"], after["gradient_rules"]) == (before["nodes"], before["gradient_rules"])
    end_trace()


def test_a_chain_through_many_traces_and_functions_needs_no_recursion():
    class Through(autograd.Function):
        def forward(self, x):
            return x * 1

        def backward(self, dy):
            return dy * 1

    x = variable([1.0])
    y = x
    for step in range(3000):
        with autograd.record():
            y = Through()(y) if step % 2 else y * 1.0
    y.backward()
    assert values(x.grad) == [1]


def test_freeing_a_chain_that_was_never_differentiated():
    x = variable([1.0])
    with without_collection():
        with autograd.record():
            y = x
            for _ in range(20_000):
                y = y * 1.0
        y.wait_to_read()
        trace = weakref.ref(LOCAL.trace)
        del y
        end_trace()
        assert trace() is None


@pytest.mark.parametrize("read_first", [False, True])
def test_backward_frees_what_the_forward_pass_kept(read_first):
    x = variable(np.zeros((MEGABYTE // 4,)))

    def forward_and_backward():
        with autograd.record():
            y = x
            for _ in range(10):
                y = nd.sin(y)
            loss = y.sum()
        if read_first:
            loss.wait_to_read()
        loss.backward()
        x.grad.wait_to_read()
        kept.append(loss)

    kept = []
    forward_and_backward()
    assert traced_bytes(forward_and_backward) < 2 * MEGABYTE


def test_retaining_keeps_and_clearing_frees():
    x = variable(np.zeros((MEGABYTE // 4,)))
    with autograd.record():
        y = nd.exp(nd.sin(nd.cos(x)))
    y.wait_to_read()
    y.backward(retain_graph=True)
    x.grad.wait_to_read()
    inside = len(LOCAL.trace.values)
    assert inside >= 3
    y.backward()
    x.grad.wait_to_read()
    assert len(LOCAL.trace.values) == 0


def test_arrays_of_a_cleared_record_do_not_keep_it():
    x = variable([1.0])
    with without_collection():
        with autograd.record():
            h = x * 2
            y = Square()(h)
            z = y * 3
        z.wait_to_read()
        trace = weakref.ref(LOCAL.trace)
        z.backward()
        end_trace()
        assert trace() is None
        assert [values(array) for array in (h, y, z)] == [[2], [4], [12]]


def test_arrays_of_an_earlier_trace_do_not_keep_it_once_they_are_cleared():
    x = variable([1.0])
    with without_collection():
        with autograd.record():
            h = x * 2
        first = weakref.ref(LOCAL.trace)
        end_trace()
        assert first() is not None, "h can still be differentiated"
        with autograd.record():
            y = h * 3
        y.backward()
        x.grad.wait_to_read()
        end_trace()
        assert first() is None
        assert values(h) == [2]


def test_a_function_is_freed_after_backward():
    x = variable([1.0])
    with without_collection():
        function = Square()
        with autograd.record():
            y = function(x) * 2
        function = weakref.ref(function)
        y.backward()
        x.grad.wait_to_read()
        end_trace()
        assert function() is None


def test_gradients_with_a_graph_are_freed():
    x = variable([2.0])
    with without_collection():
        with autograd.record():
            y = x * x * x
            first = autograd.grad(y, x, create_graph=True)[0]
            second = autograd.grad(first, x, create_graph=True)[0]
        trace = weakref.ref(LOCAL.trace)
        second.backward()
        assert values(x.grad) == [6]
        del y, first, second
        end_trace()
        assert trace() is None


def test_hooks_are_freed():
    x = variable([2.0])

    class Hook:
        def __call__(self, gradient):
            return gradient * 2

    with without_collection():
        hook = Hook()
        with autograd.record():
            h = x * 3
            handle = autograd.register_hook(h, hook)
            y = h * h
        hook = weakref.ref(hook)
        y.backward()
        assert values(x.grad) == [72]
        end_trace()
        del handle
        assert hook() is None


def test_many_iterations_leave_nothing_behind():
    generator = np.random.default_rng(0)
    w = variable(generator.normal(size=(8, 8)))

    def step(kind):
        x = nd.array(generator.normal(size=(4, 8)))
        with autograd.record():
            h = nd.tanh(nd.dot(x, w))
            if kind == "function":
                h = Square()(h)
            if kind == "second order":
                (slope,) = autograd.grad(h, w, create_graph=True)
                h = h.sum() + (slope * slope).sum()
            if kind == "hook":
                autograd.register_hook(h, lambda g: g * 2)
            loss = (h * h).sum()
        if kind == "printed":
            loss.asscalar()
        if kind != "forgotten":
            loss.backward()
            w[:] = w - 0.001 * w.grad
        return loss

    def loop(kind):
        for _ in range(500):
            step(kind)

    for kind in ("plain", "printed", "function", "second order", "hook", "forgotten"):
        for _ in range(100):
            step(kind)
        # plans are made in the background, when graphs have come back often enough
        promotion.finish()
        step(kind)
        before = statistics.snapshot()
        with without_collection():
            left = traced_bytes(lambda kind=kind: loop(kind))
        after = statistics.snapshot()
        assert left < 50_000, (kind, left)
        made = {name: after[name] - before[name] for name in ("nodes", "gradient_rules", "plans")}
        assert made == {"nodes": 0, "gradient_rules": 0, "plans": 0}, kind


def test_ten_thousand_iterations_make_nothing_new():
    w, x = variable([0.5, -0.5]), nd.array([1.0, 2.0])

    def step():
        with autograd.record():
            loss = ((w * x - 1) ** 2).sum()
        loss.backward()
        w[:] = w - 0.001 * w.grad

    for _ in range(100):
        step()
    before, objects = statistics.snapshot(), len(gc.get_objects())
    with without_collection():
        for _ in range(10_000):
            step()
    after = statistics.snapshot()
    made = {name: after[name] - before[name] for name in ("nodes", "gradient_rules", "gradients", "plans")}
    assert made == {"nodes": 0, "gradient_rules": 0, "gradients": 0, "plans": 0}
    assert len(gc.get_objects()) - objects < 100
    close(w, [1.0, 0.5], rtol=1e-3)


def test_graphs_that_never_repeat_stay_within_the_limits():
    from phonograd import settings

    x = variable([1.0])
    with settings.override(node_limit=3000, plan_limit=60):
        for step in range(1, 400):
            with autograd.record():
                y = nd.reshape(nd.tile(x * 1, reps=step), shape=(1, step)) * 2
            y.backward()
            assert values(x.grad) == [2 * step]
        from phonograd.core.graph.operator import REGISTRY

        nodes = sum(len(declared.table) for declared in set(REGISTRY.values()))
        assert nodes < 3000 + 2 * 400


@pytest.mark.skipif(not HAS_GIL, reason="without counts of references every result counts as used")
def test_many_unused_results_are_forgotten_while_recording():
    x = variable([1.0])
    with autograd.record():
        for _ in range(20_000):
            _ = x * 2
        y = x * 3
        assert len(LOCAL.trace.handles) < 10_000
    y.backward()
    assert values(x.grad) == [3]


def test_looking_at_every_step_of_a_long_record_takes_memory_in_proportion():
    x = variable([1.0])

    def look(steps):
        with autograd.record():
            y = x
            for _ in range(steps):
                y = y * 1.5
                y.wait_to_read()
        y.backward()
        assert values(x.grad) is not None

    look(100)
    small = traced_bytes(lambda: look(200))
    assert traced_bytes(lambda: look(800)) < 8 * small
