"""Define lookups and scatters in MXNet's interface, for phonograd and for MXNet itself.

Each function takes the size of a table and a number of indices and returns a step, as in
:mod:`benchmarks.workloads_nd`. The indices are the same in all libraries: a few of them repeat.
"""

import functools

import numpy

#: rows and columns of the table, and indices
SIZES = {
    "1k": (1_000, 64, 256),
    "10k": (10_000, 128, 2048),
    "100k": (100_000, 256, 8192),
}


def places(count, extent):
    """Return ``count`` indices below ``extent``, in no order."""
    return numpy.random.default_rng(0).integers(0, extent, count)


def _table(mx, rows, width):
    return mx.nd.array(numpy.random.default_rng(1).standard_normal((rows, width)), dtype="float32")


def _indices(mx, count, extent, dtype="int32"):
    return mx.nd.array(places(count, extent), dtype=dtype)


def _reader(function):
    def step():
        function().wait_to_read()

    return step


def embedding(mx, rows, width, count):
    """the forward pass of Embedding"""
    table, indices = _table(mx, rows, width), _indices(mx, count, rows)
    return _reader(lambda: mx.nd.Embedding(indices, table, input_dim=rows, output_dim=width))


def _trained(optimizer, sparse, mx, rows, width, count):
    layer = mx.gluon.nn.Embedding(rows, width, sparse_grad=sparse)
    layer.initialize(mx.init.Normal(0.05))
    layer.hybridize()
    rate = {"learning_rate": 0.001}
    trainer = mx.gluon.Trainer(layer.collect_params(), optimizer, rate, kvstore=None)
    indices = _indices(mx, count, rows)
    weight = layer.weight

    def step():
        with mx.autograd.record():
            loss = mx.nd.square(layer(indices)).sum()
        loss.backward()
        trainer.step(1)
        weight.data().wait_to_read()

    return step


def _compiled(count_states, mx, rows, width, count):
    """a training step of Embedding as a whole inside mx.compile: like that of JAX, it gives the loss"""
    nd, autograd = mx.nd, mx.autograd
    weight, indices = _table(mx, rows, width), _indices(mx, count, rows)
    weight.attach_grad()
    states = [nd.zeros((rows, width)) for _ in range(count_states)]

    @mx.compile
    def train(indices, weight, *states):
        with autograd.record():
            loss = nd.square(nd.Embedding(indices, weight, input_dim=rows, output_dim=width)).sum()
        (grad,) = autograd.grad(loss, [weight])
        if states:
            mean, square = states
            mean[:] = 0.9 * mean + 0.1 * grad
            square[:] = 0.999 * square + 0.001 * grad * grad
            grad = mean / (nd.sqrt(square) + 1e-8)
        weight -= 0.001 * grad
        return loss

    def step():
        train(indices, weight, *states).wait_to_read()

    return step


def take(mx, rows, width, count):
    """rows of a table"""
    table, indices = _table(mx, rows, width), _indices(mx, count, rows)
    return _reader(lambda: mx.nd.take(table, indices))


def take_columns(mx, rows, width, count):
    """columns of a table"""
    table, indices = _table(mx, width, rows), _indices(mx, count, rows)
    return _reader(lambda: mx.nd.take(table, indices, axis=1))


def _points(mx, rows, width, count):
    return mx.nd.stack(_indices(mx, 8 * count, rows), _indices(mx, 8 * count, width))


def gather_nd(mx, rows, width, count):
    """elements of a table, eight for each index"""
    table, points = _table(mx, rows, width), _points(mx, rows, width, count)
    return _reader(lambda: mx.nd.gather_nd(table, points))


def scatter_nd(mx, rows, width, count):
    """zeros with some rows written"""
    data, indices = _table(mx, count, width), _indices(mx, count, rows).reshape((1, count))
    return _reader(lambda: mx.nd.scatter_nd(data, indices, shape=(rows, width)))


def index_add(mx, rows, width, count):
    """a table with some rows added"""
    table, data = (_table(mx, extent, width).as_np_ndarray() for extent in (rows, count))
    indices = _indices(mx, count, rows).reshape((1, count)).as_np_ndarray()
    return _reader(lambda: mx.npx.index_add(table, indices, data))


def pick(mx, rows, width, count):
    """one element of each row of a table, and backward"""
    table, indices = _table(mx, rows, width), _indices(mx, rows, width, "float32")
    table.attach_grad()

    def step():
        with mx.autograd.record():
            chosen = mx.nd.pick(table, indices)
        chosen.backward()
        table.grad.wait_to_read()

    return step


def one_hot(mx, rows, width, count):
    """one-hot codes of the indices, as wide as the table"""
    indices = _indices(mx, count, width)
    return _reader(lambda: mx.nd.one_hot(indices, width))


#: by name; :func:`table` makes one workload of each for every size
MAKERS = {
    "embedding": embedding,
    "embedding-sgd": functools.partial(_trained, "sgd", False),
    "embedding-adam": functools.partial(_trained, "adam", False),
    "compiled-sgd": functools.partial(_compiled, 0),
    "compiled-adam": functools.partial(_compiled, 2),
    "sparse-sgd": functools.partial(_trained, "sgd", True),
    "sparse-adam": functools.partial(_trained, "adam", True),
    "take": take,
    "take-columns": take_columns,
    "gather_nd": gather_nd,
    "scatter_nd": scatter_nd,
    "index_add": index_add,
    "pick": pick,
    "one_hot": one_hot,
}


def table(makers):
    """Return a workload for each maker and size, by name."""

    def bind(maker, size):
        return lambda library: maker(library, *size)

    return {f"{name} {size}": bind(maker, SIZES[size]) for name, maker in makers.items() for size in SIZES}


WORKLOADS = table(MAKERS)
#: workloads for which MXNet 1.9.1 has no operator, or no compiler
ONLY_PHONOGRAD = {name for name in WORKLOADS if name.startswith(("index_add", "compiled"))}
