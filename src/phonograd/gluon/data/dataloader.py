"""The loader of data: batches of a dataset, made by the program, by threads, or by processes."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .batchify import default_batchify_fn
from .columns import batch_of
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .workers import ProcessWorkerPool, ThreadWorkerPool, WorkerPool, WorkerTimeout

__all__ = ["DataLoader", "default_batchify_fn", "default_mp_batchify_fn"]

#: the name under which MXNet has the variant for worker processes; one function serves both here
default_mp_batchify_fn = default_batchify_fn


class DataLoader:
    """Batches of a dataset.

    Parameters
    ----------
    dataset
        A dataset, an array, a list, or anything else that has a length and can be indexed.
    batch_size
        How many examples a batch has.
    shuffle
        Whether their order is random; ``np.random.seed`` repeats it.
    sampler
        The order of the examples, if not one of these two.
    last_batch
        What to do with a last batch that is not full: ``'keep'``, ``'discard'``, or ``'rollover'`` to the next pass.
    batch_sampler
        Lists of numbers of examples, in place of the four arguments before.
    batchify_fn
        What makes a batch of a list of examples; see :mod:`phonograd.gluon.data.batchify`.
    num_workers
        How many workers make batches; 0 makes them when they are asked for.
    pin_memory, pin_device_id
        Accepted and ignored: there is no GPU that would need it.
    prefetch
        How many batches are made ahead; twice as many as there are workers if this is None.
    thread_pool
        Whether workers are threads; else they are processes.
    timeout
        How many seconds to wait for a batch of a worker.
    auto_reload
        Whether workers begin with the next pass when one ends.

    Notes
    -----
    An exception in a worker is raised here, with the worker's traceback; a worker that dies raises
    :class:`phonograd.MXNetError`. In worker processes, ``random``, ``np.random`` and ``mx.random`` are seeded for each
    batch by the state of ``np.random`` when the pass begins: random transformations are the same with any number of
    processes.

    >>> loader = DataLoader(list(range(5)), batch_size=2)
    >>> [batch.asnumpy().tolist() for batch in loader]
    [[0, 1], [2, 3], [4]]
    """

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
        self._batch_sampler = _chosen_sampler(dataset, batch_size, shuffle, sampler, last_batch, batch_sampler)
        self._num_workers = max(0, num_workers)
        self._prefetch = max(0, int(prefetch)) if prefetch is not None else 2 * self._num_workers
        self._batchify_fn = default_batchify_fn if batchify_fn is None else batchify_fn
        self._auto_reload = auto_reload
        self._passes = 0
        self._crew: WorkerPool | None = None
        self._ending: Any = None
        self._iter: Iterator[Any] | None = None
        if auto_reload:
            self.refresh()

    def __iter__(self) -> Iterator[Any]:
        if self._num_workers == 0:
            return self._made_here()
        if self._iter is None:
            self.refresh()
        begun, self._iter = self._iter, None
        assert begun is not None
        return begun

    def _made_here(self) -> Iterator[Any]:
        for samples in self._batch_sampler:
            yield batch_of(self._dataset, self._batchify_fn, samples)

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def refresh(self) -> None:
        """Let workers begin with the next pass, whose batches the next ``iter`` of the loader returns."""
        self._iter = _Pass(self, self._passes) if self._num_workers else self._made_here()
        self._passes += 1

    def clean(self) -> None:
        """Forget what workers prepared for the next pass."""
        self._iter = None

    def close(self) -> None:
        """End the workers. Those of a loader that nobody has any more end by themselves."""
        self._iter = None
        if self._ending is not None:
            self._ending()
        self._crew = self._ending = None

    def __getstate__(self) -> dict[str, Any]:
        # a copy has workers of its own
        return {**self.__dict__, "_crew": None, "_ending": None, "_iter": None}

    def _workers(self) -> WorkerPool:
        """Return the workers, started now if there are none, or if they died."""
        if self._crew is None or not self._crew.is_usable:
            self.close()
            kind = ThreadWorkerPool if self._thread_pool else ProcessWorkerPool
            self._crew = kind(self._num_workers, self._dataset, self._batchify_fn)
            self._ending = weakref.finalize(self, self._crew.close)
        return self._crew


class _Pass:
    """One pass over the batches that workers make, in their order."""

    def __init__(self, loader: DataLoader, number: int) -> None:
        # not the state itself: a draw from it would change what the program draws next
        state: Any = np.random.get_state()
        self._seed = [*map(int, state[1][:4]), int(state[2]), number]
        self._loader = loader
        self._crew = loader._workers()
        self._number = number
        self._samples = iter(loader._batch_sampler)
        self._count = 0
        self._keys: deque[tuple[int, int]] = deque()
        weakref.finalize(self, _forget, self._crew, self._keys).atexit = False
        for _ in range(loader._prefetch):
            self._submit()

    def __iter__(self) -> _Pass:
        return self

    def _submit(self) -> None:
        """Have one more batch made."""
        samples = next(self._samples, None)
        if samples is None:
            return
        key = self._number, self._count
        self._count += 1
        self._crew.submit(key, samples, [*self._seed, key[1]])
        self._keys.append(key)

    def __next__(self) -> Any:
        if not self._keys:
            self._submit()
        if not self._keys:
            if self._loader._auto_reload and self._loader._iter is None:
                self._loader.refresh()
            raise StopIteration
        try:
            batch = self._crew.take(self._keys[0], self._loader._timeout)
        except (WorkerTimeout, KeyboardInterrupt):
            raise  # the batch may still come: who asks again waits for it again
        except BaseException as error:
            self._crew.forget(list(self._keys))
            self._keys.clear()
            self._samples = iter(())
            if isinstance(error, StopIteration):
                # raised as it is it would look like the end of the pass
                raise RuntimeError("a worker of the DataLoader raised StopIteration") from error
            raise
        self._keys.popleft()
        if len(self._keys) < self._loader._prefetch:
            self._submit()
        return batch


def _forget(crew: WorkerPool, keys: deque[tuple[int, int]]) -> None:
    """Forget the batches of a pass that nobody wants any more."""
    crew.forget(list(keys))


def _chosen_sampler(
    dataset: Any, batch_size: int | None, shuffle: bool, sampler: Any, last_batch: str | None, batch_sampler: Any
) -> Any:
    """Return what yields lists of numbers of examples, by the arguments of a loader."""
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
