"""The plan cache: maps the values computed so far and the requested nodes to a plan.

A trace (:mod:`phonograd.core.trace.trace`) walks a tree: each evaluation leads from one :class:`CacheNode` to the next,
and the :class:`CachedPlan` between them holds the program. :func:`choose_program` decides which kind of program a graph
gets. When there are too many plans or nodes, the least recently used ones are dropped (:class:`Plans`).
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from ..base import collector, fork, processor, settings
from ..base.hot import hot, slotted
from ..base.signals import Signal
from ..graph.learned import constants_of_kinds, forget_kinds
from ..graph.node import FORGOTTEN, Node, statistics
from ..graph.operator import REGISTRY
from ..ops.math.structural import DETACH, LEAF, VARIABLE
from ..run import memory_pool
from ..run.background import Queue, run_apart
from ..run.programs import Program
from ..run.reference import ReferenceProgram, order, resolve

__all__ = [
    "EVALUATED",
    "PLANNED",
    "PLANS",
    "PREPARING",
    "REPEATED",
    "SINGLE_RUNS",
    "STARTED",
    "STORED",
    "CacheNode",
    "CachedPlan",
    "choose_program",
    "eager_is_available",
    "exceeds_limit",
    "forget_nodes",
    "is_numbered_leaf",
    "new_cached_plan",
    "note_plans",
    "planning_ns",
    "repeating",
    "starting_points",
    "waits",
]


#: emitted with every new plan, the cache node it starts at, and whether it keeps all values
PLANNED: Signal[[CachedPlan, CacheNode, bool]] = Signal()
#: emitted with the tier, the nodes that are computed, and the reason, before an evaluation runs
EVALUATED: Signal[[str, Sequence[Node], str]] = Signal()
#: emitted once, when a plan with kernels is used again or many were made: work that pays only in a program that repeats
REPEATED: Signal[[]] = Signal()
#: emitted once before that, by a helper while the program goes on
PREPARING: Signal[[]] = Signal()
#: emitted once, before the first graph is computed operator by operator
STARTED: Signal[[]] = Signal()
#: plans that count as many
_SOME_PLANS = 16
#: the same for plans of large graphs (an estimate): loading takes as long as some thousand nodes take in Python
_LARGE_PLANS, _SOME_NODES = 4, 2000
#: elements up to which a new graph is not planned at once if the planner and the compiler would have to be imported
#: for that: moving this many through memory takes half as long
MOST_UNPLANNED = 1 << 26
#: describing a graph and loading its plan takes this share of planning it
SEEKING_SHARE = 8
#: nodes of a graph from which on its plan is looked for before planning is worth its time: smaller ones are due soon
LEAST_SOUGHT = 32
#: graphs of a known program whose plans are looked for on disk at once, until one is found
MOST_SOUGHT = 4
#: uses of a plan for a trace of a single call, after which such calls run it without a trace
SINGLE_RUNS = 8
#: the share of the limit of nodes that is used while no dropped plan comes back
_NEW_SHARE = 8
#: dropped plans that are recognized when they come back, by their signatures
_MOST_DROPPED = 8192


class CacheNode:
    """A position in the tree of all sequences of evaluations: the values that a trace has computed so far.

    The same sequence leads to the same node and the same values, so a look-up finds a plan without comparing values.
    """

    __slots__ = ("following",)

    def __init__(self) -> None:
        self.following: dict[Any, CachedPlan] = {}


@slotted
class CachedPlan:
    """One cached evaluation: its program, the places of its targets' values, and the cache node it leads to.

    Parameters
    ----------
    position
        The cache node at which the evaluation starts.
    nodes
        The targets.
    known
        The nodes whose values are known at that position.
    keep_all
        Whether intermediate values are kept, because a recorded node may need them again.
    is_new
        Whether the graph was never evaluated before, so that it may be computed without a plan.
    is_announced
        Whether the plan is made for an evaluation that may be observed.
    """

    __slots__ = (
        "donatable",
        "due_ns",
        "following",
        "inputs",
        "is_provisional",
        "is_sought",
        "kept",
        "made",
        "noted",
        "places",
        "program",
        "promotion",
        "results",
        "signature",
        "single",
        "single_runs",
        "size",
        "sources",
        "spent_ns",
        "used",
        "waits",
    )

    def __init__(
        self,
        position: CacheNode,
        nodes: Sequence[Node],
        known: Container[Node],
        keep_all: bool,
        is_new: bool = False,
        is_announced: bool = True,
    ) -> None:
        statistics.plans += 1
        self.sources = [resolve(node) for node in nodes]
        self.places = [(_leaf_index(node), node) for node in self.sources]
        wanted = [node for node in self.sources if node.operator is not LEAF and node not in known]
        recorded = [resolve(node) for node in nodes if waits([node])] if keep_all and is_new else []
        self.program: Program | None = choose_program(wanted, known, keep_all, is_new, recorded) if wanted else None
        #: whether the next evaluation of the same nodes makes another plan
        self.is_provisional = self.program is not None and self.program.is_provisional
        self.following = position
        self.inputs: list[tuple[int | None, Node]] = []
        self.kept: list[Node] = []
        #: numbers of the inputs whose arrays the program can write over
        self.donatable: tuple[int, ...] = ()
        if self.program is not None:
            self.following = CacheNode()
            self.kept = [node for node, _ in self.program.kept]
            self.inputs = [(_leaf_index(node), node) for node in self.program.inputs]
            asked = set(self.sources)
            donatable = self.program.donatable
            self.donatable = tuple([number for number in donatable if self.inputs[number][1] not in asked])
        #: for each target its leaf, or its number among the values the program returns; None if one is neither
        self.results: list[tuple[int | None, int]] | None = None
        numbers = {node: number for number, node in enumerate(self.kept)}
        if all([index is not None or node in numbers for index, node in self.places]):
            self.results = [(index, numbers.get(node, -1)) for index, node in self.places]
        #: the ticks at which it was used last, and made
        self.used = self.made = 0
        #: a number that equal graphs have in common, and how many nodes it computes
        self.signature = self.size = 0
        #: while it is provisional, the time its runs took, the time from which on it is worth a plan, or worth to look
        #: for one on disk, and the state of its promotion (see .promotion)
        self.spent_ns = 0
        self.due_ns = 0 if self.program is None else seeking_ns(self.program.size)
        #: whether its plan was not found on disk, so that it is due when it is worth a plan
        self.is_sought = False
        self.promotion: object = None
        #: the inputs when it was due last, to be compared with those of the next time
        self.noted: Any = None
        #: how often it was used for a trace of a single call, -1 after that has been learned, and what was learned
        self.single_runs = 0
        self.single: Any = None
        #: whether a target is recorded and can still be differentiated
        self.waits = waits(nodes)
        if is_announced:
            PLANNED.emit(self, position, keep_all)

    @property
    def nbytes(self) -> int:
        """The bytes of its program's tables and constants."""
        return 0 if self.program is None else self.program.nbytes


