"""Symbols as graphs: names, outputs, attributes, composition, arithmetic and what is refused."""

import copy
import inspect
import pickle

import numpy as np
import pytest

import phonograd as mx
from phonograd import nd, sym
from phonograd.core.base.errors import MXNetError


@pytest.fixture(autouse=True)
def fresh_names():
    with mx.name.NameManager():
        yield


def layer(name="fc", **options):
    return sym.FullyConnected(sym.var("data"), num_hidden=3, name=name, **options)


def test_parameters_are_made_for_inputs_left_out():
    assert layer().list_arguments() == ["data", "fc_weight", "fc_bias"]
    assert layer(no_bias=True).list_arguments() == ["data", "fc_weight"]
    assert sym.FullyConnected(num_hidden=2).list_arguments() == [
        "fullyconnected0_data",
        "fullyconnected0_weight",
        "fullyconnected0_bias",
    ]
    own = sym.FullyConnected(sym.var("data"), weight=sym.var("w"), num_hidden=2, name="own")
    assert own.list_arguments() == ["data", "w", "own_bias"]
    norm = sym.BatchNorm(sym.var("data"), name="bn")
    assert norm.list_arguments() == ["data", "bn_gamma", "bn_beta"]
    assert norm.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert norm.list_inputs() == [*norm.list_arguments(), *norm.list_auxiliary_states()]


def test_inputs_that_parameters_decide_on():
    p, l, lengths = sym.var("p"), sym.var("l"), sym.var("lengths")
    for loss in (
        sym.CTCLoss(p, l, label_lengths=lengths, use_label_lengths=True),
        sym.CTCLoss(p, l, None, lengths, use_label_lengths=True),
        sym.CTCLoss(p, l, lengths, use_label_lengths=True),
    ):
        assert loss.list_arguments() == ["p", "l", "lengths"]
        # the second label of the second sample does not count
        found = loss.eval(p=nd.zeros((4, 2, 3)), l=nd.array([[1, 2], [1, 2]]), lengths=nd.array([2, 1]))[0]
        alone = nd.CTCLoss(nd.zeros((4, 1, 3)), nd.array([[1, 0]])).asscalar()
        assert found.asnumpy()[1] == pytest.approx(alone)
    with pytest.raises(MXNetError, match="CTCLoss has no input label_lengths with these parameters"):
        sym.CTCLoss(p, l, label_lengths=lengths)


def test_names():
    x = sym.var("x")
    assert [sym.relu(x).name, sym.relu(x).name, (x + x).name, (x + 1).name] == [
        "relu0",
        "relu1",
        "_plus0",
        "_plusscalar0",
    ]
    with mx.name.Prefix("net_"):
        assert sym.relu(x).name == "net_relu0"
        assert sym.relu(x, name="mine").name == "net_mine"
        assert sym.var("y").name == "y"
    assert sym.contrib.box_nms(x).name == "box_nms0"
    assert sym.linalg.gemm2(x, x).list_outputs() == ["gemm20_output"]


def test_attributes():
    with mx.AttrScope(ctx_group="one", __layer__="1"):
        net = layer()
        with mx.AttrScope(__layer__="2"):
            top = sym.relu(net)
    assert net.attr("__layer__") == "1"
    assert net.attr("ctx_group") == net.attr("__ctx_group__") == "one"
    assert net.attr("nope") is None
    assert top.attr("__layer__") == "2"
    assert net.list_attr()["num_hidden"] == "3"
    assert net.attr_dict()["fc_weight"]["ctx_group"] == "one"
    net._set_attr(__mood__="calm")
    assert net.attr("__mood__") == "calm"
    assert sym.Group([net, top]).attr("__mood__") is None
    assert sym.Group([net, top]).list_attr() == {}
    with pytest.raises(ValueError, match="Set Attr only accepts string values"):
        net._set_attr(a=1)
    with pytest.raises(MXNetError, match="a group of symbols has no attributes"):
        sym.Group([net, top])._set_attr(a="b")
    with pytest.raises(MXNetError, match="Cannot find argument 'mood'"), mx.AttrScope(mood="a"):
        layer()
    with pytest.raises(MXNetError, match="setting variable attributes with weight_lr_mult is deprecated"):
        layer(attr={"weight_lr_mult": "2"})


