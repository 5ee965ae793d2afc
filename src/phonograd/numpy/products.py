"""Products that sum over axes: dot, matmul, tensordot, inner, outer, kron, cross and trace."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.base.dtypes import FLOAT64, INT64, kind_of
from ..core.base.errors import MXNetError
from ..core.graph.interface import Interface, Partial, Partials
from ..core.graph.node import Node, Shape
from ..core.graph.operator import REGISTRY, single
from ..core.ops.math.broadcasting import broadcast
from ..core.ops.math.primitives import cast, permute, reshape_to
from ..core.ops.math.primitives import matmul as product_of_matrices
from ..core.ops.reduce.reduction import sum_axes
from ..core.ops.shape.shape import concatenate, split_at
from .arithmetic import multiply
from .declaration import expression, public
from .promotion import promote
from .shaping import call_operator, real_axis, whole_axes

__all__ = ["contract", "diagonal_of", "last_axis", "multiply_matrices"]


def multiply_matrices(left: Node, right: Node) -> Node:
    """Multiply matrices over the last two axes; the leading axes must be equal, and integers stay integers."""
    if kind_of(left.dtype) == "f":
        return product_of_matrices(left, right)
    # exact as long as sums stay below 2**53
    return cast(product_of_matrices(cast(left, FLOAT64), cast(right, FLOAT64)), _counting(left))


def _counting(node: Node) -> Any:
    return INT64 if kind_of(node.dtype) == "b" else node.dtype


def contract(a: Node, b: Node, left: Shape, right: Shape) -> Node:
    """Sum products over axes of a and b; the result has the other axes of a, then those of b."""
    a, b = promote(a, b)
    if [a.shape[axis] for axis in left] != [b.shape[axis] for axis in right]:
        raise ValueError(f"shapes {a.shape} and {b.shape} not aligned: axes {left} and {right} differ in extent")
    own = tuple([axis for axis in range(a.ndim) if axis not in left])
    other = tuple([axis for axis in range(b.ndim) if axis not in right])
    kept_a, kept_b = tuple([a.shape[axis] for axis in own]), tuple([b.shape[axis] for axis in other])
    inner = math.prod([a.shape[axis] for axis in left])
    first = reshape_to(permute(a, own + left), (math.prod(kept_a), inner))
    second = reshape_to(permute(b, right + other), (inner, math.prod(kept_b)))
    return reshape_to(multiply_matrices(first, second), kept_a + kept_b)


@expression("dot", on_numbers=np.dot, method="dot", in_files="_np_dot")
def dot(a: Node, b: Node) -> Node:
    """Return the dot product: the sum over the last axis of a and the second-to-last axis of b.

    For vectors it is the inner product, for matrices the matrix product; with a 0-d array it is the elementwise
    product.
    """
    if not a.shape or not b.shape:
        return multiply.function(a, b)  # type: ignore[no-any-return]
    if a.shape[-1] != b.shape[max(b.ndim - 2, 0)]:
        raise MXNetError(f"shapes {a.shape} and {b.shape} not aligned: {a.shape[-1]} != {b.shape[max(b.ndim - 2, 0)]}")
    return contract(a, b, (a.ndim - 1,), (max(b.ndim - 2, 0),))


@expression("matmul")
def matmul(a: Node, b: Node) -> Node:
    """Return the matrix product over the last two axes; leading axes broadcast, and vectors act as rows or columns."""
    if not a.shape or not b.shape:
        raise MXNetError("Multiplication by scalars is not allowed: matmul needs arrays with at least one axis")
    a, b = promote(a, b)
    left = reshape_to(a, (1, *a.shape)) if a.ndim == 1 else a
    right = reshape_to(b, (*b.shape, 1)) if b.ndim == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise MXNetError(f"matmul: shapes {a.shape} and {b.shape} not aligned: {left.shape[-1]} != {right.shape[-2]}")
    rows, columns = left.shape[-2:-1] if a.ndim > 1 else (), right.shape[-1:] if b.ndim > 1 else ()
    if right.ndim == 2 and left.ndim > 2:
        # one product with many rows instead of many small ones
        flat = reshape_to(left, (math.prod(left.shape[:-1]), left.shape[-1]))
        return reshape_to(multiply_matrices(flat, right), (*left.shape[:-2], *rows, *columns))
    lead = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left = broadcast(left, (*lead, *left.shape[-2:]))
    right = broadcast(right, (*lead, *right.shape[-2:]))
    return reshape_to(multiply_matrices(left, right), (*lead, *rows, *columns))


def _share(first: Partial, second: Partial, left: int, right: int) -> tuple[Partial, Partial]:
    """Return two partial shapes in which one axis of the first is as long as one of the second."""
    if first is None or second is None or left >= len(first) or right >= len(second):
        return first, second
    extent = first[left] or second[right]

    def fill(shape: Shape, axis: int) -> Shape:
        return (*shape[:axis], shape[axis] or extent, *shape[axis + 1 :])

    return fill(first, left), fill(second, right)


def _product_shapes(inputs: Partials, outputs: Partials) -> Partials:
    """Return the shapes of the factors: the last axis of a is as long as the second-to-last one of b."""
    first, second = inputs
    if not first or not second:
        return inputs
    return _share(first, second, len(first) - 1, max(len(second) - 2, 0))


dot.interface = matmul.interface = Interface(shapes=_product_shapes)


@expression("_tensordot")
def _tensordot(a: Node, b: Node, *, left: Shape, right: Shape) -> Node:
    """Return the sum of products over the given axes of a and b."""
    return contract(a, b, whole_axes(left, a.ndim, "tensordot"), whole_axes(right, b.ndim, "tensordot"))


def _tensordot_shapes(inputs: Partials, outputs: Partials, *, left: Shape, right: Shape) -> Partials:
    first, second = inputs
    if first is not None and second is not None:
        for axis, other in zip(left, right, strict=True):
            first, second = _share(first, second, axis % len(first or (1,)), other % len(second or (1,)))
    return [first, second]


_tensordot.interface = Interface(shapes=_tensordot_shapes)


@public()
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum products over the last ``axes`` axes of a and the first of b, or over a pair of lists of axes."""
    if isinstance(axes, (int, np.integer)):
        left, right = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
        if axes > min(a.ndim, b.ndim):
            raise ValueError(f"tensordot over {axes} axes of arrays with {a.ndim} and {b.ndim} axes")
    else:
        if len(axes) != 2:
            raise ValueError("Axes must consist of two arrays.")
        left, right = [(one,) if isinstance(one, (int, np.integer)) else tuple(one) for one in axes]
        if len(left) != len(right):
            raise ValueError("Axes length mismatch")
    return call_operator(_tensordot, a, b, left=left, right=right)


