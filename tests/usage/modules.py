"""Programs with modules: several contexts, private fields, monitors, buckets."""

from __future__ import annotations

from typing import Any

import numpy as np

from .program import Steps, numbers, program


def _network(mx: Any) -> Any:
    data = mx.sym.var("data")
    hidden = mx.sym.Activation(mx.sym.FullyConnected(data, num_hidden=4, name="fc1"), act_type="relu", name="relu1")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=3, name="fc2"), name="softmax")


def _values(mx: Any) -> dict[str, Any]:
    shapes = {"fc1_weight": (4, 5), "fc1_bias": (4,), "fc2_weight": (3, 4), "fc2_bias": (3,)}
    return {name: mx.nd.array(numbers(place, *shape)) for place, (name, shape) in enumerate(shapes.items())}


def _examples(mx: Any, count: int = 16, batch_size: int = 8) -> Any:
    labels = np.arange(count) % 3
    return mx.io.NDArrayIter(numbers(9, count, 5), labels.astype("float32"), batch_size=batch_size)


def _module(mx: Any, contexts: Any, **options: Any) -> Any:
    module = mx.mod.Module(_network(mx), context=contexts, **options)
    batches = _examples(mx)
    module.bind(batches.provide_data, batches.provide_label, inputs_need_grad=True)
    module.init_params(arg_params=_values(mx))
    module.init_optimizer(optimizer_params={"learning_rate": 0.5, "momentum": 0.9})
    return module


@program
def modules_on_several_contexts(mx: Any) -> Steps:
    """Outputs, gradients and parameters of modules on one, two and three contexts."""
    for count in (1, 2, 3):
        contexts = [mx.cpu(each) for each in range(count)]
        module = _module(mx, contexts)
        label = f"{count} "
        batch = next(_examples(mx))
        module.forward(batch, is_train=True)
        yield label + "outputs", module.get_outputs()
        yield label + "unmerged", module.get_outputs(merge_multi_context=False)
        module.backward()
        yield label + "input grads", module.get_input_grads()
        yield label + "unmerged grads", module.get_input_grads(merge_multi_context=False)
        module.update()
        yield label + "weight", module.get_params()[0]["fc1_weight"]
        metric = mx.metric.Accuracy()
        module.update_metric(metric, batch.label)
        yield label + "metric", metric.get()
        module.fit(_examples(mx), num_epoch=2, force_init=False, force_rebind=False)
        yield label + "fit", module.get_params()[0]["fc2_weight"]
        yield label + "predict", module.predict(_examples(mx, 20))
        yield label + "score", module.score(_examples(mx), "acc")
        yield label + "shapes", (module.data_shapes, module.label_shapes, module.output_shapes)
        group = module._exec_group
        yield label + "executors", len(group.execs)
        yield label + "group", (group.batch_size, [list(map(str, group.slices))], group.param_names, group.state_names)
        yield label + "group arrays", [[array.shape for array in each] for each in group.param_arrays]
        yield label + "group grads", [[array.shape for array in each] for each in group.grad_arrays]
        yield label + "group data", [[(str(part), array.shape) for part, array in each] for each in group.data_arrays]
        yield label + "group label", [[(str(part), array.shape) for part, array in each] for each in group.label_arrays]
        yield label + "exec outputs", [[array.shape for array in each.outputs] for each in group.execs]
        yield label + "contexts", [str(each) for each in module._context]
        module.reshape([("data", (12, 5))], [("softmax_label", (12,))])
        module.forward(mx.io.DataBatch([mx.nd.array(numbers(3, 12, 5))], [mx.nd.zeros((12,))]), is_train=False)
        yield label + "reshaped", [each.shape for each in module.get_outputs(merge_multi_context=False)[0]]
        yield label + "smaller batch", lambda module=module: _forward(mx, module, 6)
    yield "too few", lambda: _module(mx, [mx.cpu(each) for each in range(9)])
    yield "work load", lambda: _module(mx, [mx.cpu(0), mx.cpu(1)], work_load_list=[1, 3])._exec_group.slices
    yield "work load wrong", lambda: _module(mx, [mx.cpu(0), mx.cpu(1)], work_load_list=[1])


