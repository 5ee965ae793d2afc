"""Follows every byte of a plan without running it: what each kernel reads was written there, and nobody interferes.

Memory holds *tags* in place of bytes: which byte of which element of which node lies there. Every launch is decoded
from the table it will run with. What it reads must have the tags of the nodes it is meant to read; of what may run at
the same time (elements of a launch, launches of a region), nothing may touch what another one writes. In the end the
values that are handed back must be where they are looked for.

Nothing is compiled, so hundreds of plans can be followed in the time that it takes to compile the kernels of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import ABSENT
from phonograd.core.kernels.fused.join import Join
from phonograd.core.kernels.launch import Launch, Reference
from phonograd.core.kernels.structure import REDUCED, Structure
from phonograd.core.lower.pattern import Pattern
from phonograd.core.plan import layout as layouts
from phonograd.core.plan import native_program as programs
from phonograd.core.plan.inplace import InPlaceAssignments, assignment_lowering
from phonograd.core.plan.layout import Job, Layout
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.plan.steps import Alias, NumpyCall
from phonograd.core.run import kernel_cache
from phonograd.core.run import program as running
from phonograd.core.run.reference import resolve

__all__ = ["WrongPlanError", "follow"]

Tags = np.ndarray[Any, Any]

#: tags of memory that holds nothing, or what is nobody's value
NOTHING, SCRATCH = -1, -2
#: bytes of a node that can be told apart
_BYTES = 1 << 32


class WrongPlanError(AssertionError):
    """A plan that would compute something else than it should, at least sometimes."""


class _Touched(NamedTuple):
    """Bytes of some memory that a launch touches, and by which element of its space."""

    memory: int
    places: Tags
    elements: Tags | None
    """None: by any of them, at any time."""
    what: str


def follow(targets: Iterable[Node], available: Callable[[Node], bool], keep_all: bool = False) -> None:
    """Make the plan of some nodes and follow it; WrongPlanError says what is wrong."""
    with pytest.MonkeyPatch.context() as patch:
        caught = _Caught(patch)
        program = NativeProgram(targets, available, keep_all)
    if caught.layout is not None:
        _Walk(program, caught).all()


class _Caught:
    """The parts of a plan that a program does not keep, caught while it is made; nothing is compiled."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.layout: Layout | None = None
        self.jobs: list[Job | NumpyCall | Alias] = []
        self.assignments: InPlaceAssignments | None = None
        #: by number of a job that it became, a job with the nodes whose values it reads
        self.originals: dict[int, Job | NumpyCall | Alias] = {}
        self.source: Callable[[Node], Node] = resolve
        jobs_of, moved, batch = programs.jobs_of, layouts._in_owner_memory, programs.Batching

        def caught_batching(*arguments: Any) -> Any:
            found = batch(*arguments)
            self.source = found.source
            return found

        def caught_jobs(grouping: Any, kept: Iterable[Node] = ()) -> Any:
            self.assignments = grouping.assignments
            return jobs_of(grouping, kept)

        def caught_move(job: Any, assignments: InPlaceAssignments) -> Any:
            found = moved(job, assignments)
            self.originals[id(found)] = job
            return found

        def caught_layout(jobs: Any, *rest: Any) -> Layout:
            self.jobs = list(jobs)
            self.layout = Layout(jobs, *rest)
            return self.layout

        patch.setattr(programs, "Batching", caught_batching)
        patch.setattr(programs, "jobs_of", caught_jobs)
        patch.setattr(layouts, "_in_owner_memory", caught_move)
        patch.setattr(programs, "Layout", caught_layout)
        patch.setattr(programs, "_kernels", lambda work: {})
        patch.setattr(kernel_cache, "precompile", lambda structure, work: None)
        patch.setattr(running, "segment_of", lambda *arguments: None)

    def original(self, job: Any) -> Any:
        """Return a job with the nodes whose values it reads, not those in whose memory they lie."""
        return self.originals.get(id(job), job)


