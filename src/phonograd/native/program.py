"""NativeProgram: computes nodes with fused kernels, behind the interface of the reference executor's program.

Values that only kernels read lie in an arena; inputs, results and everything NumPy reads or makes are arrays. A run
goes through *segments*: rows of kernels (one native call each), and NumPy calls for operators without a lowering. A
program can run in several threads at once: all that changes in it is the number of runs.
"""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable, Container, Iterable, Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import DType
from ..errors import MXNetError
from ..kernels.launch import Launch, Plan, Reference, Written
from ..kernels.lowering import Constant, Elementwise, Location
from ..node import Node, Shape
from ..operator import ABSENT, Array
from ..reference import Note, Part, located, order, resolve
from . import jit, memory
from .driver import Row
from .grouping import Alias, Call, Grouping, lowering_of
from .layout import Job, Layout, jobs_of
from .rewrite import Rewriting

__all__ = ["Memory", "NativeProgram"]

#: operations per element above which a value that may be needed again is kept rather than computed again
CHEAP = 4.0

#: a part of a run, as a function of the list of all values
Segment = Callable[[list[Any]], None]

_ARRAY = np.ndarray
_BYTE = np.dtype(np.uint8)


class Memory(NamedTuple):
    """How many bytes a run of a program takes beside its inputs."""

    arena: int
    """Values that only kernels see."""
    kept: int
    """Values that are handed back."""
    other: int
    """Arrays that NumPy reads or makes on the way, all of them."""


class NativeProgram:
    """The kernels and NumPy calls that compute some nodes from leaves and from values that are there already.

    ``inputs`` are the nodes whose values are passed in, ``kept`` holds (node, slot) of every value to hand back. With
    ``keep_all`` these are the targets and every intermediate value that is worth its memory; the others are computed
    again should they be needed, with the same bits.
    """

    __slots__ = (
        "_apart",
        "_arena_room",
        "_arena_slot",
        "_begun",
        "_fixed",
        "_kept_slots",
        "_maker",
        "_segments",
        "_uses_numpy",
        "inputs",
        "kept",
        "kernels",
        "memory",
        "parts",
        "runs",
        "spendable",
    )

    def __init__(self, targets: Iterable[Node], available: Callable[[Node], bool], keep_all: bool = False) -> None:
        # a plan is made of very many small objects, none of which is garbage: looking for some takes up to a third
        # of the time
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._plan(targets, available, keep_all)
        finally:
            if collecting:
                gc.enable()

    def _plan(self, targets: Iterable[Node], available: Callable[[Node], bool], keep_all: bool) -> None:
        wanted = [resolve(node) for node in targets]
        self.inputs, computed = order(wanted, available)
        given = set(self.inputs)
        asked = dict.fromkeys([node for node in wanted if node not in given])
        kept = [n for n in computed if n in asked or _worth_keeping(n)] if keep_all else list(asked)
        kept = [node for node in kept if node.outputs is None and node.operator is not ABSENT.operator]
        jobs: list[Job | Call | Alias]
        if jit.available():
            rewriting = Rewriting(computed, given, kept)
            source = rewriting.source
            made = [node for node in dict.fromkeys(map(source, kept)) if node not in given]
            grouping = _grouped(rewriting.computed, self.inputs, made, source)
            seen_as, begun = grouping.overlays.seen_as, grouping.overlays.begun
            jobs = jobs_of(grouping, made)
            arrays = {*map(grouping.overlays.owner, grouping.arrays), *map(seen_as, grouping.arrays)}
        else:
            source, made, arrays = resolve, kept, set(computed)
            jobs = [Call(node, tuple(map(resolve, node.inputs))) for node in computed]
            seen_as, begun = resolve, {}
        layout = Layout(jobs, self.inputs, map(seen_as, made), arrays, begun)
        self.kernels = _kernels(jobs)
        self._maker = _Segments(jobs, layout, self.kernels)
        self._segments = self._maker.all()
        self._apart: list[Segment] | None = None
        #: everything that a run does, in order
        self.parts = [_part(job) for job in jobs]
        numbers = layout.numbers()
        # the slot of an arena that is not needed must still be something with a data address
        self._fixed = [numbers, numbers, *[None] * (layout.width - layout.number_slot - 2)]
        self._arena_slot = layout.arena_slot
        self._arena_room = memory.room_for(layout.arena_bytes) if layout.arena_bytes else 0
        self._uses_numpy = any([isinstance(job, Call) for job in jobs])
        self.kept = [(node, layout.slots[seen_as(source(node))]) for node in kept]
        self._begun = [(layout.slots[given], layout.slots[node], node.shape) for node, given in begun.items()]
        #: numbers of the inputs whose arrays a run can write over, should nobody else need them
        self._kept_slots = [slot for _, slot in self.kept]
        spendable = [] if self._uses_numpy else [number for number, _, _ in self._begun]
        # some are handed back, as values that are the same
        self.spendable = tuple([number for number in spendable if number not in self._kept_slots])
        others = arrays.difference(map(seen_as, made), self.inputs)
        self.memory = Memory(layout.arena_bytes, _bytes(made), _bytes(others))
        self.runs = 0

    def run(self, inputs: list[Any], spent: Container[int] = (), note: Note | None = None) -> list[Array]:
        """Return the kept values, computed from the values of ``inputs``.

        These are arrays of the shapes and dtypes of their nodes, with any strides. Those whose numbers are in ``spent``
        may be written over: nobody else refers to them. With ``note``, the parts of the program run one by one, and it
        is called after each of them with the part, and the times at which it began and ended.
        """
        values: list[Any] = [
            value if type(value) is _ARRAY and value.flags.c_contiguous else _contiguous(value) for value in inputs
        ]
        values += self._fixed
        for number, slot, shape in self._begun:
            if values[number] is None:
                raise MXNetError("an array was lost: the computation that changed it in place has been interrupted")
            given = values[number].reshape(shape)
            values[slot] = given if number in spent else _copied(given)
        if self._arena_room:
            values[self._arena_slot] = memory.allocate((self._arena_room,), _BYTE, self._arena_room)
        if note is not None:
            self._run_noted(values, note)
        elif self._uses_numpy:
            with np.errstate(all="ignore"):
                for segment in self._segments:
                    segment(values)
        else:
            for segment in self._segments:
                segment(values)
        if self.runs < 2:
            self.runs += 1
            if self.runs == 2:
                # it will probably be run again
                jit.improve(self.kernels.values())
        return [values[slot] for slot in self._kept_slots]

    def _run_noted(self, values: list[Any], note: Note) -> None:
        if self._apart is None:
            self._apart = self._maker.apart()
        with np.errstate(all="ignore"):
            for part, segment in zip(self.parts, self._apart, strict=True):
                start = perf_counter_ns()
                segment(values)
                note(part, start, perf_counter_ns())


