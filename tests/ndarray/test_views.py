"""Views: which selections share memory, what each side sees of the other's changes, and how gradients pass."""

import gc
import weakref

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError

SHARING = {
    "x[0]": True,
    "x[-1]": True,
    "x[0:1]": True,
    "x[1:]": True,
    "x[0:2]": True,
    "x[...]": True,
    "x[None]": True,
    "x[0, 1]": True,
    "x[0, 1:3]": True,
    "x[0:1, 1:3]": True,
    "x[0][1:]": True,
    "x[1, 2][0]": True,
    "x.reshape((3, 2))": True,
    "x.reshape(-1)": True,
    "x.reshape((2, 3))": True,
    "x.reshape((3, 2))[1]": True,
    "x.detach()": True,
    "x.flatten(inplace=True)": True,
    "x.expand_dims(0, inplace=True)": True,
    "x.reshape((1, 2, 3)).squeeze(inplace=True)": True,
    "x[:]": True,
    "x[()]": True,
    "x.astype('float32', copy=False)": True,
    "x.as_in_context(mx.cpu())": True,
    "x[:, 0]": False,
    "x[::-1]": False,
    "x[:, 0:2]": False,
    "x[[0]]": False,
    "x[np.array([0])]": False,
    "x[nd.array([0])]": False,
    "x.T": False,
    "x.copy()": False,
    "x.astype('float32')": False,
    "x.flatten()": False,
    "x.expand_dims(0)": False,
    "nd.reshape(x, shape=(3, 2))": False,
    "x.slice_axis(axis=0, begin=0, end=1)": False,
    "nd.slice(x, begin=(0,), end=(1,))": False,
    "x.as_in_context(mx.cpu(1))": False,
    "x.broadcast_to((2, 3))": False,
    "nd.identity(x)": False,
    "nd.stop_gradient(x)": False,
    "nd.array(x)": False,
}


@pytest.mark.parametrize("expression", SHARING)
@pytest.mark.parametrize("recording", [False, True])
@pytest.mark.parametrize("pending", [False, True])
def test_which_selections_share_memory(expression, recording, pending):
    def both_ways(x):
        names = {"x": x, "nd": nd, "np": np, "mx": mx}
        with autograd.record() if recording else autograd.pause():
            part = eval(expression, names)
        part[:] = 100
        seen_by_base = bool((x.asnumpy() == 100).any())
        x[:] = 200
        seen_by_part = bool((part.asnumpy() == 200).all())
        return seen_by_base, seen_by_part

    x = nd.array(np.arange(6.0).reshape(2, 3))
    assert both_ways(x + 0 if pending else x) == (SHARING[expression],) * 2


def test_whole_array_is_the_same_object():
    x = nd.ones((2, 3))
    assert x[:] is x
    assert x[()] is x
    assert x[::1] is x
    assert x[0:2] is not x


