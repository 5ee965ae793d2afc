"""Shapes and dtypes of graphs, inferred in both directions."""

import json

import numpy as np
import pytest

import phonograd as mx
from phonograd import sym
from phonograd.core.base.errors import MXNetError

DATA = sym.var("data")


@pytest.mark.parametrize(
    "symbol, shape, arguments, outputs, states",
    [
        (sym.FullyConnected(DATA, num_hidden=3), (2, 4, 5), [(3, 20), (3,)], [(2, 3)], []),
        (sym.FullyConnected(DATA, num_hidden=3, flatten=False), (2, 4, 5), [(3, 5), (3,)], [(2, 4, 3)], []),
        (sym.Convolution(DATA, kernel=(3,), num_filter=6, num_group=2), (2, 4, 5), [(6, 2, 3), (6,)], [(2, 6, 3)], []),
        (
            sym.Convolution(DATA, kernel=(3, 3), num_filter=6, layout="NHWC"),
            (2, 5, 5, 4),
            [(6, 3, 3, 4), (6,)],
            [(2, 3, 3, 6)],
            [],
        ),
        (sym.Deconvolution(DATA, kernel=(2, 2), num_filter=6), (2, 4, 5, 5), [(4, 6, 2, 2)], [(2, 6, 6, 6)], []),
        (sym.BatchNorm(DATA), (2, 4, 5), [(4,), (4,)], [(2, 4, 5)], [(4,), (4,)]),
        (sym.BatchNorm(DATA, axis=-1), (2, 4, 5), [(5,), (5,)], [(2, 4, 5)], [(5,), (5,)]),
        (sym.LayerNorm(DATA), (2, 4, 5), [(5,), (5,)], [(2, 4, 5)], []),
        (sym.InstanceNorm(DATA), (2, 4, 5), [(4,), (4,)], [(2, 4, 5)], []),
        (sym.GroupNorm(DATA, num_groups=2), (2, 4, 5), [(2,), (2,)], [(2, 4, 5)], []),
        (sym.Embedding(DATA, input_dim=9, output_dim=7), (2, 4), [(9, 7)], [(2, 4, 7)], []),
        (sym.LeakyReLU(DATA, act_type="prelu"), (2, 4, 5), [(4,)], [(2, 4, 5)], []),
        (
            sym.RNN(DATA, state_size=3, num_layers=2, mode="lstm", bidirectional=True),
            (5, 2, 4),
            [(480,), (4, 2, 3), (4, 2, 3)],
            [(5, 2, 6)],
            [],
        ),
        (sym.SoftmaxOutput(DATA), (4, 3), [(4,)], [(4, 3)], []),
        (sym.SoftmaxOutput(DATA, multi_output=True), (4, 3, 5), [(4, 5)], [(4, 3, 5)], []),
        (sym.LinearRegressionOutput(DATA), (4, 3), [(4, 3)], [(4, 3)], []),
        (sym.SVMOutput(DATA), (4, 3), [(4,)], [(4, 3)], []),
        (sym.SequenceMask(DATA, use_sequence_length=True), (4, 3), [(3,)], [(4, 3)], []),
        (sym.softmax(DATA, use_length=True), (4, 3), [(4,)], [(4, 3)], []),
        (DATA + sym.var("b"), (4, 3), [(4, 3)], [(4, 3)], []),
        (sym.add_n(DATA, sym.var("b"), sym.var("c")), (4, 3), [(4, 3), (4, 3)], [(4, 3)], []),
    ],
    ids=lambda value: value.name if isinstance(value, sym.Symbol) else "",
)
def test_layers_know_their_weights(symbol, shape, arguments, outputs, states):
    assert symbol.infer_shape(data=shape) == ([shape, *arguments], outputs, states)


