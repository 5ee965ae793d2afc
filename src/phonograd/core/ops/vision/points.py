"""Reading and writing at arrays of positions: the primitives of all operators with an index array.

:func:`positions` first converts an index array to *positions*: int64 numbers in range. It implements the modes for
indices out of range. Six operators then work along one axis:

======================================  =============================================================================
``take_axis(x, index, axis)``           slices of x at positions of an axis; the axes of the index replace it
``add_axis(v, index, axis, extent)``    zeros with slices v added at positions (its adjoint)
``add_onto(x, v, index)``               x with slices v added at positions of its first axis
``put_axis(x, v, index, axis)``         x with its slices at positions replaced by v; the last of equal positions wins
``take_along(x, index, axis)``          single elements of x: the index has x's shape, but any size along the axis
``add_along(v, index, axis, extent)``   zeros with elements v added at positions (its adjoint)
======================================  =============================================================================

Indexing with several arrays (``x[rows, columns]``) is the same along one axis, after the indexed axes are merged:
:func:`take_points` and :func:`assign_points`.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from ...base import float_errors
from ...base.dtypes import INT64, UINT8, kind_of
from ...base.errors import MXNetError
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, composite, nothing, operator, single
from ...lower.lowering import NUMBERS, Called, Either, Expansion, Gather, IndexWalk, Scatter
from ...lower.pattern import Pattern
from ..math.arithmetic import add, maximum, minimum, mod
from ..math.broadcasting import broadcast, broadcast_shapes, sum_to
from ..math.comparison import equal, greater_equal
from ..math.primitives import cast, gather, permute, reshape_to, scatter_add, select
from ..math.structural import constant, full
from ..shape.creation import position_along

__all__ = [
    "add_along",
    "add_axis",
    "add_onto",
    "assign_points",
    "few_rows",
    "point_positions",
    "positions",
    "put_axis",
    "rows_where_read",
    "take_along",
    "take_axis",
    "take_points",
]

Mode = Literal["clip", "wrap", "raise", "index"]

#: by size: the unsigned dtype, and the smallest number in it that is negative in the signed one
_UNSIGNED = {size: (np.dtype(f"u{size}"), 1 << (8 * size - 1)) for size in (1, 2, 4, 8)}


def _expand_positions(index: Node, *, extent: int, mode: Mode) -> Node | None:
    # NumPy raises for indices out of range
    if mode not in ("clip", "wrap") or extent == 0:
        return None
    found = cast(index, INT64)
    if mode == "wrap":
        return single(mod(found, extent))
    return single(minimum(maximum(found, 0), extent - 1))


def _checked(routine: str) -> Called:
    """Return the lowering of positions that may be out of range: a kernel finds out, and NumPy raises the error."""
    return Called(routine, dtypes=NUMBERS, plans="phonograd.core.kernels.positions", retries=True)


@operator(gradient=nothing, lowering=Either(Expansion(_expand_positions), _checked("positions")), moves=True)
def _positions(
    index: Array, *, extent: int, mode: Literal["clip", "wrap", "raise", "index"], axis: int = 0, caller: str = ""
) -> Array:
    """Return an index array as int64 positions from 0 to extent - 1; fractions are truncated.

    ``mode`` handles numbers out of range: ``clip`` uses the nearest end, ``wrap`` counts modulo the extent, ``raise``
    raises MXNetError. ``index`` follows Python: negative numbers count from the end, others out of range raise
    IndexError. ``axis`` and ``caller``, the operator that users know, are used in error messages.
    """
    if index.dtype.kind == "i":
        # as unsigned numbers, negative ones are the largest: one look finds that all are in range
        found = index.astype(np.int64)
        unsigned, least_negative = _UNSIGNED[index.itemsize]
        if index.size and np.maximum.reduce(index.view(unsigned), axis=None) < min(extent, least_negative):
            return found
    else:
        token = float_errors.ignore()
        try:
            found = index.astype(np.int64)
        finally:
            float_errors.restore(token)
    if found.size == 0:
        return found
    if mode == "wrap" and extent > 0:
        return np.remainder(found, extent)
    if mode == "clip" and extent > 0:
        # np.clip takes three times as long for few numbers
        return np.minimum(np.maximum(found, 0), extent - 1)
    # the smallest and the largest of short integers are found in less time
    source = index if index.dtype.kind == "i" else found
    least, most, lowest = int(source.min()), int(source.max()), -extent if mode == "index" else 0
    if least >= lowest and most < extent:
        return found if least >= 0 else np.where(found < 0, found + extent, found)
    first = found[(found < lowest) | (found >= extent)].reshape(-1)[0]
    if mode == "raise":
        raise MXNetError(
            "take operator contains indices out of bound: "
            f"{first} for an axis of size {extent}; use mode='clip' or 'wrap'"
        )
    raise IndexError(f"index {first} is out of bounds for axis {axis} with size {extent}")


@_positions.infer
def positions_shape(index: Node) -> Spec:
    return index.shape, np.dtype(np.int64)


def positions(index: Node, extent: int, mode: Mode = "index", axis: int = 0, *, caller: str = "") -> Node:
    """Return an index node as positions along an axis of size ``extent``.

    Error messages name ``axis`` and ``caller``, the operator that users know; modes that never fail need none.
    """
    assert caller or mode in ("clip", "wrap"), "errors must name an operator"
    return single(_positions.apply((index,), (extent, mode, axis, caller)))


@operator(gradient=nothing, lowering=_checked("points"), moves=True)
def _point_positions(indices: Array, *, extents: Shape, caller: str = "") -> Array:
    """Return points as int64 positions in the merged first axes of an array; ``extents`` are their sizes.

    The rows of ``indices`` are the coordinates. They follow Python, as mode ``index`` of ``_positions`` does.
    Error messages name ``caller``.
    """
    flat: Array | None = None
    for axis, (row, extent) in enumerate(zip(indices, extents, strict=True)):
        place: Array = _positions.function(row, extent=extent, mode="index", axis=axis)
        flat = place if flat is None else flat * extent + place
    return np.zeros(indices.shape[1:], np.int64) if flat is None else flat


@_point_positions.infer
def point_positions_shape(indices: Node, *, extents: Shape) -> Spec:
    assert indices.shape[0] == len(extents), (indices, extents)
    return indices.shape[1:], INT64


def point_positions(indices: Node, extents: Shape, caller: str) -> Node:
    """Return points, of which ``indices`` has a row of coordinates for each axis, as positions in the merged axes.

    Error messages name ``caller``, the operator that users know.
    """
    return single(_point_positions.apply((indices,), (extents, caller)))


def _take_shape(shape: Shape, index: Shape, axis: int) -> Shape:
    return (*shape[:axis], *index, *shape[axis + 1 :])


def _scatter_sizes(data: Shape, index: Shape, *, axis: int, extent: int) -> tuple[int, int, int]:
    return math.prod(data[:axis]), math.prod(data[axis + len(index) :]), extent


def _place_sizes(index: Shape, *, extent: int) -> tuple[int, int, int]:
    return 1, 1, extent


def _walk_axis(pattern: Pattern, index: Shape, *, axis: int) -> IndexWalk:
    """Return the access pattern of slices: the axes of the index replace the axis."""
    strides = (*pattern.strides[:axis], *(0,) * len(index), *pattern.strides[axis + 1 :])
    return IndexWalk(Pattern(_take_shape(pattern.shape, index, axis), strides, pattern.offset), pattern.strides[axis])


def _index_axis(pattern: Pattern, shape: Shape, *, axis: int) -> Pattern:
    """Return the access pattern of the index, for every element of the result."""
    after = (1,) * (len(shape) - axis - len(pattern.shape))
    found = pattern.reshape((*pattern.shape, *after))
    assert found is not None, pattern
    return found.broadcast(shape)


@operator(lowering=Gather(_walk_axis, _index_axis))
def _take_axis(data: Array, index: Array, *, axis: int) -> Array:
    """Return the slices of an array at positions of an axis."""
    # positions are in range: with this mode, NumPy need not look for others
    return np.asarray(data.take(index, axis, None, "clip"))


@_take_axis.infer
def take_axis_shape(data: Node, index: Node, *, axis: int) -> Spec:
    assert index.dtype == np.int64, index
    return _take_shape(data.shape, index.shape, axis), data.dtype


@_take_axis.gradient
def take_axis_grad(out_grad: Node, out: Node, data: Node, index: Node, *, axis: int) -> tuple[Node, None]:
    return add_axis(out_grad, index, axis, data.shape[axis]), None


@operator(lowering=Scatter(_scatter_sizes))
def _add_axis(data: Array, index: Array, *, axis: int, extent: int) -> Array:
    """Return zeros with slices added at positions of an axis, in order."""
    outer = data.shape[:axis]
    inner = data.shape[axis + index.ndim :]
    out = np.zeros((*outer, extent, *inner), data.dtype)
    if data.size == 0:
        return out
    place = index.reshape(-1)
    slices = data.reshape(*outer, place.size, *inner)
    order = np.argsort(place, kind="stable")
    ordered = place[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    # sum slice by slice in double precision: add.at would round after every addition and is far slower
    precise = np.float64 if kind_of(data.dtype) == "f" else data.dtype
    sums = np.add.reduceat(np.take(slices, order, axis), starts, axis, dtype=precise)
    out[(slice(None),) * axis + (ordered[starts],)] = sums
    return out


@_add_axis.infer
def add_axis_shape(data: Node, index: Node, *, axis: int, extent: int) -> Spec:
    assert index.dtype == np.int64, index
    assert data.shape[axis : axis + index.ndim] == index.shape, (data, index)
    return (*data.shape[:axis], extent, *data.shape[axis + index.ndim :]), data.dtype


@_add_axis.gradient
def add_axis_grad(out_grad: Node, out: Node, data: Node, index: Node, *, axis: int) -> tuple[Node, None]:
    return take_axis(out_grad, index, axis), None


def _onto_sizes(old: Shape, data: Shape, index: Shape) -> tuple[int, int, int]:
    return 1, math.prod(old[1:]), old[0]


@operator(lowering=Scatter(_onto_sizes, "onto"))
def _add_onto(old: Array, data: Array, index: Array) -> Array:
    """Return an array with slices added at positions of its first axis: the slices of a position in order, then it."""
    return np.asarray(old + _add_axis.function(data, index, axis=0, extent=len(old)))


@_add_onto.infer
def add_onto_shape(old: Node, data: Node, index: Node) -> Spec:
    assert index.dtype == np.int64, index
    assert old.dtype == data.dtype, (old, data)
    assert data.shape == (*index.shape, *old.shape[1:]), (old, data, index)
    return old.shape, old.dtype


@_add_onto.gradient
def add_onto_grad(out_grad: Node, out: Node, old: Node, data: Node, index: Node) -> tuple[Node, Node, None]:
    return out_grad, take_axis(out_grad, index, 0), None


def _expand_put_axis(data: Node, value: Node, index: Node, *, axis: int) -> Node:
    if index.size == 0 or data.size == 0:
        return data
    before, after = data.shape[:axis], data.shape[axis + 1 :]
    slices = reshape_to(broadcast(value, (*before, *index.shape, *after)), (*before, index.size, *after))
    last = single(_last_place(index, extent=data.shape[axis]))
    written = take_axis(slices, single(maximum(last, 0)), axis)
    chosen = single(greater_equal(last, constant(0, INT64)))
    return select(reshape_to(chosen, (*last.shape, *(1,) * len(after))), written, data)


@operator(lowering=Expansion(_expand_put_axis), moves=True)
def _put_axis(data: Array, value: Array, index: Array, *, axis: int) -> Array:
    """Return the array with its slices at positions of an axis replaced; the last of equal positions wins."""
    out = data.copy()
    shape = _take_shape(data.shape, index.shape, axis)
    slices = np.broadcast_to(value, shape).reshape(*data.shape[:axis], index.size, *data.shape[axis + 1 :])
    # a flat index: NumPy guarantees "last wins" for one axis only
    out[(slice(None),) * axis + (index.reshape(-1),)] = slices
    return out


@_put_axis.infer
def put_axis_shape(data: Node, value: Node, index: Node, *, axis: int) -> Spec:
    assert index.dtype == np.int64, index
    assert data.dtype == value.dtype, (data, value)
    shape = _take_shape(data.shape, index.shape, axis)
    assert broadcast_shapes(value.shape, shape) == shape, (value, shape)
    return data.shape, data.dtype


@_put_axis.gradient
def put_axis_grad(
    out_grad: Node, out: Node, data: Node, value: Node, index: Node, *, axis: int
) -> tuple[Node, Node, None]:
    kept = put_axis(out_grad, constant(0, out_grad.dtype), index, axis)
    last = single(_is_last(index, extent=data.shape[axis]))
    after = data.ndim - axis - 1
    written = select(reshape_to(last, (*index.shape, *(1,) * after)), take_axis(out_grad, index, axis), 0)
    return kept, sum_to(written, value.shape), None


@operator(gradient=nothing, lowering=Scatter(_place_sizes, "last"), moves=True)
def _last_place(index: Array, *, extent: int) -> Array:
    """Return the last place of each position in the index, or -1 if the position does not occur."""
    last = np.full(extent, -1, np.int64)
    last[index.reshape(-1)] = np.arange(index.size)
    return last


@_last_place.infer
def last_place_shape(index: Node, *, extent: int) -> Spec:
    assert index.dtype == np.int64, index
    return (extent,), INT64


@operator(gradient=nothing, lowering=Scatter(_place_sizes, "first"), moves=True)
def _first_place(index: Array, *, extent: int) -> Array:
    """Return the first place of each position in the index, counted from 1, or 0 if the position does not occur."""
    first = np.zeros(extent, np.int64)
    first[index.reshape(-1)[::-1]] = np.arange(index.size, 0, -1)
    return first


@_first_place.infer
def first_place_shape(index: Node, *, extent: int) -> Spec:
    assert index.dtype == np.int64, index
    return (extent,), INT64


def _slice_sizes(data: Shape, index: Shape, *, extent: int) -> tuple[int, int, int]:
    return 1, math.prod(data[len(index) :]), extent


@operator(gradient=nothing, lowering=Scatter(_slice_sizes, "slices"))
def _sum_slices(data: Array, index: Array, *, extent: int) -> Array:
    """Return zeros, and then the sum of all slices of each position at the first of them, zeros at the others."""
    inner = data.shape[index.ndim :]
    out = np.zeros((index.size + 1, *inner), data.dtype)
    if index.size:
        total = _add_axis.function(data, index, axis=0, extent=extent)
        places, firsts = np.unique(index.reshape(-1), return_index=True)
        out[firsts + 1] = total[places]
    return out


@_sum_slices.infer
def sum_slices_shape(data: Node, index: Node, *, extent: int) -> Spec:
    assert index.dtype == np.int64, index
    return (index.size + 1, *data.shape[index.ndim :]), data.dtype


#: a sum of slices is left where the slices are if it has at least so many times as many slices, of so many elements
FEW_SLICES, LONG_SLICE = 2, 16


def few_rows(node: Node) -> tuple[Node, Node] | None:
    """Return the rows of a node that is zero outside of few rows of many elements, and their positions; else None."""
    while node.operator.is_view:
        node = node.inputs[0]
    if node.operator is not _add_axis:
        return None
    axis, extent = node.attributes
    data, index = node.inputs
    is_few = 0 < FEW_SLICES * index.size <= extent and node.size >= LONG_SLICE * extent
    return (data, index) if is_few and axis == 0 else None


@operator(
    gradient=nothing,
    lowering=Gather(
        lambda pattern, index: _walk_axis(pattern, index, axis=0),
        lambda pattern, shape: _index_axis(pattern, shape, axis=0),
        zero_first=True,
    ),
)
def _take_sums(data: Array, index: Array) -> Array:
    """Return the slices of an array at positions of its first axis; the slice at position 0 is zero."""
    return np.asarray(np.take(data, index, 0))


@_take_sums.infer
def take_sums_shape(data: Node, index: Node) -> Spec:
    return _take_shape(data.shape, index.shape, 0), data.dtype


def rows_where_read(data: Node, index: Node, extent: int) -> Node:
    """Return ``add_axis`` along the first axis, written such that a reader takes the sums from where the slices are."""
    sums, first = single(_sum_slices(data, index, extent=extent)), single(_first_place(index, extent=extent))
    return single(_take_sums(sums, first))


def _expand_is_last(index: Node, *, extent: int) -> Node:
    line = reshape_to(index, (index.size,))
    last = single(equal(gather(single(_last_place(index, extent=extent)), line), position_along(line.shape, 0, INT64)))
    return reshape_to(cast(last, UINT8), index.shape)


@operator(gradient=nothing, lowering=Expansion(_expand_is_last), moves=True)
def _is_last(index: Array, *, extent: int) -> Array:
    """Return 1 for the last occurrence of each position, else 0."""
    place = index.reshape(-1)
    order = np.arange(place.size)
    writer = np.zeros(extent, np.int64)
    writer[place] = order
    last: Array = writer[place] == order
    return last.astype(np.uint8).reshape(index.shape)


@_is_last.infer
def is_last_shape(index: Node) -> Spec:
    return index.shape, np.dtype(np.uint8)


def take_axis(data: Node, index: Node, axis: int) -> Node:
    """Return the slices of ``data`` at positions (int64, in range) of an axis; they replace that axis."""
    return single(_take_axis.apply((data, index), (axis,)))


def add_axis(data: Node, index: Node, axis: int, extent: int) -> Node:
    """Return zeros of size ``extent`` along an axis, with the slices ``data`` added at positions."""
    return single(_add_axis.apply((data, index), (axis, extent)))


def add_onto(old: Node, data: Node, index: Node) -> Node:
    """Return ``old`` with slices ``data`` added at positions of its first axis."""
    if math.prod(old.shape[1:]) >= LONG_SLICE:
        return single(_add_onto.apply((old, data, index), ()))
    return single(add(old, add_axis(data, index, 0, old.shape[0])))


def put_axis(data: Node, value: Node, index: Node, axis: int) -> Node:
    """Return ``data`` with its slices at positions of an axis replaced by ``value``, which broadcasts to them."""
    return single(_put_axis.apply((data, value, index), (axis,)))


# -- an index for every element


def _walk_along(pattern: Pattern, index: Shape, *, axis: int) -> IndexWalk:
    strides = (*pattern.strides[:axis], 0, *pattern.strides[axis + 1 :])
    return IndexWalk(Pattern(index, strides, pattern.offset), pattern.strides[axis])


@operator(lowering=Gather(_walk_along, lambda pattern, shape: pattern))
def _take_along(data: Array, index: Array, *, axis: int) -> Array:
    """Return the elements at positions along an axis; the other axes of index and array correspond."""
    return np.take_along_axis(data, index, axis)


@_take_along.infer
def take_along_shape(data: Node, index: Node, *, axis: int) -> Spec:
    assert index.dtype == np.int64, index
    assert _take_shape(data.shape, (index.shape[axis],), axis) == index.shape, (data, index)
    return index.shape, data.dtype


@_take_along.gradient
def take_along_grad(out_grad: Node, out: Node, data: Node, index: Node, *, axis: int) -> tuple[Node, None]:
    return add_along(out_grad, index, axis, data.shape[axis]), None


def _expand_add_along(data: Node, index: Node, *, axis: int, extent: int) -> Node:
    shape = (*data.shape[:axis], extent, *data.shape[axis + 1 :])
    if 0 in shape:
        return full(shape, 0, data.dtype, data.context)
    if data.shape[axis] == 1:
        # one element per line needs no sum. Adding 0 turns -0 into 0, as a sum does
        place = position_along(shape, axis)
        one = select(equal(place, cast(index, place.dtype)), data, 0)
        return one + 0 if kind_of(data.dtype) == "f" else one
    inner = math.prod(shape[axis + 1 :])
    flat = index * inner
    if inner > 1:
        below = position_along((*data.shape[: axis + 1], inner), axis + 1, INT64)
        flat = flat + reshape_to(below, data.shape)
    if axis > 0:
        above = position_along((math.prod(shape[:axis]), *data.shape[axis:]), 0, INT64)
        flat = flat + reshape_to(above, data.shape) * (extent * inner)
    return scatter_add(data, flat, shape)


@operator(lowering=Expansion(_expand_add_along))
def _add_along(data: Array, index: Array, *, axis: int, extent: int) -> Array:
    """Return zeros with elements added at positions of an axis, in order."""
    count = data.shape[axis]
    lines = np.moveaxis(data, axis, -1)
    rows = math.prod(lines.shape[:-1])
    flat = (np.moveaxis(index, axis, -1).reshape(rows, count) + np.arange(rows)[:, None] * extent).reshape(-1)
    if kind_of(data.dtype) == "f":
        total = np.bincount(flat, lines.reshape(-1), rows * extent).astype(data.dtype)
    else:
        total = np.zeros(rows * extent, data.dtype)
        np.add.at(total, flat, lines.reshape(-1))
    return np.moveaxis(total.reshape(*lines.shape[:-1], extent), -1, axis)


@_add_along.infer
def add_along_shape(data: Node, index: Node, *, axis: int, extent: int) -> Spec:
    assert index.dtype == np.int64, index
    assert data.shape == index.shape, (data, index)
    return (*data.shape[:axis], extent, *data.shape[axis + 1 :]), data.dtype


@_add_along.gradient
def add_along_grad(out_grad: Node, out: Node, data: Node, index: Node, *, axis: int) -> tuple[Node, None]:
    return take_along(out_grad, index, axis), None


def take_along(data: Node, index: Node, axis: int) -> Node:
    """Return the elements of ``data`` at positions (int64, in range) along an axis, in the shape of the index."""
    return single(_take_along.apply((data, index), (axis,)))


def add_along(data: Node, index: Node, axis: int, extent: int) -> Node:
    """Return zeros of size ``extent`` along an axis, with the elements of ``data`` added at positions."""
    return single(_add_along.apply((data, index), (axis, extent)))


# -- several index arrays


def _merge_points(extents: Shape, layout: Shape, indices: tuple[Node, ...]) -> tuple[tuple[int, ...], int, Node]:
    """Return the axis order that makes the indexed axes adjacent, their start, and the merged positions.

    Adjacent indexed axes keep their position; otherwise they move to the front, as in NumPy.
    """
    indexed = [axis for axis, number in enumerate(layout) if number >= 0]
    start = indexed[0] if indexed[-1] - indexed[0] == len(indexed) - 1 else 0
    others = [axis for axis, number in enumerate(layout) if number < 0]
    order = (*others[:start], *indexed, *others[start:])
    shape: Shape = ()
    for axis in indexed:
        shape = broadcast_shapes(shape, indices[layout[axis]].shape)
    flat: Node | None = None
    for axis in indexed:
        place = positions(indices[layout[axis]], extents[axis], "index", axis, caller="indexing")
        flat = place if flat is None else flat * extents[axis] + place
    assert flat is not None
    return order, start, broadcast(flat, shape)


def _one_axis(data: Node, order: tuple[int, ...], start: int, count: int) -> Node:
    moved = permute(data, order)
    merged = math.prod(moved.shape[start : start + count])
    return reshape_to(moved, (*moved.shape[:start], merged, *moved.shape[start + count :]))


@composite()
def _take_points(data: Node, *indices: Node, layout: Shape) -> Node:
    """Return the elements that index arrays select, with NumPy's layout of the result.

    ``layout`` has one number per axis: the number of the index array for that axis, or -1 for the whole axis.
    """
    order, start, flat = _merge_points(data.shape, layout, indices)
    count = sum([number >= 0 for number in layout])
    return take_axis(_one_axis(data, order, start, count), flat, start)


@composite()
def _assign_points(data: Node, value: Node, *indices: Node, layout: Shape) -> Node:
    """Return the array with the elements that index arrays select replaced by a value that broadcasts to them.

    If several elements are written to one position, the last wins. ``layout`` is that of ``_take_points``.
    """
    order, start, flat = _merge_points(data.shape, layout, indices)
    count = sum([number >= 0 for number in layout])
    written = put_axis(_one_axis(data, order, start, count), value, flat, start)
    moved = reshape_to(written, tuple([data.shape[axis] for axis in order]))
    return permute(moved, tuple(sorted(range(len(order)), key=order.__getitem__)))


def take_points(data: Node, layout: Shape, indices: tuple[Node, ...]) -> Node:
    """Return the elements that index arrays select; ``layout`` has the index array of each axis (-1: none).

    Index arrays broadcast together. Negative numbers count from the end; numbers out of range raise IndexError when
    the value is computed.
    """
    assert len(layout) == data.ndim, (data, layout)
    return single(_take_points.apply((data, *indices), (layout,))) if indices else data


def assign_points(data: Node, value: Node, layout: Shape, indices: tuple[Node, ...]) -> Node:
    """Return ``data`` with the elements that index arrays select replaced by ``value``, which broadcasts to them."""
    assert len(layout) == data.ndim, (data, layout)
    if not indices:
        return broadcast(value, data.shape)
    return single(_assign_points.apply((data, value, *indices), (layout,)))
