"""Layout: where every value of a plan lies, and the jobs that kernels do there.

While a plan runs, arrays stand in a list of *slots*: first the inputs, then one with the numbers that kernels read, one
with the arena, and then one for each array that is made. Values that only kernels see lie in the arena. Everything is
decided in one walk over the steps of a plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..kernels.launch import Plan
from ..kernels.lowering import Gather
from ..node import Node
from ..operator import Array
from . import memory
from .assembly import Assembler, Operand
from .group import Group, Read, squeezed
from .grouping import Alias, Call, Grouping, Work

__all__ = ["Job", "Layout", "jobs_of"]


class Job(NamedTuple):
    """Kernels that follow each other: their launches, whose memory the operands are, and what is written there."""

    plan: Plan
    operands: Mapping[str, Operand]
    made: list[Node]
    over: list[tuple[Node, Node]]
    """Pairs of a value that is made and one that is read, where the first can take the place of the second."""
    nodes: tuple[Node, ...]
    """Everything that is computed."""


def jobs_of(grouping: Grouping) -> list[Job | Call | Alias]:
    """Return the steps of a plan with the groups and works among them as jobs."""
    jobs: list[Job | Call | Alias] = []
    assembler = Assembler()
    begun: set[Node] = set()
    for step in grouping.steps():
        if isinstance(step, Group):
            own = grouping.writes(step)
            plan, operands, written = assembler.assemble(step, own)
            # of several groups that write to one array, the first makes it
            made = [node for node in written if node not in begun]
            begun.update(made)
            nodes = tuple([member.expression for member in step.members])
            jobs.append(Job(plan, operands, made, _replaceable(step, own), nodes))
        elif isinstance(step, Work):
            read = {name: Operand(view.source, view.pattern.offset) for name, view in step.operands.items()}
            jobs.append(Job(step.plan, {**read, "out": Operand(step.node, 0)}, [step.node], [], (step.node,)))
        else:
            jobs.append(step)
    return jobs


def _replaceable(group: Group, made: list[Node]) -> list[tuple[Node, Node]]:
    """Return which values of a group can be written where others are read.

    An element is read before the one that is computed from it is written, so memory can be shared where each element
    is read at the very place where one is written, and nowhere else.
    """
    if group.reduced is not None or not made:
        return []
    plain: dict[Node, None] = {}
    other: set[Node] = {target.value.source for target in group.targets if isinstance(target.value, Read)}
    for member in group.members:
        is_gather = isinstance(member.lowering, Gather)
        for operand in member.operands:
            if isinstance(operand, Read):
                source, offset, strides, bounds = operand
                moved = offset or bounds or is_gather or squeezed(source.shape) != group.space
                if strides == group.strides and not moved:
                    plain[source] = None
                else:
                    other.add(source)
    sources = [source for source in plain if source not in other]
    pairs = []
    for node in made:
        for source in sources:
            if source.dtype.itemsize == node.dtype.itemsize:
                pairs.append((node, source))
                sources.remove(source)
                break
    return pairs


class Layout:
    """Where the values of a plan lie.

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
    """

    def __init__(
        self, jobs: Sequence[Job | Call | Alias], inputs: Sequence[Node], kept: Iterable[Node], arrays: set[Node]
    ) -> None:
        self.slots: dict[Node, int] = {node: number for number, node in enumerate(inputs)}
        #: slots of the numbers that kernels read, and of the arena
        self.number_slot = len(self.slots)
        self.arena_slot = len(self.slots) + 1
        self.width = len(self.slots) + 2
        #: slots that can be emptied after a job, by its number
        self.done: dict[int, list[int]] = {}
        self.arena_bytes = 0
        self._numbers: dict[bytes, int] = {}
        self._starts: dict[Node, int] = {}
        self._scratch: dict[int, int] = {}
        self._place(jobs, arrays, {*inputs, *kept})

    def _place(self, jobs: Sequence[Job | Call | Alias], arrays: set[Node], lasting: set[Node]) -> None:
        first: dict[Node, int] = {}
        last: dict[Node, int] = {}
        over: dict[Node, Node] = {}
        scratch: dict[int, memory.Lifetime] = {}
        slots, numbers = self.slots, self._numbers
        for index, job in enumerate(jobs):
            if isinstance(job, Job):
                made = job.made
                if job.plan.scratch_bytes:
                    scratch[index] = memory.Lifetime(job.plan.scratch_bytes, index, index)
                if job.over:
                    over.update(job.over)
                for source, _ in job.operands.values():
                    if isinstance(source, Node):
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
        order = {node: number for number, node in enumerate(first)}
        lifetimes = [_lifetime(node, first, last, over, order) for node in first]
        offsets, self.arena_bytes = memory.arrange([*lifetimes, *scratch.values()])
        self._starts = dict(zip(first, offsets))
        self._scratch = dict(zip(scratch, offsets[len(first) :]))

    def numbers(self) -> Array:
        """Return the numbers that kernels read, as bytes."""
        found = np.zeros(8 * max(len(self._numbers), 1), np.uint8)
        for data, start in self._numbers.items():
            found[start : start + len(data)] = np.frombuffer(data, np.uint8)
        return found

    def places(self, index: int, job: Job, bases: dict[int, int]) -> dict[str, tuple[int, int]]:
        """Return for every operand of a job the array in which it lies and how many bytes from its beginning.

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


def _lifetime(
    node: Node, first: dict[Node, int], last: dict[Node, int], over: dict[Node, Node], order: dict[Node, int]
) -> memory.Lifetime:
    begin = first[node]
    before = over.get(node)
    place = None if before is None or before not in first or last[before] != begin else order[before]
    return memory.Lifetime(node.size * node.dtype.itemsize, begin, last.get(node, begin), place)
