"""Provide functions that combine a list of examples into a batch.

Worker processes hand the arrays of a batch to the program as memory; see :func:`to_transferable`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.array.handle import as_class, read
from ...core.base.devices import CPU, Context
from ...core.base.docstrings import complete_classes
from ...core.base.dtypes import as_dtype
from ...ndarray.array import NDArray, concrete
from ...ndarray.semantics import of_chosen_kind
from ...ndarray.sparse import BaseSparseNDArray

__all__ = [
    "Append",
    "AsList",
    "Group",
    "Pad",
    "Stack",
    "array_of",
    "default_batchify_fn",
    "from_transferable",
    "to_transferable",
]

Values = np.ndarray[Any, Any]


def _values(item: Any) -> Values:
    """Return an example as a NumPy array."""
    return read(item) if isinstance(item, NDArray) else np.asarray(item)


def array_of(values: Values) -> NDArray:
    """Return values as a batch. The caller must not write to them afterwards."""
    try:
        as_dtype(values.dtype)
    except KeyError:
        raise TypeError(
            f"examples of type {values.dtype} do not form an array; a batchify_fn such as batchify.AsList() "
            "keeps them as they are"
        ) from None
    return of_chosen_kind(concrete(np.ascontiguousarray(values), CPU))  # type: ignore[no-any-return]


def _stack(items: Sequence[Any]) -> NDArray:
    """Return examples of one shape as an array with a new first axis."""
    values = [_values(item) for item in items]
    shapes = {value.shape for value in values}
    if len(shapes) > 1:
        raise ValueError(
            f"examples of shapes {sorted(shapes)} cannot be stacked: transform them to one shape, or use "
            "batchify.Pad or batchify.Append as batchify_fn"
        )
    return array_of(np.stack(values))


def default_batchify_fn(data: Sequence[Any]) -> Any:
    """Stack examples into a batch; each part of tuples becomes a separate array.

    >>> default_batchify_fn([(1.5, 1), (2.5, 2)])[1].asnumpy()
    array([1, 2])
    """
    if isinstance(data[0], tuple):
        return [default_batchify_fn(part) for part in zip(*data)]
    return _stack(data)


class Stack:
    """Stack examples of one shape into a batch.

    >>> Stack()([[1, 2], [3, 4]]).shape
    (2, 2)
    """

    def __init__(self, use_shared_mem: bool = False) -> None:
        self._use_shared_mem = use_shared_mem

    def __call__(self, data: Sequence[Any]) -> NDArray:
        return _stack(data)


class Pad:
    """Pad examples to a common shape and stack them into a batch.

    Parameters
    ----------
    val
        The value of the padding. None means 0, with a warning.
    dtype
        The dtype of the batch. None takes the dtype of the examples.
    round_to
        A number of which the padded extents are multiples.
    use_shared_mem
        Has no effect; accepted for compatibility.
    axis
        The axis to pad. None pads all axes.
    ret_length
        Whether to return the original extents, too: along `axis`, or along all axes.

    >>> Pad(val=0)([[1, 2, 3], [4]]).asnumpy()
    array([[1, 2, 3],
           [4, 0, 0]])
    """

    def __init__(
        self,
        val: float | None = None,
        dtype: Any = None,
        round_to: int | None = None,
        use_shared_mem: bool = False,
        axis: int | None = None,
        ret_length: bool = False,
    ) -> None:
        self._axis = axis
        if val is None:
            warnings.warn("Pad pads with 0, because val is not given; pass val=0 to silence this warning", stacklevel=2)
        self._val = 0 if val is None else val
        self._ret_length = ret_length
        self._dtype = None if dtype is None else as_dtype(dtype)
        self._round_to = round_to

    def __call__(self, data: Sequence[Any]) -> Any:
        values = [_values(item) for item in data]
        ndim = values[0].ndim
        if any(value.ndim != ndim for value in values):
            raise ValueError("examples with different numbers of axes cannot be padded to one shape")
        axes = range(ndim) if self._axis is None else [self._axis % ndim]
        shape = list(values[0].shape)
        for axis in range(ndim):
            extents = {value.shape[axis] for value in values}
            if axis in axes:
                step = self._round_to or 1
                shape[axis] = -(-max(extents) // step) * step
            elif len(extents) > 1:
                raise ValueError(
                    f"examples have extents {sorted(extents)} along axis {axis}, but Pad pads only axis {self._axis}"
                )
        dtype = self._dtype if self._dtype is not None else np.result_type(*values)
        batch = np.full((len(values), *shape), self._val, dtype)
        for number, value in enumerate(values):
            batch[number][tuple([slice(extent) for extent in value.shape])] = value
        if not self._ret_length:
            return array_of(batch)
        lengths = [value.shape if self._axis is None else value.shape[self._axis] for value in values]
        return array_of(batch), array_of(np.array(lengths, np.int32))


class Append:
    """Return the examples as a list of arrays; `expand` inserts an axis for the batch."""

    def __init__(self, expand: bool = True, batch_axis: int = 0, use_shared_mem: bool = False) -> None:
        self._expand = expand
        self._batch_axis = batch_axis

    def __call__(self, data: Sequence[Any]) -> list[NDArray]:
        values = [np.array(_values(item)) for item in data]
        return [array_of(np.expand_dims(value, self._batch_axis) if self._expand else value) for value in values]


class Group:
    """Combine examples of several parts into a batch, with one function for each part.

    >>> data, names = Group(Stack(), AsList())([([1, 2], "a"), ([3, 4], "b")])
    >>> data.shape, names
    ((2, 2), ['a', 'b'])
    """

    def __init__(self, fn: Any, *args: Callable[[Sequence[Any]], Any]) -> None:
        if isinstance(fn, (list, tuple)):
            assert not args, "pass the functions as one list or as separate arguments, not both"
            self._fn: tuple[Callable[[Sequence[Any]], Any], ...] = tuple(fn)
        else:
            self._fn = (fn, *args)
        assert all(callable(each) for each in self._fn), f"the parts of Group must be functions, not {self._fn}"

    def __call__(self, data: Sequence[Any]) -> tuple[Any, ...]:
        assert len(data[0]) == len(self._fn), (
            f"examples have {len(data[0])} parts, but there are {len(self._fn)} functions"
        )
        return tuple([function([item[place] for item in data]) for place, function in enumerate(self._fn)])


class AsList:
    """Return the examples unchanged, as a list."""

    def __call__(self, data: Sequence[Any]) -> list[Any]:
        return list(data)


class _TransferableArray:
    """Hold a dense array for the transfer between processes: its values, class and context."""

    __slots__ = ("array_class", "context", "values")

    def __init__(self, values: Values, array_class: type[Any], context: Context) -> None:
        self.values, self.array_class, self.context = values, array_class, context

    def __reduce__(self) -> Any:
        return _TransferableArray, (self.values, self.array_class, self.context)


def to_transferable(batch: Any) -> Any:
    """Return a batch with its arrays replaced by objects that another process can receive."""
    if isinstance(batch, NDArray) and not isinstance(batch, BaseSparseNDArray):
        return _TransferableArray(read(batch), batch._result_class, batch.context)
    if type(batch) in (list, tuple):
        return type(batch)([to_transferable(part) for part in batch])
    if type(batch) is dict:
        return {key: to_transferable(part) for key, part in batch.items()}
    return batch


def from_transferable(batch: Any) -> Any:
    """Return a received batch with its arrays restored."""
    if isinstance(batch, _TransferableArray):
        return as_class(concrete(batch.values, batch.context), batch.array_class)
    if type(batch) in (list, tuple):
        return type(batch)([from_transferable(part) for part in batch])
    if type(batch) is dict:
        return {key: from_transferable(part) for key, part in batch.items()}
    return batch


complete_classes(globals())
