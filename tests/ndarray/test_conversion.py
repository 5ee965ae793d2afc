"""Arrays as Python and NumPy values: copies, numbers, truth, length, iteration."""

import copy
import pickle

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd

DTYPES = ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_asnumpy_is_an_independent_contiguous_copy(dtype):
    for x in (
        nd.array([[0, 1], [1, 1]], dtype=dtype),
        nd.ones((2, 2), dtype=dtype).T,
        nd.ones((2, 2), dtype=dtype)[:, 0],
    ):
        values = x.asnumpy()
        assert values.dtype == np.dtype(dtype)
        assert values.flags.c_contiguous
        assert values.flags.writeable
        assert values.flags.owndata
        before = x.asnumpy()
        values[...] = 0
        np.testing.assert_array_equal(x.asnumpy(), before)


def test_asscalar():
    for x, kind in (
        (nd.array([2.5]), np.float32),
        (nd.array([3], dtype="int32"), np.int32),
        (nd.array(2.5), np.float32),
    ):
        assert type(x.asscalar()) is kind
    assert nd.array([[2.5]]).asscalar().shape == (1, 1)
    for wrong in (nd.ones((2,)), nd.zeros((0,))):
        with pytest.raises(ValueError, match="The current array is not a scalar"):
            wrong.asscalar()


def test_item_and_tolist():
    assert type(nd.array([[2.5]]).item()) is float
    assert type(nd.array([2], dtype="int8").item()) is int
    assert nd.array([[1, 2], [3, 4]], dtype="int32").tolist() == [[1, 2], [3, 4]]
    assert nd.array(1.5).tolist() == 1.5


def test_numbers():
    assert (float(nd.array([2.5])), int(nd.array([2.9])), complex(nd.array([[1.5]]))) == (2.5, 2, 1.5 + 0j)
    assert [10, 20, 30][nd.array([1], dtype="int32")] == 20
    for wrong in (lambda: float(nd.ones((2,))), lambda: int(nd.zeros((0,))), lambda: [1, 2][nd.array([1.0])]):
        with pytest.raises(TypeError):
            wrong()


def test_truth():
    assert not nd.array([])
    assert not nd.zeros((0, 3))
    assert nd.array([0.5])
    assert not nd.array([[0.0]])
    assert nd.array(2.0)
    assert nd.array([float("nan")])
    with pytest.raises(ValueError, match=r"The truth value of an NDArray with multiple elements is ambiguous\."):
        bool(nd.ones((2,)))


def test_length_and_iteration():
    x = nd.array([[1.0, 2.0], [3.0, 4.0]])
    assert len(x) == 2
    assert [row.asnumpy().tolist() for row in x] == [[1, 2], [3, 4]]
    assert [element.shape for element in nd.ones((3,))] == [(1,)] * 3
    assert [row.shape for row in reversed(x)] == [(2,), (2,)]
    assert list(nd.zeros((0, 2))) == []
    first, _ = x
    first[:] = 9
    assert x.asnumpy()[0].tolist() == [9, 9]
    for wrong in (lambda: len(nd.array(1.0)), lambda: list(nd.array(1.0))):
        with pytest.raises(TypeError, match="without axes"):
            wrong()


def test_builtins():
    v = nd.array([2.0, 3.0, 1.0])
    assert (sum(v).asscalar(), max(v).asscalar(), min(v).asscalar()) == (6, 3, 1)
    assert [x.asscalar() for x in sorted(v)] == [1, 2, 3]
    assert 3 in v
    assert 7 not in v
    assert abs(nd.array([-2.0])).asscalar() == 2


def test_iteration_is_recorded():
    x = nd.array([1.0, 2.0, 3.0])
    x.attach_grad()
    with autograd.record():
        total = sum(element * (index + 1) for index, element in enumerate(x))
    total.backward()
    assert x.grad.asnumpy().tolist() == [1, 2, 3]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_copies_are_independent_and_unrecorded(duplicate):
    x = nd.array([1.0, 2.0], ctx=mx.cpu(1))
    x.attach_grad()
    with autograd.record():
        y = duplicate(x)
        z = x * y
    z.backward()
    y[:] = 9
    assert y.grad is None
    assert y.context == mx.cpu(1)
    assert x.asnumpy().tolist() == [1, 2]
    assert x.grad.asnumpy().tolist() == [1, 2]


def test_deepcopy_of_structures():
    x = nd.ones((2,))
    twice = copy.deepcopy({"a": [x], "b": x})
    x[:] = 0
    assert twice["a"][0].asnumpy().tolist() == [1, 1]


def test_waiting():
    x = nd.ones((2,)) + 1
    assert x.wait_to_read() is None
    assert x._buffer is not None
    y = x + 1
    assert nd.waitall() is None
    assert y._buffer is not None


def test_facts_need_no_evaluation():
    x = nd.array([7])[nd.array([9])].reshape((1, 1)) + 1
    assert (x.shape, x.ndim, x.size, x.dtype, x.stype, x.context, len(x)) == (
        (1, 1), 2, 1, np.float32, "default", mx.cpu(), 1,
    )  # fmt: skip


def test_dtype_is_the_numpy_type():
    x = nd.ones((1,))
    assert x.dtype is np.float32
    assert x.dtype != "float32"
    assert np.dtype(x.dtype).name == "float32"


def test_a_numpy_array_of_one_element_is_a_number():
    """What every script does with the mean of a loss; NumPy refuses it from 2.4 on."""
    values = mx.nd.array([1.0, 2.0]).mean().asnumpy()
    assert isinstance(values, np.ndarray)
    assert values.shape == (1,)
    assert "%.1f %d" % (values, values) == "1.5 1"  # noqa: UP031 - this is what is tested
    assert (float(values), int(values), complex(values)) == (1.5, 1, 1.5)
    assert repr(values) == "array([1.5], dtype=float32)"
    assert type(mx.nd.ones((2,)).asnumpy()) is np.ndarray
    with pytest.raises(TypeError, match="one element"):
        float(np.concatenate([values, values]).view(type(values)))


def test_a_pickle_of_one_element_is_plain_numpy():
    values = nd.array([2.5]).asnumpy()
    assert float(values) == 2.5
    assert type(pickle.loads(pickle.dumps(values))) is np.ndarray
