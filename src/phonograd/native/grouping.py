"""Grouping: which nodes share a kernel, and the order of kernels and NumPy calls.

Every node that computes something gets a *stage*: later than that of any value it must read from memory, and equal to
that of values it can take from a register. A value stays in a register where the reader is computed over the same
shape, element by element. Groups of one stage never depend on each other, so the order of stages is an order of
execution, without any search for cycles. Nodes of one stage and one shape go to one group, whether or not they depend
on each other: they probably read the same memory.

Locations (reshapes, slices, transposes, broadcasts) have no stage. They are *views*: their readers read the memory
below them by another pattern. Only where no pattern describes them, or where NumPy must see them, are they copied.

What decides here is which values are written to memory, and nothing else: no value depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..dtypes import FLOAT16
from ..kernels.launch import Plan
from ..kernels.lowering import Constant, Elementwise, Location, Lowering, Matmul, Random, Reduction
from ..kernels.pattern import Pattern
from ..node import Node, Shape
from ..operator import ABSENT
from ..reference import resolve
from .machine import converts_halves
from .products import plan_product

__all__ = ["Alias", "Call", "Group", "Grouping", "Member", "Step", "View", "Work", "lowering_of"]

_ABSENT = ABSENT.operator

#: work in one kernel, in units of one cheap operation: compiling takes about 0.1 ms for each
WEIGHT_LIMIT = 160


class View(NamedTuple):
    """A way to read a value: the node in whose memory it lies (or a constant), and the pattern there."""

    source: Node
    pattern: Pattern


class Member(NamedTuple):
    """A node of a group, with each operand a node of the same group or a view of memory.

    A location or input as a member is copied: its only operand is the view of itself.
    """

    node: Node
    operands: tuple[Node | View, ...]


class Group:
    """Nodes that share a kernel: they are computed, element by element, over one shape."""

    __slots__ = ("draws", "folds", "members", "reduced", "space", "stage", "strides", "weight")

    def __init__(self, space: Shape, stage: int) -> None:
        self.space = space
        self.stage = stage
        self.members: list[Member] = []
        self.folds: list[Member] = []
        #: axes (longer than 1) along which this group's folds combine; None while it has no fold
        self.reduced: Shape | None = None
        self.draws = False
        #: the strides of everything that is read from memory, each once
        self.strides: set[Shape] = set()
        self.weight = 0.0

    def accepts(self, strides: set[Shape], weight: float, draws: bool = False, reduced: Shape | None = None) -> bool:
        """Return whether a node that reads memory with some strides can join."""
        if self.weight + weight > WEIGHT_LIMIT:
            return False
        if reduced is None and not (draws or self.draws or self.reduced):
            return True
        if reduced is not None and self.reduced is not None and reduced != self.reduced:
            return False
        if (draws or self.draws) and (reduced or self.reduced):
            return False
        everything = self.strides | strides
        if draws or self.draws:
            # random numbers are made in groups of 64 consecutive elements, so the whole space must be one line
            return all([is_line(self.space, found, range(len(self.space))) for found in everything])
        folded = self.reduced if reduced is None else reduced
        return not folded or all([folds_as_lines(self.space, found, folded) for found in everything])

    def join(self, member: Member, strides: set[Shape], weight: float) -> None:
        """Take a node in."""
        self.members.append(member)
        self.strides |= strides
        self.weight += weight

    def join_fold(self, member: Member, strides: set[Shape], reduced: Shape) -> None:
        """Take a reduction in."""
        self.folds.append(member)
        self.strides |= strides
        self.reduced = reduced
        self.weight += 1


class Call(NamedTuple):
    """A node that NumPy evaluates, on arrays."""

    node: Node


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


_known_lowerings: dict[tuple[Any, ...], tuple[Any, Lowering | None]] = {}


def lowering_of(node: Node) -> Lowering | None:
    """Return the lowering of a node, or None where its operator has none for these dtypes."""
    declared = node.operator.lowering
    if declared is None:
        return None
    key = (
        node.operator,
        node.kind,
        node.outputs is None,
        *[(source.kind, source.operator is _ABSENT) for source in node.inputs],
    )
    known = _known_lowerings.get(key)
    if known is None or known[0] is not declared:
        known = _known_lowerings[key] = declared, _lowering_for(node, declared)
    return known[1]


def _lowering_for(node: Node, lowering: Lowering) -> Lowering | None:
    if node.outputs is not None or any([source.operator is _ABSENT for source in node.inputs]):
        return None
    dtypes = [node.dtype]
    if not isinstance(lowering, Random):
        dtypes += [source.dtype for source in node.inputs]
    if FLOAT16 in dtypes and not converts_halves():
        return None
    return lowering if lowering.dtypes.issuperset(dtypes) else None


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
    """

    def __init__(self, computed: Sequence[Node], inputs: Iterable[Node], kept: Iterable[Node]) -> None:
        self._inputs = frozenset(inputs)
        self._lowerings: dict[Node, Lowering | None] = {}
        self._views: dict[Node, View] = {}
        self._stages: dict[Node, int] = {}
        self._groups: dict[Node, Group] = {}
        self._open: dict[tuple[int, Shape], Group] = {}
        self._others: list[tuple[int, Call | Alias]] = []
        self._works: list[tuple[int, Work]] = []
        self.groups: list[Group] = []
        #: nodes that a kernel writes to memory
        self.written: set[Node] = set()
        #: nodes that must be NumPy arrays: kept values, and what NumPy reads or makes
        self.arrays: set[Node] = set()
        for node in computed:
            self._lowerings[node] = lowering_of(node)
        for node in computed:
            self._place(node)
        for node in kept:
            self._as_array(node)

    def steps(self) -> list[Step]:
        """Return everything that is done, in order; in each stage NumPy comes last."""
        numbered: list[tuple[int, int, Step]] = [(group.stage, 0, group) for group in self.groups]
        numbered += [(stage, 1, work) for stage, work in self._works]
        numbered += [(stage, 2, other) for stage, other in self._others]
        # sorting is stable: within a stage, the order of creation
        return [step for _, _, step in sorted(numbered, key=lambda entry: entry[:2])]

    # -- placing nodes

    def _place(self, node: Node) -> None:
        lowering = self._lowerings[node]
        if isinstance(lowering, Constant):
            return
        if isinstance(lowering, Location):
            self._views[node] = self._moved(node, lowering)
        elif isinstance(lowering, (Elementwise, Random)):
            self._place_member(node, lowering)
        elif isinstance(lowering, Reduction):
            self._place_fold(node, lowering)
        elif isinstance(lowering, Matmul):
            self._place_product(node)
        else:
            self._call(node)

    def _call(self, node: Node) -> None:
        """Have NumPy evaluate a node."""
        stage = max([self._as_array(resolve(source)) for source in node.inputs], default=0)
        self._stages[node] = stage
        self.arrays.add(node)
        self._others.append((stage, Call(node)))

    def _place_product(self, node: Node) -> None:
        """Have matrices multiplied where they lie; they are copied first only where no strides say where that is."""
        views = [self._memory(resolve(source)) for source in node.inputs]
        plan = plan_product(views[0].pattern, views[1].pattern, node.dtype)
        if plan is None:
            views = [self._in_order(resolve(source)) for source in node.inputs]
            plan = plan_product(views[0].pattern, views[1].pattern, node.dtype)
            assert plan is not None, node
        self._work(node, plan, {"lhs": views[0], "rhs": views[1]})

    def _work(self, node: Node, plan: Plan, operands: dict[str, View]) -> None:
        """Have a node computed by kernels of its own."""
        stage = max([self._ready(view.source) for view in operands.values()], default=0)
        self.written.update([view.source for view in operands.values() if view.source in self._groups])
        self.written.add(node)
        self._stages[node] = stage
        self._works.append((stage, Work(node, plan, operands)))

    def _memory(self, node: Node) -> View:
        """Return how a value is read from memory, where it must lie in memory."""
        view = self._view(node)
        return self._in_order(node) if isinstance(self._lowerings.get(view.source), Constant) else view

    def _in_order(self, node: Node) -> View:
        """Return how a value is read from memory in which its elements follow each other."""
        view = self._view(node)
        if not view.pattern.is_contiguous or isinstance(self._lowerings.get(view.source), Constant):
            self._copy(node)
            view = View(node, Pattern.contiguous(node.shape))
        return view

    def _place_member(self, node: Node, lowering: Elementwise | Random) -> None:
        draws = isinstance(lowering, Random)
        operands: list[Node | View] = []
        stage = 0
        for source in node.inputs:
            source = resolve(source)
            group = self._groups.get(source)
            if group is not None and group.space == node.shape and source not in self._views and not draws:
                operands.append(source)
                stage = max(stage, group.stage)
            else:
                view = self._view(source)
                operands.append(view if draws else View(view.source, view.pattern.broadcast(node.shape)))
                stage = max(stage, self._ready(view.source))
        cost = node.operator.cost
        self._settle(node, operands, stage, 1.0 if callable(cost) else max(1.0, cost), draws)

    def _copy(self, node: Node) -> None:
        """Have the value of a location or input written to memory, in order."""
        if node not in self._stages:
            view = self._view(node)
            self._settle(node, [view], self._ready(view.source), 1.0, False)
            self.written.add(node)

    def _settle(self, node: Node, operands: list[Node | View], stage: int, weight: float, draws: bool) -> None:
        """Put a node into a group of its stage, or of a later one where that is not possible."""
        groups = self._groups
        near = {g for o in operands if isinstance(o, Node) and (g := groups[o]).stage == stage}
        group: Group | None
        if len(near) == 1:
            (group,) = near
        else:
            stage += len(near) > 1
            group = self._open.get((stage, node.shape))
        settled, strides = self._settled(operands, group, draws)
        if group is None or not group.accepts(strides, weight, draws):
            stage += len(near) == 1
            group = self._new_group(stage, node.shape)
            settled, strides = self._settled(operands, group, draws)
        self._note_reads(settled)
        group.draws |= draws
        group.join(Member(node, settled), strides, weight)
        groups[node] = group
        self._stages[node] = group.stage

    def _new_group(self, stage: int, space: Shape) -> Group:
        group = self._open[stage, space] = Group(space, stage)
        self.groups.append(group)
        return group

    def _settled(
        self, operands: list[Node | View], group: Group | None, draws: bool = False
    ) -> tuple[tuple[Node | View, ...], set[Shape]]:
        """Return the operands of a node of a group, with those of other groups as views, and the strides of all views.

        A counter, from which random numbers are drawn, is read as a whole: its strides do not matter.
        """
        settled: list[Node | View] = []
        strides: set[Shape] = set()
        for operand in operands:
            if isinstance(operand, Node):
                if self._groups[operand] is group:
                    settled.append(operand)
                    continue
                operand = View(operand, Pattern.contiguous(operand.shape))
            settled.append(operand)
            if not draws:
                strides.add(operand.pattern.strides)
        return tuple(settled), strides

    def _note_reads(self, settled: Iterable[Node | View]) -> None:
        """Have everything written to memory that is read from there."""
        for operand in settled:
            if isinstance(operand, View) and operand.source in self._groups:
                self.written.add(operand.source)

    def _place_fold(self, node: Node, lowering: Reduction) -> None:
        source = resolve(node.inputs[0])
        space = source.shape
        axes = lowering.axes(space, **node.operator.accepted(lowering.axes, node.attributes))
        reduced = tuple(sorted([axis for axis in axes if space[axis] != 1]))
        group = self._groups.get(source)
        if group is not None and source not in self._views and group.accepts(set(), 1, reduced=reduced):
            group.join_fold(Member(node, (source,)), set(), reduced)
        else:
            view = self._view(source)
            if not folds_as_lines(space, view.pattern.strides, reduced):
                self._copy(source)
                view = View(source, Pattern.contiguous(space))
            strides = {view.pattern.strides}
            stage = self._ready(view.source)
            group = self._open.get((stage, space))
            if group is None or not group.accepts(strides, 1, reduced=reduced):
                group = self._new_group(stage, space)
            self._note_reads([view])
            group.join_fold(Member(node, (view,)), strides, reduced)
        self._stages[node] = group.stage
        self._groups[node] = group
        # folds have no value in a register: their readers read memory
        self.written.add(node)
        self._views[node] = View(node, Pattern.contiguous(node.shape))

    # -- reading values

    def _view(self, node: Node) -> View:
        """Return how a value is read from memory."""
        found = self._views.get(node)
        if found is None:
            if isinstance(self._lowerings.get(node), Constant):
                found = View(node, Pattern(node.shape, (0,) * node.ndim))
            else:
                found = View(node, Pattern.contiguous(node.shape))
        return found

    def _moved(self, node: Node, lowering: Location) -> View:
        """Return how the value of a location is read, copying what is below it where no pattern describes it."""
        source = resolve(node.inputs[0])
        parameters = node.operator.accepted(lowering.move, node.attributes)
        view = self._view(source)
        if isinstance(self._lowerings.get(view.source), Constant):
            return View(view.source, Pattern(node.shape, (0,) * node.ndim))
        pattern = lowering.move(view.pattern, **parameters)
        if pattern is None:
            self._copy(source)
            view = View(source, Pattern.contiguous(source.shape))
            pattern = lowering.move(view.pattern, **parameters)
            assert pattern is not None, node
        return View(view.source, pattern)

    def _ready(self, source: Node) -> int:
        """Return the first stage at which memory can be read."""
        if source in self._inputs or isinstance(self._lowerings.get(source), Constant):
            return 0
        return self._stages[source] + 1

    def _as_array(self, node: Node) -> int:
        """Make a value an array that NumPy can see; return the first stage at which it is one."""
        if node in self._inputs:
            return 0
        lowering = self._lowerings[node]
        if node not in self._stages:
            if isinstance(lowering, Constant):
                self._call(node)
            elif isinstance(lowering, Location):
                view = self._views[node]
                if isinstance(self._lowerings.get(view.source), Constant):
                    self._copy(node)
                elif view.pattern.offset == 0 and node.size == view.source.size and view.pattern.is_contiguous:
                    stage = self._as_array(view.source)
                    self._stages[node] = stage
                    self._others.append((stage, Alias(node, view.source)))
                else:
                    self._copy(node)
        self.arrays.add(node)
        if node in self._groups:
            self.written.add(node)
        return self._stages[node] + 1


def is_line(shape: Shape, strides: Shape, axes: Iterable[int]) -> bool:
    """Return whether some axes, in order, can be walked with one stride.

    >>> is_line((2, 3), (3, 1), (0, 1)), is_line((2, 3), (0, 1), (0, 1))
    (True, False)
    """
    inner: int | None = None
    for axis in reversed([axis for axis in axes if shape[axis] != 1]):
        if inner is not None and strides[axis] != inner:
            return False
        inner = strides[axis] * shape[axis]
    return True


def folds_as_lines(shape: Shape, strides: Shape, reduced: Shape) -> bool:
    """Return whether every run of neighbouring reduced axes can be walked with one stride.

    The order of a sum takes such a run as one axis, whatever the strides are.
    """
    run: list[int] = []
    for axis in range(len(shape)):
        if shape[axis] == 1:
            continue
        if axis in reduced:
            run.append(axis)
        else:
            if not is_line(shape, strides, run):
                return False
            run = []
    return is_line(shape, strides, run)
