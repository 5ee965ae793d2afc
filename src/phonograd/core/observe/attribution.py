"""Attribution: which range each expression of a trace was called in, so that kernels can be credited to it.

Expressions are one object however often they are called, so what they are called for is kept beside the trace, and
only while somebody observes: an operator's range for the nodes that its call means (a composite operator means
several), and for the nodes of a gradient the range of the operator that it is the gradient of.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..derive.costs import flops_of
from ..derive.gradient import Gradient
from ..events import (
    BACKWARD_FUNCTION,
    KERNEL,
    LISTENING,
    MEMORY,
    USER_SCOPE,
    Range,
    begin,
    current_range,
    record,
)
from ..graph.node import FORGOTTEN, Node, ancestors
from ..graph.operator import Array
from ..ops.math.structural import DETACH, LEAF, REPEAT_CALL
from ..run.programs import Part, Program
from ..run.reference import resolve
from .allocations import borrowed, hold, owner_of, roles_of, use

__all__ = ["MARKS", "Attribution", "open_scope"]

#: what recording leaves around the node that a call means
MARKS = (DETACH, REPEAT_CALL)

#: names of operators that the name of a kernel shows
_SHOWN = 6

#: how many times the work of an operator another one in its kernel has to do for it not to count
_NEGLIGIBLE = 64


class Attribution:
    """The ranges of the expressions of one trace."""

    __slots__ = ("_backward", "_forward", "_places", "_scopes", "_seen", "calls")

    def __init__(self) -> None:
        self.calls: deque[tuple[Range, Iterable[Node] | None, Any]] = deque()
        """What :meth:`called` notes; instead of sources and results, None and the only node that a call means."""
        self._forward: dict[Node, Range] = {}
        self._backward: dict[Node, Range] = {}
        self._scopes: list[tuple[int, str]] = []
        self._places: dict[Node, str] = {}
        self._seen = (0, 0)

    def change_scope(self, calls: int, arrays: Sequence[Any], left: str, entered: str) -> None:
        """Note the scope in which all calls from now on are, and the one before, after so many recorded calls."""
        if not self._scopes:
            self._scopes.append((0, left))
        self.note_arrays(arrays)
        self._scopes.append((calls, entered))

    def note_arrays(self, arrays: Sequence[Any]) -> None:
        """Note that the arrays of the trace that are not known yet were made in the scope that is open."""
        if self._scopes:
            known, count = self._seen
            for array in arrays[count if known == id(arrays) else 0 :]:
                if array._node is not None:
                    self._places.setdefault(array._node, self._scopes[-1][1])
            self._seen = id(arrays), len(arrays)

    def scope_at(self, call: int) -> str:
        """Return the scope of a recorded call, known by its number; the one that is open if none was noted."""
        if not self._scopes:
            return open_scope()
        return next((name for calls, name in reversed(self._scopes) if calls <= call), "")

    def scope_of(self, node: Node) -> str:
        """Return the scope of a call, known by a node that it means; the one that is open if none was noted."""
        if not self._scopes:
            return open_scope()
        found: dict[Node, str] = {}
        for made, name in self._places.items():
            stack = [made]
            while stack:
                inner = stack.pop()
                if inner not in found:
                    found[inner] = name
                    stack.extend(inner.inputs)
        return found.get(node, "")

    def called(self, entry: Range, sources: Iterable[Node], results: Iterable[Node]) -> None:
        """Note a call of an operator: it means the nodes between its inputs and its results.

        Which ones those are is found out when somebody asks.
        """
        self.calls.append((entry, sources, results))

    def _look_through(self) -> None:
        """Find the nodes that the calls since the last time mean."""
        calls, forward, backward = self.calls, self._forward, self._backward
        while calls:
            try:
                entry, sources, made = calls.popleft()
            except IndexError:  # another thread looks through them too
                return
            if sources is not None:
                self._spread(forward, entry, made, set(sources))
                continue
            for node in (made, made.inputs[0]) if made.operator in MARKS else (made,):
                if node not in backward:
                    forward.setdefault(node, entry)

    def _spread(self, known: dict[Node, Range], entry: Range, results: Iterable[Node], stop: set[Node]) -> None:
        stack = list(results)
        while stack:
            node = stack.pop()
            if node in stop or node.operator is LEAF or node in self._forward or node in self._backward:
                continue
            known[node] = entry
            stack.extend(node.inputs)

    def derived(self, gradient: Gradient) -> None:
        """Tell observers of the gradients of all operators that a backward pass went through, and note their nodes.

        What a composite operator means is one of them, although its nodes have gradients of their own.
        """
        self._look_through()
        by_range = itertools.groupby(gradient.rules, key=lambda rule: self._forward.get(rule[0]))
        for forward, rules in by_range:
            if forward is None:
                for node, grads in rules:
                    origin = self._backward.get(node)
                    self._tell(node.operator.name.lstrip("_") if origin is None else origin.name, origin, [grads])
            else:
                self._tell(forward.name, forward, [grads for _, grads in rules])

    def _tell(self, name: str, forward: Range | None, derived: Iterable[tuple[Node | None, ...]]) -> None:
        if LISTENING[BACKWARD_FUNCTION]:
            number = -1 if forward is None else forward.sequence_nr
            with begin(BACKWARD_FUNCTION, f"_backward_{name}", forward=forward, sequence_nr=number):
                pass
        if forward is not None:
            for grads in derived:
                self._spread(self._backward, forward, [grad for grad in grads if grad is not None], set())

    def ran(self, part: Part, start_ns: int, end_ns: int) -> None:
        """Tell observers of a kernel, or of what NumPy did in the place of one."""
        if self.calls:
            self._look_through()
        facts = _facts_of(part)
        # those who share a kernel do so in equal parts: what is next to nothing beside the rest of it takes none
        least = max(facts.work, default=0) / _NEGLIGIBLE
        serves = [self._range_of(node) for node, work in zip(part.nodes, facts.work) if work >= least]
        backward = sum([work for node, work in zip(part.nodes, facts.work) if node in self._backward])
        record(
            facts.name,
            KERNEL,
            start_ns,
            end_ns,
            operators=facts.operators,
            serves=tuple([entry for entry in serves if entry is not None]),
            flops=facts.flops,
            moved_bytes=facts.moved_bytes,
            phase="backward" if 2 * backward > sum(facts.work) else "forward",
            launches=len(part.kernels),
        )

    def _range_of(self, node: Node) -> Range | None:
        """Return the range that a node was called in; for one that an executor made of another, that one's."""
        found: Range | None = None
        made: Node | None = node
        while found is None and made is not None:
            found = self._forward.get(made) or self._backward.get(made)
            made = made.gradient_of
        return found

    def run(
        self,
        program: Program,
        inputs: list[Any],
        donated: Container[int],
        kept: Sequence[Node],
        arrays: Sequence[Any],
        recorded: bool,
    ) -> list[Array]:
        """Return what a program computes, while observers are told of its kernels and its memory.

        ``kept`` are the nodes of its results; ``arrays`` are those of the trace, which tell what memory is for; what is
        computed while ``recorded`` may be needed for gradients.
        """
        results: list[Array]
        if not LISTENING[MEMORY]:
            results = program.run(inputs, donated, self.ran)
            return results
        self._look_through()
        roles = roles_of(arrays)
        held = [(array, role) for array in arrays if (role := roles.get(id(array))) is not None]
        by_owner = {id(owner_of(array._buffer)): role for array, role in held if array._buffer is not None}
        for value in inputs:
            if isinstance(value, np.ndarray) and value.ndim:
                hold(value, by_owner.get(id(owner_of(value)), "input"))
                use(value)
        sizes = program.memory
        with borrowed({} if sizes is None else {"arena": sizes.arena, "temporary": sizes.other}):
            results = program.run(inputs, donated, self.ran)
        by_node = {resolve(array._node): role for array, role in held if array._node is not None}
        for node, value in zip(kept, results, strict=True):
            backward = node in self._backward and node not in self._forward
            made = "gradient" if backward else "activation" if recorded and node.marked else "temporary"
            hold(value, by_node.get(node, made), self._range_of(node), backward)
            if backward and node in _consumed(program, kept):
                use(value)
        return results


