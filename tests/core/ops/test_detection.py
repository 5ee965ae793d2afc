"""Operators on boxes, against what MXNet 1.9.1 answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phonograd.core.ops.vision.detection  # noqa: F401
from phonograd.core.base.errors import MXNetError

from .checks import Sample, check_gradients, check_inference
from .samples_detection import ANCHORS, BOXES, ENCODING, LEFT, OFFSETS, RIGHT, SAMPLES, SCORES
from .test_indexing import Cubed, gradients


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_inference(sample: Sample) -> None:
    check_inference(sample)


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample.order], ids=repr)
def test_gradients(sample: Sample) -> None:
    check_gradients(Cubed(sample.name, sample.inputs, sample.parameters))


def run(name: str, *arrays: Any, **parameters: Any) -> Any:
    """Return the values of one call."""
    values = check_inference(Sample(name, arrays, parameters))
    return values[0] if len(values) == 1 else values


@pytest.mark.parametrize(
    ("parameters", "kept"),
    [
        ({}, [3, 0, 2]),
        ({"id_index": 0}, [3, 0, 1, 2]),
        ({"id_index": 0, "force_suppress": True}, [3, 0, 2]),
        ({"id_index": 0, "background_id": 0}, [3, 1]),
        ({"topk": 2}, [3, 0]),
        ({"valid_thresh": 0.42, "overlap_thresh": 0.99}, [3, 0, 4]),
        ({"overlap_thresh": 0.1}, [3, 0]),
        ({"valid_thresh": 2}, []),
    ],
)
def test_nms_keeps_the_best_of_those_that_overlap(parameters: dict[str, Any], kept: list[int]) -> None:
    found = run("_contrib_box_nms", BOXES, **parameters)
    np.testing.assert_array_equal(found[: len(kept)], BOXES[kept])
    assert (found[len(kept) :] == -1).all()


def test_nms_changes_the_format() -> None:
    corners = run("_contrib_box_nms", BOXES, in_format="center")
    np.testing.assert_allclose(corners[0], [2, 0.6, 0.15, 0.1, 0.85, 0.9], rtol=1e-6)
    centers = run("_contrib_box_nms", BOXES, out_format="center")
    np.testing.assert_allclose(centers[0], [2, 0.6, 0.6, 0.65, 0.2, 0.3], rtol=1e-6)
    assert (centers[3:] == -1).all()


def test_nms_gradients_go_to_the_boxes_that_stay() -> None:
    (grad,) = gradients(Sample("_contrib_box_nms", [BOXES]), (0,))
    assert [row[0] for row in grad] == [1, 0, 1, 1, 0]


def test_a_share_equal_to_the_threshold_stays() -> None:
    boxes = np.array([[0, 0.9, 0, 0, 2, 2], [0, 0.8, 0, 0, 1, 1]], np.float32)
    assert run("_contrib_box_nms", boxes, overlap_thresh=0.25)[1, 0] == 0
    assert run("_contrib_box_nms", boxes, overlap_thresh=0.24)[1, 0] == -1


def test_overlaps() -> None:
    expected = [[0.0625, 0.25, 0, 0], [0, 1 / 6, 0, 0]]
    np.testing.assert_allclose(run("_contrib_box_iou", LEFT, RIGHT), expected, rtol=1e-6)
    expected = [[0.25, 1 / 7, 0, 0], [1 / 12, 1 / 3, 0.01052632, 1 / 12]]
    np.testing.assert_allclose(run("_contrib_box_iou", LEFT, RIGHT, format="center"), expected, rtol=1e-5)
    assert run("_contrib_box_iou", LEFT[None], RIGHT[:1, None]).shape == (1, 2, 1, 1)


@pytest.mark.parametrize(
    ("parameters", "rows", "columns"),
    [
        ({"threshold": 1e-12}, [1, -1, 0], [2, 0]),
        ({"threshold": 0.35, "is_ascend": True}, [-1, 0, -1], [1, -1]),
        ({"threshold": 0.6}, [-1, -1, -1], [-1, -1]),
        ({"threshold": 0.1, "is_ascend": True}, [-1, -1, -1], [-1, -1]),
    ],
)
def test_matching(parameters: dict[str, Any], rows: list[int], columns: list[int]) -> None:
    found = run("_contrib_bipartite_matching", SCORES, **parameters)
    assert [part.tolist() for part in found] == [rows, columns]


@pytest.mark.parametrize(("topk", "matched"), [(-1, 5), (0, 5), (1, 2), (2, 3), (4, 5)])
def test_matching_at_most(topk: int, matched: int) -> None:
    scores = np.random.RandomState(0).permutation(25).reshape(5, 5).astype(np.float32)
    rows, _ = run("_contrib_bipartite_matching", scores, threshold=-1, topk=topk)
    best = np.array([3, 2, 1, 4, 0])
    assert (rows >= 0).sum() == matched
    assert (rows[rows >= 0] == best[rows >= 0]).all()


def test_encoding() -> None:
    targets, masks = run("_contrib_box_encode", *ENCODING)
    assert masks[0, :, 0].tolist() == [1, 0, 1, 0, 1]
    np.testing.assert_allclose(targets[0, 0], [1.25, 2.75, -1.4384104, 0.1157178], rtol=1e-5)
    np.testing.assert_allclose(targets[0, 4], [10, 6.5, 5.4930615, 3.5814536], rtol=1e-5)
    assert (targets[0, 1] == 0).all()


def test_decoding() -> None:
    plain = run("_contrib_box_decode", OFFSETS, ANCHORS, std0=0.1, std1=0.1, std2=0.2, std3=0.2)
    np.testing.assert_allclose(plain[0, 0], [-1.0418366, -1.0432871, 1.0818366, 1.1232871], rtol=1e-5)
    corner = run("_contrib_box_decode", OFFSETS, ANCHORS, format="corner")
    np.testing.assert_allclose(corner[0, 0], [-0.1498588, -0.0918247, 2.5498588, 2.8918247], rtol=1e-5)
    clipped = run("_contrib_box_decode", OFFSETS, ANCHORS, clip=0.5)
    np.testing.assert_allclose(clipped[0, 1], [0.026918, -3.0974426, 4.973082, 3.4974426], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "arrays", "parameters", "message"),
    [
        ("_contrib_box_nms", [BOXES[0]], {}, "input must have dim >= 2"),
        ("_contrib_box_nms", [BOXES[:, :5]], {}, "out of range:: \\(0, 5\\)"),
        ("_contrib_box_nms", [BOXES], {"score_index": 9}, "score_index: 9 out of range: \\(0, 6\\)"),
        ("_contrib_box_nms", [BOXES.astype("int32")], {}, "only support floating point types, not int32"),
        ("_contrib_box_iou", [LEFT[0], RIGHT], {}, "lhs must have dim >= 2 1 provided"),
        ("_contrib_box_iou", [LEFT, RIGHT[:, :3]], {}, "last dimension of rhs must be 4 3 provided"),
        ("_contrib_bipartite_matching", [SCORES[0]], {"threshold": 0}, "score matrix must have dim >= 2 1 provided"),
        ("_contrib_box_encode", [*ENCODING[:4], ENCODING[4][:3], ENCODING[5]], {}, "box_encode takes samples"),
        ("_contrib_box_decode", [OFFSETS, ANCHORS[:, :1]], {}, "box_decode takes offsets"),
    ],
)
def test_errors(name: str, arrays: list[Any], parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(MXNetError, match=message):
        run(name, *arrays, **parameters)