def _grouped(
    computed: Sequence[Node], inputs: Sequence[Node], made: Sequence[Node], source: Callable[[Node], Node]
) -> Grouping:
    """Return which nodes share a kernel, with no assignment done before everybody has read what it replaces."""
    refused: set[Node] = set()
    while True:
        grouping = Grouping(computed, inputs, made, source, refused)
        late = grouping.overlays.late(grouping.steps()) if grouping.overlays.replaced else set()
        if not late:
            return grouping
        refused |= late


def _copied(array: Array) -> Array:
    """Return a copy of an array in memory of the pool."""
    copy = memory.allocate(array.shape, array.dtype, memory.room_for(array.nbytes))
    np.copyto(copy, array)
    return copy


def _contiguous(value: Any) -> Any:
    """Return a value as a contiguous array; None (of an optional input that is not there) stays None.

    Last bits of what NumPy computes may depend on the layout of its operands, so there is only one layout.
    """
    return None if value is None else np.asarray(value, order="C")


def _worth_keeping(node: Node) -> bool:
    """Return whether a value should be kept where it may be needed again."""
    if not jit.available():
        return True
    lowering = lowering_of(node)
    if isinstance(lowering, (Location, Constant)):
        return False
    cost = node.operator.cost
    return not isinstance(lowering, Elementwise) or callable(cost) or cost > CHEAP


def _bytes(nodes: Iterable[Node]) -> int:
    return sum([node.size * node.dtype.itemsize for node in nodes])


def _part(job: Job | Call | Alias) -> Part:
    if isinstance(job, Call):
        return Part((job.node,), (), (*job.sources, job.node), (job.node,))
    if isinstance(job, Alias):
        return Part((job.node,), (), (), ())
    touched = dict.fromkeys([source for source, _ in job.operands.values() if isinstance(source, Node)])
    kernels = tuple([launch.structure for launch in job.plan.launches])
    return Part(job.nodes, kernels, tuple(touched), tuple(job.written))


