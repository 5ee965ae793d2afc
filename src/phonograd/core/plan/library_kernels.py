"""Library kernels: kernels that compute one node each, such as matrix products, convolutions and pooling.

:class:`LibraryKernels` takes plans from lowerings and from :mod:`~phonograd.core.plan.products`, and hands steps to
:mod:`~phonograd.core.plan.grouping`. Matrices that several products share in another form are converted once.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..graph.node import Node
from ..kernels.launch import Launch, Plan, Written
from ..kernels.matmul.bf16_split import Split
from ..kernels.matmul.packing import Packed
from ..lower.pattern import Pattern
from ..run import kernel_cache
from .expansion import Order
from .fusion import Fusion
from .group import Value, View
from .products import (
    panels_of,
    plan_product,
    plan_rounded_product,
    roundings_of_products,
    sums_of_products,
    uses_of_operands,
)
from .steps import LibraryKernel

__all__ = ["LibraryKernels"]


class LibraryKernels:
    """The kernels of a plan that are not fused.

    Parameters
    ----------
    order
        The nodes to compute.
    kept
        The nodes whose values must be in memory at the end.
    fusion
        The fused kernels, which compute operands.
    """

    def __init__(self, order: Order, kept: Iterable[Node], fusion: Fusion) -> None:
        self._fusion, self._views = fusion, fusion.views
        self._source, self._expressions = order.source, order.expressions
        #: steps, each with its stage
        self.steps: list[tuple[int, LibraryKernel]] = []
        self._chunks: dict[Written, int] = {}
        #: packed matrices, by their views and the launches that pack them
        self._panels: dict[tuple[View, Launch], Node] = {}
        #: sums that are computed with one of their products
        self.sums = sums_of_products(order, kept)
        #: values of 16 bits that are computed with the product that they round
        self.roundings = roundings_of_products(order, kept)
        #: the products that these sums and roundings compute
        self.absorbed = {found.product for found in self.sums.values()}.union(self.roundings.values())
        self._uses = uses_of_operands(order)

    def launch(self, node: Node, plan: Plan, operands: dict[str, View]) -> None:
        """Compute a node by the kernels of a plan."""
        fusion = self._fusion
        stage = max([fusion.ready(view.source) for view in operands.values()], default=0)
        for view in operands.values():
            fusion.write(view.source)
        fusion.values[node] = Value(stage, is_written=True)
        self.steps.append((stage, LibraryKernel(node, plan, operands)))
        for structure, _, extent, chunk, products in plan.launches:
            before = self._chunks.get(structure, 0)
            self._chunks[structure] = before + max(extent // chunk, products)
            if not before or before <= kernel_cache.MUCH_WORK < self._chunks[structure]:
                # these take longest to compile, and there is more to plan meanwhile
                kernel_cache.precompile(structure, self._chunks[structure])

    def add_product(self, node: Node) -> None:
        """Compute a sum in the kernel of its product, which adds the other term."""
        product, old = self.sums[node]
        self.multiply(node, self._expressions[product], old)

    def round_product(self, node: Node) -> None:
        """Multiply matrices, and round the product to the dtype of a node."""
        lhs, rhs = [self._source(source) for source in self._expressions[self.roundings[node]].inputs]
        left, right = self._views.in_memory(lhs), self._views.in_memory(rhs)
        plan = plan_rounded_product(left.pattern, right.pattern, lhs.dtype, node.dtype)
        self.launch(node, plan, {"lhs": left, "rhs": right})

    def multiply(self, node: Node, expression: Node, old: Node | None = None) -> None:
        """Multiply matrices where they are stored, and add ``old``; copy them only if no strides describe them."""
        lhs, rhs = [self._source(source) for source in expression.inputs]
        views = [self._views.in_memory(lhs), self._views.in_memory(rhs)]
        uses = max(1, self._uses[rhs])
        found = plan_product(views[0].pattern, views[1].pattern, lhs.dtype, adds=old is not None, uses=uses)
        if found is None:
            views = [self._views.in_order(lhs), self._views.in_order(rhs)]
            found = plan_product(views[0].pattern, views[1].pattern, lhs.dtype, adds=old is not None, uses=uses)
            assert found is not None, node
        operands = {"lhs": views[0], "rhs": views[1]}
        for operand, name, packed in found.before:
            operands[name] = self._pack(operands[operand], packed, node)
        if old is not None:
            operands["old"] = self._views.in_order(old)
        self.launch(node, found.plan, operands)

    def _pack(self, view: View, packed: Packed | Split, product: Node) -> View:
        """Return packed matrices for a product; matrices that several products share are packed once."""
        key = view, packed.launch
        node = self._panels.get(key)
        if node is None:
            node = self._panels[key] = panels_of(view.source, packed, product)
            self.launch(node, Plan((packed.launch,)), {"rhs": view})
        return View(node, Pattern.contiguous(node.shape))
