"""Provide datasets: examples that have a count and an index, and datasets derived from others.

Takes columns from :mod:`.columns` and samplers from :mod:`.sampler`; hands examples to ``DataLoader``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ... import recordio
from ...core.base.docstrings import complete_classes
from ...ndarray.array import NDArray
from .columns import Columns, Steps, gather_examples, is_array, rows_of
from .sampler import FilterSampler, Sampler, SequentialSampler

__all__ = ["ArrayDataset", "Dataset", "RecordFileDataset", "SimpleDataset"]


class Dataset:
    """Base class of datasets. A subclass defines ``__getitem__`` and ``__len__``."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # an inherited `_gather_examples` would bypass the subclass's own `__getitem__`
        defining = [
            next(each for each in cls.__mro__ if name in vars(each)) for name in ("__getitem__", "_gather_examples")
        ]
        if defining[0] is not defining[1]:
            cls._gather_examples = Dataset._gather_examples  # type: ignore[method-assign]

    def _gather_examples(self, numbers: Sequence[Any]) -> list[Any] | Columns:
        """Return ``self[number]`` for each index in `numbers`, in this order."""
        return [self[number] for number in numbers]

    def __getitem__(self, idx: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no __len__")

    def filter(self, fn: Callable[[Any], Any]) -> Dataset:
        """Return a dataset of the examples for which a function returns True. The call evaluates all examples.

        >>> list(SimpleDataset([1, 2, 3]).filter(lambda number: number % 2 == 1))
        [1, 3]
        """
        return _SampledDataset(self, FilterSampler(fn, self))

    def shard(self, num_shards: int, index: int) -> Dataset:
        """Return one of `num_shards` parts of the dataset; the first parts have one example more if sizes are uneven.

        >>> [list(SimpleDataset([1, 2, 3]).shard(2, part)) for part in (0, 1)]
        [[1, 2], [3]]
        """
        assert index < num_shards, f"Shard index of out bound: {index} out of {num_shards}"
        assert num_shards > 0, "Number of shards must be greater than 0"
        assert index >= 0, "Index must be non-negative"
        each, rest = divmod(len(self), num_shards)
        begin = each * index + min(index, rest)
        return _SampledDataset(self, SequentialSampler(each + (index < rest), begin))

    def take(self, count: int | None) -> Dataset:
        """Return a dataset of the first `count` examples; None takes all."""
        if count is None or count > len(self):
            count = len(self)
        if count < 0:
            raise ValueError(f"count must not be negative, but is {count}")
        return _SampledDataset(self, SequentialSampler(count))

    def sample(self, sampler: Sampler) -> Dataset:
        """Return a dataset of the examples that a sampler selects, in its order."""
        if not isinstance(sampler, Sampler):
            raise TypeError(f"Invalid sampler type: {type(sampler)}. Expected gluon.data.Sampler instead.")
        return _SampledDataset(self, sampler)

    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """Return a dataset of the results of a function, which takes the parts of an example as arguments.

        With `lazy`, each access calls the function; otherwise this call does so for all examples.
        """
        transformed = _LazyTransformDataset(self, fn)
        return transformed if lazy else SimpleDataset(list(transformed))

    def transform_first(self, fn: Callable[[Any], Any], lazy: bool = True) -> Dataset:
        """Return a dataset that transforms the first part of each example, and leaves the other parts unchanged."""
        return self.transform(_TransformFirstClosure(fn), lazy)

    def __iter__(self) -> Iterator[Any]:
        # the default iteration ends at an IndexError, so that one raised by a transformation would end the dataset
        return (self[number] for number in range(len(self)))


class SimpleDataset(Dataset):
    """Wrap a list, an array, or any other object with a length and an index.

    >>> len(SimpleDataset([1, 2, 3]))
    3
    """

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: int) -> Any:
        return self._data[idx]

    def _gather_examples(self, numbers: Sequence[Any]) -> list[Any] | Columns:
        return (
            Columns([rows_of(self._data, numbers)], False)
            if is_array(self._data)
            else super()._gather_examples(numbers)
        )