def open_scope() -> str:
    """Return the name of the scope of the user's that is open, or nothing."""
    found = current_range()
    while found is not None and found.scope != USER_SCOPE:
        found = found.parent
    return "" if found is None else found.name


class _Facts(NamedTuple):
    """What is always the same about a part of a program. It is kept with the part, so that this stays alive."""

    part: Part
    name: str
    operators: tuple[str, ...]
    flops: float
    moved_bytes: int
    #: elements that each of the nodes has to look at: the many steps of an update of few weights weigh little
    work: tuple[int, ...]


_known: dict[int, _Facts] = {}
FORGOTTEN.connect(_known.clear)

#: by program, which of its results others are computed from; the program is kept, so that no other one has its identity
_consumers: dict[int, tuple[Any, frozenset[Node]]] = {}
FORGOTTEN.connect(_consumers.clear)


def _consumed(program: Any, kept: Sequence[Node]) -> frozenset[Node]:
    """Return the results of a program from which others of its results are computed."""
    found = _consumers.get(id(program))
    if found is None:
        given = set(program.inputs)
        computed = ancestors(kept, lambda node: node not in given)
        sources = {resolve(source) for node in computed for source in node.inputs}
        found = _consumers.setdefault(id(program), (program, frozenset(sources.intersection(kept))))
    return found[1]


def _facts_of(part: Part) -> _Facts:
    found = _known.get(id(part))
    if found is None:
        operators = tuple([node.operator.name.lstrip("_") for node in part.nodes])
        names = list(dict.fromkeys(operators))
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        name = ", ".join(names[:_SHOWN]) + more
        flops = sum([flops_of(node) for node in part.nodes])
        moved = sum([node.size * node.dtype.itemsize for node in dict.fromkeys(part.memory)])
        work = tuple([max([node.size, *[source.size for source in node.inputs]]) for node in part.nodes])
        found = _known.setdefault(id(part), _Facts(part, name, operators, flops, moved, work))
    return found
