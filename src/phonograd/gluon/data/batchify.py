"""Functions that make a batch of a list of examples.

Arrays among what they return are handed from worker processes to the program as memory; see :func:`unfinished`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.array.handle import as_class, read
from ...core.base.devices import CPU, Context
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
    "finished",
    "unfinished",
]

Values = np.ndarray[Any, Any]


def _values(item: Any) -> Values:
    """Return an example as a NumPy array."""
    return read(item) if isinstance(item, NDArray) else np.asarray(item)


def array_of(values: Values) -> NDArray:
    """Return values as a batch; nobody may write to them afterwards."""
    try:
        as_dtype(values.dtype)
    except KeyError:
        raise TypeError(
            f"examples of type {values.dtype} do not make a batch of arrays; a batchify_fn such as batchify.AsList() "
            "leaves them as they are"
        ) from None
    return of_chosen_kind(concrete(np.ascontiguousarray(values), CPU))  # type: ignore[no-any-return]


def _stacked(items: Sequence[Any]) -> NDArray:
    """Return examples of one shape as an array with one more axis in front."""
    values = [_values(item) for item in items]
    shapes = {value.shape for value in values}
    if len(shapes) > 1:
        raise ValueError(
            f"examples of shapes {sorted(shapes)} do not make a batch: transform them to one shape, or use "
            "batchify.Pad or batchify.Append as batchify_fn"
        )
    return array_of(np.stack(values))


def default_batchify_fn(data: Sequence[Any]) -> Any:
    """Return examples as a batch: arrays and numbers stacked, each part of tuples for itself.

    >>> default_batchify_fn([(1.5, 1), (2.5, 2)])[1].asnumpy()
    array([1, 2])
    """
    if isinstance(data[0], tuple):
        return [default_batchify_fn(part) for part in zip(*data)]
    return _stacked(data)


class Stack:
    """Makes a batch of examples of one shape by stacking them.

    >>> Stack()([[1, 2], [3, 4]]).shape
    (2, 2)
    """

    def __init__(self, use_shared_mem: bool = False) -> None:
        self._use_shared_mem = use_shared_mem

    def __call__(self, data: Sequence[Any]) -> NDArray:
        return _stacked(data)


class Pad:
    """Makes a batch of examples of different extents by filling them up.

    Parameters
    ----------
    val
        With what they are filled up; 0 if this is None, with a warning.
    dtype
        The dtype of the batch; that of the examples if this is None.
    round_to
        A number of which the extents shall be multiples.
    use_shared_mem
        Accepted for compatibility.
    axis
        The axis that is filled up; all axes if this is None.
    ret_length
        Whether to return the original extents too: along `axis`, or all of them.

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
            warnings.warn("Pad fills up with 0, because no val is given: Pad(val=0) says so", stacklevel=2)
        self._val = 0 if val is None else val
        self._ret_length = ret_length
        self._dtype = None if dtype is None else as_dtype(dtype)
        self._round_to = round_to

    def __call__(self, data: Sequence[Any]) -> Any:
        values = [_values(item) for item in data]
        ndim = values[0].ndim
        if any(value.ndim != ndim for value in values):
            raise ValueError("examples with different numbers of axes cannot be filled up to one shape")
        axes = range(ndim) if self._axis is None else [self._axis % ndim]
        shape = list(values[0].shape)
        for axis in range(ndim):
            extents = {value.shape[axis] for value in values}
            if axis in axes:
                step = self._round_to or 1
                shape[axis] = -(-max(extents) // step) * step
            elif len(extents) > 1:
                raise ValueError(
                    f"examples have extents {sorted(extents)} along axis {axis}, but Pad fills {self._axis}"
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
    """Makes a list of the examples, each an array, with an axis for the batch in front if `expand` is set."""

    def __init__(self, expand: bool = True, batch_axis: int = 0, use_shared_mem: bool = False) -> None:
        self._expand = expand
        self._batch_axis = batch_axis

    def __call__(self, data: Sequence[Any]) -> list[NDArray]:
        values = [np.array(_values(item)) for item in data]
        return [array_of(np.expand_dims(value, self._batch_axis) if self._expand else value) for value in values]


class Group:
    """Makes a batch of examples with several parts by a function for each part.

    >>> data, names = Group(Stack(), AsList())([([1, 2], "a"), ([3, 4], "b")])
    >>> data.shape, names
    ((2, 2), ['a', 'b'])
    """

    def __init__(self, fn: Any, *args: Callable[[Sequence[Any]], Any]) -> None:
        if isinstance(fn, (list, tuple)):
            assert not args, "the functions stand in one list, or one after the other"
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
    """Returns the examples as a list, as they are."""

    def __call__(self, data: Sequence[Any]) -> list[Any]:
        return list(data)


class _Handed:
    """A dense array on its way between processes: its values, its class, and where it says it is."""

    __slots__ = ("array_class", "context", "values")

    def __init__(self, values: Values, array_class: type[Any], context: Context) -> None:
        self.values, self.array_class, self.context = values, array_class, context

    def __reduce__(self) -> Any:
        return _Handed, (self.values, self.array_class, self.context)


def unfinished(batch: Any) -> Any:
    """Return a batch with its arrays ready to be handed to another process."""
    if isinstance(batch, NDArray) and not isinstance(batch, BaseSparseNDArray):
        return _Handed(read(batch), batch._result_class, batch.context)
    if type(batch) in (list, tuple):
        return type(batch)([unfinished(part) for part in batch])
    if type(batch) is dict:
        return {key: unfinished(part) for key, part in batch.items()}
    return batch


def finished(batch: Any) -> Any:
    """Return a batch that was handed over with arrays again."""
    if isinstance(batch, _Handed):
        return as_class(concrete(batch.values, batch.context), batch.array_class)
    if type(batch) in (list, tuple):
        return type(batch)([finished(part) for part in batch])
    if type(batch) is dict:
        return {key: finished(part) for key, part in batch.items()}
    return batch
