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
    path = exported(quantized, SHAPE, tmp_path)
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


def exported(quantized, shape, folder):
    """Return the path of a network in ONNX."""
    quantized.export(str(folder / "net"))
    files = str(folder / "net-symbol.json"), str(folder / "net-0000.params")
    mx.onnx.export_model(*files, [shape], np.float32, str(folder / "net.onnx"))
    return str(folder / "net.onnx")


def lenet():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(8, 3, padding=1, activation="relu"), gluon.nn.MaxPool2D(2))
    net.add(gluon.nn.Conv2D(16, 3, padding=1, activation="relu"), gluon.nn.MaxPool2D(2), gluon.nn.Flatten())
    net.add(gluon.nn.Dense(32, activation="relu"), gluon.nn.Dense(10))
    return net, (4, 1, 8, 8)


def resnet18():
    return gluon.model_zoo.vision.resnet18_v1(classes=10, thumbnail=True), (4, 3, 32, 32)


@pytest.mark.parametrize("make", [lenet, pytest.param(resnet18, marks=pytest.mark.slow)])
def test_whole_networks_are_the_same(make, tmp_path):
    mx.random.seed(5)
    net, shape = make()
    net.initialize(mx.init.Xavier())
    data = nd.random.uniform(-1, 1, shape=shape)
    with mx.autograd.record():
        net(data)
    quantized = quantization.quantize_net_v2(net, calib_data=[data], calib_mode="naive")
    expected = quantized(data).asnumpy()
    found = run(exported(quantized, shape, tmp_path), data, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    assert np.allclose(found, expected, rtol=0, atol=1e-5 * abs(expected).max())


def test_a_large_bias_beside_tiny_weights_fits(tmp_path):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(3, in_units=4))
    net.initialize()
    net[0].weight.set_data(nd.array([[1e-12] * 4, [0.5] * 4, [0] * 4]))
    net[0].bias.set_data(nd.array([1, -2, 3]))
    data = nd.random.uniform(-1, 1, shape=(2, 4))
    net(data)
    quantized = quantization.quantize_net_v2(
        net, calib_data=[data], calib_mode="naive", quantize_granularity="channel-wise"
    )
    expected = quantized(data).asnumpy()
    assert np.allclose(expected, net(data).asnumpy(), atol=0.05)
    found = run(exported(quantized, (2, 4), tmp_path), data, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    assert np.allclose(found, expected, atol=1e-5)


def test_ranges_must_be_calibrated(network, tmp_path):
    net, data = network
    quantized = quantization.quantize_net_v2(net, calib_mode="none", data_shapes=[("data", SHAPE)])
    quantized(data)
    with pytest.raises(mx.MXNetError, match=r"not calibrated.*calib_mode='naive'"):
        exported(quantized, SHAPE, tmp_path)
