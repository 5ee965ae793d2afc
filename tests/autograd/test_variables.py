"""Variables and their gradient buffers: attach_grad, mark_variables, .grad, grad_req, detach."""

import copy
import pickle

import numpy as np
import pytest

from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError

from .arrays import NO_VARIABLES, NOT_RECORDED, values, variable

DTYPES = ["float16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool"]


# -- attach_grad


@pytest.mark.parametrize("dtype", DTYPES)
def test_attaching_gives_zeros_of_the_same_shape_and_dtype(dtype):
    x = nd.ones((2, 3), dtype=dtype)
    assert x.grad is None
    assert x.attach_grad() is None
    assert (x.grad.shape, x.grad.dtype) == ((2, 3), np.dtype(dtype).type)
    assert not x.grad.asnumpy().any()
    assert values(x) == [[1, 1, 1], [1, 1, 1]]


def test_the_buffer_lives_where_the_array_does():
    import phonograd as mx

    x = nd.ones((2,), ctx=mx.cpu(3))
    x.attach_grad()
    assert x.grad.context == mx.cpu(3)
    with autograd.record():
        y = x * 2
    y.backward()
    assert x.grad.context == mx.cpu(3)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (2, 0, 2)])
def test_arrays_without_axes_or_elements(shape):
    x = nd.array(np.ones(shape))
    x.attach_grad()
    with autograd.record():
        y = x * x * 3
    y.backward()
    assert (x.grad.shape, x.grad.dtype) == (shape, np.float32)
    np.testing.assert_array_equal(x.grad.asnumpy(), np.full(shape, 6))


@pytest.mark.parametrize("request_", ["writ", "", "WRITE", None, 1, True])
def test_unknown_requests(request_):
    x = nd.ones((1,))
    with pytest.raises(KeyError):
        x.attach_grad(request_)
    with pytest.raises(KeyError):
        autograd.mark_variables([x], [nd.ones((1,))], [request_])
    assert x.grad is None


def test_storage_types():
    x = nd.ones((1,), dtype="float64")
    x.attach_grad(stype="default")
    assert x.grad.dtype == np.float64
    x.attach_grad(stype="row_sparse")
    assert (x.grad.stype, x.grad.dtype) == ("row_sparse", np.float64)


def test_only_the_array_object_is_marked():
    x = variable([[1.0, 2.0], [3.0, 4.0]])
    for other in (
        x[0],
        x[0:2],
        x.reshape((4,)),
        x.copy(),
        x.detach(),
        x * 1,
        copy.copy(x),
        copy.deepcopy(x),
        pickle.loads(pickle.dumps(x)),
    ):
        assert other.grad is None
    with autograd.record():
        assert (x * 2).grad is None
        assert x[0].grad is None
    assert x[:] is x


def test_attaching_to_a_recorded_array_cuts_it_off():
    x = variable([1.0, 2.0])
    with autograd.record():
        y = x * 2
        y.attach_grad()
        z = y * 3
    z.backward()
    assert values(y.grad) == [3, 3]
    assert values(x.grad) == [0, 0]
    y.backward()
    assert values(y.grad) == [1, 1]
    assert values(x.grad) == [0, 0]


def test_attaching_outside_to_a_recorded_array_cuts_it_off():
    x = variable([1.0, 2.0])
    with autograd.record():
        y = x * x
    y.attach_grad()
    with autograd.record():
        z = y * 3
    z.backward()
    assert values(y.grad) == [3, 3]
    assert values(x.grad) == [0, 0]
    assert values(y) == [1, 4]


def test_what_was_recorded_before_attaching_keeps_its_way():
    x = variable([1.0, 2.0])
    with autograd.record():
        y = x * 2
        before = y * 5
        y.attach_grad()
        after = y * 7
    autograd.backward([before, after])
    assert values(x.grad) == [10, 10]
    assert values(y.grad) == [7, 7]


def test_attaching_again_gives_a_new_buffer():
    x = variable([1.0, 2.0])
    with autograd.record():
        y = x * 3
    old = x.grad
    x.attach_grad()
    assert values(x.grad) == [0, 0]
    y.backward()
    assert values(old) == [3, 3], "what was recorded before writes into the old buffer"
    assert values(x.grad) == [0, 0]
    with autograd.record():
        y = x * 4
    y.backward()
    assert values(old) == [3, 3]
    assert values(x.grad) == [4, 4]


