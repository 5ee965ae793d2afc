"""Code that users write. Type checkers accept all of it; tests/project/test_stubs.py runs them on this file."""

from __future__ import annotations

from typing import Any

import numpy

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn


def arrays() -> float:
    x = mx.nd.array([[1.0, 2.0], [3.0, 4.0]], dtype="float32")
    y = mx.nd.zeros((2, 2), ctx=mx.cpu()) + 2 * x - x / 3
    y += 1
    y[0] = 5
    row: mx.nd.NDArray = (x @ y)[1]
    total = (x.softmax(axis=-1) * y.exp()).sum(axis=(0, 1), keepdims=True)
    parts = nd.split(x, num_outputs=2, axis=1)
    first, second = parts
    joined = nd.concat(first, second, dim=1)
    values, indices = nd.topk(x, k=1, ret_typ="both")
    best = nd.topk(x, k=1).astype("int32")
    smallest = nd.minimum(x, 0.5).clip(a_min=0, a_max=1)
    stacked = nd.stack(row, row, axis=0).reshape((2, -1)).transpose()
    compared = (x > y).asnumpy()
    result: numpy.ndarray = joined.asnumpy() + compared.sum()
    for one in (values, indices, best, smallest, stacked):
        one.wait_to_read()
    return float(total.asscalar()) + float(result.mean()) + x.shape[0]


def operators() -> mx.nd.NDArray:
    data = nd.random.normal(0, 1, shape=(2, 3, 8, 8))
    weight = nd.ones(shape=(4, 3, 3, 3))
    hidden = nd.Convolution(data, weight, kernel=(3, 3), num_filter=4, no_bias=True, pad=(1, 1), layout="NCHW")
    hidden = nd.Pooling(hidden, kernel=(2, 2), pool_type="avg", stride=(2, 2))
    hidden = nd.Activation(hidden, "relu")
    hidden = nd.FullyConnected(hidden.flatten(), nd.ones((10, 64)), nd.zeros(10), 10)
    hidden = nd.Dropout(hidden, p=0.5)
    loss = nd.softmax_cross_entropy(hidden, nd.array([1, 2]))
    return loss + nd.linalg.gemm2(weight.reshape((4, -1)), weight.reshape((4, -1)), transpose_b=True).sum()


def gradients() -> mx.nd.NDArray | None:
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = (x**3).sum()
    y.backward()
    return x.grad


def numpy_arrays() -> mx.np.ndarray:
    mx.npx.set_np()
    a = mx.np.array([[1, 2], [3, 4]], dtype=mx.np.float32)
    b = mx.np.sum(a, axis=0) + mx.np.mean(a, keepdims=True) * a.std()
    c = mx.np.where(b > 1, b, 0.0)
    d = mx.np.concatenate([c, mx.np.stack([a[0], a[1]])], axis=0)
    e = mx.npx.softmax(mx.npx.relu(d), axis=-1)
    f = mx.np.exp(e).reshape(-1) + mx.np.pi
    g = mx.np.linalg.norm(f) + mx.np.maximum(f, 0).max(axis=0)
    return mx.np.random.uniform(size=(2,)) + g + mx.np.einsum("i,i", f, f)


def symbols() -> list[str]:
    data = mx.sym.var("data")
    net = mx.sym.FullyConnected(data, num_hidden=128, name="fc1")
    net = mx.sym.Activation(net, act_type="relu", name="relu1")
    net = mx.sym.Convolution(data=net, kernel=(3, 3), num_filter=8)
    net = mx.sym.SoftmaxOutput(net + 1, name="softmax")
    shape = net.infer_shape(data=(1, 1, 28, 28))
    assert shape
    return net.reshape((2, 3)).sum(axis=1).list_arguments()


class Residual(gluon.HybridBlock):
    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.inner = nn.Dense(units, use_bias=False, in_units=units, prefix="inner_", params=None)
            self.norm = nn.BatchNorm(epsilon=1e-3)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return x + self.norm(self.inner(x))


def optimizers() -> list[mx.optimizer.Optimizer]:
    schedule = mx.lr_scheduler.FactorScheduler(step=10, factor=0.5)
    made = [mx.optimizer.SGD(momentum=0.9, learning_rate=0.1, wd=1e-4, clip_gradient=1.0)]
    return [*made, mx.optimizer.Adam(beta1=0.8, rescale_grad=0.5, lr_scheduler=schedule, multi_precision=True)]


def network() -> float:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(channels=8, kernel_size=3, activation="relu"), nn.MaxPool2D(), nn.Flatten(), nn.Dense(10))
    net.initialize(mx.init.Xavier(), ctx=mx.cpu())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    dataset = gluon.data.ArrayDataset(nd.ones((8, 1, 12, 12)), nd.zeros(8))
    metric = mx.metric.Accuracy()
    loss = nd.zeros(1)
    for data, label in gluon.data.DataLoader(dataset, batch_size=4, shuffle=True):
        with autograd.record():
            output = net(data)
            loss = loss_function(output, label)
        loss.backward()
        trainer.step(4)
        metric.update([label], [output])
    return float(loss.mean().asscalar())
