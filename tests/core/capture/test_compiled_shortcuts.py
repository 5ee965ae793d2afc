"""Calls of compiled functions that are recognised by their arguments alone do what all others do."""

import gc

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, settings
from phonograd.core.capture import compiled
from phonograd.core.capture.compiled import _Repeatable

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def quick(monkeypatch):
    """Return the list of what calls were told when they tried to be quick."""
    told = []
    original = _Repeatable.repeat_quickly

    def repeat_quickly(self, arguments):
        done = original(self, arguments)
        told.append(done is not compiled._CHANGED)
        return done

    monkeypatch.setattr(_Repeatable, "repeat_quickly", repeat_quickly)
    return told


def array(*values):
    made = nd.array(values)
    made.wait_to_read()
    return made


def variable(*values):
    made = array(*values)
    made.attach_grad()
    made.grad.wait_to_read()
    return made


def test_calls_are_recognised(quick):
    twice = mx.compile(lambda x, y: x * 2 + y)
    for turn in range(5):
        assert twice(array(turn, 1), array(1, 1)).asnumpy().tolist() == [2 * turn + 1, 3]
    # the first is captured, the second is the first that is repeated
    assert quick == [True] * 3
    assert (twice.captured, twice.repeated) == (1, 4)


def test_functions_without_arguments(quick):
    w = variable(1, 2)

    @mx.compile
    def step():
        with autograd.record():
            loss = (w * w).sum()
        loss.backward()
        w[:] = w - 0.25 * w.grad
        return loss

    losses = [step().asscalar() for _ in range(5)]
    assert losses == [5, 1.25, 0.3125, 0.078125, 0.01953125]
    assert quick == [True] * 3
    assert w._fresh_grad == 1


OTHERS = {
    "shape": lambda: (array(1, 2, 3), array(1, 1, 1)),
    "dtype": lambda: (nd.array([1, 2], dtype="float64"), nd.array([1, 1], dtype="float64")),
    "number": lambda: (array(1, 2), 3.0),
    "one argument less": lambda: (array(1, 2),),
    "pending": lambda: (array(1, 2) * 2, array(1, 1)),
    "view": lambda: (nd.array([[1, 2], [3, 4]])[1], array(1, 1)),
    "variable": lambda: (variable(1, 2), array(1, 1)),
    "context": lambda: (nd.array([1, 2], ctx=mx.cpu(1)), nd.array([1, 1], ctx=mx.cpu(1))),
    "twice": lambda: (array(1, 2),) * 2,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_calls(name, quick):
    def function(x, y=1):
        return x * 3 + y

    compiled = mx.compile(function)
    for _ in range(3):
        compiled(array(1, 2), array(1, 1))
    assert quick == [True]
    for _ in range(3):
        arguments = OTHERS[name]()
        result = compiled(*arguments)
        expected = function(*OTHERS[name]())
        assert result.dtype == expected.dtype
        assert result.context == expected.context
        assert result.asnumpy().tolist() == expected.asnumpy().tolist()
        assert compiled(array(1, 2), array(1, 1)).asnumpy().tolist() == [4, 7]
    assert not quick[1]


def test_flags_and_contexts(quick):
    w = variable(1, 2)
    compiled = mx.compile(lambda x: nd.Dropout(x * w, p=0.5))
    x = array(1, 1)
    for _ in range(3):
        assert compiled(x).asnumpy().tolist() == [1, 2]
    for _ in range(3):
        with autograd.record():
            y = compiled(x)
        y.backward()
        assert set(w.grad.asnumpy().tolist()) <= {0, 2}
        with autograd.train_mode():
            assert set(compiled(x).asnumpy().tolist()) <= {0, 2, 4}
        assert compiled(x).asnumpy().tolist() == [1, 2]
        with mx.cpu(1):
            assert compiled(x).asnumpy().tolist() == [1, 2]


def test_keywords_observers_and_the_naive_engine(quick):
    compiled = mx.compile(lambda x, y: x - y)
    x, y = array(3, 4), array(1, 1)
    for _ in range(4):
        assert compiled(x, y).asnumpy().tolist() == [2, 3]
        assert compiled(y=x, x=y).asnumpy().tolist() == [-2, -3]
        with settings.override(naive=True):
            assert compiled(x, y).asnumpy().tolist() == [2, 3]
        with autograd.detect_anomaly(), pytest.raises(mx.MXNetError, match="NaN"):
            compiled(array(float("nan"), 1), y).asnumpy()


def test_arguments_that_are_changed(quick):
    @mx.compile
    def step(w, rate):
        w -= rate * w

    w, v, rate = variable(8, 4), array(16, 2), array(0.5)
    for turn in range(1, 5):
        step(w, rate)
        step(v, rate)
        assert w.asnumpy().tolist() == [8 / 2**turn, 4 / 2**turn]
        assert v.asnumpy().tolist() == [16 / 2**turn, 2 / 2**turn]
        assert w.grad is not None


def test_changed_arrays_that_somebody_looks_at(quick):
    w, rate = array(8, 4), array(0.5)

    @mx.compile
    def step(rate):
        w[:] = w * rate

    for _ in range(3):
        step(rate)
        w.wait_to_read()
    assert quick == [True]
    view = w[0:1]
    step(rate)
    assert view.asscalar() == 0.5
    with autograd.record():
        held = w.asnumpy()
    step(rate)
    assert held.tolist() == [0.5, 0.25]
    assert w.asnumpy().tolist() == [0.25, 0.125]


def test_an_argument_that_the_function_refers_to(quick):
    w = array(1, 2)

    @mx.compile
    def step(x):
        w[:] = w + x

    one = array(1, 1)
    for _ in range(3):
        step(one)
        w.wait_to_read()
    assert quick == [True]
    step(w)
    assert w.asnumpy().tolist() == [8, 10]
    assert quick[-1] is False


def test_forgotten_functions():
    compiled = mx.compile(lambda x: x * 2)
    for _ in range(3):
        compiled(array(1, 2))
    compiled.clear()
    assert compiled(array(1, 2)).asnumpy().tolist() == [2, 4]
    assert compiled.captured == 2


def test_nothing_is_kept():
    compiled = mx.compile(lambda x, y: (x * y, [y, x]))
    x, y = array(1, 2), array(3, 4)
    counts = []
    for _ in range(4):
        for _ in range(50):
            result = compiled(x, y)
            assert result[1][0] is y
            assert np.array_equal(result[0].asnumpy(), [3, 8])
        del result
        gc.collect()
        counts.append(len(gc.get_objects()))
    # kernels may be improved meanwhile
    assert min(np.diff(counts)) < 20
