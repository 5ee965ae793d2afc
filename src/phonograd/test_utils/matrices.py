"""Matrices with known properties, for tests of linear algebra."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..ndarray import NDArray, array

__all__ = [
    "get_identity_mat",
    "get_identity_mat_batch",
    "new_matrix_with_real_eigvals_2d",
    "new_matrix_with_real_eigvals_nd",
    "new_orthonormal_matrix_2d",
    "new_sym_matrix_with_real_eigvals_2d",
    "new_sym_matrix_with_real_eigvals_nd",
]

Array: TypeAlias = "np.ndarray[Any, Any]"

#: eigenvalues are between this number and its negative
LARGEST_EIGENVALUE = 10.0


def get_identity_mat(size: int) -> NDArray:
    """Return the identity matrix of a size."""
    return array(np.eye(size))


def get_identity_mat_batch(size: int) -> NDArray:
    """Return two identity matrices of a size."""
    return array(np.broadcast_to(np.eye(size), (2, size, size)))


def new_orthonormal_matrix_2d(n: int) -> Array:
    """Return a random orthonormal matrix.

    >>> matrix = new_orthonormal_matrix_2d(4)
    >>> np.allclose(matrix @ matrix.T, np.eye(4))
    True
    """
    return np.linalg.qr(np.random.randn(n, n))[0]


def new_sym_matrix_with_real_eigvals_2d(n: int) -> Array:
    """Return a random symmetric matrix with eigenvalues between -10 and 10."""
    basis = new_orthonormal_matrix_2d(n)
    return basis @ np.diag(np.random.uniform(-LARGEST_EIGENVALUE, LARGEST_EIGENVALUE, n)) @ basis.T


def new_matrix_with_real_eigvals_2d(n: int) -> Array:
    """Return a random matrix, in general not symmetric, with real eigenvalues between -10 and 10.

    >>> values = np.linalg.eigvals(new_matrix_with_real_eigvals_2d(5))
    >>> bool((np.imag(values) == 0).all() and abs(values).max() < 10)
    True
    """
    basis = new_orthonormal_matrix_2d(n)
    values = np.sort(np.random.uniform(-LARGEST_EIGENVALUE, LARGEST_EIGENVALUE, n))
    # the eigenvalues of a triangle are its diagonal; small numbers above keep the eigenvector basis well conditioned
    triangle = np.diag(values) + np.triu(np.random.uniform(-1, 1, (n, n)), 1)
    return basis @ triangle @ basis.T


def new_sym_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> Array:
    """Return random symmetric matrices in the last two axes of a shape, with eigenvalues between -10 and 10."""
    return _many(new_sym_matrix_with_real_eigvals_2d, shape)


def new_matrix_with_real_eigvals_nd(shape: tuple[int, ...]) -> Array:
    """Return random matrices in the last two axes of a shape, with real eigenvalues between -10 and 10."""
    return _many(new_matrix_with_real_eigvals_2d, shape)


def _many(make: Any, shape: tuple[int, ...]) -> Array:
    assert len(shape) >= 2, f"matrices need two axes, not {len(shape)}"
    assert shape[-1] == shape[-2], f"matrices must be square, not of shape {shape}"
    count = int(np.prod(shape[:-2]))
    return np.asarray([make(shape[-1]) for _ in range(count)]).reshape(shape)
