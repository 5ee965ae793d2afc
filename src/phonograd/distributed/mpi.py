"""MPICommunicator: a group over mpi4py.

Takes an MPI communicator; passes the memory of arrays to MPI as it is. On one machine MPI reduces arrays; between
machines :mod:`phonograd.distributed.ring` does. Errors of ranks that differ come from
:mod:`phonograd.distributed.rounds` (decision 0022).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.base.settings import current
from .agreement import MissingRanks
from .communicator import Array
from .group import Group
from .ring import Ring
from .rounds import MessageRounds, Rounds, SharedRounds, share_memory, wait_for

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
        self._is_one_machine = local.size == communicator.size
        local.Free()
        self._mpi = mpi
        self._operations = {name: getattr(mpi, each) for name, each in _NAMES.items()}
        self._communicator = communicator.Dup()
        self._ring = Ring(self._communicator, self._wait)
        self._rounds = _make_rounds(mpi, communicator.Dup(), self._is_one_machine)

    def _begin_round(self, description: str) -> None:
        self._rounds.begin(description)

    def _end_round(self, description: str) -> None:
        self._rounds.end(description, current().rank_timeout)

    def _wait(self, is_done: Callable[[], bool]) -> None:
        """Wait for a message, and leave the core to others meanwhile."""
        waited = wait_for(is_done, current().rank_timeout)
        if waited:
            raise MissingRanks(
                f"a transfer to rank {self.rank} of {self.size} made no progress for {waited:.0f} s: another rank has "
                "stopped, or the network is down"
            )

    def _reduce_into(self, array: Array, result: Array, operation: str) -> None:
        for source, target in _chunks(array, result):
            if self._is_one_machine:
                self._communicator.Allreduce(source, target, self._operations[operation])
            elif source.nbytes < _LEAST_BYTES_OF_RING:
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
        self._communicator.Send(data, dest=rank, tag=_TAG_OF_MESSAGES)

    def _receive(self, data: Array, rank: int) -> None:
        self._communicator.Recv(data, source=rank, tag=_TAG_OF_MESSAGES)

    def _split(self, color: int, key: int) -> Group:
        return MPICommunicator(self._mpi, self._communicator.Split(color, key))


def _make_rounds(mpi: Any, communicator: Any, is_one_machine: bool) -> Rounds:
    memory = share_memory(communicator) if is_one_machine else None
    return MessageRounds(mpi, communicator) if memory is None else SharedRounds(communicator, memory)


def _chunks(first: Array, second: Array) -> list[tuple[Array, Array]]:
    """Return the pieces in which MPI can count two arrays of one size and dtype; none if they are empty."""
    if first.nbytes <= _MOST_BYTES:
        return [(first, second)] if first.size else []
    most = max(1, _MOST_BYTES // first.itemsize)
    one, other = first.reshape(-1), second.reshape(-1)
    return [(one[start : start + most], other[start : start + most]) for start in range(0, one.size, most)]
