"""Loaders with workers: what kinds of batches come through, and what happens after something went wrong."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import time

import numpy as np
import pytest

import phonograd as mx
from phonograd import gluon
from phonograd.core.trace.trace import LOCAL
from phonograd.gluon import data, nn
from phonograd.gluon.data import workers
from phonograd.gluon.data.vision import transforms

kinds = pytest.mark.parametrize("thread_pool", [True, False], ids=["threads", "processes"])


class Failing(data.Dataset):
    def __init__(self, error):
        self._error = error

    def __len__(self):
        return 6

    def __getitem__(self, idx):
        if idx == 2:
            raise self._error
        return idx


def batches_of(batchify_fn, thread_pool):
    loader = data.DataLoader([1, 2, 3], 2, num_workers=1, thread_pool=thread_pool, batchify_fn=batchify_fn)
    found = list(loader)
    loader.close()
    return found


@kinds
def test_a_pass_ends_with_an_exception(thread_pool):
    loader = data.DataLoader(
        Failing(ValueError("two")), 2, num_workers=2, thread_pool=thread_pool, timeout=20, auto_reload=False
    )
    batches = iter(loader)
    assert next(batches).asnumpy().tolist() == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(batches)
    with pytest.raises(StopIteration):
        next(batches)
    assert next(iter(loader)).asnumpy().tolist() == [0, 1]
    loader.close()


@kinds
def test_stop_iteration_of_a_dataset_is_not_the_end_of_a_pass(thread_pool):
    loader = data.DataLoader(Failing(StopIteration()), 2, num_workers=1, thread_pool=thread_pool)
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(loader)
    loader.close()


@kinds
def test_batches_keep_their_class_and_their_device(thread_pool):
    sparse = mx.nd.array([[0, 1], [2, 0]]).tostype("csr")
    for batch in batches_of(lambda _: {"sparse": sparse, "far": mx.nd.ones((2,), ctx=mx.cpu(1))}, thread_pool):
        assert type(batch["sparse"]) is mx.nd.sparse.CSRNDArray
        assert np.array_equal(batch["sparse"].asnumpy(), [[0, 1], [2, 0]])
        assert batch["far"].context == mx.cpu(1)
    for batch in batches_of(lambda numbers: [mx.np.array(numbers), mx.nd.array(numbers)], thread_pool):
        assert [type(part) for part in batch] == [mx.np.ndarray, mx.nd.NDArray]


@kinds
def test_workers_follow_the_semantics_where_a_batch_is_wanted(thread_pool):
    with mx.util.np_shape(True), mx.util.np_array(True):
        loader = data.DataLoader([1, 2, 3], 2, num_workers=1, thread_pool=thread_pool)
        assert {type(batch) for batch in loader} == {mx.np.ndarray}
    assert {type(batch) for batch in loader} == {mx.nd.NDArray}
    loader.close()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))])
def test_a_copy_has_workers_of_its_own(duplicate):
    loader = data.DataLoader([1, 2, 3], 2, num_workers=1)
    list(loader)
    other = duplicate(loader)
    loader.close()
    assert [batch.asnumpy().tolist() for batch in other] == [[1, 2], [3]]
    other.close()


def test_workers_that_wait_are_not_killed(monkeypatch):
    """Those of a second loader have the pipes of the first, too, so that closing them tells nobody anything."""
    first, second = (data.DataLoader([1, 2, 3], 2, num_workers=2) for _ in range(2))
    killed = []
    # on a busy machine it takes a while
    monkeypatch.setattr(workers, "_SECONDS_TO_END", 60.0)
    monkeypatch.setattr(multiprocessing.process.BaseProcess, "kill", lambda process: killed.append(process))
    for loader in (first, second):
        list(loader)
    first.close()
    second.close()
    assert not killed


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize("ending", ["closed", "killed", "left"])
def test_loaders_leave_nothing_behind(ending):
    dataset = data.SimpleDataset(list(range(6))).transform(lambda number: np.full(50_000, number, np.float32))

    def leftovers():
        gc.collect()
        return len(os.listdir("/proc/self/fd")), len(multiprocessing.active_children()), sorted(os.listdir("/dev/shm"))

    def use():
        others = multiprocessing.active_children()
        loader = data.DataLoader(dataset, 2, num_workers=2)
        batches = iter(loader)
        assert np.array_equal(next(batches)[:, -1].asnumpy(), [0, 1])
        if ending == "killed":
            worker = next(child for child in multiprocessing.active_children() if child not in others)
            os.kill(worker.pid, signal.SIGKILL)
            with pytest.raises(mx.MXNetError, match="SIGKILL"):
                [list(loader) for _ in range(100)]
        if ending != "left":
            loader.close()

    gc.disable()
    try:
        use()
        before = leftovers()
        for _ in range(3):
            use()
        assert leftovers() == before
        if ending != "left":
            open_before = len(os.listdir("/proc/self/fd"))
            use()
            # without the help of the garbage collector
            assert len(os.listdir("/proc/self/fd")) == open_before
    finally:
        gc.enable()


@pytest.mark.slow
def test_two_workers_keep_lenet_fed():
    """Even on two cores that others use, too, little time of a training goes by without a batch.

    benchmarks/loader.py has the figures of a calm machine.
    """
    draw = np.random.RandomState(0)
    images = mx.nd.array(draw.randint(0, 256, (6400, 28, 28, 1)), dtype="uint8")
    prepare = transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.13, 0.31)])
    dataset = data.ArrayDataset(images, draw.randint(0, 10, 6400)).transform_first(prepare)
    loader = data.DataLoader(dataset, 64, shuffle=True, num_workers=2)
    net = nn.HybridSequential()
    net.add(nn.Conv2D(20, 5, activation="tanh"), nn.MaxPool2D(), nn.Conv2D(50, 5, activation="tanh"), nn.MaxPool2D())
    net.add(nn.Dense(500, activation="tanh"), nn.Dense(10))
    net.initialize(mx.init.Normal(0.05))
    net.hybridize()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
    shares = []
    for _ in range(4):
        waited, begin, asked = 0.0, time.perf_counter(), time.perf_counter()
        for batch, labels in loader:
            waited += time.perf_counter() - asked
            with mx.autograd.record():
                loss = loss_of(net(batch), labels)
            loss.backward()
            trainer.step(64)
            mx.nd.waitall()
            asked = time.perf_counter()
        shares.append(waited / (asked - begin))
    loader.close()
    # the first pass starts the workers and compiles
    assert min(shares[1:]) < 0.35


def test_workers_do_not_repeat_what_is_pending():
    doubled = mx.nd.array([1.0, 2.0]) * 2
    assert LOCAL.trace.live()
    loader = data.DataLoader(data.SimpleDataset([0, 1]).transform(lambda index: doubled[index]), 1, num_workers=1)
    assert [batch.asscalar() for batch in loader] == [2, 4]
    loader.close()
    assert not LOCAL.trace.live()
