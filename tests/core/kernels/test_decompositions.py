"""LQ factorization, eigenvalues and singular values: right for every size and kind of matrix, with fixed bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import settings
from phonograd.core.ops.linalg import lapack

from .test_factorizations import MACHINES, run

LQ_SHAPES = [(1, 1), (2, 3), (8, 8), (17, 40), (64, 64), (65, 65), (20, 100), (97, 130)]
SIZES = [1, 2, 3, 8, 17, 33, 64]
SHAPES = [(1, 1), (1, 3), (3, 1), (5, 9), (9, 5), (16, 16), (64, 33), (64, 64)]
KINDS = ["random", "low rank", "diagonal", "equal values", "huge", "tiny", "graded", "ones"]


def turned(array: np.ndarray) -> np.ndarray:
    """Return transposed matrices."""
    return np.swapaxes(array, -1, -2)


def matrices(kind: str, rows: int, columns: int, dtype: str) -> np.ndarray:
    """Return two matrices of a kind."""
    generator = np.random.default_rng([rows, columns])
    found = generator.standard_normal((2, rows, columns))
    few = max(1, min(rows, columns) // 3)
    scales = {"huge": 1e30, "tiny": 1e-35, "graded": 10.0 ** -np.arange(columns)}
    if kind == "low rank":
        found = found[:, :, :few] @ generator.standard_normal((2, few, columns))
    elif kind == "diagonal":
        found = np.eye(rows, columns) * (found + 2)
    elif kind == "equal values":
        found = np.linalg.qr(generator.standard_normal((2, max(rows, columns), max(rows, columns))))[0]
        found = found[:, :rows, :columns]
    elif kind == "ones":
        found = np.ones_like(found)
    with np.errstate(under="ignore"):
        return (found * scales.get(kind, 1.0)).astype(dtype)


def close(found: np.ndarray, expected: np.ndarray, size: int, scale: Any = 1.0) -> None:
    """Check that an error is small against the scale of each matrix."""
    errors = np.abs(found.astype("float64") - expected).reshape(len(found), -1).max(axis=-1)
    bound = 12 * np.sqrt(size + 4) * np.finfo(found.dtype).eps * np.asarray(scale, "float64")
    assert np.all(errors <= bound), (errors / bound).max()


def orthonormal(rows: np.ndarray) -> None:
    """Check that the rows of matrices are orthonormal."""
    wide, size = rows.astype("float64"), rows.shape[-2]
    gram = (wide @ turned(wide)).astype("float64")
    assert np.abs(gram - np.eye(size)).max() <= 12 * np.sqrt(size + 4) * np.finfo(rows.dtype).eps


def is_largest_positive(rows: np.ndarray) -> bool:
    """Return whether the element of largest absolute value of each row is positive."""
    places = np.argmax(np.abs(rows), axis=-1)[..., None]
    return bool((np.take_along_axis(rows, places, axis=-1) > 0).all())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", LQ_SHAPES)
def test_lq_factors(shape: tuple[int, int], dtype: str) -> None:
    data = matrices("random", *shape, dtype)
    found, failed = run("_linalg_gelqf", "gelqf", [data], MACHINES[1])
    assert not failed
    out, lower = found["out"], found["lower"]
    scale = np.linalg.norm(data, axis=(-2, -1))
    close(lower.astype("float64") @ out, data, shape[0], scale * np.finfo(dtype).eps / np.finfo("float64").eps)
    orthonormal(out)
    assert not np.triu(lower, 1).any()


def test_squares_without_precision_are_reported() -> None:
    for size in (3, 70):
        data = matrices("random", size, size, "float32")
        for number, change in enumerate((1e25, 1e-25, 0.0, np.nan)):
            changed = data.copy()
            changed[1] *= np.float32(change)
            found, failed = run("_linalg_gelqf", "gelqf", [changed], MACHINES[1])
            assert failed, (size, number)
            assert np.isnan(np.diagonal(found["lower"][1])).any()
            assert np.isfinite(found["out"][0]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
def test_eigenvalues_and_eigenvectors(size: int, dtype: str) -> None:
    for kind in KINDS:
        data = matrices(kind, size, size, dtype)
        data = data + turned(data) if kind != "graded" else data * turned(data)
        # only the lower triangle is read
        dirty = data + np.triu(np.full((size, size), np.nan, dtype), 1)
        found, failed = run("_linalg_syevd", "syevd", [dirty], MACHINES[1])
        assert not failed, kind
        exact = data.astype("float64")
        expected = np.linalg.eigvalsh(exact)
        scale = np.abs(expected).max(axis=-1)
        vectors, values = found["out"], found["values"]
        close(values, expected, size, scale)
        orthonormal(vectors)
        again = turned(vectors.astype("float64")) @ (values[..., None].astype("float64") * vectors)
        close(again.astype(dtype), exact, size, scale)
        assert (np.diff(values, axis=-1) >= 0).all()
        assert is_largest_positive(vectors)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_and_vectors(shape: tuple[int, int], dtype: str) -> None:
    for kind in KINDS:
        data = matrices(kind, *shape, dtype)
        found, failed = run("_npi_svd", "svd", [data], MACHINES[1])
        assert not failed, kind
        exact = data.astype("float64")
        expected = np.linalg.svd(exact, compute_uv=False)
        left, values, right = found["out"], found["values"], found["right"]
        close(values, expected, max(shape), expected[:, 0])
        orthonormal(turned(left))
        orthonormal(right)
        again = left.astype("float64") @ (values[..., None].astype("float64") * right)
        close(again.astype(dtype), exact, max(shape), expected[:, 0])
        assert (np.diff(values, axis=-1) <= 0).all()
        assert is_largest_positive(right)


def test_zeros_inside_a_bidiagonal_matrix_end_the_iteration() -> None:
    data = np.array([np.eye(9) + np.eye(9, k=-1)] * 2)
    data[:, 4, 4] = data[1, 8, 8] = data[1, 0, 0] = 0
    found, failed = run("_npi_svd", "svd", [data], MACHINES[1])
    assert not failed
    close(found["values"], np.linalg.svd(data, compute_uv=False), 9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bits_depend_on_neither_the_processor_nor_the_division_of_work(dtype: str) -> None:
    symmetric = matrices("random", 21, 21, dtype)
    symmetric = symmetric + turned(symmetric)
    calls = [
        ("_linalg_gelqf", "gelqf", matrices("random", 9, 21, dtype), ("out", "lower")),
        ("_linalg_gelqf", "gelqf", matrices("random", 70, 80, dtype), ("out", "lower")),
        ("_linalg_syevd", "syevd", symmetric, ("out", "values")),
        ("_npi_svd", "svd", matrices("random", 21, 17, dtype), ("out", "values", "right")),
    ]
    for name, routine, data, results in calls:
        expected = run(name, routine, [data], MACHINES[0])[0]
        for machine, pieces in [(MACHINES[0], 2), (MACHINES[1], 1), (MACHINES[2], 2)]:
            found = run(name, routine, [data], machine, pieces)[0]
            for result in results:
                assert found[result].tobytes() == expected[result].tobytes(), (name, machine, pieces)


def test_matrices_that_kernels_leave_are_computed_by_numpy() -> None:
    data = matrices("random", 4, 4, "float32")
    for change in (np.float32(1e30), np.float32(0)):
        mixed = data.copy()
        mixed[1] *= change
        orthonormal_rows, lower = mx.nd.linalg.gelqf(mx.nd.array(mixed))
        close(lower.asnumpy() @ orthonormal_rows.asnumpy(), mixed, 4, np.abs(mixed).max(axis=(-2, -1)) + 1e-30)
        alone = mx.nd.linalg.gelqf(mx.nd.array(data[:1]))[0].asnumpy()
        assert alone.tobytes() == orthonormal_rows[:1].asnumpy().tobytes()
        left, values, right = (part.asnumpy() for part in mx.np.linalg.svd(mx.np.array(mixed)))
        close(left @ (values[..., None] * right), mixed, 4, np.abs(mixed).max(axis=(-2, -1)) + 1e-30)
    values = mx.nd.linalg.syevd(mx.nd.array(np.zeros((2, 3, 3))))[1]
    assert not values.asnumpy().any()
    mixed = data + turned(data)
    mixed[0, 2, 1] = np.nan
    vectors, values = mx.nd.linalg.syevd(mx.nd.array(mixed))
    assert np.isnan(vectors[0].asnumpy()).all()
    assert np.isnan(values[0].asnumpy()).all()
    assert np.isfinite(values[1].asnumpy()).all()


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (2, 1, 1)])
def test_empty_stacks_and_single_elements(shape: tuple[int, ...]) -> None:
    data = mx.nd.array(np.full(shape, -2.0))
    vectors, values = mx.nd.linalg.syevd(data)
    orthonormal_rows, lower = mx.nd.linalg.gelqf(data)
    left, singular, right = mx.np.linalg.svd(data.as_np_ndarray())
    assert vectors.shape == orthonormal_rows.shape == lower.shape == left.shape == right.shape == shape
    assert values.shape == singular.shape == shape[:-1]
    if shape == (2, 1, 1):
        found = [
            part.asnumpy().ravel()[0] for part in (vectors, values, orthonormal_rows, lower, left, singular, right)
        ]
        assert found == [1.0, -2.0, 1.0, -2.0, -1.0, 2.0, 1.0]


def test_transposed_and_sliced_matrices() -> None:
    data = matrices("random", 12, 12, "float64")
    array = mx.np.array(data, dtype="float64")
    for view, exact in ((array.swapaxes(1, 2), turned(data)), (array[:, 2:9, ::2], data[:, 2:9, ::2])):
        left, values, right = (part.asnumpy() for part in mx.np.linalg.svd(view))
        close(left @ (values[..., None] * right), exact, 12, 10)
        if exact.shape[1] >= exact.shape[2]:
            q, r = (part.asnumpy() for part in mx.np.linalg.qr(view))
            close(q @ r, exact, 12, 10)
    symmetric = data + turned(data)
    lower, upper = (mx.np.array(np.tril(symmetric)), mx.np.array(np.triu(symmetric)))
    expected = np.linalg.eigvalsh(symmetric)
    close(mx.np.linalg.eigvalsh(lower.astype("float64")).asnumpy(), expected, 12, 20)
    close(mx.np.linalg.eigvalsh(upper.astype("float64"), "U").asnumpy().astype("float32"), expected, 12, 20)


def test_larger_matrices_are_decomposed_in_their_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    data = matrices("random", 70, 70, "float32")
    symmetric = data + turned(data)
    found = []
    for loop in (lapack._loop, lambda *names: None):
        monkeypatch.setattr(lapack, "_loop", loop)
        vectors, values = (part.asnumpy() for part in mx.nd.linalg.syevd(mx.nd.array(symmetric)))
        left, singular, right = (part.asnumpy() for part in mx.np.linalg.svd(mx.np.array(data)))
        assert {part.dtype for part in (vectors, values, left, singular, right)} == {np.dtype("float32")}
        close(values, np.linalg.eigvalsh(symmetric.astype("float64")), 70, 20)
        close(left @ (singular[..., None] * right), data, 70, 20)
        orthonormal(vectors)
        found.append((values, singular))
    # the private loops of NumPy exist, and do not compute in double precision
    assert any([a.tobytes() != b.tobytes() for a, b in zip(*found, strict=True)])


@pytest.mark.parametrize("executor", ["native", "reference"])
@pytest.mark.parametrize("size", [5, 70])
@pytest.mark.parametrize("element", [np.inf, -np.inf, np.nan])
def test_matrices_that_are_not_finite_have_no_singular_values(executor: str, size: int, element: float) -> None:
    x = np.random.default_rng(size).standard_normal((2, size, size)).astype(np.float32)
    x[1, 2, 3] = element
    # LAPACK may search for ever
    with settings.override(executor=executor), pytest.raises(np.linalg.LinAlgError, match="did not converge"):
        mx.np.linalg.svd(mx.np.array(x))[1].asnumpy()
