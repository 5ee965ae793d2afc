"""Programs with modules, run on MXNet and here: each returns arrays and texts by name."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Found = dict[str, Any]

#: errors that both raise, with a remark of ours behind what MXNet says
PROGRAMS: dict[str, Callable[[Any], Found]] = {}


def program(function: Callable[[Any], Found]) -> Callable[[Any], Found]:
    """Declare a program."""
    PROGRAMS[function.__name__] = function
    return function


class Logger:
    """Keeps what is logged, without times."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, text: str, *values: Any) -> None:
        if "Time cost" not in text:
            self.lines.append(text % values)

    warning = info


def numbers(seed: int, *shape: int) -> np.ndarray:
    """Return the same numbers always."""
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def parameters(mx: Any, symbol: Any, **shapes: tuple[int, ...]) -> dict[str, Any]:
    """Return values for all parameters of a symbol."""
    arguments, _, _ = symbol.infer_shape(**shapes)
    names = symbol.list_arguments()
    return {
        name: mx.nd.array(numbers(place, *shape))
        for place, (name, shape) in enumerate(zip(names, arguments))
        if name not in shapes and not name.endswith("label")
    }


def perceptron(mx: Any, **options: Any) -> Any:
    data = mx.sym.var("data")
    hidden = mx.sym.FullyConnected(data, num_hidden=6, name="fc1")
    hidden = mx.sym.Activation(hidden, act_type="tanh", name="act")
    out = mx.sym.FullyConnected(hidden, num_hidden=3, name="fc2", **options)
    return mx.sym.SoftmaxOutput(out, name="softmax")


def examples(mx: Any, count: int = 20, batch_size: int = 8, seed: int = 100) -> Any:
    data = numbers(seed, count, 5)
    labels = (np.abs(data[:, 0] * 10).astype(int) % 3).astype("float32")
    return mx.io.NDArrayIter(data, labels, batch_size=batch_size)


def values(module: Any) -> Found:
    arguments, states = module.get_params()
    return {name: array.asnumpy() for name, array in sorted({**arguments, **states}.items())}


@program
def fitting(mx: Any) -> Found:
    """Momentum, a metric, validation, callbacks, prediction."""
    logger = Logger()
    symbol = perceptron(mx)
    module = mx.mod.Module(symbol, logger=logger)
    seen: list[Any] = []
    module.fit(
        examples(mx),
        eval_data=examples(mx, 10, seed=101),
        eval_metric=["acc", "ce"],
        optimizer="sgd",
        optimizer_params={"learning_rate": 0.5, "momentum": 0.9, "wd": 0.01},
        arg_params=parameters(mx, symbol, data=(8, 5)),
        num_epoch=3,
        batch_end_callback=lambda p: seen.append((p.epoch, p.nbatch, [n for n, _ in p.eval_metric.get_name_value()])),
        epoch_end_callback=[lambda epoch, s, a, x: seen.append((epoch, s.name, sorted(a), sorted(x)))],
        eval_end_callback=lambda p: seen.append(("scored", p.epoch, p.nbatch)),
        eval_batch_end_callback=lambda p: seen.append(("batch", p.epoch, p.nbatch)),
    )
    data = examples(mx, 10, seed=101)
    outputs = module.predict(data)
    parts = module.predict(data, merge_batches=False)
    first = module.predict(data, num_batch=1, always_output_list=True)
    return {
        **values(module),
        "log": logger.lines,
        "seen": repr(seen),
        "outputs": outputs.asnumpy(),
        "whole": module.predict(mx.nd.array(numbers(9, 8, 5))).asnumpy(),
        "parts": repr([[output.shape for output in part] for part in parts]),
        "first": first[0].asnumpy(),
        "scores": np.array([value for _, value in module.score(data, ["acc", "mse"][0:1])]),
        "iterated": repr([(n, [o.shape for o in outs], b.pad) for outs, n, b in module.iter_predict(data)]),
        "shapes": repr([[tuple(s) for s in part] for part in (module.data_shapes, module.label_shapes,
                                                             module.output_shapes)]),
        "names": repr([list(module.data_names), list(module.label_names), list(module.output_names)]),
    }  # fmt: skip


