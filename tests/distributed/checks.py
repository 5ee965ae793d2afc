"""Checks of ranks about each other: run by test_ranks.py as a script, with several ranks.

Each function is called by all ranks. A check that fails in one rank gets the others out of step: they see an error
about different operations, and all meet again after the check.
"""

import json
import sys
import traceback

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.distributed import Disagreement, world
from phonograd.distributed.arrays import add_up
from phonograd.gluon import nn
from phonograd.gluon.contrib.nn import SyncBatchNorm

GROUP = world()
RANK, SIZE = GROUP.rank, GROUP.size
# as where ranks leave cores free: reductions in the background are checked, too
GROUP.hides_transfers = True


def batch(count=12, width=6):
    """Return examples and classes, the same in all ranks."""
    random = np.random.RandomState(3)
    return random.randn(count, width).astype("f"), random.randint(0, 3, count).astype("f")


def own(values):
    """Return the part of a batch that belongs to this rank."""
    return nd.array(values[RANK::SIZE])


def check_protocol():
    assert np.array_equal(GROUP.all_reduce([np.full(3, RANK + 1.0)])[0], np.full(3, SIZE * (SIZE + 1) / 2))
    assert GROUP.all_reduce([np.array([RANK])], "max")[0].tolist() == [SIZE - 1]
    assert GROUP.broadcast([np.array([RANK, 7])], root=1)[0].tolist() == [1, 7]
    gathered = GROUP.all_gather(np.full((RANK + 1, 2), RANK))
    assert [len(part) for part in gathered] == list(range(1, SIZE + 1))
    received = GROUP.all_to_all([np.full((RANK + 1,), 10 * RANK + other) for other in range(SIZE)])
    assert [part.tolist() for part in received] == [[10 * other + RANK] * (other + 1) for other in range(SIZE)]
    assert GROUP.gather_texts(f"grüße {RANK}") == [f"grüße {other}" for other in range(SIZE)]
    part = GROUP.split(RANK % 2)
    assert part.size == len(range(RANK % 2, SIZE, 2))
    assert part.all_reduce([np.ones(1)])[0].tolist() == [part.size]
    half = GROUP.all_reduce([np.ones(3, np.float16), np.ones(2, "f"), np.array([True, RANK == 0])])
    assert [(each.dtype, each.tolist()) for each in half] == [
        (np.float16, [SIZE] * 3),
        (np.float32, [SIZE] * 2),
        (np.bool_, [True, True]),
    ]
    offset, error = GROUP._measure_clock()
    assert abs(offset) <= error or RANK == 0
    assert GROUP.clock_offset_ns() == 0
    work = [GROUP.begin_all_reduce([np.full(100_000, RANK + 1.0)], f"work {number}") for number in range(3)]
    assert [each.wait()[0][0] for each in work] == [SIZE * (SIZE + 1) / 2] * 3


