"""Changing arrays in place: identity, failures that change nothing, and what recording makes of it."""

import operator

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError

OPERATORS = {
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "%=": operator.imod,
}


def variable(*values):
    x = nd.array(values, dtype="float64")
    x.attach_grad()
    return x


@pytest.mark.parametrize("sign", OPERATORS)
@pytest.mark.parametrize("other", [2.0, [[2.0], [4.0]], [[1.5, 2.5, 3.5]]])
def test_in_place_is_the_same_object_with_the_value_of_the_plain_operator(sign, other):
    x = nd.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    value = other if isinstance(other, float) else nd.array(other)
    expected = eval(f"x {sign[:-1]} value")
    target = x
    result = OPERATORS[sign](target, value)
    assert result is x
    np.testing.assert_array_equal(x.asnumpy(), expected.asnumpy())


@pytest.mark.parametrize("sign", OPERATORS)
def test_failure_leaves_the_array_alone(sign):
    x = nd.array([1.0, 2.0])
    for value, error in (
        (nd.ones((3, 2)), MXNetError),
        (nd.ones((3,)), MXNetError),
        (nd.ones((2,), dtype="int32"), MXNetError),
        (np.ones(2), TypeError),
        (None, TypeError),
    ):
        with pytest.raises(error):
            OPERATORS[sign](x, value)
        assert x.asnumpy().tolist() == [1, 2]


def test_error_sentences():
    x = nd.ones((3,))
    with pytest.raises(MXNetError, match=r"Shape inconsistent, Provided = \[3\], inferred shape=\[2,3\]"):
        x += nd.ones((2, 3))
    mask = nd.ones((2,), dtype="bool")
    with pytest.raises(MXNetError, match="dtype"):
        mask += 1


@pytest.mark.parametrize(
    "sign, words",
    list(zip(OPERATORS, ["add to", "subtract from", "multiply to", "divide from", "take modulo from"])),
)
def test_readonly(sign, words):
    x = nd.ones((2,))
    x._readonly = True
    assert not x.writable
    with pytest.raises(ValueError, match=f"trying to {words} a readonly NDArray"):
        OPERATORS[sign](x, 1)
    for attempt in (lambda: x.__setitem__(0, 1), lambda: nd.exp(nd.ones(2), out=x), lambda: x[0:1].__iadd__(1)):
        with pytest.raises(ValueError, match="readonly"):
            attempt()
    assert x.asnumpy().tolist() == [1, 1]


def test_power_makes_a_new_array():
    x = y = nd.array([2.0])
    y **= 2
    assert (x.asscalar(), y.asscalar()) == (2, 4)


def test_operand_may_be_the_array_itself():
    x = nd.array([1.0, 2.0, 3.0])
    x += x
    x *= x
    x[:] = x[::-1]
    assert x.asnumpy().tolist() == [36, 16, 4]
    x[1:] = x[:-1]
    assert x.asnumpy().tolist() == [36, 36, 16]


def test_what_was_computed_before_keeps_its_value():
    x = nd.array([1.0, 2.0])
    y = x * 10
    x += 1
    z = x * 10
    x[:] = 0
    assert (y.asnumpy().tolist(), z.asnumpy().tolist(), x.asnumpy().tolist()) == ([10, 20], [20, 30], [0, 0])


def test_other_names_of_the_array_see_the_change():
    x = nd.zeros((2,))
    y = x
    y += 1
    assert x is y
    assert x.asnumpy().tolist() == [1, 1]


def test_context_stays():
    x, y = nd.ones((2,), ctx=mx.cpu(1)), nd.ones((2,))
    y.copyto(x)
    x[:] = y
    x += y
    nd.exp(y, out=x)
    assert x.context == mx.cpu(1)
    assert x.asnumpy().tolist() == nd.exp(y).asnumpy().tolist()


