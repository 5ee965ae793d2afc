"""Losses: gradients of MXNet 1.9.1, their own derivatives, alignments counted one by one, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from phonograd.core.base.errors import MXNetError

from .calls import call, gradients
from .samples_loss import OUTPUT_LAYERS, array

DATA = array(3, 4, dtype="float64")
LABEL = np.array([1, 3, -1], np.float64)


def soft(data, axis=-1):
    powers = np.exp(data - data.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def hot(label, depth):
    return (np.asarray(label)[..., None] == np.arange(depth)).astype(float)


# -- SoftmaxOutput


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, lambda e, keep: e),
        ({"grad_scale": 3.0}, lambda e, keep: 3 * e),
        ({"use_ignore": True}, lambda e, keep: e * keep),
        ({"use_ignore": True, "normalization": "valid"}, lambda e, keep: e * keep / 2),
        ({"normalization": "valid"}, lambda e, keep: e / 2),
        ({"normalization": "batch"}, lambda e, keep: e / 3),
    ],
)
def test_softmax_output_gradient(parameters, expected):
    error = soft(DATA) - hot(LABEL, 4)
    keep = (LABEL != -1)[:, None]
    np.testing.assert_allclose(call("SoftmaxOutput", DATA, LABEL, **parameters), soft(DATA), rtol=1e-12)
    for head in (None, array(3, 4)):
        found, label_grad = gradients("SoftmaxOutput", [DATA, LABEL], wrt=(0, 1), head=head, **parameters)
        np.testing.assert_allclose(found, expected(error, keep), rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(label_grad, np.zeros(3))


def test_softmax_output_with_the_gradient_from_above():
    head = array(3, 4, dtype="float64")
    found = gradients("SoftmaxOutput", [DATA, LABEL], head=head, out_grad=True)
    np.testing.assert_allclose(found, head * (soft(DATA) - hot(LABEL, 4)), rtol=1e-10)


def test_softmax_output_smoothing():
    target = np.where(hot(LABEL, 4) == 1, 0.9, 0.1 / 3)
    found = gradients("SoftmaxOutput", [DATA, LABEL], smooth_alpha=0.1)
    np.testing.assert_allclose(found, soft(DATA) - target, rtol=1e-10)


def test_softmax_output_with_probabilities():
    label = soft(array(3, 4, dtype="float64"))
    found = gradients("SoftmaxOutput", [DATA, label], normalization="batch")
    np.testing.assert_allclose(found, soft(DATA) - label, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("normalization", "divisor"), [("null", 2), ("batch", 4), ("valid", 3)])
def test_softmax_output_at_every_position(normalization, divisor):
    data = array(2, 3, 2, dtype="float64")
    label = np.array([[0, 1], [-1, 1]], np.float64)
    parameters = {"multi_output": True, "normalization": normalization, "use_ignore": True}
    error = (soft(data, axis=1) - np.moveaxis(hot(label, 3), -1, 1)) * (label != -1)[:, None]
    np.testing.assert_allclose(call("SoftmaxOutput", data, label, **parameters), soft(data, axis=1), rtol=1e-12)
    np.testing.assert_allclose(gradients("SoftmaxOutput", [data, label], **parameters), error / divisor, rtol=1e-9)


def test_softmax_output_rows():
    data = array(2, 3, 2, dtype="float64")
    flat = call("SoftmaxOutput", data, np.array([1.0, 5.0]))
    np.testing.assert_allclose(flat.reshape(2, 6), soft(data.reshape(2, 6)), rtol=1e-12)
    label = np.array([[0, 1, 1], [0, 0, 1]], np.float64)
    np.testing.assert_allclose(call("SoftmaxOutput", data, label, preserve_shape=True), soft(data), rtol=1e-12)
    with pytest.raises(MXNetError, match="Use preserve_shape=True for a label at every position"):
        call("SoftmaxOutput", data, label)


# -- the other output layers


def test_regression_outputs():
    data, label = array(2, 3, dtype="float64"), array(2, 3, dtype="float64")
    found = gradients("LinearRegressionOutput", [data, label], head=array(2, 3), grad_scale=2.0)
    np.testing.assert_allclose(found, (data - label) * 2 / 3, rtol=1e-12)
    np.testing.assert_allclose(gradients("MAERegressionOutput", [data, label]), np.sign(data - label) / 3, rtol=1e-12)
    sigmoid = 1 / (1 + np.exp(-data))
    np.testing.assert_allclose(call("LogisticRegressionOutput", data, label), sigmoid, rtol=1e-12)
    np.testing.assert_allclose(gradients("LogisticRegressionOutput", [data, label]), (sigmoid - label) / 3, rtol=1e-10)
    np.testing.assert_array_equal(call("LinearRegressionOutput", data, label.reshape(2, 3, 1)), data)


def test_svm_output():
    data = np.array([[0.7610377, 0.12167501, 0.44386324], [0.33367434, 1.4940791, -0.20515826]], np.float32)
    label = np.array([1, 0], np.float32)
    np.testing.assert_allclose(
        gradients("SVMOutput", [data, label]),
        [[3.5220754, -1.75665, 2.8877265], [-1.3326514, 4.9881582, 1.5896835]],
        rtol=1e-6,
    )
    options = {"margin": 0.5, "regularization_coefficient": 2.0, "use_linear": True}
    np.testing.assert_allclose(gradients("SVMOutput", [data, label], **options), [[2, -2, 2], [-2, 2, 2]])


@pytest.mark.parametrize(
    ("shape", "normalization", "expected"),
    [
        ((3,), "null", 2),
        ((3,), "batch", 2),
        ((2, 3), "batch", 1),
        ((2, 3, 2), "batch", 1 / 3),
        ((3,), "valid", 1),
    ],
)
def test_make_loss(shape, normalization, expected):
    data = np.ones(shape)
    if normalization == "valid":
        data[0] = -1
    found = gradients("MakeLoss", [data], head=array(*shape), grad_scale=2.0, normalization=normalization)
    np.testing.assert_allclose(found, np.full(shape, expected), rtol=1e-12)


@pytest.mark.parametrize("sample", OUTPUT_LAYERS, ids=repr)
def test_gradient_of_an_output_layer_has_the_right_derivative(sample):
    """The derivative of the sum of the gradient, against differences of it."""
    arrays = [a.astype(np.float64) for a in sample.inputs]
    second = gradients(sample.name, arrays, order=2, **sample.parameters)
    direction = array(*arrays[0].shape, dtype="float64")

    def total(step):
        moved = [arrays[0] + step * direction, *arrays[1:]]
        return float(gradients(sample.name, moved, **sample.parameters).sum())

    numeric = (total(1e-5) - total(-1e-5)) / 2e-5
    # None: the gradient is a constant
    exact = 0.0 if second is None else (second * direction).sum()
    np.testing.assert_allclose(numeric, exact, rtol=1e-6, atol=1e-8)


def test_softmax_cross_entropy():
    label = np.array([1, 0, 3])
    value = call("softmax_cross_entropy", DATA, label)
    np.testing.assert_allclose(value, [-np.log(soft(DATA)[np.arange(3), label]).sum()], rtol=1e-12)
    found = gradients("softmax_cross_entropy", [DATA, label], head=[2.0])
    np.testing.assert_allclose(found, 2 * (soft(DATA) - hot(label, 4)), rtol=1e-10)


# -- CTC


def loss_by_enumeration(scores, labels, blank):
    """Return -log of the summed probability of all alignments that collapse to the labels."""
    log_probabilities = np.log(soft(scores))
    frames, classes = scores.shape
    total = 0.0
    for path in itertools.product(range(classes), repeat=frames):
        merged = [c for i, c in enumerate(path) if i == 0 or c != path[i - 1]]
        if [c for c in merged if c != blank] == list(labels):
            total += np.exp(sum(log_probabilities[t, c] for t, c in enumerate(path)))
    return -np.log(total) if total else 0.0


@pytest.mark.parametrize("labels", [[1], [1, 2], [2, 2], [1, 2, 1], [2, 2, 2], []])
def test_ctc_sums_over_all_alignments(labels):
    scores = array(5, 3, dtype="float64")
    padded = np.array([labels + [0] * (3 - len(labels))])
    found = call("CTCLoss", scores[:, None], padded)
    np.testing.assert_allclose(found, [loss_by_enumeration(scores, labels, 0)], rtol=1e-10)
    last = call("CTCLoss", scores[:, None], padded - 1, blank_label="last")
    np.testing.assert_allclose(last, [loss_by_enumeration(scores, [c - 1 for c in labels], 2)], rtol=1e-10)


def test_ctc_lengths():
    scores = array(5, 2, 3, dtype="float64")
    labels = np.array([[1, 2, 1], [2, 2, 1]])
    expected = [loss_by_enumeration(scores[:3, 0], [1, 2], 0), loss_by_enumeration(scores[:, 1], [2, 2, 1], 0)]
    lengths, counts = np.array([3, 5]), np.array([2, 3])
    found = call("CTCLoss", scores, labels, lengths, counts, use_data_lengths=True, use_label_lengths=True)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    grad = gradients("CTCLoss", [scores, labels, lengths, counts], use_data_lengths=True, use_label_lengths=True)
    np.testing.assert_array_equal(grad[3:, 0], np.zeros((2, 3)))
    # without data lengths the third array holds the label lengths
    alone = call("CTCLoss", scores[:, 1:], labels[1:], counts[1:], use_label_lengths=True)
    np.testing.assert_allclose(alone, expected[1:], rtol=1e-10)


def test_ctc_of_too_few_frames_is_zero():
    scores = array(4, 1, 3, dtype="float64")
    labels = np.array([[1, 1, 1]])
    np.testing.assert_array_equal(call("CTCLoss", scores, labels), [0])
    for order in (1, 2):
        np.testing.assert_array_equal(gradients("CTCLoss", [scores, labels], order=order), np.zeros((4, 1, 3)))


def test_ctc_gradient_in_single_precision_over_many_frames():
    scores = array(200, 2, 5)
    labels = np.array([[1, 2, 3, 0], [4, 4, 4, 4]])
    wide = gradients("CTCLoss", [scores.astype(np.float64), labels])
    found = gradients("CTCLoss", [scores, labels])
    np.testing.assert_allclose(found, wide, rtol=2e-3, atol=2e-5)
    np.testing.assert_allclose(wide.sum(axis=2), np.zeros((200, 2)), atol=1e-9)


@pytest.mark.parametrize(
    ("name", "arrays", "parameters", "sentence"),
    [
        ("SoftmaxOutput", [DATA, LABEL[:2]], {}, r"Shape inconsistent, Provided = \[2\], inferred shape=\[3\]"),
        ("SVMOutput", [DATA, LABEL[:2]], {}, r"Shape inconsistent, Provided = \[2\], inferred shape=\[3\]"),
        ("LinearRegressionOutput", [DATA, LABEL], {}, r"Shape inconsistent, Provided = \[3\], inferred shape=\[3,4\]"),
        ("softmax_cross_entropy", [DATA, LABEL[:2]], {}, "data label shape mismatch"),
        ("softmax_cross_entropy", [DATA[0], LABEL], {}, "SoftmaxCrossEntropy only accept 2D data"),
        ("CTCLoss", [DATA, LABEL[:, None]], {}, "The number of dimensions of data array must be 3"),
        ("CTCLoss", [DATA[None], LABEL[:2, None]], {}, "batch size for the labels and data arrays must be the same"),
        ("CTCLoss", [DATA[None], np.ones((3, 2))], {}, "The max number of labels cannot exceed the maximum sequence"),
        ("CTCLoss", [DATA[None], np.ones((3, 1))], {"use_data_lengths": True}, "takes data_lengths together with"),
        ("MakeLoss", [np.arange(3)], {}, "only support floating point types, not int64"),
    ],
)
def test_errors(name, arrays, parameters, sentence):
    with pytest.raises(MXNetError, match=sentence):
        call(name, *arrays, **parameters)
