"""Executors: symbols bound to arrays, computed, differentiated, reshaped and watched."""

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, sym
from phonograd.core.base.errors import MXNetError
from phonograd.symbol import graph_to_nodes

X = sym.var("x")


def values(array):
    return array.asnumpy().tolist()


def test_outputs_stay_the_same_arrays():
    executor = (X * 2).simple_bind(mx.cpu(), x=(2,))
    (out,) = executor.outputs
    assert values(out) == [0, 0]
    for number in (1.0, 3.0):
        executor.arg_dict["x"][:] = number
        assert executor.forward()[0] is out
        assert values(out) == [2 * number] * 2


def test_gradients_of_every_request():
    x, y = nd.array([2.0]), nd.array([3.0])
    grads = {"x": nd.array([100.0]), "y": nd.array([100.0])}
    executor = (X * X * sym.var("y")).bind(mx.cpu(), [x, y], grads, grad_req={"x": "add", "y": "write"})
    for count in (1, 2, 3):
        executor.forward(is_train=True)
        executor.backward()
        assert values(executor.grad_dict["x"]) == [100 + 12 * count]
        assert values(executor.grad_dict["y"]) == [4]
    assert executor.grad_arrays[0] is grads["x"]
    lists = (X * 2).bind(mx.cpu(), [x], [nd.zeros((1,))], grad_req=["write"])
    lists.forward(is_train=True)
    lists.backward(nd.array([5.0]))
    assert values(lists.grad_arrays[0]) == [10]
    for _ in range(2):
        lists.backward([nd.array([7.0])])
        assert values(lists.grad_arrays[0]) == [14]


def test_arrays_outside_keep_their_own_gradients():
    x = nd.array([2.0])
    x.attach_grad()
    executor = (X**3).bind(mx.cpu(), {"x": x}, {"x": nd.zeros((1,))})
    with autograd.record():
        y = x * 5
        executor.forward(is_train=True)
        executor.backward()
    y.backward()
    assert values(x.grad) == [5]
    assert values(executor.grad_dict["x"]) == [12]


def test_backward_uses_the_values_of_forward():
    x = nd.array([2.0])
    executor = (X * X).bind(mx.cpu(), [x], [nd.zeros((1,))])
    executor.forward(is_train=True)
    x[:] = 100
    executor.backward()
    assert values(executor.grad_dict["x"]) == [4]


def test_outputs_by_name_and_several_heads():
    net = sym.Group([sym.exp(X, name="a"), sym.square(X, name="b"), sym.BlockGrad(X, name="c")])
    executor = net.bind(mx.cpu(), [nd.array([3.0])], [nd.zeros((1,))])
    executor.forward(is_train=True)
    assert list(executor.output_dict) == ["a_output", "b_output", "c_output"]
    executor.backward({"a_output": nd.zeros((1,)), "b_output": nd.ones((1,)), "c_output": nd.ones((1,))})
    assert values(executor.grad_dict["x"]) == [6]
    with pytest.raises(ValueError, match="there are 3 outputs, but 1 gradients were given"):
        executor.backward([nd.ones((1,))])
    with pytest.raises(TypeError, match="inputs must be NDArray"):
        executor.backward([1, 2, 3])
    with pytest.raises(TypeError, match="out_grads must be an NDArray, a list or a dictionary of them"):
        executor.backward(3)


def test_backward_without_training():
    """A pass that was not for training is differentiated as it was: Dropout keeps everything."""
    net = sym.Dropout(X * X, p=0.5)
    executor = net.bind(mx.cpu(), [nd.array([1.0, 2.0])], [nd.zeros((2,))])
    executor.backward(nd.ones((2,)))
    assert values(executor.grad_dict["x"]) == [2, 4]
    assert values(executor.forward()[0]) == [1, 4]
    executor.backward(nd.ones((2,)))
    assert values(executor.grad_dict["x"]) == [2, 4]