class _Walk:
    """Memory while a plan is followed."""

    def __init__(self, program: NativeProgram, caught: _Caught) -> None:
        assert caught.layout is not None
        self.program, self.caught, self.layout = program, caught, caught.layout
        self.assignments = caught.assignments
        self.numbers: dict[Node, int] = {}
        self.known: dict[Node, Tags] = {}
        self.memories: list[Tags] = [np.full(max(self.layout.arena_bytes, 1), NOTHING)]
        #: by slot the number of a memory
        self.slots: dict[int, int] = {self.layout.arena_slot: 0}

    def all(self) -> None:
        """Follow the whole plan."""
        for node in self.program.inputs:
            self.make(node, self.tags(node))
        for given, slot, _ in self.program._begun:
            # in the very array, or in a copy
            self.slots[slot] = self.slots[given]
            if given not in self.program.donatable:
                self.slots[slot] = len(self.memories)
                self.memories.append(self.memories[self.slots[given]].copy())
        exchanged: dict[int, int] = {}
        for made, numbers in self.program._exchanges:
            free = [number for number in numbers if number in self.program.donatable]
            exchanged.update(zip([slot for slot, _ in made], free))
        region, touched = -1, list[tuple[int, list[_Touched], list[_Touched]]]()
        for number, job in enumerate(self.caught.jobs):
            original = self.caught.original(job)
            if isinstance(job, Job):
                if self.layout.regions[number] != region:
                    region, touched = self.layout.regions[number], []
                for node in job.made:
                    slot = self.layout.slots.get(node)
                    if slot in exchanged:
                        # in the very array of an input
                        self.slots[slot] = self.slots[exchanged[slot]]
                    elif slot is not None:
                        self.make(node)
                touched.append((number, *self.run(number, job, original)))
                _check_apart(touched)
            elif isinstance(job, Alias):
                # an assignment that lies in memory of another shape, or a value that has all elements of another one
                if self.assignments is None or job.node not in self.assignments.chosen:
                    self.known[job.node] = self.tags(original.source)
                self.check_whole(job.node, job.source)
                self.slots[self.layout.slots[job.node]] = self.slots[self.layout.slots[job.source]]
            else:
                for source, array in zip(original.sources, job.sources, strict=True):
                    self.check_whole(source, array)
                self.make(job.node, self.tags(job.node))
            for slot in self.layout.done.get(number, ()):
                self.slots.pop(slot, None)
        self.check_kept()

    def check_kept(self) -> None:
        """Check that what is handed back lies where it is looked for."""
        for node, slot in self.program.kept:
            found, wanted = self.memories[self.slots[slot]], self.tags(self.caught.source(node))
            if not np.array_equal(found, wanted):
                raise WrongPlanError(f"{node} is handed back with other values")

    # -- tags

    def tags(self, node: Node) -> Tags:
        """Return the tags of all bytes of a value."""
        found = self.known.get(node)
        if found is None:
            found = self.known[node] = self.make_tags(node)
        return found

    def make_tags(self, node: Node) -> Tags:
        own = self.own_tags(node)
        if self.assignments is None or node not in self.assignments.chosen:
            return own
        base = self.assignments.replaced.get(node)
        below = self.own_tags(node, copied=True) if base is None else self.tags(base)
        overlay = assignment_lowering(node)
        assert overlay is not None
        places = _bytes_at(_walked(Pattern.contiguous(node.shape).slice(*overlay.region_of(node))), node.dtype.itemsize)
        below = below.copy()
        below[places] = own[places]
        return below

    def own_tags(self, node: Node, copied: bool = False) -> Tags:
        """Return tags for what is computed as a value, or copied to its place before a part of it is assigned to."""
        number = 2 * self.numbers.setdefault(node, len(self.numbers)) + copied
        return number * _BYTES + np.arange(node.size * node.dtype.itemsize)

    def make(self, node: Node, tags: Tags | None = None) -> None:
        """Make an array for a node."""
        size = node.size * node.dtype.itemsize
        self.slots[self.layout.slots[node]] = len(self.memories)
        self.memories.append(np.full(size, NOTHING) if tags is None else tags.copy())

    def name(self, tag: int) -> str:
        """Return what a tag stands for."""
        if tag < 0:
            return {NOTHING: "nothing", SCRATCH: "scratch"}[int(tag)]
        nodes = {number: node for node, number in self.numbers.items()}
        return f"byte {tag % _BYTES} of {nodes[int(tag) // _BYTES // 2]}"

    # -- jobs

    def check_whole(self, value: Node, array: Node) -> None:
        """Check that the array of a node holds a value."""
        slot = self.layout.slots[array]
        if slot not in self.slots:
            raise WrongPlanError(f"{array} is gone when it is read")
        if value.outputs is None and value.operator is not ABSENT.operator:
            self.check_tags(self.memories[self.slots[slot]], self.tags(value), value)

    def check_tags(self, found: Tags, wanted: Tags, node: Node) -> None:
        """Check that there is what should be there."""
        if found.shape != wanted.shape:
            raise WrongPlanError(f"{node} is read from {found.size} bytes")
        wrong = np.flatnonzero(found != wanted)
        if wrong.size:
            raise WrongPlanError(
                f"{self.name(wanted[wrong[0]])} is to be read, but {self.name(found[wrong[0]])} is there "
                f"({wrong.size} of {found.size} bytes of {node})"
            )

    def run(self, number: int, job: Job, original: Job) -> tuple[list[_Touched], list[_Touched]]:
        """Check what a job reads, and write what it writes; return what it touches."""
        bases = {self.layout.arena_slot: 0}
        places = self.layout.places(number, job, bases)
        slots = {base: slot for slot, base in bases.items()}
        where = {
            name: (self.memories[self.slots[slots[base]]], slots[base], start)
            for name, (base, start) in places.items()
            if slots[base] != self.layout.number_slot
        }
        accesses = _accesses(original)
        read, written = list[_Touched](), list[_Touched]()
        for name, elements, by, _ in [access for access in accesses if not access.writes]:
            memory, slot, start = where[name]
            node, first = original.operands[name]
            size = node.dtype.itemsize
            at = _bytes_at(elements, size)
            own = at + first * size
            if own.size and not 0 <= own.min() <= own.max() < node.size * size:
                raise WrongPlanError(f"{node} is read beyond its ends")
            self.check_tags(memory[start + at], self.tags(node)[own], node)
            read.append(_Touched(self.slots[slot], start + at, _repeated(by, size), str(node)))
        if job.plan.scratch_bytes:
            memory, slot, start = where["scratch"]
            at = np.arange(start, start + job.plan.scratch_bytes)
            memory[at] = SCRATCH
            written.append(_Touched(self.slots[slot], at, None, "scratch"))
        for name, elements, by, _ in [access for access in accesses if access.writes]:
            memory, slot, start = where[name]
            node, first = original.operands[name]
            size = node.dtype.itemsize
            at = _bytes_at(elements, size)
            own = at + first * size
            if own.size and not 0 <= own.min() <= own.max() < node.size * size:
                raise WrongPlanError(f"{node} is written beyond its ends")
            is_copy = (
                self.assignments is not None and node in self.assignments.chosen and len(set(own)) == node.size * size
            )
            memory[start + at] = self.own_tags(node, copied=is_copy)[own]
            written.append(_Touched(self.slots[slot], start + at, _repeated(by, size), str(node)))
        _check_within(read, written, self.memories)
        return read, written


