"""Trace: what one thread has pending, and the record of what can still be differentiated.

Handles (NDArrays) name nodes of a trace; the trace binds leaf numbers to memory. A value is computed when somebody
asks for one (:meth:`Trace.flush`): the nodes of all live handles are looked up as one key, and the plan found under it
runs.

A trace ends when a value is asked for outside of recording and nothing recorded is waiting to be differentiated, or
when the outermost ``record()`` is entered. Leaf numbering then starts again, so the next iteration of a loop finds the
same nodes and the same plan. Arrays recorded in an ended trace keep it alive: it can still be differentiated, and a
later trace that uses such an array links back to it (:class:`Origin`).

Handles are duck-typed here (:class:`phonograd.core.array.handle.Handle`): a handle whose ``_trace`` is this trace
stands in ``trace.handles``; ``_buffer`` is its value once that is known.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
import weakref
from collections import ChainMap
from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import Any

from ..base import settings
from ..base.devices import CPU, Context
from ..base.dtypes import DType, convert_scalar
from ..events import COMPILATION, EVALUATION, LISTENING, begin
from ..graph.node import Node, statistics
from ..graph.operator import Array
from ..observe.anomaly import check, detection
from ..observe.attribution import Attribution, open_scope
from ..ops.math.structural import (
    LEAF,
    OVERWRITTEN,
    REPEAT_CALL,
    VARIABLE,
    again,
    detach,
    leaf,
    leaf_like,
    variable,
)
from ..plan.cache import (
    PLANS,
    WHEN_REPEATING,
    CachedPlan,
    CacheNode,
    build,
    new_cached_plan,
    repeating,
    starting_points,
    waits,
)
from ..run.donation import donate
from ..run.reference import resolve
from . import liveness
from .flags import is_recording
from .owner import THREADS, Leaving

__all__ = [
    "HANDOVER",
    "LOCAL",
    "Capturing",
    "Origin",
    "Target",
    "Trace",
    "ready_trace",
    "use_settling",
    "waitall",
]

_UNWATCHED = contextlib.nullcontext()
_PRUNE_AT = 4096
_FLUSHES_WITH_RECORD = 8
_numbers = itertools.count()
#: numbers as arrays, by value and dtype: most are asked for again in the next trace
_numbers_converted: dict[Any, Array] = {}
_MOST_NUMBERS = 1000

#: held for the few assignments that make a handle name something else, where another thread may do the same. Reading
#: without it is safe in this order: the node, then the trace; writing in the other: the trace, then the node.
HANDOVER = threading.RLock()
if hasattr(os, "register_at_fork"):
    # a process that is forked while another thread has the lock would wait for it for ever
    os.register_at_fork(before=HANDOVER.acquire, after_in_parent=HANDOVER.release, after_in_child=HANDOVER.release)


class Target:
    """What gradients arrive at when they leave a trace."""

    __slots__ = ()

    #: whether gradients go on from here, so that a backward pass that clears the record clears what leads here
    continues = True

    def refuse(self) -> None:
        """Raise, because gradients have arrived where nothing can be done with them."""
        raise AssertionError(f"gradients arrived at {self!r}")


class Origin(Target):
    """Where an array of an earlier trace was recorded: a gradient target that continues there."""

    __slots__ = ("node", "trace")

    def __init__(self, trace: Trace, node: Node) -> None:
        self.trace = trace
        self.node = node


def _recorded_as(node: Node) -> Node:
    """Return the node by which the record knows an array: the one before it was overwritten outside of recording."""
    return node.inputs[1] if node.operator is OVERWRITTEN else node


class Trace:
    """Pending work of one thread. Other threads may evaluate and differentiate it, but only the owner adds to it."""

    __slots__ = (
        "__weakref__",
        "attribution",
        "bound",
        "created",
        "ended",
        "failed",
        "flushes",
        "followers",
        "handles",
        "leaves",
        "lent",
        "lock",
        "made",
        "number",
        "prune_at",
        "repeats",
        "scalars",
        "siblings",
        "slots",
        "stage",
        "survivors",
        "targets",
        "thread",
        "values",
    )

    def __init__(self) -> None:
        #: the ranges in which operators were called, while somebody observes them
        self.attribution: Attribution | None = None
        #: the number of the thread whose current trace this is, for calls that are machine code; None keeps them out
        self.thread: int | None = None
        self.number = next(_numbers)
        self.handles: list[Any] = []
        self.survivors: list[weakref.ref[Any]] = []
        self.leaves: list[Any] = []
        self.bound: dict[int, Node] = {}
        self.scalars: dict[Any, Node] = {}
        self.values: dict[Node, Array] = {}
        self.targets: list[Target] = []
        self.slots: dict[Target, int] = {}
        self.failed: dict[Node, Exception] = {}
        self.made: dict[Node, int] = {}
        self.siblings: dict[Node, tuple[Node, ...]] = {}
        self.followers: weakref.WeakSet[Trace] | None = None
        self.lent = 0
        self.stage = PLANS.root
        self.lock = threading.RLock()
        self.ended = False
        self.flushes = 0
        self.created = 0
        self.prune_at = _PRUNE_AT
        #: whether a handle may stand twice among the handles: it has left the trace and come back
        self.repeats = False

    # -- leaves

    def bind(self, data: Array, context: Context) -> Node:
        """Return the leaf node of some memory; the same memory is the same leaf."""
        found = self.bound.get(id(data))
        if found is None or (found.context is not context and found.context != context):
            leaves = self.leaves
            found = leaf_like(len(leaves), data, context)
            leaves.append(data)
            self.bound[id(data)] = found
        return found

    def bind_scalar(self, value: Any, dtype: DType, kind: int, context: Context) -> Node:
        """Return the leaf node of a number, so that a number that changes (a learning rate) changes no plan."""
        # 0.0 and -0.0 are equal as keys but are different numbers; NaN is never found
        key = (value, kind) if value else ("zero", math.copysign(1.0, value), kind)
        found = self.scalars.get(key)
        if found is None or (found.context is not context and found.context != context):
            data = _numbers_converted.get(key)
            if data is None:
                if len(_numbers_converted) >= _MOST_NUMBERS:
                    _numbers_converted.clear()
                data = _numbers_converted[key] = convert_scalar(value, dtype)
            found = self.scalars[key] = leaf_like(len(self.leaves), data, context)
            self.leaves.append(data)
        return found

    def slot(self, target: Target) -> int:
        """Return the number under which a gradient target is known in this trace."""
        found = self.slots.get(target)
        if found is None:
            with self.lock:
                targets = self.targets
                targets.append(target)
                found = len(targets) - 1
                if targets[found] is not target:
                    # the owner of the trace enters arrays without the lock, while other threads wait
                    found = targets.index(target)
                self.slots[target] = found
            if isinstance(target, Origin):
                if target.trace.followers is None:
                    target.trace.followers = weakref.WeakSet()
                target.trace.followers.add(self)
        return found

    def target_of(self, node: Node) -> Target:
        """Return what a marked node of this trace stands for to a later trace: a variable itself, or an Origin."""
        if node.operator is VARIABLE:
            target: Target = self.targets[node.attributes[0]]
            if isinstance(target, Origin) or not target.continues:
                return target
        return Origin(self, node)

    def distinct(self, node: Node) -> Node:
        """Return a recorded node for one more call: itself the first time, then nodes that repeat it.

        Equal expressions are one node, but two calls are two records: one of them may be differentiated and cleared
        while the other one stays.
        """
        if node.operator is REPEAT_CALL:
            node = node.inputs[0]
        # what passes a variable on unchanged is no variable itself
        count = self.made.get(node, 1 if node.operator is VARIABLE else 0)
        self.made[node] = count + 1
        return again(node, count)

    def lend(self, data: Array, context: Context, place: int | None = None) -> Node:
        """Return a leaf for memory that a backward pass brings from another trace, numbered apart from the others.

        With a place it is good for one :meth:`evaluate`, which must be given the memory; otherwise for ever.
        """
        with self.lock:
            if place is not None:
                return leaf(-1 - self.lent - place, data.shape, data.dtype, context)
            self.lent += 1
            node = leaf(-self.lent, data.shape, data.dtype, context)
            self.values[node] = data
            return node

    # -- evaluation

    def evaluate(
        self,
        nodes: tuple[Node, ...],
        lent: Mapping[Node, Array] | None = None,
        last: bool = False,
        step: CachedPlan | None = None,
    ) -> list[Array]:
        """Return the values of nodes, computing what is not there yet. What a record may need again is kept.

        What is computed from ``lent`` leaves is not kept: they stand for something else the next time. With ``last``
        nothing more will be asked of this trace, so memory that only it refers to may be written over. ``step`` is what
        is remembered of such an evaluation, if the caller has looked for it.
        """
        with self.lock:
            if step is None or step.is_provisional:
                key = (nodes, settings.active.executor) if lent is None else (nodes, settings.active.executor, "lent")
                step = self.stage.following.get(key)
            if step is None or step.is_provisional:
                step = self._new_step(key, step is not None, lent is None and waits(nodes))
            elif WHEN_REPEATING:
                repeating()
            step.used = PLANS.tick
            values: Any = self.values if lent is None else ChainMap(dict(lent), self.values)
            leaves, program = self.leaves, step.program
            if program is not None:
                statistics.evaluations += 1
                inputs = [values[node] if index is None else leaves[index] for index, node in step.inputs]
                if last and step.donatable and not detection.on:
                    donated = donate(leaves, step.donatable, step.inputs)
                    if donated is not None:
                        # results are kept, because nobody can compute them again
                        run, keep = partial(self._run, step, inputs, donated), partial(self._keep, step)
                        donated.run(program, run, keep)
                        return [values[node] if index is None else leaves[index] for index, node in step.places]
                results = self._run(step, inputs) if settings.active.watched else program.run(inputs)
                if detection.on:
                    check(step.kept, results, zip(program.inputs, inputs, strict=True), build, self._scope_of)
                if last and step.results is not None:
                    # nobody will look for values here, but for threads that have just begun to: they compute again
                    return [results[number] if index is None else leaves[index] for index, number in step.results]
                values.update(zip(step.kept, results))
                if lent is None:
                    self.stage = step.following
            return [values[node] if index is None else leaves[index] for index, node in step.places]

    def _new_step(self, key: Any, again: bool, keep_all: bool) -> CachedPlan:
        """Return a new evaluation; ``again`` says that there was a provisional one. Observers ask for plans."""
        observed = settings.active.watched or detection.on or type(self) is not Trace
        with begin(COMPILATION, "compilation") if LISTENING[COMPILATION] else _UNWATCHED:
            step = new_cached_plan(self.stage, key[0], self.values, keep_all, again, observed)
        self.stage.following[key] = step
        PLANS.made()
        return step

    def _keep(self, step: CachedPlan, results: list[Array]) -> None:
        self.values.update(zip(step.kept, results))
        self.stage = step.following

    def _run(self, step: CachedPlan, inputs: list[Any], donated: Container[int] = ()) -> list[Array]:
        """Return what a program computes; observers are told of each of its kernels."""
        program: Any = step.program
        if not settings.active.watched:
            return program.run(inputs, donated)  # type: ignore[no-any-return]
        attribution = self.attributed()
        with begin(EVALUATION, "evaluation"):
            return attribution.run(program, inputs, donated, step.kept, self.handles, bool(self.made))

    def _scope_of(self, node: Node) -> str:
        """Return the scope of the user's in which a node was called, as far as that was noted."""
        if self.attribution is None:
            return open_scope()
        if node in self.made:
            return self.attribution.scope_at(list(self.made).index(node))
        return self.attribution.scope_of(node)

    def attributed(self) -> Attribution:
        """Return what is known about the ranges of this trace's expressions."""
        if self.attribution is None:
            self.attribution = Attribution()
        return self.attribution

    def value(self, node: Node) -> Array:
        """Return the value of one node; an error of an earlier attempt is raised again."""
        if node in self.failed:
            raise self.failed[node]
        return self.evaluate((node,))[0]

    def flush(self, end: bool = False) -> None:
        """Compute the values of all live handles. Ends the trace outside of recording when nothing waits on it.

        An operator that fails (an index out of range) does not disturb the others: the error is kept and raised when
        the value of an array that depends on it is asked for.
        """
        with self.lock:
            if detection.on and self.attribution is not None:
                self.attribution.note_arrays(self.handles)
            live = self.live()
            nodes = tuple([node for _, node in live])
            step = self.stage.following.get((nodes, settings.active.executor))
            waiting = waits(nodes) if step is None else step.waits
            # nobody can ask for other values if this is the end
            last = not (waiting or self.ended or (self.flushes and not end)) and type(self) is Trace
            try:
                values: list[Any] = self.evaluate(nodes, None, last, step) if nodes else []
            except Exception:  # noqa: BLE001 - each error is raised where its value is asked for
                values = [self._attempt(node) for node in nodes]
            self.flushes += 1
            if not end and not self.ended:
                end = not waiting or (self.flushes >= _FLUSHES_WITH_RECORD and not is_recording())
            with HANDOVER:
                ending = end and not self.ended
                if _settle is not None and not self.failed:
                    live = _settle(self, live, values, ending)
                else:
                    for (handle, node), value in zip(live, values):
                        if handle._node is node and handle._trace is self:
                            handle._buffer = value
                if ending:
                    self._end(live)
            if end:
                PLANS.trim()

    def _attempt(self, node: Node) -> Array | None:
        try:
            return self.value(node)
        except Exception as error:  # noqa: BLE001 - raised where the value is asked for
            self.failed[node] = error
            return None

    def live(self) -> list[tuple[Any, Node]]:
        """Return the handles that somebody still refers to, each once, with their nodes; the rest is forgotten.

        Another thread that uses the same array may take a handle over at any moment, so handle and node are read
        together and the pair is used from then on.
        """
        pairs = liveness.referenced(self, self.handles)
        if self.repeats and len(pairs) > 1:
            pairs = list({id(pair[0]): pair for pair in pairs}.values())
        if LOCAL.trace is self or self.ended:
            self.created += len(self.handles) - len(pairs)
            self.handles = [pair[0] for pair in pairs]
            self.repeats = False
        return pairs

    def prune(self) -> None:
        """Forget dead handles; called when the list has grown long without a flush."""
        with self.lock:
            self.prune_at = max(_PRUNE_AT, 2 * len(self.live()))

    def _end(self, live: list[tuple[Any, Node]]) -> None:
        self.ended = True
        if getattr(LOCAL, "trace", None) is self:
            LOCAL.trace = following = Trace()
            following.thread, self.thread = self.thread, None
            if following.thread is not None:
                THREADS.note(following)
        failed = self.failed
        for handle, node in live:
            if handle._trace is not self or (failed and node in failed):
                continue
            if not node.marked:
                if node.context is CPU:
                    handle._trace = handle._node = None
                else:
                    handle._settle()
            elif node.operator is VARIABLE:
                target = self.targets[node.attributes[0]]
                if isinstance(target, Origin):
                    handle._trace, handle._node = target.trace, target.node
                elif handle._variable is target:
                    handle._settle()
                else:
                    self.survivors.append(weakref.ref(handle))
            else:
                self.survivors.append(weakref.ref(handle))
        self.handles = [handle for handle, node in live if node in failed] if failed else []
        self.bound.clear()
        self.scalars.clear()

    # -- forgetting

    def adopt(self, handle: Any) -> None:
        """Note a new handle of this trace."""
        if self.ended:
            self.survivors.append(weakref.ref(handle))
            return
        self.handles.append(handle)
        if len(self.handles) > self.prune_at:
            self.prune()

    def clear(self, visited: frozenset[Node]) -> None:
        """Take nodes out of the record: handles on them become plain arrays, values nobody needs are freed."""
        with self.lock:
            known = self._known_handles()
            for handle, node in known:
                if not node.marked:
                    continue
                if node.operator is VARIABLE:
                    if not self.targets[node.attributes[0]].continues or not self._is_swept(node, visited):
                        continue
                elif node not in visited and not self._is_swept(_recorded_as(node), visited):
                    continue
                self._cut(handle, node)
            if self.ended:
                self._release([handle for handle, _ in known])
            if self.values:
                self._free(
                    [node for handle, _ in known if (node := handle._node) is not None and handle._trace is self]
                )
        if self.followers:
            for follower in list(self.followers):
                follower._lose_origins(self, visited)

    def _known_handles(self) -> list[tuple[Any, Node]]:
        if not self.survivors:
            return self.live()
        survivors = [handle for reference in self.survivors if (handle := reference()) is not None]
        return self.live() + [(h, node) for h in survivors if (node := h._node) is not None and h._trace is self]

    def _is_swept(self, node: Node, visited: frozenset[Node]) -> bool:
        """Return whether a backward pass went through the call that made a node, by this or another of its outputs."""
        if node.operator is VARIABLE and not self.targets[node.attributes[0]].continues:
            return False
        if node in visited:
            return True
        if not self.siblings:
            return False
        call, count = (node.inputs[0], node.attributes[0]) if node.operator is REPEAT_CALL else (node, 0)
        return any([again(sibling, count) in visited for sibling in self.siblings.get(call, ())])

    def _cut(self, handle: Any, node: Node) -> None:
        """Make a handle on a node of this trace a plain array, or a variable again if it is one."""
        plain, extras = node.detached or detach(node), handle._extras
        if extras is not None and extras.variable is not None:
            plain = variable(plain, self.slot(extras.variable))
        with HANDOVER:
            if handle._node is node and handle._trace is self:
                handle._node = plain
                if extras is not None and extras.region is not None:
                    extras.region = (*extras.region[:2], False)

    def _lose_origins(self, origin: Trace, visited: frozenset[Node]) -> None:
        """Cut what was recorded in an earlier trace, entered this one, and has been cleared there."""
        with self.lock:
            for handle, node in self._known_handles():
                entry = _recorded_as(node)
                target = self.targets[entry.attributes[0]] if entry.operator is VARIABLE else None
                if isinstance(target, Origin) and target.trace is origin and origin._is_swept(target.node, visited):
                    self._cut(handle, node)

    def _free(self, nodes: list[Node]) -> None:
        """Forget all values but those of some nodes and those they will be computed from."""
        sources = tuple(dict.fromkeys([resolve(node) for node in nodes]))
        key = ("cleared", sources)
        step = self.stage.following.get(key)
        if step is None:
            needed = starting_points(sources, self.values)
            step = self.stage.following.setdefault(key, CachedPlan(CacheNode(), needed, self.values, False))
            PLANS.made()
        step.used = PLANS.tick
        self.stage = step.following
        kept = set(step.sources)
        self.values = {node: value for node, value in self.values.items() if node in kept or node.operator is LEAF}

    def _is_own(self, handle: Any) -> bool:
        """Return whether a handle is a variable that names its own value (and not just a result equal to it)."""
        node, owner = handle._node, handle._variable
        return node.operator is VARIABLE and owner is not None and self.targets[node.attributes[0]] is owner

    def _release(self, handles: list[Any]) -> None:
        """Let plain arrays of an ended trace go: they have their value."""
        for handle in handles:
            node = handle._node
            if handle._buffer is not None and (not node.marked or self._is_own(handle)):
                handle._settle()
        self.survivors = [r for r in self.survivors if (h := r()) is not None and h._trace is self]


