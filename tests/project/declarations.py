"""Operators that are declared for one test, and forgotten after it."""

import contextlib
from collections.abc import Iterator

import phonograd as mx
from phonograd.core.graph.operator import NAMES, REGISTRY
from phonograd.core.run import kernel_cache
from phonograd.numpy.declaration import FUNCTIONS, METHODS


@contextlib.contextmanager
def forgotten_operators() -> Iterator[None]:
    """Forget all operators that are declared inside, and their functions and methods."""
    tables = [REGISTRY, FUNCTIONS, *NAMES.values()]
    before = [dict(table) for table in tables]
    methods = set(METHODS)
    homes = [mx.nd, mx.np, mx.npx, mx.sym, mx.nd.NDArray, mx.np.ndarray]
    names = [set(vars(home)) for home in homes]
    try:
        yield
    finally:
        # a thread may still compile their kernels in full
        kernel_cache.wait_for_tier_up()
        for table, known in zip(tables, before, strict=True):
            table.clear()
            table.update(known)
        METHODS.intersection_update(methods)
        for home, known in zip(homes, names, strict=True):
            for name in set(vars(home)) - known:
                delattr(home, name)
