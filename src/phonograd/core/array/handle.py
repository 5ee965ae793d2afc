"""Handle: the mechanics under NDArray. A handle names a node of a trace, or memory; it can be made to name another one.

Everything that changes an array in place goes through :func:`assign`: the memory of the old value is not written while
anybody refers to it, so whoever recorded it, or still has it pending, sees what it saw. A view (:func:`make_view`)
names a contiguous piece of its base: writing to one makes the other look again. Only memory that another library uses
too (:class:`SharedMemory`) is really written to, and copied when it is read.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar
from weakref import ReferenceType

import numpy as np

from ..base.devices import CPU, Context
from ..base.dtypes import DType
from ..base.settings import active
from ..graph.node import Node, Shape
from ..graph.operator import Array, Operator
from ..ops.math.structural import detach, moved, overwritten, variable
from ..ops.vision.regions import assign_flat, view_flat
from ..trace.flags import FLAGS, RECORDING
from ..trace.owner import HANDOVER
from ..trace.trace import LOCAL, Trace, ready_trace
from .extras import ArrayExtras, mark_views_stale, note_view, views_of
from .numbers import with_data

__all__ = [
    "Handle",
    "SharedMemory",
    "apply",
    "as_class",
    "assign",
    "make",
    "make_concrete",
    "make_result",
    "make_view",
    "materialize_if_naive",
    "node_in",
    "read",
    "replace",
    "share",
    "views_of",
]


class SharedMemory(np.ndarray[Any, Any]):
    """Memory that something outside the library may write to or look at (see :func:`share`).

    It never becomes part of an expression: every use copies it, and changes of the array are written into it at once.
    """

    __slots__ = ()


Kind = TypeVar("Kind")


class _Seldom(Generic[Kind]):
    """An attribute of an array that stands in its ``_extras``, which is made when something is set."""

    __slots__ = ("_default", "_name", "_read")

    def __init__(self, name: str, default: Kind) -> None:
        self._name = name
        self._default = default
        self._read = operator.attrgetter(name)

    def __get__(self, handle: Handle, owner: type[Handle]) -> Kind:
        extras = handle._extras
        return self._default if extras is None else self._read(extras)

    def __set__(self, handle: Handle, value: Kind) -> None:
        extras = handle._extras
        if extras is None:
            extras = handle._extras = ArrayExtras()
        setattr(extras, self._name, value)


class Handle:
    """What an array is made of.

    ========== =====================================================================================
    _trace     the trace that ``_node`` belongs to, or None
    _node      the expression of the current value
    _buffer    the current value, once it is known
    _extras      the others, which few arrays have; they are in one place so that making an array is quick
    _variable  gradient buffer and request, if the array was marked for gradients
    _root      for a view: the array it is a piece of
    _region    for a view: (first element, shape, whether gradients pass between the two)
    _views     weak references to the views of this array that have looked at it
    _told      weak references to those that have to look again, because it has changed since
    _context   the context, where no node tells it
    _readonly  whether in-place operations are refused
    ========== =====================================================================================

    Neither this class nor a subclass may define ``__getattr__``: the interpreter then reads every attribute slowly.
    """

    __slots__ = ("__weakref__", "_buffer", "_extras", "_node", "_trace")

    _trace: Trace | None
    _node: Node | None
    _buffer: Array | None
    _extras: ArrayExtras | None
    _variable = _Seldom[Any]("variable", None)
    _root = _Seldom[Any]("root", None)
    _region = _Seldom["tuple[int, Shape, bool] | None"]("region", None)
    _views = _Seldom[list[ReferenceType[Any]] | None]("views", None)
    _told = _Seldom[list[ReferenceType[Any]] | None]("told", None)
    _context = _Seldom[Context]("context", CPU)
    _readonly = _Seldom[bool]("readonly", False)
    #: the class of what operators make of arrays of this one
    _result_class: ClassVar[type[Any]]

    def _settle(self) -> None:
        """Leave the trace: the value is known and nothing recorded leads here."""
        node = self._node
        if node is not None and node.context is not CPU:
            self._context = node.context
        self._trace = self._node = None

    def _made(self) -> Array:
        """Return the value of an array that has none yet; only sparse arrays make theirs when it is asked for."""
        raise ValueError("this NDArray was made without a value; make arrays with mx.nd.array(values)")

    @property
    def shape(self) -> Shape:
        """The extents of the axes."""
        node = self._node
        if node is not None:
            return node.shape
        buffer = self._buffer
        if buffer is None:
            # another thread may be giving the array its value: look again when that is done
            _, node, buffer = _place(self)
            if node is not None:
                return node.shape
        return _region_of(self)[1] if buffer is None else buffer.shape

    @property
    def _dtype(self) -> DType:
        node = self._node
        if node is not None:
            return node.dtype
        buffer = self._buffer
        if buffer is None:
            _, node, buffer = _place(self)
            if node is not None:
                return node.dtype
        dtype: DType = self._root._dtype if buffer is None else buffer.dtype
        return dtype

    @property
    def context(self) -> Context:
        """The context the array lives on."""
        node = self._node
        if node is not None:
            return node.context
        return self._context if self._root is None else self._root.context


_class: type[Any] = Handle
_new: Any = object.__new__


def use_class(array_class: type[Any]) -> None:
    """Set the class of the arrays that operators return."""
    global _class
    _class = array_class._result_class = array_class


def make(node: Node, trace: Trace, array_class: type[Any] | None = None) -> Any:
    """Return a new array that names a node of a trace."""
    handle = _new(array_class or _class)
    handle._trace = trace
    handle._node = node
    handle._buffer = handle._extras = None
    trace.adopt(handle)
    return handle


def make_result(node: Node, trace: Trace, array_class: type[Any] | None = None) -> Any:
    """Return a new array for the user; with the naive engine it is computed at once."""
    return materialize_if_naive(make(node, trace, array_class))


def as_class(handle: Any, array_class: type[Any]) -> Any:
    """Return an array that nobody else refers to yet as one of another class of dense arrays."""
    if type(handle) is not array_class:
        handle.__class__ = array_class
    return handle


def materialize_if_naive(handle: Any) -> Any:
    """Return an array to the user, computed if the naive engine is on. The trace may end here."""
    if active.naive:
        read(handle)
    return handle


def make_concrete(data: Array, context: Context = CPU, array_class: type[Any] | None = None) -> Any:
    """Return a new array with a value; nobody may write to ``data`` afterwards."""
    trace = LOCAL.trace
    node = trace.constant(data, context)
    if node is not None:
        return make(node, trace, array_class)
    handle = _new(array_class or _class)
    handle._trace = handle._node = handle._extras = None
    handle._buffer = data
    if context is not CPU:
        handle._context = context
    return handle


#: what :func:`node_in` and :func:`assign` try first: they return None, or False, where it is not simple
_enter_simply: Callable[[Handle, Trace], Node | None] | None = None
_write_simply: Callable[[Handle, Node, Trace], bool] | None = None


def use_machine_code(
    enter: Callable[[Handle, Trace], Node | None], write: Callable[[Handle, Node, Trace], bool]
) -> None:
    """Set functions that do what :func:`node_in` and :func:`assign` do where that is simple."""
    global _enter_simply, _write_simply
    _enter_simply, _write_simply = enter, write


def node_in(handle: Handle, trace: Trace) -> Node:
    """Return the node of an array in a trace, binding its memory as a leaf if it comes from outside."""
    if _enter_simply is not None:
        found = _enter_simply(handle, trace)
        if found is not None:
            return found
    node = handle._node
    home = handle._trace
    if node is not None and home is trace:
        return node
    outside = trace.enter_outside(handle)
    if outside is not None:
        return outside
    buffer = handle._buffer
    if node is not None or buffer is None:
        home, node, buffer = _place(handle)
        if buffer is None:
            if node is None or home is None:
                return _reread_view(handle, trace)
            buffer = home.value(node)
    extras = handle._extras
    owner = None if extras is None else extras.variable
    if type(buffer) is SharedMemory:
        # looked at anew by every use: the array does not keep the node
        entered = trace.bind(np.array(buffer), handle.context)
        return entered if owner is None else variable(entered, trace.slot(owner))
    entered = trace.bind(buffer, CPU if extras is None and node is None else handle.context)
    if node is not None and home is not None and node.marked:
        # recorded in an earlier trace or another thread's: gradients continue there
        entered = variable(entered, trace.slot(home.tape.target_of(node)))
    elif owner is not None:
        entered = variable(entered, trace.slot(owner))
    with HANDOVER:
        # if another thread has changed the array meanwhile, this is still the value it had when it was asked for
        if handle._node is node and handle._trace is home and (node is not None or handle._buffer is buffer):
            handle._buffer = buffer
            # in the order that readers in other threads rely on
            handle._trace = trace
            handle._node = entered
            trace.handles.append(handle)
            if home is not None:
                trace.repeats = True
    return entered


def _place(handle: Handle) -> tuple[Trace | None, Node | None, Array | None]:
    """Return what an array names, at one moment."""
    with HANDOVER:
        return handle._trace, handle._node, handle._buffer


def _name(handle: Handle, node: Node | None, trace: Trace | None) -> None:
    """Make an array name something else, in the order that readers in other threads rely on (threads.HANDOVER)."""
    handle._trace = trace
    handle._node = node


def _region_of(view: Handle) -> tuple[int, Shape, bool]:
    if view._region is None:
        raise ValueError("this NDArray was made without a value; make arrays with mx.nd.array(values)")
    return view._region


def _reread_view(view: Handle, trace: Trace) -> Node:
    """Return the node of a view whose base has changed since."""
    if view._root is None:
        view._buffer = view._made()
        return node_in(view, trace)
    start, shape, linked = _region_of(view)
    node = view_flat(node_in(view._root, trace), start, shape)
    if not linked or view._variable is not None:
        node = detach(node)
    if view._variable is not None:
        node = variable(node, trace.slot(view._variable))
    with HANDOVER:
        _name(view, node, trace)
        trace.handles.append(view)
        trace.repeats = True
    note_view(view._root, view)
    return node


def read(handle: Handle) -> Array:
    """Return the value of an array, computing it first if it is pending; nobody may write to it."""
    LOCAL.trace.note_read()
    value, trace, node = handle._buffer, None, None
    if value is None:
        trace, node, value = _place(handle)
    if value is not None:
        return np.array(value) if type(value) is SharedMemory else value
    if node is None or trace is None:
        if handle._root is None:
            handle._buffer = value = handle._made()
            return value
        start, shape, linked = _region_of(handle)
        root = handle._root
        if root._buffer is not None and root._node is None and not (linked and root._variable is not None):
            handle._buffer = value = _piece(root, start, shape)
            note_view(root, handle)
            return value
        trace = LOCAL.trace
        node = node_in(handle, trace)
    if trace is LOCAL.trace:
        trace.flush()
        now, same, value = _place(handle)
        # outside of recording the trace may have ended, and the array has left it
        if value is not None and (same is node or now is None):
            return value
    value = trace.value(node)
    with HANDOVER:
        if handle._node is node and handle._trace is trace:
            handle._buffer = value
    return value


def _piece(base: Handle, start: int, shape: Shape) -> Array:
    """Return a contiguous piece of the known value of an array, in a shape."""
    buffer = base._buffer
    assert buffer is not None
    if not buffer.flags.c_contiguous:
        buffer = base._buffer = np.ascontiguousarray(buffer)
    size = math.prod(shape)
    if size and shape and shape == buffer.shape[1:]:
        # one step instead of three
        return buffer[start // size]  # type: ignore[no-any-return]
    return buffer.reshape(-1)[start : start + size].reshape(shape)


def assign(handle: Handle, node: Node, trace: Trace) -> None:
    """Make an array name another value of the same shape and dtype; views and bases follow.

    While recording, the array is then part of the record exactly if the value is. Otherwise only the value changes: a
    variable stays a variable, and what was recorded stays recorded.
    """
    if _write_simply is not None and _write_simply(handle, node, trace):
        return
    if trace.write_outside(handle, node):
        return
    before, extras = handle._node, handle._extras
    if (
        (extras is None or (extras.root is None and not extras.views))
        and not node.marked
        and node.context is (handle.context if before is None else before.context)
        and type(handle._buffer) is not SharedMemory
    ):
        # by far the most: nothing looks at the array, and what is written is not recorded
        if extras is not None and extras.variable is not None:
            _hold(handle, variable(node, trace.slot(extras.variable)), trace)
            return
        if before is None or not before.marked:
            _hold(handle, node, trace)
            return
    recording = FLAGS.get() & RECORDING
    root = handle._root
    context = handle.context
    if node.context is not context:
        node = moved(node, context)
    if root is not None:
        start, shape, linked = _region_of(handle)
        changed = assign_flat(node_in(root, trace), node, start)
        assign(root, record_or_detach(changed), trace)
        if recording and not linked:
            handle._region = (start, shape, True)
        if handle._variable is None:
            # it has been told to look again, and will find what was written
            return
    if extras is not None and extras.views:
        mark_views_stale(extras)
    buffer = handle._buffer
    if type(buffer) is SharedMemory and buffer.flags.writeable and not node.marked:
        np.copyto(buffer, trace.value(node))
        return
    if not node.marked:
        if handle._variable is not None:
            node = variable(node, trace.slot(handle._variable))
        elif not recording and handle._node is not None and handle._node.marked:
            node = overwritten(node, node_in(handle, trace))
    _hold(handle, node, trace)


def _hold(handle: Handle, node: Node, trace: Trace) -> None:
    """Make an array name a value that is not known yet."""
    with HANDOVER:
        home = handle._trace
        handle._trace = trace
        handle._node = node
        handle._buffer = None
        if home is not trace:
            trace.handles.append(handle)
            if home is not None:
                trace.repeats = True


def replace(handle: Handle, value: Array) -> None:
    """Make an array hold another value of the same shape and dtype: one that is no view, has none, and is no record."""
    with HANDOVER:
        if handle._trace is not None:
            handle._trace.repeats = True
        _name(handle, None, None)
        handle._buffer = value


def known_value(handle: Handle) -> Array | None:
    """Return the value of an array that is computed and that no record needs to follow, else None.

    A piece of such an array is taken at once. Were it an expression, the bounds of the piece would be part of it, and
    a loop over minibatches (``data[i : i + 64]``) would never meet the same expression twice.
    """
    if not LOCAL.trace.allows_shortcuts:
        return None
    value = handle._buffer
    if value is None or not FLAGS.get() & RECORDING:
        return value
    node = handle._node
    return None if handle._variable is not None or (node is not None and node.marked) else value


def make_view(base: Handle, start: int, shape: Shape) -> Any:
    """Return an array that shares a contiguous piece of another array: a write to either shows in both."""
    value, extras = known_value(base), base._extras
    context = CPU if extras is None and base._node is None else base.context
    if value is not None:
        # as make_concrete does, where nothing is captured
        view = _new(base._result_class)
        view._trace = view._node = None
        view._buffer = _piece(base, start, shape)
        if type(value) is SharedMemory:
            view._extras = None
            view._context = context
            return view
    else:
        trace = ready_trace()
        view = make(record_or_detach(view_flat(node_in(base, trace), start, shape)), trace, base._result_class)
        extras = base._extras
    linked = bool(FLAGS.get() & RECORDING)
    root = base
    if extras is not None and extras.root is not None and extras.variable is None:
        root = extras.root
        first, _, base_linked = _region_of(base)
        start, linked = start + first, linked and base_linked
    own = ArrayExtras(root, (start, shape, linked))
    if context is not CPU:
        own.context = context
    if extras is not None and extras.readonly:
        own.readonly = True
    view._extras = own
    note_view(root, view)
    return materialize_if_naive(view) if active.naive else view


def share(handle: Handle) -> Array:
    """Return the value of an array in memory that others may use: what either side writes from now on, both see.

    An array that is part of a record cannot share its memory; then others get a copy.
    """
    top = handle
    while top._root is not None:
        top = top._root
    views = views_of(top)
    if any([array._node is not None and array._node.marked for array in (top, *views) if array._variable is None]):
        return np.array(read(handle), order="C")
    if type(top._buffer) is not SharedMemory:
        memory = np.array(read(top), order="C").view(SharedMemory)
        pieces = [(view, _offset(view)) for view in views]
        top._settle()
        top._buffer = memory
        for view, start in pieces:
            view._settle()
            view._buffer = memory.reshape(-1)[start : start + math.prod(view.shape)].reshape(view.shape)
            view._root = view._region = None
        top._views = top._told = None
    assert handle._buffer is not None
    return handle._buffer.view(np.ndarray)


def _offset(view: Handle) -> int:
    """Return where a view starts among the elements of the array that owns the memory."""
    start = 0
    while view._root is not None:
        start += _region_of(view)[0]
        view = view._root
    return start


def apply(
    declared: Operator, inputs: tuple[Handle | None, ...], attributes: tuple[Any, ...]
) -> tuple[Any, tuple[Node | None, ...]]:
    """Return the node (or nodes) of an operator applied to arrays, and the nodes of the arrays."""
    trace = ready_trace()
    nodes = tuple([None if handle is None else node_in(handle, trace) for handle in inputs])
    if declared.random:
        nodes += (None,) * (len(declared.input_names) - 1 - len(nodes)) + (trace.counter(),)
    if declared.numbers:
        attributes = with_data(declared, nodes, attributes, trace)
    result = declared.apply(nodes, attributes)
    if isinstance(result, tuple) and FLAGS.get() & RECORDING:
        for node in result:
            trace.tape.siblings[node] = result
    if declared.effects is not None:
        _take_effect(declared, inputs, nodes, result, attributes, trace)
    return result, nodes


def _take_effect(
    declared: Operator,
    inputs: tuple[Handle | None, ...],
    nodes: tuple[Node | None, ...],
    result: Any,
    attributes: tuple[Any, ...],
    trace: Trace,
) -> None:
    """Write back what an operator changes in its arguments (the moving statistics of BatchNorm), unrecorded."""
    assert declared.effects is not None
    key = nodes, attributes
    changed = declared.consequences.get(key)
    if changed is None:
        outputs = result if isinstance(result, tuple) else (result,)
        changed = declared.effects(nodes, outputs, **declared.accepted(declared.effects, attributes))
        declared.consequences[key] = changed
    for index, node in changed.items():
        handle = inputs[index]
        if handle is not None:
            assign(handle, detach(node), trace)


def record_or_detach(node: Node) -> Node:
    """Return the node of a call's result as the recording flag wants it: a record of its own, or unmarked."""
    if not node.marked:
        return node
    return LOCAL.trace.distinct(node) if FLAGS.get() & RECORDING else detach(node)
