"""Batches: products by the same matrix that do not depend on each other are one product in a plan.

Takes the nodes of a plan from :mod:`~phonograd.core.plan.rewrite`, and hands them to
:mod:`~phonograd.core.plan.grouping`: the inputs of some products are joined, and the products are views of the result.
See docs/decisions/0018.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from ..base import processor, settings
from ..graph.node import Node, attributed_to
from ..graph.operator import REGISTRY, Operator, single
from ..ops.math.primitives import slice_step
from ..ops.shape.shape import concatenate
from .products import keeps_bits_of_rows

__all__ = ["Batching"]

_PRODUCTS = REGISTRY["_matmul"], REGISTRY["_wide_matmul"]
#: rows of a product up to which it takes less time among others, although its rows are copied to be together, and the
#: same for a matrix that is larger than a cache (``python -m benchmarks.batches products``)
FEW_ROWS, FEW_ROWS_OF_LARGE = 8, 16
#: rows of a product from which on more rows do not make it more efficient
MOST_ROWS = 512

#: operator and matrix of products that can be one
_Key = tuple[Operator, Node]


class Batching:
    """The nodes of a plan in which products by one matrix are one product.

    Parameters
    ----------
    computed
        The nodes to compute, each after those that it reads.
    kept
        Those of them whose values must be arrays at the end.
    source
        Returns the node whose value is to be read as that of a node.
    """

    def __init__(self, computed: Sequence[Node], kept: Iterable[Node], source: Callable[[Node], Node]) -> None:
        self._before = source
        self._same: dict[Node, Node] = {}
        #: the nodes to compute, each after those that it reads
        self.computed = computed
        # under a memory limit, values are computed as late as possible
        products = {} if settings.active.memory_limit_bytes else _products_by_matrix(computed, source)
        if not products:
            return
        made: dict[Node, tuple[Node, ...]] = {}
        for matrix, batch in _Schedule(computed, products, source).batches():
            for members in _chunks(batch, matrix):
                self._merge(members, matrix, made)
        if made:
            self.computed = self._in_order(computed, kept, made)

    def source(self, node: Node) -> Node:
        """Return the node whose value is to be read as that of a node."""
        node = self._before(node)
        return self._same.get(node, node)

    def _merge(self, members: Sequence[Node], matrix: Node, made: dict[Node, tuple[Node, ...]]) -> None:
        """Make one product of several, and note by member the nodes that its value is made of."""
        first = members[0]
        with attributed_to(first):
            joined = concatenate([self._before(member.inputs[0]) for member in members], 0)
            product = single(first.operator.apply((joined, matrix), ()))
            begin = 0
            for member in members:
                end = begin + member.shape[0]
                piece = self._same[member] = slice_step(product, (begin, 0), (end, product.shape[1]))
                made[member] = joined, product, piece
                begin = end

    def _in_order(
        self, computed: Sequence[Node], kept: Iterable[Node], made: dict[Node, tuple[Node, ...]]
    ) -> list[Node]:
        """Return the nodes that are still needed, in the old order as far as possible."""
        left = {*computed, *[node for nodes in made.values() for node in nodes]}.difference(made)
        done: set[Node] = set()
        found: list[Node] = []
        for target in computed:
            stack = [*reversed(made.get(target, (target,)))]
            while stack:
                node = stack[-1]
                waiting = [s for s in map(self.source, node.inputs) if s in left and s not in done]
                if waiting and node not in done:
                    stack += reversed(waiting)
                    continue
                stack.pop()
                if node not in done:
                    done.add(node)
                    found.append(node)
        needed = set(map(self.source, kept))
        for node in reversed(found):
            if node in needed:
                needed.update(map(self.source, node.inputs))
        return [node for node in found if node in needed]


def _is_worth(node: Node, matrix: Node) -> bool:
    """Return whether a product has so few rows that it takes less time among others."""
    rows = node.shape[0]
    is_large = matrix.size * matrix.dtype.itemsize >= processor.choices().near_bytes
    return rows <= (FEW_ROWS_OF_LARGE if is_large else FEW_ROWS)


def _chunks(batch: Sequence[Node], matrix: Node) -> Iterable[Sequence[Node]]:
    """Return products in groups of two or more, and of no more rows than are efficient."""
    terms, columns = matrix.shape
    found: list[Node] = []
    rows = 0
    for node in (*batch, None):
        if node is None or (found and rows + node.shape[0] > MOST_ROWS):
            if len(found) > 1 and keeps_bits_of_rows(rows, terms, columns):
                yield found
            found, rows = [], 0
        if node is not None:
            found.append(node)
            rows += node.shape[0]


def _products_by_matrix(computed: Sequence[Node], source: Callable[[Node], Node]) -> dict[Node, _Key]:
    """Return by node the operator and matrix of products by a matrix that several products of few rows have."""
    found: dict[_Key, list[Node]] = {}
    for node in computed:
        if node.operator in _PRODUCTS and len(node.shape) == 2 and node.size:
            matrix = source(node.inputs[1])
            # products of one term are element by element
            if matrix.shape[0] > 1:
                found.setdefault((node.operator, matrix), []).append(node)
    # the extents of products that are alone decide nothing: a plan for any extents should not depend on them
    several = {key: nodes for key, nodes in found.items() if len(nodes) > 1}
    chosen = {key: [node for node in nodes if _is_worth(node, key[1])] for key, nodes in several.items()}
    return {node: key for key, nodes in chosen.items() if len(nodes) > 1 for node in nodes}


class _Schedule:
    """An order of the nodes in which many products by one matrix can run at once.

    Everything else runs as soon as it can. If nothing is left to run but products, the schedule takes a matrix whose
    remaining products can all run; if there is none, the matrix with the product that most others wait for.
    """

    def __init__(self, computed: Sequence[Node], products: dict[Node, _Key], source: Callable[[Node], Node]) -> None:
        self._computed, self._products = computed, products
        present = set(computed)
        self._readers: dict[Node, list[Node]] = {node: [] for node in computed}
        self._waiting: dict[Node, int] = {}
        for node in computed:
            read = {each for each in map(source, node.inputs) if each in present}
            self._waiting[node] = len(read)
            for each in read:
                self._readers[each].append(node)
        #: by node how many products are on the longest way from it to a result
        self._height: dict[Node, int] = {}
        for node in reversed(computed):
            above = max([self._height[reader] for reader in self._readers[node]], default=0)
            self._height[node] = above + (node in products)

    def batches(self) -> Iterable[tuple[Node, list[Node]]]:
        """Return groups of products by one matrix that do not depend on each other, in an order in which they can run.

        Each comes with its matrix, and its products are in the order of the program.
        """
        products = self._products
        left = Counter(products.values())
        ready: dict[_Key, list[Node]] = {}
        #: matrices whose products can all run; matrices with products that can run, highest ones first
        complete: list[_Key] = []
        highest: list[tuple[int, int, _Key]] = []
        stack = [node for node in self._computed if not self._waiting[node]]
        while stack or ready:
            while stack:
                node = stack.pop()
                if node not in products:
                    self._finish(node, stack)
                    continue
                key = products[node]
                found = ready.setdefault(key, [])
                found.append(node)
                heapq.heappush(highest, (-self._height[node], node.serial, key))
                if len(found) == left[key]:
                    complete.append(key)
            if not ready:
                break
            chosen = complete.pop() if complete else heapq.heappop(highest)[2]
            if chosen not in ready:
                continue
            batch = sorted(ready.pop(chosen), key=lambda node: node.serial)
            left[chosen] -= len(batch)
            for node in batch:
                self._finish(node, stack)
            yield chosen[1], batch

    def _finish(self, node: Node, stack: list[Node]) -> None:
        for reader in self._readers[node]:
            self._waiting[reader] -= 1
            if not self._waiting[reader]:
                stack.append(reader)
