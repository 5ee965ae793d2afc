"""Printing to the letter: a line break, what NumPy prints, and the line that says what it is."""

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd

EXACT = [
    (lambda: nd.array([2, 4, 6, 8]), "\n[2. 4. 6. 8.]\n<NDArray 4 @cpu(0)>"),
    (lambda: nd.array([[1, 2], [3, 4]], dtype="int32"), "\n[[1 2]\n [3 4]]\n<NDArray 2x2 @cpu(0)>"),
    (lambda: nd.array([[[1.5]]]), "\n[[[1.5]]]\n<NDArray 1x1x1 @cpu(0)>"),
    (lambda: nd.array(3.5), "\n3.5\n<NDArray  @cpu(0)>"),
    (lambda: nd.array([]), "\n[]\n<NDArray 0 @cpu(0)>"),
    (lambda: nd.zeros((2, 0)), "\n[]\n<NDArray 2x0 @cpu(0)>"),
    (lambda: nd.array([True, False], dtype="bool"), "\n[ True False]\n<NDArray 2 @cpu(0)>"),
    (lambda: nd.array([1e10, 1e-10, 1]), "\n[1.e+10 1.e-10 1.e+00]\n<NDArray 3 @cpu(0)>"),
    (lambda: nd.array([float("nan"), float("inf"), -float("inf")]), "\n[ nan  inf -inf]\n<NDArray 3 @cpu(0)>"),
    (lambda: nd.ones((1,), ctx=mx.cpu(3)), "\n[1.]\n<NDArray 1 @cpu(3)>"),
    (lambda: nd.ones((1,), ctx=mx.cpu_pinned(0)), "\n[1.]\n<NDArray 1 @cpu_pinned(0)>"),
]


@pytest.mark.parametrize("make, text", EXACT, ids=[text.strip().splitlines()[-1] for _, text in EXACT])
def test_exact(make, text):
    array = make()
    assert repr(array) == str(array) == f"{array}" == "%s" % array == text  # noqa: UP031 - another way to print


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (40, 50), (1001,), (0, 3), ()])
def test_as_numpy_prints_it(dtype, shape):
    values = (np.random.RandomState(0).uniform(-300, 300, shape)).astype(dtype)
    array = nd.array(values, dtype=dtype)
    assert repr(array) == f"\n{values!s}\n<NDArray {'x'.join(map(str, shape))} @cpu(0)>"


def test_print_options_of_numpy_count():
    array = nd.array([1 / 3])
    with np.printoptions(precision=2):
        assert repr(array).splitlines()[1] == "[0.33]"


def test_printing_computes_and_changes_nothing():
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = x * x
        first = repr(y)
        z = y * y
    assert first == "\n[1. 4.]\n<NDArray 2 @cpu(0)>"
    z.backward()
    assert repr(x.grad) == "\n[ 4. 32.]\n<NDArray 2 @cpu(0)>"


def test_printing_after_a_change():
    x = nd.zeros((2,))
    assert "[0. 0.]" in repr(x)
    x += 1
    assert "[1. 1.]" in repr(x)


def test_format():
    assert f"{nd.array([2.345]):.2f}" == "2.35" or f"{nd.array([2.345]):.2f}" == "2.34"
    assert f"{nd.array([7], dtype='int32'):03d}" == "007"
    with pytest.raises(TypeError, match="one element"):
        f"{nd.ones((2,)):.2f}"


def test_subclass_prints_its_own_name():
    class Picture(nd.NDArray):
        __slots__ = ()

    picture = Picture(None)
    picture.__setstate__(nd.ones((1,)).__getstate__())
    assert repr(picture) == "\n[1.]\n<Picture 1 @cpu(0)>"


def test_lists_of_arrays():
    assert repr([nd.ones((1,))]) == "[\n[1.]\n<NDArray 1 @cpu(0)>]"
