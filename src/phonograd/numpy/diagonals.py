"""Diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array.handle import Handle, read
from ..core.array.values import naming_itself
from ..core.graph.node import Node
from ..core.graph.operator import REGISTRY, single
from ..core.ops.math.comparison import greater_equal
from ..core.ops.math.primitives import reshape_to, select
from ..core.ops.shape.creation import position_along
from .creation import from_values
from .declaration import expression, public
from .products import diagonal_of

__all__: list[str] = []


@expression("diagonal", method="diagonal", in_files="_np_diagonal")
def diagonal(a: Node, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Node:
    """Return a diagonal over two axes as the last axis."""
    return diagonal_of(a, offset, axis1, axis2)


@expression("diag", method="diag", in_files="_np_diag")
def diag(v: Node, *, k: int = 0) -> Node:
    """Return a diagonal of a matrix, or a matrix with a vector on its diagonal."""
    if v.ndim == 1:
        return single(REGISTRY["diag"](v, k=k))
    if v.ndim != 2:
        raise ValueError("Input must be 1- or 2-d.")
    return diagonal_of(v, k, 0, 1)


@expression("diagflat", in_files="_np_diagflat")
def diagflat(v: Node, *, k: int = 0) -> Node:
    """Return a matrix with all elements of an array on its diagonal."""
    return single(REGISTRY["diag"](reshape_to(v, (v.size,)), k=k))


def _triangle(m: Node, k: int, lower: bool) -> Node:
    if m.ndim == 1:
        # a vector becomes the rows of a matrix
        return _triangle(single(REGISTRY["tile"](m, reps=(m.shape[0], 1))), k, lower)
    if not m.ndim:
        raise ValueError("tril and triu need an array with at least one axis")
    rows, columns = position_along(m.shape, m.ndim - 2), position_along(m.shape, m.ndim - 1)
    above = rows - columns
    return select(greater_equal(above + k if lower else -above - k, 0), m, 0)


@expression("tril", method="tril")
def tril(m: Node, *, k: int = 0) -> Node:
    """Return the array with zeros above the k-th diagonal of its last two axes."""
    return _triangle(m, k, lower=True)


@expression("triu", method="triu")
def triu(m: Node, *, k: int = 0) -> Node:
    """Return the array with zeros below the k-th diagonal of its last two axes."""
    return _triangle(m, k, lower=False)


#: functions of indices: their arguments, and a sentence
_PLACES = {
    "diag_indices": ("n, ndim=2", "Return the indices of the main diagonal of an array with equal extents."),
    "diag_indices_from": ("arr", "Return the indices of the main diagonal of an array."),
    "tril_indices": ("n, k=0, m=None", "Return the indices of the lower triangle of an (n, m) matrix."),
    "tril_indices_from": ("arr, k=0", "Return the indices of the lower triangle of a matrix."),
    "triu_indices": ("n, k=0, m=None", "Return the indices of the upper triangle of an (n, m) matrix."),
    "triu_indices_from": ("arr, k=0", "Return the indices of the upper triangle of a matrix."),
}


def _define(name: str, arguments: str, sentence: str) -> None:
    function = getattr(np, name)

    def body(*args: Any, **kwargs: Any) -> Any:
        given = [read(value) if isinstance(value, Handle) else value for value in args]
        return tuple([from_values(places) for places in function(*given, **kwargs)])

    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"{sentence}\n\nThere is one index array per axis."
    body.shown_as = (arguments, "tuple[ndarray, ...]")  # type: ignore[attr-defined]
    public()(naming_itself(body))


for _name, _facts in _PLACES.items():
    _define(_name, *_facts)
