"""Grouping: which nodes share a kernel, and the order of kernels and NumPy calls.

Every computed node gets a *stage*: later than that of any value it must read from memory, and equal to that of values
it can take from a register. A value stays in a register where the reader is computed over the same space, element by
element, or where it belongs to the rows of that space. Groups of one stage never depend on each other, so the order of
stages is an order of execution, without any search for cycles. Nodes of one stage and one space go to one group,
whether or not they depend on each other: they probably read the same memory.

Locations (reshapes, slices, transposes, broadcasts) have no stage. They are *views*: their readers read the memory
below them by another pattern. They are copied only where no pattern describes them, or where NumPy must see them.

A group computes a cheap value of another group again instead of reading it; values that no step asks for are then
dropped (see :mod:`~phonograd.core.plan.assembly`).

Grouping decides only which values are written to memory: no value depends on it. :func:`group_nodes` is the algorithm;
:class:`Grouping` is the planner that lowerings see (:class:`~phonograd.core.lower.lowering.Planner`). It leaves fused
kernels to :mod:`~phonograd.core.plan.fusion` and kernels of their own to :mod:`~phonograd.core.plan.library_kernels`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..base.pace import rest
from ..graph.node import Node, Shape
from ..kernels.launch import Launch, Plan
from ..kernels.target import Machine
from ..lower.pattern import Pattern, contiguous_strides
from ..run.host import host
from ..run.reference import resolve
from .conversions import convert_again, convert_views
from .expansion import Order
from .fusion import Fusion
from .group import ELEMENT, Group, Read, Value, View, WriteTarget, line_strides, squeeze
from .inplace import InPlaceAssignments, can_write_beside
from .library_kernels import LibraryKernels
from .recompute import recompute_scores
from .steps import Alias, NumpyCall, PlanStep
from .views import BARRIER, over

__all__ = ["Grouping", "group_nodes"]


def group_nodes(
    computed: Sequence[Node],
    inputs: Iterable[Node],
    kept: Iterable[Node],
    source: Callable[[Node], Node] = resolve,
    refused: Iterable[Node] = (),
    steady: frozenset[Node] = frozenset(),
) -> Grouping:
    """Return the groups, NumPy calls and views that compute some nodes.

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
    steady
        The inputs that are the same in many runs.
    """
    given, kept = frozenset(inputs), list(kept)
    assignments = InPlaceAssignments(computed, given, kept, source, refused)
    order = Order(assignments.order, given, source, assignments.chosen, kept)
    if not assignments.chosen:
        convert_views(order, kept)
        convert_again(order, given, kept)
        recompute_scores(order, kept)
    grouping = Grouping(order, given, kept, assignments, steady)
    for node in order.nodes:
        grouping.place(node)
    for node in kept:
        grouping.make_array(node)
    return grouping


class Grouping:
    """The groups, NumPy calls and views of a plan, while nodes are placed, and afterwards.

    Parameters
    ----------
    order
        The nodes to compute, each with its lowering.
    inputs
        The nodes whose values are arrays already.
    kept
        The nodes whose values must be arrays at the end.
    assignments
        Assignments that write a part of an array alone.
    steady
        The inputs that are the same in many runs.
    """

    def __init__(
        self,
        order: Order,
        inputs: frozenset[Node],
        kept: Iterable[Node],
        assignments: InPlaceAssignments,
        steady: frozenset[Node] = frozenset(),
    ) -> None:
        self.inputs = inputs
        self.assignments = assignments
        self.source: Callable[[Node], Node] = order.source
        self._order = order
        self._fused = fused = Fusion(order, inputs, kept, not assignments.chosen)
        self._library = library = LibraryKernels(order, kept, fused, steady)
        self._views, self._values = fused.views, fused.values
        # operations for lowerings that the parts of the planner have
        self.compute, self.fold, self.take, self.draw = fused.compute, fused.fold, fused.take, fused.draw
        self.view, self.multiply = fused.views.add, library.multiply
        #: the first stage at which the readers of a barrier, or of a location of one, may be computed
        self._floors: dict[Node, int] = {}
        #: steps that are no kernels, each with its stage
        self._others: list[tuple[int, NumpyCall | Alias]] = []
        #: by joined value its parts, and where they begin
        self._joined: dict[Node, tuple[tuple[Node, Shape], ...]] = {}
        #: nodes that must be NumPy arrays: kept values, and operands and results of NumPy
        self.arrays: set[Node] = set()

    @property
    def groups(self) -> list[Group]:
        """The fused kernels, in the order in which they were begun."""
        return self._fused.groups

    @property
    def packed(self) -> dict[Node, tuple[View, str, Launch]]:
        """Packed forms of steady inputs, with the views and names of these, and the launches that pack them."""
        return self._library.packed

    @property
    def has_epilogues(self) -> bool:
        """Whether groups become epilogues of kernels: in plans with steady inputs."""
        return self._library.is_for_predictions

    @property
    def machine(self) -> Machine:
        """The processor that kernels are written for."""
        return host()

    def steps(self) -> list[PlanStep]:
        """Return all steps, in order; in each stage NumPy comes last."""
        numbered: list[tuple[int, int, PlanStep]] = [
            (group.stage, 0, group) for group in self.groups if group.targets or self.writes(group)
        ]
        numbered += [(stage, 1, work) for stage, work in self._library.steps]
        numbered += [(stage, 2, other) for stage, other in self._others]
        # sorting is stable: within a stage, the order of creation
        return [step for _, _, step in sorted(numbered, key=lambda entry: entry[:2])]

    def writes(self, group: Group) -> list[Node]:
        """Return those of a group's nodes that it writes to memory of their own."""
        # values that other groups compute may be members, too
        values = self._values
        return [node for node, member in group.values.items() if member.is_written and values[node] is member]

    def place(self, node: Node) -> None:
        """Decide where and when a node is computed."""
        rest()
        if node in self._values or node in self._library.absorbed:
            return
        order, fused = self._order, self._fused
        if self._floors or node.operator is BARRIER:
            fused.floor = self._floor(node)
        if node in self._library.sums:
            self._library.add_product(node)
        elif node in self._library.roundings:
            self._library.round_product(node)
        else:
            order.lowerings[node].place(self, node, order.expressions[node])
        if fused.floor:
            if node in order.below:
                self._floors[node] = fused.floor
            fused.floor = 0

    def _floor(self, node: Node) -> int:
        """Return the first stage at which a node may be computed, given the barriers that it reads."""
        sources = self._order.sources
        read = [*sources[node], *(sources[self._library.sums[node].product] if node in self._library.sums else ())]
        floor = max([self._floors.get(source, 0) for source in read], default=0)
        if node.operator is BARRIER:
            floor = max(floor, self._fused.ready_for_good(self._views.of(sources[node][1]).source))
        return floor

    # -- operations for lowerings

    def launch(self, node: Node, expression: Node, plan: Plan) -> None:
        """Run kernels whose operands are the inputs of the expression, contiguous, and ``out``."""
        views = [self._views.in_order(self.source(source)) for source in expression.inputs]
        self._library.launch(node, plan, dict(zip(expression.operator.input_names, views, strict=True)))

    def evaluate(self, node: Node) -> None:
        """Let NumPy evaluate the operator of a node."""
        sources = tuple([self.source(source) for source in node.inputs])
        stage = max([self.make_array(source) for source in sources], default=0)
        stage = max(stage, self._fused.floor)
        self._values[node] = Value(stage)
        self.arrays.add(node)
        self._others.append((stage, NumpyCall(node, sources)))

    # -- values that are written in parts

    def join(self, node: Node, sources: Sequence[Node], begins: Sequence[Shape]) -> None:
        """Write each source to its block of the value."""
        strides = contiguous_strides(node.shape)
        stage = 0
        for source, begin in zip(sources, begins, strict=True):
            if source.size:
                place = Pattern(source.shape, strides, _distance(begin, strides))
                stage = max(stage, self._write_part(source, node, place))
        self._values[node] = Value(stage, is_written=True)
        self._joined[node] = tuple(zip(sources, begins, strict=True))

    def _write_part(self, source: Node, node: Node, place: Pattern) -> int:
        """Write a value to a block of a joined one; return the stage.

        A source that is joined itself is not read again: its parts are written twice while they are in registers.
        """
        whole = self._views.of(source)
        parts = self._joined.get(whole.source, ())
        made = squeeze(whole.source.shape)
        can_divide = parts and made == squeeze(source.shape) and whole.pattern.is_contiguous
        if not can_divide or not all([self._fused.is_in_register(part) for part, _ in parts]):
            return self._fused.write_block(source, node, over(node, place))
        along = iter([stride for stride, size in zip(place.strides, place.shape, strict=True) if size != 1])
        strides = tuple([next(along) if size != 1 else 0 for size in whole.source.shape])
        places = [Pattern(part.shape, strides, place.offset + _distance(begin, strides)) for part, begin in parts]
        blocks = [(part, over(node, there)) for (part, _), there in zip(parts, places, strict=True)]
        return max([self._fused.write_block(part, node, block) for part, block in blocks])

    def replace(self, node: Node, expression: Node, part: Pattern) -> None:
        """Replace a part of a value, in the memory of the old value or in a copy."""
        data, value = [self.source(source) for source in expression.inputs]
        fused, values = self._fused, self._values
        base = self.assignments.begin(node)
        place, read = over(node, part), self._views.read(value, part.shape)
        home, space = fused.home(read.source), squeeze(part.shape)
        if base is None:
            before = [fused.write_block(data, node, over(node, Pattern.contiguous(node.shape))) + 1]
            within: list[int] = []
        else:
            # after all readers of the old value, except those in the same kernel that read other elements
            readers = [values[reader] for reader in self.assignments.readers(base) if reader in values]
            before = [reader.stage + 1 for reader in readers if home is None or reader.group is not home]
            before.append(fused.ready(base))
            within = [] if home is None else [home.stage + 1]
        member = home.holds(read, ELEMENT) if home is not None and home.space == space else None
        if home is not None and member is not None and member.role == ELEMENT and home.stage >= max(before):
            accepted = home.has_room_for(member) and home.accepts((place.layout,), 0.0, member.level)
            if accepted and (base is None or can_write_beside(home, base, place)):
                self._write_overlay(home, node, WriteTarget(member, node, place.offset, place.strides))
                return
        group = fused.new_group(max([*before, *within, fused.ready(read.source)]), space)
        fused.write(read.source)
        self._write_overlay(group, node, WriteTarget(read, node, place.offset, place.strides))

    def _write_overlay(self, group: Group, node: Node, target: WriteTarget) -> None:
        """Make a group write a part of a node."""
        group.write(target)
        self.assignments.writers[node] = group
        self._values[node] = Value(group.stage, is_written=True)
        if node in self.assignments.begun:
            self.arrays.add(node)

    # -- arrays

    def make_array(self, node: Node) -> int:
        """Make a value an array that NumPy can read; return the first stage at which it is one."""
        if node in self.inputs:
            return 0
        if node not in self._values:
            if self._views.needs_no_memory(node):
                self._fused.copy(node)
            else:
                self._make_view_array(node, *self._views.of(node))
        self.arrays.add(node)
        self._fused.write(node)
        return self._values[node].stage + 1

    def _make_view_array(self, node: Node, source: Node, pattern: Pattern) -> None:
        """Make the value of a location an array."""
        is_whole = not pattern.offset and node.size == source.size and pattern.is_contiguous
        if self._views.needs_no_memory(source) or not is_whole:
            self._fused.copy(node)
            return
        value = self._values.get(source)
        if value is not None and value.group is not None and not value.is_written:
            # the kernel that computes it writes it in this shape
            place = Read(node, 0, line_strides(squeeze(source.shape)))
            self._values[node] = Value(self._fused.write_block(source, node, place), is_written=True)
        else:
            stage = self.make_array(source)
            self._values[node] = Value(stage)
            self._others.append((stage, Alias(node, source)))


def _distance(begin: Sequence[int], strides: Sequence[int]) -> int:
    """Return the distance of a position from the first one."""
    return sum([first * stride for first, stride in zip(begin, strides, strict=True)])
