"""Trace: the pending graph of one thread. Its nodes are named by handles, and its leaves are bound to memory.

Takes nodes from operators and handles (NDArrays) from :mod:`phonograd.core.array.handle`; hands both to
:mod:`phonograd.core.trace.evaluation` when a value is needed (:meth:`Trace.flush`): the nodes of all live handles are
looked up as one key, and the plan found under it runs. :class:`~phonograd.core.trace.tape.Tape` holds what can still be
differentiated.

A trace ends when a value is needed outside of recording and no recorded array waits to be differentiated, or when the
outermost ``record()`` is entered. Leaf numbers then start again, so the next turn of a loop finds the same nodes and
the same plan (docs/decisions/0002).

Handles are duck-typed here (:class:`phonograd.core.array.handle.Handle`): a handle whose ``_trace`` is this trace is in
``trace.handles``; ``_buffer`` is its value once that is known.
"""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from typing import Any

from ..base import settings
from ..base.devices import Context
from ..base.dtypes import DType, convert_scalar
from ..base.hot import hot, slotted
from ..base.outside import is_from_outside, is_interrupting
from ..graph.node import Node
from ..graph.operator import Array
from ..observe.anomaly import detection
from ..observe.attribution import Attribution, open_scope
from ..ops.math.structural import REPEAT_CALL, VARIABLE, leaf, leaf_like, repeat_call
from ..plan.cache import PLANS, SINGLE_RUNS, CachedPlan, CacheNode, is_numbered_leaf, waits
from ..run.reference import resolve
from .evaluation import KEEP, LAST, Options, check_reentry, compute, compute_known, evaluate, fill, is_calm
from .flags import is_paused, is_recording
from .liveness import each_once, holds_rows, referenced
from .novelty import NOVELTY
from .owner import HANDOVER, MACHINE_CODE, Leaving, Pairs
from .recorder import Recorder
from .rng import next_counter
from .tape import Origin, Tape, Target

__all__ = [
    "LOCAL",
    "NUMBERS",
    "ZERO",
    "ImmediateTrace",
    "Trace",
    "begin_recording_trace",
    "number_memory",
    "ready_trace",
    "waitall",
]

#: the class of reentrant locks: threading.RLock is a function, and calling it takes twice as long
_Lock = type(threading.RLock())
#: the most results of a single call (:mod:`phonograd.core.array.single`)
_MOST_RESULTS = 3
#: handles from which on dead ones are dropped without a flush
_PRUNE_AT = 128
#: flushes after which a trace ends outside of recording, although recorded arrays wait: they keep its tape
_FLUSHES_WITH_RECORD = 8
#: the same while recording is paused: the bits of gradients depend on where traces end, and values stay in memory
_FLUSHES_WHILE_PAUSED = 1024
_numbers = itertools.count()
#: numbers as arrays, by value and dtype: most are needed again in the next trace
_numbers_converted: dict[Any, Array] = {}
#: those of them that are floating point. Machine code binds these: no operator converts an array beside them
NUMBERS: dict[Any, Array] = {}
_MOST_NUMBERS = 1000
#: stands for zero in the keys of numbers: 0.0 and -0.0 are equal, but different numbers
ZERO = "zero"
_FLOATING = "fV"


def _convert(value: Any, dtype: DType, key: Any) -> Array:
    """Return a number as an array of a dtype, and remember it."""
    if len(_numbers_converted) >= _MOST_NUMBERS:
        _numbers_converted.clear()
        NUMBERS.clear()
    data = _numbers_converted[key] = convert_scalar(value, dtype)
    if dtype.kind in _FLOATING:
        NUMBERS[key] = data
    return data


def number_memory(value: Any, dtype: DType, key: Any) -> Array | None:
    """Return a number as an array of a dtype for machine code, given its key; None if the dtype is no floating one."""
    return _convert(value, dtype, key) if dtype.kind in _FLOATING else None


