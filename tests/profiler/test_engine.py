"""What the library does is observed: operators, backward passes, evaluations, kernels and memory."""

import gc
import threading

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, profiler, settings
from phonograd.core import events
from phonograd.core.events import (
    BACKWARD_FUNCTION,
    COMPILATION,
    EVALUATION,
    FUNCTION,
    KERNEL,
    MEMORY,
    RecordScope,
)

EXECUTORS = ["reference", "native"]


@pytest.fixture(params=EXECUTORS, autouse=True)
def executor(request):
    if request.param == "native":
        pytest.importorskip("llvmlite")
    with settings.override(executor=request.param):
        yield request.param


class Seen:
    """Collects the ranges of some scopes."""

    def __init__(self, *scopes, **needs):
        self.ranges, self.inputs, self.outputs = [], [], []
        self._scopes, self._needs = scopes, needs

    def __enter__(self):
        self._handle = events.add_thread_local_callback(
            self._start, self._end, scopes=[RecordScope(scope) for scope in self._scopes], **self._needs
        )
        return self

    def __exit__(self, *exception):
        events.remove_callback(self._handle)

    def _start(self, entry):
        if self._needs.get("needs_inputs"):
            self.inputs.append([getattr(value, "shape", value) for value in entry.inputs])

    def _end(self, entry, context):
        self.ranges.append(entry)
        if self._needs.get("needs_outputs"):
            self.outputs.append([value.shape for value in entry.outputs])

    def names(self, scope=None):
        return [entry.name for entry in self.ranges if scope is None or entry.scope == scope]


def arrays():
    x = nd.array(np.arange(6.0).reshape(2, 3) / 6)
    w = nd.array(np.ones((3, 4)) * 0.5)
    w.attach_grad()
    x.wait_to_read(), w.wait_to_read(), w.grad.wait_to_read()
    return x, w


def step(x, w):
    with autograd.record():
        y = nd.tanh(nd.dot(x, w)) * 2
        loss = y.sum()
    loss.backward()
    w -= 0.1 * w.grad
    return loss


@pytest.mark.parametrize("times", [1, 3])
def test_operators(times):
    x, w = arrays()
    for _ in range(times - 1):
        step(x, w)
    with Seen(FUNCTION, needs_inputs=True, needs_outputs=True) as seen:
        step(x, w)
    assert seen.names() == ["dot", "tanh", "broadcast_mul", "sum", "broadcast_mul", "broadcast_sub"]
    assert seen.inputs == [[(2, 3), (3, 4)], [(2, 4)], [(2, 4), 2], [(2, 4)], [0.1, (3, 4)], [(3, 4), (3, 4)]]
    assert seen.outputs == [[(2, 4)], [(2, 4)], [(2, 4)], [(1,)], [(3, 4)], [(3, 4)]]
    assert [entry.sequence_nr >= 0 for entry in seen.ranges] == [True] * 4 + [False] * 2
    step(x, w)
    assert len(seen.ranges) == 6


def test_several_outputs_and_out_and_parameters():
    x, _ = arrays()
    out = nd.zeros((2, 3))
    with Seen(FUNCTION, needs_inputs=True, needs_outputs=True) as seen:
        nd.split(x, num_outputs=3, axis=1)
        nd.exp(x, out=out)
        x.sum(axis=1)
    assert seen.names() == ["SliceChannel", "exp", "sum"]
    assert seen.outputs == [[(2, 1)] * 3, [(2, 3)], [(2,)]]
    assert seen.ranges[0].parameters["num_outputs"] == 3
    assert seen.ranges[2].parameters["axis"] == 1


def test_an_error_ends_the_range():
    x, w = arrays()
    with Seen(FUNCTION) as seen, pytest.raises(Exception, match="dot"):
        nd.dot(w, x)
    assert seen.names() == ["dot"]
    assert "dot" in seen.ranges[0].error


@pytest.mark.parametrize("times", [1, 3])
def test_backward_ranges_know_their_forward_range(times):
    x, w = arrays()
    for _ in range(times - 1):
        step(x, w)
    with Seen(FUNCTION, BACKWARD_FUNCTION) as seen:
        step(x, w)
    backward = [entry for entry in seen.ranges if entry.scope == BACKWARD_FUNCTION]
    assert [entry.name for entry in backward] == [
        "_backward_sum",
        "_backward_broadcast_mul",
        "_backward_tanh",
        "_backward_dot",
    ]
    for entry in backward:
        assert entry.forward.name == entry.name.removeprefix("_backward_")
        assert entry.forward in seen.ranges


