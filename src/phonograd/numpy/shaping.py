"""Functions that rearrange elements: reshape, transpose, flip, roll, repeat, pad."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ..core.array.call import function_of
from ..core.array.handle import Handle
from ..core.array.values import check_size, naming_itself
from ..core.base.errors import MXNetError
from ..core.graph.node import Node, Shape
from ..core.graph.operator import REGISTRY, Operator, single
from ..core.graph.parameters import Axis
from ..core.ops.math.broadcasting import broadcast
from ..core.ops.math.primitives import permute, reshape_to
from ..core.ops.math.structural import full
from ..core.ops.reduce.reduction import max_axes, mean_axes, min_axes
from ..core.ops.shape.arrangement import slice_along
from ..core.ops.shape.shape import concatenate as joined
from ..core.ops.shape.shape import split_at
from ..ndarray.array import NDArray
from .declaration import expression, public

__all__ = ["call_operator", "flip_node", "real_axis", "whole_axes"]


def call_operator(declared: Operator, *arrays: Any, **parameters: Any) -> Any:
    """Call an operator or expression on arrays."""
    return function_of(declared, declared.name)(*arrays, **parameters)


def real_axis(axis: int, ndim: int, name: str) -> int:
    """Return an axis counted from the front."""
    if not -ndim <= axis < ndim:
        raise MXNetError(f"axis {axis} is out of bounds for array of dimension {ndim}, in {name}")
    return axis % ndim


def whole_axes(axis: Any, ndim: int, name: str) -> Shape:
    """Return one or several axes, counted from the front; repeated axes raise."""
    given = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    axes = tuple([real_axis(int(one), ndim, name) for one in given])
    if len(set(axes)) != len(axes):
        raise ValueError(f"repeated axis in {axis}, in {name}")
    return axes


# -- shapes


def _new_shape(shape: Shape, given: Shape) -> Shape:
    """Return a shape with -1 replaced by the inferred extent."""
    size, known = math.prod(shape), math.prod([extent for extent in given if extent != -1])
    message = f"Cannot reshape array of size {size} into shape {list(given)}"
    if any([extent < -1 for extent in given]):
        raise MXNetError(f"The shape dimension size to inferred must be -1. {message}")
    if given.count(-1) > 1:
        raise MXNetError(f"can only specify one unknown dimension. {message}")
    if -1 not in given:
        if known != size:
            raise MXNetError(message)
        return given
    if known == 0 or size % known:
        raise MXNetError(message)
    return tuple([size // known if extent == -1 else extent for extent in given])


def _only_c(order: str) -> None:
    if order not in ("C", "A", "K"):
        raise NotImplementedError(f"only supports C-order, while received {order}")


def _extents(newshape: Any) -> Shape:
    given = newshape if isinstance(newshape, (tuple, list)) else (newshape,)
    return tuple([operator.index(extent) for extent in given])


@public()
def reshape(a: Any, newshape: Any, reverse: bool = False, order: str = "C") -> Any:
    """Return a view in another shape; one extent may be -1 and is then inferred."""
    _only_c(order)
    if not isinstance(a, NDArray):
        raise TypeError(f"reshape takes an mx.np array, not a {type(a).__name__}: convert it with mx.np.array first")
    return a._view_as(_new_shape(a.shape, _extents(newshape)))


@public()
def ravel(x: Any, order: str = "C") -> Any:
    """Return a view with all axes merged."""
    _only_c(order)
    return x._view_as((x.size,)) if isinstance(x, NDArray) else np.ravel(x)


@expression("broadcast_to")
def broadcast_to(array: Node, *, shape: Shape) -> Node:
    """Repeat the array along axes of extent 1, and along new leading axes, to the given shape."""
    try:
        fits = np.broadcast_shapes(array.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise MXNetError(f"array of shape {array.shape} cannot be broadcast to shape {shape}, in broadcast_to")
    return broadcast(array, shape)


@public()
def broadcast_arrays(*args: Any) -> list[Any]:
    """Repeat arrays to their common shape."""
    shape = np.broadcast_shapes(*[arg.shape for arg in args])
    return [call_operator(broadcast_to, arg, shape=shape) for arg in args]


@expression("expand_dims", method="expand_dims")
def expand_dims(a: Node, *, axis: Axis) -> Node:
    """Return the array with new axes of extent 1 at the given positions of the result."""
    places = (axis,) if isinstance(axis, int) else axis or ()
    ndim = a.ndim + len(places)
    new = whole_axes(places, ndim, "expand_dims")
    extents = iter(a.shape)
    return reshape_to(a, tuple([1 if place in new else next(extents) for place in range(ndim)]))


@expression("squeeze", method="squeeze", in_files="_np_squeeze")
def squeeze(a: Node, *, axis: Axis = None) -> Node:
    """Return the array without its axes of extent 1, or without the given ones."""
    if axis is None:
        return reshape_to(a, tuple([extent for extent in a.shape if extent != 1]))
    axes = whole_axes(axis, a.ndim, "squeeze")
    for one in axes:
        if a.shape[one] != 1:
            raise MXNetError(
                f"cannot select an axis to squeeze out which has size={a.shape[one]} not equal to one, in squeeze"
            )
    return reshape_to(a, tuple([extent for place, extent in enumerate(a.shape) if place not in axes]))


def _at_least(ndim: int) -> Any:
    def body(a: Node) -> Node:
        if a.ndim >= ndim:
            return a
        shape = {0: (1,) * ndim, 1: (1, *a.shape, 1)[: ndim if ndim == 3 else 2], 2: (*a.shape, 1)}[a.ndim]
        return reshape_to(a, a.shape or (1,)) if ndim == 1 else reshape_to(a, shape)

    body.__doc__ = f"Return the array with at least {ndim} axes."
    declared = expression(f"_atleast_{ndim}d", in_files=f"_np_atleast_{ndim}d")(body)

    def function(*arys: Any) -> Any:
        found = [call_operator(declared, ary) for ary in arys]
        return found[0] if len(found) == 1 else found

    function.__name__ = f"atleast_{ndim}d"
    function.__doc__ = f"Return arrays with at least {ndim} axes."
    return public()(function)


atleast_1d, atleast_2d, atleast_3d = _at_least(1), _at_least(2), _at_least(3)


# -- orders of axes


@expression("transpose", in_files="_np_transpose")
def transpose(a: Node, *, axes: Axis = None) -> Node:
    """Return the array with its axes in another order; reversed by default."""
    if axes is None or axes == ():
        return permute(a, tuple(range(a.ndim))[::-1])
    order = whole_axes(axes, a.ndim, "transpose")
    if len(order) != a.ndim:
        raise ValueError(f"axes don't match array: {axes} for an array of {a.ndim} axes")
    return permute(a, order)


@expression("swapaxes", method="swapaxes")
def swapaxes(a: Node, *, axis1: int, axis2: int) -> Node:
    """Return the array with two axes exchanged."""
    order = list(range(a.ndim))
    first, second = real_axis(axis1, a.ndim, "swapaxes"), real_axis(axis2, a.ndim, "swapaxes")
    order[first], order[second] = order[second], order[first]
    return permute(a, tuple(order))


@expression("moveaxis", in_files="_np_moveaxis")
def moveaxis(a: Node, *, source: Axis, destination: Axis) -> Node:
    """Return the array with axes moved to other positions."""
    axes, places = whole_axes(source, a.ndim, "moveaxis"), whole_axes(destination, a.ndim, "moveaxis")
    if len(axes) != len(places):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [axis for axis in range(a.ndim) if axis not in axes]
    for place, axis in sorted(zip(places, axes, strict=True)):
        order.insert(place, axis)
    return permute(a, tuple(order))


@expression("rollaxis")
def rollaxis(a: Node, *, axis: int, start: int = 0) -> Node:
    """Return the array with an axis moved before another one."""
    axis = real_axis(axis, a.ndim, "rollaxis")
    start = real_axis(start, a.ndim + 1, "rollaxis")
    order = [other for other in range(a.ndim) if other != axis]
    order.insert(start - (axis < start), axis)
    return permute(a, tuple(order))


# -- orders of elements


def flip_node(node: Node, axes: Shape) -> Node:
    """Reverse a node along axes."""
    for axis in axes:
        node = slice_along(node, axis, node.shape[axis] - 1, -1, -1) if node.shape[axis] > 1 else node
    return node


@expression("flip", method="flip")
def flip(m: Node, *, axis: Axis = None) -> Node:
    """Reverse the order of elements along axes; along all axes by default."""
    return flip_node(m, tuple(range(m.ndim)) if axis is None else whole_axes(axis, m.ndim, "flip"))


@expression("flipud")
def flipud(m: Node) -> Node:
    """Return the array with its rows in reverse order."""
    return flip_node(m, (real_axis(0, m.ndim, "flipud"),))


@expression("fliplr")
def fliplr(m: Node) -> Node:
    """Return the array with its columns in reverse order."""
    return flip_node(m, (real_axis(1, m.ndim, "fliplr"),))


def _roll_node(node: Node, shift: int, axis: int) -> Node:
    extent = node.shape[axis]
    shift = shift % extent if extent else 0
    if not shift:
        return node
    first, second = split_at(node, (extent - shift,), axis)
    return joined([second, first], axis)


@expression("roll", in_files="_np_roll")
def roll(a: Node, *, shift: Axis, axis: Axis = None) -> Node:
    """Shift elements along axes; elements that leave at one end come in at the other."""
    shifts = (shift,) if isinstance(shift, int) else shift or ()
    if axis is None:
        return reshape_to(_roll_node(reshape_to(a, (a.size,)), sum(shifts), 0), a.shape)
    axes = (axis,) if isinstance(axis, int) else axis
    if len(shifts) not in (1, len(axes)):
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences of one length")
    for one, by in zip(axes, shifts * len(axes) if len(shifts) == 1 else shifts, strict=True):
        a = _roll_node(a, by, real_axis(one, a.ndim, "roll"))
    return a


@expression("rot90")
def rot90(m: Node, *, k: int = 1, axes: Shape = (0, 1)) -> Node:
    """Rotate the array ``k`` times by 90 degrees in the plane of two axes."""
    if len(axes) != 2:
        raise ValueError("len(axes) must be 2.")
    first, second = [real_axis(axis, m.ndim, "rot90") for axis in axes]
    if first == second:
        raise ValueError("Axes must be different.")
    order = list(range(m.ndim))
    order[first], order[second] = second, first
    turned = {
        0: lambda: m,
        1: lambda: permute(flip_node(m, (second,)), tuple(order)),
        2: lambda: flip_node(m, (first, second)),
        3: lambda: flip_node(permute(m, tuple(order)), (second,)),
    }
    return turned[k % 4]()


@expression("tile", method="tile")
def tile(A: Node, *, reps: Shape) -> Node:  # noqa: N803 - MXNet's name
    """Repeat the whole array ``reps`` times along each axis."""
    return single(REGISTRY["tile"](A, reps=reps)) if reps else A


@expression("_repeat_each")
def _repeat_each(a: Node, *, repeats: int, axis: int | None = None) -> Node:
    """Repeat every element along an axis, or those of the flattened array."""
    return single(REGISTRY["repeat"](a if a.shape else reshape_to(a, (1,)), repeats=repeats, axis=axis))


@expression("_repeat_counted")
def _repeat_counted(a: Node, *, repeats: Shape, axis: int | None = None) -> Node:
    """Repeat each element its own number of times along an axis."""
    if axis is None:
        a, axis = reshape_to(a, (a.size,)), 0
    axis = real_axis(axis, a.ndim, "repeat")
    if len(repeats) != a.shape[axis]:
        raise ValueError(f"repeats has {len(repeats)} numbers for {a.shape[axis]} elements")
    pieces = split_at(a, tuple(range(1, a.shape[axis])), axis)
    wide = [
        single(REGISTRY["repeat"](piece, repeats=count, axis=axis)) for piece, count in zip(pieces, repeats) if count
    ]
    return joined(wide, axis) if wide else slice_along(a, axis, 0, 0)


@public(method="repeat")
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Repeat every element along an axis, or those of the flattened array."""
    if isinstance(repeats, Handle):
        repeats = repeats.tolist()  # type: ignore[attr-defined]
    if isinstance(repeats, (list, tuple)) and len(repeats) != 1:
        return call_operator(_repeat_counted, a, repeats=tuple(repeats), axis=axis)
    return call_operator(
        _repeat_each, a, repeats=repeats[0] if isinstance(repeats, (list, tuple)) else repeats, axis=axis
    )


