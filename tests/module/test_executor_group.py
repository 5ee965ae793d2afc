"""Executor groups divide a batch between devices. Values are those of MXNet 1.9.1."""

import numpy as np
import pytest

import phonograd as mx
from phonograd.executor_manager import DataParallelExecutorManager, _check_arguments, _split_input_slice
from phonograd.module.executor_group import DataParallelExecutorGroup

PARAMETERS = ["fc_weight", "fc_bias"]
VALUES = {"fc_weight": mx.nd.array(np.arange(12).reshape(3, 4) / 10), "fc_bias": mx.nd.array([1.0, 2.0, 3.0])}


@pytest.fixture
def network():
    data = mx.sym.var("data")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(data, num_hidden=3, name="fc"), name="softmax")


@pytest.fixture
def batches():
    return mx.io.NDArrayIter(np.arange(24).reshape(6, 4) / 24, np.arange(6) % 3, 6)


def make_group(network, batches, contexts, workload):
    group = DataParallelExecutorGroup(
        network, contexts, workload, batches.provide_data, batches.provide_label, PARAMETERS, True, True
    )
    group.set_params(VALUES, {})
    return group


@pytest.mark.parametrize(
    ("size", "loads", "slices"),
    [(10, [1, 1, 2], [(0, 2), (2, 4), (4, 10)]), (7, [1, 1], [(0, 4), (4, 7)]), (3, [1], [(0, 3)])],
)
def test_batches_are_divided_by_work_load(size, loads, slices):
    assert [(part.start, part.stop) for part in _split_input_slice(size, loads)] == slices


def test_too_many_devices():
    with pytest.raises(ValueError, match="Too many slices"):
        _split_input_slice(2, [1, 1, 1, 1])


def test_names_of_arguments_differ(network):
    _check_arguments(network)


def test_a_group_computes_as_one_executor_does(network, batches):
    batch = next(batches)
    single = make_group(network, batches, [mx.cpu(0)], None)
    group = make_group(network, batches, [mx.cpu(0), mx.cpu(1)], [1, 2])
    for each in (single, group):
        each.forward(batch)
        each.backward()
    assert [(part.start, part.stop) for part in group.slices] == [(0, 2), (2, 6)]
    assert [output.shape for output in group.get_outputs(merge_multi_context=False)[0]] == [(2, 3), (4, 3)]
    for ours, whole in (
        (group.get_outputs(), single.get_outputs()),
        (group.get_input_grads(), single.get_input_grads()),
    ):
        np.testing.assert_allclose(ours[0].asnumpy(), whole[0].asnumpy(), rtol=1e-5)
    for parts, (whole,) in zip(group.grad_arrays, single.grad_arrays, strict=True):
        np.testing.assert_allclose(sum(part.asnumpy() for part in parts), whole.asnumpy(), rtol=1e-4, atol=1e-6)
    metric = mx.metric.Accuracy()
    group.update_metric(metric, batch.label, False)
    assert metric.get() == ("accuracy", pytest.approx(1 / 3))
    assert group.get_output_shapes() == [("softmax_output", (6, 3))]
    means = {name: mx.nd.zeros(value.shape) for name, value in VALUES.items()}
    group.get_params(means, {})
    np.testing.assert_allclose(means["fc_weight"].asnumpy(), VALUES["fc_weight"].asnumpy(), rtol=1e-6)


def test_a_reshaped_group_keeps_its_parameters(network, batches):
    group = make_group(network, batches, [mx.cpu()], None)
    weight = group.param_arrays[0][0]
    group.reshape([("data", (4, 4))], [("softmax_label", (4,))])
    assert group.batch_size == 4
    assert group.param_arrays[0][0] is weight


def test_the_manager_trains_on_two_devices(network, batches):
    manager = DataParallelExecutorManager(
        network, [mx.cpu(0), mx.cpu(1)], batches, network.list_arguments(), PARAMETERS, []
    )
    manager.set_params(VALUES, {})
    batch = next(batches)
    manager.load_data_batch(batch)
    manager.forward(is_train=True)
    manager.backward()
    found = [grad.asnumpy().round(4).tolist() for grad in manager.grad_arrays[1]]
    np.testing.assert_allclose(found, [[-0.8431, -0.4180, 1.2610], [-0.9622, -0.6907, 1.6529]], atol=2e-4)
    metric = mx.metric.Accuracy()
    manager.update_metric(metric, batch.label)
    assert metric.num_inst == 6


def test_a_module_shows_its_executor_as_a_group(network, batches):
    module = mx.mod.Module(network)
    assert module._exec_group is None
    module.bind(batches.provide_data, batches.provide_label)
    module.init_params(mx.init.One())
    module.forward_backward(next(batches))
    group = module._exec_group
    assert (group.batch_size, group.data_names, group.label_names) == (6, ["data"], ["softmax_label"])
    assert group.execs[0].outputs[0].shape == (6, 3)
    assert len(group.param_arrays) == len(group.grad_arrays) == 2
    np.testing.assert_allclose(group.grad_arrays[0][0].asnumpy()[1], np.zeros(4), atol=1e-6)
