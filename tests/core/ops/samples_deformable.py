"""Samples of deformable convolutions and of detection with anchors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(11)


def _numbers(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (_generator.normal(size=shape) * scale).astype(np.float32)


DATA = _numbers(2, 4, 5, 6)
KERNEL: dict[str, Any] = {"kernel": (3, 2), "num_filter": 2}
PLAIN = [DATA, _numbers(2, 12, 3, 5, scale=0.4), _numbers(2, 4, 3, 2), _numbers(2)]
GROUPED = [DATA, _numbers(2, 24, 3, 3, scale=0.4), _numbers(2, 2, 3, 2)]
MASK = [_numbers(2, 6, 3, 5), _numbers(2, 12, 3, 3)]

# (channel, height, width) 3 x 4, four anchors each
FEATURES = np.zeros((1, 2, 3, 4), np.float32)
ANCHORS = np.array(
    [
        [
            [0, 0.1, 0.2, 0.3],
            [0.15, 0.2, 0.4, 0.4],
            [0.63, 0.05, 0.88, 0.98],
            [0.66, 0.45, 0.8, 0.8],
            [0.57, 0.3, 0.92, 0.9],
        ]
    ],
    np.float32,
)
OBJECTS = np.array(
    [
        [[0, 0.1, 0.08, 0.52, 0.92], [1, 0.55, 0.2, 0.9, 0.88], [-1, -1, -1, -1, -1]],
        [[-1, -1, -1, -1, -1], [-1, -1, -1, -1, -1], [-1, -1, -1, -1, -1]],
    ],
    np.float32,
)
SCORES = _numbers(2, 3, 5)
PROBABILITIES = np.exp(SCORES) / np.exp(SCORES).sum(1, keepdims=True)
SHIFTS = _numbers(2, 20, scale=0.3)

SAMPLES: list[Sample] = [
    Sample("_contrib_DeformableConvolution", PLAIN, KERNEL),
    Sample(
        "_contrib_DeformableConvolution",
        GROUPED,
        {
            **KERNEL,
            "stride": (2, 2),
            "pad": (1, 0),
            "dilate": (1, 1),
            "num_group": 2,
            "num_deformable_group": 2,
            "no_bias": True,
        },
        order=2,
    ),
    Sample("_contrib_ModulatedDeformableConvolution", [*PLAIN[:2], MASK[0], *PLAIN[2:]], KERNEL, order=2),
    Sample(
        "_contrib_ModulatedDeformableConvolution",
        [*GROUPED[:2], MASK[1], GROUPED[2]],
        {**KERNEL, "stride": (2, 2), "pad": (1, 0), "num_group": 2, "num_deformable_group": 2, "no_bias": True},
        order=1,
    ),
    Sample("_contrib_MultiBoxPrior", [FEATURES], {"sizes": (0.5, 0.25), "ratios": (1, 2, 0.5)}, order=0),
    Sample("_contrib_MultiBoxPrior", [FEATURES], {"steps": (0.3, 0.2), "offsets": (0.1, 0.2), "clip": True}, order=0),
    Sample("_contrib_MultiBoxTarget", [ANCHORS, OBJECTS, SCORES], order=0),
    Sample("_contrib_MultiBoxTarget", [ANCHORS, OBJECTS, SCORES], {"negative_mining_ratio": 0.5}, order=0),
    Sample("_contrib_MultiBoxDetection", [PROBABILITIES, SHIFTS, ANCHORS], order=0),
    Sample("_contrib_MultiBoxDetection", [PROBABILITIES, SHIFTS, ANCHORS], {"nms_topk": 2, "clip": False}, order=0),
]
