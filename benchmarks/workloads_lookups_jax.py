"""Define the workloads of :mod:`benchmarks.workloads_lookups_nd` in JAX, each step compiled as a whole by ``jax.jit``.

Training steps donate the weight and the states, so that XLA may update them in place. JAX has no sparse gradients.
Steps return what the other libraries compute, the loss and picked elements too: XLA leaves out what is not returned.
"""

import functools

import jax
import jax.numpy as jnp
import numpy

from workloads_lookups_nd import places, table


def _table(rows, width):
    return jnp.asarray(numpy.random.default_rng(1).standard_normal((rows, width)), jnp.float32)


def _indices(count, extent):
    return jnp.asarray(places(count, extent), jnp.int32)


def _reader(function, *arguments):
    compiled = jax.jit(function)

    def step():
        jax.block_until_ready(compiled(*arguments))

    return step


def embedding(jax, rows, width, count):
    return _reader(
        lambda weight, indices: jnp.take(weight, indices, 0, mode="clip"), _table(rows, width), _indices(count, rows)
    )


def _sgd(weight, grad):
    return (weight - 0.001 * grad,)


def _adam(weight, grad, mean, square):
    mean, square = 0.9 * mean + 0.1 * grad, 0.999 * square + 0.001 * grad * grad
    return weight - 0.001 * mean / (jnp.sqrt(square) + 1e-8), mean, square


def _trained(update, states, jax, rows, width, count):
    indices = _indices(count, rows)

    @functools.partial(jax.jit, donate_argnums=0)
    def compiled(state):
        def loss(weight):
            return jnp.square(jnp.take(weight, indices, 0, mode="clip")).sum()

        value, grad = jax.value_and_grad(loss)(state[0])
        return value, update(state[0], grad, *state[1:])

    held = [(_table(rows, width), *[jnp.zeros((rows, width)) for _ in range(states)])]

    def step():
        held[0] = jax.block_until_ready(compiled(held[0]))[1]

    return step


def take_columns(jax, rows, width, count):
    return _reader(
        lambda weight, indices: jnp.take(weight, indices, 1, mode="clip"), _table(width, rows), _indices(count, rows)
    )


def gather_nd(jax, rows, width, count):
    arguments = _table(rows, width), _indices(8 * count, rows), _indices(8 * count, width)
    return _reader(lambda weight, first, second: weight[first, second], *arguments)


def scatter_nd(jax, rows, width, count):
    arguments = _table(count, width), _indices(count, rows)
    return _reader(lambda data, indices: jnp.zeros((rows, width)).at[indices].set(data), *arguments)


def index_add(jax, rows, width, count):
    arguments = _table(rows, width), _table(count, width), _indices(count, rows)
    return _reader(lambda weight, data, indices: weight.at[indices].add(data), *arguments)


def pick(jax, rows, width, count):
    def chosen(weight, indices):
        elements = jnp.take_along_axis(weight, indices[:, None], 1)
        return elements.sum(), elements

    return _reader(jax.grad(chosen, has_aux=True), _table(rows, width), _indices(rows, width))


def one_hot(jax, rows, width, count):
    return _reader(lambda indices: jax.nn.one_hot(indices, width), _indices(count, width))


WORKLOADS = table(
    {
        "embedding": embedding,
        "embedding-sgd": functools.partial(_trained, _sgd, 0),
        "embedding-adam": functools.partial(_trained, _adam, 2),
        "compiled-sgd": functools.partial(_trained, _sgd, 0),
        "compiled-adam": functools.partial(_trained, _adam, 2),
        "take": embedding,
        "take-columns": take_columns,
        "gather_nd": gather_nd,
        "scatter_nd": scatter_nd,
        "index_add": index_add,
        "pick": pick,
        "one_hot": one_hot,
    }
)
