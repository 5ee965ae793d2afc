"""Function: what is saved for backward, and derivatives of derivatives."""

import numpy as np
import pytest

from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError
from phonograd.testing import check_gradients

from .arrays import NO_VARIABLES, close, values, variable
from .functions import Exponential, Product, Several, Square

# -- what is saved


def test_saved_arrays_are_those_of_the_forward_pass():
    x, y = variable([2.0]), nd.array([5.0])
    with autograd.record():
        h = x * 1
        z = Product()(h, y)
        h += 100
        w = Exponential()(x)
    x[:] = 50
    y[:] = 70
    values_of_w = w.asnumpy()
    w[:] = 0
    z.backward()
    assert values(x.grad) == [5]
    w.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), values_of_w)


def test_saved_objects_of_any_kind():
    class Anything(autograd.Function):
        def forward(self, x):
            assert self.saved_tensors == ()
            self.save_for_backward(3, "a", None)
            return x * 3

        def backward(self, dy):
            assert self.saved_tensors[1:] == ("a", None)
            return dy * self.saved_tensors[0]

    x = variable([1.0])
    with autograd.record():
        y = Anything()(x)
    y.backward()
    assert values(x.grad) == [3]


def test_an_input_changed_by_forward():
    class InPlace(autograd.Function):
        def forward(self, x):
            x[:] = x * 2
            return x * 1

        def backward(self, dy):
            return dy * 2

    x = variable([3.0])
    with autograd.record():
        h = x * 1
        y = InPlace()(h)
    assert (values(h), values(y)) == ([6], [6])
    y.backward()
    assert values(x.grad) == [2]


# -- again


def test_derivatives_of_every_order():
    check_gradients(lambda x: Square()(x) * x, [[0.7, -0.4]], order=3)
    check_gradients(lambda x: Exponential()(x * x), [[0.7, -0.4]], order=3)
    check_gradients(lambda x, y: Product()(Exponential()(x), y), [[0.7], [1.3]], order=3)
    check_gradients(lambda x: Several()(x, x * x, nd.exp(x)), [[0.7, 1.2]], order=3)


def test_order_three_by_hand():
    x = variable([1.5], dtype="float64")
    with autograd.record():
        y = Exponential()(Square()(x))
        first = autograd.grad(y, x, create_graph=True)[0]
        second = autograd.grad(first, x, create_graph=True)[0]
        third = autograd.grad(second, x)[0]
    e = np.exp(2.25)
    close(first, [2 * 1.5 * e])
    close(second, [(2 + 4 * 2.25) * e])
    close(third, [(12 * 1.5 + 8 * 1.5**3) * e])


def test_again_across_records():
    x = variable([1.5], dtype="float64")
    with autograd.record():
        y = Exponential()(Square()(x))
    y.wait_to_read()
    with autograd.record():
        first = autograd.grad(y * 1, x, create_graph=True)[0]
    first.wait_to_read()
    with autograd.record():
        second = autograd.grad(first * 1, x, create_graph=True)[0]
    close(second, [(2 + 4 * 2.25) * np.exp(2.25)])


def test_another_loss_on_the_same_variable_does_not_disturb():
    x = variable([1.5], dtype="float64")
    with autograd.record():
        y = Square()(x) * x
        other = x * 2
    other.backward()
    with autograd.record():
        first = autograd.grad(y, x, create_graph=True)[0]
        second = autograd.grad(first, x)[0]
    close(second, [9.0])


def test_numpy_inside_cannot_be_differentiated_again():
    class Numpy(autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            return nd.array(np.square(x.asnumpy()))

        def backward(self, dy):
            return nd.array(2 * self.saved_tensors[0].asnumpy() * dy.asnumpy())

    x = variable([3.0])
    with autograd.record():
        first = autograd.grad(Numpy()(x), x, create_graph=True)[0]
    assert values(first) == [6]
    with pytest.raises(MXNetError, match=NO_VARIABLES):
        first.backward()


def test_gradients_with_respect_to_the_head_gradient():
    x, head_grad = variable([3.0]), variable([1.0])
    with autograd.record():
        first = autograd.grad(Square()(x), x, head_grads=head_grad, create_graph=True)[0]
    first.backward()
    assert (values(head_grad.grad), values(x.grad)) == ([6], [2])


def test_zero_size_and_no_axes():
    for shape in ((), (0,), (2, 0)):
        x = variable(np.ones(shape))
        with autograd.record():
            y = Square()(x)
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), np.full(shape, 2))
