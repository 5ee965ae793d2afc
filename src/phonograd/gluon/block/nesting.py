"""Flatten and rebuild nested lists of arrays and symbols, which are the arguments and results of blocks.

An outline is such a structure with a mark in place of each array or symbol.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...ndarray.array import NDArray
from ...symbol import Symbol

__all__ = [
    "count_arrays",
    "describe_outline",
    "fill_outline",
    "flatten_arrays",
    "flatten_with_format",
    "make_outline",
    "regroup",
    "tuples_to_lists",
]

_INPUT = object()


def make_outline(value: Any) -> Any:
    """Return nested lists with a mark in place of each array or symbol."""
    if isinstance(value, (list, tuple)):
        return [make_outline(part) for part in value]
    return _INPUT if isinstance(value, (NDArray, Symbol)) else value


def describe_outline(outline: Any) -> Any:
    """Return MXNet's description of an outline: 0 for an array, -1 for any other value, a list for a list."""
    if isinstance(outline, list):
        return [describe_outline(part) for part in outline]
    return 0 if outline is _INPUT else -1


def count_arrays(outline: Any) -> int:
    """Return the number of marks in an outline."""
    if isinstance(outline, list):
        return sum([count_arrays(part) for part in outline])
    return int(outline is _INPUT)


def fill_outline(outline: Any, values: Iterator[Any]) -> Any:
    """Return an outline with its marks replaced by values."""
    if isinstance(outline, list):
        return [fill_outline(part, values) for part in outline]
    return next(values) if outline is _INPUT else outline


def flatten_arrays(value: Any) -> list[Any]:
    """Return all arrays and symbols of nested lists in one list."""
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in flatten_arrays(part)]
    return [value] if isinstance(value, (NDArray, Symbol)) else []


def tuples_to_lists(value: Any) -> Any:
    """Return nested containers with lists in place of tuples."""
    return [tuples_to_lists(part) for part in value] if type(value) in (list, tuple) else value


def flatten_with_format(args: Any, inout_str: str) -> tuple[list[Any], Any]:
    """Return all arrays and symbols of nested lists in one list, and their format.

    The format has 0 for each array or symbol, the number of outputs for a symbol with several, and -1 for each None.

    Parameters
    ----------
    args
        Arrays, symbols and None in nested lists.
    inout_str
        The word for error messages: 'input' or 'output'.
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
    parts = [flatten_with_format(part, inout_str) for part in args]
    return [leaf for leaves, _ in parts for leaf in leaves], [form for _, form in parts]


def regroup(args: Any, fmt: Any) -> Any:
    """Return a list of arrays in a format of :func:`flatten_with_format`."""
    return _take(iter(args), fmt)


def _take(values: Iterator[Any], form: Any) -> Any:
    if isinstance(form, (list, tuple)):
        return [_take(values, part) for part in form]
    return next(values) if form <= 0 else [next(values) for _ in range(form)]
