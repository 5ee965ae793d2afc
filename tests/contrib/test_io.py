"""Loaders of Gluon as iterators for modules, and metrics for TensorBoard."""

import sys
import types
from collections import namedtuple

import numpy as np
import pytest

import phonograd as mx
from phonograd import gluon, nd


def loader(**options):
    data = gluon.data.ArrayDataset(nd.arange(10).reshape((5, 2)), nd.arange(5))
    return gluon.data.DataLoader(data, batch_size=2, **options)


def test_batches_and_padding():
    batches = mx.contrib.io.DataLoaderIter(loader())
    assert [(d.name, d.shape) for d in (*batches.provide_data, *batches.provide_label)] == [
        ("data", (2, 2)),
        ("softmax_label", (2,)),
    ]
    assert batches.batch_size == 2
    for _ in range(2):
        found = [(b.data[0].asnumpy().tolist(), b.label[0].asnumpy().tolist(), b.pad) for b in batches]
        assert found == [
            ([[0, 1], [2, 3]], [0, 1], 0),
            ([[4, 5], [6, 7]], [2, 3], 0),
            ([[8, 9], [0, 0]], [4, 0], 1),
        ]
        batches.reset()


def test_names_and_dtype():
    batches = mx.contrib.io.DataLoaderIter(loader(last_batch="discard"), "x", "y", dtype="float64")
    assert [d.name for d in (*batches.provide_data, *batches.provide_label)] == ["x", "y"]
    assert [(batch.data[0].dtype, batch.pad) for batch in batches] == [(np.float64, 0)] * 2


def test_a_module_is_trained():
    batches = mx.contrib.io.DataLoaderIter(loader(), label_name="label")
    out = mx.sym.LinearRegressionOutput(
        mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fc"), mx.sym.var("label")
    )
    module = mx.mod.Module(out, label_names=("label",))
    module.fit(batches, eval_metric="mse", num_epoch=1, optimizer_params={"learning_rate": 0.001})
    assert module.get_params()[0]["fc_weight"].shape == (1, 2)


def test_metrics_for_tensorboard(monkeypatch):
    param = namedtuple("param", "epoch eval_metric")
    monkeypatch.setitem(sys.modules, "mxboard", None)
    with pytest.raises(ImportError, match="pip install mxboard"):
        mx.contrib.tensorboard.LogMetricsCallback("folder")
    written = []

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, name, value, global_step):
            written.append((self.folder, name, value, global_step))

    monkeypatch.setitem(sys.modules, "mxboard", types.SimpleNamespace(SummaryWriter=SummaryWriter))
    callback = mx.contrib.tensorboard.LogMetricsCallback("folder", prefix="train")
    metric = mx.metric.Loss()
    metric.update(None, [nd.array([2.0])])
    callback(param(4, metric))
    callback(param(4, None))
    assert written == [("folder", "train-loss", 2.0, 4)]
