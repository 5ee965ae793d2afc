"""KVStore, a store in one process, and DistributedKVStore, the same store on several (``mxnet.kvstore.kvstore``).

Each rank of a distributed store holds all values. A push adds up the values of all ranks, which then make the same
update, so a pull only reads memory (decision 0022). Takes arrays by key; hands sums to optimizers and arrays to
callers. Reductions go through :mod:`phonograd.distributed`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from .. import autograd
from ..core.base.devices import Context
from ..core.base.docstrings import complete_classes
from ..core.base.errors import MXNetError
from ..core.base.files import write_atomically
from ..distributed.arrays import add_up, add_up_rows, broadcast
from ..distributed.communicator import Communicator
from ..distributed.compression import Compression, make_compression
from ..distributed.world import world
from ..ndarray.array import NDArray
from ..ndarray.sparse import RowSparseNDArray, unique_rows
from ..optimizer import Optimizer, Updater, get_updater
from .base import KVStoreBase, name_keys, pairs, values_by_key, with_rows

__all__ = ["DistributedKVStore", "KVStore"]


class KVStore(KVStoreBase):
    """Store arrays in this process."""

    #: whether values are added up in this process alone
    _in_process = True

    def __init__(self, kind: str = "local") -> None:
        self._kind = kind
        self._values: dict[Any, NDArray] = {}
        self._updater: Callable[[Any, NDArray, NDArray], Any] | None = None
        #: whether keys are strings, known from the first key on
        self._words: bool | None = None
        self._compression: Compression | None = None

    @property
    def type(self) -> str:
        """The type of the store, for example 'local' or 'device'."""
        return self._kind

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Return whether the store has a capability. Its only one is 'optimizer': it can update values."""
        if capability.lower() != KVStoreBase.OPTIMIZER:
            raise ValueError(f"Unknown capability: {capability}")
        return True

    def init(self, key: Any, value: Any) -> None:
        """Store arrays under new keys."""
        found: dict[Any, NDArray] = {}
        for one, values in pairs(key, value):
            self._check_kind(one)
            if one in self._values or one in found:
                raise MXNetError(
                    f"duplicate init of key {one}. Please double check if you called kv.init or kv.broadcast"
                )
            found[one] = values[0].copy()
        self._values.update(self._take_first(found))

    def _check_kind(self, key: Any) -> None:
        """Raise an error if the kind of a key, a string or a number, differs from that of the first key."""
        if self._words is None:
            self._words = isinstance(key, str)
        elif self._words != isinstance(key, str):
            raise MXNetError("mixed key types are not allowed: all keys of a store are strings, or all are integers")

    def _take_first(self, values: dict[Any, NDArray]) -> dict[Any, NDArray]:
        """Return the values of the first process."""
        return values

    def _stored_value(self, key: Any) -> NDArray:
        if key not in self._values:
            raise MXNetError(f"key {key} has not been inited")
        return self._values[key]

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Add up the values of each key from all contexts, and store the sum or update the stored value by it."""
        with autograd.pause():
            found = values_by_key(key, value)
            stored = [self._stored_value(one) for one in found]
            totals = self._add_up(
                {
                    one: functools.reduce(operator.add, self._received(one, values, own.context))
                    for (one, values), own in zip(found.items(), stored)
                }
            )
            if self._updater is None:
                self._values.update({one: self._own(total) for one, total in totals.items()})
            elif isinstance(self._updater, Updater):
                # one call for all keys: an optimizer may update several at once
                self._updater(list(totals), list(totals.values()), stored)
            else:
                for (one, total), own in zip(totals.items(), stored):
                    self._updater(one, total, own)

    def _received(self, key: Any, values: list[NDArray], context: Context) -> list[NDArray]:
        """Return the values of all contexts on one context."""
        if self._compression is not None and self._in_process:
            code = self._compression
            values = [code.as_sent((key, number), value) for number, value in enumerate(values)]
        return [value.as_in_context(context) for value in values]

    def _add_up(self, values: dict[Any, NDArray]) -> dict[Any, NDArray]:
        """Return the sums of values over all processes."""
        return values

    def _own(self, total: NDArray) -> NDArray:
        """Return a sum as an array that belongs to the store alone."""
        return total.copy()

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Copy the stored value of each key to arrays; `ignore_sparse` skips sparse arrays."""
        assert out is not None, "pull needs out=: the arrays to copy the values to"
        with autograd.pause():
            for one, targets in pairs(key, out):
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
            for one, target, rows in with_rows(key, out, row_ids):
                if not isinstance(target, RowSparseNDArray):
                    raise MXNetError(f"row_sparse_pull needs row_sparse arrays, but out is {target.stype}")
                stored = self._stored_value(one)
                whole = stored if isinstance(stored, RowSparseNDArray) else stored.tostype("row_sparse")
                whole.retain(unique_rows(rows, whole.context)).as_in_context(target.context).copyto(target)

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Send pushed values in fewer bits from now on. The error of each value is added to the next one of its key.

        A store in one process compresses what contexts send to each other, if its type names devices.

        Parameters
        ----------
        compression_params
            ``{"type": "2bit", "threshold": 0.5}`` sends -threshold, 0 or threshold for each element. The type '1bit'
            sends -1 or 1, depending on the threshold. The type 'none' sends all bits.
        """
        if self._in_process and "device" not in self._kind:
            raise ValueError("Gradient compression is not supported for this type of kvstore; use 'device'")
        self._compression = make_compression(compression_params)

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Update stored values by an optimizer from now on: pushed values are gradients."""
        self._set_updater(get_updater(optimizer))

    def _set_updater(self, updater: Callable[[Any, NDArray, NDArray], Any]) -> None:
        """Call ``updater(key, pushed, stored)`` to update a stored value."""
        self._updater = updater

    set_updater = _set_updater

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Write the states of the optimizer to a file, in the format of the setting ``states_format``."""
        assert isinstance(self._updater, Updater), "Cannot save states: the store has no optimizer"
        write_atomically(fname, [self._updater.get_states(dump_optimizer)])

    def load_optimizer_states(self, fname: str) -> None:
        """Read the states of the optimizer from a file; an error leaves them as they were."""
        assert isinstance(self._updater, Updater), "Cannot load states: the store has no optimizer"
        with open(fname, "rb") as file:
            self._updater._install(self._updater._read_states(file.read(), fname, self._values))

    def _barrier(self) -> None:
        """Do nothing: there is no other process to wait for."""

    barrier = _barrier

    def _send_command_to_servers(self, head: int, body: str) -> None:
        """Raise an error: there are no servers, and all processes hold the store."""
        raise MXNetError(
            "there are no servers: every process holds the store. Call the method in every process instead"
        )


class DistributedKVStore(KVStore):
    """Store arrays in all processes of a group; pushed values are added up over all of them.

    All processes must make the same calls in the same order. Calls that differ raise an error in all of them.

    Parameters
    ----------
    kind
        The type, for example 'dist_sync'.
    group
        The processes; all that were launched together by default.
    """

    _in_process = False

    def __init__(self, kind: str = "dist_sync", group: Communicator | None = None) -> None:
        super().__init__(kind)
        self._given_group = group
        # an error of the launcher is raised here
        world()

    @property
    def _group(self) -> Communicator:
        """The processes; in elastic training they change."""
        return world() if self._given_group is None else self._given_group

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        return self._group.rank

    @property
    def num_workers(self) -> int:
        """The number of processes."""
        return self._group.size

    def _take_first(self, values: dict[Any, NDArray]) -> dict[Any, NDArray]:
        received = broadcast(self._group, list(values.values()), label=f"init of {name_keys(values)}")
        return dict(zip(values, received))

    def _add_up(self, values: dict[Any, NDArray]) -> dict[Any, NDArray]:
        if self._group.size == 1 and self._compression is None:
            return values
        rows = {one: value for one, value in values.items() if isinstance(value, RowSparseNDArray)}
        dense = {one: value for one, value in values.items() if one not in rows}
        label = f"push of {name_keys(dense)}"
        if self._compression is not None and dense:
            sums = self._compression.add_up(self._group, dense, label)
        else:
            sums = dict(zip(dense, add_up(self._group, list(dense.values()), label)))
        for one, value in rows.items():
            sums[one] = add_up_rows(self._group, value, f"push of rows of {one}")
        return {one: sums[one] for one in values}

    def _own(self, total: NDArray) -> NDArray:
        # sums over several processes are new arrays
        return total if self._group.size > 1 else super()._own(total)

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Update stored values by an optimizer from now on: pushed values are gradients."""
        self._group.barrier(f"set_optimizer({type(optimizer).__name__})")
        super().set_optimizer(optimizer)

    def _barrier(self) -> None:
        """Wait until all processes have called it."""
        self._group.barrier()

    barrier = _barrier


complete_classes(globals())