def new_cached_plan(
    position: CacheNode,
    nodes: Sequence[Node],
    known: Container[Node],
    keep_all: bool,
    again: bool,
    observed: bool,
    is_announced: bool = True,
) -> CachedPlan:
    """Make the plan of an evaluation.

    ``again`` says that there is a provisional one. An ``observed`` evaluation is always planned, because observers see
    plans.
    """
    plan = CachedPlan(
        position, nodes, known, keep_all, not (again or observed or PLANNED.listeners), is_announced=is_announced
    )
    if plan.is_provisional:
        assert plan.program is not None
        plan.size = plan.program.size
    else:
        # a graph that is planned at its second evaluation has been used again
        plan.made = -1 if again else PLANS.tick
        if plan.program is not None:
            computed = order(plan.sources, known.__contains__)[1]
            plan.size = len(computed)
            plan.signature = hash(tuple([(node.operator, node.shape, node.kind, node.attributes) for node in computed]))
            PLANS.note(plan)
    return plan


def choose_program(
    wanted: list[Node], known: Container[Node], keep_all: bool, is_new: bool = False, recorded: Sequence[Node] = ()
) -> Program:
    """Return the program that computes nodes: the one place where the execution tier of a graph is chosen.

    :mod:`phonograd.core.run.programs` lists the kinds of programs. The settings name the executor; without a compiler
    (llvmlite) NumPy computes everything. A graph that is new gets the program that runs soonest; when it comes back,
    :mod:`~phonograd.core.plan.promotion` has it planned. ``recorded`` targets of a new one can be differentiated later.
    """
    if settings.active.executor != "reference":
        found: Program | None = None
        if is_new and settings.current().tiers != "plan":
            found = _soonest_program(wanted, known, keep_all, recorded)
        if found is None:
            found = run_apart(lambda: _native_program(wanted, known, keep_all))
        if found is not None:
            return found
    return ReferenceProgram(wanted, known.__contains__, keep_all)


