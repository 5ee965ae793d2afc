"""Define the workloads in JAX, each step compiled as a whole by ``jax.jit``."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def _normal(shape, scale=0.05):
    return jnp.asarray(np.random.default_rng(0).normal(size=shape) * scale, jnp.float32)


def _stepper(function, arguments, rate=None):
    """Return a step that computes gradients of ``function(parameters)`` and, with a rate, descends."""

    @jax.jit
    def compiled(parameters):
        grads = jax.grad(function)(parameters)
        return grads if rate is None else [p - rate * g for p, g in zip(parameters, grads, strict=True)]

    state = [arguments]

    def step():
        result = jax.block_until_ready(compiled(state[0]))
        if rate is not None:
            state[0] = result

    return step


def _cross_entropy(h, label):
    return -jnp.take_along_axis(jax.nn.log_softmax(h), label[:, None], 1).sum()


def small50(jax, size=10):
    x = jnp.ones(size)

    def loss(parameters):
        y = x
        for _ in range(25):
            y = jnp.tanh(y * parameters[0])
        return y.sum()

    return _stepper(loss, [jnp.full((size,), 0.5)])


def regression(jax, rows=64, columns=32):
    x, y = jnp.ones((rows, columns)), jnp.ones((rows, 1))
    return _stepper(lambda p: ((x @ p[0] + p[1] - y) ** 2).mean(), [jnp.zeros((columns, 1)), jnp.zeros((1,))], 0.01)


def mlp(jax, batch=64):
    data, label = jnp.abs(_normal((batch, 784), 1.0)), jnp.arange(batch) % 10
    pairs = list(itertools.pairwise((784, 256, 128, 10)))

    def loss(parameters):
        h = data
        for layer in range(3):
            h = h @ parameters[2 * layer] + parameters[2 * layer + 1]
            if layer < 2:
                h = jax.nn.relu(h)
        return _cross_entropy(h, label)

    return _stepper(loss, [_normal(shape) for pair in pairs for shape in (pair, pair[1:])], 0.01 / batch)


def lstm(jax, steps=35, batch=32, hidden=128):
    xs = [_normal((batch, hidden), 1.0) for _ in range(steps)]

    def loss(parameters):
        wx, wh, b = parameters
        h = c = jnp.zeros((batch, hidden))
        for x in xs:
            i, f, g, o = jnp.split(x @ wx + h @ wh + b, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return h.sum()

    return _stepper(loss, [_normal(s, 0.1) for s in [(hidden, 4 * hidden), (hidden, 4 * hidden), (4 * hidden,)]])


def elem4m(jax, size=4_000_000):
    def loss(parameters):
        x, w = parameters
        return (jax.nn.sigmoid(x * w + 1) * jnp.tanh(x) + jnp.exp(-x * x)).sum()

    return _stepper(loss, [_normal((size,), 1.0), _normal((size,), 1.0)])


def _convolution(h, w, padding, stride=1):
    return lax.conv_general_dilated(h, w, (stride, stride), padding, dimension_numbers=("NCHW", "OIHW", "NCHW"))


def _pool(h):
    return lax.reduce_window(h, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def lenet(jax, batch=64):
    data, label = _normal((batch, 1, 28, 28), 1.0), jnp.arange(batch) % 10

    def loss(parameters):
        w1, b1, w2, b2, w3, b3, w4, b4 = parameters
        h = _pool(jax.nn.relu(_convolution(data, w1, "VALID") + b1[None, :, None, None]))
        h = _pool(jax.nn.relu(_convolution(h, w2, "VALID") + b2[None, :, None, None]))
        h = h.reshape(batch, -1)
        return _cross_entropy(jax.nn.relu(h @ w3.T + b3) @ w4.T + b4, label)

    shapes = [(20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,), (500, 800), (500,), (10, 500), (10,)]
    return _stepper(loss, [_normal(shape) for shape in shapes], 0.01 / batch)


def _normalized(h, gamma, beta):
    mean = h.mean((0, 2, 3), keepdims=True)
    variance = ((h - mean) ** 2).mean((0, 2, 3), keepdims=True)
    return (h - mean) * lax.rsqrt(variance + 1e-3) * gamma[None, :, None, None] + beta[None, :, None, None]


def convbn(jax):
    data = _normal((16, 64, 28, 28), 1.0)

    def loss(parameters):
        h = data
        for k in range(2):
            w, gamma, beta = parameters[3 * k : 3 * k + 3]
            h = jax.nn.relu(_normalized(_convolution(h, w, "SAME"), gamma, beta))
        return h.sum()

    return _stepper(loss, [_normal(s) for _ in range(2) for s in [(64, 64, 3, 3), (64,), (64,)]])


def matmul(jax, size=1024):
    a, b = _normal((size, size)), _normal((size, size))
    compiled = jax.jit(jnp.matmul)

    def step():
        compiled(a, b).block_until_ready()

    return step


def cross_entropy(jax, batch=256, classes=4096):
    label = jnp.arange(batch)
    return _stepper(lambda p: _cross_entropy(p[0], label) / batch, [_normal((batch, classes), 1.0)])


def batchnorm(jax):
    weight = _normal((32, 64, 28, 28), 1.0)
    arguments = [_normal((32, 64, 28, 28), 1.0), _normal((64,)), _normal((64,))]
    return _stepper(lambda p: (_normalized(*p) * weight).sum(), arguments)


def gru(jax, lengths=(8, 13, 21, 34), batch=32, hidden=128):
    xs = [_normal((batch, hidden), 1.0) for _ in range(max(lengths))]
    shapes = [(hidden, 2 * hidden), (hidden, 2 * hidden), (2 * hidden,), (hidden, hidden), (hidden, hidden), (hidden,)]

    def loss_of(length):
        def loss(parameters):
            wx, wh, b, vx, vh, c = parameters
            h = jnp.zeros((batch, hidden))
            for x in xs[:length]:
                reset, update = jnp.split(jax.nn.sigmoid(x @ wx + h @ wh + b), 2, axis=1)
                candidate = jnp.tanh(x @ vx + reset * (h @ vh) + c)
                h = update * h + (1 - update) * candidate
            return h.sum()

        return loss

    parts = [_stepper(loss_of(length), [_normal(shape, 0.1) for shape in shapes]) for length in lengths]

    def step():
        for part in parts:
            part()

    return step


def attention(jax, batch=8, length=64, width=256, heads=4):
    data, target = _normal((batch, length, width), 1.0), _normal((batch, length, width), 1.0)
    each = width // heads

    def loss(parameters):
        inner, outer, gamma, beta = parameters
        mixed = (data @ inner).reshape(batch, length, 3 * heads, each).transpose(0, 2, 1, 3)
        q, k, v = (part.reshape(batch * heads, length, each) for part in jnp.split(mixed, 3, axis=1))
        share = jax.nn.softmax(q @ k.transpose(0, 2, 1) * each**-0.5)
        h = (share @ v).reshape(batch, heads, length, each).transpose(0, 2, 1, 3)
        h = data + h.reshape(batch, length, width) @ outer
        mean = h.mean(-1, keepdims=True)
        variance = ((h - mean) ** 2).mean(-1, keepdims=True)
        return (((h - mean) * lax.rsqrt(variance + 1e-5) * gamma + beta) * target).sum()

    return _stepper(loss, [_normal((width, 3 * width)), _normal((width, width)), _normal((width,)), _normal((width,))])


def embedding(jax, words=10_000, width=128, batch=64, length=32):
    indices = jnp.arange(batch * length).reshape(batch, length) * 7 % words
    return _stepper(lambda p: jnp.square(p[0][indices]).sum(), [_normal((words, width))])


def dropout(jax, shape=(1024, 1024)):
    w = _normal(shape, 1.0)

    def loss(x, key):
        return (jnp.where(jax.random.bernoulli(key, 0.5, shape), x * 2, 0) * w).sum()

    @jax.jit
    def compiled(x, key):
        key, used = jax.random.split(key)
        return jax.grad(loss)(x, used), key

    x, key = _normal(shape, 1.0), [jax.random.key(0)]

    def step():
        _, key[0] = jax.block_until_ready(compiled(x, key[0]))

    return step


#: filters, size of the kernel, stride
DEEP_LAYERS = [(32, 3, 1), (32, 3, 1), (64, 3, 2), (64, 1, 1), (64, 3, 1), (128, 3, 2), (128, 1, 1), (128, 3, 1)]


def deep(jax, batch=16):
    data, label = _normal((batch, 3, 32, 32), 1.0), jnp.arange(batch) % 10
    shapes, channels = [], 3
    for filters, size, _ in DEEP_LAYERS:
        shapes += [(filters, channels, size, size), (filters,)]
        channels = filters
    shapes += [(10, channels), (10,)]

    def loss(parameters):
        h = data
        for k, (_, size, stride) in enumerate(DEEP_LAYERS):
            padding = [(size // 2, size // 2)] * 2
            h = _convolution(h, parameters[2 * k], padding, stride) + parameters[2 * k + 1][None, :, None, None]
            h = jax.nn.relu(h)
        return _cross_entropy(h.mean((2, 3)) @ parameters[-2].T + parameters[-1], label)

    return _stepper(loss, [_normal(shape) for shape in shapes], 0.01 / batch)


def adam(jax, count=20, size=256):
    grads = [_normal((size, size), 1.0) for _ in range(count)]

    @jax.jit
    def compiled(grads, weights, means, squares):
        means = [0.9 * mean + 0.1 * grad for mean, grad in zip(means, grads, strict=True)]
        squares = [0.999 * square + 0.001 * grad * grad for square, grad in zip(squares, grads, strict=True)]
        weights = [
            weight - 0.001 * mean / (jnp.sqrt(square) + 1e-8)
            for weight, mean, square in zip(weights, means, squares, strict=True)
        ]
        return weights, means, squares

    zeros = [jnp.zeros((size, size)) for _ in range(count)]
    state = [([_normal((size, size), 1.0) for _ in range(count)], zeros, zeros)]

    def step():
        state[0] = jax.block_until_ready(compiled(grads, *state[0]))

    return step


def slices(jax, steps=50, size=1000):
    @jax.jit
    def compiled(out, x):
        for t in range(1, steps):
            out = out.at[t].set(0.9 * out[t - 1] + x[t])
        return out.at[:, 0:10].set(0)

    x, state = _normal((steps, size), 1.0), [jnp.zeros((steps, size))]

    def step():
        state[0] = compiled(state[0], x).block_until_ready()

    return step


def slices_recorded(jax, steps=50, size=1000):
    x = _normal((steps, size), 1.0)

    def loss(parameters):
        out = jnp.zeros((steps, size))
        for t in range(1, steps):
            out = out.at[t].set(jnp.tanh(out[t - 1] * parameters[0] + x[t]))
        return (out * out).sum()

    return _stepper(loss, [_normal((size,))])


def printed(jax, rows=64, columns=32):
    x, y = jnp.ones((rows, columns)), jnp.ones((rows, 1))

    @jax.jit
    def compiled(w):
        loss, grad = jax.value_and_grad(lambda w: ((x @ w - y) ** 2).mean())(w)
        return w - 0.01 * grad, loss

    state = [jnp.zeros((columns, 1))]

    def step():
        state[0], loss = compiled(state[0])
        return loss.item()

    return step


def module_convbn(jax, batch=16):
    data, label = _normal((batch, 64, 28, 28), 1.0), jnp.arange(batch) % 10

    def loss(parameters):
        h = data
        for k in range(2):
            w, gamma, beta = parameters[3 * k : 3 * k + 3]
            h = jax.nn.relu(_normalized(_convolution(h, w, "SAME"), gamma, beta))
        return _cross_entropy(h.mean((2, 3)) @ parameters[6].T + parameters[7], label)

    shapes = [*[(64, 64, 3, 3), (64,), (64,)] * 2, (10, 64), (10,)]
    return _stepper(loss, [_normal(shape) for shape in shapes], 0.01 / batch)


def _rnn_cell(x, state, parameters):
    wx, wh, b = parameters
    h = jnp.tanh(x @ wx + state[0] @ wh + b)
    return (h,)


def _lstm_cell(x, state, parameters):
    wx, wh, b = parameters
    i, f, g, o = jnp.split(x @ wx + state[0] @ wh + b, 4, axis=1)
    c = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def _gru_cell(x, state, parameters):
    wx, wh, b = parameters
    r, z, n = jnp.split(x @ wx + b, 3, axis=1)
    hr, hz, hn = jnp.split(state[0] @ wh, 3, axis=1)
    z = jax.nn.sigmoid(z + hz)
    return ((1 - z) * jnp.tanh(n + jax.nn.sigmoid(r + hr) * hn) + z * state[0],)


def _recurrent(cell, gates, states=1):
    """Return two layers of a cell, each scanned over the steps."""

    def make(jax, steps=35, batch=32, hidden=256):
        data = _normal((steps, batch, hidden), 1.0)

        def loss(parameters):
            h = data
            for layer in range(2):
                own = parameters[3 * layer : 3 * layer + 3]

                def turn(state, x, own=own):
                    state = cell(x, state, own)
                    return state, state[0]

                _, h = lax.scan(turn, (jnp.zeros((batch, hidden)),) * states, h)
            return h.sum()

        width = gates * hidden
        return _stepper(loss, [_normal(shape) for shape in [(hidden, width), (hidden, width), (width,)] * 2])

    return make


def module_embedding(jax, words=10_000, width=128, batch=64, length=32):
    indices, label = jnp.arange(batch * length).reshape(batch, length) * 7 % words, jnp.arange(batch) % 10

    def loss(parameters):
        return _cross_entropy(parameters[0][indices].mean(1) @ parameters[1].T + parameters[2], label)

    return _stepper(loss, [_normal(shape) for shape in [(words, width), (10, width), (10,)]], 0.01 / batch)


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
    "gluon-lenet": lenet,
    "gluon-convbn": module_convbn,
    "gluon-rnn": _recurrent(_rnn_cell, 1),
    "gluon-lstm": _recurrent(_lstm_cell, 4, 2),
    "gluon-gru": _recurrent(_gru_cell, 3),
    "gluon-adam": adam,
    "gluon-embedding": module_embedding,
}
