"""Cases of Convolution, Deconvolution, UpSampling, im2col and col2im."""

from __future__ import annotations

from typing import Any

from ..case import Family, normal

family = Family("convolution", tolerance="product")

# Spatial shape of the data, kernel and what else distinguishes the case.
CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((6,), (3,), {}),
    ((7,), (3,), {"stride": (2,), "pad": (1,)}),
    ((9,), (3,), {"dilate": (2,)}),
    ((5,), (1,), {}),
    ((5, 4), (3, 3), {}),
    ((5, 4), (3, 2), {"pad": (1, 1)}),
    ((6, 5), (3, 3), {"stride": (2, 2), "pad": (1, 1)}),
    ((6, 7), (2, 3), {"stride": (1, 2), "pad": (0, 2)}),
    ((7, 7), (3, 3), {"dilate": (2, 2)}),
    ((7, 6), (3, 2), {"dilate": (2, 3), "pad": (2, 1), "stride": (2, 1)}),
    ((3, 3), (1, 1), {}),
    ((4, 4), (1, 1), {"stride": (2, 2)}),
    ((4, 4), (4, 4), {}),
    ((3, 4, 3), (2, 2, 2), {}),
    ((3, 4, 4), (2, 3, 2), {"stride": (1, 2, 2), "pad": (1, 1, 0)}),
    ((5, 5, 4), (2, 2, 2), {"dilate": (2, 1, 2)}),
]
for space, kernel, options in CONVOLUTIONS:
    data, weight = normal(2, 2, *space), normal(3, 2, *kernel)
    family.call("nd.Convolution", data, weight, normal(3), kernel=kernel, num_filter=3, **options)
    family.call("nd.Convolution", data, weight, kernel=kernel, num_filter=3, no_bias=True, **options)
DOUBLE = "float64"
for space, kernel, options in (CONVOLUTIONS[1], CONVOLUTIONS[6], CONVOLUTIONS[9], CONVOLUTIONS[14]):
    operands = normal(1, 2, *space, dtype=DOUBLE), normal(3, 2, *kernel, dtype=DOUBLE), normal(3, dtype=DOUBLE)
    family.call("nd.Convolution", *operands, kernel=kernel, num_filter=3, **options)
for groups, channels, filters in ((2, 4, 4), (4, 4, 4), (3, 3, 6), (2, 2, 6)):
    for space, kernel, options in (CONVOLUTIONS[1], CONVOLUTIONS[6], CONVOLUTIONS[8], CONVOLUTIONS[13]):
        operands = normal(2, channels, *space), normal(filters, channels // groups, *kernel), normal(filters)
        family.call("nd.Convolution", *operands, kernel=kernel, num_filter=filters, num_group=groups, **options)
family.call("nd.Convolution", normal(1, 16, 4, 4), normal(16, 16, 3, 3), kernel=(3, 3), num_filter=16, no_bias=True)
family.call(
    "nd.Convolution", normal(1, 2, 5, 5), normal(3, 2, 3, 3), normal(3), kernel=(3, 3), num_filter=3, layout="NCHW"
)
family.call(
    "nd.Convolution", normal(1, 5, 5, 2), normal(3, 3, 3, 2), normal(3), kernel=(3, 3), num_filter=3, layout="NHWC"
)
family.call("nd.Convolution", normal(1, 2, 5), normal(3, 2, 3), normal(3), kernel=(3,), num_filter=3, layout="NCW")
family.call("nd.Convolution", normal(1, 2, 5, 5), normal(3, 2, 3, 3), normal(3), kernel=(3, 3), num_filter=4)
family.call("nd.Convolution", normal(1, 2, 5, 5), normal(3, 3, 3, 3), normal(3), kernel=(3, 3), num_filter=3)
family.call("nd.Convolution", normal(1, 2, 2, 2), normal(3, 2, 3, 3), normal(3), kernel=(3, 3), num_filter=3)
family.call(
    "nd.Convolution", normal(1, 3, 5, 5), normal(3, 1, 3, 3), normal(3), kernel=(3, 3), num_filter=3, num_group=2
)
family.call("nd.Convolution", normal(1, 2, 5, 5), normal(3, 2, 3, 3), normal(3), kernel=(3,), num_filter=3)

DECONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((5,), (3,), {}),
    ((5,), (3,), {"stride": (2,), "pad": (1,), "adj": (1,)}),
    ((4,), (3,), {"stride": (2,), "target_shape": (8,)}),
    ((3, 4), (3, 3), {}),
    ((3, 4), (2, 3), {"pad": (1, 1)}),
    ((3, 3), (3, 3), {"stride": (2, 2), "pad": (1, 1)}),
    ((3, 3), (3, 3), {"stride": (2, 2), "pad": (1, 1), "adj": (1, 1)}),
    ((3, 3), (4, 4), {"stride": (2, 2), "pad": (1, 1)}),
    ((3, 4), (3, 2), {"stride": (2, 3), "adj": (1, 2)}),
    ((3, 3), (3, 3), {"stride": (2, 2), "target_shape": (6, 6)}),
    ((3, 3), (3, 3), {"stride": (2, 2), "target_shape": (7, 7)}),
    ((3, 3), (2, 2), {"dilate": (2, 2)}),
    ((2, 3), (1, 1), {}),
    ((2, 3, 2), (2, 2, 2), {}),
    ((2, 2, 2), (3, 2, 3), {"stride": (2, 1, 2), "pad": (1, 0, 1), "adj": (1, 0, 1)}),
]
for space, kernel, options in DECONVOLUTIONS:
    data, weight = normal(2, 2, *space), normal(2, 3, *kernel)
    family.call("nd.Deconvolution", data, weight, kernel=kernel, num_filter=3, **options)
    family.call("nd.Deconvolution", data, weight, normal(3), kernel=kernel, num_filter=3, no_bias=False, **options)