def _forward(mx: Any, module: Any, count: int) -> Any:
    module.forward(mx.io.DataBatch([mx.nd.array(numbers(3, count, 5))], None), is_train=False)
    return module.get_outputs()[0]


FIELDS = (
    "_symbol", "_data_names", "_label_names", "_state_names", "_output_names", "_param_names", "_aux_names",
    "_fixed_param_names", "_arg_params", "_aux_params", "_params_dirty", "_optimizer", "_kvstore", "_update_on_kvstore",
    "_updater", "_preload_opt_states", "_grad_req", "_exec_group", "_data_shapes", "_label_shapes", "_context",
    "_work_load_list", "_group2ctxs", "_compression_params", "_total_exec_bytes", "binded", "for_training",
    "inputs_need_grad", "params_initialized", "optimizer_initialized", "logger",
)  # fmt: skip


@program
def private_fields_of_modules(mx: Any) -> Steps:
    """Fields that tutorials and old scripts read."""
    module = mx.mod.Module(_network(mx))
    for name in FIELDS:
        yield "new " + name, lambda name=name: _kind(getattr(module, name))
    trained = _module(mx, mx.cpu())
    for name in FIELDS:
        yield "trained " + name, lambda name=name: _kind(getattr(trained, name))
    batch = next(_examples(mx))
    trained.forward_backward(batch)
    trained.update()
    executor = trained._exec_group.execs[0]
    yield "executor", sorted(executor.arg_dict)
    yield "grad", executor.grad_dict["fc1_weight"]
    yield "arg params", sorted(trained._arg_params)
    trained._exec_group.grad_arrays[0][0][:] = 0
    yield "written", executor.grad_dict["fc1_weight"]
    trained._exec_group.param_arrays[0][0][:] = 1
    yield "written parameter", trained.get_params()[0]["fc1_weight"]
    yield "get_params of group", lambda: _group_params(mx, trained)
    yield "set_params", lambda: trained.set_params({"fc1_weight": mx.nd.zeros((4, 5))}, {}, allow_missing=True)
    yield "set", lambda: trained.get_params()[0]["fc1_weight"]
    yield "set_params missing", lambda: trained.set_params({"fc1_weight": mx.nd.zeros((4, 5))}, {})
    yield "set_params extra", lambda: trained.set_params({"other": mx.nd.zeros((4,))}, {}, allow_missing=True)
    yield (
        "set_params extra allowed",
        lambda: trained.set_params({"other": mx.nd.zeros((4,))}, {}, allow_missing=True, allow_extra=True),
    )
    yield "states", lambda: trained.get_states()
    yield "install twice", lambda: trained.bind([("data", (8, 5))])


def _kind(value: Any) -> Any:
    if isinstance(value, (str, bool, int, type(None), list, tuple)):
        return repr(value)
    if isinstance(value, dict):
        return sorted(value)
    return type(value).__name__


def _group_params(mx: Any, module: Any) -> Any:
    arguments: dict[str, Any] = {name: mx.nd.zeros(array.shape) for name, array in module._arg_params.items()}
    module._exec_group.get_params(arguments, {})
    return arguments["fc1_bias"]


@program
def monitors(mx: Any) -> Steps:
    """Entries of monitors: names, order and values."""
    for pattern in (".*", ".*weight", ".*output", "fc1.*"):
        for everything in (False, True):
            module = _module(mx, mx.cpu())
            seen = mx.mon.Monitor(1, stat_func=lambda array: array.abs().sum(), pattern=pattern, sort=True,
                                  monitor_all=everything)  # fmt: skip
            module.install_monitor(seen)
            seen.tic()
            batch = next(_examples(mx))
            module.forward(batch, is_train=True)
            module.backward()
            entries = seen.toc()
            label = f"{pattern} {everything}"
            yield label + " names", [(step, name) for step, name, _ in entries]
            yield label + " kinds", sorted({type(text).__name__ for _, _, text in entries})
            yield label + " values", [round(float(text.strip().strip("[]")), 2) for _, _, text in entries]
    module = _module(mx, mx.cpu())
    every = mx.mon.Monitor(2)
    module.install_monitor(every)
    counts = []
    for batch in list(_examples(mx, 32)):
        every.tic()
        module.forward(batch, is_train=True)
        counts.append(len(every.toc()) > 0)
    yield "interval", counts
    yield "activated", (every.step, every.activated, len(every.queue), every.interval)


