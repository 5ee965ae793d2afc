"""get_symbol: a record as a named graph; and what such a graph can do."""

import json

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError

from .arrays import close, values, variable


def symbol_of(function, *arrays):
    with autograd.record():
        return autograd.get_symbol(function(*arrays))


def operators(symbol):
    """Return (operator, attributes) of every node that is no argument."""
    nodes = json.loads(symbol.tojson())["nodes"]
    return [(node["op"], node.get("attrs", {})) for node in nodes if node["op"] != "null"]


def test_arguments_are_counted_once():
    x, z = variable([1.0, 2.0]), variable([1.0, 2.0])
    assert len(symbol_of(lambda: x * x + 2 * x - 1).list_arguments()) == 1
    assert len(symbol_of(lambda: x * x + 2 * z - 1).list_arguments()) == 2
    constant = nd.ones((2,))
    names = symbol_of(lambda: x * constant + constant).list_arguments()
    assert [name.rstrip("0123456789") for name in names] == ["var", "null"]


def test_names():
    x = variable([1.0, 2.0])
    with autograd.record():
        y = x * x
    symbol = autograd.get_symbol(y)
    assert symbol.name.startswith("node_")
    assert symbol.list_outputs() == [f"{symbol.name}_output"]
    assert repr(symbol) == f"<Symbol {symbol.name}>"
    assert autograd.get_symbol(y).list_arguments() == symbol.list_arguments(), "names stay"
    assert autograd.get_symbol(y).name == symbol.name
    single = autograd.get_symbol(x)
    assert single.list_arguments() == single.list_outputs() == [single.name] == symbol.list_arguments()
    assert single.get_children() is None
    other = variable([1.0])
    assert autograd.get_symbol(other).name != single.name


def test_the_json_form():
    x, w = variable(np.ones((2, 3))), variable(np.ones((2, 3)))
    graph = json.loads(symbol_of(lambda: x * w + 2 * w).tojson())
    assert [node["op"] for node in graph["nodes"]] == ["null", "null", "broadcast_mul", "_mul_scalar", "broadcast_add"]
    assert graph["nodes"][3]["attrs"] == {"scalar": "2.0"}
    assert "attrs" not in graph["nodes"][2]
    assert [node["inputs"] for node in graph["nodes"]] == [
        [],
        [],
        [[0, 0, 0], [1, 0, 0]],
        [[1, 0, 0]],
        [[2, 0, 0], [3, 0, 0]],
    ]
    assert graph["arg_nodes"] == [0, 1]
    assert graph["node_row_ptr"] == [0, 1, 2, 3, 4, 5]
    assert graph["heads"] == [[4, 0, 0]]
    assert graph["attrs"] == {"mxnet_version": ["int", 10901]}


@pytest.mark.parametrize(
    "function, expected",
    [
        (lambda x: x + x, [("broadcast_add", {})]),
        (lambda x: 3 - x, [("_rminus_scalar", {"scalar": "3.0"})]),
        (lambda x: x / 4, [("_div_scalar", {"scalar": "4.0"})]),
        (lambda x: 4 / x, [("_rdiv_scalar", {"scalar": "4.0"})]),
        (lambda x: x % 4, [("_mod_scalar", {"scalar": "4.0"})]),
        (lambda x: 4 % x, [("_rmod_scalar", {"scalar": "4.0"})]),
        (lambda x: x**2, [("_power_scalar", {"scalar": "2.0"})]),
        (lambda x: x**2.5, [("_power_scalar", {"scalar": "2.5"})]),
        (lambda x: 2**x, [("_rpower_scalar", {"scalar": "2.0"})]),
        (lambda x: x > 1, [("_greater_scalar", {"scalar": "1.0"})]),
        (
            lambda x: 1 > x,  # noqa: SIM300 - the number comes first
            [("_lesser_scalar", {"scalar": "1.0"})],
        ),
        (lambda x: x == x, [("broadcast_equal", {})]),
        (lambda x: x[0:1], [("slice", {"begin": "0", "end": "1"})]),
        (lambda x: x[1], [("slice", {"begin": "1", "end": "2"}), ("Reshape", {"shape": "[3]"})]),
        (lambda x: x[:, 1:3], [("slice", {"begin": "(None, 1)", "end": "(None, 3)"})]),
        (lambda x: x[:, ::2], [("slice", {"begin": "(None, None)", "end": "(None, None)", "step": "(1, 2)"})]),
        (lambda x: x[:, ::-1], [("slice", {"begin": "(None, None)", "end": "(None, None)", "step": "(1, -1)"})]),
        (lambda x: x.reshape((3, 2)), [("Reshape", {"shape": "[3,2]"})]),
        (lambda x: x.copy(), [("_copyto", {})]),
        (lambda x: x.astype("float64"), [("Cast", {"dtype": "float64"})]),
        (lambda x: nd.split(x, num_outputs=3, axis=1)[1], [("SliceChannel", {"num_outputs": "3"})]),
        (lambda x: nd.concat(x, x, dim=0), [("Concat", {"dim": "0", "num_args": "2"})]),
        (lambda x: x.sum(axis=1), [("sum", {"axis": "1"})]),
        (lambda x: nd.Activation(x, act_type="relu"), [("Activation", {"act_type": "relu"})]),
        (lambda x: nd.Dropout(x, p=0.3), [("Dropout", {"p": "0.3"})]),
        (lambda x: nd.maximum(x, 0), [("_maximum_scalar", {"scalar": "0.0"})]),
    ],
)
def test_operators_are_called_as_mxnet_calls_them(function, expected):
    assert operators(symbol_of(function, variable(np.ones((2, 3))))) == expected


