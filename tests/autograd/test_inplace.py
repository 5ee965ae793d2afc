"""In-place changes, out= and views while recording: legal, differentiated, and the forward values are kept."""

import numpy as np
import pytest

from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError

from .arrays import NOT_RECORDED, close, values, variable


@pytest.mark.parametrize(
    "change, slope",
    [
        (lambda y, x: y.__iadd__(x), 3),
        (lambda y, x: y.__isub__(x), 1),
        (lambda y, x: y.__imul__(x), 12),
        (lambda y, x: y.__itruediv__(x), 0),
        (lambda y, x: y.__imul__(5), 10),
        (lambda y, x: y.__setitem__(slice(None), x * x), 6),
        (lambda y, x: y.__setitem__(slice(None), 4), 0),
        (lambda y, x: y.__setitem__(0, x[0] * 7), 7),
        (lambda y, x: y.__setitem__([0], x * 7), 7),
        (lambda y, x: nd.square(x, out=y), 6),
        (lambda y, x: nd.broadcast_mul(x, y, out=y), 12),
        (lambda y, x: x.copyto(y), 1),
        (lambda y, x: y[0:1].__imul__(x), 12),
        (lambda y, x: y.reshape((1, 1)).__imul__(3), 6),
    ],
)
def test_every_kind_of_change_of_an_intermediate(change, slope):
    x = variable([3.0])
    with autograd.record():
        y = x * 2
        change(y, x)
        z = y + x * 0
    z.backward()
    assert values(x.grad) == [slope]


def test_the_array_before_the_change_stays_in_what_used_it():
    x = variable([3.0])
    with autograd.record():
        y = x * x
        z = nd.exp(y * 0.1) + y * y
        y += 100
        w = y * 2
    (z + 0).wait_to_read()
    autograd.backward([z, w])
    close(x.grad, [6 * 0.1 * np.exp(0.9) + 4 * 27 + 12])


def test_changing_a_variable_while_recording():
    x = variable([3.0, 4.0])
    with autograd.record():
        y = x * x
        x *= 2
        z = x * x
    assert values(x) == [6, 8]
    autograd.backward([y, z])
    assert values(x.grad) == [6 + 8 * 3, 8 + 8 * 4]
    with autograd.record():
        y = x * x
    y.backward()
    assert values(x.grad) == [12, 16], "after the record was cleared it is a variable with the new value"


def test_overwriting_a_variable_while_recording():
    x, w = variable([3.0]), variable([5.0])
    with autograd.record():
        before = x * 10
        x[:] = w * 2
        after = x * x
    autograd.backward([before, after])
    assert values(x.grad) == [10]
    assert values(w.grad) == [2 * 10 * 2]
    assert values(x) == [10]
    with autograd.record():
        w[:] = x
        y = w * 7
    y.backward()
    assert values(x.grad) == [7]


def test_overwriting_a_variable_with_another_in_an_earlier_record():
    x, w = variable([3.0]), variable([5.0])
    with autograd.record():
        x[:] = w
    x.wait_to_read()
    with autograd.record():
        y = x * x
    y.backward()
    assert values(w.grad) == [10]
    assert values(x.grad) == [0]


def test_changing_a_variable_outside_between_forward_and_backward():
    x = variable([1.0, 2.0])
    for read_first in (False, True):
        x[:] = nd.array([1.0, 2.0])
        with autograd.record():
            y = nd.exp(x) * x
        if read_first:
            y.wait_to_read()
        x -= 100
        x[0] = 7
        y.backward()
        point = np.array([1.0, 2.0])
        close(x.grad, np.exp(point) * (1 + point))
        assert values(x) == [7, -98]


def test_changing_a_constant_between_forward_and_backward():
    x, constant = variable([2.0]), nd.array([5.0])
    with autograd.record():
        y = x * constant
    constant[:] = 100
    y.backward()
    assert values(x.grad) == [5]


def test_changing_a_recorded_array_outside_keeps_its_record():
    x = variable([2.0])
    for change in (
        lambda y: y.__setitem__(slice(None), 100),
        lambda y: y.__imul__(0),
        lambda y: y.detach().__setitem__(0, 3),
    ):
        with autograd.record():
            y = nd.exp(x)
            z = y * y
        change(y)
        y.backward(retain_graph=True)
        close(x.grad, np.exp([2.0]))
        z.backward()
        close(x.grad, 2 * np.exp([4.0]))


def test_a_fresh_array_filled_while_recording():
    x = variable([1.0, 2.0, 3.0])
    with autograd.record():
        y = nd.zeros((2, 3))
        y[0] = x * 2
        y[1, 1:3] = x[0:2] * x[1:3]
        y += x
        z = (y * nd.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).sum()
    z.backward()
    assert values(y) == [[3, 6, 9], [1, 4, 9]]
    assert values(x.grad) == [2 + 10 + 1 + 4, 4 + 5 + 18 + 2 + 5, 6 + 12 + 3 + 6]


