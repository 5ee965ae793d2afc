"""Views: where the values of a plan are read. A location computes nothing: it is a pattern over another value's memory.

Takes the order of nodes from :mod:`~phonograd.core.plan.expansion`; the parts of the planner that write kernels read
it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..base.dtypes import DType
from ..graph.node import Node, Shape
from ..graph.operator import Operator
from ..lower.lowering import Location
from ..lower.pattern import Pattern
from .expansion import Order
from .group import Read, View, line_strides, squeeze

__all__ = ["BARRIER", "Move", "Moves", "Views", "over"]

#: the steps from the pattern of a value in memory to that of a view of it
Moves = tuple["Move", ...]

#: steps between a view and its memory above which they are not listed
MOST_MOVES = 8


def _barrier(data: Any, after: Any) -> Any:
    """Return a value, once another one is there."""
    return data


class _Barrier(Location):
    """The elements of the first input, unchanged."""

    def fits(self, out: DType, sources: Iterable[DType]) -> bool:
        """Return True: dtypes do not matter where a value is only read."""
        return True


#: ``BARRIER(data, after)`` is a view of ``data`` that is read only after ``after`` is computed
BARRIER = Operator(_barrier, cost=0.0, lowering=_Barrier(lambda pattern: pattern))


class Move(NamedTuple):
    """One step from the pattern of a node to that of a view of it."""

    rule: Callable[..., Pattern | None]
    parameters: tuple[tuple[str, Any], ...]

    def __call__(self, pattern: Pattern) -> Pattern | None:
        """Return the pattern of the elements; None if no pattern describes them."""
        found: Pattern | None = _move(pattern, self.rule, self.parameters)
        return found


@functools.lru_cache(4096)
def _move(pattern: Pattern, rule: Callable[..., Pattern | None], parameters: tuple[tuple[str, Any], ...]) -> Any:
    return rule(pattern, **dict(parameters))


class Views:
    """The memory patterns by which values are read.

    Parameters
    ----------
    order
        The nodes to compute.
    copy
        Writes the value of a node to memory in order.
    """

    def __init__(self, order: Order, copy: Callable[[Node], None]) -> None:
        self._lowerings, self._below = order.lowerings, order.below
        self._copy = copy
        self._views: dict[Node, View] = {}
        #: values that are read from their own memory, or need none
        self._own: dict[Node, View] = {}
        #: by view the node it is made of and the last step to it
        self._moves: dict[Node, tuple[Node, Move]] = {}
        self._reads: dict[tuple[Node, Shape], Read] = {}

    def __contains__(self, node: Node) -> bool:
        """Return whether a node is read from the memory of another."""
        return node in self._views

    def needs_no_memory(self, node: Node) -> bool:
        """Return whether kernels make the value of a node wherever they read it."""
        lowering = self._lowerings.get(node)
        return lowering is not None and lowering.needs_no_memory

    def of(self, node: Node) -> View:
        """Return how a value is read."""
        found = self._views.get(node) or self._own.get(node)
        if found is None:
            lowering = self._lowerings.get(node)
            # inputs have no lowering here
            pattern = Pattern.contiguous(node.shape) if lowering is None else lowering.pattern(node)
            found = self._own[node] = View(node, pattern)
        return found

    def in_memory(self, node: Node) -> View:
        """Return how a value is read from memory; one that is not in memory is written there."""
        view = self.of(node)
        return self.in_order(node) if view.pattern.bounds or self.needs_no_memory(view.source) else view

    def in_order(self, node: Node) -> View:
        """Return how a value is read from memory in which its elements follow each other."""
        view = self.of(node)
        if not view.pattern.is_contiguous or self.needs_no_memory(view.source):
            self._copy(node)
            view = View(node, Pattern.contiguous(node.shape))
        return view

    def moves(self, node: Node) -> Moves | None:
        """Return the steps from the pattern of the node that holds the memory to that of a view.

        None is returned where there are very many steps.
        """
        found: list[Move] = []
        memory = self.of(node).source
        while node is not memory:
            node, move = self._moves[node]
            found.append(move)
            if len(found) > MOST_MOVES:
                return None
        return tuple(reversed(found))

    def read(self, node: Node, shape: Shape) -> Read:
        """Return how a value is read over the space of a shape to which it is repeated."""
        # values are read by several nodes, most of them over the same shape
        found = self._reads.get((node, shape))
        if found is None:
            if node not in self._views and node.shape == shape and not self.needs_no_memory(node):
                found = Read(node, 0, line_strides(squeeze(shape)))
            else:
                view = self.of(node)
                found = over(view.source, view.pattern.broadcast(shape))
            self._reads[node, shape] = found
        return found

    def add(self, node: Node, move: Callable[..., Pattern | None], named: Mapping[str, Any]) -> None:
        """Add a location; where no pattern describes it, copy the value that it is a view of."""
        self._add(node, self._below[node], Move(move, tuple(named.items())))

    def add_reshaped(self, node: Node, source: Node) -> None:
        """Add a node that has the elements of another one in another shape."""
        self._add(node, source, Move(Pattern.reshape, (("shape", node.shape),)))

    def _add(self, node: Node, source: Node, move: Move) -> None:
        view = self.of(source)
        pattern = move(view.pattern)
        if pattern is None:
            self._copy(source)
            view = View(source, Pattern.contiguous(source.shape))
            pattern = move(view.pattern)
            assert pattern is not None, node
        self._views[node] = View(view.source, pattern)
        self._moves[node] = source, move


def over(source: Node, pattern: Pattern) -> Read:
    """Return a view without axes of size one.

    >>> over(None, Pattern((2, 1, 3), (3, 3, 1), 6)).strides
    (3, 1)
    """
    shape, strides = pattern.shape, pattern.strides
    bounds: list[tuple[int, int, int]] = []
    if pattern.bounds:
        axis = 0
        for extent, bound in zip(shape, pattern.bounds, strict=True):
            if bound is not None:
                # along an axis of size one, bounds say that no element is in memory
                bounds.append((axis, *bound) if extent != 1 else (0, 0, 0))
            axis += extent != 1
        if (0, 0, 0) in bounds:
            bounds = [(0, 0, 0)]
    if 1 in shape:
        strides = tuple([stride for stride, extent in zip(strides, shape, strict=True) if extent != 1])
    return Read(source, pattern.offset, strides, tuple(bounds))
