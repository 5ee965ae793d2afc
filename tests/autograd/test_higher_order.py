"""Derivatives of derivatives, to any order, in one record and across records."""

import numpy as np
import pytest

from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError
from phonograd.testing import check_gradients

from .arrays import close, values, variable


def derivatives(function, x, orders):
    """Return the value and derivatives of a function, each computed from the one before."""
    with autograd.record():
        found = [function(x)]
        for _ in range(orders):
            found.append(autograd.grad(found[-1], x, create_graph=True)[0])
    return found


def test_powers():
    x = variable([2.0, 3.0], dtype="float64")
    point = np.array([2.0, 3.0])
    for order, found in enumerate(derivatives(lambda x: x * x * x * x, x, 4)):
        factor = [1, 4, 12, 24, 24][order]
        close(found, factor * point ** (4 - order))


def test_the_eighth_derivative():
    x = variable([0.3], dtype="float64")
    found = derivatives(nd.sin, x, 8)
    for order, derivative in enumerate(found):
        close(derivative, [np.sin(0.3 + order * np.pi / 2)])


def test_inverse_hyperbolic_functions_have_the_right_sign():
    x = variable([1.5], dtype="float64")
    close(derivatives(nd.arcsinh, x, 2)[2], [-1.5 / (1.5**2 + 1) ** 1.5])
    close(derivatives(nd.arccosh, x, 2)[2], [-1.5 / (1.5**2 - 1) ** 1.5])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nd.softmax(x) * x,
        lambda x: (
            nd.FullyConnected(x.reshape((2, 3)), nd.ones((4, 3), dtype="float64") * 0.3, no_bias=True, num_hidden=4)
            ** 2
        ),
        lambda x: nd.norm(x) * x[1:3],
        lambda x: nd.concat(x[0:2], x[4:6] * x[1:3], dim=0) ** 3,
        lambda x: (
            nd.LayerNorm(x.reshape((2, 3)), nd.ones(3, dtype="float64"), nd.zeros(3, dtype="float64"))
            * x.reshape((2, 3))
        ),
        lambda x: nd.dot(x.reshape((2, 3)), x.reshape((3, 2))),
        lambda x: nd.where(x > 0.2, x * x, nd.exp(x)),
        lambda x: (nd.Activation(x, act_type="softrelu"), x**5),
    ],
)
def test_against_differences(function):
    check_gradients(function, [[0.5, -0.4, 0.9, 1.1, 0.7, -1.2]], order=3)


