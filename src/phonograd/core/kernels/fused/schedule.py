"""Schedule: the passes of a fused kernel over each row, and the values computed in each pass.

An element value that needs no row result has level 0. The fold of a value of level *n* is complete after pass *n*, so
values computed from it have level *n* + 1. Pass *n* folds and stores the values of level *n*, and computes all values
that these need. A value may be computed in several passes: its bits are the same each time. Expensive values are not:

* a stored value is read back from memory, where it is still in a cache;
* any other value is *parked* in the memory of a result of the same dtype that a later pass will write.
"""

from __future__ import annotations

import dataclasses

from ...graph.operator import REGISTRY
from ..structure import UNIT, Compute, Fold, Structure, Take

__all__ = ["Pass", "Schedule"]

#: operations per element above which recomputing a value is avoided if possible
DEAR = 4.0


@dataclasses.dataclass
class Pass:
    """One pass over a row."""

    folds: list[int] = dataclasses.field(default_factory=list)
    """Numbers of the values that are folds."""
    stores: list[int] = dataclasses.field(default_factory=list)
    """Numbers of the stores of elements."""
    parks: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    """Pairs of a value and the store in whose memory it is parked."""
    reads: dict[int, int] = dataclasses.field(default_factory=dict)
    """By value: the store that has held it in memory since an earlier pass."""
    needed: list[int] = dataclasses.field(default_factory=list)
    """The element values that the pass computes, in order."""


class Schedule:
    """The passes of a kernel, and its row values.

    Attributes
    ----------
    rows
        For each value, whether it belongs to a row.
    levels
        For each value, the first pass that can use it; for element values, this pass computes it.
    passes
        The folds, stores and values of each pass.
    """

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self._first_step = len(structure.loads) + len(structure.draws)
        self.rows: list[bool] = [load.row for load in structure.loads] + [False] * len(structure.draws)
        self.levels: list[int] = [0] * self._first_step
        for step in structure.steps:
            self.rows.append(isinstance(step, Fold) or step.row)
            level = max([self.levels[source] for source in self.sources(len(self.levels))], default=0)
            self.levels.append(level + isinstance(step, Fold))
        self.row_stores = [number for number, store in enumerate(structure.stores) if store.row]
        self.passes = self._passes()

    def value(self, number: int) -> Compute | Take | Fold | None:
        """Return the step that computes a value, or None for a load or a draw."""
        return self.structure.steps[number - self._first_step] if number >= self._first_step else None

    def sources(self, number: int) -> tuple[int, ...]:
        """Return the values from which a value is computed."""
        step = self.value(number)
        if step is None:
            return ()
        if isinstance(step, Compute):
            return step.sources
        return (step.at,) if isinstance(step, Take) else (step.source,)

    def row_values(self, level: int) -> list[int]:
        """Return the row values, except results of folds, that become available with a level."""
        known = [n for n, row in enumerate(self.rows) if row and self.levels[n] == level]
        return [number for number in known if not isinstance(self.value(number), Fold)]

    def _passes(self) -> list[Pass]:
        passes = [Pass() for _ in range(max(self.levels, default=0) + 1)]
        for number in range(len(self.levels)):
            if isinstance(self.value(number), Fold):
                passes[self.levels[number] - 1].folds.append(number)
        for number, store in enumerate(self.structure.stores):
            if not store.row:
                passes[self.levels[store.source]].stores.append(number)
        if not (passes[-1].folds or passes[-1].stores):
            passes.pop()
        for found in passes:
            found.needed = self._closure(found)
        if len(passes) > 1:
            self._avoid_repetition(passes)
        return passes

    def _closure(self, found: Pass) -> list[int]:
        """Return the element values that a pass computes."""
        stack = [source for fold in found.folds for source in self.sources(fold)]
        stack += [self.structure.stores[store].source for store in found.stores]
        stack += [value for value, _ in found.parks]
        needed: set[int] = set()
        while stack:
            number = stack.pop()
            if number in needed or self.rows[number]:
                continue
            needed.add(number)
            if number not in found.reads:
                stack += self.sources(number)
        return sorted(needed)

    def _avoid_repetition(self, passes: list[Pass]) -> None:
        free = [number for number, store in enumerate(self.structure.stores) if not store.row and store.access == UNIT]
        for value in reversed(range(self._first_step, len(self.levels))):
            step = self.value(value)
            if self.rows[value] or not isinstance(step, Compute) or not _is_dear(step):
                continue
            users = [number for number, found in enumerate(passes) if value in found.needed]
            if len(users) < 2:
                continue
            place = self._place(value, users, passes, free)
            if place is None:
                continue
            store, parked = place
            if parked:
                passes[users[0]].parks.append((value, store))
                free.remove(store)
            for user in users[1:]:
                passes[user].reads[value] = store
                passes[user].needed = self._closure(passes[user])

    def _place(self, value: int, users: list[int], passes: list[Pass], free: list[int]) -> tuple[int, bool] | None:
        """Return the store whose memory can hold a value, and whether the value must be parked there first."""
        stores = self.structure.stores
        for number in passes[users[0]].stores:
            if stores[number].source == value and stores[number].access == UNIT:
                return number, False
        for number in free:
            source = stores[number].source
            if self.levels[source] >= users[-1] and self.structure.dtypes[source] == self.structure.dtypes[value]:
                return number, True
        return None


def _is_dear(step: Compute) -> bool:
    cost = REGISTRY[step.operator].cost
    return callable(cost) or cost > DEAR