for space, kernel, options in (DECONVOLUTIONS[1], DECONVOLUTIONS[6]):
    operands = normal(1, 2, *space, dtype=DOUBLE), normal(2, 3, *kernel, dtype=DOUBLE)
    family.call("nd.Deconvolution", *operands, kernel=kernel, num_filter=3, **options)
for groups, channels, filters in ((2, 4, 4), (3, 3, 6), (4, 4, 4)):
    for space, kernel, options in (DECONVOLUTIONS[1], DECONVOLUTIONS[6], DECONVOLUTIONS[13]):
        operands = normal(2, channels, *space), normal(channels, filters // groups, *kernel)
        family.call("nd.Deconvolution", *operands, kernel=kernel, num_filter=filters, num_group=groups, **options)
family.call("nd.Deconvolution", normal(1, 2, 3, 3), normal(2, 3, 3, 3), kernel=(3, 3), num_filter=3, adj=(2, 2))
family.call("nd.Deconvolution", normal(1, 2, 3, 3), normal(3, 2, 3, 3), kernel=(3, 3), num_filter=3)

for scale in (1, 2, 3):
    family.call("nd.UpSampling", normal(1, 2, 2, 3), scale=scale, sample_type="nearest", tolerance="sum")
family.call("nd.UpSampling", normal(1, 2, 2, 3, dtype="float64"), scale=2, sample_type="nearest", tolerance="sum")
family.call("nd.UpSampling", normal(1, 2, 2, 3, dtype="float16"), scale=2, sample_type="nearest", tolerance="sum")
family.call(
    "nd.UpSampling", normal(1, 2, 2, 2), normal(1, 1, 4, 4), scale=4, sample_type="nearest", num_args=2, tolerance="sum"
)
family.call(
    "nd.UpSampling",
    normal(1, 2, 2, 2),
    normal(1, 2, 4, 4),
    scale=4,
    sample_type="nearest",
    num_args=2,
    multi_input_mode="sum",
    tolerance="sum",
)
family.call(
    "nd.UpSampling", normal(1, 2, 3, 3), normal(2, 1, 4, 4), scale=2, sample_type="bilinear", num_filter=2, num_args=2
)

for space, kernel, options in (CONVOLUTIONS[4], CONVOLUTIONS[6], CONVOLUTIONS[9]):
    family.call("nd.im2col", normal(2, 2, *space), kernel=kernel, tolerance="sum", **options)
family.call("nd.col2im", normal(1, 18, 9), output_size=(5, 5), kernel=(3, 3), tolerance="sum")
family.call("nd.col2im", normal(1, 8, 9), output_size=(4, 4), kernel=(2, 2), stride=(2, 2), pad=(1, 1), tolerance="sum")