class Capturing(Trace):
    """A trace in which a function runs that will be repeated without being called (:mod:`..capture.capture`).

    Arrays that were there before stay as they are: reading and changing them is noted, and done to them later.
    """

    __slots__ = ()

    def enter(self, handle: Any) -> Node:
        """Return the node that stands for the value of an array from outside."""
        raise NotImplementedError

    def write(self, handle: Any, node: Node) -> None:
        """Note that an array from outside is changed."""
        raise NotImplementedError

    def counter(self) -> Node:
        """Return the node that stands for the next place in the random stream."""
        raise NotImplementedError

    def repeat(self, action: Callable[[], None]) -> None:
        """Have something done after each repetition of the function."""
        raise NotImplementedError

    def note_read(self) -> None:
        """Note that the function looks at a value, on which anything it does later may depend."""
        raise NotImplementedError

    def refuse(self, reason: str) -> None:
        """Give up, because the function does something that cannot be noted; it will be called after all."""
        raise NotImplementedError


class _Local(threading.local):
    """The current trace of each thread."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.leaving: Leaving | None = None


LOCAL = _Local()

_settle: Callable[[Trace, list[Any], list[Any], bool], list[Any]] | None = None


def use_settling(function: Callable[[Trace, list[Any], list[Any], bool], list[Any]]) -> None:
    """Set a function that gives arrays their values and lets them go; it returns those that it leaves to others."""
    global _settle
    _settle = function


def ready_trace() -> Trace:
    """Return the current trace to add a new node to; evaluates first when very many are pending and none recorded."""
    trace = LOCAL.trace
    if THREADS.noted is not trace and THREADS.number is not None and type(trace) is Trace:
        trace.thread = number = THREADS.number()
        THREADS.note(trace)
        if LOCAL.leaving is None:
            LOCAL.leaving = Leaving(number)
    # arrays are counted, not calls that come here: the next turn of a loop makes most of its calls elsewhere, and has
    # to be divided in the same places to find its plans again
    if trace.created + len(trace.handles) > settings.current().pending_limit and not is_recording():
        trace.flush(end=True)
        trace = LOCAL.trace
    return trace


def waitall() -> None:
    """Compute everything that is pending in this thread."""
    LOCAL.trace.flush()
