"""Reading and writing rectangular and contiguous regions of an array: the primitives of basic indexing.

=================================  ==================================================================================
``assign_step(x, v, ...)``         x with x[begin:end:step] replaced by v (broadcast to that region)
``assign_flat(x, v, start)``       x with the flat range start : start + v.size replaced: a write through a view
``view_flat(x, start, shape)``     the flat range as an array of a shape: a view reads it from its base
``view_step(x, ...)``              x[begin:end:step]: the copy of a region
``part(x, ...)``                   x[begin:end:step], independent of writes to other regions
``add_part(x, v, ...)``            x with v added to x[begin:end:step]
=================================  ==================================================================================

Bounds are explicit, as in :func:`~phonograd.core.ops.math.primitives.slice_step`; :func:`bounds` makes them from
Python's slices. Nothing is overwritten: an assignment is a new value. Earlier reads keep their value, and both the base
and the assigned value have gradients of every order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ...base.hot import hot
from ...graph.node import FORGOTTEN, Node, Shape
from ...graph.operator import REGISTRY, Array, Operator, Spec, composite, operator, single
from ...graph.shapes import sliced_shape
from ...lower.lowering import Either, Expansion, InplaceUpdate
from ..math.arithmetic import add, mod
from ..math.broadcasting import broadcast, broadcast_shapes, sum_to
from ..math.comparison import equal, greater_equal, lesser_equal, logical_and
from ..math.primitives import embed, reshape_to, select, slice_step
from ..math.structural import constant
from ..shape.creation import position_along

__all__ = [
    "add_part",
    "assign_flat",
    "assign_step",
    "bounds",
    "is_assigned",
    "part",
    "view_flat",
    "view_step",
]

#: maximum number of assignments to look through for the source of a region
LOOK_BACK = 64

_RESHAPE: Operator = REGISTRY["_reshape"]


def bounds(slices: Iterable[slice], shape: Shape) -> tuple[Shape, Shape, Shape]:
    """Return explicit begin, end and step, for one slice per leading axis of a shape.

    Axes without a slice are whole. An end of -1 means "down to and including 0"; an empty selection is 0:0:1.

    >>> bounds([slice(None, None, -1), slice(1, 99)], (3, 4, 5))
    ((2, 1, 0), (-1, 4, 5), (-1, 1, 1))
    """
    begin, end, step = [0] * len(shape), list(shape), [1] * len(shape)
    for axis, part in enumerate(slices):
        first, stop, stride = part.indices(shape[axis])
        count = len(range(first, stop, stride))
        if count == 0:
            first, stop, stride = 0, 0, 1
        elif count == 1:
            stop, stride = first + 1, 1
        begin[axis], end[axis], step[axis] = first, stop, stride
    return tuple(begin), tuple(end), tuple(step)


def _expand_assign_step(data: Node, value: Node, *, begin: Shape, end: Shape, step: Shape) -> Node:
    region = sliced_shape(begin, end, step)
    if 0 in region:
        return data
    inside: Node | None = None
    for axis, (first, count, distance) in enumerate(zip(begin, region, step, strict=True)):
        if (count, distance) == (data.shape[axis], 1):
            continue
        place = position_along(data.shape, axis)
        low, high = sorted((first, first + (count - 1) * distance))
        tests = [greater_equal(place, constant(low, place.dtype)), lesser_equal(place, constant(high, place.dtype))]
        if abs(distance) > 1:
            tests.append(equal(mod(place - low, constant(abs(distance), place.dtype)), constant(0, place.dtype)))
        for test in tests:
            inside = single(test) if inside is None else single(logical_and(inside, test))
    if inside is None:
        return broadcast(value, data.shape)
    return select(inside, embed(broadcast(value, region), data.shape, begin, end, step), data)


@operator(
    lowering=Either(Expansion(_expand_assign_step), InplaceUpdate(lambda *, begin, end, step: (begin, end, step))),
    moves=True,
)
def _assign_step(data: Array, value: Array, *, begin: Shape, end: Shape, step: Shape) -> Array:
    """Return the array with the region [begin:end:step] replaced by a value that broadcasts to it."""
    out = np.array(data)
    region = [slice(b, e if e >= 0 else None, s) for b, e, s in zip(begin, end, step, strict=True)]
    # the Ellipsis makes a 0-d array assignable too
    out[(*region, ...)] = value
    return out


@_assign_step.infer
def assign_step_shape(data: Node, value: Node, *, begin: Shape, end: Shape, step: Shape) -> Spec:
    assert data.dtype == value.dtype, (data, value)
    region = sliced_shape(begin, end, step)
    assert broadcast_shapes(value.shape, region) == region, (value, region)
    return data.shape, data.dtype


@_assign_step.gradient
def assign_step_grad(
    out_grad: Node, out: Node, data: Node, value: Node, *, begin: Shape, end: Shape, step: Shape
) -> tuple[Node, Node]:
    kept = assign_step(out_grad, constant(0, out_grad.dtype), begin, end, step)
    return kept, sum_to(part(out_grad, begin, end, step), value.shape)


def assign_step(data: Node, value: Node, begin: Shape, end: Shape, step: Shape | None = None) -> Node:
    """Return ``data`` with data[begin:end:step] replaced by ``value``, which broadcasts to that region."""
    step = step or (1,) * data.ndim
    region = sliced_shape(begin, end, step)
    if 0 in region:
        return data
    if region == data.shape and all([s == 1 for s in step]):
        return broadcast(value, data.shape)
    changed = single(_assign_step.apply((data, value), (begin, end, step)))
    if changed not in _written:
        _note_written(changed)
    return changed


def part(data: Node, begin: Shape, end: Shape, step: Shape) -> Node:
    """Return data[begin:end:step], read from the last assignment that can have changed this region.

    Assignments to other regions do not change this one, so the read does not depend on them. The values between two
    assignments are lost when the second is done in place, so the function never reads them.
    """
    if _last_change(data).operator is not _assign_step or 0 in sliced_shape(begin, end, step):
        return slice_step(data, begin, end, step)
    source, own = data, _span(begin, end, step)
    for _ in range(LOOK_BACK):
        changed = _last_change(source)
        if changed.operator is not _assign_step or changed.shape != data.shape:
            return slice_step(source, begin, end, step)
        base, value = changed.inputs
        if changed.attributes == (begin, end, step):
            return broadcast(value, sliced_shape(begin, end, step))
        # another thread may empty the table at any moment
        bottom, below = _written.get(changed) or (base, _span(*changed.attributes))
        if _are_disjoint(own, below):
            source = bottom
        elif _are_disjoint(own, _span(*changed.attributes)):
            source = base
        else:
            break
    return slice_step(data, begin, end, step)


def _last_change(data: Node) -> Node:
    """Return the node below reshapes and calls: the same elements, perhaps in another shape."""
    while data.operator is _RESHAPE or data.call is not None:
        data = data.inputs[0]
    return data


#: the first and last position of a region along each axis
_Span = tuple[tuple[int, int], ...]

#: by assignment: the base of its chain of assignments, and the bounding region of all writes in the chain
_written: dict[Node, tuple[Node, _Span]] = {}
FORGOTTEN.connect(_written.clear)


def _span(begin: Shape, end: Shape, step: Shape) -> _Span:
    """Return the first and the last element of a region along each axis.

    >>> _span((5, 0), (2, 4), (-1, 2))
    ((3, 5), (0, 2))
    """
    found = []
    for bounds_along in zip(begin, end, step, strict=True):
        places = range(*bounds_along)
        found.append((min(places[0], places[-1]), max(places[0], places[-1])))
    return tuple(found)


def _are_disjoint(one: _Span, other: _Span) -> bool:
    """Return whether two regions have no common element.

    >>> _are_disjoint(((0, 0), (0, 8)), ((1, 1), (0, 8)))
    True
    """
    return any([high < first or low > last for (low, high), (first, last) in zip(one, other, strict=True)])


def _note_written(changed: Node) -> None:
    """Store the base of an assignment's chain and the bounding region of its writes."""
    span, base = _span(*changed.attributes), changed.inputs[0]
    earlier = _last_change(base)
    known = _written.get(earlier)
    if known is not None and earlier.shape == changed.shape:
        bottom, below = known
        joined = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(span, below, strict=True)]
        _written[changed] = bottom, tuple(joined)
    else:
        _written[changed] = base, span


