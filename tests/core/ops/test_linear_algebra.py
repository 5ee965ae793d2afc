"""Products of matrices against NumPy, and their errors."""

from __future__ import annotations

import re

import numpy as np
import pytest

import phonograd.core.ops.linalg.linear_algebra  # noqa: F401
from phonograd.core.base.errors import MXNetError

from .checks import Sample, check_gradients, check_inference
from .samples_linear_algebra import SAMPLES


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_inference(sample):
    check_inference(sample)


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_gradients(sample):
    check_gradients(sample)


def run(name, *arrays, **parameters):
    values = check_inference(Sample(name, arrays, parameters))
    return values[0] if len(values) == 1 else values


def whole(*shape, dtype="float64"):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def test_dot_contracts_last_with_first():
    for left, right in (((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((2, 4, 3), (3, 4, 2)), ((2, 3), (3, 2, 2))):
        expected = np.tensordot(whole(*left), whole(*right), 1)
        assert np.array_equal(run("dot", whole(*left), whole(*right)), expected.reshape(expected.shape or (1,)))


def test_dot_transposed():
    a, b = whole(3, 2, 4), whole(2, 4, 3)
    expected = np.tensordot(a, b, axes=(0, 2))
    assert np.array_equal(run("dot", a, b, transpose_a=True, transpose_b=True), expected)
    # values of MXNet 1.9.1
    found = run("dot", whole(2, 4, 3), whole(3, 2), transpose_a=True, transpose_b=True)
    assert found.shape == (4, 3, 3)
    assert found.reshape(-1)[:12].tolist() == [12, 36, 60, 13, 41, 69, 14, 46, 78, 15, 51, 87]
    # a vector beside a matrix has nothing to transpose
    assert np.array_equal(run("dot", whole(3), whole(3, 2), transpose_a=True), whole(3) @ whole(3, 2))
    assert np.array_equal(run("dot", whole(2, 3), whole(3), transpose_b=True), whole(2, 3) @ whole(3))


def test_empty_sums_are_zero():
    assert run("dot", whole(2, 0), whole(0, 3)).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert run("dot", whole(0), whole(0)).tolist() == [0]


def test_batch_dot():
    a, b = whole(2, 1, 3, 2), whole(2, 1, 4, 3)
    expected = np.swapaxes(a, -1, -2) @ np.swapaxes(b, -1, -2)
    assert np.array_equal(run("batch_dot", a, b, transpose_a=True, transpose_b=True), expected)


def test_fully_connected():
    data, weight, bias = whole(2, 3, 2), whole(4, 6), whole(4)
    assert np.array_equal(run("FullyConnected", data, weight, bias, num_hidden=4), data.reshape(2, 6) @ weight.T + bias)
    weight = whole(4, 2)
    assert np.array_equal(
        run("FullyConnected", data, weight, bias, num_hidden=4, flatten=False), data @ weight.T + bias
    )
    # a vector with flatten is a batch of single features
    assert run("FullyConnected", whole(3), whole(4, 1), whole(4), num_hidden=4).shape == (3, 4)


def test_khatri_rao():
    a, b = np.array([[1.0, -1], [2, -3]]), np.array([[1.0, 4], [2, 5], [3, 6]])
    columns = [np.kron(a[:, k], b[:, k]) for k in range(2)]
    assert np.array_equal(run("khatri_rao", a, b), np.stack(columns, axis=1))


def test_attention():
    heads, width, length, batch = 2, 4, 3, 2
    generator = np.random.default_rng(0)
    mixed = generator.normal(size=(length, batch, heads * 3 * width))
    parts = mixed.reshape(length, batch, heads, 3, width)
    queries, keys, values = (parts[:, :, :, k].transpose(1, 2, 0, 3).reshape(-1, length, width) for k in range(3))
    scores = queries @ keys.transpose(0, 2, 1) / np.sqrt(width)
    assert np.allclose(run("_contrib_interleaved_matmul_selfatt_qk", mixed, heads=heads), scores, rtol=1e-14)
    attended = (scores @ values).reshape(batch, heads, length, width).transpose(2, 0, 1, 3).reshape(length, batch, -1)
    found = run("_contrib_interleaved_matmul_selfatt_valatt", mixed, scores, heads=heads)
    assert np.allclose(found, attended, rtol=1e-13)
    # the same with queries apart, and keys and values interleaved
    pair = np.ascontiguousarray(parts[:, :, :, 1:]).reshape(length, batch, -1)
    alone = np.ascontiguousarray(parts[:, :, :, 0]).reshape(length, batch, -1)
    assert np.allclose(run("_contrib_interleaved_matmul_encdec_qk", alone, pair, heads=heads), scores, rtol=1e-14)
    found = run("_contrib_interleaved_matmul_encdec_valatt", pair, scores, heads=heads)
    assert np.allclose(found, attended, rtol=1e-13)


def test_div_sqrt_dim():
    assert np.array_equal(run("_contrib_div_sqrt_dim", whole(2, 3)), whole(2, 3) / np.sqrt(3))
    assert run("_contrib_div_sqrt_dim", whole(2, 3, dtype="int32")).tolist() == [[0, 1, 2], [3, 4, 5]]


FC = {"num_hidden": 4}


@pytest.mark.parametrize(
    ("name", "shapes", "parameters", "text"),
    [
        ("dot", [(3,), (3,)], {"transpose_a": True}, "Cannot transpose vectors"),
        ("dot", [(2, 3), (2, 3)], {}, "dot shape error: [2,3] X [2,3]"),
        ("dot", [(2, 3), (3, 2)], {"transpose_b": True}, "dot shape error: [2,3] X [3,2], transpose_b=True"),
        ("dot", [(), (3,)], {}, "dot shape error: [] X [3]"),
        ("dot", [(3,), (3,)], {"forward_stype": "dense"}, "valid values are: {'csr', 'default', 'row_sparse'}"),
        ("batch_dot", [(2, 3), (3, 2)], {}, "only support N-D*N-D array (N >= 3)[2,3] v.s. [3,2]"),
        ("batch_dot", [(2, 2, 3), (1, 3, 2)], {}, "(the leading batch dimensions must be equal): [2,2,3] X [1,3,2]"),
        (
            "batch_dot",
            [(2, 2, 3), (2, 2, 2)],
            {},
            "batch_dot shape error (shape mismatch): [2,2,3] X [2,2,2] trans_a=0",
        ),
        ("FullyConnected", [(2, 3), (4, 2), (4,)], FC, "Provided = [4,2], inferred shape=(4,3)"),
        ("FullyConnected", [(2, 3), (4, 3), (5,)], FC, "Unexpected shape for bias [5]"),
        ("FullyConnected", [(2, 3), (4, 3)], FC, "Operator FullyConnected expects 3 inputs, but got 2 instead."),
        ("FullyConnected", [(2, 3), (4, 3), (4,)], {**FC, "no_bias": True}, "expects 2 inputs, but got 3 instead."),
        ("FullyConnected", [(2, 3), (4, 3), (4,)], {}, "Required parameter num_hidden of int is not presented"),
        ("FullyConnected", [(2, 3), (4, 3), (4,)], {"num_hidden": 0}, "should be greater equal to 1"),
        ("khatri_rao", [], {}, "at least 1 input"),
        ("khatri_rao", [(2, 2), (3, 3)], {}, "equally many columns, but got shapes [2,2], [3,3]"),
        (
            "_contrib_interleaved_matmul_selfatt_qk",
            [(2, 24)],
            {"heads": 2},
            "should be 3D in seq_length-batch-proj_dim",
        ),
        ("_contrib_interleaved_matmul_selfatt_qk", [(2, 2, 24)], {"heads": 5}, "heads=5"),
        (
            "_contrib_interleaved_matmul_selfatt_valatt",
            [(3, 2, 12), (4, 3, 2)],
            {"heads": 2},
            "queries_keys_values.shape[0] and attention.shape[2] should be the same, currently are 3 and 2",
        ),
        (
            "_contrib_interleaved_matmul_encdec_qk",
            [(3, 2, 8), (5, 2, 15)],
            {"heads": 2},
            "keys_values.shape[2] should be equal to queries.shape[2] * 2, currently are: 15 and 8",
        ),
        (
            "_contrib_interleaved_matmul_encdec_valatt",
            [(5, 2, 16), (3, 3, 5)],
            {"heads": 2},
            "attention.shape[0] should be equal to keys_values.shape[1] * heads",
        ),
    ],
)
def test_errors(name, shapes, parameters, text):
    with pytest.raises(MXNetError, match=re.escape(text)):
        run(name, *[np.zeros(shape, np.float32) for shape in shapes], **parameters)


def test_dtype_errors():
    with pytest.raises(MXNetError, match="Incompatible attr in node  at 1-th input: expected float32, got float64"):
        run("dot", whole(2, 2, dtype="float32"), whole(2, 2))
    for name, arrays in (("dot", [whole(2, 2)] * 2), ("batch_dot", [whole(1, 2, 2)] * 2)):
        with pytest.raises(MXNetError, match=r"only supports float32/float64 for CPU.*int32.*astype"):
            run(name, *[array.astype("int32") for array in arrays])
