"""Arithmetic of shapes and axes: pure functions on tuples of integers, shared by operators and arrays.

They implement MXNet's rules (the codes of ``reshape``, axes that count from the end, reductions over all other axes)
and raise its error messages. They use neither nodes nor data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..base.errors import MXNetError, format_shape

__all__ = [
    "concatenated_shape",
    "infer_reshape",
    "legacy_reshape",
    "real_axes",
    "real_axis",
    "reduction_axes",
    "sliced_shape",
    "with_ones",
    "without",
]

Shape = tuple[int, ...]


def real_axis(axis: int, ndim: int, operator: str) -> int:
    """Return an axis counted from the front; negative axes count from the end.

    >>> real_axis(-1, 3, "sort")
    2
    """
    if not -ndim <= axis < ndim:
        raise MXNetError(f"axis {axis} exceeds the input dimension of {ndim} in operator {operator}")
    return axis + ndim if axis < 0 else axis


def real_axes(axes: Sequence[int], ndim: int, operator: str) -> Shape:
    """Return axes counted from the front, in the given order; raise if an axis occurs twice.

    >>> real_axes((2, -3), 3, "transpose")
    (2, 0)
    """
    found = tuple([real_axis(axis, ndim, operator) for axis in axes])
    if len(set(found)) != len(found):
        raise MXNetError(f"duplicate value in axis: {tuple(axes)} in operator {operator}")
    return found


def reduction_axes(shape: Shape, axis: int | Shape | None, exclude: bool = False) -> Shape:
    """Return the axes that a reduction removes, ascending. None and () mean all axes, also with ``exclude``.

    >>> reduction_axes((2, 3, 4), -1), reduction_axes((2, 3, 4), 1, exclude=True), reduction_axes((2, 3, 4), ())
    ((2,), (0, 2), (0, 1, 2))
    """
    ndim = len(shape)
    if axis is None or axis == ():
        return tuple(range(ndim))
    given = (axis,) if isinstance(axis, int) else axis
    axes = sorted([one + ndim if one < 0 else one for one in given])
    if axes[-1] >= ndim:
        raise MXNetError(f"Reduction axis {axes[-1]} Exceeds input dimensions {format_shape(shape)}")
    if axes[0] < 0:
        raise MXNetError(f"Reduction axis {format_shape(tuple(given))} Exceeds input dimensions {format_shape(shape)}")
    if len(set(axes)) != len(axes):
        raise MXNetError(f"Reduction axes have duplicates {format_shape(tuple(axes))}")
    return tuple([one for one in range(ndim) if one not in axes]) if exclude else tuple(axes)


def with_ones(shape: Shape, axes: Shape) -> Shape:
    """Return the shape with size one along some axes, as after a reduction with ``keepdims``.

    >>> with_ones((2, 3, 4), (0, 2))
    (1, 3, 1)
    """
    return tuple([1 if axis in axes else extent for axis, extent in enumerate(shape)])


def without(shape: Shape, axes: Shape) -> Shape:
    """Return the shape without some axes.

    >>> without((2, 3, 4), (0, 2))
    (3,)
    """
    return tuple([extent for axis, extent in enumerate(shape) if axis not in axes])


def concatenated_shape(shapes: Sequence[Shape], axis: int) -> Shape:
    """Return the shape of arrays concatenated along an axis, or raise if other axes differ.

    >>> concatenated_shape([(2, 3), (2, 1)], 1)
    (2, 4)
    """
    first = shapes[0]
    for shape in shapes[1:]:
        if len(shape) != len(first) or without(shape, (axis,)) != without(first, (axis,)):
            expected = tuple([-1 if position == axis else extent for position, extent in enumerate(first)])
            raise MXNetError(
                f"Incompatible input shape: expected {format_shape(expected)}, got {format_shape(shape)}. "
                f"Arrays that are joined along axis {axis} must agree in all others."
            )
    return (*first[:axis], sum([shape[axis] for shape in shapes]), *first[axis + 1 :])


def sliced_shape(begin: Shape, end: Shape, step: Shape) -> Shape:
    """Return the shape of x[begin:end:step], with explicit bounds.

    >>> sliced_shape((0, 2), (3, -1), (2, -1))
    (2, 3)
    """
    # not the length of a range: extents may be traced
    return tuple([max(0, (e - b + s - (1 if s > 0 else -1)) // s) for b, e, s in zip(begin, end, step, strict=True)])


def infer_reshape(shape: Shape, codes: Sequence[int], reverse: bool = False) -> Shape:
    """Return the target shape of MXNet's reshape codes.

    ========  ===========================================================================
    n > 0     an axis of size n
    0         the next axis unchanged
    -1        an axis of the remaining size (at most once)
    -2        all remaining axes unchanged
    -3        the next two axes merged into one
    -4, m, n  the next axis split into m and n, one of which may be -1
    ========  ===========================================================================

    With ``reverse`` axes and codes are read from right to left.

    Raises
    ------
    MXNetError
        If a code has no axis left, two sizes are unknown, or the target has more elements.
    ValueError
        If the target has fewer elements.

    Examples
    --------
    >>> infer_reshape((2, 3, 4), (0, -1))
    (2, 12)
    >>> infer_reshape((2, 3, 4), (-3, -2)), infer_reshape((2, 3, 4), (0, -4, -1, 3, -2))
    ((6, 4), (2, 1, 3, 4))
    >>> infer_reshape((10, 5, 4), (-1, 0)), infer_reshape((10, 5, 4), (-1, 0), reverse=True)
    ((40, 5), (50, 4))
    >>> infer_reshape((2, 3), (2, 2))
    Traceback (most recent call last):
    ValueError: Cannot reshape array of size 6 into shape (2, 2)
    """
    codes = tuple(codes)
    request = f"reshape of {format_shape(shape)} to {codes}" + (" from the right" if reverse else "")
    target, unknown = _read_codes(shape[::-1], codes[::-1], request) if reverse else _read_codes(shape, codes, request)
    size = math.prod(shape)
    if unknown is not None:
        target[unknown] = _remaining(shape, [*target[:unknown], *target[unknown + 1 :]])
    found = math.prod(target)
    if found > size:
        raise MXNetError(
            f"target shape size is larger than the current shape: {found} elements from {size}, in {request}"
        )
    if found < size:
        raise ValueError(f"Cannot reshape array of size {size} into shape {codes}")
    return tuple(target[::-1] if reverse else target)


def _remaining(shape: Shape, known: list[int]) -> int:
    """Return the unknown size. If the other axes have no elements, zeros are ignored on both sides."""
    if 0 not in known:
        return math.prod(shape) // math.prod(known)
    return math.prod([n for n in shape if n]) // math.prod([n for n in known if n])


def _read_codes(shape: Shape, codes: Shape, request: str) -> tuple[list[int], int | None]:
    """Return the target with its unknown size set to 1, and the position of that axis or None."""
    target: list[int] = []
    unknown: int | None = None
    axis = position = 0

    def need(count: int) -> None:
        if axis + count > len(shape):
            raise MXNetError(
                f"code {codes[position]} takes {count} axes, but {max(0, len(shape) - axis)} are left in {request}"
            )

    while position < len(codes):
        code = codes[position]
        if code > 0:
            target.append(code)
            axis += 1
        elif code == 0:
            need(1)
            target.append(shape[axis])
            axis += 1
        elif code == -1:
            if unknown is not None:
                raise MXNetError(f"One and only one dim can be inferred, in {request}")
            unknown = len(target)
            target.append(1)
            axis += 1
        elif code == -2:
            target.extend(shape[axis:])
            axis = len(shape)
        elif code == -3:
            need(2)
            target.append(shape[axis] * shape[axis + 1])
            axis += 2
        elif code == -4:
            need(1)
            target.extend(_split_axis(shape[axis], codes[position + 1 : position + 3], request))
            position += 2
            axis += 1
        else:
            raise MXNetError(f"shape dim size must be >= -1, while received {code} in {request}")
        position += 1
    return target, unknown


def _split_axis(extent: int, parts: Shape, request: str) -> tuple[int, int]:
    if len(parts) != 2:
        raise MXNetError(f"code -4 must be followed by two sizes, in {request}")
    first, second = parts
    if first == -1 and second == -1:
        raise MXNetError(f"Split dims cannot both be -1. in {request}")
    if first == -1:
        first = extent // second if second > 0 else 0
    if second == -1:
        second = extent // first if first > 0 else 0
    if first * second != extent or first < 0:
        raise MXNetError(f"Split dims {first}, {second} do not divide original dim {extent} in {request}")
    return first, second


def legacy_reshape(shape: Shape, target: Shape, keep_highest: bool = False) -> Shape:
    """Return the target shape of the deprecated ``target_shape`` of reshape; one size may be 0, unknown.

    >>> legacy_reshape((2, 3, 4), (0, 6)), legacy_reshape((2, 3, 4), (9, 0), keep_highest=True)
    ((4, 6), (2, 12))
    """
    sizes = list(target)
    start = 0
    if keep_highest:
        sizes[0] = shape[0]
        start = 1
    codes = [-1 if size == 0 and position >= start else size for position, size in enumerate(sizes)]
    return infer_reshape(shape, codes)