def check_reductions_in_shared_memory():
    from phonograd.distributed.shared import room_bytes

    assert GROUP._shared is not None
    whole = room_bytes(SIZE) // 4
    for sizes in ([3, 0, 1000], [whole], [whole + 1], [whole - 20, 7, 3 * whole + 5, 100]):
        everywhere = [[np.random.RandomState(rank).randn(size).astype("f") for size in sizes] for rank in range(SIZE)]
        for name, function in (("sum", np.sum), ("max", np.max), ("min", np.min), ("product", np.prod)):
            found = GROUP.all_reduce(everywhere[RANK], name)
            for number, values in enumerate(found):
                expected = function([each[number] for each in everywhere], axis=0)
                np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5)
                assert np.array_equal(GROUP.broadcast([values])[0], values), "bits differ between ranks"
    half = GROUP.all_reduce([np.full((2, whole), 0.5, np.float16), np.full(9, RANK, np.int64)])
    assert half[0].dtype == np.float16
    assert (half[0] == 0.5 * SIZE).all()
    assert (half[1] == SIZE * (SIZE - 1) // 2).all()
    # a difference leaves the rooms in step
    with pytest.raises(Disagreement):
        GROUP.all_reduce([np.zeros(5 + (RANK == 0), "f")])
    for number in range(4):
        work = GROUP.begin_all_reduce([np.full(2 * whole, number, "f")], "work")
        assert (GROUP.all_reduce([np.full(3, number)])[0] == number * SIZE).all()
        assert (work.wait()[0] == number * SIZE).all()


def check_groups_without_a_free_core():
    x = nd.ones((300,)) * (RANK + 1)
    before = mx.distributed.statistics().operations
    GROUP.hides_transfers = False
    try:
        with mx.settings.override(bucket_bytes=8):
            sums = add_up(GROUP, [x, x * 2], "sums after the computation")
    finally:
        GROUP.hides_transfers = True
    assert mx.distributed.statistics().operations == before + 1
    assert (sums[1].asnumpy() == SIZE * (SIZE + 1)).all()


def check_groups_of_several_machines():
    from mpi4py import MPI

    from phonograd.distributed.mpi import MPICommunicator
    from phonograd.distributed.ring import PIECE_BYTES
    from phonograd.distributed.rounds import MessageRounds

    group = MPICommunicator(MPI, MPI.COMM_WORLD)
    group._shared, group._rounds = None, MessageRounds(MPI, MPI.COMM_WORLD.Dup())
    for size in (1, 1000, 20_000, SIZE * PIECE_BYTES // 4, 30 * PIECE_BYTES // 4 + 7):
        values = np.random.RandomState(RANK).randn(size).astype("f")
        everywhere = [np.random.RandomState(rank).randn(size).astype("f") for rank in range(SIZE)]
        found = group.all_reduce([values])[0]
        np.testing.assert_allclose(found, np.sum(everywhere, axis=0), rtol=1e-5, atol=1e-5)
        assert np.array_equal(GROUP.broadcast([found])[0], found), "bits differ between ranks"
        assert np.array_equal(group.all_reduce([values])[0], found), "bits differ between runs"
        assert np.array_equal(group.all_reduce([values], "max")[0], np.max(everywhere, axis=0))
    works = [group.begin_all_reduce([np.full(100_000, RANK + 1.0)], f"work {number}") for number in range(5)]
    assert [each.wait()[0][-1] for each in works] == [SIZE * (SIZE + 1) / 2] * 5
    with pytest.raises(Disagreement, match=r"float32\[5\]"):
        group.all_reduce([np.zeros(5 + (RANK == 0), "f")])
    assert group.all_reduce([np.ones(1)])[0].tolist() == [SIZE]
    group.close()


def check_store():
    store = mx.kv.create("dist_sync")
    assert (store.rank, store.num_workers, store.type) == (RANK, SIZE, "dist_sync")
    store.init(["a", "c"], [nd.ones((2, 3)) * (RANK + 1), nd.zeros((4,))])
    out = nd.zeros((2, 3))
    store.pull("a", out=out)
    assert (out.asnumpy() == 1).all()
    store.push("a", [nd.ones((2, 3)), nd.ones((2, 3)) * RANK])
    store.pull("a", out=out)
    assert (out.asnumpy() == SIZE + SIZE * (SIZE - 1) / 2).all()
    value = nd.ones((4,)) * RANK
    store.pushpull("c", value)
    assert (value.asnumpy() == SIZE * (SIZE - 1) / 2).all()
    store.broadcast("b", nd.array([RANK, 5.0]), out=(received := nd.zeros((2,))))
    assert received.asnumpy().tolist() == [0, 5]
    store.barrier()
    store._barrier()


def check_updates_on_the_store(folder):
    store = mx.kv.create("dist_device_sync")
    store.init(0, nd.ones((3,)))
    store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.5, momentum=0.9))
    for _ in range(2):
        store.push(0, nd.ones((3,)))
    store.pull(0, out=(out := nd.zeros((3,))))
    np.testing.assert_allclose(out.asnumpy(), 1 - 0.5 * SIZE * (1 + 1.9), rtol=1e-6)
    path = f"{folder}/states-{RANK}"
    store.save_optimizer_states(path)
    store.load_optimizer_states(path)
    store.push(0, nd.ones((3,)))
    store.pull(0, out=out)
    np.testing.assert_allclose(out.asnumpy(), 1 - 0.5 * SIZE * (1 + 1.9 + 2.71), rtol=1e-6)
    store.set_updater(lambda key, pushed, stored: stored.__iadd__(pushed))
    store.push(0, nd.ones((3,)))
    store.pull(0, out=(more := nd.zeros((3,))))
    np.testing.assert_allclose((more - out).asnumpy(), SIZE, rtol=1e-5)


