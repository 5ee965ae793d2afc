"""Single-shot detection (SSD): anchor boxes, their training targets, and the detections.

An anchor is four numbers, two opposite corners, in units of the image's width and height. The gradients of these
operators are zero: they are piecewise constant, or they follow a trained network.
"""

from __future__ import annotations

import numpy as np

from ...base.errors import MXNetError, check_bounds, format_shape
from ...graph.interface import Interface
from ...graph.node import Node
from ...graph.operator import Array, Spec, nothing, operator
from ...graph.parameters import Floats
from .detection import box_overlaps, demand_floating_boxes

__all__ = ["multibox_detection", "multibox_prior", "multibox_target"]

#: an anchor matches a box if their intersection over union is above this
_LEAST_OVERLAP = 1e-6


def _shapes(name: str, expected: str, *nodes: Node) -> MXNetError:
    given = ", ".join([format_shape(node.shape) for node in nodes])
    return MXNetError(f"operator {name} takes {expected}, not {given}")


@operator(name="_contrib_MultiBoxPrior", gradient=nothing, npx="multibox_prior")
def multibox_prior(
    data: Array,
    *,
    sizes: Floats = (1.0,),
    ratios: Floats = (1.0,),
    clip: bool = False,
    steps: Floats = (-1.0, -1.0),
    offsets: Floats = (0.5, 0.5),
) -> Array:
    """Return anchors (1, anchors, 4) for every element of feature maps (batch, channel, height, width).

    Each element has one anchor per size, with the first ratio of width to height, and one per further ratio, with the
    first size. ``steps`` (vertical, horizontal) is the distance of elements; the default fills the image. ``offsets``
    is the distance of the first element from the edge, in steps. ``clip`` clips anchors at the edges.
    """
    rows, columns = data.shape[2:]
    # float32, as in MXNet: if anchors overlap a box equally, the last bit decides between them
    one = np.float32(1)
    step_y = np.float32(steps[0]) if steps[0] > 0 else one / np.float32(max(rows, 1))
    step_x = np.float32(steps[1]) if steps[1] > 0 else one / np.float32(max(columns, 1))
    kinds = [(size, ratios[0]) for size in sizes] + [(sizes[0], ratio) for ratio in ratios[1:]]
    size, ratio = (np.array(part, np.float32) for part in zip(*kinds, strict=True))
    root = np.sqrt(ratio)
    wide = size * np.float32(rows) / np.float32(max(columns, 1)) * root / np.float32(2)
    half = np.stack([wide, size / root / np.float32(2)], -1)
    y = (np.arange(rows, dtype=np.float32) + np.float32(offsets[0])) * step_y
    x = (np.arange(columns, dtype=np.float32) + np.float32(offsets[1])) * step_x
    middle = np.stack(np.meshgrid(x, y), -1)[:, :, None]
    boxes = np.concatenate([middle - half, middle + half], -1).reshape(1, rows * columns * len(kinds), 4)
    found: Array = np.clip(boxes, 0, 1) if clip else boxes
    return found.astype(data.dtype)


@multibox_prior.infer
def multibox_prior_shape(data: Node, *, sizes: Floats, ratios: Floats, steps: Floats, offsets: Floats) -> Spec:
    name = "_contrib_MultiBoxPrior"
    demand_floating_boxes(name, data)
    if data.ndim != 4:
        raise _shapes(name, "feature maps (batch, channel, height, width)", data)
    if not sizes or min(sizes) <= 0:
        raise MXNetError(f"sizes must be positive numbers, not {sizes}, in operator {name}")
    if not ratios or min(ratios) <= 0:
        raise MXNetError(f"ratios must be positive numbers, not {ratios}, in operator {name}")
    for word, pair in (("steps", steps), ("offsets", offsets)):
        if len(pair) != 2:
            raise MXNetError(f"{word} must be two numbers (vertical, horizontal), not {pair}, in operator {name}")
    for offset in offsets:
        check_bounds(name, "offsets", offset)
    return (1, data.shape[2] * data.shape[3] * (len(sizes) + len(ratios) - 1), 4), data.dtype


# -- training targets


def _matches(overlaps: Array, threshold: float) -> tuple[Array, Array, Array]:
    """Return which anchors are matched, the box of each anchor, and their overlap.

    Each box is first matched to the anchor of largest overlap, in the order of overlaps. Then each other anchor is
    matched to its box of largest overlap, if that is above the threshold.
    """
    count = overlaps.shape[0]
    matched = np.zeros(count, bool)
    box = overlaps.argmax(1)
    best = overlaps[np.arange(count), box]
    left = overlaps.copy()
    for _ in range(overlaps.shape[1]):
        anchor, number = divmod(int(left.argmax()), overlaps.shape[1])
        if left[anchor, number] <= _LEAST_OVERLAP:
            break
        matched[anchor], box[anchor], best[anchor] = True, number, left[anchor, number]
        left[anchor], left[:, number] = -1, -1
    if threshold > 0:
        matched |= best > threshold
    return matched, box, best


