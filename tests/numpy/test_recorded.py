"""Some 3,500 lines of code with mx.np do what real MXNet 1.9.1 did, or what is written beside them, for a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import phonograd as mx

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

ENTRIES = [
    pytest.param(entry, id=f"{path.stem}: {entry['code']}")
    for path in sorted(FOLDER.glob("*.json"))
    for entry in json.loads(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_line(entry: dict[str, Any]) -> None:
    # each line is another expression: compiling them all would take minutes
    with mx.settings.override(executor="reference"):
        found = outcome(mx, entry["code"])
    if "here" not in entry:
        assert agree(entry["mxnet"], found), f"{entry['mxnet']}\n{found}"
        return
    assert agree(entry["here"], found), f"{entry['here']}\n{found}"
    assert entry["why"] in WHY
    assert not agree(entry["mxnet"], found), "it agrees now: remove 'here' and 'why'"
