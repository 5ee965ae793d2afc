"""Normalization: values of MXNet 1.9.1, moving statistics, large means, errors."""

from __future__ import annotations

import numpy as np
import pytest

import phonograd as mx
from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import statistics
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import variable
from phonograd.core.run.reference import evaluate

from .calls import call, gradients
from .checks import leaves_for
from .samples_normalization import array, batch_inputs, positive

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def vectors(*values: float, dtype: str = "float32", channels: int = 3) -> list[np.ndarray]:
    return [np.full(channels, value, dtype) for value in values]


# -- BatchNorm


def test_training_uses_the_batch():
    out, mean, inverse = call("BatchNorm", ROWS, *vectors(2, 1, 0, 1), training=True, fix_gamma=False)
    np.testing.assert_allclose(out, [[-0.9995557] * 3, [2.9995556] * 3], rtol=1e-6)
    np.testing.assert_allclose(mean, [1.5, 2.5, 3.5])
    np.testing.assert_allclose(inverse, [0.66651857] * 3, rtol=1e-6)


@pytest.mark.parametrize("parameters", [{}, {"training": True, "use_global_stats": True}])
def test_otherwise_the_moving_statistics(parameters):
    out, mean, inverse = call("BatchNorm", ROWS, *vectors(2, 1, 0, 1), fix_gamma=False, **parameters)
    np.testing.assert_allclose(out[0], [1, 2.9990008, 4.9980016], rtol=1e-6)
    np.testing.assert_allclose(mean, [0, 0, 0])
    np.testing.assert_allclose(inverse, [0.9995004] * 3, rtol=1e-6)


def test_fixed_gamma_counts_as_one_and_has_no_gradient():
    inputs = [ROWS, *vectors(7, 1, 0, 1)]
    out = call("BatchNorm", *inputs)[0]
    np.testing.assert_array_equal(out, call("BatchNorm", ROWS, *vectors(1, 1, 0, 1), fix_gamma=False)[0])
    gamma_grad, mean_grad = gradients("BatchNorm", inputs, wrt=(1, 3), training=True)
    np.testing.assert_array_equal(gamma_grad, np.zeros(3))
    np.testing.assert_array_equal(mean_grad, np.zeros(3))


def test_gradient_of_the_moving_statistics_formula():
    inputs = [ROWS, *vectors(2, 1, 0.5, 3)]
    grad = gradients("BatchNorm", inputs, fix_gamma=False)
    np.testing.assert_allclose(grad, np.full((2, 3), 2 / np.sqrt(3.001)), rtol=1e-6)


def test_large_mean_does_not_spoil_the_variance():
    data = (np.arange(8, dtype=np.float32).reshape(8, 1) + 1e6).astype(np.float32)
    out = call("BatchNorm", data, *vectors(1, 0, 0, 1, channels=1), training=True, fix_gamma=False)[0]
    exact = (np.arange(8) - 3.5) / np.sqrt(5.25 + 1e-3)
    np.testing.assert_allclose(out[:, 0], exact, rtol=1e-5)


def test_half_precision_data_takes_single_precision_parameters():
    out, mean, _ = call("BatchNorm", ROWS.astype(np.float16), *vectors(1, 0, 0, 1), training=True)
    assert (out.dtype, mean.dtype) == (np.float16, np.float32)
    with pytest.raises(MXNetError, match=r"requires uniform type. Expected 'float32' v.s. given 'float16' at 'gamma'"):
        call("BatchNorm", ROWS.astype(np.float16), *vectors(1, 0, 0, 1, dtype="float16"))


def test_visible_statistics_have_no_gradient():
    nodes, bindings = leaves_for(batch_inputs(3, 2))
    data = variable(nodes[0], 0)
    for output_mean_var, moves in ((True, False), (False, True)):
        outputs = REGISTRY["BatchNorm"](data, *nodes[1:], training=True, output_mean_var=output_mean_var)
        grad = differentiate((outputs[1],), (None,)).targets[data]
        assert (grad is not None) == moves
        if grad is not None:
            np.testing.assert_allclose(evaluate([grad], bindings)[0], np.full((3, 2), 1 / 3), rtol=1e-6)


def effects(name, inputs, **parameters):
    nodes, bindings = leaves_for(inputs)
    declared = REGISTRY[name]
    outputs = declared(*nodes, **parameters)
    rule = declared.effects
    changed = rule(tuple(nodes), outputs, **declared.accepted(rule, declared.attributes_of(parameters)))
    return {index: evaluate([node], bindings)[0] for index, node in changed.items()}


