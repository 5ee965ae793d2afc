"""The cache directory under several processes: a few rounds in every run of the tests, many with ``make fuzz``."""

import pytest

from . import cache


def test_some_rounds() -> None:
    counts = cache.run(0, seed=3, rounds=3)
    assert not counts.failures
    assert counts.skipped or counts.tried["cache operations"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_rounds(seed: int) -> None:
    assert not cache.run(60, seed).failures
