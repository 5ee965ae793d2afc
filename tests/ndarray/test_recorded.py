"""Some 1,400 lines of code do what real MXNet 1.9.1 did with them, or what is written beside them, for a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import phonograd as mx

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

ENTRIES = [
    pytest.param(entry, id=f"{path.stem}: {entry['code']}")
    for path in sorted(FOLDER.glob("*.json"))
    for entry in json.loads(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_line(entry: dict[str, Any]) -> None:
    found = outcome(mx, entry["code"])
    if "here" not in entry:
        assert agree(entry["mxnet"], found), f"{entry['mxnet']}\n{found}"
        return
    assert found == entry["here"]
    assert entry["why"] in WHY
    assert not agree(entry["mxnet"], found), "it agrees now: remove 'here' and 'why'"
