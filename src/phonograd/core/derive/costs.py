"""Cost model: the arithmetic operations of an expression, and the bytes it reads and writes.

Every operator declares its ``cost``: operations per element of the result, or a function of the node that returns the
total. The cost of a composite operator is the cost of its expansion. Operators that only move or convert elements cost
nothing; a comparison counts as one operation, a function like ``exp`` as the operations of its polynomial.

>>> from phonograd.core.derive.costs import of_call
>>> of_call("dot", [((128, 64), "float32"), ((64, 32), "float32")])
Cost(flops=524288.0, moved_bytes=57344)
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.dtypes import kind_of
from ..base.outside import is_from_outside
from ..graph.node import Node, ancestors
from ..graph.operator import ABSENT, REGISTRY, Operator, item_operator
from ..lower.lowering import alternatives
from ..ops.math.structural import LEAF, leaf

__all__ = ["Cost", "flops_of", "of_call", "of_nodes"]

#: operators without arithmetic that have no lowering
_STRUCTURAL = (LEAF, ABSENT.operator, item_operator())


class Cost(NamedTuple):
    """Hold the cost of a computation."""

    flops: float
    moved_bytes: int

    @property
    def intensity(self) -> float:
        """Return the arithmetic intensity: operations per byte."""
        return self.flops / self.moved_bytes if self.moved_bytes else 0.0


def flops_of(node: Node) -> float:
    """Return the arithmetic operations of one node, without its inputs."""
    declared = node.operator
    if declared.is_view or declared.moves or declared in _STRUCTURAL:
        return 0.0
    cost = declared.cost
    if callable(cost):
        return float(cost(node))
    lowerings = alternatives(declared.lowering)
    if lowerings and all([lowering.only_moves for lowering in lowerings]):
        return 0.0
    size = node.size if node.outputs is None else sum([_count(shape) for shape, _ in node.outputs])
    if any([lowering.combines for lowering in lowerings]):
        size = max([size, *[source.size for source in node.inputs]])
    return float(cost) * size


def _count(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _bytes(node: Node) -> int:
    return node.size * node.dtype.itemsize


def of_nodes(nodes: Iterable[Node], inputs: Iterable[Node] = (), outputs: Iterable[Node] = ()) -> Cost:
    """Return the cost of computing nodes in one kernel that reads ``inputs`` and writes ``outputs``.

    Integer nodes next to floating point inputs compute positions, which do not count as arithmetic.
    """
    inputs = tuple(inputs)
    if any(map(_is_floating, inputs)):
        nodes = [node for node in nodes if _is_floating(node) or any(map(_is_floating, node.inputs))]
    flops = sum([flops_of(node) for node in nodes])
    return Cost(flops, sum([_bytes(node) for node in (*inputs, *outputs)]))


def _is_floating(node: Node) -> bool:
    dtypes = [node.dtype] if node.outputs is None else [dtype for _, dtype in node.outputs]
    return any([kind_of(dtype) == "f" for dtype in dtypes])


def of_call(
    name: str, inputs: Sequence[Sequence[Any] | None], parameters: Mapping[str, Any] | None = None
) -> Cost | None:
    """Return the cost of one operator call from the shapes and dtypes of its inputs, or None if it is unknown.

    An omitted input is None. The bytes are those of inputs and results; intermediate values use no memory.
    """
    declared = REGISTRY.get(name)
    if declared is None:
        return None
    try:
        specs = tuple([None if known is None else (tuple(known[0]), str(known[1])) for known in inputs])
        given = tuple(sorted((parameters or {}).items()))
        return _of_call(declared, specs, given)
    except (TypeError, ValueError, ArithmeticError, RuntimeError, AssertionError, AttributeError, LookupError) as error:
        if is_from_outside(error):
            raise
        # the call itself reports mismatched shapes; here they only have no cost
        return None


@functools.lru_cache(maxsize=4096)
def _of_call(
    declared: Operator, specs: tuple[tuple[tuple[int, ...], str] | None, ...], parameters: tuple[tuple[str, Any], ...]
) -> Cost:
    inputs = [None if known is None else leaf(index, known[0], np.dtype(known[1])) for index, known in enumerate(specs)]
    sources = [node for node in inputs if node is not None]
    if declared.random:
        missing = len(declared.input_names) - 1 - len(inputs)
        inputs += [*[None] * missing, leaf(len(inputs) + missing, (2,), np.dtype(np.uint64))]
    found = declared.apply(tuple(inputs), declared.attributes_of(dict(parameters)))
    results: tuple[Node, ...] = found if isinstance(found, tuple) else (found,)
    inside = ancestors(results, lambda node: node not in sources)
    return of_nodes(inside, sources, results)
