"""Random programs agree with their NumPy model: values at every look, gradients of everything at any moment."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from . import programs

#: without the search for parts that do not matter, which takes longer than the test
PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]
VARIABLES = st.lists(st.sampled_from([(3,), (2, 3), (1,), (2, 2, 3)]), min_size=1, max_size=2)


@settings(max_examples=300, phases=PHASES, suppress_health_check=[HealthCheck.too_slow])
@given(VARIABLES, st.lists(programs.STEPS, min_size=4, max_size=30))
def test_short_programs(shapes: list[tuple[int, ...]], steps: list[programs.Step]) -> None:
    programs.run(shapes, steps)


@pytest.mark.slow
@settings(max_examples=5000, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(VARIABLES, st.lists(programs.STEPS, min_size=20, max_size=80))
def test_long_programs(shapes: list[tuple[int, ...]], steps: list[programs.Step]) -> None:
    programs.run(shapes, steps)
