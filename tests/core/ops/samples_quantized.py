"""Samples of quantized operators: conversions, exact products, layers, and calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from .checks import Sample

_draw = np.random.RandomState(7)


def _signed(*shape: int) -> Any:
    return _draw.randint(-127, 128, shape).astype("int8")


def _unsigned(*shape: int) -> Any:
    return _draw.randint(0, 256, shape).astype("uint8")


def _real(*shape: int) -> Any:
    return _draw.randn(*shape).astype("float32")


def _limits(*pairs: tuple[float, float]) -> list[Any]:
    """Return the limits of several arrays, one after the other."""
    return [np.array([limit], "float32") for pair in pairs for limit in pair]


def _biases(count: int) -> Any:
    return _draw.randint(-200, 200, count).astype("int32")


def _scales(count: int) -> Any:
    return _draw.uniform(0.01, 0.02, count).astype("float32")


_WINDOW = {"stride": (1, 1), "dilate": (1, 1), "pad": (1, 1), "groups": 1}
_CALIBRATED = {"min_calib_range": -2.0, "max_calib_range": 2.0}
_HISTOGRAM = _draw.randint(1, 50, 301).astype("float32")


def _sample(name: str, *inputs: Any, **parameters: Any) -> Sample:
    return Sample(name, inputs, parameters, order=0)


SAMPLES = [
    _sample("_contrib_quantize", _real(3, 5), *_limits((-2, 2)), out_type="int8"),
    _sample("_contrib_quantize", _real(3, 5), *_limits((-2, 2)), out_type="uint8"),
    _sample("_contrib_quantize_v2", _real(3, 5)),
    _sample("_contrib_quantize_v2", _real(3, 5), **_CALIBRATED),
    _sample("_contrib_dequantize", _signed(3, 5), *_limits((-2, 2))),
    _sample("_contrib_dequantize", _unsigned(3, 5), *_limits((0, 2))),
    _sample("_contrib_requantize", _draw.randint(-9000, 9000, (3, 5)).astype("int32"), *_limits((-40, 40))),
    _sample(
        "_contrib_requantize", _draw.randint(-9000, 9000, (3, 5)).astype("int32"), *_limits((-40, 40)), **_CALIBRATED
    ),
    _sample("_contrib_quantized_act", _signed(3, 5), *_limits((-2, 2)), act_type="relu"),
    _sample("_contrib_quantized_flatten", _signed(2, 3, 4), *_limits((-2, 2))),
    _sample("_contrib_quantized_pooling", _signed(2, 3, 6, 6), *_limits((-2, 2)), kernel=(2, 2), stride=(2, 2)),
    _sample("_contrib_quantized_pooling", _unsigned(2, 3, 6, 6), *_limits((0, 2)), kernel=(3, 3), pool_type="avg"),
    _sample("_contrib_quantized_concat", _signed(2, 3), _signed(2, 4), *_limits((-2, 2), (-1, 1)), dim=1),
    _sample("_contrib_quantized_elemwise_add", _signed(3, 5), _signed(3, 5), *_limits((-2, 2), (-1, 1))),
    _sample("_contrib_quantized_elemwise_mul", _signed(3, 5), _signed(3, 5), *_limits((-2, 2), (-1, 1))),
    _sample(
        "_contrib_quantized_embedding",
        np.array([0, 3, 1], "float32"),
        _signed(4, 5),
        *_limits((-2, 2)),
        input_dim=4,
        output_dim=5,
    ),
    _sample(
        "_contrib_quantized_batch_norm",
        _signed(2, 3, 4, 4),
        *[np.abs(_real(3)) + 0.5 for _ in range(4)],
        *_limits((-2, 2)),
        **_CALIBRATED,
    ),
    _sample(
        "_contrib_quantized_fully_connected",
        _signed(3, 5),
        _signed(4, 5),
        _signed(4),
        *_limits((-2, 2), (-1, 1), (-1, 1)),
        num_hidden=4,
    ),
    _sample(
        "_contrib_quantized_conv",
        _unsigned(2, 3, 6, 6),
        _signed(4, 3, 3, 3),
        _signed(4),
        *_limits((0, 2), (-1, 1), (-1, 1)),
        kernel=(3, 3),
        num_filter=4,
    ),
    _sample("_contrib_calibrate_entropy", _HISTOGRAM, np.linspace(-3, 3, 302, dtype="float32"), num_quantized_bins=31),
    _sample("_int8_product", _signed(3, 5), _signed(4, 5)),
    _sample("_int8_product", _unsigned(3, 5), _signed(4, 5)),
    _sample("_int8_product_scaled", _signed(3, 5), _signed(4, 5), _scales(4), _biases(4), dtype="float32", relu=False),
    _sample("_int8_convolution", _signed(2, 3, 6, 6), _signed(4, 3, 3, 3), **_WINDOW),
    _sample(
        "_int8_convolution_scaled",
        _unsigned(2, 3, 6, 6),
        _signed(4, 3, 3, 3),
        _scales(4),
        _biases(4),
        **_WINDOW,
        dtype="uint8",
        relu=True,
    ),
    _sample(
        "_quantized_convolution",
        _signed(2, 3, 6, 6),
        _signed(4, 3, 3, 3),
        _scales(4),
        _biases(4),
        kernel=(3, 3),
        num_filter=4,
    ),
    _sample("_quantized_dense", _signed(3, 5), _signed(4, 5), _scales(4), _biases(4), num_hidden=4),
    _sample("_quantized_sum", _signed(3, 5), _unsigned(3, 5), lhs_scale=0.5, rhs_scale=0.25, out_type="int8"),
    _sample("_saturate", _real(3, 5) * 200, dtype="int8"),
]