def _offsets(anchors: Array, boxes: Array, variances: Floats) -> Array:
    """Return the offsets of boxes from anchors."""
    size, wanted = anchors[:, 2:] - anchors[:, :2], boxes[:, 2:] - boxes[:, :2]
    middle, wanted_middle = (anchors[:, :2] + anchors[:, 2:]) / 2, (boxes[:, :2] + boxes[:, 2:]) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        offsets = np.concatenate([(wanted_middle - middle) / size, np.log(wanted / size)], 1)
    found: Array = offsets / np.array(variances, anchors.dtype)
    return found


def _hard_negatives(scores: Array, candidates: Array, count: int) -> Array:
    """Return the candidates that are least likely background, given scores (class, anchor)."""
    shifted = np.exp(scores[:, candidates] - scores[:, candidates].max(0))
    background = shifted[0] / shifted.sum(0)
    hardest: Array = candidates[np.argsort(background, kind="stable")[:count]]
    return hardest


@operator(name="_contrib_MultiBoxTarget", gradient=nothing, npx="multibox_target")
def multibox_target(
    anchor: Array,
    label: Array,
    cls_pred: Array,
    *,
    overlap_threshold: float = 0.5,
    ignore_label: float = -1.0,
    negative_mining_ratio: float = -1.0,
    negative_mining_thresh: float = 0.5,
    minimum_negative_samples: int = 0,
    variances: Floats = (0.1, 0.1, 0.2, 0.2),
) -> tuple[Array, Array, Array]:
    """Return training targets: offsets (batch, anchors * 4), their mask, and classes (batch, anchors).

    Anchors are (1, anchors, 4). Labels (batch, objects, 5) have the class and two corners of each object, padded with
    -1. Class predictions are (batch, classes + 1, anchors). The target class of an anchor is the class of its object
    plus 1, or 0 for background.

    A ``negative_mining_ratio`` above 0 limits the background anchors to that many per matched anchor. It keeps those
    with the worst predictions among anchors with an overlap below ``negative_mining_thresh``; all others get
    ``ignore_label``. Images without objects get ``ignore_label`` for all anchors.
    """
    boxes = anchor.reshape(-1, 4)
    batch, count = label.shape[0], boxes.shape[0]
    targets = np.zeros((batch, count, 4), anchor.dtype)
    mask = np.zeros((batch, count, 4), anchor.dtype)
    classes = np.full((batch, count), ignore_label, anchor.dtype)
    for number in range(batch):
        ends = np.flatnonzero(label[number, :, 0] == -1)
        objects = label[number, : ends[0] if ends.size else None]
        if not len(objects) or not count:
            continue
        matched, which, best = _matches(box_overlaps(boxes, objects[:, 1:5], "corner"), overlap_threshold)
        if negative_mining_ratio > 0:
            positive = int(matched.sum())
            wanted = min(max(int(positive * negative_mining_ratio), minimum_negative_samples), count - positive)
            candidates = np.flatnonzero(~matched & (best < negative_mining_thresh))
            classes[number, _hard_negatives(cls_pred[number], candidates, wanted)] = 0
        else:
            classes[number] = 0
        classes[number, matched] = objects[which[matched], 0] + 1
        targets[number, matched] = _offsets(boxes[matched], objects[which[matched], 1:5], variances)
        mask[number, matched] = 1
    return targets.reshape(batch, -1), mask.reshape(batch, -1), classes


@multibox_target.infer
def multibox_target_shape(
    anchor: Node, label: Node, cls_pred: Node, *, negative_mining_ratio: float, negative_mining_thresh: float,
    variances: Floats,
) -> list[Spec]:  # fmt: skip
    name = "_contrib_MultiBoxTarget"
    demand_floating_boxes(name, anchor, label, cls_pred)
    fits = (
        (anchor.ndim == 3 and anchor.shape[0] == 1 and anchor.shape[2] == 4)
        and (label.ndim == 3 and label.shape[2] >= 5)
        and (cls_pred.ndim == 3 and (cls_pred.shape[0], cls_pred.shape[2]) == (label.shape[0], anchor.shape[1]))
    )
    if not fits:
        expected = "anchors [1,A,4], labels [B,N,5] and class predictions [B,C,A]"
        raise _shapes(name, expected, anchor, label, cls_pred)
    if negative_mining_ratio > 0 and negative_mining_thresh <= 0:
        raise MXNetError(f"negative_mining_thresh must be positive, not {negative_mining_thresh:g}, in operator {name}")
    _check_variances(name, variances)
    wide = (label.shape[0], anchor.shape[1] * 4), anchor.dtype
    return [wide, wide, ((label.shape[0], anchor.shape[1]), anchor.dtype)]


