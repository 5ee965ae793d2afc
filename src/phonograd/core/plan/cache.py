"""Plans: remembered evaluations, found by what was computed before and what is asked for; and how they stay bounded.

A trace (:mod:`phonograd.core.trace.trace`) walks a tree: each evaluation leads from one :class:`CacheNode` to the next.
Programs stand on the way. When there are too many plans or nodes, the least recently used ones are forgotten.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from ..base import settings
from ..graph.node import Node, forgetters, statistics
from ..graph.operator import REGISTRY
from ..ops.math.structural import LEAF, VARIABLE
from ..run.reference import Program, order, resolve

__all__ = [
    "NOVELTY",
    "OBSERVERS",
    "PLANS",
    "WHEN_REPEATING",
    "CacheNode",
    "CachedPlan",
    "build",
    "new_cached_plan",
    "repeating",
    "starting_points",
    "waits",
]


#: called with every plan that is made, the stage it begins at, and whether it keeps all values
OBSERVERS: list[Callable[[CachedPlan, CacheNode, bool], None]] = []
#: called once, when a plan with kernels is used again, or many were made: what else can be compiled then. A program
#: that does everything once would only wait for it
WHEN_REPEATING: list[Callable[[], None]] = []
_SOME_PLANS = 16
#: nodes from which on a plan takes long enough to ask whether it will be used again, and plans that tell nothing
_MANY_NODES, _FEW_PLANS = 64, 4


class CacheNode:
    """What a trace has computed so far, as a position in the tree of all sequences of evaluations seen.

    The same sequence leads to the same stage and leaves the same values, so a plan is found by one look-up without
    comparing sets of values.
    """

    __slots__ = ("following",)

    def __init__(self) -> None:
        self.following: dict[Any, CachedPlan] = {}


class CachedPlan:
    """One remembered evaluation: the program, where each target's value is found, and the stage it leads to.

    ``known`` holds the nodes whose values are there at the stage where it is made.
    """

    __slots__ = (
        "donatable",
        "following",
        "inputs",
        "is_provisional",
        "kept",
        "made",
        "places",
        "program",
        "results",
        "sources",
        "used",
        "waits",
    )

    def __init__(
        self,
        stage: CacheNode,
        nodes: Sequence[Node],
        known: Container[Node],
        keep_all: bool,
        make: Callable[[list[Node], Container[Node], bool], Any] | None = None,
    ) -> None:
        statistics.plans += 1
        self.sources = [resolve(node) for node in nodes]
        self.places = [(_leaf_index(node), node) for node in self.sources]
        wanted = [node for node in self.sources if node.operator is not LEAF and node not in known]
        #: whether it is to be planned should it be asked for again
        self.is_provisional = make is not None and bool(wanted)
        self.program = (make or build)(wanted, known, keep_all) if wanted else None
        self.following = stage
        self.inputs: list[tuple[int | None, Node]] = []
        self.kept: list[Node] = []
        if self.program is not None:
            self.following = CacheNode()
            self.kept = [node for node, _ in self.program.kept]
            self.inputs = [(_leaf_index(node), node) for node in self.program.inputs]
        #: for each target its leaf, or its number among what the program keeps; None if one is neither
        self.results: list[tuple[int | None, int]] | None = None
        numbers = {node: number for number, node in enumerate(self.kept)}
        if all([index is not None or node in numbers for index, node in self.places]):
            self.results = [(index, numbers.get(node, -1)) for index, node in self.places]
        #: numbers of the inputs whose arrays the program can write over
        donatable: tuple[int, ...] = getattr(self.program, "donatable", ())
        if donatable:
            asked = set(self.sources)
            donatable = tuple([number for number in donatable if self.inputs[number][1] not in asked])
        self.donatable = donatable
        #: when it was used last, and when it was made
        self.used = self.made = 0
        #: whether something of what is computed is waiting to be differentiated
        self.waits = waits(nodes)
        for observer in OBSERVERS:
            observer(self, stage, keep_all)


class Novelty:
    """Whether a program keeps asking for something new: what became of the latest plans.

    A plan that is never used again was not worth making. Where that happens all the time, new graphs are computed by
    pieces (:mod:`phonograd.core.plan.piecewise`), and planned when they are seen again.
    """

    def __init__(self) -> None:
        # never changed, only replaced: threads plan at the same time
        self._latest: tuple[tuple[CachedPlan, int], ...] = ()

    def prevails(self) -> bool:
        """Return whether hardly any of the latest plans has been used again."""
        latest = self._latest
        total = sum([size for _, size in latest])
        again = sum([size for step, size in latest if step.used > step.made])
        return len(latest) >= _FEW_PLANS and 0 < settings.current().novel_nodes <= total and 4 * again <= total

    def note(self, step: CachedPlan, size: int) -> None:
        """Remember a plan for some number of nodes; small ones cost little."""
        if size >= _MANY_NODES:
            latest = (*self._latest, (step, size))
            total = sum([size for _, size in latest])
            while len(latest) > _FEW_PLANS and total - latest[0][1] >= settings.current().novel_nodes:
                total, latest = total - latest[0][1], latest[1:]
            self._latest = latest

    def clear(self) -> None:
        """Forget all plans, as if the process had just begun."""
        self._latest = ()


NOVELTY = Novelty()


def new_cached_plan(
    stage: CacheNode, nodes: Sequence[Node], known: Container[Node], keep_all: bool, again: bool, observed: bool
) -> CachedPlan:
    """Return a new evaluation, ``again`` if it was computed by pieces before; what is observed is always planned."""
    if not (again or observed or OBSERVERS) and NOVELTY.prevails():
        pieces = _pieces_for([node for node in map(resolve, nodes) if node.operator is not LEAF], known)
        if pieces is not None:
            return CachedPlan(stage, nodes, known, keep_all, pieces)
    step = CachedPlan(stage, nodes, known, keep_all)
    # what is planned because it is there again has been used again
    step.made = -1 if again else PLANS.tick
    if step.program is not None:
        NOVELTY.note(step, len(order(step.sources, known.__contains__)[1]))
    return step


def _pieces_for(sources: list[Node], known: Container[Node]) -> Callable[..., Any] | None:
    """Return what makes a program by pieces, where that is quicker than planning."""
    if settings.active.executor == "reference":
        return None
    from ..run import kernel_cache

    if not kernel_cache.available():
        return None
    from .piecewise import MOST_NUMBERS_PER_NODE, PiecewiseProgram

    ordered = order([node for node in sources if node not in known], known.__contains__)
    size = len(ordered[1])
    if size < _MANY_NODES or sum([math.prod(node.shape) for node in ordered[1]]) > MOST_NUMBERS_PER_NODE * size:
        return None
    return lambda wanted, known, keep_all: PiecewiseProgram(wanted, known.__contains__, keep_all, ordered)


def build(wanted: list[Node], known: Container[Node], keep_all: bool) -> Any:
    """Return the program that computes nodes, made by the executor that the settings name."""
    executor = settings.current().executor
    if executor != "reference":
        from ..run import kernel_cache
        from .disk import program_for

        if executor == "native" or kernel_cache.available():
            if WHEN_REPEATING and statistics.plans > _SOME_PLANS:
                repeating()
            return program_for(wanted, known.__contains__, keep_all)
    return Program(wanted, known.__contains__, keep_all)


def repeating() -> None:
    """Do what is worth doing when something is done again."""
    if settings.active.executor != "reference":
        from ..run import kernel_cache

        while WHEN_REPEATING and kernel_cache.available():
            WHEN_REPEATING.pop()()


def waits(nodes: Iterable[Node]) -> bool:
    """Return whether some of these nodes are recorded, so that they may be differentiated."""
    return any([node.marked and node.operator is not VARIABLE for node in nodes])


def _leaf_index(node: Node) -> int | None:
    """Return the number of a leaf, or None for what stands among the values: everything else, and lent leaves."""
    return node.attributes[0] if node.operator is LEAF and node.attributes[0] >= 0 else None


def starting_points(sources: Iterable[Node], known: Container[Node]) -> list[Node]:
    """Return the known nodes that computing some nodes starts from."""
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
    """All remembered plans, and the nodes they are about; drops the least recently used ones beyond the limits."""

    def __init__(self) -> None:
        self.root = CacheNode()
        self.tick = 0
        self._count = 0
        self._nodes_before = 0
        self._nodes_kept = 0

    def made(self) -> None:
        """Count one more plan."""
        self._count += 1

    def trim(self) -> None:
        """Called between traces: forget what has not been used for longest when there is too much.

        At most half of each limit is left, so that this is rare. What was used last stays, however large it is: the
        next turn of a loop will ask for it. The limit of nodes is then twice its size.
        """
        self.tick += 1
        limits = settings.active
        made = statistics.nodes - self._nodes_before
        if self._count <= limits.plan_limit and (made <= limits.node_limit or made <= 2 * self._nodes_kept):
            return
        steps = self.steps()
        # of those used at the same time the first of a sequence, because the others are found through it
        steps.sort(key=lambda entry: -entry[2].used)
        keep: set[Node] = set()
        count = 0
        for _, _, step in steps[: limits.plan_limit // 2]:
            below = _nodes_below(step.sources, keep)
            if len(keep) + len(below) > limits.node_limit // 2 and step.used < self.tick - 1:
                break
            keep |= below
            count += 1
        for stage, key, _ in steps[count:]:
            stage.following.pop(key, None)
        _forget_except(keep)
        self._count = count
        self._nodes_kept = len(keep)
        self._nodes_before = statistics.nodes - len(keep)

    def steps(self) -> list[tuple[CacheNode, Any, CachedPlan]]:
        """Return every plan with the place where it is found, the first of each sequence first."""
        found, queue, seen = [], deque([self.root]), {self.root}
        while queue:
            here = queue.popleft()
            for key, step in list(here.following.items()):
                found.append((here, key, step))
                if step.following not in seen:
                    seen.add(step.following)
                    queue.append(step.following)
        return found


def _nodes_below(sources: list[Node], known: set[Node]) -> set[Node]:
    """Return some nodes and everything they are computed from, without those that are known together with theirs."""
    found: set[Node] = set()
    stack = list(sources)
    while stack:
        node = stack.pop()
        if node not in known and node not in found:
            found.add(node)
            stack.extend(node.inputs)
    return found


def _forget_except(keep: set[Node]) -> None:
    """Drop every interned node, remembered call and gradient that refers to a node not in ``keep``."""

    def kept(entry: Any) -> bool:
        return all([node in keep for node in entry]) if isinstance(entry, tuple) else entry in keep

    for declared in set(REGISTRY.values()):
        declared.table = {key: entry for key, entry in list(declared.table.items()) if kept(entry)}
        # the dictionary object is part of generated code, so it is emptied in place
        declared.calls.clear()
        declared.several.clear()
        declared.consequences.clear()
    for forget in forgetters:
        forget()


PLANS = Plans()
