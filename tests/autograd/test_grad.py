"""grad: gradients as new arrays, and its errors."""

import numpy as np
import pytest

from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError

from .arrays import close, flags, values, variable


def test_the_result_is_always_a_list():
    x, w = variable([2.0]), variable([3.0])
    with autograd.record():
        y = x * x * w
    for given in (x, [x], (x,)):
        result = autograd.grad(y, given, retain_graph=True)
        assert isinstance(result, list)
        assert [values(g) for g in result] == [[12]]
    assert [values(g) for g in autograd.grad([y], [w, x])] == [[4], [12]]


def test_buffers_and_their_state_are_left_alone():
    x = variable([2.0], "add")
    x.grad[:] = 7
    with autograd.record():
        y = x * x
    (result,) = autograd.grad(y, x)
    assert values(result) == [4]
    assert values(x.grad) == [7]
    assert x._fresh_grad == 0
    assert result.grad is None


def test_results_are_arrays_of_their_own():
    x = variable([1.0, 2.0])
    head_grad = nd.array([3.0, 4.0])
    (first,) = autograd.grad(x, [x], head_grads=head_grad)
    first[:] = 0
    assert values(head_grad) == [3, 4]
    (again,) = autograd.grad(x, [x], head_grads=head_grad)
    assert values(again) == [3, 4]
    assert values(autograd.grad(x, x)[0]) == [1, 1]
    head_grad += 1
    assert values(again) == [3, 4]


def test_a_variable_listed_twice_gives_two_arrays():
    x = variable([2.0])
    with autograd.record():
        y = x * x
    first, second = autograd.grad(y, [x, x])
    assert (values(first), values(second)) == ([4], [4])
    first += 1
    assert values(second) == [4]


def test_heads_are_summed_and_may_be_listed_twice():
    x = variable([2.0])
    with autograd.record():
        y, z = x * x, x * 3
    close(autograd.grad([y, z, y], x, head_grads=[None, nd.array([10.0]), nd.array([100.0])])[0], [4 + 30 + 400])


def test_clearing_follows_create_graph_unless_told():
    x = variable([2.0])
    with autograd.record():
        y = x * x
    autograd.grad(y, x, retain_graph=True)
    autograd.grad(y, x)
    with pytest.raises(MXNetError, match="not in a computational graph"):
        autograd.grad(y, x)
    with autograd.record():
        y = x * x
        autograd.grad(y, x, create_graph=True)
        autograd.grad(y, x, create_graph=True, retain_graph=False)
        with pytest.raises(MXNetError, match="not in a computational graph"):
            autograd.grad(y, x)


def test_a_gradient_of_zero_is_an_array_of_zeros():
    x = variable([1.0, 2.0])
    with autograd.record():
        y = nd.BlockGrad(x) * 2
    assert values(autograd.grad(y, x)[0]) == [0, 0]


def test_without_create_graph_the_result_is_a_constant():
    x = variable([2.0])
    with autograd.record():
        y = x * x * x
        (first,) = autograd.grad(y, x, retain_graph=True)
        z = first * x
    z.backward()
    assert values(x.grad) == [12]
    with pytest.raises(MXNetError, match="not in a computational graph"):
        first.backward()


def test_create_graph_records_outside_of_recording():
    x = variable([2.0])
    with autograd.record():
        y = x * x * x
    (first,) = autograd.grad(y, x, create_graph=True)
    assert flags() == (False, False)
    first.backward()
    assert values(x.grad) == [12]


def test_flags_come_back():
    x = variable([2.0])
    with autograd.record(train_mode=False):
        y = x * x
        autograd.grad(y, x, create_graph=True)
        assert flags() == (True, False)
        with pytest.raises(MXNetError):
            autograd.grad(y, nd.ones((1,)), create_graph=True)
        assert flags() == (True, False)


def test_the_gradient_of_an_intermediate_needs_a_buffer():
    x = variable([2.0])
    with autograd.record():
        h = x * 3
        y = h * h
    with pytest.raises(MXNetError, match="the 1-th variable because it does not require gradient"):
        autograd.grad(y, h)
    with autograd.record():
        h = x * 3
        h.attach_grad()
        y = h * h
    assert values(autograd.grad(y, h, retain_graph=True)[0]) == [12]
    with pytest.raises(MXNetError, match="the 1-th variable because it is unreachable from the outputs"):
        autograd.grad(y, x)


# -- errors, in the order in which they are looked for


