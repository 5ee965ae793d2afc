"""Define the workloads in MXNet's interface, for phonograd and for MXNet itself.

Each function returns a step: one iteration that ends when its results are in memory. The docstrings appear beside the
figures in docs/performance.md.
"""

import itertools
import random


def _parameters(mx, shapes, scale=0.05):
    arrays = [mx.nd.random.normal(scale=scale, shape=shape) for shape in shapes]
    for array in arrays:
        array.attach_grad()
    return arrays


def small50(mx, size=10):
    """25 times `tanh(y * w)` on 10 numbers, and backward"""
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
    """linear regression, 64 x 32, one step of descent"""
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
    """784-256-128-10 perceptron, batch 64, one step of descent"""
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
    """LSTM cells over 35 steps, batch 32, 128 units, and backward"""
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
    """`sigmoid(x * w + 1) * tanh(x) + exp(-x * x)` on 4 million numbers, and backward"""
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
    """LeNet, batch 64, one step of descent"""
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
    """two 3x3 convolutions of 64 channels with BatchNorm, 16 x 28 x 28, and backward"""
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
    """product of two 1024 x 1024 matrices"""
    nd = mx.nd
    a, b = nd.random.normal(shape=(size, size)), nd.random.normal(shape=(size, size))

    def step():
        nd.dot(a, b).wait_to_read()

    return step


def cross_entropy(mx, batch=256, classes=4096):
    """softmax cross-entropy over 256 x 4096, and backward"""
    nd, autograd = mx.nd, mx.autograd
    scores, label = nd.random.normal(shape=(batch, classes)), nd.arange(batch)
    scores.attach_grad()

    def step():
        with autograd.record():
            loss = -nd.pick(nd.log_softmax(scores), label).mean()
        loss.backward()
        scores.grad.wait_to_read()

    return step


def batchnorm(mx):
    """BatchNorm over 32 x 64 x 28 x 28, and backward"""
    nd, autograd = mx.nd, mx.autograd
    data, weight = nd.random.normal(shape=(32, 64, 28, 28)), nd.random.normal(shape=(32, 64, 28, 28))
    data.attach_grad()
    gamma, beta = _parameters(mx, [(64,)] * 2)
    mean, variance = nd.zeros((64,)), nd.ones((64,))

    def step():
        with autograd.record():
            loss = (nd.BatchNorm(data, gamma, beta, mean, variance, fix_gamma=False) * weight).sum()
        loss.backward()
        nd.waitall()

    return step


def gru(mx, lengths=(8, 13, 21, 34), batch=32, hidden=128):
    """GRU cells over 8, 13, 21 and 34 steps in turn, and backward"""
    nd, autograd = mx.nd, mx.autograd
    xs = [nd.random.normal(shape=(batch, hidden)) for _ in range(max(lengths))]
    shapes = [(hidden, 2 * hidden), (hidden, 2 * hidden), (2 * hidden,), (hidden, hidden), (hidden, hidden), (hidden,)]
    parameters = _parameters(mx, shapes, 0.1)

    def sequence(length):
        wx, wh, b, vx, vh, c = parameters
        with autograd.record():
            h = nd.zeros((batch, hidden))
            for x in xs[:length]:
                reset, update = nd.split(nd.sigmoid(nd.dot(x, wx) + nd.dot(h, wh) + b), num_outputs=2, axis=1)
                candidate = nd.tanh(nd.dot(x, vx) + reset * nd.dot(h, vh) + c)
                h = update * h + (1 - update) * candidate
            loss = h.sum()
        loss.backward()
        nd.waitall()

    def step():
        for length in lengths:
            sequence(length)

    return step


def attention(mx, batch=8, length=64, width=256, heads=4):
    """self-attention of 4 heads with LayerNorm, 8 x 64 x 256, and backward"""
    nd, autograd = mx.nd, mx.autograd
    data, target = (nd.random.normal(shape=(batch, length, width)) for _ in range(2))
    each = width // heads
    weights = _parameters(mx, [(width, 3 * width), (width, width)])
    gamma, beta = _parameters(mx, [(width,)] * 2, 1.0)

    def step():
        with autograd.record():
            mixed = nd.dot(data, weights[0]).reshape((batch, length, 3 * heads, each)).transpose((0, 2, 1, 3))
            q, k, v = (part.reshape((batch * heads, length, each)) for part in nd.split(mixed, num_outputs=3, axis=1))
            share = nd.softmax(nd.batch_dot(q, k, transpose_b=True) * each**-0.5)
            h = nd.batch_dot(share, v).reshape((batch, heads, length, each)).transpose((0, 2, 1, 3))
            h = nd.dot(h.reshape((batch, length, width)), weights[1])
            loss = (nd.LayerNorm(data + h, gamma, beta) * target).sum()
        loss.backward()
        nd.waitall()

    return step