def test_variables():
    x = sym.var("x", shape=(2, 0), dtype="float16", lr_mult=2, wd_mult=3, init="zeros", stype="default", __kind__="k")
    assert x.list_attr() == {
        "__shape__": "(2, 0)",
        "__dtype__": "2",
        "__lr_mult__": "2",
        "lr_mult": "2",
        "__wd_mult__": "3",
        "wd_mult": "3",
        "__init__": "zeros",
        "__storage_type__": "0",
        "__kind__": "k",
    }
    assert repr(x) == "<Symbol x>"
    with pytest.raises(TypeError, match="Expect a string for variable `name`"):
        sym.var(3)
    with pytest.raises(ValueError, match="Attribute name=kind is not supported"):
        sym.var("x", kind="k")
    with pytest.raises(MXNetError, match="unknown storage type 'coo'; use one of default, row_sparse, csr"):
        sym.var("x", stype="coo")


def test_outputs_can_be_chosen():
    parts = sym.split(sym.var("x"), num_outputs=3, name="s")
    assert len(parts) == 3
    assert parts.name == "s"
    assert [part.list_outputs() for part in parts] == [["s_output0"], ["s_output1"], ["s_output2"]]
    assert parts[1:].list_outputs() == ["s_output1", "s_output2"]
    assert parts[-1].list_outputs() == parts["s_output2"].list_outputs() == ["s_output2"]
    with pytest.raises(IndexError, match="output 3 is out of range: the symbol has 3"):
        parts[3]
    with pytest.raises(ValueError, match=r'Cannot find output that matches name "s_output"'):
        parts["s_output"]
    with pytest.raises(TypeError, match="only support integer index"):
        parts[1.5]
    with pytest.raises(MXNetError, match=r"is a tuple of 3 outputs .*, single value is required"):
        sym.relu(parts)
    twice = sym.Group([sym.var("x"), sym.var("x")])
    with pytest.raises(ValueError, match="multiple outputs with name"):
        twice["x"]


def test_groups():
    x, net = sym.var("x"), layer()
    group = sym.Group([x, sym.Group([net, x])])
    assert group.list_outputs() == ["x", "fc_output", "x"]
    assert group.name is None
    assert repr(group) == "<Symbol group [x, fc, x]>"
    for wrong in ([], [x, 3], "x"):
        with pytest.raises(TypeError, match="Expected a list of symbols as input"):
            sym.Group(wrong)


def test_parts_of_graphs():
    net = sym.relu(layer(), name="top")
    assert net.get_internals().list_outputs() == ["data", "fc_weight", "fc_bias", "fc_output", "top_output"]
    assert net.get_internals()["fc_output"].list_arguments() == ["data", "fc_weight", "fc_bias"]
    assert net.get_children().list_outputs() == ["fc_output"]
    assert net.get_children().get_children().list_outputs() == ["data", "fc_weight", "fc_bias"]
    assert net.get_children()[0].get_children()[0].get_children() is None


