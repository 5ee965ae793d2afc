"""Initialisers, metrics, helpers for data, and the names that programs import."""

from __future__ import annotations

import hashlib
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn
from phonograd.gluon.utils import check_sha1, clip_global_norm, download, split_and_load, split_data

# -- initialisers


@pytest.mark.parametrize(
    "name",
    [
        "zeros",
        "ones",
        "zero",
        "one",
        "uniform",
        "normal",
        "xavier",
        "msraprelu",
        "orthogonal",
        '["constant", {"value": 2}]',
    ],
)
def test_initializers_by_name(name: str) -> None:
    net = nn.Dense(3, in_units=4, weight_initializer=name)
    net.initialize()
    assert np.isfinite(net.weight.data().asnumpy()).all()
    assert mx.init.create(mx.init.create(name).dumps()) == mx.init.create(name)


def test_orthogonal() -> None:
    weight = nd.zeros((3, 2, 4))
    mx.init.Orthogonal(scale=2.0)(mx.init.InitDesc("a_weight"), weight)
    rows = weight.asnumpy().reshape(3, 8)
    np.testing.assert_allclose(rows @ rows.T, 4 * np.eye(3), atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_dtypes_of_weights(dtype: str) -> None:
    net = nn.Dense(3, in_units=4, dtype=dtype)
    net.initialize(mx.init.Xavier())
    assert net.weight.data().dtype == np.dtype(dtype)
    assert net.weight.data().asnumpy().std() > 0


def test_mixed_and_load() -> None:
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(2, in_units=2, bias_initializer=None), nn.Dense(2, in_units=2, use_bias=False))
    net.initialize(mx.init.Mixed([".*bias", ".*0_weight", ".*"], [mx.init.Zero(), mx.init.One(), mx.init.Constant(5)]))
    assert [p.data().asnumpy().flat[0] for p in net.collect_params().values()] == [1, 0, 5]
    saved = {"arg:net_dense0_weight": nd.full((2, 2), 9)}
    net.initialize(mx.init.Load(saved, default_init=mx.init.Constant(4)), force_reinit=True)
    assert [p.data().asnumpy().flat[0] for p in net.collect_params().values()] == [9, 0, 4]
    with pytest.raises(ValueError, match="did not match any pattern"):
        nn.Dense(2, in_units=2).initialize(mx.init.Mixed(["x"], [mx.init.Zero()]))
    with pytest.raises(AssertionError, match="no default Initializer is provided"):
        mx.init.Load({})("a", nd.zeros((1,)))


def test_plain_names_are_deprecated() -> None:
    arrays = {"conv_weight": 3, "conv_bias": 0, "bn_gamma": 1, "bn_moving_var": 1, "bn_moving_mean": 0}
    for name, expected in arrays.items():
        array = nd.full((2,), 7)
        with pytest.warns(DeprecationWarning, match="has been deprecated"):
            mx.init.Constant(3)(name, array)
        assert array.asnumpy().tolist() == [expected] * 2
    with pytest.raises(ValueError, match="Unknown initialization pattern for x"):
        mx.init.One()(mx.init.InitDesc("x"), nd.zeros((1,)))
    with pytest.raises(ValueError, match="It requires at least 2D"):
        mx.init.Xavier()(mx.init.InitDesc("x_weight"), nd.zeros((1,)))
    with pytest.raises(ValueError, match=r"Bilinear initializer needs four axes, but x_weight has shape \(2, 3\)"):
        mx.init.Bilinear()(mx.init.InitDesc("x_weight"), nd.zeros((2, 3)))
    with pytest.raises(AssertionError, match="xaver is not registered"):
        mx.init.create("xaver")


def test_own_initializers() -> None:
    @mx.init.register
    class Counted(mx.init.Initializer):
        def _init_weight(self, name: str, arr: Any) -> None:
            arr[:] = nd.arange(arr.size).reshape(arr.shape)

    net = nn.Dense(2, in_units=2, weight_initializer="counted")
    net.initialize()
    assert net.weight.data().asnumpy().tolist() == [[0, 1], [2, 3]]