@pytest.mark.parametrize("name", ["BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU"])
def test_training_moves_the_statistics(name):
    extra = {"key": "layer"} if name.startswith("_contrib_Sync") else {}
    changed = effects(name, [ROWS, *vectors(2, 1, 4, 8)], training=True, fix_gamma=False, momentum=0.75, **extra)
    assert sorted(changed) == [3, 4]
    np.testing.assert_allclose(changed[3], 0.75 * 4 + 0.25 * np.array([1.5, 2.5, 3.5]), rtol=1e-6)
    np.testing.assert_allclose(changed[4], [0.75 * 8 + 0.25 * 2.25] * 3, rtol=1e-6)


def test_nothing_moves_outside_of_training():
    assert effects("BatchNorm", [ROWS, *vectors(2, 1, 4, 8)], fix_gamma=False) == {}
    frozen = {"training": True, "use_global_stats": True, "fix_gamma": False}
    assert effects("BatchNorm", [ROWS, *vectors(2, 1, 4, 8)], **frozen) == {}
    changed = effects("BatchNorm", [ROWS, *vectors(2, 1, 4, 8)])
    assert sorted(changed) == [1]
    np.testing.assert_array_equal(changed[1], np.ones(3))


@pytest.mark.usefixtures("planned")
def test_moving_statistics_do_not_compute_the_batch_twice():
    nodes, _ = leaves_for([ROWS, *vectors(2, 1, 4, 8)])
    declared = REGISTRY["BatchNorm"]
    outputs = declared(*nodes, training=True)
    before = statistics.nodes
    changed = declared.effects(
        tuple(nodes), outputs, momentum=0.9, fix_gamma=False, use_global_stats=False, training=True, axis=1
    )
    # two products and a sum each, and the two constants
    assert len(changed) == 2
    assert statistics.nodes - before <= 8


def test_arrays_are_updated_by_the_call():
    data, gamma, beta, mean, variance = [mx.nd.array(v) for v in (ROWS, *vectors(2, 1, 4, 8))]
    with mx.autograd.train_mode():
        mx.nd.BatchNorm(data, gamma, beta, mean, variance)
    np.testing.assert_allclose(mean.asnumpy(), 0.9 * 4 + 0.1 * np.array([1.5, 2.5, 3.5]), rtol=1e-6)
    np.testing.assert_allclose(variance.asnumpy(), [0.9 * 8 + 0.1 * 2.25] * 3, rtol=1e-6)
    np.testing.assert_array_equal(gamma.asnumpy(), np.ones(3))


def test_relu_form():
    inputs = batch_inputs(3, 2)
    expected = np.maximum(call("BatchNorm", *inputs, training=True)[0], 0)
    np.testing.assert_array_equal(call("_contrib_BatchNormWithReLU", *inputs, training=True)[0], expected)


# -- the others