def _native_program(wanted: list[Node], known: Container[Node], keep_all: bool) -> Program | None:
    """Return the program that computes nodes with kernels; None if they cannot be compiled."""
    from ..run import kernel_cache
    from .disk import program_for

    if settings.active.executor != "native" and not kernel_cache.available():
        return None
    note_plans()
    return program_for(wanted, known.__contains__, keep_all)


def note_plans() -> None:
    """Emit :data:`REPEATED` if some plans were made, or fewer of large graphs."""
    if not REPEATED.listeners or statistics.plans <= _LARGE_PLANS:
        return
    if statistics.plans > _SOME_PLANS or statistics.nodes > _SOME_NODES:
        # such a program is mostly Python, and a helper would take its time from it
        repeating(at_once=True)


def _soonest_program(
    wanted: list[Node], known: Container[Node], keep_all: bool, recorded: Sequence[Node]
) -> Program | None:
    """Return a program that computes operator by operator, or one from disk; None if planning is quicker."""
    found = _eager_classes()
    if found is None:
        return None
    note_plans()
    ordered = order(wanted, known.__contains__)
    computed = ordered[1]
    if exceeds_limit(computed):
        return None
    numbers = sum([math.prod(node.shape) for node in computed])
    if numbers > processor.choices().numbers_per_node * len(computed):
        if numbers > MOST_UNPLANNED or _planner_is_imported():
            return None
        is_sought = True
    else:
        is_sought = len(computed) >= LEAST_SOUGHT and STORED.is_expected
    if is_sought:
        recalled = run_apart(lambda: _recalled_program(wanted, known, keep_all))
        STORED.note(recalled is not None)
        if recalled is not None:
            return recalled
    return found[0](wanted, known.__contains__, recorded, ordered)


class _Stored:
    """Tell whether graphs that are new to this process probably have plans on disk."""

    def __init__(self) -> None:
        self._left = 0

    @property
    def is_expected(self) -> bool:
        """Return whether to look for the plan of a new graph on disk before anything else."""
        return self._left > 0

    def expect(self) -> None:
        """Look for the plans of the next graphs: an earlier process has repeated the record that they belong to."""
        self._left = MOST_SOUGHT

    def note(self, is_found: bool) -> None:
        """Note that a plan was looked for, and whether it was found."""
        if self._left:
            self._left = MOST_SOUGHT if is_found else self._left - 1


STORED = _Stored()


def _planner_is_imported() -> bool:
    return f"{__package__}.native_program" in sys.modules


def _recalled_program(wanted: list[Node], known: Container[Node], keep_all: bool) -> Program | None:
    """Return the program that computes nodes with kernels if it is on disk."""
    from .disk import recalled_program

    return recalled_program(wanted, known.__contains__, keep_all)


def exceeds_limit(nodes: Iterable[Node]) -> bool:
    """Return whether the values of nodes, all kept, take more memory than the settings allow; programs keep fewer."""
    budget = memory_pool.budget_bytes(0)
    return budget is not None and sum([node.size * node.dtype.itemsize for node in nodes]) > budget


#: the functions that make eager programs and that tell whether there is a compiler, once they are imported
_eager: dict[str, tuple[Callable[..., Program], Callable[[], bool]]] = {}


def _eager_classes() -> tuple[Callable[..., Program], Callable[[], bool]] | None:
    # a signal handler that interrupts an import in this thread finds half of a module
    found = _eager.get("made") or run_apart(_find_eager)
    return found if found is not None and found[1]() else None


def eager_is_available() -> bool:
    """Return whether graphs can be computed operator by operator."""
    return _eager_classes() is not None


