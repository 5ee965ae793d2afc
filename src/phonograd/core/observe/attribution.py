"""Attribution: map each expression of a trace to the range of its call, so that kernels can be credited to it.

Expressions are interned, so the mapping is stored beside the trace, and only while an observer listens. The nodes of an
operator call map to its range (a composite operator has several nodes). The nodes of a gradient map to the range of the
forward operator.
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
from ..run.programs import Note, Part, Program, Progress
from ..run.reference import resolve
from .allocations import hold, note_temporary, owner_of, roles_of, use

__all__ = ["MARKS", "Attribution", "open_scope"]

#: nodes that recording wraps around the result of a call
MARKS = (DETACH, REPEAT_CALL)

#: maximum number of operator names in the name of a kernel
_SHOWN = 6

#: an operator counts as negligible if another one in its kernel does this many times its work
_NEGLIGIBLE = 64


class Attribution:
    """The ranges of the expressions of one trace."""

    __slots__ = ("_backward", "_forward", "_places", "_scopes", "_seen", "calls")

    def __init__(self) -> None:
        self.calls: deque[tuple[Range, Iterable[Node] | None, Any]] = deque()
        """Calls noted so far; a call with a single node has None and the node for sources and results."""
        self._forward: dict[Node, Range] = {}
        self._backward: dict[Node, Range] = {}
        self._scopes: list[tuple[int, str]] = []
        self._places: dict[Node, str] = {}
        self._seen = (0, 0)

    def change_scope(self, calls: int, arrays: Sequence[Any], left: str, entered: str) -> None:
        """Note that the user scope changes from ``left`` to ``entered`` after ``calls`` recorded calls."""
        if not self._scopes:
            self._scopes.append((0, left))
        self.note_arrays(arrays)
        self._scopes.append((calls, entered))

    def note_arrays(self, arrays: Sequence[Any]) -> None:
        """Assign the new arrays of the trace to the open scope."""
        if self._scopes:
            known, count = self._seen
            for array in arrays[count if known == id(arrays) else 0 :]:
                if array._node is not None:
                    self._places.setdefault(array._node, self._scopes[-1][1])
            self._seen = id(arrays), len(arrays)

    def scope_at(self, call: int) -> str:
        """Return the scope of a recorded call by its number; the open scope if none was noted."""
        if not self._scopes:
            return open_scope()
        return next((name for calls, name in reversed(self._scopes) if calls <= call), "")

    def scope_of(self, node: Node) -> str:
        """Return the scope of a call by one of its nodes; the open scope if none was noted."""
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

    def note_call(self, entry: Range, sources: Iterable[Node], results: Iterable[Node]) -> None:
        """Note a call of an operator, which covers the nodes between its inputs and its results.

        The nodes are determined later, on first use.
        """
        self.calls.append((entry, sources, results))

    def _resolve_calls(self) -> None:
        """Determine the nodes of the calls noted since the last time."""
        calls, forward, backward = self.calls, self._forward, self._backward
        while calls:
            try:
                entry, sources, made = calls.popleft()
            except IndexError:  # another thread took the last one
                return
            if sources is not None:
                self._assign_range(forward, entry, made, set(sources))
                continue
            for node in (made, made.inputs[0]) if made.operator in MARKS else (made,):
                if node not in backward:
                    forward.setdefault(node, entry)

    def _assign_range(self, known: dict[Node, Range], entry: Range, results: Iterable[Node], stop: set[Node]) -> None:
        stack = list(results)
        while stack:
            node = stack.pop()
            if node in stop or node.operator is LEAF or node in self._forward or node in self._backward:
                continue
            known[node] = entry
            stack.extend(node.inputs)

    def note_backward(self, gradient: Gradient) -> None:
        """Notify observers of the gradients of all operators in a backward pass, and assign their nodes.

        A composite operator counts as one operator, although its nodes have gradients of their own.
        """
        self._resolve_calls()
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
                self._assign_range(self._backward, forward, [grad for grad in grads if grad is not None], set())

    def note_kernel(self, part: Part, start_ns: int, end_ns: int) -> None:
        """Notify observers of a kernel, or of a NumPy call in its place."""
        if self.calls:
            self._resolve_calls()
        facts = _facts_of(part)
        # split kernel time evenly among its operators, ignoring negligible ones
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
        """Return the range in which a node was called; for a node that an executor derived, that of its origin."""
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
        progress: Progress | None = None,
    ) -> list[Array]:
        """Run a program, notify observers of its kernels and memory, and return its results.

        ``kept`` are the nodes of its results. ``arrays`` are those of the trace; they determine categories of memory.
        With ``recorded``, results may be needed for gradients. ``progress`` receives results early.
        """
        results: list[Array]
        note: Note = self.note_kernel
        if progress is not None:
            progress.seen_by, note = note, progress
        if not LISTENING[MEMORY]:
            results = program.run(inputs, donated, note)
            return results
        self._resolve_calls()
        roles = roles_of(arrays)
        held = [(array, role) for array in arrays if (role := roles.get(id(array))) is not None]
        by_owner = {id(owner_of(array._buffer)): role for array, role in held if array._buffer is not None}
        for value in inputs:
            if isinstance(value, np.ndarray) and value.ndim:
                hold(value, by_owner.get(id(owner_of(value)), "input"))
                use(value)
        sizes = program.memory
        with note_temporary({} if sizes is None else {"arena": sizes.arena, "temporary": sizes.other}):
            results = program.run(inputs, donated, note)
        by_node = {resolve(array._node): role for array, role in held if array._node is not None}
        for node, value in zip(kept, results, strict=True):
            backward = node in self._backward and node not in self._forward
            made = "gradient" if backward else "activation" if recorded and node.marked else "temporary"
            hold(value, by_node.get(node, made), self._range_of(node), backward)
            if backward and node in _find_consumed(program, kept):
                use(value)
        return results


def open_scope() -> str:
    """Return the name of the user scope that is open; empty if there is none."""
    found = current_range()
    while found is not None and found.scope != USER_SCOPE:
        found = found.parent
    return "" if found is None else found.name


class _Facts(NamedTuple):
    """The constant facts of a part of a program. It refers to the part, to keep its identity unique."""

    part: Part
    name: str
    operators: tuple[str, ...]
    flops: float
    moved_bytes: int
    #: elements that each node reads or writes: the many steps of a small weight update weigh little
    work: tuple[int, ...]


_known: dict[int, _Facts] = {}
FORGOTTEN.connect(_known.clear)

#: for each program, its results that are inputs of other results; it refers to the program, to keep its identity unique
_consumers: dict[int, tuple[Any, frozenset[Node]]] = {}
FORGOTTEN.connect(_consumers.clear)


def _find_consumed(program: Any, kept: Sequence[Node]) -> frozenset[Node]:
    """Return the results of a program from which it computes others of its results."""
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