@program
def normalized(mx: Any) -> Found:
    """A convolutional network with moving statistics, Adam, and factors of the learning rate."""
    data = mx.sym.var("data")
    weight = mx.sym.var("conv_weight", lr_mult=0.5, wd_mult=2.0)
    # the gradient of a bias before BatchNorm is nothing but rounding, which Adam would make large
    net = mx.sym.Convolution(data, weight, kernel=(3, 3), num_filter=4, no_bias=True, name="conv")
    net = mx.sym.BatchNorm(net, fix_gamma=False, momentum=0.8, name="bn")
    net = mx.sym.Pooling(mx.sym.Activation(net, act_type="relu"), global_pool=True, kernel=(1, 1), pool_type="avg")
    symbol = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Flatten(net), num_hidden=3, name="fc"), name="softmax")
    module = mx.mod.Module(symbol)
    batches = mx.io.NDArrayIter(numbers(1, 8, 2, 6, 6), np.arange(8) % 3, batch_size=4)
    module.bind(batches.provide_data, batches.provide_label)
    states = {"bn_moving_mean": mx.nd.zeros((4,)), "bn_moving_var": mx.nd.ones((4,))}
    module.init_params(arg_params=parameters(mx, symbol, data=(4, 2, 6, 6)), aux_params=states)
    module.init_optimizer(optimizer="adam", optimizer_params=(("learning_rate", 0.01), ("wd", 0.1)))
    for batch in batches:
        module.forward_backward(batch)
        module.update()
        # MXNet's backward pass moves the statistics without telling whoever reads them
        mx.nd.waitall()
    module.forward(batch, is_train=False)
    return {**values(module), "outputs": module.get_outputs()[0].asnumpy()}


@program
def inputs(mx: Any) -> Found:
    """Gradients of inputs, fixed parameters, gradients that add up, and gradients of outputs."""
    symbol = mx.sym.FullyConnected(mx.sym.var("data") * mx.sym.var("more"), num_hidden=2, name="fc")
    module = mx.mod.Module(symbol, data_names=["data", "more"], label_names=None, fixed_param_names=["fc_bias"])
    module.bind([("data", (3, 4)), ("more", (3, 4))], inputs_need_grad=True, grad_req="add")
    module.init_params(arg_params=parameters(mx, symbol, data=(3, 4), more=(3, 4)))
    module.init_optimizer(optimizer_params={"learning_rate": 1.0})
    batch = mx.io.DataBatch([mx.nd.array(numbers(1, 3, 4)), mx.nd.array(numbers(2, 3, 4))], [])
    for _ in range(2):
        module.forward(batch, is_train=True)
        module.backward([mx.nd.array(numbers(3, 3, 2))])
    module.update()
    return {
        **values(module),
        **{f"gradient {place}": grad.asnumpy() for place, grad in enumerate(module.get_input_grads())},
        "apart": repr([[part.shape for part in grad] for grad in module.get_input_grads(merge_multi_context=False)]),
    }


@program
def other_shapes(mx: Any) -> Found:
    """Batches of other sizes, and reshape."""
    symbol = perceptron(mx)
    module = mx.mod.Module(symbol)
    module.bind([("data", (8, 5))], [("softmax_label", (8,))])
    module.init_params(arg_params=parameters(mx, symbol, data=(8, 5)))
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    for size in (8, 3, 8, 5):
        batch = mx.io.DataBatch([mx.nd.array(numbers(size, size, 5))], [mx.nd.array(np.arange(size) % 3)])
        module.forward(batch, is_train=True)
        module.backward()
        module.update()
    module.reshape([("data", (2, 5))], [("softmax_label", (2,))])
    module.forward(mx.io.DataBatch([mx.nd.array(numbers(7, 2, 5))], None), is_train=False)
    return {
        **values(module),
        "outputs": module.get_outputs()[0].asnumpy(),
        "shapes": repr([[tuple(each) for each in part] for part in (module.data_shapes, module.output_shapes)]),
    }


@program
def checkpoints(mx: Any) -> Found:
    """Files of symbol, parameters and the optimiser's states; training goes on as if nothing had happened."""
    symbol = perceptron(mx)
    options = {"learning_rate": 0.5, "momentum": 0.9}
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "net")
        module = mx.mod.Module(symbol, logger=Logger())
        begin = parameters(mx, symbol, data=(8, 5))
        callback = mx.callback.module_checkpoint(module, prefix, save_optimizer_states=True)
        module.fit(examples(mx), num_epoch=2, arg_params=begin, optimizer_params=options, epoch_end_callback=callback)
        files = sorted(os.listdir(folder))
        again = mx.mod.Module.load(prefix, 2, load_optimizer_states=True)
        again.logger = Logger()
        again.fit(examples(mx), num_epoch=1, optimizer_params=options)
        module.save_params(prefix + ".params")
        third = mx.mod.Module(symbol)
        third.bind([("data", (8, 5))], [("softmax_label", (8,))], for_training=False)
        third.load_params(prefix + ".params")
        loaded, arguments, states = mx.model.load_checkpoint(prefix, 1)
    return {
        **values(again),
        **{f"third {name}": value for name, value in values(third).items()},
        **{f"first {name}": value.asnumpy() for name, value in arguments.items()},
        "files": repr(files),
        "symbol": repr([loaded.list_arguments(), sorted(states)]),
    }


