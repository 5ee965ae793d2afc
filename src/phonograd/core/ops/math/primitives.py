"""Primitives of gradient rules: plain NumPy semantics, without MXNet's special cases.

The gradient of each primitive is written with the others, so they are closed under differentiation:

===========================  ====================================================================
``reshape_to(x, shape)``     the same elements in another shape (no codes)
``permute(x, axes)``         axes in another order
``matmul(a, b)``             matrix products over the last two axes; leading axes are equal
``select(c, x, y)``          x where c is nonzero, else y (broadcasting)
``gather(x, index)``         elements of x at flat positions; index is an int64 node of any shape
``scatter_add(v, index, s)``  zeros of shape s with v added at flat positions (gather's adjoint)
``slice_step(x, ...)``       x[begin:end:step] with explicit positive bounds on every axis
``embed(v, ...)``            zeros of a shape with v written at x[begin:end:step] (slice's adjoint)
``cast(x, dtype)``           another dtype, truncating as C does
===========================  ====================================================================
"""

from __future__ import annotations

import math
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np

from ...base.dtypes import FLOAT32, HALVES, DType, as_dtype, compute_dtype
from ...graph.gradient_rules import adjoint
from ...graph.node import Node, Shape
from ...graph.operator import Array, Operator, Spec, operator, single
from ...graph.shapes import sliced_shape
from ...lower import vector_math
from ...lower.lowering import (
    SUPPORTED,
    Either,
    Elementwise,
    Expansion,
    Gather,
    IndexWalk,
    Location,
    Matmul,
    Scatter,
)
from ...lower.pattern import Pattern
from .broadcasting import broadcast_shapes, sum_to
from .structural import full

__all__ = [
    "cast",
    "embed",
    "gather",
    "matmul",
    "permute",
    "reshape_to",
    "scatter_add",
    "select",
    "slice_step",
    "swap_last",
]


@operator(
    lowering=Location(lambda pattern, *, shape: pattern.reshape(shape)),
    direct=lambda *, shape: methodcaller("reshape", shape),
    family="shape",
)
def _reshape(data: Array, *, shape: Shape) -> Array:
    """Return the same elements in another shape."""
    return data.reshape(shape)


@_reshape.stacked
def reshape_stacked(data: Array, *, shape: Shape) -> Array:
    return data.reshape(len(data), *shape)


@_reshape.infer
def reshape_shape(data: Node, *, shape: Shape) -> Spec:
    assert data.size == math.prod(shape), (data, shape)
    return shape, data.dtype


@_reshape.gradient
def reshape_grad(out_grad: Node, out: Node, data: Node) -> Node:
    return reshape_to(out_grad, data.shape)


def reshape_to(node: Node, shape: Shape) -> Node:
    """Return the node in another shape."""
    if node.shape == shape:
        return node
    if node.operator is _reshape:
        return reshape_to(node.inputs[0], shape)
    return single(_reshape.apply((node,), (shape,)))


@operator(
    lowering=Location(lambda pattern, *, axes: pattern.permute(axes)),
    direct=lambda *, axes: methodcaller("transpose", axes),
)
def _permute(data: Array, *, axes: Shape) -> Array:
    """Return the array with its axes in another order."""
    # NumPy's function takes five times as long
    return data.transpose(axes)


@_permute.stacked
def permute_stacked(data: Array, *, axes: Shape) -> Array:
    return data.transpose((0, *[axis + 1 for axis in axes]))


@_permute.infer
def permute_shape(data: Node, *, axes: Shape) -> Spec:
    return tuple([data.shape[axis] for axis in axes]), data.dtype


@_permute.gradient
def permute_grad(out_grad: Node, out: Node, data: Node, *, axes: Shape) -> Node:
    if out_grad.operator is _matmul and axes == _axes_with_last_swapped(len(axes)):
        # the gradient of transposed weights: exchange the operands of the product instead of transposing it
        lhs, rhs = out_grad.inputs
        return matmul(_undo_swap(rhs), _undo_swap(lhs))
    return permute(out_grad, tuple(sorted(range(len(axes)), key=axes.__getitem__)))


