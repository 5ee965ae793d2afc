"""Handle: the mechanics of NDArray. A handle names a node of a trace, or memory, and can be made to name another one.

Takes nodes from operators and traces from :mod:`phonograd.core.trace.trace`; hands arrays to :mod:`.call` and to users.
:func:`assign` does every change in place: the array names another node, and the memory of the old value stays as it is
for recorded and pending expressions. A view (:func:`make_view`) names a contiguous piece of its base; after a write to
one, the other reads its value anew. Only memory that another library uses too (:class:`SharedMemory`) is written to,
and copied when it is read. Machine code has its own copy of the short paths (:mod:`.fastcall.native_enter`).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar
from weakref import ReferenceType

import numpy as np

from ..base.devices import CPU, Context
from ..base.dtypes import DType
from ..base.hot import hot, slotted
from ..base.settings import active
from ..graph.node import Node, Shape
from ..graph.operator import Array
from ..ops.math.structural import copy_to_context, detach, overwrite, variable
from ..ops.vision.points import add_axis
from ..ops.vision.regions import assign_flat, view_flat
from ..trace.flags import FLAGS, RECORDING
from ..trace.owner import HANDOVER, MACHINE_CODE
from ..trace.trace import LOCAL, Trace, ready_trace
from .extras import (
    ArrayExtras,
    RowsHeld,
    Seldom,
    context_of,
    extras_of_view,
    mark_views_stale,
    note_view,
    piece_of,
    views_of,
)

__all__ = [
    "DENSE",
    "Handle",
    "SharedMemory",
    "as_class",
    "assign",
    "buffer_of",
    "is_recorded",
    "make",
    "make_concrete",
    "make_result",
    "make_view",
    "materialize_if_naive",
    "new_result",
    "node_in",
    "node_of",
    "place_of",
    "read",
    "replace",
    "share",
    "share_variable",
    "variable_of",
    "views_of",
]


class SharedMemory(np.ndarray[Any, Any]):
    """Memory that another library may read or write (see :func:`share`).

    It never becomes part of an expression: every use copies it, and changes of the array are written into it at once.
    """

    __slots__ = ()


class Handle:
    """The base of all arrays: their slots, and the mechanics that :mod:`.handle` describes.

    ========== =====================================================================================
    _trace     the trace that ``_node`` belongs to, or None
    _node      the expression of the current value
    _buffer    the current value, once it is known
    _extras      the attributes below, which few arrays have; one slot for all makes new arrays cheap
    _variable  gradient buffer and request, if the array was marked for gradients
    _root      for a view: the array of which it is a piece
    _region    for a view: (first element, shape, whether gradients pass between the two)
    _views     weak references to the views of this array that hold its present value
    _told      weak references to the views that have to read it again, because it has changed since
    _context   the context of an array without a node
    _readonly  whether in-place operations are refused
    _rows      for a gradient that is zero outside of some rows: these, until it is read
    ========== =====================================================================================

    Neither this class nor a subclass may define ``__getattr__``: the interpreter then reads every attribute slowly.
    """

    __slots__ = ("__weakref__", "_buffer", "_extras", "_node", "_trace")

    _trace: Trace | None
    _node: Node | None
    _buffer: Array | None
    _extras: ArrayExtras | None
    _variable = Seldom[Any]("variable", None)
    _root = Seldom[Any]("root", None)
    _region = Seldom["tuple[int, Shape, bool] | None"]("region", None)
    _views = Seldom[list[ReferenceType[Any]] | None]("views", None)
    _told = Seldom[list[ReferenceType[Any]] | None]("told", None)
    _context = Seldom[Context]("context", CPU)
    _readonly = Seldom[bool]("readonly", False)
    _rows = Seldom["RowsHeld | None"]("rows", None)
    #: the class of the results of operators on arrays of this class
    _result_class: ClassVar[type[Any]]
    #: whether a gradient buffer of this class takes single rows (:mod:`phonograd.core.backward.rows`)
    _takes_rows: ClassVar[bool] = False

    def __init_subclass__(cls, dense: bool = False, **facts: Any) -> None:
        """Register a dense class: results of its arrays have the same class. Others inherit ``_result_class``."""
        super().__init_subclass__(**facts)
        if dense:
            cls._result_class = slotted(cls)
            DENSE.append(cls)

    def _settle(self) -> None:
        """Leave the trace: the value is known and nothing recorded leads here."""
        node = self._node
        if node is not None and node.context is not CPU:
            self._context = node.context
        self._trace = self._node = None

    def _made(self) -> Array:
        """Return the value of an array that has none yet; only sparse arrays make theirs at the first use."""
        raise ValueError("this NDArray was made without a value; make arrays with mx.nd.array(values)")

    @property
    def shape(self) -> Shape:
        """The extents of the axes."""
        node = self._node
        if node is not None:
            return node.shape
        buffer = self._buffer
        if buffer is None:
            # another thread may be assigning the value: read again under the lock
            _, node, buffer = place_of(self)
            if node is not None:
                return node.shape
            if buffer is None and self._rows is not None:
                return self._rows.node.shape
        return _region_of(self)[1] if buffer is None else buffer.shape

    @property
    def _dtype(self) -> DType:
        node = self._node
        if node is not None:
            return node.dtype
        buffer = self._buffer
        if buffer is None:
            _, node, buffer = place_of(self)
            if node is not None:
                return node.dtype
            if buffer is None and self._rows is not None:
                return self._rows.node.dtype
        dtype: DType = self._root._dtype if buffer is None else buffer.dtype
        return dtype

    @property
    def context(self) -> Context:
        """The context of the array."""
        return context_of(self)


#: the dense classes of arrays in the order of their definition: NDArray, then the ndarray of mx.np
DENSE: list[type[Any]] = []
_new: Any = object.__new__


@hot
def make(node: Node, trace: Trace, array_class: type[Any] | None = None) -> Any:
    """Return a new array that names a node of a trace; an NDArray unless another class is given."""
    handle = _new(array_class or DENSE[0])
    handle._trace = trace
    handle._node = node
    handle._buffer = handle._extras = None
    trace.adopt(handle)
    return handle


def make_result(node: Node, trace: Trace, array_class: type[Any] | None = None) -> Any:
    """Return a new array for the user; with the naive engine it is computed at once."""
    handle = make(node, trace, array_class)
    return materialize_if_naive(handle) if active.naive else handle


@hot
def new_result(node: Node, trace: Trace, array_class: type[Any]) -> Any:
    """Return the result of an operator call as a new array: recorded or detached, as the recording flag wants it.

    It is ``make_result(settled(node), ...)`` in one frame, because every call ends here. ``new_result`` in
    :mod:`.fastcall.native_code` is its counterpart.
    """
    if node.marked:
        node = trace.distinct(node) if FLAGS.get() & RECORDING else node.detached or detach(node)
    handle = _new(array_class)
    handle._trace = trace
    handle._node = node
    handle._buffer = handle._extras = None
    if trace.ended:
        # a signal handler has evaluated arrays meanwhile
        trace.adopt(handle)
    else:
        # as Trace.adopt does
        handles = trace.handles
        handles.append(handle)
        if len(handles) > trace.prune_at:
            trace.prune()
    return materialize_if_naive(handle) if active.naive else handle


def as_class(handle: Any, array_class: type[Any]) -> Any:
    """Return a new array, to which there is no other reference yet, as one of another dense class."""
    if type(handle) is not array_class:
        handle.__class__ = array_class
    return handle


def materialize_if_naive(handle: Any) -> Any:
    """Return an array to the user, computed if the naive engine is on. The trace may end here."""
    if active.naive:
        read(handle)
    return handle


def make_concrete(data: Array, context: Context = CPU, array_class: type[Any] | None = None) -> Any:
    """Return a new array with a value; the caller must not write to ``data`` afterwards."""
    trace = LOCAL.trace
    node = trace.constant(data, context)
    if node is not None:
        return make(node, trace, array_class)
    handle = _new(array_class or DENSE[0])
    handle._trace = handle._node = handle._extras = None
    handle._buffer = data
    if context is not CPU:
        handle._context = context
    return handle


@hot
def node_in(handle: Handle, trace: Trace) -> Node:
    """Return the node of an array in a trace, binding its memory as a leaf if it comes from outside."""
    node = handle._node
    home = handle._trace
    if node is not None and home is trace:
        return node
    if MACHINE_CODE.entered is not None:
        entered = MACHINE_CODE.entered(handle, trace)
        if entered is not None:
            return entered
    outside = trace.enter_outside(handle)
    if outside is not None:
        return outside
    buffer = handle._buffer
    if node is not None or buffer is None:
        home, node, buffer = place_of(handle)
        if buffer is None:
            if node is None or home is None:
                return _reread_view(handle, trace)
            buffer = home.value(node)
    extras = handle._extras
    owner = None if extras is None else extras.variable
    if type(buffer) is SharedMemory:
        # every use reads the memory anew: the array does not keep the node
        entered = trace.bind(np.array(buffer), handle.context)
        return entered if owner is None else variable(entered, trace.slot(owner))
    entered = trace.bind(buffer, context_of(handle))
    if node is not None and home is not None and node.marked:
        # recorded in an earlier trace, or in one of another thread: gradients continue there
        entered = variable(entered, trace.slot(home.tape.target_of(node)))
    elif owner is not None:
        entered = variable(entered, trace.slot(owner))
    _enter(handle, trace, home, node, buffer, entered)
    return entered


def _enter(handle: Handle, trace: Trace, home: Trace | None, node: Node | None, buffer: Array, entered: Node) -> None:
    """Make an array name a node of another trace."""
    with HANDOVER:
        # if another thread has changed the array meanwhile, the node still has the value at the time of the call
        if handle._node is node and handle._trace is home and (node is not None or handle._buffer is buffer):
            handle._buffer = buffer
            # readers in other threads rely on this order
            handle._trace = trace
            handle._node = entered
            trace.handles.append(handle)
            if home is not None:
                trace.repeats = True


# -- the state of an array, for other modules


def place_of(handle: Handle) -> tuple[Trace | None, Node | None, Array | None]:
    """Return the trace, the node and the value of an array as they are at one moment."""
    with HANDOVER:
        return handle._trace, handle._node, handle._buffer


def node_of(handle: Handle) -> Node | None:
    """Return the node that an array names, or None if it has a value and belongs to no trace."""
    return handle._node


def buffer_of(handle: Handle) -> Array | None:
    """Return the value of an array, or None if it is not computed yet."""
    return handle._buffer


def is_recorded(handle: Handle) -> bool:
    """Return whether an array is a variable or the result of a recorded call that can still be differentiated."""
    node = handle._node
    return node is not None and node.marked


def variable_of(handle: Handle) -> Any:
    """Return the gradient buffer and request of an array that was marked for gradients, else None."""
    extras = handle._extras
    return None if extras is None else extras.variable


def share_variable(handle: Handle, other: Handle) -> None:
    """Make an array the same variable as another one, if that is one."""
    owner = variable_of(other)
    if owner is not None:
        handle._variable = owner


def _name(handle: Handle, node: Node | None, trace: Trace | None) -> None:
    """Make an array name another node, in the order on which readers in other threads rely (threads.HANDOVER)."""
    handle._trace = trace
    handle._node = node


def _region_of(view: Handle) -> tuple[int, Shape, bool]:
    if view._region is None:
        raise ValueError("this NDArray was made without a value; make arrays with mx.nd.array(values)")
    return view._region


def _reread_view(view: Handle, trace: Trace) -> Node:
    """Return the node of a view whose base has changed since, or of a gradient that is held as rows."""
    if view._rows is not None:
        return _enter_rows(view, view._rows, trace)
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
    """Return the value of an array, computed first if it is pending; callers must not write to it."""
    current, value = LOCAL.trace, handle._buffer
    current.note_read()
    trace, node = None, None
    if value is None:
        extras, node = handle._extras, handle._node
        if node is not None and handle._trace is current and (extras is None or extras.rows is None):
            # the short path: a pending array of this trace. No other thread brings arrays into it
            current.flush()
            value = handle._buffer
            same = handle._node
            if value is not None and (same is node or same is None):
                return value
        if handle._rows is not None:
            if handle._node is None:
                node_in(handle, LOCAL.trace)
            handle._rows = None
        trace, node, value = place_of(handle)
    if value is not None:
        return np.array(value) if type(value) is SharedMemory else value
    if node is None or trace is None:
        if handle._root is None:
            handle._buffer = value = handle._made()
            return value
        start, shape, linked = _region_of(handle)
        root = handle._root
        if root._buffer is not None and root._node is None and not (linked and root._variable is not None):
            handle._buffer = value = piece_of(root, start, shape)
            note_view(root, handle)
            return value
        trace = LOCAL.trace
        node = node_in(handle, trace)
    if trace is LOCAL.trace:
        trace.flush()
        now, same, value = place_of(handle)
        # outside of recording the trace may have ended, and the array has left it
        if value is not None and (same is node or now is None):
            return value
    value = trace.value(node)
    with HANDOVER:
        if handle._node is node and handle._trace is trace:
            handle._buffer = value
    return value


def assign(handle: Handle, node: Node, trace: Trace) -> None:
    """Assign a node of the same shape and dtype to an array; views and bases follow.

    While recording, the array is then recorded exactly if the node is. Otherwise only the value changes: a variable
    stays a variable, and a recorded array stays recorded. Machine code does the short path (``write``).
    """
    if MACHINE_CODE.write is not None and MACHINE_CODE.write(handle, node, trace):
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
        # the short path: the array owns its memory and has no views, and the node is not recorded
        if extras is not None and extras.variable is not None:
            _hold(handle, variable(node, trace.slot(extras.variable)), trace)
            return
        if before is None or not before.marked:
            _hold(handle, node, trace)
            return
    recording = FLAGS.get() & RECORDING
    root = None if extras is None else extras.root
    context = handle.context
    if node.context is not context:
        node = copy_to_context(node, context)
    if root is not None:
        start, shape, linked = _region_of(handle)
        changed = assign_flat(node_in(root, trace), node, start)
        assign(root, record_or_detach(changed, trace), trace)
        if recording and not linked:
            handle._region = (start, shape, True)
        if handle._variable is None:
            # the view was told to read its base again
            return
    if extras is not None and extras.views:
        mark_views_stale(extras)
    buffer = handle._buffer
    if type(buffer) is SharedMemory and buffer.flags.writeable and not node.marked:
        np.copyto(buffer, trace.value(node))
        return
    if not node.marked:
        owner = None if extras is None else extras.variable
        if owner is not None:
            node = variable(node, trace.slot(owner))
        elif not recording and handle._node is not None and handle._node.marked:
            node = overwrite(node, node_in(handle, trace))
    _hold(handle, node, trace)
    if root is not None:
        # a variable, which holds the value that its base has now
        note_view(root, handle)


def _enter_rows(handle: Handle, held: RowsHeld, trace: Trace) -> Node:
    """Return the node of a gradient that is held as rows in a trace."""
    rows, positions = [node_in(part, trace) for part in held.parts]
    node = held.node = detach(add_axis(rows, positions, 0, held.node.shape[0]))
    with HANDOVER:
        _name(handle, node, trace)
        trace.handles.append(handle)
        trace.held_rows.append(handle)
        trace.repeats = True
    return node


def _hold(handle: Handle, node: Node, trace: Trace) -> None:
    """Make an array name a pending value."""
    with HANDOVER:
        home = handle._trace
        handle._trace = trace
        handle._node = node
        handle._buffer = None
        if home is not trace:
            trace.handles.append(handle)
            if home is not None:
                trace.repeats = True


def replace(handle: Handle, value: Array | None) -> None:
    """Replace the value of an array. The array must own its memory, have no views and not be recorded.

    None is for sparse arrays, which make their dense value at the first use.
    """
    with HANDOVER:
        if handle._trace is not None:
            handle._trace.repeats = True
        # a pending array has its context from its node
        handle._settle()
        handle._buffer = value


@hot
def known_value(handle: Handle) -> Array | None:
    """Return the value of an array if it is computed and the record does not depend on the array, else None.

    A piece of such an array is taken at once. As an expression, it would contain the bounds of the piece, and a loop
    over minibatches (``data[i : i + 64]``) would never repeat an expression.
    """
    if not LOCAL.trace.allows_shortcuts:
        return None
    value = handle._buffer
    if value is None or not FLAGS.get() & RECORDING:
        return value
    node, extras = handle._node, handle._extras
    is_variable = extras is not None and extras.variable is not None
    return None if is_variable or (node is not None and node.marked) else value


@hot
def make_view(base: Handle, start: int, shape: Shape) -> Any:
    """Return an array that shares a contiguous piece of another array: a write to either shows in both."""
    value, extras = known_value(base), base._extras
    context = context_of(base)
    if value is not None:
        # as make_concrete does outside of captured functions
        view = _new(base._result_class)
        view._trace = view._node = None
        view._buffer = piece_of(base, start, shape)
        if type(value) is SharedMemory:
            view._extras = None
            view._context = context
            return view
    else:
        trace = ready_trace()
        node = view_flat(node_in(base, trace), start, shape)
        view = make(record_or_detach(node, trace), trace, base._result_class)
        extras = base._extras
    linked = bool(FLAGS.get() & RECORDING)
    root = base
    if extras is not None and extras.root is not None and extras.variable is None:
        root = extras.root
        first, _, base_linked = _region_of(base)
        start, linked = start + first, linked and base_linked
    own = extras_of_view(root, (start, shape, linked))
    if context is not CPU:
        own.context = context
    if extras is not None and extras.readonly:
        own.readonly = True
    view._extras = own
    note_view(root, view)
    return materialize_if_naive(view) if active.naive else view


def share(handle: Handle) -> Array:
    """Return the value of an array in memory that another library may use: writes of either side show in both.

    A recorded array cannot share its memory; then the result is a copy.
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
    """Return the number of the first element of a view in the array that owns the memory."""
    start = 0
    while view._root is not None:
        start += _region_of(view)[0]
        view = view._root
    return start


@hot
def record_or_detach(node: Node, trace: Trace) -> Node:
    """Return the node of a result in a trace as the recording flag wants it: a record of its own, or detached."""
    if not node.marked:
        return node
    return trace.distinct(node) if FLAGS.get() & RECORDING else detach(node)
