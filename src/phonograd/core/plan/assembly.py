"""Assembly: from a group of nodes to the structure of its kernel, and to the sizes it runs with.

Takes groups from :mod:`~phonograd.core.plan.grouping`, and hands launches to :mod:`~phonograd.core.plan.layout`.
Members from which no written value is computed are left out. Groups that differ only in whose memory they use share
launches.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..base.dtypes import DType, compute_dtype, convert_scalar
from ..base.pace import rest
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
from ..lower.lowering import Elementwise, Fused, Random, lowering_of_kind
from .group import ELEMENT, FOLD, Group, Member, Read, WriteTarget
from .loops import choose_loops
from .partition import Result, chunk_of, partition, parts_of, work_of

__all__ = ["Assembler", "Assembly", "BlockAssembly", "Operand", "assemble", "collapse"]


class Operand(NamedTuple):
    """Memory that a kernel reads or writes: its owner, and the first element.

    ``source`` is a node, or the bytes of a number.
    """

    source: Node | bytes
    start: int


class Assembly(NamedTuple):
    """The launches that compute a group, and the memory that the names of their operands stand for."""

    plan: Plan
    operands: dict[str, Operand]
    written: list[Node]
    """The nodes whose memory is written, at least in part."""


class BlockAssembly(NamedTuple):
    """The launches that compute a block of rows of a group."""

    plan: Plan
    operands: dict[str, tuple[Operand, Shape]]
    """The memory of each operand, and its strides over the whole space of the group."""
    written: list[Node]
    positions: dict[int, Shape]
    """By place among the words of the first launch: strides of a word that is a position in the whole space."""


#: a value of a kernel: its number among those of its kind, and the kind
Code = tuple[int, int]
_LOAD, _DRAW, _STEP = range(3)

Bounds = tuple[tuple[int, int, int], ...]


class _Load(NamedTuple):
    """A value that is read from memory, or a position."""

    source: Node | bytes | None
    """None: the value is the distance from the place where memory would begin."""
    start: int
    strides: Shape
    dtype: DType
    bounds: Bounds = ()


class _Draw(NamedTuple):
    """Random numbers."""

    operator: Operator
    attributes: tuple[Any, ...]
    dtype: DType


class _Take(NamedTuple):
    """The memory of elements that are taken: strides, the distance of indices, whether index 0 has zeros."""

    strides: Shape
    index_stride: int
    zero_first: bool


class _Compute(NamedTuple):
    """A value that is computed."""

    operator: Operator
    attributes: tuple[Any, ...]
    sources: tuple[Code, ...]
    dtype: DType
    role: str
    take: _Take | None = None
    """For elements at indices: the memory they are taken from; the source is the index."""


class _Store(NamedTuple):
    """A value that is written."""

    code: Code
    strides: Shape
    role: str


class _Values:
    """The values of one group, numbered by kind."""

    def __init__(self, group: Group, given: Container[Node]) -> None:
        self.space, self.reduced, self.strides = group.space, group.reduced or (), group.strides
        self._given = given
        self._no_strides = (0,) * len(group.space)
        self.loads: dict[_Load, Code] = {}
        #: random numbers, and the counter of each
        self.draws: list[_Draw] = []
        self._counters: list[Operand] = []
        self.steps: list[_Compute] = []
        #: the memory of each take
        self._taken: list[Operand] = []
        self.stores: list[_Store] = []
        #: the memory that each store writes
        self._written: list[Operand] = []
        #: the numbers of members, and of operands in memory
        self._codes: dict[Member | Read, Code] = {}

    def memory(self) -> list[Operand]:
        """Return the memory of all operands, in the order of the kernel's table."""
        loads = [Operand(source, start) for source, start, *_ in self.loads if source is not None]
        return loads + self._counters + self._taken + self._written

    @property
    def takes_elements(self) -> bool:
        """Whether elements are taken at indices."""
        return bool(self._taken)

    def memory_strides(self) -> list[Shape]:
        """Return the strides of all operands in memory, in the order of :meth:`memory`."""
        loads = [load.strides for load in self.loads if load.source is not None]
        takes = [step.take.strides for step in self.steps if step.take is not None]
        return loads + [self.strides] * len(self.draws) + takes + [store.strides for store in self.stores]

    def block(self, rows: int, row_strides: Mapping[Node | bytes | None, int]) -> _Values:
        """Return the values of some rows along the last axis but one, over the last two axes alone.

        ``row_strides`` has the distance between rows of arrays of which only the block is in memory.
        """
        found, before = copy.copy(self), len(self.space) - 2
        found.space = (rows, self.space[-1])

        def strides(source: Node | bytes | None, walked: Shape) -> Shape:
            return (row_strides[source], 1) if source in row_strides else walked[before:]

        found.reduced = tuple([axis - before for axis in self.reduced])
        found.loads = {}
        for load, code in self.loads.items():
            bounds = tuple([(axis - before, low, high) for axis, low, high in load.bounds])
            found.loads.setdefault(load._replace(strides=strides(load.source, load.strides), bounds=bounds), code)
        found.steps = [
            step if step.take is None else step._replace(take=step.take._replace(strides=step.take.strides[before:]))
            for step in self.steps
        ]
        written = zip(self.stores, self._written, strict=True)
        found.stores = [store._replace(strides=strides(to.source, store.strides)) for store, to in written]
        return found

    def key(self) -> Any:
        """Return everything that a plan depends on: not whose memory it uses."""
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
        """Add a member."""
        expression, operands, role = member.expression, member.operands, member.role
        operator, attributes, dtype = expression.operator, expression.attributes, member.node.dtype
        lowering = member.lowering
        form = lowering.fused_as
        if form is Fused.STEP:
            sources = [self.code(operand) for operand in operands]
            if lowering.numbers is not None:
                wide = compute_dtype(dtype)
                for number in lowering.numbers(dtype, **operator.accepted(lowering.numbers, attributes)):
                    sources.append(self._number(convert_scalar(number, wide).tobytes(), wide))
            self._step(member, _Compute(operator, attributes, tuple(sources), dtype, role))
        elif form is Fused.FOLD:
            self._step(member, _Compute(operator, (), (self.code(operands[0]),), dtype, role))
        elif form is Fused.TAKE:
            data, index = operands
            assert isinstance(data, Read)
            self._taken.append(Operand(data.source, data.offset))
            take = _Take(data.strides, member.index_stride, lowering.zero_first)
            self._step(member, _Compute(operator, (), (self.code(index),), dtype, role, take))
        elif form is Fused.DRAW:
            counter = operands[0]
            assert isinstance(counter, Read)
            self._codes[member] = len(self.draws), _DRAW
            self.draws.append(_Draw(operator, attributes, dtype))
            self._counters.append(Operand(counter.source, counter.offset))
        else:
            assert form is Fused.COPY, member
            self._codes[member] = self.code(operands[0])

    def store(self, target: WriteTarget) -> None:
        """Write a value to memory."""
        value, node, offset, strides = target
        role = ELEMENT if isinstance(value, Read) else value.role
        self.stores.append(_Store(self.code(value), strides, role))
        self._written.append(Operand(node, offset))

    def _step(self, member: Member, step: _Compute) -> None:
        self._codes[member] = len(self.steps), _STEP
        self.steps.append(step)

    def code(self, operand: Member | Read) -> Code:
        """Return the number of an operand."""
        code = self._codes.get(operand)
        if code is None:
            assert isinstance(operand, Read), operand
            code = self._codes[operand] = self._read(*operand)
        return code

    def _read(self, source: Node, offset: int, strides: Shape, bounds: Bounds) -> Code:
        lowering = source.operator.lowering
        if lowering is not None and lowering.is_constant:
            return self._number(lowering.number(source), source.dtype, bounds)
        is_place = lowering is not None and lowering.needs_no_memory and source not in self._given
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
        rest()
        values, nodes = self._values(group, written)
        key = values.key()
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = _Planner(values).plan()
            if self._expect is not None:
                for structure, _, extent, chunk, work in plan.launches:
                    self._expect(structure, max(extent // chunk, work))
        memory = values.memory()
        return Assembly(plan, dict(zip(_names(len(memory)), memory)), nodes)

    def _values(self, group: Group, written: Iterable[Node]) -> tuple[_Values, list[Node]]:
        """Return the values of a group, and the nodes whose memory is written."""
        targets = [_own_memory(group, group.values[node]) for node in written]
        targets += group.targets
        values = _Values(group, self._given)
        needed = _needed_members(group, targets)
        for member in group.members:
            if member in needed:
                values.add(member)
        for target in targets:
            values.store(target)
        return values, list(dict.fromkeys([target.node for target in targets]))

    # -- epilogues

    def steps_after(
        self, group: Group, written: Iterable[Node], source: Node
    ) -> tuple[list[tuple[Operand, Shape]], tuple[Compute, ...]] | None:
        """Return the other operands of a group that reads a value in order, with strides, and the steps of its kernel.

        Values are numbered in this order: the value, the operands, the steps; the last step is written. Return None if
        the group does anything else.
        """
        values, _ = self._values(group, written)
        plain = group.strides, source.dtype, ()
        first = [load for load in values.loads if load.source is source]
        others = [load for load in values.loads if load.source is not source]
        if first != [_Load(source, 0, *plain)] or values.draws or values.takes_elements:
            return None
        if any([load.source is None or load.bounds or load.dtype != source.dtype for load in others]):
            return None
        if [store[:2] for store in values.stores] != [((len(values.steps) - 1, _STEP), group.strides)]:
            return None
        numbers = {values.loads[load]: number for number, load in enumerate((*first, *others))}
        steps: list[Compute] = []
        for number, (operator, attributes, sources, dtype, *_) in enumerate(values.steps):
            emit = lowering_of_kind(operator.name, Elementwise).emit
            read = tuple([numbers[code] for code in sources])
            steps.append(Compute(operator.name, parameters_of(operator, emit, attributes), read, dtype))
            numbers[number, _STEP] = len(values.loads) + number
        return [(Operand(load.source, load.start), load.strides) for load in others], tuple(steps)  # type: ignore[arg-type]

    # -- blocks of rows

    def has_blocks(self, group: Group, written: Iterable[Node]) -> bool:
        """Return whether the kernel of a group can run on blocks of the last two axes."""
        values, _ = self._values(group, written)
        # operands of a block that differ only in the rest of the array would be taken for one
        return len(values.block(1, {}).loads) == len(values.loads)

    def strides_of(self, group: Group, written: Iterable[Node]) -> list[Shape]:
        """Return the strides of all operands of a group, over its space."""
        values, _ = self._values(group, written)
        return values.memory_strides() + [load.strides for load in values.loads if load.source is None]

    def assemble_block(
        self, group: Group, written: Iterable[Node], rows: int, row_strides: Mapping[Node | bytes | None, int]
    ) -> BlockAssembly:
        """Return the kernels of a group on some rows, that is, positions on the axis before the last one.

        ``row_strides`` has the distance between rows of arrays of which only the block is in memory.
        """
        values, nodes = self._values(group, written)
        planner = _Planner(values.block(rows, row_strides))
        memory = zip(values.memory(), values.memory_strides(), strict=True)
        operands = dict(zip(_names(len(values.memory())), memory))
        places = [load.strides for load in values.loads if load.source is None]
        return BlockAssembly(planner.plan(), operands, nodes, dict(zip(planner.positions(), places, strict=True)))


def _own_memory(group: Group, member: Member) -> WriteTarget:
    return WriteTarget(member, member.node, 0, group.strides if member.role == ELEMENT else group.kept_strides)


def _needed_members(group: Group, targets: Iterable[WriteTarget]) -> set[Member | Read]:
    """Return the members from which written values are computed, and the operands that they read."""
    found: set[Member | Read] = {target.value for target in targets}
    for member in reversed(group.members):
        if member in found:
            found.update(member.operands)
    return found


@functools.cache
def _names(count: int) -> tuple[str, ...]:
    """Return the names of a kernel's operands."""
    return tuple([str(number) for number in range(count)])


class _Operand(NamedTuple):
    """An operand of a kernel: a load, a draw, a take or a store, as the kernel walks it."""

    strides: Shape
    """Along each axis of the kernel."""
    begin: Reference | int
    """The name of its memory; for positions, which need none, the first one."""

    @property
    def words(self) -> list[int | Reference]:
        """The words of the kernel's table: where it begins, and the strides."""
        # a position takes as many words as a place in memory
        return [*([0] if isinstance(self.begin, int) else []), self.begin, *self.strides]


class _Planner:
    """From the values of a group to its launches.

    The table of a kernel holds its extents, and then its operands: loads, draws, takes and stores.
    """

    def __init__(self, values: _Values) -> None:
        self.values = values
        folds = any([step.role == FOLD for step in values.steps])
        reduced = values.reduced if folds else ()
        kinds = "".join([REDUCED if axis in reduced else KEPT for axis in range(len(values.space))])
        takes = {number: step.take for number, step in enumerate(values.steps) if step.take is not None}
        strides = [load.strides for load in values.loads] + [values.strides] * len(values.draws)
        strides += [take.strides for take in takes.values()] + [store.strides for store in values.stores]
        barriers = {axis for load in values.loads for axis, _, _ in load.bounds}
        self.axes, self.extents, collapsed, self.places = collapse(values.space, kinds, strides, barriers)
        assert not values.draws or len(self.axes) == 1, "random numbers are drawn along one line"
        names = map(Reference, map(str, itertools.count()))
        each = iter(collapsed)
        #: every value that is read or written, and its operand
        self.loads = [(x, _Operand(next(each), x.start if x.source is None else next(names))) for x in values.loads]
        self.draws = [(draw, _Operand(next(each), next(names))) for draw in values.draws]
        #: by number of a step that takes elements at indices
        self.takes = {number: (take, _Operand(next(each), next(names))) for number, take in takes.items()}
        self.stores = [(store, _Operand(next(each), next(names))) for store in values.stores]
        #: the numbers of the first load, draw and step: values of a kernel are numbered in this order
        self._first = 0, len(self.loads), len(self.loads) + len(self.draws)

    def plan(self) -> Plan:
        """Return the launch of a kernel, and others that join its results if it is partitioned."""
        structure = choose_loops(self._structure(), self.extents, [operand.strides for _, operand in self.loads])
        parts = parts_of(structure, self.extents) if self._can_be_parted() else 0
        words: list[int | Reference] = list(self.extents)
        for load, operand in self.loads:
            words += operand.words
            words += [end for _, low, high in load.bounds for end in (low, high)]
        for _, operand in self.draws:
            words += operand.words
        for take, operand in self.takes.values():
            words += [*operand.words, take.index_stride]
        results: list[Result] = []
        for store, operand in self.stores:
            if parts and store.role == FOLD:
                step = self.values.steps[store.code[0]]
                assert isinstance(operand.begin, Reference)
                results.append(Result(step.operator.name, step.dtype, operand.begin, operand.strides))
            else:
                words += operand.words
        if parts:
            return partition(structure, self.extents, words, results, parts)
        axis = structure.range_axis
        extent = 1 if axis is None else self.extents[axis]
        chunk, work = chunk_of(structure, self.extents), math.floor(work_of(structure, self.extents))
        return Plan((Launch(structure, tuple(words), extent, chunk, work),))

    def positions(self) -> list[int]:
        """Return the places of those words of the kernel's table that are first positions."""
        found: list[int] = []
        place = len(self.extents)
        for load, operand in self.loads:
            if load.source is None:
                found.append(place + 1)
            place += len(operand.words) + 2 * len(load.bounds)
        return found

    def _can_be_parted(self) -> bool:
        """Return whether the results of folds are written to memory, in order, and not used otherwise."""
        steps = self.values.steps
        folds = [number for number, step in enumerate(steps) if step.role == FOLD]
        stored = [(store, operand) for store, operand in self.stores if store.role != ELEMENT]
        if not folds or sorted([store.code[0] for store, _ in stored]) != folds:
            return False
        used = {code for step in steps for code in step.sources}
        in_order = collapse_kept_strides(self.axes, self.extents)
        return used.isdisjoint([(number, _STEP) for number in folds]) and all(
            [operand.strides == in_order for _, operand in stored]
        )

    def _number(self, code: Code) -> int:
        """Return the number of a value in the kernel."""
        number, kind = code
        return number + self._first[kind]

    def _structure(self) -> Structure:
        loads = []
        for load, operand in self.loads:
            bounds = tuple([self.places[axis] for axis, _, _ in load.bounds])
            is_row = self._is_row(operand.strides, bounds)
            loads.append(Load(load.dtype, _access(operand.strides[-1]), is_row, bounds, load.source is None))
        draws = []
        for draw, _ in self.draws:
            convert = lowering_of_kind(draw.operator.name, Random).convert
            draws.append(Draw(draw.operator.name, parameters_of(draw.operator, convert, draw.attributes), draw.dtype))
        steps = self._steps(loads)
        stores = []
        for store, operand in self.stores:
            row = store.role != ELEMENT
            # a stride of 0 belongs to an axis with one position
            near = operand.strides[-1] in (0, 1) or (row and self.axes[-1] == REDUCED)
            stores.append(Store(self._number(store.code), UNIT if near else STRIDE, row))
        lanes = lanes_for(self._vector_dtypes(loads, draws, steps))
        return Structure(self.axes, lanes, tuple(loads), tuple(draws), tuple(steps), tuple(stores))

    def _is_row(self, strides: Shape, bounded: Iterable[int]) -> bool:
        """Return whether an operand is the same all along a row."""
        reduced = [axis for axis, kind in enumerate(self.axes) if kind == REDUCED]
        return bool(reduced) and not any([strides[axis] for axis in reduced]) and set(reduced).isdisjoint(bounded)

    def _vector_dtypes(self, loads: list[Load], draws: list[Draw], steps: list[Compute | Take | Fold]) -> list[DType]:
        """Return the dtypes of the values that fill vectors: those of rows along the last axis are single numbers."""
        if self.axes[-1] != REDUCED:
            return [value.dtype for value in (*loads, *draws, *steps)]
        return [value.dtype for value in (*loads, *steps) if isinstance(value, Fold) or not value.row]

    def _steps(self, loads: list[Load]) -> list[Compute | Take | Fold]:
        steps: list[Compute | Take | Fold] = []
        # values that are the same all along the last axis
        same = {(n, _LOAD) for n, load in enumerate(loads) if load.access == SPLAT and not load.bounds}
        for number, (operator, attributes, sources, dtype, role, take) in enumerate(self.values.steps):
            is_row = role != ELEMENT
            is_same = same.issuperset(sources) or (is_row and self.axes[-1] == REDUCED)
            numbers = tuple([self._number(code) for code in sources])
            if role == FOLD:
                steps.append(Fold(operator.name, numbers[0], dtype))
            elif take is not None:
                stride = self.takes[number][1].strides[-1]
                access = _access(stride) if is_same else ANY
                is_plain = access == ANY and take.index_stride == 1 and not stride
                steps.append(Take(dtype, access, numbers[0], is_row, take.zero_first, is_plain))
                is_same = is_same and not stride
            else:
                emit = lowering_of_kind(operator.name, Elementwise).emit
                steps.append(Compute(operator.name, parameters_of(operator, emit, attributes), numbers, dtype, is_row))
            if is_same:
                same.add((number, _STEP))
        return steps


def parameters_of(operator: Operator, rule: Any, attributes: tuple[Any, ...]) -> Parameters:
    """Return those of an operator's attributes that the rule of its kernel takes."""
    return tuple(operator.accepted(rule, attributes).items())


def lanes_for(dtypes: Iterable[DType]) -> int:
    """Return how many lanes the vectors of a kernel have; no result depends on it."""
    return ROW // 2 if any([dtype.itemsize == 8 for dtype in dtypes]) else ROW


def _access(stride: int) -> str:
    if stride == 0:
        return SPLAT
    return UNIT if stride == 1 else STRIDE


def collapse_kept_strides(axes: str, extents: Shape) -> Shape:
    """Return the strides of results of folds that follow each other."""
    if len(axes) <= 2 and axes.count(KEPT) == 1:
        # the only axis of the results
        return tuple([int(kind == KEPT) for kind in axes])
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
