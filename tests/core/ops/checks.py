"""Checks of operators at the level of nodes: shapes as inferred, and gradients of any order against differences.

A :class:`Sample` is one call of an operator with concrete inputs. Every operator of the registry has samples (see
``samples``); the derived tests run these checks over all of them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.primitives import cast
from phonograd.core.ops.math.structural import full, leaf, variable
from phonograd.core.run.reference import evaluate


@dataclasses.dataclass(eq=False)
class Sample:
    """One call: operator name, input arrays (None for an optional input left out) and parameters.

    ``order`` is the highest order of derivative that is checked (0: not differentiable or piecewise constant),
    ``wrt`` the inputs that are differentiated (default: all floating point ones).
    """

    name: str
    inputs: Sequence[Any]
    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    order: int = 3
    wrt: tuple[int, ...] | None = None

    def call(self, nodes: Sequence[Node | None]) -> list[Node]:
        """Return the output nodes for input nodes."""
        result = REGISTRY[self.name](*nodes, **self.parameters)
        return [result] if isinstance(result, Node) else list(result)

    def __repr__(self) -> str:
        shapes = ",".join("-" if a is None else f"{a.dtype}{list(a.shape)}" for a in self.inputs)
        return f"{self.name}({shapes};{self.parameters})"


def leaves_for(arrays: Sequence[Any]) -> tuple[list[Node | None], dict[Node, Any]]:
    """Return leaf nodes for arrays and the bindings to evaluate with."""
    nodes: list[Node | None] = []
    bindings = {}
    for index, array in enumerate(arrays):
        if array is None:
            nodes.append(None)
            continue
        node = leaf(index, array.shape, array.dtype)
        bindings[node] = array
        nodes.append(node)
    return nodes, bindings


def check_inference(sample: Sample) -> list[Any]:
    """Assert that shapes and dtypes are as inferred; return the values."""
    nodes, bindings = leaves_for(sample.inputs)
    outputs = sample.call(nodes)
    values = evaluate(outputs, bindings)
    for node, value in zip(outputs, values, strict=True):
        assert isinstance(value, np.ndarray | np.generic), f"{sample}: {type(value)}"
        assert (node.shape, node.dtype) == (value.shape, value.dtype), (
            f"{sample}: inferred {node}, computed {value.shape} {value.dtype}"
        )
    return values


def check_gradients(sample: Sample) -> None:
    """Assert gradients up to ``sample.order`` against central differences along a random direction, in float64."""
    generator = np.random.default_rng(7)
    arrays = [a.astype(np.float64) if a is not None and a.dtype.kind == "f" else a for a in sample.inputs]
    wrt = sample.wrt
    if wrt is None:
        wrt = tuple(i for i, a in enumerate(arrays) if a is not None and a.dtype.kind == "f")
    nodes, bindings = leaves_for(arrays)
    for i in wrt:
        nodes[i] = variable(nodes[i], i)
    directions = {i: generator.normal(size=arrays[i].shape) for i in wrt}

    def weighted_sum(node: Node, weights: Any) -> Node:
        wide = cast(node, np.float64)
        weight = leaf(1000 + len(bindings), node.shape, wide.dtype)
        bindings[weight] = np.asarray(weights, np.float64)
        return REGISTRY["_sum_to"](wide * weight, shape=())

    def total(terms: list[Node]) -> Node:
        return functools.reduce(lambda a, b: a + b, terms) if terms else full((), 0, np.dtype("float64"))

    # one fixed random linear function of all outputs stands for them all
    outputs = [out for out in sample.call(nodes) if out.dtype.kind == "f"]
    function = total([weighted_sum(out, generator.normal(size=out.shape)) for out in outputs])
    for level in range(1, sample.order + 1):
        targets = differentiate((function,), (None,)).targets if function.marked else {}
        found = [(t.attributes[0], grad) for t, grad in targets.items() if grad is not None]
        derivative = total([weighted_sum(grad, directions[i]) for i, grad in found])
        _compare(function, derivative, arrays, directions, bindings, f"{sample}: order {level}")
        function = derivative


def _compare(
    function: Node,
    derivative: Node,
    arrays: list[Any],
    directions: dict[int, Any],
    bindings: dict[Node, Any],
    label: str,
) -> None:
    """Assert that ``derivative`` is the rate of change of ``function`` along the direction."""
    exact = float(evaluate([derivative], bindings)[0])

    def at(step: float) -> float:
        moved = [a + step * directions[i] if i in directions else a for i, a in enumerate(arrays)]
        return float(evaluate([function], {**bindings, **leaves_for(moved)[1]})[0])

    step = 1e-4
    # five-point differences: their error is of the order step**4
    numeric = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)
    scale = max(abs(numeric), abs(exact), 1.0)
    assert abs(numeric - exact) <= 2e-6 * scale, f"{label}: {exact} but differences give {numeric}"
