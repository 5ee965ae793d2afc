"""Factorizations of stacks of matrices: Cholesky, LQ, eigenvalues, inverse and determinant.

Kernels factorize matrices in their own precision: Cholesky's algorithm, Gauss's with partial pivoting, and reflections
for the LQ factorization and for the eigenvalues of up to 64 rows. LAPACK finds those of larger matrices. The symmetric
factorizations (``potrf``, ``syevd``) read the lower triangle of their argument and return the symmetric gradient: the
derivative with respect to a symmetric change of the matrix.

A matrix without a factorization raises an error when the result is computed; the message gives its index in the stack.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partials, same_shapes
from ...graph.node import Node
from ...graph.operator import Array, Spec, operator, single
from ...graph.partial_shapes import same_results
from ...lower.lowering import Called
from ..math.broadcasting import sum_to
from ..math.comparison import equal
from ..math.primitives import matmul, reshape_to, select, swap_last
from ..math.structural import constant, full
from . import lapack
from .linalg import (
    extractdiag,
    makediag,
    per_matrix,
    product_triangle,
    require_matrices,
    require_square,
    solve_triangular,
    triangle,
    trsm,
)

__all__ = ["det", "gelqf", "inverse", "potrf", "potri", "slogdet", "syevd"]

_NOT_SQUARE = "Input A's last two dimension must be equal"


def _cubic(node: Node) -> float:
    source = node.inputs[0]
    return float(source.size * source.shape[-2])


def _transpose(array: Array) -> Array:
    return np.swapaxes(array, -1, -2)


def _culprit(stack: Array, works: Callable[[Array], Any]) -> tuple[int, ...]:
    """Return the index of the first matrix of a stack for which ``works`` raises ``LinAlgError``."""
    for index in np.ndindex(*stack.shape[:-2]):
        try:
            works(stack[index])
        except np.linalg.LinAlgError:
            return index
    raise AssertionError("each matrix has a factorization, but the stack does not")


def _regular(stack: Array) -> tuple[Array, Array]:
    """Return the square matrices in double precision, and a mask of the finite ones; others become the identity.

    LAPACK routines handle NaN in different ways; here a matrix with NaN or infinity gives NaN.
    """
    finite = np.asarray(np.isfinite(stack).all(axis=(-2, -1), keepdims=True))
    wide = stack.astype(np.float64)
    return (wide if finite.all() else np.where(finite, wide, np.eye(stack.shape[-1]))), finite


def _matrix_name(index: tuple[int, ...]) -> str:
    return f"matrix {format_shape(index)} of the stack" if index else "the matrix"


def _identity(like: Node) -> Node:
    return single(makediag(full(like.shape[:-1], 1, like.dtype, like.context)))


def _symmetric(node: Node) -> Node:
    return (node + swap_last(node)) * 0.5


# -- Cholesky


def _check_potrf(failed: bool, A: Array, out: Array) -> Array:
    """Return the factors, or raise if a finite matrix has none."""
    if not failed:
        return out
    diagonal = np.diagonal(out, 0, -2, -1)
    finite = np.asarray(np.isfinite(np.tril(A)).all(axis=(-2, -1)))
    if not finite.all():
        out[~finite] = np.tril(np.full(A.shape[-2:], np.nan))
    bad = np.argwhere(np.isnan(diagonal) & finite[..., None])
    if len(bad):
        *index, row = (int(position) for position in bad[0])
        raise _no_factor(tuple(index), row + 1)
    return out


def _no_factor(index: tuple[int, ...], order: int) -> MXNetError:
    return MXNetError(
        f"potrf failed. This may happen when the input matrix is either not symmetric or not positive definite: "
        f"the leading minor of order {order} of {_matrix_name(index)} is not positive "
        f"definite. Adding a small multiple of the identity to A often helps."
    )


@operator(
    name="_linalg_potrf",
    aliases=("linalg_potrf",),
    cost=lambda node: _cubic(node) / 3,
    lowering=Called("potrf", _check_potrf),
)
def potrf(A: Array) -> Array:
    """Return the Cholesky factor of symmetric positive definite matrices: lower triangular L with A = L * L^T."""
    wide, finite = _regular(A)
    try:
        factor = np.linalg.cholesky(wide)
    except np.linalg.LinAlgError:
        index = _culprit(wide, np.linalg.cholesky)
        raise _no_factor(index, _first_bad_minor(wide[index])) from None
    return np.where(finite, factor, np.tril(np.full_like(factor, np.nan))).astype(A.dtype)


def _first_bad_minor(matrix: Array) -> int:
    """Return the order of the smallest leading minor without a Cholesky factor."""
    good, bad = 0, len(matrix)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            np.linalg.cholesky(matrix[:middle, :middle])
            good = middle
        except np.linalg.LinAlgError:
            bad = middle
    return bad


@potrf.infer
def potrf_shape(A: Node) -> Spec:
    require_matrices("_linalg_potrf", A)
    require_square("_linalg_potrf", A, "No square matrix as input to potrf.")
    return A.shape, A.dtype


@potrf.gradient
def potrf_grad(out_grad: Node, out: Node, A: Node) -> Node:
    inner = _half_diagonal(product_triangle(out, out_grad, transpose_a=True, late=True))
    return _symmetric(_between_inverses(out, inner))


def _half_diagonal(node: Node) -> Node:
    """Return a lower triangle with half of its diagonal."""
    return (node + triangle(node, offset=-1)) * 0.5


def _between_inverses(factor: Node, node: Node) -> Node:
    """Return L^-T * node * L^-1 for a lower triangular factor L."""
    left = single(trsm(factor, node, transpose=True))
    return single(trsm(factor, left, rightside=True))


def _require_factor(A: Array) -> None:
    """Raise if the diagonal of a factor has a zero."""
    diagonal = A.diagonal(0, -2, -1)
    if not diagonal.all():
        zeros = diagonal == 0
        *index, row = (int(position) for position in np.argwhere(zeros)[0])
        raise MXNetError(
            f"potri failed. This may happen when the input matrix is not a Cholesky factorization obtained by a prior "
            f"call of the potrf-operator: element {row} of the diagonal of {_matrix_name(tuple(index))} is zero."
        )


def _check_potri(failed: bool, A: Array, out: Array, inverse: Array) -> Array:
    _require_factor(A)
    return out


@operator(name="_linalg_potri", aliases=("linalg_potri",), cost=_cubic, lowering=Called("potri", _check_potri))
def potri(A: Array) -> Array:
    """Return the inverse of a matrix from its Cholesky factor: the inverse of L * L^T for lower triangular L."""
    _require_factor(A)
    wide = A.astype(np.float64)
    inverted = solve_triangular(wide, np.broadcast_to(np.eye(A.shape[-1]), wide.shape))
    out: Array = np.matmul(_transpose(inverted), inverted)
    return out.astype(A.dtype)


@potri.infer
def potri_shape(A: Node) -> Spec:
    require_matrices("_linalg_potri", A)
    require_square("_linalg_potri", A, "No square matrix as input to potri.")
    return A.shape, A.dtype


potrf.interface = potri.interface = Interface(shapes=same_shapes, results=same_results)


@potri.gradient
def potri_grad(out_grad: Node, out: Node, A: Node) -> Node:
    both = matmul(out, out_grad + swap_last(out_grad))
    return -triangle(single(trsm(A, both, transpose=True, rightside=True)))


# -- LQ


def _finish_gelqf(failed: bool, A: Array, out: Array, lower: Array, *others: Array) -> tuple[Array, Array]:
    """Return the factors; NumPy computes those of numbers whose squares overflow or vanish."""
    if failed:
        missing = np.isnan(np.diagonal(lower, 0, -2, -1)).any(axis=-1)
        out[missing], lower[missing] = gelqf.function(A[missing])
    return out, lower


@operator(
    name="_linalg_gelqf",
    aliases=("linalg_gelqf",),
    cost=lambda node: 2 * _cubic(node),
    lowering=Called("gelqf", _finish_gelqf),
)
def gelqf(A: Array) -> tuple[Array, Array]:
    """Return Q and L with A = L * Q: Q has orthonormal rows, and L is lower triangular.

    A must not have more rows than columns.
    """
    orthonormal, upper = np.linalg.qr(_transpose(A).astype(np.float64))
    return (
        np.ascontiguousarray(_transpose(orthonormal).astype(A.dtype)),
        np.ascontiguousarray(_transpose(upper).astype(A.dtype)),
    )


@gelqf.infer
def gelqf_shape(A: Node) -> list[Spec]:
    require_matrices("_linalg_gelqf", A)
    rows, columns = A.shape[-2:]
    if rows > columns:
        raise MXNetError(
            f"Input A shape wrong: Last dimension must be >= than second to last "
            f"(operator _linalg_gelqf, shape {format_shape(A.shape)}; transpose the matrix)"
        )
    return [(A.shape, A.dtype), ((*A.shape[:-2], rows, rows), A.dtype)]


@gelqf.gradient
def gelqf_grad(out_grads: tuple[Node | None, Node | None], outs: tuple[Node, Node], A: Node) -> Node:
    orthonormal_grad, lower_grad = out_grads
    orthonormal, lower = outs
    inner = None
    if lower_grad is not None:
        inner = product_triangle(lower, lower_grad, transpose_a=True, late=True)
    if orthonormal_grad is not None:
        turned = product_triangle(orthonormal_grad, orthonormal, transpose_b=True)
        inner = -turned if inner is None else inner - turned
    assert inner is not None
    mirrored = inner + swap_last(triangle(inner, offset=-1))
    total = matmul(mirrored, orthonormal)
    if orthonormal_grad is not None:
        total = total + orthonormal_grad
    return single(trsm(lower, total, transpose=True))


# -- eigenvalues


def _finish_syevd(failed: bool, A: Array, out: Array, values: Array) -> tuple[Array, Array]:
    """Return eigenvectors and eigenvalues; NumPy computes those of matrices that kernels leave."""
    if failed:
        missing = np.isnan(values).any(axis=-1)
        out[missing], values[missing] = syevd.function(A[missing])
    return out, values


@operator(
    name="_linalg_syevd",
    aliases=("linalg_syevd",),
    cost=lambda node: 9 * _cubic(node),
    lowering=Called("syevd", _finish_syevd),
)
def syevd(A: Array) -> tuple[Array, Array]:
    """Return the eigenvectors U (as rows) and ascending eigenvalues L of symmetric matrices.

    ``A = U^T * diag(L) * U``. The largest component of each eigenvector is positive. The eigenvectors have gradients
    if all eigenvalues are distinct; otherwise only the eigenvalues have gradients.
    """
    if not A.size:
        return A.copy(), np.empty(A.shape[:-1], A.dtype)
    if lapack.is_finite(A):
        return _eigenvectors(A)
    finite = np.asarray(np.isfinite(np.tril(A)).all(axis=(-2, -1), keepdims=True))
    rows, values = _eigenvectors(np.where(finite, A, np.eye(A.shape[-1], dtype=A.dtype)))
    return np.where(finite, rows, np.nan), np.where(finite[..., 0], values, np.nan)


def _eigenvectors(A: Array) -> tuple[Array, Array]:
    """Return the eigenvectors of finite matrices as rows with a positive largest component, and the eigenvalues."""
    values, vectors = lapack.eigh(A)
    turned = _transpose(vectors)
    rows = np.empty(A.shape, A.dtype)
    np.multiply(turned, lapack.signs_of_largest(turned), out=rows, casting="same_kind")
    return rows, values.astype(A.dtype)


@syevd.infer
def syevd_shape(A: Node) -> list[Spec]:
    require_matrices("_linalg_syevd", A)
    require_square("_linalg_syevd", A, "Input A shape wrong: Last two dimensions must be equal")
    return [(A.shape, A.dtype), (A.shape[:-1], A.dtype)]


@syevd.gradient
def syevd_grad(out_grads: tuple[Node | None, Node | None], outs: tuple[Node, Node], A: Node) -> Node:
    vectors_grad, values_grad = out_grads
    vectors, values = outs
    size = values.shape[-1]
    if vectors_grad is None:
        assert values_grad is not None
        scaled = vectors * reshape_to(values_grad, (*values.shape[:-1], size, 1))
        lower = product_triangle(vectors, scaled, transpose_a=True)
        return lower + swap_last(triangle(lower, offset=-1))
    rows = reshape_to(values, (*values.shape[:-1], size, 1))
    columns = reshape_to(values, (*values.shape[:-1], 1, size))
    turned = matmul(vectors, swap_last(vectors_grad))
    # the diagonal must not be divided by its gap of zero: higher orders would give 0 * infinity
    inner = (turned - single(makediag(extractdiag(turned)))) / (columns - rows + _identity(A))
    if values_grad is not None:
        inner = single(makediag(values_grad)) + inner
    return _symmetric(matmul(matmul(swap_last(vectors), inner), vectors))


# -- inverse and determinant


def _singular(index: tuple[int, ...]) -> MXNetError:
    return MXNetError(
        f"the input matrix is non-convertible: {_matrix_name(index)} is singular (its determinant is 0) and has no "
        "inverse."
    )


def _check_inverse(failed: bool, A: Array, out: Array, lu: Array, pivots: Array) -> Array:
    """Return the inverses, NaN for matrices that are not finite, or raise if one is singular."""
    if not failed and math.isfinite(out.sum()):
        return out
    finite = np.asarray(np.isfinite(A).all(axis=(-2, -1)))
    singular = np.argwhere((_upper_diagonal(lu) == 0).any(axis=-1) & finite)
    if len(singular):
        raise _singular(tuple([int(position) for position in singular[0]]))
    out[~finite] = np.nan
    return out


def _upper_diagonal(lu: Array) -> Array:
    """Return the diagonal of the upper factors, whose rows are padded."""
    return np.diagonal(lu, 0, -2, -1)


@operator(
    name="_linalg_inverse",
    aliases=("linalg_inverse",),
    cost=lambda node: 2 * _cubic(node),
    lowering=Called("inverse", _check_inverse, computes=True),
)
def inverse(A: Array) -> Array:
    """Return the inverse of square matrices."""
    wide, finite = _regular(A)
    try:
        return np.where(finite, np.linalg.inv(wide), np.nan).astype(A.dtype)
    except np.linalg.LinAlgError:
        index = _culprit(wide, np.linalg.inv)
    raise _singular(index)


@inverse.infer
def inverse_shape(A: Node) -> Spec:
    require_matrices("_linalg_inverse", A)
    require_square("_linalg_inverse", A, _NOT_SQUARE)
    return A.shape, A.dtype


@inverse.gradient
def inverse_grad(out_grad: Node, out: Node, A: Node) -> Node:
    turned = swap_last(out)
    return -matmul(matmul(turned, out_grad), turned)


def _broadcast_over_matrices(node: Node, A: Node) -> Node:
    """Return one number per matrix in a shape that broadcasts against the matrices."""
    return reshape_to(node, (*A.shape[:-2], 1, 1))


@operator(
    name="_linalg_det",
    aliases=("linalg_det",),
    cost=lambda node: 2 / 3 * _cubic(node),
    lowering=Called("det"),
)
def det(A: Array) -> Array:
    """Return the determinant of square matrices, of shape (1,) for one matrix.

    Singular matrices have an exact first derivative (the cofactors); their second derivative is NaN.
    """
    return np.asarray(np.linalg.det(A.astype(np.float64))).astype(A.dtype).reshape(per_matrix(A.shape))


@det.infer
def det_shape(A: Node) -> Spec:
    require_matrices("_linalg_det", A)
    require_square("_linalg_det", A, _NOT_SQUARE)
    return per_matrix(A.shape), A.dtype


@det.gradient
def det_grad(out_grad: Node, out: Node, A: Node) -> Node:
    return _broadcast_over_matrices(out_grad, A) * single(_cofactors(A))


def _finish_cofactors(failed: bool, A: Array, inverted: Array, lu: Array, pivots: Array) -> Array:
    """Return determinant times transposed inverse; matrices that are nearly singular need their singular values."""
    diagonal = _upper_diagonal(lu).astype(np.float64)
    sizes = np.abs(diagonal)
    least = A.shape[-1] * np.finfo(A.dtype).eps
    regular = sizes.min(axis=-1, initial=np.inf) > least * sizes.max(axis=-1, initial=0.0)
    exchanges = np.count_nonzero(pivots != np.arange(pivots.shape[-1]), axis=-1)
    determinant = np.prod(diagonal, axis=-1) * (1.0 - 2.0 * np.asarray(exchanges % 2))
    out: Array = (determinant[..., None, None] * _transpose(inverted)).astype(A.dtype)
    if not regular.all():
        out[~regular] = _cofactors.function(A[~regular])
    return out


@operator(cost=lambda node: 2 * _cubic(node), lowering=Called("inverse", _finish_cofactors, computes=True))
def _cofactors(A: Array) -> Array:
    """Return the cofactor matrices: determinant times transposed inverse, where the inverse exists."""
    wide, finite = _regular(A)
    left, values, right = np.linalg.svd(wide)
    ones = np.ones((*values.shape[:-1], 1))
    before = np.cumprod(np.concatenate([ones, values[..., :-1]], axis=-1), axis=-1)[..., : values.shape[-1]]
    after = np.cumprod(np.concatenate([ones, values[..., :0:-1]], axis=-1), axis=-1)[..., : values.shape[-1]]
    others = before * after[..., ::-1]
    sign = np.round(np.linalg.det(left) * np.linalg.det(right))[..., None]
    out = np.matmul(left * (others * sign)[..., None, :], right)
    return np.where(finite, out, np.nan).astype(A.dtype)


@_cofactors.gradient
def cofactors_grad(out_grad: Node, out: Node, A: Node) -> Node:
    inner = sum_to(out * out_grad, (*A.shape[:-2], 1, 1))
    return (inner * out - matmul(matmul(out, swap_last(out_grad)), out)) / _broadcast_over_matrices(single(det(A)), A)


def _finish_slogdet(failed: bool, A: Array, sign: Array, logarithm: Array, *factors: Array) -> tuple[Array, Array]:
    return sign, logarithm


@operator(
    name="_linalg_slogdet",
    aliases=("linalg_slogdet",),
    cost=lambda node: 2 / 3 * _cubic(node),
    lowering=Called("slogdet", _finish_slogdet),
)
def slogdet(A: Array) -> tuple[Array, Array]:
    """Return the sign of the determinant of square matrices, and the logarithm of its absolute value.

    The sign has no gradient, and neither has a singular matrix.
    """
    sign, logarithm = np.linalg.slogdet(A.astype(np.float64))
    shape = per_matrix(A.shape)
    return np.asarray(sign).astype(A.dtype).reshape(shape), np.asarray(logarithm).astype(A.dtype).reshape(shape)


@slogdet.infer
def slogdet_shape(A: Node) -> list[Spec]:
    require_matrices("_linalg_slogdet", A)
    require_square("_linalg_slogdet", A, _NOT_SQUARE)
    return [(per_matrix(A.shape), A.dtype)] * 2


@slogdet.gradient
def slogdet_grad(out_grads: tuple[Node | None, Node | None], outs: tuple[Node, Node], A: Node) -> Node | None:
    out_grad = out_grads[1]
    if out_grad is None:
        return None
    singular = equal(_broadcast_over_matrices(outs[0], A), constant(0, A.dtype))
    slope = swap_last(single(inverse(select(singular, _identity(A), A))))
    return select(singular, 0, _broadcast_over_matrices(out_grad, A) * slope)


# -- symbol declarations

det.interface = Interface(outputs=3, shown=1)
slogdet.interface = Interface(outputs=4, shown=2)


def _gelqf_results(inputs: Partials) -> Partials:
    data = inputs[0]
    return [None, None] if data is None else [data, (*data[:-1], data[-2])]


gelqf.interface = Interface(outputs=2, results=_gelqf_results)
syevd.interface = Interface(outputs=2)


# -- precision in mixed-precision training

for _declared in (
    det,
    gelqf,
    inverse,
    potrf,
    potri,
    slogdet,
    syevd,
):
    _declared.precision = "float32"