class _Access(NamedTuple):
    """What a job does with an operand: places in elements, and the elements of its space that touch them."""

    name: str
    places: Tags
    by: Tags | None
    """None: any element may touch any place, at any time."""
    writes: bool


def _accesses(job: Job) -> list[_Access]:
    """Return everything that a job reads and writes."""
    launches = job.plan.launches
    if launches and isinstance(launches[0].structure, Structure):
        return [*_accesses_of_group(job, launches[0], launches[0].structure), *_joined(job)]
    found = []
    # where matrices lie in the memory of another value, all of that must be there
    for name, (node, start) in job.operands.items() if launches else ():
        assert isinstance(node, Node)
        places = np.arange(-start, node.size - start)
        found.append(_Access(name, places, places if name in ("out", "old") else None, name == "out"))
    return found


def _joined(job: Job) -> Iterator[_Access]:
    """Yield what the kernels write that join partial results."""
    for launch in job.plan.launches[1:]:
        assert isinstance(launch.structure, Join)
        _, items, _, out = launch.words
        assert isinstance(items, int)
        assert isinstance(out, Reference)
        yield _Access(out.operand, np.arange(items), None, True)


def _accesses_of_group(job: Job, launch: Launch, structure: Structure) -> Iterator[_Access]:
    """Yield what a kernel reads and writes, from the words of its table."""
    words = iter(launch.words)
    extents: list[Any] = [next(words) for _ in structure.axes]
    space = np.arange(math.prod(extents)).reshape(extents)
    by = None if REDUCED in structure.axes else space

    rows = [1 if kind == REDUCED else extent for kind, extent in zip(structure.axes, extents, strict=True)]

    def operand(extents: list[Any] = extents) -> tuple[str | None, Tags]:
        name = next(words)
        if not isinstance(name, Reference):
            next(words)
        places = np.zeros(extents, np.int64)
        for axis, extent in enumerate(extents):
            shape = [extent if other == axis else 1 for other in range(len(extents))]
            places += (np.arange(extent) * next(words)).reshape(shape)
        return (name.operand if isinstance(name, Reference) else None), places

    for load in structure.loads:
        name, places = operand()
        inside = np.ones(extents, bool)
        for axis in load.bounds:
            low, high = next(words), next(words)
            position = np.indices(extents)[axis]
            inside &= (position >= low) & (position < high)
        if name is not None and isinstance(job.operands[name].source, Node):
            yield _Access(name, places[inside], None if by is None else by[inside], False)
    for _ in structure.draws:
        name, _ = operand()
        assert name is not None
        yield _Access(name, np.arange(4), None, False)
    for _ in structure.takes:
        name, _ = operand()
        next(words)
        assert name is not None
        source, start = job.operands[name]
        assert isinstance(source, Node)
        # anything may be taken that the index names
        yield _Access(name, np.arange(-start, source.size - start), None, False)
    for store in structure.stores:
        # what is written once for a row has no stride along it
        name, places = operand(rows if store.row else extents)
        assert name is not None
        source, _ = job.operands[name]
        assert isinstance(source, Node)
        assert source.dtype == structure.dtypes[store.source], source
        if len(np.unique(places)) != places.size:
            raise WrongPlanError(f"several elements are written to one place of {source}")
        yield _Access(name, places.reshape(-1), None if by is None else by.reshape(-1), True)


