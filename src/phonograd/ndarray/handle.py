"""Handle: the mechanics under NDArray. A handle names a node of a trace, or memory; it can be made to name another one.

Everything that changes an array in place goes through :func:`rebind`: the memory of the old value is never written, so
whoever recorded it, or still has it pending, sees what it saw. A view (:func:`make_view`) names a contiguous piece of
its base: writing to one makes the other look again.
"""

from __future__ import annotations

import math
import weakref
from typing import Any

from ..context import CPU, Context
from ..dtypes import DType
from ..node import Node, Shape
from ..operator import Array, Operator
from ..operators.regions import assign_flat, view_flat
from ..operators.structural import VARIABLE, detach, leaf, variable
from ..state import FLAGS, RECORDING
from ..streams import next_counter
from ..trace import LOCAL, Trace, ready_trace

__all__ = ["Handle", "apply", "enter", "make", "make_concrete", "make_view", "read", "rebind"]

_DEFAULTS = {"_variable": None, "_root": None, "_views": None, "_region": None, "_context": CPU, "_readonly": False}


class Handle:
    """What an array is made of.

    ========== =====================================================================================
    _trace     the trace that ``_node`` belongs to, or None
    _node      the expression of the current value
    _buffer    the current value, once it is known
    _variable  gradient buffer and request, if the array was marked for gradients
    _root      for a view: the array it is a piece of
    _region    for a view: (first element, shape, whether it was made while recording)
    _views     weak references to the views of this array
    _context   the context, where no node tells it
    _readonly  whether in-place operations are refused
    ========== =====================================================================================

    Only the first three are set on every array; the rest read as their defaults.
    """

    __slots__ = (
        "__weakref__",
        "_buffer",
        "_context",
        "_node",
        "_readonly",
        "_region",
        "_root",
        "_trace",
        "_variable",
        "_views",
    )

    _trace: Trace | None
    _node: Node | None
    _buffer: Array | None
    _variable: Any
    _root: Any
    _region: tuple[int, Shape, bool] | None
    _views: list[weakref.ref[Any]] | None
    _context: Context
    _readonly: bool

    def __getattr__(self, name: str) -> Any:
        # reached only when a slot was never set, or for a name that does not exist
        if name in _DEFAULTS:
            return _DEFAULTS[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _settle(self) -> None:
        """Leave the trace: the value is known and nothing recorded leads here."""
        node = self._node
        if node is not None and node.context is not CPU:
            self._context = node.context
        self._trace = self._node = None

    @property
    def shape(self) -> Shape:
        """The extents of the axes."""
        node = self._node
        if node is not None:
            return node.shape
        if self._buffer is not None:
            return self._buffer.shape
        return self._region[1]  # type: ignore[index]

    @property
    def _dtype(self) -> DType:
        node = self._node
        if node is not None:
            return node.dtype
        if self._buffer is not None:
            return self._buffer.dtype
        dtype: DType = self._root._dtype
        return dtype

    @property
    def context(self) -> Context:
        """The context the array lives on."""
        node = self._node
        if node is not None:
            return node.context
        return self._context if self._root is None else self._root.context  # type: ignore[no-any-return]


_class: type[Any] = Handle
_new: Any = object.__new__


def use_class(array_class: type[Any]) -> None:
    """Set the class of the arrays that operators return."""
    global _class
    _class = array_class


def make(node: Node, trace: Trace) -> Any:
    """Return a new array that names a node of a trace."""
    handle = _new(_class)
    handle._trace = trace
    handle._node = node
    handle._buffer = None
    trace.adopt(handle)
    return handle


def make_concrete(data: Array, context: Context = CPU) -> Any:
    """Return a new array with a value; nobody may write to ``data`` afterwards."""
    handle = _new(_class)
    handle._trace = None
    handle._node = None
    handle._buffer = data
    if context is not CPU:
        handle._context = context
    return handle


def enter(handle: Handle, trace: Trace) -> Node:
    """Return the node of an array in a trace, binding its memory as a leaf if it comes from outside."""
    node = handle._node
    if handle._trace is trace and node is not None:
        return node
    if handle._buffer is None:
        if node is None:
            return _look_again(handle, trace)
        assert handle._trace is not None
        handle._buffer = handle._trace.value(node)
    entered = trace.bind(handle._buffer, handle.context)
    if node is not None and node.marked and node.operator is not VARIABLE:
        # recorded in an earlier trace or another thread's: gradients continue there
        assert handle._trace is not None
        entered = variable(entered, trace.slot(handle._trace.target_of(node)))
    elif handle._variable is not None:
        entered = variable(entered, trace.slot(handle._variable))
    elif node is not None and node.marked:
        assert handle._trace is not None
        entered = variable(entered, trace.slot(handle._trace.target_of(node)))
    handle._node = entered
    handle._trace = trace
    trace.handles.append(handle)
    return entered


def _look_again(view: Handle, trace: Trace) -> Node:
    """Return the node of a view whose base has changed since."""
    assert view._region is not None
    start, shape, linked = view._region
    node = view_flat(enter(view._root, trace), start, shape)
    if not linked or view._variable is not None:
        node = detach(node)
    if view._variable is not None:
        node = variable(node, trace.slot(view._variable))
    view._node = node
    view._trace = trace
    trace.handles.append(view)
    return node


def read(handle: Handle) -> Array:
    """Return the value of an array, computing it first if it is pending."""
    value = handle._buffer
    if value is not None:
        return value
    if handle._node is None and handle._root._buffer is not None and handle._root._node is None:
        assert handle._region is not None
        start, shape, _ = handle._region
        value = handle._root._buffer.reshape(-1)[start : start + math.prod(shape)].reshape(shape)
        handle._buffer = value
        return value  # type: ignore[no-any-return]
    if handle._node is None:
        enter(handle, LOCAL.trace)
    trace, node = handle._trace, handle._node
    assert trace is not None
    assert node is not None
    if trace is LOCAL.trace:
        trace.flush()
        if handle._buffer is not None:
            return handle._buffer
    handle._buffer = value = trace.value(node)
    return value


def rebind(handle: Handle, node: Node, trace: Trace) -> None:
    """Make an array name another value of the same shape and dtype; views and bases follow."""
    root = handle._root
    if root is not None:
        assert handle._region is not None
        changed = assign_flat(enter(root, trace), node, handle._region[0])
        rebind(root, changed if FLAGS.get() & RECORDING else detach(changed), trace)
    views = handle._views
    if views is not None:
        for reference in views:
            view = reference()
            if view is not None and view is not handle:
                view._trace = view._node = view._buffer = None
    if handle._variable is not None and not node.marked:
        node = variable(node, trace.slot(handle._variable))
    inside = handle._trace is trace
    handle._node = node
    handle._trace = trace
    handle._buffer = None
    if not inside:
        trace.handles.append(handle)


def known(handle: Handle) -> Array | None:
    """Return the value of an array that is computed and that no record needs to follow, else None.

    A piece of such an array is taken at once. Were it an expression, the bounds of the piece would be part of it, and
    a loop over minibatches (``data[i : i + 64]``) would never meet the same expression twice.
    """
    value = handle._buffer
    if value is None or not FLAGS.get() & RECORDING:
        return value
    node = handle._node
    return None if handle._variable is not None or (node is not None and node.marked) else value


def make_view(base: Handle, start: int, shape: Shape) -> Any:
    """Return an array that shares a contiguous piece of another array: a write to either shows in both."""
    value = known(base)
    recording = bool(FLAGS.get() & RECORDING)
    if value is not None:
        size = math.prod(shape)
        view = make_concrete(value.reshape(-1)[start : start + size].reshape(shape), base.context)
    else:
        trace = ready_trace()
        node = view_flat(enter(base, trace), start, shape)
        view = make(node if recording else detach(node), trace)
    root = base
    if base._root is not None:
        assert base._region is not None
        root, start = base._root, start + base._region[0]
    view._root = root
    view._region = (start, shape, recording)
    if root._views is None:
        root._views = []
    elif len(root._views) > 32:
        root._views = [reference for reference in root._views if reference() is not None]
    root._views.append(weakref.ref(view))
    return view


def apply(declared: Operator, inputs: tuple[Handle | None, ...], attributes: tuple[Any, ...]) -> Any:
    """Return the node (or nodes) of an operator applied to arrays, as the recording flag wants it."""
    trace = ready_trace()
    nodes = tuple([None if handle is None else enter(handle, trace) for handle in inputs])
    if declared.random:
        nodes += (None,) * (len(declared.input_names) - 1 - len(nodes)) + (_counter(trace),)
    result = declared.apply(nodes, attributes)
    if declared.effects is not None:
        _take_effect(declared, inputs, nodes, result, attributes, trace)
    return result


def _counter(trace: Trace) -> Node:
    data = next_counter()
    node = leaf(len(trace.leaves), data.shape, data.dtype)
    trace.leaves.append(data)
    return node


def _take_effect(
    declared: Operator,
    inputs: tuple[Handle | None, ...],
    nodes: tuple[Node | None, ...],
    result: Any,
    attributes: tuple[Any, ...],
    trace: Trace,
) -> None:
    """Write back what an operator changes in its arguments (the moving statistics of BatchNorm), unrecorded."""
    outputs = result if isinstance(result, tuple) else (result,)
    assert declared.effects is not None
    changed = declared.effects(nodes, outputs, **declared.accepted(declared.effects, attributes))
    for index, node in changed.items():
        handle = inputs[index]
        if handle is not None:
            rebind(handle, detach(node), trace)


def settled(node: Node) -> Node:
    """Return the node as the recording flag wants it: marked only if recording is on."""
    return detach(node) if node.marked and not FLAGS.get() & RECORDING else node
