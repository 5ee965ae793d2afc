"""Define the functions of :mod:`benchmarks.workloads_functions_nd` in JAX, compiled by ``jax.jit``."""

import jax
import jax.numpy as jnp

from workloads_functions_nd import NAMES, SIZES, data

_FUNCTIONS = {"sigmoid": jax.nn.sigmoid, "erf": jax.scipy.special.erf}


def _maker(name, size):
    def make(jax):
        compiled = jax.jit(_FUNCTIONS.get(name) or getattr(jnp, name))
        arrays = [jnp.asarray(array) for array in data(name, size)]

        def step():
            compiled(*arrays).block_until_ready()

        return step

    return make


WORKLOADS = {f"{name} {label}": _maker(name, size) for name in NAMES for label, size in SIZES.items()}
