"""Define the workloads of :mod:`benchmarks.workloads_lookups_nd` in PyTorch."""

import functools

import numpy
import torch
import torch.nn.functional as F

from workloads_lookups_nd import places, table


def _table(rows, width):
    return torch.tensor(numpy.random.default_rng(1).standard_normal((rows, width)), dtype=torch.float32)


def _indices(count, extent):
    return torch.tensor(places(count, extent))


def _reader(function):
    def step():
        with torch.no_grad():
            function()

    return step


def embedding(torch, rows, width, count):
    weight, indices = _table(rows, width), _indices(count, rows)
    return _reader(lambda: F.embedding(indices, weight))


def _trained(optimizer, sparse, torch, rows, width, count):
    layer = torch.nn.Embedding(rows, width, sparse=sparse)
    update = optimizer(layer.parameters(), 0.001)
    indices = _indices(count, rows)

    def step():
        update.zero_grad()
        layer(indices).square().sum().backward()
        update.step()

    return step


def take(torch, rows, width, count):
    weight, indices = _table(rows, width), _indices(count, rows)
    return _reader(lambda: torch.index_select(weight, 0, indices))


def take_columns(torch, rows, width, count):
    weight, indices = _table(width, rows), _indices(count, rows)
    return _reader(lambda: torch.index_select(weight, 1, indices))


def gather_nd(torch, rows, width, count):
    weight, first, second = _table(rows, width), _indices(8 * count, rows), _indices(8 * count, width)
    return _reader(lambda: weight[first, second])


def scatter_nd(torch, rows, width, count):
    data, indices = _table(count, width), _indices(count, rows)
    return _reader(lambda: torch.zeros(rows, width).index_copy_(0, indices, data))


def index_add(torch, rows, width, count):
    weight, data, indices = _table(rows, width), _table(count, width), _indices(count, rows)
    return _reader(lambda: torch.index_add(weight, 0, indices, data))


def pick(torch, rows, width, count):
    weight, indices = _table(rows, width).requires_grad_(), _indices(rows, width)[:, None]

    def step():
        weight.grad = None
        weight.gather(1, indices).sum().backward()

    return step


def one_hot(torch, rows, width, count):
    indices = _indices(count, width)
    return _reader(lambda: F.one_hot(indices, width).float())


WORKLOADS = table(
    {
        "embedding": embedding,
        "embedding-sgd": functools.partial(_trained, torch.optim.SGD, False),
        "embedding-adam": functools.partial(_trained, torch.optim.Adam, False),
        "sparse-sgd": functools.partial(_trained, torch.optim.SGD, True),
        "sparse-adam": functools.partial(_trained, torch.optim.SparseAdam, True),
        "take": take,
        "take-columns": take_columns,
        "gather_nd": gather_nd,
        "scatter_nd": scatter_nd,
        "index_add": index_add,
        "pick": pick,
        "one_hot": one_hot,
    }
)