def test_the_checker_finds_errors():
    class Wrong(autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            return x * x

        def backward(self, dy):
            return 3 * self.saved_tensors[0] * dy

    with pytest.raises(AssertionError, match="derivative of order 1 along a random direction"):
        check_gradients(lambda x: Wrong()(x), [[0.5]])

    class WrongSecond(autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            return nd.exp(x)

        def backward(self, dy):
            return nd.exp(self.saved_tensors[0].detach()) * dy

    with pytest.raises(AssertionError, match="derivative of order 2"):
        check_gradients(lambda x: WrongSecond()(x), [[0.5]])


def test_the_checker_with_constant_and_linear_functions():
    check_gradients(lambda x: x * 2, [[0.5]], order=3)
    check_gradients(lambda x: nd.ones((1,), dtype="float64"), [[0.5]], order=2)
    check_gradients(lambda x, y: (x * 2, y * y), [[0.5], [1.5]], order=3)


def test_mixed_derivatives():
    x, w = variable([2.0], dtype="float64"), variable([3.0], dtype="float64")
    with autograd.record():
        y = x * x * w * w * w
        by_x, by_w = autograd.grad(y, [x, w], create_graph=True)
        (by_x_w,) = autograd.grad(by_x, w, create_graph=True)
        (by_w_x,) = autograd.grad(by_w, x, create_graph=True)
    assert values(by_x_w) == values(by_w_x) == [4 * 27]
    by_x_w.backward()
    assert values(x.grad) == [2 * 27]
    assert values(w.grad) == [4 * 18]


def test_gradients_mixed_with_other_recorded_values():
    x = variable([1.0, 2.0])
    with autograd.record():
        y = x * x * x
        (first,) = autograd.grad(y, x, create_graph=True)
        z = (nd.concat(first, y, x, dim=0) ** 2).sum() + (first * x).sum()
    z.backward()
    point = np.array([1.0, 2.0])
    close(x.grad, 2 * 3 * point**2 * 6 * point + 2 * point**3 * 3 * point**2 + 2 * point + 9 * point**2)


def test_a_gradient_penalty():
    generator = np.random.default_rng(0)
    w, x = variable(generator.normal(size=(4, 3))), variable(generator.normal(size=(5, 4)))
    with autograd.record():
        score = nd.tanh(nd.dot(x, w)).sum(axis=1)
        (slope,) = autograd.grad(score, x, create_graph=True)
        penalty = ((nd.sqrt((slope * slope).sum(axis=1)) - 1) ** 2).mean()
        loss = score.mean() + 10 * penalty
    loss.backward()

    def value(weights):
        hidden = np.tanh(x.asnumpy().astype("float64") @ weights)
        slopes = (1 - hidden**2) @ weights.T
        return hidden.sum(1).mean() + 10 * ((np.sqrt((slopes**2).sum(1)) - 1) ** 2).mean()

    weights, direction = w.asnumpy().astype("float64"), generator.normal(size=(4, 3))
    numeric = (value(weights + 1e-6 * direction) - value(weights - 1e-6 * direction)) / 2e-6
    assert abs((w.grad.asnumpy() * direction).sum() - numeric) < 1e-4


def test_each_order_in_a_record_of_its_own():
    x = variable([2.0], dtype="float64")
    with autograd.record():
        y = x**5
    found = y
    for expected in (80, 160, 240, 240):
        found.wait_to_read()
        with autograd.record():
            (found,) = autograd.grad(found * 1, x, create_graph=True)
        assert values(found) == [expected]
    found.backward()
    assert values(x.grad) == [120]


def test_a_second_derivative_through_a_variable_changed_in_between():
    x = variable([2.0])
    with autograd.record():
        y = x * x * x
    (first,) = autograd.grad(y, x, create_graph=True)
    x[:] = 100
    (second,) = autograd.grad(first, x)
    assert values(second) == [12], "the point is that of the forward pass"


def test_clearing_a_gradient_leaves_what_it_does_not_use():
    x, w = variable(np.ones((2, 3))), variable(np.ones((4, 3)) * 0.5)
    with autograd.record():
        y = nd.FullyConnected(x, w, no_bias=True, num_hidden=4)
        (by_x,) = autograd.grad(y, x, create_graph=True, retain_graph=True)
    by_x.backward()
    assert values(w.grad) == [[2, 2, 2]] * 4
    y.backward()
    assert values(x.grad) == [[2, 2, 2]] * 2


def test_equal_gradients_are_separate_records():
    x = variable([2.0])
    with autograd.record():
        y = x * x * x
        (first,) = autograd.grad(y, x, create_graph=True)
        (again,) = autograd.grad(y, x, create_graph=True)
    first.backward()
    assert values(x.grad) == [12]
    with pytest.raises(MXNetError, match="not in a computational graph"):
        first.backward()
    again.backward()
    assert values(x.grad) == [12]


def test_gradients_of_a_gradient_accumulate():
    x = variable([2.0], "add")
    with autograd.record():
        y = x * x * x
        (first,) = autograd.grad(y, x, create_graph=True)
    first.backward(retain_graph=True)
    first.backward(retain_graph=True)
    y.backward()
    assert values(x.grad) == [12 + 12 + 12]


def test_through_in_place_changes_and_views():
    x = variable([1.0, 2.0, 3.0], dtype="float64")
    with autograd.record():
        y = x * x
        y[1:3] *= x[0:2]
        y += x * y
        (first,) = autograd.grad(y, x, create_graph=True)
        (second,) = autograd.grad(first, x)

    def plain(x):
        y = nd.concat(x[0:1] ** 2, x[1:3] ** 2 * x[0:2], dim=0)
        return y + x * y

    with autograd.record():
        (expected,) = autograd.grad(plain(x), x, create_graph=True)
        (expected_second,) = autograd.grad(expected, x)
    close(first, expected.asnumpy())
    close(second, expected_second.asnumpy())


def test_integer_and_zero_size_arrays():
    x = variable([3, 4], dtype="int32")
    assert [values(d) for d in derivatives(lambda x: x * x * x, x, 2)] == [[27, 64], [27, 48], [18, 24]]
    empty = variable(np.zeros((0, 2)))
    assert [d.shape for d in derivatives(lambda x: x * x * x, empty, 2)] == [(0, 2)] * 3
