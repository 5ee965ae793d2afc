"""The place of a process, as launchers tell it."""

import subprocess
import sys

import pytest

from phonograd.core.base.launchers import Place, find_place

#: variables as the launchers set them for rank 5 of 8, the second of four processes on the second machine
LAUNCHERS = {
    "mpirun of Open MPI, and the MPI operator": {
        "OMPI_COMM_WORLD_RANK": "5",
        "OMPI_COMM_WORLD_SIZE": "8",
        "OMPI_COMM_WORLD_LOCAL_RANK": "1",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
        "PMIX_RANK": "5",
        "PMIX_NAMESPACE": "prterun-launcher-1@1",
    },
    "mpirun of MPICH and Intel MPI, and the MPI operator": {
        "PMI_RANK": "5",
        "PMI_SIZE": "8",
        "MPI_LOCALRANKID": "1",
        "MPI_LOCALNRANKS": "4",
    },
    "srun --mpi=pmix": {
        "PMIX_RANK": "5",
        "SLURM_PROCID": "5",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
        "SLURM_STEP_NUM_TASKS": "8",
        "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
    },
    "srun --mpi=pmi2": {
        "PMI_RANK": "5",
        "PMI_SIZE": "8",
        "SLURM_PROCID": "5",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
        "SLURM_STEP_NUM_TASKS": "8",
        "SLURM_STEP_TASKS_PER_NODE": "4,4",
    },
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_place_of_a_process(launcher) -> None:
    assert find_place(LAUNCHERS[launcher]) == Place(5, 8, 1, 4)


def test_processes_that_no_launcher_started() -> None:
    assert find_place({}) is None
    # the script of a job, and a step with one task
    assert find_place({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_LOCALID": "0"}) is None
    assert find_place({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}) is None


def test_facts_that_a_launcher_does_not_tell() -> None:
    assert find_place({"PMIX_RANK": "3"}) == Place(3, 0, -1, 0)
    assert find_place({"PHONOGRAD_SLOT": "2"}) == Place(2, 0, -1, 0)


def test_threads_of_ranks(monkeypatch) -> None:
    import os

    from phonograd.core.base import settings

    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    assert settings._cores() == 8
    for variables in LAUNCHERS.values():
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            assert settings._cores() == 4
            patch.setattr(os, "sched_getaffinity", lambda process: {3}, raising=False)
            assert settings._cores() == 1


@pytest.mark.parametrize("launcher", ["srun --mpi=pmix", "mpirun of MPICH and Intel MPI, and the MPI operator"])
def test_an_mpi_that_does_not_know_the_launcher(launcher) -> None:
    pytest.importorskip("mpi4py")
    import os

    code = "import phonograd as mx; print(mx.distributed.is_main()); mx.kv.create('dist_sync')"
    variables = {name: value for name, value in LAUNCHERS[launcher].items() if name != "PMIX_RANK"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )
    assert done.stdout == "False\n"
    assert "the launcher started 8 processes, but each of them is alone" in done.stderr
