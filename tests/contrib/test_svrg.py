"""SVRGModule reduces the variance of gradients. Parameters after two epochs are those of MXNet 1.9.1."""

import numpy as np
import pytest

import phonograd as mx
from phonograd.contrib.svrg_optimization import SVRGModule


@pytest.fixture
def batches():
    data = np.random.RandomState(0).rand(40, 3).astype("float32")
    return mx.io.NDArrayIter(data, data @ np.array([1, 2, 3], "float32"), 8, label_name="lin_reg_label")


@pytest.fixture
def network():
    output = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fc")
    return mx.sym.LinearRegressionOutput(output, mx.sym.var("lin_reg_label"), name="lro")


def fit(network, batches, epochs):
    module = SVRGModule(network, label_names=["lin_reg_label"], update_freq=2)
    module.fit(
        batches,
        eval_metric="mse",
        optimizer_params=(("learning_rate", 0.1),),
        initializer=mx.init.One(),
        num_epoch=epochs,
    )
    return module


def test_parameters_after_two_epochs(network, batches):
    arguments, _ = fit(network, batches, 2).get_params()
    np.testing.assert_allclose(arguments["fc_weight"].asnumpy(), [[1.3583, 1.4072, 1.5015]], atol=2e-4)
    np.testing.assert_allclose(arguments["fc_bias"].asnumpy(), [0.7259], atol=2e-4)


def test_the_mean_gradient_is_that_of_the_snapshot(network, batches):
    module = fit(network, batches, 1)
    module.update_full_grads(batches)
    data, label = (
        next(iter(source.values())) if isinstance(source, dict) else source[0][1]
        for source in (batches.data, batches.label)
    )
    arguments, _ = module.get_params()
    residual = (
        data.asnumpy() @ arguments["fc_weight"].asnumpy().T + arguments["fc_bias"].asnumpy() - label.asnumpy()[:, None]
    )
    np.testing.assert_allclose(
        module._param_dict[0]["fc_weight"].asnumpy(), residual.T @ data.asnumpy() / 5, rtol=1e-3, atol=1e-4
    )


def test_at_the_snapshot_every_batch_has_the_mean_gradient(network, batches):
    module = fit(network, batches, 1)
    module.update_full_grads(batches)
    module.forward_backward(next(batches))
    module._update_svrg_gradients()
    grad = module._exec_group.grad_arrays[0][0]
    np.testing.assert_allclose(grad.asnumpy(), module._param_dict[0]["fc_weight"].asnumpy(), rtol=1e-3, atol=1e-5)


def test_the_frequency_is_checked(network):
    with pytest.raises(TypeError, match="must be an integer"):
        SVRGModule(network, label_names=["lin_reg_label"])
    with pytest.raises(ValueError, match="positive integer"):
        SVRGModule(network, label_names=["lin_reg_label"], update_freq=0)
