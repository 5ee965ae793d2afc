"""Assembly: from a group of nodes to the structure of its kernel, and to the sizes it runs with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import DType
from ..kernels.emitter import ROW
from ..kernels.lowering import Constant, Elementwise, Random
from ..kernels.pattern import contiguous_strides
from ..kernels.structure import KEPT, REDUCED, SPLAT, STRIDE, UNIT, Draw, Fold, Load, Step, Structure
from ..node import Node, Shape
from ..operator import Operator
from .grouping import Group, Member, View, lowering_of

__all__ = ["Assembly", "Operand", "assemble", "collapse"]


class Operand(NamedTuple):
    """Memory that a kernel reads or writes: whose it is, the first element, and strides along the kernel's axes.

    ``source`` is a node, or the bytes of a number.
    """

    source: Node | bytes
    start: int
    strides: Shape
    itemsize: int


class Assembly(NamedTuple):
    """A kernel to be run: its structure, the extents of its axes, and its operands in the order of the table."""

    structure: Structure
    extents: Shape
    operands: list[Operand]

    @property
    def range(self) -> int:
        """The extent that a launch covers."""
        axis = self.structure.range_axis
        return 1 if axis is None else self.extents[axis]


def assemble(group: Group, written: set[Node]) -> Assembly:
    """Return the kernel of a group, which writes those of its nodes that are in ``written``."""
    builder = _Builder(group)
    for member in group.members:
        builder.member(member)
    stores = [member.node for member in group.members if member.node in written]
    for fold in group.folds:
        builder.fold(fold, stores)
    return builder.finish(stores)


class _Read(NamedTuple):
    source: Node | bytes
    dtype: DType
    start: int
    strides: Shape


class _Builder:
    """The values of a kernel while they are numbered: loads, then draws, then steps."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.reads: dict[_Read, None] = {}
        self.draws: list[tuple[Node, Draw, View]] = []
        self.steps: list[tuple[Node, Operator, dict[str, Any], list[Node | _Read]]] = []
        #: what stands for a node: itself where it is computed, or what is read
        self.values: dict[Node, Node | _Read] = {}
        self.folds: list[tuple[Node, Node | _Read]] = []

    def member(self, member: Member) -> None:
        node, operator = member.node, member.node.operator
        lowering = lowering_of(node)
        if isinstance(lowering, Random):
            (counter,) = member.operands
            assert isinstance(counter, View)
            parameters = _accepted(operator, lowering.convert, node)
            self.draws.append((node, Draw(operator.name, tuple(parameters.items()), node.dtype), counter))
            self.values[node] = node
        elif isinstance(lowering, Elementwise):
            sources = [self._operand(operand) for operand in member.operands]
            if lowering.numbers is not None:
                for number in lowering.numbers(**_accepted(operator, lowering.numbers, node)):
                    sources.append(self._number(np.asarray(number, node.dtype).tobytes(), node.dtype))
            self.steps.append((node, operator, _accepted(operator, lowering.emit, node), sources))
            self.values[node] = node
        else:
            self.values[node] = self._operand(member.operands[0])

    def fold(self, member: Member, stores: list[Node]) -> None:
        value = self._operand(member.operands[0])
        if self.group.reduced:
            self.folds.append((member.node, value))
        else:
            # along axes of size one there is nothing to combine
            self.values[member.node] = value
            stores.append(member.node)

    def _operand(self, operand: Node | View) -> Node | _Read:
        if isinstance(operand, Node):
            return self.values[operand]
        source, pattern = operand
        lowering = lowering_of(source)
        if isinstance(lowering, Constant):
            data = lowering.read(**_accepted(source.operator, lowering.read, source))
            return self._number(data, source.dtype)
        return self._read(_Read(source, source.dtype, pattern.offset, pattern.strides))

    def _number(self, data: bytes, dtype: DType) -> _Read:
        return self._read(_Read(data, dtype, 0, (0,) * len(self.group.space)))

    def _read(self, read: _Read) -> _Read:
        self.reads[read] = None
        return read

    def finish(self, stores: list[Node]) -> Assembly:
        """Return the kernel."""
        space, reduced = self.group.space, self.group.reduced or ()
        whole, kept = contiguous_strides(space), _strides_without(space, reduced)
        operands = [Operand(r.source, r.start, r.strides, r.dtype.itemsize) for r in self.reads]
        operands += [Operand(c.source, c.pattern.offset, whole, c.source.dtype.itemsize) for _, _, c in self.draws]
        operands += [Operand(node, 0, whole, node.dtype.itemsize) for node in stores]
        operands += [Operand(node, 0, kept, node.dtype.itemsize) for node, _ in self.folds]
        kinds = "".join([REDUCED if axis in reduced else KEPT for axis in range(len(space))])
        axes, extents, strides = collapse(space, kinds, [operand.strides for operand in operands])
        assert not self.draws or len(axes) == 1, "random numbers are drawn along one line"
        operands = [operand._replace(strides=found) for operand, found in zip(operands, strides, strict=True)]
        return Assembly(self._structure(axes, [found[-1] for found in strides], stores), extents, operands)

    def _structure(self, axes: str, last_strides: list[int], stores: list[Node]) -> Structure:
        made = [node for node, _, _ in self.draws] + [node for node, _, _, _ in self.steps]
        order: list[Node | _Read] = [*self.reads, *made]
        numbers = {value: number for number, value in enumerate(order)}
        steps = []
        for node, operator, parameters, sources in self.steps:
            values = tuple([numbers[source] for source in sources])
            steps.append(Step(operator.name, tuple(parameters.items()), values, node.dtype))
        return Structure(
            axes,
            lanes_for([value.dtype for value in order]),
            tuple([Load(read.dtype, _access(stride)) for read, stride in zip(self.reads, last_strides)]),
            tuple([draw for _, draw, _ in self.draws]),
            tuple(steps),
            tuple([numbers[self.values[node]] for node in stores]),
            tuple([Fold(node.operator.name, numbers[value]) for node, value in self.folds]),
        )