def test_verbosity(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        nn.Dense(2, in_units=2, prefix="net_").initialize(mx.init.Constant(2), verbose=True)
    assert "Initialized net_weight as" in caplog.text


def test_fused_recurrent_weights() -> None:
    init = mx.init.FusedRNN(mx.init.Constant(2.0), 3, 2, "lstm", True, forget_bias=5.0)
    weights, biases = 2 * (12 * 4 + 12 * 3) + 2 * (12 * 6 + 12 * 3), 8 * 12
    vector = nd.zeros((weights + biases,))
    init(mx.init.InitDesc("x_weight", {"__init__": init.dumps()}), vector)
    values = vector.asnumpy()
    assert (values[:weights] == 2).all()
    assert values[weights : weights + 12].tolist() == [0, 0, 0, 5, 5, 5, 0, 0, 0, 0, 0, 0]


# -- metrics


def test_metrics_by_name() -> None:
    for name in ("acc", "accuracy", "ce", "nll_loss", "f1", "mcc", "mae", "mse", "rmse", "pearsonr", "loss", "pcc"):
        assert np.isnan(mx.metric.create(name).get()[1])
    assert mx.metric.create("top_k_acc", top_k=3).name == "top_k_accuracy_3"
    metric = mx.metric.create(lambda label, pred: 1.0)
    assert metric.name == "custom(<lambda>)"
    assert mx.metric.create(metric) is metric
    with pytest.raises(NotImplementedError, match="cannot be serialized"):
        metric.get_config()
    config = mx.metric.Accuracy(axis=2, name="mine").get_config()
    assert mx.metric.create(config).axis == 2
    assert str(mx.metric.MAE()) == "EvalMetric: {'mae': nan}"


class Counted(mx.metric.EvalMetric):
    """A metric that adds up what it is given."""

    def update(self, labels: Any, preds: Any) -> None:
        self.sum_metric += preds
        self.num_inst += 2


@pytest.mark.parametrize("value", [3, np.float64(3), np.float32(3), np.array([3.0])])
def test_metrics_of_numbers_of_numpy(value: Any) -> None:
    metric = Counted("mine")
    metric.update(None, value)
    assert str(metric) == "EvalMetric: {'mine': 1.5}"
    assert type(metric.get()[1]) is float


def test_metrics_check_shapes() -> None:
    with pytest.raises(ValueError, match="Shape of labels 2 does not match shape of predictions 1"):
        mx.metric.Accuracy().update([nd.ones((1,))] * 2, [nd.ones((1,))])
    with pytest.raises(AssertionError, match="Please use Accuracy if top_k is no more than 1"):
        mx.metric.TopKAccuracy()
    with pytest.raises(ValueError, match="only supports binary"):
        mx.metric.F1().update([nd.array([0, 1, 2])], [nd.ones((3, 2))])


def test_metrics_by_names_of_outputs() -> None:
    metric = mx.metric.MAE(output_names=["b"], label_names=["y"])
    metric.update_dict({"x": nd.zeros((2,)), "y": nd.ones((2,))}, {"a": nd.zeros((2,)), "b": nd.full((2,), 3)})
    assert metric.get() == ("mae", 2.0)
    both = mx.metric.CompositeEvalMetric([mx.metric.MAE(), "mse"])
    both.update_dict({"x": nd.zeros((2,))}, {"a": nd.full((2,), 3)})
    assert both.get() == (["mae", "mse"], [3.0, 9.0])
    assert both.get_name_value() == [("mae", 3.0), ("mse", 9.0)]
    assert both.get_metric(1).get() == ("mse", 9.0)
    assert [part["metric"] for part in both.get_config()["metrics"]] == ["MAE", "MSE"]


def test_correlation_of_all_batches() -> None:
    rng = np.random.RandomState(0)
    label, pred = rng.rand(3, 10), rng.rand(3, 10)
    metric = mx.metric.PearsonCorrelation(average="micro")
    for one, other in zip(label, pred):
        metric.update([nd.array(one, dtype="float64")], [nd.array(other, dtype="float64")])
    assert metric.get()[1] == pytest.approx(np.corrcoef(label.ravel(), pred.ravel())[0, 1])
    metric.reset()
    metric.update([nd.array([1, 2, 3])], [nd.array([2, 2, 2])])
    assert np.isnan(metric.get()[1])


# -- helpers


def test_split_data() -> None:
    x = nd.arange(12).reshape((6, 2))
    assert [part.shape for part in split_data(x, 3)] == [(2, 2)] * 3
    assert [part.asnumpy()[0].tolist() for part in split_data(x, 2, batch_axis=1)] == [[0], [1]]
    with pytest.raises(ValueError, match="cannot be evenly split into 4 slices"):
        split_data(x, 4)
    parts = split_and_load(x.asnumpy(), [mx.cpu(0), mx.cpu(1)], even_split=False)
    assert [part.context for part in parts] == [mx.cpu(0), mx.cpu(1)]
    assert split_and_load(x, [mx.cpu(1)])[0].context == mx.cpu(1)


def test_clip_global_norm() -> None:
    arrays = [nd.full((2, 2), 3), nd.full((4,), 4)]
    assert clip_global_norm(arrays, 5.0) == pytest.approx(10)
    assert np.sqrt(sum((a.asnumpy() ** 2).sum() for a in arrays)) == pytest.approx(5, rel=1e-6)
    before = arrays[0].asnumpy()
    norm = clip_global_norm(arrays, 100.0, check_isfinite=False)
    assert norm.asscalar() == pytest.approx(5)
    assert np.array_equal(arrays[0].asnumpy(), before)
    with pytest.warns(UserWarning, match="nan or inf is detected"):
        clip_global_norm([nd.array([np.inf])], 1.0)


def test_clipped_gradients_are_trained() -> None:
    net = nn.Dense(1, in_units=2, use_bias=False)
    net.initialize("ones")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0})
    with autograd.record():
        loss = net(nd.array([[3.0, 4.0]])).sum()
    loss.backward()
    clip_global_norm([p.grad() for p in net.collect_params().values()], 1.0)
    trainer.step(1)
    np.testing.assert_allclose(net.weight.data().asnumpy(), [[0.4, 0.2]], rtol=1e-5)


