"""backward: heads, head gradients, clearing and retaining, numeric rules, errors."""

import numpy as np
import pytest

from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError

from .arrays import NO_VARIABLES, NOT_RECORDED, close, flags, values, variable


def raises_not_recorded(head):
    with pytest.raises(MXNetError) as error:
        head.backward()
    assert str(error.value).startswith(NOT_RECORDED)


# -- heads and head gradients


def test_signatures_and_return_values():
    x = variable([1.0, 2.0])
    with autograd.record():
        y = x * x
    assert y.backward(retain_graph=True) is None
    assert autograd.backward(y, retain_graph=True) is None
    assert autograd.backward([y], None, True, False) is None
    assert autograd.backward((y,), head_grads=[None], retain_graph=True, train_mode=True) is None
    assert y.backward(nd.ones((2,)), True, False) is None
    assert y.backward(out_grad=nd.array([1.0, 10.0])) is None
    assert values(x.grad) == [2, 40]


def test_the_default_head_gradient_is_ones_so_elements_are_summed():
    x = variable([[1.0, 2.0], [3.0, 4.0]])
    with autograd.record():
        y = x * x
    y.backward()
    assert values(x.grad) == [[2, 4], [6, 8]]


def test_head_gradients_in_all_forms():
    x = variable([1.0, 2.0])
    head_grad = nd.array([10.0, 100.0])
    for given in (head_grad, [head_grad], (head_grad,)):
        with autograd.record():
            y = x * x
        autograd.backward(y, given)
        assert values(x.grad) == [20, 400]
    with autograd.record():
        y, z = x * 1, x * 2
    autograd.backward([y, z], [None, head_grad])
    assert values(x.grad) == [21, 201]


def test_gradients_of_several_heads_are_summed():
    x, w = variable([2.0]), variable([3.0])
    with autograd.record():
        y = x * w
        z = y * x
    autograd.backward([y, z])
    assert values(x.grad) == [3 + 2 * 2 * 3]
    assert values(w.grad) == [2 + 4]


def test_a_head_listed_twice_counts_twice():
    x = variable([2.0])
    with autograd.record():
        y = x * x
    autograd.backward([y, y])
    assert values(x.grad) == [8]
    with autograd.record():
        y = x * x
    autograd.backward([y, y], [nd.array([1.0]), nd.array([10.0])])
    assert values(x.grad) == [44]


def test_a_variable_as_head():
    x = variable([2.0, 3.0])
    x.backward()
    assert values(x.grad) == [1, 1]
    x.backward(nd.array([5.0, 7.0]))
    assert values(x.grad) == [5, 7]
    with autograd.record():
        y = x * x
        x.backward()
    autograd.backward([x, y])
    assert values(x.grad) == [5, 7]
    added = variable([1.0], "add")
    added.backward()
    added.backward()
    assert values(added.grad) == [2]


def test_a_head_gradient_is_not_changed_and_not_shared():
    x = variable([1.0, 2.0])
    head_grad = nd.array([3.0, 4.0])
    x.backward(head_grad)
    x.grad[:] = 0
    assert values(head_grad) == [3, 4]
    x.backward(head_grad)
    head_grad[:] = 9
    assert values(x.grad) == [3, 4]


def test_a_head_gradient_may_be_a_view_pending_or_recorded():
    x = variable([1.0, 2.0])
    big = nd.array([0.0, 5.0, 6.0])
    with autograd.record():
        y = x * x
        pending = y * 2
    y.backward(big[1:3], retain_graph=True)
    assert values(x.grad) == [10, 24]
    y.backward(pending)
    assert values(x.grad) == [4, 32]