def embedding(mx, words=10_000, width=128, batch=64, length=32):
    """2048 rows of a table of 10,000 x 128, and backward"""
    nd, autograd = mx.nd, mx.autograd
    indices = nd.arange(batch * length).reshape((batch, length)) * 7 % words
    (table,) = _parameters(mx, [(words, width)])

    def step():
        with autograd.record():
            loss = nd.square(nd.Embedding(indices, table, input_dim=words, output_dim=width)).sum()
        loss.backward()
        table.grad.wait_to_read()

    return step


def dropout(mx, shape=(1024, 1024)):
    """dropout of a million numbers, and backward"""
    nd, autograd = mx.nd, mx.autograd
    x, w = nd.random.normal(shape=shape), nd.random.normal(shape=shape)
    x.attach_grad()

    def step():
        with autograd.record():
            loss = (nd.Dropout(x, p=0.5) * w).sum()
        loss.backward()
        x.grad.wait_to_read()

    return step


#: filters, size of the kernel, stride
DEEP_LAYERS = [(32, 3, 1), (32, 3, 1), (64, 3, 2), (64, 1, 1), (64, 3, 1), (128, 3, 2), (128, 1, 1), (128, 3, 1)]


def deep(mx, batch=16):
    """eight convolutions, 3x3 and 1x1, strides 1 and 2, batch 16, one step of descent"""
    nd, autograd = mx.nd, mx.autograd
    data, label = nd.random.normal(shape=(batch, 3, 32, 32)), nd.arange(batch) % 10
    shapes, channels = [], 3
    for filters, size, _ in DEEP_LAYERS:
        shapes += [(filters, channels, size, size), (filters,)]
        channels = filters
    parameters = _parameters(mx, [*shapes, (10, channels), (10,)])

    def step():
        with autograd.record():
            h = data
            for k, (filters, size, stride) in enumerate(DEEP_LAYERS):
                window = {"kernel": (size,) * 2, "stride": (stride,) * 2, "pad": (size // 2,) * 2}
                h = nd.relu(nd.Convolution(h, parameters[2 * k], parameters[2 * k + 1], num_filter=filters, **window))
            h = nd.FullyConnected(h.mean(axis=(2, 3)), parameters[-2], parameters[-1], num_hidden=10)
            loss = -nd.pick(nd.log_softmax(h), label)
        loss.backward()
        _descend(parameters, 0.01 / batch)
        nd.waitall()

    return step


def adam(mx, count=20, size=256):
    """Adam in array arithmetic, 20 matrices of 256 x 256"""
    nd = mx.nd
    weights, grads = ([nd.random.normal(shape=(size, size)) for _ in range(count)] for _ in range(2))
    means, squares = ([nd.zeros((size, size)) for _ in range(count)] for _ in range(2))

    def step():
        for weight, grad, mean, square in zip(weights, grads, means, squares):
            mean[:] = 0.9 * mean + 0.1 * grad
            square[:] = 0.999 * square + 0.001 * grad * grad
            weight -= 0.001 * mean / (nd.sqrt(square) + 1e-8)
        nd.waitall()

    return step


def slices(mx, steps=50, size=1000):
    """50 rows of 1000 numbers, each written in place from the one before"""
    nd = mx.nd
    x, out = nd.random.normal(shape=(steps, size)), nd.zeros((steps, size))

    def step():
        for t in range(1, steps):
            out[t] = 0.9 * out[t - 1] + x[t]
        out[:, 0:10] = 0
        out.wait_to_read()

    return step


def slices_recorded(mx, steps=50, size=1000):
    """50 rows of 1000 numbers, each assigned from the one before while recording, and backward"""
    nd, autograd = mx.nd, mx.autograd
    x = nd.random.normal(shape=(steps, size))
    (w,) = _parameters(mx, [(size,)])

    def step():
        with autograd.record():
            out = nd.zeros((steps, size))
            for t in range(1, steps):
                out[t] = nd.tanh(out[t - 1] * w + x[t])
            loss = (out * out).sum()
        loss.backward()
        w.grad.wait_to_read()

    return step


def printed(mx, rows=64, columns=32):
    """linear regression, 64 x 32, with the loss asked for in every step"""
    nd, autograd = mx.nd, mx.autograd
    x, y = nd.ones((rows, columns)), nd.ones((rows, 1))
    w = nd.zeros((columns, 1))
    w.attach_grad()

    def step():
        with autograd.record():
            loss = nd.mean(nd.square(nd.dot(x, w) - y))
        loss.backward()
        w[:] = w - 0.01 * w.grad
        return loss.asscalar()

    return step


# -- Gluon: networks, layers and trainers, hybridized


def _trained(mx, net, data, label):
    """Return a training step of a network: forward, loss, backward and an update by a trainer."""
    gluon, autograd = mx.gluon, mx.autograd
    net.initialize(mx.init.Normal(0.05))
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    net.hybridize()
    loss_of.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})

    def step():
        with autograd.record():
            loss = loss_of(net(data), label)
        loss.backward()
        trainer.step(data.shape[0])
        mx.nd.waitall()

    return step