class TestRecorded:
    """While recording, changes in place are differentiated like everything else."""

    def test_operators(self):
        x, y = variable(2.0, 3.0), variable(5.0, 7.0)
        with autograd.record():
            z = x * 1
            z += y
            z *= x
            z -= y
            z /= 2
        z.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), (2 * np.array([2.0, 3.0]) + [5.0, 7.0]) / 2)
        np.testing.assert_allclose(y.grad.asnumpy(), (np.array([2.0, 3.0]) - 1) / 2)

    def test_variable_itself(self):
        x = variable(2.0, 3.0)
        with autograd.record():
            x *= x
            y = x * 10
        y.backward()
        assert x.asnumpy().tolist() == [4, 9]
        assert x.grad.asnumpy().tolist() == [40, 60]

    def test_variable_starts_anew_with_a_constant(self):
        x = variable(2.0, 3.0)
        with autograd.record():
            x[:] = np.array([5.0, 6.0])
            y = x * x
        y.backward()
        assert x.grad.asnumpy().tolist() == [10, 12]

    def test_part_of_a_fresh_array(self):
        x = variable(2.0, 3.0)
        y = nd.zeros((4,), dtype="float64")
        with autograd.record():
            y[1:3] = x * x
            y[0] = x[1]
            z = y * nd.array([1, 2, 3, 4], dtype="float64")
        z.backward()
        assert x.grad.asnumpy().tolist() == [8, 19]

    def test_constant_over_recorded_values(self):
        x = variable(2.0, 3.0)
        with autograd.record():
            y = x * x
            y[0:1] = 1
            z = y * y
        z.backward()
        assert x.grad.asnumpy().tolist() == [0, 4 * 27]

    def test_out(self):
        x, y, z = variable(0.5, 1.0), nd.zeros((2,), dtype="float64"), nd.zeros((2,), dtype="float64")
        with autograd.record():
            assert nd.sin(x, out=y) is y
            assert nd.broadcast_mul(y, x, out=z) is z
        z.backward()
        v = np.array([0.5, 1.0])
        np.testing.assert_allclose(x.grad.asnumpy(), np.sin(v) + v * np.cos(v))

    def test_out_of_several(self):
        x = variable(1.0, 2.0, 3.0)
        parts = [nd.zeros((1,), dtype="float64") for _ in range(3)]
        with autograd.record():
            assert nd.split(x, 3, axis=0, out=parts) is parts
            y = parts[0] * parts[1] * parts[2]
        y.backward()
        assert x.grad.asnumpy().tolist() == [6, 3, 2]

    def test_copyto(self):
        x, y = variable(1.5, 2.5), nd.zeros((2,), dtype="float32")
        with autograd.record():
            assert x.copyto(y) is y
            z = y * 3
        z.backward()
        assert x.grad.dtype == np.float64
        assert x.grad.asnumpy().tolist() == [3, 3]

    def test_forward_values_count(self):
        x = variable(2.0)
        with autograd.record():
            y = x * x
            x *= 100
            z = y * y
        x[:] = -1
        z.backward()
        assert x.grad.asscalar() == 4 * 8

    def test_second_order(self):
        x = variable(2.0)
        with autograd.record():
            y = x * 1
            y *= x
            y *= x
            first = autograd.grad(y, x, create_graph=True)[0]
        first.backward()
        assert x.grad.asscalar() == 12

    def test_random_number_in_place(self):
        x = variable(1.0, 1.0)
        with autograd.record():
            noise = nd.random.uniform(shape=(2,), dtype="float64")
            y = x * noise
            y += noise
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), noise.asnumpy())


class TestOutsideOfRecording:
    """Outside of a scope only values change: variables stay variables, what was recorded stays recorded."""

    def test_update_rules_keep_the_variable(self):
        x = variable(1.0, 2.0)
        for update in (lambda: x.__isub__(0.5 * x.grad), lambda: x.__setitem__(slice(None), x - 0.5 * x.grad)):
            with autograd.record():
                y = (x * x).sum()
            y.backward()
            update()
        np.testing.assert_allclose(x.asnumpy(), [0, 0], atol=1e-12)

    def test_recorded_array_keeps_its_record(self):
        x = variable(3.0)
        with autograd.record():
            y = x * x
        y += 100
        assert y.asscalar() == 109
        y.backward()
        assert x.grad.asscalar() == 6

    def test_value_that_later_records_use(self):
        x = variable(3.0)
        with autograd.record():
            y = x * x
        y[:] = 5
        with autograd.record():
            z = y * y
        z.backward()
        assert x.grad.asscalar() == 2 * 5 * 6

    def test_backward_clears_it_all_the_same(self):
        x = variable(3.0)
        with autograd.record():
            y = x * x
            z = y * 2
        y += 1
        z.backward()
        with pytest.raises(MXNetError, match="not in a computational graph"):
            y.backward()

    def test_many_changes(self):
        x = variable(3.0)
        with autograd.record():
            y = x * x
        for _ in range(50):
            y += 1
            y.asnumpy()
        y.backward()
        assert (y.asscalar(), x.grad.asscalar()) == (59, 6)

    def test_paused(self):
        x = variable(3.0)
        with autograd.record():
            y = x * x
            with autograd.pause():
                y *= 2
            z = y * y
        z.backward()
        assert z.asscalar() == 18 * 18
        assert x.grad.asscalar() == 2 * 18 * 6
