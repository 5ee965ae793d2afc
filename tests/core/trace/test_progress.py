"""Results that are reported while a program still runs are final."""

import importlib.util

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.core.run import kernel_cache
from phonograd.core.run.programs import Progress
from phonograd.core.run.reference import resolve
from phonograd.core.trace import rng
from phonograd.core.trace.evaluation import PROGRESS
from phonograd.core.trace.trace import LOCAL

pytestmark = [
    pytest.mark.usefixtures("planned"),
    pytest.mark.skipif(
        mx.settings.current().executor == "reference" or importlib.util.find_spec("llvmlite") is None,
        reason="NumPy reports no progress",
    ),
]


class Received(Progress):
    """Copies of the values at the moment at which they are reported, and the number of rows that ran until then."""

    def __init__(self, nodes) -> None:
        super().__init__(tuple([(node,) for node in nodes]))
        self.values: dict = {}

    def receive(self, node, value) -> None:
        assert node not in self.values, "a result is reported once"
        self.values[node] = (np.array(value), kernel_cache.statistics.native_calls)


def evaluate(arrays) -> list:
    """Evaluate arrays, and return what was reported about each."""
    nodes = [resolve(array._node) for array in arrays]
    progress = Received(nodes)
    PROGRESS.set(progress)
    try:
        LOCAL.trace.flush()
    finally:
        PROGRESS.set(None)
    return [progress.values[node] for node in nodes]


@pytest.mark.parametrize("watched", [False, True])
def test_gradients_are_reported_early_and_final(watched) -> None:
    net = gluon.nn.Sequential()
    net.add(*[gluon.nn.Dense(40, activation="tanh", in_units=40) for _ in range(5)])
    net.initialize()
    x = nd.random.normal(shape=(8, 40))
    with mx.profiler.profile() if watched else autograd.pause():
        for _ in range(3):
            with autograd.record():
                loss = (net(x) ** 2).sum()
            loss.backward()
            grads = [parameter.grad() for parameter in net.collect_params().values()]
            received = evaluate(grads)
            for grad, (value, _) in zip(grads, received, strict=True):
                np.testing.assert_array_equal(value, grad.asnumpy())
            # the last layer comes first, and long before the end
            moments = [moment for _, moment in received]
            assert moments[-2] < moments[0]
            assert moments[-2] < max(moments)


def test_arrays_that_are_written_in_parts_are_final() -> None:
    x = nd.arange(400).reshape((20, 20))
    for _ in range(3):
        y = nd.dot(x, x) * 0.001
        y[2:5] = nd.dot(x, y)[2:5]
        z = y.reshape((10, 40))
        y[7] = nd.exp(-x[7])
        w = nd.dot(y, x) + z.reshape((20, 20))
        received = evaluate([y, z, w])
        for array, (value, _) in zip((y, z, w), received, strict=True):
            np.testing.assert_array_equal(value.ravel(), array.asnumpy().ravel())


def test_ranks_draw_other_numbers_while_recording() -> None:
    drawn = []
    for rank in (0, 1, 2):
        rng.set_rank(rank)
        try:
            mx.random.seed(3)
            outside = nd.random.uniform(shape=(3,)).asnumpy().tolist()
            with autograd.record():
                inside = nd.random.uniform(shape=(3,)).asnumpy().tolist()
        finally:
            rng.set_rank(0)
        drawn.append((outside, inside))
    assert len({str(outside) for outside, _ in drawn}) == 1
    assert len({str(inside) for _, inside in drawn}) == 3