def check_rows():
    store = mx.kv.create("dist_sync")
    store.init("rows", nd.zeros((10, 2)).tostype("row_sparse"))
    value = nd.sparse.row_sparse_array((np.ones((2, 2), "f") * (RANK + 1), [RANK, 5]), shape=(10, 2))
    before = mx.distributed.statistics().transferred_bytes
    store.push("rows", value)
    assert mx.distributed.statistics().transferred_bytes - before == 2 * 8 + 4 * 4
    out = nd.zeros((10, 2)).tostype("row_sparse")
    store.row_sparse_pull("rows", out=out, row_ids=nd.array([0, 5, 9]))
    expected = np.zeros((10, 2))
    expected[0], expected[5] = 1, SIZE * (SIZE + 1) / 2
    assert np.array_equal(out.asnumpy(), expected)


def check_compression():
    for kind, expected in (("2bit", [0.5, 0.0, -0.5, 0.0]), ("1bit", [1.0, -1.0, -1.0, -1.0])):
        store = mx.kv.create("dist_sync")
        store.set_gradient_compression({"type": kind, "threshold": 0.5})
        store.init(0, nd.zeros((4,)))
        store.push(0, nd.array([0.7, 0.3, -0.9, 0.0]))
        store.pull(0, out=(out := nd.zeros((4,))))
        np.testing.assert_allclose(out.asnumpy(), SIZE * np.array(expected))
    store = mx.kv.create("dist_sync")
    store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    store.init(0, nd.zeros((4,)))
    for expected in ([0, 0, 0, 0], [0.5, 0, 0, -0.5]):
        store.push(0, nd.array([0.3, 0.2, 0.0, -0.4]))
        store.pull(0, out=(out := nd.zeros((4,))))
        np.testing.assert_allclose(out.asnumpy(), SIZE * np.array(expected))


def train(kvstore, optimizer, arguments, steps=4, hybrid=False, bucket_bytes=None, norm=None, whole=False, **options):
    """Return the losses of all examples and the parameters after some steps."""
    data, classes = batch()
    mx.random.seed(5)
    np.random.seed(5)
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(16, activation="tanh", in_units=6))
        if norm is not None:
            net.add(norm(in_channels=16))
        net.add(nn.Dense(8, activation="relu", in_units=16), nn.Dense(3, in_units=8))
    net.initialize(mx.init.Xavier())
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), optimizer, dict(arguments), kvstore=kvstore, **options)
    loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
    x, y = (nd.array(data), nd.array(classes)) if whole else (own(data), own(classes))
    losses = []
    with mx.settings.override(bucket_bytes=bucket_bytes or mx.settings.current().bucket_bytes):
        for _ in range(steps):
            with autograd.record():
                loss = loss_function(net(x), y)
            loss.backward()
            trainer.step(len(data))
            losses.append(float(loss.sum().asscalar()))
    values = {name: each.data().asnumpy() for name, each in net.collect_params().items()}
    return losses, values


