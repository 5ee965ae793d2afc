"""Cases of quantized operators: conversions, products, layers and calibration."""

from __future__ import annotations

import numpy as np

from ..case import Family, Spec, integers, normal, uniform, values

family = Family("quantization", tolerance="sum")

SMALL = (2, 12, 5, 5)


def number(value: float) -> Spec:
    """Return an array of one element."""
    return values([value])


def signed(*shape: int) -> Spec:
    """Return int8 numbers."""
    return integers(*shape, dtype="int8", low=-127, high=128)


def weights(*shape: int) -> Spec:
    """Return int8 numbers so small that MXNet's products of pairs do not saturate at 16 bits."""
    return integers(*shape, dtype="int8", low=-63, high=64)


def unsigned(*shape: int) -> Spec:
    """Return uint8 numbers."""
    return integers(*shape, dtype="uint8", low=0, high=256)


def limits(*pairs: tuple[float, float]) -> list[Spec]:
    """Return the limits of several arrays, one after the other."""
    return [number(limit) for pair in pairs for limit in pair]


# -- conversions

for out_type in ("int8", "uint8"):
    family.call("nd.contrib.quantize", normal(3, 7), number(-2.5), number(2.0), out_type=out_type, grad=False)
    family.call("nd.contrib.quantize_v2", uniform(3, 7, low=-1, high=3), out_type=out_type, grad=False)
for options in (
    {},
    {"min_calib_range": -1.5, "max_calib_range": 2.0},
    {"min_calib_range": 0.0, "max_calib_range": 2.0, "out_type": "auto"},
    {"min_calib_range": -0.5, "max_calib_range": 2.0, "out_type": "auto"},
    {"min_calib_range": 0.0, "max_calib_range": 1.0, "out_type": "uint8"},
):
    family.call("nd.contrib.quantize_v2", normal(*SMALL), **options, grad=False)
    family.call("nd.contrib.quantize_v2", normal(40), **options, grad=False)
    family.call(
        "nd.contrib.requantize",
        integers(4, 9, dtype="int32", low=-90000, high=90000),
        *limits((-40000, 40000)),
        **options,
        grad=False,
    )
family.call("nd.contrib.quantize_v2", signed(2, 3), grad=False)
family.call("nd.contrib.quantize_v2", unsigned(2, 3), min_calib_range=0.0, max_calib_range=3.0, grad=False)
for data in (signed(3, 7), unsigned(3, 7), signed(*SMALL)):
    family.call("nd.contrib.dequantize", data, *limits((-2.0, 1.5)), grad=False)
family.call("nd.contrib.dequantize", normal(2, 2), *limits((-2.0, 1.5)), grad=False)

# -- products

for data in (signed(4, 30), unsigned(4, 30)):
    family.call(
        "nd.contrib.quantized_fully_connected",
        *(data, weights(6, 30), signed(6), *limits((-1.0, 2.0), (-0.5, 0.25), (-3.0, 1.0))),
        num_hidden=6,
        grad=False,
    )
    family.call(
        "nd.contrib.quantized_fully_connected",
        *(data, weights(6, 30), *limits((-1.0, 2.0), (-0.5, 0.25))),
        num_hidden=6,
        no_bias=True,
        grad=False,
    )
family.call(
    "nd.contrib.quantized_fully_connected",
    *(signed(2, 3, 8), weights(5, 8), *limits((-1.0, 2.0), (-0.5, 0.25))),
    num_hidden=5,
    no_bias=True,
    flatten=False,
    grad=False,
)
for options in (
    {"kernel": (3, 3)},
    {"kernel": (3, 3), "pad": (1, 1), "stride": (2, 2)},
    {"kernel": (1, 1)},
):
    shape = (8, 12, *options["kernel"])
    family.call(
        "nd.contrib.quantized_conv",
        *(unsigned(*SMALL), weights(*shape), *limits((0.0, 2.0), (-0.5, 0.25))),
        **{**options, "num_filter": 8, "no_bias": True, "grad": False},
    )
