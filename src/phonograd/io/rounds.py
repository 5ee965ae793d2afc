"""Iterate over numbered examples in full batches, as MXNet's native iterators do."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.base.devices import CPU
from ..core.base.docstrings import complete_classes
from ..distributed.world import world
from ..ndarray.array import NDArray, concrete
from .iteration import DataBatch, DataDesc, DataIter

__all__ = ["RoundIter", "check_part", "choose_part", "part_of"]

Values = np.ndarray[Any, Any]


def check_part(num_parts: int, part_index: int) -> None:
    """Raise unless `part_index` is one of the parts."""
    if num_parts < 1 or not 0 <= part_index < num_parts:
        raise ValueError(f"part_index must be in 0..{num_parts - 1}, not {part_index}")


def choose_part(num_parts: int | None, part_index: int) -> tuple[int, int]:
    """Return the number of parts and the part; without a number, each process that trains with others has its part.

    >>> choose_part(4, 3), choose_part(None, 0)
    ((4, 3), (1, 0))
    """
    if num_parts is None:
        return world().size, world().rank
    check_part(num_parts, part_index)
    return num_parts, part_index


def part_of(count: int, num_parts: int, part_index: int) -> range:
    """Return the indices of the examples in one of `num_parts` equal parts.

    >>> part_of(5, 2, 1)
    range(3, 5)
    """
    check_part(num_parts, part_index)
    each, extra = divmod(count, num_parts)
    begin = part_index * each + min(part_index, extra)
    return range(begin, begin + each + (part_index < extra))


class RoundIter(DataIter):
    """Iterate over examples whose values a subclass returns by index.

    `round_batch` fills an incomplete last batch from the beginning, and the next pass skips these examples. Without
    `round_batch`, the examples at the same positions of the previous batch fill it.
    """

    def __init__(
        self, count: int, batch_size: int, round_batch: bool, data_name: str = "data", label_name: str = "softmax_label"
    ) -> None:
        super().__init__(batch_size)
        if batch_size < 1:
            raise ValueError(f"batch_size must be positive, not {batch_size}")
        if count < 1:
            raise ValueError("there are no examples to iterate over")
        self.round_batch = round_batch
        self._count = count
        self._names = data_name, label_name
        self._order = np.arange(count)
        self._place = 0
        self._pad = 0
        self._chosen: Values | None = None
        self._arrays: tuple[NDArray, NDArray] | None = None

    def _describe(self, data: tuple[int, ...], label: tuple[int, ...], dtype: Any, label_dtype: Any = None) -> None:
        """Set the descriptions of the batches; `label_dtype` defaults to `dtype`."""
        self.provide_data = [DataDesc(self._names[0], (self.batch_size, *data), dtype)]
        self.provide_label = [DataDesc(self._names[1], (self.batch_size, *label), label_dtype or dtype)]

    def _values(self, examples: Values) -> tuple[Values, Values]:
        """Return the data and labels of some examples."""
        raise NotImplementedError(f"{type(self).__name__} has no values")

    def _choose_order(self) -> None:
        """Choose the order of the next pass."""

    def reset(self) -> None:
        """Begin the next pass."""
        self._place = self._pad % self._count if self.round_batch else 0
        self._pad = 0
        self._chosen = self._arrays = None
        self._choose_order()

    def iter_next(self) -> bool:
        """Advance to the next batch, and return whether there is one."""
        if self._place >= self._count:
            return False
        end = self._place + self.batch_size
        self._pad = max(0, end - self._count)
        if self._pad and not self.round_batch and self._chosen is not None:
            rest = self._order[self._place :]
            self._chosen = np.concatenate([rest, self._chosen[len(rest) :]])
        else:
            self._chosen = self._order[np.arange(self._place, end) % self._count]
        self._place = end
        self._arrays = None
        return True

    def _batch(self) -> tuple[NDArray, NDArray]:
        if self._chosen is None:
            raise StopIteration("there is no batch before the first call of next")
        if self._arrays is None:
            data, label = self._values(self._chosen)
            self._arrays = concrete(np.ascontiguousarray(data), CPU), concrete(np.ascontiguousarray(label), CPU)
        return self._arrays

    def next(self) -> DataBatch:
        """Return the next batch, or raise StopIteration."""
        if not self.iter_next():
            raise StopIteration
        data, label = self._batch()
        return DataBatch([data], [label], self._pad, self.getindex())

    def getdata(self) -> NDArray:
        """Return the data of the batch."""
        return self._batch()[0]

    def getlabel(self) -> NDArray:
        """Return the labels of the batch."""
        return self._batch()[1]

    def getindex(self) -> Values | None:
        """Return the indices of the examples in the batch."""
        return None if self._chosen is None else self._chosen.astype(np.uint64)

    def getpad(self) -> int:
        """Return the number of examples at the end that only fill the batch."""
        return self._pad


complete_classes(globals())
