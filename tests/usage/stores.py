"""Programs with key-value stores and trainers."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from .program import Steps, numbers, program

KINDS = ("local", "device", "local_allreduce_cpu", "local_update_cpu", "local_allreduce_device")


@program
def kinds_of_stores(mx: Any) -> Steps:
    """Types, ranks and names of local stores."""
    for kind in KINDS:
        store = mx.kv.create(kind)
        yield kind, (store.type, store.rank, store.num_workers)
    yield "upper case", lambda: mx.kv.create("LOCAL").type
    yield "default", lambda: mx.kv.create().type
    yield "nccl", lambda: mx.kv.create("nccl").type
    yield "unknown", lambda: mx.kv.create("nothing")
    yield "number", lambda: mx.kv.create(3)
    yield "capable", lambda: [mx.kv.create("local").is_capable(what) for what in ("optimizer", "OPTIMIZER")]
    yield "class capable", lambda: mx.kv.KVStore.is_capable("optimizer")
    yield "unknown capability", lambda: mx.kv.create("local").is_capable("flying")
    # other programs register classes of their own
    known = mx.kv.KVStoreBase.kv_registry
    yield "registry", [name for name in ("byteps", "horovod", "teststore") if name in known]
    yield "instance", isinstance(mx.kv.create("local"), mx.kv.KVStoreBase)
    yield "str type", type(mx.kv.create("local")).__name__


@program
def stored_values(mx: Any) -> Steps:
    """Init, push and pull of one and several keys and values."""
    nd, kv = mx.nd, mx.kv.create("local")
    kv.init(3, nd.ones((2, 3)))
    out = nd.zeros((2, 3))
    kv.pull(3, out=out)
    yield "pulled", out
    kv.push(3, nd.ones((2, 3)) * 8)
    kv.pull(3, out=out)
    yield "pushed", out
    kv.push(3, [nd.ones((2, 3))] * 4)
    kv.pull(3, out=out)
    yield "sum", out
    kv.init([5, 7], [nd.ones((2,))] * 2)
    kv.push([5, 7], [[nd.ones((2,)), nd.ones((2,))], [nd.ones((2,)) * 3]])
    outs = [[nd.zeros((2,)), nd.zeros((2,))], [nd.zeros((2,))]]
    kv.pull([5, 7], out=outs)
    yield "lists", outs
    yield "mixed", lambda: kv.init("a", nd.ones((2,)))
    yield "mixed list", lambda: kv.init([1, "a"], [nd.ones((2,))] * 2)
    yield "mixed push", lambda: kv.push("3", nd.ones((2, 3)))
    yield "mixed pull", lambda: kv.pull("3", out=out)
    yield "twice", lambda: kv.init(3, nd.ones((2, 3)))
    yield "unknown key", lambda: (kv.pull(99, out=out), mx.nd.waitall())
    yield "push unknown key", lambda: (kv.push(98, out), mx.nd.waitall())
    yield "no out", lambda: kv.pull(3)
    yield "tuple key", lambda: kv.init((1, 2), nd.ones((2,)))
    yield "float key", lambda: kv.init(1.5, nd.ones((2,)))
    yield "number value", lambda: kv.init(77, 1.0)
    yield "lengths", lambda: kv.push([5, 7], [nd.ones((2,))])
    words = mx.kv.create("local")
    words.init("w", nd.ones((2,)))
    words.init(["x", "y"], [nd.ones((2,)), nd.zeros((2,))])
    words.push("w", nd.ones((2,)) * 4)
    small = nd.zeros((2,))
    words.pull("w", out=small)
    yield "words", small
    yield "words then number", lambda: words.init(4, nd.ones((2,)))
    other = nd.zeros((2,))
    words.pushpull("w", nd.ones((2,)) * 2, out=other)
    yield "pushpull", other
    words.pushpull("w", other)
    yield "pushpull in place", other
    words.broadcast("b", nd.ones((2,)) * 5, out=[small, other])
    yield "broadcast", [small, other]
    words.pushpull(["x", "y"], [nd.ones((2,)), nd.ones((2,)) * 2], out=[small, other])
    yield "pushpull list", [small, other]


@program
def updaters_of_stores(mx: Any) -> Steps:
    """Updaters, optimizers and their states."""
    nd, kv = mx.nd, mx.kv.create("device")
    kv.init(1, nd.ones((3,)))
    seen: list[Any] = []

    def update(key: Any, value: Any, stored: Any) -> None:
        seen.append((key, type(key).__name__, value.shape))
        stored += value * 2

    kv._set_updater(update)
    out = nd.zeros((3,))
    kv.push(1, [nd.ones((3,)), nd.ones((3,))])
    kv.pull(1, out=out)
    yield "updated", out
    yield "seen", seen
    words = mx.kv.create("local")
    words.init("a", nd.ones((3,)))
    words._set_updater(lambda key, value, stored: seen.append((key, type(key).__name__)))
    words.push("a", nd.ones((3,)))
    words.pull("a", out=out)
    yield "seen words", seen[-1]
    trained = mx.kv.create("local")
    trained.init(0, nd.ones((3,)))
    yield "states without optimizer", lambda: trained.save_optimizer_states("/nonexistent/x")
    trained.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.9))
    for _ in range(2):
        trained.push(0, nd.ones((3,)))
    trained.pull(0, out=out)
    yield "momentum", out
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "states")
        trained.save_optimizer_states(path)
        trained.load_optimizer_states(path)
        trained.push(0, nd.ones((3,)))
        trained.pull(0, out=out)
        yield "after loading", out
    yield "compression", lambda: mx.kv.create("local").set_gradient_compression({"type": "2bit", "threshold": 0.5})
    yield "compression on device", lambda: mx.kv.create("device").set_gradient_compression({"type": "2bit"})
    yield "compression unknown", lambda: mx.kv.create("device").set_gradient_compression({"type": "3bit"})
    coded = mx.kv.create("device")
    coded.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    coded.init(0, nd.zeros((3,)))
    for turn in range(3):
        coded.push(0, [nd.array([0.3, 0.7, -0.6], ctx=mx.cpu(each)) for each in range(2)])
        coded.pull(0, out=out)
        yield f"compressed {turn}", out
    coded.push(0, nd.array([0.3, 0.7, -0.6]))
    coded.pull(0, out=out)
    yield "one value", out
    yield "barrier", lambda: mx.kv.create("local")._barrier()


@program
def sparse_stores(mx: Any) -> Steps:
    """Row-sparse values, row ids of one and two axes."""
    nd, kv = mx.nd, mx.kv.create("local")
    value = nd.array(numbers(1, 6, 2))
    kv.init("e", value.tostype("row_sparse"))
    out = nd.sparse.zeros("row_sparse", (6, 2))
    kv.row_sparse_pull("e", out=out, row_ids=nd.array([1, 4]))
    yield "rows", out
    kv.row_sparse_pull("e", out=out, row_ids=nd.array([[3, 0], [3, 5]]))
    yield "two axes", out
    kv.row_sparse_pull("e", out=out, row_ids=nd.array([2, 2, 1], dtype="int64"))
    yield "repeated", out
    outs = [nd.sparse.zeros("row_sparse", (6, 2)) for _ in range(2)]
    kv.row_sparse_pull("e", out=outs, row_ids=[nd.array([0]), nd.array([5, 1])])
    yield "several", outs
    kv.row_sparse_pull("e", out=outs, row_ids=nd.array([2, 3]))
    yield "several with one", outs
    dense = nd.zeros((6, 2))
    yield "dense out", lambda: (kv.row_sparse_pull("e", out=dense, row_ids=nd.array([1])), dense)
    yield "no rows", lambda: kv.row_sparse_pull("e", out=out)
    yield "no out", lambda: kv.row_sparse_pull("e", row_ids=nd.array([1]))
    yield "pull dense from sparse", lambda: (kv.pull("e", out=dense, ignore_sparse=False), dense)
    untouched = nd.zeros((6, 2))
    yield "pull ignores sparse", lambda: (kv.pull("e", out=untouched), untouched)
    one = nd.sparse.row_sparse_array((numbers(2, 2, 2), [0, 3]), shape=(6, 2))
    two = nd.sparse.row_sparse_array((numbers(3, 2, 2), [3, 4]), shape=(6, 2))
    kv.push("e", [one, two])
    kv.row_sparse_pull("e", out=out, row_ids=nd.arange(6))
    yield "sum", out
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0, momentum=0.5))
    kv.push("e", one)
    kv.row_sparse_pull("e", out=out, row_ids=nd.arange(6))
    yield "updated", lambda: out.asnumpy()
    words = mx.kv.create("local")
    words.init("d", nd.array(numbers(4, 3, 2)))
    words.push("d", nd.sparse.row_sparse_array((numbers(5, 1, 2), [1]), shape=(3, 2)))
    small = nd.zeros((3, 2))
    yield "sparse into dense", lambda: (words.pull("d", out=small), small)


@program
def custom_stores(mx: Any) -> Steps:
    """Store classes that users register, found by name."""
    calls: list[str] = []

    @mx.kv.KVStoreBase.register
    class Recording(mx.kv.KVStoreBase):  # type: ignore[misc, name-defined]
        """A store that notes its calls."""

        def __init__(self) -> None:
            self.values: dict[Any, Any] = {}

        def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
            calls.append("broadcast")
            for each in out if isinstance(out, list) else [out]:
                each[:] = value

        def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
            calls.append("pushpull")
            values = value if isinstance(value, list) else [value]
            total = sum(each.asnumpy() for each in values)
            for each in values if out is None else out if isinstance(out, list) else [out]:
                each[:] = mx.nd.array(total)

        @staticmethod
        def is_capable(capability: str) -> bool:
            return False

        @property
        def type(self) -> str:
            return "recording"

        @property
        def rank(self) -> int:
            return 0

        @property
        def num_workers(self) -> int:
            return 1

    yield "by name", type(mx.kv.create("recording")).__name__
    yield "by upper name", type(mx.kv.create("Recording")).__name__
    yield "registered", "recording" in mx.kv.KVStoreBase.kv_registry
    for kind in ("recording", mx.kv.create("recording")):
        for contexts in ([mx.cpu(0)], [mx.cpu(0), mx.cpu(1)]):
            calls.clear()
            net = mx.gluon.nn.Dense(2, in_units=3, prefix="net_")
            net.initialize("ones", ctx=contexts)
            trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=kind)
            losses = []
            with mx.autograd.record():
                for place, context in enumerate(contexts):
                    losses.append(net(mx.nd.array(numbers(place, 2, 3), ctx=context)).sum())
            for loss in losses:
                loss.backward()
            trainer.step(2)
            label = f"{'name' if isinstance(kind, str) else 'object'} on {len(contexts)}"
            yield label, [net.weight.data(context) for context in contexts]
            yield label + " calls", sorted(set(calls))
            yield label + " store", type(trainer._kvstore).__name__
            yield label + " on store", bool(trainer._update_on_kvstore)
    yield (
        "update on store",
        lambda: mx.gluon.Trainer(
            net.collect_params(), "sgd", kvstore=mx.kv.create("recording"), update_on_kvstore=True
        )._init_kvstore(),
    )
    yield "teststore", lambda: type(mx.kv.create("teststore")).__name__


def _trained(mx: Any, contexts: Any, **options: Any) -> tuple[Any, Any]:
    net = mx.gluon.nn.Dense(2, in_units=3, prefix="net_")
    net.initialize("ones", ctx=contexts)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9}, **options)
    _step(mx, net, trainer, contexts)
    return net, trainer


def _step(mx: Any, net: Any, trainer: Any, contexts: Any, step: bool = True) -> None:
    losses = []
    with mx.autograd.record():
        for place, context in enumerate(contexts):
            losses.append((net(mx.nd.array(numbers(place, 2, 3), ctx=context)) ** 2).sum())
    mx.autograd.backward(losses)
    if step:
        trainer.step(2)


@program
def rules_of_trainers(mx: Any) -> Steps:
    """Which trainers update on their stores, and what they refuse."""
    one, two = [mx.cpu(0)], [mx.cpu(0), mx.cpu(1)]
    for contexts in (one, two):
        for kind in ("local", "device", None):
            for choice in (None, True, False):
                label = f"{len(contexts)} {kind} {choice}"
                try:
                    net, trainer = _trained(mx, contexts, kvstore=kind, update_on_kvstore=choice)
                except Exception as error:
                    yield label, type(error).__name__
                    continue
                yield label, (net.weight.data(contexts[-1]), type(trainer._kvstore).__name__)
                yield label + " on store", bool(trainer._update_on_kvstore)
                yield label + " allreduce", lambda trainer=trainer: trainer.allreduce_grads()
                yield label + " update", lambda trainer=trainer: trainer.update(1, ignore_stale_grad=True)
    net, trainer = _trained(mx, one)
    yield "stale", lambda: trainer.step(1)
    yield "stale ignored", lambda: trainer.step(1, ignore_stale_grad=True)
    yield "rate", (trainer.learning_rate, trainer.optimizer.learning_rate)
    trainer.set_learning_rate(0.2)
    yield "new rate", trainer.learning_rate
    net, trainer = _trained(mx, two, update_on_kvstore=False)
    _step(mx, net, trainer, two, step=False)
    yield "grads", net.weight.list_grad()
    trainer.allreduce_grads()
    yield "reduced", net.weight.list_grad()
    trainer.update(2)
    yield "updated", net.weight.list_data()
    yield "second trainer", lambda: mx.gluon.Trainer(net.collect_params(), "sgd").learning_rate
    yield "block", lambda: mx.gluon.Trainer(net, "sgd")
    yield (
        "optimizer with arguments",
        lambda: mx.gluon.Trainer(net.collect_params(), mx.optimizer.SGD(), {"learning_rate": 1}),
    )
    yield (
        "scheduled",
        lambda: mx.gluon.Trainer(
            net.collect_params(), "sgd", {"lr_scheduler": mx.lr_scheduler.FactorScheduler(2)}
        ).set_learning_rate(1.0),
    )


@program
def states_of_trainers(mx: Any) -> Steps:
    """States survive a file, on one and several contexts."""
    for contexts in ([mx.cpu(0)], [mx.cpu(0), mx.cpu(1)]):
        for choice in (None, False):
            net, trainer = _trained(mx, contexts, update_on_kvstore=choice)
            label = f"{len(contexts)} {choice}"
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "states")
                trainer.save_states(path)
                other = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 5.0}, update_on_kvstore=choice)
                other.load_states(path)
            yield label + " rate", (other.learning_rate, other._optimizer.momentum)
            _step(mx, net, other, contexts)
            yield label, net.weight.list_data()
            net.weight.set_data(mx.nd.ones((2, 3)))
            _step(mx, net, other, contexts)
            yield label + " after set_data", net.weight.list_data()


@program
def trainers_with_sparse_gradients(mx: Any) -> Steps:
    """Embeddings with sparse gradients on one and several contexts, with dense and sparse weights."""
    two = [mx.cpu(0), mx.cpu(1)]
    for contexts in (two[:1], two):
        for stype in ("default", "row_sparse"):
            for choice in (None, True, False):
                label = f"{len(contexts)} {stype} {choice}"
                parameter = mx.gluon.Parameter(
                    "w", shape=(5, 2), stype=stype, grad_stype="row_sparse", init=mx.init.Constant(0.5)
                )
                parameter.initialize(ctx=contexts)
                try:
                    trainer = mx.gluon.Trainer(
                        [parameter], "sgd", {"learning_rate": 0.5, "momentum": 0.9}, update_on_kvstore=choice
                    )
                    for step in range(2):
                        losses = []
                        with mx.autograd.record():
                            for place, context in enumerate(contexts):
                                ids = mx.nd.array([step, place + 2], ctx=context)
                                rows = mx.nd.arange(5, ctx=context)
                                weight = (
                                    parameter.row_sparse_data(rows)
                                    if stype == "row_sparse"
                                    else parameter.data(context)
                                )
                                losses.append(
                                    mx.nd.Embedding(ids, weight, input_dim=5, output_dim=2, sparse_grad=True).sum()
                                )
                        mx.autograd.backward(losses)
                        trainer.step(1)
                except Exception as error:
                    yield label, type(error).__name__
                    continue
                yield label + " on store", (bool(trainer._update_on_kvstore), type(trainer._kvstore).__name__)
                yield label + " grad", parameter.list_grad()[0].stype
                if stype == "row_sparse":
                    some = mx.nd.array([0, 3], ctx=contexts[0])
                    yield label + " rows", parameter.row_sparse_data(some)
                    yield label + " list", parameter.list_row_sparse_data(some)
                    yield label + " data", lambda parameter=parameter: parameter.data()
                    yield label + " list_data", lambda parameter=parameter: parameter.list_data()
                else:
                    yield label + " data", parameter.list_data()
                    yield label + " rows", lambda parameter=parameter: parameter.row_sparse_data(mx.nd.array([0]))
    lonely = mx.gluon.Parameter("w", shape=(5, 2), stype="row_sparse")
    lonely.initialize("ones")
    yield "no trainer", lambda: lonely.row_sparse_data(mx.nd.array([0]))
    net = mx.gluon.nn.Embedding(4, 2, sparse_grad=True, prefix="emb_")
    net.initialize("ones")
    with mx.autograd.record():
        loss = net(mx.nd.array([1, 1, 3])).sum()
    loss.backward()
    yield "embedding", net.weight.grad()
    yield "zero_grad", lambda: (net.collect_params().zero_grad(), net.weight.grad())[1]
