"""Calls of operators on arrays, and their gradients, for tests that compare values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.run.reference import evaluate

from .checks import leaves_for


def call(name: str, *arrays: Any, **parameters: Any) -> Any:
    """Return the value of an operator, or a list of values."""
    nodes, bindings = leaves_for(arrays)
    result = REGISTRY[name](*nodes, **parameters)
    values = evaluate([result] if isinstance(result, Node) else list(result), bindings)
    return values[0] if isinstance(result, Node) else values


def gradients(
    name: str, arrays: Sequence[Any], wrt: int | Sequence[int] = 0, head: Any = None, order: int = 1, **parameters: Any
) -> Any:
    """Return the gradient of the sum of the first output for some inputs; ``head`` replaces the sum by a weighted one.

    A higher order is the gradient of the sum of the gradient of the first of these inputs. Inputs that are not reached
    give None; a gradient of zero gives zeros.
    """
    targets = [wrt] if isinstance(wrt, int) else list(wrt)
    nodes, bindings = leaves_for(arrays)
    for index in targets:
        nodes[index] = variable(nodes[index], index)
    result = REGISTRY[name](*nodes, **parameters)
    out = result if isinstance(result, Node) else result[0]
    head_node = None
    if head is not None:
        head_node = leaf(900, out.shape, out.dtype)
        bindings[head_node] = np.asarray(head, out.dtype)
    for _ in range(order - 1):
        out = next(g for t, g in differentiate((out,), (head_node,)).targets.items() if t.attributes[0] == targets[0])
        head_node = None
    found = {t.attributes[0]: grad for t, grad in differentiate((out,), (head_node,)).targets.items()}
    grads = []
    for index in targets:
        grad = found.get(index)
        if index not in found:
            grads.append(None)
        elif grad is None:
            grads.append(np.zeros_like(arrays[index]))
        else:
            grads.append(evaluate([grad], bindings)[0])
    return grads[0] if isinstance(wrt, int) else grads
