"""Functions that join and split arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.base.errors import MXNetError
from ..core.graph.interface import Interface, Partials
from ..core.graph.node import Node, Shape
from ..core.ops.math.primitives import reshape_to
from ..core.ops.shape.shape import concat_shapes, split_at, stack_nodes
from ..core.ops.shape.shape import concatenate as joined
from ..ndarray.array import NDArray
from .creation import array
from .declaration import expression, public
from .promotion import promote
from .shaping import atleast_1d, atleast_2d, atleast_3d, call_operator, real_axis

__all__ = ["arrays_of", "concatenate", "split", "stack"]

# -- joining


def arrays_of(seq: Any, name: str) -> list[Any]:
    """Return the arrays of a sequence; numbers and lists among them become arrays."""
    if isinstance(seq, NDArray):
        return list(seq)
    found = [item if isinstance(item, NDArray) else array(item) for item in seq]
    if not found:
        raise ValueError(f"need at least one array to {name}")
    return found


@expression("_concatenate")
def _concatenate(*seq: Node, axis: int | None = 0) -> Node:
    """Join arrays along an existing axis, or flattened."""
    nodes = promote(*seq)
    if axis is None:
        return joined([reshape_to(node, (node.size,)) for node in nodes], 0)
    axis = real_axis(axis, nodes[0].ndim, "concatenate")
    for node in nodes:
        if node.ndim != nodes[0].ndim:
            raise MXNetError("all the input arrays must have same number of dimensions, in concatenate")
    return joined(nodes, axis)


def _concatenate_shapes(inputs: Partials, outputs: Partials, *, axis: int | None) -> Partials:
    return inputs if axis is None else concat_shapes(inputs, outputs, dim=axis)


_concatenate.interface = Interface(shapes=_concatenate_shapes)


@expression("_stack")
def _stack(*arrays: Node, axis: int = 0) -> Node:
    """Join arrays of the same shape along a new axis."""
    nodes = promote(*arrays)
    for node in nodes:
        if node.shape != nodes[0].shape:
            raise ValueError(f"all input arrays must have the same shape, not {nodes[0].shape} and {node.shape}")
    return stack_nodes(nodes, real_axis(axis, nodes[0].ndim + 1, "stack"))


@public()
def concatenate(seq: Any, axis: int | None = 0, out: Any = None) -> Any:
    """Join arrays along an existing axis; ``axis=None`` flattens them first."""
    return call_operator(_concatenate, *arrays_of(seq, "concatenate"), axis=axis, out=out)


@public()
def stack(arrays: Any, axis: int = 0, out: Any = None) -> Any:
    """Join arrays of the same shape along a new axis."""
    return call_operator(_stack, *arrays_of(arrays, "stack"), axis=axis, out=out)


@public("vstack", "row_stack")
def vstack(arrays: Any, out: Any = None) -> Any:
    """Join arrays as rows."""
    return concatenate([atleast_2d(item) for item in arrays_of(arrays, "vstack")], 0, out)


@public()
def hstack(arrays: Any) -> Any:
    """Join arrays along the second axis, and vectors along the first."""
    found = [atleast_1d(item) for item in arrays_of(arrays, "hstack")]
    return concatenate(found, 0 if found[0].ndim == 1 else 1)


@public()
def dstack(arrays: Any) -> Any:
    """Join arrays along the third axis."""
    return concatenate([atleast_3d(item) for item in arrays_of(arrays, "dstack")], 2)


@public()
def column_stack(tup: Any) -> Any:
    """Join vectors, as columns, and the columns of matrices into one matrix."""
    found = [item if item.ndim >= 2 else item.reshape(-1, 1) for item in arrays_of(tup, "column_stack")]
    return concatenate(found, 1)


@public()
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """Append values to an array along an axis, or flattened."""
    return concatenate([arr, values], axis)


# -- splitting

#: each is an array, of 200 bytes at least; a list of more would take all memory of most computers
_MOST_SECTIONS = 1 << 26


@expression("_split")
def _split(ary: Node, *, boundaries: Shape, axis: int) -> Any:
    """Split an array at boundaries along an axis."""
    return split_at(ary, boundaries, axis)


def _pieces(ary: Any, indices_or_sections: Any, axis: int, equal: bool) -> list[Any]:
    axis = real_axis(axis, ary.ndim, "split")
    extent = ary.shape[axis]
    if isinstance(indices_or_sections, (int, np.integer)):
        sections = int(indices_or_sections)
        if sections <= 0:
            raise ValueError("number sections must be larger than 0.")
        if equal and extent % sections:
            raise ValueError("array split does not result in an equal division")
        if sections > _MOST_SECTIONS:
            raise MXNetError(f"{sections} sections are too many for a list, in operator array_split")
        width, longer = divmod(extent, sections)
        starts = [part * width + min(part, longer) for part in range(1, sections)]
    elif isinstance(indices_or_sections, (list, tuple)):
        starts = [min(max(start + extent if start < 0 else start, 0), extent) for start in indices_or_sections]
    else:
        raise ValueError("indices_or_sections must be either int, or tuple / list / set of ints")
    if sorted(starts) != starts:
        edges = zip([0, *starts], [*starts, extent], strict=True)
        return [ary[(slice(None),) * axis + (slice(begin, max(begin, end)),)] for begin, end in edges]
    found = call_operator(_split, ary, boundaries=tuple(starts), axis=axis)
    return found if isinstance(found, list) else [found]


@public(method="split")
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Split an array along an axis into equal sections, or at the given indices."""
    return _pieces(ary, indices_or_sections, axis, equal=True)


@public()
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Split an array along an axis; if the sections cannot be equal, the first ones are longer."""
    return _pieces(ary, indices_or_sections, axis, equal=False)


@public()
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split an array along its second axis, and a vector along its only axis."""
    if ary.ndim < 1:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(ary, indices_or_sections, 1 if ary.ndim > 1 else 0)


@public()
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split an array along its first axis."""
    if ary.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


@public()
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split an array along its third axis."""
    if ary.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)