@pytest.mark.parametrize(
    "grads, expected",
    [
        (nd.array([1, 2], dtype="float64"), [2, 4]),
        ([nd.array([1, 2], dtype="int32")], [2, 4]),
        (nd.array([3]), [6, 6]),
        ([nd.ones((2,)), nd.ones((5,))], [2, 2]),
    ],
    ids=["float64", "int32", "broadcast", "too many"],
)
def test_head_gradients_are_converted(grads, expected):
    executor = (X * 2).simple_bind(mx.cpu(), x=(2,))
    executor.forward(is_train=True)
    executor.backward(grads)
    assert values(executor.grad_dict["x"]) == expected


def test_head_gradients_that_do_not_fit():
    executor = (X * 2).simple_bind(mx.cpu(), x=(2, 3))
    executor.forward(is_train=True)
    with pytest.raises(MXNetError, match="operands shape mismatch"):
        executor.backward(nd.ones((4,)))


def test_groups_compute_on_their_contexts():
    with mx.AttrScope(ctx_group="a"):
        first = sym.FullyConnected(X, num_hidden=3, name="first")
    with mx.AttrScope(ctx_group="b"):
        second = sym.FullyConnected(first, num_hidden=2, name="second")
    groups = {"a": mx.cpu(0), "b": mx.cpu(1)}
    executor = second.simple_bind(mx.cpu(0), group2ctx=groups, x=(2, 4))
    for array in executor.arg_arrays:
        array[:] = 1
    executor.forward(is_train=True)
    executor.backward(nd.ones((2, 2)))
    assert executor.outputs[0].context == mx.cpu(1)
    contexts = [array.context.device_id for array in executor.arg_arrays]
    assert contexts == [array.context.device_id for array in executor.grad_arrays] == [0, 0, 0, 1, 1]
    assert executor.outputs[0].asnumpy().tolist() == [[16, 16], [16, 16]]
    assert executor.grad_dict["x"].asnumpy().tolist() == [[6] * 4] * 2
    given = {"x": nd.ones((2,)), "y": nd.ones((2,), ctx=mx.cpu(1))}
    with mx.AttrScope(ctx_group="b"):
        total = X + sym.var("y")
    assert total.bind(mx.cpu(0), given, group2ctx=groups).forward()[0].context == mx.cpu(1)


def test_nothing_to_differentiate():
    executor = (X * 2).simple_bind(mx.cpu(), grad_req="null", x=(1,))
    executor.forward(is_train=True)
    executor.backward()
    assert executor.grad_arrays == [None]


class TestBatchNorm:
    def bound(self):
        net = sym.BatchNorm(X, fix_gamma=True, momentum=0.5, name="bn")
        executor = net.simple_bind(mx.cpu(), x=(4, 2))
        executor.arg_dict["x"][:] = np.arange(8).reshape((4, 2))
        executor.aux_dict["bn_moving_var"][:] = 1
        return executor

    def test_training_moves_the_statistics(self):
        executor = self.bound()
        executor.forward(is_train=True)
        assert values(executor.aux_dict["bn_moving_mean"]) == [1.5, 2]
        executor.backward(nd.ones((4, 2)))
        assert values(executor.aux_dict["bn_moving_mean"]) == [1.5, 2], "backward leaves them alone"
        assert values(executor.arg_dict["bn_gamma"]) == [1, 1], "fixed"
        assert [array is executor.aux_dict[name] for array, name in zip(executor.aux_arrays, executor.aux_dict)]

    def test_prediction_does_not(self):
        executor = self.bound()
        executor.forward(is_train=False)
        assert values(executor.aux_dict["bn_moving_mean"]) == [0, 0]
        np.testing.assert_allclose(executor.outputs[0].asnumpy()[1], [2, 3], rtol=1e-3)

    def test_eval_moves_them_in_training_mode(self):
        net = sym.BatchNorm(X, name="bn")
        arrays = {name: nd.ones((2,)) for name in net.list_inputs() if name != "x"}
        with autograd.record():
            net.eval(x=nd.array([[1.0, 2.0], [3.0, 6.0]]), **arrays)
        np.testing.assert_allclose(arrays["bn_moving_mean"].asnumpy(), [1.1, 1.3], rtol=1e-6)


