"""Provide DataLoader: batches of a dataset, made by the program, by threads, or by processes.

Takes examples from datasets, batches from :mod:`.batchify`, and worker pools from :mod:`.workers`.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...core.base.devices import cpu_pinned
from ...core.base.docstrings import complete_classes
from ...core.base.foreign_names import advise_arguments
from .batchify import default_batchify_fn
from .columns import batch_of
from .pools import as_in_context
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .workers import ProcessWorkerPool, ThreadWorkerPool, WorkerPool, WorkerTimeout

__all__ = ["DataLoader", "default_batchify_fn", "default_mp_batchify_fn"]

#: MXNet's variant for worker processes; one function serves both purposes here
default_mp_batchify_fn = default_batchify_fn


class DataLoader:
    """Iterate over the batches of a dataset.

    Parameters
    ----------
    dataset
        A dataset, an array, a list, or any other object with a length and an index.
    batch_size
        The number of examples in a batch.
    shuffle
        Whether to draw examples in random order; ``np.random.seed`` makes it reproducible.
    sampler
        The order of the examples, in place of `shuffle`.
    last_batch
        The treatment of an incomplete last batch: ``'keep'``, ``'discard'``, or ``'rollover'`` to the next pass.
    batch_sampler
        Lists of indices of examples, in place of the four arguments before.
    batchify_fn
        The function that combines a list of examples into a batch; see :mod:`phonograd.gluon.data.batchify`.
    num_workers
        The number of workers. With 0, the loader makes each batch on request.
    pin_memory, pin_device_id
        Have no effect: there is no GPU.
    prefetch
        The number of batches to make ahead. None means twice the number of workers.
    thread_pool
        Whether workers are threads. Otherwise they are processes.
    timeout
        The number of seconds to wait for a batch of a worker.
    auto_reload
        Whether workers start the next pass as soon as one ends.

    Notes
    -----
    The loader raises exceptions of a worker again, with the worker's traceback. If a worker dies, it raises
    :class:`phonograd.MXNetError`. Worker processes seed ``random``, ``np.random`` and ``mx.random`` for each batch
    from the state of ``np.random`` at the beginning of the pass. Random transformations are therefore the same with
    any number of processes.

    >>> loader = DataLoader(list(range(5)), batch_size=2)
    >>> [batch.asnumpy().tolist() for batch in loader]
    [[0, 1], [2, 3], [4]]
    """

    @advise_arguments
    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Any = None,
        last_batch: str | None = None,
        batch_sampler: Any = None,
        batchify_fn: Callable[[Sequence[Any]], Any] | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: int | None = None,
        thread_pool: bool = False,
        timeout: float = 120,
        auto_reload: bool = False,
    ) -> None:
        assert timeout > 0, f"timeout must be positive, given {timeout}"
        self._dataset = dataset
        self._thread_pool = thread_pool
        self._timeout = timeout
        self._pin_memory, self._pin_device_id = pin_memory, pin_device_id
        self._batch_sampler = _make_batch_sampler(dataset, batch_size, shuffle, sampler, last_batch, batch_sampler)
        self._num_workers = max(0, num_workers)
        self._prefetch = max(0, int(prefetch)) if prefetch is not None else 2 * self._num_workers
        self._batchify_fn = default_batchify_fn if batchify_fn is None else batchify_fn
        self._auto_reload = auto_reload
        self._passes = 0
        self._pool: WorkerPool | None = None
        self._ending: Any = None
        self._iter: Iterator[Any] | None = None
        if auto_reload:
            self.refresh()

    def __iter__(self) -> Iterator[Any]:
        if self._num_workers == 0:
            return self._make_batches()
        if self._iter is None:
            self.refresh()
        begun, self._iter = self._iter, None
        assert begun is not None
        return begun

    def _make_batches(self) -> Iterator[Any]:
        for samples in self._batch_sampler:
            yield self._place(batch_of(self._dataset, self._batchify_fn, samples))

    def _place(self, batch: Any) -> Any:
        """Return a batch on the device on which loaders give it out."""
        return as_in_context(batch, cpu_pinned(self._pin_device_id)) if self._pin_memory else batch

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def refresh(self) -> None:
        """Start the next pass in the workers; the next ``iter`` of the loader returns its batches."""
        self._iter = _Pass(self, self._passes) if self._num_workers else self._make_batches()
        self._passes += 1

    def clean(self) -> None:
        """Discard the batches that workers prepared for the next pass."""
        self._iter = None

    def close(self) -> None:
        """Stop the workers. Garbage collection of the loader does so, too."""
        self._iter = None
        if self._ending is not None:
            self._ending()
        self._pool = self._ending = None

    def __getstate__(self) -> dict[str, Any]:
        # a copy starts its own workers
        return {**self.__dict__, "_pool": None, "_ending": None, "_iter": None}

    def _workers(self) -> WorkerPool:
        """Return the workers, after starting them if there are none or they died."""
        if self._pool is None or not self._pool.is_usable:
            self.close()
            kind = ThreadWorkerPool if self._thread_pool else ProcessWorkerPool
            self._pool = kind(self._num_workers, self._dataset, self._batchify_fn)
            self._ending = weakref.finalize(self, self._pool.close)
        return self._pool


class _Pass:
    """Iterate in order over the batches that workers make in one pass."""

    def __init__(self, loader: DataLoader, number: int) -> None:
        # read the state instead of drawing from it, which would change the later draws of the program
        state: Any = np.random.get_state()
        self._seed = [*map(int, state[1][:4]), int(state[2]), number]
        self._loader = loader
        self._pool = loader._workers()
        self._number = number
        self._samples = iter(loader._batch_sampler)
        self._count = 0
        self._keys: deque[tuple[int, int]] = deque()
        weakref.finalize(self, _discard_batches, self._pool, self._keys).atexit = False
        for _ in range(loader._prefetch):
            self._submit()

    def __iter__(self) -> _Pass:
        return self

    def _submit(self) -> None:
        """Queue one more batch."""
        samples = next(self._samples, None)
        if samples is None:
            return
        key = self._number, self._count
        self._count += 1
        self._pool.submit(key, samples, [*self._seed, key[1]])
        self._keys.append(key)

    def __next__(self) -> Any:
        if not self._keys:
            self._submit()
        if not self._keys:
            if self._loader._auto_reload and self._loader._iter is None:
                self._loader.refresh()
            raise StopIteration
        try:
            batch = self._pool.take(self._keys[0], self._loader._timeout)
        except (WorkerTimeout, KeyboardInterrupt):
            raise  # the batch may still arrive: the next call waits for it again
        except BaseException as error:
            self._pool.forget(list(self._keys))
            self._keys.clear()
            self._samples = iter(())
            if isinstance(error, StopIteration):
                # an unchanged StopIteration would end the pass silently
                raise RuntimeError("a worker of the DataLoader raised StopIteration") from error
            raise
        self._keys.popleft()
        if len(self._keys) < self._loader._prefetch:
            self._submit()
        return self._loader._place(batch)


def _discard_batches(pool: WorkerPool, keys: deque[tuple[int, int]]) -> None:
    """Discard the remaining batches of an abandoned pass."""
    pool.forget(list(keys))


def _make_batch_sampler(
    dataset: Any, batch_size: int | None, shuffle: bool, sampler: Any, last_batch: str | None, batch_sampler: Any
) -> Any:
    """Return an iterable of lists of indices, according to the arguments of a loader."""
    if batch_sampler is not None:
        if batch_size is not None or shuffle or sampler is not None or last_batch is not None:
            raise ValueError(
                "batch_size, shuffle, sampler and last_batch must not be specified if batch_sampler is specified."
            )
        return batch_sampler
    if batch_size is None:
        raise ValueError("batch_size must be specified unless batch_sampler is specified")
    if sampler is None:
        sampler = RandomSampler(len(dataset)) if shuffle else SequentialSampler(len(dataset))
    elif shuffle:
        raise ValueError("shuffle must not be specified if sampler is specified")
    return BatchSampler(sampler, batch_size, last_batch if last_batch else "keep")


complete_classes(globals())
