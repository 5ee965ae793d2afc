"""Assembly: from a group of nodes to the structure of its kernel, and to the sizes it runs with.

Only what is asked for is computed: members that lead to nothing that is written are left out. Groups that differ only
in whose memory they use share launches.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, NamedTuple

from ..base.dtypes import DType, convert_scalar
from ..graph.node import Node, Shape
from ..graph.operator import Operator
from ..kernels.launch import Launch, Plan, Reference, Written
from ..kernels.structure import (
    ANY,
    KEPT,
    REDUCED,
    SPLAT,
    STRIDE,
    UNIT,
    Compute,
    Draw,
    Fold,
    Load,
    Parameters,
    Store,
    Structure,
    Take,
)
from ..lower.ir.emitter import ROW
from ..lower.lowering import Constant, Coordinate, Elementwise, Gather, Random, declared
from .expansion import parameters
from .group import ELEMENT, FOLD, Group, Member, Read, WriteTarget
from .partition import CHUNK_ELEMENTS, ENOUGH_CHUNKS, Result, chunk_of, partitioned, parts_of, work_of

__all__ = ["Assembler", "Assembly", "Operand", "assemble", "collapse"]


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
    written: list[Node]
    """The nodes whose memory is written, at least in part."""


#: vectors side by side that are summed up together, in kernels that compute little else
WIDTH, WIDE_STEPS = 4, 12

#: a value of a kernel: its number among those of its kind, and the kind
Code = tuple[int, int]
_LOAD, _DRAW, _STEP = range(3)

Bounds = tuple[tuple[int, int, int], ...]


class _Load(NamedTuple):
    """What is read: from memory, or (``place``) the distance from where memory would begin."""

    source: Node | bytes | None
    start: int
    strides: Shape
    dtype: DType
    bounds: Bounds = ()


class _Compute(NamedTuple):
    """What is computed."""

    operator: Operator
    attributes: tuple[Any, ...]
    sources: tuple[Code, ...]
    dtype: DType
    role: str
    take: tuple[Shape, int] | None = None
    """For what is taken at places that the source names: strides, and the distance between indices."""


class _Store(NamedTuple):
    """What is written."""

    code: Code
    strides: Shape
    role: str


class _Values:
    """The values of one group, numbered by kind, while it is read."""

    def __init__(self, group: Group, given: Container[Node]) -> None:
        self.space, self.reduced, self.strides = group.space, group.reduced or (), group.strides
        self._given = given
        self._no_strides = (0,) * len(group.space)
        self.loads: dict[_Load, Code] = {}
        #: (operator, attributes, dtype) of what is drawn, and the counters
        self.draws: list[tuple[Operator, tuple[Any, ...], DType]] = []
        self.counters: list[Operand] = []
        self.steps: list[_Compute] = []
        #: where the arrays begin of which elements are taken
        self.taken: list[Operand] = []
        self.stores: list[_Store] = []
        #: what stands for a member, and for what is read
        self.codes: dict[Member | Read, Code] = {}

    def key(self) -> Any:
        """Return everything that a plan depends on."""
        loads = [(s, d, b) if source is not None else (s, d, b, start) for source, start, s, d, b in self.loads]
        return (
            self.space,
            self.reduced,
            tuple(loads),
            tuple(self.draws),
            tuple(self.steps),
            tuple(self.stores),
        )

    def add(self, member: Member) -> None:
        """Take a member in."""
        expression, operands, role = member.expression, member.operands, member.role
        operator, attributes, dtype = expression.operator, expression.attributes, member.node.dtype
        lowering = member.lowering
        if isinstance(lowering, Elementwise):
            sources = [self.code(operand) for operand in operands]
            if lowering.numbers is not None:
                for number in lowering.numbers(dtype, **operator.accepted(lowering.numbers, attributes)):
                    sources.append(self._number(convert_scalar(number, dtype).tobytes(), dtype))
            self._step(member, _Compute(operator, attributes, tuple(sources), dtype, role))
        elif role == FOLD:
            self._step(member, _Compute(operator, (), (self.code(operands[0]),), dtype, role))
        elif isinstance(lowering, Gather):
            data, index = operands
            assert isinstance(data, Read)
            self.taken.append(Operand(data.source, data.offset))
            take = data.strides, member.index_stride
            self._step(member, _Compute(operator, (), (self.code(index),), dtype, role, take))
        elif isinstance(lowering, Random):
            counter = operands[0]
            assert isinstance(counter, Read)
            self.codes[member] = len(self.draws), _DRAW
            self.draws.append((operator, attributes, dtype))
            self.counters.append(Operand(counter.source, counter.offset))
        else:
            self.codes[member] = self.code(operands[0])

    def _step(self, member: Member, step: _Compute) -> None:
        self.codes[member] = len(self.steps), _STEP
        self.steps.append(step)

    def code(self, operand: Member | Read) -> Code:
        """Return what stands for an operand."""
        code = self.codes.get(operand)
        if code is None:
            assert isinstance(operand, Read), operand
            code = self.codes[operand] = self._read(*operand)
        return code

    def _read(self, source: Node, offset: int, strides: Shape, bounds: Bounds) -> Code:
        lowering = source.operator.lowering
        if isinstance(lowering, Constant):
            return self._number(lowering.read(**parameters(source, lowering.read)), source.dtype, bounds)
        is_place = isinstance(lowering, Coordinate) and source not in self._given
        return self._load(_Load(None if is_place else source, offset, strides, source.dtype, bounds))

    def _number(self, data: bytes, dtype: DType, bounds: Bounds = ()) -> Code:
        return self._load(_Load(data, 0, self._no_strides, dtype, bounds))

    def _load(self, load: _Load) -> Code:
        code = self.loads.get(load)
        if code is None:
            code = self.loads[load] = len(self.loads), _LOAD
        return code


def assemble(group: Group, written: Iterable[Node]) -> Assembly:
    """Return the kernels of a group, which write those of its nodes that are in ``written``."""
    return Assembler().assemble(group, written)


class Assembler:
    """Makes the kernels of groups, each plan once.

    Parameters
    ----------
    given
        The nodes whose values are arrays.
    expect
        Called with the description of a new kernel and how many chunks of work there are, as soon as that is known.
    """

    def __init__(self, given: Container[Node] = (), expect: Callable[[Written, int], None] | None = None) -> None:
        self._given = given
        self._expect = expect
        self._plans: dict[Any, Plan] = {}

    def assemble(self, group: Group, written: Iterable[Node]) -> Assembly:
        """Return the kernels of a group, which write those of its nodes that are in ``written``."""
        targets = [_own_memory(group, group.values[node]) for node in written]
        targets += group.targets
        values = _Values(group, self._given)
        needed = _needed(group, targets)
        for member in group.members:
            if member in needed:
                values.add(member)
        for value, _, _, strides in targets:
            role = ELEMENT if isinstance(value, Read) else value.role
            values.stores.append(_Store(values.code(value), strides, role))
        key = values.key()
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = _Planner(values).plan()
            if self._expect is not None:
                for structure, _, extent, chunk, work in plan.launches:
                    self._expect(structure, max(extent // chunk, work))
        operands = [Operand(source, start) for source, start, *_ in values.loads if source is not None]
        operands += values.counters
        operands += values.taken
        operands += [Operand(target.node, target.offset) for target in targets]
        nodes = list(dict.fromkeys([target.node for target in targets]))
        return Assembly(plan, dict(zip(_names(len(operands)), operands)), nodes)


def _own_memory(group: Group, member: Member) -> WriteTarget:
    return WriteTarget(member, member.node, 0, group.strides if member.role == ELEMENT else group.kept_strides)


def _needed(group: Group, targets: Iterable[WriteTarget]) -> set[Member | Read]:
    """Return the members from which what is written is made, among other things that are read."""
    found: set[Member | Read] = {target.value for target in targets}
    for member in reversed(group.members):
        if member in found:
            found.update(member.operands)
    return found


@functools.cache
def _names(count: int) -> tuple[str, ...]:
    """Return the names of a kernel's operands."""
    return tuple([str(number) for number in range(count)])


