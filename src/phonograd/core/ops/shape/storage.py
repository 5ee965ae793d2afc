"""Operators on storage: conversion between storage types, and row selection of a sparse array.

Expressions have no storage type: every value is a dense array. The storage type is a property of the array
(:mod:`phonograd.ndarray.sparse`), so these operators only compute values.
"""

from __future__ import annotations

from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, same_shapes
from ...graph.node import Node
from ...graph.operator import REGISTRY, composite, single
from ..math.structural import full
from ..vision.points import add_axis, positions

__all__: list[str] = []


@composite()
def cast_storage(data: Node, *, stype: str) -> Node:
    """Return the same values with another storage type: 'default', 'csr' (two axes) or 'row_sparse'."""
    if stype not in ("default", "csr", "row_sparse"):
        raise MXNetError(f"cast_storage: stype must be 'default', 'csr' or 'row_sparse', not {stype!r}")
    if stype == "csr" and len(data.shape) != 2:
        raise MXNetError(f"cast_storage: only arrays of two axes can be csr, not {format_shape(data.shape)}")
    if stype == "row_sparse" and not data.shape:
        raise MXNetError("cast_storage: an array without axes has no rows")
    return single(REGISTRY["identity"].apply((data,), ()))


cast_storage.interface = Interface(shapes=same_shapes)


@composite(aliases=("sparse_retain",))
def _sparse_retain(data: Node, indices: Node) -> Node:
    """Return the data with all rows not in the index set to zero."""
    if not data.shape or len(indices.shape) != 1:
        raise MXNetError(
            f"sparse_retain: data needs rows and indices one axis, got {format_shape(data.shape)} and "
            f"{format_shape(indices.shape)}"
        )
    rows = data.shape[0]
    named = full(indices.shape, 1, data.dtype, data.context)
    kept = add_axis(named, positions(indices, rows, caller="sparse_retain"), 0, rows)
    nothing = full(data.shape, 0, data.dtype, data.context)
    return single(REGISTRY["where"].apply((kept, data, nothing), ()))
