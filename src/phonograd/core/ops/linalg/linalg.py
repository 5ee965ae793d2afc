"""Linear algebra on stacks of matrices: products, triangular systems, diagonals and triangles.

Matrices are the last two axes; every operator works on all leading axes at once. Data are float32 or float64. The
factorizations (Cholesky, LQ, eigenvalues, inverse, determinant) are in :mod:`.factorizations`.

Operators read only the triangle of a triangular operand. The other half of the array does not affect the result and
receives no gradient.
"""

from __future__ import annotations

import math

import numpy as np

from ...base.dtypes import name_of
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partial, Partials, merge
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, composite, operator, single
from ...lower.lowering import Called, Expansion, Location
from ..math.broadcasting import same_dtype, sum_to
from ..math.comparison import equal, greater_equal, lesser_equal
from ..math.elementary import log
from ..math.primitives import embed, matmul, permute, reshape_to, select, swap_last
from ..math.structural import constant
from ..shape.creation import position_along

__all__ = [
    "extractdiag",
    "extracttrian",
    "gemm",
    "gemm2",
    "makediag",
    "maketrian",
    "per_matrix",
    "require_matrices",
    "require_square",
    "solve_triangular",
    "sumlogdiag",
    "syrk",
    "triangle",
    "trmm",
    "trsm",
]


def require_matrices(name: str, *operands: Node) -> None:
    """Raise unless the operands are stacks of matrices of one dtype and equal rank."""
    shapes = ", ".join([format_shape(operand.shape) for operand in operands])
    if any([operand.ndim < 2 or operand.ndim != operands[0].ndim for operand in operands]):
        ranks = "2 axes or more" if len(operands) == 1 else "2 axes or more, equally many each"
        raise MXNetError(f"Operator {name} inferring shapes failed: input shapes {shapes}; matrices have {ranks}.")
    for position, operand in enumerate(operands[1:], 1):
        same_dtype(operands[0], operand, position)
    require_precision(name, operands[0])


def require_precision(name: str, operand: Node) -> None:
    """Raise unless the operand is float32 or float64."""
    if operand.dtype not in (np.float32, np.float64):
        raise MXNetError(
            f"This operation only supports 32-bit and 64-bit floating point: {name} got {name_of(operand.dtype)}. "
            f"Convert the array with astype('float32')."
        )


def require_square(name: str, operand: Node, sentence: str) -> None:
    """Raise MXNet's error unless the last two axes are equal."""
    if operand.shape[-1] != operand.shape[-2]:
        raise MXNetError(f"{sentence} (operator {name}, shape {format_shape(operand.shape)})")


def per_matrix(shape: Shape) -> Shape:
    """Return the shape of one number per matrix: the leading axes, or (1,) for a single matrix."""
    return shape[:-2] or (1,)


def scale_node(node: Node, factor: float) -> Node:
    """Return the node times a factor, or the node itself for the factor 1."""
    return node if factor == 1 else node * factor


# -- triangles


def _diagonals(shape: Shape) -> Node:
    """Return the diagonal number of each element of matrices: 0 for the main diagonal, positive above it."""
    rows, columns = [position_along(shape, len(shape) - distance, np.dtype(np.int32)) for distance in (2, 1)]
    return columns - rows


def _expand_triangle(data: Node, *, lower: bool, offset: int) -> Node:
    kept = (lesser_equal if lower else greater_equal)(_diagonals(data.shape), constant(offset, np.dtype(np.int32)))
    return select(single(kept), data, 0)


@operator(lowering=Expansion(_expand_triangle), moves=True)
def _triangle(data: Array, *, lower: bool, offset: int) -> Array:
    """Return the matrices with zeros above (``lower``) or below the diagonal number ``offset``."""
    return np.tril(data, offset) if lower else np.triu(data, offset)


@_triangle.gradient
def triangle_grad(out_grad: Node, out: Node, data: Node, *, lower: bool, offset: int) -> Node:
    return triangle(out_grad, lower, offset)


def triangle(node: Node, lower: bool = True, offset: int = 0) -> Node:
    """Return the lower or upper triangle of matrices, with zeros elsewhere."""
    return single(_triangle.apply((node,), (lower, offset)))


# -- products


