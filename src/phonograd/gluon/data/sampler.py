"""Provide samplers, which select examples, their order, and their batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ...core.base.docstrings import complete_classes
from ...distributed.world import world
from ...io.rounds import check_part

__all__ = [
    "BatchSampler",
    "FilterSampler",
    "IntervalSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SplitSampler",
]


class Sampler:
    """Base class of samplers. A subclass defines ``__iter__`` and ``__len__``."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} has no __iter__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no __len__")


class SequentialSampler(Sampler):
    """Yield `length` indices from `start` on.

    >>> list(SequentialSampler(3, start=5))
    [5, 6, 7]
    """

    def __init__(self, length: int, start: int = 0) -> None:
        self._length = length
        self._start = start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._start, self._start + self._length))

    def __len__(self) -> int:
        return self._length


class RandomSampler(Sampler):
    """Yield the indices below `length` in random order; ``np.random.seed`` makes it reproducible."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __iter__(self) -> Iterator[int]:
        order = np.arange(self._length)
        np.random.shuffle(order)
        return iter(order.tolist())

    def __len__(self) -> int:
        return self._length


class SplitSampler(Sampler):
    """Yield the indices of one part of `length` examples: each process that trains with others has its part.

    All parts have the same number of indices, so that all processes take the same number of steps: parts that would be
    shorter begin again, as far as needed.

    Parameters
    ----------
    length
        The number of examples.
    num_parts, part_index
        The number of parts, and the part; the processes and the rank of this one by default.
    shuffle
        Whether to divide a new random order in each pass; it is the same in all processes.
    seed
        The seed of the orders.
    start
        How many examples of each pass to leave out, because all processes together have taken them already: a training
        that goes on within a pass, perhaps on another number of processes.

    >>> list(SplitSampler(5, num_parts=2, part_index=1)), list(SplitSampler(5, num_parts=2, part_index=1, start=3))
    ([1, 3, 0], [4])
    """

    def __init__(
        self,
        length: int,
        num_parts: int | None = None,
        part_index: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
        start: int = 0,
    ) -> None:
        self._length = length
        self._start = min(start, length)
        self._parts = world().size if num_parts is None else num_parts
        self._part = world().rank if part_index is None else part_index
        check_part(self._parts, self._part)
        if length < 1:
            raise ValueError("there are no examples to divide")
        if start < 0:
            raise ValueError(f"start must not be negative, but is {start}")
        self._shuffle, self._seed, self._passes = shuffle, seed, 0

    def __iter__(self) -> Iterator[int]:
        order = np.arange(self._length)
        if self._shuffle:
            np.random.RandomState((self._seed + self._passes) & 0xFFFFFFFF).shuffle(order)
            self._passes += 1
        # neighbors go to different parts: a step of all processes takes the examples that one process would take
        return iter(np.resize(order[self._start :], len(self) * self._parts)[self._part :: self._parts].tolist())

    def __len__(self) -> int:
        return -(-(self._length - self._start) // self._parts)


class FilterSampler(Sampler):
    """Yield the indices of the examples for which a function returns True.

    >>> list(FilterSampler(lambda word: word.startswith("b"), ["a", "bc", "b"]))
    [1, 2]
    """

    def __init__(self, fn: Callable[[Any], Any], dataset: Any) -> None:
        self._fn = fn
        self._dataset = dataset
        self._indices = [number for number in range(len(dataset)) if fn(dataset[number])]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


class IntervalSampler(Sampler):
    """Yield every `interval`-th index below `length`; with `rollover`, continue with the indices in between.

    >>> list(IntervalSampler(7, 3)), list(IntervalSampler(7, 3, rollover=False))
    ([0, 3, 6, 1, 4, 2, 5], [0, 3, 6])
    """

    def __init__(self, length: int, interval: int, rollover: bool = True) -> None:
        assert interval <= length, f"Interval {interval} must be smaller than or equal to length {length}"
        self._length = length
        self._interval = interval
        self._rollover = rollover

    def __iter__(self) -> Iterator[int]:
        for begin in range(self._interval if self._rollover else 1):
            yield from range(begin, self._length, self._interval)

    def __len__(self) -> int:
        return self._length if self._rollover else -(-self._length // self._interval)


class BatchSampler(Sampler):
    """Yield lists of `batch_size` indices of another sampler.

    `last_batch` selects the treatment of a shorter last list: ``'keep'`` yields it, ``'discard'`` drops it, and
    ``'rollover'`` puts it at the beginning of the next pass.

    >>> list(BatchSampler(SequentialSampler(5), 2, "keep"))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, last_batch: str = "keep") -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be positive, not {batch_size}")
        self._sampler = sampler
        self._batch_size = batch_size
        self._last_batch = last_batch
        self._prev: list[Any] = []
        self._check()

    def _check(self) -> None:
        if self._last_batch not in ("keep", "discard", "rollover"):
            raise ValueError(f"last_batch must be one of 'keep', 'discard', or 'rollover', but got {self._last_batch}")

    def __iter__(self) -> Iterator[list[Any]]:
        batch, self._prev = self._prev, []
        for number in self._sampler:
            batch.append(number)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch and self._last_batch == "keep":
            yield batch
        elif self._last_batch == "rollover":
            self._prev = batch

    def __len__(self) -> int:
        count = len(self._sampler)  # type: ignore[arg-type]
        if self._last_batch == "keep":
            return -(-count // self._batch_size)
        return (count + (len(self._prev) if self._last_batch == "rollover" else 0)) // self._batch_size


complete_classes(globals())
