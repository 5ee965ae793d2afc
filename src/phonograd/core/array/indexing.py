"""Reading and writing parts of arrays: ``x[key]`` and ``x[key] = value``.

What a key means is worked out by :mod:`.keys`. Contiguous regions are views of the array (a write to either shows in
both), everything else is a copy; an assignment makes the array name a new value, so it is legal while recording and
gradients pass through it to the array and to the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.devices import CPU
from ..base.hot import hot
from ..graph.node import Node
from ..ops.math.broadcasting import broadcast
from ..ops.math.primitives import cast, reshape_to, slice_step
from ..ops.vision.points import assign_points, take_points
from ..ops.vision.regions import assign_flat, assign_step, view_step
from ..trace.flags import is_recording
from ..trace.trace import Trace, ready_trace
from .binary import Numbers
from .handle import (
    Handle,
    SharedMemory,
    assign,
    known_value,
    make_concrete,
    make_view,
    materialize_if_naive,
    new_result,
    node_in,
    record_or_detach,
)
from .keys import Advanced, Basic, Selection, is_contiguous, parse, simple, value_shape
from .observed import LISTENERS, NamedAction, observe_call
from .values import values_of

__all__ = ["get", "is_contiguous", "set_"]


_EVERYTHING = slice(None)
_SLICE, _ASSIGNMENT = NamedAction("slice"), NamedAction("_slice_assign")


def _is_array(value: Any) -> bool:
    return isinstance(value, Handle)


@hot
def get(self: Any, key: Any) -> Any:
    """Return the part of the array that a key selects: a view where its elements are contiguous, else a copy."""
    return observe_call(_SLICE, (self,), None, (), _get, (self, key)) if LISTENERS else _get(self, key)


@hot
def _get(self: Any, key: Any) -> Any:
    node, value = self._node, self._buffer
    if node is not None:
        shape = node.shape
    else:
        # another thread may be assigning the value
        shape = self.shape if value is None else value.shape
    selection = simple(key, shape) or parse(key, shape, _is_array)
    if type(selection) is Basic:
        if selection.whole:
            return self
        if selection.offset is not None:
            return make_view(self, selection.offset, selection.shape)
    return _copy(self, selection)


def _copy(self: Any, selection: Selection) -> Any:
    """Return selected elements of the array that are not contiguous."""
    if type(selection) is Advanced:
        trace = ready_trace()
        node = slice_step(node_in(self, trace), selection.begin, selection.end, selection.step)
        node = reshape_to(node, selection.expanded)
        taken = take_points(node, selection.layout, _index_nodes(selection, trace))
        return new_result(reshape_to(taken, selection.shape), trace, self._result_class)
    assert type(selection) is Basic
    value = known_value(self)
    if value is not None:
        steps = zip(selection.begin, selection.end, selection.step, strict=True)
        region = value[tuple([slice(b, e if e >= 0 else None, s) for b, e, s in steps])]
        # memory that others write to must not be looked at later
        region = np.array(region) if type(value) is SharedMemory else region
        return make_concrete(region.reshape(selection.shape), self.context, self._result_class)
    trace = ready_trace()
    node = view_step(node_in(self, trace), selection.begin, selection.end, selection.step)
    return new_result(reshape_to(node, selection.shape), trace, self._result_class)


def _index_nodes(selection: Advanced, trace: Trace) -> tuple[Node, ...]:
    nodes = []
    for index in selection.indices:
        if isinstance(index, Handle):
            node = node_in(index, trace)
            nodes.append(reshape_to(node, node.shape or (1,)))
        else:
            nodes.append(trace.bind(index, CPU))
    return tuple(nodes)


def set_(self: Any, key: Any, value: Any, listeners: Sequence[int] = LISTENERS) -> None:
    """Replace the part of the array that a key selects; the value is broadcast and converted to the array's dtype."""
    if listeners:
        before = self._node, getattr(value, "_node", None)
        observe_call(_ASSIGNMENT, (self, value), None, (), set_, (self, key, value, ()), before=before)
        return
    extras = self._extras
    if extras is not None and extras.readonly:
        raise ValueError("Cannot assign to readonly NDArray")
    if type(key) is slice and type(value) is type(self) and key == _EVERYTHING and value is not self:
        trace = ready_trace()
        node = node_in(value, trace)
        if node.shape == self.shape and node.dtype == self._dtype and node.shape:
            # what the rest of this function would do
            assign(self, record_or_detach(node, trace), trace)
            materialize_if_naive(self)
            return
    selection = simple(key, self.shape) or parse(key, self.shape, _is_array)
    if 0 in selection.target or _is_there(self, selection, value):
        return
    trace = ready_trace()
    base = node_in(self, trace)
    if isinstance(value, Handle) and type(selection) is Basic and selection.offset is not None:
        node = node_in(value, trace)
        if node.shape == selection.shape and node.kind == base.kind:
            # what the rest of this function would do
            assign(self, record_or_detach(assign_flat(base, node, selection.offset), trace), trace)
            materialize_if_naive(self)
            return
    node = _value_node(self, value, base, selection, trace)
    if isinstance(selection, Advanced):
        region = slice_step(base, selection.begin, selection.end, selection.step)
        picked = reshape_to(region, selection.expanded)
        written = assign_points(picked, node, selection.layout, _index_nodes(selection, trace))
        node = reshape_to(written, region.shape)
    elif selection.offset is not None:
        # as a view of this part would be written to
        assign(
            self, record_or_detach(assign_flat(base, broadcast(node, selection.target), selection.offset), trace), trace
        )
        materialize_if_naive(self)
        return
    assign(
        self, record_or_detach(assign_step(base, node, selection.begin, selection.end, selection.step), trace), trace
    )
    materialize_if_naive(self)


def _is_there(array: Any, selection: Selection, value: Any) -> bool:
    """Return whether the value is a view of the very part it is assigned to: what ``x[0] += 1`` ends with."""
    if not isinstance(value, Handle) or isinstance(selection, Advanced) or selection.offset is None:
        return False
    extras, own = value._extras, array._extras
    if extras is None or extras.region is None:
        return False
    root, start, linked = array, selection.offset, extras.region[2]
    if own is not None and own.root is not None:
        root, start, linked = own.root, start + own.region[0], linked and own.region[2]
    if extras.root is not root or extras.region[:2] != (start, selection.shape):
        return False
    # a variable whose value was recorded starts anew when it is written to outside of recording
    return linked if is_recording() else array._variable is None and root._variable is None


def _value_node(owner: Any, value: Any, base: Node, selection: Selection, trace: Trace) -> Node:
    """Return an assigned value as a node of the array's dtype that broadcasts to the selected region."""
    if isinstance(value, Handle):
        node = cast(node_in(value, trace), base.dtype)
        return reshape_to(node, value_shape(selection, node.shape))
    if value is None:
        value = float("nan")
    if isinstance(value, Numbers):
        number = trace.bind_scalar(value, base.dtype, base.kind, base.context)
        return broadcast(number, (1,) * len(selection.target))
    try:
        array = values_of(value, base.dtype)
    except TypeError:
        raise TypeError(
            f"{type(owner)} does not support assignment with non-array-like object {value} of type {type(value)}"
        ) from None
    return reshape_to(trace.bind(array, base.context), value_shape(selection, array.shape))