def _find_eager() -> tuple[Callable[..., Program], Callable[[], bool]] | None:
    """Import eager programs and start the thread pool, which a later step would wait for; None if they cannot run."""
    with collector.paused(stay=True):
        from ..run import kernel_cache, thread_pool, ufuncs
        from .eager_batches import eager_program

        if not kernel_cache.available() or not ufuncs.are_supported():
            return None
        _eager["made"] = eager_program, kernel_cache.available
        STARTED.emit_once()
        thread_pool.renew()
    return _eager["made"]


def repeating(at_once: bool = False) -> None:
    """Emit :data:`REPEATED`, unless NumPy computes everything.

    Unless it is emitted ``at_once``, a helper emits :data:`PREPARING` first, and the caller does not wait for it.
    """
    if settings.active.executor == "reference":
        return
    if not at_once and settings.current().tiers == "background" and not _preparation.is_done():
        return
    run_apart(_repeating)


def _repeating() -> None:
    from ..run import kernel_cache

    if kernel_cache.available():
        REPEATED.emit_once()


class _Preparation:
    """Work of a helper before calls become machine code, so that no caller waits for it."""

    def __init__(self) -> None:
        self._queue = Queue()
        self._is_begun = self._is_done = False

    def is_done(self) -> bool:
        """Return whether the work is done, or no helper does it; begin it if it has not begun."""
        if not self._is_begun:
            self._is_begun = True
            self._queue.submit(self._work)
        return self._is_done or not self._queue.is_running

    def _work(self) -> None:
        from ..run import kernel_cache

        try:
            if kernel_cache.available():
                PREPARING.emit_once()
        finally:
            self._is_done = True


_preparation = _Preparation()


def _after_fork_in_child() -> None:
    """Begin anew: the helper of the parent does not exist in this process."""
    global _preparation
    _preparation = _Preparation()


fork.register("machine code of calls", after_in_child=_after_fork_in_child)


def planning_ns(size: int) -> int:
    """Return an estimate of the time that planning a number of nodes takes."""
    choices = processor.choices()
    return choices.kernel_ns + choices.node_ns * size


def seeking_ns(size: int) -> int:
    """Return the time after which a repeated graph is worth to look for its plan on disk."""
    return planning_ns(size) // SEEKING_SHARE if size >= LEAST_SOUGHT else planning_ns(size)


def waits(nodes: Iterable[Node]) -> bool:
    """Return whether one of these nodes is recorded, so that it can still be differentiated."""
    return any([node.marked and node.operator is not VARIABLE for node in nodes])


@hot
def is_numbered_leaf(node: Node) -> bool:
    """Return whether a node is a leaf whose value the trace has by number; it keeps the values of lent leaves."""
    return node.operator is LEAF and node.attributes[0] >= 0


def _leaf_index(node: Node) -> int | None:
    """Return the number of a leaf, or None for nodes whose values the trace keeps."""
    return node.attributes[0] if is_numbered_leaf(node) else None


def starting_points(sources: Iterable[Node], known: Container[Node]) -> list[Node]:
    """Return the known nodes from which some nodes are computed."""
    found: set[Node] = set()
    stack = list(sources)
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            if node not in known:
                stack.extend([resolve(source) for source in node.inputs])
    return [node for node in found if node in known]