def test_attaching_again_with_another_request():
    x = variable([1.0], "add")
    for expected in ([2], [4]):
        with autograd.record():
            y = x * 2
        y.backward()
        assert values(x.grad) == expected
    x.attach_grad("write")
    for _ in range(2):
        with autograd.record():
            y = x * 2
        y.backward()
        assert values(x.grad) == [2]


def test_attaching_while_recording_and_pending():
    with autograd.record():
        x = nd.ones((2,)) * 3
        x.attach_grad()
        y = x * x
    y.backward()
    assert values(x.grad) == [6, 6]
    assert values(x) == [3, 3]


# -- .grad


def test_grad_is_read_only_and_writable_in_place():
    x = variable([1.0])
    with pytest.raises(AttributeError):
        x.grad = nd.ones((1,))
    x.grad[:] = 5
    assert values(x.grad) == [5]
    kept = x.grad
    with autograd.record():
        y = x * 2
    y.backward()
    assert values(kept) == [2], "every backward writes into the same memory"
    kept[:] = 0
    assert values(x.grad) == [0]
    with autograd.record():
        x.grad[:] = 8
    assert values(kept) == [8]


def test_a_gradient_buffer_is_part_of_no_record():
    x = variable([3.0])
    with autograd.record():
        y = x * x
    y.backward()
    with autograd.record():
        z = x.grad * 2
        w = x.grad * x
    with pytest.raises(MXNetError, match="not in a computational graph"):
        z.backward()
    w.backward()
    assert values(x.grad) == [6]


def test_fresh_grad():
    x, z = variable([1.0]), variable([1.0])
    assert (x._fresh_grad, nd.ones((1,))._fresh_grad) == (0, 0)
    with autograd.record():
        y = x * 2
    autograd.grad(y, [x], retain_graph=True)
    assert x._fresh_grad == 0, "grad() writes no buffer"
    y.backward()
    assert (x._fresh_grad, z._fresh_grad) == (1, 0)
    with autograd.record():
        y = z * 2
    y.backward()
    assert (x._fresh_grad, z._fresh_grad) == (1, 1), "it is never reset by itself"
    x._fresh_grad = False
    assert x._fresh_grad == 0
    x._fresh_grad = True
    x.attach_grad()
    assert x._fresh_grad == 0


# -- requests


def test_write_overwrites_and_add_adds():
    written, added = variable([1.0], "write"), variable([1.0], "add")
    for step in (1, 2, 3):
        with autograd.record():
            y = written * step + added * step + written * added
        y.backward()
        assert values(written.grad) == [step + 1]
    assert values(added.grad) == [1 + 2 + 3 + 3]


def test_several_uses_are_summed_first():
    for request in ("write", "add"):
        x = variable([2.0], request)
        x.grad[:] = 100
        with autograd.record():
            y = x * x + x * 3 + x
        y.backward()
        assert values(x.grad) == ([8] if request == "write" else [108])


def test_a_variable_that_is_not_reached_keeps_its_gradient():
    x, z = variable([1.0]), variable([1.0])
    x.grad[:] = 7
    with autograd.record():
        _ = x * 5
        y = z * 2
    y.backward()
    assert values(x.grad) == [7]


@pytest.mark.parametrize(
    "block",
    [
        nd.BlockGrad,
        nd.stop_gradient,
        nd.zeros_like,
        nd.ones_like,
        nd.sign,
        nd.floor,
        lambda x: x > 0,
    ],
)
def test_a_gradient_of_zero_is_written(block):
    x = variable([1.5, 2.5])
    x.grad[:] = 7
    with autograd.record():
        y = block(x)
    y.backward()
    assert values(x.grad) == [0, 0]
    assert x._fresh_grad == 1
    added = variable([1.5, 2.5], "add")
    added.grad[:] = 7
    with autograd.record():
        y = block(added) * 2
    y.backward()
    assert values(added.grad) == [7, 7]


def test_null_is_a_constant_with_a_buffer():
    x, w = variable([2.0], "null"), variable([3.0])
    x.grad[:] = 9
    with autograd.record():
        y = x * w
    y.backward()
    assert values(w.grad) == [2]
    assert values(x.grad) == [9], "the buffer stays, and what is in it"
    assert x._fresh_grad == 0
    with autograd.record():
        y = x * 2
    with pytest.raises(MXNetError, match=NO_VARIABLES):
        y.backward()
    with pytest.raises(MXNetError, match=NO_VARIABLES):
        x.backward()
    with autograd.record():
        y = x * w
    with pytest.raises(MXNetError, match="the 2-th variable because it does not require gradient"):
        autograd.grad(y, [w, x])


