"""The workloads in PyTorch, run eagerly."""

import itertools

import torch
import torch.nn.functional as F


def _parameters(shapes, scale=0.05):
    return [(torch.randn(shape) * scale).requires_grad_() for shape in shapes]


def _clear(parameters):
    for parameter in parameters:
        parameter.grad = None


def _descend(parameters, rate):
    with torch.no_grad():
        for parameter in parameters:
            parameter -= rate * parameter.grad


def small50(torch, size=10):
    x = torch.ones(size)
    w = torch.full((size,), 0.5, requires_grad=True)

    def step():
        _clear([w])
        y = x
        for _ in range(25):
            y = torch.tanh(y * w)
        y.sum().backward()

    return step


def regression(torch, rows=64, columns=32):
    x, y = torch.ones(rows, columns), torch.ones(rows, 1)
    parameters = [torch.zeros(columns, 1, requires_grad=True), torch.zeros(1, requires_grad=True)]

    def step():
        _clear(parameters)
        ((x @ parameters[0] + parameters[1] - y) ** 2).mean().backward()
        _descend(parameters, 0.01)

    return step


def mlp(torch, batch=64):
    data, label = torch.rand(batch, 784), torch.arange(batch) % 10
    pairs = list(itertools.pairwise((784, 256, 128, 10)))
    parameters = _parameters([shape for pair in pairs for shape in (pair, pair[1:])])

    def step():
        _clear(parameters)
        h = data
        for layer in range(3):
            h = torch.addmm(parameters[2 * layer + 1], h, parameters[2 * layer])
            if layer < 2:
                h = torch.relu(h)
        F.cross_entropy(h, label, reduction="sum").backward()
        _descend(parameters, 0.01 / batch)

    return step


def lstm(torch, steps=35, batch=32, hidden=128):
    xs = [torch.randn(batch, hidden) for _ in range(steps)]
    parameters = _parameters([(hidden, 4 * hidden), (hidden, 4 * hidden), (4 * hidden,)], 0.1)

    def step():
        _clear(parameters)
        wx, wh, b = parameters
        h = c = torch.zeros(batch, hidden)
        for x in xs:
            i, f, g, o = torch.chunk(x @ wx + h @ wh + b, 4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        h.sum().backward()

    return step


def elem4m(torch, size=4_000_000):
    x, w = torch.randn(size, requires_grad=True), torch.randn(size, requires_grad=True)

    def step():
        _clear([x, w])
        (torch.sigmoid(x * w + 1) * torch.tanh(x) + torch.exp(-x * x)).sum().backward()

    return step


def lenet(torch, batch=64):
    data, label = torch.randn(batch, 1, 28, 28), torch.arange(batch) % 10
    parameters = _parameters([(20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,), (500, 800), (500,), (10, 500), (10,)])

    def step():
        _clear(parameters)
        w1, b1, w2, b2, w3, b3, w4, b4 = parameters
        h = F.max_pool2d(torch.relu(F.conv2d(data, w1, b1)), 2)
        h = F.max_pool2d(torch.relu(F.conv2d(h, w2, b2)), 2).flatten(1)
        h = F.linear(torch.relu(F.linear(h, w3, b3)), w4, b4)
        F.cross_entropy(h, label, reduction="sum").backward()
        _descend(parameters, 0.01 / batch)

    return step


def convbn(torch):
    data = torch.randn(16, 64, 28, 28)
    weights = _parameters([(64, 64, 3, 3)] * 2)
    scales = _parameters([(64,)] * 4)
    moving = [torch.zeros(64) if k % 2 == 0 else torch.ones(64) for k in range(4)]

    def step():
        _clear(weights + scales)
        h = data
        for k in range(2):
            h = F.conv2d(h, weights[k], padding=1)
            h = F.batch_norm(h, moving[2 * k], moving[2 * k + 1], scales[2 * k], scales[2 * k + 1], training=True)
            h = torch.relu(h)
        h.sum().backward()

    return step


def matmul(torch, size=1024):
    a, b = torch.randn(size, size), torch.randn(size, size)

    def step():
        torch.mm(a, b)

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
