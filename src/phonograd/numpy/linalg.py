"""np.linalg: norms, factorizations and linear systems for stacks of matrices, with NumPy's names.

Functions built on the library's operators are differentiable to every order. NumPy computes eigenvalues of
nonsymmetric matrices, least squares and ranks at the call, without gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.array.call import function_of
from ..core.array.handle import read
from ..core.base.dtypes import kind_of
from ..core.base.errors import MXNetError, nearest
from ..core.graph.operator import REGISTRY
from ..core.graph.shapes import real_axis
from ..ndarray.array import NDArray
from .creation import array, new
from .documentation import complete_all
from .multiarray import ndarray

__all__ = [
    "cholesky",
    "cond",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "tensorinv",
    "tensorsolve",
]


def _call(name: str, *arrays: Any, **parameters: Any) -> Any:
    return function_of(REGISTRY[name], name)(*arrays, **parameters)


def _as_floats(a: Any) -> Any:
    """Convert an array to a floating point type."""
    made = a if isinstance(a, NDArray) else array(a)
    return made if kind_of(made._dtype) == "f" else made.astype("float32")


def _transpose(a: Any) -> Any:
    return _call("swapaxes", a, dim1=-2, dim2=-1)


def _reshape(a: Any, shape: Sequence[int]) -> Any:
    """Reshape without reshape codes and without a view, which would keep the array alive."""
    return a if a.shape == tuple(shape) else _call("_reshape", a, shape=tuple(shape))


# -- norms


def _reduce(name: str, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Reduce axes with an operator; reducing all axes returns a 0-d array."""
    found = _call(name, x, axis=axes, keepdims=True)
    return found if keepdims else _reshape(found, [extent for one, extent in enumerate(x.shape) if one not in axes])


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> ndarray:  # noqa: A002 - NumPy's name
    """Return the norm of vectors or matrices along one axis or two; of the whole array if no axis is given.

    Parameters
    ----------
    ord
        None, or 'fro' for matrices: the square root of the sum of squares. For vectors any number p; infinity is the
        largest magnitude and 0 the number of nonzero elements. For matrices 1 and infinity (largest sum of a column
        or row), 2 (largest singular value), their negatives (the smallest), and 'nuc' (sum of singular values).
    """
    x = _as_floats(x)
    given = range(x.ndim) if axis is None else (axis,) if isinstance(axis, (int, np.integer)) else axis
    axes = tuple([real_axis(int(one), x.ndim, "norm") for one in given])
    if ord is None or ord == "fro":
        return _reduce("norm", x, axes, keepdims) if axes else _call("abs", x)
    order = float(ord) if ord in ("inf", "-inf") else ord
    if len(axes) == 1:
        return _vector_norm(x, order, axes, keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, order, axes, keepdims)
    raise MXNetError(f"Improper number of dimensions to norm: order {ord!r} is for vectors and matrices, not {x.shape}")