@slotted
class Trace(Recorder):
    """The pending graph of one thread. Other threads may evaluate and differentiate it; only the owner adds to it.

    Machine code (:mod:`phonograd.core.array.fastcall.native_enter`) reads and changes ``thread``, ``handles``,
    ``leaves``, ``bound``, ``scalars``, ``targets``, ``slots``, ``made``, ``prune_at`` and ``repeats`` directly.
    """

    __slots__ = (
        "__weakref__",
        "_tape",
        "attribution",
        "bound",
        "busy",
        "created",
        "ended",
        "failed",
        "flushes",
        "handles",
        "held_rows",
        "leaves",
        "lock",
        "made",
        "number",
        "position",
        "prune_at",
        "repeats",
        "scalars",
        # of immediate traces: slots behind weak references are in another place before CPython 3.12
        "sequence",
        "slots",
        "targets",
        "thread",
        "values",
    )

    @hot
    def __init__(self) -> None:
        #: the ranges in which operators were called, while observers follow them
        self.attribution: Attribution | None = None
        #: the number of the thread whose current trace this is, for calls of machine code; None keeps them out
        self.thread: int | None = None
        self.number = next(_numbers)
        # the graph: handles that name its nodes, and the memory of its leaves
        self.handles: list[Any] = []
        self.leaves: list[Any] = []
        self.bound: dict[int, Node] = {}
        self.scalars: dict[Any, Node] = {}
        #: handles of gradients that are held as rows
        self.held_rows: list[Any] = []
        # the record: gradient targets by number, and how often each recorded call was made
        self.targets: list[Target] = []
        self.slots: dict[Target, int] = {}
        self.made: dict[Node, int] = {}
        self._tape: Tape | None = None
        # the state of evaluation: values so far, errors, and the position in the plan cache
        self.values: dict[Node, Array] = {}
        self.failed: dict[Node, Exception] = {}
        self.position = PLANS.root
        self.lock = _Lock()
        self.ended = False
        #: whether a thread computes values of this trace
        self.busy = False
        self.flushes = 0
        self.created = 0
        self.prune_at = _PRUNE_AT
        #: whether a handle may be in ``handles`` twice, because it has left the trace and come back
        self.repeats = False

    @property
    def tape(self) -> Tape:
        """The part of the trace that can still be differentiated; most traces that only compute values have none."""
        if self._tape is None:
            with HANDOVER:
                if self._tape is None:
                    self._tape = Tape(self)
        return self._tape

    # -- leaves

    def bind(self, data: Array, context: Context) -> Node:
        """Return the leaf node of some memory; the same memory is the same leaf."""
        found = self.bound.get(id(data))
        if found is None or (found.context is not context and found.context != context):
            found = self.bound[id(data)] = leaf_like(self._new_leaf(data), data, context)
        return found

    def bind_scalar(self, value: Any, dtype: DType, kind: int, context: Context) -> Node:
        """Return the leaf node of a number, so that a number that changes (a learning rate) changes no plan."""
        key = (value, kind) if value else (ZERO, math.copysign(1.0, value), kind)
        found = self.scalars.get(key)
        if found is None or (found.context is not context and found.context != context):
            data = _numbers_converted.get(key)
            if data is None:
                data = _convert(value, dtype, key)
            found = self.scalars[key] = leaf_like(self._new_leaf(data), data, context)
        return found

    def counter(self) -> Node:
        """Return the leaf of the next position in the random stream."""
        data = next_counter()
        return leaf(self._new_leaf(data), data.shape, data.dtype)

    def _new_leaf(self, data: Array) -> int:
        """Return the number of a new leaf with some memory."""
        leaves = self.leaves
        leaves.append(data)
        number = len(leaves) - 1
        while leaves[number] is not data:
            # a signal handler has added leaves meanwhile
            number -= 1
        return number

    # -- the record

    def slot(self, target: Target) -> int:
        """Return the number of a gradient target in this trace."""
        found = self.slots.get(target)
        if found is None:
            with self.lock:
                targets = self.targets
                targets.append(target)
                found = len(targets) - 1
                if targets[found] is not target:
                    # machine code of the owner enters arrays without the lock, while other threads wait
                    found = targets.index(target)
                self.slots[target] = found
            if isinstance(target, Origin):
                target.trace.tape.add_follower(self)
        return found

    @hot
    def distinct(self, node: Node) -> Node:
        """Return a recorded node for one more call: itself the first time, then nodes that repeat it.

        Equal expressions are one node, but two calls are two records: one of them may be differentiated and cleared
        while the other one stays.
        """
        if node.operator is REPEAT_CALL:
            node = node.inputs[0]
        # a call that passes a variable on unchanged is no variable itself
        count = self.made.get(node, 1 if node.operator is VARIABLE else 0)
        self.made[node] = count + 1
        return repeat_call(node, count) if count else node

    # -- handles

    @hot
    def adopt(self, handle: Any) -> None:
        """Note a new handle of this trace."""
        if self.ended:
            self.tape.survivors.append(weakref.ref(handle))
            return
        self.handles.append(handle)
        if len(self.handles) > self.prune_at:
            self.prune()

    def live(self) -> Pairs:
        """Return the live handles, each once, with their nodes; the trace forgets the others.

        Another thread that uses the same array may take a handle over at any moment, so handle and node are read
        together and the pair is used from then on.
        """
        pairs = (MACHINE_CODE.live_handles or referenced)(self, self.handles)
        if self.repeats and len(pairs) > 1:
            pairs = each_once(pairs)
        self._forget_dead(pairs)
        return pairs

    @hot
    def _forget_dead(self, pairs: Pairs) -> None:
        """Forget all handles but the live ones."""
        if LOCAL.trace is self or self.ended:
            dead = len(self.handles) - len(pairs)
            if dead:
                self.created += dead
                self.handles = [pair[0] for pair in pairs]
            self.repeats = False

    def prune(self) -> None:
        """Forget dead handles. Called when the list has grown long without a flush."""
        with self.lock:
            self.prune_at = max(_PRUNE_AT, 2 * len(self.live()))

    # -- values

    def evaluate(self, nodes: tuple[Node, ...], options: Options = KEEP) -> list[Array]:
        """Return the values of nodes (see :func:`phonograd.core.trace.evaluation.evaluate`)."""
        return evaluate(self, nodes, options)

    def value(self, node: Node) -> Array:
        """Return the value of one node; an error of an earlier attempt is raised again."""
        if node in self.failed:
            raise self.failed[node]
        return self.evaluate((node,))[0]

    def flush(self, end: bool = False) -> None:
        """Compute the values of all live handles. Outside of recording this ends a trace on which nothing waits.

        An operator that fails (an index out of range) does not disturb the others: the error is kept, and raised when
        the value of an array that depends on it is needed. The exception of a signal handler is raised at once; pending
        arrays stay pending.
        """
        # the scope of `computing` in one frame: every value that a program reads comes through here
        with self.lock:
            if self.busy:
                check_reentry(self)
            self.busy = True
            number, is_current = None, getattr(LOCAL, "trace", None) is self
            if is_current:
                number, self.thread = self.thread, None
            try:
                if not self._flush_known(end, number):
                    self._flush(end, number)
            finally:
                self.busy = False
                if is_current and not self.ended:
                    self.thread = number

    def computing(self) -> _Computing:
        """Return a scope in which this thread computes values of this trace. The caller holds its lock."""
        return _Computing(self)

    def learn(self, results: list[tuple[Node, Array]]) -> None:
        """Take values that were computed without a plan, and give all live handles their values."""
        with self.lock:
            self.values.update(results)
            # no sequence of plans leads to these values
            self.position = CacheNode()
            self.flush()

    @hot
    def _flush_known(self, end: bool, number: int | None) -> bool:
        """Do what :meth:`_flush` does in one frame, for a graph with a plan; return whether that was possible.

        Nothing has changed if it was not. Observers, errors and unusual arrays are left to :meth:`_flush`.
        """
        if MACHINE_CODE.settle is None or self.ended or self.failed or not is_calm():
            return False
        every = (MACHINE_CODE.live_handles or referenced)(self, self.handles)
        if self.repeats and len(every) > 1:
            every = each_once(every)
        live = self._without_held(every) if self.held_rows else every
        # not of an iterator: tuples of unknown length are cut, and memory of their first length is taken anew each time
        nodes = tuple([node for _, node in live])
        plan = self.position.following.get((nodes, settings.active.executor))
        if plan is None:
            values = self._known(nodes)
            if values is None and end:
                values = fill(self, nodes)
            # a trace that ends does not ask
            waiting = not end and values is not None and waits(nodes)
        else:
            waiting = plan.waits
            values = compute_known(self, plan, not (waiting or (self.flushes and not end)))
        if values is None:
            return False
        self.flushes += 1
        if not end:
            end = not waiting or (self.flushes >= _FLUSHES_WITH_RECORD and not self._is_being_recorded())
        if plan is not None and plan.single_runs >= 0 and end and not plan.donatable and live is every:
            self._note_single(plan, live)
        self._forget_dead(every)
        self._give(live, values, end, number)
        if end:
            PLANS.trim()
        return True

    def _give(self, live: Pairs, values: list[Array], end: bool, number: int | None) -> None:
        """Give live handles their values, and end the trace if that is asked for."""
        with HANDOVER:
            left = MACHINE_CODE.settle(self, live, values, end)  # type: ignore[misc]
            if end:
                self._end(left, number)

    def _note_single(self, plan: CachedPlan, live: Pairs) -> None:
        """Count the uses of a plan for traces of a single call, and have the call learned after some of them."""
        if len(self.handles) > len(self.bound) + _MOST_RESULTS or not len(self.handles) > len(self.bound):
            plan.single_runs = 0
            return
        plan.single_runs += 1
        if plan.single_runs >= SINGLE_RUNS and MACHINE_CODE.learn is not None:
            plan.single_runs = -1
            MACHINE_CODE.learn(plan, live)

    def _flush(self, end: bool, number: int | None) -> None:
        if detection.on and self.attribution is not None:
            self.attribution.note_arrays(self.handles)
        live = self.live()
        if self.held_rows:
            live = self._without_held(live)
        nodes = tuple([node for _, node in live])
        plan = self.position.following.get((nodes, settings.active.executor))
        waiting = waits(nodes) if plan is None else plan.waits
        options = KEEP if waiting or self.ended or (self.flushes and not end) else LAST
        try:
            known = self._known(nodes) if plan is None else None
            values: list[Any] = compute(self, nodes, plan, options) if known is None else known
        except Exception as error:
            if is_from_outside(error):
                raise
            # each error is raised where its value is needed
            values = [self._attempt(node) for node in nodes]
        self.flushes += 1
        if not end and not self.ended:
            end = not waiting or (self.flushes >= _FLUSHES_WITH_RECORD and not self._is_being_recorded())
        with HANDOVER:
            ending, settle = end and not self.ended, MACHINE_CODE.settle
            if settle is not None and not self.failed:
                live = settle(self, live, values, ending)
            else:
                for (handle, node), value in zip(live, values):
                    if handle._node is node and handle._trace is self:
                        handle._buffer = value
            if ending:
                self._end(live, number)
        if end:
            PLANS.trim()

    @hot
    def _without_held(self, live: Pairs) -> Pairs:
        """Return the pairs without gradients that are held as rows: their values are not computed."""
        held = [handle for handle in self.held_rows if handle._trace is self and holds_rows(handle, handle._node)]
        self.held_rows = held
        return [pair for pair in live if not holds_rows(*pair)] if held else live

    @hot
    def _known(self, nodes: tuple[Node, ...]) -> list[Array] | None:
        """Return the values of nodes if all are known or leaves, else None."""
        found, values, leaves = [], self.values, self.leaves
        for node in nodes:
            node = resolve(node)
            value = leaves[node.attributes[0]] if is_numbered_leaf(node) else values.get(node)
            if value is None:
                return None
            found.append(value)
        return found

    def _is_being_recorded(self) -> bool:
        return is_recording() or (self.flushes < _FLUSHES_WHILE_PAUSED and is_paused())

    def _attempt(self, node: Node) -> Array | None:
        """Return the value of a node, or keep the error for the array that needs it."""
        try:
            return self.value(node)
        except Exception as error:
            if is_from_outside(error):
                raise
            # raised where the value is needed
            self.failed[node] = error
            return None

    @hot
    def _end(self, live: Pairs, number: int | None) -> None:
        """End the trace and begin the next one of its thread, given the thread's number for machine code.

        Recorded handles stay on the tape.
        """
        if getattr(LOCAL, "trace", None) is self:
            following = self._successor()
            following.thread = number
            # an exception of a signal handler must not leave an ended trace behind as the current one
            LOCAL.trace = following
            self.ended = True
            if number is not None:
                MACHINE_CODE.note(following)
        self.ended = True
        failed = self.failed
        for handle in self.held_rows:
            if handle._trace is self and holds_rows(handle, handle._node):
                # its rows have left the trace, too
                handle._settle()
        self.held_rows.clear()
        if live:
            self.tape.keep_recorded(live)
        self.handles = [handle for handle, node in live if node in failed] if failed else []
        self.bound.clear()
        self.scalars.clear()

    def _successor(self) -> Trace:
        """Return the next trace of this thread."""
        return ImmediateTrace() if NOVELTY.is_high else Trace()

    # -- observers

    def attributed(self) -> Attribution:
        """Return the ranges in which the expressions of this trace were called."""
        if self.attribution is None:
            self.attribution = Attribution()
        return self.attribution

    def scope_of(self, node: Node) -> str:
        """Return the name of the user's scope in which a node was called, as far as it was noted."""
        if self.attribution is None:
            return open_scope()
        if node in self.made:
            return self.attribution.scope_at(list(self.made).index(node))
        return self.attribution.scope_of(node)