def check_the_same_result_as_one_process():
    for optimizer, arguments, options in (
        ("sgd", {"learning_rate": 0.1}, {}),
        ("sgd", {"learning_rate": 0.1, "momentum": 0.9}, {"bucket_bytes": 100, "update_on_kvstore": True}),
        ("adam", {"learning_rate": 0.01}, {"bucket_bytes": 300}),
        ("sgd", {"learning_rate": 0.1, "momentum": 0.9}, {"bucket_bytes": 300, "hybrid": True}),
        ("adam", {"learning_rate": 0.01}, {"norm": SyncBatchNorm}),
    ):
        alone = train(None, optimizer, arguments, whole=True, norm=nn.BatchNorm if "norm" in options else None)
        together = train("dist_sync", optimizer, arguments, **options)
        losses = np.sum(GROUP.all_gather(np.array(together[0])), axis=0).reshape(-1, len(alone[0])).sum(axis=0)
        np.testing.assert_allclose(losses, alone[0], rtol=2e-5)
        for (name, value), expected in zip(together[1].items(), alone[1].values(), strict=True):
            np.testing.assert_allclose(value, expected, rtol=2e-4, atol=2e-6, err_msg=f"{optimizer} {name}")
            everywhere = GROUP.all_gather(value.reshape(1, -1))
            assert all(np.array_equal(each, everywhere[0]) for each in everywhere), f"{name} differs between ranks"
        again = train("dist_sync", optimizer, arguments, **options)
        assert all(np.array_equal(value, again[1][name]) for name, value in together[1].items()), "bits differ"


def check_reductions_overlap_with_the_backward_pass():
    from phonograd.core.run import kernel_cache
    from phonograd.distributed import arrays

    if mx.settings.current().executor == "reference" or not kernel_cache.available():
        return  # NumPy computes everything, and reports no progress
    begun = []

    class Watched(arrays._Reductions):
        def receive(self, node, value):
            super().receive(node, value)
            begun.append(len(self.works))

    original, arrays._Reductions = arrays._Reductions, Watched
    try:
        for hybrid, tiers in ((False, "plan"), (True, "plan"), (False, "background"), (True, "background")):
            del begun[:]
            with mx.settings.override(tiers=tiers):
                train("dist_sync", "sgd", {"learning_rate": 0.1}, steps=3, bucket_bytes=300, hybrid=hybrid)
            assert begun, "no gradient was final before the end of the evaluation"
            assert max(begun) > 1, begun
    finally:
        arrays._Reductions = original


def check_sums_leave_values_that_are_pending_unchanged():
    x = nd.ones((300,)) * (RANK + 1)
    y = x * 2
    with mx.settings.override(bucket_bytes=8):
        sums = add_up(GROUP, [x, y], "sum of x and y")
    assert (x.asnumpy() == RANK + 1).all()
    assert (y.asnumpy() == 2 * (RANK + 1)).all()
    assert (sums[1].asnumpy() == SIZE * (SIZE + 1)).all()


def check_stores_that_only_add_up():
    for kind in ("horovod", "byteps"):
        values = train(kind, "sgd", {"learning_rate": 0.1})[1]
        expected = train(None, "sgd", {"learning_rate": 0.1}, whole=True)[1]
        for value, other in zip(values.values(), expected.values(), strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-6)


def check_random_numbers():
    mx.random.seed(11)
    outside = nd.random.uniform(shape=(4,)).asnumpy()
    with autograd.record():
        inside = nd.random.uniform(shape=(4,)).asnumpy()
    assert len({each.tobytes() for each in GROUP.all_gather(outside)}) == 1
    assert len({each.tobytes() for each in GROUP.all_gather(inside)}) == SIZE


