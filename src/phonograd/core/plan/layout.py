"""Layout: where every value of a plan is stored, and the jobs that kernels do there.

While a plan runs, arrays are in a list of *slots*: first the inputs, then one with the numbers that kernels read, one
with the arena, one with a word that is set at the end, and then one for each array that is made. Values that only
kernels read are in the arena. Everything is decided in one walk over the steps of a plan.

Jobs that follow each other and do not depend on each other form a *region*, whose chunks are shared out among threads
as if they were one kernel's. All of them may run at the same time, so nothing that one of them reads or writes may be
where another one writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..base.pace import rest
from ..graph.extents import is_tracing
from ..graph.node import Node, Shape
from ..kernels.launch import Plan
from ..lower.lowering import Fused
from ..run import kernel_cache, memory_pool
from .assembly import Assembler, Operand
from .epilogues import FinishedKernel, add_epilogues
from .group import Group, Read, squeeze
from .grouping import Grouping
from .inplace import InPlaceAssignments
from .row_blocks import RegionJob, in_regions
from .sizes import arrange, joined
from .steps import Alias, LibraryKernel, NumpyCall, PlanStep

__all__ = ["Job", "Layout", "jobs_of", "regions_of"]

#: chunks of a region, if it has several jobs: with so many the threads seldom wait for each other anyway, and what is
#: large does not stay in memory longer
REGION_CHUNKS = 64

#: minimum size in bytes for writing a result to the memory of an unused input: for less, finding one costs more
SMALLEST_EXCHANGE = 1 << 14

_NONE: Mapping[Node, Node] = {}


class Job(NamedTuple):
    """Kernels that follow each other: their launches, the memory of their operands, and the values they write."""

    plan: Plan
    operands: Mapping[str, Operand]
    made: list[Node]
    over: list[tuple[Node, Node]]
    """Pairs of a value that is made and one that is read, where the first can take the place of the second."""
    nodes: tuple[Node, ...]
    """Everything that is computed."""
    written: list[Node]
    """Everything of which some part is written."""
    exchanged: tuple[list[Node], list[Node]] = ([], [])
    """Values that are made, and values read, where any of the first can take the place of any of the second."""

    @property
    def chunks(self) -> int:
        """The number of chunks to share out; 0 if the launches depend on each other."""
        if len(self.plan.launches) != 1:
            return 0
        launch = self.plan.launches[0]
        return -(-launch.extent // launch.chunk)


def jobs_of(grouping: Grouping, kept: Iterable[Node] = ()) -> list[Job | NumpyCall | Alias]:
    """Return the steps of a plan, with groups and library kernels as jobs; some values are kept."""
    jobs: list[Job | NumpyCall | Alias] = []
    assembler = Assembler(grouping.inputs, None if is_tracing() else kernel_cache.precompile)
    assignments = grouping.assignments
    owner = assignments.owner
    begun: set[Node] = set(assignments.begun)
    for step in _steps(grouping, assembler):
        if isinstance(step, FinishedKernel):
            jobs.append(Job(step.plan, step.operands, [step.node], [], step.nodes, [step.node]))
        elif isinstance(step, RegionJob):
            made = [node for node in step.written if node not in begun]
            begun.update(made)
            jobs.append(Job(step.plan, step.operands, made, [], step.nodes, step.written))
        elif isinstance(step, Group):
            own = grouping.writes(step)
            plan, operands, written = assembler.assemble(step, own)
            if assignments.chosen:
                written = list(dict.fromkeys(map(owner, written)))
            # of several groups that write to one array, the first makes it
            made = [node for node in written if node not in begun]
            begun.update(made)
            nodes = tuple([member.expression for member in step.members])
            over, exchanged = _replaceable(step, own)
            jobs.append(Job(plan, operands, made, over, nodes, written, exchanged))
        elif isinstance(step, LibraryKernel):
            read = {name: Operand(view.source, view.pattern.offset) for name, view in step.operands.items()}
            operands, made = {**read, "out": Operand(step.node, 0)}, [step.node]
            over = _find_sum(step)
            exchanged = ([new for new, _ in over], [old for _, old in over])
            jobs.append(Job(step.plan, operands, made, over, (step.node,), made, exchanged))
        else:
            jobs.append(step)
    if not assignments.chosen:
        return jobs
    moved: list[Job | NumpyCall | Alias] = []
    seen: set[Node] = set()
    for job in jobs:
        if isinstance(job, NumpyCall):
            moved += _aliases_of(job.sources, assignments, seen)
        moved.append(_in_owner_memory(job, assignments))
    return moved + _aliases_of(kept, assignments, seen)


def _steps(grouping: Grouping, assembler: Assembler) -> Sequence[PlanStep | RegionJob | FinishedKernel]:
    """Return the steps of a plan in order, with regions as jobs, and groups as epilogues."""
    steps = in_regions(grouping, assembler)
    if not grouping.has_epilogues or grouping.assignments.chosen:
        return steps
    return add_epilogues(steps, grouping, assembler)


def _aliases_of(nodes: Iterable[Node], assignments: InPlaceAssignments, seen: set[Node]) -> list[Alias]:
    """Return aliases for nodes that are in memory of another shape, each of them once."""
    found = [node for node in nodes if assignments.seen_as(node) is not assignments.owner(node) and node not in seen]
    seen.update(found)
    return [Alias(node, assignments.owner(node)) for node in dict.fromkeys(found)]


def _in_owner_memory(job: Job | NumpyCall | Alias, assignments: InPlaceAssignments) -> Job | NumpyCall | Alias:
    """Return a job with each node replaced by the node in whose memory its value is."""
    owner = assignments.owner
    if isinstance(job, Alias):
        return Alias(job.node, owner(job.source))
    if isinstance(job, NumpyCall):
        return NumpyCall(job.node, tuple(map(assignments.seen_as, job.sources)))
    operands = {
        name: Operand(owner(source), start) if isinstance(source, Node) else Operand(source, start)
        for name, (source, start) in job.operands.items()
    }
    over = [(owner(new), owner(old)) for new, old in job.over]
    # a value in the memory of another one stays there
    made, read = ([node for node in nodes if owner(node) is node] for nodes in job.exchanged)
    return job._replace(operands=operands, over=over, written=list(map(owner, job.written)), exchanged=(made, read))


def _find_sum(work: LibraryKernel) -> list[tuple[Node, Node]]:
    """Return the sum of a product and the term it is added to, if it can be written there."""
    old = work.operands.get("old")
    others = [view.source for name, view in work.operands.items() if name != "old"]
    return [] if old is None or old.source in others else [(work.node, old.source)]


def _replaceable(group: Group, made: list[Node]) -> tuple[list[tuple[Node, Node]], tuple[list[Node], list[Node]]]:
    """Return pairs of values of a group that can be written where others are read, and all that could be paired.

    An element is read before the one that is computed from it is written, so memory can be shared where each element
    is read at the very place where one is written, and nowhere else.
    """
    if group.reduced is not None or not made:
        return [], ([], [])
    plain: dict[Node, None] = {}
    other: set[Node] = {target.value.source for target in group.targets if isinstance(target.value, Read)}
    for member in group.members:
        is_gather = member.lowering.fused_as is Fused.TAKE
        for operand in member.operands:
            if isinstance(operand, Read):
                source, offset, strides, bounds = operand
                moved = offset or bounds or is_gather or squeeze(source.shape) != group.space
                if strides == group.strides and not moved:
                    plain[source] = None
                else:
                    other.add(source)
    # a number that is written to memory is not read there
    sources = [source for source in plain if source not in other and source not in made]
    exchanged = made, list(sources)
    pairs = []
    for node in made:
        for source in sources:
            if source.dtype.itemsize == node.dtype.itemsize:
                pairs.append((node, source))
                sources.remove(source)
                break
    return pairs, exchanged


def regions_of(jobs: Sequence[Job | NumpyCall | Alias], begun: Mapping[Node, Node] = _NONE) -> list[int]:
    """Return the number of the region of each job; ``begun`` maps nodes to inputs whose memory they may have."""
    regions: list[int] = []
    written: set[Node] = set()
    read: set[Node] = set()
    chunks = 0
    for job in jobs:
        own = job.chunks if isinstance(job, Job) else 0
        joins = own and chunks and chunks + own <= REGION_CHUNKS
        touched: list[Node] = []
        changed: list[Node] = []
        if isinstance(job, Job):
            touched, changed = [source for source, _ in job.operands.values() if isinstance(source, Node)], job.written
            if begun:
                touched, changed = [begun.get(node, node) for node in touched], [begun.get(n, n) for n in changed]
        # a job may overwrite memory that others read
        joins = joins and written.isdisjoint(touched) and read.isdisjoint(changed)
        if joins:
            regions.append(regions[-1])
            chunks += own
        else:
            regions.append(regions[-1] + 1 if regions else 0)
            written, read, chunks = set(), set(), own
        written.update(changed)
        read.update(touched)
    return regions


class Layout:
    """The places of the values of a plan.

    Parameters
    ----------
    jobs
        Everything that is done, in order.
    inputs
        The nodes whose arrays are given, in order.
    kept
        Nodes whose arrays are wanted in the end.
    arrays
        All nodes that are arrays of their own.
    begun
        Those of them that no job makes, and the inputs as whose arrays they begin.
    """

    def __init__(
        self,
        jobs: Sequence[Job | NumpyCall | Alias],
        inputs: Sequence[Node],
        kept: Iterable[Node],
        arrays: set[Node],
        begun: Mapping[Node, Node] = _NONE,
    ) -> None:
        self.slots: dict[Node, int] = {node: number for number, node in enumerate(inputs)}
        #: slots of the numbers that kernels read, and of the arena
        self.number_slot = len(self.slots)
        self.arena_slot = len(self.slots) + 1
        #: slot of the word that is set when everything is done
        self.flag_slot = len(self.slots) + 2
        self.width = len(self.slots) + 3
        for node in begun:
            self.slots[node] = self.width
            self.width += 1
        #: slots that can be emptied after a job, by its number
        self.done: dict[int, list[int]] = {}
        self.arena_bytes = 0
        self._numbers: dict[bytes, int] = {}
        self._starts: dict[Node, int] = {}
        self._scratch: dict[int, int] = {}
        #: the region of each job
        self.regions = regions_of(jobs, begun)
        handed_back = set(kept)
        #: slots of arrays that are handed back (with their shapes), and numbers of inputs in whose place they can be
        self.exchanges: list[tuple[list[tuple[int, Shape]], list[int]]] = []
        given = set(inputs).difference(handed_back, begun.values())
        self._place(jobs, arrays, {*inputs, *handed_back}, handed_back, given)

    def _place(
        self,
        jobs: Sequence[Job | NumpyCall | Alias],
        arrays: set[Node],
        lasting: set[Node],
        handed_back: set[Node],
        given: set[Node],
    ) -> None:
        first: dict[Node, int] = {}
        last: dict[Node, int] = {}
        #: the region of the job that touches a value before the last one does
        earlier: dict[Node, int] = {}
        over: dict[Node, Node] = {}
        regions = self.regions
        scratch: dict[int, memory_pool.Lifetime] = {}
        slots, numbers = self.slots, self._numbers
        for index, job in enumerate(jobs):
            rest()
            if isinstance(job, Job):
                made = job.made
                if job.plan.scratch_bytes:
                    scratch[index] = memory_pool.Lifetime(job.plan.scratch_bytes, regions[index], regions[index])
                if job.over:
                    over.update(job.over)
                for source, _ in job.operands.values():
                    if isinstance(source, Node):
                        before = last.get(source, index)
                        if before != index:
                            earlier[source] = regions[before]
                        last[source] = index
                    elif source not in numbers:
                        numbers[source] = 8 * len(numbers)
            else:
                made = [job.node]
                for source in (job.source,) if isinstance(job, Alias) else job.sources:
                    last[source] = index
            for node in made:
                if node in arrays:
                    slots[node] = self.width
                    self.width += 1
                else:
                    first[node] = index
        for node, index in last.items():
            if node not in first and node not in lasting:
                self.done.setdefault(index, []).append(slots[node])
        self._exchange(jobs, handed_back, given, last, earlier)
        order = {node: number for number, node in enumerate(first)}
        lifetimes = []
        for node, begin in first.items():
            old, place = over.get(node), None
            # no other job of the region may read the memory that is overwritten
            if old is not None and old in first and last[old] == begin and earlier.get(old) != regions[begin]:
                place = order[old]
            end = regions[last.get(node, begin)]
            lifetimes.append(memory_pool.Lifetime(node.size * node.dtype.itemsize, regions[begin], end, place))
        offsets, self.arena_bytes = arrange([*lifetimes, *scratch.values()])
        self._starts = dict(zip(first, offsets))
        self._scratch = dict(zip(scratch, offsets[len(first) :]))

    def _exchange(
        self,
        jobs: Sequence[Job | NumpyCall | Alias],
        handed_back: set[Node],
        given: set[Node],
        last: Mapping[Node, int],
        earlier: Mapping[Node, int],
    ) -> None:
        """Find inputs whose last reader makes a result of their size."""
        for index, job in enumerate(jobs):
            if not isinstance(job, Job) or not job.exchanged[1]:
                continue
            made, read = job.exchanged
            region = self.regions[index]
            free = [n for n in read if n in given and last.get(n) == index and earlier.get(n) != region]
            for dtype, size in dict.fromkeys([(node.dtype, node.size) for node in free]):
                if size * dtype.itemsize < SMALLEST_EXCHANGE:
                    continue
                olds = [self.slots[node] for node in free if (node.dtype, node.size) == (dtype, size)]
                news = [
                    (self.slots[node], node.shape)
                    for node in made
                    if node in handed_back and node in job.made and (node.dtype, node.size) == (dtype, size)
                ]
                if news:
                    self.exchanges.append((news, olds))

    def numbers(self) -> bytes:
        """Return the numbers that kernels read."""
        return joined(list(self._numbers))  # type: ignore[no-any-return]

    def places(self, index: int, job: Job, bases: dict[int, int]) -> dict[str, tuple[int, int]]:
        """Return for every operand of a job its array, and its distance in bytes from the beginning.

        Arrays are numbered in ``bases``, by slot.
        """
        slots, starts = self.slots, self._starts
        found: dict[str, tuple[int, int]] = {}
        for name, (source, start) in job.operands.items():
            if isinstance(source, bytes):
                slot, place = self.number_slot, self._numbers[source]
            else:
                place = start * source.dtype.itemsize
                if source in starts:
                    slot = self.arena_slot
                    place += starts[source]
                else:
                    slot = slots[source]
            found[name] = bases.setdefault(slot, len(bases)), place
        if index in self._scratch:
            found["scratch"] = bases.setdefault(self.arena_slot, len(bases)), self._scratch[index]
        return found