def test_one_output_of_several():
    x = variable(np.ones((2, 3)))
    with autograd.record():
        parts = nd.split(x, num_outputs=3, axis=1)
        y = parts[0] * parts[2]
    symbol = autograd.get_symbol(parts[1])
    assert symbol.list_outputs() == [f"{symbol.name}_output1"]
    graph = json.loads(autograd.get_symbol(y).tojson())
    assert graph["node_row_ptr"] == [0, 1, 4, 5]
    assert graph["nodes"][-1]["inputs"] == [[1, 0, 0], [1, 2, 0]]


def test_functions_and_hooks():
    class Product(autograd.Function):
        def forward(self, x, y):
            return x * y

        def backward(self, dz):
            return dz, dz

    x, y = variable([1.0]), variable([1.0])
    with autograd.record():
        h = Product()(x, y)
        autograd.register_hook(h, lambda g: None)
        z = h * 2
    symbol = autograd.get_symbol(z)
    assert [name for name, _ in operators(symbol)] == ["_CustomFunction", "_mul_scalar"]
    assert len(symbol.list_arguments()) == 2
    with pytest.raises(
        MXNetError, match=r"Error in operator node_.*: a _CustomFunction can be listed, but not computed"
    ):
        symbol.eval(**{name: nd.ones((1,)) for name in symbol.list_arguments()})


def test_a_record_through_several_traces():
    x = variable([1.0, 2.0])
    with autograd.record():
        h = nd.sin(x)
    h.wait_to_read()
    with autograd.record():
        y = nd.exp(h) * x
    symbol = autograd.get_symbol(y)
    assert [name for name, _ in operators(symbol)] == ["sin", "exp", "broadcast_mul"]
    assert len(symbol.list_arguments()) == 1


def test_gradients_have_symbols():
    x = variable([0.5])
    with autograd.record():
        (first,) = autograd.grad(nd.sin(x), x, create_graph=True)
    symbol = autograd.get_symbol(first)
    assert ("cos", {}) in operators(symbol)
    assert autograd.get_symbol(x).name in symbol.list_arguments()


def test_errors():
    for wrong in (3, None, np.ones(1)):
        with pytest.raises(
            AssertionError, match=r"get_symbol: Invalid argument type, expecting <class .*NDArray.*, got <class"
        ):
            autograd.get_symbol(wrong)
    x = variable([1.0])
    with autograd.record():
        y = x * 2
    y.backward()
    for plain in (y, nd.ones((1,)), x * 2, x.detach()):
        with pytest.raises(MXNetError) as error:
            autograd.get_symbol(plain)
        assert str(error.value) == "NDArray is not part of a computation graph. Did you forget to turn on recording?"


def test_a_very_deep_record():
    x = variable([1.0])
    with autograd.record():
        y = x
        for _ in range(5_000):
            y = y * 1.0
    symbol = autograd.get_symbol(y)
    assert len(symbol.get_internals()) == 5_001
    assert values(symbol.eval(**{symbol.list_arguments()[0]: nd.array([3.0])})[0]) == [3]


# -- computing with it


def test_shapes():
    x, w = variable(np.ones((2, 3))), variable(np.ones((4, 3)))
    symbol = symbol_of(lambda: nd.FullyConnected(x, w, no_bias=True, num_hidden=4).sum(axis=1))
    first, second = symbol.list_arguments()
    assert symbol.infer_shape(**{first: (5, 3), second: (4, 3)}) == ([(5, 3), (4, 3)], [(5,)], [])
    assert symbol.infer_shape((5, 3), (4, 3)) == ([(5, 3), (4, 3)], [(5,)], [])
    assert symbol.infer_shape(**{first: (5, 3)}) == ([(5, 3), (4, 3)], [(5,)], [])
    assert symbol.infer_shape(**{second: (4, 3)}) == (None, None, None)
    with pytest.raises(MXNetError, match="Error in operator node_"):
        symbol.infer_shape((5, 3), (4, 2))
    with pytest.raises(MXNetError, match="Keyword argument name c not found"):
        symbol.infer_shape(c=(1,))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nd.softmax(x, axis=0) / x - 1,
        lambda x: x[1] * x[0:1].reshape((3,)) + x[:, 1:2].sum(),
        lambda x: nd.split(x, num_outputs=3, axis=1)[1] ** 2,
        lambda x: nd.concat(x, x.T.reshape((2, 3)), dim=0),
        lambda x: x.astype("float64").astype("float32") + x.copy(),
        lambda x: nd.where(x > 0.3, x, -x),
        lambda x: nd.maximum(x, 0.4) % 0.3,
        lambda x: x[::-1] + x[[1, 0]],
        lambda x: nd.Pooling(x.reshape((1, 1, 2, 3)), kernel=(2, 2), pool_type="avg"),
        lambda x: nd.clip(x, 0.2, 0.5).mean(axis=(0, 1)),
    ],
)
def test_values(function):
    x = variable(np.linspace(0.1, 0.9, 6).reshape((2, 3)))
    symbol = symbol_of(function, x)
    other = nd.array(np.linspace(0.9, 0.3, 6).reshape((2, 3)))
    feed = {autograd.get_symbol(x).name: other}
    for name in symbol.list_arguments():
        feed.setdefault(name, nd.array([1, 0], dtype="int64"))
    (result,) = symbol.eval(ctx=mx.cpu(), **feed)
    close(result, function(other).asnumpy())