def check_data():
    from phonograd.io.rounds import choose_part

    sampler = gluon.data.SplitSampler(10, shuffle=True)
    for _ in range(2):
        parts = GROUP.all_gather(np.array(list(sampler)))
        assert {len(part) for part in parts} == {-(-10 // SIZE)}
        assert set(np.concatenate(parts).tolist()) == set(range(10))
    loader = gluon.data.DataLoader(list(range(12)), 2, sampler=gluon.data.SplitSampler(12))
    assert next(iter(loader)).asnumpy().tolist() == [RANK, RANK + SIZE]
    assert choose_part(None, 0) == (SIZE, RANK)


def check_metrics():
    data, _ = batch()
    labels = (data[:, 0] > 0).astype("f")
    scores = np.stack([1 - data[:, 1], data[:, 1]], axis=1)
    for metric, right, guess in (
        (mx.metric.Accuracy(), labels, scores),
        (mx.metric.F1(average="micro"), labels, scores),
        (mx.metric.MCC(average="micro"), labels, scores),
        (mx.metric.PCC(), labels, scores),
        (mx.metric.PearsonCorrelation(average="micro"), data[:, 2], data[:, 3]),
        (mx.metric.CompositeEvalMetric([mx.metric.Accuracy()]), labels, scores),
        (mx.metric.Perplexity(ignore_label=None), labels, np.abs(scores)),
    ):
        metric.update([nd.array(right)], [nd.array(guess)])
        whole = metric.get()[1]
        metric.reset()
        metric.update([own(right)], [own(guess)])
        metric.allreduce()
        np.testing.assert_allclose(metric.get()[1], whole, rtol=1e-6, err_msg=type(metric).__name__)


def check_synchronized_normalization():
    random = np.random.RandomState(0)
    data, slope = random.randn(2, 5, 3, 4).astype("f")
    # shares of different sizes
    places = np.array_split(np.arange(5), SIZE)[RANK]
    results = []
    for layer, chosen in ((nn.BatchNorm(in_channels=3), np.arange(5)), (SyncBatchNorm(in_channels=3), places)):
        layer.initialize()
        layer.gamma.set_data(nd.array([1.0, 2.0, 0.5]))
        x, weights = nd.array(data[chosen]), nd.array(slope[chosen])
        x.attach_grad()
        with autograd.record():
            y = (layer(x) ** 2 * weights).sum()
        y.backward()
        grads = [each.grad().asnumpy() for each in (layer.gamma, layer.beta)]
        running = [each.data().asnumpy() for each in (layer.running_mean, layer.running_var)]
        results.append((x.grad.asnumpy(), grads, running))
    whole, shared = results
    np.testing.assert_allclose(shared[0], whole[0][places], rtol=1e-3, atol=1e-4)
    totals = GROUP.all_reduce(shared[1])
    np.testing.assert_allclose(totals, whole[1], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(shared[2], whole[2], rtol=1e-5)


def check_module():
    data, classes = batch()
    found = []
    for kvstore, x, y in (("local", data, classes), ("dist_sync", data[RANK::SIZE], classes[RANK::SIZE])):
        hidden = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=5, name="first")
        symbol = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=3, name="second"), name="softmax")
        module = mx.mod.Module(symbol)
        mx.random.seed(2)
        module.fit(
            mx.io.NDArrayIter(x, y, batch_size=len(x)),
            num_epoch=3,
            kvstore=kvstore,
            initializer=mx.init.Xavier(),
            optimizer_params={"learning_rate": 0.5},
        )
        found.append({name: value.asnumpy() for name, value in module.get_params()[0].items()})
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-4, atol=1e-6)


