"""Cases of detection with anchors, and of convolutions with shifted taps."""

from __future__ import annotations

from typing import Any

from ..case import Family, normal, uniform, values

family = Family("multibox", tolerance="sum")

ANCHORS = [
    [0, 0.1, 0.2, 0.3],
    [0.15, 0.2, 0.4, 0.4],
    [0.63, 0.05, 0.88, 0.98],
    [0.66, 0.45, 0.8, 0.8],
    [0.57, 0.3, 0.92, 0.9],
]
NOTHING = [-1, -1, -1, -1, -1]
OBJECTS = [
    [[0, 0.1, 0.08, 0.52, 0.92], [1, 0.55, 0.2, 0.9, 0.88], NOTHING],
    [NOTHING, NOTHING, NOTHING],
    [[2, 0.2, 0.2, 0.4, 0.5], NOTHING, NOTHING],
]

for options in (
    {},
    {"sizes": (0.5, 0.25), "ratios": (1, 2, 0.5)},
    {"sizes": (0.75,), "clip": True},
    {"sizes": (0.5,), "ratios": (2, 0.5), "steps": (0.3, 0.4), "offsets": (0.1, 0.2)},
    {"sizes": (0.2, 0.3, 0.4), "ratios": (3, 1)},
):
    family.call("nd.contrib.MultiBoxPrior", normal(1, 2, 3, 4), grad=False, **options)
family.call("nd.contrib.MultiBoxPrior", normal(2, 3, 4), grad=False)

for options in (
    {},
    {"overlap_threshold": 0.3},
    {"overlap_threshold": 0.0},
    {"negative_mining_ratio": 0.5, "negative_mining_thresh": 0.5},
    {"negative_mining_ratio": 1.0, "negative_mining_thresh": 0.3, "ignore_label": -2.0},
    {"variances": (1, 1, 1, 1)},
):
    scores = normal(3, 4, 5)
    family.call("nd.contrib.MultiBoxTarget", values([ANCHORS]), values(OBJECTS), scores, grad=False, **options)

for options in (
    {},
    {"nms_threshold": 0.2},
    {"nms_threshold": 0.0},
    {"nms_threshold": 1.0, "threshold": 0.6},
    {"force_suppress": True},
    {"nms_topk": 2},
    {"clip": False, "variances": (1, 1, 1, 1)},
):
    probabilities, offsets = uniform(2, 3, 5), normal(2, 20, scale=0.5)
    family.call("nd.contrib.MultiBoxDetection", probabilities, offsets, values([ANCHORS]), grad=False, **options)

KERNEL: dict[str, Any] = {"kernel": (3, 2), "num_filter": 2}
WIDE: dict[str, Any] = {
    **KERNEL,
    "stride": (2, 2),
    "pad": (1, 0),
    "num_group": 2,
    "num_deformable_group": 2,
    "no_bias": True,
}
DATA = normal(2, 4, 5, 6)
family.call("nd.contrib.DeformableConvolution", DATA, normal(2, 12, 3, 5), normal(2, 4, 3, 2), normal(2), **KERNEL)
family.call("nd.contrib.DeformableConvolution", DATA, normal(2, 24, 3, 3), normal(2, 2, 3, 2), **WIDE)
family.call(
    "nd.contrib.ModulatedDeformableConvolution",
    DATA,
    normal(2, 12, 3, 5),
    uniform(2, 6, 3, 5),
    normal(2, 4, 3, 2),
    normal(2),
    grad=False,
    **KERNEL,
)
family.call(
    "nd.contrib.ModulatedDeformableConvolution",
    DATA,
    normal(2, 24, 3, 3),
    uniform(2, 12, 3, 3),
    normal(2, 2, 3, 2),
    grad=False,
    **WIDE,
)