family.call(
    "nd.contrib.quantized_conv",
    *(unsigned(*SMALL), weights(8, 12, 3, 3), signed(8), *limits((0.0, 2.0), (-0.5, 0.25), (-1.0, 1.0))),
    kernel=(3, 3),
    num_filter=8,
    grad=False,
)
family.call(
    "nd.contrib.quantized_conv",
    *(signed(*SMALL), weights(8, 12, 3, 3), *limits((-2.0, 2.0), (-0.5, 0.25))),
    kernel=(3, 3),
    num_filter=8,
    no_bias=True,
    grad=False,
)

# -- other layers

for data in (signed(*SMALL), unsigned(*SMALL)):
    for options in (
        {"kernel": (2, 2), "pool_type": "max", "stride": (2, 2)},
        {"kernel": (3, 3), "pool_type": "max", "pad": (1, 1)},
        {"kernel": (2, 2), "pool_type": "avg", "stride": (2, 2)},
        {"kernel": (3, 3), "pool_type": "avg", "pad": (1, 1)},
        {"kernel": (3, 3), "pool_type": "avg", "pad": (1, 1), "count_include_pad": False},
        {"kernel": (1, 1), "pool_type": "avg", "global_pool": True},
        {"kernel": (2, 2), "pool_type": "avg", "stride": (2, 2), "pooling_convention": "full"},
        {"kernel": (2, 2), "pool_type": "max", "stride": (2, 2), "pooling_convention": "full"},
    ):
        family.call("nd.contrib.quantized_pooling", data, *limits((-1.0, 1.0)), **options, grad=False)
    family.call("nd.contrib.quantized_act", data, *limits((-1.0, 1.0)), act_type="relu", grad=False)
    family.call("nd.contrib.quantized_flatten", data, *limits((-1.0, 1.0)), grad=False)
family.call(
    "nd.contrib.quantized_pooling", signed(*SMALL), *limits((-1.0, 1.0)), pool_type="sum", kernel=(2, 2), grad=False
)

for first, second in ((signed, signed), (unsigned, unsigned), (signed, unsigned), (unsigned, signed)):
    pair = [first(*SMALL), second(*SMALL)]
    family.call("nd.contrib.quantized_concat", *pair, *limits((-1.0, 2.0), (-3.0, 0.5)), dim=1, num_args=2, grad=False)
    family.call("nd.contrib.quantized_elemwise_add", *pair, *limits((-1.0, 2.0), (-3.0, 0.5)), grad=False)
    family.call(
        "nd.contrib.quantized_elemwise_add",
        *(*pair, *limits((-1.0, 2.0), (-3.0, 0.5))),
        min_calib_range=-4.0,
        max_calib_range=3.0,
        grad=False,
    )
for data in (signed(*SMALL), unsigned(*SMALL)):
    family.call(
        "nd.contrib.quantized_batch_norm",
        *(data, uniform(12, low=0.5, high=2), normal(12), normal(12), uniform(12, low=0.5, high=2)),
        *limits((-1.0, 2.0)),
        min_calib_range=-6.0,
        max_calib_range=6.0,
        grad=False,
    )
family.call(
    "nd.contrib.quantized_embedding",
    *(integers(2, 3, low=0, high=7), signed(7, 4), *limits((-1.0, 2.0))),
    input_dim=7,
    output_dim=4,
    grad=False,
)

# -- windows, ranges and axes of all kinds

