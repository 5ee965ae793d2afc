"""Provide Updater: an optimizer with the state of each weight."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from .. import autograd
from ..base import py_str
from ..core.base.devices import Context
from ..core.observe.allocations import OPTIMIZERS
from ..ndarray.array import NDArray
from . import states as state_files
from .optimizer import Optimizer
from .repetition import Repetition

__all__ = ["Updater", "get_updater"]


class Updater:
    """Update weights by an optimizer: ``updater(index, grad, weight)``, also with lists of the three.

    >>> import phonograd as mx
    >>> updater = mx.optimizer.get_updater(mx.optimizer.create("sgd", learning_rate=0.5))
    >>> weight = mx.nd.ones((2,))
    >>> updater(0, mx.nd.array([1.0, 2.0]), weight)
    >>> weight.asnumpy().tolist()
    [0.5, 0.0]
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.states: dict[Any, Any] = {}
        self.states_synced: dict[Any, bool] = {}
        self.aggregate_updates = optimizer.aggregate_num > 0
        self._repetition = Repetition()
        OPTIMIZERS.add(self)

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        """Update one weight, or each weight of a list."""
        several = isinstance(index, (list, tuple))
        indices, grads, weights = (index, grad, weight) if several else ([index], [grad], [weight])
        indices = [py_str(each) if isinstance(each, bytes) else each for each in indices]
        if not weights:
            return
        self.optimizer._set_current_context(weights[0].context.device_id)
        with autograd.pause():
            for each, array in zip(indices, weights):
                self._prepare(each, array)
            if Repetition.is_possible(self.optimizer, weights):
                known = [self.states[each] for each in indices]
                self._repetition.run(self.optimizer, indices, weights, grads, known)
                return
            if self.aggregate_updates and self.optimizer.aggregate_num > 0:
                self._update_in_groups(indices, weights, grads)
                return
            for each, array, slope in zip(indices, weights, grads):
                self.optimizer.update_multi_precision(each, array, slope, self.states[each])

    def _prepare(self, index: Any, weight: NDArray) -> None:
        if index not in self.states:
            self.states[index] = self.optimizer.create_state_multi_precision(index, weight)
        elif not self.states_synced[index]:
            self.states[index] = self.sync_state_context(self.states[index], weight.context)
        self.states_synced[index] = True

    def _update_in_groups(self, indices: Any, weights: Any, grads: Any) -> None:
        """Update weights of one dtype in groups of `aggregate_num`, for optimizers with this setting."""
        groups = defaultdict(list)
        for each in zip(indices, weights, grads):
            groups[each[1].dtype].append(each)
        most = self.optimizer.aggregate_num
        for group in groups.values():
            for start in range(0, len(group), most):
                numbers, arrays, slopes = zip(*group[start : start + most])
                known = [self.states[number] for number in numbers]
                self.optimizer.update_multi_precision(numbers, arrays, slopes, known)

    def sync_state_context(self, state: Any, context: Context) -> Any:
        """Return a state with its arrays on a context."""
        if isinstance(state, NDArray):
            return state.as_in_context(context)
        if isinstance(state, (tuple, list)):
            return type(state)([self.sync_state_context(part, context) for part in state])
        return state

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """Return the states of all weights as bytes in MXNet's format; `dump_optimizer` adds the optimizer."""
        return state_files.dumps((self.states, self.optimizer) if dump_optimizer else self.states)

    def set_states(self, states: bytes) -> None:
        """Restore states that :meth:`get_states` returned, here or in MXNet."""
        loaded = state_files.loads(states)
        if isinstance(loaded, tuple) and len(loaded) == 2:
            self.states, self.optimizer = loaded
        else:
            self.states = loaded
        self.states_synced = dict.fromkeys(self.states, False)


def get_updater(optimizer: Optimizer) -> Updater:
    """Return a new updater of an optimizer."""
    return Updater(optimizer)
