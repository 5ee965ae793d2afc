"""Templates learned from calls with other shapes never change a result (see :mod:`tests.fuzz.shapes`)."""

from __future__ import annotations

import pytest

from . import shapes


@pytest.mark.parametrize("seed", range(60))
def test_sequences(seed: int) -> None:
    assert shapes.difference(seed) == ""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_sequences(part: int) -> None:
    assert [shapes.difference(seed) for seed in range(1000 + 50 * part, 1050 + 50 * part)] == [""] * 50