class TestComposition:
    def test_arguments_are_replaced(self):
        net = layer()
        other = sym.relu(sym.var("y"), name="r")
        made = net(data=other, fc_bias=sym.var("b"))
        assert made.list_arguments() == ["y", "fc_weight", "b"]
        assert made.name == "fc"
        assert net.list_arguments() == ["data", "fc_weight", "fc_bias"], "a copy is made"
        assert net(data=other, name="new").name == "new"
        assert net(data=net).list_arguments() == ["data", "fc_weight", "fc_bias", "fc_weight", "fc_bias"]

    def test_mistakes(self):
        net = layer()
        with pytest.raises(MXNetError, match=r"Keyword argument name dat not found. \(did you mean 'data'\?\)"):
            net(dat=net)
        with pytest.raises(TypeError, match="Compose expect `Symbol` as arguments"):
            net(data=3)
        with pytest.raises(MXNetError, match="General composition only support kwargs"):
            net(net)
        with pytest.raises(TypeError, match="not both"):
            net(net, data=net)
        with pytest.raises(MXNetError, match="is a tuple, single value is required"):
            net(data=sym.split(sym.var("x"), num_outputs=2))

    def test_copies(self):
        net = layer()
        for other in (copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            assert other.tojson() == net.tojson()
            other._set_attr(__mood__="calm")
            assert net.attr("__mood__") is None


def test_arithmetic_is_that_of_arrays():
    x, y = sym.var("x"), sym.var("y")
    first, second = np.array([3.0, -5.0, 2.0], "float32"), np.array([2.0, 4.0, 2.0], "float32")
    feed = {"x": nd.array(first), "y": nd.array(second)}

    def results(a, b):
        return [
            a + b, a - b, a * b, a / b, a % b, b**a, a + 2, 2 + a, a - 2, 2 - a, a * 3, 3 * a, a / 4, 4 / a, a % 3, 7 % b,
            a**2, 2**a, -a, abs(a), a == b, a != b, a > b, a >= b, a < b, a <= b, a == 2, a != 2, a > 2, a >= 2, a < 2,
            a <= 2,
        ]  # fmt: skip

    for symbol, array in zip(results(x, y), results(*feed.values()), strict=True):
        names = symbol.list_arguments()
        (found,) = symbol.eval(**{name: feed[name] for name in names})
        np.testing.assert_array_equal(found.asnumpy(), array.asnumpy(), err_msg=symbol.name)
    x2 = x
    x2 += 1
    assert x2.list_arguments() == ["x"]
    assert x.name == "x"
    assert [sym.maximum(2, 3), sym.minimum(2, 3), sym.power(2, 3), sym.hypot(3, 4)] == [3, 2, 8, 5]
    for number_first in (sym.maximum(1, x), sym.minimum(1, x), sym.pow(2, x), sym.hypot(2, x)):
        assert number_first.list_arguments() == ["x"]
    for wrong in (lambda: x + "a", lambda: x + None, lambda: sym.maximum(x, "a"), lambda: sym.maximum("a", 1)):
        with pytest.raises(TypeError, match="not supported"):
            wrong()
    with pytest.raises(MXNetError, match=r"Incompatible attr.*expected \[2\], got \[3\]"):
        (x + y).eval(x=nd.ones((2,)), y=nd.ones((3,)))


def test_methods():
    x = sym.var("x")
    assert x.reshape((2, 3)).attr("shape") == x.reshape(2, 3).attr("shape") == x.reshape(shape=(2, 3)).attr("shape")
    assert x.astype("float16").attr("dtype") == "float16"
    assert x.sum(axis=1, keepdims=True).list_attr() == {"axis": "1", "keepdims": "True"}
    assert len(x.split_v2(3)) == 3
    assert x.broadcast_to((2, 3)).attr("shape") == "(2, 3)"
    assert x.as_nd_ndarray() is x
    assert x.slice_axis(axis=0, begin=0, end=None).attr("end") == "None"
    for name in ("asnumpy", "asscalar", "wait_to_read", "copy", "detach", "backward", "as_in_context"):
        with pytest.raises(
            MXNetError, match=f"Function {name} is not implemented for Symbol and only available in NDArray"
        ):
            getattr(x, name)()
    with pytest.raises(MXNetError, match="__bool__"):
        bool(x)
    with pytest.raises(AttributeError, match="'Symbol' object has no attribute 'nope'"):
        x.nope  # noqa: B018 - asking is enough


def test_namespaces():
    x = sym.var("x")
    assert sym.op.relu(x).eval(x=nd.array([-1.0, 2.0]))[0].asnumpy().tolist() == [0, 2]
    assert sym._internal._plus_scalar(x, scalar=2).attr("scalar") == "2"
    assert "FullyConnected" in dir(sym)
    assert "foreach" in dir(sym.contrib)
    for space in (sym, sym.op, sym.contrib, sym.sparse, sym.linalg, sym.image, sym.random):
        assert all([hasattr(space, name) for name in dir(space)]), space
    assert list(inspect.signature(sym.FullyConnected).parameters)[:4] == ["data", "weight", "bias", "num_hidden"]
    assert sym.FullyConnected.__doc__.startswith("Return")
    for space, name in ((sym, "nope"), (sym.contrib, "nope"), (sym.random, "nope"), (sym, "_leaf")):
        with pytest.raises(AttributeError, match="has no"):
            getattr(space, name)


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda x: sym.relu(3), AssertionError, "Argument data must be Symbol instances, but got 3"),
        (lambda x: sym.concat(x, 3), AssertionError, "Positional arguments must be Symbol instances, but got 3"),
        (lambda x: sym.FullyConnected(x), MXNetError, "Required parameter num_hidden of int is not presented"),
        (lambda x: sym.Activation(x, act_type="q"), MXNetError, "Invalid Input: 'q', valid values are"),
        (lambda x: sym.softmax(x, axes=1), MXNetError, r"Cannot find argument 'axes'.*did you mean 'axis'"),
        (lambda x: sym.relu(x, x, x, x, x, x), TypeError, "positional arguments"),
        (lambda x: sym.relu(x, data=x), TypeError, "multiple values for argument 'data'"),
        (lambda x: sym.FullyConnected(x, no_bias=True, bias=x, num_hidden=2), MXNetError, "has no input bias"),
        (lambda x: sym.LeakyReLU(x, x, act_type="elu"), MXNetError, "expects the inputs data, but got 2"),
        (lambda x: sym.LeakyReLU(x, gamma=x, act_type="elu"), MXNetError, "has no input gamma"),
    ],
)
def test_mistakes_in_calls(make, error, message):
    with pytest.raises(error, match=message):
        make(sym.var("x"))


