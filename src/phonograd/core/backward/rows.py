"""Gradients by rows: the rows that a lookup or a sparse product adds to, instead of a whole array of mostly zeros.

The gradient of a table that a program reads by row numbers (``Embedding``, ``take``, products with csr matrices) is
``_add_axis`` along the first axis: zeros, with some rows added at positions. A row_sparse gradient buffer takes the
positions and the rows, so the whole array is never computed. A dense gradient buffer holds them until it is read
(:func:`write_gradient`). Takes gradients from :mod:`.backward`; hands :class:`RowGradient` to :mod:`.variable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..array.extras import RowsHeld
from ..array.handle import Handle, SharedMemory, assign, make
from ..base.devices import CPU
from ..base.hot import hot
from ..base.settings import active
from ..graph.node import Node
from ..graph.operator import REGISTRY
from ..ops.math.structural import detach
from ..ops.vision.points import few_rows
from ..trace.trace import Trace

if TYPE_CHECKING:
    from ...ndarray.array import NDArray

__all__ = ["RowGradient", "row_pieces", "stands_alone", "write_gradient"]

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


@hot
def stands_alone(buffer: Handle) -> bool:
    """Return whether nothing but the array itself reads its memory, on the first device."""
    if type(buffer._buffer) is SharedMemory:
        return False
    extras = buffer._extras
    if extras is None:
        return True
    is_view = extras.root is not None or extras.views
    return not is_view and extras.variable is None and not extras.readonly and extras.context is CPU


def write_gradient(buffer: Handle, node: Node, trace: Trace) -> None:
    """Assign a gradient to its buffer. One that is zero outside of few rows is held as rows until it is read.

    An optimizer reads it as an expression of the rows: its kernels take them from where they are, and the whole array
    is never made. The bits are the same.
    """
    extras = buffer._extras
    can_hold = stands_alone(buffer) and trace.allows_shortcuts and not (node.marked or active.naive)
    parts = few_rows(node) if can_hold and type(buffer) is buffer._result_class else None
    if extras is not None:
        extras.rows = None
    assign(buffer, node, trace)
    if parts is not None and buffer._node is node:
        rows, positions = [make(detach(part), trace) for part in parts]
        buffer._rows = RowsHeld(node, (rows, positions))
        trace.held_rows.append(buffer)
