"""Making arrays: what is copied, what is an expression, and what is refused. Values stand in recorded/creation.json."""

import numpy as np
import pytest

import phonograd as mx
from phonograd import nd
from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.node import statistics


def test_array_copies_its_source():
    source = np.array([1.0, 2.0], np.float32)
    x = nd.array(source)
    source[:] = 9
    assert x.asnumpy().tolist() == [1, 2]


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_order_of_the_source_does_not_matter(order):
    source = np.asarray(np.arange(6.0).reshape(2, 3), order=order)
    x = nd.array(source)
    assert x.asnumpy().flags.c_contiguous
    assert x.reshape(-1).asnumpy().tolist() == [0, 1, 2, 3, 4, 5]


def test_array_of_strided_and_reversed_memory():
    source = np.arange(12.0).reshape(3, 4)[::-1, ::2]
    np.testing.assert_array_equal(nd.array(source).asnumpy(), source)


@pytest.mark.parametrize("source", [[nd.ones(2), nd.ones(2)], [[1.0, nd.ones(1)]], ([nd.ones(1)],), [1.0, nd.ones(1)]])
def test_list_of_arrays_is_refused_with_advice(source):
    with pytest.raises(TypeError, match=r"source_array must be array like object; .*nd\.stack"):
        nd.array(source)


@pytest.mark.parametrize("source", ["abc", [[1], [2, 3]], {"a": 1}, object(), [1j], ["x"], [10**400]])
def test_what_is_no_array(source):
    with pytest.raises(TypeError, match="source_array must be array like object"):
        nd.array(source)


def test_array_of_an_array_is_recorded():
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with mx.autograd.record():
        y = nd.array(x, dtype="float64") * 3
    y.backward()
    assert y.dtype == np.float64
    assert x.grad.asnumpy().tolist() == [3, 3]


def test_filled_arrays_are_computed_when_read():
    mx.waitall()
    before = statistics.evaluations
    x = nd.zeros((1000, 1000)) + 1
    assert x.shape == (1000, 1000)
    assert statistics.evaluations == before
    assert x[0, 0].asscalar() == 1
    assert statistics.evaluations > before


@pytest.mark.usefixtures("planned")
@pytest.mark.parametrize("context", [mx.cpu(0), mx.cpu(1)])
def test_loop_that_makes_arrays_makes_no_new_expressions(context):
    def step():
        return (nd.zeros((2,), ctx=context) + nd.arange(2, ctx=context) + nd.eye(2, ctx=context)).asnumpy()

    for _ in range(3):
        step()
    before = statistics.nodes
    step()
    assert statistics.nodes == before


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (0, 3), (1,), (2, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"])
def test_every_shape_and_dtype(shape, dtype):
    for x, value in (
        (nd.zeros(shape, dtype=dtype), 0),
        (nd.ones(shape, dtype=dtype), 1),
        (nd.full(shape, 1, dtype=dtype), 1),
    ):
        assert (x.shape, x.dtype, x.size) == (shape, np.dtype(dtype).type, int(np.prod(shape)))
        np.testing.assert_array_equal(x.asnumpy(), np.full(shape, value, dtype))


def test_full_keeps_signs_and_bits():
    assert np.signbit(nd.full((1,), -0.0).asnumpy())[0]
    assert not np.signbit(nd.full((1,), 0.0).asnumpy())[0]
    assert np.isnan(nd.full((1,), float("nan")).asscalar())
    assert nd.full((1,), 2**53 + 1, dtype="int64").asscalar() == 2**53 + 1
    assert nd.full((1,), -1, dtype="uint8").asscalar() == 255


def test_full_of_an_array():
    assert nd.full((2, 2), nd.array([3.0, 4.0])).asnumpy().tolist() == [[3, 4], [3, 4]]
    with pytest.raises(ValueError, match="could not be broadcast"):
        nd.full((2,), [1, 2, 3])


def test_out_is_filled_and_returned():
    target = nd.zeros((2,), dtype="int32")
    view = target[0:1]
    assert nd.full((2,), 7, out=target) is target
    assert nd.ones((2,), dtype="int32", out=target) is target
    assert view.asscalar() == 1


@pytest.mark.parametrize("make", [nd.zeros, nd.ones, lambda *a, **k: nd.eye(2, **k)])
def test_unknown_argument_is_named(make):
    with pytest.raises(MXNetError, match=r"Cannot find argument 'dtpye'.*did you mean 'dtype'"):
        make((2,), dtpye="int32")


@pytest.mark.parametrize("shape", [-1, (2, -1), (1, -2, 3)])
def test_negative_extents(shape):
    with pytest.raises(MXNetError, match="negative"):
        nd.zeros(shape)


def test_storage_types_of_zeros():
    assert [nd.zeros((2, 2), stype=stype).stype for stype in (None, "default", "csr")] == ["default", "default", "csr"]


class TestFromNumpy:
    def test_shares_memory_without_copy(self):
        source = np.arange(4, dtype=np.int32)
        x = nd.from_numpy(source)
        assert x.dtype == np.int32
        assert np.shares_memory(np.asarray(x), source)
        assert not source.flags.writeable

    def test_change_gives_the_array_memory_of_its_own(self):
        source = np.arange(4.0)
        x = nd.from_numpy(source)
        row = x[1:3]
        x += 1
        row[:] = 7
        assert source.tolist() == [0, 1, 2, 3]
        assert x.asnumpy().tolist() == [1, 7, 7, 4]

    def test_copy(self):
        source = np.arange(4.0)[::2]
        x = nd.from_numpy(source, zero_copy=False)
        assert source.flags.writeable
        source[:] = 9
        assert x.asnumpy().tolist() == [0, 2]

    @pytest.mark.parametrize(
        "source, words",
        [
            (np.ones((2, 3))[:, ::2], "c-contiguous"),
            (np.ones(2, np.uint16), "uint16 is not supported"),
            (np.ones(2, ">f4" if np.little_endian else "<f4"), "byte order"),
        ],
    )
    def test_refused(self, source, words):
        with pytest.raises(ValueError, match=words):
            nd.from_numpy(source)

    def test_takes_numpy_arrays_only(self):
        with pytest.raises(TypeError, match="NumPy array"):
            nd.from_numpy([1, 2])


def test_moveaxis_agrees_with_numpy():
    x = np.arange(24.0).reshape(2, 3, 4)
    for source, destination in ((0, -1), ([0, 1], [1, 0]), ((2, 0), (0, 1)), (-1, 0)):
        expected = np.moveaxis(x, source, destination)
        np.testing.assert_array_equal(nd.moveaxis(nd.array(x), source, destination).asnumpy(), expected)


def test_concatenate_is_recorded():
    x, y = nd.ones((1, 2)), nd.ones((2, 2))
    x.attach_grad()
    with mx.autograd.record():
        z = nd.concatenate([x, y, x]) * nd.array([[1], [2], [3], [4]])
    z.backward()
    assert z.shape == (4, 2)
    assert x.grad.asnumpy().tolist() == [[5, 5]]
