"""Mixed precision: casts, loss scaling, skipped steps, conversion, lists."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.contrib import amp
from phonograd.core.base.dtypes import BFLOAT16, FLOAT32, as_dtype
from phonograd.core.graph.operator import REGISTRY

DTYPES = ("bfloat16", "float16")
#: largest difference of the last loss from that of float32, relative to the first loss
MARGIN = 0.02


@pytest.fixture(autouse=True)
def _without_mixed_precision() -> Iterator[None]:
    yield
    amp.amp.reset()


def network() -> gluon.nn.HybridSequential:
    """Return a small convolutional network with the same parameters at each call."""
    mx.random.seed(1)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(4, 3, in_channels=1), gluon.nn.BatchNorm(in_channels=4), gluon.nn.Activation("relu"))
    net.add(gluon.nn.Flatten(), gluon.nn.Dense(8, in_units=64, activation="relu"), gluon.nn.Dense(3, in_units=8))
    net.initialize(mx.init.Xavier())
    return net


def losses(dtype: str | None, hybrid: bool = False) -> list[float]:
    """Return the losses of some training steps."""
    generator = np.random.default_rng(0)
    data, label = nd.array(generator.normal(size=(12, 1, 6, 6))), nd.array(generator.integers(0, 3, 12))
    if dtype is not None:
        amp.init(dtype)
    net = network()
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    if dtype is not None:
        amp.init_trainer(trainer)
        # no step is skipped: the losses of all precisions belong to the same steps
        trainer._amp_loss_scaler._loss_scale = trainer._amp_loss_scaler._next_loss_scale = 64.0
    loss_of, found = gluon.loss.SoftmaxCrossEntropyLoss(), []
    for _ in range(15):
        with autograd.record():
            out = net(data)
            loss = loss_of(out, label)
            if dtype is not None:
                with amp.scale_loss(loss, trainer) as scaled:
                    autograd.backward(scaled)
        if dtype is None:
            loss.backward()
        trainer.step(12)
        found.append(float(loss.mean()))
        assert out._dtype == as_dtype(dtype)
    return found


@pytest.mark.parametrize("dtype", DTYPES)
def test_networks_learn_as_in_float32(dtype: str) -> None:
    single = losses(None)
    mixed = losses(dtype)
    assert abs(mixed[-1] - single[-1]) <= MARGIN * single[0]
    assert losses(dtype, hybrid=True) == mixed


@pytest.mark.parametrize("dtype", DTYPES)
def test_operators_run_in_their_precision(dtype: str) -> None:
    amp.init(dtype)
    x, w = nd.ones((2, 3)), nd.ones((4, 3))
    product = nd.FullyConnected(x, w, num_hidden=4, no_bias=True)
    assert product._dtype == as_dtype(dtype)
    assert nd.exp(product)._dtype == FLOAT32
    assert (product + nd.ones((2, 4)))._dtype == FLOAT32
    assert nd.relu(product)._dtype == as_dtype(dtype)
    assert nd.Activation(product, act_type="softrelu")._dtype == FLOAT32
    amp.amp.reset()
    assert nd.FullyConnected(x, w, num_hidden=4, no_bias=True)._dtype == FLOAT32


def test_casts_are_part_of_the_record() -> None:
    amp.init("bfloat16")
    x = nd.ones((2, 3))
    x.attach_grad()
    with autograd.record():
        y = nd.FullyConnected(x, nd.ones((4, 3)), num_hidden=4, no_bias=True)
    assert '"op": "amp_cast"' in autograd.get_symbol(y).tojson(remove_amp_cast=False)
    y.backward()
    assert x.grad.tolist() == [[4] * 3] * 2
    assert x.grad._dtype == FLOAT32


def test_steps_with_overflow_change_nothing() -> None:
    amp.init("float16")
    net = gluon.nn.Dense(1, in_units=1)
    net.initialize("ones")
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.5})
    amp.init_trainer(trainer)

    def step(factor: float) -> None:
        with autograd.record():
            loss = net(nd.ones((1, 1))) * factor
            with amp.scale_loss(loss, trainer) as scaled:
                autograd.backward(scaled)
        trainer.step(1)

    trainer._amp_loss_scaler._loss_scale = trainer._amp_loss_scaler._next_loss_scale = 64.0
    step(1.0)
    state = [each.asnumpy().copy() for each in trainer._updaters[0].states[0]]
    before, count = net.weight.data().asnumpy(), trainer.optimizer.num_update
    step(float("inf"))
    assert np.array_equal(net.weight.data().asnumpy(), before)
    assert trainer.optimizer.num_update == count
    assert all(np.array_equal(a, b.asnumpy()) for a, b in zip(state, trainer._updaters[0].states[0], strict=True))
    assert trainer._amp_loss_scaler._next_loss_scale == 32.0


def test_scales_that_overflow_for_ever_are_an_error() -> None:
    scaler = amp.loss_scaler.LossScaler()
    parameter = gluon.Parameter("broken_weight", shape=(2,))
    parameter.initialize()
    parameter.grad()[:] = float("nan")
    for _ in range(40):
        assert scaler.has_overflow([parameter])
    with pytest.raises(mx.base.MXNetError, match="broken_weight"):
        scaler.has_overflow([parameter])


def test_unscale_divides_gradients() -> None:
    amp.init("bfloat16")
    net = gluon.nn.Dense(1, in_units=1, use_bias=False)
    net.initialize("ones")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1})
    amp.init_trainer(trainer)
    with autograd.record(), amp.scale_loss(net(nd.ones((1, 1))), trainer) as scaled:
        autograd.backward(scaled)
    amp.unscale(trainer)
    assert net.weight.grad().tolist() == [[1]]
    trainer.step(1)
    assert net.weight.data().tolist() == [[0]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_are_converted(dtype: str) -> None:
    net, x = network(), nd.random.normal(shape=(2, 1, 6, 6))
    with pytest.raises(RuntimeError, match="hybridize"):
        amp.convert_hybrid_block(net, dtype)
    net.hybridize()
    expected = net(x).asnumpy()
    made = amp.convert_hybrid_block(net, dtype, cast_optional_params=True)
    found = made(x)
    assert found._dtype == FLOAT32
    np.testing.assert_allclose(found.asnumpy(), expected, atol=0.05)
    kept = {name.rpartition("_")[2] for name, p in made.collect_params().items() if as_dtype(p.dtype) == FLOAT32}
    assert kept == {"gamma", "beta", "mean", "var"}


def graph_of(symbol: mx.sym.Symbol) -> list[str]:
    """Return the operators of a symbol with their inputs; casts are part of the inputs."""
    nodes = json.loads(symbol.tojson(remove_amp_cast=False))["nodes"]

    def named(place: list[int]) -> str:
        node = nodes[place[0]]
        inside = ", ".join([named(each) for each in node["inputs"]])
        if node["op"] == "amp_cast":
            return f"{node['attrs']['dtype']}({inside})"
        return f"widest({inside})[{place[1]}]" if node["op"] == "amp_multicast" else str(node["name"])

    shown = [node for node in nodes if node["op"] not in ("null", "amp_cast", "amp_multicast")]
    return [f"{node['name']}: {', '.join([named(each) for each in node['inputs']])}" for node in shown]


def test_symbols_have_the_casts_of_mxnet() -> None:
    # the graphs that MXNet 1.9.1 makes of these symbols
    data = mx.sym.var("data")
    convolved = mx.sym.Convolution(data, kernel=(3, 3), num_filter=4, no_bias=True, name="conv")
    normal = mx.sym.Activation(mx.sym.BatchNorm(convolved, name="bn"), act_type="relu", name="relu")
    again = mx.sym.Convolution(normal, kernel=(1, 1), num_filter=4, no_bias=True, name="again")
    summed = mx.sym.elemwise_add(again, mx.sym.exp(normal, name="exp"), name="sum")
    dense = mx.sym.FullyConnected(summed, num_hidden=3, no_bias=True, name="dense")
    joined = mx.sym.broadcast_add(dense, mx.sym.var("other"), name="joined")
    whole = mx.sym.SoftmaxOutput(joined, name="softmax")
    before = [
        "conv: float16(data), float16(conv_weight)",
        "bn: conv, bn_gamma, bn_beta, bn_moving_mean, bn_moving_var",
        "relu: bn",
        "again: relu, float16(again_weight)",
        "exp: float32(relu)",
        "sum: float32(again), exp",
        "dense: float16(sum), float16(dense_weight)",
        "joined: widest(dense, other)[0], widest(dense, other)[1]",
    ]
    made = amp.convert_symbol(whole, "float16")
    assert graph_of(made) == [*before, "softmax: float32(joined), softmax_label"]
    assert made.list_arguments() == whole.list_arguments()
    offline = amp.convert_symbol(whole, "float16", data_names=["data", "softmax_label"], cast_optional_params=True)
    weights = {name for name, attributes in offline.attr_dict().items() if attributes.get("__dtype__") == "2"}
    assert weights == {"conv_weight", "again_weight", "dense_weight"}
    assert graph_of(offline)[0] == "conv: float16(data), conv_weight"
    left_out = graph_of(amp.convert_symbol(whole, "float16", excluded_sym_names=["again"]))
    assert left_out[3] == "again: float32(relu), again_weight"
    with pytest.raises(mx.base.MXNetError, match="no layer 'danse'"):
        amp.convert_symbol(whole, "bfloat16", excluded_sym_names=["danse"])


def test_outputs_of_converted_symbols_are_float32() -> None:
    dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="dense")
    made = amp.convert_symbol(mx.sym.Group([dense, mx.sym.exp(dense)]), "bfloat16")
    executor = made.simple_bind(mx.cpu(), data=(3, 2))
    assert [each._dtype for each in executor.forward()] == [FLOAT32, FLOAT32]
    # a parameter that float32 operators read as well stays float32
    weight = mx.sym.var("weight")
    shared = mx.sym.exp(weight) + mx.sym.FullyConnected(mx.sym.var("data"), weight, num_hidden=2, no_bias=True)
    offline = amp.convert_symbol(shared, "bfloat16", data_names=["data"], cast_optional_params=True)
    assert "__dtype__" not in offline.attr_dict().get("weight", {})
    values = {"data": nd.ones((2, 2)), "weight": nd.ones((2, 2))}
    np.testing.assert_allclose(offline.eval(**values)[0].asnumpy(), 2 + np.e, rtol=1e-6)


def test_symbols_get_casts_as_they_are_made() -> None:
    amp.init("bfloat16")
    x = mx.sym.var("data")
    dense = mx.sym.FullyConnected(x, num_hidden=2, name="dense")
    normal = mx.sym.BatchNorm(mx.sym.Convolution(mx.sym.var("image"), kernel=(1, 1), num_filter=1), name="norm")
    whole = mx.sym.exp(dense + x, name="result")
    kinds = [node["op"] for node in json.loads(whole.tojson(remove_amp_cast=False))["nodes"] if node["op"] != "null"]
    assert kinds == ["amp_cast"] * 3 + ["FullyConnected", "amp_multicast", "elemwise_add", "amp_cast", "exp"]
    assert whole.list_arguments() == ["data", "dense_weight", "dense_bias"]
    assert normal.list_auxiliary_states() == ["norm_moving_mean", "norm_moving_var"]
    executor = whole.simple_bind(mx.cpu(), data=(3, 2))
    assert executor.arg_dict["dense_weight"].shape == (2, 2)
    assert executor.forward(data=nd.ones((3, 2)))[0]._dtype == FLOAT32
    assert "amp_cast" not in whole.tojson()
    amp.amp.reset()
    assert "amp_cast" not in mx.sym.FullyConnected(x, num_hidden=2).tojson(remove_amp_cast=False)


def test_bucketing_modules_are_converted() -> None:
    def layers(key: int) -> tuple[mx.sym.Symbol, list[str], list[str]]:
        summed = mx.sym.sum(mx.sym.var("data"), axis=1, keepdims=True)
        dense = mx.sym.FullyConnected(summed, num_hidden=2, name="dense")
        return mx.sym.SoftmaxOutput(dense, name="softmax"), ["data"], ["softmax_label"]

    def batch(key: int) -> mx.io.DataBatch:
        shapes = {"provide_data": [("data", (4, key))], "provide_label": [("softmax_label", (4,))]}
        return mx.io.DataBatch([nd.ones((4, key))], [nd.zeros((4,))], bucket_key=key, **shapes)

    module = mx.mod.BucketingModule(layers, 5)
    with pytest.raises(mx.base.MXNetError, match="bind and init_params"):
        amp.convert_bucketing_module(module, "bfloat16")
    module.bind([("data", (4, 5))], [("softmax_label", (4,))])
    module.init_params(mx.init.One())
    made = amp.convert_bucketing_module(module, "bfloat16", cast_optional_params=True)
    made.bind([("data", (4, 5))], [("softmax_label", (4,))], for_training=False)
    for key in (5, 3):
        made.forward(batch(key), is_train=False)
        module.forward(batch(key), is_train=False)
        assert "bfloat16" in made.symbol.tojson(remove_amp_cast=False)
        np.testing.assert_allclose(made.get_outputs()[0].asnumpy(), module.get_outputs()[0].asnumpy(), atol=0.01)


def test_layers_of_npx_run_in_mixed_precision() -> None:
    amp.init("bfloat16")
    x, w = mx.np.ones((2, 3)), mx.np.ones((4, 3))
    product = mx.npx.fully_connected(x, w, num_hidden=4, no_bias=True)
    assert product._dtype == BFLOAT16
    # MXNet's lists do not have the functions of mx.np: they take arrays as they are
    assert mx.np.exp(product)._dtype == BFLOAT16
    assert (product + mx.np.ones((2, 4)))._dtype == FLOAT32
    assert mx.npx.relu(product)._dtype == BFLOAT16
    assert mx.npx.softmax(product)._dtype == FLOAT32


def gradient_of_output_layer(**options: float) -> list[float]:
    x = nd.array([[1.0, 2.0, 3.0]])
    x.attach_grad()
    with autograd.record():
        y = nd.LinearRegressionOutput(x, nd.array([[0.0, 1.0, 5.0]]), **options)
    y.backward()
    found: list[float] = (3 * x.grad[0]).tolist()
    return found


def test_gradients_of_output_layers_are_scaled() -> None:
    # their gradients do not depend on the loss that scale_loss multiplies
    assert gradient_of_output_layer() == [1, 1, -2]
    amp.init("bfloat16")
    assert gradient_of_output_layer() == [65536, 65536, -131072]
    assert gradient_of_output_layer(grad_scale=0.5) == [32768, 32768, -65536]
    net = gluon.nn.Dense(1, in_units=1, use_bias=False)
    net.initialize("ones")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1})
    amp.init_trainer(trainer)
    # the first trainer's scale is that of output layers, now and later
    for scale in (4.0, 2.0):
        trainer._amp_loss_scaler._loss_scale = trainer._amp_loss_scaler._next_loss_scale = scale
        assert gradient_of_output_layer() == [scale, scale, -2 * scale]
    other = gluon.Trainer(net.collect_params(), "sgd")
    amp.init_trainer(other)
    other._amp_loss_scaler._loss_scale = 16.0
    assert gradient_of_output_layer() == [2, 2, -4]
    before = float(net.weight.data())
    with autograd.record():
        out = nd.LinearRegressionOutput(net(nd.ones((1, 1))), nd.zeros((1, 1)))
        with amp.scale_loss(out, trainer) as scaled:
            autograd.backward(scaled)
    assert float(net.weight.grad()) == 2 * before
    trainer.step(1)
    assert float(net.weight.data()) == 0
    amp.amp.reset()
    assert gradient_of_output_layer() == [1, 1, -2]


def test_scales_of_hybrid_networks_change() -> None:
    class Network(gluon.HybridBlock):
        def hybrid_forward(self, F, x):  # type: ignore[no-untyped-def]
            return F.LinearRegressionOutput(x, F.zeros_like(x))

    amp.init("bfloat16")
    net, x = Network(), nd.ones((1, 1))
    net.hybridize()
    x.attach_grad()
    assert amp.amp._loss_scaler is not None
    for scale in (4.0, 2.0, 8.0):
        amp.amp._loss_scaler._loss_scale = scale
        for _ in range(4):
            with autograd.record():
                y = net(x)
            y.backward()
            assert float(x.grad) == scale


def test_symbols_of_output_layers_warn(caplog: pytest.LogCaptureFixture) -> None:
    amp.init("bfloat16")
    mx.sym.SoftmaxOutput(mx.sym.var("data"), name="softmax")
    assert "does not support dynamic loss scaling" in caplog.text


def test_scales_follow_the_steps() -> None:
    # loss_scale, _next_loss_scale and _unskipped after each step of MXNet's LossScaler with _scale_seq_len = 3
    scaler = amp.loss_scaler.LossScaler()
    scaler._scale_seq_len = 3
    parameter = gluon.Parameter("weight", shape=(2,))
    parameter.initialize()
    found = []
    for overflows in (False, False, False, False, True, False, True, True, False):
        parameter.grad()[:] = float("inf") if overflows else 1.0
        assert scaler.has_overflow([parameter]) == overflows
        found.append((scaler.loss_scale / 65536, scaler._next_loss_scale / 65536, scaler._unskipped))
    assert found[:5] == [(1, 1, 1), (1, 1, 2), (1, 2, 0), (2, 2, 1), (2, 1, 0)]
    assert found[5:] == [(1, 1, 1), (1, 0.5, 0), (0.5, 0.25, 0), (0.25, 0.25, 1)]
    scaler._loss_scale = scaler._next_loss_scale = 2.0**24
    for _ in range(8):
        scaler.has_overflow([parameter])
    assert scaler.loss_scale == scaler._next_loss_scale == 2.0**24


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="'float16' or 'bfloat16'"):
        amp.init("float64")
    with pytest.raises(mx.base.MXNetError, match="no operator 'FullyConected'"):
        amp.init("bfloat16", target_precision_ops=["FullyConected"])
    with pytest.raises(TypeError, match=r"write \['FullyConnected'\]"):
        amp.init("bfloat16", target_precision_ops="FullyConnected")
    with pytest.raises(mx.base.MXNetError, match=r"'Activation' has no parameter 'act_typ' \(did you mean 'act_type'"):
        amp.init("bfloat16", conditional_fp32_ops=[("Activation", "act_typ", ["relu"])])
    for wrong in ("Activation", ("Activation", "act_type", "relu")):
        with pytest.raises(TypeError, match="for example"):
            amp.init("bfloat16", conditional_fp32_ops=[wrong])
    with pytest.raises(ValueError, match="in two lists"):
        amp.convert_symbol(mx.sym.var("x"), target_dtype_ops=["dot"], fp32_ops=["dot"])
    trainer = gluon.Trainer([], "sgd")
    with pytest.raises(AssertionError, match="not initialized"):
        amp.init_trainer(trainer)
    with pytest.raises(TypeError, match="Gluon Trainer"):
        amp.init_trainer(mx.optimizer.SGD())


#: sha256 of the lists of MXNet 1.9.1 as JSON, for float16 and for bfloat16
DIGESTS = {
    "list_lp16_ops": ("d10516e8381cb742", "a43718e2b20ca34b"),
    "list_fp32_ops": ("50e1237bcd02bee4", "a2d7c7c565c6760e"),
    "list_lp16_fp32_ops": ("dcfdccb43b612c7e", "894a1707b762f556"),
    "list_conditional_fp32_ops": ("a9292b3655ac5359", "a9292b3655ac5359"),
    "list_widest_type_cast": ("1f170a39a1ca7fc4", "e695be9e13f3fc02"),
    "list_loss_output_functions": ("9fd4cc24197ce70e", "9fd4cc24197ce70e"),
    "list_lp16_use_fp32_params": ("74234e98afe7498f", "2a15ce218e268138"),
}


@pytest.mark.parametrize("name", DIGESTS)
def test_lists_have_the_contents_of_mxnet(name: str) -> None:
    words = (("float16", np.float16), ("bfloat16", np.dtype([("bfloat16", np.uint16)])))
    for expected, dtypes in zip(DIGESTS[name], words, strict=True):
        for dtype in dtypes:
            found = json.dumps(getattr(amp, name)(dtype)).encode()
            assert hashlib.sha256(found).hexdigest()[:16] == expected, (name, dtype)
    with pytest.raises(ValueError, match="'float16' or 'bfloat16', not 'float64'"):
        getattr(amp, name)("float64")


def test_modules_of_lists_have_the_names_of_mxnet() -> None:
    half, brain = amp.lists.symbol_fp16, amp.lists.symbol_bf16
    common = {"FP32_FUNCS", "WIDEST_TYPE_CASTS", "CONDITIONAL_FP32_FUNCS", "LOSS_OUTPUT_FUNCTIONS"}
    found = [{name for name in vars(module) if name.isupper() and name[0] != "_"} for module in (half, brain)]
    assert found == [
        common | {"FP16_FUNCS", "FP16_FP32_FUNCS"},
        common | {"BF16_FUNCS", "BF16_FP32_FUNCS", "BF16_USE_FP32_PARAMS"},
    ]
    assert amp.list_lp16_ops("bfloat16") is brain.BF16_FUNCS
    assert amp.list_fp32_ops("float16") is half.FP32_FUNCS


def test_facts_of_the_registry_agree_with_mxnets_lists() -> None:
    half = amp.lists.symbol_fp16
    kinds = {"low": half.FP16_FUNCS, "float32": half.FP32_FUNCS, "widest": half.WIDEST_TYPE_CASTS}
    kinds[""] = half.FP16_FP32_FUNCS
    different = {
        (name, amp.lists.precision_of(REGISTRY[name]), precision)
        for precision, names in kinds.items()
        for name in names
        if name in REGISTRY and amp.lists.precision_of(REGISTRY[name]) != precision
    }
    # an operator of one array and a number runs in the dtype of the array, whether it is called the widest or not
    different = {each for each in different if REGISTRY[each[0]].form_of is None or each[2] == "float32"}
    assert different == {
        # the same operator as Convolution here
        ("Convolution_v1", "low", "float32"),
        # a form of the quotient, which is computed in float32 and rounded once
        ("_rdiv_scalar", "widest", "float32"),
        ("_RDivScalar", "widest", "float32"),
    }
    assert amp.lists.conditional_names() == half.CONDITIONAL_FP32_FUNCS


def test_mxnets_choice_of_operators_is_accepted() -> None:
    amp.init("bfloat16", amp.list_lp16_ops("bfloat16"), None, amp.list_fp32_ops("bfloat16"))
    product = nd.FullyConnected(nd.ones((2, 3)), nd.ones((4, 3)), num_hidden=4, no_bias=True)
    assert product._dtype == BFLOAT16
    assert nd.Dropout(product)._dtype == FLOAT32
    assert nd.relu(product)._dtype == BFLOAT16


def test_masters_of_bfloat16_weights_are_float32() -> None:
    optimizer = mx.optimizer.create("sgd", learning_rate=1e-3, momentum=0.9, multi_precision=True)
    weight = nd.ones((2,), dtype="bfloat16")
    state = optimizer.create_state_multi_precision(0, weight)
    for _ in range(20):
        optimizer.update_multi_precision(0, weight, nd.ones((2,), dtype="bfloat16"), state)
    assert weight._dtype == BFLOAT16
    assert float(weight[0]) < 0.95


_SWITCHED = """
from phonograd import nd
from phonograd.contrib import amp

