"""NativeProgram: computes nodes with fused kernels, behind the interface of the reference executor's program.

Values that only kernels read lie in an arena; inputs, results and everything NumPy reads or makes are arrays. A run
goes through *segments*: rows of kernels (one native call each), and NumPy calls for operators without a lowering. A
program can run in several threads at once: nothing in it changes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..kernels.lowering import Constant, Elementwise, Location
from ..node import Node, Shape
from ..operator import ABSENT, Array
from ..reference import Program, located, resolve
from . import jit, memory
from .assembly import assemble
from .driver import Row
from .grouping import Alias, Call, Group, Grouping, Step, Work, lowering_of

__all__ = ["NativeProgram"]

#: operations per element above which a value that may be needed again is kept rather than computed again
CHEAP = 4.0

#: a part of a run, as a function of the list of all values
Segment = Callable[[list[Any]], None]

_ARRAY = np.ndarray


class NativeProgram:
    """The kernels and NumPy calls that compute some nodes from leaves and from values that are there already.

    ``inputs`` are the nodes whose values are passed in, ``kept`` holds (node, slot) of every value to hand back. With
    ``keep_all`` these are the targets and every intermediate value that is worth its memory; the others are computed
    again should they be needed, with the same bits.
    """

    __slots__ = ("_arena_bytes", "_arena_slot", "_fixed", "_kept_slots", "_only_row", "_segments", "inputs", "kept")

    def __init__(self, targets: Iterable[Node], available: Callable[[Node], bool], keep_all: bool = False) -> None:
        wanted = list(targets)
        plan = Program(wanted, available, keep_all)
        self.inputs = plan.inputs
        if jit.available():
            asked = {resolve(node) for node in wanted}
            kept = [node for node, _ in plan.kept if node in asked or _worth_keeping(node)]
        else:
            kept = [node for node, _ in plan.kept]
        builder = _Builder(self.inputs, [step[-1] for step in plan.steps], kept)
        self._segments = builder.segments()
        self._fixed = builder.fixed()
        self._arena_slot = builder.arena_slot
        self._arena_bytes = builder.arena_bytes
        #: the common case: one native call and nothing else
        self._only_row = builder.only_row(self._segments)
        self.kept = [(node, builder.slots[node]) for node in kept]
        self._kept_slots = [slot for _, slot in self.kept]

    def run(self, inputs: list[Any]) -> list[Array]:
        """Return the kept values, computed from the values of ``inputs``.

        These are arrays of the shapes and dtypes of their nodes, with any strides.
        """
        values: list[Any] = [
            value if type(value) is _ARRAY and value.flags.c_contiguous else _contiguous(value) for value in inputs
        ]
        values += self._fixed
        if self._only_row is not None:
            self._only_row(values)
        else:
            self._run_segments(values)
        return [values[slot] for slot in self._kept_slots]

    def _run_segments(self, values: list[Any]) -> None:
        arena = memory.borrow(self._arena_bytes) if self._arena_bytes else None
        if arena is not None:
            values[self._arena_slot] = arena
        try:
            with np.errstate(all="ignore"):
                for segment in self._segments:
                    segment(values)
        finally:
            if arena is not None:
                memory.give_back(arena)


def _contiguous(value: Any) -> Any:
    """Return a value as a contiguous array; None (of an optional input that is not there) stays None.

    Last bits of what NumPy computes may depend on the layout of its operands, so there is only one layout.
    """
    return None if value is None else np.asarray(value, order="C")


def _worth_keeping(node: Node) -> bool:
    """Return whether a value should be kept where it may be needed again."""
    lowering = lowering_of(node)
    if isinstance(lowering, (Location, Constant)) or node.operator is ABSENT.operator:
        return False
    cost = node.operator.cost
    return not isinstance(lowering, Elementwise) or callable(cost) or cost > CHEAP


class _Builder:
    """Slots, segments and the arena of a program while it is made."""

    def __init__(self, inputs: tuple[Node, ...], computed: list[Node], kept: list[Node]) -> None:
        self._native = jit.available()
        self.slots: dict[Node, int] = {node: number for number, node in enumerate(inputs)}
        self._numbers: dict[bytes, int] = {}
        self._kept = set(kept)
        self._steps: list[Step]
        if self._native:
            grouping = Grouping(computed, inputs, kept)
            self._steps, self._arrays, self._written = grouping.steps(), grouping.arrays, grouping.written
        else:
            self._steps, self._arrays, self._written = [Call(node) for node in computed], set(computed), set()
        self._inputs = set(inputs)
        #: slots after those of the inputs: numbers, the arena, then arrays
        self._number_slot = len(self.slots)
        self.arena_slot = len(self.slots) + 1
        self.width = len(self.slots) + 2
        for step in self._steps:
            for node in self._arrays_made(step):
                self.slots[node] = self.width
                self.width += 1
        self._assemblies = {id(s): assemble(s, self._written) for s in self._steps if isinstance(s, Group)}
        self._place_numbers()
        self._place_intermediates()

    def _arrays_made(self, step: Step) -> list[Node]:
        if isinstance(step, Work):
            return [step.node] if step.node in self._arrays else []
        if not isinstance(step, Group):
            return [step.node]
        return [member.node for member in (*step.members, *step.folds) if member.node in self._arrays]

    def _place_numbers(self) -> None:
        for assembly in self._assemblies.values():
            for operand in assembly.operands.values():
                if isinstance(operand.source, bytes):
                    self._numbers.setdefault(operand.source, 8 * len(self._numbers))

    def fixed(self) -> list[Any]:
        """Return the initial contents of all slots after the inputs."""
        pool = np.zeros(8 * max(len(self._numbers), 1), np.uint8)
        for data, start in self._numbers.items():
            pool[start : start + len(data)] = np.frombuffer(data, np.uint8)
        # a slot that holds no array yet must still be something with a data address
        return [pool, pool, *[None] * (self.width - self._number_slot - 2)]

    def _place_intermediates(self) -> None:
        """Decide where in the arena each value lies that only kernels see."""
        first: dict[Node, int] = {}
        last: dict[Node, int] = {}
        scratch: dict[int, memory.Lifetime] = {}
        for index, step in enumerate(self._steps):
            if not isinstance(step, (Group, Work)):
                continue
            plan = step.plan if isinstance(step, Work) else self._assemblies[id(step)].plan
            if plan.scratch_bytes:
                scratch[id(step)] = memory.Lifetime(plan.scratch_bytes, index, index)
            for source in self._touches(step):
                if source in self._written and source not in self._arrays:
                    first.setdefault(source, index)
                    last[source] = index
        nodes = list(first)
        sizes = [node.size * node.dtype.itemsize for node in nodes]
        lifetimes = [memory.Lifetime(size, first[node], last[node]) for node, size in zip(nodes, sizes)]
        offsets, self.arena_bytes = memory.arrange([*lifetimes, *scratch.values()])
        self._arena_starts = dict(zip(nodes, offsets))
        self._scratch_starts = dict(zip(scratch, offsets[len(nodes) :]))

    # -- segments

    def segments(self) -> list[Segment]:
        """Return what a run does, one function of the list of values after the other."""
        last_use = self._last_use()
        segments: list[Segment] = []
        row: list[Group | Work] = []
        for step in self._steps:
            if isinstance(step, (Group, Work)):
                row.append(step)
                continue
            if row:
                segments.append(self._row(row, last_use))
                row = []
            done = self._done(last_use, [step])
            if isinstance(step, Alias):
                segments.append(_alias(step.node.shape, self.slots[step.source], self.slots[step.node], done))
            else:
                segments.append(self._call(step.node, done))
        if row:
            segments.append(self._row(row, last_use))
        return segments

    def only_row(self, segments: list[Segment]) -> Segment | None:
        """Return the only segment, if it is a row of kernels that needs no arena."""
        native = all([isinstance(step, (Group, Work)) for step in self._steps])
        return segments[0] if native and segments and not self.arena_bytes else None

    def _reads(self, step: Step) -> list[Node]:
        if isinstance(step, Alias):
            return [step.source]
        if isinstance(step, Call):
            return [resolve(source) for source in step.node.inputs]
        return self._touches(step)

    def _touches(self, step: Group | Work) -> list[Node]:
        """Return the nodes whose memory kernels read or write."""
        if isinstance(step, Work):
            return [step.node, *[view.source for view in step.operands.values()]]
        operands = self._assemblies[id(step)].operands.values()
        return [operand.source for operand in operands if isinstance(operand.source, Node)]

    def _last_use(self) -> dict[int, int]:
        """Return for every slot that can be emptied the step that uses it last, by identity of the step."""
        last: dict[int, int] = {}
        for step in self._steps:
            for node in self._reads(step):
                if node in self._arrays and node not in self._kept and node not in self._inputs:
                    last[self.slots[node]] = id(step)
        return last

    def _done(self, last_use: dict[int, int], steps: Iterable[Step]) -> tuple[int, ...]:
        finished = {id(step) for step in steps}
        return tuple([slot for slot, step in last_use.items() if step in finished])

    def _call(self, node: Node, done: tuple[int, ...]) -> Segment:
        function, target = node.operator.reference(node.attributes), self.slots[node]
        sources = [self.slots[resolve(source)] for source in node.inputs]
        single = node.outputs is None

        def call(values: list[Any]) -> None:
            try:
                result = function(*[values[source] for source in sources])
            except Exception as error:
                raise located(error, node) from error
            values[target] = _contiguous(result) if single else result
            for slot in done:
                values[slot] = None

        return call

    def _row(self, steps: list[Group | Work], last_use: dict[int, int]) -> Segment:
        """Return the segment of consecutive steps that kernels do: one native call."""
        bases = {self._number_slot: 0, self.arena_slot: 1}
        launches = [launch for step in steps for launch in self._launches(step, bases)]
        row = Row(launches, len(bases))
        made = [node for step in steps for node in self._arrays_made(step)]
        allocations = [(self.slots[node], node.shape, node.dtype) for node in made]
        done = self._done(last_use, steps)
        run, arrays, empty = row.run, operator.itemgetter(*bases), np.empty

        def native(values: list[Any]) -> None:
            for slot, shape, dtype in allocations:
                values[slot] = empty(shape, dtype)
            run(arrays(values))
            for slot in done:
                values[slot] = None

        return native

    def _launches(self, step: Group | Work, bases: dict[int, int]) -> list[tuple[jit.Kernel, list[int], int, int]]:
        """Return kernel, table, range and chunk of what a step does; arrays are numbered in ``bases``."""
        if isinstance(step, Group):
            plan, operands = self._assemblies[id(step)]
            places = {name: self._place(source, start, bases) for name, (source, start) in operands.items()}
        else:
            plan, views = step.plan, step.operands
            places = {name: self._place(view.source, view.pattern.offset, bases) for name, view in views.items()}
            places["out"] = self._place(step.node, 0, bases)
        places["scratch"] = bases[self.arena_slot], self._scratch_starts.get(id(step), 0)
        return [
            (jit.kernel(launch.structure), launch.table(places), launch.extent, launch.chunk)
            for launch in plan.launches
        ]

    def _place(self, source: Node | bytes, start: int, bases: dict[int, int]) -> tuple[int, int]:
        """Return the number of the array in which a value lies, and how many bytes from its beginning."""
        if isinstance(source, bytes):
            slot, place = self._number_slot, self._numbers[source]
        elif source in self._arena_starts:
            slot, place = self.arena_slot, self._arena_starts[source] + start * source.dtype.itemsize
        else:
            slot, place = self.slots[source], start * source.dtype.itemsize
        return bases.setdefault(slot, len(bases)), place


def _alias(shape: Shape, source: int, target: int, done: tuple[int, ...]) -> Segment:
    """Return the segment that makes an array of another shape from the memory of one that is there."""

    def alias(values: list[Any]) -> None:
        values[target] = values[source].reshape(shape)
        for slot in done:
            values[slot] = None

    return alias
