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
from .again import Again, Copies
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
    weight_of,
)
from .products import plan_product
from .views import Views, over

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


class _Candidate(NamedTuple):
    """A node on its way into a group."""

    node: Node
    expression: Node
    reads: list[Read]
    weight: float
    index_stride: int = 0
    in_memory: int = 0
    """How many of the first operands are read from memory wherever they are computed."""
    sources: Sequence[Node] = ()
    """The nodes whose values are read, where they are read over the shape of the node."""


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
        kept = list(kept)
        self._views = Views(order, self._copy)
        self._stages: dict[Node, int] = {}
        self._homes: dict[Node, Group] = {}
        self._open: dict[tuple[int, Shape], list[Group]] = {}
        self._others: list[tuple[int, Call | Alias]] = []
        self._works: list[tuple[int, Work]] = []
        #: by space and reduced axes, the group that folded last
        self._folding: dict[tuple[Shape, Shape], Group] = {}
        self.groups: list[Group] = []
        #: nodes that a kernel writes to memory
        self.written: set[Node] = set()
        #: nodes that must be NumPy arrays: kept values, and what NumPy reads or makes
        self.arrays: set[Node] = set()
        self._again = Again(order, kept, self._views, self._homes, self.written)
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
        if node in self._stages:
            return
        if isinstance(lowering, Elementwise):
            self._place_member(node, expression)
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
        for view in operands.values():
            self._needed_in_memory(view.source)
        self.written.add(node)
        self._stages[node] = stage
        self._works.append((stage, Work(node, plan, operands)))

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

    def _place_member(self, node: Node, expression: Node) -> None:
        sources = [self._source(source) for source in expression.inputs]
        reads = [self._views.read(source, node.shape) for source in sources]
        self._settle(_Candidate(node, expression, reads, weight_of(expression), sources=sources))

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
        self._settle(_Candidate(node, expression, reads, 4.0, walk.index_stride, in_memory=1))

    def _copy(self, node: Node) -> None:
        """Have the value of a location or input written to memory, in order."""
        if node not in self._stages:
            self._settle(_Candidate(node, node, [self._views.read(node, node.shape)], 1.0, in_memory=1))
            self.written.add(node)

    def _settle(self, candidate: _Candidate) -> None:
        """Put a node into a group of its stage, or of a later one where that is not possible."""
        space, stage = squeezed(candidate.node.shape), 0
        near: list[tuple[int, Group]] = []
        homes, stages, inputs = self._homes, self._stages, self._inputs
        for position, read in enumerate(candidate.reads):
            source = read.source
            home = homes.get(source)
            if home is None:
                # what needs no memory has no stage
                needed = 0 if source in inputs else stages.get(source, -1) + 1
            else:
                role = home.role_over(space) if position >= candidate.in_memory else None
                member = home.holds(read, role) if role is not None else None
                if member is not None:
                    if home.stage > stage:
                        stage, near = home.stage, []
                    if home.stage == stage:
                        near.append((member.level, home))
                    continue
                needed = home.stage + 1
            if needed > stage:
                stage, near = needed, []
        if len(near) > 1:
            # what others compute may be computed again where most is known
            near.sort(key=lambda entry: -entry[0])
        for _, group in dict.fromkeys(near):
            if self._joins(group, candidate):
                return
        stage = max([self._ready(read.source) for read in candidate.reads], default=0)
        for group in reversed(self._open.get((stage, space), ())):
            related = not group.reduced or not group.sources.isdisjoint([read.source for read in candidate.reads])
            if related and self._joins(group, candidate):
                return
        joined = self._joins(self._new_group(stage, space), candidate)
        assert joined, candidate

    def _joins(self, group: Group, candidate: _Candidate) -> bool:
        """Take a node into a group, if the group accepts it."""
        role = group.role_over(squeezed(candidate.node.shape))
        assert role is not None, (candidate, group.space)
        operands: list[Member | Read | Copies] = []
        level = 0
        layouts: list[Layout] = []
        for position, read in enumerate(candidate.reads):
            source = candidate.sources[position] if candidate.sources else None
            in_memory = position < candidate.in_memory
            operand = self._operand(group, read, role, in_memory, source, candidate.node.shape)
            if operand is None:
                return False
            operands.append(operand)
            if isinstance(operand, Read):
                layouts.append(operand.layout)
            else:
                level = max(level, operand.level)
        if not group.accepts(layouts, candidate.weight, level, role):
            return False
        settled: list[Member | Read] = []
        for operand in operands:
            settled.append(operand.made(group, self._note) if isinstance(operand, Copies) else operand)
        self._note([operand for operand in settled if isinstance(operand, Read)])
        node, expression, _, weight, index_stride, *_ = candidate
        group.join(Member(node, expression, tuple(settled), role, level, index_stride), weight)
        self._homes[node] = group
        self._stages[node] = group.stage
        return True

    def _operand(
        self, group: Group, read: Read, role: str, in_memory: bool, source: Node | None, shape: Shape
    ) -> Member | Read | Copies | None:
        """Return what an operand of a member with a role would be; None if the group cannot have it at its stage."""
        if not in_memory:
            member = group.holds(read, role)
            if member is not None:
                return member
            copies: Member | Copies | None = self._again.plan(read, group) if role == ELEMENT else None
            if copies is None and role == ELEMENT and source is not None and source in self._views:
                copies = self._again.plan_through(read, source, group, shape)
            if copies is not None:
                return copies
        if self._ready(read.source) > group.stage:
            return None
        return read if role == ELEMENT else group.spread(read)

    def _note(self, reads: Iterable[Read]) -> None:
        """Have what is read from memory written there."""
        for read in reads:
            self._needed_in_memory(read.source)

    def _needed_in_memory(self, node: Node) -> None:
        home = self._homes.get(node)
        if home is not None:
            self.written.add(node)
            home.is_read = True

    def _new_group(self, stage: int, space: Shape) -> Group:
        group = Group(space, stage)
        self.groups.append(group)
        self._open.setdefault((stage, space), []).append(group)
        return group

    def _place_random(self, node: Node) -> None:
        """Have random numbers drawn, in a group whose space is one line."""
        counter = self._source(node.inputs[0])
        view = self._memory(counter)
        self._note([over(view.source, view.pattern)])
        stage, space = self._ready(view.source), squeezed(node.shape)
        for group in reversed(self._open.get((stage, space), ())):
            if group.accepts((), weight_of(node), draws=True):
                break
        else:
            group = self._new_group(stage, space)
        group.draws = True
        # the counter is read as a whole, wherever its elements are drawn
        read = Read(view.source, view.pattern.offset, line_strides(space))
        group.join(Member(node, node, (read,), ELEMENT, 0), weight_of(node))
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
            self._fold(node, expression, home, member, reduced)
            return
        if not folds_as_lines(space, read.layout, reduced):
            self._copy(source)
            read = Read(source, 0, line_strides(space))
        group = self._group_to_fold(read, space, reduced)
        group.reduce(reduced)
        copies = self._again.plan(read, group)
        if copies is None:
            self._note([read])
        operand = read if copies is None else copies.made(group, self._note)
        self._fold(node, expression, group, operand, reduced)

    def _group_to_fold(self, read: Read, space: Shape, reduced: Shape) -> Group:
        """Return a group that can fold what it reads from memory."""
        stage = self._ready(read.source)
        for group in reversed(self._open.get((stage, space), ())):
            if group.accepts((read.layout,), reduced=reduced):
                return group
        before, home = self._folding.get((space, reduced)), self._homes.get(read.source)
        if before is None or home is None or home.sources.isdisjoint(before.sources):
            return self._new_group(stage, space)
        # nobody has asked for what another group folds of the same memory: it can wait for this one
        waits = before.stage < stage and not before.is_read and not before.targets
        if waits and before.accepts((read.layout,), reduced=reduced):
            self._delay(before, stage)
            return before
        return self._new_group(stage, space)

    def _delay(self, group: Group, stage: int) -> None:
        """Move a group whose values nobody has read to a later stage."""
        self._open[group.stage, group.space].remove(group)
        group.stage = stage
        self._open.setdefault((stage, group.space), []).append(group)
        for node in group.values:
            if self._homes[node] is group:
                self._stages[node] = stage

    def _fold(self, node: Node, expression: Node, group: Group, operand: Member | Read, reduced: Shape) -> None:
        group.reduce(reduced)
        level = operand.level if isinstance(operand, Member) else 0
        group.join(Member(node, expression, (operand,), FOLD, level + 1), 1.0)
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
            offset = sum([first * stride for first, stride in zip(begin, strides, strict=True)])
            stage = max(stage, self._write_block(source, node, over(node, Pattern(source.shape, strides, offset))))
        self._stages[node] = stage
        self.written.add(node)

    def _write_block(self, source: Node, node: Node, place: Read) -> int:
        """Have a value written to a block of another one's memory; return the stage at which that happens."""
        space = squeezed(source.shape)
        read = self._views.read(source, source.shape)
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

    # -- memory

    def _ready(self, source: Node) -> int:
        """Return the first stage at which memory can be read."""
        if source in self._inputs or (source not in self._stages and self._views.needs_no_memory(source)):
            return 0
        return self._stages[source] + 1

    def _as_array(self, node: Node) -> int:
        """Make a value an array that NumPy can see; return the first stage at which it is one."""
        if node in self._inputs:
            return 0
        if node not in self._stages:
            if self._views.needs_no_memory(node):
                self._call(node)
            else:
                self._view_as_array(node, *self._views.of(node))
        self.arrays.add(node)
        self._needed_in_memory(node)
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


def _squeezed_axes(shape: Shape, axes: Iterable[int]) -> Shape:
    """Return the numbers of some axes when those of size one are left out."""
    wanted, found, position = set(axes), [], 0
    for axis, extent in enumerate(shape):
        if extent != 1:
            if axis in wanted:
                found.append(position)
            position += 1
    return tuple(found)
