"""Lines of code with npx, np.random and np.linalg do what MXNet 1.9.1 does, or what is written beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import phonograd as mx

from .lines import agree, outcome

FOLDER = Path(__file__).parent / "recorded"

WHY = {
    "works": "MXNet refuses this, here it works",
    "refused": "MXNet lets a mistake pass, here it is an error",
    "value": "MXNet's value is an accident",
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
    assert agree(entry["here"], found), f"{entry['here']}\n{found}"
    assert entry["why"] in WHY
    assert not agree(entry["mxnet"], found), "it agrees now: remove 'here' and 'why'"