def test_wrong_head_gradients():
    x = variable([1.0, 2.0])
    with autograd.record():
        y = x * x
    for wrong in (nd.ones((3,)), nd.ones((1,)), nd.ones((2, 1)), nd.ones((1, 2)), nd.array(1.0)):
        with pytest.raises(MXNetError, match="head gradient 0 has shape"):
            y.backward(wrong)
    with pytest.raises(MXNetError, match=r"dtype float64, but its head has shape \[2\] and dtype float32"):
        y.backward(nd.ones((2,), dtype="float64"))
    with pytest.raises(TypeError, match="must be an NDArray or None"):
        y.backward(np.ones(2))
    for wrong in ([], [None, None], [nd.ones((2,))] * 2):
        with pytest.raises(AssertionError, match="heads and head_grads must be lists of the same length"):
            autograd.backward([y], wrong)
    assert values(x.grad) == [0, 0]
    y.backward()
    assert values(x.grad) == [2, 4], "after all these failures the record is still there"


def test_wrong_heads():
    for wrong in (None, 3, [None], [3], ["y"], [np.ones(2)]):
        with pytest.raises(TypeError):
            autograd.backward(wrong)
    for empty in ([], ()):
        with pytest.raises(MXNetError, match=NO_VARIABLES):
            autograd.backward(empty)


def test_one_output_of_several():
    x = variable([[1.0, 2.0, 3.0, 4.0]])
    with autograd.record():
        a, b = nd.split(x, num_outputs=2, axis=1)
        y = a * a
    y.backward()
    assert values(x.grad) == [[2, 4, 0, 0]]
    with autograd.record():
        a, b = nd.split(x, num_outputs=2, axis=1)
    b.backward(nd.array([[5.0, 6.0]]))
    assert values(x.grad) == [[0, 0, 5, 6]]


# -- flags


@pytest.mark.parametrize("train_mode", [True, False])
def test_backward_leaves_the_flags_alone(train_mode):
    x = variable([1.0])
    with autograd.record(train_mode=False):
        y = x * 2
        y.backward(train_mode=train_mode)
        assert flags() == (True, False)
        raises_not_recorded(nd.ones((1,)))
        assert flags() == (True, False)
    with autograd.record(), autograd.pause(train_mode=True):
        raises_not_recorded(nd.ones((1,)))
        assert flags() == (False, True)
    with autograd.record():
        y = x * 2
    y.backward()
    assert flags() == (False, False)


def test_backward_works_inside_and_outside_of_recording():
    x = variable([3.0])
    for _ in range(2):
        with autograd.record():
            y = x * x
            y.backward()
            assert values(x.grad) == [6]
            z = y * x
        z.backward()
        assert values(x.grad) == [9], "y has become a constant"


def test_the_mode_of_the_forward_pass_counts():
    x = variable(np.random.default_rng(0).normal(size=(4, 3)))
    gamma, beta, mean, var = variable([1.0] * 3), variable([0.0] * 3), nd.zeros((3,)), nd.ones((3,))

    def gradients(train_mode):
        with autograd.record():
            y = nd.BatchNorm(x, gamma, beta, mean, var, fix_gamma=False) ** 3
        y.backward(train_mode=train_mode)
        return x.grad.asnumpy()

    np.testing.assert_array_equal(gradients(True), gradients(False))


# -- what is recorded


def test_views_made_while_recording_are_part_of_the_record():
    x = variable([[1.0, 2.0], [3.0, 4.0]])
    with autograd.record():
        y = x[0] * 2 + x[1:2].reshape((2,)) * 3 + x.reshape((4,))[1:3]
    y.backward()
    assert values(x.grad) == [[2, 3], [4, 3]]


def test_views_made_outside_are_not():
    x = variable([1.0, 2.0])
    view, whole = x[0:1], x.reshape((2, 1))
    with autograd.record():
        y, z = view * 2, whole * 3
    raises_not_recorded(y)
    raises_not_recorded(z)


def test_computed_outside_from_something_recorded():
    x = variable([1.0, 2.0])
    with autograd.record():
        y = x * 2
    for head in (y * 3, y[0], y.reshape((2, 1)), y.copy(), y.detach()):
        raises_not_recorded(head)
    with autograd.record():
        with autograd.pause():
            constant = y * 5
        z = constant * x
    z.backward()
    assert values(x.grad) == [10, 20]


