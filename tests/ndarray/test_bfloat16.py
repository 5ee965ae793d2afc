"""bfloat16: rounding, conversions, exchange with other libraries, files, gradients."""

from __future__ import annotations

import numpy as np
import pytest

import phonograd as mx
from phonograd.core.base.dtypes import BFLOAT16, FLOAT32, convert, narrow, promote, widen

BITS = np.arange(0, 1 << 32, 65_521, dtype=np.uint64).astype(np.uint32)


def exactly(value: float) -> float:
    """Return the nearest bfloat16 of a finite number, ties to even, in exact arithmetic."""
    if value == 0:
        return value
    exponent = np.frexp(value)[1]
    step = 2.0 ** (max(int(exponent), -125) - 8)
    return float(np.round(value / step) * step)


def test_numbers_are_rounded_to_the_nearest_ties_to_even() -> None:
    numbers = BITS.view(np.float32)
    numbers = numbers[np.abs(numbers) < 3e38]
    expected = np.array([exactly(float(number)) for number in numbers])
    assert np.array_equal(widen(narrow(numbers)).astype(float), expected)
    kernel = mx.nd.array(numbers).astype("bfloat16").astype("float64").asnumpy()
    assert np.array_equal(kernel, expected)


def test_special_values() -> None:
    x = mx.nd.array([np.inf, -np.inf, np.nan, -0.0, 3.4e38, 1e-40]).astype("bfloat16").astype("float32").asnumpy()
    assert np.isinf(x[[0, 1, 4]]).all()
    assert np.isnan(x[2])
    assert np.signbit(x[3])
    assert x[5] == np.float32(9.18354962e-41)


@pytest.mark.parametrize("value", [2**40 + 2**32, 2**40 + 2**32 + 1, 2**40 + 2**32 - 1, -(2**62) - 2**54 - 1, 257, 7])
def test_integers_and_doubles_are_rounded_once(value: int) -> None:
    bits = abs(value).bit_length() - 8
    quotient, rest = (abs(value), 0) if bits <= 0 else divmod(abs(value), 1 << bits)
    if bits > 0 and (2 * rest > 1 << bits or (2 * rest == 1 << bits and quotient % 2)):
        quotient += 1
    expected = float(quotient << max(bits, 0)) * (1 if value > 0 else -1)
    for dtype in ("int64", "float64"):
        source = np.array([value], dtype)
        if int(source[0]) == value:
            assert float(widen(convert(source, BFLOAT16))[0]) == expected
            assert float(mx.nd.array(source, dtype=dtype).astype("bfloat16")) == expected


def test_arrays_print_and_convert_as_numbers() -> None:
    x = mx.nd.array([1, 2.5, 3.14159], dtype="bfloat16")
    assert "[1.       2.5      3.140625]" in repr(x)
    assert x.tolist() == [1, 2.5, 3.140625]
    assert (float(x[1]), x[2].asscalar()) == (2.5, 3.140625)
    assert repr(mx.np.array([1], dtype="bfloat16")) == "array([1.], dtype=bfloat16)"
    assert x.dtype == BFLOAT16
    assert x.asnumpy().dtype == BFLOAT16
    assert x.asnumpy().view(np.uint16).tolist() == [16256, 16416, 16457]
    assert np.asarray(x, "float32").tolist() == [1, 2.5, 3.140625]


def test_ml_dtypes_are_exchanged() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = mx.nd.array([1, 2.5], dtype=ml_dtypes.bfloat16)
    assert np.asarray(x, ml_dtypes.bfloat16).astype(float).tolist() == [1, 2.5]
    values = np.array([0.5, -3], ml_dtypes.bfloat16)
    assert mx.nd.array(values, dtype="bfloat16").tolist() == [0.5, -3]
    assert mx.np.array(values)._dtype == BFLOAT16
    assert mx.nd.array(values)._dtype == FLOAT32


def test_files_keep_the_dtype(tmp_path) -> None:
    x = mx.nd.array([[1, 2.5], [-3, 1e30]], dtype="bfloat16")
    mx.nd.save(str(tmp_path / "a.params"), {"x": x})
    mx.contrib.safetensors.save(tmp_path / "a.safetensors", {"x": x})
    for read in (mx.nd.load(str(tmp_path / "a.params")), mx.contrib.safetensors.load(tmp_path / "a.safetensors")):
        assert read["x"]._dtype == BFLOAT16
        assert read["x"].asnumpy().tobytes() == x.asnumpy().tobytes()


def test_dlpack_shares_memory() -> None:
    x = mx.nd.array([1, 2], dtype="bfloat16")
    y = mx.nd.from_dlpack(x.to_dlpack_for_write())
    y += 1
    assert (x.tolist(), y._dtype) == ([2, 3], BFLOAT16)


def test_gradients_and_products() -> None:
    data, weight = np.random.default_rng(0).normal(size=(2, 33, 33))
    x, w = mx.nd.array(data, dtype="bfloat16"), mx.nd.array(weight, dtype="bfloat16")
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.dot(x, w).tanh()
    y.backward()
    assert (y._dtype, x.grad._dtype) == (BFLOAT16, BFLOAT16)
    wide = widen(x.asnumpy()) @ widen(w.asnumpy())
    expected = (1 - np.tanh(wide) ** 2) @ widen(w.asnumpy()).T
    assert np.abs(widen(x.grad.asnumpy()) - expected).max() <= 0.02 * np.abs(expected).max()


def test_types_are_promoted_and_refused() -> None:
    assert promote(BFLOAT16, np.dtype("float16")) == FLOAT32
    with pytest.raises(TypeError, match="bfloat16"):
        mx.nd.zeros((2,), dtype="bfloat")
    with pytest.raises(mx.base.MXNetError, match="expected bfloat16, got float32"):
        mx.nd.zeros((2,), dtype="bfloat16") + mx.nd.zeros((2,))
