"""Broadcasting: the shape rules of all elementwise operators, and the two operators that undo each other.

``_broadcast`` repeats an array along new or size-one axes (kernels never copy it); ``_sum_to`` is its gradient.
"""

from __future__ import annotations

import math

import numpy as np

from ...base.dtypes import BOOL, FLOAT32, HALVES, INT64, DType, name_of
from ...base.errors import MXNetError, format_shape
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, operator, single
from ...lower.lowering import Either, Expansion, Location, Reduction

__all__ = ["broadcast", "broadcast_shapes", "refuse_booleans", "same_dtype", "sum_to"]


def broadcast_shapes(first: Shape, second: Shape) -> Shape:
    """Return the common shape of two operands, or raise MXNet's error.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    if first == second:
        return first
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    shape = list(longer)
    start = len(longer) - len(shorter)
    for axis, extent in enumerate(shorter, start):
        if shape[axis] == 1:
            shape[axis] = extent
        elif extent not in (1, shape[axis]):
            raise MXNetError(
                f"operands could not be broadcast together with shapes {format_shape(first)} {format_shape(second)}"
            )
    return tuple(shape)


def same_dtype(first: Node, second: Node, position: int = 1) -> DType:
    """Return the common dtype of two operands, or raise MXNet's error: mixed dtypes are not converted."""
    if first.kind != second.kind:
        raise MXNetError(
            f"Incompatible attr in node  at {position}-th input: expected {name_of(first.dtype)}, got "
            f"{name_of(second.dtype)}. "
            f"Convert one of them with astype."
        )
    return first.dtype


def refuse_booleans(name: str, node: Node) -> None:
    """Raise MXNet's error if an operand of arithmetic or a function is boolean."""
    if node.kind == BOOL.num:
        raise MXNetError(f"Operator {name} does not support boolean type. Convert the operands with astype.")


@operator(lowering=Location(lambda pattern, *, shape: pattern.broadcast(shape)))
def _broadcast(data: Array, *, shape: Shape) -> Array:
    """Return the array broadcast to a shape, along size-one and new leading axes."""
    if data.size == 1 and type(data) is np.ndarray and data.dtype.kind == "f":
        # an eighth of the time of NumPy's function: each gradient of a sum or a mean begins with it
        repeated: Array = np.ndarray(shape, data.dtype, data, 0, (0,) * len(shape))
        repeated.flags.writeable = False
        return repeated
    return np.broadcast_to(data, shape)


@_broadcast.infer
def broadcast_shape(data: Node, *, shape: Shape) -> Spec:
    if broadcast_shapes(data.shape, shape) != shape:
        raise MXNetError(f"cannot broadcast {format_shape(data.shape)} to {format_shape(shape)}")
    return shape, data.dtype


@_broadcast.gradient
def broadcast_grad(out_grad: Node, out: Node, data: Node) -> Node:
    return sum_to(out_grad, data.shape)


def _axes_summed_to(data: Shape, *, shape: Shape) -> Shape:
    """Return the axes along which an array of ``shape`` broadcasts to the shape of the data."""
    added = len(data) - len(shape)
    return (*range(added), *[axis + added for axis, extent in enumerate(shape) if extent != data[axis + added]])


def _any_of(data: Node, *, shape: Shape) -> Node:
    from .primitives import cast  # that module imports this one

    return cast(sum_to(cast(data, INT64), shape), BOOL)


def _sum_of_halves(data: Node, *, shape: Shape) -> Node:
    from .primitives import cast  # that module imports this one

    return cast(sum_to(cast(data, FLOAT32), shape), data.dtype)


@operator(
    lowering=Either(
        Reduction(lambda e, first, second: e.add(first, second), 0.0, _axes_summed_to, shape=lambda *, shape: shape),
        Either(Expansion(_sum_of_halves, HALVES), Expansion(_any_of, frozenset([BOOL]))),
    )
)
def _sum_to(data: Array, *, shape: Shape) -> Array:
    """Return the array summed over the axes along which an array of ``shape`` would broadcast to it."""
    axes = _axes_summed_to(data.shape, shape=shape)
    # sum float16 in float32: a long float16 sum would lose all but its first digits
    wide = np.float32 if data.dtype == np.float16 else data.dtype
    return np.sum(data, axis=axes, keepdims=True, dtype=wide).astype(data.dtype, copy=False).reshape(shape)


@_sum_to.stacked
def sum_to_stacked(data: Array, *, shape: Shape) -> Array | None:
    # without axes of several elements there is nothing to add
    return data.reshape(len(data), *shape) if data.size == len(data) * math.prod(shape) else None


@_sum_to.infer
def sum_to_shape(data: Node, *, shape: Shape) -> Spec:
    return shape, data.dtype


@_sum_to.gradient
def sum_to_grad(out_grad: Node, out: Node, data: Node) -> Node:
    return broadcast(out_grad, data.shape)


def broadcast(node: Node, shape: Shape) -> Node:
    """Return the node broadcast to a shape, or the node itself if it has that shape."""
    return node if node.shape == shape else single(_broadcast.apply((node,), (shape,)))


def sum_to(node: Node, shape: Shape) -> Node:
    """Return the node summed to a shape, or the node itself if it has that shape."""
    return node if node.shape == shape else single(_sum_to.apply((node,), (shape,)))
