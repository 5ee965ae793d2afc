"""Cases of Pooling, AdaptiveAvgPooling2D and ROIPooling."""

from __future__ import annotations

from typing import Any

from ..case import Family, distinct, integers, normal, uniform, values

family = Family("pooling", tolerance="sum", train=True)

WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((6,), {"kernel": (2,), "stride": (2,)}),
    ((7,), {"kernel": (3,), "stride": (2,), "pad": (1,)}),
    ((5, 6), {"kernel": (2, 2)}),
    ((5, 6), {"kernel": (2, 2), "stride": (2, 2)}),
    ((6, 5), {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}),
    ((5, 7), {"kernel": (3, 2), "stride": (2, 3), "pad": (0, 1)}),
    ((4, 4), {"kernel": (4, 4)}),
    ((3, 4, 5), {"kernel": (2, 2, 2), "stride": (1, 2, 2)}),
    ((4, 4, 3), {"kernel": (2, 3, 2), "stride": (2, 2, 2), "pad": (0, 1, 1)}),
]
for space, options in WINDOWS:
    for kind in ("max", "avg", "sum"):
        for convention in ("valid", "full"):
            family.call(
                "nd.Pooling",
                distinct(1, 2, *space, step=0.0625),
                pool_type=kind,
                pooling_convention=convention,
                **options,
            )
    if "pad" in options:
        for convention in ("valid", "full"):
            data = normal(1, 2, *space)
            family.call(
                "nd.Pooling", data, pool_type="avg", pooling_convention=convention, count_include_pad=False, **options
            )
    for power in (1, 2, 3):
        family.call("nd.Pooling", uniform(1, 2, *space, low=0.1), pool_type="lp", p_value=power, **options)
for kind in ("max", "avg", "sum", "lp"):
    extra = {"p_value": 2} if kind == "lp" else {}
    for space in ((5,), (3, 4), (2, 3, 2)):
        data = uniform(2, 2, *space, low=0.1) if kind == "lp" else distinct(2, 2, *space, step=0.125)
        family.call("nd.Pooling", data, global_pool=True, pool_type=kind, **extra)
        family.call("nd.Pooling", data, global_pool=True, pool_type=kind, kernel=(1,) * len(space), **extra)
for dtype in ("float64", "float16"):
    for kind in ("max", "avg", "sum"):
        family.call(
            "nd.Pooling", distinct(1, 2, 5, 5, dtype=dtype), kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type=kind
        )
family.call("nd.Pooling", integers(1, 1, 4, 4, dtype="int32"), kernel=(2, 2), pool_type="max")
family.call("nd.Pooling", values([[[1.0, 1.0, 0.0, 0.0]]]), kernel=(2,), stride=(2,), pool_type="max", tag="ties")
family.call("nd.Pooling", values([[[[1.0, 1.0], [1.0, 1.0]]]]), kernel=(2, 2), pool_type="max", tag="ties")
family.call(
    "nd.Pooling",
    values([[[float("nan"), 1.0, float("-inf"), float("-inf")]]]),
    kernel=(2,),
    stride=(2,),
    pool_type="max",
    tag="special",
)
for layout, shape in (("NWC", (1, 6, 2)), ("NHWC", (1, 4, 5, 2)), ("NDHWC", (1, 2, 3, 3, 2))):
    for kind in ("max", "avg"):
        family.call("nd.Pooling", distinct(*shape), kernel=(2,) * (len(shape) - 2), pool_type=kind, layout=layout)
family.call("nd.Pooling", normal(1, 2, 5, 5), pool_type="max")
family.call("nd.Pooling", normal(1, 2, 5, 5), kernel=(6, 6), pool_type="max")
family.call("nd.Pooling", normal(1, 2, 5, 5), kernel=(2, 2), pool_type="zzz")
family.call("nd.Pooling", normal(1, 2, 5, 5), kernel=(2, 2), pad=(2, 2), pool_type="max")
family.call("nd.Pooling", normal(5, 5), kernel=(2, 2), pool_type="max")
family.call("nd.Pooling", distinct(1, 2, 5, 6), kernel=(2, 2), stride=(2, 2))

for size in ((1, 1), (2, 2), (3, 2), (5, 7), (1,), (2,), 3):
    family.call("nd.contrib.AdaptiveAvgPooling2D", normal(1, 2, 5, 6), output_size=size)
family.call("nd.contrib.AdaptiveAvgPooling2D", normal(1, 2, 5, 6))
family.call("nd.contrib.AdaptiveAvgPooling2D", normal(1, 2, 4, 4, dtype="float64"), output_size=(3, 3))

ROIS = [[0, 0, 0, 3, 3], [1, 1, 1, 4, 5], [0, 2, 2, 2, 2], [1, 0, 3, 9, 9]]
for pooled, scale in (((2, 2), 1.0), ((3, 2), 1.0), ((2, 2), 0.5)):
    family.call(
        "nd.ROIPooling",
        distinct(2, 2, 6, 6, step=0.125),
        values(ROIS),
        pooled_size=pooled,
        spatial_scale=scale,
        grad=(0,),
    )
family.call(
    "nd.ROIPooling",
    distinct(2, 1, 4, 4, dtype="float64"),
    values(ROIS[:2], "float64"),
    pooled_size=(2, 2),
    spatial_scale=1.0,
    grad=(0,),
)
