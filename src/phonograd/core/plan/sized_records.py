"""Sized records: the values and gradients of a record run as one plan, whatever its extents are.

Takes outlines of records (:mod:`~phonograd.core.plan.record_graph`) from :mod:`phonograd.core.backward.eager`. A
program whose batches always have another size makes a new record in each step, but all of them have one structure. When
such records have taken as long as planning takes, a helper has a plan made for any extents
(:mod:`~phonograd.core.plan.sized_plan`), by the planner process if there is one, and it is kept on disk. Extents that
lead the planner another way are another *way* of the structure. Each later record gets its plan by a function call; no
gradient node is made. See docs/decisions/0055.
"""

from __future__ import annotations

import contextlib
import importlib.util
import marshal
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base import collector, processor, settings
from ..base.dtypes import DType
from ..base.errors import MXNetError
from ..base.hot import hot, slotted
from ..base.pace import is_paced, paced
from ..graph.node import Node, Shape
from ..graph.operator import Array
from ..kernels.launch import Written
from ..run import kernel_cache, memory_pool
from ..run.background import run_apart
from ..run.disk_cache import DiskCache
from ..run.driver import SizedRow
from ..run.host import host
from ..run.program import AliasStep, Recipe, RowStep, as_contiguous
from . import promotion
from .any_extents import FAILURES, is_much
from .cache import planning_ns
from .disk import compile_elsewhere
from .plan_tree import PlanTree
from .record_graph import RecordDraft, RecordGraph, RecordOutline, outline_of_record
from .sized_plan import Frame, Refused, SizedPlan
from .sizes import Pinned

__all__ = ["RECORDS", "RecordProgram", "SizedRecords", "plan_for_any_extents", "store_ways"]

#: structures that are known, ways of each, and attempts to make them
MOST_STRUCTURES, MOST_WAYS, MOST_ATTEMPTS = 256, 64, 96
#: lists of integers that are kept for each structure, integers of all of them, and lists of one request
MOST_LISTS, MOST_INTEGERS, MOST_OF_REQUEST = 256, 1 << 14, 16
#: ways of a structure that hold for one list of integers each
MOST_ALONE = 16
#: attempts in a row without a way, after which a structure has none
MOST_FAILURES = 3
#: settings for which structures are known
MOST_SETTINGS = 8
#: programs that are kept for each structure
MOST_PROGRAMS = 128
#: nodes of a record: with more, learning takes seconds
MOST_NODES = 400
#: structures in a row that are not on disk, after which others are looked up by a helper: the program is new
MOST_UNKNOWN = 2
#: structures of which the planner process learns ways after the end of the program
MOST_LEFT_BEHIND = 4
#: records that are left out at most after others whose structures were all new
MOST_LEFT_OUT = 64
#: nodes of a plan for each node of a record, an estimate
NODES_FOR_EACH = 3
#: the use of a way at which its kernels are compiled in full
_RUNS_OF_REPEATED = 2


# -- programs


_BYTE = np.dtype(np.uint8)
#: plans of records set no flag, because they write over no inputs
_FLAG = np.zeros(1, np.int64)


class _NoNodes:
    """Stands for the nodes that a recipe refers to: those of a record are not made."""

    def __getitem__(self, number: int) -> Any:
        return None


_NODES: Any = _NoNodes()


@slotted
class RecordProgram:
    """The plan of a record: its recipe, which runs once or a few times, so that little is prepared for it."""

    __slots__ = ("_numbers", "_recipe", "_way")

    def __init__(self, recipe: Recipe, way: _Way) -> None:
        self._recipe, self._way = recipe, way
        self._numbers = np.frombuffer(recipe.numbers, np.uint8)

    @hot
    def compute(self, outside: Sequence[Any]) -> list[Array]:
        """Return the values that are wanted, and the gradients of the variables, given the values from outside."""
        recipe, way, numbers = self._recipe, self._way, self._numbers
        given: Any = [as_contiguous(outside[number]) for number in way.inputs]
        values: Any = [*given]
        values.append(numbers)
        # the slot of an unused arena still needs an object with a data address
        values.append(_empty((recipe.arena_bytes,), _BYTE) if recipe.arena_bytes else numbers)
        values.append(_FLAG)
        values += _NOTHING * (recipe.width - len(values))
        for number, slot, shape in recipe.begun:
            values[slot] = given[number].reshape(shape).copy()
        for step, row in zip(recipe.steps, way.rows):
            if step.__class__ is RowStep:
                for slot, shape, dtype in step.made:
                    values[slot] = _empty(shape, dtype)
                kernels: Any = way.kernels
                launches = [(kernels[kernel], words, extent, chunk) for kernel, words, extent, chunk in step.launches]
                row.run(launches, step.regions, tuple([values[slot] for slot in step.slots]))
            elif step.__class__ is AliasStep:
                values[step.target] = values[step.source].reshape(step.shape)
            for slot in step.done:
                values[slot] = None
        kept = [values[slot] for _, slot in recipe.kept]
        return [kept[place] if place >= 0 else given[-1 - place] for place in way.results]


