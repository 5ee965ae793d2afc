"""Cases of BatchNorm, LayerNorm, InstanceNorm, GroupNorm, L2Normalization and LRN."""

from __future__ import annotations

from ..case import Family, Spec, normal, uniform, values

family = Family("normalization", tolerance="normalization")


def statistics(channels: int, dtype: str = "float32") -> tuple[Spec, Spec, Spec, Spec]:
    """Return gamma, beta, moving mean and moving variance."""
    return (
        uniform(channels, dtype=dtype, low=0.5, high=2),
        normal(channels, dtype=dtype),
        normal(channels, dtype=dtype),
        uniform(channels, dtype=dtype, low=0.5, high=2),
    )


for train in (True, False):
    for fixed in (True, False):
        for shape in ((4, 3), (3, 2, 5), (2, 3, 3, 2), (2, 2, 2, 3, 2)):
            family.call("nd.BatchNorm", normal(*shape), *statistics(shape[1]), fix_gamma=fixed, train=train)
        for options in (
            {"eps": 1e-5, "momentum": 0.5},
            {"use_global_stats": True},
            {"output_mean_var": True},
            {"axis": 3},
            {"axis": -1},
            {"axis": 0},
            {"momentum": 0.0},
            {"momentum": 1.0},
        ):
            channels = (2, 3, 3, 2)[options.get("axis", 1)]
            data = normal(2, 3, 3, 2)
            family.call(
                "nd.BatchNorm", data, *statistics(channels), fix_gamma=fixed, train=train, head_outputs=(0,), **options
            )
        for options in ({}, {"axis": 2, "eps": 1e-4}, {"output_mean_var": True}):
            channels = (3, 2, 5)[options.get("axis", 1)]
            inputs = normal(3, 2, 5, dtype="float64"), *statistics(channels, "float64")
            family.call(
                "nd.BatchNorm", *inputs, fix_gamma=fixed, train=train, head_outputs=(0,), tolerance="single", **options
            )
    inputs = normal(3, 2, 5, dtype="float16"), *statistics(2)
    family.call("nd.BatchNorm", *inputs, fix_gamma=False, train=train, tolerance="coarse")
    family.call("nd.BatchNorm", normal(4, 3), *statistics(3), train=train)
    constant = values([[1.0, 2.0], [1.0, 3.0]])
    family.call("nd.BatchNorm", constant, *statistics(2), fix_gamma=False, train=train, tag="constant")
    family.call("nd.BatchNorm", normal(2, 3, 3, 2), *statistics(3), train=train, grad=False, tag="value")
family.call("nd.BatchNorm", normal(4, 3), *statistics(3), axis=4)

for shape, axis in (((2, 3), -1), ((2, 3, 4), -1), ((2, 3, 4), 1), ((2, 3, 4), 0), ((2, 3, 4), -2), ((1, 20), -1)):
    for mean_var in (False, True):
        size = shape[axis]
        operands = normal(*shape), normal(size), normal(size)
        family.call("nd.LayerNorm", *operands, axis=axis, output_mean_var=mean_var, head_outputs=(0,))
family.call("nd.LayerNorm", normal(2, 5), normal(5), normal(5))
family.call("nd.LayerNorm", normal(2, 5), normal(5), normal(5), eps=0.1)
family.call("nd.LayerNorm", normal(2, 5, loc=100.0), normal(5), normal(5), tag="offset")
family.call("nd.LayerNorm", values([[2.0, 2.0, 2.0]]), normal(3), normal(3), tag="constant")
family.call("nd.LayerNorm", normal(2, 5), normal(4), normal(5))
for dtype, tolerance in (("float64", "single"), ("float16", "normalization")):
    operands = normal(2, 5, dtype=dtype), normal(5, dtype=dtype), normal(5, dtype=dtype)
    family.call("nd.LayerNorm", *operands, tolerance=tolerance)

for shape in ((2, 3, 4), (2, 3, 2, 3), (1, 2, 2, 2, 2)):
    family.call("nd.InstanceNorm", normal(*shape), normal(shape[1]), normal(shape[1]))
    family.call("nd.InstanceNorm", normal(*shape), normal(shape[1]), normal(shape[1]), eps=1e-5)
family.call("nd.InstanceNorm", normal(2, 3, 4), normal(2), normal(3))

for shape, groups in (((2, 4, 3), 2), ((2, 4, 3, 2), 1), ((2, 4, 3, 2), 4), ((1, 6, 2, 2), 3)):
    for mean_var in (False, True):
        scales = normal(groups), normal(groups)
        family.call(
            "nd.GroupNorm", normal(*shape), *scales, num_groups=groups, output_mean_var=mean_var, head_outputs=(0,)
        )
family.call("nd.GroupNorm", normal(2, 4, 3), normal(2), normal(2), num_groups=2, eps=0.1)
family.call("nd.GroupNorm", normal(2, 4, 3), normal(3), normal(3), num_groups=3)
family.call("nd.GroupNorm", normal(2, 4), normal(2), normal(2), num_groups=2)
family.call("nd.GroupNorm", normal(2, 4, 3), normal(1), normal(1))
family.call(
    "nd.GroupNorm",
    normal(2, 4, 3, dtype="float64"),
    normal(2, dtype="float64"),
    normal(2, dtype="float64"),
    num_groups=2,
    tolerance="single",
)

for mode in ("instance", "channel", "spatial"):
    family.call("nd.L2Normalization", normal(2, 3, 4), mode=mode)
    family.call("nd.L2Normalization", normal(2, 3, 2, 2), mode=mode)
    family.call("nd.L2Normalization", normal(2, 3, 4), mode=mode, eps=0.5)
    family.call("nd.L2Normalization", normal(2, 3, 4, dtype="float64"), mode=mode)
    family.call("nd.L2Normalization", values([[[0.0, 0.0], [0.0, 0.0]]]), mode=mode, tag="zeros")
family.call("nd.L2Normalization", normal(2, 3))
family.call("nd.L2Normalization", normal(2, 3, dtype="float16"))
family.call("nd.L2Normalization", normal(2, 3), mode="channel")

for size in (1, 3, 5):
    family.call("nd.LRN", normal(2, 6, 2, 2), nsize=size)
    family.call("nd.LRN", normal(2, 6, 2, 2), nsize=size, alpha=0.5, beta=0.6, knorm=1.5)
family.call("nd.LRN", normal(2, 6, 2, 2), nsize=2)
