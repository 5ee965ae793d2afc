"""Compares two outcomes of a case and says in which parts they differ."""

from __future__ import annotations

import re
from typing import Any

from .case import Array, Case
from .factors import KINDS, differences
from .outcome import Failure, Outcome
from .tolerance import difference, relative

PARTS = ("value", "gradient", "mutation")
HEAD_GRADIENT = 1.0  # the usual magnitude of the head gradients of a case


def compare(case: Case, actual: Outcome, expected: Outcome) -> dict[str, list[str]]:
    """Return the differences of each part (value, gradient, mutation) that has any."""
    found: dict[str, list[str]] = {part: [] for part in PARTS}
    found["value"] = _values(case, actual, expected)
    if expected.failure is None and actual.failure is None:
        found["gradient"] = _failures(actual.gradient_failure, expected.gradient_failure)
        if not found["gradient"]:
            pair = actual.gradients, expected.gradients
            found["gradient"] = _arrays("input", *pair, case, least=HEAD_GRADIENT)
        found["mutation"] = _mutations(case, actual, expected)
    return {part: texts for part, texts in found.items() if texts}


def _failures(actual: Failure | None, expected: Failure | None) -> list[str]:
    if expected is None:
        return [] if actual is None else [f"raises {actual.types[0]} ({actual.message})"]
    if actual is None:
        return [f"does not raise {expected.types[0]} ({expected.message})"]
    if expected.types[0] in actual.types:
        return []
    return [f"raises {actual.types[0]} ({actual.message}) instead of {expected.types[0]}"]


def _values(case: Case, actual: Outcome, expected: Outcome) -> list[str]:
    if actual.failure is not None or expected.failure is not None:
        return _failures(actual.failure, expected.failure)
    if actual.structure != expected.structure:
        return [f"returns {_kind(actual)} instead of {_kind(expected)}"]
    if actual.structure == "value":
        same = actual.value == expected.value
        return [] if same else [f"returns {actual.value!r} instead of {expected.value!r}"]
    factorization = re.split("[._]", case.call)[-1]
    if factorization in KINDS:
        allowed = relative(expected.outputs[0].dtype, case.tolerance)
        return differences(factorization, actual.outputs, expected.outputs, allowed)
    pairs = dict(enumerate(actual.outputs)), dict(enumerate(expected.outputs))
    return _arrays("output", *pairs, case)


def _kind(outcome: Outcome) -> str:
    return repr(outcome.value) if outcome.structure == "value" else outcome.structure


def _arrays(
    what: str,
    actual: dict[int, Array],
    expected: dict[int, Array],
    case: Case,
    least: float = 0.0,
) -> list[str]:
    if actual.keys() != expected.keys():
        return [f"{what}s {sorted(actual)} instead of {sorted(expected)}"]
    texts = {i: difference(actual[i], expected[i], case.tolerance, case.coarsest, least) for i in expected}
    return [f"{what} {i}: {text}" for i, text in texts.items() if text is not None]


def _mutations(case: Case, actual: Outcome, expected: Outcome) -> list[str]:
    originals: dict[int, Any] = dict(enumerate(case.make_inputs()))
    positions = sorted(actual.changed.keys() | expected.changed.keys())
    after = {i: actual.changed.get(i, originals[i]) for i in positions}
    wanted = {i: expected.changed.get(i, originals[i]) for i in positions}
    return _arrays("input", after, wanted, case)
