"""The first autograd interface of MXNet."""

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.contrib import autograd as old


def flags():
    return autograd.is_recording(), autograd.is_training()


def values(arrays):
    return [array.asnumpy().tolist() for array in arrays]


def test_one_switch_for_both_flags():
    assert old.set_is_training(True) is False
    assert flags() == (True, True)
    assert old.set_is_training(False) is True
    assert flags() == (False, False)


def test_sections_nest_and_restore_both_flags():
    with old.train_section() as bound:
        assert bound is None
        assert flags() == (True, True)
        with old.test_section():
            assert flags() == (False, False)
        assert flags() == (True, True)
    assert flags() == (False, False)
    with autograd.record(train_mode=False):
        with old.train_section():
            assert flags() == (True, True)
        assert flags() == (True, False)
    with pytest.raises(ZeroDivisionError), old.train_section():
        raise ZeroDivisionError
    assert flags() == (False, False)
    scope = old.TrainingStateScope(True)
    with scope, scope:
        assert flags() == (True, True)
    assert flags() == (False, False)


def test_backward():
    x, gradient = nd.array([1, 2, 3]), nd.zeros((3,))
    old.mark_variables([x], [gradient])
    with old.train_section():
        y = x * x
    old.backward([y], retain_graph=True)
    assert gradient.asnumpy().tolist() == [2, 4, 6]
    old.backward((y,), (None,), retain_graph=True)
    assert gradient.asnumpy().tolist() == [2, 4, 6]
    old.backward([y], [nd.array([1, 2, 3])])
    assert gradient.asnumpy().tolist() == [2, 8, 18]
    with old.train_section():
        y = x * 3
    assert old.compute_gradient([y]) is None
    assert gradient.asnumpy().tolist() == [3, 3, 3]
    with pytest.raises(AssertionError, match="outputs must be a list or tuple of NDArrays"):
        old.backward(y)
    for wrong in ([], nd.ones((3,))):
        with pytest.raises(AssertionError, match="outputs and out_grads must have the same length"):
            old.backward([y], wrong)


def test_gradients_of_functions():
    def function(a, b):
        """Multiply."""
        return a * a * b

    a, b = nd.array([2.0]), nd.array([3.0])
    gradients, loss = old.grad_and_loss(function)(a, b)
    assert values(gradients) == [[12], [4]]
    assert loss.asscalar() == 12
    assert values(old.grad_and_loss(function, 0)(a, 3)[0]) == [[12]]
    assert values(old.grad(function, [1, 0])(a, b)) == [[4], [12]]
    assert values(old.grad(function, argnum=-1)(a, b)) == [[4]]
    assert a.grad.asscalar() == 12
    assert old.grad(function).__doc__ == "Multiply."
    gradients, outputs = old.grad_and_loss(lambda a: (a * 2, a * 3))(a)
    assert values(gradients) == [[5]]
    assert isinstance(outputs, tuple)
    with pytest.raises(AssertionError, match=r"type of autograd input should NDArray."):
        old.grad_and_loss(function)(a, 3)
    with pytest.raises(IndexError):
        old.grad(function, 5)(a, b)


def test_gradients_have_the_type_of_the_argument():
    (gradient,) = old.grad(lambda x: x * x)(nd.array([1.0, 2.0], dtype="float64"))
    assert gradient.dtype == np.float64


def test_it_is_reached_through_the_package():
    assert mx.contrib.autograd is old
    with pytest.raises(AttributeError, match="has no attribute 'missing'"):
        _ = mx.contrib.missing
