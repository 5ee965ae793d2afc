"""Views: where the values of a plan are read. Locations compute nothing: each is a pattern over the memory below it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from ..graph.node import Node, Shape
from ..lower.lowering import Constant, Coordinate, Location
from ..lower.pattern import Pattern
from .expansion import Order, parameters
from .group import Read, View, line_strides, squeezed

__all__ = ["Move", "Moves", "Views", "over"]

#: how the elements of a view are found, one step after the other, given the pattern of what is below all of them
Moves = tuple["Move", ...]

#: more steps than this between a view and the memory below it are not looked through
MOST_MOVES = 8


class Move(NamedTuple):
    """How the elements of a view lie, given the pattern of those of the node below it."""

    rule: Callable[..., Pattern | None]
    parameters: tuple[tuple[str, Any], ...]

    def __call__(self, pattern: Pattern) -> Pattern | None:
        """Return where the elements lie; None where no pattern says that."""
        found: Pattern | None = _moved(pattern, self.rule, self.parameters)
        return found


@functools.lru_cache(4096)
def _moved(pattern: Pattern, rule: Callable[..., Pattern | None], parameters: tuple[tuple[str, Any], ...]) -> Any:
    return rule(pattern, **dict(parameters))


class Views:
    """Where values are read.

    Parameters
    ----------
    order
        What is to be computed.
    copy
        Has the value of a node written to memory in order.
    """

    def __init__(self, order: Order, copy: Callable[[Node], None]) -> None:
        self._lowerings, self._below = order.lowerings, order.below
        self._copy = copy
        self._views: dict[Node, View] = {}
        #: what is read from its own memory, or needs none
        self._own: dict[Node, View] = {}
        #: by view the node it is made of and the last step to it; there is none below what is read from its own memory
        self._moves: dict[Node, tuple[Node, Move]] = {}
        self._reads: dict[tuple[Node, Shape], Read] = {}

    def __contains__(self, node: Node) -> bool:
        """Return whether a node is read from the memory of another."""
        return node in self._views

    def needs_no_memory(self, node: Node) -> bool:
        """Return whether the value of a node is part of the expression."""
        return isinstance(self._lowerings.get(node), (Constant, Coordinate))

    def of(self, node: Node) -> View:
        """Return how a value is read."""
        found = self._views.get(node) or self._own.get(node)
        if found is None:
            lowering = self._lowerings.get(node)
            if isinstance(lowering, Constant):
                found = View(node, Pattern(node.shape, (0,) * node.ndim))
            elif isinstance(lowering, Coordinate):
                axis = lowering.axis(**parameters(node, lowering.axis))
                found = View(node, Pattern(node.shape, tuple([int(a == axis) for a in range(node.ndim)])))
            else:
                found = View(node, Pattern.contiguous(node.shape))
            self._own[node] = found
        return found

    def moves(self, node: Node) -> Moves | None:
        """Return how the elements of a node are found among those of the node in whose memory it is read.

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
                found = Read(node, 0, line_strides(squeezed(shape)))
            else:
                view = self.of(node)
                found = over(view.source, view.pattern.broadcast(shape))
            self._reads[node, shape] = found
        return found

    def add(self, node: Node, expression: Node, lowering: Location) -> None:
        """Take in a location, copying what is below it where no pattern describes it."""
        named = parameters(expression, lowering.move)
        self._add(node, self._below[node], Move(lowering.move, tuple(named.items())))

    def add_reshaped(self, node: Node, source: Node) -> None:
        """Take in a node that has the elements of another one in another shape."""
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
                # along an axis of size one, bounds say that nothing lies in memory
                bounds.append((axis, *bound) if extent != 1 else (0, 0, 0))
            axis += extent != 1
        if (0, 0, 0) in bounds:
            bounds = [(0, 0, 0)]
    if 1 in shape:
        strides = tuple([stride for stride, extent in zip(strides, shape, strict=True) if extent != 1])
    return Read(source, pattern.offset, strides, tuple(bounds))