class _Planner:
    """From the values of a group to its launches."""

    def __init__(self, values: _Values) -> None:
        self.values = values
        self.takes = [step.take for step in values.steps if step.take is not None]
        folds = any([step.role == FOLD for step in values.steps])
        reduced = values.reduced if folds else ()
        kinds = "".join([REDUCED if axis in reduced else KEPT for axis in range(len(values.space))])
        everything = [load.strides for load in values.loads] + [values.strides] * len(values.draws)
        everything += [strides for strides, _ in self.takes] + [store.strides for store in values.stores]
        barriers = {axis for load in values.loads for axis, _, _ in load.bounds}
        self.axes, self.extents, self.strides, self.places = collapse(values.space, kinds, everything, barriers)
        assert not values.draws or len(self.axes) == 1, "random numbers are drawn along one line"
        self.first_draw = len(values.loads)
        self.first_take = self.first_draw + len(values.draws)
        self.first_store = self.first_take + len(self.takes)

    def plan(self) -> Plan:
        """Return the launch of a kernel, and others that join its results if it is partitioned."""
        structure = _with_loops(self._structure(), self.extents, self.strides)
        parts = parts_of(structure, self.extents) if self._can_be_parted() else 0
        names = iter(range(len(self.strides)))
        words: list[int | Reference] = list(self.extents)
        for number, load in enumerate(self.values.loads):
            words += [0, load.start] if load.source is None else [Reference(str(next(names)))]
            words += self.strides[number]
            words += [end for _, low, high in load.bounds for end in (low, high)]
        for number in range(self.first_draw, self.first_take):
            words += [Reference(str(next(names))), *self.strides[number]]
        for number, (_, index_stride) in enumerate(self.takes, self.first_take):
            words += [Reference(str(next(names))), *self.strides[number], index_stride]
        results: list[Result] = []
        for number, store in enumerate(self.values.stores, self.first_store):
            name = Reference(str(next(names)))
            if parts and store.role == FOLD:
                step = self.values.steps[store.code[0]]
                results.append(Result(step.operator.name, step.dtype, name, self.strides[number]))
            else:
                words += [name, *self.strides[number]]
        if parts:
            return partitioned(structure, self.extents, words, results, parts)
        axis = structure.range_axis
        extent = 1 if axis is None else self.extents[axis]
        chunk, work = chunk_of(structure, self.extents), int(work_of(structure, self.extents))
        return Plan((Launch(structure, tuple(words), extent, chunk, work),))

    def _can_be_parted(self) -> bool:
        """Return whether all that is done with the results of folds is to write each to memory in order."""
        values = self.values
        folds = [code for code, step in enumerate(values.steps) if step.role == FOLD]
        stored = [store for store in values.stores if store.role != ELEMENT]
        if not folds or sorted([store.code[0] for store in stored]) != folds:
            return False
        used = {code for step in values.steps for code in step.sources}
        in_order = collapsed_kept_strides(self.axes, self.extents)
        return used.isdisjoint([(code, _STEP) for code in folds]) and all(
            [self.strides[n] == in_order for n, store in enumerate(values.stores, self.first_store) if store in stored]
        )

    def _number(self, code: Code) -> int:
        # values are numbered by kind: loads, then draws, then steps
        number, kind = code
        return number + (0, self.first_draw, self.first_take)[kind]

    def _structure(self) -> Structure:
        values, axes = self.values, self.axes
        along = [found[-1] for found in self.strides]
        loads = []
        for number, load in enumerate(values.loads):
            bounds = tuple([self.places[axis] for axis, _, _ in load.bounds])
            is_row = self._is_row(self.strides[number], bounds)
            loads.append(Load(load.dtype, _access(along[number]), is_row, bounds, load.source is None))
        draws = []
        for operator, attributes, dtype in values.draws:
            convert = declared(operator.name, Random).convert
            draws.append(Draw(operator.name, _parameters(operator, convert, attributes), dtype))
        steps = self._steps(loads, along[self.first_take : self.first_store])
        stores = []
        for number, store in enumerate(values.stores, self.first_store):
            row = store.role != ELEMENT
            # a stride of 0 belongs to an axis with one position
            near = along[number] in (0, 1) or (row and axes[-1] == REDUCED)
            stores.append(Store(self._number(store.code), UNIT if near else STRIDE, row))
        lanes = lanes_for(self._vector_dtypes(loads, draws, steps))
        return Structure(axes, lanes, tuple(loads), tuple(draws), tuple(steps), tuple(stores))

    def _is_row(self, strides: Shape, bounded: Iterable[int]) -> bool:
        """Return whether an operand is the same all along a row."""
        reduced = [axis for axis, kind in enumerate(self.axes) if kind == REDUCED]
        return bool(reduced) and not any([strides[axis] for axis in reduced]) and set(reduced).isdisjoint(bounded)

    def _vector_dtypes(self, loads: list[Load], draws: list[Draw], steps: list[Compute | Take | Fold]) -> list[DType]:
        """Return the dtypes of the values that fill vectors: those of rows along the last axis are single numbers."""
        if self.axes[-1] != REDUCED:
            return [value.dtype for value in (*loads, *draws, *steps)]
        return [value.dtype for value in (*loads, *steps) if isinstance(value, Fold) or not value.row]

    def _steps(self, loads: list[Load], strides: list[int]) -> list[Compute | Take | Fold]:
        steps: list[Compute | Take | Fold] = []
        # values that are the same all along the last axis
        same = {(n, _LOAD) for n, load in enumerate(loads) if load.access == SPLAT and not load.bounds}
        taken = iter(strides)
        for number, (operator, attributes, sources, dtype, role, take) in enumerate(self.values.steps):
            is_row = role != ELEMENT
            is_same = same.issuperset(sources) or (is_row and self.axes[-1] == REDUCED)
            numbers = tuple([self._number(code) for code in sources])
            if role == FOLD:
                steps.append(Fold(operator.name, numbers[0], dtype))
            elif take is not None:
                stride = next(taken)
                steps.append(Take(dtype, _access(stride) if is_same else ANY, numbers[0], is_row))
                is_same = is_same and not stride
            else:
                emit = declared(operator.name, Elementwise).emit
                steps.append(Compute(operator.name, _parameters(operator, emit, attributes), numbers, dtype, is_row))
            if is_same:
                same.add((number, _STEP))
        return steps


