"""Traced extents: formulas give the values of all shapes with the same answers, and every comparison is a question."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phonograd.core.graph.extents import (
    Condition,
    Extent,
    Formula,
    Questions,
    TracedFloat,
    is_traced,
    is_tracing,
    traced_shapes,
    tracing,
)

LIMIT = 100


def traced(*extents: int) -> tuple[Any, Questions]:
    """Return the shape of one argument with traced extents, and the questions."""
    questions = Questions(LIMIT)
    (shape,) = traced_shapes([extents], {extent: extent for extent in extents}, questions)
    return shape, questions


@pytest.mark.parametrize(
    "rule",
    [
        lambda a, b: a + b - 2 * a,
        lambda a, b: (a + 1) * (b - 1) // 2,
        lambda a, b: (a * b * 3) // b,
        lambda a, b: (a * b) % b + a % 5,
        lambda a, b: -a + +b,
        lambda a, b: abs(a - b) + max(a, 3) - min(b, a, 7),
        lambda a, b: divmod(b, a)[0] + divmod(7, a)[1],
        lambda a, b: math.ceil(a / 2) + math.floor(b / 3) + round(a / 4) + math.trunc(b / 5),
        lambda a, b: (a << 2) + (b >> 1) + (a & b) + (a | 8) + (a ^ b) + ~a,
        lambda a, b: a**2 + a.bit_length(),
        lambda a, b: sum([a, b, 3]) * math.prod([a, b]),
        lambda a, b: a + np.int64(3),
        lambda a, b: 1 / (a * b) + a * 0.5 - b / 2.0,
        lambda a, b: sorted([a, b, 5])[1] if a else b,
        lambda a, b: b if a in (2, 3, 4) else a,
        lambda a, b: (a - b) - (a - b - 4) + a - a,
    ],
)
def test_formulas_hold_for_shapes_with_the_same_answers(rule: Callable[[Any, Any], Any]) -> None:
    chance = random.Random(0)
    held = 0
    for _ in range(30):
        a, b = chance.sample(range(2, LIMIT), 2)
        (one, two), questions = traced(a, b)
        value = rule(one, two)
        condition = Condition(questions.copy())
        assert value == rule(a, b)
        assert condition([(a, b)])
        for _ in range(200):
            others = tuple(chance.sample(range(2, LIMIT), 2))
            if condition([others]):
                held += 1
                found = Formula(value.formula)([others]) if is_traced(value) else value
                assert found == rule(*others)
    assert held > 30


def test_sums_of_products_have_one_form() -> None:
    (a, b), questions = traced(7, 9)
    assert (a + 1) * (b - 1) == a * b - a + b - 1
    assert (2 * a * b) // b == a + a
    assert a - 1 < a
    assert (a * b) % a == 0
    assert questions.answers == {}


def test_what_the_pattern_answers_is_no_question() -> None:
    (a, b), questions = traced(7, 9)
    assert a
    assert a != 1
    assert a > 1
    assert a >= 2
    assert a != b
    assert a * b <= LIMIT * LIMIT
    assert a + b < 1000
    assert questions.answers == {}
    assert a != 2
    assert a < b
    assert a // 2 > 0
    assert len(questions.answers) == 3


def test_traced_numbers_are_not_found_among_plain_ones() -> None:
    (a, _), questions = traced(7, 9)
    assert a not in {7: 1}
    assert a in {a: 1}
    assert hash(a) != hash(traced(7, 9)[0][0])
    assert questions.answers == {}


def test_kinds_of_numbers() -> None:
    (a, b), _ = traced(7, 9)
    assert type(a * b) is Extent
    assert type(a / b) is TracedFloat
    assert type(a.to_float()) is TracedFloat
    assert type(a - a) is int
    assert [str(a), repr(a / 2), f"{a:03d}"] == ["7", "3.5", "007"]
    assert list(range(a)) == list(range(7))
    assert (a == "7") is False
    with pytest.raises(TypeError):
        a + "7"


def test_a_condition_that_cannot_be_evaluated_does_not_hold() -> None:
    (a, _), questions = traced(7, 9)
    assert 10 // (a - 5) == 5
    condition = Condition(questions)
    assert condition([(7, 9)])
    assert not condition([(5, 9)])


def test_tracing_is_of_one_thread_and_nests() -> None:
    with tracing():
        with tracing():
            assert is_tracing()
        assert is_tracing()
    assert not is_tracing()
