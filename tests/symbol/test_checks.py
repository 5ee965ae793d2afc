"""The checks of mx.test_utils on symbols: they pass where all is well and say what is wrong."""

import numpy as np
import pytest

import phonograd as mx
from phonograd import nd, sym, test_utils
from phonograd.core.base.errors import MXNetError

X, Y = sym.var("x"), sym.var("y")


@mx.operator.register("wrong_gradient_for_checks")
class WrongProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        class Wrong(mx.operator.CustomOp):
            def forward(self, is_train, req, in_data, out_data, aux):
                self.assign(out_data[0], req[0], in_data[0] * 2)

            def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                self.assign(in_grad[0], req[0], out_grad[0] * 3)

        return Wrong()


WRONG = sym.Custom(X, op_type="wrong_gradient_for_checks", name="wrong")


class TestForward:
    def test_right(self):
        a, b = np.random.rand(2, 3), np.random.rand(2, 3)
        (out,) = test_utils.check_symbolic_forward(X * Y + 1, [a, b], [a * b + 1], rtol=1e-5)
        assert out.shape == (2, 3)
        named = sym.Group([X + Y, sym.relu(X, name="r")])
        test_utils.check_symbolic_forward(named, {"x": a, "y": b}, [a + b, a])

    def test_wrong(self):
        with pytest.raises(AssertionError, match="forward r_output"):
            test_utils.check_symbolic_forward(sym.relu(X, name="r"), [np.ones(2)], [np.zeros(2)])
        with pytest.raises(AssertionError, match="1 outputs, but 2 were expected"):
            test_utils.check_symbolic_forward(X * 2, [np.ones(2)], [np.ones(2), np.ones(2)])
        with pytest.raises(ValueError, match="the arguments are x, y"):
            test_utils.check_symbolic_forward(X + Y, [np.ones(2)], [np.ones(2)])
        with pytest.raises(MXNetError, match="needs a Symbol with bind"):
            test_utils.check_symbolic_forward(lambda x: x, [np.ones(2)], [np.ones(2)])

    def test_states(self):
        net = sym.BatchNorm(X, fix_gamma=False, eps=0, name="bn")
        values = [np.array([[1.0, 2.0], [3.0, 6.0]]), np.ones(2), np.zeros(2)]
        states = {"bn_moving_mean": np.array([1.0, 2.0]), "bn_moving_var": np.array([4.0, 4.0])}
        test_utils.check_symbolic_forward(net, values, [[[0, 0], [1, 2]]], aux_states=states)


class TestBackward:
    def test_right(self):
        a, b = np.random.rand(2, 3), np.random.rand(2, 3)
        for request in ("write", "add", "null", {"x": "add", "y": "write"}, ["null", "add"]):
            test_utils.check_symbolic_backward(X * Y, [a, b], [np.ones((2, 3))], [b, a], grad_req=request)
        grads = test_utils.check_symbolic_backward(X * Y, [a, b], nd.ones((2, 3)) * 2, {"y": 2 * a})
        np.testing.assert_allclose(grads["x"].asnumpy(), 2 * b, rtol=1e-5)

    def test_wrong(self):
        with pytest.raises(AssertionError, match="backward gradient of x"):
            test_utils.check_symbolic_backward(X * 2, [np.ones(2)], [np.ones(2)], [np.ones(2)])


