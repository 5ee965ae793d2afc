"""Communicator: the protocol of a group of processes, and the group of one.

Stores, Horovod's interface, SyncBatchNorm and metrics use this protocol and nothing of MPI. Takes NumPy arrays and
hands NumPy arrays back; :mod:`phonograd.distributed.mpi` implements it for several processes (decision 0022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

__all__ = ["OPERATIONS", "Communicator", "Finished", "LocalCommunicator", "Work"]

Array = np.ndarray[Any, Any]
Item = TypeVar("Item")
#: names of reductions
OPERATIONS = ("sum", "min", "max", "product")


class Work(Protocol):
    """A reduction that may still be under way."""

    def wait(self) -> list[Array]:
        """Return the results; an error of the reduction is raised here."""


class Finished:
    """A reduction that is complete."""

    def __init__(self, results: list[Array]) -> None:
        self._results = results

    def wait(self) -> list[Array]:
        """Return the results."""
        return self._results


@runtime_checkable
class Communicator(Protocol):
    """A group of processes (ranks). All ranks call the same methods in the same order.

    ``label`` names an operation in errors and profiles. Operations that differ between ranks raise an error on all of
    them.
    """

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""

    @property
    def size(self) -> int:
        """The number of processes."""

    @property
    def local_rank(self) -> int:
        """The number of this process among those on the same machine."""

    @property
    def local_size(self) -> int:
        """The number of processes on the same machine."""

    @property
    def hides_transfers(self) -> bool:
        """Return whether reductions in the background save time: not where each core has a rank that computes."""

    def all_reduce(self, arrays: Sequence[Array], operation: str = "sum", label: str = "all_reduce") -> list[Array]:
        """Return new arrays with the element-wise reductions over all ranks: the same bits on all of them."""

    def begin_all_reduce(self, arrays: Sequence[Array], label: str) -> Work:
        """Start to add up arrays in the background. The caller leaves them unchanged until the work is done."""

    def broadcast(self, arrays: Sequence[Array], root: int = 0, label: str = "broadcast") -> list[Array]:
        """Return the arrays of one rank; those of the other ranks only give shapes and dtypes."""

    def all_gather(self, array: Array, label: str = "all_gather") -> list[Array]:
        """Return the arrays of all ranks in order; their first axes may differ."""

    def all_to_all(self, parts: Sequence[Array], label: str = "all_to_all") -> list[Array]:
        """Send one array to each rank, and return those received; their first axes may differ."""

    def gather_texts(self, text: str, label: str = "gather_texts") -> list[str]:
        """Return the texts of all ranks in order."""

    def barrier(self, label: str = "barrier") -> None:
        """Wait until all ranks have called it."""

    def clock_offset_ns(self) -> int:
        """Return by how many nanoseconds ``perf_counter_ns`` of this rank is ahead of that of rank 0."""

    def split(self, color: int, key: int = 0) -> Communicator:
        """Return the group of the ranks that give the same color, ordered by key."""


class LocalCommunicator:
    """A group of one process: every operation returns what it is given.

    >>> group = LocalCommunicator()
    >>> group.rank, group.size
    (0, 1)
    >>> group.all_reduce([np.ones(2)])[0].tolist()
    [1.0, 1.0]
    """

    rank = 0
    size = 1
    local_rank = 0
    local_size = 1
    hides_transfers = False

    def all_reduce(self, arrays: Sequence[Array], operation: str = "sum", label: str = "all_reduce") -> list[Array]:
        """Return copies of the arrays."""
        check_operation(operation)
        return [np.array(array) for array in arrays]

    def begin_all_reduce(self, arrays: Sequence[Array], label: str) -> Work:
        """Return finished work with copies of the arrays."""
        return Finished(self.all_reduce(arrays))

    def broadcast(self, arrays: Sequence[Array], root: int = 0, label: str = "broadcast") -> list[Array]:
        """Return copies of the arrays."""
        check_rank(root, 1)
        return [np.array(array) for array in arrays]

    def all_gather(self, array: Array, label: str = "all_gather") -> list[Array]:
        """Return a copy of the array in a list."""
        return [np.array(array)]

    def all_to_all(self, parts: Sequence[Array], label: str = "all_to_all") -> list[Array]:
        """Return a copy of the only part in a list."""
        check_parts(parts, 1)
        return [np.array(part) for part in parts]

    def gather_texts(self, text: str, label: str = "gather_texts") -> list[str]:
        """Return the text in a list."""
        return [text]

    def barrier(self, label: str = "barrier") -> None:
        """Return at once."""

    def clock_offset_ns(self) -> int:
        """Return 0."""
        return 0

    def split(self, color: int, key: int = 0) -> LocalCommunicator:
        """Return this group."""
        return self


def check_operation(operation: str) -> None:
    """Raise unless a reduction exists."""
    if operation not in OPERATIONS:
        raise ValueError(f"operation must be one of {', '.join(OPERATIONS)}, not {operation!r}")


def check_rank(rank: int, size: int) -> None:
    """Raise unless a group has a rank."""
    if not 0 <= rank < size:
        raise ValueError(f"root must be a rank in 0..{size - 1}, not {rank}")


def check_parts(parts: Sequence[Item], size: int) -> None:
    """Raise unless there is one part for each rank."""
    if len(parts) != size:
        raise ValueError(f"all_to_all needs one array for each of {size} ranks, not {len(parts)}")