def test_an_update_in_place_keeps_the_variable():
    x = variable([1.0, 2.0])
    for _ in range(3):
        with autograd.record():
            y = x * x
        y.backward()
        before = x.asnumpy()
        np.testing.assert_allclose(x.grad.asnumpy(), 2 * before)
        x -= 0.1 * x.grad
        np.testing.assert_allclose(x.asnumpy(), before * 0.8, rtol=1e-6)
        x[:] = x - 0.1 * x.grad
    assert x.grad is not None
    x = x - 0.1 * x.grad
    assert x.grad is None


# -- detach


def test_detach_shares_memory_and_leaves_the_record():
    x = variable([1.0, 2.0])
    with autograd.record():
        y = x * x
        plain = y.detach()
        z = plain * x
    z.backward()
    assert values(x.grad) == [1, 4]
    assert plain.grad is None
    plain[:] = 7
    assert values(y) == [7, 7]
    constant = nd.array([1.0])
    other = constant.detach()
    other += 1
    assert values(constant) == [2]
    with autograd.record():
        z = other * 2
    with pytest.raises(MXNetError, match="not in a computational graph"):
        z.backward()


def test_a_detached_variable_is_no_variable():
    x = variable([3.0])
    plain = x.detach()
    with autograd.record():
        y = plain * x
    y.backward()
    assert values(x.grad) == [3]
    assert plain.grad is None
    plain.attach_grad()
    with autograd.record():
        y = plain * x
    y.backward()
    assert (values(x.grad), values(plain.grad)) == ([3], [3])


# -- mark_variables


def test_marking_one_and_several():
    x, gx = nd.array([1.0]), nd.array([9.0])
    assert autograd.mark_variables(x, gx) is None
    assert values(x.grad) == [9], "initial contents are kept"
    y, z, gy, gz = nd.array([2.0]), nd.array([3.0]), nd.array([1.0]), nd.array([1.0])
    autograd.mark_variables((y, z), [gy, gz], ["add", "write"])
    with autograd.record():
        out = x * y * z
    out.backward()
    assert [values(g) for g in (gx, gy, gz)] == [[6], [4], [2]]
    assert [values(g.grad) for g in (x, y, z)] == [[6], [4], [2]]
    autograd.mark_variables([], [])
    autograd.mark_variables([], [], [])


def test_a_buffer_may_be_a_view():
    x, y, big = nd.array([1.0, 2.0]), nd.array([3.0, 4.0]), nd.array(np.full((3, 2), 9.0))
    autograd.mark_variables([x, y], [big[0], big[1]])
    with autograd.record():
        out = x * y
    out.backward()
    assert values(big) == [[3, 4], [1, 2], [9, 9]]
    big[:] = 0
    assert values(x.grad) == [0, 0]
    with autograd.record():
        out = x * y * 2
    out.backward()
    assert values(big) == [[6, 8], [2, 4], [0, 0]]
    assert values(x.grad) == [6, 8]


def test_a_buffer_that_overlaps_another_one():
    x, y, big = nd.array([1.0, 2.0]), nd.array([3.0, 4.0]), nd.zeros((3,))
    autograd.mark_variables([x, y], [big[0:2], big[1:3]], "add")
    with autograd.record():
        out = x * y
    out.backward()
    assert values(big) == [3, 4 + 1, 2]


def test_one_buffer_for_two_variables():
    for request, expected in (("write", ([2], [3])), ("add", ([5], [5]))):
        x, y, shared = nd.array([2.0]), nd.array([3.0]), nd.zeros((1,))
        autograd.mark_variables([x, y], [shared, shared], request)
        with autograd.record():
            out = x * y
        out.backward()
        assert values(shared) in expected


def test_marking_with_the_buffer_of_another_variable():
    x, y = variable([2.0]), nd.array([3.0])
    autograd.mark_variables(y, x.grad, "add")
    with autograd.record():
        out = y * 5
    out.backward()
    assert values(x.grad) == [5]


