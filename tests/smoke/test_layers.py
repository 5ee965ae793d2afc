"""One small test of each layer of ``core/``, in the order of the data. `make smoke` runs them."""

from __future__ import annotations

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd

FLOAT32 = np.dtype("float32")


def test_base():
    from phonograd.core.base.errors import nearest

    assert "softmax" in nearest("sotfmax", ["softmax", "relu"])
    with mx.settings.override(num_threads=1):
        assert mx.settings.current().num_threads == 1


def test_events():
    from phonograd.core import events

    seen = []
    handle = events.add_global_callback(lambda r: seen.append(r.name), scopes=[events.RecordScope.USER_SCOPE])
    try:
        with mx.profiler.record_function("here"):
            pass
    finally:
        events.remove_callback(handle)
    assert seen == ["here"]


def test_graph():
    from phonograd.core.ops.math.elementary import tanh
    from phonograd.core.ops.math.structural import leaf

    x = leaf(0, (2, 3), FLOAT32)
    assert tanh(x) is tanh(x)
    assert tanh(x).shape == (2, 3)


def test_lower():
    from phonograd.core.lower.ir.function_builder import FunctionBuilder

    f = FunctionBuilder("twice", "ptr %table, i64 %n")
    f.store_word("%table", "0", f.times("%n", "2"))
    assert "mul i64 %n, 2" in f.text()


def test_ops():
    from phonograd.core.graph.operator import REGISTRY

    assert {"exp", "Convolution", "FullyConnected", "softmax"} <= set(REGISTRY)
    assert np.allclose(REGISTRY["exp"].function(np.zeros(2, np.float32)), 1)


def test_derive():
    from phonograd.core.derive.costs import flops_of
    from phonograd.core.derive.gradient import differentiate
    from phonograd.core.ops.math.structural import leaf, variable

    x = variable(leaf(0, (3,), FLOAT32), 0)
    gradient = differentiate((x * x,), (None,)).targets[x]
    assert gradient.shape == (3,)
    assert flops_of(x * x) == 3


def test_kernels():
    pytest.importorskip("llvmlite")
    with mx.settings.override(executor="native", cache_directory=""):
        a, b = nd.arange(35).reshape((5, 7)), nd.arange(21).reshape((7, 3))
        assert np.array_equal(nd.dot(a, b).asnumpy(), a.asnumpy() @ b.asnumpy())


def test_run():
    from phonograd.core.ops.math.structural import leaf
    from phonograd.core.run.reference import evaluate

    x = leaf(0, (2,), FLOAT32)
    assert evaluate([x + 1.0], {x: np.ones(2, np.float32)})[0].tolist() == [2.0, 2.0]


def test_plan():
    pytest.importorskip("llvmlite")
    x = nd.array([[0.5, -1.0], [2.0, 0.0]])
    with mx.settings.override(executor="reference"):
        expected = (nd.tanh(x) * x + 1).sum(axis=1).asnumpy()
    with mx.settings.override(executor="native"):
        assert np.allclose((nd.tanh(x) * x + 1).sum(axis=1).asnumpy(), expected, rtol=1e-6)


def test_observe():
    with mx.profiler.profile() as profile:
        nd.exp(nd.ones((4,))).asnumpy()
    assert "exp" in {average.key for average in profile.key_averages()}


def test_trace():
    from phonograd.core.trace.trace import ready_trace

    x = nd.ones((2,))
    pending = x + 1
    assert ready_trace() is ready_trace()
    assert pending.asnumpy().tolist() == [2.0, 2.0]


def test_array():
    x = nd.arange(6).reshape((2, 3))
    view = x[1]
    x[1, 2] = 9
    view += 1
    assert x.asnumpy().tolist() == [[0, 1, 2], [4, 5, 10]]


def test_backward():
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = (x * x * x).sum()
        (first,) = autograd.grad(y, [x], create_graph=True)
    first.backward()
    assert x.grad.asnumpy().tolist() == [6.0, 12.0]


def test_capture():
    @mx.compile
    def step(a, b):
        return a * b + 1

    x = nd.array([1.0, 2.0])
    assert [step(x, x).asnumpy().tolist() for _ in range(3)] == [[2.0, 5.0]] * 3