def _to_rows(name: str, axis: int, operand: Node) -> Node:
    """Move the axis of matrix rows next to the columns."""
    position = axis + operand.ndim if axis < 0 else axis
    if not 0 <= position < operand.ndim - 1:
        raise MXNetError(
            f"Invalid row axis ({axis}): {name} takes an axis of {format_shape(operand.shape)} other than the last."
        )
    axes = list(range(operand.ndim))
    axes[position], axes[-2] = axes[-2], axes[position]
    return permute(operand, tuple(axes))


@composite(name="_linalg_gemm2", aliases=("linalg_gemm2",), family="linear_algebra")
def gemm2(
    A: Node, B: Node, *, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0, axis: int = -2
) -> Node:
    """Return ``alpha * op(A) * op(B)``, where ``op`` transposes on request.

    Matrix columns are along the last axis, matrix rows along ``axis``.
    """
    require_matrices("_linalg_gemm2", A, B)
    return _product("_linalg_gemm2", A, B, transpose_a, transpose_b, alpha, axis)


def _product(name: str, A: Node, B: Node, transpose_a: bool, transpose_b: bool, alpha: float, axis: int) -> Node:
    left, right = _to_rows(name, axis, A), _to_rows(name, axis, B)
    shapes = f"(operator {name}, shapes {format_shape(A.shape)} and {format_shape(B.shape)})"
    if left.shape[:-2] != right.shape[:-2]:
        raise MXNetError(f"Shapes of inputs 0, 1 must be the same, except on row/col axis {shapes}")
    left, right = (swap_last(left) if transpose_a else left), (swap_last(right) if transpose_b else right)
    if left.shape[-1] != right.shape[-2]:
        raise MXNetError(
            f"Incompatible matrix dimensions for multiplication: {left.shape[-1]} columns against "
            f"{right.shape[-2]} rows {shapes}"
        )
    return _to_rows(name, axis, scale_node(matmul(left, right), alpha))


@composite(name="_linalg_gemm", aliases=("linalg_gemm",), family="linear_algebra")
def gemm(
    A: Node,
    B: Node,
    C: Node,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    beta: float = 1.0,
    axis: int = -2,
) -> Node:
    """Return ``alpha * op(A) * op(B) + beta * C``, where ``op`` transposes on request.

    Matrix columns are along the last axis, matrix rows along ``axis``. With ``beta=0`` C is not read.
    """
    require_matrices("_linalg_gemm", A, B, C)
    out = _product("_linalg_gemm", A, B, transpose_a, transpose_b, alpha, axis)
    if C.shape != out.shape:
        raise MXNetError(
            f"Shape inconsistent, Provided = {format_shape(C.shape)}, inferred shape={format_shape(out.shape)}: "
            f"C of _linalg_gemm must have the shape of the product."
        )
    return out if beta == 0 else out + scale_node(C, beta)


#: rows from which on symmetric and triangular products are divided into blocks, which saves up to half of the work.
#: Smaller ones are matrix products, which other operators are fused with
_BLOCKED = 192


@operator(cost=lambda node: float(node.inputs[0].size * node.shape[-1]), lowering=Called("symmetric_product"))
def _symmetric_product(A: Array, *, transpose: bool) -> Array:
    """Return ``A * transpose(A)``, or ``transpose(A) * A`` with ``transpose``."""
    turned = np.swapaxes(A, -1, -2)
    out: Array = np.matmul(turned, A) if transpose else np.matmul(A, turned)
    return out


@_symmetric_product.infer
def symmetric_product_shape(A: Node, *, transpose: bool) -> Spec:
    size = A.shape[-1 if transpose else -2]
    return (*A.shape[:-2], size, size), A.dtype


@_symmetric_product.gradient
def symmetric_product_grad(out_grad: Node, out: Node, A: Node, *, transpose: bool) -> Node:
    both = out_grad + swap_last(out_grad)
    return matmul(A, both) if transpose else matmul(both, A)


@operator(cost=lambda node: float(node.size * node.inputs[0].shape[-1]), lowering=Called("triangular_product"))
def _triangular_product(A: Array, B: Array, *, transpose: bool, rightside: bool, lower: bool) -> Array:
    """Return ``op(A) * B`` for triangular A, or ``B * op(A)`` with ``rightside``."""
    factor = np.tril(A) if lower else np.triu(A)
    factor = np.swapaxes(factor, -1, -2) if transpose else factor
    out: Array = np.matmul(B, factor) if rightside else np.matmul(factor, B)
    return out


