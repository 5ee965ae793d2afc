"""Operators that repeat, reverse, pad, crop and rearrange elements, and those that broadcast to a shape.

All are linear and written with :mod:`..math.primitives`: a repetition is a broadcast along new axes, which are then
merged; padding concatenates blocks; a diagonal is a slice of the flattened matrix.
"""

from __future__ import annotations

import itertools
from typing import Literal

from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partials, same_shapes, type_of_first
from ...graph.node import Node, Shape
from ...graph.operator import composite
from ...graph.parameters import Axis
from ...graph.shapes import real_axes, real_axis
from ..math.broadcasting import broadcast
from ..math.primitives import embed, permute, reshape_to, slice_step
from ..math.structural import full
from .shape import concatenate

__all__ = ["slice_along"]


def slice_along(node: Node, axis: int, begin: int, end: int, step: int = 1) -> Node:
    """Return the part of a node between two positions along one axis; with step -1 the part is reversed."""
    start = [0] * node.ndim
    stop = list(node.shape)
    steps = [1] * node.ndim
    start[axis], stop[axis], steps[axis] = begin, end, step
    return slice_step(node, tuple(start), tuple(stop), tuple(steps))


# -- repetition


@composite(method=True, answers="tile")
def tile(data: Node, *, reps: Shape) -> Node:
    """Return the array repeated ``reps`` times along each axis; missing leading axes have size one."""
    if min(reps, default=0) < 0:
        raise MXNetError(f"reps cannot be negative, got {reps}, in operator tile")
    ndim = max(data.ndim, len(reps))
    shape = (1,) * (ndim - data.ndim) + data.shape
    counts = (1,) * (ndim - len(reps)) + reps
    apart = reshape_to(data, tuple(itertools.chain.from_iterable([(1, extent) for extent in shape])))
    repeated = broadcast(apart, tuple(itertools.chain.from_iterable(zip(counts, shape, strict=True))))
    return reshape_to(repeated, tuple([count * extent for count, extent in zip(counts, shape, strict=True)]))


@composite(method=True, answers="repeat", sizes=("repeats",))
def repeat(data: Node, *, repeats: int, axis: int | None = None) -> Node:
    """Return the array with each element repeated along an axis; axis None flattens the array."""
    if repeats < 0:
        raise MXNetError(f"repeats cannot be a negative number, got {repeats}, in operator repeat")
    if axis is None:
        data, axis = reshape_to(data, (data.size,)), 0
    if not -data.ndim <= axis < data.ndim:
        raise MXNetError(f"axis = {axis} out of bounds for an array {format_shape(data.shape)}, in operator repeat")
    before, extent, after = data.shape[: axis % data.ndim], data.shape[axis], data.shape[axis % data.ndim + 1 :]
    apart = reshape_to(data, (*before, extent, 1, *after))
    repeated = broadcast(apart, (*before, extent, repeats, *after))
    return reshape_to(repeated, (*before, extent * repeats, *after))


# -- broadcasting


@composite()
def broadcast_to(data: Node, *, shape: Shape = ()) -> Node:
    """Return the array broadcast along its axes of size one to a shape; 0 in the shape keeps an axis."""
    if len(shape) != data.ndim:
        raise MXNetError(
            f"Operand of shape {format_shape(data.shape)} cannot be broadcasted to {format_shape(shape)}, "
            f"in operator broadcast_to: the numbers of axes differ"
        )
    return _repeat_ones(data, tuple([wanted or own for wanted, own in zip(shape, data.shape, strict=True)]))


def _repeat_ones(data: Node, shape: Shape) -> Node:
    for own, wanted in zip(data.shape, shape, strict=True):
        if own not in (1, wanted) or wanted < 0:
            raise MXNetError(f"Array cannot be broadcasted from {format_shape(data.shape)} to {format_shape(shape)}")
    return broadcast(data, shape)


@composite(aliases=("broadcast_axes",), method=True)
def broadcast_axis(data: Node, *, axis: Shape = (), size: Shape = ()) -> Node:
    """Return the array broadcast along axes of size one, each to its size."""
    if len(axis) != len(size):
        raise MXNetError(f"axis {axis} and size {size} differ in length, in operator broadcast_axis")
    axes = real_axes(axis, data.ndim, "broadcast_axis")
    for one in axes:
        if data.shape[one] != 1:
            raise MXNetError(
                f"Broadcasting axis must have size 1, but axis {one} of {format_shape(data.shape)} has size "
                f"{data.shape[one]}, in operator broadcast_axis"
            )
    sizes = dict(zip(axes, size, strict=True))
    return _repeat_ones(data, tuple([sizes.get(one, extent) for one, extent in enumerate(data.shape)]))


