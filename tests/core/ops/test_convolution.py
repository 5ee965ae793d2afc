"""Convolution against its definition in loops, Deconvolution as its adjoint, and what wrong arguments raise."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phonograd.core.base.errors import MXNetError
from phonograd.core.ops.math.structural import leaf
from phonograd.core.ops.nn import convolution
from phonograd.core.ops.nn.convolution import convolution_weight_shape, deconvolution_weight_shape

from .checks import Sample, check_gradients, check_inference
from .samples_convolution import SAMPLES


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_shapes_are_as_inferred(sample: Sample) -> None:
    check_inference(sample)


@pytest.mark.parametrize("sample", [s for s in SAMPLES if s.order], ids=repr)
def test_gradients_of_every_order(sample: Sample) -> None:
    check_gradients(sample)


def compute(name: str, *inputs: Any, **parameters: Any) -> np.ndarray:
    return check_inference(Sample(name, inputs, parameters))[0]


def loops(data: Any, weight: Any, stride: Any, dilate: Any, pad: Any, groups: int) -> np.ndarray:
    """Return the convolution, one output element at a time."""
    kernel = weight.shape[2:]
    image = np.pad(data, [(0, 0), (0, 0), *[(p, p) for p in pad]])
    counts = [
        (size - d * (k - 1) - 1) // s + 1 for size, k, s, d in zip(image.shape[2:], kernel, stride, dilate, strict=True)
    ]
    out = np.zeros((data.shape[0], weight.shape[0], *counts))
    inputs, outputs = data.shape[1] // groups, weight.shape[0] // groups
    for f in range(weight.shape[0]):
        channels = slice(f // outputs * inputs, (f // outputs + 1) * inputs)
        for place in itertools.product(*map(range, counts)):
            window = tuple(
                slice(at * s, at * s + d * (k - 1) + 1, d)
                for at, s, d, k in zip(place, stride, dilate, kernel, strict=True)
            )
            terms = image[(slice(None), channels, *window)] * weight[f]
            out[(slice(None), f, *place)] = terms.reshape(data.shape[0], -1).sum(axis=1)
    return out


@st.composite
def problems(draw: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Draw data, weight and window of a convolution in one to three dimensions."""
    spatial, groups = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    extents = st.lists(st.integers(1, 7), min_size=spatial, max_size=spatial)

    def small(least: int, most: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(least, most), min_size=spatial, max_size=spatial)))

    window = {"kernel": small(1, 3), "stride": small(1, 3), "dilate": small(1, 2), "pad": small(0, 2)}
    reach = [d * (k - 1) + 1 - 2 * p for k, d, p in zip(window["kernel"], window["dilate"], window["pad"], strict=True)]
    extent = [max(size, least) for size, least in zip(draw(extents), reach, strict=True)]
    channels, filters = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 2))
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    data = generator.normal(size=(draw(st.integers(1, 3)), channels, *extent))
    weight = generator.normal(size=(filters, channels // groups, *window["kernel"]))
    return data, weight, {"num_filter": filters, "num_group": groups, "no_bias": True, **window}


@given(problems())
def test_convolution_is_what_the_loops_say(problem: Any) -> None:
    data, weight, parameters = problem
    expected = loops(
        data, weight, parameters["stride"], parameters["dilate"], parameters["pad"], parameters["num_group"]
    )
    np.testing.assert_allclose(compute("Convolution", data, weight, **parameters), expected, atol=1e-12)


@given(problems())
def test_deconvolution_is_the_adjoint(problem: Any) -> None:
    data, weight, parameters = problem
    out = compute("Convolution", data, weight, **parameters)
    other = np.random.default_rng(1).normal(size=out.shape)
    reach = [
        s * (n - 1) + d * (k - 1) + 1 - 2 * p
        for n, k, s, d, p in zip(
            out.shape[2:],
            parameters["kernel"],
            parameters["stride"],
            parameters["dilate"],
            parameters["pad"],
            strict=True,
        )
    ]
    adjustment = tuple(size - least for size, least in zip(data.shape[2:], reach, strict=True))
    if min(reach) < 1:
        return
    parameters = {**parameters, "num_filter": data.shape[1], "adj": adjustment}
    back = compute("Deconvolution", other, weight, **parameters)
    assert back.shape == data.shape
    np.testing.assert_allclose(np.sum(out * other), np.sum(data * back), atol=1e-10)


def test_a_large_batch_is_split_into_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    data, weight = generator.normal(size=(7, 2, 6, 6)), generator.normal(size=(3, 2, 3, 3))
    window = {"stride": (1, 1), "dilate": (1, 1), "pad": (0, 0), "groups": 1}

    def results() -> list[np.ndarray]:
        out = compute("_convolution", data, weight, **window)
        return [
            out,
            compute("_convolution_data_grad", out, weight, extent=(6, 6), **window),
            compute("_convolution_weight_grad", data, out, kernel=(3, 3), **window),
        ]

    at_once = results()
    monkeypatch.setattr(convolution, "_COLUMN_BUDGET", 2 * 18 * 16)
    for one, other in zip(at_once, results(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-11)


@pytest.mark.parametrize("name", ["Convolution", "Deconvolution"])
def test_channels_last_is_a_permutation(name: str) -> None:
    generator = np.random.default_rng(3)
    data, weight = generator.normal(size=(2, 3, 5, 4)), generator.normal(size=(3, 3, 2, 3))
    common = {"kernel": (2, 3), "num_filter": 3, "stride": (2, 1), "no_bias": True}
    first = compute(name, data, weight, **common)
    last = compute(name, np.moveaxis(data, 1, -1), np.moveaxis(weight, 1, -1), layout="NHWC", **common)
    np.testing.assert_allclose(np.moveaxis(last, -1, 1), first, atol=1e-12)


def test_half_precision_is_accumulated_in_single() -> None:
    data, weight = np.ones((1, 3000, 1), np.float16), np.ones((1, 3000, 1), np.float16)
    out = compute("Convolution", data, weight, kernel=1, num_filter=1, no_bias=True)
    assert out.item() == 3000


def test_target_shape_sets_pad_and_adj() -> None:
    generator = np.random.default_rng(4)
    data, weight = generator.normal(size=(1, 2, 5, 5)), generator.normal(size=(2, 1, 3, 3))
    common = {"kernel": (3, 3), "num_filter": 1, "stride": (2, 2)}
    by_target = compute("Deconvolution", data, weight, target_shape=(10, 9), **common)
    by_border = compute("Deconvolution", data, weight, pad=(1, 1), adj=(1, 0), **common)
    np.testing.assert_array_equal(by_target, by_border)


def test_weight_shapes() -> None:
    common = {"kernel": (5, 3), "num_filter": 8, "num_group": 2}
    assert convolution_weight_shape((1, 6, 9, 9), **common) == (8, 3, 5, 3)
    assert convolution_weight_shape((1, 9, 9, 6), layout="NHWC", **common) == (8, 5, 3, 3)
    assert deconvolution_weight_shape((1, 6, 9, 9), **common) == (6, 4, 5, 3)
    assert deconvolution_weight_shape((1, 9, 9, 6), layout="NHWC", **common) == (6, 5, 3, 4)


GOOD = {"kernel": (3, 3), "num_filter": 4}


@pytest.mark.parametrize(
    "shapes, parameters, sentence",
    [
        ([(2, 3, 5, 5), (4, 3, 3, 3)], {}, "expects 3 inputs, but got 2 instead"),
        ([(2, 3, 5, 5), (4, 3, 3, 3), (4,)], {"no_bias": True}, "expects 2 inputs, but got 3 instead"),
        ([(2, 3, 5, 5), (4, 3, 7, 7), (4,)], {"kernel": (7, 7)}, "kernel size exceed input"),
        ([(2, 3, 5, 5), (4, 3, 3, 3), (4,)], {"dilate": (3, 3)}, "kernel size exceed input"),
        ([(2, 3, 5, 5), (4, 1, 3, 3), (4,)], {"num_group": 2}, "input num_filter must divide group size"),
        ([(2, 6, 5, 5), (4, 2, 3, 3), (4,)], {"num_group": 3}, "output num_filter must divide group size"),
        (
            [(2, 3, 5, 5), (4, 2, 3, 3), (4,)],
            {},
            r"Shape inconsistent, Provided = \[4,2,3,3\], inferred shape=\(4, 3, 3, 3\)",
        ),
        ([(2, 3, 5, 5), (4, 3, 3, 3), (5,)], {}, "the bias of operator Convolution"),
        ([(2, 3, 5), (4, 3, 3, 3), (4,)], {}, "Input data should be 4D in batch-num_filter-y-x"),
        ([(2, 3, 5, 5), (4, 3, 3, 3), (4,)], {"stride": (2,)}, "Stride must have the same number of dimensions with"),
        ([(2, 3, 5, 5), (4, 3, 3, 3), (4,)], {"stride": (0, 1)}, r"incorrect stride size: \[0,1\]"),
        ([(2, 3, 5, 5), (4, 3, 3, 3), (4,)], {"pad": (-1, 1)}, r"incorrect pad size: \[-1,1\]"),
        (
            [(2, 3, 5, 5), (4, 3, 3, 3), (4,)],
            {"num_filter": 0},
            "value 0 for Parameter num_filter should be greater equal to 1",
        ),
        ([(2, 3, 5, 5), (4, 3, 3, 3), (4,)], {"layout": "NCW"}, "Invalid layout for 4d shape"),
        ([(2,), (4,), (4,)], {"kernel": ()}, "0D convolution not supported"),
    ],
)
def test_wrong_arguments_of_convolution(shapes: Any, parameters: dict[str, Any], sentence: str) -> None:
    nodes = [leaf(index, shape, np.dtype("float32")) for index, shape in enumerate(shapes)]
    with pytest.raises(MXNetError, match=sentence):
        convolution.convolution(*nodes, **{**GOOD, **parameters})


@pytest.mark.parametrize(
    "shapes, parameters, sentence",
    [
        ([(2, 3, 5, 5), (3, 4, 3, 3), (4,)], {}, "expects 2 inputs, but got 3 instead"),
        ([(2, 3, 5, 5), (4, 3, 3, 3)], {}, r"inferred shape=\(3, 4, 3, 3\)"),
        ([(2, 3, 5, 5), (3, 4, 3, 3)], {"stride": (2, 2), "adj": (2, 1)}, "adj must be smaller than stride"),
        ([(2, 3, 5, 5), (3, 4, 3, 3)], {"stride": (2, 2), "target_shape": (20, 20)}, "too big target shape"),
        ([(2, 3, 1, 1), (3, 4, 3, 3)], {"pad": (2, 2)}, "is too large for the full output of the kernel"),
        ([(2, 3, 5, 5), (3, 4, 3, 3)], {"adj": (0,)}, "Adjustment must have the same number of dimensions"),
    ],
)
def test_wrong_arguments_of_deconvolution(shapes: Any, parameters: dict[str, Any], sentence: str) -> None:
    nodes = [leaf(index, shape, np.dtype("float32")) for index, shape in enumerate(shapes)]
    with pytest.raises(MXNetError, match=sentence):
        convolution.deconvolution(*nodes, **{**GOOD, **parameters})


def test_dtypes_must_be_floating_and_equal() -> None:
    shapes = [(2, 3, 5, 5), (4, 3, 3, 3), (4,)]
    integers = [leaf(index, shape, np.dtype("int32")) for index, shape in enumerate(shapes)]
    with pytest.raises(MXNetError, match="only support floating point types, not int32"):
        convolution.convolution(*integers, **GOOD)
    mixed = [leaf(i, shape, np.dtype("float32" if i else "float64")) for i, shape in enumerate(shapes)]
    with pytest.raises(
        MXNetError, match=r"requires uniform type\. Expected 'float64' v\.s\. given 'float32' at 'weight'"
    ):
        convolution.convolution(*mixed, **GOOD)


def test_columns_times_weights_is_convolution() -> None:
    generator = np.random.default_rng(5)
    data, weight = generator.normal(size=(2, 3, 5, 6)), generator.normal(size=(4, 3, 2, 3))
    window = {"kernel": (2, 3), "stride": (2, 1), "dilate": (1, 2), "pad": (1, 0)}
    columns = compute("im2col", data, **window)
    out = compute("Convolution", data, weight, num_filter=4, no_bias=True, **window)
    np.testing.assert_allclose((weight.reshape(4, -1) @ columns).reshape(out.shape), out, atol=1e-12)
    assert columns.shape == (2, 18, math.prod(out.shape[2:]))


@pytest.mark.parametrize(
    "name, shape, parameters, sentence",
    [
        ("im2col", (2, 3, 5, 5), {"kernel": (7, 2)}, "kernel size exceed input"),
        ("im2col", (2, 3, 5), {"kernel": (2, 2)}, "Input data should be 4D"),
        ("col2im", (2, 12, 15), {"kernel": (2, 2), "output_size": (5, 5)}, "output size does not match convolution"),
        ("col2im", (2, 13, 16), {"kernel": (2, 2), "output_size": (5, 5)}, "should be multiples of kernel size"),
        ("col2im", (2, 12, 16), {"kernel": (2, 2), "output_size": (5,)}, "Output size must have the same number"),
    ],
)
def test_wrong_arguments_of_columns(name: str, shape: Any, parameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MXNetError, match=sentence):
        compute(name, np.zeros(shape, np.float32), **parameters)
