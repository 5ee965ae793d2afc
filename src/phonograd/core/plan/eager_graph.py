"""Values of parts of a graph in tier 0, computed once and operator by operator, into a table of values.

Takes resolved nodes and the values of leaves from backward passes that compute at once
(:mod:`phonograd.core.backward.eager`), and functions of nodes from :mod:`.eager`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np

from ..base import float_errors
from ..base.hot import hot
from ..base.outside import is_from_outside
from ..graph.node import Node
from ..graph.operator import ABSENT, item_operator
from ..ops.math.structural import LEAF
from ..run import kernel_cache
from ..run.reference import locate_error, order
from .eager import function_for, source_of

__all__ = ["compute_in_order", "compute_into", "compute_sparingly"]

_ABSENT = ABSENT.operator
_ITEM = item_operator()


def compute_into(values: dict[Node, Any], wanted: Iterable[Node], leaves: Sequence[Any]) -> None:
    """Compute resolved nodes and all nodes below them, and add their values, some of which may be views of others.

    This is an :class:`EagerProgram` that runs once and drops nothing. ``leaves`` has values of leaves by number.
    """
    stack = list(wanted)
    token = float_errors.ignore()
    try:
        _compute_all(values, stack, leaves)
    except kernel_cache.CompilerLost:
        raise
    except Exception as error:
        if is_from_outside(error) or not stack:
            raise
        raise locate_error(error, stack[-1]) from error
    finally:
        float_errors.restore(token)


def compute_in_order(values: dict[Node, Any], users_first: Sequence[Node], leaves: Sequence[Any]) -> None:
    """Compute nodes as :func:`compute_into` does, given all marked ones among them and below them, users first."""
    stack: list[Node] = []
    token = float_errors.ignore()
    try:
        _compute_reversed(values, users_first, stack, leaves)
    except kernel_cache.CompilerLost:
        raise
    except Exception as error:
        if is_from_outside(error):
            raise
        is_left = (node for node in reversed(users_first) if not node.operator.is_view and node not in values)
        raise locate_error(error, stack[-1] if stack else next(is_left)) from error
    finally:
        float_errors.restore(token)


@hot
def _compute_reversed(
    values: dict[Node, Any], users_first: Sequence[Node], stack: list[Node], leaves: Sequence[Any]
) -> None:
    """Compute nodes from the last one on, and those of their inputs that are not among them."""
    for node in reversed(users_first):
        if node.operator.is_view or node in values:
            continue
        inputs = node.inputs
        arrays: list[Any] = []
        for source in inputs:
            while source.operator.is_view:
                source = source.inputs[0]
            array = values.get(source)
            if array is None:
                if source.operator is LEAF:
                    array = values[source] = leaves[source.attributes[0]]
                elif source.operator is not _ABSENT:
                    stack.append(source)
                    _compute_all(values, stack, leaves)
                    array = values[source]
            arrays.append(array)
        if node.operator is _ITEM:
            values[node] = arrays[0][node.attributes[0]]
        else:
            recipe = node.recipe
            function = None if recipe is None else recipe.function
            if function is None:
                function = function_for(node)
            values[node] = function(*arrays)


@hot
def _compute_all(values: dict[Node, Any], stack: list[Node], leaves: Sequence[Any]) -> None:
    """Compute the nodes of a stack; if one fails, it is the last one there."""
    while stack:
        node = stack[-1]
        if node in values:
            stack.pop()
            continue
        arrays: list[Any] = []
        for source in node.inputs:
            while source.operator.is_view:
                source = source.inputs[0]
            array = values.get(source)
            if array is None:
                if source.operator is LEAF:
                    array = values[source] = leaves[source.attributes[0]]
                elif source.operator is not _ABSENT:
                    stack.append(source)
                    continue
            arrays.append(array)
        if len(arrays) == len(node.inputs):
            if node.operator is _ITEM:
                values[node] = arrays[0][node.attributes[0]]
            else:
                recipe = node.recipe
                function = None if recipe is None else recipe.function
                if function is None:
                    function = function_for(node)
                values[node] = function(*arrays)
            stack.pop()


def compute_sparingly(
    values: dict[Node, Any], wanted: list[Node], leaves: Sequence[Any], kept: Container[Node]
) -> None:
    """Compute resolved nodes as :func:`compute_into` does, and drop each value but kept ones after its last use."""
    given, computed = order(wanted, values.__contains__)
    for node in given:
        if node.operator is LEAF and node not in values:
            values[node] = leaves[node.attributes[0]]
    last_uses: dict[Node, Node] = {}
    for node in computed:
        for source in node.inputs:
            last_uses[source_of(source)] = node
    made = set(computed)
    with np.errstate(all="ignore"):
        for node in computed:
            sources = [source_of(source) for source in node.inputs]
            try:
                values[node] = function_for(node)(*[values[source] for source in sources])
            except kernel_cache.CompilerLost:
                raise
            except Exception as error:
                if is_from_outside(error):
                    raise
                raise locate_error(error, node) from error
            for source in sources:
                if last_uses[source] is node and source in made and source not in kept:
                    # an input may occur twice
                    values.pop(source, None)
