"""Loops and branches over arrays: values stand in recorded/control.json, gradients here."""

import gc
import weakref

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError

contrib = nd.contrib


class TestForeach:
    def test_gradients_of_data_states_and_free_variables(self):
        data, state, w = nd.array([[1.0], [2.0], [3.0]]), nd.array([1.0]), nd.array([2.0])
        for array in (data, state, w):
            array.attach_grad()
        with autograd.record():
            outputs, final = contrib.foreach(lambda x, s: (s * w, s * w + x), data, state)
            total = outputs.sum() + final
        total.backward()
        # s1 = 2s+d0, s2 = 2s1+d1, s3 = 2s2+d2; outputs 2s, 2s1, 2s2
        assert state.grad.asscalar() == 2 + 4 + 8 + 8
        assert data.grad.asnumpy().reshape(-1).tolist() == [2 + 4 + 4, 2 + 2, 1]
        s, d = 1.0, [1.0, 2.0, 3.0]
        states = [s]
        slope = [0.0]
        for value in d:
            slope.append(states[-1] + 2 * slope[-1])
            states.append(2 * states[-1] + value)
        expected = sum(states[k] + 2 * slope[k] for k in range(3)) + slope[3]
        assert w.grad.asscalar() == expected

    def test_nesting_is_kept(self):
        data = [nd.ones((2, 3)), [nd.zeros((2, 1))]]
        outputs, states = contrib.foreach(
            lambda d, s: ([d[0], [d[1][0]]], [s[0] + 1, [s[1][0]]]), data, [nd.zeros(1), [nd.ones(1)]]
        )
        assert (outputs[0].shape, outputs[1][0].shape) == ((2, 3), (2, 1))
        assert (states[0].asscalar(), states[1][0].asscalar()) == (2, 1)

    def test_refused(self):
        x = nd.ones((2, 3))
        for data, states in ((3, x), (x, 3), ([x, "a"], x)):
            with pytest.raises(AssertionError, match="nested"):
                contrib.foreach(lambda d, s: (d, s), data, states)
        with pytest.raises(ValueError, match="first axes"):
            contrib.foreach(lambda d, s: (d, s), [x, nd.ones((3,))], [])
        with pytest.raises(ValueError, match="empty axis"):
            contrib.foreach(lambda d, s: (d, s), nd.zeros((0, 3)), [])


class TestWhileLoop:
    def test_gradients(self):
        x = nd.array([2.0])
        x.attach_grad()
        with autograd.record():
            outputs, (power, steps) = contrib.while_loop(
                lambda p, k: k < 3, lambda p, k: (p * x, [p * x, k + 1]), [nd.ones(1), nd.zeros(1)], max_iterations=5
            )
            total = outputs.sum() + power
        assert outputs.asnumpy().reshape(-1).tolist() == [2, 4, 8, 0, 0]
        assert (power.asscalar(), steps.asscalar()) == (8, 3)
        total.backward()
        assert x.grad.asscalar() == 1 + 4 + 12 + 12

    def test_stops_at_the_limit(self):
        outputs, last = contrib.while_loop(lambda i: True, lambda i: (i, i + 1), nd.zeros(1), max_iterations=4)
        assert outputs.shape == (4, 1)
        assert last.asscalar() == 4

    @pytest.mark.parametrize("limit", [None, "many", [3]])
    def test_limit_must_be_a_number(self, limit):
        with pytest.raises(ValueError, match="max_iteration"):
            contrib.while_loop(lambda i: i < 3, lambda i: (i, i + 1), nd.zeros(1), max_iterations=limit)

    def test_variables_must_stay_as_many(self):
        with pytest.raises(ValueError, match="consistent during the loop: 1 and 2"):
            contrib.while_loop(lambda i: i < 3, lambda i: (i, [i, i]), nd.zeros(1), max_iterations=3)


class TestCond:
    def test_only_one_branch_runs(self):
        x, y = nd.array([2.0]), nd.array([3.0])
        x.attach_grad()
        y.attach_grad()
        with autograd.record():
            z = contrib.cond(x > 1, lambda: x * y, lambda: pytest.fail("the other branch ran"))
        z.backward()
        assert (x.grad.asscalar(), y.grad.asscalar()) == (3, 2)

    @pytest.mark.parametrize("condition", [1, 0, True, nd.array([1.0]), nd.zeros((1, 1)), lambda: nd.ones(1)])
    def test_conditions(self, condition):
        chosen = contrib.cond(condition, lambda: "then", lambda: "else")
        value = condition() if callable(condition) else condition
        assert chosen == ("then" if bool(value) else "else")

    def test_ambiguous_condition(self):
        with pytest.raises(ValueError, match="not a scalar"):
            contrib.cond(nd.ones((2,)), lambda: 1, lambda: 2)


class TestBooleanMask:
    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_values_and_gradients(self, axis):
        x = nd.array(np.arange(9.0).reshape(3, 3))
        mask = nd.array([1, 0, 2])
        x.attach_grad()
        with autograd.record():
            y = contrib.boolean_mask(x, mask, axis=axis)
            total = (y * y).sum()
        total.backward()
        kept = np.take(x.asnumpy(), [0, 2], axis)
        np.testing.assert_array_equal(y.asnumpy(), kept)
        expected = 2 * x.asnumpy() * np.expand_dims([1, 0, 1], 1 - axis % 2)
        np.testing.assert_array_equal(x.grad.asnumpy(), expected)

    def test_nothing_selected(self):
        assert contrib.boolean_mask(nd.ones((2, 3)), nd.zeros(2)).shape == (0, 3)

    def test_refused(self):
        with pytest.raises(MXNetError, match="as long as axis 0"):
            contrib.boolean_mask(nd.ones((2, 3)), nd.ones(3))
        with pytest.raises(AssertionError, match="Argument index must have NDArray type"):
            contrib.boolean_mask(nd.ones((2, 3)), [1, 0])


def test_loops_are_found_under_the_name_of_old_scripts():
    assert mx.nd.contrib.foreach is contrib.foreach
    assert mx.contrib.nd.foreach is contrib.foreach if hasattr(mx.contrib, "nd") else True


def test_arrays_of_loops_are_freed_at_once():
    rows = nd.ones((3, 2))
    gc.collect()
    gc.disable()
    try:
        stacked, _ = nd.contrib.foreach(lambda row, state: (row * 2, state), rows, nd.zeros((1,)))
        (looped,), _ = nd.contrib.while_loop(lambda n: n < 2, lambda n: ([n * 2], n + 1), nd.zeros((1,)), 3)
        watched = [weakref.ref(stacked), weakref.ref(looped)]
        del stacked, looped
        nd.waitall()
        assert all(reference() is None for reference in watched)
    finally:
        gc.enable()
