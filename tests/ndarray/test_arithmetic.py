"""Operators between arrays and numbers: what recorded/arithmetic.json cannot say, such as what is remembered."""

import decimal
import fractions
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, settings
from phonograd.core.graph.node import statistics

X = [[0.5, -1.0, 2.0], [3.0, 0.0, -0.25]]


@pytest.fixture
def x():
    return nd.array(X)


def bits(array):
    return array.asnumpy().tobytes()


class TestNumbers:
    """A number beside an array is data: it must not be mistaken for another one that compares equal."""

    def test_true_one_and_one_point_zero(self, x):
        expected = (np.array(X, np.float32) + 1).tobytes()
        for number in (1, 1.0, True, np.float32(1), np.int8(1), np.bool_(True), 1):
            assert bits(x + number) == expected
            assert bits(number + x) == expected

    def test_zeros_have_signs(self):
        x = nd.array([-0.0, 0.0])
        for number, signs in ((0.0, [False, False]), (-0.0, [True, False]), (0, [False, False]), (0.0, [False, False])):
            assert np.signbit((x + number).asnumpy()).tolist() == signs
        for number in (-0.0, 0.0, -0.0):
            quotient = (1 / nd.full((1,), number)).asscalar()
            assert quotient == math.copysign(math.inf, number)

    def test_nan_is_never_remembered_as_something_else(self, x):
        assert np.isnan((x + float("nan")).asnumpy()).all()
        assert not np.isnan((x + 1).asnumpy()).any()

    @pytest.mark.usefixtures("planned")
    def test_changing_number_makes_no_expression(self, x):
        def step(number):
            return ((x * number + number) / (number + 1)).asnumpy()

        step(1.5)
        step(2.5)
        before = statistics.snapshot()
        results = [step(number) for number in (3.5, 4.5, 0.125)]
        after = statistics.snapshot()
        assert (after["nodes"], after["plans"]) == (before["nodes"], before["plans"])
        assert len({result.tobytes() for result in results}) == 3

    @pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "int8"])
    def test_number_takes_the_dtype_of_the_array(self, dtype):
        i = nd.array([1, 2, 3], dtype=dtype)
        for result in (i + 1.9, 1.9 + i, i * 1.9, i - 0.5, i / 2, i == 1.5, i > 1.5):
            assert result.dtype == np.dtype(dtype).type
        assert (i + 1.9).asnumpy().tolist() == [2, 3, 4]

    def test_large_whole_numbers_stay_exact(self):
        i = nd.array([1], dtype="int64")
        for number in (2**53 + 1, 2**62 + 1, -(2**62) - 1):
            assert (i * number).asscalar() == number
            assert (i + number).asscalar() == number + 1

    @pytest.mark.parametrize(
        "value",
        [
            None,
            "a",
            [1],
            (1,),
            {},
            np.ones(3),
            1j,
            np.complex64(1),
            object(),
            decimal.Decimal(1),
            fractions.Fraction(1),
        ],
    )
    def test_other_types_are_refused(self, x, value):
        for operation in (lambda: x + value, lambda: value + x, lambda: x == value, lambda: nd.maximum(x, value)):
            with pytest.raises(TypeError, match=r"not supported|unsupported operand"):
                operation()

    def test_number_beyond_every_float(self, x):
        with pytest.raises(OverflowError):
            x + 10**400

    def test_numpy_numbers_on_the_left(self, x):
        for number in (np.float32(2), np.float64(2), np.int64(2), np.array(2.0)):
            for left, right in ((number + x, 2 + x), (number / x, 2 / x), (number - x, 2 - x), (number > x, x < 2)):
                assert isinstance(left, nd.NDArray)
                assert left.dtype == np.float32
                assert bits(left) == bits(right)


class TestFunctions:
    """nd.add and its like: either operand, or both, may be numbers."""

    @pytest.mark.parametrize(
        "name",
        [
            "add",
            "subtract",
            "multiply",
            "divide",
            "true_divide",
            "modulo",
            "power",
            "maximum",
            "minimum",
            "equal",
            "not_equal",
            "greater",
            "greater_equal",
            "lesser",
            "lesser_equal",
            "logical_and",
            "logical_or",
            "logical_xor",
            "hypot",
        ],
    )
    def test_operands(self, x, name):
        function = getattr(nd, name)
        two = nd.full((2, 3), 2.0)
        np.testing.assert_array_equal(function(x, 2).asnumpy(), function(x, two).asnumpy())
        np.testing.assert_array_equal(function(2, x).asnumpy(), function(two, x).asnumpy())
        assert function(2, 3) == pytest.approx(function(nd.array([2.0]), nd.array([3.0])).asscalar())

    def test_numbers_stay_numbers(self):
        assert (nd.add(1, 2), nd.maximum(1, 2), nd.equal(1, 1)) == (3, 2, 1)
        assert type(nd.add(1, 2)) is int

    def test_argument_names(self, x):
        assert bits(nd.add(lhs=x, rhs=1)) == bits(x + 1)
        assert bits(nd.power(base=x, exp=2)) == bits(x**2)
        assert bits(nd.broadcast_power(lhs=x, rhs=x)) == bits(x**x)

    def test_gradients_of_either_operand(self, x):
        x.attach_grad()
        with autograd.record():
            y = nd.subtract(1, x) + nd.multiply(x, 3) + nd.maximum(x, 0)
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), 2 + (np.array(X) >= 0))


