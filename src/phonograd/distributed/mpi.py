"""MPICommunicator: a group over mpi4py.

Takes an MPI communicator; passes the memory of arrays to MPI as it is. On one machine ranks reduce arrays in shared
memory (:mod:`phonograd.distributed.shared`); between machines :mod:`phonograd.distributed.ring` does. Errors of ranks
that differ come from :mod:`phonograd.distributed.rounds` (decision 0022).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.base.settings import current
from .agreement import MissingRanks, name_missing
from .communicator import Array
from .group import Described, Group, Transfer, kind_of_reduction
from .ring import Ring
from .rounds import BACKGROUND, FOREGROUND, MessageRounds, Pace, Rounds, SharedRounds, wait_for
from .shared import Layout, SharedReduction, share_memory

__all__ = ["MPICommunicator"]

#: MPI counts elements with 31 bits
_MOST_BYTES = 1 << 30
#: between machines, arrays from this size on go around a ring
_LEAST_BYTES_OF_RING = 64 << 10
_NAMES = {"sum": "SUM", "min": "MIN", "max": "MAX", "product": "PROD"}
_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "sum": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "product": np.multiply,
}
_TAG_OF_PARTS, _TAG_OF_MESSAGES = 1, 2


class MPICommunicator(Group):
    """A group of processes that MPI connects.

    Parameters
    ----------
    mpi
        The module ``mpi4py.MPI``.
    communicator
        An MPI communicator; the group works on duplicates of it.
    """

    def __init__(self, mpi: Any, communicator: Any) -> None:
        local = communicator.Split_type(mpi.COMM_TYPE_SHARED)
        is_beside_first = local.allreduce(communicator.rank, mpi.MIN) == 0
        super().__init__(communicator.rank, communicator.size, local.rank, local.size, is_beside_first)
        # the same on all ranks: no machine has all of them, or one has
        is_one_machine = local.size == communicator.size
        local.Free()
        self._mpi = mpi
        self._operations = {name: getattr(mpi, each) for name, each in _NAMES.items()}
        self._communicator = communicator.Dup()
        self._ring = Ring(self._communicator, self._wait)
        self._rounds: Rounds
        self._shared: SharedReduction | None = None
        of_rounds = communicator.Dup()
        memory = share_memory(of_rounds) if is_one_machine else None
        if memory is None:
            self._rounds = MessageRounds(mpi, of_rounds)
        else:
            self._rounds = SharedRounds(of_rounds, memory.words)
            # the same on all ranks, because it decides about buckets
            self.hides_transfers = bool(communicator.allreduce(int(_has_spare_core(self.local_size)), mpi.MIN))
            self._shared = SharedReduction(self.rank, memory, self._wait_for_counts)

    def _begin_round(self, description: str) -> None:
        self._rounds.begin(description)

    def _end_round(self, description: str) -> None:
        self._rounds.end(description, current().rank_timeout, self._pace())

    def _pace(self) -> Pace:
        """Return how to wait: the program computes while the thread for reductions waits."""
        return FOREGROUND if self._is_caller() else BACKGROUND

    def _wait(self, is_done: Callable[[], bool]) -> None:
        """Wait for a message, and leave the core to others meanwhile."""
        waited = wait_for(is_done, current().rank_timeout, self._pace())
        if waited:
            raise MissingRanks(
                f"a transfer to rank {self.rank} of {self.size} made no progress for {waited:.0f} s: another rank has "
                "stopped, or the network is down"
            )

    def _wait_for_counts(self, counts: Array, number: int) -> None:
        """Wait until the counts of all ranks, in shared memory, have reached a number."""
        waited = wait_for(lambda: min(counts.tolist()) >= number, current().rank_timeout, self._pace())
        if waited:
            arrived = {rank for rank, count in enumerate(counts.tolist()) if count >= number}
            raise MissingRanks(name_missing("a transfer", waited, arrived, self.size))

    def _plan_reduction(
        self, described: Described, arrays: list[Array], operation: str
    ) -> tuple[Callable[[], None] | None, Transfer]:
        layout, shared = described.layout, self._shared
        if layout is None and shared is not None:
            layout = described.layout = self._lay_out(shared, arrays)
        if layout is None or shared is None or len(layout.chunks) != 1:
            return super()._plan_reduction(described, arrays, operation)

        # the announcement of the round says that the rooms are filled, too
        def prepare() -> None:
            shared.put(layout.chunks[0], arrays)

        def transfer() -> list[Array]:
            results: list[Array] = layout.make_results()
            shared.combine(layout.chunks[0], results, _FUNCTIONS[operation])
            return results

        return prepare, transfer

    def _reduce(self, described: Described, arrays: list[Array], operation: str) -> list[Array]:
        if self._shared is None:
            return super()._reduce(described, arrays, operation)
        if described.layout is None:
            described.layout = self._lay_out(self._shared, arrays)
        results: list[Array] = described.layout.make_results()
        self._shared.reduce(described.layout, arrays, results, _FUNCTIONS[operation])
        return results

    def _lay_out(self, shared: SharedReduction, arrays: list[Array]) -> Layout:
        return shared.lay_out(arrays, [kind_of_reduction(array.dtype) for array in arrays])

    def _reduce_into(self, array: Array, result: Array, operation: str) -> None:
        for source, target in _chunks(array, result):
            if source.nbytes < _LEAST_BYTES_OF_RING:
                self._wait(self._communicator.Iallreduce(source, target, self._operations[operation]).Test)
            else:
                self._ring.reduce(source.reshape(-1), target.reshape(-1), _FUNCTIONS[operation])

    def _broadcast_into(self, data: Array, root: int) -> None:
        for part, _ in _chunks(data, data):
            self._wait(self._communicator.Ibcast(part, root).Test)

    def _exchange(self, sent: Sequence[Array], received: Sequence[Array]) -> None:
        requests = [
            self._communicator.Irecv(chunk, source=rank, tag=_TAG_OF_PARTS)
            for rank, part in enumerate(received)
            for chunk, _ in _chunks(part, part)
        ]
        requests += [
            self._communicator.Isend(chunk, dest=rank, tag=_TAG_OF_PARTS)
            for rank, part in enumerate(sent)
            for chunk, _ in _chunks(part, part)
        ]
        for request in requests:
            self._wait(request.Test)

    def _send(self, data: Array, rank: int) -> None:
        self._wait(self._communicator.Isend(data, dest=rank, tag=_TAG_OF_MESSAGES).Test)

    def _receive(self, data: Array, rank: int) -> None:
        self._wait(self._communicator.Irecv(data, source=rank, tag=_TAG_OF_MESSAGES).Test)

    def _split(self, color: int, key: int) -> Group:
        return MPICommunicator(self._mpi, self._communicator.Split(color, key))


def _has_spare_core(ranks: int) -> bool:
    """Return whether this process may use more cores than its threads, and those of other ranks beside it, take."""
    cores, all_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0, os.cpu_count() or 1
    is_bound = 0 < cores < all_cores
    return (cores or all_cores) > current().num_threads * (1 if is_bound else ranks)


def _chunks(first: Array, second: Array) -> list[tuple[Array, Array]]:
    """Return the pieces in which MPI can count two arrays of one size and dtype; none if they are empty."""
    if first.nbytes <= _MOST_BYTES:
        return [(first, second)] if first.size else []
    most = max(1, _MOST_BYTES // first.itemsize)
    one, other = first.reshape(-1), second.reshape(-1)
    return [(one[start : start + most], other[start : start + most]) for start in range(0, one.size, most)]
