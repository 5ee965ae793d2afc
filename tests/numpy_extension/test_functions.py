"""npx: what it offers, functions that MXNet 1.9.1 does not have, files, and higher derivatives of np.linalg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as onp
import pytest

import phonograd as mx
from phonograd import autograd, np, npx
from phonograd.core.base.errors import MXNetError

#: what mx.npx of MXNet 1.9.1 offers, without what its modules import
OFFERED = [
    "activation",
    "arange_like",
    "batch_dot",
    "batch_flatten",
    "batch_norm",
    "cast",
    "convolution",
    "cpu",
    "cpu_pinned",
    "current_context",
    "deconvolution",
    "dropout",
    "embedding",
    "erf",
    "erfinv",
    "fully_connected",
    "gamma",
    "gammaln",
    "gather_nd",
    "get_cuda_compute_capability",
    "gpu",
    "gpu_memory_info",
    "image",
    "is_np_array",
    "is_np_shape",
    "layer_norm",
    "leaky_relu",
    "load",
    "log_softmax",
    "multibox_detection",
    "multibox_prior",
    "multibox_target",
    "nonzero",
    "num_gpus",
    "one_hot",
    "pick",
    "pooling",
    "random",
    "relu",
    "reset_np",
    "reshape",
    "reshape_like",
    "rnn",
    "roi_pooling",
    "save",
    "sequence_mask",
    "set_np",
    "shape_array",
    "sigmoid",
    "slice",
    "smooth_l1",
    "softmax",
    "topk",
    "waitall",
]


@pytest.mark.parametrize("name", OFFERED)
def test_everything_is_there(name: str) -> None:
    assert hasattr(npx, name)
    assert name in dir(npx)


@pytest.mark.parametrize("name", dir(npx))
def test_what_is_listed_is_there(name: str) -> None:
    assert getattr(npx, name) is not None


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="did you mean 'softmax'"):
        _ = npx.softmx
    with pytest.raises(AttributeError, match=r"'phonograd.np.linalg' has no attribute 'nothing'"):
        _ = np.linalg.nothing


def test_masked_softmax() -> None:
    x = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    mask = np.array([[True, True, False], [False, True, True]])
    chances = npx.masked_softmax(x, mask)
    onp.testing.assert_allclose(chances.asnumpy().sum(axis=1), [1, 1], rtol=1e-6)
    assert chances[0, 2] == chances[1, 0] == 0
    onp.testing.assert_allclose(
        npx.masked_log_softmax(x, mask)[0, :2].asnumpy(), onp.log(chances[0, :2].asnumpy()), 1e-6
    )
    x.attach_grad()
    with autograd.record():
        y = npx.masked_softmax(x, mask)[:, 1].sum()
    y.backward()
    assert x.grad[0, 2] == x.grad[1, 0] == 0
    assert bool(np.isfinite(x.grad).all())


def test_index_update_and_add() -> None:
    x = np.zeros((2, 3))
    places = np.array([[0, 1, 1], [2, 0, 0]], dtype="int32")
    assert npx.index_update(x, places, np.array([1.0, 2.0, 2.0])).tolist() == [[0, 0, 1], [2, 0, 0]]
    assert npx.index_add(x, places, np.array([1.0, 2.0, 3.0])).tolist() == [[0, 0, 1], [5, 0, 0]]
    assert npx.index_add(x, np.array([1], dtype="int32"), np.array([[1.0, 2.0, 3.0]])).tolist() == [
        [0, 0, 0],
        [1, 2, 3],
    ]
    assert x.tolist() == [[0, 0, 0], [0, 0, 0]]
    with pytest.raises(MXNetError, match="a row for each of the first axes"):
        npx.index_update(x, np.zeros((3, 1), dtype="int32"), np.ones(1))


def test_control_flow() -> None:
    outputs, state = npx.foreach(lambda x, s: (x + s, x + s), np.array([[1.0], [2.0], [3.0]]), np.zeros((1,)))
    assert (outputs.tolist(), state.tolist()) == ([[1.0], [3.0], [6.0]], [6.0])
    assert type(outputs) is np.ndarray
    _, (last,) = npx.while_loop(lambda i: i < 4, lambda i: (i, [i + 1]), [np.array([0.0])], max_iterations=10)
    assert last.tolist() == [4.0]
    assert npx.cond(np.array([1.0]), lambda: np.ones(1), lambda: np.zeros(1)).tolist() == [1.0]


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "arrays"
    number, empty = np.array(2.5), np.zeros((0, 3))
    npx.save(file, {"number": number, "empty": empty})
    loaded = npx.load(file)
    assert [(type(array), array.shape) for array in loaded.values()] == [(np.ndarray, ()), (np.ndarray, (0, 3))]
    npx.save(file, [np.arange(3), np.arange(2, dtype="int64")])
    assert [array.tolist() for array in npx.load(file)] == [[0, 1, 2], [0, 1]]
    npx.savez(tmp_path / "archive.npz", np.arange(2), named=np.ones(1))
    archive = npx.load(tmp_path / "archive.npz")
    assert {name: array.tolist() for name, array in archive.items()} == {"arr_0": [0.0, 1.0], "named": [1.0]}
    for mistake, error in (({1: number}, TypeError), (3, ValueError)):
        with pytest.raises(error):
            npx.save(file, mistake)


def test_arrays_of_mx_nd_are_taken_too() -> None:
    assert type(npx.relu(mx.nd.ones((2,)))) is mx.nd.NDArray
    with pytest.raises(AssertionError, match="must have NDArray type"):
        npx.relu(onp.ones(2))


def hessian_of(function: Any, x: Any) -> tuple[Any, Any]:
    """Return the derivative of the sum of squares of the first derivative, exactly and by differences."""

    def squares(values: Any) -> Any:
        point = np.array(values, dtype="float64")
        point.attach_grad()
        with autograd.record():
            (slope,) = autograd.grad(function(point).sum(), [point], create_graph=True)
            total = (slope**2).sum()
        total.backward()
        return float(total), point.grad.asnumpy()

    exact = squares(x)[1]
    numeric = onp.zeros_like(exact)
    for place in onp.ndindex(*x.shape):
        step = onp.zeros_like(x)
        step[place] = 1e-5
        numeric[place] = (squares(x + step)[0] - squares(x - step)[0]) / 2e-5
    return exact, numeric


MATRIX = onp.array([[4.0, 1.0, 0.5], [0.7, 3.0, 0.25], [0.2, 0.3, 2.0]])


@pytest.mark.parametrize(
    "function",
    [
        lambda a: np.linalg.inv(a),
        lambda a: np.linalg.det(a),
        lambda a: np.linalg.slogdet(a)[1],
        lambda a: np.linalg.solve(a, np.array([1.0, 2.0, 3.0], dtype="float64")),
        lambda a: np.linalg.svd(a)[1] ** 2,
        lambda a: np.linalg.pinv(a),
        lambda a: np.linalg.norm(a, "nuc"),
        lambda a: np.linalg.norm(a, 3, axis=0),
        lambda a: np.linalg.qr(a)[1],
        lambda a: np.linalg.matrix_power(a, 3),
        lambda a: np.linalg.multi_dot([a, a, a]),
        lambda a: np.linalg.cholesky(np.dot(a, a.T)),
        lambda a: np.linalg.eigvalsh(np.dot(a, a.T)),
        lambda a: npx.softmax(a),
        lambda a: npx.erf(a),
        lambda a: npx.layer_norm(a, np.ones(3, dtype="float64"), np.zeros(3, dtype="float64")),
    ],
    ids=[
        "inv", "det", "slogdet", "solve", "svd", "pinv", "nuclear norm", "vector norm", "qr", "power", "multi_dot",
        "cholesky", "eigvalsh", "softmax", "erf", "layer_norm",
    ],
)  # fmt: skip
def test_second_derivatives(function: Any) -> None:
    exact, numeric = hessian_of(function, MATRIX)
    onp.testing.assert_allclose(exact, numeric, rtol=2e-3, atol=2e-4 * max(1.0, float(onp.abs(numeric).max())))


def test_singular_matrices() -> None:
    with pytest.raises(MXNetError, match="singular"):
        np.linalg.solve(np.zeros((2, 2)), np.ones((2,))).asnumpy()
    with pytest.raises(MXNetError, match="Shape mismatch"):
        np.linalg.solve(np.eye(2), np.ones((3, 1)))
    assert int(np.linalg.matrix_rank(np.ones((2, 2)))) == 1
    onp.testing.assert_allclose(
        np.linalg.pinv(np.ones((2, 2)), rcond=1e-5).asnumpy(), onp.full((2, 2), 0.25), rtol=1e-5
    )


def test_stacks_and_vectors() -> None:
    matrices = np.array(onp.stack([MATRIX, MATRIX.T]), dtype="float64")
    sides = np.array(onp.ones((2, 3)), dtype="float64")
    found = np.linalg.solve(matrices, sides)
    for number, matrix in enumerate((MATRIX, MATRIX.T)):
        onp.testing.assert_allclose(found[number].asnumpy(), onp.linalg.solve(matrix, onp.ones(3)))
    assert np.linalg.norm(matrices, 2, axis=(1, 2)).shape == (2,)
    assert np.linalg.norm(matrices, "nuc", axis=(1, 2), keepdims=True).shape == (2, 1, 1)
    assert np.linalg.norm([3.0, 4.0]) == 5
    assert np.linalg.matrix_rank(matrices).tolist() == [3, 3]
    assert np.linalg.cond(matrices).shape == (2,)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("np.linalg.norm(np.ones((2, 2)), 7)", "Invalid norm order 7 for matrices"),
        ("np.linalg.norm(np.ones(2), 'nuc')", "Invalid norm order 'nuc' for vectors"),
        ("np.linalg.norm(np.ones((2, 2, 2)), 2)", "vectors and matrices"),
        ("np.linalg.qr(np.ones((2, 3)))", "at least as many rows as columns"),
        ("np.linalg.eigvals(np.ones((2, 3)))", "last two dimension must be equal"),
        ("np.linalg.tensorinv(np.ones((2, 3)), 1)", "as many elements"),
        ("np.linalg.tensorsolve(np.ones((2, 3)), np.ones(2))", "square map"),
        ("npx.reshape(np.ones((2, 3)), (-6, 4, -1, -2))", "cannot be split"),
        ("npx.reshape(np.ones((2, 3)), (-6, -1, -1, -2))", "followed by two extents"),
        ("npx.reshape(np.ones((2, 3)), (-2, -2, -2))", "more codes than axes"),
        ("npx.reshape(np.ones((2, 3)), (6,), order='F')", "order='C'"),
    ],
)
def test_mistakes(code: str, words: str) -> None:
    with pytest.raises(MXNetError, match=words):
        eval(code, {"np": np, "npx": npx})
