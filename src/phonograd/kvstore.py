"""mx.kv: a store of arrays by keys, in which values from several contexts come together.

Stores of types 'local' and 'device' live in one process; both are the same here.

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
    ". Several processes cannot share a store here. In one process use 'device'. For several, add up gradients with a "
    "library of your choice (mpi4py) between trainer.allreduce_grads() and trainer.update(batch_size), or register a "
    "class that does so with mx.kv.KVStoreBase.register"
)


class KVStoreBase:
    """The base class of stores; subclasses are registered by their names."""

    OPTIMIZER = "optimizer"
    kv_registry: dict[str, type[KVStoreBase]] = {}

    @staticmethod
    def register(klass: type[KVStoreBase]) -> type[KVStoreBase]:
        """Return a class of stores after registering it by its lower-case name."""
        KVStoreBase.kv_registry[klass.__name__.lower()] = klass
        return klass

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Store values, and copy them to `out`."""
        raise NotImplementedError(f"{type(self).__name__} has no broadcast")

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Add up values, and copy the result to `out`, or to the values themselves."""
        raise NotImplementedError(f"{type(self).__name__} has no pushpull")

    def set_optimizer(self, optimizer: Any) -> None:
        """Have values updated by an optimiser."""
        raise NotImplementedError(f"{type(self).__name__} has no set_optimizer")

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Return whether the store can do something: 'optimizer' is to update values by itself."""
        raise NotImplementedError("a store says what it can do")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write what the optimiser remembers to a file."""
        raise NotImplementedError(f"{type(self).__name__} has no save_optimizer_states")

    def load_optimizer_states(self, fname: str) -> None:
        """Read what the optimiser remembers from a file."""
        raise NotImplementedError(f"{type(self).__name__} has no load_optimizer_states")

    @property
    def type(self) -> str:
        """The type of the store."""
        return type(self).__name__.lower()

    @property
    def rank(self) -> int:
        """The number of this process."""
        return 0

    @property
    def num_workers(self) -> int:
        """The number of processes."""
        return 1


def _pairs(key: Any, value: Any) -> Iterator[tuple[Any, list[NDArray]]]:
    """Return each key with its values: one array, or one from each context."""
    if not isinstance(key, (list, tuple)):
        yield key, [value] if isinstance(value, NDArray) else list(value)
        return
    assert len(key) == len(value), f"there are {len(key)} keys, but {len(value)} values"
    for one, values in zip(key, value):
        yield from _pairs(one, values)


def _gathered(key: Any, value: Any) -> dict[Any, list[NDArray]]:
    """Return all values of each key, also of one that is given several times."""
    found: dict[Any, list[NDArray]] = {}
    for one, values in _pairs(key, value):
        found.setdefault(one, []).extend(values)
    return found


def _with_rows(key: Any, out: Any, row_ids: Any) -> Iterator[tuple[Any, NDArray, NDArray]]:
    """Return each key with each of its arrays and the numbers of the rows that go there."""
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
    """A store in this process."""

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
        """Return whether the store can do something: it can update values by itself."""
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

    def _found(self, key: Any) -> NDArray:
        if key not in self._values:
            raise MXNetError(f"key {key} has not been inited")
        return self._values[key]

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Add up the values of each key from all contexts; the sum is stored, or what is stored is updated by it."""
        with autograd.pause():
            for one, values in _gathered(key, value).items():
                stored = self._found(one)
                total = functools.reduce(operator.add, [part.as_in_context(stored.context) for part in values])
                if self._updater is None:
                    self._values[one] = total.copy()
                else:
                    self._updater(one, total, stored)

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copy what is stored under each key to arrays; with `ignore_sparse`, arrays that are sparse are left out."""
        assert out is not None, "pull needs out=: the arrays that are to hold the values"
        with autograd.pause():
            for one, targets in _pairs(key, out):
                stored = self._found(one)
                for target in targets:
                    if ignore_sparse and target.stype != "default":
                        continue
                    if target.shape != stored.shape:
                        raise MXNetError(
                            f"operands shape mismatch: key {one} has shape {stored.shape}, and out {target.shape}"
                        )
                    target[:] = stored.as_in_context(target.context)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Push values and pull what is stored then, into `out` or into the values themselves."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority, ignore_sparse=False)

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Store values under new keys, and copy them to `out`."""
        self.init(key, value)
        self.pull(key, out, priority, ignore_sparse=False)

    def row_sparse_pull(self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None) -> None:
        """Copy some rows of what is stored under each key to row_sparse arrays; their other rows are zeros then.

        Parameters
        ----------
        key, out
            What to copy, and to which arrays.
        row_ids
            The numbers of the rows: an array, or one for each array in `out`.
        """
        assert out is not None, "row_sparse_pull needs out=: the arrays that are to hold the rows"
        assert row_ids is not None, "row_sparse_pull needs row_ids="
        with autograd.pause():
            for one, target, rows in _with_rows(key, out, row_ids):
                if not isinstance(target, RowSparseNDArray):
                    raise MXNetError(f"row_sparse_pull needs row_sparse arrays, but out is {target.stype}")
                stored = self._found(one)
                whole = stored if isinstance(stored, RowSparseNDArray) else stored.tostype("row_sparse")
                whole.retain(rows).as_in_context(target.context).copyto(target)

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Raise ValueError: nothing is sent anywhere that would be worth compressing."""
        raise ValueError("Gradient compression is not supported for this type of kvstore")

    def set_optimizer(self, optimizer: optimizer.Optimizer) -> None:
        """Have values updated by an optimiser: what is pushed are gradients then."""
        self._set_updater(_get_updater(optimizer))

    def _set_updater(self, updater: Callable[[Any, NDArray, NDArray], Any]) -> None:
        """Have a function ``updater(key, pushed, stored)`` change what is stored."""
        self._updater = updater

    set_updater = _set_updater

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write what the optimiser remembers to a file."""
        assert isinstance(self._updater, optimizer.Updater), "Cannot save states: the store has no optimizer"
        write_atomically(fname, [self._updater.get_states(dump_optimizer)])

    def load_optimizer_states(self, fname: str) -> None:
        """Read what the optimiser remembers from a file."""
        assert isinstance(self._updater, optimizer.Updater), "Cannot load states: the store has no optimizer"
        with open(fname, "rb") as file:
            self._updater.set_states(file.read())

    def _barrier(self) -> None:
        """Do nothing: there is no other process to wait for."""


_get_updater = optimizer.get_updater


def create(name: str = "local") -> KVStoreBase:
    """Return a new store of a type: 'local', 'device', or the name of a registered class.

    Raises
    ------
    ValueError
        If there is no such type: stores of several processes ('dist_sync' and others) do not exist.
    """
    if not isinstance(name, str):
        raise TypeError("name must be a string")
    name = name.lower()
    if name in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[name]()
    if name not in _LOCAL:
        raise ValueError(
            f"Unknown KVStore type {name!r}: there are 'local' and 'device', and registered classes"
            + (_ADVICE if name.startswith(("dist", "horovod", "p3")) else "")
        )
    return KVStore("local" if name.startswith("local") else "device")
