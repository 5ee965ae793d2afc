"""Gradients that are held as rows until they are read: the same bits as if the whole array had been made."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.core.array.call import function_of
from phonograd.core.array.handle import buffer_of
from phonograd.core.graph.operator import REGISTRY

ROWS, WIDTH = 3000, 24
INDICES = np.array([[5, 7, 5], [2999, 0, 5], [7, 40_000, -3]])
OPTIMIZERS = [
    ("sgd", {}),
    ("sgd", {"learning_rate": -0.5}),
    ("sgd", {"momentum": 0.9, "wd": 0.01}),
    ("adam", {}),
]


def make_layer() -> gluon.nn.Embedding:
    layer = gluon.nn.Embedding(ROWS, WIDTH)
    layer.initialize()
    start = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype("float32")
    start[::3] = -0.0
    layer.weight.set_data(nd.array(start))
    return layer


def train(optimizer: str, options: dict[str, float], reads: bool, steps: int = 5) -> bytes:
    layer = make_layer()
    trainer = gluon.Trainer(layer.collect_params(), optimizer, {"learning_rate": 0.1, **options}, kvstore=None)
    for number in range(steps):
        with autograd.record():
            loss = nd.square(layer(nd.array(INDICES + number))).sum()
        loss.backward()
        if reads:
            layer.weight.grad().asnumpy()
        trainer.step(1)
        layer.weight.data().wait_to_read()
    return bytes(layer.weight.data().asnumpy().tobytes())


@pytest.mark.parametrize("optimizer, options", OPTIMIZERS, ids=lambda value: str(value))
def test_updates_have_the_bits_of_the_whole_gradient(optimizer: str, options: dict[str, float]) -> None:
    assert train(optimizer, options, reads=False) == train(optimizer, options, reads=True)


@pytest.mark.parametrize("rate", [float("inf"), float("nan"), 0.0, -0.0])
def test_rates_that_change_rows_without_a_gradient(rate: float) -> None:
    assert train("sgd", {"learning_rate": rate}, reads=False) == train("sgd", {"learning_rate": rate}, reads=True)


def backward(layer: gluon.nn.Embedding, factor: float = 1.0) -> np.ndarray:
    with autograd.record():
        loss = (layer(nd.array(INDICES)) * factor).sum()
    loss.backward()
    expected = np.zeros((ROWS, WIDTH), "float32")
    np.add.at(expected, np.clip(INDICES, 0, ROWS - 1).reshape(-1), np.float32(factor))
    return expected


@pytest.fixture
def held() -> tuple[gluon.nn.Embedding, nd.NDArray, np.ndarray]:
    """A layer after a backward pass whose gradient is held as rows, the gradient, and its value."""
    layer = make_layer()
    for _ in range(3):
        expected = backward(layer)
        nd.waitall()
    return layer, layer.weight.grad(), expected


def test_the_whole_gradient_is_not_made(held: tuple[gluon.nn.Embedding, nd.NDArray, np.ndarray]) -> None:
    pytest.importorskip("llvmlite")
    _, grad, expected = held
    assert buffer_of(grad) is None
    assert (grad.shape, grad.dtype, grad.context, grad.size) == ((ROWS, WIDTH), np.float32, mx.cpu(), ROWS * WIDTH)
    np.testing.assert_array_equal(grad.asnumpy(), expected)
    assert buffer_of(grad) is not None


def test_it_is_read_as_any_array(held: tuple[gluon.nn.Embedding, nd.NDArray, np.ndarray]) -> None:
    layer, grad, expected = held
    assert (grad * 2).sum().asscalar() == 2 * expected.sum()
    np.testing.assert_array_equal(grad[5:8].asnumpy(), expected[5:8])
    np.testing.assert_array_equal(nd.concat(grad, grad, dim=0).asnumpy(), np.concatenate([expected, expected]))
    backward(layer)
    nd.waitall()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(grad)).asnumpy(), expected)
    backward(layer)
    nd.waitall()
    np.testing.assert_array_equal(np.from_dlpack(grad), expected)


def test_it_is_changed_as_any_array(held: tuple[gluon.nn.Embedding, nd.NDArray, np.ndarray]) -> None:
    layer, grad, expected = held
    grad *= 3
    np.testing.assert_array_equal(grad.asnumpy(), 3 * expected)
    backward(layer)
    nd.waitall()
    grad[5] = 1
    expected[5] = 1
    np.testing.assert_array_equal(grad.asnumpy(), expected)
    view = grad[7]
    expected = backward(layer)
    nd.waitall()
    np.testing.assert_array_equal(view.asnumpy(), expected[7])
    layer.weight.zero_grad()
    nd.waitall()
    assert not grad.asnumpy().any()


def test_it_lasts_until_the_next_gradient(held: tuple[gluon.nn.Embedding, nd.NDArray, np.ndarray]) -> None:
    layer, grad, expected = held
    before = grad.copy()
    layer.weight.set_data(nd.zeros((ROWS, WIDTH)))
    nd.waitall()
    np.testing.assert_array_equal(grad.asnumpy(), expected)
    doubled = backward(layer, 2.0)
    np.testing.assert_array_equal(grad.asnumpy(), doubled)
    np.testing.assert_array_equal(before.asnumpy(), expected)


def test_it_can_be_a_variable(held: tuple[gluon.nn.Embedding, nd.NDArray, np.ndarray]) -> None:
    _, grad, expected = held
    grad.attach_grad()
    with autograd.record():
        loss = (grad * grad).sum()
    loss.backward()
    np.testing.assert_array_equal(grad.grad.asnumpy(), 2 * expected)


def test_another_thread_reads_it(held: tuple[gluon.nn.Embedding, nd.NDArray, np.ndarray]) -> None:
    _, grad, expected = held
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: (grad + 1).asnumpy()).result()
    np.testing.assert_array_equal(found, expected + 1)
    np.testing.assert_array_equal(grad.asnumpy(), expected)


def test_gradients_add_up() -> None:
    layer = make_layer()
    layer.weight.grad_req = "add"
    layer.weight.zero_grad()
    for _ in range(4):
        expected = backward(layer)
        nd.waitall()
    np.testing.assert_array_equal(layer.weight.grad().asnumpy(), 4 * expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_sums_beside_slices_are_those_of_the_whole(dtype: str) -> None:
    rng = np.random.default_rng(0)
    index = nd.array(rng.integers(0, 50, 40), dtype="int64")
    data = nd.array(rng.integers(-9, 9, (40, 19)) / (1 if dtype == "int32" else 7), dtype=dtype)
    whole = _call("_add_axis", data, index, axis=0, extent=100)
    sums = _call("_sum_slices", data, index, extent=100)
    assert not sums[0].asnumpy().any()
    found = _call("_take_sums", sums, _call("_first_place", index, extent=100))
    assert found.asnumpy().tobytes() == whole.asnumpy().tobytes()


def _call(name: str, *arrays: nd.NDArray, **parameters: int) -> nd.NDArray:
    return function_of(REGISTRY[name], name)(*arrays, **parameters)
