"""Groups: the nodes that share a fused kernel, and the conditions for joining them.

A group is computed over one *space*: a shape without axes of size one. Some of its axes may be reduced; the positions
along these that belong to one position along the kept ones are a row. A member belongs to the elements of the space, or
to its rows: results of folds, and values computed from them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import NamedTuple

from ..graph.node import Node, Shape
from ..lower.ir.emitter import ROW
from ..lower.lowering import Lowering
from ..lower.pattern import Pattern, contiguous_strides

__all__ = [
    "DRAW_WEIGHT",
    "ELEMENT",
    "FOLD",
    "ROW_VALUE",
    "Group",
    "Member",
    "Read",
    "Value",
    "View",
    "WriteTarget",
    "folds_as_lines",
    "is_line",
    "squeeze",
    "squeeze_axes",
    "weight_of",
]

#: work in one kernel, in units of one cheap operation: compiling takes about 0.1 ms for each
WEIGHT_LIMIT = 160
#: work after which a kernel may end where a loop that it goes along begins anew
ENOUGH_WEIGHT = 100
#: work of random numbers in a kernel: four vectors of them are made at once, in 300 to 400 instructions. Kernels with
#: several would save nothing, and each number of them would be another kernel
DRAW_WEIGHT = 120
#: blocks that a kernel copies from memory to memory. Joins of any number of arrays are launches of the same kernels:
#: compiling one takes 2 ms for each block
COPY_LIMIT = 8
#: blocks of memory that a kernel writes
TARGET_LIMIT = 64
#: operands that a kernel reads from memory, those with bounds counted twice: sums of any number of arrays, and of
#: gradients of their parts, are launches of the same kernels
MEMORY_LIMIT = 64
#: how often a kernel may go through a row
PASS_LIMIT = 8
#: elements of a row that stay in a cache from one pass to the next
ROW_ELEMENTS = 1 << 16
#: rows that are enough for all threads
ENOUGH_ROWS = 16

#: roles of members: one value for every element, for every row, or for every row from all its elements
ELEMENT, ROW_VALUE, FOLD = "element", "row", "fold"


class View(NamedTuple):
    """A way to read a value: the node in whose memory it is (or that needs none), and the pattern there."""

    source: Node
    pattern: Pattern


class Read(NamedTuple):
    """An operand in memory: a view over the space of a group."""

    source: Node
    offset: int
    strides: Shape
    bounds: tuple[tuple[int, int, int], ...] = ()
    """(axis, first position, the one after the last) where only some positions are in memory."""

    @property
    def layout(self) -> tuple[Shape, Shape]:
        """The strides, and the axes with bounds: they decide along which axes an operand is walked in one line."""
        return self.strides, tuple([axis for axis, _, _ in self.bounds]) if self.bounds else ()


class Value:
    """The stage of a value, and the group that computes it; None if another step does."""

    __slots__ = ("_stage", "group", "is_written")

    group: Group | None

    def __init__(self, stage: int, is_written: bool = False) -> None:
        self._stage = stage
        self.group = None
        #: whether a kernel writes it to memory
        self.is_written = is_written

    @property
    def stage(self) -> int:
        """The stage; that of a group may change."""
        return self._stage if self.group is None else self.group.stage


class Member(Value):
    """A value that a fused kernel computes, from members of the same group and from memory.

    ``node`` names it; ``expression`` is the node that says how it is computed, which is the same one unless an operator
    is expanded. A location as a member is copied from its only operand.
    """

    __slots__ = ("expression", "index_stride", "level", "lowering", "node", "operands", "role", "view", "weight")

    def __init__(
        self,
        node: Node,
        expression: Node,
        lowering: Lowering,
        operands: tuple[Member | Read, ...],
        role: str,
        level: int,
        weight: float,
        index_stride: int = 0,
        view: Read | None = None,
    ) -> None:
        self.group = None
        self.is_written = False
        self.node = node
        self.expression = expression
        #: the lowering of the expression; that of a location where elements are copied
        self.lowering = lowering
        self.operands = operands
        self.role = role
        #: number of passes over a row before it can be computed
        self.level = level
        #: work that it adds to a kernel in each pass
        self.weight = weight
        #: for a gather: the distance between places whose indices differ by one
        self.index_stride = index_stride
        #: for a value of the elements of a view of the node: where the view would be read
        self.view = view

    def __repr__(self) -> str:
        return f"<{self.role} {self.node}>"


class WriteTarget(NamedTuple):
    """A block of another node's memory to which a member (or an operand in memory) is written."""

    value: Member | Read
    node: Node
    offset: int
    strides: Shape


#: strides, and the axes with bounds
Layout = tuple[Shape, Shape]


