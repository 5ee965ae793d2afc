"""CustomOp and CustomOpProp, called as nd.Custom."""

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError

from .arrays import NOT_RECORDED, close, flags, values, variable

SEEN = []


class Scaled(mx.operator.CustomOp):
    """data * factor + data ** 2, and the sum of two inputs as a second output."""

    def __init__(self, factor):
        self.factor = factor

    def forward(self, is_train, req, in_data, out_data, aux):
        SEEN.append(("forward", is_train, list(req), flags()))
        self.assign(out_data[0], req[0], in_data[0] * self.factor + in_data[0] ** 2)
        self.assign(out_data[1], req[1], in_data[0] + in_data[1])
        aux[0] += 1

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        SEEN.append(("backward", list(req), flags()))
        self.assign(in_grad[0], req[0], out_grad[0] * (self.factor + 2 * in_data[0]) + out_grad[1])
        self.assign(in_grad[1], req[1], out_grad[1])


@mx.operator.register("autograd_scaled")
class ScaledProp(mx.operator.CustomOpProp):
    def __init__(self, factor):
        super().__init__(need_top_grad=True)
        assert isinstance(factor, str), "parameters arrive as text"
        self.factor = float(factor)

    def list_arguments(self):
        return ["data", "other"]

    def list_outputs(self):
        return ["output", "sum"]

    def list_auxiliary_states(self):
        return ["calls"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0], in_shape[0]], [[1]]

    def create_operator(self, ctx, shapes, dtypes):
        SEEN.append(("create", str(ctx), [list(s) for s in shapes], list(dtypes)))
        return Scaled(self.factor)


@pytest.fixture(autouse=True)
def nothing_seen():
    SEEN.clear()


def test_forward_and_backward():
    x, other, calls = variable([1.0, 2.0]), variable([5.0, 6.0]), nd.zeros((1,))
    with autograd.record():
        y, total = nd.Custom(x, other, calls, op_type="autograd_scaled", factor=3)
        z = y * 10 + total
    assert (values(y), values(total), values(calls)) == ([4, 10], [6, 8], [1])
    z.backward()
    assert values(x.grad) == [51, 71]
    assert values(other.grad) == [1, 1]
    assert list(SEEN) == [
        ("create", "cpu(0)", [[2], [2]], [np.float32, np.float32]),
        ("forward", 1, ["write", "write"], (False, True)),
        ("backward", ["write", "write"], (False, True)),
    ]


def test_constants_are_not_asked_for():
    x, other, calls = variable([1.0]), nd.array([5.0]), nd.zeros((1,))
    with autograd.record(train_mode=False):
        y, _ = nd.Custom(other, x, calls, op_type="autograd_scaled", factor=3)
        z = y + _
    z.backward()
    assert values(x.grad) == [1]
    assert SEEN[1] == ("forward", 0, ["write", "write"], (False, False))
    assert SEEN[2] == ("backward", ["null", "write"], (False, True))


def test_requests_accumulate():
    x, other = variable([1.0], "add"), nd.array([5.0])
    for count in (1, 2, 3):
        with autograd.record():
            y, _ = nd.Custom(x, other, nd.zeros((1,)), op_type="autograd_scaled", factor=3)
        y.backward()
        assert values(x.grad) == [5 * count]


def test_arrays_by_name_and_out():
    x, other, calls = nd.array([1.0]), nd.array([5.0]), nd.zeros((1,))
    y, total = nd.Custom(data=x, other=other, calls=calls, op_type="autograd_scaled", factor=3, name="mine")
    assert (values(y), values(total)) == ([4], [6])
    outs = [nd.zeros((1,)), nd.zeros((1,))]
    assert nd.Custom(x, other, calls, op_type="autograd_scaled", factor=1, out=outs) is outs
    assert [values(out) for out in outs] == [[2], [6]]