def _sentences(mx: Any, key: int) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    data = mx.sym.Embedding(mx.sym.var("data"), input_dim=7, output_dim=4, name="embed")
    summed = mx.sym.sum(mx.sym.broadcast_mul(data, mx.sym.var("scale", shape=(1, 1, 4))), axis=1)
    out = mx.sym.FullyConnected(summed, num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(out, name="softmax"), ("data",), ("softmax_label",)


def _batch(mx: Any, key: int) -> Any:
    words = np.random.RandomState(key).randint(0, 7, (4, key)).astype("float32")
    return mx.io.DataBatch(
        [mx.nd.array(words)],
        [mx.nd.array(np.arange(4) % 3)],
        bucket_key=key,
        provide_data=[mx.io.DataDesc("data", (4, key))],
        provide_label=[mx.io.DataDesc("softmax_label", (4,))],
    )


@program
def buckets(mx: Any) -> Found:
    """Batches of different lengths share parameters and the optimiser."""
    module = mx.mod.BucketingModule(lambda key: _sentences(mx, key), default_bucket_key=6)
    module.bind([mx.io.DataDesc("data", (4, 6))], [mx.io.DataDesc("softmax_label", (4,))])
    symbol = _sentences(mx, 6)[0]
    module.init_params(arg_params=parameters(mx, symbol, data=(4, 6)))
    module.init_optimizer(optimizer_params={"learning_rate": 0.3, "momentum": 0.9})
    metric = mx.metric.create("acc")
    for key in (6, 3, 5, 3, 6):
        batch = _batch(mx, key)
        module.prepare(batch)
        module.forward(batch, is_train=True)
        module.backward()
        module.update()
        module.update_metric(metric, batch.label)
    found = {**values(module), "accuracy": np.array(metric.get()[1]), "shapes": repr(module.output_shapes)}
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "net")
        module.save_checkpoint(prefix, 1)
        files = sorted(os.listdir(folder))
        again = mx.mod.BucketingModule.load(prefix, 1, lambda key: _sentences(mx, key), 6)
        again.bind([mx.io.DataDesc("data", (4, 6))], [mx.io.DataDesc("softmax_label", (4,))])
        again.forward(_batch(mx, 5), is_train=False)
    return {**found, "files": repr(files), "again": again.get_outputs()[0].asnumpy()}


@program
def chain(mx: Any) -> Found:
    """Modules one behind the other, the last one a loss in Python."""
    first = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=6, name="fc1")
    second = mx.sym.FullyConnected(mx.sym.Activation(mx.sym.var("x"), act_type="tanh"), num_hidden=3, name="fc2")
    modules = mx.mod.SequentialModule()
    modules.add(mx.mod.Module(first, label_names=[]))
    modules.add(mx.mod.Module(second, data_names=["x"], label_names=[]), auto_wiring=True)
    loss = mx.mod.PythonLossModule(grad_func=lambda scores, labels: scores.softmax() - labels.one_hot(3))
    modules.add(loss, take_labels=True, auto_wiring=True)
    batches = examples(mx, 16)
    modules.bind(batches.provide_data, batches.provide_label)
    given = {**parameters(mx, first, data=(8, 5)), **parameters(mx, second, x=(8, 6))}
    modules.init_params(arg_params=given, allow_extra=True)
    modules.init_optimizer(optimizer_params={"learning_rate": 0.5})
    metric = mx.metric.create("acc")
    for batch in batches:
        modules.forward(batch, is_train=True)
        modules.backward()
        modules.update()
        modules.update_metric(metric, batch.label)
    return {
        **values(modules),
        "accuracy": np.array(metric.get()[1]),
        "shapes": repr([[tuple(each) for each in part] for part in (modules.data_shapes, modules.output_shapes)]),
        "names": repr([list(modules.data_names), list(modules.output_names)]),
        "outputs": modules.get_outputs()[0].asnumpy(),
    }