class Group:
    """Members that share a kernel."""

    __slots__ = (
        "copies",
        "deepest",
        "draws",
        "is_complete",
        "is_read",
        "kept_strides",
        "layouts",
        "members",
        "memory",
        "reads",
        "reduced",
        "row_space",
        "seen",
        "sources",
        "space",
        "stage",
        "strides",
        "targets",
        "values",
        "weight",
    )

    def __init__(self, space: Shape, stage: int) -> None:
        self.space = space
        self.stage = stage
        self.strides = line_strides(space)
        self.members: list[Member] = []
        #: members by the node whose value they are
        self.values: dict[Node, Member] = {}
        #: members that have the elements of a view
        self.seen: dict[Read, Member] = {}
        self.targets: list[WriteTarget] = []
        #: targets whose value is in memory
        self.copies = 0
        #: axes along which this group's folds combine; None while it has no fold
        self.reduced: Shape | None = None
        self.row_space: Shape | None = None
        self.kept_strides: Shape = ()
        self.draws = False
        #: layouts of all memory that is read, or written in blocks
        self.layouts: set[Layout] = set()
        #: nodes whose memory is read
        self.sources: set[Node] = set()
        #: operands that members read from memory, and how many that are
        self.reads: set[Read] = set()
        self.memory = 0
        self.weight = 0.0
        self.deepest = 0
        #: whether no other node may join
        self.is_complete = False
        #: whether other groups read some value from memory
        self.is_read = False

    # -- conditions

    def role_over(self, space: Shape) -> str | None:
        """Return the role of a member over a space: a value of elements, of rows, or None if it cannot join."""
        if space == self.space:
            return ELEMENT
        return ROW_VALUE if self.row_space is not None and space == self.row_space else None

    def holds(self, read: Read, role: str) -> Member | None:
        """Return the member whose value an operand of a member with a role has, if there is one."""
        member = self.values.get(read.source)
        if member is None or read.offset or read.bounds:
            return None
        if role == ELEMENT and member.role != ELEMENT:
            return member if read.strides == self.kept_strides else None
        if role != ELEMENT and member.role == ELEMENT:
            return None
        wanted = self.strides if role == ELEMENT else line_strides(self.row_space or ())
        return member if read.strides == wanted else None

    def can_spread(self, read: Read) -> bool:
        """Return whether an operand of a value of rows can be bounded along a kept axis, if it has bounds."""
        return not read.bounds or bool(self.row_space)

    def spread_rows(self, read: Read) -> Read:
        """Return an operand of a value of rows as one over the space of the group."""
        assert self.reduced is not None
        strides, axes, row_axis = [0] * len(self.space), [], 0
        for axis in range(len(self.space)):
            if axis not in self.reduced:
                strides[axis] = read.strides[row_axis]
                axes.append(axis)
                row_axis += 1
        bounds = tuple([(axes[axis], low, high) for axis, low, high in read.bounds])
        return Read(read.source, read.offset, tuple(strides), bounds)

    def accepts(
        self,
        layouts: Iterable[Layout],
        weight: float = 1.0,
        level: int = 0,
        role: str = ELEMENT,
        draws: bool = False,
        reduced: Shape | None = None,
    ) -> bool:
        """Return whether a member that reads or writes memory with some layouts can join."""
        # one node fits in any case
        if self.weight and (self.weight + weight * (1 + level) > WEIGHT_LIMIT or (weight and self.is_complete)):
            return False
        if reduced is None and self.reduced is None and not (draws or self.draws or level > PASS_LIMIT):
            return True
        if reduced is not None and self.reduced is not None and reduced != self.reduced:
            return False
        folded = self.reduced if reduced is None else reduced
        if (draws or self.draws) and folded:
            return False
        if level > PASS_LIMIT or (folded and (level or role == ROW_VALUE) and not rows_fit(self.space, folded)):
            return False
        new = self.layouts.union(layouts) if reduced is not None or draws else layouts
        if draws or self.draws:
            # random numbers are made in groups of 64 consecutive elements, so the whole space must be one line
            return all([is_line(self.space, layout, range(len(self.space))) for layout in new])
        return not folded or all([folds_as_lines(self.space, layout, folded) for layout in new])

    def can_read(self, operands: Iterable[object]) -> bool:
        """Return whether a member can have some operands, as far as the number of those in memory decides."""
        if self.memory < MEMORY_LIMIT:
            return True
        # what is computed again reads memory, too
        return all([isinstance(operand, Member) or operand in self.reads for operand in operands])

    def has_room_for(self, value: Member | Read) -> bool:
        """Return whether a value can be written to one more block of memory."""
        return len(self.targets) < TARGET_LIMIT and (isinstance(value, Member) or self.copies < COPY_LIMIT)

    def ends_before(self, expression: Node) -> bool:
        """Return whether a group that is large enough ends, because a node begins as its first member does.

        Loops repeat themselves: kernels that begin at the same place of every turn are the same kernel.
        """
        if self.weight >= ENOUGH_WEIGHT and not self.is_complete:
            self.is_complete = _look_alike(expression, self.members[0].expression)
        return self.is_complete

    def join(self, member: Member) -> Member:
        """Add a member."""
        self.members.append(member)
        member.group = self
        if member.view is None:
            self.values[member.node] = member
        else:
            self.seen[member.view] = member
        for operand in member.operands:
            if isinstance(operand, Read):
                self.layouts.add(operand.layout if operand.bounds else (operand.strides, ()))
                self.sources.add(operand.source)
                if operand not in self.reads:
                    self.reads.add(operand)
                    self.memory += 2 if operand.bounds else 1
        level = member.level
        self.weight += member.weight * (1 + level)
        if level > self.deepest:
            self.deepest = level
        return member

    def reduce(self, reduced: Shape) -> None:
        """Set the axes along which the folds of this group combine."""
        self.reduced = reduced
        self.row_space = tuple([extent for axis, extent in enumerate(self.space) if axis not in reduced])
        self.kept_strides = strides_without(self.space, reduced)

    def write(self, target: WriteTarget) -> None:
        """Add a block of memory to write."""
        self.targets.append(target)
        self.layouts.add((target.strides, ()))
        if isinstance(target.value, Read):
            self.copies += 1
            self.layouts.add(target.value.layout)
            self.sources.add(target.value.source)


