"""Provide mx.kv: stores of arrays by key, which add up values from several contexts.

The types 'local' and 'device' are the same here: a store in this process.

>>> import phonograd as mx
>>> store = mx.kv.create("local")
>>> store.init("weight", mx.nd.ones((2,)))
>>> store.push("weight", [mx.nd.array([1.0, 2.0]), mx.nd.array([3.0, 4.0])])
>>> value = mx.nd.zeros((2,))
>>> store.pull("weight", out=value)
>>> value.asnumpy().tolist()
[4.0, 6.0]
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

from . import autograd, optimizer
from .core.base.errors import MXNetError
from .core.base.files import write_atomically
from .ndarray.array import NDArray
from .ndarray.sparse import RowSparseNDArray

__all__ = ["KVStore", "KVStoreBase", "create"]

_LOCAL = ("local", "device", "nccl", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device")

_ADVICE = (
    ". Several processes cannot share a store here. In one process, use 'device'. For several, add up gradients with a "
    "library of your choice (mpi4py) between trainer.allreduce_grads() and trainer.update(batch_size), or register a "
    "class that does so with mx.kv.KVStoreBase.register"
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


def _pairs(key: Any, value: Any) -> Iterator[tuple[Any, list[NDArray]]]:
    """Yield each key with its values: one array, or one array per context."""
    if not isinstance(key, (list, tuple)):
        yield key, [value] if isinstance(value, NDArray) else list(value)
        return
    assert len(key) == len(value), f"there are {len(key)} keys, but {len(value)} values"
    for one, values in zip(key, value):
        yield from _pairs(one, values)


def _values_by_key(key: Any, value: Any) -> dict[Any, list[NDArray]]:
    """Return all values of each key, which may occur several times."""
    found: dict[Any, list[NDArray]] = {}
    for one, values in _pairs(key, value):
        found.setdefault(one, []).extend(values)
    return found


def _with_rows(key: Any, out: Any, row_ids: Any) -> Iterator[tuple[Any, NDArray, NDArray]]:
    """Yield each key with each of its arrays and the indices of the rows to copy there."""
    if isinstance(key, (list, tuple)):
        shared = isinstance(row_ids, NDArray)
        for number, (one, targets) in enumerate(zip(key, out, strict=True)):
            yield from _with_rows(one, targets, row_ids if shared else row_ids[number])
        return
    targets = [out] if isinstance(out, NDArray) else list(out)
    rows = [row_ids] * len(targets) if isinstance(row_ids, NDArray) else list(row_ids)
    if len(rows) == 1:
        rows = rows * len(targets)
    for target, numbers in zip(targets, rows, strict=True):
        yield key, target, numbers


class KVStore(KVStoreBase):
    """Store arrays in this process."""

    def __init__(self, kind: str = "local") -> None:
        self._kind = kind
        self._values: dict[Any, NDArray] = {}
        self._updater: Callable[[Any, NDArray, NDArray], Any] | None = None

    @property
    def type(self) -> str:
        """The type of the store: 'local' or 'device'."""
        return self._kind

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Return whether the store has a capability. Its only one is 'optimizer': it can update values."""
        if capability.lower() != KVStoreBase.OPTIMIZER:
            raise ValueError(f"Unknown capability: {capability}")
        return True

    def init(self, key: Any, value: Any) -> None:
        """Store arrays under new keys."""
        for one, values in _pairs(key, value):
            if one in self._values:
                raise MXNetError(
                    f"duplicate init of key {one}. Please double check if you called kv.init or kv.broadcast"
                )
            self._values[one] = values[0].copy()

    def _stored_value(self, key: Any) -> NDArray:
        if key not in self._values:
            raise MXNetError(f"key {key} has not been inited")
        return self._values[key]

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Add up the values of each key from all contexts, and store the sum or update the stored value by it."""
        with autograd.pause():
            for one, values in _values_by_key(key, value).items():
                stored = self._stored_value(one)
                total = functools.reduce(operator.add, [part.as_in_context(stored.context) for part in values])
                if self._updater is None:
                    self._values[one] = total.copy()
                else:
                    self._updater(one, total, stored)

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copy the stored value of each key to arrays; `ignore_sparse` skips sparse arrays."""
        assert out is not None, "pull needs out=: the arrays to copy the values to"
        with autograd.pause():
            for one, targets in _pairs(key, out):
                stored = self._stored_value(one)
                for target in targets:
                    if ignore_sparse and target.stype != "default":
                        continue
                    if target.shape != stored.shape:
                        raise MXNetError(
                            f"operands shape mismatch: key {one} has shape {stored.shape}, and out {target.shape}"
                        )
                    target[:] = stored.as_in_context(target.context)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Push values, then pull the stored values into `out`, or into the values themselves without `out`."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority, ignore_sparse=False)

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Store values under new keys, and copy them to `out`."""
        self.init(key, value)
        self.pull(key, out, priority, ignore_sparse=False)

    def row_sparse_pull(self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None) -> None:
        """Copy some rows of the stored value of each key to row_sparse arrays; their other rows become zeros.

        Parameters
        ----------
        key, out
            The keys, and the arrays to copy to.
        row_ids
            The indices of the rows: one array for all, or one array for each array in `out`.
        """
        assert out is not None, "row_sparse_pull needs out=: the arrays to copy the rows to"
        assert row_ids is not None, "row_sparse_pull needs row_ids="
        with autograd.pause():
            for one, target, rows in _with_rows(key, out, row_ids):
                if not isinstance(target, RowSparseNDArray):
                    raise MXNetError(f"row_sparse_pull needs row_sparse arrays, but out is {target.stype}")
                stored = self._stored_value(one)
                whole = stored if isinstance(stored, RowSparseNDArray) else stored.tostype("row_sparse")
                whole.retain(rows).as_in_context(target.context).copyto(target)

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Raise ValueError: a store in one process sends nothing that could be compressed."""
        raise ValueError("Gradient compression is not supported for this type of kvstore")

    def set_optimizer(self, optimizer: optimizer.Optimizer) -> None:
        """Update stored values by an optimizer from now on: pushed values are gradients."""
        self._set_updater(_get_updater(optimizer))

    def _set_updater(self, updater: Callable[[Any, NDArray, NDArray], Any]) -> None:
        """Call ``updater(key, pushed, stored)`` to update a stored value."""
        self._updater = updater

    set_updater = _set_updater

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the states of the optimizer to a file, in the format of the setting ``states_format``."""
        assert isinstance(self._updater, optimizer.Updater), "Cannot save states: the store has no optimizer"
        write_atomically(fname, [self._updater.get_states(dump_optimizer)])

    def load_optimizer_states(self, fname: str) -> None:
        """Read the states of the optimizer from a file; an error leaves them as they were."""
        assert isinstance(self._updater, optimizer.Updater), "Cannot load states: the store has no optimizer"
        with open(fname, "rb") as file:
            self._updater._install(self._updater._read_states(file.read(), fname, self._values))

    def _barrier(self) -> None:
        """Do nothing: there is no other process to wait for."""


_get_updater = optimizer.get_updater


def create(name: str = "local") -> KVStoreBase:
    """Return a new store by its type: 'local', 'device', or the name of a registered class.

    Raises
    ------
    ValueError
        If the type is unknown. Stores of several processes ('dist_sync' and others) do not exist.
    """
    if not isinstance(name, str):
        raise TypeError("name must be a string")
    name = name.lower()
    if name in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[name]()
    if name not in _LOCAL:
        raise ValueError(
            f"Unknown KVStore type {name!r}: use 'local', 'device' or the name of a registered class"
            + (_ADVICE if name.startswith(("dist", "horovod", "p3")) else "")
        )
    return KVStore("local" if name.startswith("local") else "device")
