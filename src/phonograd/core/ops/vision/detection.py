"""Boxes for object detection: overlap, non-maximum suppression, matching, and offsets between boxes and anchors.

A box is four numbers along the last axis: two opposite corners (``corner``) or the center and the size (``center``).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ...base.dtypes import INT64, UINT8, is_floating, name_of
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface
from ...graph.node import Node, Shape
from ...graph.operator import Array, Spec, composite, nothing, operator, single
from ...lower.lowering import Expansion
from ..math.arithmetic import maximum, minimum
from ..math.broadcasting import broadcast
from ..math.comparison import greater_equal, not_equal
from ..math.primitives import cast, reshape_to, select, slice_step
from ..math.structural import constant
from .points import positions, take_along
from .regions import assign_step

__all__ = [
    "bipartite_matching",
    "box_decode",
    "box_encode",
    "box_iou",
    "box_nms",
    "box_overlaps",
    "demand_floating_boxes",
]


def demand_floating_boxes(name: str, *inputs: Node) -> None:
    """Raise unless all inputs have one floating point dtype."""
    for node in inputs:
        if not is_floating(node.dtype):
            raise MXNetError(
                f"This operation only support floating point types, not {name_of(node.dtype)}, in operator {name}"
            )
        if node.dtype != inputs[0].dtype:
            raise MXNetError(
                f"operator {name} takes arrays of one dtype, not {name_of(inputs[0].dtype)} and "
                f"{name_of(node.dtype)}; use astype"
            )


def _corners(boxes: Array, box_format: str) -> tuple[Array, Array]:
    """Return the lower and the upper corners of boxes."""
    first, second = boxes[..., :2], boxes[..., 2:4]
    if box_format == "corner":
        return first, second
    half = second / 2
    return first - half, first + half


def _middles(boxes: Array, box_format: str) -> tuple[Array, Array]:
    """Return the centers and the sizes of boxes."""
    first, second = boxes[..., :2], boxes[..., 2:4]
    return ((first + second) / 2, second - first) if box_format == "corner" else (first, second)


def box_overlaps(lhs: Array, rhs: Array, box_format: str) -> Array:
    """Return the intersection over union of every box of one list with every box of another."""
    lower, upper = _corners(lhs, box_format)
    other_lower, other_upper = _corners(rhs, box_format)
    sides = np.minimum(upper[:, None], other_upper) - np.maximum(lower[:, None], other_lower)
    common = np.prod(np.maximum(sides, 0), axis=-1)
    area = np.prod(np.maximum(upper - lower, 0), axis=-1)[:, None]
    other_area = np.prod(np.maximum(other_upper - other_lower, 0), axis=-1)
    union = area + other_area - common
    shares: Array = np.divide(common, union, out=np.zeros_like(common), where=union != 0)
    return shares


def _expand_box_iou(lhs: Node, rhs: Node, *, format: str) -> Node:
    first, second = lhs.size // 4, rhs.size // 4

    def sides(boxes: Node, shape: Shape) -> list[tuple[Node, Node]]:
        """Return the lower and the upper bounds of boxes along both axes."""
        rows = reshape_to(boxes, (boxes.size // 4, 4))
        columns = [reshape_to(slice_step(rows, (0, c), (rows.shape[0], c + 1)), shape) for c in range(4)]
        if format == "corner":
            return [(columns[0], columns[2]), (columns[1], columns[3])]
        halves = [columns[2] / 2, columns[3] / 2]
        return [(middle - half, middle + half) for middle, half in zip(columns[:2], halves, strict=True)]

    def length(low: Node, high: Node) -> Node:
        return single(maximum(high - low, 0))

    ours, theirs = sides(lhs, (first, 1)), sides(rhs, (1, second))
    shared = [length(maximum(a, c), minimum(b, d)) for (a, b), (c, d) in zip(ours, theirs, strict=True)]
    common = shared[0] * shared[1]
    areas = [length(*boxes[0]) * length(*boxes[1]) for boxes in (ours, theirs)]
    union = areas[0] + areas[1] - common
    share = select(single(not_equal(union, constant(0, union.dtype))), common / union, 0)
    return reshape_to(share, (*lhs.shape[:-1], *rhs.shape[:-1]))


@operator(name="_contrib_box_iou", gradient=nothing, lowering=Expansion(_expand_box_iou), npx="box_iou")
def box_iou(lhs: Array, rhs: Array, *, format: Literal["center", "corner"] = "corner") -> Array:
    """Return the intersection over union of every box of lhs with every box of rhs. The gradient is zero."""
    found = box_overlaps(lhs.reshape(-1, 4), rhs.reshape(-1, 4), format)
    return found.reshape(*lhs.shape[:-1], *rhs.shape[:-1])


@box_iou.infer
def box_iou_shape(lhs: Node, rhs: Node) -> Spec:
    demand_floating_boxes("_contrib_box_iou", lhs, rhs)
    for word, node in (("lhs", lhs), ("rhs", rhs)):
        if node.ndim < 2:
            raise MXNetError(f"{word} must have dim >= 2 {node.ndim} provided to operator _contrib_box_iou")
        if node.shape[-1] != 4:
            raise MXNetError(
                f"last dimension of {word} must be 4 {node.shape[-1]} provided to operator _contrib_box_iou"
            )
    return (*lhs.shape[:-1], *rhs.shape[:-1]), lhs.dtype


# -- non-maximum suppression


@operator(gradient=nothing)
def _nms_order(
    data: Array,
    *,
    overlap_thresh: float,
    valid_thresh: float,
    topk: int,
    coord_start: int,
    score_index: int,
    id_index: int,
    background_id: int,
    force_suppress: bool,
    in_format: str,
) -> Array:
    """Return the indices of the kept boxes of each list, best first, padded with -1."""
    out = np.full(data.shape[:-1], -1, np.int64)
    for place in np.ndindex(data.shape[:-2]):
        boxes = data[place]
        valid = boxes[:, score_index] > valid_thresh
        if id_index >= 0:
            valid &= boxes[:, id_index] != background_id
        waiting = np.flatnonzero(valid)
        waiting = waiting[np.argsort(-boxes[waiting, score_index], kind="stable")]
        if topk > 0:
            waiting = waiting[:topk]
        kept: list[int] = []
        while waiting.size:
            best, waiting = waiting[0], waiting[1:]
            kept.append(best)
            coordinates = boxes[:, coord_start : coord_start + 4]
            covered = box_overlaps(coordinates[best][None], coordinates[waiting], in_format)[0] > overlap_thresh
            if id_index >= 0 and not force_suppress:
                covered &= boxes[waiting, id_index] == boxes[best, id_index]
            waiting = waiting[~covered]
        out[(*place, slice(0, len(kept)))] = kept
    return out


@_nms_order.infer
def nms_order_shape(data: Node) -> Spec:
    return data.shape[:-1], INT64


@operator(
    gradient=nothing,
    lowering=Expansion(lambda index: cast(greater_equal(index, constant(0, index.dtype)), UINT8)),
)
def _is_kept(index: Array) -> Array:
    """Return 1 for every box index, and 0 for -1."""
    kept: Array = index >= 0
    return kept.astype(np.uint8)


@_is_kept.infer
def is_kept_shape(index: Node) -> Spec:
    return index.shape, UINT8


def _reformat(boxes: Node, start: int, in_format: str, out_format: str) -> Node:
    """Return boxes with their four coordinates, which begin at ``start`` on the last axis, in another format."""
    if in_format == out_format:
        return boxes
    outer = boxes.shape[:-1]

    def part(first: int) -> tuple[Shape, Shape]:
        return (*(0,) * len(outer), first), (*outer, first + 2)

    first = slice_step(boxes, *part(start))
    second = slice_step(boxes, *part(start + 2))
    if out_format == "center":
        changed = ((first + second) * 0.5, second - first)
    else:
        changed = (first - second * 0.5, first + second * 0.5)
    return assign_step(assign_step(boxes, changed[0], *part(start)), changed[1], *part(start + 2))


@composite(name="_contrib_box_nms", aliases=("_contrib_box_non_maximum_suppression",), npx="box_nms")
def box_nms(
    data: Node,
    *,
    overlap_thresh: float = 0.5,
    valid_thresh: float = 0.0,
    topk: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = -1,
    background_id: int = -1,
    force_suppress: bool = False,
    in_format: Literal["center", "corner"] = "corner",
    out_format: Literal["center", "corner"] = "corner",
) -> Node:
    """Apply non-maximum suppression to each list of boxes: keep the best, sorted by score, padded with -1.

    Boxes with a score above ``valid_thresh`` and a class other than ``background_id`` take part, at most ``topk`` of
    them. A box is dropped if its intersection over union with a better box of its class is above ``overlap_thresh``.
    With ``force_suppress`` or without ``id_index``, classes do not matter. Gradients go to the kept boxes.
    """
    demand_floating_boxes("_contrib_box_nms", data)
    if data.ndim < 2:
        raise MXNetError(
            "input must have dim >= 2 the last two dimensions are num_box and box_width "
            f"{format_shape(data.shape)} provided to operator _contrib_box_nms"
        )
    width = data.shape[-1]
    if coord_start < 0 or coord_start + 4 > width:
        raise MXNetError(f"coordinates: ({coord_start}, {coord_start + 3}) out of range:: (0, {width})")
    if not 0 <= score_index < width:
        raise MXNetError(f"score_index: {score_index} out of range: (0, {width})")
    if id_index >= width:
        raise MXNetError(f"id_index: {id_index} out of range: (0, {width})")
    for word, index in (("score_index", score_index), ("id_index", id_index)):
        if coord_start <= index < coord_start + 4:
            raise MXNetError(f"{word}: {index} conflict with coordinates: ({coord_start}, {coord_start + 3}).")
    if id_index == score_index:
        raise MXNetError(f"id_index: {id_index} conflict with score_index: {score_index}")
    order = single(
        _nms_order(
            data,
            overlap_thresh=overlap_thresh,
            valid_thresh=valid_thresh,
            topk=topk,
            coord_start=coord_start,
            score_index=score_index,
            id_index=id_index,
            background_id=background_id,
            force_suppress=force_suppress,
            in_format=in_format,
        )
    )
    column = (*order.shape, 1)
    number = reshape_to(positions(order, data.shape[-2], "clip"), column)
    chosen = take_along(data, broadcast(number, data.shape), data.ndim - 2)
    kept = reshape_to(single(_is_kept(order)), column)
    return select(kept, _reformat(chosen, coord_start, in_format, out_format), -1)


# -- matching and offsets


@operator(name="_contrib_bipartite_matching", gradient=nothing, npx="bipartite_matching")
def bipartite_matching(
    data: Array, *, is_ascend: bool = False, threshold: float, topk: int = -1
) -> tuple[Array, Array]:
    """Return a greedy matching of a score matrix: the column of each row and the row of each column.

    Unmatched rows and columns have -1. Pairs are matched in order of their scores, as long as a score is above
    ``threshold`` (below it, if ``is_ascend``). A positive ``topk`` stops after topk + 1 pairs, as in MXNet.
    """
    width = data.shape[-1]
    limit = data.dtype.type(threshold)
    rows = np.full(data.shape[:-1], -1, data.dtype)
    columns = np.full((*data.shape[:-2], width), -1, data.dtype)
    for place in np.ndindex(data.shape[:-2]):
        scores = data[place].reshape(-1)
        matched = 0
        for flat in np.argsort(scores if is_ascend else -scores, kind="stable"):
            row, column = divmod(int(flat), width)
            if rows[(*place, row)] >= 0 or columns[(*place, column)] >= 0:
                continue
            beyond = scores[flat] < limit if is_ascend else scores[flat] > limit
            if not beyond or (topk > 0 and matched > topk):
                break
            rows[(*place, row)], columns[(*place, column)] = column, row
            matched += 1
    return rows, columns


@bipartite_matching.infer
def bipartite_matching_shape(data: Node) -> list[Spec]:
    demand_floating_boxes("_contrib_bipartite_matching", data)
    if data.ndim < 2:
        raise MXNetError(
            f"score matrix must have dim >= 2 {data.ndim} provided to operator _contrib_bipartite_matching"
        )
    return [(data.shape[:-1], data.dtype), ((*data.shape[:-2], data.shape[-1]), data.dtype)]


@operator(name="_contrib_box_encode", gradient=nothing, npx="box_encode")
def box_encode(
    samples: Array, matches: Array, anchors: Array, refs: Array, means: Array, stds: Array
) -> tuple[Array, Array]:
    """Return the offsets of matched boxes from anchors, and masks of the sampled anchors.

    An offset is the distance of the centers in units of the anchor's size, and the logarithm of the ratio of the
    sizes; ``means`` are subtracted and the result is divided by ``stds``. Anchors with a sample of at most 0.5 have
    zeros in both results.
    """
    chosen = np.take_along_axis(refs, np.clip(matches.astype(np.int64), 0, refs.shape[1] - 1)[..., None], 1)
    middle, size = _middles(anchors, "corner")
    wanted_middle, wanted_size = _middles(chosen, "corner")
    offsets = np.concatenate([(wanted_middle - middle) / size, np.log(wanted_size / size)], axis=-1)
    mask = np.broadcast_to((samples > 0.5)[..., None], offsets.shape)
    targets = np.where(mask, (offsets - means) / stds, samples.dtype.type(0))
    return targets.astype(samples.dtype), mask.astype(samples.dtype)


@box_encode.infer
def box_encode_shape(samples: Node, matches: Node, anchors: Node, refs: Node, means: Node, stds: Node) -> list[Spec]:
    inputs = (samples, matches, anchors, refs, means, stds)
    demand_floating_boxes("_contrib_box_encode", *inputs)
    fits = (
        samples.ndim == 2
        and matches.shape == samples.shape
        and anchors.shape == (*samples.shape, 4)
        and refs.ndim == 3
        and (refs.shape[0], refs.shape[2]) == (samples.shape[0], 4)
        and means.shape == stds.shape == (4,)
    )
    if not fits:
        shapes = ", ".join([format_shape(node.shape) for node in inputs])
        raise MXNetError(
            "_contrib_box_encode takes samples [B,N], matches [B,N], anchors [B,N,4], refs [B,M,4], means [4] and "
            f"stds [4], not {shapes}"
        )
    return [(anchors.shape, samples.dtype)] * 2


@operator(name="_contrib_box_decode", gradient=nothing, npx="box_decode")
def box_decode(
    data: Array,
    anchors: Array,
    *,
    std0: float = 1.0,
    std1: float = 1.0,
    std2: float = 1.0,
    std3: float = 1.0,
    clip: float = -1.0,
    format: Literal["center", "corner"] = "center",
) -> Array:
    """Return the boxes, as corners, at given offsets from anchors: the inverse of ``box_encode``.

    ``format`` is that of the anchors. A ``clip`` above zero limits the logarithm of the ratio of sizes. The gradient
    is zero.
    """
    offsets = data * np.array([std0, std1, std2, std3], data.dtype)
    ratio = offsets[..., 2:]
    if clip > 0:
        ratio = np.minimum(ratio, data.dtype.type(clip))
    middle, size = _middles(anchors, format)
    place = offsets[..., :2] * size + middle
    half = np.exp(ratio) * size / 2
    return np.concatenate([place - half, place + half], axis=-1)


@box_decode.infer
def box_decode_shape(data: Node, anchors: Node) -> Spec:
    demand_floating_boxes("_contrib_box_decode", data, anchors)
    if data.ndim != 3 or data.shape[2] != 4 or anchors.shape != (1, *data.shape[1:]):
        raise MXNetError(
            "_contrib_box_decode takes offsets [B,N,4] and anchors [1,N,4], not "
            f"{format_shape(data.shape)} and {format_shape(anchors.shape)}"
        )
    return data.shape, data.dtype


# -- symbol declarations

box_nms.interface = Interface(outputs=2, shown=1)
bipartite_matching.interface = Interface(outputs=2)
box_encode.interface = Interface(outputs=2)


# -- precision in mixed-precision training

for _declared in (
    box_iou,
    box_nms,
):
    _declared.precision = "widest"