def _look_alike(one: Node, other: Node) -> bool:
    """Return whether two expressions are made by the same operators, as far as three of them can be seen."""
    if one.operator is not other.operator:
        return False
    for first, second in zip(one.inputs, other.inputs):
        if first.operator is not second.operator:
            return False
        if [source.operator for source in first.inputs] != [source.operator for source in second.inputs]:
            return False
    return True


def weight_of(expression: Node) -> float:
    """Return the work that a node adds to a kernel."""
    cost = expression.operator.cost
    return 1.0 if callable(cost) else max(1.0, cost)


# -- shapes


@functools.lru_cache(4096)
def squeeze(shape: Shape) -> Shape:
    """Return a shape without axes of size one."""
    return tuple([extent for extent in shape if extent != 1])


def squeeze_axes(shape: Shape, axes: Iterable[int]) -> Shape:
    """Return the numbers of some axes in the shape without axes of size one.

    >>> squeeze_axes((1, 5, 1, 7), (0, 3))
    (1,)
    """
    wanted, found, position = set(axes), [], 0
    for axis, extent in enumerate(shape):
        if extent != 1:
            if axis in wanted:
                found.append(position)
            position += 1
    return tuple(found)


@functools.lru_cache(4096)
def line_strides(shape: Shape) -> Shape:
    """Return the strides of an array whose elements follow each other."""
    return contiguous_strides(shape)


def strides_without(space: Shape, reduced: Shape) -> Shape:
    """Return the strides over a space of an array that has no extent along the reduced axes."""
    strides = contiguous_strides(tuple([1 if axis in reduced else extent for axis, extent in enumerate(space)]))
    return tuple([0 if axis in reduced else stride for axis, stride in enumerate(strides)])


@functools.lru_cache(4096)
def rows_fit(space: Shape, reduced: Shape) -> bool:
    """Return whether several passes over each row cost nothing extra.

    Either rows stay in a cache, or there are enough of them to give each thread whole rows.
    """
    row = math.prod([space[axis] for axis in reduced])
    width = 1 if len(space) - 1 in reduced else min(ROW, space[-1])
    return row * width <= ROW_ELEMENTS or math.prod(space) >= ENOUGH_ROWS * row


def is_line(shape: Shape, layout: Layout, axes: Iterable[int]) -> bool:
    """Return whether some axes, in order, can be walked with one stride, all positions in memory or none.

    >>> is_line((2, 3), ((3, 1), ()), (0, 1)), is_line((2, 3), ((0, 1), ()), (0, 1))
    (True, False)
    """
    strides, bounded = layout
    inner: int | None = None
    long = [axis for axis in axes if shape[axis] != 1]
    if bounded and len(long) > 1 and not set(long).isdisjoint(bounded):
        return False
    for axis in reversed(long):
        if inner is not None and strides[axis] != inner:
            return False
        inner = strides[axis] * shape[axis]
    return True


@functools.lru_cache(4096)
def folds_as_lines(shape: Shape, layout: Layout, reduced: Shape) -> bool:
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
            if not is_line(shape, layout, run):
                return False
            run = []
    return is_line(shape, layout, run)