def _parameters(operator: Operator, rule: Any, attributes: tuple[Any, ...]) -> Parameters:
    return tuple(operator.accepted(rule, attributes).items())


def _with_loops(structure: Structure, extents: Shape, strides: list[Shape]) -> Structure:
    """Return the structure with the loops that suit the sizes; no value depends on them."""
    kept = [axis for axis, kind in enumerate(structure.axes) if kind == KEPT]
    if not kept:
        return structure._replace(range_axis=None)
    chosen = kept[0]
    if extents[chosen] < ENOUGH_CHUNKS and math.prod(extents) >= 2 * CHUNK_ELEMENTS:
        chosen = max(kept, key=extents.__getitem__)
    return structure._replace(range_axis=chosen, tile=_tile(structure, strides), width=_width(structure))


def _width(structure: Structure) -> int:
    """Return how many vectors along the last axis are gone through together, row after row.

    A single one would touch one cache line of every row, and leave most of what comes with it unused.
    """
    if structure.axes[-1] == REDUCED or REDUCED not in structure.axes or len(structure.steps) > WIDE_STEPS:
        return 1
    return WIDTH


def _tile(structure: Structure, strides: list[Shape]) -> int | None:
    """Return an axis along which something lies that is read across it; None if there is none."""
    if len(structure.axes) < 2 or REDUCED in structure.axes:
        return None
    for load, found in zip(structure.loads, strides):
        if load.access == STRIDE and not load.is_place:
            for axis, stride in enumerate(found[:-1]):
                if abs(stride) == 1:
                    return axis
    return None


