"""Operators that change the shape of an array, permute its axes, and concatenate or split arrays.

All are linear and only move elements. They are written with :mod:`..math.primitives` and with the pair defined here:
``_concatenate`` and ``_split``, each of which is the other's gradient.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from ...base.dtypes import name_of
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partial, Partials, merge
from ...graph.node import Node, Shape
from ...graph.operator import REGISTRY, Array, Spec, composite, operator, single
from ...graph.parameters import Axis
from ...graph.partial_shapes import merge_all
from ...graph.shapes import (
    concatenated_shape,
    infer_reshape,
    legacy_reshape,
    real_axes,
    real_axis,
    without,
)
from ...lower.lowering import Mosaic, Pieces
from ...lower.pattern import Pattern
from ..math.primitives import permute, reshape_to
from ..math.structural import full

__all__ = [
    "concat_shapes",
    "concatenate",
    "expand_dims",
    "insert_axis",
    "split_at",
    "squeeze",
    "stack_nodes",
    "swapaxes",
    "transpose",
]


_LABEL = REGISTRY["_composite"]

# -- concatenation and splitting: the primitives


def _begins(shapes: Sequence[Shape], *, axis: int) -> list[Shape]:
    """Return the start of each of the concatenated arrays along the axis."""
    starts = itertools.accumulate([shape[axis] for shape in shapes], initial=0)
    return [(*(0,) * axis, start, *(0,) * (len(shape) - axis - 1)) for start, shape in zip(starts, shapes)]


def _piece(output: int, *, boundaries: Shape, axis: int) -> tuple[int | None, ...]:
    """Return the axis, the boundaries of a piece along it (None: the end of the array)."""
    begin = boundaries[output - 1] if output else 0
    return axis, begin, boundaries[output] if output < len(boundaries) else None


def _move_piece(pattern: Pattern, axis: int, first: int, last: int | None) -> Pattern:
    """Return the access pattern of the elements between two boundaries."""
    begin, end = [0] * len(pattern.shape), list(pattern.shape)
    begin[axis], end[axis] = first, pattern.shape[axis] if last is None else last
    return pattern.slice(tuple(begin), tuple(end), (1,) * len(begin))


@operator(lowering=Mosaic(_begins))
def _concatenate(*data: Array, axis: int) -> Array:
    """Return arrays concatenated along an existing axis."""
    return np.concatenate(data, axis=axis)


@_concatenate.stacked
def concatenate_stacked(*data: Array, axis: int) -> Array:
    return np.concatenate(data, axis=axis + 1)


@_concatenate.infer
def concatenate_shape(*data: Node, axis: int) -> Spec:
    return concatenated_shape([node.shape for node in data], axis), data[0].dtype


@_concatenate.gradient
def concatenate_grad(out_grad: Node, out: Node, *data: Node, axis: int) -> tuple[Node, ...]:
    return split_at(out_grad, tuple(np.cumsum([node.shape[axis] for node in data])[:-1].tolist()), axis)


def _split_at(*, boundaries: Shape, axis: int) -> Callable[[Array], tuple[Array, ...]]:
    """Return the function that returns the pieces of an array between boundaries along an axis."""
    # the function for one piece returns no tuple
    regions = _regions(boundaries, axis)
    return itemgetter(*regions) if boundaries else lambda data: (data[regions[0]],)


@operator(lowering=Pieces(_piece, _move_piece), direct=_split_at)
def _split(data: Array, *, boundaries: Shape, axis: int) -> tuple[Array, ...]:
    """Return the pieces of an array between boundaries along an axis."""
    # np.split takes three times as long
    return _split_at(boundaries=boundaries, axis=axis)(data)


@functools.lru_cache(1024)
def _regions(boundaries: Shape, axis: int) -> tuple[tuple[slice, ...], ...]:
    """Return the indices of the pieces of arrays between boundaries along an axis."""
    edges = (0, *boundaries, None)
    return tuple([(*(slice(None),) * axis, slice(*pair)) for pair in itertools.pairwise(edges)])


@_split.stacked
def split_stacked(data: Array, *, boundaries: Shape, axis: int) -> tuple[Array, ...]:
    found: tuple[Array, ...] = _split.function(data, boundaries=boundaries, axis=axis + 1)
    return found


@_split.infer
def split_shape(data: Node, *, boundaries: Shape, axis: int) -> list[Spec]:
    edges = (0, *boundaries, data.shape[axis])
    return [
        ((*data.shape[:axis], end - start, *data.shape[axis + 1 :]), data.dtype)
        for start, end in itertools.pairwise(edges)
    ]


@_split.gradient
def split_grad(out_grad: tuple[Node | None, ...], out: tuple[Node, ...], data: Node, *, axis: int) -> Node:
    pieces = [
        full(piece.shape, 0, piece.dtype, piece.context) if grad is None else grad
        for grad, piece in zip(out_grad, out, strict=True)
    ]
    return concatenate(pieces, axis)


def concatenate(nodes: Sequence[Node], axis: int) -> Node:
    """Return nodes of one dtype concatenated along an existing axis; a single node is returned unchanged."""
    if len(nodes) == 1:
        return nodes[0]
    axis = real_axis(axis, nodes[0].ndim, "concatenate")
    return single(_concatenate.apply(tuple(nodes), (axis,)))


def split_at(node: Node, boundaries: Shape, axis: int) -> tuple[Node, ...]:
    """Split a node at ascending boundaries along an axis; there is one more piece than boundaries.

    A concatenation of exactly these pieces is not computed.
    """
    if not boundaries:
        return (node,)
    joined = node
    # templates exist for nodes of other operators, which are not looked into
    while joined.operator is _LABEL:
        joined = joined.inputs[0]
    if joined.operator is _concatenate and joined.attributes[0] == real_axis(axis, node.ndim, "split"):
        ends = itertools.accumulate([piece.shape[axis] for piece in joined.inputs])
        if tuple(ends)[:-1] == boundaries:
            return joined.inputs
    pieces: tuple[Node, ...] = _split.apply((node,), (boundaries, real_axis(axis, node.ndim, "split")))
    return pieces


def insert_axis(node: Node, axis: int) -> Node:
    """Return the node with a new axis of size one before ``axis`` (counted in the result)."""
    return reshape_to(node, (*node.shape[:axis], 1, *node.shape[axis:]))


def stack_nodes(nodes: Sequence[Node], axis: int) -> Node:
    """Return nodes of one shape stacked along a new axis (not negative)."""
    return concatenate([insert_axis(node, axis) for node in nodes], axis)


# -- shape


@composite(name="Reshape", aliases=("reshape",))
def reshape(
    data: Node, *, shape: Shape = (), reverse: bool = False, target_shape: Shape = (), keep_highest: bool = False
) -> Node:
    """Return the array in another shape.

    Codes refer to the old shape: 0 copies an axis, -1 infers a size, -2 copies all remaining axes, -3 merges two axes,
    -4 splits one into the two sizes that follow. ``reverse`` reads them from the right. ``target_shape`` and
    ``keep_highest`` are the deprecated form of ``shape``.
    """
    try:
        if target_shape and not shape:
            return reshape_to(data, legacy_reshape(data.shape, target_shape, keep_highest))
        return reshape_to(data, infer_reshape(data.shape, shape, reverse))
    except ValueError as error:
        raise MXNetError(f"{error}, in operator Reshape") from None


@composite(method=True, npx="reshape_like")
def reshape_like(
    lhs: Node,
    rhs: Node,
    *,
    lhs_begin: int | None = None,
    lhs_end: int | None = None,
    rhs_begin: int | None = None,
    rhs_end: int | None = None,
) -> Node:
    """Return lhs with its axes from lhs_begin to lhs_end replaced by axes rhs_begin to rhs_end of rhs.

    Without bounds lhs takes the shape of rhs.
    """
    first, last = _axis_range("lhs", lhs.ndim, lhs_begin, lhs_end)
    start, stop = _axis_range("rhs", rhs.ndim, rhs_begin, rhs_end)
    shape = (*lhs.shape[:first], *rhs.shape[start:stop], *lhs.shape[last:])
    if np.prod(shape, dtype=np.int64) != lhs.size:
        raise MXNetError(
            f"Cannot reshape lhs with shape {format_shape(lhs.shape)}to new shape {format_shape(shape)} because they "
            f"have different size, in operator reshape_like"
        )
    return reshape_to(lhs, shape)


def _axis_range(side: str, ndim: int, begin: int | None, end: int | None) -> tuple[int, int]:
    first = 0 if begin is None else begin + ndim if begin < 0 else begin
    last = ndim if end is None else end + ndim if end < 0 else end
    if not 0 <= last <= ndim:
        raise MXNetError(f"Invalid end for {side}_end={end} as dimension number is {ndim}, in operator reshape_like")
    if first < 0:
        raise MXNetError(f"Invalid begin for {side}_begin={begin}, in operator reshape_like")
    if ndim and first >= last:
        raise MXNetError(f"Invalid begin, end, get {side}_begin={first}, {side}_end={last}, in operator reshape_like")
    return first, last


@composite(name="Flatten", aliases=("flatten",), method=True, npx="batch_flatten")
def flatten(data: Node) -> Node:
    """Return the array as a matrix: the first axis stays, all others are merged."""
    rows = data.shape[0] if data.shape else 1
    return reshape_to(data, (rows, math.prod(data.shape[1:])))


@composite(method=True, answers="expand_dims")
def expand_dims(data: Node, *, axis: int) -> Node:
    """Return the array with a new axis of size one at a position."""
    ndim = data.ndim
    if not -ndim - 1 <= axis <= ndim:
        raise MXNetError(f"axis must be in the range [{-ndim}, {ndim}] ({axis} provided), in operator expand_dims")
    return insert_axis(data, axis + ndim + 1 if axis < 0 else axis)


@composite(method=True, answers="squeeze")
def squeeze(data: Node, *, axis: Axis = None) -> Node:
    """Return the array without its axes of size one, or without the given ones. One axis always remains."""
    if axis is None:
        axes = tuple([position for position, extent in enumerate(data.shape) if extent == 1])
    else:
        given = (axis,) if isinstance(axis, int) else axis
        for one in given:
            if not -data.ndim <= one < data.ndim:
                raise MXNetError(f"axis {one} is out of bounds for array of dimension {data.ndim}, in operator squeeze")
        axes = real_axes(given, data.ndim, "squeeze")
        for one in axes:
            if data.shape[one] != 1:
                raise MXNetError(
                    f"cannot select an axis to squeeze out which has size={data.shape[one]} not equal to one: axis "
                    f"{one} of {format_shape(data.shape)}, in operator squeeze"
                )
    return reshape_to(data, without(data.shape, axes) or (1,))


# -- order of axes


@composite(method=True, answers="transpose")
def transpose(data: Node, *, axes: Shape = ()) -> Node:
    """Return the array with its axes permuted; the default reverses them."""
    if not axes:
        return permute(data, tuple(range(data.ndim))[::-1])
    if len(axes) != data.ndim:
        raise MXNetError(
            f"axes {axes} name {len(axes)} axes, but the array {format_shape(data.shape)} has {data.ndim}, "
            f"in operator transpose"
        )
    return permute(data, real_axes(axes, data.ndim, "transpose"))


@composite(name="SwapAxis", aliases=("swapaxes",), method=True, answers="swapaxes")
def swapaxes(data: Node, *, dim1: int = 0, dim2: int = 0) -> Node:
    """Return the array with two axes exchanged."""
    for one in (dim1, dim2):
        if not -data.ndim <= one < data.ndim:
            raise MXNetError(f"axis {one} is out of bounds for array of ndim {data.ndim}, in operator SwapAxis")
    order = list(range(data.ndim))
    order[dim1], order[dim2] = order[dim2], order[dim1]
    return permute(data, tuple(order))


# -- concatenation and splitting: the operators


def _uniform(name: str, data: tuple[Node, ...]) -> None:
    if not data:
        raise MXNetError(f'value 0 for Parameter num_args should be greater equal to 1, in operator {name}(name="")')
    for position, node in enumerate(data):
        if node.dtype != data[0].dtype:
            raise MXNetError(
                f"Non-uniform data type in {name}, expected data type {name_of(data[0].dtype)}, got data "
                f"type {name_of(node.dtype)} for "
                f"input {position}. Convert it with astype."
            )


@composite(name="Concat", aliases=("concat",))
def concat(*data: Node, dim: int = 1) -> Node:
    """Return arrays concatenated along an existing axis; all other axes have equal sizes."""
    _uniform("Concat", data)
    return concatenate(data, real_axis(dim, data[0].ndim, "Concat"))


@composite(name="_rnn_param_concat")
def rnn_param_concat(*data: Node, dim: int = 1) -> Node:
    """Return arrays concatenated along an existing axis: the packed parameters of a recurrent layer."""
    _uniform("_rnn_param_concat", data)
    return concatenate(data, real_axis(dim, data[0].ndim, "_rnn_param_concat"))


@composite()
def stack(*data: Node, axis: int = 0) -> Node:
    """Return arrays of equal shape stacked along a new axis."""
    _uniform("stack", data)
    for position, node in enumerate(data):
        if node.shape != data[0].shape:
            raise MXNetError(
                f"Incompatible attr in node  at {position}-th input: expected {format_shape(data[0].shape)}, got "
                f"{format_shape(node.shape)} in operator stack. Stacked arrays must have equal shapes."
            )
    return stack_nodes(data, real_axis(axis, data[0].ndim + 1, "stack"))


def _pieces(data: Node, boundaries: Shape, axis: int, squeeze_axis: bool) -> Any:
    pieces = split_at(data, boundaries, axis)
    if squeeze_axis:
        pieces = tuple([reshape_to(piece, without(piece.shape, (axis,))) for piece in pieces])
    return pieces[0] if len(pieces) == 1 else pieces


@composite(name="SliceChannel", aliases=("split",), method=True)
def slice_channel(data: Node, *, num_outputs: int, axis: int = 1, squeeze_axis: bool = False) -> Any:
    """Split an array into equal parts along an axis; squeeze_axis removes the axis of parts of size one."""
    if num_outputs < 1:
        raise MXNetError(
            f"value {num_outputs} for Parameter num_outputs should be greater equal to 1, "
            f'in operator SliceChannel(name="")'
        )
    axis = real_axis(axis, data.ndim, "SliceChannel")
    extent = data.shape[axis]
    if extent % num_outputs:
        raise MXNetError(
            f"You are trying to split the {axis}-th axis of input tensor with shape {format_shape(data.shape)} into "
            f"num_outputs={num_outputs} evenly sized chunks, but this is not possible because {num_outputs} does not "
            f"evenly divide {extent}"
        )
    if squeeze_axis and extent != num_outputs:
        raise MXNetError(
            f"If squeeze axis is True, the size of the sliced axis must be the same as num_outputs. "
            f"Input shape={format_shape(data.shape)}, axis={axis}, num_outputs={num_outputs}."
        )
    width = extent // num_outputs
    return _pieces(data, tuple([width * position for position in range(1, num_outputs)]), axis, squeeze_axis)


@composite(name="_split_v2")
def split_v2(data: Node, *, indices: Shape, axis: int = 1, squeeze_axis: bool = False, sections: int = 0) -> Any:
    """Split an array along an axis, into ``sections`` parts or at ``indices``.

    ``indices`` has the start of every part, so its first entry is 0. If the size is not a multiple of ``sections``,
    the first parts have one more element.
    """
    axis = real_axis(axis, data.ndim, "_split_v2")
    extent = data.shape[axis]
    if sections > 0:
        width, longer = divmod(extent, sections)
        starts = tuple([part * width + min(part, longer) for part in range(sections)])
    else:
        starts = indices or (0,)
    if starts[0] != 0:
        raise MXNetError(f"the first of indices {indices} must be 0, the beginning of the first part, in _split_v2")
    for part, (start, end) in enumerate(zip(starts, (*starts[1:], extent), strict=True)):
        if start > end and part == len(starts) - 1:
            raise MXNetError(f"end {start} is no less than the size of the axis {extent}, in operator _split_v2")
        if start > end:
            raise MXNetError(f"start {start} is not less than end {end}for subarray {part}, in operator _split_v2")
        if squeeze_axis and end - start != 1:
            raise MXNetError(f"expected axis size of 1 but got {end - start}, in operator _split_v2")
    return _pieces(data, starts[1:], axis, squeeze_axis)


# -- symbol declarations


def concat_shapes(inputs: Partials, outputs: Partials, *, dim: int) -> Partials:
    """Return the input shapes of a concatenation: equal but for one axis, where one unknown size can be inferred."""
    known = next((shape for shape in (*inputs, outputs[0]) if shape is not None), None)
    if known is None or not -len(known) <= dim < len(known):
        return inputs
    place = dim % len(known)
    common: Partial = (0,) * len(known)
    for shape in (*inputs, outputs[0]):
        if shape is not None and len(shape) == len(known):
            common = merge(common, (*shape[:place], 0, *shape[place + 1 :]))
    assert common is not None
    extents = [shape[place] if shape is not None and len(shape) == len(known) else 0 for shape in inputs]
    if outputs[0] is not None and outputs[0][place] and extents.count(0) == 1:
        extents[extents.index(0)] = outputs[0][place] - sum(extents)
    return [(*common[:place], extent, *common[place + 1 :]) for extent in extents]


def _transpose_shapes(inputs: Partials, outputs: Partials, *, axes: Shape) -> Partials:
    out = outputs[0]
    if out is None or len(axes) not in (0, len(out)):
        return inputs
    order = [axis % len(out) for axis in axes] or list(range(len(out)))[::-1]
    return [merge(inputs[0], tuple([out[order.index(axis)] for axis in range(len(out))]))]


def _expand_dims_shapes(inputs: Partials, outputs: Partials, *, axis: int) -> Partials:
    out = outputs[0]
    if out is None or not -len(out) <= axis < len(out):
        return inputs
    return [merge(inputs[0], without(out, (axis % len(out),)))]


def _reshape_shapes(inputs: Partials, outputs: Partials) -> Partials:
    """Return the input shape of a reshape: the number of elements determines a single unknown size."""
    data, out = inputs[0], outputs[0]
    if data is None or out is None or data.count(0) != 1 or 0 in out:
        return inputs
    missing, rest = divmod(math.prod(out), math.prod([extent for extent in data if extent]))
    return inputs if rest else [tuple([extent or missing for extent in data])]


def _slice_channel_shapes(
    inputs: Partials, outputs: Partials, *, num_outputs: int, axis: int, squeeze_axis: bool
) -> Partials:
    """Return the input shape of a split into equal parts."""
    data = inputs[0]
    if data is None or not -len(data) <= axis < len(data):
        return inputs
    place = axis % len(data)
    for out in outputs:
        if out is not None and len(out) == len(data) - squeeze_axis:
            extents = (*out[:place], 0, *out[place:]) if squeeze_axis else out
            data = merge(data, (*extents[:place], data[place] or extents[place] * num_outputs, *extents[place + 1 :]))
            assert data is not None
    return [data]


def _reshape_results(inputs: Partials, *, shape: Shape, reverse: bool) -> Partials | None:
    return [shape] if shape and min(shape) > 0 and not reverse else None


def _squeeze_results(inputs: Partials, *, axis: Axis) -> Partials | None:
    """Return an unknown shape if an unknown extent may be one."""
    data = inputs[0]
    return [None] if axis is None and data is not None and 0 in data else None


def _stack_shapes(inputs: Partials, outputs: Partials, *, axis: int) -> Partials:
    """Return the input shapes of a stack: all equal, and the shape of the output without the new axis."""
    common, out = merge_all(inputs), outputs[0]
    if out is not None and -len(out) <= axis < len(out):
        common = merge(common, without(out, (axis % len(out),)))
    return [common] * len(inputs)


reshape.interface = Interface(shapes=_reshape_shapes, results=_reshape_results)
stack.interface = Interface(shapes=_stack_shapes)
squeeze.interface = Interface(results=_squeeze_results)
expand_dims.interface = Interface(shapes=_expand_dims_shapes)
transpose.interface = Interface(shapes=_transpose_shapes)
concat.interface = Interface(shapes=concat_shapes)
slice_channel.interface = Interface(
    outputs=lambda *, num_outputs: num_outputs, numbered=True, shapes=_slice_channel_shapes
)
_split.interface = Interface(outputs=lambda *, boundaries: len(boundaries) + 1)
split_v2.interface = Interface(outputs=lambda *, indices, sections: sections or len(indices), numbered=True)


# -- precision in mixed-precision training

for _declared in (
    concat,
    stack,
):
    _declared.precision = "widest"
