"""Sorting: ``sort``, ``argsort`` and ``topk``, all written with one primitive.

``_order`` returns the flat positions of the elements in sorted order along an axis. Values are gathered at these
positions, so gradients return to the original positions. Equal elements keep their order in both directions, and NaN
is greater than every number.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from ...base.dtypes import DType, kind_of, name_of, precision_of
from ...base.errors import MXNetError
from ...graph.interface import Interface
from ...graph.node import Node
from ...graph.operator import Array, Spec, composite, nothing, operator, single
from ...lower.lowering import Selection
from ..math.arithmetic import mod
from ..math.primitives import cast, gather, reshape_to, scatter_add
from ..math.structural import constant, full

__all__ = ["argsort", "sort", "topk"]

FLOAT32 = np.dtype("float32")
INT64 = np.dtype("int64")


def _sorted_indices(data: Array, axis: int, ascending: bool) -> Array:
    if ascending:
        return data.argsort(axis=axis, kind="stable")
    # sort the reversed array in stable ascending order and reverse it: descending, with equal elements in order
    reverse = (*(slice(None),) * axis, slice(None, None, -1))
    mirrored = data[reverse].argsort(axis=axis, kind="stable")
    return np.asarray(data.shape[axis] - 1 - mirrored[reverse])


#: from this extent on, few elements are found without sorting all
LONG = 512
#: at most this share of the elements are few
FEW_SHARE = 8


def _first_indices(data: Array, axis: int, count: int, ascending: bool) -> Array:
    """Return the indices of the first elements in sorted order along an axis."""
    extent = data.shape[axis]
    if extent < LONG or count * FEW_SHARE > extent or count == 0:
        first = [slice(None)] * axis + [slice(count)]
        return np.asarray(_sorted_indices(data, axis, ascending)[tuple(first)])
    if data.ndim == 1:
        return _first_of_line(data, count, ascending)
    lines = np.moveaxis(data, axis, -1)
    found = np.empty((*lines.shape[:-1], count), np.intp)
    for place in np.ndindex(*lines.shape[:-1]):
        found[place] = _first_of_line(lines[place], count, ascending)
    return np.moveaxis(found, -1, axis)


def _first_of_line(line: Array, count: int, ascending: bool) -> Array:
    """Return the indices of the first few elements of a vector in sorted order."""
    parted = line.copy()
    parted.partition(count - 1 if ascending else line.size - count)
    bound = parted[count - 1 if ascending else -count]
    # all that may be among the first, in order: equal elements, and NaN, which is neither larger nor smaller
    candidates = (~(line > bound) if ascending else ~(line < bound)).nonzero()[0]
    return np.asarray(candidates[_sorted_indices(line[candidates], 0, ascending)[:count]])


def _along(*, axis: int, count: int, ascending: bool) -> tuple[int, int, bool]:
    return axis, count, ascending


@operator(gradient=nothing, cost=lambda node: 20.0 * node.inputs[0].size, lowering=Selection(_along))
def _order(data: Array, *, axis: int, count: int, ascending: bool) -> Array:
    """Return the flat positions of the first ``count`` elements in sorted order along an axis."""
    indices = _first_indices(data, axis, count, ascending)
    if data.ndim == 1:
        return indices.astype(INT64, copy=False)
    extent, stride = data.shape[axis], math.prod(data.shape[axis + 1 :])
    firsts = np.arange(0, data.size, max(1, extent * stride), dtype=INT64).reshape(-1, 1, 1)
    flat = firsts + indices.reshape(firsts.size, count, stride) * stride + np.arange(stride, dtype=INT64)
    return np.asarray(flat.reshape(indices.shape))


@_order.infer
def order_shape(data: Node, *, axis: int, count: int) -> Spec:
    return (*data.shape[:axis], count, *data.shape[axis + 1 :]), INT64


def _prepare(name: str, data: Node, axis: int | None) -> tuple[Node, int]:
    """Return the array to sort and its axis from the front; axis None flattens the array."""
    if axis is None:
        return reshape_to(data, (data.size,)), 0
    found = axis + data.ndim if axis < 0 else axis
    if not 0 <= found < data.ndim:
        raise MXNetError(
            f"Invalid axis! axis should be between 0 and {data.ndim}, found axis={axis}, in operator {name}"
        )
    return data, found


def _indices(name: str, source: Node, positions: Node, axis: int, dtype: DType) -> Node:
    """Return flat positions as indices along the axis, in a dtype; raise if it is too small."""
    extent = source.shape[axis]
    largest = np.iinfo(dtype).max if kind_of(dtype) in "iu" else int(2 / precision_of(dtype))
    if extent - 1 > largest:
        raise MXNetError(
            f"'{name_of(dtype)}' does not have a sufficient precision to represent the indices of {extent} elements, "
            f"in operator {name}; use dtype='int64'"
        )
    stride = math.prod(source.shape[axis + 1 :])
    along = positions if stride == 1 else positions / stride
    return cast(along if source.ndim == 1 else single(mod(along, constant(extent, INT64))), dtype)


@composite(method=True)
def sort(data: Node, *, axis: int | None = -1, is_ascend: bool = True) -> Node:
    """Return the array sorted along an axis; axis None sorts the flattened array."""
    source, axis = _prepare("sort", data, axis)
    return gather(source, single(_order(source, axis=axis, count=source.shape[axis], ascending=is_ascend)))


@composite(method=True)
def argsort(data: Node, *, axis: int | None = -1, is_ascend: bool = True, dtype: DType = FLOAT32) -> Node:
    """Return the indices that sort the array along an axis; axis None sorts the flattened array."""
    source, axis = _prepare("argsort", data, axis)
    positions = single(_order(source, axis=axis, count=source.shape[axis], ascending=is_ascend))
    return _indices("argsort", source, positions, axis, dtype)


@composite(method=True, npx="topk", sizes=("k",))
def topk(
    data: Node,
    *,
    axis: int | None = -1,
    k: int = 1,
    ret_typ: Literal["value", "indices", "mask", "both"] = "indices",
    is_ascend: bool = False,
    dtype: DType = FLOAT32,
) -> Any:
    """Return the k largest (with is_ascend: smallest) elements along an axis.

    axis None uses the flattened array. ``ret_typ`` selects the result: ``value``, ``indices`` (in ``dtype``),
    ``both``, or a ``mask`` of the input's shape with 1 at the selected elements. A k below one selects all elements.
    """
    source, axis = _prepare("topk", data, axis)
    extent = source.shape[axis]
    if k > extent:
        raise MXNetError(f"k must be smaller than {extent}, get k = {k}, in operator topk")
    positions = single(_order(source, axis=axis, count=k if k > 0 else extent, ascending=is_ascend))
    if ret_typ == "value":
        return gather(source, positions)
    if ret_typ == "indices":
        return _indices("topk", source, positions, axis, dtype)
    if ret_typ == "both":
        return gather(source, positions), _indices("topk", source, positions, axis, dtype)
    return scatter_add(full(positions.shape, 1, data.dtype, data.context), positions, data.shape)


# -- symbol declarations


def _largest_types(
    inputs: list[DType | None], outputs: list[DType | None], *, ret_typ: str, dtype: DType
) -> tuple[list[DType | None], list[DType | None]]:
    data = inputs[0]
    types: dict[str, list[DType | None]] = {
        "both": [data, dtype],
        "value": [data, dtype],
        "mask": [data],
        "indices": [dtype],
    }
    return inputs, types[ret_typ]


sort.interface = Interface(outputs=2, shown=1)
topk.interface = Interface(
    outputs=lambda *, ret_typ: 2 if ret_typ in ("both", "value") else 1,
    shown=lambda *, ret_typ: 2 if ret_typ == "both" else 1,
    types=_largest_types,
)


# -- precision in mixed-precision training

for _declared in (
    argsort,
    topk,
):
    _declared.precision = "float32"