@_triangular_product.infer
def triangular_product_shape(A: Node, B: Node) -> Spec:
    return B.shape, B.dtype


@_triangular_product.gradient
def triangular_product_grad(
    out_grad: Node, out: Node, A: Node, B: Node, *, transpose: bool, rightside: bool, lower: bool
) -> tuple[Node, Node]:
    right_grad = _triangular_product(A, out_grad, transpose=not transpose, rightside=rightside, lower=lower)
    return factor_grad(out_grad, B, transpose, rightside, lower), single(right_grad)


@operator(
    cost=lambda node: float(node.size * node.inputs[0].size / node.shape[-1]), lowering=Called("product_triangle")
)
def _product_triangle(A: Array, B: Array, *, transpose_a: bool, transpose_b: bool, lower: bool, late: bool) -> Array:
    """Return a triangle of the square matrices ``op(A) * op(B)``, where ``op`` transposes on request.

    With ``late``, row n of ``op(A)`` is zero before column n.
    """
    left, right = np.swapaxes(A, -1, -2) if transpose_a else A, np.swapaxes(B, -1, -2) if transpose_b else B
    product = np.matmul(left, right)
    return np.tril(product) if lower else np.triu(product)


@_product_triangle.infer
def product_triangle_shape(A: Node, B: Node, *, transpose_a: bool) -> Spec:
    size = A.shape[-1 if transpose_a else -2]
    return (*A.shape[:-2], size, size), A.dtype


@_product_triangle.gradient
def product_triangle_grad(
    out_grad: Node, out: Node, A: Node, B: Node, *, transpose_a: bool, transpose_b: bool, lower: bool, late: bool
) -> tuple[Node, Node]:
    # only a triangle of the gradient counts: G op(B)^T and op(A)^T G, or their transposes
    left, right = swap_last(A) if transpose_a else A, swap_last(B) if transpose_b else B
    of_a = _triangular_product(
        out_grad,
        right if transpose_a else swap_last(right),
        transpose=transpose_a,
        rightside=transpose_a,
        lower=lower,
    )
    of_b = _triangular_product(
        out_grad,
        left if transpose_b else swap_last(left),
        transpose=transpose_b,
        rightside=not transpose_b,
        lower=lower,
    )
    return single(of_a), single(of_b)


def product_triangle(
    A: Node,
    B: Node,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    lower: bool = True,
    late: bool = False,
) -> Node:
    """Return a triangle of square matrices ``op(A) * op(B)``; with ``late``, row n of op(A) is 0 before column n."""
    if A.shape[-1 if transpose_a else -2] >= _BLOCKED:
        flags = {"transpose_a": transpose_a, "transpose_b": transpose_b, "lower": lower, "late": late}
        return single(_product_triangle(A, B, **flags))
    left, right = swap_last(A) if transpose_a else A, swap_last(B) if transpose_b else B
    return triangle(matmul(left, right), lower)


def factor_grad(out_grad: Node, B: Node, transpose: bool, rightside: bool, lower: bool) -> Node:
    """Return the gradient of triangular A in ``op(A) * B``, or in ``B * op(A)`` with ``rightside``."""
    first, second = (out_grad, B) if rightside == transpose else (B, out_grad)
    return product_triangle(first, second, transpose_a=rightside, transpose_b=not rightside, lower=lower)


@composite(name="_linalg_syrk", aliases=("linalg_syrk",))
def syrk(A: Node, *, transpose: bool = False, alpha: float = 1.0) -> Node:
    """Return ``alpha * A * transpose(A)``, or ``alpha * transpose(A) * A`` with ``transpose``."""
    require_matrices("_linalg_syrk", A)
    if A.shape[-1 if transpose else -2] >= _BLOCKED:
        return scale_node(single(_symmetric_product(A, transpose=transpose)), alpha)
    return scale_node(matmul(swap_last(A), A) if transpose else matmul(A, swap_last(A)), alpha)


