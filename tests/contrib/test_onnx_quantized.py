"""Quantized networks in ONNX: onnxruntime computes the same integers."""

from __future__ import annotations

import numpy as np
import pytest

import phonograd as mx
from phonograd import gluon, nd
from phonograd.contrib import quantization

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

SHAPE = (4, 3, 9, 9)


class Network(gluon.HybridBlock):
    """Convolutions, a residual connection, two branches that are joined, pooling, and dense layers."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.first = gluon.nn.HybridSequential()
            self.first.add(gluon.nn.Conv2D(8, 3, padding=1), gluon.nn.BatchNorm(), gluon.nn.Activation("relu"))
            self.second = gluon.nn.Conv2D(8, 3, padding=1, groups=2)
            self.left = gluon.nn.Conv2D(4, 1, activation="relu")
            self.right = gluon.nn.Conv2D(6, 3, padding=1)
            self.hidden = gluon.nn.Dense(12, activation="relu")
            self.last = gluon.nn.Dense(5)

    def hybrid_forward(self, F, x):
        x = F.Pooling(self.first(x), kernel=(2, 2), stride=(2, 2), pool_type="max")
        x = F.relu(self.second(x) + x)
        x = F.concat(self.left(x), self.right(x), dim=1)
        x = F.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="avg")
        return self.last(self.hidden(x.flatten()))


@pytest.fixture(scope="module")
def network():
    mx.random.seed(3)
    net = Network()
    net.initialize(mx.init.Normal(0.5))
    data = nd.random.normal(shape=SHAPE)
    with mx.autograd.record():
        net(data)  # moving statistics that are not 0 and 1
    for parameter in net.collect_params(".*bias|.*beta").values():
        parameter.set_data(nd.random.normal(shape=parameter.shape))
    return net, data


def run(path, data, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: data.asnumpy()})[0]


@pytest.mark.parametrize("granularity", ["tensor-wise", "channel-wise"])
@pytest.mark.parametrize("dtype", ["auto", "int8"])
def test_onnxruntime_computes_the_same(network, tmp_path, dtype, granularity):
    net, data = network
    quantized = quantization.quantize_net_v2(
        net, dtype, calib_data=[data], calib_mode="naive", quantize_granularity=granularity
    )
    expected = quantized(data).asnumpy()
    quantized.export(str(tmp_path / "net"))
    path = str(tmp_path / "net.onnx")
    files = str(tmp_path / "net-symbol.json"), str(tmp_path / "net-0000.params")
    mx.onnx.export_model(*files, [SHAPE], np.float32, path)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    operators = [node.op_type for node in model.graph.node]
    assert operators.count("Conv") == 4
    assert operators.count("Gemm") == 2
    assert operators.count("DequantizeLinear") > 12
    levels = onnxruntime.GraphOptimizationLevel
    # all products are of integers, so only numbers halfway between two integers could be rounded otherwise
    for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL):
        assert np.allclose(run(path, data, level), expected, rtol=0, atol=1e-5 * abs(expected).max())


def test_ranges_must_be_calibrated(network, tmp_path):
    net, data = network
    quantized = quantization.quantize_net_v2(net, calib_mode="none", data_shapes=[("data", SHAPE)])
    quantized(data)
    quantized.export(str(tmp_path / "net"))
    files = str(tmp_path / "net-symbol.json"), str(tmp_path / "net-0000.params")
    with pytest.raises(mx.MXNetError, match=r"not calibrated.*calib_mode='naive'"):
        mx.onnx.export_model(*files, [SHAPE], np.float32, str(tmp_path / "net.onnx"))
