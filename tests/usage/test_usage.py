"""Programs of users do what they did on MXNet 1.9.1, or what is written in ``differences.json``, for a reason."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import phonograd as mx

from .program import PROGRAMS, outcomes
from .programs import MODULES

FOLDER = Path(__file__).parent
RECORDED = json.loads((FOLDER / "recorded.json").read_text(encoding="utf-8"))
DIFFERENCES = json.loads((FOLDER / "differences.json").read_text(encoding="utf-8"))

WHY = {
    "works": "MXNet refuses this or crashes, here it works",
    "words": "both raise, with another type of error",
    "refused": "MXNet lets a mistake pass, here it is an error",
    "value": "MXNet's value is an accident",
    "array": "NumPy computes this in MXNet; here results are arrays, and keep the dtype of their arguments",
    "design": "docs/compatibility.md describes the difference",
}


def agree(theirs: str, ours: str) -> bool:
    """Return whether two outcomes are the same, up to rounding."""
    if theirs == ours:
        return True
    one, two = (re.split(r"[\s,()\[\]]+", text) for text in (theirs, ours))
    return len(one) == len(two) and all(a == b or _close(a, b) for a, b in zip(one, two))


def _close(one: str, two: str) -> bool:
    try:
        first, second = float(one), float(two)
    except ValueError:
        return False
    return abs(first - second) <= 1e-3 * abs(first) + 2e-5


def test_everything_is_recorded() -> None:
    assert MODULES
    assert sorted(RECORDED) == sorted(PROGRAMS)
    assert set(DIFFERENCES) <= set(PROGRAMS)


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_program(name: str) -> None:
    found = dict(outcomes(mx, PROGRAMS[name]))
    theirs, known = RECORDED[name], dict(DIFFERENCES.get(name, {}))
    for label in sorted({*found, *theirs}):
        ours, expected = found.get(label, "-"), theirs.get(label, "-")
        if label in known:
            difference = known.pop(label)
            assert difference["why"] in WHY, label
            assert agree(difference["here"], ours), f"{label}: {ours}"
            assert not agree(expected, ours), f"{label} agrees now: remove it from differences.json"
        else:
            assert agree(expected, ours), f"{label}\n{expected}\n{ours}"
    assert not known, f"unknown labels: {sorted(known)}"
