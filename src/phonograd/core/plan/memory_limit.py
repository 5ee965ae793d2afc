"""Rematerialization under a memory limit: large values are computed again for their late readers instead of kept.

Takes a draft of a plan from :mod:`~phonograd.core.plan.native_program` whose arena is larger than the limit allows, and
hands back other nodes for the same targets. A value that nothing reads for a long time, such as an activation between
the forward and the backward pass, is *evicted*: late readers read a second node with the same operator and attributes.
Its inputs are read through *barriers*, which have the value of another node and wait for a third one. So the second
node is computed just before it is read, and the memory of the first one is free until then. The same kernels compute
both, so no bit changes. See docs/decisions/0030.

:func:`evict` chooses the values: at the moment of the peak, the one with most bytes freed for its cost goes first.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base import processor, settings
from ..base.errors import MemoryLimitWarning
from ..derive.costs import flops_of
from ..graph.node import Node, attributed_to
from ..kernels.launch import align_up
from ..run.reference import resolve
from .inplace import assignment_lowering
from .layout import Job
from .steps import Alias, NumpyCall
from .views import BARRIER

__all__ = ["Draft", "evict", "warn_if_above"]

#: values smaller than this are kept: a second kernel for them costs more than their memory is worth
SMALLEST = 1 << 14
#: values that may be computed again for one that is evicted
MOST_AGAIN = 128


class Draft(NamedTuple):
    """A plan before it becomes a recipe."""

    jobs: Sequence[Job | NumpyCall | Alias]
    regions: Sequence[int]
    """The region of each job."""
    source: Callable[[Node], Node]
    """Returns the node whose value is read as that of a node."""
    arrays: set[Node]
    """The nodes that are arrays of their own, not in the arena."""


def warn_if_above(planned: int, unlimited: int, budget: int, largest: Node | None) -> None:
    """Warn that a plan takes more memory than the limit allows, with the figures."""
    if planned <= budget:
        return
    limit = settings.current().memory_limit_bytes
    text = (
        f"memory_limit_bytes is {limit:,}, but {limit - budget:,} bytes of arrays exist and an evaluation needs "
        f"{planned:,} more ({unlimited:,} without recomputation), so it takes {limit - budget + planned:,} bytes. "
        "Raise the limit, use smaller batches, or drop arrays"
    )
    file, line = (largest.origin if largest is not None else None) or ("phonograd", 1)
    warnings.warn_explicit(text, MemoryLimitWarning, file, line)


@dataclasses.dataclass(slots=True)
class _Interval:
    """Regions during which a value is in memory."""

    first: int
    last: int


class _Cone(NamedTuple):
    """Nodes that are computed without memory of their own to get a value: their cost, and the values they read."""

    cost: float
    boundary: tuple[Node, ...]


class _Eviction:
    """The choice of values to evict.

    Parameters
    ----------
    draft
        The plan.
    given
        The nodes whose values are arrays already.
    targets
        The nodes to compute.
    """

    def __init__(self, draft: Draft, given: Iterable[Node], targets: Iterable[Node]) -> None:
        self._given = frozenset(given)
        self._source = draft.source
        self._arrays = draft.arrays
        #: the region in which a value is computed
        self.born: dict[Node, int] = {}
        self._uses: dict[Node, list[int]] = {}
        self._readers: dict[int, list[Node]] = {}
        written: dict[Node, int] = {}
        self._scratch: list[tuple[int, int]] = []
        for job, region in zip(draft.jobs, draft.regions, strict=True):
            if isinstance(job, Job):
                made = job.made
                read = [source for source, _ in job.operands.values() if isinstance(source, Node)]
                for node in job.written:
                    written[node] = written.get(node, 0) + 1
                if job.plan.scratch_bytes:
                    self._scratch.append((region, job.plan.scratch_bytes))
            else:
                made, read = [job.node], list(job.sources if isinstance(job, NumpyCall) else (job.source,))
            for node in made:
                self.born.setdefault(node, region)
            self._readers.setdefault(region, []).extend(read)
            for node in read:
                self._uses.setdefault(node, []).append(region)
        self._width = max(draft.regions, default=0) + 2
        self._graph = self._reachable(targets)
        self._may_go = {
            node
            for node in self._graph
            if node in self.born
            and node not in draft.arrays
            and written.get(node) == 1
            and node.outputs is None
            and node.operator is not BARRIER
            and assignment_lowering(node) is None
            and node.size * node.dtype.itemsize >= SMALLEST
        }
        self._in_arena = {
            node: _Interval(born, max(self._uses.get(node, [born])))
            for node, born in self.born.items()
            if node not in draft.arrays and node not in self._given
        }
        #: nodes of the graph with memory of their own, by the region in which they are computed
        self._by_birth = sorted([(born, node.serial, node) for node, born in self.born.items() if node in self._graph])
        self._cones: dict[Node, _Cone] = {}
        #: when the second value of an evicted one is in memory
        self.again: dict[Node, _Interval] = {}
        #: when the first value of an evicted one is in memory
        self._before: dict[Node, _Interval] = {}

    def _reachable(self, targets: Iterable[Node]) -> set[Node]:
        found: set[Node] = set()
        stack = [self._source(node) for node in targets]
        while stack:
            node = stack.pop()
            if node not in found:
                found.add(node)
                if node not in self._given:
                    stack.extend([self._source(each) for each in node.inputs])
        return found

    # -- the course of memory

    def _course(self) -> Any:
        """Return the bytes in use in each region."""
        change = np.zeros(self._width, np.int64)
        for node, interval in self._in_arena.items():
            size = align_up(max(node.size * node.dtype.itemsize, 1))
            interval = self._before.get(node, interval)
            change[interval.first] += size
            change[interval.last + 1] -= size
            if node in self.again:
                change[self.again[node].first] += size
                change[self.again[node].last + 1] -= size
        for region, size in self._scratch:
            change[region] += size
            change[region + 1] -= size
        return np.cumsum(change)

    def peak_bytes(self) -> int:
        """Return the most bytes that are in use in a region."""
        return int(self._course().max())

    def reduce_to(self, target: float) -> bool:
        """Evict values until the peak is at most a number of bytes, or nothing helps; return whether any are."""
        while True:
            course = self._course()
            peak = int(course.argmax())
            if course[peak] <= target or not self._evict_at(peak):
                return bool(self.again)

    def _evict_at(self, peak: int) -> bool:
        """Evict the value that frees most memory for its cost in a region; return whether there is one."""
        best, chosen = 0.0, None
        for node in self._may_go:
            interval = self._in_arena.get(node)
            if interval is None or node in self.again or not interval.first < peak < interval.last:
                continue
            uses = self._uses[node]
            last = max([interval.first, *[use for use in uses if use <= peak]])
            following = min([use for use in [*uses, interval.last] if use > peak])
            if last >= peak or following <= peak:
                continue
            found = self._needed(node, following, peak)
            if found is not None and found[0] > 0 and found[0] / found[1] > best:
                best, chosen = found[0] / found[1], (node, last, following, *found[2:])
        if chosen is None:
            return False
        node, last, following, more, longer, read = chosen
        interval = self._in_arena[node]
        self._before[node] = _Interval(interval.first, last)
        self.again[node] = _Interval(following, interval.last)
        for other in more:
            known = self.again.get(other)
            if known is None:
                self.again[other] = _Interval(following, following)
            else:
                known.first, known.last = min(known.first, following), max(known.last, following)
        for other in longer:
            found_interval = self.again.get(other) or self._in_arena[other]
            found_interval.last = max(found_interval.last, following)
        for other in read:
            self._uses[other].append(following)
        return True

    def _needed(
        self, node: Node, when: int, peak: int
    ) -> tuple[float, float, list[Node], list[Node], list[Node]] | None:
        """Return what it takes to compute a value again at a time: bytes freed at the peak, the cost, and more values.

        The values are those that are computed again with it, those that stay in memory for longer, and all that are
        read.
        """
        freed = float(node.size * node.dtype.itemsize)
        cost = 1.0
        seen, stack = {node}, [node]
        more: list[Node] = []
        longer: list[Node] = []
        while stack:
            found = self._cone(stack.pop())
            if not found.boundary:
                return None
            cost += found.cost
            for each in found.boundary:
                if each in seen or each not in self._in_arena:
                    continue
                seen.add(each)
                interval = self.again.get(each) or self._in_arena[each]
                if each in self.again and interval.first > when:
                    # computed earlier than it was; so are those that it is computed from
                    cost -= self._cone(each).cost
                elif interval.last >= when:
                    continue
                elif each not in self._may_go or each in self.again:
                    longer.append(each)
                    freed -= each.size * each.dtype.itemsize if interval.last < peak else 0
                    continue
                more.append(each)
                stack.append(each)
            if len(seen) > MOST_AGAIN:
                return None
        seen.discard(node)
        return freed, max(cost, 1.0), more, longer, sorted(seen, key=lambda each: each.serial)

    def _cone(self, node: Node) -> _Cone:
        found = self._cones.get(node)
        if found is None:
            cost, moved = 0.0, node.size * node.dtype.itemsize
            boundary: dict[Node, None] = {}
            seen, stack = {node}, [node]
            while stack:
                here = stack.pop()
                cost += flops_of(here)
                for each in [self._source(source) for source in here.inputs]:
                    if each in seen:
                        continue
                    seen.add(each)
                    if each in self._given or each in self.born:
                        boundary[each] = None
                        moved += each.size * each.dtype.itemsize
                    else:
                        stack.append(each)
            found = self._cones[node] = _Cone(cost + processor.choices().operations_per_byte * moved, tuple(boundary))
        return found

    def trigger(self, node: Node) -> Node | None:
        """Return the value after which an evicted one is computed again."""
        when = self.again[node].first
        read = [
            each
            for each in self._readers.get(when, ())
            if each in self._graph and self.born.get(each, when) < when and each not in self.again
        ]
        if read:
            return max(read, key=lambda each: (self.born[each], each.serial))
        low, high = 0, len(self._by_birth)
        while low < high:
            middle = (low + high) // 2
            if self._by_birth[middle][0] < when:
                low = middle + 1
            else:
                high = middle
        return self._by_birth[low - 1][2] if low else None


#: a version of a node: what it is, the node, and the region of its reader or the evicted node that it is read for
_Version = tuple[str, Node, Any]


class _Rewriting:
    """The graph in which late readers of evicted values read second ones.

    Versions of a node are: ``at`` a region, for a reader there; ``new``, the first value with its inputs replaced;
    ``clone``, the second value of an evicted one; and ``again``, as an input of such a second value.
    """

    def __init__(self, eviction: _Eviction, given: Iterable[Node], source: Callable[[Node], Node]) -> None:
        self._eviction = eviction
        self._given = frozenset(given)
        self._source = source
        self._made: dict[_Version, Node] = {}
        #: new nodes, by the node that they are versions of, whether they are second values, and their inputs
        self._nodes: dict[tuple[Node, bool, tuple[Node, ...]], Node] = {}
        self._barriers: dict[tuple[Node, Node], Node] = {}

    def version(self, node: Node) -> Node:
        """Return the node to compute in the place of a target."""
        return self._make(("new", self._source(node), None))

    def _make(self, wanted: _Version) -> Node:
        stack, made = [wanted], self._made
        begun: set[_Version] = set()
        while stack:
            version = stack[-1]
            if version in made:
                stack.pop()
                continue
            needed = self._needs(version)
            missing = [each for each in needed if each not in made]
            if missing:
                assert version not in begun, version
                begun.add(version)
                stack.extend(missing)
                continue
            made[version] = self._finish(version, [made[each] for each in needed])
            stack.pop()
        return made[wanted]

    def _needs(self, version: _Version) -> list[_Version]:
        """Return the versions of other nodes from which one is made."""
        kind, node, where = version
        born = self._eviction.born
        if node in self._given:
            trigger = self._eviction.trigger(where) if kind == "again" else None
            return [] if trigger is None else [("new", trigger, None)]
        sources = [self._source(each) for each in node.inputs]
        if kind == "at":
            if self._is_read_again(version):
                return [("clone", node, None)]
            if node in born:
                return [("new", node, None)]
            return [("at", each, where) for each in sources]
        if kind == "new":
            return [("at", each, born.get(node, -1)) for each in sources]
        if kind == "clone":
            return [("again", each, node) for each in sources]
        if self._is_read_again(version):
            return [("clone", node, None)]
        if node in born:
            trigger = self._eviction.trigger(where)
            return [("new", node, None), *([] if trigger is None else [("new", trigger, None)])]
        return [("again", each, where) for each in sources]

    def _is_read_again(self, version: _Version) -> bool:
        """Return whether the reader of an evicted value reads the second one."""
        kind, node, where = version
        again = self._eviction.again
        if node not in again or kind not in ("at", "again"):
            return False
        return bool((where if kind == "at" else again[where].first) >= again[node].first)

    def _finish(self, version: _Version, found: list[Node]) -> Node:
        kind, node, _ = version
        born = self._eviction.born
        if self._is_read_again(version):
            return found[0]
        if kind == "again" and (node in self._given or node in born):
            data = node if node in self._given else found[0]
            return data if not found or found[-1] is data else self._barrier(data, found[-1])
        if node in self._given:
            return node
        if kind == "at" and node in born:
            return found[0]
        if kind != "clone" and all([new is old for new, old in zip(found, map(self._source, node.inputs))]):
            return node
        key = node, kind == "clone", tuple(found)
        if key not in self._nodes:
            facts = node.attributes, node.shape, node.dtype, node.outputs, node.context
            with attributed_to(node):
                self._nodes[key] = Node(node.operator, key[2], *facts)
        return self._nodes[key]

    def _barrier(self, data: Node, after: Node) -> Node:
        key = data, after
        if key not in self._barriers:
            with attributed_to(data):
                self._barriers[key] = Node(BARRIER, key, (), data.shape, data.dtype, context=data.context)
        return self._barriers[key]


def evict(draft: Draft, given: Sequence[Node], targets: Sequence[Node], share: float) -> Mapping[Node, Node] | None:
    """Return other nodes that compute the targets with a share of the arena, or as little as possible.

    None is returned if no value can be evicted.
    """
    wanted = [resolve(node) for node in targets]
    eviction = _Eviction(draft, given, wanted)
    if not eviction.reduce_to(share * eviction.peak_bytes()):
        return None
    rewriting = _Rewriting(eviction, given, draft.source)
    return {node: rewriting.version(node) for node in wanted}