def test_remembered_calls_tell_arguments_apart():
    x = nd.array([-3.0, -2.0, -1.0, 2.0])
    for _ in range(2):
        assert np.signbit(nd.clip(x, a_min=-0.0, a_max=1).asnumpy()).tolist() == [True, True, True, False]
        assert not np.signbit(nd.clip(x, a_min=0.0, a_max=1).asnumpy()).any()
        assert not np.signbit(nd.clip(x, a_min=0, a_max=1).asnumpy()).any()
        assert nd.sum(x, axis=0).shape == nd.sum(x, axis=False).shape == (1,)
        assert nd.sum(x.reshape((2, 2)), axis=1).shape == nd.sum(x.reshape((2, 2)), axis=True).shape == (2,)
        assert nd.cast(x, dtype="int32").dtype == np.int32
        assert nd.cast(x, dtype=int).dtype == np.int64


def test_scalar_forms_keep_the_sign_of_zero():
    x = nd.array([-0.0])
    for scalar in (0.0, -0.0, 0.0, -0.0):
        found = nd._internal._plus_scalar(x, scalar=scalar).asnumpy()
        assert np.signbit(found)[0] == (math.copysign(1, scalar) < 0)


def test_unhashable_arguments_work_every_time():
    x = nd.array(X)
    for _ in range(3):
        assert nd.sum(x, axis=[0, 1]).shape == (1,)
        assert nd.transpose(x, axes=[1, 0]).shape == (3, 2)
        assert nd.reshape(x, shape=np.array([3, 2]).tolist()).shape == (3, 2)


class TestShapes:
    @pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
    def test_any_shape(self, shape):
        x = nd.full(shape, 3.0)
        x.attach_grad()
        with autograd.record():
            y = (x * x - 1) / 2 + x.exp() % 2 + nd.maximum(x, 1) + (x > 2) + x**2
        y.backward()
        assert y.shape == x.grad.shape == shape
        assert np.isfinite(x.grad.asnumpy()).all()

    def test_broadcasting_without_axes(self):
        assert (nd.array(2.0) * nd.array([1.0, 2.0])).asnumpy().tolist() == [2, 4]
        assert (nd.ones((2, 1)) + nd.zeros((0,))).shape == (2, 0)

    def test_gradient_is_summed_to_the_operand(self):
        a, b, c = nd.ones((2, 1)), nd.ones((3,)), nd.array(2.0)
        for array in (a, b, c):
            array.attach_grad()
        with autograd.record():
            y = a * b * c
        y.backward()
        assert a.grad.asnumpy().tolist() == [[6], [6]]
        assert b.grad.asnumpy().tolist() == [4, 4, 4]
        assert c.grad.asnumpy().tolist() == 6


class TestIntegerPower:
    @pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 7, 64, 65, 0.5, 2.0, 2.5])
    def test_equals_numpy(self, exponent):
        x = nd.array([0.5, 1.5, 2.0], dtype="float64")
        np.testing.assert_allclose((x**exponent).asnumpy(), x.asnumpy() ** exponent, rtol=1e-14)

    def test_whole_exponents_of_negative_numbers(self):
        assert (nd.array([-2.0]) ** 3).asscalar() == -8
        assert np.isnan((nd.array([-2.0]) ** 2.5).asscalar())


class TestNaive:
    """With the naive engine every operator is evaluated at its call."""

    def test_operators_are_evaluated_at_once(self, x):
        with settings.override(naive=True):
            for call in (
                lambda: x + 1, lambda: 1 - x, lambda: x.exp(), lambda: nd.sum(x, axis=1), lambda: x**2, lambda: x.T,
                lambda: nd.split(x, 3, axis=1)[0], lambda: x.astype("int32"), lambda: x[:, 0], lambda: x[[0, 1]],
                lambda: nd.concatenate([x, x]), lambda: nd.random.uniform(shape=(2,)), lambda: nd.add(x, x),
                lambda: x.reshape(-1), lambda: nd.arange(3), lambda: x.__iadd__(1),
            ):  # fmt: skip
                assert call()._buffer is not None

    @pytest.mark.parametrize("variable, value", [("MXNET_ENGINE_TYPE", "NaiveEngine"), ("PHONOGRAD_NAIVE", "1")])
    def test_chosen_by_the_environment(self, variable, value):
        code = "from phonograd import nd; print((nd.ones(2) + 1)._buffer)"
        environment = {**os.environ, variable: value}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == "[2. 2.]\n"

    def test_errors_are_raised_at_the_call(self, x):
        index = nd.array([7])
        with settings.override(naive=True), pytest.raises(IndexError, match="out of bounds"):
            x[index]

    def test_gradients_are_the_same(self, x):
        grads = []
        for naive in (False, True):
            with settings.override(naive=naive):
                x.attach_grad()
                with autograd.record():
                    y = (x.exp() * x).sum()
                    x[0] = y
                    y = y + (x * x).sum()
                y.backward()
                grads.append(bits(x.grad))
                x[:] = nd.array(X)
        assert grads[0] == grads[1]


def test_contexts_may_be_mixed():
    x, y = nd.ones((2,), ctx=mx.cpu(1)), nd.ones((2,))
    assert ((x + y).context, (y + x).context, (1 - x).context, (x * 2 > 1).context) == (
        mx.cpu(1), mx.cpu(0), mx.cpu(1), mx.cpu(1),
    )  # fmt: skip


def test_same_call_under_and_outside_of_recording():
    """A remembered call must not bring a record into a place where none is wanted, nor lose one."""
    x = nd.array([2.0])
    x.attach_grad()
    for _ in range(3):
        plain = x * x
        with autograd.record():
            recorded = x * x
            with autograd.pause():
                paused = x * x
        for array in (plain, paused):
            with pytest.raises(mx.MXNetError, match="not in a computational graph"):
                array.backward()
        recorded.backward()
        assert x.grad.asscalar() == 4
