"""Extension of graphs by calls of known kinds: their nodes are made from recipes, without rules or checks.

Takes calls from :mod:`phonograd.core.array`; the first call of a kind goes through
:meth:`phonograd.core.graph.operator.Operator.apply` and is learned.
"""

from __future__ import annotations

from typing import Any

from ..base.hot import hot, untracked
from .node import Node, Recipe, creation_facts, new_node, new_recipe, statistics, type_of
from .operator import Operator, label_results
from .templates import Places

__all__ = ["MISSING", "extend", "extend_by_key", "learn"]


#: stands in keys of calls for arguments that must be given
MISSING = object()


@hot
def extend_by_key(declared: Operator, parameters: int, key: tuple[Any, ...]) -> Node | None:
    """Return the node of a new call, given its key, and remember the call; None if its kind is not known.

    The last items of the key are ``parameters``, the others nodes. The nodes of several outputs are returned as they
    are: the caller remembers how many of them users see.
    """
    arrays = len(key) - parameters
    nodes = key[:arrays]
    for node in nodes:
        if node is None or node is MISSING:
            return None
    before = statistics.nodes
    made = extend(declared, untracked(nodes), key[arrays:])
    if type(made) is Node and statistics.nodes == before:
        # it comes back: most calls of programs that are always new do not
        declared.calls[untracked(key)] = made
    return made  # type: ignore[no-any-return]


@hot
def extend(declared: Operator, nodes: tuple[Node, ...], parameters: tuple[Any, ...]) -> Any:
    """Return the node (or nodes) of a call of an operator if its kind is known, else None.

    The inputs of operators in mixed precision are converted first, so no recipe holds for them.
    """
    if declared.autocast is not None:
        return None
    recipes = declared.recipes
    kind = recipes.kind(nodes, parameters)
    recipe = recipes.known.get(kind)
    if recipe is None:
        return _extend_by_new_kind(declared, nodes, parameters, kind)
    attributes = recipe.attributes
    key = (nodes, attributes)
    found = declared.table.get(key)
    if found is None:
        if recipe.template is None:
            statistics.nodes += 1
            line, gradient_of = creation_facts()
            found = new_node(declared, nodes, attributes, recipe.type, line, gradient_of, recipe)
        else:
            found = _expand(declared, nodes, attributes, recipe.template)
        found = declared.table.setdefault(untracked(key), found)
    return found


@hot
def _extend_by_new_kind(
    declared: Operator, nodes: tuple[Node, ...], parameters: tuple[Any, ...], kind: tuple[Any, ...]
) -> Any:
    """Return the node (or nodes) of a call whose parameters are known, if its rules need not run, else None.

    A kind that comes back is learned, so that its next calls are quicker.
    """
    attributes = declared.accepted_parameters.get((len(nodes), parameters))
    if attributes is None or declared.numbers:
        return None
    context = nodes[0].context
    for node in nodes:
        if node.context is not context:
            # machine code has found a number in use on another device, or there is an error to raise
            return None
    key = (nodes, attributes)
    found = declared.table.get(key)
    if found is None:
        if not declared.composite:
            return _extend_by_new_type(declared, nodes, attributes, kind)
        if not declared.recipes.is_new(kind):
            return None
        template = declared.body_templates.generic(nodes, attributes)
        if template is None:
            return None
        found = declared.table.setdefault(key, _expand(declared, nodes, attributes, template))
    first: Any = found[0] if found.__class__ is tuple else found
    return found if first.context is context else None


@hot
def _extend_by_new_type(
    declared: Operator, nodes: tuple[Node, ...], attributes: tuple[Any, ...], kind: tuple[Any, ...]
) -> Node | None:
    """Return the node of a call of an operator that is no composite, and learn its kind; None if it has several."""
    type_ = declared.result_type(nodes, attributes)
    if type_.outputs is not None:
        return None
    recipe = new_recipe(attributes, type_)
    declared.recipes.remember(kind, recipe)
    statistics.nodes += 1
    line, gradient_of = creation_facts()
    made = new_node(declared, nodes, attributes, type_, line, gradient_of, recipe)
    return declared.table.setdefault(untracked((nodes, attributes)), made)  # type: ignore[return-value]


@hot
def _expand(declared: Operator, nodes: tuple[Node, ...], attributes: tuple[Any, ...], template: Any) -> Any:
    """Return the node (or nodes) of a call of a composite operator."""
    # both look up the source line once
    return label_results(template.apply(nodes), untracked((declared, nodes, attributes)))


def learn(
    declared: Operator,
    nodes: tuple[Node | None, ...],
    parameters: tuple[Any, ...],
    attributes: tuple[Any, ...],
    made: Any,
) -> None:
    """Remember the kind of a call of an operator, given the node (or nodes) of its result."""
    if not nodes or None in nodes:
        return
    inputs: Any = nodes
    first, template, asked = made[0] if made.__class__ is tuple else made, None, Places()
    if declared.composite and not declared.numbers:
        template, asked = declared.body_templates.known(inputs, attributes)
    if first.context is inputs[0].context and (template or (first is made and not declared.composite)):
        declared.recipes.learn(inputs, parameters, asked, Recipe(attributes, type_of(first), template))