for shape, options in (
    ((2, 3, 7, 6), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pooling_convention": "full"}),
    ((2, 3, 7, 6), {"kernel": (3, 2), "stride": (1, 2), "pad": (1, 0)}),
    ((1, 2, 4, 4, 4), {"kernel": (2, 2, 2)}),
):
    for kind, is_counted in (("max", True), ("avg", True), ("avg", False)):
        for data in (signed(*shape), unsigned(*shape)):
            family.call(
                "nd.contrib.quantized_pooling",
                *(data, *limits((-1.0, 2.0))),
                **{**options, "pool_type": kind, "count_include_pad": is_counted, "grad": False},
            )
for dim, parts in (
    (1, (signed(2, 3, 4), unsigned(2, 1, 4), signed(2, 2, 4))),
    (2, (unsigned(2, 3, 4), unsigned(2, 3, 1), unsigned(2, 3, 2))),
    (0, (signed(2, 3), signed(1, 3), unsigned(4, 3), unsigned(3, 3))),
):
    ends = [(-0.5, 2.0), (0.0, 3.0), (-2.5, 1.0), (0.0, 0.5)][: len(parts)]
    family.call("nd.contrib.quantized_concat", *parts, *limits(*ends), dim=dim, num_args=len(parts), grad=False)
for data in (signed(2, 4, 3, 4), unsigned(2, 4, 3, 4), signed(6, 4)):
    for axis, ends in ((1, (0.0, 2.0)), (1, (-5.0, 1.0)), (-1, (-3.0, 3.0))):
        family.call(
            "nd.contrib.quantized_batch_norm",
            *(data, uniform(4, low=0.5, high=2), normal(4), normal(4), uniform(4, low=0.5, high=2)),
            *limits((-1.5, 2.0)),
            min_calib_range=ends[0],
            max_calib_range=ends[1],
            axis=axis,
            fix_gamma=False,
            grad=False,
        )
for dtype in ("float32", "int32", "int64", "uint8"):
    family.call(
        "nd.contrib.quantized_embedding",
        # rows before the first and after the last one are the first and the last
        *(integers(2, 5, low=0 if dtype == "uint8" else -2, high=10, dtype=dtype), signed(7, 4), *limits((-1.0, 2.0))),
        input_dim=7,
        output_dim=4,
        grad=False,
    )
for low, high in ((2.0, -1.0), (1.0, 3.0), (-3.0, -1.0), (1e-30, 1e-30), (-1e30, 1e30), (0.0, 0.0)):
    for out_type in ("int8", "uint8", "auto"):
        ends = {"min_calib_range": low, "max_calib_range": high, "out_type": out_type}
        family.call("nd.contrib.quantize_v2", normal(3, 5), **ends, grad=False)
        family.call(
            "nd.contrib.requantize",
            *(integers(3, 5, dtype="int32", low=-(10**6), high=10**6), *limits((-3000.0, 2500.0))),
            **ends,
            grad=False,
        )
for first, second in ((signed, signed), (unsigned, unsigned), (signed, unsigned)):
    family.call(
        "nd.contrib.quantized_elemwise_add",
        *(first(3, 7), second(3, 7), *limits((-1.0, 2.0), (0.0, 3.0))),
        min_calib_range=0.0,
        max_calib_range=3.0,
        grad=False,
    )
family.call(
    "nd.contrib.quantized_conv",
    *(unsigned(2, 8, 6, 6), weights(8, 8, 3, 3), *limits((0.0, 2.0), (-0.5, 0.25))),
    kernel=(3, 3),
    dilate=(2, 2),
    num_filter=8,
    no_bias=True,
    grad=False,
)

# -- calibration

EDGES = [float(edge) / 8 - 4.0625 for edge in range(66)]
for levels in (15, 31):
    family.call(
        "nd.contrib.calibrate_entropy",
        *(integers(65, low=0, high=50), values(EDGES)),
        num_quantized_bins=levels,
        grad=False,
    )
BELL = [0, 0, 1, 0, 2, 1, 4, 6, 9, 20, 34, 60, 90, 130, 190, 240, 300, 350, 400, 410, 420, 410, 400]
family.call(
    "nd.contrib.calibrate_entropy",
    *(values([float(count) for count in [*BELL, 405, *BELL[::-1]]]), values([edge / 10 - 2.35 for edge in range(48)])),
    num_quantized_bins=7,
    grad=False,
)
# 8001 bins, as calibration makes them: the errors of MXNet's sums decide between thresholds
WIDE = [edge / 1000 - 4.0005 for edge in range(8002)]
for levels in (255, 511):
    for high in (3, 60):
        family.call(
            "nd.contrib.calibrate_entropy",
            *(integers(8001, low=0, high=high), values(WIDE)),
            num_quantized_bins=levels,
            grad=False,
            tag=f"below {high}",
        )

# -- random shapes and parameters

RANDOM = np.random.RandomState(19)


def sizes(count: int, low: int = 1, high: int = 9) -> tuple[int, ...]:
    """Return random extents."""
    return tuple(int(size) for size in RANDOM.randint(low, high, count))


def interval() -> tuple[float, float]:
    """Return random limits around zero."""
    return -float(np.round(RANDOM.uniform(0.1, 4), 3)), float(np.round(RANDOM.uniform(0.1, 4), 3))


for number_of_case in range(5):
    data = (signed, unsigned)[number_of_case % 2]
    rows, terms, units = sizes(3, 1, 70)
    family.call(
        "nd.contrib.quantized_fully_connected",
        *(data(rows, terms), weights(units, terms), signed(units), *limits(interval(), interval(), interval())),
        num_hidden=units,
        grad=False,
    )
    low, high = interval()
    shape = sizes(1 + number_of_case % 4)
    family.call("nd.contrib.quantize", normal(*shape), number(low), number(high), out_type="int8", grad=False)
    family.call("nd.contrib.quantize_v2", normal(*shape), min_calib_range=low, max_calib_range=high, grad=False)
    family.call("nd.contrib.dequantize", data(*shape), *limits((low, high)), grad=False)
    family.call(
        "nd.contrib.requantize",
        integers(*shape, dtype="int32", low=-(10**6), high=10**6),
        *limits((-9000.0, 9000.0)),
        min_calib_range=low,
        max_calib_range=high,
        grad=False,
    )
    batch, channels, height, width = sizes(4, 2, 10)
    image = data(batch, channels, height, width)
    window = {"kernel": sizes(2, 1, 4), "stride": sizes(2, 1, 3), "pool_type": ("max", "avg")[number_of_case % 2]}
    family.call("nd.contrib.quantized_pooling", image, *limits((low, high)), **window, grad=False)
    family.call("nd.contrib.quantized_flatten", image, *limits((low, high)), grad=False)
    family.call(
        "nd.contrib.quantized_concat",
        *(data(batch, channels, 3), data(batch, width, 3), *limits(interval(), interval())),
        dim=1,
        num_args=2,
        grad=False,
    )
    family.call(
        "nd.contrib.quantized_elemwise_add",
        *(data(*shape), data(*shape), *limits(interval(), interval())),
        min_calib_range=low,
        max_calib_range=high,
        grad=False,
    )
    family.call("nd.contrib.quantized_act", signed(*shape), *limits((low, high)), act_type="relu", grad=False)
    family.call(
        "nd.contrib.quantized_batch_norm",
        *(image, uniform(channels, low=0.5, high=2), normal(channels), normal(channels)),
        *(uniform(channels, low=0.5, high=2), *limits((low, high))),
        min_calib_range=-5.0,
        max_calib_range=5.0,
        eps=1e-3,
        grad=False,
    )
    words, width = sizes(2, 2, 12)
    family.call(
        "nd.contrib.quantized_embedding",
        *(integers(*sizes(2), low=0, high=words), signed(words, width), *limits(interval())),
        input_dim=words,
        output_dim=width,
        grad=False,
    )
    family.call(
        "nd.contrib.quantized_conv",
        *(unsigned(batch, 4 * channels, 5, 6), weights(8, 4 * channels, *window["kernel"])),
        *limits((0.0, high), interval()),
        kernel=window["kernel"],
        stride=window["stride"],
        num_filter=8,
        no_bias=True,
        grad=False,
    )