def permute(node: Node, axes: Shape) -> Node:
    """Return the node with its axes in another order."""
    return node if axes == tuple(range(node.ndim)) else single(_permute.apply((node,), (axes,)))


def _axes_with_last_swapped(ndim: int) -> Shape:
    """Return all axes in order, with the last two exchanged."""
    return (*range(ndim - 2), ndim - 1, ndim - 2)


def swap_last(node: Node) -> Node:
    """Return the node with its last two axes exchanged."""
    return permute(node, _axes_with_last_swapped(node.ndim))


def _undo_swap(node: Node) -> Node:
    """Return the node with its last two axes exchanged; undo an earlier exchange instead of adding a second."""
    is_swapped = node.operator is _permute and node.attributes == (_axes_with_last_swapped(node.ndim),)
    return node.inputs[0] if is_swapped else swap_last(node)


@operator(
    cost=lambda node: 2.0 * node.size * node.inputs[0].shape[-1],
    lowering=Either(Matmul(frozenset([FLOAT32]), HALVES), Matmul()),
)
def _wide_matmul(lhs: Array, rhs: Array) -> Array:
    """Return matrix products; those of 16-bit numbers are float32."""
    return np.asarray(np.matmul(lhs, rhs))


@_wide_matmul.infer
def wide_matmul_shape(lhs: Node, rhs: Node) -> Spec:
    return (*lhs.shape[:-1], rhs.shape[-1]), compute_dtype(lhs.dtype)


@_wide_matmul.gradient
def wide_matmul_grad(out_grad: Node, out: Node, lhs: Node, rhs: Node) -> tuple[Node, Node]:
    left, right = cast(lhs, out.dtype), cast(rhs, out.dtype)
    return cast(matmul(out_grad, swap_last(right)), lhs.dtype), cast(matmul(swap_last(left), out_grad), rhs.dtype)


def _product_of_halves(lhs: Node, rhs: Node) -> Node:
    return cast(single(_wide_matmul.apply((lhs, rhs), ())), lhs.dtype)


@operator(
    cost=lambda node: 2.0 * node.size * node.inputs[0].shape[-1],
    lowering=Either(Matmul(), Expansion(_product_of_halves, HALVES)),
)
def _matmul(lhs: Array, rhs: Array) -> Array:
    """Return matrix products over the last two axes."""
    return np.asarray(np.matmul(lhs, rhs))


@_matmul.infer
def matmul_shape(lhs: Node, rhs: Node) -> Spec:
    assert lhs.shape[:-2] == rhs.shape[:-2], (lhs, rhs)
    assert lhs.shape[-1] == rhs.shape[-2], (lhs, rhs)
    assert lhs.dtype == rhs.dtype, (lhs, rhs)
    return (*lhs.shape[:-1], rhs.shape[-1]), lhs.dtype


@_matmul.gradient
def matmul_grad(out_grad: Node, out: Node, lhs: Node, rhs: Node) -> tuple[Node, Node]:
    return matmul(out_grad, swap_last(rhs)), matmul(swap_last(lhs), out_grad)


def matmul(lhs: Node, rhs: Node) -> Node:
    """Return matrix products over the last two axes; leading axes must be equal."""
    return single(_matmul.apply((lhs, rhs), ()))


@operator(lowering=Elementwise(lambda e, condition, x, y: e.select(e.truth(condition), x, y), SUPPORTED), moves=True)
def _select(condition: Array, x: Array, y: Array) -> Array:
    """Return x where the condition is nonzero, else y, with broadcasting."""
    return np.where(condition != 0, x, y)


@_select.infer
def select_shape(condition: Node, x: Node, y: Node) -> Spec:
    assert x.dtype == y.dtype, (x, y)
    return broadcast_shapes(condition.shape, broadcast_shapes(x.shape, y.shape)), x.dtype


@_select.gradient
def select_grad(out_grad: Node, out: Node, condition: Node, x: Node, y: Node) -> tuple[None, Node, Node]:
    return (
        None,
        sum_to(select(condition, out_grad, 0), x.shape),
        sum_to(select(condition, 0, out_grad), y.shape),
    )


