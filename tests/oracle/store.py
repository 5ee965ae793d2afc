"""Packs outcomes into one compressed file per family and reads them back.

A file holds one flat array per dtype and an index in JSON that says which slice of which array, in
which shape, belongs to which case. Thousands of separate members would cost more than their content.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .case import Array
from .outcome import Failure, Outcome

FOLDER = Path(__file__).parent / "recorded"
INDEX = FOLDER / "index.json"


class Packer:
    """Collects arrays into one flat array per dtype."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Array]] = {}
        self._sizes: dict[str, int] = {}

    def add(self, array: Array) -> list[Any]:
        """Return the address (dtype, offset, shape) under which the array can be found again."""
        name = array.dtype.name
        offset = self._sizes.get(name, 0)
        self._parts.setdefault(name, []).append(np.ravel(array))
        self._sizes[name] = offset + array.size
        return [name, offset, list(array.shape)]

    def columns(self) -> dict[str, Array]:
        """Return the flat arrays by dtype."""
        return {name: np.concatenate(parts) for name, parts in self._parts.items()}


def _pack(outcome: Outcome, packer: Packer) -> dict[str, Any]:
    entry: dict[str, Any] = {"structure": outcome.structure}
    if outcome.outputs:
        entry["outputs"] = [packer.add(array) for array in outcome.outputs]
    if outcome.value is not None:
        entry["value"] = outcome.value
    for part in ("gradients", "changed"):
        arrays = getattr(outcome, part)
        if arrays:
            entry[part] = {str(i): packer.add(array) for i, array in arrays.items()}
    for part in ("failure", "gradient_failure"):
        failure = getattr(outcome, part)
        if failure is not None:
            entry[part] = [list(failure.types), failure.message]
    return entry


def save(family: str, outcomes: Mapping[str, Outcome], digests: Mapping[str, int], origin: Mapping[str, Any]) -> Path:
    """Return the file into which the outcomes of a family were written, and note in the index where they come from."""
    packer = Packer()
    cases = {name: {"digest": digests[name], **_pack(outcome, packer)} for name, outcome in outcomes.items()}
    path = FOLDER / f"{family}.npz"
    FOLDER.mkdir(exist_ok=True)
    content = np.frombuffer(json.dumps(cases, separators=(",", ":")).encode(), dtype=np.uint8)
    columns: dict[str, Any] = packer.columns()
    np.savez_compressed(path, cases=content, **columns)
    index = origins() | {family: {"cases": len(cases), **origin}}
    INDEX.write_text(json.dumps(index, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return path


def origins() -> dict[str, dict[str, Any]]:
    """Return for each family how many cases were recorded, and from which versions of MXNet and NumPy."""
    stored: dict[str, dict[str, Any]] = json.loads(INDEX.read_text(encoding="utf-8")) if INDEX.exists() else {}
    return stored


class Recording:
    """The recorded outcomes of one family."""

    def __init__(self, family: str) -> None:
        path = FOLDER / f"{family}.npz"
        with np.load(path, allow_pickle=False) as stored:
            self._columns = {name: stored[name] for name in stored.files}
        self._cases: dict[str, dict[str, Any]] = json.loads(self._columns.pop("cases").tobytes().decode())

    def names(self) -> list[str]:
        """Return the names of the recorded cases."""
        return list(self._cases)

    def digest(self, name: str) -> int | None:
        """Return the checksum of the case as it was when recorded, or None if it was not."""
        entry = self._cases.get(name)
        return None if entry is None else int(entry["digest"])

    def outcome(self, name: str) -> Outcome:
        """Return the recorded outcome of a case."""
        entry = self._cases[name]
        return Outcome(
            structure=entry["structure"],
            outputs=[self._array(address) for address in entry.get("outputs", ())],
            value=entry.get("value"),
            gradients=self._arrays(entry.get("gradients", {})),
            changed=self._arrays(entry.get("changed", {})),
            failure=self._failure(entry.get("failure")),
            gradient_failure=self._failure(entry.get("gradient_failure")),
        )

    def _array(self, address: list[Any]) -> Array:
        name, offset, shape = address
        size = int(np.prod(shape, dtype=np.int64))
        column: Array = self._columns[name]
        return column[offset : offset + size].reshape(shape)

    def _arrays(self, addresses: dict[str, Any]) -> dict[int, Array]:
        return {int(i): self._array(address) for i, address in addresses.items()}

    @staticmethod
    def _failure(entry: list[Any] | None) -> Failure | None:
        return None if entry is None else Failure(tuple(entry[0]), entry[1])
