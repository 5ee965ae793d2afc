"""Linear systems and singular values of stacks of matrices, for ``mx.np.linalg``.

Kernels solve systems, and find the singular values of matrices of up to 64 rows and columns. LAPACK finds those of
larger ones. All of them compute in the precision of the data.
"""

from __future__ import annotations

import numpy as np

from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface
from ...graph.node import Node
from ...graph.operator import Array, Spec, operator, single
from ...lower.lowering import Called
from ..math.primitives import matmul, reshape_to, swap_last
from ..math.structural import full
from . import lapack
from .linalg import extractdiag, makediag, require_matrices, require_square

__all__ = ["solve", "svd"]


def _products(node: Node) -> float:
    source = node.inputs[0]
    return float(source.size * min(source.shape[-2:]))


def _singular(A: Array) -> MXNetError:
    return MXNetError(
        f"solve: a matrix of A {format_shape(A.shape)} is singular (its determinant is 0), so there is no unique "
        "solution; lstsq gives the least-squares solution of minimum norm"
    )


def _check_solve(failed: bool, A: Array, B: Array, out: Array, *factors: Array) -> Array:
    """Return the solutions, or raise if a matrix is singular."""
    if failed:
        raise _singular(A)
    return out


@operator(name="_npi_solve", cost=_products, lowering=Called("solve", _check_solve))
def solve(A: Array, B: Array) -> Array:
    """Solve A * X = B for square matrices A, and return X; the columns of B are right-hand sides."""
    try:
        return np.linalg.solve(A.astype(np.float64), B.astype(np.float64)).astype(B.dtype)
    except np.linalg.LinAlgError:
        raise _singular(A) from None


@solve.infer
def solve_shape(A: Node, B: Node) -> Spec:
    require_matrices("_npi_solve", A, B)
    require_square("_npi_solve", A, "A's last two dimensions must be equal")
    if A.shape[:-1] != B.shape[:-1]:
        raise MXNetError(
            f"Shape mismatch: A {format_shape(A.shape)} and B {format_shape(B.shape)} must have the same leading axes "
            "and as many rows (operator _npi_solve)"
        )
    return B.shape, B.dtype


@solve.gradient
def solve_grad(out_grad: Node, out: Node, A: Node, B: Node) -> tuple[Node, Node]:
    turned = single(solve(swap_last(A), out_grad))
    return -matmul(turned, swap_last(out)), turned


def _finish_svd(failed: bool, A: Array, out: Array, values: Array, right: Array) -> tuple[Array, Array, Array]:
    """Return the decomposition; NumPy computes that of matrices that kernels leave."""
    if failed:
        missing = np.isnan(values).any(axis=-1)
        out[missing], values[missing], right[missing] = svd.function(A[missing])
    return out, values, right


@operator(name="_npi_svd", cost=lambda node: 20 * _products(node), lowering=Called("svd", _finish_svd))
def svd(A: Array) -> tuple[Array, Array, Array]:
    """Return the singular value decomposition U, S, V of matrices: A = U * diag(S) * V, S descending.

    The columns of U and the rows of V are orthonormal; the largest component of each row of V is positive. The
    singular values always have gradients. U and V have gradients if all singular values are distinct and nonzero.
    """
    left, values, right = [np.asarray(part, A.dtype, order="C") for part in lapack.svd(A)]
    if right.size:
        sign = lapack.signs_of_largest(right)
        right *= sign
        left *= np.swapaxes(sign, -1, -2)
    return left, values, right


@svd.infer
def svd_shape(A: Node) -> list[Spec]:
    require_matrices("_npi_svd", A)
    *lead, rows, columns = A.shape
    few = min(rows, columns)
    return [((*lead, rows, few), A.dtype), ((*lead, few), A.dtype), ((*lead, few, columns), A.dtype)]


@svd.gradient
def svd_grad(out_grads: tuple[Node | None, ...], outs: tuple[Node, Node, Node], A: Node) -> Node:
    left_grad, values_grad, right_grad = out_grads
    left, values, right = outs
    few = values.shape[-1]
    if left_grad is None and right_grad is None:
        assert values_grad is not None
        return matmul(left * reshape_to(values_grad, (*values.shape[:-1], 1, few)), right)
    column, row = (reshape_to(values, (*values.shape[:-1], *place)) for place in ((few, 1), (1, few)))
    one = single(makediag(full(values.shape, 1, A.dtype, A.context)))
    inner = None if values_grad is None else single(makediag(values_grad))
    outer = None
    if left_grad is not None:
        turned = _divide_by_gaps(matmul(swap_last(left), left_grad), one, column, row) * row
        inner = turned if inner is None else inner + turned
        beside = left_grad - matmul(left, matmul(swap_last(left), left_grad))
        outer = matmul(beside / row, right)
    if right_grad is not None:
        given = swap_last(right_grad)
        turned = _divide_by_gaps(matmul(right, given), one, column, row) * column
        inner = turned if inner is None else inner + turned
        beside = right_grad - matmul(matmul(right_grad, swap_last(right)), right)
        outside = matmul(left, beside / column)
        outer = outside if outer is None else outer + outside
    assert inner is not None
    total = matmul(matmul(left, inner), right)
    return total if outer is None else total + outer


def _divide_by_gaps(node: Node, one: Node, column: Node, row: Node) -> Node:
    """Return the skew part of a matrix divided by the gaps between squared singular values."""
    skew = node - swap_last(node)
    # the diagonal must not be divided by its gap of zero: higher orders would give 0 * infinity
    return (skew - single(makediag(extractdiag(skew)))) / (row * row - column * column + one)


svd.interface = Interface(outputs=3)
