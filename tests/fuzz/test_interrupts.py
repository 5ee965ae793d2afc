"""Interrupted first evaluations: a few in every run of the tests, hundreds with ``make fuzz``."""

import pytest

from . import interrupts
from .interrupts import KINDS


def test_some_cases() -> None:
    # two of each kind
    counts = interrupts.run(0, seed=5, cases=2 * len(KINDS))
    assert not counts.failures, "\n".join(counts.failures)
    assert counts.skipped or sum(counts.tried.values()) == 2 * len(KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_cases(kind: str) -> None:
    counts = interrupts.run(150, seed=11, kinds=kind)
    assert not counts.failures, "\n".join(counts.failures)