def check_horovod():
    import byteps.mxnet as bps
    import horovod.mxnet as hvd
    import mxnet  # noqa: F401 - `phonograd launch` provides both

    hvd.init()
    assert (
        (hvd.rank(), hvd.size(), hvd.local_rank()) == (RANK, SIZE, RANK) == (bps.rank(), bps.size(), bps.local_rank())
    )
    mean = (SIZE + 1) / 2
    value = nd.ones((2,)) * (RANK + 1)
    assert hvd.allreduce(value).asnumpy().tolist() == [mean] * 2
    assert hvd.allreduce(value, op=hvd.Max).asnumpy().tolist() == [SIZE] * 2
    assert hvd.allreduce(value, average=False, prescale_factor=2.0).asnumpy().tolist() == [2 * mean * SIZE] * 2
    hvd.allreduce_(value, average=False)
    assert value.asnumpy().tolist() == [mean * SIZE] * 2
    assert hvd.allgather(nd.ones((RANK + 1, 2))).shape == (SIZE * (SIZE + 1) // 2, 2)
    assert hvd.broadcast(nd.array([RANK]), root_rank=1).asscalar() == 1
    assert hvd.alltoall(nd.arange(SIZE) + 10 * RANK).asnumpy().tolist() == [10 * other + RANK for other in range(SIZE)]
    assert hvd.broadcast_object({"epoch": RANK}) == {"epoch": 0}
    data, classes = batch()
    expected = train(None, "sgd", {"learning_rate": 0.1, "momentum": 0.9}, whole=True)[1]
    for kind in ("trainer", "optimizer", "half"):
        mx.random.seed(5 + RANK)
        net = nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(nn.Dense(16, activation="tanh"), nn.Dense(8, activation="relu"), nn.Dense(3))
        net.initialize(mx.init.Xavier())
        if RANK == 0:
            # the values of `train`
            mx.random.seed(5)
            net.initialize(mx.init.Xavier(), force_reinit=True)
        hvd.broadcast_parameters(net.collect_params(), root_rank=0)
        arguments = {"learning_rate": 0.1, "momentum": 0.9}
        if kind == "optimizer":
            optimizer = hvd.DistributedOptimizer(mx.optimizer.create("sgd", **arguments))
            trainer = gluon.Trainer(net.collect_params(), optimizer, kvstore=None)
        else:
            compression = hvd.Compression.fp16 if kind == "half" else hvd.Compression.none
            trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", arguments, compression=compression)
        for _ in range(4):
            with autograd.record():
                loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(own(data)), own(classes))
            loss.backward()
            trainer.step(len(data) // SIZE)
        for value, other in zip(net.collect_params().values(), expected.values(), strict=True):
            tolerance = 2e-3 if kind == "half" else 2e-5
            np.testing.assert_allclose(value.data().asnumpy(), other, rtol=10 * tolerance, atol=tolerance, err_msg=kind)


def check_differences_are_errors():
    store = mx.kv.create("dist_sync")
    store.init("same", nd.zeros((2,)))
    last = RANK == SIZE - 1

    def raises(call, *words):
        with pytest.raises(Disagreement) as caught:
            call()
        for word in (*words, f"rank {SIZE - 1}: "):
            assert word in str(caught.value), f"{word!r} is not in {caught.value}"

    raises(lambda: store.init("a" if last else "b", nd.zeros((2,))), "key a", "key b")
    raises(lambda: store.init("c", nd.zeros((3,) if last else (2,))), "float32[3]", "float32[2]")
    raises(lambda: store.init("d", nd.zeros((2,), dtype="float64" if last else "float32")), "float64[2]", "float32[2]")
    raises(lambda: store.barrier() if last else store.push("same", nd.ones((2,))), "barrier", "push of key same")
    value = np.zeros(70_000 + last, "f")
    raises(lambda: GROUP.begin_all_reduce([value], "work").wait(), "float32[70000]", "float32[70001]")
    works = [GROUP.begin_all_reduce([value], f"work {number}") for number in range(3)]
    raises(works[0].wait, "float32[70000]", "float32[70001]")
    # the rest of the queue fails, too, and ranks are in step again
    for work in works[1:]:
        with pytest.raises(Disagreement):
            work.wait()
    keys = ["a", "b", "c", "d", "e" if last else "f", "g", "h", "i"]
    raises(lambda: store.init(keys, [nd.zeros((2,))] * 8), "init of keys a, b, c, ..., i (8 keys, ")
    store.push("same", nd.ones((2,)))


def check_long_operations_that_differ():
    shapes = [(2, 3)] * 100
    shapes[70 + RANK] = (3, 2)
    with pytest.raises(
        Disagreement, match=r"ranks 1.*: sums .* \.\.\. .*float32\[3, 2\]|rank 1: sums .*float32\[3, 2\]"
    ):
        GROUP.all_reduce([np.zeros(shape, "f") for shape in shapes], label="sums of many")


def check_other_threads_and_forks_are_refused():
    import multiprocessing
    import threading

    found = []

    def attempt():
        try:
            GROUP.barrier()
        except mx.MXNetError as error:
            found.append(str(error))

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert "only the thread" in found[0]
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def attempt_in_child():
        attempt()
        queue.put(found[-1])

    child = context.Process(target=attempt_in_child)
    child.start()
    message = queue.get()
    child.join()
    assert "a forked process is no rank" in message


def check_estimator():
    from phonograd.gluon.contrib.estimator import Estimator

    data, classes = batch()
    results = []
    for kvstore, chosen, rate in ((None, slice(None), 0.1), ("dist_sync", slice(RANK, None, SIZE), 0.1 / SIZE)):
        mx.random.seed(4)
        net = nn.Dense(3, in_units=6)
        net.initialize(mx.init.Xavier())
        # a step divides by the batch of its own rank
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": rate}, kvstore=kvstore)
        estimator = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer=trainer)
        dataset = gluon.data.ArrayDataset(data[chosen], classes[chosen])
        estimator.fit(gluon.data.DataLoader(dataset, len(dataset)), epochs=2, event_handlers=[])
        results.append(net.weight.data().asnumpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4, atol=1e-6)