def _require_triangular(name: str, A: Node, B: Node, rightside: bool) -> None:
    require_matrices(name, A, B)
    require_square(name, A, "First operand must be a tensor of square matrices")
    shapes = f"(operator {name}, shapes {format_shape(A.shape)} and {format_shape(B.shape)}, rightside={rightside})"
    if A.shape[:-2] != B.shape[:-2]:
        raise MXNetError(f"Shapes of inputs 0, 1 must be the same, except on last two dimensions {shapes}")
    if A.shape[-1] != B.shape[-1 if rightside else -2]:
        raise MXNetError(f"Incompatible matrix dimensions for multiplication {shapes}")


@composite(name="_linalg_trmm", aliases=("linalg_trmm",))
def trmm(
    A: Node, B: Node, *, transpose: bool = False, rightside: bool = False, lower: bool = True, alpha: float = 1.0
) -> Node:
    """Return ``alpha * op(A) * B`` for triangular A, or ``alpha * B * op(A)`` with ``rightside``."""
    _require_triangular("_linalg_trmm", A, B, rightside)
    if A.shape[-1] >= _BLOCKED:
        return scale_node(
            single(_triangular_product(A, B, transpose=transpose, rightside=rightside, lower=lower)), alpha
        )
    factor = triangle(A, lower)
    factor = swap_last(factor) if transpose else factor
    return scale_node(matmul(B, factor) if rightside else matmul(factor, B), alpha)


# -- triangular systems

#: below this size rows are eliminated one by one; above it, one matrix product eliminates a block
_SMALLEST_BLOCK = 16


def solve_triangular(matrix: Array, right: Array) -> Array:
    """Solve lower triangular systems by substitution; a zero on the diagonal gives infinities.

    Substitution reads only the triangle, and its solutions are as exact as the data allow. An LU factorization with
    row exchanges does not have this property.
    """
    size = matrix.shape[-1]
    if size <= _SMALLEST_BLOCK:
        out = np.empty_like(right)
        for row in range(size):
            known = np.matmul(matrix[..., row : row + 1, :row], out[..., :row, :])
            out[..., row, :] = (right[..., row, :] - known[..., 0, :]) / matrix[..., row, row, None]
        return out
    half = size // 2
    top = solve_triangular(matrix[..., :half, :half], right[..., :half, :])
    rest = right[..., half:, :] - np.matmul(matrix[..., half:, :half], top)
    return np.concatenate([top, solve_triangular(matrix[..., half:, half:], rest)], axis=-2)


@operator(
    name="_linalg_trsm",
    aliases=("linalg_trsm",),
    cost=lambda node: float(node.size * node.inputs[0].shape[-1]),
    lowering=Called("trsm"),
)
def trsm(
    A: Array, B: Array, *, transpose: bool = False, rightside: bool = False, lower: bool = True, alpha: float = 1.0
) -> Array:
    """Return X with ``op(A) * X = alpha * B`` for triangular A, or ``X * op(A) = alpha * B`` with ``rightside``."""
    matrix, right = A, B if alpha == 1 else B * B.dtype.type(alpha)
    # X * M = R is transpose(M) * transpose(X) = transpose(R)
    if transpose != rightside:
        matrix, lower = np.swapaxes(matrix, -1, -2), not lower
    if rightside:
        right = np.swapaxes(right, -1, -2)
    # an upper triangle is a lower triangle with rows and columns reversed
    if lower:
        out = solve_triangular(matrix, right)
    else:
        out = solve_triangular(matrix[..., ::-1, ::-1], right[..., ::-1, :])[..., ::-1, :]
    return np.ascontiguousarray(np.swapaxes(out, -1, -2) if rightside else out)


@trsm.infer
def trsm_shape(A: Node, B: Node, *, rightside: bool) -> Spec:
    _require_triangular("_linalg_trsm", A, B, rightside)
    return B.shape, B.dtype


@trsm.gradient
def trsm_grad(
    out_grad: Node, out: Node, A: Node, B: Node, *, transpose: bool, rightside: bool, lower: bool, alpha: float
) -> tuple[Node, Node]:
    solved = single(trsm(A, out_grad, transpose=not transpose, rightside=rightside, lower=lower))
    # with M = op(A): left  X = M^-1 R, so M_grad = -S X^T; right  X = R M^-1, so M_grad = -X^T S
    return -factor_grad(solved, out, transpose, rightside, lower), scale_node(solved, alpha)


# -- diagonals


