"""Graph functions of nd.contrib; a graph is a csr matrix whose values are edge numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array.handle import read
from ..core.base.errors import MXNetError
from ..core.graph.operator import Array
from .array import NDArray, concrete
from .sparse import CSRNDArray, from_record
from .sparse_records import SparseRecord

__all__ = ["dgl_adjacency", "dgl_subgraph", "edge_id"]


def _record_of(name: str, graph: Any) -> SparseRecord:
    if not isinstance(graph, CSRNDArray):
        raise MXNetError(f"{name} takes a graph as a csr matrix, not {type(graph).__name__}: use tostype('csr')")
    return graph._to_storage()


def _numbers(name: str, array: Any, limit: int) -> Array:
    if not isinstance(array, NDArray):
        raise AssertionError(f"Arguments of {name} must have NDArray type, but got {array}")
    numbers = read(array).astype(np.int64)
    if numbers.ndim != 1 or (numbers.size and (numbers.min() < 0 or numbers.max() >= limit)):
        raise MXNetError(f"{name} takes vectors of vertex numbers, which must be below {limit}")
    return numbers


def edge_id(
    data: CSRNDArray, u: NDArray, v: NDArray, out: NDArray | None = None, name: str | None = None, **kwargs: Any
) -> NDArray:
    """Return the values that a csr matrix stores at positions (u, v), or -1 where it stores none.

    >>> import phonograd as mx
    >>> graph = mx.nd.sparse.csr_matrix(([7, 8], [1, 0], [0, 1, 2]), shape=(2, 2))
    >>> mx.nd.contrib.edge_id(graph, mx.nd.array([0, 1, 1]), mx.nd.array([1, 0, 1])).asnumpy().tolist()
    [7.0, 8.0, -1.0]
    """
    record = _record_of("edge_id", data)
    rows, columns = _numbers("edge_id", u, record.shape[0]), _numbers("edge_id", v, record.shape[1])
    if rows.shape != columns.shape:
        raise MXNetError(f"edge_id takes as many rows as columns, not {rows.size} and {columns.size}")
    keys = record.rows() * record.shape[1] + record.indices[1]
    order = np.argsort(keys, kind="stable")
    wanted = rows * record.shape[1] + columns
    places = np.searchsorted(keys, wanted, sorter=order)
    found = np.full(wanted.shape, -1, record.data.dtype)
    there = places < len(keys)
    there[there] = keys[order[places[there]]] == wanted[there]
    found[there] = record.data[order[places[there]]]
    made = concrete(found, data.context)
    return made if out is None else made.copyto(out)


def dgl_adjacency(data: CSRNDArray, out: NDArray | None = None, name: str | None = None, **kwargs: Any) -> NDArray:
    """Return the adjacency matrix of a graph: 1.0 for every edge, in float32."""
    record = _record_of("dgl_adjacency", data)
    ones = np.ones(record.data.shape, np.float32)
    made = from_record(SparseRecord("csr", record.shape, ones, record.indices), data.context)
    return made if out is None else made.copyto(out)


def dgl_subgraph(*data: NDArray, return_mapping: bool, **kwargs: Any) -> list[NDArray] | NDArray:
    """Return the subgraphs induced by each list of vertices, with edges renumbered.

    The first argument is the graph, the others are the sorted lists of vertices. With `return_mapping`, as many
    matrices follow that map these edges to their numbers in the whole graph.
    """
    graph, *lists = data
    record = _record_of("dgl_subgraph", graph)
    graphs: list[NDArray] = []
    mappings: list[NDArray] = []
    for vertices in lists:
        chosen = _numbers("dgl_subgraph", vertices, record.shape[0])
        if (np.diff(chosen) <= 0).any():
            raise MXNetError("dgl_subgraph: The input vertex list has to be sorted")
        place = np.full(max(record.shape), -1, np.int64)
        place[chosen] = np.arange(len(chosen))
        rows, columns = place[record.rows()], place[record.indices[1]]
        inside = (rows >= 0) & (columns >= 0)
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows[inside], minlength=len(chosen)))]).astype(np.int64)
        for values, list_of in ((np.arange(inside.sum()), graphs), (record.data[inside], mappings)):
            part = SparseRecord("csr", (len(chosen),) * 2, values.astype(record.data.dtype), (starts, columns[inside]))
            list_of.append(from_record(part, graph.context))
    found = [*graphs, *mappings] if return_mapping else graphs
    return found[0] if len(found) == 1 else found
