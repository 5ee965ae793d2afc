"""Mixed precision: casts, loss scaling, skipped steps, conversion, lists."""

from __future__ import annotations

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
    assert found._dtype == as_dtype(dtype)
    np.testing.assert_allclose(np.asarray(found, "float32"), expected, atol=0.05)
    kept = {name.rpartition("_")[2] for name, p in made.collect_params().items() if as_dtype(p.dtype) == FLOAT32}
    assert kept == {"gamma", "beta", "mean", "var"}


def test_symbols_are_converted() -> None:
    data = mx.sym.var("data")
    whole = mx.sym.exp(mx.sym.FullyConnected(data, num_hidden=2, name="dense"), name="result")
    made = amp.convert_symbol(whole, "bfloat16")
    assert made.tojson(remove_amp_cast=False).count('"op": "amp_cast"') == 4
    assert made.list_arguments() == whole.list_arguments()
    left_out = amp.convert_symbol(whole, "bfloat16", excluded_sym_names=["dense"])
    assert "bfloat16" not in left_out.tojson(remove_amp_cast=False)
    with pytest.raises(mx.base.MXNetError, match="no layer 'danse'"):
        amp.convert_symbol(whole, "bfloat16", excluded_sym_names=["danse"])


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


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="'float16' or 'bfloat16'"):
        amp.init("float64")
    with pytest.raises(mx.base.MXNetError, match="no operator 'FullyConected'"):
        amp.init("bfloat16", target_precision_ops=["FullyConected"])
    trainer = gluon.Trainer([], "sgd")
    with pytest.raises(AssertionError, match="not initialized"):
        amp.init_trainer(trainer)
    with pytest.raises(TypeError, match="Gluon Trainer"):
        amp.init_trainer(mx.optimizer.SGD())


def test_lists_have_the_contents_of_mxnet() -> None:
    half, brain = amp.lists.symbol_fp16, amp.lists.symbol_bf16
    sizes = [len(half.FP16_FUNCS), len(half.FP16_FP32_FUNCS), len(half.FP32_FUNCS), len(half.WIDEST_TYPE_CASTS)]
    assert sizes == [4, 318, 136, 113]
    sizes = [len(brain.BF16_FUNCS), len(brain.BF16_FP32_FUNCS), len(brain.FP32_FUNCS), len(brain.WIDEST_TYPE_CASTS)]
    assert sizes == [2, 15, 438, 109]
    assert amp.list_lp16_use_fp32_params("bfloat16") == brain.BF16_USE_FP32_PARAMS
    assert brain.BF16_USE_FP32_PARAMS["BatchNorm"] == ["", "gamma", "beta", "moving_mean", "moving_var"]
    assert amp.list_lp16_use_fp32_params("float16") is None
    assert amp.list_lp16_ops("bfloat16") == ["Convolution", "FullyConnected"]
    assert amp.list_conditional_fp32_ops("float16")[0] == ("Activation", "act_type", ["softrelu"])
    assert amp.list_loss_output_functions("float16")[0] == "SoftmaxOutput"


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
