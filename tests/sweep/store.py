"""The recorded outcomes of sweeps, as compressed JSON: each different text once."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CALLS = HERE / "calls.json.gz"
INFERENCE = HERE / "inference.json.gz"


def save(path: Path, found: dict[str, Any]) -> None:
    """Write a recording; the file depends on its content alone."""
    data = json.dumps(found, sort_keys=True, separators=(",", ":")).encode()
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(data)


def load(path: Path) -> dict[str, Any]:
    """Return a recording."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found
