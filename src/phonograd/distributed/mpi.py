"""MPICommunicator: a group over mpi4py.

Takes an MPI communicator; passes the memory of arrays to MPI as it is. Errors of ranks that differ come from
:mod:`phonograd.distributed.agreement` (decision 0022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.base.settings import current
from .agreement import Agreement
from .communicator import Array
from .group import Group

__all__ = ["MPICommunicator"]

#: MPI counts elements with 31 bits
_MOST_BYTES = 1 << 30
_NAMES = {"sum": "SUM", "min": "MIN", "max": "MAX", "product": "PROD"}
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
        local.Free()
        self._mpi = mpi
        self._communicator = communicator.Dup()
        self._agreement = Agreement(mpi, communicator.Dup())

    def _reach(self, description: str) -> None:
        self._agreement.reach(description, current().rank_timeout)

    def _reduce_into(self, array: Array, result: Array, operation: str) -> None:
        mpi_operation = getattr(self._mpi, _NAMES[operation])
        for source, target in zip(_chunks(array.reshape(-1)), _chunks(result.reshape(-1)), strict=True):
            self._communicator.Allreduce(source, target, mpi_operation)

    def _broadcast_into(self, data: Array, root: int) -> None:
        for part in _chunks(data):
            self._communicator.Bcast(part, root)

    def _exchange(self, sent: Sequence[Array], received: Sequence[Array]) -> None:
        requests = [
            self._communicator.Irecv(chunk, source=rank, tag=_TAG_OF_PARTS)
            for rank, part in enumerate(received)
            for chunk in _chunks(part)
        ]
        requests += [
            self._communicator.Isend(chunk, dest=rank, tag=_TAG_OF_PARTS)
            for rank, part in enumerate(sent)
            for chunk in _chunks(part)
        ]
        self._mpi.Request.Waitall(requests)

    def _send(self, data: Array, rank: int) -> None:
        self._communicator.Send(data, dest=rank, tag=_TAG_OF_MESSAGES)

    def _receive(self, data: Array, rank: int) -> None:
        self._communicator.Recv(data, source=rank, tag=_TAG_OF_MESSAGES)

    def _split(self, color: int, key: int) -> Group:
        return MPICommunicator(self._mpi, self._communicator.Split(color, key))


def _chunks(flat: Array) -> list[Array]:
    """Return the pieces in which MPI can count a flat array; none if it is empty."""
    most = max(1, _MOST_BYTES // flat.itemsize)
    return [flat[start : start + most] for start in range(0, flat.size, most)]
