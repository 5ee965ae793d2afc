"""Define the workloads in PyTorch, run eagerly."""

import itertools
import random

import torch
import torch.nn.functional as F
from torch import nn

from workloads_nd import random_tree


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


def cross_entropy(torch, batch=256, classes=4096):
    scores, label = torch.randn(batch, classes, requires_grad=True), torch.arange(batch)

    def step():
        _clear([scores])
        F.cross_entropy(scores, label).backward()

    return step


def batchnorm(torch):
    data, weight = torch.randn(32, 64, 28, 28, requires_grad=True), torch.randn(32, 64, 28, 28)
    gamma, beta = _parameters([(64,)] * 2)
    mean, variance = torch.zeros(64), torch.ones(64)

    def step():
        _clear([data, gamma, beta])
        (F.batch_norm(data, mean, variance, gamma, beta, training=True) * weight).sum().backward()

    return step


def gru(torch, lengths=(8, 13, 21, 34), batch=32, hidden=128):
    xs = [torch.randn(batch, hidden) for _ in range(max(lengths))]
    shapes = [(hidden, 2 * hidden), (hidden, 2 * hidden), (2 * hidden,), (hidden, hidden), (hidden, hidden), (hidden,)]
    parameters = _parameters(shapes, 0.1)

    def sequence(length):
        _clear(parameters)
        wx, wh, b, vx, vh, c = parameters
        h = torch.zeros(batch, hidden)
        for x in xs[:length]:
            reset, update = torch.chunk(torch.sigmoid(x @ wx + h @ wh + b), 2, 1)
            candidate = torch.tanh(x @ vx + reset * (h @ vh) + c)
            h = update * h + (1 - update) * candidate
        h.sum().backward()

    def step():
        for length in lengths:
            sequence(length)

    return step


def attention(torch, batch=8, length=64, width=256, heads=4):
    data, target = torch.randn(batch, length, width), torch.randn(batch, length, width)
    each = width // heads
    weights = _parameters([(width, 3 * width), (width, width)])
    scales = _parameters([(width,)] * 2, 1.0)

    def step():
        _clear(weights + scales)
        mixed = (data @ weights[0]).reshape(batch, length, 3 * heads, each).transpose(1, 2)
        q, k, v = (part.reshape(batch * heads, length, each) for part in torch.chunk(mixed, 3, 1))
        share = torch.softmax(torch.bmm(q, k.transpose(1, 2)) * each**-0.5, -1)
        h = torch.bmm(share, v).reshape(batch, heads, length, each).transpose(1, 2)
        h = h.reshape(batch, length, width) @ weights[1]
        (F.layer_norm(data + h, (width,), *scales) * target).sum().backward()

    return step


def embedding(torch, words=10_000, width=128, batch=64, length=32):
    indices = torch.arange(batch * length).reshape(batch, length) * 7 % words
    parameters = _parameters([(words, width)])

    def step():
        _clear(parameters)
        F.embedding(indices, parameters[0]).square().sum().backward()

    return step


def dropout(torch, shape=(1024, 1024)):
    x, w = torch.randn(shape, requires_grad=True), torch.randn(shape)

    def step():
        _clear([x])
        (F.dropout(x, 0.5) * w).sum().backward()

    return step


#: filters, size of the kernel, stride
DEEP_LAYERS = [(32, 3, 1), (32, 3, 1), (64, 3, 2), (64, 1, 1), (64, 3, 1), (128, 3, 2), (128, 1, 1), (128, 3, 1)]


def deep(torch, batch=16):
    data, label = torch.randn(batch, 3, 32, 32), torch.arange(batch) % 10
    shapes, channels = [], 3
    for filters, size, _ in DEEP_LAYERS:
        shapes += [(filters, channels, size, size), (filters,)]
        channels = filters
    parameters = _parameters([*shapes, (10, channels), (10,)])

    def step():
        _clear(parameters)
        h = data
        for k, (_, size, stride) in enumerate(DEEP_LAYERS):
            h = torch.relu(F.conv2d(h, parameters[2 * k], parameters[2 * k + 1], stride=stride, padding=size // 2))
        h = F.linear(h.mean((2, 3)), parameters[-2], parameters[-1])
        F.cross_entropy(h, label, reduction="sum").backward()
        _descend(parameters, 0.01 / batch)

    return step


def adam(torch, count=20, size=256):
    weights, grads = ([torch.randn(size, size) for _ in range(count)] for _ in range(2))
    means, squares = ([torch.zeros(size, size) for _ in range(count)] for _ in range(2))

    def step():
        for weight, grad, mean, square in zip(weights, grads, means, squares, strict=True):
            mean[:] = 0.9 * mean + 0.1 * grad
            square[:] = 0.999 * square + 0.001 * grad * grad
            weight -= 0.001 * mean / (torch.sqrt(square) + 1e-8)

    return step


def slices(torch, steps=50, size=1000):
    x, out = torch.randn(steps, size), torch.zeros(steps, size)

    def step():
        for t in range(1, steps):
            out[t] = 0.9 * out[t - 1] + x[t]
        out[:, 0:10] = 0

    return step


# -- Gluon's layers, with those of torch.nn


def _trained(net, data, label):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(net(data), label).backward()
        optimizer.step()

    return step


def module_lenet(torch, batch=64):
    net = nn.Sequential(
        *[nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2)],
        *[nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10)],
    )
    return _trained(net, torch.randn(batch, 1, 28, 28), torch.arange(batch) % 10)