class Plans:
    """All plans and the nodes they refer to; drops the least recently used ones beyond the limits of the settings."""

    def __init__(self) -> None:
        self.root = CacheNode()
        self.tick = 0
        self._count = 0
        self._bytes = 0
        self._nodes_before = 0
        self._nodes_kept = 0
        #: signatures of dropped plans, the oldest first
        self._dropped: dict[int, None] = {}
        #: nodes of dropped plans that came back of late
        self._returned = 0

    @property
    def count(self) -> int:
        """The number of plans."""
        return self._count

    @property
    def nbytes(self) -> int:
        """The bytes of the tables and constants of all plans."""
        return self._bytes

    def count_plan(self, plan: CachedPlan, replaced: CachedPlan | None = None) -> None:
        """Count one more plan, or one that took the place of another."""
        self._count += replaced is None
        self._bytes += plan.nbytes - (0 if replaced is None else replaced.nbytes)

    def note(self, plan: CachedPlan) -> None:
        """Note a new plan; if it was dropped before, more plans are kept from now on."""
        if self._dropped and plan.signature in self._dropped:
            self._dropped.pop(plan.signature, None)
            self._returned += plan.size

    def _most_nodes(self) -> int:
        """Return how many nodes to keep: few while all are new, up to the limit if dropped ones come back."""
        limit = settings.active.node_limit
        return min(limit, limit // _NEW_SHARE + 2 * self._returned)

    def trim(self) -> None:
        """Drop the least recently used plans and nodes if there are too many. Called between traces.

        At most half of each limit is left, so that this is rare. The plans used last stay, however large they are: the
        next turn of a loop needs them. The limit of nodes is then twice their size.
        """
        self.tick += 1
        limits = settings.active
        made = statistics.nodes - self._nodes_before
        fits = self._count <= limits.plan_limit and self._bytes <= limits.plan_bytes
        if fits and (made <= limits.node_limit // _NEW_SHARE or made <= 2 * self._nodes_kept):
            return
        most = self._most_nodes()
        if fits and made <= most:
            return
        plans = self.all()
        # of plans used at the same tick the first of a sequence comes first: the others are found through it
        plans.sort(key=lambda entry: -entry[2].used)
        keep: set[Node] = set()
        count = nbytes = 0
        for _, _, plan in plans[: limits.plan_limit // 2]:
            below = _nodes_below(plan.sources, keep)
            is_much = len(keep) + len(below) > most // 2 or nbytes + plan.nbytes > limits.plan_bytes // 2
            if is_much and plan.used < self.tick - 1:
                break
            keep |= below
            nbytes += plan.nbytes
            count += 1
        for position, key, plan in plans[count:]:
            position.following.pop(key, None)
            self._dropped[plan.signature] = None
        for signature in list(self._dropped)[:-_MOST_DROPPED]:
            self._dropped.pop(signature, None)
        self._returned //= 2
        constants = _nodes_below(constants_of_kinds(), keep)
        if len(keep) + len(constants) > most // 2:
            forget_kinds()
        else:
            keep |= constants
        _forget_except(keep)
        self._count, self._bytes = count, nbytes
        self._nodes_kept = len(keep)
        self._nodes_before = statistics.nodes - len(keep)

    def all(self) -> list[tuple[CacheNode, Any, CachedPlan]]:
        """Return every plan with its cache node and key, the first of each sequence first."""
        found, queue, seen = [], deque([self.root]), {self.root}
        while queue:
            here = queue.popleft()
            # a copy is made in one step; a list of items is not, because its tuples may start the garbage collector
            for key, plan in here.following.copy().items():
                found.append((here, key, plan))
                if plan.following not in seen:
                    seen.add(plan.following)
                    queue.append(plan.following)
        return found


def _nodes_below(sources: list[Node], known: set[Node]) -> set[Node]:
    """Return some nodes and all nodes below them, without known ones and the nodes below those."""
    found: set[Node] = set()
    stack = list(sources)
    while stack:
        node = stack.pop()
        if node not in known and node not in found:
            found.add(node)
            stack.extend(node.inputs)
    return found


def forget_nodes() -> None:
    """Drop every interned node and all plans: for a process that needs none of them any more."""
    PLANS.__init__()  # type: ignore[misc]
    forget_kinds()
    _forget_except(set())


def _forget_except(keep: set[Node]) -> None:
    """Drop every interned node, cached call and gradient that refers to a node not in ``keep``."""
    for detached in list(DETACH.table.values()):
        if detached not in keep and isinstance(detached, Node):
            # a cycle of references, which the garbage collector does not see
            detached.inputs[0].detached = None
    for declared in set(REGISTRY.values()):
        declared.table = {
            key: entry
            for key, entry in declared.table.copy().items()
            if entry in keep or (entry.__class__ is tuple and keep.issuperset(entry))
        }
        for known in (declared.calls, declared.several, declared.consequences):
            # the dictionary object is part of generated code, so it is emptied in place
            known.clear()
    FORGOTTEN.emit()


PLANS = Plans()
