"""Cases of pooling over regions with channels of their own, and over rotated regions."""

from __future__ import annotations

from typing import Any

from ..case import Family, normal, values

family = Family("position_pooling", tolerance="product")

MAPS = normal(2, 8, 6, 7)
ROIS = values([[0, 0, 0, 4, 4], [1, 1, 2, 6, 5], [0, 2.5, 1.4, 3, 3], [1, 4, 4, 9, 9], [0, 3, 3, 2, 2]])
OPTIONS: dict[str, Any] = {"spatial_scale": 1.0, "output_dim": 2, "pooled_size": 2}
for options in ({}, {"group_size": 2}, {"spatial_scale": 0.5}, {"pooled_size": 3, "group_size": 2}):
    family.call("nd.contrib.PSROIPooling", MAPS, ROIS, grad=(0,), **{**OPTIONS, **options})
family.call(
    "nd.contrib.PSROIPooling", MAPS, ROIS, grad=(0,), spatial_scale=1.0, output_dim=8, pooled_size=3, group_size=1
)
family.call("nd.contrib.PSROIPooling", MAPS, ROIS, spatial_scale=1.0, output_dim=3, pooled_size=2)

GROUPED: dict[str, Any] = {**OPTIONS, "group_size": 2}
for options in ({}, {"sample_per_part": 3}, {"spatial_scale": 0.5, "sample_per_part": 2}):
    family.call("nd.contrib.DeformablePSROIPooling", MAPS, ROIS, grad=(0,), no_trans=True, **{**GROUPED, **options})
SHIFTED: dict[str, Any] = {**GROUPED, "trans_std": 0.1, "sample_per_part": 2}
TRANS = normal(5, 2, 2, 2)
family.call("nd.contrib.DeformablePSROIPooling", MAPS, ROIS, TRANS, grad=(0, 2), part_size=2, **SHIFTED)
family.call("nd.contrib.DeformablePSROIPooling", MAPS, ROIS, TRANS, grad=(0, 2), **SHIFTED)
family.call("nd.contrib.DeformablePSROIPooling", MAPS, ROIS, normal(5, 4, 2, 2), grad=(0, 2), **SHIFTED)
family.call(
    "nd.contrib.DeformablePSROIPooling",
    MAPS,
    ROIS,
    normal(5, 2, 4, 4),
    grad=(0, 2),
    **{**SHIFTED, "pooled_size": 3},
    part_size=4,
)

ROTATED = values([[0, 3, 3, 4, 2, 30], [1, 3.5, 2.5, 3, 5, -45], [0, 1, 1, 0.5, 0.5, 90], [1, 6, 5, 6, 6, 10]])
for options in ({}, {"sampling_ratio": 2}, {"spatial_scale": 0.5}, {"pooled_size": (1, 3), "sampling_ratio": 1}):
    family.call(
        "nd.contrib.RROIAlign", MAPS, ROTATED, grad=False, **{"pooled_size": (2, 2), "spatial_scale": 1.0, **options}
    )
