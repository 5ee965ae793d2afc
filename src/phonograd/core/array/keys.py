"""Index keys: what ``x[key]`` means, worked out from the key and the shape alone. No arrays, no data.

:func:`parse` turns any key into one of two descriptions. A :class:`Basic` key holds numbers, slices, None and
Ellipsis, and selects a rectangular region; where its elements are contiguous in memory the result is a view. An
:class:`Advanced` key holds index arrays too: first a region is taken, then elements of it are picked.

Keys follow NumPy's rules, with these differences, which are MXNet's:

- a key that names a single element gives shape (1,): there are no results without axes;
- True and False are the numbers 1 and 0, and so are the elements of boolean lists and NumPy arrays;
- index arrays may hold floating point numbers, whose fractions are cut off; one without axes counts as a vector of
  one element;
- an Ellipsis that stands for no axis does not separate the index arrays beside it;
- a lone slice that ends before it begins (``x[2:1]``) is an error.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import MXNetError
from ..base.hot import hot
from ..graph.node import Shape
from ..graph.shapes import sliced_shape
from ..ops.vision.regions import bounds

__all__ = ["Advanced", "Basic", "is_contiguous", "parse", "simple", "value_shape"]


class _Span(NamedTuple):
    """A slice that can be a key of a dictionary."""

    start: int | None
    stop: int | None
    step: int | None


class Basic(NamedTuple):
    """A key of numbers, slices and new axes: the region x[begin:end:step], in the shape of the result."""

    begin: Shape
    end: Shape
    step: Shape
    shape: Shape
    """The shape of ``x[key]``."""
    target: Shape
    """The shape of the region, one extent per axis of x: what an assigned value is broadcast to."""
    new_axes: Shape
    """The axes of the result that None stands for."""
    dropped: Shape
    """The axes of ``target`` that a number stands for."""
    offset: int | None
    """Where the region starts among the elements of x, if it is contiguous (and not empty): ``x[key]`` is a view."""
    whole: bool
    """Whether ``x[key]`` is x itself, the same object."""


class Advanced(NamedTuple):
    """A key with index arrays: pick from the region x[begin:end:step], reshaped to ``expanded``, as ``layout`` says."""

    begin: Shape
    end: Shape
    step: Shape
    expanded: Shape
    """The shape of the region with an axis of size one for every None."""
    layout: Shape
    """For each axis of ``expanded`` the number of the index array that selects along it, or -1."""
    indices: tuple[Any, ...]
    """int64 arrays of NumPy (in range), and arrays of the library as they stand in the key.

    One of the latter without axes is to be used as a vector of one element.
    """
    shape: Shape
    """The shape of ``x[key]``."""
    target: Shape
    """The shape of the picked elements, which is also what an assigned value is broadcast to."""
    new_axes: Shape
    """The axes of ``target`` that None stands for."""
    dropped: Shape
    """The axes of ``target`` that a value aligned to the selection without None lacks: the new ones."""


Selection = Basic | Advanced

_WHOLE = _Span(None, None, None)
_LEGACY_MASK = (
    "Cannot perform boolean indexing in legacy mode. Please activate numpy semantics by calling `npx.set_np()` in the "
    "global scope before calling this function. For a mask of rows use contrib.boolean_mask."
)


def _no_array(value: Any) -> bool:
    return False


def parse(key: Any, shape: Shape, is_array: Callable[[Any], bool] = _no_array) -> Selection:
    """Return what a key selects from an array of a shape.

    ``is_array`` recognises arrays of the library among the parts of a key. They need ``shape`` and ``dtype`` only, and
    are handed on as they are; their numbers are checked when they are used.

    Raises
    ------
    IndexError
        For numbers out of range, too many of them, or a second Ellipsis.
    ValueError
        For parts that cannot select anything, a step of zero, and index arrays that do not fit together.
    TypeError
        For slices with bounds that are no integers, and lists that are no arrays.
    MXNetError
        For a lone slice that ends before it begins.

    >>> parse((slice(1, 3), 0), (4, 5)).shape
    (2,)
    >>> parse([0, 2, 2], (4, 5)).shape
    (3, 5)
    """
    parts = key if isinstance(key, tuple) else (key,)
    read: list[Any] = []
    arrays = False
    for part in parts:
        if part is None or part is Ellipsis:
            read.append(part)
        elif isinstance(part, (int, np.integer)):
            read.append(int(part))
        elif isinstance(part, slice):
            read.append(_Span(_slice_bound(part.start), _slice_bound(part.stop), _slice_bound(part.step)))
        elif is_array(part) or isinstance(part, (list, tuple, range, np.ndarray)):
            arrays = True
            read.append(part)
        else:
            raise ValueError(f"NDArray does not support slicing with key {part} of type {type(part)}.")
    if arrays:
        return _resolve_advanced(_without_ellipsis(read, shape), shape, is_array)
    selection = _basic(tuple(read), shape)
    if isinstance(key, slice) and not selection.whole:
        _refuse_reversed(key, shape)
    return selection


#: keys of loops, with what they select: numbers alone, and bounds of slices alone
_lately: dict[Any, Basic] = {}
_MOST_LATELY = 1 << 14


@hot
def simple(key: Any, shape: Shape) -> Basic | None:
    """Return what a number or a slice selects from an array of a shape, as :func:`parse` does; None for other keys.

    >>> simple(-1, (4, 5)).offset
    15
    """
    form: Any
    if type(key) is int:
        form = key, shape
    elif type(key) is slice:
        start, stop, step = key.start, key.stop, key.step
        if not (
            (type(start) is int or start is None)
            and (type(stop) is int or stop is None)
            and (type(step) is int or step is None)
        ):
            return None
        form = start, stop, step, shape
    else:
        return None
    return _lately.get(form) or _select(key, shape, form)


def _select(key: int | slice, shape: Shape, form: Any) -> Basic:
    """Return what a number or a slice selects, and remember it."""
    found = None if 0 in shape or not shape else _rows_of(key, shape)
    if found is None:
        parsed = parse(key, shape)
        assert isinstance(parsed, Basic)
        found = parsed
    if len(_lately) >= _MOST_LATELY:
        _lately.clear()
    _lately[form] = found
    return found


def _rows_of(key: int | slice, shape: Shape) -> Basic | None:
    """Return what a number or a slice selects if that is one row, or some of the rows in order; None for others.

    >>> _rows_of(-2, (4, 5)) == parse(-2, (4, 5))
    True
    >>> _rows_of(slice(-3, 9), (4, 5)) == parse(slice(-3, 9), (4, 5))
    True
    """
    count = shape[0]
    if isinstance(key, slice):
        first, stop, step = key.indices(count)
        if step != 1 or not 0 < stop - first < count:
            return None
    else:
        first = key if key >= 0 else key + count
        stop = first + 1
        if not 0 <= first < count:
            return None
    rest, ones = shape[1:], (1,) * len(shape)
    target = (stop - first, *rest)
    is_row = not isinstance(key, slice)
    return Basic(
        begin=(first, *(0,) * len(rest)),
        end=(stop, *rest),
        step=ones,
        shape=(rest or (1,)) if is_row else target,
        target=target,
        new_axes=(),
        dropped=(0,) if is_row else (),
        offset=first * math.prod(rest),
        whole=False,
    )


def _slice_bound(value: Any) -> int | None:
    return None if value is None else operator.index(value)


def _refuse_reversed(key: slice, shape: Shape) -> None:
    first, stop, step = key.indices(shape[0])
    if step == 1 and first > stop:
        raise MXNetError(
            f"Invalid slicing range [{first}, {stop}): the slice of axis 0 (size {shape[0]}) ends before it "
            "begins; use a step of -1 to go downwards."
        )


def _without_ellipsis(parts: list[Any], shape: Shape) -> list[Any]:
    """Return the parts with one for every axis, the Ellipsis replaced by whole slices."""
    ellipses = [place for place, part in enumerate(parts) if part is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("Cannot use more than one ellipsis (`...`) for indexing")
    used = sum([part is not None and part is not Ellipsis for part in parts])
    if used > len(shape):
        raise IndexError(f"too many indices ({used}) for array with {len(shape)} dimensions")
    place = ellipses[0] if ellipses else len(parts)
    return [*parts[:place], *[_WHOLE] * (len(shape) - used), *parts[place + 1 :]]


def _number(index: int, axis: int, extent: int) -> int:
    if not -extent <= index < extent:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {extent}")
    return index + extent if index < 0 else index


@functools.lru_cache(maxsize=4096)
def _basic(parts: tuple[Any, ...], shape: Shape) -> Basic:
    whole = parts in ((), (_WHOLE,), (_Span(None, None, 1),))
    slices: list[slice] = []
    dropped: list[int] = []
    result: list[int | None] = []
    for part in _without_ellipsis([] if whole else list(parts), shape):
        axis = len(slices)
        if part is None:
            result.append(None)
        elif isinstance(part, int):
            first = _number(part, axis, shape[axis])
            slices.append(slice(first, first + 1))
            dropped.append(axis)
        else:
            slices.append(slice(*part))
            result.append(axis)
    begin, end, step = bounds(slices, shape)
    target = sliced_shape(begin, end, step)
    extents = tuple([1 if axis is None else target[axis] for axis in result])
    return Basic(
        begin=begin,
        end=end,
        step=step,
        shape=extents or ((1,) if shape else ()),
        target=target,
        new_axes=tuple([place for place, axis in enumerate(result) if axis is None]),
        dropped=tuple(dropped),
        offset=_flat(begin, shape) if 0 not in target and is_contiguous(slices, shape) else None,
        whole=whole,
    )


def _flat(place: Shape, shape: Shape) -> int:
    """Return the position of an element among all of an array."""
    flat = 0
    for number, extent in zip(place, shape, strict=True):
        flat = flat * extent + number
    return flat


def is_contiguous(slices: list[slice] | tuple[slice, ...], shape: Shape) -> bool:
    """Return whether the elements that slices select, one for each axis, follow each other in memory.

    From the last axis to the first: once an axis is not taken whole, all before it must select one element.

    >>> is_contiguous([slice(0, 1), slice(1, 3)], (4, 5))
    True
    >>> is_contiguous([slice(0, 2), slice(1, 3)], (4, 5))
    False
    """
    begin, end, step = bounds(slices, shape)
    region = sliced_shape(begin, end, step)
    if 0 in region:
        return True
    partial = False
    for count, extent, stride in zip(reversed(region), reversed(shape), reversed(step), strict=True):
        if count > 1 and (partial or stride != 1):
            return False
        partial = partial or count < extent
    return True


# -- keys with index arrays


class _Block(NamedTuple):
    """The place of an index array in a key: all that the shape of the result depends on."""

    shape: Shape


def _resolve_advanced(parts: list[Any], shape: Shape, is_array: Callable[[Any], bool]) -> Advanced:
    form: list[Any] = []
    indices: list[Any] = []
    axis = 0
    for part in parts:
        if part is None or isinstance(part, _Span):
            form.append(part)
        elif is_array(part):
            if np.dtype(part.dtype) == np.bool_:
                raise ValueError(_LEGACY_MASK)
            form.append(_Block(tuple(part.shape) or (1,)))
            indices.append(part)
        else:
            index = _index(part, axis, shape[axis])
            form.append(_Block(index.shape))
            indices.append(index)
        axis += part is not None
    return _advanced_form(tuple(form), shape)._replace(indices=tuple(indices))


@functools.lru_cache(maxsize=4096)
def _advanced_form(form: tuple[_Span | _Block | None, ...], shape: Shape) -> Advanced:
    """Return the description of a key but for the index arrays themselves."""
    slices: list[slice] = []
    layout: list[int] = []
    blocks: list[Shape] = []
    sources: list[int | None] = []
    for part in form:
        sources.append(None if part is None else len(slices))
        if isinstance(part, _Block):
            layout.append(len(blocks))
            blocks.append(part.shape)
            slices.append(slice(None))
        else:
            layout.append(-1)
            if part is not None:
                slices.append(slice(*part))
    begin, end, step = bounds(slices, shape)
    region = sliced_shape(begin, end, step)
    expanded = tuple([1 if axis is None else region[axis] for axis in sources])
    target, new_axes = _shape_of_picked(expanded, layout, _common_shape(blocks), sources)
    return Advanced(
        begin=begin,
        end=end,
        step=step,
        expanded=expanded,
        layout=tuple(layout),
        indices=(),
        shape=target,
        target=target,
        new_axes=new_axes,
        dropped=new_axes,
    )


def _index(part: Any, axis: int, extent: int) -> np.ndarray[Any, Any]:
    """Return a part of a key as an int64 array, all of it in range."""
    if isinstance(part, int):
        return np.array(_number(part, axis, extent))
    try:
        array = np.asarray(part)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"source_array must be array like object; {part!r} is no array of indices")
    with np.errstate(invalid="ignore"):
        index = array.astype(np.int64)
    index = index.reshape(index.shape or (1,))
    if index.size == 0:
        return index
    lowest, highest = index.min(), index.max()
    if lowest < -extent or highest >= extent:
        outside = (index < -extent) | (index >= extent)
        raise IndexError(f"index {index[outside][0]} is out of bounds for axis {axis} with size {extent}")
    return index if lowest >= 0 else np.where(index < 0, index + extent, index)


def _common_shape(blocks: list[Shape]) -> Shape:
    common: Shape = ()
    for block in blocks:
        try:
            common = np.broadcast_shapes(common, block)
        except ValueError:
            raise ValueError(f"shape1={common} is not broadcastable to shape2={block}") from None
    return common


def _shape_of_picked(
    expanded: Shape, layout: list[int], block: Shape, sources: list[int | None]
) -> tuple[Shape, tuple[int, ...]]:
    """Return the shape of what index arrays pick, and its axes that None stands for."""
    indexed = [axis for axis, number in enumerate(layout) if number >= 0]
    start = indexed[0] if indexed[-1] - indexed[0] == len(indexed) - 1 else 0
    others = [axis for axis, number in enumerate(layout) if number < 0]
    kept = [expanded[axis] for axis in others]
    shape = (*kept[:start], *block, *kept[start:])
    new = [place for place, axis in enumerate(others) if sources[axis] is None]
    return shape, tuple([place if place < start else place + len(block) for place in new])


# -- assignment


def value_shape(selection: Selection, value: Shape) -> Shape:
    """Return the shape into which a value must be brought before it is broadcast to ``selection.target``.

    The axes that None stands for in the key may be left out of the value, which has more axes than the selection
    without them only if it has them. Leading axes of size one are ignored.

    Raises
    ------
    ValueError
        If the value does not fit.

    >>> value_shape(parse((slice(None), None, 0), (4, 3)), (4,))
    (4, 1)
    """
    plain = tuple([extent for axis, extent in enumerate(selection.target) if axis not in selection.dropped])
    ways = (_without_new_axes, _as_it_is) if len(value) > len(plain) else (_as_it_is, _without_new_axes)
    for way in ways:
        shape = way(value, plain, selection.new_axes)
        if shape is not None:
            break
    else:
        raise ValueError(
            "operands could not be broadcast together with remapped shapes[original->remapped]: "
            f"{value} and requested shape {plain or (1,)}"
        )
    aligned = iter((1,) * (len(plain) - len(shape)) + shape)
    return tuple([1 if axis in selection.dropped else next(aligned) for axis in range(len(selection.target))])


def _as_it_is(value: Shape, plain: Shape, new_axes: Shape) -> Shape | None:
    """Return the shape of a value without needless leading axes, or None if it does not broadcast to ``plain``."""
    surplus = max(len(value) - len(plain), 0)
    shape = value[surplus:]
    tail = plain[len(plain) - len(shape) :]
    fits = all([extent == 1 for extent in value[:surplus]]) and all(
        [extent in (1, wanted) for extent, wanted in zip(shape, tail, strict=True)]
    )
    return shape if fits else None


def _without_new_axes(value: Shape, plain: Shape, new_axes: Shape) -> Shape | None:
    """Return the shape of a value that has axes for the Nones of a key without them, or None if it does not fit."""
    full = list(plain)
    for axis in new_axes:
        full.insert(axis, 1)
    shape = _as_it_is(value, tuple(full), ())
    if shape is None:
        return None
    missing = len(full) - len(shape)
    return tuple([extent for axis, extent in enumerate(shape, missing) if axis not in new_axes])
