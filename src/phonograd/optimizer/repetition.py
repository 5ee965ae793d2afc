"""Replay the updates of many weights without running the optimizer's code again.

A trainer updates the same weights by the same gradients in every step; only a few numbers change. The second step
captures the updates of all weights as one function of these numbers (:mod:`phonograd.core.capture.compiled`). Each
later step is one call. The numbers are 0-d arrays, and the results are identical to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.array.handle import make_concrete
from ..core.base.devices import CPU
from ..core.capture.compiled import Compiled
from ..core.trace.trace import LOCAL
from ..ndarray.array import NDArray
from .optimizer import Optimizer

__all__ = ["Repetition"]

#: methods of optimizers that a replay skips; some programs replace them on an instance
_METHODS = frozenset(("update", "update_multi_precision"))
#: attributes that belong to single updates: a change of one does not invalidate the captured function
_MOVING = frozenset(("rescale_grad", "lr", "num_update", "begin_num_update", "m_schedule", "wd"))


class _Quiet(Compiled[[list[Any]], None]):
    """Capture an update without warnings: if it cannot be replayed, its code runs each time, with the same results."""

    def _explain(self, reason: str) -> None:
        """Ignore the reason."""


class Repetition:
    """Detect, capture and replay the updates of one list of weights."""

    def __init__(self) -> None:
        self._key: Any = None
        #: the objects of the key: it compares their ids, so they must stay alive
        self._arrays: Any = None
        self._captured: _Quiet | None = None

    @staticmethod
    def is_possible(optimizer: Optimizer, weights: Sequence[NDArray]) -> bool:
        """Return whether the updates of an optimizer are only operators on arrays of one dtype and context."""
        first = weights[0]
        return (
            len(weights) > 1
            and type(optimizer).update is Optimizer.update
            and type(optimizer).update_multi_precision is Optimizer.update_multi_precision
            and _METHODS.isdisjoint(vars(optimizer))
            and LOCAL.trace.allows_shortcuts
            and first._dtype.name in ("float32", "float64")
            and all([w._dtype is first._dtype and w.context == first.context for w in weights])
        )

    def run(
        self,
        optimizer: Optimizer,
        indices: Sequence[Any],
        weights: Sequence[NDArray],
        grads: Sequence[NDArray],
        states: Sequence[Any],
    ) -> None:
        """Update all weights."""
        numbers = [(optimizer._scale(), *optimizer._rates(optimizer._step(index))) for index in indices]
        patterns, distinct = _group_numbers(numbers)
        settings = tuple([item for item in vars(optimizer).items() if _is_plain(item[1]) and item[0] not in _MOVING])
        key = (optimizer, settings, patterns, tuple([id(array) for array in (*weights, *grads, *states)]))
        if key != self._key:
            self._key, self._arrays, self._captured = key, (weights, grads, states), None
            for weight, grad, state, own in zip(weights, grads, states, numbers):
                optimizer._change(weight, grad, state, *own)
            return
        if self._captured is None:
            self._captured = _Quiet(_make_update_all(optimizer, weights, grads, states, patterns))
        dtype, context = weights[0]._dtype, weights[0].context
        if context == CPU:
            # captured functions compare contexts by identity
            context = CPU
        self._captured([make_concrete(np.asarray(value, dtype), context) for value in distinct])


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _group_numbers(numbers: list[tuple[float | None, ...]]) -> tuple[Any, list[float]]:
    """Return the index of each weight's number in each role, and the list of distinct numbers.

    Equal numbers in different roles count as distinct: their equality is a coincidence.
    """
    distinct: list[float] = []
    patterns = []
    for role in zip(*numbers):
        places: dict[Any, int] = {}
        pattern: list[int | None] = []
        for value in role:
            if value is None:
                pattern.append(None)
                continue
            if value not in places:
                places[value] = len(distinct)
                distinct.append(value)
            pattern.append(places[value])
        patterns.append(tuple(pattern))
    return tuple(patterns), distinct


def _make_update_all(
    optimizer: Optimizer, weights: Sequence[NDArray], grads: Sequence[NDArray], states: Sequence[Any], patterns: Any
) -> Any:
    """Return a function of the distinct numbers that updates all weights."""
    ways = list(zip(*patterns))

    def update_all(distinct: list[Any]) -> None:
        for weight, grad, state, way in zip(weights, grads, states, ways):
            rates = [None if place is None else distinct[place] for place in way]
            optimizer._change(weight, grad, state, *rates)

    return update_all
