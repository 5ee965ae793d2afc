"""The group of this process: all processes that one launcher of MPI started, or this process alone.

:func:`world` finds it at first use. A process that no launcher started is a group of one and needs no mpi4py. In a
larger group, an exception that nothing catches ends all ranks, the end of the program waits for all of them, and random
numbers that are drawn while recording differ by rank (decision 0022).
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import threading
import traceback
from types import TracebackType
from typing import Any

from ..core.base.errors import MXNetError
from ..core.base.launchers import find_place
from ..core.trace import rng
from . import channel, membership
from .communicator import Communicator, LocalCommunicator
from .watch import Watch

__all__ = ["is_main", "local_rank", "local_size", "rank", "size", "use", "world"]

_lock = threading.Lock()
_world: Communicator | None = None


def world() -> Communicator:
    """Return the group of this process.

    >>> world().size
    1

    Raises
    ------
    MXNetError
        If a launcher of MPI started this process, but mpi4py is missing or does not belong to the launcher.
    """
    global _world
    if _world is None:
        with _lock:
            if _world is None:
                _world = _find()
    return _world


def _find() -> Communicator:
    """Return the group in which this process starts."""
    if membership.is_elastic():
        # alone until elastic.run()
        channel.connect()
        sys.excepthook = _Hook(None, sys.excepthook)
        return LocalCommunicator()
    place = find_place()
    return LocalCommunicator() if place is None else _connect(place.size)


def use(group: Communicator) -> None:
    """Make a group that of this process, for instance one of :meth:`Communicator.split`."""
    global _world
    _world = group
    rng.set_rank(group.rank)


def rank() -> int:
    """Return the number of this process, from 0."""
    return world().rank


def size() -> int:
    """Return the number of processes."""
    return world().size


def local_rank() -> int:
    """Return the number of this process among those on the same machine."""
    return world().local_rank


def local_size() -> int:
    """Return the number of processes on the same machine."""
    return world().local_size


def is_main() -> bool:
    """Return whether this is rank 0, without starting MPI."""
    if _world is not None:
        return _world.rank == 0
    place = find_place()
    return place is None or place.rank == 0


def _connect(promised: int) -> Communicator:
    """Return the group that the launcher started, with a number of processes; 0 if that is unknown."""
    if multiprocessing.parent_process() is not None:
        raise MXNetError(
            "a process of multiprocessing is no rank and cannot communicate: workers of a DataLoader must leave that "
            "to the process that started them"
        )
    kernels = sys.modules.get("ipykernel.kernelapp")
    if kernels is not None and kernels.IPKernelApp.initialized():
        raise MXNetError(
            "a kernel of Jupyter is no rank: the cells of one notebook run in one process, and the other ranks would "
            "wait for it for ever. Start a script with `phonograd launch`, and Jupyter without a launcher"
        )
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise MXNetError(
            f"a launcher of MPI started this process, but mpi4py cannot be imported ({error}): "
            "pip install 'phonograd[mpi]'"
        ) from error
    from .mpi import MPICommunicator

    everyone = MPI.COMM_WORLD
    if everyone.size == 1 and promised > 1:
        raise MXNetError(
            f"the launcher started {promised} processes, but each of them is alone: mpi4py uses another MPI than the "
            "launcher. Start with `phonograd launch`, or under Slurm with `srun --mpi=pmix`"
        )
    if everyone.size == 1:
        return LocalCommunicator()
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise MXNetError("this MPI has no MPI_THREAD_MULTIPLE, which reductions in the background need")
    channel.connect()
    sys.excepthook = _Hook(everyone, sys.excepthook)
    group = MPICommunicator(MPI, everyone)
    rng.set_rank(group.rank)
    # the same on all ranks: one launcher started all of them
    watch = None if channel.VARIABLE in os.environ else Watch(everyone.Dup())

    def end() -> None:
        group.end()
        if watch is not None:
            watch.end()

    atexit.register(end)
    return group


class _Hook:
    """A ``sys.excepthook`` that shows an exception and ends all ranks: by the launcher, or those that MPI connects."""

    def __init__(self, everyone: Any | None, shown_by: Any) -> None:
        self._everyone = everyone
        self._shown_by = shown_by

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        status = 130 if issubclass(kind, KeyboardInterrupt) else 1
        text = "".join(traceback.format_exception(kind, error, trace))
        if channel.report(text):
            # the launcher shows the first failure of all ranks and ends them
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        self._shown_by(kind, error, trace)
        if self._everyone is None:
            return
        print(f"rank {self._everyone.rank} of {self._everyone.size} failed; all ranks end", file=sys.stderr)  # noqa: T201
        sys.stdout.flush()
        sys.stderr.flush()
        self._everyone.Abort(status)