def test_debug_text():
    assert layer().debug_str().splitlines() == [
        "Symbol Outputs:",
        "\toutput[0]=fc(0)",
        "Variable:data",
        "Variable:fc_weight",
        "Variable:fc_bias",
        "--------------------",
        "Op:FullyConnected, Name=fc",
        "Inputs:",
        "\targ[0]=data(0) version=0",
        "\targ[1]=fc_weight(0) version=0",
        "\targ[2]=fc_bias(0) version=0",
        "Attrs:",
        "\tnum_hidden=3",
    ]


def test_new_arrays():
    assert sym.zeros((2, 3)).eval()[0].asnumpy().tolist() == np.zeros((2, 3)).tolist()
    assert sym.ones((2,), dtype="int32").eval()[0].dtype == np.int32
    assert sym.full((2,), 0.5).eval()[0].asnumpy().tolist() == [0.5, 0.5]
    assert sym.arange(1, 6, 2).eval()[0].asnumpy().tolist() == [1, 3, 5]
    assert sym.linspace(0, 1, 3).eval()[0].asnumpy().tolist() == [0, 0.5, 1]
    assert sym.eye(2).eval()[0].asnumpy().tolist() == [[1, 0], [0, 1]]
    pieces = sym.split_v2(sym.arange(6), (2, 3))
    assert [piece.asnumpy().tolist() for piece in pieces.eval()] == [[0, 1], [2], [3, 4, 5]]
    with pytest.raises(ValueError, match="indices_or_sections must either int or tuple of ints"):
        sym.split_v2(sym.arange(6), "a")
    assert sym.zeros((0, 3)).eval()[0].shape == (0, 3)


def test_random_numbers():
    mx.random.seed(7)
    symbol = sym.random.normal(2, 0.5, shape=(1000,))
    (first,), (second,) = symbol.eval(), symbol.eval()
    assert abs(float(first.mean().asscalar()) - 2) < 0.1
    assert not np.array_equal(first.asnumpy(), second.asnumpy())
    mx.random.seed(7)
    np.testing.assert_array_equal(symbol.eval()[0].asnumpy(), first.asnumpy())
    low = sym.var("low")
    (drawn,) = sym.random.uniform(low, low + 1, shape=3).eval(low=nd.array([0.0, 10.0]))
    assert drawn.shape == (2, 3)
    assert (drawn.asnumpy() >= [[0], [10]]).all()
    assert sym.random.randint(0, 5, shape=(2,)).eval()[0].dtype == np.int32
    assert sym.random.uniform_like(low).name == "uniform_like0"
    assert len(sym.random.multinomial(low)) == 2
    for kind in ("poisson", "exponential", "gamma", "negative_binomial", "generalized_negative_binomial"):
        assert getattr(sym.random, kind)(shape=(2, 2)).name == f"_random_{kind}0"
    assert sym.random.randn(2, 3).attr("shape") == "(2, 3)"
    assert sym.random.shuffle(low).name == "_shuffle0"
    parts = sym.Group(sym.contrib.rand_zipfian(low, 6, 5)).eval(low=nd.array([0.0, 3.0]))
    assert [part.shape for part in parts] == [(6,), (2,), (6,)]
    assert set(parts[0].asnumpy().tolist()) <= set(range(5))
    with pytest.raises(AssertionError, match="must all have the same type"):
        sym.random.normal(low, 1)
    with pytest.raises(ValueError, match="must be either Symbol or numbers"):
        sym.random.normal("a", 1)
