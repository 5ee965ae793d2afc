"""Some 3,500 lines of code with mx.np do what real MXNet 1.9.1 did, or what is written beside them, for a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import phonograd as mx

from ..recorded_lines import check, recorded
from .outcomes import agree, outcome

FOLDER = Path(__file__).parent / "recorded"

WHY = {
    "works": "MXNet refuses this, here it works, as in NumPy",
    "words": "both raise, with another type",
    "array": "MXNet returns a NumPy scalar without a gradient, here it is an array",
    "numpy": "MXNet's dtype or value is an accident, here it is NumPy's",
    "view": "a view here, as in NumPy",
    "refused": "MXNet lets a mistake pass, here it is an error",
    "crash": "MXNet dies of it",
}


@pytest.mark.parametrize("entry", [pytest.param(entry, id=name) for name, entry in recorded(FOLDER)])
def test_line(entry: dict[str, Any]) -> None:
    # each line is another expression: compiling them all would take minutes
    with mx.settings.override(executor="reference"):
        found = outcome(mx, entry["code"])
    check(entry, found, agree, WHY)
