"""Eigenvalues and singular values by LAPACK, which NumPy contains, in the precision of the data.

``numpy.linalg`` computes float32 in double precision. Its loops for float32 are in a private module of NumPy. Double
precision is used if that module has other names, or if LAPACK finds no result. See docs/assumptions.md.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from ...base.dtypes import FLOAT32
from ...graph.operator import Array

__all__ = ["eigh", "is_finite", "signs_of_largest", "svd"]


def _loop(*names: str) -> Any:
    """Return the first of some functions of NumPy's private module, or None."""
    try:
        module = importlib.import_module("numpy.linalg._umath_linalg")
    except ImportError:
        return None
    return next((getattr(module, name) for name in names if hasattr(module, name)), None)


def _by_loop(loop: Any, signature: str, matrices: Array) -> Any:
    """Return the results of a function for float32, or None if it has no such loop or finds no result."""
    if loop is None or matrices.dtype != FLOAT32 or signature not in loop.types:
        return None
    with np.errstate(all="ignore"):
        found = loop(matrices, signature=signature)
    return found if np.isfinite(found[1 if len(found) == 3 else 0]).all() else None


def is_finite(matrices: Array) -> bool:
    """Return whether all elements are certainly finite, in one pass: a sum may overflow."""
    return math.isfinite(matrices.sum())


def signs_of_largest(rows: Array) -> Array:
    """Return the sign of the element of largest absolute value of each row, and of the first one of equal ones."""
    highest, lowest = rows.max(axis=-1, keepdims=True), -rows.min(axis=-1, keepdims=True)
    # also false for NaN
    if not ((highest > lowest) | (highest < lowest)).all():
        highest = np.take_along_axis(rows, np.argmax(np.abs(rows), axis=-1)[..., None], axis=-1)
        lowest = np.zeros_like(highest)
    signs: Array = np.copysign(rows.dtype.type(1), highest - lowest)
    return signs


def eigh(matrices: Array) -> tuple[Array, Array]:
    """Return ascending eigenvalues, and eigenvectors as columns, from the lower triangles of finite matrices."""
    found = _by_loop(_loop("eigh_lo"), "f->ff", matrices)
    values, vectors = np.linalg.eigh(matrices.astype(np.float64)) if found is None else found
    return values, vectors


def svd(matrices: Array) -> tuple[Array, Array, Array]:
    """Return U, S and V with ``matrices = U * diag(S) * V``, and descending S."""
    # LAPACK can search for ever for singular values of infinite elements
    if not (is_finite(matrices) or np.isfinite(matrices).all()):
        raise np.linalg.LinAlgError("SVD did not converge: a matrix has infinite or undefined elements")
    # NumPy 1 has one function for few rows and one for few columns
    of_shape = "svd_m_s" if matrices.shape[-2] < matrices.shape[-1] else "svd_n_s"
    found = _by_loop(_loop("svd_s", of_shape), "f->fff", matrices)
    left, values, right = np.linalg.svd(matrices.astype(np.float64), full_matrices=False) if found is None else found
    return left, values, right