def add_part(data: Node, value: Node, begin: Shape, end: Shape, step: Shape) -> Node:
    """Return ``data`` with ``value`` added to data[begin:end:step]."""
    return assign_step(data, add(part(data, begin, end, step), value), begin, end, step)


def is_assigned(data: Node) -> bool:
    """Return whether a node is an assignment to a region."""
    return data.operator is _assign_step


@composite()
def _assign_flat(data: Node, value: Node, *, start: int) -> Node:
    """Return the array with a contiguous flat range replaced by the elements of a value."""
    line = reshape_to(data, (data.size,))
    piece = reshape_to(value, (value.size,))
    return reshape_to(assign_step(line, piece, (start,), (start + value.size,)), data.shape)


@hot
def assign_flat(data: Node, value: Node, start: int) -> Node:
    """Return ``data`` with the flat range from ``start`` replaced by the elements of ``value``."""
    size, whole = math.prod(value.shape), math.prod(data.shape)
    assert 0 <= start <= whole - size, (data, value, start)
    if size == 0:
        return data
    if size == whole:
        return reshape_to(value, data.shape)
    return _assign_flat.apply((data, value), (start,))  # type: ignore[no-any-return]


@composite(family="shape")
def _view_flat(data: Node, *, start: int, shape: Shape) -> Node:
    """Return a contiguous flat range of the array as an array of a shape."""
    size = math.prod(shape)
    line = reshape_to(data, (data.size,))
    return reshape_to(part(line, (start,), (start + size,), (1,)), shape)


_view_flat.has_new_attributes = True


@composite()
def _view_step(data: Node, *, begin: Shape, end: Shape, step: Shape) -> Node:
    """Return data[begin:end:step]."""
    return part(data, begin, end, step)


def view_step(data: Node, begin: Shape, end: Shape, step: Shape) -> Node:
    """Return data[begin:end:step] like :func:`part`; the node is cached, so a second read is immediate."""
    return single(_view_step.apply((data,), (begin, end, step)))


@hot
def view_flat(data: Node, start: int, shape: Shape) -> Node:
    """Return the flat range of ``data`` from ``start`` as an array of a shape."""
    size, whole = math.prod(shape), math.prod(data.shape)
    assert 0 <= start <= whole - size, (data, start, shape)
    if size == whole:
        return reshape_to(data, shape)
    return _view_flat.apply((data,), (start, shape))  # type: ignore[no-any-return]