@composite(name="_linalg_sumlogdiag", aliases=("linalg_sumlogdiag",))
def sumlogdiag(A: Node) -> Node:
    """Return the sum of the logarithms of the diagonal of square matrices, of shape (1,) for one matrix."""
    require_matrices("_linalg_sumlogdiag", A)
    require_square("_linalg_sumlogdiag", A, "sumlogdiag operator requires square matrices as input.")
    logarithms = log(extractdiag(A))
    return reshape_to(sum_to(logarithms, (*A.shape[:-2], 1)), per_matrix(A.shape))


def _diagonal_length(name: str, A: Node, offset: int) -> int:
    """Return the length of a diagonal of square matrices, or raise if there is no such diagonal."""
    require_matrices(name, A)
    require_square(name, A, "Input operand must be a tensor of square matrices")
    length = A.shape[-1] - abs(offset)
    if length < 0 or (length == 0 and offset):
        raise MXNetError(
            f"Illegal offset {offset} for diag/trian extraction of matrix with dimension {A.shape[-1]} "
            f"(operator {name}, shape {format_shape(A.shape)})"
        )
    return length


@operator(
    name="_linalg_extractdiag",
    aliases=("linalg_extractdiag",),
    lowering=Location(lambda pattern, *, offset: pattern.diagonal(offset)),
)
def extractdiag(A: Array, *, offset: int = 0) -> Array:
    """Return a diagonal of square matrices; a positive offset is above the main diagonal."""
    return np.diagonal(A, offset, -2, -1).copy()


@extractdiag.infer
def extractdiag_shape(A: Node, *, offset: int) -> Spec:
    return (*A.shape[:-2], _diagonal_length("_linalg_extractdiag", A, offset)), A.dtype


@extractdiag.gradient
def extractdiag_grad(out_grad: Node, out: Node, A: Node, *, offset: int) -> Node:
    return single(makediag(out_grad, offset=offset))


def _expand_makediag(A: Node, *, offset: int) -> Node:
    outer, length = A.shape[:-1], A.shape[-1]
    size = length + abs(offset)
    begin = (*(0,) * len(outer), max(-offset, 0), 0)
    end = (*outer, begin[-2] + length, 1)
    column = embed(reshape_to(A, (*outer, length, 1)), (*outer, size, 1), begin, end)
    here = equal(_diagonals((*outer, size, size)), constant(offset, np.dtype(np.int32)))
    return select(single(here), column, 0)


@operator(name="_linalg_makediag", aliases=("linalg_makediag",), lowering=Expansion(_expand_makediag), moves=True)
def makediag(A: Array, *, offset: int = 0) -> Array:
    """Return square matrices with the elements on a diagonal and zeros elsewhere."""
    length = A.shape[-1]
    size = length + abs(offset)
    out = np.zeros((*A.shape[:-1], size, size), A.dtype)
    places = np.arange(length)
    out[..., places + max(-offset, 0), places + max(offset, 0)] = A
    return out


@makediag.infer
def makediag_shape(A: Node, *, offset: int) -> Spec:
    _require_vectors("_linalg_makediag", A)
    size = A.shape[-1] + abs(offset)
    return (*A.shape[:-1], size, size), A.dtype


@makediag.gradient
def makediag_grad(out_grad: Node, out: Node, A: Node, *, offset: int) -> Node:
    return single(extractdiag(out_grad, offset=offset))


def _require_vectors(name: str, A: Node) -> None:
    require_precision(name, A)
    if A.ndim < 1:
        raise MXNetError(f"Operator {name} inferring shapes failed: the input needs at least one axis, not [].")


def _triangle_places(size: int, offset: int, lower: bool) -> tuple[Array, Array]:
    # the sign of an offset selects the triangle; the upper triangle is the transpose of a lower one
    if offset < 0 or (offset == 0 and lower):
        return np.tril_indices(size, offset)
    columns, rows = np.tril_indices(size, -offset)
    return rows, columns


@operator(name="_linalg_extracttrian", aliases=("linalg_extracttrian",), moves=True)
def extracttrian(A: Array, *, offset: int = 0, lower: bool = True) -> Array:
    """Return a triangle of square matrices as a vector: the lower one by rows, the upper one by columns.

    A positive offset selects the upper triangle from that diagonal on, a negative one the lower triangle.
    """
    rows, columns = _triangle_places(A.shape[-1], offset, lower)
    return np.ascontiguousarray(A[..., rows, columns])


