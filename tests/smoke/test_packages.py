"""One small test of each public package and module. `make smoke` runs them."""

from __future__ import annotations

import io
import logging
import subprocess
import sys

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd


def train_one_step(net: gluon.Block) -> float:
    """Return the loss of a network after one step."""
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    data, label = nd.ones((4, 3)), nd.zeros((4,))
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(2):
        with autograd.record():
            value = loss(net(data), label).mean()
        value.backward()
        trainer.step(4)
    return float(value.asscalar())


def test_autograd():
    assert not autograd.is_recording()
    with autograd.record():
        assert autograd.is_recording()
        assert autograd.is_training()


def test_ndarray(tmp_path):
    nd.save(str(tmp_path / "x.params"), {"x": nd.ones((2, 2))})
    assert nd.load(str(tmp_path / "x.params"))["x"].shape == (2, 2)


def test_numpy():
    assert mx.np.sqrt(mx.np.array([4.0, 9.0])).tolist() == [2.0, 3.0]


def test_numpy_extension():
    assert mx.npx.relu(mx.np.array([-1.0, 2.0])).tolist() == [0.0, 2.0]


def test_symbol_executor():
    x = mx.sym.var("x")
    executor = (x * 2).bind(mx.cpu(), {"x": nd.ones((2,))})
    assert executor.forward()[0].asnumpy().tolist() == [2.0, 2.0]


def test_random():
    mx.random.seed(1)
    first = nd.random.uniform(shape=(3,)).asnumpy()
    mx.random.seed(1)
    assert np.array_equal(first, nd.random.uniform(shape=(3,)).asnumpy())


def test_operator():
    @mx.operator.register("smoke_identity")
    class IdentityProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Identity()

    class Identity(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0])

    assert nd.Custom(nd.ones((2,)), op_type="smoke_identity").asnumpy().tolist() == [1.0, 1.0]


def test_gluon_initializer_optimizer():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(5, activation="relu"), gluon.nn.Dense(2))
    net.hybridize()
    assert train_one_step(net) < 2


def test_metric():
    accuracy = mx.metric.Accuracy()
    accuracy.update([nd.array([1, 0])], [nd.array([[0.1, 0.9], [0.2, 0.8]])])
    assert accuracy.get() == ("accuracy", 0.5)


def test_lr_scheduler():
    assert mx.lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=1.0)(5) == 0.25


def test_kvstore():
    store = mx.kv.create("local")
    store.init(3, nd.ones((2,)))
    out = nd.zeros((2,))
    store.pull(3, out=out)
    assert out.asnumpy().tolist() == [1.0, 1.0]


def test_io():
    batches = list(mx.io.NDArrayIter(nd.ones((6, 2)), batch_size=3))
    assert [batch.data[0].shape for batch in batches] == [(3, 2)] * 2


def test_image():
    assert mx.image.imresize(nd.ones((4, 4, 3), dtype="uint8"), 2, 2).shape == (2, 2, 3)


def test_recordio(tmp_path):
    path = str(tmp_path / "x.rec")
    with mx.recordio.MXRecordIO(path, "w") as writer:
        writer.write(b"record")
    with mx.recordio.MXRecordIO(path, "r") as reader:
        assert reader.read() == b"record"


def test_module_model_callback_monitor():
    net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), name="softmax")
    module = mx.mod.Module(net, context=mx.cpu())
    data = mx.io.NDArrayIter(np.ones((4, 3)), np.zeros(4), 2)
    module.fit(data, num_epoch=1, batch_end_callback=mx.callback.Speedometer(2, 1), monitor=mx.mon.Monitor(1))
    assert [value.shape for value in module.get_params()[0].values()] == [(2, 3), (2,)]


def test_rnn():
    outputs, _ = mx.rnn.RNNCell(4, prefix="smoke_").unroll(2, [mx.sym.var("a"), mx.sym.var("b")])
    assert len(outputs) == 2


def test_contrib_onnx(tmp_path):
    pytest.importorskip("onnx")
    params = {"w": nd.ones((2, 3))}
    net = mx.sym.FullyConnected(mx.sym.var("data"), mx.sym.var("w"), no_bias=True, num_hidden=2)
    path = mx.contrib.onnx.export_model(net, params, [(1, 3)], np.float32, str(tmp_path / "x.onnx"))
    assert mx.contrib.onnx.import_model(path)[0].list_arguments()


def test_profiler_ops_futures():
    with mx.profiler.profile() as profile, mx.profiler.record_function("scope"):
        (nd.ones((3,)) * 2).asnumpy()
    assert "scope" in profile.key_averages().table()
    future = mx.futures.Future()
    future.set_result(1)
    assert future.wait() == 1
    assert mx.ops.profiler._record_function_exit.overloads() == ["default", "_RecordFunction"]


def test_visualization_explain_debug():
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    assert "fc" in mx.viz.plot_network(net, shape={"data": (1, 3)}).source
    assert "sqrt" in str(mx.debug.explain(nd.sqrt(nd.ones((2,)))))
    assert mx.explain.statistics()


def test_test_utils_testing():
    mx.test_utils.assert_almost_equal(nd.ones((2,)), np.ones(2))
    mx.testing.check_gradients(lambda x: x * x, [nd.array([1.0, 2.0])])


def test_curves_progress_bar():
    curves = mx.curves.Curves()
    curves.add(loss=1.0)
    assert str(curves).startswith("loss")
    assert list(mx.progress([1, 2], file=io.StringIO())) == [1, 2]


def test_small_modules():
    assert mx.context.cpu() == mx.cpu()
    assert mx.base.MXNetError is mx.MXNetError
    assert mx.libinfo.__version__ == "1.9.1"
    assert not mx.runtime.Features().is_enabled("CUDA")
    assert mx.log.get_logger("smoke", level=logging.ERROR).level == logging.ERROR
    with mx.AttrScope(a="1"), mx.name.Prefix("smoke_"), mx.engine.bulk(2):
        assert mx.sym.var("x").attr("a") == "1"
    assert mx.util.is_np_array() is False
    assert mx.registry.get_registry(mx.init.Initializer)["xavier"] is mx.init.Xavier


def test_compat_cli(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import mxnet as mx\nprint(mx.nd.ones((2,)).asnumpy().sum())\n", encoding="utf-8")
    found = subprocess.run([sys.executable, "-m", "phonograd", "run", str(script)], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "2.0\n"), found.stderr
