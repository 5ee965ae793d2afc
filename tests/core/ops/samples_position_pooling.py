"""Samples of pooling over regions with channels of their own, and over rotated regions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(14)


def _numbers(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (_generator.normal(size=shape) * scale).astype(np.float32)


MAPS = _numbers(2, 8, 6, 7)
ROIS = np.array([[0, 0, 0, 4, 4], [1, 1, 2, 6, 5], [0, 2.6, 1.3, 3, 3]], np.float32)
ROTATED = np.array([[0, 3, 3, 4, 2, 30], [1, 3.5, 2.5, 3, 5, -45]], np.float32)
OPTIONS: dict[str, Any] = {"spatial_scale": 0.9, "output_dim": 2, "pooled_size": 3, "group_size": 2}
CELLS = _numbers(3, 2, 3, 3)
TURNED = _numbers(2, 8, 2, 2)
SHIFTED: dict[str, Any] = {**OPTIONS, "sample_per_part": 2, "trans_std": 0.1}

SAMPLES = [
    Sample("_contrib_PSROIPooling", [MAPS, ROIS], OPTIONS, wrt=(0,)),
    Sample("_contrib_PSROIPooling", [MAPS, ROIS], {**OPTIONS, "pooled_size": 2, "group_size": 0}, wrt=(0,)),
    Sample("_position_average", [MAPS, ROIS], {"pooled_size": 3, "group_size": 2, "spatial_scale": 0.9}, wrt=(0,)),
    Sample(
        "_position_average_adjoint",
        [CELLS, ROIS],
        {"shape": (2, 8, 6, 7), "pooled_size": 3, "group_size": 2, "spatial_scale": 0.9},
        wrt=(0,),
    ),
    Sample("_contrib_DeformablePSROIPooling", [MAPS, ROIS], {**SHIFTED, "no_trans": True}, wrt=(0,)),
    Sample("_contrib_DeformablePSROIPooling", [MAPS, ROIS, _numbers(3, 2, 3, 3)], SHIFTED, wrt=(0, 2)),
    Sample(
        "_contrib_DeformablePSROIPooling", [MAPS, ROIS, _numbers(3, 4, 2, 2)], {**SHIFTED, "part_size": 2}, wrt=(0, 2)
    ),
    Sample("_contrib_RROIAlign", [MAPS, ROTATED], {"pooled_size": (2, 2), "spatial_scale": 0.9}, wrt=(0,)),
    Sample(
        "_rotated_adjoint",
        [TURNED, ROTATED],
        {"shape": (2, 8, 6, 7), "pooled_size": (2, 2), "spatial_scale": 0.9, "sampling_ratio": 2},
        wrt=(0,),
    ),
]
