"""Recipes: what calls of one kind have in common, so that a node of a known kind is made without rules.

Takes calls from :mod:`phonograd.core.graph.operator`. A program whose expressions are always new mostly consists of
kinds that were seen before: the same operator and parameters, and the same types of inputs.
"""

from __future__ import annotations

from typing import Any

from ..base.hot import hot, slotted
from .node import Node, Recipe, TensorType, new_recipe, type_of
from .templates import Places

__all__ = ["Recipes", "are_repeated", "types_of"]

#: kinds that are remembered for each operator
MOST_KINDS = 4096


@slotted
class Recipes:
    """The recipes of one operator, by kind of call: parameters, types of inputs, and which inputs are the same."""

    __slots__ = ("_asked", "_seen", "by_type", "known")

    def __init__(self) -> None:
        self.known: dict[Any, Recipe] = {}
        #: the recipes of nodes that are made by rules, by attributes and types of inputs
        self.by_type: dict[Any, Recipe] = {}
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

    @hot
    def remember(self, kind: tuple[Any, ...], recipe: Recipe) -> None:
        """Remember the recipe of a kind."""
        if len(self.known) >= MOST_KINDS:
            self.known.clear()
        self.known[kind] = recipe

    @hot
    def remember_types(self, types: tuple[Any, ...], attributes: tuple[Any, ...], type_: TensorType) -> Recipe:
        """Return a new recipe for nodes with certain types of inputs, and remember it."""
        if len(self.by_type) >= MOST_KINDS:
            self.by_type.clear()
        recipe = new_recipe(attributes, type_)
        self.by_type[types] = recipe
        return recipe

    @hot
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
        self.by_type.clear()
        self._seen.clear()

    @hot
    def kind(self, nodes: tuple[Node, ...], parameters: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the kind of a call."""
        kind = (*parameters, *[node.type or type_of(node) for node in nodes])
        if are_repeated(nodes):
            kind += tuple([nodes.index(node) for node in nodes])
        if self._asked:
            kind += tuple([nodes[place].operator for place in self._asked if place < len(nodes)])
        return kind


@hot
def types_of(is_view: bool, inputs: tuple[Node | None, ...], attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the types of the inputs of a node and its attributes, which are always new for views such as labels."""
    types = [None if node is None else node.type or type_of(node) for node in inputs]
    return (() if is_view else attributes, *types)


@hot
def are_repeated(inputs: tuple[Node | None, ...]) -> bool:
    """Return whether an input occurs twice: the gradients of such calls are of another kind."""
    count = len(inputs)
    return count > 1 and (inputs[0] is inputs[1] if count == 2 else len(set(inputs)) != count)