@slotted
class ImmediateTrace(Trace):
    """The trace of a thread whose program is always new: operators that are not recorded compute at once.

    Machine code (:mod:`phonograd.core.array.fastcall.native_immediate`) runs kinds of calls that are known, and changes
    ``sequence``. Other calls add nodes, as to any trace, and are Python functions.
    """

    __slots__ = ()
    is_immediate = True

    def __init__(self) -> None:
        super().__init__()
        #: a number for the immediate calls since the last read of a value; 0 for none
        self.sequence = 0

    def _successor(self) -> Trace:
        following = super()._successor()
        if type(following) is ImmediateTrace:
            following.sequence = self.sequence
        return following

    def note_read(self) -> None:
        """Note that the program reads a value: a sequence of calls that came back ends this state."""
        sequence, self.sequence = self.sequence, 0
        NOVELTY.note_read(sequence)
        if not NOVELTY.is_high:
            begin_recording_trace()


def begin_recording_trace() -> None:
    """Begin an ordinary trace in the place of an immediate one that is empty."""
    trace = LOCAL.trace
    if trace.is_immediate and not trace.handles and not trace.leaves:
        LOCAL.trace = Trace()
        ready_trace()


class _Computing:
    """A scope in which a thread computes values of a trace; it gives the thread's number for machine code."""

    __slots__ = ("_is_current", "_number", "_trace")

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._number: int | None = None

    def __enter__(self) -> int | None:
        trace = self._trace
        if trace.busy:
            check_reentry(trace)
        trace.busy = True
        self._is_current = getattr(LOCAL, "trace", None) is trace
        if self._is_current:
            # no machine code: a signal handler that calls operators meanwhile gets another trace (`ready_trace`)
            self._number, trace.thread = trace.thread, None
        return self._number

    def __exit__(self, *error: object) -> None:
        trace = self._trace
        trace.busy = False
        if self._is_current and not trace.ended:
            trace.thread = self._number


