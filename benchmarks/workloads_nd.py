"""The workloads in MXNet's interface: run with phonograd and with MXNet itself.

Each function returns a step: one iteration that ends when its results are in memory.
"""

import itertools


def _parameters(mx, shapes, scale=0.05):
    arrays = [mx.nd.random.normal(scale=scale, shape=shape) for shape in shapes]
    for array in arrays:
        array.attach_grad()
    return arrays


def small50(mx, size=10):
    nd, autograd = mx.nd, mx.autograd
    x = nd.ones((size,))
    w = nd.ones((size,)) * 0.5
    w.attach_grad()

    def step():
        with autograd.record():
            y = x
            for _ in range(25):
                y = nd.tanh(y * w)
        y.backward()
        w.grad.wait_to_read()

    return step


def regression(mx, rows=64, columns=32):
    nd, autograd = mx.nd, mx.autograd
    x, y = nd.ones((rows, columns)), nd.ones((rows, 1))
    w, b = nd.zeros((columns, 1)), nd.zeros((1,))
    w.attach_grad()
    b.attach_grad()

    def step():
        with autograd.record():
            loss = nd.mean(nd.square(nd.dot(x, w) + b - y))
        loss.backward()
        for parameter in (w, b):
            parameter -= 0.01 * parameter.grad
        w.wait_to_read()

    return step


def _descend(parameters, rate):
    for parameter in parameters:
        parameter -= rate * parameter.grad


def mlp(mx, batch=64):
    nd, autograd = mx.nd, mx.autograd
    data, label = nd.random.uniform(shape=(batch, 784)), nd.arange(batch) % 10
    sizes = (784, 256, 128, 10)
    pairs = list(itertools.pairwise(sizes))
    parameters = _parameters(mx, [shape for pair in pairs for shape in (pair, pair[1:])])

    def step():
        with autograd.record():
            h = data
            for layer in range(3):
                h = nd.dot(h, parameters[2 * layer]) + parameters[2 * layer + 1]
                if layer < 2:
                    h = nd.relu(h)
            loss = -nd.pick(nd.log_softmax(h), label)
        loss.backward()
        _descend(parameters, 0.01 / batch)
        parameters[0].wait_to_read()
        parameters[-1].wait_to_read()

    return step


def lstm(mx, steps=35, batch=32, hidden=128):
    nd, autograd = mx.nd, mx.autograd
    xs = [nd.random.normal(shape=(batch, hidden)) for _ in range(steps)]
    wx, wh, b = _parameters(mx, [(hidden, 4 * hidden), (hidden, 4 * hidden), (4 * hidden,)], 0.1)

    def step():
        with autograd.record():
            h = c = nd.zeros((batch, hidden))
            for x in xs:
                gates = nd.dot(x, wx) + nd.dot(h, wh) + b
                i, f, g, o = nd.split(gates, num_outputs=4, axis=1)
                c = nd.sigmoid(f) * c + nd.sigmoid(i) * nd.tanh(g)
                h = nd.sigmoid(o) * nd.tanh(c)
            loss = h.sum()
        loss.backward()
        wx.grad.wait_to_read()
        b.grad.wait_to_read()

    return step


def elem4m(mx, size=4_000_000):
    nd, autograd = mx.nd, mx.autograd
    x, w = nd.random.normal(shape=(size,)), nd.random.normal(shape=(size,))
    x.attach_grad()
    w.attach_grad()

    def step():
        with autograd.record():
            y = (nd.sigmoid(x * w + 1) * nd.tanh(x) + nd.exp(-x * x)).sum()
        y.backward()
        x.grad.wait_to_read()
        w.grad.wait_to_read()

    return step


def lenet(mx, batch=64):
    nd, autograd = mx.nd, mx.autograd
    data, label = nd.random.normal(shape=(batch, 1, 28, 28)), nd.arange(batch) % 10
    shapes = [(20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,), (500, 800), (500,), (10, 500), (10,)]
    parameters = _parameters(mx, shapes)

    def step():
        w1, b1, w2, b2, w3, b3, w4, b4 = parameters
        with autograd.record():
            h = nd.relu(nd.Convolution(data, w1, b1, kernel=(5, 5), num_filter=20))
            h = nd.Pooling(h, kernel=(2, 2), stride=(2, 2), pool_type="max")
            h = nd.relu(nd.Convolution(h, w2, b2, kernel=(5, 5), num_filter=50))
            h = nd.Pooling(h, kernel=(2, 2), stride=(2, 2), pool_type="max")
            h = nd.relu(nd.FullyConnected(h, w3, b3, num_hidden=500))
            h = nd.FullyConnected(h, w4, b4, num_hidden=10)
            loss = -nd.pick(nd.log_softmax(h), label)
        loss.backward()
        _descend(parameters, 0.01 / batch)
        parameters[0].wait_to_read()
        parameters[-1].wait_to_read()

    return step


def convbn(mx):
    nd, autograd = mx.nd, mx.autograd
    data = nd.random.normal(shape=(16, 64, 28, 28))
    weights = _parameters(mx, [(64, 64, 3, 3)] * 2)
    scales = _parameters(mx, [(64,)] * 4)
    moving = [nd.zeros((64,)) if k % 2 == 0 else nd.ones((64,)) for k in range(4)]

    def step():
        with autograd.record():
            h = data
            for k in range(2):
                h = nd.Convolution(h, weights[k], kernel=(3, 3), pad=(1, 1), num_filter=64, no_bias=True)
                h = nd.BatchNorm(h, scales[2 * k], scales[2 * k + 1], moving[2 * k], moving[2 * k + 1], fix_gamma=False)
                h = nd.relu(h)
            loss = h.sum()
        loss.backward()
        weights[0].grad.wait_to_read()
        scales[0].grad.wait_to_read()

    return step


def matmul(mx, size=1024):
    nd = mx.nd
    a, b = nd.random.normal(shape=(size, size)), nd.random.normal(shape=(size, size))

    def step():
        nd.dot(a, b).wait_to_read()

    return step


WORKLOADS = {
    "small50": small50,
    "regression": regression,
    "mlp": mlp,
    "lstm": lstm,
    "elem4M": elem4m,
    "lenet": lenet,
    "convbn": convbn,
    "matmul1024": matmul,
}
