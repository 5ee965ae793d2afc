"""Iterate over batches that a pool of :mod:`multiprocessing` makes, as MXNet's loaders do it.

DataLoader has workers of its own (:mod:`.workers`). Other libraries derive their loaders from MXNet's iterator, so it
is here with its fields: GluonCV overrides ``_push_next``, and passes a pool and a function of its own.
"""

from __future__ import annotations

import io
import multiprocessing
import pickle
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.pool import ThreadPool
from multiprocessing.reduction import ForkingPickler
from typing import Any

from ...core.base.devices import Context, cpu_pinned
from ...ndarray.array import NDArray
from ...util import set_np

__all__ = ["MultiWorkerIter", "as_in_context", "run_thread_task", "run_worker_task", "start_thread", "start_worker"]

#: the dataset of a worker process
_dataset: Any = None


def as_in_context(data: Any, ctx: Context) -> Any:
    """Return an array, or a nested list of arrays, on a device; other values as they are."""
    if isinstance(data, NDArray):
        return data.as_in_context(ctx)
    if isinstance(data, (list, tuple)):
        return [as_in_context(part, ctx) for part in data]
    return data


def start_worker(dataset: Any, active_shape: bool, active_array: bool) -> None:
    """Store the dataset of a worker process, and set its NumPy semantics."""
    global _dataset
    _dataset = dataset
    set_np(shape=active_shape, array=active_array)


def start_thread(active_shape: bool, active_array: bool) -> None:
    """Set the NumPy semantics of a worker thread."""
    set_np(shape=active_shape, array=active_array)


def run_worker_task(samples: Sequence[int], batchify_fn: Callable[[list[Any]], Any], dataset: Any = None) -> bytes:
    """Return a pickled batch of the dataset of this worker process."""
    buffer = io.BytesIO()
    ForkingPickler(buffer, pickle.HIGHEST_PROTOCOL).dump(batchify_fn([_dataset[index] for index in samples]))
    return buffer.getvalue()


def run_thread_task(samples: Sequence[int], batchify_fn: Callable[[list[Any]], Any], dataset: Any) -> Any:
    """Return a batch of a dataset."""
    return batchify_fn([dataset[index] for index in samples])


class MultiWorkerIter:
    """Iterate in order over the batches that the workers of a pool make.

    Parameters
    ----------
    worker_pool
        A pool of processes or threads of :mod:`multiprocessing`.
    batchify_fn
        The function that combines a list of examples into a batch.
    batch_sampler
        Lists of indices of examples.
    pin_memory, pin_device_id
        Whether batches are on the device ``cpu_pinned(pin_device_id)``.
    worker_fn
        The function that a worker calls with the indices, `batchify_fn` and `dataset`.
    prefetch
        The number of batches to make ahead.
    dataset
        The dataset of worker threads; None if workers are processes, whose batches are pickled.
    data_loader
        The loader, which must outlive the iterator.
    timeout
        The number of seconds to wait for a batch.
    """

    def __init__(
        self,
        worker_pool: Any,
        batchify_fn: Callable[[list[Any]], Any],
        batch_sampler: Any,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        worker_fn: Callable[..., Any] = run_worker_task,
        prefetch: int = 0,
        dataset: Any = None,
        data_loader: Any = None,
        timeout: float = 120,
    ) -> None:
        self._worker_pool = worker_pool
        self._batchify_fn = batchify_fn
        self._batch_sampler = batch_sampler
        self._pin_memory, self._pin_device_id = pin_memory, pin_device_id
        self._worker_fn = worker_fn
        self._dataset = dataset
        self._data_loader = data_loader
        self._timeout = timeout
        #: results of the pool by the number of their batch
        self._data_buffer: dict[int, Any] = {}
        self._sent_idx = self._rcvd_idx = 0
        self._iter: Iterator[Any] = iter(batch_sampler)
        for _ in range(prefetch):
            self._push_next()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __iter__(self) -> MultiWorkerIter:
        return self

    def _push_next(self) -> None:
        """Pass the indices of one more batch to the pool, if there are any."""
        samples = next(self._iter, None)
        if samples is not None:
            task = samples, self._batchify_fn, self._dataset
            self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(self._worker_fn, task)
            self._sent_idx += 1

    def __next__(self) -> Any:
        self._push_next()
        if self._rcvd_idx == self._sent_idx:
            raise StopIteration
        result = self._data_buffer.pop(self._rcvd_idx)
        try:
            batch = result.get(self._timeout)
        except multiprocessing.TimeoutError as error:
            kind = "thread" if isinstance(self._worker_pool, ThreadPool) else "process"
            raise multiprocessing.TimeoutError(
                f"a worker {kind} did not return a batch within {self._timeout} seconds. If examples take that long, "
                "raise the timeout or use smaller batches."
            ) from error
        except BaseException:
            self._worker_pool.terminate()
            raise
        if self._dataset is None:
            batch = pickle.loads(batch)
        if self._pin_memory:
            batch = as_in_context(batch, cpu_pinned(self._pin_device_id))
        self._rcvd_idx += 1
        return batch

    def next(self) -> Any:
        """Return the next batch."""
        return self.__next__()
