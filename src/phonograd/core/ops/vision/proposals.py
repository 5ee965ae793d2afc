"""Region proposals: the best of many anchor boxes, adjusted by the predictions of a network.

Every element of a feature map has anchors; elements are ``feature_stride`` pixels of the image apart. Boxes are
corners (x1, y1, x2, y2) in integer pixels: a box that begins and ends at the same pixel is one pixel wide.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partials
from ...graph.node import Node
from ...graph.operator import Array, Spec, nothing, operator
from ...graph.parameters import Floats
from .detection import demand_floating_boxes

__all__ = ["multi_proposal", "proposal"]

Number = np.float32


def _anchors(stride: int, ratios: Floats, scales: Floats) -> Array:
    """Return the anchors of the first element: one per ratio of height to width and scale."""
    middle = Number(0.5) * Number(stride - 1)
    found = []
    for ratio in ratios:
        width = np.floor(np.sqrt(np.floor(Number(stride * stride) / Number(ratio))) + Number(0.5))
        height = np.floor(width * Number(ratio) + Number(0.5))
        for scale in scales:
            half = Number(0.5) * (np.array([width, height], np.float32) * Number(scale) - Number(1))
            found.append(np.concatenate([middle - half, middle + half]))
    return np.array(found, np.float32)


def _apply_shifts(boxes: Array, shifts: Array, iou_loss: bool) -> Array:
    """Return boxes moved and scaled by predictions; with `iou_loss` the predictions are offsets of corners."""
    if iou_loss:
        return boxes + shifts
    size = boxes[:, 2:] - boxes[:, :2] + Number(1)
    middle = boxes[:, :2] + Number(0.5) * (size - Number(1)) + shifts[:, :2] * size
    half = Number(0.5) * (np.exp(shifts[:, 2:]) * size - Number(1))
    return np.concatenate([middle - half, middle + half], 1)


def _suppress_overlaps(boxes: Array, threshold: float, most: int) -> list[int]:
    """Return the boxes that non-maximum suppression keeps, best first; ``threshold`` is the largest overlap."""
    area = np.prod(boxes[:, 2:] - boxes[:, :2] + Number(1), axis=1)
    is_open = np.ones(len(boxes), bool)
    found: list[int] = []
    for index in range(len(boxes)):
        if len(found) >= most:
            break
        if not is_open[index]:
            continue
        found.append(index)
        rest = boxes[index + 1 :]
        sides = np.minimum(boxes[index, 2:], rest[:, 2:]) - np.maximum(boxes[index, :2], rest[:, :2]) + Number(1)
        common = np.prod(np.maximum(sides, 0), axis=1)
        is_open[index + 1 :] &= common / (area[index] + area[index + 1 :] - common) <= threshold
    return found


def _propose(scores: Array, shifts: Array, info: Array, p: dict[str, Any]) -> tuple[Array, Array]:
    """Return the proposed boxes of one image, and their scores."""
    base = _anchors(p["feature_stride"], p["ratios"], p["scales"])
    count, (rows, columns) = len(base), scores.shape[1:]
    y, x = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    offsets = np.stack([x, y, x, y], -1).astype(np.float32) * Number(p["feature_stride"])
    boxes = (offsets[:, :, None] + base).reshape(-1, 4)
    moves = shifts.reshape(count, 4, rows, columns).transpose(2, 3, 0, 1).reshape(-1, 4)
    boxes = _apply_shifts(boxes, moves, p["iou_loss"])
    height, width, scale = info
    boxes = np.clip(boxes, 0, np.array([width, height] * 2, np.float32) - Number(1))
    score = scores.transpose(1, 2, 0).astype(np.float32)
    # elements past the edge of the image are padding of the feature map
    score[int(height / p["feature_stride"]) :] = -1
    score[:, int(width / p["feature_stride"]) :] = -1
    score = score.reshape(-1)
    least = Number(p["rpn_min_size"]) * Number(scale)
    small = (boxes[:, 2:] - boxes[:, :2] + Number(1) < least).any(1)
    boxes[small] += np.array([-1, -1, 1, 1], np.float32) * (least / 2)
    score[small] = -1
    first = len(score) if p["rpn_pre_nms_top_n"] <= 0 else min(p["rpn_pre_nms_top_n"], len(score))
    order = np.argsort(-score, kind="stable")[:first]
    boxes, score = boxes[order], score[order]
    most = p["rpn_post_nms_top_n"]
    kept = _suppress_overlaps(boxes, p["threshold"], min(most, first))
    # repeat the boxes if there are too few
    chosen = np.array(kept)[np.arange(most) % len(kept)]
    return boxes[chosen], score[chosen]


def _declare(name: str, is_multiple: bool, doc: str) -> Any:
    def propose(
        cls_prob: Array,
        bbox_pred: Array,
        im_info: Array,
        *,
        rpn_pre_nms_top_n: int = 6000,
        rpn_post_nms_top_n: int = 300,
        threshold: float = 0.7,
        rpn_min_size: int = 16,
        scales: Floats = (4.0, 8.0, 16.0, 32.0),
        ratios: Floats = (0.5, 1.0, 2.0),
        feature_stride: int = 16,
        output_score: bool = False,
        iou_loss: bool = False,
    ) -> tuple[Array, Array]:
        given = {
            "rpn_pre_nms_top_n": rpn_pre_nms_top_n,
            "rpn_post_nms_top_n": rpn_post_nms_top_n,
            "threshold": threshold,
            "rpn_min_size": rpn_min_size,
            "scales": scales,
            "ratios": ratios,
            "feature_stride": feature_stride,
            "iou_loss": iou_loss,
        }
        anchors = len(scales) * len(ratios)
        reached = (im_info[:, :2] / feature_stride).astype(int).max(0)
        if not is_multiple and (reached > cls_prob.shape[2:]).any():
            raise MXNetError(
                f"operator {name}: feature maps of {cls_prob.shape[2]} by {cls_prob.shape[3]} elements, "
                f"{feature_stride} pixels apart, do not cover the image of im_info"
            )
        regions, scores = [], []
        for image in range(cls_prob.shape[0]):
            boxes, score = _propose(
                cls_prob[image, anchors:].astype(np.float32),
                bbox_pred[image].astype(np.float32),
                im_info[image].astype(np.float32),
                given,
            )
            regions.append(np.concatenate([np.full((len(boxes), 1), image, np.float32), boxes], 1))
            scores.append(score[:, None])
        return np.concatenate(regions).astype(cls_prob.dtype), np.concatenate(scores).astype(cls_prob.dtype)

    propose.__doc__ = doc
    declared = operator(name=name, gradient=nothing, visible=lambda *, output_score: 2 if output_score else 1)(propose)

    @declared.infer
    def declared_shape(
        cls_prob: Node,
        bbox_pred: Node,
        im_info: Node,
        *,
        rpn_post_nms_top_n: int,
        scales: Floats,
        ratios: Floats,
        feature_stride: int,
    ) -> list[Spec]:
        demand_floating_boxes(name, cls_prob, bbox_pred, im_info)
        anchors = len(scales) * len(ratios)
        images, maps = cls_prob.shape[:1], cls_prob.shape[2:]
        if (
            cls_prob.ndim != 4
            or cls_prob.shape[1] != 2 * anchors
            or bbox_pred.shape != (*images, 4 * anchors, *maps)
            or im_info.shape != (*images, 3)
        ):
            shapes = ", ".join([format_shape(node.shape) for node in (cls_prob, bbox_pred, im_info)])
            raise MXNetError(
                f"operator {name} with {anchors} anchors (scales times ratios) takes cls_prob (batch, {2 * anchors}, "
                f"height, width), bbox_pred (batch, {4 * anchors}, height, width) and im_info (batch, 3), not {shapes}"
            )
        if not is_multiple and images != (1,):
            raise MXNetError(f"Sorry, multiple images each device is not implemented by {name}: use MultiProposal")
        if rpn_post_nms_top_n < 1 or feature_stride < 1:
            raise MXNetError(f"rpn_post_nms_top_n and feature_stride of operator {name} must be at least 1")
        count = images[0] * rpn_post_nms_top_n
        return [((count, 5), cls_prob.dtype), ((count, 1), cls_prob.dtype)]

    declared.interface = Interface(outputs=("output", "score"), shapes=_input_shapes)
    return declared


def _input_shapes(inputs: Partials, outputs: Partials) -> Partials:
    """Return the shapes of scores, boxes and sizes of images: boxes have four numbers for two scores."""
    scores = inputs[0]
    if scores is None or len(scores) != 4:
        return inputs
    return [scores, (scores[0], 2 * scores[1], *scores[2:]), (scores[0], 3)]


_DOC = """Return region proposals (count, 5) for {images}: rows (image, x1, y1, x2, y2), best first.

    `cls_prob` is (batch, 2 * anchors, height, width), the probabilities of background, then those of objects.
    `bbox_pred` (batch, 4 * anchors, height, width) moves and scales each anchor. `im_info` (batch, 3) is the height and
    width of each image and a factor of `rpn_min_size`. Among the `rpn_pre_nms_top_n` best boxes, those that overlap a
    better one by more than `threshold` are dropped. Each image gets `rpn_post_nms_top_n` boxes, repeated if there are
    fewer. With `output_score` the scores are a second result. Gradients are zero.
    """

proposal = _declare("_contrib_Proposal", False, _DOC.format(images="one image"))
multi_proposal = _declare("_contrib_MultiProposal", True, _DOC.format(images="each of several images"))


# -- precision in mixed-precision training

for _declared in (
    multi_proposal,
    proposal,
):
    _declared.precision = "widest"
