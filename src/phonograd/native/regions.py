"""Regions: jobs between which the threads need not wait for each other.

There are two kinds. Jobs that **do not depend on each other** may run in any order: all their chunks are shared out as
if they were one kernel's. Jobs that **go along with each other** are divided into as many *strips*, each of which reads
and writes its own part of every value, and whatever nobody writes: the rows of a batch in the steps of a recurrent
network, say. Whoever takes a strip runs it through all jobs, one after the other, and what it computed is still in its
cache. In both, nothing that one job reads or writes may lie where another one (in another strip) writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .. import settings
from ..kernels.gemm import Gemm
from ..kernels.launch import Plan, Reach
from ..node import Node
from .assembly import Operand
from .steps import Alias, Call

__all__ = ["REGION_CHUNKS", "Job", "Regions", "regions_of"]

#: chunks of a region, if it has several jobs: with so many the threads seldom wait for each other anyway, and what is
#: large does not stay in memory longer
REGION_CHUNKS = 64
#: strips of a region
MOST_STRIPS = 16
#: jobs that go along with each other, and what they make, which stays in memory until the last one is over
STRIP_JOBS, STRIP_BYTES = 16, 1 << 20
#: products of a matrix with the rows of a batch, each with its own, below which there is no loop
FEW_PRODUCTS = 3
#: chunks of a job that goes along with others: what has more is seldom waited for
STRIP_CHUNKS = 32

_NONE: Mapping[Node, Node] = {}


class Job(NamedTuple):
    """Kernels that follow each other: their launches, whose memory the operands are, and what is written there."""

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
        """How many pieces there are to share out; 0 where launches depend on each other."""
        if len(self.plan.launches) != 1:
            return 0
        launch = self.plan.launches[0]
        return -(-launch.extent // launch.chunk)


class Regions(NamedTuple):
    """The region of each job, and the strips of those regions that have some."""

    numbers: list[int]
    strips: dict[int, int]


class _Touched(NamedTuple):
    """What strips of a job touch of a value, beginning at an element; without a reach, they touch anything."""

    strips: int
    start: int
    reach: Reach | None
    is_written: bool
    ends: tuple[int, int] | None
    """The first element that any strip touches, and the one after the last."""


def regions_of(jobs: Sequence[Job | Call | Alias], begun: Mapping[Node, Node] = _NONE) -> Regions:
    """Return the regions of some jobs; some nodes may lie in the very memory of the inputs ``begun``."""
    # with more threads than strips some would have nothing to do, and alone nobody waits
    threads = settings.current().num_threads
    if begun or sum(map(_is_by_rows, jobs)) <= FEW_PRODUCTS:
        threads = 1
    numbers: list[int] = []
    strips: dict[int, int] = {}
    region: _Region | None = None
    for job in jobs:
        if region is None or not isinstance(job, Job) or not region.joined_by(job):
            numbers.append(numbers[-1] + 1 if numbers else 0)
            region = _Region(job, begun, threads) if isinstance(job, Job) else None
        else:
            numbers.append(numbers[-1])
            strips[numbers[-1]] = 0 if region.is_independent else region.strips
    return Regions(numbers, {number: _strip_count(count) for number, count in strips.items() if count})


def _strip_count(strips: int) -> int:
    """Return into how many strips a region is divided that could have so many.

    >>> [_strip_count(strips) for strips in (4, 8, 12, 32, 28, 8192)]
    [4, 8, 12, 16, 14, 16]
    """
    return max([count for count in range(1, MOST_STRIPS + 1) if strips % count == 0])


class _Region:
    """A region while it grows: its jobs are independent of each other, or have a number of strips, or both."""

    def __init__(self, job: Job, begun: Mapping[Node, Node], threads: int) -> None:
        self._begun, self._threads = begun, threads
        self._written: set[Node] = set()
        self._read: set[Node] = set()
        self._chunks = job.chunks
        self._jobs, self._bytes = 1, _made_bytes(job)
        #: what was touched of each value, where jobs may go along with each other
        self._touched: dict[Node, list[_Touched]] = {}
        self.is_independent = job.chunks > 0
        self.strips = _strips_of(job) if threads > 1 else 0
        self._add(job, *self._nodes_of(job), self._touched_by(job) if self.strips else [])

    def joined_by(self, job: Job) -> bool:
        """Have a job join the region if it can, and return whether it can."""
        chunks = job.chunks
        if not chunks:
            return False
        touched, written = self._nodes_of(job)
        # what others read may be written over
        apart = self._written.isdisjoint(touched) and self._read.isdisjoint(written)
        independent = self.is_independent and apart and self._chunks + chunks <= REGION_CHUNKS
        strips, by_strips = 0, list[tuple[Node, _Touched]]()
        own = _strips_of(job) if self.strips and self._jobs < STRIP_JOBS else 0
        if own and self._bytes + _made_bytes(job) <= STRIP_BYTES:
            strips, by_strips = math.gcd(self.strips, own), self._touched_by(job)
            along = apart or all([self._may_touch(node, new, strips) for node, new in by_strips])
            if not along or strips < self._threads:
                strips = 0
        if not independent and not strips:
            return False
        self.is_independent, self.strips = independent, strips
        self._chunks += chunks
        self._jobs += 1
        self._bytes += _made_bytes(job)
        self._add(job, touched, written, by_strips)
        return True

    def _nodes_of(self, job: Job) -> tuple[list[Node], list[Node]]:
        """Return the nodes in whose memory a job reads or writes, and those in whose memory it writes."""
        touched, begun = [source for source, _ in job.operands.values() if isinstance(source, Node)], self._begun
        if not begun:
            return touched, job.written
        return [begun.get(node, node) for node in touched], [begun.get(node, node) for node in job.written]

    def _add(self, job: Job, touched: list[Node], written: list[Node], by_strips: list[tuple[Node, _Touched]]) -> None:
        self._written.update(written)
        self._read.update(touched)
        if self.strips:
            for node, found in by_strips:
                self._touched.setdefault(node, []).append(found)

    def _touched_by(self, job: Job) -> list[tuple[Node, _Touched]]:
        known, written = job.plan.strips, job.written
        assert known is not None
        found = []
        for name, (source, start) in job.operands.items():
            if isinstance(source, Node):
                reach, ends = known.reaches.get(name), None
                if reach is not None:
                    ends = start + reach.low, start + reach.high + reach.step * (known.number - 1)
                found.append((source, _Touched(known.number, start, reach, source in written, ends)))
        return found

    def _may_touch(self, node: Node, new: _Touched, strips: int) -> bool:
        """Return whether what strips touch of a value is apart from what all other strips write."""
        for old in self._touched.get(node, ()):
            if not (new.is_written or old.is_written):
                continue
            if new.ends is None or old.ends is None:
                return False
            apart = old.ends[1] <= new.ends[0] or new.ends[1] <= old.ends[0]
            if not apart and not _go_along(old, new, strips):
                return False
        return True


def _is_by_rows(job: Job | Call | Alias) -> bool:
    """Return whether a job is a product whose strips have rows of their own."""
    if not isinstance(job, Job) or job.plan.strips is None:
        return False
    return isinstance(job.plan.launches[0].structure, Gemm)


def _strips_of(job: Job) -> int:
    """Return into how many strips a job can be divided; 0 if it should not be."""
    strips = job.plan.strips
    return strips.number if strips is not None and 0 < job.chunks <= STRIP_CHUNKS else 0


def _made_bytes(job: Job) -> int:
    return sum([node.size * node.dtype.itemsize for node in job.made])


def _go_along(first: _Touched, second: _Touched, strips: int) -> bool:
    """Return whether what each strip touches lies within a part of its own."""
    assert first.reach is not None
    assert second.reach is not None
    one, other = first.reach.of_wider(first.strips // strips), second.reach.of_wider(second.strips // strips)
    low = min(first.start + one.low, second.start + other.low)
    high = max(first.start + one.high, second.start + other.high)
    return one.step == other.step and high - low <= one.step
