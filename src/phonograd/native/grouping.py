"""Grouping: which nodes share a kernel, and the order of kernels and NumPy calls.

Every node that computes something gets a *stage*: later than that of any value it must read from memory, and equal to
that of values it can take from a register. A value stays in a register where the reader is computed over the same
space, element by element, or where it belongs to the rows of that space. Groups of one stage never depend on each
other, so the order of stages is an order of execution, without any search for cycles. Nodes of one stage and one space
go to one group, whether or not they depend on each other: they probably read the same memory.

Locations (reshapes, slices, transposes, broadcasts) have no stage. They are *views*: their readers read the memory
below them by another pattern. Only where no pattern describes them, or where NumPy must see them, are they copied.

A value of another group that is cheap to compute is computed again instead of being written and read; what then nobody
asks for is dropped (see :mod:`~phonograd.native.assembly`).

What decides here is which values are written to memory, and nothing else: no value depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..kernels.launch import Plan
from ..kernels.lowering import (
    Constant,
    Coordinate,
    Elementwise,
    Gather,
    Location,
    Lowering,
    Matmul,
    Mosaic,
    Pieces,
    Random,
    Reduction,
    Scatter,
)
from ..kernels.pattern import Pattern, contiguous_strides
from ..kernels.scatter import add_slices, last_places
from ..node import Node, Shape
from ..reference import resolve
from .again import Again
from .expansion import Order, lowering_of, parameters
from .group import (
    ELEMENT,
    FOLD,
    Group,
    Layout,
    Member,
    Read,
    Target,
    View,
    folds_as_lines,
    line_strides,
    squeezed,
)
from .products import plan_product

__all__ = ["Alias", "Call", "Group", "Grouping", "Step", "View", "Work", "lowering_of"]


class Call(NamedTuple):
    """A node that NumPy evaluates, and the nodes whose arrays it reads."""

    node: Node
    sources: tuple[Node, ...]


class Work(NamedTuple):
    """A node that is computed by kernels of its own; the operands of its plan are views of memory."""

    node: Node
    plan: Plan
    operands: dict[str, View]


class Alias(NamedTuple):
    """A node whose value is another node's memory in another shape."""

    node: Node
    source: Node


