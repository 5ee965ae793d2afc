"""Trainers and stores: one context and several, learning rates, stale gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.core.graph.node import statistics
from phonograd.gluon import nn
from phonograd.gluon.parameter import DeferredInitializationError


def dense(ctx: Any = None) -> Any:
    net = nn.Dense(1, in_units=2, use_bias=False)
    net.initialize(mx.init.One(), ctx=ctx)
    return net


def backward(net: Any, contexts: Any = None) -> None:
    for context in contexts or [mx.cpu()]:
        with autograd.record():
            loss = net(nd.array([[1.0, 2.0]], ctx=context)).sum()
        loss.backward()


def test_step_divides_by_the_batch_size() -> None:
    net = dense()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    backward(net)
    trainer.step(2)
    assert net.weight.data().asnumpy().tolist() == [[0.75, 0.5]]
    backward(net)
    trainer.step(1)
    assert net.weight.data().asnumpy().tolist() == [[0.25, -0.5]]


@pytest.mark.parametrize("kvstore", ["device", "local", mx.kv.create("local")])
@pytest.mark.parametrize("update_on_kvstore", [None, True, False])
def test_several_contexts(kvstore: Any, update_on_kvstore: bool | None) -> None:
    contexts = [mx.cpu(0), mx.cpu(1)]
    net = dense(contexts)
    store = mx.kv.create("local") if isinstance(kvstore, mx.kv.KVStoreBase) else kvstore
    arguments = {"learning_rate": 0.5, "momentum": 0.5}
    trainer = gluon.Trainer(net.collect_params(), "sgd", arguments, store, update_on_kvstore=update_on_kvstore)
    for _ in range(2):
        backward(net, contexts)
        trainer.step(2)
    for array in net.weight.list_data():
        assert array.asnumpy().tolist() == [[1 - 0.5 - 0.75, 1 - 1 - 1.5]]


def test_no_store() -> None:
    net = dense()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5}, kvstore=None)
    backward(net)
    trainer.step(1)
    assert net.weight.data().asnumpy().tolist() == [[0.5, 0.0]]


def test_gradients_can_be_changed_between() -> None:
    contexts = [mx.cpu(0), mx.cpu(1)]
    net = dense(contexts)
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0}, update_on_kvstore=False)
    backward(net, contexts)
    trainer.allreduce_grads()
    assert [grad.asnumpy().tolist() for grad in net.weight.list_grad()] == [[[2, 4]], [[2, 4]]]
    for grad in net.weight.list_grad():
        grad[:] = 1
    trainer.update(2)
    assert net.weight.data(mx.cpu(1)).asnumpy().tolist() == [[0.5, 0.5]]
    other = gluon.Trainer(dense(contexts).collect_params(), "sgd")
    with pytest.raises(AssertionError, match="when parameters are updated on kvstore is not supported"):
        other.update(1)


@pytest.mark.parametrize("kvstore", [None, "device"])
def test_parameters_without_a_shape(kvstore: str | None) -> None:
    net = nn.Dense(1, prefix="dense_")
    net.initialize(mx.init.One())
    trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore=kvstore)
    for ignore in (False, True):
        for call in (trainer.step, trainer.update):
            with pytest.raises(DeferredInitializationError, match="Parameter 'dense_weight' has not been initialized"):
                call(1, ignore_stale_grad=ignore)
    with pytest.raises(DeferredInitializationError, match="Actual initialization happens during the first forward"):
        trainer.allreduce_grads()
    backward(net)
    trainer.step(1)
    assert net.weight.data().asnumpy() == pytest.approx(np.array([[0.99, 0.98]]))


def test_frozen_parameters_need_no_shape() -> None:
    net, unused = dense(), nn.Dense(1, prefix="unused_")
    unused.initialize()
    unused.collect_params().setattr("grad_req", "null")
    trainer = gluon.Trainer({**net.collect_params(), **unused.collect_params()}, "sgd")
    backward(net)
    trainer.step(1)


def test_stale_gradients() -> None:
    net = dense()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    with pytest.raises(UserWarning, match="has not been updated by backward since last `step`"):
        trainer.step(1)
    trainer.step(1, ignore_stale_grad=True)
    assert net.weight.data().asnumpy().tolist() == [[1, 1]]
    backward(net)
    trainer.step(1)
    with pytest.raises(UserWarning, match="has not been updated"):
        trainer.step(1)


def test_frozen_parameters_stay() -> None:
    net = dense()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    net.collect_params().setattr("grad_req", "null")
    trainer.step(1)
    assert net.weight.data().asnumpy().tolist() == [[1, 1]]


def test_learning_rates() -> None:
    net = dense()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    assert trainer.learning_rate == 0.5
    trainer.set_learning_rate(0.25)
    net.weight.lr_mult = 2.0
    backward(net)
    trainer.step(1)
    assert net.weight.data().asnumpy().tolist() == [[0.5, 0.0]]
    schedule = mx.lr_scheduler.FactorScheduler(step=1, factor=0.5, base_lr=1.0)
    scheduled = gluon.Trainer(dense().collect_params(), "sgd", {"lr_scheduler": schedule})
    assert scheduled.learning_rate == 1.0
    with pytest.raises(UserWarning, match="LRScheduler of the optimizer has already been defined"):
        scheduled.set_learning_rate(3)


def test_weight_decay_multipliers() -> None:
    net = dense()
    net.weight.wd_mult = 0.0
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0, "wd": 0.5})
    net.weight.grad()[:] = 0
    net.weight.data()._fresh_grad = 1
    trainer.step(1)
    assert net.weight.data().asnumpy().tolist() == [[1, 1]]


def test_deferred_parameters() -> None:
    net = nn.Dense(1)
    net.initialize(mx.init.One())
    trainer = gluon.Trainer(net.collect_params(), mx.optimizer.SGD(learning_rate=0.5))
    backward(net)
    trainer.step(1)
    assert net.weight.data().asnumpy().tolist() == [[0.5, 0.0]]


def test_what_is_trained() -> None:
    with pytest.raises(ValueError, match="must be a list or dict of Parameters, got <class 'int'>"):
        gluon.Trainer(3, "sgd")
    with pytest.raises(ValueError, match="got list of <class 'int'>"):
        gluon.Trainer([3], "sgd")
    with pytest.raises(AssertionError, match="optimizer_params must be None"):
        gluon.Trainer(dense().collect_params(), mx.optimizer.SGD(), {"momentum": 0.9})
    with pytest.raises(ValueError, match="Cannot find optimizer sdg"):
        gluon.Trainer(dense().collect_params(), "sdg")
    with pytest.raises(AssertionError, match="same set of contexts"):
        gluon.Trainer([dense(mx.cpu(0)).weight, dense(mx.cpu(1)).weight], "sgd")


def test_half_precision() -> None:
    net = dense()
    net.cast("float16")
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-4, "multi_precision": True})
    for _ in range(8):
        with autograd.record():
            loss = net(nd.array([[1.0, 2.0]], dtype="float16")).sum()
        loss.backward()
        trainer.step(1)
    # each step alone is lost in the rounding of float16
    assert net.weight.data().asnumpy().tolist() == [[np.float16(1 - 8e-4), np.float16(1 - 16e-4)]]


def test_states_on_several_contexts(tmp_path: Path) -> None:
    contexts = [mx.cpu(0), mx.cpu(1)]
    path, between = str(tmp_path / "states"), nd.ones((1, 2))
    for update_on_kvstore in (True, False):
        weights = []
        for load in (False, True):
            net = dense(contexts)
            arguments = {"learning_rate": 0.5, "momentum": 0.5}
            trainer = gluon.Trainer(net.collect_params(), "sgd", arguments, update_on_kvstore=update_on_kvstore)
            if load:
                net.weight.set_data(between)
                trainer.load_states(path)
            else:
                backward(net, contexts)
                trainer.step(1)
                trainer.save_states(path)
                between = net.weight.data(mx.cpu(0)).copy()
            backward(net, contexts)
            trainer.step(1)
            weights.append([array.asnumpy().tolist() for array in net.weight.list_data()])
        assert weights[0] == weights[1]


# -- stores


def test_store_of_several_keys() -> None:
    store = mx.kv.create("device")
    assert (store.type, store.rank, store.num_workers) == ("device", 0, 1)
    store.init(["a", "c"], [nd.ones((2,)), nd.zeros((1,))])
    store.push(["a", "c"], [[nd.ones((2,)), nd.ones((2,), ctx=mx.cpu(1))], [nd.ones((1,))]])
    outputs = [nd.zeros((2,)), nd.zeros((1,))]
    store.pull(["a", "c"], out=outputs)
    assert [out.asnumpy().tolist() for out in outputs] == [[2, 2], [1]]
    values = [nd.full((2,), 3), nd.full((2,), 4, ctx=mx.cpu(1))]
    store.pushpull("a", values)
    assert [value.asnumpy().tolist() for value in values] == [[7, 7], [7, 7]]
    store.push(["a", "c", "a"], [nd.ones((2,)), nd.ones((1,)), nd.full((2,), 5)])
    store.pull(["a", "c"], out=outputs)
    assert [out.asnumpy().tolist() for out in outputs] == [[6, 6], [1]]
    with pytest.raises(mx.MXNetError, match="key b has not been inited"):
        store.push("b", nd.ones((1,)))
    with pytest.raises(mx.MXNetError, match="duplicate init"):
        store.init("a", nd.ones((2,)))
    with pytest.raises(mx.MXNetError, match=r"key c has shape \(1,\), and out \(2,\)"):
        store.pull("c", out=nd.zeros((2,)))


def test_rows_of_a_store() -> None:
    store = mx.kv.create()
    store.init("w", nd.array([[1, 2], [3, 4], [5, 6]]).tostype("row_sparse"))
    some, others = [nd.sparse.zeros("row_sparse", (3, 2)) for _ in range(2)]
    store.pull("w", out=some)
    assert some.asnumpy().sum() == 0
    store.row_sparse_pull("w", out=some, row_ids=nd.array([2, 0, 2]))
    assert some.asnumpy().tolist() == [[1, 2], [0, 0], [5, 6]]
    assert some.indices.asnumpy().tolist() == [0, 2]
    store.row_sparse_pull(["w"], out=[[some, others]], row_ids=[[nd.array([0]), nd.array([1])]])
    assert [array.asnumpy().tolist() for array in (some, others)] == [
        [[1, 2], [0, 0], [0, 0]],
        [[0, 0], [3, 4], [0, 0]],
    ]
    store.row_sparse_pull("w", out=[some, others], row_ids=nd.array([2]))
    assert some.asnumpy().tolist() == others.asnumpy().tolist() == [[0, 0], [0, 0], [5, 6]]
    dense = nd.zeros((3, 2))
    store.pull("w", out=[others, dense])
    assert others.asnumpy().tolist() == [[0, 0], [0, 0], [5, 6]]
    assert dense.asnumpy().tolist() == [[1, 2], [3, 4], [5, 6]]
    with pytest.raises(mx.MXNetError, match="row_sparse_pull needs row_sparse arrays, but out is default"):
        store.row_sparse_pull("w", out=nd.zeros((3, 2)), row_ids=nd.array([2]))


def test_store_with_an_updater() -> None:
    store = mx.kv.create()
    store.init(0, nd.ones((2,)))
    store._set_updater(lambda key, pushed, stored: stored.__iadd__(pushed * 2))
    store.push(0, nd.ones((2,)))
    out = nd.zeros((2,))
    store.pull(0, out)
    assert out.asnumpy().tolist() == [3, 3]


def test_types_of_stores() -> None:
    with pytest.raises(ValueError, match="Unknown KVStore type 'elsewhere'"):
        mx.kv.create("elsewhere")
    with pytest.raises(ValueError, match="Gradient compression is not supported"):
        mx.kv.create("local").set_gradient_compression({"type": "2bit"})

    @mx.kv.KVStoreBase.register
    class Mine(mx.kv.KVStoreBase):
        pass

    assert type(mx.kv.create("mine")) is Mine
    assert mx.kvstore is mx.kv


@pytest.mark.parametrize("on_store", [None, False])
def test_sparse_gradients_of_several_contexts_stay_sparse(on_store: bool | None) -> None:
    contexts = [mx.cpu(0), mx.cpu(1)]
    layer = gluon.nn.Embedding(4, 2, sparse_grad=True)
    layer.initialize("ones", ctx=contexts)
    trainer = gluon.Trainer(layer.collect_params(), "adam", {"learning_rate": 0.1}, update_on_kvstore=on_store)
    for word in range(3):
        with autograd.record():
            losses = [layer(nd.array([word], ctx=context)).sum() for context in contexts]
        autograd.backward(losses)
        trainer.step(1)
    # a lazy update moves the rows it has, and no other by what is left of its momentum
    wanted = [0.9, 1 - 0.1 * 0.7442, 1 - 0.1 * 0.6388, 1]
    for context in contexts:
        np.testing.assert_allclose(layer.weight.data(context).asnumpy()[:, 0], wanted, rtol=1e-3)


def _looked_up(stype: str, rate: float, lookups: int, **parameters: Any) -> tuple[Any, int]:
    """Return a table of 64 rows after three steps, and the number of evaluations of the last one."""
    weight = gluon.Parameter("weight", shape=(64, 16), grad_stype=stype)
    weight.initialize(mx.init.Zero())
    numbers = np.random.default_rng(0).normal(size=(64, 16))
    numbers[::2] = -0.0
    weight.set_data(nd.array(numbers))
    trainer = gluon.Trainer([weight], "sgd", {"learning_rate": rate, **parameters}, kvstore=None)
    indices = nd.array([3, 8, 3, 60, 9, 9, 1, 0][:lookups])
    weight.data().wait_to_read()
    for _ in range(3):
        before = statistics.evaluations
        with autograd.record():
            loss = (nd.Embedding(indices, weight.data(), input_dim=64, output_dim=16, sparse_grad=True) ** 2).sum()
        loss.backward()
        trainer.step(1)
        weight.data().wait_to_read()
    return weight, statistics.evaluations - before


@pytest.mark.parametrize("rate", [0.1, -0.1, float("inf"), 0.0])
@pytest.mark.parametrize("lookups", [8, 2])
def test_rows_of_a_table_are_updated_with_the_bits_of_a_dense_gradient(rate: float, lookups: int) -> None:
    (rows, _), (dense, _) = (_looked_up(stype, rate, lookups) for stype in ("row_sparse", "default"))
    assert rows.grad().stype == "row_sparse"
    found, expected = rows.data().asnumpy(), dense.data().asnumpy()
    used = np.unique([3, 8, 3, 60, 9, 9, 1, 0][:lookups])
    assert found[used].tobytes() == expected[used].tobytes()
    others = np.delete(np.arange(64), used)
    numbers = np.random.default_rng(0).normal(size=(64, 16)).astype("float32")
    numbers[::2] = -0.0
    # a lazy update leaves all other rows as they are, whatever the rate
    assert found[others].tobytes() == numbers[others].tobytes()
    assert rows.grad().indices.asnumpy().tolist() == used.tolist()


def test_rows_of_a_table_are_updated_in_one_evaluation() -> None:
    evaluations = {
        "plain": _looked_up("row_sparse", 0.1, 8)[1],
        "dense": _looked_up("default", 0.1, 8)[1],
        "few": _looked_up("row_sparse", 0.1, 2)[1],
        "negative": _looked_up("row_sparse", -0.1, 8)[1],
        "with momentum": _looked_up("row_sparse", 0.1, 8, momentum=0.5)[1],
        "with decay": _looked_up("row_sparse", 0.1, 8, wd=0.5)[1],
    }
    assert evaluations["plain"] == evaluations["dense"]
    assert all(count > evaluations["plain"] for name, count in evaluations.items() if name not in ("plain", "dense"))
