"""Programs with estimators, initializers, samplers, cells, files of blocks and profiles."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

import numpy as np

from .program import Steps, numbers, program


def _loader(mx: Any, count: int = 8) -> Any:
    labels = (np.arange(count) % 3).astype("float32")
    return mx.gluon.data.DataLoader(mx.gluon.data.ArrayDataset(numbers(1, count, 4), labels), batch_size=4)


def _net(mx: Any, initialized: bool = True) -> Any:
    net = mx.gluon.nn.Dense(3, in_units=4, prefix="net_")
    if initialized:
        net.initialize("ones")
    return net


@program
def estimators(mx: Any) -> Steps:
    """Estimators: contexts, metrics, losses, handlers and their order."""
    from importlib import import_module

    package = import_module(mx.__name__ + ".gluon.contrib.estimator")
    loss, acc = mx.gluon.loss.SoftmaxCrossEntropyLoss(), mx.metric.Accuracy()
    make = package.Estimator
    for label, options in (
        ("plain", {}), ("metric", {"metrics": acc}), ("list", {"metrics": [acc]}), ("wrong metric", {"metrics": "acc"}),
        ("wrong list", {"metrics": ["acc"]}), ("context", {"context": mx.cpu()}), ("contexts", {"context": [mx.cpu(0)]}),
        ("two contexts", {"context": [mx.cpu(0), mx.cpu(1)]}), ("wrong context", {"context": "cpu"}),
        ("other context", {"context": mx.cpu(1)}), ("val metrics", {"val_metrics": acc}),
        ("train metrics", {"train_metrics": acc}), ("gpu", {"context": mx.gpu(0)}), ("number", {"context": 3}),
    ):  # fmt: skip
        yield label, lambda options=options: _estimator(make(_net(mx), loss, **options))
    yield "wrong loss", lambda: make(_net(mx), "loss")
    yield "loss list", lambda: make(_net(mx), [loss])
    yield "optimizer", lambda: make(_net(mx), loss, trainer="sgd")
    yield "not initialized", lambda: _estimator(make(_net(mx, False), loss))[:4]
    yield "initializer", lambda: _estimator(make(_net(mx, False), loss, initializer=mx.init.One()))
    yield "initialized with initializer", lambda: _estimator(make(_net(mx), loss, initializer=mx.init.Zero()))
    net = _net(mx)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    trained = make(net, loss, trainer=trainer)
    trained.fit(_loader(mx), epochs=2)
    yield "fit", net.weight.data()
    yield "no epochs", lambda: trained.fit(_loader(mx))
    yield "epochs and batches", lambda: trained.fit(_loader(mx), epochs=1, batches=1)
    yield "batches", lambda: (trained.fit(_loader(mx), batches=3), net.weight.data())
    yield "iterator", lambda: trained.fit(mx.io.NDArrayIter(numbers(1, 4, 4)), epochs=1)
    yield "array", lambda: trained.fit(numbers(1, 4, 4), epochs=1)
    yield "evaluate", lambda: (trained.evaluate(_loader(mx)), [each.get()[0] for each in trained.val_metrics])
    seen: list[str] = []

    class Noting(
        package.TrainBegin, package.TrainEnd, package.EpochBegin, package.EpochEnd, package.BatchBegin, package.BatchEnd
    ):  # type: ignore[misc, name-defined]
        """A handler that notes its calls."""

        def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
            seen.append("train_begin")

        def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
            seen.append("train_end")

        def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
            seen.append("epoch_begin")

        def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
            seen.append("epoch_end")

        def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
            seen.append("batch_begin " + " ".join(sorted(kwargs)))

        def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
            seen.append("batch_end " + " ".join(sorted(kwargs)))

    trained.fit(_loader(mx), epochs=1, event_handlers=[Noting()])
    yield "calls", seen
    yield "wrong handler", lambda: trained.fit(_loader(mx), epochs=1, event_handlers=[1])
    yield "with validation", lambda: _validated(mx, package, loss)
    with tempfile.TemporaryDirectory() as folder:
        handler = package.CheckpointHandler(folder, "net", save_best=True, monitor=trained.train_metrics[0])
        trained.fit(_loader(mx), epochs=2, event_handlers=[handler])
        yield "checkpoints", sorted(os.listdir(folder))
        again = package.CheckpointHandler(folder, "net", resume_from_checkpoint=True)
        yield (
            "resumed",
            lambda: (trained.fit(_loader(mx), epochs=3, event_handlers=[again]), sorted(os.listdir(folder))),
        )
    early = package.EarlyStoppingHandler(trained.train_metrics[0], patience=0, mode="max", min_delta=10)
    yield "early", lambda: (trained.fit(_loader(mx), epochs=9, event_handlers=[early]), early.stopped_epoch)
    yield "stopping", lambda: _stopping(package)
    yield "wrong mode", lambda: package.EarlyStoppingHandler(acc, mode="wrong").mode
    yield "wrong interval", lambda: package.LoggingHandler(log_interval="wrong")
    yield "wrong monitor", lambda: package.CheckpointHandler("x", monitor="acc", save_best=True)


def _estimator(made: Any) -> Any:
    return [
        [str(each) for each in made.context], [each.get()[0] for each in made.train_metrics],
        [each.get()[0] for each in made.val_metrics], type(made.trainer._optimizer).__name__,
        made.net.weight.data(made.context[0]).asnumpy().mean(), made.loss.__class__.__name__,
    ]  # fmt: skip


def _validated(mx: Any, package: Any, loss: Any) -> Any:
    made = package.Estimator(_net(mx), loss, metrics=mx.metric.Accuracy())
    made.fit(_loader(mx), val_data=_loader(mx), epochs=1)
    return [each.get()[0] for each in made.val_metrics], [round(float(each.get()[1]), 3) for each in made.val_metrics]


def _stopping(package: Any) -> Any:
    handler = package.StoppingHandler(max_epoch=2, max_batch=5)
    return handler.max_epoch, handler.max_batch, handler.stop_training


@program
def initializers(mx: Any) -> Steps:
    """Initializers that dump, with numbers, lists and arrays."""
    init = mx.init
    for each in (
        init.Constant(2), init.Constant(2.5), init.Zero(), init.One(), init.Uniform(0.1), init.Normal(0.2),
        init.Orthogonal(), init.Xavier("gaussian", "in", 2), init.MSRAPrelu(), init.Bilinear(), init.LSTMBias(0.5),
        init.Constant(mx.nd.array([1.0, 2.0])), init.Constant(np.array([1.0, 2.0])), init.Constant([1.0, 2.0]),
    ):  # fmt: skip
        label = f"{type(each).__name__} {getattr(each, 'value', '')}".strip()[:24]
        label += " " + type(getattr(each, "value", None)).__name__
        yield label, lambda each=each: _dumped(each.dumps())
        yield (
            label + " repr",
            lambda each=each: mx.init.create(*json.loads(each.dumps())[:1], **json.loads(each.dumps())[1]),
        )
    array = mx.nd.zeros((2,))
    init.Constant(mx.nd.array([3.0, 4.0]))(init.InitDesc("x_weight"), array)
    yield "array", array
    yield (
        "equal",
        (init.Constant(1) == init.Constant(1), init.Constant(1) == init.Constant(2), init.Zero() == init.Zero()),
    )
    constant = mx.gluon.Constant("c", [[1, 2], [3, 4]])
    constant.initialize()
    yield "gluon constant", constant.data()
    yield "gluon constant repr", repr(constant)
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(2, in_units=2, weight_initializer=init.Constant([[1, 2], [3, 4]])))
    yield "list in a layer", lambda: (net.initialize(), net[0].weight.data())[1]
    symbol = mx.sym.var("w", init=init.Constant(3), shape=(2,))
    yield "attribute", symbol.attr("__init__")
    yield "unknown", lambda: init.create("nothing")
    yield "by name", lambda: type(init.create("xavier", magnitude=2)).__name__
    yield "mixed", lambda: _filled(mx, init.Mixed([".*bias", ".*"], [init.Zero(), init.One()]), ["a_bias", "a_weight"])
    yield (
        "load",
        lambda: _filled(mx, init.Load({"arg:x_weight": mx.nd.ones((2,)) * 7}, init.Zero()), ["x_weight", "y_weight"]),
    )
    for name in ("x_weight", "x_bias", "x_gamma", "x_beta", "x_moving_mean", "x_moving_var", "x_running_var", "x_min", "x_max",
                 "x_moving_avg", "x_running_mean", "x_moving_inv_var", "other"):  # fmt: skip
        yield "default " + name, lambda name=name: _filled(mx, init.One(), [name])


def _dumped(text: str) -> Any:
    name, arguments = json.loads(text)
    return name, sorted(arguments.items())


def _filled(mx: Any, initializer: Any, names: list[str]) -> Any:
    found = []
    for name in names:
        array = mx.nd.ones((2,)) * 5
        initializer(mx.init.InitDesc(name), array)
        found.append(array)
    return found


@program
def random_calls(mx: Any) -> Steps:
    """Samplers: keywords, shapes and dtypes of their results."""
    for place in ("random", "nd.random"):
        random = mx
        for part in place.split("."):
            random = getattr(random, part)
        for call in (
            "uniform()", "uniform(0, 1, 3)", "uniform(shape=(2, 3))", "uniform(low=-1, high=1, shape=2, dtype='float64')",
            "uniform(low=mx.nd.array([0, 1]), high=mx.nd.array([1, 2]), shape=2)", "normal(0, 1, (2,), 'float16')",
            "normal(loc=mx.nd.zeros(2), scale=mx.nd.ones(2))", "randn(2, 3)", "randn(2, 3, loc=1, scale=2)",
            "randn(2, dtype='float64')", "poisson(1, 2)", "poisson(lam=mx.nd.array([1, 2]), shape=3)", "exponential(2, 3)",
            "exponential(scale=mx.nd.array([1, 2]))", "gamma(1, 2, 3)", "gamma(alpha=mx.nd.array([1, 2]), beta=mx.nd.array([1, 2]))",
            "negative_binomial(1, 0.5, 3)", "generalized_negative_binomial(1, 0.5, 3)", "multinomial(mx.nd.array([0.1, 0.9]), 4)",
            "multinomial(mx.nd.array([0.1, 0.9]), shape=2, get_prob=True)", "multinomial(mx.nd.array([0.5, 0.5]), dtype='uint8')",
            "shuffle(mx.nd.arange(4))", "randint(0, 5, (2, 2))", "randint(0, 5, 3, 'int64')", "randint(low=3, high=9)",
            "uniform(0, 1, 2, ctx=mx.cpu(1))", "uniform(0, 1, out=mx.nd.zeros(3))", "uniform(0, 1, (0,))",
            "uniform('a', 1)",  "uniform(0, 1, 2, 'int32')", "bernoulli(0.5, 3)", "uniform_like(mx.nd.ones((2,)))",
            "normal_like(mx.nd.ones((2,)))", "exponential_like(mx.nd.ones((2,)))", "gamma_like(mx.nd.ones((2,)))",
            "poisson_like(mx.nd.ones((2,)))", "seed(3)", "seed(3, ctx='all')", "seed(3, ctx=mx.cpu(0))", "seed('a')",
        ):  # fmt: skip
            yield f"{place}.{call}", lambda random=random, call=call: _shape(mx, eval("random." + call))
    for name in ("sample_uniform", "sample_normal", "sample_gamma", "sample_exponential", "sample_poisson"):
        function = getattr(mx.nd, name)
        count = 1 if name in ("sample_exponential", "sample_poisson") else 2
        yield (
            name,
            lambda function=function, count=count: _shape(
                mx, function(*[mx.nd.array([1.0, 2.0])] * count, shape=3, dtype="float64")
            ),
        )
    for seed in (1, 2):
        mx.random.seed(seed)
        first = mx.nd.random.uniform(shape=100).asnumpy()
        mx.random.seed(seed)
        yield f"seed {seed}", bool((mx.nd.random.uniform(shape=100).asnumpy() == first).all())
    for name, mean, deviation in (
        ("uniform(0, 1, 20000)", 0.5, 0.2887), ("normal(1, 2, 20000)", 1, 2), ("poisson(4, 20000)", 4, 2),
        ("exponential(2, 20000)", 2, 2), ("gamma(4, 0.5, 20000)", 2, 1), ("randint(0, 10, 20000)", 4.5, 2.872),
        ("negative_binomial(4, 0.5, 20000)", 4, 2.83), ("generalized_negative_binomial(2, 0.3, 20000)", 2, 1.79),
    ):  # fmt: skip
        yield (
            "statistics " + name,
            lambda name=name, mean=mean, deviation=deviation: _is_near(mx, name, mean, deviation),
        )


def _shape(mx: Any, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_shape(mx, each) for each in value]
    if isinstance(value, mx.nd.NDArray):
        return type(value).__name__, value.shape, np.dtype(value.dtype).name, str(value.context)
    return type(value).__name__


def _is_near(mx: Any, call: str, mean: float, deviation: float) -> bool:
    mx.random.seed(5)
    values = eval("mx.nd.random." + call).asnumpy().astype("float64")
    return bool(abs(values.mean() - mean) < 0.05 * deviation and abs(values.std() - deviation) < 0.06 * deviation)


@program
def cells(mx: Any) -> Steps:
    """Recurrent cells inside each other."""
    rnn = mx.gluon.rnn
    data = mx.nd.array(numbers(1, 2, 3, 4))

    def unrolled(cell: Any, merge: Any = True, **options: Any) -> Any:
        cell.initialize("ones")
        outputs, states = cell.unroll(3, data, layout="NTC", merge_outputs=merge, **options)
        return outputs if merge else list(outputs), [state.shape for state in states]

    def both() -> Any:
        return rnn.BidirectionalCell(
            rnn.GRUCell(2, input_size=4, prefix="l_"), rnn.GRUCell(2, input_size=4, prefix="r_")
        )

    yield "residual of bidirectional", lambda: unrolled(rnn.ResidualCell(both()))
    yield "residual of bidirectional, lists", lambda: unrolled(rnn.ResidualCell(both()), False)
    yield "residual", lambda: unrolled(rnn.ResidualCell(rnn.GRUCell(4, input_size=4)))
    yield "bidirectional", lambda: unrolled(both())
    yield "bidirectional lengths", lambda: unrolled(both(), valid_length=mx.nd.array([2, 3]))
    yield "zoneout", lambda: unrolled(rnn.ZoneoutCell(rnn.RNNCell(4, input_size=4), 0.5, 0.5))[1]
    yield (
        "residual of zoneout",
        lambda: unrolled(rnn.ResidualCell(rnn.ZoneoutCell(rnn.RNNCell(4, input_size=4), 0.5, 0.5)))[1],
    )
    yield "zoneout of bidirectional", lambda: unrolled(rnn.ZoneoutCell(both(), 0.5, 0.5))
    stack = rnn.SequentialRNNCell()
    stack.add(both())
    stack.add(rnn.DropoutCell(0.5))
    stack.add(rnn.ResidualCell(rnn.LSTMCell(4, input_size=4)))
    yield "stack", lambda: unrolled(stack)
    yield "stack lengths", lambda: unrolled(stack, valid_length=mx.nd.array([2, 3]))
    yield "call bidirectional", lambda: both()(mx.nd.ones((2, 4)), [])
    yield "state info", stack.state_info(2)
    yield "hybrid stack", lambda: _hybrid(mx, data)
    yield "names", list(stack.collect_params())[:3]


def _hybrid(mx: Any, data: Any) -> Any:
    stack = mx.gluon.rnn.HybridSequentialRNNCell()
    stack.add(mx.gluon.rnn.LSTMCell(3, input_size=4))
    stack.add(mx.gluon.rnn.GRUCell(3, input_size=3))
    stack.initialize("ones")
    stack.hybridize()
    outputs, states = stack.unroll(3, data, layout="NTC", merge_outputs=True)
    return outputs, [state.shape for state in states]


@program
def files_of_blocks(mx: Any) -> Steps:
    """Saved and loaded blocks, with children registered under names of their own."""
    nn = mx.gluon.nn

    class Net(mx.gluon.Block):  # type: ignore[misc, name-defined]
        """A block with children under names of its own."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            with self.name_scope():
                self.first = nn.Dense(2, in_units=2)
                self.register_child(nn.Dense(2, in_units=2), "second")
                self.register_child(nn.Dense(1, in_units=2))
                self.own = self.params.get("own", shape=(2,), init="ones")

        def forward(self, x: Any) -> Any:
            for child in self._children.values():
                x = child(x)
            return x

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.params")
        net = Net(prefix="net_")
        net.initialize("ones")
        net.save_parameters(path)
        yield "keys", sorted(mx.nd.load(path))
        yield "children", list(net._children)
        yield "collected", list(net.collect_params())
        yield "structured", sorted(net._collect_params_with_prefix())
        other = Net()
        other.load_parameters(path)
        yield "loaded", other(mx.nd.ones((1, 2)))
        net.save_parameters(path, deduplicate=True)
        yield "deduplicated", sorted(mx.nd.load(path))
        net.collect_params().save(path)
        yield "by name", sorted(mx.nd.load(path))
        net.collect_params().save(path, strip_prefix="net_")
        yield "stripped", sorted(mx.nd.load(path))
        yield "load stripped", lambda: other.collect_params().load(path, restore_prefix="net_")
        yield "old format", lambda: (net.collect_params().load(path, restore_prefix="net_"), net(mx.nd.ones((1, 2))))[1]
        small = nn.Dense(2, in_units=2)
        small.initialize()
        yield "missing", lambda: small.load_parameters(path)
        yield "extra", lambda: small.load_parameters(path, allow_missing=True, ignore_extra=True)
        yield "no file", lambda: small.load_parameters(os.path.join(folder, "none"))
        shared = nn.Sequential()
        one = nn.Dense(2, in_units=2)
        shared.add(one, nn.Dense(2, in_units=2, params=one.params), one)
        shared.initialize("ones")
        shared.save_parameters(path)
        yield "shared", sorted(mx.nd.load(path))
        shared.save_parameters(path, deduplicate=True)
        yield "shared once", sorted(mx.nd.load(path))
        yield "load shared", lambda: shared.load_parameters(path)
        yield "save_params", lambda: (net.save_params(path), sorted(mx.nd.load(path)))[1]