Step = Group | Work | Call | Alias


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
    """

    def __init__(
        self,
        computed: Sequence[Node],
        inputs: Iterable[Node],
        kept: Iterable[Node],
        source: Callable[[Node], Node] = resolve,
    ) -> None:
        self._source = source
        self._inputs = frozenset(inputs)
        order = Order(computed, self._inputs, source)
        self._lowerings, self._below = order.lowerings, order.below
        kept = list(kept)
        self._views: dict[Node, View] = {}
        self._stages: dict[Node, int] = {}
        self._homes: dict[Node, Group] = {}
        self._open: dict[tuple[int, Shape], list[Group]] = {}
        self._others: list[tuple[int, Call | Alias]] = []
        self._works: list[tuple[int, Work]] = []
        self.groups: list[Group] = []
        #: nodes that a kernel writes to memory
        self.written: set[Node] = set()
        #: nodes that must be NumPy arrays: kept values, and what NumPy reads or makes
        self.arrays: set[Node] = set()
        self._again = Again(order, kept, self._homes, self.written, source)
        for node in order.nodes:
            self._place(node, order.expressions[node], order.lowerings[node])
        for node in kept:
            self._as_array(node)

    def steps(self) -> list[Step]:
        """Return everything that is done, in order; in each stage NumPy comes last."""
        numbered: list[tuple[int, int, Step]] = [
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
        if node in self._stages or isinstance(lowering, (Constant, Coordinate, Pieces)):
            return
        if isinstance(lowering, Location):
            self._views[node] = self._moved(node, expression, lowering)
        elif isinstance(lowering, Elementwise):
            self._place_member(node, expression)
        elif isinstance(lowering, Reduction):
            self._place_fold(node, expression, lowering)
        elif isinstance(lowering, Gather):
            self._place_gather(node, expression, lowering)
        elif isinstance(lowering, Mosaic):
            self._place_mosaic(node, expression, lowering)
        elif isinstance(lowering, Random):
            self._place_random(node)
        elif isinstance(lowering, Matmul):
            self._place_product(node, expression)
        elif isinstance(lowering, Scatter):
            self._place_scatter(node, expression, lowering)
        else:
            self._call(node)

    def _call(self, node: Node) -> None:
        """Have NumPy evaluate a node."""
        sources = tuple([self._source(source) for source in node.inputs])
        stage = max([self._as_array(source) for source in sources], default=0)
        self._stages[node] = stage
        self.arrays.add(node)
        self._others.append((stage, Call(node, sources)))

    # -- kernels of their own

    def _place_product(self, node: Node, expression: Node) -> None:
        """Have matrices multiplied where they lie; they are copied first only where no strides say where that is."""
        views = [self._memory(self._source(source)) for source in expression.inputs]
        plan = plan_product(views[0].pattern, views[1].pattern, node.dtype)
        if plan is None:
            views = [self._in_order(self._source(source)) for source in expression.inputs]
            plan = plan_product(views[0].pattern, views[1].pattern, node.dtype)
            assert plan is not None, node
        self._work(node, plan, {"lhs": views[0], "rhs": views[1]})

    def _place_scatter(self, node: Node, expression: Node, lowering: Scatter) -> None:
        """Have slices added up at places that an index names."""
        sources = [self._source(source) for source in expression.inputs]
        views = [self._in_order(source) for source in sources]
        sizes = lowering.sizes(*[source.shape for source in sources], **parameters(expression, lowering.sizes))
        outer, inner, extent = sizes
        count = sources[-1].size
        if lowering.last:
            self._work(node, last_places(extent, count), {"index": views[0]})
        else:
            self._work(node, add_slices(outer, inner, extent, count, node.dtype), {"data": views[0], "index": views[1]})

    def _work(self, node: Node, plan: Plan, operands: dict[str, View]) -> None:
        """Have a node computed by kernels of its own."""
        stage = max([self._ready(view.source) for view in operands.values()], default=0)
        self.written.update([view.source for view in operands.values() if view.source in self._homes])
        self.written.add(node)
        self._stages[node] = stage
        self._works.append((stage, Work(node, plan, operands)))

    def _memory(self, node: Node) -> View:
        """Return how a value is read from memory, where it must lie in memory."""
        view = self._view(node)
        return self._in_order(node) if view.pattern.bounds or self._needs_no_memory(view.source) else view

    def _in_order(self, node: Node) -> View:
        """Return how a value is read from memory in which its elements follow each other."""
        view = self._view(node)
        if not view.pattern.is_contiguous or self._needs_no_memory(view.source):
            self._copy(node)
            view = View(node, Pattern.contiguous(node.shape))
        return view

    # -- members of groups

    def _place_member(self, node: Node, expression: Node) -> None:
        reads = [self._read(self._source(source), node.shape) for source in expression.inputs]
        self._settle(node, expression, reads, _weight(expression))

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
        found = self._view(index)
        pattern = lowering.index(found.pattern, node.shape, **parameters(expression, lowering.index))
        reads = [_over(view.source, walk.pattern), _over(found.source, pattern)]
        self._settle(node, expression, reads, 4.0, walk.index_stride)

    def _copy(self, node: Node) -> None:
        """Have the value of a location or input written to memory, in order."""
        if node not in self._stages:
            self._settle(node, node, [self._read(node, node.shape)], 1.0, stays=True)
            self.written.add(node)

    def _settle(
        self,
        node: Node,
        expression: Node,
        reads: list[Read],
        weight: float,
        index_stride: int | None = None,
        stays: bool = False,
    ) -> None:
        """Put a node into a group of its stage, or of a later one where that is not possible.

        The data of a gather, and what is copied, ``stays`` in memory: it is read from there wherever it was computed.
        """
        space = squeezed(node.shape)
        fixed = 1 if index_stride is not None or stays else 0
        stage = 0
        near: Group | None = None
        several = False
        for position, read in enumerate(reads):
            home = self._homes.get(read.source)
            if home is None:
                needed = self._ready(read.source)
            else:
                role = None if position < fixed else home.role_over(space)
                if role is not None and home.holds(read, role):
                    if home.stage > stage or (home.stage == stage and near is None):
                        stage, near, several = home.stage, home, False
                    elif home.stage == stage and near is not home:
                        several = True
                    continue
                needed = home.stage + 1
            if needed > stage:
                stage, near, several = needed, None, False
        if near is not None and not several and self._joins(near, node, expression, reads, weight, index_stride, fixed):
            return
        stage = max([self._ready(read.source) for read in reads], default=0)
        for group in reversed(self._open.get((stage, space), ())):
            related = not group.reduced or not group.sources.isdisjoint([read.source for read in reads])
            if related and self._joins(group, node, expression, reads, weight, index_stride, fixed):
                return
        group = self._new_group(stage, space)
        joined = self._joins(group, node, expression, reads, weight, index_stride, fixed)
        assert joined, node

    def _joins(
        self,
        group: Group,
        node: Node,
        expression: Node,
        reads: list[Read],
        weight: float,
        index_stride: int | None,
        fixed: int,
    ) -> bool:
        """Take a node into a group, if the group accepts it."""
        role = group.role_over(squeezed(node.shape))
        assert role is not None, (node, group.space)
        operands: list[Member | Read] = []
        level = 0
        layouts: list[Layout] = []
        for position, read in enumerate(reads):
            member = None if position < fixed else group.holds(read, role)
            if member is not None:
                operands.append(member)
                level = max(level, member.level)
                continue
            spread = read if role == ELEMENT else group.spread(read)
            operands.append(spread)
            layouts.append(spread.layout)
        if not group.accepts(layouts, weight, level, role):
            return False
        if role == ELEMENT:
            operands = [
                self._again.clone(operand, group) if isinstance(operand, Read) and position >= fixed else operand
                for position, operand in enumerate(operands)
            ]
        self._note([operand for operand in operands if isinstance(operand, Read)])
        group.join(Member(node, expression, tuple(operands), role, level, index_stride or 0), weight)
        self._homes[node] = group
        self._stages[node] = group.stage
        return True

    def _note(self, reads: Iterable[Read]) -> None:
        """Have what is read from memory written there."""
        for read in reads:
            if read.source in self._homes:
                self.written.add(read.source)

    def _new_group(self, stage: int, space: Shape) -> Group:
        group = Group(space, stage)
        self.groups.append(group)
        self._open.setdefault((stage, space), []).append(group)
        return group

    def _place_random(self, node: Node) -> None:
        """Have random numbers drawn, in a group whose space is one line."""
        counter = self._source(node.inputs[0])
        view = self._memory(counter)
        self._note([_over(view.source, view.pattern)])
        stage, space = self._ready(view.source), squeezed(node.shape)
        for group in reversed(self._open.get((stage, space), ())):
            if group.accepts((), _weight(node), draws=True):
                break
        else:
            group = self._new_group(stage, space)
        group.draws = True
        # the counter is read as a whole, wherever its elements are drawn
        read = Read(view.source, view.pattern.offset, line_strides(space))
        group.join(Member(node, node, (read,), ELEMENT, 0), _weight(node))
        self._homes[node] = group
        self._stages[node] = group.stage

    def _place_fold(self, node: Node, expression: Node, lowering: Reduction) -> None:
        source = self._source(expression.inputs[0])
        axes = lowering.axes(source.shape, **parameters(expression, lowering.axes))
        if all([source.shape[axis] == 1 for axis in axes]):
            # along axes of size one there is nothing to combine
            self._views[node] = self._reshaped(source, node.shape)
            return
        space = squeezed(source.shape)
        reduced = _squeezed_axes(source.shape, axes)
        read = self._read(source, source.shape)
        home = self._homes.get(read.source)
        member = home.holds(read, ELEMENT) if home is not None and home.space == space else None
        if home is not None and member is not None and home.accepts((), 1.0, member.level, reduced=reduced):
            self._fold(node, expression, home, member, reduced)
            return
        if not folds_as_lines(space, read.layout, reduced):
            self._copy(source)
            read = Read(source, 0, line_strides(space))
        stage = self._ready(read.source)
        for group in reversed(self._open.get((stage, space), ())):
            if group.accepts((read.layout,), reduced=reduced):
                break
        else:
            group = self._new_group(stage, space)
        group.reduce(reduced)
        operand = self._again.clone(read, group)
        if isinstance(operand, Read):
            self._note([operand])
        self._fold(node, expression, group, operand, reduced)

    def _fold(self, node: Node, expression: Node, group: Group, operand: Member | Read, reduced: Shape) -> None:
        group.reduce(reduced)
        level = operand.level if isinstance(operand, Member) else 0
        group.join(Member(node, expression, (operand,), FOLD, level + 1), 1.0)
        self._homes[node] = group
        self._stages[node] = group.stage

    def _place_mosaic(self, node: Node, expression: Node, lowering: Mosaic) -> None:
        """Have every input written to its place in the output."""
        sources = [self._source(source) for source in expression.inputs]
        begins = lowering.begins([source.shape for source in sources], **parameters(expression, lowering.begins))
        strides = contiguous_strides(node.shape)
        stage = 0
        for source, begin in zip(sources, begins, strict=True):
            if source.size == 0:
                continue
            offset = sum([first * stride for first, stride in zip(begin, strides, strict=True)])
            stage = max(stage, self._write_block(source, node, _over(node, Pattern(source.shape, strides, offset))))
        self._stages[node] = stage
        self.written.add(node)

    def _write_block(self, source: Node, node: Node, place: Read) -> int:
        """Have a value written to a block of another one's memory; return the stage at which that happens."""
        space = squeezed(source.shape)
        read = self._read(source, source.shape)
        home = self._homes.get(read.source)
        role = None if home is None else home.role_over(space)
        if home is not None and role is not None:
            member = home.holds(read, role)
            spread = place if role == ELEMENT else home.spread(place)
            if member is not None and home.accepts((spread.layout,), 0.0, member.level, role):
                home.write(Target(member, node, spread.offset, spread.strides))
                return home.stage
        stage = self._ready(read.source)
        for group in reversed(self._open.get((stage, space), ())):
            if group.accepts((read.layout, place.layout)):
                break
        else:
            group = self._new_group(stage, space)
        self._note([read])
        group.write(Target(read, node, place.offset, place.strides))
        return stage

    # -- reading values

    def _read(self, node: Node, shape: Shape) -> Read:
        """Return how a value is read over the space of a shape to which it is repeated."""
        view = self._views.get(node)
        if view is None:
            if node.shape == shape and not self._needs_no_memory(node):
                return Read(node, 0, line_strides(squeezed(shape)))
            view = self._view(node)
        return _over(view.source, view.pattern.broadcast(shape))

    def _view(self, node: Node) -> View:
        """Return how a value is read from memory."""
        found = self._views.get(node)
        if found is None:
            lowering = self._lowerings.get(node)
            if isinstance(lowering, Constant):
                found = View(node, Pattern(node.shape, (0,) * node.ndim))
            elif isinstance(lowering, Coordinate):
                axis = lowering.axis(**parameters(node, lowering.axis))
                found = View(node, Pattern(node.shape, tuple([int(a == axis) for a in range(node.ndim)])))
            else:
                found = View(node, Pattern.contiguous(node.shape))
        return found

    def _moved(self, node: Node, expression: Node, lowering: Location) -> View:
        """Return how the value of a location is read, copying what is below it where no pattern describes it."""
        source, named = self._below[node], parameters(expression, lowering.move)
        view = self._view(source)
        pattern = lowering.move(view.pattern, **named)
        if pattern is None:
            self._copy(source)
            view = View(source, Pattern.contiguous(source.shape))
            pattern = lowering.move(view.pattern, **named)
            assert pattern is not None, node
        return View(view.source, pattern)

    def _reshaped(self, source: Node, shape: Shape) -> View:
        """Return how a value is read in another shape."""
        view = self._view(source)
        pattern = view.pattern.reshape(shape)
        if pattern is None:
            self._copy(source)
            view, pattern = View(source, view.pattern), Pattern.contiguous(shape)
        return View(view.source, pattern)

    def _needs_no_memory(self, node: Node) -> bool:
        return isinstance(self._lowerings.get(node), (Constant, Coordinate))

    def _ready(self, source: Node) -> int:
        """Return the first stage at which memory can be read."""
        if source in self._inputs or (source not in self._stages and self._needs_no_memory(source)):
            return 0
        return self._stages[source] + 1

    def _as_array(self, node: Node) -> int:
        """Make a value an array that NumPy can see; return the first stage at which it is one."""
        if node in self._inputs:
            return 0
        if node not in self._stages:
            if self._needs_no_memory(node):
                self._call(node)
            else:
                self._view_as_array(node, *self._views[node])
        self.arrays.add(node)
        if node in self._homes:
            self.written.add(node)
        return self._stages[node] + 1

    def _view_as_array(self, node: Node, source: Node, pattern: Pattern) -> None:
        """Make the value of a location an array."""
        is_whole = not pattern.offset and node.size == source.size and pattern.is_contiguous
        if self._needs_no_memory(source) or not is_whole:
            self._copy(node)
        elif source in self._homes and source not in self.written:
            # whoever computes it writes it in this shape
            place = Read(node, 0, line_strides(squeezed(source.shape)))
            self._stages[node] = self._write_block(source, node, place)
            self.written.add(node)
        else:
            self._stages[node] = stage = self._as_array(source)
            self._others.append((stage, Alias(node, source)))


def _weight(expression: Node) -> float:
    cost = expression.operator.cost
    return 1.0 if callable(cost) else max(1.0, cost)


def _over(source: Node, pattern: Pattern) -> Read:
    """Return a view without axes of size one."""
    shape, strides = pattern.shape, pattern.strides
    bounds: list[tuple[int, int, int]] = []
    if pattern.bounds:
        axis = 0
        for extent, bound in zip(shape, pattern.bounds, strict=True):
            if bound is not None:
                # along an axis of size one, bounds say that nothing lies in memory
                bounds.append((axis, *bound) if extent != 1 else (0, 0, 0))
            axis += extent != 1
        if (0, 0, 0) in bounds:
            bounds = [(0, 0, 0)]
    if 1 in shape:
        strides = tuple([stride for stride, extent in zip(strides, shape, strict=True) if extent != 1])
    return Read(source, pattern.offset, strides, tuple(bounds))


def _squeezed_axes(shape: Shape, axes: Iterable[int]) -> Shape:
    """Return the numbers of some axes when those of size one are left out."""
    wanted, found, position = set(axes), [], 0
    for axis, extent in enumerate(shape):
        if extent != 1:
            if axis in wanted:
                found.append(position)
            position += 1
    return tuple(found)
