"""Custom operators in symbols: they may look at values in the middle of a graph, also inside of loops."""

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, sym
from phonograd.core.base.errors import MXNetError


class Scale(mx.operator.CustomOp):
    def __init__(self, factor):
        self.factor = factor

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], nd.array(in_data[0].asnumpy() * self.factor))
        self.assign(out_data[1], req[1], in_data[0] + in_data[1])
        if is_train:
            aux[0][:] += 1

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0].asnumpy() * self.factor + out_grad[1].asnumpy())
        self.assign(in_grad[1], req[1], out_grad[1])


@mx.operator.register("scale_for_symbols")
class ScaleProp(mx.operator.CustomOpProp):
    def __init__(self, factor="2"):
        super().__init__()
        self.factor = float(factor)

    def list_arguments(self):
        return ["data", "offset"]

    def list_outputs(self):
        return ["scaled", "moved"]

    def list_auxiliary_states(self):
        return ["count"]

    def infer_shape(self, in_shape):
        return [in_shape[0], in_shape[0]], [in_shape[0], in_shape[0]], [(1,)]

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Scale(self.factor)


X = sym.var("x")


def scale(data, **options):
    return sym.Custom(data, op_type="scale_for_symbols", name="c", **options)


def test_names_and_shapes():
    net = scale(X, factor=3)
    assert net.list_arguments() == ["x", "c_offset"]
    assert net.list_auxiliary_states() == ["c_count"]
    assert net.list_outputs() == ["c_scaled", "c_moved"]
    assert net.infer_shape(x=(2, 3)) == ([(2, 3), (2, 3)], [(2, 3), (2, 3)], [(1,)])
    assert net.infer_shape_partial() == ([(), ()], [(), ()], [()])
    assert net.infer_type(x="float64")[1] == [np.float64, np.float64]
    assert net.attr("factor") == "3"
    assert sym.load_json(net.tojson()).list_outputs() == net.list_outputs()
    assert sym.Custom(data=X, offset=X, op_type="scale_for_symbols").list_arguments() == ["x"]


@pytest.mark.parametrize("train", [False, True])
def test_values_between_other_operators(train):
    net = sym.exp(scale(X + 1)[0] * 2 + X, name="top") + scale(sym.sin(X))[1]
    executor = net.simple_bind(mx.cpu(), x=(2,))
    executor.arg_dict["x"][:] = [0.1, 0.2]
    x = np.array([0.1, 0.2])
    (out,) = executor.forward(is_train=train)
    np.testing.assert_allclose(out.asnumpy(), np.exp((x + 1) * 4 + x) + np.sin(x), rtol=1e-5)
    if train:
        executor.backward()
        expected = 5 * np.exp((x + 1) * 4 + x) + np.cos(x)
        np.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), expected, rtol=1e-5)
        assert executor.aux_dict["c_count"].asscalar() == 2, "two calls have one name"


def test_inside_of_a_loop():
    outputs, state = sym.contrib.foreach(lambda x, s: (scale(x + s)[0], s + scale(x)[1]), X, sym.var("s"))
    net = sym.Group([outputs, state])
    feed = {name: nd.zeros((2,)) for name in net.list_inputs()}
    feed.update(x=nd.array([[1.0, 2.0], [3.0, 4.0]]), s=nd.array([1.0, 1.0]), c_count=nd.zeros((1,)))
    for flag in (False, True):
        with autograd.record(train_mode=flag) if flag else autograd.pause():
            results = net.eval(**feed)
        assert [result.asnumpy().tolist() for result in results] == [[[4, 6], [10, 14]], [5, 7]]
    assert feed["c_count"].asscalar() == 4


def test_mistakes():
    with pytest.raises(MXNetError, match=r"Cannot find custom operator nope"):
        sym.Custom(X, op_type="nope")
    with pytest.raises(AssertionError, match="Positional arguments must be Symbol instances"):
        sym.Custom(3, op_type="scale_for_symbols")
    with pytest.raises(MXNetError, match="expects the inputs data, offset, count"):
        sym.Custom(X, X, X, X, op_type="scale_for_symbols")