def test_second_derivatives_too():
    x = nd.array([0.5, 1.0])
    x.attach_grad()
    with Seen(FUNCTION, BACKWARD_FUNCTION) as seen:
        with autograd.record():
            y = nd.exp(x)
            (first,) = autograd.grad(y, [x], create_graph=True)
        first.backward()
    assert seen.names(BACKWARD_FUNCTION).count("_backward_exp") >= 2


@pytest.mark.parametrize("times", [1, 3])
def test_kernels_name_operators_and_serve_ranges(times):
    x, w = arrays()
    for _ in range(times - 1):
        step(x, w).wait_to_read()
    with Seen(FUNCTION, KERNEL, EVALUATION) as seen:
        with profiler.record_function("the step"):
            loss = step(x, w)
        loss.wait_to_read()
    kernels = [entry for entry in seen.ranges if entry.scope == KERNEL]
    assert {"matmul", "tanh"} <= {name.lstrip("_") for entry in kernels for name in entry.operators}
    served = {who.name for entry in kernels for who in entry.serves}
    assert {"dot", "tanh"} <= served
    assert all(entry.parent.name == "evaluation" for entry in kernels)
    assert {(entry.attributes or {})["phase"] for entry in kernels} == {"forward", "backward"}
    assert all(entry.start_ns <= entry.end_ns for entry in kernels)
    products = [entry for entry in kernels if "matmul" in entry.name]
    assert sum(entry.flops for entry in products) == 2 * (2 * 2 * 3 * 4)
    assert all(entry.moved_bytes > 0 for entry in products)
    assert "evaluation" in seen.names(EVALUATION)


def test_compilation_is_seen_once():
    x = nd.ones((3, 5))
    with Seen(COMPILATION) as seen:
        for _ in range(3):
            nd.log1p(x * 1.25).wait_to_read()
    assert len(seen.ranges) <= 2


def test_memory_comes_and_goes():
    _x, _w = arrays()
    with Seen(MEMORY) as seen:
        y = nd.exp(nd.ones((100, 10)) * 2)
        y.wait_to_read()
        taken = sum(entry.value for entry in seen.ranges)
        del y
        gc.collect()
        left = sum(entry.value for entry in seen.ranges)
    assert taken >= 4000
    assert left <= taken - 4000


def test_the_same_bits_while_observed(executor):
    results = []
    for watched in (False, True, False):
        x, w = arrays()
        with Seen(FUNCTION, KERNEL, BACKWARD_FUNCTION, MEMORY) if watched else autograd.pause():
            losses = [step(x, w).asnumpy() for _ in range(3)]
        results.append((np.array(losses).tobytes(), w.asnumpy().tobytes()))
    assert len(set(results)) == 1


def test_nothing_is_left_when_nobody_listens():
    x, w = arrays()
    with Seen(FUNCTION, KERNEL):
        assert settings.active.attentive
        step(x, w)
    assert not settings.active.attentive
    assert len(step(x, w).asnumpy()) == 1
    assert step(x, w)._trace.attribution is None


def test_compiled_functions():
    x, w = arrays()
    compiled = mx.compile(lambda a, b: nd.tanh(nd.dot(a, b)))
    expected = [compiled(x, w).asnumpy() for _ in range(3)][-1]
    with Seen(FUNCTION, KERNEL) as seen:
        assert np.array_equal(compiled(x, w).asnumpy(), expected)
    assert len(seen.names(FUNCTION)) == 1
    served = {who.name for entry in seen.ranges if entry.scope == KERNEL for who in entry.serves}
    assert served == set(seen.names(FUNCTION))


def test_naive_engine():
    x, w = arrays()
    with settings.override(naive=True), Seen(FUNCTION, KERNEL) as seen:
        nd.tanh(nd.dot(x, w))
    assert seen.names(FUNCTION) == ["dot", "tanh"]
    assert len(seen.names(KERNEL)) >= 2


def test_other_threads_are_not_seen_by_observers_of_this_one():
    x, _w = arrays()
    with Seen(FUNCTION) as seen:
        thread = threading.Thread(target=lambda: step(*arrays()).wait_to_read())
        thread.start()
        thread.join()
        nd.exp(x)
    assert seen.names() == ["exp"]


def test_a_profile_credits_kernels_to_scopes():
    x, w = arrays()
    with profiler.profile() as profile:
        for _ in range(2):
            with profiler.record_function("layer"), autograd.record():
                y = nd.tanh(nd.dot(x, w))
            y.backward()
            w.grad.wait_to_read()
    (layer,) = [row for row in profile.key_averages() if row.key == "layer"]
    assert layer.count == 2
    (dot,) = [row for row in profile.key_averages() if row.key == "dot"]
    assert dot.count == 2
    table = profile.key_averages().table()
    assert "_backward_tanh" in table
    assert "layer" in table