def test_recording_goes_on_after_a_pause():
    x = variable([2.0])
    with autograd.record():
        y = x * x
        with autograd.pause():
            factor = y * 10
            with autograd.record():
                z = y * x
        w = z * factor
    w.backward()
    assert values(x.grad) == [3 * 4 * 40]


def test_copies_are_recorded_across_dtypes_and_contexts():
    import phonograd as mx

    x = variable([1.0, 2.0])
    with autograd.record():
        target = nd.zeros((2,), dtype="float64")
        x.copyto(target)
        y = nd.array(x) * 2 + x.copy() * 3 + x.as_in_context(mx.cpu(1)).as_in_context(mx.cpu(0)) * 4
        z = (x.astype("float64") * 5 + target * 6).sum() + y.sum().astype("float64")
    z.backward()
    assert values(x.grad) == [20, 20]
    assert x.grad.dtype == np.float32


def test_reading_values_records_nothing():
    x = variable([3.0])
    with autograd.record():
        y = x * x
        constant = nd.array(y.asnumpy())
        number = y.asscalar()
        z = y * constant * float(number)
    z.backward()
    assert values(x.grad) == [6 * 81]


# -- numeric rules


def test_integers_are_differentiated_as_integers():
    x = variable([3, -4], dtype="int32")
    with autograd.record():
        y = x * x
    y.backward()
    assert values(x.grad) == [6, -8]
    assert x.grad.dtype == np.int32


def test_gradients_are_cast_back():
    x = variable([1.7, 2.6])
    with autograd.record():
        y = x.astype("int32").astype("float32") * 2.5
    y.backward()
    assert values(x.grad) == [2, 2], "the gradient passes through integers"
    x = variable([3, 4], dtype="int32")
    with autograd.record():
        y = x.astype("float32") * 2.7
    y.backward()
    assert values(x.grad) == [2, 2]
    x = variable([0.1])
    with autograd.record():
        y = nd.exp(x.astype("float64"))
    y.backward()
    assert x.grad.dtype == np.float32
    close(x.grad, np.exp(np.float64(np.float32(0.1))).astype("float32"))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_gradients_have_the_dtype_of_the_array(dtype):
    x = variable([0.5, 1.5], dtype=dtype)
    with autograd.record():
        y = nd.exp(x) * x + x.sum()
    y.backward()
    assert x.grad.dtype == np.dtype(dtype).type
    exact = np.exp([0.5, 1.5]) * (1 + np.array([0.5, 1.5])) + 2
    close(x.grad, exact, rtol=1e-2 if dtype == "float16" else 1e-6)


def test_add_is_exactly_the_sum_of_writes():
    generator = np.random.default_rng(5)
    start = generator.normal(size=(7,))
    written, added = variable(start), variable(start, "add")
    total = np.zeros(7, np.float32)
    for _ in range(4):
        weights = nd.array(generator.normal(size=(7,)))
        for x in (written, added):
            with autograd.record():
                y = (nd.tanh(x * weights) * x).sum()
            y.backward()
        total = total + written.grad.asnumpy()
    np.testing.assert_array_equal(added.grad.asnumpy(), total)


def test_broadcast_operands_get_their_own_shape_back():
    x, row, column, number = (
        variable(np.ones((2, 3))),
        variable([1.0, 2.0, 3.0]),
        variable([[1.0], [2.0]]),
        variable(2.0),
    )
    with autograd.record():
        y = x * row * column * number
    y.backward()
    assert values(row.grad) == [6, 6, 6]
    assert values(column.grad) == [[12], [12]]
    assert values(number.grad) == 18
    assert row.grad.shape == (3,)


# -- clearing and retaining