@composite(npx="broadcast_like")
def broadcast_like(lhs: Node, rhs: Node, *, lhs_axes: Axis = None, rhs_axes: Axis = None) -> Node:
    """Return lhs broadcast to the shape of rhs, or only its lhs_axes to the sizes of rhs along rhs_axes."""
    if lhs_axes is None or rhs_axes is None:
        if lhs.ndim != rhs.ndim:
            raise MXNetError(
                f"Operand of shape {format_shape(lhs.shape)} cannot be broadcasted to {format_shape(rhs.shape)}, "
                f"in operator broadcast_like: the numbers of axes differ"
            )
        return _repeat_ones(lhs, rhs.shape)
    targets = (lhs_axes,) if isinstance(lhs_axes, int) else lhs_axes
    sources = (rhs_axes,) if isinstance(rhs_axes, int) else rhs_axes
    if len(targets) != len(sources):
        raise MXNetError(
            f"Input_axis and other_axis size does not match: {targets} and {sources}, in operator broadcast_like"
        )
    if not targets:
        raise MXNetError("Empty axes tuple is not allowed, in operator broadcast_like")
    shape = list(lhs.shape)
    for target, source in zip(targets, sources, strict=True):
        if not -lhs.ndim <= target < lhs.ndim:
            raise MXNetError(f"Invalid dimension specified in lhs_axes: {target}, in operator broadcast_like")
        if not -rhs.ndim <= source < rhs.ndim:
            raise MXNetError(f"Invalid dimension specified in rhs_axes: {source}, in operator broadcast_like")
        if lhs.shape[target] != 1:
            raise MXNetError(
                f"Input axis {target} at dimension {target % lhs.ndim} cannot be broadcasted to {rhs.shape[source]}, "
                f"in operator broadcast_like: its size is {lhs.shape[target]}, not 1"
            )
        shape[target] = rhs.shape[source]
    return _repeat_ones(lhs, tuple(shape))


# -- reversal, diagonals, blocks


@composite(aliases=("flip",), method=True)
def reverse(data: Node, *, axis: Shape) -> Node:
    """Return the array with the order of elements reversed along axes."""
    for one in [real_axis(one, data.ndim, "reverse") for one in axis]:
        data = slice_along(data, one, data.shape[one] - 1, -1, -1)
    return data


@composite(method=True)
def diag(data: Node, *, k: int = 0, axis1: int = 0, axis2: int = 1) -> Node:
    """Return the k-th diagonal over two axes as the last axis; for a vector, the matrix with that diagonal.

    A positive k is above the main diagonal, a negative k below.
    """
    if data.ndim == 0:
        raise MXNetError("diag takes an array with at least one axis")
    if data.ndim == 1:
        size = data.shape[0] + abs(k)
        begin = k if k >= 0 else -k * size
        end = begin + (data.shape[0] - 1) * (size + 1) + 1 if data.shape[0] else begin
        return reshape_to(embed(data, (size * size,), (begin,), (end,), (size + 1,)), (size, size))
    first, second = real_axis(axis1, data.ndim, "diag"), real_axis(axis2, data.ndim, "diag")
    if first == second:
        raise MXNetError(f"axis1 and axis2 cannot refer to the same axis {first}, in operator diag")
    rows, columns = data.shape[first], data.shape[second]
    if not -rows <= k <= columns:
        raise MXNetError(f"Diagonal does not exist. k={k} of matrices {format_shape((rows, columns))}, operator diag")
    others = [axis for axis in range(data.ndim) if axis not in (first, second)]
    last = permute(data, (*others, first, second))
    length = min(rows, columns - k) if k >= 0 else min(rows + k, columns)
    begin = k if k >= 0 else -k * columns
    end = begin + (length - 1) * (columns + 1) + 1 if length else begin
    flat = reshape_to(last, (*last.shape[:-2], rows * columns))
    return slice_along(flat, flat.ndim - 1, begin, end, columns + 1)


def _check_blocks(word: str, data: Node, block_size: int) -> None:
    if data.ndim != 4:
        raise MXNetError(f"Operation {word} requires exactly 4D tensor, got {format_shape(data.shape)}")
    if block_size < 1:
        raise MXNetError(f"block_size must be a positive integer value, got {block_size}, in operator {word}")


@composite(method=True)
def depth_to_space(data: Node, *, block_size: int) -> Node:
    """Rearrange channels into square blocks of pixels: (n, c*b*b, h, w) becomes (n, c, h*b, w*b)."""
    _check_blocks("Depth To Space", data, block_size)
    count, channels, height, width = data.shape
    block = block_size
    if channels % (block * block):
        raise MXNetError(
            f"Cannot perform Depth To Space operation on the specified tensor. Dimension:1(depth dimension) should be "
            f"a multiple of 'block^2': {format_shape(data.shape)} with block_size={block}"
        )
    depth = channels // (block * block)
    apart = permute(reshape_to(data, (count, block, block, depth, height, width)), (0, 3, 4, 1, 5, 2))
    return reshape_to(apart, (count, depth, height * block, width * block))