class _LazyTransformDataset(Dataset):
    """Apply a function to the examples of another dataset."""

    def __init__(self, data: Dataset, fn: Callable[..., Any]) -> None:
        self._data = data
        self._fn = fn

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: int) -> Any:
        item = self._data[idx]
        return self._fn(*item) if isinstance(item, tuple) else self._fn(item)

    def _gather_examples(self, numbers: Sequence[Any]) -> list[Any] | Columns:
        only_first = type(self._fn) is _TransformFirstClosure
        function: Any = self._fn._fn if type(self._fn) is _TransformFirstClosure else self._fn
        if not hasattr(type(function), "_split_steps"):
            return super()._gather_examples(numbers)
        steps = Steps(function, only_first, *function._split_steps())
        if not steps.at_once:
            return super()._gather_examples(numbers)
        if not steps.before:
            return steps.apply_to_all(gather_examples(self._data, numbers))
        # one example after another, so that each draws the same random numbers as without columns
        examples = [steps.apply_to_example(self._data[number], steps.before) for number in numbers]
        return steps.apply_to_all(examples)


class _TransformFirstClosure:
    """Transform the first part of an example; a class, because worker processes must be able to unpickle it."""

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self._fn = fn

    def __call__(self, x: Any, *args: Any) -> Any:
        return (self._fn(x), *args) if args else self._fn(x)


class _SampledDataset(Dataset):
    """Select the examples of another dataset that a sampler yields."""

    def __init__(self, dataset: Dataset, sampler: Sampler) -> None:
        self._dataset = dataset
        self._sampler = sampler
        self._indices = list(sampler)

    def __len__(self) -> int:
        return len(self._indices)

    def __getitem__(self, idx: int) -> Any:
        return self._dataset[self._indices[idx]]

    def _gather_examples(self, numbers: Sequence[Any]) -> list[Any] | Columns:
        return gather_examples(self._dataset, [self._indices[number] for number in numbers])


class ArrayDataset(Dataset):
    """Combine arrays, lists or datasets of the same length: example `i` is the tuple of their elements `i`.

    >>> ArrayDataset([1, 2], ["one", "two"])[1]
    (2, 'two')
    """

    def __init__(self, *args: Any) -> None:
        assert args, "Needs at least 1 arrays"
        self._length = len(args[0])
        self._data: list[Any] = []
        for number, data in enumerate(args):
            assert len(data) == self._length, (
                f"All arrays must have the same length; array[0] has length {self._length} while array[{number}] has "
                f"{len(data)}."
            )
            # labels are used one by one: a number is more convenient than an array with one element
            self._data.append(data.asnumpy() if isinstance(data, NDArray) and len(data.shape) == 1 else data)

    def __getitem__(self, idx: int) -> Any:
        if len(self._data) == 1:
            return self._data[0][idx]
        return tuple([data[idx] for data in self._data])

    def _gather_examples(self, numbers: Sequence[Any]) -> list[Any] | Columns:
        # two datasets may both draw random numbers: reading them column by column would change the order of the draws
        if sum([not is_array(data) for data in self._data]) > 1:
            return super()._gather_examples(numbers)
        return Columns([rows_of(data, numbers) for data in self._data], len(self._data) > 1)

    def __len__(self) -> int:
        return self._length


class RecordFileDataset(Dataset):
    """Read the records of a file ``name.rec`` through its index ``name.idx``."""

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = os.fspath(filename)
        self.idx_file = os.path.splitext(self.filename)[0] + ".idx"
        self._record = recordio.MXIndexedRecordIO(self.idx_file, self.filename, "r")

    def __getitem__(self, idx: int) -> Any:
        return self._record.read_idx(self._record.keys[idx])

    def __len__(self) -> int:
        return len(self._record.keys)


complete_classes(globals())