def lanes_for(dtypes: Iterable[DType]) -> int:
    """Return how many lanes the vectors of a kernel have; no result depends on it."""
    return ROW // 2 if any([dtype.itemsize == 8 for dtype in dtypes]) else ROW


def _access(stride: int) -> str:
    return {0: SPLAT, 1: UNIT}.get(stride, STRIDE)


def collapsed_kept_strides(axes: str, extents: Shape) -> Shape:
    """Return the strides of results of folds that follow each other."""
    strides, size = [], 1
    for kind, extent in zip(reversed(axes), reversed(extents)):
        strides.append(0 if kind == REDUCED else size)
        size *= 1 if kind == REDUCED else extent
    return tuple(reversed(strides))


def collapse(
    space: Shape, kinds: str, operands: Sequence[Shape], barriers: Iterable[int] = ()
) -> tuple[str, Shape, list[Shape], list[int]]:
    """Return the kinds and extents of as few axes as can walk a space, every operand's strides along them, and the
    place of every old axis among the new ones.

    Neighbours of one kind are merged where one stride walks both, for all operands, and neither is a barrier.

    >>> collapse((2, 3, 4), "KKR", [(12, 4, 1), (0, 0, 1)])
    ('KR', (6, 4), [(4, 1), (0, 1)], [0, 0, 1])
    """
    axes: list[tuple[str, int, list[int]]] = []
    places: list[int] = []
    apart = set(barriers)
    for axis, extent in enumerate(space):
        strides = [operand[axis] for operand in operands]
        if axes and apart.isdisjoint((axis - 1, axis)):
            kind, outer, outer_strides = axes[-1]
            if kind == kinds[axis] and all([o == s * extent for o, s in zip(outer_strides, strides)]):
                axes[-1] = kind, outer * extent, strides
                places.append(len(axes) - 1)
                continue
        places.append(len(axes))
        axes.append((kinds[axis], extent, strides))
    if not axes:
        axes.append((KEPT, 1, [0] * len(operands)))
        places.append(0)
    by_operand = [tuple([strides[number] for _, _, strides in axes]) for number in range(len(operands))]
    return "".join([kind for kind, _, _ in axes]), tuple([extent for _, extent, _ in axes]), by_operand, places