@program
def states(mx: Any) -> Found:
    """Inputs that are carried from batch to batch."""
    new = mx.sym.Activation(mx.sym.var("data") + mx.sym.var("state"), act_type="tanh")
    symbol = mx.sym.Group([mx.sym.FullyConnected(new, num_hidden=2, name="fc"), mx.sym.BlockGrad(new, name="next")])
    module = mx.mod.Module(symbol, label_names=[], state_names=["state"])
    module.bind([("data", (2, 3))], for_training=False)
    module.init_params(arg_params=parameters(mx, symbol, data=(2, 3), state=(2, 3)))
    module.set_states(value=0.5)
    outputs = []
    for step in range(3):
        module.forward(mx.io.DataBatch([mx.nd.array(numbers(step, 2, 3))], []), is_train=False)
        outputs.append(module.get_outputs()[0].asnumpy())
        module.set_states(states=module.get_outputs(merge_multi_context=False)[1:])
    return {"outputs": np.stack(outputs), "states": module.get_states(merge_multi_context=False)[0][0].asnumpy()}


@program
def old_fitting(mx: Any) -> Found:
    """FeedForward, which was there before modules."""
    symbol = perceptron(mx)
    data = numbers(100, 24, 5)
    labels = (np.abs(data[:, 0] * 10).astype(int) % 3).astype("float32")
    given = parameters(mx, symbol, data=(8, 5))
    model = mx.model.FeedForward(symbol, num_epoch=2, learning_rate=0.5, momentum=0.9, arg_params=given,
                                 numpy_batch_size=8)  # fmt: skip
    model.fit(mx.io.NDArrayIter(data, labels, batch_size=8), eval_data=mx.io.NDArrayIter(data, labels, batch_size=8))
    with tempfile.TemporaryDirectory() as folder:
        model.save(os.path.join(folder, "net"), 2)
        files = sorted(os.listdir(folder))
        again = mx.model.FeedForward.load(os.path.join(folder, "net"), 2)
        outputs = again.predict(mx.io.NDArrayIter(data, batch_size=8))
    return {
        **{name: array.asnumpy() for name, array in sorted(model.arg_params.items())},
        "files": repr(files),
        "outputs": outputs,
        "whole": model.predict(data),
        "score": np.array(model.score(mx.io.NDArrayIter(data, labels, batch_size=8))),
    }


def _mistakes(mx: Any) -> list[Callable[[], Any]]:
    symbol = perceptron(mx)
    module = mx.mod.Module(symbol)
    bound = mx.mod.Module(symbol)
    bound.bind([("data", (8, 5))], [("softmax_label", (8,))], for_training=False)
    ready = mx.mod.Module(symbol)
    ready.bind([("data", (8, 5))], [("softmax_label", (8,))])
    ready.init_params()
    batch = mx.io.DataBatch([mx.nd.ones((8, 5))], [mx.nd.ones((8,))])
    return [
        lambda: mx.mod.Module(symbol, data_names=["nope"]),
        lambda: mx.mod.Module(symbol, fixed_param_names=["nope"]),
        lambda: module.get_params(),
        lambda: module.init_params(),
        lambda: module.forward(batch),
        lambda: module.bind([("nope", (8, 5))]),
        lambda: module.bind([("data", (8, 5))], for_training=False, inputs_need_grad=True),
        lambda: bound.forward(batch),
        lambda: bound.init_params(arg_params={}, allow_missing=False),
        lambda: ready.update(),
        lambda: ready.init_optimizer(optimizer="nope"),
        lambda: ready.get_input_grads(),
        lambda: ready.set_params({"nope": mx.nd.ones((1,))}, {}, allow_missing=True),
        lambda: ready.set_params({"fc1_weight": mx.nd.ones((1,))}, {}, allow_missing=True),
        lambda: ready.set_params({}, {}),
        lambda: ready.fit(examples(mx)),
        lambda: ready.save_optimizer_states("nope"),
        lambda: mx.mod.BucketingModule(lambda key: None),
        lambda: mx.mod.SequentialModule().add(ready, nope=True),
    ]


@program
def mistakes(mx: Any) -> Found:
    """What kind of error each mistake is."""
    kinds = []
    for mistake in _mistakes(mx):
        try:
            mistake()
            kinds.append("nothing")
        except Exception as error:
            kinds.append(type(error).__name__)
    return {"kinds": kinds}


def run(mx: Any, name: str) -> Found:
    """Return what a program finds, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PROGRAMS[name](mx)