class TestChanges:
    def test_siblings_and_nested_views(self):
        x = nd.zeros((4, 3))
        top, rest = x[0:2], x[1:4]
        row = top[1]
        element = row[2]
        element[:] = 7
        assert (rest[0].asnumpy().tolist(), x.asnumpy().sum()) == ([0, 0, 7], 7)
        rest[:] = 1
        assert (row.asnumpy().tolist(), element.asscalar()) == ([1, 1, 1], 1)
        assert top.asnumpy().tolist() == [[0, 0, 0], [1, 1, 1]]
        x += 1
        assert element.asscalar() == 2

    @pytest.mark.parametrize("look", [False, True])
    def test_looking_does_not_matter(self, look):
        x = nd.zeros((3,))
        first, last = x[0:2], x[1:3]
        for number in range(1, 4):
            first += number
            if look:
                first.asnumpy()
                repr(last)
            last *= 2
            if look:
                x.asnumpy()
        assert x.asnumpy().tolist() == [6, 22, 0]
        assert (first.asnumpy().tolist(), last.asnumpy().tolist()) == ([6, 22], [22, 0])

    @pytest.mark.parametrize(
        ("start", "shape"), [(3, (5,)), (5, (5,)), (3, (2, 5)), (5, (2, 5)), (7, (1, 5)), (15, (1, 5))]
    )
    def test_pieces_that_begin_anywhere_are_read_again(self, start, shape):
        x = nd.array(np.arange(20.0).reshape(4, 5))
        piece = x.reshape((20,))[start : start + int(np.prod(shape))].reshape(shape)
        x[:] = x + 100
        x.wait_to_read()
        found = np.arange(start, start + int(np.prod(shape))).reshape(shape) + 100
        assert np.array_equal(piece.asnumpy(), found)

    def test_view_outlives_the_name_of_its_base(self):
        x = nd.arange(6)
        row = x[2:4]
        del x
        gc.collect()
        row += 1
        assert row.asnumpy().tolist() == [3, 4]

    def test_dead_views_are_forgotten(self):
        x = nd.array(np.zeros((100, 2)))
        for _ in range(3):
            for number in range(100):
                x[number]
        assert len(x._views) <= 32
        view = weakref.ref(x[0])
        gc.collect()
        assert view() is None

    def test_many_living_views(self):
        x = nd.zeros((5000, 1))
        rows = list(x)
        x += 1
        assert sum(row.asscalar() for row in rows[::500]) == 10
        rows[17][:] = 5
        assert x[17].asscalar() == 5

    def test_failed_write_through_a_view(self):
        x = nd.zeros((2, 3))
        row = x[0]
        for wrong in (lambda: row.__iadd__(nd.ones((2,))), lambda: row.__setitem__(slice(None), np.ones(2))):
            with pytest.raises((MXNetError, ValueError)):
                wrong()
        assert not x.asnumpy().any()
        row += 1
        assert x.asnumpy().sum() == 3

    def test_out_and_copyto_write_through(self):
        x = nd.zeros((2, 3))
        nd.exp(nd.zeros((3,)), out=x[1])
        nd.full((3,), 5).copyto(x[0])
        assert x.asnumpy().tolist() == [[5, 5, 5], [1, 1, 1]]

    def test_views_of_computed_strided_memory(self):
        x = nd.array(np.arange(6.0).reshape(2, 3)).T
        x.asnumpy()
        row = x[1]
        assert row.asnumpy().tolist() == [1, 4]
        row[:] = 9
        assert x.asnumpy().tolist() == [[0, 3], [9, 9], [2, 5]]

    def test_reading_a_view_of_a_pending_array(self):
        x = nd.zeros((2, 2)) + 1
        row = x[1]
        x *= 3
        assert row.asnumpy().tolist() == [3, 3]


