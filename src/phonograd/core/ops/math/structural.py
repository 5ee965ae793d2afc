"""Operators that hold graphs together: leaves, constants, and the marks of recording.

``_leaf`` is where data enters; a trace binds leaf *k* to memory. ``_detach``, ``_variable``, ``_graph``,
``_overwritten`` and ``_repeat_call`` return their value and differ only for the gradient pass. They are, in this order:
no gradient; a gradient target; recorded although constant; the record of the overwritten value; a second record of the
same call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.devices import CPU, Context
from ...base.dtypes import DType, convert_scalar, widen
from ...base.hot import hot
from ...graph.node import FORGOTTEN, Node, Shape, statistics
from ...graph.operator import REGISTRY, Array, nothing, operator, single
from ...lower.lowering import SUPPORTED, Constant, Elementwise

__all__ = [
    "constant",
    "constant_value",
    "copy_to_context",
    "detach",
    "full",
    "leaf",
    "leaf_like",
    "mark_recorded",
    "overwrite",
    "repeat_call",
    "variable",
]


def _no_rule(*arguments: Any, **parameters: Any) -> Any:
    raise AssertionError("leaves are bound by a trace")


@operator(infer=_no_rule, gradient=nothing)
def _leaf(*, index: Any, shape: Any, dtype: Any, context: Any) -> Array:
    """Return the data that the trace bound to this index."""
    raise AssertionError("leaves are bound by a trace")


def _bytes(*, data: Any) -> bytes:
    return data  # type: ignore[no-any-return]


@operator(infer=_no_rule, gradient=nothing, lowering=Constant(_bytes))
def _constant(*, data: Any, dtype: Any) -> Array:
    """Return a constant number."""
    return np.frombuffer(data, dtype).reshape(())


@operator(infer=_no_rule, gradient=nothing, lowering=Constant(_bytes))
def _full(*, shape: Any, data: Any, dtype: Any, context: Any) -> Array:
    """Return an array filled with a constant number."""
    return np.full(shape, np.frombuffer(data, dtype)[0], dtype)


@operator(gradient=nothing, marks=False, is_view=True)
def _detach(data: Array) -> Array:
    """Return the value without its record."""
    return data


@operator(gradient=nothing, marks=True, is_view=True)
def _variable(data: Array, *, slot: Any) -> Array:
    """Return the value of a variable, or of an array recorded in an earlier trace: a gradient target."""
    return data


@operator(gradient=lambda out_grad, out, data: out_grad, marks=True, is_view=True)
def _graph(data: Array) -> Array:
    """Return the value as part of the record, although it depends on no variable."""
    return data


@operator(gradient=lambda out_grad, out, data, record: (None, out_grad), is_view=True)
def _overwritten(data: Array, record: Array) -> Array:
    """Return a value written over a recorded one outside recording; gradients still go to the old record."""
    return data


@operator(gradient=lambda out_grad, out, data: out_grad, marks=True, is_view=True)
def _repeat_call(data: Array, *, count: Any) -> Array:
    """Return the value of a repeated recorded call: a separate record with the same expression."""
    return data


@operator(
    gradient=lambda out_grad, out, data: copy_to_context(out_grad, data.context),
    lowering=Elementwise(lambda e, data: data, SUPPORTED),
)
def _copyto(data: Array, *, context: Any) -> Array:
    """Return a copy on another context."""
    return data


@hot
def leaf_of(index: int, shape: Shape, dtype: DType, context: Context) -> Node:
    """Return the node of leaf number ``index`` on a device."""
    return _leaf.source((index, shape, dtype, context), shape, dtype, context)


def leaf(index: int, shape: Shape, dtype: DType, context: Context = CPU) -> Node:
    """Return the node of leaf number ``index``."""
    return leaf_of(index, shape, dtype, context)


#: the latest leaf of each of the first indices: the next one is usually the same
LATEST: list[Node | None] = [None] * 256


@hot
def leaf_like(number: int, data: Array, context: Context) -> Node:
    """Return the leaf with an index for an array in memory."""
    if number >= len(LATEST):
        return leaf_of(number, data.shape, data.dtype, context)
    found = LATEST[number]
    if found is None or found.dtype is not data.dtype or found.context is not context or found.shape != data.shape:
        found = LATEST[number] = leaf_of(number, data.shape, data.dtype, context)
    return found


def _forget_leaves() -> None:
    LATEST[:] = [None] * len(LATEST)


FORGOTTEN.connect(_forget_leaves)


def constant(value: Any, dtype: DType) -> Node:
    """Return the node of a number: a 0-d constant that broadcasts. Its bits are the key, so 0.0 and -0.0 differ."""
    return _constant.source((_bytes_of(value, dtype), dtype), (), dtype, CPU)


#: numbers as bytes, by value and dtype
_number_bytes: dict[tuple[Any, int], bytes] = {}
_MOST_NUMBERS = 1000


def _bytes_of(value: Any, dtype: DType) -> bytes:
    """Return the bytes of a number in a dtype; most numbers are needed again."""
    # 0.0 and -0.0 are equal as keys but are different numbers; NaN is never found
    if not value:
        return convert_scalar(value, dtype).tobytes()
    key = value, dtype.num
    found = _number_bytes.get(key)
    if found is None:
        if hasattr(value, "in_bytes"):
            # in a plan for any extents, it may follow from them
            return value.in_bytes(dtype)  # type: ignore[no-any-return]
        if len(_number_bytes) >= _MOST_NUMBERS:
            _number_bytes.clear()
        found = _number_bytes[key] = convert_scalar(value, dtype).tobytes()
    return found


def full(shape: Shape, value: Any, dtype: DType, context: Context = CPU) -> Node:
    """Return the node of an array filled with a number."""
    return _full.source((shape, _bytes_of(value, dtype), dtype, context), shape, dtype, context)


def constant_value(node: Node) -> Any:
    """Return the number in a constant or filled node, or None for any other node."""
    while node.operator.is_view:
        node = node.inputs[0]
    if node.operator is not _constant and node.operator is not _full:
        return None
    data = node.attributes[0 if node.operator is _constant else 1]
    # in a plan for any extents, a constant may follow from them
    return widen(np.frombuffer(data, node.dtype))[0] if type(data) is bytes else data.number(node.dtype)


def copy_to_context(node: Node, context: Context) -> Node:
    """Return the node copied to a context, or the node itself if it is there already."""
    if node.context == context:
        return node
    key = ((node,), (context,))
    found = _copyto.table.get(key)
    if found is None:
        statistics.nodes += 1
        made = Node(_copyto, (node,), (context,), node.shape, node.dtype, context=context)
        found = _copyto.table.setdefault(key, made)
    return single(found)


@hot
def detach(node: Node) -> Node:
    """Return a node with the same value and no gradient."""
    if not node.marked:
        return node
    found = node.detached
    if found is None:
        found = node.detached = _detach.apply((node,), ())
    return found


@hot
def variable(node: Node, slot: int) -> Node:
    """Return the node of a gradient target; the trace maps ``slot`` to its variable."""
    inputs, attributes = (detach(node) if node.marked else node,), (slot,)
    found = _variable.table.get((inputs, attributes))
    return found if type(found) is Node else _variable.apply(inputs, attributes)


def mark_recorded(node: Node) -> Node:
    """Return a marked node of the same value: the node itself if it is marked."""
    return node if node.marked else single(_graph(node))


def overwrite(node: Node, record: Node) -> Node:
    """Return a node for an unrecorded value that replaces a recorded one and keeps its record."""
    if record.operator is _overwritten:
        record = record.inputs[1]
    return single(_overwritten.apply((detach(node), record), ()))


@hot
def repeat_call(node: Node, count: int) -> Node:
    """Return the node of the ``count``-th repetition of a call; for 0 the node itself."""
    return _repeat_call.apply((node,), (count,)) if count else node


LEAF, VARIABLE, DETACH, OVERWRITTEN, REPEAT_CALL = _leaf, _variable, _detach, _overwritten, _repeat_call
FULL = _full
#: operators whose nodes stand for their input
STAND_INS = frozenset((REGISTRY["_composite"], _detach, _graph, _overwritten, _variable))

Node.arithmetic["constant"] = constant