def _vector_norm(x: Any, order: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if isinstance(order, str):
        raise MXNetError(f"Invalid norm order {order!r} for vectors")
    sizes = _call("abs", x)
    if order in (math.inf, -math.inf):
        return _reduce("max" if order > 0 else "min", sizes, axes, keepdims)
    if order == 0:
        return _reduce("sum", (x != 0).astype(x._dtype), axes, keepdims)
    if order == 1:
        return _reduce("sum", sizes, axes, keepdims)
    if order == 2:
        return _reduce("norm", x, axes, keepdims)
    return _reduce("sum", sizes**order, axes, keepdims) ** (1.0 / order)


def _matrix_norm(x: Any, order: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    row, column = axes
    if order in (1, -1, math.inf, -math.inf):
        along, other = (row, column) if abs(order) == 1 else (column, row)
        sums = _call("sum", _call("abs", x), axis=along, keepdims=True)
        found = _call("max" if order > 0 else "min", sums, axis=other, keepdims=True)
    elif order in (2, -2, "nuc"):
        places = [one for one in range(x.ndim) if one not in axes]
        values = svd(_call("transpose", x, axes=(*places, row, column)))[1]
        reduction = {2: "max", -2: "min", "nuc": "sum"}[order]
        found = _call(reduction, values, axis=-1, keepdims=True)
    else:
        raise MXNetError(f"Invalid norm order {order!r} for matrices")
    extents = [1 if one in axes else extent for one, extent in enumerate(x.shape)]
    return _reshape(found, extents if keepdims else [extent for one, extent in enumerate(x.shape) if one not in axes])


# -- factorizations


def svd(a: Any) -> tuple[ndarray, ndarray, ndarray]:
    """Return U, L and V with a = U * diag(L) * V, with singular values L in descending order."""
    left, values, right = _call("_npi_svd", _as_floats(a))
    return left, values, right


def cholesky(a: Any) -> ndarray:
    """Return the lower triangular L with a = L * L^T, for symmetric positive definite matrices."""
    return _call("_linalg_potrf", _as_floats(a))


def qr(a: Any, mode: str = "reduced") -> tuple[ndarray, ndarray]:
    """Return Q with orthonormal columns and upper triangular R, with a = Q * R."""
    if mode is not None and mode != "reduced":
        raise NotImplementedError(f"Only default mode='reduced' is implemented, not {mode!r}")
    a = _as_floats(a)
    rows, columns = a.shape[-2:]
    if rows < columns:
        raise MXNetError(f"qr needs at least as many rows as columns to be differentiable, but the shape is {a.shape}")
    orthonormal, lower = _call("_linalg_gelqf", _transpose(a))
    return _transpose(orthonormal), _transpose(lower)


def eigh(a: Any, UPLO: str = "L") -> tuple[ndarray, ndarray]:  # noqa: N803 - NumPy's name
    """Return the eigenvalues of symmetric matrices in ascending order, and the eigenvectors as columns.

    Only one triangle is read: the lower one, or the upper with ``UPLO='U'``.
    """
    if UPLO not in ("L", "U"):
        raise ValueError(f"UPLO must be 'L' or 'U', not {UPLO!r}")
    a = _as_floats(a)
    vectors, values = _call("_linalg_syevd", _transpose(a) if UPLO == "U" else a)
    return values, _transpose(vectors)


def eigvalsh(a: Any, UPLO: str = "L") -> ndarray:  # noqa: N803 - NumPy's name
    """Return the eigenvalues of symmetric matrices in ascending order."""
    return eigh(a, UPLO)[0]


def eig(a: Any) -> tuple[ndarray, ndarray]:
    """Return the eigenvalues of square matrices and the eigenvectors as columns; they must be real."""
    values, vectors = _by_numpy(np.linalg.eig, a)
    return values, vectors


def eigvals(a: Any) -> ndarray:
    """Return the eigenvalues of square matrices, which must be real."""
    return _by_numpy(np.linalg.eigvals, a)


def _by_numpy(function: Callable[..., Any], a: Any) -> Any:
    """Compute with NumPy in double precision; return the result with the dtype and context of an array."""
    a = _as_floats(a)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise MXNetError(f"Input A's last two dimension must be equal, but the shape is {a.shape}")
    found = function(read(a).astype(np.float64))
    parts = found if isinstance(found, tuple) else (found,)
    if any([np.iscomplexobj(part) for part in parts]):
        raise MXNetError("Complex eigvals is unsupported in linalg temporary.")
    made = [new(np.asarray(part).astype(a._dtype), a.context) for part in parts]
    return tuple(made) if isinstance(found, tuple) else made[0]


# -- inverses, determinants, linear systems


def inv(a: Any) -> ndarray:
    """Return the inverse of square matrices."""
    return _call("_linalg_inverse", _as_floats(a))


def det(a: Any) -> ndarray:
    """Return the determinant of square matrices."""
    a = _as_floats(a)
    return _reshape(_call("_linalg_det", a), a.shape[:-2])


def slogdet(a: Any) -> tuple[ndarray, ndarray]:
    """Return the sign of the determinant of square matrices, and the logarithm of its absolute value."""
    a = _as_floats(a)
    sign, logarithm = _call("_linalg_slogdet", a)
    return _reshape(sign, a.shape[:-2]), _reshape(logarithm, a.shape[:-2])


def solve(a: Any, b: Any) -> ndarray:
    """Solve a * x = b for x; b is a vector per matrix, or has right-hand sides as columns."""
    a, b = _as_floats(a), _as_floats(b)
    if b.ndim == a.ndim - 1:
        return _reshape(_call("_npi_solve", a, _reshape(b, (*b.shape, 1))), b.shape)
    return _call("_npi_solve", a, b)


def pinv(a: Any, rcond: Any = 1e-15, hermitian: bool = False) -> ndarray:
    """Return the pseudo-inverse of matrices; singular values below rcond times the largest count as 0."""
    left, values, right = svd(a)
    limit = _call("max", values, axis=-1, keepdims=True) * rcond
    kept = values > limit
    inverted = kept.astype(values._dtype) / _call("where", kept, values, _call("ones_like", values))
    return _call(
        "_linalg_gemm2",
        _transpose(right) * _reshape(inverted, (*values.shape[:-1], 1, values.shape[-1])),
        _transpose(left),
    )


def lstsq(a: Any, b: Any, rcond: Any = "warn") -> tuple[ndarray, ndarray, Any, ndarray]:
    """Return the least squares solution, the sums of squared residuals, the rank and the singular values."""
    a, b = _as_floats(a), _as_floats(b)
    eps = -1 if rcond == "warn" else rcond
    if eps is None:
        eps = np.finfo(a._dtype).eps * max(a.shape)
    solution, residuals, rank, values = np.linalg.lstsq(read(a).astype(np.float64), read(b).astype(np.float64), eps)
    made = [new(np.asarray(part).astype(a._dtype), a.context) for part in (solution, residuals, values)]
    return made[0], made[1], np.int32(rank), made[2]


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False) -> ndarray:  # noqa: N803 - NumPy's name
    """Return the number of singular values that are greater than a tolerance."""
    values = read(_as_floats(A))
    limit = read(tol) if isinstance(tol, NDArray) else tol
    rank = np.linalg.matrix_rank(values, limit, hermitian)
    return new(np.asarray(rank)) if np.ndim(rank) else rank


def cond(x: Any, p: Any = None) -> ndarray:
    """Return the condition number of matrices."""
    found = np.linalg.cond(read(_as_floats(x)), p)
    return new(np.asarray(found)) if np.ndim(found) else found


def tensorinv(a: Any, ind: int = 2) -> ndarray:
    """Return the inverse of a tensor as a map from its last axes to its first ``ind`` axes."""
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    a = _as_floats(a)
    first, last = a.shape[:ind], a.shape[ind:]
    if math.prod(first) != math.prod(last):
        raise MXNetError(f"tensorinv needs as many elements before axis {ind} as after it, but the shape is {a.shape}")
    return _reshape(inv(_reshape(a, (math.prod(first), math.prod(last)))), (*last, *first))


def tensorsolve(a: Any, b: Any, axes: Sequence[int] | None = None) -> ndarray:
    """Solve tensordot(a, x, x.ndim) = b for x, after moving some axes of a to the end."""
    a, b = _as_floats(a), _as_floats(b)
    if axes is not None:
        moved = [real_axis(axis, a.ndim, "tensorsolve") for axis in axes]
        a = _call("transpose", a, axes=(*[axis for axis in range(a.ndim) if axis not in moved], *moved))
    result = a.shape[b.ndim :]
    if math.prod(result) != b.size:
        raise MXNetError(f"tensorsolve needs a square map, but a has shape {a.shape} and b {b.shape}")
    return _reshape(solve(_reshape(a, (b.size, b.size)), _reshape(b, (b.size,))), result)


def matrix_power(a: Any, n: int) -> ndarray:
    """Raise square matrices to the power n; a negative n uses the inverse."""
    a = _as_floats(a) if n < 0 else a if isinstance(a, NDArray) else array(a)
    if n == 0:
        one = np.broadcast_to(np.eye(a.shape[-1], dtype=a._dtype), a.shape)
        return new(np.array(one), a.context)
    base = inv(a) if n < 0 else a
    found: Any = None
    for digit in reversed(f"{abs(n):b}"):
        if digit == "1":
            found = base if found is None else _call("_linalg_gemm2", found, base)
        base = _call("_linalg_gemm2", base, base)
    return found


def multi_dot(arrays: Sequence[Any], *, out: Any = None) -> ndarray:
    """Return the product of several matrices, in the order that needs the fewest operations."""
    matrices = [one if isinstance(one, NDArray) else array(one) for one in arrays]
    if len(matrices) < 2:
        raise ValueError(f"Expecting at least two arrays, but got {len(matrices)}")
    begin, end = matrices[0].ndim == 1, matrices[-1].ndim == 1
    if begin:
        matrices[0] = _reshape(matrices[0], (1, *matrices[0].shape))
    if end:
        matrices[-1] = _reshape(matrices[-1], (*matrices[-1].shape, 1))
    found = _product(matrices)
    extents = ([] if begin else [found.shape[0]]) + ([] if end else [found.shape[1]])
    result = _reshape(found, extents)
    if out is None:
        return result
    out[...] = result
    return out


def _product(matrices: list[Any]) -> Any:
    """Return the product of a chain of matrices in the cheapest order."""
    sizes = [matrices[0].shape[0], *[matrix.shape[1] for matrix in matrices]]
    best: dict[tuple[int, int], tuple[float, int]] = {(i, i + 1): (0.0, i) for i in range(len(matrices))}
    for length in range(2, len(matrices) + 1):
        for start in range(len(matrices) - length + 1):
            stop = start + length
            best[start, stop] = min(
                (best[start, cut][0] + best[cut, stop][0] + sizes[start] * sizes[cut] * sizes[stop], cut)
                for cut in range(start + 1, stop)
            )
    return _multiply(matrices, best, 0, len(matrices))


def _multiply(matrices: list[Any], best: dict[tuple[int, int], tuple[float, int]], start: int, stop: int) -> Any:
    # not a closure: a recursive closure is a reference cycle, which would keep the matrices until garbage collection
    if stop - start == 1:
        return matrices[start]
    cut = best[start, stop][1]
    return _call("dot", _multiply(matrices, best, start, cut), _multiply(matrices, best, cut, stop))


complete_all(globals(), __all__)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"module 'phonograd.np.linalg' has no attribute {name!r}{nearest(name, __all__)}")
