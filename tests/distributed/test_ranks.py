"""Ranks check each other: stores, sums, data, metrics, Horovod's interface, and errors (checks.py)."""

import json

import pytest

from . import checks_names
from .launching import launch, needs_mpi


def run_checks(ranks: int, folder: str, names: list[str]) -> None:
    """Fail with the problems of all ranks."""
    done = launch(ranks, "checks.py", folder, *names, options=("--plain",))
    assert done.returncode == 0, done.stderr
    found = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith('["check_'))
    assert list(found) == names
    problems = [problem for each in found.values() for problem in each]
    assert not problems, "\n".join(problems)


@needs_mpi
def test_checks_with_three_ranks(tmp_path) -> None:
    run_checks(3, str(tmp_path), checks_names.ALL)


@needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_checks_with_other_numbers_of_ranks(ranks, tmp_path) -> None:
    run_checks(ranks, str(tmp_path), checks_names.ALL)
