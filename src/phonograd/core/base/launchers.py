"""The variables in which launchers of several processes tell each process its place.

Takes the environment; hands the place of this process to settings, which divide the cores, and to
:mod:`phonograd.distributed`. Nothing here starts MPI.

| launcher | variables |
|---|---|
| ``phonograd launch``, ``mpirun`` of Open MPI, Kubernetes' MPI operator with it | OMPI_COMM_WORLD_* |
| ``mpirun`` of MPICH and Intel MPI, the MPI operator with them, ``srun --mpi=pmi2`` | PMI_*, MPI_LOCAL* |
| other launchers that speak PMIx | PMIX_RANK |
| ``srun`` | SLURM_*, beside those of ``--mpi=pmix`` or ``--mpi=pmi2`` |
| ``phonograd launch --elastic`` | PHONOGRAD_SLOT |
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["SLOT", "Place", "find_place"]

#: the number of a process of elastic training, which its replacement gets, too
SLOT = "PHONOGRAD_SLOT"
_RANKS = (SLOT, "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK")
_LOCAL_SIZES = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PMI_LOCAL_SIZE")


class Place(NamedTuple):
    """The place of a process among those that were started together. 0 is an unknown size, -1 an unknown local rank."""

    rank: int
    size: int
    local_rank: int
    local_size: int


def find_place(variables: Mapping[str, str] | None = None) -> Place | None:
    """Return the place that a launcher gave to this process; None if no launcher of several processes started it.

    >>> find_place({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"})
    Place(rank=5, size=8, local_rank=-1, local_size=4)
    >>> find_place({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"})  # the script of a job, outside of srun
    """
    given = os.environ if variables is None else variables
    tasks = _number(given, ("SLURM_STEP_NUM_TASKS",), 1) if "SLURM_PROCID" in given else 1
    ranks = (*_RANKS, "SLURM_PROCID") if tasks > 1 else _RANKS
    if not any([name in given for name in (*ranks, *_SIZES)]):
        return None
    in_step = tasks > 1
    return Place(
        _number(given, ranks, 0),
        _number(given, _SIZES, tasks if in_step else 0),
        _number(given, (*_LOCAL_RANKS, "SLURM_LOCALID") if in_step else _LOCAL_RANKS, -1),
        _number(given, _LOCAL_SIZES, _tasks_beside(given) if in_step else 0),
    )


def _number(given: Mapping[str, str], names: tuple[str, ...], otherwise: int) -> int:
    return int(next((given[name] for name in names if name in given), otherwise))


def _tasks_beside(given: Mapping[str, str]) -> int:
    """Return how many tasks of a step of Slurm run on this node; 0 if that is unknown.

    >>> _tasks_beside({"SLURM_STEP_TASKS_PER_NODE": "4(x2),1", "SLURM_NODEID": "2"})
    1
    """
    counts: list[int] = []
    for count, repeated in re.findall(r"(\d+)(?:\(x(\d+)\))?", given.get("SLURM_STEP_TASKS_PER_NODE", "")):
        counts += [int(count)] * int(repeated or 1)
    node = int(given.get("SLURM_NODEID", "0"))
    return counts[node] if node < len(counts) else 0
