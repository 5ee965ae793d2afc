"""Wrap iterators: change the length of a pass, or prefetch batches in a thread."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.base.docstrings import complete_classes
from .iteration import DataBatch, DataDesc, DataIter

__all__ = ["PrefetchingIter", "ResizeIter"]


class ResizeIter(DataIter):
    """Take a fixed number of batches per pass from another iterator, which restarts whenever it ends.

    Parameters
    ----------
    data_iter
        The other iterator.
    size
        The number of batches in a pass.
    reset_internal
        Whether ``reset`` also resets the other iterator.
    """

    def __init__(self, data_iter: DataIter, size: int, reset_internal: bool = True) -> None:
        super().__init__(data_iter.batch_size)
        self.data_iter = data_iter
        self.size = size
        self.reset_internal = reset_internal
        self.cur = 0
        self.current_batch: DataBatch | None = None
        self.provide_data: Any = getattr(data_iter, "provide_data", None)
        self.provide_label: Any = getattr(data_iter, "provide_label", None)
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self) -> None:
        """Begin the next pass."""
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def iter_next(self) -> bool:
        """Advance to the next batch, and return whether there is one."""
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        return True

    def _batch(self) -> DataBatch:
        if self.current_batch is None:
            raise StopIteration("there is no batch before the first call of next")
        return self.current_batch

    def getdata(self) -> Any:
        """Return the data of the batch."""
        return self._batch().data

    def getlabel(self) -> Any:
        """Return the labels of the batch."""
        return self._batch().label

    def getindex(self) -> Any:
        """Return the indices of the examples in the batch."""
        return self._batch().index

    def getpad(self) -> int | None:
        """Return the number of examples at the end that only fill the batch."""
        return self._batch().pad


class _Source:
    """Read batches from an iterator in a thread, one batch ahead of the consumer."""

    def __init__(self, iterator: DataIter) -> None:
        self.iterator = iterator
        self.wanted: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.batches: queue.SimpleQueue[DataBatch | BaseException | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="PrefetchingIter", daemon=True).start()
        self.wanted.put("next")

    def _run(self) -> None:
        while (wish := self.wanted.get()) != "end":
            try:
                if wish == "reset":
                    self.iterator.reset()
                self.batches.put(self.iterator.next())
            except StopIteration:
                self.batches.put(None)
            except BaseException as error:  # noqa: BLE001
                self.batches.put(error)

    def end(self) -> None:
        """Stop the thread."""
        self.wanted.put("end")


class PrefetchingIter(DataIter):
    """Combine the batches of one or several iterators, which threads prefetch.

    Parameters
    ----------
    iters
        The iterators, with equal numbers of batches.
    rename_data, rename_label
        For each iterator, a dictionary from old to new names of its arrays.
    """

    def __init__(
        self,
        iters: DataIter | Sequence[DataIter],
        rename_data: Sequence[Mapping[str, str]] | None = None,
        rename_label: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        self.iters: list[Any] = list(iters) if isinstance(iters, (list, tuple)) else [iters]
        assert self.iters, "PrefetchingIter needs at least one iterator"
        super().__init__()
        self.n_iter = len(self.iters)
        self.rename_data, self.rename_label = rename_data, rename_label
        self.batch_size = self.provide_data[0][1][0]
        self.current_batch: DataBatch | None = None
        self._sources = [_Source(iterator) for iterator in self.iters]
        #: whether each thread has a batch to deliver
        self._expected = True
        for source in self._sources:
            weakref.finalize(self, source.end)

    @property
    def provide_data(self) -> list[DataDesc]:
        """The descriptions of the data in a batch."""
        return self._rename([each.provide_data for each in self.iters], self.rename_data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """The descriptions of the labels in a batch."""
        return self._rename([each.provide_label for each in self.iters], self.rename_label)

    @staticmethod
    def _rename(provided: list[Any], names: Sequence[Mapping[str, str]] | None) -> list[DataDesc]:
        result = []
        for descriptions, renaming in zip(provided, names or [{}] * len(provided)):
            for given in descriptions:
                one = given if isinstance(given, DataDesc) else DataDesc(*given)
                result.append(DataDesc(renaming.get(one.name, one.name), one.shape, one.dtype, one.layout))
        return result

    def reset(self) -> None:
        """Begin the next pass."""
        for source in self._sources:
            if self._expected:
                source.batches.get()
            source.wanted.put("reset")
        self._expected = True

    def iter_next(self) -> bool:
        """Advance to the next batch, and return whether there is one."""
        if not self._expected:
            return False
        batches = [source.batches.get() for source in self._sources]
        self._expected = False
        for batch in batches:
            if isinstance(batch, BaseException):
                raise batch
        found = [batch for batch in batches if isinstance(batch, DataBatch)]
        if not found:
            return False
        assert len(found) == len(batches), "Number of entry mismatches between iterators"
        assert len({batch.pad for batch in found}) == 1, "Number of entry mismatches between iterators"
        self.current_batch = DataBatch(
            [array for batch in found for array in batch.data],
            [array for batch in found for array in batch.label or ()],
            found[0].pad,
            found[0].index,
            provide_data=self.provide_data,
            provide_label=self.provide_label,
        )
        for source in self._sources:
            source.wanted.put("next")
        self._expected = True
        return True

    def next(self) -> DataBatch:
        """Return the next batch, or raise StopIteration."""
        if self.iter_next():
            return self._batch()
        raise StopIteration

    def _batch(self) -> DataBatch:
        if self.current_batch is None:
            raise StopIteration("there is no batch before the first call of next")
        return self.current_batch

    def getdata(self) -> Any:
        """Return the data of the batch."""
        return self._batch().data

    def getlabel(self) -> Any:
        """Return the labels of the batch."""
        return self._batch().label

    def getindex(self) -> Any:
        """Return the indices of the examples in the batch."""
        return self._batch().index

    def getpad(self) -> int | None:
        """Return the number of examples at the end that only fill the batch."""
        return self._batch().pad


complete_classes(globals())