def select(condition: Node, x: Node | float, y: Node | float) -> Node:
    """Return x where the condition is nonzero, else y; one of x and y may be a number."""
    dtype = x.dtype if isinstance(x, Node) else y.dtype  # type: ignore[union-attr]
    constant = Node.arithmetic["constant"]
    first = x if isinstance(x, Node) else constant(x, dtype)
    second = y if isinstance(y, Node) else constant(y, dtype)
    return single(_select.apply((condition, first, second), ()))


def _walk_flat(pattern: Pattern, index: Shape) -> IndexWalk | None:
    line = pattern.reshape((math.prod(pattern.shape),))
    return None if line is None else IndexWalk(Pattern(index, (0,) * len(index), line.offset), line.strides[0])


@operator(lowering=Gather(_walk_flat, lambda pattern, shape: pattern))
def _gather(data: Array, index: Array) -> Array:
    """Return the elements at flat positions."""
    return data.reshape(-1)[index]


@_gather.infer
def gather_shape(data: Node, index: Node) -> Spec:
    assert index.dtype == np.int64, index
    return index.shape, data.dtype


@_gather.gradient
def gather_grad(out_grad: Node, out: Node, data: Node, index: Node) -> tuple[Node, None]:
    return scatter_add(out_grad, index, data.shape), None


@operator(lowering=Scatter(lambda data, index, *, shape: (1, 1, math.prod(shape))))
def _scatter_add(data: Array, index: Array, *, shape: Shape) -> Array:
    """Add the elements of data to zeros at flat positions, in order, and return the sum."""
    size = math.prod(shape)
    if data.dtype == np.float64 or data.dtype == np.float32:
        # bincount adds in order, in double precision: far faster than add.at, and at least as exact
        return np.bincount(index.reshape(-1), data.reshape(-1), size).astype(data.dtype).reshape(shape)
    out = np.zeros(size, data.dtype)
    np.add.at(out, index.reshape(-1), data.reshape(-1))
    return out.reshape(shape)


@_scatter_add.infer
def scatter_add_shape(data: Node, index: Node, *, shape: Shape) -> Spec:
    assert index.dtype == np.int64, index
    assert index.shape == data.shape, (data, index)
    return shape, data.dtype


@_scatter_add.gradient
def scatter_add_grad(out_grad: Node, out: Node, data: Node, index: Node) -> tuple[Node, None]:
    return gather(out_grad, index), None


def gather(data: Node, index: Node) -> Node:
    """Return the elements of ``data`` at flat positions; the result has the shape of ``index`` (int64)."""
    return single(_gather.apply((data, index), ()))


def scatter_add(data: Node, index: Node, shape: Shape) -> Node:
    """Return zeros of a shape with ``data`` added at flat positions."""
    return single(_scatter_add.apply((data, index), (shape,)))


def _slices(begin: Shape, end: Shape, step: Shape) -> tuple[slice, ...]:
    # a negative step down to element 0 has end -1, which NumPy would read as the last element
    return tuple([slice(b, e if e >= 0 else None, s) for b, e, s in zip(begin, end, step, strict=True)])


@operator(
    lowering=Location(lambda pattern, *, begin, end, step: pattern.slice(begin, end, step)),
    direct=lambda *, begin, end, step: itemgetter(_slices(begin, end, step)),
    family="shape",
)
def _slice_step(data: Array, *, begin: Shape, end: Shape, step: Shape) -> Array:
    """Return data[begin:end:step] over all axes.

    Bounds are explicit. With a negative step, an end of -1 includes element 0.
    """
    return data[_slices(begin, end, step)]


@_slice_step.infer
def slice_step_shape(data: Node, *, begin: Shape, end: Shape, step: Shape) -> Spec:
    return sliced_shape(begin, end, step), data.dtype


@adjoint(_slice_step)
def slice_step_adjoint(shape: Shape, *, begin: Shape, end: Shape, step: Shape) -> tuple[Operator, tuple[Any, ...]]:
    return _embed, (shape, begin, end, step)