def test_evaluation_can_be_recorded():
    x = variable([2.0])
    symbol = symbol_of(lambda: x * x * x)
    point = variable([5.0])
    with autograd.record():
        (result,) = symbol.eval(**{symbol.list_arguments()[0]: point})
    result.backward()
    assert values(point.grad) == [75]
    with pytest.raises(ValueError, match="is missing in `args`"):
        symbol.eval()


def test_composing():
    x = variable([2.0])
    symbol = symbol_of(lambda: x * x)
    name = symbol.list_arguments()[0]
    composed = -(((1 + symbol - 2) * 3 / 4 % 5) ** 2) + 2 / symbol + 2**symbol + (7 - symbol) % 6 + 7 % symbol
    composed = composed + symbol * symbol / symbol - symbol**symbol % symbol
    assert composed.list_arguments() == [name]
    y = np.array([9.0])
    expected = -(((1 + y - 2) * 3 / 4 % 5) ** 2) + 2 / y + 2**y + (7 - y) % 6 + 7 % y + y - y**y % y
    close(composed.eval(**{name: nd.array([3.0])})[0], expected)
    assert (symbol + 1).list_outputs()[0].startswith("_plusscalar")
    with pytest.raises(TypeError):
        symbol + "a"


def test_parts():
    x = variable([2.0])
    symbol = symbol_of(lambda: nd.sin(x) * 3)
    internals = symbol.get_internals()
    assert len(internals) == 3
    assert [part.name for part in internals][-1] == symbol.name
    assert internals[symbol.list_outputs()[0]].name == symbol.name
    assert symbol.get_children().list_outputs() == internals[1].list_outputs()
    assert symbol.attr("scalar") == "3.0"
    assert symbol.attr("other") is None
    assert symbol.list_attr() == {"scalar": "3.0"}
    assert symbol.attr_dict() == {symbol.name: {"scalar": "3.0"}}
    assert symbol.list_auxiliary_states() == []
    assert repr(internals).startswith("<Symbol group [")
    with pytest.raises(ValueError, match='Cannot find output that matches name "nope"'):
        internals["nope"]


def test_executors():
    x, w = variable([2.0]), variable([3.0])
    symbol = symbol_of(lambda: x * x * w)
    first, second = symbol.list_arguments()
    arrays = {first: nd.array([5.0]), second: nd.array([7.0])}
    executor = symbol.bind(mx.cpu(), arrays, {first: nd.zeros((1,))}, grad_req={first: "add"})
    assert executor.arg_dict == arrays
    assert executor.grad_arrays[1] is None
    assert values(executor.forward()[0]) == [175]
    executor.backward(nd.ones((1,)))
    assert values(executor.grad_dict[first]) == [70]
    for count in (2, 3):
        executor.forward(is_train=True)
        executor.backward(nd.ones((1,)))
        assert values(executor.grad_dict[first]) == [70 * count]
    assert values(executor.output_dict[symbol.list_outputs()[0]]) == [175]
    executor.forward(is_train=False, **{first: nd.array([1.0])})
    assert values(executor.outputs) == [[7]]
    assert values(arrays[first]) == [1]
    assert x.grad.asscalar() == 0
    with pytest.raises(TypeError, match="Unknown argument"):
        executor.forward(nope=nd.ones((1,)))
    with pytest.raises(ValueError, match="is missing in `args`"):
        symbol.bind(mx.cpu(), {first: nd.ones((1,))})
    with pytest.raises(ValueError, match="does not match the number of arguments"):
        symbol.bind(mx.cpu(), [nd.ones((1,))])
    simple = symbol.simple_bind(mx.cpu(), **{first: (1,), second: (1,)})
    simple.forward(is_train=True, **{first: nd.array([2.0]), second: nd.array([4.0])})
    simple.backward()
    assert [values(g) for g in simple.grad_arrays] == [[16], [4]]