#: a list of nothing, which is repeated
_NOTHING: list[Any] = [None]


@hot
def _empty(shape: Shape, dtype: DType) -> Array:
    size = math.prod(shape) * dtype.itemsize
    if size < memory_pool.SMALLEST_BLOCK:
        return np.empty(shape, dtype)
    return memory_pool.allocate(shape, dtype, memory_pool.room_for(size))


class _Way:
    """A plan for the extents that lead the planner one way, and its kernels.

    ``inputs`` and ``results`` are those of :class:`~phonograd.core.plan.record_graph.RecordDraft`.

    Parameters
    ----------
    kernels
        The kernels of the plan; or else they are loaded when the way is used.
    names
        The keys of their files, and the chunks of work of each.
    """

    def __init__(
        self,
        plan: SizedPlan,
        inputs: list[int],
        results: list[int],
        kernels: list[kernel_cache.Kernel] | None,
        names: Sequence[tuple[str, int]] = (),
    ) -> None:
        self.plan, self.inputs, self.results, self.kernels = plan, inputs, results, kernels
        self._names = names
        #: one for each step of the plan
        self.rows: list[SizedRow] = []
        self._used = 0

    def program(self, recipe: Recipe) -> RecordProgram | None:
        """Return a plan of a record; None if its kernels are not ready for so much work.

        Raises
        ------
        LookupError
            If a kernel is missing on disk.
        """
        kernels = self.kernels
        if kernels is None:
            kernels = self.kernels = kernel_cache.load_kernels(self._names)
            if kernels is None:
                raise LookupError("a kernel is missing")
        if is_much(recipe, kernels):
            return None
        self._used += 1
        if self._used == _RUNS_OF_REPEATED:
            # each plan may run once, but the kernels run again
            kernel_cache.tier_up(kernels)
        if len(self.rows) < len(recipe.steps):
            self.rows = [SizedRow() for _ in recipe.steps]
        return RecordProgram(recipe, self)


class _Ways(NamedTuple):
    """The ways of a structure, and what finds the one that holds for some extents."""

    tree: PlanTree
    ways: Sequence[_Way]


# -- learning


def plan_for_any_extents(
    graph: RecordGraph, now: Sequence[Any], before: Sequence[Any]
) -> tuple[SizedPlan, RecordDraft]:
    """Return a plan for any extents, given the integers of two records, and the planner's plan of the first.

    Raises
    ------
    Refused
        If there is none: the planner needs the value of an extent, say, or NumPy computes a value.
    """
    try:
        planned = graph.draft(now)
        if planned.recipe.uses_numpy:
            raise Refused("NumPy computes a value")
        plan = SizedPlan(now, before, graph.draft, planned.structures)
        tree = PlanTree([plan])
        found = tree.find(now, planned.nodes)
    except (Pinned, MXNetError, *FAILURES) as error:
        raise Refused("a rule or the planner cannot do without the value of an extent") from error
    if found != (0, planned.recipe):
        # constants that the planner makes are in the order of their first use in the process: now all of them exist
        planned = graph.draft(now)
        if tree.find(now, planned.nodes) != (0, planned.recipe):
            raise Refused("the plan is not that of the planner")
    return plan, planned


def _learn(graph: RecordGraph, now: Sequence[Any], before: Sequence[Any]) -> tuple[_Way, list[int]]:
    """Return a way of a structure, given the integers of two records, and the chunks of work of its kernels."""
    # a helper that plans has more to do than one that looks a plan up
    with collector.paused(stay=True), paced(is_paced()):
        plan, planned = plan_for_any_extents(graph, now, before)
        work = _work_of(planned)
        kernels = kernel_cache.kernels(work)
        return _Way(plan, planned.inputs, planned.results, list(kernels.values())), list(work.values())


