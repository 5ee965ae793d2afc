"""Arrays inside of nested lists: what blocks take and return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...ndarray.array import NDArray
from ...symbol import Symbol

__all__ = ["count_arrays", "filled", "flattened", "outlined"]

_INPUT = object()


def outlined(value: Any) -> Any:
    """Return nested lists with a mark in the place of each array."""
    if isinstance(value, (list, tuple)):
        return [outlined(part) for part in value]
    return _INPUT if isinstance(value, (NDArray, Symbol)) else value


def count_arrays(outline: Any) -> int:
    """Return the number of marks in an outline."""
    if isinstance(outline, list):
        return sum([count_arrays(part) for part in outline])
    return int(outline is _INPUT)


def filled(outline: Any, values: Iterator[Any]) -> Any:
    """Return nested lists with values in the places of the marks."""
    if isinstance(outline, list):
        return [filled(part, values) for part in outline]
    return next(values) if outline is _INPUT else outline


def flattened(value: Any) -> list[Any]:
    """Return the arrays and symbols of nested lists in one list."""
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in flattened(part)]
    return [value] if isinstance(value, (NDArray, Symbol)) else []
