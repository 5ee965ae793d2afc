"""The store 'horovod': sums of gradients over all processes; the trainer updates (``mxnet.kvstore.horovod``)."""

from __future__ import annotations

from typing import Any

from .. import autograd
from ..core.base.docstrings import complete_classes
from ..core.base.errors import MXNetError
from ..distributed.arrays import add_up, broadcast
from ..distributed.communicator import Communicator
from ..distributed.world import world
from ..ndarray.array import NDArray
from .base import KVStoreBase, name_keys, pairs

__all__ = ["Horovod"]


@KVStoreBase.register
class Horovod(KVStoreBase):
    """Add up values over all processes, and store nothing."""

    def __init__(self) -> None:
        # an error of the launcher is raised here
        world()

    @property
    def _group(self) -> Communicator:
        """The processes; in elastic training they change."""
        return world()

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Return whether the store has a capability. It cannot update values."""
        if capability.lower() != KVStoreBase.OPTIMIZER:
            raise ValueError(f"Unknown capability: {capability}")
        return False

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Copy the values of the first process to `out`."""
        found, targets = dict(pairs(key, value)), dict(pairs(key, out))
        with autograd.pause():
            firsts = [values[0] for values in found.values()]
            label = f"broadcast of {name_keys(found)}"
            for one, received in zip(found, broadcast(self._group, firsts, label=label)):
                for target in targets[one]:
                    target[:] = received

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Add up values over all processes, and copy the sums to `out`, or to the values themselves without `out`."""
        found = dict(pairs(key, value))
        targets = found if out is None else dict(pairs(key, out))
        if any([len(values) != 1 for values in found.values()]):
            raise MXNetError(f"the store {self.type!r} takes one array of each key: a process has one device")
        with autograd.pause():
            for one, total in self._add_up({one: values[0] for one, values in found.items()}).items():
                for target in targets[one]:
                    target[:] = total

    def _add_up(self, values: dict[Any, NDArray]) -> dict[Any, NDArray]:
        """Return the sums of values over all processes."""
        return dict(zip(values, add_up(self._group, list(values.values()), f"pushpull of {name_keys(values)}")))

    def set_optimizer(self, optimizer: Any) -> None:
        """Raise an error: the trainer updates values."""
        raise MXNetError(f"the store {self.type!r} does not update values: use update_on_kvstore=False")

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return self._group.rank

    @property
    def local_rank(self) -> int:
        """The number of this process among those on the same machine."""
        return self._group.local_rank

    @property
    def num_workers(self) -> int:
        """The number of processes."""
        return self._group.size


complete_classes(globals())