def _work_of(planned: RecordDraft) -> dict[Written, int]:
    """Return the number of chunks of work for each kernel of a plan."""
    work = dict.fromkeys(planned.structures, 0)
    for step in planned.recipe.steps:
        if isinstance(step, RowStep):
            for kernel, _, extent, chunk in step.launches:
                work[planned.structures[kernel]] += extent // chunk
    return work


# -- on disk


def store_ways(key: str, record: Any, until: float = math.inf) -> bool:
    """Learn ways of a structure, given as a message, and add them to those on disk; return whether they are there.

    The message has lists of integers. There will be ways for all of them, as far as possible; at least for the first.
    A list for which there is no plan for any extents gets one of its own, if other lists have those for any.
    No way is begun after ``until``, a time of :func:`time.monotonic`.
    """
    message, lists = record
    disk = kernel_cache.disk_cache() if kernel_cache.available() else None
    if disk is None:
        return False
    graph = RecordGraph.of_message(message)
    left: list[Sequence[Any]] = []
    for number, now in enumerate(lists):
        if time.monotonic() > until:
            return False
        stored = _stored(disk, key)
        if stored is not None and _tree_of(*stored).find(now, _NODES) is not None:
            continue
        try:
            done = _keep(disk, key, *_learn(graph, now, _farthest(now, lists)))
        except Exception:
            if not number and stored is None:
                raise
            # there is none for it, with other extents
            left.append(now)
            continue
        if not done:
            return False
    for now in left:
        _, stored_ways = _stored(disk, key) or ((), [])
        alone = [way for way in stored_ways if _is_alone(way)]
        # not where the structure has no plans for any extents: each list would be learned
        if time.monotonic() > until or len(alone) in (len(stored_ways), MOST_ALONE):
            break
        # an extent is 1, or equals another integer of the graph: look-ups of the planner cannot tell them apart
        with contextlib.suppress(Exception):
            _keep(disk, key, *_learn(graph, now, now))
    return lists[0] not in left or _tree_of(*(_stored(disk, key) or ((), []))).find(lists[0], _NODES) is not None


def _keep(disk: DiskCache, key: str, way: _Way, work: list[int]) -> bool:
    """Add a way to those on disk; return whether it is there."""
    assert way.kernels is not None
    names = [kernel.key for kernel in way.kernels]
    if None in names:
        return False
    kernel_cache.finish_keeping()
    _, others = _stored(disk, key) or ((), [])
    ways = [(way.plan.stored(), way.inputs, way.results, list(zip(names, work, strict=True))), *others][:MOST_WAYS]
    # those for one list are tried last
    ways.sort(key=_is_alone)
    disk.save(key, marshal.dumps((_tree_of(None, ways).choosers, ways)))
    return True


def _is_alone(way: Any) -> bool:
    """Return whether a way, as it is on disk, holds for one list of integers."""
    return not Frame(*way[0][0]).differ


def _stored(disk: DiskCache, key: str) -> tuple[Any, list[Any]] | None:
    """Return the functions that choose a way, and the ways, as they are on disk."""
    data = disk.load(key)
    return None if data is None else marshal.loads(data)


def _tree_of(choosers: Any, ways: Sequence[Any]) -> PlanTree:
    return PlanTree([SizedPlan.restored(plan) for plan, *_ in ways], choosers)


def _restored(choosers: Any, stored: Sequence[Any], known: Sequence[_Way]) -> _Ways:
    """Return ways that were stored; known ones stay what they are."""
    kernel_cache.compile_elsewhere(compile_elsewhere)
    ways = []
    for plan, inputs, results, names in stored:
        way = next((each for each in known if each.plan.stored() == plan), None)
        ways.append(way or _Way(SizedPlan.restored(plan), inputs, results, None, names))
    return _Ways(PlanTree([way.plan for way in ways], choosers), ways)


# -- structures


