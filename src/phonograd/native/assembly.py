"""Assembly: from a group of nodes to the kernels that compute it, and the sizes they run with."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..dtypes import DType, convert_scalar
from ..kernels.emitter import ROW
from ..kernels.join import JOIN, Join
from ..kernels.launch import Launch, Plan, Reference, aligned
from ..kernels.lowering import Constant, Elementwise, Random, declared
from ..kernels.pattern import contiguous_strides
from ..kernels.structure import KEPT, REDUCED, SPLAT, STRIDE, UNIT, Draw, Fold, Load, Parameters, Step, Structure
from ..kernels.writer import BLOCKS
from ..node import Node, Shape
from ..operator import Operator
from .grouping import Group, Member, View, lowering_of

__all__ = ["Assembler", "Assembly", "Operand", "assemble", "collapse"]

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
    """Return the kernels of a group, which write those of its nodes that are in ``written``."""
    return Assembler(written).assemble(group)


class _Read(NamedTuple):
    source: Node | bytes
    start: int
    strides: Shape
    dtype: DType


#: a value of a kernel: its number among those of its kind, and the kind
Code = tuple[int, int]
_LOAD, _DRAW, _STEP = range(3)


class _Values:
    """The values of one group, numbered by kind, while it is read."""

    def __init__(self, space: Shape) -> None:
        self._no_strides = (0,) * len(space)
        self.reads: dict[_Read, Code] = {}
        #: (operator, attributes, dtype) of what is drawn, and the counters
        self.draws: list[tuple[Operator, tuple[Any, ...], DType]] = []
        self.counters: list[Operand] = []
        #: (operator, attributes, sources, dtype) of what is computed
        self.steps: list[tuple[Operator, tuple[Any, ...], tuple[Code, ...], DType]] = []
        #: what stands for a node
        self.codes: dict[Node, Code] = {}

    def add(self, member: Member) -> None:
        node, operands = member
        lowering = lowering_of(node)
        operator = node.operator
        if isinstance(lowering, Elementwise):
            sources = [self.code(operand) for operand in operands]
            if lowering.numbers is not None:
                for number in lowering.numbers(node.dtype, **operator.accepted(lowering.numbers, node.attributes)):
                    sources.append(self._number(convert_scalar(number, node.dtype).tobytes(), node.dtype))
            self.codes[node] = len(self.steps), _STEP
            self.steps.append((operator, node.attributes, tuple(sources), node.dtype))
        elif isinstance(lowering, Random):
            (counter,) = operands
            assert isinstance(counter, View)
            self.codes[node] = len(self.draws), _DRAW
            self.draws.append((operator, node.attributes, node.dtype))
            self.counters.append(Operand(counter.source, counter.pattern.offset))
        else:
            self.codes[node] = self.code(operands[0])

    def code(self, operand: Node | View) -> Code:
        if isinstance(operand, Node):
            return self.codes[operand]
        source, (_, strides, offset) = operand
        lowering = source.operator.lowering
        if isinstance(lowering, Constant):
            data = lowering.read(**source.operator.accepted(lowering.read, source.attributes))
            return self._number(data, source.dtype)
        return self._load(_Read(source, offset, strides, source.dtype))

    def _number(self, data: bytes, dtype: DType) -> Code:
        return self._load(_Read(data, 0, self._no_strides, dtype))

    def _load(self, read: _Read) -> Code:
        code = self.reads.get(read)
        if code is None:
            code = self.reads[read] = len(self.reads), _LOAD
        return code


class Assembler:
    """Makes the kernels of groups. Groups that differ only in whose memory they use share launches.

    Parameters
    ----------
    written
        The nodes that must be written to memory.
    """

    def __init__(self, written: set[Node]) -> None:
        self._written = written
        self._plans: dict[Any, Plan] = {}

    def assemble(self, group: Group) -> Assembly:
        """Return the kernels of a group."""
        values = _Values(group.space)
        stores: list[Node] = []
        for member in group.members:
            values.add(member)
            if member.node in self._written:
                stores.append(member.node)
        folds: list[Node] = []
        for fold in group.folds:
            values.codes[fold.node] = values.code(fold.operands[0])
            # along axes of size one there is nothing to combine
            (folds if group.reduced else stores).append(fold.node)
        key = (
            group.space,
            group.reduced,
            tuple([(strides, dtype) for _, _, strides, dtype in values.reads]),
            tuple(values.draws),
            tuple(values.steps),
            tuple([values.codes[node] for node in stores]),
            tuple([(node.operator, node.dtype, values.codes[node]) for node in folds]),
        )
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = _plan(group.space, group.reduced or (), values, stores, folds)
        operands = [Operand(source, start) for source, start, _, _ in values.reads]
        operands += values.counters
        operands += [Operand(node, 0) for node in (*stores, *folds)]
        return Assembly(plan, dict(zip(_names(len(operands)), operands)))


def _plan(space: Shape, reduced: Shape, values: _Values, stores: list[Node], folds: list[Node]) -> Plan:
    """Return the launch of a kernel, and others that join its results if it is parted."""
    whole, kept = contiguous_strides(space), _strides_without(space, reduced)
    strides_of = [strides for _, _, strides, _ in values.reads]
    strides_of += [whole] * (len(values.draws) + len(stores)) + [kept] * len(folds)
    kinds = "".join([REDUCED if axis in reduced else KEPT for axis in range(len(space))])
    axes, extents, strides = collapse(space, kinds, strides_of)
    assert not values.draws or len(axes) == 1, "random numbers are drawn along one line"
    structure = _structure(axes, [found[-1] for found in strides], values, stores, folds)
    words: list[int | Reference] = list(extents)
    parts = _parts(structure, extents)
    first_fold = len(strides) - len(folds)
    for number, found in enumerate(strides[:first_fold] if parts else strides):
        words += [Reference(str(number)), *found]
    if not parts:
        axis = structure.range_axis
        extent = 1 if axis is None else extents[axis]
        return Plan((Launch(structure, tuple(words), extent, _chunk(structure, extents)),))
    joins, scratch_bytes = [], 0
    for number, node in enumerate(folds, first_fold):
        partial = Reference("scratch", scratch_bytes)
        join, part_strides = _join(structure, node, strides[number], extents, parts, partial, str(number))
        words += [partial, *part_strides]
        joins.append(join)
        scratch_bytes += aligned(parts * part_strides[axes.index(REDUCED)] * node.dtype.itemsize)
    chunk = max(1, CHUNK_ELEMENTS * parts // math.prod(extents))
    launch = Launch(structure._replace(parted=True), tuple(words), parts, chunk)
    return Plan((launch, *joins), scratch_bytes)


def _structure(axes: str, last_strides: list[int], values: _Values, stores: list[Node], folds: list[Node]) -> Structure:
    # values are numbered by kind: loads, then draws, then steps
    first = {_LOAD: 0, _DRAW: len(values.reads), _STEP: len(values.reads) + len(values.draws)}

    def number(code: Code) -> int:
        return first[code[1]] + code[0]

    draws = []
    for operator, attributes, dtype in values.draws:
        draws.append(
            Draw(operator.name, _parameters(operator, declared(operator.name, Random).convert, attributes), dtype)
        )
    steps = []
    for operator, attributes, sources, dtype in values.steps:
        parameters = _parameters(operator, declared(operator.name, Elementwise).emit, attributes)
        steps.append(Step(operator.name, parameters, tuple([number(code) for code in sources]), dtype))
    dtypes = [read.dtype for read in values.reads]
    dtypes += [draw.dtype for draw in draws] + [step.dtype for step in steps]
    return Structure(
        axes,
        lanes_for(dtypes),
        tuple([Load(read.dtype, _access(stride)) for read, stride in zip(values.reads, last_strides)]),
        tuple(draws),
        tuple(steps),
        tuple([number(values.codes[node]) for node in stores]),
        tuple([Fold(node.operator.name, number(values.codes[node])) for node in folds]),
    )


def _parameters(operator: Operator, rule: Callable[..., Any], attributes: tuple[Any, ...]) -> Parameters:
    return tuple(operator.accepted(rule, attributes).items())


@functools.cache
def _names(count: int) -> tuple[str, ...]:
    """Return the names of a kernel's operands."""
    return tuple([str(number) for number in range(count)])


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
