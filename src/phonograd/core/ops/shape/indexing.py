"""Operators with an index array: ``take``, ``pick``, ``gather_nd``, one-hot codes, embeddings, and ``where``.

Index arrays may have any numeric dtype; fractions are truncated. The primitives of NDArray indexing are in
:mod:`..vision.regions` and :mod:`..vision.points`; this module exports them too.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from ...base.dtypes import FLOAT32, INT32, INT64, DType, convert_scalar, name_of
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partial, merge, separate_types
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, composite, nothing, operator, single
from ...graph.partial_shapes import constant_results, merge_all
from ...lower.lowering import Expansion
from ..math.arithmetic import maximum, minimum
from ..math.broadcasting import broadcast, same_dtype
from ..math.comparison import equal
from ..math.primitives import cast, reshape_to, select
from ..math.structural import constant, full
from ..vision.points import (
    add_axis,
    add_onto,
    assign_points,
    point_positions,
    positions,
    put_axis,
    take_along,
    take_axis,
    take_points,
)
from ..vision.regions import assign_flat, assign_step, view_flat
from .creation import position_along

__all__ = [
    "assign_flat",
    "assign_points",
    "assign_step",
    "boolean_mask",
    "gather_nd",
    "one_hot",
    "pick",
    "scatter_nd",
    "take",
    "take_points",
    "view_flat",
    "where",
]


# -- one index array


@composite(method=True, family="shape")
def take(a: Node, indices: Node, *, axis: int = 0, mode: Literal["clip", "raise", "wrap"] = "clip") -> Node:
    """Return the slices of an array at indices along one axis; the axes of ``indices`` replace that axis.

    ``mode`` handles indices out of range: ``clip`` uses the nearest end, ``wrap`` counts modulo the size, ``raise``
    raises an error.
    """
    if not -a.ndim <= axis < a.ndim:
        raise MXNetError(
            "Axis should be in the range of [-r, r-1] where r is the rank of input tensor: "
            f"axis {axis} of an array of shape {format_shape(a.shape)} in operator take"
        )
    axis %= a.ndim
    return take_axis(a, positions(indices, a.shape[axis], mode, axis, caller="take" if mode == "raise" else ""), axis)


def _expand_batch_take(a: Node, indices: Node) -> Node | None:
    if 0 in a.shape:
        return None
    rows = reshape_to(a, (indices.size, a.shape[-1]))
    place = reshape_to(positions(indices, a.shape[-1], "clip"), (indices.size, 1))
    return reshape_to(take_along(rows, place, 1), indices.shape)


@operator(lowering=Expansion(_expand_batch_take), moves=True)
def batch_take(a: Array, indices: Array) -> Array:
    """Return one element of each row. ``pick`` does the same and has a gradient."""
    rows = a.reshape(-1, a.shape[-1])
    column = np.clip(indices.reshape(-1), 0, a.shape[-1] - 1)
    chosen: Array = rows[np.arange(len(rows)), column]
    return chosen.reshape(indices.shape)


@batch_take.infer
def batch_take_shape(a: Node, indices: Node) -> Spec:
    if indices.dtype != INT32:
        raise MXNetError(
            f"Type inconsistent, Provided = {name_of(indices.dtype)}, inferred type = int32 in operator batch_take"
        )
    if a.ndim == 0 or math.prod(a.shape[:-1]) != indices.size:
        raise MXNetError(
            "Index array's size must be the same as data array's size excluding the last dimension: "
            f"{format_shape(indices.shape)} for {format_shape(a.shape)} in operator batch_take"
        )
    return indices.shape, a.dtype


@composite(aliases=("choose_element_0index",), method=True, npx="pick")
def pick(
    data: Node,
    index: Node,
    *,
    axis: int | None = -1,
    keepdims: bool = False,
    mode: Literal["clip", "wrap"] = "clip",
) -> Node:
    """Return one element of each line along an axis; ``index`` has its position for each line."""
    if axis is None:
        raise MXNetError("axis=None is not supported by pick yet. Must specify an axis.")
    if not -data.ndim <= axis < data.ndim:
        raise MXNetError(f"axis {axis} exceeds the input dimension of {data.ndim} in operator pick")
    axis %= data.ndim
    kept = (*data.shape[:axis], 1, *data.shape[axis + 1 :])
    dropped = (*data.shape[:axis], *data.shape[axis + 1 :]) or (1,)
    if index.shape not in (kept, dropped):
        raise MXNetError(
            f"Shape inconsistent, Provided = {format_shape(index.shape)}, inferred shape={format_shape(dropped)} "
            f"in operator pick along axis {axis} of {format_shape(data.shape)}"
        )
    place = reshape_to(positions(index, data.shape[axis], mode, axis), kept)
    return reshape_to(take_along(data, place, axis), kept if keepdims else dropped)


@composite()
def fill_element_0index(lhs: Node, mhs: Node, rhs: Node) -> Node:
    """Return the matrix lhs with element rhs[i] of row i replaced by mhs[i]; indices out of range are ignored."""
    if lhs.ndim != 2 or mhs.shape != lhs.shape[:1] or rhs.shape != lhs.shape[:1]:
        raise MXNetError(
            "fill_element_0index takes a matrix and two vectors with an element for each row, not shapes "
            f"{format_shape(lhs.shape)}, {format_shape(mhs.shape)}, {format_shape(rhs.shape)}"
        )
    same_dtype(lhs, mhs)
    chosen = one_hot(rhs, depth=lhs.shape[1], dtype="uint8")
    return select(chosen, reshape_to(mhs, (lhs.shape[0], 1)), lhs)


# -- index arrays for several axes, one row per axis


def _merge(data: Node, count: int) -> Node:
    """Return an array with its first axes merged."""
    return reshape_to(data, (math.prod(data.shape[:count]), *data.shape[count:]))


def _points(name: str, data: Node, indices: Node, shape: Shape) -> Node:
    """Return the positions of points in the merged first axes of a shape, after checking the shape of data."""
    if indices.ndim < 2:
        raise MXNetError(f"{name} requires index tensor to have at least 2 dimensions, not {indices.ndim}")
    count = indices.shape[0]
    if count > len(shape):
        raise MXNetError(
            f"Number of indices exceeds output dimension in operator {name}: {count} for {format_shape(shape)}"
        )
    if data.shape != (*indices.shape[1:], *shape[count:]) or any([extent < 0 for extent in shape]):
        raise MXNetError(
            f"Invalid data, indices, and output shape combination for {name}: "
            f"{format_shape(data.shape)}, {format_shape(indices.shape)}, {format_shape(shape)}"
        )
    return point_positions(indices, shape[:count], name)


@composite(npx="gather_nd", family="shape")
def gather_nd(data: Node, indices: Node) -> Node:
    """Return the elements (or slices) of an array at points; the rows of ``indices`` are their coordinates."""
    if indices.ndim < 2:
        raise MXNetError("gather_nd requires index tensor to have at least 2 dimensions")
    if indices.shape[0] > data.ndim:
        raise MXNetError(
            f"Number of indices exceeds data dimension: {indices.shape[0]} for an array of shape "
            f"{format_shape(data.shape)} in operator gather_nd"
        )
    count = indices.shape[0]
    return take_axis(_merge(data, count), point_positions(indices, data.shape[:count], "gather_nd"), 0)


@composite(npx="scatter_nd")
def scatter_nd(data: Node, indices: Node, *, shape: Shape) -> Node:
    """Return zeros with the data written at points; the rows of ``indices`` are their coordinates.

    If a point occurs several times, the last value wins.
    """
    places = _points("scatter_nd", data, indices, shape)
    zeros = _merge(full(shape, 0, data.dtype, data.context), indices.shape[0])
    return reshape_to(put_axis(zeros, data, places, 0), shape)


@composite()
def _scatter_set_nd(lhs: Node, rhs: Node, indices: Node, *, shape: Shape) -> Node:
    """Return lhs with the elements at points replaced by rhs; the rows of ``indices`` are their coordinates."""
    if lhs.shape != shape:
        raise MXNetError(f"_scatter_set_nd: shape={shape} is not that of lhs, {format_shape(lhs.shape)}")
    same_dtype(lhs, rhs)
    places = _points("_scatter_set_nd", rhs, indices, shape)
    return reshape_to(put_axis(_merge(lhs, indices.shape[0]), rhs, places, 0), shape)


@composite()
def _backward_gather_nd(data: Node, indices: Node, *, shape: Shape) -> Node:
    """Return zeros with the data added at points; the rows of ``indices`` are their coordinates."""
    places = _points("_backward_gather_nd", data, indices, shape)
    return reshape_to(add_axis(data, places, 0, math.prod(shape[: indices.shape[0]])), shape)


@composite()
def _index_add(data: Node, indices: Node, value: Node) -> Node:
    """Return the array with values added at points; the rows of ``indices`` are their coordinates."""
    same_dtype(data, value, 2)
    count = indices.shape[0]
    shape = (*indices.shape[1:], *data.shape[count:])
    spread = value if value.shape == shape else broadcast(value, shape)
    places = _points("index_add", spread, indices, data.shape)
    return reshape_to(add_onto(_merge(data, count), spread, places), data.shape)


@composite()
def _contrib_index_copy(old_tensor: Node, index_vector: Node, new_tensor: Node) -> Node:
    """Return old_tensor with the rows at index_vector replaced by the rows of new_tensor."""
    fits = index_vector.ndim == 1 and new_tensor.shape == (*index_vector.shape, *old_tensor.shape[1:])
    if old_tensor.ndim == 0 or not fits:
        raise MXNetError(
            "_contrib_index_copy takes a vector of indices and as many rows of the size of the old ones, not shapes "
            f"{format_shape(old_tensor.shape)}, {format_shape(index_vector.shape)}, {format_shape(new_tensor.shape)}"
        )
    same_dtype(old_tensor, new_tensor, 2)
    places = positions(index_vector, old_tensor.shape[0], caller="_contrib_index_copy")
    return put_axis(old_tensor, new_tensor, places, 0)


# -- one-hot codes and embeddings


def _is_code(indices: Node, depth: int) -> Node:
    """Return a node that is nonzero where the position along a new last axis equals the index."""
    shape = (*indices.shape, depth)
    place = position_along(shape, indices.ndim)
    # indices out of range stay out of range in the smaller dtype
    near = single(minimum(maximum(cast(indices, INT64), -1), depth))
    return single(equal(place, cast(reshape_to(near, (*indices.shape, 1)), place.dtype)))


def _expand_one_hot(indices: Node, *, depth: int, on_value: float, off_value: float, dtype: DType) -> Node:
    return select(_is_code(indices, depth), constant(on_value, dtype), constant(off_value, dtype))


@operator(
    gradient=nothing,
    method=True,
    lowering=Expansion(_expand_one_hot),
    npx="one_hot",
    family="shape",
    moves=True,
    sizes=("depth",),
)
def one_hot(
    indices: Array, *, depth: int, on_value: float = 1.0, off_value: float = 0.0, dtype: DType = FLOAT32
) -> Array:
    """Return a one-hot vector per index: on_value at that position and off_value elsewhere.

    An index out of range gives a vector of off_value.
    """
    on, off = convert_scalar(on_value, dtype), convert_scalar(off_value, dtype)
    return np.where(indices.astype(np.int64)[..., None] == np.arange(depth), on, off)


@one_hot.infer
def one_hot_shape(indices: Node, *, depth: int, dtype: DType) -> Spec:
    if depth < 0:
        raise MXNetError(f"one_hot needs a depth of zero or more, not {depth}")
    return (*indices.shape, depth), dtype


@operator(
    gradient=nothing, lowering=Expansion(lambda lhs, rhs: cast(_is_code(lhs, rhs.shape[1]), rhs.dtype)), moves=True
)
def _onehot_encode(lhs: Array, rhs: Array) -> Array:
    """Return the one-hot codes of the vector lhs as a matrix with the shape and dtype of rhs."""
    chosen: Array = lhs.astype(np.int64)[:, None] == np.arange(rhs.shape[1])
    return chosen.astype(rhs.dtype)


@_onehot_encode.infer
def onehot_encode_shape(lhs: Node, rhs: Node) -> Spec:
    if lhs.ndim != 1 or rhs.ndim != 2 or lhs.shape[0] != rhs.shape[0]:
        raise MXNetError(
            "onehot_encode takes a vector of indices and a matrix with as many rows, not shapes "
            f"{format_shape(lhs.shape)} and {format_shape(rhs.shape)}"
        )
    return rhs.shape, rhs.dtype


def _embedding_table(name: str, weight: Node, input_dim: int, output_dim: int) -> None:
    if weight.shape != (input_dim, output_dim):
        raise MXNetError(
            f"Shape inconsistent, Provided = {format_shape(weight.shape)}, inferred "
            f"shape={format_shape((input_dim, output_dim))} in operator {name}"
        )


@composite(name="Embedding", npx="embedding", family="linear_algebra")
def embedding(
    data: Node,
    weight: Node,
    *,
    input_dim: int,
    output_dim: int,
    dtype: DType = FLOAT32,
    sparse_grad: bool = False,
) -> Node:
    """Return the rows of the weight at the indices in data; indices out of range use the nearest row.

    ``dtype`` is the dtype of the weight. ``sparse_grad`` is ignored: the gradient is made of rows if its buffer is
    row_sparse.
    """
    _embedding_table("Embedding", weight, input_dim, output_dim)
    return take_axis(weight, positions(data, input_dim, "clip"), 0)


@composite(name="_contrib_SparseEmbedding")
def sparse_embedding(
    data: Node,
    weight: Node,
    *,
    input_dim: int,
    output_dim: int,
    dtype: DType = FLOAT32,
    sparse_grad: bool = False,
) -> Node:
    """Return the rows of the weight at the indices in data; indices out of range raise an error."""
    _embedding_table("_contrib_SparseEmbedding", weight, input_dim, output_dim)
    return take_axis(weight, positions(data, input_dim, "index", caller="_contrib_SparseEmbedding"), 0)


# -- conditions


@composite()
def where(condition: Node, x: Node, y: Node) -> Node:
    """Return elements of x where the condition is nonzero, else elements of y.

    A vector as condition selects whole rows.
    """
    if x.shape != y.shape:
        raise MXNetError(
            "Operator where inferring shapes failed: x and y must have equal shapes, not "
            f"{format_shape(x.shape)} and {format_shape(y.shape)}"
        )
    same_dtype(x, y, 2)
    if condition.shape == x.shape:
        return select(condition, x, y)
    if condition.ndim == 1 and condition.shape == x.shape[:1]:
        return select(reshape_to(condition, (*condition.shape, *(1,) * (x.ndim - 1))), x, y)
    raise MXNetError(
        f"Operator where inferring shapes failed: the condition has shape {format_shape(condition.shape)}, x has "
        f"{format_shape(x.shape)}; it must have the same shape, or be a vector with an element for each row"
    )


@operator(gradient=nothing, moves=True)
def _mask_positions(index: Array, *, count: int) -> Array:
    """Return the positions of the nonzero elements of a vector; ``count`` is their number."""
    found = np.flatnonzero(index)
    if found.size != count:
        raise MXNetError(f"a mask with {count} nonzero elements was announced, but this one has {found.size}")
    return found.astype(np.int64, copy=False)


@_mask_positions.infer
def mask_positions_shape(index: Node, *, count: int) -> Spec:
    return (count,), INT64


def boolean_mask(data: Node, index: Node, axis: int, concrete_index: Array) -> Node:
    """Return the slices of ``data`` along an axis where the mask ``index`` is nonzero.

    The shape of the result depends on the values of the mask, so the caller passes them as ``concrete_index``. Only
    their number becomes part of the expression.
    """
    if not -data.ndim <= axis < data.ndim:
        raise MXNetError(f"boolean_mask: axis {axis} of an array of shape {format_shape(data.shape)} does not exist")
    axis %= data.ndim
    if index.shape != data.shape[axis : axis + 1]:
        raise MXNetError(
            f"boolean_mask needs a mask with an element for each slice along axis {axis} of an array of shape "
            f"{format_shape(data.shape)}, not one of shape {format_shape(index.shape)}"
        )
    count = int(np.count_nonzero(concrete_index))
    return take_axis(data, single(_mask_positions(index, count=count)), axis)


# -- symbol declarations


def _table_shapes(inputs: list[Partial], outputs: list[Partial], *, input_dim: int, output_dim: int) -> list[Partial]:
    data, out = inputs[0], outputs[0]
    return [merge(data, None if out is None else out[:-1]), (input_dim, output_dim)]


def _table_types(
    inputs: list[DType | None], outputs: list[DType | None], *, dtype: DType
) -> tuple[list[DType | None], list[DType | None]]:
    return [inputs[0], inputs[1] or dtype], [inputs[1] or dtype]


def _row_types(
    inputs: list[DType | None], outputs: list[DType | None]
) -> tuple[list[DType | None], list[DType | None]]:
    values = inputs[0] or outputs[0]
    return [values, inputs[1] or np.dtype("int32")], [values]


def _picked(data: Partial, axis: int | None, keepdims: bool) -> Partial:
    """Return the shape of the elements that pick chooses."""
    if data is None or axis is None or not -len(data) <= axis < len(data):
        return None
    place = axis % len(data)
    return (*data[:place], *(1,) * keepdims, *data[place + 1 :]) or (1,)


def _pick_shapes(inputs: list[Partial], outputs: list[Partial], *, axis: int | None, keepdims: bool) -> list[Partial]:
    """Return the shapes of data and index; the index has the shape of the output, with or without the axis."""
    data, index, out = *inputs, outputs[0]
    if data is None or axis is None or not -len(data) <= axis < len(data):
        return inputs
    place = axis % len(data)
    if out is not None and len(out) == len(data) - (not keepdims):
        known = out if keepdims else (*out[:place], 0, *out[place:])
        data = merge(data, (*known[:place], 0, *known[place + 1 :]))
    kept = index is not None and len(index) == len(data or ())
    return [data, merge(index, _picked(data, axis, kept))]


def _pick_results(inputs: list[Partial], *, axis: int | None, keepdims: bool) -> list[Partial]:
    return [_picked(inputs[0], axis, keepdims)]


def _where_shapes(inputs: list[Partial], outputs: list[Partial]) -> list[Partial]:
    """Return the shapes of a choice: x, y and the output are equal; the condition is equal too, or has a row each."""
    condition, common = inputs[0], merge_all([*inputs[1:], outputs[0]])
    if condition is not None and common is not None:
        if len(condition) == len(common):
            condition = common = merge(condition, common)
        elif len(condition) == 1:
            condition = merge(condition, common[:1])
            common = merge(common, (*(condition or ()), *common[1:]))
    return [condition, common, common]


_contrib_index_copy.interface = Interface(types=separate_types(1))
take.interface = gather_nd.interface = Interface(types=separate_types(1))
pick.interface = Interface(types=separate_types(1), shapes=_pick_shapes, results=_pick_results)
scatter_nd.interface = Interface(types=separate_types(1), results=constant_results(lambda *, shape, **_: shape))
batch_take.interface = Interface(types=_row_types)
where.interface = Interface(
    types=separate_types(0), shapes=_where_shapes, results=lambda inputs: [merge_all(inputs[1:])]
)
embedding.interface = sparse_embedding.interface = Interface(shapes=_table_shapes, types=_table_types)


# -- precision in mixed-precision training

for _declared in (where,):
    _declared.precision = "widest"
