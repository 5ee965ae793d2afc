"""Arrays inside of nested lists: what blocks take and return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...ndarray.array import NDArray
from ...symbol import Symbol

__all__ = ["count_arrays", "filled", "flattened", "flattened_with_format", "listed", "outlined", "regrouped"]

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


def listed(value: Any) -> Any:
    """Return lists in the place of tuples, in any depth."""
    return [listed(part) for part in value] if type(value) in (list, tuple) else value


def flattened_with_format(args: Any, inout_str: str) -> tuple[list[Any], Any]:
    """Return the arrays and symbols of nested lists in one list, and in which form they were.

    The form has 0 for each array or symbol, the number of outputs for a symbol that has several, and -1 for each None.

    Parameters
    ----------
    args
        Arrays, symbols and None in nested lists.
    inout_str
        What they are, for messages.
    """
    if args is None:
        return [None], -1
    if isinstance(args, NDArray):
        return [args], 0
    if isinstance(args, Symbol):
        count = len(args.list_outputs())
        return [args], count if count > 1 else 0
    if not isinstance(args, (list, tuple)):
        raise ValueError(
            f"When hybridized, the input of HybridBlock {inout_str} must be (nested) list of Symbol or NDArray, but "
            f"got {args} of type {type(args)}"
        )
    parts = [flattened_with_format(part, inout_str) for part in args]
    return [leaf for leaves, _ in parts for leaf in leaves], [form for _, form in parts]


def regrouped(args: Any, fmt: Any) -> Any:
    """Return arrays of one list in the form that :func:`flattened_with_format` has told."""
    return _taken(iter(args), fmt)


def _taken(values: Iterator[Any], form: Any) -> Any:
    if isinstance(form, (list, tuple)):
        return [_taken(values, part) for part in form]
    return next(values) if form <= 0 else [next(values) for _ in range(form)]