def test_a_second_backward_raises():
    x = variable([1.0])
    with autograd.record():
        y = x * x
    y.backward()
    raises_not_recorded(y)
    assert values(x.grad) == [2]


def test_retaining_allows_any_number_of_backwards():
    x = variable([1.0, 2.0], "add")
    with autograd.record():
        y = nd.exp(x)
    for count in range(1, 4):
        y.backward(retain_graph=True)
        close(x.grad, count * np.exp([1.0, 2.0]))
    y.backward()
    close(x.grad, 4 * np.exp([1.0, 2.0]))
    raises_not_recorded(y)


def test_retaining_gives_the_same_gradient_of_dropout():
    x = variable(np.ones((200,)))
    with autograd.record():
        y = nd.Dropout(x, p=0.4)
    y.backward(retain_graph=True)
    first = x.grad.asnumpy()
    y.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), first)
    np.testing.assert_array_equal(first, y.asnumpy())


def test_intermediates_and_other_outputs_become_plain():
    x = variable([[1.0, 2.0]])
    with autograd.record():
        h = x * 2
        a, b = nd.split(h, num_outputs=2, axis=1)
        y = a * 3
    y.backward()
    for plain in (h, a, b, y):
        raises_not_recorded(plain)
    with autograd.record():
        z = x[0, 1] * b.reshape((1,)) * h[0, 0]
    z.backward()
    assert values(x.grad) == [[0, 8]]


def test_outputs_of_an_operator_made_of_operators_become_plain_together():
    x, parameters, state = variable(np.ones((2, 1, 3))), variable(np.full((24,), 0.1)), nd.zeros((1, 1, 3))
    with autograd.record():
        out, last = nd.RNN(x, parameters, state, state_size=3, num_layers=1, mode="rnn_tanh", state_outputs=True)
        loss = out.sum()
    loss.backward()
    raises_not_recorded(last)
    with autograd.record():
        out, _ = nd.RNN(x, parameters, last, state_size=3, num_layers=1, mode="rnn_tanh", state_outputs=True)
        loss = out.sum()
    loss.backward()
    truncated = parameters.grad.asnumpy()
    constant = nd.array(last.asnumpy())
    with autograd.record():
        out, _ = nd.RNN(x, parameters, constant, state_size=3, num_layers=1, mode="rnn_tanh", state_outputs=True)
        loss = out.sum()
    loss.backward()
    np.testing.assert_allclose(parameters.grad.asnumpy(), truncated, rtol=1e-6)


def test_what_is_not_an_ancestor_stays():
    x = variable([2.0])
    with autograd.record():
        h = x * x
        side = x * 5
        y = h * 3
        above = y * 2
    y.backward()
    side.backward()
    assert values(x.grad) == [5]
    above.backward()
    assert values(x.grad) == [24], "what was recorded on top can still be differentiated"


def test_equal_expressions_are_separate_records():
    x = variable([3.0])
    with autograd.record():
        y = x * x
        z = x * x
        w = x * x + 1
    w.backward()
    assert values(x.grad) == [6]
    y.backward()
    raises_not_recorded(y)
    z.backward()
    assert values(x.grad) == [6]
    for plain in (w, y, z):
        raises_not_recorded(plain)


def test_equal_expressions_recorded_after_the_first_was_cleared():
    x = variable([3.0])
    with autograd.record():
        for _ in range(5):
            h = nd.tanh(x * 0.1)
            y = (h * h).sum()
            y.backward()
            raises_not_recorded(y)
            raises_not_recorded(h)


def test_equal_expressions_with_several_outputs():
    x = variable([[1.0, 2.0]])
    with autograd.record():
        a, b = nd.split(x, num_outputs=2, axis=1)
        c, d = nd.split(x, num_outputs=2, axis=1)
        both = a * 2 + c * 3
    both.backward()
    assert values(x.grad) == [[5, 0]]
    raises_not_recorded(b)
    raises_not_recorded(d)
    with autograd.record():
        a, b = nd.split(x, num_outputs=2, axis=1)
        c, d = nd.split(x, num_outputs=2, axis=1)
    a.backward()
    raises_not_recorded(b)
    d.backward()
    assert values(x.grad) == [[0, 1]]
    raises_not_recorded(c)


