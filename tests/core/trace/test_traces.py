"""Several record blocks, values asked for in between, arrays of one record used in later ones.

When a trace ends is a matter of speed: it must never show in results.
"""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from phonograd import autograd, nd, settings
from phonograd.core.array.handle import read
from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.node import statistics
from phonograd.core.plan import promotion
from phonograd.core.trace import evaluation
from phonograd.core.trace.evaluation import fill
from phonograd.core.trace.trace import LOCAL, Trace

from ...autograd.arrays import NOT_RECORDED, close, values, variable
from ..array import machine_code


def end_trace():
    """End the current trace whatever is recorded in it."""
    LOCAL.trace.flush(end=True)


def nothing():
    """Do nothing between two steps."""


def look():
    """Ask for a value that has nothing to do with the record."""
    (nd.ones((1,)) * 2).wait_to_read()


BETWEEN = [nothing, look, end_trace]


@pytest.mark.parametrize("between", list(itertools.product(BETWEEN, repeat=3)))
def test_the_end_of_a_trace_does_not_show(between):
    x, w = variable([1.0, 2.0], dtype="float64"), variable([3.0, 4.0], dtype="float64")
    with autograd.record():
        h = x * w
        side = h + x
    between[0]()
    with autograd.record():
        z = h * side
    between[1]()
    with autograd.record():
        out = z * h + x
        (first,) = autograd.grad(out, x, create_graph=True)
    between[2]()
    (mixed,) = autograd.grad(first, w, retain_graph=True)
    out.backward()
    x_, w_ = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    # out = x^3 w^3 + x^3 w^2 + x
    close(first, 3 * x_**2 * w_**3 + 3 * x_**2 * w_**2 + 1)
    close(mixed, 9 * x_**2 * w_**2 + 6 * x_**2 * w_)
    close(x.grad, first.asnumpy())
    close(w.grad, 3 * x_**3 * w_**2 + 2 * x_**3 * w_)


@pytest.mark.parametrize("between", BETWEEN)
def test_retaining_across_traces(between):
    x = variable([2.0], "add")
    with autograd.record():
        h = x * x
    between()
    with autograd.record():
        y = h * x
    between()
    for count, scale in ((1, 1), (2, 1), (3, 10)):
        y.backward(nd.array([float(scale)]), retain_graph=True)
        assert values(x.grad) == [12 * (count if scale == 1 else 12)]
        between()
    y.backward()
    assert values(x.grad) == [12 * 13]


@pytest.mark.parametrize("between", BETWEEN)
def test_clearing_across_traces(between):
    x = variable([2.0])
    with autograd.record():
        h = x * x
        other = h * 5
    between()
    with autograd.record():
        y = h * x
    between()
    y.backward()
    for plain in (h, y):
        with pytest.raises(MXNetError) as error:
            plain.backward()
        assert str(error.value).startswith(NOT_RECORDED)
    with autograd.record():
        z = h * x
    z.backward()
    assert values(x.grad) == [4], "h has become a constant"
    other.backward()
    assert values(x.grad) == [20]


@pytest.mark.parametrize("between", BETWEEN)
def test_clearing_an_earlier_trace_after_its_arrays_were_used_in_a_later_one(between):
    x = variable([2.0])
    with autograd.record():
        h = x * x
        y = h * 3
    between()
    with autograd.record():
        before = h * 7
    y.backward()
    with pytest.raises(MXNetError) as error:
        h.backward()
    assert str(error.value).startswith(NOT_RECORDED)
    with autograd.record():
        after = h * x
    after.backward()
    assert values(x.grad) == [4], "what uses it from now on sees a constant"
    between()
    before.backward()
    assert values(x.grad) == [28], "what used it before can still be differentiated"


def test_a_blocked_gradient_still_reaches_variables_of_earlier_traces():
    x = variable([2.0])
    x.grad[:] = 7
    with autograd.record():
        h = x * x
    end_trace()
    with autograd.record():
        y = nd.BlockGrad(h) * 2
    y.backward()
    assert values(x.grad) == [0]


def test_printing_between_forward_and_backward():
    x = variable([1.0, 2.0])
    for shown in range(12):
        with autograd.record():
            y = nd.tanh(x)
            z = y * y
            for _ in range(shown):
                repr(z)
        for _ in range(shown):
            repr(y)
        z.backward()
        t = np.tanh([1.0, 2.0])
        close(x.grad, 2 * t * (1 - t * t))