def test_out_equal_to_an_input():
    x = variable([4.0])
    with autograd.record():
        y = x * 1
        nd.sqrt(y, out=y)
        nd.square(y, out=y)
        nd.broadcast_add(y, y, out=y)
    assert values(y) == [8]
    y.backward()
    close(x.grad, [2.0])


def test_out_of_the_wrong_kind_changes_nothing():
    x = variable([4.0])
    with autograd.record():
        y = x * 1
        with pytest.raises(MXNetError):
            nd.square(nd.ones((2,)), out=y)
        with pytest.raises(MXNetError):
            y += nd.ones((2, 2))
        with pytest.raises(MXNetError):
            y += nd.ones((1,), dtype="float64")
    y.backward()
    assert values(x.grad) == [1]
    assert values(y) == [4]


def test_writing_through_views_of_views():
    x = variable(np.arange(12.0).reshape((3, 4)))
    with autograd.record():
        y = x * 1
        rows = y[1:3]
        flat = rows.reshape((8,))
        flat[2:4] *= 10
        y[2] = rows[0] * 2
        z = (y * y).sum()
    z.backward()
    value = np.arange(12.0).reshape((3, 4))
    scale = np.ones((3, 4))
    scale[1, 2:] = 10
    expected = 2 * value * scale**2
    expected[1] = 2 * value[1] * scale[1] ** 2 + 8 * value[1] * scale[1] ** 2
    expected[2] = 0
    close(x.grad, expected)
    changed = value * scale
    changed[2] = 2 * changed[1]
    close(y, changed)
    close(rows, changed[1:3])
    close(flat, changed[1:3].reshape(-1))


def test_a_view_of_a_variable_written_while_recording():
    x = variable([1.0, 2.0, 3.0])
    with autograd.record():
        x[0:2] *= 5
        y = x * x
    assert values(x) == [5, 10, 3]
    y.backward()
    assert values(x.grad) == [50, 100, 6]


def test_a_view_of_a_variable_written_outside():
    x = variable([1.0, 2.0, 3.0])
    view = x[0:2]
    view *= 5
    assert values(x) == [5, 10, 3]
    with autograd.record():
        y = x * x
    y.backward()
    assert values(x.grad) == [10, 20, 6]


def test_a_view_follows_its_base_into_the_record():
    x = variable([1.0, 2.0])
    base = nd.zeros((4,))
    with autograd.record():
        view = base[1:3]
        base[:] = nd.concat(x, x * 10, dim=0)
        y = view * 3
    y.backward()
    assert values(view) == [2, 10]
    assert values(x.grad) == [30, 3]


def test_swapping_in_place():
    x, w = variable([2.0]), variable([3.0])
    with autograd.record():
        a, b = x * 1, w * 1
        keep = a * 1
        a[:] = b
        b[:] = keep
        y = a * a + b * 5
    y.backward()
    assert (values(x.grad), values(w.grad)) == ([5], [6])


def test_a_loop_that_fills_a_table():
    x = variable([0.5])
    with autograd.record():
        table = nd.zeros((6,))
        table[0] = x
        for index in range(1, 6):
            table[index : index + 1] = table[index - 1 : index] * 2 + x
        y = table.sum()
    assert values(table) == [0.5, 1.5, 3.5, 7.5, 15.5, 31.5]
    y.backward()
    assert values(x.grad) == [1 + 3 + 7 + 15 + 31 + 63]


def test_accumulating_a_loss_in_place():
    x = variable([2.0])
    with autograd.record():
        loss = nd.zeros((1,))
        for power in range(1, 5):
            loss += x**power
    loss.backward()
    assert values(x.grad) == [1 + 4 + 12 + 32]
    with pytest.raises(MXNetError) as error:
        loss.backward()
    assert str(error.value).startswith(NOT_RECORDED)


def test_accumulating_over_several_records():
    x = variable([2.0])
    total = nd.zeros((1,))
    for power in range(1, 4):
        with autograd.record():
            total += x**power
        if power == 2:
            assert values(total) == [6]
    total.backward()
    assert values(x.grad) == [1 + 4 + 12]


def test_a_gradient_buffer_changed_while_its_gradient_is_pending():
    x = variable([2.0, 3.0])
    with autograd.record():
        y = x * x
    y.backward()
    gradient = x.grad
    gradient *= 10
    x.grad[0] = 1
    assert values(x.grad) == [1, 60]
    x -= x.grad
    assert values(x) == [1, -57]


def test_a_gradient_buffer_that_is_a_piece_of_its_variable():
    x = nd.array([1.0, 2.0, 3.0, 4.0])
    part, buffer = x[0:2], x[2:4]
    autograd.mark_variables(part, buffer)
    with autograd.record():
        y = part * part * 5
    y.backward()
    assert values(x) == [1, 2, 10, 20]