def test_download(tmp_path: Path) -> None:
    target = tmp_path / "here.txt"
    with pytest.raises(OSError, match=r"could not be downloaded .* put the file at .*here\.txt.* by hand"):
        download("http://localhost:9/none.txt", str(target))
    target.write_bytes(b"text")
    digest = hashlib.sha1(b"text").hexdigest()
    assert download("http://localhost:9/none.txt", str(target), sha1_hash=digest) == str(target)
    assert check_sha1(str(target), digest)
    source = tmp_path / "source.txt"
    source.write_bytes(b"more")
    copy = download(source.as_uri(), str(tmp_path / "new" / "copy.txt"))
    assert Path(copy).read_bytes() == b"more"
    with pytest.raises(OSError, match="content hash does not match"):
        download(source.as_uri(), str(tmp_path / "bad.txt"), sha1_hash=digest)
    assert not (tmp_path / "bad.txt").exists()


# -- names


PROGRAM = """
import phonograd
phonograd.install_as_mxnet()
import mxnet as mx
from mxnet import autograd, gluon, init, metric, nd, optimizer, lr_scheduler, kvstore, kv, sym
from mxnet.gluon import Block, HybridBlock, Parameter, ParameterDict, SymbolBlock, Trainer, loss, nn, rnn, utils
from mxnet.gluon import contrib, loss as gloss
from mxnet.gluon.block import Block, HybridBlock, SymbolBlock, _BlockScope
from mxnet.gluon.contrib.nn import HybridConcurrent, Identity, SyncBatchNorm
from mxnet.gluon.contrib.rnn import Conv2DLSTMCell
from mxnet.gluon.loss import Loss, SoftmaxCrossEntropyLoss
from mxnet.gluon.nn import BatchNorm, Conv2D, Dense, HybridSequential
from mxnet.gluon.nn.basic_layers import Dense
from mxnet.gluon.nn.conv_layers import Conv2D
from mxnet.gluon.parameter import Constant, DeferredInitializationError, Parameter, ParameterDict, tensor_types
from mxnet.gluon.rnn import GRU, LSTM, LSTMCell
from mxnet.gluon.rnn.rnn_cell import HybridRecurrentCell
from mxnet.gluon.rnn.rnn_layer import LSTM
from mxnet.gluon.trainer import Trainer
from mxnet.gluon.utils import split_and_load
from mxnet.initializer import Initializer, Xavier
from mxnet.lr_scheduler import LRScheduler
from mxnet.metric import Accuracy, EvalMetric
from mxnet.optimizer import Optimizer, Updater
from mxnet.optimizer.contrib import GroupAdaGrad
from mxnet.optimizer.optimizer import Optimizer, register
from mxnet.registry import get_register_func
net = nn.Sequential()
net.add(nn.Dense(4, activation="relu"), nn.Dense(2))
net.initialize(init.Xavier(magnitude=2.24), ctx=mx.cpu())
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
x, y = nd.random.uniform(shape=(8, 3)), nd.array([0, 1] * 4)
measure = mx.metric.Accuracy()
for _ in range(2):
    with autograd.record():
        output = net(x)
        value = gluon.loss.SoftmaxCrossEntropyLoss()(output, y)
    value.backward()
    trainer.step(8)
    measure.update(y, output)
assert mx.init is mx.initializer and mx.kv is mx.kvstore
print(measure.get()[0])
"""


def test_names_of_mxnet() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "accuracy\n"), done.stderr


@pytest.mark.parametrize("factor", [1, 0.5, 1 - 1e-12, 0.0])
def test_a_scheduler_far_in_the_future(factor: float) -> None:
    scheduler = mx.lr_scheduler.FactorScheduler(step=3, factor=factor)
    assert scheduler(10**15) == (0.01 if factor == 1 else 1e-8)
    assert scheduler.count == 10**15 - 1
