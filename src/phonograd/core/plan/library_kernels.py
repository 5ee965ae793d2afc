"""Library kernels: kernels that compute one node each, such as matrix products, convolutions and pooling.

:class:`LibraryKernels` takes plans from lowerings and from :mod:`~phonograd.core.plan.products`, and hands steps to
:mod:`~phonograd.core.plan.grouping`. Matrices that several products share in another form are converted once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..graph.extents import is_tracing
from ..graph.node import Node
from ..kernels.launch import Launch, Plan, Written, prepare_apart
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
    steady
        The inputs that are the same in many runs: what is made of one of them alone is made before a run.
    """

    def __init__(
        self, order: Order, kept: Iterable[Node], fusion: Fusion, steady: frozenset[Node] = frozenset()
    ) -> None:
        self._fusion, self._views = fusion, fusion.views
        self._source, self._expressions, self._after = order.source, order.expressions, order.after
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
        self._steady = steady
        #: packed forms of steady inputs, with the views of these and the launches that pack them
        self.packed: dict[Node, tuple[View, str, Launch]] = {}

    @property
    def is_for_predictions(self) -> bool:
        """Whether some inputs are the same in many runs."""
        return bool(self._steady)

    def launch(self, node: Node, plan: Plan, operands: dict[str, View], is_product: bool = False) -> None:
        """Compute a node by the kernels of a plan."""
        fusion = self._fusion
        if self._steady:
            packed = plan.for_steady
            if packed is not None and all([operands[each.operand].source in self._steady for each in packed.prepared]):
                plan = packed
            for number, prepared in reversed(list(enumerate(plan.prepared))):
                view = operands[prepared.operand]
                if view.source in self._steady:
                    name = f"prepared {number}"
                    plan, packing = prepare_apart(plan, prepared, name)
                    operands = {**operands, name: self._keep(view, prepared.operand, packing, prepared.size, node)}
        stage = max([fusion.ready(view.source) for view in operands.values()], default=fusion.floor)
        for other in self._after.get(node, ()):
            stage = max(stage, fusion.ready(self._views.of(other).source))
        for view in operands.values():
            fusion.write(view.source)
        fusion.values[node] = Value(stage, is_written=True)
        self.steps.append((stage, LibraryKernel(node, plan, operands, is_product)))
        if not is_tracing():
            self._precompile(plan)

    def _precompile(self, plan: Plan) -> None:
        """Start to compile kernels: these take longest to compile, and there is more to plan meanwhile."""
        for structure, _, extent, chunk, products in plan.launches:
            before = self._chunks.get(structure, 0)
            self._chunks[structure] = before + max(extent // chunk, products)
            if not before or before <= kernel_cache.MUCH_WORK < self._chunks[structure]:
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
        uses = max(1, self._uses[rhs])
        for read in (self._in_memory, self._views.in_order):
            views = [read(lhs), read(rhs)]
            facts: dict[str, Any] = {"adds": old is not None, "uses": uses}
            facts["to_rows"] = old is not None and old.shape != node.shape
            facts |= {"is_steady": views[1].source in self._steady, "second": views[1].source.dtype}
            found = plan_product(views[0].pattern, views[1].pattern, views[0].source.dtype, **facts)
            if found is not None:
                break
        assert found is not None, node
        operands = {"lhs": views[0], "rhs": views[1]}
        for operand, name, packed in found.before:
            operands[name] = self._pack(operands[operand], packed, node)
        if old is not None:
            operands["old"] = self._views.in_order(old)
        self.launch(node, found.plan, operands, is_product=old is None and not found.before)

    def _keep(self, view: View, operand: str, packing: Launch, size: int, reader: Node) -> View:
        """Return the packed form of a steady input, which is packed before a run."""
        key = view, packing
        node = self._panels.get(key)
        if node is None:
            node = self._panels[key] = panels_of(view.source, size, reader)
            self.packed[node] = view, operand, packing
            # like an input, it has no stage
            self._fusion.values[node] = Value(-1, is_written=True)
        return View(node, Pattern.contiguous(node.shape))

    def _in_memory(self, node: Node) -> View:
        """Return how a value is read from memory, or the 16-bit numbers that are converted to it."""
        source, pattern = self._views.of(node)
        if source not in self._fusion.widenings or pattern.bounds:
            return self._views.in_memory(node)
        view = self._views.in_order(self._source(self._expressions[source].inputs[0]))
        return View(view.source, pattern._replace(offset=pattern.offset + view.pattern.offset))

    def _pack(self, view: View, packed: Packed | Split, product: Node) -> View:
        """Return packed matrices for a product; matrices that several products share are packed once."""
        if view.source in self._steady:
            return self._keep(view, "rhs", packed.launch, packed.size, product)
        key = view, packed.launch
        node = self._panels.get(key)
        if node is None:
            node = self._panels[key] = panels_of(view.source, packed.size, product)
            self.launch(node, Plan((packed.launch,)), {"rhs": view})
        return View(node, Pattern.contiguous(node.shape))