def check_checkpoints_fit_any_number_of_ranks(folder):
    nets, trainers = [], []
    x, y = batch()
    for number in range(2):
        mx.random.seed(number)
        net = nn.Dense(3, in_units=6, prefix="net_")
        net.initialize(mx.init.Xavier())
        kvstore = "dist_sync" if number == 0 else None
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1}, kvstore=kvstore)
        nets.append(net)
        trainers.append(trainer)

    def step(net, trainer, data, classes):
        with autograd.record():
            loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(data), classes)
        loss.backward()
        trainer.step(len(x))

    step(nets[0], trainers[0], own(x), own(y))
    if RANK == 0:
        nets[0].save_parameters(f"{folder}/all.params")
        trainers[0].save_states(f"{folder}/all.states")
    GROUP.barrier()
    nets[1].load_parameters(f"{folder}/all.params")
    trainers[1].load_states(f"{folder}/all.states")
    step(nets[0], trainers[0], own(x), own(y))
    step(nets[1], trainers[1], nd.array(x), nd.array(y))
    weights = [net.weight.data().asnumpy() for net in nets]
    np.testing.assert_allclose(*weights, rtol=1e-5, atol=1e-6)


def check_profiles(folder):
    from phonograd import profiler

    with profiler.profile() as profile:
        train("dist_sync", "sgd", {"learning_rate": 0.1}, steps=2, bucket_bytes=300)
    names = {event.name for event in profile.events()}
    assert any(name.startswith("push of keys") and name.endswith(" waiting") for name in names), names
    assert any(name.endswith(" transfer") for name in names), names
    path = f"{folder}/trace.json"
    mx.distributed.export_trace(profile, path)
    if RANK:
        return
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert {event["pid"] for event in slices} == set(range(SIZE))
    titles = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert sorted(titles) == [f"rank {rank}" for rank in range(SIZE)]
    # no rank finishes a wait before the last rank has begun it; other buckets are announced before their waits
    waits = {}
    for event in slices:
        if event["name"].endswith(" waiting") and "bucket 1 of" in event["name"]:
            waits.setdefault((event["name"]), []).append(event)
    compared = 0
    for name, each in waits.items():
        for number in range(len(each) // SIZE):
            together = [[e for e in each if e["pid"] == rank][number] for rank in range(SIZE)]
            ends = [event["ts"] + event["dur"] for event in together]
            assert min(ends) >= max(event["ts"] for event in together) - 1000, (name, together)
            compared += 1
            assert "bytes" not in together[0].get("args", {})
    assert compared >= 2
    assert all(event["args"]["bytes"] > 0 for event in slices if event["name"].endswith(" transfer"))


def run(names, folder):
    """Run checks and print the failures of all ranks."""
    for name in names:
        problem = ""
        try:
            check = globals()[name]
            check(folder) if check.__code__.co_argcount else check()
        except Exception:
            problem = traceback.format_exc()
        problems = None
        while problems is None:
            try:
                problems = GROUP.gather_texts(problem, f"end of {name}")
            except Disagreement:
                # other ranks are still in the check: they get the same error
                continue
        if RANK == 0:
            print(
                json.dumps([name, [f"rank {rank}: {text}" for rank, text in enumerate(problems) if text]]), flush=True
            )


if __name__ == "__main__":
    run(sys.argv[2:] or [name for name in list(globals()) if name.startswith("check_")], sys.argv[1])