PROFILE_COLUMNS = ("Total Count", "Time (ms)", "Min Time (ms)", "Max Time (ms)", "Avg Time (ms)")


@program
def profiles(mx: Any) -> Steps:
    """Tables and JSON of mx.profiler.dumps: sections, names, columns and counts."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "profile.json")
        mx.profiler.set_config(profile_all=True, aggregate_stats=True, filename=path, continuous_dump=True)
        mx.profiler.set_state("run")
        x = mx.nd.ones((3, 3))
        for _ in range(3):
            y = mx.nd.dot(x, x) + x
        y.wait_to_read()
        domain = mx.profiler.Domain("mine")
        for each in (domain.new_task("work"), domain.new_frame("frame"), mx.profiler.Event("event")):
            each.start()
            each.stop()
        counter = domain.new_counter("counted", 5)
        counter += 3
        domain.new_marker("here").mark("process")
        mx.nd.waitall()
        mx.profiler.set_state("stop")
        text = mx.profiler.dumps(reset=False)
        yield "type", type(text).__name__
        yield "columns", [column in text for column in PROFILE_COLUMNS]
        yield "names", [name in text for name in ("dot", "work", "counted", "frame", "event", "Profile Statistics")]
        yield (
            "sections",
            [section in text for section in ("operator", "mine", "MXNET_C_API", "Device Storage", "Pool:cpu")],
        )
        for options in ({"sort_by": "total"}, {"sort_by": "avg", "ascending": True}, {"sort_by": "min"}, {"sort_by": "max"},
                        {"sort_by": "count"}, {"sort_by": "nothing"}, {"format": "nothing"}):  # fmt: skip
            yield str(options), lambda options=options: type(mx.profiler.dumps(**options)).__name__
        found = json.loads(mx.profiler.dumps(format="json"))
        yield "json", sorted(found)
        yield "json parts", {name: sorted(found[name]) for name in sorted(found) if isinstance(found[name], dict)}
        operators = next((part for part in found.get("Time", {}).values() if "dot" in part), {})
        yield "json dot", sorted(operators.get("dot", {}))
        yield "json count", operators.get("dot", {}).get("Count")
        yield "reset", lambda: (mx.profiler.dumps(reset=True), "dot" in mx.profiler.dumps())[1]
        mx.profiler.dump()
        yield "file", os.path.exists(path)


CUSTOM = (
    "Custom Operator", "usage_twice::pure_python", "_backward_usage_twice::pure_python", "usage_twice::broadcast_add",
    "_backward_usage_twice::_mul_scalar",
)  # fmt: skip


@program
def profiles_of_custom_operators(mx: Any) -> Steps:
    """Custom operators in tables: their own name, and the operators inside."""

    class Twice(mx.operator.CustomOp):  # type: ignore[misc, name-defined]
        """Double the input."""

        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            self.assign(out_data[0], req[0], in_data[0] + in_data[0])

        def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
            self.assign(in_grad[0], req[0], 2 * out_grad[0])

    @mx.operator.register("usage_twice")
    class TwiceProp(mx.operator.CustomOpProp):  # type: ignore[misc, name-defined]
        """Describe the operator."""

        def __init__(self) -> None:
            super().__init__(need_top_grad=True)

        def create_operator(self, ctx: Any, shapes: Any, dtypes: Any) -> Any:
            return Twice()

    mx.profiler.set_config(profile_all=True, aggregate_stats=True, filename=os.devnull)
    mx.profiler.set_state("run")
    x = mx.nd.ones((2, 2))
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.Custom(x, op_type="usage_twice")
    y.backward()
    x.grad.wait_to_read()
    mx.nd.waitall()
    mx.profiler.set_state("stop")
    text = mx.profiler.dumps(reset=True)
    yield "names", [name in text for name in CUSTOM]
