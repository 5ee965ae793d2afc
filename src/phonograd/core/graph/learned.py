"""Learned kinds of calls: recipes and templates, and the interned nodes that they refer to.

The plan cache (:mod:`phonograd.core.plan.cache`) drops nodes that are not used any more. Kinds of calls stay, with the
constants of their templates: to learn them again takes longer than to make the nodes of several steps. They are dropped
with everything else (:data:`~phonograd.core.graph.node.UNLEARNED`).
"""

from __future__ import annotations

from .node import UNLEARNED, Node
from .operator import REGISTRY
from .templates import Template, constants_of_templates

__all__ = ["constants_of_kinds", "forget_kinds"]


def constants_of_kinds() -> list[Node]:
    """Return the interned nodes that learned kinds of calls refer to."""
    found = constants_of_templates()
    for declared in set(REGISTRY.values()):
        for recipe in declared.recipes.known.copy().values():
            if recipe.template.__class__ is Template:
                found += recipe.template.constants
    return found


def forget_kinds() -> None:
    """Drop what was learned about kinds of calls."""
    for declared in set(REGISTRY.values()):
        declared.recipes.clear()
    UNLEARNED.emit()
