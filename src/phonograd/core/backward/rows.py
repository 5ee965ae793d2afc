"""Gradients by rows: the rows that a lookup or a sparse product adds to, instead of a whole array of mostly zeros.

The gradient of a table that a program reads by row numbers (``Embedding``, ``take``, products with csr matrices) is
``_add_axis`` along the first axis: zeros, with some rows added at positions. A row_sparse gradient buffer takes the
positions and the rows, so the whole array is never computed. Takes gradients from :mod:`.backward`; hands
:class:`RowGradient` to :mod:`.variable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..graph.node import Node
from ..graph.operator import REGISTRY

if TYPE_CHECKING:
    from ...ndarray.array import NDArray

__all__ = ["RowGradient", "row_pieces"]

_ADD = REGISTRY["broadcast_add"]
_ADD_AXIS = REGISTRY["_add_axis"]


class RowGradient(NamedTuple):
    """A gradient that is zero outside of some rows: the sum of its pieces."""

    pieces: list[tuple[NDArray, NDArray]]
    """Positions along the first axis and the rows to add there; positions may repeat."""


def row_pieces(grad: Node) -> list[Node] | None:
    """Return the positions and rows of a gradient, one after the other, or None if it is not made of rows."""
    if grad.operator is _ADD_AXIS:
        rows, positions = grad.inputs
        return [positions, rows] if grad.attributes[0] == 0 else None
    if grad.operator is not _ADD:
        return None
    found: list[Node] = []
    for summand in grad.inputs:
        pieces = row_pieces(summand) if summand.shape == grad.shape else None
        if pieces is None:
            return None
        found += pieces
    return found
