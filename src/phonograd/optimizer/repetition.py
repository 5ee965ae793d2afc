"""Updates of many weights that are repeated without running the optimiser's code again.

A trainer updates the same weights by the same gradients in every step; only a few numbers change. The second time this
is noticed, the updates of all weights are captured as one function of these numbers
(:mod:`phonograd.core.capture.compiled`); afterwards a step is one call. The numbers are arrays without axes: what is
computed is the same to the last bit.
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

#: what an optimiser is asked for if its updates are not repeated; some programs put functions of theirs in the place
_METHODS = frozenset(("update", "update_multi_precision"))
#: attributes of optimisers that are numbers of single updates, and so no part of what is captured
_MOVING = frozenset(("rescale_grad", "lr", "num_update", "begin_num_update", "m_schedule", "wd"))


class _Quiet(Compiled[[list[Any]], None]):
    """A captured update. If it cannot be repeated, its code runs each time, which is nothing to be warned of."""

    def _explain(self, reason: str) -> None:
        """Say nothing."""


class Repetition:
    """The updates of one list of weights, noticed, captured and repeated."""

    def __init__(self) -> None:
        self._key: Any = None
        #: what the key was made from: nothing else may take the place of these objects in memory
        self._arrays: Any = None
        self._captured: _Quiet | None = None

    @staticmethod
    def is_possible(optimizer: Optimizer, weights: Sequence[NDArray]) -> bool:
        """Return whether an optimiser's updates are nothing but computations with arrays of one dtype and context."""
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
        patterns, distinct = _grouped(numbers)
        settings = tuple([item for item in vars(optimizer).items() if _is_plain(item[1]) and item[0] not in _MOVING])
        key = (optimizer, settings, patterns, tuple([id(array) for array in (*weights, *grads, *states)]))
        if key != self._key:
            self._key, self._arrays, self._captured = key, (weights, grads, states), None
            for weight, grad, state, own in zip(weights, grads, states, numbers):
                optimizer._change(weight, grad, state, *own)
            return
        if self._captured is None:
            self._captured = _Quiet(_joined(optimizer, weights, grads, states, patterns))
        dtype, context = weights[0]._dtype, weights[0].context
        if context == CPU:
            # equal contexts are not always the same object, which captured functions take for another one
            context = CPU
        self._captured([make_concrete(np.asarray(value, dtype), context) for value in distinct])


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _grouped(numbers: list[tuple[float | None, ...]]) -> tuple[Any, list[float]]:
    """Return which of some distinct numbers each weight has in each role, and the distinct numbers.

    Equal numbers in different roles are different: it is an accident that they are equal.
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


def _joined(
    optimizer: Optimizer, weights: Sequence[NDArray], grads: Sequence[NDArray], states: Sequence[Any], patterns: Any
) -> Any:
    """Return a function of the distinct numbers that updates all weights."""
    ways = list(zip(*patterns))

    def update_all(distinct: list[Any]) -> None:
        for weight, grad, state, way in zip(weights, grads, states, ways):
            rates = [None if place is None else distinct[place] for place in way]
            optimizer._change(weight, grad, state, *rates)

    return update_all
