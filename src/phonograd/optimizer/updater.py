"""Provide Updater: an optimizer with the state of each weight."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from .. import autograd
from ..base import py_str
from ..core.base.devices import Context
from ..core.base.docstrings import complete_classes
from ..core.base.errors import MXNetError
from ..core.observe.allocations import OPTIMIZERS
from ..ndarray.array import NDArray
from . import states as state_files
from .optimizer import Optimizer
from .records import fit_states
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
                # updates of single rows depend on the rows, so each has other arrays
                dense, sparse = [
                    [place for place, slope in enumerate(grads) if slope._takes_rows == takes_rows]
                    for takes_rows in (False, True)
                ]
                if dense:
                    self._repeat(*[[given[place] for place in dense] for given in (indices, weights, grads)])
                for place in sparse:
                    self.optimizer.update(indices[place], weights[place], grads[place], self.states[indices[place]])
                return
            if self.aggregate_updates and self.optimizer.aggregate_num > 0:
                self._update_in_groups(indices, weights, grads)
                return
            for each, array, slope in zip(indices, weights, grads):
                self.optimizer.update_multi_precision(each, array, slope, self.states[each])

    def _repeat(self, indices: list[Any], weights: list[NDArray], grads: list[NDArray]) -> None:
        """Update weights by dense gradients, as one captured function if the same call was made before."""
        self._repetition.run(self.optimizer, indices, weights, grads, [self.states[each] for each in indices])

    def _prepare(self, index: Any, weight: NDArray) -> None:
        if index not in self.states:
            self.states[index] = self.optimizer.create_state_multi_precision(index, weight)
        elif not self.states_synced[index]:
            self.states |= fit_states(self.optimizer, {index: self.states[index]}, {index: weight})
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
        """Return the states of all weights as bytes; `dump_optimizer` adds the optimizer.

        The setting ``states_format`` selects the format: safetensors, or the one of MXNet.
        """
        return state_files.dumps(self.states, self.optimizer if dump_optimizer else None)

    def set_states(self, states: bytes) -> None:
        """Restore states that :meth:`get_states` returned, here or in MXNet; an error leaves all as it was."""
        self._install(state_files.loads(states))

    def _read_states(self, data: bytes, name: str, weights: Mapping[Any, NDArray]) -> state_files.Loaded:
        """Return the states in a file after all checks; :meth:`_install` then puts them in place."""
        loaded = state_files.loads(data, name)
        try:
            fitted = fit_states(loaded.optimizer or self.optimizer, loaded.states, weights)
        except MXNetError as error:
            raise MXNetError(f"{name} does not fit the weights: {error}") from None
        return loaded._replace(states=fitted)

    def _install(self, loaded: state_files.Loaded) -> None:
        """Replace the states, and the optimizer if the file has one."""
        self.states = loaded.states
        if loaded.optimizer is not None:
            self.optimizer = loaded.optimizer
        self.states_synced = dict.fromkeys(self.states, False)


def get_updater(optimizer: Optimizer) -> Updater:
    """Return a new updater of an optimizer."""
    return Updater(optimizer)


complete_classes(globals())