@pytest.mark.parametrize(
    "variables, gradients, requests",
    [
        (2, 1, "write"),
        (1, 2, "write"),
        (2, 2, ["write"]),
        (1, 1, ["write", "add"]),
    ],
)
def test_lists_of_different_lengths(variables, gradients, requests):
    arrays = [nd.ones((1,)) for _ in range(variables)]
    with pytest.raises(ValueError, match="as many gradients and grad_reqs as variables"):
        autograd.mark_variables(arrays, [nd.ones((1,)) for _ in range(gradients)], requests)
    assert all(array.grad is None for array in arrays)


def test_wrong_buffers():
    x = nd.ones((3,))
    for wrong in (nd.ones((2,)), nd.ones((3, 1)), nd.ones((3,), dtype="float64")):
        with pytest.raises(ValueError, match="must have its shape and dtype"):
            autograd.mark_variables([x], [wrong])
    with pytest.raises(ValueError, match="its own gradient buffer"):
        autograd.mark_variables([x], [x])
    with pytest.raises(AssertionError):
        autograd.mark_variables(x, np.ones(3))
    with pytest.raises(AssertionError):
        autograd.mark_variables(x, [nd.ones((3,))])
    with pytest.raises(TypeError):
        autograd.mark_variables([x], nd.ones((1, 3)))
    with pytest.raises(TypeError):
        autograd.mark_variables([x], [np.ones(3)])
    with pytest.raises(TypeError):
        autograd.mark_variables([3], [x])
    assert x.grad is None


def test_nothing_is_marked_when_one_is_wrong():
    x, y = nd.ones((2,)), nd.ones((2,))
    with pytest.raises(ValueError):
        autograd.mark_variables([x, y], [nd.ones((2,)), nd.ones((3,))])
    assert x.grad is None


def test_marking_cuts_off_and_marks_again():
    x = variable([2.0])
    with autograd.record():
        y = x * 3
        buffer = nd.zeros((1,))
        autograd.mark_variables(y, buffer)
        z = y * y
    z.backward()
    assert values(buffer) == [12]
    assert values(x.grad) == [0]
    other = nd.zeros((1,))
    autograd.mark_variables(x, other)
    with autograd.record():
        z = x * 5
    z.backward()
    assert values(other) == [5]


def test_a_deleted_variable_does_no_harm():
    x, w = variable([2.0]), variable([3.0])
    with autograd.record():
        y = x * w
    buffer = x.grad
    del x
    y.backward()
    assert values(buffer) == [3]
    assert values(w.grad) == [2]


def test_plain_arrays_are_not_recorded():
    a = nd.ones((2,))
    with autograd.record():
        b = a * 2
        c = nd.zeros((2,)) + nd.random.uniform(shape=(2,))
    for head in (a, b, c, nd.zeros((2,))):
        with pytest.raises(MXNetError) as error:
            head.backward()
        assert str(error.value).startswith(NOT_RECORDED)


# -- memory shared with NumPy


def test_a_variable_on_memory_of_numpy():
    memory = np.array([1.0, 2.0], dtype="float32")
    x = nd.from_numpy(memory)
    x.attach_grad()
    with autograd.record():
        y = x * x
    y.backward()
    assert values(x.grad) == [2, 4]
    x.backward()
    assert values(x.grad) == [1, 1]
    assert autograd.get_symbol(x).list_arguments() == autograd.get_symbol(x).list_outputs()


def test_a_variable_and_a_buffer_on_memory_that_numpy_writes_to():
    x, buffer = nd.array([1.0, 2.0]), nd.zeros((2,))
    seen, seen_buffer = np.from_dlpack(x), np.from_dlpack(buffer)
    if not seen.flags.writeable:
        pytest.skip("this NumPy imports memory read-only")
    autograd.mark_variables(x, buffer)
    with autograd.record():
        y, z = x * x, nd.exp(x)
    seen[:] = 100
    y.backward()
    assert seen_buffer.tolist() == [2, 4]
    z.backward()
    np.testing.assert_allclose(seen_buffer, np.exp([1.0, 2.0]), rtol=1e-6)
    with autograd.record():
        y = x * x
    y.backward()
    assert seen_buffer.tolist() == values(x.grad) == [200, 200]


def test_a_function_that_returns_memory_of_numpy():
    class Foreign(autograd.Function):
        def forward(self, x):
            return nd.from_numpy(np.square(x.asnumpy()))

        def backward(self, dy):
            return dy * 5

    x = variable([3.0])
    with autograd.record():
        y = Foreign()(x)
    (y * 1).wait_to_read()
    with autograd.record():
        z = y * y
    z.backward()
    assert values(x.grad) == [2 * 9 * 5]
