"""Pooling against loops over windows, values recorded from MXNet 1.9.1, ties, and what wrong arguments raise."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.ops.vision import region_pooling, resizing  # noqa: F401
from phonograd.core.run.reference import evaluate

from .checks import Sample, check_gradients, check_inference
from .samples_pooling import REGIONS, SAMPLES, array

WAVES = np.cos(np.arange(120) * 1.3).reshape(2, 2, 5, 6).astype(np.float32)
TWO_REGIONS = np.array([[0, 0.5, 0.3, 3.9, 4.2], [1, -1, 1.5, 9, 3]], np.float32)


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_shapes_are_as_inferred(sample: Sample) -> None:
    check_inference(sample)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.order], ids=repr)
def test_gradients_of_every_order(sample: Sample) -> None:
    check_gradients(sample)


def compute(name: str, *inputs: Any, **parameters: Any) -> np.ndarray:
    return check_inference(Sample(name, inputs, parameters))[0]


def gradient_of(name: str, data: np.ndarray, **parameters: Any) -> np.ndarray:
    node = leaf(0, data.shape, data.dtype)
    target = variable(node, 0)
    found = differentiate((REGISTRY[name](target, **parameters),), (None,)).targets[target]
    return evaluate([found], {node: data})[0]


def loops(data: Any, kind: str, kernel: Any, stride: Any, pad: Any, counts: Any, include_pad: bool) -> np.ndarray:
    """Return the pooled array, one window at a time."""
    out = np.zeros((*data.shape[:2], *counts))
    for place in itertools.product(*map(range, counts)):
        parts, size = [], 1
        for at, k, s, p, extent in zip(place, kernel, stride, pad, data.shape[2:], strict=True):
            begin, end = at * s - p, min(at * s - p + k, extent + p)
            part = slice(max(begin, 0), max(min(end, extent), 0))
            size *= max((end - begin) if include_pad else (part.stop - part.start), 1)
            parts.append(part)
        window = data[(slice(None), slice(None), *parts)].reshape(*data.shape[:2], -1)
        if kind == "max":
            value = window.max(axis=-1, initial=np.finfo(data.dtype).min)
        else:
            value = window.sum(axis=-1) / (size if kind == "avg" else 1)
        out[(slice(None), slice(None), *place)] = value
    return out


@given(st.data())
def test_pooling_is_what_the_loops_say(draw: Any) -> None:
    spatial = draw.draw(st.integers(1, 3))

    def small(least: int, most: int) -> tuple[int, ...]:
        return tuple(draw.draw(st.lists(st.integers(least, most), min_size=spatial, max_size=spatial)))

    kernel, stride, pad = small(1, 4), small(1, 4), small(0, 3)
    extent = tuple(max(size, k - 2 * p) for size, k, p in zip(small(1, 6), kernel, pad, strict=True))
    full = draw.draw(st.booleans())
    kind = draw.draw(st.sampled_from(["max", "avg", "sum"]))
    include_pad = draw.draw(st.booleans())
    data = np.random.default_rng(draw.draw(st.integers(0, 99))).normal(size=(1, 2, *extent))
    free = [n + 2 * p - k for n, p, k in zip(extent, pad, kernel, strict=True)]
    counts = [(-(-f // s) if full else f // s) + 1 for f, s in zip(free, stride, strict=True)]
    out = compute(
        "Pooling",
        data,
        kernel=kernel,
        stride=stride,
        pad=pad,
        pool_type=kind,
        pooling_convention="full" if full else "valid",
        count_include_pad=include_pad,
    )
    np.testing.assert_allclose(out, loops(data, kind, kernel, stride, pad, counts, include_pad), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "options, expected",
    [
        (
            {"pool_type": "avg"},
            [0.175659, -0.249368, 0.135746, -0.183577, 0.293997, -0.183559, 0.135923, -0.249629, 0.175807],
        ),
        (
            {"pool_type": "avg", "count_include_pad": False},
            [0.526978, -0.374052, 0.407237, -0.367153, 0.293997, -0.367118, 0.40777, -0.374443, 0.527421],
        ),
        (
            {"pool_type": "max"},
            [1, 0.647596, 0.976588, 0.053955, 0.796352, 0.054842, 0.976778, 0.646919, 1],
        ),
        (
            {"pool_type": "lp", "p_value": 2},
            [1.001455, 1.412558, 0.989952, 1.008612, 1.65397, 1.008706, 0.989997, 1.412576, 1.001502],
        ),
        (
            {"pool_type": "lp", "p_value": 3},
            [1.000052, -0.971418, 0.975096, -0.995536, 1.061944, -0.995461, 0.975312, -0.971949, 1.000055],
        ),
    ],
)
def test_recorded_values(options: dict[str, Any], expected: list[float]) -> None:
    window = {"kernel": (3, 2), "stride": (2, 3), "pad": (1, 1), "pooling_convention": "full"}
    out = compute("Pooling", WAVES[:1, :1], **window, **options)
    np.testing.assert_allclose(out.ravel(), expected, atol=2e-6)


def test_the_first_of_equal_elements_gets_the_gradient() -> None:
    ties = np.array([[[[0, 1, 1], [1, 1, 0]]]], np.float32)
    np.testing.assert_array_equal(gradient_of("Pooling", ties, kernel=(2, 3)), [[[[0, 1, 0], [0, 0, 0]]]])
    np.testing.assert_array_equal(gradient_of("Pooling", ties, kernel=(2, 2)), [[[[0, 2, 0], [0, 0, 0]]]])


def test_nan_and_empty_windows_are_the_lowest_number() -> None:
    lowest = np.finfo(np.float32).min
    data = np.array([[[np.nan, 1, np.nan, np.nan]]], np.float32)
    np.testing.assert_array_equal(compute("Pooling", data, kernel=2, stride=2), [[[1, lowest]]])
    strided = {"kernel": 1, "stride": 4, "pooling_convention": "full"}
    data = np.arange(7, dtype=np.float32).reshape(1, 1, 7)
    np.testing.assert_array_equal(compute("Pooling", data, **strided), [[[0, 4, lowest]]])
    np.testing.assert_array_equal(gradient_of("Pooling", data, **strided), [[[1, 0, 0, 0, 1, 0, 0]]])


def test_the_norm_of_zeros_has_gradient_zero() -> None:
    zeros = np.zeros((1, 1, 2, 2), np.float32)
    for power in (2, 3):
        grad = gradient_of("Pooling", zeros, kernel=(2, 2), pool_type="lp", p_value=power)
        np.testing.assert_array_equal(grad, zeros)


def test_same_convention_begins_inside_the_data() -> None:
    data = np.arange(7, dtype=np.float32).reshape(1, 1, 7)
    options = {"kernel": 3, "stride": 2, "pooling_convention": "same"}
    np.testing.assert_array_equal(compute("Pooling", data, **options), [[[2, 4, 6, 6]]])
    np.testing.assert_array_equal(compute("Pooling", data, pool_type="avg", **options), [[[1, 3, 5, 6]]])


@pytest.mark.parametrize("kind", ["max", "avg", "sum"])
def test_channels_last_is_a_permutation(kind: str) -> None:
    data = array(2, 3, 5, 4)
    options = {"kernel": (2, 3), "stride": (2, 1), "pool_type": kind}
    last = compute("Pooling", np.moveaxis(data, 1, -1), layout="NHWC", **options)
    np.testing.assert_array_equal(np.moveaxis(last, -1, 1), compute("Pooling", data, **options))


def test_version_one_counts_padding() -> None:
    data = -np.arange(1, 8, dtype=np.float32).reshape(1, 1, 1, 7)
    options = {"kernel": (1, 4), "stride": (1, 3), "pad": (0, 2)}
    np.testing.assert_array_equal(compute("Pooling_v1", data, **options), [[[[0, -2, 0]]]])
    np.testing.assert_array_equal(compute("Pooling", data, **options), [[[[-1, -2, -5]]]])
    full = {"kernel": (1, 2), "stride": (1, 2), "pooling_convention": "full", "pool_type": "avg"}
    np.testing.assert_array_equal(compute("Pooling_v1", data, **full), [[[[-1.5, -3.5, -5.5, -3.5]]]])
    np.testing.assert_array_equal(compute("Pooling", data, **full), [[[[-1.5, -3.5, -5.5, -7]]]])


@pytest.mark.parametrize(
    "shape, options, sentence",
    [
        ((2, 3, 5, 5), {"kernel": (7, 7)}, r"kernel size \(7\) exceeds input \(5 padded to 5\)"),
        ((2, 3, 5, 5), {}, "0D pooling not supported"),
        ((2, 3, 5, 5), {"kernel": (2,)}, "1D pooling not supported"),
        ((3, 5), {"kernel": (2,)}, "Input data should be  3D in"),
        ((2, 3, 5, 5), {"kernel": (2, 2), "stride": (0, 1)}, "for Parameter stride is invalid"),
        ((2, 3, 5, 5), {"kernel": (2, 2), "pad": (1,)}, "must have 2 entries"),
        ((2, 3, 5, 5), {"kernel": (2, 2), "pool_type": "lp"}, "p value of None is not supported yet"),
        ((2, 3, 5, 5), {"kernel": (2, 2), "pool_type": "lp", "p_value": 4}, "p value of 4 is not supported yet"),
        ((2, 3, 5), {"kernel": (2,), "layout": "NHWC"}, "Need 1D layout"),
        ((2, 3, 5), {"kernel": 2, "pad": 1, "pooling_convention": "same"}, "Same pooling convention disables"),
    ],
)
def test_wrong_arguments(shape: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MXNetError, match=sentence):
        compute("Pooling", np.zeros(shape, np.float32), **options)


def test_integers_are_refused() -> None:
    with pytest.raises(MXNetError, match="only support floating point types, not int32"):
        compute("Pooling", np.zeros((1, 1, 2, 2), np.int32), kernel=(2, 2))


def test_adaptive_windows() -> None:
    expected = [0.093433, -0.524524, 0.324407, 0.547609, -0.251855, 0.07877]
    expected += [0.078518, -0.25199, 0.547773, 0.323982, -0.524308, 0.09394]
    out = compute("_contrib_AdaptiveAvgPooling2D", WAVES[:1, :1], output_size=(3, 4))
    np.testing.assert_allclose(out.ravel(), expected, atol=2e-6)
    whole = compute("_contrib_AdaptiveAvgPooling2D", WAVES)
    np.testing.assert_allclose(whole, WAVES.mean(axis=(2, 3), keepdims=True), atol=1e-6)
    with pytest.raises(MXNetError, match="must be one number or"):
        compute("_contrib_AdaptiveAvgPooling2D", WAVES, output_size=(1, 2, 3))


# -- regions


def test_largest_elements_of_regions() -> None:
    expected = [1, 0.647596, 0.90782, 0.796352, 0.266643, 0.907073, 0.908192, 0.795277]
    expected += [0.906699, -0.163867, 0.797426, 0.908563, 0.906324, 0.797961, 0.794199, 0.908934]
    out = compute("ROIPooling", WAVES, TWO_REGIONS, pooled_size=(2, 2), spatial_scale=0.8)
    np.testing.assert_allclose(out.ravel(), expected, atol=2e-6)


def test_cells_outside_the_image_are_zero() -> None:
    outside = np.array([[0, 20, 20, 25, 25], [-1, 0, 0, 2, 2]], np.float32)
    out = compute("ROIPooling", WAVES, outside, pooled_size=(1, 2), spatial_scale=1)
    np.testing.assert_array_equal(out, np.zeros((2, 2, 1, 2)))


def test_averages_of_regions() -> None:
    expected = [-0.467956, -0.002478, 0.327607, 0.401137, -0.211914, 0.485762, 0.518249, -0.305987]
    expected += [0.184625, -0.072803, 0.155991, 0.289219, 0.055568, 0.33107, -0.123671, 0.428481]
    out = compute("_contrib_ROIAlign", WAVES, TWO_REGIONS, pooled_size=(2, 2), spatial_scale=0.8)
    np.testing.assert_allclose(out.ravel(), expected, atol=2e-6)
    out = compute(
        "_contrib_ROIAlign",
        WAVES,
        TWO_REGIONS,
        pooled_size=(2, 1),
        spatial_scale=0.8,
        sample_ratio=2,
        position_sensitive=True,
        aligned=True,
    )
    np.testing.assert_allclose(out.ravel(), [-0.34034, 0.356172, -0.115663, 0.465904], atol=2e-6)


def test_a_region_without_an_image_is_zero() -> None:
    regions = TWO_REGIONS.copy()
    regions[0, 0] = -1
    out = compute("_contrib_ROIAlign", WAVES, regions, pooled_size=(2, 2), spatial_scale=0.8)
    np.testing.assert_array_equal(out[0], np.zeros((2, 2, 2)))
    assert np.all(out[1] != 0)


@pytest.mark.parametrize("name", ["ROIPooling", "_contrib_ROIAlign"])
def test_wrong_regions(name: str) -> None:
    with pytest.raises(MXNetError, match=r"bbox should be a 2D tensor of shape \[batch, 5\]"):
        compute(name, WAVES, REGIONS[:, :4], pooled_size=(2, 2), spatial_scale=1)
    with pytest.raises(MXNetError, match="data should be a 4D tensor"):
        compute(name, WAVES[0], REGIONS, pooled_size=(2, 2), spatial_scale=1)
    with pytest.raises(MXNetError, match="expected dimension=2"):
        compute(name, WAVES, REGIONS, pooled_size=2, spatial_scale=1)
    with pytest.raises(MXNetError, match="names image 2, but the data has 2 images"):
        compute(name, WAVES, REGIONS + np.array([1, 0, 0, 0, 0], np.float32), pooled_size=(2, 2), spatial_scale=1)
    with pytest.raises(MXNetError, match="of one dtype"):
        compute(name, WAVES, REGIONS.astype("float64"), pooled_size=(2, 2), spatial_scale=1)
