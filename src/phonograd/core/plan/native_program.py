"""NativeProgram: the planner's program, which computes nodes with fused kernels.

Takes nodes and their lowerings; hands a :class:`~phonograd.core.run.program.Recipe` to
:mod:`~phonograd.core.run.program`, which runs it, and to :mod:`~phonograd.core.plan.disk`, which keeps it on disk.
Values that only kernels read are in an arena; inputs, results and everything that NumPy reads or makes are arrays. A
run goes through *segments*: rows of kernels (one native call each), and NumPy calls for operators without a lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..base import collector, settings
from ..base.dtypes import DType
from ..base.pace import rest
from ..derive.costs import flops_of
from ..graph.node import Node, Shape
from ..graph.operator import ABSENT
from ..kernels.epilogue import Finishing
from ..kernels.launch import Launch, Plan, Reference, Written
from ..run import kernel_cache, memory_pool
from ..run.packed_operands import Preparation, kind_of
from ..run.program import (
    AliasStep,
    NumpyStep,
    Recipe,
    RecipeLaunch,
    RecipeProgram,
    RowStep,
    Segment,
    last_touches,
    segment_of,
)
from ..run.programs import Memory, Part
from ..run.reference import order, resolve
from . import memory_limit
from .batches import Batching
from .expansion import lowering_of
from .grouping import Grouping, group_nodes
from .layout import Job, Layout, jobs_of
from .packing import pack_inputs
from .recompute import find_scores
from .rewrite import Rewriting
from .steps import Alias, NumpyCall

__all__ = ["NativeProgram", "recipe_of"]

#: operations per element above which a value that may be needed again is kept instead of computed again
CHEAP = 4.0
#: plans that are made to fit into the memory limit; each evicts more values than the one before
MOST_DRAFTS = 8
#: the least shares of its memory that the next plan is to take: the second one after the first has not made it smaller.
#: Greedy choices are worse the more they are to achieve at once
SHARES = (0.75, 0.9)


class NativeProgram(RecipeProgram):
    """The kernels and NumPy calls that compute some nodes from leaves and from available values.

    With ``keep_all``, the targets and every intermediate value that is worth its memory are kept. The others are
    computed again if they are needed, with the same bits. ``steady`` inputs are taken packed where kernels read them in
    another order: the packed forms are further inputs, and ``preparations`` tells how they are made.
    """

    __slots__ = (
        "_apart",
        "_final",
        "_keep_all",
        "_maker",
        "_steady",
        "_stretched",
        "has_epilogues",
        "is_limited",
        "kernels",
        "parts",
        "preparations",
        "recipe",
        "work",
    )

    def __init__(
        self,
        targets: Iterable[Node],
        available: Callable[[Node], bool],
        keep_all: bool = False,
        steady: frozenset[Node] = frozenset(),
    ) -> None:
        wanted = list(targets)
        self._keep_all, self._steady = keep_all, steady
        self.preparations: list[Preparation] = []
        with collector.paused(stay=True):
            try:
                self._plan(wanted, available, keep_all)
            except kernel_cache.CompilerLost as error:
                kernel_cache.disable_compiler(error)
                self._plan(wanted, available, keep_all)

    def _plan(self, targets: Iterable[Node], available: Callable[[Node], bool], keep_all: bool) -> None:
        wanted = [resolve(node) for node in targets]
        self.inputs, computed = order(wanted, available)
        kept = _kept(wanted, self.inputs, computed, keep_all)
        draft = _Draft.of(computed, self.inputs, kept, self._steady)
        #: by node of the graph the node that computes it in the plan, if they are not the same
        renamed: Mapping[Node, Node] = {}
        #: whether values are computed again to fit into the memory limit
        self.is_limited = False
        if settings.active.memory_limit_bytes and not self._steady and kernel_cache.available():
            limited, renamed = _within_limit(draft, self.inputs, kept, available)
            self.is_limited, draft = limited is not draft, limited
        jobs = draft.jobs
        self.inputs, self.preparations = draft.inputs, draft.preparations
        #: the number of chunks of work for each kernel, by its description
        self.work = _work_of(jobs)
        self.kernels = _kernels(self.work)
        #: whether kernels apply operators to what they store
        self.has_epilogues = any([isinstance(each, Finishing) and each.epilogue is not None for each in self.work])
        self._maker = draft.steps(self.work)
        self._apart: list[tuple[Part, Segment]] | None = None
        #: the last stretches, and the groups for which they were made
        self._stretched: tuple[Any, list[tuple[list[Segment], list[tuple[Node, int]]]]] = (None, [])
        #: what a run does, in order
        self.parts = [_part(job) for job in jobs]
        self.recipe = draft.recipe(self._maker, self.inputs, kept, renamed)
        self._prepare(self.recipe, list(self.kernels.values()))

    def planned(self) -> NativeProgram:
        """Return this program, which the planner made."""
        return self

    def _pack(self, numbers: list[int]) -> None:
        if not self._keep_all:
            pack_inputs(self, numbers)

    def _part_segments(self) -> list[tuple[Part, Segment]]:
        if self._apart is None:
            kernels = list(self.kernels.values())
            steps = self._maker.one_by_one()
            segments = [segment_of(step, kernels) for step in steps]
            by_slot: dict[int, list[Node]] = {}
            for node, slot in self.kept:
                by_slot.setdefault(slot, []).append(node)
            self._final = {
                number: [(node, slot) for slot in slots for node in by_slot[slot]]
                for number, slots in last_touches(steps, list(by_slot)).items()
            }
            self._apart = list(zip(self.parts, segments, strict=True))
        return self._apart

    def _stretches(self, groups: tuple[tuple[Node, ...], ...]) -> list[tuple[list[Segment], list[tuple[Node, int]]]]:
        found, stretches = self._stretched
        if found == groups:
            return stretches
        final = self._final_results()
        numbers = {node: number for number, results in final.items() for node, _ in results}
        ends = {max([numbers[node] for node in group if node in numbers], default=-1) for group in groups}
        stops = sorted({*ends, len(self.parts) - 1} - {-1})
        kernels = list(self.kernels.values())
        stretches, begin = [], 0
        for stop in stops:
            segments = [segment_of(step, kernels) for step in self._maker.between(begin, stop + 1)]
            stretches.append((segments, [each for number in range(begin, stop + 1) for each in final.get(number, ())]))
            begin = stop + 1
        self._stretched = groups, stretches
        return stretches

    def _final_results(self) -> dict[int, list[tuple[Node, int]]]:
        self._part_segments()
        return self._final


class _Draft(NamedTuple):
    """The jobs of a plan and the places of its values."""

    jobs: Sequence[Job | NumpyCall | Alias]
    layout: Layout
    source: Callable[[Node], Node]
    """Returns the node whose value is read as that of a node."""
    made: list[Node]
    """The kept nodes, as they are computed."""
    arrays: set[Node]
    """Nodes that are arrays of their own."""
    seen_as: Callable[[Node], Node]
    begun: Mapping[Node, Node]
    inputs: tuple[Node, ...]
    """The inputs, and the packed forms of steady ones."""
    preparations: list[Preparation]
    """How the packed forms are made."""

    @staticmethod
    def of(
        computed: Sequence[Node], inputs: Sequence[Node], kept: Sequence[Node], steady: frozenset[Node] = frozenset()
    ) -> _Draft:
        """Return a draft that computes some nodes and keeps the values of others."""
        jobs: list[Job | NumpyCall | Alias]
        begun: Mapping[Node, Node]
        given = set(inputs)
        if kernel_cache.available():
            rewriting = Rewriting(computed, given, kept)
            batching = Batching(rewriting.computed, kept, rewriting.source)
            source = batching.source
            made = [node for node in dict.fromkeys(map(source, kept)) if node not in given]
            grouping = _group(batching.computed, inputs, made, source, steady)
            preparations = _preparations(grouping, inputs)
            taken = (*inputs, *grouping.packed)
            seen_as, begun = grouping.assignments.seen_as, grouping.assignments.begun
            jobs = jobs_of(grouping, made)
            arrays = {*map(grouping.assignments.owner, grouping.arrays), *map(seen_as, grouping.arrays)}
        else:
            source, made, arrays = resolve, list(kept), set(computed)
            jobs = [NumpyCall(node, tuple(map(resolve, node.inputs))) for node in computed]
            seen_as, begun = resolve, {}
            preparations, taken = [], tuple(inputs)
        layout = Layout(jobs, taken, map(seen_as, made), arrays, begun)
        return _Draft(jobs, layout, source, made, arrays, seen_as, begun, taken, preparations)

    def steps(self, structures: Iterable[Written]) -> _Steps:
        """Return the maker of steps, given the kernels in order."""
        return _Steps(self.jobs, self.layout, {structure: number for number, structure in enumerate(structures)})

    def recipe(
        self, maker: _Steps, inputs: Sequence[Node], kept: Sequence[Node], renamed: Mapping[Node, Node]
    ) -> Recipe:
        """Return the recipe; ``renamed`` has by node of the graph the node that computes it, if that is another one."""
        layout, slots = self.layout, self.layout.slots
        return Recipe(
            maker.all(),
            layout.width,
            layout.numbers(),
            layout.arena_bytes,
            [(node, slots[self.seen_as(self.source(renamed.get(node, node)))]) for node in kept],
            [(slots[given], slots[node], node.shape) for node, given in self.begun.items()],
            layout.exchanges,
            self.memory(inputs),
        )

    def memory(self, inputs: Sequence[Node]) -> Memory:
        """Return the bytes that a run takes in addition to its inputs."""
        others = self.arrays.difference(map(self.seen_as, self.made), inputs)
        by_slot = {slot: node for node, slot in self.layout.slots.items()}
        sizes = [min(len(new), len(old)) * _bytes([by_slot[new[0][0]]]) for new, old in self.layout.exchanges]
        return Memory(self.layout.arena_bytes, _bytes(self.made), _bytes(others), sum(sizes) + _bytes(self.begun))


def recipe_of(
    wanted: Sequence[Node], inputs: tuple[Node, ...], computed: Sequence[Node], keep_all: bool
) -> tuple[Recipe, list[Written]]:
    """Return the recipe of a plan, and its kernels in order, of which none is compiled; there is no memory limit."""
    kept = _kept(wanted, inputs, computed, keep_all)
    draft = _Draft.of(computed, inputs, kept)
    plans = [job.plan for job in draft.jobs if isinstance(job, Job)]
    structures = list(dict.fromkeys([launch.structure for plan in plans for launch in plan.launches]))
    return draft.recipe(draft.steps(structures), inputs, kept, {}), structures


def _kept(wanted: Sequence[Node], inputs: Sequence[Node], computed: Sequence[Node], keep_all: bool) -> list[Node]:
    """Return the nodes whose values a run returns."""
    given = set(inputs)
    asked = dict.fromkeys([node for node in wanted if node not in given])
    kept = _kept_for_later(computed, inputs, asked) if keep_all else list(asked)
    return [node for node in kept if node.outputs is None and node.operator is not ABSENT.operator]


def _within_limit(
    draft: _Draft, inputs: Sequence[Node], kept: Sequence[Node], available: Callable[[Node], bool]
) -> tuple[_Draft, Mapping[Node, Node]]:
    """Return a draft that computes values again until it fits into the memory limit, and how it names kept nodes."""
    budget = memory_pool.budget_bytes(_bytes(inputs))
    renamed = {node: node for node in kept}
    unlimited = draft.memory(inputs).total
    if budget is None or unlimited <= budget:
        return draft, renamed
    shares = list(SHARES)
    for _ in range(MOST_DRAFTS):
        arena = memory_pool.room_for(draft.layout.arena_bytes)
        excess = draft.memory(inputs).total - budget
        if excess <= 0 or not shares:
            break
        shape = memory_limit.Draft(draft.jobs, draft.layout.regions, draft.source, draft.arrays)
        share = max(1 - excess / arena, shares[0])
        found = memory_limit.evict(shape, inputs, list(renamed.values()), share)
        if found is None:
            break
        names = {node: found[resolve(now)] for node, now in renamed.items()}
        targets = list(names.values())
        smaller = _Draft.of(order(map(resolve, targets), available)[1], inputs, targets)
        if smaller.layout.arena_bytes < draft.layout.arena_bytes:
            draft, renamed = smaller, names
        else:
            shares.pop(0)
    planned = draft.memory(inputs).total
    memory_limit.warn_if_above(planned, unlimited, budget, max(kept, key=lambda node: node.serial, default=None))
    return draft, renamed


def _group(
    computed: Sequence[Node],
    inputs: Sequence[Node],
    made: Sequence[Node],
    source: Callable[[Node], Node],
    steady: frozenset[Node],
) -> Grouping:
    """Return the grouping of nodes into kernels in which no assignment precedes a reader of the replaced value."""
    refused: set[Node] = set()
    while True:
        grouping = group_nodes(computed, inputs, made, source, refused, steady)
        late = grouping.assignments.late(grouping.steps()) if grouping.assignments.replaced else set()
        if not late:
            return grouping
        refused |= late


def _preparations(grouping: Grouping, inputs: Sequence[Node]) -> list[Preparation]:
    """Return how the packed forms of steady inputs are made."""
    launches = [launch for _, _, launch in grouping.packed.values()]
    kernels = _kernels({launch.structure: max(launch.extent // launch.chunk, launch.work) for launch in launches})
    found = []
    for node, (view, operand, launch) in grouping.packed.items():
        start = view.pattern.offset * view.source.dtype.itemsize
        table = launch.table({operand: (0, start), "out": (1, 0)})
        kind = kind_of((launch, start, node.dtype))
        source, kernel = inputs.index(view.source), kernels[launch.structure]
        found.append(Preparation(source, kind, kernel, table, launch.extent, launch.chunk, node.shape, node.dtype))
    return found


def _kept_for_later(computed: Sequence[Node], inputs: Iterable[Node], asked: Collection[Node]) -> list[Node]:
    """Return the nodes whose values are kept: the targets, and those that are worth their memory.

    Under a memory limit these take at most half of what is left, so that a backward pass has room. Values that take
    most operations for a byte come first.
    """
    scores = find_scores(computed, asked, resolve) if kernel_cache.available() else set()
    kept = [node for node in computed if node in asked or (node not in scores and _worth_keeping(node))]
    budget = memory_pool.budget_bytes(_bytes(inputs))
    if budget is None or _bytes(kept) <= budget // 2:
        return kept
    left = budget // 2
    chosen: set[Node] = set()
    others = [node for node in kept if node not in asked and node.outputs is None]
    for node in sorted(others, key=lambda node: -flops_of(node) / max(_bytes([node]), 1)):
        if _bytes([node]) <= left:
            chosen.add(node)
            left -= _bytes([node])
    return [node for node in kept if node in asked or node in chosen]


def _worth_keeping(node: Node) -> bool:
    """Return whether a value should be kept where it may be needed again."""
    if not kernel_cache.available():
        return True
    return lowering_of(node).is_worth_keeping(node.operator.cost, CHEAP)


def _bytes(nodes: Iterable[Node]) -> int:
    return sum([node.size * node.dtype.itemsize for node in nodes])


def _part(job: Job | NumpyCall | Alias) -> Part:
    if isinstance(job, NumpyCall):
        return Part((job.node,), (), (*job.sources, job.node), (job.node,))
    if isinstance(job, Alias):
        return Part((job.node,), (), (), ())
    touched = dict.fromkeys([source for source, _ in job.operands.values() if isinstance(source, Node)])
    kernels = tuple([launch.structure for launch in job.plan.launches])
    return Part(job.nodes, kernels, tuple(touched), tuple(job.written))


def _work_of(jobs: Iterable[Job | NumpyCall | Alias]) -> dict[Written, int]:
    """Return the number of chunks of work for each kernel, by description."""
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
    return work


def _kernels(work: dict[Written, int]) -> dict[Written, kernel_cache.Kernel]:
    """Return kernels by description."""
    return kernel_cache.kernels(work) if work else {}


# -- steps of recipes


class _Form(NamedTuple):
    """A launch to be filled in: its words with gaps, and for each gap its place, the operand and a distance."""

    kernel: int
    words: list[int]
    gaps: list[tuple[int, str, int]]
    extent: int
    chunk: int

    @staticmethod
    def of(launch: Launch, kernel: int) -> _Form:
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
        """Return the words of the launch, with the places of the operands filled in."""
        words = self.words.copy()
        for gap, name, distance in self.gaps:
            words[gap], start = places[name]
            words[gap + 1] = start + distance
        return words


class _Steps:
    """The steps of a recipe while they are made; kernels are numbered."""

    def __init__(self, jobs: Sequence[Job | NumpyCall | Alias], layout: Layout, kernels: Mapping[Written, int]) -> None:
        self._jobs = jobs
        self._layout = layout
        self._kernels = kernels
        self._forms: dict[int, list[_Form]] = {}

    def all(self) -> list[RowStep | NumpyStep | AliasStep]:
        """Return the steps of a run, with consecutive launches in one row."""
        return self.between(0, len(self._jobs))

    def between(self, begin: int, end: int) -> list[RowStep | NumpyStep | AliasStep]:
        """Return the steps of some jobs, with consecutive launches in one row."""
        steps: list[RowStep | NumpyStep | AliasStep] = []
        row: list[tuple[int, Job]] = []
        for index in range(begin, end):
            job = self._jobs[index]
            if isinstance(job, Job):
                row.append((index, job))
                continue
            if row:
                steps.append(self._row(row))
                row = []
            steps.append(self._numpy_or_alias(index, job))
        if row:
            steps.append(self._row(row))
        return steps

    def one_by_one(self) -> list[RowStep | NumpyStep | AliasStep]:
        """Return a step for each job, so that each can be observed."""
        return [
            self._row([(index, job)]) if isinstance(job, Job) else self._numpy_or_alias(index, job)
            for index, job in enumerate(self._jobs)
        ]

    def _numpy_or_alias(self, index: int, job: NumpyCall | Alias) -> NumpyStep | AliasStep:
        slots, done = self._layout.slots, self._layout.done.get(index, [])
        if isinstance(job, Alias):
            return AliasStep(job.node.shape, slots[job.source], slots[job.node], done)
        return NumpyStep(job.node, slots[job.node], [slots[source] for source in job.sources], done)

    def _row(self, jobs: list[tuple[int, Job]]) -> RowStep:
        """Return the launches of consecutive jobs."""
        layout = self._layout
        bases = {layout.number_slot: 0, layout.arena_slot: 1, layout.flag_slot: 2}
        launches: list[RecipeLaunch] = []
        regions: list[int] = []
        region = -1
        made: list[tuple[int, Shape, DType]] = []
        done: list[int] = []
        for number, job in jobs:
            rest()
            places = layout.places(number, job, bases)
            forms = self._forms_of(job.plan)
            if layout.regions[number] == region:
                regions[-1] += len(forms)
            else:
                regions += [1] * len(forms)
                region = layout.regions[number]
            for form in forms:
                launches.append(RecipeLaunch(form.kernel, form.table(places), form.extent, form.chunk))
            for node in job.made:
                slot = layout.slots.get(node)
                if slot is not None:
                    made.append((slot, node.shape, node.dtype))
            done += layout.done.get(number, ())
        return RowStep(list(bases), launches, regions, made, done)

    def _forms_of(self, plan: Plan) -> list[_Form]:
        forms = self._forms.get(id(plan))
        if forms is None:
            forms = [_Form.of(launch, self._kernels[launch.structure]) for launch in plan.launches]
            self._forms[id(plan)] = forms
        return forms