@program
def bucketing(mx: Any) -> Steps:
    """Buckets that share parameters, on one and two contexts."""

    def generate(length: int) -> Any:
        data = mx.sym.var("data")
        net = mx.sym.FullyConnected(mx.sym.mean(mx.sym.Embedding(data, input_dim=9, output_dim=4, name="embed"), axis=1),
                                    num_hidden=2, name="fc")  # fmt: skip
        return mx.sym.SoftmaxOutput(net, name="softmax"), ("data",), ("softmax_label",)

    for contexts in ([mx.cpu(0)], [mx.cpu(0), mx.cpu(1)]):
        label = f"{len(contexts)} "
        module = mx.mod.BucketingModule(generate, default_bucket_key=6, context=contexts)
        module.bind([("data", (4, 6))], [("softmax_label", (4,))])
        module.init_params(
            arg_params={
                "embed_weight": mx.nd.array(numbers(1, 9, 4)), "fc_weight": mx.nd.array(numbers(2, 2, 4)),
                "fc_bias": mx.nd.zeros((2,)),
            }
        )  # fmt: skip
        module.init_optimizer(optimizer_params={"learning_rate": 0.5})
        for step, length in enumerate((6, 3, 6, 2)):
            batch = mx.io.DataBatch(
                [mx.nd.array(np.arange(4 * length).reshape(4, length) % 9)],
                [mx.nd.array([0, 1, 1, 0])],
                bucket_key=length,
                provide_data=[("data", (4, length))],
                provide_label=[("softmax_label", (4,))],
            )
            module.forward_backward(batch)
            module.update()
            yield f"{label}{step}", module.get_outputs()
            yield f"{label}{step} key", (module._curr_bucket_key, module.data_shapes, module.output_names)
        yield label + "weight", module.get_params()[0]["fc_weight"]
        yield label + "buckets", sorted(module._buckets)
        shared = [bucket._exec_group.execs[0].arg_dict["fc_weight"] for bucket in module._buckets.values()]
        yield label + "shared", [bool((each == shared[0]).asnumpy().all()) for each in shared]
        yield label + "names", sorted(module._buckets[3]._exec_group.execs[0].arg_dict)
        yield label + "symbol", module.symbol.list_arguments()
        yield label + "fields", (module._default_bucket_key, type(module._curr_module).__name__, module.binded)
        yield (
            label + "switch",
            lambda module=module: (module.switch_bucket(3, [("data", (4, 3))]), module.symbol.name)[1],
        )


@program
def other_modules(mx: Any) -> Steps:
    """Chains of modules, states between batches, and checkpoints."""
    first = mx.mod.Module(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc1"), label_names=None)
    second = mx.mod.Module(
        mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc2"), name="softmax")
    )
    chain = mx.mod.SequentialModule()
    chain.add(first).add(second, take_labels=True, auto_wiring=True)
    chain.bind([("data", (8, 5))], [("softmax_label", (8,))])
    chain.init_params(arg_params=_values(mx))
    chain.init_optimizer(optimizer_params={"learning_rate": 0.5})
    batch = next(_examples(mx))
    chain.forward_backward(batch)
    chain.update()
    yield "chain", chain.get_params()[0]["fc1_weight"]
    yield "chain outputs", chain.get_outputs()
    yield "chain names", (chain.data_names, chain.output_names, chain.data_shapes, chain.label_shapes)
    state = mx.sym.var("state")
    total = mx.sym.var("data") + state
    kept = mx.mod.Module(total, label_names=None, state_names=["state"], context=[mx.cpu(0), mx.cpu(1)])
    kept.bind([("data", (4, 2))], for_training=False)
    yield "state shape", lambda: [each.shape for each in kept.get_states(merge_multi_context=True)]
    kept.init_params()
    kept.set_states(value=2)
    kept.forward(mx.io.DataBatch([mx.nd.ones((4, 2))], None), is_train=False)
    yield "state", kept.get_outputs()
    kept.set_states(states=kept.get_outputs(merge_multi_context=False))
    yield "states", kept.get_states(merge_multi_context=False)
    yield "merged states", kept.get_states()