def test_positions_and_names():
    net = sym.FullyConnected(DATA, num_hidden=3, name="fc")
    expected = ([(2, 4), (3, 4), (3,)], [(2, 3)], [])
    assert net.infer_shape((2, 4)) == net.infer_shape((2, 4), None) == net.infer_shape(data=(2, 4)) == expected
    with pytest.raises(ValueError, match="either by positional or kwargs way"):
        net.infer_shape((2, 4), data=(2, 4))
    with pytest.raises(ValueError, match="there are 3 arguments"):
        net.infer_shape((1,), (1,), (1,), (1,))
    with pytest.raises(MXNetError, match=r"infer_shape: Keyword argument name dat not found. \(did you mean 'data'"):
        net.infer_shape(dat=(2, 4))
    for wrong in ("ab", None, [2, 4], np.array([2, 4])):
        with pytest.raises(TypeError, match=r"Arguments need to be shapes \(tuple\), but 'data' is"):
            net.infer_shape(data=wrong)
    with pytest.raises(TypeError, match="the shape of data must be a tuple of integers"):
        net.infer_shape(data=(4.5, 2))


def test_contradictions():
    net = sym.FullyConnected(DATA, num_hidden=3, name="fc")
    with pytest.raises(MXNetError, match=r"Error in operator fc: Shape inconsistent, Provided = \[3,5\], inferred"):
        net.infer_shape(data=(2, 4), fc_weight=(3, 5))
    with pytest.raises(MXNetError, match="Error in operator"):
        (DATA + sym.var("b")).infer_shape(data=(2, 1), b=(1, 3))


def test_too_little_is_known():
    net = sym.FullyConnected(DATA, num_hidden=3, name="fc")
    assert net.infer_shape() == (None, None, None)
    assert net.infer_shape(data=(0, 4)) == (None, None, None)
    assert net.infer_shape_partial() == ([(), (), ()], [()], [])
    assert net.infer_shape_partial(data=(0, 4)) == ([(0, 4), (3, 4), (3,)], [(0, 3)], [])
    assert net.infer_type() == (None, None, None)
    assert net.infer_type_partial() == ([None, None, None], [None], [])


def test_extents_that_are_not_known_pass_through():
    part = sym.concat(DATA, sym.var("b"), dim=1)
    assert part.infer_shape_partial(data=(0, 4), b=(0, 5))[1] == [(0, 9)]
    assert sym.transpose(DATA).infer_shape_partial(data=(0, 4))[1] == [(4, 0)]
    assert sym.reshape(DATA, shape=(-1, 2)).infer_shape_partial(data=(3, 4))[1] == [(6, 2)]
    assert sym.sum(DATA, axis=0).infer_shape_partial(data=(0, 4))[1] == [(4,)]
    both = sym.var("a", shape=(2, 0)) + sym.var("b", shape=(0, 3))
    assert both.infer_shape() == ([(2, 3), (2, 3)], [(2, 3)], [])


def test_backwards_through_a_graph():
    """The first state of a cell has the batch of the data, which is known only further on."""
    state = sym.zeros((0, 4), name="state")
    net = sym.FullyConnected(DATA, num_hidden=4) + sym.FullyConnected(sym.tanh(state), num_hidden=4)
    assert net.infer_shape(data=(2, 3))[1] == [(2, 4)]
    assert net.get_internals()["state_output"].infer_shape_partial()[1] == [(0, 4)]
    chain = sym.exp(sym.relu(sym.var("inner"))) + DATA
    assert chain.infer_shape(data=(2, 3)) == ([(2, 3), (2, 3)], [(2, 3)], [])


def test_types():
    net = sym.BatchNorm(sym.FullyConnected(DATA, num_hidden=3))
    half, single = np.float16, np.float32
    assert net.infer_type(data="float16") == ([half, half, half, single, single], [half], [single, single])
    assert sym.Cast(DATA, dtype="int32").infer_type(data="float64")[1] == [np.int32]
    assert sym.Embedding(DATA, input_dim=2, output_dim=2).infer_type(data="int32") == (
        [np.int32, single],
        [single],
        [],
    )
    assert (sym.var("a", dtype="float64") + DATA).infer_type() == ([np.float64, np.float64], [np.float64], [])
    assert (DATA + 1).infer_type(np.float64)[1] == [np.float64]
    assert sym.zeros((2,), dtype="int8").infer_type()[1] == [np.int8]
    with pytest.raises(MXNetError, match="variable x has the invalid shape"):
        sym.var("x", attr={"__shape__": "nope"}).infer_shape()