@extracttrian.infer
def extracttrian_shape(A: Node, *, offset: int) -> Spec:
    length = _diagonal_length("_linalg_extracttrian", A, offset)
    return (*A.shape[:-2], length * (length + 1) // 2), A.dtype


@extracttrian.gradient
def extracttrian_grad(out_grad: Node, out: Node, A: Node, *, offset: int, lower: bool) -> Node:
    return single(maketrian(out_grad, offset=offset, lower=lower))


def _triangle_extent(count: int) -> int:
    """Return the number of rows of a triangle with ``count`` elements, or the nearest number."""
    return (math.isqrt(8 * count + 1) - 1) // 2


@operator(name="_linalg_maketrian", aliases=("linalg_maketrian",), moves=True)
def maketrian(A: Array, *, offset: int = 0, lower: bool = True) -> Array:
    """Return square matrices with the elements in a triangle and zeros elsewhere: the inverse of ``extracttrian``."""
    size = _triangle_extent(A.shape[-1]) + abs(offset)
    out = np.zeros((*A.shape[:-1], size, size), A.dtype)
    rows, columns = _triangle_places(size, offset, lower)
    out[..., rows, columns] = A
    return out


@maketrian.infer
def maketrian_shape(A: Node, *, offset: int) -> Spec:
    _require_vectors("_linalg_maketrian", A)
    count = A.shape[-1]
    extent = _triangle_extent(count)
    if extent * (extent + 1) // 2 != count:
        raise MXNetError(
            f"Input tensor of maketrian has an invalid dimension for the last axis: a triangle of n rows has "
            f"n * (n + 1) / 2 elements, which {count} is not (shape {format_shape(A.shape)})."
        )
    size = extent + abs(offset)
    return (*A.shape[:-1], size, size), A.dtype


@maketrian.gradient
def maketrian_grad(out_grad: Node, out: Node, A: Node, *, offset: int, lower: bool) -> Node:
    return single(extracttrian(out_grad, offset=offset, lower=lower))


# -- symbol declarations


def _product_shape(first: Partial, second: Partial, *, transpose_a: bool, transpose_b: bool, axis: int) -> Partial:
    """Return the shape of a matrix product with unknown extents."""
    if first is None or second is None or len(first) != len(second) or len(first) < 2 or axis != -2:
        return None
    batch = merge(first[:-2], second[:-2])
    return (*(batch or ()), first[-1 if transpose_a else -2], second[-2 if transpose_b else -1])


def _gemm_shapes(inputs: Partials, outputs: Partials, *, transpose_a: bool, transpose_b: bool, axis: int) -> Partials:
    """Return the shapes of the operands; C has the shape of the product."""
    product = _product_shape(*inputs[:2], transpose_a=transpose_a, transpose_b=transpose_b, axis=axis)
    return [*inputs[:2], merge(merge(inputs[2], outputs[0]), product)]


def _triangular_shapes(inputs: Partials, outputs: Partials, *, rightside: bool) -> Partials:
    """Return the shapes of a square matrix and of the matrices that it multiplies."""
    square, other = inputs[0], merge(inputs[1], outputs[0])
    place = -1 if rightside else -2
    if square is not None and len(square) > 1:
        size = square[-1] or square[-2]
        square = (*square[:-2], size, size)
        if other is not None and len(other) == len(square):
            known = [*square[:-2], 0, 0]
            known[place] = size
            other = merge(other, tuple(known))
    if other is not None and len(other) > 1:
        square = merge(square, (*other[:-2], other[place], other[place]))
    return [square, other]


gemm.interface = Interface(shapes=_gemm_shapes, results=lambda inputs: [inputs[2]])
trmm.interface = trsm.interface = Interface(shapes=_triangular_shapes, results=lambda inputs: [inputs[1]])
sumlogdiag.interface = Interface(results=lambda inputs: [None if inputs[0] is None else inputs[0][:-2] or (1,)])


# -- precision in mixed-precision training

for _declared in (
    extractdiag,
    extracttrian,
    gemm,
    gemm2,
    makediag,
    maketrian,
    sumlogdiag,
    syrk,
    trmm,
    trsm,
):
    _declared.precision = "float32"