def test_no_variables_given():
    x = variable([1.0])
    with autograd.record():
        y = x * 2
    for empty in ([], ()):
        with pytest.raises(AssertionError, match=r"variables cannot be an empty list\."):
            autograd.grad(y, empty)


def test_the_head_comes_first():
    with pytest.raises(MXNetError, match="Cannot differentiate node because it is not in a computational graph"):
        autograd.grad(nd.ones((1,)), nd.ones((1,)))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: nd.ones((1,)),
        lambda: variable([1.0], "null"),
        lambda: variable([1.0])[0:1],
        lambda: variable([1.0]).detach(),
        lambda: 3,
    ],
)
def test_not_a_variable(wrong):
    x, unreached = variable([1.0]), variable([1.0])
    with autograd.record():
        y = x * 2
    with pytest.raises(MXNetError) as error:
        autograd.grad(y, [x, unreached, wrong()])
    sentence = "Cannot differentiate with respect to the 3-th variable because it does not require gradient."
    assert str(error.value) == sentence
    with pytest.raises(MXNetError) as error:
        autograd.grad(y, [x, unreached])
    sentence = "Cannot differentiate with respect to the 2-th variable because it is unreachable from the outputs."
    assert str(error.value) == sentence
    assert values(autograd.grad(y, [x])[0]) == [2], "the failures have left the record as it was"


def test_reaching_is_about_the_graph_not_about_zero():
    x, w = variable([1.0]), variable([1.0])
    with autograd.record():
        y = nd.BlockGrad(w) + x * 0
    assert [values(g) for g in autograd.grad(y, [x, w])] == [[0], [0]]


def test_the_derivative_of_something_linear_does_not_reach_the_variable():
    x = variable([1.0])
    with autograd.record():
        (first,) = autograd.grad(x * 3, x, create_graph=True)
        with pytest.raises(MXNetError, match="the 1-th variable because it is unreachable from the outputs"):
            autograd.grad(first, x)


def test_a_failure_in_the_middle_leaves_flags_and_record():
    x = variable([1.0, 2.0])
    with autograd.record():
        good, bad = x * 2, nd.shuffle(x)
        with pytest.raises(MXNetError, match="_shuffle is non-differentiable"):
            autograd.grad([good, bad], x)
        assert flags() == (True, True)
    assert values(autograd.grad(good, x)[0]) == [2, 2]


# -- head gradients that are variables


def test_gradients_with_respect_to_head_gradients():
    x, head_grad = variable([1.0, 2.0]), variable([3.0, 5.0])
    with autograd.record():
        y = x * x
        (first,) = autograd.grad(y, x, head_grads=head_grad, create_graph=True)
    assert values(first) == [6, 20]
    by_head, by_x = autograd.grad(first, [head_grad, x], retain_graph=True)
    assert (values(by_head), values(by_x)) == ([2, 4], [6, 10])
    first.backward()
    assert values(head_grad.grad) == [2, 4]
    assert values(x.grad) == [6, 10]


def test_a_recorded_head_gradient():
    x, w = variable([2.0]), variable([3.0])
    with autograd.record():
        y = x * x
        head_grad = w * w
        (first,) = autograd.grad(y, x, head_grads=head_grad, create_graph=True)
        (second,) = autograd.grad(first, w)
    assert values(first) == [36]
    assert values(second) == [24]


def test_without_create_graph_head_gradients_are_constants():
    x, head_grad = variable([2.0]), variable([3.0])
    with autograd.record():
        y = x * x
        (first,) = autograd.grad(y, x, head_grads=head_grad)
        z = first * x
    with pytest.raises(MXNetError, match="unreachable"):
        autograd.grad(z, head_grad)


def test_a_vector_jacobian_product_gives_a_jacobian_vector_product():
    generator = np.random.default_rng(3)
    matrix, point = generator.normal(size=(3, 4)), generator.normal(size=(4,))
    direction = generator.normal(size=(4,))
    x, dummy = variable(point), variable(np.zeros(3))
    with autograd.record():
        y = nd.tanh(nd.dot(nd.array(matrix), x))
        (pulled,) = autograd.grad(y, x, head_grads=dummy, create_graph=True)
    (pushed,) = autograd.grad(pulled, dummy, head_grads=nd.array(direction))
    jacobian = (1 - np.tanh(matrix @ point) ** 2)[:, None] * matrix
    close(pushed, jacobian @ direction)