x, weight, bias = nd.ones((3, 5)), nd.ones((4, 5)), nd.ones((4,))


def found(start, count):
    # known calls, and new ones of a known kind
    dtypes = set()
    for number in range(start, start + count):
        y = x
        for _ in range(number):
            y = nd.tanh(y)
        for dense in (nd.FullyConnected(y, weight, bias, num_hidden=4), nd.FullyConnected(x, weight, bias, num_hidden=4)):
            dtypes.add(str(dense.dtype))
            dense.wait_to_read()
    return dtypes


assert found(0, 25) == {"<class 'numpy.float32'>"}
assert type(nd.FullyConnected).__name__ == "OperatorFunction"
amp.init("bfloat16")
assert found(25, 5) == {"[('bfloat16', '<u2')]"}
amp.amp.reset()
assert found(30, 5) == {"<class 'numpy.float32'>"}
"""


def test_calls_that_are_machine_code_change_their_precision() -> None:
    pytest.importorskip("llvmlite")
    native_call = pytest.importorskip("phonograd.core.array.fastcall.native_call")
    if not native_call.possible():
        pytest.skip("this interpreter runs calls in Python")
    environment = {**os.environ, "PHONOGRAD_EXECUTOR": "native", "PHONOGRAD_TIERS": "blocking"}
    subprocess.run([sys.executable, "-c", _SWITCHED], env=environment, check=True)
