"""Elastic training: processes may end and others may join, and training goes on from the last completed step.

``phonograd launch --elastic`` starts processes that are alone until they call :func:`run`. There they form a group, and
get the state of one of them. If a process ends, or a replacement is ready, all others form a new group, go back to the
last state that any of them committed, and go on (decision 0022). Started in another way, :func:`run` only calls its
function.
"""

from __future__ import annotations

import atexit
import copy
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import autograd
from ..core.trace import rng
from ..ndarray.array import NDArray
from . import membership
from .arrays import broadcast
from .sockets import RankLost, SocketCommunicator
from .sources import Source, make_source
from .world import use, world

__all__ = ["State", "run"]


class State:
    """What training needs to go on: parameters, optimizer states, random streams, and values of your own.

    Parameters
    ----------
    trained
        A trainer, an Estimator or a Module (bound, with parameters and optimizer), or a list of them. All their
        parameters belong to the state, also those without gradients.
    values
        Values that become attributes: the position in the data, or a list of losses. JSON must be able to express them.

    >>> import phonograd as mx
    >>> from phonograd import gluon
    >>> net = gluon.nn.Dense(1, in_units=2)
    >>> net.initialize()
    >>> trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore="dist_sync")
    >>> state = State(trainer, step=0)
    >>> state.step += 1
    >>> state.commit()
    >>> state.step
    1
    """

    def __init__(self, trained: Any, **values: Any) -> None:
        given = list(trained) if isinstance(trained, (list, tuple)) else [trained]
        names = [name for name in values if hasattr(type(self), name) or name.startswith("_")]
        if names:
            raise ValueError(f"a value of the state cannot be called {names[0]!r}")
        self._names = list(values)
        self._sources: list[Source] = [make_source(each) for each in given]
        self._commits = 0
        self._saved: list[Any] = []
        for name, value in values.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and name not in self._names:
            raise AttributeError(f"the state has no value {name!r}: give all values to State(...)")
        super().__setattr__(name, value)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def commit(self) -> None:
        """Make the present state the one from which training goes on after a fault.

        Call it after each step, or less often: what follows the last commit is repeated. Arrays are not copied but
        kept, so that a commit takes little time, and the memory of parameters and optimizer states twice.
        """
        if membership.is_elastic():
            self._save()
            self._commits += 1

    # -- in this process

    def _save(self) -> None:
        with autograd.pause():
            self._saved = [
                json.dumps({name: getattr(self, name) for name in self._names}),
                (rng.position(), np.random.get_state()),
                [(array, array.copy()) for array in self._arrays()],
                [_optimizer_values(updater.optimizer) for updater in self._updaters()],
                [{index: _saved_tree(tree) for index, tree in each.states.items()} for each in self._updaters()],
            ]

    def _restore(self) -> None:
        """Go back to the last commit."""
        values, (position, positions), arrays, optimizers, states = self._saved
        for name, value in json.loads(values).items():
            setattr(self, name, value)
        rng.go_to(position)
        np.random.set_state(positions)
        with autograd.pause():
            for array, saved in arrays:
                array[:] = saved
            for updater, attributes, trees in zip(self._updaters(), optimizers, states, strict=True):
                vars(updater.optimizer).update(copy.deepcopy(attributes))
                updater.states = {index: _restored_tree(tree) for index, tree in trees.items()}

    # -- between processes

    def _prepare(self) -> None:
        """Create the stores of trainers while this process is alone."""
        for source in self._sources:
            source.prepare()

    def _receive(self, group: SocketCommunicator) -> None:
        """Take over the state of the first rank with the most commits."""
        commits = [int(each[0]) for each in group.all_gather(np.array([self._commits]), "commits")]
        root = commits.index(max(commits))
        header = json.dumps(
            {
                "values": {name: getattr(self, name) for name in self._names},
                "position": rng.position(),
                "positions": _as_json(np.random.get_state()),
            }
        )
        texts = group.gather_texts(header if group.rank == root else "", "state: values")
        found = json.loads(texts[root])
        for name, value in found["values"].items():
            setattr(self, name, value)
        rng.go_to(tuple(found["position"]))
        np.random.set_state(tuple(found["positions"]))
        arrays = list(self._arrays())
        with autograd.pause():
            for array, value in zip(arrays, broadcast(group, arrays, root, "state: parameters"), strict=True):
                array[:] = value
        for number, updater in enumerate(self._updaters()):
            data = updater.get_states(dump_optimizer=True) if group.rank == root else b""
            size = group.all_gather(np.array([len(data)]), f"state: size of optimizer {number}")[root][0]
            room = np.frombuffer(data, np.uint8) if data else np.empty(size, np.uint8)
            received = group.broadcast([room], root, f"state: optimizer {number}")[0]
            if group.rank != root:
                self._install(number, received.tobytes())
        # not before all has arrived: this rank may have to give the state to others
        self._commits = max(commits)

    def _install(self, number: int, data: bytes) -> None:
        """Take over states of an optimizer, and its values: the object itself stays."""
        updater = list(self._updaters())[number]
        weights = self._sources[number].weights()
        loaded = updater._read_states(data, "the state of another rank", weights)
        own = updater.optimizer
        updater._install(loaded)
        vars(own).update(_optimizer_values(updater.optimizer))
        updater.optimizer = own

    def _arrays(self) -> Iterator[NDArray]:
        """Yield all arrays that belong to the state."""
        for source in self._sources:
            yield from source.arrays()

    def _updaters(self) -> Iterator[Any]:
        for source in self._sources:
            yield source.updater()


