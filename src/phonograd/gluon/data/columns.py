"""Batches of examples that are taken and transformed all at once, where that gives the same values.

To take an example out of an array, to transform it and to stack it with others costs several times what the arithmetic
does. So datasets of arrays return the rows of many examples in one step, and transformations that do the same to each
element (``ToTensor``, ``Normalize``, ``Cast``) are applied to all of them. Whatever else there is, functions and random
transformations before these, too, is called for one example after the other, as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import autograd
from ...core.array.handle import known_value, make_concrete, read
from ...core.array.observed import LISTENERS
from ...core.base.devices import CPU
from ...core.trace.trace import LOCAL
from ...ndarray.array import NDArray
from ...ndarray.sparse import BaseSparseNDArray
from .batchify import array_of, default_batchify_fn

__all__ = ["Columns", "Steps", "batch_of", "gathered", "is_array", "rows_of"]

#: one part of many examples: an array of either library with a row for each, or a list
Column = Any


class Columns:
    """Many examples, part by part; those that are no tuples have one part."""

    __slots__ = ("are_tuples", "parts")

    def __init__(self, parts: Sequence[Column], are_tuples: bool) -> None:
        self.parts, self.are_tuples = list(parts), are_tuples

    def examples(self) -> list[Any]:
        """Return the examples one by one."""
        return list(zip(*self.parts)) if self.are_tuples else list(self.parts[0])

    def batch(self) -> Any:
        """Return what ``default_batchify_fn`` returns for the examples."""
        made = [default_batchify_fn(part) if type(part) is list else array_of(_values(part)) for part in self.parts]
        return made if self.are_tuples else made[0]


def batch_of(dataset: Any, batchify_fn: Callable[[Sequence[Any]], Any], numbers: Sequence[Any]) -> Any:
    """Return the batch of the examples with some numbers."""
    # other functions want the examples; records and observers want to see what happens to each
    if batchify_fn is not default_batchify_fn or LISTENERS or autograd.is_recording():
        return batchify_fn([dataset[number] for number in numbers])
    taken = gathered(dataset, numbers)
    return taken.batch() if type(taken) is Columns else default_batchify_fn(taken)  # type: ignore[arg-type]


def gathered(dataset: Any, numbers: Sequence[Any]) -> list[Any] | Columns:
    """Return the examples with some numbers, in columns if the dataset has them."""
    if len(numbers) and LOCAL.trace.allows_shortcuts:
        if hasattr(type(dataset), "_gathered"):
            return dataset._gathered(numbers)  # type: ignore[no-any-return]
        if is_array(dataset):
            return Columns([rows_of(dataset, numbers)], False)
    return [dataset[number] for number in numbers]


def is_array(data: Any) -> bool:
    """Return whether many rows of something can be taken at once, and are what its elements are."""
    if isinstance(data, NDArray):
        # an element of a vector is a vector
        return not isinstance(data, BaseSparseNDArray) and len(data.shape) > 1
    return type(data) in (np.ndarray, np.memmap) and data.ndim > 0 and data.dtype.kind in "biuf"


def _values(array: Any) -> Any:
    """Return the values of an array of either library, to which nobody may write."""
    if not isinstance(array, NDArray):
        return array
    value = known_value(array)
    return read(array) if value is None else value


def rows_of(data: Any, numbers: Sequence[Any]) -> Column:
    """Return the elements of an array, a list or a dataset with some numbers."""
    places = np.asarray(numbers) if is_array(data) else None
    if places is not None and places.ndim == 1 and places.dtype.kind in "iu":
        values = _values(data)
        if -len(values) <= places.min() and places.max() < len(values):
            rows = np.asarray(values[places])
            return make_concrete(rows, CPU, data._result_class) if isinstance(data, NDArray) else rows
    # where a number is wrong the data says so
    return [data[number] for number in numbers]


class Steps:
    """A function of examples as steps, of which each takes what the one before returns.

    Parameters
    ----------
    function
        The function.
    only_first
        Whether it changes the first part of an example and leaves the others as they are; else it gets all parts.
    before, at_once
        The steps that are taken for one example after the other, and the last ones, which can be taken for many.
    """

    def __init__(self, function: Callable[..., Any], only_first: bool, before: list[Any], at_once: list[Any]) -> None:
        self.function, self.only_first = function, only_first
        self.before, self.at_once = before, at_once

    def taken_one_by_one(self, example: Any, steps: Sequence[Any]) -> Any:
        """Return one example after some of the steps."""
        parts = example if isinstance(example, tuple) else (example,)
        if len(parts) != 1 and not (self.only_first and parts):
            # steps are functions of one argument, so this raises
            return self.function(*parts)
        changed, *others = parts
        for step in steps:
            changed = step(changed)
        return (changed, *others) if others else changed

    def taken_at_once(self, examples: list[Any] | Columns) -> list[Any] | Columns:
        """Return examples after the last steps, which are taken for all examples where they are alike."""
        if type(examples) is list and len({isinstance(each, tuple) and len(each) for each in examples}) == 1:
            are_tuples = isinstance(examples[0], tuple)
            examples = Columns(list(map(list, zip(*examples))) if are_tuples else [examples], are_tuples)
        if type(examples) is Columns and examples.parts and (self.only_first or len(examples.parts) == 1):
            first, *others = examples.parts
            changed = _changed(_stacked(first) if type(first) is list else first, self.at_once)
            if changed is not None:
                return Columns([changed, *others], bool(others))
        single: Any = examples.examples() if type(examples) is Columns else examples
        return [self.taken_one_by_one(example, self.at_once) for example in single]


def _changed(rows: Column, steps: Sequence[Any]) -> NDArray | None:
    """Return rows of an array that went through some steps; None if they are no such rows, or a step refuses them."""
    if not isinstance(rows, NDArray):
        return None
    values = _values(rows)
    try:
        for step in steps:
            if not step._is_for_rows(values.ndim - 1):
                return None
            values = step._of(values)
    except Exception:  # noqa: BLE001 - the error is to be that of a single example
        return None
    return make_concrete(values, CPU, rows._result_class)  # type: ignore[no-any-return]


def _stacked(items: list[Any]) -> NDArray | None:
    """Return arrays of one class, shape and dtype as the rows of one; None if they are something else."""
    first = items[0]
    if not isinstance(first, NDArray) or isinstance(first, BaseSparseNDArray):
        return None
    kinds = {(type(item), item.shape, item.dtype) for item in items if isinstance(item, NDArray)}
    if len(kinds) > 1 or not all([isinstance(item, NDArray) for item in items]):
        return None
    return make_concrete(np.stack([read(item) for item in items]), CPU, first._result_class)  # type: ignore[no-any-return]