def test_simple_bind_chooses_types():
    net = sym.FullyConnected(X, num_hidden=2, name="fc")
    executor = net.simple_bind(mx.cpu(), type_dict={"x": "float64"}, x=(3, 4))
    assert {array.dtype for array in (*executor.arg_arrays, *executor.grad_arrays)} == {np.float64}
    assert executor.forward()[0].dtype == np.float64
    with pytest.raises(MXNetError, match=r"cannot decide shapes for the following arguments.*x: None, fc_weight: None"):
        net.simple_bind(mx.cpu())
    # names of no argument are ignored
    assert net.simple_bind(mx.cpu(), x=(3, 4), y=(1,), force_rebind=True).outputs[0].shape == (3, 2)


def test_parameters_are_copied():
    net = sym.BatchNorm(sym.FullyConnected(X, num_hidden=2, name="fc"), name="bn")
    executor = net.simple_bind(mx.cpu(), x=(3, 4))
    executor.copy_params_from({"fc_bias": nd.array([1, 2], dtype="int32")}, {"bn_moving_mean": nd.array([3.0, 4.0])})
    assert values(executor.arg_dict["fc_bias"]) == [1, 2]
    assert executor.arg_dict["fc_bias"].dtype == np.float32
    assert values(executor.aux_dict["bn_moving_mean"]) == [3, 4]
    executor.copy_params_from({"nope": nd.ones((1,))}, {"no": nd.ones((1,))}, allow_extra_params=True)
    with pytest.raises(ValueError, match=r'Find name "fc_bia" that is not in the arguments \(did you mean'):
        executor.copy_params_from({"fc_bia": nd.ones((2,))})
    with pytest.raises(ValueError, match='Find name "no" that is not in the auxiliary states'):
        executor.copy_params_from({}, {"no": nd.ones((1,))})


class TestReshape:
    def test_weights_are_shared(self):
        net = sym.FullyConnected(X, num_hidden=2, name="fc")
        executor = net.simple_bind(mx.cpu(), x=(3, 4))
        executor.arg_dict["fc_weight"][:] = 1
        other = executor.reshape(x=(2, 4))
        assert other.arg_dict["fc_weight"] is executor.arg_dict["fc_weight"]
        assert other.grad_dict["fc_weight"] is executor.grad_dict["fc_weight"]
        assert other.forward(x=nd.ones((2, 4)))[0].asnumpy().tolist() == [[4, 4], [4, 4]]
        other.forward(is_train=True)
        other.backward(nd.ones((2, 2)))
        assert executor.grad_dict["fc_bias"].asnumpy().tolist() == [2, 2]

    def test_smaller_arrays_share_memory(self):
        executor = sym.FullyConnected(X, num_hidden=2, name="fc").simple_bind(mx.cpu(), x=(3, 4))
        other = executor.reshape(x=(2, 4))
        other.arg_dict["x"][:] = 7
        assert executor.arg_dict["x"].asnumpy()[:, 0].tolist() == [7, 7, 0]

    def test_what_must_be_allowed(self):
        executor = sym.FullyConnected(X, num_hidden=2, name="fc").simple_bind(mx.cpu(), x=(3, 4))
        with pytest.raises(MXNetError, match="set allow_up_sizing=True"):
            executor.reshape(x=(5, 4))
        assert executor.reshape(allow_up_sizing=True, x=(5, 4)).arg_dict["x"].shape == (5, 4)
        with pytest.raises(MXNetError, match="Shape of unspecified array arg:fc_weight changed"):
            executor.reshape(x=(3, 2))
        assert executor.reshape(partial_shaping=True, x=(3, 2)).arg_dict["fc_weight"].shape == (2, 2)
        with pytest.raises(ValueError, match="Insufficient argument shapes"):
            executor.reshape()