def module_convbn(torch, batch=16):
    layers = []
    for _ in range(2):
        layers += [nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return _trained(net, torch.randn(batch, 64, 28, 28), torch.arange(batch) % 10)


def _recurrent(kind):
    def make(torch, steps=35, batch=32, hidden=256):
        layer, data = kind(hidden, hidden, 2), torch.randn(steps, batch, hidden)
        parameters = list(layer.parameters())

        def step():
            _clear(parameters)
            layer(data)[0].sum().backward()

        return step

    return make


def module_adam(torch, count=20, size=256):
    parameters = [torch.randn(size, size, requires_grad=True) for _ in range(count)]
    for parameter in parameters:
        parameter.grad = torch.randn(size, size)
    return torch.optim.Adam(parameters, lr=0.001).step


class _Words(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table, self.out = nn.Embedding(words, width), nn.Linear(width, 10)

    def forward(self, indices):
        return self.out(self.table(indices).mean(1))


def module_embedding(torch, words=10_000, width=128, batch=64, length=32):
    indices = torch.arange(batch * length).reshape(batch, length) * 7 % words
    return _trained(_Words(words, width), indices, torch.arange(batch) % 10)


def printed(torch, rows=64, columns=32):
    x, y = torch.ones(rows, columns), torch.ones(rows, 1)
    w = torch.zeros(columns, 1, requires_grad=True)

    def step():
        _clear([w])
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        _descend([w], 0.01)
        return loss.item()

    return step


def slices_recorded(torch, steps=50, size=1000):
    x = torch.randn(steps, size)
    parameters = _parameters([(size,)])

    def step():
        _clear(parameters)
        out = torch.zeros(steps, size)
        for t in range(1, steps):
            # PyTorch forbids in-place changes of recorded values
            out[t] = torch.tanh(out[t - 1].clone() * parameters[0] + x[t])
        (out * out).sum().backward()

    return step


def trees(torch, leaves=20, words=100, hidden=64):
    table, weight, bias = parameters = _parameters([(words, hidden), (2 * hidden, 4 * hidden), (4 * hidden,)])
    draw = random.Random()

    def state(tree):
        if isinstance(tree, int):
            return table[tree : tree + 1], table[tree : tree + 1] * 0
        (left, left_cell), (right, right_cell) = state(tree[0]), state(tree[1])
        gates = torch.cat((left, right), 1) @ weight + bias
        entrance, keep, outlet, candidate = gates.chunk(4, 1)
        cell = torch.sigmoid(entrance) * torch.tanh(candidate) + torch.sigmoid(keep) * (left_cell + right_cell)
        return torch.sigmoid(outlet) * torch.tanh(cell), cell

    def step():
        _clear(parameters)
        out, _ = state(random_tree(draw, words, leaves))
        (out * out).sum().backward()

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
    "cross-entropy": cross_entropy,
    "batchnorm": batchnorm,
    "gru": gru,
    "attention": attention,
    "embedding": embedding,
    "dropout": dropout,
    "deep-convnet": deep,
    "adam": adam,
    "slices": slices,
    "slices-recorded": slices_recorded,
    "printed-loss": printed,
    "trees": trees,
    "gluon-lenet": module_lenet,
    "gluon-convbn": module_convbn,
    "gluon-rnn": _recurrent(nn.RNN),
    "gluon-lstm": _recurrent(nn.LSTM),
    "gluon-gru": _recurrent(nn.GRU),
    "gluon-adam": module_adam,
    "gluon-embedding": module_embedding,
}
