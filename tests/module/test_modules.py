"""Modules: what is prepared, shared, monitored and refused."""

import collections

import numpy as np
import pytest

import phonograd as mx
from phonograd import nd, sym
from phonograd.core.base.errors import MXNetError

from . import programs


def bound(**options):
    module = mx.mod.Module(programs.perceptron(mx), **options)
    module.bind([("data", (8, 5))], [("softmax_label", (8,))])
    return module


def batch(count=8):
    return mx.io.DataBatch([nd.array(programs.numbers(1, count, 5))], [nd.array(np.arange(count) % 3)])


def test_parameters_are_copies():
    module = bound()
    module.init_params(mx.init.One())
    arguments, _ = module.get_params()
    arguments["fc1_weight"][:] = 5
    assert module.get_params()[0]["fc1_weight"].asnumpy().max() == 1
    module.set_params(arguments, {})
    assert module.get_params()[0]["fc1_weight"].asnumpy().min() == 5


def test_initializers_of_variables_count():
    net = sym.FullyConnected(sym.var("data"), sym.var("w", init=mx.init.Constant(3)), num_hidden=2, name="fc")
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (1, 2))])
    module.init_params(mx.init.Constant(1))
    assert module.get_params()[0]["w"].asnumpy().tolist() == [[3, 3], [3, 3]]


