"""KVStoreBase, the registry of stores, and :func:`create` (``mxnet.kvstore.base``).

Hands stores to :class:`phonograd.gluon.Trainer` and :mod:`phonograd.module`. Stores of one process and of several are
in :mod:`phonograd.kvstore.kvstore`; :mod:`.horovod` and :mod:`.byteps` only add up gradients.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from ..core.base.docstrings import complete_classes
from ..ndarray.array import NDArray

__all__ = ["KVStoreBase", "create"]

_LOCAL = ("local", "device", "nccl", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device")
#: stores of several processes that are updated in step
_SYNCHRONOUS = ("dist", "dist_device", "dist_sync", "dist_sync_device", "dist_device_sync")

_ASYNCHRONOUS = (
    "updates without synchronization depend on timing, so that no run could be repeated. Use 'dist_sync', which hides "
    "communication behind the backward pass"
)


class KVStoreBase:
    """Base class of stores. Subclasses are registered under their names."""

    OPTIMIZER = "optimizer"
    kv_registry: dict[str, type[KVStoreBase]] = {}

    @staticmethod
    def register(klass: type[KVStoreBase]) -> type[KVStoreBase]:
        """Register a class of stores under its lower-case name, and return it."""
        KVStoreBase.kv_registry[klass.__name__.lower()] = klass
        return klass

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Store values, and copy them to `out`."""
        raise NotImplementedError(f"{type(self).__name__} has no broadcast")

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Add up values, and copy the result to `out`, or to the values themselves without `out`."""
        raise NotImplementedError(f"{type(self).__name__} has no pushpull")

    def set_optimizer(self, optimizer: Any) -> None:
        """Update stored values by an optimizer from now on."""
        raise NotImplementedError(f"{type(self).__name__} has no set_optimizer")

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Return whether the store has a capability: 'optimizer' is the update of values by the store."""
        raise NotImplementedError("a store class must define is_capable(capability)")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the states of the optimizer to a file."""
        raise NotImplementedError(f"{type(self).__name__} has no save_optimizer_states")

    def load_optimizer_states(self, fname: str) -> None:
        """Read the states of the optimizer from a file."""
        raise NotImplementedError(f"{type(self).__name__} has no load_optimizer_states")

    @property
    def type(self) -> str:
        """The type of the store."""
        return type(self).__name__.lower()

    @property
    def rank(self) -> int:
        """The index of this process."""
        return 0

    @property
    def num_workers(self) -> int:
        """The number of processes."""
        return 1


def create(name: str = "local") -> KVStoreBase:
    """Return a new store by its type: 'local', 'device', 'dist_sync', 'horovod', or the name of a registered class.

    Parameters
    ----------
    name
        'local' and 'device' store arrays in this process. 'dist_sync' and its variants add up values of all processes
        that one launcher started (see docs/distributed.md); a process on its own is a group of one. 'horovod' and
        'byteps' do so, too, but leave updates to the trainer.

    Raises
    ------
    ValueError
        If the type is unknown, or is one of the asynchronous types ('dist_async').
    """
    from .kvstore import DistributedKVStore, KVStore

    if not isinstance(name, str):
        raise TypeError("name must be a string")
    name = name.lower()
    if name in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[name]()
    if name in _SYNCHRONOUS:
        return DistributedKVStore(name)
    if name in _LOCAL:
        return KVStore("device" if name == "nccl" else name)
    if "async" in name:
        raise ValueError(f"there is no KVStore of type {name!r}: {_ASYNCHRONOUS}")
    raise ValueError(
        f"Unknown KVStore type {name!r}: use 'local', 'device', 'dist_sync', 'horovod' or the name of a registered "
        "class"
    )


def is_distributed(name: str) -> bool:
    """Return whether a type of store is for several processes."""
    return "dist" in name or name in ("horovod", "byteps")


# -- arguments


def name_keys(keys: Collection[Any]) -> str:
    """Return the keys in few words; many keys as a digest, in which other keys differ.

    >>> name_keys([1, 2]), name_keys(range(9))
    ('keys 1, 2', 'keys 0, 1, 2, ..., 8 (9 keys, b4fbdf)')
    """
    names = list(map(str, keys))
    if len(names) <= 6:
        return f"key{'s' * (len(keys) != 1)} {', '.join(names)}"
    digest = hashlib.blake2b("\0".join(names).encode(), digest_size=3).hexdigest()
    return f"keys {', '.join([*names[:3], '...', names[-1]])} ({len(names)} keys, {digest})"


def pairs(key: Any, value: Any) -> Iterator[tuple[Any, list[NDArray]]]:
    """Yield each key with its values: one array, or one array per context."""
    if not isinstance(key, (list, tuple)):
        assert isinstance(key, (str, int, np.integer)), f"unexpected type for keys: {type(key)}, not int or str"
        yield key, [value] if isinstance(value, NDArray) else list(value)
        return
    kinds = {isinstance(one, str) for one in key}
    assert len(kinds) <= 1, f"inconsistent types of keys: {key}"
    assert len(key) == len(value), f"there are {len(key)} keys, but {len(value)} values"
    for one, values in zip(key, value):
        yield from pairs(one, values)


def values_by_key(key: Any, value: Any) -> dict[Any, list[NDArray]]:
    """Return all values of each key, which may occur several times."""
    found: dict[Any, list[NDArray]] = {}
    for one, values in pairs(key, value):
        found.setdefault(one, []).extend(values)
    return found


def with_rows(key: Any, out: Any, row_ids: Any) -> Iterator[tuple[Any, NDArray, NDArray]]:
    """Yield each key with each of its arrays and the indices of the rows to copy there."""
    if isinstance(key, (list, tuple)):
        shared = isinstance(row_ids, NDArray)
        for number, (one, targets) in enumerate(zip(key, out, strict=True)):
            yield from with_rows(one, targets, row_ids if shared else row_ids[number])
        return
    targets = [out] if isinstance(out, NDArray) else list(out)
    rows = [row_ids] * len(targets) if isinstance(row_ids, NDArray) else list(row_ids)
    if len(rows) == 1:
        rows = rows * len(targets)
    for target, numbers in zip(targets, rows, strict=True):
        yield key, target, numbers


complete_classes(globals())
