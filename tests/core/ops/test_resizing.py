"""Resizing, sampling and correlation against values recorded from MXNet 1.9.1, and what wrong arguments raise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import differentiate
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.ops.vision import resizing  # noqa: F401
from phonograd.core.ops.vision.spatial_sampling import bilinear_sampler
from phonograd.core.run.reference import evaluate

from .checks import Sample, check_gradients, check_inference
from .samples_resizing import SAMPLES, array

WAVES = np.cos(np.arange(120) * 1.3).reshape(2, 2, 5, 6).astype(np.float32)


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_shapes_are_as_inferred(sample: Sample) -> None:
    check_inference(sample)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.order], ids=repr)
def test_gradients_of_every_order(sample: Sample) -> None:
    check_gradients(sample)


def compute(name: str, *inputs: Any, **parameters: Any) -> np.ndarray:
    return check_inference(Sample(name, inputs, parameters))[0]


# -- resizing


@pytest.mark.parametrize(
    "align, expected",
    [
        (True, [1, -0.856889, 0.369304, -0.659619, -0.295422, -0.108539, -0.994178, 0.796352]),
        (False, [0.816875, -0.575792, 0.183538, -0.626965, -0.437068, -0.221735, -0.838075, 0.504822]),
    ],
)
def test_resized_values(align: bool, expected: list[float]) -> None:
    out = compute("_contrib_BilinearResize2D", WAVES[:1, :1, :3, :3], height=4, width=2, align_corners=align)
    np.testing.assert_allclose(out.ravel(), expected, atol=2e-6)


@pytest.mark.parametrize(
    "size, options, expected",
    [
        ((5, 7), {"scale_height": 1.5, "scale_width": 2}, (7, 14)),
        ((5, 8), {"mode": "odd_scale", "scale_height": 2, "scale_width": 2}, (9, 16)),
        ((5, 8), {"mode": "odd_scale", "scale_height": 0.3, "scale_width": 0.3}, (2, 2)),
        ((6, 7), {"mode": "odd_scale", "scale_height": 1.5, "scale_width": 1.5}, (9, 10)),
        ((5, 8), {"mode": "to_even_down"}, (4, 8)),
        ((5, 8), {"mode": "to_even_up"}, (6, 8)),
        ((5, 8), {"mode": "to_odd_down"}, (5, 7)),
        ((5, 8), {"mode": "to_odd_up"}, (5, 9)),
    ],
)
def test_sizes_of_modes(size: Any, options: dict[str, Any], expected: Any) -> None:
    out = compute("_contrib_BilinearResize2D", np.ones((1, 2, *size), np.float32), **options)
    assert out.shape[2:] == expected
    np.testing.assert_allclose(out, 1)


def test_wrong_arguments_of_resizing() -> None:
    data, like = array(1, 1, 3, 3), array(1, 1, 2, 2)
    with pytest.raises(MXNetError, match="expects 2 inputs, but got 1 instead"):
        compute("_contrib_BilinearResize2D", data, mode="like")
    with pytest.raises(MXNetError, match="expects 1 inputs, but got 2 instead"):
        compute("_contrib_BilinearResize2D", data, like)
    with pytest.raises(MXNetError, match="value 0 for Parameter height should be greater equal to 1"):
        compute("_contrib_BilinearResize2D", data, height=0)
    with pytest.raises(MXNetError, match="both scale_height and scale_width"):
        compute("_contrib_BilinearResize2D", data, scale_height=2)
    with pytest.raises(MXNetError, match="needs scale_height for mode='odd_scale'"):
        compute("_contrib_BilinearResize2D", data, mode="odd_scale")
    with pytest.raises(MXNetError, match="would make width 0 from 3"):
        compute("_contrib_BilinearResize2D", data, scale_height=1, scale_width=0.2)
    with pytest.raises(MXNetError, match="should be 4D"):
        compute("_contrib_BilinearResize2D", data[0])


def test_upsampling() -> None:
    data = np.array([[[[1, 2], [3, 4]]]], np.float32)
    rows = [[1, 1, 2, 2], [1, 1, 2, 2], [3, 3, 4, 4], [3, 3, 4, 4]]
    np.testing.assert_array_equal(compute("UpSampling", data, scale=2, sample_type="nearest"), [[rows]])
    weight = np.cos(np.arange(16)).reshape(1, 1, 4, 4).astype(np.float32)
    out = compute("UpSampling", WAVES[:1, :1, :2, :2], weight, scale=2, sample_type="bilinear", num_filter=1)
    expected = [0.283662, 0.785321, 0.829782, 0.256844, -0.881978, -1.848168, -0.804772, 0.169941]
    expected += [0.922752, 1.033746, -0.745103, -0.873397, -0.04916, 0.092621, 0.863737, 0.795206]
    np.testing.assert_allclose(out.ravel(), expected, atol=2e-6)


@pytest.mark.parametrize(
    "inputs, options, sentence",
    [
        ([(1, 2, 2, 2)], {"scale": 0, "sample_type": "nearest"}, "value 0 for Parameter scale"),
        ([(1, 2, 2)], {"scale": 2, "sample_type": "nearest"}, "should be 4D in"),
        ([(1, 2, 4, 6), (1, 2, 3, 3)], {"scale": 2, "sample_type": "nearest"}, "input height of 3 does not divide"),
        (
            [(1, 2, 2, 2), (1, 1, 2, 2)],
            {"scale": 2, "sample_type": "nearest", "multi_input_mode": "sum"},
            "Number of channels must be the same",
        ),
        ([(1, 2, 2, 2)], {"scale": 2, "sample_type": "bilinear", "num_filter": 2}, "expects 2 inputs, but got 1"),
        ([(1, 2, 2, 2), (2, 1, 4, 4)], {"scale": 2, "sample_type": "bilinear"}, "must be the number of channels, 2"),
        (
            [(1, 2, 2, 2), (2, 1, 3, 3)],
            {"scale": 2, "sample_type": "bilinear", "num_filter": 2},
            "Shape inconsistent",
        ),
    ],
)
def test_wrong_arguments_of_upsampling(inputs: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MXNetError, match=sentence):
        compute("UpSampling", *[np.ones(shape, np.float32) for shape in inputs], **options)


# -- sampling


def test_sampled_values_and_gradient_of_the_grid() -> None:
    grid = np.array([[[[-0.9, 0.1, 1.3]], [[0.4, -1.2, -0.3]]]], np.float32)
    data, places = leaf(0, (1, 1, 5, 6), WAVES.dtype), leaf(1, grid.shape, grid.dtype)
    target = variable(places, 1)
    out = bilinear_sampler(data, target)
    grad = differentiate((out,), (None,)).targets[target]
    assert grad is not None
    value, slope = evaluate([out, grad], {data: WAVES[:1, :1], places: grid})
    np.testing.assert_allclose(value.ravel(), [-0.082794, -0.455203, -0.123725], atol=2e-6)
    expected = [2.45032, 0.196435, 1.237253, 1.888204, -1.517343, -0.415984]
    np.testing.assert_allclose(slope.ravel(), expected, atol=1e-5)


def test_places_that_are_not_numbers_read_zero() -> None:
    grid = np.array([[[[np.nan, np.inf, -np.inf]], [[0, 0, 0]]]], np.float32)
    np.testing.assert_array_equal(compute("BilinearSampler", WAVES[:1, :1], grid), np.zeros((1, 1, 1, 3)))


def test_the_identity_grid_returns_the_image() -> None:
    identity = np.array([[1, 0, 0, 0, 1, 0]] * 2, np.float32)
    grid = compute("GridGenerator", identity, transform_type="affine", target_shape=(5, 6))
    np.testing.assert_allclose(compute("BilinearSampler", WAVES, grid), WAVES, atol=1e-6)
    flow = np.zeros((2, 2, 5, 6), np.float32)
    np.testing.assert_allclose(compute("GridGenerator", flow, transform_type="warp"), grid, atol=1e-6)


def test_transformed_values() -> None:
    loc = np.array([[0.7, 0.13, 0.3, -0.2, 1.1, 0.05]], np.float32)
    out = compute(
        "SpatialTransformer",
        WAVES[:1, :1],
        loc,
        target_shape=(2, 3),
        transform_type="affine",
        sampler_type="bilinear",
    )
    np.testing.assert_allclose(out.ravel(), [-0.214501, -0.662178, 0.405732, -0.155264, -0.146775, 0.611201], atol=2e-6)
    warped = compute("GridGenerator", WAVES[:1, :, :2, :3], transform_type="warp")
    expected = [0, 0.267499, 0.143111, -0.946045, -0.947722, 0.439016]
    expected += [-0.466714, -2.714692, -2.450642, -0.896009, -0.120498, 2.296546]
    np.testing.assert_allclose(warped.ravel(), expected, atol=2e-6)


def test_wrong_arguments_of_sampling() -> None:
    data = array(2, 3, 4, 5)
    for grid, sentence in (
        (array(2, 3, 6, 7), r"incorrect grid shape\[1\], should be 2"),
        (array(1, 2, 6, 7), "same batch size"),
        (array(2, 2, 6), "Sampler grid should be 4D in batch-2-y-x"),
        (array(2, 2, 6, 7, dtype="float64"), "Non-uniform data type in BilinearSampler"),
    ):
        with pytest.raises(MXNetError, match=sentence):
            compute("BilinearSampler", data, grid)
    with pytest.raises(MXNetError, match="incorrect target_shape"):
        compute("GridGenerator", array(2, 6), transform_type="affine")
    with pytest.raises(MXNetError, match=r"incorrect data shape\[1\], should be 6"):
        compute("GridGenerator", array(2, 5), transform_type="affine", target_shape=(2, 2))
    with pytest.raises(MXNetError, match=r"incorrect data shape\[1\], should be 2"):
        compute("GridGenerator", array(2, 3, 4, 4), transform_type="warp")


# -- correlation


def test_correlated_values() -> None:
    out = compute("Correlation", WAVES[:1], WAVES[1:], kernel_size=3, max_displacement=1, stride1=2, pad_size=1)
    expected = [0.216254, 0.32492, 0.325261, 0.49528, 0.156783, 0.156292, 0.234, 0.242941, -0.242203]
    expected += [-0.241304, -0.373492, -0.365307, 0.09638, 0.139633, 0.096386, 0.141187, -0.439287, -0.434795]
    expected += [-0.439295, -0.432809, -0.364012, -0.372247, -0.366184, -0.372739, -0.316546, -0.481755]
    expected += [-0.211581, -0.317001, -0.279156, -0.288692, -0.185369, -0.186078, 0.334688, 0.327306]
    np.testing.assert_allclose(out.ravel(), [*expected, 0.216734, 0.21745], atol=2e-6)


def test_the_distance_of_an_array_to_itself_is_zero_without_displacement() -> None:
    out = compute("Correlation", WAVES, WAVES, max_displacement=1, pad_size=1, is_multiply=False)
    assert out.shape == (2, 9, 5, 6)
    np.testing.assert_array_equal(out[:, 4], 0)
    assert np.all(out[:, 0] > 0)


def test_wrong_arguments_of_correlation() -> None:
    data = array(1, 3, 8, 8)
    with pytest.raises(MXNetError, match="kernel size should be odd number"):
        compute("Correlation", data, data, kernel_size=2)
    with pytest.raises(MXNetError, match="two arrays of one shape"):
        compute("Correlation", data, data[..., :7])
    with pytest.raises(MXNetError, match="Neighborhood and kernel don't fit in blob"):
        compute("Correlation", data, data, max_displacement=4)
    with pytest.raises(MXNetError, match="value 0 for Parameter stride1"):
        compute("Correlation", data, data, stride1=0)