def test_what_was_seen_stays():
    x, other = variable([1.0]), nd.array([5.0])
    with autograd.record():
        y, _ = nd.Custom(x, other, nd.zeros((1,)), op_type="autograd_scaled", factor=3)
    x[:] = 100
    y.backward()
    assert values(x.grad) == [5]


def test_other_outputs_become_plain():
    x, other = variable([1.0]), nd.array([5.0])
    with autograd.record():
        y, total = nd.Custom(x, other, nd.zeros((1,)), op_type="autograd_scaled", factor=3)
    y.backward()
    with pytest.raises(MXNetError) as error:
        total.backward()
    assert str(error.value).startswith(NOT_RECORDED)


def test_derivatives_of_every_order():
    x, other = variable([1.5], dtype="float64"), nd.array([5.0], dtype="float64")
    with autograd.record():
        y, _ = nd.Custom(x, other, nd.zeros((1,)), op_type="autograd_scaled", factor=3)
        z = y * x
        first = autograd.grad(z, x, create_graph=True)[0]
        second = autograd.grad(first, x, create_graph=True)[0]
        third = autograd.grad(second, x)[0]
    close(first, [6 * 1.5 + 3 * 1.5**2])
    close(second, [6 + 6 * 1.5])
    close(third, [6.0])


def test_numpy_inside():
    @mx.operator.register("autograd_numpy")
    class NumpyProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Numpy()

    class Numpy(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], nd.array(np.sinh(in_data[0].asnumpy())))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], nd.array(out_grad[0].asnumpy() * np.cosh(in_data[0].asnumpy())))

    x = variable([0.5])
    for _ in range(2):
        with autograd.record():
            y = nd.Custom(x * 2, op_type="autograd_numpy")
        y.backward()
        close(x.grad, [2 * np.cosh(1.0)])


def test_what_an_operator_attaches_to_its_inputs_stays_inside():
    @mx.operator.register("autograd_inner")
    class InnerProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Inner()

    class Inner(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            (x,) = in_data
            x.attach_grad()
            with autograd.record():
                y = x * x * x
            y.backward()
            self.slope = x.grad.copy()
            self.assign(out_data[0], req[0], y)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], self.slope * out_grad[0])

    x = variable([2.0])
    buffer = x.grad
    with autograd.record():
        y = nd.Custom(x, op_type="autograd_inner")
    assert values(y) == [8]
    assert values(buffer) == [0]
    y.backward()
    assert values(buffer) == [12]
    assert x.grad is buffer


def test_assign():
    op, target = mx.operator.CustomOp(), nd.array([1.0])
    for request, source, expected in (
        ("null", 5, 1),
        ("write", nd.array([5.0]), 5),
        ("inplace", 7, 7),
        ("add", nd.array([1.0]), 8),
        ("add", 2, 10),
    ):
        op.assign(target, request, source)
        assert values(target) == [expected]
    with pytest.raises(ValueError, match="unknown request"):
        op.assign(target, "wrong", 1)


def test_errors():
    with pytest.raises(MXNetError, match="Cannot find custom operator nope"):
        nd.Custom(nd.ones((1,)), op_type="nope")
    with pytest.raises(MXNetError, match="takes the arrays data, other, calls"):
        nd.Custom(nd.ones((1,)), op_type="autograd_scaled", factor=1)
    with pytest.raises(AssertionError, match="must have NDArray type"):
        nd.Custom(3, op_type="autograd_scaled", factor=1)
    with pytest.raises(TypeError, match="subclass of CustomOpProp"):
        mx.operator.register("autograd_wrong")(int)
    assert "autograd_scaled" in mx.operator.get_all_registered_operators()


def test_exceptions_restore_the_flags():
    @mx.operator.register("autograd_fails")
    class FailsProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return mx.operator.CustomOp()

    with autograd.record():
        with pytest.raises(NotImplementedError, match="must define forward"):
            nd.Custom(nd.ones((1,)), op_type="autograd_fails")
        assert flags() == (True, True)
