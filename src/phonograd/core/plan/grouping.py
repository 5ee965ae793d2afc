"""Grouping: which nodes share a kernel, and the order of kernels and NumPy calls.

Every node that computes something gets a *stage*: later than that of any value it must read from memory, and equal to
that of values it can take from a register. A value stays in a register where the reader is computed over the same
space, element by element, or where it belongs to the rows of that space. Groups of one stage never depend on each
other, so the order of stages is an order of execution, without any search for cycles. Nodes of one stage and one space
go to one group, whether or not they depend on each other: they probably read the same memory.

Locations (reshapes, slices, transposes, broadcasts) have no stage. They are *views*: their readers read the memory
below them by another pattern. Only where no pattern describes them, or where NumPy must see them, are they copied.

A value of another group that is cheap to compute is computed again instead of being written and read; what then nobody
asks for is dropped (see :mod:`~phonograd.core.plan.assembly`).

What decides here is which values are written to memory, and nothing else: no value depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..graph.node import Node, Shape
from ..kernels.launch import Launch, Plan, Written
from ..kernels.matmul.bf16_split import Split
from ..kernels.matmul.packing import Packed
from ..lower.lowering import (
    Constant,
    Coordinate,
    Cumulative,
    Elementwise,
    Gather,
    InplaceUpdate,
    Location,
    Lowering,
    Matmul,
    Mosaic,
    Pieces,
    Random,
    Reduction,
    Scatter,
    Windowed,
)
from ..lower.pattern import Pattern, contiguous_strides
from ..run import kernel_cache
from ..run.reference import resolve
from .expansion import Order, lowering_of, parameters
from .fusion import Candidate, Fusion
from .group import (
    DRAW_WEIGHT,
    ELEMENT,
    FOLD,
    Group,
    Member,
    Read,
    View,
    WriteTarget,
    folds_as_lines,
    line_strides,
    squeezed,
    weight_of,
)
from .inplace import Overlays, is_apart, part_of
from .library_kernels import plan_work
from .products import panels_of, plan_product, sums_of_products, uses_of_operands
from .steps import Alias, LibraryKernel, NumpyCall, PlanStep
from .views import Views, over

__all__ = ["Alias", "Group", "Grouping", "LibraryKernel", "NumpyCall", "PlanStep", "View", "lowering_of"]


class Grouping:
    """The groups, NumPy calls and views of a plan.

    Parameters
    ----------
    computed
        The nodes to compute, older ones first.
    inputs
        The nodes whose values are arrays already.
    kept
        Those of the computed nodes whose values must be arrays at the end.
    source
        Returns the node whose value is to be read as that of a node.
    refused
        Assignments to a part of an array that must not write this part alone.
    """

    def __init__(
        self,
        computed: Sequence[Node],
        inputs: Iterable[Node],
        kept: Iterable[Node],
        source: Callable[[Node], Node] = resolve,
        refused: Iterable[Node] = (),
    ) -> None:
        self._source = source
        self.inputs = frozenset(inputs)
        kept = list(kept)
        self.overlays = Overlays(computed, self.inputs, kept, source, refused)
        order = Order(self.overlays.order, self.inputs, source, self.overlays.chosen)
        self._views = Views(order, self._copy)
        self._members = members = Fusion(order, self.inputs, kept, self._views)
        self._stages, self._homes = members.stages, members.homes
        self._others: list[tuple[int, NumpyCall | Alias]] = []
        self._works: list[tuple[int, LibraryKernel]] = []
        self._work_of: dict[Written, int] = {}
        #: matrices as panels, by where they lie and how they are packed
        self._panels: dict[tuple[View, Launch], Node] = {}
        #: what was joined from others: these, and where they begin
        self._mosaics: dict[Node, tuple[tuple[Node, Shape], ...]] = {}
        #: by space and reduced axes, the group that folded last
        self._folding: dict[tuple[Shape, Shape], Group] = {}
        self.groups = members.groups
        #: nodes that a kernel writes to memory
        self.written = members.written
        #: nodes that must be NumPy arrays: kept values, and what NumPy reads or makes
        self.arrays: set[Node] = set()
        #: sums that are computed with one of their products
        self._sums = sums_of_products(order, kept)
        self._expressions, self._sources = order.expressions, order.sources
        self._uses = uses_of_operands(order)
        self._absorbed = {found.product for found in self._sums.values()}
        for node in order.nodes:
            self._place(node, order.expressions[node], order.lowerings[node])
        for node in kept:
            self._as_array(node)

    def steps(self) -> list[PlanStep]:
        """Return everything that is done, in order; in each stage NumPy comes last."""
        numbered: list[tuple[int, int, PlanStep]] = [
            (group.stage, 0, group) for group in self.groups if group.targets or self.writes(group)
        ]
        numbered += [(stage, 1, work) for stage, work in self._works]
        numbered += [(stage, 2, other) for stage, other in self._others]
        # sorting is stable: within a stage, the order of creation
        return [step for _, _, step in sorted(numbered, key=lambda entry: entry[:2])]

    def writes(self, group: Group) -> list[Node]:
        """Return those of a group's nodes that it writes to memory of their own."""
        return [node for node in group.values if node in self.written and self._homes[node] is group]

    # -- placing nodes

    def _place(self, node: Node, expression: Node, lowering: Lowering | None) -> None:
        if node in self._stages or node in self._absorbed:
            return
        if node in self._sums:
            product, old = self._sums[node]
            self._place_product(node, self._expressions[product], old)
        elif isinstance(lowering, Elementwise):
            self._place_member(node, expression, lowering)
        elif isinstance(lowering, Location):
            self._views.add(node, expression, lowering)
        elif isinstance(lowering, (Constant, Coordinate, Pieces)):
            return
        elif isinstance(lowering, Reduction):
            self._place_fold(node, expression, lowering)
        elif isinstance(lowering, Gather):
            self._place_gather(node, expression, lowering)
        elif isinstance(lowering, Mosaic):
            self._place_mosaic(node, expression, lowering)
        elif isinstance(lowering, Random):
            self._place_random(node, lowering)
        elif isinstance(lowering, Matmul):
            self._place_product(node, expression)
        elif isinstance(lowering, InplaceUpdate):
            self._place_overlay(node, expression, lowering)
        elif isinstance(lowering, (Cumulative, Scatter, Windowed)):
            self._place_work(node, expression, lowering)
        else:
            self._call(node)

    def _call(self, node: Node) -> None:
        """Have NumPy evaluate a node."""
        sources = tuple([self._source(source) for source in node.inputs])
        stage = max([self._as_array(source) for source in sources], default=0)
        self._stages[node] = stage
        self.arrays.add(node)
        self._others.append((stage, NumpyCall(node, sources)))

    # -- kernels of their own

    def _place_product(self, node: Node, expression: Node, old: Node | None = None) -> None:
        """Have matrices multiplied where they lie; they are copied first only where no strides say where that is."""
        lhs, rhs = [self._source(source) for source in expression.inputs]
        views = [self._memory(lhs), self._memory(rhs)]
        uses = max(1, self._uses[rhs])
        found = plan_product(views[0].pattern, views[1].pattern, node.dtype, adds=old is not None, uses=uses)
        if found is None:
            views = [self._in_order(lhs), self._in_order(rhs)]
            found = plan_product(views[0].pattern, views[1].pattern, node.dtype, adds=old is not None, uses=uses)
            assert found is not None, node
        operands = {"lhs": views[0], "rhs": views[1]}
        for operand, name, packed in found.before:
            operands[name] = self._packed(operands[operand], packed, node)
        self._work(node, found.plan, operands if old is None else {**operands, "old": self._in_order(old)})

    def _packed(self, view: View, packed: Packed | Split, product: Node) -> View:
        """Return matrices as panels or parts, which are made for a product, and for all that share them."""
        key = view, packed.launch
        node = self._panels.get(key)
        if node is None:
            node = self._panels[key] = panels_of(view.source, packed, product)
            self._work(node, Plan((packed.launch,)), {"rhs": view})
        return View(node, Pattern.contiguous(node.shape))

    def _place_work(self, node: Node, expression: Node, lowering: Cumulative | Scatter | Windowed) -> None:
        """Have a node computed by kernels of its own, if there are some for it."""
        found = plan_work(expression, lowering)
        if found is None:
            self._call(node)
            return
        plan, names = found
        views = [self._in_order(self._source(source)) for source in expression.inputs]
        self._work(node, plan, dict(zip(names, views, strict=True)))

    def _work(self, node: Node, plan: Plan, operands: dict[str, View]) -> None:
        """Have a node computed by kernels of its own."""
        stage = max([self._members.ready(view.source) for view in operands.values()], default=0)
        for view in operands.values():
            self._members.needed_in_memory(view.source)
        self.written.add(node)
        self._stages[node] = stage
        self._works.append((stage, LibraryKernel(node, plan, operands)))
        for structure, _, extent, chunk, products in plan.launches:
            before = self._work_of.get(structure, 0)
            self._work_of[structure] = before + max(extent // chunk, products)
            if not before or before <= kernel_cache.MUCH_WORK < self._work_of[structure]:
                # these take longest to compile, and there is more to plan meanwhile
                kernel_cache.expect(structure, self._work_of[structure])

    def _memory(self, node: Node) -> View:
        """Return how a value is read from memory, where it must lie in memory."""
        view = self._views.of(node)
        return self._in_order(node) if view.pattern.bounds or self._views.needs_no_memory(view.source) else view

    def _in_order(self, node: Node) -> View:
        """Return how a value is read from memory in which its elements follow each other."""
        view = self._views.of(node)
        if not view.pattern.is_contiguous or self._views.needs_no_memory(view.source):
            self._copy(node)
            view = View(node, Pattern.contiguous(node.shape))
        return view

    # -- members of groups

    def _place_member(self, node: Node, expression: Node, lowering: Elementwise) -> None:
        read, shape, sources = self._views.read, node.shape, self._sources[node]
        reads = [read(operand, shape) for operand in sources]
        weight = weight_of(expression)
        self._members.assign_to_group(
            Candidate(node, expression, lowering, squeezed(shape), reads, weight, sources=sources)
        )

    def _place_gather(self, node: Node, expression: Node, lowering: Gather) -> None:
        """Have elements taken at places that an index names."""
        data, index = [self._source(source) for source in expression.inputs]
        named = parameters(expression, lowering.walk)
        view = self._memory(data)
        walk = lowering.walk(view.pattern, index.shape, **named)
        if walk is None:
            view = self._in_order(data)
            walk = lowering.walk(view.pattern, index.shape, **named)
            assert walk is not None, node
        found = self._views.of(index)
        pattern = lowering.index(found.pattern, node.shape, **parameters(expression, lowering.index))
        reads = [over(view.source, walk.pattern), over(found.source, pattern)]
        space = squeezed(node.shape)
        self._members.assign_to_group(
            Candidate(node, expression, lowering, space, reads, 4.0, walk.index_stride, in_memory=1)
        )

    def _copy(self, node: Node) -> None:
        """Have the value of a location or input written to memory, in order."""
        if node not in self._stages:
            reads = [self._views.read(node, node.shape)]
            self._members.assign_to_group(Candidate(node, node, None, squeezed(node.shape), reads, 1.0, in_memory=1))
            self.written.add(node)

    def _place_random(self, node: Node, lowering: Random) -> None:
        """Have random numbers drawn, in a group whose space is one line."""
        counter = self._source(node.inputs[0])
        view = self._memory(counter)
        self._members.note([over(view.source, view.pattern)])
        stage, space = self._members.ready(view.source), squeezed(node.shape)
        for group in self._members.recent(stage, space):
            if group.accepts((), DRAW_WEIGHT, draws=True):
                break
        else:
            group = self._members.new_group(stage, space)
        group.draws = True
        # the counter is read as a whole, wherever its elements are drawn
        read = Read(view.source, view.pattern.offset, line_strides(space))
        group.join(Member(node, node, lowering, (read,), ELEMENT, 0, DRAW_WEIGHT))
        self._homes[node] = group
        self._stages[node] = group.stage

    def _place_fold(self, node: Node, expression: Node, lowering: Reduction) -> None:
        source = self._source(expression.inputs[0])
        axes = lowering.axes(source.shape, **parameters(expression, lowering.axes))
        if all([source.shape[axis] == 1 for axis in axes]):
            # along axes of size one there is nothing to combine
            self._views.add_reshaped(node, source)
            return
        space = squeezed(source.shape)
        reduced = _squeezed_axes(source.shape, axes)
        read = self._views.read(source, source.shape)
        home = self._homes.get(read.source)
        member = home.holds(read, ELEMENT) if home is not None and home.space == space else None
        if home is not None and member is not None and home.accepts((), 1.0, member.level, reduced=reduced):
            self._fold(node, expression, lowering, home, member, reduced)
            return
        if not folds_as_lines(space, read.layout, reduced):
            self._copy(source)
            read = Read(source, 0, line_strides(space))
        group = self._group_to_fold(read, space, reduced)
        group.reduce(reduced)
        copies = self._members.again.plan(read, group)
        if copies is None:
            self._members.note([read])
        operand = read if copies is None else copies.made(group, self._members.note)
        self._fold(node, expression, lowering, group, operand, reduced)

    def _group_to_fold(self, read: Read, space: Shape, reduced: Shape) -> Group:
        """Return a group that can fold what it reads from memory."""
        stage = self._members.ready(read.source)
        for group in self._members.recent(stage, space):
            if group.accepts((read.layout,), reduced=reduced):
                return group
        before, home = self._folding.get((space, reduced)), self._homes.get(read.source)
        if before is None or home is None or before is home or home.sources.isdisjoint(before.sources):
            return self._members.new_group(stage, space)
        # nobody has asked for what another group folds of the same memory: it can wait for this one
        waits = before.stage < stage and not before.is_read and not before.targets
        if waits and before.accepts((read.layout,), reduced=reduced):
            self._members.delay(before, stage)
            return before
        return self._members.new_group(stage, space)

    def _fold(
        self,
        node: Node,
        expression: Node,
        lowering: Reduction,
        group: Group,
        operand: Member | Read,
        reduced: Shape,
    ) -> None:
        group.reduce(reduced)
        level = operand.level if isinstance(operand, Member) else 0
        group.join(Member(node, expression, lowering, (operand,), FOLD, level + 1, 1.0))
        self._homes[node] = group
        self._stages[node] = group.stage
        self._folding[group.space, reduced] = group

    def _place_mosaic(self, node: Node, expression: Node, lowering: Mosaic) -> None:
        """Have every input written to its place in the output."""
        if node.size == 0:
            self._call(node)
            return
        sources = [self._source(source) for source in expression.inputs]
        begins = lowering.begins([source.shape for source in sources], **parameters(expression, lowering.begins))
        strides = contiguous_strides(node.shape)
        stage = 0
        for source, begin in zip(sources, begins, strict=True):
            if source.size == 0:
                continue
            offset = _distance(begin, strides)
            stage = max(stage, self._write_piece(source, node, Pattern(source.shape, strides, offset)))
        self._stages[node] = stage
        self.written.add(node)
        self._mosaics[node] = tuple(zip(sources, begins, strict=True))

    def _write_piece(self, source: Node, node: Node, place: Pattern) -> int:
        """Have a value written to a block of a mosaic; one that is a mosaic itself is not read again for it."""
        whole = self._views.of(source)
        pieces = self._mosaics.get(whole.source, ())
        made = squeezed(whole.source.shape)
        if not pieces or made != squeezed(source.shape) or not whole.pattern.is_contiguous:
            return self._write_block(source, node, over(node, place))
        along = iter([stride for stride, size in zip(place.strides, place.shape, strict=True) if size != 1])
        strides = [next(along) if size != 1 else 0 for size in whole.source.shape]
        patterns = [
            Pattern(piece.shape, tuple(strides), place.offset + _distance(begin, strides)) for piece, begin in pieces
        ]
        if not all([self._held(piece) for piece, _ in pieces]):
            return self._write_block(source, node, over(node, place))
        places = [over(node, pattern) for pattern in patterns]
        return max([self._write_block(piece, node, there) for (piece, _), there in zip(pieces, places, strict=True)])

    def _held(self, source: Node) -> bool:
        """Return whether a value is still in a register of the kernel that computes it."""
        read = self._views.read(source, source.shape)
        home = self._homes.get(read.source)
        role = None if home is None else home.role_over(squeezed(source.shape))
        return home is not None and role is not None and home.holds(read, role) is not None

    def _write_block(self, source: Node, node: Node, place: Read) -> int:
        """Have a value written to a block of another one's memory; return the stage at which that happens."""
        space = squeezed(source.shape)
        read = self._views.read(source, source.shape)
        home = self._homes.get(read.source)
        role = None if home is None else home.role_over(space)
        if home is not None and role is not None:
            member = home.holds(read, role)
            spread = place if role == ELEMENT else home.spread(place)
            # what belongs to a row is written once for it, not to each of its elements
            fits = member is not None and (role != ELEMENT or member.role == ELEMENT)
            if member is not None and fits and home.accepts((spread.layout,), 0.0, member.level, role):
                home.write(WriteTarget(member, node, spread.offset, spread.strides))
                return home.stage
        stage = self._members.ready(read.source)
        for group in self._members.recent(stage, space):
            if group.accepts((read.layout, place.layout)):
                break
        else:
            group = self._members.new_group(stage, space)
        self._members.note([read])
        group.write(WriteTarget(read, node, place.offset, place.strides))
        return stage

    def _place_overlay(self, node: Node, expression: Node, lowering: InplaceUpdate) -> None:
        """Have a part of a value replaced, in the memory of the old value or in a copy."""
        data, value = [self._source(source) for source in expression.inputs]
        base, part = self.overlays.begin(node), part_of(expression, lowering)
        place, read = over(node, part), self._views.read(value, part.shape)
        home, stages = self._homes.get(read.source), self._stages
        if base is None:
            before = [self._write_block(data, node, over(node, Pattern.contiguous(node.shape))) + 1]
            within: list[int] = []
        else:
            # not before everybody has read the old value, unless it is read in the same kernel and elsewhere
            readers = [reader for reader in self.overlays.readers(base) if reader in stages]
            before = [stages[reader] + 1 for reader in readers if home is None or self._homes.get(reader) is not home]
            before.append(self._members.ready(base))
            within = [] if home is None else [home.stage + 1]
        member = home.holds(read, ELEMENT) if home is not None and home.space == squeezed(part.shape) else None
        there = home is not None and member is not None and member.role == ELEMENT and home.stage >= max(before)
        if there and home is not None and member is not None:
            accepted = home.accepts((place.layout,), 0.0, member.level)
            if accepted and (base is None or is_apart(home, base, place)):
                self._overlay(home, node, WriteTarget(member, node, place.offset, place.strides))
                return
        group = self._members.new_group(max([*before, *within, self._members.ready(read.source)]), squeezed(part.shape))
        self._members.note([read])
        self._overlay(group, node, WriteTarget(read, node, place.offset, place.strides))

    def _overlay(self, group: Group, node: Node, target: WriteTarget) -> None:
        """Have a group write a part of a node."""
        group.write(target)
        self.overlays.writers[node] = group
        self._stages[node] = group.stage
        self.written.add(node)
        if node in self.overlays.begun:
            self.arrays.add(node)

    # -- memory

    def _as_array(self, node: Node) -> int:
        """Make a value an array that NumPy can see; return the first stage at which it is one."""
        if node in self.inputs:
            return 0
        if node not in self._stages:
            if self._views.needs_no_memory(node):
                self._copy(node)
            else:
                self._view_as_array(node, *self._views.of(node))
        self.arrays.add(node)
        self._members.needed_in_memory(node)
        return self._stages[node] + 1

    def _view_as_array(self, node: Node, source: Node, pattern: Pattern) -> None:
        """Make the value of a location an array."""
        is_whole = not pattern.offset and node.size == source.size and pattern.is_contiguous
        if self._views.needs_no_memory(source) or not is_whole:
            self._copy(node)
        elif source in self._homes and source not in self.written:
            # whoever computes it writes it in this shape
            place = Read(node, 0, line_strides(squeezed(source.shape)))
            self._stages[node] = self._write_block(source, node, place)
            self.written.add(node)
        else:
            self._stages[node] = stage = self._as_array(source)
            self._others.append((stage, Alias(node, source)))


def _distance(begin: Sequence[int], strides: Sequence[int]) -> int:
    """Return how far a position lies behind the first one."""
    return sum([first * stride for first, stride in zip(begin, strides, strict=True)])


def _squeezed_axes(shape: Shape, axes: Iterable[int]) -> Shape:
    """Return the numbers of some axes when those of size one are left out."""
    wanted, found, position = set(axes), [], 0
    for axis, extent in enumerate(shape):
        if extent != 1:
            if axis in wanted:
                found.append(position)
            position += 1
    return tuple(found)