def test_float64_goes_on_as_any_other_type():
    """To NumPy, float64 and None are equal."""
    for kind in (np.float64, np.float32):
        net = sym.slice_like(sym.FullyConnected(DATA, num_hidden=3), sym.var("like"))
        assert net.infer_type(data=kind, like=kind) == ([kind] * 4, [kind], [])
        net = sym.FullyConnected(sym.relu(DATA), num_hidden=3)
        assert net.infer_type(data=kind)[0] == [kind] * 3
    embedded = sym.Embedding(DATA, sym.var("w"), input_dim=2, output_dim=2)
    assert embedded.infer_type(data="float32", w="float64")[1] == [np.float64]


@pytest.mark.parametrize("kind", ["float64", "int32"])
@pytest.mark.parametrize(
    "symbol",
    [
        DATA + sym.var("other"),
        sym.FullyConnected(DATA, sym.var("other"), no_bias=True, num_hidden=2),
        sym.Convolution(DATA, sym.var("other"), no_bias=True, kernel=(1, 1), num_filter=2),
        sym.concat(DATA, sym.var("other")),
        sym.LayerNorm(DATA, sym.var("other")),
        sym.batch_dot(DATA, sym.var("other")),
    ],
    ids=["+", "FullyConnected", "Convolution", "concat", "LayerNorm", "batch_dot"],
)
def test_types_that_do_not_go_together(symbol, kind):
    with pytest.raises(MXNetError, match=r"Error in operator .*(expected|Expected)"):
        symbol.infer_type(data="float32", other=kind)


@pytest.mark.parametrize("name", ["take", "pick", "reshape_like", "SoftmaxOutput", "slice_like", "gather_nd"])
def test_types_that_may_differ(name):
    types = getattr(sym, name)(DATA, sym.var("other")).infer_type(data="float32", other="int32")
    assert types == ([np.float32, np.int32], [np.float32], [])


@pytest.mark.parametrize("operator", ["Convolution", "Deconvolution"])
@pytest.mark.parametrize("shape", [(4, 6, 7), (4, 6, 7, 8, 9)])
def test_windows_of_another_rank(operator, shape):
    net = getattr(sym, operator)(sym.var("data"), kernel=(3, 3), num_filter=2, name="net")
    with pytest.raises(MXNetError, match="Error in operator net: Input data should be 4D in batch-num_filter-y-x"):
        net.infer_shape(data=shape)


@pytest.mark.parametrize(
    ("function", "out", "data", "found"),
    # as MXNet 1.9.1 finds them
    [
        (lambda x: sym.transpose(x), (2, 5), (0, 0), (5, 2)),
        (lambda x: sym.transpose(x, axes=(1, 2, 0)), (2, 3, 5), (0, 0, 0), (5, 2, 3)),
        (lambda x: sym.expand_dims(x, axis=0), (1, 5, 2), (0, 0), (5, 2)),
        (lambda x: sym.expand_dims(x, axis=-1), (5, 2, 1), (0, 2), (5, 2)),
        (lambda x: sym.reshape(x, shape=(-1, 2)), (10, 2), (0, 4), (5, 4)),
        (lambda x: sym.concat(x, sym.var("other", shape=(0, 2)), dim=1), (2, 5), (0, 3), (2, 3)),
        (lambda x: sym.concat(x, sym.var("other", shape=(4, 2)), dim=-1), (4, 5), (0, 0), (4, 3)),
        (lambda x: sym.Convolution(x, kernel=(3,), num_filter=4), (2, 4, 5), (0, 3, 7), (2, 3, 7)),
        (lambda x: sym.split(x, num_outputs=2)[0], (2, 4, 5), (0, 8, 5), (2, 8, 5)),
        (lambda x: sym.split(x, num_outputs=2, axis=-2, squeeze_axis=True)[1], (2, 5), (0, 2, 5), (2, 2, 5)),
    ],
)
def test_outputs_tell_of_inputs(function, out, data, found):
    graph = sym.elemwise_add(function(sym.var("x", shape=data)), sym.var("known", shape=out))
    shapes, _, _ = graph.infer_shape_partial()
    assert dict(zip(graph.list_arguments(), shapes, strict=True))["x"] == found