def test_a_forward_pass_that_was_computed_is_not_computed_again():
    class Counting(autograd.Function):
        calls = 0

        def forward(self, x):
            Counting.calls += 1
            return nd.array(x.asnumpy() * 2)

        def backward(self, dy):
            return dy * 2

    x = variable([1.0])
    with autograd.record():
        y = Counting()(x) * x
    repr(y)
    y.backward()
    repr(x.grad)
    assert Counting.calls == 1


@pytest.mark.usefixtures("planned")
def test_values_needed_by_a_pending_gradient_survive_the_clearing():
    executed = []
    x = variable(np.linspace(0.1, 0.9, 7))

    def run():
        with autograd.record():
            h = nd.exp(nd.sin(x))
            y = (h * h).sum()
        y.wait_to_read()
        y.backward()
        trace = LOCAL.trace
        executed.append(len(trace.values))
        close(x.grad, 2 * np.exp(2 * np.sin(x.asnumpy())) * np.cos(x.asnumpy()))

    run()
    assert executed[0] > 0, "exp and sin are known, and the gradient uses them"


def test_a_long_history_through_many_records():
    x = variable([1.0], dtype="float64")
    state = nd.zeros((1,), dtype="float64")
    for step in range(50):
        with autograd.record():
            state = state * 0.5 + x * step
        if step % 3 == 0:
            state.wait_to_read()
    state.backward()
    expected = sum(step * 0.5 ** (49 - step) for step in range(50))
    close(x.grad, [expected])


def test_truncated_backpropagation():
    x, state = variable([1.0]), nd.ones((1,))
    for _ in range(20):
        with autograd.record():
            state = state * x
            loss = state * state
        loss.backward()
        assert values(x.grad) == [2], "the state before is a constant after each backward"


def test_an_array_recorded_twice_in_different_traces():
    x = variable([2.0])
    with autograd.record():
        a = x * x
    end_trace()
    with autograd.record():
        b = x * x
    end_trace()
    with autograd.record():
        c = a * b
    c.backward()
    assert values(x.grad) == [32]


def test_variables_changed_between_records_that_are_differentiated_together():
    x = variable([2.0])
    with autograd.record():
        a = x * x
    x[:] = 5
    with autograd.record():
        b = x * x
        c = a + b
    c.backward()
    assert values(x.grad) == [4 + 10]


def test_views_across_traces():
    x = variable([1.0, 2.0, 3.0])
    with autograd.record():
        y = x * x
        view = y[1:3]
    end_trace()
    with autograd.record():
        view *= 10
        z = y.sum() + view.sum()
    assert values(y) == [1, 40, 90]
    z.backward()
    assert values(x.grad) == [2, 80, 120]