class TestNumericGradient:
    @pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-6), (np.float32, 1e-2)])
    def test_right(self, dtype, tolerance):
        net = sym.FullyConnected(sym.tanh(X), num_hidden=2, name="fc") * sym.exp(Y)
        shapes = {"x": (2, 3), "fc_weight": (2, 3), "fc_bias": (2,), "y": (2, 2)}
        location = {name: np.random.normal(size=shape) for name, shape in shapes.items()}
        test_utils.check_numeric_gradient(net, location, dtype=dtype, rtol=tolerance, atol=tolerance)
        test_utils.check_numeric_gradient(net, location, grad_nodes=["y"], dtype=dtype, rtol=tolerance, atol=tolerance)

    def test_wrong(self):
        with pytest.raises(AssertionError, match="backward gradient of 'x'"):
            test_utils.check_numeric_gradient(WRONG, [np.random.rand(3)], dtype=np.float64)

    def test_layers_with_states(self):
        net = sym.BatchNorm(X, fix_gamma=False, name="bn")
        location = [np.random.rand(4, 2), np.random.rand(2), np.random.rand(2)]
        states = [np.zeros(2), np.ones(2)]
        test_utils.check_numeric_gradient(net, location, states, dtype=np.float64, rtol=1e-4, atol=1e-6)


class TestConsistency:
    def test_executors_agree(self):
        net = sym.softmax(sym.FullyConnected(X, num_hidden=4, name="fc"), name="top")
        found = test_utils.check_consistency(net, [{"ctx": mx.cpu(), "x": (3, 5)}])
        assert sorted(found) == ["gradient of fc_bias", "gradient of fc_weight", "gradient of x", "top_output"]

    def test_dtypes_agree(self):
        ways = [
            {"ctx": mx.cpu(), "x": (3, 5), "type_dict": {"x": dtype}, "executor": "reference"}
            for dtype in ("float64", "float32", "float16")
        ]
        test_utils.check_consistency(sym.tanh(X, name="t"), ways, use_uniform=True, scale=0.5)
        test_utils.check_consistency(sym.tanh(X, name="t"), ways, grad_req="null", arg_params={"x": np.ones((3, 5))})

    def test_differences_are_found(self):
        ways = [{"ctx": mx.cpu(), "x": (3,), "executor": name} for name in ("reference", "native")]
        with pytest.raises(AssertionError, match="t_output by native in float32"):
            test_utils.check_consistency([sym.tanh(X, name="t"), sym.exp(X, name="t")], ways)
        truth = {"t_output": np.full(3, 5.0)}
        with pytest.warns(UserWarning, match="t_output by"):
            test_utils.check_consistency(sym.tanh(X, name="t"), ways, raise_on_err=False, ground_truth=truth)

    def test_mistakes(self):
        with pytest.raises(ValueError, match="at least two are needed"):
            test_utils.check_consistency(X * 2, [{"ctx": mx.cpu(), "x": (1,), "executor": "native"}])
        ways = [{"ctx": mx.cpu(), "x": (3,), "executor": name} for name in ("reference", "native")]
        with pytest.raises(ValueError, match="different arguments or outputs"):
            test_utils.check_consistency([sym.tanh(X, name="a"), sym.tanh(X, name="b")], ways)


def test_simple_forward():
    outputs = test_utils.simple_forward(sym.Group([X + Y, X * Y]), x=np.array([2.0]), y=np.array([3.0]))
    assert [output.tolist() for output in outputs] == [[5], [6]]


def test_graphs_are_compared_without_names():
    first = sym.relu(sym.FullyConnected(sym.var("a"), num_hidden=2) + sym.var("b"))
    second = sym.relu(sym.FullyConnected(sym.var("x"), num_hidden=2, name="f") + sym.var("y"))
    assert test_utils.same_symbol_structure(first, second)
    assert not test_utils.same_symbol_structure(first, sym.tanh(second))
    x, y = sym.var("x"), sym.var("y")
    assert not test_utils.same_symbol_structure(x - y + x, x - y + y)


def test_speed_is_a_time():
    net = sym.FullyConnected(sym.var("x"), num_hidden=2, name="fc")
    assert test_utils.check_speed(net, N=2, x=(3, 4)) > 0
    values = {"x": np.ones((3, 4)), "fc_weight": np.ones((2, 4)), "fc_bias": np.ones(2)}
    assert test_utils.check_speed(net, values, N=1, typ="forward") > 0
    with pytest.raises(ValueError, match="typ can only be"):
        test_utils.check_speed(net, typ="backward")
