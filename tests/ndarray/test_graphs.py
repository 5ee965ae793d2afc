"""Graphs as csr matrices: numbers of edges, adjacency, and induced graphs. Values are those of MXNet 1.9.1."""

import numpy as np
import pytest

from phonograd import nd
from phonograd.core.base.errors import MXNetError


def graph():
    numbers = np.array([1, 2, 3, 4, 5], np.int64)
    return nd.sparse.csr_matrix((numbers, [1, 0, 2, 0, 1], [0, 1, 3, 5]), shape=(3, 3), dtype="int64")


def vector(*numbers):
    return nd.array(numbers, dtype="int64")


def test_edge_id():
    found = nd.contrib.edge_id(graph(), vector(0, 0, 1, 2), vector(1, 2, 2, 2))
    assert found.dtype == np.int64
    assert found.asnumpy().tolist() == [1, -1, 3, -1]
    out = nd.zeros((1,), dtype="int64")
    assert nd.contrib.edge_id(graph(), vector(2), vector(0), out=out) is out
    assert out.asnumpy().tolist() == [4]
    empty = nd.sparse.zeros("csr", (2, 2))
    assert nd.contrib.edge_id(empty, vector(1), vector(1)).asnumpy().tolist() == [-1]


def test_adjacency():
    found = nd.contrib.dgl_adjacency(graph())
    assert (found.stype, found.dtype) == ("csr", np.float32)
    assert found.asnumpy().tolist() == [[0, 1, 0], [1, 0, 1], [1, 1, 0]]


def test_subgraph():
    part, mapping = nd.contrib.dgl_subgraph(graph(), vector(0, 2), return_mapping=True)
    assert mapping.asnumpy().tolist() == [[0, 0], [4, 0]]
    assert (part.stype, part.shape, part.data.asnumpy().tolist()) == ("csr", (2, 2), [0])
    alone = nd.contrib.dgl_subgraph(graph(), vector(0, 1, 2), return_mapping=False)
    assert alone.data.asnumpy().tolist() == [0, 1, 2, 3, 4]
    several = nd.contrib.dgl_subgraph(graph(), vector(0), vector(1, 2), num_args=3, return_mapping=True)
    assert [each.shape for each in several] == [(1, 1), (2, 2), (1, 1), (2, 2)]


def test_arguments_are_checked():
    with pytest.raises(MXNetError, match="has to be sorted"):
        nd.contrib.dgl_subgraph(graph(), vector(2, 0), return_mapping=False)
    with pytest.raises(MXNetError, match="vertex numbers, which must be below 3"):
        nd.contrib.edge_id(graph(), vector(3), vector(0))
    with pytest.raises(MXNetError, match=r"use tostype\('csr'\)"):
        nd.contrib.dgl_adjacency(nd.ones((2, 2)))
