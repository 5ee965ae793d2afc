"""A rank that fails ends all ranks, with one message that names it."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from .launching import FOLDER, environment, launch, needs_mpi

pytestmark = needs_mpi


def test_a_rank_that_raises() -> None:
    done = launch(2, "faulty.py", "raise")
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert "ValueError: this rank cannot go on\nphonograd launch: rank 1 (process " in done.stderr
    assert done.stderr.rstrip().endswith("failed; all ranks were ended")
    assert sorted(done.stdout.splitlines()) == ["[0] ready", "[1] ready"]


def test_a_rank_that_is_killed() -> None:
    done = launch(4, "faulty.py", "kill later")
    assert done.returncode == 128 + signal.SIGKILL
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "rank 3 (process " in done.stderr
    assert "was killed by SIGKILL; all ranks were ended" in done.stderr


@pytest.mark.slow
def test_a_rank_that_ends_early() -> None:
    done = launch(2, "faulty.py", "exit")
    assert done.returncode == 1
    assert "rank 1: the end of the program. A rank ended while others went on" in done.stderr


@pytest.mark.slow
def test_a_rank_that_stops_answering() -> None:
    # on a busy machine a rank is silent for seconds in the start of MPI, which waits for the others
    done = launch(2, "faulty.py", "stop", options=("--silence", "10"))
    assert done.returncode != 0
    assert "rank 1 (process " in done.stderr
    assert "has given no sign of life for 10 s" in done.stderr


@pytest.mark.slow
def test_a_rank_that_does_not_arrive(monkeypatch) -> None:
    monkeypatch.setenv("PHONOGRAD_RANK_TIMEOUT", "2")
    done = launch(3, "faulty.py", "sleep")
    assert done.returncode == 1
    assert "MissingRanks: rank 2 did not arrive at 'push of key a (sum): float32[3]' within 2 s" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_to_the_launcher_end_all(number) -> None:
    command = [sys.executable, "-m", "phonograd", "launch", "-n", "2", str(FOLDER / "faulty.py"), "wait"]
    launcher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    assert launcher.stdout is not None
    try:
        assert launcher.stdout.readline().endswith("ready\n")
        assert launcher.stdout.readline().endswith("ready\n")
        ranks = _processes("faulty.py")
        assert len(ranks) >= 2
        launcher.send_signal(number)
        launcher.wait(60)
    finally:
        launcher.kill()
        launcher.stdout.close()
    until = time.monotonic() + 60
    while ranks & _processes("faulty.py") and time.monotonic() < until:
        time.sleep(0.2)
    assert not ranks & _processes("faulty.py")


def _processes(word: str) -> set[int]:
    """Return the processes of ranks: those that run Python with a word in the command and the command `run`."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid,stat,args"], capture_output=True, text=True, check=True).stdout
    lines = [line.split(None, 2) for line in listed.splitlines()[1:]]
    return {
        int(pid)
        for pid, state, text in lines
        if word in text and re.match(r"\S*python\S* -m phonograd run ", text) and "Z" not in state
    }


def run_without_launcher(ranks: int, fault: str, **variables: str) -> subprocess.CompletedProcess[str]:
    mpiexec = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    options = ["--oversubscribe", *(["--allow-run-as-root"] if os.getuid() == 0 else []), "-n", str(ranks)]
    command = [mpiexec, *options, sys.executable, "-m", "phonograd", "run", str(FOLDER / "faulty.py"), fault]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env={**environment(), **variables}
    )


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["raise", "kill", "exit"])
def test_without_the_launcher(fault) -> None:
    done = run_without_launcher(2, fault)
    assert done.returncode != 0
    if fault == "raise":
        assert "ValueError: this rank cannot go on\nrank 1 of 2 failed; all ranks end" in done.stderr
    if fault == "exit":
        assert "the end of the program" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["stop", "stop in a transfer"])
def test_a_rank_that_stops_without_the_launcher(fault) -> None:
    done = run_without_launcher(3, fault, PHONOGRAD_RANK_SILENCE="5")
    assert done.returncode != 0
    assert done.stderr.count("has given no sign of life") == 1, done.stderr
    assert "phonograd: rank 2 of 3 has given no sign of life for 6 s (is it stopped?); all ranks end." in done.stderr


@pytest.mark.slow
def test_ranks_that_are_killed_at_random_moments() -> None:
    """No kill leaves a rank behind, and each ends all within seconds."""
    import random

    chance = random.Random(1)
    command = [sys.executable, "-m", "phonograd", "launch", "-n", "3", str(FOLDER / "endless.py")]
    for _ in range(10):
        launcher = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        )
        assert launcher.stdout is not None
        for _ in range(3):
            assert "ready" in launcher.stdout.readline()
        ranks = sorted(_processes("endless.py"))
        time.sleep(chance.random())
        begin = time.monotonic()
        os.kill(chance.choice(ranks), signal.SIGKILL)
        _, errors = launcher.communicate(timeout=60)
        # on a busy machine, too
        assert time.monotonic() - begin < 30
        assert "was killed by SIGKILL; all ranks were ended" in errors
        assert not set(ranks) & _processes("endless.py")