def lanes_for(dtypes: Iterable[DType]) -> int:
    """Return how many lanes the vectors of a kernel have; no result depends on it."""
    return ROW // 2 if any([dtype.itemsize == 8 for dtype in dtypes]) else ROW


def _accepted(operator: Operator, rule: Callable[..., Any], node: Node) -> dict[str, Any]:
    return operator.accepted(rule, node.attributes)


def _access(stride: int) -> str:
    return {0: SPLAT, 1: UNIT}.get(stride, STRIDE)


def _strides_without(space: Shape, reduced: Shape) -> Shape:
    """Return the strides over a space of an array that has no extent along the reduced axes."""
    strides = contiguous_strides(tuple([1 if axis in reduced else extent for axis, extent in enumerate(space)]))
    return tuple([0 if axis in reduced else stride for axis, stride in enumerate(strides)])


def collapse(space: Shape, kinds: str, operands: Sequence[Shape]) -> tuple[str, Shape, list[Shape]]:
    """Return the kinds and extents of as few axes as can walk a space, and every operand's strides along them.

    Axes of size one are dropped, and neighbours of one kind are merged where one stride walks both, for all operands.

    >>> collapse((2, 3, 4), "KKR", [(12, 4, 1), (0, 0, 1)])
    ('KR', (6, 4), [(4, 1), (0, 1)])
    """
    axes: list[tuple[str, int, list[int]]] = []
    for axis, extent in enumerate(space):
        if extent == 1:
            continue
        strides = [operand[axis] for operand in operands]
        if axes:
            kind, outer, outer_strides = axes[-1]
            if kind == kinds[axis] and all([o == s * extent for o, s in zip(outer_strides, strides)]):
                axes[-1] = kind, outer * extent, strides
                continue
        axes.append((kinds[axis], extent, strides))
    if not axes:
        axes.append((KEPT, 1, [0] * len(operands)))
    by_operand = [tuple([strides[number] for _, _, strides in axes]) for number in range(len(operands))]
    return "".join([kind for kind, _, _ in axes]), tuple([extent for _, extent, _ in axes]), by_operand