class TestGradients:
    def test_view_made_while_recording_is_part_of_the_record(self):
        x = nd.array([1.0, 2.0, 3.0])
        x.attach_grad()
        with autograd.record():
            y = x[1:] * 2 + x.reshape((3, 1))[0]
        y.backward()
        assert x.grad.asnumpy().tolist() == [2, 2, 2]

    def test_view_made_before_is_a_constant(self):
        x = nd.array([1.0, 2.0, 3.0])
        x.attach_grad()
        part = x[1:]
        with autograd.record():
            y = part * 2
            with pytest.raises(MXNetError, match="not in a computational graph"):
                y.backward()
            z = part * x[1:]
        z.backward()
        assert x.grad.asnumpy().tolist() == [0, 2, 3]

    def test_constant_view_written_while_recording_joins_the_record(self):
        x, w = nd.zeros((4,)), nd.array([1.0, 2.0])
        w.attach_grad()
        part = x[1:3]
        with autograd.record():
            part[:] = w * w
            x[0] = 1
            y = part * 10
        y.backward()
        assert w.grad.asnumpy().tolist() == [20, 40]

    def test_write_through_a_view_reaches_the_base(self):
        w = nd.array([1.0, 2.0])
        w.attach_grad()
        x = nd.zeros((2, 2))
        with autograd.record():
            row = x[1]
            row += w
            row *= w
            y = x * nd.array([[1, 1], [1, 10]])
        y.backward()
        assert w.grad.asnumpy().tolist() == [2, 40]

    def test_write_to_the_base_reaches_the_view(self):
        w = nd.array([3.0])
        w.attach_grad()
        x = nd.zeros((3,))
        with autograd.record():
            part = x[0:2]
            x[1] = w * w
            y = part * part
        y.backward()
        assert w.grad.asscalar() == 4 * 27

    @pytest.mark.parametrize("look", [False, True])
    def test_linked_view_of_a_variable_after_an_update(self, look):
        x = nd.array([1.0, 2.0, 3.0])
        x.attach_grad()
        with autograd.record():
            part = x[1:]
        x += 1
        if look:
            x.asnumpy()
            part.asnumpy()
        with autograd.record():
            y = part * part
        y.backward()
        assert x.grad.asnumpy().tolist() == [0, 6, 8]

    def test_view_is_a_constant_after_backward(self):
        x = nd.array([1.0, 2.0, 3.0])
        x.attach_grad()
        with autograd.record():
            part = x[1:]
            y = part * part
        y.backward()
        x += 1
        with pytest.raises(MXNetError, match="not in a computational graph"):
            part.backward()
        with autograd.record():
            z = part * x[1:]
        z.backward()
        assert x.grad.asnumpy().tolist() == [0, 3, 4]

    def test_view_of_a_constant_view_stays_a_constant(self):
        x = nd.array([1.0, 2.0, 3.0])
        x.attach_grad()
        part = x[0:2]
        with autograd.record():
            inner = part[0:1]
            x[2] = 5
            y = inner * x[0:1]
        y.backward()
        assert x.grad.asnumpy().tolist() == [1, 0, 0]

    def test_view_as_a_variable(self):
        x = nd.array([1.0, 2.0, 3.0])
        part = x[1:]
        part.attach_grad()
        with autograd.record():
            inner = part[0:1]
            y = (part * part).sum() + inner * 10
        y.backward()
        assert part.grad.asnumpy().tolist() == [14, 6]
        assert x.grad is None
        part -= part.grad
        assert x.asnumpy().tolist() == [1, -12, -3]
        with autograd.record():
            y = part * 2
        y.backward()
        assert part.grad.asnumpy().tolist() == [2, 2]

    def test_view_of_a_variable_view_follows_it(self):
        x = nd.array([1.0, 2.0, 3.0])
        part = x[1:]
        part.attach_grad()
        with autograd.record():
            inner = part[1:]
        part += 1
        with autograd.record():
            y = inner * inner
        y.backward()
        assert part.grad.asnumpy().tolist() == [0, 8]

    def test_write_to_the_base_keeps_a_variable_view(self):
        x = nd.zeros((3,))
        part = x[1:]
        part.attach_grad()
        x[:] = nd.array([1, 2, 3])
        with autograd.record():
            y = part * part
        y.backward()
        assert part.grad.asnumpy().tolist() == [4, 6]

    def test_gradient_buffers_that_are_views(self):
        x, buffer = nd.array([1.0, 2.0]), nd.zeros((2, 2))
        autograd.mark_variables(x, buffer[1], "add")
        for _ in range(2):
            with autograd.record():
                y = x * x
            y.backward()
        assert buffer.asnumpy().tolist() == [[0, 0], [4, 8]]

    def test_detached_array_shares_memory_but_no_record(self):
        x = nd.array([2.0])
        x.attach_grad()
        with autograd.record():
            y = x * x
            free = y.detach()
            z = y * free
        assert free.grad is None
        z.backward()
        assert x.grad.asscalar() == 16
        free[:] = 1
        assert y.asscalar() == 1
        assert nd.ones((2,)).detach().asnumpy().tolist() == [1, 1]

    def test_array_overwritten_with_its_own_detached_value_is_cut(self):
        x = nd.array([2.0, 3.0])
        x.attach_grad()
        with autograd.record():
            y = x * x
            y[0:1] = y.detach()[0:1]
            z = y * x
        z.backward()
        assert x.grad.asnumpy().tolist() == [4, 27]

    def test_views_recorded_in_an_earlier_trace(self):
        x = nd.array([1.0, 2.0])
        x.attach_grad()
        with autograd.record():
            y = x * x
            part = y[1:]
        part.asnumpy()
        with autograd.record():
            z = part * 3
        z.backward()
        assert x.grad.asnumpy().tolist() == [0, 12]


class TestViewsThatHaveToLookAgain:
    """A view is told once that its base has changed, and looks again when it is used."""

    def test_many_changes(self):
        x = nd.zeros((40, 3))
        views = [x[row] for row in range(40)]
        for turn in range(100):
            x[turn % 40] = turn
        assert [view.asnumpy()[0] for view in views] == [*range(80, 100), *range(60, 80)]

    def test_references_do_not_pile_up(self):
        x = nd.zeros((4, 3))
        view = x[1]
        for turn in range(1000):
            x[1] = turn
            assert view.asnumpy()[0] == turn
        assert len(x._extras.told) < 40

    def test_those_who_have_not_looked_yet_see_shared_memory(self):
        x = nd.zeros((4, 3))
        view, other = x[1], x[2]
        x[:] = 1
        assert other.asnumpy()[0] == 1
        memory = np.from_dlpack(x)
        if not memory.flags.writeable:
            pytest.skip("this NumPy imports memory read-only")
        view[:] = 5
        memory[2] = 7
        assert (view.asnumpy()[0], memory[1, 0], other.asnumpy()[0], x.asnumpy()[2, 0]) == (5, 5, 7, 7)

    def test_on_another_context(self):
        x = nd.zeros((4, 3), ctx=mx.cpu(1))
        view = x[1]
        assert (view + 1).context == mx.cpu(1)
        x[:] = 2
        assert view.context == mx.cpu(1)
        view.wait_to_read()
        assert (view + view).context == mx.cpu(1)
