"""Random programs agree with their NumPy model: values at every look, gradients of everything at any moment."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import phonograd as mx

from . import programs

#: without the search for parts that do not matter, which takes longer than the test
PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]
VARIABLES = st.lists(st.sampled_from([(3,), (2, 3), (1,), (2, 2, 3)]), min_size=1, max_size=2)


def steps(text: str) -> list[programs.Step]:
    """Return the statements of a program: ``kind a b c`` of each, divided by commas."""
    words = [part.split() for part in text.split(",")]
    return [programs.Step(kind, int(a), int(b), int(c), 0.5) for kind, a, b, c in words]


#: a variable that is overwritten with another one through a view while that is recorded
OVERWRITTEN = steps("reshape 1 1 0, record 1 0 0, assign 2 0 0, finish 0 0 0")
#: a sum over the transposed form of a value that another sum's kernel writes
TRANSPOSED = steps(
    "create 0 0 0, reshape 0 0 0, reshape 0 4 0, record 1 0 0, binary 0 0 0, binary 0 0 0, binary 0 0 0, drop 0 0 0, "
    "drop 0 0 0, record 0 0 0, slice 0 0 0, leave 0 0 0, reshape 0 0 0, binary 0 2 0, transpose 8 0 0, binary 0 9 0, "
    "slice 5 0 0"
)


@settings(max_examples=150, phases=PHASES, suppress_health_check=[HealthCheck.too_slow])
@example([(3,), (3,)], OVERWRITTEN)
@example([(3,), (3,)], TRANSPOSED)
@given(VARIABLES, st.lists(programs.STEPS, min_size=4, max_size=30))
def test_short_programs(shapes: list[tuple[int, ...]], program: list[programs.Step]) -> None:
    programs.run(shapes, program)


@settings(max_examples=100, phases=PHASES, suppress_health_check=[HealthCheck.too_slow])
@example([(3,), (3,)], OVERWRITTEN)
@given(VARIABLES, st.lists(programs.STEPS, min_size=4, max_size=30))
def test_programs_that_are_computed_by_pieces(shapes: list[tuple[int, ...]], program: list[programs.Step]) -> None:
    with mx.settings.override(tiers="blocking"):
        programs.run(shapes, program)


@pytest.mark.slow
@settings(max_examples=5000, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(VARIABLES, st.lists(programs.STEPS, min_size=20, max_size=80))
def test_long_programs(shapes: list[tuple[int, ...]], steps: list[programs.Step]) -> None:
    programs.run(shapes, steps)
