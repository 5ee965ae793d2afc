"""Type promotion of mx.np: the dtype of results from arrays of different dtypes.

A floating point type wins over integers of any width, the wider of two types of a kind wins, and bool gives way to
every other type. A number next to an array never changes the array's dtype.
"""

from __future__ import annotations

import functools

import numpy as np

from ..core.base.dtypes import CODES, FLOAT32, INT32, DType, kind_of
from ..core.base.dtypes import promote as promote_dtypes
from ..core.graph.node import Node
from ..core.ops.math.primitives import cast

__all__ = ["as_float", "common", "promote"]


@functools.cache
def common(first: DType, second: DType) -> DType:
    """Return the dtype of results computed from two arrays.

    >>> common(np.dtype("int64"), np.dtype("float16")), common(np.dtype("uint8"), np.dtype("int8"))
    (dtype('float16'), dtype('int32'))
    """
    if first == second:
        return first
    floating = [dtype for dtype in (first, second) if kind_of(dtype) == "f"]
    if floating:
        return promote_dtypes(*floating)
    found = np.promote_types(first, second)
    return found if found in CODES else INT32


def promote(*nodes: Node) -> tuple[Node, ...]:
    """Convert nodes to their common dtype."""
    dtype = functools.reduce(common, [node.dtype for node in nodes])
    return tuple([cast(node, dtype) for node in nodes])


def as_float(node: Node) -> Node:
    """Convert a node to a floating point type; integers become float32."""
    return node if kind_of(node.dtype) == "f" else cast(node, FLOAT32)
