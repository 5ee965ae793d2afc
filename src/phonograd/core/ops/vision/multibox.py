"""Detection with many anchor boxes of fixed places and sizes: the anchors, what to learn for them, and what they found.

An anchor is four numbers, two opposite corners, in units of the image's width and height. Everything here is piecewise
constant or made for use behind a network: gradients are zero.
"""

from __future__ import annotations

import numpy as np

from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface
from ...graph.node import Node
from ...graph.operator import Array, Spec, nothing, operator
from ...graph.parameters import Floats
from .detection import box_overlaps, demand_floating_boxes

__all__ = ["multibox_detection", "multibox_prior", "multibox_target"]

#: an anchor overlaps a box if their intersection over union is above this
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

    Around each element there are one anchor of every size with the first ratio of width and height, and one of the
    first size with every other ratio. Elements are ``steps`` (vertical, horizontal) apart, by default so that they
    fill the image, and the first is ``offsets`` of a step away from the edge. ``clip`` cuts anchors at the edges.
    """
    rows, columns = data.shape[2:]
    # float32, as in MXNet: where anchors overlap a box equally, the last bit decides which of them gets it
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
    return (1, data.shape[2] * data.shape[3] * (len(sizes) + len(ratios) - 1), 4), data.dtype


# -- what to learn


def _matches(overlaps: Array, threshold: float) -> tuple[Array, Array, Array]:
    """Return which anchors are matched, the box of each anchor, and how much the two overlap.

    Each box first gets the anchor that overlaps it most, in the order of overlaps; then each other anchor the box that
    it overlaps most, if that is above the threshold.
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
    """Return where boxes are, seen from anchors."""
    size, wanted = anchors[:, 2:] - anchors[:, :2], boxes[:, 2:] - boxes[:, :2]
    middle, wanted_middle = (anchors[:, :2] + anchors[:, 2:]) / 2, (boxes[:, :2] + boxes[:, 2:]) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        offsets = np.concatenate([(wanted_middle - middle) / size, np.log(wanted / size)], 1)
    found: Array = offsets / np.array(variances, anchors.dtype)
    return found


def _hard_negatives(scores: Array, candidates: Array, count: int) -> Array:
    """Return the anchors among candidates which are least likely background, given scores (class, anchor)."""
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
    """Return what a detector is to learn: offsets (batch, anchors * 4), a mask of them, and classes (batch, anchors).

    Anchors are (1, anchors, 4); labels (batch, objects, 5) have the class and two corners of each object, filled up
    with -1; class predictions are (batch, classes + 1, anchors). An anchor gets the class of its object plus 1, or 0
    for none. With ``negative_mining_ratio`` above 0 only that many anchors without an object for each with one are 0,
    those which the predictions get wrong most among those whose overlap is below ``negative_mining_thresh``; others
    have ``ignore_label``. So have all where there is no object.
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


# -- what was found


def _suppressed(found: Array, threshold: float, force: bool) -> None:
    """Mark with class -1, in a list with the best first, what a better one of its class covers."""
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
    """Return what was found: (batch, anchors, 6) with class, score and two corners; the class is -1 where nothing is.

    Probabilities are (batch, classes + 1, anchors) with the background first, offsets (batch, anchors * 4) and anchors
    (1, anchors, 4). Of boxes of one class (of all, with ``force_suppress``) whose intersection over union is at least
    ``nms_threshold`` the best stays. Unless nms_threshold is in (0, 1], boxes are neither sorted nor left out. A
    positive ``nms_topk`` takes as many of the best.
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
            _suppressed(best, nms_threshold, force_suppress)
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


# -- how they appear in symbols

multibox_target.interface = Interface(outputs=("loc_target", "loc_mask", "cls_target"))