@expression("inner", on_numbers=np.inner)
def inner(a: Node, b: Node) -> Node:
    """Return the sum of products over the last axes of two arrays."""
    if not a.shape or not b.shape:
        return multiply.function(a, b)  # type: ignore[no-any-return]
    return contract(a, b, (a.ndim - 1,), (b.ndim - 1,))


@expression("outer")
def outer(a: Node, b: Node) -> Node:
    """Return the products of all pairs of elements of two arrays."""
    return multiply.function(reshape_to(a, (a.size, 1)), reshape_to(b, (1, b.size)))  # type: ignore[no-any-return]


@expression("vdot")
def vdot(a: Node, b: Node) -> Node:
    """Return the sum of products of the elements of two arrays of the same size."""
    if a.size != b.size:
        raise ValueError(f"vdot needs arrays of the same size, not {a.size} and {b.size}")
    return contract(reshape_to(a, (a.size,)), reshape_to(b, (b.size,)), (0,), (0,))


@expression("kron")
def kron(a: Node, b: Node) -> Node:
    """Return the Kronecker product: the second array scaled by every element of the first."""
    ndim = max(a.ndim, b.ndim)
    first, second = (1,) * (ndim - a.ndim) + a.shape, (1,) * (ndim - b.ndim) + b.shape
    left = reshape_to(a, tuple([extent for pair in first for extent in (pair, 1)]))
    right = reshape_to(b, tuple([extent for pair in second for extent in (1, pair)]))
    shape = tuple([x * y for x, y in zip(first, second, strict=True)])
    return reshape_to(multiply.function(left, right), shape)


@expression("trace", method="trace", in_files="_np_trace")
def trace(a: Node, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Node:
    """Return the sum along a diagonal."""
    diagonal = diagonal_of(a, offset, axis1, axis2)
    return sum_axes(diagonal, (diagonal.ndim - 1,))


@expression("_cross")
def _cross(a: Node, b: Node, *, axisa: int, axisb: int, axisc: int) -> Node:
    """Return the cross products of vectors of three elements."""
    first, second = promote(last_axis(a, axisa), last_axis(b, axisb))
    if first.shape[-1] != 3 or second.shape[-1] != 3:
        raise ValueError("cross needs vectors of 3 elements")
    x, y, z = split_at(first, (1, 2), first.ndim - 1)
    u, v, w = split_at(second, (1, 2), second.ndim - 1)
    found = concatenate([y * w - z * v, z * u - x * w, x * v - y * u], -1)
    order = list(range(found.ndim - 1))
    order.insert(axisc % found.ndim, found.ndim - 1)
    return permute(found, tuple(order))


@public()
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """Return the cross products of vectors of three elements along an axis."""
    if axis is not None:
        axisa = axisb = axisc = axis
    return call_operator(_cross, a, b, axisa=axisa, axisb=axisb, axisc=axisc)


def last_axis(node: Node, axis: int) -> Node:
    """Return a node with one axis moved to the end."""
    axis = real_axis(axis, node.ndim, "moveaxis")
    return permute(node, (*[other for other in range(node.ndim) if other != axis], axis))


def diagonal_of(node: Node, offset: int, axis1: int, axis2: int) -> Node:
    """Return a diagonal over two axes as the last axis; it is empty if the offset is out of range."""
    if node.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    first, second = real_axis(axis1, node.ndim, "diagonal"), real_axis(axis2, node.ndim, "diagonal")
    if first == second:
        raise ValueError("axis1 and axis2 cannot be the same")
    rows, columns = node.shape[first], node.shape[second]
    if not -rows <= offset <= columns:
        offset = columns if offset > 0 else -rows
    return single(REGISTRY["diag"](node, k=offset, axis1=axis1, axis2=axis2))