def test_the_result_of_a_function_across_traces():
    class Square(autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            return x * x

        def backward(self, dy):
            return dy * 2 * self.saved_tensors[0]

    x = variable([3.0])
    with autograd.record():
        y = Square()(x)
    y.wait_to_read()
    end_trace()
    with autograd.record():
        z = Square()(y) * x
    end_trace()
    z.backward(retain_graph=True)
    assert values(x.grad) == [5 * 81]
    end_trace()
    y.backward()
    assert values(x.grad) == [6]


def test_ending_a_trace_in_the_middle_of_recording():
    x = variable([2.0])
    with autograd.record():
        y = x
        for _ in range(5):
            y = y * x
            end_trace()
    y.backward()
    assert values(x.grad) == [6 * 32]


def test_one_long_record_with_many_backwards_stays_small():
    x = variable([0.5])
    with autograd.record():
        for step in range(300):
            batch = nd.array([float(step)])
            y = (x * batch - 1) ** 2
            y.backward()
            with autograd.pause():
                x -= 0.0 * x.grad
            y.asscalar()
            assert len(LOCAL.trace.leaves) < 50


@pytest.mark.usefixtures("planned")
def test_the_record_of_one_iteration_is_found_again_by_the_next():
    x, w = variable(np.ones((4, 3))), variable(np.ones((3, 2)))

    class Twice(autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, dy):
            return dy * 2

    def step(shown):
        with autograd.record():
            h = nd.tanh(nd.dot(x, w))
            first = Twice()(h).sum()
            (slope,) = autograd.grad(first, w, create_graph=True)
            loss = (slope * slope).sum() + (h * h).sum() + (h * h).mean()
        if shown:
            loss.wait_to_read()
        loss.backward()
        w[:] = w - 0.1 * w.grad
        return loss.asscalar()

    for shown in (False, True):
        for _ in range(3):
            step(shown)
        before = statistics.snapshot()
        for _ in range(3):
            step(shown)
        after = statistics.snapshot()
        made = {name: after[name] - before[name] for name in ("nodes", "gradient_rules", "gradients", "plans")}
        assert made == {"nodes": 0, "gradient_rules": 0, "gradients": 0, "plans": 0}


def test_evaluating_every_operator_at_once_gives_the_same():
    x = variable([1.0, 2.0])

    def gradient():
        with autograd.record():
            y = nd.exp(x)
            y[0:1] *= x[1:2]
            z = (y * x).sum()
        z.backward()
        return x.grad.asnumpy()

    lazy = gradient()
    with settings.override(naive=True):
        np.testing.assert_array_equal(gradient(), lazy)
        np.testing.assert_array_equal(gradient(), lazy)


def test_an_operator_that_fails_when_it_is_computed():
    x = variable([1.0, 2.0])
    index = nd.array([7.0])
    with autograd.record():
        bad = nd.take(x, index, mode="raise")
        good = x * 2
    with pytest.raises((IndexError, MXNetError)):
        bad.wait_to_read()
    good.backward()
    assert values(x.grad) == [2, 2]
    with pytest.raises((IndexError, MXNetError)):
        bad.asnumpy()


class TestFilledArrays:
    """The data of a step, before it is recorded, is filled without a plan."""

    def pending(self, *arrays):
        """Return the nodes of arrays of the current trace."""
        return tuple([array._node for array in arrays])

    def setup_method(self):
        end_trace()

    @pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bool", "bfloat16"])
    @pytest.mark.parametrize("shape", [(3,), (), (0, 2), (300, 100)])
    def test_values_are_those_of_a_plan(self, shape, dtype):
        x, y = nd.full(shape, 3, dtype=dtype), nd.zeros(shape, dtype=dtype)
        found = fill(LOCAL.trace, self.pending(x, y))
        assert [value.dtype for value in found] == [x._dtype, y._dtype]
        assert [value.tobytes() for value in found] == [read(x).tobytes(), read(y).tobytes()]

    def test_equal_arrays_are_one(self):
        x, y, known = nd.ones((7,)), nd.ones((7,)), nd.array([1.0])
        known + x
        first, second, third = fill(LOCAL.trace, self.pending(x, y, known))
        assert first is second
        assert third is known._buffer

    def test_other_operators_are_left_to_programs(self):
        x = nd.ones((7,))
        y = x * 2
        assert fill(LOCAL.trace, self.pending(x, y)) is None
        assert fill(LOCAL.trace, self.pending(nd.ones((1 << 14, 1 << 8)))) is None
        with settings.override(tiers="plan"):
            assert fill(LOCAL.trace, self.pending(x)) is None

    def test_data_of_new_sizes_needs_no_plan(self):
        machine_code.install()
        x = variable([1.0])
        for size in range(20, 40):
            data = nd.ones((size,))
            plans = statistics.plans
            with autograd.record():
                y = (x * data).sum()
            assert statistics.plans == plans
            y.backward()
            assert values(x.grad) == [size]


def test_a_graph_whose_plan_is_being_made_goes_the_short_way():
    class Runs:
        def run(self, inputs):
            return [*inputs, "result"]

    plan = SimpleNamespace(is_provisional=True, promotion=None, spent_ns=5, due_ns=5)
    program = Runs()
    with settings.override(tiers="background"):
        # a helper is to make its plan
        assert evaluation._run_known(plan, program, [1]) is None
        plan.promotion = promotion.queue()
        assert evaluation._run_known(plan, program, [1]) == [1, "result"]
        assert plan.spent_ns > 5
        plan.promotion = promotion._FAILED
        assert evaluation._run_known(plan, program, [1]) is None
    with settings.override(tiers="blocking"):
        plan.promotion = promotion.queue()
        assert evaluation._run_known(plan, program, [1]) is None


@pytest.mark.parametrize("by_rows", [False, True], ids=["a weight is written over", "a gradient is held as rows"])
def test_steps_of_training_go_the_short_way(by_rows, monkeypatch):
    machine_code.install()
    weight = variable(np.ones((80, 64)))
    rows, data = nd.array([3, 70]), nd.ones((2, 80))
    long_way = []
    flush = Trace._flush
    monkeypatch.setattr(Trace, "_flush", lambda *given: [long_way.append(given), flush(*given)][1])
    with settings.override(tiers="plan", executor="native"):
        for _ in range(4):
            long_way.clear()
            with autograd.record():
                loss = (
                    nd.Embedding(rows, weight, input_dim=80, output_dim=64) if by_rows else nd.dot(data, weight)
                ).sum()
            loss.backward()
            weight -= 0.25 * weight.grad
            weight.wait_to_read()
        assert not long_way
    expected = np.ones((80, 64))
    expected[[3, 70] if by_rows else slice(None)] = 0 if by_rows else -1
    assert values(weight) == expected.tolist()
