"""The iterator from which other libraries derive their loaders: pools of threads and of processes."""

import multiprocessing
from multiprocessing.pool import ThreadPool

import numpy as np
import pytest

import phonograd as mx
from phonograd.gluon.data import pools
from phonograd.gluon.data.batchify import default_batchify_fn

SAMPLES = [[0, 1], [2, 3], [4]]


class Doubling(pools.MultiWorkerIter):
    """Push tasks of its own, as GluonCV's loader does."""

    def _push_next(self):
        samples = next(self._iter, None)
        if samples is not None:
            task = samples, self._batchify_fn, [2 * each for each in self._dataset]
            self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(self._worker_fn, task)
            self._sent_idx += 1


def test_threads():
    with ThreadPool(2) as pool:
        batches = pools.MultiWorkerIter(
            pool, default_batchify_fn, SAMPLES, worker_fn=pools.run_thread_task, prefetch=2, dataset=list(range(5))
        )
        assert len(batches) == 3
        assert [batch.asnumpy().tolist() for batch in batches] == [[0, 1], [2, 3], [4]]
        derived = Doubling(pool, default_batchify_fn, SAMPLES, True, 0, pools.run_thread_task, 1, list(range(5)))
        assert [batch.asnumpy().tolist() for batch in derived] == [[0, 2], [4, 6], [8]]
        with pytest.raises(StopIteration):
            derived.next()


def test_processes():
    context = multiprocessing.get_context("spawn")
    with context.Pool(1, initializer=pools.start_worker, initargs=[list(range(5)), False, False]) as pool:
        batches = pools.MultiWorkerIter(pool, default_batchify_fn, SAMPLES, prefetch=1)
        assert [batch.asnumpy().tolist() for batch in batches] == [[0, 1], [2, 3], [4]]


def test_errors_of_workers():
    with ThreadPool(1) as pool:
        batches = pools.MultiWorkerIter(pool, default_batchify_fn, [[7]], worker_fn=pools.run_thread_task, dataset=[1])
        with pytest.raises(IndexError):
            next(batches)


def test_nested_arrays_move_to_a_context():
    moved = pools.as_in_context([mx.nd.ones((1,)), (mx.nd.ones((2,)), "text")], mx.cpu(1))
    assert [moved[0].context, moved[1][0].context, moved[1][1]] == [mx.cpu(1), mx.cpu(1), "text"]
    assert isinstance(np.asarray(moved[0].asnumpy()), np.ndarray)


def test_parameters_number_their_contexts():
    parameter = mx.gluon.Parameter("weight", shape=(2,))
    assert parameter._ctx_map == [[], []]
    parameter.initialize(ctx=[mx.cpu(0), mx.cpu(2)])
    assert parameter._ctx_map == [[], [0, None, 1]]
    assert parameter.data(mx.cpu(2)).context == mx.cpu(2)
    with pytest.raises(RuntimeError, match="was not initialized on context"):
        parameter.data(mx.cpu(1))
