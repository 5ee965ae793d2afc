"""Read and transform the examples of a batch all at once, where this gives the same values.

To read an example from an array, transform it and stack it costs several times as much as the arithmetic. Datasets of
arrays therefore return the rows of many examples in one step. Elementwise transformations (``ToTensor``,
``Normalize``, ``Cast``) apply to all of them. All other functions and random transformations run for one example after
another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import autograd
from ...core.array.handle import known_value, make_concrete, read
from ...core.array.observed import LISTENERS
from ...core.base.devices import CPU
from ...core.base.outside import is_from_outside
from ...core.trace.trace import LOCAL
from ...ndarray.array import NDArray
from ...ndarray.sparse import BaseSparseNDArray
from .batchify import array_of, default_batchify_fn

__all__ = ["Columns", "Steps", "batch_of", "gather_examples", "is_array", "rows_of"]

#: one part of many examples: an array of either library with one row per example, or a list
Column = Any


class Columns:
    """Hold many examples, part by part; examples that are not tuples have one part."""

    __slots__ = ("are_tuples", "parts")

    def __init__(self, parts: Sequence[Column], are_tuples: bool) -> None:
        self.parts, self.are_tuples = list(parts), are_tuples

    def examples(self) -> list[Any]:
        """Return the examples one by one."""
        return list(zip(*self.parts)) if self.are_tuples else list(self.parts[0])

    def batch(self) -> Any:
        """Return the result of ``default_batchify_fn`` for the examples."""
        made = [default_batchify_fn(part) if type(part) is list else array_of(_values(part)) for part in self.parts]
        return made if self.are_tuples else made[0]


def batch_of(dataset: Any, batchify_fn: Callable[[Sequence[Any]], Any], numbers: Sequence[Any]) -> Any:
    """Return the batch of the examples at some indices."""
    # other functions need single examples; recording and listeners must see the operators of each example
    if batchify_fn is not default_batchify_fn or LISTENERS or autograd.is_recording():
        return batchify_fn([dataset[number] for number in numbers])
    taken = gather_examples(dataset, numbers)
    return taken.batch() if type(taken) is Columns else default_batchify_fn(taken)  # type: ignore[arg-type]


def gather_examples(dataset: Any, numbers: Sequence[Any]) -> list[Any] | Columns:
    """Return the examples at some indices, in columns if the dataset supports them."""
    if len(numbers) and LOCAL.trace.allows_shortcuts:
        if hasattr(type(dataset), "_gather_examples"):
            return dataset._gather_examples(numbers)  # type: ignore[no-any-return]
        if is_array(dataset):
            return Columns([rows_of(dataset, numbers)], False)
    return [dataset[number] for number in numbers]


def is_array(data: Any) -> bool:
    """Return whether reading many rows of `data` at once gives the same elements as reading each."""
    if isinstance(data, NDArray):
        # an element of a vector is a vector with one element
        return not isinstance(data, BaseSparseNDArray) and len(data.shape) > 1
    return type(data) in (np.ndarray, np.memmap) and data.ndim > 0 and data.dtype.kind in "biuf"


def _values(array: Any) -> Any:
    """Return the values of an array of either library. The caller must not write to them."""
    if not isinstance(array, NDArray):
        return array
    value = known_value(array)
    return read(array) if value is None else value


def rows_of(data: Any, numbers: Sequence[Any]) -> Column:
    """Return the elements of an array, a list or a dataset at some indices."""
    places = np.asarray(numbers) if is_array(data) else None
    if places is not None and places.ndim == 1 and places.dtype.kind in "iu":
        values = _values(data)
        if -len(values) <= places.min() and places.max() < len(values):
            rows = np.asarray(values[places])
            return make_concrete(rows, CPU, data._result_class) if isinstance(data, NDArray) else rows
    # for an invalid index, the data itself raises the error
    return [data[number] for number in numbers]


class Steps:
    """Split a function of examples into steps, each of which takes the result of the previous one.

    Parameters
    ----------
    function
        The whole function.
    only_first
        Whether it takes only the first part of an example and leaves the others unchanged; otherwise it takes all
        parts.
    before, at_once
        The steps for one example after another, and the last steps, which can run for many examples at once.
    """

    def __init__(self, function: Callable[..., Any], only_first: bool, before: list[Any], at_once: list[Any]) -> None:
        self.function, self.only_first = function, only_first
        self.before, self.at_once = before, at_once

    def apply_to_example(self, example: Any, steps: Sequence[Any]) -> Any:
        """Return one example after some of the steps."""
        parts = example if isinstance(example, tuple) else (example,)
        if len(parts) != 1 and not (self.only_first and parts):
            # steps take one argument: let the function itself raise the error
            return self.function(*parts)
        changed, *others = parts
        for step in steps:
            changed = step(changed)
        return (changed, *others) if others else changed

    def apply_to_all(self, examples: list[Any] | Columns) -> list[Any] | Columns:
        """Return examples after the last steps, which run for all examples at once if these are alike."""
        if type(examples) is list and len({isinstance(each, tuple) and len(each) for each in examples}) == 1:
            are_tuples = isinstance(examples[0], tuple)
            examples = Columns(list(map(list, zip(*examples))) if are_tuples else [examples], are_tuples)
        if type(examples) is Columns and examples.parts and (self.only_first or len(examples.parts) == 1):
            first, *others = examples.parts
            changed = _apply_to_rows(_stack_rows(first) if type(first) is list else first, self.at_once)
            if changed is not None:
                return Columns([changed, *others], bool(others))
        single: Any = examples.examples() if type(examples) is Columns else examples
        return [self.apply_to_example(example, self.at_once) for example in single]


def _apply_to_rows(rows: Column, steps: Sequence[Any]) -> NDArray | None:
    """Return rows of an array after some steps; None if `rows` is no array, or a step rejects it."""
    if not isinstance(rows, NDArray):
        return None
    values = _values(rows)
    try:
        for step in steps:
            if not step._accepts_rows(values.ndim - 1):
                return None
            values = step._transform(values)
    except Exception as error:
        if is_from_outside(error):
            raise
        # the caller repeats the step for single examples, which raises a clearer error
        return None
    return make_concrete(values, CPU, rows._result_class)  # type: ignore[no-any-return]


def _stack_rows(items: list[Any]) -> NDArray | None:
    """Return arrays of one class, shape and dtype as the rows of one array; None if they differ."""
    first = items[0]
    if not isinstance(first, NDArray) or isinstance(first, BaseSparseNDArray):
        return None
    kinds = {(type(item), item.shape, item.dtype) for item in items if isinstance(item, NDArray)}
    if len(kinds) > 1 or not all([isinstance(item, NDArray) for item in items]):
        return None
    return make_concrete(np.stack([read(item) for item in items]), CPU, first._result_class)  # type: ignore[no-any-return]