def test_several_contexts_divide_batches():
    outputs = []
    for context in (mx.cpu(), [mx.cpu(0), mx.cpu(1)]):
        module = bound(context=context)
        module.init_params(mx.init.One())
        module.forward(batch(), is_train=False)
        outputs.append(module.get_outputs()[0].asnumpy())
        parts = module.get_outputs(merge_multi_context=False)[0]
        assert [part.shape for part in parts] == [(8 // len(parts), 3)] * len(module._context)
    assert (outputs[0] == outputs[1]).all()


def test_lists_of_batches_are_one_batch():
    module = bound()
    module.init_params(mx.init.One())
    parts = [batch(4), batch(4)]
    module.forward(parts, is_train=False)
    metric = mx.metric.create("acc")
    module.update_metric(metric, [part.label for part in parts], pre_sliced=True)
    assert metric.get()[1] == 0.5
    assert module.get_outputs()[0].shape == (8, 3)


def test_batches_may_have_data_only():
    Batch = collections.namedtuple("Batch", ["data"])
    module = mx.mod.Module(programs.perceptron(mx).get_internals()["act_output"], label_names=None)
    module.bind([("data", (1, 5))], for_training=False)
    module.init_params(mx.init.One(), arg_params={"unknown": nd.ones((1,))}, allow_missing=True, allow_extra=True)
    module.forward(Batch([nd.ones((3, 5))]))
    assert module.get_outputs()[0].shape == (3, 6)


def test_parameters_can_be_shared():
    first = bound()
    first.init_params(mx.init.One())
    first.init_optimizer(optimizer_params={"learning_rate": 1.0})
    second = mx.mod.Module(programs.perceptron(mx))
    second.bind([("data", (2, 5))], [("softmax_label", (2,))], shared_module=first)
    assert second.params_initialized
    assert second.optimizer_initialized
    second.forward_backward(batch(2))
    second.update()
    changed = first.get_params()[0]["fc2_bias"].asnumpy()
    assert (changed != 1).all()


def test_binding_again_keeps_values():
    module = bound()
    module.init_params(mx.init.Constant(2))
    module.bind([("data", (3, 5))], [("softmax_label", (3,))], force_rebind=True)
    assert (module.get_params()[0]["fc1_weight"].asnumpy() == 2).all()
    assert module.output_shapes == [("softmax_output", (3, 3))]


def test_optimizer_made_by_the_user():
    module = bound()
    module.init_params(mx.init.One())
    with pytest.warns(UserWarning, match="rescale_grad is not normalized"):
        module.init_optimizer(optimizer=mx.optimizer.SGD(learning_rate=0.1))
    module.init_optimizer(optimizer=mx.optimizer.SGD(rescale_grad=1 / 8), force_init=True)
    module.init_optimizer(kvstore="dist_sync", force_init=True)
    assert module._kvstore.num_workers == 1


def test_monitor_sees_batches(caplog):
    module = mx.mod.Module(programs.perceptron(mx), logger=programs.Logger())
    monitor = mx.mon.Monitor(2, stat_func=lambda array: array.max(), pattern="(?!.*backward).*_output", sort=True)
    with caplog.at_level("INFO"):
        module.fit(programs.examples(mx), num_epoch=1, monitor=monitor)
    lines = [record.getMessage().split() for record in caplog.records if "Batch:" in record.getMessage()]
    # three batches, of which the first and the third are watched
    assert [line[1] for line in lines] == ["1"] * 4 + ["3"] * 4
    assert [line[2] for line in lines[:4]] == ["act_output", "fc1_output", "fc2_output", "softmax_output"]


def test_monitor_wants_arrays():
    executor = sym.relu(sym.var("x"), name="r").bind(mx.cpu(), [nd.ones((2,))])
    monitor = mx.mon.Monitor(1, stat_func=lambda array: 3)
    monitor.install(executor)
    monitor.tic()
    executor.forward()
    with pytest.raises(AssertionError, match="stat_func must return an NDArray"):
        monitor.toc()
    assert mx.monitor.Monitor(3).toc() == []


def test_buckets_must_have_the_parameters_of_the_default():
    def layers(key):
        return sym.FullyConnected(sym.var("data"), num_hidden=2, name=f"fc{key}"), ("data",), None

    module = mx.mod.BucketingModule(layers, default_bucket_key=3)
    module.bind([("data", (2, 3))])
    module.init_params()
    with pytest.raises(
        MXNetError, match="bucket 2 has the parameters fc2_bias, fc2_weight, which the default bucket 3"
    ):
        module.switch_bucket(2, [("data", (2, 2))])


def test_buckets_may_list_parameters_in_another_order():
    """What the optimiser remembers belongs to names, not to places."""

    def layers(key):
        data = sym.sum(sym.var("data"), axis=1)
        first = sym.sum(sym.FullyConnected(data, num_hidden=2, name="first"), axis=1)
        second = sym.sum(sym.FullyConnected(data, num_hidden=3, name="second"), axis=1)
        return sym.MakeLoss(first * second if key == 4 else second * first), ("data",), None

    module = mx.mod.BucketingModule(layers, default_bucket_key=4)
    module.bind([("data", (2, 4, 3))])
    module.init_params(mx.init.One())
    module.init_optimizer(optimizer_params={"momentum": 0.9, "learning_rate": 0.01})
    for key in (4, 2, 4, 2):
        shape = (2, key, 3)
        module.forward(mx.io.DataBatch([nd.ones(shape)], bucket_key=key, provide_data=[("data", shape)]), is_train=True)
        module.backward()
        module.update()
    arguments, _ = module.get_params()
    assert np.isfinite(arguments["first_weight"].asnumpy()).all()
    assert len(module._current._updater.states) == 4


def test_chains_need_distinct_names():
    chain = mx.mod.SequentialModule()
    for _ in range(2):
        net = sym.FullyConnected(sym.var("data"), num_hidden=4, name="same")
        chain.add(mx.mod.Module(net, label_names=None), auto_wiring=True)
    chain.bind([("data", (2, 4))])
    with pytest.raises(AssertionError, match="Duplicated parameter names: 'same_weight'"):
        chain.init_params()


def test_errors_tell_what_to_do():
    module = mx.mod.Module(programs.perceptron(mx))
    with pytest.raises(AssertionError, match="forward: call bind first"):
        module.forward(batch())
    with pytest.raises(AssertionError, match="set_params: call bind first"):
        module.set_params({}, {})
    with pytest.raises(ValueError, match=r"data_names=\['nope'\].*Did you mean one of:\n\tdata"):
        mx.mod.Module(programs.perceptron(mx), data_names=["nope"])
    with pytest.warns(UserWarning, match="label_names"):
        mx.mod.Module(sym.FullyConnected(sym.var("data"), num_hidden=2))
    module = bound()
    with pytest.raises(AssertionError, match="forward: call init_params first"):
        module.forward(batch())
    module.init_params()
    with pytest.raises(AssertionError, match="update: call init_optimizer first"):
        module.update()
    with pytest.raises(MXNetError, match=r"parameter fc1_bias has shape \(6,\)"):
        module.set_params({"fc1_bias": nd.ones((2,))}, {}, allow_missing=True)
    with pytest.raises(RuntimeError, match="fc1_bias is not presented"):
        module.set_params({}, {})


def test_preparing_again_is_ignored_and_the_caller_is_told():
    module = bound()
    module.init_params()
    with pytest.warns(UserWarning, match="init_params call ignored") as first:
        module.init_params()
    with pytest.warns(UserWarning, match="set_params call ignored") as second:
        module.set_params({}, {}, force_init=False)
    assert [warning.filename for caught in (first, second) for warning in caught] == [__file__, __file__]


def test_buckets_refuse_shared_parameters_even_if_they_are_bound():
    net = sym.FullyConnected(sym.var("data"), num_hidden=2, name="fc")
    buckets = mx.mod.BucketingModule(lambda key: (net, ("data",), None), default_bucket_key=1)
    buckets.bind([("data", (2, 3))])
    with pytest.raises(AssertionError, match="shared_module for BucketingModule is not supported"):
        buckets.bind([("data", (2, 3))], shared_module=bound())


def test_feed_forward_begins_at_the_beginning():
    data, labels = programs.numbers(1, 8, 5), np.array([0.0, 1.0] * 4)
    batches = mx.io.NDArrayIter(data, labels, 4)
    next(batches)
    seen = []
    with pytest.warns(DeprecationWarning, match="has been deprecated"):
        model = mx.model.FeedForward(programs.perceptron(mx), num_epoch=1)
    # callbacks find MXNet's names
    model.fit(batches, batch_end_callback=lambda parameters: seen.append(parameters.locals["data_batch"].data[0]))
    assert [batch.asnumpy().tolist() for batch in seen] == [data[:4].tolist(), data[4:].tolist()]
    found = []
    scored = model.score(batches, batch_end_callback=lambda parameters: found.append(set(parameters.locals)))
    assert scored >= 0
    assert all({"self", "epoch", "nbatch", "eval_batch", "eval_data", "eval_metric"} <= names for names in found)


def test_feed_forward_learns_arrays():
    data = programs.numbers(1, 60, 5)
    labels = (data[:, 0] > 0).astype("float32")
    with pytest.warns(DeprecationWarning, match="has been deprecated"):
        model = mx.model.FeedForward.create(
            programs.perceptron(mx), data, labels, num_epoch=30, learning_rate=1.0, numpy_batch_size=20,
            initializer=mx.init.Xavier(), eval_data=(data, labels),
        )  # fmt: skip
    outputs, seen, _ = model.predict(data, return_data=True)
    assert (seen == data).all()
    assert (outputs.argmax(axis=1) == labels).mean() > 0.9
    with pytest.raises(ValueError, match="y must be specified"):
        model.fit(data)
