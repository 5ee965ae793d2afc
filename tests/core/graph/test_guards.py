"""Guards are true for shapes of their pattern, and for no others."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from phonograd.core.base.dtypes import FLOAT32
from phonograd.core.graph import guards
from phonograd.core.graph.extents import Condition, Questions
from phonograd.core.graph.generic import pattern_of_shapes
from phonograd.core.graph.guards import Guards, guards_for
from phonograd.core.ops.math.structural import leaf

#: extents at and around numbers of attributes, zeros, ones and the limit
EXTENTS = [0, 1, 2, 3, 4, 5, 6, 7, 4096, 4097]


@pytest.mark.parametrize("attributes", [(), (5,), ((3, -6), 1)])
@pytest.mark.parametrize("ranks", [(2,), (1, 1), (2, 1), (0, 1)])
def test_shapes_pass_exactly_if_they_have_the_pattern(attributes: Any, ranks: tuple[int, ...]) -> None:
    every = list(itertools.product(*[itertools.product(EXTENTS, repeat=rank) for rank in ranks]))
    keys = {}
    for shapes in every:
        pattern = pattern_of_shapes([(0, shape) for shape in shapes], attributes, ())
        keys[shapes] = None if pattern is None else pattern.key
    for shapes in every[:: max(1, len(every) // 40)]:
        pattern = pattern_of_shapes([(0, shape) for shape in shapes], attributes, ())
        if pattern is not None:
            known = Guards[str]()
            known.learn(shapes, attributes, pattern, Condition(Questions(0)), "found")
            passing = {others for others in every if known.find(others) == "found"}
            assert passing == {others for others in every if keys[others] == pattern.key}


def test_other_ranks_do_not_pass() -> None:
    pattern = pattern_of_shapes([(0, (5, 3))], (), ())
    assert pattern is not None
    known = Guards[str]()
    known.learn([(5, 3)], (), pattern, Condition(Questions(0)), "found")
    assert known.find([(7, 4)]) == "found"
    assert known.find([(7, 4, 2)]) is None
    assert known.find([(7,)]) is None


def test_conditions_are_asked() -> None:
    questions = Questions(100)
    questions.answers["s[0][0] % 2 == 0"] = True
    pattern = pattern_of_shapes([(0, (4,))], (), ())
    assert pattern is not None
    known = Guards[str]()
    known.learn([(4,)], (), pattern, Condition(questions), "even")
    assert known.find([(6,)]) == "even"
    assert known.find([(7,)]) is None


def test_guards_are_bounded_and_found_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "MOST_KINDS", 3)
    known: dict[Any, Guards[str]] = {}
    one, two = leaf(0, (3, 4), FLOAT32), leaf(1, (5, 4), FLOAT32)
    first = guards_for(known, "a", (one, two))
    # other extents are the same kind
    assert first is not None
    assert guards_for(known, "a", (two, one)) is first
    assert guards_for(known, "a", (one, one)) is None
    assert guards_for(known, "a", (one, None)) is None
    for number in range(10):
        guards_for(known, number, (one,))
        assert 0 < len(known) <= 3
    pattern = pattern_of_shapes([(0, (3, 4))], (), ())
    assert pattern is not None
    for _ in range(10):
        first.learn([(3, 4)], (), pattern, Condition(Questions(0)), "found")
    assert len(first._known) == guards.MOST_PATTERNS