def run(train: Callable[[State], Any], state: State) -> Any:
    """Return the result of ``train(state)``, called again with the last committed state whenever the group changes.

    All that depends on the rank or the number of processes belongs into the function: they change. The function leads
    from the position in the state to the end, and commits the state after each step.

    Parameters
    ----------
    train
        The function. Communication in it raises :class:`RankLost` if the group changes; it must let this error pass.
    state
        The state.

    >>> import phonograd as mx
    >>> from phonograd import gluon
    >>> net = gluon.nn.Dense(1, in_units=2)
    >>> net.initialize()
    >>> state = State(gluon.Trainer(net.collect_params(), "sgd", kvstore="dist_sync"), step=0)
    >>> def train(state):
    ...     while state.step < 3:
    ...         state.step += 1
    ...         state.commit()
    ...     return state.step
    >>> run(train, state)
    3
    """
    if not membership.is_elastic():
        return train(state)
    world()  # connects this process to the launcher
    state._prepare()
    state._save()
    member = membership.Membership()
    while True:
        group = member.join()
        if group is None:
            # the others have finished meanwhile
            raise SystemExit(0)
        use(group)
        try:
            state._receive(group)
            state._save()
            result = train(state)
            group.barrier("end of elastic training")
        except RankLost:
            group.close()
            state._restore()
            continue
        member.leave()
        atexit.register(group.end)
        return result


def _optimizer_values(optimizer: Any) -> dict[str, Any]:
    """Return the attributes of an optimizer that change in training, as copies."""
    return copy.deepcopy({name: value for name, value in vars(optimizer).items() if name != "param_dict"})


def _saved_tree(tree: Any) -> Any:
    """Return a state of an optimizer with each array replaced by the array and a copy."""
    if isinstance(tree, NDArray):
        return _Saved(tree, tree.copy())
    return type(tree)([_saved_tree(part) for part in tree]) if isinstance(tree, (list, tuple)) else tree


def _restored_tree(tree: Any) -> Any:
    if isinstance(tree, _Saved):
        tree.array[:] = tree.value
        return tree.array
    return type(tree)([_restored_tree(part) for part in tree]) if isinstance(tree, (list, tuple)) else tree


class _Saved:
    """An array of an optimizer, and its value at the last commit."""

    def __init__(self, array: NDArray, value: NDArray) -> None:
        self.array, self.value = array, value


def _as_json(positions: Any) -> list[Any]:
    """Return the state of NumPy's random numbers as JSON can express it."""
    kind, words, *rest = positions
    return [kind, words.tolist(), *rest]