class _Structure:
    """The plans of records of one structure, and the integers of some of these records.

    There is no lock, which a signal handler might find held: if several threads change something at once, one change is
    lost, and made again later.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.ways = _Ways(PlanTree(()), [])
        self.programs: OrderedDict[tuple[Any, ...], RecordProgram] = OrderedDict()
        #: some lists of integers, the latest first
        self.lists: list[list[Any]] = []
        #: the time that its records have taken operator by operator
        self.spent_ns = 0
        self.attempts = self.failures = self.used = 0
        self.is_sought = False
        #: the queue of the helper that learns a way
        self.queue: object = None
        #: the graph of a record, once ways may be learned
        self.graph: RecordGraph | None = None
        #: why there are no ways
        self.refusal: Exception | None = None

    def note(self, sizes: list[Any]) -> list[list[Any]]:
        """Add a list of integers; return those before it that differ from it."""
        others = [each for each in self.lists if each != sizes]
        self.lists = [sizes, *others][: max(2, min(MOST_LISTS, MOST_INTEGERS // max(len(sizes), 1)))]
        return others

    def note_failure(self, error: Exception) -> None:
        """Note that no way was learned: some extents have none, and a structure may have none at all."""
        self.failures += 1
        if not self.ways.ways and self.failures >= MOST_FAILURES:
            self.refusal = error


def _farthest(sizes: Sequence[Any], others: Sequence[list[Any]]) -> list[Any]:
    """Return the list of integers that differs from another one in most places."""
    return max(others, key=lambda other: sum([one != two for one, two in zip(other, sizes)]))


class SizedRecords:
    """The structures of records, the least recently used first."""

    def __init__(self) -> None:
        #: by settings, which take microseconds to hash, and by what the outlines of records have in common
        self._by_settings: dict[settings.Settings, OrderedDict[tuple[Any, ...], _Structure]] = {}
        self._settings: settings.Settings | None = None
        self._known: OrderedDict[tuple[Any, ...], _Structure] = OrderedDict()
        #: the record that was looked up last, and its structure
        self._latest: tuple[RecordOutline, _Structure] | None = None
        #: records in a row that gained nothing, and how many are left out before the next one is looked at
        self._misses = self._left = 0
        #: structures in a row that were not on disk
        self._unknown = 0

    def outline(self, visited: Sequence[Node], wanted: Sequence[Node]) -> RecordOutline | None:
        """Return the outline of a record; None if it is not worth looking at, or has none."""
        if self._left > 0:
            self._left -= 1
            return None
        if len(visited) > MOST_NODES:
            return None
        try:
            return outline_of_record(visited, wanted)
        except Refused:
            return None

    def find(self, outline: RecordOutline) -> RecordProgram | None:
        """Return the program of a record, if there is a plan for its structure that holds for its integers."""
        structure = self._structure(outline)
        if not structure.is_sought and self._unknown < MOST_UNKNOWN and settings.current().tiers == "background":
            disk, key = _place(RecordGraph.of(outline))
            if disk is not None and disk.may_have(key):
                run_apart(lambda: self._seek(structure, outline))
            structure.is_sought = True
            self._unknown = 0 if structure.ways.ways else self._unknown + 1
        tree, ways = structure.ways
        if not ways:
            self._latest = outline, structure
            return None
        sizes = tuple(outline.sizes)
        found = structure.programs.get(sizes)
        if found is None:
            plan = tree.find(sizes, _NODES)
            if plan is not None:
                number, recipe = plan
                try:
                    found = ways[number].program(recipe)
                except LookupError:
                    left = [way for way in ways if way is not ways[number]]
                    structure.ways = _Ways(PlanTree([way.plan for way in left]), left)
            if found is not None:
                if len(structure.programs) >= MOST_PROGRAMS:
                    structure.programs.popitem(last=False)
                structure.programs[sizes] = found
                kernel_cache.statistics.plans_sized += 1
        if found is not None:
            self._misses = 0
            structure.used += 1
        return found

    @hot
    def _structure(self, outline: RecordOutline) -> _Structure:
        now = settings.current()
        if now is not self._settings:
            if len(self._by_settings) >= MOST_SETTINGS:
                self._by_settings.clear()
            self._known, self._settings = self._by_settings.setdefault(now, OrderedDict()), now
        known, key = self._known, outline.key
        structure = known.pop(key, None)
        if structure is None:
            structure = _Structure(len(outline.nodes))
            if len(known) >= MOST_STRUCTURES:
                del known[next(iter(known))]
        known[key] = structure
        return structure

    def note(self, outline: RecordOutline, spent_ns: int, is_plain: Callable[[Sequence[Node]], bool]) -> None:
        """Note that a record was computed operator by operator; have a way learned if it is worth it.

        Parameters
        ----------
        is_plain
            Returns whether the gradient rules of all nodes ask for nothing but types and values.
        """
        latest, self._latest = self._latest, None
        structure = latest[1] if latest is not None and latest[0] is outline else self._structure(outline)
        others = structure.note(outline.sizes)
        if not others or structure.refusal is not None:
            # its structure is new, or its extents do not change, or there are no plans for it
            self._misses += 1
            self._left = min(MOST_LEFT_OUT, 1 << self._misses) - 2
            return
        self._misses = 0
        structure.spent_ns += spent_ns
        if promotion.is_current(structure.queue):
            return
        if structure.graph is None and not is_plain(outline.nodes):
            structure.refusal = Refused("a rule looks at expressions")
            return
        if structure.graph is None:
            structure.graph = RecordGraph.of(outline)
        if not structure.is_sought:
            self._submit(structure, lambda: self._seek(structure, outline))
        elif structure.spent_ns >= planning_ns(NODES_FOR_EACH * structure.size) and structure.attempts < MOST_ATTEMPTS:
            structure.attempts += 1
            self._submit(structure, lambda: self._add_way(structure, outline, others))

    def _submit(self, structure: _Structure, work: Callable[[], None]) -> None:
        def attempt() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - operator by operator, records raise the errors of operators
                structure.note_failure(error)
            structure.queue = None

        if settings.current().tiers == "background":
            # the helper may be done before this thread goes on
            structure.queue = promotion.queue()
            promotion.submit(attempt)
        else:
            attempt()

    def _seek(self, structure: _Structure, outline: RecordOutline) -> None:
        """Load the ways that are on disk."""
        structure.is_sought = True
        disk, key = _place(RecordGraph.of(outline))
        if disk is not None:
            stored = _stored(disk, key)
            if stored is not None:
                structure.ways = _restored(*stored, structure.ways.ways)

    def _add_way(self, structure: _Structure, outline: RecordOutline, others: Sequence[list[Any]]) -> None:
        """Learn a way that holds for a record, and ways for other lists of integers."""
        # the planner process needs the sockets and threads of its own module
        from . import planner_process

        graph, now = RecordGraph.of(outline), outline.sizes
        if structure.ways.tree.find(now, _NODES) is not None:
            # it was learned meanwhile
            structure.attempts -= 1
            return
        disk, key = _place(graph)
        if disk is not None and planner_process.learn_record(key, (graph.message(), [now, *others][:MOST_OF_REQUEST])):
            stored = _stored(disk, key)
            if stored is not None:
                structure.ways = _restored(*stored, structure.ways.ways)
            if structure.ways.tree.find(now, _NODES) is not None:
                return
        way, work = _learn(graph, now, _farthest(now, others))
        if disk is not None:
            _keep(disk, key, way, work)
        ways = [way, *structure.ways.ways][:MOST_WAYS]
        structure.ways = _Ways(PlanTree([each.plan for each in ways]), ways)

    def left_to_learn(self) -> list[tuple[str, Any]]:
        """Return the keys on disk and the messages of structures with records that no way holds for, at the end."""
        found: list[tuple[str, Any]] = []
        for structure in sorted(self._known.values(), key=lambda each: each.spent_ns, reverse=True):
            if structure.graph is None or structure.refusal is not None or not structure.is_sought:
                continue
            lists = [each for each in structure.lists if structure.ways.tree.find(each, _NODES) is None]
            if not lists or len(structure.lists) < 2 or len(found) == MOST_LEFT_BEHIND:
                continue
            # those that have a way tell what differs
            lists += [each for each in structure.lists if each not in lists]
            disk, key = _place(structure.graph)
            try:
                message = structure.graph.message()
            except TypeError:
                # it has objects, which no other process knows
                continue
            if disk is not None:
                found.append((key, (message, lists)))
        return found

    def clear(self) -> None:
        """Forget all structures."""
        self._by_settings.clear()
        self._known.clear()
        self._settings = self._latest = None
        self._misses = self._left = self._unknown = 0


def _place(graph: RecordGraph) -> tuple[DiskCache | None, str]:
    """Return the disk cache and the key of the ways of a structure there; None if there is no cache."""
    disk = kernel_cache.disk_cache() if kernel_cache.available() else None
    if disk is None:
        return None, ""
    now = settings.current()
    try:
        parts = graph.structure(), now.winograd, now.num_threads, now.attention_blocks, now.matrix_unit
    except TypeError:
        return None, ""
    facts = repr((parts, tuple(host()), processor.choices(), importlib.util.MAGIC_NUMBER))
    return disk, disk.key(facts, "s")


#: the records of this process
RECORDS = SizedRecords()
