"""Programs that use mx.np find what MXNet 1.9.1 finds with them."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import compat

FOLDER = Path(__file__).parent
SCRIPTS = sorted(path.stem for path in (FOLDER / "scripts").glob("*.py"))

#: training enlarges differences of the last bit
TOLERANCE = 2e-4


@pytest.fixture
def mxnet() -> Iterator[Any]:
    """Make ``import mxnet`` mean this library, and turn NumPy semantics off again afterwards."""
    yield compat.install_as_mxnet()
    compat.uninstall()
    mx.npx.reset_np()


def different(found: Any, wanted: Any) -> bool:
    """Return whether two results differ, numbers by more than the tolerance times the largest of them."""
    if isinstance(wanted, dict):
        return list(found) != list(wanted) or any([different(found[key], wanted[key]) for key in wanted])
    if not isinstance(wanted, list):
        return different([found], [wanted])
    if len(found) != len(wanted):
        return True
    try:
        here, there = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    except (TypeError, ValueError):
        return any([different(a, b) if isinstance(b, (list, dict)) else _differs(a, b) for a, b in zip(found, wanted)])
    scale = max(float(np.abs(there).max(initial=0.0)), 1e-2)
    return here.shape != there.shape or not np.allclose(here, there, rtol=0, atol=TOLERANCE * scale)


def _differs(found: Any, wanted: Any) -> bool:
    number = isinstance(wanted, float) or isinstance(found, float)
    return different([found], [wanted]) if number else bool(found != wanted)


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(mxnet: Any, name: str) -> None:
    wanted = json.loads((FOLDER / "recorded" / f"{name}.json").read_text(encoding="utf-8"))
    found = runpy.run_path(str(FOLDER / "scripts" / f"{name}.py"))["results"]
    assert list(found) == list(wanted)
    wrong = {key: (found[key], wanted[key]) for key in wanted if different(found[key], wanted[key])}
    assert not wrong