def _walked(pattern: Pattern) -> Tags:
    """Return the places that a pattern goes through."""
    places = np.full(pattern.shape, pattern.offset)
    for axis, (extent, stride) in enumerate(zip(pattern.shape, pattern.strides, strict=True)):
        places += (np.arange(extent) * stride).reshape([-1 if a == axis else 1 for a in range(len(pattern.shape))])
    return places.reshape(-1)


def _bytes_at(elements: Tags, size: int) -> Tags:
    return (elements.reshape(-1, 1) * size + np.arange(size)).reshape(-1)


def _repeated(by: Tags | None, size: int) -> Tags | None:
    return None if by is None else np.repeat(by.reshape(-1), size)


def _check_within(read: list[_Touched], written: list[_Touched], memories: list[Tags]) -> None:
    """Check that what a job writes is touched by one element alone, whose value it is computed for."""
    for number, (memory, places, by, what) in enumerate(written):
        writer = np.full(memories[memory].size, -1)
        writer[places] = 0 if by is None else by
        for other in read:
            if other.memory != memory:
                continue
            found = writer[other.places]
            same = np.zeros(found.shape, bool) if by is None or other.elements is None else found == other.elements
            if np.any((found >= 0) & ~same):
                raise WrongPlanError(f"{other.what} is read where {what} is written by the same kernel")
        for other in written[:number]:
            if other.memory == memory and np.any(writer[other.places] >= 0):
                raise WrongPlanError(f"{other.what} and {what} are written to the same place")


def _check_apart(touched: list[tuple[int, list[_Touched], list[_Touched]]]) -> None:
    """Check that the last of some jobs, which run at the same time, stays away from what the others write."""
    _, read, written = touched[-1]
    for _, other_read, other_written in touched[:-1]:
        for mine, others in (([*read, *written], other_written), (written, other_read)):
            for one in mine:
                for other in others:
                    if one.memory == other.memory and np.intersect1d(one.places, other.places).size:
                        raise WrongPlanError(f"{one.what} and {other.what} share memory at the same time")
