"""Samples of the operators on boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .checks import Sample

#: class, score, two corners
BOXES = np.array(
    [
        [0, 0.5, 0.1, 0.1, 0.2, 0.2],
        [1, 0.4, 0.1, 0.1, 0.2, 0.2],
        [0, 0.3, 0.1, 0.1, 0.14, 0.14],
        [2, 0.6, 0.5, 0.5, 0.7, 0.8],
        [0, 0.45, 0.11, 0.1, 0.2, 0.2],
    ],
    np.float32,
)
LEFT = np.array([[0, 0, 2, 2], [1, 1, 3, 4]], np.float32)
RIGHT = np.array([[0.5, 0.5, 1, 1], [1, 1, 2, 2], [5, 5, 6, 6], [2, 2, 1, 1]], np.float32)
SCORES = np.array([[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]], np.float32)

OFFSETS = np.array([[[0.1, 0.2, 0.3, 0.4], [0.5, -0.2, 1, 2]]], np.float32)
ANCHORS = LEFT[None]

ENCODING: list[Any] = [
    np.array([[1, -1, 0.6, 0.4, 1]], np.float32),
    np.array([[0, 1, 1, 0, 1]], np.float32),
    np.array([[[0, 0, 2, 2], [1, 1, 3, 4], [0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 2, 3]]], np.float32),
    np.array([[[0.5, 0.5, 2, 3], [1, 1, 4, 6]]], np.float32),
    np.array([0, 0.1, 0, 0.2], np.float32),
    np.array([0.1, 0.1, 0.2, 0.2], np.float32),
]

SAMPLES: list[Sample] = [
    Sample("_contrib_box_iou", [LEFT, RIGHT], {"format": "center"}, order=0),
    Sample("_contrib_box_iou", [LEFT.astype("float16"), RIGHT[:, None].astype("float16")], order=0),
    Sample("_contrib_box_nms", [BOXES], {"valid_thresh": 0.01}),
    Sample("_contrib_box_nms", [np.stack([BOXES, BOXES[::-1]])], {"id_index": 0, "topk": 3}, order=0),
    Sample("_contrib_box_nms", [BOXES], {"out_format": "center"}),
    Sample("_contrib_box_nms", [BOXES[None, None]], {"in_format": "center", "force_suppress": True, "id_index": 0}),
    Sample("_contrib_box_nms", [BOXES.astype("float16")], order=0),
    Sample(
        "_nms_order",
        [BOXES],
        {
            "overlap_thresh": 0.5,
            "valid_thresh": 0,
            "topk": -1,
            "coord_start": 2,
            "score_index": 1,
            "id_index": -1,
            "background_id": -1,
            "force_suppress": False,
            "in_format": "corner",
        },
        order=0,
    ),
    Sample("_is_kept", [np.array([2, 0, -1])], order=0),
    Sample("_contrib_bipartite_matching", [SCORES], {"threshold": 0.01}, order=0),
    Sample("_contrib_box_encode", ENCODING, order=0),
    Sample("_contrib_box_decode", [OFFSETS, ANCHORS], {"clip": 0.5}, order=0),
]

SAMPLES += [
    Sample("all_finite", [np.array([1.0, np.inf], "float32")], order=0),
    Sample("multi_all_finite", [np.ones((2, 2), "float32"), np.ones(3, "float32")], {"num_arrays": 2}, order=0),
]