def test_monitors():
    net = sym.relu(sym.FullyConnected(X, num_hidden=2, name="fc"), name="r")
    executor = net.simple_bind(mx.cpu(), x=(1, 2))
    executor.arg_dict["x"][:] = 1
    executor.arg_dict["fc_weight"][:] = [[1, 1], [-1, -1]]
    seen = []
    executor.set_monitor_callback(lambda name, array: seen.append((name, values(array))))
    executor.forward(is_train=True)
    assert seen == [("fc_output", [[2, -2]]), ("r_output", [[2, 0]])]
    seen.clear()
    executor.set_monitor_callback(lambda name, array: seen.append(name), monitor_all=True)
    executor.forward()
    inputs = ["x", "fc_data", "fc_weight", "fc_weight", "fc_bias", "fc_bias"]
    assert seen == [*inputs, "fc_output", "r_data", "r_output"]
    assert "Op:FullyConnected, Name=fc" in executor.debug_str()


def test_monitors_see_hidden_outputs():
    executor = sym.BatchNorm(X, name="bn").simple_bind(mx.cpu(), x=(2, 3))
    seen = []
    executor.set_monitor_callback(lambda name, array: seen.append(name))
    executor.forward(is_train=True)
    assert seen == ["bn_output", "bn_mean", "bn_var"]


def test_mistakes():
    executor = (X * 2).simple_bind(mx.cpu(), x=(2,))
    with pytest.raises(TypeError, match=r"Unknown argument y"):
        executor.forward(y=nd.ones((2,)))
    with pytest.raises(ValueError, match=r"Shape not match! Argument x, need: \(2,\), received: \(3,\)"):
        executor.forward(x=nd.ones((3,)))
    assert values(executor.forward(x=np.array([1.0, 2.0]))[0]) == [2, 4]
    with pytest.raises(TypeError, match="Only accept list of NDArrays or dict of str to NDArray"):
        (X * 2).bind(mx.cpu(), [3])
    with pytest.raises(ValueError, match="Duplicate names detected, x, x: give args by name"):
        (sym.var("x") + sym.var("x")).bind(mx.cpu(), [nd.ones((1,)), nd.ones((1,))])
    for grads in (None, [nd.ones((1,))]):
        with pytest.raises(ValueError, match=r"grad_req must be one of \('null', 'write', 'add'\)"):
            (X * 2).bind(mx.cpu(), [nd.ones((1,))], grads, grad_req="wrong")
    for wrong in (3, None, nd.ones((1,))):
        with pytest.raises(TypeError, match="Only accept list of NDArrays or dict of str to NDArray"):
            (X * 2).bind(mx.cpu(), wrong)
    with pytest.raises(MXNetError, match=r"Error in operator \w+: Shape inconsistent, Provided = \[3\]"):
        (X * sym.var("y")).bind(mx.cpu(), [nd.ones((2,)), nd.ones((3,))])
    with pytest.raises(MXNetError, match=r"the gradient of x has the shape \(3,\), but x has \(2,\)"):
        (X * 2).bind(mx.cpu(), [nd.ones((2,))], [nd.ones((3,))])
    with pytest.raises(MXNetError, match=r"copy_params_from: x has the shape \(2,\)"):
        executor.copy_params_from({"x": nd.ones((3,))})
    with pytest.raises(ValueError, match=r"key `x` is missing in `args`"):
        (X * 2).eval(y=nd.ones((1,)))
    with pytest.raises(TypeError, match="eval: x must be an NDArray"):
        (X * 2).eval(x=3)
    net = sym.BatchNorm(X, name="bn")
    with pytest.raises(ValueError, match="key `bn_moving_mean` is missing in `aux_states`"):
        net.bind(mx.cpu(), {name: nd.ones((1,)) for name in net.list_arguments()})


def test_gradients_of_gradients():
    """eval is recorded like any other call, so gradients of every order pass through it."""
    x = nd.array([2.0])
    x.attach_grad()
    with autograd.record():
        (y,) = (X**4).eval(x=x)
        (first,) = autograd.grad(y, [x], create_graph=True)
        (second,) = autograd.grad(first, [x], create_graph=True)
    second.backward()
    assert [values(first), values(second), values(x.grad)] == [[32], [48], [48]]