def test_a_reshape_that_changes_nothing_is_a_record_of_its_own():
    x = variable([1.0, 2.0])
    with autograd.record():
        same = x.reshape((2,))
        twice = same * 2
    (x * 1).wait_to_read()
    with autograd.record():
        y = x * 3
    y.backward()
    twice.backward()
    assert values(x.grad) == [2, 2]
    raises_not_recorded(same)


def test_two_losses_with_shared_inputs():
    x, data = variable([2.0]), nd.array([5.0])
    with autograd.record():
        first, second = x * data, x * x * data
    first.backward()
    assert values(x.grad) == [5]
    second.backward()
    assert values(x.grad) == [20]
    a, b = variable([1.0]), variable([2.0])
    with autograd.record():
        first, second = a * data, b * data
    first.backward()
    second.backward()
    assert (values(a.grad), values(b.grad)) == ([5], [5])


def test_a_constant_of_an_earlier_record_is_a_constant_again():
    x, data = variable([2.0]), nd.array([5.0])
    with autograd.record():
        y = x * data
    y.backward()
    with autograd.record():
        data += 1
        z = data * 2
    raises_not_recorded(z)
    assert values(data) == [6]


def test_a_failing_backward_leaves_everything_as_it_was():
    x = variable([1.0, 2.0])
    x.grad[:] = 7
    with autograd.record():
        h = x * x
        bad = nd.shuffle(h)
        good = h * 2
    with pytest.raises(MXNetError, match="Operator _shuffle is non-differentiable because"):
        autograd.backward([good, bad])
    assert values(x.grad) == [7, 7]
    assert flags() == (False, False)
    assert x._fresh_grad == 0
    good.backward()
    assert values(x.grad) == [4, 8]


# -- errors


def test_no_variables():
    null = variable([1.0], "null")
    with autograd.record():
        y = null * 2
    with pytest.raises(MXNetError) as error:
        y.backward()
    assert str(error.value) == NO_VARIABLES
    x = variable([1.0])
    with autograd.record():
        linear = autograd.grad(x * 3, x, create_graph=True)[0]
    with pytest.raises(MXNetError) as error:
        linear.backward()
    assert str(error.value) == NO_VARIABLES


def test_an_operator_without_gradient():
    x = variable([1.0, 2.0, 3.0])
    with autograd.record():
        y = nd.shuffle(x)
        zero = y * 0
        harmless = nd.zeros_like(y) + x
        elsewhere = x * 2
    for head in (y, zero):
        with pytest.raises(MXNetError) as error:
            head.backward()
        assert "is non-differentiable because it didn't register FGradient attribute." in str(error.value)
        assert "test_backward.py" in str(error.value), "the line of the call is named"
    elsewhere.backward()
    assert values(x.grad) == [2, 2, 2]
    harmless.backward()
    assert values(x.grad) == [1, 1, 1]


def test_the_message_names_the_head():
    x = variable([1.0])
    with autograd.record():
        y = x * 2
    with pytest.raises(MXNetError, match=r"head 1, shape \[2,3\]"):
        autograd.backward([y, nd.ones((2, 3))])
    y.backward()


def test_rules_may_leave_out_inputs() -> None:
    """The gradient of SequenceReverse calls an operator without its optional input."""
    x = nd.array([[1.0], [2.0], [3.0]])
    x.attach_grad()
    for _ in range(2):
        with autograd.record():
            y = nd.SequenceReverse(x) * nd.array([[1.0], [10.0], [100.0]])
        y.backward()
        assert x.grad.asnumpy().ravel().tolist() == [100.0, 10.0, 1.0]
