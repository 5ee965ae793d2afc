"""Batches: check their names and shapes against those of a module, and extract their arrays."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .. import ndarray
from ..io import DataDesc
from ..ndarray import NDArray
from ..symbol import Symbol

__all__ = ["arrays_of", "check_names", "describe_inputs"]


def check_names(symbol: Symbol, names: Sequence[str], kind: str, is_error: bool) -> None:
    """Raise or warn if names are not arguments of a symbol."""
    arguments = symbol.list_arguments()
    for name in names:
        if name in arguments:
            continue
        endings = ("_weight", "_bias", "_gamma", "_beta")
        candidates = [argument for argument in arguments if not argument.endswith(endings)]
        message = (
            f"You created Module with Module(..., {kind}_names={list(names)}) but input with name '{name}' is not "
            f"found in symbol.list_arguments(). Did you mean one of:\n\t" + "\n\t".join(candidates)
        )
        if is_error:
            raise ValueError(message)
        warnings.warn(message, stacklevel=4)


def describe_inputs(shapes: Any, names: Sequence[str], kind: str, is_error: bool) -> list[DataDesc]:
    """Convert shapes to descriptions; raise or warn if their names differ from the module's."""
    found = [each if isinstance(each, DataDesc) else DataDesc(*each) for each in shapes or ()]
    if sorted(each.name for each in found) != sorted(names):
        message = f"Data provided by {kind}_shapes don't match names specified by {kind}_names ({found} vs. {names})"
        if is_error:
            raise ValueError(message)
        warnings.warn(message, stacklevel=4)
    return [DataDesc(each.name, tuple(each.shape), each.dtype, each.layout) for each in found]


def arrays_of(batch: Any) -> tuple[list[NDArray], list[NDArray]]:
    """Return data and labels of a batch; parts in a list are concatenated."""
    if not isinstance(batch, list):
        # prediction code creates batches without labels
        return list(batch.data), list(getattr(batch, "label", None) or [])
    data = [ndarray.concatenate(list(parts)) for parts in zip(*[one.data for one in batch], strict=True)]
    labels = [getattr(one, "label", None) for one in batch]
    if any(label is None for label in labels):
        return data, []
    return data, [ndarray.concatenate(list(parts)) for parts in zip(*labels, strict=True)]
