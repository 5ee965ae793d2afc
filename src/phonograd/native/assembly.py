"""Assembly: from a group of nodes to the kernels that compute it, and the sizes they run with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..dtypes import DType, convert_scalar
from ..kernels.emitter import ROW
from ..kernels.join import JOIN, Join
from ..kernels.launch import Launch, Plan, Reference, aligned
from ..kernels.lowering import Constant, Elementwise, Random
from ..kernels.pattern import contiguous_strides
from ..kernels.structure import KEPT, REDUCED, SPLAT, STRIDE, UNIT, Draw, Fold, Load, Step, Structure
from ..kernels.writer import BLOCKS
from ..node import Node, Shape
from ..operator import Operator
from .grouping import Group, Member, View, lowering_of

__all__ = ["Assembly", "Operand", "assemble", "collapse"]

#: elements that one thread computes at a time: 5 to 40 microseconds of work
CHUNK_ELEMENTS = 1 << 15
#: chunks that are enough to share a sum out among threads; with fewer, the summed axes are divided too
ENOUGH_CHUNKS = 8


class Operand(NamedTuple):
    """Memory that a kernel reads or writes: whose it is, and the first element.

    ``source`` is a node, or the bytes of a number.
    """

    source: Node | bytes
    start: int


class Assembly(NamedTuple):
    """What computes a group: launches, and whose memory the names of their operands stand for."""

    plan: Plan
    operands: dict[str, Operand]


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
                for number in lowering.numbers(node.dtype, **_accepted(operator, lowering.numbers, node)):
                    sources.append(self._number(convert_scalar(number, node.dtype).tobytes(), node.dtype))
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
        """Return the kernel, and others that join its results if it is parted."""
        space, reduced = self.group.space, self.group.reduced or ()
        whole, kept = contiguous_strides(space), _strides_without(space, reduced)
        operands = [(Operand(r.source, r.start), r.strides) for r in self.reads]
        operands += [(Operand(c.source, c.pattern.offset), whole) for _, _, c in self.draws]
        operands += [(Operand(node, 0), whole) for node in stores]
        operands += [(Operand(node, 0), kept) for node, _ in self.folds]
        kinds = "".join([REDUCED if axis in reduced else KEPT for axis in range(len(space))])
        axes, extents, strides = collapse(space, kinds, [found for _, found in operands])
        assert not self.draws or len(axes) == 1, "random numbers are drawn along one line"
        structure = self._structure(axes, [found[-1] for found in strides], stores)
        named = {str(number): operand for number, (operand, _) in enumerate(operands)}
        words: list[int | Reference] = list(extents)
        parts = _parts(structure, extents)
        folds = len(operands) - len(self.folds)
        for number, found in enumerate(strides[:folds] if parts else strides):
            words += [Reference(str(number)), *found]
        if not parts:
            axis = structure.range_axis
            extent = 1 if axis is None else extents[axis]
            launch = Launch(structure, tuple(words), extent, _chunk(structure, extents))
            return Assembly(Plan((launch,)), named)
        joins, scratch_bytes = [], 0
        for number, (node, _) in enumerate(self.folds, folds):
            partial = Reference("scratch", scratch_bytes)
            join, part_strides = _join(structure, node, strides[number], extents, parts, partial, str(number))
            words += [partial, *part_strides]
            joins.append(join)
            scratch_bytes += aligned(parts * part_strides[axes.index(REDUCED)] * node.dtype.itemsize)
        chunk = max(1, CHUNK_ELEMENTS * parts // math.prod(extents))
        launch = Launch(structure._replace(parted=True), tuple(words), parts, chunk)
        return Assembly(Plan((launch, *joins), scratch_bytes), named)

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


def _chunk(structure: Structure, extents: Shape) -> int:
    """Return how much of a kernel's range is worth handing to another thread."""
    axis = structure.range_axis
    if axis is None:
        return 1
    items = max(1, -(-CHUNK_ELEMENTS * extents[axis] // max(1, math.prod(extents))))
    # random numbers are drawn for groups of 64 elements, and whole cache lines are written faster
    return -(-items // 64) * 64 if axis == len(extents) - 1 else items


def _parts(structure: Structure, extents: Shape) -> int:
    """Return into how many parts a kernel is divided along its outermost reduced axis; 0 if it is not parted."""
    elements = math.prod(extents)
    if not structure.folds or elements < 2 * CHUNK_ELEMENTS:
        return 0
    axis = structure.range_axis
    chunks = 1 if axis is None else -(-extents[axis] // _chunk(structure, extents))
    parts = extents[structure.axes.index(REDUCED)]
    width = ROW if structure.folds_rows else 1
    if structure.axes.count(REDUCED) == 1:
        parts = -(-parts // (BLOCKS[0] * width))
    partial = parts * width * _items(structure, extents)
    return parts if parts > chunks and chunks < ENOUGH_CHUNKS and partial <= elements // 8 else 0


def _items(structure: Structure, extents: Shape) -> int:
    """Return how many results a fold has."""
    return math.prod([extent for extent, kind in zip(extents, structure.axes, strict=True) if kind == KEPT])


def _join(
    structure: Structure, node: Node, strides: Shape, extents: Shape, parts: int, partial: Reference, name: str
) -> tuple[Launch, list[int]]:
    """Return what joins the partial results of a fold, and the strides with which a parted kernel writes them."""
    items, width = _items(structure, extents), ROW if structure.folds_rows else 1
    part_strides = [stride * width for stride in strides]
    part_strides[structure.axes.index(REDUCED)] = items * width
    kernel = Join(node.operator.name, node.dtype, lanes_for([node.dtype]), structure.folds_rows)
    words = JOIN.fill({"parts": parts, "items": items, "partial": partial, "out": Reference(name)})
    chunk = -(-CHUNK_ELEMENTS // (parts * width * ROW)) * ROW
    return Launch(kernel, words, items, chunk), part_strides


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