def test_what_does_not_fit_stays_open():
    graph = sym.elemwise_add(sym.reshape(sym.var("x", shape=(0, 4)), shape=(-1, 3)), sym.var("known", shape=(2, 3)))
    shapes, _, _ = graph.infer_shape_partial()
    assert dict(zip(graph.list_arguments(), shapes, strict=True))["x"] == (0, 4)


def test_given_shapes_and_dtypes_replace_declared_ones():
    x = mx.sym.var("x", shape=(2, 3), dtype="float64")
    assert (x * 2).infer_shape(x=(4, 3))[1] == [(4, 3)]
    assert (x * 2).infer_type(x="float32")[1] == [np.float32]
    assert (x * 2).simple_bind(mx.cpu(), x=(4, 3)).outputs[0].shape == (4, 3)
    assert (x * 2).bind(mx.cpu(), {"x": mx.nd.ones((4, 3))}).forward()[0].shape == (4, 3)


def test_unknown_parts_with_numpy_shapes():
    dot = mx.sym.dot(mx.sym.var("x"), mx.sym.var("w"))
    dense = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=3, name="fc")
    with mx.util.np_shape(True):
        assert dot.infer_shape_partial() == ([None, None], [None], [])
        assert dot.infer_shape_partial(x=(2, -1)) == ([(2, -1), None], [None], [])
        assert dot.infer_shape(x=(2, -1)) == (None, None, None)
        assert dense.infer_shape_partial(x=(-1, 4)) == ([(-1, 4), (3, 4), (3,)], [(-1, 3)], [])
        # an axis of size zero is known
        assert dense.infer_shape(x=(0, 4)) == ([(0, 4), (3, 4), (3,)], [(0, 3)], [])
        joined = mx.sym.concat(mx.sym.var("x"), mx.sym.var("y"), dim=0)
        assert joined.infer_shape(x=(0, 4), y=(2, 4))[1] == [(2, 4)]
        assert mx.sym.zeros((0, 2)).infer_shape()[1] == [(0, 2)]
        assert (mx.sym.var("x") * 2).infer_shape(x=())[1] == [()]
    assert dot.infer_shape_partial() == ([(), ()], [()], [])
    assert mx.sym.zeros((-1, 2)).infer_shape() == (None, None, None)


def test_files_say_that_shapes_are_those_of_numpy():
    def facts():
        return json.loads((mx.sym.var("x") * 2).tojson())["attrs"]

    assert facts() == {"mxnet_version": ["int", 10901]}
    with mx.util.np_shape(True):
        assert facts() == {"is_np_shape": ["int", 1], "mxnet_version": ["int", 10901]}


@pytest.mark.parametrize(
    "shape, call, expected",
    [
        ((-1, 3), lambda F, x, w: F.np.dot(x, w), (4, 3)),
        ((-1, 3), lambda F, x, w: F.np.matmul(x, w), (4, 3)),
        ((2, -1), lambda F, x, w: F.np.concatenate([x, w], axis=0), (2, 4)),
    ],
    ids=["dot", "matmul", "concatenate"],
)
def test_deferred_parameters_of_mx_np(shape, call, expected):
    class Block(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.weight = self.params.get("weight", shape=shape, allow_deferred_init=True)

        def hybrid_forward(self, F, x, weight):
            return call(F, x, weight)

    mx.npx.set_np()
    try:
        block = Block()
        block.initialize()
        block(mx.np.ones((2, 4)))
        assert block.weight.shape == expected
    finally:
        mx.npx.reset_np()
