"""Lines of code with npx, np.random and np.linalg do what MXNet 1.9.1 does, or what is written beside them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import phonograd as mx

from ..recorded_lines import check, recorded
from .lines import agree, outcome

FOLDER = Path(__file__).parent / "recorded"

WHY = {
    "works": "MXNet refuses this, here it works",
    "refused": "MXNet lets a mistake pass, here it is an error",
    "value": "MXNet's value is an accident",
}


@pytest.mark.parametrize("entry", [pytest.param(entry, id=name) for name, entry in recorded(FOLDER)])
def test_line(entry: dict[str, Any]) -> None:
    found = outcome(mx, entry["code"])
    check(entry, found, partial(agree, factors=entry.get("factors")), WHY)
