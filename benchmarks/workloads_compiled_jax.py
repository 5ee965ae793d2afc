"""Define the steps of :mod:`benchmarks.workloads_compiled_nd` in JAX, each compiled as a whole by ``jax.jit``."""

import jax.numpy as jnp

import workloads_jax
from workloads_jax import _normal as normal


def hvp(jax, rows=256, columns=64, hidden=128):
    x, y = normal((rows, columns), 1.0), normal((rows, 1), 1.0)
    parameters = [normal((columns, hidden)), normal((hidden, 1))]
    along = [normal((columns, hidden), 1.0), normal((hidden, 1), 1.0)]

    def loss(parameters):
        return jnp.square(jnp.tanh(x @ parameters[0]) @ parameters[1] - y).mean()

    compiled = jax.jit(lambda parameters, along: jax.jvp(jax.grad(loss), (parameters,), (along,))[1])

    def step():
        jax.block_until_ready(compiled(parameters, along))

    return step


WORKLOADS = {
    "small50": workloads_jax.small50,
    "regression": workloads_jax.regression,
    "elem4M": workloads_jax.elem4m,
    "cross-entropy": lambda jax: workloads_jax.cross_entropy(jax, 128, 10_000),
    "hvp": hvp,
}
