"""Some 1,400 lines of code do what real MXNet 1.9.1 did with them, or what is written beside them, for a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import phonograd as mx

from ..recorded_lines import check, recorded
from .outcomes import agree, outcome

FOLDER = Path(__file__).parent / "recorded"

WHY = {
    "works": "MXNet refuses this, here it works",
    "shape": "arrays without axes and empty arrays work here",
    "words": "both raise, with another type or other words",
    "refused": "MXNet lets a mistake pass, here it is an error",
    "undefined": "MXNet reads or writes memory it should not",
    "value": "MXNet's value is an accident",
    "absent": "a private name of MXNet that does not exist here",
}


@pytest.mark.parametrize("entry", [pytest.param(entry, id=name) for name, entry in recorded(FOLDER)])
def test_line(entry: dict[str, Any]) -> None:
    found = outcome(mx, entry["code"])
    check(entry, found, agree, WHY)
    # what is done here instead is known to the last word
    assert found == entry.get("here", found)
