"""Tape: the part of a trace that can still be differentiated, and how long it lives.

Takes handles, nodes and values of one :class:`~phonograd.core.trace.trace.Trace`; hands gradient targets to later
traces and to the backward pass (:mod:`phonograd.core.backward.backward`). A trace may end while its tape lives on:
arrays that were recorded keep it alive, and a later trace that uses such an array links back to it (:class:`Origin`). A
backward pass that clears what it went through (:meth:`Tape.clear`) makes those arrays plain ones and frees the values
that nothing else needs. See docs/decisions/0002.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..base.devices import CPU, Context
from ..graph.node import Node
from ..graph.operator import Array
from ..ops.math.structural import LEAF, OVERWRITTEN, REPEAT_CALL, VARIABLE, detach, leaf, repeat_call, variable
from ..plan.cache import PLANS, CachedPlan, CacheNode, starting_points
from ..run.reference import resolve
from .owner import HANDOVER, Pairs

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["Origin", "Tape", "Target"]


class Target:
    """A place at which gradients leave a trace."""

    __slots__ = ()

    #: whether gradients go on from here, so that a backward pass that clears its record also clears this node
    continues = True

    def refuse(self) -> None:
        """Raise, because gradients have arrived at a target that cannot take them."""
        raise AssertionError(f"gradients arrived at {self!r}")


class Origin(Target):
    """The node of an earlier trace by which an array was recorded: gradients continue there."""

    __slots__ = ("node", "trace")

    def __init__(self, trace: Trace, node: Node) -> None:
        self.trace = trace
        self.node = node


def _recorded_as(node: Node) -> Node:
    """Return the node by which the tape knows an array: the one before it was overwritten outside of recording."""
    return node.inputs[1] if node.operator is OVERWRITTEN else node


class Tape:
    """The recorded calls of one trace: their outputs, the arrays that outlive the trace, and the traces that follow.

    The tape belongs to its trace and refers to it weakly, so that both are freed without a garbage collection.
    """

    __slots__ = ("_trace", "followers", "lent", "siblings", "survivors")

    def __init__(self, trace: Trace) -> None:
        # a tape is found through its trace, so the reference is never dead
        self._trace: Callable[[], Trace] = weakref.ref(trace)  # type: ignore[assignment]
        #: the outputs of each recorded call that has several, by each of them
        self.siblings: dict[Node, tuple[Node, ...]] = {}
        #: recorded arrays of a trace that has ended
        self.survivors: list[weakref.ref[Any]] = []
        #: later traces that use arrays recorded here
        self.followers: weakref.WeakSet[Trace] | None = None
        #: the number of leaves for memory that backward passes brought from other traces
        self.lent = 0

    # -- links between traces

    def target_of(self, node: Node) -> Target:
        """Return the gradient target of a marked node in a later trace: a variable itself, or an Origin."""
        trace = self._trace()
        if node.operator is VARIABLE:
            target: Target = trace.targets[node.attributes[0]]
            if isinstance(target, Origin) or not target.continues:
                return target
        return Origin(trace, node)

    def add_follower(self, trace: Trace) -> None:
        """Note a later trace that uses an array recorded here."""
        if self.followers is None:
            self.followers = weakref.WeakSet()
        self.followers.add(trace)

    def lend(self, data: Array, context: Context, place: int | None = None) -> Node:
        """Return a leaf for memory that a backward pass brings from another trace, numbered apart from the others.

        With a place, the leaf is valid for one evaluation, which must be given the memory; otherwise it stays valid.
        """
        trace = self._trace()
        with trace.lock:
            if place is not None:
                return leaf(-1 - self.lent - place, data.shape, data.dtype, context)
            self.lent += 1
            node = leaf(-self.lent, data.shape, data.dtype, context)
            trace.values[node] = data
            return node

    # -- the end of the trace

    def keep_recorded(self, live: Pairs) -> None:
        """Keep the recorded handles of a trace that ends; the others leave it, because they have their values."""
        trace = self._trace()
        targets, failed, survivors = trace.targets, trace.failed, self.survivors
        for handle, node in live:
            if handle._trace is not trace or (failed and node in failed):
                continue
            if not node.marked:
                if node.context is CPU:
                    handle._trace = handle._node = None
                else:
                    handle._settle()
            elif node.operator is VARIABLE:
                target = targets[node.attributes[0]]
                if isinstance(target, Origin):
                    handle._trace, handle._node = target.trace, target.node
                elif handle._variable is target:
                    handle._settle()
                else:
                    survivors.append(weakref.ref(handle))
            else:
                survivors.append(weakref.ref(handle))

    # -- clearing

    def clear(self, visited: frozenset[Node]) -> None:
        """Take the nodes of a backward pass off the tape.

        Handles that name them become plain arrays, and values that nothing needs any more are freed.
        """
        trace = self._trace()
        with trace.lock:
            known = self._known_handles() if self.survivors else trace.live()
            for handle, node in known:
                if not node.marked:
                    continue
                if node.operator is VARIABLE:
                    if not trace.targets[node.attributes[0]].continues or not self.is_swept(node, visited):
                        continue
                elif node not in visited and not self.is_swept(_recorded_as(node), visited):
                    continue
                self._cut(handle, node)
            if trace.ended:
                self._release([handle for handle, _ in known])
            if trace.values:
                self._free(
                    [node for handle, _ in known if (node := handle._node) is not None and handle._trace is trace]
                )
        if self.followers:
            for follower in list(self.followers):
                follower.tape._lose_origins(trace, visited)

    def is_swept(self, node: Node, visited: frozenset[Node]) -> bool:
        """Return whether a backward pass went through the call of a node, by this output or another one."""
        if node.operator is VARIABLE and not self._trace().targets[node.attributes[0]].continues:
            return False
        if node in visited:
            return True
        if not self.siblings:
            return False
        call, count = (node.inputs[0], node.attributes[0]) if node.operator is REPEAT_CALL else (node, 0)
        return any([repeat_call(sibling, count) in visited for sibling in self.siblings.get(call, ())])

    def _known_handles(self) -> Pairs:
        """Return the handles on this tape, with their nodes: those of the trace, and those that outlive it."""
        trace = self._trace()
        survivors = [handle for reference in self.survivors if (handle := reference()) is not None]
        return trace.live() + [(h, node) for h in survivors if (node := h._node) is not None and h._trace is trace]

    def _cut(self, handle: Any, node: Node) -> None:
        """Make a handle a plain array, or a variable again if it is one."""
        trace = self._trace()
        plain, extras = node.detached or detach(node), handle._extras
        if extras is not None and extras.variable is not None:
            plain = variable(plain, trace.slot(extras.variable))
        with HANDOVER:
            if handle._node is node and handle._trace is trace:
                handle._node = plain
                if extras is not None and extras.region is not None:
                    extras.region = (*extras.region[:2], False)

    def _lose_origins(self, origin: Trace, visited: frozenset[Node]) -> None:
        """Cut the arrays that were recorded in an earlier trace and have been cleared there."""
        trace = self._trace()
        with trace.lock:
            for handle, node in self._known_handles():
                entry = _recorded_as(node)
                target = trace.targets[entry.attributes[0]] if entry.operator is VARIABLE else None
                if isinstance(target, Origin) and target.trace is origin and origin.tape.is_swept(target.node, visited):
                    self._cut(handle, node)

    def _free(self, nodes: list[Node]) -> None:
        """Drop all values but those of some nodes and those from which they will be computed."""
        trace = self._trace()
        sources = tuple(dict.fromkeys([resolve(node) for node in nodes]))
        key = ("cleared", sources)
        plan = trace.position.following.get(key)
        if plan is None:
            needed = starting_points(sources, trace.values)
            plan = trace.position.following.setdefault(key, CachedPlan(CacheNode(), needed, trace.values, False))
            PLANS.count_plan(plan)
        plan.used = PLANS.tick
        trace.position = plan.following
        kept = set(plan.sources)
        trace.values = {node: value for node, value in trace.values.items() if node in kept or node.operator is LEAF}

    def _release(self, handles: list[Any]) -> None:
        """Let plain arrays of an ended trace leave it: they have their values."""
        trace = self._trace()
        for handle in handles:
            node, buffer = handle._node, handle._buffer
            # a signal handler that uses arrays may have settled some of them meanwhile
            if node is not None and buffer is not None and (not node.marked or self._is_own(node, handle._variable)):
                handle._settle()
        self.survivors = [r for r in self.survivors if (h := r()) is not None and h._trace is trace]

    def _is_own(self, node: Node, owner: Any) -> bool:
        """Return whether the node of a variable names its own value, and is not just a result equal to it."""
        return node.operator is VARIABLE and owner is not None and self._trace().targets[node.attributes[0]] is owner
