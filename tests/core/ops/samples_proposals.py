"""Samples of proposals of regions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(15)
SCORES = _generator.uniform(size=(2, 12, 3, 4)).astype(np.float32)
SHIFTS = (_generator.normal(size=(2, 24, 3, 4)) * 0.2).astype(np.float32)
INFO = np.array([[48, 64, 1], [40, 50, 1.5]], np.float32)
OPTIONS: dict[str, Any] = {"scales": (2.0, 4.0), "rpn_min_size": 4, "rpn_pre_nms_top_n": 25, "rpn_post_nms_top_n": 6}

SAMPLES = [
    Sample("_contrib_Proposal", [SCORES[:1], SHIFTS[:1], INFO[:1]], OPTIONS, order=0),
    Sample("_contrib_MultiProposal", [SCORES, SHIFTS, INFO], {**OPTIONS, "output_score": True}, order=0),
]
