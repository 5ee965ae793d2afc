"""Define the models of :mod:`benchmarks.workloads_models_nd` in JAX, each step compiled as a whole by ``jax.jit``.

Images are in the layout that XLA prefers (channels last). Training uses the statistics of each batch, and keeps no
moving ones.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# -- networks: functions of `take`, which returns the next parameter of a shape, and of data


def _parameters(net, data):
    """Return the parameters that a network takes, in order."""
    random, made = np.random.default_rng(0), []

    def take(*shape, start=None):
        value = random.normal(size=shape) * 0.05 if start is None else np.full(shape, start)
        made.append(value.astype(np.float32))
        return jnp.asarray(made[-1])

    jax.eval_shape(functools.partial(net, take), data)
    return list(map(jnp.asarray, made))


def _apply(net, parameters, *data):
    rest = iter(parameters)
    return net(lambda *shape, start=None: next(rest), *data)


def _dense(take, x, units, bias=True):
    y = x @ take(x.shape[-1], units)
    return y + take(units, start=0) if bias else y


def _convolve(take, x, filters, kernel, stride=1, pad=0, groups=1):
    weight = take(kernel, kernel, x.shape[-1] // groups, filters)
    sides = [(pad, pad)] * 2
    names = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x, weight, (stride, stride), sides, dimension_numbers=names, feature_group_count=groups
    )


def _transposed(take, x, filters, kernel, stride, pad):
    weight = take(kernel, kernel, x.shape[-1], filters)
    return lax.conv_transpose(
        x, weight, (stride, stride), [(kernel - 1 - pad,) * 2] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _normalize(take, x, training):
    scale, shift = take(x.shape[-1], start=1), take(x.shape[-1], start=0)
    if training:
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    else:
        mean, variance = take(x.shape[-1], start=0), take(x.shape[-1], start=1)
    return (x - mean) * (lax.rsqrt(variance + 1e-5) * scale) + shift


def _layer_norm(take, x):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * take(x.shape[-1], start=1) + take(x.shape[-1], start=0)


def _resnet(take, x, counts=(2, 2, 2, 2), bottleneck=False, classes=1000, training=False):
    def plain(x, *numbers):
        return _normalize(take, _convolve(take, x, *numbers), training)

    x = jax.nn.relu(plain(x, 64, 7, 2, 3))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0), (1, 1), (1, 1), (0, 0)])
    for level, count in enumerate(counts):
        after = (256 if bottleneck else 64) << level
        for number in range(count):
            stride = 2 if level and not number else 1
            if bottleneck:
                y = jax.nn.relu(plain(x, after // 4, 1, stride))
                y = plain(jax.nn.relu(plain(y, after // 4, 3, 1, 1)), after, 1)
            else:
                y = plain(jax.nn.relu(plain(x, after, 3, stride, 1)), after, 3, 1, 1)
            changes = stride > 1 or x.shape[-1] != after
            x = jax.nn.relu(y + (plain(x, after, 1, stride) if changes else x))
    return _dense(take, x.mean((1, 2)), classes)


def _mobilenet2(take, x, classes=1000, training=False):
    def plain(x, *numbers):
        return _normalize(take, _convolve(take, x, *numbers), training)

    x = jax.nn.relu6(plain(x, 32, 3, 2, 1))
    for expansion, after, count, stride in (
        *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
        *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
    ):
        for number in range(count):
            step, wide = stride if not number else 1, x.shape[-1] * expansion
            y = jax.nn.relu6(plain(x, wide, 1)) if expansion > 1 else x
            y = plain(jax.nn.relu6(plain(y, wide, 3, step, 1, wide)), after, 1)
            x = x + y if step == 1 and x.shape[-1] == after else y
    return _dense(take, jax.nn.relu6(plain(x, 1280, 1)).mean((1, 2)), classes, bias=False)


def _encoder(take, x, words=5_000, width=256, heads=4, layers=4):
    x = take(words, width)[x]
    batch, length, _ = x.shape
    for _ in range(layers):
        mixed = _dense(take, x, 3 * width).reshape(batch, length, 3, heads, width // heads)
        q, k, v = jnp.moveaxis(mixed, 2, 0)
        share = jax.nn.softmax(jnp.einsum("nqhd,nkhd->nhqk", q, k) * (width // heads) ** -0.5)
        mixed = jnp.einsum("nhqk,nkhd->nqhd", share, v).reshape(batch, length, width)
        x = _layer_norm(take, x + _dense(take, mixed, width))
        wide = jax.nn.gelu(_dense(take, x, 4 * width), approximate=False)
        x = _layer_norm(take, x + _dense(take, wide, width))
    return _dense(take, x, words).reshape(-1, words)


def _language_model(take, x, words=10_000, width=200, layers=2):
    x = take(words, width)[x]
    for _ in range(layers):
        given, weight = _dense(take, x, 4 * width), take(width, 4 * width)
        bias = take(4 * width, start=0)

        def next_step(state, row, weight=weight, bias=bias):
            h, c = state
            i, f, g, o = jnp.split(row + h @ weight + bias, 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((x.shape[1], width))
        _, x = lax.scan(next_step, (zeros, zeros), given)
    return _dense(take, x, words).reshape(-1, words)


def _perceptron(take, x):
    x = jax.nn.relu(_dense(take, jax.nn.relu(_dense(take, x, 256)), 128))
    return _dense(take, x, 10)


# -- training


def _normal(shape):
    return jnp.asarray(np.random.default_rng(1).normal(size=shape), jnp.float32)


def _descending(loss, parameters, rate=0.01):
    """Return a step of descent on a function of parameters."""

    @functools.partial(jax.jit, donate_argnums=0)
    def compiled(parameters):
        return [p - rate * g for p, g in zip(parameters, jax.grad(loss)(parameters), strict=True)]

    state = [parameters]

    def step():
        state[0] = jax.block_until_ready(compiled(state[0]))

    return step


def _trained(net, data, label):
    def loss(parameters):
        scores = jax.nn.log_softmax(_apply(net, parameters, data))
        return -jnp.take_along_axis(scores, label[:, None], 1).mean()

    return _descending(loss, _parameters(net, data))


def resnet18(jax, batch=8, side=64):
    net = functools.partial(_resnet, classes=10, training=True)
    return _trained(net, _normal((batch, side, side, 3)), jnp.arange(batch) % 10)


def mobilenet2(jax, batch=8, side=64):
    net = functools.partial(_mobilenet2, classes=10, training=True)
    return _trained(net, _normal((batch, side, side, 3)), jnp.arange(batch) % 10)


def bert(jax, batch=8, length=64, words=5_000):
    data = jnp.arange(batch * length).reshape(batch, length) * 7 % words
    return _trained(_encoder, data, (data + 1).reshape(-1) % words)


def ptb_lstm(jax, batch=20, length=35, words=10_000):
    data = jnp.arange(batch * length).reshape(length, batch) * 13 % words
    return _trained(_language_model, data, (data + 1).reshape(-1) % words)


def _generator(take, x, width=64):
    for number, channels in enumerate((4 * width, 2 * width, width)):
        place = (1, 0) if not number else (2, 1)
        x = jax.nn.relu(_normalize(take, _transposed(take, x, channels, 4, *place), True))
    return jnp.tanh(_transposed(take, x, 3, 4, 2, 1))


def _discriminator(take, x, width=64):
    for number, channels in enumerate((width, 2 * width, 4 * width)):
        x = _convolve(take, x, channels, 4, 2, 1)
        x = jax.nn.leaky_relu(_normalize(take, x, True) if number else x, 0.2)
    return _convolve(take, x, 1, 4).reshape(-1)


def _adam(parameters, grads, state, rate=2e-4, first=0.5, second=0.999):
    """Return parameters and the state of Adam after one step."""
    count, means, squares = state
    means = [first * m + (1 - first) * g for m, g in zip(means, grads, strict=True)]
    squares = [second * s + (1 - second) * g * g for s, g in zip(squares, grads, strict=True)]
    count, scale = count + 1, rate * jnp.sqrt(1 - second ** (count + 1)) / (1 - first ** (count + 1))
    moved = [p - scale * m / (jnp.sqrt(s) + 1e-8) for p, m, s in zip(parameters, means, squares, strict=True)]
    return moved, (count, means, squares)


def dcgan(jax, batch=16):
    real, seed = _normal((batch, 32, 32, 3)), _normal((batch, 1, 1, 100))
    parameters = [_parameters(_generator, seed), _parameters(_discriminator, real)]
    zeros = [[jnp.zeros_like(p) for p in each] for each in parameters]
    state = [(*parameters, *[(jnp.zeros(()), each, each) for each in zeros])]

    def loss(scores, wanted):
        return (jax.nn.relu(scores) - scores * wanted + jnp.log1p(jnp.exp(-jnp.abs(scores)))).mean()

    def of_discriminator(weights, made):
        return loss(_apply(_discriminator, weights, real), 1) + loss(_apply(_discriminator, weights, made), 0)

    def of_generator(weights, judge):
        return loss(_apply(_discriminator, judge, _apply(_generator, weights, seed)), 1)

    @jax.jit
    def compiled(maker, judge, state_of_maker, state_of_judge):
        grads = jax.grad(of_discriminator)(judge, _apply(_generator, maker, seed))
        judge, state_of_judge = _adam(judge, grads, state_of_judge)
        grads = jax.grad(of_generator)(maker, judge)
        maker, state_of_maker = _adam(maker, grads, state_of_maker)
        return maker, judge, state_of_maker, state_of_judge

    def step():
        state[0] = jax.block_until_ready(compiled(*state[0]))

    return step


def gaussian_process(jax, points=300):
    x = jnp.arange(points, dtype=jnp.float32).reshape(-1, 1) / points * 10
    y, distance, noise = jnp.sin(x), (x - x.T) ** 2, jnp.eye(points) * 0.1

    @jax.jit
    @functools.partial(jax.grad, argnums=(0, 1))
    def compiled(scale, length):
        covariance = jnp.exp(scale) * jnp.exp(-0.5 * distance * jnp.exp(-2 * length)) + noise
        factor = jnp.linalg.cholesky(covariance)
        solved = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
        return 0.5 * (solved * solved).sum() + jnp.log(jnp.diagonal(factor)).sum()

    return lambda: jax.block_until_ready(compiled(0.1, 0.2))


def physics(jax, points=256, width=32):
    x, t = jnp.abs(_normal((2, points)))

    def net(take, x):
        x = jnp.tanh(_dense(take, jnp.tanh(_dense(take, x, width)), width))
        return _dense(take, x, 1)

    def loss(parameters):
        def at(x, t):
            return _apply(net, parameters, jnp.stack((x, t)))[0]

        by_t, by_xx = jax.grad(at, 1), jax.grad(jax.grad(at))
        return (jax.vmap(lambda x, t: by_t(x, t) - 0.1 * by_xx(x, t))(x, t) ** 2).mean()

    return _descending(loss, _parameters(net, jnp.zeros(2)), 1e-3)


# -- inference

NETWORKS = {
    "resnet18": _resnet,
    "resnet50": functools.partial(_resnet, counts=(3, 4, 6, 3), bottleneck=True),
    "mobilenet2": _mobilenet2,
    "bert": _encoder,
    "lstm": _language_model,
    "mlp": _perceptron,
}


def _infer(name, batch, jax):
    from workloads_models_nd import NETWORKS as SHAPES

    net, shape = NETWORKS[name], SHAPES[name][1 if batch == 1 else 2]
    if name == "lstm":
        data = jnp.arange(batch * shape[0]).reshape(shape[0], batch) * 13 % 10_000
    elif name == "bert":
        data = jnp.arange(batch * shape[0]).reshape(batch, shape[0]) * 7 % 5_000
    else:
        data = _normal((batch, *shape[1:], shape[0]) if len(shape) == 3 else (batch, *shape))
    parameters, compiled = _parameters(net, data), jax.jit(functools.partial(_apply, net))
    return lambda: np.asarray(compiled(parameters, data))


WORKLOADS = {
    "resnet18": resnet18,
    "mobilenet2": mobilenet2,
    "bert": bert,
    "ptb-lstm": ptb_lstm,
    "dcgan": dcgan,
    "gp": gaussian_process,
    "pinn": physics,
    **{f"infer-{name}-{batch}": functools.partial(_infer, name, batch) for name in NETWORKS for batch in (1, 32)},
}
