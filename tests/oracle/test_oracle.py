"""Values, gradients, side effects and errors are those recorded from Apache MXNet 1.9.1."""

from __future__ import annotations

from functools import cache

import pytest

import phonograd as mx

from .case import Case
from .cases import families
from .comparison import compare
from .outcome import run
from .store import Recording, origins
from .waivers import WAIVERS, expression, waiver_of

CASES = [case for family in families().values() for case in family]
IDENTIFIERS = [case.identifier for case in CASES]

recording = cache(Recording)


@pytest.mark.parametrize("case", CASES, ids=IDENTIFIERS)
def test_outcome_is_that_of_mxnet(case: Case) -> None:
    stored = recording(case.family)
    assert stored.digest(case.name) == case.digest, "the case changed since it was recorded: run tests/oracle/record.py"
    expected = stored.outcome(case.name)
    actual = run(case, mx)
    waiver = waiver_of(case.identifier)
    if expected.structure == "undefined" or (waiver is not None and waiver.undefined):
        return
    differences = compare(case, actual, expected)
    if waiver is not None:
        excused = [differences.pop(part) for part in waiver.parts if part in differences]
        assert excused, f"stale waiver, nothing differs any more: {waiver.reason}"
    assert not differences, "\n".join(f"{part}: {text}" for part, texts in differences.items() for text in texts)


@pytest.mark.parametrize("family", families())
def test_nothing_is_recorded_that_is_no_case(family: str) -> None:
    assert set(recording(family).names()) == {case.name for case in families()[family]}


@pytest.mark.parametrize("pattern", WAIVERS)
def test_waiver_is_for_a_case(pattern: str) -> None:
    matching = expression(pattern)
    assert any(matching.fullmatch(identifier) for identifier in IDENTIFIERS), "no such case"


def test_recorded_from_the_right_version() -> None:
    assert {family: origin["mxnet"] for family, origin in origins().items()} == dict.fromkeys(families(), "1.9.1")