@expression("resize")
def resize(a: Node, *, new_shape: Shape) -> Node:
    """Return an array of the given shape, filled with repeated copies of the elements."""
    size = math.prod(new_shape)
    if any([extent < 0 for extent in new_shape]):
        raise ValueError("all elements of `new_shape` must be non-negative")
    if not a.size:
        return full(new_shape, 0, a.dtype, a.context)
    flat = reshape_to(a, (a.size,))
    repeated = single(REGISTRY["tile"](flat, reps=(-(-size // a.size),))) if size > a.size else flat
    return reshape_to(slice_along(repeated, 0, 0, size), new_shape)


# -- padding


def _reorder(node: Node, axis: int, order: list[int]) -> Node:
    """Reorder the slices of a node along an axis, taken in ascending, descending or constant runs."""
    pieces, first = [], 0
    while first < len(order):
        last = first + 1
        step = order[last] - order[first] if last < len(order) else 1
        if step not in (-1, 0, 1):
            step = 1
        else:
            while last < len(order) and order[last] - order[last - 1] == step:
                last += 1
        begin, count = order[first], last - first
        if step == 0:
            one = slice_along(node, axis, begin, begin + 1)
            pieces.append(broadcast(one, (*node.shape[:axis], count, *node.shape[axis + 1 :])))
        else:
            pieces.append(slice_along(node, axis, begin, begin + step * count, step))
        first = last
    return joined(pieces, axis)


def _pad_axis(node: Node, axis: int, before: int, after: int, mode: str, value: float) -> Node:
    """Pad a node along one axis."""

    def wide(width: int) -> Shape:
        return (*node.shape[:axis], width, *node.shape[axis + 1 :])

    if mode == "constant":
        borders = [full(wide(width), value, node.dtype, node.context) for width in (before, after)]
    elif mode in _REDUCED:
        reduced = _REDUCED[mode](node, (axis,), True)
        borders = [broadcast(reduced, wide(width)) for width in (before, after)]
    else:
        order = np.pad(np.arange(node.shape[axis]), (before, after), mode)  # type: ignore[call-overload]
        return _reorder(node, axis, order.tolist())
    return joined([*borders[: bool(before)], node, *(borders[1:] if after else [])], axis)


_REDUCED = {"maximum": max_axes, "minimum": min_axes, "mean": mean_axes}


@expression("_pad")
def _pad(x: Node, *, pad_width: Shape, mode: str = "constant", constant_value: float = 0.0) -> Node:
    """Pad the array with the given number of elements before and after each axis."""
    for axis in range(x.ndim):
        before, after = pad_width[2 * axis : 2 * axis + 2]
        if before or after:
            x = _pad_axis(x, axis, before, after, mode, constant_value)
    return x


_MODES = ("constant", "edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean")


@public(method="pad")
@naming_itself
def pad(x: Any, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Any:
    """Pad the array with a constant, repeated edges, reflections, or extrema.

    ``pad_width`` is ((before, after), ...) for each axis, or one pair or number for all axes.
    """
    if mode not in _MODES:
        raise ValueError(f"mode {mode!r} is not supported; use one of {', '.join(_MODES)}")
    allowed = {"constant": "constant_values", "reflect": "reflect_type", "symmetric": "reflect_type"}.get(mode)
    for keyword in kwargs:
        if keyword != allowed:
            raise ValueError(f"unsupported keyword arguments for mode '{mode}': {keyword}")
    if kwargs.get("reflect_type", "even") != "even":
        raise ValueError(f"unsupported reflect_type {kwargs['reflect_type']!r}; only 'even' is supported")
    widths = np.broadcast_to(np.asarray(pad_width, np.int64), (x.ndim, 2))
    if (widths < 0).any():
        raise ValueError("index can't contain negative values")
    added = widths.tolist()
    check_size("pad", tuple([extent + sum(pair) for extent, pair in zip(x.shape, added, strict=True)]), x.dtype)
    values = set(np.ravel(kwargs.get("constant_values", 0.0)).tolist())
    if len(values) != 1:
        raise ValueError("constant_values must be one number for all axes")
    value = float(values.pop())
    return call_operator(_pad, x, pad_width=tuple(widths.reshape(-1).tolist()), mode=mode, constant_value=value)
