"""Coordinates of elements: flat positions to coordinates and back, and the coordinates of every element."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import INT64
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partials, merge, outputs_of_type
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, nothing, operator, single
from ...lower.lowering import Expansion
from ..math.arithmetic import mod
from ..math.elementary import abs_, sign
from ..math.primitives import cast, reshape_to, slice_step
from ..math.structural import constant
from .creation import position_along
from .shape import concatenate

__all__ = ["index_array", "ravel_multi_index", "unravel_index"]


def _require_shape(shape: Shape | None, word: str) -> Shape:
    if not shape:
        raise MXNetError(f"Empty shape parameter for {word} operator.")
    return shape


def _expand_ravel(data: Node, *, shape: Shape | None) -> Node:
    flat: Node | None = None
    width = data.shape[1]
    for number, extent in enumerate(_require_shape(shape, "ravel")):
        row = reshape_to(cast(slice_step(data, (number, 0), (number + 1, width)), INT64), (width,))
        flat = row if flat is None else flat * constant(extent, INT64) + row
    assert flat is not None
    return cast(flat, data.dtype)


@operator(
    name="_ravel_multi_index", aliases=("ravel_multi_index",), gradient=nothing, lowering=Expansion(_expand_ravel)
)
def ravel_multi_index(data: Array, *, shape: Shape | None = None) -> Array:
    """Return flat positions in an array of a shape; the rows of data are coordinates, one row per axis.

    Coordinates are not checked, so the first size does not matter and may be -1.
    """
    flat = np.zeros(data.shape[1:], np.int64)
    for row, extent in zip(data.astype(np.int64), _require_shape(shape, "ravel"), strict=True):
        flat = flat * extent + row
    return flat.astype(data.dtype)


@ravel_multi_index.infer
def ravel_multi_index_shape(data: Node, *, shape: Shape | None) -> Spec:
    extents = _require_shape(shape, "ravel")
    if data.ndim != 2:
        raise MXNetError(f"Input to ravel operator must be two-dimensional, not {format_shape(data.shape)}.")
    if data.shape[0] != len(extents):
        raise MXNetError(
            "First dimension of input of ravel operator does not match shape parameter dimension: "
            f"{data.shape[0]} rows of coordinates for an array of shape {format_shape(extents)}"
        )
    return data.shape[1:], data.dtype


def _expand_unravel(data: Node, *, shape: Shape | None) -> Node | None:
    if data.size == 0:
        return None
    rest, rows = cast(data, INT64), []
    for extent in reversed(_require_shape(shape, "unravel")[1:]):
        size, side = single(abs_(rest)), single(sign(rest))
        over = single(mod(size, constant(extent, INT64)))
        rows.append(side * over)
        rest = side * ((size - over) / constant(extent, INT64))
    rows.append(rest)
    lines = [reshape_to(cast(row, data.dtype), (1, *data.shape)) for row in reversed(rows)]
    return concatenate(lines, 0)


@operator(name="_unravel_index", aliases=("unravel_index",), gradient=nothing, lowering=Expansion(_expand_unravel))
def unravel_index(data: Array, *, shape: Shape | None = None) -> Array:
    """Return the coordinates of flat positions in an array of a shape, one row per axis.

    Positions past the end have a first coordinate past the end, so the first size does not matter and may be -1.
    """
    rest = data.astype(np.int64)
    rows: list[Array] = []
    for extent in reversed(_require_shape(shape, "unravel")[1:]):
        quotient = np.sign(rest) * (np.abs(rest) // extent)
        rows.append(rest - quotient * extent)
        rest = quotient
    rows.append(rest)
    return np.stack(rows[::-1]).astype(data.dtype)


@unravel_index.infer
def unravel_index_shape(data: Node, *, shape: Shape | None) -> Spec:
    return (len(_require_shape(shape, "unravel")), *data.shape), data.dtype


def _expand_index_array(data: Node, *, axes: Shape | None) -> Node | None:
    chosen = range(data.ndim) if axes is None else axes
    if data.size == 0 or not chosen:
        return None
    shape = (*data.shape, 1)
    return concatenate([position_along(shape, axis % data.ndim, INT64) for axis in chosen], data.ndim)


@operator(name="_contrib_index_array", gradient=nothing, lowering=Expansion(_expand_index_array))
def index_array(data: Array, *, axes: Shape | None = None) -> Array:
    """Return the coordinates of every element of an array, along a new last axis; ``axes`` selects some of them."""
    chosen = range(data.ndim) if axes is None else axes
    out = np.empty((*data.shape, len(chosen)), np.int64)
    grid = np.indices(data.shape, np.int64, sparse=True)
    for place, axis in enumerate(chosen):
        out[..., place] = grid[axis]
    return out


@index_array.infer
def index_array_shape(data: Node, *, axes: Shape | None) -> Spec:
    for axis in axes or ():
        if not -data.ndim <= axis < data.ndim:
            raise MXNetError(
                f"_contrib_index_array: axis {axis} of an array of shape {format_shape(data.shape)} does not exist"
            )
    return (*data.shape, data.ndim if axes is None else len(axes)), INT64


# -- symbol declarations


def _ravel_shapes(inputs: Partials, outputs: Partials, *, shape: Shape | None) -> Partials:
    out = outputs[0]
    return inputs if out is None or len(out) != 1 else [merge(inputs[0], (len(shape or ()), *out))]


ravel_multi_index.interface = Interface(shapes=_ravel_shapes)
index_array.interface = Interface(types=outputs_of_type(np.dtype("int64")))
