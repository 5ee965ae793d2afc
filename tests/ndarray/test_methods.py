"""Methods: those that are operators are all there, and the others do what the functions of their name do."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.operator import REGISTRY

METHODS = sorted(name for name, declared in REGISTRY.items() if declared.method and not name.startswith("_"))

#: how often the methods of arrays are used in public code, most used first
POPULAR = [
    "reshape",
    "asnumpy",
    "sum",
    "astype",
    "backward",
    "mean",
    "asscalar",
    "split",
    "expand_dims",
    "as_in_context",
    "transpose",
    "argmax",
    "sqrt",
    "log",
    "exp",
    "squeeze",
    "clip",
    "max",
    "zeros_like",
    "ones_like",
    "copy",
    "softmax",
    "slice_axis",
    "square",
    "abs",
    "relu",
    "attach_grad",
    "flatten",
    "norm",
    "copyto",
    "ceil",
    "one_hot",
    "repeat",
    "detach",
    "tile",
    "swapaxes",
    "take",
    "sort",
    "min",
    "sigmoid",
    "floor",
    "wait_to_read",
    "argsort",
    "log_softmax",
    "topk",
    "broadcast_to",
    "sin",
    "prod",
    "flip",
    "tanh",
    "broadcast_like",
    "pick",
    "cos",
    "pad",
    "slice",
    "reshape_like",
    "log1p",
    "diag",
    "slice_like",
    "nansum",
    "broadcast_axes",
    "tostype",
    "sign",
    "round",
    "argmin",
    "log10",
    "expm1",
    "shape_array",
    "log2",
    "argmax_channel",
    "split_v2",
    "arccos",
    "reciprocal",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
]


@pytest.fixture
def x():
    return nd.array([[0.5, -1.0, 2.0], [3.0, 0.25, -0.25]])


@pytest.mark.parametrize("name", POPULAR)
def test_popular_methods_exist(x, name):
    method = getattr(x, name)
    assert callable(method)
    assert method.__doc__
    assert name in dir(x)


@pytest.mark.parametrize("name", ["shape", "context", "ctx", "dtype", "size", "ndim", "grad", "stype", "T", "writable"])
def test_properties_cannot_be_set(x, name):
    getattr(x, name)
    with pytest.raises(AttributeError):
        setattr(x, name, None)


@pytest.mark.parametrize("name", METHODS)
def test_operator_methods_have_the_arguments_of_the_function(x, name):
    getattr(x, name)  # methods are made when they are first used
    own = list(inspect.signature(getattr(nd.NDArray, name)).parameters)
    if own[0] == "self":
        return  # written by hand, because it does more than the operator
    assert own == list(inspect.signature(getattr(nd, name)).parameters)


@pytest.mark.parametrize(
    "name",
    [
        "abs",
        "sign",
        "ceil",
        "floor",
        "round",
        "rint",
        "fix",
        "trunc",
        "square",
        "sqrt",
        "rsqrt",
        "cbrt",
        "rcbrt",
        "reciprocal",
        "exp",
        "expm1",
        "log",
        "log10",
        "log2",
        "log1p",
        "sin",
        "cos",
        "tan",
        "arcsin",
        "arccos",
        "arctan",
        "sinh",
        "cosh",
        "tanh",
        "arcsinh",
        "arccosh",
        "arctanh",
        "degrees",
        "radians",
        "relu",
        "sigmoid",
        "softmax",
        "log_softmax",
        "sum",
        "mean",
        "prod",
        "max",
        "min",
        "norm",
        "nansum",
        "nanprod",
        "argmax",
        "argmin",
        "sort",
        "argsort",
        "topk",
        "flip",
        "zeros_like",
    ],
)
def test_method_is_the_function(x, name):
    keywords = {"axis": 1} if name in ("flip", "argmax", "argmin", "softmax", "sort") else {}
    by_method = getattr(x, name)(**keywords)
    by_function = getattr(nd, name)(x, **keywords)
    np.testing.assert_array_equal(by_method.asnumpy(), by_function.asnumpy())


def test_second_positional_argument_of_a_unary_operator_is_out(x):
    y = nd.zeros((2, 3))
    assert nd.exp(x, y) is y
    assert x.exp(y) is y
    np.testing.assert_array_equal(y.asnumpy(), nd.exp(x).asnumpy())


def test_unknown_attribute_names_the_nearest(x):
    # Python itself looks for the nearest name when it prints the error: operators are among the names it sees
    script = "import phonograd as mx\nmx.nd.ones((2,)).log_softmx()"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False).stderr
    assert "'NDArray' object has no attribute 'log_softmx'. Did you mean: 'log_softmax'?" in shown
    with pytest.raises(AttributeError, match="no attribute 'reshap'"):
        _ = x.reshap
    with pytest.raises(AttributeError, match="no attribute '_foo'"):
        _ = x._foo
    with pytest.raises(AttributeError):
        x.foo = 1


class TestShapes:
    def test_reshape_codes(self):
        t = nd.zeros((2, 3, 4))
        for codes, shape in (
            ((0, -1), (2, 12)), ((-3, 0), (6, 4)), ((-2,), (2, 3, 4)), ((-4, 1, 2, -2), (1, 2, 3, 4)),
            ((0, -4, -1, 3, -2), (2, 1, 3, 4)), ((-1,), (24,)), ((4, 0, 2), (4, 3, 2)),
        ):  # fmt: skip
            assert t.reshape(codes).shape == t.reshape(*codes).shape == t.reshape(shape=codes).shape == shape
            assert nd.reshape(t, shape=codes).shape == shape

    def test_reshape_of_empty_arrays(self):
        assert nd.zeros((0,)).reshape((-1, 2)).shape == (0, 2)
        assert nd.array(3.0).reshape((1, 1)).shape == (1, 1)
        assert nd.ones((1, 1)).reshape(()).shape == ()

    @pytest.mark.parametrize("inplace", [False, True])
    def test_flatten_expand_squeeze(self, inplace):
        t = nd.array(np.arange(6.0).reshape(1, 2, 3))
        assert t.flatten(inplace=inplace).shape == (1, 6)
        assert t.expand_dims(1, inplace=inplace).shape == (1, 1, 2, 3)
        assert t.expand_dims(axis=-1, inplace=inplace).shape == (1, 2, 3, 1)
        assert t.squeeze(inplace=inplace).shape == (2, 3)
        assert t.squeeze(axis=0, inplace=inplace).shape == (2, 3)
        assert t.squeeze((0,), inplace).shape == (2, 3)
        assert nd.ones((1, 1)).squeeze(inplace=inplace).shape == (1,)

    def test_inplace_reshapes_are_recorded(self):
        x = nd.array([[1.0, 2.0]])
        x.attach_grad()
        with autograd.record():
            y = x.squeeze(inplace=True) * nd.array([3, 4]) + x.flatten(inplace=True) + x.expand_dims(0, inplace=True)
        y.backward()
        assert x.grad.asnumpy().tolist() == [[5, 6]]

    def test_broadcasting_methods(self):
        v = nd.array([1.0, 2.0])
        v.attach_grad()
        with autograd.record():
            y = v.broadcast_to((3, 2)) * v.broadcast_like(nd.zeros((2, 3, 2)))
        y.backward()
        assert y.shape == (2, 3, 2)
        assert v.grad.asnumpy().tolist() == [12, 24]
        for wrong in ((3,), (2, 3), (), (0, 2)):
            with pytest.raises(ValueError, match="could not be broadcast together with remapped shapes"):
                nd.ones((2, 2)).broadcast_to(wrong)

    def test_transpose_forms(self):
        t = nd.zeros((2, 3, 4))
        assert t.transpose().shape == t.T.shape == (4, 3, 2)
        assert (
            t.transpose((1, 0, 2)).shape == t.transpose(1, 0, 2).shape == t.transpose(axes=(1, 0, 2)).shape == (3, 2, 4)
        )
        v = nd.ones((2,))
        assert v.T is v
        with pytest.raises(MXNetError):
            t.transpose((0, 1), foo=1)

    def test_split(self):
        x = nd.array(np.arange(12.0).reshape(3, 4))
        assert [p.shape for p in x.split(2, axis=1)] == [(3, 2)] * 2
        assert [p.shape for p in x.split(num_outputs=4, axis=1, squeeze_axis=True)] == [(3,)] * 4
        assert isinstance(x.split(num_outputs=1, axis=1), nd.NDArray)
        assert [p.shape for p in x.split_v2((1, 3), axis=1)] == [(3, 1), (3, 2), (3, 1)]
        assert [p.shape for p in x.split_v2(4, axis=-1)] == [(3, 1)] * 4
        with pytest.raises(ValueError, match="equal division"):
            x.split_v2(5, axis=1)
        with pytest.raises(IndexError):
            x.split_v2(2, axis=2)


class TestCopies:
    def test_copy_of_every_dtype(self):
        for dtype in ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"):
            x = nd.ones((2,), dtype=dtype)
            y = x.copy()
            y[:] = 0
            assert x.dtype == y.dtype == np.dtype(dtype).type
            assert x.asnumpy().all()

    def test_astype(self, x):
        assert x.astype("float32") is not x
        assert x.astype("float32", copy=False) is x
        assert x.astype(np.float64).dtype == x.astype(np.dtype("float64")).dtype == np.float64
        x.attach_grad()
        with autograd.record():
            y = x.astype("float64") * 2
        y.backward()
        assert (x.grad.dtype, x.grad.asnumpy().tolist()) == (np.float32, [[2] * 3] * 2)
        for wrong, error in (("uint16", KeyError), ("complex64", KeyError), ("zzz", TypeError)):
            with pytest.raises(error):
                x.astype(wrong)

    def test_copyto_itself_warns(self, x):
        with pytest.warns(RuntimeWarning, match="copy an array to itself"):
            assert x.copyto(x) is False

    def test_contexts(self, x):
        x.attach_grad()
        with autograd.record():
            y = x.as_in_context(mx.cpu(1)) * 2
            z = x.copyto(mx.cpu(2)) * 3
        assert (y.context, z.context) == (mx.cpu(1), mx.cpu(2))
        autograd.backward([y, z])
        assert x.grad.context == mx.cpu(0)
        assert x.grad.asnumpy().tolist() == [[5] * 3] * 2
        with pytest.raises(MXNetError, match="GPU is not enabled"):
            x.as_in_context(mx.gpu())
        with pytest.raises(TypeError, match="copyto does not support type"):
            x.as_in_context("cpu")

    def test_slice_assign(self, x):
        y = x.slice_assign(nd.full((1, 2), 7), (0, 1), (1, 3), (None, None))
        assert y is x
        assert x.slice_assign_scalar(9, (1, None), (2, None), (1, 2)) is x
        assert x.asnumpy().tolist() == [[0.5, 7, 7], [9, 0.25, 9]]

    def test_tostype(self, x):
        assert x.tostype("default") is not x
        with pytest.raises(MXNetError, match="stype must be"):
            x.tostype("coo")


def test_fresh_grad_needs_a_variable(x):
    assert x._fresh_grad == 0
    with pytest.raises(MXNetError, match="has not been marked as a variable"):
        x._fresh_grad = 1
    x.attach_grad()
    x._fresh_grad = True
    assert x._fresh_grad == 1


def test_array_without_a_value():
    empty = nd.NDArray(None)
    for use in (lambda: empty.shape, lambda: empty + 1, lambda: empty.asnumpy(), lambda: repr(empty)):
        with pytest.raises(ValueError, match="made without a value"):
            use()
    with pytest.raises(TypeError, match=r"mx\.nd\.array"):
        nd.NDArray([1, 2])


def test_arrays_are_hashed_by_identity():
    x, y = nd.ones((1,)), nd.ones((1,))
    assert {x: "x", y: "y"}[x] == "x"
    assert hash(x) != hash(y)