def _kernels(jobs: Iterable[Job | Call | Alias]) -> dict[Written, jit.Kernel]:
    """Return the kernels of all jobs by description."""
    # jobs share plans, and looking a long description up takes longer than counting
    times: dict[int, int] = {}
    plans: dict[int, Plan] = {}
    for job in jobs:
        if isinstance(job, Job):
            key = id(job.plan)
            times[key] = times.get(key, 0) + 1
            plans[key] = job.plan
    work: dict[Written, int] = {}
    for key, plan in plans.items():
        for structure, _, extent, chunk, products in plan.launches:
            work[structure] = work.get(structure, 0) + times[key] * max(extent // chunk, products)
    return jit.kernels(work) if work else {}


# -- segments


class _Form(NamedTuple):
    """A launch to be filled in: its words with gaps, and for each gap its place, the operand and a distance."""

    kernel: jit.Kernel
    words: list[int]
    gaps: list[tuple[int, str, int]]
    extent: int
    chunk: int

    @staticmethod
    def of(launch: Launch, kernel: jit.Kernel) -> _Form:
        words: list[int] = []
        gaps: list[tuple[int, str, int]] = []
        for word in launch.words:
            if isinstance(word, Reference):
                gaps.append((len(words), word.operand, word.offset))
                words += (0, 0)
            else:
                words.append(word)
        return _Form(kernel, words, gaps, launch.extent, launch.chunk)

    def table(self, places: dict[str, tuple[int, int]]) -> list[int]:
        """Return the words of the launch with operands that lie somewhere."""
        words = self.words.copy()
        for gap, name, distance in self.gaps:
            words[gap], start = places[name]
            words[gap + 1] = start + distance
        return words


class _Segments:
    """The segments of a program while they are made."""

    def __init__(self, jobs: Sequence[Job | Call | Alias], layout: Layout, kernels: dict[Written, jit.Kernel]) -> None:
        self._jobs = jobs
        self._layout = layout
        self._kernels = kernels
        self._forms: dict[int, list[_Form]] = {}

    def all(self) -> list[Segment]:
        """Return what a run does, one function of the list of values after the other."""
        segments: list[Segment] = []
        layout, row = self._layout, list[tuple[int, Job]]()
        for index, job in enumerate(self._jobs):
            if isinstance(job, Job):
                row.append((index, job))
                continue
            if row:
                segments.append(self._row(row))
                row = []
            done = layout.done.get(index, ())
            if isinstance(job, Alias):
                segments.append(_alias(job.node.shape, layout.slots[job.source], layout.slots[job.node], done))
            else:
                segments.append(_call(job, layout, done))
        if row:
            segments.append(self._row(row))
        return segments

    def apart(self) -> list[Segment]:
        """Return a segment for each job, so that each can be looked at."""
        segments: list[Segment] = []
        for index, job in enumerate(self._jobs):
            done = self._layout.done.get(index, ())
            if isinstance(job, Job):
                segments.append(self._row([(index, job)]))
            elif isinstance(job, Alias):
                slots = self._layout.slots
                segments.append(_alias(job.node.shape, slots[job.source], slots[job.node], done))
            else:
                segments.append(_call(job, self._layout, done))
        return segments

    def _row(self, jobs: list[tuple[int, Job]]) -> Segment:
        """Return the segment of consecutive jobs: one native call."""
        layout = self._layout
        bases = {layout.number_slot: 0, layout.arena_slot: 1}
        launches: list[tuple[jit.Kernel, list[int], int, int]] = []
        regions: list[int] = []
        region = -1
        allocations: list[tuple[int, Shape, DType, int]] = []
        done: list[int] = []
        for number, job in jobs:
            places = layout.places(number, job, bases)
            forms = self._forms_of(job.plan)
            if layout.regions[number] == region:
                regions[-1] += len(forms)
            else:
                regions += [1] * len(forms)
                region = layout.regions[number]
            for form in forms:
                launches.append((form.kernel, form.table(places), form.extent, form.chunk))
            for node in job.made:
                slot = layout.slots.get(node)
                if slot is not None:
                    room = memory.room_for(node.size * node.dtype.itemsize)
                    allocations.append((slot, node.shape, node.dtype, room))
            done += layout.done.get(number, ())
        row = Row(launches, len(bases), regions)
        run, arrays, allocate = row.run, operator.itemgetter(*bases), memory.allocate

        small = [(slot, shape, dtype) for slot, shape, dtype, room in allocations if room < memory.SMALLEST_BLOCK]
        large = [entry for entry in allocations if entry[-1] >= memory.SMALLEST_BLOCK]
        empty = np.empty

        def native(values: list[Any]) -> None:
            for slot, shape, dtype in small:
                values[slot] = empty(shape, dtype)
            for slot, shape, dtype, room in large:
                values[slot] = allocate(shape, dtype, room)
            run(arrays(values))
            for slot in done:
                values[slot] = None

        return native

    def _forms_of(self, plan: Plan) -> list[_Form]:
        forms = self._forms.get(id(plan))
        if forms is None:
            forms = [_Form.of(launch, self._kernels[launch.structure]) for launch in plan.launches]
            self._forms[id(plan)] = forms
        return forms


def _call(job: Call, layout: Layout, done: Iterable[int]) -> Segment:
    """Return the segment in which NumPy evaluates a node."""
    node = job.node
    function, target = node.operator.reference(node.attributes), layout.slots[node]
    sources = [layout.slots[source] for source in job.sources]
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


def _alias(shape: Shape, source: int, target: int, done: Iterable[int]) -> Segment:
    """Return the segment that makes an array of another shape from the memory of one that is there."""

    def alias(values: list[Any]) -> None:
        values[target] = values[source].reshape(shape)
        for slot in done:
            values[slot] = None

    return alias