def _check_variances(name: str, variances: Floats) -> None:
    if len(variances) != 4:
        raise MXNetError(f"variances must be 4 numbers, not {len(variances)}, in operator {name}")


# -- detections


def _suppress(found: Array, threshold: float, force: bool) -> None:
    """Set the class to -1, in a list sorted by score, where a better box of the same class overlaps."""
    for place in range(len(found)):
        if found[place, 0] < 0:
            continue
        rest = found[place + 1 :]
        covered = box_overlaps(found[place : place + 1, 2:], rest[:, 2:], "corner")[0] >= threshold
        if not force:
            covered &= rest[:, 0] == found[place, 0]
        rest[covered, 0] = -1


@operator(name="_contrib_MultiBoxDetection", gradient=nothing, npx="multibox_detection")
def multibox_detection(
    cls_prob: Array,
    loc_pred: Array,
    anchor: Array,
    *,
    clip: bool = True,
    threshold: float = 0.01,
    background_id: int = 0,
    nms_threshold: float = 0.5,
    force_suppress: bool = False,
    variances: Floats = (0.1, 0.1, 0.2, 0.2),
    nms_topk: int = -1,
) -> Array:
    """Return detections (batch, anchors, 6): class, score and two corners; the class is -1 for no detection.

    Probabilities are (batch, classes + 1, anchors) with the background first, offsets (batch, anchors * 4) and anchors
    (1, anchors, 4). Among boxes of one class with an intersection over union of at least ``nms_threshold``, only the
    best stays; with ``force_suppress``, classes do not matter. If nms_threshold is outside (0, 1], boxes are neither
    sorted nor suppressed. A positive ``nms_topk`` keeps that many of the best boxes.
    """
    batch, count = cls_prob.shape[0], cls_prob.shape[2]
    boxes = anchor.reshape(-1, 4)
    size, middle = boxes[:, 2:] - boxes[:, :2], (boxes[:, :2] + boxes[:, 2:]) / 2
    offsets = loc_pred.reshape(batch, count, 4) * np.array(variances, loc_pred.dtype)
    place, half = offsets[..., :2] * size + middle, np.exp(offsets[..., 2:]) * size / 2
    corners = np.concatenate([place - half, place + half], -1)
    if clip:
        corners = np.clip(corners, 0, 1)
    out = np.full((batch, count, 6), -1, cls_prob.dtype)
    if not count or cls_prob.shape[1] < 2:
        return out
    kind = cls_prob[:, 1:].argmax(1)
    score = cls_prob[:, 1:].max(1)
    for number in range(batch):
        valid = np.flatnonzero(score[number] >= threshold)
        found = np.concatenate(
            [kind[number, valid, None], score[number, valid, None], corners[number, valid]], 1, dtype=out.dtype
        )
        if len(found) and 0 < nms_threshold <= 1:
            kept = min(nms_topk, len(found)) if nms_topk > 0 else len(found)
            best = found[np.argsort(-found[:, 1], kind="stable")[:kept]]
            _suppress(best, nms_threshold, force_suppress)
            found[kept:, 0] = -1
            found[:kept] = best
        out[number, : len(found)] = found
    return out


@multibox_detection.infer
def multibox_detection_shape(cls_prob: Node, loc_pred: Node, anchor: Node, *, variances: Floats) -> Spec:
    name = "_contrib_MultiBoxDetection"
    demand_floating_boxes(name, cls_prob, loc_pred, anchor)
    fits = cls_prob.ndim == 3 and anchor.shape == (1, cls_prob.shape[2], 4)
    if not fits or loc_pred.shape != (cls_prob.shape[0], cls_prob.shape[2] * 4):
        expected = "class probabilities [B,C,A], offsets [B,A*4] and anchors [1,A,4]"
        raise _shapes(name, expected, cls_prob, loc_pred, anchor)
    _check_variances(name, variances)
    return (cls_prob.shape[0], cls_prob.shape[2], 6), cls_prob.dtype


# -- symbol declarations

multibox_target.interface = Interface(outputs=("loc_target", "loc_mask", "cls_target"))


# -- precision in mixed-precision training

for _declared in (
    multibox_detection,
    multibox_prior,
    multibox_target,
):
    _declared.precision = "float32"
