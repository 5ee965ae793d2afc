"""Recipes: what calls of one kind have in common, so that a node of a known kind is made without rules.

Takes calls from :mod:`phonograd.core.graph.operator`. A program whose expressions are always new mostly consists of
kinds that were seen before: the same operator and parameters, and the same types of inputs.
"""

from __future__ import annotations

from typing import Any

from ..base.hot import hot, slotted
from .node import Node, Recipe, type_of
from .templates import Places

__all__ = ["Recipes"]

#: kinds that are remembered for each operator
MOST_KINDS = 4096


@slotted
class Recipes:
    """The recipes of one operator, by kind of call: parameters, types of inputs, and which inputs are the same."""

    __slots__ = ("_asked", "_seen", "known")

    def __init__(self) -> None:
        self.known: dict[Any, Recipe] = {}
        #: kinds that were met once
        self._seen: set[Any] = set()
        #: the places of inputs whose operators matter
        self._asked: Places = ()

    def learn(self, nodes: tuple[Node, ...], parameters: tuple[Any, ...], asked: Places, recipe: Recipe) -> None:
        """Remember the recipe of a kind, given the places of inputs whose operators matter for it."""
        if not set(asked) <= set(self._asked):
            self._asked = tuple(sorted({*asked, *self._asked}))
            self.known.clear()
        self.remember(self.kind(nodes, parameters), recipe)

    def remember(self, kind: tuple[Any, ...], recipe: Recipe) -> None:
        """Remember the recipe of a kind."""
        if len(self.known) >= MOST_KINDS:
            self.known.clear()
        self.known[kind] = recipe

    def is_new(self, kind: tuple[Any, ...]) -> bool:
        """Return whether a kind is asked for the first time."""
        if kind in self._seen:
            return False
        if len(self._seen) >= MOST_KINDS:
            self._seen.clear()
        self._seen.add(kind)
        return True

    def clear(self) -> None:
        """Forget all recipes."""
        self.known.clear()
        self._seen.clear()

    @hot
    def kind(self, nodes: tuple[Node, ...], parameters: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the kind of a call."""
        kind = (*parameters, *[node.type or type_of(node) for node in nodes])
        count = len(nodes)
        if count > 1 and (nodes[0] is nodes[1] if count == 2 else len(set(nodes)) != count):
            kind += tuple([nodes.index(node) for node in nodes])
        if self._asked:
            kind += tuple([nodes[place].operator for place in self._asked if place < count])
        return kind