class _Local(threading.local):
    """The current trace of each thread."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.leaving: Leaving | None = None


LOCAL = _Local()


@hot
def ready_trace() -> Trace:
    """Return the current trace to add a node to. Very many pending nodes are evaluated first, unless recorded."""
    trace = LOCAL.trace
    if trace.busy and is_interrupting(trace):
        # a signal handler has interrupted the evaluation of this trace
        LOCAL.trace = trace = Trace()
    if MACHINE_CODE.current is not trace and MACHINE_CODE.thread_number is not None and trace.allows_shortcuts:
        trace.thread = number = MACHINE_CODE.thread_number()
        MACHINE_CODE.note(trace)
        if LOCAL.leaving is None:
            LOCAL.leaving = Leaving(number)
    # arrays are counted, and not the calls of this function: the next turn of a loop makes most of its calls in
    # machine code, and has to be divided at the same places to find its plans again
    if trace.created + len(trace.handles) > settings.active.pending_limit and not is_recording():
        trace.flush(True)
        trace = LOCAL.trace
    return trace


def waitall() -> None:
    """Compute everything that is pending in this thread.

    Examples
    --------
    >>> import phonograd as mx
    >>> y = mx.nd.ones(3) * 2
    >>> mx.nd.waitall()
    """
    LOCAL.trace.flush()