@pytest.mark.usefixtures("planned")
def test_a_loop_makes_no_new_nodes():
    """Repeating forward and backward finds everything that was made the first time."""
    from phonograd.core.graph.node import statistics

    net = sym.SoftmaxOutput(sym.FullyConnected(sym.tanh(X), num_hidden=3, name="fc"), name="softmax")
    executor = net.simple_bind(mx.cpu(), x=(2, 4))
    counts = []
    for _ in range(4):
        executor.forward(is_train=True)
        executor.backward()
        executor.grad_dict["fc_weight"].wait_to_read()
        counts.append(statistics.nodes)
    assert counts[-1] == counts[-2]


def test_shapes_that_follow_from_use_are_found_once(monkeypatch):
    runs = []
    infer = graph_to_nodes.infer
    monkeypatch.setattr(graph_to_nodes, "infer", lambda *arguments: runs.append(0) or infer(*arguments))
    net = X + sym.zeros((0, 3), name="state")
    for rows in (2, 4, 2):
        for _ in range(3):
            (out,) = net.eval(x=nd.ones((rows, 3)))
            assert out.shape == (rows, 3)
    assert len(runs) == 2
    for rows in range(1, 30):
        assert net.eval(x=nd.ones((rows, 3)))[0].shape == (rows, 3)
    assert len(net._closed) < 10


def test_training():
    generator = np.random.RandomState(0)
    inputs = generator.randn(64, 2).astype("float32")
    labels = (inputs[:, 0] * inputs[:, 1] > 0).astype("float32")
    hidden = sym.Activation(sym.FullyConnected(X, num_hidden=16, name="fc1"), act_type="tanh")
    net = sym.SoftmaxOutput(sym.FullyConnected(hidden, num_hidden=2, name="fc2"), name="softmax")
    executor = net.simple_bind(mx.cpu(), x=(64, 2))
    for array in executor.arg_arrays:
        array[:] = generator.randn(*array.shape) * 0.5
    for _ in range(150):
        executor.forward(is_train=True, x=nd.array(inputs), softmax_label=nd.array(labels))
        executor.backward()
        for name in ("fc1_weight", "fc1_bias", "fc2_weight", "fc2_bias"):
            executor.arg_dict[name][:] -= 0.02 * executor.grad_dict[name]
    assert (executor.forward()[0].asnumpy().argmax(axis=1) == labels).mean() > 0.95


def test_monitors_see_the_gradients_that_operators_compute():
    data = mx.sym.var("data")
    top = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.exp(data, name="e"), num_hidden=3, name="fc"), name="top")
    executor = top.simple_bind(mx.cpu(), data=(2, 4), grad_req={"data": "write", "fc_weight": "write"})
    executor.arg_dict["fc_weight"][:] = 1
    seen = {}
    executor.set_monitor_callback(seen.__setitem__)
    executor.forward(is_train=True)
    assert list(seen) == ["e_output", "fc_output", "top_output"]
    executor.backward()
    assert list(seen)[3:] == ["top_backward_output0", "fc_backward_output0", "fc_backward_output1", "e_backward_output"]
    assert values(seen["e_backward_output"]) == values(executor.grad_dict["data"])
    assert values(seen["fc_backward_output1"]) == values(executor.grad_dict["fc_weight"])


def test_predictions_are_replayed() -> None:
    x, w = mx.sym.var("x"), mx.sym.var("w")
    executor = mx.sym.tanh(mx.sym.dot(x, w)).bind(mx.cpu(), {"x": mx.nd.ones((2, 3)), "w": mx.nd.ones((3, 4))})
    outputs = executor.forward()
    for value in (1.0, 2.0, 0.5):
        executor.arg_dict["w"][:] = value
        found = executor.forward(x=mx.nd.ones((2, 3)) / 10)
        assert found[0] is outputs[0]
        np.testing.assert_allclose(found[0].asnumpy(), np.full((2, 4), np.tanh(np.float32(0.3 * value))), rtol=1e-6)
    assert (executor._predict.captured, executor._predict.repeated) == (1, 3)
    # a view of an output changes with it, as does an output that is written to
    view = outputs[0][:1]
    executor.forward(x=mx.nd.zeros((2, 3)))
    assert view.asnumpy().tolist() == [[0.0] * 4]
    outputs[0][:] = 7
    assert executor.forward()[0].asnumpy().tolist() == [[0.0] * 4] * 2
