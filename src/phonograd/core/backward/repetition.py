"""Repetition: records that come back are differentiated as graphs, and no step takes long because of that.

Takes records from :mod:`phonograd.core.backward.eager`. A graph of gradients can be planned, but making its nodes takes
as long as a run of the record. So when a record comes back, its gradients are derived in portions, and it is computed
operator by operator until they are complete. A mark on disk remains: a later process differentiates the record as a
graph at once, and finds the plan there. See docs/decisions/0046.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..base import settings
from ..base.hot import hot, slotted
from ..base.pace import rest
from ..derive.gradient import Derivation
from ..graph.node import FORGOTTEN, Node
from ..plan import promotion
from ..plan.cache import STORED
from ..run import kernel_cache
from ..run.background import run_apart
from ..trace.novelty import NOVELTY

__all__ = ["MOST_RUNS", "SEEN", "Record", "has_mark"]

#: the share of the processor time of a backward pass for which gradients are derived in a step
SHARE = 0.15
#: runs of a record before its gradients are derived, if most records are new: that takes two to three times as long as
#: a run, and a plan saves about half of one each time
MOST_RUNS = 4
#: runs by a plan for any extents before that: a plan of its own saves little
MOST_SIZED_RUNS = 16
#: nodes from which on gradients are derived in portions, and a mark is looked for
LEAST_NODES = 16
#: records in a row without a mark, after which none is looked for: the program is new
MOST_MISSES = 2
#: marks that a process leaves at most
MOST_MARKS = 64


@slotted
class Record:
    """A record that was computed operator by operator, given its number of nodes."""

    __slots__ = ("_is_sized", "_portions", "_seconds", "_size", "runs")

    @hot
    def __init__(self, size: int) -> None:
        self._size = size
        #: how often it was computed
        self.runs = 0
        self._seconds = 0.0
        self._is_sized = False
        #: the derivation, except while a thread is at it: if that is interrupted, the next one begins anew
        self._portions: list[Derivation] = []

    def note_run(self, seconds: float, is_sized: bool) -> None:
        """Note that the record was computed, the processor time that it took, and whether by a plan for any extents."""
        self.runs += 1
        self._seconds, self._is_sized = seconds, is_sized

    def is_computed_again(self, head: Node) -> bool:
        """Return whether to compute it operator by operator again, because its gradients are not derived yet.

        The first run takes longer than others, because it learns, so the portions begin in the third one. If most
        records of late were new, this one will probably not come back often: they begin later.
        """
        if self.runs < MOST_SIZED_RUNS if self._is_sized else self.runs < MOST_RUNS and NOVELTY.is_high:
            return True
        if self._size < LEAST_NODES or settings.current().tiers != "background":
            return False
        if self.runs > 1:
            try:
                derivation = self._portions.pop()
            except IndexError:
                derivation = Derivation((head,), (None,))
            if derivation.advance(SHARE * self._seconds):
                derivation.finish()
                promotion.submit_along(lambda: _marks.leave(derivation.visited))
            else:
                self._portions.append(derivation)
        return True


#: the records that were computed operator by operator, by their heads
SEEN: dict[Node, Record] = {}
FORGOTTEN.connect(SEEN.clear)


class _Marks:
    """The marks on disk of records that came back."""

    def __init__(self) -> None:
        self._misses = self._left = 0

    def leave(self, visited: Sequence[Node]) -> None:
        """Mark a record, given its nodes; a helper calls this."""
        disk = kernel_cache.disk_cache() if kernel_cache.available() else None
        if disk is not None and self._left < MOST_MARKS:
            key = disk.key(_outline(visited), "r")
            if disk.load(key) is None:
                self._left += 1
                disk.save(key, b"")

    def find(self, visited: Sequence[Node]) -> bool:
        """Return whether an earlier process has marked a record; only the first records are looked up."""
        if self._misses >= MOST_MISSES or len(visited) < LEAST_NODES or settings.current().tiers != "background":
            return False
        if self._is_stored(visited):
            self._misses = 0
            STORED.expect()
            return True
        self._misses += 1
        return False

    def _is_stored(self, visited: Sequence[Node]) -> bool:
        disk = kernel_cache.disk_cache() if kernel_cache.available() else None
        if disk is None:
            return False
        key = disk.key(_outline(visited), "r")
        # most records are new, and a helper takes a hundred times as long
        return disk.may_have(key) and run_apart(lambda: disk.load(key)) is not None


def _outline(visited: Sequence[Node]) -> bytes:
    """Return operators, shapes and edges of a record as bytes.

    Records that differ in something else have the same mark. It does no harm: one is differentiated as a graph sooner.
    """
    numbers = {node: number for number, node in enumerate(visited)}
    parts = []
    for node in visited:
        rest()
        parts.append((node.operator.name, node.shape, tuple([numbers.get(source) for source in node.inputs])))
    return repr(parts).encode()


_marks = _Marks()


def has_mark(visited: Sequence[Node]) -> bool:
    """Return whether an earlier process has repeated a record, given its nodes; then its plans are probably on disk."""
    return _marks.find(visited)
