"""Slices with constant bounds: ``slice``, ``slice_axis``, ``slice_like``, and assignment to a slice."""

from __future__ import annotations

import builtins

from ...base.dtypes import DType
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partials, type_of_first
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, composite, operator
from ...graph.parameters import OptionalInts
from ...graph.shapes import sliced_shape
from ...lower.lowering import Expansion
from ..math.broadcasting import same_dtype
from ..math.primitives import embed, slice_step
from ..math.structural import constant
from ..vision.regions import assign_step, bounds

__all__ = ["slice_", "slice_axis", "slice_like"]


def _region(
    name: str, shape: Shape, begin: OptionalInts, end: OptionalInts, step: OptionalInts
) -> tuple[Shape, Shape, Shape]:
    """Return explicit bounds for the user's begin, end and step: None, negative or past the end."""
    where = f"operator {name} on data of shape {format_shape(shape)}, begin={begin}, end={end}, step={step}"
    if len(begin) > len(shape):
        raise MXNetError(f"Slicing axis exceeds data dimensions: {where}")
    if len(begin) != len(end):
        raise MXNetError(f"begin and end must have the same length: {where}")
    if step == (None,):
        # one None stands for no steps at all
        step = ()
    if step and len(step) != len(begin):
        raise MXNetError(f"step and begin must have the same length: {where}")
    if 0 in step:
        raise MXNetError(f"slice op step[{step.index(0)}] cannot be 0: {where}")
    steps = step or (None,) * len(begin)
    return bounds([builtins.slice(*part) for part in zip(begin, end, steps, strict=True)], shape)


@composite(name="slice", aliases=("crop",), method=True, npx="slice")
def slice_(data: Node, *, begin: OptionalInts, end: OptionalInts, step: OptionalInts = ()) -> Node:
    """Return the region data[begin:end:step].

    Bounds are those of Python's slices, one per leading axis; they may be None, negative or past the end. Axes without
    bounds are kept whole.
    """
    return slice_step(data, *_region("slice", data.shape, begin, end, step))


@composite(method=True, npx="slice_axis", sizes=("begin", "end"))
def slice_axis(data: Node, *, axis: int, begin: int, end: int | None) -> Node:
    """Return the slice of an array from begin to end along one axis; negative bounds count from the end."""
    number = axis + data.ndim if axis < 0 else axis
    if not 0 <= number < data.ndim:
        raise MXNetError(
            "Transformed axis must be smaller than the source ndim and larger than zero! Recieved "
            f"axis={axis}, src_ndim={data.ndim}, transformed axis={number} in operator slice_axis"
        )
    extent = data.shape[number]
    first = begin + extent if begin < 0 else begin
    stop = extent if end is None else end + extent if end < 0 else end
    where = f"in operator slice_axis on axis {axis} of shape {format_shape(data.shape)}"
    if stop > extent:
        raise MXNetError(f"Invalid end for end={end} as axis_size is {extent} {where}")
    if first < 0:
        raise MXNetError(f"Invalid begin for begin={begin} {where}")
    if first >= stop:
        raise MXNetError(f"Invalid begin, end, get begin={begin}, end={end} {where}")
    # not the indices of a slice: bounds may be traced
    below, above = data.shape[:number], data.shape[number + 1 :]
    return slice_step(data, (0,) * number + (first,) + (0,) * len(above), (*below, stop, *above))


def _shape_like(data: Shape, like: Shape, axes: Shape) -> Shape:
    where = f"operator slice_like on {format_shape(data)} like {format_shape(like)}, axes={axes}"
    if not axes and len(data) != len(like):
        raise MXNetError(
            "By default slice_axis performs slice on all axes, but ndim mismatch for inputs: "
            f"{len(data)} vs. {len(like)}: {where}; name the axes"
        )
    shape = list(data)
    for axis in axes or range(len(data)):
        number = axis + len(data) if axis < 0 else axis
        if not 0 <= number < len(data):
            raise MXNetError(f"Slice axis: {axis} exceeds first input: {len(data)}: {where}")
        if number >= len(like):
            raise MXNetError(f"Slice axis: {axis} exceeds second input: {len(like)}: {where}")
        if like[number] > data[number]:
            raise MXNetError(
                f"Slice axis {axis} with size {like[number]} exceeds limit of input with size {data[number]}: {where}"
            )
        shape[number] = like[number]
    return tuple(shape)


def _expand_slice_like(data: Node, shape_like: Node, *, axes: Shape) -> Node:
    return slice_step(data, (0,) * data.ndim, _shape_like(data.shape, shape_like.shape, axes))


@operator(method=True, lowering=Expansion(_expand_slice_like), npx="slice_like", moves=True)
def slice_like(data: Array, shape_like: Array, *, axes: Shape = ()) -> Array:
    """Return the beginning of an array, with the size of another array along the given axes (default: all)."""
    shape = _shape_like(data.shape, shape_like.shape, axes)
    return data[tuple([builtins.slice(0, extent) for extent in shape])]


@slice_like.infer
def slice_like_shape(data: Node, shape_like: Node, *, axes: Shape) -> Spec:
    return _shape_like(data.shape, shape_like.shape, axes), data.dtype


@slice_like.gradient
def slice_like_grad(out_grad: Node, out: Node, data: Node, shape_like: Node) -> tuple[Node, None]:
    return embed(out_grad, data.shape, (0,) * data.ndim, out.shape), None


@composite(aliases=("_crop_assign",))
def _slice_assign(lhs: Node, rhs: Node, *, begin: OptionalInts, end: OptionalInts, step: OptionalInts = ()) -> Node:
    """Return lhs with lhs[begin:end:step] replaced by rhs, which must have that shape."""
    region = _region("_slice_assign", lhs.shape, begin, end, step)
    same_dtype(lhs, rhs)
    if rhs.shape != sliced_shape(*region):
        raise MXNetError(
            f"Shape inconsistent, Provided = {format_shape(rhs.shape)}, inferred "
            f"shape={format_shape(sliced_shape(*region))} in operator _slice_assign"
        )
    return assign_step(lhs, rhs, *region)


@composite(aliases=("_crop_assign_scalar",))
def _slice_assign_scalar(
    data: Node, *, scalar: float = 0.0, begin: OptionalInts, end: OptionalInts, step: OptionalInts = ()
) -> Node:
    """Return data with data[begin:end:step] filled with a number."""
    dtype: DType = data.dtype
    region = _region("_slice_assign_scalar", data.shape, begin, end, step)
    return assign_step(data, constant(scalar, dtype), *region)


# -- symbol declarations


def _slice_like_results(inputs: Partials, *, axes: Shape) -> Partials | None:
    data, like = inputs
    if data is None or like is None or (not axes and len(data) != len(like)):
        return None
    chosen = [axis % len(data) for axis in axes] or range(len(data))
    return [tuple([like[axis] if axis in chosen and axis < len(like) else e for axis, e in enumerate(data)])]


slice_like.interface = Interface(types=type_of_first, results=_slice_like_results)