def test_layer_norm():
    data = array(2, 3, 4, dtype="float64")
    gamma, beta = positive(3, dtype="float64"), array(3, dtype="float64")
    out, mean, deviation = call("LayerNorm", data, gamma, beta, axis=1, eps=0.01)
    np.testing.assert_allclose(mean, data.mean(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(deviation, np.sqrt(data.var(axis=1, keepdims=True) + 0.01), rtol=1e-12)
    np.testing.assert_allclose(out, (data - mean) / deviation * gamma[:, None] + beta[:, None], rtol=1e-11)


def test_instance_norm_is_the_example_of_the_manual():
    data = np.array([[[1.1, 2.2]], [[3.3, 4.4]]], np.float32)
    out = call("InstanceNorm", data, np.array([1.5], np.float32), np.array([0.5], np.float32))
    np.testing.assert_allclose(out, [[[-0.997527, 1.99752665]], [[-0.99752653, 1.99752724]]], rtol=1e-5)


def test_group_norm():
    data = array(2, 4, 3, dtype="float64")
    gamma, beta = positive(2, dtype="float64"), array(2, dtype="float64")
    out, mean, deviation = call("GroupNorm", data, gamma, beta, num_groups=2)
    groups = data.reshape(2, 2, 6)
    np.testing.assert_allclose(mean, groups.mean(axis=2), rtol=1e-12)
    np.testing.assert_allclose(deviation, np.sqrt(groups.var(axis=2) + 1e-5), rtol=1e-12)
    normal = (groups - mean[..., None]) / deviation[..., None]
    np.testing.assert_allclose(out, (normal * gamma[:, None] + beta[:, None]).reshape(data.shape), rtol=1e-11)


def test_l2_normalization_is_the_example_of_the_manual():
    data = np.array([[[1, 2], [3, 4]], [[2, 2], [5, 6]]], np.float32)
    expected = {
        "instance": [
            [[0.18257418, 0.36514837], [0.54772252, 0.73029673]],
            [[0.24077171, 0.24077171], [0.60192931, 0.72231513]],
        ],
        "channel": [
            [[0.31622776, 0.44721359], [0.94868326, 0.89442718]],
            [[0.37139067, 0.31622776], [0.92847669, 0.94868326]],
        ],
        "spatial": [
            [[0.44721359, 0.89442718], [0.60000002, 0.80000001]],
            [[0.70710677, 0.70710677], [0.6401844, 0.76822126]],
        ],
    }
    for mode, values in expected.items():
        np.testing.assert_allclose(call("L2Normalization", data, mode=mode), values, rtol=1e-6)


def test_l2_normalization_of_nothing():
    zeros = np.zeros((2, 3), np.float32)
    np.testing.assert_array_equal(call("L2Normalization", zeros), zeros)
    np.testing.assert_allclose(gradients("L2Normalization", [zeros]), np.full((2, 3), 1e5), rtol=1e-6)


@pytest.mark.parametrize(
    ("nsize", "values"),
    [
        (1, [0.57504642, 0.56724781, -0.22403313, -0.17673057, -0.51966029]),
        (2, [0.64238232, 0.63119054, -0.22711898, -0.1782255, -0.56607443]),
        (3, [0.62006468, 0.60147929, -0.20866844, -0.16602264, -0.5807634]),
        (7, [0.67449707, 0.64229381, -0.20690435, -0.16148573, -0.58065104]),
    ],
)
def test_local_response(nsize, values):
    data = np.array([1.2302907, 1.2023798, -0.3873268, -0.30230275, -1.048553], np.float32).reshape(1, 5, 1, 1)
    np.testing.assert_allclose(call("LRN", data, nsize=nsize, alpha=0.5).reshape(-1), values, rtol=2e-6)


@pytest.mark.parametrize(
    ("name", "arrays", "parameters", "sentence"),
    [
        ("BatchNorm", [ROWS, *vectors(1, 0, 0, 1)], {"axis": 5}, "Channel axis out of range: 5"),
        (
            "BatchNorm",
            [ROWS, *vectors(1, 0, 0, 1, channels=2)],
            {},
            r"Provided = \[2\], inferred shape=\[3\] for gamma",
        ),
        (
            "BatchNorm",
            [ROWS.astype(np.int32), *vectors(1, 0, 0, 1)],
            {},
            "only support floating point types, not int32",
        ),
        ("BatchNorm", [ROWS, *vectors(1, 0)], {}, "Operator BatchNorm expects 5 inputs, but got 3 instead"),
        ("LayerNorm", [ROWS, *vectors(1, 0)], {"axis": 2}, "Channel axis out of range: axis=2"),
        ("LayerNorm", [ROWS, *vectors(1, 0, channels=2)], {}, "Shape inconsistent"),
        ("InstanceNorm", [ROWS, *vectors(1, 0)], {}, "InstanceNorm only supports input tensors of rank >= 3."),
        ("GroupNorm", [ROWS[None], *vectors(1, 0)], {"num_groups": 3}, "must be divisible by # of groups"),
        ("GroupNorm", [ROWS, *vectors(1, 0)], {}, "at least 3 dimensions"),
        ("L2Normalization", [ROWS], {"mode": "channel"}, "At lease 3 dimensions required in channel mode"),
        ("LRN", [ROWS[0]], {"nsize": 3}, "LRN needs data with channels along axis 1"),
        (
            "_contrib_SyncBatchNorm",
            [ROWS, *vectors(1, 0, 0, 1)],
            {},
            "Required parameter key of string is not presented",
        ),
    ],
)
def test_errors(name, arrays, parameters, sentence):
    with pytest.raises(MXNetError, match=sentence):
        call(name, *arrays, **parameters)
