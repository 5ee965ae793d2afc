"""The workloads in JAX, each step compiled as a whole by ``jax.jit``."""

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


def _convolution(h, w, padding):
    return lax.conv_general_dilated(h, w, (1, 1), padding, dimension_numbers=("NCHW", "OIHW", "NCHW"))


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


def convbn(jax):
    data = _normal((16, 64, 28, 28), 1.0)

    def loss(parameters):
        h = data
        for k in range(2):
            w, gamma, beta = parameters[3 * k : 3 * k + 3]
            h = _convolution(h, w, "SAME")
            mean = h.mean((0, 2, 3), keepdims=True)
            variance = ((h - mean) ** 2).mean((0, 2, 3), keepdims=True)
            h = (h - mean) * lax.rsqrt(variance + 1e-3) * gamma[None, :, None, None] + beta[None, :, None, None]
            h = jax.nn.relu(h)
        return h.sum()

    return _stepper(loss, [_normal(s) for _ in range(2) for s in [(64, 64, 3, 3), (64,), (64,)]])


def matmul(jax, size=1024):
    a, b = _normal((size, size)), _normal((size, size))
    compiled = jax.jit(jnp.matmul)

    def step():
        compiled(a, b).block_until_ready()

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