@composite(method=True)
def space_to_depth(data: Node, *, block_size: int) -> Node:
    """Rearrange square blocks of pixels into channels: (n, c, h*b, w*b) becomes (n, c*b*b, h, w)."""
    _check_blocks("Space To Depth", data, block_size)
    count, depth, height, width = data.shape
    block = block_size
    for axis, word in ((2, "1st Space"), (3, "2nd space")):
        if data.shape[axis] % block:
            raise MXNetError(
                f"Cannot perform Depth To Space operation on the specified tensor. Dimension:{axis}({word} dimension) "
                f"should be a multiple of 'block' : {format_shape(data.shape)} with block_size={block}"
            )
    apart = reshape_to(data, (count, depth, height // block, block, width // block, block))
    shape = (count, block * block * depth, height // block, width // block)
    return reshape_to(permute(apart, (0, 3, 5, 1, 2, 4)), shape)


# -- padding and cropping


@composite(name="Pad", aliases=("pad",), method=True)
def pad(
    data: Node, *, mode: Literal["constant", "edge", "reflect"], pad_width: Shape, constant_value: float = 0.0
) -> Node:
    """Pad an image or volume: with a constant, with its edge, or with its reflection.

    ``pad_width`` has the widths before and after each axis; those of the first two axes are zero. The reflection does
    not repeat the edge itself.
    """
    if data.ndim not in (4, 5):
        raise MXNetError(
            f"Current implementation only supports 4-D or 5-D input. Operator Pad got {format_shape(data.shape)}"
        )
    if any(pad_width[:4]):
        raise MXNetError(
            f"Current implementation expects padding on the first two axes to be zero. Operator Pad got {pad_width}"
        )
    if len(pad_width) != 2 * data.ndim or min(pad_width) < 0:
        raise MXNetError(f"Operator Pad needs {2 * data.ndim} widths, none of them negative, but got {pad_width}")
    for axis in range(2, data.ndim):
        before, after = pad_width[2 * axis : 2 * axis + 2]
        if mode == "reflect" and max(before, after) >= data.shape[axis]:
            raise MXNetError(
                f"Current implementation of reflection padding only supports padding sizes smaller than the input "
                f"size. Operator Pad got {pad_width} for {format_shape(data.shape)}"
            )
        if before or after:
            data = _pad_axis(data, axis, before, after, mode, constant_value)
    return data


def _pad_axis(data: Node, axis: int, before: int, after: int, mode: str, value: float) -> Node:
    extent = data.shape[axis]

    def wide(width: int) -> Shape:
        return (*data.shape[:axis], width, *data.shape[axis + 1 :])

    def border(width: int, edge: int) -> Node:
        if mode == "constant":
            return full(wide(width), value, data.dtype, data.context)
        if mode == "edge":
            return broadcast(slice_along(data, axis, edge, edge + 1), wide(width))
        if edge == 0:
            return slice_along(data, axis, width, 0, -1)
        return slice_along(data, axis, edge - 1, edge - 1 - width, -1)

    left = [border(before, 0)] if before else []
    right = [border(after, extent - 1)] if after else []
    return concatenate([*left, data, *right], axis)


@composite(name="Crop")
def crop(*data: Node, offset: Shape = (0, 0), h_w: Shape = (0, 0), center_crop: bool = False) -> Node:
    """Crop images to the size h_w, or to the size of a second array, at an offset or in the center."""
    if len(data) not in (1, 2):
        raise MXNetError(f"Operator Crop expects 1 or 2 inputs, but got {len(data)} instead.")
    image = data[0]
    if image.ndim != 4:
        raise MXNetError(f"Input data should be 4D in batch-num_filter-y-x, got {format_shape(image.shape)}")
    size = data[1].shape[2:] if len(data) == 2 else h_w[:2]
    if len(size) != 2:
        raise MXNetError(f"Operator Crop needs the height and width of the result, but got {size}")
    # as in MXNet, missing offsets are zero and more than two have no effect
    offset = (*offset, 0, 0)[:2]
    begin: list[int] = []
    for position, word in enumerate(("height", "width")):
        space = image.shape[2 + position] - size[position]
        if size[position] < 1:
            raise MXNetError(f"the crop {word}(h_w[{position}]) should be larger than 1, got {size}")
        if space < 0:
            raise MXNetError(
                f"the crop {word}(h_w[{position}]) should be less than the input data's {word}: {size} of "
                f"{format_shape(image.shape)}"
            )
        if not center_crop and not 0 <= offset[position] <= space:
            raise MXNetError(
                f"offset[{position}] should be less than the residual space of {word}: {offset[position]} of {space}"
            )
        begin.append(space // 2 if center_crop else offset[position])
    start = (0, 0, *begin)
    stop = (*image.shape[:2], *[first + extent for first, extent in zip(begin, size, strict=True)])
    return slice_step(image, start, stop)


# -- symbol declarations


def _like_results(inputs: Partials, *, lhs_axes: Axis, rhs_axes: Axis) -> Partials | None:
    lhs, rhs = inputs
    if lhs is None or rhs is None or len(lhs) != len(rhs) or lhs_axes is not None:
        return None
    return [tuple([b or a for a, b in zip(lhs, rhs, strict=True)])]


reverse.interface = Interface(shapes=same_shapes)
broadcast_like.interface = Interface(types=type_of_first, results=_like_results)