def _expand_embed(data: Node, *, shape: Shape, begin: Shape, end: Shape, step: Shape) -> Node | None:
    """Return the expansion of ``_embed`` into operators without steps, or None if all steps are 1."""
    if data.size == 0:
        return full(shape, 0, data.dtype, data.context)
    if all([s == 1 for s in step]):
        return None
    counts = data.shape
    for axis, distance in enumerate(step):
        if distance < 0:
            data = _along(data, axis, counts[axis] - 1, -1, -1)
        if abs(distance) > 1:
            # insert the skipped elements as zeros after each element; the last element needs none
            before, after = data.shape[:axis], data.shape[axis + 1 :]
            apart = reshape_to(data, (*before, counts[axis], 1, *after))
            wide = embed(apart, (*before, counts[axis], abs(distance), *after), (0,) * apart.ndim, apart.shape)
            line = reshape_to(wide, (*before, counts[axis] * abs(distance), *after))
            data = _along(line, axis, 0, (counts[axis] - 1) * abs(distance) + 1)
    first = tuple([min(b, b + (count - 1) * s) for b, count, s in zip(begin, counts, step, strict=True)])
    return embed(data, shape, first, tuple([b + n for b, n in zip(first, data.shape, strict=True)]))


def _along(data: Node, axis: int, begin: int, end: int, step: int = 1) -> Node:
    """Return a part of a node along one axis."""
    before, after = (0,) * axis, (0,) * (data.ndim - axis - 1)
    ends = (*data.shape[:axis], end, *data.shape[axis + 1 :])
    ones = (*(1,) * axis, step, *(1,) * len(after))
    return slice_step(data, (*before, begin, *after), ends, ones)


@operator(
    lowering=Either(Expansion(_expand_embed), Location(lambda pattern, *, shape, begin: pattern.embed(shape, begin))),
    moves=True,
)
def _embed(data: Array, *, shape: Shape, begin: Shape, end: Shape, step: Shape) -> Array:
    """Return zeros of a shape with data written at [begin:end:step]."""
    out = np.zeros(shape, data.dtype)
    out[_slices(begin, end, step)] = data
    return out


@_embed.infer
def embed_shape(data: Node, *, shape: Shape, begin: Shape, end: Shape, step: Shape) -> Spec:
    assert sliced_shape(begin, end, step) == data.shape, (data, begin, end, step)
    return shape, data.dtype


@_embed.gradient
def embed_grad(out_grad: Node, out: Node, data: Node, *, begin: Shape, end: Shape, step: Shape) -> Node:
    return slice_step(out_grad, begin, end, step)


def slice_step(data: Node, begin: Shape, end: Shape, step: Shape | None = None) -> Node:
    """Return data[begin:end:step] with explicit bounds for every axis."""
    step = step or (1,) * data.ndim
    if sliced_shape(begin, end, step) == data.shape and all(s == 1 for s in step):
        return data
    return single(_slice_step.apply((data,), (begin, end, step)))


def embed(data: Node, shape: Shape, begin: Shape, end: Shape, step: Shape | None = None) -> Node:
    """Return zeros of a shape with ``data`` written at [begin:end:step]."""
    return single(_embed.apply((data,), (shape, begin, end, step or (1,) * len(shape))))


@operator(
    lowering=Elementwise(lambda e, data, *, dtype: vector_math.cast(e, data, dtype), SUPPORTED),
    family="shape",
    moves=True,
)
def _cast(data: Array, *, dtype: DType) -> Array:
    """Return the array cast to another dtype; floats are truncated to integers and wrap around as in C."""
    if data.dtype.kind == "f" and dtype == np.uint8:
        return data.astype(np.int64).astype(dtype)
    return data.astype(dtype)


@_cast.infer
def cast_shape(data: Node, *, dtype: DType) -> Spec:
    return data.shape, dtype


@_cast.gradient
def cast_grad(out_grad: Node, out: Node, data: Node) -> Node:
    return cast(out_grad, data.dtype)


def cast(node: Node, dtype: Any) -> Node:
    """Return the node in another dtype."""
    dtype = as_dtype(dtype)
    return node if node.dtype == dtype else single(_cast.apply((node,), (dtype,)))
