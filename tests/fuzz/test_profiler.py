"""Profilers beside working threads: a few rounds in every run of the tests, thousands with ``make fuzz``."""

import pytest

from . import profiler


def test_some_rounds() -> None:
    counts = profiler.run(0, seed=3, rounds=6)
    assert not counts.failures, counts.failures[0]
    assert counts.tried["rounds"] == 6
    assert counts.tried["scopes"] > 50


def test_a_missing_scope_is_found() -> None:
    one = profiler.Round(1)
    one._scopes["outer 9 9", ""] += 1
    assert "missing Counter({('outer 9 9', ''): 1})" in "".join(one.run())


@pytest.mark.slow
def test_many_rounds() -> None:
    counts = profiler.run(300, seed=4)
    assert not counts.failures, counts.failures[0]