def lenet_of_layers(mx):
    """Return LeNet as a Gluon network."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Conv2D(20, 5, activation="relu"), nn.MaxPool2D())
    net.add(nn.Conv2D(50, 5, activation="relu"), nn.MaxPool2D())
    net.add(nn.Dense(500, activation="relu"), nn.Dense(10))
    return net


def random_tree(draw, words, leaves):
    """Return a binary tree as nested pairs, with numbers of words as leaves."""
    if leaves == 1:
        return draw.randrange(words)
    left = draw.randrange(1, leaves)
    return random_tree(draw, words, left), random_tree(draw, words, leaves - left)


def trees(mx, leaves=20, words=100, hidden=64):
    """LSTM cells along another random tree of 20 words in each step, 64 units, and backward"""
    nd, autograd = mx.nd, mx.autograd
    table, weight, bias = _parameters(mx, [(words, hidden), (2 * hidden, 4 * hidden), (4 * hidden,)])
    draw = random.Random()  # so that no plan of an earlier process fits

    def state(tree):
        if isinstance(tree, int):
            return table[tree : tree + 1], table[tree : tree + 1] * 0
        (left, left_cell), (right, right_cell) = state(tree[0]), state(tree[1])
        gates = nd.dot(nd.concat(left, right, dim=1), weight) + bias
        entrance, keep, outlet, candidate = nd.split(gates, num_outputs=4, axis=1)
        cell = nd.sigmoid(entrance) * nd.tanh(candidate) + nd.sigmoid(keep) * (left_cell + right_cell)
        return nd.sigmoid(outlet) * nd.tanh(cell), cell

    def step():
        with autograd.record():
            out, _ = state(random_tree(draw, words, leaves))
            loss = (out * out).sum()
        loss.backward()
        nd.waitall()

    return step


def gluon_lenet(mx, batch=64):
    """Gluon: LeNet, batch 64, a step of a trainer"""
    nd = mx.nd
    data, label = nd.random.normal(shape=(batch, 1, 28, 28)), nd.arange(batch) % 10
    return _trained(mx, lenet_of_layers(mx), data, label)


def gluon_convbn(mx, batch=16):
    """Gluon: two 3x3 convolutions of 64 channels with BatchNorm, 16 x 28 x 28, a step of a trainer"""
    nd, nn = mx.nd, mx.gluon.nn
    net = nn.HybridSequential()
    for _ in range(2):
        net.add(nn.Conv2D(64, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(10))
    return _trained(mx, net, nd.random.normal(shape=(batch, 64, 28, 28)), nd.arange(batch) % 10)


def _recurrent(kind):
    def make(mx, steps=35, batch=32, hidden=256):
        nd, autograd = mx.nd, mx.autograd
        layer = getattr(mx.gluon.rnn, kind)(hidden, num_layers=2, input_size=hidden)
        layer.initialize(mx.init.Normal(0.05))
        layer.hybridize()
        data = nd.random.normal(shape=(steps, batch, hidden))

        def step():
            with autograd.record():
                loss = layer(data).sum()
            loss.backward()
            nd.waitall()

        return step

    make.__doc__ = f"Gluon: `rnn.{kind}`, two layers of 256 units over 35 steps, batch 32, and backward"
    return make


def gluon_adam(mx, count=20, size=256):
    """Gluon: a trainer with Adam, 20 matrices of 256 x 256"""
    nd, gluon = mx.nd, mx.gluon
    parameters = gluon.ParameterDict()
    for number in range(count):
        parameters.get(f"weight{number}", shape=(size, size))
    parameters.initialize(mx.init.Normal(0.05))
    for parameter in parameters.values():
        parameter.grad()[:] = nd.random.normal(shape=(size, size))
    weights = [parameter.data() for parameter in parameters.values()]
    trainer = gluon.Trainer(parameters, "adam", {"learning_rate": 0.001})

    def step():
        # as after a backward pass
        for weight in weights:
            weight._fresh_grad = True
        trainer.step(1)
        nd.waitall()

    return step


def gluon_embedding(mx, words=10_000, width=128, batch=64, length=32):
    """Gluon: classifies 64 x 32 words by an Embedding of 10,000 x 128 and a Dense layer, a step of a trainer"""
    nd, nn = mx.nd, mx.gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Embedding(words, width), nn.HybridLambda(lambda F, x: F.mean(x, axis=1)), nn.Dense(10))
    indices = nd.arange(batch * length).reshape((batch, length)) * 7 % words
    return _trained(mx, net, indices, nd.arange(batch) % 10)


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
    "gluon-lenet": gluon_lenet,
    "gluon-convbn": gluon_convbn,
    "gluon-rnn": _recurrent("RNN"),
    "gluon-lstm": _recurrent("LSTM"),
    "gluon-gru": _recurrent("GRU"),
    "gluon-adam": gluon_adam,
    "gluon-embedding": gluon_embedding,
}
#: workloads that MXNet cannot run: it refuses to record assignments
ONLY_PHONOGRAD = {"slices-recorded"}
#: workloads with a new graph in each step, which cannot be compiled as a whole
WITHOUT_JAX = {"trees"}
